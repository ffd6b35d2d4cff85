"""The low-rank networks of source 001, sampled: lengths, correlations and gradients by layer.

A layer of rank r = γ n is z = C (A σ + b), C a uniform frame of r orthonormal columns, A Gaussian
or a frame itself, such that E[W_ij²] = C_W/n. The biases are of one of three kinds, each of which
adds the variance C_b = γ σ_b² to a neuron:

    "neuron"      z = C A σ + b, one b_i for every neuron: the engine's, and `simulate`'s
    "direction"   one b_k ~ N(0, σ_b²) for every kept direction, so that z stays in the range of C
    "layer"       one b ~ N(0, σ_b²) for all directions, as source 001 prints it (A.2)

With the last a layer's length tends to γ (σ_α² ⟨σσ⟩ + b²): r copies of one number do not average
out, so that lengths and correlations stay random at any width (`given_biases`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike, NDArray

from derive.citations import rests_on
from derive.engine.tensors import named
from derive.errors import InputError, listed, whole
from derive.network import Network, dense_network
from derive.weights import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    WeightEnsemble,
)
from derive.work.progress import telling
from derive.work.resources import check_memory, check_time, number

from .. import checks
from ..arrays import Array
from ..checks import checked_inputs
from ..hyperparameters import hyperparameters
from ..layers import pairs
from ..random import lazy
from ..runs import chunks
from ..runs.totals import Rows
from ..runs.work import Work
from ..samplers.ensemble import Ensemble, checked_ensemble
from ..tables import layout

BIASES = ("neuron", "direction", "layer")
"""The kinds of biases."""

BLOCK = 32
"""Draws that share a stream of random numbers."""

_FINITE = "networks and inputs whose layers do not overflow"
_ARRAYS = 6
"""As large as a layer of a block, of what is held at a time."""
_LAYER, _ENTRY = 2e-4, 5e-8
"""Seconds that a layer of a block takes, and for each of its neurons."""


class Sample(NamedTuple):
    """What every network of an ensemble had.

    Attributes:
        K: z zᵀ/n, (draws, depth, m, m).
        b: b_ℓ of the biases "layer", (draws, depth), and None of the others.
    """

    K: Array
    b: Array | None


def sample(
    net: Network,
    inputs: ArrayLike,
    width: int,
    depth: int,
    draws: int,
    *,
    biases: str = "neuron",
    seed: int = 0,
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Sample:
    """Draw networks, with weights that meet only the vectors they are applied to; exact in law.

    Source 001, appendix A.2, with C_W = γ σ_α² and C_b = γ σ_b²; the sampler is derived here.

    Arguments:
        net: a network of full or low rank, Gaussian or orthogonal.
        inputs: (n_0,) or (m, n_0), m at most the rank; n_0 at least that of orthogonal weights.
        width: n, at which every rank γ n is a whole number.
        depth: layers.
        draws: networks.
        biases: one of `BIASES`.
        seed: 0 … 2^64 − 1; draw number d is the same whatever `draws` is.
        executor, window, run, progress: those of `numeric.simulate`: where chunks of networks are
            sampled, how many are under way, a directory that keeps what is finished, resumes and
            extends, and a bar.

    Raises InputError for other ensembles, for a rank that is no whole number, and for a directory
    of another run.

    >>> from derive import activations
    >>> net = Network(activations.tanh, LowRankGaussian(1, gamma=0.5), C_b=0.1)
    >>> K, b = sample(net, [1.0, 0.5], width=20, depth=3, draws=4, biases="layer")
    >>> K.shape, b.shape
    ((4, 3, 1, 1), (4, 3))
    """
    _check_biases(biases)
    options = chunks.Options(executor, window, run, progress)
    ensemble = _low_rank_ensemble(net, inputs, width, depth, seed)
    depth, m, ranks = ensemble.depth, len(ensemble.inputs), _ranks(ensemble)
    if m > min(ranks):
        raise InputError("inputs", f"{m} vectors", f"at most the rank, {min(ranks)}")
    columns = 2 * (m * m + 1) if biases == "layer" else m * m  # K is copied from beside b
    draws, seconds = _checked_draws(ensemble, draws, columns, options.kept)
    work = _Forward(ensemble, biases, str(net), draws)
    rows = chunks.total(work, draws, options, _what(ensemble, draws), seconds)[0].arrays()["rows"]
    K = rows[..., : m * m].reshape(draws, depth, m, m)
    return Sample(K, rows[..., -1].copy() if biases == "layer" else None)


@dataclass(frozen=True, eq=False)
class _Forward(Work):
    """K of every network and layer, and the one bias, of the biases "layer".

    Arguments:
        ensemble: the networks, their weights written as of low rank.
        biases: one of `BIASES`.
        name: what the network is called.
        draws: how many are asked for.
    """

    ensemble: Ensemble
    biases: str
    name: str
    draws: int

    @property
    def chunk(self) -> int:
        """Whole blocks, a power of two of them: about a second's work, 1024 draws or fewer."""
        affordable = max(1, int(1 / _block_seconds(self.ensemble)))
        return BLOCK * min(1024 // BLOCK, 1 << (affordable.bit_length() - 1))

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, depth, m² and one for the bias)."""
        columns = len(self.ensemble.inputs) ** 2 + (self.biases == "layer")
        return draws, self.ensemble.depth, columns

    def total(self) -> Rows:
        """All draws, one below the other."""
        return Rows(np.empty(self.shape(self.draws)))

    def manifest(self) -> dict[str, Any]:
        """The ensemble, and its biases."""
        own = {"sampler": "propagation", "biases": self.biases, "chunk": self.chunk}
        return {**self.ensemble.manifest(), **own, "block": BLOCK, "generator": "SFC64"}

    def sums(
        self,
        start: int,
        stop: int,
        reference: Array,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> Array:
        """K and b of these draws; `start` begins a block."""
        ensemble, m, ranks = self.ensemble, len(self.ensemble.inputs), _ranks(self.ensemble)
        found = np.empty(self.shape(stop - start))
        with _silent():
            for first in range(start, stop, BLOCK):
                size, rng = min(BLOCK, stop - first), _stream(ensemble, first // BLOCK)
                rows = found[first - start : first - start + size]
                sigma = np.broadcast_to(ensemble.inputs, (BLOCK, *ensemble.inputs.shape))
                for layer in range(ensemble.depth):
                    z, drawn = _layer(ensemble, layer, ranks[layer], sigma, self.biases, rng)
                    K = z @ z.transpose(0, 2, 1) / z.shape[2]
                    rows[:, layer, : m * m] = K[:size].reshape(size, m * m)
                    if self.biases == "layer":
                        rows[:, layer, -1] = drawn[:size]
                    sigma = np.ascontiguousarray(z)
                    ensemble.activate(sigma)
        if not np.isfinite(found).all():
            raise InputError("net", self.name, _FINITE)
        return found


@rests_on("naitsaada2023", "salmon2011")
def simulate(
    net: Network,
    inputs: ArrayLike,
    width: int,
    depth: int,
    draws: int,
    *,
    biases: str = "neuron",
    seed: int = 0,
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """The mean of K = z·z/n with its standard error, in the layout of `numeric.simulate`.

    Arguments:
        net, inputs, width, depth, biases, seed: those of `sample`, whose networks these are.
        executor, window, run, progress: those of `sample`, too: both can take up one run.
        draws: networks, 2 or more.

    Returns:
        `K` and `K_se` with axes `layer` (1 … depth) and, unless inputs is one vector, `sample_1`,
        `sample_2`; what repeats it in the attributes. At infinite width, and not with the biases
        "layer", K obeys source 001, eqs. (3) and (5).

    Raises InputError as `sample` does.

    >>> from derive import activations
    >>> net = Network(activations.linear, LowRankOrthogonal(1, gamma=0.5))
    >>> found = simulate(net, np.ones(20), width=20, depth=2, draws=200)
    >>> found["K"].dims, bool((abs(found["K"] - 1) < 5 * found["K_se"]).all())
    (('layer',), True)
    """
    draws, data = checks.draws(draws, 2), checked_inputs(inputs)
    K, _ = sample(
        net,
        data.given,
        width,
        depth,
        draws,
        biases=biases,
        seed=seed,
        executor=executor,
        window=window,
        run=run,
        progress=progress,
    )
    (mean, error), about_K = layout.averaged(K), layout.described(named("K"))
    arrays = {
        "K": layout.variable(mean, 2, single=data.single, about=about_K),
        "K_se": layout.variable(error, 2, single=data.single),
    }
    about: dict[str, int | str] = {
        "width": int(width),
        "draws": draws,
        "blocks": draws,
        "biases": biases,
        "seed": int(seed),
    }
    return layout.dataset(
        arrays,
        range(1, depth + 1),
        about,
        net=net,
        inputs=data.given,
        symbols=hyperparameters(net, depth, data.X.shape[1], width),
    )


def given_biases(net: Network, inputs: ArrayLike, b: ArrayLike) -> Array:
    """K of every layer at infinite width, given the one bias b_ℓ of each: (draws, depth, m, m).

        q_ab' = γ (σ_α² ⟨σ_a σ_b⟩ + b_ℓ²),

    source 001, (3) and (5), with b_ℓ² for σ_b². Derived here: C z is isotropic for any z, so its
    entries are Gaussian with the covariance z·z/n, in which b² of the sum over directions stays.

    Arguments:
        net: the network, of full or low rank, Gaussian or orthogonal; γ σ_α² is its C_W.
        inputs: (n_0,) or (m, n_0).
        b: (draws, depth), as `sample` returns it.

    Raises InputError for other networks, for symbols in them, and for other arrays.

    >>> from derive import activations
    >>> given_biases(Network(activations.linear), [2.0, 2.0], b=[[1.0, 3.0]]).ravel()
    array([ 5., 14.])
    """
    wanted = "finite numbers of shape (draws, depth)"
    try:
        drawn = np.atleast_2d(np.asarray(b, float))
    except (TypeError, ValueError):
        raise InputError("b", b, wanted) from None
    if np.ma.isMaskedArray(b) or drawn.ndim != 2 or not drawn.size or not np.isfinite(drawn).all():
        raise InputError("b", b, wanted)
    draws, depth = drawn.shape
    written, X = _written(net), checked_inputs(inputs).X
    written.check_inputs(X.shape[1])
    C_W = hyperparameters(written, depth, X.shape[1], None)["C_W"]
    laws = (_low_rank(written.weights_at(layer)) for layer in range(1, depth + 1))
    gammas = [sympy.sympify(law.gamma) for law in laws]
    if not all(gamma.is_number for gamma in gammas):
        raise InputError("net", str(net), "a network whose γ is a number")
    K = np.empty((draws, depth, len(X), len(X)))
    below = np.broadcast_to(X @ X.T / X.shape[1], (draws, len(X), len(X)))
    with telling("averages at every draw", total=depth) as told, _silent():
        for layer in range(depth):
            second = below if layer == 0 else pairs.averages(net.activation, below)
            own = float(gammas[layer]) * drawn[:, layer, None, None] ** 2
            K[:, layer] = below = C_W[layer] * second + own
            told.advance()
    if not np.isfinite(K).all():
        raise InputError("b", b, _FINITE)
    return K


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
        classes = whole("classes", self.classes, 1)
        wanted = f"a class, 0 to {classes - 1}, for each input"
        given = listed("labels", self.labels, wanted)
        labels = tuple(whole("labels", each, 0, classes - 1, wanted) for each in given)
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

    >>> from derive import activations
    >>> net = Network(activations.linear, Orthogonal(1))  # keeps lengths, both ways
    >>> back = backward(net, np.ones(20), 20, 3, 4, squares)
    >>> bool(np.allclose(back.K, 1) and np.allclose(back.delta, 1))
    True
    """
    _check_biases(biases)
    if not callable(loss):
        raise InputError(
            "loss", loss, "a function such as squares, or CrossEntropy(labels, classes)"
        )
    ensemble = _low_rank_ensemble(net, inputs, width, depth, seed)
    draws, seconds = _checked_draws(ensemble, draws, 4)
    work = _Back(ensemble, biases, str(net), draws, loss)
    what = _what(ensemble, draws)
    rows = chunks.total(work, draws, chunks.Options(), what, seconds)[0].arrays()["rows"]
    return Backward(*np.moveaxis(rows, -1, 0).copy())


