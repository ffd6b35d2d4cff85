"""Moments of the Gram matrix without sampling, where they are a closed system.

For a polynomial f of K, d⟨f⟩/dr = ⟨𝓛f⟩ with 𝓛 = Σ_p b_p ∂_p + ½ Σ_pq Σ_pq ∂_p ∂_q over the entries
p of K. If the drift is linear in K and the diffusion quadratic, 𝓛 does not raise the degree of f.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

import numpy as np
import sympy
from numpy.typing import ArrayLike
from scipy.linalg import expm

from derive.deep import Diffusion
from derive.errors import InputError, as_integer
from derive.gaussian.brackets import Component

from .laws import checked_ratio
from .paths import checked_diffusion, checked_kernel

Pair = tuple[int, int]


def moments(
    diffusion: Diffusion, kernel: ArrayLike, ratio: sympy.Expr | float | str, order: int = 2
) -> dict[tuple[Pair, ...], float]:
    """⟨Π K_ab⟩ of all products of up to `order` entries, exactly in the limit n → ∞.

    Arguments:
        diffusion, kernel, ratio: as of `paths`.
        order: how many factors, 1 or more.

    Returns a dictionary by the pairs, from 0: ((0, 1),) for ⟨K_12⟩ and ((0, 0), (0, 1)) for
    ⟨K_11 K_12⟩. Derived here. Raises InputError where no closed system exists: with a drift that is
    not linear in K, `paths` samples the moments.

    >>> from derive import recursion
    >>> linear = recursion(["z", "z"]).diffusion("z*(1 + 1/n)")
    >>> found = moments(linear, [[1.0, 0.5], [0.5, 1.0]], "1/2")
    >>> round(found[(0, 1),], 3), round(found[(0, 1), (0, 1)], 3)  # the mean stays
    (0.5, 1.208)
    """
    start = checked_kernel(kernel)
    made, time = checked_diffusion(diffusion), float(checked_ratio(ratio))
    most = as_integer("order", order, 1)
    closed = "a drift that is linear in K, and a quadratic diffusion (or use paths)"
    if made.positions > 1:
        raise InputError("diffusion", str(made), closed)
    pairs = list(combinations_with_replacement(range(len(start)), 2))
    entries = {pair: sympy.Dummy() for pair in pairs}
    products = [each for k in range(most + 1) for each in combinations_with_replacement(pairs, k)]
    basis = {sympy.Mul(*(entries[p] for p in each)): each for each in products}
    drift = {entries[p]: _placed(made.drift, p, entries) for p in pairs}
    noise = {
        (entries[p], entries[q]): _placed(made.noise, (*p, *q), entries)
        for p in pairs
        for q in pairs
    }
    places = {f: place for place, f in enumerate(basis)}
    generator = np.zeros((len(basis), len(basis)))
    for f, row in places.items():
        for each in sympy.Add.make_args(_moved(f, drift, noise)):
            number, term = each.as_independent(*entries.values(), as_Add=False)
            if term not in places and number != 0:
                raise InputError("diffusion", str(made), closed)
            generator[row, places.get(term, row)] += float(number)
    first = [np.prod([start[p] for p in each]) for each in products]
    found = dict(zip(products, map(float, expm(time * generator) @ first), strict=True))
    return {product: value for product, value in found.items() if product}


def _placed(
    expr: sympy.Expr, samples: tuple[int, ...], entries: Mapping[Pair, sympy.Dummy]
) -> sympy.Expr:
    """The expression with these samples for 1, 2, …"""
    known = {}
    for each in expr.atoms(Component):
        a, b = sorted(samples[int(k) - 1] for k in each.args[1])
        known[each] = entries[a, b]
    return sympy.sympify(expr).xreplace(known)


def _moved(
    f: sympy.Expr,
    drift: Mapping[sympy.Dummy, sympy.Expr],
    noise: Mapping[tuple[sympy.Dummy, sympy.Dummy], sympy.Expr],
) -> sympy.Expr:
    """𝓛f."""
    first = (b * f.diff(p) for p, b in drift.items())
    second = (each * f.diff(p, q) / 2 for (p, q), each in noise.items())
    return sympy.expand(sympy.Add(*first, *second))
