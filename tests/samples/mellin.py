"""Densities from Mellin transforms M(s) = Π_a Γ(a+s)/Γ(a) · Π_b Γ(b)/Γ(b+s), by the way back.

    t f(t) = (1/2πi)∫ t^{−s} M(s) ds,      P(τ ≤ t) = −(1/2πi)∫ t^{−s} M(s) ds/s,

up a vertical line near the saddle point of t^{−s} M(s), by the trapezoid rule: the integrand is
analytic and falls off exponentially, so halving the step doubles the digits. (mpmath's series of
the Meijer G function, which f is, fail in the tail, where they cancel.) Derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import sympy
from flint import acb, arb, ctx, fmpq

from derivations.moments.linear_laws import K0, Law
from derive.arithmetic import trapezoid
from derive.arithmetic.balls import to_mpf

MAX_HALVINGS = 12


def squared_norm_density(law: Law, value: float) -> mpmath.mpf:
    """The density of |z|² at a positive number, K0 = 1, to mpmath's working precision."""
    mellin, scale = _of(law)
    return mellin.density(mpmath.mpf(value) / scale) / scale


def squared_norm_cdf(law: Law, value: float) -> mpmath.mpf:
    """P(|z|² ≤ value), K0 = 1, to mpmath's working precision."""
    mellin, scale = _of(law)
    return mellin.cdf(mpmath.mpf(value) / scale)


def _of(law: Law) -> tuple[Mellin, mpmath.mpf]:
    digits = mpmath.mp.dps + 5
    scale = law.scale.subs(K0, sympy.Float(1, digits)).evalf(digits)
    gammas, betas = (
        tuple(fmpq(int(each.p), int(each.q)) for each in parameters)
        for parameters in (law.gammas, law.betas)
    )
    return Mellin(gammas, betas), mpmath.mpf(scale)


@dataclass(frozen=True)
class Mellin:
    """E τ^s by its parameters a and b, no more b than a and none in common, all positive."""

    gammas: tuple[fmpq, ...]
    betas: tuple[fmpq, ...]

    def density(self, t: mpmath.mpf) -> mpmath.mpf:
        """f(t), to mpmath's working precision."""
        return self._inverse(t, 0) / t

    def cdf(self, t: mpmath.mpf) -> mpmath.mpf:
        """P(τ ≤ t), to mpmath's working precision."""
        return self._inverse(t, 1)

    def _inverse(self, t: mpmath.mpf, integrals: int) -> mpmath.mpf:
        if len(self.gammas) == len(self.betas):
            return self._bounded(t, integrals)
        drop = float(mpmath.log(t))
        sigma = self._saddle(drop)
        if integrals and abs(sigma) < 0.1:
            sigma = 0.1
        step = 0.5 / self._log_mellin_slope(sigma, 1) ** 0.5
        lost = max(0.0, -drop)  # the integrand's size over the result's, on that line
        digits, precision = mpmath.mp.dps, mpmath.mp.prec + int(1.5 * lost) + 20
        with ctx.workprec(precision), mpmath.workprec(precision):
            log_t = arb(t).log()
            settled = trapezoid.halved(
                lambda step, half: self._line(log_t, sigma, step, half, integrals),
                step,
                MAX_HALVINGS,
                lambda total, change: bool(change <= abs(total) * 10.0 ** (2 - digits)),
            )
        if settled is None:
            raise ArithmeticError(f"the inverse Mellin transform at {t} does not converge")
        found = mpmath.mpf(settled[0])
        return 1 - found if integrals and sigma > 0 else abs(found)

    def _line(self, log_t: arb, sigma: float, step: float, half: int, integrals: int) -> mpmath.mpf:
        """The sum over s = sigma + i (k + half/2) step from the real axis up: the lower half is the
        complex conjugate."""
        constant = sum((arb(b).lgamma() for b in self.betas), arb(0))
        constant -= sum((arb(a).lgamma() for a in self.gammas), arb(0))
        total, smallest, k = arb(0), arb(2) ** -ctx.prec, 0
        while True:
            s = acb(arb(sigma), (2 * k + half) * arb(step) / 2)
            power = constant - s * log_t
            power += sum(((s + a).lgamma() for a in self.gammas), acb(0))
            power -= sum(((s + b).lgamma() for b in self.betas), acb(0))
            term = power.exp() / s**integrals
            total += term.real / (1 if k or half else 2)
            if k and abs(term) < abs(total) * smallest:
                return to_mpf(total * step / arb.pi())
            k += 1

    def _saddle(self, log_t: float) -> float:
        """Roughly where d/ds log M(s) = log t, and not close to the first pole: the slope rises."""
        nearest = float(min(self.gammas))
        low, high = -nearest + min(nearest, 1.0) / 2, 1.0
        if self._log_mellin_slope(low, 0) >= log_t:
            return low
        while self._log_mellin_slope(high, 0) < log_t:
            high *= 2
        for _ in range(20):
            middle = (low + high) / 2
            rises = self._log_mellin_slope(middle, 0) < log_t
            low, high = (middle, high) if rises else (low, middle)
        return high

    def _log_mellin_slope(self, s: float, order: int) -> float:
        up = sum(mpmath.fp.psi(order, float(a) + s) for a in self.gammas)
        return float(up - sum(mpmath.fp.psi(order, float(b) + s) for b in self.betas))

    def _bounded(self, t: mpmath.mpf, integrals: int) -> mpmath.mpf:
        """As many b as a: products of Beta variables, below 1, where the series do converge."""
        if t >= 1:
            return mpmath.mpf(integrals)
        tops, bottoms = (
            [mpmath.mpf(int(x.p)) / int(x.q) for x in each] for each in (self.gammas, self.betas)
        )
        constant = mpmath.fprod(map(mpmath.gamma, bottoms)) / mpmath.fprod(map(mpmath.gamma, tops))
        above = [[mpmath.mpf(1)] * integrals, bottoms]
        below = [tops, [mpmath.mpf(0)] * integrals]
        return mpmath.re(constant * mpmath.meijerg(above, below, t))
