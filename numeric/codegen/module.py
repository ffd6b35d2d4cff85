"""The parts of every emitted module of recursions: names, parameters, a docstring."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate
from typing import NamedTuple

import sympy

from derive.activations.functions import Activation
from derive.arithmetic.parameters import Parameter, Value
from derive.arithmetic.polynomials import Atom
from derive.engine.atoms import parameter_name, read
from derive.engine.factored import polynomial
from derive.engine.scheme import Scheme
from derive.engine.step import Step
from derive.engine.tensors import Tensor, identify
from derive.engine.through import Response
from derive.gaussian.brackets import Bracket
from derive.network import Pattern
from derive.symbols import PARAMETERS
from derive.weights import WeightEnsemble

from ..emit import modules, printer
from ..hyperparameters import KNOWN, symbols_of
from . import usage

ROUNDING = 1e-6
"""The relative error that means of inputs may have: more than the rounding of float32."""

Recursions = dict[str, Step]
"""By the tensor's identifier."""


class Group(NamedTuple):
    """The brackets of a stage and of one σ at one kernel, the tensor of this identifier."""

    stage: int
    kernel: str
    brackets: tuple[Bracket, ...]
    sigma: Activation


class Apart:
    """Renames what a piece of Python source defines at its top level.

    Arguments:
        source: the piece.
        suffix: put behind each name; "" changes nothing.
    """

    def __init__(self, source: str, suffix: str) -> None:
        names = {name for match in _DEFINED.finditer(source) for name in match.groups() if name}
        self._defined = re.compile(rf"\b({'|'.join(sorted(names)) or '(?!)'})\b")
        self._new = rf"\1{suffix}"
        self.source = self(source)

    def __call__(self, text: str) -> str:
        """The text with the new names."""
        return self._defined.sub(self._new, text)


_DEFINED = re.compile(r"^(?:def (\w+)|(\w+) =)", re.MULTILINE)


