"""Sampled low-rank networks: what (3) and (5) of source 001 hold for, and gradients going back."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import numeric
from derivations.nait_saada_tanner.backward import CrossEntropy, backward, squares
from derivations.nait_saada_tanner.drawing import BIASES, BLOCK
from derivations.nait_saada_tanner.given_biases import given_biases
from derivations.nait_saada_tanner.sampling import sample, simulate
from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    propagation,
)
from derive import activations as a
from numeric import compare, flow

ORTHOGONAL = Network(a.tanh, LowRankOrthogonal(1, gamma=0.25), C_b=1)
GAUSSIAN = Network(a.tanh, LowRankGaussian(1, gamma=0.25), C_b=1)
Z_BOUND = 6.0
"""For a few hundred normal comparisons: a false alarm in 10^6 runs."""


def two_inputs(n: int = 64) -> np.ndarray:
    """Two vectors of length² n and correlation 0.6."""
    first, second = np.linalg.qr(np.random.default_rng(5).standard_normal((n, 2)))[0].T
    return np.sqrt(n) * np.array([first, 0.6 * first + 0.8 * second])


@pytest.mark.parametrize("biases", ["neuron", "direction"])
@pytest.mark.parametrize("net", [ORTHOGONAL, GAUSSIAN], ids=["orthogonal", "Gaussian"])
def test_lengths_and_covariances_follow_the_maps(net: Network, biases: str) -> None:
    """K of two inputs, 5 layers, n = 64, 128, 256 extrapolated; false alarms 5.7e-7."""
    X = two_inputs()
    flowed = flow(net, X, 5, ["K"])
    sampled = [simulate(net, X, n, 5, 800, biases=biases, seed=n) for n in (64, 128, 256)]
    comparison = compare(flowed, sampled)
    assert comparison.agrees, str(comparison)
    start = tuple(flowed["K"].to_numpy()[0][[0, 0, 1], [0, 1, 1]])
    derived = np.array(propagation.kernels(net, start, 5))
    compiled = flowed["K"].to_numpy()[:, [0, 0, 1], [0, 1, 1]]
    assert np.abs(derived - compiled).max() < 1e-12


def test_neuron_biases_are_those_of_the_engines_simulator() -> None:
    """Two samplers that share no code, at one width: a z-score for each layer and component."""
    X = two_inputs()
    mine = simulate(GAUSSIAN, X, 32, 4, 2000, seed=1)
    other = numeric.simulate(GAUSSIAN, X, 32, 4, 2000, tensors=["K"], seed=2)
    z = (mine["K"] - other["K"]) / np.hypot(mine["K_se"], other["K_se"])
    assert np.abs(z).max() < Z_BOUND


def test_one_bias_per_layer_does_not_average_out() -> None:
    """The standard deviation of K falls like n^{-1/2} with the other kinds, and stays with this."""
    X = two_inputs()[0]
    spread = {
        (biases, n): sample(GAUSSIAN, X, n, 4, 640, biases=biases, seed=3)
        .K[:, 1:, 0, 0]
        .std(axis=0)
        for biases in BIASES
        for n in (64, 1024)
    }
    for biases in ("neuron", "direction"):
        assert np.allclose(spread[biases, 64] / spread[biases, 1024], 4, rtol=0.25)
    assert np.all(spread["layer", 1024] > 0.9)  # about √2 C_b: the spread of b²
    assert np.all(spread["layer", 64] / spread["layer", 1024] < 1.5)


def test_one_bias_per_layer_obeys_the_maps_given_the_bias() -> None:
    """Conditionally on b the residual is unbiased at large width and falls like n^{-1/2}; on
    average over b, (3) and (5) are missed by many standard errors."""
    X = two_inputs()
    drawn = {n: sample(GAUSSIAN, X, n, 4, 320, biases="layer", seed=4) for n in (256, 4096)}
    residual = {n: each.K - given_biases(GAUSSIAN, X, each.b) for n, each in drawn.items()}
    wide = residual[4096]
    z = wide.mean(axis=0) / (wide.std(axis=0) / np.sqrt(len(wide)))
    assert np.abs(z).max() < Z_BOUND
    ratio = residual[256].std(axis=0) / wide.std(axis=0)
    assert np.allclose(ratio, 4, rtol=0.4)
    printed = flow(GAUSSIAN, X, 4, ["K"])["K"].to_numpy()
    b = np.random.default_rng(6).standard_normal((2000, 4)) * 2
    own = (b**2 / 4 - 1)[:, :, None, None]  # a layer's own bias averages out over b
    many = given_biases(GAUSSIAN, X, b) - own
    assert np.allclose(many[:, 0], printed[0], rtol=1e-12)
    missed = (many.mean(axis=0) - printed)[1:] / (many.std(axis=0) / np.sqrt(len(many)))[1:]
    assert np.all(missed[:, 0, 0] < -8)


def test_the_maps_given_a_bias_need_no_width_at_which_ranks_are_whole() -> None:
    """1/7 of no width that another argument fixes; and a symbol has no value at any."""
    net = Network(a.linear, LowRankGaussian(1, gamma=sympy.Rational(1, 7)))
    assert np.allclose(given_biases(net, [2.0, 2.0], [[1.0, 2.0]]).ravel(), [4 + 1 / 7, 4 + 5 / 7])
    for wrong, name in ((Network(a.linear, Gaussian(sympy.Symbol("C"))), "C_W"), (3, "net")):
        with pytest.raises(InputError) as error:
            given_biases(wrong, [2.0, 2.0], [[1.0]])
        assert error.value.argument == name
    with pytest.raises(InputError, match="draws, depth"):
        given_biases(net, [2.0, 2.0], [[np.nan]])


def test_the_mean_length_under_one_bias_is_an_average_of_the_map() -> None:
    """E q_2 = C_b + C_W E⟨σσ⟩ over b, by Gauss and Hermite's rule: not (3) at E q_1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    first = 1 + nodes**2  # q_1 = C_W x·x/n_0 + C_b x²
    mean = sum(w * propagation.length_map(GAUSSIAN, q) for q, w in zip(first, weights, strict=True))
    assert mean < propagation.length_map(GAUSSIAN, 2) - 0.02
    drawn = sample(GAUSSIAN, two_inputs()[0], 4096, 2, 1280, biases="layer", seed=7)
    second = drawn.K[:, 1, 0, 0] - drawn.b[:, 1] ** 2 / 4 + 1  # without layer 2's own noise
    z = (second.mean() - mean) / (second.std() / np.sqrt(len(second)))
    assert abs(z) < Z_BOUND


