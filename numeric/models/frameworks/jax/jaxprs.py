"""The equations of a jaxpr, given to a `Tracer` one by one."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import jax
import numpy as np
import sympy
from jax.extend import core

from derive.engine.taps import Taps
from derive.errors import InputError

from ....arrays import Array
from ... import functions
from ...graph import Graph
from ...heads import Heads, as_matrix
from ...parts import merged
from ...signals import everywhere, selected, windows
from ...tracing import (
    Beside,
    Collective,
    Neurons,
    Parameter,
    Tracer,
    UnreadableError,
    Value,
    as_matrices,
    beside,
    refused,
)
from . import attention
from .attention import Numbers, Placed

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


@dataclass
class Layouts:
    """How what a model holds is what its graph has.

    Attributes:
        orders: of each matrix or filter the order of its axes that is (out, …, in, …), and how many
            of them are out.
        tables: the places where rows of a table are taken at the numbers of tokens, and its path.
    """

    orders: dict[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    tables: dict[Place, str] = field(default_factory=dict)


def traced(
    model: Any,
    closed: Any,
    names: Sequence[str],
    values: Mapping[str, Array],
    channels_last: bool,
    has_rows: bool = True,
    count: int = 0,
) -> tuple[Graph, Layouts, bool]:
    """The graph of a model, its layouts, and whether the neurons of its inputs are their last axis.

    Arguments:
        has_rows: whether the first axis of its inputs is that of examples.
        count: of these, if they are a batch.

    Raises InputError for what cannot be read, by where it is in the jaxpr.
    """
    tracer, layouts = Tracer(), Layouts()
    shape = closed.jaxpr.invars[-1].aval.shape
    tracer.channels_last = channels_last
    tracer.given = (shape[-1], *shape[1:-1]) if channels_last else (1, *shape)[has_rows:]
    tracer.count = count
    is_of_tokens = np.issubdtype(closed.jaxpr.invars[-1].aval.dtype, np.integer)
    inputs: Any = Numbers(shape[-1]) if is_of_tokens else Neurons(0)
    given = [Parameter(name, values[name]) if name in values else None for name in names]

    def handle(equation: Any, inputs: list[Any], place: Place) -> Any:
        tracer.origin = place
        frames = equation.source_info.name_stack
        tracer.where = (
            f"{equation.primitive.name} in {frames}" if str(frames) else str(equation.primitive)
        ) + line(equation)
        if _is_counted(inputs):
            atoms = zip(inputs, equation.invars, strict=True)
            done = equation.primitive.bind(*(_array(*e) for e in atoms), **equation.params)
            return list(done) if equation.primitive.multiple_results else [done]
        if any(isinstance(each, Heads | Placed | Numbers) for each in inputs):
            return _with_heads(tracer, equation, inputs, place, layouts)
        operands = [_operand(each) for each in inputs]
        if equation.primitive.name == "dot_general":
            return [_product(tracer, equation, operands, layouts)]
        if equation.primitive.name == "conv_general_dilated":
            return [_convolved(tracer, equation, operands, layouts)]
        if equation.primitive.name == "split":
            return _cut(tracer, equation, operands[0])
        if equation.primitive.name in {"gather", "dynamic_slice"}:
            return [_rows(equation, operands[0], inputs[1:])]
        return [_apply(tracer, equation, operands)]

    try:
        (out,) = walk(closed.jaxpr, closed.consts, [*given, inputs], handle)
        if isinstance(out, Heads):
            raise UnreadableError("an output whose neurons are several axes: reshape it to one")
        if not isinstance(out, Neurons):
            raise UnreadableError("an output that is no layer's values")
        return tracer.finish(out), layouts, channels_last or tracer.inputs_last
    except UnreadableError as error:
        raise refused(model, [(tracer.where, str(error))]) from None
    except InputError as error:
        raise refused(model, [(tracer.where, f"{error.got}; {error.wanted}")]) from None
    except ValueError as error:
        raise refused(model, [(tracer.where, f"not one output ({error})")]) from None
    except (TypeError, AttributeError, IndexError):  # of arguments unknown here
        raise refused(model, [(tracer.where, "this operation with such arguments")]) from None


_NUMBERS = (np.ndarray, np.generic, jax.Array, int, float, bool)


def _is_counted(given: Sequence[Any]) -> bool:
    """True if these are computed as they are: whole numbers, choices, and tables; not numbers that
    are one and may have a name, as √2."""
    if not all(isinstance(each, (*_NUMBERS, sympy.Basic)) for each in given):
        return False
    arrays = [np.asarray(each) for each in given if isinstance(each, _NUMBERS)]
    own = [e for e in arrays if e.dtype.kind != "f" or not e.size or (e != e.flat[0]).any()]
    return bool(own) or not given


def _array(value: Any, atom: Any) -> Any:
    """A number as an operand of an equation."""
    if not isinstance(value, sympy.Basic):
        return value
    number = bool(value) if value in (sympy.true, sympy.false) else float(value)
    return np.full(atom.aval.shape, number, atom.aval.dtype)


def line(equation: Any) -> str:
    """Where in the user's code an equation is made, in words."""
    trace = equation.source_info.traceback
    frames = () if trace is None else trace.frames
    user = next((each for each in frames if not each.file_name.startswith(_OTHERS)), None)
    return "" if user is None else f" ({os.path.basename(user.file_name)}, line {user.line_num})"


