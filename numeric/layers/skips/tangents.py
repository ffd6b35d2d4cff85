"""Skips around one matrix, run layer by layer: G1, V, Θ1, D, F, A, B and what closes them.

`derive.engine.skip_closure` derives what moves: the tensors, and functionals X(f) of functions of
the z of one neuron, Two(:zz:, f), One(f), Own(f), Apart(f), Across(z, f) and Square(1, f), kept by
their Hermite coefficients (`functionals`), so that X(σσ), X(σσ') and X(σ'σ') of two samples are
sums over the coefficients of these (`hermite`).

What N leaves out of such a sum is bounded: the functional beyond N times the length of the function
beyond N by Parseval's theorem. That bound, and what ⟨σσ⟩ says of the coefficients' quadrature, is
added to what the copies of `accuracy` are disturbed by, so that a tensor's error has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import of_kind
from derive.engine.atoms import read
from derive.engine.scheme import Scheme
from derive.engine.skip_closure import (
    RANKS,
    functional_in,
    subscripts,
)
from derive.engine.step import closures
from derive.engine.taps import ALONE, MOVED
from derive.engine.tensors import Name, Tensor, identify, named
from derive.engine.through import Response
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble
from derive.work.caches import cache
from derive.work.resources import check_memory

from ...arrays import Array
from .. import averages as of
from ..accuracy import CAUTION, RUNS
from ..resting import Degenerate
from ..staged import StagedLayers, at_layer_1
from ..stages import Stage
from ..steps import means_of, parameters_of, steps_of
from ..vectors import Descent, Estimate, begun, disturbed, put, relabelled, side_by_side, with_sizes
from .derived import Derived, Term, bent_of, closed, others, product_of
from .functionals import (
    BLOCK,
    Functionals,
    Move,
    at_first,
    bases_of,
    bent,
    bent_tail,
    length,
    tails,
)
from .hermite import Basis, Contraction, Orders, Products, degrees
from .reading import Arguments, Over, Reading, added, at_pair, over, results

_K = named("K")
_EQUAL = 1e-9
"""The largest relative difference of standard deviations of inputs that are the same."""
DEGREES = 256, 48
"""N with one input, and with several."""
Average: TypeAlias = "Callable[[Array], tuple[Array, Array]]"
"""The averages at a kernel, and their sizes."""


class _Test(NamedTuple):
    """A functional of the function on the left: its kind, the orders of a product that it is taken
    of, the labels of its samples, and the taps of their numbers."""

    kind: str
    orders: Orders
    labels: tuple[int, ...]
    taps: tuple[tuple[int, int], ...]


class Rules:
    """The averages of one activation and the Hermite coefficients of its products.

    Arguments:
        activation: σ.
        every: the terms of these layers.
        m: inputs.
        several: whether each sample has a label of its own.

    Attributes:
        averages: those in the terms, and those that are checked.
        count: of the averages.
        responses: the functionals X(σσ) in the terms, each with the orders of its product.
        bends: the products that are derivatives of others, where σ has kinks.
        products: the coefficients of each product.
        checks: the averages that tell how good the coefficients are.
    """

    def __init__(
        self, activation: Activation, every: Sequence[Term], m: int, *, several: bool
    ) -> None:
        atoms = {atom for term in every for atom, _ in term.atoms}
        known = [each for each in map(functional_in, atoms) if each and each[1].factors]
        found = {(kind, product_of(local, several=several)[0]) for kind, local in known}
        self.responses = sorted(found)
        tests = {
            product_of(term.of[1], several=several)[0] for term in every if term.test is not None
        }
        bends = {orders: bent_of(orders, activation) for orders in {o for _, o in found} | tests}
        self.bends = {orders: bend for orders, bend in bends.items() if bend}
        assert not tests & self.bends.keys()
        plain = {bend.orders if bend else orders for orders, bend in bends.items()}
        self.products = {each: Products(activation, each) for each in sorted(plain) if each}
        crossed = {each[::-1] for each in self.products} - self.products.keys()
        self.products |= {each: Products(activation, each) for each in sorted(crossed)}
        self.checks = {
            each: Bracket(tuple((k, order) for k, own in enumerate(each) for order in own))
            for each in self.products
            if min(map(min, each)) >= 0 and each == tuple(sorted(each))
        }
        brackets = {relabelled(bracket)[0] for bracket in of_kind(atoms, Bracket)}
        self._brackets = sorted({*brackets, *self.checks.values()})
        self.averages = (
            of.of_several(activation, self._brackets, m, apart=True)
            if several
            else of.of_one(activation, self._brackets)
        )
        self.count = self.averages.count
        places = [self.averages.places[each] for each in self._brackets]
        self._sums = side_by_side(places, self.count)
        self._shapes = [(m,) * len(relabelled(each)[1]) for each in self._brackets]

    def bracketed(self, average: Average, K: Array, noise: Array) -> dict[Bracket, Array]:
        """The brackets at a kernel, those of the copies and their sizes: (copies + 1, m, …)."""
        found = disturbed(*average(K), noise[:, : self.count], self._sums).whole
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        parts = np.split(found, ends[:-1], axis=1)
        return {
            bracket: part.reshape(-1, *shape)
            for bracket, part, shape in zip(self._brackets, parts, self._shapes, strict=True)
        }


class TangentLayers:
    """Tensors under layers that are skips around one matrix, or dense; and K and Θ.

    Arguments:
        names: those that are wanted.
        schemes: under what the recursions of each distinct layer are derived.
        first: the weights of layer 1.
        samples: in front of each scheme's layer, and behind layer 1.
        order: which of the layers are layers 2, 3, …; there are rows of those that have the last
            one's positions.

    Attributes: as of `StagedLayers`.

    Raises InputError for layers of other kinds among them, and tensors other than these.
    """

    def __init__(
        self,
        names: tuple[Name, ...],
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        samples: tuple[tuple[int, ...], int],
        order: Sequence[int],
    ) -> None:
        ahead, m = samples
        taps = [scheme.stages[-1].taps for scheme in schemes]
        self.several = max(m, *ahead) > 1 or not all(each.is_one_to_one for each in taps)
        self._layers, self.own, self.kinds = closed(names, schemes, several=self.several)
        self.m, self._order, self.degree = m, order, DEGREES[self.several]
        self._readings = self._along(m)
        self._check_size()
        needed = closures(tuple(dict.fromkeys(others(names))), schemes)
        self._plain = StagedLayers(needed, schemes, first, samples).along(order)
        self.names = (*self._plain.names, *self.own)
        start = schemes[0].first(first)
        self._block = (BLOCK,) * (start.group != "O")
        (steps,) = steps_of(start, ((*self.own, *self._block),))
        self._at_start = parameters_of(steps)
        self._means = means_of(steps)
        self._start = Stage(self._means, steps, lambda _: self._layers[0].sigma, self._at_start, m)
        self.orders = tuple(len(name.subscripts) for name in self._means)
        atoms = {atom for own in self._layers for term in own.every for atom, _ in term.atoms}
        inside = {parameter.name for parameter in of_kind(atoms, Parameter)}
        self.parameters = sorted({*self._plain.parameters, *self._at_start, *inside})
        self._keys = [
            (own.sigma, count)
            for own, count in zip(self._layers, (*ahead, *ahead)[: len(schemes)], strict=True)
        ]
        terms: dict[tuple[Activation, int], list[Term]] = {}
        for own, key in zip(self._layers, self._keys, strict=True):
            terms.setdefault(key, []).extend(own.every)
        self._rules = {
            key: Rules(key[0], every, key[1], several=self.several) for key, every in terms.items()
        }
        self.noises = self._plain.noises + max(each.count for each in self._rules.values())
        most = max(len(each.responses) for each in self._rules.values())
        self.noises += 2 * most * max(len(each.above.own) for each in self._readings)

    def _along(self, m: int) -> list[Reading]:
        """The readings of layers 1, 2, …; layer 1 reads its inputs."""
        for number in self._order:
            m = self._layers[number].reading.behind(m)
        above, found = Arguments.of_samples(m), list[Reading]()
        known: dict[tuple[int, int], Reading] = {}
        for number in reversed(self._order):
            own, key = self._layers[number], (number, id(above))
            if key not in known:
                known[key] = Reading(own.reading, above, carries=bool(own.gamma))
            found.append(known[key])
            above = known[key].below
        return [Reading(ALONE, above, carries=True), *reversed(found)]

    def _check_size(self) -> None:
        """Refuse functionals that have no room: those of a layer and of the next, and two more."""
        size = len(degrees(2 if self.several else 1, self.degree))
        most = max((each.above for each in self._readings), key=lambda each: len(each.pairs))
        numbers = (1 + RUNS) * len(most.pairs) * size
        numbers *= sum(most.samples ** RANKS[kind] for kind in self.kinds)
        what = f"{', '.join(map(str, self.own))} of {most.samples} inputs"
        check_memory("inputs", f"{most.samples} inputs", 32 * numbers, what)

    def first(self, kernel: Array, parameters: Array) -> Estimate:
        """The tensors at layer 1, and their sizes; as `StagedLayers.first`."""
        values, sizes = self._plain.first(
            kernel, _columns(parameters, self.parameters, self._plain.parameters)
        )
        columns = _columns(parameters, self.parameters, self._at_start)
        own, of_own = at_layer_1([self._start], self._means, self.m, kernel, columns)
        return [*values, *own], [*sizes, *of_own]

    def degenerate(
        self, tensors: Sequence[Array], parameters: Array, layer: int
    ) -> Degenerate | None:
        """See `StagedLayers.degenerate`."""
        columns = _columns(parameters, self.parameters, self._plain.parameters)
        return self._plain.degenerate(tensors, columns, layer)

    def descend(self, start: Estimate, given: Descent) -> Estimate:
        """The tensors at every layer that has the last one's positions, and their sizes; as
        `StagedLayers.descend`. NaN above a layer whose kernel is not finite."""
        known, depth = len(self._plain.names), len(given.parameters)
        end = known + len(self.own)
        plain, own = ((start[0][of], start[1][of]) for of in (slice(known), slice(known, end)))
        averages = {key: rules.averages.copies() for key, rules in self._rules.items()}
        state, at = self._first_state(start[0])
        rows = own_rows = plain
        for first, behind in self._segments(depth):
            rows = self._plain_rows(plain, given, first, behind)
            if first == 0:
                own_rows = begun(own, behind)
            for layer in range(max(first, 1), behind):
                found = self._pass(layer, state, at, given, averages)
                above = self._nowhere(layer, at) if found is None else found.tensors()
                if layer == first:
                    own_rows = begun(above, behind - first)
                put(own_rows, layer - first, above, given.rounding[:, known:end])
                at = self._tensors((*rows[0], *own_rows[0]), layer, layer - first)
                if found is not None and layer + 1 < depth and np.isfinite(at[_K][0]).all():
                    state = found.after(at[_K][0], at)
                given.advance(1)
            plain = [each[-1] for each in rows[0]], [each[-1] for each in rows[1]]
        return [*rows[0], *own_rows[0]], [*rows[1], *own_rows[1]]

    def _segments(self, depth: int) -> Iterator[tuple[int, int]]:
        """Runs of layers with the same positions: the first row, and that behind the last."""
        readings = (self._layers[number].reading for number in self._order[: depth - 1])
        changes = [layer for layer, taps in enumerate(readings, 1) if taps.reshapes]
        yield from pairwise([0, *changes, depth])

    def _plain_rows(self, below: Estimate, given: Descent, first: int, behind: int) -> Estimate:
        """K, and Θ, at these layers, from those at the layer below, or at layer 1."""
        before, known = max(first - 1, 0), len(self._plain.names)
        columns = given.parameters[before:behind]
        of_plain = _columns(columns, self.parameters, self._plain.parameters)
        noise = given.noise[:, : self._plain.noises]
        run = self._plain.along(self._order[before : behind - 1], int(first > 0))
        return run.descend(below, Descent(of_plain, noise, given.rounding[:, :known], _ignored))

    def _tensors(self, rows: Sequence[Array], layer: int, row: int) -> dict[Name, Array]:
        """The tensors of a layer, (copies, m, …) with one input too."""
        every = zip(self.names, rows, strict=True)
        return {name: self._over_samples(name, each[row], layer) for name, each in every}

    def _over_samples(self, name: Name, values: Array, layer: int) -> Array:
        m = self._readings[layer].above.samples
        return values.reshape(len(values), *(m,) * len(name.subscripts))

    def _first_state(self, start: Sequence[Array]) -> tuple[Functionals, dict[Name, Array]]:
        """The functionals and tensors at layer 1."""
        every = zip((*self.names, *self._block), start, strict=True)
        at = {name: self._over_samples(name, each, 0) for name, each in every}
        return at_first(self.kinds, at[_K][0], at, self._readings[0].above, self.degree), at

    def _pass(
        self,
        layer: int,
        state: Functionals,
        at: Mapping[Name, Array],
        given: Descent,
        averages: Mapping[tuple[Activation, int], Average],
    ) -> _Pass | None:
        """The pass up to a layer; None above a kernel that is not finite."""
        number = self._order[layer - 1]
        named = dict(zip(self.parameters, given.parameters[layer].T, strict=True))
        key, noise = self._keys[number], given.noise[:, self._plain.noises :]
        run = self._rules[key], averages[key], noise
        try:
            return _Pass(self, (self._layers[number], self._readings[layer]), run, state, at, named)
        except _NotFiniteError:
            return None

    def _nowhere(self, layer: int, at: Mapping[Name, Array]) -> Estimate:
        """No numbers."""
        m, copies = self._readings[layer].above.samples, len(at[_K])
        shapes = [(m,) * (len(name.subscripts) * (m > 1)) for name in self.own]
        values = [np.full((copies, *shape), np.nan) for shape in shapes]
        return values, [each[0] for each in values]


def _ignored(layers: float) -> None:
    """A listener that does not."""


class _NotFiniteError(ArithmeticError):
    """Of a kernel, at which there are no averages."""


class _Pass:
    """One layer: what stands for each atom below it, and what is above."""

    def __init__(
        self,
        layers: TangentLayers,
        of: tuple[Derived, Reading],
        run: tuple[Rules, Average, Array],
        state: Functionals,
        tensors: Mapping[Name, Array],
        parameters: Mapping[str, Array],
    ) -> None:
        self._layers, self._state, (self._derived, self._reading) = layers, state, of
        (self._rules, average, noise), derived = run, self._derived
        self._tensors, self._parameters = tensors, parameters
        self._K, self._copies = tensors[_K], len(tensors[_K])
        self._m, self._pairs = self._reading.below.samples, self._reading.below.own
        kernel, scale = self._K, np.ones(self._m)
        if derived.scale is not None:
            scales = self._response(derived.scale)
            kernel, scale = kernel * (scales[:, :, None] * scales[:, None, :]), scales[0]
        if not np.isfinite(kernel).all():
            raise _NotFiniteError
        self._brackets = self._rules.bracketed(average, kernel, noise)
        bases = [_scaled(own, scale) for own in state.bases[: len(self._pairs)]]
        self._functions = {
            each: [made(own) if len(each) > 1 or len(own.samples) == 1 else None for own in bases]
            for each, made in self._rules.products.items()
        }
        self._responses = self._all_responses(noise[:, self._rules.count :])

    def _entries(self, orders: Orders) -> Iterator[tuple[int, tuple[int, ...], Array, float]]:
        """Of a product of σ's at every two samples: the pair, the samples in the order of the σ's,
        the coefficients, and the length of what they leave out."""
        for p, (c, d) in enumerate(self._pairs):
            for at in sorted({(c, d), (d, c)}):
                found = self._functions[orders if at == (c, d) else orders[::-1]][p]
                if found is not None:
                    yield (p, at[: len(orders)], *found)

    def _all_responses(self, noise: Array) -> dict[tuple[str, Orders], Array]:
        """X(σσ) for each functional and product, (copies + 1, m, …), with what is left out: the
        samples of X, then those of the product; sizes last. What is left out has one sign in a
        copy, and others by turns in the next, as a sum of them may cancel in either."""
        found, count = {}, 2 * len(self._pairs)
        for place, (kind, orders) in enumerate(self._rules.responses):
            if kind not in self._state.values:
                continue
            rank = RANKS[kind]
            turns = [1.0 if k % 2 or place % 2 else -1.0 for k in range(1, self._copies)]
            signs = np.array([0.0, *turns])
            each = np.zeros((self._copies + 1, *(self._m,) * (rank + len(orders))))
            spread = (-1, *(1,) * rank)
            bend = self._rules.bends.get(orders)
            plain = bend.orders if bend else orders
            for p, samples, f, f_beyond in self._entries(plain):
                values, beyond = self._state.values[kind][p], self._state.beyond[kind][p]
                if bend:
                    values, beyond = self._bent(kind, p, samples[bend.place], bend.share)
                self._check_bound(beyond, p)
                own = length(values[0])
                size, left = float(np.linalg.norm(f)) * own, beyond * f_beyond
                if plain in self._rules.checks:
                    known = self._brackets[self._rules.checks[plain]][0]
                    at = samples if self._layers.several else ()
                    left = left + abs(float(known[at].item()) - float(f[0])) * own
                of_noise = noise[:, count * place + 2 * p + (samples[0] > samples[-1])]
                column: tuple[Any, ...] = (slice(self._copies), ..., *samples)
                each[column] = values @ f + of_noise.reshape(spread) * size
                each[column] += signs.reshape(spread) * left / CAUTION
                sizes: tuple[Any, ...] = (self._copies, ..., *samples)
                each[sizes] = size
            found[kind, orders] = each
        return found

    def _bent(self, kind: str, p: int, sample: int, share: float) -> tuple[Array, Array]:
        """The share of X(z ∂f) at he_β of a pair, z being that of a sample, and the lengths beyond
        N; where both are one variable, half of its derivative is by either."""
        own, values = self._state.bases[p], self._state.values[kind][p]
        place = own.samples.index(sample) if own.rank > 1 else 0
        if own.rank == 1 and share == 1.0:
            share = 0.5
        tail = bent_tail(own, place, values[0], self._state.weighted[kind][p])
        return share * bent(own, place, values), share * tail

    def _check_bound(self, beyond: Array, p: int) -> None:
        """Refuse a functional whose length beyond N has no bound: of z that a layer lengthens by γ
        and adds nothing to, ‖γ L'⁻¹L‖ is 1, and derivatives grow with the degree."""
        if np.isinf(beyond).any():
            got = f"{self._called(*self._pairs[p])}, such that z below a skip is a function of "
            got += "that behind it: the rest of a Hermite series has no bound there"
            wanted = "others, or C_b > 0, for what is not K or Θ behind a skip"
            raise InputError("inputs", got, wanted)

    def _called(self, a: int, b: int) -> str:
        return f"inputs {a} and {b}" if a != b else f"input {a}"

    def tensors(self) -> Estimate:
        """The tensors above, and their sizes, without axes of one sample."""
        values, sizes, m = [], [], self._reading.above.samples
        for name in self._layers.own:
            rank = len(name.subscripts)
            shape = (m,) * (rank if m > 1 else 0)
            total = self._total(self._derived.tensors.get(name, ()), rank)
            for pairs, terms in self._derived.merged.get(name, {}).items():
                alike = self._alike(pairs, rank)
                total = np.where(alike, self._total(terms, rank), total)
            values.append(total[:-1].reshape(-1, *shape))
            sizes.append(total[-1].reshape(shape))
        return values, sizes

    def _total(self, terms: Sequence[Term], rank: int) -> Array:
        """Σ terms with so many labels, (copies + 1, m, …), sizes last."""
        total = np.zeros((self._copies + 1, *(self._reading.above.samples,) * rank))
        for term, taps in self._tapped(terms):
            part = self._scalar(term, rank, taps).at(results(rank))
            total[:-1] += part[:-1]
            total[-1] += np.abs(part[-1])
        return total

    def _tapped(self, terms: Iterable[Term]) -> Iterator[tuple[Term, dict[int, int]]]:
        """Each term with every choice of a tap for each number."""
        for term in terms:
            for taps in product(range(self._reading.count), repeat=len(term.taps)):
                yield term, dict(zip(term.taps, taps, strict=True))

    @cached_property
    def _first(self) -> list[int]:
        """The first input that is the same as each; InputError for those that are, to rounding,
        multiples of one another, at which what a kink needs does not exist."""
        first = list(range(self._m))
        for (a, b), own in zip(self._pairs, self._state.bases, strict=True):
            if a != b and own.rank == 1:
                if not np.isclose(own.L[0, 0], own.L[1, 0], rtol=_EQUAL, atol=0.0):
                    wanted = "none of them, for σ with kinks behind a norm and a skip"
                    got = f"{self._called(a, b)}, too near to multiples of one another"
                    raise InputError("inputs", got, wanted)
                first[b] = min(first[b], a)
        return first

    @cached_property
    def _same(self) -> list[int]:
        """The first sample of the result that reads the same inputs as each."""
        if self._reading.own:
            return self._first
        classes = np.eye(self._m)[self._first]
        rows = np.concatenate([A @ classes for A in self._reading.every], axis=1).tolist()
        return [rows.index(row) for row in rows]

    def _alike(self, pairs: Sequence[tuple[int, int]], rank: int) -> NDArray[np.bool_]:
        """Where the samples of each of these pairs of labels are the same, over so many labels."""
        alike = np.equal.outer(self._same, self._same)
        found = np.ones((1,) * rank, bool)
        for a, b in pairs:
            shape = [len(alike) if label in (a, b) else 1 for label in range(1, rank + 1)]
            found = found & alike.reshape(shape)
        return found

    def after(self, K: Array, tensors: Mapping[Name, Array]) -> Functionals:
        """The functionals above, where the kernel is this, and these are the tensors."""
        gamma = float(sum(self._scalar(term, 0, {}).values[0] for term in self._derived.gamma))
        above = self._reading.above
        bases = bases_of(K, above, self._layers.degree)
        below = [self._state.bases[p] for p in self._reading.pairs]
        moves = [Move(old, new, gamma) for old, new in zip(below, bases, strict=True)]
        values: dict[str, list[Array]] = {}
        beyond: dict[str, list[Array]] = {}
        weighted: dict[str, list[Array]] = {}
        for kind in self._layers.kinds:
            rank = RANKS[kind]
            terms = self._derived.functionals.get(kind, ())
            total, grown, heavy = self._functional(terms, rank, bases, moves)
            for pairs, terms in self._derived.merged.get(kind, {}).items():
                alike = self._alike(pairs, rank)
                own, *of_own = self._functional(terms, rank, bases, moves)
                total = [np.where(alike[..., None], *each) for each in zip(own, total, strict=True)]
                grown, heavy = (
                    [np.where(alike, *each) for each in zip(*both, strict=True)]
                    for both in zip(of_own, (grown, heavy), strict=True)
                )
            if self._derived.merged:  # the same input twice: functions of one
                for p, (c, d) in enumerate(above.own):
                    if c != d and self._same[c] == self._same[d]:
                        q = above.pairs.index((self._same[c], self._same[c]))
                        total[p], grown[p], heavy[p] = total[q], grown[q], heavy[q]
            values[kind], beyond[kind], weighted[kind] = total, grown, heavy
        return Functionals(bases, values, beyond, weighted).with_members(tensors, above)

    def _functional(
        self, terms: Sequence[Term], rank: int, bases: Sequence[Basis], moves: Sequence[Move]
    ) -> tuple[list[Array], list[Array], list[Array]]:
        """Σ terms of a functional at so many samples: of each pair, (copies, m, …, size), and the
        lengths beyond N, (m, …), plain and weighted."""
        m = self._reading.above.samples
        total = [np.zeros((self._copies, *(m,) * rank, each.size)) for each in bases]
        grown, heavy = ([np.zeros((m,) * rank) for _ in bases] for _ in range(2))
        for by in sorted({term.of[1].tested or () for term in terms}):
            groups = self._groups([term for term in terms if term.of[1].tested == by], rank)
            several = self._layers.several
            places = tuple(label - rank - 1 for label in by) if several else (0,) * len(by)
            for p, (c, d) in enumerate(self._reading.above.pairs):
                if c == d and any(places):  # f is of one sample alone
                    continue
                found, lengths = self._below(groups, p, rank, len(by))
                total[p] += moves[p](places, found)
                for part, heavily in ((grown, False), (heavy, True)):
                    growth = moves[p].growth(len(by), weighted=heavily)
                    part[p] += np.where(lengths == 0.0, 0.0, growth * lengths)
        return total, grown, heavy

    def _groups(self, terms: Sequence[Term], rank: int) -> dict[_Test, tuple[Over, Over]]:
        """The scalars before each functional of the function on the left, and their sizes."""
        groups: dict[_Test, tuple[Over, Over]] = {}
        for term, taps in self._tapped(terms):
            kind, of_ = term.of
            orders, labels = product_of(of_, several=self._layers.several)
            if kind != "Mean":
                orders, labels = (), subscripts(term.test)
            read = {label // MOVED: taps[label // MOVED] for label in labels if label >= MOVED}
            test = _Test(kind, orders, labels, tuple(read.items()))
            part = self._scalar(term, rank, taps, labels)
            found = part._replace(values=part.values[:-1])
            size = part._replace(values=np.abs(part.values[:1]))
            before = groups.get(test)
            groups[test] = (
                (found, size)
                if before is None
                else (added(before[0], found), added(before[1], size))
            )
        return groups

    def _below(
        self, groups: Mapping[_Test, tuple[Over, Over]], p: int, rank: int, count: int
    ) -> tuple[Array, Array]:
        """Σ scalar X(f) on the functions of a pair, (copies, m, …, size), and the length of what
        so many derivatives bring beyond N, (m, …)."""
        below, pair = self._reading.pairs[p], self._reading.above.pairs[p]
        own, ends, m = self._state.bases[below], results(rank), self._reading.above.samples
        total = np.zeros((self._copies, *(m,) * rank, own.size))
        far = np.zeros((m,) * rank)
        for test, (scalar, size) in groups.items():
            if test.kind == "Mean" and not test.orders:
                total[..., 0] += at_pair(scalar, rank, pair).at(ends)
                continue
            if test.orders:
                found, lengths = self._sources[below][test.orders]
            else:
                found = self._state.values[test.kind][below]
                lengths = self._state.beyond[test.kind][below]
            X, left = over(found, test.labels), over(lengths[None], test.labels)
            left = left._replace(values=tails(X.values[0], left.values[0], own, count)[None])
            taps = dict(test.taps)
            total += self._reading.applied(scalar, X, taps, rank, pair).at(ends)
            far = far + self._reading.lengths(size, left, taps, rank, pair).at(ends)[0]
        return total, far

    @cached_property
    def _sources(self) -> list[dict[Orders, tuple[Array, Array]]]:
        """⟨F :z^β:⟩ in the basis of each pair, (1, m, …, size), of products F at every two samples,
        and the lengths of what lies beyond N."""
        found: list[dict[Orders, tuple[Array, Array]]] = []
        K, m, bases = self._K[0], self._m, self._state.bases
        sums = self._reading.below.sums
        K = sums @ K @ sums.T if len(sums) > m else K
        for own in bases:
            moves = []
            for other in bases[: len(self._pairs)]:
                A = own.inverse @ K[np.ix_(own.samples, other.samples)] @ other.inverse.T
                moves.append((Contraction(A, own.degree), min(float(np.linalg.norm(A, 2)), 1.0)))
            each: dict[Orders, tuple[Array, Array]] = {}
            for orders in self._rules.products:
                if orders != tuple(sorted(orders)):
                    continue
                shape = (m,) * len(orders)
                values, lengths = np.zeros((1, *shape, own.size)), np.zeros(shape)
                for q, samples, f, f_beyond in self._entries(orders):
                    move, lift = moves[q]
                    values[(0, *samples)] = move(f)
                    lengths[samples] = lift ** (own.degree + 1) * f_beyond
                each[orders] = values, lengths
            found.append(each)
        return found

    def _scalar(
        self, term: Term, rank: int, taps: Mapping[int, int], kept: Sequence[int] = ()
    ) -> Over:
        """A term without what is of the function on the left, (copies + 1, m, …), its size last,
        over results and the labels that are kept."""
        value = float(term.value) / self._reading.count ** len(taps)
        parts = [Over(np.full(self._copies + 1, value), ())]
        for atom, exponent in term.atoms:
            part = over(*self._lookup(atom))
            parts.append(part._replace(values=part.values**exponent))
        return self._reading.product(parts, taps, rank, kept)

    def _lookup(self, atom: object) -> tuple[Array, tuple[int, ...]]:
        """The array of an atom, (copies + 1, m, …), sizes last, and the labels of its axes."""

        def bracket(own: Bracket) -> tuple[Array, tuple[int, ...]]:
            canonical, labels = relabelled(own)
            return self._brackets[canonical], labels

        def tensor(own: Tensor) -> tuple[Array, tuple[int, ...]]:
            name, labels = identify(own)
            return with_sizes(self._tensors[name]), labels

        def response(own: Response) -> tuple[Array, tuple[int, ...]]:
            ((_, limit),) = own.limits
            return with_sizes(self._response(own)), identify(limit)[1][:1]

        return read(
            atom,
            parameter=lambda own: (with_sizes(self._parameters[own.name]), ()),
            value=lambda own: (with_sizes(self._number(own)), ()),
            tensor=tensor,
            bracket=bracket,
            response=response,
            other=self._of_functional,
        )

    def _of_functional(self, atom: object) -> tuple[Array, tuple[int, ...]]:
        functional = functional_in(atom)
        assert functional is not None
        kind, of_ = functional
        if of_.is_one:  # X(1)
            return with_sizes(self._state.values[kind][0][..., 0]), subscripts(atom)
        if of_.labels:  # X(z)
            own = [self._pairs.index((c, c)) for c in range(self._m)]
            parts = [
                self._state.values[kind][p][..., 1] * self._state.bases[p].L[0, 0] for p in own
            ]
            return with_sizes(np.stack(parts, axis=-1)), (*subscripts(atom), *of_.labels)
        orders, samples = product_of(of_, several=self._layers.several)
        return self._responses[kind, orders], (*subscripts(atom), *samples)

    def _number(self, atom: Value) -> Array:
        known = {
            PARAMETERS.get(name, sympy.Symbol(name)): each[0]
            for name, each in self._parameters.items()
        }
        number = atom.expr if atom.expr.is_number else atom.expr.subs(known)
        return np.full(self._copies, float(number))

    def _response(self, atom: Response) -> Array:
        """A function of K of one sample, at every sample: (copies, m)."""
        symbols = tuple(symbol for symbol, _ in atom.limits)
        K = np.diagonal(self._K, axis1=1, axis2=2)
        found = _compiled(atom.value, symbols)(*[K for _ in symbols])
        return np.broadcast_to(np.asarray(found, float), K.shape)


def _scaled(own: Basis, scale: Array) -> Basis:
    """Of y = f z, by the f of each sample."""
    by = scale[list(own.samples)]
    return own._replace(L=own.L * by[:, None], inverse=own.inverse / by)


@cache
def _compiled(value: sympy.Expr, symbols: tuple[sympy.Symbol, ...]) -> Callable[..., Any]:
    return sympy.lambdify(symbols, value, "numpy")  # type: ignore[no-any-return]


def _columns(values: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """The parameters of these names, along the last axis."""
    return values[..., [list(names).index(name) for name in wanted]]
