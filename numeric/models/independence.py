"""True if the rows of a model's layer are independent, tested on its own initializations.

Neurons of different initializations make a layer only where (W_i, b_i) and (W_j, b_j) are
independent: without it V lacks what is Cov(z_i², z_j²), i ≠ j, given the layer below. In units of
K² that is, as a mean over the directions of what is below, with L_i = |W_i|²/C_W,
p_ij = W_i·W_j/C_W, β_i = b_i/√C_b, f the fan-in, ω and 1 − ω the weights' and biases' parts of K,
u_i = ω L_i + (1 − ω) β_i²,

    D = E[(u_i − E u)(u_j − E u) + 2ω² f/(f + 2) (p_ij² − L_i L_j/f) + 4ω(1 − ω) β_i β_j p_ij]

and 0 of independent rows, as is E[ω p_ij + (1 − ω) β_i β_j], which all pairs of one sign are seen
by first. D leaves out what depends on one direction among many. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from ..arrays import Array
from ..tables.compare import FALSE_ALARMS
from .graph import Linear
from .skips import score

if TYPE_CHECKING:
    from .description import Description

_PRODUCTS = 1_000_000
"""Multiplications for products of a matrix's rows with each other, in each initialization, …"""
_FEWEST = 64
"""… and rows at least."""


class Rows(NamedTuple):
    """A test of the rows of one layer.

    Attributes:
        layer: from 1.
        z: the largest |z| of what is 0 of independent rows.
        bound: the |z| that independent rows stay under.
        error: the standard error of D, a part of V/(nK²).
        direct: about that of V/(nK²) if neurons are not recombined; infinite where V is that of
            their variance given the layer below, as rows are taken to be independent.
    """

    layer: int
    z: float
    bound: float
    error: float
    direct: float

    @property
    def are_free(self) -> bool:
        """True if neurons are recombined: nothing was found, and that says more of V than V
        measured without it."""
        return self.z <= self.bound and self.error < self.direct

    def __str__(self) -> str:
        seen = f"|z| {self.z:.2f}, bound {self.bound:.2f}"
        known = f"V/(nK²) to {self.error:.1g}"
        if self.are_free and self.layer > 1:
            counted = "" if math.isinf(self.direct) else ", which is in V's error"
            return (
                f"V of layer {self.layer} is n times that of the variance of its neurons given "
                f"the layer below, on the assumption that rows and biases are independent: as "
                f"tested ({seen}) by what knows their part of {known}{counted}"
            )
        if self.are_free:
            return (
                f"neurons of layer {self.layer} are recombined over initializations, on the "
                f"assumption that rows and biases are independent: as tested ({seen}) by what "
                f"knows their part of {known}, which is in V's error"
            )
        if self.z > self.bound:
            return f"rows or biases of layer {self.layer} are not independent ({seen})"
        return (
            f"neurons of layer {self.layer} are not recombined: the test of their independence "
            f"({seen}) knows their part of {known}, no better than V is measured without it"
        )


class Tests:
    """Tests of layers that are one matrix, one initialization after another.

    Arguments:
        numbers: of the layers, from 0.
        seed: of the rows that are chosen.
        given: those of the layers that V is taken from the variance of, given the layer below.
    """

    def __init__(
        self,
        description: Description,
        numbers: Sequence[int],
        seed: int | tuple[int, int],
        given: Sequence[int] = (),
    ) -> None:
        self._layers = [_Layer(description, number, number in given) for number in numbers]
        self._random = np.random.default_rng(seed)

    def add(self, values: Mapping[str, Array]) -> None:
        """Initializations, stacked, by the paths of their parameters."""
        for each in self._layers:
            each.add(values, self._random)

    def rows(self, K: Array) -> list[Rows]:
        """The results, with the variances at each layer and input, (depth, m)."""
        draws = min((each.draws for each in self._layers), default=0)
        tests = 2 * K.shape[1] * max(1, len(self._layers))
        bound = -float(special.stdtrit(draws - 1, FALSE_ALARMS / (2 * tests)))
        return [each.rows(K[each.number], bound) for each in self._layers]


class _Layer:
    """Sums over pairs of rows, one initialization after another."""

    def __init__(self, description: Description, number: int, is_given: bool) -> None:
        self._is_given = is_given
        block = description.structure.blocks[number]
        end = description.structure.graph.nodes[block.node]
        assert isinstance(end, Linear)
        self.number, self._end = number, end
        self._C_W = float(description.laws[end.weight].C) or 1.0  # L and p of zeros are 0
        self._C_b = float(description.laws[end.bias].C) if end.bias else 0.0
        self._part_of_biases = float(end.bias_scale) ** 2 * self._C_b
        self._lengths: list[Array] = []
        self._biases: list[Array] = []
        self._pairs: list[tuple[float, float, float]] = []

    @property
    def draws(self) -> int:
        """Initializations so far."""
        return len(self._lengths)

    def add(self, values: Mapping[str, Array], random: np.random.Generator) -> None:
        """Initializations, (count, out, in) and (count, out)."""
        weights = np.asarray(values[self._end.weight], float)
        biases = np.zeros(weights.shape[:2])
        if self._end.bias and self._C_b:
            biases = np.asarray(values[self._end.bias], float) / math.sqrt(self._C_b)
        for W, b in zip(weights, biases, strict=True):
            self._one(W, b, random)

    def _one(self, W: Array, b: Array, random: np.random.Generator) -> None:
        count = len(W)
        self._lengths.append((W**2).sum(axis=1) / self._C_W)
        self._biases.append(b)
        rows = max(_FEWEST, math.isqrt(_PRODUCTS // self._end.fan_in))
        chosen = random.permutation(count)[:rows]
        L, beta, own = self._lengths[-1][chosen], b[chosen], W[chosen]
        p = own @ own.T / self._C_W
        np.fill_diagonal(p, 0.0)
        pairs = max(1, len(chosen) * (len(chosen) - 1))
        lengths = L.sum() ** 2 - (L**2).sum()
        square = (p**2).sum() - lengths / self._end.fan_in
        self._pairs.append((p.sum() / pairs, square / pairs, float(beta @ p @ beta) / pairs))

    def rows(self, K: Array, bound: float) -> Rows:
        """The test, at inputs with these variances."""
        L, beta = np.array(self._lengths), np.array(self._biases)
        single, square, mixed = np.array(self._pairs).T
        draws, count = L.shape
        z, error, f = 0.0, 0.0, self._end.fan_in
        for variance in K:
            rest = min(1.0, self._part_of_biases / float(variance)) if variance else 0.0
            part = 1.0 - rest
            u = part * L + rest * beta**2
            D = _over_pairs(u - u.mean())
            D = D + 2 * part**2 * f / (f + 2) * square + 4 * part * rest * mixed
            mean = part * single + rest * _over_pairs(beta)
            for each in (D, mean):
                z = max(z, score(each))
            error = max(error, float(D.std(ddof=1)) / math.sqrt(draws))
        direct = math.sqrt(8 / (max(1, count * (count - 1)) * draws))
        direct = math.inf if self._is_given else direct
        return Rows(self.number + 1, z, bound, error, direct)


def _over_pairs(u: Array) -> Array:
    """The mean of u_i u_j over i ≠ j, of (draws, N) ones."""
    count = u.shape[1]
    sums = u.sum(axis=1) ** 2 - (u**2).sum(axis=1)
    return np.asarray(sums / max(1, count * (count - 1)))
