"""Critical weights where no signal stays the same everywhere: modes of K over positions."""

from __future__ import annotations

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, criticality, layers
from numeric import flow

PATH = np.eye(5, k=1) + np.eye(5, k=-1)


@pytest.mark.parametrize(
    ("size", "positions", "growth"),
    [
        ("3", "8", (1 + 2 * np.cos(np.pi / 9)) / 3),
        ("(3, 3)", "(4, 4)", ((1 + 2 * np.cos(np.pi / 5)) / 3) ** 2),
    ],
)
@pytest.mark.parametrize(("sigma", "gain"), [("relu", 0.5), ("tanh", 1), ("linear", 1)])
def test_a_boundary_of_zeros_has_the_modes_of_a_string(size, positions, growth, sigma, gain):
    """K_pp goes as sin(πp/(P + 1)), and grows by (1 + 2 cos π/(P + 1))/3 along each axis."""
    found = criticality(sigma, layer=f"convolution({size}, {positions}, boundary=zero)")
    assert found.critical[0] == 0
    assert float(found.critical[1]) == pytest.approx(1 / (gain * growth), rel=1e-12)
    shape = [int(P) for P in positions.strip("()").split(",")]
    along = [np.sin(np.pi * np.arange(1, P + 1) / (P + 1)) for P in shape]
    string = np.ravel(along[0] if len(along) == 1 else np.outer(*along))
    np.testing.assert_allclose(found.variances, string / string.mean(), rtol=1e-9)


def test_a_graph_whose_adjacency_is_normalized_has_the_dense_gain():
    """D^{-1/2} (A + 1) D^{-1/2} has the eigenvector √degree, of eigenvalue 1."""
    layer = layers.mix(PATH, normalization="symmetric")
    degree = np.array([2, 3, 3, 3, 2]) / 2.6
    for sigma, C_W in (("relu", 2), ("tanh", 1)):
        found = criticality(sigma, layer=layer)
        assert float(found.critical[1]) == pytest.approx(C_W, rel=1e-12)
        np.testing.assert_allclose(found.variances, degree, rtol=1e-9)


@pytest.mark.parametrize(
    "layer",
    [layers.read("convolution(3, 4, boundary=zero)"), layers.mix(PATH, normalization="symmetric")],
    ids=["zeros", "graph"],
)
def test_k_decays_at_the_rate_of_its_mode(layer):
    """Of tanh: 1/K grows by |c| a layer, up to what is of order K; of ReLU K does not move."""
    X = np.random.default_rng(0).standard_normal((layer.input_axes[0], 6))
    for sigma, depth in (("tanh", 60), ("relu", 60)):
        found = criticality(sigma, layer=layer)
        net = Network(sigma, Gaussian(found.critical[1]), layer=layer)
        K = np.diagonal(flow(net, X, depth, "K")["K"].to_numpy(), axis1=1, axis2=2)
        mean = K.mean(axis=1)
        if sigma == "tanh":
            rate = 1 / mean[-1] - 1 / mean[-2]
            assert rate == pytest.approx(-float(found.points[0].coefficient), rel=4 * mean[-1])
        else:
            assert mean[-1] == pytest.approx(mean[-2], rel=1e-6)
        close = 4 * mean[-1] if sigma == "tanh" else 1e-4
        np.testing.assert_allclose(K[-1] / mean[-1], found.variances, rtol=close)


@pytest.mark.parametrize(
    ("sigma", "layer", "why"),
    [
        ("tanh", "convolution(3, 8, boundary=zero, dilation=2)", "one grows most"),
        ("tanh", "around(convolution(3, 8, boundary=zero), skip=1/2)", "by itself"),
        ("sigmoid", "convolution(3, 8, boundary=zero)", "σ.0. = 0"),
        ("tanh", "convolution(3, 8, boundary=zero, stride=2)", "keeps the positions"),
        ("relu", layers.mix(PATH, np.eye(5)), "one position each"),
    ],
)
def test_what_is_refused_says_why(sigma, layer, why):
    with pytest.raises(InputError, match=why):
        criticality(sigma, layer=layer)
