"""The result of a framework's reader: the graph, and initializations of the same model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from derive.errors import InputError

from ...arrays import Array
from ..graph import Graph
from ..laws import Law
from ..tracing import refused


def unit_vectors(tokens: Array, count: int) -> Array:
    """The unit vectors, (…, count), of tokens by their numbers.

    Raises InputError for others than 0, …, count − 1.
    """
    if np.any((tokens != np.rint(tokens)) | (tokens < 0) | (tokens >= count)):
        raise InputError("inputs", "numbers of tokens", f"whole ones from 0 to {count - 1}")
    return np.asarray(np.eye(count)[tokens.astype(int)])


class Initialized(ABC):
    """An object that draws initializations of a graph and computes with them.

    Attributes:
        graph: what it computes.
        precision: relative, of the numbers that are measured.
        overhead: of one initialization, in parameters that take as long to draw.
        takes: the shape of one input, if it is changed before the first matrix.
    """

    graph: Graph
    precision = 1e-6
    overhead = 100_000
    has_free_rows = False
    """True if rows of such a law are independent by construction, and need no test."""
    takes: tuple[int, ...] | None = None

    def prepare(self, X: Array) -> Array:
        """Inputs as the first matrix or filter takes them: what no parameter enters is done."""
        return X

    @abstractmethod
    def initialize(self, seeds: Sequence[int]) -> Any:
        """The initializations of these seeds, as the framework keeps them, for what follows."""

    def first(self, made: Any, count: int) -> Any:
        """The first of the initializations that `initialize` gave, by their paths."""
        return {path: each[:count] for path, each in made.items()}

    @abstractmethod
    def values(self, made: Any) -> Mapping[str, Array]:
        """The matrices, (count, out, in), and biases, (count, out), that `initialize` gave, by
        their paths."""

    @abstractmethod
    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """A node's values from those of a node below it, in each initialization.

        Arguments:
            made: what `initialize` gave, of `count` seeds.
            source: a node through which every path to `node` goes, as all `Graph.cuts` are.
            states: its values, (count, rows, width), of its own for each initialization, or (1,
                rows, width), the same for all.

        Returns (count, rows, width of `node`), as the framework itself computes them. Of a signal
        the positions lie side by side, each with its channels.
        """

    @abstractmethod
    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """Σ_μ ∂_μ z_a ∂_μ z_b over all matrices and biases, for the first neuron of each node at
        these inputs, (m, n_0): (count, nodes, m, m)."""


class Reading(Initialized):
    """A model that was read.

    Attributes:
        framework: its name.
        how: how it is initialized again, in words.
        channels_last: True if the channels of a signal are its last axis.
    """

    framework: str
    how: str
    channels_last = False

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape of an input that is a signal."""
        channels, positions = self.graph.widths[0], self.graph.shapes[0]
        return (*positions, channels) if self.channels_last else (channels, *positions)

    @property
    def _paths(self) -> list[str]:
        """The paths of the parameters that the graph uses, as the model has them."""
        return self.graph.wholes

    def in_front(self, X: Array) -> Array:
        """Signals (m, …) with their channels as the first axis behind m."""
        return np.moveaxis(X, -1, 1) if self.channels_last else X

    @abstractmethod
    def draw(self, seed: int) -> Mapping[str, Array]:
        """The matrices, (out, in), and biases of one initialization, by their paths.

        A filter (out, in, *size) is a matrix, too, its axes but the first laid flat.
        """

    @property
    def again(self) -> bool:
        """True if the framework can initialize the model again by itself."""
        return True

    def own(self) -> Mapping[str, Array] | None:
        """The matrices and biases as they were given, where nothing makes the model again: the laws
        of `draw` must fit these."""
        return None

    @abstractmethod
    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """∂(node)/∂(source) at one input, (count, width, width)."""

    def uncompiled(self) -> AbstractContextManager[Any]:
        """A context in which what makes the model is not compiled, which takes longer once."""
        return nullcontext()

    def check_held(self, model: Any, own: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        """Raise InputError for gains of a model that are others in another initialization."""
        for path in dict.fromkeys(self.graph.gains):
            if path in own and path in other and not np.array_equal(own[path], other[path]):
                raise refused(model, [(path, "it is another in each initialization")])

    def settle(self, laws: Mapping[str, Law]) -> None:
        """Take these laws where the framework cannot initialize the model again by itself."""
        raise NotImplementedError(f"{self.framework} initializes models by itself, not by {laws}")
