"""The law of JJᵀ through a layer of any equations at infinite width, J = ∂z'/∂z.

A layer's Jacobian is read off its stages. Of every variable v it is

    ∂v/∂u = s + Σ_k A_k,        u an earlier variable, z at first,

s a number, from what is carried past matrices, and A_k = W_k D_k …, the branches that end in a
matrix: R-diagonal, free of each other where they share no matrix, and of ∂u/∂z. Norms multiply by
1/√(K + ε); what they take off is of rank one, and leaves the law as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from .. import symbols
from ..activations.functions import Activation
from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.polynomials import Monomial
from ..engine.atoms import read
from ..engine.scheme import Scheme
from ..engine.stages import LEFT, Collective, Function, Product, Stage, Variable
from ..engine.step import through
from ..engine.taps import Taps
from ..engine.tensors import kernel_name
from ..engine.trees import STREAM, Kind
from ..errors import InputError
from ..gaussian.brackets import GaussianAverage
from ..layers import Layer
from ..weights import Gaussian, Orthogonal, WeightEnsemble
from .ensembles import universal, weight_law
from .gates import Gates, HaarGates
from .laws import Law, Rational, rescaled
from .laws import Product as FreeProduct
from .skips import Around
from .slopes import masked, slope_law

_DIGITS = 25
"""Of variances that are averages."""

_FREE = "one whose branches share no matrix: others are not free of each other"


@dataclass(frozen=True)
class _Branch:
    """A_k: the factors of the law of its squared singular values, and its matrices."""

    factors: tuple[Law, ...]
    matrices: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class _Derivative:
    """∂v/∂u = scalar + Σ branches; u is None for z.

    `drawn` has C of a single Gaussian or Haar matrix, what it meets, and True for the Gaussian,
    where v is that.
    """

    over: _Derivative | None
    scalar: sympy.Expr = sympy.S.One
    branches: tuple[_Branch, ...] = ()
    drawn: tuple[sympy.Expr, _Derivative, bool] | None = None

    @property
    def factors(self) -> tuple[Law, ...]:
        """Of the law of |scalar + Σ branches|²."""
        if not self.branches:
            return (Rational(self.scalar**2),)
        if self.scalar == 0 and len(self.branches) == 1:
            return self.branches[0].factors
        parts = tuple(_product(each.factors) for each in self.branches)
        return (Around(self.scalar, parts),)

    @property
    def matrices(self) -> frozenset[tuple[int, int]]:
        """Those of the branches."""
        return frozenset().union(*(each.matrices for each in self.branches))

    @property
    def depth(self) -> int:
        """How many variables are below it."""
        return 0 if self.over is None else 1 + self.over.depth

    def times(self, scale: sympy.Expr) -> _Derivative:
        """That of a multiple."""
        if scale == 1:
            return self
        law = Rational(scale**2)
        branches = tuple(_Branch((*each.factors, law), each.matrices) for each in self.branches)
        drawn = self.drawn and (self.drawn[0] * scale**2, *self.drawn[1:])
        return _Derivative(self.over, scale * self.scalar, branches, drawn)

    def from_below(self) -> _Derivative:
        """The same over what u is over."""
        below = self.over
        assert below is not None
        branches = [
            _Branch((*each.factors, *below.factors), _disjoint(each.matrices, below.matrices))
            for each in self.branches
        ]
        if self.scalar != 0:
            branches += below.times(self.scalar).branches
        return _Derivative(below.over, self.scalar * below.scalar, tuple(branches))


def layer_factors(
    layer: Layer,
    activation: Activation,
    weights: WeightEnsemble,
    K: sympy.Expr,
    C_b: sympy.Expr = sympy.S.Zero,
) -> tuple[tuple[Law, ...], sympy.Expr]:
    """The free factors of the law of JJᵀ, J = ∂z'/∂z through one layer at infinite width, and the
    variance of z'.

    Arguments:
        layer: with as many neurons in each of its variables.
        activation: σ.
        weights: of all its matrices, but for their variances.
        K: the variance of z.
        C_b: of its biases; they move the variances of σ's arguments.

    At a constant signal σ' is the same at all positions. The law is that of the Jacobian of the
    whole signal, where each tap permutes the positions.

    Raises InputError for taps that do not, branches that share a matrix, gates whose weights are
    neither Gaussian nor orthogonal, and widths that differ.
    """
    _check_signals(layer)
    reader = _Reader(layer, activation, weights, {symbols.C_W: weights.C_W, symbols.C_b: C_b})
    known = {STREAM: _Derivative(None)}
    kernels = {STREAM: K}
    for number in range(len(layer.stages)):
        known, kernels = reader.behind(number, known, kernels)
    found, factors = known[STREAM], list[Law]()
    while True:
        factors += found.factors
        if found.over is None:
            return tuple(factors), kernels[STREAM]
        found = found.over


class _Reader:
    """Reads a layer's stages, one after another."""

    def __init__(
        self,
        layer: Layer,
        activation: Activation,
        weights: WeightEnsemble,
        values: Mapping[sympy.Symbol, sympy.Expr],
    ) -> None:
        self._layer, self._activation, self._values = layer, activation, dict(values)
        self._scheme = Scheme(weights, True, 0, True, layer)
        self._weights = weights
        if any(stage.ratios for stage in layer.stages):
            raise InputError("layer", str(layer), "one with as many neurons in all its variables")

    def kernel(self, stage: Stage, kind: Kind, before: Mapping[Kind, sympy.Expr]) -> sympy.Expr:
        """The variance of a variable behind a stage."""
        plain = stage.alone  # of a constant signal
        step = through(kernel_name(kind), self._scheme, plain).specialise(self._activation)
        names = {symbols.tensor(kernel_name(each).label): value for each, value in before.items()}
        found = step.expr.subs({**names, **self._values}, simultaneous=True)
        return sympy.N(found, _DIGITS) if found.has(GaussianAverage) else found

    def behind(
        self, number: int, before: Mapping[Kind, _Derivative], kernels: Mapping[Kind, sympy.Expr]
    ) -> tuple[dict[Kind, _Derivative], dict[Kind, sympy.Expr]]:
        """The derivatives and variances of the variables behind a stage."""
        stage = self._layer.stages[number]
        found = {}
        for kind, equation in stage.equations:
            terms = [self._of(number, stage, term, before, kernels) for term in equation.right]
            found[kind] = _sum(terms or [_Derivative(None, sympy.S.Zero)])  # biases alone
        return found, {kind: self.kernel(stage, kind, kernels) for kind, _ in stage.equations}

    def _of(
        self,
        number: int,
        stage: Stage,
        term: Product,
        before: Mapping[Kind, _Derivative],
        kernels: Mapping[Kind, sympy.Expr],
    ) -> _Derivative:
        scale = sympy.Rational(term.coefficient) * self._parameters(term.parameters)
        for each in term.factors:
            if isinstance(each, Collective):
                scale *= self._collective(stage, each, kernels)
        if scale == 0:
            return _Derivative(None, sympy.S.Zero)
        variables = [each for each in term.factors if isinstance(each, Variable)]
        functions = [each for each in term.factors if isinstance(each, Function)]
        if term.weight is None:
            if functions or len(variables) != 1 or variables[0].at != LEFT:
                wanted = "one whose products and σ's stand behind a matrix"
                raise InputError("layer", str(self._layer), wanted)
            return _node(before[variables[0].kind]).times(scale)
        matrix = stage.matrices[term.weight[0]]
        variance = self._number(matrix.variance)
        weights = universal(matrix.law or self._weights.unit_variance)
        law = rescaled(_over_taps(weight_law(weights), stage.taps), variance * scale**2)
        own = frozenset({(number, term.weight[0])})
        if len(functions) <= 1 and len(functions) + len(variables) == 1:
            inside: tuple[Law, ...] = ()
            if functions:
                kind = stage.argument_kinds[functions[0].argument]
                sigma = stage.sigma(functions[0].argument, self._activation)
                slopes = slope_law(sigma, kernels[kind], "K")
                for keep in stage.masks:
                    slopes = masked(slopes, keep.expr)
                inside = (slopes,)
            else:
                kind = variables[0].kind
            below = _node(before[kind])
            matrices = _disjoint(own, below.matrices)
            rest = () if below.scalar == 1 and not below.branches else below.factors
            drawn = None
            if not functions and isinstance(weights, Gaussian | Orthogonal):
                drawn = variance * scale**2, below, isinstance(weights, Gaussian)
            branch = _Branch((*inside, law, *rest), matrices)
            return _Derivative(below.over, sympy.S.Zero, (branch,), drawn)
        if len(functions) == len(variables) == 1:
            kinds = variables[0].kind, stage.argument_kinds[functions[0].argument]
            sigma = stage.sigma(functions[0].argument, self._activation)
            return self._gate(law, own, [before[kind] for kind in kinds], kinds, kernels, sigma)
        raise InputError("layer", str(self._layer), "products of one variable and one σ at most")

    def _gate(
        self,
        law: Law,
        own: frozenset[tuple[int, int]],
        both: list[_Derivative],
        kinds: tuple[Kind, Kind],
        kernels: Mapping[Kind, sympy.Expr],
        sigma: Activation,
    ) -> _Derivative:
        """W₃ (D_{σ(g)} W₁ + D_{hσ'(g)} W₂), of Gaussian or of Haar matrices (`gates`)."""
        value, gate = both
        if value.drawn is None or gate.drawn is None or value.drawn[1:] != gate.drawn[1:]:
            wanted = (
                "gates of two Gaussian or two orthogonal matrices of one variable: only these are "
            )
            wanted += "free of it in a way that is known here"
            raise InputError("layer", str(self._layer), wanted)
        (C_1, below, gaussian), (C_2, *_) = value.drawn, gate.drawn
        given = sigma, kernels[kinds[0]], kernels[kinds[1]], C_1, C_2
        inside: tuple[Law, ...] = (HaarGates(*given),)
        if gaussian:
            inside = Gates(*given), weight_law(Gaussian(1))
        rest = () if below.scalar == 1 and not below.branches else below.factors
        matrices = _disjoint(own, _disjoint(value.matrices, gate.matrices))
        branch = _Branch((*inside, law, *rest), matrices)
        return _Derivative(below.over, sympy.S.Zero, (branch,))

    def _collective(
        self, stage: Stage, factor: Collective, kernels: Mapping[Kind, sympy.Expr]
    ) -> sympy.Expr:
        value = stage.derivative(factor.function, factor.orders)
        at = {}
        for mean in stage.means:
            if mean.is_odd or not value.has(mean.symbol):
                continue
            one, *others = (each.kind for each in mean.factors)
            if others != [one]:
                raise InputError("layer", str(self._layer), "means of one variable's square")
            at[mean.symbol] = kernels[one]
        return value.subs({**at, **self._values})

    def _parameters(self, parameters: Monomial) -> sympy.Expr:
        powers = (self._number(atom) ** exponent for atom, exponent in parameters)
        return sympy.prod(powers)

    def _number(self, atom: object) -> sympy.Expr:
        return read(atom, parameter=self._valued, value=self._valued)

    def _valued(self, atom: Parameter | Value) -> sympy.Expr:
        return atom.expr.subs(self._values)


