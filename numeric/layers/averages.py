"""The brackets of recursions at every layer: which averages are needed, each once, and where.

A bracket over samples a, b, … is a table over all tuples of them. What it holds at a tuple depends
on which samples are equal, so each distinct average is computed once: with one sample by
`one_sample`, with several by `analytic` where σ is analytic, by `piecewise_linear` where it is made
of straight lines, and on panels between kinks elsewhere (`kinked`).

Outer derivatives act on all factors of a sample: where labels a and b of a bracket meet at one,
with n_a and n_b factors, ∂_a becomes n_a/(n_a + n_b) d/dz of them all. A recursion's sum over
labels has both, times the same tensor, and Σ n/N = 1. With kinks the factors are positions, each
with its own derivatives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, groupby, pairwise, permutations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.brackets import Bracket, inside
from derive.gaussian.shapes import Shape, SingleShape
from derive.groups.pairings import pattern_of
from derive.work.caches import cache

from ..arrays import Array
from ..brackets import pieces
from ..brackets.shapes import MAX_INPUTS, check_inputs, positions_of, shape_of
from . import analytic, kinked, one_sample, piecewise_linear, several_samples, shared
from .resting import at_rest

Places = NDArray[np.int64]

Reach = Callable[[Array], Array]
"""Of a kernel: how far its entries may go, times `_MOVED`, with one gradient."""

Copies = Callable[[Array], tuple[Array, Array]]

_MOVED = 0.5
"""How far K may go, in units of its largest entry, with one gradient; and, with kinks, 1 ∓ each
correlation in units of itself."""

_CLOSE = 1e-4
"""How far apart copies' K may be, relative to it, for a slope to tell what they have."""

_NEAR = 0.1
"""How far K of one input may go, relative to it, with one slope."""
_MANY = 64
"""Layers at a time from which on a slope takes less than averages at every copy."""

_FOLLOWED = 32
"""Inputs up to which averages with kinks have a gradient: it is by each entry of K."""

_ALIKE, _STEP = 1e-6, 1e-3
"""The least 1 ∓ correlation where kinks have a gradient; its differences in units of that."""

Placed: TypeAlias = tuple[Shape, tuple[int, ...]]
"""An average, and the sample of each position."""


class Averages:
    """The distinct averages behind the brackets of recursions.

    Attributes:
        places: for each bracket, its samples in ascending order, the averages that are added up
            for each tuple of samples: (parts, m, m, …).
        by_size: of analytic σ, the averages over sets of so many samples, one group after another.
    """

    places: dict[Bracket, Places]
    by_size: Sequence[analytic.Group]

    def __init__(
        self,
        evaluate: analytic.Evaluate,
        count: int,
        places: dict[Bracket, Places],
        gradient: analytic.Gradient | None = None,
        reach: Reach | None = None,
        raised: analytic.Evaluate | None = None,
        by_size: Sequence[analytic.Group] = (),
    ) -> None:
        self.by_size = by_size
        self._evaluate, self._gradient, self._reach = evaluate, gradient, reach or _largest
        self._raised, self.count, self.places = raised, count, places

    def __call__(self, K: Array) -> tuple[Array, Array]:
        """Values and sizes of the averages at a kernel, (count,)."""
        return self._evaluate(K)

    def along(self) -> Copies:
        """Averages at one input's variances, (layers, copies), that differ by little from copy
        to copy, block after block: values and sizes, (count, layers, copies).

        The copies follow the first by d⟨f⟩/dK = ½⟨f''⟩, taken anew where K has changed by more than
        `_NEAR`; where ⟨f''⟩ is not finite, and of few layers, each has its own average.
        """
        at, slope = -math.inf, np.zeros(self.count)

        def slopes(K: Array) -> Array:
            nonlocal at, slope
            anchors, which = [], []
            for layer, value in enumerate(K.tolist()):
                if not abs(value - at) <= _NEAR * at:
                    at = value
                    anchors.append(layer)
                which.append(len(anchors))
            found = slope[:, None]
            if anchors:
                assert self._raised is not None
                fresh = 0.5 * self._raised(K[anchors])[0]
                fresh[(K[anchors] == 0.0) & ~np.isfinite(fresh)] = 0.0  # where all copies are
                found = np.concatenate([found, fresh], axis=1)
            slope = found[:, -1]
            return found[:, which]

        def average(K: Array) -> tuple[Array, Array]:
            first = K[:, :1]
            moved = K - first
            if (
                K.shape[1] == 1
                or len(K) < _MANY
                or not np.isfinite(K).all()
                or not (np.abs(moved) <= _CLOSE * first).all()
            ):
                values, sizes = self._evaluate(K.ravel())
                return values.reshape(-1, *K.shape), sizes.reshape(-1, *K.shape)
            values, sizes = self._evaluate(K[:, 0])
            own = slopes(K[:, 0])
            with np.errstate(invalid="ignore"):
                copies = values[..., None] + own[..., None] * moved
            away = ~np.isfinite(own)
            if away.any():
                copies[away] = self._evaluate(K.ravel())[0].reshape(copies.shape)[away]
            return copies, np.broadcast_to(sizes[..., None], copies.shape)

        return average

    def copies(self) -> Copies:
        """Averages at kernels, (copies, m, m) or (copies,), that differ by little, layer after
        layer: values (copies, count), and sizes (count,) at the first kernel.

        Where there is a gradient the copies follow by it, and it is taken anew where K has changed
        by more than `_MOVED` since the last time.
        """
        at, change = np.full((), math.inf), None

        def average(K: Array) -> tuple[Array, Array]:
            nonlocal at, change
            if self._raised is not None:  # of one input
                values, sizes = self._evaluate(K.ravel())
                return values.T, sizes[:, 0]
            K = K[:, None, None] if K.ndim == 1 else K
            if len(K) == 1:
                values, sizes = self._evaluate(K[0])
                return values[None], sizes
            if self._gradient and not (np.abs(K[0] - at) <= _MOVED * self._reach(K[0])).all():
                at, change = K[0], self._gradient(K[0])
            if change is None:
                values, sizes = self._evaluate(K)
                return values, sizes[0]
            values, sizes = self._evaluate(K[0])
            values = np.repeat(values[None], len(K), axis=0)
            moved = change(K - K[0])
            values[:, : moved.shape[1]] += moved
            return values, sizes

        return average


