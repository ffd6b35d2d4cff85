"""Attention as a model spells it: neurons along several axes, scores, their softmax, and sums.

A layer (m, T, n) is seen as (m, T, H, d), its axes are exchanged, and q kᵀ, with factors and masks,
are scores. Nothing is added to the graph before the scores meet the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import sympy

from ..arrays import Array
from .graph import Attention
from .tracing import Neurons, Parameter, Tracer, UnreadableError

COPIES, ROWS, TOKENS = -3, -2, -1
_LOWEST = -1e4
"""Scores below this are masked, as by −1e9."""
_ROUNDING = 1e-6
_SHAPE = "a layer of tokens in another shape than (inputs, tokens, heads, neurons of a head)"


@dataclass(frozen=True)
class Heads:
    """A layer of tokens whose neurons lie along several axes.

    Attributes:
        u: the layer.
        sizes: of the axes of neurons, the outermost first.
        order: of all axes: `ROWS`, `TOKENS`, `COPIES`, or the place of one in `sizes`.
        copies: how often each entry of the first of `sizes` stands there, one behind another; along
            an axis of their own if `order` has `COPIES`.
    """

    u: Neurons
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    copies: int = 1
    form: ClassVar[str] = "heads"


@dataclass(frozen=True)
class Scores:
    """c q_t·k_s + B_ts in each head, or their softmax over s.

    Attributes:
        heads, size: H and d.
        table: B, (T, T).
        groups: heads that share keys, one behind another.
        scale: c.
        is_softmax: whether these are weights.
    """

    query: Neurons
    key: Neurons
    heads: int
    size: int
    table: Array
    groups: int = 1
    scale: sympy.Expr = sympy.S.One
    is_softmax: bool = False
    form: ClassVar[str] = "scores"


def as_matrix(W: Parameter, inner: Sequence[int]) -> tuple[Parameter, tuple[int, ...]]:
    """A parameter of several axes as a matrix (out, in), and the sizes of those that are out.

    Arguments:
        inner: the axes that are summed over, in the order of what W is applied to.
    """
    outer = [axis for axis in range(W.value.ndim) if axis not in inner]
    sizes = tuple(W.shape[axis] for axis in outer)
    value = W.value.transpose(*outer, *inner).reshape(math.prod(sizes), -1)
    return replace(W, value=value, turned=False), sizes


def heads(tracer: Tracer, u: Any) -> Heads:
    """A layer of tokens with its axes, (m, T, n), or (m, n, T) of a turned one."""
    if isinstance(u, Heads):
        return u
    if isinstance(u, Neurons) and not tracer.given:
        raise UnreadableError("attention of tokens, whose number inputs= tells by its shape")
    if not isinstance(u, Neurons) or len(tracer.graph.shapes[u.node]) != 1 or u.form == "flat":
        raise UnreadableError(_SHAPE)
    order = (ROWS, TOKENS, 0) if u.form == tracer.behind else (ROWS, 0, TOKENS)
    return Heads(replace(u, form=tracer.behind), (tracer.graph.widths[u.node],), order)


def plain(given: Heads) -> Heads | Neurons:
    """The layer itself, where its neurons are one axis behind the tokens."""
    return given.u if given.order == (ROWS, TOKENS, 0) else given


def lengths(tracer: Tracer, given: Heads, rows: int = 0) -> list[int]:
    """The sizes of all axes; `rows` for the inputs."""
    tokens = next(iter(tracer.graph.shapes[given.u.node]), 0)
    known = {ROWS: rows, TOKENS: tokens, COPIES: given.copies, **dict(enumerate(given.sizes))}
    if COPIES not in given.order:
        known[0] *= given.copies
    return [known[each] for each in given.order]


def reshaped(tracer: Tracer, u: Any, shape: Sequence[int], rows: int = 0) -> Heads | Neurons:
    """Axes of neurons split, or those that lie side by side in their order joined.

    Arguments:
        shape: 0 for the number of inputs; −1 for one that follows.
        rows: 1 if axes of one may come and go, as in a program for one input.
    """
    given = heads(tracer, u)
    if given.copies > 1 or COPIES in given.order:
        return _joined(tracer, given, shape)
    dims, own = list(shape), lengths(tracer, given, rows)
    if dims and dims[0] == -1 and -1 not in dims[1:]:
        dims[0] = 0
    if dims.count(-1) == 1:
        at = dims.index(-1)
        dims[at] = math.prod(filter(None, own)) // math.prod(e for e in dims if e > 0)
    order, sizes, at = list[int](), dict[int, list[int]](), 0
    while at < len(own):
        first, joined = given.order[at], own[at]
        at += 1
        if first < 0:
            if rows == 1 == joined and dims[:1] != [1]:
                continue
            while rows == 1 < joined and dims[:1] == [1]:
                order.append(ROWS)
                dims.pop(0)
            if not dims or dims.pop(0) != joined:
                raise UnreadableError(_SHAPE)
            order.append(first)
            continue
        while at < len(own) and given.order[at] == given.order[at - 1] + 1:
            joined *= own[at]
            at += 1
        sizes[first] = []
        while math.prod(sizes[first]) < joined and dims:
            sizes[first].append(dims.pop(0))
        if math.prod(sizes[first]) != joined:
            raise UnreadableError(_SHAPE)
        order += [(first << 8) + number for number in range(len(sizes[first]))]
    if dims and (rows != 1 or max(dims) > 1):
        raise UnreadableError(_SHAPE)
    order += [ROWS] * len(dims)
    keys = sorted(each for each in order if each >= 0)
    places = {key: number for number, key in enumerate(keys)}
    found = tuple(size for first in sorted(sizes) for size in sizes[first])
    return plain(Heads(given.u, found, tuple(places.get(each, each) for each in order)))


def _joined(tracer: Tracer, given: Heads, shape: Sequence[int]) -> Heads:
    """Copies of heads one behind another, of an axis of their own behind that of the heads."""
    order = tuple(each for each in given.order if each != COPIES)
    places = [at for at, each in enumerate(given.order) if each in {0, COPIES}]
    found = replace(given, order=order)
    wanted = [0 if own == ROWS else each for own, each in zip(order, shape, strict=False)]
    known = lengths(tracer, found)
    if -1 in wanted and wanted.count(-1) == 1:
        wanted[wanted.index(-1)] = known[wanted.index(-1)]
    if len(shape) != len(order) or wanted != known or places[-1] - places[0] > 1:
        raise UnreadableError(f"{_SHAPE}, of heads that share keys")
    return found


def copied(tracer: Tracer, u: Any, axis: int, count: int) -> Heads:
    """Each head so often, one behind another, as heads that share keys have theirs."""
    given = heads(tracer, u)
    if given.order[axis] != 0 or len(given.sizes) != 2 or given.copies > 1:
        raise UnreadableError("copies of what are no heads of keys or values")
    return replace(given, copies=count)


def spread(tracer: Tracer, u: Any, sizes: Sequence[int]) -> Heads:
    """Copies along an axis of size 1, as `expand` makes them."""
    given = heads(tracer, u)
    own = lengths(tracer, given)
    if COPIES not in given.order or len(sizes) != len(own):
        raise UnreadableError("an expand of heads, but of keys or values along an axis of copies")
    at = given.order.index(COPIES)
    own[at] = given.copies * sizes[at]
    if any(each not in (-1, 0, size) for each, size in zip(sizes, own, strict=True)):
        raise UnreadableError(_SHAPE)
    return replace(given, copies=own[at])


def with_axis(tracer: Tracer, u: Any, axis: int) -> Heads:
    """An axis for copies, of size 1."""
    given = heads(tracer, u)
    if COPIES in given.order or given.copies > 1 or len(given.sizes) != 2:
        raise UnreadableError("another axis for what are no heads of keys or values")
    at = axis % (len(given.order) + 1)
    return replace(given, order=(*given.order[:at], COPIES, *given.order[at:]))


def permuted(tracer: Tracer, u: Any, order: Sequence[int]) -> Heads | Neurons:
    """The axes in another order."""
    given = heads(tracer, u)
    if sorted(each % len(given.order) for each in order) != [*range(len(given.order))]:
        raise UnreadableError(f"axes in the order {tuple(order)}")
    return plain(replace(given, order=tuple(given.order[each] for each in order)))


def transposed(tracer: Tracer, u: Any, dim0: int, dim1: int) -> Heads | Neurons:
    """Two axes exchanged, named as torch's."""
    order = [*range(len(heads(tracer, u).order))]
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permuted(tracer, u, order)


