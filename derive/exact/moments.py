"""Joint moments of a network's fields at finite width, for polynomial equations, not truncated.

The engine's steps (`derive.engine.cumulants`) for one stage after another, each exact:

    E[Π φ] = Σ_terms Σ_q [Σ_{p: δ_p(i)=1} C(p,q)] Σ_{partitions of j} n(n−1)… E[Π v^k_j Π φ']

where the forward equations give the terms, each matrix joins its summed neurons as q says, and the
last average is a joint moment of the stage before, at different neurons, some of which may be those
of the left, carried past. At the inputs are left the means K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0.
Everything is a Laurent polynomial in the width with rational coefficients, in these means, in
`Spectrum` (the weights' pairing matrix, not evaluated) and whatever parameters are not rational
numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import product
from math import factorial, prod
from typing import TypeAlias

import sympy

from ..activations.functions import z
from ..arithmetic.parameters import (
    C_B,
    C_W,
    LAMBDA_B,
    LAMBDA_W,
    R_BIG,
    R_IN,
    R_OUT,
    Parameter,
)
from ..arithmetic.polynomials import Expansion, add, constant
from ..engine.atoms import read
from ..engine.trees import ABOVE, STREAM, Field, Kind, Placed, Z, input_terms
from ..errors import InputError
from ..groups.pairings import compositions, mobius, set_partitions
from ..layers.chain import BoundStage
from ..network import Network
from .forward import PLAIN, POLYNOMIAL, Content, Forward, Norm
from .matrices import Directions, Matrix, Moment, Row
from .products import (
    Chosen,
    Fields,
    Label,
    Neuron,
    Powers,
    Sums,
    canonical,
    coincidences,
    merged,
    multiplied,
)
from .values import exact_value, multiply, raised

MAX_POINTS = 12
"""Several inputs or positions: a product of more preactivations than this, (2k−1)!! pairings."""
MAX_POINTS_SINGLE = 40
"""One input: its pairings fall into the classes of the partitions of k."""
MAX_PAIRS = 5
"""Products with an NTK or its kin that hold more pairs of weights than this."""


class Moments:
    """E[Π φ] of one layer's fields, for given neural indices and samples.

    Arguments:
        network: with polynomial activations and layers.
        layer: 1, 2, ….
        width: the reference width n; an integer is put in, a symbol stays as powers of 1/n.
        inputs: n_0.
        means: K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0, a number or a symbol for samples in order.

    Raises InputError for equations that are no polynomials, and for skewed weights.
    """

    def __init__(
        self, network: Network, layer: int, width: sympy.Expr, inputs: sympy.Expr, means: Means
    ) -> None:
        self.network, self.layer, self.width = network, layer, width
        setting = Setting(network, layer, width, inputs, means)
        self.n_out, self.matrices = setting.size(layer), setting.matrices
        self.stages: list[Stage] = []
        for bound in network.chain(layer):
            self.stages.append(Stage(setting, bound, self.stages[-1] if self.stages else None))

    def __call__(self, fields: tuple[Placed, ...]) -> Expansion:
        """E[Π φ] where equal neural indices are equal and different ones differ."""
        ends: dict[int, Counter[tuple[Kind, int]]] = defaultdict(Counter)
        links: list[Placed] = []
        for placed in fields:
            if isinstance(placed.field, Field) and placed.field.nodes == 1:
                ends[placed.neurons[0]][placed.field.kind(0), placed.samples[0]] += 1
            else:
                links.append(placed)
        linked = sorted({neuron for placed in links for neuron in placed.neurons})
        number = {neuron: k for k, neuron in enumerate(linked)}
        moved = tuple(placed.at(number[j] for j in placed.neurons) for placed in links)
        powers = {j: (STREAM.space, tuple(sorted(found.items()))) for j, found in ends.items()}
        nodes = tuple(powers.pop(j, (STREAM.space, ())) for j in linked)
        return self.stages[-1].moment(Fields(tuple(powers.values()), nodes, moved))

    def read(self, samples: Iterable[int]) -> frozenset[int]:
        """The samples of the inputs that these samples of the layer depend on."""
        found = set(samples)
        for stage in reversed(self.stages):
            found = stage.bound.stage.taps.read_at(found)
        return frozenset(found)

    def check_size(self, fields: tuple[Placed, ...]) -> None:
        """Refuse, before it starts, a joint cumulant whose sums would not finish.

        A node of a stage's fields is at most d nodes of the stage before, for equations of degree
        d.
        """
        degrees = [stage.forward.degree for stage in self.stages[1:]]
        nodes = sum(placed.field.nodes for placed in fields)
        if len(self.read(sample for placed in fields for sample in placed.samples)) > 1:
            self._check(nodes * prod(degrees), MAX_POINTS, "preactivations of several inputs")
        else:
            self._check(nodes * prod(degrees), MAX_POINTS_SINGLE, "preactivations")
        if self.layer > 1 and any(placed.field != Z for placed in fields):
            what = "pairs of weights in a product with NTKs"
            self._check(nodes * prod(degrees[1:]) // 2, MAX_PAIRS, what)

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


Means: TypeAlias = Callable[..., sympy.Expr]
"""K0_{αβ…} = Σ_j x_{jα} x_{jβ} …/n_0 of the samples α, β, …, a number or a symbol."""


class Setting:
    """The common setting of a network's stages: its widths, its inputs and its matrices.

    Arguments:
        network, depth: the network, and its last layer.
        width: the reference width n; an integer is put in, a symbol stays as powers of 1/n.
        inputs: n_0.
        means: of the inputs.
    """

    def __init__(
        self, network: Network, depth: int, width: sympy.Expr, inputs: sympy.Expr, means: Means
    ) -> None:
        self.network, self.depth, self.width, self.inputs = network, depth, width, inputs
        self.means = means
        self.matrices: list[Matrix] = []

    def size(self, layer: int) -> sympy.Expr:
        """The number of neurons of a layer; of 0, of the inputs."""
        return self.network.width_ratio_at(layer) * self.width if layer else self.inputs

    def expansion(self, size: sympy.Expr) -> Expansion:
        """A number of neurons as a multiple of n."""
        if self.width.is_Rational and size.is_Rational:
            return exact_value(size)
        return multiply(exact_value(sympy.cancel(size / self.width)), constant(1, -1))

    def corrected(self, name: str, layer: int, leading: sympy.Expr) -> Expansion:
        """C + c_1/n + c_2/n² + … of "C_W" or "C_b"."""
        total = dict(exact_value(leading))
        for order in range(1, self.network.corrections + 1):
            value = exact_value(self.network.correction_at(name, order, layer))
            add(total, multiply(value, raised(self.expansion(self.width), -order)))
        return total


class Stage:
    """Moments behind one stage, by those before it."""

    def __init__(self, whole: Setting, bound: BoundStage, below: Stage | None) -> None:
        self.whole, self.bound, self.below = whole, bound, below
        layer, stage = bound.layer, bound.stage
        before, behind = whole.size(layer - 1), whole.size(layer)
        self.widths = {STREAM.space: before, ABOVE: behind} | {
            space: ratio.expr * whole.width for space, ratio in stage.ratios
        }
        self.C_b = whole.corrected("C_b", layer, bound.C_b)
        ratios = {R_IN: before, R_OUT: behind, R_BIG: sympy.Max(before, behind)}
        self.parameters = {
            C_W: exact_value(whole.network.weights_at(layer, depth=whole.depth).C_W),
            C_B: self.C_b,
            LAMBDA_W: exact_value(bound.lambda_W),
            LAMBDA_B: exact_value(bound.lambda_b),
        } | {name: exact_value(sympy.cancel(size / whole.width)) for name, size in ratios.items()}
        self.name = str(whole.network.layer_at(layer, whole.depth)) if below else "layer 1"
        self.forward = Forward(
            bound, self.name, self._is_turned, len(whole.matrices), self.size, self._value
        )
        for each, law in zip(stage.matrices, bound.weights, strict=True):
            given = exact_value(law.C_W)
            if each.variance == C_W:
                given = whole.corrected("C_W", layer, law.C_W)
            variance = multiply(given, exact_value(sympy.Rational(1, stage.taps.count)))
            n_in, n_out = (self.widths.get(space, whole.width) for space in (each.into, each.out))
            for _ in range(stage.taps.count):
                number = len(whole.matrices)
                made = Matrix(number, law, n_in, n_out, whole.expansion(n_in), variance)
                whole.matrices.append(made)
        self._spaces: dict[str, Directions] = {}
        self._moments: dict[Fields, Expansion] = {}
        self._labels: dict[Label, dict[Sums, Expansion]] = {}
        self._averages: dict[Sums, Expansion] = {}
        self._sums: dict[Sums, Expansion] = {}
        self._contents: dict[Content, list[tuple[Powers, Expansion]]] = {}

    def size(self, space: str) -> Expansion:
        """The number of neurons in a space."""
        return self.whole.expansion(self.widths.get(space, self.whole.width))

    def _value(self, atom: object) -> Expansion:
        """The network's value, or a symbol of an equation's own."""

        def known(parameter: Parameter) -> Expansion:
            own = self.parameters.get(parameter)
            return exact_value(parameter.expr) if own is None else own

        return read(atom, parameter=known, value=lambda number: exact_value(number.expr))

    def _is_turned(self, kind: Kind) -> bool:
        """True if rotations keep the law of a variable before the stage."""
        behind = self.bound.layer + (kind != STREAM)
        layers = (self.whole.network.layer_at(k, self.whole.depth) for k in range(2, behind))
        turned = [matrix.weights.group == "O" for matrix in self.whole.matrices]
        return all([*turned, *(layer.is_rotation_invariant for layer in layers)])

    # products of forward equations

    def moment(self, fields: Fields) -> Expansion:
        """E[Π φ] at different neural indices."""
        fields = canonical(fields)
        if fields not in self._moments:
            self._moments[fields] = self._moment(fields)
        return self._moments[fields]

    def _moment(self, fields: Fields) -> Expansion:
        parts = []
        for label in fields.labels:
            parts.append(self._label(label))
            if not parts[-1]:
                return {}
        if fields.links:
            parts.append(self._linked(fields.nodes, fields.links))
        products: dict[Sums, Expansion] = {Sums(): constant(1)}
        for part in parts:
            grown: dict[Sums, Expansion] = defaultdict(dict)
            for (one, x), (other, y) in product(products.items(), part.items()):
                add(grown[one.times(other)], multiply(x, y))
            products = grown
        total: Expansion = {}
        for sums, scale in products.items():
            if scale:
                add(total, multiply(scale, self._averaged(sums)))
        return total

    def _label(self, label: Label) -> dict[Sums, Expansion]:
        """The product at one neural index through the equations."""
        if label not in self._labels:
            _, powers = label
            self._labels[label] = self._collected([self._choices(powers, 0)])
        return self._labels[label]

    def _linked(self, nodes: tuple[Label, ...], links: tuple[Placed, ...]) -> dict[Sums, Expansion]:
        """The same of fields with several nodes, and of what stands at their indices."""
        choices: list[list[tuple[int, list[Chosen]]]] = []
        for field, at, samples in links:
            terms = self.forward.terms(field, samples)
            fitting = (t for t in terms if all(at[a] == at[b] for a, b in t.deltas))
            choices.append([(1, [Chosen(term, at, 1)]) for term in fitting])
        choices += [self._choices(powers, node) for node, (_, powers) in enumerate(nodes)]
        return self._collected(choices)

    def _choices(self, powers: Powers, label: int) -> list[tuple[int, list[Chosen]]]:
        """The multinomial expansion of the powers of sums at a label."""
        found: list[tuple[int, list[Chosen]]] = [(1, [])]
        for (kind, sample), exponent in powers:
            terms = self.forward.terms(Field(1, (), (kind,)), (sample,))
            found = [
                (
                    ways * factorial(exponent) // prod(map(factorial, counts)),
                    before
                    + [
                        Chosen(term, (label,), count)
                        for term, count in zip(terms, counts, strict=True)
                        if count
                    ],
                )
                for ways, before in found
                for counts in compositions(exponent, len(terms))
            ]
        return found

    def _collected(
        self, choices: Sequence[Sequence[tuple[int, list[Chosen]]]]
    ) -> dict[Sums, Expansion]:
        total: dict[Sums, Expansion] = defaultdict(dict)
        for parts in product(*choices):
            made = multiplied([each for _, chosen in parts for each in chosen], self._variance)
            if made is not None:
                sums, scale = made
                add(total[sums], scale, prod(ways for ways, _ in parts))
        return {sums: scale for sums, scale in total.items() if scale}

    def _variance(self, kind: Kind) -> Expansion:
        """Of the biases in this variable's equation."""
        return self._value(self.forward.stage.equation(kind).variance)

    # averages over the matrices

    def _averaged(self, sums: Sums) -> Expansion:
        """E of a product of terms."""
        if sums not in self._averages:
            by_matrix: dict[int, list[Row]] = defaultdict(list)
            for matrix, row in sums.rows:
                by_matrix[matrix].append(row)
            averages = (
                self.whole.matrices[matrix].average(tuple(rows)).items()
                for matrix, rows in by_matrix.items()
            )
            found: dict[Sums, Expansion] = defaultdict(dict)
            for parts in product(*averages):
                blocks = [block for joined, _ in parts for block in joined]
                scale = reduce(multiply, (value for _, value in parts), constant(1))
                add(found[merged(sums, blocks)], scale)
            total: Expansion = {}
            for each, scale in found.items():
                if scale:
                    add(total, multiply(scale, self._sum_below(each)))
            self._averages[sums] = total
        return self._averages[sums]

    # sums over neurons

    def _sum_below(self, sums: Sums) -> Expansion:
        """Σ_j E[…] over the neurons of the stage before."""
        if sums not in self._sums:
            if self.below is None:
                self._sums[sums] = self._sum_inputs(sums)
            else:
                total: Expansion = {}
                for groups, ways in coincidences(sums):
                    scale = self._distinct(groups)
                    if scale:
                        add(total, multiply(scale, self._average(groups, sums)), ways)
                self._sums[sums] = total
        return self._sums[sums]

    def _sum_inputs(self, sums: Sums) -> Expansion:
        """Each sum over inputs is n_0 times a mean of products of them."""
        total: Expansion = {}
        for terms in product(*(input_terms(placed.field) for placed in sums.links)):
            name = list(range(len(sums.nodes)))
            samples = [[sample for _, sample, _ in node.content] for node in sums.nodes]
            for placed, term in zip(sums.links, terms, strict=True):
                for a, b in term.joined:
                    i, j = (name[placed.neurons[node]] for node in (a, b))
                    name = [i if other == j else other for other in name]
                for node in term.entries:
                    samples[placed.neurons[node]].append(placed.samples[node])
            found = [
                [a for j, other in enumerate(name) if other == label for a in samples[j]]
                for label in dict.fromkeys(name)
            ]
            found += [[sample for _, sample, _ in each.content] for each in sums.neurons]
            value = raised(self.size(STREAM.space), len(found))
            for each in found:
                if each:
                    value = multiply(value, exact_value(self.whole.means(*sorted(each))))
            add(total, value)
        return total

    def _distinct(self, groups: tuple[Neuron, ...]) -> Expansion:
        """N (N − 1) … in each space: how many ways there are to choose the summed neurons."""
        outside = Counter(group.space for group in groups if group.outside)
        summed = Counter(group.space for group in groups if not group.outside)
        total = constant(1)
        for space, count in summed.items():
            for shift in range(outside[space], outside[space] + count):
                size = dict(self.size(space))
                add(size, constant(-shift))
                total = multiply(total, size)
        return total

    def _average(self, groups: tuple[Neuron, ...], sums: Sums) -> Expansion:
        """E at different neurons, as joint moments behind the stage before."""
        assert self.below is not None
        free = self.below.forward.carried
        uneven = any(norm.centred for norm in sums.norms)
        linked = [group.members for group in groups if group.members]
        place = {node: k for k, members in enumerate(linked) for node in members}
        moved = tuple(placed.at(place[j] for j in placed.neurons) for placed in sums.links)
        ends = Counter(j for placed in moved for j in placed.neurons)
        found: dict[Fields, Expansion] = {Fields(links=moved): constant(1)}
        for group in groups:
            at = ends[place[group.members[0]]] if group.members else 0
            grown: dict[Fields, Expansion] = defaultdict(dict)
            for powers, value in self._powers(group.content):
                odd = (sum(power for _, power in powers) + at) % 2
                if odd and group.space not in free and not uneven:
                    continue
                label = group.space, powers
                for fields, scale in found.items():
                    if group.members:
                        made = fields._replace(nodes=(*fields.nodes, label))
                    elif powers:
                        made = fields._replace(labels=tuple(sorted((*fields.labels, label))))
                    else:
                        made = fields
                    add(grown[made], multiply(scale, value))
            found = grown
        total: Expansion = {}
        for fields, scale in found.items():
            if scale:
                if sums.norms:
                    below = self._directions(fields, sums.norms)
                else:
                    below = self.below.moment(fields)
                add(total, multiply(scale, below))
        return total

    def _directions(self, fields: Fields, norms: tuple[Norm, ...]) -> Expansion:
        """E[Π v_i^{m_i} s^{-k} …] as in `matrices`, v of a law that rotations keep.

        Raises InputError for several samples, for derivatives, and for an odd power of s.
        """
        (kind, sample, centred), least = norms[0], len(norms)
        own = [factors for space, factors in fields.labels if space == kind.space]
        if fields.links:
            got = str(fields.links[0].field)
            raise InputError("fields", got, "z alone behind a norm, at finite width")
        if {(kind, sample)} != {*(norm[:2] for norm in norms), *(of for at in own for of, _ in at)}:
            wanted = f"{POLYNOMIAL}: but for z of one input at one position behind a norm"
            raise InputError("layer", self.name, wanted)
        powers = sorted(power for ((_, power),) in own)
        rest = sum(powers) - least
        if sum(powers) % 2:
            return {}
        if rest < 0 or rest % 2:
            wanted = f"{POLYNOMIAL}: here an odd power of a norm is left"
            raise InputError("layer", self.name, wanted)
        asked = Moment(tuple(powers), least, centred)
        value = self._direction(kind.space).spectrum(Counter({asked: 1}))
        squares = [Neuron(kind.space, ((kind, sample, PLAIN),) * 2)] * (rest // 2)
        for space, factors in fields.labels:
            if space != kind.space:
                content = tuple((*of, PLAIN) for of, power in factors for _ in range(power))
                squares.append(Neuron(space, content, outside=True))
        mean = raised(self.size(kind.space), -(rest // 2))
        lengths = Sums(neurons=tuple(sorted(squares)))
        return multiply(value, multiply(mean, self._sum_below(lengths))) if value else {}

    def _direction(self, space: str) -> Directions:
        if space not in self._spaces:
            n = self.widths.get(space, self.whole.width)
            number, size = len(self.whole.matrices), self.whole.expansion(n)
            self._spaces[space] = Directions(number, n, size)
            self.whole.matrices.append(self._spaces[space])
        return self._spaces[space]

    def _powers(self, content: Content) -> list[tuple[Powers, Expansion]]:
        """The content of a neuron as a polynomial in the variables."""
        if content not in self._contents:
            orders: dict[tuple[Kind, int], list[int]] = defaultdict(list)
            for kind, sample, order in content:
                orders[kind, sample].append(order)
            found: list[tuple[Powers, Expansion]] = [((), constant(1))]
            for (kind, sample), each in sorted(orders.items()):
                found = [
                    (
                        (*powers, ((kind, sample), degree)) if degree else powers,
                        multiply(before, value),
                    )
                    for powers, before in found
                    for degree, value in self._polynomial(kind, each)
                ]
            self._contents[content] = found
        return self._contents[content]

    def _polynomial(self, kind: Kind, orders: list[int]) -> Iterator[tuple[int, Expansion]]:
        """Π σ^{(order)}(v) v^k as (degree, coefficient), averaged over the mask."""
        sigma = self.forward.sigmas.get(kind)
        expr = sympy.Integer(1)
        for order in orders:
            expr *= z if order == PLAIN or sigma is None else sympy.diff(sigma, z, order)
        scale = constant(1)
        masked = sum(order != PLAIN for order in orders)
        for chance in self.bound.stage.masks:
            scale = multiply(scale, raised(self._value(chance), min(0, 1 - masked)))
        for (degree,), coefficient in sympy.Poly(expr, z).terms():
            if coefficient != 0:
                yield degree, multiply(scale, exact_value(coefficient))
