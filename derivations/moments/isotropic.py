"""Moments of normal vectors and of uniform directions, with a symbol for their order: by integrals.

A rotation-invariant z is |z| times a uniform direction independent of it. So where sums over
pairings prove a correlator of 2m points for one m after the other, these prove it for all.
"""

from __future__ import annotations

import sympy

from derive.work.caches import cache

ANY = sympy.Symbol("m", positive=True, integer=True)
"""Half the number of points."""

_r = sympy.Symbol("r", positive=True)


@cache
def pairings(m: sympy.Expr) -> sympy.Expr:
    """How many pairings 2m points have: P(1) = 1, and the first of 2m + 2 points has 2m + 1
    partners, which leave 2m points. Solved for any m."""
    count, at = sympy.Function("P"), sympy.Symbol("k", positive=True, integer=True)
    solved = sympy.rsolve(count(at + 1) - (2 * at + 1) * count(at), count(at), {count(1): 1})
    return solved.rewrite(sympy.gamma).subs(at, m)


@cache
def length_moment(m: sympy.Expr, n: sympy.Expr) -> sympy.Expr:
    """E |g|^{2m} of a standard normal g in n dimensions: ∫ r^{2m+n−1} e^{−r²/2} dr over the same at
    m = 0."""
    above, below = (
        sympy.integrate(_r ** (n - 1 + 2 * k) * sympy.exp(-(_r**2) / 2), (_r, 0, sympy.oo))
        for k in (m, 0)
    )
    return sympy.powsimp(sympy.gammasimp(above / below))


def normal_moment(m: sympy.Expr) -> sympy.Expr:
    """E g^{2m} of a standard normal number."""
    return length_moment(m, sympy.Integer(1))


def direction_moment(n: sympy.Expr, *orders: sympy.Expr) -> sympy.Expr:
    """E ω_1^{2a} ω_2^{2b} ⋯ of a uniform direction in n dimensions, by its angles: ω_1 = cos θ_1,
    ω_2 = sin θ_1 cos θ_2, …, of densities sin^{n−1−j} θ_j, and with c = a_{j+1} + a_{j+2} + ⋯

        ∫ cos^{2a_j} θ sin^{n−1−j+2c} θ dθ = B(a_j + 1/2, (n − j)/2 + c) .
    """
    half, factors = sympy.Rational(1, 2), []
    for j, order in enumerate(orders, 1):
        size, later = (n - j) / 2, sympy.Add(*orders[j:])
        factors.append(sympy.beta(order + half, size + later) / sympy.beta(half, size))
    return sympy.gammasimp(sympy.Mul(*factors).rewrite(sympy.gamma))


def same(derived: sympy.Expr, printed: sympy.Expr) -> sympy.Expr:
    """Their ratio, in which Γ functions and powers of symbols for integers and positive numbers are
    reduced: 1 if they are one."""
    ratio = sympy.gammasimp(sympy.expand_func(derived / printed).rewrite(sympy.gamma))
    return sympy.simplify(sympy.powsimp(sympy.expand_power_base(ratio, force=True), force=True))
