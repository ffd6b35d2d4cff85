"""Skips around one matrix in balls: functionals X(f) as averages over two layers.

Behind a layer, X'(f) is a sum of scalar · Y(P ∂^k f) and scalar · ⟨F(y) P ∂^k f⟩. Here F is 1 or a
product of σ's, and P f(z) = E f(γz + ξ) (`derive.engine.skip_closure`). So with one input no series
is needed:

    X(f) = Σ c ⟨F(y_j) ∂^k f(z_l)⟩,      j < l,      E z_j z_l = γ_{j+1} … γ_l K_j .

Derived here. `flow` in floats computes the same numbers from Hermite coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import factorial
from typing import TypeAlias

from flint import arb

from derive.activations.functions import Activation
from derive.arithmetic.balls import Matrix, ball, power
from derive.engine.atoms import read
from derive.engine.exchangeable import Pair
from derive.engine.scheme import Scheme
from derive.engine.skip_closure import MEMBERS, functional_in, over_gaussians
from derive.engine.tensors import Name, Tensor, identify, named
from derive.engine.through import Response
from derive.errors import InputError, Words
from derive.gaussian.brackets import Bracket
from derive.weights import WeightEnsemble
from derive.work.caches import cache

from ..skips.derived import Term, closed
from ..skips.functionals import BLOCK
from ..vectors import relabelled
from .averages import Averages
from .geometry import Rows
from .recursions import Average, Check, Recursions, number_of, placed_averages, response_of

Functional: TypeAlias = "dict[tuple[int | None, tuple[Pair, ...], int], arb]"
"""c by j, F and k; j is None where F is 1."""

_K, _V = named("K"), named("V")


class Skips(Recursions):
    """Recursions of one input with tensors that close on functionals.

    Arguments:
        own: these tensors.
        names, schemes, order, first: as in `Recursions`, for all others.
    """

    def __init__(
        self,
        own: Sequence[Name],
        names: Sequence[Sequence[Sequence[Name]]],
        schemes: Sequence[Scheme],
        order: Sequence[int],
        first: WeightEnsemble,
    ) -> None:
        layers, self._own, self._kinds = closed(own, schemes, several=False)
        self._at_first = *self._own, *(BLOCK,) * (schemes[0].group != "O")
        super().__init__(
            names, schemes, order, first, ((1,) * len(schemes), 1), more=self._at_first
        )
        self._derived = [layers[number] for number in order]
        self._sigma = layers[0].sigma
        if any(each.sigma != self._sigma for each in layers):
            wanted = "one activation in all layers, behind a skip around one matrix"
            raise InputError("precision", Words("a precision with several"), wanted)

    def completed(
        self,
        layers: Sequence[list[arb]],
        parameters: Mapping[str, Sequence[object]],
        goal: float,
        check: Check,
    ) -> list[list[arb]]:
        """See `Recursions`."""
        names, found = [name for name, _ in self.entries], [layers[0]]
        starts = dict(zip(names, layers[0], strict=True))
        state: dict[str, Functional] = {kind: {} for kind in self._kinds}
        for kind in state.keys() & MEMBERS.keys():
            name, degree = MEMBERS[kind]
            state[kind][None, (), degree] = starts[name] / factorial(degree)
        if "One" in state:  # E :zzzz: is V of three pairings, and of a law without rotations more
            state["One"][None, (), 4] = starts[_V] / 8 + starts.get(BLOCK, arb(0)) / 24
        variances: list[arb] = []
        shares: list[arb] = []
        for layer, derived in enumerate(self._derived):
            exact = {name: each[layer + 1] for name, each in parameters.items()}
            tensors = dict(zip(names, found[-1], strict=True))
            if exact["C_W"] == exact["C_b"] == 0 and not tensors[_K].is_zero():
                raise InputError("C_W, C_b", (0, 0), "one above 0, for a precision behind a skip")
            scale = arb(1) if derived.scale is None else _response(derived.scale, tensors)
            variances.append(scale**2 * tensors[_K])
            shares.append(1 / scale)
            told = partial(check, left=sum(range(layer, len(self._derived))) * len(state))
            known = state, scale, exact, tensors, variances, shares
            at = _Layer(*known, self._sigma, goal, told)
            above = [at.total(derived.tensors.get(name, ())) for name in self._at_first]
            found.append([*layers[layer + 1], *above])
            gamma = at.total(derived.gamma)
            state = {k: at.behind(derived.functionals.get(k, ()), gamma) for k in self._kinds}
            shares = [gamma * share for share in shares]
        return found


@dataclass(frozen=True, eq=False)
class _Layer:
    """One layer: the values of the atoms below it, and the functionals above.

    `variances` are those of y = scale · z at this layer and those below, and `shares` are
    E y_j z_l over them. sigma, goal and check are as in `Averages`.
    """

    state: Mapping[str, Functional]
    scale: arb
    parameters: Mapping[str, object]
    tensors: Mapping[Name, arb]
    variances: Sequence[arb]
    shares: Sequence[arb]
    sigma: Activation
    goal: float
    check: Callable[[float], None]
    known: dict[object, arb] = field(default_factory=dict)

    def total(self, terms: Sequence[Term]) -> arb:
        """Σ terms."""
        return sum((self._scalar(term) for term in terms), arb(0))

    def behind(self, terms: Sequence[Term], gamma: arb) -> Functional:
        """A functional above the layer."""
        total: Functional = {}
        for term in terms:
            kind, of = term.of
            layer = len(self.shares) - 1 if of.factors else None
            below: Functional = {(layer, of.factors, 0): arb(1)}
            if kind != "Mean":
                below = {key: c * power(gamma, key[2]) for key, c in self.state[kind].items()}
            scalar = self._scalar(term)
            for (j, F, k), c in below.items():
                key = j, F, k + len(of.tested or ())
                total[key] = total.get(key, arb(0)) + scalar * c
        return {key: value for key, value in total.items() if not value.is_zero()}

    def _scalar(self, term: Term) -> arb:
        """A term without the factor that contains the function on the left."""
        value = ball(term.value)
        for atom, exponent in term.atoms:
            if atom not in self.known:
                self.known[atom] = self._number(atom)
            value *= power(self.known[atom], exponent)
        return value

    def _number(self, atom: object) -> arb:
        return read(
            atom,
            tensor=lambda own: self.tensors[identify(own)[0]],
            response=lambda own: _response(own, self.tensors),
            bracket=lambda own: self._average(None, own.factors, (), len(own.outer)),
            other=self._functional,
        )

    def _functional(self, atom: object) -> arb:
        functional = functional_in(atom)
        if functional is None:
            return number_of(atom, self.parameters)
        kind, of = functional
        f = of.factors or tuple((label, -1) for label in of.labels)
        parts = [
            c * power(self.scale, k) * self._average(j, f, F, k)
            for (j, F, k), c in self.state[kind].items()
        ]
        return sum(parts, arb(0)) / power(self.scale, len(of.labels))

    def _average(self, j: int | None, f: Sequence[Pair], F: Sequence[Pair], k: int) -> arb:
        """⟨F(y_j) ∂^k f(y)⟩."""
        C = [[self.variances[-1]]]
        if j is not None:
            across = self.shares[j] * self.scale * self.variances[j]
            C = [[self.variances[-1], across], [across, self.variances[j]]]
        factors = (*((0, order) for _, order in f), *((1, order) for _, order in F))
        total = arb(0)

        def entry(own: Tensor) -> arb:
            a, b = own.samples
            return C[a][b]

        for (mono, _), value in over_gaussians(factors, (0,) * k).items():
            term = ball(value)
            for atom, exponent in mono:
                own = read(atom, tensor=entry, bracket=lambda each: self._bracket(each, C))
                term *= power(own, exponent)
            total += term
        return total

    def _bracket(self, bracket: Bracket, C: Matrix) -> arb:
        own, samples = relabelled(bracket)
        places = range(len(C))  # z of two layers are independent, or at rest
        moving = [int(not C[a][a].is_zero()) for a in places]
        rows: Rows = tuple(tuple(Fraction(moving[a] * (a == b)) for b in places) for a in places)
        total = arb(0)
        for average, count in placed_averages(own, samples, self.sigma).items():
            (value,) = _averages(self.sigma, average)(C, rows, self.goal, self.check)
            total += ball(Fraction(count)) * value
        return total


def _response(response: Response, tensors: Mapping[Name, arb]) -> arb:
    return response_of(response, [tensors[identify(limit)[0]] for _, limit in response.limits])


@cache
def _averages(sigma: Activation, average: Average) -> Averages:
    return Averages(sigma, [average])
