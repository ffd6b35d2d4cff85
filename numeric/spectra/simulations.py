"""Jacobians of explicit random networks: singular values, and the moments of JJᵀ by layer.

Plain NumPy, every matrix built. The input is a random vector of the length that gives the first
preactivations the wanted variance; weights enter forward and in the Jacobian alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import sympy
import xarray

from derive.activations.functions import Activation, z
from derive.citations import rests_on
from derive.errors import InputError, flag, instance, listed, whole
from derive.network import Network
from derive.spectra.slopes import check_variance
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
    as_weights,
)
from derive.work.progress import telling
from derive.work.resources import check_memory, check_time, number

from .. import checks
from ..arrays import Array
from ..hyperparameters import hyperparameters
from ..random.lazy import singular_values, steps
from ..tables import layout as tables

MAX_MOMENTS = 8

_MATRICES = 8
"""Square ones, of what is held at a time."""
_LAYER, _ENTRY = 1e-4, 3e-10
"""Seconds that a layer takes: of Python's, and for each of width³ products."""


@rests_on("pennington2018")
def simulate(
    net: Network,
    q_first: float,
    width: int = 300,
    depth: int = 10,
    draws: int = 1,
    *,
    layers: Iterable[int] | None = None,
    moments: int = 2,
    zero_padded: bool = False,
    seed: int = 0,
) -> xarray.Dataset:
    """Sample J = Π_l D^l W^l of square networks (source 002, eq. 2).

    Arguments:
        net: the network; square layers, numbers for its parameters. `BiInvariant` weights are those
            of as many equally frequent singular values as there are moments, which must divide the
            width.
        q_first: the variance of the first preactivations, C_b of layer 1 or more.
        width: n, 2 or more; a draw takes O(n³) in each layer.
        depth: layers.
        draws: networks; with one there is no standard error.
        layers: the depths at which JJᵀ is looked at; the last alone, if not given.
        moments: how many of m_k = E tr (JJᵀ)^k/n, 1 to 8.
        zero_padded: take W = [U, 0] of source 001, §3.2, for `LowRankOrthogonal` weights: the
            same WᵀW, but not invariant on the right.
        seed: draw number d is the same whatever `draws` is.

    Returns `singular_values` (draw, neuron), descending, of J at the last layer; m1, m2, … by
    layer, with standard errors over the draws, if there are two or more, as m1_se, …; and what
    repeats it in the attributes.

    Raises InputError for what cannot be sampled, for Jacobians that overflow, and for what would
    take more memory than there is or longer than a day.

    >>> from derive import activations
    >>> net = Network(activations.linear, Orthogonal())  # J is orthogonal
    >>> table = simulate(net, 1.0, width=8, depth=3, draws=2)
    >>> table["singular_values"].shape, table["m2"].to_numpy().round(9)
    ((2, 8), array([1.]))
    """
    instance("net", net, Network, "a derive.Network")
    seed = checks.seed(seed)
    width, depth = whole("width", width, 2), whole("depth", depth, 1)
    draws, moments = checks.draws(draws, 1), whole("moments", moments, 1, MAX_MOMENTS)
    zero_padded = flag("zero_padded", zero_padded)
    shown = _layers(layers, depth)
    seconds = _check_cost(width, depth, draws, len(shown) * moments)
    per_layer = hyperparameters(net, depth, width, width)
    if (per_layer["r_out"] != 1).any():
        raise InputError("net", str(net), "layers of equal width")
    ensembles = [net.weights_at(layer, width) for layer in range(1, depth + 1)]
    biases = [float(net.C_b_at(layer, width)) for layer in range(1, depth + 1)]
    for ensemble in dict.fromkeys(ensembles):
        _check_ensemble(ensemble, width, zero_padded)
    spread = _first_variance(q_first) - biases[0]
    if spread < 0 or float(ensembles[0].C_W) == 0:
        raise InputError("q_first", q_first, f"a variance of at least C_b = {net.C_b_at(1)}")
    values = np.empty((draws, width))
    table = np.empty((draws, len(shown), moments))
    sigma, slope = _compiled(net.activation)
    what = f"sampling {number(draws)} Jacobians of width {number(width)}, depth {number(depth)}"
    with telling(what, seconds, draws) as told, np.errstate(over="ignore", invalid="ignore"):
        for draw in range(draws):
            rng = np.random.default_rng(np.random.SeedSequence([seed, draw]))
            J = np.eye(width)
            x = rng.standard_normal(width)
            x *= np.sqrt(width * spread / float(ensembles[0].C_W)) / np.linalg.norm(x)
            for layer in range(1, depth + 1):
                W = _drawn(ensembles[layer - 1], width, rng, zero_padded)
                h = W @ x + np.sqrt(biases[layer - 1]) * rng.standard_normal(width)
                J = slope(h)[:, None] * (W @ J)
                x = sigma(h)
                if layer in shown:
                    table[draw, shown.index(layer)] = _moments(J, moments)
                told.advance(1 / depth)
            if not (np.isfinite(table[draw]).all() and np.isfinite(J).all()):
                raise InputError("net", str(net), "Jacobians that do not overflow")
            values[draw] = np.linalg.svd(J, compute_uv=False)
    about: dict[str, int | float] = {
        "width": width,
        "depth": depth,
        "draws": draws,
        "blocks": draws,
        "seed": seed,
        "q_first": float(q_first),
        "zero_padded": int(zero_padded),
    }
    symbols = {name: column[np.array(shown) - 1] for name, column in per_layer.items()}
    arrays = _arrays(values, table)
    return tables.dataset(arrays, shown, about, net=net, symbols=symbols)