def of_one(activation: Activation, brackets: Iterable[Bracket]) -> Averages:
    """One input: at variances K, (c,), values and sizes are (count, c)."""
    shapes: dict[SingleShape, int] = {}
    places = {each: np.array([shapes.setdefault(shape_of(each), len(shapes))]) for each in brackets}
    own = list(shapes)
    above = [each._replace(outer=each.outer + 2) for each in own]
    evaluate, raised = (one_sample.averages(activation, each) for each in (own, above))
    return Averages(evaluate, len(own), places, raised=raised)


def of_several(
    activation: Activation,
    brackets: Iterable[Bracket],
    m: int,
    *,
    apart: bool = False,
    distinct: bool = False,
    exchangeable: bool = False,
) -> Averages:
    """m inputs: at a kernel K, (m, m), values and sizes are (count,).

    A recursion of the dense layer has each derivative outside at every label with one coefficient
    where their samples meet, so labels that meet may share the total derivative, which suits
    large kernels. `apart` keeps to each label's own, as other layers need. `distinct` leaves a 0
    where labels meet, of a σ with kinks. With `exchangeable` inputs all sets of as many inputs have
    the same averages, and one set of each size is computed.

    Evaluated, it raises InputError for an average over more than four independent inputs.
    """
    return _of_several(activation, tuple(brackets), m, apart, distinct, exchangeable)


@cache(entries=16)
def _of_several(
    activation: Activation,
    brackets: tuple[Bracket, ...],
    m: int,
    apart: bool,
    distinct: bool,
    exchangeable: bool,
) -> Averages:
    if activation.is_smooth:
        return _of_sets(activation, brackets, m, apart=apart, exchangeable=exchangeable)
    wanted: dict[Placed, int] = {}
    numbered = _numbered_up_to_permutations if exchangeable else _numbered

    def places(bracket: Bracket) -> Places:
        labels = bracket.samples
        shape = (m,) * len(labels)
        grid = np.indices(shape).reshape(len(labels), -1).T
        if exchangeable:
            grid = np.array([pattern_of(tuple(each)) for each in grid.tolist()]).reshape(grid.shape)
        counted = np.ones(len(grid), bool)
        if distinct:
            counted = (np.diff(np.sort(grid, axis=1), axis=1) != 0).all(axis=1)
        parts = []
        for each, positions in positions_of(bracket):
            columns = np.array([labels.index(label) for label in positions], np.int64)
            rows = grid[counted][:, columns]
            parts.append(np.full(len(grid), _NOWHERE))
            parts[-1][counted] = numbered(each, rows, wanted)
        return np.reshape(parts, (-1, *shape))

    found = {each: places(each) for each in brackets}
    zero = len(wanted)  # behind the averages stands a 0
    found = {each: np.where(places == _NOWHERE, zero, places) for each, places in found.items()}
    averages, gradient, reach = _kinked(activation, list(wanted))
    sets = {tuple(sorted(set(samples))) for _, samples in wanted}
    evaluate = _checked(averages, [each for each in sets if len(each) > MAX_INPUTS], m)
    if exchangeable:
        evaluate, gradient = _shared(activation, list(wanted), evaluate), None
    return Averages(evaluate, len(wanted), found, gradient, reach)


