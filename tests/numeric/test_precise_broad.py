"""Two inputs of large variance to many digits: nodes that stretch, against a proved lattice."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from sample_errors import Configuration, compared, truth

from derive import Network, Orthogonal
from derive.activations import by_name
from numeric.layers.precise import smooth
from numeric.layers.precise.large_variance import Sums

ROWS = ((Fraction(1), Fraction(0)), (Fraction(0), Fraction(1)))
GOAL = 36.0


def kernel(K, correlation, ratio):
    return [
        [arb(K), arb(correlation) * K * ratio],
        [arb(correlation) * K * ratio, arb(K) * ratio**2],
    ]


@pytest.mark.parametrize(
    ("name", "products", "K", "ratio", "correlation"),
    [
        ("tanh", [((0,), (0,)), ((1,), (0, 2))], 16.0, 1.0, -0.99),
        ("tanh", [((0,), (0,)), ((1, 1), (1, 1))], 16.0, 1.0, 1.0 - 2.0**-30),
        ("gelu", [((0,), (0,)), ((1,), (2,))], 16.0, 0.5, 0.3),
        ("gelu", [((0,), (1, 1))], 1.0, 4.0, 0.3),
    ],
)
def test_stretched_nodes_agree_with_a_lattice(name, products, K, ratio, correlation):
    at = kernel(K, correlation, ratio)
    with ctx.workprec(160):
        far = Sums(by_name(name), products)
        assert far.fits(at)
        found = far(at, GOAL)
        proved = smooth.Sums(by_name(name), products)(at, ROWS, GOAL)
    for one, other in zip(found, proved, strict=True):
        assert one.overlaps(other)
        assert one.rad() < 1e-14


@pytest.mark.parametrize("name", ["sin", "polynomial(0,1,0,-1/6)"])
def test_what_does_not_settle_has_no_stretched_nodes(name):
    assert not Sums(by_name(name), [((0,), (0,))]).fits(kernel(100.0, 0.5, 1.0))


@pytest.mark.slow
def test_digits_of_inputs_that_are_almost_alike_and_far_out():
    """⟨σ²⟩ − ⟨σ_1 σ_2⟩ = ½⟨(σ_1 − σ_2)²⟩ = (K_11 − K_12) ⟨σ'²⟩ but for a part in 10⁴."""
    K, gap = 1e8, 1e-12
    at = kernel(K, 1.0 - gap, 1.0)
    with ctx.workprec(200):
        products = [((0,), (0,)), ((0, 0), ()), ((1, 1), ())]
        both, square, slope = Sums(by_name("tanh"), products)(at, 60.0)
        lost = (square - both) / ((at[0][0] - at[0][1]) * slope)
    assert abs(float(lost) - 1.0) < 1e-3


@pytest.mark.slow
def test_errors_of_floats_far_out_and_almost_alike():
    """G1 of both inputs is a sum of terms 10^12 times as large."""
    K, gap, tensors = 1e6, 1e-12, ("K", "G1", "V")
    inputs = np.sqrt(2.0 * K) * np.array([[1.0, 0.0], [1.0 - gap, np.sqrt(gap * (2.0 - gap))]])
    chosen = Configuration(Network("tanh", Orthogonal()), inputs, 3, tensors, None)
    exact = {name: [Decimal(each) for each in values] for name, values in truth(chosen, 20).items()}
    for found in compared(chosen.flow(), exact).values():
        assert found.over < 10.0
        assert found.lost < 1e-5
