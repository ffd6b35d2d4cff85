"""Skips around one matrix, run layer by layer: G1, V and the sequences that close them.

`derive.engine.exchangeable` derives what moves: V, G1 and One(:zzzz:), tensors of the samples, and
Two(:z_a z_b:, g) and One(g) of functions g of the z of two samples, which are kept as Hermite
coefficients in those samples' own basis (`hermite`), up to a degree N. What that leaves out of
Two(:zz:, σσ) and One(σσ) is bounded: the functionals beyond N, by the lengths of what Γ has brought
there, which shrinks as ‖γ L'⁻¹L‖^N, times the length of σσ beyond N by Parseval's theorem. That
bound, and what ⟨σσ⟩ says of the coefficients' quadrature, is added to what the copies of `accuracy`
are disturbed by, so that a tensor's error has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Expansion
from derive.engine.exchangeable import Choices, Mean, One, Power, Test, Two, skip_of
from derive.engine.scheme import Scheme
from derive.engine.sequences import CLOSED, quartic_of, recursion_of, sequence_of
from derive.engine.step import closures
from derive.engine.tensors import Name, Tensor, identify, named
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble

from ...arrays import Array
from .. import averages as of
from ..accuracy import CAUTION
from ..run import Layers
from ..staged import StagedLayers
from ..vectors import Both, begun, disturbed, put, relabelled, side_by_side, with_sizes
from .hermite import Basis, Contraction, Products, basis, block, of_tensor, raised

_K, _G1, _V = named("K"), *CLOSED

Placed: TypeAlias = tuple[Array, tuple[int, ...]]
"""Values, (copies, m, …) or with coefficients last, and the sample label of each axis."""


DEGREES = 256, 48
"""N with one input, and with several."""

Terms: TypeAlias = "list[tuple[float, list[tuple[Any, int]]]]"
"""A coefficient, and atoms with their powers."""


class _Layer(NamedTuple):
    """What is derived of one layer: the terms of G1, V, One(:zzzz:), and of the sequences."""

    metric: Terms
    vertex: Terms
    quartic: Terms
    pairs: Terms
    singles: Terms
    gamma: Terms


def _derived(scheme: Scheme, m: int) -> _Layer:
    """Of a layer; InputError for one that is neither dense nor a skip around one matrix."""
    scheme.check_numbers()
    skip = skip_of(scheme.stages)
    if skip is None:
        wanted = "skips around one matrix without a norm, or dense, for G1 and V of several inputs"
        raise InputError("layer", str(scheme.layer), wanted)
    if not scheme.square or scheme.corrections:
        wanted = "equal widths and variances without corrections, for G1 and V under such a skip"
        raise InputError("layer", str(scheme.layer), wanted)
    given, samples = (skip, scheme.weights), (1, 2, 3, 4) if m > 1 else (1, 1, 1, 1)
    value, symbols = skip.gamma
    found = (
        recursion_of(_G1, *given, samples[:2]),
        recursion_of(_V, *given, samples),
        quartic_of(*given, samples),
        sequence_of(_V, *given, samples[:2]),
        sequence_of(_G1, *given, samples[:2]),
        {(symbols, 0): value},
    )
    return _Layer(*map(_listed, found))


def _listed(terms: Expansion) -> Terms:
    """In an order that is the same in every process: sums are rounded."""
    found = [(float(value), sorted(mono, key=str)) for (mono, _), value in terms.items()]
    return sorted(found, key=str)


class ExchangeableLayers:
    """G1 and V of layers that are skips around one matrix, or dense; and K and Θ.

    Arguments:
        names: those that are wanted.
        activation: σ.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        m: inputs.
        order: which of the layers are layers 2, 3, …

    Attributes: as of `run.Layers`.

    Raises InputError for layers of other kinds among them, and tensors other than these.
    """

    orders = (2,)
    """Of the inputs' means that layer 1 depends on: their kernel alone."""

    def __init__(
        self,
        names: tuple[Name, ...],
        activation: Activation,
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        m: int,
        order: Sequence[int],
    ) -> None:
        others = tuple(dict.fromkeys([_K, *(name for name in names if name not in CLOSED)]))
        plain = StagedLayers(closures(others, schemes), activation, schemes, first, m)
        self._plain = plain.along(order)
        self.names = (*self._plain.names, *CLOSED)
        start = Scheme(schemes[0].weights, schemes[0].square, schemes[0].corrections, m == 1)
        self._start = Layers((_K, *CLOSED), activation, start, first, m)
        self.m, self._order = m, order
        self._layers = [_derived(scheme, m) for scheme in schemes]
        self.parameters = sorted({*self._plain.parameters, *self._start.parameters})
        found = {
            relabelled(atom)[0]
            for layer in self._layers
            for terms in layer
            for _, mono in terms
            for atom, _ in mono
            if isinstance(atom, Bracket)
        }
        self._brackets = sorted(found)
        self._averages = (
            of.of_one(activation, self._brackets)
            if m == 1
            else of.of_several(activation, self._brackets, m, apart=True)
        )
        places = [self._averages.places[each] for each in self._brackets]
        self._sums = side_by_side(places, self._averages.count)
        self._shapes = [(m,) * len(relabelled(each)[1]) for each in self._brackets]
        self.products, self.degree = Products(activation), DEGREES[m > 1]
        self.pairs = list(combinations_with_replacement(range(m), 2))
        self.noises = self._plain.noises + self._averages.count + 2 * len(self.pairs)

    def averages(self, K: Array) -> tuple[Array, Array]:
        """Of the brackets at a kernel."""
        return self._averages(K)

    def first(self, kernel: Array, parameters: Array) -> Both:
        """The tensors at layer 1, and their sizes; as `run.Layers.first`."""
        values, sizes = self._plain.first(
            kernel, _columns(parameters, self.parameters, self._plain.parameters)
        )
        own, of_own = self._start.first(
            kernel, _columns(parameters, self.parameters, self._start.parameters)
        )
        return [*values, *own[1:]], [*sizes, *of_own[1:]]

    def descend(
        self,
        start: Both,
        parameters: Array,
        noise: Array,
        rounding: Array,
        advance: Callable[[float], None],
    ) -> Both:
        """The tensors at every layer, and their sizes; as `run.Layers.descend`."""
        known, count = len(self._plain.names), self._plain.noises
        columns = _columns(parameters, self.parameters, self._plain.parameters)
        head = start[0][:known], start[1][:known]
        plain, of_plain = self._plain.descend(
            head, columns, noise[:, :count], rounding[:, :known], lambda layers: None
        )
        own, of_own = begun((start[0][known:], start[1][known:]), len(parameters))
        shape = (*plain[0].shape[:2], self.m, self.m)
        kernels = plain[self._plain.names.index(_K)].reshape(shape)
        average = self._average()
        state = self._begin(kernels[0, 0], own)
        for layer in range(1, len(parameters)):
            derived = self._layers[self._order[layer - 1]]
            values = dict(zip(self.parameters, parameters[layer].T, strict=True))
            found = _Pass(
                self, derived, state, kernels[layer - 1], values, average, noise[:, count:]
            )
            put((own, of_own), layer, found.tensors(own, layer), rounding[:, known:])
            state = found.after(kernels[layer, 0], own, layer)
            advance(1)
        return [*plain, *own], [*of_plain, *of_own]

    def _average(self) -> Callable[[Array], tuple[Array, Array]]:
        if self.m > 1:
            return self._averages.copies()

        def average(K: Array) -> tuple[Array, Array]:
            values, sizes = self._averages(K.reshape(-1))
            return values.T, sizes[:, 0]

        return average

    def bracketed(
        self, average: Callable[[Array], tuple[Array, Array]], K: Array, noise: Array
    ) -> dict[Bracket, Array]:
        """The brackets at a kernel, those of the copies and their sizes: (copies + 1, m, …)."""
        found = disturbed(*average(K), noise[:, : self._averages.count], self._sums)
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        parts = np.split(found, ends[:-1], axis=1)
        return {
            bracket: part.reshape(-1, *shape)
            for bracket, part, shape in zip(self._brackets, parts, self._shapes, strict=True)
        }

    def _begin(self, K: Array, own: list[Array]) -> _State:
        """At layer 1 rotations keep the law, and V is all that there is."""
        copies, m = own[1].shape[1], self.m
        V, G1 = (own[k][0].reshape(copies, *(m,) * rank) for k, rank in ((1, 4), (0, 2)))
        quartic = V + V.transpose(0, 1, 3, 2, 4) + V.transpose(0, 1, 4, 3, 2)
        bases = [basis(K, pair, self.degree) for pair in self.pairs]
        two = [np.zeros((copies, m, m, each.size)) for each in bases]
        one = [np.zeros((copies, each.size)) for each in bases]
        state = _State(
            bases, two, one, quartic, [np.zeros((m, m))] * len(bases), [0.0] * len(bases)
        )
        return state.with_tensors(V, G1, self.pairs)


