r"""Signals: the sums over positions that each of a stage's matrices meets.

A sample is a signal α at a position p. With s independent matrices, one a *tap*, a stage is

    z'_{i,αp} = b_i + s^{-1/2} Σ_k Σ_j W^{(k)}_{ij} Σ_p' A^{(k)}_{pp'} σ(z_{j,αp'}) .

A convolution has shifts for its A^{(k)}, pooling a mean, a graph its adjacency. The stage may also
carry γ z, at the same positions or at others, γ Σ_p' A_{pp'} z_{i,αp'}. The average over the
weights joins neural indices in pairs. Both indices of a pair have the same matrix, or neither has
one. So the coefficient of δ_p(i) is a sum over one tap for each pair with a matrix. Its terms are
the dense layer's coefficients at the positions that are read: pairs of equal taps share a matrix,
others do not. Let F_ρ be the coefficient for pairs that share as ρ says, and π a partition of the
pairs with a tap. Möbius' inversion gives

    T' = Σ_π s^{-pairs} Σ_{k_B, B ∈ π} G_π ,    G_π = Σ_{ρ ≤ π} Π_{B ∈ π} (−1)^{r−1} (r−1)! F_ρ ,

with r blocks of ρ in B. The sums run over free taps. For Gaussian matrices F_ρ is the same for each
ρ, and one G remains. Haar matrices have Weingarten's corrections where taps coincide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import fsum, isclose, prod
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import sympy
from numpy.typing import NDArray

from ..errors import InputError, as_integer
from ..gaussian.brackets import Average, Component, GaussianAverage
from ..groups.pairings import mobius, set_partitions
from ..work.caches import cache

Body = TypeVar("Body")

Ties = tuple[tuple[int, ...], ...]
"""Blocks of pairs, by their places in the pairing. Each has one tap; other pairs have no matrix."""


MOVED = 1000
"""label + MOVED·k stands for the sample that tap number k reads for this label."""
AGAIN = 100
"""label + AGAIN·k stands for the same label, read once more: each sum over positions is its own."""


Row: TypeAlias = "tuple[tuple[int, float], ...]"
"""The positions that one position of the result reads, each with its weight A_{pp'} ≠ 0."""


@dataclass(frozen=True)
class Taps:
    """The positions that each matrix reads.

    Arguments:
        reads: A^{(k)} by tap, each by position of the result.
        shape: of the positions that are read, numbered row by row.
        into: the shape of those of the result; () for one position, which is no axis.
        past: the positions that a skip past the matrices reads, with weights of sum 1, which keep
            biases; None: each its own.
    """

    reads: tuple[tuple[Row, ...], ...]
    shape: tuple[int, ...]
    into: tuple[int, ...]
    past: Taps | None = None

    mark: ClassVar[int] = MOVED
    moves: ClassVar[bool] = True

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.reads, self.shape, self.into, self.past))

    def __repr__(self) -> str:
        return f"Taps({self.count} of {self.shape} to {self.into}, {self.digest})"

    @property
    def digest(self) -> str:
        """A text that tells these positions and weights from others."""
        return hashlib.sha256(repr((self.reads, self.past)).encode()).hexdigest()[:16]

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return len(self.reads)

    @property
    def positions(self) -> int:
        """Positions that are read."""
        return prod(self.shape)

    @property
    def results(self) -> int:
        """Positions of the result."""
        return len(self.reads[0])

    @cached_property
    def weights(self) -> tuple[tuple[dict[int, Fraction], ...], ...]:
        """By tap and by position of the result: how much of each position is read, exactly."""
        return tuple(tuple({q: _exactly(a) for q, a in row} for row in tap) for tap in self.reads)

    @property
    def carries(self) -> bool:
        """True if a skip past the matrices has a position to read at each of the result."""
        return self.past is not None or not self.changes

    @property
    def changes(self) -> bool:
        """True if the result has another number of positions."""
        return self.results != self.positions

    def shape_behind(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The positions of the result along each axis, if those that are read have this shape."""
        return self.into

    def behind(self, samples: int) -> int:
        """How many samples the result has, if so many are read."""
        return samples // self.positions * self.results

    def read_at(self, samples: Iterable[int]) -> set[int]:
        """The samples that are read for these of the result, by matrices or a skip past them."""
        at = [divmod(sample, self.results) for sample in samples]
        found = {a * self.positions + q for a, p in at for tap in self._every for q, _ in tap[p]}
        return found if self.changes else found | {a * self.positions + p for a, p in at}

    @property
    def is_identity(self) -> bool:
        """True if each position is by itself, as in the dense layer."""
        own = tuple(((p, 1.0),) for p in range(self.positions))
        return self.reads == (own,) and self.past is None

    @property
    def reshapes(self) -> bool:
        """True if the result has other positions than those that are read."""
        return self.into != self.shape

    @property
    def _every(self) -> tuple[tuple[Row, ...], ...]:
        """The taps that matrices read by, and those of a skip past them."""
        return self.reads if self.past is None else (*self.reads, *self.past.reads)

    @cached_property
    def is_full(self) -> bool:
        """True if the weights of each tap sum to 1: constant signals stay constant."""
        return all(isclose(fsum(a for _, a in row), 1.0) for tap in self._every for row in tap)

    @cached_property
    def absolute(self) -> Taps:
        """The same with |A|, by which sizes of terms are added up."""
        if all(a > 0 for tap in self._every for row in tap for _, a in row):
            return self
        reads = (tuple(tuple((p, abs(a)) for p, a in row) for row in tap) for tap in self.reads)
        past = None if self.past is None else self.past.absolute
        return replace(self, reads=tuple(reads), past=past)

    @cached_property
    def is_one_to_one(self) -> bool:
        """True if each tap reads one position at most, whole, another for each of the result."""
        if self.past is not None:
            return False
        met = [[row[0][0] for row in tap if row] for tap in self.reads]
        return self._reads_one and all(len(set(each)) == len(each) for each in met)

    @property
    def permutes(self) -> bool:
        """True if each tap permutes the positions, and nothing is carried elsewhere."""
        return self.is_one_to_one and self.is_full and not self.reshapes

    @cached_property
    def _reads_one(self) -> bool:
        """True if no position reads more than one, or a part of one, by any tap."""
        rows = [row for tap in self.reads for row in tap]
        return all(len(row) < 2 and all(a == 1.0 for _, a in row) for row in rows)

    @cached_property
    def style(self) -> str:
        """How a sum over the taps is written, one of those of `Moved`."""
        weights = {a for tap in self.reads for row in tap for _, a in row}
        alone = self._reads_one
        if alone and self.into == self.shape and all(map(self._is_shift, self.reads)):
            return "shift"
        if alone and self.results == 1 and self.count > 1:
            return "read"
        whole = self.count == self.results == len(weights) == 1
        even = whole and len(self.reads[0][0]) == self.positions and self.is_full
        return "mean" if even else "sum" if self.count == 1 else "matrix"

    def _is_shift(self, tap: tuple[Row, ...]) -> bool:
        """True if all positions read one that is as far away, around the end of each axis."""
        places = list(product(*map(range, self.shape)))
        pairs = ((places[row[0][0]], at) for at, row in zip(places, tap, strict=True) if row)
        far = {
            tuple((q - p) % P for q, p, P in zip(*pair, self.shape, strict=True)) for pair in pairs
        }
        return len(far) < 2

    @property
    def again(self) -> int:
        """The number added to a label that is read once more, where each sum is its own."""
        return 0 if self.is_one_to_one else AGAIN

    @property
    def constant(self) -> Taps:
        """The same of a signal that is the same at all positions."""
        return Constant(self.reads, self.shape, self.into, self.past)

    def read(self, body: Body, by: Callable[[Taps, Body], list[Body]]) -> list[Body]:
        """A body at the positions that the matrix of each tap reads, as `by` reads it."""
        return by(self, body)

    def ties(self, pairs: int) -> Iterator[Ties]:
        """The partitions π of each subset of a cumulant's pairs; one block if there is one tap."""
        for size in range(pairs + 1):
            for tied in combinations(range(pairs), size):
                if self.count == 1:
                    yield (tied,) if tied else ()
                else:
                    yield from set_partitions(tied)

    def refinements(self, ties: Ties | None) -> Iterator[tuple[Ties | None, int]]:
        """The ρ ≤ π and their weights in G_π."""
        if self.count == 1 or ties is None:
            yield ties, 1
            return
        for parts in product(*(tuple(set_partitions(block)) for block in ties)):
            finer = tuple(block for part in parts for block in part)
            yield finer, prod(mobius(len(part)) for part in parts)

    def share(self, blocks: Sequence[Sequence[int]]) -> Fraction:
        """s^{-pairs} Σ_{k_B} 1, the sum over the taps where each of them gives the same."""
        return Fraction(self.count) ** (len(blocks) - sum(map(len, blocks)) // 2)

    def sources(
        self, samples: Sequence[int], blocks: Sequence[Sequence[int]]
    ) -> dict[tuple[int, ...], Fraction]:
        """The tuples of samples that are read for one of the result, and the weight of each.

        Arguments:
            samples: α·results + p each; what is read are α·positions + p'.
            blocks: the places among them that one tap moves. The others are those that a skip
                reads, or are constants.
        """
        at = [divmod(sample, self.results) for sample in samples]
        stays = not self.changes
        start = tuple(alpha * self.positions + stays * p for alpha, p in at)
        found = {start: Fraction(1)}
        moves = [(block, self.weights, self.count ** (len(block) // 2)) for block in blocks]
        if self.past is not None:
            tied = {place for block in blocks for place in block}
            moves += [((k,), self.past.weights, 1) for k in range(len(at)) if k not in tied]
        for block, taps, shares in moves:
            total: dict[tuple[int, ...], Fraction] = {}
            for tap in taps:
                read = (tap[at[place][1]].items() for place in block)
                for chosen, (known, weight) in product(product(*read), found.items()):
                    moved, share = list(known), weight / shares
                    for place, (p, own) in zip(block, chosen, strict=True):
                        moved[place] = at[place][0] * self.positions + p
                        share *= own
                    total[tuple(moved)] = total.get(tuple(moved), Fraction(0)) + share
            found = total
        return found


def _exactly(weight: float) -> Fraction:
    """A fraction of small denominator that rounds to this number, such as 1/3; else the number."""
    near = Fraction(weight).limit_denominator(2**20)
    return near if float(near) == weight else Fraction(weight)


@cache(entries=64, most_bytes=2**26)
def matrices(taps: Taps) -> NDArray[np.float64]:
    """A of each tap, (taps, results, positions), not to be written to."""
    found = np.zeros((taps.count, taps.results, taps.positions))
    for matrix, tap in zip(found, taps.reads, strict=True):
        for weights, row in zip(matrix, tap, strict=True):
            for p, weight in row:
                weights[p] += weight
    found.flags.writeable = False
    return found


class Constant(Taps):
    """Taps that read a signal which is the same at all positions: no sample moves."""

    mark: ClassVar[int] = 0


class Alone(Constant):
    """One tap, which reads each sample by itself: that of a stage without a convolution."""

    moves: ClassVar[bool] = False
    reshapes = False

    @property
    def constant(self) -> Taps:
        """Itself."""
        return self

    def shape_behind(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The same."""
        return shape

    def read(self, body: Body, by: Callable[[Taps, Body], list[Body]]) -> list[Body]:
        """The body."""
        return [body]


def shape_of(positions: int | Sequence[int]) -> tuple[int, ...]:
    """The positions along each axis; InputError unless they are numbers of 1 or more."""
    given = positions if isinstance(positions, list | tuple) else (positions,)
    if not given:
        raise InputError("positions", positions, "one number or more")
    return tuple(as_integer("positions", each, 1) for each in given)


def each_alone(positions: int | Sequence[int]) -> Taps:
    """Each of so many positions by itself; InputError as `shape_of`."""
    shape = shape_of(positions)
    row = tuple(((p, 1.0),) for p in range(prod(shape)))
    return Taps((row,), shape, shape)


ALONE = Alone(((((0, 1.0),),),), (1,), ())


@cache
def everywhere(positions: int) -> Taps:
    """At each position the mean over all of them; of one, which is no signal, itself."""
    if positions == 1:
        return ALONE
    row = tuple((p, 1.0 / positions) for p in range(positions))
    return Taps(((row,) * positions,), (positions,), (positions,))


class Moved(sympy.Expr):
    """An expression in tensors and averages, at samples that a sum over taps has moved.

    Arguments: the expression; the samples, in blocks that one tap moves; what is done: "shift" adds
    k to a position, "read" puts p in its place, "mean" averages over p, "matrix" sums over p with
    the weights A_k, "sum" with A of one tap, and "past" with those of the skip, S.
    """

    is_commutative = True
    is_real = True

    def __new__(cls, expr: Any, blocks: Any, style: Any) -> Moved:
        """From an expression, blocks of samples and a style."""
        groups = sympy.Tuple(*(sympy.Tuple(*block) for block in blocks))
        made: Moved = super().__new__(cls, sympy.sympify(expr), groups, sympy.Symbol(str(style)))
        return made

    def _labels(self) -> tuple[list[str], dict[int, tuple[int, str]]]:
        """The indices that are summed over, and which of them each sample has."""
        _, blocks, style = self.args
        groups = [[int(sample) for sample in block.args] for block in blocks.args]
        if str(style) not in ("shift", "read"):
            groups = [[sample] for group in groups for sample in group]
        letter = "k" if str(style) == "shift" else "p"
        names = [letter + "'" * place for place in range(len(groups))]
        found = {sample: (k, names[k]) for k, group in enumerate(groups) for sample in group}
        return names, dict(sorted(found.items()))

    def _weights(self) -> list[tuple[str, int, str]]:
        """The factors A_k[sample, p], each as k, the sample and p."""
        _, blocks, style = self.args
        if str(style) not in ("matrix", "sum", "past"):
            return []
        labels = self._labels()[1]
        return [
            ("k" + "'" * place if str(style) == "matrix" else "", int(each), labels[int(each)][1])
            for place, block in enumerate(blocks.args)
            for each in block.args
        ]

    def _shown(self, factor: str, tap: str) -> tuple[list[str], str]:
        """The indices, those of taps too, and the weights; `factor` shows one, `tap` its k."""
        weights, name = self._weights(), "S" if str(self.args[2]) == "past" else "A"
        names = [*dict.fromkeys(k for k, *_ in weights if k), *self._labels()[0]]
        shown = (factor.format(name + (tap.format(k) if k else ""), *each) for k, *each in weights)
        return names, "".join(shown)

    @property
    def _joint(self) -> str:
        return "+" if str(self.args[2]) == "shift" else ":"

    def _sympystr(self, printer: Any) -> str:
        labels = self._labels()[1]
        names, weights = self._shown("{}[{},{}]*", "{}")
        at = ",".join(f"{sample}{self._joint}{name}" for sample, (_, name) in labels.items())
        return f"Σ{{{','.join(names)}}}{weights}({printer.doprint(self.args[0])})[{at}]"

    def _latex(self, printer: Any) -> str:
        labels = self._labels()[1]
        names, weights = self._shown(r"{}_{{\alpha_{{{}}}\,{}}} ", "^{{({})}}")
        joint = self._joint if self._joint == "+" else r"\,"
        at = r"\;".join(
            rf"\alpha_{{{sample}}}{joint}{name}" for sample, (_, name) in labels.items()
        )
        body = printer.doprint(self.args[0])
        return rf"\sum_{{{','.join(names)}}} {weights}\left({body}\right)_{{{at}}}"


def moved(
    expr: sympy.Expr, taps: Taps, blocks: Sequence[Sequence[int]], free: Sequence[Sequence[int]]
) -> sympy.Expr:
    """s^{-pairs} Σ_{k_B} G_π as an expression, where only tied pairs count.

    Arguments:
        expr: G_π.
        blocks: the samples that each tap moves.
        free: those of pairs without a matrix, which a skip moves.
    """
    ends = sum(map(len, blocks))
    scale = sympy.Rational(taps.count) ** (-sympy.Rational(ends, 2))
    if taps.is_identity:
        return expr
    if taps.past is not None:
        expr = _moved(expr, free, "past")
    return scale * over_taps(expr, taps, blocks)


def over_taps(expr: sympy.Expr, taps: Taps, blocks: Sequence[Sequence[int]]) -> sympy.Expr:
    """Σ_{k_B} Π A^{(k_B)} of an expression at the samples that are read, as it is written."""
    mean = taps.style == "mean"
    scale = sympy.Rational(1, taps.positions ** sum(map(len, blocks))) if mean else 1
    return scale * _moved(expr, blocks, taps.style)


def _moved(expr: sympy.Expr, blocks: Sequence[Sequence[int]], style: str) -> sympy.Expr:
    outside, inside = expr.as_independent(Component, Average, GaussianAverage, as_Add=False)
    if not blocks or (style == "past" and inside == 1):  # its weights sum to 1
        return expr
    return outside * Moved(inside, blocks, style)
