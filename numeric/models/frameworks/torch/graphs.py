"""Graphs of torch.fx: of a module as a function of one input, nothing overwritten; parts of one."""

from __future__ import annotations

import inspect
import operator
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from ...functions import TORCH, plain
from ...outputs import LAST, chosen
from ...tracing import UnreadableError

_IN_PLACE: dict[Any, Any] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
} | {
    getattr(room, name): getattr(room, name.rstrip("_"))
    for room in (torch, functional)
    for name in dir(room)
    if name.endswith("_") and plain(name) in TORCH and hasattr(room, name.rstrip("_"))
}
_CONSTANTS = (bool, int, float, str, type(None))
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout")


def traced(module: nn.Module) -> fx.Graph:
    """The graph of a module, with the arguments of `forward` that have numbers, words or None for
    defaults at these.

    Raises what its `forward` raises on torch.fx's proxies.
    """
    arguments = list(inspect.signature(module.forward).parameters.values())
    given = {each.name: each.default for each in arguments[1:] if _is_constant(each)}
    try:
        graph = _traced(module, given, buffers=False)
    except TypeError:  # of a buffer with an index that is a number of a shape, mask[:T, :T]
        graph = _traced(module, given, buffers=True)
    if given:
        _without_arguments(graph)
    return graph


def differences(module: nn.Module) -> list[str]:
    """A remark on what a module in evaluation mode computes otherwise in training mode, but for
    dropout and batch normalization, which are modules and functions of their own."""
    own = traced(module)
    module.train()
    try:
        other = traced(module)
    except Exception as error:  # of the user's forward
        return [f"read as in evaluation: in training mode it raises {type(error).__name__}"]
    finally:
        module.eval()
    found = next((pair for pair in zip_longest(own.nodes, other.nodes) if _differ(*pair)), None)
    if found is None:
        return []
    place = line(found[1] or found[0]) or line(found[0] or found[1])
    return [f"read as in evaluation mode: in training mode forward computes something else{place}"]


def _differ(one: fx.Node | None, other: fx.Node | None) -> bool:
    """True if these are two operations, or have other arguments, whatever they say of training."""
    return one is None or other is None or _spelled(one) != _spelled(other)


def _spelled(node: fx.Node) -> tuple[Any, ...]:
    modes = {name: None if isinstance(each, bool) else each for name, each in node.kwargs.items()}
    args = [None if isinstance(each, bool) else str(each) for each in node.args]
    found = node.op, str(node.target), str(args), str(modes)
    return tuple(re.sub(r"_tensor_constant\d+", "_tensor_constant", each) for each in found)


def line(node: fx.Node | None) -> str:
    """The line of the user's code that calls this, in brackets."""
    frames = re.findall(r'File "(.+?)", line (\d+), in (\w+)', (node and node.stack_trace) or "")
    own = [each for each in frames if not each[0].startswith(os.path.dirname(torch.__file__))]
    return f" ({os.path.basename(own[-1][0])}:{own[-1][1]})" if own else ""


def _traced(module: nn.Module, given: Mapping[str, Any], buffers: bool) -> fx.Graph:
    """The graph, with buffers as values of it or as tensors."""
    with torch.no_grad():
        tracer = _Tracer()
        tracer.proxy_buffer_attributes = buffers
        return tracer.trace(module, concrete_args=dict(given) or None)


class _Tracer(fx.Tracer):
    """A tracer that keeps the lines of Python that each node comes from.

    That of torch symbolizes them with the frames of C++, for which it imports its compilers.
    """

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        """See `fx.Tracer`."""
        node = super().create_node(*args, **kwargs)
        walked = reversed([*traceback.walk_stack(None)])
        frames = [(code.f_code.co_filename, line, code.f_code.co_name) for code, line in walked]
        names = [name for _, _, name in frames]
        own = frames[names.index("forward") :] if "forward" in names else []
        told = [f'File "{path}", line {line}, in {name}' for path, line, name in own]
        node.stack_trace = "\n".join(told) or None
        return node


def _is_constant(argument: inspect.Parameter) -> bool:
    named = argument.kind in {argument.POSITIONAL_OR_KEYWORD, argument.KEYWORD_ONLY}
    return named and isinstance(argument.default, _CONSTANTS)