_NOWHERE = -1


def _checked(
    averages: analytic.Evaluate, crowded: Sequence[tuple[int, ...]], m: int
) -> analytic.Evaluate:
    """The same, with InputError where samples of one of these sets are not dependent enough."""

    def evaluate(K: Array) -> tuple[Array, Array]:
        for members in crowded:
            at = K.reshape(-1, m, m)[0][np.ix_(members, members)]
            *_, rank = several_samples.factorise(at)
            check_inputs(rank, "a combination of the others")
        return averages(K)

    return evaluate


def _of_sets(
    activation: Activation,
    brackets: Sequence[Bracket],
    m: int,
    *,
    apart: bool,
    exchangeable: bool,
) -> Averages:
    """`of_several` of analytic σ: an average depends on the set of samples and on the factors at
    each, in ascending order, so that all sets of as many samples have the same averages.

    They are numbered by how many samples they have, then by what they are, then by the set.
    """
    by_size: list[dict[analytic.Shared, int]] = [{} for _ in range(m + 1)]
    how = {"apart": apart, "exchangeable": exchangeable}
    numbered = {bracket: _by_order(bracket, m, by_size, **how) for bracket in brackets}
    sets = [1 if exchangeable else math.comb(m, d) for d in range(m + 1)]
    begins = np.cumsum([0, *(len(of) * n for of, n in zip(by_size, sets, strict=True))])
    found = {}
    for bracket, (ranks, parts) in numbered.items():
        rank = len(bracket.samples)
        longest = max(len(each) for _, each in parts)
        table = np.full((longest, m**rank), begins[-1], np.int32)  # behind the averages stands a 0
        for k, (d, each) in enumerate(parts):
            rows = ranks.pattern == k
            for part, block in enumerate(each):
                place = 0 if exchangeable else ranks.place[rows]
                table[part, rows] = begins[d] + block * sets[d] + place
        found[bracket] = table.reshape(longest, *(m,) * rank)
    if exchangeable:
        evaluate = analytic.of_exchangeable(activation, [list(of) for of in by_size], m)
        return Averages(evaluate, int(begins[-1]), found)
    averages, gradient, groups = analytic.evaluators(activation, [list(of) for of in by_size], m)
    chosen = [d for d in range(MAX_INPUTS + 1, m + 1) if by_size[d]]
    crowded = [members for d in chosen for members in combinations(range(m), d)]
    evaluate = _checked(averages, crowded, m)
    return Averages(evaluate, int(begins[-1]), found, gradient, by_size=groups)


class _Ranked(NamedTuple):
    """Of all tuples of samples: which pattern of equal and smaller ones each has, and which set of
    samples it is of, in the order of `combinations`."""

    pattern: Places
    place: Places


def _by_order(
    bracket: Bracket,
    m: int,
    by_size: Sequence[dict[analytic.Shared, int]],
    *,
    apart: bool,
    exchangeable: bool,
) -> tuple[_Ranked, list[tuple[int, list[int]]]]:
    """The tuples of a bracket's samples; for each pattern how many there are, and the averages."""
    labels = bracket.samples
    patterns, ranked = _ranked(m, len(labels))
    parts = []
    for pattern in patterns:
        met = separate(bracket, pattern) if apart else [together(bracket, pattern)]
        if exchangeable:
            met = [each._replace(shapes=tuple(sorted(each.shapes))) for each in met]
        d = max(pattern) + 1
        parts.append((d, [by_size[d].setdefault(each, len(by_size[d])) for each in met]))
    return ranked, parts


