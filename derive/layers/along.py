"""Entries that differ by layer: a stem, a block that is repeated, and a head.

Users give layers, activations and laws of weights in this form. In text, `;` separates entries and
`*` marks the block, which is repeated up to the head:

    dense; residual(norm=rms)*; normalized(rms)        (gated; residual)*        tanh; gelu*3; relu
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from ..errors import InputError, as_integer, as_sequence
from ..expressions import MAX_LENGTH, split
from .per_layer import check_sendable

MOST = 10_000
"""The most entries that a text may name."""

T = TypeVar("T")


@dataclass(frozen=True)
class Along(Generic[T]):
    """One entry for each layer of a network; a subclass says what an entry is.

    Arguments:
        stem: the entries of the first layers.
        block: the entries of the layers in between, repeated in turn.
        head: the entries of the last layers.
        function: a function of ℓ, in place of stem, block and head.

    Attributes:
        argument: the name of the network's argument.
        first: the first layer that has an entry.
        spared: the number of last layers without an entry.
        example: a text that works.
    """

    stem: tuple[T, ...] = ()
    block: tuple[T, ...] = ()
    head: tuple[T, ...] = ()
    function: Callable[[int], T | str] | None = field(default=None)

    argument: ClassVar[str]
    first: ClassVar[int] = 1
    spared: ClassVar[int] = 0
    example: ClassVar[str]

    @staticmethod
    def one(given: Any) -> Any:
        """The entry that a user's value stands for; InputError if it stands for none."""
        raise NotImplementedError

    @classmethod
    def wanted(cls) -> str:
        """The description of a valid argument, for errors."""
        return (
            f"entries with ; between, * behind the repeated one, *3 for three times, "
            f'such as "{cls.example}"; a sequence; or a function of the layer'
        )

    @classmethod
    def given(cls, given: Any, one: Callable[[Any], T] | None = None) -> T | Self:
        """Read a user's argument: one entry for all layers, or entries that differ by layer.

        Arguments:
            one: reads an entry; by default `cls.one`.
        """
        one = one or cls.one
        if isinstance(given, cls):
            return given
        if isinstance(given, str) and cls._is_several(given):
            return cls._simplest(*_read(given, one, cls.argument))
        if isinstance(given, list | tuple):
            return cls.by_depth(tuple(map(one, given)))
        if cls.is_function(given):
            return cls(function=given)
        return one(given)

    @classmethod
    def _is_several(cls, text: str) -> bool:
        """True if a text names more than one entry: "tanh*", but not "expr: z*2"."""
        if ";" in text or not re.search(r"\*\s*\d*\s*$", text):
            return ";" in text
        try:
            cls.one(text)
        except InputError:
            return True
        return False

    @staticmethod
    def is_function(given: object) -> bool:
        """True if this is a function of the layer."""
        return callable(given)

    @classmethod
    def by_depth(cls, stem: Any = (), block: Any = (), head: Any = ()) -> T | Self:
        """Entries from a stem, a block and a head; InputError if all three are empty."""
        parts = tuple(cls.part(each) for each in (stem, block, head))
        if not any(parts):
            raise InputError(cls.argument, (stem, block, head), "a stem, a block or a head")
        return cls._simplest(*parts)

    @classmethod
    def _simplest(cls, stem: tuple[T, ...], block: tuple[T, ...], head: tuple[T, ...]) -> T | Self:
        if not block:
            return cls((*stem, *head))
        return block[0] if len({*stem, *block, *head}) == 1 else cls(stem, block, head)

    @classmethod
    def part(cls, given: Any) -> tuple[T, ...]:
        """The entries of a stem, a block or a head."""
        if isinstance(given, list | tuple):
            return tuple(cls.one(each) for each in as_sequence(cls.argument, given, cls.wanted()))
        return (cls.one(given),)

    @property
    def has_first_alone(self) -> bool:
        """True if only the first layer differs from the others."""
        return len(self.stem) == len(self.block) == 1 and not self.head

    @property
    def entries(self) -> tuple[T, ...]:
        """The entries of stem, block and head, each as often as it is named."""
        return (*self.stem, *self.block, *self.head)

    @property
    def depth(self) -> int | None:
        """The depth that the named entries fix; None if a block or a function allows any depth."""
        if self.block or self.function is not None:
            return None
        return self.first - 1 + len(self.entries) + self.spared

    def at(self, layer: int, depth: int) -> T:
        """The entry of a layer ≥ `first` in a network of this depth.

        Raises InputError if the depth is too small for stem and head, or too large for the named
        entries, or if the function returns no valid entry.
        """
        if self.function is not None:
            return self._called(self.function, layer)
        place, left = layer - self.first, depth - self.spared - layer
        known, others = len(self.stem) + len(self.head), self.first + self.spared - 1
        if depth - others < known and self.head:
            raise InputError("depth", depth, f"{known + others} or more, for {self}")
        if 0 <= place < len(self.stem):
            return self.stem[place]
        if 0 <= left < len(self.head):
            return self.head[-1 - left]
        if not self.block:
            raise InputError("depth", depth, f"{known + others} at most, for {self}")
        return self.block[(place - len(self.stem)) % len(self.block)]

    def _called(self, function: Callable[[int], T | str], layer: int) -> T:
        try:
            found: T = self.one(function(layer))
        except InputError:
            raise
        except Exception as error:  # of a function of the user's
            told = f"{function}, which raises {type(error).__name__}: {error}"
            raise InputError(self.argument, told, f"an entry at layer {layer}") from error
        return found

    def tabulated(self, depth: int) -> Self:
        """The same entries up to this depth, with a function replaced by its values."""
        if self.function is None:
            return self
        layers = range(self.first, depth - self.spared + 1)
        return type(self)(tuple(self.at(at, depth) for at in layers))

    @cached_property
    def _hash(self) -> int:
        return hash((self.stem, self.block, self.head, self.function))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        if self.function is not None:
            check_sendable(self.argument, self.function)
        return {name: getattr(self, name) for name in ("stem", "block", "head", "function")}

    def __str__(self) -> str:
        if self.function is not None:
            layers = range(self.first, self.first + 3)
            return f"{'; '.join(str(self.at(at, self.first + 9)) for at in layers)}; …"
        if len(self.stem) == 1 and not self.block and not self.head:
            return f"{self.stem[0]}*1"
        block = "; ".join(_runs(self.block))
        block = f"{block}*" if len(self.block) == 1 else f"({block})*"
        parts = [*_runs(self.stem), *([block] if self.block else []), *_runs(self.head)]
        return "; ".join(parts)

    def __repr__(self) -> str:
        return str(self)