_FRAMEWORKS = [jax, *filter(None, map(sys.modules.get, ("flax", "equinox")))]
_OTHERS = ("<", os.path.dirname(__file__), *(str(each.__path__[0]) for each in _FRAMEWORKS))
"""Where frames are no user's."""


def _with_heads(
    tracer: Tracer, equation: Any, inputs: list[Any], place: Place, layouts: Layouts
) -> list[Any]:
    name = equation.primitive.name
    if name == "gather" and isinstance(inputs[0], Parameter):
        layouts.tables[place] = inputs[0].path
        return [_placed_rows(tracer, equation, *inputs)]
    given = [_number(each) for each in inputs]
    if name == "dot_general" and any(isinstance(each, Parameter) for each in given):
        return [_product(tracer, equation, given, layouts)]
    own = [each for each in given if isinstance(each, Heads)]
    entries = own and all(isinstance(e, sympy.Basic) or _is_like(e, own[0]) for e in given)
    if entries and (name in _SCALARS or name in _RELATIONS or name in _ENTRYWISE):
        made = _apply(tracer, equation, [getattr(each, "u", each) for each in given])
        return [replace(own[0], u=made)]
    found = attention.called(tracer, equation, given)
    return found if isinstance(found, list) else [found]


def _number(value: Any) -> Any:
    """A number as an expression, and other arrays as they are."""
    if not isinstance(value, _NUMBERS):
        return value
    array = np.asarray(value)
    is_one = array.size and array.dtype.kind in "fi" and (array == array.flat[0]).all()
    return _operand(array) if is_one else array


def _is_like(u: Any, other: Heads) -> bool:
    return isinstance(u, Heads) and (u.sizes, u.order) == (other.sizes, other.order)


def _placed_rows(tracer: Tracer, equation: Any, table: Parameter, at: Numbers) -> Value:
    """The rows of a table at the numbers of tokens: a matrix of their unit vectors."""
    count, width = table.shape
    if tracer.graph.widths[0] not in (0, count):
        raise UnreadableError(f"{table.path}, of {count} rows: another table of tokens has others")
    if equation.outvars[0].aval.size != at.count * width:
        raise UnreadableError(f"entries of {table.path} that are no rows")
    tracer.inputs_last = True
    tracer.place_inputs(count, (at.count,))
    return tracer.linear(Neurons(0, form=tracer.behind), table.T, None)


