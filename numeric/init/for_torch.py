"""A module's parameters filled by torch's own generator; torch is imported here and in `graphs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn

from derive.activations.functions import Activation
from derive.depth.gains import Gain
from derive.errors import InputError
from derive.layers import Layer
from derive.weights import IndependentEntries, WeightEnsemble

from ..arrays import Array
from ..random.entries import entries
from ..random.matrices import frame, product, weight_factors
from .gains import ensemble, gain, shown
from .graphs import MATRICES, NORMS, Feed, Graph, trace
from .initializers import chosen_filters
from .settings import LEFT, Initialized, Setting


@dataclass(frozen=True)
class Wanted:
    """The arguments of `torch_`, checked."""

    activation: Activation | None
    weights: WeightEnsemble
    layer: Layer | None
    C_W: Any
    K: Any
    filters: str | None


@dataclass(frozen=True)
class Plan:
    """One matrix: its law, the standard deviation of the biases, and why."""

    weights: WeightEnsemble
    filters: str
    std_b: float
    reason: str


class OfTorch:
    """A source of random arrays in float64 by torch's generator, the default one if None."""

    def __init__(self, generator: torch.Generator | None) -> None:
        self.generator = generator

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent standard normal numbers."""
        return self._drawn(torch.randn, shape, dtype=torch.float64)

    def frame(self, n: int, columns: int) -> Array:
        """A uniform frame of orthonormal columns in R^n, (n, columns)."""
        return frame(n, columns, lambda count: self.normal((count,)))

    def block(self, n_out: int, n_in: int) -> Array:
        """The upper left of a Haar matrix as large as the larger of the two."""
        return self.frame(n_out, n_in) if n_out >= n_in else self.frame(n_in, n_out).T

    def entries(self, law: IndependentEntries, count: int) -> Array:
        """Independent numbers of this law, of variance 1, by NumPy's generator with its seed."""
        words = self._drawn(lambda *a, **k: torch.randint(2**32, *a, **k), (4,), dtype=torch.int64)
        return entries(law, count, np.random.default_rng(words.tolist()))

    def _drawn(self, draw: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Array:
        device = "cpu" if self.generator is None else self.generator.device
        made = draw(shape, generator=self.generator, device=device, dtype=dtype)
        return np.asarray(made.cpu().numpy())


def initialize(module: nn.Module, wanted: Wanted, generator: torch.Generator | None) -> Initialized:
    """Initialize a module, as `torch_` does."""
    if not isinstance(module, nn.Module):
        raise InputError("module", module, "a torch.nn.Module")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InputError("generator", generator, "a torch.Generator, or None")
    _check_parameters(module)
    plans = dict(_plans(module, wanted))
    settings: dict[str, tuple[nn.Parameter, Any, Setting]] = {}
    source, owned = OfTorch(generator), _owners(module)
    for name, parameter in module.named_parameters():
        owner, own = owned[id(parameter)]
        filled: Any = None
        if owner in plans:
            plan = plans[owner]
            law = shown(plan.weights)
            if own == "weight":
                filled = _weight(owner, parameter, plan, source)
                if parameter.ndim > 2:
                    law += f", filters: {plan.filters}"
            else:
                law = f"N(0, {plan.std_b:.6g}²)" if plan.std_b else "0"
                filled = plan.std_b * source.normal(tuple(parameter.shape)) if plan.std_b else 0.0
            reason = plan.reason
        elif isinstance(owner, tuple(kind for kind, _ in NORMS)):
            filled, law = (1.0, "1") if own == "weight" else (0.0, "0")
            reason = "a norm that changes nothing but the norm"
        else:
            law, reason = LEFT, f"{type(owner).__name__}: no gain is derived for it"
        settings[name] = parameter, filled, Setting(name, tuple(parameter.shape), law, reason)
    with torch.no_grad():
        for parameter, filled, _ in settings.values():
            if isinstance(filled, float):
                parameter.fill_(filled)
            elif filled is not None:
                parameter.copy_(torch.from_numpy(np.ascontiguousarray(filled)))
    return Initialized(tuple(setting for _, _, setting in settings.values()))


def _check_parameters(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        lazy = isinstance(parameter, nn.parameter.UninitializedParameter)
        if lazy or parameter.is_meta:
            wanted = "a module whose parameters have numbers: call it once, or `to_empty` it"
            raise InputError("module", f"{name} without numbers", wanted)
        if not parameter.is_floating_point():
            raise InputError("module", f"{name} of {parameter.dtype}", "real parameters")


def _owners(module: nn.Module) -> dict[int, tuple[nn.Module, str]]:
    """The first module that has a parameter, and its name there."""
    found: dict[int, tuple[nn.Module, str]] = {}
    for each in module.modules():
        for name, parameter in each.named_parameters(recurse=False):
            found.setdefault(id(parameter), (each, name))
    return found


def _plans(module: nn.Module, wanted: Wanted) -> Iterator[tuple[nn.Module, Plan]]:
    """The setting of each matrix."""
    graph = trace(module) if not isinstance(module, MATRICES) else "a matrix by itself"
    names = {each: name for name, each in module.named_modules()}
    feeds = _feeds(module, graph, wanted)
    sigma = None
    if wanted.layer is not None and not wanted.layer.is_dense:
        sigma = _common(graph, wanted)
    elif wanted.layer is None and isinstance(graph, Graph) and graph.join is not None:
        wants = (
            "the layer of a module with skips or gates, such as 'residual(skip=1, norm=rms)', or"
            f" 'dense' where {graph.join.name}, a {graph.join.kind}, is of σ"
        )
        raise InputError("layer", None, wants)
    shared: dict[int, tuple[str, Plan]] = {}
    for matrix, several in feeds.items():
        name = names[matrix] or type(matrix).__name__
        if not isinstance(matrix.weight, nn.Parameter):
            wants = "one whose weights are parameters, not computed (weight_norm and the like)"
            raise InputError("module", name, wants)
        made = {_plan(name, feed, sigma, wanted) for feed in several}
        key = id(matrix.weight)
        if key in shared:
            made.add(shared[key][1])
            name = f"{shared[key][0]} and {name}"
        if len(made) > 1:
            wants = "one use of a parameter, or uses that want the same"
            raise InputError("module", f"{name}: {'; '.join(p.reason for p in made)}", wants)
        (plan,) = made
        shared[key] = name, plan
        yield matrix, plan


def _feeds(
    module: nn.Module, graph: Graph | str, wanted: Wanted
) -> dict[nn.Module, tuple[Feed, ...]]:
    """The input of each matrix: as traced, or, with σ given, by their order."""
    behind, inputs = Feed("unknown", "σ"), Feed("inputs", "the inputs")
    if isinstance(graph, Graph):
        found = dict(graph.feeds)
    elif isinstance(module, MATRICES):
        found = {module: (inputs if wanted.activation is None else behind,)}
    elif wanted.activation is None and wanted.layer is None:
        wants = f"activation=σ for a module that torch.fx does not trace ({graph})"
        raise InputError("activation", None, wants)
    else:
        matrices = [each for each in module.modules() if isinstance(each, MATRICES)]
        found = {each: (behind if number else inputs,) for number, each in enumerate(matrices)}
    if not found:
        raise InputError("module", type(module).__name__, "one with a Linear or a convolution")
    return found


def _common(graph: Graph | str, wanted: Wanted) -> Activation:
    """The σ of a module whose layer is given."""
    if wanted.activation is not None:
        return wanted.activation
    known = graph.activations if isinstance(graph, Graph) else ()
    if len(known) != 1:
        wants = "σ of the layer; in the module there is " + (
            "none that is known" if not known else f"more than one: {', '.join(map(str, known))}"
        )
        raise InputError("activation", None, wants)
    return known[0]


def _plan(name: str, feed: Feed, sigma: Activation | None, wanted: Wanted) -> Plan:
    law = wanted.weights
    if sigma is not None:
        found = gain(sigma, wanted.layer, C_W=wanted.C_W, K=wanted.K)
        ends = feed.kind in {"activation", "product", "unknown"}
        return _planned(law, wanted, found, found.std_b if ends else 0.0, f"gain {found}")
    if feed.kind in {"inputs", "norm", "matrix"}:
        found = gain("linear")
        after = {
            "inputs": "fed by the inputs, no σ before it: gain 1 keeps their mean square",
            "norm": f"behind a norm ({feed.norm}), no σ between: gain 1 keeps its mean square, 1",
            "matrix": "behind another matrix, no σ between: gain 1 keeps the mean square",
        }[feed.kind]
        return _planned(law, wanted, found, 0.0, after)
    given = wanted.activation or feed.activation
    if given is None:
        wants = f"σ for {name}, behind {feed.name}, which is no activation that is known here"
        raise InputError("activation", None, wants)
    norm = feed.norm if feed.norm in {"rms", "layer"} else None
    layer = None if norm is None else f"normalized({norm})"
    found = gain(given, layer, C_W=None if norm is None else wanted.C_W, K=wanted.K)
    note = f" and a norm ({feed.norm}), which makes any gain do" if feed.norm and not norm else ""
    return _planned(law, wanted, found, found.std_b, f"behind {given}{note}: gain {found}")


def _planned(law: WeightEnsemble, wanted: Wanted, found: Gain, std_b: float, reason: str) -> Plan:
    weights = ensemble(law, found.C_W)
    return Plan(weights, chosen_filters(wanted.filters, weights), std_b, reason)


def _weight(matrix: Any, parameter: nn.Parameter, plan: Plan, source: OfTorch) -> Array:
    """(n_out, n_in, …taps) in float64: a matrix for each group, at the middle tap or at all."""
    n_out, n_in, *taps = parameter.shape
    groups = getattr(matrix, "groups", 1)
    filled = np.zeros((n_out, n_in, prod(taps)))
    middle = int(np.ravel_multi_index([(size - 1) // 2 for size in taps], taps)) if taps else 0
    everywhere = plan.filters == "all"
    scale = prod(taps) ** -0.5 if everywhere else 1.0
    for tap in range(prod(taps)) if everywhere else [middle]:
        for rows in np.split(np.arange(n_out), groups):
            W = product(weight_factors(plan.weights, (len(rows), n_in), source))
            filled[rows, :, tap] = scale * W
    return filled.reshape(tuple(parameter.shape))