def _runs(given: Sequence[object]) -> Iterator[str]:
    for entry, group in groupby(given):
        count = len(list(group))
        yield str(entry) if count == 1 else f"{entry}*{count}"


def _read(
    text: str, one: Callable[[str], T], argument: str
) -> tuple[tuple[T, ...], tuple[T, ...], tuple[T, ...]]:
    """Read stem, block and head from text, by a whitelist: the inverse of `str`."""
    if len(text) > MAX_LENGTH:
        raise InputError(argument, text, f"at most {MAX_LENGTH} characters")
    entries = list(_entries(text, one, argument))
    repeated = [place for place, each in enumerate(entries) if not each.times]
    if len(repeated) > 1:
        raise InputError(argument, text, "at most one * without a number")
    if not repeated:
        return _counted_out(text, entries, argument), (), ()
    (place,) = repeated
    before, behind = (
        _counted_out(text, part, argument) for part in (entries[:place], entries[place + 1 :])
    )
    return before, entries[place].items, behind


class _Entry(NamedTuple):
    """Items and their number of repetitions; 0 means as many as the depth allows."""

    items: tuple[Any, ...]
    times: int


def _entries(text: str, one: Callable[[str], T], argument: str) -> Iterator[_Entry]:
    for part in split(text, ";"):
        match = re.fullmatch(r"(.*?)\s*(\*\s*(\d{0,6}))?\s*", part, re.DOTALL)
        assert match is not None
        body, mark, digits = match[1].strip(), match[2], match[3]
        group = re.fullmatch(r"\((.*)\)", body, re.DOTALL)
        own = (
            _counted_out(body, list(_entries(group[1], one, argument)), argument)
            if group
            else (one(body),)
        )
        wanted = f"a number of times from 1 to {MOST} behind *"
        count = as_integer(argument, int(digits), 1, MOST, wanted) if digits else int(mark is None)
        yield _Entry(own, count)


def _counted_out(text: str, entries: Sequence[_Entry], argument: str) -> tuple[Any, ...]:
    """The items, repeated as their counts say."""
    if not all(each.times for each in entries):
        raise InputError(argument, text, "a number behind each * inside parentheses")
    if sum(len(each.items) * each.times for each in entries) > MOST:
        raise InputError(argument, text, f"at most {MOST} layers by name")
    return tuple(item for each in entries for item in each.items * each.times)
