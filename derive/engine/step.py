"""One tensor at layer ℓ+1 in terms of layer ℓ, derived; and all that its recursion needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from typing import NamedTuple, Self, TypeVar

import sympy

from .. import symbols
from ..activations.functions import Activation, as_activation
from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.polynomials import Atom, Expansion, Monomial, add
from ..display import lines
from ..display.labels import component_latex
from ..display.objects import Shown
from ..errors import InputError, listed, whole
from ..gaussian.brackets import Bracket, Component, specialise, unspecified
from ..groups.pairings import Blocks
from ..weights import Gaussian, WeightEnsemble, as_weights
from ..work.progress import telling
from ..work.resources import DAY, check_time
from .cumulants import RATE, Work, hidden_layer, input_layer, layer_cumulant, work
from .equations import Equation
from .factored import polynomial
from .fields import AnyField, Field
from .scheme import Layered, Scheme
from .stages import DENSE, Stage
from .taps import Ties, moved
from .tensors import (
    FIRST_ORDER,
    MOST_ORDER,
    NAMES,
    Name,
    Tensor,
    canonical,
    fields_by_name,
    identify,
    kernel_label,
    kernel_name,
    named,
    oriented,
    spell,
    target,
    tensor,
)
from .through import Response
from .trees import STREAM
from .variances import general, multiplied_out

Kind = TypeVar("Kind", Parameter, Value, Tensor, Bracket, Response)


@dataclass(frozen=True, repr=False)
class Step(Shown):
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    `derive.Recursion`, which a user is given, says what the attributes are. Of a layer with stages
    it is a polynomial in the tensors of the stage before `stage`; of none of them, `stage` None, it
    is known as `expr` only, stage put into stage.
    """

    target: Name
    weights: WeightEnsemble
    samples: tuple[int, ...]
    activation: Activation | None = None
    first_layer: bool = False
    square: bool = True
    corrections: int = 0
    left_out: frozenset[str] = field(default=frozenset(), compare=False)
    layer: Layered | None = None
    stage: int | None = None
    ties: Ties | None = None

    @cached_property
    def terms(self) -> Expansion:
        """The right-hand side: {(monomial of atoms, 0): coefficient}."""
        if self.is_composed:
            wanted = "one of the layer's stages, of `stages`: what leads through all has no terms"
            raise InputError("layer", str(self.layer), wanted)
        taps = self._stage.taps
        if taps is None:
            return self._tied(None)
        if self.ties is None:
            raise InputError("layer", str(self.layer), "one of `parts`: a convolution has several")
        if not self.ties:
            whole_block = tuple(range(len(self.target.pairing)))
            terms = self._tied((whole_block,))
            return {key: value for key, value in terms.items() if _is_constant(key[0])}
        total: Expansion = {}
        for finer, weight in taps.refinements(self.ties):
            for (mono, _), value in self._tied(finer).items():
                if not _is_constant(mono):
                    add(total, {(mono, 0): value}, weight)
        return {key: value for key, value in total.items() if value}

    def _tied(self, ties: Ties | None) -> Expansion:
        """The terms, in a convolution with a matrix for each block of these pairs."""
        stage = self._stage if ties is None else replace(self._stage, taps=None)
        coefficient = _coefficient(
            self.target.fields,
            self._labels,
            self.target.pairing,
            self.weights.standard,
            self._power,
            self.first_layer,
            self.square,
            self.corrections,
            stage,
            ties,
        )
        return {(mono, 0): value for (mono, at), value in coefficient.items() if at == self._power}

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """Of a stage with taps the constant terms, and then those whose pairs are tied in a way, to
        be summed over the taps (`taps`); of others this step alone."""
        taps = self._stage.taps
        if taps is None or self.ties is not None:
            return (self,)
        ties = ((), *taps.ties(len(self.target.pairing)))
        made = [replace(self, ties=each) for each in ties]
        return tuple(each for k, each in enumerate(made) if each.terms or k == 1)

    def summed(self, part: Step, symbol: Callable[[object], sympy.Expr]) -> sympy.Expr:
        """One of `parts` as an expression, summed over taps where it has some."""
        expr, taps = polynomial(part.terms, symbol), self._stage.taps
        if taps is None or not part.ties:
            return expr
        single = self.is_single_input
        if single and not taps.is_full:
            wanted = "several samples: a boundary of zeros leaves no signal the same everywhere"
            raise InputError("layer", str(self.layer), wanted)
        place = {slot: k for k, slot in enumerate(self.target.subscripts)}
        pairs = [(self.samples[place[a]], self.samples[place[b]]) for a, b in self.target.pairing]
        return moved(expr, taps, part.ties, pairs, single)

    @property
    def is_composed(self) -> bool:
        """Whether it leads through several stages, or one that is not the dense layer's."""
        return self.layer is not None and self.stage is None

    @property
    def _stage(self) -> Stage:
        return DENSE if self.layer is None or self.stage is None else self.layer.stages[self.stage]

    @cached_property
    def stages(self) -> tuple[tuple[Self, ...], ...]:
        """The steps through the layer's stages, those of the first stage first.

        Each tensor of a stage is a polynomial in those of the one before it, and all that are
        needed are there. Of the dense layer it is this step alone.
        """
        if self.layer is None or self.stage is not None:
            return ((self,),)
        scheme = Scheme(
            self.weights, self.square, self.corrections, self.is_single_input, self.layer
        )
        steps: list[tuple[Self, ...]] = []
        wanted = [canonical(self.target)]
        for stage in reversed(range(len(self.layer.stages))):
            made = [self.of(name, hidden(name, scheme, stage)) for name in wanted]
            steps.insert(0, tuple(made))
            needs = {need.label: need for each in made for need in each.needs}
            wanted = [needs[label] for label in sorted(needs)]
        return tuple(steps)

    def of(self, name: Name, other: Step) -> Self:
        """Another tensor's step, with this one's activation."""
        kept = {"target": name, "samples": other.samples, "stage": other.stage}
        return replace(self, **kept)  # type: ignore[arg-type]

    @cached_property
    def composed(self) -> Composed:
        """Stage put into stage, and the kernels of the brackets."""
        return compose(self)

    @property
    def kernels(self) -> dict[str, sympy.Expr]:
        """The kernels of the brackets of `expr` other than K, by their labels."""
        return self.composed.kernels if self.is_composed else {}

    @property
    def work(self) -> Work:
        """How much there is to do for `terms`: 2·10⁵ terms or more are added up in a second.

        What takes more than 2 s says so on stderr, and can be interrupted; what would take more
        than a day is refused.
        """
        return work(self.target.fields, self._labels, self.target.pairing, self._power)

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind on the right-hand side: `Parameter`, `Tensor` or `Bracket`."""
        terms = (mono for part in self.parts for mono, _ in part.terms)
        return {atom for mono in terms for atom, _ in mono if isinstance(atom, kind)}

    @property
    def name(self) -> str:
        """The tensor's name."""
        return spell(self._left)[0]

    @property
    def _power(self) -> int:
        """The power of 1/n that stands before the tensor in its cumulant."""
        return self.target.pairs - 1 + self.target.order

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
        return self.composed.expr if self.is_composed else polynomial(self.terms, self.symbol)

    def symbol(self, atom: object) -> sympy.Expr:
        """What an atom of `terms` is in `expr`."""
        if isinstance(atom, Parameter):
            own = {str(symbol): symbol for symbol in self.weights.free_symbols}
            if atom.name in symbols.PARAMETERS:
                return symbols.PARAMETERS[atom.name]
            return own.get(atom.name, symbols.parameter(atom.name))
        if isinstance(atom, Value):
            return atom.expr
        if isinstance(atom, Response):
            return atom.value.subs({name: self.symbol(limit) for name, limit in atom.limits})
        if isinstance(atom, Bracket):
            if self.activation is None:
                return unspecified(atom)
            return self.at_kernel(atom, self.activation, self._kernel(atom.kernel))
        assert isinstance(atom, Tensor)
        name, samples = spell(atom)
        if self.first_layer:
            name += "0"
        if self.is_single_input:
            return symbols.tensor(name)
        return Component(name, samples)

    def _kernel(self, label: str) -> Callable[[int, int], sympy.Expr]:
        def component(a: int, b: int) -> sympy.Expr:
            if self.is_single_input:
                return symbols.tensor(label)
            return Component(label, (a, b))

        return component

    @staticmethod
    def at_kernel(
        bracket: Bracket, activation: Activation, kernel: Callable[[int, int], sympy.Expr]
    ) -> sympy.Expr:
        """A bracket of an activation, at the kernel with these entries."""
        special = specialise(bracket, activation)
        entries = {
            each: kernel(*(int(sample) for sample in each.args[1].args))
            for each in special.atoms(Component)
        }
        if bracket.is_single:
            sample = bracket.factors[0][0]
            entries[symbols.K] = kernel(sample, sample)
        changed = {old: new for old, new in entries.items() if old != new}
        return special.subs(changed, simultaneous=True) if changed else special

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The tensors of layer ℓ that occur, the kernel of the brackets included."""
        return tuple(name.label for name in self.needs)

    @property
    def needs(self) -> tuple[Name, ...]:
        """The tensors of `depends_on`."""
        if self.is_composed:
            first = {need.label: need for each in self.stages[0] for need in each.needs}
            known = [name for label, name in NAMES.items() if label in first]
            return (*known, *(first[label] for label in sorted(first.keys() - NAMES.keys())))
        atoms = self.atoms(Tensor)
        atoms |= {limit for atom in self.atoms(Response) for _, limit in atom.limits}
        found = {name.label: name for name, _ in map(identify, atoms)}
        kernels = {bracket.kernel for bracket in self.atoms(Bracket)}
        for kernel in map(kernel_name, self._stage.argument_kinds):
            if kernel.label in kernels:
                found[kernel.label] = kernel
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
        labels = NAMES if self.is_composed else {spell(atom)[0] for atom in self.atoms(Tensor)}
        zero = "0" * self.first_layer
        names = {
            symbols.tensor(f"{label}{zero}"): component_latex(label, (), zero)
            for label in labels
            if self.is_single_input
        }
        if self.layer is not None:
            names |= {
                each: r"\varepsilon" for each in self.layer.free_symbols if str(each) == "eps"
            }
        left = component_latex(
            name, () if self.is_single_input else samples, "1" if self.first_layer else r"\ell+1"
        )
        right = self.expr if expr is None else expr

        def printed(e: sympy.Expr) -> str:
            return str(sympy.latex(e, symbol_names=names))

        kernels = "".join(
            rf",\quad {component_latex(label, ())} = {printed(kernel)}"
            for label, kernel in self.kernels.items()
        )
        return lines.equation(left, right, width, printed) + kernels

    def __str__(self) -> str:
        name, samples = spell(self._left)
        subscripts = "" if self.is_single_input else f"[{','.join(map(str, samples))}]"
        layer = "1" if self.first_layer else "ℓ+1"
        kernels = "".join(
            f", with ⟨…⟩{label.removeprefix('K')} at {label}{self._first_two} = {kernel}"
            for label, kernel in self.kernels.items()
        )
        return lines.text(f"{name}{subscripts}({layer}) = {self.expr}{kernels}")

    @property
    def _first_two(self) -> str:
        return "" if self.is_single_input else "[1,2]"


class Composed(NamedTuple):
    """A tensor behind a layer by those before it, and the kernels of its brackets."""

    expr: sympy.Expr
    kernels: dict[str, sympy.Expr]


def compose(step: Step) -> Composed:
    """The stages of a layer put into each other.

    A bracket's kernel is a tensor of a stage, and with it an expression in those of layer ℓ; where
    that is not K it is named, and stated beside the equation.
    """
    assert step.layer is not None
    kernels: dict[str, sympy.Expr] = {}
    pair = (1, 1) if step.is_single_input else (1, 2)
    plain = symbols.K if step.is_single_input else Component("K", pair)

    @cache
    def behind(stage: int, atom: Tensor) -> sympy.Expr:
        """A tensor behind this stage, or of layer ℓ, −1."""
        name, samples = identify(atom)
        if stage < 0:
            return step.symbol(atom)
        made = replace(step, target=name, samples=samples, stage=stage)
        return sympy.Add(*(made.summed(part, partial(value, stage)) for part in made.parts))

    def value(stage: int, atom: object) -> sympy.Expr:
        if isinstance(atom, Tensor):
            return behind(stage - 1, atom)
        if isinstance(atom, Response):
            return atom.value.subs({name: behind(stage - 1, limit) for name, limit in atom.limits})
        if isinstance(atom, Bracket):
            return average(stage, atom)
        return step.symbol(atom)

    @cache
    def average(stage: int, bracket: Bracket) -> sympy.Expr:
        layer = step.layer
        assert layer is not None
        kinds = layer.stages[stage].argument_kinds
        kind = next(each for each in kinds if kernel_label(each) == bracket.kernel)
        variable = Field(1, (), (kind,))

        def kernel(a: int, b: int) -> sympy.Expr:
            return behind(stage - 1, tensor((variable, variable), 0, ((0, 1),), (a, b)))

        if step.activation is not None:
            return step.at_kernel(bracket, step.activation, kernel)
        here = kernel(*pair)
        if here == plain:
            return unspecified(bracket._replace(kernel="K"))
        label = bracket.kernel if bracket.kernel != "K" else "K_z"
        while kernels.setdefault(label, here) != here:
            label += "'"
        return unspecified(bracket._replace(kernel=label))

    top = tensor(step.target.fields, step.target.order, step.target.pairing, step._labels)
    expr = behind(len(step.layer.stages) - 1, top)
    return Composed(expr, kernels)


def step(
    tensor_name: str | Name | Sequence[str | AnyField],
    weights: WeightEnsemble | str | None = None,
    *,
    pairing: Blocks | str | None = None,
    order: int = 0,
    activation: Activation | str | None = None,
    first_layer: bool = False,
    square: bool | None = None,
    corrections: int | None = None,
    layer: Layered | None = None,
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
        inside = _inside(tensor_name, layer) if isinstance(tensor_name, str) else None
        chosen, stage = inside or (
            named(tensor_name) if isinstance(tensor_name, str) else tensor_name,
            None,
        )
    else:
        stage = None
        chosen = target(checked_fields(tensor_name), pairing, order)
    samples = tuple(range(1, len(chosen.subscripts) + 1))
    if weights.group != "O" and layer is not None and not is_dense(layer):
        wanted = f"weights that rotations keep, in the layer {layer}: others are of the dense layer"
        raise InputError("weights", str(weights), wanted)
    left_out = frozenset(name for name, value in given.items() if value is None)
    layer = None if first_layer or layer is None or is_dense(layer) else layer
    if layer is not None and layer.reason is not None and (chosen.order or len(chosen.pairing) > 1):
        wanted = f"K or Theta with the layer {layer}, whose law only permutations keep: "
        if str(chosen) in FIRST_ORDER:
            wanted += "this one closes on sequences, by `recursion` and `flow` in floats alone"
            if any(field.nodes > 2 for field in chosen.fields):
                wanted += ", without a norm"
        else:
            wanted += "cumulants with every power of z enter, and are not derived"
        raise InputError("tensors", str(chosen), wanted)
    made = Step(
        chosen, weights, samples, None, first_layer, square, corrections, left_out, layer, stage
    )
    return made if activation is None else made.specialise(activation)


def _inside(label: str, layer: Layered | None) -> tuple[Name, int] | None:
    """The tensor of a layer's own variable, such as V_y, and the stage that makes it."""
    plain, _, own = label.partition("_")
    for number, stage in enumerate(layer.stages if layer is not None and own else ()):
        for kind, _ in stage.equations:
            if kind.name == own and kind != STREAM and plain in NAMES:
                name = NAMES[plain]
                trees = [each for each in name.fields if isinstance(each, Field)]
                fields = [Field(each.nodes, each.edges, (kind,) * each.nodes) for each in trees]
                return canonical(target(fields, name.pairing, name.order)), number
    return None


