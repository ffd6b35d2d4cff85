"""Tensors layer by layer: the recursions of one network, ready to run at any kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter
from derive.arithmetic.polynomials import Atom
from derive.engine.scheme import Scheme
from derive.engine.step import Step
from derive.engine.tensors import Name, Tensor, identify, named
from derive.gaussian.brackets import Bracket
from derive.weights import WeightEnsemble

from ..arrays import Array
from . import averages
from .accuracy import EPS
from .averages import Copies
from .program import GATHERED, Along, Table, Tables, Times, times
from .resting import Degenerate, on_kink
from .start import Start
from .steps import parameters_of, steps_of
from .vectors import (
    Both,
    Descent,
    begun,
    disturbed,
    put,
    relabelled,
    side_by_side,
    stacked,
    with_sizes,
)

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


class Layers:
    """The recursions of these tensors, which need no others.

    Arguments:
        names: the tensors; what their recursions need is among them.
        activation: σ.
        scheme: under what the recursions are derived.
        first: the weights of layer 1.
        m: inputs.
        change: puts another recursion in the place of each.

    Attributes:
        parameters: the names of the hyperparameters that occur.
        averages: of the brackets.
        noises: how many those are.
        orders: of the inputs' means that layer 1 depends on (`input_means`).

    Raises:
        InputError: where a bracket is infinite at every K, as for σ''σ'' with kinks.
    """

    def __init__(
        self,
        names: tuple[Name, ...],
        activation: Activation,
        scheme: Scheme,
        first: WeightEnsemble,
        m: int,
        change: Callable[[Step], Step] | None = None,
    ) -> None:
        self.names, self._m, self._activation = names, m, activation
        self._kernel = names.index(named("K"))
        bound = replace(scheme, activation=activation)
        (steps,) = steps_of(bound, (names,), change)
        (starts,) = steps_of(bound.first(first), (names,), change)
        self.parameters = parameters_of([*steps, *starts])
        averaged = sorted({relabelled(each)[0] for step in steps for each in step.atoms(Bracket)})
        self.averages = (
            averages.of_one(activation, averaged)
            if m == 1
            else averages.of_several(activation, averaged, m)
        )
        self.noises = self.averages.count
        ranks = [0 if m == 1 else len(name.subscripts) for name in names]
        self._shapes = [(m,) * rank for rank in ranks]
        self._lay_out(averaged)
        self._tables = Tables(steps, m, self._find)
        if m == 1:
            own = sorted({relabelled(each)[0] for each in steps[self._kernel].atoms(Bracket)})
            self._own = (
                averages.of_one(activation, own),
                [int(self.averages.places[k][0]) for k in own],
            )
            self._own_at = self._tensors_at + len(names) + np.array(self._own[1], np.int64)
            self._own_table = Table([steps[self._kernel]], 1, self._find)
            ((_, table),) = self._tables.by_rank
            assert isinstance(table, Table)
            follows = [k for k in range(len(names)) if k != self._kernel]
            self._along = Along(table, self._tensors_at + np.array(follows, np.int64))
        self._start = Start(starts, self.parameters, m)
        self.orders = self._start.orders

    def _lay_out(self, averaged: Sequence[Bracket]) -> None:
        """Where everything begins in the vector: 1, hyperparameters, their inverses, tensors or the
        inputs' kernel, brackets."""
        count = len(self.parameters)
        self._tensors_at = 1 + 2 * count
        self._begins: dict[Atom, int] = {}
        end = self._tensors_at
        for name, shape in zip(self.names, self._shapes, strict=True):
            self._begins[name] = end
            end += int(np.prod(shape))
        found = [self.averages.places[each] for each in averaged]
        for bracket, places in zip(averaged, found, strict=True):
            self._begins[bracket] = end
            end += places[0].size
        self._sums = side_by_side(found, self.averages.count)

    def _find(self, atom: Atom, inverse: bool) -> tuple[int, Sequence[int]]:
        if isinstance(atom, Parameter):
            return self._parameter(atom, inverse), ()
        if isinstance(atom, Bracket):
            bracket, labels = relabelled(atom)
            return self._begins[bracket], labels
        assert isinstance(atom, Tensor)
        name, labels = identify(atom)
        return self._begins[name], labels

    def _parameter(self, atom: Parameter, inverse: bool) -> int:
        return 1 + self.parameters.index(atom.name) + inverse * len(self.parameters)

    def first(self, kernel: Array, parameters: Array) -> Both:
        """The tensors at layer 1, (copies, m, m, …) each, and the sizes of the first copy's, sums
        of the absolute values of their terms, (m, m, …) each.

        Arguments:
            kernel: of the inputs, (m, m), or their `input_means` of `orders`.
            parameters: at layer 1, (copies, parameters).
        """
        return self._start(kernel, parameters)

    def degenerate(
        self, tensors: Sequence[Array], parameters: Array, layer: int
    ) -> Degenerate | None:
        """The first sample whose z = 0 leaves a value undefined in a layer; None if there is none.

        Arguments:
            tensors: the tensors of the layer below, (m, m, …) each.
            parameters: (1, parameters).
            layer: 2, 3, …
        """
        return on_kink(self._activation, tensors[self._kernel])

    def descend(self, start: Both, given: Descent) -> Both:
        """The tensors at every layer, (depth, copies, m, m, …) each, and the sizes of the first
        copy's, (depth, m, m, …) each; `start` has those at layer 1."""
        both = begun(start, len(given.parameters))
        down = self._descend_one if self._m == 1 else self._descend_several
        down(both, given)
        return both

    def _descend_several(self, both: Both, given: Descent) -> None:
        """Layer by layer."""
        (found, _), (parameters, noise, rounding, advance) = both, given
        copies, average = parameters.shape[1], self.averages.copies()
        for layer in range(1, len(parameters)):
            values, sizes = average(found[self._kernel][layer - 1])
            parts = disturbed(values, sizes, noise, self._sums)
            below = (with_sizes(each[layer - 1].reshape(copies, -1)) for each in found)
            vectors = stacked(with_sizes(parameters[layer]), *below, parts)
            del values, sizes, parts  # as large as the fourth power of the inputs
            above = self._tables(vectors)
            del vectors
            put(both, layer, above, rounding)
            del above
            advance(1)

    def _descend_one(self, both: Both, given: Descent) -> None:
        """A block of layers at a time: K, then the averages at all of its K, then the tensors."""
        (found, sizes_found), (parameters, noise, rounding, advance) = both, given
        copies, count = parameters.shape[1], len(self.names)
        own, along = self._own[0].along(), self.averages.along()
        K = found[self._kernel]
        first, last = self._tensors_at, self._tensors_at + count
        of_kernel = rounding[:, self._kernel]
        for begin in range(1, len(parameters), _BLOCK):
            block = parameters[begin : begin + _BLOCK]
            vectors = np.empty((len(block), copies + 1, last + self.averages.count))
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

    def _climb(
        self, vectors: Array, tensors: Array, K: Array, rounding: Array, times: Times
    ) -> tuple[Array, Array]:
        """The tensors of a block's layers, (layers, tensors, copies), and the sums of their terms'
        absolute values, (layers, tensors), one layer after the other by this product."""
        ((order, _),) = self._tables.by_rank
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
