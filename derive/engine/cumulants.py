"""From a network to a recursion: average one stage's weights, then the one below, in 1/n.

The five steps, none of which knows a tensor or a layer by name:
1. equations of the fields as polynomials in the weights (`through.lines`);
2. E over the weights: Σ_{p,q} δ_p(i) C(p,q) δ_q(j) (`weights`), each matrix; biases by Wick; p and
   q are pairings, or set partitions where only signed permutations keep the law;
3. sums over neurons split into sums over distinct neurons;
4. E over the layer below, expanded around the Gaussian of kernel K,
       E[F] = exp(Σ_r κ_r·∂^r / r!) F    at z ~ N(0, K), H = Θ, …;
5. joint cumulants from moments; the coefficient of δ_p(i) n^{-power} is the tensor.

A dense layer is one stage. Where a stage has collective variables c, a product X of equations is
expanded in c − c*; each two of those add 1/n to the order of X, so that most are never averaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, combinations_with_replacement, product
from math import comb, factorial, inf, prod
from typing import NamedTuple, Protocol

import sympy

from ..arithmetic.parameters import (
    C_B,
    C_W,
    R_BIG,
    R_IN,
    R_OUT,
    Parameter,
    Value,
    correction,
)
from ..arithmetic.polynomials import (
    UNIT,
    Atom,
    Expansion,
    Monomial,
    add,
    constant,
    monomial,
    multiply,
    multiply_all,
    power,
    times,
)
from ..errors import InputError
from ..gaussian.brackets import Bracket, normal_form
from ..groups.pairings import (
    MOST_POINTS,
    Blocks,
    compositions,
    double_factorial_pairings,
    mobius,
    ordered,
    pair_partitions,
    pairings,
    refining_pairings,
    refining_partitions,
    set_partitions,
)
from ..symbols import PARAMETERS
from ..weights import Gaussian, WeightEnsemble
from .fields import forward
from .stages import DENSE, Stage
from .taps import Ties
from .tensors import Tensor, kernel_label, tensor
from .through import Summand, lines, summand
from .trees import ABOVE, STREAM, AnyField, Field, Kind, Placed, Term, Z, slots_of

Moment = dict[Blocks, Expansion]
Below = Callable[[Term, int, bool], Expansion]
Neuron = tuple[tuple[int, int, Kind], ...]
"""The factors σ^{(order)}(v_{sample}) at one neuron, as sorted triples (sample, order, v)."""
_GAUSSIAN = Gaussian()
Target = tuple[int, int, Kind]
"""A variable that σ is taken of: its neuron and its sample."""
Rows = dict[int, Blocks]
"""Of each matrix: which of its weights, counted from 0, have equal rows."""


def layer_cumulant(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    weights: WeightEnsemble,
    order: int,
    square: bool = True,
    below: Below | None = None,
    *,
    pairing: Blocks | None = None,
    corrections: int = 0,
    progress: Callable[[], None] | None = None,
    stage: Stage = DENSE,
    ties: Ties | None = None,
) -> Moment:
    """The joint cumulant of fields behind a stage, up to n^{-order}, by pairing of neural indices.

    Arguments:
        fields, samples: the fields, and the sample of each of their nodes in turn.
        weights: the ensemble of the stage's matrices.
        order: the highest power of 1/n kept.
        square: n_ℓ = n_{ℓ+1} = n; otherwise their ratios to n stay symbols.
        below: how to average layer ℓ, of the dense layer; by default `hidden_layer`, the expansion
            around its kernel.
        pairing: the one pairing that is wanted; all of them by default.
        corrections: C_W + C_W1/n + … and C_b + C_b1/n + … up to this power (source 000, eq. 5.28).
        progress: called after every average over the weights (`work`).
        stage: of the layer; by default the only one of the dense layer.
        ties: of the given pairing, which pairs have a matrix in common, where the stage has a
            matrix for each block of them.
    """
    slots = slots_of(fields)
    average = _Average(stage, weights, order, square, below, corrections)
    matrix_of: dict[int, int] = {}
    if ties is not None:
        assert pairing is not None
        average = average._replace(stage=replace(stage, matrices=stage.matrices * len(ties)))
        matrix_of = {slot: k for k, block in enumerate(ties) for p in block for slot in pairing[p]}

    def evaluate(whole: Summand, pairs: Blocks, count: int, result: Expansion) -> None:
        rows = _rows(whole, pairs)
        assert rows is not None
        for averaged in average(whole, rows, pairs):
            add(result, averaged, count)
            if progress:
                progress()

    @cache
    def moment(block: tuple[int, ...], pairs: Blocks) -> Expansion:
        result: Expansion = {}
        alike: Counter[Summand] = Counter()
        for parts in _products(stage, fields, samples, block):
            found: Expansion = {}
            plain = tuple(_wholes(parts, 0, pairs, matrix_of))
            for whole in plain:
                evaluate(whole, pairs, 1, found)
            add(result, found)
            first = 0
            while stage.has_centres and not plain and first < 2 * order:
                first += 1  # what a mean multiplies is 0 in the limit
                plain = tuple(_wholes(parts, first, pairs, matrix_of))
            carried = [_carried(whole, pairs) for whole in plain]
            last = first + _degrees(stage, carried, found, order, first)
            for degree in range(max(1, first), last + 1):
                alike.update(map(_normal, _wholes(parts, degree, pairs, matrix_of)))
        for whole, count in alike.items():
            evaluate(whole, pairs, count, result)
        return result

    result: Moment = {}
    for wanted in [pairing] if pairing else pair_partitions(sum(map(len, slots))):
        total: Expansion = {}
        for blocks in splittings(slots, wanted):
            moments = multiply_all([moment(*block) for block in blocks], order)
            add(total, moments, mobius(len(blocks)))
        result[wanted] = total
    return result


def _degrees(
    stage: Stage, plain: Sequence[Summand], found: Expansion, order: int, first: int
) -> int:
    """How many c − c* matter beside those of X, a product of equations to the degree `first`.

    E[X δc] and E[X δc δc] are of order 1/n relative to E[X], and so on. E[X] may also vanish for
    its parity, which means, odd themselves, make up for; −1 where nothing matters, X included.
    """
    if not stage.means or not plain:
        return -1
    if found:
        return 2 * (order - min(at for _, at in found))
    if not stage.has_centres:
        return -1
    return max(_repairs(whole, order, first > 0) for whole in plain)


def _repairs(whole: Summand, order: int, even: bool) -> int:
    """How many c − c* matter where E[X] vanishes, or, if `even`, where it may not; −1 for none.

    A sum over a neuron brings n, and 1/n or a weight makes up for it; two neurons where a variable
    stands alone bring one n between them, or none where one of them is carried. A mean Σ_a z_a/n
    is such a neuron more: at a carried one it costs 1/n, at a summed one n^{-1/2}.
    """
    ends = Counter(j for placed in whole.fields for j in placed.neurons)
    live = {j for j, *_ in whole.factors}
    weighted = {j for *_, j in whole.weights}
    free = set(range(len(whole.neurons))) - weighted
    alone = [j for j, count in ends.items() if count % 2 and j not in live | weighted]
    summed = sum(j >= 0 for j in alone)
    carried = len(alone) - summed
    missing = max(0, carried - summed)
    power = Fraction(len(whole.means) - len(free) + missing)
    power += Fraction(summed + min(summed, carried), 2)
    if power > order:
        return -1
    if live or weighted:  # σ has no parity, nor has a neuron before it is paired
        return int(2 * (order - power))
    if len(alone) % 2 and not missing:
        missing, power = 1, power + Fraction(1, 2)
    return missing + 2 * int(order - power) if power <= order and (missing or even) else -1


class Work(NamedTuple):
    """How large a cumulant is: averages over the weights, and about how many terms they add up."""

    averages: int
    terms: int


RATE = 200_000
"""Terms that are added up in a second, where few of them are alike."""


def work(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    order: int,
    most: float = inf,
) -> Work:
    """What `layer_cumulant` has to do for this pairing; the count ends beyond `most` terms.

    An average adds up about as many terms as there are ways to put the legs of the cumulants of z
    on its factors (`_insertions`).
    """
    slots = slots_of(fields)
    whole = tuple(range(len(fields))), pairing
    blocks = {whole: None}
    if len(fields) <= MOST_POINTS:
        blocks |= {block: None for split in splittings(slots, pairing) for block in split}
    averages = terms = 0
    for block, pairs in blocks:
        for parts in _products(DENSE, fields, samples, block):
            for term in _wholes(parts, 0, pairs):
                rows = (_rows(term, pairs) or {}).get(0, ())
                half = sum(map(len, rows)) // 2
                for q in pairings(2 * half):
                    joined = _identify(term, {0: q})
                    places = Counter(j for j, _ in {(j, s) for j, s, *_ in joined.factors})
                    power = max(0, order - half - len(term.means) + len(joined.neurons))
                    averages += 1
                    terms += _insertions(tuple(sorted(places.values())), power)
                    if terms > most:
                        return Work(averages, terms)
    return Work(averages, terms)


@cache
def _insertions(places: tuple[int, ...], order: int) -> int:
    """The terms of exp(Σ κ_{2m}^g(z) ∂^{2m}) at this order in 1/n, all neurons distinct.

    `places` has the number of samples that σ is taken at, neuron by neuron. Of the 2m legs an even
    number, 2k, goes to a neuron with t of them, in C(t+2k−1, 2k) (2k−1)!! ways; κ_{2m}^g is of
    order m − 1 + g.
    """
    legs = [1] + [0] * (order + 1)
    for t in places:
        own = [
            comb(t + 2 * k - 1, 2 * k) * double_factorial_pairings(2 * k) for k in range(len(legs))
        ]
        legs = [sum(legs[i] * own[m - i] for i in range(m + 1)) for m in range(len(legs))]
    exponential = [Fraction(1)]
    for c in range(1, order + 1):
        parts = (k * sum(legs[1 : k + 2]) * exponential[c - k] for k in range(1, c + 1))
        exponential.append(sum(parts, start=Fraction(0)) / c)
    return round(exponential[order])


def splittings(
    slots: list[tuple[int, ...]], pairing: Blocks
) -> Iterator[list[tuple[tuple[int, ...], Blocks]]]:
    """The set partitions of the fields that no pair straddles, each block with its pairs."""
    owner = {slot: f for f, own in enumerate(slots) for slot in own}
    for partition in set_partitions(tuple(range(len(slots)))):
        block_of = {f: block for block in partition for f in block}
        if all(block_of[owner[a]] == block_of[owner[b]] for a, *others in pairing for b in others):
            yield [
                (block, tuple(pair for pair in pairing if block_of[owner[pair[0]]] == block))
                for block in partition
            ]


class _Expandable(Protocol):
    """What is expanded in the collective variables: a `Line`, or an equation of one's own."""

    def degree(self, total: int) -> tuple[Summand, ...]: ...