@cache(entries=16)
def _ranked(m: int, labels: int) -> tuple[list[tuple[int, ...]], _Ranked]:
    """The patterns, each as the rank of every label, and all tuples of samples of 0 … m − 1."""
    tuples = np.array(np.unravel_index(np.arange(m**labels), (m,) * labels)).T
    below = tuples[:, None, :] < tuples[:, :, None]
    first = np.array([~(tuples[:, :k] == tuples[:, k, None]).any(axis=1) for k in range(labels)]).T
    ranks = (below & first[:, None, :]).sum(axis=2)
    patterns, pattern = np.unique(ranks, axis=0, return_inverse=True)
    place = np.zeros(len(tuples), np.int64)
    for d in set((patterns.max(axis=1) + 1).tolist()):
        of = np.full((m + 1,) * d, -1)
        members = np.array(list(combinations(range(m), d)))
        of[tuple(members.T)] = np.arange(len(members))
        rows = ranks.max(axis=1) == d - 1
        chosen = np.where(first, tuples, m)[rows]
        place[rows] = of[tuple(np.sort(chosen, axis=1)[:, :d].T)]
    return list(map(tuple, patterns.tolist())), _Ranked(pattern.reshape(-1), place)


def together(bracket: Bracket, samples: Sequence[int]) -> analytic.Shared:
    """The bracket with its labels at these samples, where labels that meet share derivatives."""
    to = dict(zip(bracket.samples, samples, strict=True))
    members = tuple(sorted(set(samples)))
    orders = {
        member: tuple(sorted(order for label, order in bracket.factors if to[label] == member))
        for member in members
    }
    outer = Counter(to[label] for label in bracket.outer)
    own = Counter(label for label, _ in bracket.factors)
    shares = (Fraction(own[label], len(orders[to[label]])) for label in bracket.outer)
    shapes = tuple(SingleShape(orders[k], outer[k]) for k in members)
    return analytic.Shared(shapes, math.prod(shares, start=Fraction(1)))


def separate(
    bracket: Bracket, samples: Sequence[int], *, inside_alone: bool = False
) -> list[analytic.Shared]:
    """The bracket with its labels at these samples, a sum: where several labels meet, derivatives
    outside go inside, each onto the factors of its own label. So do, if asked, all others."""
    to = dict(zip(bracket.samples, samples, strict=True))
    places = Counter(samples)
    kept = {label for label in bracket.outer if places[to[label]] == 1 and not inside_alone}
    outer = Counter(to[label] for label in bracket.outer if label in kept)
    members = tuple(sorted(places))
    found: Counter[tuple[SingleShape, ...]] = Counter()
    for factors, times in inside(bracket, kept).items():
        orders = (
            tuple(sorted(order for label, order in factors if to[label] == member))
            for member in members
        )
        shapes = (SingleShape(each, outer[k]) for each, k in zip(orders, members, strict=True))
        found[tuple(shapes)] += times
    return [analytic.Shared(shapes, Fraction(times)) for shapes, times in found.items()]


def _numbered(shape: Shape, rows: Places, wanted: dict[Placed, int]) -> Places:
    """The numbers of averages with these samples, (tuples, positions); new ones join `wanted`, in
    the order in which they come."""
    kinds = list(zip(shape.orders, (-outer for outer in shape.outer), strict=True))
    rows = rows[:, sorted(range(len(kinds)), key=kinds.__getitem__)]
    ends = np.cumsum([0, *(len(list(alike)) for _, alike in groupby(sorted(kinds)))])
    for start, end in pairwise(ends.tolist()):
        rows[:, start:end] = np.sort(rows[:, start:end], axis=1)
    codes = rows @ (1 + rows.max(initial=0)) ** np.arange(rows.shape[1])
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    numbers = np.empty(len(first), np.int64)
    for at in np.argsort(first).tolist():
        placed = shape, tuple(rows[first[at]].tolist())
        numbers[at] = wanted.setdefault(placed, len(wanted))
    return numbers[inverse]


def _numbered_up_to_permutations(
    shape: Shape, rows: Places, wanted: dict[Placed, int]
) -> list[int]:
    """The same of exchangeable samples."""
    each = (_up_to_permutations(shape, tuple(row)) for row in rows.tolist())
    return [wanted.setdefault(placed, len(wanted)) for placed in each]


def _ordered(shape: Shape, samples: tuple[int, ...]) -> Placed:
    """The same with the samples of each kind of position ascending: those are alike."""
    kinds = zip(shape.orders, (-outer for outer in shape.outer), samples, strict=True)
    return shape, tuple(sample for *_, sample in sorted(kinds))


@cache(entries=1 << 14)
def _up_to_permutations(shape: Shape, samples: tuple[int, ...]) -> Placed:
    """`_ordered` for exchangeable samples: one of all that a permutation makes of them."""
    orders = permutations(range(max(samples) + 1))
    return min(_ordered(shape, tuple(order[at] for at in samples)) for order in orders)