def parts(tracer: Tracer, u: Heads, axis: int, counts: Sequence[int], keep: bool = True) -> Any:
    """Parts along an axis, the outermost of the neurons', as layers of their own.

    Arguments:
        keep: whether the axis stays; else each part is one of its entries.
    """
    if u.order[axis] != 0 or sum(counts) != u.sizes[0] or u.copies > 1:
        raise UnreadableError("parts of heads: queries, keys and values are read one after another")
    step, low, found = math.prod(u.sizes[1:]), 0, list[Heads | Neurons]()
    for count in counts:
        own = tracer.rows(u.u, low * step, (low + count) * step)
        assert isinstance(own, Neurons)
        low += count
        if keep:
            found.append(replace(u, u=own, sizes=(count, *u.sizes[1:])))
            continue
        order = (each - (each > 0) for at, each in enumerate(u.order) if at != axis % len(u.order))
        found.append(plain(Heads(own, u.sizes[1:], tuple(order))))
    return tuple(found)


def times(tracer: Tracer, u: Heads | Scores, factor: sympy.Expr) -> Heads | Scores:
    """A multiple."""
    if isinstance(u, Heads):
        made = tracer.multiply(u.u, factor)
        assert isinstance(made, Neurons)
        return replace(u, u=made)
    if u.is_softmax:
        raise UnreadableError("weights of attention times a number")
    with np.errstate(invalid="ignore"):
        table = np.where(np.isneginf(u.table), u.table, float(factor) * u.table)
    return replace(u, scale=u.scale * factor, table=table)


