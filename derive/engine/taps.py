r"""Convolutions: which positions of a signal each of a stage's matrices reads.

A sample is a signal α at a position p. With s independent matrices, one a *tap*, a stage is

    z'_{i,αp} = b_i + s^{-1/2} Σ_k Σ_j W^{(k)}_{ij} mean_{p' ∈ reads_k(p)} σ(z_{j,αp'}) ,

where the mean is 0 if nothing is read. The stage may also carry γ z_{i,αp}. The average over the
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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any, ClassVar, TypeVar

import sympy

from ..gaussian.brackets import Average, Component, GaussianAverage
from ..groups.pairings import mobius, set_partitions

Body = TypeVar("Body")

Ties = tuple[tuple[int, ...], ...]
"""Blocks of pairs, by their places in the pairing. Each has one tap; other pairs have no matrix."""


MOVED = 1000
"""label + MOVED·k stands for the sample that tap number k reads for this label."""


@dataclass(frozen=True)
class Taps:
    """The positions that each matrix reads.

    Arguments:
        reads: by tap and by position of the result.
        positions: of what is read.
    """

    reads: tuple[tuple[tuple[int, ...], ...], ...]
    positions: int

    mark: ClassVar[int] = MOVED

    @property
    def count(self) -> int:
        """How many matrices there are."""
        return len(self.reads)

    @property
    def results(self) -> int:
        """Positions of the result."""
        return len(self.reads[0])

    @cached_property
    def weights(self) -> tuple[tuple[dict[int, Fraction], ...], ...]:
        """By tap and by position of the result: how much of each position is read."""
        return tuple(
            tuple({q: Fraction(1, len(read)) for q in read} for read in tap) for tap in self.reads
        )

    @property
    def is_identity(self) -> bool:
        """Whether each position is by itself, as in the dense layer."""
        return self.reads == (tuple((p,) for p in range(self.positions)),)

    @property
    def is_full(self) -> bool:
        """Whether each tap reads something at each position: constant signals stay constant."""
        return all(read for tap in self.reads for read in tap)

    def read(self, body: Body, by: Callable[[Taps, Body], list[Body]]) -> list[Body]:
        """What the matrix of each tap meets of a body at all positions, as `by` reads it."""
        return by(self, body)

    def ties(self, pairs: int) -> Iterator[Ties]:
        """The partitions π of each subset of a cumulant's pairs; one block if there is one tap."""
        for size in range(pairs + 1):
            for tied in combinations(range(pairs), size):
                if self.count == 1:
                    yield (tied,) if tied else ()
                else:
                    yield from set_partitions(tied)

    def refinements(self, ties: Ties) -> Iterator[tuple[Ties, int]]:
        """The ρ ≤ π and their weights in G_π."""
        if self.count == 1:
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
            blocks: the places among them that one tap moves. The others stay, or are constants.
        """
        at = [divmod(sample, self.results) for sample in samples]
        stays = self.results == self.positions
        start = tuple(alpha * self.positions + stays * p for alpha, p in at)
        found = {start: Fraction(1)}
        for block in blocks:
            total: dict[tuple[int, ...], Fraction] = {}
            for tap in self.weights:
                read = (tap[at[place][1]].items() for place in block)
                for chosen, (known, weight) in product(product(*read), found.items()):
                    moved, share = list(known), weight / self.count ** (len(block) // 2)
                    for place, (p, own) in zip(block, chosen, strict=True):
                        moved[place] = at[place][0] * self.positions + p
                        share *= own
                    total[tuple(moved)] = total.get(tuple(moved), Fraction(0)) + share
            found = total
        return found


class Constant(Taps):
    """Taps that read a signal which is the same at all positions: no sample moves."""

    mark: ClassVar[int] = 0


class Alone(Constant):
    """One tap, which reads each sample by itself: that of a stage without a convolution."""

    def read(self, body: Body, by: Callable[[Taps, Body], list[Body]]) -> list[Body]:
        """The body."""
        return [body]


ALONE = Alone((((0,),),), 1)


class Moved(sympy.Expr):
    """An expression in tensors and averages, at samples that a sum over taps has moved.

    Arguments: the expression; the samples, in blocks that one tap moves; "shift", "read" or
    "mean", by what is done: added to a position, in its place, or averaged over.
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
        if str(style) == "mean":
            groups = [[sample] for group in groups for sample in group]
        letter = "k" if str(style) == "shift" else "p"
        names = [letter + "'" * place for place in range(len(groups))]
        found = {sample: (k, names[k]) for k, group in enumerate(groups) for sample in group}
        return names, dict(sorted(found.items()))

    @property
    def _joint(self) -> str:
        return "+" if str(self.args[2]) == "shift" else ":"

    def _sympystr(self, printer: Any) -> str:
        names, labels = self._labels()
        at = ",".join(f"{sample}{self._joint}{name}" for sample, (_, name) in labels.items())
        return f"Σ{{{','.join(names)}}}({printer.doprint(self.args[0])})[{at}]"

    def _latex(self, printer: Any) -> str:
        names, labels = self._labels()
        joint = self._joint if self._joint == "+" else r"\,"
        at = r"\;".join(
            rf"\alpha_{{{sample}}}{joint}{name}" for sample, (_, name) in labels.items()
        )
        body = printer.doprint(self.args[0])
        return rf"\sum_{{{','.join(names)}}} \left({body}\right)_{{{at}}}"


def moved(expr: sympy.Expr, taps: Taps, blocks: Sequence[Sequence[int]]) -> sympy.Expr:
    """s^{-pairs} Σ_{k_B} G_π as an expression, where only tied pairs count.

    Arguments:
        expr: G_π.
        blocks: the samples that each tap moves.
    """
    ends = sum(map(len, blocks))
    scale = sympy.Rational(taps.count) ** (-sympy.Rational(ends, 2))
    if taps.is_identity:
        return expr
    style = "shift" if taps.results > 1 else "read" if taps.count > 1 else "mean"
    if style == "mean":
        scale /= taps.positions**ends
    outside, inside = expr.as_independent(Component, Average, GaussianAverage, as_Add=False)
    return scale * outside * Moved(inside, blocks, style)
