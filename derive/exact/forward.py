"""The forward equations of one stage of a network, without truncation: polynomials throughout.

Functions of collective variables, and σ of what such a variable is taken off, are multiplied out;
other σ stay as they are until the average over the stage before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

import sympy

from ..activations.functions import z
from ..arithmetic.parameters import Value
from ..arithmetic.polynomials import Expansion, constant, power
from ..engine.atoms import read
from ..engine.equations import Equation
from ..engine.stages import (
    HERE,
    INPUTS,
    STEM,
    Collective,
    Function,
    Mean,
    Product,
    Stage,
    fresh,
    linear,
    numbers,
)
from ..engine.stages import Factor as StageFactor
from ..engine.through import Response, Summand, lines
from ..engine.trees import AnyField, Field, Kind, Placed, input_terms
from ..errors import InputError
from ..groups.pairings import joined
from ..layers.chain import BoundStage
from .values import exact_value, multiply, raised

POLYNOMIAL = (
    "a layer whose equations are polynomials, at finite width: averages over the weights of one "
    "over a random number, or over its root, are no rational functions of n"
)

PLAIN = -1
"""In place of the order of σ^{(order)}: the variable itself."""

Factor: TypeAlias = tuple[Kind, int, int]
"""σ^{(order)} of a variable, its sample between them."""
Content: TypeAlias = tuple[Factor, ...]
Column: TypeAlias = tuple[str, Content]
"""The space of a neuron, and the factors at it."""


class Norm(NamedTuple):
    """The root of the mean of a variable's squares, at this sample, the mean taken off or not."""

    kind: Kind
    sample: int
    centred: bool


class Term(NamedTuple):
    """One product of a field's forward equation.

    Attributes:
        scale: its coefficient.
        deltas: pairs of the field's slots that have one neural index.
        biases: (slot, variable).
        weights: (number of the matrix, slot, summed neuron).
        neurons: the summed neurons.
        carried: what stands at the index of a slot.
        links: fields with several nodes; −1 − slot is the index of a slot.
        norms: one for each factor of one over a norm.
    """

    scale: Expansion
    deltas: tuple[tuple[int, int], ...]
    biases: tuple[tuple[int, Kind], ...]
    weights: tuple[tuple[int, int, int], ...]
    neurons: tuple[Column, ...]
    carried: tuple[tuple[int, Factor], ...]
    links: tuple[Placed, ...]
    norms: tuple[Norm, ...]


