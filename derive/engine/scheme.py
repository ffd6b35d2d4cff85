"""What the recursions of one network have in common: under what all of them are derived."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import sympy

from ..activations.functions import Activation
from ..errors import InputError
from ..weights import WeightEnsemble
from .stages import DENSE, Stage


class Layered(Protocol):
    """What the engine asks of a layer; `derive.layers.Layer` is one."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Its stages, one after another."""

    @property
    def reason(self) -> str | None:
        """Why rotations of the neurons do not keep its law; None where they do."""

    @property
    def readout(self) -> Layered | None:
        """What its tensors are read out by, where they are not what is asked for."""

    def check_open(self, function: str) -> None:
        """Raise InputError, for this function, if the layer has activations or laws of its own."""

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Scheme:
    """Under what the recursions of a network's tensors are derived; `Network.scheme` makes it.

    Arguments:
        weights: the standard ensemble of the layer, with C_W = 1.
        square: whether all widths are n; else they are r_in n and, for the Haar matrix, r_big n.
        corrections: how many 1/n parts C_W and C_b have: C_W + C_W1/n + C_W2/n² + …
        single: whether there is one input, of which recursions take far less to derive.
        layer: the layer, where it is not the dense one.
        activation: σ of the layer. Recursions are derived for an open σ.
        group: the group that keeps the law of all layers, "O" or "B".
    """

    weights: WeightEnsemble
    square: bool = True
    corrections: int = 0
    single: bool = False
    layer: Layered | None = None
    activation: Activation | None = None
    group: str = "O"

    @property
    def sigma(self) -> Activation:
        """The layer's activation."""
        assert self.activation is not None
        return self.activation

    def check_numbers(self) -> None:
        """Raise InputError for a layer with symbols, which cannot be run."""
        if self.layer is not None and self.layer.free_symbols:
            symbols = ", ".join(sorted(map(str, self.layer.free_symbols)))
            raise InputError("layer", str(self.layer), f"numbers for {symbols}, to be run")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The layer's stages: recursions lead from one to the next."""
        return (DENSE,) if self.layer is None else self.layer.stages

    @property
    def readout(self) -> Scheme | None:
        """The same with the layer's readout for its layer, where it has one."""
        behind = None if self.layer is None else self.layer.readout
        return None if behind is None else replace(self, layer=behind)
