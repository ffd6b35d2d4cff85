"""Paths for products of two tangent kernels on three or four inputs: A and B.

The averages of H H given a path (`path_averages`) are, for each of the 55 products of four inputs,

    E[H_12 H_34 | path] = Σ_p c_p δ_p(i) + Σ_{(kl)} δ_{i_k i_l} Σ_ab c_{kl;ab} f_a f_b
                          + Σ_abcd c_abcd f_a f_b f_c f_d ,

3 + 6·16 + 256 numbers. Written out as polynomials in sums over neurons, each would have thousands
of terms. But the step to the next layer acts on one slot after the other. With the matrices

    M^α_ab = Σ_j ŝ_a σ'_α f_b ,
    N^{αβ}_ab = Σ_j σ'_α σ'_β ŝ_a ŝ_b ,  G^{αβ}_ab = Σ_j σ'_α σ'_β f_a f_b ,

and the like for three and four σ', X X with X = σ' H σ' has the contractions

    T_abcd (all four slots with ŝ),
    U^{kl}_ab (slots k and l joined),  v_q (both pairs of q joined),

T = M M M M c + N ⊗ (M M c) + N N c, U = M M (G·c) + …, v = G·c·G + …: some 10⁴ products instead of
10⁶. Then Σ_a ŝ_a ŝ_a is taken out of each δ, and the weights are averaged: U and v go to c through
the coefficients of `Conditioned`, T as it is. Derived here; the recursion is that of
`path_averages`, term by term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import H
from derive.engine.tensors import tensor
from derive.groups.pairings import Pairing, pair_partitions
from derive.work.caches import cache

from ..arrays import Array
from ..emit.kernels import load_kernels
from ..emit.vectors import LANES
from ..estimators.observables import Plan, Statistic
from . import pair_kernels
from .ensemble import Ensemble
from .pair_kernels import LABELS, SQUARE, STATE
from .path_averages import Conditioned
from .probing import reading

PAIRS = ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2))
"""The pairs of four slots, each beside the one that completes its pairing."""


def _slots() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of slots, their strides and where they meet, of `pair_kernels.second_moments`."""
    strides, meets = list[list[int]](), list[int]()
    for number, pair in enumerate(PAIRS):
        others = PAIRS[number ^ 1]
        strides.append([LABELS ** (3 - slot) for slot in (*pair, *others)])
        for side in range(2):
            for left, one in zip(pair[::-1], pair, strict=True):
                met = PAIRS.index((min(one, others[side]), max(one, others[side])))
                meets.append(2 * met + (PAIRS[met ^ 1][0] != left))
    return np.array(PAIRS), np.array(strides), np.array(meets)


_SLOTS = _slots()

FEWEST, ORDERS, BATCH = 3, 2, 16
"""Inputs for which this is shorter than polynomials; σ and σ'; networks that fill a cache."""


def _of_tangents(statistic: Statistic) -> bool:
    return statistic.fields in ((H,), (H, H))


def others(plan: Plan) -> tuple[Statistic, ...]:
    """The statistics that are polynomials: all but H and H H of three or four inputs."""
    several = FEWEST <= plan.samples <= LABELS
    if not several or all(each.fields != (H, H) for each in plan.statistics):
        return plan.statistics
    return tuple(each for each in plan.statistics if not _of_tangents(each))


