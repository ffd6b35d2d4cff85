"""`recursion("V", weights=Orthogonal())`: one tensor at layer ℓ+1 in terms of layer ℓ, derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeVar

import sympy

from .activations import Activation
from .algebra import Expansion
from .brackets import Average, Bracket, Component, component_latex, specialise
from .cumulants import hidden_layer, input_layer, layer_cumulant
from .errors import InputError
from .fields import FIELD_NAMES, Field
from .pairings import Pairing, ordered, pair_partitions
from .parameters import Parameter
from .tensors import NAMES, Name, Tensor, named, spell, tensor
from .weights import Gaussian, WeightEnsemble

Kind = TypeVar("Kind", Parameter, Tensor, Bracket)

_PARAMETERS = {
    "C_W": sympy.Symbol("C_W", positive=True),
    "C_b": sympy.Symbol("C_b", nonnegative=True),
    "lambda_W": sympy.Symbol("lambda_W", nonnegative=True),
    "lambda_b": sympy.Symbol("lambda_b", nonnegative=True),
    "r_in": sympy.Symbol("r_in", positive=True),
    "r_out": sympy.Symbol("r_out", positive=True),
    "r_big": sympy.Symbol("r_big", positive=True),
}


@dataclass(frozen=True)
class Recursion:
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    Attributes:
        target: the cumulant, order and pairing this is the coefficient of.
        weights: the ensemble it was derived for; its C_W stays the symbol C_W.
        samples: the sample label of each subscript of the target.
        activation: the activation, or None for the unspecified σ.
        first_layer: whether layer ℓ is the input, with "kernel" K0 = xᵀx/n_0.
        square: whether all widths are n; else they are r_in n and, for the Haar matrix, r_big n.
    """

    target: Name
    weights: WeightEnsemble
    samples: tuple[int, ...]
    activation: Activation | None = None
    first_layer: bool = False
    square: bool = True

    @cached_property
    def terms(self) -> Expansion:
        """The right-hand side: {(monomial of atoms, 0): coefficient}."""
        slots = dict(zip(self.target.subscripts, self.samples, strict=True))
        labels = tuple(slots[slot] for slot in range(len(slots)))
        power = len(self.target.pairing) - 1 + self.target.order
        coefficient = _cumulant(
            self.target.fields,
            labels,
            self.weights,
            power,
            self.square,
            self.first_layer,
            self.target.pairing,
        )
        return {(mono, 0): value for (mono, at), value in coefficient.items() if at == power}

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind on the right-hand side: `Parameter`, `Tensor` or `Bracket`."""
        return {atom for mono, _ in self.terms for atom, _ in mono if isinstance(atom, kind)}

    @property
    def name(self) -> str:
        """The tensor's name."""
        return spell(self._left)[0]

    @property
    def _left(self) -> Tensor:
        slots = dict(zip(self.target.subscripts, self.samples, strict=True))
        labels = tuple(slots[slot] for slot in range(len(slots)))
        return tensor(self.target.fields, self.target.order, self.target.pairing, labels)

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
                * sympy.prod([self._symbol(atom) ** exponent for atom, exponent in mono])
                for (mono, _), value in self.terms.items()
            )
        )
        return sympy.factor_terms(total)

    def _symbol(self, atom: object) -> sympy.Expr:
        if isinstance(atom, Parameter):
            own = {str(symbol): symbol for symbol in self.weights.free_symbols}
            return (_PARAMETERS | own)[atom.name]
        if isinstance(atom, Bracket):
            if self.activation is None:
                return Average(atom.factors, atom.outer)
            return specialise(atom, self.activation)
        assert isinstance(atom, Tensor)
        name, samples = spell(atom)
        if self.first_layer:
            name += "0"
        if self.is_single_input:
            return sympy.Symbol(name, real=True)
        return Component(name, samples)

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The tensors of layer ℓ that occur, the kernel of the brackets included."""
        found = {spell(atom)[0] for atom in self.atoms(Tensor)}
        if self.atoms(Bracket):
            found.add("K")
        known = [name for name in NAMES if name in found]
        return (*known, *sorted(found - set(known)))

    def single_input(self) -> Recursion:
        """The same with one input: every sample index equal."""
        return replace(self, samples=(1,) * len(self.samples))

    def specialise(self, activation: Activation) -> Recursion:
        """The same for a given activation, its brackets in closed form where there is one."""
        if not isinstance(activation, Activation):
            raise InputError("activation", activation, "an activation of derive.activations")
        return replace(self, activation=activation)

    def latex(self) -> str:
        """The equation, left and right, in LaTeX."""
        name, samples = spell(self._left)
        names = {
            sympy.Symbol(f"{key}{zero}", real=True): component_latex(key, ())
            + ("^{(0)}" * bool(zero))
            for key in NAMES
            for zero in ("", "0")
        }
        left = component_latex(
            name, () if self.is_single_input else samples, "1" if self.first_layer else r"\ell+1"
        )
        return f"{left} = {sympy.latex(self.expr, symbol_names=names)}"

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    def __str__(self) -> str:
        name, samples = spell(self._left)
        subscripts = "" if self.is_single_input else f"[{','.join(map(str, samples))}]"
        layer = "1" if self.first_layer else "ℓ+1"
        return f"{name}{subscripts}({layer}) = {self.expr}"


def recursion(
    tensor_name: str | Sequence[str | Field],
    weights: WeightEnsemble | None = None,
    *,
    pairing: Pairing | None = None,
    order: int = 0,
    activation: Activation | None = None,
    first_layer: bool = False,
    square: bool = True,
) -> Recursion:
    """Derive how a tensor moves from layer ℓ to ℓ+1, from the forward equation alone.

    Arguments:
        tensor_name: a name, "K", "G1", "V", …; or a list of fields, ["z", "z", "H"], whose joint
            cumulant is n^{1−m} Σ_p δ_p(i) Σ_g n^{−g} T^g_p.
        weights: the ensemble of layer ℓ+1, `Gaussian()` by default. C_W stays a symbol.
        pairing: for a list of fields, the pairing p of their neural indices, such as
            ((0, 1), (2, 3)); it may be left out where all pairings are alike.
        order: for a list of fields, the relative order g in 1/n.
        activation: specialise at once; otherwise σ is unspecified.
        first_layer: layer 1 in terms of the inputs' K0 = xᵀx/n_0 (n_0 = r_in n).
        square: False keeps unequal widths: n_ℓ = r_in n.

    Derived here by `cumulants`; source 000 eqs. (5.3), (5.16), (5.25) are what K, V, G1 must meet.

    Raises:
        InputError: unknown tensor or field, an odd number of neural indices, an ambiguous pairing.
    """
    if weights is None:
        weights = Gaussian()
    if not isinstance(weights, WeightEnsemble):
        raise InputError("weights", weights, "a weight ensemble such as Orthogonal()")
    if isinstance(tensor_name, str):
        if pairing is not None or order:
            raise InputError("pairing, order", (pairing, order), "neither, with a tensor's name")
        target = named(tensor_name)
    else:
        target = _target(tensor_name, pairing, order)
    made = Recursion(
        target,
        weights,
        tuple(range(1, 2 * len(target.pairing) + 1)),
        None,
        first_layer,
        square,
    )
    return made if activation is None else made.specialise(activation)


def _target(fields: Sequence[str | Field], pairing: Pairing | None, order: int) -> Name:
    by_name = {name: field for field, name in FIELD_NAMES.items()}
    found = []
    for field in fields:
        if not isinstance(field, Field) and field not in by_name:
            raise InputError("fields", field, f"one of {', '.join(by_name)}, or a Field")
        found.append(field if isinstance(field, Field) else by_name[field])
    if not isinstance(order, int) or order < 0:
        raise InputError("order", order, "a relative order in 1/n, 0 or more")
    total = sum(field.nodes for field in found)
    if not found or total % 2:
        raise InputError("fields", fields, "an even number of neural indices")
    ranked = sorted(range(len(found)), key=lambda f: found[f])
    starts = [sum(field.nodes for field in found[:f]) for f in range(len(found))]
    slots = [starts[f] + node for f in ranked for node in range(found[f].nodes)]
    place = {slot: position for position, slot in enumerate(slots)}
    chosen = tuple(found[f] for f in ranked)
    choices = pair_partitions(total)
    labels = (1,) * total
    classes: dict[Pairing, Pairing] = {}
    for candidate in choices:
        classes.setdefault(tensor(chosen, order, candidate, labels).pairing, candidate)
    if pairing is None:
        if len(classes) > 1:
            wanted = " or ".join(str(candidate) for candidate in classes.values())
            raise InputError("pairing", None, f"one of the pairings that differ: {wanted}")
        pairing = choices[0]
    normal = tuple(sorted(ordered(a, b) for a, b in pairing))
    if normal not in choices:
        raise InputError("pairing", pairing, f"a pairing of the slots 0 … {total - 1}")
    moved = tuple(sorted(ordered(place[a], place[b]) for a, b in normal))
    return Name(chosen, order, moved, tuple(place[slot] for slot in range(total)))


@cache
def _cumulant(
    fields: tuple[Field, ...],
    samples: tuple[int, ...],
    weights: WeightEnsemble,
    power: int,
    square: bool,
    first_layer: bool,
    pairing: Pairing,
) -> Expansion:
    below = input_layer if first_layer else hidden_layer
    cumulant = layer_cumulant(fields, samples, weights, power, square, below, pairing=pairing)
    leading = len(pairing) - 1
    early = [at for _, at in cumulant[pairing] if at < leading]
    if early:
        raise ArithmeticError(
            f"the cumulant of {', '.join(map(str, fields))} has a term n^-{min(early)} "
            f"at {pairing}, before n^-{leading}"
        )
    return cumulant[pairing]


def closure(names: Sequence[str], weights: WeightEnsemble) -> tuple[str, ...]:
    """The named tensors and all that their recursions need, in an order that can be computed."""
    found: dict[str, Recursion] = {}
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found[name] = recursion(name, weights)
            pending.extend(found[name].depends_on)
    return tuple(name for name in NAMES if name in found)


__all__ = ["Recursion", "closure", "recursion"]
