"""Hermite's polynomials, of one variable and of several.

    H_k(u, Q) = ∂_t^k exp(t·u − tᵀQt/2) at t = 0,
    H_{k+e_p} = u_p H_k − Σ_q k_q Q_pq H_{k−e_q} .

For z ~ N(0, K), integration by parts gives ⟨∂^k F⟩ = ⟨F H_k(K⁻¹z, K⁻¹)⟩, and H_k(z, K) is the
Wick-ordered :z^k:, what remains of z^k after its contractions. He_k(x) = H_k(x, 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

import sympy

from ..work.caches import cache


def hermite(degree: int, u: Any, Q: Any = 1) -> Any:
    """H_degree(u, Q) of one variable, multiplied out: of sympy expressions, or of numbers."""
    total: Any = 0
    for pairs in range(degree // 2 + 1):
        left = degree - 2 * pairs
        ways = factorial(degree) // (2**pairs * factorial(pairs) * factorial(left))
        total += ways * (-Q) ** pairs * u**left
    return total


def by_parts(degree: int, z: sympy.Expr, variance: sympy.Expr) -> sympy.Expr:
    """H_degree(z/K, 1/K) = K^{−degree/2} He_degree(z/√K): ⟨∂^degree F⟩_K = ⟨F · this⟩_K."""
    return hermite(degree, z / variance, 1 / variance)


def polynomial(
    outer: Sequence[int],
) -> tuple[sympy.Expr, list[sympy.Symbol], dict[tuple[int, int], sympy.Symbol]]:
    """H_outer(u, Q) of several variables, with its symbols u_p and Q_pq, p ≤ q.

    Only positions with outer_p > 0 occur. It is nested, as the recursion makes it: what computes
    it takes fewer products.
    """
    active = [p for p, count in enumerate(outer) if count]
    u = {p: sympy.Symbol(f"u{p}", real=True) for p in active}
    Q = {(p, q): sympy.Symbol(f"Q{p}{q}", real=True) for p in active for q in active if p <= q}

    @cache(entries=2**16)
    def nested(k: tuple[int, ...]) -> sympy.Expr:
        p = next((p for p, count in enumerate(k) if count), None)
        if p is None:
            return sympy.Integer(1)
        less = _lowered(k, p)
        terms = [u[p] * nested(less)]
        for q, count in enumerate(less):
            if count:
                terms.append(-count * Q[min(p, q), max(p, q)] * nested(_lowered(less, q)))
        return sympy.Add(*terms)

    return nested(tuple(outer)), list(u.values()), Q


def _lowered(k: tuple[int, ...], p: int) -> tuple[int, ...]:
    return (*k[:p], k[p] - 1, *k[p + 1 :])