def _without_arguments(graph: fx.Graph) -> None:
    """Erase the arguments behind the first that nothing but torch.fx's checks of them uses."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"][1:]
    for argument in arguments:
        checks = [*argument.users]
        for check in checks:
            checks += check.users
        if all(getattr(each.target, "__name__", "") in _CHECKS for each in checks):
            for each in (*reversed(checks), argument):
                graph.erase_node(each)


_CHECKS = {"eq", "_assert", "_assert_is_none"}


def out_of_place(graph: fx.Graph, module: nn.Module) -> None:
    """Write the graph and the module's parts so that no value which is kept is overwritten.

    Raises UnreadableError where that is another function, as the value is used again.
    """
    places = {node: at for at, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if not _overwrites(node, module):
            continue
        own = node.args[0] if node.args else node.kwargs.get("input")
        if any(places[each] > places[node] for each in getattr(own, "users", ())):
            raise UnreadableError(f"{node.name} overwrites a value that is used again")
        if node.op == "call_module":
            module.get_submodule(str(node.target)).inplace = False
        elif node.op == "call_method":
            node.target = node.target.rstrip("_")
        else:
            node.target = _IN_PLACE.get(node.target, node.target)
            node.args = tuple(False if each is True else each for each in node.args)
            node.kwargs = {name: each for name, each in node.kwargs.items() if name != "inplace"}


def _overwrites(node: fx.Node, module: nn.Module) -> bool:
    if node.op == "call_module":
        return bool(getattr(module.get_submodule(str(node.target)), "inplace", False))
    if node.op == "call_method":
        return str(node.target).endswith("_") and plain(str(node.target)) in TORCH
    if node.op != "call_function":
        return False
    if node.target in _IN_PLACE:
        return isinstance(node.args[0], fx.Node)
    named = plain(getattr(node.target, "__name__", "")) in {*TORCH, *map(plain, DROPOUTS)}
    return named and (bool(node.kwargs.get("inplace")) or any(e is True for e in node.args[1:]))


def only(graph: fx.Graph, output: str | None) -> None:
    """Leave of the outputs the one of this name, and of the graph what that needs.

    Raises InputError as `outputs.chosen`.
    """
    (end,) = (node for node in graph.nodes if node.op == "output")
    is_last = output is not None and output.endswith(LAST)
    found = chosen(end.args[0], (output or "").removesuffix(LAST) or None)
    if is_last:
        with graph.inserting_before(end):
            found = graph.call_function(operator.getitem, (found, (slice(None), -1)))
    if found is end.args[0]:
        return
    end.args = (found,)
    _erase_unused(graph, next(iter(graph.nodes)))


def _erase_unused(graph: fx.Graph, argument: fx.Node) -> None:
    """Leave of the graph the output with all that it needs, and this argument."""
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op != "output" and node is not argument:
            graph.erase_node(node)


def part(traced: fx.GraphModule, source: str, nodes: Sequence[str]) -> fx.GraphModule:
    """The part between a value and others: a module of that value, with all that it needs."""
    by_name = {each.name: each for each in traced.graph.nodes}
    needed = _above([by_name[name] for name in nodes], by_name[source])
    found = fx.Graph()
    copies = {by_name[source]: found.placeholder("given")}
    for node in traced.graph.nodes:
        if node in needed:
            copies[node] = found.node_copy(node, lambda each: copies[each])
    found.output(tuple(copies[by_name[name]] for name in nodes))
    return fx.GraphModule(traced, found)


# Parts of a model that are brought to the form that the reader knows.


def unwrapped(model: nn.Module) -> nn.Module:
    """The model with each reparametrized matrix in place of what makes it, as by weight or spectral
    norm: as a parameter of its own, with the value that it has."""
    for module in model.modules():
        if hasattr(module, "parametrizations"):
            for name in list(module.parametrizations):
                with torch.enable_grad():  # else what is left in place is no parameter
                    parametrize.remove_parametrizations(module, name, leave_parametrized=True)
        for hook in [*module._forward_pre_hooks.values()]:
            if type(hook).__name__ in _UNDONE:
                _UNDONE[type(hook).__name__](module, hook.name)
    return model


def reparametrized(model: nn.Module) -> list[str]:
    """The paths of the matrices that `unwrapped` puts in place."""
    return [
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name in [
            *getattr(module, "parametrizations", ()),
            *(e.name for e in module._forward_pre_hooks.values() if type(e).__name__ in _UNDONE),
        ]
    ]


_UNDONE = {
    "WeightNorm": nn.utils.remove_weight_norm,
    "SpectralNorm": nn.utils.remove_spectral_norm,
}


def one_hot(ids: torch.Tensor, count: int) -> torch.Tensor:
    """Rows of a unit matrix, which a table of embeddings is multiplied by."""
    return functional.one_hot(ids.long(), count).double()


def without_tables(graph: fx.Graph, module: nn.Module) -> None:
    """Write each table of embeddings as a matrix times unit vectors."""
    for node in list(graph.nodes):
        path = str(node.target)
        if node.op == "call_module" and type(module.get_submodule(path)) is nn.Embedding:
            table = module.get_submodule(path)
            if table.max_norm is not None:
                continue
            if table.padding_idx is not None:
                raise UnreadableError(
                    f"{path}: a table of embeddings whose row {table.padding_idx} is 0: leave "
                    "padding_idx out, and give inputs without padding"
                )
            with graph.inserting_before(node):
                unit = graph.call_function(one_hot, (node.args[0], table.num_embeddings))
                weight = graph.get_attr(f"{path}.weight")
                made = graph.call_function(torch.matmul, (unit, weight))
            node.replace_all_uses_with(made)
            graph.erase_node(node)


class Prepared(NamedTuple):
    """The operations on the inputs before the first parameter.

    Attributes:
        run: of the arguments of `forward`, the value that the parameters meet.
        shape: of that value, without the axis of the examples.
    """

    run: Callable[..., Any]
    shape: tuple[int, ...]


def prepared(graph: fx.Graph, module: nn.Module, given: Sequence[Any]) -> Prepared | None:
    """Cut off what no parameter enters: the graph then takes what that makes of the inputs.

    Arguments:
        given: the arguments of `forward` at some examples.

    None, and the graph as it is, where it only gives the inputs another shape, and where several
    values enter the rest.
    """
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    names = list(inspect.signature(module.forward).parameters)
    places = {node: names.index(str(node.target)) for node in arguments if node.target in names}
    values: dict[fx.Node, Any] = {}
    run = fx.Interpreter(fx.GraphModule(module, graph))
    run.env = values
    of_inputs: set[fx.Node] = set()
    for node in graph.nodes:
        if node in arguments:
            if places.get(node, len(given)) < len(given):
                values[node] = given[places[node]]
                of_inputs.add(node)
        elif all(each in values for each in node.all_input_nodes) and _is_fixed(node, module):
            values[node] = run.run_node(node)
            if of_inputs.intersection(node.all_input_nodes) and torch.is_tensor(values[node]):
                of_inputs.add(node)
    ends = [e for e in graph.nodes if e in of_inputs and any(u not in values for u in e.users)]
    if len(ends) != 1:
        return None
    (end,), above = ends, _above(ends)
    if len(given) == 1 and all(_is_kept(each, module, values) for each in above):
        return None
    first, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in graph.nodes:
        if node in above:
            copies[node] = first.node_copy(node, lambda each: copies[each])
    first.output(copies[end])
    made = fx.GraphModule(module, first)
    used = [places[node] for node in arguments if node in above]
    alone = made(*(given[at][:1] for at in used))
    if alone.shape != values[end][:1].shape or not torch.allclose(alone, values[end][:1]):
        raise UnreadableError(f"{end.name}: it makes the inputs of a batch depend on each other")
    with graph.inserting_before(arguments[0]):
        argument = graph.placeholder(f"{end.name}_given")
    end.replace_all_uses_with(argument)
    for each in arguments:
        each.replace_all_uses_with(argument)
    _erase_unused(graph, argument)
    return Prepared(lambda *given: made(*(given[at] for at in used)), tuple(values[end].shape[1:]))


def _is_fixed(node: fx.Node, module: nn.Module) -> bool:
    """True if no parameter and nothing random enters in this operation."""
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        return name not in dict(module.get_submodule(owner).named_parameters(recurse=False))
    if node.op == "call_module":
        called = module.get_submodule(str(node.target))
        batch = isinstance(called, nn.modules.batchnorm._BatchNorm)
        return not (batch or list(called.parameters()) or called._forward_hooks)
    if node.op == "output":
        return False
    return not is_random(node)


def name_of(node: fx.Node) -> str:
    """The name that a node calls: a function's or method's, or a module's path."""
    return str(getattr(node.target, "__name__", node.target))


