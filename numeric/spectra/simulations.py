"""Jacobians of explicit random networks: singular values, and the moments of JJᵀ by layer.

Plain NumPy, every matrix built. The input is a random vector of the length that gives the first
preactivations the wanted variance; weights enter forward and in the Jacobian alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import sympy
import xarray

from derive.activations.functions import Activation, z
from derive.citations import rests_on
from derive.errors import InputError, as_integer, as_sequence, flag, instance
from derive.network import Network, dense_network
from derive.spectra.slopes import check_variance
from derive.weights import LowRankOrthogonal, Truncated, WeightEnsemble, as_weights
from derive.work.caches import cache
from derive.work.resources import check_memory, check_time, number

from .. import checks
from ..arrays import Array
from ..brackets.functions import select
from ..hyperparameters import hyperparameters
from ..random import matrices
from ..random.lazy import steps
from ..runs import chunks
from ..runs.work import RowsWork, Sharing
from ..tables import layout as tables
from . import innovations as innovating
from . import tilting
from .products import Jacobian
from .tilting import Tilt

MAX_MOMENTS = 8

_SELECT = {"select": select}

_MATRICES = 8
"""Square ones, of what is held at a time."""
_LAYER, _ENTRY = 1e-4, 3e-10
"""Seconds that a layer takes: of Python's, and for each of width³ products."""


class Sampling(chunks.Running, total=False):
    """The keyword arguments of `simulate` that choose the law that is drawn from, and `Running`."""

    zero_padded: bool
    importance: bool
    innovations: bool


