"""Draws of both ways through the networks of source 001: layers of low rank, in blocks.

A layer of rank r = γ n is z = C (A σ + b), C a uniform frame of r orthonormal columns, A Gaussian
or a frame itself. A weight matrix is met only by the vectors that it is applied to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from derivations.moments.blocks import Blocks
from derive.errors import InputError
from derive.network import Network, dense_network
from derive.weights import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    WeightEnsemble,
)
from derive.work.resources import check_memory, check_time, number
from numeric import checks
from numeric.arrays import Array
from numeric.random import lazy
from numeric.samplers.ensemble import Ensemble, checked_ensemble

BIASES = ("neuron", "direction", "layer")
"""The kinds of biases."""

BLOCK = 32
"""Draws that share a stream of random numbers."""

FINITE = "networks and inputs whose layers do not overflow"
_ARRAYS = 6
"""As large as a layer of a block, of what is held at a time."""
_LAYER, _ENTRY = 2e-4, 5e-8
"""Seconds that a layer of a block takes, and for each of its neurons."""


def check_biases(biases: str) -> None:
    """InputError for what is none of `BIASES`."""
    if not isinstance(biases, str) or biases not in BIASES:
        raise InputError("biases", biases, f"one of {', '.join(BIASES)}")


def low_rank_ensemble(
    net: Network, inputs: ArrayLike, width: int, depth: int, seed: int
) -> Ensemble:
    """The ensemble, its weights written as of low rank, of full rank too."""
    return checked_ensemble(written(net), inputs, width, depth, seed)


def written(net: Network) -> Network:
    """The network with weights of low rank, of full rank too."""
    net = dense_network("net", net)
    first = low_rank(net.weights_at(1))
    return replace(net, weights=low_rank(net.one_law("propagation")), first_weights=first)


def low_rank(ensemble: WeightEnsemble) -> LowRankGaussian | LowRankOrthogonal:
    """These weights, written as of low rank; InputError for others than Gaussian or orthogonal."""
    match ensemble:
        case LowRankGaussian() | LowRankOrthogonal():
            return ensemble
        case Gaussian():
            return LowRankGaussian(ensemble.C_W, gamma=1)
        case Orthogonal():
            return LowRankOrthogonal(ensemble.C_W, gamma=1)
    raise InputError("weights", str(ensemble), "Gaussian or orthogonal ones, of full or low rank")


def checked_draws(
    ensemble: Ensemble, draws: object, columns: int, kept: bool = False
) -> tuple[int, float]:
    """How many draws, and the seconds that they take, roughly; InputError for too many.

    What is kept may take more than a day.
    """
    count, depth = checks.draws(draws, 1), ensemble.depth
    check_memory("draws", draws, 8 * count * depth * columns, what(ensemble, count))
    held = 8 * _ARRAYS * BLOCK * len(ensemble.inputs) * max(ensemble.widths)
    check_memory("width", ensemble.width, held, f"layers of {number(ensemble.width)} neurons")
    seconds = -(-count // BLOCK) * block_seconds(ensemble)
    if not kept:
        check_time("draws", draws, seconds, what(ensemble, count))
    return count, seconds


def block_seconds(ensemble: Ensemble) -> float:
    """How long a block of draws takes, roughly."""
    entries = BLOCK * len(ensemble.inputs) * max(ensemble.widths)
    return ensemble.depth * (_LAYER + _ENTRY * entries)


def what(ensemble: Ensemble, draws: int) -> str:
    """The work in progress, in words."""
    return f"sampling {number(draws)} networks of width {number(ensemble.width)}"


def silent() -> np.errstate:
    """Ignore overflows here: they are looked for, and refused."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def ranks(ensemble: Ensemble) -> list[int]:
    """r of each layer."""
    return [steps[0].size for steps in ensemble.steps]


def blocks(
    draw: Callable[..., Array],
    ensemble: Ensemble,
    biases: str,
    name: str,
    draws: int,
    columns: int,
    **more: object,
) -> Blocks:
    """Rows (depth, columns) of these networks; the random numbers are most of the work.

    A chunk has a power of two of blocks: about a second's work, 1024 draws or fewer.
    """
    affordable = max(1, int(1 / block_seconds(ensemble)))
    given = {"ensemble": ensemble, "biases": biases, "name": name, **more}
    key, *labels = map(int, ensemble.key)
    return Blocks(
        draw, given, (ensemble.depth, columns), draws, key, tuple(labels), BLOCK,
        min(1024 // BLOCK, 1 << (affordable.bit_length() - 1)),
    )  # fmt: skip


def layer(
    ensemble: Ensemble,
    layer: int,
    rank: int,
    sigma: Array,
    biases: str,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """z of one layer from (BLOCK, m, n_in), and the one bias of each draw."""
    inward, outward = ensemble.steps[layer]
    inner, outer, drawn = biases_of(ensemble, layer, rank, biases, len(sigma), rng)
    return applied(outward, applied(inward, sigma, rng) + inner, rng) + outer, drawn


def biases_of(
    ensemble: Ensemble,
    layer: int,
    rank: int,
    biases: str,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """The biases added to the coefficients (draws, 1, r), to the neurons (draws, 1, n), and b."""
    C_b, n = ensemble.C_b[layer], ensemble.widths[layer + 1]
    inner, outer = np.zeros((draws, 1, rank)), np.zeros((draws, 1, n))
    drawn = np.zeros(draws)
    if biases == "neuron":
        outer = np.sqrt(C_b) * rng.standard_normal(outer.shape)
    elif biases == "direction":
        inner = np.sqrt(C_b * n / rank) * rng.standard_normal(inner.shape)
    else:
        drawn = np.sqrt(C_b * n / rank) * rng.standard_normal(draws)
        inner = inner + drawn[:, None, None]
    return inner, outer, drawn


def applied(step: lazy.Step, X: Array, rng: np.random.Generator) -> Array:
    """F Xᵀ, transposed, for a factor F of its own for each draw: (draws, m, n) → (draws, m, size).

    Only the Gram matrix of the vectors matters: F Xᵀ = F' (X Xᵀ)^{1/2}, with F' on an orthonormal
    basis, m Gaussian vectors or m of a uniform frame.
    """
    draws, m, _ = X.shape
    gram = X @ X.transpose(0, 2, 1)
    if not np.isfinite(gram).all():
        raise InputError("inputs", "lengths that overflow", FINITE)
    length, directions = np.linalg.eigh(gram)
    root = (directions * np.sqrt(np.maximum(length, 0.0))[:, None]) @ directions.transpose(0, 2, 1)
    if step.kind == lazy.GAUSSIAN:
        basis = rng.standard_normal((draws, m, step.size))
    else:
        normal = rng.standard_normal((draws, m, step.big))
        square, axes = np.linalg.eigh(normal @ normal.transpose(0, 2, 1))
        inverse = (axes / np.sqrt(square)[:, None]) @ axes.transpose(0, 2, 1)
        basis = (inverse @ normal)[:, :, : step.size]
    return np.asarray(step.scale * (root @ basis))
