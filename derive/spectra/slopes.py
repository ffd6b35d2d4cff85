"""The law of D²: f(h) = φ'(h)² for a preactivation h ~ N(0, q) (source 002, eq. 23, Table 1).

Closed forms of M(z) = ⟨f/(z − f)⟩ are found for

* piecewise linear φ: f takes finitely many values, with the Gaussian's weights of the pieces;
* f = e^{c − a h²}: μ_k = e^{ck}/√(1 + 2akq), a series that is Lerch's transcendent;
* even rational f: partial fractions in h², and ⟨1/(h² + b)⟩ = √(π/2qb) e^{b/2q} erfc √(b/2q).

For anything else M is an average that is evaluated numerically.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import mpmath
import sympy
from flint import acb, arb, ctx

from ..activations.functions import Activation, as_activation
from ..arithmetic import balls
from ..arithmetic.balls import Ball, compile_arb
from ..errors import InputError
from ..expressions import parse_number
from ..gaussian import closed_forms
from ..gaussian.brackets import GaussianAverage
from ..gaussian.piecewise import logistic_to_tanh
from ..symbols import q
from ..symbols import z as h
from ..work.caches import cache
from .laws import Atomic, Law, z

RANGE = (sympy.Integer(10) ** -100, sympy.Integer(10) ** 100)
"""The variances whose laws keep their digits in floats."""


def check_variance(name: str, value: sympy.Expr | float) -> sympy.Expr:
    """A variance as an exact number or a symbol; InputError beyond `RANGE`."""
    at = parse_number(name, value)
    if at.is_positive is False or (at.is_number and not RANGE[0] <= at <= RANGE[1]):
        raise InputError(name, value, "a positive variance, 1e-100 to 1e100")
    return at


def slope_law(activation: Activation, variance: sympy.Expr | float = q, argument: str = "q") -> Law:
    """The law of D² = φ'(h)², h ~ N(0, variance) (source 002, eqs. 19, 20 and 23).

    Arguments:
        activation: φ, or its name.
        variance: q, a positive number or a symbol.
        argument: what an error calls the variance.

    Raises InputError for an activation whose slope is zero almost everywhere, and for a variance
    (named `argument`) beyond 1e±100.

    >>> slope_law("relu").atoms
    {0: 1/2, 1: 1/2}
    >>> slope_law("hard_tanh", "1/10").moment(1)
    erf(sqrt(5))
    """
    activation = as_activation(activation)
    return _slope_law(activation, check_variance(argument, variance))


@cache(entries=2**10)
def _slope_law(activation: Activation, at: sympy.Expr) -> Law:
    """As `slope_law`, checked."""
    slopes = [piece.expr.diff(h) for piece in activation.pieces]
    if any(map(_varies, slopes)):
        return Slopes(activation, at)
    slopes = [sympy.simplify(slope) for slope in slopes]
    if all(slope == 0 for slope in slopes):
        raise InputError("activation", str(activation), "one that is not constant")
    if any(slope.has(h) for slope in slopes):
        return Slopes(activation, at)
    masses: dict[sympy.Expr, sympy.Expr] = {}
    ends = [-sympy.oo, *activation.kinks, sympy.oo]
    for slope, (lower, upper) in zip(slopes, pairwise(ends), strict=True):
        mass = sympy.simplify(_below(upper, at) - _below(lower, at))
        masses[slope**2] = sympy.simplify(masses.get(slope**2, 0) + mass)
    return Atomic(masses)


def _varies(slope: sympy.Expr) -> bool:
    """True if two of its values tell that it is not constant: sooner seen than by `simplify`."""
    one, other = (slope.subs(h, sympy.Rational(at, 7)).evalf(30) for at in (2, 9))
    return one.is_Float and other.is_Float and bool(abs(one - other) > 1e-9 * abs(one))


def _below(end: sympy.Expr, variance: sympy.Expr) -> sympy.Expr:
    """P(h < end)."""
    return (1 + sympy.erf(end / sympy.sqrt(2 * variance))) / 2


def _ball(value: sympy.Expr) -> arb:
    """A sympy number in Arb's working precision."""
    return compile_arb(value, h)(acb(0), False).real


