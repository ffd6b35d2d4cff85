"""Operations of torch on heads and scores, and on what is fixed, as masks are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from torch import fx, nn

from ... import functions
from ...heads import (
    Heads,
    Scores,
    attended,
    causal,
    copied,
    heads,
    lengths,
    masked,
    parts,
    permuted,
    product,
    reshaped,
    shifted,
    softmax,
    spread,
    times,
    transposed,
    with_axis,
)
from ...tracing import Parameter, Tracer, UnreadableError
from .graphs import is_random, name_of

_KINDS = bool | int | float | str | slice | type(None) | type(Ellipsis) | torch.dtype | torch.device


def is_constant(node: fx.Node, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """True for an operation on numbers and fixed tensors alone, such as a slice of a mask."""
    given = [*_leaves((args, kwargs))]
    if node.op == "get_attr" or not all(_is_fixed(e) or isinstance(e, _KINDS) for e in given):
        return False
    if is_random(node):
        return False
    name = name_of(node)
    is_number = node.target is getattr(operator, name, None) and len(given) > 1
    return name in _MAKES or is_number or any(map(_is_fixed, given))


_MAKES = frozenset({"ones", "zeros", "full", "arange", "eye", "tril", "triu"})


def _is_fixed(given: Any) -> bool:
    return isinstance(given, Parameter) and given.is_fixed and given.scale == 1


def _leaves(given: Any) -> Iterator[Any]:
    if isinstance(given, Mapping):
        given = tuple(given.values())
    if not isinstance(given, tuple | list):
        yield given
        return
    for each in given:
        yield from _leaves(each)


def folded(node: fx.Node, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The value of such an operation."""

    def made(given: Any) -> Any:
        if isinstance(given, tuple | list):
            return tuple(map(made, given))
        return torch.from_numpy(np.array(given.value)) if isinstance(given, Parameter) else given

    own, named = made(args), {name: made(each) for name, each in kwargs.items()}
    if node.op == "call_method":
        found = getattr(own[0], str(node.target))(*own[1:], **named)
    else:
        found = node.target(*own, **named)
    if isinstance(found, torch.Tensor):
        return Parameter(node.name, found.numpy(), is_fixed=True)
    return found


def attribute(name: str) -> Any:
    """Where numbers are, and their type: nothing that is read depends on these."""
    known = {"device": torch.device("cpu"), "dtype": torch.double}
    if name not in known:
        raise UnreadableError(f"the attribute {name}")
    return known[name]


_QK_NORM = (
    "a norm of queries or keys in each head, of too few neurons for a limit: leave it out; behind "
    "a norm, matrices of variance 1/fan-in give scores of variance 1 without it, too"
)


