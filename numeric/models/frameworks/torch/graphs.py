"""Graphs of torch.fx: of a module as a function of one input, nothing overwritten; parts of one."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from ...functions import TORCH, plain
from ...outputs import chosen
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


def traced(module: nn.Module) -> fx.Graph:
    """The graph of a module, with the arguments of `forward` that have numbers, words or None for
    defaults at these.

    Raises what its `forward` raises on torch.fx's proxies.
    """
    arguments = list(inspect.signature(module.forward).parameters.values())
    given = {each.name: each.default for each in arguments[1:] if _is_constant(each)}
    with torch.no_grad():
        graph = fx.Tracer().trace(module, concrete_args=given or None)
    if given:
        _without_arguments(graph)
    return graph


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
    named = plain(getattr(node.target, "__name__", "")) in {*TORCH, "dropout"}
    return named and (bool(node.kwargs.get("inplace")) or any(e is True for e in node.args[1:]))


def only(graph: fx.Graph, output: str | None) -> None:
    """Leave of the outputs the one of this name, and of the graph what that needs.

    Raises InputError as `outputs.chosen`.
    """
    (end,) = (node for node in graph.nodes if node.op == "output")
    found = chosen(end.args[0], output)
    if found is end.args[0]:
        return
    end.args = (found,)
    first = next(iter(graph.nodes))
    for node in reversed(list(graph.nodes)):
        if not node.users and node not in {first, end}:
            graph.erase_node(node)


def part(traced: fx.GraphModule, source: str, nodes: Sequence[str]) -> fx.GraphModule:
    """The part between a value and others: a module of that value, with all that it needs."""
    by_name = {each.name: each for each in traced.graph.nodes}
    needed, todo = set(), [by_name[name] for name in nodes]
    while todo:
        node = todo.pop()
        if node.name != source and node not in needed:
            needed.add(node)
            todo += node.all_input_nodes
    found = fx.Graph()
    copies = {by_name[source]: found.placeholder("given")}
    for node in traced.graph.nodes:
        if node in needed:
            copies[node] = found.node_copy(node, lambda each: copies[each])
    found.output(tuple(copies[by_name[name]] for name in nodes))
    return fx.GraphModule(traced, found)
