"""Gradients of the low-rank networks of source 001, sampled: forward and back, the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from derivations.nait_saada_tanner import drawing
from derivations.nait_saada_tanner.drawing import BLOCK
from derive.errors import InputError, as_integer, as_sequence
from derive.network import Network
from derive.work.resources import check_memory
from numeric.arrays import Array
from numeric.random import lazy
from numeric.runs import chunks
from numeric.samplers.ensemble import Ensemble


class Layer(NamedTuple):
    """A layer of networks with one input each, (networks, n) each.

    Attributes:
        z: preactivations.
        sigma: σ(z).
        slope: σ'(z).
    """

    z: Array
    sigma: Array
    slope: Array


Loss = Callable[[Layer, NDArray[np.int64], np.random.Generator], Array]
"""The last layer, and which input each network has → ∂E/∂z, (networks, n)."""


def squares(last: Layer, inputs: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """E = ½ Σ_i z_i²: the sum of squares over all of the last layer, with the target 0.

    A loss of `backward`; ∂E/∂z = z by definition.

    Arguments:
        last: the last layer, (networks, n).
        inputs: which input each network has; not needed here.
        rng: random numbers; not needed here.

    >>> z = np.array([[3.0, 4.0]])
    >>> squares(Layer(z, z, z), np.array([0]), np.random.default_rng(0))
    array([[3., 4.]])
    """
    return last.z


@dataclass(frozen=True)
class CrossEntropy:
    """E = −log softmax(V σ(z))_{label}, with V_ki ~ N(0, 1/n) of its own for each network.

    Attributes:
        labels: of each input.
        classes: how many rows V has.
    """

    labels: tuple[int, ...]
    classes: int

    def __post_init__(self) -> None:
        classes = as_integer("classes", self.classes, 1)
        wanted = f"a class, 0 to {classes - 1}, for each input"
        given = as_sequence("labels", self.labels, wanted)
        labels = tuple(as_integer("labels", each, 0, classes - 1, wanted) for each in given)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "classes", classes)

    def __call__(self, last: Layer, inputs: NDArray[np.int64], rng: np.random.Generator) -> Array:
        """σ'(z) ∘ Vᵀ(p − e_label)."""
        networks, n = last.z.shape
        if inputs.max() >= len(self.labels):
            raise InputError(
                "labels", self.labels, f"one for each input, {inputs.max() + 1} or more"
            )
        check_memory("classes", self.classes, 32 * networks * self.classes, "their logits")
        scale = 1 / np.sqrt(n)
        logits = scale * _norm(last.sigma) * rng.standard_normal((networks, self.classes))
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error /= error.sum(axis=1, keepdims=True)
        error[np.arange(networks), np.array(self.labels)[inputs]] -= 1.0
        return last.slope * _back(last.sigma, logits, error, scale, rng)


class Backward(NamedTuple):
    """Going back through networks with one input each: (draws, depth) each.

    Attributes:
        K: |z|²/n.
        delta: |δ|²/n, δ = ∂E/∂z.
        overlap: z·δ/n.
        weights: |∂E/∂A|² = |Cᵀδ|² |σ|², the squared gradient of the trained coefficients.
    """

    K: Array
    delta: Array
    overlap: Array
    weights: Array


def backward(
    net: Network,
    inputs: ArrayLike,
    width: int,
    depth: int,
    draws: int,
    loss: Loss,
    *,
    biases: str = "neuron",
    seed: int = 0,
) -> Backward:
    """Draw networks, and go forward and back through them with the same weights.

    Network d has the input d mod m. A matrix meets one vector on the way forward and one on the way
    back, and only what it does to these is drawn, given what is known: exact in law, in O(n).
    Source 001, §A.8, without its independence of the two ways; the law is derived here.

    Arguments:
        net, inputs, width, depth, draws, biases, seed: those of `sample`; m may be anything.
        loss: ∂E/∂z of the last layer: `squares`, `CrossEntropy(…)`, or another such function.

    Raises InputError as `sample` does, and for layers that vanish.

    >>> from derive import Orthogonal, activations
    >>> net = Network(activations.linear, Orthogonal(1))  # keeps lengths, both ways
    >>> back = backward(net, np.ones(20), 20, 3, 4, squares)
    >>> bool(np.allclose(back.K, 1) and np.allclose(back.delta, 1))
    True
    """
    drawing.check_biases(biases)
    if not callable(loss):
        raise InputError(
            "loss", loss, "a function such as squares, or CrossEntropy(labels, classes)"
        )
    ensemble = drawing.low_rank_ensemble(net, inputs, width, depth, seed)
    draws, seconds = drawing.checked_draws(ensemble, draws, 4)
    columns = len(Backward._fields)
    work = drawing.blocks(_there_and_back, ensemble, biases, str(net), draws, columns, loss=loss)
    rows = chunks.rows(work, chunks.Options(), drawing.what(ensemble, draws), seconds)
    return Backward(*np.moveaxis(rows, -1, 0).copy())