class _Given(NamedTuple):
    """A field's equation of one's own, in a dense layer."""

    summand: Summand

    def degree(self, total: int) -> tuple[Summand, ...]:
        return () if total else (self.summand,)


@cache
def _equation(
    stage: Stage, field: AnyField, slots: tuple[int, ...], samples: tuple[int, ...]
) -> tuple[_Expandable, ...]:
    """The field's equation, product by product."""
    if isinstance(field, Field):
        return lines(stage, field, slots, samples)
    if not stage.is_dense:
        wanted = "fields that are z or its derivatives by θ, in layers other than the dense one"
        raise InputError("fields", str(field), wanted)
    return tuple(_Given(summand(term)) for term in forward(field, slots, samples))


def _products(
    stage: Stage, fields: tuple[AnyField, ...], samples: tuple[int, ...], block: tuple[int, ...]
) -> Iterator[tuple[_Expandable, ...]]:
    """The products of the equations of the block's fields."""
    slots = slots_of(fields)
    return product(
        *(
            _equation(stage, fields[f], slots[f], tuple(samples[slot] for slot in slots[f]))
            for f in block
        )
    )


def _wholes(
    parts: tuple[_Expandable, ...],
    degree: int,
    pairs: Blocks,
    matrix_of: Mapping[int, int] | None = None,
) -> Iterator[Summand]:
    """The terms of a product of this degree in c − c* that have a δ of these pairs.

    `matrix_of` has the matrix of each slot, where the stage's one matrix stands for several.
    """
    for split in compositions(degree, len(parts)):
        expanded = (part.degree(d) for part, d in zip(parts, split, strict=True))
        for terms in product(*expanded):
            whole = prod(terms, start=Summand())
            if matrix_of:
                weights = tuple((matrix_of[slot], slot, j) for _, slot, j in whole.weights)
                whole = whole._replace(weights=weights)
            if _rows(whole, pairs) is not None:
                yield whole


