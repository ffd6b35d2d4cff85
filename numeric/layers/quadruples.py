"""Tensors behind the last layer, set of four samples by set, in memory that layers do not raise.

A recursion of a tensor with four labels needs tensors and brackets of these four samples alone.
So a block of sets goes down all layers at once, in the copies of `accuracy`, and is dropped; only
the last layer is held. What has fewer samples is computed for all pairs and triples beforehand: K,
and the brackets. Equal labels are those of the sets that have the first sample, for every triple is
in one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from derive.engine.tensors import Name

from ..arrays import Array
from . import accuracy, analytic
from .program import ONE, Table, Tables
from .staged import StagedLayers
from .stages import Stage
from .vectors import Descent, Places, with_sizes

SAMPLES = 4
"""Of a set."""

_AVERAGED, _AT_ONCE = 1 << 14, 1 << 6
"""Sets whose brackets are computed together; of those, the sets that go down the layers together.
"""

_LEAST = 1e-30
"""Of variances: tensors of powers of them are far from the least double."""


class Behind(NamedTuple):
    """Tensors behind the last layer, by name.

    Attributes:
        values, errors: (m, m, …) each.
        is_sure: False if a number is not finite, close to the least double, or has lost digits.
    """

    values: dict[Name, Array]
    errors: dict[Name, Array]
    is_sure: bool


def bears(layers: StagedLayers, kernel: StagedLayers) -> bool:
    """True if these recursions of four samples, and those of K, go down set by set."""
    if len(layers.starts) != 1 or layers.orders != (2,):
        return False
    chains = layers.chains
    ranks = {len(name.subscripts) for name in layers.names}
    return (
        ranks <= {2, SAMPLES}
        and kernel.names == layers.names[:1]
        and all(len(each) == 1 for each in chains)
        and all(isinstance(each, Stage) and each.is_plain for each in layers.starts)
        and all(isinstance(each, Stage) and each.is_plain and each.groups for (each,) in chains)
    )


def run(
    layers: StagedLayers,
    of_kernel: StagedLayers,
    kernel: Array,
    parameters: Mapping[str, Array],
    names: Sequence[Name],
    advance: Callable[[float], None],
) -> Behind:
    """These tensors behind the last layer, with the errors that `accuracy.run` has.

    Arguments:
        layers: the recursions at four samples, K first.
        of_kernel: those of K alone at all m samples.
        kernel: of the inputs, (m, m).
        parameters: the hyperparameters by name, an entry for each layer.
        names: the tensors that are wanted, among those of `layers`.
        advance: is told of the parts that are done, of 1 together.
    """
    noise = accuracy.Disturbances.of(layers, parameters)
    rounding = noise.rounding(len(layers.names))
    kernels = _kernels(of_kernel, kernel, layers.parameters, noise)
    depth, m = len(noise.parameters), len(kernel)
    disturbed = [layers.at(layer, noise.noise) for layer in range(1, depth)]
    chain = [(stage, own) for stage, own in disturbed if isinstance(stage, Stage)]
    (first,) = (each for each in layers.starts if isinstance(each, Stage))
    averages = [_Brackets(*each, K, m) for each, K in zip(chain, kernels[:-1], strict=True)]
    passed: dict[tuple[Stage, bool], _Passage] = {}

    def through(stage: Stage, *, apart: bool = False) -> _Passage:
        key = stage, apart
        if key not in passed:
            passed[key] = _Passage(stage, apart=apart)
        return passed[key]

    wanted = [(layers.names.index(name), name) for name in names]
    values, errors = (
        {name: np.zeros((m,) * len(name.subscripts)) for name in names} for _ in range(2)
    )
    sizes = dict.fromkeys(names, 0.0)
    total = comb(m, SAMPLES)
    for sets in _blocks(m):
        fours = [each.of_four(sets) for each in averages]
        for begin in range(0, len(sets), _AT_ONCE):
            stop = min(begin + _AT_ONCE, len(sets))
            own = sets[begin:stop]
            is_first = bool((own[:, 0] == 0).any())
            at = own[:, :, None], own[:, None]
            inputs = np.moveaxis(kernel[at], 0, -1)[None]
            tensors = [_with_size(inputs.repeat(len(noise.amounts), axis=0))]
            stages = [through(first)]
            stages += [through(each) for each, _ in chain[:-1]]
            stages += [through(each, apart=not is_first) for each, _ in chain[-1:]]
            for layer, stage in enumerate(stages):
                brackets = None
                if layer:
                    brackets = averages[layer - 1](own, fours[layer - 1][..., begin:stop])
                above = stage(tensors, noise.parameters[layer], brackets)
                for k, each in enumerate(above):
                    each[:, :-1] += rounding[:, k, None] * each[:, -1:]
                last = np.moveaxis(kernels[layer][(slice(None), *at)], 1, -1)
                if above[0].size:
                    above[0][:, :-1] = last.reshape(len(last), -1, len(own)).swapaxes(0, 1)
                found, tensors = above, [_with_size(each[:, :-1].swapaxes(0, 1)) for each in above]
            for k, name in wanted:
                entries = stages[-1].entries[k]
                places = tuple(own[:, axis].T for axis in entries)
                copies, size = found[k][:, :-1], found[k][:, -1]
                values[name][places] = copies[:, 0]
                errors[name][places] = accuracy.errors_of(copies, size)
                sizes[name] = max(sizes[name], float(size.max(initial=0.0)))
            advance((stop - begin) / total)
    variances = kernels[:, 0].diagonal(axis1=1, axis2=2)
    at_one = bool((variances[-2] >= 1.0).any())
    sure = (
        _has_digits(values[name], errors[name], sizes[name], depth, at_one=at_one) for name in names
    )
    return Behind(values, errors, bool((variances > _LEAST).all()) and all(sure))


def _has_digits(values: Array, errors: Array, size: float, depth: int, *, at_one: bool) -> bool:
    """True if a tensor has as many as `flow` wants, or is zero where zeros are seen: at a kernel of
    order one."""
    if not np.isfinite(values).all():
        return False
    judged = accuracy.judged(values[None], errors[None], np.array([size]), depth)
    zero = judged.is_below_floats | judged.is_zero & at_one
    return bool((zero | ~judged.loses(accuracy.LOST)).all())


def _with_size(copies: Array) -> Array:
    """Copies, (copies, entries …, sets), with the size of the first behind: (entries, copies + 1,
    sets)."""
    whole = with_sizes(copies)
    return np.ascontiguousarray(whole.reshape(len(whole), -1, whole.shape[-1]).swapaxes(0, 1))


def _blocks(m: int) -> Iterator[Places]:
    """All sets of four of m samples, those with the first sample first, some at a time."""
    every = np.array(list(combinations(range(m), SAMPLES)))
    yield from np.split(every, range(_AVERAGED, len(every), _AVERAGED))


def _kernels(
    layers: StagedLayers, kernel: Array, names: Sequence[str], noise: accuracy.Disturbances
) -> Array:
    """K of every layer, (depth, copies, m, m); `names` are of the disturbed parameters."""
    columns = noise.parameters[:, :, [names.index(name) for name in layers.parameters]]
    own = np.zeros((len(noise.amounts), layers.noises))
    start, sizes = layers.first(kernel, columns[0, :1])
    rounding = noise.rounding(len(start))
    given = Descent(columns, own, rounding, lambda layers: None)
    (found,), _ = layers.descend((noise.at_layer_1(start), sizes), given)
    return np.asarray(found)


class _Brackets:
    """The averages of one layer: those of up to three samples for all sets of as many."""

    def __init__(self, stage: Stage, noise: Array, K: Array, m: int) -> None:
        (group,) = stage.groups
        self._K, self._noise = K[0], noise
        self._groups = group.by_size
        self._known: list[tuple[Array, Array]] = []
        self._ranks: list[Places] = []
        for each in self._groups:
            if each.samples == SAMPLES:
                continue
            own = each.over(np.array(list(combinations(range(m), each.samples))))
            values, sizes = own(K[0])
            copies = np.repeat(values[None], len(K), axis=0)
            if each.samples <= analytic.FOLLOWED:
                copies += own.response(K[0])(K - K[0])
            count = comb(m, each.samples)
            self._known.append((copies.reshape(len(K), -1, count), sizes.reshape(-1, count)))
            rank = np.zeros((m,) * each.samples, np.int64)
            rank[tuple(own.sets.T)] = np.arange(count)
            self._ranks.append(rank)

    def of_four(self, sets: Places) -> Array:
        """The averages over these sets of four samples: (2, averages, sets)."""
        if self._groups[-1].samples < SAMPLES:
            return np.zeros((2, 0, len(sets)))
        return self._groups[-1].over(sets)(self._K).reshape(2, -1, len(sets))

    def __call__(self, sets: Places, fours: Array) -> Array:
        """The averages of the stage of four samples, and a 0 behind them: (averages + 1,
        copies + 1, sets)."""
        copies = len(self._noise)
        values, sizes = [], []
        for (known, of_known), rank in zip(self._known, self._ranks, strict=True):
            chosen = list(combinations(range(SAMPLES), rank.ndim))
            at = rank[tuple(sets[:, [each[k] for each in chosen]].T for k in range(rank.ndim))]
            values.append(known[:, :, at].reshape(copies, -1, len(sets)))
            sizes.append(of_known[:, at].reshape(-1, len(sets)))
        values.append(np.repeat(fours[:1], copies, axis=0))
        sizes.append(fours[1])
        found = np.zeros((self._noise.shape[1] + 1, copies + 1, len(sets)))
        size = np.concatenate(sizes)
        found[:-1, :-1] = np.concatenate(values, axis=1).swapaxes(0, 1)
        found[:-1, :-1] += self._noise.T[:, :, None] * size[:, None]
        found[:-1, -1] = size
        return found


class _Term(NamedTuple):
    """A monomial: its coefficient, the places of factors that are numbers, and those of the others
    at every entry."""

    coefficient: float
    numbers: list[int]
    factors: list[Places]


class _Passage:
    """The recursions through one stage at many sets of four samples.

    Arguments:
        apart: True if only entries of four different samples are wanted.

    Attributes:
        entries: of each tensor, the sample of each axis at every entry that is computed.
    """

    def __init__(self, stage: Stage, *, apart: bool) -> None:
        self._stage = stage
        self.entries: list[Places] = [np.zeros(0, np.int64)] * len(stage.steps)
        self._terms: list[list[_Term]] = [[] for _ in stage.steps]
        assert isinstance(stage.tables, Tables)
        for rows, table in stage.tables.by_rank:
            assert isinstance(table, Table)
            everywhere = table.everywhere
            rank = len(stage.steps[rows[0]].target.subscripts)
            at = np.array(np.unravel_index(np.arange(SAMPLES**rank), (SAMPLES,) * rank))
            alike = (np.diff(np.sort(at, axis=0), axis=0) == 0).any(axis=0)
            chosen = ~alike if apart and rank == SAMPLES else np.full(len(alike), not apart)
            ends = [*table.begins[1:], len(table.coefficients)]
            for row, begin, end in zip(rows, table.begins, ends, strict=True):
                self.entries[row] = at[:, chosen]
                for k in range(begin, end):
                    self._terms[row].append(
                        _term(float(table.coefficients[k]), everywhere[k][:, chosen])
                    )

    def __call__(
        self, tensors: Sequence[Array], parameters: Array, brackets: Array | None
    ) -> list[Array]:
        """Each tensor behind the stage, its sizes last: (entries, copies + 1, sets).

        Arguments:
            tensors: those before the stage, all entries of them.
            parameters: (copies, parameters).
            brackets: as `_Brackets` has them; None of a stage that averages nothing.
        """
        vectors = self._stage.of_sets(tensors, parameters, brackets)
        live = np.asarray(vectors.reshape(len(vectors), -1).any(axis=1))
        found = []
        for entries, terms in zip(self.entries, self._terms, strict=True):
            total = np.zeros((entries.shape[-1], *vectors.shape[1:]))
            one, other = np.empty_like(total), np.empty_like(total)
            for coefficient, numbers, factors in terms if total.size else ():
                if not (live[numbers].all() and all(live[each].any() for each in factors)):
                    continue
                scale = coefficient * np.multiply.reduce(vectors[numbers], axis=0)
                if not factors:
                    one[:] = scale
                for k, each in enumerate(factors):
                    np.take(vectors, each, axis=0, out=other if k else one, mode="clip")
                    np.multiply(one, other if k else scale, out=one)
                np.abs(one[:, -1], out=one[:, -1])
                total += one
            found.append(total)
        return found


def _term(coefficient: float, places: Places) -> _Term:
    """From the places of the factors, (factors, entries)."""
    numbers, factors = [], []
    for each in places:
        if each.size and (each == each[0]).all():
            numbers += [int(each[0])] * int(each[0] != ONE)
        else:
            factors.append(np.ascontiguousarray(each))
    return _Term(coefficient, numbers, factors)
