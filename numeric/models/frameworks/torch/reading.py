"""A model of torch: read as nodes, initialized again, and run between them."""

from __future__ import annotations

import copy
import math
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm

from ....arrays import Array
from ...graph import Graph, Inputs, Rows
from ...outputs import chosen
from ...tracing import Neurons, Tracer, UnreadableError, refused
from ..base import Reading
from .graphs import (
    Prepared,
    differences,
    line,
    only,
    out_of_place,
    part,
    prepared,
    reparametrized,
    traced,
    unwrapped,
    without_tables,
)
from .modules import spelled_out
from .operations import UnreadModuleError, evaluate, is_shape, reshapes


@contextmanager
def _one_thread() -> Iterator[None]:
    """Matrices here are small: the threads of one product would wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_OTHER_VALUES = (
    "it gives other values than its graph of torch.fx, as with a hook on the model, chance, or "
    "h += … where another name for h is used later: write h = h + … there"
)

_OTHER_GRADIENTS = (
    "its gradients are not those of what it computes, as with a backward of its own in "
    "torch.autograd.Function, or a part under torch.no_grad: write the function without it"
)


class _OfBatches(nn.Module):
    """A batch normalization in training mode of rows that are several batches of m inputs."""

    def __init__(self, norm: nn.Module, m: int) -> None:
        super().__init__()
        self.m, self.eps, self.weight, self.bias = m, norm.eps, norm.weight, norm.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The normalized rows."""
        rows = x.unflatten(0, (-1, self.m)).movedim(2, -1)
        axes = tuple(range(1, rows.ndim - 1))
        centred = rows - rows.mean(axes, keepdim=True)
        found = centred / (centred.square().mean(axes, keepdim=True) + self.eps).sqrt()
        if self.weight is not None:
            found = found * self.weight + self.bias
        return found.movedim(-1, 2).flatten(0, 1)


