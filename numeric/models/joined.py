"""The first layer of a model that adds several matrices of the inputs and of what is fixed.

Embeddings of tokens and positions, and a token beside patches, are

    z_p = Σ_k c_k (W_k x_k)_p,

x_k the inputs, rows of a fixed table, or ones for biases, at the positions that k reads. All of it
is one matrix of one variance, behind the x_k side by side, each times the size of its entries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import sympy

from derive.engine.taps import ALONE, Taps
from derive.errors import InputError

from ..arrays import Array
from .graph import Given, Graph, Inputs, Linear, Pooled, Sum
from .laws import Law
from .signals import composed, patches


class Piece(NamedTuple):
    """One matrix of the sum.

    Attributes:
        node: with its factor.
        source: the inputs, or a table.
        taps: the positions of the sum that have those of the node; `ALONE` for the same.
    """

    node: Linear
    source: Inputs | Given
    taps: Taps


def pieces(graph: Graph, at: int) -> tuple[Piece, ...]:
    """The matrices of which a node is the sum; () if others than of the inputs are among them."""
    found = _pieces(graph, at, sympy.S.One, ALONE)
    return () if None in found else tuple(each for each in found if each is not None)


def _pieces(graph: Graph, at: int, factor: sympy.Expr, taps: Taps) -> list[Piece | None]:
    match graph.nodes[at]:
        case Linear() as node:
            source = graph.nodes[node.source]
            if isinstance(source, Inputs | Given) and (node.source == 0 or not source.sources):
                return [Piece(node.times(factor), source, taps)]
        case Sum(terms):
            return [
                each for c, source in terms for each in _pieces(graph, source, c * factor, taps)
            ]
        case Pooled(source, own):
            return _pieces(graph, source, factor, composed(taps, own))
    return [None]


def joined(graph: Graph, at: int, parts: Sequence[Piece]) -> Graph:
    """The graph with one matrix of the inputs in place of this sum."""
    node = Linear(0, name(parts), None, sum(map(_columns, parts)), graph.widths[at])
    nodes = [node if place == at else each for place, each in enumerate(graph.nodes)]
    return replace(graph, nodes=nodes)


def name(parts: Sequence[Piece]) -> str:
    """The paths of the matrices."""
    return " + ".join(dict.fromkeys(part.node.weight for part in parts))


def law(parts: Sequence[Piece], laws: Mapping[str, Law], width: int) -> Law:
    """The law of the one matrix: Gaussian, or of another kind if all are of that and one size."""
    own = [e for part in parts for e in _own(part, laws) if e.kind != "zero"] or [
        laws[parts[0].node.weight]
    ]
    kinds = sorted({each.kind for each in own})
    is_one = len(kinds) == 1 and (kinds == ["gaussian"] or is_of_one_size(parts, laws))
    columns = sum(map(_columns, parts))
    if "unknown" in kinds:
        return next(each for each in own if each.kind == "unknown")
    C = columns * _largest(parts, laws)
    error = max(each.error / float(each.C) for each in own if each.C) * float(C) if C else 0.0
    kind = kinds[0] if is_one and own[0].has_free_rows else f"added {' and '.join(kinds)}"
    kurtosis = max((each.kurtosis for each in own), key=abs)
    return Law(kind, (width, columns), C, error, kurtosis)


def features(parts: Sequence[Piece], laws: Mapping[str, Law], signals: Array) -> Array:
    """The inputs of the one matrix, (m, positions, columns), of inputs (m, positions, channels)."""
    largest, found = float(_largest(parts, laws)), list[Array]()
    for part in parts:
        x = np.array([part.source.table]) if isinstance(part.source, Given) else signals
        x = x if x.ndim > 2 else x[:, None]
        x = patches(x, part.node.taps)
        own = [x, np.ones((1, x.shape[1], 1))]
        for each, variance in zip(own, _variances(part, laws), strict=False):
            scaled = each * math.sqrt(float(variance) / largest if largest else 0.0)
            scaled = patches(scaled, part.taps)
            found.append(np.broadcast_to(scaled, (len(signals), *scaled.shape[1:])))
    made = np.concatenate(found, axis=2)
    return made if signals.ndim > 2 else made[:, 0]


def is_of_one_size(parts: Sequence[Piece], laws: Mapping[str, Law]) -> bool:
    """True if the entries of all have one variance, and one factor: Θ is then that of descent."""
    sizes = {variance for part in parts for variance in _variances(part, laws)}
    return len(sizes) == 1 and len({part.node.scale**2 for part in parts}) == 1


def check_frozen(graph: Graph, parts: Sequence[Piece]) -> None:
    """Raise InputError if some of the matrices are trained and others are not."""
    held = {graph.whole(part.node.weight) in graph.frozen for part in parts}
    if len(held) > 1:
        wanted = "all of these matrices trained, or none of them"
        raise InputError("model", f"{name(parts)}, some frozen", wanted)


def _own(part: Piece, laws: Mapping[str, Law]) -> list[Law]:
    return [laws[path] for path in (part.node.weight, part.node.bias) if path is not None]


def _variances(part: Piece, laws: Mapping[str, Law]) -> list[sympy.Expr]:
    """Of an entry of the matrix, with its factor, and of a bias if it has one."""
    node = part.node
    found = [laws[node.weight].times(node.scale).C / node.fan_in]
    return found if node.bias is None else [*found, laws[node.bias].times(node.bias_scale).C]


def _largest(parts: Sequence[Piece], laws: Mapping[str, Law]) -> sympy.Expr:
    return max(variance for part in parts for variance in _variances(part, laws))


def _columns(part: Piece) -> int:
    return part.node.fan_in + (part.node.bias is not None)
