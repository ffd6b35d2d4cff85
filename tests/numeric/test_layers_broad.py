"""Brackets over two samples of large variance: against the tree of nodes, and against closed forms.

With σ' = e^{−πz²/4}, ⟨σ'(z_1) σ'(z_2)⟩ = 1/√det(1 + πK/2), and ⟨∂_1² …⟩ = 2 ∂⟨…⟩/∂K_11.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from derive import activations
from derive.gaussian import SingleShape
from numeric.brackets import quadrature
from numeric.layers import large_variance, several_samples

PRODUCTS = [((0,), (0,)), ((0, 0), (0,)), ((1,), (0, 2)), ((1, 1), (1,))]


def kernel(first: float, second: float, c: float) -> np.ndarray:
    root = math.sqrt(first * second)
    return np.array([[first, c * root], [c * root, second]])


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid", "gelu", "softplus", "arctan"])
@pytest.mark.parametrize(
    "K", [kernel(60, 20, 0.3), kernel(20, 60, -0.9), kernel(50, 1e-3, 0.5), kernel(40, 30, 0.9999)]
)
def test_they_are_those_of_the_tree(name: str, K: np.ndarray) -> None:
    sigma = activations.by_name(name)
    pairs = [(SingleShape(first), SingleShape(second)) for first, second in PRODUCTS]
    found, sizes = large_variance.Sums(sigma, pairs, quadrature.accuracy(2))(K)
    wanted, _ = several_samples.Sums(sigma, PRODUCTS)(K)
    assert (abs(found - wanted) <= 3e-15 * sizes).all()


@pytest.mark.parametrize(
    "K",
    [kernel(1e4, 1e4, 0.3), kernel(1e8, 1e6, -0.9), kernel(1e5, 2.0, 0.5), kernel(1e8, 1e8, 0.1)],
)
@pytest.mark.parametrize("outer", [(0, 0), (2, 0), (1, 1), (2, 2)])
def test_derivatives_by_parts_keep_their_digits(K: np.ndarray, outer: tuple[int, int]) -> None:
    """Of σ = erf and its derivatives, ⟨σ^{(1+a)} σ^{(1+b)}⟩ by derivatives of the closed form."""
    a, b = outer
    with mpmath.workdps(60):
        exact = [[mpmath.mpf(float(each)) for each in row] for row in K]

        def average(x: mpmath.mpf, y: mpmath.mpf, w: mpmath.mpf) -> mpmath.mpf:
            half = mpmath.pi / 2
            det = (1 + half * x) * (1 + half * y) - (half * w) ** 2
            return 1 / mpmath.sqrt(det)

        at = (exact[0][0], exact[1][1], exact[0][1])
        orders = ((a - a % 2) // 2, (b - b % 2) // 2, a % 2)
        wanted = mpmath.mpf(2) ** (orders[0] + orders[1])
        if any(orders):
            wanted *= mpmath.diff(average, at, orders, h=mpmath.mpf(10) ** -12)
        else:
            wanted *= average(*at)
        shapes = [(SingleShape((1,), a), SingleShape((1,), b))]
        found = large_variance.Sums(activations.erf_unit_slope, shapes, quadrature.accuracy(2))(K)[
            0, 0
        ]
        assert abs(found - wanted) <= 1e-12 * abs(wanted)