def is_dense(layer: Layered) -> bool:
    """Whether it is z' = b + W σ(z)."""
    return layer.stages == (DENSE,)


def hidden(name: Name, scheme: Scheme, stage: int | None = None) -> Step:
    """The tensor's step from a hidden layer to the next, or through one stage of the layer."""
    made = step(
        name,
        scheme.weights,
        square=scheme.square,
        corrections=scheme.corrections,
        layer=scheme.layer,
    )
    if made.layer is not None:
        made = replace(made, stage=stage)
    return made.single_input() if scheme.single else made


def at_inputs(
    name: Name, scheme: Scheme, weights: WeightEnsemble, *, readout: bool = False
) -> Step:
    """The tensor at layer 1, which has these weights, in terms of the inputs' K0 = xᵀx/n_0.

    Layer 1 is dense, or, where the scheme is a readout's, the readout of the inputs.
    """
    made = step(name, weights, first_layer=True, square=False, corrections=scheme.corrections)
    if readout and scheme.layer is not None:
        made = replace(made, layer=scheme.layer, stage=0)
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
    pairing: Blocks,
    weights: WeightEnsemble,
    power: int,
    first_layer: bool,
    square: bool,
    corrections: int,
    stage: Stage = DENSE,
    ties: Ties | None = None,
) -> Expansion:
    if not stage.is_dense:
        rest = pairing, weights, power, first_layer, square, corrections
        distinct = tuple(sorted(set(samples)))
        places = tuple(distinct.index(sample) + 1 for sample in samples)
        if places != samples:
            found = _coefficient(fields, places, *rest, stage, ties)
            return {(_labelled(mono, distinct), at): value for (mono, at), value in found.items()}
        symbolic, variances = general(stage)
        if variances:
            found = _coefficient(fields, samples, *rest, symbolic, ties)
            return multiplied_out(found, variances)
        given = fields, samples, pairing, weights, power, square, corrections
        return _through_stage(*given, stage, ties)
    below = partial(input_layer if first_layer else hidden_layer, weights=weights)
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
            ties=ties,
        )[pairing]
    _check_order(cumulant, pairing, what)
    return cumulant