@dataclass(frozen=True, repr=False)
class Slopes(Law):
    """The law of f(h) = φ'(h)² where φ' is not piecewise constant.

    Attributes:
        activation: φ.
        variance: q, of h.
    """

    activation: Activation
    variance: sympy.Expr

    @cached_property
    def squared(self) -> sympy.Expr:
        """f(h) = φ'(h)², an expression in `activations.z`."""
        return self.activation.derivative(1) ** 2

    @cached_property
    def exponential(self) -> tuple[sympy.Expr, sympy.Expr] | None:
        """(c, a) where f = e^{c − a h²} with a > 0, or None."""
        if not self.activation.is_smooth:
            return None
        logarithm = sympy.expand_log(sympy.log(sympy.powsimp(self.squared)), force=True)
        if not logarithm.is_polynomial(h):
            return None
        polynomial = sympy.Poly(logarithm, h)
        a = -polynomial.coeff_monomial(h**2)
        if polynomial.degree() != 2 or polynomial.coeff_monomial(h) != 0 or not a.is_positive:
            return None
        return polynomial.coeff_monomial(1), a

    def moment(self, k: int) -> sympy.Expr:
        """μ_k = ⟨φ'^{2k}⟩ (20); without a closed form an average that `evalf` evaluates."""
        if self.exponential:
            c, a = self.exponential
            return sympy.exp(c * k) / sympy.sqrt(1 + 2 * a * k * self.variance)
        slopes = (1,) * (2 * k)
        closed = None if k > 4 else closed_forms.average(self.activation, slopes, at=self.variance)
        if closed is not None:
            return closed
        return GaussianAverage(self.squared**k, (h,), (self.variance,))

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """⟨f/(z − f)⟩ in closed form: Lerch's transcendent, or error functions."""
        found = self._lerch() if self.exponential else self._partial_fractions()
        if found is None:
            raise self._unknown("M(z)")
        return found.subs(z, at)

    def _lerch(self) -> sympy.Expr:
        """Σ_k e^{ck} z^{−k}/√(1 + 2akq) = (2aq)^{−1/2} (e^c/z) Φ(e^c/z, ½, 1 + 1/(2aq))."""
        c, a = self.exponential or (0, 0)
        scale = 2 * a * self.variance
        ratio = sympy.exp(c) / z
        return (
            ratio / sympy.sqrt(scale) * sympy.lerchphi(ratio, sympy.Rational(1, 2), 1 + 1 / scale)
        )

    def _partial_fractions(self) -> sympy.Expr | None:
        if not (self.activation.is_smooth and self.squared.is_rational_function(h)):
            return None
        square = sympy.Symbol("u")
        resolvent = sympy.cancel(self.squared / (z - self.squared))
        if sympy.cancel(resolvent - resolvent.subs(h, -h)) != 0:
            return None
        in_square = resolvent.subs(h, sympy.sqrt(square))
        numerator, denominator = sympy.fraction(sympy.cancel(in_square))
        # With z = y² the roots of 1/z − 1/f split over the rationals in y.
        y = sympy.Symbol("y", positive=True)
        roots = sympy.roots(sympy.Poly(denominator.subs(z, y**2), square))
        if sum(roots.values()) != sympy.degree(denominator, square) or max(roots.values()) > 1:
            return None
        total = sympy.S.Zero
        for root in roots:
            residue = (numerator / denominator.diff(square)).subs(z, y**2).subs(square, root)
            b = sympy.factor(-root)
            ratio = b / (2 * self.variance)
            average = (
                sympy.sqrt(sympy.pi / (2 * self.variance * b))
                * sympy.exp(ratio)
                * sympy.erfc(sympy.sqrt(ratio))
            )
            total += sympy.simplify(residue) * average
        return total.subs(y, sympy.sqrt(z))

    def M_at(self, point: mpmath.mpc) -> mpmath.mpc:
        """⟨f/(z − f)⟩ for any activation, by Arb's adaptive integration between the kinks."""
        precision = mpmath.mp.prec + 10
        total = acb(0)
        with ctx.workprec(precision):
            target = acb(arb(point.real), arb(point.imag))
            variance = _ball(self.variance)
            reach = (1.4 * precision * variance).sqrt().mid()
            for slope, lower, upper in self._balls:
                left = _ball(lower).mid().max(-reach) if lower.is_finite else -reach
                right = _ball(upper).mid().min(reach) if upper.is_finite else reach
                if left < right:

                    def integrand(x: acb, analytic: bool, slope: Ball = slope) -> acb:
                        f = slope(x, analytic) ** 2
                        return f / (target - f) * (-x * x / (2 * variance)).exp()

                    total += balls.integral(integrand, left, right)
            total /= (2 * arb.pi() * variance).sqrt()
        return mpmath.mpmathify(total)

    @cached_property
    def _balls(self) -> list[tuple[Ball, sympy.Expr, sympy.Expr]]:
        return [
            (compile_arb(logistic_to_tanh(piece.expr.diff(h)), h), piece.lower, piece.upper)
            for piece in self.activation.pieces
        ]

    def __str__(self) -> str:
        return f"φ'(h)² of {self.activation}, h ~ N(0, {self.variance})"

    def latex(self) -> str:
        """The square of φ' and the law of h, in LaTeX."""
        square, q_star = sympy.latex(self.squared), sympy.latex(self.variance)
        return rf"\varphi'(h)^2 = {square},\; h \sim \mathcal{{N}}(0, {q_star})"


def masked(law: Law, keep: sympy.Expr) -> Law:
    """The law of (μ/p)² D², μ = 1 with chance p and else 0, one for each neuron: dropout's.

    >>> masked(Atomic({1: 1}), sympy.Rational(1, 2)).atoms
    {0: 1/2, 4: 1/2}
    """
    if not isinstance(law, Atomic):
        return Masked(law, keep)
    masses = {at / keep**2: keep * mass for at, mass in law.masses if at != 0}
    return Atomic({sympy.S.Zero: 1 - sum(masses.values()), **masses})


@dataclass(frozen=True, repr=False)
class Masked(Law):
    """The law of t/p² with chance p, t of the law given, and else of 0.

    Attributes:
        law: of t.
        keep: p.
    """

    law: Law
    keep: sympy.Expr

    def moment(self, k: int) -> sympy.Expr:
        """p^{1−2k} m_k."""
        return self.keep ** (1 - 2 * k) * self.law.moment(k)

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """p M(p² z)."""
        return self.keep * self.law.M(self.keep**2 * at)

    def M_at(self, point: mpmath.mpc) -> mpmath.mpc:
        """The same at a number."""
        keep = mpmath.mpmathify(sympy.N(self.keep, mpmath.mp.dps))
        return keep * self.law.M_at(keep**2 * point)

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """The law's, and 0."""
        found = {at / self.keep**2: self.keep * mass for at, mass in self.law.atoms.items()}
        found[sympy.S.Zero] = found.get(sympy.S.Zero, sympy.S.Zero) + 1 - self.keep
        return found

    def __str__(self) -> str:
        return f"({self.law})/{self.keep}² with chance {self.keep}, else 0"

    def latex(self) -> str:
        """The mixture in LaTeX."""
        p = sympy.latex(self.keep)
        return rf"\mu\left({self.law.latex()}\right)/\left({p}\right)^2,\quad P(\mu = 1) = {p}"
