"""Networks of any layer, drawn with what their innovations are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.engine import LEFT, Function, Kind, Stage, Variable
from derive.errors import InputError
from derive.weights import WeightEnsemble
from numeric.arrays import Array
from numeric.random import COLUMN, GAUSSIAN, HAAR, lazy
from numeric.samplers import Arithmetic, Parts, ProbeSampler
from numeric.samplers.probing import kernels
from numeric.samplers.stage_tables import _NUMBER, Place
from numeric.samplers.staged import State, _Vectors

from .bodies import note_bodies
from .controls import Group, all_products, products
from .noted import Fresh, Key, Means, Noted, Piece, off_mean

_APART = 1e-6
"""Of the largest length: what a vector has beside the others, or it is dependent on them."""


@dataclass(frozen=True, eq=False)
class InnovatingSampler(ProbeSampler):
    """`ProbeSampler`'s networks, the innovations beside their statistics."""

    name: ClassVar[str] = "innovations"

    def mean_grams(self, draws: NDArray[np.int64]) -> Means:
        """What the vectors' Gram matrices are on average, of these networks."""
        for layer in range(2, self.ensemble.depth + 1):
            assert not self.ensemble.net.layer_at(layer, self.ensemble.depth).is_bound
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
        kernels().apply(S, X, Z, W, arithmetic.draws, factor, source)
        if arithmetic.means is None:
            arithmetic.found[self._key(stream)] = float(weights.C_W) * S.mean(axis=0)
        else:
            mean = arithmetic.means[self._key(stream)]
            arithmetic.off[stream] = off_mean(float(weights.C_W) * S, mean)
            if frame:
                arithmetic.haar.add(stream)
            own, root = self._roots(weights, S, mean, stream & (1 << _NUMBER) - 1)
            normal = np.linalg.solve(own, W[:, :, :n] if frame else Z)
            if frame and step.big == n:
                F = np.linalg.solve(own, Z)
                # independent of the frame F, so that (w wᵀ/n)^{1/2} F has the law of w
                sizes, turns = np.linalg.eigh(normal @ normal.swapaxes(1, 2) / n)
                normal = (turns * np.sqrt(sizes)[:, None]) @ turns.swapaxes(1, 2) @ F
            arithmetic.drawn[stream] = np.asarray(root @ normal, float)
        return Z.reshape(*met.jet.shape[:3], n)

    def _roots(
        self, weights: WeightEnsemble, S: Array, mean: Array, layer: int
    ) -> tuple[Array, Array]:
        """Cholesky's factors of the vectors' own Gram matrices, C_W S, and of the mean one."""
        try:
            own = np.linalg.cholesky(float(weights.C_W) * S)
            root = np.linalg.cholesky(mean)
            least = np.diagonal(own, axis1=1, axis2=2).min(axis=1)
            if (least < _APART * np.abs(own).max(axis=(1, 2))).any():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            raise self._not_apart(weights, S, layer) from None
        return np.asarray(own, float), np.asarray(root, float)

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
                note_bodies(self.ensemble, stage, equation, arithmetic)
        return super()._parts(stage, place, state, arithmetic)

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
                    multiple = _multiple(same, np.sqrt(np.trace(mean) / np.trace(same.covariance)))
                    centred = same.is_centred or stage.has_centres
                    arithmetic.fresh[kind] = multiple._replace(is_centred=centred)
                continue
            shared = [k for other, own in parts.items() if other != kind for k in own.bodies]
            if set(shared) & set(each.bodies):
                continue
            n = after[kind].shape[3]
            if group is None or arithmetic.groups[group].n != n:
                arithmetic.groups.append(Group(n))
                group = len(arithmetic.groups) - 1
            streams = [place.weights(k) for k in each.bodies]
            if (bias := place.biases(number)) in arithmetic.drawn:
                streams.append(bias)
            pieces = [
                Piece(arithmetic.drawn[stream], arithmetic.means[self._key(stream)], stream)
                for stream in streams
            ]
            self._note_pieces(pieces, each, place, number, arithmetic.groups[group], arithmetic)
            total = np.asarray(sum(piece.rows for piece in pieces), float)
            if self._has_centres:
                arithmetic.join(kind, total.mean(axis=2), carried=each.carried is not None)
            if each.carried is None:
                covariance = np.asarray(sum(piece.covariance for piece in pieces), float)
                of_matrices = tuple(pieces[: len(each.bodies)])
                streams_of = frozenset(streams)
                arithmetic.fresh[kind] = Fresh(total, covariance, group, streams_of, of_matrices)
        return after

    def _note_pieces(
        self,
        pieces: Sequence[Piece],
        parts: Parts,
        place: Place,
        number: int,
        group: Group,
        noted: Noted,
    ) -> None:
        """Add the products of what matrices and biases add to a variable, of this number, with each
        other and with what is carried, and cross them with what is off below."""
        assert noted.means is not None
        matrices = pieces[: len(parts.bodies)]
        offs = [noted.off[piece.stream] for piece in matrices if piece.stream is not None]
        if self._is_nested and parts.carried is not None:
            mean = noted.means[place.layer, -1 - place.biases(number)]
            offs.append(off_mean(parts.carried.gram, mean))
        for k, (x, covariance, stream) in enumerate(pieces):
            made = [products(x, x, covariance)]
            made += [all_products(x, other.rows) for other in pieces[k + 1 :]]
            if parts.carried is not None:
                made.append(all_products(parts.carried.rows, x))
            if self._has_centres:
                made.append(x)
            framing = made if self._is_nested else made[: stream in noted.haar]
            group.frames += range(group.count, group.count + sum(f.shape[1] for f in framing))
            group.add(made)
            for off in offs if self._is_nested else offs[k : k + 1]:
                for functions in made:
                    noted.cross(off, functions)


def _multiple(same: Fresh, t: float) -> Fresh:
    """t times a variable, all of it a piece too where it has several."""
    whole = Piece(same.rows, same.covariance, None).times(t)
    of_all = [piece.times(t) for piece in same.pieces]
    of_all += [whole] if len(same.streams) > 1 else []
    return same._replace(rows=whole.rows, covariance=whole.covariance, pieces=tuple(of_all))


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