def shifted(u: Scores, added: Array) -> Scores:
    """Scores with a table added, as a bias or a mask of −∞."""
    table = u.table + over_heads(u, added)
    return replace(_unbent(u), table=np.where(table < _LOWEST, -np.inf, table))


def masked(u: Scores, mask: Array, value: float) -> Scores:
    """Scores with a value, −∞, where the mask is true."""
    if value >= _LOWEST:
        raise UnreadableError(f"scores that are masked by {value}: by −∞ they are read")
    return replace(_unbent(u), table=np.where(over_heads(u, mask), -np.inf, u.table))


def over_heads(u: Scores, given: Array) -> Array:
    """A table (T, T), of one that is the same for all inputs and heads."""
    table = np.asarray(given)
    if table.ndim > 2 and any(size != 1 for size in table.shape[:-2]):
        raise UnreadableError("a table of scores of its own for each input or head")
    return np.broadcast_to(table.reshape(table.shape[-2:]), u.table.shape)


def _unbent(u: Scores) -> Scores:
    if u.is_softmax:
        raise UnreadableError("weights of attention that are changed behind the softmax")
    return u


def softmax(u: Scores, axis: int) -> Scores:
    """Over the tokens that are read."""
    if axis not in (-1, 3) or not np.isfinite(_unbent(u).table).any(axis=1).all():
        raise UnreadableError("a softmax that is not over the tokens that are read, dim=-1")
    return replace(u, is_softmax=True)