def _rows(whole: Summand, pairs: Blocks) -> Rows | None:
    """The rows of each matrix; None where there is no δ of these pairs."""
    place: dict[int, tuple[object, int]] = {}
    count: Counter[int] = Counter()
    for matrix, slot, _ in whole.weights:
        place[slot] = matrix, count[matrix]
        count[matrix] += 1
    for slot, kind in whole.biases:
        place[slot] = kind, -1
    for placed in whole.fields:
        for node, j in enumerate(placed.neurons):
            if j < 0:
                place[-1 - j] = placed.field.kind(node).group, -1
    fixed = {ordered(a, b) for a, b in whole.deltas}
    if not fixed <= set(pairs):
        return None
    rows: dict[int, list[tuple[int, ...]]] = {}
    for pair in pairs:
        if pair in fixed:
            continue
        (one, i), *others = (place.get(slot, (None, slot)) for slot in pair)
        if one is None or any(other != one for other, _ in others):
            return None
        if isinstance(one, int):
            rows.setdefault(one, []).append(tuple(sorted((i, *(j for _, j in others)))))
        elif len(pair) > 2:  # biases are Gaussian
            return None
    return {matrix: tuple(sorted(found)) for matrix, found in rows.items()}


def _normal(whole: Summand) -> Summand:
    """The same, its neurons numbered by where they stand: equal for many that are alike."""

    def key(placed: Placed) -> tuple[object, ...]:
        return placed.field.rank, placed.samples, [min(j, 0) for j in placed.neurons]

    fields = sorted(whole.fields, key=key)
    factors = sorted(whole.factors, key=lambda factor: factor[1:])
    met = [j for *_, j in sorted(whole.weights)]
    met += [j for placed in fields for j in placed.neurons if j >= 0]
    met += [j for j, *_ in factors]
    number = {j: k for k, j in enumerate(dict.fromkeys([*met, *range(len(whole.neurons))]))}
    placed_again = (
        placed._replace(neurons=tuple(number.get(j, j) for j in placed.neurons))
        for placed in fields
    )
    return whole._replace(
        fields=tuple(sorted(placed_again, key=lambda p: (p.field.rank, p.samples, p.neurons))),
        factors=tuple(sorted((number[j], sample, order, of) for j, sample, order, of in factors)),
        weights=tuple(sorted((m, slot, number[j]) for m, slot, j in whole.weights)),
        neurons=tuple(whole.neurons[j] for j in number),
        atoms=tuple(sorted(whole.atoms, key=hash)),
        means=tuple(sorted(whole.means)),
    )


