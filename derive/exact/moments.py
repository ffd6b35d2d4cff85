"""Joint moments of a layer's fields at finite width, for polynomial activations, not truncated.

The engine's steps (`derive.engine.cumulants`), each exact:

    E[Π φ] = Σ_terms Σ_q [Σ_{p: δ_p(i)=1} C(p,q)] Σ_{partitions of j} n(n−1)… E[Π σ^{(k)}_j Π φ']

where the polynomial σ turns the last average into joint moments of the layer below, φ' its fields,
down to the inputs, whose sums are n_0 K0. Everything is a Laurent polynomial in the width with
rational coefficients, in the atoms K0, `Spectrum` (the weights' pairing matrix, not evaluated) and
whatever parameters are not rational numbers.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from itertools import compress, product
from math import prod
from typing import NamedTuple, TypeAlias

import sympy

from .. import symbols
from ..activations.functions import Activation, z
from ..arithmetic.parameters import C_B, C_W, LAMBDA_B, LAMBDA_W, R_BIG, R_IN, R_OUT, Parameter
from ..arithmetic.polynomials import Expansion, add, constant, power
from ..arithmetic.polynomials import multiply as truncated_product
from ..engine.fields import Placed, Term, Z, forward
from ..engine.trees import input_terms
from ..errors import InputError
from ..groups.pairings import (
    Blocks,
    Pairing,
    Partition,
    coset_type,
    double_factorial_pairings,
    even_partitions,
    mobius,
    ordered,
    pair_partitions,
    refining_pairings,
    refining_partitions,
    set_partitions,
)
from ..groups.weingarten import class_size
from ..groups.zonal import partitions
from ..network import Network
from ..weights import IndependentEntries, PermutationInvariant, WeightEnsemble
from ..work.caches import cache

MAX_POINTS = 12
"""Several inputs: a product of more preactivations than this needs over (2k−1)!!² pairings."""
MAX_POINTS_SINGLE = 40
"""One input: its pairings fall into the classes of the partitions of k."""
MAX_PAIRS = 5
"""Products with an NTK or its kin that hold more pairs of weights than this."""

Kernel: TypeAlias = Callable[[int, int], sympy.Expr]
Pairs: TypeAlias = tuple[tuple[int, int], ...]
Neuron: TypeAlias = tuple[tuple[int, int], ...]
"""The factors σ^{(order)}(z_{sample}) at one neuron, as sorted pairs (sample, order)."""


class Spectrum(NamedTuple):
    """C(p,q)/C_W^k of the weights that lead into this layer, for this coset type of (p,q)."""

    layer: int
    coset: Partition


def multiply(a: Expansion, b: Expansion) -> Expansion:
    """a·b, all of it."""
    return truncated_product(a, b, sys.maxsize)


def raised(value: Expansion, exponent: int) -> Expansion:
    """value^exponent for a value of at most one term; 0^0 = 1."""
    if not exponent:
        return constant(1)
    return {
        (frozenset((atom, e * exponent) for atom, e in mono), at * exponent): number**exponent
        for (mono, at), number in value.items()
    }


def exact_value(value: sympy.Expr) -> Expansion:
    """A rational number as it is; anything else as an atom of its own."""
    if value.is_Rational:
        return constant(Fraction(int(value.p), int(value.q))) if value else {}
    return {(power(value, 1), 0): Fraction(1)}


class Moments:
    """E[Π φ] of one layer's fields, for given neural indices and samples.

    Arguments:
        network: with a polynomial activation.
        layer: 1, 2, ….
        width: the reference width n; an integer is put in, a symbol stays as powers of 1/n.
        inputs: n_0.
        kernel: K0_{αβ} = x_α·x_β/n_0, a number or a symbol for each pair of samples.
        depth: the last layer, this one by default.
    """

    def __init__(
        self,
        network: Network,
        layer: int,
        width: sympy.Expr,
        inputs: sympy.Expr,
        kernel: Kernel,
        depth: int | None = None,
    ) -> None:
        self.network, self.layer, self.kernel = network, layer, kernel
        self.width, self.inputs, self.depth = width, inputs, depth or layer
        self.weights = network.weights_at(layer, depth=self.depth)
        self.n_in, self.n_out = self._size(layer - 1), self._size(layer)
        self.fan_in = self._expansion(self.n_in)
        self.C_W, self.C_b = exact_value(self.weights.C_W), exact_value(network.C_b_at(layer))
        self._values: dict[Parameter, Expansion] = {
            C_W: self.C_W,
            C_B: self.C_b,
            LAMBDA_W: exact_value(network.lambda_W_at(layer)),
            LAMBDA_B: exact_value(network.lambda_b_at(layer)),
            R_IN: exact_value(sympy.cancel(self.n_in / width)),
            R_OUT: exact_value(sympy.cancel(self.n_out / width)),
            R_BIG: exact_value(sympy.cancel(sympy.Max(self.n_in, self.n_out) / width)),
        }
        self.below: Moments | None = None
        if layer > 1:
            self.below = Moments(network, layer - 1, width, inputs, kernel, self.depth)
        self._moments: dict[tuple[Placed, ...], Expansion] = {}
        self._weighed: dict[Pairs, Expansion] = {}
        self._sums: dict[tuple[tuple[Neuron, ...], tuple[Placed, ...]], Expansion] = {}
        self._averages: dict[tuple[tuple[Neuron, ...], tuple[Placed, ...]], Expansion] = {}
        self._spectra: dict[Partition, Expansion] = {}

    @property
    def sigma(self) -> Activation:
        """σ of the layer below, which this one reads."""
        return self.network.activation_at(self.layer - 1, self.depth)

    def __call__(self, fields: tuple[Placed, ...]) -> Expansion:
        """E[Π φ] where equal neural indices are equal and different ones differ."""
        fields = _canonical(fields)
        if fields not in self._moments:
            if self.weights.group != "O":
                self._moments[fields] = self._by_entries(fields)
            elif all(placed.field == Z for placed in fields):
                self._moments[fields] = self._preactivations(fields)
            else:
                self._moments[fields] = self._fields(fields)
        return self._moments[fields]

    def spectrum(self, coset: Partition) -> Expansion:
        """C(p,q)/C_W^k: a number at an integer width, else an atom; nothing where it vanishes."""
        if coset not in self._spectra:
            value = _coefficient(self.weights, coset, self.n_in, self.n_out)
            atom: Expansion = {(power(Spectrum(self.layer, coset), 1), 0): Fraction(1)}
            self._spectra[coset] = exact_value(value) if value.is_Rational else atom
        return self._spectra[coset]

    def _value(self, parameter: object) -> Expansion:
        """What the network gives, or a symbol of an equation's own."""
        assert isinstance(parameter, Parameter)
        if parameter in self._values:
            return self._values[parameter]
        return exact_value(symbols.parameter(parameter.name))

    def at(self, layer: int) -> Moments:
        """The moments of this layer or one below."""
        return self if layer == self.layer or self.below is None else self.below.at(layer)

    def spectral_value(self, spectrum: Spectrum) -> sympy.Expr:
        """C(p,q)/C_W^k in sympy, exact in the widths."""
        layer = self.at(spectrum.layer)
        return _coefficient(layer.weights, spectrum.coset, layer.n_in, layer.n_out)

    def _size(self, layer: int) -> sympy.Expr:
        return self.network.width_ratio_at(layer) * self.width if layer else self.inputs

    def _expansion(self, size: sympy.Expr) -> Expansion:
        """A layer's size as a multiple of n."""
        if self.width.is_Rational and size.is_Rational:
            return exact_value(size)
        ratio = sympy.cancel(size / self.width)
        return multiply(exact_value(ratio), constant(1, -1))

    def _preactivations(self, fields: tuple[Placed, ...]) -> Expansion:
        """E[z … z] = Σ_p δ_p(i) T_p, with T_p a function of the samples that p pairs."""
        neurons: dict[int, list[int]] = {}
        for slot, placed in enumerate(fields):
            neurons.setdefault(placed.neurons[0], []).append(slot)
        if any(len(slots) % 2 for slots in neurons.values()):
            return {}
        samples = [placed.samples[0] for placed in fields]
        if len(set(samples)) == 1:
            self._check_points(len(samples), several=False)
            pairs = (ordered(samples[0], samples[0]),) * (len(samples) // 2)
            count = prod(double_factorial_pairings(len(slots)) for slots in neurons.values())
            return multiply(constant(count), self._pairs(pairs))
        self._check_points(len(samples), several=True)
        counts = Counter(
            tuple(sorted(ordered(samples[a], samples[b]) for a, b in pairing))
            for pairing in refining_pairings(list(neurons.values()))
        )
        total: Expansion = {}
        for pairs, count in counts.items():
            add(total, self._pairs(pairs), count)
        return total

    def _pairs(self, pairs: Pairs) -> Expansion:
        """T_p: each pair of p is a pair of biases, or belongs to the weights."""
        total: Expansion = {}
        subsets = Counter(
            tuple(compress(pairs, kept)) for kept in product((True, False), repeat=len(pairs))
        )
        for weighed, count in subsets.items():
            biases = raised(self.C_b, len(pairs) - len(weighed))
            if biases:
                add(total, multiply(biases, self._weights(weighed)), count)
        return total

    def _weights(self, pairs: Pairs) -> Expansion:
        """C_W^k Σ_q C(p,q) Σ_j δ_q(j) E[Π_a σ_{j_a; α_a}] for any p that pairs these samples."""
        if pairs in self._weighed:
            return self._weighed[pairs]
        k = len(pairs)
        ends: Counter[tuple[Partition, Pairs]] = Counter()
        if len({sample for pair in pairs for sample in pair}) <= 1:
            ends.update({(coset, pairs): class_size(coset) for coset in partitions(k)})
        else:
            points = [sample for pair in pairs for sample in pair]
            p = tuple((2 * a, 2 * a + 1) for a in range(k))
            for q in pair_partitions(2 * k):
                joined = tuple(sorted(ordered(points[a], points[b]) for a, b in q))
                ends[coset_type(p, q), joined] += 1
        spectra: dict[Pairs, Expansion] = {}
        for (coset, joined), count in ends.items():
            add(spectra.setdefault(joined, {}), self.spectrum(coset), count)
        total: Expansion = {}
        for joined, spectrum in spectra.items():
            if spectrum:
                content = tuple(((a, 0), (b, 0)) for a, b in joined)
                add(total, multiply(spectrum, self._sum_below(content, ())))
        self._weighed[pairs] = multiply(raised(self.C_W, k), total)
        return self._weighed[pairs]

    def _fields(self, fields: tuple[Placed, ...]) -> Expansion:
        """E[Π φ] through the forward equations; what is not random there multiplies the z's."""
        simple = tuple(placed for placed in fields if placed.field == Z)
        others = tuple(placed for placed in fields if placed.field != Z)
        index = [neuron for placed in (*others, *simple) for neuron in placed.neurons]
        slots = iter(range(len(index)))
        tower, preactivations = (
            [
                forward(placed.field, tuple(next(slots) for _ in placed.neurons), placed.samples)
                for placed in part
            ]
            for part in (others, simple)
        )
        total: Expansion = {}
        for terms in product(*tower):
            term = prod(terms, start=Term())
            if self._vanishes(term, index):
                continue
            if not term.weights and not term.biases and (self.layer == 1 or not term.neurons):
                add(total, multiply(self._term(term, index), self(simple)))
                continue
            for linear in product(*preactivations):
                add(total, self._term(prod(linear, start=term), index))
        return total

    def _by_entries(self, fields: tuple[Placed, ...]) -> Expansion:
        """The same where pairings do not tell all: through every product of the equations."""
        index = [neuron for placed in fields for neuron in placed.neurons]
        slots = iter(range(len(index)))
        equations = [
            forward(placed.field, tuple(next(slots) for _ in placed.neurons), placed.samples)
            for placed in fields
        ]
        total: Expansion = {}
        for terms in product(*equations):
            term = prod(terms, start=Term())
            if not self._vanishes(term, index):
                add(total, self._term(term, index))
        return total

    def _joined(self, rows: tuple[tuple[int, ...], ...]) -> Iterator[tuple[Blocks, Expansion]]:
        """Each partition q of the columns, and Σ C(p,q)/C_W^k over the p inside these rows."""
        if self.weights.group == "O":
            for pairing, cosets in _overlaps(rows):
                spectrum: Expansion = {}
                for coset, count in cosets:
                    add(spectrum, self.spectrum(coset), count)
                yield pairing, spectrum
            return
        if not isinstance(self.weights, IndependentEntries):
            yield from self._by_partitions(rows)
            return
        self.weights.check_symmetric()
        for q in refining_partitions(rows):
            cumulants = (exact_value(self.weights.cumulant(len(block))) for block in q)
            half = sum(map(len, q)) // 2
            yield q, reduce(multiply, cumulants, raised(self.fan_in, -half))

    def _by_partitions(
        self, rows: tuple[tuple[int, ...], ...]
    ) -> Iterator[tuple[Blocks, Expansion]]:
        """`_joined` of weights that are known by C(p, q) of any two set partitions."""
        law, points = self.weights, sorted(point for block in rows for point in block)
        assert isinstance(law, PermutationInvariant)
        for q in even_partitions(points):
            total = sympy.cancel(
                sympy.Add(
                    *(law.joint(p, q, self.n_in, self.n_out) for p in refining_partitions(rows))
                )
            )
            if total.free_symbols & (self.width.free_symbols | self.inputs.free_symbols):
                wanted = f"numbers, with the weights {law}, whose moments are no powers of a width"
                raise InputError("width", self.width, wanted)
            yield q, exact_value(total)

    def _vanishes(self, term: Term, index: list[int]) -> bool:
        """Off the diagonal of a δ, or with a field that the inputs do not have."""
        given = [placed.field for placed in term.fields if self.layer == 1]
        return not all(map(input_terms, given)) or any(index[a] != index[b] for a, b in term.deltas)

    def _term(self, term: Term, index: list[int]) -> Expansion:
        """E of one product of terms of forward equations."""
        rows = _blocks([index[slot] for slot, _ in term.weights])
        biases = _blocks([index[slot] for slot in term.biases])
        if any(len(block) % 2 for block in (*rows, *biases)):
            return {}
        wick = prod(double_factorial_pairings(len(block)) for block in biases)
        prefactor = constant(term.coefficient * wick)
        half = len(term.weights) // 2
        self._check_pairs(half)
        for factor in (
            raised(self.C_b, len(term.biases) // 2),
            raised(self.C_W, half),
            raised(self.fan_in, -term.fan_in),
            *(raised(self._value(atom), exponent) for atom, exponent in term.parameters),
        ):
            prefactor = multiply(prefactor, factor)
        if not prefactor:
            return {}
        total: Expansion = {}
        for q, spectrum in self._joined(rows):
            if spectrum:
                add(total, multiply(spectrum, self._sum_below(*_identify(term, q))))
        return multiply(prefactor, total)

    def _sum_below(self, content: tuple[Neuron, ...], fields: tuple[Placed, ...]) -> Expansion:
        """Σ_j E[Π_j Π σ^{(order)}(z_{j; sample}) Π φ] over the neurons of the layer below."""
        if self.below is None:
            return self._sum_inputs(content, fields)
        if not fields:
            content = tuple(sorted(content))
        key = content, fields
        if key not in self._sums:
            merged: Counter[tuple[int, tuple[Neuron, ...], tuple[Placed, ...]]] = Counter()
            for partition in set_partitions(tuple(range(len(content)))):
                joined = [tuple(sorted(f for j in b for f in content[j])) for b in partition]
                name = {j: b for b, block in enumerate(partition) for j in block}
                moved = tuple(_moved(placed, name) for placed in fields)
                if not fields:
                    joined.sort()
                merged[len(partition), tuple(joined), moved] += 1
            total: Expansion = {}
            for (count, neurons, placed_fields), repeats in merged.items():
                averaged = multiply(self._distinct(count), self._average(neurons, placed_fields))
                add(total, averaged, repeats)
            self._sums[key] = total
        return self._sums[key]

    def _sum_inputs(self, content: tuple[Neuron, ...], fields: tuple[Placed, ...]) -> Expansion:
        """σ is the identity there: each sum over inputs is n_0 K0, or n_0."""
        if any(order > 1 for factors in content for _, order in factors):
            return {}
        name = list(range(len(content)))
        samples = [[sample for sample, order in factors if not order] for factors in content]
        for placed in fields:
            (value,) = input_terms(placed.field)
            for a, b in value.joined:
                i, j = (name[placed.neurons[node]] for node in (a, b))
                name = [i if other == j else other for other in name]
            for node in value.entries:
                samples[placed.neurons[node]].append(placed.samples[node])
        total = raised(self.fan_in, len(set(name)))
        for label in set(name):
            found = [a for j, other in enumerate(name) if other == label for a in samples[j]]
            wanted = "those that at layer 1 depend on the inputs through xᵀx only"
            if len(found) > 2 and self.weights.group != "O":
                wanted = f"{wanted}, as rotation-invariant ones do: here Σ_a x_a⁴ enters, too"
                raise InputError("first_weights", str(self.weights), wanted)
            if len(found) not in {0, 2}:
                raise InputError("fields", [str(placed.field) for placed in fields], wanted)
            if found:
                a, b = found
                total = multiply(total, exact_value(self.kernel(*ordered(a, b))))
        return total

    def _distinct(self, count: int) -> Expansion:
        """n_in (n_in − 1) … : how many ways there are to choose distinct neurons, in order."""
        total = constant(1)
        for shift in range(count):
            size = dict(self.fan_in)
            add(size, constant(-shift))
            total = multiply(total, size)
        return total

    def _average(self, neurons: tuple[Neuron, ...], fields: tuple[Placed, ...]) -> Expansion:
        """The same over distinct neurons, as joint moments of the layer below."""
        assert self.below is not None
        key = neurons, fields
        if key in self._averages:
            return self._averages[key]
        places: list[tuple[int, int]] = []
        polynomials: list[list[tuple[int, Expansion]]] = []
        for j, factors in enumerate(neurons):
            for sample in sorted({sample for sample, _ in factors}):
                orders = tuple(order for other, order in factors if other == sample)
                places.append((j, sample))
                polynomials.append(self._polynomial(orders))
        ends = Counter(j for placed in fields for j in placed.neurons)
        total: Expansion = {}
        for choice in product(*polynomials):
            parity = Counter(ends)
            for (j, _), (degree, _) in zip(places, choice, strict=True):
                parity[j] += degree
            if any(count % 2 for count in parity.values()):
                continue
            weight = constant(1)
            preactivations: list[Placed] = []
            for (j, sample), (degree, value) in zip(places, choice, strict=True):
                weight = multiply(weight, value)
                preactivations.extend([Placed(Z, (j,), (sample,))] * degree)
            add(total, multiply(weight, self.below((*fields, *preactivations))))
        self._averages[key] = total
        return total

    def _polynomial(self, orders: tuple[int, ...]) -> list[tuple[int, Expansion]]:
        """Π σ^{(order)}(z) as (degree, coefficient)."""
        result = {0: constant(1)}
        for order in orders:
            expr = self.sigma.derivative(order)
            coefficients = sympy.Poly(expr, z).all_coeffs()[::-1]
            grown: dict[int, Expansion] = {}
            for degree, value in result.items():
                for more, coefficient in enumerate(coefficients):
                    if coefficient != 0:
                        scaled = multiply(value, exact_value(coefficient))
                        add(grown.setdefault(degree + more, {}), scaled)
            result = grown
        return [(degree, value) for degree, value in result.items() if value]

    def check_size(self, fields: tuple[Placed, ...]) -> None:
        """Refuse, before it starts, a joint cumulant whose sums would not finish.

        A node of a layer's fields is at most d nodes of the layer below, for σ of degree d.
        """
        own = [self.at(layer).sigma for layer in range(2, self.layer + 1)]
        degrees = [max(1, sympy.Poly(each.expr, z).degree()) for each in own]
        nodes = sum(placed.field.nodes for placed in fields)
        several = len({sample for placed in fields for sample in placed.samples}) > 1
        self._check_points(nodes * prod(degrees), several)
        if self.layer > 1 and any(placed.field != Z for placed in fields):
            self._check_pairs(nodes * prod(degrees[1:]) // 2)

    def _check_points(self, points: int, several: bool) -> None:
        if several:
            self._check(points, MAX_POINTS, "preactivations of several inputs")
        else:
            self._check(points, MAX_POINTS_SINGLE, "preactivations")

    def _check_pairs(self, pairs: int) -> None:
        self._check(pairs, MAX_PAIRS, "pairs of weights in a product with NTKs")

    def _check(self, got: int, most: int, what: str) -> None:
        if got > most:
            wanted = f"a degree and a layer that need at most {most} {what}, not {got}"
            raise InputError("activation", str(self.network.activation), wanted)


def joint_cumulant(moments: Moments, fields: tuple[Placed, ...]) -> Expansion:
    """κ(φ_1, …, φ_r) = Σ_partitions (−1)^{b−1} (b−1)! Π E[Π φ].

    Raises InputError, before it starts, where that is more than finishes.
    """
    moments.check_size(fields)
    total: Expansion = {}
    for partition in set_partitions(fields):
        joined = constant(mobius(len(partition)))
        for block in partition:
            joined = multiply(joined, moments(block)) if joined else {}
        add(total, joined)
    return total


@cache(entries=10_000)
def _coefficient(
    weights: WeightEnsemble, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr
) -> sympy.Expr:
    return weights.coefficient(coset, n_in, n_out)


def _canonical(fields: tuple[Placed, ...]) -> tuple[Placed, ...]:
    """The fields in one order, and their neurons numbered as they come."""
    name: dict[int, int] = {}
    for placed in sorted(fields, key=_rank):
        for neuron in placed.neurons:
            name.setdefault(neuron, len(name))
    return tuple(sorted((_moved(placed, name) for placed in fields), key=_rank))


def _rank(placed: Placed) -> tuple[object, ...]:
    return placed.field.rank, placed.samples, placed.neurons


def _moved(placed: Placed, name: dict[int, int]) -> Placed:
    return placed._replace(neurons=tuple(name[neuron] for neuron in placed.neurons))


def _blocks(labels: list[int]) -> tuple[tuple[int, ...], ...]:
    """The positions of each label."""
    return tuple(
        tuple(at for at, other in enumerate(labels) if other == label)
        for label in dict.fromkeys(labels)
    )


@cache
def _overlaps(
    rows: tuple[tuple[int, ...], ...],
) -> tuple[tuple[Pairing, tuple[tuple[Partition, int], ...]], ...]:
    """Each pairing q, and the coset types of (p,q) for the pairings p inside these blocks."""
    matching = tuple(refining_pairings(rows))
    return tuple(
        (q, tuple(Counter(coset_type(p, q) for p in matching).items()))
        for q in pair_partitions(sum(map(len, rows)))
    )


def _identify(term: Term, q: Blocks) -> tuple[tuple[Neuron, ...], tuple[Placed, ...]]:
    """The factors at each summed neuron, and the fields, after q has joined the neurons."""
    name = list(range(term.neurons))
    for a, *others in q:
        for b in others:
            i, j = name[term.weights[a][1]], name[term.weights[b][1]]
            name = [i if other == j else other for other in name]
    number = {label: position for position, label in enumerate(sorted(set(name)))}
    content: list[list[tuple[int, int]]] = [[] for _ in number]
    for j, sample, order in term.factors:
        content[number[name[j]]].append((sample, order))
    place = {j: number[label] for j, label in enumerate(name)}
    fields = tuple(_moved(placed, place) for placed in term.fields)
    return tuple(tuple(sorted(factors)) for factors in content), fields
