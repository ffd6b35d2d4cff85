"""Equations of a jaxpr on heads, on scores and on the numbers of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import sympy

from ...heads import (
    ROWS,
    TOKENS,
    Heads,
    Scores,
    masked,
    parts,
    permuted,
    product,
    reshaped,
    shifted,
    softmax,
    times,
)
from ...heads import heads as of_tokens
from ...tracing import Neurons, Parameter, Tracer, UnreadableError

_ONE, _HEAD, _NEURON, _QUERY, _KEY = -3, 0, 1, 2, 3
"""The kinds of axes: one number, the heads, the neurons of a head, tokens that read or are read."""
_LOWEST = -1e30
_OTHER = "heads of attention in another way than softmax(q k + mask) v"
_SHARED = "heads that share keys or values: these are read of torch; here give each head its own"
_IN_HEADS = (
    "neurons along several axes, as of heads or groups: norms of queries or keys, rotary "
    "embeddings and GroupNorm are read of torch"
)


@dataclass(frozen=True)
class Numbers:
    """The numbers of so many tokens that a model takes, which its tables are read at."""

    count: int


class Placed(NamedTuple):
    """Scores, or what a softmax is made of, and what each of the axes is.

    Attributes:
        kind: "scores", their exponentials "exp", or over the keys the "largest" or the "sum".
    """

    scores: Scores
    order: tuple[int, ...]
    kind: str = "scores"


def called(tracer: Tracer, equation: Any, given: Sequence[Any]) -> Any:
    """An equation, one of whose operands is of this page."""
    name = equation.primitive.name
    if any(isinstance(each, Numbers) for each in given):
        return _numbered(name, given)
    if name == "dot_general":
        return multiplied(tracer, equation, given)
    at = next(k for k, each in enumerate(given) if isinstance(each, Placed | Heads))
    u, others = given[at], [*given[:at], *given[at + 1 :]]
    shape = equation.outvars[0].aval.shape
    if name in _RESHAPES:
        return _reshaped(tracer, u, equation)
    if name in {"convert_element_type", "copy", "reduce_precision", "copy_p"}:
        return u
    if name == "stop_gradient":
        if isinstance(u, Placed) and u.kind == "largest":  # which a softmax does not depend on
            return u
        raise UnreadableError("a value whose gradient is stopped")
    if isinstance(u, Heads):
        return _of_heads(tracer, equation, u, given)
    if u.kind != "scores":
        return _softmax(u, name, given, equation)
    if (name == "mul" or (name == "div" and at == 0)) and isinstance(others[0], sympy.Expr):
        factor = others[0] if name == "mul" else 1 / others[0]
        return u._replace(scores=times(tracer, u.scores, factor))
    if name == "add" and isinstance(others[0], np.ndarray | np.generic):
        return u._replace(scores=shifted(u.scores, _table(u, others[0], shape)))
    if name == "select_n":
        return _chosen(u, given, shape)
    return _softmax(u, name, given, equation)


def _numbered(name: str, given: Sequence[Any]) -> Any:
    """Numbers of tokens: a negative one would count from the end, which none here is."""
    if name == "lt" and isinstance(given[0], Numbers) and np.all(given[1] == 0):
        return sympy.false
    if name == "select_n" and given[0] == sympy.false:
        return given[1]
    if name in _RESHAPES or name == "convert_element_type":
        return given[0]
    if name == "concatenate" and not np.any(given[1]) and len(given) == 2:
        return given[0]
    if name == "add" and len({type(each) for each in given}) == 2:
        return None  # of the end, which is not chosen
    raise UnreadableError(f"the operation {name} on the numbers of tokens")


def rows(equation: Any, table: Parameter, at: Any) -> Any:
    """The numbers of the rows that an equation takes of a table; None if it takes others.

    Arguments:
        at: further operands of the equation.
    """
    count, width = table.shape
    numbers = np.repeat(np.arange(count, dtype=np.float32)[:, None], width, axis=1)
    found = np.asarray(equation.primitive.bind(numbers, *at, **equation.params))
    if found.shape[-1:] != (width,) or np.isnan(found).any() or np.ptp(found, axis=-1).any():
        return None
    return found.reshape(-1, width)[:, 0].astype(int)


def codes(u: Any, places: Sequence[int], axes: int) -> tuple[int, ...]:
    """Each axis of a value: `ROWS`, `TOKENS`, or the place among those of its neurons.

    Arguments:
        places: of its positions.
    """
    if isinstance(u, Heads):
        return u.order
    neurons = max((at for at in range(axes) if at not in places), default=0)
    return tuple(TOKENS if at in places else (0 if at == neurons else ROWS) for at in range(axes))


def placed(tracer: Tracer, u: Neurons, sizes: Sequence[int], order: Sequence[int]) -> Any:
    """A layer with its axes: as it is, if its neurons are one, before or behind the positions."""
    seen = [each for each in order if each != ROWS]
    if len(sizes) == 1 and 0 in (seen[0], seen[-1]):
        before = "turned" if tracer.channels_last else ""
        form = tracer.behind if seen[-1] == 0 else before
        return replace(u, form=form if TOKENS in seen else "")
    if seen.count(TOKENS) > 1:
        raise UnreadableError("heads at positions along several axes: lay these along one")
    return Heads(replace(u, form=tracer.behind), tuple(sizes), tuple(order))


def apart(tracer: Tracer, u: Any, order: tuple[int, ...]) -> Heads:
    """A layer as heads, with axes in this order."""
    if isinstance(u, Heads):
        return u
    if not isinstance(u, Neurons) or u.form == "flat":
        raise UnreadableError(_IN_HEADS)
    return Heads(replace(u, form=tracer.behind), (tracer.graph.widths[u.node],), order)


def _reshaped(tracer: Tracer, u: Placed | Heads, equation: Any) -> Any:
    shape, into = (each[0].aval.shape for each in (equation.invars, equation.outvars))
    if equation.primitive.name == "transpose":
        order = equation.params["permutation"]
        if isinstance(u, Placed):
            return u._replace(order=tuple(u.order[at] for at in order))
        return _settled(tracer, permuted(tracer, u, order))
    if isinstance(u, Placed):
        live = [(code, size) for code, size in zip(u.order, shape, strict=True) if code != _ONE]
        found = []
        for size in into:
            is_next = bool(live) and live[0][1] == size
            found.append(live.pop(0)[0] if is_next else _ONE)
            if not is_next and size != 1:
                told = ", of a batch: read it by evaluation, or with one input" * bool(tracer.count)
                raise UnreadableError(f"scores of attention in another shape{told}")
        return u._replace(order=tuple(found))
    return _settled(tracer, reshaped(tracer, u, into, rows=1))


def _settled(tracer: Tracer, u: Any) -> Any:
    return placed(tracer, u.u, u.sizes, u.order) if isinstance(u, Heads) else u


def split(tracer: Tracer, u: Any, order: tuple[int, ...], equation: Any) -> Any:
    """The neurons of a layer along several axes."""
    return _settled(
        tracer, reshaped(tracer, apart(tracer, u, order), equation.outvars[0].aval.shape, rows=1)
    )


def _of_heads(tracer: Tracer, equation: Any, u: Heads, given: Sequence[Any]) -> Any:
    """Entry by entry with numbers, biases, or other heads; or some of them."""
    name = equation.primitive.name
    if name == "split":
        axis, sizes = equation.params["axis"], equation.params["sizes"]
        return [_settled(tracer, e) for e in parts(tracer, u, axis, list(sizes))]
    if name == "slice":
        return _sliced(tracer, equation, u)
    if name == "add" and (biases := [e for e in given if isinstance(e, Parameter)]):
        (bias,) = biases
        places = [code for code in u.order if code >= 0]
        if bias.value.size == math.prod(u.sizes) and places == [*range(len(u.sizes))]:
            made = tracer.shifted(u.u, replace(bias, value=bias.value.ravel()))
            return replace(u, u=made)
    raise UnreadableError(_IN_HEADS)


def _sliced(tracer: Tracer, equation: Any, u: Heads) -> Any:
    params, shape = equation.params, equation.invars[0].aval.shape
    bounds = [*zip(params["start_indices"], params["limit_indices"], strict=True)]
    cut = [at for at, pair in enumerate(bounds) if pair != (0, shape[at])]
    if len(cut) != 1 or (params["strides"] or (1,))[0] != 1:
        raise UnreadableError("an index of heads of attention, but of queries, keys or values")
    (at,), (low, high) = cut, bounds[cut[0]]
    ends = sorted({0, low, high, shape[at]})
    several = parts(tracer, u, at, [b - a for a, b in pairwise(ends)])
    return _settled(tracer, several[ends.index(low)])


def multiplied(tracer: Tracer, equation: Any, given: Sequence[Any]) -> Any:
    """q k of heads, or their softmax times v, as scores or as heads."""
    contracted, batch = equation.params["dimension_numbers"]
    shapes = [each.aval.shape for each in equation.invars]
    own = [_axes(tracer, u, shape) for u, shape in zip(given, shapes, strict=True)]
    axes = [order for _, order in own]
    summed, shared = (
        [tuple(order[at] for at in each) for order, each in zip(axes, pairs, strict=True)]
        for pairs in (contracted, batch)
    )
    free = [
        [order[at] for at in range(len(order)) if at not in (*contracted[k], *batch[k])]
        for k, order in enumerate(axes)
    ]
    with_heads = [set(each) - {_ONE} for each in shared]
    if with_heads[0] != with_heads[1] or not with_heads[0] <= {_HEAD}:
        raise UnreadableError(_SHARED)
    if isinstance(own[0][0], Heads) and isinstance(own[1][0], Heads):
        if [set(each) - {_ONE} for each in summed] != [{_NEURON}, {_NEURON}]:
            raise UnreadableError("a product of two layers that is no q·k over neurons of heads")
        left, right = (each for each, _ in own)
        if math.prod(left.sizes[:-1]) != math.prod(right.sizes[:-1]):
            raise UnreadableError(_SHARED)
        sizes = left.sizes if len(left.sizes) > 1 else (1, *left.sizes)
        scores = product(
            tracer,
            replace(left, sizes=sizes, order=(ROWS, 0, TOKENS, 1)),
            replace(right, sizes=_two(right.sizes), order=(ROWS, 0, 1, TOKENS)),
        )
        named = {TOKENS: _QUERY}, {TOKENS: _KEY}
        order = (*shared[0], *_named(free[0], named[0]), *_named(free[1], named[1]))
        return Placed(scores, order)
    at = 0 if isinstance(own[0][0], Placed) else 1
    weights, values = own[at][0], own[1 - at][0]
    if not isinstance(weights, Placed) or not isinstance(values, Heads):
        raise UnreadableError(_OTHER)
    if {*summed[at], *summed[1 - at]} - {_ONE} != {_KEY, TOKENS}:
        raise UnreadableError("attention that sums over other axes than its softmax")
    if weights.kind != "scores":
        raise UnreadableError("attention without a softmax")
    count = len(values.sizes)
    own_values = replace(values, sizes=_two(values.sizes), order=(ROWS, 0, TOKENS, 1))
    if own_values.sizes[0] != weights.scores.heads:
        raise UnreadableError(_SHARED)
    found = product(tracer, weights.scores, own_values)
    made: list[list[int]] = [[], []]
    made[at] = _named(free[at], {_QUERY: TOKENS})
    made[1 - at] = free[1 - at]
    last = {_HEAD: 0, _NEURON: count - 1, TOKENS: TOKENS, _ONE: ROWS}
    return placed(
        tracer, found.u, values.sizes, [last[e] for e in (*shared[0], *made[0], *made[1])]
    )


def _two(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return sizes if len(sizes) > 1 else (1, *sizes)


def _named(order: Sequence[int], names: dict[int, int]) -> list[int]:
    return [names.get(each, each) for each in order]


def _axes(tracer: Tracer, u: Any, shape: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """Heads without axes of one number, and what each axis is; of scores as they are."""
    if isinstance(u, Placed):
        return u, u.order
    if isinstance(u, Neurons) and not tracer.graph.shapes[u.node]:
        raise UnreadableError("a product of two layers, which are no tokens: inputs= gives these")
    given = u if isinstance(u, Heads) else of_tokens(tracer, u)
    if not isinstance(u, Heads):
        order = [each for each in given.order if each != ROWS]
        given = replace(given, order=(ROWS,) * (len(shape) - len(order)) + tuple(order))
    live = [size for size in given.sizes if size != 1]
    if len(live) > 2:
        raise UnreadableError(
            f"neurons along more axes than heads and their neurons, as of {_SHARED}"
        )
    ranks = {at: rank for rank, at in enumerate(k for k, s in enumerate(given.sizes) if s != 1)}
    of_neurons = {at: rank + 2 - len(live) for at, rank in ranks.items()}
    order = [
        code if code == TOKENS else of_neurons.get(code, _ONE) if code >= 0 else _ONE
        for code in given.order
    ]
    return replace(given, sizes=tuple(live) or (1,)), tuple(order)


def _table(u: Placed, value: Any, shape: Sequence[int]) -> Any:
    """A fixed array that is the same for all heads, as (queries, keys)."""
    array = np.broadcast_to(np.asarray(value), shape)
    if {_QUERY, _KEY} - {*u.order}:
        raise UnreadableError(_OTHER)
    moved = np.moveaxis(array, [u.order.index(_QUERY), u.order.index(_KEY)], [-2, -1])
    flat = moved.reshape(-1, *moved.shape[-2:])
    if (flat != flat[:1]).any():
        raise UnreadableError("a table of scores of its own for each input or head")
    return flat[0]


def _chosen(u: Placed, given: Sequence[Any], shape: Sequence[int]) -> Any:
    """Scores where a fixed mask says so, and elsewhere a number so small that it weighs nothing."""
    choice, *cases = given
    at = next(k for k, each in enumerate(cases) if isinstance(each, Placed))
    if not isinstance(choice, np.ndarray) or not isinstance(cases[1 - at], sympy.Expr):
        raise UnreadableError("a mask of scores that is made from the inputs, or is no number")
    mask = _table(u, choice.astype(bool) != bool(at), shape)
    return u._replace(scores=masked(u.scores, mask, float(cases[1 - at])))


def _softmax(u: Placed, name: str, given: Sequence[Any], equation: Any) -> Any:
    """e^{s − max s}/Σ e^{s − max s}, as it is spelled, over the keys: what is summed over is
    what is read."""
    if (name, u.kind) in {("reduce_max", "scores"), ("reduce_sum", "exp")}:
        (axis,) = equation.params["axes"]
        if u.order[axis] == _QUERY:
            u = _turned(u)
        if u.order[axis] != _KEY:
            raise UnreadableError("a softmax that is not over the tokens that are read")
        order = (*u.order[:axis], *u.order[axis + 1 :])
        return Placed(u.scores, order, "largest" if name == "reduce_max" else "sum")
    if (
        name == "max"
        and u.kind == "largest"
        and any(each is not u and each < _LOWEST for each in given)
    ):
        return u
    if name == "exp" and u.kind == "scores":
        return u._replace(kind="exp")
    if name in {"sub", "div"} and all(isinstance(each, Placed) for each in given):
        left, right = given
        kinds = {"sub": ("scores", "largest"), "div": ("exp", "sum")}[name]
        turned = left if left.scores is right.scores else _turned(left)
        if (left.kind, right.kind) == kinds and _is_same(turned.scores, right.scores):
            if name == "sub":
                return turned
            return turned._replace(scores=softmax(turned.scores, -1), kind="scores")
    raise UnreadableError(f"{_OTHER}: {name}")


def _is_same(one: Scores, other: Scores) -> bool:
    return replace(one, table=other.table) == other and np.array_equal(one.table, other.table)


def _turned(u: Placed) -> Placed:
    """The same scores, of which what reads and what is read are exchanged."""
    own = u.scores
    names = {_QUERY: _KEY, _KEY: _QUERY}
    scores = replace(own, query=own.key, key=own.query, table=own.table.T)
    return u._replace(scores=scores, order=tuple(_named(u.order, names)))


_RESHAPES = frozenset({"reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose"})