def is_random(node: fx.Node) -> bool:
    """True for a function that draws."""
    draws = ("rand", "normal", "bernoulli", "multinomial", "poisson", *DROPOUTS)
    return name_of(node).startswith(draws)


def _above(nodes: Sequence[fx.Node], source: fx.Node | None = None) -> set[fx.Node]:
    """The nodes that these are computed from, and themselves, up to a source."""
    found, todo = set[fx.Node](), [*nodes]
    while todo:
        node = todo.pop()
        if node is not source and node not in found:
            found.add(node)
            todo += node.all_input_nodes
    return found


def _is_kept(node: fx.Node, module: nn.Module, values: Mapping[fx.Node, Any]) -> bool:
    """True for what a reader follows itself before the first matrix: shapes, padding, a number."""
    if node.op in {"placeholder"} or not torch.is_tensor(values[node]):
        return True
    if node.op == "call_module":
        kind = type(module.get_submodule(str(node.target))).__name__
        is_pad = kind.endswith(("Pad1d", "Pad2d"))
        return kind in {"Identity", "Flatten"} or is_pad or kind.startswith("Dropout")
    name = name_of(node)
    if name == "getitem":
        return bool(values[node].ndim > 2)
    if name in {"mul", "truediv", "div"}:
        return values[node].ndim == 2 and all(
            not torch.is_tensor(values.get(each, each)) or values[each].ndim for each in node.args
        )
    return name in _KEPT


_KEPT = frozenset(
    {"view", "reshape", "flatten", "squeeze", "contiguous", "float", "double", "pad"}
    | {"neg", "clone", "dropout"}
)
