"""V behind a skip, without what the last matrix has mean zero of.

Behind z' = γ z + y, y = c (W u + b), u any function of z, T_i = z'_i z'_i (of inputs ab, cd) is
α_i + β_i + η_i, α = γ² z z, β = γ (z y + y z), η = y y. Where W and b have mean zero and rows that
are uncorrelated, both independent of z and u, E β_i = 0, E α_i β_j = 0 and E β_i β_j = 0 for i ≠ j,
and Cov(α_i, α_j) is γ⁴ V/n of the layer below, so that over i ≠ j

    V'/n = γ⁴ V/n + E[T_i η_j + η_i T_j − η_i η_j] − (E T E η + E η E T − E η E η)

Of what is left out the noise alone is lost: α_i α_j is most of it. No law of W is assumed but these
two means, tested on the model's own initializations; neither enters V but times a mean that is
zero, too, of z_i z_j or of z_i (z_j² − K). Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from ..arrays import Array
from ..tables.compare import FALSE_ALARMS
from .graph import Linear, Sum

if TYPE_CHECKING:
    from .description import Description


class Skip(NamedTuple):
    """A layer whose preactivations are γ z + c (W u + b).

    Attributes:
        factor: γ.
        end: W u + b.
    """

    factor: float
    end: Linear


def skip(description: Description, number: int) -> Skip | None:
    """Of a layer, from 0; None where it is none, and where u is no other matrix's: E W_ij W_ji,
    which is not tested, would enter E β_i β_j with E z_i u_i."""
    graph, blocks = description.structure.graph, description.structure.blocks
    nodes = graph.nodes
    end = nodes[blocks[number].node]
    if number == 0 or not isinstance(end, Sum) or len(end.terms) != 2:
        return None
    below = blocks[number - 1].node
    factors = [factor for factor, source in end.terms if source == below]
    others = [nodes[source] for _, source in end.terms if source != below]
    live = [nodes[at] for at in graph.between(0, graph.output)]
    used = [each.weight for each in live if isinstance(each, Linear)]
    for other in others:
        if not isinstance(other, Linear) or len(factors) != 1 or used.count(other.weight) > 1:
            continue
        within = graph.between(below, other.source)
        if any(isinstance(nodes[at], Linear) for at in within):
            return Skip(float(factors[0]), other)
    return None


def moments(factor: float, z: Array, behind: Array) -> tuple[Array, Array]:
    """The means of η/N and of T_i η_j + η_i T_j − η_i η_j, i ≠ j, of (networks, m, N) values below
    and behind."""
    count, m, N = behind.shape
    y = behind - factor * z
    T, eta = ((each @ each.transpose(0, 2, 1)).reshape(count, m * m) for each in (behind, y))
    own, part = (np.einsum("kai,kbi->kiab", each, each).reshape(-1, m * m) for each in (behind, y))
    both = T.T @ eta - own.T @ part
    found = both + both.T - (eta.T @ eta - part.T @ part)
    found = found / (count * max(1, N * (N - 1)))
    return (eta.mean(axis=0) / N).reshape(m, m), found.reshape((m,) * 4)


class Centred(NamedTuple):
    """A test of the two means.

    Attributes:
        layer: from 1.
        z: the largest |z| of what is 0 of matrices with mean zero and uncorrelated rows.
        bound: the |z| that these stay under.
    """

    layer: int
    z: float
    bound: float

    @property
    def is_used(self) -> bool:
        """True if nothing was found."""
        return self.z <= self.bound

    def __str__(self) -> str:
        seen = f"|z| {self.z:.2f}, bound {self.bound:.2f}"
        if self.is_used:
            return (
                f"V of layer {self.layer}: what its skip carries is V of the layer below, and what "
                "has mean zero as its last matrix and biases have is left out: mean zero and "
                f"uncorrelated rows, as tested ({seen})"
            )
        return (
            f"the last matrix or biases of layer {self.layer} have another mean than zero, or "
            f"correlated rows ({seen}): V of it is measured as a whole"
        )


class Centring:
    """Tests of layers behind skips, one initialization after another.

    Arguments:
        skips: by the number of their layer, from 0.
    """

    def __init__(self, skips: Mapping[int, Skip]) -> None:
        self._skips = skips
        self._seen: dict[int, list[list[float]]] = {number: [] for number in skips}

    def add(self, values: Mapping[str, Array]) -> None:
        """Initializations, stacked, by the paths of their parameters."""
        for number, each in self._skips.items():
            paths = [each.end.weight] if each.end.bias is None else [each.end.weight, each.end.bias]
            parts = [np.asarray(values[path], float) for path in paths]
            for own in zip(*parts, strict=True):
                self._seen[number].append([found for part in own for found in _means(part)])

    def tests(self) -> list[Centred]:
        """The results of the tests."""
        found = []
        count = sum(len(seen[0]) for seen in self._seen.values())
        for number, seen in self._seen.items():
            bound = -float(special.stdtrit(len(seen) - 1, FALSE_ALARMS / (2 * count)))
            found.append(Centred(number + 1, max(map(score, zip(*seen, strict=True))), bound))
        return found


def _means(values: Array) -> tuple[float, float]:
    """Sums over entries, and over products of rows i ≠ j in the same column."""
    columns = np.atleast_2d(values.T).sum(axis=-1)
    return float(columns.sum()), float((columns**2).sum() - (values**2).sum())


def score(values: Sequence[float]) -> float:
    """|mean| in standard errors."""
    every = np.asarray(values)
    error = float(every.std(ddof=1)) / math.sqrt(len(every))
    mean = abs(float(every.mean()))
    return mean / error if error else (math.inf if mean > 1e-9 else 0.0)