def weight_matrix(
    weights: WeightEnsemble, n: int, rng: np.random.Generator, *, zero_padded: bool = False
) -> Array:
    """A square W with E[W_ij²] = C_W/n (source 000, eq. 3.2), drawn from its ensemble.

    Arguments:
        weights: the ensemble, one of `derive.weights`, with numbers for its parameters.
        n: the width, at which its rank is a whole number.
        rng: NumPy's generator, which it advances.
        zero_padded: of `LowRankOrthogonal` weights [U, 0] (source 001, §3.2) instead of U Vᵀ.

    Raises InputError for an ensemble that cannot be sampled, or not at this width.

    >>> W = weight_matrix(Orthogonal(2), 3, np.random.default_rng(0))
    >>> bool(np.allclose(W.T @ W, 2 * np.eye(3)))
    True
    """
    weights, n = as_weights("weights", weights), whole("n", n, 1)
    instance("rng", rng, np.random.Generator, "a generator, such as numpy.random.default_rng(0)")
    zero_padded = flag("zero_padded", zero_padded)
    check_memory("n", n, _MATRICES * 8 * n**2, f"matrices of {number(n)} rows")
    _check_ensemble(weights, n, zero_padded)
    return _drawn(weights, n, rng, zero_padded)


def _drawn(weights: WeightEnsemble, n: int, rng: np.random.Generator, zero_padded: bool) -> Array:
    """A matrix of an ensemble that was checked."""
    C = float(weights.C_W)
    match weights:
        case Gaussian():
            return float(np.sqrt(C / n)) * rng.standard_normal((n, n))
        case Orthogonal():
            return float(np.sqrt(C)) * _frame(n, n, rng)
        case LowRankOrthogonal():
            rank = round(float(weights.gamma) * n)
            U = float(np.sqrt(C * n / rank)) * _frame(n, rank, rng)
            if zero_padded:
                return np.concatenate([U, np.zeros((n, n - rank))], axis=1)
            return np.asarray(U @ _frame(n, rank, rng).T)
        case LowRankGaussian():
            rank = round(float(weights.gamma) * n)
            A = float(np.sqrt(C / rank)) * rng.standard_normal((rank, n))
            return np.asarray(_frame(n, rank, rng) @ A)
        case Truncated():
            size = round(float(weights.ratio) * n)
            return float(np.sqrt(C * size / n)) * _frame(size, n, rng)[:n]
        case BiInvariant():
            squares = np.resize(singular_values(weights, n, n), n)
            S = np.sqrt(squares * C)
            return np.asarray((_frame(n, n, rng) * S) @ _frame(n, n, rng).T)
    raise InputError("weights", str(weights), "an ensemble that can be sampled")


