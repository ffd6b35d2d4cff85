"""Networks with dropout: sampled with their masks, and derived."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sample_kernels import interpreted
from scipy.special import ndtr

from derive import Gaussian, InputError, Network, layers, recursion
from numeric import compare, flow, simulate, training, write_module

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
    assert samples[0].attrs["sampler"] == "probes"
    assert found.agrees, str(found)
    dense = flow(Network("tanh", weights, first_weights="gaussian", C_b=0.2), X[0], 4, tensors)
    assert not compare(dense.assign_attrs(theory.attrs), samples).agrees


def test_the_tangent_kernel_is_sampled_with_the_same_masks():
    tensors = ["K", "Theta", "D"]
    net = Network("tanh", Gaussian(2), layer="dropout(0.5)")
    theory = flow(net, X[0], 3, tensors)
    samples = [simulate(net, X[0], n, 3, 1500, tensors=tensors, seed=1) for n in (8, 16)]
    assert samples[0].attrs["sampler"] == "probes"
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


@pytest.mark.parametrize("sigma", ["tanh", "relu"])
def test_an_entry_of_one_input_is_that_inputs(sigma):
    net = Network(sigma, Gaussian(C_W=1.5), C_b=0.1, layer="dropout(4/5)")
    tensors = ["K", "V", "G1", "Theta", "D", "A"]
    both, alone = flow(net, X, 4, tensors), [flow(net, x, 4, tensors) for x in X]
    for name in tensors:
        rank = both[name].ndim - 1
        for k, table in enumerate(alone):
            entries = both[name].to_numpy()[(slice(None), *(k,) * rank)]
            assert np.allclose(entries, table[name], rtol=1e-12, atol=1e-14), name


def test_the_second_layer_of_two_inputs_by_hand():
    """V = C_W² (⟨σ₁σ₂σ₃σ₄⟩ − ⟨σ₁σ₂⟩⟨σ₃σ₄⟩), each average times p^{1−k} for k of one input."""
    net = Network("sin", Gaussian(C_W=1.5), layer="dropout(0.8)")
    table, K = flow(net, X, 2, ["K", "V"]), 1.5 * X @ X.T / 20
    y, weights = np.polynomial.hermite_e.hermegauss(60)
    weights /= weights.sum()
    at = np.einsum("ab,bkl->akl", np.linalg.cholesky(K), np.stack(np.meshgrid(y, y)))

    def average(*samples):
        masks = 0.8 ** (len(set(samples)) - len(samples))
        return masks * np.einsum(
            "kl,k,l", np.prod([np.sin(at[a]) for a in samples], 0), weights, weights
        )

    for a, b, c, d in np.ndindex(2, 2, 2, 2):
        expected = 1.5**2 * (average(a, b, c, d) - average(a, b) * average(c, d))
        assert np.isclose(table["V"][1, a, b, c, d], expected, rtol=1e-11, atol=1e-13)
        assert np.isclose(table["K"][1, a, b], 1.5 * average(a, b), rtol=1e-11)


@pytest.mark.slow
def test_two_inputs_are_sampled():
    """A product sampler of n = 24 and 48 resolves V of different inputs to some 20 %."""
    net = Network("relu", Gaussian(C_W=1.5), layer="dropout(0.5)")
    theory = flow(net, X, 3, ["K", "V"])
    samples = [simulate(net, X, n, 3, 20000, tensors=["K", "V"], seed=1) for n in (24, 48)]
    found = compare(theory, samples)
    assert found.agrees, str(found)
    dense = flow(Network("relu", Gaussian(C_W=1.5)), X, 3, ["K", "V"])
    assert not compare(dense.assign_attrs(theory.attrs), samples).agrees


def test_equal_inputs_with_digits():
    """Two equal inputs, and their negative, have masks of their own in balls as in floats."""
    inputs = np.stack([X[0], X[0], -X[0]])
    net = Network("tanh", Gaussian(C_W=1.5), layer="dropout(0.5)")
    floats, digits = (flow(net, inputs, 3, "K", precision=each) for each in (None, 20))
    assert np.allclose(floats["K"], digits["K"].to_numpy().astype(float), rtol=1e-12)
    assert float(floats["K"][2, 0, 1]) < 0.9 * float(floats["K"][2, 0, 0])


def test_a_module_has_the_masks(tmp_path):
    made = recursion("K", layer="dropout(4/5)")
    write_module(made, "linear", tmp_path / "dropped.py")
    module = interpreted((tmp_path / "dropped.py").read_text(encoding="utf-8"), "dropped")
    net = Network("linear", Gaussian(C_W=1.5), C_b=0.1, layer="dropout(4/5)")
    (found,) = module.flow(X @ X.T / 20, np.full(3, 1.5), np.full(3, 0.1))
    assert np.allclose(found, flow(net, X, 3, "K")["K"], rtol=1e-12)


@pytest.mark.parametrize(
    "what",
    [
        lambda: simulate(NET, X[0], 8, 2, 10, sampler="paths"),
        lambda: simulate(Network("tanh", layer="dropout(p)"), X[0], 8, 3, 10),
    ],
)
def test_what_is_refused(what):
    with pytest.raises(InputError):
        what()


def test_layers_narrower_than_the_inputs():
    """Each layer's orthogonal weights are a block of a Haar matrix of its own size."""
    net = Network("tanh", "orthogonal", layer="dropout(0.5)")
    runs = [
        simulate(net, X[0], 8, 3, 2000, tensors=["V"], seed=1, sampler=sampler)
        for sampler in ("lazy", "explicit")
    ]
    lazy, explicit = (run["V"].to_numpy() for run in runs)
    error = np.hypot(*(run["V_se"].to_numpy() for run in runs))
    assert runs[0].attrs["sampler"] == "probes"
    assert (np.abs(lazy - explicit) <= 5 * error + 1e-9).all()


