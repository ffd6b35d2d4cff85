"""One input through layers of one stage: blocks of layers at a time."""

from __future__ import annotations

import numpy as np

from derive.engine.scheme import Scheme
from derive.engine.tensors import Name, named
from derive.gaussian.brackets import Bracket
from derive.weights import WeightEnsemble

from ..arrays import Array
from . import averages, stages
from .accuracy import EPS
from .averages import Copies
from .program import GATHERED, Along, Table, Tables, Times, times
from .staged import StagedLayers
from .vectors import Descent, Estimate, begun, relabelled, stacked

_BLOCK = 512
"""Layers of one input that are taken together."""

_ALONE = 64
"""Layers of one input whose K are found one after the other; then as many at once as there were."""
_STEPS = 12
"""Of Newton's method for these, at most."""
_SETTLED = 4 * EPS
"""How far each K may be off what the one below it gives, relative to it."""
_APART = 2.0**-20
"""The relative difference of two K that give f's slope."""


class Layers(StagedLayers):
    """Dense layers with one input: K of many layers at once, then all averages, then the tensors.

    Arguments:
        names: the tensors, which need no others.
        scheme: under what their recursions are derived.
        first: as of `StagedLayers`.
    """

    def __init__(self, names: tuple[Name, ...], scheme: Scheme, first: WeightEnsemble) -> None:
        super().__init__(((names,),), (scheme,), first, ((1,), 1))
        ((stage,),) = self._layers
        assert isinstance(stage, stages.Stage)
        self._kernel, self._tensors_at = names.index(named("K")), 1 + 2 * len(self.parameters)
        step = stage.steps[self._kernel]
        own = sorted({relabelled(each)[0] for each in step.atoms(Bracket)})
        places = [int(self._averages.places[k][0]) for k in own]
        self._own = averages.of_one(scheme.sigma, own), places
        self._own_at = self._tensors_at + len(names) + np.array(places, np.int64)
        self._own_table = stage.table([step])
        assert isinstance(stage.tables, Tables)
        ((self._order_of, table),) = stage.tables.by_rank
        assert isinstance(table, Table)
        follows = [k for k in range(len(names)) if k != self._kernel]
        self._along = Along(table, self._tensors_at + np.array(follows, np.int64))

    @property
    def _averages(self) -> averages.Averages:
        assert self.averages is not None
        return self.averages

    def descend(self, start: Estimate, given: Descent) -> Estimate:
        """K of a block of layers, then the averages at all of its K, then the tensors."""
        both = begun(start, len(given.parameters))
        (found, sizes_found), (parameters, noise, rounding, advance, _) = both, given
        copies, count = parameters.shape[1], len(self.names)
        own, along = self._own[0].along(), self._averages.along()
        K = found[self._kernel]
        first, last = self._tensors_at, self._tensors_at + count
        of_kernel = rounding[:, self._kernel]
        for begin in range(1, len(parameters), _BLOCK):
            block = parameters[begin : begin + _BLOCK]
            vectors = np.empty((len(block), copies + 1, last + self._averages.count))
            vectors[:, :-1, :first] = stacked(block)
            vectors[:, -1, :first] = np.abs(vectors[:, 0, :first])
            at = 0
            while at < len(block):
                layer = begin + at
                some = vectors[at : at + (layer if layer >= _ALONE else 1)]
                if len(some) == 1 or not self._kernels(own, some, K[layer - 1 :], noise, of_kernel):
                    for place, vector in enumerate(some, layer - 1):
                        K[place + 1] = self._next(
                            own, vector[None], K[place][None], noise, of_kernel
                        )
                at += len(some)
            below = K[begin - 1 : begin - 1 + len(block)]
            values, sizes = (each.transpose(1, 2, 0) for each in along(below))
            vectors[:, :-1, last:] = values + noise * sizes
            vectors[:, -1, last:] = sizes[:, 0]
            tensors = np.array([each[begin - 1] for each in found])
            above, of_terms = self._climb(vectors, tensors, K[begin:], rounding, np.multiply)
            if np.isnan(above).any():
                above, of_terms = self._climb(vectors, tensors, K[begin:], rounding, times)
            for place, each in enumerate(found):
                each[begin : begin + len(block)] = above[:, place]
                sizes_found[place][begin : begin + len(block)] = of_terms[:, place]
            advance(len(block))
        return both

    def _climb(
        self, vectors: Array, tensors: Array, K: Array, rounding: Array, times: Times
    ) -> tuple[Array, Array]:
        """The tensors of a block's layers, (layers, tensors, copies), and the sums of their terms'
        absolute values, (layers, tensors), one layer after the other by this product."""
        order = self._order_of
        step = max(1, GATHERED // (self._along.size * vectors.shape[1]))
        first, last = self._tensors_at, self._tensors_at + len(tensors)
        above = np.empty((len(vectors), *tensors.shape))
        of_terms = np.empty((len(vectors), len(tensors)))
        of_tensors = rounding[:, order]
        for at, vector in enumerate(vectors):
            if at % step == 0:
                known = self._along.known(vectors[at : at + step])
            vector[:-1, first:last] = tensors.T
            np.abs(tensors[:, 0], out=vector[-1, first:last])
            tensors = above[at]
            sums = self._along(known[at % step], vector, times)
            of_terms[at, order] = sums[-1]
            tensors[order] = (sums[:-1] + of_tensors * sums[-1]).T
            tensors[self._kernel] = K[at]
        return above, of_terms

    def _next(self, own: Copies, vectors: Array, K: Array, noise: Array, rounding: Array) -> Array:
        """K of the layers above those where it is K, (layers, copies), what they need put into
        their vectors (layers, copies + 1, places)."""
        places = self._own[1]
        at, brackets_at = self._tensors_at + self._kernel, self._own_at
        values, sizes = own(K)
        vectors[:, :-1, at], vectors[:, -1, at] = K, K[:, 0]
        vectors[:, :-1, brackets_at] = (values + noise.T[places, None] * sizes).transpose(1, 2, 0)
        vectors[:, -1, brackets_at] = sizes[:, :, 0].T
        kernels, size = self._own_table(vectors)
        return np.asarray(kernels[..., 0, 0] + rounding * size[..., 0])

    def _kernels(
        self, own: Copies, vectors: Array, K: Array, noise: Array, rounding: Array
    ) -> bool:
        """K of many layers at once, written behind its first entry; whether that went well.

        Newton's method for all K(ℓ+1) = f(K(ℓ)) together, from a K that stays: what is left of each
        equation goes up the layers by the slope there, f's difference.
        """
        below = np.repeat(K[:1], len(vectors), axis=0)
        for _ in range(_STEPS):
            above = self._next(own, vectors, below, noise, rounding)
            left = above[:-1] - below[1:]
            if not np.isfinite(left).all():
                return False
            if (np.abs(left) <= _SETTLED * np.abs(above[:-1])).all():
                K[1 : 1 + len(above)] = above
                return True
            near, first = (1.0 + _APART) * below[:, :1], vectors[:, [0, -1]]
            moved = self._next(own, first, near, noise[:1], rounding[:1])
            slopes = (moved - above[:, :1]) / (near - below[:, :1])
            if not np.isfinite(slopes).all():
                return False
            change = np.zeros(K.shape[1:])
            for place, slope in enumerate(slopes[:-1, 0].tolist()):
                change = slope * change + left[place]
                below[place + 1] += change
        return False
