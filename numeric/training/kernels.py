"""Descent of one network after another, compiled: each stays in the processor's cache.

A network's parameters are one vector: of each layer the matrix (n_in, n_out), its rows the inputs,
then the biases. σ comes as a compiled function of its own, so that nothing here is compiled anew
for another. The matrix products of a step are those of `tiles`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np

from derive.activations import Activation
from derive.work.caches import cache

from ..arrays import Array
from ..emit.jit import driver
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from ..emit.vectors import LANES
from ..random.lazy import dot
from .tiles import (
    add_gradient,
    from_lanes,
    multiply_rows,
    put_inputs,
    tile_rows,
    tiled,
    to_lanes,
)  # fmt: skip

TENSORIAL, ORDINARY, MOMENTUM, ADAM = range(4)
SQUARED, ENTROPY, SIGMOID = range(3)
_ALONE, _LEAST = 1 << 18, 16
"""A product of so many multiplications at most is one that OpenBLAS does not share out among
threads: of so many inputs, but not of fewer than these, is each call's."""
_AT_ONCE = 128
"""Inputs that are taken through all layers at once, where they are only looked at."""


@driver
def inputs_at_once(W: Array) -> int:
    """Of a product with this matrix."""
    return max(_LEAST, _ALONE // W.size)


@driver
def forward_blas(W: Array, b: Array, x: Array, z: Array) -> None:
    """z = x W + b."""
    step = inputs_at_once(W)
    for a in range(0, x.shape[0], step):
        np.dot(x[a : a + step], W, z[a : a + step])
    for a in range(x.shape[0]):
        for k in range(b.size):
            z[a, k] += b[k]


@driver
def residual(z: Array, y: Array, loss: int, back: Array) -> None:
    """∂L/∂z."""
    for a in range(z.shape[0]):
        if loss == ENTROPY:
            most, total = z[a, 0], 0.0
            for k in range(z.shape[1]):
                most = max(most, z[a, k])
            for k in range(z.shape[1]):
                back[a, k] = np.exp(z[a, k] - most)
                total += back[a, k]
            for k in range(z.shape[1]):
                back[a, k] = back[a, k] / total - y[a, k]
        elif loss == SIGMOID:
            total = 0.0
            for k in range(z.shape[1]):
                back[a, k] = 1 / (1 + np.exp(-z[a, k]))
                total += back[a, k]
            for k in range(z.shape[1]):
                back[a, k] = (1 - back[a, k]) * (back[a, k] / total - y[a, k])
        else:
            for k in range(z.shape[1]):
                back[a, k] = z[a, k] - y[a, k]


@driver
def clipped(W: Array, gradient: Array, clip: float) -> None:
    """The gradient no larger than `clip` times the matrix, a small one taken as 10⁻²."""
    own, limit = np.sqrt(dot(gradient, gradient)), np.sqrt(dot(W, W))
    limit = clip * max(limit, 1e-2)
    if own > limit:
        for k in range(gradient.size):
            gradient[k] *= limit / own


@driver
def take(
    part: Array,
    gradient: Array,
    first: Array,
    second: Array,
    numbers: Array,
    kind: int,
    rate: float,
    count: int,
) -> None:
    """Step number `count` of these parameters, down their gradient."""
    eta, keep, keep_second, tiny = numbers[0], numbers[2], numbers[3], numbers[4]
    if kind == MOMENTUM:
        for k in range(part.size):
            first[k] = keep * first[k] + gradient[k]
            part[k] -= eta * first[k]
    elif kind == ADAM:
        scale, scale_second = 1 / (1 - keep**count), 1 / (1 - keep_second**count)
        for k in range(part.size):
            first[k] = keep * first[k] + (1 - keep) * gradient[k]
            second[k] = keep_second * second[k] + (1 - keep_second) * gradient[k] ** 2
            part[k] -= eta * (first[k] * scale) / (np.sqrt(second[k] * scale_second) + tiny)
    else:
        for k in range(part.size):
            part[k] -= rate * gradient[k]


_DESCEND = '''\
_array = numba.float64[:, ::1]
_vector = numba.float64[::1]
_sigma = numba.types.FunctionType(numba.void(_array, _array, _array))
_arguments = (
    _array, _array, _array, numba.int64[::1], _array, _array, numba.int64[:, :, ::1],
    _array, _vector, numba.int64, numba.int64, numba.int64, _sigma,
)


@numba.njit(numba.void(*_arguments), **_own, nogil=True, cache=True)
def descend(
    parameters, first, second, widths, inputs, targets, order, rates, numbers, kind, loss, count,
    sigma,
):
    """Steps of every network in place, each with the inputs that `order` has for it.

    `rates` are of the matrices and of the biases by layer, η with them, `numbers` are η, the clip
    (0 is none), the momentum, Adam's second one and what it adds to a root.
    """
    layers, batch, straight = widths.size - 1, order.shape[2], kind < MOMENTUM and numbers[1] == 0
    blocks, n_rows, widest = (batch + LANES - 1) // LANES, 0, LANES
    for layer in range(layers + 1):
        n_rows += blocks * widths[layer]
        widest = max(widest, widths[layer])
    starts, middles = np.zeros(layers + 1, np.int64), np.zeros(layers, np.int64)
    for layer in range(layers):
        middles[layer] = starts[layer] + widths[layer] * widths[layer + 1]
        starts[layer + 1] = middles[layer] + widths[layer + 1]
    gradient, nothing = np.zeros(0 if straight else starts[layers]), np.zeros(widest)
    scratch, turned = np.empty((4, n_rows, LANES)), np.empty(blocks * LANES * (widest + LANES))
    ends = np.empty((3, batch, targets.shape[1]))
    z, y, down = ends[0], ends[1], ends[2]
    for s in range(parameters.shape[0]):
        own = parameters[s]
        for t in range(order.shape[1]):
            x = tile_rows(scratch[0], blocks, widths, 0)
            put_inputs(inputs, order[s, t], x)
            for a in range(batch):
                for k in range(y.shape[1]):
                    y[a, k] = targets[order[s, t, a], k]
            for layer in range(layers):
                W, b = own[starts[layer] : middles[layer]], own[middles[layer] : starts[layer + 1]]
                n_in, n_out = widths[layer], widths[layer + 1]
                entering = tile_rows(scratch[1], blocks, widths, layer + 1)
                tiled(W, 1, n_out, b, x, n_in, entering, n_out)
                if layer < layers - 1:
                    x = tile_rows(scratch[0], blocks, widths, layer + 1)
                    slope = tile_rows(scratch[2], blocks, widths, layer + 1)
                    flat = 1, x.size
                    sigma(entering.reshape(flat), x.reshape(flat), slope.reshape(flat))
            from_lanes(entering, z)
            residual(z, y, loss, down)
            back = tile_rows(scratch[3], blocks, widths, layers)
            to_lanes(down, back)
            for layer in range(layers - 1, -1, -1):
                start, middle, end = starts[layer], middles[layer], starts[layer + 1]
                x = tile_rows(scratch[0], blocks, widths, layer)
                below = tile_rows(scratch[3], blocks, widths, layer)
                n_in, n_out = widths[layer], widths[layer + 1]
                if layer:
                    tiled(own[start:middle], n_out, 1, nothing, back, n_out, below, n_in)
                    multiply_rows(below, tile_rows(scratch[2], blocks, widths, layer))
                if straight:
                    W, b = own[start:middle], own[middle:end]
                    rate, own_rate = -rates[0, layer], -rates[1, layer]
                else:
                    W, b = gradient[start:middle], gradient[middle:end]
                    gradient[start:end] = 0.0
                    rate, own_rate = 1.0, 1.0
                add_gradient(W, b, rate, own_rate, x, back, turned)
                if numbers[1]:
                    clipped(own[start:middle], W, numbers[1])
                back = below
            if straight:
                continue
            for layer in range(layers):
                for part in range(2):
                    low = middles[layer] if part else starts[layer]
                    high = starts[layer + 1] if part else middles[layer]
                    take(
                        own[low:high], gradient[low:high], first[s, low:high], second[s, low:high],
                        numbers, kind, rates[part, layer], count + t + 1,
                    )


@numba.njit(
    numba.void(_array, numba.int64[::1], _array, _sigma, numba.float64[:, :, ::1]),
    **_own, nogil=True, cache=True,
)
def outputs(parameters, widths, inputs, sigma, found):
    """The outputs of every network, (networks, inputs, outputs)."""
    layers, total, widest = widths.size - 1, inputs.shape[0], 0
    for layer in range(layers + 1):
        widest = max(widest, widths[layer])
    scratch = np.empty((3, AT_ONCE * widest))
    for s in range(parameters.shape[0]):
        own = parameters[s]
        for a in range(0, total, AT_ONCE):
            b, start = min(a + AT_ONCE, total), 0
            x = inputs[a:b]
            for layer in range(layers):
                n_in, n_out = widths[layer], widths[layer + 1]
                middle, size = start + n_in * n_out, (b - a) * n_out
                z = scratch[1, :size].reshape(b - a, n_out)
                if layer == layers - 1:
                    z = found[s, a:b]
                W = own[start:middle].reshape(n_in, n_out)
                forward_blas(W, own[middle : middle + n_out], x, z)
                start = middle + n_out
                if layer < layers - 1:
                    x = scratch[0, :size].reshape(b - a, n_out)
                    sigma(z, x, scratch[2, :size].reshape(b - a, n_out))
'''


_SLOPES = """\
{sigma}

@numba.njit(**(_own | {{"no_cfunc_wrapper": False}}), nogil=True, cache=True)
def slopes(z, value, slope):
    for a in range(z.shape[0]):
        for k in range(z.shape[1]):
            values = sigma(z[a, k])
            value[a, k] = values[0]
            slope[a, k] = values[1]
"""


@cache
def descent() -> ModuleType:
    """`descend` and `outputs`, compiled once for every σ."""
    called = (
        tile_rows, put_inputs, tiled, from_lanes, to_lanes, multiply_rows, add_gradient, residual,
        clipped, take, forward_blas,
    )  # fmt: skip
    source = _DESCEND
    for name, value in (("MOMENTUM", MOMENTUM), ("LANES", LANES), ("AT_ONCE", _AT_ONCE)):
        source = source.replace(name, str(value))
    return load_kernels("descent", "Descent of networks, one after another.", (), source, called)


@cache
def sigma_and_slope(activation: Activation) -> Callable[[Array, Array, Array], None]:
    """Compiled: z, σ(z) and σ'(z), all (inputs, n), the last two filled."""
    source = _SLOPES.format(sigma=sigma_source(activation, 2))
    doc = f"An activation and its derivative: {activation.name}."
    kernel: Callable[[Array, Array, Array], None] = load_kernels("slope", doc, (), source).slopes
    return kernel
