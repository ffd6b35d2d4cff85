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

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.fields import Field
from derive.engine.scores import Scores
from derive.engine.stages import STEM, Attended, Stage
from derive.engine.trees import Kind
from derive.weights import Gaussian
from derive.work.caches import cache

from ..arrays import Array
from ..emit.kernels import load_kernels
from ..emit.templates import activate_source, sigma_source
from ..estimators.observables import Plan, derivatives
from ..estimators.probes import Probes
from .arithmetic import Arithmetic
from .ensemble import STAGES, Ensemble, Layers
from .forward import grouped
from .forward_kernels import LANES, TILE
from .probing import probes_of
from .stage_tables import Place
from .staged import Parts, ProbeSampler, State
from .wishart_kernels import PARTS, ROUNDING, draw_stream

_ATTENDED = '''\
{weights}

{activate}

@entry
def draw_attended(roots, networks, sizes, factors, laws, streams, tables, out):
    """The root of the kernel of Σ_s A[t,s] v[s] over all heads, (draws, m, m).

    Arguments:
        roots: of the kernels of queries, keys and values but for a factor, (draws, m, m) each.
        networks: (groups, LANES), as of `forward.grouped`.
        sizes: how many heads there are, and their neurons.
        factors: of the roots, of scores, and of what comes out.
        laws: if keys are queries; if keys are infinitely large.
        streams: the key of random numbers, and the layer's number.
        tables: B and what is added to weights, (T, T), by s and t.
    """
    m, (seed, layer), (heads, size), (table, more) = roots[0].shape[1], streams, sizes, tables
    T, rank = table.shape[0], min(m, size)
    of_keys = m if laws[1] else rank
    matrices, A = np.empty((8, m * m, {lanes})), np.empty((T * T, {lanes}))
    of = matrices[0], matrices[1], matrices[2]
    query, key, value, found, S = (
        matrices[3], matrices[4], matrices[5], matrices[6], matrices[7]
    )
    flat, F = A.reshape(-1), np.zeros((m * rank, {lanes}))
    words = np.empty((4, {tile} * {lanes}), np.uint64)
    rooms = F, np.empty((m * m + 4, {lanes})), np.empty((m, {lanes})), words
    for group in range(len(networks)):
        first, own = group * {lanes}, networks[group]
        for k in range(3):
            load(roots[k], first, factors[k], of[k])
        for h in range(heads):
            parts = query, key, value
            draw_head(of, parts, (m, size, rank), laws, own, (seed, layer, 6 * h), rooms)
            for sample in range(0, m, T):
                put_scores(A, query, key, table, factors[3], sample, of_keys)
                {before}
                activate_0(flat, flat.size)
                {behind}
                close(A, table, more)
                put_read(found, A, value, T, sample, rank)
            put_square(S, found, (m, rank), False, h > 0)
        put_root(S, found, m, {rounding})
        store(found, first, factors[4], out)
'''

_EXPONENTIAL = '''\
@scalar
def sigma(c):
    """e^c, for the softmax."""
    return (fastmath.exp(c),)
'''


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
        """A variable and its kernel; with fewer networks at a time Python takes most of it."""
        return 2 * max(self.ensemble.data.samples) ** 2

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
                after[kind] = arithmetic.scaled(body.jet, math.sqrt(variances[k]))
            else:
                parts_of_R = [
                    arithmetic.scaled(body.gram, variances[k]) for k, body in each.bodies.items()
                ]
                R = arithmetic.added(parts_of_R)
                variance, _ = each.biases or (0.0, 0.0)
                R = R + variance if variance else R
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
        not (stage.arguments or stage.relates_positions or stage.has_centres)
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
        self._networks, self._numbers = grouped(draws), count()

    def constant(self, x: Array) -> Array:
        """See `Arithmetic`: any root of the kernel of x."""
        (m, n), (_, R) = x.shape, np.linalg.qr(x.T)
        root = np.zeros((m, m))
        root[:, : len(R)] = R.T * math.sqrt(m / n)
        return super().constant(root)

    def attended(self, parts: Sequence[Array], scores: Scores, positions: int) -> Array:
        """See `Arithmetic`: o with the kernel over all heads."""
        heads = scores.heads(self.ensemble.width)
        size, (draws, _, m, _) = self.ensemble.width // heads, parts[0].shape
        factors = [1.0 / math.sqrt(each.shape[-1]) for each in parts]
        factors += [1.0 / float(size) ** float(scores.power), math.sqrt(m / (heads * size))]
        found = np.empty((draws, 1, m, m))
        _attending(scores.function).draw_attended(
            tuple(np.ascontiguousarray(each[:, 0]) for each in parts),
            self._networks,
            (heads, size),
            tuple(factors),
            (scores.is_tied, scores.is_normal),
            self._streams(),
            _tables(scores, positions),
            found[:, 0],
        )
        return found

    def drawn(self, R: Array, past: Array | None, n: int) -> Array:
        """z of n neurons with rows N(past, R), as as many neurons as there are samples."""
        draws, m, _ = R.shape
        found = np.empty((draws, 1, m, m))
        before = R if past is None else np.ascontiguousarray(past[:, 0])
        known = 0 if past is None else m
        given = np.ascontiguousarray(R), before, known, self._networks, n, self._streams()
        _compiled().draw_stream(*given, found[:, 0])
        return found

    def _streams(self) -> tuple[NDArray[np.uint64], int]:
        """The random numbers of the next draw: the same in all networks."""
        return self.ensemble.key, next(self._numbers)


def _tables(scores: Scores, positions: int) -> tuple[Array, Array]:
    """B and what is added to weights, by s and t."""
    more = np.zeros((positions, positions))
    if scores.shaped:
        more = np.eye(positions) - scores._replace(shaped=False).weights(more)
    return np.ascontiguousarray(scores.bias(positions).T), np.ascontiguousarray(more.T)


@cache
def _attending(function: Activation | None) -> ModuleType:
    """`draw_attended`, compiled for this function of scores; None for the softmax."""
    source = _ATTENDED.format(
        weights=_EXPONENTIAL if function is None else sigma_source(function, 1),
        activate=activate_source(),
        before="pass" if function else "subtract_largest(A, T)",
        behind="pass" if function else "divide_by_sums(A, T)",
        lanes=LANES,
        tile=TILE,
        rounding=ROUNDING,
    )
    doc = f"Attention by the kernels of its samples: {function.name if function else 'softmax'}."
    return load_kernels("attention", doc, (), source, parts=PARTS)


@cache
def _compiled() -> ModuleType:
    doc = "The stream of attention by the kernels of its samples."
    return load_kernels("stream", doc, (draw_stream,), parts=PARTS)