_FLAGS = "zero_padded", "importance", "innovations"


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
    singular_values: bool = True,
    seed: int = 0,
    **sampling: Unpack[Sampling],
) -> xarray.Dataset:
    """Sample J = D^L W^L … D^1 W^1 of square networks (source 002, eq. 2).

    Arguments:
        net: the network; square dense layers, which may have activations and laws of their own;
            numbers for its parameters. `BiInvariant` weights are those of as many equally frequent
            singular values as there are moments, which must divide the width.
        q_first: the variance of the first preactivations, C_b of layer 1 or more.
        width: n, 2 or more; a draw takes O(n³) in each layer.
        depth: L, layers of preactivations, counted from 1. J = ∂φ(z^L)/∂x has as many factors as
            `spectra.jacobian` at this depth; the ∂z^L/∂z^1 of `of_network` has one less.
        draws: networks; with one there is no standard error.
        layers: the depths at which JJᵀ is looked at; the last alone, if not given.
        moments: how many of m_k = E tr (JJᵀ)^k/n, 1 to 8.
        singular_values: whether they are wanted: without, a third of the time of few layers is
            saved.
        zero_padded: take W = [U, 0] of source 001, §3.2, for `LowRankOrthogonal` weights: the
            same WᵀW, but not invariant on the right.
        importance: draw networks as often as their m_k counts, with weights that make up for it
            (`tilting`): of the tails of m_k little is left. At rank n/4 and six layers the variance
            of m_2 is a tenth. Singular values are of what is drawn.
        innovations: record what each layer adds to chance with a mean that is known to be zero
            (`innovations`), for `numeric.estimators.controls.controlled`, to which
            `numeric.spectra.innovations.columns` gives as many as the draws afford. Not with
            `importance`, whose law gives them other means.
        seed: draw number d is the same whatever `draws` is.
        executor, window, run, progress: those of `numeric.simulate`: where chunks of networks are
            sampled, how many are under way, a directory that keeps what is finished, resumes and
            extends, and a bar. The bits are those of workers whose BLAS is the same.

    Returns `singular_values` (draw, neuron), descending, of J at the last layer, if wanted; m1,
    m2, … by layer, with standard errors over the draws, if there are two or more, as m1_se, …; with
    `importance` the `weight` (draw, layer) of what is seen of a network at a layer; `innovations`
    (draw, innovation), those of layer 1, 2, … to the last in their order; and what repeats it in
    the attributes.

    Raises InputError for what cannot be sampled, for Jacobians that overflow, for a directory of
    another run, and for what would take more memory than there is or, without run or executor,
    longer than a day.

    >>> from derive import Orthogonal, activations
    >>> net = Network(activations.linear, Orthogonal())  # J is orthogonal
    >>> table = simulate(net, 1.0, width=8, depth=3, draws=2)
    >>> table["singular_values"].shape, table["m2"].to_numpy().round(9)
    ((2, 8), array([1.]))
    """
    options = chunks.options(sampling, _FLAGS)
    seed = checks.seed(seed)
    width, depth = as_integer("width", width, 2), as_integer("depth", depth, 1)
    net = dense_network("net", net, depth + 1)  # σ acts on z of the last layer, too
    draws, moments = checks.draws(draws, 1), as_integer("moments", moments, 1, MAX_MOMENTS)
    singular_values = flag("singular_values", singular_values)
    zero_padded, importance, innovations = (
        flag(each, sampling.get(each, False)) for each in _FLAGS
    )
    shown = _layers(layers, depth)
    sizes = _sizes(
        len(shown) * moments,
        width * singular_values,
        len(shown) * importance,
        depth * innovations,
    )
    seconds = _check_cost(width, depth, draws, sum(sizes), options.kept)
    per_layer = hyperparameters(net, depth, width, width)
    if (per_layer["r_out"] != 1).any():
        raise InputError("net", str(net), "layers of equal width")
    ensembles = tuple(net.weights_at(layer, width, depth) for layer in range(1, depth + 1))
    biases = tuple(float(net.C_b_at(layer, width)) for layer in range(1, depth + 1))
    for ensemble in dict.fromkeys(ensembles):
        _check_ensemble(ensemble, width, zero_padded)
        if importance:
            tilting.check(ensemble)
    if zero_padded and (importance or innovations):
        raise InputError("zero_padded", True, "False with importance or innovations")
    if innovations and importance:
        wanted = "False with importance, whose tilted law gives them means other than zero"
        raise InputError("innovations", innovations, wanted)
    if innovations:
        checks.check_rotations(net, depth, "innovations are those of Gaussian or Haar matrices")
    spread = _first_variance(q_first) - biases[0]
    if spread < 0 or float(ensembles[0].C_W) == 0:
        raise InputError("q_first", q_first, f"a variance of at least C_b = {net.C_b_at(1)}")
    work = _Jacobians(
        tuple(net.activation_at(layer, depth + 1) for layer in range(1, depth + 1)),
        ensembles,
        biases,
        width,
        seed,
        float(q_first),
        spread,
        tuple(shown),
        moments,
        singular_values,
        zero_padded,
        importance,
        innovations,
        str(net),
        draws,
    )
    what = f"sampling {number(draws)} Jacobians of width {number(width)}, depth {number(depth)}"
    rows = chunks.rows(work, options, what, seconds)
    table, values, weights, further = (part.copy() for part in work.parts(rows))
    about: dict[str, int | float] = {
        "width": width,
        "depth": depth,
        "draws": draws,
        "blocks": draws,
        "seed": seed,
        "q_first": float(q_first),
        "zero_padded": int(zero_padded),
        "importance": int(importance),
    }
    symbols = {name: column[np.array(shown) - 1] for name, column in per_layer.items()}
    arrays = _arrays(values, table.reshape(draws, len(shown), moments), weights)
    if innovations:
        about_them = {"long_name": "length, trace and slopes of layers 1, 2, …, of mean zero"}
        arrays["innovations"] = xarray.Variable(("draw", "innovation"), further, about_them)
    return tables.dataset(arrays, shown, about, net=net, symbols=symbols)


