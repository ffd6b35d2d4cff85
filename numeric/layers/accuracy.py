"""How many digits rounding leaves in a flow: an estimate for every number, and a refusal.

A recursion subtracts what may nearly be equal: D of tanh is of order K^4 for small K, a difference
of brackets of order K. So a flow is computed in three copies. In the second and the third every
bracket is disturbed by a random multiple, up to `NOISE`, of machine epsilon times its *size*, the
sum of the absolute values of what a quadrature adds up, and so are the tensors of layer 1, C_W and
C_b. The multiples are the same at every layer, for where K is at rest so is its rounding. The
disturbances go through all layers as true errors of rounding do, with one input through the kernel
as well; several inputs' brackets of analytic σ, which cost far more than the rest, follow the
copies' kernels by their gradient (`averages`). The error is the largest departure, times
`CAUTION`. (Discrete stochastic arithmetic: J. Vignes, Math. Comput. Simul. 35 (1993) 233; there
every operation is disturbed, here what the quadratures return, for little is lost elsewhere.)

Why so: bounds by interval arithmetic grow as (constant)^depth; to disturb the inputs alone moves
nothing that was rounded to 1 − 2^{−53}; and sums of absolute values of a recursion's terms do not
know that errors are damped from layer to layer.

A tensor is refused at a layer where its error exceeds `LOST` of its largest entry, unless it is
zero to rounding: the entry is no larger than its error, and that is below `ZERO` of the natural
size K^{nodes/2} (Θ/K)^{edges}. For small K every smooth σ is nearly linear, and what vanishes for a
linear network falls far below its natural size without being zero: there a zero counts only if the
tensor is zero to rounding at that layer of the same network at a kernel of order one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .run import Layers

NOISE, CAUTION, RUNS = 2.0, 16.0, 2
"""Largest disturbance in units of rounding; the error in units of the departure; how many."""

LOST, ZERO = 0.5, 1e-13
"""An error that is refused, relative to the tensor; one that is zero, relative to its natural size
and to (10 + layers)², for errors of rounding add up."""

_NOISE = NOISE * float(np.finfo(float).eps)
_SEED = 1993
_COPIES = 1 + RUNS


def run(
    layers: Layers,
    kernel: Array,
    parameters: Mapping[str, Array],
    advance: Callable[[float], None] = lambda layers: None,
) -> tuple[list[Array], list[Array]]:
    """The tensors at every layer, (depth, m, m, …), and their errors.

    Arguments:
        layers: the recursions.
        kernel: of the inputs, (m, m).
        parameters: the hyperparameters by name, an entry for each layer.
        advance: is told of the layers that are done.
    """
    rng = np.random.default_rng(_SEED)
    amounts = np.array([0.0] + [_NOISE] * RUNS)
    columns = _disturbed_parameters(layers, parameters, amounts, rng)
    noise = amounts[:, None] * _random(rng, (_COPIES, layers.averages.count))
    with np.errstate(all="ignore"):
        start = [each[0] for each in layers.first(kernel, columns[0, :1])]
        at = [
            np.array([each * (1.0 + amount * _symmetric(each, rng)) for amount in amounts])
            for each in start
        ]
        rows = layers.descend(at, columns, noise, advance)
    return [row[:, 0] for row in rows], [
        CAUTION * np.abs(row[:, 1:] - row[:, :1]).max(axis=1) for row in rows
    ]


def _disturbed_parameters(
    layers: Layers, parameters: Mapping[str, Array], amounts: Array, rng: np.random.Generator
) -> Array:
    """(depth, copies, parameters); only C_W and C_b, for ratios of widths are often exactly 1."""
    factors = [
        1.0 + amounts * _random(rng, amounts.shape) * (name in {"C_W", "C_b"})
        for name in layers.parameters
    ]
    columns = np.array([parameters[name] for name in layers.parameters])
    return columns.T[:, None] * np.array(factors).T


def _random(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Array:
    """Uniform in (−1, 1)."""
    return np.asarray(2.0 * rng.random(shape) - 1.0)


def _symmetric(values: Array, rng: np.random.Generator) -> Array:
    """Random numbers, the same where the values are, so that symmetries stay."""
    _, places = np.unique(values, return_inverse=True)
    return _random(rng, (values.size,))[places.reshape(-1)].reshape(values.shape)


class Judged(NamedTuple):
    """A tensor at each layer: its largest entry, the largest error, and the natural size."""

    values: Array
    errors: Array
    size: Array

    @property
    def is_lost(self) -> NDArray[np.bool_]:
        """Whether the error exceeds what is allowed."""
        return np.asarray(self.errors > LOST * self.values)

    @property
    def is_zero(self) -> NDArray[np.bool_]:
        """Whether the tensor is zero to rounding. A size of 0 is one that is not known."""
        passed = np.arange(1, 1 + len(self.size))
        known = np.where(self.size > 0.0, self.size, math.inf)
        negligible = self.errors <= ZERO * (10.0 + passed) ** 2 * known
        return np.asarray(negligible & (self.values <= 8.0 * self.errors))


def judged(values: Array, errors: Array, size: Array) -> Judged:
    """Of arrays over (layer, samples …)."""
    entry, error = (np.abs(each).reshape(len(each), -1).max(axis=1) for each in (values, errors))
    return Judged(entry, error, size)


def lost_at(tensor: Judged, kernel: Array, at_unit: Callable[[], Judged]) -> int | None:
    """The first layer, from 1, at which so few digits are left that the tensor is refused.

    Arguments:
        kernel: the largest variance at each layer.
        at_unit: the same tensor in the same network, the inputs' kernel brought to order one.
    """
    zero = tensor.is_zero
    below = np.concatenate([kernel[:1], kernel[:-1]])
    if (tensor.is_lost & zero & (below < 1.0)).any():
        same = at_unit()
        zero = zero & ((below >= 1.0) | same.is_zero | ~same.is_lost & (same.values == 0.0))
    refused = tensor.is_lost & ~zero
    return int(np.argmax(refused)) + 1 if refused.any() else None


def digits(tensor: Judged, layer: int) -> int:
    """How many decimal digits are left at this layer."""
    value, error = tensor.values[layer - 1], tensor.errors[layer - 1]
    return max(0, math.floor(math.log10(value / error))) if value > 0 and error > 0 else 0
