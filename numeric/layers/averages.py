"""The brackets of recursions at every layer: which averages are needed, each once, and where.

A bracket over samples a, b, … is a table over all tuples of them. What it holds at a tuple depends
on which samples are equal, so each distinct average is computed once: with one sample by
`one_sample`, with several by `several_samples` where σ is analytic, or by `broad` with two of large
variance, by `piecewise_linear` where it is made of straight lines, and on panels between kinks
elsewhere (`kinked`).

Outer derivatives act on all factors of a sample: where labels a and b of a bracket meet at one,
with n_a and n_b factors, ∂_a becomes n_a/(n_a + n_b) d/dz of them all. A recursion's sum over
labels has both, times the same tensor, and Σ n/N = 1. With kinks the factors are positions, each
with its own derivatives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement, product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.gaussian.brackets import Bracket
from derive.gaussian.shapes import Shape, SingleShape, is_even, leibniz

from ..arrays import Array
from ..brackets import pieces, quadrature
from ..brackets.shapes import MAX_POSITIONS, check_inputs, positions_of, shape_of
from . import broad, kinked, one_sample, piecewise_linear, several_samples

Places = NDArray[np.int64]

Evaluate = Callable[[Array], tuple[Array, Array]]
"""Of a kernel, (m, m), or of variances, (c,): the averages, and the sizes of what is added up in
them. With kinks and several inputs, of kernels (copies, m, m) too."""

Gradient = Callable[[Array], Array | None]
"""Of a kernel: the averages' derivatives by its entries, (count, m, m); None where those change too
fast from one kernel to the next to be of use."""

Reach = Callable[[Array], Array]
"""Of a kernel: how far its entries may go, times `_MOVED`, with one gradient."""

Copies = Callable[[Array], tuple[Array, Array]]

_MOVED = 0.5
"""How far K may go, in units of its largest entry, with one gradient; and, with kinks, 1 ∓ each
correlation in units of itself."""

_ALIKE, _STEP = 1e-6, 1e-3
"""The least 1 ∓ correlation where kinks have a gradient; its differences in units of that."""

Placed: TypeAlias = tuple[Shape, tuple[int, ...]]
"""An average, and the sample of each position."""

Shapes: TypeAlias = tuple[SingleShape, ...]
"""What stands at each sample of a set."""


class Shared(NamedTuple):
    """An average over distinct samples, ascending, and its share of the bracket."""

    members: tuple[int, ...]
    shapes: Shapes
    share: float


class Averages:
    """The distinct averages behind the brackets of recursions.

    Attributes:
        places: for each bracket, its samples in ascending order, the averages that are added up
            for each tuple of samples: (parts, m, m, …).
    """

    places: dict[Bracket, Places]

    def __init__(
        self,
        evaluate: Evaluate,
        count: int,
        places: dict[Bracket, Places],
        gradient: Gradient | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._evaluate, self._gradient, self._reach = evaluate, gradient, reach or _largest
        self.count, self.places = count, places

    def __call__(self, K: Array) -> tuple[Array, Array]:
        """Values and sizes of the averages at a kernel, (count,)."""
        return self._evaluate(K)

    def copies(self) -> Copies:
        """What averages at kernels, (copies, m, m), that differ by little, layer after layer:
        values (copies, count), and sizes (count,) at the first kernel.

        Where there is a gradient the copies follow by it, and it is taken anew where K has changed
        by more than `_MOVED` since the last time.
        """
        at, slopes = np.full((), math.inf), None

        def average(K: Array) -> tuple[Array, Array]:
            nonlocal at, slopes
            if self._gradient and not (np.abs(K[0] - at) <= _MOVED * self._reach(K[0])).all():
                at, slopes = K[0], self._gradient(K[0])
            if slopes is None:
                values, sizes = self._evaluate(K)
                return values, sizes[0]
            values, sizes = self._evaluate(K[0])
            return values + np.einsum("kab,cab->ck", slopes, K - K[0]), sizes

        return average


def of_one(activation: Activation, brackets: Iterable[Bracket]) -> Averages:
    """One input: at variances K, (c,), values and sizes are (count, c)."""
    shapes: dict[SingleShape, int] = {}
    places = {each: np.array([shapes.setdefault(shape_of(each), len(shapes))]) for each in brackets}
    return Averages(one_sample.averages(activation, list(shapes)), len(shapes), places)


def of_several(
    activation: Activation,
    brackets: Iterable[Bracket],
    m: int,
    *,
    apart: bool = False,
    distinct: bool = False,
) -> Averages:
    """m inputs: at a kernel K, (m, m), values and sizes are (count,).

    A recursion of the dense layer has each derivative outside at every label with one coefficient
    where their samples meet, so labels that meet may share the total derivative, which suits
    large kernels. `apart` keeps to each label's own, as other layers need. `distinct` leaves a 0
    where labels meet.

    Evaluated, it raises InputError for an average over more than four independent inputs.
    """
    wanted: dict[Placed, int] = {}
    shared: dict[Shared, int] = {}

    def places(bracket: Bracket) -> Places:
        labels = sorted({sample for sample, _ in bracket.factors})
        shape = (m,) * len(labels)
        tuples = list(product(range(m), repeat=len(labels)))
        if activation.is_smooth:
            met = [
                _apart(bracket, labels, at) if apart else [_met(bracket, labels, at)]
                for at in tuples
            ]
            rows = [[shared.setdefault(each, len(shared)) for each in of_one] for of_one in met]
            longest = max(map(len, rows))
            padded = [row + [_NOWHERE] * (longest - len(row)) for row in rows]
            return np.array(padded).T.reshape(longest, *shape)
        parts = []
        for each, positions in positions_of(bracket):
            at_each = [[at[labels.index(label)] for label in positions] for at in tuples]
            found = [
                wanted.setdefault(_ordered(each, tuple(row)), len(wanted))
                if not distinct or len(set(at)) == len(at)
                else _NOWHERE
                for at, row in zip(tuples, at_each, strict=True)
            ]
            parts.append(np.array(found).reshape(shape))
        return np.array(parts)

    found = {each: places(each) for each in brackets}
    gradient: Gradient | None
    reach: Reach = _largest
    if activation.is_smooth:
        averages, gradient = _smooth(activation, list(shared))
    else:
        averages, gradient, reach = _kinked(activation, list(wanted))
    sets = {each.members for each in shared}
    sets |= {tuple(sorted(set(samples))) for _, samples in wanted}
    crowded = [members for members in sets if len(members) > MAX_POSITIONS]

    def evaluate(K: Array) -> tuple[Array, Array]:
        for members in crowded:
            at = K.reshape(-1, m, m)[0][np.ix_(members, members)]
            *_, rank = several_samples.factorise(at)
            check_inputs(rank, "a combination of the others")
        return averages(K)

    count = len(wanted) + len(shared)  # behind the averages stands a 0
    found = {each: np.where(places == _NOWHERE, count, places) for each, places in found.items()}
    return Averages(evaluate, count, found, gradient, reach)


_NOWHERE = -1


def _met(bracket: Bracket, labels: Sequence[int], samples: Sequence[int]) -> Shared:
    """The bracket with its labels at these samples."""
    to = dict(zip(labels, samples, strict=True))
    members = tuple(sorted(set(samples)))
    orders = {
        member: tuple(sorted(order for label, order in bracket.factors if to[label] == member))
        for member in members
    }
    outer = Counter(to[label] for label in bracket.outer)
    own = Counter(label for label, _ in bracket.factors)
    share = math.prod(own[label] / len(orders[to[label]]) for label in bracket.outer)
    return Shared(members, tuple(SingleShape(orders[k], outer[k]) for k in members), share)


def _apart(bracket: Bracket, labels: Sequence[int], samples: Sequence[int]) -> list[Shared]:
    """The bracket with its labels at these samples, a sum: where several labels meet, derivatives
    outside go inside, each onto the factors of its own label."""
    to = dict(zip(labels, samples, strict=True))
    alone = {member for member in samples if list(samples).count(member) == 1}
    outer = Counter(to[label] for label in bracket.outer if to[label] in alone)
    terms = Counter({tuple(bracket.factors): 1})
    for label in bracket.outer:
        if to[label] not in alone:
            raised: Counter[tuple[tuple[int, int], ...]] = Counter()
            for factors, times in terms.items():
                for k, (at, order) in enumerate(factors):
                    if at == label:
                        moved = (*factors[:k], (at, order + 1), *factors[k + 1 :])
                        raised[tuple(sorted(moved))] += times
            terms = raised
    members = tuple(sorted(set(samples)))
    found: Counter[tuple[SingleShape, ...]] = Counter()
    for factors, times in terms.items():
        orders = (
            tuple(sorted(order for label, order in factors if to[label] == member))
            for member in members
        )
        shapes = (SingleShape(each, outer[k]) for each, k in zip(orders, members, strict=True))
        found[tuple(shapes)] += times
    return [Shared(members, shapes, float(times)) for shapes, times in found.items()]


def _ordered(shape: Shape, samples: tuple[int, ...]) -> Placed:
    """The same with the samples of each kind of position ascending: those are alike."""
    kinds = zip(shape.orders, (-outer for outer in shape.outer), samples, strict=True)
    return shape, tuple(sample for *_, sample in sorted(kinds))


def _smooth(activation: Activation, wanted: Sequence[Shared]) -> tuple[Evaluate, Gradient]:
    """Analytic σ: an average depends on the set of samples and on the factors at each."""
    sets: dict[tuple[int, ...], dict[Shapes, int]] = {}
    where: list[tuple[tuple[int, ...], int] | None] = []
    for members, shapes, _ in wanted:
        orders, outer = (
            [order for each in shapes for order in each.orders],
            sum(each.outer for each in shapes),
        )
        if activation.is_odd and not is_even(orders, outer):
            where.append(None)
            continue
        known = sets.setdefault(members, {})
        where.append((members, known.setdefault(shapes, len(known))))
    shares = np.array([each.share for each in wanted])
    diagonal = list(dict.fromkeys(key[0] for s in sets if len(s) == 1 for key in sets[s]))
    alone = one_sample.averages(activation, diagonal)
    twice = one_sample.averages(
        activation, [SingleShape(each.orders, each.outer + 2) for each in diagonal]
    )
    joint = {
        members: _Joint(activation, list(shapes))
        for members, shapes in sets.items()
        if len(members) > 1
    }

    def evaluate(K: Array) -> tuple[Array, Array]:
        single = np.array(alone(K.diagonal()))
        found = {
            members: np.array(
                [single[:, diagonal.index(key[0]), members[0]] for key in sets[members]]
            ).T
            if len(members) == 1
            else joint[members](K[np.ix_(members, members)])
            for members in sets
        }
        both = [found[at[0]][:, at[1]] if at else np.zeros(2) for at in where]
        values, sizes = shares * np.array(both).reshape(-1, 2).T
        return values, sizes

    def gradient(K: Array) -> Array:
        slopes, _ = twice(K.diagonal())
        total = np.zeros((len(wanted), len(K), len(K)))
        places: dict[tuple[int, ...], list[list[int]]] = {
            members: [[] for _ in shapes] for members, shapes in sets.items()
        }
        for place, at in enumerate(where):
            if at:
                places[at[0]][at[1]].append(place)
        for members, shapes in sets.items():
            grid = np.ix_(members, members)
            if len(members) == 1:
                rows = [diagonal.index(key[0]) for key in shapes]
                found = 0.5 * slopes[rows, members[0]].reshape(-1, 1, 1)
            else:
                found = joint[members].response(K[grid])
            for each, at_places in zip(found, places[members], strict=True):
                for place in at_places:
                    total[place][grid] = shares[place] * each
        return total

    return evaluate, gradient


class _Joint:
    """Averages over one set of samples: what derivatives inside consist of, each product once; or,
    of two that vary far, as a whole."""

    def __init__(self, activation: Activation, shapes: Sequence[Shapes]) -> None:
        self._activation, self._shapes = activation, list(shapes)
        products: dict[tuple[several_samples.Orders, ...], int] = {}
        entries = [
            (row, products.setdefault(tuple(factors for factors, _ in terms), len(products)), terms)
            for row, each in enumerate(shapes)
            for terms in product(*(leibniz(*shape).items() for shape in each))
        ]
        self._coefficients = np.zeros((len(shapes), len(products)))
        for row, place, terms in entries:
            self._coefficients[row, place] += math.prod(count for _, count in terms)
        self._inside = several_samples.Sums(activation, list(products))
        self._broad: dict[bool, broad.Sums] = {}

    def __call__(self, K: Array) -> Array:
        """The averages at K, (d, d), and their sizes: (2, averages)."""
        if len(K) == 2 and broad.is_broad(K) and self._far(rough=False).exist:
            return self._far(rough=False)(K)
        return np.asarray(np.einsum("kp,cp->ck", self._coefficients, self._inside(K)))

    def response(self, K: Array) -> Array:
        """Their derivatives by K to some percent: (averages, d, d)."""
        if len(K) == 2 and broad.is_broad(K) and self._far(rough=True).exist:
            values = 0.5 * self._far(rough=True)(K)[0].reshape(-1, 3)
            return np.asarray(values[:, [[0, 1], [1, 2]]])
        return np.asarray(np.einsum("kp,pab->kab", self._coefficients, self._inside.response(K)))

    def _far(self, *, rough: bool) -> broad.Sums:
        if rough not in self._broad:
            pairs = [(each[0], each[1]) for each in self._shapes]
            if rough:
                pairs = [_raised(pair, s, t) for pair in pairs for s, t in _ENTRIES]
            digits = several_samples.ROUGH if rough else quadrature.accuracy(2)
            self._broad[rough] = broad.Sums(self._activation, pairs, digits)
        return self._broad[rough]


_ENTRIES = tuple(combinations_with_replacement(range(2), 2))


def _raised(pair: broad.Pair, s: int, t: int) -> broad.Pair:
    """∂_s ∂_t of it."""
    first, second = (
        SingleShape(each.orders, each.outer + (s == k) + (t == k)) for k, each in enumerate(pair)
    )
    return first, second


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
) -> tuple[Evaluate, Gradient | None, Reach]:
    """Positions with kinks: shapes with as many of them at all tuples of samples that occur.

    At kernels (copies, m, m) values and sizes are (copies, count); between panels the copies after
    the first have its values, and what few nodes say that they differ from it by. The gradient is
    of such differences, where no two inputs are almost alike or opposite.
    """
    straight = pieces.table(activation) is not None
    by_rank: dict[int, tuple[dict[Shape, int], dict[tuple[int, ...], int]]] = {}
    where = []
    for shape, samples in wanted:
        shapes, tuples = by_rank.setdefault(len(samples), ({}, {}))
        at = shapes.setdefault(shape, len(shapes)), tuples.setdefault(samples, len(tuples))
        where.append((len(samples), *at))

    def evaluate(K: Array) -> tuple[Array, Array]:
        if K.ndim == 2:
            values, sizes = evaluate(K[None])
            return values[0], sizes[0]
        found = {}
        for rank, (shapes, tuples) in by_rank.items():
            rows = np.array(list(tuples))
            at = K[:, rows[:, :, None], rows[:, None, :]].reshape(-1, rank, rank)
            shape = 2, len(shapes), -1, len(tuples)
            if straight:
                both = piecewise_linear.averages(activation, list(shapes), at)
                found[rank] = _opposed(np.array(both), list(shapes), at).reshape(shape)
                continue
            at_first = at[: len(tuples)]
            first = np.array(kinked.averages(activation, list(shapes), at_first))
            first = _opposed(first, list(shapes), at_first)
            found[rank] = np.repeat(first.reshape(shape), len(K), axis=2)
            if len(K) > 1:
                values, _ = kinked.averages(activation, list(shapes), at, rough=True)
                apart = values.reshape(shape[1:])
                found[rank][0] += apart - apart[:, :1]
        values, sizes = (
            np.array([found[rank][part, k, :, t] for rank, k, t in where]).T for part in (0, 1)
        )
        return values, sizes

    def gradient(K: Array) -> Array | None:
        room = _between(K)
        if not (room >= _ALIKE * np.abs(K)).all() or not (K.diagonal() > 0.0).all():
            return None
        if max(by_rank) > MAX_POSITIONS:
            return None
        entries = [(a, b) for a in range(len(K)) for b in range(a + 1)]
        moved = np.repeat(K[None], 1 + len(entries), axis=0)
        for k, (a, b) in enumerate(entries, start=1):
            moved[k, a, b] = moved[k, b, a] = K[a, b] - _STEP * room[a, b] * (K[a, b] > 0.0 or -1.0)
        values = np.empty((len(moved), len(wanted)))
        for rank, (shapes, tuples) in by_rank.items():
            rows = np.array(list(tuples))
            at = moved[:, rows[:, :, None], rows[:, None, :]].reshape(-1, rank, rank)
            each, _ = kinked.averages(activation, list(shapes), at, rough=True)
            each = each.reshape(len(shapes), len(moved), len(tuples))
            places = [k for k, (own, *_) in enumerate(where) if own == rank]
            chosen = np.array([where[k][1:] for k in places])
            values[:, places] = each[chosen[:, 0], :, chosen[:, 1]].T
        slopes = np.zeros((len(wanted), *K.shape))
        for k, (a, b) in enumerate(entries, start=1):
            step = moved[k, a, b] - K[a, b]
            slopes[:, a, b] += 0.5 * (values[k] - values[0]) / step
            slopes[:, b, a] += 0.5 * (values[k] - values[0]) / step
        return slopes

    return evaluate, None if straight else gradient, _between


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
