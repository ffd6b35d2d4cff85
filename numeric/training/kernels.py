"""Descent of one network after another, compiled: each stays in the processor's cache.

A network's parameters are one vector: of each layer the matrix (n_in, n_out), its rows the inputs,
then the biases. σ comes as a compiled function of its own, so that nothing here is compiled anew
for another. From `BLAS_FROM` inputs a step the matrix products are BLAS's; below that its calls
cost more than they save.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.activations import Activation

from ..arrays import Array
from ..emit.jit import driver, reduction
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from ..random.lazy import add_multiple, dot, four_dots

TENSORIAL, ORDINARY, MOMENTUM, ADAM = range(4)
SQUARED, ENTROPY, SIGMOID = range(3)
BLAS_FROM = 8
"""Inputs of a step from which the products are BLAS's."""
_ALONE, _LEAST = 1 << 18, 16
"""A product of so many multiplications at most is one that OpenBLAS does not share out among
threads: of so many inputs, but not of fewer than these, is each call's."""
NARROW = 4
"""Outputs of a matrix up to which a row of it is too short for a loop of its own."""
_AT_ONCE = 128
"""Inputs that are taken through all layers at once, where they are only looked at."""


@reduction
def back_to(w: Array, back: Array, out: Array, i: int) -> None:
    """out[a, i] = Σ_k w[k] back[a, k], four inputs at a time."""
    count, a = back.shape[0], 0
    while a + 4 <= count:
        of_four = four_dots(w, back[a : a + 4])
        for k in range(4):
            out[a + k, i] = of_four[k]
        a += 4
    while a < count:
        out[a, i] = dot(w, back[a])
        a += 1


@driver
def forward(W: Array, b: Array, x: Array, z: Array) -> None:
    """z = x W + b, four rows of W at a time."""
    count, n = x.shape
    for a in range(count):
        put_row(z[a], b)
    i = 0
    while i + 4 <= n:
        for a in range(count):
            x0, x1, x2, x3 = x[a, i], x[a, i + 1], x[a, i + 2], x[a, i + 3]
            for k in range(b.size):
                z[a, k] += x0 * W[i, k] + x1 * W[i + 1, k] + x2 * W[i + 2, k] + x3 * W[i + 3, k]
        i += 4
    while i < n:
        for a in range(count):
            add_multiple(z[a], x[a, i], W[i])
        i += 1


@driver
def put_row(row: Array, values: Array) -> None:
    """row = values."""
    for k in range(row.size):
        row[k] = values[k]


@driver
def add_products(
    W: Array, start: int, n_out: int, factor: float, x: Array, back: Array, i: int
) -> None:
    """W[start + k] += factor Σ_a x[a, i] back[a, k], four inputs at a time."""
    count, a = back.shape[0], 0
    while a + 4 <= count:
        c0, c1 = factor * x[a, i], factor * x[a + 1, i]
        c2, c3 = factor * x[a + 2, i], factor * x[a + 3, i]
        for k in range(n_out):
            W[start + k] += (
                c0 * back[a, k] + c1 * back[a + 1, k] + c2 * back[a + 2, k] + c3 * back[a + 3, k]
            )
        a += 4
    while a < count:
        c0 = factor * x[a, i]
        for k in range(n_out):
            W[start + k] += c0 * back[a, k]
        a += 1


@driver
def rows(scratch: Array, count: int, widths: NDArray[np.int64], layer: int) -> Array:
    """A layer's part, (count, n), of what has room for all layers."""
    start = 0
    for below in range(layer):
        start += count * widths[below]
    return scratch[start : start + count * widths[layer]].reshape(count, widths[layer])


@driver
def add_gradient(
    W: Array, b: Array, factor: float, own_factor: float, x: Array, back: Array
) -> None:
    """What these inputs add to a matrix and its biases, each with a factor of its own."""
    n_out = b.size
    for i in range(x.shape[1]):
        add_products(W, i * n_out, n_out, factor, x, back, i)
    for a in range(x.shape[0]):
        add_multiple(b, own_factor, back[a])


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
def back_blas(W: Array, back: Array, out: Array) -> None:
    """out = back Wᵀ."""
    step = inputs_at_once(W)
    for a in range(0, back.shape[0], step):
        np.dot(back[a : a + step], W.T, out[a : a + step])


@driver
def add_gradient_blas(
    W: Array, b: Array, factor: float, own_factor: float, x: Array, back: Array, product: Array
) -> None:
    """What these inputs add to a matrix and its biases; `product` is of the matrix's shape."""
    step, flat = inputs_at_once(product), product.reshape(product.size)
    for a in range(0, x.shape[0], step):
        np.dot(x[a : a + step].T, back[a : a + step], product)
        add_multiple(W, factor, flat)
    for a in range(x.shape[0]):
        add_multiple(b, own_factor, back[a])


@driver
def forward_narrow(W: Array, b: Array, x: Array, z: Array) -> None:
    """z = x W + b of few outputs."""
    for a in range(x.shape[0]):
        for k in range(b.size):
            total = b[k]
            for i in range(x.shape[1]):
                total += x[a, i] * W[i, k]
            z[a, k] = total


