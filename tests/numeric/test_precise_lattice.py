"""Averages over three and four distinct inputs in balls, against closed forms and against floats.

With σ' = (2/√π) e^{−z²}, ⟨Π_s σ'(z_s)⟩ = (2/√π)^d / √det(1 + 2K).
"""

from __future__ import annotations

import weakref
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, arb_mat, ctx

from derive import Network, activations
from numeric import flow
from numeric.layers.precise.geometry import Factor
from numeric.layers.precise.smooth import Sums, _widths

ROWS = {
    "two": [[1.0, 0.0], [0.5, 0.7]],
    "two, nearly alike": [[1.0, 0.0], [1.0, 0.001]],
    "three": [[0.5, 0.0, 0.0], [0.3, 0.2, 0.0], [0.1, -0.5, 0.4]],
    "three, two nearly alike": [[0.5, 0.0, 0.0], [0.5, 0.02, 0.0], [0.1, -0.5, 0.4]],
    "four": [[0.5, 0, 0, 0], [0.3, 0.2, 0, 0], [0.1, -0.5, 0.4, 0], [0.2, 0.2, 0.1, -0.4]],
}
THREE = [[1.0, 0.5, 0.2], [0.3, -0.7, 1.0], [0.5, 0.8, -0.4]]


def kernel(rows: list[list[float]]) -> list[list[arb]]:
    """B Bᵀ, rounded to numbers."""
    return [
        [
            sum((arb(x) * arb(y) for x, y in zip(a, b, strict=True)), start=arb(0)).mid()
            for b in rows
        ]
        for a in rows
    ]


def exact(K: list[list[arb]]) -> arb:
    d = len(K)
    matrix = arb_mat([[2 * K[a][b] + int(a == b) for b in range(d)] for a in range(d)])
    return (2 / arb.pi().sqrt()) ** d / matrix.det().sqrt()


def average(K: list[list[arb]], goal: float) -> arb:
    d = len(K)
    independent = [tuple(Fraction(int(a == b)) for b in range(d)) for a in range(d)]
    return Sums(activations.by_name("erf_scaled(1)"), [((1,),) * d])(K, independent, goal)[0]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("digits", [8, 25])
def test_closed_form(name: str, digits: int) -> None:
    if name == "four" and digits > 8:
        digits = 12
    with ctx.workprec(160):
        K = kernel(ROWS[name])
        value = average(K, digits * 2.302585)
        assert value.contains(exact(K))
        assert value.rad() < 10.0 ** -(digits - 2)


def test_kernels_within_balls() -> None:
    """Every kernel within has its average in the ball."""
    with ctx.workprec(160):
        K = kernel(ROWS["three"])
        wide = [[each + arb(0, 1e-12) for each in row] for row in K]
        value = average(wide, 60.0)
        assert value.rad() < 1e-10
        for signs in product((-1, 1), repeat=6):
            moved = [row[:] for row in K]
            pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
            for sign, (a, b) in zip(signs, pairs, strict=True):
                moved[a][b] = moved[b][a] = (K[a][b] + sign * arb(1e-12)).mid()
            assert value.contains(exact(moved).mid())


def test_samples_that_nearly_are_uncorrelated() -> None:
    """Covariances that are balls around 0, as behind a layer of orthogonal inputs."""
    with ctx.workprec(160):
        around = arb(0, 1e-30)
        K = [[arb(0.5) if a == b else around for b in range(3)] for a in range(3)]
        value = average(K, 40.0)
        assert value.contains(exact(K).mid())
        assert value.rad() < 1e-15


@pytest.mark.parametrize("sigma", ["tanh", "gelu", "softplus"])
def test_floats_agree_with_three_inputs(sigma: str) -> None:
    precise = flow(Network(sigma), THREE, 2, ["K", "V"], precision=16)
    floats = flow(Network(sigma), THREE, 2, ["K", "V"])
    for name in ("K", "V"):
        values = precise[name].to_numpy().astype(float)
        np.testing.assert_allclose(floats[name].to_numpy(), values, rtol=1e-9, atol=1e-13)


def test_a_bound_of_a_width_is_not_rounded_down() -> None:
    with ctx.workprec(160):
        wide = [arb(1) + arb(2) ** -60, arb(-3) - arb(2) ** -70]
        factor = Factor([0], [wide], exact=True)
        assert all(
            arb(found) >= abs(each) for found, each in zip(_widths(factor), wide, strict=True)
        )


def test_sums_are_not_held_by_their_caches() -> None:
    sums = Sums(activations.tanh, [((1,), (1,))])
    with ctx.workprec(80):
        sums(kernel(ROWS["two"]), [(Fraction(1), Fraction(0)), (Fraction(0), Fraction(1))], 10.0)
    held = weakref.ref(sums)
    del sums
    assert held() is None
