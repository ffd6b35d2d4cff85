"""A model's arithmetic with values that say how they came about: what a framework's reader runs.

A value of one entry per neuron is a function of one node's entries and of means over them,
f(u_i; Σ_j u_j/n, Σ_j u_j²/n); so are chains of scalar operations one function, and norms are found
in the arithmetic that a model spells out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import sympy

from derive.activations.functions import Activation
from derive.engine.taps import ALONE, Taps
from derive.errors import InputError
from derive.symbols import z

from . import functions, signals
from .factors import absorb
from .graph import (
    Applied,
    Given,
    Graph,
    Inputs,
    Linear,
    Node,
    Norm,
    Part,
    Pooled,
    Product,
    Rows,
    Sum,
)

_MEAN = sympy.Symbol("_mean", real=True)
_SQUARE = sympy.Symbol("_square", positive=True)
_OF_BATCH = sympy.Symbol("_mean_s", real=True), sympy.Symbol("_square_s", positive=True)
_MEANS = (_MEAN, _SQUARE, *_OF_BATCH)
"""Means of a layer and of its square: over the neurons, or over the inputs of a batch."""


@dataclass(frozen=True)
class Neurons:
    """f(u_i; m, q) for the entries u of a node.

    Attributes:
        form: how the axes of a signal lie, if they are not as its framework has them: "turned",
            the channels first or last instead, or "flat", one axis.
    """

    node: int
    expr: sympy.Expr = z
    form: str = ""


@dataclass(frozen=True)
class Collective:
    """f(m, q), one number for all neurons."""

    node: int
    expr: sympy.Expr


@dataclass(frozen=True)
class Beside:
    """Values side by side, of which a matrix has columns for each."""

    parts: tuple[Neurons, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter times a number.

    Attributes:
        path: its own.
        value: in one initialization, without the number; of a matrix (out, in), of a filter (out,
            in, *size).
        turned: whether the model holds the matrix as (in, out).
        scale: the number.
        is_fixed: whether it is a buffer, the same in every initialization.
    """

    path: str
    value: Any
    turned: bool = False
    scale: sympy.Expr = sympy.S.One
    is_fixed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the value."""
        return tuple(np.shape(self.value))

    @property
    def T(self) -> Parameter:
        """The transposed matrix."""
        return replace(self, value=np.swapaxes(self.value, -1, -2), turned=not self.turned)

    def times(self, factor: sympy.Expr) -> Parameter:
        """A multiple."""
        return replace(self, scale=factor * self.scale)


@dataclass(frozen=True)
class Matrices:
    """Σ_k of products of matrices, as W + c B A is."""

    terms: tuple[tuple[Parameter, ...], ...]

    @property
    def T(self) -> Matrices:
        """The transposed matrix."""
        return Matrices(tuple(tuple(each.T for each in reversed(term)) for term in self.terms))

    def times(self, factor: sympy.Expr) -> Matrices:
        """A multiple."""
        return Matrices(tuple((first.times(factor), *rest) for first, *rest in self.terms))

    def __add__(self, other: Matrices) -> Matrices:
        return Matrices(self.terms + other.terms)

    def __matmul__(self, other: Matrices) -> Matrices:
        return Matrices(tuple(a + b for a in self.terms for b in other.terms))


def parts_of(u: Value) -> tuple[Value, ...]:
    """The values that lie side by side, or the only one."""
    return u.parts if isinstance(u, Beside) else (u,)


def beside(values: Iterable[Value]) -> Beside:
    """Layers side by side, those that are parts already among the others.

    Raises UnreadableError for what is no layer.
    """
    parts = [part for each in values for part in parts_of(each)]
    layers = tuple(each for each in parts if isinstance(each, Neurons))
    if len(layers) < len(parts):
        raise UnreadableError("values side by side that are no layers")
    return Beside(layers)


def as_matrices(value: object) -> Matrices:
    """A matrix, as the only term of a sum. Raises UnreadableError for what is none."""
    if isinstance(value, Matrices):
        return value
    if not isinstance(value, Parameter) or len(value.shape) != 2:
        raise UnreadableError("a product of matrices that are no parameters")
    return Matrices(((value,),))


Value: TypeAlias = Neurons | Beside | Collective | Parameter | Matrices | sympy.Expr


class UnreadableError(Exception):
    """An error for a part that cannot be read, and why: a reader adds where."""


class Tracer:
    """Builds the graph of a model as its operations are called, one by one."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.origin: Hashable = None
        self.where = "model"
        self.given: tuple[int, ...] = ()  # the shape of the inputs, channels before positions
        self.channels_last = False
        self.count = 0  # of the inputs that were given, if `given` is without it
        self.inputs_last = False
        self._made_nodes: dict[tuple[int, sympy.Expr], int] = {}
        self._functions: list[Activation] = []
        self._values: dict[str, Any] = {}
        self._made_rows: dict[tuple[int, int, int], int] = {}
        self._split: set[int] = set()

    @property
    def behind(self) -> str:
        """The form of signals whose neurons are behind the positions."""
        return "" if self.channels_last else "turned"

    # operations

    def linear(self, u: Value, weight: Value, bias: Parameter | None) -> Neurons:
        """W u, or b + W u."""
        if isinstance(weight, Matrices):
            return self._sum_of_products(u, weight, bias)
        if not isinstance(weight, Parameter) or weight.value.ndim != 2:
            told = (
                f"{weight.path}, of shape {weight.shape}" if isinstance(weight, Parameter) else "it"
            )
            raise UnreadableError(f"a product with {told}")
        if weight.is_fixed:
            raise UnreadableError(
                f"a matrix {weight.path} that is a buffer, and never drawn: make it a parameter, "
                "or apply it to the inputs before the first matrix and give inputs="
            )
        fan_out, fan_in = weight.shape
        if isinstance(u, Beside):
            counts = [self._count(each) for each in u.parts]
            if sum(counts) != fan_in:
                raise UnreadableError(f"a matrix of {fan_in} columns on {sum(counts)} neurons")
            return self._part_by_part(self.linear, u, counts, weight, bias)
        u = self._by_rows(u)
        source, form = self.node(u), u.form if isinstance(u, Neurons) else ""
        shape, width = self.graph.shapes[source], self.graph.widths[source]
        is_flat = bool(shape) and form == "flat"
        taps = signals.flat(shape) if is_flat else ALONE
        columns = width * taps.count
        if width and columns != fan_in:
            raise UnreadableError(f"a matrix of {fan_in} columns on {columns} neurons")
        if self._base(source) == 0:
            self.graph.widths[0] = width or fan_in
        self._keep(weight)
        made = Linear(source, weight.path, None, fan_in, fan_out, weight.scale, taps=taps)
        at = self.graph.add(made, fan_out, self.origin)
        found = Neurons(at, form="" if is_flat else form)
        return found if bias is None else self.shifted(found, bias)

    def embedded(self, table: Any, weight: Value) -> Neurons:
        """The rows of a fixed table times a matrix, one at each position: embeddings of these."""
        if not isinstance(weight, Parameter) or weight.is_fixed or np.ndim(weight.value) != 2:
            raise UnreadableError("a fixed table times what is no matrix")
        rows = tuple(map(tuple, np.asarray(table, float).tolist()))
        source = self.graph.add(Given(rows), weight.shape[1], self.origin)
        return self.linear(Neurons(source, form=self.behind), weight, None)

    def at_positions(self, given: Value) -> Neurons | None:
        """A parameter (…, T, n), or a fixed table times a matrix, as a layer of T positions."""
        if isinstance(given, Matrices) and len(given.terms) == 1 and len(given.terms[0]) == 2:
            table, weight = given.terms[0]
            if table.is_fixed:
                return self.embedded(float(table.scale) * table.value, weight.T)
        if not isinstance(given, Parameter) or given.is_fixed or len(given.shape) < 2:
            return None
        *others, count, width = given.shape
        if math.prod(others) != 1:
            return None
        own = replace(given, value=np.reshape(given.value, (count, width)))
        return self.embedded(np.eye(count), own.T)

    def _sum_of_products(self, u: Value, weight: Matrices, bias: Parameter | None) -> Neurons:
        """b + Σ_k A_k B_k … u."""
        found: Value = sympy.S.Zero
        for number, term in enumerate(weight.terms):
            inner = u
            for each in reversed(term):
                own = bias if number == 0 and each is term[0] else None
                inner = self.linear(inner, each, own)
            found = self.add(inner, found) if number else inner
        assert isinstance(found, Neurons)
        return found

    def _part_by_part(
        self,
        product: Callable[[Value, Parameter, Parameter | None], Value],
        u: Beside,
        counts: Sequence[int],
        weight: Parameter,
        bias: Parameter | None,
    ) -> Neurons:
        """b + Σ_k W_k u_k of values side by side, of which W has so many columns, or channels."""
        found: Value = sympy.S.Zero
        spans = pairwise(accumulate(counts, initial=0))
        for number, (each, span) in enumerate(zip(u.parts, spans, strict=True)):
            made = product(each, self._part(weight, None, span), None if number else bias)
            found = self.add(found, made) if number else made
        assert isinstance(found, Neurons)
        return found

    def _count(self, u: Neurons) -> int:
        """The columns that a matrix has for these values."""
        shape, width = self.graph.shapes[u.node], self.graph.widths[u.node]
        return width * (math.prod(shape) if u.form == "flat" else 1)

    def _part(
        self, whole: Parameter, rows: tuple[int, int] | None, columns: tuple[int, int] | None
    ) -> Parameter:
        """Rows or columns of a parameter, as one of its own; of a filter its channels."""
        size = math.prod(whole.shape[2:])
        own, spans = whole.value, [rows or (0, whole.shape[0])]
        if own.ndim > 1:
            spans.append(columns or (0, whole.shape[1]))
        of_matrix = (spans[1][0] * size, spans[1][1] * size) if own.ndim > 1 else None
        shape = (own.shape[0], math.prod(own.shape[1:]))[: min(own.ndim, 2)]
        outer = self.graph.parts.get(whole.path, Part(whole.path, shape, (0, 0), (0, 0)))
        part = outer.within(spans[0], of_matrix)
        self.graph.parts[part.name] = part
        if whole.turned:
            self.graph.turned.add(part.path)
        return replace(whole, path=part.name, value=own[tuple(slice(*span) for span in spans)])

    def rows(self, u: Value, low: int, high: int) -> Value:
        """Some of a layer's neurons, as those of a layer of its own."""
        if isinstance(u, Beside):
            ends = np.cumsum([0, *(self.graph.widths[each.node] for each in u.parts)])
            spans = [(max(low, a) - a, min(high, b) - a) for a, b in pairwise(map(int, ends))]
            kept = [
                each if (a, b) == (0, self.graph.widths[each.node]) else self.rows(each, a, b)
                for each, (a, b) in zip(u.parts, spans, strict=True)
                if a < b
            ]
            return kept[0] if len(kept) == 1 else beside(kept)
        if not isinstance(u, Neurons) or u.expr.has(*_MEANS):
            raise UnreadableError("some neurons of what is no layer")
        is_last = not self.graph.shapes[u.node] or self.channels_last != (u.form == "turned")
        return replace(u, node=self._rows(u.node, low, high, is_last))

    def _rows(self, node: int, low: int, high: int, is_last: bool) -> int:
        """A node of some of the neurons of another."""
        key = node, low, high
        if key in self._made_rows:
            return self._made_rows[key]
        own, span = self.graph.nodes[node], (low, high, is_last)
        if isinstance(own, Linear):
            bias = None if own.bias is None else self._some_of(own.bias, (low, high))
            weight = self._some_of(own.weight, (low, high))
            made: Node = replace(own, weight=weight, bias=bias, fan_out=high - low)
        elif isinstance(own, Applied | Pooled | Sum | Product):
            made = own.moved(lambda source: self._rows(source, *span))
        else:
            raise UnreadableError(
                "a part of the inputs: read the network that takes it by itself, as model.net"
                if isinstance(own, Inputs)
                else "a part of a norm's values: take the parts before it, or use two matrices"
            )
        origin = self.graph.origins[node]
        whole = Rows(origin, low, high, self.graph.widths[node], is_last)
        if isinstance(origin, Rows):
            whole = origin._replace(low=origin.low + low, high=origin.low + high)
        self._made_rows[key] = self.graph.add(made, high - low, whole)
        self._split.add(node)
        return self._made_rows[key]

    def _some_of(self, path: str, rows: tuple[int, int]) -> str:
        """The path of some rows of a parameter, which are used in place of all."""
        part = self._part(Parameter(path, self._values[path]), rows, None)
        self.graph.parameters.pop(path, None)
        self._keep(part)
        return part.path

    def _by_parts(self, operation: Callable[..., Value], *values: Value) -> Value | None:
        """An operation on values side by side, part by part; None if there are none."""
        wide = [each for each in values if isinstance(each, Beside)]
        if not wide:
            return None
        widths = {tuple(self.graph.widths[e.node] for e in each.parts) for each in wide}
        if len(widths) > 1 or not all(isinstance(e, Beside | sympy.Expr) for e in values):
            raise UnreadableError("values side by side with others that have other parts")
        columns = [e.parts if isinstance(e, Beside) else [e] * len(wide[0].parts) for e in values]
        return beside(operation(*each) for each in zip(*columns, strict=True))

    def _by_rows(self, u: Value) -> Value:
        """The inputs of a matrix, if these are several rows: each is at a position."""
        axes = len(self.given) - (0 if self.channels_last else 1)
        is_open = axes > 1 and not self.graph.shapes[0]
        if not is_open or not isinstance(u, Neurons) or self._base(u.node) != 0 or u.form:
            return u
        if self.channels_last:
            self.place_inputs(self.given[0], self.given[1:])
            return u
        self.inputs_last = True
        self.place_inputs(self.given[-1], self.given[1:-1])
        return replace(u, form="turned")

    def place_inputs(self, width: int, shape: tuple[int, ...]) -> None:
        """Give the inputs, and multiples of them as by 1/255, neurons and positions."""
        for at in range(len(self.graph.nodes)):
            if self._base(at) == 0:
                self.graph.widths[at], self.graph.shapes[at] = width, shape

    def as_given(self, u: Value) -> None:
        """Give inputs that no filter has met all the positions of those that were given."""
        axes = len(self.given) - (1 if self.channels_last else 2)
        if isinstance(u, Neurons) and u.node == 0 and axes > 0:
            self.signal(u, axes)

    def signal(self, u: Value, axes: int) -> tuple[int, tuple[int, ...]]:
        """The node of a signal and its positions along so many axes.

        The positions of the inputs are those that were given.
        """
        source = self.node(u)
        of_inputs = self._base(source) == 0
        if of_inputs and not self.graph.shapes[0] and len(self.given) > axes:
            self.place_inputs(self.given[-axes - 1], self.given[-axes:])
        shape = self.graph.shapes[source]
        if len(shape) != axes or (isinstance(u, Neurons) and u.form):
            told = "positions, which inputs= tells by its shape" if of_inputs else "positions"
            raise UnreadableError(f"a filter or window on what has not {axes} axes of {told}")
        return source, shape

    def filtered(
        self, u: Value, weight: Parameter, bias: Parameter | None, groups: int, **window: Any
    ) -> Neurons:
        """A convolution, with a filter (out, in, *size) and the window of `signals.filters`."""
        fan_out, channels, *size = weight.shape
        if isinstance(u, Beside):
            product = partial(self.filtered, groups=groups, **window)
            widths = [self.graph.widths[each.node] for each in u.parts]
            return self._part_by_part(product, u, widths, weight, bias)
        source, shape = self.signal(u, len(size))
        if groups != 1:
            wanted = "one group: else channels of a group meet no others, so that no rotation of"
            raise UnreadableError(f"{groups} groups of channels: wanted {wanted} all keeps the law")
        if self.graph.widths[source] != channels:
            told = f"a filter of {channels} channels on {self.graph.widths[source]}"
            raise UnreadableError(told)
        taps = signals.filters(shape, size, **window)
        self._keep(weight)
        fan_in = channels * taps.count
        made = Linear(
            source, weight.path, None, fan_in, fan_out, weight.scale, taps=taps, size=taps.count
        )
        found = Neurons(self.graph.add(made, fan_out, self.origin))
        return found if bias is None else self.shifted(found, bias)

    def pooled(self, u: Value, make: Callable[[tuple[int, ...]], Taps], axes: int) -> Neurons:
        """Means over positions, by the taps that `make` has for those of u."""
        source, shape = self.signal(u, axes)
        made = Pooled(source, make(shape))
        return Neurons(self.graph.add(made, self.graph.widths[source], self.origin))

    def gathered(self, parts: Sequence[Value], axis: int) -> Neurons:
        """Parts of one signal, each some of its positions, one behind another along an axis."""
        found = [self._selected(self.node(each)) for each in parts]
        sources = {source for source, _ in found}
        if len(sources) != 1 or not all(_is_choice(taps) for _, taps in found):
            raise UnreadableError("values side by side that are no parts of one signal")
        (source,) = sources
        shape = self.graph.shapes[source]
        whole = signals.selected(shape, [range(P) for P in shape])
        taps = signals.side_by_side([signals.composed(each, whole) for _, each in found], axis)
        made = Pooled(source, taps)
        return Neurons(self.graph.add(made, self.graph.widths[source], self.origin))

    def _selected(self, node: int) -> tuple[int, Taps]:
        """The node that means over positions were taken of, one of another, and these."""
        taps: Taps = ALONE
        while isinstance(own := self.graph.nodes[node], Pooled):
            taps, node = signals.composed(taps, own.taps), own.source
        return node, taps

    def shifted(self, u: Neurons, bias: Parameter) -> Neurons:
        """b + u."""
        factor, base = self.multiple(u.node)
        node = self.graph.nodes[base]
        if isinstance(node, Linear) and node.bias is None and u.expr == z:
            if bias.value.size != node.fan_out:
                if bias.value.size == 1 and not np.any(bias.value):
                    self.graph.gains.append(bias.path)
                    return u
                raise UnreadableError(f"a bias {bias.path} of shape {bias.shape}")
            self._keep(bias)
            made = replace(node, bias=bias.path, scale=factor * node.scale, bias_scale=bias.scale)
            return replace(u, node=self.graph.add(made, node.fan_out, self.origin))
        if not np.any(bias.value):
            self.graph.gains.append(bias.path)
            return u
        if isinstance(node, Sum) and u.expr == z:
            return replace(u, node=self._shifted_sum(node, bias))
        raise UnreadableError(f"{bias.path} is added, and is not 0 at the start")

    def _shifted_sum(self, node: Sum, bias: Parameter) -> int:
        """b + Σ_k c_k u_k, with b beside the first matrix that has no biases."""
        for at, (factor, source) in enumerate(node.terms):
            own = self.graph.nodes[source]
            if isinstance(own, Linear) and own.bias is None and factor != 0:
                moved = self.shifted(Neurons(source), bias.times(1 / factor))
                terms = (*node.terms[:at], (factor, moved.node), *node.terms[at + 1 :])
                return self.graph.add(Sum(terms), own.fan_out, self.origin)
        raise UnreadableError(f"{bias.path} is added, and is not 0 at the start")

    def apply(self, function: Callable[..., sympy.Expr], u: Value, *given: object) -> Value:
        """f(u), entry by entry."""
        if isinstance(u, sympy.Expr):
            return function(u, *given)
        if isinstance(u, Beside):
            return self._by_parts(lambda each: self.apply(function, each, *given), u) or u
        if isinstance(u, Parameter | Matrices):
            told = f"the parameter {u.path}" if isinstance(u, Parameter) else "matrices"
            raise UnreadableError(f"a function of {told}")
        return self._made(replace(u, expr=function(u.expr, *given)))

    def norm(
        self,
        u: Value,
        kind: str,
        eps: object,
        gains: Mapping[str, object],
        sets: int = 1,
        *,
        over: bool = False,
    ) -> Neurons:
        """A norm as a module of its own, and its gains and biases by their paths."""
        for path, value in gains.items():
            self._gain(Parameter(path, np.asarray(value)), path.rsplit(".", 1)[-1] != "bias")
        source, form = self.node(u), getattr(u, "form", "")
        if form == "flat" and self.graph.shapes[source]:
            raise UnreadableError("a norm over positions and channels together")
        made = Norm(source, kind, functions.exact(eps), sets, over)
        return Neurons(self.graph.add(made, self.graph.widths[source], self.origin), form=form)

    def batch_norm(
        self,
        u: Value,
        eps: float,
        gains: Sequence[Parameter | None],
        running: tuple[Any, Any] | None,
    ) -> Value:
        """Batch normalization of the samples that are given, or by `running` mean and variance.

        Arguments:
            gains: the gain and the shift.
        """
        gain, shift = gains
        if shift is not None:
            self._gain(shift, is_factor=False)
        if running is None:
            self._take_batch(u)
            found: Value = self.norm(u, "batch", eps, {})
        else:
            mean, variance = (np.asarray(each) for each in running)
            if np.any(mean != 0) or np.any(variance != variance.flat[0]):
                told = "running statistics that are not those of all neurons at the start"
                raise UnreadableError(told)
            told = "batch normalization in evaluation mode: a factor, nothing is normalized"
            spread = functions.exact(variance.flat[0].item()) + functions.exact(eps)
            found = self.multiply(self.passed(u, told), 1 / sympy.sqrt(spread))
        return found if gain is None else self.scaled(found, gain)

    def _take_batch(self, u: Value) -> None:
        """Normalize the inputs that are given together."""
        axes = len(self.graph.shapes[0])
        rows = self.given[:1] if len(self.given) == axes + 2 else (int(axes > 0),)
        self.graph.batch = self.count or rows[0]
        source = u.node if isinstance(u, Neurons) else self.node(u)
        if not self.given or math.prod(self.graph.shapes[source], start=self.graph.batch) < 2:
            told = "batch normalization in training mode, without a batch: inputs= gives it"
            raise UnreadableError(told)
        samples = f"over the {self.graph.batch} inputs that are given"
        samples += " and their positions" * (axes > 0)
        told = f"batch normalization in training mode, {samples}"
        if f"{self.where}: {told}" not in self.graph.remarks:
            self.passed(u, told)

    def add(self, left: Value, right: Value, sign: int = 1) -> Value:
        """left + sign·right."""
        parts = self._by_parts(lambda a, b: self.add(a, b, sign), left, right)
        if parts is not None:
            return parts
        if all(isinstance(each, Parameter | Matrices) for each in (left, right)):
            return as_matrices(left) + as_matrices(right).times(sympy.Integer(sign))
        for one, other in ((left, right), (right, left)):
            if isinstance(other, Neurons) and self._is_of_positions(one, other):
                places, signs = self.at_positions(one), (1, sign) if other is left else (sign, 1)
                if places is None:
                    raise UnreadableError(
                        "a fixed table that is added at the positions, as of sines: positions are "
                        "read as a parameter or nn.Embedding, whose entries are random"
                    )
                first, second = map(sympy.Integer, signs)
                return self._sum(((first, other), (second, places)))
        if isinstance(right, Parameter) and isinstance(left, Neurons):
            return self.shifted(left, right.times(sympy.Integer(sign)))
        if isinstance(left, Parameter) and isinstance(right, Neurons) and sign == 1:
            return self.shifted(right, left)
        if any(isinstance(each, Matrices) for each in (left, right)):
            raise UnreadableError(
                "a matrix added to a layer, as embeddings of positions are: put them in one matrix "
                "with those of tokens, behind the unit vectors of both side by side"
            )
        left, right = self.on_one_node(left, right)
        if _apart(left, right):
            return self._sum(((sympy.S.One, left), (sympy.Integer(sign), right)))
        return self.together(lambda a, b: a + sign * b, left, right)

    def _is_of_positions(self, given: Value, u: Neurons) -> bool:
        """True if this is a row of its own for each position of a layer."""
        if isinstance(given, Matrices):
            ((table, *_), *_) = given.terms
            return table.is_fixed and len(table.shape) == 2 and self._places(u) == table.shape[0]
        if not isinstance(given, Parameter) or len(given.shape) < 2 or not np.any(given.value):
            return False
        return self._places(u) == given.shape[-2] > 1

    def _places(self, u: Neurons) -> int:
        """The positions of a layer along one axis, in front of the neurons; else 0."""
        shape = self.graph.shapes[u.node]
        is_last = self.channels_last != (u.form == "turned")
        return shape[0] if len(shape) == 1 and is_last and u.form != "flat" else 0

    def side_by_side(self, given: Sequence[Value]) -> Neurons:
        """Layers one behind another along their positions, parameters (1, T, n) among them."""
        found = [each if isinstance(each, Neurons) else self.at_positions(each) for each in given]
        layers = [each for each in found if each is not None and self._places(each)]
        if len(layers) < len(found):
            raise UnreadableError("positions side by side with what has none")
        counts = [self._places(each) for each in layers]
        terms: list[tuple[sympy.Expr, Value]] = []
        for number, (each, count) in enumerate(zip(layers, counts, strict=True)):
            before, behind = sum(counts[:number]), sum(counts[number + 1 :])
            at = [-1] * before + [*range(count)] + [-1] * behind
            plain = replace(each, form="" if each.form == "turned" else each.form)
            made = self.pooled(plain, lambda shape, at=at: signals.selected(shape, [at]), 1)  # type: ignore[misc]
            terms.append((sympy.S.One, replace(made, form=each.form)))
        return self._sum(tuple(terms))

    def multiply(self, left: Value, right: Value) -> Value:
        """left·right, entry by entry."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Parameter | Matrices) and isinstance(other, sympy.Expr):
                return one.times(other)
        if (parts := self._by_parts(self.multiply, left, right)) is not None:
            return parts
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Parameter):
                return self.scaled(other, one)
        left, right = self.on_one_node(left, right)
        if _apart(left, right):
            for one, other in ((left, right), (right, left)):
                if (same := self._affine(one)) is not None:
                    shift, factor, function = same
                    inner = self.multiply(function, other)
                    return self.add(self.multiply(shift, other), self.multiply(factor, inner))
            a, b = self.node(left), self.node(right)
            width = self.graph.widths[a]
            form = self._form(left, right)
            return Neurons(self.graph.add(Product(a, b), width, self.origin), form=form)
        return self.together(lambda a, b: a * b, left, right)

    def scaled(self, u: Value, factor: Parameter) -> Value:
        """u times a parameter: a norm's gain, or one number for all neurons."""
        if isinstance(u, Parameter) and np.size(u.value) < np.size(factor.value):
            u, factor = factor, u
        number = self.held(factor)
        return u if number == 1 else self.multiply(u, number)

    def held(self, factor: Parameter) -> sympy.Expr:
        """The number that a parameter is at the start for all neurons, and stays."""
        values = np.asarray(factor.value)
        if values.size == 0 or not np.all(values == values.flat[0]):
            raise UnreadableError(f"{factor.path}, a factor of its own for each neuron")
        if not factor.is_fixed:
            self.graph.gains.append(factor.path)
        return factor.scale * functions.exact(values.flat[0].item())

    def divide(self, left: Value, right: Value) -> Value:
        """left/right."""
        if isinstance(left, Parameter | Matrices) and isinstance(right, sympy.Expr):
            return left.times(1 / right)
        if (parts := self._by_parts(self.divide, left, right)) is not None:
            return parts
        if isinstance(right, Parameter):
            number = self.held(right)
            if not number:
                raise UnreadableError(f"a quotient by {right.path}, which is 0")
            return left if number == 1 else self.multiply(left, 1 / number)
        left, right = self.on_one_node(left, right)
        if _apart(left, right):
            raise UnreadableError("a quotient of two layers")
        return self.together(lambda a, b: a / b, left, right)

    def power(self, u: Value, exponent: object) -> Value:
        """u to a number."""
        number = functions.exact(exponent)
        return self.apply(lambda a: a**number, u)

    def mean(self, u: Value, over_batch: bool = False) -> Value:
        """Σ_i u_i/n, of what is linear or quadratic in a node's entries; or at each neuron the mean
        over the inputs of a batch and their positions."""
        if not isinstance(u, Neurons):
            raise UnreadableError("a mean of what is no layer")
        try:
            terms = sympy.Poly(sympy.expand(u.expr), z).terms()
        except sympy.PolynomialError:
            terms = [((3,), sympy.S.One)]
        if over_batch:
            self._take_batch(u)
        if any(degree > 2 for (degree,), _ in terms):
            made = Neurons(self.node(u))
            if made.node == u.node:
                raise UnreadableError("a mean of powers beyond squares")
            return self.mean(made, over_batch)
        means = (sympy.S.One, *(_OF_BATCH if over_batch else (_MEAN, _SQUARE)))
        total = sympy.Add(*(factor * means[degree] for (degree,), factor in terms))
        return Collective(u.node, total)

    def dropped(self, u: Value, rate: float) -> Value:
        """Dropout: read as in evaluation, where it is the identity."""
        return self.passed(u, f"dropout {rate}, off as in evaluation") if rate else u

    def passed(self, u: Value, what: str) -> Value:
        """Something that changes nothing here."""
        self.graph.remarks.append(f"{self.where}: {what}")
        return u

    # what a value is, as a node

    def node(self, u: Value) -> int:
        """The number of the node that has this value's entries."""
        u = self._made(u)
        if isinstance(u, Beside):
            raise UnreadableError("values side by side, which are read before a matrix or a filter")
        if not isinstance(u, Neurons):
            raise UnreadableError("a matrix applied to what is no layer")
        if u.expr == z:
            return u.node
        key = (u.node, u.expr)
        if key not in self._made_nodes:
            self._made_nodes[key] = self._materialized(u)
        return self._made_nodes[key]

    def finish(self, u: Value) -> Graph:
        """The graph with this output.

        Constant factors and means over positions are moved into the matrices next to them.
        """
        self.graph.output = self.node(u)
        if both := self._split.intersection(self.graph.between(0, self.graph.output)):
            (node, *_) = (self.graph.nodes[at] for at in sorted(both))
            told = getattr(node, "weight", "a layer")
            raise UnreadableError(f"{told}, whose neurons are used together and in parts")
        live = [self.graph.nodes[at] for at in self.graph.between(0, self.graph.output)]
        used = Counter(each.weight for each in live if isinstance(each, Linear))
        for path in (path for path, count in used.items() if count > 1):
            raise UnreadableError(f"{path}, which is used with its biases and without them")
        absorb(self.graph)
        self.graph.join_pools()
        absorb(self.graph)
        return self.graph

    def _materialized(self, u: Neurons) -> int:
        width = self.graph.widths[u.node]
        if not u.expr.has(*_MEANS):
            function, factor = self._function(u.expr)
            made = self.graph.add(Applied(u.node, function), width, self.origin)
            return made if factor == 1 else self._scaled(made, factor)
        norm, outer = _as_norm(u)
        at = self.graph.add(norm, width, self.origin)
        return at if outer == z else self.node(Neurons(at, outer))

    def _scaled(self, node: int, factor: sympy.Expr) -> int:
        """The number (index) of a node that multiplies this node by a constant."""
        key = (node, factor * z)
        if key not in self._made_nodes:
            made = Sum(((factor, node),))
            self._made_nodes[key] = self.graph.add(made, self.graph.widths[node], self.origin)
        return self._made_nodes[key]

    def multiple(self, node: int) -> tuple[sympy.Expr, int]:
        """The factor c and the node u of a node c u."""
        own = self.graph.nodes[node]
        if not isinstance(own, Sum) or len(own.terms) > 1:
            return sympy.S.One, node
        factor, base = self.multiple(own.terms[0][1])
        return factor * own.terms[0][0], base

    def _made(self, u: Value) -> Value:
        """The same value; if it is a multiple of a node, as a new node."""
        factor = _factor(u.expr) if isinstance(u, Neurons) and u.expr != z else None
        if factor is None:
            return u
        assert isinstance(u, Neurons)
        return replace(u, node=self._scaled(u.node, factor), expr=z)

    def _on(self, u: Value, node: int) -> Value:
        """A value of a multiple of a node, rewritten as a value of the node itself."""
        if not isinstance(u, Neurons | Collective) or u.node == node:
            return u
        factor = sympy.S.One
        at = u.node
        while at != node:
            ((own, at),) = self.graph.nodes[at].terms  # type: ignore[union-attr]
            factor *= own
        named = {z: factor * z}
        named |= {each: factor * each for each in _MEANS[::2]}
        named |= {each: factor**2 * each for each in _MEANS[1::2]}
        return replace(u, node=node, expr=u.expr.subs(named, simultaneous=True))

    def on_one_node(self, *values: Value) -> tuple[Value, ...]:
        """The values, rewritten as values of one node if all are of multiples of that node."""
        nodes = [each.node for each in values if isinstance(each, Neurons | Collective)]
        if len(set(nodes)) < 2:
            return values
        first, *others = map(self._chain, nodes)
        shared = next((at for at in first if all(at in chain for chain in others)), None)
        return values if shared is None else tuple(self._on(each, shared) for each in values)

    def _chain(self, node: int) -> list[int]:
        """The node, the node of which it is a multiple, and so on."""
        found = [node]
        while isinstance(own := self.graph.nodes[found[-1]], Sum) and len(own.terms) == 1:
            found.append(own.terms[0][1])
        return found

    def _function(self, expr: sympy.Expr) -> tuple[Activation, sympy.Expr]:
        """The activation and its factor, the same for all ways to write a function."""
        for known in self._functions:
            if (factor := functions.multiple(expr, known.expr)) is not None:
                return known, factor
        made, factor = functions.scaled(expr, self.where)
        self._functions.append(made)
        return made, factor

    def _affine(self, u: Value) -> tuple[sympy.Expr, sympy.Expr, Neurons] | None:
        """a, b and f, where u is a + b f with a function f of the same node that is used already.

        An example is 1 − t beside t, as of a gate. A layer has one function of each variable.
        """
        if not isinstance(u, Neurons) or (u.node, u.expr) in self._made_nodes:
            return None
        for node, expr in [*self._made_nodes]:
            if node == u.node and (found := functions.affine(u.expr, expr)) is not None:
                return *found, replace(u, expr=expr)
        return None

    def _sum(self, terms: tuple[tuple[sympy.Expr, Value], ...]) -> Neurons:
        found: list[tuple[sympy.Expr, int]] = []
        for sign, value in terms:
            assert isinstance(value, Neurons)
            factor, node = self.multiple(self.node(value))
            found.append((sign * factor, node))
        widths = {self.graph.widths[node] for _, node in found} - {0}
        if len(widths) > 1:
            raise UnreadableError(
                f"a sum of layers of {' and '.join(map(str, sorted(widths)))} neurons"
            )
        form = self._form(*(value for _, value in terms))
        made = self.graph.add(Sum(tuple(found)), max(widths, default=0), self.origin)
        return Neurons(made, form=form)

    def _form(self, *values: Value) -> str:
        """How the axes of values lie that are added or multiplied."""
        nodes = [each for each in values if isinstance(each, Neurons)]
        shapes = {self.graph.shapes[each.node] for each in nodes}
        if len(shapes) > 1:
            told = " and ".join(map(str, sorted(shapes)))
            raise UnreadableError(f"signals of {told} positions, one with another")
        forms = {each.form for each in nodes}
        if len(forms) > 1 and shapes != {()}:
            raise UnreadableError("signals whose axes lie in another order, one with another")
        return forms.pop()

    def together(
        self, operation: Callable[[Any, Any], sympy.Expr], left: Value, right: Value
    ) -> Value:
        """The result of an operation on two values of one node, or on one value and a number."""
        left, right = self.on_one_node(left, right)
        exprs = [each if isinstance(each, sympy.Expr) else each.expr for each in (left, right)]  # type: ignore[union-attr]
        made = operation(*exprs)
        for each in (left, right):
            if isinstance(each, Neurons):
                return self._made(replace(each, expr=made))
        for each in (left, right):
            if isinstance(each, Collective):
                return Collective(each.node, made)
        return made

    def _gain(self, parameter: Parameter, is_factor: bool) -> None:
        if parameter.scale != 1 or not np.all(np.asarray(parameter.value) == is_factor):
            wanted = f"{int(is_factor)} at the start"
            raise UnreadableError(f"{parameter.path}, which is not {wanted}")
        self.graph.gains.append(parameter.path)

    def _keep(self, parameter: Parameter) -> None:
        if parameter.is_fixed:
            raise UnreadableError(f"{parameter.path}, which is no parameter, and never drawn")
        path, parts = parameter.path, self.graph.parts
        own = parts.get(path, _everything(path))
        for other in self.graph.parameters:
            if own.overlaps(parts.get(other, _everything(other))):
                raise UnreadableError(
                    f"{own.path}, which is used twice: matrices are independent here; read the "
                    "model up to its second use"
                )
        if parameter.turned:
            self.graph.turned.add(own.path)
        self._values[path] = self.graph.parameters[path] = parameter.value

    def _base(self, node: int) -> int:
        """The node u of a node c u, or itself."""
        return self.multiple(node)[1]


