"""Critical points: every K where a layer is neutral, K* = 0, and isolated ones with ⟨σσ''⟩ = 0.

`of_dense` finds those of the dense layer, and `of_layer` those of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import mpmath
import sympy

from ..activations.functions import Activation
from ..display.objects import Shown
from ..errors import InputError
from ..gaussian import closed_forms
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point, average_at, small_kernel_average
from ..layers import Layer, dense
from ..symbols import C_W, C_b, K, z
from ..work.caches import cache
from .fixed_points import is_line, slope_at_zero
from .gains import rounded, short
from .layer_functions import by_powers, float_to, floating, functions, number, sigmas, small
from .zeros import between, even_part, extended, follows, profile, same_power, zeros

_MAX_ORDER = 40
_REPELS = "the one critical point, K* = 0, repels: K grows away from it"
_AT_ZERO_ALONE = "none is found at K* = 0; K* > 0 is looked for where χ_∥ − χ_⊥ ∝ ⟨σσ''⟩"
_ROUNDING = 1e-12
"""Smaller coefficients count as 0."""
_POWERS = 4
"""Of K, among which K' − K of a layer other than the dense one has its first at K* = 0."""


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
    reason = "χ_∥ = χ_⊥ = 1 has no solution with C_b ≥ 0" if at_zero is None else _REPELS
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
        for exponent, total in sorted(by_powers(C * beyond).items()):
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

    low, below = extended(low, mpmath.mpf("0.1"), lambda at: same_power(value)(10 * at))
    high, above = extended(high, mpmath.mpf(10), follows(value, around.at_infinity))
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


def neutral_point(activation: Activation, layer: Layer, digits: int) -> CriticalPoint | None:
    """The critical point at which every K is fixed; C_W = 0 if K' = fK never has f = 1."""
    if not all(each.is_scale_invariant for each in sigmas(activation, layer)):
        return None
    move, _, perp = functions(activation, layer)
    closed, other = (each.closed for each in (move, perp))
    if closed is None or other is None:
        return None
    factor = sympy.simplify(closed.subs(C_b, 0) / K)
    if factor.has(K) or sympy.simplify(factor - other) != 0:
        return None
    zero = sympy.Integer(0)
    roots = _positive_roots(factor - 1, digits)
    stability = "neutral: K does not move"
    return CriticalPoint(zero, roots[0] if roots else zero, None, zero, zero, stability)


def of_layer(activation: Activation, layer: Layer, digits: int) -> Points:
    """Of a layer that is not neutral, and of σ's that do not jump and are not 0."""
    at_zero = zero_point(activation, layer, digits)
    isolated, reason = layer_isolated_points(activation, layer, digits)
    if at_zero is not None:
        reason = _REPELS
    elif not isolated and (flat := slope_one(activation, layer, digits)[0]):
        reason = (
            f"at C_b = 0, C_W = {flat[0]} χ_∥ = χ_⊥ = 1 at K* = 0, but K' - K has no power of K "
            f"through K^{_POWERS}, which is solved for the dense layer alone"
        )
    if not (reason or functions(activation, layer)[0].has_C_W):
        reason = "C of the layer fixes χ_∥ and χ_⊥, which are not 1 at K* = 0"
    reason = reason or "χ_∥ = χ_⊥ = 1 has no solution with C_W > 0, C_b ≥ 0"
    return Points(at_zero, isolated, reason)


def zero_point(activation: Activation, layer: Layer, digits: int) -> CriticalPoint | None:
    """K* = 0 with C_b = 0 and F'(0) = χ_⊥(0) = 1, where K' − K has a power of K."""
    weights, powers = slope_one(activation, layer, digits)
    zero = sympy.Integer(0)
    for weight in weights:
        for power in sorted(each for each in powers if each > 1):
            coefficient = sympy.simplify(powers[power].subs(C_W, weight))
            if abs(_tried(coefficient)) > _ROUNDING:
                stability = "stable" if _sign(coefficient) < 0 else "unstable"
                return CriticalPoint(zero, weight, zero, coefficient, power - 1, stability)
    return None


def slope_one(
    activation: Activation, layer: Layer, digits: int
) -> tuple[list[sympy.Expr], dict[sympy.Rational, sympy.Expr]]:
    """The C_W of F'(0) = χ_⊥(0) = 1 at C_b = 0, and F by powers of K."""
    move, _, perp = (each.without_biases() for each in functions(activation, layer))
    series, tangent = small(move, _POWERS), small(perp, 1)
    if series is None or tangent is None:
        return [], {}
    powers = by_powers(series)
    if any(power < 1 and sympy.simplify(value) != 0 for power, value in powers.items()):
        return [], {}
    slope = powers.get(sympy.S.One, sympy.S.Zero)
    if sympy.simplify(slope - tangent.subs(K, 0)) != 0:
        return [], {}
    return list(_positive_roots(slope - 1, digits)), powers