class Module:
    """The common part of modules of one and of several inputs.

    Arguments:
        layers: of each distinct layer the recursions through its stages; the dense one has one.
        first: those of layer 1.
        pattern: the schemes of these layers, and at which depths each stands.
        first_weights: the ensemble of layer 1.

    Attributes:
        stages: those of all layers, one after another.
        spans: of each layer the places of its stages among them.
    """

    decorator = ""

    def __init__(
        self,
        layers: Sequence[Sequence[Recursions]],
        first: Recursions,
        pattern: Pattern,
        first_weights: WeightEnsemble,
    ) -> None:
        self.first, self.pattern, self.first_weights = first, pattern, first_weights
        self.stages = tuple(stage for layer in layers for stage in layer)
        self.steps = self.stages[-1]
        ends = accumulate(map(len, layers))
        self.spans = [range(end - len(part), end) for end, part in zip(ends, layers, strict=True)]

    @property
    def layers(self) -> Sequence[tuple[str, Scheme, range]]:
        """Of each distinct layer the function that leads through it, its scheme and its stages."""
        several = len(self.spans) > 1
        ends = (f"_{1 + k}" if several else "" for k in range(len(self.spans)))
        names = [f"next_layer{end}" for end in ends]
        return tuple(zip(names, self.pattern.distinct, self.spans, strict=True))

    @property
    def least(self) -> int:
        """The smallest depth: all first and last layers."""
        return 1 + len(self.pattern.stem) + len(self.pattern.head)

    @property
    def demonstrated(self) -> int:
        """The depth of a demonstration."""
        return max(10, self.least)

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the first layers, of those that repeat, and of the last."""
        return (*self.pattern.stem, *self.pattern.block, *self.pattern.head)

    def lines(self, stage: int) -> Iterator[str]:
        """The lines that compute the tensors behind a stage."""
        raise NotImplementedError

    def _function(self, called: str, span: range) -> str:
        """The function that leads through one of the layers."""
        names, arguments = ", ".join(self.names), ", ".join(self.arguments)
        lines = [line for stage in span for line in self.lines(stage)]
        results = ", ".join(self.behind(span[-1], name) for name in self.names)
        body = "\n    ".join([f"def {called}({names}, {arguments}):", *lines, f"return {results},"])
        return f"{self.decorator}{body}\n"

    @property
    def drawn(self) -> dict[str, object]:
        """The variables of the templates of all modules."""
        first, last, block = self.place
        stem, head = len(self.pattern.stem), len(self.pattern.head)
        known = {"stem": stem, "head": head, "first": first, "last": last, "block": block}
        few = {"least": self.least}
        return {
            "kind": printer.filled(KIND, order=self.order, **known) if len(self.spans) > 1 else [],
            "check": printer.filled(TOO_FEW, **few) if self.least > 1 else [],
            "steps": "\n\n".join(self._function(name, span) for name, _, span in self.layers),
            "prelude": modules.PRELUDE,
            "averages": "\n\n".join(each.source for each in self.averages.values()),
            "tensors": self.names,
            "parameters": self.parameters,
            "names": ", ".join(self.names),
            "arguments": ", ".join(self.arguments),
            "means": ", ".join(self.means),
            "orders": tuple(self.means.values()),
            "at_first": ", ".join([*self.means, *(f"{name}[0]" for name in self.arguments)]),
            "demonstrated": ", ".join(usage.columns(self.parameters, self.demonstrated)),
        }

    @property
    def place(self) -> tuple[str, str, str]:
        """Where a layer stands in `order`: if among the first, among the last, or else."""
        stem, period, total = len(self.pattern.stem), len(self.pattern.block), len(self.order)
        return "layer - 1", f"{total} - depth + layer", f"{stem} + (layer - {1 + stem}) % {period}"

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
    def means(self) -> dict[str, int]:
        """The means over the inputs' entries that layer 1 needs, with their numbers of factors.

        Rotation-invariant weights need K0 = x·x/n_0 alone. Others also need M4 = Σ_k x_k⁴/n_0 and,
        beyond order 1/n, M6 and so on.
        """
        most = max(len(atom.samples) for atom in self._inputs)
        return {_mean(order): order for order in range(2, most + 1, 2)}

    @property
    def _inputs(self) -> set[Tensor]:
        """The means in the equations of layer 1."""
        return set().union(*(each.atoms(Tensor) for each in self.first.values()))

    @property
    def impossible(self) -> list[str]:
        """Conditions, in Python or C, that the means of one input do not meet.

        They are against E x^{r−4} E x^r ≥ (E x^{r−2})², apart from rounding.
        """
        middle, above = list(self.means), list(self.means)[1:]
        below = ["", *(f"{name}*" for name in middle)]
        triples = zip(below, middle, above, strict=False)
        return [f"{a}{c} < {1.0 - ROUNDING!r}*{b}*{b}" for a, b, c in triples]

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

    def at_inputs(self) -> dict[Atom, str]:
        """The name of each atom of the first layer's steps."""
        return {**self._atoms(), **{atom: _mean(len(atom.samples)) for atom in self._inputs}}

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The brackets of all steps, stage after stage and kernel after kernel."""
        groups = []
        for stage, steps in enumerate(self.stages):
            found = {atom for each in steps.values() for atom in each.atoms(Bracket)}
            kernels = {made.target.label: name for name, made in self.stages[stage - 1].items()}
            default = next(scheme.sigma for _, scheme, span in self.layers if stage in span)
            for label in sorted({each.kernel for each in found}):
                own = tuple(sorted(each for each in found if each.kernel == label))
                sigma = next(iter(steps.values())).sigma_at(label, default)
                groups.append(Group(stage, self.before(stage, kernels[label]), own, sigma))
        return tuple(groups)

    @cached_property
    def sigmas(self) -> tuple[Activation, ...]:
        """Each activation that is averaged; the network's own where there is no average."""
        found = tuple(dict.fromkeys(group.sigma for group in self.groups))
        return found or (self.pattern.distinct[0].sigma,)

    @cached_property
    def suffixes(self) -> dict[Activation, str]:
        """The suffixes of the names of each activation's averages: a number, of several."""
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
        """The name in the source of a tensor behind this stage."""
        return f"{name}_behind_{1 + stage}"

    def before(self, stage: int, name: str) -> str:
        """The name of a tensor before this stage: of layer l, behind which a layer starts, T."""
        within = any(stage in span[1:] for span in self.spans)
        return self.behind(stage - 1, name) if within else name

    def tensors_before(self, stage: int) -> list[str]:
        """The names of the tensors before this stage, in their order."""
        return [self.before(stage, name) for name in self.stages[stage - 1]]

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
        weights = type(self.pattern.distinct[0].weights).__name__
        lines = [
            f"{', '.join(self.names)} of a network with {self.sigma_names}, layer by layer.",
            "",
            f"weights: {weights}; first layer: {type(self.first_weights).__name__};",
            *(f"activation: {sigma.expr}" for sigma in self.sigmas),
            *(line for text in self.shown for line in textwrap.wrap(text, 96)),
            "",
            *self.usage(),
            "",
            *self.examples(),
            "",
            "At layer l+1, in terms of layer l:"
            if len(self.stages) == len(self.spans)
            else "Through the stages of layer l+1, each in terms of the one before:",
            *(line for name, _, span in self.layers for line in self._of_layer(name, span)),
            f"At layer 1, in terms of the inputs' {', '.join(self.defined)}:",
            *self.equations(self.first),
            "",
            "V is n times the connected four-point function; K + G1/n is the metric at width n.",
            "C_W and C_b are variances: E[W_ij^2] = C_W/n_in, E[b_i^2] = C_b.",
            "r_in = n_in/n; r_big = max(n_in, n_out)/n is 1 in the first layer if n_0 <= n.",
            "",
            f"Generated by wickgarten {version('wickgarten')}; content {digest}.",
        ]
        return "\n".join(lines).replace("\\", "\\\\") + "\n"

    def _of_layer(self, name: str, span: range) -> list[str]:
        """The equations of one layer, behind its name if there are several."""
        head = [f"  {name}:"] if len(self.spans) > 1 else []
        return head + [line for stage in span for line in self.equations(self.stages[stage])]

    @property
    def shown(self) -> list[str]:
        """The layers, and where each stands if they are several."""
        if len(self.spans) == 1:
            return [f"layer: {each.layer}" for _, each, _ in self.layers if each.layer is not None]
        found = [
            f"{name}: {each.layer or 'dense()'} of {each.sigma.name}"
            for name, each, _ in self.layers
        ]
        names = [self.layers[number][0] for number in self.order]
        stem, head = len(self.pattern.stem), len(self.pattern.head)
        names[stem : len(names) - head] = [f"({'; '.join(names[stem : len(names) - head])})*"]
        return [*found, f"layers 2, 3, ...: {'; '.join(names)}"]

    def equations(self, recursions: Recursions) -> list[str]:
        """The recursions as the engine prints them, one a paragraph."""
        names = {f"{identify(atom)[0].label}0": _mean(len(atom.samples)) for atom in self._inputs}

        def printed(made: Step) -> str:
            text = " ".join(str(made).split())
            for label, name in names.items():
                text = text.replace(label, name)
            return text

        return [
            line
            for each in recursions.values()
            for line in textwrap.wrap(
                printed(each), 96, initial_indent="    ", subsequent_indent=" " * 8
            )
        ]

    @property
    def defined(self) -> list[str]:
        """The equations of the inputs' means."""
        products = {name: " ".join(["x_k"] * order) for name, order in self.means.items()}
        more = [f"{name} = sum_k {product}/n_0" for name, product in products.items()]
        return ["K0 = x.x/n_0", *more[1:]]

    def usage(self) -> list[str]:
        """How to call the module."""
        raise NotImplementedError

    def examples(self) -> list[str]:
        """Calls from Python, from compiled code and from a GPU, where that can be."""
        raise NotImplementedError


