r"""Networks of any layer with their innovations: what chance adds at each stage, of mean 0.

Behind a matrix on the vectors x stand n neurons √C_W R w_i, RRᵀ the vectors' Gram matrix, with w_i
standard normal and independent of all that is below, or, of a Haar matrix, w's frame
(wwᵀ/n)^{−1/2} w. With the *mean* Gram matrix R₀R₀ᵀ in the place of the network's own, the neurons
are u_i = √C_W R₀ w_i and b_i, alike and independent in every network: for any f

    c = (1/n) Σ_i (f(u_i) − E f)    and    c c' − (1/n²) Σ_i (f − E f)(f' − E f')(u_i)

are 0 on average. f are the products of two vectors' neurons, and of the σ's and gates that the next
matrix meets. What is carried past a matrix, s_i, gives s_i u_i, of mean 0 given what is below. To
leading order a network's Gram matrices are sums of such c, by slopes that a fit tells.

To second order three kinds of products come in, of mean 0 at every width again: those of two Gram
matrices that are off; what a Gram matrix is off times c of how f responds to it,

    c[f_{R₀ + δR} − f_{R₀ − δR}],    RRᵀ off by 2 (R₀ δRᵀ + δR R₀ᵀ);

and, as frames, norms and a layer's inner matrices depend on what their own neurons come to, c c' of
one group. Where a mean m of neurons is taken off, m = c[u] times c of how f responds to a number
that is added, c[f'_a f_b − ⟨f'_a f_b⟩], is such a c c'; of a variable that is carried the products
of two layers' m come beside it. What is left of a Gram matrix is of order n^{−3/2}, and of n times
it, as of G1, the wider the less: where every σ that a matrix meets is taken of what matrices alone
make, and not of what is carried past one. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.stages import LEFT, Equation, Function, Stage, Variable
from derive.engine.trees import Kind
from derive.errors import InputError
from derive.gaussian.shapes import Shape
from derive.network import Network
from derive.weights import Gaussian, WeightEnsemble

from ..arrays import Array
from ..brackets.module import evaluate
from ..estimators.probes import Probes
from ..flows import flow
from ..random import lazy
from ..random.lazy import COLUMN, GAUSSIAN, HAAR
from .arithmetic import Arithmetic
from .ensemble import Ensemble
from .innovations import kernels
from .staged import LayerSampler, Parts, Place, State, _Vectors, layer_of

Key = tuple[int, int]
"""0 and a stream; of what is carried a layer, and less than 0."""

Means = dict[Key, Array]
"""Mean Gram matrices."""


_SHIFT = 0.05
"""Of a variable's deviation: the step of differences."""
_APART = 1e-6
"""Of the largest length: what a vector has beside the others, or it is dependent on them."""


class Piece(NamedTuple):
    """What one matrix adds to a variable, (draws, m, n), with its covariance and its stream.

    All of a variable that a norm divides is one too, without a stream.
    """

    rows: Array
    covariance: Array
    stream: int | None

    def times(self, t: float) -> Piece:
        """A multiple."""
        return Piece(t * self.rows, t**2 * self.covariance, self.stream)


class Fresh(NamedTuple):
    """A variable as it would be at the mean Gram matrices, (draws, m, n): independent neurons.

    `covariance` is (m, m), `group` the number of its neurons' group, `streams` the weights and
    biases that it is made of: variables that share none are independent. Of one `is_centred` the
    network takes a mean off, which is 0 in the limit.
    """

    rows: Array
    covariance: Array
    group: int
    streams: frozenset[int]
    pieces: tuple[Piece, ...] = ()
    is_centred: bool = False


