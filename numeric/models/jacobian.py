"""Singular values of a model's Jacobians at initialization, measured and by theory."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from derive.errors import InputError

from ..arrays import Array
from ..spectra import layered
from .description import Description
from .networks import law_of_weights
from .theory import Theory, is_plain

_JACOBIANS, _WORK = 20, 2e9
"""Initializations, or fewer of a large model: parameters that are passed, one for each output."""


class Jacobian(NamedTuple):
    """Singular values of ∂z^{(L)}/∂x, and of ∂z^{(L−1)}/∂z^{(1)} between hidden layers.

    Attributes:
        size: the mean of Σ_k (∂z_i/∂x_k)² by theory, C_W of layer 1 times all χ_⊥; like all of
            ∂z^{(L)}/∂x NaN where something behind layer L was not read.
        size_error: by the errors of measured variances.
        measured, error: the same over initializations, with its standard error.
        largest, least: means of the extreme singular values of ∂z^{(L)}/∂x.
        hidden_largest, hidden_least: those between hidden layers; NaN where there are none.
        edges: the ends of their spectrum by theory, for hidden layers of one width.
    """

    size: float = math.nan
    measured: float = math.nan
    error: float = math.nan
    largest: float = math.nan
    least: float = math.nan
    hidden_largest: float = math.nan
    hidden_least: float = math.nan
    edges: tuple[float, float] | None = None
    size_error: float = 0.0


def jacobian(description: Description, derived: Theory, x: Array, seed: int) -> Jacobian:
    """Singular values at an input, by theory and over initializations from a seed."""
    reading, blocks = description.reading, description.structure.blocks
    if not description.is_of_vectors:
        return Jacobian()
    last, hidden = blocks[-1].node, len(blocks) - 1
    parameters = sum(map(np.size, reading.graph.parameters.values()))
    each = parameters * max(block.width for block in blocks[: hidden or 1])
    count = int(np.clip(_WORK / each, 2, _JACOBIANS))
    made = reading.initialize(range(seed + 1000, seed + 1000 + count))
    extremes = Jacobian()
    if description.structure.ending is None:
        found = reading.jacobian(made, x, last, 0)
        sizes = (found**2).sum(axis=(1, 2)) / found.shape[1]
        values = np.linalg.svd(found, compute_uv=False)
        first = float(description.network.weights_at(1).C_W)
        size = first * float(np.prod(derived.perpendicular[1:]))
        extremes = Jacobian(
            size,
            float(sizes.mean()),
            float(sizes.std(ddof=1) / math.sqrt(len(sizes))),
            float(values[:, 0].mean()),
            float(values[:, -1].mean()),
            size_error=2 * float(derived.uncertain[-1]) * size,
        )
    if hidden < 2:
        return extremes
    inner = reading.jacobian(made, x, blocks[hidden - 1].node, blocks[0].node)
    between = np.linalg.svd(inner, compute_uv=False)
    return extremes._replace(
        hidden_largest=float(between[:, 0].mean()),
        hidden_least=float(between[:, -1].mean()),
        edges=_edges(description, derived, hidden),
    )


def _edges(description: Description, derived: Theory, hidden: int) -> tuple[float, float] | None:
    """The ends of the spectrum between hidden layers of one width, by free probability."""
    net, blocks = description.network, description.structure.blocks[:hidden]
    plain = all(is_plain(description, number) for number in range(2, hidden + 1))
    if len({block.width for block in blocks}) > 1 or not plain:
        return None
    K = derived.first["K"].to_numpy().reshape(description.depth, -1)[:, 0]
    parts: list[tuple[Any, Any, Any]] = []
    for number in range(2, hidden + 1):
        (node,) = description.structure.matrices([blocks[number - 1]])
        C_W = law_of_weights(node, description.laws).C
        ensemble = net.weights_at(number)
        own = type(ensemble)(C_W) if ensemble.group == "O" else None
        sigma = net.activation_at(number - 1)
        parts.append((sigma, own or "gaussian", float(K[number - 2])))
    try:
        spectrum = layered(parts)
        edges = [*np.asarray(spectrum.edges, float).ravel(), *map(float, spectrum.atoms)]
    except InputError:
        return None
    return math.sqrt(max(min(edges), 0.0)), math.sqrt(max(edges))
