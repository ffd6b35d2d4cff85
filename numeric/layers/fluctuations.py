r"""A stage's means of two variables, and their derivatives: what V of few outputs is made of.

Behind a stage K'_xy = C Σ_k A E[φ_x φ_y] Aᵀ/s + f_x f_y K_vw, where x and y carry v and w. Each
part is a derived recursion. Its derivatives are those of its factors: of K_vw, of averages by
Price's theorem, ∂⟨F⟩/∂K_st = ⟨∂_s ∂_t F⟩, and of functions of norms. A mean m of one variable,
which a norm takes off before σ, is 0 in K'. There ∂E[φ_x φ_y]/∂m comes from the equations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, combinations_with_replacement, product
from typing import NamedTuple

import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Value
from derive.arithmetic.polynomials import Expansion, Monomial, of_kind, power, times
from derive.engine.atoms import with_labels
from derive.engine.scheme import Scheme
from derive.engine.stages import Collective, Equation, Function, Product, Stage, Variable
from derive.engine.step import Step, through
from derive.engine.tensors import Name, Tensor, identify, kernel_label, kernel_of, tensor
from derive.engine.through import Response, at_limit
from derive.engine.trees import STREAM, Field, Kind
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.symbols import z
from derive.weights import Gaussian, WeightEnsemble

from . import stages
from .program import Polynomial

Terms = list[tuple[float, Monomial]]
"""A sum of products of atoms, each with its coefficient."""


class Slope(NamedTuple):
    """The derivative of a mean by one before the stage: a number times atoms."""

    value: float
    factors: Monomial
    below: Name
    labels: tuple[int, ...]


class Odd(NamedTuple):
    """The derivative of a mean by an odd one, that of a variable, at the sample of a label."""

    label: int
    variable: Kind
    terms: Terms


class Pair(NamedTuple):
    """The part of a mean of two variables that comes from one matrix, or from what is carried.

    Attributes:
        step: the recursion.
        kinds: the two variables.
        terms: of the recursion.
        slopes: derivatives of the mean of what is read or carried.
        others: those of functions of collective variables beside it.
        odd: derivatives by odd means.
    """

    step: Step
    kinds: tuple[Kind, Kind]
    terms: Terms
    slopes: list[Slope]
    others: list[Slope]
    odd: list[Odd]

    @property
    def name(self) -> Name:
        """The mean."""
        return self.step.target

    @property
    def monomials(self) -> Iterator[Monomial]:
        """All products of atoms."""
        yield from (mono for _, mono in chain(self.terms, *(odd.terms for odd in self.odd)))
        yield from (slope.factors for slope in (*self.slopes, *self.others))


class Term(NamedTuple):
    """A product at a neuron: a number times atoms of the sample 1, variables and σ^{(order)}."""

    value: float
    factors: Monomial
    variables: tuple[Kind, ...]
    functions: tuple[tuple[Kind, int], ...]

    @property
    def kinds(self) -> set[Kind]:
        """The variables on which it depends."""
        return {*self.variables, *(kind for kind, _ in self.functions)}


def mean_of(x: Kind, y: Kind) -> Name:
    """The mean of two variables of a neuron."""
    return identify(kernel_of(x, y, (0, 1)))[0]


def kinds_of(name: Name) -> tuple[Kind, Kind]:
    """The variables of the samples 1 and 2 of a mean."""
    one, other = (name.fields[slot] for slot in name.subscripts)
    assert isinstance(one, Field)
    assert isinstance(other, Field)
    return one.kind(0), other.kind(0)


def means_behind(stage: Stage) -> tuple[Name, ...]:
    """All means of two variables of a neuron behind a stage, that of z first."""
    kinds = sorted((kind for kind, _ in stage.equations), key=lambda each: each != STREAM)
    pairs = combinations_with_replacement(kinds, 2)
    return tuple(mean_of(x, y) for x, y in pairs if x.group == y.group)


class Fluctuations:
    """The means behind one stage, by matrices and by what is carried.

    Arguments:
        below: the means before it.
        stage, scheme: through which they lead.

    Attributes:
        behind: the means behind it.
        carried: their parts that no matrix makes.
        read: those of each matrix.
        bodies: what a matrix multiplies in the equation of a variable.
        sources: what the equation of a variable carries.
        corrections: V of W x without that of x, less what Gaussian W have: by matrices.

    Raises InputError for a stage whose fluctuations are other sums than these.
    """

    def __init__(self, below: Sequence[Name], stage: Stage, scheme: Scheme) -> None:
        self._below, self._stage, self._scheme = below, stage, scheme
        self._sigma = partial(stage.sigma_at, default=scheme.sigma)
        self._labels = {each.label: each for each in below}
        self.behind, numbers = means_behind(stage), range(len(stage.matrices))
        kinds = [kind for kind, _ in stage.equations]
        self.sources = {kind: self._terms(self._products(kind, None)) for kind in kinds}
        self.bodies = {
            (k, kind): self._terms(of)
            for k, kind in product(numbers, kinds)
            if (of := self._products(kind, k))
        }
        for each in chain(*self.sources.values()):
            if each.functions or len(each.variables) != 1:
                raise self._refused("skips that carry one variable, and no product of several")
        self._check_odd()
        self.carried = [*self._pairs(None)]
        self.read = [[*self._pairs(k)] for k in numbers]
        self._steps = [pair.step for pair in chain(self.carried, *self.read)]
        self.corrections = [self._correction(k) if self.read[k] else [] for k in numbers]

    @property
    def steps(self) -> list[Step]:
        """All recursions that it is made of."""
        return self._steps

    def activation(self, kind: Kind) -> Activation:
        """The σ that is taken of a variable."""
        return self._sigma(kernel_label(kind))

    def laid_out(self, parameters: Sequence[str], m: int) -> stages.Stage:
        """All atoms, to be evaluated; with the names of hyperparameters."""
        monos = [mono for pair in chain(self.carried, *self.read) for mono in pair.monomials]
        monos += [each.factors for each in chain(*self.bodies.values(), *self.sources.values())]
        monos += [without_tensors(mono) for _, mono in chain(*self.corrections)]
        laid: Expansion = {(mono, 0): 1 for mono in monos}  # type: ignore[misc]
        given = self._below, [Polynomial(self._below[0], (1, 2), laid)], self._sigma, parameters, m
        return stages.Stage(*given, keep=self._stage.keep, apart=False)

    def is_quadratic(self, matrix: int, pair: Pair) -> bool:
        """True if the product that a matrix reads is of degree 2 in Gaussian variables."""
        terms = chain(*(self.bodies[matrix, kind] for kind in pair.kinds))
        return not self._stage.masks and all(map(self._is_linear, terms))

    def _is_linear(self, term: Term) -> bool:
        functions = [self.activation(kind) for kind, _ in term.functions]
        return len(term.variables) + len(functions) == 1 and all(map(_is_linear, functions))

    def _products(self, kind: Kind, matrix: int | None) -> tuple[Product, ...]:
        """The products in the equation of a variable with this matrix, or with none."""
        right = self._stage.equation(kind).right
        return tuple(each for each in right if (each.weight and each.weight[0]) == matrix)

    def _terms(self, products: Iterable[Product]) -> list[Term]:
        """Products at the limits of collective variables, without those that are 0 there."""
        return [self._term(each) for each in products if self._lives(each)]

    def _lives(self, term: Product) -> bool:
        functions = (each for each in term.factors if isinstance(each, Collective))
        return all(self._stage.derivative(*each) != 0 for each in functions)

    def _term(self, term: Product) -> Term:
        mono, variables, functions = term.parameters, [], []
        if term.means or len(term.neurons) > 1:
            raise self._refused("no sums over other neurons beside a matrix or a skip")
        for each in term.factors:
            if isinstance(each, Variable):
                variables.append(each.kind)
            elif isinstance(each, Function):
                functions.append((self._stage.argument_kinds[each.argument], each.order))
            else:
                mono = times(mono, power(at_limit(self._stage, each, 1), 1))
        return Term(float(term.coefficient), mono, tuple(variables), tuple(functions))

    def _pairs(self, matrix: int | None) -> Iterator[Pair]:
        """The parts of all means with this matrix, or with none."""
        only = {kind: self._products(kind, matrix) for kind, _ in self._stage.equations}
        equations = tuple((kind, Equation(right)) for kind, right in only.items())
        stage = replace(self._stage, equations=equations)
        for name in self.behind:
            kinds = kinds_of(name)
            if not all(only[kind] for kind in kinds):
                continue
            step = through(name, self._scheme, stage)
            found = chain(*(part.terms.items() for part in step.parts))
            terms = [(float(value), mono) for (mono, _), value in found]
            slopes = [*chain(*(self._slopes(*term) for term in terms))]
            others = [*chain(*(_responses(*term) for term in terms))]
            odd = [] if matrix is None else [*self._odd(matrix, kinds)]
            yield Pair(step, kinds, terms, slopes, others, odd)

    def _slopes(self, value: float, mono: Monomial) -> Iterator[Slope]:
        """Derivatives of a term by the means in it, and by kernels of its averages."""
        for atom, exponent in mono:
            rest, share = times(mono, power(atom, -1)), value * exponent
            for mean in of_kind([atom], Tensor):
                yield Slope(share, rest, *identify(mean))
            for own in of_kind([atom], Bracket):
                for s, t in combinations_with_replacement(own.samples, 2):
                    outer = own._replace(outer=tuple(sorted((*own.outer, s, t))))
                    factors, half = times(rest, power(outer, 1)), 0.5 if s == t else 1.0
                    yield Slope(share * half, factors, self._labels[own.kernel], (s, t))

    def _check_odd(self) -> None:
        """Raise InputError for odd means that are taken off elsewhere than before a matrix."""
        for v, mean in enumerate(self._stage.means):
            carried = chain(*(self._products(kind, None) for kind, _ in self._stage.equations))
            if mean.is_odd and self._moved(carried, v):
                raise self._refused("means that are taken off before a matrix, and not of skips")

    def _moved(self, terms: Iterable[Product], v: int) -> list[Term]:
        """Derivatives of products by a collective variable."""
        return self._terms(chain(*(self._stage.differentiated(each, (-1 - v,)) for each in terms)))

    def _odd(self, matrix: int, kinds: tuple[Kind, Kind]) -> Iterator[Odd]:
        """The derivatives of a matrix's part of a mean by odd means."""
        for v, mean in enumerate(self._stage.means):
            for label in (1, 2) if mean.is_odd else ():
                first, second = kinds if label == 1 else kinds[::-1]
                ones = self._moved(self._products(first, matrix), v)
                pairs = product(ones, self.bodies[matrix, second])
                found = [self._average(*pair, label, matrix) for pair in pairs]
                yield Odd(label, mean.factors[0].kind, [each for each in found if each])

    def _average(
        self, one: Term, other: Term, label: int, matrix: int
    ) -> tuple[float, Monomial] | None:
        """C E[…] of a product at one label times one at the other of 1 and 2; None if it is 0."""
        functions = [(label, *each) for each in one.functions]
        functions += [(3 - label, *each) for each in other.functions]
        count = len(one.variables) + len(other.variables)
        if not functions and count % 2:
            return None
        kinds = {kind for _, kind, _ in functions}
        if count or (len(kinds), len(functions)) != (1, 2):
            raise self._refused("σ, and no product, where a mean is taken off before it")
        factors = tuple(sorted((at, order) for at, _, order in functions))
        bracket = Bracket(factors, (), kernel_label(*kinds))
        variance = power(self._stage.matrices[matrix].variance, 1)
        moved = (_at(label, one.factors), _at(3 - label, other.factors), power(bracket, 1))
        return one.value * other.value, reduce(times, moved, variance)

    def _correction(self, matrix: int) -> Terms:
        law = self._stage.matrices[matrix].law or self._scheme.weights
        if isinstance(law, Gaussian):
            return []
        both = [self._four(matrix, each) for each in (law, Gaussian())]
        self._steps += both
        signed = zip((1.0, -1.0), both, strict=True)
        terms = [(s * float(c), mono) for s, of in signed for (mono, _), c in of.terms.items()]
        found = [(value, mono) for value, mono in terms if not _has_fours(mono)]
        fours = [mono for _, mono in terms if _has_fours(mono)]
        if len(fours) != 2 or fours[0] != fours[1]:
            raise self._refused(f"laws whose V is a sum over two pairs, which {law} has not")
        return found

    def _four(self, matrix: int, law: WeightEnsemble) -> Step:
        """V of W x, by one of V and K of x, for this law of W with C = 1."""
        own = self._stage.matrices[matrix]
        x, u = (Kind(name, space, name) for name, space in (("x", own.into), ("u", own.out)))
        body = Product((Variable(x, 0),), ((0, own.into),), (), (0, 0))
        alone = own._replace(variance=Value(sympy.Integer(1)), law=law)
        stage = Stage(((u, Equation((body,))),), (alone,), ratios=self._stage.ratios)
        fields = (Field(1, (), (u,)),) * 4
        name = identify(tensor(fields, 0, ((0, 1), (2, 3)), (0, 1, 2, 3)))[0]
        return through(name, replace(self._scheme, weights=law, layer=None), stage)

    def _refused(self, wanted: str) -> InputError:
        return refused(self._scheme, wanted)