def _rows(equation: Any, table: Any, at: Sequence[Any]) -> Any:
    """Some rows of a table, as a fixed matrix times it."""
    if not isinstance(table, Parameter) or not all(isinstance(each, _NUMBERS) for each in at):
        raise UnreadableError("entries of a layer that are taken one by one: use each, in order")
    numbers = attention.rows(equation, table, at) if len(table.shape) == 2 else None
    if numbers is None:
        raise UnreadableError(f"entries of {table.path} that are no rows")
    if np.array_equal(numbers, np.arange(len(table.value))):
        return table
    chosen = Parameter("rows", np.eye(len(table.value))[numbers], is_fixed=True)
    return as_matrices(chosen) @ as_matrices(table)


def _operand(value: Any) -> Any:
    """A number as an expression, other arrays by one value, where they have but one."""
    if value is None or not isinstance(value, _NUMBERS):
        return value
    array = np.asarray(value)
    if array.dtype == bool:
        if array.all() or not array.any():
            return sympy.true if array.all() else sympy.false
        return Parameter("a constant", array, is_fixed=True)
    if not np.issubdtype(array.dtype, np.number) or not array.size:
        return None
    if (array == array.flat[0]).all():
        return functions.exact(_short(array.flat[0]))
    return Parameter("a constant", np.asarray(array, float), is_fixed=True)


def _short(value: Any) -> str:
    """The shortest decimal of single precision."""
    number = value.item()
    if isinstance(number, int):
        return str(number)
    return str(np.float32(number)) if abs(number) < 1e30 else f"{'-' * (number < 0)}1e300"


def _product(tracer: Tracer, equation: Any, operands: list[Any], layouts: Layouts) -> Any:
    """W u, where W may have several axes that are out or in, as those of heads."""
    contracted, batch = equation.params["dimension_numbers"]
    at = 0 if isinstance(operands[0], Parameter) else 1
    u, W, own, inner = operands[1 - at], operands[at], contracted[1 - at], contracted[at]
    shape = equation.invars[1 - at].aval.shape
    if not isinstance(W, Parameter):
        return attention.multiplied(tracer, equation, operands)
    if not isinstance(u, Neurons | Beside | Heads):
        told = "multiply the layer by one after the other"
        raise UnreadableError(f"a product of two parameters: {told}")
    outer = [axis for axis in range(W.value.ndim) if axis not in inner]
    if W.path == "a constant" or not outer:
        why = f"a product with {W.path} of shape {W.shape}"
        if W.path == "a constant":
            why += ": apply it to the inputs before the model, and give these"
        raise UnreadableError(why)
    places = _places(tracer, u, shape)
    order = attention.codes(u, places, len(shape))
    summed = [order[axis] for axis in own]
    if batch != ((), ()) or sorted(summed) != sorted(code for code in order if code >= 0):
        raise UnreadableError(
            "a product over an axis of positions, as of patches that are mixed: a random matrix "
            "over positions has no theory here; attention, or means over positions, are read"
        )
    axes = [axis for _, axis in sorted(zip(summed, inner, strict=True))]
    turned = [W.value.ndim - 1 - e if W.turned else e for e in (*outer, *axes)]
    layouts.orders[W.path] = tuple(turned), len(outer)
    matrix, sizes = as_matrix(W, axes)
    found = tracer.linear(u.u if isinstance(u, Heads) else u, matrix, None)
    if not isinstance(u, Heads):  # of inputs the positions are known now
        order = attention.codes(u, _places(tracer, found, shape), len(shape))
    free = [code for axis, code in enumerate(order) if axis not in own]
    behind = list(range(len(sizes)))
    return attention.placed(tracer, found, sizes, [*behind, *free] if at == 0 else [*free, *behind])