def test_same_seed_same_bits_for_any_number_of_draws() -> None:
    X = two_inputs()
    few = sample(GAUSSIAN, X, 16, 3, BLOCK + 3, biases="layer", seed=9)
    many = sample(GAUSSIAN, X, 16, 3, 3 * BLOCK, biases="layer", seed=9)
    assert np.array_equal(few.K, many.K[: BLOCK + 3])
    assert np.array_equal(few.b, many.b[: BLOCK + 3])
    other = sample(GAUSSIAN, X, 16, 3, BLOCK + 3, biases="layer", seed=10)
    assert not np.array_equal(few.K, other.K)


def test_full_rank_is_rank_one_gamma() -> None:
    X = two_inputs()
    for full, low in ((Gaussian, LowRankGaussian), (Orthogonal, LowRankOrthogonal)):
        one = Network(a.tanh, full(1.5), C_b=0.1, first_weights=Gaussian(1.5))
        other = Network(a.tanh, low(1.5, gamma=1), C_b=0.1, first_weights=Gaussian(1.5))
        assert np.array_equal(
            sample(one, X, 16, 3, 4, seed=1).K, sample(other, X, 16, 3, 4, seed=1).K
        )


@pytest.mark.parametrize("overlap", [0, 1])
@pytest.mark.parametrize("biases", ["neuron", "direction"])
@pytest.mark.parametrize("weights", [LowRankGaussian, LowRankOrthogonal])
def test_gradients_follow_the_backward_recursion(weights, biases: str, overlap: int) -> None:
    """Ratios of q̃ to the last layer's at n = 128 and 512, extrapolated linearly in 1/n."""
    net = Network(a.tanh, weights(1.5, gamma=0.25), C_b=0.2)
    depth = 4
    loss = squares if overlap else CrossEntropy((1, 0), 3)
    lengths = propagation.lengths(net, 1.7, depth)
    theory = np.array(propagation.gradients(net, lengths, overlap=overlap, biases=biases))[:-1]
    means, errors = [], []
    for n, draws in ((128, 2000), (512, 1000)):
        found = backward(net, two_inputs(n), n, depth, draws, loss, biases=biases, seed=n).delta
        last, others = found[:, -1], found[:, :-1]
        ratio = others.mean(axis=0) / last.mean()
        residual = (others - ratio * last[:, None]) / last.mean()
        means.append(ratio)
        errors.append(residual.std(axis=0) / np.sqrt(draws))
    limit = (4 * means[1] - means[0]) / 3
    error = np.hypot(4 / 3 * errors[1], errors[0] / 3)
    assert np.abs((limit - theory) / error).max() < Z_BOUND
    assert (error / theory).max() < 0.06
    independent = np.array(propagation.gradients(net, lengths))[:-1]
    assert bool((theory > 2 * independent).all()) == bool(overlap)


