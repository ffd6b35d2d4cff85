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
    ("weights", "draws"), [(Orthogonal(), 300_000), (Gaussian(), 100_000)], ids=str
)
def test_ensembles_meet_the_next_order(weights, draws):
    """Widths extrapolated in 1/n; the bound is 5 sigma, all layers and tensors counted in."""
    net = Network(activations.tanh, weights)
    theory = flow(net, X, 6, [*NEXT, "G1", "V"])
    samples = [simulate(net, X, n, 6, draws, tensors=NEXT, seed=11) for n in (32, 64, 128)]
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