KIND = """\

ORDER = $order


@scalar
def kind_of(layer: int, depth: int):
    if layer <= $stem:
        return ORDER[$first]
    if depth - layer <= $head:
        return ORDER[$last]
    return ORDER[$block]

"""
"""The number of the function that leads from layer l to l + 1 in a network of this depth."""

TOO_FEW = """\
if C_W.size < $least:
    raise ValueError("a depth below $least: first and last layers would meet")
"""


def _mean(order: int) -> str:
    """The name of a mean over the inputs' entries of products of so many."""
    return "K0" if order == 2 else f"M{order}"


def right_side(made: Step, symbols: Mapping[Atom, sympy.Symbol]) -> sympy.Expr:
    """A recursion's right-hand side in these symbols."""
    parameters = {
        PARAMETERS[parameter_name(atom)]: symbol
        for atom, symbol in symbols.items()
        if parameter_name(atom) in PARAMETERS
    }

    def symbol(atom: object) -> sympy.Expr:
        return read(
            atom,
            value=lambda own: own.expr.xreplace(parameters),
            response=lambda own: own.value.xreplace({s: symbols[t] for s, t in own.limits}),
            other=symbols.__getitem__,
        )

    return polynomial(made.terms, symbol)


def tensors_of(made: Step) -> set[Tensor]:
    """The tensors in a recursion, those that its functions are taken at included."""
    limits = {limit for atom in made.atoms(Response) for _, limit in atom.limits}
    return made.atoms(Tensor) | limits
