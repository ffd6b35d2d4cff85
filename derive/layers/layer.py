"""A layer by its equations: what a network repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import sympy
from numpy.typing import ArrayLike

from ..activations.functions import Activation, as_activation
from ..engine.scores import Table, as_table
from ..engine.skips import is_skip
from ..engine.stages import DENSE, Stage
from ..engine.taps import ALONE, Taps, each_alone
from ..engine.trees import ABOVE
from ..errors import InputError, as_sequence
from ..expressions import as_expression
from ..symbols import C_W
from ..weights import WeightEnsemble, as_weights
from ..work.caches import cache
from .assembly import Assembly, Given
from .notation import PARAMETER, SIGMA, WANTED, functions_in, parse

Values = tuple[tuple[str, sympy.Expr], ...]


Before = TypeVar("Before")


@dataclass(frozen=True, init=False, repr=False)
class Layer:
    """A layer, written down as equations that are read one after another.

        Layer(
            "q = z[a] z[a]/n",
            "y[i] = z[i]/sqrt(q + eps)",
            "h[i] = W1[i,a] y[a]",
            "z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a])",
            gamma=1, eps="1e-5", C={"W1": 2}, ratio={"h": 4},
        )

    | in an equation | meaning |
    |---|---|
    | W, W1, W2, … | independent matrices with the network's law, or that of `weights` |
    | b[i] | biases of variance C_b, independent in each equation |
    | b1[i], b2[i], … | more biases, whose variances `C` may set |
    | s(h[a]) | σ, the network's activation, or that of `activations` |
    | tanh(h[a]) | an activation, by its name |
    | a letter in brackets that is not on the left | is summed over |
    | a name without brackets | a collective variable (a mean over neurons), or another symbol |
    | c[t,s] = q[a,t] k[a,s]/n | scores of positions t and s; q[a,t:4] and k[a,s:4] of 4 heads |
    | softmax_s(c[t,s] + B[t,s]) v[a,s] | a sum over positions s, B a table; other functions too |
    | shaped_s(c[t,s] + B[t,s]) v[a,s] | the same with 1 + softmax(c + B) − softmax(B) |
    | y[i;s] = … mean_s(…) | a function of all samples at a neuron; mean_s is their mean |
    | z | the input of the layer, and its output |

    Arguments:
        lines: the equations.
        C: variances of matrices and of biases b1, b2, …; the defaults are the network's.
        weights: laws of matrices, {"W1": "uniform"}, or one law for all; the default is the
            network's law. A law given by name has the C_W in its text, or that of C, or the
            network's.
        activations: functions for names in the equations, {"s": "gelu", "phi": "tanh"}, or one for
            s. By default s is the network's activation.
        ratio: widths over n of the variables that do not have n neurons.
        variances, ratios, laws, functions: C, ratio, weights and activations, in pairs.
        label: what `str` shows.
        taps: the positions that a matrix reads, by the names of matrices of convolutions.
        readout: the layer that is measured in place of this one, as with `layers.pooling`.
        tapped, readouts: taps in pairs, and readout as a tuple of one or none.
        keep: chances p, by matrices: dropout of the σ that a matrix multiplies (`layers.dropout`).
        tables: fixed tables over positions that are added to scores, {"B": array}, −inf where a
            position is masked.
        positions: of a signal, or along each axis of an image, where neither taps nor a
            convolution before it say how many.
        values: of the symbols; those that are left out stay symbols, and stand for numbers above 0.

    Raises InputError for what is no such equation, and with the reason for what is not invariant
    under rotations of the neurons, unless it is a skip around one matrix (`skip`), for a collective
    variable that may vanish under a root or under a fraction, and for skips between unequal widths.

    >>> Layer("z[i] = b[i] + W[i,a] s(z[a])").is_dense
    True
    """

    lines: tuple[str, ...]
    values: Values
    variances: Values
    ratios: Values
    label: str | None = field(compare=False)
    tapped: tuple[tuple[str, Taps], ...]
    readouts: tuple[Layer, ...]
    keep: Values
    laws: tuple[tuple[str, WeightEnsemble], ...]
    functions: tuple[tuple[str, Activation], ...]
    tables: tuple[tuple[str, Table], ...]

    def __init__(
        self,
        *lines: str,
        C: Mapping[str, object] | None = None,
        ratio: Mapping[str, object] | None = None,
        weights: Mapping[str, WeightEnsemble | str] | WeightEnsemble | str | None = None,
        activations: Mapping[str, Activation | str] | Activation | str | None = None,
        label: str | None = None,
        taps: Mapping[str, Taps] | None = None,
        readout: Layer | None = None,
        keep: Mapping[str, object] | None = None,
        tables: Mapping[str, ArrayLike] | None = None,
        positions: int | Sequence[int] | None = None,
        **values: object,
    ) -> None:
        """See the class."""
        if not lines or not all(isinstance(line, str) for line in lines):
            raise InputError("layer", lines, WANTED)
        object.__setattr__(self, "lines", tuple(lines))
        object.__setattr__(self, "values", _checked(values))
        given_variances = dict(_checked(C or {}, least=0))
        if unknown := sorted(given_variances.keys() - {*self.parameter_names}):
            known = ", ".join(self.parameter_names) or "none"
            raise InputError("C", unknown, f"matrices of the layer, or biases b1, …: {known}")
        laws, variances = _laws(weights, given_variances, self.matrix_names)
        object.__setattr__(self, "variances", variances)
        object.__setattr__(self, "laws", laws)
        object.__setattr__(self, "functions", _functions(activations))
        object.__setattr__(self, "ratios", _checked(ratio or {}, least=0, strict=True))
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "tapped", _taps(taps or {}, self.matrix_names, positions))
        found = ((name, as_table(each)) for name, each in sorted((tables or {}).items()))
        object.__setattr__(self, "tables", tuple(found))
        object.__setattr__(self, "readouts", () if readout is None else (readout,))
        object.__setattr__(self, "keep", _chances(keep or {}, self.matrix_names))
        assert self.stages

    @property
    def given(self) -> Given:
        """The arguments that it is made with, besides the equations, label and readout."""
        own = (self.values, self.variances, self.ratios, self.laws, self.functions)
        return Given(*map(dict, (*own, self.keep, self.tapped, self.tables)))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The layer as the engine takes it: polynomials, one matrix or none between two of them."""
        return _assembled(self)[0]

    @property
    def why_not(self) -> str | None:
        """Why rotations of the neurons do not keep its law; None where they do."""
        return _assembled(self)[1]

    @property
    def is_rotation_invariant(self) -> bool:
        """True if rotations of the neurons keep its law."""
        return self.why_not is None

    @property
    def equations(self) -> tuple[tuple[Stage, ...], tuple[Layer, ...]]:
        """The stages of the layer and of its readout, whatever their names."""
        return self.stages, self.readouts

    @property
    def is_dense(self) -> bool:
        """True if it is z' = b + W σ(z), at each position if there are some, and read out there."""
        return self.equations == ((DENSE,), ())

    @property
    def staged(self) -> Layer | None:
        """Itself, or None for the dense layer, whose recursions need no layer to be named."""
        return None if self.is_dense else self

    @property
    def is_bound(self) -> bool:
        """True if the layer has activations or laws of its own."""
        return any(stage.is_bound for stage in self.stages)

    def read_by(self, readouts: tuple[Layer, ...]) -> Layer:
        """The same layer with this readout, or none."""
        made = copy(self)
        object.__setattr__(made, "readouts", readouts)
        return made

    @property
    def input_axes(self) -> tuple[int, ...]:
        """The axes of an input before its numbers: the positions of a signal."""
        return next((taps.shape for _, taps in self.tapped), ())

    @property
    def measured(self) -> Layer:
        """The layer that is measured: its readout if it has one, else itself."""
        return next(iter(self.readouts), self)

    @property
    def output_axes(self) -> tuple[int, ...]:
        """The axes along which an input is measured: its positions, unless it is read out."""
        return self.measured.axes_behind(())

    def measured_axes(self, depth: int) -> tuple[int, ...]:
        """The same in a network of this depth of which it is the layer."""
        return measured_axes(self.readouts, self.axes(depth)[-1])

    def axes_behind(self, before: Before) -> Before | tuple[int, ...]:
        """The axes of a signal's positions behind the layer, given those before it."""
        return next((taps.into for _, taps in self.tapped[-1:]), before)

    def check_without_readout(self, wanted: str) -> None:
        """Raise InputError, with what is wanted instead, for a layer with a readout."""
        if self.readouts:
            raise InputError("layer", str(self), wanted)

    def axes(self, depth: int) -> tuple[tuple[int, ...], ...]:
        """The axes of the positions behind layers 1 … depth of a network of which it is the layer;
        those of one layer, where all have the same.

        Raises InputError if it changes them and there is more than one such layer.
        """
        before, behind = self.input_axes, self.axes_behind(())
        if before != behind and depth > 2:
            wanted = f"a layer that keeps a signal's positions, or '{self}*1' and depth 2"
            raise InputError("layer", str(self), wanted)
        return (before,) if before == behind else (before, behind)[:depth]

    def at(self, layer: int, depth: int) -> Layer:
        """Itself: a network of which it is the layer has it at every depth."""
        return self

    @property
    def matrix_names(self) -> tuple[str, ...]:
        """The names of its matrices, each once."""
        return tuple(name for name in self.parameter_names if name[0] == "W")

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of its matrices and of biases other than b, each once."""
        return tuple(dict.fromkeys(PARAMETER.findall(" ".join(self.lines))))

    @property
    def matrices(self) -> int:
        """How many matrices it has."""
        return sum(len(stage.matrices) for stage in self.stages)

    @property
    def keeps_width(self) -> bool:
        """True if z has as many neurons behind it as before, as a skip needs."""
        return all(matrix.out != ABOVE for stage in self.stages for matrix in stage.matrices)

    @cached_property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols that are no numbers yet."""
        values = (value for stage in self.stages for value in stage.symbols)
        return {symbol for value in values for symbol in value.free_symbols}

    @property
    def identity(self) -> str:
        """The text that identifies the layer, whatever the names of it and of its functions."""
        functions = tuple((name, each.expr) for name, each in self.functions)
        numbers = self.values, self.variances, self.ratios, functions, self.keep
        exact = [[(name, sympy.srepr(each)) for name, each in given] for given in numbers]
        readout = next((each.identity for each in self.readouts), None)
        return f"{self.lines} {exact} {self.laws!r} {self.tapped!r} {readout}{self.tables or ''}"

    def __str__(self) -> str:
        return self.label or repr(self)

    def __repr__(self) -> str:
        if self.label:
            return self.label
        parts = [repr(line) for line in self.lines]
        parts += [f"{name}={value}" for name, value in self.values]
        for name, own in self.given._replace(values={})._asdict().items():
            if own:
                parts.append(f"{name}={{{', '.join(f'{k!r}: {v}' for k, v in own.items())}}}")
        parts += [f"readout={readout!r}" for readout in self.readouts]
        return f"Layer({', '.join(parts)})"


