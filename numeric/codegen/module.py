"""What every emitted module of recursions has: names, parameters, a docstring."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import NamedTuple

import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom
from derive.engine.factored import polynomial
from derive.engine.scheme import Layered
from derive.engine.step import Step
from derive.engine.tensors import Tensor
from derive.engine.through import Response
from derive.gaussian.brackets import Bracket
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble

from ..emit import printer
from ..emit.naming import Apart
from ..hyperparameters import KNOWN, symbols_of

Recursions = dict[str, Step]
"""By the tensor's identifier."""


class Group(NamedTuple):
    """The brackets of a stage and of one σ at one kernel, the tensor of this identifier."""

    stage: int
    kernel: str
    brackets: tuple[Bracket, ...]
    sigma: Activation


class Module:
    """What the modules of one and of several inputs share.

    Arguments:
        stages: the recursions through each stage of the layer; the dense one has one.
        first: those of layer 1.
        activation: σ, where the layer has none of its own.
        ensembles: the weights' of hidden layers, and of layer 1.
        layer: what the network repeats, None for the dense layer.
    """

    def __init__(
        self,
        stages: Sequence[Recursions],
        first: Recursions,
        activation: Activation,
        ensembles: tuple[WeightEnsemble, WeightEnsemble],
        layer: Layered | None = None,
    ) -> None:
        self.stages, self.steps, self.first = tuple(stages), stages[-1], first
        self.activation, self.ensembles, self.layer = activation, ensembles, layer

    def text(self) -> str:
        """The whole module."""
        body = self.source()
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        return f'"""{self.header(digest)}"""\n\n{body}'

    def source(self) -> str:
        """The module after its docstring."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors, in the order of every tuple of them."""
        return tuple(self.steps)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The hyperparameters that occur, in the order in which they are passed."""
        steps = [each for stage in (*self.stages, self.first) for each in stage.values()]
        found = {atom.name for each in steps for atom in each.atoms(Parameter)}
        values = {atom for each in steps for atom in each.atoms(Value)}
        found |= {symbol.name for value in values for symbol in value.expr.free_symbols}
        return tuple(sorted({"C_W", "C_b", *found}))

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Their names in the source: a symbol of a user's equation may be called a, m or out."""
        fields = {field for made in self.steps.values() for field in made.target.fields}
        own = symbols_of(fields) - KNOWN
        return tuple(f"own_{name}" if name in own else name for name in self.parameters)

    def _atoms(self) -> dict[Atom, str]:
        return {
            Parameter(name): argument
            for name, argument in zip(self.parameters, self.arguments, strict=True)
        }

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The brackets of all steps, stage after stage and kernel after kernel."""
        groups = []
        for stage, steps in enumerate(self.stages):
            found = {atom for each in steps.values() for atom in each.atoms(Bracket)}
            kernels = {made.target.label: name for name, made in self.stages[stage - 1].items()}
            for label in sorted({each.kernel for each in found}):
                own = tuple(sorted(each for each in found if each.kernel == label))
                sigma = next(iter(steps.values())).sigma_at(label, self.activation)
                groups.append(Group(stage, self.behind(stage - 1, kernels[label]), own, sigma))
        return tuple(groups)

    @cached_property
    def sigmas(self) -> tuple[Activation, ...]:
        """Each activation that is averaged; the network's own where there is no average."""
        return tuple(dict.fromkeys(group.sigma for group in self.groups)) or (self.activation,)

    @cached_property
    def suffixes(self) -> dict[Activation, str]:
        """What stands behind the names of each activation's averages: a number, of several."""
        several = len(self.sigmas) > 1
        return {s: f"_{k}" if several else "" for k, s in enumerate(self.sigmas, start=1)}

    @cached_property
    def averages(self) -> dict[Activation, Apart]:
        """The source of each activation's averages."""
        suffixes = self.suffixes.items()
        return {sigma: Apart(self.averages_of(sigma), suffix) for sigma, suffix in suffixes}

    def averages_of(self, sigma: Activation) -> str:
        """The source of the averages of one activation."""
        raise NotImplementedError

    def behind(self, stage: int, name: str) -> str:
        """What a tensor behind this stage is called in the source; −1 for those of layer l."""
        return name if stage < 0 else f"{name}_behind_{1 + stage}"

    def tensors_before(self, stage: int) -> list[str]:
        """What the tensors before this stage are called, in their order."""
        return [self.behind(stage - 1, name) for name in self.stages[stage - 1]]

    def expression(self, made: Step, names: dict[Atom, str]) -> str:
        """The right-hand side as Python source, each atom printed as `names` says."""
        expr, printed = self._printable(made, names)
        return printer.expression(expr, printed)

    def terms(self, made: Step, names: dict[Atom, str]) -> tuple[str, list[str]]:
        """The same as a factor, and the terms of the sum that it multiplies."""
        expr, printed = self._printable(made, names)
        sums = [factor for factor in sympy.Mul.make_args(expr) if factor.is_Add]
        total = sums[0] if len(sums) == 1 else expr
        return printer.expression(expr / total, printed), [
            printer.expression(term, printed) for term in total.as_ordered_terms()
        ]

    def _printable(
        self, made: Step, names: dict[Atom, str]
    ) -> tuple[sympy.Expr, dict[sympy.Symbol, str]]:
        """The right-hand side, and how its symbols are printed."""
        in_order = sorted(names, key=lambda atom: names[atom])  # not by hashes: the text is a key
        symbols = {  # terms are sorted by these names, and a count of dummies has no fixed length
            atom: sympy.Dummy(f"x{place:04d}", real=True) for place, atom in enumerate(in_order)
        }
        printed = {symbol: names[atom] for atom, symbol in symbols.items()}
        return right_side(made, symbols), printed

    @property
    def sigma_names(self) -> str:
        """The names of the activations."""
        return ", ".join(sigma.name for sigma in self.sigmas)

    def header(self, digest: str) -> str:
        """The docstring: what is computed, from which network, and how to call it."""
        weights, first = self.ensembles
        lines = [
            f"{', '.join(self.names)} of a network with {self.sigma_names}, layer by layer.",
            "",
            f"weights: {type(weights).__name__}; first layer: {type(first).__name__};",
            *(f"activation: {sigma.expr}" for sigma in self.sigmas),
            *([] if self.layer is None else textwrap.wrap(f"layer: {self.layer}", 96)),
            "",
            *self.usage(),
            "",
            *self.examples(),
            "",
            "At layer l+1, in terms of layer l:"
            if len(self.stages) == 1
            else "Through the stages of layer l+1, each in terms of the one before:",
            *(line for stage in self.stages for line in self.equations(stage)),
            "At layer 1, in terms of the inputs' K0 = x.x/n_0:",
            *self.equations(self.first),
            "",
            "V is n times the connected four-point function; K + G1/n is the metric at width n.",
            "C_W and C_b are variances: E[W_ij^2] = C_W/n_in, E[b_i^2] = C_b.",
            "r_in = n_in/n; r_big = max(n_in, n_out)/n is 1 in the first layer if n_0 <= n.",
            "",
            f"Generated by wickgarten {version('wickgarten')}; content {digest}.",
        ]
        return "\n".join(lines).replace("\\", "\\\\") + "\n"

    def equations(self, recursions: Recursions) -> list[str]:
        """The recursions as the engine prints them, one a paragraph."""
        return [
            line
            for each in recursions.values()
            for line in textwrap.wrap(
                " ".join(str(each).split()), 96, initial_indent="    ", subsequent_indent=" " * 8
            )
        ]

    def usage(self) -> list[str]:
        """How to call the module."""
        raise NotImplementedError

    def examples(self) -> list[str]:
        """Calls from Python, from compiled code and from a GPU, where that can be."""
        raise NotImplementedError


def right_side(made: Step, symbols: Mapping[Atom, sympy.Symbol]) -> sympy.Expr:
    """A recursion's right-hand side in these symbols."""
    parameters = {
        PARAMETERS[atom.name]: symbol
        for atom, symbol in symbols.items()
        if isinstance(atom, Parameter) and atom.name in PARAMETERS
    }

    def symbol(atom: object) -> sympy.Expr:
        if isinstance(atom, Value):
            return atom.expr.xreplace(parameters)
        if isinstance(atom, Response):
            return atom.value.xreplace({name: symbols[limit] for name, limit in atom.limits})
        return symbols[atom]

    return polynomial(made.terms, symbol)


def tensors_of(made: Step) -> set[Tensor]:
    """The tensors in a recursion, those that its functions are taken at included."""
    limits = {limit for atom in made.atoms(Response) for _, limit in atom.limits}
    return made.atoms(Tensor) | limits