@dataclass(frozen=True, eq=False)
class _Jacobians(RowsWork):
    """The singular values of J of every network, and the moments of JJᵀ by layer.

    Arguments:
        activations, ensembles, biases: of layers 1, 2, …: σ, the weights', and C_b.
        spread: what the weights give of `q_first`.
        layers: where JJᵀ is looked at, ascending.
        name: what the network is called.

    The others are those of `simulate`.
    """

    activations: tuple[Activation, ...]
    ensembles: tuple[WeightEnsemble, ...]
    biases: tuple[float, ...]
    width: int
    seed: int
    q_first: float
    spread: float
    layers: tuple[int, ...]
    moments: int
    singular_values: bool
    zero_padded: bool
    importance: bool
    innovations: bool
    name: str
    draws: int

    @property
    def values(self) -> int:
        """Singular values of a draw."""
        return self.width if self.singular_values else 0

    @property
    def chunk(self) -> int:
        """A power of two, of about a second's work, 1024 draws or fewer."""
        affordable = min(1024, max(1, int(1 / _draw_seconds(self.width, len(self.ensembles)))))
        return 1 << (affordable.bit_length() - 1)

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, moments, singular values, weights and innovations)."""
        return draws, sum(self._sizes)

    @property
    def _sizes(self) -> tuple[int, ...]:
        layers = len(self.layers)
        return _sizes(
            layers * self.moments,
            self.values,
            layers * self.importance,
            len(self.ensembles) * self.innovations,
        )

    def parts(self, rows: Array) -> list[Array]:
        """The parts of rows, in this order."""
        return np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)

    def manifest(self) -> dict[str, Any]:
        """The networks, and what is looked at."""
        return {
            "sampler": "spectra",
            "activation": [sympy.srepr(each.expr) for each in self.activations],
            "weights": [repr(ensemble) for ensemble in self.ensembles],
            "C_b": list(self.biases),
            "width": self.width,
            "depth": len(self.ensembles),
            "seed": self.seed,
            "q_first": self.q_first,
            "layers": list(self.layers),
            "moments": self.moments,
            "singular_values": self.singular_values,
            "zero_padded": self.zero_padded,
            "importance": self.importance,
            "innovations": self.innovations,
            "chunk": self.chunk,
        }

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The rows of these draws."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([self._row(draw) for draw in range(start, stop)])

    def _row(self, draw: int) -> Array:
        n = self.width
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, draw]))
        tilt = Tilt(rng) if self.importance else None
        J = Jacobian(None, np.eye(n))
        x = rng.standard_normal(n)
        x *= np.sqrt(n * self.spread / matrices.number(self.ensembles[0].C_W)) / np.linalg.norm(x)
        found, weights, new = list[Array](), list[float](), list[float]()
        layers = zip(self.activations, self.ensembles, self.biases, strict=True)
        for layer, (activation, ensemble, C_b) in enumerate(layers, 1):
            sigma, slope = _compiled(activation)
            *left, A = matrices.weight_factors(
                ensemble, (n, n), matrices.OfNumPy(rng), zero_padded=self.zero_padded
            )
            A, right = tilt.tilted(ensemble, A, J) if tilt else (A, None)
            C_W = matrices.number(ensemble.C_W)
            length = C_W * float(x @ x) / n + C_b
            trace = C_W * J.square() if self.innovations else 0.0
            if right is None:
                right = A if layer == 1 else J.times(A)
            x = A @ x
            for each in reversed(left[1:]):
                x, right = each @ x, each @ right
            J = Jacobian(left[0] if left else None, right)
            h = (left[0] @ x if left else x) + math.sqrt(C_b) * rng.standard_normal(n)
            if self.innovations:
                new.append(float(h @ h) / n / length - 1 if length else 0.0)
                new.append(J.square() / trace - 1 if trace else 0.0)
                new.append(innovating.of_slopes(activation, slope, h))
            J = J.scaled(slope(h))
            x = sigma(h)
            if layer in self.layers:
                found.append(J.moments(self.moments))
                weights += [tilt.weight] if tilt else []
        if not (np.isfinite(found).all() and J.is_finite):
            raise InputError("net", self.name, "Jacobians that do not overflow")
        values = J.singular_values() if self.singular_values else np.empty(0)
        return np.concatenate([*found, values, weights, new])


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

    >>> from derive import Orthogonal
    >>> W = weight_matrix(Orthogonal(2), 3, np.random.default_rng(0))
    >>> bool(np.allclose(W.T @ W, 2 * np.eye(3)))
    True
    """
    weights, n = as_weights("weights", weights), as_integer("n", n, 1)
    instance("rng", rng, np.random.Generator, "a generator, such as numpy.random.default_rng(0)")
    zero_padded = flag("zero_padded", zero_padded)
    check_memory("n", n, _MATRICES * 8 * n**2, f"matrices of {number(n)} rows")
    _check_ensemble(weights, n, zero_padded)
    return matrices.weight_matrix(weights, (n, n), rng, zero_padded=zero_padded)