def test_a_block_with_dropout_is_its_layers_one_by_one():
    names = ["K", "G1", "V", "Theta", "D", "F"]
    block = layers.sequence("residual(norm=rms)", "dropout(1/2)", "gated")
    period = "(residual(norm=rms); dropout(1/2); gated)*"
    net = Network("tanh", layer=period, C_b=0.1)
    for inputs in ([1.0, 0.5, 0.2], [[1.0, 0.5, 0.2], [0.3, -0.4, 1.0]]):
        one = flow(Network("tanh", layer=block, C_b=0.1), inputs, 2, names)
        other = flow(net, inputs, 4, names)
        for name in names:
            here, there = (each[name].to_numpy()[-1] for each in (one, other))
            np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-14)
    made = recursion("V", layer=block).single_input()
    limit = made.asymptotics("tanh", 1, C_b=0.1, C_W=0.5).expr
    deep = flow(replace(net, weights=Gaussian(0.5)), [1.0, 0.5, 0.2], 121, ["V"])["V"][-1]
    assert float(limit) == pytest.approx(float(deep), rel=1e-10)
    assert layers.read(str(block)) == block
    pairs = (layers.sequence("dense", "dropout(1/2)"), 2), ("dense; dropout(1/2)", 3)
    given = {"targets": 0.5, "eta": 0.1, "steps": [3], "width": 8, "draws": 8}
    trained = [
        training.simulate(Network("tanh", layer=layer), [1.0, 0.5], depth=depth, **given)
        for layer, depth in pairs
    ]
    assert (trained[0]["prediction"] == trained[1]["prediction"]).all()


def test_masks_inside_a_skip_around_two_layers_are_those_of_their_own_matrix():
    """z' = z/2 + b + W (μ∘tanh u)/p, u = b + W₃ (h∘tanh g): K and V of n = 400, V to O(1/n).

    Given what a matrix multiplies, what comes out is normal. 5 standard errors and 2/n.
    """
    n, draws, p, C_b = 400, 30_000, 0.5, 0.1
    layer = layers.around(layers.sequence("gated", "dropout(1/2)"), "1/2")
    table = flow(Network("tanh", layer=layer, C_b=C_b), np.ones(n), 2, ["K", "V"])
    rng = np.random.default_rng(3)
    sums = []
    for _ in range(draws // 100):
        z, h, g, u, v = rng.standard_normal((5, 100, n))
        z *= math.sqrt(1 + C_b)
        length = np.sqrt((z**2).mean(axis=1, keepdims=True))
        inside = length * h * np.tanh(length * g)
        u *= np.sqrt(C_b + (inside**2).mean(axis=1, keepdims=True))
        masked = (rng.random(u.shape) < p) * np.tanh(u) / p
        z = z / 2 + v * np.sqrt(C_b + (masked**2).mean(axis=1, keepdims=True))
        sums += [((z**2).mean(axis=1), (z**4).mean(axis=1))]
    square, fourth = np.concatenate(sums, axis=1)
    K = float(table["K"][1])
    assert abs(square.mean() - K) < 5 * square.std() / math.sqrt(draws) + 2 * K / n
    off = n * ((n * (square - square.mean()) ** 2 - (fourth - square**2)) / (n - 1))
    V = float(table["V"][1])
    assert abs(off.mean() - V) < 5 * off.std() / math.sqrt(draws) + 4 * abs(V) / n
    assert 5 * off.std() / math.sqrt(draws) < 0.1 * abs(V)