def _check_signals(layer: Layer) -> None:
    """Raise InputError unless each tap permutes a signal's positions, no position is masked, and no
    function mixes samples."""
    stages = *layer.stages, *layer.measured.stages
    for stage in stages:
        stage.check_without_batch("functions of one sample, for spectra of Jacobians")
    if not all(each.taps.permutes and not (each.masks and each.taps.moves) for each in stages):
        wanted = "one whose taps permute the positions, as of a circular convolution, for the "
        wanted += "spectra of Jacobians at a constant signal"
        raise InputError("layer", str(layer), wanted)


def _over_taps(law: Law, taps: Taps) -> Law:
    """Of s^{-1/2} Σ_k P_k ⊗ W_k at permutations P_k: with free R-diagonal W_k that of s^{-1/2} Σ_k
    W_k, as each noncrossing pairing of its moments has P_k beside its inverse."""
    if taps.count == 1 or law == weight_law(Gaussian(1)):
        return law
    return Around(sympy.S.Zero, (rescaled(law, sympy.Rational(1, taps.count)),) * taps.count)


def _node(of: _Derivative) -> _Derivative:
    """A variable as seen by those made of it: a variable of its own, where it is a sum of
    a skip and branches."""
    return _Derivative(of) if of.scalar != 0 and of.branches else of


def _sum(terms: list[_Derivative]) -> _Derivative:
    terms = [each for each in terms if each.scalar != 0 or each.branches] or terms[:1]
    if len(terms) == 1:
        return terms[0]
    while any(each.over != terms[0].over for each in terms):
        deepest = max(each.depth for each in terms)
        terms = [each.from_below() if each.depth == deepest else each for each in terms]
    matrices: frozenset[tuple[int, int]] = frozenset()
    branches: list[_Branch] = []
    for each in terms:
        for branch in each.branches:
            matrices = _disjoint(matrices, branch.matrices)
            branches.append(branch)
    scalar = sum((each.scalar for each in terms), sympy.S.Zero)
    return _Derivative(terms[0].over, scalar, tuple(branches))


def _disjoint(
    one: frozenset[tuple[int, int]], other: frozenset[tuple[int, int]]
) -> frozenset[tuple[int, int]]:
    if one & other:
        raise InputError("layer", "branches that share a matrix", _FREE)
    return one | other


def _product(factors: tuple[Law, ...]) -> Law:
    return factors[0] if len(factors) == 1 else FreeProduct(factors)