def _largest(K: Array) -> Array:
    """Of analytic averages, in every direction: the largest entry."""
    return np.full(K.shape, np.abs(K).max())


def _between(K: Array) -> Array:
    """Of averages with kinks, which depend on the angles: (m, m), 1 ∓ correlation times K's
    entries' size, the least of each input on the diagonal."""
    root = np.sqrt(np.maximum(K.diagonal(), 0.0))
    sizes = root[:, None] * root
    gaps = sizes - np.abs(K)
    np.fill_diagonal(gaps, K.diagonal())
    least = (gaps / np.where(sizes > 0.0, sizes, 1.0)).min(axis=1)
    np.fill_diagonal(gaps, least * K.diagonal())
    return np.asarray(gaps)


def _kinked(
    activation: Activation, wanted: Sequence[Placed]
) -> tuple[analytic.Evaluate, analytic.Gradient | None, Reach]:
    """Positions with kinks: shapes with as many of them at all tuples of samples that occur.

    At kernels (copies, m, m) values and sizes are (copies, count); between panels the copies after
    the first have its values, and what few nodes say that they differ from it by. The gradient is
    of such differences, where no two inputs are almost alike or opposite.
    """
    straight = pieces.table(activation) is not None
    ranks = [_together(wanted, rank) for rank in sorted({len(each) for _, each in wanted})]

    def evaluate(K: Array) -> tuple[Array, Array]:
        if K.ndim == 2:
            values, sizes = evaluate(K[None])
            return values[0], sizes[0]
        K = np.maximum(K, K.swapaxes(1, 2))  # one 1 ∓ correlation, in whatever order of positions
        values, sizes = both = np.empty((2, len(K), len(wanted)))
        for shapes, tuples, places, chosen, which in ranks:
            at = _covariances(K, tuples)
            shape = 2, len(shapes), -1, len(tuples)
            if straight:
                found = np.array(piecewise_linear.averages(activation, shapes, at))
                found = _opposed(found, shapes, at).reshape(shape)
            else:
                at_first = at[: len(tuples)]
                first = np.array(kinked.averages(activation, shapes, at_first))
                first = _opposed(first, shapes, at_first)
                found = np.repeat(first.reshape(shape), len(K), axis=2)
                if len(K) > 1:
                    rough, _ = kinked.averages(activation, shapes, at, rough=True)
                    apart = rough.reshape(shape[1:])
                    found[0] += apart - apart[:, :1]
            both[:, :, places] = np.moveaxis(found[:, chosen, :, which], 0, -1)
        resting = K.diagonal(axis1=1, axis2=2) == 0.0
        if resting.any():
            _rest(activation, wanted, resting, values, sizes)
        return values, sizes

    def gradient(K: Array) -> analytic.Change | None:
        room = _between(K)
        if (
            len(K) > _FOLLOWED
            or not (room >= _ALIKE * np.abs(K)).all()
            or not (K.diagonal() > 0.0).all()
        ):
            return None
        if len(ranks[-1].tuples[0]) > MAX_INPUTS:
            return None
        entries = [(a, b) for a in range(len(K)) for b in range(a + 1)]
        moved = np.repeat(K[None], 1 + len(entries), axis=0)
        for k, (a, b) in enumerate(entries, start=1):
            moved[k, a, b] = moved[k, b, a] = K[a, b] - _STEP * room[a, b] * (K[a, b] > 0.0 or -1.0)
        values = np.empty((len(moved), len(wanted)))
        for shapes, tuples, places, chosen, which in ranks:
            each, _ = kinked.averages(activation, shapes, _covariances(moved, tuples), rough=True)
            each = each.reshape(len(shapes), len(moved), len(tuples))
            values[:, places] = each[chosen, :, which].T
        slopes = np.zeros((len(wanted), *K.shape))
        for k, (a, b) in enumerate(entries, start=1):
            step = moved[k, a, b] - K[a, b]
            slopes[:, a, b] += 0.5 * (values[k] - values[0]) / step
            slopes[:, b, a] += 0.5 * (values[k] - values[0]) / step
        return partial(np.einsum, "kab,cab->ck", slopes)

    return evaluate, None if straight else gradient, _between