def _sizes(moments: int, values: int, weights: int, layers: int) -> tuple[int, ...]:
    """Numbers of a draw, the last being the innovations of so many layers."""
    return moments, values, weights, innovating.COUNT * layers


def _layers(layers: Iterable[int] | None, depth: int) -> list[int]:
    """The layers to look at, ascending."""
    if layers is None:
        return [depth]
    wanted = f"layers among 1 … {depth}"
    shown = {
        as_integer("layers", each, 1, depth, wanted)
        for each in as_sequence("layers", layers, wanted)
    }
    if not shown:
        raise InputError("layers", layers, wanted)
    return sorted(shown)


def _first_variance(q_first: object) -> float:
    """The variance of the first preactivations, a number."""
    variance = check_variance("q_first", q_first)
    if not variance.is_number:
        raise InputError("q_first", q_first, "a number, not a symbol")
    return float(variance)


def _check_cost(width: int, depth: int, draws: int, columns: int, kept: bool) -> float:
    """The seconds that sampling takes, roughly; InputError for more than the machine holds."""
    held = 16 * draws * columns + 2000 * depth
    held += _MATRICES * 8 * width**2
    what = f"{number(draws)} Jacobians of width {number(width)}, depth {number(depth)}"
    got = width, depth, draws
    check_memory("width, depth, draws", got, held, what)
    seconds = draws * _draw_seconds(width, depth)
    if not kept:
        check_time("width, depth, draws", got, seconds, what)
    return seconds


def _draw_seconds(width: int, depth: int) -> float:
    return (depth + 2) * (_LAYER + _ENTRY * width**3)


def _check_ensemble(weights: WeightEnsemble, n: int, zero_padded: bool) -> None:
    """InputError for an ensemble that has no square matrices of n rows."""
    if zero_padded and not isinstance(weights, LowRankOrthogonal):
        raise InputError("zero_padded", zero_padded, "LowRankOrthogonal weights")
    ratio = sympy.sympify(weights.ratio) if isinstance(weights, Truncated) else sympy.S.Zero
    if ratio.is_number:
        size = int(ratio * n)
        check_memory("weights", str(weights), 8 * 2 * size * n, f"a frame of {number(size)} rows")
    steps(weights, n, n)


@cache
def _compiled(activation: Activation) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    value, slope = (
        sympy.lambdify(z, activation.derivative(order), [_SELECT, "scipy", "numpy"])
        for order in (0, 1)
    )
    return value, lambda h: np.asarray(slope(h), float)


def _arrays(values: Array, moments: Array, weights: Array) -> dict[str, xarray.Variable]:
    """From singular values (draws, width), moments (draws, layers, k) and weights (draws, layers),
    if there are any."""
    draws = len(values)
    singular = {"long_name": "singular values of J at the last layer, descending"}
    arrays = {}
    if values.size:
        arrays["singular_values"] = xarray.Variable(("draw", "neuron"), values, singular)
    if weights.size:
        about = {"long_name": "weight of what is seen of a network at a layer, of mean 1"}
        arrays["weight"] = xarray.Variable(("draw", "layer"), weights, about)
        moments = moments * weights[..., None]
    for k, each in enumerate(np.moveaxis(moments, 2, 0), 1):
        about = {"long_name": f"mean of (1/n) tr (J Jᵀ)^{k}"}
        arrays[f"m{k}"] = xarray.Variable("layer", each.mean(axis=0), about)
        if draws > 1:
            error = each.std(axis=0, ddof=1) / np.sqrt(draws)
            arrays[f"m{k}_se"] = xarray.Variable("layer", error)
    return arrays
