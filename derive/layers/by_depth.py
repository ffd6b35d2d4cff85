"""Layers that differ with the depth: a stem, blocks as many as there is room for, and a head.

A network's layers 2, 3, …, L are one layer again and again, or a sequence, or what this says. As
text they stand one behind another, with a `*` behind what is repeated:

    dense; residual(norm=rms)*; normalized(rms)        (gated(norm=rms); residual(norm=rms))*
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import sympy

from ..errors import InputError, listed, whole
from ..expressions import MAX_LENGTH
from .layer import Layer
from .per_layer import check_sendable
from .shipped import as_layer

MOST = 10_000
"""Layers that a text may name."""

_WANTED = (
    "layers one behind another with ; between, a * behind what is repeated, *3 for three times, "
    "such as dense; residual(norm=rms)*; normalized(rms)"
)

Part: TypeAlias = "Layer | str | Sequence[Layer | str]"
Given: TypeAlias = "Part | ByDepth | OfFunction | Callable[[int], Layer | str]"
"""A layer or its text, a sequence of them, `by_depth(…)`, or a function of ℓ = 2, 3, …"""


@dataclass(frozen=True)
class ByDepth:
    """The layers 2, 3, …, L of a network of depth L; `by_depth` makes one.

    Arguments:
        stem: the first of them.
        block: those behind, taken in turn.
        head: the last of them.
    """

    stem: tuple[Layer, ...] = ()
    block: tuple[Layer, ...] = ()
    head: tuple[Layer, ...] = ()

    is_dense = False
    readout = None

    def __post_init__(self) -> None:
        layers = (*self.stem, *self.block, *self.head)
        signals = {each.positions for each in layers} - {None}
        reading = [each for each in layers if each.reads]
        if reading:
            wanted = "layers that keep a signal's positions; a readout as that of one convolution"
            raise InputError("layer", str(reading[0]), wanted)
        if len(signals) > 1:
            wanted = "convolutions of signals with the same positions"
            raise InputError("layer", "; ".join(map(str, layers)), wanted)

    @property
    def positions(self) -> int | None:
        """How many positions a signal has, where samples are signals."""
        layers = (*self.stem, *self.block, *self.head)
        return next((each.positions for each in layers if each.positions is not None), None)

    @cached_property
    def _hash(self) -> int:
        return hash((self.stem, self.block, self.head))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("stem", "block", "head")}

    def at(self, layer: int, depth: int) -> Layer:
        """Layer 2, 3, … of a network of this depth.

        Raises InputError for a depth that has no room for the stem and the head, or more than
        there are layers for.
        """
        place, left = layer - 2, depth - layer
        known = len(self.stem) + len(self.head)
        if depth - 1 < known and self.head:
            raise InputError("depth", depth, f"{known + 1} or more, for {self}")
        if place < len(self.stem):
            return self.stem[place]
        if left < len(self.head):
            return self.head[-1 - left]
        if not self.block:
            raise InputError("depth", depth, f"{known + 1} at most: layer 1, then {self}")
        return self.block[(place - len(self.stem)) % len(self.block)]

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet."""
        return set().union(*(each.free_symbols for each in (*self.stem, *self.block, *self.head)))

    def __str__(self) -> str:
        if len(self.stem) == 1 and not self.block and not self.head:
            return f"{self.stem[0]}*1"
        block = "; ".join(_runs(self.block))
        block = f"{block}*" if len(self.block) == 1 else f"({block})*"
        parts = [*_runs(self.stem), *([block] if self.block else []), *_runs(self.head)]
        return "; ".join(parts)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class OfFunction:
    """Layers by a function of ℓ = 2, 3, …"""

    function: Callable[[int], Layer | str]

    is_dense = False
    readout = None
    positions = None

    def __getstate__(self) -> dict[str, Any]:
        check_sendable("layer", self.function)
        return dict(self.__dict__)

    def at(self, layer: int, depth: int) -> Layer:
        """Layer 2, 3, …, of any depth. Raises InputError for what is no layer."""
        try:
            found = self.function(layer)
        except InputError:
            raise
        except Exception as error:  # of a function of the user's
            told = f"{self.function}, which raises {type(error).__name__}: {error}"
            raise InputError("layer", told, f"a layer at {layer}") from error
        made = as_layer(found)
        if made.taps is not None:
            wanted = "layers without positions; convolutions as a sequence, or by_depth(…)"
            raise InputError("layer", str(made), wanted)
        return made

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """Unknown before the depth is."""
        return set()

    def __str__(self) -> str:
        return f"{'; '.join(str(self.at(layer, layer)) for layer in (2, 3, 4))}; …"

    def __repr__(self) -> str:
        return str(self)