def _labelled(mono: Monomial, samples: tuple[int, ...]) -> Monomial:
    """With these samples, in ascending order, for 1, 2, …: representatives stay what they are."""
    return frozenset((_relabelled(atom, samples), exponent) for atom, exponent in mono)


@lru_cache(maxsize=1 << 14)
def _relabelled(atom: Atom, samples: tuple[int, ...]) -> Atom:
    if isinstance(atom, Tensor):
        return atom._replace(samples=tuple(samples[each - 1] for each in atom.samples))
    if isinstance(atom, Bracket):
        factors = tuple((samples[each - 1], order) for each, order in atom.factors)
        return atom._replace(factors=factors, outer=tuple(samples[each - 1] for each in atom.outer))
    if isinstance(atom, Response):
        limits = ((name, _relabelled(limit, samples)) for name, limit in atom.limits)
        return Response(atom.value, tuple(limits))  # type: ignore[arg-type]
    return atom


def _check_order(cumulant: Expansion, pairing: Blocks, what: str) -> None:
    leading = sum(map(len, pairing)) // 2 - 1
    early = min((at for _, at in cumulant), default=leading)
    if early < leading:
        scaling = f"fields whose cumulants with 2m neural indices are of order n^(1-m): {what}"
        raise InputError("fields", f"a term of order n^{-early}", scaling)


