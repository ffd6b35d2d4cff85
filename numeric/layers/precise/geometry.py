"""Which inputs' preactivations depend on each other exactly, and z = B y at a kernel of balls.

A ball shows that a determinant is not zero, never that it is. So dependence is followed apart, in
fractions: at layer 1 z is linear in the inputs (and 1, with biases); at the next layer two samples
still depend on each other where z_b = c z_a and σ(c z) = c' σ(z), without biases or with c' = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from flint import arb, fmpq, fmpq_mat

from derive.activations.functions import Activation, z
from derive.arithmetic.balls import Matrix

Rows: TypeAlias = "tuple[tuple[Fraction, ...], ...]"
"""For each sample a vector: those of samples depend on each other as their preactivations do."""


def first_rows(inputs: Sequence[Sequence[Fraction]], *, biases: bool) -> Rows:
    """At layer 1."""
    return tuple((*row, Fraction(int(biases))) for row in inputs)


def image(activation: Activation, c: Fraction) -> Fraction | None:
    """c' with σ(c z) = c' σ(z) for all z."""
    if c == 1 or activation.is_linear or (c > 0 and activation.is_scale_invariant):
        return c
    if c == 0:
        return Fraction(0) if at_zero(activation) == 0 else None
    if c == -1 and activation.is_odd:
        return c
    if c == -1 and (activation.expr.subs(z, -z) - activation.expr).equals(0):
        return -c
    return None


def at_zero(activation: Activation) -> object:
    """σ(0), from the right."""
    return activation.beside_zero(1).subs(z, 0)


def proportional(rows: Rows, a: int, b: int) -> Fraction | None:
    """c with z_b = c z_a, where that is so exactly."""
    left, right = rows[a], rows[b]
    place = next((k for k, each in enumerate(left) if each), None)
    if place is None:
        return Fraction(1) if not any(right) else None
    c = right[place] / left[place]
    return c if all(c * x == y for x, y in zip(left, right, strict=True)) else None


def rank(rows: Sequence[Sequence[Fraction]]) -> int:
    """Of these vectors."""
    entries = [[fmpq(*each.as_integer_ratio()) for each in row] for row in rows]
    return int(fmpq_mat(entries).rank()) if entries else 0


class Factor(NamedTuple):
    """z = B y for independent normal y.

    Attributes:
        order: row k of B belongs to sample order[k].
        B: (samples, latent variables).
        exact: whether no pivot is a ball that holds 0: else it stands for all from 0 to its end.
    """

    order: list[int]
    B: Matrix
    exact: bool


def factorise(K: Matrix, rows: Sequence[Sequence[Fraction]]) -> Factor:
    """By Cholesky's method with pivots; samples that depend on those before have none."""
    order: list[int] = []
    B: dict[int, list[arb]] = {k: [] for k in range(len(K))}
    left = {k: K[k][k] for k in range(len(K))}
    exact, depth = True, rank(rows)
    for level in range(depth):
        free = [
            k
            for k in B
            if k not in order and rank([rows[j] for j in (*order[:level], k)]) == level + 1
        ]
        best = max(free, key=lambda k: float((left[k] / K[k][k].max(arb(0, 0))).mid()))
        order.append(best)
        if left[best].lower() > 0:
            root = left[best].sqrt()
        else:
            exact = False
            top = left[best].upper().max(arb(0)).sqrt().upper()
            root = arb(0).union(top)
        for k, row in B.items():
            if k == best:
                row.append(root)
            elif k in order:
                row.append(arb(0))
            else:
                inner = sum((x * y for x, y in zip(row, B[best], strict=False)), start=arb(0))
                if exact:
                    entry = (K[k][best] - inner) / root
                else:  # no larger than what is left of the variance
                    entry = arb(0, (left[k].upper().max(arb(0)).sqrt()).upper())
                row.append(entry)
                left[k] = left[k] - entry * entry
    order += [k for k in B if k not in order]
    return Factor(order, [B[k] for k in order], exact)
