"""How many digits rounding leaves in a flow: an estimate for every number, and a refusal.

A recursion subtracts what may nearly be equal: D of tanh is of order K^4 for small K, a difference
of brackets of order K. So a flow is computed in three copies. In the second and the third every
bracket is disturbed by a random multiple, up to `NOISE`, of machine epsilon times its *size*, the
sum of the absolute values of what a quadrature adds up; so is every tensor, its size being the sum
of the absolute values of its recursion's terms; and so are the tensors of layer 1, C_W and C_b. The
multiples are the same at every layer, for where K is at rest so is its rounding. The disturbances
go through all layers as true errors of rounding do, with one input through the kernel as well;
several inputs' brackets of analytic σ, which cost far more than the rest, follow the copies'
kernels by their gradient (`averages`). The error is the largest departure, times `CAUTION`, and no
less than `LEAST` roundings of the size. (Discrete stochastic arithmetic: J. Vignes, Math. Comput.
Simul. 35 (1993) 233; there every operation is disturbed, here what sums return.)

Why so: bounds by interval arithmetic grow as (constant)^depth; to disturb the inputs alone moves
nothing that was rounded to 1 − 2^{−53}; and sums of absolute values of a recursion's terms do not
know that errors are damped from layer to layer.

A tensor is refused at a layer where its error exceeds `LOST` of its largest entry, unless it is
zero to rounding: no entry is much larger than its own error, and those are below `ZERO` of its
size. (Of inputs that are almost alike, at large K, entries of one alone keep the digits that those
of both have lost: that is no zero.) For small K every smooth σ is nearly linear, and what vanishes
for a linear network falls far below the size of its terms without being zero: there a zero counts
only if the tensor is zero to rounding in the same network at a kernel of order one, at that layer
or at the last of `FEW`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .vectors import Descent, Estimate

NOISE, CAUTION, RUNS = 2.0, 16.0, 2
"""Largest disturbance in units of rounding; the error in units of the departure; how many."""

LEAST = 2.0
"""The least error that is told, in units of a rounding of what is added up."""

LOST, ZERO, FEW = 0.5, 1e-13, 5
"""An error that is refused, relative to the tensor; one that is zero, relative to its size and to
(10 + layers)², for errors of rounding add up; the layers that say what is zero at unit kernels."""

ENOUGH = 1e-8
"""An error, relative to the tensor, above which a flow asks balls for the digits."""

_UNDERFLOW = 1e-290
"""Nothing is asked of numbers this small: they have lost digits to the range of a float."""

EPS = float(np.finfo(float).eps)
"""The distance from 1 to the next float."""

_NOISE = NOISE * EPS
_SEED = 1993


class Descending(Protocol):
    """Recursions that can be run: `staged.StagedLayers` and such.

    Attributes:
        parameters: the names of the hyperparameters that occur.
        noises: how many averages there are.
    """

    parameters: list[str]
    noises: int

    def first(self, kernel: Array, parameters: Array) -> Estimate:
        """The tensors at layer 1."""

    def descend(self, start: Estimate, given: Descent) -> Estimate:
        """The tensors at every layer."""


class Run(NamedTuple):
    """Of each tensor, (depth, m, m, …): values, errors, and the sizes of what was added up."""

    values: list[Array]
    errors: list[Array]
    sizes: list[Array]


def run(
    layers: Descending,
    kernel: Array,
    parameters: Mapping[str, Array],
    advance: Callable[[float], None] = lambda layers: None,
    unseen: Callable[[list[Array]], None] = lambda tensors: None,
    runs: int = RUNS,
) -> Run:
    """The tensors at every layer, and their errors.

    Arguments:
        layers: the recursions.
        kernel: of the inputs, (m, m).
        parameters: the hyperparameters by name, an entry for each layer.
        advance, unseen: the listeners of the descent.
        runs: disturbed ones, which show the errors; with 0 these are one rounding of the sizes.
    """
    disturbances = Disturbances.of(layers, parameters, runs)
    with np.errstate(all="ignore"):
        start, of_start = layers.first(kernel, disturbances.parameters[0, :1])
        at = disturbances.at_layer_1(start)
        given = disturbances.parameters, disturbances.noise, disturbances.rounding(len(start))
        rows, sizes = layers.descend((at, of_start), Descent(*given, advance, unseen))
        errors = [errors_of(row, size) for row, size in zip(rows, sizes, strict=True)]
    return Run([row[:, 0] for row in rows], errors, sizes)


def errors_of(copies: Array, size: Array) -> Array:
    """The errors of the first copy, from its distance to the others along axis 1."""
    departure = np.abs(copies[:, 1:] - copies[:, :1]).max(axis=1, initial=0.0)
    return np.asarray(np.maximum(CAUTION * departure, LEAST * EPS * size))


class Disturbances(NamedTuple):
    """The changes that make copies of a run.

    Attributes:
        parameters: disturbed, (depth, copies, parameters).
        noise: of each average, in units of its size: (copies, averages).
        amounts: the largest of each copy.
    """

    parameters: Array
    noise: Array
    amounts: Array
    rng: np.random.Generator

    @classmethod
    def of(
        cls, layers: Descending, parameters: Mapping[str, Array], runs: int = RUNS
    ) -> Disturbances:
        """Of a run; the arguments as those of `run`."""
        rng = np.random.default_rng(_SEED)
        amounts = np.array([0.0] + [_NOISE] * runs)
        factors = [  # of C_W and C_b alone, for ratios of widths are often exactly 1
            1.0 + amounts * _random(rng, amounts.shape) * (name in {"C_W", "C_b"})
            for name in layers.parameters
        ]
        given = np.array([parameters[name] for name in layers.parameters])
        columns = given.T[:, None] * np.array(factors).T
        noise = amounts[:, None] * _random(rng, (len(amounts), layers.noises))
        return cls(columns, noise, amounts, rng)

    def at_layer_1(self, start: Sequence[Array]) -> list[Array]:
        """Copies of these tensors, (1, m, m, …)."""
        return [
            np.array(
                [each[0] * (1.0 + size * _symmetric(each[0], self.rng)) for size in self.amounts]
            )
            for each in start
        ]

    def rounding(self, tensors: int) -> Array:
        """Of each tensor, in units of its size: (copies, tensors)."""
        return np.asarray(self.amounts[:, None] * _random(self.rng, (len(self.amounts), tensors)))


def _random(rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Array:
    """Uniform in (−1, 1)."""
    return np.asarray(2.0 * rng.random(shape) - 1.0)


def _symmetric(values: Array, rng: np.random.Generator) -> Array:
    """Random numbers, the same where the values are, so that symmetries stay."""
    _, places = np.unique(values, return_inverse=True)
    return _random(rng, (values.size,))[places.reshape(-1)].reshape(values.shape)


class Judged(NamedTuple):
    """A tensor at each layer: its largest entry, the largest error, the largest size, and the most
    that an entry is in units of its own error; and which layer is the first."""

    values: Array
    errors: Array
    size: Array
    clearest: Array
    first: int = 1

    def loses(self, share: float) -> NDArray[np.bool_]:
        """True if the error exceeds this share of the tensor."""
        return np.asarray(self.errors > share * self.values)

    @property
    def is_zero(self) -> NDArray[np.bool_]:
        """True if the tensor is zero to rounding."""
        passed = self.first + np.arange(len(self.size))
        negligible = self.errors <= ZERO * (10.0 + passed) ** 2 * self.size
        return np.asarray(negligible & (self.clearest <= 8.0))

    @property
    def is_below_floats(self) -> NDArray[np.bool_]:
        """True if the tensor is too small to have digits."""
        return np.asarray((self.errors <= _UNDERFLOW) & (self.values <= _UNDERFLOW))


def judged(values: Array, errors: Array, size: Array, first: int = 1) -> Judged:
    """Of arrays over (layer, samples …), from this layer on."""
    with np.errstate(all="ignore"):
        clear = np.where(values == 0.0, 0.0, values / errors)
    parts = (values, errors, size, clear)
    largest = (np.abs(part).reshape(len(part), -1).max(axis=1) for part in parts)
    return Judged(*largest)._replace(first=first)


def lost_at(
    tensor: Judged, kernel: Array, at_unit: Callable[[], Judged], share: float = LOST
) -> int | None:
    """The first layer, from 1, at which the error exceeds this share of a tensor that is not zero.

    Arguments:
        kernel: the largest variance at each layer.
        at_unit: the same tensor in the same network, the inputs' kernel brought to order one, at
            the first layers.
        share: by default what is refused.
    """
    zero = tensor.is_zero
    below = np.concatenate([kernel[:1], kernel[:-1]])
    lost = tensor.loses(share)
    small = (below < 1.0) & (below > 0.0)
    if (lost & zero & small).any():
        same = at_unit()
        vanishes = same.is_zero | ~same.loses(LOST) & (same.values == 0.0)
        layers = np.minimum(np.arange(len(zero)), len(vanishes) - 1)
        zero = zero & (~small | vanishes[layers])
    zero = zero | tensor.is_below_floats
    found = lost & ~zero
    return int(np.argmax(found)) + 1 if found.any() else None


def digits(tensor: Judged, layer: int) -> int:
    """How many decimal digits are left at this layer."""
    value, error = tensor.values[layer - 1], tensor.errors[layer - 1]
    return math.floor(math.log10(value / error)) if value > error > 0 else 0
