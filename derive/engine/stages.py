"""A layer as stages, each an invariant polynomial in its own matrices.

A stage takes the variables of the one before to its own. Each of its equations is a sum of products

    u[i] = Σ_a W[i,a] Π v[a] Π σ(argument at a) Π f(c)  +  b[i]  +  v[i] Π f(c),

f functions of collective variables c = (1/n) Σ_a Π v[a], the σ's argument equal to one v[a] in the
limit. c tends to c*, and is expanded around it: c − c* is of order n^{-1/2}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, count, product
from math import comb, factorial, prod
from typing import NamedTuple, overload

import sympy

from ..activations.batches import OPEN, BatchFunction
from ..activations.functions import Activation
from ..arithmetic.parameters import C_B, C_W, R_IN, R_OUT, Parameter, Value
from ..arithmetic.polynomials import UNIT, Monomial, of_kind, times
from ..errors import InputError, Words
from ..groups.pairings import set_partitions
from ..weights import WeightEnsemble
from ..work.caches import cache
from .scores import Scores
from .taps import ALONE, Taps
from .tensors import kernel_label
from .trees import ABOVE, STREAM, Kind

LEFT = -1
"""The index on the left of an equation."""
HERE = -2
"""The neuron at which an argument or a mean is taken."""

Direction = int
"""The variable of a derivative: an edge, 0 or more, or −1 − v, the collective variable v."""


class Variable(NamedTuple):
    """v[a], differentiated along these edges; if `pooled`, at a position that is averaged over.

    With a `read` other than 0 it is at the position of this number, which attention sums over.
    """

    kind: Kind
    at: int
    edges: tuple[int, ...] = ()
    pooled: bool = False
    read: int = 0


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
    """The limit c* of the collective variable of this number, or, with a `read`, of a score."""

    variable: int
    read: int = 0


class Attended(NamedTuple):
    """A[t,s], t the sample's own position, or its derivative by scores c[t,r], …

    `scores` is the number of the stage's scores, `reads` the numbers of s, r, …
    """

    scores: int
    reads: tuple[int, ...]


Factor = Variable | Function | Collective | Limit | Attended


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

numbers = count(1_000_000)


def fresh(term: Product) -> Product:
    """The same sum over neurons of new numbers."""
    return term.renamed({at: next(numbers) for at, _ in term.neurons})


class Below(NamedTuple):
    """How a stage's variables are marked before it.

    Attributes:
        mark: stands behind the names of its tensors, as in K0.
        above: the layer behind the stage.
    """

    mark: str
    above: str


NEURONS = Below("", "ℓ+1")
"""Those of a hidden layer or of another stage, which fluctuate around their kernel."""

INPUTS = Below("0", "1")
"""The inputs of the network, x, which are fixed: σ and derivatives by θ are not taken of them."""


class Equation(NamedTuple):
    """A variable of a stage: a sum, and maybe a bias of this variance."""

    right: Sum
    bias: bool = False
    variance: Parameter | Value = C_B


class Matrix(NamedTuple):
    """A matrix of a stage: its variance, the spaces of its columns and rows, and its standard law.

    The law is None if it is the network's.
    """

    variance: Parameter | Value
    into: str
    out: str
    law: WeightEnsemble | None = None


class Mean(NamedTuple):
    """A collective variable (1/n) Σ_a Π v[a].

    The neurons may fall into `sets` of equal size. The sum is then over a neuron's own set. With
    `positions`, the mean is also over these of the sample's signal.
    """

    symbol: sympy.Symbol
    factors: tuple[Variable, ...]
    space: str
    sets: int = 1
    positions: int = 1

    @property
    def is_odd(self) -> bool:
        """True if it changes its sign with its variables."""
        return len(self.factors) % 2 == 1

    @property
    def is_pooled(self) -> bool:
        """True if it is over several positions, too."""
        return self.positions > 1

    def at(self, neuron: int) -> Product:
        """The mean with this neuron summed over."""
        own = tuple(each._replace(at=neuron, pooled=self.is_pooled) for each in self.factors)
        return Product(own, ((neuron, self.space),), (self.space,))


@dataclass(frozen=True)
class Stage:
    """One stage of a layer.

    Attributes:
        equations: of each variable.
        matrices: W_0, W_1, …
        arguments: of the σ's, with HERE for the neuron.
        means: the collective variables.
        functions: of the collective variables.
        ratios: of the layer's own spaces that do not have n neurons, their widths over n.
        taps: the positions that its matrices read, each sample by itself by default.
        masks: p of each mask of dropout: every σ is multiplied by μ/p, μ = 1 with chance p and
            else 0, one μ for each neuron and sample.
        activations: the activation of each argument; None, or () for all, is the network's.
        batch: the function of all samples at a neuron that stands in the place of σ.
        scores: of attention: where some are, there are no other collective variables.
        positions: T of a signal, where it has scores.
        below: `NEURONS`, or `INPUTS` of layer 1.

    `derive.layers` makes them, and checks that they are invariant.
    """

    equations: tuple[tuple[Kind, Equation], ...]
    matrices: tuple[Matrix, ...] = ()
    arguments: tuple[Sum, ...] = ()
    means: tuple[Mean, ...] = ()
    functions: tuple[sympy.Expr, ...] = ()
    ratios: tuple[tuple[str, Value], ...] = ()
    taps: Taps = ALONE
    masks: tuple[Value, ...] = ()
    activations: tuple[Activation | None, ...] = ()
    below: Below = NEURONS
    batch: BatchFunction | None = None
    scores: tuple[Scores, ...] = ()
    positions: int = 1

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        parts = self.equations, self.matrices, self.arguments, self.means, self.functions
        own = self.taps, self.masks, self.activations, self.below, self.batch
        return hash((*parts, *own, self.scores, self.positions))

    @cached_property
    def _equations(self) -> dict[Kind, Equation]:
        return dict(self.equations)

    @cached_property
    def terms(self) -> tuple[Product, ...]:
        """The products in its equations."""
        return tuple(term for _, equation in self.equations for term in equation.right)

    def equation(self, kind: Kind) -> Equation:
        """The equation of a variable."""
        return self._equations[kind.everywhere]

    @cached_property
    def sets(self) -> int | sympy.Expr:
        """The number of sets of neurons that it reads, each normalized by itself, or heads; 1
        without."""
        terms = [*self.terms, *(term for argument in self.arguments for term in argument)]
        factors = [each for term in terms for each in term.factors]
        kinds = [each.kind for each in factors if isinstance(each, Variable)]
        heads = (each.sets for each in self.scores)
        found = {*heads, *(mean.sets for mean in self.means), *(kind.sets for kind in kinds)} - {1}
        return next(iter(found), 1)  # assembly allows one number

    @cached_property
    def attends_to(self) -> frozenset[Kind]:
        """The variables that attention reads: queries, keys and values."""
        factors = (factor for term in self.terms for factor in term.factors)
        values = {each.kind for each in factors if isinstance(each, Variable) and each.read}
        return frozenset(values.union(*((each.query, each.key) for each in self.scores)))

    @property
    def spaces_of_sets(self) -> set[str]:
        """The spaces whose neurons are in these sets."""
        found = {mean.space for mean in self.means if mean.sets != 1}
        if self.scores and self.sets != 1:
            found |= {each.query.space for each in self.scores}
            found |= {matrix.into for matrix in self.matrices}
        return found

    @cached_property
    def pools(self) -> int:
        """The number of positions that its collective variables are means over; 1 without."""
        return max([1, *(mean.positions for mean in self.means)])

    def ratio(self, space: str, equal_widths: bool) -> Parameter | Value | None:
        """The width of a space over n, None where they are equal."""
        own = dict(self.ratios).get(space)
        if own is not None or equal_widths:
            return own
        return {STREAM.space: R_IN, ABOVE: R_OUT}.get(space)

    def of_one_set(self, equal_widths: bool) -> Stage:
        """The same for the neurons of one set alone, the width over the number of sets."""
        ratios = dict(self.ratios)
        for space in self.spaces_of_sets:
            whole = self.ratio(space, equal_widths)
            ratios[space] = Value((sympy.Integer(1) if whole is None else whole.expr) / self.sets)
        return replace(self, ratios=tuple(sorted(ratios.items())))

    @property
    def symbols(self) -> tuple[sympy.Expr, ...]:
        """Everything in it that may have symbols other than a network's hyperparameters."""
        terms = [*self.terms, *(term for argument in self.arguments for term in argument)]
        atoms = [atom for term in terms for atom, _ in term.parameters]
        atoms += [matrix.variance for matrix in self.matrices]
        atoms += [equation.variance for _, equation in self.equations]
        atoms += [ratio for _, ratio in self.ratios]
        atoms += self.masks
        values = [value.expr for value in of_kind(atoms, Value)]
        values += [sympy.sympify(each.sets) for each in self.scores if each.size is None]
        free = {symbol for function in self.functions for symbol in function.free_symbols}
        free -= {mean.symbol for mean in self.means}
        free |= self.batch.free_symbols if self.batch else set()
        return (*values, *sorted(free, key=str))

    @property
    def keep(self) -> Value | None:
        """p of the mask; None without one."""
        return next(iter(self.masks), None)

    @property
    def alone(self) -> Stage:
        """The same stage, but each sample is read by itself."""
        return replace(self, taps=ALONE)

    @cached_property
    def constant(self) -> Stage:
        """The same for a signal that is the same at all positions: weights that sum to 1 are 1.

        Raises InputError for scores of another function than the softmax.
        """
        if not self.scores:
            return self
        if any(each.function for each in self.scores):
            got = f"attention over {self.positions} positions"
            wanted = "several samples: weights of positions that do not sum to 1 tell them apart"
            raise InputError("layer", Words(got), wanted)
        equations = (
            (kind, each._replace(right=tuple(map(_unattended, each.right))))
            for kind, each in self.equations
        )
        return replace(self, equations=tuple(equations), scores=(), positions=1)

    @property
    def separates_equals(self) -> bool:
        """True if equal samples may differ behind it: by their masks, or by other positions."""
        return any((self.masks, self.scores, self.taps.moves))

    @property
    def relates_positions(self) -> bool:
        """True if its matrices read other positions, or its means are over several."""
        return any((self.taps.moves, self.pools > 1))

    @property
    def carries(self) -> bool:
        """True if it adds something that no matrix multiplies, as a skip does."""
        return any(term.weight is None for term in self.terms)

    def matrix(self, number: int) -> Matrix:
        """The matrix of this number; the matrices of all taps count, those of one body in turn."""
        return self.matrices[number // self.taps.count]

    @cached_property
    def has_dense_equation(self) -> bool:
        """True if it is z = b + W σ(z), for any σ, law of W and variance."""
        opened = (each._replace(variance=C_W, law=None) for each in self.matrices)
        return replace(self, activations=(), matrices=tuple(opened)) == DENSE

    @cached_property
    def has_centres(self) -> bool:
        """True if a collective variable is odd, as a mean is, and so 0 in the limit."""
        return any(mean.is_odd for mean in self.means)

    @cached_property
    def argument_kinds(self) -> tuple[Kind, ...]:
        """The variable that each σ's argument is in the limit."""
        return tuple(self._limit(argument) for argument in self.arguments)

    def sigma(self, argument: int, default: Activation) -> Activation:
        """The activation of one of the arguments."""
        return (self.activations and self.activations[argument]) or default

    @overload
    def sigma_at(self, label: str, default: Activation) -> Activation: ...

    @overload
    def sigma_at(self, label: str, default: Activation | None) -> Activation | None: ...

    def sigma_at(self, label: str, default: Activation | None) -> Activation | None:
        """The activation that is averaged at the kernel with this label."""
        if self.activations:
            for argument, kind in enumerate(self.argument_kinds):
                if kernel_label(kind) == label:
                    return self.activations[argument] or default
        return default

    def sigmas(self, default: Activation) -> tuple[Activation, ...]:
        """All of the stage's activations, each once."""
        return tuple(dict.fromkeys(self.sigma(k, default) for k in range(len(self.arguments))))

    def check_without_batch(self, wanted: str) -> None:
        """Raise InputError, with what is wanted instead, for a function of all samples, or of
        all positions of a signal."""
        if self.batch is not None:
            raise InputError("layer", f"a function of all samples, {self.batch}", wanted)
        if self.scores:
            got = f"attention over {self.positions} positions"
            raise InputError("layer", Words(got), wanted)

    @property
    def is_bound(self) -> bool:
        """True if it has activations or laws of its own."""
        laws = any(matrix.law for matrix in self.matrices)
        return laws or any(self.activations) or self.batch not in (None, OPEN)

    def carried(self, term: Product) -> Kind:
        """A variable that has the index on the left in a product that is carried past matrices."""
        for factor in term.factors:
            if isinstance(factor, Variable) and factor.at == LEFT:
                return factor.kind
            if isinstance(factor, Function) and factor.at == LEFT:
                return self.argument_kinds[factor.argument]
        raise InputError("layer", term, "a variable with the index on the left, or a matrix")

    def _limit(self, argument: Sum) -> Kind:
        (kind,) = {
            factor.kind
            for term in argument
            if not any(isinstance(each, Collective) for each in term.factors)
            for factor in term.factors
            if isinstance(factor, Variable)
        }
        return kind

    def derivative(self, function: int, orders: tuple[int, ...]) -> sympy.Expr:
        """A derivative of a function by its collective variables, those that are odd at 0."""
        return _derivative(self.functions[function], self.means, orders)

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
                yield prod(map(fresh, factors), start=rest)

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
                    yield prod(map(fresh, chosen), start=outer)
        elif isinstance(factor, Collective):
            for blocks in set_partitions(directions):
                for means in product(*(tuple(self._means(block)) for block in blocks)):
                    orders = list(factor.orders)
                    for variable, _ in means:
                        orders[variable] += 1
                    outer = Product((factor._replace(orders=tuple(orders)),))
                    yield prod((fresh(each) for _, each in means), start=outer)
        elif isinstance(factor, Attended):
            for blocks in set_partitions(directions):
                reads = tuple(next(numbers) for _ in blocks)
                scores = (self.score(factor.scores, read) for read in reads)
                changed = (
                    tuple(self.differentiated(each, block))
                    for each, block in zip(scores, blocks, strict=True)
                )
                outer = Product((factor._replace(reads=factor.reads + reads),))
                for chosen in product(*changed):
                    yield prod(chosen, start=outer)

    def score(self, number: int, read: int) -> Product:
        """c[t,r] of the scores of this number, r the position with the number `read`."""
        scores, at = self.scores[number], next(numbers)
        factors = Variable(scores.query, at), Variable(scores.key, at, read=read)
        space = scores.query.space
        return Product(factors, ((at, space),), (space,))

    def _means(self, directions: tuple[Direction, ...]) -> Iterator[tuple[int, Product]]:
        """Which collective variable, and its derivative."""
        if min(directions) < 0:
            if len(directions) == 1:
                yield -1 - directions[0], Product()
            return
        for number, mean in enumerate(self.means):
            for each in self.differentiated(mean.at(next(numbers)), directions):
                yield number, each

    def expanded(self, term: Product, degree: int) -> tuple[Product, ...]:
        """The terms of this degree in the expansion in c − c*."""
        if self.scores:
            return tuple(self._in_scores(term, degree)) if degree else (term,)
        found = []
        variables = range(len(self.means))
        for chosen in combinations_with_replacement(variables, degree):
            counts = [chosen.count(v) for v in variables]
            for each in self.differentiated(term, tuple(-1 - v for v in chosen)):
                for kept in product(*(range(k + 1) for k in counts)):
                    if all(
                        i == k or not self.means[v].is_odd
                        for v, (k, i) in enumerate(zip(counts, kept, strict=True))
                    ):
                        found.append(self._power(each, counts, kept))
        return tuple(found)

    def _in_scores(self, term: Product, degree: int) -> Iterator[Product]:
        """Σ_r ∂^k A[t,s]/∂c[t,r_1]… Π (c[t,r] − c*[t,r]) / k!, the r at positions of their own."""
        own = [each for each in term.factors if isinstance(each, Attended)]
        if not own:
            return
        (attended,) = own
        tied, reads = self.scores[attended.scores].is_tied, [next(numbers) for _ in range(degree)]
        factors = tuple(
            each._replace(reads=(*each.reads, *reads)) if isinstance(each, Attended) else each
            for each in term.factors
        )
        for kept in range(0 if tied else degree, degree + 1):
            scores = [self.score(attended.scores, read) for read in reads[:kept]]
            limits = tuple(Limit(attended.scores, read) for read in reads[kept:])
            yield term._replace(factors=factors) * _departures(scores, limits)

    def _power(self, term: Product, counts: list[int], kept: tuple[int, ...]) -> Product:
        """term · Π_v (c_v − c_v*)^k / k!, the part with so many c_v."""
        result = term
        for v, (k, i) in enumerate(zip(counts, kept, strict=True)):
            means = [self.means[v].at(next(numbers)) for _ in range(i)]
            result *= _departures(means, (Limit(v),) * (k - i))
        return result


def _departures(values: Sequence[Product], limits: tuple[Limit, ...]) -> Product:
    """The part of (c − c*)^k / k! with these values of c, and with c* for the others."""
    k = len(values) + len(limits)
    scale = Fraction((-1) ** len(limits) * comb(k, len(values)), factorial(k))
    return prod(values, start=Product(limits, coefficient=scale))


@cache
def _derivative(value: sympy.Expr, means: tuple[Mean, ...], orders: tuple[int, ...]) -> sympy.Expr:
    for mean, k in zip(means, orders, strict=True):
        value = sympy.diff(value, mean.symbol, k)
    odd = {mean.symbol: 0 for mean in means if mean.is_odd}
    if odd:
        value = value.subs(odd)
    return sympy.simplify(value) if odd and value.is_Add else value


def _chosen(
    directions: tuple[Direction, ...], choice: tuple[int, ...], k: int
) -> tuple[Direction, ...]:
    return tuple(d for d, at in zip(directions, choice, strict=True) if at == k)


def _unattended(term: Product) -> Product:
    """A product with the weight 1 of one position in the place of attention."""
    factors = (each for each in term.factors if not isinstance(each, Attended))
    return term._replace(
        factors=tuple(
            each._replace(read=0) if isinstance(each, Variable) else each for each in factors
        )
    )


def linear(kind: Kind) -> Product:
    """v at the neuron at which it is asked for."""
    return Product((Variable(kind, HERE),))


DENSE = Stage(
    (
        (
            STREAM,
            Equation((Product((Function(0, 0, 0),), ((0, "z"),), (), (0, 0)),), bias=True),
        ),
    ),
    (Matrix(C_W, STREAM.space, ABOVE),),
    ((linear(STREAM),),),
)
"""z[i] = b[i] + Σ_a W[i,a] σ(z[a])."""

STEM = Stage(
    (
        (
            STREAM,
            Equation((Product((Variable(STREAM, 0),), ((0, "z"),), (), (0, 0)),), bias=True),
        ),
    ),
    (Matrix(C_W, STREAM.space, ABOVE),),
    below=INPUTS,
)
"""z[i] = b[i] + Σ_a W[i,a] x[a], layer 1."""
