"""From a network to a recursion: average one layer's weights, then the layer below, in 1/n.

The five steps, none of which knows a tensor by name:
1. forward equations of the fields as polynomials in the weights (`fields.forward`);
2. E over the weights: Σ_{p,q} δ_p(i) C(p,q) δ_q(j) (`weights`), biases by Wick;
3. sums over neurons split into sums over distinct neurons;
4. E over the layer below, expanded around the Gaussian of kernel K,
       E[F] = exp(Σ_r κ_r·∂^r / r!) F    at z ~ N(0, K), H = Θ, …;
5. joint cumulants from moments; the coefficient of δ_p(i) n^{-power} is the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations_with_replacement, product
from math import comb, factorial, inf, prod
from typing import NamedTuple

from ..arithmetic.parameters import C_B, C_W, R_IN, correction
from ..arithmetic.polynomials import (
    UNIT,
    Expansion,
    Monomial,
    add,
    distinct_neurons,
    monomial,
    multiply,
    multiply_all,
    power,
    times,
)
from ..errors import InputError
from ..gaussian.brackets import Bracket
from ..groups.pairings import (
    MOST_POINTS,
    Pairing,
    coset_type,
    double_factorial_pairings,
    mobius,
    ordered,
    pair_partitions,
    pairings,
    refining_pairings,
    set_partitions,
)
from ..weights import WeightEnsemble
from .fields import AnyField, Placed, Term, Z, forward, slots_of
from .tensors import tensor

Moment = dict[Pairing, Expansion]
Below = Callable[[Term, int, bool], Expansion]
Neuron = tuple[tuple[int, int], ...]
"""The factors σ^{(order)}(z_{sample}) at one neuron, as sorted pairs (sample, order)."""


def layer_cumulant(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    weights: WeightEnsemble,
    order: int,
    square: bool = True,
    below: Below | None = None,
    *,
    pairing: Pairing | None = None,
    corrections: int = 0,
    progress: Callable[[], None] | None = None,
) -> Moment:
    """The joint cumulant of fields at layer ℓ+1, up to n^{-order}, by pairing of neural indices.

    Arguments:
        fields, samples: the fields, and the sample of each of their nodes in turn.
        weights: the ensemble of layer ℓ+1.
        order: the highest power of 1/n kept.
        square: n_ℓ = n_{ℓ+1} = n; otherwise their ratios to n stay symbols.
        below: how to average layer ℓ; by default `hidden_layer`, the expansion around its kernel.
        pairing: the one pairing that is wanted; all of them by default.
        corrections: C_W + C_W1/n + … and C_b + C_b1/n + … up to this power (source 000, eq. 5.28).
        progress: called after every average over the weights (`work`).
    """
    below = below or hidden_layer
    slots = slots_of(fields)

    @cache
    def moment(block: tuple[int, ...], pairs: Pairing) -> Expansion:
        result: Expansion = {}
        for term, rows in _products(fields, samples, block, pairs):
            for averaged in _average(term, rows, weights, order, square, below, corrections):
                add(result, averaged)
                if progress:
                    progress()
        return result

    result: Moment = {}
    for wanted in [pairing] if pairing else pair_partitions(sum(map(len, slots))):
        total: Expansion = {}
        for blocks in splittings(slots, wanted):
            moments = multiply_all([moment(*block) for block in blocks], order)
            add(total, moments, mobius(len(blocks)))
        result[wanted] = total
    return result


class Work(NamedTuple):
    """How large a cumulant is: averages over the weights, and about how many terms they add up."""

    averages: int
    terms: int


RATE = 200_000
"""Terms that are added up in a second, where few of them are alike."""


def work(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Pairing,
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
    for block in blocks:
        for term, rows in _products(fields, samples, *block):
            half = len(rows)
            for q in pairings(2 * half):
                joined = _identify(term, q)
                places = Counter(j for j, _ in {(j, sample) for j, sample, _ in joined.factors})
                power = max(0, order - half - term.fan_in + joined.neurons)
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
    slots: list[tuple[int, ...]], pairing: Pairing
) -> Iterator[list[tuple[tuple[int, ...], Pairing]]]:
    """The set partitions of the fields that no pair straddles, each block with its pairs."""
    owner = {slot: f for f, own in enumerate(slots) for slot in own}
    for partition in set_partitions(tuple(range(len(slots)))):
        block_of = {f: block for block in partition for f in block}
        if all(block_of[owner[a]] == block_of[owner[b]] for a, b in pairing):
            yield [
                (block, tuple(pair for pair in pairing if block_of[owner[pair[0]]] == block))
                for block in partition
            ]


def _products(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    block: tuple[int, ...],
    pairs: Pairing,
) -> Iterator[tuple[Term, Pairing]]:
    """The products of the block's forward terms that have a δ of these pairs, and their rows p."""
    slots = slots_of(fields)
    expanded = [
        forward(fields[f], slots[f], tuple(samples[slot] for slot in slots[f])) for f in block
    ]
    for terms in product(*expanded):
        whole = prod(terms, start=Term())
        row = {slot: place for place, (slot, _) in enumerate(whole.weights)}
        fixed = {ordered(a, b) for a, b in whole.deltas}
        biases = set(whole.biases)
        if fixed <= set(pairs) and all(
            pair in fixed or {*pair} <= row.keys() or {*pair} <= biases for pair in pairs
        ):
            yield whole, tuple(sorted(ordered(row[a], row[b]) for a, b in pairs if a in row))


