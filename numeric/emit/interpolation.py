"""Polynomials near a function: through its values at Chebyshev's nodes, computed to 40 digits.

On an interval of length b the polynomial of degree d is off by at most

    2 (b/4)^{d+1} max |f^{(d+1)}|/(d + 1)!,

and by no more than 2/π log(d + 1) + 2 times what the best one is off.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath

_DIGITS = 40


def interpolated(
    function: Callable[[mpmath.mpf], mpmath.mpf], low: float, high: float, degree: int
) -> list[float]:
    """The coefficients, from the constant up, of the polynomial that meets the function at
    `degree` + 1 points of (low, high)."""
    with mpmath.workdps(_DIGITS):
        middle, half = (mpmath.mpf(high) + low) / 2, (mpmath.mpf(high) - low) / 2
        angles = [mpmath.mpf(2 * k + 1) / (2 * degree + 2) for k in range(degree + 1)]
        nodes = [middle + half * mpmath.cospi(angle) for angle in angles]
        differences = [function(x) for x in nodes]  # Newton's
        for j in range(1, degree + 1):
            for i in range(degree, j - 1, -1):
                slope = (differences[i] - differences[i - 1]) / (nodes[i] - nodes[i - j])
                differences[i] = slope
        coefficients = [mpmath.mpf(0)] * (degree + 1)
        for i in range(degree, -1, -1):
            shifted = [mpmath.mpf(0), *coefficients[:-1]]
            pairs = zip(shifted, coefficients, strict=True)
            coefficients = [above - nodes[i] * same for above, same in pairs]
            coefficients[0] += differences[i]
        return [float(c) for c in coefficients]
