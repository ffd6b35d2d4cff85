"""K and Θ against neural-tangents', kept and live, and the finite-width bar that it has not."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest

from derive import Gaussian, Network
from numeric import flow
from numeric.init import torch_

SCRIPT = Path(__file__).with_name("kernels_of_neural_tangents.py")
SPEC = importlib.util.spec_from_file_location("kernels_of_neural_tangents", SCRIPT)
PEER = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(PEER)
KEPT = json.loads(PEER.KEPT.read_text(encoding="utf-8"))

SAME = {
    "erf": ("erf", 5, "dense"),
    "relu": ("relu", 8, "dense"),
    "leaky relu": ("leaky_relu(0.2)", 4, "dense"),
    "sin": ("sin", 4, "dense"),
    "gelu": ("gelu", 3, "dense"),
    "residual relu": ("relu", 3, "residual(skip=1)"),
}
"""σ, depth and layer of each of its networks, as networks here."""


def test_every_network_is_compared():
    assert SAME.keys() == KEPT.keys()


@pytest.mark.parametrize("name", SAME)
def test_kernels_agree(name):
    """The parametrization "ntk": λ_W = C_W and λ_b = C_b."""
    sigma, depth, layer = SAME[name]
    rates = {"lambda_W": PEER.C_W, "lambda_b": PEER.C_b}
    net = Network(sigma, Gaussian(PEER.C_W), C_b=PEER.C_b, layer=layer, **rates)
    table = flow(net, np.array(PEER.INPUTS), depth, ["K", "Theta"])
    for ours, theirs in (("K", "nngp"), ("Theta", "ntk")):
        assert np.allclose(table[ours].values[-1], KEPT[name][theirs], rtol=2e-13, atol=0)


@pytest.mark.filterwarnings("ignore")
def test_what_is_kept_is_what_it_says():
    reason = "neural-tangents is not installed, or does not import under this JAX"
    stax = pytest.importorskip("neural_tangents", reason=reason, exc_type=Exception).stax
    for name, found in PEER.kernels(stax).items():
        for kernel, values in found.items():
            assert np.allclose(values, KEPT[name][kernel], rtol=1e-12)


@pytest.mark.slow
def test_the_bar_is_that_of_torch_networks():
    """Mean and variance of the tangent kernel of one output at width 48, by torch's own gradients.

    λ_W = 1 and λ_b = 1: squared gradients of a matrix over its fan-in. Of order 1/n² is what is
    left out, (1/48)² of numbers of order 10.
    """
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    n, depth, draws = 48, 4, 600
    parts = [torch.nn.Linear(3, n)]
    for k in range(1, depth):
        parts += [torch.nn.Tanh(), torch.nn.Linear(n, n if k < depth - 1 else 1)]
    net = torch.nn.Sequential(*parts).double()
    x = torch.tensor([1.0, -0.5, 0.25]).double()
    made, kernels = torch.Generator().manual_seed(0), []
    for _ in range(draws):
        torch_(net, weights="gaussian", generator=made)
        grads = torch.autograd.grad(net(x).sum(), list(net.parameters()))
        weights, biases = grads[::2], grads[1::2]
        rates = [1 / each.shape[1] for each in weights]
        kernel = sum(r * float((g**2).sum()) for r, g in zip(rates, weights, strict=True))
        kernels.append(kernel + sum(float((g**2).sum()) for g in biases))
    theory = Network("tanh", Gaussian(1), lambda_W=1, lambda_b=1)
    tensors = ["Theta", "Theta1", "A", "B"]
    last = flow(theory, x.numpy(), depth, tensors).isel(layer=-1)
    Theta, Theta1, A, B = (float(last[name]) for name in tensors)
    mean, variance = np.mean(kernels), np.var(kernels, ddof=1)
    assert abs(mean - Theta - Theta1 / n) < 5 * math.sqrt(variance / draws) + 10 / n**2
    fourth = np.mean((kernels - mean) ** 4)
    error = math.sqrt((fourth - variance**2) / draws)
    assert abs(variance - (A + 2 * B) / n) < 5 * error + 50 / n**2
    assert error < 0.2 * variance
