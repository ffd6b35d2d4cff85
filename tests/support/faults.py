"""Faults that are put into the theory, to see whether its comparison with ensembles finds them.

The ensembles are left alone: what is changed is one term of one recursion (`OfTerm`), the network
that the theory is told of (`OfNetwork`), or the layer that a tensor is taken from (`OfLayers`).
`KINDS` says what there is; `drawn` brings all faults of an example into a random order in which no
kind crowds out another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
import xarray

from derivations.verify import beside
from derive.arithmetic.polynomials import Atom, Monomial
from derive.display.lines import text
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step, closures, through
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Gaussian, Orthogonal
from numeric import flow, flows
from numeric.examples import Example
from numeric.layers import limits, steps

KINDS = {
    "sign": "one term of one recursion has the other sign",
    "factor 2": "one term of one recursion is twice as large",
    "term": "one term of one recursion is left out",
    "factor": "one factor of one term, such as C_W or an average, occurs once less",
    "derivative": "one σ in one average of one term has one derivative more",
    "weights": "the hidden layers' weights are Gaussian; or orthogonal, where they are Gaussian",
    "first weights": "the first layer's weights are the hidden layers', or Gaussian",
    "biases": "C_b is forgotten",
    "variance": "C_W is 1, or 1/2 where it is 1",
    "block": "all layers are dense",
    "rates": "λ_W and λ_b are exchanged, or one of them is that of the layer above",
    "layer": "a tensor is that of the layer below",
}
"""The faults, and what each means."""


class Fault(ABC):
    """Something wrong with a theory."""

    kind: str

    @abstractmethod
    def theory(self, example: Example, width: int) -> xarray.Dataset:
        """The wrong table of `flow` for the example; K and Theta stand beside its tensors.

        Raises InputError where the wrong theory has no numbers.
        """


@dataclass(frozen=True)
class OfTerm(Fault):
    """One term of one recursion is changed.

    Arguments:
        kind: "sign", "factor 2", "term", "factor" or "derivative".
        target: the tensor on the recursion's left.
        through: the stage that the recursion leads through.
        where: the layer, and the stage's number if the layer has several.
        term: the monomial.
        atom: which of its factors is changed, for "factor" and "derivative".
        spelled: the term, and the factor, in words.
    """

    kind: str
    target: Name
    through: Stage
    where: str
    term: Monomial
    atom: Atom | None
    spelled: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.spelled} in {self.target.label}({self.where})"

    def theory(self, example: Example, width: int) -> xarray.Dataset:
        """By the changed recursion and all others."""
        return flow_changed(example, width, self)

    def __call__(self, step: Step) -> Step:
        """The recursion with its changed term, if it is this one."""
        if (step.target, step.through) != (self.target, self.through):
            return step
        terms = dict(step.terms)
        value = terms.pop((self.term, 0))
        for mono, factor in self._instead():
            terms[mono, 0] = terms.get((mono, 0), Fraction(0)) + value * factor
        changed = replace(step)
        changed.__dict__["terms"] = {key: each for key, each in terms.items() if each}
        return changed

    def _instead(self) -> list[tuple[Monomial, int]]:
        """The replacement of the term, and its factor."""
        if self.kind == "term":
            return []
        if self.kind in {"sign", "factor 2"}:
            return [(self.term, -1 if self.kind == "sign" else 2)]
        assert self.atom is not None
        powers = dict(self.term)
        powers[self.atom] -= 1 if powers[self.atom] > 0 else -1
        if self.kind == "derivative":
            assert isinstance(self.atom, Bracket)
            (sample, order), *others = self.atom.factors
            other = self.atom._replace(factors=tuple(sorted([(sample, order + 1), *others])))
            powers[other] = powers.get(other, 0) + 1
        return [(frozenset((each, power) for each, power in powers.items() if power), 1)]


@dataclass(frozen=True)
class OfNetwork(Fault):
    """The theory is another network's."""

    kind: str
    net: Network
    spelled: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.spelled}"

    def theory(self, example: Example, width: int) -> xarray.Dataset:
        """The other network's, which passes for that of the example."""
        table = flow(self.net, example.inputs, example.depth, beside(example), width=width)
        return table.assign_attrs(network=str(example.net))


@dataclass(frozen=True)
class OfLayers(Fault):
    """One tensor is that of the layer below, from layer 2 on."""

    kind: str
    label: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.label} is that of the layer below"

    def theory(self, example: Example, width: int) -> xarray.Dataset:
        """The right one, moved by a layer."""
        table = flow(example.net, example.inputs, example.depth, beside(example), width=width)
        moved = table[self.label].copy(deep=True)
        moved[1:] = table[self.label].to_numpy()[:-1]
        return table.assign({self.label: moved})


