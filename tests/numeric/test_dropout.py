"""Networks with dropout: sampled with their masks, and derived."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from derive import Gaussian, InputError, Network, layers
from numeric import compare, flow, simulate

X = np.random.default_rng(0).standard_normal((2, 20))
NET = Network("gelu", Gaussian(C_W=1.5), C_b=0.1, layer="dropout(0.8)")


def test_the_second_layer_by_hand():
    """V² = C_W² (⟨σ⁴⟩/p³ − ⟨σ²⟩²/p²): neurons of layer 1 are independent."""
    table = flow(NET, X[0], 2, ["K", "V"])
    K = float(table["K"][0])
    z = np.sqrt(K) * np.linspace(-9, 9, 20001)
    weight = np.exp(-(z**2) / (2 * K))
    weight /= weight.sum()
    sigma = gelu(z)
    two, four = ((weight * sigma**k).sum() for k in (2, 4))
    assert np.isclose(table["K"][1], 1.5 * two / 0.8 + 0.1, rtol=1e-9)
    assert np.isclose(table["V"][1], 1.5**2 * (four / 0.8**3 - two**2 / 0.8**2), rtol=1e-9)


def gelu(z):
    """GELU, from its definition."""
    return z * ndtr(z)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_what_is_derived_is_sampled(weights):
    net = Network("tanh", weights, first_weights="gaussian", C_b=0.2, layer="dropout(0.5)")
    tensors = ["K", "V", "G1"]
    theory = flow(net, X[0], 4, tensors)
    samples = [simulate(net, X[0], n, 4, 2000, tensors=tensors, seed=1) for n in (24, 48)]
    found = compare(theory, samples)
    assert samples[0].attrs["sampler"] == "entries"
    assert found.agrees, str(found)
    dense = flow(Network("tanh", weights, first_weights="gaussian", C_b=0.2), X[0], 4, tensors)
    assert not compare(dense, samples).agrees


def test_the_tangent_kernel_is_sampled_with_the_same_masks():
    tensors = ["K", "Theta", "D"]
    net = Network("tanh", Gaussian(2), layer="dropout(0.5)")
    theory = flow(net, X[0], 3, tensors)
    samples = [simulate(net, X[0], n, 3, 1500, tensors=tensors, seed=1) for n in (8, 16)]
    assert samples[0].attrs["sampler"] == "explicit"
    found = compare(theory, samples)
    assert found.agrees, str(found)


def test_inputs_have_masks_of_their_own():
    """K of the pair has no 1/p, though the two inputs are equal."""
    twins = np.stack([X[0], X[0]])
    table = simulate(NET, twins, 64, 2, 3000, tensors="K", seed=3)
    itself = float(flow(NET, X[0], 2, "K")["K"][1])
    pair = (itself - 0.1) * 0.8 + 0.1
    for entry, expected in (((0, 0), itself), ((0, 1), pair)):
        error = float(table["K_se"][(1, *entry)])
        assert abs(float(table["K"][(1, *entry)]) - expected) < 5 * error


@pytest.mark.parametrize(
    "what",
    [
        lambda: flow(NET, X, 3),
        lambda: simulate(NET, X[0], 8, 2, 10, sampler="probes"),
        lambda: simulate(Network("tanh", layer="dropout(p)"), X[0], 8, 3, 10),
        lambda: simulate(
            Network("tanh", layer=[layers.dropout("1/2"), layers.normalized("rms")]), X[0], 8, 3, 10
        ),
    ],
)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        what()
