"""Exact moments in place of samples, where σ is a polynomial and a number has heavy tails.

At any integer width a cumulant is then a sum over moments of the inputs, in rational arithmetic
(`derive.exact`), and as much work at n = 24 as at n = 6·10⁹, where nothing is left of the next term
in 1/n. What stands at order 1/n, as G1 beside K, is the difference of two widths. The expansion in
1/n and Gaussian averages, on which `flow` rests, have no part in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import sympy
import xarray

from derive import exact
from derive.activations.functions import z
from derive.engine.fields import Field
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.recursions import wanted
from numeric.examples import Example
from numeric.tables import layout
from numeric.tables.compare import Comparison, Row, compare
from numeric.tables.normalise import natural_size

WIDTH = 6 * 10**9
"""A width divisible by 6, for ranks that are whole numbers."""
LEFT = 1e-6
"""Of a number, or of its natural size, what is left of higher orders in 1/n at that width."""
MOST = 32
"""Slots at the inputs, as many as the degree makes of those of a cumulant layer by layer: some ten
seconds of a processor."""


@dataclass(frozen=True)
class Evidence:
    """The evidence for a theory: ensembles, and exact moments where they resolve better.

    Arguments:
        tables: of the ensembles, a width each.
        false_alarms, degree: of the comparison.
        exact: tables of single tensors, by name, to the layer that is within reach.
    """

    tables: tuple[xarray.Dataset, ...]
    false_alarms: float
    degree: int
    exact: Mapping[str, xarray.Dataset]

    def compared(self, flowed: xarray.Dataset) -> Comparison:
        """The comparison, each number with what it resolves best by."""
        found = compare(flowed, self.tables, self.false_alarms, self.degree)
        better: dict[tuple[str, float], Row] = {}
        for table in self.exact.values():
            rows = compare(flowed, table, self.false_alarms, 0).rows
            better |= {(row.tensor, row.layer): _bounded(row, found.bound) for row in rows}
        chosen = (
            min(row, better.get((row.tensor, row.layer), row), key=lambda each: each.share)
            for row in found.rows
        )
        return replace(found, rows=tuple(chosen))

    @property
    def told(self) -> tuple[str, ...]:
        """Which numbers are met by exact moments, in words."""
        return tuple(
            f"{name} to layer {int(table['layer'][-1])} by exact moments, at n = 6·10⁹"
            for name, table in self.exact.items()
        )


def _bounded(row: Row, bound: float) -> Row:
    """With what the bound of all comparisons together leaves unseen."""
    noticed = bound * row.se
    return replace(row, resolution=noticed / row.scale, share=noticed / row.largest)


def tables(
    example: Example, flowed: xarray.Dataset, layers: Mapping[str, int]
) -> dict[str, xarray.Dataset]:
    """Exact tables of some tensors of an example, of those that are within reach.

    Arguments:
        example: one input and dense layers, a polynomial and rational numbers, or there are none.
        flowed: its theory, by whose K and Theta what vanishes is judged.
        layers: by the tensor's name the deepest that is wanted, from the first on.
    """
    net, x = example.net, example.inputs
    if not net.one_activation("exact tables").is_polynomial or not net.layer.is_dense or x.ndim > 1:
        return {}
    square = sum((Fraction(float(each)) ** 2 for each in x), Fraction(0)) / len(x)
    kernel = {(1, 1): sympy.Rational(square.numerator, square.denominator)}
    found = {}
    for name in wanted(example.tensors):
        deepest = layers.get(name.label, 0)
        if not (deepest and _slots(name, example, deepest) <= MOST):
            continue
        try:  # the deepest first: what is beyond reach is refused before anything is summed
            values = [_number(name, example, layer, kernel) for layer in range(deepest, 0, -1)]
        except InputError:  # too many pairs, or a parameter that is no rational number
            continue
        about: dict[str, int | float | str] = {"width": WIDTH, "network": str(net)}
        numbers = np.array(values[::-1])
        size = natural_size(name.label, flowed.sel(layer=slice(1, deepest)))
        left = LEFT * np.maximum(abs(numbers), 0.0 if size is None else size)
        column = {name.label: (numbers, left)}
        found[name.label] = layout.table(range(1, deepest + 1), about, **column)
    return found


def _slots(name: Name, example: Example, layer: int) -> float:
    """Infinite for a field of the user's own."""
    degree = float(sympy.Poly(example.net.one_activation("exact tables").expr, z).degree())
    nodes = [field.nodes if isinstance(field, Field) else math.inf for field in name.fields]
    return float(sum(nodes) * degree ** (layer - 1))


def _number(
    name: Name, example: Example, layer: int, kernel: Mapping[tuple[int, int], sympy.Expr]
) -> float:
    """The coefficient, at `WIDTH`; of order 1/n by two widths, n and 2n."""

    def at(width: int) -> sympy.Expr:
        return exact.cumulant(
            list(name.fields),
            example.net,
            layer,
            width=width,
            inputs=example.inputs.size,
            pairing=name.pairing,
            kernel=kernel,
        )

    if name.order == 0:
        return float(at(WIDTH))
    return float((at(WIDTH) - at(2 * WIDTH)) * 2 * WIDTH)
