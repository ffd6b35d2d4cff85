"""Averages ⟨Π_s Π σ^{(o)}(z_s)⟩ of a polynomial σ: moments by Stein's identity, in balls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

import sympy
from flint import arb

from derive.activations.functions import Activation, z
from derive.work.caches import cache

from . import functions
from .geometry import Matrix
from .smooth import Orders, Product

Powers = tuple[int, ...]


def averages(activation: Activation, products: Sequence[Product], K: Matrix) -> list[arb]:
    """At a kernel over the samples of the products, singular or not."""
    moments: dict[Powers, arb] = {}
    return [
        functions.sums(
            [
                prod(map(functions.ball, coefficients), start=arb(1)) * _moment(powers, K, moments)
                for powers, coefficients in _terms(activation, product).items()
            ]
        )
        for product in products
    ]


@cache(entries=4096)
def _terms(activation: Activation, product: Product) -> dict[Powers, tuple[sympy.Expr, ...]]:
    """{power of each sample: its coefficients}."""
    terms: dict[Powers, tuple[sympy.Expr, ...]] = {(): ()}
    for orders in product:
        one = _coefficients(activation, orders)
        terms = {
            (*powers, power): (*known, coefficient)
            for powers, known in terms.items()
            for power, coefficient in one.items()
        }
    return terms


@cache(entries=4096)
def _coefficients(activation: Activation, orders: Orders) -> dict[int, sympy.Expr]:
    total = sympy.Poly(sympy.prod(activation.derivative(order) for order in orders), z)
    return {powers[0]: value for powers, value in total.terms() if value != 0}


def _moment(powers: Powers, K: Matrix, known: dict[Powers, arb]) -> arb:
    """⟨Π z^powers⟩ = Σ_b K_ab ⟨∂_b (Π z^powers / z_a)⟩."""
    if sum(powers) % 2:
        return arb(0)
    if not any(powers):
        return arb(1)
    if powers not in known:
        a = next(k for k, power in enumerate(powers) if power)
        rest = Counter(dict(enumerate(powers)))
        rest[a] -= 1
        total = arb(0)
        for b, power in list(rest.items()):
            if power:
                rest[b] -= 1
                lower = tuple(rest[k] for k in range(len(powers)))
                total += power * K[a][b] * _moment(lower, K, known)
                rest[b] += 1
        known[powers] = total
    return known[powers]
