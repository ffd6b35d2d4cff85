"""One tensor at layer ℓ+1 in terms of layer ℓ, derived, and stage put into stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import NamedTuple, Self, TypeVar

import sympy

from ... import symbols
from ...activations.functions import Activation, as_activation
from ...arithmetic.parameters import Parameter, Value
from ...arithmetic.polynomials import Expansion, add, atoms_in, of_kind
from ...display import lines
from ...display.labels import component_latex
from ...display.objects import Shown, readable
from ...errors import InputError
from ...gaussian.brackets import Bracket, Component, specialise, unspecified, with_samples
from ...weights import WeightEnsemble
from ...work.caches import cache
from ..atoms import read
from ..cumulants import Work, work
from ..factored import polynomial
from ..scheme import Layered
from ..score_averages import ScoreAverage, averaged, check_common, is_averaged
from ..stages import DENSE, Stage
from ..taps import Taps, Ties, moved
from ..tensors import (
    NAMES,
    Name,
    Tensor,
    canonical,
    identify,
    in_order,
    kernel_label,
    kernel_name,
    kernel_of,
    spell,
    tensor,
)
from ..through import Response, Weighting
from .coefficients import coefficient

Kind = TypeVar("Kind", Parameter, Value, Tensor, Bracket, Response, Weighting, ScoreAverage)


@dataclass(frozen=True, repr=False)
class Step(Shown):
    """T^{(ℓ+1)} as a polynomial in hyperparameters, tensors and Gaussian brackets of layer ℓ.

    `derive.Recursion`, which a user is given, says what the attributes are. Through a `stage` it is
    a polynomial in the tensors before it. With `stage` None it leads through all stages of the
    layer, and only the composed `expr` is available.
    """

    target: Name
    weights: WeightEnsemble
    samples: tuple[int, ...]
    activation: Activation | None = None
    equal_widths: bool = True
    corrections: int = 0
    left_out: frozenset[str] = field(default=frozenset(), compare=False)
    layer: Layered | None = None
    stage: Stage | None = DENSE
    ties: Ties | None = None
    group: str = "O"

    @cached_property
    def terms(self) -> Expansion:
        """The right-hand side: {(monomial of atoms, 0): coefficient}."""
        if self.is_composed:
            wanted = "one of the layer's stages, of `stages`: what leads through all has no terms"
            raise InputError("layer", str(self.layer), wanted)
        taps, total = self.through.taps, Expansion()
        if self._is_whole and not self.is_single_input:
            raise InputError("layer", str(self.layer), "one of `parts`: a convolution has several")
        if self._is_whole:
            self._check_constant(taps)
            for part in self._apart:
                add(total, part.terms, taps.share(part.blocks))
        else:
            for finer, weight in taps.refinements(self.ties):
                add(total, self._tied(finer), weight)
        return {key: value for key, value in total.items() if value}

    def _tied(self, ties: Ties | None) -> Expansion:
        """The terms, in a convolution with a matrix for each block of these pairs."""
        stage = self.through if ties is None else self.through.alone
        if is_averaged(stage):
            given = self.target.fields, self._labels, self.target.pairing, self.target.order
            return averaged(stage, *given, self._laws_of_heads(stage))
        found = coefficient(
            self.target.fields,
            self._labels,
            self.target.pairing,
            self.weights.unit_variance,
            self._power,
            self.equal_widths,
            self.corrections,
            stage,
            ties,
            self.group,
        )
        return {(mono, 0): value for (mono, at), value in found.items() if at == self._power}

    def _laws_of_heads(self, stage: Stage) -> list[WeightEnsemble]:
        """The laws of an attention's matrices: its own, and those of the stage before it."""
        stages = self.layer_stages
        at = stages.index(stage)
        check_common(stages[max(0, at - 1)], stage)
        matrices = (matrix for each in stages[max(0, at - 1) : at + 1] for matrix in each.matrices)
        return [matrix.law or self.weights for matrix in matrices]

    @cached_property
    def parts(self) -> tuple[Self, ...]:
        """For a stage with taps, one step for each way in which pairs are tied; these are summed
        over the taps (`taps`). For other stages, and for a signal that is the same at all
        positions, this step alone."""
        taps = self.through.taps
        return (self,) if self.is_single_input and taps.is_full else self._apart

    @property
    def _is_whole(self) -> bool:
        """True if it is the sum of several parts, which differ in the pairs that are tied."""
        return self.ties is None and self.through.taps.moves

    @property
    def _apart(self) -> tuple[Self, ...]:
        """The same of a signal that differs from position to position."""
        if not self._is_whole:
            return (self,)
        ties = self.through.taps.ties(len(self.target.pairing))
        made = tuple(replace(self, ties=each) for each in ties)
        return tuple(each for each in made if each.terms) or made[:1]

    @property
    def blocks(self) -> list[list[int]]:
        """The axes of the target that each tap of one of `parts` moves."""
        axis = {slot: place for place, slot in enumerate(self.target.subscripts)}
        slots = ([self.target.pairing[pair] for pair in block] for block in self.ties or ())
        return [[axis[slot] for pair in block for slot in pair] for block in slots]

    @property
    def _moving(self) -> tuple[list[list[int]], list[list[int]]]:
        """The samples that each tap moves, and those of each pair without a matrix."""
        tied = {axis for block in self.blocks for axis in block}
        free = [[axis] for axis in range(len(self.target.subscripts)) if axis not in tied]
        moves = self.blocks, free
        tapped, others = ([[self.samples[k] for k in each] for each in of] for of in moves)
        return tapped, others

    def _check_constant(self, taps: Taps) -> None:
        """Raise InputError where a signal does not stay the same at all positions."""
        if not taps.is_full:
            wanted = "several samples: a boundary of zeros leaves no signal the same everywhere, "
            wanted += "nor do other weights of positions that do not sum to 1"
            raise InputError("layer", str(self.layer), wanted)

    def summed(self, single: bool, symbol: Callable[[object], sympy.Expr]) -> sympy.Expr:
        """The right-hand side of a stage as an expression, summed over taps where it has some.

        Arguments:
            single: whether there is one input, the same at all positions.
        """
        found = []
        for part in self.parts if single else self._apart:
            expr, taps = polynomial(part.terms, symbol), self.through.taps
            if part.ties or taps.past is not None:
                if single:
                    self._check_constant(taps)
                else:
                    blocks, free = part._moving
                    expr = moved(expr, taps, blocks, free)
            found.append(expr)
        return sympy.Add(*found)

    @property
    def is_composed(self) -> bool:
        """True if it leads through all stages of a layer."""
        return self.stage is None

    @property
    def through(self) -> Stage:
        """The stage; the last one of a layer. With one input it reads a constant signal."""
        return self._read_by(self.stage or self.layer_stages[-1])

    @property
    def layer_stages(self) -> tuple[Stage, ...]:
        """The stages of the layer, of the dense one by default."""
        stages = (DENSE,) if self.layer is None else self.layer.stages
        return tuple(map(self._read_by, stages))

    def _read_by(self, stage: Stage) -> Stage:
        return stage.constant if self.is_single_input else stage

    def check_repeats(self, argument: str, got: object, wanted: str) -> None:
        """Raise InputError for layer 1, and for a tensor of a layer's own variable."""
        if self.stage not in (None, DENSE):
            raise InputError(argument, got, wanted)

    @cached_property
    def stages(self) -> tuple[tuple[Self, ...], ...]:
        """The steps through the layer's stages, those of the first stage first.

        Each tensor of a stage is a polynomial in those of the one before it, and all that are
        needed are there. Of the dense layer it is this step alone.
        """
        if not self.is_composed:
            return ((self,),)
        steps: list[tuple[Self, ...]] = []
        wanted = [canonical(self.target)]
        for stage in reversed(self.layer_stages):
            made = [self._through(stage, name) for name in wanted]
            steps.insert(0, tuple(made))
            needs = {need.label: need for each in made for need in each.needs}
            wanted = [needs[label] for label in sorted(needs)]
        return tuple(steps)

    def _through(self, stage: Stage, name: Name) -> Self:
        """Another tensor's step, through one of the layer's stages."""
        count = len(name.subscripts)
        samples = (1,) * count if self.is_single_input else tuple(range(1, count + 1))
        return replace(self, target=name, samples=samples, stage=stage)

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
        """How much there is to do for `terms`, its processor `seconds` and `bytes` of memory.

        What takes more than 2 s says so on stderr, and can be interrupted. What would take more
        than a day, or half of the machine's memory, is refused before the derivation starts.
        """
        return work(
            self.target.fields, self._labels, self.target.pairing, self._power, self.through
        )

    def atoms(self, kind: type[Kind]) -> set[Kind]:
        """The atoms of this kind on the right-hand side: `Parameter`, `Tensor` or `Bracket`."""
        return {each for part in self.parts for each in of_kind(atoms_in(part.terms), kind)}

    @property
    def name(self) -> str:
        """The tensor's name."""
        return spell(self._left)[0]

    @property
    def _power(self) -> int:
        """The power of 1/n that stands before the tensor in its cumulant."""
        return self.target.pairs - 1 + self.target.order

    def sigma_at(self, label: str, default: Activation) -> Activation:
        """The activation that is averaged at the kernel with this label, in this step's stage."""
        return self.through.sigma_at(label, default)

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
        """True if every subscript is the same sample."""
        return len(set(self.samples)) == 1

    @cached_property
    def expr(self) -> sympy.Expr:
        """The right-hand side in sympy: `Component`s, `Average`s and the symbols C_W, C_b, …

        With a single input a component is a plain symbol, such as V.
        """
        if self.is_composed:
            return self.composed.expr
        return self.summed(self.is_single_input, self.symbol)

    def symbol(self, atom: object) -> sympy.Expr:
        """The expression of an atom of `terms` in `expr`."""
        return read(
            atom,
            parameter=self._parameter,
            value=lambda number: number.expr,
            tensor=self._component,
            bracket=self._bracket,
            response=lambda function: function.at_limits(self._component),
            weighting=lambda weights: Component(weights.label, weights.samples),
        )

    def _parameter(self, atom: Parameter) -> sympy.Expr:
        """The symbol; of a law's own parameter, with what the law assumes of it."""
        laws = {each.law for stage in self.layer_stages for each in stage.matrices}
        given = (law.free_symbols for law in {self.weights, *laws} if law)
        own = {str(symbol): symbol for free in given for symbol in free}
        return atom.expr if atom.name in symbols.PARAMETERS else own.get(atom.name, atom.expr)

    def _component(self, atom: Tensor) -> sympy.Expr:
        name, samples = spell(atom)
        name += self.through.below.mark
        return symbols.tensor(name) if self.is_single_input else Component(name, samples)

    def _bracket(self, bracket: Bracket) -> sympy.Expr:
        sigma = self.through.sigma_at(bracket.kernel, self.activation)
        if sigma is None:
            return unspecified(bracket)
        return self.at_kernel(bracket, sigma, self._kernel(bracket.kernel))

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
            return in_order({need.label: need for each in self.stages[0] for need in each.needs})
        atoms = self.atoms(Tensor)
        atoms |= {limit for atom in self.atoms(Response) for _, limit in atom.limits}
        weights = self.atoms(Weighting) | self.atoms(ScoreAverage)
        atoms |= {limit for atom in weights for limit in atom.limits}
        found = {name.label: name for name, _ in map(identify, atoms)}
        kernels = {bracket.kernel for bracket in self.atoms(Bracket)}
        for kernel in map(kernel_name, self.through.argument_kinds):
            if kernel.label in kernels:
                found[kernel.label] = kernel
        return in_order(found)

    def _check_without_batch(self, wanted: str) -> None:
        for stage in self.layer_stages if self.is_composed else (self.through,):
            stage.check_without_batch(wanted)

    def single_input(self) -> Self:
        """The same with one input: every sample index equal, and all positions of a signal.

        Raises InputError for a function of all samples, of which one input is no batch, and for
        attention whose weights do not sum to 1.
        """
        found = replace(self, samples=(1,) * len(self.samples))
        found._check_without_batch("several samples, a batch")
        return found

    def specialise(self, activation: Activation | str) -> Self:
        """The same for a given activation, its brackets in closed form where there is one.

        Raises InputError for a function of all samples, whose brackets have no closed forms here.
        """
        self._check_without_batch("an open activation: such brackets have no closed forms here")
        return replace(self, activation=as_activation(activation))

    def latex(self, expr: sympy.Expr | None = None, width: int | None = lines.WIDTH) -> str:
        r"""The equation in LaTeX: left, and right `expr`, or another form of it.

        What is wider than `width` printed symbols is broken into lines by amsmath's `aligned`,
        which stands inside `equation` or $…$; None keeps it on one line.
        """
        name, samples = spell(self._left)
        labels = NAMES if self.is_composed else {spell(atom)[0] for atom in self.atoms(Tensor)}
        below = self.through.below
        names = {
            symbols.tensor(f"{label}{below.mark}"): component_latex(label, (), below.mark)
            for label in labels
            if self.is_single_input
        }
        if self.layer is not None:
            names |= {
                each: r"\varepsilon" for each in self.layer.free_symbols if str(each) == "eps"
            }
        above = below.above.replace("ℓ", r"\ell")
        left = component_latex(name, () if self.is_single_input else samples, above)
        right = self._shown(self.expr if expr is None else expr)

        def printed(e: sympy.Expr) -> str:
            return str(sympy.latex(readable(e), symbol_names=names))

        kernels = "".join(
            rf",\quad {component_latex(label, ())} = {printed(self._shown(kernel))}"
            for label, kernel in self.kernels.items()
        )
        return lines.equation(left, right, width, printed) + kernels

    def __str__(self) -> str:
        name, samples = spell(self._left)
        subscripts = "" if self.is_single_input else f"[{','.join(map(str, samples))}]"
        shown = {label: self._shown(kernel) for label, kernel in self.kernels.items()}
        at = "" if self.is_single_input else "[1,2]"
        kernels = "".join(
            f", with ⟨…⟩{label.removeprefix('K')} at {label}{at} = {kernel}"
            for label, kernel in shown.items()
        )
        right = readable(self._shown(self.expr))
        return lines.text(f"{name}{subscripts}({self.through.below.above}) = {right}{kernels}")

    def _shown(self, expr: sympy.Expr) -> sympy.Expr:
        """The printed form: with several inputs each average shows its sample."""
        return expr if self.is_single_input else with_samples(expr)


