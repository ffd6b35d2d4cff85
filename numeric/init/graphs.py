"""What stands before each matrix of a PyTorch module, read from the graph that torch.fx traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn

from derive.activations.functions import Activation

from ..models.functions import plain
from .functions import known, of_call, of_module

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
NORMS: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.LayerNorm, "layer"),
    (nn.RMSNorm, "rms"),
    (nn.modules.batchnorm._NormBase, "batch"),
    (nn.GroupNorm, "group"),
)
"""Norms and what they are called here; batch and instance norms share a base class."""

_PASSING = {
    *("flatten", "reshape", "view", "permute", "transpose", "contiguous", "squeeze", "unsqueeze"),
    *("dropout", "to", "float", "double", "half", "clone", "getitem", "chunk", "split", "identity"),
    *("unflatten", "t", "movedim"),
    *("adaptiveavgpool1d", "adaptiveavgpool2d", "adaptiveavgpool3d", "mean"),
    *("avgpool1d", "avgpool2d", "avgpool3d", "maxpool1d", "maxpool2d", "maxpool3d"),
}
"""What moves or averages neurons without another σ, so that the gain is that of what is before."""

_JOINS = {"add": "sum", "iadd": "sum", "mul": "product", "imul": "product"}
"""What puts two things together."""


@dataclass(frozen=True)
class Feed:
    """What a matrix takes.

    Attributes:
        kind: "inputs", "activation", "norm", "matrix", "sum", "product" or "unknown".
        name: of the node, for an error.
        activation: σ of an activation.
        norm: right before σ, or the norm's own name.
    """

    kind: str
    name: str
    activation: Activation | None = None
    norm: str | None = None


@dataclass(frozen=True)
class Graph:
    """A traced module."""

    module: nn.Module
    traced: fx.Graph

    @cached_property
    def _modules(self) -> Mapping[str, nn.Module]:
        return dict(self.module.named_modules(remove_duplicate=False))

    @cached_property
    def feeds(self) -> Mapping[nn.Module, tuple[Feed, ...]]:
        """What each matrix takes, wherever it is called."""
        found: dict[nn.Module, tuple[Feed, ...]] = {}
        for node in self.traced.nodes:
            if node.op == "call_module":
                called = self._modules[str(node.target)]
                if isinstance(called, MATRICES):
                    feed = self._made_by(_input(node))
                    found[called] = (*found.get(called, ()), feed)
        return found

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """Every σ in it, each once."""
        feeds = (self._made_by(node) for node in self.traced.nodes if node.op.startswith("call"))
        found = (feed.activation for feed in feeds if feed.kind == "activation")
        return tuple(dict.fromkeys(sigma for sigma in found if sigma is not None))

    @cached_property
    def join(self) -> Feed | None:
        """The first sum or product of two things that were computed: of a skip, a gate or a σ."""
        for node in self.traced.nodes:
            spelled = plain(_name(node))
            if node.op.startswith("call") and spelled in _JOINS and _joins(node):
                return Feed(_JOINS[spelled], node.name)
        return None

    def _made_by(self, node: Any) -> Feed:
        """What a node gives."""
        while True:
            if not isinstance(node, fx.Node):
                return Feed("unknown", str(node))
            name, before = _name(node), _input(node)
            if node.op == "placeholder":
                return Feed("inputs", node.name)
            called = self._modules[str(node.target)] if node.op == "call_module" else None
            spelled = plain(name if called is None else type(called).__name__)
            if isinstance(called, MATRICES):
                return Feed("matrix", name)
            norm = next((each for kind, each in NORMS if isinstance(called, kind)), None)
            if norm is not None:
                return Feed("norm", name, norm=norm)
            if isinstance(called, nn.modules.dropout._DropoutNd) or spelled in _PASSING:
                node = before
                continue
            if node.op == "get_attr":
                return Feed("unknown", name)
            if spelled in _JOINS:
                return Feed(_JOINS[spelled] if _joins(node) else "unknown", node.name)
            if known(spelled):
                extra = node.args[1:] if called is None else ()
                sigma = (
                    of_call(spelled, extra, node.kwargs) if called is None else of_module(called)
                )
                below = self._made_by(before)
                norm = below.norm if below.kind == "norm" else None
                return Feed("activation", name, sigma, norm)
            return Feed("unknown", f"{name} ({type(called).__name__})" if called else name)


def trace(module: nn.Module) -> Graph | str:
    """The graph of a module; why torch.fx has none, in a line, where it has none."""
    try:
        with torch.no_grad():
            return Graph(module, fx.Tracer().trace(module))
    except Exception as error:  # whatever a user's forward raises on proxies
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _input(node: fx.Node) -> Any:
    """The first argument of a call, by its place or its name."""
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def _joins(node: fx.Node) -> bool:
    """Whether both of its arguments were computed."""
    pair = [each for each in node.args[:2] if isinstance(each, fx.Node)]
    return len(pair) == 2 and all(each.op != "get_attr" for each in pair)


def _name(node: fx.Node) -> str:
    if node.op == "call_function":
        return getattr(node.target, "__name__", str(node.target))
    return str(node.target)
