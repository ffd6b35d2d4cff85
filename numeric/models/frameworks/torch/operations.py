"""The operations of torch for a `Tracer`: its modules, functions and methods."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy
import torch
from torch import fx, nn
from torch.nn import functional

from derive.engine.taps import Taps
from derive.errors import InputError

from ... import functions
from ...heads import Heads, Scores, product, reshaped
from ...parts import merged, part, width
from ...signals import everywhere, selected, windows
from ...tracing import (
    Beside,
    Collective,
    Matrices,
    Neurons,
    Parameter,
    Tracer,
    UnreadableError,
    Value,
    as_matrices,
    beside,
    parts_of,
)
from . import attention
from .attention import dropped, folded, is_constant, same
from .graphs import DROPOUTS, name_of


class UnreadModuleError(UnreadableError):
    """An error for a module that is not read, whatever it is applied to."""


def evaluate(
    graph: fx.Graph,
    module: nn.Module,
    tracer: Tracer,
    otherwise: Callable[[fx.Node, tuple[Any, ...], UnreadableError], Any],
) -> dict[fx.Node, Any]:
    """The value of each node of a module's graph for a tracer; the output's is what it returns.

    What cannot be read is what `otherwise` makes of the node, its arguments and the reason.
    """
    values: dict[fx.Node, Any] = {}
    for node in graph.nodes:
        tracer.origin = node.name
        tracer.where = str(node.target) if node.op == "call_module" else node.name
        args = fx.node.map_arg(node.args, lambda each: values[each])
        kwargs = dict(fx.node.map_arg(node.kwargs, lambda each: values[each]))
        try:
            if node.op == "placeholder":
                values[node] = _argument(tracer, node, is_first=not values)
            elif node.op == "output":
                values[node] = _only(args[0])
            else:
                values[node] = _operation(tracer, module, node, args, kwargs)
        except UnreadableError as error:
            values[node] = otherwise(node, (*args, *kwargs.values()), error)
        except InputError as error:
            why = UnreadableError(f"{error.got}; {error.wanted}")
            values[node] = otherwise(node, (*args, *kwargs.values()), why)
        except (TypeError, AttributeError, ValueError, IndexError):  # of arguments unknown here
            why = UnreadableError(f"the operation {name_of(node)} with such arguments")
            values[node] = otherwise(node, (*args, *kwargs.values()), why)
    return values


def _argument(tracer: Tracer, node: fx.Node, is_first: bool) -> Value:
    if not is_first:
        raise UnreadableError(
            "a second argument of forward: give inputs=(x, y) if both lie side by side before the "
            "first matrix; else read the network of each by itself, as model.branch"
        )
    tracer.graph.origins[0] = node.name
    return Neurons(0)


def _only(returned: Any) -> Value:
    """The value that forward returns, if it is one."""
    if isinstance(returned, tuple | list | dict):
        raise UnreadableError("several outputs")
    if isinstance(returned, Beside):
        raise UnreadableError("several heads side by side: return them as a tuple, and choose one")
    if not isinstance(returned, Neurons):
        raise UnreadableError("it is no layer's values")
    return returned


def _operation(
    tracer: Tracer, module: nn.Module, node: fx.Node, args: Any, kwargs: dict[str, Any]
) -> Any:
    if not args and "input" in kwargs:
        args = (kwargs.pop("input"),)
    if node.op != "call_module" and is_constant(node, args, kwargs):
        return folded(node, args, kwargs)
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(module)
        if not isinstance(value, torch.Tensor):
            raise UnreadableError("an attribute that is no tensor")
        is_fixed = not isinstance(value, nn.Parameter)
        return replace(parameter(str(node.target), value), is_fixed=is_fixed)
    if node.op == "call_module":
        called = module.get_submodule(str(node.target))
        if called._forward_hooks or called._forward_pre_hooks:
            raise UnreadModuleError("hooks on a module, which may change what it takes or gives")
        if "forward" in vars(called):
            raise UnreadableError("a module whose forward was replaced: write it as a class")
        if isinstance(args[0], Heads | Scores):
            return attention.module(tracer, called, args[0])
        if len(args) != 1:
            raise UnreadableError(_why_not(called) or "a module of several arguments")
        return _module(tracer, str(node.target), called, args[0])
    if any(isinstance(each, Heads | Scores) for each in args):
        return attention.called(tracer, name_of(node), args, kwargs)
    known: Mapping[Any, Any] = _METHODS if node.op == "call_method" else _FUNCTIONS
    if node.target not in known:
        way = _WAYS.get(re.sub(r"(\dd)?_?$", "", name_of(node)), "")
        raise UnreadableError(f"the operation {name_of(node)}{way and ': '}{way}")
    return known[node.target](tracer, *args, **kwargs)


def parameter(path: str, value: torch.Tensor) -> Parameter:
    """A tensor by its path."""
    own = value.detach().cpu()
    return Parameter(path, (own.float() if own.dtype is torch.bfloat16 else own).numpy())


def _module(tracer: Tracer, path: str, module: nn.Module, u: Value) -> Value:
    own = {
        name: parameter(f"{path}.{name}", value)
        for name, value in module.named_parameters(recurse=False)
    }
    if isinstance(module, nn.Linear) and "weight" in own:
        return _linear(tracer, u, own["weight"], own.get("bias"))
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d) and "weight" in own:
        window = module.stride, module.padding, module.dilation, module.groups
        mode = module.padding_mode
        return _convolved(tracer, u, own["weight"], own.get("bias"), *window, mode=mode)
    if type(module) in _POOLS:
        axes, kind = _POOLS[type(module)]
        if kind == "adaptive":
            return _adaptive(axes)(tracer, u, module.output_size)
        sizes = module.kernel_size, module.stride, module.padding
        return _averaged(axes)(tracer, u, *sizes, module.ceil_mode)
    if isinstance(module, nn.LayerNorm):
        gains = own.get("weight"), own.get("bias")
        return _layer_norm(tracer, u, module.normalized_shape, *gains, module.eps)
    if isinstance(module, nn.RMSNorm):
        return _rms_norm(tracer, u, module.normalized_shape, own.get("weight"), module.eps)
    if isinstance(module, nn.GroupNorm):
        return _group_norm(
            tracer, u, module.num_groups, own.get("weight"), own.get("bias"), module.eps
        )
    if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
        return _batch_norm(tracer, u, module, own.get("weight"), own.get("bias"))
    if type(module) in _PADS:
        pads = _PADS[type(module)], getattr(module, "value", None)
        return _padded(tracer, u, module.padding, *pads)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return tracer.dropped(u, module.p)
    if isinstance(module, nn.Flatten):
        return _flat(tracer, u, module.start_dim, module.end_dim)
    if isinstance(module, nn.Identity):
        return u
    if isinstance(module, nn.GLU):
        return _gated(tracer, u, module.dim)
    if isinstance(module, nn.PReLU):
        return _prelu(tracer, u, own["weight"])
    if fault := _why_not(module):
        raise UnreadModuleError(fault)
    function, options = _SCALARS[type(module)]
    return tracer.apply(function, u, *(getattr(module, name) for name in options))


def _why_not(module: nn.Module) -> str | None:
    """Why a module that is called is no function of one neuron; None for one that is."""
    if isinstance(module, nn.Softmax | nn.LogSoftmax):
        return "a softmax is no function of one neuron"
    kind = type(module).__name__
    told = next((why for start, why in _REASONS.items() if kind.startswith(start)), None)
    if told is not None:
        return f"no layer here is a {kind}: {told}"
    return None if type(module) in _SCALARS else f"no layer here is a {type(module).__name__}"


_REASONS = {
    "InstanceNorm": "it is GroupNorm with one neuron in each group, and theory is for many",
    "MaxPool": "the largest of several positions is no function of one; average pooling is read",
    "AdaptiveMaxPool": "the largest of several positions is no function of one",
    **dict.fromkeys(("LSTM", "GRU", "RNN"), "recurrent: read one step of it"),
    "RReLU": "its slope is drawn at random in training: use LeakyReLU",
    "Bilinear": "a product of two layers by a random tensor; gates, a(x) * b(x), are read",
    "ConvTranspose": "transposed convolutions are not known here",
}
"""Why modules whose names begin so are not read."""

_SCALARS = {
    kind: functions.TORCH[functions.plain(name)]
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and functions.plain(name) in functions.TORCH
}


def _of(
    function: Callable[..., Any], options: Mapping[str, Any] = MappingProxyType({})
) -> Callable[..., Value]:
    """A scalar function with torch's keywords, and their defaults."""

    def applied(tracer: Tracer, u: Value, *args: Any, **kwargs: Any) -> Value:
        kwargs.pop("inplace", None)
        given = [*args, *(kwargs.get(name, own) for name, own in [*options.items()][len(args) :])]
        return tracer.apply(function, _value(u), *given[: len(options)])

    return applied