@pytest.mark.parametrize("loss", [squares, CrossEntropy((1, 0), 3)], ids=["squares", "classes"])
@pytest.mark.parametrize("weights", [LowRankGaussian, LowRankOrthogonal])
@pytest.mark.parametrize(
    ("gamma", "biases"), [(0.5, "neuron"), (0.5, "direction"), (0.5, "layer"), (1, "direction")]
)
def test_conditioned_networks_have_the_law_of_explicit_ones(
    weights, gamma: float, biases: str, loss
) -> None:
    """Every statistic of `backward` at n = 6, three layers, against networks with all their
    weights."""
    net = Network(a.tanh, weights(1.5, gamma=gamma), C_b=0.3)
    X, draws = two_inputs(6), 800
    explicit = explicit_networks(net, X, draws, biases, loss)
    found = np.array(backward(net, X, 6, 3, draws, loss, biases=biases, seed=1))
    for power in (1, 2):
        mine, other = found**power, explicit**power
        error = np.hypot(mine.std(axis=1), other.std(axis=1)) / np.sqrt(draws)
        z = (mine.mean(axis=1) - other.mean(axis=1)) / error
        assert np.abs(z).max() < Z_BOUND


def explicit_networks(net: Network, X: np.ndarray, draws: int, biases: str, loss) -> np.ndarray:
    """K, |δ|²/n, z·δ/n and |∂E/∂A|² of three layers as wide as the inputs, (4, draws, 3)."""
    rng = np.random.default_rng(8)
    n, ensemble = X.shape[1], net.weights
    r = round(float(ensemble.gamma) * n)
    C_b, scale = float(net.C_b), np.sqrt(float(ensemble.C_W / ensemble.gamma))
    out = np.empty((4, draws, 3))

    def frame() -> np.ndarray:
        Q, R = np.linalg.qr(rng.standard_normal((n, r)))
        return Q * np.sign(np.diag(R))

    for draw in range(draws):
        label = draw % len(X)
        sigma, layers = X[label], []
        for _ in range(3):
            C = frame()
            is_gaussian = isinstance(ensemble, LowRankGaussian)
            A = scale * (rng.standard_normal((r, n)) / np.sqrt(n) if is_gaussian else frame().T)
            inner, outer = np.zeros(r), np.zeros(n)
            if biases == "neuron":
                outer = np.sqrt(C_b) * rng.standard_normal(n)
            else:
                size = r if biases == "direction" else 1
                inner = inner + np.sqrt(C_b * n / r) * rng.standard_normal(size)
            z = C @ (A @ sigma + inner) + outer
            layers.append((C, A, sigma, z))
            sigma = np.tanh(z)
        z = layers[-1][3]
        if loss is squares:
            delta = z
        else:
            V = rng.standard_normal((loss.classes, n)) / np.sqrt(n)
            p = np.exp(V @ sigma)
            p /= p.sum()
            p[loss.labels[label]] -= 1
            delta = (1 - sigma**2) * (V.T @ p)
        for layer in (2, 1, 0):
            C, A, below, z = layers[layer]
            kept = C.T @ delta
            out[:, draw, layer] = (
                z @ z / n,
                delta @ delta / n,
                z @ delta / n,
                kept @ kept * (below @ below),
            )
            delta = (1 - below**2) * (A.T @ kept)
    return out


