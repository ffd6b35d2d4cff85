"""The lazy samplers with their networks on a GPU: layers and sums of chunks are made there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from threading import Event
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from derive.activations.functions import Activation, z

from ..arrays import Array
from ..emit import modules, printer
from ..estimators import moments
from ..random.lazy import COLUMN, DIAGONAL, FACTOR, HAAR, Step
from ..random.philox import padded
from ..samplers.base import Sampler
from ..samplers.paths import PathSampler
from ..samplers.probing import ProbeSampler
from . import kernels, statistics
from .device import SIMULATED, THREADS, Rooms, blocks

_CHUNK = 1 << 32  # numbers that are computed in a chunk
_MOST = 1 << 16  # networks in a chunk
_SIMULATED_MEMORY = 1 << 26

_ACTIVATION = '''\
"""An activation and its derivatives on a GPU: {name}."""

import math

from numba import cuda

scalar = cuda.jit(device=True)

{sigma}

@cuda.jit
def differentiate(Z, out):
    """The derivatives of σ at the first rows of Z (networks, rows, n): (networks, orders, m, n)."""
    s = cuda.blockIdx.x
    if s < Z.shape[0]:
        m, n = out.shape[2], out.shape[3]
        for at in range(cuda.threadIdx.x, m * n, cuda.blockDim.x):
            values = sigma(Z[s, at // n, at % n])
{stores}
'''


@cache
def activation_kernels(activation: Activation, orders: int) -> ModuleType:
    """`differentiate`, for σ and its derivatives below this order."""
    derivatives = [activation.derivative(order) for order in range(orders)]
    sigma = printer.function("sigma", [z], derivatives, decorator="@scalar")
    places = (f"out[s, {k}, at // n, at % n] = values[{k}]" for k in range(orders))
    stores = "\n".join(" " * 12 + place for place in places)
    source = _ACTIVATION.format(name=activation.name, sigma=sigma, stores=stores)
    return modules.load(source, "cuda_activation")


class _OnDevice(Sampler):
    """What both samplers share."""

    @property
    @abstractmethod
    def held(self) -> int:
        """How many numbers are held for each network at a time."""

    @abstractmethod
    def device_layers(self, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
        """The statistics of these networks at layers 1, 2, …, on the device."""

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """What these networks estimate, (draws, statistics), at layers 1, 2, …"""
        for values in self.device_layers(draws, Rooms()):
            yield values.copy_to_host()

    @property
    def chunk(self) -> int:
        """The number of draws in a chunk: a power of two, fewer for large networks."""
        affordable = max(1, _CHUNK // (self.numbers * self.ensemble.depth))
        return int(min(_MOST, 1 << (affordable.bit_length() - 1)))

    @property
    def threads(self) -> int:
        """One: the GPU is busy with a chunk at a time."""
        return 1

    def sums(
        self,
        start: int,
        stop: int,
        reference: Array,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> Array:
        """The sums over the draws of one chunk about X⁰, (BLOCKS, depth, products)."""
        sums, about = cuda.to_device(np.zeros(self.shape(stop - start))), cuda.to_device(reference)
        chain, room = _sent(self.plan.chain), Rooms()
        step = max(1, _memory() // (8 * self.held))
        for first in range(start, stop, step):
            draws = np.arange(first, min(first + step, stop))
            grid = blocks(min(draws.size, moments.BLOCKS)), THREADS
            for layer, values in enumerate(self.device_layers(draws, room)):
                statistics.accumulate[grid](values, first, about, chain, layer, sums)
        found: Array = sums.copy_to_host()
        return found


@dataclass(frozen=True, eq=False)
class CudaProbeSampler(_OnDevice, ProbeSampler):
    """`lazy.ProbeSampler` on a GPU."""

    @property
    def held(self) -> int:
        """Vectors of two layers, of the steps between, and of three works; matrices."""
        vectors = len(self.probes.jets) * self.plan.samples
        steps = (step for steps in self.ensemble.steps for step in steps)
        widest = max(*self.ensemble.widths, *(step.big for step in steps))
        return (9 + self.probes.order) * vectors * widest + 8 * (vectors + 1) ** 2

    def device_layers(self, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
        """`ProbeSampler.layers`."""
        count, numbers = draws.size, cuda.to_device(draws)
        ensemble, m, order = self.ensemble, self.plan.samples, self.probes.order
        grid = blocks(count), THREADS
        vectors = len(self.probes.jets) * m
        structure, coefficients = (_sent(part) for part in self._polynomials)
        key, rule = cuda.to_device(ensemble.key), _sent(self.probes.chain_rule)
        raising = _sent(self.probes.raising)
        activation = activation_kernels(ensemble.net.activation, order + 1)
        S = room("S", (count, vectors, vectors))
        values = room("values", (count, len(self.plan.statistics)))
        X = room("X0", (count, vectors, ensemble.widths[0]))
        _place(ensemble.inputs, X)
        for layer in range(ensemble.depth):
            kernels.gram[grid](X, S)
            flat = S.reshape(count, vectors * vectors)
            statistics.evaluate[grid](flat, structure, coefficients, layer, values)
            yield values
            if layer + 1 == ensemble.depth:
                return
            n = ensemble.widths[layer + 1]
            Z = self._weighted(S, X, numbers, key, layer, room)
            if ensemble.C_b[layer]:
                G = room("bias", (count, padded(n)))
                deviation = float(np.sqrt(ensemble.C_b[layer]))
                kernels.add_bias[grid](Z, G, m, deviation, key, numbers, layer + 1)
            if order:
                self._vary(S, X, Z, numbers, key, raising, layer, room)
            derivatives = room("derivatives", (count, order + 1, m, n))
            activation.differentiate[grid](Z, derivatives)
            kernels.chain[grid](Z, derivatives, rule)
            X = Z

    def _weighted(self, S: Any, X: Any, draws: Any, key: Any, layer: int, room: Rooms) -> Any:
        """W X of each network, through the factors of W."""
        count, vectors, _ = X.shape
        grid, steps = (blocks(count), THREADS), self.ensemble.steps[layer]
        for t, step in enumerate(steps):
            last = t == len(steps) - 1
            use = f"X{(layer + 1) % 2}" if last else f"step{t}"
            Z = room(use, (count, vectors, step.size))
            if step.kind == DIAGONAL:
                roots = cuda.to_device(np.sqrt(step.values))
                kernels.multiply_rows[grid](X, Z, roots, step.scale)
            else:
                n_in = X.shape[2]
                drawn = _drawn(step)
                G = room("G", (count, vectors, padded(drawn)))
                kernels.apply[grid](
                    S,
                    X,
                    Z,
                    G,
                    room("matrices", (count, 3, vectors, vectors)),
                    room("spare", (count, 2, vectors, n_in)),
                    room("squares", (count, 2, vectors)),
                    key,
                    draws,
                    (step.kind, drawn, layer + 1, COLUMN + FACTOR * t),
                    float(step.scale * np.sqrt(n_in)),
                )
            X = Z
            if not last:
                S = room("inner", S.shape)
                kernels.gram[grid](X, S)
        return X

    def _vary(
        self, S: Any, X: Any, Z: Any, draws: Any, key: Any, raising: Any, layer: int, room: Rooms
    ) -> None:
        """Add the terms of the layer's own parameters."""
        ensemble, (count, vectors, n_in) = self.ensemble, X.shape
        kernels.vary[blocks(count), THREADS](
            S,
            X,
            Z,
            room("T", (count, vectors, vectors)),
            room("factors", (count, 2, vectors + 1, vectors)),
            room("spare", (count, 2, vectors, n_in)),
            room("squares", (count, 2, vectors)),
            room("words", (count, vectors + 1, 4 * -(-Z.shape[2] // 128)), "u8"),
            key,
            draws,
            layer + 1,
            (float(ensemble.lambda_W[layer]), float(ensemble.lambda_b[layer])),
            raising,
            self.plan.samples,
        )


@dataclass(frozen=True, eq=False)
class CudaPathSampler(_OnDevice, PathSampler):
    """`conditional.PathSampler` on a GPU."""

    @property
    def held(self) -> int:
        """Columns, derivatives and normals of the widest layer; factors."""
        compiled, widest = self._compiled, max(s.big for (s,) in self.ensemble.steps)
        widest = max(widest, *self.ensemble.widths)
        return (2 * compiled.orders + 8) * widest + 2 * (compiled.states + compiled.tree[0].size)

    def device_layers(self, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
        """`PathSampler.layers`."""
        count, numbers = draws.size, cuda.to_device(draws)
        ensemble, compiled = self.ensemble, self._compiled
        grid = blocks(count), THREADS
        states, orders = compiled.states, compiled.orders
        key, tree = cuda.to_device(ensemble.key), _sent(compiled.tree)
        told = [[_sent(part) for part in pair] for pair in (compiled.statistics, compiled.steps)]
        activation = activation_kernels(ensemble.net.activation, orders)
        n = ensemble.widths[0]
        derivatives, F = room("derivatives", (count, orders, 1, n)), room("F", (count, 1, n))
        _place(ensemble.at_inputs(orders)[:, 0], derivatives.reshape(count, orders, n))
        _place(np.zeros((1, n)), F)
        factors = room("factors", (count, states + compiled.tree[0].size))
        values = room("values", (count, len(self.plan.statistics)))
        after = room("after", (count, max(states, 1)))
        start = np.concatenate([compiled.start, np.zeros(factors.shape[1] - states)])
        _place(start[None], factors.reshape(count, 1, factors.shape[1]))
        for layer in range(ensemble.depth):
            columns = room("columns", (count, orders + 3, n))
            kernels.arrange[grid](derivatives, F, columns)
            statistics.sum_over_neurons[grid](columns, tree, factors, states)
            statistics.evaluate[grid](factors, *told[0], layer, values)
            yield values
            if layer + 1 == ensemble.depth:
                return
            if states:
                statistics.evaluate[grid](factors, *told[1], layer, after)
                statistics.put_first[grid](after, factors)
            n = ensemble.widths[layer + 1]
            Z, F = room("Z", (count, 1, n)), room("F", (count, 1, n))
            (step,) = ensemble.steps[layer]
            drawn = _drawn(step)
            G = room("G", (count, padded(drawn)))
            factor = step.kind, drawn, layer + 1, COLUMN
            kernels.advance_path[grid](columns, Z, F, G, key, numbers, factor, step.scale)
            if ensemble.C_b[layer]:
                deviation = float(np.sqrt(ensemble.C_b[layer]))
                kernels.add_bias[grid](
                    Z, room("bias", (count, padded(n))), 1, deviation, key, numbers, layer + 1
                )
            derivatives = room("derivatives", (count, orders, 1, n))
            activation.differentiate[grid](Z, derivatives)


def _drawn(step: Step) -> int:
    """Normals of a column."""
    return step.big if step.kind == HAAR else step.size


def _place(rows: Array, X: Any) -> None:
    """Fill the first vectors of every network with the rows, the others with zeros."""
    kernels.place_inputs[blocks(X.shape[0]), THREADS](X, cuda.to_device(rows))


def _sent(arrays: Any) -> Any:
    """An array, or a tuple of some, on the device."""
    if isinstance(arrays, tuple):
        return tuple(_sent(array) for array in arrays)
    return cuda.to_device(np.ascontiguousarray(arrays))


def _memory() -> int:
    """Bytes to fill: half of what is free."""
    if SIMULATED:
        return _SIMULATED_MEMORY
    return int(cuda.current_context().get_memory_info().free) // 2
