"""A matrix that multiplies functions of several variables has one width for all of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from derive import Gaussian, Network, layers
from numeric import flow

X = np.array([[1.0, 2.0, -1.0], [0.5, -1.0, 3.0]])


def test_two_gaussian_branches_are_one_of_twice_the_variance():
    """W (A + B) z, with A and B as variable as √2 A: K, its 1/n and V are the same."""
    both = layers.Layer(
        "f[i] = W2[i,a] z[a]", "g[i] = W3[i,a] z[a]", "z[i] = W1[i,a] f[a] + W1[i,a] g[a]"
    )
    one = layers.Layer("f[i] = W2[i,a] z[a]", "z[i] = W1[i,a] f[a]", C={"W2": 2})
    found, expected = (
        flow(Network("tanh", layer=layer), X, 4, ["K", "G1", "V"], width=9) for layer in (both, one)
    )
    for name in ("K", "G1", "V"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12)


def test_a_branch_behind_a_function_and_what_it_is_computed_from():
    """K' = C (⟨σ²⟩ + C₂ ⟨σ²⟩ + C_b), ⟨σ²⟩ = K/2 of ReLU, as W (σ(z) + b + W₂ σ(z)) has it."""
    layer = layers.Layer(
        "f[i] = b1[i] + W2[i,a] s(z[a])",
        "z[i] = W1[i,a] s(z[a]) + W1[i,a] f[a]",
        C={"W1": 3, "W2": "1/2", "b1": "1/4"},
    )
    K = flow(Network("relu", Gaussian(), layer=layer), X[0], 3, ["K"])["K"].to_numpy()
    assert K[0] == pytest.approx(2)
    for below, above in pairwise(K):
        assert above == pytest.approx(3 * (below / 2 + below / 4 + 0.25), rel=1e-13)