class _State(NamedTuple):
    """Behind a layer: the bases of all pairs of samples, Two(:z_a z_b:, ·) on each, (copies, m, m,
    size), One, (copies, size), One(:zzzz:), and how long both are at most beyond N."""

    bases: list[Basis]
    two: list[Array]
    one: list[Array]
    quartic: Array
    two_beyond: list[Array]
    one_beyond: list[float]

    def with_tensors(self, V: Array, G1: Array, pairs: Sequence[tuple[int, int]]) -> _State:
        """With what degrees 2 and 4 have from V, G1 and One(:zzzz:), and nothing at degree 0."""
        for own, two, one, pair in zip(self.bases, self.two, self.one, pairs, strict=True):
            samples = list(dict.fromkeys(pair))
            at = np.ix_(samples, samples)
            second, fourth = (block(own.rank, degree) for degree in (2, 4))
            two[..., 0], one[..., 0] = 0.0, 0.0
            two[..., second] = of_tensor(own, _at_samples(V, at), 2)
            one[..., second] = of_tensor(own, _at_samples(G1, at), 2)
            one[..., fourth] = of_tensor(own, _at_samples(self.quartic, np.ix_(*[samples] * 4)), 4)
        return self


class _Pass:
    """One layer: what stands for each atom below it, and what is above."""

    def __init__(
        self,
        layers: ExchangeableLayers,
        derived: _Layer,
        state: _State,
        K: Array,
        parameters: Mapping[str, Array],
        average: Callable[[Array], tuple[Array, Array]],
        noise: Array,
    ) -> None:
        self._layers, self._derived, self._state = layers, derived, state
        self._K, self._parameters = K, parameters
        self._pairs, self._m = layers.pairs, layers.m
        self._brackets = layers.bracketed(average, K, noise)
        own = noise[:, -2 * len(self._pairs) :]
        found = [layers.products(each) for each in state.bases]
        self._squares = [each for each, _ in found]
        self._beyond = [length for _, length in found]
        self._tensors: dict[Name, Array] = {}
        self._noise = own
        self._responses()

    def _responses(self) -> None:
        """Two(:z_a z_b:, σσ) and One(σσ), (copies + 1, m, …), with what is left out of them."""
        state, m, copies = self._state, self._m, len(self._K)
        self._two = np.zeros((copies + 1, m, m, m, m))  # sizes last
        self._one = np.zeros((copies + 1, m, m))
        signs = np.array([0.0, *(1.0 if k % 2 else -1.0 for k in range(1, copies))])
        for p, (c, d) in enumerate(self._pairs):
            s, noise = self._squares[p], self._noise[:, 2 * p : 2 * p + 2]
            two, one = state.two[p] @ s, state.one[p] @ s
            size = _length(s)  # each coefficient is rounded as its sum over the nodes is
            of_two, of_one = size * _length(state.two[p][0]), size * _length(state.one[p][0])
            off = self._departure(p)
            left_two = state.two_beyond[p] * self._beyond[p] + off * _length(state.two[p][0])
            left_one = state.one_beyond[p] * self._beyond[p] + off * _length(state.one[p][0])
            left_two, left_one = left_two / CAUTION, left_one / CAUTION
            two = two + noise[:, :1, None] * of_two + signs[:, None, None] * left_two
            one = one + noise[:, 1] * of_one + signs * left_one
            for a, b in {(c, d), (d, c)}:
                self._two[:copies, :, :, a, b], self._two[copies, :, :, a, b] = two, of_two
                self._one[:copies, a, b], self._one[copies, a, b] = one, of_one

    def _departure(self, p: int) -> float:
        """How far the quadrature of the coefficients is off, by ⟨σσ⟩, which has an own rule."""
        pair = self._pairs[p] if self._m > 1 else ()
        labels = (0, 1) if self._m > 1 else (0, 0)
        known = self._brackets[Bracket(((labels[0], 0), (labels[1], 0)))][0]
        return abs(float(known[pair].item()) - float(self._squares[p][0]))

    def tensors(self, own: list[Array], layer: int) -> Both:
        """G1 and V above, and their sizes."""
        m, copies = self._m, len(self._K)
        for name, each in zip(CLOSED, own, strict=True):
            rank = len(name.subscripts)
            self._tensors[name] = each[layer - 1].reshape(copies, *(m,) * rank)
        self._tensors[_K] = self._K
        values, sizes = [], []
        for terms, rank, each in (
            (self._derived.metric, 2, own[0]),
            (self._derived.vertex, 4, own[1]),
        ):
            value, size = self._summed(terms, rank)
            values.append(value.reshape(each.shape[1:]))
            sizes.append(size.reshape(each.shape[2:]))
        return values, sizes

    def after(self, K: Array, own: list[Array], layer: int) -> _State:
        """The state above, with the tensors there."""
        m, copies, before = self._m, len(self._K), self._state
        quartic, _ = self._summed(self._derived.quartic, 4)
        N, gamma = self._layers.degree, float(self._summed(self._derived.gamma, 0)[0][0])
        bases = [basis(K, pair, N) for pair in self._pairs]
        two, one, two_beyond, one_beyond = [], [], [], []
        for p, (old, new) in enumerate(zip(before.bases, bases, strict=True)):
            shift = gamma * new.inverse @ old.L
            move = Contraction(shift, N)
            lift = float(np.linalg.norm(shift, 2))
            sources, lengths = self._sources(p)
            pairs = self._sequence(self._derived.pairs, before.two[p], sources)
            two.append(move(pairs))
            total = move(before.one[p])
            removed = move(self._sequence(self._derived.singles, before.two[p], sources))
            samples = list(dict.fromkeys(self._pairs[p]))
            for a, first in enumerate(samples):
                for b, second in enumerate(samples):
                    total = total + 0.5 * raised(new, b, raised(new, a, removed[:, first, second]))
            one.append(total)
            grown = [
                self._sequence(terms, before.two_beyond[p], lengths, sizes=True)
                for terms in (self._derived.pairs, self._derived.singles)
            ]
            two_beyond.append(lift ** (N + 1) * grown[0])
            last = slice(block(new.rank, N - 1).start, None)
            edge = (N + 2) * float(np.sqrt((removed[0, ..., last] ** 2).sum(axis=-1)).max())
            far = max(N + 3.0, 1.0 / max(-math.log(max(lift, 1e-300)), 1e-9))
            beyond = edge + far * lift ** (far - 2.0) * float(grown[1].max())
            scale = 0.5 * len(samples) ** 2 * float(np.linalg.norm(new.inverse, 2)) ** 2
            one_beyond.append(lift ** (N + 1) * before.one_beyond[p] + scale * beyond)
        V, G1 = (own[k][layer].reshape(copies, *(m,) * rank) for k, rank in ((1, 4), (0, 2)))
        state = _State(bases, two, one, quartic, two_beyond, one_beyond)
        return state.with_tensors(V, G1, self._pairs)

    def _sources(self, p: int) -> tuple[Array, Array]:
        """⟨:z^β: σ_a σ_b⟩ in the basis of a pair, (m, m, size), and the lengths of what lies
        beyond N."""
        own, K, m = self._state.bases[p], self._K[0], self._m
        found, lengths = np.zeros((m, m, own.size)), np.zeros((m, m))
        for k, (c, d) in enumerate(self._pairs):
            other = self._state.bases[k]
            A = own.inverse @ K[np.ix_(own.samples, other.samples)] @ other.inverse.T
            values = Contraction(A, own.degree)(self._squares[k])
            lift = min(float(np.linalg.norm(A, 2)), 1.0)
            for a, b in {(c, d), (d, c)}:
                found[a, b] = values
                lengths[a, b] = lift ** (own.degree + 1) * self._beyond[k]
        return found, lengths

    def lookup(self, atom: object) -> Placed:
        """What stands for an atom that is no sequence: (copies + 1, m, …), sizes last."""
        if isinstance(atom, Parameter | Value):
            return with_sizes(self._number(atom)), ()
        if isinstance(atom, Bracket):
            bracket, labels = relabelled(atom)
            return self._brackets[bracket], labels
        if isinstance(atom, Tensor):
            name, labels = identify(atom)
            return with_sizes(self._tensors[name]), labels
        if (
            isinstance(atom, Two)
            and isinstance(atom.one, Test)
            and not isinstance(atom.other, Test)
        ):
            return self._two, (*atom.one.labels, *atom.other)
        if isinstance(atom, One) and isinstance(atom.of, Test):
            return with_sizes(self._state.quartic), atom.of.labels
        assert isinstance(atom, One)
        assert not isinstance(atom.of, Test)
        return self._one, atom.of

    def _number(self, atom: Parameter | Value) -> Array:
        if isinstance(atom, Parameter):
            return self._parameters[atom.name]
        value = atom.expr
        if value.is_number:
            return np.full(len(self._K), float(value))
        known = {
            PARAMETERS.get(name, sympy.Symbol(name)): each[0]
            for name, each in self._parameters.items()
        }
        return np.full(len(self._K), float(value.subs(known)))

    def _summed(self, terms: Terms, rank: int) -> tuple[Array, Array]:
        """The terms over samples 1 … rank, (copies, m, …), and their sizes (m, …)."""
        total = np.zeros((len(self._K) + 1, *(self._m,) * rank))
        for value, atoms in terms:
            part = np.full((len(total), *(1,) * rank), value)
            for atom, exponent in atoms:
                part = part * placed(*self.lookup(atom), rank) ** exponent
            total[:-1] += part[:-1]
            total[-1] += np.abs(part[-1])
        return total[:-1], total[-1]

    def _sequence(self, terms: Terms, two: Array, sources: Array, *, sizes: bool = False) -> Array:
        """Terms that are linear in Two(:z_1 z_2:, ·) and ⟨:z^β: σ_1 σ_2⟩, before Γ: (copies, m, m,
        size); of their sizes, (m, m), the sums of the absolute values."""
        copies = len(self._K)
        total = np.zeros((copies, *sources.shape))
        for value, atoms in terms:
            part = np.full((copies, 1, 1), value)
            own: Placed | None = None
            for atom, exponent in atoms:
                if isinstance(atom, Mean) and atom.test.removed is not None:
                    own = np.broadcast_to(sources, total.shape), atom.squares[0]
                elif isinstance(atom, Two) and isinstance(atom.other, Test):
                    assert isinstance(atom.one, Test)
                    own = np.broadcast_to(two, total.shape), atom.one.labels
                elif not isinstance(atom, One | Power | Choices):
                    each, labels = self.lookup(atom)
                    part = part * placed(each[:copies], labels, 2) ** exponent
            if own is not None:
                part = np.abs(part) if sizes else part[..., None]
                total = total + part * placed(*own, 2)
        return np.asarray(total[0] if sizes else total)


def _length(coefficients: Array) -> Array:
    """Of functions by their coefficients, the last axis."""
    return np.asarray(np.sqrt((coefficients**2).sum(axis=-1)))


def _at_samples(tensor: Array, at: tuple[NDArray[Any], ...]) -> Array:
    """The last axes at some samples, as `np.ix_` has them."""
    index: tuple[Any, ...] = (..., *at)
    return np.asarray(tensor[index])


def placed(values: Array, labels: Sequence[int], rank: int) -> Array:
    """Values over samples with these labels, (copies, m, …), over labels 1 … rank: where labels
    meet the diagonal, of others one entry. An axis of coefficients stays last."""
    letters = "".join(chr(ord("a") + label) for label in labels)
    kept = "".join(sorted(set(letters)))
    found: Array = np.einsum(f"Z{letters}...->Z{kept}...", values)
    shape = [1] * rank
    for letter, size in zip(kept, found.shape[1:], strict=False):
        shape[ord(letter) - ord("b")] = size
    return found.reshape(len(found), *shape, *found.shape[1 + len(kept) :])


def _columns(values: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """The parameters of these names, along the last axis."""
    return values[..., [list(names).index(name) for name in wanted]]