def _layers(layers: Iterable[int] | None, depth: int) -> list[int]:
    """The layers to look at, ascending."""
    if layers is None:
        return [depth]
    wanted = f"layers among 1 … {depth}"
    shown = {whole("layers", each, 1, depth, wanted) for each in listed("layers", layers, wanted)}
    if not shown:
        raise InputError("layers", layers, wanted)
    return sorted(shown)


def _first_variance(q_first: object) -> float:
    """The variance of the first preactivations, a number."""
    variance = check_variance("q_first", q_first)
    if not variance.is_number:
        raise InputError("q_first", q_first, "a number, not a symbol")
    return float(variance)


def _check_cost(width: int, depth: int, draws: int, columns: int) -> float:
    """The seconds that sampling takes, roughly; InputError for more than the machine holds."""
    held = 8 * draws * (width + columns) + 2000 * depth
    held += _MATRICES * 8 * width**2
    what = f"{number(draws)} Jacobians of width {number(width)}, depth {number(depth)}"
    got = width, depth, draws
    check_memory("width, depth, draws", got, held, what)
    seconds = draws * (depth + 2) * (_LAYER + _ENTRY * width**3)
    check_time("width, depth, draws", got, seconds, what)
    return seconds


def _check_ensemble(weights: WeightEnsemble, n: int, zero_padded: bool) -> None:
    """InputError for an ensemble that has no square matrices of n rows."""
    if zero_padded and not isinstance(weights, LowRankOrthogonal):
        raise InputError("zero_padded", zero_padded, "LowRankOrthogonal weights")
    ratio = sympy.sympify(weights.ratio) if isinstance(weights, Truncated) else sympy.S.Zero
    if ratio.is_number:
        size = int(ratio * n)
        check_memory("weights", str(weights), 8 * 2 * size * n, f"a frame of {number(size)} rows")
    steps(weights, n, n)


def _frame(n: int, columns: int, rng: np.random.Generator) -> Array:
    Q, R = np.linalg.qr(rng.standard_normal((n, columns)))
    return np.asarray(Q * np.where(np.diag(R) < 0, -1.0, 1.0))


def _moments(J: Array, count: int) -> Array:
    """(1/n) tr (JJᵀ)^k, k = 1 … count."""
    gram = J @ J.T
    n, found, power = len(J), [], gram
    for k in range(1, count + 1):
        if k > 1:
            power = power @ gram
        found.append(np.trace(power) / n)
    return np.array(found)


@cache
def _compiled(activation: Activation) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    value, slope = (
        sympy.lambdify(z, activation.derivative(order), ["scipy", "numpy"]) for order in (0, 1)
    )
    return value, lambda h: np.broadcast_to(np.asarray(slope(h), float), h.shape)


def _arrays(values: Array, moments: Array) -> dict[str, xarray.Variable]:
    """From singular values (draws, width) and moments (draws, layers, k)."""
    draws = len(values)
    singular = {"long_name": "singular values of J at the last layer, descending"}
    arrays = {"singular_values": xarray.Variable(("draw", "neuron"), values, singular)}
    for k, each in enumerate(np.moveaxis(moments, 2, 0), 1):
        about = {"long_name": f"mean of (1/n) tr (J Jᵀ)^{k}"}
        arrays[f"m{k}"] = xarray.Variable("layer", each.mean(axis=0), about)
        if draws > 1:
            error = each.std(axis=0, ddof=1) / np.sqrt(draws)
            arrays[f"m{k}_se"] = xarray.Variable("layer", error)
    return arrays