@dataclass
class Group:
    """Centred functions of neurons that are independent of each other, (draws, functions, n).

    `frames` are the numbers of those that Haar frames, norms and matrices inside a layer depend on.
    """

    n: int
    functions: list[Array] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    _moments: tuple[Array, Array] | None = None

    @property
    def count(self) -> int:
        """How many functions."""
        return sum(each.shape[1] for each in self.functions)

    def add(self, made: Sequence[Array]) -> None:
        """These functions too."""
        self.functions += made
        self._moments = None

    def moments(self) -> tuple[Array, Array]:
        """c = (1/n) Σ_i f of all functions, (draws, functions), and (1/n²) Σ_i f f' of any two."""
        if self._moments is None:
            f = np.concatenate(self.functions, axis=1)
            self._moments = f.mean(axis=2), f @ f.swapaxes(1, 2) / self.n**2
        return self._moments


class Noted(Arithmetic):
    """Arithmetic that remembers normals.

    Arguments:
        means: the mean Gram matrix of each key; None while they are being found.

    Attributes:
        off: of each matrix its vectors' Gram matrix less the mean, (draws, pairs).
        haar: the matrices with frames.
        crossed: products of what is off and an innovation above it, (draws, products).
        centres: of each variable the means over neurons of what layers added to it.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        draws: NDArray[np.int64],
        means: Means | None,
    ) -> None:
        super().__init__(ensemble, Probes(), draws)
        self.means = means
        self.found: Means = {}
        self.drawn: dict[int, Array] = {}
        self.fresh: dict[Kind, Fresh] = {}
        self.groups: list[Group] = []
        self.off: dict[int, Array] = {}
        self.haar: set[int] = set()
        self.crossed: list[Array] = []
        self.centres: dict[Kind, list[Array]] = {}

    def cross(self, off: Array, functions: Array) -> None:
        """c of these functions, times what a Gram matrix is off below them."""
        c = functions.mean(axis=2)
        self.crossed.append((off[:, :, None] * c[:, None]).reshape(len(off), -1))

    def join(self, kind: Kind, centre: Array, *, carried: bool) -> None:
        """The mean of what a layer adds to a variable, (draws, m), times those of the layers whose
        neurons it carries: they are independent, and a mean that is taken off has them all."""
        before = self.centres.get(kind, []) if carried else []
        for each in before:
            self.crossed.append((each[:, :, None] * centre[:, None]).reshape(len(centre), -1))
        self.centres[kind] = [*before, centre]


@dataclass(frozen=True, eq=False)
class InnovatingSampler(LayerSampler):
    """`LayerSampler`'s networks, the innovations beside their statistics."""

    name: ClassVar[str] = "innovations"

    def mean_grams(self, draws: NDArray[np.int64]) -> Means:
        """What the vectors' Gram matrices are on average, of these networks."""
        noted = Noted(self.ensemble, draws, None)
        for _ in self.passed(noted):
            pass
        return noted.found

    def followed(
        self, draws: NDArray[np.int64], means: Means
    ) -> Iterator[tuple[Array, list[Group], list[Array]]]:
        """The statistics at layers 1, 2, …, each with the innovations that are below it."""
        noted = Noted(self.ensemble, draws, means)
        for values in self.passed(noted):
            yield values, list(noted.groups), list(noted.crossed)

    def _applied(
        self,
        weights: WeightEnsemble,
        rate: float,
        met: _Vectors,
        n: int,
        stream: int,
        arithmetic: Arithmetic,
    ) -> Array:
        assert isinstance(arithmetic, Noted)
        steps = lazy.steps(weights, met.jet.shape[3], n)
        if len(steps) > 1 or steps[0].kind not in (GAUSSIAN, HAAR):
            raise InputError("weights", str(weights), "Gaussian or orthogonal ones")
        (step,), S, X = steps, met.gram, met.rows
        Z = np.empty((*X.shape[:2], n))
        frame = step.kind == HAAR
        W = np.empty((*X.shape[:2], step.big if frame else 0))
        source = (self.ensemble.key, stream, COLUMN)
        factor = step.kind, step.big, step.scale
        kernels().apply_both(S, X, Z, W, arithmetic.draws, factor, source)
        if arithmetic.means is None:
            arithmetic.found[self._key(stream)] = float(weights.C_W) * S.mean(axis=0)
        else:
            normal = W[:, :, :n] if frame else Z
            gram = float(weights.C_W) * S
            arithmetic.off[stream] = _off(gram, arithmetic.means[self._key(stream)])
            if frame:
                arithmetic.haar.add(stream)
            try:
                own = np.linalg.cholesky(float(weights.C_W) * S)
                mean = np.linalg.cholesky(arithmetic.means[self._key(stream)])
                least = np.diagonal(own, axis1=1, axis2=2).min(axis=1)
                if (least < _APART * np.abs(own).max(axis=(1, 2))).any():
                    raise np.linalg.LinAlgError
            except np.linalg.LinAlgError:
                raise self._not_apart(weights, S, layer_of(stream)) from None
            normal = np.linalg.solve(own, normal)
            if frame and step.big == n:
                F = np.linalg.solve(own, Z)
                # independent of the frame F, so that (w wᵀ/n)^{1/2} F has the law of w
                sizes, turns = np.linalg.eigh(normal @ normal.swapaxes(1, 2) / n)
                normal = (turns * np.sqrt(sizes)[:, None]) @ turns.swapaxes(1, 2) @ F
            arithmetic.drawn[stream] = np.asarray(mean @ normal, float)
        return Z.reshape(*met.jet.shape[:3], n)

    def _not_apart(self, weights: WeightEnsemble, S: Array, layer: int) -> InputError:
        """What makes vectors of this layer, with these Gram matrices, linearly dependent."""
        ensemble = self.ensemble
        if float(ensemble.C_W[layer - 1]) == 0.0:
            first = layer == 1 and ensemble.net.first_weights is not None
            name = "first_weights" if first else "weights"
            return InputError(name, str(weights), "C_W above 0")
        if float(weights.C_W) == 0.0:
            return InputError("layer", str(ensemble.net.layer), "matrices of C above 0")
        if layer == 1:
            return InputError(
                "inputs", ensemble.inputs, "linearly independent ones, none of them 0"
            )
        if (np.diagonal(S, axis1=1, axis2=2) == 0.0).all(axis=0).any():
            return InputError("layer", str(ensemble.net.layer), "matrices that meet no zeros")
        got = f"{ensemble.width}, where vectors of a network are linearly dependent"
        return InputError("width", got, "wider layers, or inputs apart")

    @cached_property
    def _has_centres(self) -> bool:
        layers = range(2, self.ensemble.depth + 1)
        return any(s.has_centres for at in layers for s in self.ensemble.stages_at(at))

    @cached_property
    def _is_nested(self) -> bool:
        """Whether something in a layer depends on what neurons inside it come to."""
        layers = range(2, self.ensemble.depth + 1)
        return any(len(self.ensemble.stages_at(at)) > 1 for at in layers)

    def _key(self, stream: int) -> Key:
        return 0, stream

    def _parts(
        self, stage: Stage, place: Place, state: State, arithmetic: Arithmetic
    ) -> dict[Kind, Parts]:
        assert isinstance(arithmetic, Noted)
        if arithmetic.means is not None and stage.matrices:
            for _, equation in stage.equations:
                self._note_bodies(stage, equation, arithmetic)
        return super()._parts(stage, place, state, arithmetic)

    def _note_bodies(self, stage: Stage, equation: Equation, noted: Noted) -> None:
        """Add what matrices meet, as far as it is a product of fresh variables and their σ's, all
        independent of each other: its mean is then the product of theirs."""
        for term in equation.right:
            if term.weight is None:
                continue
            here = [
                each
                for each in term.factors
                if isinstance(each, Variable | Function) and each.at == term.weight[1]
            ]
            kinds = [
                each.kind if isinstance(each, Variable) else stage.argument_kinds[each.argument]
                for each in here
            ]
            fresh = [noted.fresh.get(kind) for kind in kinds]
            known = [each for each in fresh if each is not None]
            if len(known) < len(here) or len({each.group for each in known}) != 1:
                continue
            if len(here) == 1 and isinstance(here[0], Variable):
                continue
            streams = [stream for each in known for stream in each.streams]
            if len(set(streams)) < len(streams):
                continue
            body, mean = np.ones(()), np.ones(())
            for factor, each in zip(here, known, strict=True):
                rows, average = self._factor(factor, each.rows, each.covariance)
                body, mean = body * rows, mean * average
            group, met = noted.groups[known[0].group], list(zip(here, known, strict=True))
            group.add([_products(body, body, mean)])
            for j, each in enumerate(known):
                for piece in each.pieces:
                    responses = self._responses(met, j, piece, body)
                    group.add([responses])
                    for stream in each.streams if piece.stream is None else {piece.stream}:
                        if stream in noted.off:  # a bias meets no vectors
                            noted.cross(noted.off[stream], responses)
                if each.is_centred and not self.ensemble.net.activation.jumps(0):
                    group.add([self._shifts(met, j, body)])

    def _responses(
        self, met: Sequence[tuple[Variable | Function, Fresh]], j: int, piece: Piece, body: Array
    ) -> Array:
        """How products of what a matrix meets respond where factor j has a little of that piece
        more: of sample c, as is sample d of the piece, c times each b; centred, (draws, c d b, n).

        Differences, not derivatives: their means are those of σσ at two covariances.
        """
        rows, means = self._others(met, j)
        factor, own = met[j]
        m, found = body.shape[1], []
        for c, d in product(range(m), repeat=2):
            size = _SHIFT * np.sqrt(own.covariance[c, c] / piece.covariance[d, d])
            (plus, above), (minus, below) = (
                self._factor(factor, *_shifted(own, piece, c, d, t)) for t in (size, -size)
            )
            mean = means[c] * (above - below)[c] / (2 * _SHIFT)
            plus, minus = ((rows * each)[:, min(c, rows.shape[1] - 1)] for each in (plus, minus))
            for b in range(m):
                other = plus + minus if b == c else body[:, b]
                found.append((plus - minus) * other / (2 * _SHIFT) - mean[b])
        return np.stack(found, axis=1)

    def _shifts(
        self, met: Sequence[tuple[Variable | Function, Fresh]], j: int, body: Array
    ) -> Array:
        """How products of what a matrix meets respond where a number is added to factor j's
        variable at all neurons, as a mean that is taken off adds one: of sample c, times each b;
        centred, (draws, c b, n).

        f' times the other factors, of c, and the body of b: a product over the factors, which are
        independent, so that its mean is ⟨f'_c f_b⟩ times the others' ⟨f_c f_b⟩.
        """
        rows, means = self._others(met, j)
        factor, own = met[j]
        if isinstance(factor, Variable):
            slope, mean = np.ones((1, 1, 1)), np.zeros((1, 1))  # ⟨1 u_b⟩
        else:
            draws, m, n = own.rows.shape
            values = np.empty((draws, 2, m, n))
            at = np.ascontiguousarray(own.rows)
            self.ensemble.activation(2).differentiate(at, values)
            slope, mean = values[:, 1], slopes_of(self.ensemble.net.activation, own.covariance)
        moved = rows * slope
        found: Array = moved[:, :, None] * body[:, None] - (means * mean)[..., None]
        return found.reshape(len(body), -1, body.shape[2])

    def _others(
        self, met: Sequence[tuple[Variable | Function, Fresh]], j: int
    ) -> tuple[Array, Array]:
        """The product of all factors but j, and the means of products of it."""
        m = len(met[j][1].covariance)
        rows, means = np.ones((1, 1, 1)), np.ones((m, m))
        for k, (factor, each) in enumerate(met):
            if k != j:
                value, mean = self._factor(factor, each.rows, each.covariance)
                rows, means = rows * value, means * mean
        return rows, means

    def _factor(
        self, factor: Variable | Function, rows: Array, covariance: Array
    ) -> tuple[Array, Array]:
        """A variable, or its σ, and the means of products of it."""
        if isinstance(factor, Variable):
            return rows, covariance
        value = np.ascontiguousarray(rows).copy()
        self.ensemble.activate(value)
        return value, average_of(self.ensemble.net.activation, covariance)

    def _after(
        self,
        stage: Stage,
        place: Place,
        parts: dict[Kind, Parts],  # type: ignore[override]
        arithmetic: Arithmetic,
    ) -> State:
        assert isinstance(arithmetic, Noted)
        arithmetic.drawn.clear()
        after = super()._after(stage, place, parts, arithmetic)
        if arithmetic.means is None:
            for number, each in enumerate(parts.values()):
                if each.carried is not None:
                    arithmetic.found[place.layer, -1 - place.biases(number)] = (
                        each.carried.gram.mean(axis=0)
                    )
            return after
        before, arithmetic.fresh = arithmetic.fresh, {}
        group: int | None = None
        for number, (kind, each) in enumerate(parts.items()):
            if not each.bodies:
                mean = arithmetic.means[place.layer, -1 - place.biases(number)]
                if (same := _source(stage, kind, before)) is not None:
                    t = np.sqrt(np.trace(mean) / np.trace(same.covariance))
                    whole = Piece(same.rows, same.covariance, None).times(t)
                    of_all = [piece.times(t) for piece in same.pieces]
                    of_all += [whole] if len(same.streams) > 1 else []
                    arithmetic.fresh[kind] = same._replace(
                        rows=whole.rows,
                        covariance=whole.covariance,
                        pieces=tuple(of_all),
                        is_centred=same.is_centred or stage.has_centres,
                    )
                continue
            shared = [k for other, own in parts.items() if other != kind for k in own.bodies]
            if set(shared) & set(each.bodies):
                continue
            n = after[kind].shape[3]
            if group is None or arithmetic.groups[group].n != n:
                arithmetic.groups.append(Group(n))
                group = len(arithmetic.groups) - 1
            streams = [place.weights(k) for k in each.bodies]
            pieces = [arithmetic.drawn[stream] for stream in streams]
            covariances = [arithmetic.means[self._key(stream)] for stream in streams]
            if (bias := place.biases(number)) in arithmetic.drawn:
                streams.append(bias)
                pieces.append(arithmetic.drawn[bias])
                covariances.append(arithmetic.means[self._key(bias)])
            own = arithmetic.groups[group]
            for k, (x, covariance) in enumerate(zip(pieces, covariances, strict=True)):
                made = [_products(x, x, covariance)]
                made += [_all_products(x, y) for y in pieces[k + 1 :]]
                if each.carried is not None:
                    made.append(_all_products(each.carried.rows, x))
                if self._has_centres:
                    made.append(x)
                framing = made if self._is_nested else made[: streams[k] in arithmetic.haar]
                own.frames += range(own.count, own.count + sum(f.shape[1] for f in framing))
                own.add(made)
                offs = [arithmetic.off[stream] for stream in streams[: len(each.bodies)]]
                if self._is_nested and each.carried is not None:
                    mean = arithmetic.means[place.layer, -1 - place.biases(number)]
                    offs.append(_off(each.carried.gram, mean))
                for off in offs if self._is_nested else offs[k : k + 1]:
                    for functions in made:
                        arithmetic.cross(off, functions)
            total = np.asarray(sum(pieces), float)
            if self._has_centres:
                arithmetic.join(kind, total.mean(axis=2), carried=each.carried is not None)
            if each.carried is None:
                covariance = np.asarray(sum(covariances), float)
                of_matrices = tuple(map(Piece, pieces, covariances, streams))[: len(each.bodies)]
                streams_of = frozenset(streams)
                arithmetic.fresh[kind] = Fresh(total, covariance, group, streams_of, of_matrices)
        return after