def test_weight_gradients_are_gamma_of_the_gradient_times_the_length() -> None:
    """|∂E/∂A|² = |Cᵀδ|²|σ|² → γ N q̃ N ⟨σσ⟩ (001, A.8) where δ is independent of C."""
    net = Network(a.tanh, LowRankGaussian(1.5, gamma=0.25), C_b=0.2)
    n, draws = 1024, 800
    found = backward(net, two_inputs(), n, 3, draws, CrossEntropy((1, 0), 3), seed=1)
    second = (found.K[:, 2] - 0.2) / 1.5
    ratio = found.weights[:, 2] / (0.25 * n * n * found.delta[:, 2] * second)
    assert abs(ratio.mean() - 1) < Z_BOUND * ratio.std() / np.sqrt(draws) + 10 / n


def test_zero_inputs_have_no_gradient_statistics() -> None:
    with (
        np.errstate(invalid="ignore", divide="ignore"),
        pytest.raises(InputError, match="not all zero"),
    ):
        backward(Network(a.tanh, Gaussian(1)), np.zeros(8), 8, 2, 2, squares)


@pytest.mark.parametrize(
    ("net", "width", "biases", "argument"),
    [
        (GAUSSIAN, 30, "neuron", "gamma"),
        (GAUSSIAN, 32, "scalar", "biases"),
        (GAUSSIAN, 4, "neuron", "inputs"),
        (Network(a.tanh, BiInvariant(moments=(1,))), 32, "neuron", "weights"),
        ("net", 32, "neuron", "net"),
    ],
)
def test_errors_name_the_argument(net, width: int, biases: str, argument: str) -> None:
    with pytest.raises(InputError) as error:
        sample(net, two_inputs(), width, 2, 2, biases=biases)
    assert error.value.argument == argument


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: sample(GAUSSIAN, np.ones(64), 64, 2, 10**9), "draws"),
        (lambda: sample(GAUSSIAN, np.ones(64), 64, 2, True), "draws"),
        (lambda: sample(GAUSSIAN, np.ones(64), 64, 2, 4, biases=np.array(["a", "b"])), "biases"),
        (lambda: sample(Network(a.linear), np.full(4, 1e200), 4, 2, 4), "inputs"),
        (lambda: simulate(GAUSSIAN, np.ones(64), 64, 2, 1), "draws"),
        (lambda: backward(GAUSSIAN, np.ones(64), 64, 2, 4, 1), "loss"),
        (lambda: backward(GAUSSIAN, two_inputs(), 64, 2, 4, CrossEntropy((0,), 3)), "labels"),
        (lambda: given_biases(GAUSSIAN, np.ones(64), [np.nan]), "b"),
        (lambda: given_biases(GAUSSIAN, np.ones(64), "b"), "b"),
        (lambda: given_biases(GAUSSIAN, np.ones(64), []), "b"),
        (lambda: CrossEntropy((0, 3), 3), "labels"),
        (lambda: CrossEntropy("01", 3), "labels"),
        (lambda: CrossEntropy((0, 1), 0), "classes"),
    ],
)
def test_odd_arguments_are_refused(call, argument: str) -> None:
    with pytest.raises(InputError) as refusal:
        call()
    assert refusal.value.argument == argument