def _through_stage(
    fields: tuple[AnyField, ...],
    samples: tuple[int, ...],
    pairing: Blocks,
    weights: WeightEnsemble,
    power: int,
    square: bool,
    corrections: int,
    stage: Stage,
    ties: Ties | None = None,
) -> Expansion:
    """The cumulant behind a stage of a layer, its numbers multiplied out."""
    what = f"kappa({', '.join(map(str, fields))})"
    if stage.has_centres and power > 1:
        wanted = (
            "tensors of order 1/n in a layer that takes a mean off: beyond it the law is invariant "
            "only under rotations that keep the mean's direction"
        )
        raise InputError("fields", f"{what} at order n^-{power}", wanted)
    with telling(f"deriving {what}"):
        cumulant = layer_cumulant(
            fields,
            samples,
            weights,
            power,
            square,
            pairing=pairing,
            corrections=corrections,
            stage=stage,
            ties=ties,
        )[pairing]
    found = multiplied_out(cumulant, {})
    _check_order(found, pairing, what)
    return found


def _is_constant(mono: Monomial) -> bool:
    """Whether a term is no average over neurons: of biases."""
    return not any(isinstance(atom, Bracket | Tensor) for atom, _ in mono)


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
    return closures(targets, [scheme], most_factors=most_factors)[0][-1]


