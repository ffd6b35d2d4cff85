"""The inverse of `derive.gaussian.kernel_form`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

import sympy

from derive.gaussian import Bracket, kernel_form
from derive.gaussian.kernel_form import HermiteAverage, unspecified


def derivative_form(expression: sympy.Expr) -> sympy.Expr:
    """Every factor :z z …: as outer derivatives: the inverse of `kernel_form`.

    A lowered z_β comes back as Σ_a K_βa ∂_a over the samples a of its σ.
    """

    def derivatives(average: HermiteAverage) -> sympy.Expr:
        if average.raised:
            return _differentiated(average.factors, average.indices, average.kernel)
        if average._is_single:
            power = len(average.indices)
            bracket = Bracket(average.factors, average.indices, average.kernel)
            return kernel_form._variance(average.kernel) ** power * unspecified(bracket)
        entry = kernel_form._entries(average.kernel)
        return sympy.Add(
            *(
                prod(map(entry, average.indices, ends), start=sympy.S.One)
                * _differentiated(average.factors, ends, average.kernel)
                for ends in product(average.samples, repeat=len(average.indices))
            )
        )

    return kernel_form._replaced(expression, HermiteAverage, derivatives)


def _differentiated(
    factors: Sequence[tuple[int, int]], outer: Sequence[int], kernel: str
) -> sympy.Expr:
    if not set(outer) <= {sample for sample, _ in factors}:
        return sympy.S.Zero
    return unspecified(Bracket(tuple(factors), tuple(sorted(outer)), kernel))
