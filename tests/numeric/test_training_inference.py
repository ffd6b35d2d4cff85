"""Inference at order 1/n: against exact conditional sampling, and what holds without it."""

import numpy as np
import pytest

from derive import Network
from derive.errors import InputError
from derive.training import posterior as formula
from numeric import flow
from numeric.training import posterior

X = np.array([[1.0, 0.3, 0.2], [-0.6, 0.8, 0.5], [0.2, -0.9, 0.9]])
TEST = np.array([[0.5, 0.5, -0.4]])
Y = np.array([[0.9, -0.2], [0.1, 0.6], [-0.8, 0.3]])


def _sampled(n, draws, depth, C_b, C_W, y, noise, seed):
    """Mean and covariance of the outputs given y at width n, and their standard errors.

    Given the last hidden layer the outputs of Gaussian weights are a Gaussian process, of which y
    has a density: the law given y is a mixture of such processes, with that density as weight.
    """
    rng = np.random.default_rng(seed)
    inputs = np.concatenate([X, TEST])
    N, m = len(X), len(inputs)
    parts = []
    for _ in range(0, draws, 2000):
        K = np.broadcast_to(C_b + C_W * inputs @ inputs.T / inputs.shape[1], (2000, m, m))
        for _ in range(depth - 1):
            z = rng.standard_normal((2000, n, m)) @ np.linalg.cholesky(K).transpose(0, 2, 1)
            s = np.tanh(z)
            K = C_b + C_W * s.transpose(0, 2, 1) @ s / n
        parts.append(K)
    K = np.concatenate(parts)
    C = K[:, :N, :N] + noise * np.eye(N)
    pulls = np.linalg.solve(C, K[:, :N, :]).transpose(0, 2, 1)
    mean = pulls @ y
    cov = K - pulls @ K[:, :N, :]
    squares = np.einsum("ai,dai->d", y, np.linalg.solve(C, np.broadcast_to(y, (draws, *y.shape))))
    w = np.exp(-squares / 2) / np.linalg.det(C) ** (y.shape[1] / 2)
    w /= w.sum()

    def averaged(x):
        value = np.tensordot(w, x, axes=1)
        return value, np.sqrt(np.tensordot(w**2, (x - value) ** 2, axes=1))

    first, first_se = averaged(mean)
    off = mean - first
    spread = np.einsum("dai,dbj->dabij", off, off)
    spread += cov[:, :, :, None, None] * np.eye(y.shape[1])
    return (first, first_se), averaged(spread)


def _extrapolated(table, outputs, n, draws, **given):
    """z-scores of both coefficients of 1/n, and how well they are known relative to the largest."""
    found = []
    for name, own in (("prediction", 0), ("covariance", 1)):
        values, errors = [], []
        for width in (n, 2 * n, 4 * n):
            limit = table[name].to_numpy()
            value, se = _sampled(width, draws, seed=width, **given)[own]
            limit = limit.reshape(value.shape)
            values.append(width * (value - limit))
            errors.append(width * se)
        coefficient = (values[0] - 6 * values[1] + 8 * values[2]) / 3  # free of 1/n and 1/n²
        se = np.sqrt(errors[0] ** 2 + 36 * errors[1] ** 2 + 64 * errors[2] ** 2) / 3
        theory = table[f"{name}1"].to_numpy().reshape(coefficient.shape)
        seen = se > 1e-6
        assert abs(theory[~seen]).max(initial=0) < 1e-6
        found.append(abs(coefficient - theory)[seen] / se[seen])
        resolution = se.max() / abs(theory).max()
        found.append(resolution)
    return found


@pytest.mark.parametrize("draws", [4000, pytest.param(50_000, marks=pytest.mark.slow, id="many")])
@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_exact_conditional_sampling(noise, draws):
    net = Network("tanh", C_b=0.2)
    table = posterior(net, X, Y, TEST, 3, noise)
    mean, seen, spread, noticed = _extrapolated(
        table, 2, 20, draws, depth=3, C_b=0.2, C_W=1.0, y=Y, noise=noise
    )
    assert mean.max() < 5
    assert spread.max() < 5
    assert max(seen, noticed) < (0.25 if draws > 10**4 else 1.5)


