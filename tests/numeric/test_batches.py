"""Functions of all samples at one neuron, and batch normalization: exact cases, and ensembles."""

from functools import cache

import numpy as np
import pytest
import sympy

from derive import Exchangeable, Gaussian, InputError, Network, Orthogonal, layers, recursion
from numeric import compare, flow, simulate, write_module

TENSORS = ["K", "G1", "V"]
BATCH = np.random.default_rng(0).standard_normal((4, 6))

ONE_SAMPLE = layers.Layer(
    "y[i;s] = z[i;s] + eps*mean_s(z[i;s]^2)", "z[i;s] = b[i] + W[i,a] s(y[a;s])", eps=0
)
"""The dense layer, said of all samples."""

CENTRED = layers.Layer("y[i;s] = z[i;s] - mean_s(z[i;s])", "z[i;s] = b[i] + W[i,a] s(y[a;s])")


def projection(m):
    return np.eye(m) - 1.0 / m


@pytest.mark.parametrize(
    ("activation", "weights"),
    [("tanh", Gaussian(1.5)), ("relu", Orthogonal(1.5)), ("gelu", Orthogonal(1.2))],
)
def test_a_function_of_one_sample_gives_the_dense_layer(activation, weights):
    found, known = (
        flow(Network(activation, weights, C_b=0.1, layer=layer), BATCH[:2], 3, TENSORS)
        for layer in (ONE_SAMPLE, layers.dense())
    )
    for name in TENSORS:
        np.testing.assert_allclose(found[name], known[name], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_the_tangent_kernel_of_a_function_of_one_sample(activation):
    found, known = (
        flow(Network(activation, Orthogonal(1.5), C_b=0.1, layer=layer), BATCH[:2], 3, ["Theta"])
        for layer in (ONE_SAMPLE, layers.dense())
    )
    np.testing.assert_allclose(found.Theta, known.Theta, rtol=1e-11)


@pytest.mark.parametrize("inputs", [BATCH[:3], Exchangeable(3, 1, 0.3)], ids=["three", "alike"])
def test_dropout_of_a_function_of_one_sample(inputs):
    common = {"weights": Gaussian(1.5), "C_b": 0.1}
    masked = layers.Layer(*ONE_SAMPLE.lines, eps=0, keep={"W": "1/2"})
    names = [*TENSORS, "Theta"]
    found, known = (
        flow(Network("tanh", layer=layer, **common), inputs, 3, names).fillna(0)
        for layer in (masked, layers.dropout("1/2"))
    )
    for name in names:
        np.testing.assert_allclose(found[name], known[name], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("inputs", [BATCH[:3], Exchangeable(3, 1, 0.3)], ids=["three", "alike"])
def test_an_ensemble_has_dropout_of_a_mean_that_is_taken_off(inputs):
    layer = layers.Layer(*CENTRED.lines, keep={"W": "1/2"})
    net = Network("tanh", Gaussian(1.5), C_b=0.1, layer=layer)
    theory = flow(net, inputs, 3, TENSORS)
    tables = [simulate(net, inputs, n, 3, draws=1000, seed=2, tensors=TENSORS) for n in (64, 128)]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4
    assert float((tables[-1].V_se / abs(theory.V).max())[-1].max()) < 0.05


def test_the_tangent_kernel_of_a_mean_that_is_taken_off():
    net = Network("linear", Gaussian(1.5), C_b=0.1, layer=CENTRED)
    table, P = flow(net, BATCH[:3], 3, ["K", "Theta"]), projection(3)
    K, theta = (table[name].to_numpy() for name in ("K", "Theta"))
    np.testing.assert_allclose(theta[1:], 1 + P @ K[:2] @ P + 1.5 * P @ theta[:2] @ P, rtol=1e-12)


def test_a_gradient_has_no_part_along_what_a_norm_fixes():
    """Σ_s ∂y_s = 0 and Σ_s y_s ∂y_s = 0: what is left of Θ' is λ's part alone."""
    net = Network("linear", Gaussian(1), layer=layers.batchnorm(), lambda_W=0, lambda_b=0)
    theta = flow(net, BATCH, 2, ["Theta"]).Theta
    assert (theta == 0).all()
    net = Network("linear", Gaussian(1), layer=layers.batchnorm(), lambda_W=0)
    table = flow(net, BATCH, 3, ["Theta"]).Theta.to_numpy()
    np.testing.assert_allclose(table[1:].sum(axis=(1, 2)), 16.0, rtol=1e-11)


@pytest.mark.slow
def test_an_ensemble_has_the_tangent_kernel():
    net = Network("relu", Gaussian(1.5), C_b=0.1, layer=layers.batchnorm("1/10"))
    theory = flow(net, BATCH[:3], 3, ["K", "Theta"])
    tables = [
        simulate(net, BATCH[:3], n, 3, draws=300, tensors=["K", "Theta"], seed=1)
        for n in (32, 64, 128)
    ]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4
    assert float((tables[-1].Theta_se / abs(theory.Theta))[-1].max()) < 0.03


def linear_vertex(K, V, by):
    """V behind linear σ of P z, for pairs of samples that all move, or by = what each pair does."""
    P = projection(len(K))
    K = P @ K @ P
    pairs = np.einsum("ac,bd->abcd", K, K) + np.einsum("ad,bc->abcd", K, K)
    return 2.25 * (np.einsum("abst,cduv,stuv->abcd", by, by, V) + pairs)


def every_sample(P):
    return np.einsum("as,bt->abst", P, P)


def named_samples(P):
    """Derivatives by the named samples of a pair alone: other s and t are left out."""
    m = len(P)
    kept = np.zeros((m,) * 4)
    for a, b in np.ndindex(m, m):
        for s in {a, b}:
            for t in {a, b}:
                kept[a, b, s, t] = P[a, s] * P[b, t]
    return kept


def test_a_mean_that_is_taken_off():
    table = flow(Network("linear", Gaussian(1.5), C_b=0.1, layer=CENTRED), BATCH[:3], 4, TENSORS)
    P = projection(3)
    for layer in range(1, 4):
        K, V, G1 = (table[name].sel(layer=layer).to_numpy() for name in ("K", "V", "G1"))
        above = {name: table[name].sel(layer=layer + 1).to_numpy() for name in TENSORS}
        np.testing.assert_allclose(above["K"], 0.1 + 1.5 * P @ K @ P, rtol=1e-12)
        np.testing.assert_allclose(above["V"], linear_vertex(K, V, every_sample(P)), atol=1e-11)
        np.testing.assert_allclose(above["G1"], 1.5 * P @ G1 @ P, atol=1e-12)


def test_linear_norm_of_alike_samples():
    """The direction is even on a sphere: ⟨φφ⟩ and ⟨φφφφ⟩ are rational."""
    m, d = 4, 3
    table = flow(Network("linear", layer=layers.batchnorm()), 2 * np.eye(m), 2, ["K", "V"])
    P, K = projection(m), m / d * projection(m)
    pairs = [np.einsum(f"{p}->abcd", P, P) for p in ("ab,cd", "ac,bd", "ad,bc")]
    fourth = m**2 / (d * (d + 2)) * sum(pairs)
    np.testing.assert_allclose(table.K[1], K, atol=1e-13)
    np.testing.assert_allclose(table.V[1], fourth - np.einsum("ab,cd->abcd", K, K), atol=1e-12)


@pytest.mark.parametrize("m", [3, 4])
def test_what_a_norm_fixes_does_not_fluctuate(m):
    """Σ_s y_s = 0 and Σ_s y_s² = m at every neuron, to every order."""
    table = flow(Network("linear", Gaussian(1.5), layer=layers.batchnorm()), BATCH[:m], 4, TENSORS)
    K, G1, V = (table[name].to_numpy()[1:] for name in TENSORS)
    np.testing.assert_allclose(np.trace(K, axis1=1, axis2=2), 1.5 * m, rtol=1e-12)
    assert np.abs(V).max() > 1
    for zero in (K.sum(1), G1.sum(1), V.sum(1), np.einsum("laa", G1), np.einsum("laacd", V)):
        np.testing.assert_allclose(zero, 0.0, atol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("behind", [False, True])
def test_samples_may_be_renumbered_and_rescaled(activation, behind):
    eps = "1/10" if behind else 0
    net = Network(activation, C_b=0.1, layer=layers.batchnorm(eps, behind=behind))
    X, order = (BATCH[:2], [1, 0]) if behind else (BATCH[:3], [2, 0, 1])
    table, moved = (flow(net, inputs, 2, TENSORS) for inputs in (X, X[order]))
    at = np.ix_(*[order] * 4)
    np.testing.assert_allclose(moved.V[1], table.V[1].to_numpy()[at], rtol=1e-9, atol=1e-11)
    if not behind:
        np.testing.assert_allclose(flow(net, 3 * X, 2, TENSORS).K[1], table.K[1], rtol=1e-12)


def test_the_equation_says_what_the_layer_does():
    own = layers.Layer(
        "y[i;s] = z[i;s]/sqrt(mean_s(z[i;s]^2) + eps)", "z[i;s] = b[i] + W[i,a] s(y[a;s])", eps=1
    )
    shipped = layers.read("batchnorm(eps=1, center=False)")
    found = [flow(Network("tanh", layer=layer), BATCH[:2], 2, ["V"]).V for layer in (own, shipped)]
    assert (found[0] == found[1]).all()
    assert "⟨∂_p∂_q(σ₁ σ₂)⟩*⟨∂_r∂_u(σ₃ σ₄)⟩*V[p,q,r,u]/4" in str(recursion("V", layer=own))


def test_affine_changes_scale_and_shift():
    given = flow(Network("linear", layer=layers.batchnorm(affine=(2, 3))), BATCH[:3], 2, ["K"])
    plain = flow(Network("linear", layer=layers.batchnorm()), BATCH[:3], 2, ["K"])
    np.testing.assert_allclose(given.K[1], 4 * plain.K[1] + 9, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda net: flow(net, BATCH[0], 3, ["K"]), "several samples"),
        (lambda net: flow(net, np.ones((3, 6)), 2, ["K"]), "samples that differ"),
        (lambda net: flow(net, np.eye(17), 3, ["K"]), "at most 16 samples"),
        (lambda net: flow(net, Exchangeable(sympy.Symbol("m"), 1, 0), 3, ["K"]), "a number of"),
        (lambda net: flow(net, Exchangeable(5, 1, 1), 3, ["K"]), "samples that differ"),
        (lambda net: flow(net, BATCH[:3], 3, ["Theta"]), "averages of 1/r²"),
        (lambda net: flow(net, BATCH, 3, ["B"]), "averages of 1/r⁴"),
        (lambda net: simulate(net, BATCH, 8, 3, draws=4, tensors=["Theta"]), "infinite mean"),
        (lambda net: flow(net, BATCH, 3, ["K"], precision=16), "none, for a function of all"),
        (lambda net: simulate(net, BATCH[0], 8, 3, draws=4), "several samples"),
        (lambda net: recursion("V", layer=net.layer).specialise("tanh"), "an open activation"),
        (lambda net: recursion("V", layer=net.layer).exchangeable(), "recursions of orbits"),
        (lambda net: write_module(recursion("V", layer=net.layer), "tanh", "x.py"), "one sample"),
        (lambda _: layers.skip("1/2") and layers.around("batchnorm", skip=1), "invariant"),
        (lambda _: layers.batchnorm(eps=-1), "0 or more"),
    ],
)
def test_refusals(call, reason):
    with pytest.raises(InputError, match=reason):
        call(Network("tanh", layer=layers.batchnorm()))


@cache
def exchangeable(m, q, p):
    """Inputs with these products."""
    lengths, axes = np.linalg.eigh(np.where(np.eye(m, dtype=bool), q, p))
    return (axes * np.sqrt(m * lengths)) @ axes.T


@pytest.mark.parametrize(
    ("m", "activation", "layer"),
    [
        (2, "tanh", "batchnorm(eps=1/10)"),
        (2, "relu", "batchnorm(eps=1/10, center=False)"),
        (3, "relu", "batchnorm"),
        (4, "relu", "batchnorm"),
    ],
)
def test_alike_samples_are_those_of_a_general_batch(m, activation, layer):
    net = Network(activation, Orthogonal(1.5), C_b=0.1, layer=layer)
    names = TENSORS + ["Theta"] * (m != 3)
    table = flow(net, Exchangeable(m, "1.3", "0.4", m), 3, names)
    known = flow(net, exchangeable(m, 1.3, 0.4), 3, names)
    for name in names:
        for orbit, values in table[name].dropna("orbit").groupby("orbit"):
            at = [int(digit) - 1 for digit in orbit if digit.isdigit()]
            entries = known[name].to_numpy()[(slice(None), *at)]
            np.testing.assert_allclose(values.to_numpy().ravel(), entries, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("m", [5, 32, 256])
def test_relu_fixed_point_of_any_batch(m):
    """A homogeneous σ of a direction is that of a normal vector over its mean length: K is that of
    the arc-cosine kernel at the correlation −1/(m − 1)."""
    table = flow(
        Network("relu", Gaussian(2), layer=layers.batchnorm()), Exchangeable(m, 1, "1/2"), 9, ["K"]
    )
    rho = -1 / (m - 1)
    p = (np.sqrt(1 - rho**2) + rho * (np.pi - np.arccos(rho))) / np.pi
    np.testing.assert_allclose(table.K[1:], np.broadcast_to([1, p], (8, 2)), rtol=1e-11)


@pytest.mark.parametrize("m", [4, pytest.param(16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_gradients_grow_in_any_batch(activation, m):
    """⟨∂y_a·∂y_b⟩ = m/(m − 3) [P_ab ⟨σ'σ'⟩ − ⟨σσ⟩/(m − 1)]/(q − p), with ⟨1/r²⟩ = 1/(m − 3)."""
    rho, bent = -1 / (m - 1), activation == "relu"
    C_W = 2 if bent else 1
    table = flow(
        Network(activation, Gaussian(C_W), layer=layers.batchnorm()),
        Exchangeable(m, 1, "1/2"),
        7,
        ["K", "Theta"],
    )
    angle = np.arccos(rho)
    values = (np.sqrt(1 - rho**2) + rho * (np.pi - angle)) / (2 * np.pi) if bent else rho
    slopes = (np.pi - angle) / (2 * np.pi) if bent else 1
    same = (m - 2) / m / C_W
    other = rho * (m - 1) / m * slopes - values / m
    K, theta = (table[name].to_numpy()[1:, :2] for name in ("K", "Theta"))
    apart = theta[:, 0] - theta[:, 1]
    growth = C_W * m / (m - 3) * (same - other) / (K[-1, 0] - K[-1, 1])
    left = apart[1:] - growth * apart[:-1]  # λ_W ⟨φφ⟩
    np.testing.assert_allclose(left, (K[1:, 0] - K[1:, 1]) / C_W, rtol=1e-8)
    if not bent:
        np.testing.assert_allclose(growth, (m - 2) / (m - 3), rtol=1e-12)


@pytest.mark.parametrize("m", [6])
def test_linear_vertex_of_any_batch(m):
    """⟨φφφφ⟩ of an even direction, and what a norm fixes: Σ_s y_s = 0, Σ_s y_s² = m."""
    table = flow(Network("linear", layer=layers.batchnorm()), Exchangeable(m, 1, 0), 4, ["K", "V"])
    d, V = m - 1, table.V.dropna("orbit")
    same, other = (V.sel(orbit=f"({a})({b})").to_numpy() for a, b in (("11", "11"), ("11", "22")))
    np.testing.assert_allclose(same[1], 3 * m**2 / (d * (d + 2)) * (d / m) ** 2 - 1, rtol=1e-10)
    np.testing.assert_allclose(same[1:] + d * other[1:], 0.0, atol=1e-9)
    own, mixed = (V.sel(orbit=f"({a})({b})").to_numpy() for a, b in (("11", "11"), ("11", "12")))
    np.testing.assert_allclose(own[1:] + d * mixed[1:], 0.0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "m"), [("relu", 16), ("tanh", 64)])
def test_ensembles_of_alike_samples_agree(activation, m):
    net = Network(activation, Gaussian(1.5), C_b=0.1, layer=layers.batchnorm())
    inputs = Exchangeable(m, 1, "1/2", 64)
    theory = flow(net, inputs, 3, ["K", "V"])
    tables = [
        simulate(net, inputs, n, 3, draws=1000, tensors=["K", "V"], seed=1) for n in (32, 64, 128)
    ]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4
    share = float((tables[-1].V_se / abs(theory.V).max("orbit"))[-1].max())
    assert share < 0.07


def agrees(net, m, width, draws, sampler="lazy"):
    """The ensemble and the flow, which agree; and how much of V the ensemble tells, relative."""
    table = simulate(net, BATCH[:m], width, 3, draws=draws, tensors=["K", "V"], sampler=sampler)
    theory = flow(net, BATCH[:m], 3, ["K", "G1", "V"])
    found = compare(theory, table)
    assert max(abs(row.z) for row in found.rows) < 4.5
    return float((table.V_se[-1] / abs(theory.V[-1]).max()).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "layer", "weights", "sampler"),
    [
        ("tanh", "batchnorm(eps=1/10)", Gaussian(1.5), "lazy"),
        ("relu", "batchnorm", Orthogonal(1.5), "lazy"),
        ("relu", "batchnorm(center=False)", Gaussian(1.5), "explicit"),
        ("tanh", "batchnorm(eps=1/5, behind=True)", Orthogonal(1.5), "lazy"),
    ],
)
def test_ensembles_agree(activation, layer, weights, sampler):
    net = Network(activation, weights, C_b=0.1, layer=layer)
    few = sampler == "explicit"
    m = 2 if "behind" in layer else 3
    assert agrees(net, m, 48 if few else 160, 2000 if few else 6000, sampler) < 0.06


@pytest.mark.slow
def test_an_ensemble_tells_derivatives_by_named_samples_alone_apart():
    net = Network("linear", Gaussian(1.5), C_b=0.1, layer=CENTRED)
    table = simulate(net, BATCH[:3], 100, 3, draws=8000, tensors=["K", "V"])
    theory = flow(net, BATCH[:3], 3, ["K", "V"])
    below, P = theory.sel(layer=2), projection(3)
    V, se = (table[name].sel(layer=3).to_numpy() for name in ("V", "V_se"))
    known = below.K.to_numpy(), below.V.to_numpy()
    right, wrong = (linear_vertex(*known, by(P)) for by in (every_sample, named_samples))
    assert np.abs((V - right) / se).max() < 5
    assert np.abs((V - wrong) / se).max() > 10