def refused(scheme: Scheme, wanted: str) -> InputError:
    """The error for a layer of which V is not sampled."""
    return InputError("layer", str(scheme.layer or "dense()"), f"{wanted}, where V is sampled")


def _responses(value: float, mono: Monomial) -> Iterator[Slope]:
    """Derivatives of the functions of collective variables in a term."""
    for atom, exponent in mono:
        for response in of_kind([atom], Response):
            rest = times(mono, power(atom, -1))
            for symbol, limit in response.limits:
                slope = sympy.diff(response.value, symbol)
                if slope != 0:
                    made = power(response._replace(value=slope), 1)
                    yield Slope(value * exponent, times(rest, made), *identify(limit))


def without_tensors(mono: Monomial) -> Monomial:
    """A monomial without the tensors in it."""
    tensors = set(of_kind(dict(mono), Tensor))
    return frozenset(each for each in mono if each[0] not in tensors)


def _has_fours(mono: Monomial) -> bool:
    tensors = of_kind((atom for atom, _ in mono), Tensor)
    return any(len(each.samples) > 2 or each.order for each in tensors)


def _at(label: int, factors: Monomial) -> Monomial:
    """Atoms of the sample 1 at another label."""
    return with_labels(factors, lambda _: label)


def _is_linear(activation: Activation) -> bool:
    return bool(activation.expr.subs(z, 0) == 0 and sympy.diff(activation.expr, z, 2) == 0)