def measured_axes(readouts: Sequence[Layer], behind: tuple[int, ...]) -> tuple[int, ...]:
    """The axes along which an input is measured, if the positions have these and are read out."""
    return next((each.axes_behind(behind) for each in readouts), behind)


@cache
def _assembled(layer: Layer) -> tuple[tuple[Stage, ...], str | None]:
    """The stages, and why they are not invariant."""
    functions = dict(layer.functions)
    statements = [parse(line, functions) for line in layer.lines]
    used = {name for each in statements for name in functions_in(each)}
    if unknown := sorted(functions.keys() - used):
        known = ", ".join(sorted(used)) or "none"
        raise InputError("activations", unknown, f"functions in the layer's equations, {known}")
    wrong: list[InputError] = []
    for opened in (False, True):
        made = Assembly(statements, layer.given, opened=opened)
        stages, wrong = made.stages(), made.asymmetries
        if not wrong or (not layer.keep and (opened or is_skip(stages))):
            return stages, next((each.wanted for each in wrong), None)
    raise wrong[0]


def _taps(
    given: Mapping[str, Taps], names: Sequence[str], positions: int | Sequence[int] | None
) -> tuple[tuple[str, Taps], ...]:
    """Taps of matrices, ordered as in the equations; the first has all positions by default."""
    if not isinstance(given, Mapping) or not given.keys() <= set(names):
        raise InputError("taps", given, f"taps by matrices, {', '.join(names)}")
    known = {} if positions is None else dict.fromkeys(names[:1], each_alone(positions))
    known |= {name: taps for name, taps in given.items() if taps != ALONE}
    return tuple((name, known[name]) for name in names if name in known)


