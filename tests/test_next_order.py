"""The next order in 1/n: derived, flowed, and met by ensembles."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Gaussian, Network, Orthogonal, activations
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
