r"""Control variates of the four-point vertex: what each layer adds to σσ/n, neuron by neuron.

With g = σσ/n of two inputs in layer ℓ and y the preactivations behind Gaussian weights,
E[g | below] = ⟨σσ⟩ at the covariance of y, a closed form; the *innovation* ξ_ℓ = (1/n) Σ_i h_i of
neurons that are independent, given what is below, has mean 0. To leading order g is a sum of them,

    ĝ_ℓ = A_ℓ ĝ_{ℓ−1} + ξ_ℓ ,   A = C_W ∂⟨σσ⟩/∂K  at infinite width,

and V is n times the covariance of g. Of ĝ ĝ the pairs of different layers, and of different neurons
of a layer, are 0 on average, whatever A is:

    E[ĝ_ℓ ĝ_ℓ − D_ℓ] = 0 ,   D_ℓ = A_ℓ D_{ℓ−1} A_ℓ + (1/n²) Σ_i h_i h_i .

They are most of what one network's g g tells otherwise: without them its deviation is less by about
the square root of L/n. Weights that are blocks of a Haar matrix are frames of Gaussian ones, F =
G (GᵀG)^{−1/2} up to a rotation; what that divides out is linear in GᵀG,

    h_i = σσ(y_i) − ⟨σσ⟩ − ∂⟨σσ⟩/∂K · (w_i w_i − ⟨w w⟩),

w being y without biases: independent for different neurons, as before. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.fields import Z
from derive.gaussian import closed_forms
from derive.work.caches import cache

from ..arrays import Array
from ..emit.jit import driver
from ..emit.kernels import load_kernels
from ..estimators.observables import Plan
from ..estimators.probes import Probes
from ..estimators.sums import moment
from ..random.lazy import COLUMN, GAUSSIAN, HAAR, PARTS, add_multiple, gram, put_multiple, sum_of
from . import probing
from .base import Sampler, evaluated_once
from .ensemble import Ensemble, Layers
from .probing import probes_of, reading
from .staged import ProbeSampler

_APART = 1.0 - 2.0**-50
"""The largest correlation at which a closed form is taken: rounding has others."""
_LEAST = 1e-200
"""And the least variance."""
_FEWEST = 128
"""Networks that a thread takes down the layers together, if they hold no more than"""
_ROOM = 1 << 21
"""so many numbers of one layer."""


@dataclass(frozen=True, eq=False)
class InnovationSampler(ProbeSampler):
    """Networks as `probing` follows them, the vertex with what different neurons do taken out."""

    name: ClassVar[str] = "innovations"
    because: ClassVar[str] = (
        "⟨σσ⟩, which innovations are off, has closed forms for z behind one matrix"
    )
    supports: ClassVar[frozenset[str]] = frozenset()
    wanted: ClassVar[str] = (
        '"lazy" but for z, Gaussian or orthogonal weights and closed forms of ⟨σσ⟩'
    )

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> Sampler:
        """See `Sampler`."""
        return cls(ensemble, plan, probes_of(plan))

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """True if there is nothing but preactivations behind matrices of one factor, Gaussian or a
        block of a Haar matrix, and ⟨σσ⟩ of two inputs has a closed form."""
        return (
            plan.fields == {Z}
            and all(len(steps) == 1 and steps[0].kind in (GAUSSIAN, HAAR) for steps in layers.steps)
            and isinstance(layers.net.activation, Activation)
            and _averages(layers.net.activation) is not None
        )

    @property
    def numbers(self) -> int:
        """Preactivations of two layers and those behind Gaussian weights, of the widest layers;
        the dimension of a block's Haar matrix, where that is more; and two matrices on pairs."""
        haar = (step.big for (step,) in self.ensemble.steps if step.kind == HAAR)
        neurons = 3 * max(self.ensemble.widths) + max(haar, default=0)
        return self.plan.samples * neurons + 2 * len(_pairs(self.plan.samples)) ** 2

    @property
    def batch(self) -> int:
        """Enough for what NumPy does between two layers, where memory allows."""
        return max(super().batch, min(_FEWEST, _ROOM // self.numbers))

    @cached_property
    def _controlled(self) -> tuple[NDArray[np.int64], Array]:
        """The products g g in statistics of four z: (first pair, second pair, statistic), (terms,
        3), and their coefficients, (depth, terms)."""
        m, told = self.plan.samples, reading(self.ensemble.layers)
        place = {pair: k for k, pair in enumerate(_pairs(m))}
        places, found = [], []
        trees = zip(self.plan.trees(), self.plan.statistics, strict=True)
        for number, (fields, statistic) in enumerate(trees):
            if len(fields) != 4:
                continue
            polynomial = moment(fields, statistic.pairing, statistic.samples, told, Probes())
            for monomial, coefficients in polynomial.items():
                if len(monomial) == 2:
                    first, second = (place[a, b] for _, ((_, a), (_, b)) in monomial)
                    places.append((first, second, number))
                    found.append(np.broadcast_to(coefficients, self.ensemble.depth))
        terms = np.array(places, np.int64).reshape(-1, 3)
        return terms, np.array(found, float).reshape(len(terms), -1).T.copy()

    @cached_property
    def _slopes(self) -> Array:
        """∂⟨σσ⟩/∂K at layers 1, 2, … of infinite width, (depth, pairs, pairs)."""
        ensemble, m = self.ensemble, self.plan.samples
        averages = _averages(ensemble.net.one_activation("innovations"))
        assert averages is not None
        n_0 = ensemble.widths[0]
        g, found = (ensemble.inputs @ ensemble.inputs.T / n_0)[None], []
        for C_W, C_b in zip(ensemble.C_W, ensemble.C_b, strict=True):
            K = C_W * g + C_b
            found.append(averages.slopes(K[0]))
            g = np.zeros((1, m, m))
            for k, (a, b) in enumerate(_pairs(m)):
                g[0, a, b] = g[0, b, a] = averages(K)[0, k]
        return np.array(found)

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take networks down the layers; their statistics, (draws, statistics), at each."""
        ensemble, m = self.ensemble, self.plan.samples
        structure, coefficients = self.polynomials
        pairs, sigma = np.array(_pairs(m)), ensemble.net.one_activation("innovations")
        averages, (terms, controlled) = _averages(sigma), self._controlled
        assert averages is not None
        X = np.zeros((draws.size, m, ensemble.widths[0]))
        X[:] = ensemble.inputs
        S = np.empty((draws.size, m, m))
        moved = np.zeros((draws.size, len(pairs)))
        own = np.zeros((draws.size, len(pairs), len(pairs)))
        for layer in range(ensemble.depth):
            probing.kernels().grams(X, S)
            values = evaluated_once((structure, coefficients[layer]), S.reshape(draws.size, -1))
            kernels().control((moved, own), terms, controlled[layer], values)
            yield values
            if layer + 1 == ensemble.depth:
                return
            (step,), C_b = ensemble.steps[layer], float(ensemble.C_b[layer])
            source, C_W = (ensemble.key, layer + 1), float(ensemble.C_W[layer])
            frame = step.kind == HAAR
            Z = np.empty((draws.size, m, step.size))
            W = np.empty((draws.size, m, step.big if frame else 0))
            factor = step.kind, step.big, step.scale
            probing.kernels().apply(S, X, Z, W, draws, factor, (*source, COLUMN))
            Y = W[:, :, : step.size].copy() if frame else Z
            if C_b:
                probing.kernels().add_bias(C_b, Z, m, draws, source)
                if frame:
                    probing.kernels().add_bias(C_b, Y, m, draws, source)
            ensemble.activate(Z, layer + 1)
            if frame:
                ensemble.activate(Y, layer + 1)
            K, slopes = C_W * S, self._slopes[layer]
            of_w = np.ascontiguousarray(K[:, pairs[:, 0], pairs[:, 1]])  # one type to compile for
            kernels().carry(C_W * slopes, moved, own)
            given = averages(K + C_b), of_w
            kernels().innovate((Y, W), pairs, given, slopes, (moved, own))
            X = Z


@driver
def _products(x: Array, y: Array, mean: float, out: Array) -> None:
    """(x y − mean)/n."""
    part = 1.0 / out.size
    for i in range(out.size):
        out[i] = part * (x[i] * y[i] - mean)


@driver
def innovate(
    vectors: tuple[Array, Array],
    pairs: NDArray[np.int64],
    given: tuple[Array, Array],
    slopes: Array,
    out: tuple[Array, Array],
) -> None:
    """Add Σ_i h_i/n and Σ_i h_i h_i/n² of each draw to out: (draws, pairs), (draws, pairs, pairs).

    Arguments:
        vectors: σ(y), (draws, m, n), and w, (draws, m, N), or of N = 0.
        pairs: of inputs.
        given: ⟨σσ⟩ and ⟨w w⟩ of the pairs, (draws, pairs).
        slopes: ∂⟨σσ⟩/∂K, (pairs, pairs).
    """
    (Y, W), (mean, of_w), (moved, own) = vectors, given, out
    count, n, N = pairs.shape[0], Y.shape[2], W.shape[2]
    size = max(n, N)
    H, T = np.zeros((count, size)), np.empty((count, N))
    squares = np.empty((count, count))
    for s in range(Y.shape[0]):
        for p in range(count):
            _products(Y[s, pairs[p, 0]], Y[s, pairs[p, 1]], mean[s, p], H[p, :n])
            H[p, n:] = 0.0
            if N:
                _products(W[s, pairs[p, 0]], W[s, pairs[p, 1]], of_w[s, p], T[p])
        if N:
            for p in range(count):
                for q in range(count):
                    if slopes[p, q] != 0.0:
                        add_multiple(H[p], -slopes[p, q], T[q])
        for p in range(count):
            moved[s, p] += sum_of(H[p])
        gram(H, squares)
        for p in range(count):
            add_multiple(own[s, p], size, squares[p])


@driver
def _turned(A: Array, D: Array, out: Array) -> None:
    """(A D)ᵀ for a matrix A that is mostly 0."""
    count = A.shape[0]
    row = np.empty(count)
    for p in range(count):
        row.fill(0.0)
        for q in range(count):
            if A[p, q] != 0.0:
                add_multiple(row, A[p, q], D[q])
        for q in range(count):
            out[q, p] = row[q]


@driver
def carry(A: Array, moved: Array, own: Array) -> None:
    """ĝ ← A ĝ and D ← A D Aᵀ of each draw: (draws, pairs), (draws, pairs, pairs); D symmetric."""
    count = A.shape[0]
    g, half = np.empty(count), np.empty((count, count))
    for s in range(moved.shape[0]):
        for p in range(count):
            g[p] = 0.0
            for q in range(count):
                g[p] += A[p, q] * moved[s, q]
        put_multiple(moved[s], 1.0, g)  # numba takes 3 s to compile moved[s] = g
        _turned(A, own[s], half)
        _turned(A, half, own[s])


@driver
def control(
    innovations: tuple[Array, Array], terms: NDArray[np.int64], coefficients: Array, values: Array
) -> None:
    """Take ĝ ĝ − D, (draws, pairs) and (draws, pairs, pairs), out of values (draws, statistics).

    Arguments:
        terms: (first pair, second pair, statistic), (terms, 3).
        coefficients: of ĝ ĝ in the statistic, (terms,).
    """
    moved, own = innovations
    for s in range(values.shape[0]):
        for t in range(terms.shape[0]):
            p, q, number = terms[t]
            values[s, number] -= coefficients[t] * (moved[s, p] * moved[s, q] - own[s, p, q])


@cache
def kernels() -> ModuleType:
    """`innovate`, `carry` and `control`, compiled."""
    doc = "What each layer adds to products of two inputs, neuron by neuron."
    entries = innovate, carry, control
    return load_kernels("innovations", doc, entries, parts=PARTS)


@cache(entries=8)
def _pairs(m: int) -> tuple[tuple[int, int], ...]:
    """Of inputs, one of each two."""
    return tuple(combinations_with_replacement(range(m), 2))


@dataclass(frozen=True, eq=False)
class _Averages:
    """⟨σσ⟩ of one input and of two, and their derivatives, compiled from closed forms."""

    one: Callable[[Array], Any]
    two: Callable[[Array, Array, Array], Any]
    slope: Callable[[float], float]
    slopes_of_two: Callable[[float, float, float], tuple[float, float, float]]

    def __call__(self, K: Array) -> Array:
        """(draws, m, m) → (draws, pairs)."""
        # contiguous: other strides may have NumPy take another routine, of other last bits
        variances = np.ascontiguousarray(np.maximum(K.diagonal(axis1=1, axis2=2).T, _LEAST))
        found = np.empty((len(K), len(_pairs(K.shape[1]))))
        for k, (a, b) in enumerate(_pairs(K.shape[1])):
            if a == b:
                found[:, k] = self.one(variances[a])
            else:
                most = _APART * np.sqrt(variances[a]) * np.sqrt(variances[b])
                c = np.clip(K[:, a, b], -most, most)
                found[:, k] = self.two(variances[a], c, variances[b])
        return found

    def slopes(self, K: Array) -> Array:
        """∂⟨σσ⟩/∂K, (pairs, pairs), at one covariance (m, m); 0 for inputs that vanish."""
        pairs = _pairs(len(K))
        place, found = {pair: k for k, pair in enumerate(pairs)}, np.zeros((len(pairs),) * 2)
        for k, (a, b) in enumerate(pairs):
            if min(K[a, a], K[b, b]) < _LEAST:
                continue
            if a == b:
                found[k, k] = self.slope(K[a, a])
                continue
            most = _APART * math.sqrt(K[a, a] * K[b, b])
            c = float(np.clip(K[a, b], -most, most))
            at = self.slopes_of_two(K[a, a], c, K[b, b])
            for other, value in zip(((a, a), (a, b), (b, b)), at, strict=True):
                found[k, place[other]] = value
        return found


@cache
def _averages(activation: Activation) -> _Averages | None:
    """None where there is no closed form."""
    K11, K22 = sympy.symbols("K11 K22", positive=True)
    K12 = sympy.Symbol("K12", real=True)
    one = closed_forms.average(activation, (0, 0), at=K11)
    two = closed_forms.average_two(activation, 0, 0, K11, K12, K22)
    if one is None or two is None:
        return None
    names = [K11, K12, K22]
    compiled = [
        sympy.lambdify(arguments, value, ["scipy", "numpy"], cse=True)
        for arguments, value in (
            ([K11], one),
            (names, two),
            ([K11], sympy.diff(one, K11)),
            (names, tuple(sympy.diff(two, name) for name in names)),
        )
    ]
    return _Averages(*compiled)