@dataclass(frozen=True, eq=False)
class Tangents:
    """H and H H of three or four inputs, averaged given forward paths.

    Arguments:
        ensemble, plan: of the sampler.
        given: the weights' law given the path.
    """

    ensemble: Ensemble
    plan: Plan
    given: Conditioned

    @property
    def numbers(self) -> int:
        """The count of numbers that are held for one network."""
        return len(self._table.classes) * STATE

    @property
    def rest(self) -> NDArray[np.int64]:
        """The columns of the other statistics."""
        rest: NDArray[np.int64] = self._places[0][0]
        return rest

    @cached_property
    def _table(self) -> _Table:
        return _table(self.plan.samples)

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Columns of the polynomials' statistics by place; of H by (place, pair); of H H by (place,
        class, p)."""
        own, found = _places(self.plan.samples), [list[tuple[int, ...]]() for _ in range(3)]
        for place, each in enumerate(self.plan.statistics):
            at = own[each] if _of_tangents(each) else ()
            found[len(at)].append((place, *at))
        rest, single, double = (
            np.array(rows, np.int64).reshape(-1, 1 + k).T for k, rows in enumerate(found)
        )
        return rest, single, double

    def layers(self, paths: Iterable[Array], orders: int, inverses: Array) -> Iterator[Array]:
        """The statistics of H and H H, (draws, statistics), of the columns of layers 1, 2, …

        Arguments:
            paths: the columns, with so many orders of derivatives of σ.
            inverses: the ν of what is above, (draws, m).
        """
        compiled, table, told = kernels(), self._table, reading(self.ensemble)
        (count, m), depth = inverses.shape, self.ensemble.depth
        classes, pairs = len(table.classes), len(table.pairs)
        groups = -(-count // LANES)
        h, c = _lanes(groups, pairs, 1 + SQUARE), _lanes(groups, classes, STATE)
        u, v = _lanes(groups, pairs), _lanes(groups, classes, 3)
        values = np.empty((count, len(self.plan.statistics)))
        first = 2, orders, 1 + m * orders
        for layer, columns in enumerate(paths):
            S, after = _lanes(groups, table.rows), np.empty_like(h)
            compiled.sum_products(columns, first, table.products, S)
            own = self._own(columns, orders, layer)
            g, rules = _grouped(own), _grouped(self._rules(layer, inverses))
            compiled.first_moments(S, table.pairs, h, g, rules, u, after)
            last = layer + 1 == depth
            if layer:
                where = table.classes, *_SLOTS
                compiled.second_moments(S, where, (g, after), rules, c, v, last)
            else:  # H of layer 1 is g δ
                left, right = table.classes[:, 15:].T
                c[:, :, 0] = g[:, left] * g[:, right]
            h = after
            weights = [float(told.coefficient(coset)[layer]) for coset in ((1,), (1, 1), (2,))]
            self._average(weights, own, _listed(u, count), _listed(v, count), values)
            yield values

    def _own(self, columns: Array, orders: int, layer: int) -> Array:
        """λ_b + λ_W σ·σ/n_in of the pairs of inputs, (draws, pairs)."""
        ensemble, m = self.ensemble, self.plan.samples
        sigma = [columns[:, 1 + alpha * orders] for alpha in range(m)]
        inner = [
            (sigma[alpha] * sigma[beta]).sum(axis=1)
            for alpha, beta in combinations_with_replacement(range(m), 2)
        ]
        rate = ensemble.lambda_W[layer] / ensemble.widths[layer]
        return np.ascontiguousarray(ensemble.lambda_b[layer] + rate * np.array(inner).T)

    def _average(self, weights: list[float], g: Array, u: Array, v: Array, values: Array) -> None:
        """M_p of H and H H into `values`, the layer's own weights averaged unconditionally."""
        (one, same, other), (_, single, double) = weights, self._places
        left, right = self._table.classes[:, 15:].T
        values[:, single[0]] = (g + one * u)[:, single[1]]
        products = (same - other) * v + other * (v[:, :, :1] + v[:, :, 1:2] + v[:, :, 2:])
        products[:, :, 0] += g[:, left] * g[:, right]
        products[:, :, 0] += one * (g[:, left] * u[:, right] + g[:, right] * u[:, left])
        values[:, double[0]] = products[:, double[1], double[2]]

    def _rules(self, layer: int, inverses: Array) -> Array:
        """The coefficients of `pair_kernels.second_moments`, (draws, rows)."""
        rules = np.zeros((len(inverses), 5 + 2 * (5 + SQUARE)))
        one, *two = self._coefficients
        _put_rules(rules, one, layer, inverses)
        for start, each in zip((5, 10 + SQUARE), two, strict=True):
            _put_rules(rules[:, start:], each, layer, inverses)
        return rules

    @cached_property
    def _coefficients(self) -> tuple[_Coefficients, ...]:
        p, q = ((0, 1), (2, 3)), ((0, 2), (1, 3))
        return (
            _coefficients(self.given, p[:1], p[:1]),
            _coefficients(self.given, p, p),
            _coefficients(self.given, p, q),
        )


_Coefficients = tuple[tuple[tuple[Pairing, Array], ...], ...]


def _coefficients(given: Conditioned, p: Pairing, q: Pairing) -> _Coefficients:
    """`Conditioned.coefficients` with 0, 1, … of the pairs of p made by f f, the last first."""
    return tuple(
        tuple(given.coefficients(p[:fixed], p[fixed:], q)) for fixed in range(len(p), -1, -1)
    )