@driver
def back_narrow(W: Array, back: Array, out: Array) -> None:
    """out = back Wᵀ of few outputs."""
    for a in range(out.shape[0]):
        for i in range(out.shape[1]):
            total = 0.0
            for k in range(W.shape[1]):
                total += W[i, k] * back[a, k]
            out[a, i] = total


@driver
def add_gradient_narrow(
    W: Array, b: Array, factor: float, own_factor: float, x: Array, back: Array
) -> None:
    """What these inputs add to a matrix of few outputs and its biases, as `add_gradient`."""
    n_out = b.size
    for i in range(x.shape[1]):
        for k in range(n_out):
            total = 0.0
            for a in range(x.shape[0]):
                total += x[a, i] * back[a, k]
            W[i * n_out + k] += factor * total
    for a in range(x.shape[0]):
        for k in range(n_out):
            b[k] += own_factor * back[a, k]


@driver
def multiply(x: Array, y: Array) -> None:
    """x ← x y."""
    for a in range(x.shape[0]):
        for k in range(x.shape[1]):
            x[a, k] *= y[a, k]


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
    size = 0
    for layer in range(layers + 1):
        size += batch * widths[layer]
    starts, middles = np.zeros(layers + 1, np.int64), np.zeros(layers, np.int64)
    for layer in range(layers):
        middles[layer] = starts[layer] + widths[layer] * widths[layer + 1]
        starts[layer + 1] = middles[layer] + widths[layer + 1]
    gradient = np.zeros(0 if straight else starts[layers])
    scratch, y = np.empty((4, size)), np.empty((batch, targets.shape[1]))
    by_blas, largest = batch >= BLAS_FROM, 0
    if by_blas:
        for layer in range(layers):
            largest = max(largest, widths[layer] * widths[layer + 1])
    room = np.empty(largest)
    for s in range(parameters.shape[0]):
        own = parameters[s]
        for t in range(order.shape[1]):
            x = rows(scratch[0], batch, widths, 0)
            for a in range(batch):
                put_row(x[a], inputs[order[s, t, a]])
                put_row(y[a], targets[order[s, t, a]])
            for layer in range(layers):
                start, middle, end = starts[layer], middles[layer], starts[layer + 1]
                W = own[start:middle].reshape(widths[layer], widths[layer + 1])
                z = rows(scratch[1], batch, widths, layer + 1)
                if by_blas:
                    forward_blas(W, own[middle:end], x, z)
                elif widths[layer + 1] <= NARROW:
                    forward_narrow(W, own[middle:end], x, z)
                else:
                    forward(W, own[middle:end], x, z)
                if layer < layers - 1:
                    x = rows(scratch[0], batch, widths, layer + 1)
                    sigma(z, x, rows(scratch[2], batch, widths, layer + 1))
            back = rows(scratch[3], batch, widths, layers)
            residual(z, y, loss, back)
            for layer in range(layers - 1, -1, -1):
                start, middle, end = starts[layer], middles[layer], starts[layer + 1]
                x = rows(scratch[0], batch, widths, layer)
                below = rows(scratch[3], batch, widths, layer)
                n_in, n_out = widths[layer], widths[layer + 1]
                if layer:
                    if by_blas:
                        back_blas(own[start:middle].reshape(n_in, n_out), back, below)
                    elif n_out <= NARROW:
                        back_narrow(own[start:middle].reshape(n_in, n_out), back, below)
                    else:
                        for i in range(n_in):
                            row = own[start + i * n_out : start + (i + 1) * n_out]
                            back_to(row, back, below, i)
                    multiply(below, rows(scratch[2], batch, widths, layer))
                if straight:
                    W, b = own[start:middle], own[middle:end]
                    rate, own_rate = -rates[0, layer], -rates[1, layer]
                else:
                    W, b = gradient[start:middle], gradient[middle:end]
                    gradient[start:end] = 0.0
                    rate, own_rate = 1.0, 1.0
                if by_blas:
                    product = room[: n_in * n_out].reshape(n_in, n_out)
                    add_gradient_blas(W, b, rate, own_rate, x, back, product)
                elif n_out <= NARROW:
                    add_gradient_narrow(W, b, rate, own_rate, x, back)
                else:
                    add_gradient(W, b, rate, own_rate, x, back)
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
    """What comes out of every network, (networks, inputs, outputs)."""
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
        rows, put_row, forward, forward_blas, forward_narrow, back_to, back_blas, back_narrow,
        multiply, add_gradient, add_gradient_blas, add_gradient_narrow, residual, clipped, take,
    )  # fmt: skip
    source = _DESCEND
    for name, value in (
        ("MOMENTUM", MOMENTUM), ("BLAS_FROM", BLAS_FROM), ("NARROW", NARROW), ("AT_ONCE", _AT_ONCE),
    ):  # fmt: skip
        source = source.replace(name, str(value))
    return load_kernels("descent", "Descent of networks, one after another.", (), source, called)


@cache
def sigma_and_slope(activation: Activation) -> Callable[[Array, Array, Array], None]:
    """Compiled: z, σ(z) and σ'(z), all (inputs, n), the last two filled."""
    source = _SLOPES.format(sigma=sigma_source(activation, 2))
    doc = f"An activation and its derivative: {activation.name}."
    kernel: Callable[[Array, Array, Array], None] = load_kernels("slope", doc, (), source).slopes
    return kernel