def _average(
    term: Term,
    rows: Pairing,
    weights: WeightEnsemble,
    order: int,
    square: bool,
    below: Below,
    corrections: int,
) -> Iterator[Expansion]:
    """Steps 2 to 4 for one product of forward terms, one pairing q of the columns at a time."""
    half = len(rows)
    fan_in = UNIT if square else power(R_IN, -term.fan_in)
    prefactor = multiply(
        {(times(term.parameters, fan_in), term.fan_in): term.coefficient},
        _variances(half, len(term.biases) // 2, corrections),
        order + term.neurons,
    )
    for q in pair_partitions(2 * half):
        spectrum = weights.expansion(coset_type(rows, q), order + half, square)
        if not spectrum:
            yield {}
            continue
        averaged = below(_identify(term, q), order - half - term.fan_in, square)
        yield multiply(multiply(prefactor, spectrum, order + term.neurons), averaged, order)


@cache
def _variances(weights: int, biases: int, corrections: int) -> Expansion:
    """C_W^{weights} C_b^{biases}, each C a series in 1/n up to n^{-corrections}."""
    series: list[Expansion] = [
        {(power(atom, 1), g): Fraction(1) for g, atom in enumerate(correction(base, corrections))}
        for base in (C_W, C_B)
    ]
    return multiply_all([series[0]] * weights + [series[1]] * biases, corrections)


def _identify(term: Term, q: Pairing) -> Term:
    """The term with the neurons that q pairs made one, and numbered from 0."""
    name = list(range(term.neurons))
    for a, b in q:
        i, j = name[term.weights[a][1]], name[term.weights[b][1]]
        name = [i if other == j else other for other in name]
    return _renumber(term, {j: sorted(set(name)).index(name[j]) for j in range(term.neurons)})


def _renumber(term: Term, neuron: dict[int, int]) -> Term:
    return term._replace(
        weights=(),
        factors=tuple((neuron[j], sample, order) for j, sample, order in term.factors),
        fields=tuple(
            placed._replace(neurons=tuple(neuron[j] for j in placed.neurons))
            for placed in term.fields
        ),
        neurons=len(set(neuron.values())),
    )


def hidden_layer(term: Term, order: int, square: bool) -> Expansion:
    """Σ_j E[Π σ^{(…)}_j · fields] over a hidden layer, up to n^{-order}: steps 3 and 4."""
    result: Expansion = {}
    for partition in set_partitions(tuple(range(term.neurons))):
        budget = order + len(partition)
        if budget < 0:
            continue
        distinct = _renumber(term, {j: b for b, block in enumerate(partition) for j in block})
        content: list[list[tuple[int, int]]] = [[] for _ in partition]
        for j, sample, derivatives in distinct.factors:
            content[j].append((sample, derivatives))
        neurons = tuple(tuple(sorted(factors)) for factors in content)
        averaged = _expand_layer(neurons, distinct.fields, budget)
        add(
            result,
            multiply(distinct_neurons(None if square else R_IN, len(neurons)), averaged, order),
        )
    return result


def input_layer(term: Term, order: int, square: bool) -> Expansion:
    """Σ_j Π x_j over the inputs: σ is the identity, each sum n_0 K_{αβ}, K = xᵀx/n_0, or n_0."""
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
    if any(len(found) not in {0, 2} for found in samples.values()):
        raise InputError(
            "fields", term.fields, "cumulants that at layer 1 depend on the inputs through xᵀx only"
        )
    kernels = [tensor((Z, Z), 0, ((0, 1),), (a, b)) for a, b in filter(None, samples.values())]
    width = UNIT if square else power(R_IN, len(samples))
    return {(times(monomial(kernels), width), -len(samples)): Fraction(1)}


@lru_cache(maxsize=100_000)
def _expand_layer(neurons: tuple[Neuron, ...], fields: tuple[Placed, ...], order: int) -> Expansion:
    """E[Π_j F_j(z_j) Π fields] over distinct neurons, up to n^{-order}, around z ~ N(0, K).

    Every set partition of the fields into joint cumulants, each with any number of preactivations
    that become derivatives of the F_j, times any number of cumulants of preactivations alone.
    """
    targets = [
        (j, sample)
        for j, factors in enumerate(neurons)
        for sample in sorted({s for s, _ in factors})
    ]
    result: Expansion = {}
    for partition in set_partitions(fields):
        for insertions in _choices(partition, targets, order):
            for (outer, mono, n_power), value in insertions.items():
                averages = []
                for j, factors in enumerate(neurons):
                    derivatives = tuple(sample for i, sample in outer if i == j)
                    averages.append(Bracket(factors, derivatives))
                averages = [bracket for bracket in averages if bracket.factors]
                add(result, {(times(mono, monomial(averages)), n_power): value})
    return result


Insertions = dict[tuple[tuple[tuple[int, int], ...], Monomial, int], Fraction]
"""(outer derivatives (neuron, sample), tensors, power of 1/n) → coefficient."""


def _choices(
    blocks: tuple[tuple[Placed, ...], ...], targets: list[tuple[int, int]], order: int
) -> Iterator[Insertions]:
    """The joint cumulants of the blocks, then exp of the cumulants of z alone, to n^{-order}."""
    partial: Insertions = {((), UNIT, 0): Fraction(1)}
    for block in blocks:
        nodes = sum(placed.field.nodes for placed in block)
        joined: Insertions = {}
        for extra in range(nodes % 2, 2 * order + 3 - nodes, 2):
            pairs = (nodes + extra) // 2
            for relative in range(order - pairs + 2):
                insertion = _insert(block, extra, relative, tuple(targets))
                _convolve(joined, partial, insertion, order)
        partial = joined
    yield from _exponential(partial, targets, order)


def _exponential(
    partial: Insertions, targets: list[tuple[int, int]], order: int
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
                _convolve(joined, current, _insert((), extra, relative, tuple(targets)), order)
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
    block: tuple[Placed, ...], extra: int, relative: int, targets: tuple[tuple[int, int], ...]
) -> Insertions:
    """κ(block, z^extra)·∂^extra/extra! at this relative order in 1/n, as insertions."""
    fields = (*(placed.field for placed in block), *((Z,) * extra))
    neurons = [j for placed in block for j in placed.neurons]
    samples = [sample for placed in block for sample in placed.samples]
    result: Insertions = {}
    for outer in combinations_with_replacement(targets, extra):
        weight = Fraction(1, prod(factorial(count) for count in Counter(outer).values()))
        slots = neurons + [j for j, _ in outer]
        labels = tuple(samples + [sample for _, sample in outer])
        places = [[slot for slot, j in enumerate(slots) if j == neuron] for neuron in set(slots)]
        if any(len(place) % 2 for place in places):
            continue
        for pairing in refining_pairings(places):
            atom = tensor(fields, relative, pairing, labels)
            key = (outer, monomial([atom]), atom.n_power)
            result[key] = result.get(key, Fraction(0)) + weight
    return result
