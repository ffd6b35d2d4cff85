"""One tensor at layer ℓ+1 in terms of layer ℓ, derived; and all that its recursion needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Self, TypeVar

import sympy

from .. import symbols
from ..activations.functions import Activation, as_activation
from ..arithmetic.parameters import Parameter
from ..arithmetic.polynomials import Expansion
from ..display import lines
from ..display.labels import component_latex
from ..display.objects import Shown
from ..errors import InputError, listed, whole
from ..gaussian.brackets import Average, Bracket, Component, specialise
from ..groups.pairings import Pairing
from ..weights import Gaussian, WeightEnsemble, as_weights
from ..work.progress import telling
from ..work.resources import DAY, check_time
from .cumulants import RATE, Work, hidden_layer, input_layer, layer_cumulant, work
from .equations import Equation
from .fields import AnyField, Field
from .scheme import Scheme
from .tensors import (
    MOST_ORDER,
    NAMES,
    Name,
    Tensor,
    canonical,
    fields_by_name,
    identify,
    named,
    oriented,
    spell,
    target,
    tensor,
)

Kind = TypeVar("Kind", Parameter, Tensor, Bracket)


@dataclass(frozen=True, repr=False)
class Step(Shown):
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    `derive.Recursion`, which a user is given, says what the attributes are.
    """

    target: Name
    weights: WeightEnsemble
    samples: tuple[int, ...]
    activation: Activation | None = None
    first_layer: bool = False
    square: bool = True
    corrections: int = 0
    left_out: frozenset[str] = field(default=frozenset(), compare=False)

    @cached_property
    def terms(self) -> Expansion:
        """The right-hand side: {(monomial of atoms, 0): coefficient}."""
        coefficient = _coefficient(
            self.target.fields,
            self._labels,
            self.target.pairing,
            self.weights,
            self._power,
            self.first_layer,
            self.square,
            self.corrections,
        )
        return {(mono, 0): value for (mono, at), value in coefficient.items() if at == self._power}

    @property
    def work(self) -> Work:
        """How much there is to do for `terms`: 2·10⁵ terms or more are added up in a second.

        What takes more than 2 s says so on stderr, and can be interrupted; what would take more
        than a day is refused.
        """
        return work(self.target.fields, self._labels, self.target.pairing, self._power)

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind on the right-hand side: `Parameter`, `Tensor` or `Bracket`."""
        return {atom for mono, _ in self.terms for atom, _ in mono if isinstance(atom, kind)}

    @property
    def name(self) -> str:
        """The tensor's name."""
        return spell(self._left)[0]

    @property
    def _power(self) -> int:
        """The power of 1/n that stands before the tensor in its cumulant."""
        return len(self.target.pairing) - 1 + self.target.order

    @property
    def _labels(self) -> tuple[int, ...]:
        """The sample of each slot."""
        slots = dict(zip(self.target.subscripts, self.samples, strict=True))
        return tuple(slots[slot] for slot in range(len(slots)))

    @property
    def _left(self) -> Tensor:
        return tensor(self.target.fields, self.target.order, self.target.pairing, self._labels)

    @property
    def is_single_input(self) -> bool:
        """Whether every subscript is the same sample."""
        return len(set(self.samples)) == 1

    @cached_property
    def expr(self) -> sympy.Expr:
        """The right-hand side in sympy: `Component`s, `Average`s and the symbols C_W, C_b, …

        With a single input a component is a plain symbol, such as V.
        """
        total = sympy.Add(
            *(
                sympy.Rational(value.numerator, value.denominator)
                * sympy.prod([self.symbol(atom) ** exponent for atom, exponent in mono])
                for (mono, _), value in self.terms.items()
            )
        )
        return sympy.factor_terms(total)

    def symbol(self, atom: object) -> sympy.Expr:
        """What an atom of `terms` is in `expr`."""
        if isinstance(atom, Parameter):
            own = {str(symbol): symbol for symbol in self.weights.free_symbols}
            if atom.name in symbols.PARAMETERS:
                return symbols.PARAMETERS[atom.name]
            return own.get(atom.name, symbols.parameter(atom.name))
        if isinstance(atom, Bracket):
            if self.activation is None:
                return Average(atom.factors, atom.outer)
            special = specialise(atom, self.activation)
            if atom.is_single and not self.is_single_input:
                sample = atom.factors[0][0]
                special = special.xreplace({symbols.K: Component("K", (sample, sample))})
            return special
        assert isinstance(atom, Tensor)
        name, samples = spell(atom)
        if self.first_layer:
            name += "0"
        if self.is_single_input:
            return symbols.tensor(name)
        return Component(name, samples)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The tensors of layer ℓ that occur, the kernel of the brackets included."""
        return tuple(name.label for name in self.needs)

    @property
    def needs(self) -> tuple[Name, ...]:
        """The tensors of `depends_on`."""
        found = {name.label: name for name, _ in map(identify, self.atoms(Tensor))}
        if self.atoms(Bracket):
            found["K"] = NAMES["K"]
        known = [name for label, name in NAMES.items() if label in found]
        return (*known, *(found[label] for label in sorted(found.keys() - NAMES.keys())))

    def single_input(self) -> Self:
        """The same with one input: every sample index equal."""
        return replace(self, samples=(1,) * len(self.samples))

    def specialise(self, activation: Activation | str) -> Self:
        """The same for a given activation, its brackets in closed form where there is one."""
        return replace(self, activation=as_activation(activation))

    def latex(self, expr: sympy.Expr | None = None, width: int | None = lines.WIDTH) -> str:
        r"""The equation in LaTeX: left, and right `expr`, or another form of it.

        What is wider than `width` printed symbols is broken into lines by amsmath's `aligned`,
        which stands inside `equation` or $…$; None keeps it on one line.
        """
        name, samples = spell(self._left)
        names = {
            self.symbol(atom): component_latex(spell(atom)[0], (), "0" * self.first_layer)
            for atom in self.atoms(Tensor)
            if self.is_single_input
        }
        left = component_latex(
            name, () if self.is_single_input else samples, "1" if self.first_layer else r"\ell+1"
        )
        right = self.expr if expr is None else expr
        return lines.equation(left, right, width, lambda e: sympy.latex(e, symbol_names=names))

    def __str__(self) -> str:
        name, samples = spell(self._left)
        subscripts = "" if self.is_single_input else f"[{','.join(map(str, samples))}]"
        layer = "1" if self.first_layer else "ℓ+1"
        return lines.text(f"{name}{subscripts}({layer}) = {self.expr}")


def step(
    tensor_name: str | Name | Sequence[str | AnyField],
    weights: WeightEnsemble | str | None = None,
    *,
    pairing: Pairing | str | None = None,
    order: int = 0,
    activation: Activation | str | None = None,
    first_layer: bool = False,
    square: bool | None = None,
    corrections: int | None = None,
) -> Step:
    """What `derive.recursion` derives, which explains the arguments, and is what users call.

    Raises:
        InputError: unknown tensor or field, an odd number of neural indices, an ambiguous pairing.
    """
    given = {"weights": weights, "square": square, "corrections": corrections}
    weights = Gaussian() if weights is None else as_weights("weights", weights)
    square = True if square is None else square
    parts = f"how many 1/n parts C_W and C_b have, 0 to {MOST_ORDER}"
    corrections = (
        0 if corrections is None else whole("corrections", corrections, 0, MOST_ORDER, parts)
    )
    wanted_order = f"a relative order in 1/n, 0 to {MOST_ORDER}"
    order = whole("order", order, 0, MOST_ORDER, wanted_order)
    if isinstance(tensor_name, str | Name):
        if pairing is not None or order:
            raise InputError("pairing, order", (pairing, order), "neither, with a tensor's name")
        chosen = named(tensor_name) if isinstance(tensor_name, str) else tensor_name
    else:
        chosen = target(checked_fields(tensor_name), pairing, order)
    samples = tuple(range(1, 2 * len(chosen.pairing) + 1))
    left_out = frozenset(name for name, value in given.items() if value is None)
    made = Step(chosen, weights, samples, None, first_layer, square, corrections, left_out)
    return made if activation is None else made.specialise(activation)


def hidden(name: Name, scheme: Scheme) -> Step:
    """The tensor's step from a hidden layer to the next."""
    made = step(name, scheme.weights, square=scheme.square, corrections=scheme.corrections)
    return made.single_input() if scheme.single else made