def _put_rules(rules: Array, coefficients: _Coefficients, layer: int, nu: Array) -> None:
    """Rows for δ or δδ; then f_a f_a by a; then f_a f_a f_b f_b by (a, b)."""
    m = nu.shape[1]
    for made, terms in enumerate(coefficients):
        for inverse, value in terms:
            if made == 0:
                rules[:, 0] += value[layer]
            elif made == 1:
                rules[:, 1 : 1 + m] += value[layer] * nu ** len(inverse)
            else:
                left, right = (nu ** ((pair in inverse) * 1.0) for pair in ((0, 1), (2, 3)))
                for a in range(m):
                    block = rules[:, 5 + LABELS * a : 5 + LABELS * a + m]
                    block += value[layer] * left[:, a : a + 1] * right


class _Table(NamedTuple):
    """Where the sums over neurons are.

    Arguments:
        rows: how many there are.
        products, pairs, classes: of `pair_kernels`.
    """

    rows: int
    products: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
    pairs: NDArray[np.int64]
    classes: NDArray[np.int64]


@cache
def _table(m: int) -> _Table:
    products = [
        chosen for size in range(1, 5) for chosen in combinations_with_replacement(range(m), size)
    ]
    start, rows = dict[tuple[int, ...], int](), 0
    for chosen in products:
        start[chosen] = rows
        rows += SQUARE if len(chosen) % 2 else 1 + 2 * SQUARE
    number = {chosen: k for k, chosen in enumerate(products)}
    parent = [number.get(chosen[:-1], -1) for chosen in products]
    pairs = list(combinations_with_replacement(range(m), 2))
    classes = []
    for left, right in _classes(m):
        slots = (*pairs[left], *pairs[right])
        row = [start[alpha,] for alpha in slots]
        row += [start[tuple(sorted((slots[a], slots[b])))] for a, b in PAIRS]
        row += [start[tuple(sorted(slots[:k] + slots[k + 1 :]))] for k in range(4)]
        classes.append([*row, start[tuple(sorted(slots))], left, right])
    told = np.array(parent), np.array([p[-1] for p in products]), np.array(list(start.values()))
    rows_of_pairs = [[start[pair], *(start[alpha,] for alpha in pair)] for pair in pairs]
    return _Table(rows, told, np.array(rows_of_pairs), np.array(classes))


def _classes(m: int) -> list[tuple[int, int]]:
    """The products of two pairs of inputs, by the pairs' numbers."""
    return list(combinations_with_replacement(range(m * (m + 1) // 2), 2))


@cache
def _places(m: int) -> dict[Statistic, tuple[int, ...]]:
    """The statistics of H, each with its pair of inputs; of H H, with its class and p."""
    pairs = list(combinations_with_replacement(range(m), 2))
    found: dict[Statistic, tuple[int, ...]] = {
        tensor((H,), 0, ((0, 1),), pair): (k,) for k, pair in enumerate(pairs)
    }
    for each, (left, right) in enumerate(_classes(m)):
        for p, pairing in enumerate(pair_partitions(4)):
            found.setdefault(tensor((H, H), 0, pairing, (*pairs[left], *pairs[right])), (each, p))
    return found


def _lanes(groups: int, *shape: int) -> Array:
    return np.zeros((groups, *shape, LANES))


def _grouped(numbers: Array) -> Array:
    """Numbers (draws, rows) of networks as (groups, rows, LANES), zeros where there is none."""
    draws, rows = numbers.shape
    groups = -(-draws // LANES)
    whole = np.zeros((groups * LANES, rows))
    whole[:draws] = numbers
    return np.ascontiguousarray(whole.reshape(groups, LANES, rows).transpose(0, 2, 1))


def _listed(lanes: Array, count: int) -> Array:
    """So many networks (draws, …) of (groups, …, LANES)."""
    return np.moveaxis(lanes, -1, 1).reshape(-1, *lanes.shape[1:-1])[:count]


@cache
def kernels() -> ModuleType:
    """The kernels of `pair_kernels`, compiled."""
    entries = (
        pair_kernels.sum_products,
        pair_kernels.first_moments,
        pair_kernels.second_moments,
    )
    doc = "What takes products of two tangent kernels from layer to layer."
    return load_kernels("pairs", doc, entries)
