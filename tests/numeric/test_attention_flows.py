"""Attention in `flow`: held to an exact evaluation that shares no code with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import numpy as np
import pytest

from derive import Network, layers
from numeric import flow

Pair = tuple[int, int]
Series = Counter[int]
"""Coefficients of powers of 1/n."""

K1 = {(0, 0): Fraction(1), (0, 1): Fraction(1, 2), (1, 1): Fraction(5, 4)}
"""K at layer 1 of the inputs below, with C_W = 1."""
X = np.array([[[1.0, 0.0], [0.5, 1.0]]]) * 2**0.5


def times(a: Series, b: Series) -> Series:
    found: Series = Counter()
    for (i, x), (j, y) in product(a.items(), b.items()):
        found[i + j] += x * y
    return found


def plus(*parts: tuple[Series, Fraction]) -> Series:
    found: Series = Counter()
    for part, scale in parts:
        for power, value in part.items():
            found[power] += value * scale
    return found


def K(a: int, b: int) -> Fraction:
    return K1[min(a, b), max(a, b)]


@cache
def wishart(pairs: tuple[Pair, ...]) -> Series:
    """E Π S_ab, S = Σ z z / n over n neurons of covariance K, by partial integration."""
    if not pairs:
        return Counter({0: Fraction(1)})
    (a, b), rest = pairs[0], pairs[1:]
    parts = [(wishart(rest), K(a, b))]
    for k, (d, e) in enumerate(rest):
        others = rest[:k] + rest[k + 1 :]
        for c, f in ((d, e), (e, d)):
            own = tuple(sorted((*others, (min(b, f), max(b, f)))))
            parts.append((times(wishart(own), Counter({1: Fraction(1)})), K(a, c)))
    return plus(*parts)


def pairings(k: int) -> list[tuple[Pair, ...]]:
    if k % 2:
        return []
    return {0: [()], 2: [((0, 1),)], 4: [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]}[k]


def loops(p: Sequence[Pair], q: Sequence[Pair]) -> int:
    return len(p) if set(p) == set(q) else 1


Terms = list[tuple[Fraction, int, tuple[Pair, ...]]]
"""A polynomial in S given S: coefficients, powers of 1/d, and the entries."""


def scores(at: Sequence[Pair]) -> Terms:
    """E Π c_ts given S, of one head with d components."""
    count = len(at)
    return [
        (
            Fraction(1),
            count - loops(p, q),
            tuple((at[i][0], at[j][0]) for i, j in p) + tuple((at[i][1], at[j][1]) for i, j in q),
        )
        for p, q in product(pairings(count), repeat=2)
    ]


def weights(rows: Sequence[Pair], B: Sequence[Sequence[Fraction]]) -> Terms:
    """E Π (c_ts + B_ts)."""
    found: Terms = []
    for chosen in product((True, False), repeat=len(rows)):
        noisy = [row for row, on in zip(rows, chosen, strict=True) if on]
        scale = prod((B[t][s] for (t, s), on in zip(rows, chosen, strict=True) if not on))
        found += [(scale * c, power, own) for c, power, own in scores(noisy)]
    return found


def averaged(terms: Terms, H: int) -> Series:
    """Over S."""
    found: Series = Counter()
    for scale, power, own in terms:
        value = wishart(tuple(sorted((min(pair), max(pair)) for pair in own)))
        for at, x in value.items():
            found[at + power] += scale * x * H**power
    return found


def head(t: int, u: int, B: Sequence[Sequence[Fraction]]) -> Terms:
    """E (A S A^T)_tu."""
    return [
        (c, power, (*own, (s, r)))
        for s, r in product(range(2), repeat=2)
        for c, power, own in weights([(t, s), (u, r)], B)
    ]


def two_heads(at: Sequence[int], B: Sequence[Sequence[Fraction]], H: int) -> Series:
    """E R_tu R_vw, R the mean over heads of A Σ_a v v^T A^T / d."""
    t, u, v, w = at
    apart = [
        (x * y, i + j, a + b) for (x, i, a), (y, j, b) in product(head(t, u, B), head(v, w, B))
    ]
    same: Terms = []
    for s, r, p, q in product(range(2), repeat=4):
        for c, power, own in weights([(t, s), (u, r), (v, p), (w, q)], B):
            same.append((c, power, (*own, (s, r), (p, q))))
            same.append((c, power + 1, (*own, (s, p), (r, q))))
            same.append((c, power + 1, (*own, (s, q), (r, p))))
    return plus((averaged(same, H), Fraction(1, H)), (averaged(apart, H), Fraction(H - 1, H)))


TABLE = ((Fraction(1), Fraction(1, 3)), (Fraction(-1, 2), Fraction(2)))


@pytest.mark.parametrize("H", [1, 2, 3])
def test_linear_scores_at_every_width(H: int) -> None:
    """K, G1 and V against all moments of the conditional law, exact in 1/n: all queries, keys,
    values and the layer below are averaged by partial integration, with fractions."""
    bias = [[float(b) for b in row] for row in TABLE]
    layer = layers.attention(H, 2, score="linear", bias=bias, skip=0)
    table = flow(Network("linear", layer=layer), X, 2, ["K", "G1", "V"]).sel(layer=2)
    assert abs(table["K"][0, 1] - float(averaged(head(0, 1, TABLE), H)[0])) < 1e-14
    means = {pair: averaged(head(*pair, TABLE), H) for pair in product(range(2), repeat=2)}
    for pair, own in means.items():
        assert abs(table["G1"][pair] - float(own[1])) < 1e-13
    for at in product(range(2), repeat=4):
        apart = times(means[at[:2]], means[at[2:]])
        exact = plus((two_heads(at, TABLE, H), Fraction(1)), (apart, Fraction(-1)))
        assert exact[0] == 0
        assert abs(table["V"][at] - float(exact[1])) < 1e-13