def at_inputs(name: Name, scheme: Scheme, weights: WeightEnsemble) -> Step:
    """The tensor at layer 1, which has these weights, in terms of the inputs' K0 = xᵀx/n_0."""
    made = step(name, weights, first_layer=True, square=False, corrections=scheme.corrections)
    return made.single_input() if scheme.single else made


def checked_fields(given: Sequence[str | AnyField]) -> list[AnyField]:
    """Fields by their names, or as they are; InputError for anything else."""
    found: list[AnyField] = []
    wanted = 'a tensor\'s name, or a list of fields such as ["z", "z", "H"]'
    for each in listed("tensor_name", given, wanted):
        if not isinstance(each, str | Field | Equation):
            raise InputError("fields", each, "a field's name, a Field, or an Equation")
        found.append(fields_by_name([each])[0] if isinstance(each, str) else each)
    return found


@cache
def _coefficient(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Pairing,
    weights: WeightEnsemble,
    power: int,
    first_layer: bool,
    square: bool,
    corrections: int,
) -> Expansion:
    below = input_layer if first_layer else hidden_layer
    what = f"kappa({', '.join(map(str, fields))})"
    averages, terms = work(fields, samples, pairing, power, most=DAY * RATE)
    count = f"{averages} averages over the weights"
    check_time("fields", what, terms // RATE, f"{count} or more, some {terms:.0e} terms,")
    with telling(f"deriving {what}: {count}", terms / RATE, averages) as progress:
        cumulant = layer_cumulant(
            fields,
            samples,
            weights,
            power,
            square,
            below,
            pairing=pairing,
            corrections=corrections,
            progress=progress.advance,
        )[pairing]
    leading = len(pairing) - 1
    early = min((at for _, at in cumulant), default=leading)
    if early < leading:
        scaling = f"fields whose cumulants with 2m neural indices are of order n^(1-m): {what}"
        raise InputError("fields", f"a term of order n^{-early}", scaling)
    return cumulant


def add_name(found: dict[str, Name], name: Name) -> bool:
    """Add a tensor, if it is new; an error if another has its label, or it has other axes."""
    if name.label not in found:
        found[name.label] = name
        return True
    before = found[name.label]
    if set(before.fields) != set(name.fields):
        raise InputError("fields", name.label, "fields that are told apart by their names")
    if oriented(before) != oriented(name):
        both = [f"{each.cumulant} with axes {each.subscripts}" for each in (before, name)]
        raise InputError("tensors", both, f"one order of the axes of {name.label}, their label")
    return False


def closure(
    targets: Iterable[str | Name], scheme: Scheme, *, most_factors: int | None = None
) -> tuple[Name, ...]:
    """These tensors and all that their recursions need, the literature's names first.

    Raises:
        InputError: where a bracket of several inputs would have more factors σ than
            `most_factors`, if given, as for the kernels of a written module.
    """
    found: dict[str, Name] = {}
    pending = [canonical(named(each) if isinstance(each, str) else each) for each in targets]
    asker = {name: name for name in pending}
    with telling("deriving the tensors that are needed"):
        while pending:
            name = pending.pop()
            if add_name(found, name):
                made = hidden(name, scheme)
                if most_factors is not None and not scheme.single:
                    _check_factors(made, most_factors, asker[name])
                pending.extend(made.needs)
                for need in made.needs:
                    asker.setdefault(need, asker[name])
    known = [name for label, name in NAMES.items() if label in found]
    others = sorted(found.keys() - NAMES.keys(), key=lambda label: (len(label), label))
    return (*known, *(found[label] for label in others))


def _check_factors(made: Step, most: int, asker: Name) -> None:
    """Of trees there is a bracket with a factor for each node, all at one neuron: known before."""
    name = made.target
    if all(isinstance(each, Field) for each in name.fields):
        factors = sum(each.nodes for each in name.fields)
    else:
        factors = max((len(each.factors) for each in made.atoms(Bracket)), default=0)
    if factors > most:
        got = asker.label if name == asker else f"{asker.label}, which needs {name.label}"
        wanted = f"one input, or tensors whose brackets have at most {most} factors, not {factors}"
        raise InputError("tensors", got, wanted)
