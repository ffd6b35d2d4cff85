"""The assumptions that the recursions of one network share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import sympy

from ..activations.functions import Activation
from ..errors import InputError
from ..weights import WeightEnsemble
from .stages import DENSE, STEM, Stage
from .taps import ALONE, Taps


class Layered(Protocol):
    """A layer, as the engine uses it; `derive.layers.Layer` is one."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Its stages, one after another."""

    @property
    def why_not(self) -> str | None:
        """Why rotations of the neurons do not keep its law; None where they do."""

    @property
    def is_rotation_invariant(self) -> bool:
        """True if rotations of the neurons keep its law."""

    @property
    def equations(self) -> tuple[Sequence[Stage], Sequence[Layered]]:
        """The stages of the layer and of its readout, whatever their names."""

    @property
    def readouts(self) -> Sequence[Layered]:
        """The layer that reads its tensors out, if it is not they that are asked for."""

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet."""

    def __hash__(self) -> int: ...


def group_of(weights: WeightEnsemble, layer: Layered | None) -> str:
    """The group under which the laws of all matrices of a layer are invariant, "O" or "B"."""
    stages = () if layer is None else layer.stages
    own = [matrix.law for stage in stages for matrix in stage.matrices if matrix.law]
    return next((law.group for law in (weights, *own) if law.group != "O"), "O")


@dataclass(frozen=True)
class Scheme:
    """Under what the recursions of a network's tensors are derived; `Network.scheme` makes it.

    Arguments:
        weights: the standard ensemble of the layer, with C_W = 1.
        equal_widths: whether all widths are n; else they are r_in n and, for the Haar matrix,
            r_big n.
        corrections: how many 1/n parts C_W and C_b have: C_W + C_W1/n + C_W2/n² + …
        single: whether there is one input, of which recursions take far less to derive.
        layer: the layer, where it is not the dense one.
        activation: σ of the layer. Recursions are derived for an open σ.
        group: the group that keeps the law of all layers, "O" or "B"; at most that of this layer.
        stem: the stage of layer 1, in place of a layer (`first`).
    """

    weights: WeightEnsemble
    equal_widths: bool = True
    corrections: int = 0
    single: bool = False
    layer: Layered | None = None
    activation: Activation | None = None
    group: str = "O"
    stem: tuple[Stage, ...] = ()

    def __post_init__(self) -> None:
        own = group_of(self.weights, self.layer)
        object.__setattr__(self, "group", self.group if own == "O" else own)

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

    def check_positions(self, function: str) -> None:
        """Raise InputError for several inputs with attention or a norm over positions, which flow
        alone runs."""
        if not self.single and any(stage.pools > 1 or stage.scores for stage in self.stages):
            wanted = f"norms of each position by itself, and no attention, for {function}; those "
            wanted += "over positions are known to recursion, and to flow and simulate without this"
            raise InputError("layer", str(self.layer), wanted)

    def check_without_batch(self, wanted: str) -> None:
        """Raise InputError, with what is wanted instead, for a function of all samples, or of
        all positions."""
        for stage in self.stages:
            stage.check_without_batch(wanted)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The layer's stages: recursions lead from one to the next."""
        return self.stem or ((DENSE,) if self.layer is None else self.layer.stages)

    @property
    def readouts(self) -> tuple[Scheme, ...]:
        """The same with the layer's readout for its layer, if it has one."""
        behind = () if self.layer is None else self.layer.readouts
        return tuple(replace(self, layer=each) for each in behind)

    def first(self, weights: WeightEnsemble, taps: Taps = ALONE) -> Scheme:
        """The scheme of layer 1, z = b + W x, with these weights.

        Arguments:
            taps: the positions of the inputs that it reads, as a readout of the inputs.
        """
        stem = (replace(STEM, taps=taps),)
        return replace(self, weights=weights, equal_widths=False, layer=None, stem=stem)
