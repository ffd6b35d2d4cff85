"""How integrands grow: off the real line, which sets a rule's step, and far out on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from derive.activations.functions import Activation, z
from derive.gaussian.shapes import leibniz
from derive.work.caches import cache

from ...emit.stable import stable
from ..functions import OWN

SPACING = 0.05
"""Of the points at which integrands are sampled."""

_WINDOW, _FARTHEST = 1.0, 40.0

UNBOUNDED = 1e300
"""A logarithm that stands for growth beyond doubles."""

Terms = Mapping[tuple[int, ...], int]
"""A polynomial in σ's derivatives: {orders of the factors: coefficient}."""


def strips(activation: Activation) -> tuple[float, ...]:
    """The heights b at which `growth` is sampled, all inside the strip of analyticity."""
    if activation.strip == sympy.oo:
        near = tuple(2.0 ** (j / 2) for j in range(-6, 11))
        return near + (tuple(2.0**j for j in range(6, 512, 8)) if activation.is_polynomial else ())
    width = float(activation.strip)
    return tuple(width * k / 16 for k in (1, 2, 4, 6, 8, 10, 12, 14, 15))


def growth(activation: Activation, integrands: Sequence[Terms]) -> tuple[float, ...]:
    """log G(b) for each b of `strips`: the largest over the integrands F and over x of

        |F(x ± i b)| / max_{|t − x| ≤ 1} |F(t)|,

    made nondecreasing in b. Sampled on |x| ≤ 40 with spacing 1/20.
    """
    orders = {order for terms in integrands for factors in terms for order in factors}
    largest, table = 0.0, []
    for b in (0.0, *strips(activation)):
        values = {order: _on_line(activation, order, b) for order in orders}
        sizes = [np.abs(_combine(terms, values)) for terms in integrands]
        if b == 0.0:
            real = [_windowed(size) for size in sizes]
            continue
        for size, reference in zip(sizes, real, strict=True):
            seen = reference > 1e-250
            with np.errstate(over="ignore", invalid="ignore"):
                ratio = (size[seen] / reference[seen]).max(initial=1.0)
            largest = max(largest, math.log(ratio) if math.isfinite(ratio) else math.inf)
        table.append(largest if math.isfinite(largest) else UNBOUNDED)
    return tuple(table)


def settled(activation: Activation, orders: Sequence[int], outer: int) -> int:
    """How many of the derivatives outside Π σ^{(order)} to put inside where z ~ N(0, K) is broad.

    The fewest that leave a function which dies out, so that it averages to O(K^{-1/2}) and not to
    O(1); none where no number of them does, as for σ that oscillates.
    """
    for inside in range(outer + 1):
        terms = leibniz(orders, inside)
        values = {m: _on_line(activation, m, 0.0) for factors in terms for m in factors}
        size, x = np.abs(_combine(terms, values)), np.abs(_line())
        with np.errstate(invalid="ignore"):
            if size[x > 0.75 * _FARTHEST].max() <= 0.2 * size[x < 0.25 * _FARTHEST].max():
                return inside
    return 0


@cache
def rate(activation: Activation) -> float:
    """log|σ(z)|/|z| far out, 0 for algebraic growth: how far σ moves the weight of the Gaussian."""
    ends = (activation.pieces[0].expr, -10_000), (activation.pieces[-1].expr, 10_000)
    rates = [
        float(sympy.log(abs(value)).evalf()) / abs(at)
        for expr, at in ends
        if (value := expr.subs(z, sympy.Integer(at)).evalf(30)) != 0
    ]
    fastest = max(rates, default=0.0)
    return fastest if fastest > 0.02 else 0.0


@cache
def degree(activation: Activation, order: int) -> float:
    """How fast |σ^{(order)}| grows far out, as a power of |z|: 0 where it is bounded."""
    at = np.array([-2e3, -1e3, 1e3, 2e3], complex)
    if activation.is_smooth:
        values = far_out(activation, order)(at)
    else:
        ends = [Activation("piece", activation.pieces[end].expr) for end in (0, -1)]
        left, right = (far_out(end, order)(at) for end in ends)
        values = np.concatenate([left[:2], right[2:]])
    size = np.abs(values)
    with np.errstate(all="ignore"):
        powers = np.log2(size[[0, 3]] / size[[1, 2]])
    return float(powers[np.isfinite(powers)].max(initial=0.0))


@cache
def far_out(activation: Activation, order: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """σ^{(order)} in a form that neither overflows nor meets a cut of log right or left of 0."""
    compiled = sympy.lambdify(z, stable(activation.derivative(order)), [OWN, "scipy", "numpy"])

    def values(at: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(all="ignore"):
            return np.broadcast_to(np.asarray(compiled(at), complex), at.shape)

    return values


def _combine(terms: Terms, values: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        return np.broadcast_to(summed(terms, values), _line().shape)


def summed(terms: Terms, values: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
    """The polynomial, of these values of σ's derivatives."""
    total = np.zeros(1, complex)
    for factors, coefficient in terms.items():
        product = np.full(1, float(coefficient), complex)
        for order in factors:
            product = product * values[order]
        total = total + product
    return total


def _windowed(size: NDArray[Any]) -> NDArray[Any]:
    reach = round(_WINDOW / SPACING)
    padded = np.pad(np.nan_to_num(size), reach, mode="edge")
    return np.asarray(sliding_window_view(padded, 2 * reach + 1).max(axis=1))


def _line() -> NDArray[Any]:
    return np.arange(-_FARTHEST, _FARTHEST + SPACING / 2, SPACING)


@cache
def _on_line(activation: Activation, order: int, b: float) -> NDArray[Any]:
    """σ^{(order)}(x + i b), b > 0; σ is real on the real line, so −b has the same size."""
    with np.errstate(all="ignore"):
        return np.asarray(_compiled(activation, order)(_line() + 1j * b), complex)


@cache
def _compiled(activation: Activation, order: int) -> Callable[[NDArray[Any]], NDArray[Any]]:
    found: Callable[[NDArray[Any]], NDArray[Any]]
    found = sympy.lambdify(z, activation.derivative(order), ["scipy", "numpy"])
    return found
