"""Steps of an optimizer of torch, with the values of every layer before each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ....arrays import Array
from .reading import TorchReading

Values = Callable[[nn.Module, Any], list[Array]]


def made(make: Callable[[int], Any], width: int, seed: int) -> nn.Module:
    """A model of this width, in double precision, with dropout off."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: nn.Module = make(width)
    return model.double().eval()


def descend(
    model: nn.Module, optimizer: Any, X: Array, Y: Array, steps: int, values: Values
) -> Iterator[list[Array]]:
    """The layers' values after 0, 1, … steps on ½ Σ (z − y)² over all inputs."""
    x, y = tensor(X), tensor(Y)
    for step in range(steps + 1):
        yield values(model, x)
        if step < steps:
            optimizer.zero_grad()
            loss = ((model(x).reshape(len(x), -1) - y) ** 2).sum() / 2
            loss.backward()
            optimizer.step()


def of_nodes(reading: TorchReading, nodes: Sequence[int]) -> Values:
    """The preactivations of a model that is read, (m, n) each."""

    def values(model: nn.Module, x: Any) -> list[Array]:
        named = dict(model.named_parameters())
        own = {path: named[path].detach()[None] for path in reading.graph.parameters}
        given = x.numpy()[None]
        return [reading.propagate(own, 0, given, node)[0] for node in nodes]

    return values


def of_modules(model: nn.Module, x: Any) -> list[Array]:
    """The outputs of each module with a matrix in the order of calls, and of the model: (m, n)."""
    found: list[Array] = []

    def keep(module: nn.Module, given: Any, out: Any) -> None:
        if isinstance(out, torch.Tensor):
            found.append(out.detach().reshape(len(x), -1).numpy())

    hooks = [module.register_forward_hook(keep) for _, module in _with_matrices(model)]
    try:
        out = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not found or out.numel() != found[-1].size:
        keep(model, (), out)
    return found


def outputs(model: nn.Module, x: Any) -> int:
    """How many numbers the model gives for one input."""
    return int(of_modules(model, x)[-1].shape[1])


def names_of_modules(model: nn.Module) -> list[str]:
    """Of the modules with a matrix of their own."""
    return [name or "model" for name, _ in _with_matrices(model)]


def _with_matrices(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [
        (name, module)
        for name, module in model.named_modules()
        if any(each.ndim > 1 for each in module.parameters(recurse=False))
    ]


def optimizers(rates: Mapping[str, float]) -> dict[str, Callable[[nn.Module], Any]]:
    """SGD and Adam as functions of a model, with one rate for all parameters."""

    def maker(kind: Callable[..., Any], rate: float) -> Callable[[nn.Module], Any]:
        return lambda model: kind(model.parameters(), lr=rate)

    kinds = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}
    return {name: maker(kinds[name], rate) for name, rate in rates.items()}


def rates_of(model: nn.Module, optimizer: Any) -> dict[str, float]:
    """The learning rate of each parameter, by its path; 0 of what is not trained."""
    rates = {id(each): group["lr"] for group in optimizer.param_groups for each in group["params"]}
    return {path: float(rates.get(id(each), 0.0)) for path, each in model.named_parameters()}


def kind_of(optimizer: Any, model: Any = None) -> str:
    """ "SGD" of plain descent, "Adam" of Adam and AdamW, else the class."""
    del model
    name = type(optimizer).__name__
    if name == "SGD":
        plain = not any(g.get("momentum") or g.get("weight_decay") for g in optimizer.param_groups)
        return "SGD" if plain else "SGD with momentum or decay"
    return "Adam" if name in {"Adam", "AdamW"} else name


def tensor(values: Array) -> Any:
    """In double precision."""
    return torch.from_numpy(np.array(values, float))
