"""Shapes of Gaussian brackets, and the algebra of the derivatives outside them.

For z ~ N(0, K), ⟨∂^k F⟩ is the average of Leibniz's terms where F is smooth, and, by parts,
⟨F H_k(K⁻¹z, K⁻¹)⟩ with Hermite's polynomials H_k where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import sympy

from derive.errors import InputError, whole
from derive.gaussian.brackets import Average
from derive.gaussian.shapes import Shape, SingleShape

MAX_POSITIONS = 4


def describe(shape: SingleShape | Shape) -> str:
    """The bracket as the derivations print it."""
    if isinstance(shape, SingleShape):
        return str(Average([(0, order) for order in shape.orders], (0,) * shape.outer))
    outer = [p for p, count in enumerate(shape.outer) for _ in range(count)]
    return str(Average(list(enumerate(shape.orders)), outer))


def check(shape: SingleShape | Shape) -> None:
    """Raise InputError for counts that are not whole, or a `Shape` of more than 4 positions."""
    outer = (shape.outer,) if isinstance(shape, SingleShape) else shape.outer
    for k in (*shape.orders, *outer):
        whole("shape", k, 0, wanted="orders and outer derivatives that are whole, 0 or more")
    if isinstance(shape, SingleShape):
        return
    if not 1 <= len(shape.orders) <= MAX_POSITIONS or len(outer) != len(shape.orders):
        raise InputError("shape", shape, f"1 to {MAX_POSITIONS} positions, one outer count each")


def hermite(
    outer: Sequence[int],
) -> tuple[sympy.Expr, list[sympy.Symbol], dict[tuple[int, int], sympy.Symbol]]:
    """H_k(u, Q) = ∂_t^k exp(t·u − tᵀQt/2) at t = 0, with its variables u_p and Q_pq, p ≤ q.

    H_{k + e_p} = u_p H_k − Σ_q k_q Q_pq H_{k − e_q}; only positions with k_p > 0 occur.
    """
    active = [p for p, count in enumerate(outer) if count]
    u = {p: sympy.Symbol(f"u{p}", real=True) for p in active}
    Q = {(p, q): sympy.Symbol(f"Q{p}{q}", real=True) for p in active for q in active if p <= q}

    @cache
    def polynomial(k: tuple[int, ...]) -> sympy.Expr:
        p = next((p for p, count in enumerate(k) if count), None)
        if p is None:
            return sympy.Integer(1)
        less = _lowered(k, p)
        terms = [u[p] * polynomial(less)]
        for q, count in enumerate(less):
            if count:
                terms.append(-count * Q[min(p, q), max(p, q)] * polynomial(_lowered(less, q)))
        return sympy.Add(*terms)

    return polynomial(tuple(outer)), list(u.values()), Q


def _lowered(k: tuple[int, ...], p: int) -> tuple[int, ...]:
    return (*k[:p], k[p] - 1, *k[p + 1 :])