@dataclass(frozen=True, eq=False)
class _Back(_Forward):
    """What `Backward` has of every network and layer.

    Arguments:
        loss: ∂E/∂z of the last layer.
    """

    loss: Loss

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, depth, 4)."""
        return draws, self.ensemble.depth, len(Backward._fields)

    @property
    def told(self) -> bool:
        """A loss of the user's own may be anything."""
        return self.loss is squares or type(self.loss) is CrossEntropy

    def manifest(self) -> dict[str, Any]:
        """The ensemble, its biases, and the loss."""
        loss = repr(self.loss) if isinstance(self.loss, CrossEntropy) else "squares"
        return {**super().manifest(), "sampler": "propagation back", "loss": loss}

    def sums(
        self,
        start: int,
        stop: int,
        reference: Array,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> Array:
        """Forward and back through these draws; `start` begins a block."""
        found = np.empty(self.shape(stop - start))
        with _silent():
            for first in range(start, stop, BLOCK):
                rows = found[first - start : first - start + BLOCK]
                rows[:] = self._block(first // BLOCK)[: len(rows)]
        if not np.isfinite(found).all():
            raise InputError("net", self.name, "networks and inputs whose layers are not all zero")
        return found

    def _block(self, block: int) -> Array:
        """A whole block, (BLOCK, depth, 4)."""
        ensemble, rng = self.ensemble, _stream(self.ensemble, block)
        own = np.arange(block * BLOCK, (block + 1) * BLOCK) % len(ensemble.inputs)
        layers = [Layer(*[ensemble.inputs[own]] * 3)]
        drawn = []
        for layer in range(ensemble.depth):
            z, known = _forward(ensemble, layer, layers[-1].sigma, self.biases, rng)
            drawn.append(known)
            layers.append(_activated(ensemble, z))
        delta = self.loss(layers[-1], own, rng)
        found = np.empty(self.shape(BLOCK))
        for layer in range(ensemble.depth, 0, -1):
            z, below = layers[layer].z, layers[layer - 1]
            inside, down = _through(ensemble, layer - 1, below.sigma, drawn[layer - 1], delta, rng)
            n = z.shape[1]
            found[:, layer - 1, 0] = (z**2).sum(axis=1) / n
            found[:, layer - 1, 1] = (delta**2).sum(axis=1) / n
            found[:, layer - 1, 2] = (z * delta).sum(axis=1) / n
            found[:, layer - 1, 3] = (inside**2).sum(axis=1) * (below.sigma**2).sum(axis=1)
            delta = below.slope * down
        return found


class _Known(NamedTuple):
    """What the forward pass told of a layer: A σ, and C's unit vector e for the unit vector c."""

    coefficients: Array
    c: Array
    e: Array


def _forward(
    ensemble: Ensemble, layer: int, sigma: Array, biases: str, rng: np.random.Generator
) -> tuple[Array, _Known]:
    """z = C (A σ + b) + b', for one vector of each network."""
    inward, outward = ensemble.steps[layer]
    coefficients = _applied(inward, sigma[:, None], rng)[:, 0]
    inner, outer, _ = _biases(ensemble, layer, inward.size, biases, len(sigma), rng)
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


def _check_biases(biases: str) -> None:
    if not isinstance(biases, str) or biases not in BIASES:
        raise InputError("biases", biases, f"one of {', '.join(BIASES)}")


def _low_rank_ensemble(
    net: Network, inputs: ArrayLike, width: int, depth: int, seed: int
) -> Ensemble:
    """The ensemble, its weights written as of low rank, of full rank too."""
    return checked_ensemble(_written(net), inputs, width, depth, seed)


def _written(net: Network) -> Network:
    """The network with weights of low rank, of full rank too."""
    net = dense_network("net", net)
    first = None if net.first_weights is None else _low_rank(net.first_weights)
    return replace(net, weights=_low_rank(net.weights), first_weights=first)


def _low_rank(ensemble: WeightEnsemble) -> LowRankGaussian | LowRankOrthogonal:
    match ensemble:
        case LowRankGaussian() | LowRankOrthogonal():
            return ensemble
        case Gaussian():
            return LowRankGaussian(ensemble.C_W, gamma=1)
        case Orthogonal():
            return LowRankOrthogonal(ensemble.C_W, gamma=1)
    raise InputError("weights", str(ensemble), "Gaussian or orthogonal ones, of full or low rank")


def _checked_draws(
    ensemble: Ensemble, draws: object, columns: int, kept: bool = False
) -> tuple[int, float]:
    """How many draws, and the seconds that they take, roughly; InputError for too many.

    What is kept may take more than a day.
    """
    count, depth = checks.draws(draws, 1), ensemble.depth
    check_memory("draws", draws, 8 * count * depth * columns, _what(ensemble, count))
    held = 8 * _ARRAYS * BLOCK * len(ensemble.inputs) * max(ensemble.widths)
    check_memory("width", ensemble.width, held, f"layers of {number(ensemble.width)} neurons")
    seconds = -(-count // BLOCK) * _block_seconds(ensemble)
    if not kept:
        check_time("draws", draws, seconds, _what(ensemble, count))
    return count, seconds


def _block_seconds(ensemble: Ensemble) -> float:
    """How long a block of draws takes, roughly."""
    entries = BLOCK * len(ensemble.inputs) * max(ensemble.widths)
    return ensemble.depth * (_LAYER + _ENTRY * entries)


def _what(ensemble: Ensemble, draws: int) -> str:
    return f"sampling {number(draws)} networks of width {number(ensemble.width)}"


def _silent() -> np.errstate:
    """What overflows is looked for, and refused."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _ranks(ensemble: Ensemble) -> list[int]:
    return [steps[0].size for steps in ensemble.steps]


def _stream(ensemble: Ensemble, block: int) -> np.random.Generator:
    """Random numbers for a block of draws, whatever the other blocks use.

    They are most of the work, and of NumPy's generators SFC64 is the fastest.
    """
    seed = np.random.SeedSequence([*(int(word) for word in ensemble.key), block])
    return np.random.Generator(np.random.SFC64(seed))


def _layer(
    ensemble: Ensemble,
    layer: int,
    rank: int,
    sigma: Array,
    biases: str,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """z of one layer from (BLOCK, m, n_in), and the one bias of each draw."""
    inward, outward = ensemble.steps[layer]
    inner, outer, drawn = _biases(ensemble, layer, rank, biases, len(sigma), rng)
    return _applied(outward, _applied(inward, sigma, rng) + inner, rng) + outer, drawn


def _biases(
    ensemble: Ensemble,
    layer: int,
    rank: int,
    biases: str,
    draws: int,
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """What is added to the coefficients (draws, 1, r), to the neurons (draws, 1, n), and b."""
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


def _applied(step: lazy.Step, X: Array, rng: np.random.Generator) -> Array:
    """F Xᵀ, transposed, for a factor F of its own for each draw: (draws, m, n) → (draws, m, size).

    Only the Gram matrix of the vectors matters: F Xᵀ = F' (X Xᵀ)^{1/2}, with F' on an orthonormal
    basis, m Gaussian vectors or m of a uniform frame.
    """
    draws, m, _ = X.shape
    gram = X @ X.transpose(0, 2, 1)
    if not np.isfinite(gram).all():
        raise InputError("inputs", "lengths that overflow", _FINITE)
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


def _activated(ensemble: Ensemble, z: Array) -> Layer:
    out = np.empty((1, 2, *z.shape))
    ensemble.activation(2).differentiate(np.ascontiguousarray(z)[None], out)
    return Layer(z, out[0, 0], out[0, 1])
