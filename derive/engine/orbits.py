"""Exchangeable inputs, and the distinct entries that tensors have at them.

If a permutation of m samples changes no kernel of the inputs, it changes no tensor behind any layer
that mixes no samples. An entry then depends on which of its samples are equal, and on no more:
K has the orbits (11) and (12) at any m, V has seven. An entry names few samples, so those of
m samples are those of as few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any, TypeAlias

import sympy

from ..errors import InputError, as_integer
from ..expressions import parse_number
from ..groups.pairings import pattern_of, patterns
from ..work.caches import cache
from .tensors import Name, oriented, tensor

Pattern: TypeAlias = tuple[int, ...]
"""Which subscripts are the same sample: 0, 1, … in the order in which they occur."""


@dataclass(frozen=True)
class Exchangeable:
    """m inputs with x·x/n_0 = q, and x·x'/n_0 = p for any two of them.

    `flow` and `simulate` take it in the place of inputs. Their tables have an axis `orbit`, with
    labels such as "(11)(22)", in the place of the axes of samples.

    Arguments:
        m: how many samples there are: an integer, or a symbol for any number of them.
        q: the mean square of an input's entries, 0 or more.
        p: the mean product of two inputs' entries, at most q, and at least −q/(m − 1), which is the
            smallest covariance that m samples can have.
        n_0: the size of an input; by default layer 1 is as wide.

    Raises:
        InputError: for numbers that no m inputs have.

    >>> Exchangeable(256, 1, 0.3).kernel(2)
    [[1, 3/10], [3/10, 1]]
    """

    m: Any
    q: Any
    p: Any
    n_0: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.m, sympy.Symbol):
            object.__setattr__(
                self, "m", as_integer("m", self.m, 1, wanted="an integer or a symbol")
            )
        for name in ("q", "p"):
            given = getattr(self, name)
            if not isinstance(given, sympy.Expr):
                object.__setattr__(self, name, parse_number(name, given))
        if self.n_0 is not None:
            object.__setattr__(self, "n_0", as_integer("n_0", self.n_0, 1))
        self._check()

    def _check(self) -> None:
        """Raise InputError for a matrix of q and p that is no covariance."""
        q, p, m = self.q, self.p, self.m
        if q.is_number and q < 0:
            raise InputError("q", q, "0 or more, a mean of squares")
        if not (q.is_number and p.is_number) or m == 1:
            return
        least = -q / (m - 1) if isinstance(m, int) else sympy.Integer(0)
        if not least <= p <= q:
            wanted = f"from {least} to {q}, for m = {m} inputs whose mean square is {q}"
            raise InputError("p", p, wanted)
        if self.n_0 is not None and self.n_0 < self._rank:
            wanted = f"{self._rank} or more, in which so many inputs have these products"
            raise InputError("n_0", self.n_0, wanted)

    @property
    def _rank(self) -> int:
        """Of the matrix of q and p; with a symbol m that of two samples."""
        m = self.m if isinstance(self.m, int) else 2
        if self.q == 0:
            return 0
        return 1 if self.p == self.q else m - (self.q + (m - 1) * self.p == 0)

    def __str__(self) -> str:
        size = "" if self.n_0 is None else f", n_0={self.n_0}"
        return f"Exchangeable({self.m}, {self.q}, {self.p}{size})"

    @property
    def numbers(self) -> tuple[Fraction | float, Fraction | float]:
        """q and p as exact fractions where they are rational; InputError for symbols."""
        return _number("q", self.q), _number("p", self.p)

    def kernel(self, samples: int) -> list[list[Any]]:
        """x·x'/n_0 of so many of the samples."""
        return [[self.q if a == b else self.p for b in range(samples)] for a in range(samples)]

    def dependence(self, samples: int) -> list[list[int]]:
        """Vectors that depend on each other linearly as so many of the samples do."""
        if self.q == 0:
            return [[0]] * samples
        if self.p == self.q:
            return [[1]] * samples
        falls = isinstance(self.m, int) and samples == self.m
        falls = falls and self.q + (samples - 1) * self.p == 0
        own, other = (samples - 1, -1) if falls else (1, 0)
        return [[own if a == b else other for b in range(samples)] for a in range(samples)]

    def representatives(self, names: Sequence[Name]) -> int:
        """How many samples the entries of these tensors name at most."""
        most = max(len(name.subscripts) for name in names)
        return min(self.m, most) if isinstance(self.m, int) else most


def _number(argument: str, value: sympy.Expr) -> Fraction | float:
    if not value.is_number:
        raise InputError(argument, value, "a number")
    return Fraction(int(value.p), int(value.q)) if value.is_Rational else float(value)


@cache
def orbits(name: Name, samples: int) -> dict[str, tuple[Pattern, ...]]:
    """The orbits of a tensor's entries under permutations of so many samples, by their labels.

    Returns the patterns of the subscripts that each orbit has, its representative first.

    >>> from .tensors import named
    >>> list(orbits(named("V"), 4))
    ['(11)(11)', '(11)(12)', '(11)(22)', '(11)(23)', '(12)(12)', '(12)(13)', '(12)(34)']
    """
    symmetries = _symmetries(name)
    found: dict[Pattern, list[Pattern]] = {}
    for pattern in sorted(patterns(len(name.subscripts))):
        if max(pattern) < samples:
            alike = (pattern_of(tuple(pattern[k] for k in moved)) for moved in symmetries)
            found.setdefault(min(alike), []).append(pattern)
    return {_label(name, least): tuple(each) for least, each in found.items()}


@cache
def orbit_numbers(name: Name, samples: int) -> dict[Pattern, int]:
    """The place in `orbits` of each pattern of the subscripts."""
    every = enumerate(orbits(name, samples).values())
    return {pattern: number for number, own in every for pattern in own}


def representative(name: Name, samples: Pattern) -> Pattern:
    """The entry that represents the orbit of this one."""
    return _representatives(name)[pattern_of(samples)]


@cache
def _representatives(name: Name) -> dict[Pattern, Pattern]:
    every = orbits(name, len(name.subscripts)).values()
    return {pattern: own[0] for own in every for pattern in own}


def _symmetries(name: Name) -> list[tuple[int, ...]]:
    """The permutations of subscripts that change no entry."""
    own, slots = oriented(name), {slot: axis for axis, slot in enumerate(name.subscripts)}
    axes = range(len(slots))

    def moved(order: Sequence[int]) -> object:
        places = tuple(order[slots[slot]] for slot in axes)
        return tensor(name.fields, name.order, name.pairing, places)

    return [order for order in permutations(axes) if moved(order) == own]


def _label(name: Name, pattern: Pattern) -> str:
    """The samples from 1, in the order of the subscripts, in brackets for each neuron's index where
    its subscripts stand side by side."""
    axes = {slot: axis for axis, slot in enumerate(name.subscripts)}
    blocks = sorted(sorted(axes[slot] for slot in block) for block in name.pairing)
    apart = "," if max(pattern) > 8 else ""

    def text(block: Sequence[int]) -> str:
        return apart.join(str(1 + pattern[axis]) for axis in block)

    if any(block[-1] - block[0] >= len(block) for block in blocks):
        return text(range(len(pattern)))
    return "".join(f"({text(block)})" for block in blocks)
