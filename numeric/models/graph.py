"""A model as nodes: its matrices, the functions between them, norms, sums, products.

Every framework's reader makes one of these; nodes are numbered as they are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeAlias

import sympy

from derive.activations.functions import Activation
from derive.engine.taps import ALONE, Taps

from .signals import composed


@dataclass(frozen=True)
class Inputs:
    """x, as a vector, or one at each position."""

    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class Given:
    """Rows of numbers, the same for all inputs: one at each position."""

    table: tuple[tuple[float, ...], ...]
    sources: tuple[int, ...] = ()


@dataclass(frozen=True)
class _OfOne:
    """A node that is computed from one other."""

    source: int

    @property
    def sources(self) -> tuple[int, ...]:
        """The nodes that it is computed from."""
        return (self.source,)

    def moved(self, to: Callable[[int], int]) -> Self:
        """The same of other nodes."""
        return replace(self, source=to(self.source))


@dataclass(frozen=True)
class Linear(_OfOne):
    """c W u, or d b + c W u; of a signal Σ_k W^{(k)} u at the positions that tap k reads.

    Arguments:
        source: u.
        weight, bias: paths of the parameters.
        fan_in, fan_out: the sizes of W, all taps side by side.
        scale, bias_scale: c and d, the constant factors beside the matrix and the biases.
        taps: the positions that are read; `ALONE` for each by itself, and for a vector.
        size: the positions of a filter, which a fan-out counts; 1 for a matrix.
    """

    weight: str
    bias: str | None
    fan_in: int
    fan_out: int
    scale: sympy.Expr = sympy.S.One
    bias_scale: sympy.Expr = sympy.S.One
    taps: Taps = ALONE
    size: int = 1

    @property
    def count(self) -> int:
        """How many taps it has."""
        return self.taps.count

    def times(self, factor: sympy.Expr) -> Linear:
        """The same, all of it times a number."""
        return replace(self, scale=factor * self.scale, bias_scale=factor * self.bias_scale)


@dataclass(frozen=True)
class Applied(_OfOne):
    """σ(u), entry by entry."""

    function: Activation


@dataclass(frozen=True)
class Norm(_OfOne):
    """The normalized u: kind "rms" or "layer", of each of so many groups of neurons by itself, and
    `over` the positions or at each of them; or "batch", over the samples of a batch, and their
    positions, at each neuron."""

    kind: str
    eps: sympy.Expr
    sets: int = 1
    over: bool = False

    @property
    def summed(self) -> str:
        """The index of its means in an equation."""
        return f"a{',p' if self.over else ''}{f':{self.sets}' if self.sets > 1 else ''}"


@dataclass(frozen=True)
class Sum:
    """Σ c_k u_k."""

    terms: tuple[tuple[sympy.Expr, int], ...]

    @property
    def sources(self) -> tuple[int, ...]:
        """The nodes that it is computed from."""
        return tuple(source for _, source in self.terms)

    def moved(self, to: Callable[[int], int]) -> Sum:
        """The same of other nodes."""
        return Sum(tuple((factor, to(source)) for factor, source in self.terms))

    def times(self, factor: sympy.Expr) -> Sum:
        """The same, all of it times a number."""
        return Sum(tuple((factor * own, source) for own, source in self.terms))


@dataclass(frozen=True)
class Product:
    """u v, entry by entry."""

    left: int
    right: int

    @property
    def sources(self) -> tuple[int, ...]:
        """The nodes that it is computed from."""
        return (self.left, self.right)

    def moved(self, to: Callable[[int], int]) -> Product:
        """The same of other nodes."""
        return Product(to(self.left), to(self.right))


@dataclass(frozen=True)
class Pooled(_OfOne):
    """Means of u over positions."""

    taps: Taps


@dataclass(frozen=True)
class Attention:
    """Σ_s softmax_s(q_t·k_s/√d + B_ts) v_s in each of H heads of d neurons, or with q_t·k_s/d.

    Arguments:
        query, key, value: q, k and v; heads are parts of their neurons, one behind another.
        heads: H.
        over: "n" for scores over d, "sqrt(n)" for scores over √d.
        table: B, −∞ where t does not read s; () for 0.
        groups: how many heads, one behind another, share keys and values.
    """

    query: int
    key: int
    value: int
    heads: int
    over: str
    table: tuple[tuple[float, ...], ...] = ()
    groups: int = 1

    def divisor(self, size: int) -> float:
        """√d, or d, of heads of this size."""
        return size if self.over == "n" else math.sqrt(size)

    @property
    def sources(self) -> tuple[int, ...]:
        """The nodes that it is computed from."""
        return (self.query, self.key, self.value)


@dataclass(frozen=True)
class Part:
    """Rows and columns of a matrix, or entries of biases, that are used by themselves.

    Attributes:
        path: of the whole.
        whole: the shape of the whole, (out, in) or (out,).
        rows, columns: from and to; None of biases for the latter.
    """

    path: str
    whole: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int] | None

    @property
    def name(self) -> str:
        """A path of its own."""
        spans = [self.rows, *([self.columns] if self.columns else [])]
        return f"{self.path}[{', '.join(f'{low}:{high}' for low, high in spans)}]"

    def of(self, whole: Any) -> Any:
        """Its entries, of arrays (…, out, in) or (…, out)."""
        rows = slice(*self.rows)
        return whole[..., rows] if self.columns is None else whole[..., rows, slice(*self.columns)]

    def within(self, rows: tuple[int, int], columns: tuple[int, int] | None) -> Part:
        """A part of the part, by its own rows and columns."""
        own = None
        if self.columns is not None and columns is not None:
            own = (self.columns[0] + columns[0], self.columns[0] + columns[1])
        return Part(self.path, self.whole, (self.rows[0] + rows[0], self.rows[0] + rows[1]), own)

    def overlaps(self, other: Part) -> bool:
        """True if they share entries."""
        spans = [(self.rows, other.rows)]
        if self.columns is not None and other.columns is not None:
            spans.append((self.columns, other.columns))
        return self.path == other.path and all(a[0] < b[1] and b[0] < a[1] for a, b in spans)


class Rows(NamedTuple):
    """Some neurons of a value, as the origin of a node.

    Attributes:
        origin: what the framework calls the value.
        low, high, width: from and to, and of how many.
        is_last: whether the neurons are its last axis, else the first behind the examples'.
    """

    origin: Hashable
    low: int
    high: int
    width: int
    is_last: bool


Node: TypeAlias = Inputs | Given | Linear | Applied | Norm | Sum | Product | Pooled | Attention


@dataclass
class Graph:
    """Nodes in the order in which they are computed, and which of them is the output.

    Attributes:
        nodes: the first is the inputs'.
        widths: how many neurons each has, of a signal its channels; 0 where nothing says.
        shapes: of the positions of each; () of a vector.
        origins: what the framework calls the value of each.
        output: the node that the model gives.
        remarks: what was passed over, in words.
        gains: paths of norms' gains and biases, at 1 and 0.
        frozen, thawed: paths of parameters that no gradient reaches; those of the latter are taken
            as trained.
        parameters: values of parameters in one initialization, by their paths; of a part by
            `Part.name`.
        parts: the parts among them.
        lines: of the user's code, by the origins of nodes, where they are known.
        turned: paths of matrices that the model holds as (in, out).
        batch: the samples that a batch normalization takes together; 0 without one.
    """

    nodes: list[Node] = field(default_factory=lambda: [Inputs()])
    widths: list[int] = field(default_factory=lambda: [0])
    shapes: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    origins: list[Hashable] = field(default_factory=lambda: [None])
    output: int = 0
    remarks: list[str] = field(default_factory=list)
    gains: list[str] = field(default_factory=list)
    frozen: list[str] = field(default_factory=list)
    thawed: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    batch: int = 0
    parts: dict[str, Part] = field(default_factory=dict)
    lines: dict[Hashable, str] = field(default_factory=dict)
    turned: set[str] = field(default_factory=set)

    def whole(self, path: str) -> str:
        """The path of the whole parameter of which this is a part, or itself."""
        return self.parts[path].path if path in self.parts else path

    @property
    def wholes(self) -> list[str]:
        """The paths of the model's own parameters."""
        return list(dict.fromkeys(map(self.whole, self.parameters)))

    def with_parts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of whole parameters, as those of all that are used."""
        parts = {name: part.of(values[part.path]) for name, part in self.parts.items()}
        return dict(values) | {path: parts[path] for path in self.parameters if path in parts}

    def axes(self, node: int) -> tuple[int, ...]:
        """The axes of a node's values: (positions, channels) of a signal, (width,) of a vector."""
        shape = self.shapes[node]
        return (*([math.prod(shape)] if shape else []), self.widths[node])

    def add(self, node: Node, width: int, origin: Hashable) -> int:
        """The number of a new node."""
        self.nodes.append(node)
        self.widths.append(width)
        taps = node.taps if isinstance(node, Linear | Pooled) else ALONE
        below = [self.shapes[source] for source in node.sources]
        own = (len(node.table),) if isinstance(node, Given) else ()
        self.shapes.append(taps.shape_behind(next(filter(None, below), own)))
        self.origins.append(origin)
        return len(self.nodes) - 1

    def join_pools(self) -> None:
        """Write means over positions into the taps of the matrices before or behind them.

        A W u = W A u for means A, which leave biases as they are.
        """
        live = [0, *self.between(0, self.output)]
        users = [source for at in live for source in self.nodes[at].sources]
        for at in live:
            node = self.nodes[at]
            for source in node.sources:
                below = self.nodes[source]
                if isinstance(node, Pooled) and users.count(source) == 1:
                    unbiased = isinstance(below, Pooled) or getattr(below, "bias", 0) is None
                    kept = unbiased or node.taps.is_full  # zeros have no biases
                    if isinstance(below, Linear | Pooled) and kept:
                        self.nodes[at] = replace(below, taps=composed(node.taps, below.taps))
                elif isinstance(node, Linear) and isinstance(below, Pooled):
                    taps = composed(node.taps, below.taps)
                    self.nodes[at] = replace(node, source=below.source, taps=taps)

    def between(self, before: int, behind: int) -> list[int]:
        """The nodes that lead from one to the other, the last included, in order."""
        needed, todo = {behind} - {before}, [behind]
        while todo:
            at = todo.pop()
            for source in () if at == before else self.nodes[at].sources:
                if source not in needed and source != before:
                    needed.add(source)
                    todo.append(source)
        return sorted(needed)

    def cuts(self) -> list[int]:
        """The nodes through which every path from the inputs to the output goes, in order.

        By numbers of paths: those through a node are as many as all.
        """
        before, behind = [0] * len(self.nodes), [0] * len(self.nodes)
        before[0], behind[self.output] = 1, 1
        for at, node in enumerate(self.nodes):
            for source in node.sources:
                before[at] += before[source]
        for at in range(len(self.nodes) - 1, -1, -1):
            for source in self.nodes[at].sources:
                behind[source] += behind[at]
        every = before[self.output]
        return [at for at in range(len(self.nodes)) if before[at] * behind[at] == every > 0]