def _there_and_back(
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
    ensemble: Ensemble,
    biases: str,
    name: str,
    loss: Loss,
) -> Array:
    """`Backward` of a block of networks, all of which are drawn: (draws, depth, 4)."""
    own = (numbers[0] + np.arange(BLOCK)) % len(ensemble.inputs)
    layers = [Layer(*[ensemble.inputs[own]] * 3)]
    drawn, rows = [], []
    with drawing.silent():
        for layer in range(ensemble.depth):
            z, known = _forward(ensemble, layer, layers[-1].sigma, biases, rng)
            drawn.append(known)
            layers.append(_activated(ensemble, z))
        delta = loss(layers[-1], own, rng)
        for layer in range(ensemble.depth, 0, -1):
            z, below = layers[layer].z, layers[layer - 1]
            inside, down = _through(ensemble, layer - 1, below.sigma, drawn[layer - 1], delta, rng)
            means = [(a * b).mean(axis=1) for a, b in ((z, z), (delta, delta), (z, delta))]
            weights = (inside**2).sum(axis=1) * (below.sigma**2).sum(axis=1)
            rows.append(np.stack([*means, weights], axis=1))
            delta = below.slope * down
    found = np.stack(rows[::-1], axis=1)[: numbers.size]
    if not np.isfinite(found).all():
        raise InputError("net", name, "networks and inputs whose layers are not all zero")
    return found


class _Known(NamedTuple):
    """A layer's results of the forward pass: A σ, and C's unit vector e for the unit vector c."""

    coefficients: Array
    c: Array
    e: Array


def _forward(
    ensemble: Ensemble, layer: int, sigma: Array, biases: str, rng: np.random.Generator
) -> tuple[Array, _Known]:
    """z = C (A σ + b) + b', for one vector of each network."""
    inward, outward = ensemble.steps[layer]
    coefficients = drawing.applied(inward, sigma[:, None], rng)[:, 0]
    inner, outer, _ = drawing.biases_of(ensemble, layer, inward.size, biases, len(sigma), rng)
    moved = coefficients + inner[:, 0]
    length = _norm(moved)
    e = _unit(rng.standard_normal((len(sigma), outward.size)))
    return length * e + outer[:, 0], _Known(coefficients, moved / length, e)


def _through(
    ensemble: Ensemble,
    layer: int,
    sigma: Array,
    known: _Known,
    delta: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Cᵀδ and AᵀCᵀδ, given what went forward.

    C maps c to e, and the directions orthogonal to c to a uniform frame orthogonal to e: of what δ
    has there, a part with the square Beta((r − 1)/2, (n − r)/2) is kept, in a uniform direction.
    """
    inward, outward = ensemble.steps[layer]
    r, n = inward.size, outward.size
    along = (known.e * delta).sum(axis=1, keepdims=True)
    rest = _norm(delta - along * known.e)
    inside = along * known.c
    if r > 1:
        part = rng.beta((r - 1) / 2, (n - r) / 2, (len(delta), 1)) if r < n else 1.0
        inside = inside + rest * np.sqrt(part) * _orthogonal(rng, known.c)
    if inward.kind == lazy.GAUSSIAN:
        return inside, _back(sigma, known.coefficients, inside, inward.scale, rng)
    return inside, _back_frame(sigma, known.coefficients, inside, inward.scale, rng)


def _back(sigma: Array, image: Array, v: Array, scale: float, rng: np.random.Generator) -> Array:
    """Aᵀv for A with entries N(0, scale²), given A σ = image."""
    fresh = rng.standard_normal(sigma.shape)
    square = (sigma**2).sum(axis=1, keepdims=True)
    fresh -= sigma * ((sigma * fresh).sum(axis=1, keepdims=True) / square)
    along = sigma * ((image * v).sum(axis=1, keepdims=True) / square)
    return np.asarray(along + scale * _norm(v) * fresh)


def _back_frame(
    sigma: Array, image: Array, v: Array, scale: float, rng: np.random.Generator
) -> Array:
    """scale·B v for a uniform frame B, given scale·Bᵀσ = scale·y = image.

    With v = t y + v', B y is σ|y|²/|σ|² and, for the rest of its length |y|, orthogonal to σ;
    B v' is orthogonal to both.
    """
    y, square = image / scale, (sigma**2).sum(axis=1, keepdims=True)
    inner = (y**2).sum(axis=1, keepdims=True)
    t = (v * y).sum(axis=1, keepdims=True) / inner
    first = _orthogonal(rng, sigma / np.sqrt(square))
    across = np.sqrt(np.maximum(inner - inner**2 / square, 0.0))
    second = _orthogonal(rng, sigma / np.sqrt(square), first)
    along = t * (sigma * (inner / square) + across * first)
    return np.asarray(scale * (along + _norm(v - t * y) * second))


def _norm(x: Array) -> Array:
    return np.asarray(np.sqrt((x**2).sum(axis=1, keepdims=True)))


def _unit(x: Array) -> Array:
    return np.asarray(x / _norm(x))


def _orthogonal(rng: np.random.Generator, *directions: Array) -> Array:
    """Uniform unit vectors orthogonal to orthonormal ones, row by row."""
    x = rng.standard_normal(directions[0].shape)
    for each in directions:
        x -= each * (each * x).sum(axis=1, keepdims=True)
    return _unit(x)


def _activated(ensemble: Ensemble, z: Array) -> Layer:
    out = np.empty((1, 2, *z.shape))
    ensemble.activation(1, 2).differentiate(np.ascontiguousarray(z)[None], out)
    return Layer(z, out[0, 0], out[0, 1])