Layers: TypeAlias = Layer | ByDepth | OfFunction
"""What a network's layers 2, 3, … are; each has `at(layer, depth)`."""


def by_depth(stem: Part = (), block: Part = (), head: Part = ()) -> ByDepth | Layer:
    """Layers 2, 3, …, L that differ: first those of the stem, last those of the head.

    Arguments:
        stem, head: a layer or its text, a sequence of them, or none.
        block: what stands between as often as there is room, in turn; without a block there are
            no more layers than those of the stem and the head.

    Layer 1 is z = b + W x as everywhere. By definition. Raises InputError for what is no layer, and
    where there is none.

    >>> by_depth(stem="dense", block="residual(norm=rms)", head=["normalized(rms)"])
    dense(); residual(skip=1, norm=rms)*; normalized(rms)
    >>> by_depth(block="gated").at(7, depth=9)
    gated()
    """
    parts = [_part(each) for each in (stem, block, head)]
    if not any(parts):
        raise InputError("layer", (stem, block, head), "a stem, a block or a head")
    first, repeated, last = parts
    if not repeated:
        return ByDepth((*first, *last))
    if len({*first, *repeated, *last}) == 1:
        return repeated[0]
    return ByDepth(first, repeated, last)


def as_layers(given: Given) -> Layers:
    """What a network's layers are, from what its `layer` says.

    Arguments:
        given: a layer, or text as `str` gives it; a sequence, of layers 2, 3, … in turn, and no
            more; `by_depth(…)`; or a function of ℓ = 2, 3, …

    By definition. Raises InputError for anything else.

    >>> as_layers("dense; residual(norm=rms) * 2; gated").at(4, depth=5)
    residual(skip=1, norm=rms)
    """
    if isinstance(given, ByDepth | OfFunction | Layer):
        return given
    if isinstance(given, str):
        return _read(given)
    if callable(given):
        return OfFunction(given)
    return by_depth(given)


def _part(given: Part) -> tuple[Layer, ...]:
    if isinstance(given, Layer | str):
        return (as_layer(given),)
    return tuple(as_layer(each) for each in listed("layer", given, _WANTED))


def _runs(given: Sequence[Layer]) -> Iterator[str]:
    for layer, group in groupby(given):
        count = len(list(group))
        yield str(layer) if count == 1 else f"{layer}*{count}"


def _read(text: str) -> Layers:
    """Layers by their text: by definition the inverse of `str`, by a whitelist."""
    if len(text) > MAX_LENGTH:
        raise InputError("layer", text, f"at most {MAX_LENGTH} characters")
    entries = list(_entries(text))
    if len(entries) == 1 and not entries[0].is_marked:
        return entries[0].layers[0]
    repeated = [place for place, each in enumerate(entries) if not each.times]
    if len(repeated) > 1:
        raise InputError("layer", text, "one * without a number at most")
    if not repeated:
        return by_depth(_counted_out(text, entries))
    (place,) = repeated
    before, behind = (_counted_out(text, part) for part in (entries[:place], entries[place + 1 :]))
    return by_depth(before, entries[place].layers, behind)


class _Entry(NamedTuple):
    """Layers, how often they come, 0 for as often as there is room, and whether a * says so."""

    layers: list[Layer]
    times: int
    is_marked: bool


def _entries(text: str) -> Iterator[_Entry]:
    for part in _split(text):
        match = re.fullmatch(r"(.*?)\s*(\*\s*(\d{0,6}))?\s*", part, re.DOTALL)
        assert match is not None
        body, mark, digits = match[1].strip(), match[2], match[3]
        group = re.fullmatch(r"\((.*)\)", body, re.DOTALL)
        own = _counted_out(body, list(_entries(group[1]))) if group else [as_layer(body)]
        count = whole("layer", int(digits), 1, MOST, _WANTED) if digits else int(mark is None)
        yield _Entry(own, count, mark is not None)


def _counted_out(text: str, entries: Sequence[_Entry]) -> list[Layer]:
    """Each as often as it comes."""
    if not all(each.times for each in entries):
        raise InputError("layer", text, "a number behind each * inside parentheses")
    if sum(len(each.layers) * each.times for each in entries) > MOST:
        raise InputError("layer", text, f"at most {MOST} layers by name")
    return [layer for each in entries for layer in each.layers * each.times]


def _split(text: str) -> list[str]:
    """Between the semicolons outside of parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == ";" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found
