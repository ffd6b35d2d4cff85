"""Skips around one matrix, run layer by layer: G1, V, Θ1, D, F, A, B and what closes them.

`derive.engine.tangents` derives what moves: the tensors, and functionals X(f) of functions of the z
of one neuron, Two(:zz:, f), One(f), Own(f), Apart(f), Across(z, f) and Square(1, f), kept by their
Hermite coefficients (`functionals`), so that X(σσ), X(σσ') and X(σ'σ') of two samples are sums over
the coefficients of these (`hermite`).

What N leaves out of such a sum is bounded: the functional beyond N times the length of the function
beyond N by Parseval's theorem. That bound, and what ⟨σσ⟩ says of the coefficients' quadrature, is
added to what the copies of `accuracy` are disturbed by, so that a tensor's error has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import of_kind
from derive.engine.atoms import read
from derive.engine.scheme import Scheme
from derive.engine.step import closures
from derive.engine.tangents import (
    RANKS,
    functional_in,
    subscripts,
)
from derive.engine.taps import MOVED
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
from ..program import multiplied
from ..resting import Degenerate
from ..staged import StagedLayers
from ..stages import Stage
from ..start import at_layer_1, means_of
from ..steps import parameters_of, steps_of
from ..tapped import Reader
from ..vectors import Both, Descent, begun, disturbed, put, relabelled, side_by_side, with_sizes
from .derived import Derived, Term, bent_of, closed, others, product_of
from .functionals import (
    BLOCK,
    Functionals,
    Move,
    at_first,
    bent,
    bent_tail,
    length,
    placed,
    tails,
)
from .hermite import Basis, Contraction, Orders, Products, basis, degrees

_K = named("K")
_EQUAL = 1e-9
"""What standard deviations may differ by, relatively, of inputs that are the same."""
DEGREES = 256, 48
"""N with one input, and with several."""


class Rules:
    """What the layers of one activation need of it: averages, and Hermite coefficients of products.

    Arguments:
        activation: σ.
        every: the terms of these layers.
        m: inputs.

    Attributes:
        count: of the averages.
        responses: the functionals X(σσ) in the terms, each with the orders of its product.
        bends: the products that are derivatives of others, where σ has kinks.
        products: the coefficients of each product.
        checks: the averages that tell how good the coefficients are.
    """

    def __init__(self, activation: Activation, every: Sequence[Term], m: int) -> None:
        atoms = {atom for term in every for atom, _ in term.atoms}
        known = [each for each in map(functional_in, atoms) if each and each[1].factors]
        found = {(kind, product_of(local, m)[0]) for kind, local in known}
        self.responses = sorted(found)
        tests = {product_of(term.of[1], m)[0] for term in every if term.test is not None}
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
        self._averages = (
            of.of_one(activation, self._brackets)
            if m == 1
            else of.of_several(activation, self._brackets, m, apart=True)
        )
        self.count = self._averages.count
        places = [self._averages.places[each] for each in self._brackets]
        self._sums = side_by_side(places, self.count)
        self._shapes = [(m,) * len(relabelled(each)[1]) for each in self._brackets]
        self._single = m == 1

    def average(self) -> Callable[[Array], tuple[Array, Array]]:
        """The averages at a kernel, of a run down the layers."""
        if not self._single:
            return self._averages.copies()

        def average(K: Array) -> tuple[Array, Array]:
            values, sizes = self._averages(K.reshape(-1))
            return values.T, sizes[:, 0]

        return average

    def bracketed(
        self, average: Callable[[Array], tuple[Array, Array]], K: Array, noise: Array
    ) -> dict[Bracket, Array]:
        """The brackets at a kernel, those of the copies and their sizes: (copies + 1, m, …)."""
        found = disturbed(*average(K), noise[:, : self.count], self._sums)
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
        m: inputs.
        order: which of the layers are layers 2, 3, …; the last may give other positions, and then
            the tensors are those of the last layer alone.

    Attributes: as of `StagedLayers`.

    Raises InputError for layers of other kinds among them, and tensors other than these.
    """

    def __init__(
        self,
        names: tuple[Name, ...],
        schemes: tuple[Scheme, ...],
        first: WeightEnsemble,
        m: int,
        order: Sequence[int],
    ) -> None:
        self._layers, self.own, self.kinds = closed(names, schemes, m)
        self.m, self._order, self.degree = m, order, DEGREES[m > 1]
        last = [self._layers[number].reading for number in order[-1:]]
        self._changes = any(taps.changes for taps in last)
        self.pairs = list(combinations_with_replacement(range(m), 2))
        self._check_size()
        needed = closures(tuple(dict.fromkeys(others(names))), schemes)
        self._plain = StagedLayers(needed, schemes, first, ((m,) * len(schemes), m)).along(order)
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
        terms: dict[Activation, list[Term]] = {}
        for each in self._layers:
            terms.setdefault(each.sigma, []).extend(each.every)
        self._rules = {sigma: Rules(sigma, every, m) for sigma, every in terms.items()}
        self.noises = self._plain.noises + max(each.count for each in self._rules.values())
        most = max(len(each.responses) for each in self._rules.values())
        self.noises += 2 * most * len(self.pairs)

    def _check_size(self) -> None:
        """Refuse functionals that have no room: those of a layer and of the next, and two more."""
        m, size = self.m, len(degrees(1 if self.m == 1 else 2, self.degree))
        numbers = (1 + RUNS) * len(self.pairs) * size * sum(m ** RANKS[k] for k in self.kinds)
        what = f"{', '.join(map(str, self.own))} of {m} inputs"
        check_memory("inputs", f"{m} inputs", 32 * numbers, what)

    def first(self, kernel: Array, parameters: Array) -> Both:
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

    def descend(self, start: Both, given: Descent) -> Both:
        """The tensors at every layer, and their sizes; as `StagedLayers.descend`. NaN above a layer
        whose kernel is not finite."""
        parameters, noise, rounding, advance = given
        depth = len(parameters) - self._changes
        known, count = len(self._plain.names), self._plain.noises
        columns = _columns(parameters, self.parameters, self._plain.parameters)
        head, parts = (start[0][:known], start[1][:known]), (noise[:, :count], rounding[:, :known])
        plain, of_plain = self._plain.descend(head, Descent(columns[:depth], *parts, _ignored))
        end = known + len(self.own)
        own, of_own = begun((start[0][known:end], start[1][known:end]), depth)
        below = dict(zip(self._plain.names, plain, strict=True))
        averages = {sigma: rules.average() for sigma, rules in self._rules.items()}

        def tensors(layer: int) -> dict[Name, Array]:
            every = below | dict(zip(self.own, own, strict=True))
            return {name: self._over_samples(name, each[layer]) for name, each in every.items()}

        at = tensors(0)
        blocks = zip(self._block, start[0][end:], strict=True)
        of_first = at | {name: self._over_samples(name, each) for name, each in blocks}
        state = at_first(self.kinds, at[_K][0], of_first, self.pairs, self.degree)
        for layer in range(1, len(parameters)):
            derived = self._layers[self._order[layer - 1]]
            named = dict(zip(self.parameters, parameters[layer].T, strict=True))
            rules, average = self._rules[derived.sigma], averages[derived.sigma]
            try:
                found = _Pass(self, derived, rules, state, at, named, average, noise[:, count:])
            except _NotFiniteError:
                for part in (*own, *of_own):
                    part[layer:] = np.nan
                break
            if layer == depth:
                below_last = ([each[-1] for each in part] for part in (plain, of_plain))
                last = self._plain.along(self._order[-1:], 1)
                plain, of_plain = last.descend(
                    (next(below_last), next(below_last)), Descent(columns[-2:], *parts, advance)
                )
                above = found.tensors()
                own, of_own = begun(above, 1)
                put((own, of_own), 0, above, rounding[:, known:end])
                break
            put((own, of_own), layer, found.tensors(), rounding[:, known:end])
            at = tensors(layer)
            if np.isfinite(at[_K][0]).all():
                state = found.after(at[_K][0]).with_members(at, self.pairs)
            advance(1)
        return [*plain, *own], [*of_plain, *of_own]

    def _over_samples(self, name: Name, values: Array) -> Array:
        """(copies, m, …), with one input too."""
        return values.reshape(len(values), *(self.m,) * len(name.subscripts))