def called(tracer: Tracer, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function or method, one of whose arguments are heads or scores."""
    if name in {"rms_norm", "layer_norm"}:
        raise UnreadableError(_QK_NORM)
    if name not in _KNOWN:
        way = ": heads that share keys are read one behind another, as by repeat_interleave"
        raise UnreadableError(f"the operation {name} on heads of attention{way * (name in _TILES)}")
    return _KNOWN[name](tracer, *args, **kwargs)


def module(tracer: Tracer, called: nn.Module, u: Heads | Scores) -> Any:
    """A module on heads or scores."""
    if isinstance(called, nn.Dropout | nn.Identity):
        return dropped(tracer, u, getattr(called, "p", 0.0), training=False)
    if isinstance(called, nn.Softmax) and isinstance(u, Scores):
        return softmax(u, called.dim)
    if isinstance(called, nn.RMSNorm | nn.LayerNorm):
        raise UnreadableError(_QK_NORM)
    raise UnreadableError(f"a {type(called).__name__} of heads of attention")


def attend(
    tracer: Tracer,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Parameter | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """`scaled_dot_product_attention`."""
    if dropout_p:
        raise UnreadableError("attention with dropout that is on")
    if enable_gqa:
        count = heads(tracer, query).sizes[0]
        own = (heads(tracer, each) for each in (key, value))
        key, value = (copied(tracer, each, -3, count // each.sizes[0]) for each in own)
    factor = None if scale is None else functions.exact(scale)
    masks = [causal(tracer, heads(tracer, query))] if is_causal else []
    table = None if attn_mask is None else _table(attn_mask)
    if table is not None and table.dtype == bool:
        masks, table = [*masks, ~table], None
    return attended(tracer, query, key, value, factor, masks, table)


def _table(given: Any) -> Any:
    if not _is_fixed(given):
        raise UnreadableError("a mask or bias of scores that is no buffer")
    return given.value


def _number(given: Any) -> sympy.Expr:
    if _is_fixed(given) and np.size(given.value) == 1:
        given = given.value.item()
    if not isinstance(given, int | float | sympy.Expr):
        raise UnreadableError("scores or heads times what is no number")
    return functions.exact(given)


def _times(tracer: Tracer, left: Any, right: Any) -> Any:
    u, factor = (left, right) if isinstance(left, Heads | Scores) else (right, left)
    return times(tracer, u, _number(factor))


def _over(tracer: Tracer, left: Any, right: Any) -> Any:
    return times(tracer, left, 1 / _number(right))


def _plus(tracer: Tracer, left: Any, right: Any) -> Any:
    u, added = (left, right) if isinstance(left, Scores) else (right, left)
    return shifted(u, _table(added))


def _masked(tracer: Tracer, u: Scores, mask: Any, value: Any) -> Any:
    return masked(
        u, _table(mask).astype(bool), float(_number(value) if _is_fixed(value) else value)
    )


def _where(tracer: Tracer, mask: Any, u: Scores, value: Any) -> Any:
    return _masked(tracer, u, Parameter("", ~_table(mask), is_fixed=True), value)


def _softmax(tracer: Tracer, u: Scores, dim: int = -1, **_: Any) -> Any:
    return softmax(u, dim)


def dropped(tracer: Tracer, u: Any, p: float = 0.5, training: bool = True, **_: Any) -> Any:
    """`dropout`, of a layer too: the identity in evaluation."""
    if training and p:
        raise UnreadableError("dropout that is on in evaluation, too: give it training=False")
    return tracer.dropped(u, p)


def _permuted(tracer: Tracer, u: Any, *dims: Any) -> Any:
    return permuted(tracer, u, dims[0] if isinstance(dims[0], tuple | list) else dims)


def _reshaped(tracer: Tracer, u: Any, *shape: Any) -> Any:
    given = shape[0] if isinstance(shape[0], tuple | list) else shape
    return reshaped(tracer, u, [0 if isinstance(each, Parameter) else each for each in given])


def _flattened(tracer: Tracer, u: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    given = heads(tracer, u)
    if (start_dim, end_dim) != (2, -1):
        raise UnreadableError("heads of attention flattened, but by flatten(2)")
    return reshaped(tracer, given, [0, *tracer.graph.shapes[given.u.node], -1])


def unflattened(tracer: Tracer, u: Any, dim: int, sizes: Sequence[int]) -> Any:
    """The neurons along several axes."""
    given = heads(tracer, u)
    dims = lengths(tracer, given)
    at = dim % len(dims)
    return reshaped(tracer, given, [*dims[:at], *sizes, *dims[at + 1 :]])


def _unbound(tracer: Tracer, u: Heads, dim: int = 0) -> Any:
    return parts(tracer, u, dim, [1] * u.sizes[0], keep=False)


def _chunked(tracer: Tracer, u: Heads, chunks: int, dim: int = 0) -> Any:
    return parts(tracer, u, dim, [u.sizes[0] // chunks] * chunks)


def _item(tracer: Tracer, u: Heads, at: Any) -> Any:
    given = [*at] if isinstance(at, tuple) else [at]
    if given.count(None) == 1 and all(each in (None, slice(None), ...) for each in given):
        place = given.index(None)
        behind = len(given) - 1 - place
        return with_axis(tracer, u, len(u.order) - behind if ... in given[:place] else place)
    places = [axis for axis, each in enumerate(given) if isinstance(each, int)]
    if len(places) != 1 or any(each != slice(None) for each in given if not isinstance(each, int)):
        raise UnreadableError("an index of heads of attention, but of queries, keys or values")
    return _unbound(tracer, u, places[0])[given[places[0]]]


def _sized(tracer: Tracer, u: Heads, dim: int | None = None) -> Any:
    """The axes that are no inputs', which nothing is computed from."""
    found = lengths(tracer, u)
    return tuple(found) if dim is None else found[dim]


def _shape(tracer: Tracer, u: Heads, name: str) -> Any:
    if name == "mT":
        return transposed(tracer, u, -2, -1)
    return attribute(name) if name != "shape" else _sized(tracer, u)


def _repeated(tracer: Tracer, u: Any, repeats: int, dim: int | None = None, **_: Any) -> Any:
    if not isinstance(repeats, int) or dim is None:
        raise UnreadableError("repeat_interleave of heads, but by a number and along dim=")
    return copied(tracer, u, dim, repeats)


def _expanded(tracer: Tracer, u: Any, *sizes: Any) -> Any:
    given = sizes[0] if isinstance(sizes[0], tuple | list) else sizes
    return spread(tracer, u, [0 if isinstance(each, Parameter) else each for each in given])


def same(tracer: Tracer, u: Any, *_: Any, **__: Any) -> Any:
    """Of an operation that changes no entry, and no axis."""
    return u


_TILES = ("repeat", "tile")
_KNOWN: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": attend,
    "matmul": product,
    "bmm": product,
    **dict.fromkeys(("mul", "imul"), _times),
    **dict.fromkeys(("div", "truediv"), _over),
    **dict.fromkeys(("add", "iadd"), _plus),
    "masked_fill": _masked,
    "where": _where,
    "softmax": _softmax,
    "dropout": dropped,
    **dict.fromkeys(("transpose", "swapaxes"), transposed),
    "permute": _permuted,
    **dict.fromkeys(("view", "reshape"), _reshaped),
    "flatten": _flattened,
    "unflatten": unflattened,
    "unbind": _unbound,
    "repeat_interleave": _repeated,
    "expand": _expanded,
    "unsqueeze": with_axis,
    "chunk": _chunked,
    "getitem": _item,
    "size": _sized,
    "getattr": _shape,
    **dict.fromkeys(("contiguous", "float", "double", "type_as", "to"), same),
}
