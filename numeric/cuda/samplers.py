"""The lazy samplers with their networks on a GPU: layers and sums of chunks are made there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import cuda
from numpy.typing import NDArray

from ..arrays import Array
from ..estimators import moments
from ..random.lazy import COLUMN
from ..random.philox import padded
from ..runs.work import Sharing
from ..samplers.base import Sampler
from ..samplers.paths import PathSampler
from ..samplers.staged import ProbeSampler
from . import kernels, statistics
from .activations import activation_kernels
from .arithmetic import CudaArithmetic, drawn_of
from .device import SIMULATED, THREADS, Rooms, blocks, sent

_CHUNK = 1 << 32  # numbers that are computed in a chunk
_MOST = 1 << 16  # networks in a chunk
_SIMULATED_MEMORY = 1 << 26


class _Road(NamedTuple):
    """How networks go down the layers, and how many numbers are held for each at a time."""

    held: Callable[[Any], int]
    layers: Callable[[Any, NDArray[np.int64], Rooms], Iterator[Any]]


@dataclass(frozen=True, eq=False)
class CudaSampler(Sampler):
    """A sampler of this machine, its networks on a GPU.

    Arguments:
        host: along probes, or along paths of one input behind matrices of one factor.
        precision: of the vectors, "f8" or "f4", as of `Rooms`.
    """

    host: Sampler
    precision: str = "f8"

    @property
    def label(self) -> str:
        """See `Sampler`."""
        return self.host.label

    @property
    def identity(self) -> str:
        """See `Sampler`."""
        single = " in single precision" * (self.precision == "f4")
        return f"{super().identity} of {self.host.identity}{single}"

    @property
    def numbers(self) -> int:
        """See `Sampler`."""
        return self.host.numbers

    @property
    def held(self) -> int:
        """How many numbers are held for each network at a time."""
        return self._road.held(self.host)

    def device_layers(self, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
        """The statistics of these networks at layers 1, 2, …, on the device."""
        return self._road.layers(self.host, draws, room)

    @property
    def _road(self) -> _Road:
        if isinstance(self.host, PathSampler):
            return _Road(_held_of_paths, _paths)
        assert isinstance(self.host, ProbeSampler)
        if self.host.is_dense:
            return _Road(_held_of_matrices, _matrices)
        return _Road(_held_of_stages, _stages)

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """The estimates of these networks, (draws, statistics), at layers 1, 2, …"""
        for values in self.device_layers(draws, Rooms(self.precision)):
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

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The sums over the draws of one chunk about X⁰, (BLOCKS, depth, products)."""
        sums, about = cuda.to_device(np.zeros(self.shape(stop - start))), cuda.to_device(reference)
        chain, room = sent(self.plan.chain), Rooms(self.precision)
        step = max(1, _memory() // (8 * self.held))
        for first in range(start, stop, step):
            draws = np.arange(first, min(first + step, stop))
            grid = blocks(min(draws.size, moments.BLOCKS)), THREADS
            for layer, values in enumerate(self.device_layers(draws, room)):
                statistics.accumulate[grid](values, first, about, chain, layer, sums)
        found: Array = sums.copy_to_host()
        return found


def _held_of_matrices(host: ProbeSampler) -> int:
    """Vectors of two layers, of the steps between, and of three works; matrices."""
    vectors = len(host.probes.jets) * host.plan.samples
    steps = (step for steps in host.ensemble.steps for step in steps)
    widest = max(*host.ensemble.widths, *(step.big for step in steps))
    return (9 + host.probes.order) * vectors * widest + 8 * (vectors + 1) ** 2


def _held_of_stages(host: ProbeSampler) -> int:
    """Variables, what they are made of and works on the way to them, and matrices."""
    vectors = len(host.probes.jets) * max(host.ensemble.data.samples)
    return (24 + host.probes.order) * host.numbers + 32 * (vectors + 1) ** 2


def _held_of_paths(host: PathSampler) -> int:
    """Columns, derivatives and normals of the widest layer; factors."""
    compiled, widest = host.compiled, max(s.big for (s,) in host.ensemble.steps)
    widest = max(widest, *host.ensemble.widths)
    return (2 * compiled.orders + 8) * widest + 2 * (compiled.states + compiled.tree[0].size)


def _matrices(host: ProbeSampler, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
    """`probing.layers`."""
    count, numbers = draws.size, cuda.to_device(draws)
    ensemble, m, order = host.ensemble, host.plan.samples, host.probes.order
    grid = blocks(count), THREADS
    vectors = len(host.probes.jets) * m
    structure, coefficients = (sent(part) for part in host.polynomials)
    key, rule = cuda.to_device(ensemble.key), sent(host.probes.chain_rule)
    on = CudaArithmetic(ensemble, host.probes, draws, room)
    S = room("S", (count, vectors, vectors))
    values = room("values", (count, len(host.plan.statistics)))
    X = room.neurons("X0", (count, vectors, ensemble.widths[0]))
    _place(ensemble.inputs, X)
    for layer in range(ensemble.depth):
        kernels.gram[grid](X, S)
        flat = S.reshape(count, vectors * vectors)
        statistics.evaluate[grid](flat, structure, coefficients, layer, values)
        yield values
        if layer + 1 == ensemble.depth:
            return
        n = ensemble.widths[layer + 1]
        out = room.neurons(f"X{(layer + 1) % 2}", (count, vectors, n))
        Z: Any = on.applied(ensemble.steps[layer], S, X, n, layer + 1, out)
        if ensemble.C_b[layer]:
            G = room.neurons("bias", (count, padded(n)))
            deviation = float(np.sqrt(ensemble.C_b[layer]))
            kernels.add_bias[grid](Z, G, m, deviation, key, numbers, layer + 1)
        if order:
            rates = float(ensemble.lambda_W[layer]), float(ensemble.lambda_b[layer])
            on.vary(S, X, Z, rates, m, layer + 1)
        derivatives = room.neurons("derivatives", (count, order + 1, m, n))
        activation = activation_kernels(ensemble.activation_at(layer + 1), order + 1)
        activation.differentiate[grid](Z, derivatives)
        kernels.chain[grid](Z, derivatives, rule)
        X = Z


def _stages(host: ProbeSampler, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
    """`ProbeSampler.passed`."""
    return host.passed(CudaArithmetic(host.ensemble, host.probes, draws, room))


def _paths(host: PathSampler, draws: NDArray[np.int64], room: Rooms) -> Iterator[Any]:
    """`PathSampler.layers`."""
    count, numbers = draws.size, cuda.to_device(draws)
    ensemble, compiled = host.ensemble, host.compiled
    grid = blocks(count), THREADS
    states, orders = compiled.states, compiled.orders
    key, tree = cuda.to_device(ensemble.key), sent(compiled.tree)
    told = [[sent(part) for part in pair] for pair in (compiled.statistics, compiled.steps)]
    n = ensemble.widths[0]
    derivatives, F = (
        room.neurons("derivatives", (count, orders, 1, n)),
        room.neurons("F", (count, 1, n)),
    )
    _place(ensemble.at_inputs(orders)[:, 0], derivatives.reshape(count, orders, n))
    _place(np.zeros((1, n)), F)
    factors = room("factors", (count, states + compiled.tree[0].size))
    values = room("values", (count, len(host.plan.statistics)))
    after = room("after", (count, max(states, 1)))
    start = np.concatenate([compiled.start, np.zeros(factors.shape[1] - states)])
    _place(start[None], factors.reshape(count, 1, factors.shape[1]))
    for layer in range(ensemble.depth):
        columns = room.neurons("columns", (count, orders + 3, n))
        kernels.arrange[grid](derivatives, F, columns)
        statistics.sum_over_neurons[grid](columns, tree, factors, states)
        statistics.evaluate[grid](factors, *told[0], layer, values)
        yield values
        if layer + 1 == ensemble.depth:
            return
        if states:
            statistics.evaluate[grid](factors, *told[1], layer, after)
            statistics.put[grid](after, factors, 0)
        n = ensemble.widths[layer + 1]
        Z, F = room.neurons("Z", (count, 1, n)), room.neurons("F", (count, 1, n))
        (step,) = ensemble.steps[layer]
        drawn = drawn_of(step)
        G = room.neurons("G", (count, padded(drawn)))
        factor = step.kind, drawn, layer + 1, COLUMN
        kernels.advance_path[grid](columns, Z, F, G, key, numbers, factor, step.scale)
        if ensemble.C_b[layer]:
            deviation = float(np.sqrt(ensemble.C_b[layer]))
            kernels.add_bias[grid](
                Z, room.neurons("bias", (count, padded(n))), 1, deviation, key, numbers, layer + 1
            )
        derivatives = room.neurons("derivatives", (count, orders, 1, n))
        activation = activation_kernels(ensemble.activation_at(layer + 1), orders)
        activation.differentiate[grid](Z, derivatives)


def _place(rows: Array, X: Any) -> None:
    """Fill the first vectors of every network with the rows, the others with zeros."""
    kernels.place_inputs[blocks(X.shape[0]), THREADS](X, cuda.to_device(rows))


def _memory() -> int:
    """Bytes to fill: half of what is free."""
    if SIMULATED:
        return _SIMULATED_MEMORY
    return int(cuda.current_context().get_memory_info().free) // 2
