"""Networks' variables as they would be at the mean Gram matrices, noted while they are drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.engine import Kind
from numeric.arrays import Array
from numeric.estimators import Probes
from numeric.samplers import Arithmetic, Ensemble

from .controls import Group

Key = tuple[int, int]
"""0 and a stream; of what is carried a layer, and less than 0."""

Means = dict[Key, Array]
"""Mean Gram matrices."""


class Piece(NamedTuple):
    """What one matrix adds to a variable, (draws, m, n), with its covariance and its stream.

    All of a variable that a norm divides is one too, without a stream.
    """

    rows: Array
    covariance: Array
    stream: int | None

    def times(self, t: float) -> Piece:
        """A multiple."""
        return Piece(t * self.rows, t**2 * self.covariance, self.stream)


class Fresh(NamedTuple):
    """A variable as it would be at the mean Gram matrices, (draws, m, n): independent neurons.

    `covariance` is (m, m), `group` the number of its neurons' group, `streams` the weights and
    biases that it is made of: variables that share none are independent. Of one `is_centred` the
    network takes a mean off, which is 0 in the limit.
    """

    rows: Array
    covariance: Array
    group: int
    streams: frozenset[int]
    pieces: tuple[Piece, ...] = ()
    is_centred: bool = False


class Noted(Arithmetic):
    """Arithmetic that remembers normals.

    Arguments:
        means: the mean Gram matrix of each key; None while they are being found.

    Attributes:
        off: of each matrix its vectors' Gram matrix less the mean, (draws, pairs).
        haar: the matrices with frames.
        crossed: products of what is off and an innovation above it, (draws, products).
        centres: of each variable the means over neurons of what layers added to it.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        draws: NDArray[np.int64],
        means: Means | None,
    ) -> None:
        super().__init__(ensemble, Probes(), draws)
        self.means = means
        self.found: Means = {}
        self.drawn: dict[int, Array] = {}
        self.fresh: dict[Kind, Fresh] = {}
        self.groups: list[Group] = []
        self.off: dict[int, Array] = {}
        self.haar: set[int] = set()
        self.crossed: list[Array] = []
        self.centres: dict[Kind, list[Array]] = {}

    def cross(self, off: Array, functions: Array) -> None:
        """c of these functions, times what a Gram matrix is off below them."""
        c = functions.mean(axis=2)
        self.crossed.append((off[:, :, None] * c[:, None]).reshape(len(off), -1))

    def join(self, kind: Kind, centre: Array, *, carried: bool) -> None:
        """The mean of what a layer adds to a variable, (draws, m), times those of the layers whose
        neurons it carries: they are independent, and a mean that is taken off has them all."""
        before = self.centres.get(kind, []) if carried else []
        for each in before:
            self.crossed.append((each[:, :, None] * centre[:, None]).reshape(len(centre), -1))
        self.centres[kind] = [*before, centre]


def off_mean(gram: Array, mean: Array) -> Array:
    """What a Gram matrix is off, (draws, pairs)."""
    a, b = np.triu_indices(len(mean))
    found: Array = (gram - mean)[:, a, b]
    return found
