"""The matrix that Weingarten's function inverts."""

from __future__ import annotations

import sympy

from derive.groups import permutations as by_permutations
from derive.groups.weingarten import dimension, elements_of


def gram_matrix(k: int, n: sympy.Expr | int, group: str = "O") -> sympy.Matrix:
    """The Gram matrix of the δ's, n^{loops(p,q)} (U: n^{cycles}), with Wg its (pseudo-)inverse.

    Rows and columns run over `pair_partitions(2k)`; for U over the permutations of 0 … k−1 in
    lexicographic order. For Sp the pairings carry signs, (−1)^k (−n)^{loops}. For S and B they run
    over the set partitions of k points; |π∨σ| are the loops there.
    """
    size = dimension(n, group)
    sign, base = (sympy.Integer((-1) ** k), -size) if group == "Sp" else (sympy.Integer(1), size)
    elements = elements_of(k, group)
    return sympy.Matrix(
        [[sign * base ** len(by_permutations.join(p, q)) for q in elements] for p in elements]
    )
