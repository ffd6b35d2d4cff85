"""The attention of a model: its heads, the variance of their scores, and its effect on tokens.

With q = b_Q + W_Q y and k = b_K + W_K y of tokens of variance K, scores q·k/√d have the variance
β² = (C_bQ + C_Q K)(C_bK + C_K K), and scores over d a d-th of it. Without biases that is
C_Q C_K K².
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import sympy

from ..arrays import Array
from .graph import Attention, Graph, Linear, Norm
from .initializers import known
from .laws import Law
from .networks import Structure, attention, decimal, law_of_biases, law_of_weights


class Heads(NamedTuple):
    """The attention of a layer.

    Attributes:
        layer: from 1.
        number, size: H and d.
        node: of the graph.
        weights, biases: C and C_b of queries and of keys.
        eps: of the norm that queries and keys read; None without one.
        separate: what C_Q C_K would be of separate matrices with the same initializer, if a packed
            one has another variance by it; else None.
    """

    layer: int
    number: int
    size: int
    node: Attention
    weights: tuple[sympy.Expr, sympy.Expr]
    biases: tuple[sympy.Expr, sympy.Expr]
    eps: sympy.Expr | None
    separate: sympy.Expr | None

    def variance(self, K: float) -> float:
        """β² of tokens of variance K, before a norm."""
        y = K if self.eps is None else K / (K + float(self.eps))
        pairs = zip(self.weights, self.biases, strict=True)
        q, k = (float(b) + float(C) * y for C, b in pairs)
        return q * k / (self.size if self.node.over == "n" else 1)

    def __str__(self) -> str:
        over, end = ("d", "/d") if self.node.over == "n" else ("√d", "")
        plural = "s" if self.number > 1 else ""
        told = f"layer {self.layer}: {self.number} head{plural} of {self.size} neurons"
        if self.node.groups > 1:
            told += f", {self.number // self.node.groups} of keys and values"
        if self.node.table and np.isneginf(np.array(self.node.table)).any():
            told += ", masked"
        told += f"; of tokens of variance K, which is 1 behind a norm, scores over {over} have "
        told += f"the variance {self._shown()}{end}"
        if self.separate is None:
            return told
        times = decimal(self.separate / (self.weights[0] * self.weights[1]))
        return f"{told}, and {times} times that with a matrix each in place of a packed one"

    def _shown(self) -> str:
        """β² as a function of K."""
        (q, k), (b_q, b_k) = self.weights, self.biases
        if b_q == 0 and b_k == 0:
            return "K²" if q * k == 1 else f"{decimal(q * k)} K²"
        return f"({decimal(b_q)} + {decimal(q)} K)({decimal(b_k)} + {decimal(k)} K)"


def heads(structure: Structure, laws: Mapping[str, Law]) -> Iterator[Heads]:
    """The attention of each layer that has one."""
    graph = structure.graph
    for number in range(2, len(structure.blocks) + 1):
        for node in attention(structure, number):
            own = (graph.nodes[at] for at in (node.query, node.key))
            linears = [each for each in own if isinstance(each, Linear)]
            if len(linears) == 2:
                yield _of_layer(graph, laws, number, node, linears)


def _of_layer(
    graph: Graph, laws: Mapping[str, Law], number: int, node: Attention, linears: Sequence[Linear]
) -> Heads:
    biases = [law_of_biases(each, laws) for each in linears]
    below = graph.nodes[linears[0].source]
    q, k = (law_of_weights(each, laws).C for each in linears)
    b_q, b_k = (sympy.S.Zero if law is None else law.C for law in biases)
    others = [_separate(graph, each, laws[each.weight]) for each in linears]
    apart = None
    if all(other is not None for other in others):
        apart = (
            sympy.prod(each for each in others)
            * (q * k)
            / sympy.prod(laws[each.weight].C for each in linears)
        )
    eps = below.eps if isinstance(below, Norm) else None
    size = graph.widths[node.query] // node.heads
    return Heads(number, node.heads, size, node, (q, k), (b_q, b_k), eps, apart)


def _separate(graph: Graph, node: Linear, law: Law) -> sympy.Expr | None:
    """C of a matrix of its own with the same initializer, if it is another."""
    if node.weight not in graph.parts:
        return None
    own = known(law.kind, (node.fan_out, node.fan_in), ())
    found = next((C for C, name in own if name == law.why), law.C)
    return None if found == law.C else found


def correlation(K: Array) -> Array:
    """The mean correlation of two tokens of an input, (layers, T, T) to (layers,); NaN of one."""
    count = K.shape[-1]
    if count < 2:
        return np.full(len(K), np.nan)
    sizes = np.sqrt(np.einsum("ltt->lt", K))
    shares = K / (sizes[:, :, None] * sizes[:, None])
    total = np.einsum("lts->l", shares) - count
    return np.asarray(total / (count * (count - 1)))