def test_without_order_1_it_is_a_gaussian_process():
    K = flow(Network("tanh", C_b=0.2), np.concatenate([X, TEST]), 3, "K")["K"].to_numpy()[-1]
    table = posterior(Network("tanh", C_b=0.2), X, Y[:, 0], TEST, 3, 0.1)
    C = K[:3, :3] + 0.1 * np.eye(3)
    right = K[:, :3] @ np.linalg.solve(C, Y[:, 0])
    assert table["prediction"].to_numpy() == pytest.approx(right, abs=1e-12)
    left = K - K[:, :3] @ np.linalg.solve(C, K[:3])
    assert table["covariance"].to_numpy() == pytest.approx(left, abs=1e-12)


def test_of_infinitely_much_noise_the_prior_is_left():
    net = Network("gelu", C_b=0.2)
    table = posterior(net, X, Y[:, 0], TEST, 3, 1e9)
    prior = flow(net, np.concatenate([X, TEST]), 3, ["K", "G1"]).isel(layer=-1)
    for name, at_start in (("covariance", "K"), ("covariance1", "G1")):
        assert table[name].to_numpy() == pytest.approx(prior[at_start].to_numpy(), abs=1e-7)
    assert abs(table["prediction1"]).max() < 1e-7


def test_one_target_is_met_and_outputs_are_tied():
    net, x, t = Network("relu", "orthogonal"), [1.0, 0.2], [0.3, -0.9]
    one = posterior(net, x, 0.7, t, 4)
    assert one["prediction"].to_numpy()[0] == 0.7
    for name in ("prediction1", "covariance", "covariance1"):
        assert (abs(one[name].to_numpy()[0]) < 1e-12).all()
    two = posterior(net, x, [[0.7, 0.4]], t, 4)
    crossed = two["covariance1"].to_numpy()[1, 1]
    assert abs(crossed[0, 1]) > 1e-3
    assert crossed[0, 1] == pytest.approx(crossed[1, 0], rel=1e-12)
    assert two["covariance"].to_numpy()[1, 1, 0, 1] == 0


def test_independent_entries_of_one_layer():
    """z = W x: rows are independent, and Edgeworth's series has κ_4 of r = z_t − (K_t1/K_11) z."""
    x, t, y = np.array([1.0, -0.3, 0.2]), np.array([0.4, 0.5, -0.9]), np.array([0.7, -1.1])
    two = posterior(Network("tanh", "rademacher"), x, y[None], t, 1)
    K, cross = x @ x / 3, x @ t / (x @ x)
    fourths = [-2 * (t - cross * x) ** k @ x ** (4 - k) / 3 for k in (1, 2)]
    mean = fourths[0] / 6 * (y**3 / K**3 - 3 * y / K**2)
    assert two["prediction1"].to_numpy()[1] == pytest.approx(mean, rel=1e-12)
    spread = np.diag(fourths[1] / 2 * (y**2 / K**2 - 1 / K))
    assert two["covariance1"].to_numpy()[1, 1] == pytest.approx(spread, rel=1e-12, abs=1e-15)


def test_expressions():
    assert str(formula("covariance", 0)) == "Cov[z_i, z_j|y]_ab = δ_ij K_ab"
    assert "y_ic y_jd V_acbd c_c^-1 c_d^-1" in str(formula("covariance"))
    assert r"\tfrac{1}{2}" in formula().latex()
    with pytest.raises(InputError, match=r"name: got 'mean'"):
        formula("mean")


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"noise": -1}, "noise"),
        ({"noise": "much"}, "noise"),
        ({"inputs": [[1.0, 2.0], [1.0, 2.0]], "targets": [0, 1]}, "noise"),
        ({"targets": [1.0, 2.0]}, "targets"),
        ({"net": "tanh"}, "net"),
    ],
)
def test_bad_arguments_are_named(changed, argument):
    given = {"net": Network("tanh"), "inputs": X[:, :2], "targets": [0, 1, 2], "depth": 2}
    if "inputs" not in changed:
        given |= {"inputs": X}
    with pytest.raises(InputError, match=f"^{argument}"):
        posterior(**(given | changed))


def test_targets_that_overflow_are_named():
    with pytest.raises(InputError, match=r"^targets: got 1e\+160; wanted smaller"):
        posterior(Network("tanh"), [[1.0, 0.5], [-0.5, 1.0]], [1e160, 1.0], None, 2, 0.1)
