"""Critical points: K* = 0, and isolated ones with ⟨σσ''⟩ = 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import mpmath
import sympy

from ..activations.functions import Activation
from ..display.objects import Shown
from ..errors import InputError
from ..gaussian import closed_forms
from ..gaussian.brackets import Bracket
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point, average_at, small_kernel_average
from ..layers import dense
from ..symbols import K, z
from ..work.caches import cache
from .fixed_points import is_line, slope_at_zero
from .gains import rounded, short
from .layer_functions import floating, functions, number
from .zeros import between, even_part, extended, profile, same_power, zeros

_MAX_ORDER = 40
REPELS = "the one critical point, K* = 0, repels: K grows away from it"


class Errors(NamedTuple):
    """How far the numbers of a critical point can be from the truth; 0 where they are exact."""

    K: sympy.Expr = sympy.Integer(0)
    C_b: sympy.Expr = sympy.Integer(0)
    C_W: sympy.Expr = sympy.Integer(0)
    coefficient: sympy.Expr = sympy.Integer(0)


EXACTLY = Errors()


@dataclass(frozen=True, repr=False)
class CriticalPoint(Shown):
    """χ_∥ = χ_⊥ = 1 at K*, where K' − K* = ΔK + coefficient·ΔK^{1+exponent} + ….

    `K` is None where every K is fixed. `coefficient` is 0 where the deviation vanishes identically,
    or faster than every power; then `stability` says which way it goes all the same. `errors` are
    those of K, C_b, C_W and the coefficient: the signs on either side of the zero prove K*'s, and
    the others follow from it, to first order, and from rounding.
    """

    C_b: sympy.Expr
    C_W: sympy.Expr
    K: sympy.Expr | None
    coefficient: sympy.Expr
    exponent: sympy.Expr
    stability: str
    errors: Errors = EXACTLY

    def decay(self, layer: sympy.Symbol) -> sympy.Expr | None:
        """|K − K*| at large depth, (exponent |coefficient| ℓ)^{−1/exponent}, or None."""
        if self.coefficient == 0 or self.stability == "unstable":
            return None
        return (self.exponent * abs(self.coefficient) * layer) ** (-1 / self.exponent)

    def latex(self) -> str:
        """K*, C_b, C_W and the stability in LaTeX."""
        at = r"\text{every } K" if self.K is None else f"K^* = {sympy.latex(rounded(self.K))}"
        return (
            rf"{at},\; C_b = {sympy.latex(rounded(self.C_b))},\; "
            rf"C_W = {sympy.latex(rounded(self.C_W))}\ \text{{({self.stability})}}"
        )

    def __str__(self) -> str:
        at = "every K" if self.K is None else f"K* = {short(self.K)}"
        return f"{at}: C_b = {short(self.C_b)}, C_W = {short(self.C_W)}, {self.stability}"


class Points(NamedTuple):
    """Where χ_∥ = χ_⊥ = 1: at K* = 0, if it is critical, and at isolated K* > 0; why these make no
    class, if they make none; and the K between which an isolated K* was looked for."""

    at_zero: CriticalPoint | None
    isolated: tuple[CriticalPoint, ...]
    reason: str
    searched: tuple[sympy.Expr, sympy.Expr] = (sympy.S.Zero, sympy.oo)


@cache
def of_dense(activation: Activation, digits: int) -> Points:
    """Of the dense layer, of a σ that does not jump and is not 0."""
    if is_line(activation):
        reason = "every K is fixed at the C_W below, but χ_⊥ = 1 as K → 0 alone"
        return Points(neutral_at_zero(activation), (), reason)
    at_zero = point_at_zero(activation)
    reason = "χ_∥ = χ_⊥ = 1 has no solution with C_b ≥ 0" if at_zero is None else REPELS
    isolated, searched = isolated_points(activation, digits)
    return Points(at_zero, isolated, reason, searched)


def point_at_zero(activation: Activation) -> CriticalPoint | None:
    """K* = 0 with C_b = 0 and C_W g'(0) = 1, where σ(0) = 0 and g'(0) ≠ 0."""
    slope = small_kernel_average(activation, (0, 0), 1)
    if slope == 0 or slope.subs(K, 0) != 0:
        return None
    zero, C = sympy.Integer(0), 1 / slope.coeff(K, 1)
    if all(activation.beside_zero(side).diff(z, 2) == 0 for side in (-1, 1)):
        return CriticalPoint(zero, C, zero, zero, zero, _beyond_powers(activation, C))
    for power in range(2, _MAX_ORDER):
        beyond = small_kernel_average(activation, (0, 0), power) - slope
        powers: dict[sympy.Expr, sympy.Expr] = {}
        for term in sympy.Add.make_args(sympy.expand(beyond)):
            coefficient, exponent = term.as_coeff_exponent(K)
            powers[exponent] = powers.get(exponent, zero) + C * coefficient
        for exponent, total in sorted(powers.items()):
            if (coefficient := sympy.simplify(total)) != 0:
                stability = "stable" if coefficient < 0 else "unstable"
                return CriticalPoint(zero, C, zero, coefficient, exponent - 1, stability)
    raise InputError("activation", str(activation), f"nonlinear terms below z^{2 * _MAX_ORDER}")


def _beyond_powers(activation: Activation, weight_variance: sympy.Expr) -> str:
    """Which way K moves where σ is linear on either side of 0, up to a kink at distance d.

    Decided at K = d²/16, where what is beyond the kink weighs e^{−8}.
    """
    distance = min(abs(kink) for kink in activation.kinks if kink != 0)
    at = distance**2 / 16
    step = functions(activation, dense())[0]
    return "stable" if step(at, weight_variance) < number(at) else "unstable"


def neutral_at_zero(activation: Activation) -> CriticalPoint:
    """K* = 0 where every K is fixed at this C_W."""
    zero = sympy.Integer(0)
    return CriticalPoint(
        zero, 1 / slope_at_zero(activation), zero, zero, zero, "neutral: K does not move"
    )


def isolated_points(
    activation: Activation, digits: int
) -> tuple[tuple[CriticalPoint, ...], tuple[sympy.Expr, sympy.Expr]]:
    """K* > 0 with ⟨σσ''⟩ = 0 there and C_b ≥ 0, and the K that were searched.

    K* is exact where the equation is solved by radicals.
    """

    def value(at: mpmath.mpf, wanted: int) -> mpmath.mpf:
        with mpmath.workdps(wanted + 10):
            return average_at(activation, (0, 2), 0, at, wanted + 5)

    around = profile(activation, even_part(activation, (0, 2)))
    if around.vanishes and not activation.kinks:
        return (), (sympy.S.Zero, sympy.oo)
    low, high = between(around)

    def settled(at: mpmath.mpf) -> bool:
        law = around.at_infinity(at)
        if law is None or not law:
            return same_power(value)(at)
        return bool(abs(value(at, 15) / law - 1) < 0.25)

    low, below = extended(low, mpmath.mpf("0.1"), lambda at: same_power(value)(10 * at))
    high, above = extended(high, mpmath.mpf(10), settled)
    low_end = sympy.S.Zero if below or around.power is None else floating(low, 3)
    searched = (low_end, sympy.oo if above else floating(high, 3))
    equation = closed_forms.average(activation, (0, 2))
    points = []
    for root in zeros(value, low, high, digits):
        point = _point_at(activation, root, _exact_root(equation, root, digits), digits)
        if point.C_b >= 0:
            points.append(point)
    return tuple(points), searched


def _point_at(
    activation: Activation, root: mpmath.mpf, K_star: sympy.Expr, digits: int
) -> CriticalPoint:
    """The critical point at K*, with C_W = 1/⟨σ'σ'⟩ and C_b = K* − C_W ⟨σσ⟩."""
    with mpmath.workdps(digits + 10):
        g = [each.value for each in _taylor(activation, (0, 0), root, 4, digits + 5)]
        slopes = [each.value for each in _taylor(activation, (1, 1), root, 2, digits + 5)]
        weight = 1 / slopes[0]
        bias, quadratic = root - weight * g[0], weight * g[2]
        off = 0 if K_star.is_algebraic else root * mpmath.mpf(10) ** -digits
        turn = -(weight**2) * slopes[1]
        moved = (
            off,
            off * abs(1 - turn * g[0] - weight * g[1]),
            off * abs(turn),
            off * abs(turn * g[2] + 3 * weight * g[3]),
        )
        values = (mpmath.mpf(0) if off == 0 else root, bias, weight, quadratic)
        rounding = mpmath.mpf(10) ** -digits
        errors = [
            floating(2 * shift + rounding * abs(value), 3) if shift or value else sympy.S.Zero
            for shift, value in zip(moved, values, strict=True)
        ]
    return CriticalPoint(
        C_b=floating(bias, digits),
        C_W=floating(weight, digits),
        K=K_star,
        coefficient=floating(quadratic, digits),
        exponent=sympy.Integer(1),
        stability=f"half-stable: attracts from {'below' if quadratic > 0 else 'above'}",
        errors=Errors(*errors),
    )


def _taylor(
    activation: Activation, orders: tuple[int, ...], at: mpmath.mpf, count: int, digits: int
) -> tuple[Enclosure, ...]:
    """⟨Π σ^{(orders)}⟩ in powers of K − `at`."""
    bracket = Bracket(tuple((1, order) for order in orders))
    return around_point(activation, bracket, at, count, digits)


def _exact_root(equation: sympy.Expr | None, near: mpmath.mpf, digits: int) -> sympy.Expr:
    """The root by radicals where the equation's numerator has a polynomial factor; else a Float."""
    if equation is not None:
        numerator = sympy.fraction(sympy.factor(equation))[0]
        for factor in sympy.Mul.make_args(numerator):
            if factor.is_polynomial(K) and 0 < sympy.degree(factor, K) <= 2:
                for root in sympy.roots(factor, K):
                    with mpmath.workdps(digits + 10):
                        if abs(number(root) - near) < near * mpmath.mpf(10) ** (2 - digits):
                            return root
    return floating(near, digits)
