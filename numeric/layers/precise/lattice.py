"""Sums over a lattice of preactivations: Gaussian averages of products, in balls, by matrices.

The nested trapezoid rule of `smooth` may begin anywhere: what it errs by does not depend on where
the nodes of y_j lie. They are put where z_j given those before is a multiple of Δ_j = B_jj h_j;
all of z runs through one lattice, with weights that are pairs' exponentials,

    Σ_z Π_s F_s(z_s) e^{−zᵀPz/2} · Π_s Δ_s / √((2π)^d det K),      P = K^{−1}:

each F_s is evaluated once at each multiple of Δ_s. Of the last three samples, a, b and c, the sum
over c is a product of matrices: with v = 1/P_cc, z_c = x and its mean m = α_a + β_b given the rest,

    e^{−(x − α − β)²/2v} = e^{(α − β)²/2v} · e^{−(x/2 − α)²/v} · e^{−(x/2 − β)²/v};

samples before them are loops. Left out is |z_s| > R √K_ss, where |y| > R (`smooth.Bounds.outside`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

from flint import arb, arb_mat, ctx

from derive.activations.functions import Activation
from derive.arithmetic.balls import Matrix

from . import functions

Orders: TypeAlias = "tuple[int, ...]"
Product: TypeAlias = "tuple[Orders, ...]"

_TERM = 1.5e-8
"""Seconds of a term in a product of matrices, at some 50 digits."""
_ENTRY = 3e-6
"""Seconds of an entry of such a matrix, which has exponentials in it."""
_LEAST = 20
"""Significant bits of Δ."""


class Axis(NamedTuple):
    """Multiples of Δ, from −most to most, or from 0 where −z gives what z does."""

    step: arb
    most: int

    def nodes(self, *, halved: bool) -> list[arb]:
        """The multiples."""
        return [k * self.step for k in range(0 if halved else -self.most, self.most + 1)]


def axis(slope: arb, step: float, reach: arb) -> Axis:
    """Steps of B_jj h_j with h_j no more than this, as far as |z| ≤ reach."""
    below = math.ldexp(*_floored(*math.frexp(float(slope.lower()) * step)))
    return Axis(arb(below), math.ceil(float(reach.upper()) / below) + 1)


def _floored(mantissa: float, exponent: int) -> tuple[float, int]:
    """With fewer bits, and less than the float that rounding may have raised."""
    return float(math.floor(mantissa * 2**_LEAST) - 1), exponent - _LEAST


def seconds(counts: Sequence[int], heads: Sequence[int], products: int, *, halved: bool) -> float:
    """How long the sums over so many nodes of each sample take, at some 50 digits.

    Arguments:
        heads: how many functions there are at each sample.
    """
    order = arranged(heads)
    n = [counts[k] for k in order]
    total = math.prod(n) * _TERM * (heads[order[-1]] if len(n) > 2 else 1)
    loops = math.prod(n[:-3]) if len(n) > 3 else 1
    pairs = [math.prod(each) for each in (n[-3:-1], n[-2:], n[-3::2]) if len(each) == 2]
    total += loops * sum(pairs) * _ENTRY * (1 + 0.1 * products)
    return total / (1 + halved)


def arranged(heads: Sequence[int]) -> list[int]:
    """The samples, those with most functions first: the last is summed once for each of its own."""
    return sorted(range(len(heads)), key=lambda k: -heads[k])


def sums(
    activation: Activation,
    products: Sequence[Product],
    K: Matrix,
    axes: Sequence[Axis],
    *,
    halved: bool,
) -> list[arb]:
    """The sums of these products over the lattice, at a kernel that is not singular.

    Arguments:
        halved: whether each product is even in all of z.
    """
    d = len(K)
    order = arranged([len({each[k] for each in products}) for k in range(d)])
    with ctx.workprec(ctx.prec + _lost(K)):
        P = arb_mat([[K[a][b] for b in order] for a in order]).inv().tolist()
        determinant = arb_mat(K).det()
        columns = [
            _Column(activation, [each[k] for each in products], axes[k], halved=halved and not at)
            for at, k in enumerate(order)
        ]
        scale = 1 / ((2 * arb.pi()) ** d * determinant).sqrt()
        for each in axes:
            scale *= each.step
        totals = [arb(0) for _ in products]
        for outer, shift, factors in _outer(columns[:-3], P):
            found = _inner(columns[-3:], P, outer, shift)
            for place, heads in enumerate(zip(*(c.heads for c in columns), strict=True)):
                term = found[heads[-3:]]
                for values, head in zip(factors, heads, strict=False):
                    term = term * values[head]
                totals[place] += term
        totals = [scale * each for each in totals]
    return [+each for each in totals]


def _lost(K: Matrix) -> int:
    """Bits that the inverse of a kernel and exponentials of large numbers may lose."""
    determinant = arb_mat(K).det().abs_lower()
    for k in range(len(K)):
        determinant /= K[k][k]
    return 40 + 2 * max(0, -math.frexp(max(float(determinant.lower()), 1e-300))[1])


class _Column:
    """One sample's nodes, and each head's values there with the node's multiplicity.

    Attributes:
        heads: of each product, the orders of the derivatives at this sample.
    """

    def __init__(
        self, activation: Activation, heads: Sequence[Orders], axis: Axis, *, halved: bool
    ) -> None:
        self.heads = list(heads)
        self.nodes = axis.nodes(halved=halved)
        distinct = tuple(dict.fromkeys(heads))
        values = functions.products(activation, distinct, ctx.prec)
        columns = [
            [(2 if halved and k else 1) * each for each in values(z)]
            for k, z in enumerate(self.nodes)
        ]
        self.values = dict(zip(distinct, map(list, zip(*columns, strict=True)), strict=True))


Factors: TypeAlias = "list[dict[Orders, arb]]"


def _outer(columns: Sequence[_Column], P: Matrix) -> Iterator[tuple[arb, list[arb], Factors]]:
    """At each node of the samples before the last three: log of their own weight, Σ P_ks z_k for
    each of the last three samples s, and each head's values."""
    for at in product(*(range(len(each.nodes)) for each in columns)):
        zs = [column.nodes[k] for column, k in zip(columns, at, strict=True)]
        n = len(zs)
        log = arb(0)
        for a, b in product(range(n), repeat=2):
            log -= P[a][b] * zs[a] * zs[b] / 2
        shift = [sum((P[a][s] * zs[a] for a in range(n)), start=arb(0)) for s in range(n, len(P))]
        factors = [
            {head: values[k] for head, values in column.values.items()}
            for column, k in zip(columns, at, strict=True)
        ]
        yield log, shift, factors