def _ignored(layers: float) -> None:
    """A listener that does not."""


class _NotFiniteError(ArithmeticError):
    """Of a kernel, at which there are no averages."""


class _Pass:
    """One layer: what stands for each atom below it, and what is above."""

    def __init__(
        self,
        layers: TangentLayers,
        derived: Derived,
        rules: Rules,
        state: Functionals,
        tensors: Mapping[Name, Array],
        parameters: Mapping[str, Array],
        average: Callable[[Array], tuple[Array, Array]],
        noise: Array,
    ) -> None:
        self._layers, self._derived, self._rules, self._state = layers, derived, rules, state
        self._tensors, self._parameters = tensors, parameters
        self._K, self._m, self._pairs = tensors[_K], layers.m, layers.pairs
        self._copies = len(self._K)
        self._reader = Reader(derived.reading, self._m // derived.reading.positions)
        kernel, scale = self._K, np.ones(self._m)
        if derived.scale is not None:
            scales = self._response(derived.scale)
            kernel, scale = kernel * (scales[:, :, None] * scales[:, None, :]), scales[0]
        if not np.isfinite(kernel).all():
            raise _NotFiniteError
        self._brackets = rules.bracketed(average, kernel, noise)
        bases = [_scaled(own, scale) for own in state.bases]
        self._functions = {
            each: [made(own) if len(each) > 1 or len(own.samples) == 1 else None for own in bases]
            for each, made in rules.products.items()
        }
        self._responses = self._all_responses(noise[:, -2 * len(rules.responses) * len(bases) :])

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
                    at = samples if self._m > 1 else ()
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
        """What share X(z ∂f) is at he_β of a pair, z being that of a sample, and the lengths beyond
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

    def tensors(self) -> Both:
        """The tensors above, and their sizes, without axes of one sample."""
        values, sizes, m = [], [], self._reader.samples[1]
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
        total = np.zeros((self._copies + 1, *(self._reader.samples[1],) * rank))
        for term, taps in self._tapped(terms):
            part = self._scalar(term, rank, taps)
            total[:-1] += part[:-1]
            total[-1] += np.abs(part[-1])
        return total

    def _tapped(self, terms: Iterable[Term]) -> Iterator[tuple[Term, dict[int, int]]]:
        """Each term with every choice of a tap for each number."""
        for term in terms:
            for taps in product(range(self._reader.count), repeat=len(term.taps)):
                yield term, dict(zip(term.taps, taps, strict=True))

    def _placed(
        self, values: Array, labels: Sequence[int], rank: int, taps: Mapping[int, int]
    ) -> Array:
        """See `placed`; at samples where these taps read, 0 where they read nothing."""
        for axis, label in enumerate(labels, 1):
            if label >= MOVED:
                values = self._reader.summed(taps[label // MOVED], values, axis)
        return placed(values, [label % MOVED for label in labels], rank)

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

    def _alike(self, pairs: Sequence[tuple[int, int]], rank: int) -> NDArray[np.bool_]:
        """Where the samples of each of these pairs of labels are the same, over so many labels."""
        alike = np.equal.outer(self._first, self._first)
        found = np.ones((1,) * rank, bool)
        for a, b in pairs:
            shape = [self._m if label in (a, b) else 1 for label in range(1, rank + 1)]
            found = found & alike.reshape(shape)
        return found

    def after(self, K: Array) -> Functionals:
        """The functionals above, where the kernel is this; members that are tensors are put in
        later."""
        gamma = float(sum(self._scalar(term, 0, {})[0] for term in self._derived.gamma))
        bases = [basis(K, pair, self._layers.degree) for pair in self._pairs]
        moves = [Move(old, new, gamma) for old, new in zip(self._state.bases, bases, strict=True)]
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
                for p, (c, d) in enumerate(self._pairs):
                    if c != d and self._first[c] == self._first[d]:
                        q = self._pairs.index((self._first[c], self._first[c]))
                        total[p], grown[p], heavy[p] = total[q], grown[q], heavy[q]
            values[kind], beyond[kind], weighted[kind] = total, grown, heavy
        return Functionals(bases, values, beyond, weighted)

    def _functional(
        self, terms: Sequence[Term], rank: int, bases: Sequence[Basis], moves: Sequence[Move]
    ) -> tuple[list[Array], list[Array], list[Array]]:
        """Σ terms of a functional at so many samples: of each pair, (copies, m, …, size), and the
        lengths beyond N, (m, …), plain and weighted."""
        total = [np.zeros((self._copies, *(self._m,) * rank, each.size)) for each in bases]
        grown, heavy = ([np.zeros((self._m,) * rank) for _ in bases] for _ in range(2))
        for by in sorted({term.of[1].tested or () for term in terms}):
            own = list(self._tapped(term for term in terms if term.of[1].tested == by))
            scalars = [self._scalar(term, rank + 2, taps) for term, taps in own]
            places = tuple(label - rank - 1 for label in by) if self._m > 1 else (0,) * len(by)
            for p, (c, d) in enumerate(self._pairs):
                if c == d and any(places):  # f is of one sample alone
                    continue
                found, lengths = self._below(own, scalars, p, rank, len(by))
                total[p] += moves[p](places, found)
                for part, heavily in ((grown, False), (heavy, True)):
                    growth = moves[p].growth(len(by), weighted=heavily)
                    part[p] += np.where(lengths == 0.0, 0.0, growth * lengths)
        return total, grown, heavy

    def _below(
        self,
        terms: Sequence[tuple[Term, dict[int, int]]],
        scalars: Sequence[Array],
        p: int,
        rank: int,
        count: int,
    ) -> tuple[Array, Array]:
        """Σ scalar X(f) on the functions of a pair, (copies, m, …, size), and the length of what
        so many derivatives bring beyond N, (m, …)."""
        own, m = self._state.bases[p], self._m
        total = np.zeros((self._copies, *(m,) * rank, own.size))
        far = np.zeros((m,) * rank)
        sums: dict[Any, tuple[Any, Any]] = {}

        def at_pair(values: Array, *, coefficients: bool = False) -> Array:
            """With labels rank + 1 and rank + 2 at the samples of the pair."""
            if m == 1:
                ends = values.shape[-1:] if coefficients else ()
                return values.reshape(len(values), *(1,) * rank, *ends)
            index: tuple[Any, ...] = (slice(None),) * (rank + 1)
            sizes = values.shape[rank + 1 : rank + 3]
            both = zip(self._pairs[p], sizes, strict=True)
            return np.asarray(values[(*index, *(at if size > 1 else 0 for at, size in both))])

        for (term, taps), scalar in zip(terms, scalars, strict=True):
            part, (kind, of_) = at_pair(scalar)[:-1], term.of
            orders, labels = product_of(of_, m)
            if kind == "Mean" and not orders:
                total[..., 0] += part
                continue
            if kind != "Mean":
                orders, labels = (), subscripts(term.test)
            read = {label // MOVED: taps[label // MOVED] for label in labels if label >= MOVED}
            key = kind, orders, labels, tuple(read.items())
            before = sums.get(key, (0.0, 0.0))
            sums[key] = before[0] + part, before[1] + np.abs(part[0])
        for (kind, orders, labels, reads), (part, size) in sums.items():
            if orders:
                found, lengths = self._sources[p][orders]
            else:
                found, lengths = self._state.values[kind][p], self._state.beyond[kind][p]
            taps = dict(reads)
            each = at_pair(self._placed(found, labels, rank + 2, taps), coefficients=True)
            total += part[..., None] * each
            lengths = at_pair(self._placed(lengths[None], labels, rank + 2, taps))[0]
            far = far + size * tails(each[0], lengths, own, count)
        return total, far

    @cached_property
    def _sources(self) -> list[dict[Orders, tuple[Array, Array]]]:
        """⟨F :z^β:⟩ in the basis of each pair, (1, m, …, size), of products F at every two samples,
        and the lengths of what lies beyond N."""
        found: list[dict[Orders, tuple[Array, Array]]] = []
        K, m, bases = self._K[0], self._m, self._state.bases
        for own in bases:
            moves = []
            for other in bases:
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

    def _scalar(self, term: Term, rank: int, taps: Mapping[int, int]) -> Array:
        """A term without what is of the function on the left, (copies + 1, m, …) or 1 for labels
        that it has not; its size last."""
        own = rank if self._m > 1 else 1
        value = float(term.value) / self._reader.count ** len(taps)
        one = np.full((self._copies + 1, *(1,) * own), value)
        atoms = [(*self._lookup(atom), exponent) for atom, exponent in term.atoms]
        if not self._derived.reading.is_one_to_one:  # sums over positions are of the product
            return self._read(one, atoms, taps)
        parts = (self._placed(each, at, own, taps) ** exponent for each, at, exponent in atoms)
        total = multiplied([one, *parts])
        return total if self._m > 1 else total.reshape(len(total), *(1,) * rank)

    def _read(
        self,
        one: Array,
        atoms: Sequence[tuple[Array, tuple[int, ...], int]],
        taps: Mapping[int, int],
    ) -> Array:
        """A product of atoms, (copies + 1, m, …), at what taps read of each sample."""
        rank = one.ndim - 1
        parts = (placed(each, [k % MOVED for k in at], rank) ** by for each, at, by in atoms)
        total = multiplied([one, *parts])
        moved = {k % MOVED: taps[k // MOVED] for _, at, _ in atoms for k in at if k >= MOVED}
        for axis, tap in moved.items():
            every = (*total.shape[:axis], self._m, *total.shape[axis + 1 :])
            total = self._reader.summed(tap, np.broadcast_to(total, every), axis)
        return total

    def _lookup(self, atom: object) -> tuple[Array, tuple[int, ...]]:
        """What stands for an atom, (copies + 1, m, …), sizes last, and the labels of its axes."""

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
        orders, samples = product_of(of_, self._m)
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