def _convolved(tracer: Tracer, equation: Any, operands: list[Any], layouts: Layouts) -> Any:
    u, W = operands
    if not isinstance(W, Parameter) or W.path == "a constant" or not isinstance(u, Neurons):
        raise UnreadableError("a convolution of two layers, or with a constant")
    params, numbers = equation.params, equation.params["dimension_numbers"]
    if any(each != 1 for each in params["lhs_dilation"]) or params["batch_group_count"] != 1:
        raise UnreadableError("a transposed convolution")
    layouts.orders[W.path] = tuple(numbers.rhs_spec), 1
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
    places = _places(tracer, u, shape)
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
    shape = equation.invars[0].aval.shape
    places = _places(tracer, u, shape)
    if params["axis"] != _channels(places, shape) or getattr(u, "form", "") == "flat":
        raise UnreadableError("a split that is not of the neurons")
    return [tracer.rows(u, *pair) for pair in pairwise(ends)]


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
    if name == "tile" and equation.outvars[0].aval.shape == equation.invars[0].aval.shape:
        return operands[0]
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
    if name in {"reduce_sum", "psum"}:
        return _reduced(tracer, equation, operands[0])
    if name == "concatenate" and any(isinstance(each, Parameter) for each in operands):
        return tracer.side_by_side(operands)
    if name == "slice" and isinstance(operands[0], Parameter):
        return _rows(equation, operands[0], ())
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
    axes = _without_rows(tracer, equation.outvars[0].aval.shape)
    if name == "reshape" and width > 1 and axes != (width,):
        order = attention.codes(u, (), len(equation.invars[0].aval.shape))
        return attention.split(tracer, u, order, equation)
    if name == "transpose" and isinstance(u, Neurons) and len(axes) > 1:
        raise UnreadableError("a transposed layer")
    return u


def _moved(tracer: Tracer, u: Neurons, equation: Any) -> Any:
    """A signal with its axes in another order, or laid flat."""
    shape, into = (each[0].aval.shape for each in (equation.invars, equation.outvars))
    places, channels = _places(tracer, u, shape), tracer.channels_last
    if equation.primitive.name == "transpose":
        order = equation.params["permutation"]
        moved = tuple(order.index(at) for at in places)
        neurons = order.index(_channels(places, shape))
        start, end = (moved[0], moved[-1] + 1) if moved else (0, 0)
        if moved == tuple(range(start, end)) and neurons in (start - 1, end):
            return replace(u, form="" if (neurons == end) == tracer.channels_last else "turned")
    else:
        live, own = (_without_rows(tracer, each) for each in (shape, into))
        sizes = [math.prod(tracer.graph.shapes[u.node]), tracer.graph.widths[u.node]]
        is_cut = equation.primitive.name == "squeeze" and sizes[0] == 1
        if is_cut and {*places} <= {*equation.params["dimensions"]}:
            return tracer.pooled(replace(u, form=""), _only, len(places))
        if own == live:
            return u
        if len(places) > 1 and not u.form and own == tuple(sizes[:: 1 if channels else -1]):
            return merged(tracer, u)
        if own == (math.prod(live),):
            return replace(u, form="flat")
        if len(places) == 1:
            return attention.split(tracer, u, attention.codes(u, places, len(shape)), equation)
    raise UnreadableError("a signal in another shape than one axis for each, or all in one")


def _only(shape: tuple[int, ...]) -> Taps:
    """The only position, as none."""
    return replace(selected(shape, [[0]] * len(shape)), into=())


def _without_rows(tracer: Tracer, shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes of axes without those of inputs, and of one."""
    return tuple(P for P in shape[bool(tracer.count) :] if P != 1)


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
    if not axes:
        return u
    positions = _places(tracer, u, shape)
    if positions and tuple(axes) == positions:
        count = int(np.prod([shape[at] for at in positions]))
        return _summed(tracer, u, everywhere, count, len(positions))
    neurons = _channels(positions, shape)
    if {*axes} == {*range(len(shape))} - {neurons} and len(shape) > 1:
        mean = tracer.mean(u, over_batch=True)
        assert isinstance(mean, Collective)
        return Collective(mean.node, mean.expr * math.prod(shape[at] for at in axes))
    if tuple(axes) != (neurons,):
        raise UnreadableError("a sum over another axis than the neurons'")
    mean = tracer.mean(u)
    assert isinstance(mean, Collective)
    return Collective(mean.node, mean.expr * shape[neurons])


def _places(tracer: Tracer, u: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of a value's positions."""
    if not isinstance(u, Neurons):
        return ()
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
_ENTRYWISE = {
    *("add", "sub", "mul", "div", "max", "min", "pow", "integer_pow", "select_n"),
    "convert_element_type",
}
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