def _shared(
    activation: Activation, wanted: Sequence[Placed], otherwise: analytic.Evaluate
) -> analytic.Evaluate:
    """Of exchangeable samples and kinks: the sums of `shared`, or else these averages."""
    products = [_by_sample(*each) for each in wanted]
    alone = np.array([len(each) == 1 for each in products])
    single, several = (
        shared.of_kinked(activation, [products[k] for k in np.flatnonzero(own)])
        for own in (alone, ~alone)
    )

    def at(q: float, p: float) -> Array | None:
        found = np.empty((2, len(products)))
        of_several = several(q, p)
        if of_several is None:
            return None
        found[:, alone], found[:, ~alone] = single(q, 0.0), of_several
        return found

    def evaluate(K: Array) -> tuple[Array, Array]:
        of_kernels = [at(each[0, 0], each[0, -1]) for each in K.reshape(-1, *K.shape[-2:])]
        known = [each for each in of_kernels if each is not None]
        if len(known) < len(of_kernels):
            return otherwise(K)
        values, sizes = np.array(known).swapaxes(0, 1)
        return (values[0], sizes[0]) if K.ndim == 2 else (values, sizes)

    return evaluate


def _by_sample(shape: Shape, samples: Sequence[int]) -> list[Shape]:
    """The functions at each of the samples of these positions."""
    every = list(zip(samples, *shape, strict=True))
    own = ([each[1:] for each in every if each[0] == sample] for sample in sorted(set(samples)))
    return [Shape(*zip(*sorted(each), strict=True)) for each in own]


class _Together(NamedTuple):
    """Averages over as many positions.

    Attributes:
        shapes: of the positions.
        tuples: of samples, (tuples, positions).
        places, chosen, which: which of all averages each is, its shape and its tuple.
    """

    shapes: list[Shape]
    tuples: Places
    places: Places
    chosen: Places
    which: Places


def _together(wanted: Sequence[Placed], rank: int) -> _Together:
    """Those of so many positions."""
    shapes: dict[Shape, int] = {}
    tuples: dict[tuple[int, ...], int] = {}
    rows = [
        (k, shapes.setdefault(shape, len(shapes)), tuples.setdefault(samples, len(tuples)))
        for k, (shape, samples) in enumerate(wanted)
        if len(samples) == rank
    ]
    return _Together(list(shapes), np.array(list(tuples)), *np.array(rows).T)


def _covariances(K: Array, tuples: Places) -> Array:
    """Of the positions of each tuple, copy by copy, (copies · tuples, positions, positions)."""
    rank = tuples.shape[1]
    return K[:, tuples[:, :, None], tuples[:, None, :]].reshape(-1, rank, rank)


def _rest(
    activation: Activation,
    wanted: Sequence[Placed],
    resting: NDArray[np.bool_],
    values: Array,
    sizes: Array,
) -> None:
    """Set averages, (copies, count), whose sample has z = 0 in a copy; `resting` is (copies, m).

    They are 0 if the factors at that sample are 0, and nan if those are undefined (`resting`).
    """
    for k, (shape, samples) in enumerate(wanted):
        for sample in set(samples):
            rows = resting[:, sample]
            if not rows.any():
                continue
            at = [p for p, own in enumerate(samples) if own == sample]
            value = float(at_rest(activation, tuple(sorted(shape.orders[p] for p in at))))
            if value == 0.0 or any(shape.outer[p] for p in at):
                values[rows, k] = sizes[rows, k] = 0.0
                break
            if math.isnan(value):
                values[rows, k] = sizes[rows, k] = math.nan


def _opposed(both: Array, shapes: Sequence[Shape], K: Array) -> Array:
    """Values and sizes, (2, shapes, t), at covariances (t, d, d): a 0 of positions that are
    opposite, to rounding, has their natural size.

    Where one lies above a kink the other does not, and nothing is added up; but two that are not
    quite opposite have the angle between them, or a power of it.
    """
    variances = K.diagonal(axis1=1, axis2=2)
    sizes = np.sqrt(variances[:, :, None] * variances[:, None, :])
    least = (1.0 - 2.0 * pieces.SLACK) * sizes
    opposite = ((least <= -K) & (sizes > 0.0)).any(axis=(1, 2))
    if not opposite.any():
        return both
    powers = np.array([1 - np.add(each.orders, each.outer) for each in shapes])
    with np.errstate(all="ignore"):
        natural = np.prod(np.sqrt(variances) ** powers[:, None, :], axis=-1)
    unseen = opposite & (both[0] == 0.0) & (both[1] == 0.0) & np.isfinite(natural)
    return np.array([both[0], np.where(unseen, natural, both[1])])