def _linear(tracer: Tracer, u: Value, weight: Value, bias: Parameter | None = None) -> Value:
    if not (isinstance(u, Neurons) and u.form == "flat"):
        _check_last(tracer, u)
    return tracer.linear(u, weight, bias)


def _check_last(tracer: Tracer, u: Value) -> None:
    """Raise UnreadableError unless the neurons are the last axis."""
    for each in parts_of(u):
        if isinstance(each, Neurons) and tracer.graph.shapes[each.node] and not each.form:
            raise UnreadableError(
                "a random matrix over positions, which has no theory here: permute the channels to "
                "the last axis, or mix positions by a fixed matrix, A @ x with a buffer A"
            )


def _matmul(tracer: Tracer, left: Value, right: Value) -> Value:
    """u W, or A u with a fixed matrix A over positions, or a product of matrices."""
    if isinstance(right, Parameter | Matrices) and isinstance(left, Neurons | Beside):
        return _linear(tracer, left, right.T)
    if isinstance(left, Parameter) and isinstance(right, Neurons):
        return _over_places(tracer, left, right)
    if isinstance(left, Neurons) and isinstance(right, Neurons):
        return product(tracer, left, right)
    return as_matrices(left) @ as_matrices(right)


def _over_places(tracer: Tracer, A: Parameter, u: Neurons) -> Value:
    """A u, sums over positions with the weights of a fixed matrix, as on a graph."""
    shape = tracer.graph.shapes[u.node]
    if u.form != "turned" or len(shape) != 1 or not A.is_fixed or A.value.ndim != 2:
        raise UnreadableError(
            f"{A.path} from the left: a parameter is read as x @ W.T, a buffer as A @ x over the "
            "positions of x"
        )
    weights = float(A.scale) * A.value
    rows = tuple(tuple((int(p), float(row[p])) for p in np.flatnonzero(row)) for row in weights)
    made = tracer.pooled(replace(u, form=""), lambda at: Taps((rows,), at, (len(rows),)), 1)
    return replace(made, form="turned")


