"""Reading arrays over samples: sums over positions, a sum of its own for each label.

A label of the result stands for Σ_p A_{p'p} of what is at p, or behind a skip that reads other
positions for Σ_p S_{p'p}. A functional takes functions f of two samples. With z' = γ S z + ξ these
become functions of two sums over the samples below. So each layer lists the sums that are needed
further up behind its samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

from derive.engine.taps import AGAIN, MOVED, Taps, matrices

from ...arrays import Array
from ..program import multiplied

Pairs = list[tuple[int, int]]


class Arguments(NamedTuple):
    """The arguments of the functions that functionals of a layer take.

    Arguments:
        samples: how many samples the layer has.
        sums: of samples, (sums, samples): first each sample by itself.
        pairs: of sums: first those of the samples, each pair once in ascending order.
    """

    samples: int
    sums: Array
    pairs: Pairs

    @classmethod
    def of_samples(cls, m: int) -> Arguments:
        """Those of the samples."""
        return cls(m, np.eye(m), list(combinations_with_replacement(range(m), 2)))

    @property
    def own(self) -> Pairs:
        """The pairs of samples."""
        return self.pairs[: self.samples * (self.samples + 1) // 2]

    def below(self, taps: Taps, *, carries: bool) -> tuple[Arguments, list[int]]:
        """Those of the layer below, and which of its pairs each of these pairs is a sum of.

        Arguments:
            taps: the positions that the layer reads.
            carries: whether it has a skip. Without one any pair will do.
        """
        signals = self.samples // taps.results
        if not carries:
            return self.of_samples(signals * taps.positions), [0] * len(self.pairs)
        if taps.past is None:
            return self, list(range(len(self.pairs)))
        (S,) = _of_signals(taps.past, signals)
        found = self.of_samples(S.shape[1])
        sums, places = list(found.sums), list[int]()
        for row in self.sums @ S:
            (at, *others) = map(int, np.flatnonzero(row))
            if others or row[at] != 1.0 or at in places:
                at = len(sums)
                sums.append(row)
            places.append(at)
        wanted = [(places[a], places[b]) for a, b in self.pairs]
        pairs = list(dict.fromkeys([*found.pairs, *wanted]))
        return Arguments(S.shape[1], np.array(sums), pairs), [pairs.index(each) for each in wanted]


def _of_signals(taps: Taps, signals: int) -> list[Array]:
    """A of each tap, between the samples of so many signals: (results, samples)."""
    return [np.asarray(np.kron(np.eye(signals), each), float) for each in matrices(taps)]


class Over(NamedTuple):
    """An array over samples.

    Arguments:
        values: (lead, m, …), an axis for each label, and then an axis of coefficients, if any.
        labels: of its axes, distinct and ascending; those of results are below 0.
    """

    values: Array
    labels: tuple[int, ...]

    def at(self, labels: Sequence[int]) -> Array:
        """With axes for these labels, of length 1 for those that it has not."""
        if tuple(labels) == self.labels:
            return self.values
        place = {label: k for k, label in enumerate(labels, 1)}
        order = sorted(range(len(self.labels)), key=lambda k: place[self.labels[k]])
        values = self.values.transpose(
            0, *(1 + k for k in order), *range(1 + len(order), self.values.ndim)
        )
        shape = [1] * len(labels)
        for k, size in zip(order, values.shape[1:], strict=False):
            shape[place[self.labels[k]] - 1] = size
        return values.reshape(len(values), *shape, *values.shape[1 + len(order) :])

    def taken(self, label: int, index: int) -> Over:
        """At one entry of an axis; the same where it has no such axis."""
        if label not in self.labels:
            return self
        k = self.labels.index(label)
        return Over(
            np.asarray(self.values.take(index, 1 + k)), (*self.labels[:k], *self.labels[k + 1 :])
        )


def over(values: Array, labels: Sequence[int]) -> Over:
    """An array with these labels of its axes: where labels meet, the diagonal."""
    known = sorted(set(labels))
    if known == list(labels):
        return Over(values, tuple(labels))
    if len(known) == len(labels):
        order = sorted(range(len(labels)), key=labels.__getitem__)
        rest = range(1 + len(labels), values.ndim)
        return Over(values.transpose(0, *(1 + k for k in order), *rest), tuple(known))
    letters = "".join(chr(ord("a") + known.index(label)) for label in labels)
    ends = "".join(sorted(set(letters)))
    return Over(np.einsum(f"Z{letters}...->Z{ends}...", values), tuple(known))


def results(rank: int) -> tuple[int, ...]:
    """The labels of so many samples of a result."""
    return tuple(range(-1, -1 - rank, -1))


def added(one: Over, other: Over) -> Over:
    """The sum of arrays, each repeated along axes that it has not."""
    (a, b), labels = joined([one, other])
    return Over(a + b, labels)


def at_pair(part: Over, rank: int, pair: tuple[int, int]) -> Over:
    """An array at one pair of samples, or sums, that a function is of."""
    for label, index in zip((rank + 1, rank + 2), pair, strict=True):
        part = part.taken(-label, index)
    return part


def joined(parts: Iterable[Over]) -> tuple[list[Array], tuple[int, ...]]:
    """The arrays with axes for all labels of any of them."""
    given = list(parts)
    labels = tuple(sorted({label for part in given for label in part.labels}))
    return [part.at(labels) for part in given], labels


class Reading:
    """The sums of one layer.

    Arguments:
        taps: the positions that it reads.
        carries: whether it has a skip.
        above: the arguments of functions behind it.
    """

    def __init__(self, taps: Taps, above: Arguments, *, carries: bool) -> None:
        signals = above.samples // taps.results
        self.above, self.count = above, taps.count
        self.below, self.pairs = above.below(taps, carries=carries)
        self.taps = _of_signals(taps, signals)
        self.past = None if taps.past is None else _of_signals(taps.past, signals)[0]
        self.own = self.past is None and taps.is_identity
        self._found: dict[tuple[int | None, bool], Array | None] = {}

    def matrix(self, label: int, taps: Mapping[int, int], rank: int) -> Array | None:
        """The weights of the sum that a label stands for, (results, samples); None: each its own.

        Arguments:
            taps: the tap of each number.
            rank: of labels beyond it a function is: (sums, samples).
        """
        tap = taps[label // MOVED] if label >= MOVED else None
        key = tap, label % AGAIN > rank
        if key not in self._found:
            A = self.past if tap is None else self.taps[tap]
            if key[1] and len(self.above.sums) > self.above.samples:
                A = self.above.sums if A is None else self.above.sums @ A
            self._found[key] = A
        return self._found[key]

    @property
    def every(self) -> list[Array]:
        """The weights of all sums, also of the skip."""
        return [*self.taps, *([] if self.past is None else [self.past])]

    def applied(
        self,
        scalar: Over,
        X: Over,
        taps: Mapping[int, int],
        rank: int,
        pair: tuple[int, int],
        size: Callable[[Array], Array] = np.asarray,
    ) -> Over:
        """Scalars times a functional X of a pair's functions, (copies, m, …, coefficients), summed
        over what the labels of X read."""
        (values, of_X), labels = joined([at_pair(scalar, rank, pair), X])
        found = Over(multiplied([values[..., None], of_X]), labels)
        for label in X.labels:
            A = self.matrix(label, taps, rank)
            if label % AGAIN > rank:
                index = pair[label % AGAIN - rank - 1]
                A = (np.eye(self.below.samples) if A is None else A)[[index]]
            found = _read(found, label, None if A is None else size(A))
            if label % AGAIN > rank:
                found = found.taken(-(label % AGAIN), 0)
        return found

    def lengths(
        self, size: Over, X: Over, taps: Mapping[int, int], rank: int, pair: tuple[int, int]
    ) -> Over:
        """The same of lengths, (1, m, …), by sizes of the scalars and of the weights."""
        X = X._replace(values=X.values[..., None])
        found = self.applied(size, X, taps, rank, pair, np.abs)
        return found._replace(values=found.values[..., 0])

    def product(
        self, parts: Sequence[Over], taps: Mapping[int, int], rank: int, kept: Iterable[int] = ()
    ) -> Over:
        """Π of parts with sizes, summed over each label, but for those that are kept."""
        found = list(parts)
        labels = sorted({label for part in parts for label in part.labels} - set(kept))
        for label in (label for label in labels if label > 0):
            own = [part for part in found if label in part.labels]
            found = [part for part in found if label not in part.labels]
            values, at = joined(own)
            A = self.matrix(label, taps, rank)
            found.append(_read(Over(multiplied(values), at), label, A, sized=True))
        values, at = joined(found)
        return Over(multiplied(values), at)


def _read(part: Over, label: int, A: Array | None, *, sized: bool = False) -> Over:
    """The sum over a label, which becomes one of the result, as of `summed`; None: each its own."""
    k = part.labels.index(label)
    values = part.values if A is None else summed(A, part.values, 1 + k, sized=sized)
    return over(values, (*part.labels[:k], -(label % AGAIN), *part.labels[k + 1 :]))


def summed(A: Array, values: Array, axis: int, *, sized: bool = False) -> Array:
    """Σ A values along an axis, without what nothing reads; of sizes, the last entry, Σ |A|."""
    if sized and (A < 0.0).any():
        parts = summed(A, values[:-1], axis), summed(np.abs(A), values[-1:], axis)
        return np.concatenate(parts)
    used = A.any(axis=0)
    if not used.all():
        A, values = A[:, used], np.compress(used, values, axis)
    return np.moveaxis(np.tensordot(values, A, axes=(axis, 1)), -1, axis)