def flow_changed(example: Example, width: int, change: Callable[[Step], Step]) -> xarray.Dataset:
    """`flow` for the example with `change` applied to each recursion.

    Wrong recursions are not cached, may have any values, and no ball arithmetic corrects them.
    """
    asked = flows._asked(example.net, example.inputs, example.depth, beside(example), width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "through", lambda *given: change(through(*given)))
        patch.setattr(flows, "_layers", flows._layers.__wrapped__)
        patch.setattr(limits, "check_kernel", lambda *given: None)
        patch.setattr(limits, "check_tensor", lambda *given: None)
        return flows._table(asked, flows._in_floats(asked), {})


def drawn(example: Example, seed: int) -> Iterator[Fault]:
    """The example's faults in random order, kind after kind.

    Arguments:
        example: its network and tensors say which there are.
        seed: of the order; the example's own seed joins it.

    Derived here: they are read off the recursions.

    >>> from derive import activations
    >>> from numeric.examples import Example
    >>> example = Example(Network(activations.tanh, C_b=1), np.ones(2), 2, ("K",))
    >>> sorted({fault.kind for fault in drawn(example, 0)})[:4]
    ['biases', 'derivative', 'factor', 'factor 2']
    """
    rng = np.random.default_rng([example.seed, seed])
    found: dict[str, list[Fault]] = {}
    for fault in _all(example):
        found.setdefault(fault.kind, []).append(fault)
    kinds = [each for each in KINDS if each in found]
    for kind in kinds:
        found[kind] = [found[kind][k] for k in rng.permutation(len(found[kind]))]
    while kinds:
        for kind in [kinds[k] for k in rng.permutation(len(kinds))]:
            yield found[kind].pop()
        kinds = [each for each in kinds if found[each]]


def _all(example: Example) -> Iterator[Fault]:
    """Every fault of the list, in an order that depends on the example alone."""
    net = example.net
    scheme = net.scheme(example.depth, example.samples)
    asked = wanted(example.tensors)
    (behind,) = closures(["K", *asked], [scheme])
    first = scheme.first(net.weights_at(1))
    for number, (stage, names) in enumerate(zip(scheme.stages, behind, strict=True), start=1):
        several = f", stage {number}" * (len(behind) > 1)
        for name in names:
            yield from _of_terms(through(name, scheme, stage), several)
            if names is behind[-1]:
                yield from _of_terms(through(name, first))
    yield from _of_networks(net, scheme)
    for name in asked:
        yield OfLayers("layer", name.label)


def _of_terms(step: Step, stage: str = "") -> Iterator[Fault]:
    spelled = {
        mono: text(str(_expression(step, mono, value))) for (mono, _), value in step.terms.items()
    }
    where = step.target, step.through, f"{step.through.below.above}{stage}"
    for mono in sorted(spelled, key=lambda each: spelled[each]):
        for kind in ("sign", "factor 2", "term"):
            yield OfTerm(kind, *where, mono, None, spelled[mono])
        for atom in sorted((atom for atom, _ in mono), key=repr):
            told = f"{step.symbol(atom)} of {spelled[mono]}"
            yield OfTerm("factor", *where, mono, atom, told)
            if isinstance(atom, Bracket):
                yield OfTerm("derivative", *where, mono, atom, told)


def _expression(step: Step, mono: Monomial, value: Fraction) -> sympy.Expr:
    factors = [step.symbol(atom) ** exponent for atom, exponent in mono]
    return sympy.Rational(value.numerator, value.denominator) * sympy.prod(factors)


def _of_networks(net: Network, scheme: Scheme) -> Iterator[Fault]:
    """The network with one of its parameters wrong; what cannot be made is left out."""
    hidden_weights = net.one_law("planted faults")
    C_W = hidden_weights.C_W
    gaussian = isinstance(hidden_weights, Gaussian)
    other = Orthogonal(C_W) if gaussian else Gaussian(C_W)
    first = net.weights_at(1)
    half = sympy.Rational(1, 2)
    wrong = half if C_W == 1 else sympy.S.One
    changes: list[tuple[str, dict[str, Any], str]] = [
        ("weights", {"weights": other, "first_weights": first}, f"{other} in hidden layers"),
        ("variance", {"weights": replace(hidden_weights, C_W=wrong)}, f"C_W = {wrong}"),
    ]
    at_first = Gaussian(C_W) if first == hidden_weights else None
    changes.append(("first weights", {"first_weights": at_first}, f"{at_first or hidden_weights}"))
    if net.C_b != 0:
        changes.append(("biases", {"C_b": 0}, "C_b = 0"))
    if not net.layer.is_dense:
        changes.append(("block", {"layer": "dense"}, "dense layers"))
    rates = {"lambda_W": net.lambda_b, "lambda_b": net.lambda_W}
    if str(net.lambda_W) != str(net.lambda_b):
        changes.append(("rates", rates, "λ_W and λ_b exchanged"))
    for kind, values, spelled in changes:
        try:
            yield OfNetwork(kind, replace(net, **values), spelled)
        except InputError:
            continue