def _addmm(
    tracer: Tracer, bias: Parameter, left: Value, right: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    if beta != 1 or alpha != 1:
        raise UnreadableError("addmm with beta or alpha")
    return tracer.add(_matmul(tracer, left, right), bias)


def _einsum(tracer: Tracer, spelled: str, *given: Value) -> Value:
    """A matrix and a layer, the layer's last axis summed over: "bi,oi->bo", "...i,io->...o"."""
    terms, _, into = spelled.replace(" ", "").partition("->")
    names = terms.split(",")
    told = f"einsum of {spelled}: read is a layer's last axis times a matrix, as bi,oi->bo"
    if len(names) != 2 or len(given) != 2:
        raise UnreadableError(told)
    at = int(isinstance(given[0], Parameter | Matrices))
    (u, of_u), (W, of_W) = (given[at], names[at]), (given[1 - at], names[1 - at])
    if not isinstance(W, Parameter | Matrices) or not of_u or len(of_W) != 2:
        raise UnreadableError(told)
    if into != of_u[:-1] + of_W.replace(of_u[-1], "") or of_u[-1] not in of_W:
        raise UnreadableError(told)
    return _linear(tracer, u, W if of_W[1] == of_u[-1] else W.T)


def _cat(tracer: Tracer, given: Any, dim: int = 0) -> Value:
    """Values side by side, along the axis of the neurons, or of the positions."""
    if dim == 1 and any(isinstance(e, Parameter) for e in given):
        return tracer.side_by_side(given)
    made = beside(given)
    first, *_ = made.parts
    axes = len(tracer.graph.shapes[first.node]) if first.form != "flat" else 0
    neurons = axes + 1 if first.form == "turned" else 1
    if {(e.form, tracer.graph.shapes[e.node]) for e in made.parts} != {
        (first.form, tracer.graph.shapes[first.node])
    }:
        raise UnreadableError("values side by side whose positions differ")
    if dim % (axes + 2) != neurons:
        raise UnreadableError(f"values side by side along axis {dim}, which is not the neurons'")
    return made


def _chunk(tracer: Tracer, u: Value, chunks: int, dim: int = 0) -> Any:
    count = width(tracer, u)
    return _split(tracer, u, -(-count // chunks), dim)


def _split(tracer: Tracer, u: Value, sizes: Any, dim: int = 0) -> Any:
    """Some neurons after others, each as a layer of its own."""
    _check_neurons(tracer, u, dim)
    count = width(tracer, u)
    if not count:
        raise UnreadableError("a part of the inputs: read the network that takes it by itself")
    if isinstance(sizes, int):
        sizes = [min(sizes, count - at) for at in range(0, count, sizes)]
    ends = [0, *np.cumsum(sizes).tolist()]
    return tuple(tracer.rows(u, *pair) for pair in pairwise(ends))


def _check_neurons(tracer: Tracer, u: Value, dim: int) -> None:
    """Raise UnreadableError unless the axis is the neurons'."""
    first, *_ = parts_of(u)
    if not isinstance(first, Neurons) or first.form == "flat":
        raise UnreadableError("a part of what is no layer, or of positions that lie side by side")
    axes = len(tracer.graph.shapes[first.node])
    if not axes and len(tracer.given) > 2:
        raise UnreadableError("parts of a layer before the inputs meet a matrix: put one in front")
    if dim % (axes + 2) != (axes + 1 if first.form == "turned" else 1):
        raise UnreadableError(f"parts along axis {dim}, which is not the neurons'")


def _each(given: Any, axes: int) -> tuple[Any, ...]:
    """A number for each axis."""
    return tuple(given) if isinstance(given, tuple | list) else (given,) * axes


def _convolved(
    tracer: Tracer,
    u: Value,
    weight: Parameter,
    bias: Parameter | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    mode: str = "zeros",
) -> Value:
    if mode not in {"zeros", "circular"}:
        raise UnreadableError(f"padding of mode {mode}: zeros and circular are read")
    size = weight.shape[2:]
    strides, gaps = _each(stride, len(size)), _each(dilation, len(size))
    pads: tuple[Any, ...] = (0,) * len(size) if padding == "valid" else _each(padding, len(size))
    if padding == "same":  # an odd one more behind
        spans = [gap * (s - 1) for gap, s in zip(gaps, size, strict=True)]
        pads = tuple((span // 2, span - span // 2) for span in spans)
    window: dict[str, Any] = {"stride": strides, "padding": pads, "dilation": gaps}
    return tracer.filtered(u, weight, bias, groups, **window, circular=mode == "circular")


def _padded(
    tracer: Tracer, u: Value, pad: Any, mode: str = "constant", value: float | None = None
) -> Value:
    """Zeros beside a signal, or its other end; the pairs are of the last axes, these first."""
    if mode not in {"constant", "circular"} or value:
        raise UnreadableError(f"padding of mode {mode}: zeros and circular are read")
    pairs = [*zip(pad[::2], pad[1::2], strict=True)][::-1]
    axes = len(tracer.graph.shapes[tracer.node(u)]) or len(pairs)
    pairs = [(0, 0)] * (axes - len(pairs)) + pairs

    def places(P: int, low: int, high: int) -> list[int]:
        beyond = range(max(0, -low), P + min(0, high))
        if mode == "circular":
            return [*range(P - low, P), *beyond, *range(high)]
        return [-1] * low + [*beyond] + [-1] * high

    def taps(shape: tuple[int, ...]) -> Taps:
        return selected(shape, [places(P, *pair) for P, pair in zip(shape, pairs, strict=True)])

    return tracer.pooled(u, taps, axes)


def _averaged(axes: int) -> Callable[..., Value]:
    def done(
        tracer: Tracer,
        u: Value,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Value:
        del count_include_pad
        if any(_each(padding, axes)) or ceil_mode or divisor_override:
            raise UnreadableError("average pooling with padding, ceil_mode or a divisor")
        size = _each(kernel_size, axes)
        strides = size if stride is None else _each(stride, axes)
        return tracer.pooled(u, lambda shape: windows(shape, size, strides), axes)

    return done


def _adaptive(axes: int) -> Callable[..., Value]:
    def done(tracer: Tracer, u: Value, output_size: Any) -> Value:
        def taps(shape: tuple[int, ...]) -> Taps:
            pairs = [*zip(shape, _each(output_size, axes), strict=True)]
            into = [P if wanted is None else int(wanted) for P, wanted in pairs]
            if any(P % count for P, count in zip(shape, into, strict=True)):
                raise UnreadableError(f"windows of different sizes, from {shape} to {into}")
            size = [P // count for P, count in zip(shape, into, strict=True)]
            return windows(shape, size, size)

        return tracer.pooled(u, taps, axes)

    return done


def _permuted(tracer: Tracer, u: Value, *given: Any, dims: Any = None) -> Value:
    order = given[0] if len(given) == 1 else given or dims
    if not isinstance(u, Neurons) or u.form == "flat":
        raise UnreadableError("a permutation of the axes of what is no signal")
    axes = len(order)
    if u.node == 0:
        tracer.signal(u, axes - 2)
    last = (0, *range(2, axes), 1), (0, axes - 1, *range(1, axes - 1))
    wanted = last[1] if u.form == "turned" else last[0]
    if len(tracer.graph.shapes[u.node]) != axes - 2 or tuple(a % axes for a in order) != wanted:
        raise UnreadableError(f"axes in the order {tuple(order)}")
    return replace(u, form="" if u.form == "turned" else "turned")


def _binary(name: str, *extra: Any) -> Callable[..., Value]:
    def done(tracer: Tracer, left: Any, right: Any) -> Value:
        found: Value = getattr(tracer, name)(_value(left), _value(right), *extra)
        return found

    return done


def _value(given: Any) -> Value:
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return functions.exact(given) if is_number else given


def _mean(tracer: Tracer, u: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    axes = len(tracer.graph.shapes[u.node]) if isinstance(u, Neurons | Collective) else 0
    turned = getattr(u, "form", "") == "turned"
    given = dim if isinstance(dim, tuple | list) else (dim,)
    dims = {each % (axes + 2) for each in given if isinstance(each, int)}
    neurons = axes + 1 if turned else 1
    if isinstance(u, Neurons) and axes and dims == {*range(1, axes + 2)} - {neurons}:
        mean = everywhere if not keepdim else (lambda shape: windows(shape, shape, shape))
        made = tracer.pooled(replace(u, form=""), mean, axes)
        return replace(made, form=u.form if keepdim else "")
    if dims != {neurons} or not keepdim or None in given:
        raise UnreadableError("a mean that is not mean(-1, keepdim=True), or of all positions")
    return tracer.mean(u)


def _sum(tracer: Tracer, u: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    """A sum over all positions, or over the neurons: the mean times their number."""
    mean = _mean(tracer, u, dim, keepdim)
    if isinstance(mean, Collective) and isinstance(u, Neurons):
        return tracer.multiply(mean, sympy.Integer(width(tracer, u)))
    assert isinstance(u, Neurons)
    return tracer.multiply(mean, sympy.Integer(math.prod(tracer.graph.shapes[u.node])))


def _transposed(tracer: Tracer, u: Value, *given: Any, dim0: Any = None, dim1: Any = None) -> Value:
    """A matrix with its axes exchanged, or a signal with its channels at the other end."""
    if isinstance(u, Parameter | Matrices):
        return u.T
    one, other = given or (dim0, dim1)
    axes = len(tracer.graph.shapes[u.node]) if isinstance(u, Neurons) else 0
    if axes != 1 or {one % 3, other % 3} != {1, 2}:
        raise UnreadableError("a transposition that is not of the positions and the neurons")
    return _permuted(tracer, u, 0, 2, 1)


def _upsampled(
    tracer: Tracer,
    u: Value,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    **_: Any,
) -> Value:
    """Each position repeated, as many times along each axis."""
    axes = len(tracer.graph.shapes[u.node]) if isinstance(u, Neurons) else 0
    times = [int(each or 0) for each in _each(scale_factor, axes)]
    is_whole = tuple(times) == _each(scale_factor, axes) and axes and min(times) > 0
    if mode != "nearest" or not is_whole or not isinstance(u, Neurons) or u.form:
        raise UnreadableError(f"interpolation of mode {mode}: nearest, by whole factors, is read")

    def taps(shape: tuple[int, ...]) -> Taps:
        at = [[p // k for p in range(P * k)] for P, k in zip(shape, times, strict=True)]
        return selected(shape, at)

    return tracer.pooled(u, taps, axes)


def _layer_norm(
    tracer: Tracer,
    u: Value,
    normalized_shape: Any,
    weight: Parameter | None = None,
    bias: Parameter | None = None,
    eps: float = 1e-5,
    kind: str = "layer",
) -> Value:
    over = _over_positions(tracer, u, normalized_shape)
    return tracer.norm(u, kind, eps, _gains(weight, bias), over=over)


def _gains(*given: Parameter | None) -> dict[str, Any]:
    return {each.path: each.value for each in given if each is not None}


def _over_positions(tracer: Tracer, u: Value, normalized: Any) -> bool:
    """True for a norm over channels and positions, False for one over neurons alone."""
    shape = tuple(normalized) if isinstance(normalized, tuple | list) else (normalized,)
    axes = tracer.graph.shapes[u.node] if isinstance(u, Neurons) and u.form != "turned" else ()
    if axes and isinstance(u, Neurons) and shape == (tracer.graph.widths[u.node], *axes):
        return True
    _check_last(tracer, u)
    if len(shape) != 1:
        raise UnreadableError(f"a norm over the axes {shape}")
    return False


def _group_norm(
    tracer: Tracer,
    u: Value,
    num_groups: int,
    weight: Parameter | None = None,
    bias: Parameter | None = None,
    eps: float = 1e-5,
) -> Value:
    over = isinstance(u, Neurons) and bool(tracer.graph.shapes[u.node])
    if isinstance(u, Neurons) and not u.node:
        raise UnreadableError("GroupNorm of inputs, whose numbers are no neurons")
    if getattr(u, "form", "") == "turned":
        raise UnreadableError("GroupNorm of positions: it takes channels as the first axis")
    if isinstance(u, Neurons) and tracer.graph.widths[u.node] == num_groups:
        raise UnreadableError("GroupNorm with one neuron in each group: theory is for many")
    return tracer.norm(u, "layer", eps, _gains(weight, bias), num_groups, over=over)


def _batch_norm(
    tracer: Tracer,
    u: Value,
    module: nn.Module,
    weight: Parameter | None = None,
    bias: Parameter | None = None,
) -> Value:
    if getattr(u, "form", ""):
        raise UnreadableError("batch normalization of a layer in another shape than channels first")
    mean, variance = module.running_mean, module.running_var
    running = None if mean is None else (mean.numpy(), variance.numpy())
    return tracer.batch_norm(u, module.eps, (weight, bias), running)


def _rms_norm(
    tracer: Tracer, u: Value, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Value:
    """As `_layer_norm`; ε is by default the machine epsilon, of single precision as models have."""
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return _layer_norm(tracer, u, normalized_shape, weight, None, eps, "rms")


def _prelu(tracer: Tracer, u: Value, weight: Parameter) -> Value:
    return tracer.apply(functions.relu, u, tracer.held(weight))


def _flat(tracer: Tracer, u: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    """The values of a layer as they are: with start_dim = 0 inputs would be joined."""
    if isinstance(u, Beside) and start_dim == 1:
        return beside(_flat(tracer, each, start_dim, end_dim) for each in u.parts)
    if isinstance(u, Neurons) and start_dim == 2 and end_dim == -1 and not u.form:
        return merged(tracer, u)
    if not isinstance(u, Neurons) or start_dim != 1 or end_dim not in (1, -1):
        raise UnreadableError(
            f"flatten with start_dim={start_dim}, end_dim={end_dim}: start_dim=1 keeps a row for "
            "each input"
        )
    return _laid_flat(tracer, u)


def _laid_flat(tracer: Tracer, u: Neurons) -> Neurons:
    return replace(u, form="flat") if tracer.graph.shapes[u.node] else u


class _Size(Parameter):
    """Numbers of a shape, of which nothing is asked but to be given again."""


_SHAPE = _Size("a layer's shape", np.zeros(0))
_ROWS = _Size("the number of inputs", np.zeros(0))
_OTHER = _Size("a number of a shape", np.zeros(0))


def _sized(tracer: Tracer, u: Value, dim: int | None = None) -> Any:
    if isinstance(u, Parameter):
        return u.shape if dim is None else u.shape[dim]
    if isinstance(u, Neurons) and u.form == "turned" and len(tracer.graph.shapes[u.node]) == 1:
        sizes = _ROWS, *tracer.graph.shapes[u.node], tracer.graph.widths[u.node]
        return sizes if dim is None else sizes[dim]
    if isinstance(u, Neurons) and u.node == 0 and len(tracer.given) > 2 and dim != 0:
        own = (_ROWS, *tracer.given[1:])
        return own if dim is None else own[dim]
    shape = _SHAPE if isinstance(u, Neurons) else _OTHER
    return shape if dim is None else _item(tracer, shape, dim)


def _attribute(tracer: Tracer, u: Value, name: str) -> Any:
    if name == "mT" or (name == "T" and isinstance(u, Parameter | Matrices)):
        return _transposed(tracer, u, 1, 2)
    if name != "shape":
        return attention.attribute(name)
    return _sized(tracer, u)


def _item(tracer: Tracer, u: Any, at: Any) -> Any:
    if isinstance(u, tuple):
        return u[at]
    if isinstance(u, Neurons | Beside):
        return part(tracer, u, at)
    if not isinstance(u, _Size):
        if isinstance(u, Parameter) and u.shape == np.shape(u.value[at]):
            return u
        raise UnreadableError("an index: some neurons of a layer")
    return _ROWS if u is _SHAPE and at == 0 else _OTHER


def _reshaped(tracer: Tracer, u: Value, *given: Any, shape: Any = None) -> Value:
    """The values of a layer as a row for each input, as they are."""
    if shape is None:
        shape = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if isinstance(u, Neurons) and u.form == "turned" and len(shape) > 2:
        return reshaped(tracer, u, [0 if each is _ROWS else each for each in shape])
    if not isinstance(u, Neurons) or not isinstance(shape, tuple | list) or len(shape) != 2:
        raise UnreadableError("a layer in another shape than a row for each input")
    rows, rest = shape
    width = tracer.graph.widths[u.node] * math.prod(tracer.graph.shapes[u.node])
    if rows is not _ROWS and rows != -1:
        told = rows.path if isinstance(rows, Parameter) else rows
        raise UnreadableError(f"a layer in {told} rows: x.size(0) is one for each input")
    is_whole = rest == -1 if rows is _ROWS else not width and rest is _OTHER
    if not is_whole and not (isinstance(rest, int) and 0 < rest == (width or rest)):
        raise UnreadableError("a layer in another shape than a row for each input")
    return _laid_flat(tracer, u)


def _expanded(tracer: Tracer, u: Value, *given: Any) -> Value:
    """A parameter with a row for each input, as a token has."""
    sizes = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    kept = zip(sizes[1:], u.shape[1:], strict=True) if isinstance(u, Parameter) else [(0, 1)]
    if not all(size in (-1, own) for size, own in kept):
        raise UnreadableError("expand, but of a parameter (1, positions, neurons) over the inputs")
    return u


def _repeated(tracer: Tracer, u: Value, *given: Any) -> Value:
    """A parameter with a row for each input."""
    if not isinstance(u, Parameter) or any(size != 1 for size in given[1:]):
        raise UnreadableError("repeat, but of a parameter (1, positions, neurons) over the inputs")
    return u


def _clamped(tracer: Tracer, u: Value, min: Any = None, max: Any = None) -> Value:
    """u between two numbers, of which one may be missing."""
    low, high = -sympy.oo if min is None else min, sympy.oo if max is None else max
    return tracer.apply(functions.hard_tanh, u, low, high)


def _gated(tracer: Tracer, u: Value, dim: int = -1) -> Value:
    """The first half of the neurons, times the sigmoid of the second."""
    first, second = _chunk(tracer, u, 2, dim)
    return tracer.multiply(first, tracer.apply(functions.sigmoid, second))


def _squeezed(tracer: Tracer, u: Value, dim: int | None = None) -> Value:
    """One output as a number."""
    width = tracer.graph.widths[u.node] if isinstance(u, Neurons) else 0
    if width != 1 or dim not in (1, -1):
        raise UnreadableError("squeeze, but of an only neuron by squeeze(-1)")
    return u


_POOLS = {
    getattr(nn, f"{start}AvgPool{axes}d"): (axes, start.lower())
    for start in ("", "Adaptive")
    for axes in (1, 2, 3)
}
_PADS = {
    getattr(nn, f"{start}Pad{axes}d"): mode
    for start, mode in (("Zero", "constant"), ("Constant", "constant"), ("Circular", "circular"))
    for axes in (1, 2, 3)
}
_ADD, _TIMES, _OVER = _binary("add"), _binary("multiply"), _binary("divide")
_LESS = _binary("add", -1)
_SPELLED = {
    name: _of(formula, options)
    for name in dict.fromkeys([*dir(functional), *dir(torch)])
    if name == name.lower().lstrip("_") and functions.plain(name) in functions.TORCH
    for formula, options in [functions.TORCH[functions.plain(name)]]
}
"""The scalar functions, by each name that torch has for them."""
_ANY: dict[str, Any] = {
    "exp": _of(sympy.exp),
    "abs": _of(sympy.Abs),
    "neg": lambda tracer, u: tracer.multiply(u, sympy.Integer(-1)),
    "sqrt": _of(sympy.sqrt),
    "rsqrt": _of(lambda u: 1 / sympy.sqrt(u)),
    "square": _of(lambda u: u**2),
    "add": _ADD,
    "sub": _LESS,
    "mul": _TIMES,
    "div": _OVER,
    "pow": lambda tracer, u, exponent: tracer.power(u, exponent),
    "mean": _mean,
    "flatten": _flat,
    "reshape": _reshaped,
    "squeeze": _squeezed,
    "permute": _permuted,
    "transpose": _transposed,
    "swapaxes": _transposed,
    "t": _transposed,
    "matmul": _matmul,
    "mm": _matmul,
    "addmm": _addmm,
    "einsum": _einsum,
    "cat": _cat,
    "concat": _cat,
    "chunk": _chunk,
    "split": _split,
    "sum": _sum,
    "interpolate": _upsampled,
    "unflatten": attention.unflattened,
    **dict.fromkeys(("clamp", "clip"), _clamped),
    "glu": _gated,
}
_METHODS = (
    _SPELLED
    | _ANY
    | dict.fromkeys(("contiguous", "float", "double", "clone"), same)
    | {
        "view": _reshaped,
        "size": _sized,
        "expand": _expanded,
        "repeat": _repeated,
    }
)
_RESHAPED = frozenset(
    {"reshape", "view", "squeeze", "flatten", torch.reshape, torch.squeeze, torch.flatten}
)
_FUNCTIONS: dict[Any, Any] = {
    getattr(room, name): each
    for room in (torch, functional)
    for name, each in (_SPELLED | _ANY).items()
    if hasattr(room, name)
} | {
    operator.add: _ADD,
    operator.iadd: _ADD,
    operator.sub: _LESS,
    operator.mul: _TIMES,
    operator.truediv: _OVER,
    operator.pow: _ANY["pow"],
    operator.matmul: _matmul,
    operator.neg: _ANY["neg"],
    operator.getitem: _item,
    getattr: _attribute,
    math.sqrt: _ANY["sqrt"],
    functional.linear: _linear,
    functional.scaled_dot_product_attention: attention.attend,
    **{getattr(functional, f"conv{axes}d"): _convolved for axes in (1, 2, 3)},
    **{getattr(functional, f"avg_pool{axes}d"): _averaged(axes) for axes in (1, 2, 3)},
    **{getattr(functional, f"adaptive_avg_pool{axes}d"): _adaptive(axes) for axes in (1, 2, 3)},
    functional.group_norm: _group_norm,
    functional.pad: _padded,
    functional.layer_norm: _layer_norm,
    functional.rms_norm: _rms_norm,
    functional.prelu: _prelu,
    torch.prelu: _prelu,
    **{getattr(functional, name): dropped for name in DROPOUTS},
}


_NO_FUNCTION = "it is no function of one neuron, nor a norm: leave it out, or end the model there"
_WAYS = {
    "softmax": "a softmax of neurons is no function of one: end the model before it, output=",
    "max_pool": "the largest of several positions is no function of one; avg_pool is read",
    "adaptive_max_pool": "the largest of several positions is no function of one; average it",
    **dict.fromkeys(("amax", "max", "topk", "sort", "cumsum", "roll", "flip"), _NO_FUNCTION),
    "normalize": "write x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt(), a norm of neurons",
    **dict.fromkeys(("norm", "std", "var"), "write x.pow(2).mean(-1, keepdim=True)"),
    "instance_norm": "it is GroupNorm with one neuron in each group, and theory is for many",
    "batch_norm": "use the module nn.BatchNorm, whose mode is known",
    **dict.fromkeys(("where", "gt", "lt", "ge", "le"), "write the function as relu, abs or clamp"),
    **dict.fromkeys(("maximum", "minimum"), "of two layers: write relu, or clamp with a number"),
    "detach": "it stops gradients: freeze parameters by requires_grad_(False), or torch.no_grad()",
    "rrelu": "its slope is drawn at random in training: use leaky_relu",
    "mul": "write h = h * factor",
    **dict.fromkeys(("index_select", "gather", "scatter"), "use each neuron once, in order"),
}
"""Advice on operations that are not read."""


def reshapes(node: fx.Node) -> bool:
    """True if a node only gives values another shape."""
    return node.op in {"call_method", "call_function"} and node.target in _RESHAPED


def is_shape(value: Any) -> bool:
    """True if this is a number of a shape."""
    return isinstance(value, _Size)
