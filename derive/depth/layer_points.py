"""Critical points of any layer: every K where it is neutral, K* = 0, and isolated ones."""

from __future__ import annotations

import mpmath
import sympy

from ..activations.functions import Activation
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.small_kernel import average_at
from ..layers import Layer
from ..symbols import C_W, C_b, K
from .layer_functions import by_powers, float_to, functions, number, sigmas, small
from .points import REPELS, CriticalPoint, Points, of_dense

_AT_ZERO_ALONE = "none is found at K* = 0; K* > 0 is looked for where χ_∥ − χ_⊥ ∝ ⟨σσ''⟩"


_ROUNDING = 1e-12
"""Smaller coefficients count as 0."""
POWERS = 4  # of K, among which K' − K at K* = 0 has its first


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
    isolated, reason = isolated_points(activation, layer, digits)
    if at_zero is not None:
        reason = REPELS
    elif not isolated and (flat := slope_one(activation, layer, digits)[0]):
        reason = (
            f"at C_b = 0, C_W = {flat[0]} χ_∥ = χ_⊥ = 1 at K* = 0, but K' - K has no power of K "
            f"through K^{POWERS}, which is solved for the dense layer alone"
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
    series, tangent = small(move, POWERS), small(perp, 1)
    if series is None or tangent is None:
        return [], {}
    powers = by_powers(series)
    if any(power < 1 and sympy.simplify(value) != 0 for power, value in powers.items()):
        return [], {}
    slope = powers.get(sympy.S.One, sympy.S.Zero)
    if sympy.simplify(slope - tangent.subs(K, 0)) != 0:
        return [], {}
    return list(_positive_roots(slope - 1, digits)), powers


def isolated_points(
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
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            value = average_at(move.sigma(each), orders, len(outer), number(inner), digits + 5)
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
