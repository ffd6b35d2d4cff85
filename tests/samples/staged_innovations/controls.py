"""Centred functions of independent neurons, and the numbers of mean 0 that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from numeric.arrays import Array


@dataclass
class Group:
    """Centred functions of neurons that are independent of each other, (draws, functions, n).

    `frames` are the numbers of those that Haar frames, norms and matrices inside a layer depend on.
    """

    n: int
    functions: list[Array] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    _moments: tuple[Array, Array] | None = None

    @property
    def count(self) -> int:
        """How many functions."""
        return sum(each.shape[1] for each in self.functions)

    def add(self, made: Sequence[Array]) -> None:
        """These functions too."""
        self.functions += made
        self._moments = None

    def moments(self) -> tuple[Array, Array]:
        """c = (1/n) Σ_i f of all functions, (draws, functions), and (1/n²) Σ_i f f' of any two."""
        if self._moments is None:
            f = np.concatenate(self.functions, axis=1)
            self._moments = f.mean(axis=2), f @ f.swapaxes(1, 2) / self.n**2
        return self._moments


def reduced(groups: Sequence[Group]) -> Array:
    """c = (1/n) Σ_i f of all functions, (draws, functions)."""
    return np.concatenate([each.moments()[0] for each in groups], axis=1)


def spread(groups: Sequence[Group], slopes: Array) -> tuple[Array, Array]:
    """ĝ = Σ β c and D = Σ_i h h/n², h = Σ β f: (draws, p) and (draws, p, p) for slopes (p,
    functions)."""
    draws = len(groups[0].functions[0])
    moved, own = np.zeros((draws, len(slopes))), np.zeros((draws, len(slopes), len(slopes)))
    at = 0
    for each in groups:
        c, square = each.moments()
        h = slopes[:, at : at + c.shape[1]]
        at += c.shape[1]
        moved += c @ h.T
        own += h @ square @ h.T
    return moved, own


def own_squares(group: Group) -> Array:
    """c c' − (1/n²) Σ_i f f' of the functions in `frames` and any other, (draws, products)."""
    c, square = group.moments()
    first, count = group.frames, c.shape[1]
    pairs = [(a, b) for k, a in enumerate(first) for b in range(count) if b not in first[:k]]
    a, b = np.array(pairs, int).reshape(-1, 2).T
    return np.asarray(c[:, a] * c[:, b] - square[:, a, b])


def products(x: Array, y: Array, mean: Array) -> Array:
    """x_a y_b − mean_ab for a ≤ b, (draws, pairs, n)."""
    a, b = np.triu_indices(x.shape[1])
    if len(mean) == 1:
        a, b = a[:1], b[:1]
    found: Array = x[:, a] * y[:, b] - mean[a, b][:, None]
    return found


def all_products(x: Array, y: Array) -> Array:
    """x_a y_b, (draws, rows·rows, n)."""
    return (x[:, :, None] * y[:, None]).reshape(len(x), -1, x.shape[2])
