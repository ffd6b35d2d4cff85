"""Critical points of any layer: every K where it is neutral, K* = 0, and isolated ones."""

from __future__ import annotations

from itertools import product

import mpmath
import sympy

from ..activations.functions import Activation
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.small_kernel import around_zero, average_at
from ..layers import Layer
from ..symbols import C_W, C_b, K
from . import criticality as dense
from .kernel_functions import number
from .layer_functions import LayerFunction, float_to, functions, sigmas
from .points import CriticalPoint

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


def small(function: LayerFunction, power: int) -> sympy.Expr | None:
    """The function for small K, through K^power; None where a kernel does not vanish with K."""

    def expanded(expr: sympy.Expr) -> sympy.Expr | None:
        known = {}
        for each in sorted(expr.atoms(Average), key=str):
            at = expanded(function.kernel(each))
            if at is None or at.subs(K, 0) != 0:
                return None
            small = around_zero(function.sigma(each), each.bracket, sympy.Integer(power))
            parts = (_raised(at, exponent, power).items() for exponent in small)
            terms = zip(small.values(), parts, strict=True)
            known[each] = sympy.Add(*(v * c * K**e for v, part in terms for e, c in part))
        value = expr.xreplace(known)
        rational = {each for each in value.atoms(sympy.Pow) if each.exp.is_negative and each.has(K)}
        value = value.xreplace({each: _taylor(each, power) for each in rational})
        cut = {e: c for e, c in by_powers(value).items() if e <= power}
        return sympy.Add(*(c * K**e for e, c in cut.items()))

    return expanded(function.expr)


def by_powers(value: sympy.Expr) -> dict[sympy.Rational, sympy.Expr]:
    """{e: coefficient of K^e}."""
    found: dict[sympy.Rational, sympy.Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        rest, exponent = term.as_coeff_exponent(K)
        found[exponent] = found.get(exponent, sympy.S.Zero) + rest
    return found


def _taylor(value: sympy.Expr, power: int) -> sympy.Expr:
    """A function that is regular at K = 0, through K^power."""
    total = sympy.S.Zero
    for k in range(power + 1):
        total += sympy.simplify(value.subs(K, 0)) * K**k / sympy.factorial(k)
        value = value.diff(K)
    return total


def _raised(
    at: sympy.Expr, exponent: sympy.Rational, power: int
) -> dict[sympy.Rational, sympy.Expr]:
    """(c K + R)^exponent by the binomial series, through K^power, R being of higher order."""
    lead = at.coeff(K, 1)
    rest, powered = by_powers(at - lead * K), {sympy.S.Zero: sympy.S.One}
    factor, found = sympy.S.One, dict[sympy.Rational, sympy.Expr]()
    left = exponent
    while powered and factor:
        for e, c in powered.items():
            term = sympy.expand(factor * lead**left * c)
            found[e + left] = found.get(e + left, sympy.S.Zero) + term
        factor *= left / (exponent - left + 1)
        left -= 1
        powered = _product(powered, rest, power - left)
    return {e: c for e, c in found.items() if e <= power}


def _product(
    one: dict[sympy.Rational, sympy.Expr], other: dict[sympy.Rational, sympy.Expr], end: sympy.Expr
) -> dict[sympy.Rational, sympy.Expr]:
    """The product of two sums of powers of K, through K^end."""
    total: dict[sympy.Rational, sympy.Expr] = {}
    for (a, x), (b, y) in product(one.items(), other.items()):
        if a + b <= end and y != 0:
            total[a + b] = total.get(a + b, sympy.S.Zero) + sympy.expand(x * y)
    return total


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
    off = sympy.expand((parallel.expr - perp.expr).xreplace({curved: 2 * (balance + slope)}))
    if sympy.simplify(off.subs(balance, 0)) != 0:
        return (), _AT_ZERO_ALONE
    if layer.free_symbols:
        return (), "numbers for the layer's symbols are needed to look for K* > 0"
    points = []
    for point in dense.criticality(parallel.sigma(squares[0]), digits).points:
        if point.K is None or point.K == 0:
            continue
        points += list(_matched(activation, layer, point.K, squares[0], digits))
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
            for weight in _positive_roots(perp.expr.xreplace(known).subs(K, at) - 1, digits):
                rest = (at - move.expr.xreplace(known).subs(K, at)).subs(C_W, weight)
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