class Composed(NamedTuple):
    """A tensor behind a layer as a function of those before it, with the kernels of its brackets.

    Brackets of the layer's own activations also have that activation.
    """

    expr: sympy.Expr
    kernels: dict[str, sympy.Expr]
    sigmas: Mapping[str, Activation] = {}


def compose(step: Step, *, opened: bool = False) -> Composed:
    """The stages of a layer put into each other.

    A bracket's kernel is a tensor of a stage, and with it an expression in those of layer ℓ; where
    that is not K it is named, and stated beside the equation.

    Arguments:
        opened: keep brackets of the layer's own activations as brackets, named by their kernels.
    """
    stages = step.layer_stages
    if sum(bool(stage.scores) for stage in stages) > 1:
        wanted = "one attention in a layer, for one expression; those of its stages are in `stages`"
        raise InputError("layer", str(step.layer), wanted)
    named: dict[str, tuple[sympy.Expr, Activation | None]] = {}
    pair = (1, 1) if step.is_single_input else (1, 2)
    plain = symbols.K if step.is_single_input else Component("K", pair)

    @cache(entries=2**16)
    def behind(stage: int, atom: Tensor) -> sympy.Expr:
        """A tensor behind this stage, or of layer ℓ, −1."""
        name, samples = identify(atom)
        if stage < 0:
            return step.symbol(atom)
        made = replace(step, target=name, samples=samples, stage=stages[stage])
        return made.summed(step.is_single_input, partial(value, stage))

    def value(stage: int, atom: object) -> sympy.Expr:
        before = partial(behind, stage - 1)
        return read(
            atom,
            tensor=before,
            bracket=partial(average, stage),
            response=lambda function: function.at_limits(before),
            other=step.symbol,
        )

    @cache(entries=2**16)
    def average(stage: int, bracket: Bracket) -> sympy.Expr:
        own = stages[stage]
        kinds = own.argument_kinds
        kind = next(each for each in kinds if kernel_label(each) == bracket.kernel)

        def kernel(a: int, b: int) -> sympy.Expr:
            return behind(stage - 1, kernel_of(kind, kind, (a, b)))

        sigma = own.sigma_at(bracket.kernel, step.activation)
        if sigma is not None and not opened:
            return step.at_kernel(bracket, sigma, kernel)
        here = kernel(*pair)
        if here == plain and sigma is None:
            return unspecified(bracket._replace(kernel="K"))
        label = bracket.kernel if bracket.kernel != "K" else "K_z"
        while named.setdefault(label, (here, sigma)) != (here, sigma):
            label += "'"
        return unspecified(bracket._replace(kernel=label))

    top = tensor(step.target.fields, step.target.order, step.target.pairing, step._labels)
    expr = behind(len(stages) - 1, top)
    kernels = {label: kernel for label, (kernel, _) in named.items()}
    sigmas = {label: sigma for label, (_, sigma) in named.items() if sigma is not None}
    return Composed(expr, kernels, sigmas)