def _everything(path: str) -> Part:
    """All of a parameter."""
    most = 2**62
    return Part(path, (), (0, most), (0, most))


def _factor(expr: sympy.Expr) -> sympy.Expr | None:
    """c of c z; None where it is another function."""
    if expr == 0:
        return sympy.S.Zero
    if expr.free_symbols != {z} or not expr.is_polynomial(z):
        return None
    terms = sympy.Poly(expr, z).terms()
    return terms[0][1] if [powers for powers, _ in terms] == [(1,)] else None


def _is_choice(taps: Taps) -> bool:
    """True if each position of the result is one that is read, or a zero."""
    return all(len(row) <= 1 and all(a == 1.0 for _, a in row) for row in taps.reads[0])


def _apart(left: Value, right: Value) -> bool:
    """True if they have entries of two nodes; collective variables of another node are refused."""
    nodes = [each.node for each in (left, right) if isinstance(each, Neurons | Collective)]
    both = isinstance(left, Neurons) and isinstance(right, Neurons)
    if len(set(nodes)) < 2:
        return False
    if not both:
        raise UnreadableError("a mean over one layer's neurons in another layer")
    return True


def _as_norm(u: Neurons) -> tuple[Norm, sympy.Expr]:
    """The norm in f(u_i; m, q), and what is done to the normalized entries."""
    is_of_batch = u.expr.has(*_OF_BATCH)
    mean, square = _OF_BATCH if is_of_batch else (_MEAN, _SQUARE)
    centred = z - mean if u.expr.has(mean) else z
    spread = square - mean**2 if u.expr.has(mean) else square
    y = sympy.Symbol("_y", real=True)
    found = sympy.factor_terms(u.expr)
    roots = [
        each
        for each in found.atoms(sympy.Pow)
        if each.exp in (sympy.Rational(-1, 2), sympy.Rational(1, 2)) and each.has(square)
    ]
    for root in roots:
        rest = sympy.expand(root.base - spread)
        if rest.free_symbols:
            continue
        replaced = found.subs(z, y * sympy.sqrt(spread + rest) + (z - centred))
        outer = sympy.simplify(replaced)
        if outer.free_symbols <= {y} and (centred != z or not is_of_batch):
            kind = "batch" if is_of_batch else "layer" if centred != z else "rms"
            return Norm(u.node, kind, sympy.nsimplify(rest)), outer.subs(y, z)
    raise UnreadableError(f"{u.expr} with means over neurons, which is no norm that is known")


def refused(model: object, faults: list[tuple[str, str]]) -> InputError:
    """The error for what cannot be read, each place with its reason."""
    told = "; ".join(f"{path}: {why}" for path, why in faults)
    wanted = (
        "matrices, biases, scalar functions, LayerNorm or RMSNorm, skips, gates and dropout; "
        f"cannot read {told}"
    )
    own = model[0] if isinstance(model, tuple) else model  # beside its variables
    return InputError("model", type(own).__name__, wanted)