def _source(stage: Stage, kind: Kind, before: dict[Kind, Fresh]) -> Fresh | None:
    """The fresh variable that this one is a multiple of, in a stage without matrices for it."""
    terms = [term for term in stage.equation(kind).right if term.weight is None]
    kinds = {
        each.kind
        for term in terms
        for each in term.factors
        if isinstance(each, Variable) and each.at == LEFT
    }
    if len(kinds) != 1 or any(isinstance(f, Function) for term in terms for f in term.factors):
        return None
    return before.get(kinds.pop())


def _shifted(own: Fresh, piece: Piece, c: int, d: int, t: float) -> tuple[Array, Array]:
    """Sample c of a variable and t times sample d of the piece, (draws, 1, n), and the covariance
    of all samples with that one so."""
    covariance = own.covariance.copy()
    covariance[c] += t * piece.covariance[d]
    covariance[:, c] += t * piece.covariance[:, d]
    covariance[c, c] += t**2 * piece.covariance[d, d]
    return own.rows[:, c : c + 1] + t * piece.rows[:, d : d + 1], covariance


def _off(gram: Array, mean: Array) -> Array:
    """What a Gram matrix is off, (draws, pairs)."""
    a, b = np.triu_indices(len(mean))
    found: Array = (gram - mean)[:, a, b]
    return found


