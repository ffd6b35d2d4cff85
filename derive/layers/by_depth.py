"""Layers that differ with the depth: a stem, blocks as many as there is room for, and a head.

A network's layers 2, 3, …, L are one layer again and again, or a sequence, or what this says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import sympy

from ..errors import InputError
from ..work.resources import check_memory, number
from .along import Along
from .layer import Layer, measured_axes
from .shipped import as_layer, sequence

Part: TypeAlias = "Layer | str | Sequence[Layer | str]"
Given: TypeAlias = "Part | ByDepth | Callable[[int], Layer | str]"
"""A layer or its text, a sequence of them, `by_depth(…)`, or a function of ℓ = 2, 3, …"""


@dataclass(frozen=True, eq=False, repr=False)
class ByDepth(Along[Layer]):
    """The layers 2, 3, …, L of a network of depth L; `by_depth` makes one."""

    argument: ClassVar[str] = "layer"
    first: ClassVar[int] = 2
    example: ClassVar[str] = "dense; residual(norm=rms)*; normalized(rms)"

    def __post_init__(self) -> None:
        now: tuple[int, ...] | None = None
        for each in (*self.stem, *self.block, *self.block, *self.head):
            if now is not None and each.input_axes not in ((), now):
                wanted = f"convolutions of signals with the same positions; here are {now} before"
                raise InputError("layer", f"{each} in {self}", wanted)
            now = each.axes_behind(now)
        for each in self.entries[:-1]:
            each.check_without_readout("a readout of the last layer alone")
        if self.readouts and len(set(self._axes(self.entries))) > 1:
            wanted = "no readout= where the positions change: pooling or flattening as last layer"
            raise InputError("layer", str(self), wanted)

    @staticmethod
    def one(given: Any) -> Layer:
        """The layer, read from text if necessary."""
        return as_layer(given)

    @property
    def readouts(self) -> tuple[Layer, ...]:
        """The readout of the last layer, if any; every layer is measured through it."""
        return next((each.readouts for each in self.entries[-1:]), ())

    def at(self, layer: int, depth: int) -> Layer:
        """See `Along`; with the readout of the last layer."""
        return super().at(layer, depth).read_by(self.readouts)

    def _called(self, function: Callable[[int], Layer | str], layer: int) -> Layer:
        made = super()._called(function, layer)
        if made.input_axes:
            wanted = "layers without positions; convolutions as a sequence, or by_depth(…)"
            raise InputError("layer", str(made), wanted)
        return made

    @property
    def is_dense(self) -> bool:
        """True if every layer is the dense one; False for a function, which is not known."""
        return self.function is None and all(each.is_dense for each in self.entries)

    @property
    def input_axes(self) -> tuple[int, ...]:
        """The axes of an input before its numbers: the positions of a signal."""
        return next(filter(None, (each.input_axes for each in self.entries)), ())

    @property
    def output_axes(self) -> tuple[int, ...]:
        """The axes along which an input is measured at the greatest depth: those of the positions
        behind the last layer, unless a readout changes them."""
        return measured_axes(self.readouts, self._axes(self.entries)[-1])

    def measured_axes(self, depth: int) -> tuple[int, ...]:
        """See `Layer.measured_axes`."""
        return measured_axes(self.readouts, self.axes(depth)[-1])

    def axes(self, depth: int) -> tuple[tuple[int, ...], ...]:
        """The axes of the positions behind layers 1 … depth; see `Layer.axes`."""
        if len(set(self._axes(self.entries))) == 1:
            return (self.input_axes,)
        check_memory("depth", depth, 2000 * depth, f"{number(depth)} layers")
        return self._axes([self.at(layer, depth) for layer in range(2, depth + 1)])

    def _axes(self, layers: Sequence[Layer]) -> tuple[tuple[int, ...], ...]:
        """The axes of the positions behind layer 1 and these."""
        found = [self.input_axes]
        for each in layers:
            found.append(each.axes_behind(found[-1]))
        return tuple(found)

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet; of a function, unknown before the depth is."""
        return set().union(*(each.free_symbols for each in self.entries))


Layers: TypeAlias = Layer | ByDepth
"""The layers 2, 3, … of a network; each has `at(layer, depth)`."""


def by_depth(stem: Part = (), block: Part = (), head: Part = ()) -> Layers:
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
    return ByDepth.by_depth(stem, block, head)


def as_layers(given: Given) -> Layers:
    """A network's layers, from its argument `layer`.

    Arguments:
        given: a layer, or text as `str` gives it; a sequence, of layers 2, 3, … in turn, and no
            more; `by_depth(…)`; or a function of ℓ = 2, 3, …

    By definition. Raises InputError for anything else.

    >>> as_layers("dense; residual(norm=rms) * 2; gated").at(4, depth=5)
    residual(skip=1, norm=rms)
    """
    return ByDepth.given(given)


def as_period(given: Given) -> Layer:
    """The layers that a deep network repeats, as one layer.

    A list, or text without *, is itself a period, as for `as_layer`. By definition. Raises
    InputError if the argument is no layer, and for a `by_depth(…)` that repeats none.

    >>> as_period("dense; (residual; gated)*; dense")
    sequence(residual(skip=1), gated())
    """
    made = as_layers(given) if isinstance(given, str) else given
    if isinstance(made, Layer):
        return made
    if isinstance(made, ByDepth) and made.block:
        return sequence(*made.block)
    if isinstance(given, ByDepth) or callable(given):
        wanted = 'a layer that is repeated, as the two in "(residual; gated)*"'
        raise InputError("layer", str(given), wanted)
    return as_layer(given)
