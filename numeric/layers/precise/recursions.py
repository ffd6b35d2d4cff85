"""Recursions entry by entry: sums of monomials with exact coefficients, over numbers of any kind.

An entry is a tensor at a tuple of distinct inputs; entries that are equal by symmetry are one. Of
an entry's step the labels are replaced by inputs, monomials that become equal are added, and what
they multiply stands in one vector: hyperparameters, their inverses, entries of the layer below, and
Gaussian averages of products of derivatives of σ over distinct inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain, product
from typing import TypeAlias, TypeVar

import sympy
from flint import arb, ctx, fmpq

from derive.activations.functions import Activation
from derive.arithmetic.balls import ball
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom
from derive.engine.atoms import read
from derive.engine.orbits import representative
from derive.engine.scheme import Scheme
from derive.engine.stages import Stage
from derive.engine.step import Step
from derive.engine.tensors import Name, Tensor, identify, tensor
from derive.engine.through import Response
from derive.gaussian.brackets import Bracket
from derive.groups.pairings import pattern_of
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble
from derive.work.caches import cache

from ...brackets.shapes import check_finite_together, is_merged
from ..analytic import are_even
from ..averages import separate, together
from ..coincident_inputs import merged
from ..resting import Degenerate, kink_at_zero
from ..steps import Way, ways
from ..vectors import relabelled
from .functions import compiled

T = TypeVar("T")

Entry: TypeAlias = "tuple[Name, tuple[int, ...]]"
"""A tensor at these inputs, in the order of its subscripts; () with one input."""

Group: TypeAlias = "tuple[tuple[int, ...], int]"
"""The orders of the derivatives of σ at one input, and of the derivative of their product."""

Average: TypeAlias = "tuple[tuple[int, Group], ...]"
"""(input, orders and derivatives outside) of each distinct input, ascending."""

Path: TypeAlias = "list[tuple[Stage, Passage]]"
"""The stages of a layer or a readout, and what leads through them."""

Terms: TypeAlias = "list[tuple[Fraction, tuple[int, ...]]]"
"""Coefficients, and the places of what they multiply."""

Check: TypeAlias = "Callable[..., None]"
"""A function that is called with estimated seconds."""

Key: TypeAlias = "tuple[str, int]"
Keys: TypeAlias = "tuple[Key, ...]"
"""The part of a vector, and the place in it."""


class Recursions:
    """The recursions of a network's tensors over m distinct inputs, layer by layer.

    Arguments:
        names: the tensors behind each stage of each scheme's layer, which need no others.
        schemes: under what the recursions of each distinct layer are derived.
        order: which of them layers 2, 3, … have.
        first: the weights of layer 1.
        samples: how many are in front of each scheme's layer, and behind layer 1.
        unseen: how many first layers have other samples than the last one; no results have them.
        more: further tensors, which `completed` computes.
        read: the tensors behind each stage of each scheme's readout, if there is one.
        exchangeable: True if entries that differ by a permutation of the inputs are equal.

    Attributes:
        parameters: the names of the hyperparameters that occur.
        first: from means of products of the inputs to layer 1, and to what it is read out as.
    """

    def __init__(
        self,
        names: Sequence[Sequence[Sequence[Name]]],
        schemes: Sequence[Scheme],
        order: Sequence[int],
        first: WeightEnsemble,
        samples: tuple[Sequence[int], int],
        unseen: int = 0,
        more: Sequence[Name] = (),
        read: Sequence[Sequence[Sequence[Name]]] = (),
        *,
        exchangeable: bool = False,
    ) -> None:
        found = ways(names, schemes, first, samples, read, more=more)
        self.parameters = found.parameters

        def path(way: Way) -> Path:
            own, single = (way.scheme.sigma, self.parameters), schemes[0].single
            made = partial(Passage, single=single, exchangeable=exchangeable)
            return [
                (stage, made(below, steps, *own, m, stage))
                for stage, below, steps, m in way.stages()
            ]

        self.first = [through for way in found.starts for _, through in path(way)]
        self._paths = [[path(way) for way in of] for of in (found.layers, found.readouts) if of]
        self._order, self.unseen = order, unseen
        self._last = self.at(len(order) + 1)[-1][-1][1] if unseen else self.first[-1]

    @property
    def entries(self) -> list[Entry]:
        """The entries at every layer of results, read out if there is a readout."""
        return self._last.entries

    @property
    def monomials(self) -> int:
        """How many there are in a layer, at most."""
        paths = chain(*self._paths)
        return max(sum(made.monomials for _, made in each) for each in paths)

    def entry(self, name: Name, samples: tuple[int, ...]) -> Entry:
        """The entry that this one is equal to by symmetry."""
        return self._last.entry(name, samples)

    def completed(
        self,
        layers: Sequence[list[arb]],
        parameters: Mapping[str, Sequence[object]],
        goal: float,
        check: Check,
    ) -> Sequence[list[arb]]:
        """The entries at every layer, with those that need several layers at once; here none do.

        Arguments:
            layers: the entries that these recursions give.
            parameters: the hyperparameters by name, exact, an entry for each layer.
            goal, check: as in `Averages`; `check` also gets `left`, the number of averages to come.
        """
        return layers

    def at(self, layer: int) -> list[Path]:
        """Layer 2, 3, …, and behind it the readout, if there is one."""
        return [each[self._order[layer - 2]] for each in self._paths]


class Passage:
    """The recursions through one stage.

    Arguments:
        before: the tensors before it.
        steps: of each tensor behind it.
        activation: σ.
        parameters: the names of the hyperparameters.
        m: how many inputs, or positions of all inputs.
        stage: the stage.
        single: whether the steps are of a single input.
        exchangeable: True if entries that differ by a permutation of the inputs are equal: the
            first of each orbit stands for them.

    Attributes:
        behind: how many inputs there are behind it.
        below, entries: the tensors' entries before the stage and behind it.
        sigma: the activation at the kernel of a label.
        is_merged: whether each way in which inputs coincide has a recursion of its own
            (`coincident_inputs`).
        averages: the Gaussian averages that they need at each kernel, by its label.
    """

    def __init__(
        self,
        before: Sequence[Name],
        steps: Sequence[Step],
        activation: Activation,
        parameters: Sequence[str],
        m: int,
        stage: Stage,
        *,
        single: bool,
        exchangeable: bool = False,
    ) -> None:
        self.activation, self._single, self.m = activation, single, m
        self.exchangeable = exchangeable
        self.sigma = partial(stage.sigma_at, default=activation)
        self._parameters, self._before = list(parameters), list(before)
        taps = stage.taps
        self.behind = taps.behind(m)
        self.below = self._all_entries(before, m)
        self.entries = self._all_entries([step.target for step in steps], self.behind)
        self._kernels = {name.label: name for name in before}
        self.averages: dict[str, dict[Average, int]] = {}
        self._values: dict[Value, int] = {}
        self._responses: dict[tuple[Response, tuple[int, ...]], int] = {}
        bent = any(not each.is_smooth for each in stage.sigmas(activation))
        self.is_merged = m > 1 and bent and is_merged(stage, steps)
        self._keep = stage.keep
        of_names = {step.target: step for step in steps}
        compiled: list[list[tuple[Fraction, Keys]]] = []
        places: dict[tuple[Name, int, tuple[int, ...]], int] = {}
        self._sums: list[Terms] = []
        for name, at in self.entries:
            read: Terms = []
            for number, part in enumerate(of_names[name].parts):
                for samples, weight in taps.sources(at, part.blocks).items():
                    if (name, number, samples) not in places:
                        places[name, number, samples] = len(compiled)
                        compiled.append(self._compiled(part, samples))
                    read.append((weight, (places[name, number, samples],)))
            self._sums.append(read)
        self._lay_out()
        self._rows = [
            [(value, tuple(self._place(key) for key in keys)) for value, keys in terms]
            for terms in compiled
        ]

    def _all_entries(self, names: Sequence[Name], m: int) -> list[Entry]:
        found = (
            self.entry(name, samples)
            for name in names
            for samples in product(range(m), repeat=self._rank(name))
        )
        return list(dict.fromkeys(found))

    def _rank(self, name: Name) -> int:
        return 0 if self._single else len(name.subscripts)

    def entry(self, name: Name, samples: tuple[int, ...]) -> Entry:
        """The entry that this one is equal to by symmetry."""
        if self._single:
            return name, ()
        return self._representative(*_identified(name, samples))

    def _representative(self, name: Name, samples: tuple[int, ...]) -> Entry:
        """The entry that stands for this one."""
        return (name, representative(name, samples) if self.exchangeable else samples)

    @property
    def monomials(self) -> int:
        """How many there are."""
        return sum(map(len, self._rows))

    def kernel(self, label: str, below: Sequence[arb]) -> list[list[arb]]:
        """The kernel of this label, from the entries before the stage."""
        name, inputs = self._kernels[label], range(self.m)
        places = {entry: k for k, entry in enumerate(self.below)}
        return [
            [below[places[self.entry(name, () if self._single else (a, b))]] for b in inputs]
            for a in inputs
        ]

    def _compiled(self, step: Step, samples: tuple[int, ...]) -> list[tuple[Fraction, Keys]]:
        if self.is_merged:
            step = merged(step, pattern_of(samples))
            check_finite_together(step, self.sigma)
        to = dict(zip(step.samples, samples, strict=True)) if samples else {}
        total: Counter[Keys] = Counter()
        for (mono, _), value in step.terms.items():
            parts: list[tuple[Fraction, Keys]] = [(value, ())]
            for atom, exponent in mono:
                found, shared = self._found(atom, exponent < 0, to), self._shared(atom, to)
                for _ in range(abs(exponent)):
                    parts = [
                        (one * other, (*keys, key, *shared))
                        for one, keys in parts
                        for other, key in found
                    ]
            for coefficient, keys in parts:
                total[tuple(sorted(keys, key=repr))] += coefficient  # type: ignore[assignment]
        return [(Fraction(value), keys) for keys, value in total.items() if value]

    def _found(
        self, atom: Atom, inverse: bool, to: Mapping[int, int]
    ) -> list[tuple[Fraction, Key]]:
        """An atom as a combination of what has places in the vector."""

        def parameter(own: Parameter) -> Key:
            at = self._parameters.index(own.name)
            return "parameter", at + inverse * len(self._parameters)

        def value(own: Value) -> Key:
            return "inverse" if inverse else "value", _place_of(own, self._values)

        def response(own: Response) -> Key:
            inputs = () if self._single else tuple(to[label] for label in own.samples)
            return "response", _place_of((own, inputs), self._responses)

        def alone(key: Callable[[T], Key]) -> Callable[[T], list[tuple[Fraction, Key]]]:
            return lambda own: [(Fraction(1), key(own))]

        return read(
            atom,
            parameter=alone(parameter),
            value=alone(value),
            tensor=alone(lambda own: ("below", self.below.index(self._moved(own, to)))),
            bracket=lambda own: self._bracket(own, to),
            response=alone(response),
        )

    def _shared(self, atom: Atom, to: Mapping[int, int]) -> list[Key]:
        """With dropout 1/p, for each of a bracket's samples that is an input of one before it: they
        share a mask (`stages.Stage`)."""
        keep = self._keep
        if keep is None or self._single:
            return []

        def shared(own: Bracket) -> list[Key]:
            met = len(own.samples) - len({to[label] for label in own.samples})
            return met * [self._found(keep, True, to)[0][1]]

        return read(atom, bracket=shared, other=lambda _: [])

    def _moved(self, atom: Tensor, to: Mapping[int, int]) -> Entry:
        """A tensor at its inputs."""
        if self._single:
            return identify(atom)[0], ()
        labels = tuple(to[label] for label in atom.samples)
        found = identify(tensor(atom.fields, atom.order, atom.pairing, labels))
        return self._representative(*found)

    def _bracket(self, atom: Bracket, to: Mapping[int, int]) -> list[tuple[Fraction, Key]]:
        bracket, labels = relabelled(atom)
        samples = tuple(0 if self._single else to[label] for label in labels)
        found: list[tuple[Fraction, Key]] = []
        own = self.averages.setdefault(atom.kernel, {})
        for average, count in placed_averages(bracket, samples, self.sigma(atom.kernel)).items():
            groups = enumerate(sorted(group for _, group in average))
            placed = tuple(groups) if self.exchangeable else average
            found.append((Fraction(count), (f"average {atom.kernel}", _place_of(placed, own))))
        return found

    def _lay_out(self) -> None:
        """1, hyperparameters and their inverses, values and theirs, entries, responses, averages:
        where each begins in the vector."""
        sizes = {
            "parameter": 2 * len(self._parameters),
            "value": len(self._values),
            "inverse": len(self._values),
            "below": len(self.below),
            "response": len(self._responses),
        }
        sizes |= {f"average {label}": len(found) for label, found in self.averages.items()}
        self._begins, end = dict[str, int](), 1
        for part, size in sizes.items():
            self._begins[part], end = end, end + size

    def _place(self, key: Key) -> int:
        return self._begins[key[0]] + key[1]

    def __call__(
        self,
        parameters: Sequence[object],
        below: Sequence[arb],
        averages: Mapping[str, Sequence[arb]],
    ) -> list[arb]:
        """The entries behind the stage.

        Arguments:
            parameters: the hyperparameters, exact.
            below: the entries before it, of the passage before.
            averages: at each kernel.
        """
        given = [ball(each) for each in parameters]
        by_name = dict(zip(self._parameters, parameters, strict=True))
        numbers = [number_of(each, by_name) for each in self._values]
        inverses = [
            [1 / each if not each.is_zero() else arb.pos_inf() for each in part]
            for part in (given, numbers)
        ]
        below = below[: len(self.below)]
        vector = [arb(1), *given, *inverses[0], *numbers, *inverses[1], *below]
        vector += [self._response(*each, below) for each in self._responses]
        for label in self.averages:
            vector += averages[label]
        values = [_sum(terms, vector) for terms in self._rows]
        return [_sum(terms, values) for terms in self._sums]

    def _response(self, response: Response, inputs: Sequence[int], below: Sequence[arb]) -> arb:
        """A function of collective variables at the entries that are their limits."""
        to = _labelled(response, inputs)
        places = [self.below.index(self._moved(limit, to)) for _, limit in response.limits]
        return response_of(response, [below[place] for place in places])

    def degenerate(self, below: Sequence[arb]) -> Degenerate | None:
        """The norm or kink that is undefined in the stage at a zero; None if there is none."""
        for response, inputs in self._responses:
            if self._response(response, inputs, below).is_finite():
                continue
            to = _labelled(response, inputs)
            for _, limit in response.limits:
                if below[self.below.index(self._moved(limit, to))].is_zero():
                    return Degenerate(to.get(limit.samples[0], 0), None)
        for label in self.averages:
            order, K = kink_at_zero(self.sigma(label)), self.kernel(label, below)
            if order is None:
                continue
            if resting := [sample for sample in range(self.m) if K[sample][sample].is_zero()]:
                return Degenerate(resting[0], order)
        return None


def _place_of(key: T, places: dict[T, int]) -> int:
    """The place of a key, which a new one gets at the end."""
    return places.setdefault(key, len(places))


def number_of(atom: object, parameters: Mapping[str, object]) -> arb:
    """A hyperparameter, or an expression in some of them."""
    given = {
        PARAMETERS[each]: _rational(parameters[each])
        for each in parameters.keys() & PARAMETERS.keys()
    }
    return read(
        atom,
        parameter=lambda own: ball(parameters[own.name]),
        value=lambda own: ball(own.expr.subs(given) if own.expr.free_symbols else own.expr),
    )


def response_of(response: Response, limits: Sequence[arb]) -> arb:
    """A function of collective variables at their limits."""
    symbols = tuple(sympy.Symbol(f"limit_{k}") for k in range(len(response.limits)))
    renamed = dict(zip((each for each, _ in response.limits), symbols, strict=True))
    (value,) = compiled((response.value.xreplace(renamed),), ctx.prec, symbols)(*limits)
    found = arb(value)
    return found if found.is_finite() else arb.pos_inf()  # no unknown: 0 times it is nan


def _labelled(response: Response, inputs: Sequence[int]) -> dict[int, int]:
    """The inputs at the labels of a function of collective variables."""
    return dict(zip(response.samples, inputs, strict=False))


def _rational(value: object) -> sympy.Expr:
    if isinstance(value, sympy.Expr):
        return value
    numerator, denominator = value.as_integer_ratio()  # type: ignore[attr-defined]
    return sympy.Rational(int(numerator), int(denominator))


def _sum(terms: Terms, vector: Sequence[arb]) -> arb:
    total = arb(0)
    for coefficient, places in terms:
        factors = [vector[place] for place in places]
        if any(each.is_zero() for each in factors) and not any(map(_is_infinite, factors)):
            continue  # 0 times what is unknown is 0 (`resting`)
        term = arb(fmpq(coefficient.numerator, coefficient.denominator))
        for each in factors:
            term = term * each
        total += term
    return total


def _is_infinite(value: arb) -> bool:
    return not value.is_finite() and not value.is_nan()


@cache
def _identified(name: Name, samples: tuple[int, ...]) -> Entry:
    slots = dict(zip(name.subscripts, samples, strict=True))
    labels = tuple(slots[slot] for slot in range(len(slots)))
    return identify(tensor(name.fields, name.order, name.pairing, labels))


@cache
def placed_averages(
    bracket: Bracket, samples: tuple[int, ...], activation: Activation
) -> Counter[Average]:
    """A bracket at these inputs, label by label, as averages over distinct inputs.

    Derivatives go inside where σ is analytic. For kinks they stay outside, and where labels meet at
    an input its N positions share them, ∂_p = (1/N) d/dz: it comes to the same in a recursion,
    which is symmetric in what meets.
    """
    if activation.is_smooth:
        found = separate(bracket, samples, inside_alone=True)
    else:
        found = [together(bracket, samples)]
    members = sorted(set(samples))
    total: Counter[Average] = Counter()
    for shapes, share in found:
        if not activation.is_odd or are_even(shapes):
            total[tuple(zip(members, shapes, strict=True))] += share  # type: ignore[assignment]
    return total
