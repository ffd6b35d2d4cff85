"""A layer as stages, each an invariant polynomial in its own matrices: the fields' equations.

A stage takes the variables of the one before to its own. Each of its equations is a sum of products

    u[i] = Σ_a W[i,a] Π v[a] Π σ(argument at a) Π f(c)  +  b[i]  +  v[i] Π f(c),

f functions of collective variables c = (1/n) Σ_a Π v[a], the σ's argument linear in one v[a] in the
limit. A field is a tree of derivatives by the parameters; the chain rule gives its equation from
these, and the same rule expands it in c − c*, c* the limit of c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, count, product
from math import comb, factorial, prod
from typing import NamedTuple

import sympy

from ..arithmetic.parameters import LAMBDA_B, LAMBDA_W, Parameter
from ..arithmetic.polynomials import UNIT, Monomial, power, times
from ..groups.pairings import ordered, set_partitions
from .fields import Field, Kind, Placed, Term, canonical_tree

LEFT = -1
"""The index on the left of an equation."""
HERE = -2
"""The neuron at which an argument or a mean is taken."""

Direction = int
"""What is differentiated by: an edge, 0 or more, or −1 − v, the collective variable v."""


class Variable(NamedTuple):
    """v[a], differentiated along these edges."""

    kind: Kind
    at: int
    edges: tuple[int, ...] = ()


class Function(NamedTuple):
    """σ^{(order)} of the stage's argument of this number, at neuron a."""

    argument: int
    order: int
    at: int


class Collective(NamedTuple):
    """A derivative of the stage's function of this number by its collective variables."""

    function: int
    orders: tuple[int, ...]


class Limit(NamedTuple):
    """The limit c* of the collective variable of this number."""

    variable: int


Factor = Variable | Function | Collective | Limit


class Product(NamedTuple):
    """coefficient · parameters · W · Π factors, summed over `neurons`, a space for each.

    `means` are the spaces of which it has 1/n; `weight` is (matrix, neuron).
    """

    factors: tuple[Factor, ...] = ()
    neurons: tuple[tuple[int, str], ...] = ()
    means: tuple[str, ...] = ()
    weight: tuple[int, int] | None = None
    coefficient: Fraction = Fraction(1)
    parameters: Monomial = UNIT

    def __mul__(self, other: Product) -> Product:  # type: ignore[override]
        return Product(
            self.factors + other.factors,
            self.neurons + other.neurons,
            self.means + other.means,
            self.weight or other.weight,
            self.coefficient * other.coefficient,
            times(self.parameters, other.parameters),
        )

    def renamed(self, to: dict[int, int]) -> Product:
        """With other numbers for the neurons."""
        return self._replace(
            factors=tuple(
                each._replace(at=to.get(each.at, each.at))
                if isinstance(each, Variable | Function)
                else each
                for each in self.factors
            ),
            neurons=tuple((to.get(at, at), space) for at, space in self.neurons),
            weight=self.weight and (self.weight[0], to.get(self.weight[1], self.weight[1])),
        )


Sum = tuple[Product, ...]

_numbers = count(1_000_000)


def _fresh(term: Product) -> Product:
    """The same sum over neurons of new numbers."""
    return term.renamed({at: next(_numbers) for at, _ in term.neurons})


class Equation(NamedTuple):
    """What a variable of a stage is: a sum, and maybe a bias."""

    right: Sum
    bias: bool = False


class Matrix(NamedTuple):
    """One of a stage's matrices: the name of its variance, and the spaces that it joins."""

    variance: Parameter
    into: str
    out: str


class Mean(NamedTuple):
    """A collective variable (1/n) Σ_a Π v[a]."""

    symbol: sympy.Symbol
    factors: tuple[Variable, ...]
    space: str

    def at(self, neuron: int) -> Product:
        """The mean with this neuron summed over."""
        return Product(self.factors, ((HERE, self.space),), (self.space,)).renamed({HERE: neuron})


