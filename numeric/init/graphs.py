"""The functions before each matrix of a PyTorch module, as `numeric.models` reads it.

What a model's reader refuses is a node of its own here, so that what is behind it is still read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import sympy
from torch import fx, nn

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.symbols import z

from ..models.frameworks.torch.graphs import name_of, traced
from ..models.frameworks.torch.operations import evaluate
from ..models.functions import activation, plain
from ..models.graph import Applied, Inputs, Linear, Node, Norm, Product, Sum
from ..models.tracing import Collective, Neurons, Parameter, Tracer, UnreadableError, Value

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
"""Operations that move or average neurons without another σ, which leave the gain as it is."""

_JOINS = {"add": "sum", "iadd": "sum", "mul": "product", "imul": "product"}
"""Operations that join two tensors."""


@dataclass(frozen=True)
class Feed:
    """The input of a matrix.

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
class Moved(Inputs):
    """Values of a node at other places, some of them or means; without a source what is unknown."""

    name: str = ""


class Graph(Tracer):
    """A module's matrices and what stands before each: the tracer of a model's reading, which
    leaves shapes, gains and the uses of a parameter unchecked.

    Attributes:
        feeds: what each matrix takes, wherever it is called.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module = module
        self._uses: list[tuple[str, int]] = []
        found = traced(module)
        evaluate(found, module, self, self._otherwise)
        self.feeds: dict[nn.Module, tuple[Feed, ...]] = {}
        for path, source in self._uses:
            matrix = module.get_submodule(path)
            if isinstance(matrix, MATRICES):
                self.feeds[matrix] = (*self.feeds.get(matrix, ()), self._feed(source))

    @cached_property
    def activations(self) -> tuple[Activation, ...]:
        """Every σ in it, each once."""
        nodes = self.graph.nodes
        scaled = {
            each.terms[0][1]: at
            for at, each in enumerate(nodes)
            if isinstance(each, Sum) and len(each.terms) == 1
        }
        places = [at for at, each in enumerate(nodes) if isinstance(each, Applied)]
        found = (self._feed(scaled.get(at, at)).activation for at in places)
        return tuple(dict.fromkeys(filter(None, found)))

    @cached_property
    def join(self) -> Feed | None:
        """The first sum or product of two things that were computed: of a skip or a gate."""
        feeds = (self._feed(at) for at in range(len(self.graph.nodes)))
        return next((feed for feed in feeds if feed.kind in {"sum", "product"}), None)

    def linear(self, u: Value, weight: Value, bias: Parameter | None) -> Neurons:
        """A matrix, whatever its shape and its other uses."""
        del bias
        if not isinstance(weight, Parameter):
            raise UnreadableError("a product of matrices")
        return self._matrix(u, weight.path)

    def batch_norm(
        self,
        u: Value,
        eps: float,
        gains: Sequence[Parameter | None],
        running: tuple[Any, Any] | None,
    ) -> Value:
        """A norm, as in training, whatever its running statistics are."""
        del eps, gains, running
        return self._added(Norm(self._source(u), "batch", sympy.S.Zero))

    def rows(self, u: Value, low: int, high: int) -> Value:
        """Parts of a layer are what the layer is."""
        raise UnreadableError("some neurons of a layer")

    def _matrix(self, u: Value, path: str) -> Neurons:
        source = self._source(u)
        self._uses.append((path.rpartition(".")[0], source))
        return self._added(Linear(source, path, None, 0, 0))

    def _otherwise(self, node: fx.Node, args: tuple[Any, ...], why: UnreadableError) -> Neurons:
        """The error for a model that the reader refuses."""
        del why
        given: list[Neurons | Collective] = []
        fx.node.map_aggregate(args, lambda each: given.append(each) if _is_computed(each) else None)
        sources = [self._source(each) for each in given]
        called = self._module.get_submodule(str(node.target)) if node.op == "call_module" else None
        spelled = plain(name_of(node) if called is None else type(called).__name__)
        if isinstance(called, MATRICES) and given:
            return self._matrix(given[0], f"{node.target}.weight")
        norm = next((each for kind, each in NORMS if isinstance(called, kind)), None)
        if norm is not None and sources:
            return self._added(Norm(sources[0], norm, sympy.S.Zero))
        if sources and (isinstance(called, nn.modules.dropout._DropoutNd) or spelled in _PASSING):
            return self._added(Moved((sources[0],)))
        if spelled in _JOINS and len(sources) == 2:
            a, b = sources
            both = Sum(((sympy.S.One, a), (sympy.S.One, b)))
            return self._added(both if _JOINS[spelled] == "sum" else Product(a, b))
        name = name_of(node) if called is None else f"{node.target} ({type(called).__name__})"
        return self._added(Moved(name=name))

    def _added(self, node: Node) -> Neurons:
        return Neurons(self.graph.add(node, 0, self.origin))

    def _source(self, u: Value) -> int:
        """The node that has a value's entries; one that is unknown, where they are no layer's."""
        try:
            return self.node(u)
        except (UnreadableError, InputError):
            return u.node if isinstance(u, Collective) else self._added(Moved(name=self.where)).node

    def _feed(self, at: int) -> Feed:
        """The function that a node applies."""
        node, name = self.graph.nodes[at], str(self.graph.origins[at])
        match node:
            case Moved():
                return self._feed(node.sources[0]) if node.sources else Feed("unknown", node.name)
            case Inputs():
                return Feed("inputs", name)
            case Linear():
                return Feed("matrix", name)
            case Norm():
                return Feed("norm", name, norm=node.kind)
            case Applied():
                factor, base = self.multiple(node.source)
                below = self.graph.nodes[base]
                norm = below.kind if isinstance(below, Norm) else None
                return Feed("activation", name, _scaled(node.function, factor, 1, name), norm)
            case Product():
                return Feed("product", name)
            case Sum() if len(node.terms) > 1:
                return Feed("sum", name)
            case Sum():
                factor, base = self.multiple(at)
                feed = self._feed(base)
                if feed.activation is not None:
                    return replace(feed, activation=_scaled(feed.activation, 1, factor, name))
        return Feed("unknown", name)

    def _gain(self, parameter: Parameter, is_factor: bool) -> None:
        """Of norms, which are set to 1 and 0."""

    def _keep(self, parameter: Parameter) -> None:
        """Keeps the tensors that are used twice, which those who fill it compare."""


def _scaled(sigma: Activation, inside: Any, outside: Any, name: str) -> Activation:
    """c σ(k z)."""
    if inside == outside == 1:
        return sigma
    return activation(outside * sigma.expr.subs(z, inside * z), name)


def _is_computed(value: Any) -> bool:
    return isinstance(value, Neurons | Collective)


def trace(module: nn.Module) -> Graph | str:
    """The graph of a module; why torch.fx has none, in a line, where it has none."""
    try:
        return Graph(module)
    except Exception as error:  # whatever a user's forward raises on proxies
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
