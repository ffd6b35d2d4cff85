"""`recursion("V", weights=Orthogonal())`: one tensor at layer ℓ+1 in terms of layer ℓ, derived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import sympy

from .activations import Activation
from .algebra import Expansion
from .brackets import Average, Bracket, Component, K, component_latex, specialise
from .citations import rests_on
from .cumulants import Work, hidden_layer, input_layer, layer_cumulant, work
from .equations import Equation
from .errors import InputError, listed, whole
from .fields import AnyField, Field
from .pairings import Pairing
from .parameters import Parameter
from .progress import Progress
from .shown import Shown
from .tensors import (
    FIRST_ORDER,
    NAMES,
    Name,
    Tensor,
    canonical,
    fields_by_name,
    identify,
    named,
    spell,
    target,
    tensor,
)
from .weights import Gaussian, WeightEnsemble

if TYPE_CHECKING:
    from .asymptotics import Asymptotics

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


@dataclass(frozen=True, repr=False)
class Recursion(Shown):
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    Attributes:
        target: the cumulant, order and pairing this is the coefficient of.
        weights: the ensemble it was derived for; its C_W stays the symbol C_W.
        samples: the sample label of each subscript of the target.
        activation: the activation, or None for the unspecified σ.
        first_layer: whether layer ℓ is the input, with "kernel" K0 = xᵀx/n_0.
        square: whether all widths are n; else they are r_in n and, for the Haar matrix, r_big n.
        corrections: how many 1/n parts C_W and C_b have: C_W + C_W1/n + C_W2/n² + …

    >>> vertex = recursion("V").single_input()
    >>> vertex.depends_on
    ('K', 'V')
    >>> vertex.expr
    C_W**2*(V*⟨(σ²)''⟩**2/4 - ⟨σ²⟩**2 + ⟨σ⁴⟩)
    """

    target: Name
    weights: WeightEnsemble
    samples: tuple[int, ...]
    activation: Activation | None = None
    first_layer: bool = False
    square: bool = True
    corrections: int = 0

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
        """How much there is to do for `terms`: about 10⁵ terms are added up in a second.

        What takes more than some seconds says so on stderr, and can be interrupted.
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
            known = _PARAMETERS | own
            return known.get(atom.name, sympy.Symbol(atom.name, real=True))
        if isinstance(atom, Bracket):
            if self.activation is None:
                return Average(atom.factors, atom.outer)
            special = specialise(atom, self.activation)
            if atom.is_single and not self.is_single_input:
                sample = atom.factors[0][0]
                special = special.xreplace({K: Component("K", (sample, sample))})
            return special
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
        return tuple(name.label for name in self.needs)

    @property
    def needs(self) -> tuple[Name, ...]:
        """The tensors of `depends_on`."""
        found = {name.label: name for name, _ in map(identify, self.atoms(Tensor))}
        if self.atoms(Bracket):
            found["K"] = NAMES["K"]
        known = [name for label, name in NAMES.items() if label in found]
        return (*known, *(found[label] for label in sorted(found.keys() - NAMES.keys())))

    def single_input(self) -> Recursion:
        """The same with one input: every sample index equal."""
        return replace(self, samples=(1,) * len(self.samples))

    def specialise(self, activation: Activation) -> Recursion:
        """The same for a given activation, its brackets in closed form where there is one."""
        if not isinstance(activation, Activation):
            raise InputError("activation", activation, "an activation of derive.activations")
        return replace(self, activation=activation)

    def kernel_form(self, data: Sequence[int] | None = None) -> sympy.Expr:
        """`expr` with ⟨σσ(zz − K)⟩ and inverse kernels for the derivatives, as in the papers.

        With several inputs the sums run over `data`, or stay raised indices (`derive.stein`).
        """
        from .stein import kernel_form  # noqa: PLC0415

        return kernel_form(self, data)

    def asymptotics(
        self, activation: Activation | None = None, terms: int = 2, **rates: Any
    ) -> Asymptotics:
        """The tensor at large depth and criticality, to so many terms (`derive.asymptotics`).

        `lambda_b` and `lambda_W` are expressions in `derive.asymptotics.ell`; 1/ℓ and 1 by default.
        """
        from .asymptotics import asymptotics  # noqa: PLC0415

        sigma = self.activation if activation is None else activation
        if sigma is None:
            raise InputError("activation", None, "an activation of derive.activations")
        return asymptotics(self, sigma, terms, **rates)

    def latex(self, expr: sympy.Expr | None = None) -> str:
        """The equation in LaTeX: left, and right `expr`, or another form of it."""
        name, samples = spell(self._left)
        names = {
            self.symbol(atom): component_latex(spell(atom)[0], (), "0" * self.first_layer)
            for atom in self.atoms(Tensor)
            if self.is_single_input
        }
        left = component_latex(
            name, () if self.is_single_input else samples, "1" if self.first_layer else r"\ell+1"
        )
        return f"{left} = {sympy.latex(self.expr if expr is None else expr, symbol_names=names)}"

    def __str__(self) -> str:
        name, samples = spell(self._left)
        subscripts = "" if self.is_single_input else f"[{','.join(map(str, samples))}]"
        layer = "1" if self.first_layer else "ℓ+1"
        return f"{name}{subscripts}({layer}) = {self.expr}"


@rests_on("day2025", "roberts2022")
def recursion(
    tensor_name: str | Name | Sequence[str | AnyField],
    weights: WeightEnsemble | None = None,
    *,
    pairing: Pairing | str | None = None,
    order: int = 0,
    activation: Activation | None = None,
    first_layer: bool = False,
    square: bool = True,
    corrections: int = 0,
) -> Recursion:
    """Derive how a tensor moves from layer ℓ to ℓ+1, from the forward equation alone.

    Arguments:
        tensor_name: a name, "K", "G1", "V", … or "kappa(z,z,H|01 23)"; or a list of fields,
            ["z", "z", "H"], whose joint cumulant is n^{1−m} Σ_p δ_p(i) Σ_g n^{−g} T^g_p. A field
            is "z", "H", "dH", "ddI", "ddII", a tree of derivatives (`derive.fields.Field`) or
            a forward equation of one's own (`derive.Equation`).
        weights: the ensemble of layer ℓ+1, `Gaussian()` by default. C_W stays a symbol.
        pairing: for a list of fields, the pairing p of their neural indices, such as "01 23" or
            ((0, 1), (2, 3)); it may be left out where all pairings are alike.
        order: for a list of fields, the relative order g in 1/n.
        activation: specialise at once; otherwise σ is unspecified.
        first_layer: layer 1 in terms of the inputs' K0 = xᵀx/n_0 (n_0 = r_in n).
        square: False keeps unequal widths: n_ℓ = r_in n.
        corrections: give C_W and C_b so many 1/n parts: C_W + C_W1/n + … (source 000, eq. 5.28).

    Derived here by `cumulants`; source 000 eqs. (5.3), (5.16), (5.25) are what K, V, G1 must meet.

    Raises:
        InputError: unknown tensor or field, an odd number of neural indices, an ambiguous pairing.

    >>> recursion("K")
    K[1,2](ℓ+1) = C_W*⟨σ₁ σ₂⟩ + C_b
    >>> recursion(["z", "z", "H"], pairing="02 13").name
    'F'
    """
    if weights is None:
        weights = Gaussian()
    if not isinstance(weights, WeightEnsemble):
        raise InputError("weights", weights, "a weight ensemble such as Orthogonal()")
    corrections = whole("corrections", corrections, 0, wanted="how many 1/n parts C_W and C_b have")
    order = whole("order", order, 0, wanted="a relative order in 1/n, 0 or more")
    if isinstance(tensor_name, str | Name):
        if pairing is not None or order:
            raise InputError("pairing, order", (pairing, order), "neither, with a tensor's name")
        chosen = named(tensor_name) if isinstance(tensor_name, str) else tensor_name
    else:
        chosen = target(checked_fields(tensor_name), pairing, order)
    samples = tuple(range(1, 2 * len(chosen.pairing) + 1))
    made = Recursion(chosen, weights, samples, None, first_layer, square, corrections)
    return made if activation is None else made.specialise(activation)


def checked_fields(given: Sequence[str | AnyField]) -> list[AnyField]:
    """Fields by their names, or as they are; InputError for anything else."""
    found: list[AnyField] = []
    wanted = 'a tensor\'s name, or a list of fields such as ["z", "z", "H"]'
    for field in listed("tensor_name", given, wanted):
        if not isinstance(field, str | Field | Equation):
            raise InputError("fields", field, "a field's name, a Field, or an Equation")
        found.append(fields_by_name([field])[0] if isinstance(field, str) else field)
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
    with Progress(what, *work(fields, samples, pairing, power)) as progress:
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


def wanted(tensors: str | Recursion | Iterable[str | Recursion]) -> tuple[Name, ...]:
    """The tensors that were asked for, each once: names, recursions (what is on their left), "all".

    "all" are those of order 1/n, `derive.tensors.FIRST_ORDER`.
    """
    known = f"one or more of {', '.join(NAMES)}"
    items = [tensors] if isinstance(tensors, str | Recursion) else listed("tensors", tensors, known)
    found: dict[str, Name] = {}
    for item in items:
        if not isinstance(item, str | Recursion):
            raise InputError("tensors", item, "names of tensors, or recursions")
        for each in FIRST_ORDER if item == "all" else (item,):
            name = named(each) if isinstance(each, str) else each.target
            _keep(found, name)
    if not found:
        raise InputError("tensors", items, known)
    return tuple(found.values())


def _keep(found: dict[str, Name], name: Name) -> bool:
    """Add a tensor, if it is new; an error if another has its label."""
    if name.label not in found:
        found[name.label] = name
        return True
    if set(found[name.label].fields) != set(name.fields):
        raise InputError("fields", name.label, "fields that are told apart by their names")
    return False


def closure(
    targets: Iterable[str | Name],
    weights: WeightEnsemble,
    corrections: int = 0,
    *,
    single: bool = False,
) -> tuple[Name, ...]:
    """These tensors and all that their recursions need, the literature's names first.

    With `single` their recursions for one input, which take far less to derive.
    """
    found: dict[str, Name] = {}
    pending = [canonical(named(each) if isinstance(each, str) else each) for each in targets]
    while pending:
        name = pending.pop()
        if _keep(found, name):
            made = recursion(name, weights, corrections=corrections)
            pending.extend((made.single_input() if single else made).needs)
    known = [name for label, name in NAMES.items() if label in found]
    others = sorted(found.keys() - NAMES.keys(), key=lambda label: (len(label), label))
    return (*known, *(found[label] for label in others))


__all__ = ["Recursion", "closure", "recursion", "wanted"]
