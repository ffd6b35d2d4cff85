"""Batch normalization in blocks, and over the positions of signals: exact cases, and ensembles."""

import numpy as np
import pytest

from derive import Exchangeable, Gaussian, InputError, Network, Orthogonal, Sparse, Uniform, layers
from numeric import compare, flow, simulate

TENSORS = ["K", "G1", "V"]
SIGNALS = np.random.default_rng(0).standard_normal((2, 2, 6))
"""Two signals of two positions."""
BATCH = SIGNALS.reshape(4, 6)

BOTTLENECK = "around(sequence(dense(activations=linear), batchnorm(eps=1)), skip=1/2)"
"""z/2 + W₂ σ(BN(W₁ z)): a matrix stands before the norm."""
PREACTIVATION = "around(sequence(batchnorm(eps=1), batchnorm(eps=1)))"
"""The block of a ResNet, z + W₂ σ(BN(W₁ σ(BN(z))))."""


def alike(found, known, names, rtol=1e-12):
    for name in names:
        np.testing.assert_allclose(found[name], known[name], rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("weights", [Orthogonal(1.5), Uniform(C_W="3/2")])
def test_a_convolution_of_one_position_normalizes_over_samples_and_positions(weights):
    """Each position of each signal is a sample of the batch."""
    common = {"activation": "relu", "weights": weights, "C_b": 0.1}
    layer = layers.convolution(1, 3, norm="batch")
    found = flow(Network(**common, layer=layer), BATCH[None, :3], 3, TENSORS)
    alike(found, flow(Network(**common, layer="batchnorm"), BATCH[:3], 3, TENSORS), TENSORS)


def test_a_mean_without_parentheses():
    lines = "y[i;s] = z[i;s]/sqrt(mean_s {} + eps)", "z[i] = W[i,a] s(y[a])"
    made = [
        layers.Layer(lines[0].format(mean), lines[1], eps="1/10").stages
        for mean in ("z[i;s]**2", "z[i;s]^2", "(z[i;s]^2)")
    ]
    assert made[0] == made[1] == made[2]


def test_the_norm_of_a_block_is_that_of_the_layer():
    given = [
        Network("tanh", C_b=0.1, layer=layer)
        for layer in ("normalized(batch, eps=1/10)", "batchnorm(eps=1/10)")
    ]
    alike(*(flow(net, BATCH[:2], 3, [*TENSORS, "Theta"]) for net in given), [*TENSORS, "Theta"])


def test_a_filter_behind_a_mean_that_is_taken_off():
    """Linear σ: K' and V' are sums over the taps of P z, P the projection of all positions."""
    taps = dict(layers.convolution(2, 3, boundary="zero").tapped)
    centred = "y[i;s] = z[i;s] - mean_s(z[i;s])", "z[i;s] = b[i] + W[i,a] s(y[a;s])"
    layer = layers.Layer(*centred, taps=taps)
    table = flow(Network("linear", Gaussian(1.5), C_b=0.1, layer=layer), BATCH[:3], 3, ["K", "V"])
    P, reads = np.eye(3) - 1 / 3, [np.eye(3), np.eye(3, k=1)]
    for at in range(2):
        K, V = P @ table.K[at].to_numpy() @ P, table.V[at].to_numpy()
        pairs = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
        moved = np.einsum("abcd,xa,yb,zc,wd->xyzw", V, P, P, P, P) + pairs
        above = sum(
            np.einsum("abcd,xa,yb,zc,wd->xyzw", moved, A, A, B, B) for A in reads for B in reads
        )
        read = 0.1 + 0.75 * sum(A @ K @ A.T for A in reads)
        np.testing.assert_allclose(table.K[at + 1], read, rtol=1e-11)
        np.testing.assert_allclose(table.V[at + 1], 0.75**2 * above, rtol=1e-10, atol=1e-11)


def test_a_skip_past_the_norm_adds_to_the_kernel():
    """γ² K + C_b + C_W ⟨φφ⟩, and for Θ the same: the branch is the layer without the skip."""
    common = {"activation": "tanh", "weights": Gaussian(1.5), "C_b": 0.1}
    names = ["K", "Theta"]
    branch, both = (
        flow(Network(**common, layer=layer), BATCH[:3], 2, names)
        for layer in ("batchnorm(eps=1)", "skip(1/2, norm=batch, eps=1)")
    )
    for name in names:
        expected = branch[name][1] + 0.25 * branch[name][0]
        np.testing.assert_allclose(both[name][1], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("layer", "tensors", "inputs", "reason"),
    [
        ("skip(1/2, norm=batch, eps=1)", ["V"], BATCH, "what is not K or Θ"),
        (PREACTIVATION, ["G1"], BATCH[:3], "a skip past the samples of a batch"),
        (
            "convolution(2, 3, norm=batch)",
            ["K"],
            Exchangeable(3, 1, 0),
            "without positions",
        ),
        ("convolution(1, 3, norm=batch)", ["K"], np.eye(18).reshape(6, 3, 18), "at most 16"),
    ],
)
def test_refusals(layer, tensors, inputs, reason):
    with pytest.raises(InputError, match=reason):
        flow(Network("tanh", layer=layer), inputs, 2, tensors)


def test_a_norm_without_a_matrix_behind_it():
    with pytest.raises(InputError, match="carried on, it leaves z that is not Gaussian"):
        layers.Layer("y[i;s] = z[i;s]/mean_s(z[i;s]^2)", "z[i] = z[i] + y[i]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "weights", "inputs", "tensors", "share"),
    [
        ("convolution(2, 2, norm=batch)", Gaussian(1.5), SIGNALS, ["K", "V"], 0.08),
        ("convolution(2, 2, norm=batch)", Orthogonal(1.5), SIGNALS, ["K", "V"], 0.08),
        ("convolution(2, 2, norm=batch)", Uniform(C_W="3/2"), SIGNALS, ["K", "V"], 0.08),
        ("gated(norm=batch, eps=1)", Orthogonal(1.5), BATCH[:3], ["K", "V"], 0.08),
        (BOTTLENECK, Gaussian(1.5), BATCH[:3], ["K", "V"], 0.08),
        (BOTTLENECK, Gaussian(1.5), BATCH[:3], ["K", "Theta"], 0.05),
        (PREACTIVATION, Gaussian(1.5), BATCH[:3], ["K", "Theta"], 0.05),
        (PREACTIVATION, Orthogonal(1.5), BATCH[:3], ["K", "Theta"], 0.05),
    ],
)
def test_ensembles_agree(layer, weights, inputs, tensors, share):
    net = Network("relu", weights, Gaussian(1.5), C_b=0.1, layer=layer)
    theory = flow(net, inputs, 3, tensors)
    tables = [simulate(net, inputs, n, 3, 600, tensors=tensors, seed=1) for n in (32, 64, 128)]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4.5
    last = tensors[-1]
    assert float((tables[-1][f"{last}_se"] / abs(theory[last]).max())[-1].max()) < share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        ("residual(skip=0, norm=batch, eps=1)", BATCH[:3]),
        ("convolution(2, 2, norm=batch, eps=1)", SIGNALS),
    ],
)
def test_independent_weights_before_a_norm_show_in_G1(layer, inputs):
    """The fourth cumulant of sparse weights is seen through the norm; Gaussian theory is not."""
    sparse, plain = (
        Network("tanh", weights, Gaussian(1.5), C_b=0.1, layer=layer)
        for weights in (Sparse("1/10", C_W="3/2"), Gaussian(1.5))
    )
    theory, wrong = (flow(net, inputs, 3, ["K", "G1"]) for net in (sparse, plain))
    table = simulate(sparse, inputs, 40, 3, 2000, tensors=["G1"], seed=3)
    errors = table.G1_se[-1]
    assert float(abs((table.G1 - theory.G1)[-1] / errors).max()) < 4.5
    assert float(abs((table.G1 - wrong.G1)[-1] / errors).max()) > 9