class Forward:
    """The equations of a stage.

    Arguments:
        bound: the stage, with its activations.
        name: of its layer, for errors.
        turned: whether rotations of a variable keep its law.
        first: the number of its first matrix.
        size: the number of neurons in a space, as a polynomial in 1/n.
        value: of a parameter.

    Raises InputError for a stage that is no polynomial.
    """

    def __init__(
        self,
        bound: BoundStage,
        name: str,
        turned: Callable[[Kind], bool],
        first: int,
        size: Callable[[str], Expansion],
        value: Callable[[object], Expansion],
    ) -> None:
        if bound.stage.sets != 1 or bound.stage.pools > 1:
            wanted = "norms of all neurons at one position: sums over groups of neurons or over "
            wanted += "positions have no exact moments here"
            raise InputError("layer", name, wanted)
        self.first, self.size, self.value = first, size, value
        self.sigmas = dict(
            zip(bound.stage.argument_kinds, (each.expr for each in bound.activations), strict=True)
        )
        written = _Written(bound, name, turned, self.sigmas)
        self.stage = written.stage()
        self.centred = any(length.centred for length in written.lengths)
        self._summands: dict[AnyField, list[tuple[Summand, frozenset[int]]]] = {}
        self._terms: dict[tuple[AnyField, tuple[int, ...]], tuple[Term, ...]] = {}

    @property
    def reads_inputs(self) -> bool:
        """True if it is the first stage."""
        return self.stage.below == INPUTS

    @property
    def degree(self) -> int:
        """The most variables that one variable of the stage is a product of."""
        return max(1, *(sum(map(self._degree, term.factors)) for term in self.stage.terms))

    def _degree(self, factor: StageFactor) -> int:
        if not isinstance(factor, Function):
            return int(not isinstance(factor, Collective))
        degree: int = sympy.Poly(
            self.sigmas[self.stage.argument_kinds[factor.argument]], z
        ).degree()
        return degree

    @property
    def carried(self) -> frozenset[str]:
        """The spaces of the variables that have a term without a matrix."""
        return frozenset(
            kind.space
            for kind, equation in self.stage.equations
            if any(term.weight is None for term in equation.right)
        )

    def terms(self, field: AnyField, samples: tuple[int, ...]) -> tuple[Term, ...]:
        """The field's equation at these samples, one for each node."""
        key = field, samples
        if key not in self._terms:
            found = (
                made
                for whole, tied in self._equation(field)
                for scale, read, taps in self._read(whole, tied, samples)
                if (made := self._term(whole, scale, read, taps))
            )
            self._terms[key] = tuple(found)
        return self._terms[key]

    def _equation(self, field: AnyField) -> list[tuple[Summand, frozenset[int]]]:
        """Its products, the nodes numbering slots and samples, and the nodes with a matrix."""
        if field not in self._summands:
            nodes = tuple(range(field.nodes))
            if isinstance(field, Equation):
                plain = replace(self.stage, masks=())
                if not (plain.has_dense_equation or plain == STEM):
                    wanted = "z, H, dH, …: fields given by an Equation are those of dense layers"
                    raise InputError("fields", str(field), wanted)
                found = [(each, frozenset[int]()) for each in field.forward(nodes, nodes)]
            else:
                assert isinstance(field, Field)
                written = lines(self.stage, field, nodes, nodes)
                found = [(each, line.tied) for line in written for each in line.degree(0)]
            self._summands[field] = found
        return self._summands[field]

    def _read(
        self, whole: Summand, tied: frozenset[int], samples: tuple[int, ...]
    ) -> Iterator[tuple[Expansion, dict[int, int], dict[int, int]]]:
        """Each choice of a tap and of positions: its weight, each node's sample, and its tap."""
        taps = self.stage.taps
        loose = _nodes(whole) - tied if taps.past else frozenset[int]()
        if not (tied or loose):
            yield constant(1), dict(enumerate(samples)), dict.fromkeys(range(len(samples)), 0)
            return
        same = (pair for pair in whole.deltas if tied.issuperset(pair))  # derivatives by one matrix
        groups = joined([*((node,) for node in sorted(tied)), *same])
        scale = Fraction(1, taps.count) ** ((len(tied) - len(whole.weights)) // 2)
        for chosen in product(range(taps.count), repeat=len(groups)):
            tap = {node: k for group, k in zip(groups, chosen, strict=True) for node in group}
            places = {node: divmod(samples[node], taps.results) for node in [*tap, *loose]}
            rows = [taps.weights[tap[node]][places[node][1]] for node in tap]
            if taps.past is not None:
                rows += [taps.past.weights[0][places[node][1]] for node in loose]
            for entries in product(*(row.items() for row in rows)):
                read, share = dict(enumerate(samples)), scale
                for (node, (sample, _)), (at, weight) in zip(places.items(), entries, strict=True):
                    read[node] = sample * taps.positions + at
                    share *= weight
                yield constant(share), read, tap

    def _term(
        self, whole: Summand, scale: Expansion, read: Mapping[int, int], taps: Mapping[int, int]
    ) -> Term | None:
        """The product at these samples and taps; None where it vanishes."""
        values = [constant(whole.coefficient), scale]
        values += [raised(self.value(atom), exponent) for atom, exponent in whole.parameters]
        values += [raised(self.size(space), -1) for space in whole.means]
        norms: list[Norm] = []
        for function in _functions(whole):
            found = _length(function.value, self.stage.means)
            assert found is not None
            ((_, limit),) = function.limits
            values.append(exact_value(found.scale))
            norm = Norm(found.kind, read[limit.samples[0]], self.centred)
            norms += [norm] * found.power
        total = reduce(multiply, values)
        contents: list[list[Factor]] = [[] for _ in whole.neurons]
        for j, node, order, kind in whole.factors:
            if not self.reads_inputs:
                contents[j].append((kind, read[node], order))
            elif order == 0:
                contents[j].append((kind, read[node], PLAIN))
            elif order > 1:
                return None
        carried: list[tuple[int, Factor]] = []
        links: list[Placed] = []
        for placed in whole.fields:
            if self.reads_inputs and not input_terms(placed.field):
                return None
            at = tuple(read[node] for node in placed.samples)
            if not isinstance(placed.field, Field) or placed.field.nodes > 1:
                links.append(placed._replace(samples=at))
                continue
            factor = placed.field.kind(0), at[0], PLAIN
            (j,) = placed.neurons
            if j < 0:
                carried.append((-1 - j, factor))
            else:
                contents[j].append(factor)
        weights = tuple(
            (self.first + matrix * self.stage.taps.count + taps[slot], slot, j)
            for matrix, slot, j in whole.weights
        )
        columns = zip(whole.neurons, contents, strict=True)
        neurons = tuple((space, tuple(sorted(content))) for space, content in columns)
        parts = whole.deltas, whole.biases, weights, neurons, tuple(carried), tuple(links)
        return Term(total, *parts, tuple(norms)) if total else None


def _nodes(whole: Summand) -> frozenset[int]:
    found = {node for _, node, *_ in whole.factors}
    found |= {node for placed in whole.fields for node in placed.samples}
    return frozenset(found.union(*(function.samples for function in _functions(whole))))


def _functions(whole: Summand) -> list[Response]:
    return [read(atom, response=lambda own: own) for atom in whole.atoms]


class _Written:
    """A stage multiplied out."""

    def __init__(
        self,
        bound: BoundStage,
        name: str,
        turned: Callable[[Kind], bool],
        sigmas: dict[Kind, sympy.Expr],
    ) -> None:
        """Check that it is a polynomial. Where σ is multiplied out, 1 comes into its place."""
        self.bound, self.old, self.sigmas = bound, bound.stage, sigmas
        self.symbols = [mean.symbol for mean in self.old.means]
        self.old.check_without_batch("functions of one sample, at finite width")
        for sigma in bound.activations:
            if not sigma.is_polynomial:
                raise InputError("activation", sigma.name, "a polynomial")
        self.lengths: list[_Length] = []
        for function in self.old.functions:
            if function.is_polynomial(*self.symbols):
                continue
            found = _length(function, self.old.means)
            if not _is_direction(function, self.old.means) or not all(
                turned(factor.kind) for mean in self.old.means for factor in mean.factors
            ):
                raise InputError("layer", name, f"{POLYNOMIAL}, as that of {function} here")
            if found is None or any(other.centred != found.centred for other in self.lengths):
                wanted = (
                    f"norms that are roots of a mean of squares, at finite width, not {function}"
                )
                raise InputError("layer", name, wanted)
            self.lengths.append(found)

    def stage(self) -> Stage:
        """The stage, with neither functions nor collective variables but those of a norm."""
        if not self.symbols:
            return self.old
        equations = tuple(
            (kind, equation._replace(right=tuple(self.products(equation.right))))
            for kind, equation in self.old.equations
        )
        for argument, kind in zip(self.old.arguments, self.old.argument_kinds, strict=True):
            if argument != (linear(kind),):
                self.sigmas[kind] = sympy.Integer(1)
        plain = tuple((linear(kind),) for kind in self.old.argument_kinds)
        made = replace(self.old, equations=equations, arguments=plain)
        return made if self.lengths else replace(made, means=(), functions=())

    def products(self, terms: Sequence[Product]) -> Iterator[Product]:
        """A sum multiplied out."""
        for term in terms:
            options = (tuple(self.factor(each)) for each in term.factors)
            for chosen in product(*options):
                yield prod(map(fresh, chosen), start=term._replace(factors=()))

    def factor(self, factor: StageFactor) -> Iterator[Product]:
        """One factor as a sum of products."""
        function = self.old.functions[factor.function] if isinstance(factor, Collective) else None
        if function is not None and function.is_polynomial(*self.symbols):
            for powers, scale in sympy.Poly(function, *self.symbols).terms():
                means = (
                    mean.at(next(numbers))
                    for mean, exponent in zip(self.old.means, powers, strict=True)
                    for _ in range(exponent)
                )
                yield prod(means, start=_number(scale))
            return
        if not isinstance(factor, Function) or self.is_plain(factor):
            yield Product((factor,))
            return
        argument = self.old.arguments[factor.argument]
        inside = tuple(each.renamed({HERE: factor.at}) for each in tuple(self.products(argument)))
        mask = (factor,) * len(self.old.masks)
        sigma = self.bound.activations[factor.argument]
        for (degree,), scale in sympy.Poly(sigma.expr, z).terms():
            for chosen in product(inside, repeat=degree):
                yield prod(map(fresh, chosen), start=_number(scale) * Product(mask))

    def is_plain(self, factor: Function) -> bool:
        """True if σ is taken of a variable itself."""
        kind = self.old.argument_kinds[factor.argument]
        return self.old.arguments[factor.argument] == (linear(kind),)


class _Length(NamedTuple):
    """c s^{-k} with s² the mean of v², or of (v − m)²."""

    scale: sympy.Expr
    power: int
    kind: Kind
    centred: bool


def _length(function: sympy.Expr, means: Sequence[Mean]) -> _Length | None:
    """The function as one of these, at m = 0; None of others."""
    odd = {mean.symbol: 0 for mean in means if mean.is_odd}
    squares = [mean for mean in means if function.has(mean.symbol) and not mean.is_odd]
    if len(squares) != 1 or len(set(squares[0].factors)) > 1:
        return None
    plain = squares[0].symbol
    scale, rest = function.subs(odd).as_independent(plain, as_Add=False)
    base, exponent = rest.as_base_exp()
    if base != plain or not (-2 * exponent).is_Integer or exponent > 0:
        return None
    used = [mean for mean in means if mean.is_odd and function.has(mean.symbol)]
    centred = plain - sum(mean.symbol**2 for mean in used)
    own = all(mean.factors[0] in squares[0].factors for mean in used)
    if not own or sympy.simplify(function / scale - centred**exponent) != 0:
        return None
    return _Length(scale, int(-2 * exponent), squares[0].factors[0].kind, bool(used))


def _is_direction(function: sympy.Expr, means: Sequence[Mean]) -> bool:
    """True if it is a power of the size of the variables, times what their size does not change."""
    size = sympy.Symbol("size", positive=True)
    larger = {mean.symbol: mean.symbol * size ** len(mean.factors) for mean in means}
    ratio = sympy.simplify(function.subs(larger, simultaneous=True) / function)
    return bool(ratio.free_symbols <= {size})


def _number(value: sympy.Expr) -> Product:
    if value.is_Rational:
        return Product(coefficient=Fraction(int(value.p), int(value.q)))
    return Product(parameters=power(Value(value), 1))