@dataclass(frozen=True)
class Stage:
    """One stage of a layer.

    Attributes:
        equations: of each variable.
        matrices: W_0, W_1, …
        arguments: of the σ's, with HERE for the neuron.
        means: the collective variables.
        functions: of the collective variables.
    """

    equations: tuple[tuple[Kind, Equation], ...]
    matrices: tuple[Matrix, ...]
    arguments: tuple[Sum, ...] = ()
    means: tuple[Mean, ...] = ()
    functions: tuple[sympy.Expr, ...] = ()

    def equation(self, kind: Kind) -> Equation:
        """The equation of a variable."""
        return dict(self.equations)[kind]

    def differentiated(self, term: Product, directions: tuple[Direction, ...]) -> Iterator[Product]:
        """Each direction acts on one of the factors, in every way."""
        if not directions:
            yield term
            return
        rest = term._replace(factors=())
        for choice in product(range(len(term.factors)), repeat=len(directions)):
            parts = (
                tuple(self._factor(each, _chosen(directions, choice, k)))
                for k, each in enumerate(term.factors)
            )
            for factors in product(*parts):
                yield prod(map(_fresh, factors), start=rest)

    def _factor(self, factor: Factor, directions: tuple[Direction, ...]) -> Iterator[Product]:
        if not directions:
            yield Product((factor,))
        elif isinstance(factor, Variable):
            if min(directions) >= 0:
                yield Product((factor._replace(edges=tuple(sorted(factor.edges + directions))),))
        elif isinstance(factor, Function):
            for blocks in set_partitions(directions):
                outer = Product((factor._replace(order=factor.order + len(blocks)),))
                inner = (
                    tuple(
                        found.renamed({HERE: factor.at})
                        for part in self.arguments[factor.argument]
                        for found in self.differentiated(part, block)
                    )
                    for block in blocks
                )
                for chosen in product(*inner):
                    yield prod(map(_fresh, chosen), start=outer)
        elif isinstance(factor, Collective):
            for blocks in set_partitions(directions):
                for chosen in product(*(tuple(self._means(block)) for block in blocks)):
                    orders = list(factor.orders)
                    for variable, _ in chosen:
                        orders[variable] += 1
                    outer = Product((factor._replace(orders=tuple(orders)),))
                    yield prod((_fresh(each) for _, each in chosen), start=outer)

    def _means(self, directions: tuple[Direction, ...]) -> Iterator[tuple[int, Product]]:
        """Which collective variable, and its derivative."""
        if min(directions) < 0:
            if len(directions) == 1:
                yield -1 - directions[0], Product()
            return
        for number, mean in enumerate(self.means):
            for each in self.differentiated(mean.at(next(_numbers)), directions):
                yield number, each

    def expanded(self, term: Product, degree: int) -> Iterator[tuple[Product, int]]:
        """The expansion in c − c*, and the degree of each of its terms."""
        variables = range(len(self.means))
        for total in range(degree + 1):
            for chosen in combinations_with_replacement(variables, total):
                counts = [chosen.count(v) for v in variables]
                for each in self.differentiated(term, tuple(-1 - v for v in chosen)):
                    for kept in product(*(range(k + 1) for k in counts)):
                        yield self._power(each, counts, kept), total

    def _power(self, term: Product, counts: list[int], kept: tuple[int, ...]) -> Product:
        """term · Π_v (c_v − c_v*)^k / k!, the part with so many c_v."""
        result = term
        for v, (k, i) in enumerate(zip(counts, kept, strict=True)):
            means = (self.means[v].at(next(_numbers)) for _ in range(i))
            scale = Fraction((-1) ** (k - i) * comb(k, i), factorial(k))
            result = prod(means, start=result * Product((Limit(v),) * (k - i), coefficient=scale))
        return result


def _chosen(
    directions: tuple[Direction, ...], choice: tuple[int, ...], k: int
) -> tuple[Direction, ...]:
    return tuple(d for d, at in zip(directions, choice, strict=True) if at == k)


class Argument(NamedTuple):
    """What σ is taken of, in the limit: a variable, and what multiplies it."""

    kind: Kind
    scale: Response | None


class Response(NamedTuple):
    """A derivative of a function of collective variables at their limits."""

    function: sympy.Expr
    means: tuple[Mean, ...]
    orders: tuple[int, ...]
    sample: int

    @property
    def vanishes(self) -> bool:
        value = self.function
        for mean, k in zip(self.means, self.orders, strict=True):
            value = sympy.diff(value, mean.symbol, k)
        odd = {mean.symbol: 0 for mean in self.means if len(mean.factors) % 2}
        return bool(sympy.simplify(value.subs(odd)) == 0)


