"""The next order in 1/n: derived, flowed, and met by ensembles."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, activations, exact
from numeric import compare, flow, simulate

X = np.random.default_rng(0).uniform(size=16)
NEXT = ["G2", "V2", "U6"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "draws"), [(Orthogonal(), 75_000), (Gaussian(), 25_000)], ids=str
)
def test_ensembles_meet_the_next_order(weights, draws):
    """Widths extrapolated in 1/n; the bound is 5 sigma, all layers and tensors counted in."""
    net = Network(activations.tanh, weights)
    theory = flow(net, X, 6, [*NEXT, "G1", "V"])
    samples = [simulate(net, X, n, 6, draws, tensors=NEXT, seed=11) for n in (16, 32, 64)]
    assert compare(theory[NEXT], samples).agrees


def test_the_comparison_is_sharp_where_it_can_be():
    """Five percent off orthogonal U6 are seen."""
    net = Network(activations.tanh, Orthogonal())
    theory = flow(net, X, 5, NEXT)
    samples = [simulate(net, X, n, 5, 300_000, tensors=NEXT, seed=12) for n in (32, 64, 128)]
    wrong = theory[NEXT].assign(U6=1.05 * theory["U6"])
    assert compare(theory[NEXT], samples).agrees
    assert not compare(wrong, samples).agrees


def test_the_order_after_the_next_has_the_exact_curve_s_series():
    """κ_4 of ReLU to 1/n³, with the eight-point function of one input below it."""
    names = ["V", "V2", "kappa(z,z,z,z|01 23;2)"]
    net = Network(activations.relu, Orthogonal(2))
    flowed = flow(net, np.ones(4), 4, ["K", *names])
    for layer in (2, 4):
        whole = exact.vertex(net, layer)  # over K²
        for name in names:
            coefficient = sympy.limit(whole, exact.n, sympy.oo)
            found = flowed[name].sel(layer=layer) / flowed["K"].sel(layer=layer) ** 2
            assert found == pytest.approx(float(coefficient), rel=1e-12)
            whole = sympy.factor(exact.n * (whole - coefficient))


@pytest.mark.slow
@pytest.mark.parametrize("tensor", ["G2", "V2"])
def test_entries_of_two_inputs_do_not_know_of_two_others(tensor):
    """Averages over all four inputs leave entries of the first two as they were."""
    four = np.random.default_rng(3).normal(size=(4, 5))
    net = Network(activations.tanh, Orthogonal())
    every, alone = (flow(net, inputs, 3, [tensor]) for inputs in (four, four[:2]))
    rank = every[tensor].ndim - 1
    part = every[tensor].to_numpy()[(slice(None), *(rank * (slice(2),)))]
    np.testing.assert_allclose(part, alone[tensor], rtol=1e-9, atol=1e-13)
    assert (every[f"{tensor}_error"].max() < 1e-9 * np.abs(every[tensor]).max()).all()


@pytest.mark.slow
def test_inputs_that_are_all_but_opposite_beside_a_third():
    """A correlation of −1 + 10⁻¹² moves G1 and V by as little from those at −1."""
    x, y, third = np.linalg.qr(np.random.default_rng(4).normal(size=(5, 3)))[0].T
    net, gap = Network("gelu", Orthogonal()), 1e-12
    near, opposite = (
        flow(net, 2.0 * np.array([x, -(1.0 - each) * x - np.sqrt(2.0 * each) * y, third]), 3, ["V"])
        for each in (gap, 0.0)
    )
    np.testing.assert_allclose(near["V"], opposite["V"], rtol=0.0, atol=1e-10)
    assert (near["V_error"] < 1e-10).all()