def _products(x: Array, y: Array, mean: Array) -> Array:
    """x_a y_b − mean_ab for a ≤ b, (draws, pairs, n)."""
    a, b = np.triu_indices(x.shape[1])
    if len(mean) == 1:
        a, b = a[:1], b[:1]
    found: Array = x[:, a] * y[:, b] - mean[a, b][:, None]
    return found


def _all_products(x: Array, y: Array) -> Array:
    """x_a y_b, (draws, rows·rows, n)."""
    return (x[:, :, None] * y[:, None]).reshape(len(x), -1, x.shape[2])


def average_of(activation: Activation, K: Array) -> Array:
    """⟨σ_a σ_b⟩ at this covariance, (m, m)."""
    return _average_of(activation, K.shape[0], K.tobytes())


@lru_cache(maxsize=1024)
def _average_of(activation: Activation, m: int, K: bytes) -> Array:
    covariance = np.frombuffer(K).reshape(m, m)
    inputs = np.sqrt(m) * np.linalg.cholesky(covariance)
    table = flow(Network(activation, Gaussian(1)), inputs if m > 1 else inputs[0], 2, ["K"])
    return np.asarray(table["K"].values[1], float).reshape(m, m)


def slopes_of(activation: Activation, K: Array) -> Array:
    """⟨σ'_a σ_b⟩ at this covariance, (m, m), for a continuous σ."""
    return _slopes_of(activation, K.shape[0], K.tobytes())