def layer_isolated_points(
    activation: Activation, layer: Layer, digits: int
) -> tuple[tuple[CriticalPoint, ...], str]:
    """K* > 0 with χ_∥ = χ_⊥ = 1, and why there is none.

    Where χ_∥ − χ_⊥ is a multiple of ⟨σσ''⟩ at the one kernel that moves, that kernel is at a zero
    of the dense layer's equation.
    """
    move, parallel, perp = functions(activation, layer)
    squares = [each for each in parallel.averages if each.bracket.outer]
    labels = {each.bracket.kernel for each in squares}
    if len(labels) != 1 or move.kernel(squares[0]).has(Average):
        return (), _AT_ZERO_ALONE
    (label,) = labels
    slope = unspecified(Bracket(((1, 1), (1, 1)), (), label))
    curved = unspecified(Bracket(((1, 0), (1, 0)), (1, 1), label))
    balance = sympy.Dummy()
    off = sympy.expand((parallel.bare - perp.bare).xreplace({curved: 2 * (balance + slope)}))
    if sympy.simplify(off.subs(balance, 0)) != 0:
        return (), _AT_ZERO_ALONE
    if layer.free_symbols:
        return (), "numbers for the layer's symbols are needed to look for K* > 0"
    points = []
    for point in of_dense(parallel.sigma(squares[0]), digits).isolated:
        assert point.K is not None
        points += _matched(activation, layer, point.K, squares[0], digits)
    return tuple(points), ""


def _matched(
    activation: Activation, layer: Layer, inner: sympy.Expr, bracket: Average, digits: int
) -> list[CriticalPoint]:
    """The critical points at which the moving kernel is `inner`."""
    move, parallel, perp = functions(activation, layer)
    kernel = move.kernel(bracket)
    with mpmath.workdps(digits + 10):
        known = {}
        for each in {*move.averages, *perp.averages}:
            value = average_at(move.sigma(each), *each.bracket.line, number(inner), digits + 5)
            known[each] = sympy.Float(value, digits + 5)
        found = []
        for at in sympy.solve(kernel - inner, K):
            for weight in _positive_roots(perp.bare.xreplace(known).subs(K, at) - 1, digits):
                rest = (at - move.bare.xreplace(known).subs(K, at)).subs(C_W, weight)
                for bias in sympy.solve(rest, C_b):
                    star = at.subs({C_W: weight, C_b: bias})
                    if not (star > 0 and bias >= 0):
                        continue
                    curvature = parallel.derivative("χ_∥'")(star, weight, bias, digits) / 2
                    side = "below" if curvature > 0 else "above"
                    found.append(
                        CriticalPoint(
                            C_b=float_to(bias, digits),
                            C_W=float_to(weight, digits),
                            K=float_to(star, digits),
                            coefficient=float_to(curvature, digits),
                            exponent=sympy.Integer(1),
                            stability=f"half-stable: attracts from {side}",
                        )
                    )
        return found


def _positive_roots(equation: sympy.Expr, digits: int) -> list[sympy.Expr]:
    """The solutions C_W > 0, ascending, to so many digits where they have no formula; symbols stand
    for skips below 1.

    If C_W does not enter and every C_W is a solution, the result is 1.
    """
    cleared = sympy.numer(sympy.together(equation))
    if not cleared.has(C_W):
        return [sympy.S.One] if sympy.simplify(cleared) == 0 else []
    unsigned = sympy.Dummy()
    bare = cleared.subs(C_W, unsigned)
    poly = sympy.Poly(bare, unsigned) if bare.is_polynomial(unsigned) else None
    if poly is not None and poly.degree() > 2 and not poly.free_symbols_in_domain:
        roots = [_plain(root, digits) for root in poly.real_roots()]
    else:
        roots = sympy.solve(bare, unsigned)
    kept = [root for root in roots if _sign(root) > 0]
    return sorted(kept, key=lambda root: float(_tried(root)))


def _plain(root: sympy.Expr, digits: int) -> sympy.Expr:
    """A root of a polynomial in closed form, or as a number if it has none."""
    return sympy.N(root, digits) if root.has(sympy.CRootOf) else root


def _tried(value: sympy.Expr) -> sympy.Expr:
    """With ½ for every symbol."""
    return sympy.N(value.subs(dict.fromkeys(value.free_symbols, sympy.Rational(1, 2))))


def _sign(value: sympy.Expr) -> int:
    tried = _tried(value)
    return int(sympy.sign(tried)) if tried.is_real else 0