class TorchReading(Reading):
    """A `torch.nn.Module`, or what makes one, to the output of this name.

    Arguments:
        arguments: the shapes of several arguments of `forward`, which lie side by side in inputs.

    Raises InputError for what cannot be read, by its path in the model.
    """

    framework = "torch"

    def __init__(
        self,
        model: Any,
        make: Callable[[int], Any] | None,
        inputs: Array | None = None,
        output: str | None = None,
        arguments: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self._make, self._arguments = make, arguments
        self._model = _settled(model)
        held = reparametrized(self._model)
        unwrapped(self._model)
        given = None if inputs is None else self._given_to(inputs)
        tables = any(isinstance(each, nn.Embedding) for each in self._model.modules())
        self._takes_tokens = tables and inputs is not None and np.all(inputs == np.rint(inputs))
        found = _read(self._model, given, output, () if inputs is None else inputs.shape)
        self._traced, self.graph, self.channels_last, self._prepared = found
        self.graph.remarks += differences(self._model)
        if self._prepared is not None and inputs is not None:
            self.takes = inputs.shape[1:]
        if held:
            self.graph.remarks.append(
                f"{', '.join(held)}: read as the matrices that these are at the start, and trained "
                "as such; how a norm changes them in training is left out"
            )
        self._shapes = _shapes(self._traced, self.graph, self.axes)
        for path, module in [*self._traced.named_modules()] if self.graph.batch else ():
            if isinstance(module, _BatchNorm) and module.running_mean is None:
                self._traced.set_submodule(path, _OfBatches(module, self.graph.batch))
        self._parts: dict[tuple[int, tuple[int, ...]], fx.GraphModule] = {}
        self._given = None if make else self._values()
        self._check_values(output, inputs)
        if make:
            other = unwrapped(make(1).eval())
            self.check_held(self._model, self._gains(self._model), self._gains(other))
            self._tell_of_buffers(other)
        self.how = "made again" if make else "each module's reset_parameters"

    def _given_to(self, X: Array) -> list[Any]:
        """Inputs, (m, …), as the arguments of `forward`."""
        if not self._arguments:
            return [torch.from_numpy(np.array(X, float))]
        ends = np.cumsum([math.prod(shape) for shape in self._arguments])[:-1]
        parts = np.split(np.asarray(X, float).reshape(len(X), -1), ends, axis=1)
        pairs = zip(parts, self._arguments, strict=True)
        return [torch.from_numpy(part.reshape(len(X), *shape).copy()) for part, shape in pairs]

    def prepare(self, X: Array) -> Array:
        """See `Reading`."""
        if self._prepared is None or self.takes is None:
            return X
        with torch.no_grad(), _one_thread():
            found = self._prepared.run(*self._given_to(X.reshape(-1, *self.takes)))
        return np.asarray(found.double().numpy())

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
        if source == 0 and self._prepared is not None:
            states = np.array([self.prepare(each) for each in states])
        origin = self.graph.origins[source]
        name = origin.origin if isinstance(origin, Rows) else origin
        own = list(self._shapes.get(str(name), states.shape[2:]))
        if isinstance(origin, Rows):
            own[-1 if origin.is_last else 0] = origin.high - origin.low
        given = np.array(states).reshape(*states.shape[:2], *own)
        with torch.no_grad():
            (found,) = self._run(made, torch.from_numpy(given), source, (node,))
        return np.asarray(found.reshape(len(found), states.shape[1], -1).numpy())

    @_one_thread()
    def tangents(self, made: Any, X: Array, nodes: Sequence[int]) -> Array:
        """See `Reading`: an initialization's outputs depend on its own parameters alone, so that
        one gradient is that of all of them."""
        leaves = {path: each.detach().requires_grad_() for path, each in made.items()}
        trained = [each for path, each in leaves.items() if path not in self.graph.frozen]
        m, X, count = len(X), self.prepare(X), len(next(iter(leaves.values())))
        outputs = self._run(leaves, torch.from_numpy(X[None]), 0, tuple(nodes))
        grams = np.zeros((count, len(nodes), m, m))
        for at, output in enumerate(outputs):
            firsts = output.reshape(count, m, -1)[:, :, 0].sum(dim=0)
            gradients = [
                torch.autograd.grad(each, trained, retain_graph=True, allow_unused=True)
                for each in (firsts if trained else ())
            ]
            for each in zip(*gradients, strict=True):
                if each[0] is None:
                    continue
                turned = each[0].ndim == 3 and not each[0].is_contiguous()  # as W.T has it
                flat = [(one.mT if turned else one).reshape(count, 1, -1) for one in each]
                for a, b in combinations_with_replacement(range(m), 2):
                    product = (flat[a] @ flat[b].transpose(1, 2)).reshape(count).numpy()
                    grams[:, at, a, b] += product
                    grams[:, at, b, a] = grams[:, at, a, b]
        return grams

    @_one_thread()
    def jacobian(self, made: Any, x: Array, node: int, source: int) -> Array:
        """See `Reading`."""
        count, x = len(next(iter(made.values()))), self.prepare(x[None])[0]
        given = torch.from_numpy(np.array(np.broadcast_to(x, (count, 1, *x.shape))))
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
        key, places = (source, nodes), [self.graph.origins[at] for at in (source, *nodes)]
        if key not in self._parts:
            named = (each.origin if isinstance(each, Rows) else each for each in places)
            first, *origins = map(str, named)
            self._parts[key] = part(self._traced, first, origins)
        if isinstance(places[0], Rows):
            states = _within(states, places[0])
        between = self._parts[key]
        needed = {name for name, _ in between.named_parameters()}
        own = {path: each for path, each in made.items() if path in needed}

        def one(parameters: Any, rows: Any) -> Any:
            return torch.func.functional_call(between, parameters, (rows,))

        shared = len(states) == 1
        run = torch.func.vmap(one, (0, None if shared else 0))
        with sdpa_kernel(SDPBackend.MATH):  # which vmap knows
            found: tuple[Any, ...] = run(own, states[0] if shared else states)
        pairs = zip(found, places[1:], strict=True)
        return tuple(_some(u, place) if isinstance(place, Rows) else u for u, place in pairs)

    def _check_values(self, output: str | None, inputs: Array | None) -> None:
        """Raise InputError if the module gives other values than its graph, and note the
        parameters that its gradients do not reach.

        torch.fx sees neither `h += …` where h has another name, nor hooks on the whole model, nor
        `torch.no_grad`. Without `inputs` a module that takes others than rows is not checked.
        """
        if not self._paths:
            return
        if inputs is None:
            axes = self.axes if self.graph.shapes[0] else (self.graph.widths[0],)
            inputs = np.random.default_rng(0).standard_normal((2, *axes))
        try:
            with torch.enable_grad(), _one_thread():
                given = self._given_to(inputs)
                if self._takes_tokens:
                    given = [each.long() for each in given]
                own = chosen(self._model(*given), output)
                read = self._traced(torch.from_numpy(np.array(self.prepare(inputs))))
        except Exception as raised:  # of the user's forward, on inputs of another shape
            told = f"not compared with the model's own values: its forward raises {raised!r:.80}"
            self.graph.remarks.append(told)
            return
        error = (own - read.reshape(own.shape)).detach().abs().max()
        if error > 1e-3 * own.detach().abs().max():
            raise refused(self._model, [("model", _OTHER_VALUES)])
        found, again = self._gradients(own), self._gradients(read.reshape(own.shape))
        scale = 1e-3 * max((float(each.abs().max()) for each in found.values()), default=0.0)
        if any((found[path] - again[path]).abs().max() > scale for path in found if path in again):
            raise refused(self._model, [("model", _OTHER_GRADIENTS)])
        self.graph.frozen += [path for path in self._paths if path not in found]

    def _gradients(self, outputs: Any) -> dict[str, Any]:
        """Of a sum of the outputs with other signs and sizes, of each parameter that it has."""
        used = [path for path in self._paths if self._parameter(path).requires_grad]
        if not used or not outputs.requires_grad:
            return {}
        leaves = [self._parameter(path) for path in used]
        factors = torch.arange(1.0, outputs.numel() + 1, dtype=outputs.dtype).cos()
        total = (outputs * factors.reshape(outputs.shape)).sum()
        found = torch.autograd.grad(total, leaves, allow_unused=True)
        return {path: each for path, each in zip(used, found, strict=True) if each is not None}

    def _gains(self, model: nn.Module) -> dict[str, Array]:
        """The gains of a model, which stays as it is, by their paths."""
        own = dict(model.named_parameters())
        paths = own.keys() & set(self.graph.gains)
        return {path: own[path].detach().cpu().double().numpy() for path in paths}

    def _tell_of_buffers(self, other: nn.Module) -> None:
        """Remark on buffers that are others in another initialization."""
        own = dict(self._model.named_buffers())
        drawn = [
            path
            for path, each in other.named_buffers()
            if path in own and not torch.equal(own[path].double(), each.cpu().double())
        ]
        if drawn:
            told = f"{', '.join(drawn)}: drawn at random, but no parameters; those of the first "
            self.graph.remarks.append(f"{told}initialization are taken in all")

    def _values(self) -> dict[str, Array]:
        own = {path: self._parameter(path).detach().numpy().copy() for path in self._paths}
        return {path: self.matrix(path, value) for path, value in own.items()}

    def _parameter(self, path: str) -> Any:
        return self._model.get_parameter(path)

    def _initialize(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), _one_thread():
            torch.default_generator.manual_seed(seed)
            if self._make is not None:
                fresh = dict(unwrapped(self._make(seed).eval()).named_parameters())
                for path, parameter in self._model.named_parameters():
                    parameter.copy_(fresh[path])
                return
            if not self.laws:
                for module in self._model.modules():
                    if hasattr(module, "reset_parameters"):
                        module.reset_parameters()
                return
            leaves = {path: self._parameter(path).detach() for path in self.laws}
            for path, values in self.by_laws(seed, leaves):
                leaves[path].copy_(torch.from_numpy(np.ascontiguousarray(values)))


def _settled(model: nn.Module) -> nn.Module:
    """A copy in evaluation mode, but for batch normalizations in training mode: these keep no
    statistics."""
    made = (each for module in model.modules() for each in vars(module).values())
    weights = [each for each in made if torch.is_tensor(each) and not each.is_leaf]
    memo = {id(each): each.detach() for each in weights}  # of nn.utils.weight_norm, made anew
    found = spelled_out(copy.deepcopy(model, memo).cpu().double())
    for module in found.modules():
        if isinstance(module, _BatchNorm) and module.training:
            module.running_mean = module.running_var = None
            module.track_running_stats = False
    return found.eval()


def _some(u: Any, rows: Rows) -> Any:
    """Some neurons of values (count, rows, …)."""
    return u.narrow(-1 if rows.is_last else 2, rows.low, rows.high - rows.low)


def _within(u: Any, rows: Rows) -> Any:
    """Values (count, rows, …) of some neurons among zeros, which others do not read."""
    pads = rows.low, rows.width - rows.high
    behind = 0 if rows.is_last else u.ndim - 3
    return torch.nn.functional.pad(u, (0, 0) * behind + pads)


class _Shapes(fx.Interpreter):
    """Runs a graph and keeps the shapes of its values, without the axis of the inputs."""

    def __init__(self, traced: fx.GraphModule) -> None:
        super().__init__(traced)
        self.found: dict[str, tuple[int, ...]] = {}

    def run_node(self, node: fx.Node) -> Any:
        made = super().run_node(node)
        if isinstance(made, torch.Tensor):
            self.found[node.name] = tuple(made.shape[1:])
        return made


def _shapes(
    traced: fx.GraphModule, graph: Graph, axes: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """The shapes of the values of a model of signals, by their names."""
    if not graph.shapes[0]:
        return {}
    run = _Shapes(traced)
    with torch.no_grad():
        run.run(torch.zeros(2, *axes, dtype=torch.double))
    return run.found


def _read(
    model: nn.Module, given: Sequence[Any] | None, output: str | None, shape: tuple[int, ...]
) -> tuple[fx.GraphModule, Graph, bool, Prepared | None]:
    try:
        graph = traced(model)
    except UnreadableError as error:
        raise refused(model, [(_place(error), str(error))]) from None
    except Exception as error:  # of the user's forward
        told = " ".join(str(error).split())
        told += next((way for part, way in _TRACED.items() if part in told), "")
        raise refused(model, [(_place(error), f"torch.fx cannot trace it: {told}")]) from error
    tracer, faults, unread = Tracer(), list[tuple[str, str]](), set[int]()
    tracer.given = shape

    def otherwise(node: fx.Node, args: tuple[Any, ...], why: UnreadableError) -> Neurons:
        above = [tracer.graph.between(-1, e.node) for e in args if isinstance(e, Neurons)]
        is_own = isinstance(why, UnreadModuleError)
        follows = any(unread.intersection(each) for each in above)
        if (is_own or not follows) and tracer.where not in dict(faults):
            faults.append((tracer.where, f"{why}{line(node)}"))
        at = tracer.graph.add(Inputs(), 0, node.name)
        unread.add(at)
        return Neurons(at)

    try:
        out_of_place(graph, model)
        only(graph, output)
        without_tables(graph, model)
        first = None if given is None else prepared(graph, model, given)
    except UnreadableError as error:
        raise refused(model, [("model", str(error))]) from None
    if given is not None:
        tracer.given = (len(given[0]), *(first.shape if first else given[0].shape[1:]))
    tracer.graph.lines = {node.name: line(node) for node in graph.nodes}
    values = evaluate(graph, model, tracer, otherwise)
    if faults:
        raise refused(model, faults)
    (result,) = (values[node] for node in graph.nodes if node.op == "output")
    try:
        found = tracer.finish(result)
    except UnreadableError as error:
        raise refused(model, [("model", str(error))]) from None
    made = _without_shapes(fx.GraphModule(model, graph), values, bool(found.shapes[0]))
    return made, found, tracer.inputs_last, first


_TRACED = {
    "cannot be iterated": "; unpack it, as q, k, v = x.chunk(3, -1), and x.size() by x.size(0), …",
    "control flow": "; decide by what is known when the model is made, not by values or shapes",
    "item assignment": "; put parts together with torch.cat",
}
"""Advice on a forward that torch.fx cannot trace, by a part of its message."""


def _place(error: Exception) -> str:
    """The line of the user's code in which this was raised."""
    others = os.path.dirname(torch.__file__), os.path.dirname(__file__), "<"
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(others)]
    if not own:
        return "model"
    last = own[-1]
    return f"{os.path.basename(last.filename)}, line {last.lineno}, in {last.name}"


def _without_shapes(
    traced: fx.GraphModule, values: Mapping[fx.Node, Any], flattens: bool
) -> fx.GraphModule:
    """The same without what only gives a layer's values another shape, which may take that shape
    from the inputs; signals are flattened in its place."""
    for node in reversed(list(traced.graph.nodes)):
        if reshapes(node) and (not flattens or getattr(values[node], "form", "flat") == "flat"):
            given = node.args[0] if node.args else node.kwargs["input"]
            if flattens:
                with traced.graph.inserting_before(node):
                    given = traced.graph.call_function(torch.flatten, (given, 1))
                given.name = f"{node.name}_flat"
            node.replace_all_uses_with(given)
            traced.graph.erase_node(node)
        elif is_shape(values.get(node)) and not node.users:
            traced.graph.erase_node(node)
    traced.recompile()
    return traced