def _laws(
    given: Mapping[str, WeightEnsemble | str] | WeightEnsemble | str | None,
    variances: dict[str, sympy.Expr],
    names: Sequence[str],
) -> tuple[tuple[tuple[str, WeightEnsemble], ...], Values]:
    """The standard laws of matrices with a law of their own, and all given variances."""
    every = dict.fromkeys(names)
    laws = given if isinstance(given, Mapping) else dict.fromkeys(every, given)
    found = []
    for name, law in sorted(laws.items()):
        if law is None:
            continue
        if name not in every:
            raise InputError("weights", name, f"matrices of the layer, {', '.join(every)}")
        own = as_weights("weights", law)
        if own.is_scaled or not isinstance(law, str):
            if name in variances and own.C_W not in (1, variances[name]):
                raise InputError(
                    "C", variances[name], f"none for {name}: its law already has a C_W"
                )
            variances.setdefault(name, own.C_W)
        found.append((name, own.unit_variance))
    given_numbers = ((name, value) for name, value in variances.items() if value != C_W)
    return tuple(found), tuple(sorted(given_numbers))


def _functions(
    given: Mapping[str, Activation | str] | Activation | str | None,
) -> tuple[tuple[str, Activation], ...]:
    return tuple(
        (name, as_activation(each, "activations"))
        for name, each in sorted(as_sigma(given).items())
        if each is not None
    )