def _inner(
    columns: Sequence[_Column], P: Matrix, log: arb, shift: Sequence[arb]
) -> dict[tuple[Orders, ...], arb]:
    """Σ e^{log − zᵀPz/2 − shift·z} Π F over the last two or three samples, by their heads."""
    d = len(columns)
    own = [[P[a][b] for b in range(len(P) - d, len(P))] for a in range(len(P) - d, len(P))]
    if d == 2:
        a, b = columns
        none = [arb(0)] * len(a.nodes), [arb(0)] * len(b.nodes)
        table = _weights(a.nodes, b.nodes, own, shift, log, none)
        return {(one, two): value for (one, two), value in _contracted(a, b, table).items()}
    a, b, c = columns
    v = 1 / own[2][2]
    # the mean of z_c given the others is −v (P_ac z_a + P_bc z_b + shift_c)
    alpha = [-v * (own[0][2] * z + shift[2] / 2) for z in a.nodes]
    beta = [-v * (own[1][2] * z + shift[2] / 2) for z in b.nodes]
    halves = [z / 2 for z in c.nodes]
    rate = -own[2][2]
    left = arb_mat([[((far := x - m) * far * rate).exp() for x in halves] for m in alpha])
    right = [[((far := x - m) * far * rate).exp() for m in beta] for x in halves]
    wanted = set(zip(*(each.heads for each in columns), strict=True))
    # with e^{m²P_cc/2}, m = α + β, and e^{(α − β)²P_cc/2} what does not depend on z_c is
    # e^{P_cc (α² + β²)} times the weights of the first two
    squares = [[own[2][2] * m * m for m in means] for means in (alpha, beta)]
    outside = _weights(a.nodes, b.nodes, own, shift, log, squares)
    found: dict[tuple[Orders, ...], arb] = {}
    for head, values in c.values.items():
        if not any(heads[2] == head for heads in wanted):
            continue
        weighted = arb_mat(
            [[value * each for each in row] for value, row in zip(values, right, strict=True)]
        )
        given = (left * weighted).entries()
        table = [x * y for x, y in zip(outside, given, strict=True)]
        for (one, two), value in _contracted(a, b, table).items():
            found[one, two, head] = value
    return found


def _weights(
    first: Sequence[arb],
    second: Sequence[arb],
    P: Matrix,
    shift: Sequence[arb],
    log: arb,
    more: Sequence[Sequence[arb]],
) -> list[arb]:
    """e^{log − zᵀPz/2 − shift·z} of two samples, row by row, with more in the exponent at each."""
    at_first = [
        log - (P[0][0] * x / 2 + shift[0]) * x + own for x, own in zip(first, more[0], strict=True)
    ]
    at_second = [
        (P[1][1] * y / 2 + shift[1]) * y - own for y, own in zip(second, more[1], strict=True)
    ]
    slopes = [P[0][1] * x for x in first]
    return [
        (own - slope * y - other).exp()
        for own, slope in zip(at_first, slopes, strict=True)
        for y, other in zip(second, at_second, strict=True)
    ]


def _contracted(a: _Column, b: _Column, table: Sequence[arb]) -> dict[tuple[Orders, Orders], arb]:
    """Σ_ab F_a F_b table_ab for all heads of both."""
    left = arb_mat(list(a.values.values()))
    right = arb_mat(list(b.values.values())).transpose()
    found = left * (arb_mat(len(a.nodes), len(b.nodes), table) * right)
    return {
        (one, two): found[i, j] for i, one in enumerate(a.values) for j, two in enumerate(b.values)
    }
