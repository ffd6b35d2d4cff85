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
    K = np.broadcast_to(C_b + C_W * inputs @ inputs.T / inputs.shape[1], (draws, m, m))
    for _ in range(depth - 1):
        root = np.linalg.cholesky(K)
        z = rng.standard_normal((draws, n, m)) @ root.transpose(0, 2, 1)
        s = np.tanh(z)
        K = C_b + C_W * s.transpose(0, 2, 1) @ s / n
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
        for k, width in enumerate((n, 2 * n)):
            limit = table[name].to_numpy()
            value, se = _sampled(width, draws, seed=width, **given)[own]
            limit = limit.reshape(value.shape)
            values.append(width * (value - limit))
            errors.append(width * se)
        coefficient = 2 * values[1] - values[0]
        se = np.hypot(2 * errors[1], errors[0])
        theory = table[f"{name}1"].to_numpy().reshape(coefficient.shape)
        seen = se > 1e-6
        assert abs(theory[~seen]).max(initial=0) < 1e-6
        found.append(abs(coefficient - theory)[seen] / se[seen])
        resolution = se.max() / abs(theory).max()
        found.append(resolution)
    return found


@pytest.mark.parametrize(
    "draws", [4000, pytest.param(300_000, marks=pytest.mark.slow, id="many")]
)
@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_exact_conditional_sampling(noise, draws):
    net = Network("tanh", C_b=0.2)
    table = posterior(net, X, Y, TEST, 3, noise)
    mean, seen, spread, noticed = _extrapolated(
        table, 2, 32, draws, depth=3, C_b=0.2, C_W=1.0, y=Y, noise=noise
    )
    print(mean.max(), spread.max(), seen, noticed)
    assert mean.max() < 5
    assert spread.max() < 5
    assert max(seen, noticed) < (0.1 if draws > 10**5 else 1)
