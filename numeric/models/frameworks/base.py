"""What a framework's reader gives: the graph, and initializations of the same model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...arrays import Array
from ..graph import Graph
from ..laws import Law


class Measured(NamedTuple):
    """One initialization of a model, at some of its nodes and at m inputs.

    Attributes:
        values: of each node, (m, width).
        tangents: of each node, Σ_μ ∂_μ z_a ∂_μ z_b of its first neuron over all matrices and
            biases, (m, m); none where they were not asked for.
    """

    values: list[Array]
    tangents: list[Array]


class Reading(ABC):
    """A model that was read.

    Attributes:
        framework: its name.
        graph: what it computes.
        how: how it is initialized again, in words.
        precision: relative, of the numbers that are measured.
    """

    precision = 1e-6

    framework: str
    graph: Graph
    how: str

    @abstractmethod
    def draw(self, seed: int) -> Mapping[str, Array]:
        """The matrices, (out, in), and biases of one initialization, by their paths."""

    @property
    def again(self) -> bool:
        """Whether the framework can initialize the model again by itself."""
        return True

    def own(self) -> Mapping[str, Array] | None:
        """The matrices and biases as they were given, where nothing makes the model again: the laws
        of `draw` must fit these."""
        return None

    @abstractmethod
    def measure(self, seed: int, X: Array, nodes: Sequence[int], tangents: bool) -> Measured:
        """One initialization at these inputs, (m, n_0), as the framework itself computes it."""

    @abstractmethod
    def jacobian(self, seed: int, x: Array, node: int, source: int) -> Array:
        """∂(node)/∂(source) of one initialization at one input, (width, width)."""

    def settle(self, laws: Mapping[str, Law]) -> None:
        """Take these laws where the framework cannot initialize the model again by itself."""
        raise NotImplementedError(f"{self.framework} initializes models by itself, not by {laws}")