def as_sigma(
    given: Mapping[str, Activation | str] | Activation | str | None,
) -> dict[str, Activation | str]:
    """Activations by their names in the equations."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    return {SIGMA: given}


def variances_of(
    C: Sequence[object] | None, names: Sequence[str], wanted: str
) -> dict[str, object]:
    """C by the names of matrices; InputError unless it is None or has one for each, in order."""
    values = () if C is None else as_sequence("C", C, wanted)
    if C is not None and (len(values) != len(names) or isinstance(C, Set | Mapping)):
        raise InputError("C", C, wanted)
    return dict(zip(names, values, strict=False))


def _chances(given: Mapping[str, object], names: Sequence[str]) -> Values:
    """The chances of dropout, by matrices."""
    found = _checked(given, least=0, strict=True)
    known = {name for name, _ in found} <= set(names)
    if not known or any(value.is_number and value > 1 for _, value in found):
        raise InputError("keep", given, f"chances in (0, 1] by matrices, {', '.join(names)}")
    return found


def _checked(given: Mapping[str, object], least: int | None = None, strict: bool = False) -> Values:
    """Finite real numbers, or expressions, whose symbols are taken to be positive."""
    found = []
    if not isinstance(given, Mapping):
        raise InputError("layer", given, 'a mapping, such as {"W1": 2}')
    for name, value in sorted(given.items()):
        wanted = "a finite real number, or an expression with symbols"
        wanted += "" if least is None else f", {'above' if strict else 'at least'} {least}"
        expr = as_expression(name, value, wanted)
        unsigned = (symbol for symbol in expr.free_symbols if symbol.is_positive is None)
        expr = expr.subs({each: sympy.Symbol(each.name, positive=True) for each in unsigned})
        if least is not None and (expr.is_negative or (strict and expr.is_zero)):
            raise InputError(name, value, wanted)
        found.append((name, expr))
    return tuple(found)
