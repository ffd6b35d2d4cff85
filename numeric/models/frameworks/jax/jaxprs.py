"""The equations of a jaxpr, given to a `Tracer` one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import sympy
from jax.extend import core

from derive.engine.taps import Taps
from derive.errors import InputError

from ....arrays import Array
from ... import functions
from ...graph import Graph
from ...signals import everywhere, selected, windows
from ...tracing import (
    Beside,
    Collective,
    Neurons,
    Parameter,
    Tracer,
    UnreadableError,
    Value,
    beside,
    refused,
)

Place: TypeAlias = tuple[int, ...]
"""Where in a jaxpr: the numbers of equations, from the outermost."""

Handle: TypeAlias = Callable[[Any, list[Any], Place], Any]


def walk(jaxpr: Any, consts: Any, args: Sequence[Any], handle: Handle, place: Place = ()) -> Any:
    """Go through a jaxpr's equations, those of the functions that it calls too."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, core.Literal) else known[atom]

    for number, equation in enumerate(jaxpr.eqns):
        given = [value(atom) for atom in equation.invars]
        inner = _called(equation)
        at = (*place, number)
        if inner is None:
            outs = handle(equation, given, at)
        else:
            outs = walk(inner.jaxpr, inner.consts, given, handle, at)
        known.update(zip(equation.outvars, outs, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _called(equation: Any) -> Any:
    """The jaxpr that an equation calls once; None for a primitive."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        if isinstance(inner, core.ClosedJaxpr) and equation.primitive.name not in {"scan", "while"}:
            return inner
    return None


def traced(
    model: Any,
    closed: Any,
    names: Sequence[str],
    values: Mapping[str, Array],
    channels_last: bool,
) -> tuple[Graph, dict[str, Any]]:
    """The graph of a model, and of each matrix whether its axes are (in, out), of a filter the
    order of its axes that is (out, in, …).

    Raises InputError for what cannot be read, by where it is in the jaxpr.
    """
    tracer, turned = Tracer(), dict[str, Any]()
    shape = closed.jaxpr.invars[-1].aval.shape
    tracer.channels_last = tracer.rows_of_inputs = channels_last
    tracer.given = (shape[-1], *shape[1:-1]) if channels_last else tuple(shape)
    given = [Parameter(name, values[name]) if name in values else None for name in names]

    def handle(equation: Any, inputs: list[Any], place: Place) -> Any:
        tracer.origin = place
        frames = equation.source_info.name_stack
        tracer.where = (
            f"{equation.primitive.name} in {frames}" if str(frames) else str(equation.primitive)
        )
        operands = [_operand(each) for each in inputs]
        if equation.primitive.name == "dot_general":
            return [_product(tracer, equation, operands, turned)]
        if equation.primitive.name == "conv_general_dilated":
            return [_convolved(tracer, equation, operands, turned)]
        if equation.primitive.name == "split":
            return _cut(tracer, equation, operands[0])
        return [_apply(tracer, equation, operands)]

    try:
        (out,) = walk(closed.jaxpr, closed.consts, [*given, Neurons(0)], handle)
        if not isinstance(out, Neurons):
            raise UnreadableError("an output that is no layer's values")
        return tracer.finish(out), turned
    except UnreadableError as error:
        raise refused(model, [(tracer.where, str(error))]) from None
    except InputError as error:
        raise refused(model, [(tracer.where, f"{error.got}; {error.wanted}")]) from None
    except ValueError as error:
        raise refused(model, [(tracer.where, f"not one output ({error})")]) from None
    except (TypeError, AttributeError, IndexError):  # of arguments unknown here
        raise refused(model, [(tracer.where, "this operation with such arguments")]) from None


def _operand(value: Any) -> Any:
    """A number as an expression, other arrays by one value, where they have but one."""
    if value is None or isinstance(value, Neurons | Beside | Collective | Parameter | sympy.Basic):
        return value
    array = np.asarray(value)
    if array.dtype == bool:
        return sympy.true if array.all() else sympy.false
    if not np.issubdtype(array.dtype, np.number) or not array.size:
        return None
    if (array == array.flat[0]).all():
        return functions.exact(_short(array.flat[0]))
    return Parameter("a constant", np.asarray(array, float))


def _short(value: Any) -> str:
    """The shortest decimal of single precision."""
    number = value.item()
    if isinstance(number, int):
        return str(number)
    return str(np.float32(number)) if abs(number) < 1e30 else "1e400"


def _product(tracer: Tracer, equation: Any, operands: list[Any], turned: dict[str, bool]) -> Any:
    ((left,), (right,)), batch = equation.params["dimension_numbers"]
    if batch != ((), ()):
        raise UnreadableError("a product over several axes, as of attention: it is read of torch")
    u, W, axis = operands[0], operands[1], right
    if isinstance(u, Parameter):
        u, W, axis = operands[1], operands[0], left
    if not isinstance(W, Parameter) or not isinstance(u, Neurons | Beside):
        raise UnreadableError(
            "a product of two layers, as in attention, which is read of torch"
            if isinstance(u, Neurons | Beside)
            else "a product of two parameters: multiply the layer by one after the other"
        )
    if W.path == "a constant" or W.value.ndim != 2:
        why = f"a product with {W.path} of shape {W.shape}"
        if W.path == "a constant":
            why += ": apply it to the inputs before the model, and give these"
        elif W.value.ndim > 2:
            why += ": attention, and neurons along several axes, are read of torch"
        raise UnreadableError(why)
    is_turned = axis == 0
    turned[W.path] = is_turned != W.turned
    shape = equation.invars[operands.index(u)].aval.shape
    places = () if isinstance(u, Beside) else _places(tracer, u, shape)
    if (left if u is operands[0] else right) != _channels(places, shape):
        raise UnreadableError("a product over an axis of positions")
    value = W.value.T if is_turned else W.value
    return tracer.linear(u, replace(W, value=value, turned=False), None)


def _convolved(tracer: Tracer, equation: Any, operands: list[Any], turned: dict[str, Any]) -> Any:
    u, W = operands
    if not isinstance(W, Parameter) or W.path == "a constant" or not isinstance(u, Neurons):
        raise UnreadableError("a convolution of two layers, or with a constant")
    params, numbers = equation.params, equation.params["dimension_numbers"]
    if any(each != 1 for each in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        raise UnreadableError("a transposed convolution")
    turned[W.path] = tuple(numbers.rhs_spec)
    own = Parameter(W.path, W.value.transpose(numbers.rhs_spec))
    window = {
        "stride": params["window_strides"],
        "padding": params["padding"],
        "dilation": params["rhs_dilation"],
    }
    return tracer.filtered(u, own, None, params["feature_group_count"], **window)


def _windowed(tracer: Tracer, equation: Any, u: Any) -> Any:
    """Sums over windows, of which averages are made: their means times their sizes."""
    params, shape = equation.params, equation.invars[0].aval.shape
    size, stride = params["window_dimensions"], params["window_strides"]
    places = _places(tracer, u, shape) if isinstance(u, Neurons) else ()
    others = [s for at, s in enumerate(size) if at not in places]
    dilated = {*params["base_dilation"], *params["window_dilation"]} != {1}
    if not places or any(s != 1 for s in others) or dilated or np.any(params["padding"]):
        raise UnreadableError("sums over windows with padding or dilation, or over channels")
    window = [[each[at] for at in places] for each in (size, stride)]
    return _summed(tracer, u, lambda at: windows(at, *window), int(np.prod(size)), len(places))


def _placed(tracer: Tracer, equation: Any, operands: list[Any]) -> Value:
    """Some positions of a signal, or zeros beside them."""
    u, params, shape = operands[0], equation.params, equation.invars[0].aval.shape
    places = _places_of_inputs(tracer, u, shape)
    if equation.primitive.name == "slice":
        steps = params["strides"] or (1,) * len(shape)
        bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
        at = [list(range(*each)) for each in bounds]
    else:
        if operands[1] != 0 or any(
            low < 0 or high < 0 for low, high, _ in params["padding_config"]
        ):
            raise UnreadableError("values beside a signal that are not 0")
        config = zip(shape, params["padding_config"], strict=True)
        at = [[-1] * a + list(range(P)) + [-1] * b for P, (a, b, _) in config]
        if any(inside for *_, inside in params["padding_config"]):
            raise UnreadableError("zeros between positions")
    others = [axis for axis in range(len(shape)) if axis not in places]
    if not places and equation.primitive.name == "slice" and isinstance(u, Neurons | Beside):
        *whole, last = at
        if last == list(range(last[0], last[-1] + 1)) and all(
            each == list(range(n)) for each, n in zip(whole, shape, strict=False)
        ):
            return tracer.rows(u, last[0], last[-1] + 1)
    if not places or any(at[axis] != list(range(shape[axis])) for axis in others):
        raise UnreadableError("a part of the neurons")
    chosen = [at[axis] for axis in places]
    made = tracer.pooled(replace(u, form=""), lambda of: selected(of, chosen), len(places))
    return replace(made, form=u.form)


def _places_of_inputs(tracer: Tracer, u: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of a value's positions, those of inputs that no filter has met among them."""
    if not isinstance(u, Neurons):
        return ()
    tracer.as_given(u)
    return _places(tracer, u, shape)


def _side_by_side(tracer: Tracer, equation: Any, operands: list[Any]) -> Value:
    first, axis = operands[0], equation.params["dimension"]
    shape = equation.invars[0].aval.shape
    places = _places_of_inputs(tracer, first, shape)
    if isinstance(first, Neurons | Beside) and axis == len(shape) - 1 and axis not in places:
        return beside(operands)
    if axis not in places or not all(isinstance(each, Neurons) for each in operands):
        raise UnreadableError("values side by side that are no parts of one signal")
    return replace(tracer.gathered(operands, places.index(axis)), form=first.form)


def _cut(tracer: Tracer, equation: Any, u: Any) -> list[Any]:
    """Some neurons after others, each as a layer of its own."""
    params, ends = equation.params, [0, *np.cumsum(equation.params["sizes"]).tolist()]
    if params["axis"] != len(equation.invars[0].aval.shape) - 1 or _has_places(tracer, u):
        raise UnreadableError("a split that is not of the neurons")
    return [tracer.rows(u, *pair) for pair in pairwise(ends)]


def _has_places(tracer: Tracer, u: Any) -> bool:
    return isinstance(u, Neurons) and bool(tracer.graph.shapes[u.node])


def _summed(
    tracer: Tracer, u: Neurons, make: Callable[[Any], Taps], count: int, axes: int
) -> Neurons:
    mean = tracer.pooled(replace(u, form=""), make, axes)
    return replace(mean, expr=count * mean.expr, form=u.form)


def _apply(tracer: Tracer, equation: Any, operands: list[Any]) -> Any:
    name, params = equation.primitive.name, equation.params
    if name in _SAME:
        return _reshaped(tracer, operands[0], equation)
    if all(each is None for each in operands):
        return None
    if name in _SCALARS:
        return tracer.apply(_SCALARS[name], operands[0])
    if name in {"add", "add_any"}:
        return tracer.add(operands[0], operands[1])
    if name == "sub":
        return tracer.add(operands[0], operands[1], -1)
    if name == "mul":
        return tracer.multiply(*operands)
    if name == "div":
        return tracer.divide(*operands)
    if name in {"pow", "integer_pow"}:
        return tracer.power(operands[0], params["y"] if name == "integer_pow" else operands[1])
    if name in {"max", "min"}:
        return _extreme(tracer, name, *operands)
    if name == "reduce_sum":
        return _reduced(tracer, equation, operands[0])
    if name == "concatenate":
        return _side_by_side(tracer, equation, operands)
    if name in {"slice", "pad"}:
        return _placed(tracer, equation, operands)
    if name == "reduce_window_sum":
        return _windowed(tracer, equation, operands[0])
    if name in {"reduce_window_max", "reduce_window"}:
        raise UnreadableError("the largest of several positions, which is no function of one")
    if name in _RELATIONS:
        return _related(tracer, name, *operands)
    if name == "select_n":
        return _selected(tracer, *operands)
    raise UnreadableError(f"the operation {name}")


def _reshaped(tracer: Tracer, u: Any, equation: Any) -> Any:
    """The same values in another shape."""
    name = equation.primitive.name
    if name == "stop_gradient" and isinstance(u, Neurons | Parameter):
        raise UnreadableError("a value whose gradient is stopped")
    if isinstance(u, Parameter):
        shape = equation.outvars[0].aval.shape
        if name == "transpose" and u.value.ndim == 2:
            return Parameter(u.path, u.value.T, not u.turned)
        if u.value.ndim == 2 and shape != u.value.shape and 1 not in (*shape, *u.value.shape):
            raise UnreadableError(f"{u.path}, which is reshaped")
        return u
    if isinstance(u, Neurons) and u.node == 0 and name == "reshape":
        _places_of_inputs(tracer, u, equation.invars[0].aval.shape)
    if isinstance(u, Neurons) and tracer.graph.shapes[u.node]:
        return _moved(tracer, u, equation)
    width = tracer.graph.widths[u.node] if isinstance(u, Neurons) else 0
    axes = tuple(P for P in equation.outvars[0].aval.shape if P != 1)
    if name == "reshape" and width > 1 and axes != (width,):
        raise UnreadableError(
            "neurons along several axes, as of heads or groups: attention and GroupNorm are read "
            "of torch"
        )
    if name == "transpose" and isinstance(u, Neurons):
        raise UnreadableError("a transposed layer")
    return u


def _moved(tracer: Tracer, u: Neurons, equation: Any) -> Neurons:
    """A signal with its axes in another order, or laid flat."""
    shape, into = (each[0].aval.shape for each in (equation.invars, equation.outvars))
    places = _places(tracer, u, shape)
    if equation.primitive.name == "transpose":
        order = equation.params["permutation"]
        moved = tuple(order.index(at) for at in places)
        neurons = order.index(_channels(places, shape))
        start, end = (moved[0], moved[-1] + 1) if moved else (0, 0)
        if moved == tuple(range(start, end)) and neurons in (start - 1, end):
            return replace(u, form="" if (neurons == end) == tracer.channels_last else "turned")
    elif tuple(P for P in into if P != 1) == tuple(P for P in shape if P != 1):
        return u
    elif max(into) == np.prod(into) and max(into) == np.prod(shape):
        return replace(u, form="flat")
    raise UnreadableError("a signal in another shape than one axis for each, or all in one")


def _extreme(tracer: Tracer, name: str, left: Any, right: Any) -> Any:
    function = sympy.Max if name == "max" else sympy.Min
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Collective) and other == 0:
            return one  # a variance, which rounding could make negative
        if isinstance(one, Neurons) and isinstance(other, sympy.Expr):
            return tracer.apply(function, one, other)
    one, other = tracer.on_one_node(left, right)
    if isinstance(one, Neurons) and isinstance(other, Neurons) and one.node == other.node:
        return tracer.together(function, one, other)
    raise UnreadableError(f"the {name} of two layers")


def _reduced(tracer: Tracer, equation: Any, u: Any) -> Value:
    axes, shape = equation.params["axes"], equation.invars[0].aval.shape
    if not isinstance(u, Neurons):
        raise UnreadableError("a sum of what is no layer")
    positions = _places(tracer, u, shape)
    if positions and tuple(axes) == positions:
        count = int(np.prod([shape[at] for at in positions]))
        return _summed(tracer, u, everywhere, count, len(positions))
    neurons = _channels(positions, shape)
    if tuple(axes) != (neurons,):
        raise UnreadableError("a sum over another axis than the neurons'")
    mean = tracer.mean(u)
    assert isinstance(mean, Collective)
    return Collective(mean.node, mean.expr * shape[neurons])


def _places(tracer: Tracer, u: Neurons, shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of a value's positions."""
    axes = len(tracer.graph.shapes[u.node])
    if not axes or u.form == "flat":
        return ()
    last = tracer.channels_last != (u.form == "turned")
    end = len(shape) - last
    return tuple(range(end - axes, end))


def _channels(positions: tuple[int, ...], shape: Sequence[int]) -> int:
    """The axis of a value's neurons."""
    return max(at for at in range(len(shape)) if at not in positions)


def _related(tracer: Tracer, name: str, left: Any, right: Any) -> Any:
    """A comparison, as the expression that is its truth value of a node's entries."""
    given = tracer.on_one_node(left, right)
    nodes = {each.node for each in given if isinstance(each, Neurons)}
    if len(nodes) > 1:
        raise UnreadableError("a comparison of two layers")
    if not all(isinstance(each, Neurons | sympy.Expr) for each in given):
        raise UnreadableError("a comparison")
    found = [each.expr if isinstance(each, Neurons) else each for each in given]
    if name in {"ne", "eq"} and found[0] == found[1]:
        return sympy.false if name == "ne" else sympy.true
    relation = _RELATIONS[name](*found)
    return Neurons(nodes.pop(), relation) if nodes else relation


def _selected(tracer: Tracer, condition: Any, otherwise: Any, then: Any) -> Any:
    if condition in (sympy.true, sympy.false):
        return then if condition == sympy.true else otherwise
    given = tracer.on_one_node(condition, otherwise, then)
    nodes = {each.node for each in given if isinstance(each, Neurons)}
    if len(nodes) != 1 or not isinstance(condition, Neurons):
        raise UnreadableError("a choice between two layers")
    found, low, high = (each.expr if isinstance(each, Neurons) else each for each in given)
    return Neurons(nodes.pop(), sympy.Piecewise((high, found), (low, True)))


_SAME = {
    *("broadcast_in_dim", "reshape", "squeeze", "expand_dims", "convert_element_type", "copy"),
    *("stop_gradient", "transpose", "copy_p", "sharding_constraint", "reduce_precision", "pvary"),
}
_RELATIONS: dict[str, Any] = {
    "gt": sympy.Gt, "ge": sympy.Ge, "lt": sympy.Lt, "le": sympy.Le, "ne": sympy.Ne, "eq": sympy.Eq,
}  # fmt: skip
_SCALARS: dict[str, Callable[..., Any]] = {
    "tanh": sympy.tanh,
    "logistic": functions.sigmoid,
    "exp": sympy.exp,
    "expm1": lambda u: sympy.exp(u) - 1,
    "log": sympy.log,
    "log1p": lambda u: sympy.log(1 + u),
    "erf": sympy.erf,
    "erfc": lambda u: 1 - sympy.erf(u),
    "sqrt": sympy.sqrt,
    "rsqrt": lambda u: 1 / sympy.sqrt(u),
    "sin": sympy.sin,
    "cos": sympy.cos,
    "atan": sympy.atan,
    "abs": sympy.Abs,
    "sign": sympy.sign,
    "neg": lambda u: -u,
    "square": lambda u: u**2,
}