class Averaged(NamedTuple):
    """One term of a field's equation through a stage, its samples and slots filled in."""

    parameters: Monomial = UNIT
    means: tuple[str, ...] = ()
    deltas: tuple[tuple[int, int], ...] = ()
    biases: tuple[tuple[int, Kind], ...] = ()
    weights: tuple[tuple[int, int, int], ...] = ()  # matrix, slot, neuron
    factors: tuple[tuple[int, int, int, Argument], ...] = ()  # neuron, sample, order, argument
    fields: tuple[Placed, ...] = ()
    atoms: tuple[object, ...] = ()
    neurons: tuple[str, ...] = ()
    coefficient: Fraction = Fraction(1)
    degree: int = 0

    def __mul__(self, other):
        by = len(self.neurons)
        to = lambda j: j + by if j >= 0 else j
        return Averaged(
            times(self.parameters, other.parameters),
            self.means + other.means,
            self.deltas + other.deltas,
            self.biases + other.biases,
            self.weights + tuple((m, s, to(j)) for m, s, j in other.weights),
            self.factors + tuple((to(j), s, o, a) for j, s, o, a in other.factors),
            self.fields + tuple(p._replace(neurons=tuple(map(to, p.neurons))) for p in other.fields),
            self.atoms + other.atoms,
            self.neurons + other.neurons,
            self.coefficient * other.coefficient,
            self.degree + other.degree,
        )


@cache
def _vanishes(function, means, orders):
    return Response(function, means, orders, 0).vanishes


@cache
def limit_argument(stage: Stage, number: int) -> tuple[Kind, int | None]:
    """The variable of an argument and the function that multiplies it at the limit."""
    found = []
    for term in stage.arguments[number]:
        collective = [f for f in term.factors if isinstance(f, Collective)]
        if any(_vanishes(stage.functions[f.function], stage.means, f.orders) for f in collective):
            continue
        variables = [f for f in term.factors if isinstance(f, Variable)]
        assert len(variables) == 1 and len(collective) <= 1, term
        found.append((variables[0].kind, collective[0].function if collective else None))
    (one,) = found
    return one


class Base:
    """One term of a field's equation before it is expanded in the collective variables."""

    def __init__(self, stage, samples, slots, nodes, spaces, rest):
        self.stage, self.samples, self.slots = stage, samples, slots
        self.nodes, self.spaces, self.rest = nodes, spaces, rest
        self._found = {}

    def degree(self, total):
        if total not in self._found:
            self._found[total] = tuple(self._expanded(total))
        return self._found[total]

    def _expanded(self, total):
        deltas, biases, weights, means, parameters = self.rest
        for split in _compositions(total, len(self.nodes)):
            lists = [_degree(self.stage, term, d) for (_, term), d in zip(self.nodes, split)]
            for combo in product(*lists):
                made = _term(self.stage, None, self.slots, self.samples, [(n, _fresh_but(t, self.spaces)) for (n, _), t in zip(self.nodes, combo)], self.spaces)
                if made is None:
                    continue
                number, result = made
                yield result._replace(
                    parameters=times(result.parameters, parameters),
                    means=result.means + means, deltas=deltas, biases=biases,
                    weights=tuple((m, s, number[j]) for m, s, j in weights), degree=total)


def _fresh_but(term, keep):
    return term


def _compositions(total, parts):
    if parts == 0:
        if total == 0:
            yield ()
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _degree(stage, term, d):
    return [t for t, k in stage.expanded(term, d) if k == d]


@cache
def through(stage: Stage, field: Field, slots, samples) -> tuple[Base, ...]:
    """The field's equation through a stage."""
    found: list[Base] = []
    equations = [stage.equation(field.kind(node)) for node in range(field.nodes)]
    options = [[*eq.right, *(["bias"] if eq.bias else [])] for eq in equations]
    touching: list[list[int]] = [[] for _ in range(field.nodes)]
    for number, (a, b) in enumerate(field.edges):
        touching[a].append(number)
        touching[b].append(number)
    for chosen in product(*options):
        for kinds in product(("old", "weight", "bias"), repeat=len(field.edges)):
            found.extend(_through(stage, field, slots, samples, chosen, kinds, touching))
    return tuple(found)