class _Average(NamedTuple):
    """Steps 2 to 4 for one product of equations."""

    stage: Stage
    weights: WeightEnsemble
    order: int
    square: bool
    below: Below | None
    corrections: int

    def __call__(self, whole: Summand, rows: Rows, pairs: Blocks) -> Iterator[Expansion]:
        """One choice of pairings of the columns, a pairing of each matrix's, at a time."""
        halves = tuple(
            (self.stage.matrices[m].variance, sum(map(len, p)) // 2) for m, p in rows.items()
        )
        half = sum(count for _, count in halves)
        most = self.order + len(whole.neurons)
        prefactor = multiply_all(
            [
                {(times(whole.parameters, monomial(whole.atoms)), 0): whole.coefficient},
                *(_over(self.ratio(space)) for space in whole.means),
                _variances((*halves, (C_B, len(whole.biases) // 2)), self.corrections),
            ],
            most,
        )
        carried = _carried(whole, pairs)
        for columns in product(*map(self.weights.columns, rows.values())):
            spectrum = multiply_all(
                [
                    self.spectrum(m, p, q, half)
                    for (m, p), q in zip(rows.items(), columns, strict=True)
                ],
                most,
            )
            if not spectrum:
                yield {}
                continue
            joined = _identify(carried, dict(zip(rows, columns, strict=True)))
            budget = self.order - min(at for _, at in spectrum) - len(whole.means)
            averaged = (
                self.below(joined.term(), budget, self.square)
                if self.below
                else self.neurons(joined, budget)
            )
            yield multiply(multiply(prefactor, spectrum, most), averaged, self.order)

    def ratio(self, space: str) -> Atom | None:
        """The width of a space over n, None where they are equal."""
        own = dict(self.stage.ratios).get(space)
        if own is not None or self.square:
            return own
        return {STREAM.space: R_IN, ABOVE: R_OUT}.get(space)

    def spectrum(self, matrix: int, rows: Blocks, columns: Blocks, half: int) -> Expansion:
        """C(p, q) of one of the stage's matrices, to as high an order as may be needed."""
        into, out = (self.ratio(space) for space in self.stage.matrices[matrix][1:])
        square = into is None and out is None
        found = self.weights.spectrum(rows, columns, self.order + half, square)
        return found if square or (into, out) == (R_IN, R_OUT) else _renamed(found, into, out)

    def neurons(self, whole: Summand, order: int) -> Expansion:
        """Σ_j E[Π σ^{(…)}_j · fields] over the neurons of the stage below: steps 3 and 4."""
        carried = {
            j: placed.field.kind(node).space
            for placed in whole.fields
            for node, j in enumerate(placed.neurons)
            if j < 0
        }
        outside = list(carried)
        taken = Counter(carried.values())
        own = [[k for k, j in enumerate(outside) if carried[j] == space] for space in whole.neurons]
        result: Expansion = {}
        for homes, free in coincidences(whole.neurons, own, len(outside), -order):
            number = dict(zip(outside, range(len(outside)), strict=True)) | dict(enumerate(homes))
            if _is_odd(whole, number):
                continue
            content: list[list[tuple[int, int, Kind]]] = [
                [] for _ in range(len(outside) + len(free))
            ]
            for j, sample, derivatives, of in whole.factors:
                content[number[j]].append((sample, derivatives, of))
            placed = tuple(
                each._replace(neurons=tuple(number[j] for j in each.neurons))
                for each in whole.fields
            )
            neurons = tuple(tuple(sorted(factors)) for factors in content)
            budget = order + len(free)
            group = self.weights.group
            averaged = _expand_layer(neurons, placed, budget, self.stage.has_centres, group)
            if not averaged:
                continue
            ways = [
                ways_of(self.ratio(space), count, taken[space])
                for space, count in Counter(free).items()
            ]
            if self.stage.keep is not None:
                averaged = multiply(averaged, _masked(neurons, self.stage.keep), budget)
            add(result, multiply(multiply_all(ways, 0), averaged, order))
        return result


def _masked(neurons: Sequence[Neuron], keep: Value) -> Expansion:
    """E[Π μ/p] over the masks of dropout: p^{1−r} for r factors σ of one neuron and one sample."""
    alike = Counter((j, sample) for j, content in enumerate(neurons) for sample, *_ in content)
    return {(power(keep, sum(1 - count for count in alike.values())), 0): Fraction(1)}


def _is_odd(whole: Summand, number: dict[int, int]) -> bool:
    """Whether some neuron without σ has an odd number of a group's indices."""
    ends: Counter[tuple[int, str]] = Counter(
        (number[j], placed.field.kind(node).group)
        for placed in whole.fields
        for node, j in enumerate(placed.neurons)
    )
    live = {number[j] for j, *_ in whole.factors}
    return any(count % 2 and j not in live for (j, _), count in ends.items())


def _over(ratio: Atom | None) -> Expansion:
    """1/(rn)."""
    return {(UNIT if ratio is None else power(ratio, -1), 1): Fraction(1)}


def _renamed(spectrum: Expansion, into: Atom | None, out: Atom | None) -> Expansion:
    """The widths' ratios of a matrix as those of its spaces, 1 for None."""
    big = into if into == out else Value(sympy.Max(_size(into), _size(out)))
    names: dict[Atom, Atom | None] = {R_IN: into, R_OUT: out, R_BIG: big}
    result: Expansion = {}
    for (mono, at), value in spectrum.items():
        named = UNIT
        for atom, exponent in mono:
            ratio: Atom | None = names.get(atom, atom)
            if ratio is not None:
                named = times(named, power(ratio, exponent))
        add(result, {(named, at): value})
    return result


def _size(ratio: Atom | None) -> sympy.Expr:
    if isinstance(ratio, Parameter):
        return PARAMETERS[ratio.name]
    return ratio.expr if isinstance(ratio, Value) else sympy.Integer(1)


@cache
def _variances(halves: tuple[tuple[Parameter | Value, int], ...], corrections: int) -> Expansion:
    """Π C^{half}, C_W and C_b each a series in 1/n up to n^{-corrections}."""
    factors: list[Expansion] = []
    for variance, half in halves:
        atoms: tuple[Atom, ...] = (variance,)
        if isinstance(variance, Parameter) and variance in (C_W, C_B):
            atoms = correction(variance, corrections)
        series: Expansion = {(power(atom, 1), g): Fraction(1) for g, atom in enumerate(atoms)}
        factors += [series] * half
    return multiply_all(factors, corrections)


def _carried(whole: Summand, pairs: Blocks) -> Summand:
    """The same with −1 − k, k the pair, for the neurons of what is carried."""
    home = {-1 - slot: -1 - k for k, pair in enumerate(pairs) for slot in pair}
    return whole._replace(
        fields=tuple(
            placed._replace(neurons=tuple(home.get(j, j) for j in placed.neurons))
            for placed in whole.fields
        )
    )


def _identify(whole: Summand, columns: Rows) -> Summand:
    """The product with the neurons that the pairings identify made one, and numbered from 0."""
    name = list(range(len(whole.neurons)))
    for matrix, q in columns.items():
        ends = [j for m, _, j in whole.weights if m == matrix]
        for a, *others in q:
            for b in others:
                i, j = name[ends[a]], name[ends[b]]
                name = [i if other == j else other for other in name]
    kept = sorted(set(name))
    number = {j: kept.index(name[j]) for j in range(len(name))}
    return whole._replace(
        weights=(),
        factors=tuple((number[j], sample, order, of) for j, sample, order, of in whole.factors),
        fields=tuple(
            placed._replace(neurons=tuple(number.get(j, j) for j in placed.neurons))
            for placed in whole.fields
        ),
        neurons=tuple(whole.neurons[j] for j in kept),
    )


def coincidences(
    spaces: Sequence[str], own: Sequence[Sequence[int]], outside: int, least: int
) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """Which neuron each summed one is: one outside the sums, of its `own`, or one that is free.

    Those outside have the numbers 0 … outside−1, and the free ones, whose spaces come too, those
    behind; there are `least` free ones or more.
    """

    def extended(
        homes: tuple[int, ...], free: tuple[str, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
        j = len(homes)
        if j == len(spaces):
            yield homes, free
            return
        if len(free) + len(spaces) - j > least:
            for k in own[j]:
                yield from extended((*homes, k), free)
            for k, space in enumerate(free):
                if space == spaces[j]:
                    yield from extended((*homes, outside + k), free)
        yield from extended((*homes, outside + len(free)), (*free, spaces[j]))

    if len(spaces) >= least:
        yield from extended((), ())


@cache
def ways_of(ratio: Atom | None, count: int, taken: int) -> Expansion:
    """How many ways to choose distinct neurons, in order, among rn of which some are taken."""
    width = UNIT if ratio is None else power(ratio, 1)
    result = constant(1)
    for k in range(taken, taken + count):
        result = multiply(result, {(width, -1): Fraction(1), (UNIT, 0): Fraction(-k)}, 0)
    return result


def hidden_layer(
    term: Term, order: int, square: bool, weights: WeightEnsemble = _GAUSSIAN
) -> Expansion:
    """Σ_j E[Π σ^{(…)}_j · fields] over a hidden layer of a dense network, up to n^{-order}.

    `weights` are those of the network: what keeps their law keeps the layer's.
    """
    average = _Average(DENSE, weights, order, square, None, 0)
    return average.neurons(summand(term), order)


def input_layer(
    term: Term, order: int, square: bool, weights: WeightEnsemble = _GAUSSIAN
) -> Expansion:
    """Σ_j Π x_j over the inputs: σ is the identity, each sum n_0 K_{αβ}, K = xᵀx/n_0, or n_0.

    Weights of a law that rotations do not keep bring n_0 times Σ_j x_j x_j x_j x_j/n_0 as well.
    """
    if any(derivatives > 1 for _, _, derivatives in term.factors):
        return {}
    name = list(range(term.neurons))
    inputs = [(j, sample) for j, sample, derivatives in term.factors if derivatives == 0]
    for placed in term.fields:
        if placed.field.at_inputs == "zero":
            return {}
        if placed.field.at_inputs == "inputs":
            inputs += zip(placed.neurons, placed.samples, strict=True)
        else:
            i, j = (name[neuron] for neuron in placed.neurons)
            name = [i if other == j else other for other in name]
    samples: dict[int, list[int]] = {j: [] for j in name}
    for j, sample in inputs:
        samples[name[j]].append(sample)
    most = 2 if weights.group == "O" else len(inputs)
    if any(len(found) % 2 or len(found) > most for found in samples.values()):
        raise InputError(
            "fields", term.fields, "cumulants that at layer 1 depend on the inputs through xᵀx only"
        )
    kernels = [_input_mean(tuple(found)) for found in samples.values() if found]
    width = UNIT if square else power(R_IN, len(samples))
    return {(times(monomial(kernels), width), -len(samples)): Fraction(1)}


def _input_mean(samples: tuple[int, ...]) -> Tensor:
    """The mean over the inputs' entries of a product of them, as the tensor of one block."""
    block = tuple(range(len(samples)))
    return tensor((Z,) * len(samples), 0, (block,), samples)


@lru_cache(maxsize=100_000)
def _expand_layer(
    neurons: tuple[Neuron, ...], fields: tuple[Placed, ...], order: int, outward: bool, group: str
) -> Expansion:
    """E[Π_j F_j(z_j) Π fields] over distinct neurons, up to n^{-order}, around z ~ N(0, K).

    Every set partition of the fields into joint cumulants, each with any number of variables that
    become derivatives of the F_j, times any number of cumulants of these variables alone. `outward`
    brings the brackets to their normal form; `group` keeps the layer's law.
    """
    targets = tuple(
        (j, sample, kind)
        for j, factors in enumerate(neurons)
        for sample, kind in sorted({(sample, kind) for sample, _, kind in factors})
    )
    result: Expansion = {}
    for partition in _partitions(fields, {j for j, *_ in targets}, order):
        for insertions in _choices(partition, targets, order, group):
            for (outer, mono, n_power), value in insertions.items():
                averaged: Expansion = {(mono, n_power): value}
                for bracket in _brackets(neurons, outer):
                    if outward:
                        averaged = multiply(averaged, _normal_form(bracket), n_power)
                    else:
                        averaged = {
                            (times(mono, power(bracket, 1)), at): value
                            for (mono, at), value in averaged.items()
                        }
                add(result, averaged)
    return result


def _brackets(neurons: tuple[Neuron, ...], outer: tuple[Target, ...]) -> Iterator[Bracket]:
    """One for each variable that σ is taken of at a neuron."""
    for j, factors in enumerate(neurons):
        for kind in sorted({kind for *_, kind in factors}):
            yield Bracket(
                tuple((sample, order) for sample, order, of in factors if of == kind),
                tuple(sample for i, sample, of in outer if i == j and of == kind),
                kernel_label(kind),
            )


@cache
def _normal_form(bracket: Bracket) -> Expansion:
    return {(power(each, 1), 0): value for each, value in normal_form(bracket).items()}


def _partitions(
    fields: tuple[Placed, ...], live: set[int], order: int
) -> Iterator[tuple[tuple[Placed, ...], ...]]:
    """The set partitions into joint cumulants that can be of this order and are not odd.

    A cumulant of m pairs is of order n^{1−m}; a neuron without σ has no more than the fields' ends.
    """
    if not fields:
        yield ()
        return
    first, rest = fields[0], fields[1:]
    for size in range(len(rest) + 1):
        if (first.field.nodes + size + 1) // 2 - 1 > order:
            break
        for others in combinations(range(len(rest)), size):
            block = (first, *(rest[k] for k in others))
            cost = (sum(placed.field.nodes for placed in block) + 1) // 2 - 1
            if cost > order or not _odd(block) <= live:
                continue
            left = tuple(placed for k, placed in enumerate(rest) if k not in others)
            for tail in _partitions(left, live, order - cost):
                yield (block, *tail)


def _odd(block: tuple[Placed, ...]) -> set[int]:
    """The neurons at which a group has an odd number of indices."""
    found: set[tuple[int, str]] = set()
    for placed in block:
        for node, j in enumerate(placed.neurons):
            found ^= {(j, placed.field.kind(node).group)}
    return {j for j, _ in found}


Insertions = dict[tuple[tuple[Target, ...], Monomial, int], Fraction]
"""(outer derivatives, tensors, power of 1/n) → coefficient."""


def _choices(
    blocks: tuple[tuple[Placed, ...], ...], targets: tuple[Target, ...], order: int, group: str
) -> Iterator[Insertions]:
    """The joint cumulants of the blocks, then exp of the cumulants of z alone, to n^{-order}."""
    partial: Insertions = {((), UNIT, 0): Fraction(1)}
    for block in blocks:
        nodes = sum(placed.field.nodes for placed in block)
        joined: Insertions = {}
        for extra in range(nodes % 2, 2 * order + 3 - nodes, 2):
            pairs = (nodes + extra) // 2
            for relative in range(order - pairs + 2):
                insertion = _insert(block, extra, relative, targets, group)
                _convolve(joined, partial, insertion, order)
        partial = joined
    yield from _exponential(partial, targets, order, group)


def _exponential(
    partial: Insertions, targets: tuple[Target, ...], order: int, group: str
) -> Iterator[Insertions]:
    """partial · exp(Σ κ_{2m}(z)·∂^{2m}/(2m)!) without K itself, to n^{-order}."""
    kinds = [
        (2 * pairs, relative)
        for pairs in range(1, order + 2)
        for relative in range(order + 2 - pairs)
        if (pairs, relative) != (1, 0)
    ]
    cost = {kind: kind[0] // 2 - 1 + kind[1] for kind in kinds}
    for number in range(order + 1):
        for chosen in combinations_with_replacement(kinds, number):
            if sum(cost[kind] for kind in chosen) > order:
                continue
            repeats = prod(factorial(count) for count in Counter(chosen).values())
            current = {key: value / repeats for key, value in partial.items()}
            for extra, relative in chosen:
                joined: Insertions = {}
                _convolve(joined, current, _insert((), extra, relative, targets, group), order)
                current = joined
            yield current


def _convolve(total: Insertions, a: Insertions, b: Insertions, order: int) -> None:
    for (outer, mono, i), x in a.items():
        for (more, other, j), y in b.items():
            if i + j <= order:
                key = (tuple(sorted(outer + more)), times(mono, other), i + j)
                total[key] = total.get(key, Fraction(0)) + x * y


@lru_cache(maxsize=100_000)
def _insert(
    block: tuple[Placed, ...],
    extra: int,
    relative: int,
    targets: tuple[Target, ...],
    group: str,
) -> Insertions:
    """κ(block, z^extra)·∂^extra/extra! at this relative order in 1/n, as insertions."""
    own = tuple(placed.field for placed in block)
    ends = [
        (j, placed.field.kind(node).group)
        for placed in block
        for node, j in enumerate(placed.neurons)
    ]
    samples = [sample for placed in block for sample in placed.samples]
    refining: Callable[[list[list[int]]], Iterator[Blocks]] = (
        refining_pairings if group == "O" else refining_partitions
    )
    result: Insertions = {}
    for outer in combinations_with_replacement(targets, extra):
        weight = Fraction(1, prod(factorial(count) for count in Counter(outer).values()))
        slots = ends + [(j, kind.group) for j, _, kind in outer]
        places = [[slot for slot, at in enumerate(slots) if at == one] for one in set(slots)]
        if any(len(place) % 2 for place in places):
            continue
        fields = own + tuple(_variable(kind) for *_, kind in outer)
        labels = tuple(samples + [sample for _, sample, _ in outer])
        for pairing in refining(places):
            atom = tensor(fields, relative, pairing, labels)
            key = (outer, monomial([atom]), atom.n_power)
            result[key] = result.get(key, Fraction(0)) + weight
    return result


@cache
def _variable(kind: Kind) -> Field:
    """A variable as a field."""
    return Field(1, (), (kind,))