@lru_cache(maxsize=1024)
def _slopes_of(activation: Activation, m: int, K: bytes) -> Array:
    covariance, shape = np.frombuffer(K).reshape(m, m), Shape((1, 0), (0, 0))
    pairs = product(range(m), repeat=2)
    found = [evaluate(activation, shape, covariance[np.ix_(pair, pair)]) for pair in pairs]
    return np.array(found).reshape(m, m)


def reduced(groups: Sequence[Group]) -> Array:
    """c = (1/n) Σ_i f of all functions, (draws, functions)."""
    return np.concatenate([each.moments()[0] for each in groups], axis=1)


def spread(groups: Sequence[Group], slopes: Array) -> tuple[Array, Array]:
    """ĝ = Σ β c and D = Σ_i h h/n², h = Σ β f: (draws, p) and (draws, p, p) for slopes (p,
    functions)."""
    draws = len(groups[0].functions[0])
    moved, own = np.zeros((draws, len(slopes))), np.zeros((draws, len(slopes), len(slopes)))
    at = 0
    for each in groups:
        c, square = each.moments()
        h = slopes[:, at : at + c.shape[1]]
        at += c.shape[1]
        moved += c @ h.T
        own += h @ square @ h.T
    return moved, own


def own_squares(group: Group) -> Array:
    """c c' − (1/n²) Σ_i f f' of the functions in `frames` and any other, (draws, products)."""
    c, square = group.moments()
    first, count = group.frames, c.shape[1]
    pairs = [(a, b) for k, a in enumerate(first) for b in range(count) if b not in first[:k]]
    a, b = np.array(pairs, int).reshape(-1, 2).T
    return np.asarray(c[:, a] * c[:, b] - square[:, a, b])
