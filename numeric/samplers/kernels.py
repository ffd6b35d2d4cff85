r"""Networks of attention without matrices or neurons: the kernel of the samples is followed.

Given the kernel S of its tokens, a layer of attention with Gaussian weights is drawn from Wishart
matrices. With L Lᵀ the kernel of queries, keys or values, and F Fᵀ Wishart with d degrees of
freedom (Bartlett), each head has

    scores L_q Z (L_k F)ᵀ/d^a,    Z standard normal,    o oᵀ = A L_v F' F'ᵀ L_vᵀ Aᵀ,

and z = γ x + W_O o + b has rows N(γ x, R). A variable v of n neurons is held as v_c with as many
neurons as there are samples, and v_c v_cᵀ/m = v vᵀ/n: norms, skips and means over neurons act on it
as on v. A layer costs O(H m³), at any width. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.engine.fields import Field
from derive.engine.scores import Scores
from derive.engine.stages import STEM, Attended, Stage
from derive.engine.trees import Kind
from derive.weights import Gaussian

from ..arrays import Array
from ..estimators.observables import Plan, derivatives
from ..estimators.probes import Probes
from .arithmetic import Arithmetic
from .ensemble import STAGES, Ensemble, Layers
from .probing import probes_of
from .staged import Parts, Place, ProbeSampler, State


@dataclass(frozen=True, eq=False)
class KernelSampler(ProbeSampler):
    """Networks of attention, norms and skips with Gaussian weights, followed by their kernels."""

    supports: ClassVar[frozenset[str]] = frozenset({STAGES})
    wanted: ClassVar[str] = '"lazy", for activations, other laws, and other tensors than of z alone'
    name: ClassVar[str] = "kernels"

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> ProbeSampler:
        """One that draws vectors, where layers have fewer neurons than there are samples."""
        narrow = min(ensemble.widths[1:]) < max(ensemble.data.samples)
        return (ProbeSampler if narrow else cls)(ensemble, plan, probes_of(plan))

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """See `Sampler`."""
        plain = all(isinstance(field, Field) for field in plan.fields)
        return plain and not derivatives(plan.fields) and _applies(layers)

    @property
    def numbers(self) -> int:
        """See `Sampler`."""
        return 8 * max(self.ensemble.data.samples) ** 2

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """See `ProbeSampler`."""
        yield from self.passed(_Kernels(self.ensemble, self.probes, draws))

    def _after(
        self, stage: Stage, place: Place, parts: Mapping[Kind, Parts], arithmetic: Arithmetic
    ) -> State:
        """The variables after a stage. Those that attention reads stay what their matrices read,
        which says their kernels."""
        assert isinstance(arithmetic, _Kernels)
        read = _attended(self.ensemble.stages_at(place.layer))
        after: dict[Kind, Array] = {}
        for kind, each in parts.items():
            variances = {
                k: float(self.ensemble.ensemble_of(place.layer, stage.matrix(k)).C_W)
                for k in each.bodies
            }
            if not variances:
                assert each.carried is not None
                after[kind] = each.carried.jet
            elif kind in read:
                ((k, body),) = each.bodies.items()
                after[kind] = np.sqrt(variances[k]) * body.jet
            else:
                parts_of_R = [variances[k] * body.gram for k, body in each.bodies.items()]
                R = arithmetic.added(parts_of_R) + (each.biases or (0.0, 0.0))[0]
                (k, *_) = variances
                n = self.ensemble.neurons(place.layer, stage, stage.matrix(k).out)
                past = None if each.carried is None else each.carried.jet
                after[kind] = arithmetic.drawn(R, past, n)
        return after


def _attended(stages: Sequence[Stage]) -> set[Kind]:
    """The variables that attention reads."""
    return set[Kind]().union(*(stage.attends_to for stage in stages))


def _applies(layers: Layers) -> bool:
    """True if layers 2, 3, … have attention, and nothing that needs neurons."""
    net, depth = layers.net, layers.depth
    if STAGES not in layers.needs or depth == 1:
        return False
    every = {net.stages_at(layer, depth) for layer in range(2, depth + 1)}
    read = {net.read_at(layer, depth) for layer in range(1, depth + 1)}
    laws = all(isinstance(layers.weights_at(layer), Gaussian) for layer in range(1, depth + 1))
    return laws and read <= every | {(STEM,)} and all(map(_has_kernels, every))


def _has_kernels(stages: Sequence[Stage]) -> bool:
    """True if kernels behind these stages follow from those before."""
    if not any(stage.scores for stage in stages):
        return False
    read = _attended(stages)
    return all(
        not (stage.arguments or stage.masks or stage.batch or stage.taps.moves)
        and not stage.has_centres
        and stage.pools == 1
        and len(stage.scores) < 2
        and not {kind.space for kind in stage.attends_to} & dict(stage.ratios).keys()
        and all(mean.sets == 1 for mean in stage.means)
        and all(isinstance(matrix.law, Gaussian | None) for matrix in stage.matrices)
        and _is_alone(stage, read)
        for stage in stages
    )


def _is_alone(stage: Stage, read: set[Kind]) -> bool:
    """True if no two equations with matrices have a joint law beyond their kernels.

    Heads are drawn anew for each sum that attention makes, and values apart from keys.
    """
    terms = [term for _, each in stage.equations for term in each.right]
    sums = [each for term in terms for each in term.factors if isinstance(each, Attended)]
    own = {kind for each in stage.scores for kind in (each.query, each.key)}
    if len(sums) > 1 or (own and own == stage.attends_to):
        return False
    drawn = [kind for kind, each in stage.equations if any(term.weight for term in each.right)]
    plain = all(
        len(equation.right) == 1 and not equation.bias
        for kind, equation in stage.equations
        if kind in read and kind in drawn
    )
    return plain and (set(drawn) <= read or len(stage.equations) == 1)


class _Kernels(Arithmetic):
    """Of variables with as many neurons as there are samples."""

    def __init__(self, ensemble: Ensemble, probes: Probes, draws: NDArray[np.int64]) -> None:
        super().__init__(ensemble, probes, draws)
        self._streams = ensemble.generators(draws)

    def attended(self, parts: Sequence[Array], scores: Scores, positions: int) -> Array:
        """See `Arithmetic`: o with the kernel over all heads."""
        heads = scores.heads(self.ensemble.width)
        size = self.ensemble.width // heads
        query, key, value = (each / np.sqrt(each.shape[-1]) for each in parts)
        m = query.shape[2]
        roots = self._wishart(2 * heads, m, size)
        of_keys, of_values = roots[:, :heads], roots[:, heads:]
        if scores.is_normal:
            of_keys = np.broadcast_to(np.sqrt(size) * np.eye(m), (*of_keys.shape[:2], m, m))
        keys, values = _of_heads(key, of_keys), _of_heads(value, of_values)
        queries = keys
        if not scores.is_tied:
            queries = _of_heads(query, self._normals(heads, m, keys.shape[-1]))
        products = queries @ keys.swapaxes(-1, -2) / float(size) ** float(scores.power)
        found = self._weighted(scores, products, values, positions)
        flat = found.swapaxes(1, 2).reshape(len(found), m, -1)
        kernel = flat @ flat.swapaxes(1, 2) / (heads * size)
        return np.asarray(_root(kernel)[:, None] * np.sqrt(m))

    def _weighted(self, scores: Scores, products: Array, values: Array, positions: int) -> Array:
        """Σ_s A[t,s] v[s], signal by signal."""
        draws, heads, m, rank = values.shape
        shape = draws, heads, m // positions, positions
        own = products.reshape(*shape, m // positions, positions)
        A = scores.weights(np.einsum("dhstsu->dhstu", own))
        found: Array = (A @ values.reshape(*shape, rank)).reshape(values.shape)
        return found

    def drawn(self, R: Array, past: Array | None, n: int) -> Array:
        """z of n neurons with rows N(past, R), as as many neurons as there are samples."""
        m = R.shape[1]
        root = _root(R)
        known = m if past is not None else 0
        total = np.zeros_like(R)
        if past is not None:
            mean = past[:, 0] * np.sqrt(n / past.shape[-1])
            moved = mean + root @ self._normals(1, m, mean.shape[-1])[:, 0]
            known = mean.shape[-1]
            total = moved @ moved.swapaxes(1, 2)
        rest = root @ self._wishart(1, m, n - known)[:, 0]
        total = (total + rest @ rest.swapaxes(1, 2)) / n
        return np.asarray(_root(total)[:, None] * np.sqrt(m))

    def _normals(self, *shape: int) -> Array:
        found = np.empty((len(self._streams), *shape))
        for rng, own in zip(self._streams, found, strict=True):
            rng.standard_normal(out=own)
        return found

    def _wishart(self, count: int, m: int, degrees: int) -> Array:
        """F with F Fᵀ Wishart, (draws, count, m, rank), lower triangular."""
        rank = min(m, degrees)
        if rank == 0:
            return np.zeros((len(self._streams), count, m, 1))
        F = np.zeros((len(self._streams), count, m, rank))
        below = np.tril_indices(m, -1, rank)
        F[..., *below] = self._normals(count, below[0].size)
        halves = 0.5 * (degrees - np.arange(rank))
        squares = [rng.standard_gamma(halves, (count, rank)) for rng in self._streams]
        F[..., np.arange(rank), np.arange(rank)] = np.sqrt(2.0 * np.array(squares))
        return F


def _of_heads(shared: Array, own: Array) -> Array:
    """A matrix of each draw, (draws, 1, m, k), times those of its heads, (draws, heads, k, r): one
    product for all heads."""
    draws, heads, k, r = own.shape
    found = shared[:, 0] @ own.swapaxes(1, 2).reshape(draws, k, -1)
    return np.asarray(found.reshape(draws, -1, heads, r).swapaxes(1, 2))


def _root(S: Array) -> Array:
    """L with L Lᵀ = S, of semidefinite matrices."""
    try:
        return np.asarray(np.linalg.cholesky(S))
    except np.linalg.LinAlgError:
        variances, axes = np.linalg.eigh(S)
        return np.asarray(axes * np.sqrt(np.maximum(variances, 0.0))[:, None])