def closures(
    targets: Iterable[str | Name],
    schemes: Sequence[Scheme],
    *,
    most_factors: int | None = None,
) -> tuple[tuple[tuple[Name, ...], ...], ...]:
    """The tensors behind each stage of each scheme's layer that these need.

    Those behind the last stage are the tensors of all layers alike, of which the steps of each
    first stage are made. Raises InputError as `closure`.
    """
    stream: dict[str, Name] = {}
    found: list[list[dict[str, Name]]] = [
        [*({} for _ in scheme.stages[1:]), stream] for scheme in schemes
    ]
    ends = [(k, len(scheme.stages) - 1) for k, scheme in enumerate(schemes)]
    wanted = [canonical(named(t) if isinstance(t, str) else t) for t in targets]
    pending = [((0, ends[0][1]), name) for name in wanted]
    asker = {name: name for name in wanted}
    with telling("deriving the tensors that are needed"):
        while pending:
            (k, stage), name = pending.pop()
            if not add_name(found[k][stage], name):
                continue
            for at in ends if found[k][stage] is stream else [(k, stage)]:
                made = hidden(name, schemes[at[0]], at[1])
                if most_factors is not None and not schemes[at[0]].single:
                    _check_factors(made, most_factors, asker[name])
                before = (at[0], at[1] - 1) if at[1] else ends[at[0]]
                pending.extend((before, need) for need in made.needs)
                for need in made.needs:
                    asker.setdefault(need, asker[name])
    return tuple(tuple(map(_in_order, part)) for part in found)


def _in_order(found: dict[str, Name]) -> tuple[Name, ...]:
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