def _through(stage, field, slots, samples, chosen, kinds, touching):
    new = [[e for e in touched if kinds[e] != "old"] for touched in touching]
    for node, each in enumerate(chosen):
        if len(new[node]) > 1:
            return
        if each == "bias":
            if touching[node] and not (len(touching[node]) == 1 and new[node] and kinds[new[node][0]] == "bias"):
                return
        else:
            if new[node] and kinds[new[node][0]] == "bias":
                return
            if new[node] and each.weight is None:
                return
    parameters = UNIT
    for kind, atom in (("weight", LAMBDA_W), ("bias", LAMBDA_B)):
        parameters = times(parameters, power(atom, kinds.count(kind)))
    deltas, means = [], []
    shared: dict[int, int] = {}
    for e, ((a, b), kind) in enumerate(zip(field.edges, kinds, strict=True)):
        if kind == "old":
            continue
        if kind == "weight":
            if chosen[a].weight[0] != chosen[b].weight[0]:
                return
            means.append(stage.matrices[chosen[a].weight[0]].into)
            shared[e] = next(_numbers)
        elif field.kind(a) != field.kind(b):
            return
        deltas.append((slots[a], slots[b]))
    weights, biases = [], []
    nodes = []
    spaces: dict[int, str] = {}
    for node, each in enumerate(chosen):
        if each == "bias":
            if not new[node]:
                biases.append((slots[node], field.kind(node)))
            continue
        term = _fresh(each)
        if new[node]:
            matrix, neuron = term.weight
            at = shared[new[node][0]]
            space = dict(term.neurons)[neuron]
            term = term._replace(neurons=tuple(x for x in term.neurons if x[0] != neuron))
            term = term.renamed({neuron: at})
            spaces[at] = space
        elif term.weight:
            weights.append((term.weight[0], slots[node], term.weight[1]))
        old = tuple(e for e in touching[node] if kinds[e] == "old")
        nodes.append((node, tuple(stage.differentiated(term, old))))
    for combo in product(*(terms for _, terms in nodes)):
        yield Base(stage, samples, slots, [(n, t) for (n, _), t in zip(nodes, combo)], spaces,
                   (tuple(deltas), tuple(biases), tuple(weights), tuple(means), parameters))


def _term(stage, field, slots, samples, nodes, spaces):
    number = {at: k for k, at in enumerate(spaces)}
    neurons = list(spaces.values())
    factors, copies, atoms = [], [], []
    ends: dict[int, list[int]] = {}
    coefficient, parameters, means = Fraction(1), UNIT, ()
    for node, term in nodes:
        for at, space in term.neurons:
            number[at] = len(neurons)
            neurons.append(space)
        coefficient *= term.coefficient
        parameters = times(parameters, term.parameters)
        means += term.means
        sample = samples[node]
        for f in term.factors:
            if isinstance(f, Variable):
                at = -1 - slots[node] if f.at == LEFT else number[f.at]
                for e in f.edges:
                    ends.setdefault(e, []).append(len(copies))
                copies.append((f.kind, at, sample))
            elif isinstance(f, Function):
                kind, scale = limit_argument(stage, f.argument)
                response = None if scale is None else Response(stage.functions[scale], stage.means, (0,) * len(stage.means), 0)
                factors.append((number[f.at], sample, f.order, Argument(kind, response)))
            elif isinstance(f, Collective):
                if _vanishes(stage.functions[f.function], stage.means, f.orders):
                    return None
                atoms.append(Response(stage.functions[f.function], stage.means, f.orders, sample))
            else:
                mean = stage.means[f.variable]
                if len(mean.factors) % 2:
                    return None
                a, b = mean.factors
                from .tensors import tensor
                fields = (Field(1, (), (a.kind,)), Field(1, (), (b.kind,)))
                atoms.append(tensor(fields, 0, ((0, 1),), (sample, sample)))
    return number, Averaged(parameters, means, (), (), (), tuple(factors), tuple(_trees(copies, list(ends.values()))), tuple(atoms), tuple(neurons), coefficient)


def _trees(copies, edges):
    unseen = set(range(len(copies)))
    while unseen:
        tree = {min(unseen)}
        while grown := {end for edge in edges if tree & set(edge) for end in edge} - tree:
            tree |= grown
        unseen -= tree
        members = sorted(tree)
        place = {copy: position for position, copy in enumerate(members)}
        inner = tuple(sorted(ordered(place[a], place[b]) for a, b in edges if a in tree))
        kinds = tuple(copies[m][0] for m in members)
        field, order = canonical_tree(len(members), inner, () if all(k.name == "z" for k in kinds) else kinds)
        chosen = [copies[members[position]] for position in order]
        yield Placed(field, tuple(j for _, j, _ in chosen), tuple(s for _, _, s in chosen))