def attended(
    tracer: Tracer,
    query: Any,
    key: Any,
    value: Any,
    scale: sympy.Expr | None = None,
    masks: Sequence[Array] = (),
    shift: Array | None = None,
) -> Any:
    """softmax(c q kᵀ + B) v of heads (inputs, heads, tokens, neurons of a head).

    Arguments:
        scale: c; 1/√d by default.
        masks: true where nothing is read.
        shift: B.
    """
    at = product(tracer, query, transposed(tracer, key, -2, -1))
    scores = times(tracer, at, 1 / sympy.sqrt(at.size) if scale is None else scale)
    assert isinstance(scores, Scores)
    for mask in masks:
        scores = masked(scores, mask, -math.inf)
    scores = scores if shift is None else shifted(scores, shift)
    return product(tracer, softmax(scores, -1), value)


def causal(tracer: Tracer, u: Heads) -> Array:
    """True where a token would read a later one."""
    (tokens,) = tracer.graph.shapes[u.u.node]
    return ~np.tri(tokens, dtype=bool)


def product(tracer: Tracer, left: Any, right: Any) -> Any:
    """q kᵀ, or A v."""
    if isinstance(left, Scores):
        return _attended(tracer, left, heads(tracer, right))
    one, other = _alone(heads(tracer, left)), _alone(heads(tracer, right))
    if one.order != (ROWS, 0, TOKENS, 1) or other.order != (ROWS, 0, 1, TOKENS):
        raise UnreadableError("a product of two layers that is no q @ k.transpose(-2, -1) of heads")
    (tokens,) = tracer.graph.shapes[one.u.node]
    count, size = one.sizes
    groups = _groups(other, count)
    if one.copies > 1 or not groups or size != other.sizes[1]:
        told = f"{count} heads of {size} queries on {other.sizes[0]} heads of {other.sizes[1]} keys"
        raise UnreadableError(f"{told}: heads share keys by repeat_interleave or enable_gqa")
    return Scores(one.u, other.u, count, size, np.zeros((tokens, tokens)), groups)


def _groups(shared: Heads, count: int) -> int:
    """How many of so many heads read each head of these; 0 if they do not fit."""
    own = shared.sizes[0] * shared.copies
    return shared.copies if own == count else count if own == 1 else 0


def _alone(given: Heads) -> Heads:
    """A layer whose neurons are one axis, as one head."""
    if len(given.sizes) > 1:
        return given
    order = [ROWS, 0, *(1 if each == 0 else each for each in given.order[1:])]
    return Heads(given.u, (1, *given.sizes), tuple(order))


def _attended(tracer: Tracer, scores: Scores, values: Heads) -> Any:
    given = _alone(values)
    if not scores.is_softmax:
        raise UnreadableError("attention without a softmax")
    groups = _groups(given, scores.heads)
    if given.order == (ROWS, 0, TOKENS, 1) and given.sizes[-1] != scores.size:
        told = f"values of {given.sizes[-1]} neurons in a head, and keys of {scores.size}"
        raise UnreadableError(f"{told}: give both one size")
    if given.order != (ROWS, 0, TOKENS, 1) or groups != scores.groups:
        raise UnreadableError("values of other heads than keys have")
    (of_query, query), (of_key, at) = map(tracer.multiple, (scores.query.node, scores.key.node))
    scale, key = scores.scale * of_query * of_key, replace(scores.key, node=at)
    is_over_size = scores.size > 1 and _is_one(scale * scores.size)
    factor = scale * (scores.size if is_over_size else sympy.sqrt(scores.size))
    scaled = key if _is_one(factor) else tracer.multiply(key, factor)
    made = Attention(
        tracer.node(replace(scores.query, node=query)),
        tracer.node(scaled),
        tracer.node(given.u),
        scores.heads,
        "n" if is_over_size else "sqrt(n)",
        tuple(map(tuple, scores.table.tolist())) if scores.table.any() else (),
        groups,
    )
    at = tracer.graph.add(made, scores.heads * scores.size, tracer.origin)
    found = Heads(Neurons(at, form=tracer.behind), (scores.heads, scores.size), given.order)
    return found if len(values.sizes) > 1 else found.u


def _is_one(factor: sympy.Expr) -> bool:
    """Up to the rounding of numbers such as 1/√d."""
    return bool(abs(float(factor) - 1) < _ROUNDING)
