"""The result of a framework's reader: the graph, and initializations of the same model."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from derive.errors import InputError

from ...arrays import Array
from ..graph import Graph, Linear
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
        channels_last: True if the channels of a signal are its last axis.
        takes: the shape of one input, if it is changed before the first matrix.
    """

    graph: Graph
    precision = 1e-6
    overhead = 100_000
    has_free_rows = False
    """True if rows of such a law are independent by construction, and need no test."""
    channels_last = False
    takes: tuple[int, ...] | None = None

    @property
    def axes(self) -> tuple[int, ...]:
        """The shape of an input that is a signal."""
        channels, positions = self.graph.widths[0], self.graph.shapes[0]
        return (*positions, channels) if self.channels_last else (channels, *positions)

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


BY_LAWS = "drawn by the laws read off its matrices"


class Reading(Initialized):
    """A model that was read.

    Attributes:
        framework: its name.
        how: how it is initialized again, in words.
        laws: those that it is drawn by, where the framework cannot initialize it again.
    """

    framework: str
    how: str
    laws: Mapping[str, Law] = MappingProxyType({})

    def layout(self, path: str, axes: int) -> tuple[tuple[int, ...], int]:
        """The order of a parameter's axes that is (out, …, in, …), and how many are out."""
        if path in self.graph.turned:  # a table, or one of positions
            return (axes - 1, *range(axes - 1)), 1
        return tuple(range(axes)), 1

    @cached_property
    def _biases(self) -> set[str]:
        linears = (each for each in self.graph.nodes if isinstance(each, Linear))
        return {self.graph.whole(each.bias) for each in linears if each.bias is not None}

    def matrix(self, path: str, values: Array, leading: int = 0) -> Array:
        """A parameter behind so many axes as a matrix (out, in), or as biases (out,)."""
        before, axes = values.shape[:leading], values.ndim - leading
        if axes < 2 or path in self._biases:
            return values.reshape(*before, -1)
        order, outer = self.layout(path, axes)
        moved = values.transpose(*range(leading), *(leading + at for at in order))
        out = math.prod(moved.shape[leading : leading + outer])
        return moved.reshape(*before, out, -1)

    def leaf(self, path: str, matrix: Array, shape: tuple[int, ...]) -> Array:
        """The inverse of `matrix`: a parameter of this shape."""
        if path in self._biases:
            return matrix.reshape(shape)
        order, _ = self.layout(path, len(shape))
        return matrix.reshape([shape[at] for at in order]).transpose(np.argsort(order))

    def values(self, made: Any) -> Mapping[str, Array]:
        """See `Initialized`."""
        own = {path: self.matrix(path, np.asarray(made[path], float), 1) for path in self._paths}
        return self.graph.with_parts(own)

    @property
    def _paths(self) -> list[str]:
        """The paths of the parameters that the graph uses, as the model has them."""
        return self.graph.wholes

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
        self.laws, self.how = laws, BY_LAWS

    def by_laws(self, seed: int, leaves: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
        """The parameters of one initialization by the laws, in the shapes of these, by paths."""
        random = np.random.default_rng(seed)
        for path, law in self.laws.items():
            own = np.asarray(leaves[path])
            values = law.draw(self.matrix(path, own).shape, random)
            yield path, self.leaf(path, values, own.shape)
