"""Models of torch, by torch.fx: modules, functions and methods, run with a tracer's values."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import sympy
import torch
from torch import fx, nn
from torch.nn import functional

from derive.errors import InputError

from ...arrays import Array
from .. import functions
from ..graph import Graph
from ..laws import Law
from ..tracing import Neurons, Parameter, Tracer, UnreadableError, Value, refused
from .base import Reading


@contextmanager
def _one_thread() -> Iterator[None]:
    """Matrices here are small: the threads of one product would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class TorchReading(Reading):
    """A `torch.nn.Module`, or what makes one."""

    framework = "torch"

    def __init__(self, model: Any, make: Callable[[int], Any] | None) -> None:
        self._make = make
        self._model = copy.deepcopy(model).cpu().double().eval()
        self._traced, self.graph = _read(self._model)
        self._parts: dict[tuple[int, tuple[int, ...]], fx.GraphModule] = {}
        self._paths = self.graph.parameters
        self._laws: Mapping[str, Law] = {}
        self._given = None if make else self._values()
        self.how = "made again" if make else "each module's reset_parameters"

    def draw(self, seed: int) -> Mapping[str, Array]:
        """See `Reading`."""
        self._initialize(seed)
        return self._values()

    def own(self) -> Mapping[str, Array] | None:
        """See `Reading`."""
        return self._given

    @_one_thread()
    def initialize(self, seeds: Sequence[int]) -> Any:
        """See `Reading`: the parameters of each, stacked."""
        found: dict[str, list[Any]] = {path: [] for path in self._paths}
        for seed in seeds:
            self._initialize(seed)
            for path, several in found.items():
                several.append(self._parameter(path).detach().clone())
        return {path: torch.stack(several) for path, several in found.items()}

    @_one_thread()
    def propagate(self, made: Any, source: int, states: Array, node: int) -> Array:
        """See `Reading`."""
        with torch.no_grad():
            (found,) = self._run(made, torch.from_numpy(np.array(states)), source, (node,))
        return np.asarray(found.reshape(len(found), states.shape[1], -1).numpy())

    @_one_thread()
    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`: an initialization's outputs depend on its own parameters alone, so that
        one gradient is that of all of them."""
        leaves = {path: each.detach().requires_grad_() for path, each in made.items()}
        parameters, m = list(leaves.values()), len(X)
        count = len(parameters[0])
        outputs = self._run(leaves, torch.from_numpy(X[None]), 0, tuple(nodes))
        grams = np.zeros((count, len(nodes), m, m))
        for at, output in enumerate(outputs):
            firsts = output.reshape(count, m, -1)[:, :, 0].sum(dim=0)
            gradients = [
                torch.autograd.grad(each, parameters, retain_graph=True, allow_unused=True)
                for each in firsts
            ]
            for each in zip(*gradients, strict=True):
                if each[0] is not None:
                    flat = torch.stack([one.reshape(count, -1) for one in each], dim=1)
                    grams[:, at] += (flat @ flat.transpose(1, 2)).numpy()
        return grams

    @_one_thread()
    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """See `Reading`."""
        count = len(next(iter(made.values())))
        given = torch.from_numpy(np.array(np.broadcast_to(x, (count, 1, len(x)))))
        if source:
            (given,) = self._run(made, given, 0, (source,))
        below = given.detach().clone().requires_grad_()
        (output,) = self._run(made, below, source, (node,))
        rows = output.reshape(count, -1).sum(dim=0)
        found = [torch.autograd.grad(each, below, retain_graph=True)[0] for each in rows]
        return np.asarray(torch.stack(found, dim=1).reshape(count, len(rows), -1).numpy())

    def _run(self, made: Any, states: Any, source: int, nodes: tuple[int, ...]) -> tuple[Any, ...]:
        """The values of nodes, (count, rows, …), with each initialization's own parameters, from
        states of its own, or from one."""
        key = source, nodes
        if key not in self._parts:
            first, *origins = (str(self.graph.origins[at]) for at in (source, *nodes))
            self._parts[key] = _part(self._traced, first, origins)
        part = self._parts[key]
        needed = {name for name, _ in part.named_parameters()}
        own = {path: each for path, each in made.items() if path in needed}

        def one(parameters: Any, rows: Any) -> Any:
            return torch.func.functional_call(part, parameters, (rows,))

        shared = len(states) == 1
        run = torch.func.vmap(one, (0, None if shared else 0))
        found: tuple[Any, ...] = run(own, states[0] if shared else states)
        return found

    def settle(self, laws: Mapping[str, Law]) -> None:
        """See `Reading`: where reset_parameters has other laws than the model's."""
        self._laws = laws
        self.how = "drawn by the laws read off its matrices"

    def _values(self) -> dict[str, Array]:
        return {path: self._parameter(path).detach().numpy().copy() for path in self._paths}

    def _parameter(self, path: str) -> Any:
        return self._model.get_parameter(path)

    def _initialize(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), _one_thread():
            torch.default_generator.manual_seed(seed)
            if self._make is not None:
                fresh = dict(self._make(seed).named_parameters())
                for path, parameter in self._model.named_parameters():
                    parameter.copy_(fresh[path])
                return
            if not self._laws:
                for module in self._model.modules():
                    if hasattr(module, "reset_parameters"):
                        module.reset_parameters()
                return
            random = np.random.default_rng(seed)
            for path, law in self._laws.items():
                parameter = self._parameter(path)
                parameter.copy_(torch.from_numpy(law.draw(tuple(parameter.shape), random)))


def read(model: Any, make: Callable[[int], Any] | None, inputs: Array | None) -> TorchReading:
    """The model as nodes.

    Raises InputError for what cannot be read, by its path in the model.
    """
    del inputs
    return TorchReading(model, make)


def _part(traced: fx.GraphModule, source: str, nodes: Sequence[str]) -> fx.GraphModule:
    """What lies between a value and others: a module of that value, with all that it needs."""
    by_name = {each.name: each for each in traced.graph.nodes}
    needed, todo = set(), [by_name[name] for name in nodes]
    while todo:
        node = todo.pop()
        if node.name != source and node not in needed:
            needed.add(node)
            todo += node.all_input_nodes
    part = fx.Graph()
    copies = {by_name[source]: part.placeholder("given")}
    for node in traced.graph.nodes:
        if node in needed:
            copies[node] = part.node_copy(node, lambda each: copies[each])
    part.output(tuple(copies[by_name[name]] for name in nodes))
    return fx.GraphModule(traced, part)


_IN_PLACE = {operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul}


def _out_of_place(traced: fx.GraphModule) -> fx.GraphModule:
    """The same without what overwrites a value that was kept."""
    for module in traced.modules():
        if getattr(module, "inplace", False):
            module.inplace = False
    for node in traced.graph.nodes:
        if node.op == "call_function":
            node.target = _IN_PLACE.get(node.target, node.target)
            if getattr(node.target, "__name__", None) in _SPELLED:
                node.args = tuple(False if each is True else each for each in node.args)
        if node.kwargs.get("inplace"):
            node.update_kwarg("inplace", False)
    traced.recompile()
    return traced


def _read(model: nn.Module) -> tuple[fx.GraphModule, Graph]:
    faults = [
        (path or "model", why) for path, each in model.named_modules() if (why := _why_not(each))
    ]
    if faults:
        raise refused(model, faults)
    try:
        traced = _out_of_place(fx.symbolic_trace(model))
    except Exception as error:  # of the user's forward
        raise refused(model, [("model", f"torch.fx cannot trace it: {error}")]) from error
    tracer, values = Tracer(), dict[fx.Node, Any]()
    result: Value | None = None
    for node in traced.graph.nodes:
        tracer.origin = node.name
        tracer.where = str(node.target) if node.op == "call_module" else node.name
        try:
            if node.op == "placeholder":
                if values:
                    raise UnreadableError("a second argument of forward")
                values[node] = Neurons(0)
                tracer.graph.origins[0] = node.name
            elif node.op == "output":
                result = _only(node.args[0], values)
            else:
                values[node] = _operation(tracer, traced, node, values)
        except UnreadableError as error:
            raise refused(model, [(tracer.where, str(error))]) from None
        except InputError as error:
            raise refused(model, [(tracer.where, f"{error.got}; {error.wanted}")]) from None
    if not isinstance(result, Neurons):
        raise refused(model, [("output", "it is no layer's values")])
    return _without_shapes(traced, values), tracer.finish(result)


def _only(given: Any, values: Mapping[fx.Node, Any]) -> Value:
    """What forward returns, if that is one value."""
    if not isinstance(given, fx.Node):
        told = "several outputs: read a module whose forward returns the one that is meant"
        raise UnreadableError(told)
    found: Value = values[given]
    return found


def _without_shapes(traced: fx.GraphModule, values: Mapping[fx.Node, Any]) -> fx.GraphModule:
    """The same without what only gives a layer's values another shape, which may take that shape
    from the inputs."""
    for node in reversed(list(traced.graph.nodes)):
        if node.op in _CALLED and node.target in _RESHAPED:
            node.replace_all_uses_with(node.args[0] if node.args else node.kwargs["input"])
            traced.graph.erase_node(node)
        elif isinstance(values.get(node), _Size) and not node.users:
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


def _operation(
    tracer: Tracer, traced: fx.GraphModule, node: fx.Node, values: Mapping[fx.Node, Any]
) -> Any:
    args = fx.node.map_arg(node.args, lambda each: values[each])
    kwargs = dict(fx.node.map_arg(node.kwargs, lambda each: values[each]))
    if not args and "input" in kwargs:
        args = (kwargs.pop("input"),)
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(traced)
        if not isinstance(value, torch.Tensor):
            raise UnreadableError("an attribute that is no tensor")
        return Parameter(str(node.target), value.detach().numpy())
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        return _module(tracer, str(node.target), module, *args)
    known: Mapping[Any, Any] = _METHODS if node.op == "call_method" else _FUNCTIONS
    if node.target not in known:
        name = getattr(node.target, "__name__", node.target)
        raise UnreadableError(f"the operation {name}")
    return known[node.target](tracer, *args, **kwargs)


def _module(tracer: Tracer, path: str, module: nn.Module, u: Value) -> Value:
    own = {
        name: Parameter(f"{path}.{name}", value.detach().numpy())
        for name, value in module.named_parameters(recurse=False)
    }
    if isinstance(module, nn.Linear):
        return tracer.linear(u, own["weight"], own.get("bias"))
    if isinstance(module, nn.LayerNorm | nn.RMSNorm):
        if len(module.normalized_shape) != 1:
            raise UnreadableError(f"a norm over the axes {module.normalized_shape}")
        kind = "layer" if isinstance(module, nn.LayerNorm) else "rms"
        eps = torch.finfo(torch.float32).eps if module.eps is None else module.eps
        gains = {each.path: each.value for each in own.values()}
        return tracer.norm(u, kind, eps, gains)
    if isinstance(module, nn.Dropout):
        return tracer.dropped(u, module.p)
    if isinstance(module, nn.Flatten | nn.Identity):
        return u
    if isinstance(module, nn.Softmax | nn.LogSoftmax):
        raise UnreadableError("a softmax is no function of one neuron")
    return tracer.apply(*_scalar(module, u))


def _scalar(module: nn.Module, u: Value) -> tuple[Any, ...]:
    """The function of a module of one number, and what `Tracer.apply` gives it."""
    function, options = _SCALARS[type(module)]
    return function, u, *(getattr(module, name) for name in options)


def _why_not(module: nn.Module) -> str | None:
    """Why a module of torch's own is none that is read; None for those of the user's."""
    kind = type(module)
    known: tuple[type, ...] = (
        nn.Linear,
        nn.LayerNorm,
        nn.RMSNorm,
        nn.Dropout,
        nn.Flatten,
        nn.Identity,
        nn.Softmax,
    )
    known += (nn.LogSoftmax, nn.Sequential, nn.ModuleList, nn.ModuleDict)
    if not kind.__module__.startswith("torch.nn") or kind in known or kind in _SCALARS:
        return None
    return f"no layer here is a {kind.__name__}"


_SCALARS = {
    kind: functions.TORCH[functions.plain(name)]
    for name, kind in vars(nn).items()
    if isinstance(kind, type) and functions.plain(name) in functions.TORCH
}


def _of(function: Callable[..., Any], *names: str) -> Callable[..., Value]:
    """A scalar function with torch's keywords."""

    def applied(tracer: Tracer, u: Value, *args: Any, **kwargs: Any) -> Value:
        kwargs.pop("inplace", None)
        given = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)]
        return tracer.apply(function, u, *given[: len(names)])

    return applied


def _linear(tracer: Tracer, u: Value, weight: Parameter, bias: Parameter | None = None) -> Value:
    return tracer.linear(u, weight, bias)


def _binary(name: str, *extra: Any) -> Callable[..., Value]:
    def done(tracer: Tracer, left: Any, right: Any) -> Value:
        found: Value = getattr(tracer, name)(_value(left), _value(right), *extra)
        return found

    return done


def _value(given: Any) -> Value:
    return functions.exact(given) if isinstance(given, int | float) else given


def _mean(tracer: Tracer, u: Value, dim: Any = None, keepdim: bool = False, **_: Any) -> Value:
    dims = dim if isinstance(dim, tuple | list) else (dim,)
    if tuple(dims) not in {(-1,), (1,)} or not keepdim:
        raise UnreadableError("a mean that is not mean(-1, keepdim=True)")
    return tracer.mean(u)


def _layer_norm(
    tracer: Tracer,
    u: Value,
    normalized_shape: Any,
    weight: Parameter | None = None,
    bias: Parameter | None = None,
    eps: float = 1e-5,
) -> Value:
    gains = {each.path: each.value for each in (weight, bias) if each is not None}
    return tracer.norm(u, "layer", eps, gains)


def _rms_norm(
    tracer: Tracer, u: Value, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Value:
    gains = {} if weight is None else {weight.path: weight.value}
    return tracer.norm(u, "rms", torch.finfo(torch.float64).eps if eps is None else eps, gains)


def _dropout(
    tracer: Tracer, u: Value, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Value:
    del inplace
    if training and p:
        raise UnreadableError("dropout that is on in evaluation, too: give it training=False")
    return tracer.dropped(u, p)


def _flat(tracer: Tracer, u: Value, *_: Any, **__: Any) -> Value:
    return u


class _Size(Parameter):
    """Numbers of a shape, of which nothing is asked but to be given again."""


_SHAPE = _Size("a layer's shape", np.zeros(0))
_ROWS = _Size("the number of inputs", np.zeros(0))
_OTHER = _Size("a number of a shape", np.zeros(0))


def _sized(tracer: Tracer, u: Value, dim: int | None = None) -> Value:
    shape = _SHAPE if isinstance(u, Neurons) else _OTHER
    return shape if dim is None else _item(tracer, shape, dim)


def _attribute(tracer: Tracer, u: Value, name: str) -> Value:
    if name != "shape":
        raise UnreadableError(f"the attribute {name}")
    return _sized(tracer, u)


def _item(tracer: Tracer, u: Value, at: Any) -> Value:
    if not isinstance(u, _Size):
        raise UnreadableError("an index: some neurons of a layer")
    return _ROWS if u is _SHAPE and at == 0 else _OTHER


def _reshaped(tracer: Tracer, u: Value, *given: Any, shape: Any = None) -> Value:
    """The values of a layer as a row for each input, as they are."""
    if shape is None:
        shape = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
    if not isinstance(u, Neurons) or not isinstance(shape, tuple | list) or len(shape) != 2:
        raise UnreadableError("a layer in another shape than a row for each input")
    rows, rest = shape
    width = tracer.graph.widths[u.node]
    if rows is not _ROWS and rows != -1:
        told = rows.path if isinstance(rows, Parameter) else rows
        raise UnreadableError(f"a layer in {told} rows: x.size(0) is one for each input")
    is_whole = rest == -1 if rows is _ROWS else not width and rest is _OTHER
    if not is_whole and not (isinstance(rest, int) and 0 < rest == (width or rest)):
        raise UnreadableError("a layer in another shape than a row for each input")
    return u


def _squeezed(tracer: Tracer, u: Value, dim: int | None = None) -> Value:
    """One output as a number."""
    width = tracer.graph.widths[u.node] if isinstance(u, Neurons) else 0
    if width != 1 or dim not in (1, -1):
        raise UnreadableError("squeeze, but of an only neuron by squeeze(-1)")
    return u


_ADD, _TIMES, _OVER = _binary("add"), _binary("multiply"), _binary("divide")
_LESS = _binary("add", -1)
_SPELLED = {
    name: _of(formula, *options)
    for name in dict.fromkeys([*dir(functional), *dir(torch)])
    if name == name.lower().strip("_") and functions.plain(name) in functions.TORCH
    for formula, options in [functions.TORCH[functions.plain(name)]]
}
"""The scalar functions, by each name that torch has for them, but those that overwrite their
argument."""
_ANY: dict[str, Any] = {
    "exp": _of(sympy.exp),
    "abs": _of(sympy.Abs),
    "neg": _of(operator.neg),
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
}
_METHODS = (
    _SPELLED
    | _ANY
    | dict.fromkeys(("contiguous", "float", "double", "clone"), _flat)
    | {
        "view": _reshaped,
        "size": _sized,
    }
)
_CALLED = ("call_method", "call_function")
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
    operator.neg: _ANY["neg"],
    operator.getitem: _item,
    getattr: _attribute,
    math.sqrt: _ANY["sqrt"],
    functional.linear: _linear,
    functional.layer_norm: _layer_norm,
    functional.rms_norm: _rms_norm,
    functional.dropout: _dropout,
}
