"""The controls of `laws_ensembles` have the mean 0 that they are taken for, at a small width."""

from __future__ import annotations

import numpy as np
import pytest
from laws_ensembles import NORMAL, Laws, U, correlations, density, mean

from derive import Gaussian, Network, Rademacher, Sparse, StudentT, TruncatedNormal, Uniform
from derive.weights import as_weights

LAWS = Uniform(), Rademacher(), StudentT(12), TruncatedNormal(), Sparse("1/4")
X = np.ones(3)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_sums_have_their_moments(law):
    """κ_4 of b + Σ_j x_j y_j is κ_4 Σ_j y_j⁴, and E[x_j u³] = 3 v y_j + κ_4 y_j³."""
    y, C_b = np.linspace(0.05, 0.4, 12), 0.3
    kappa, v = float(law.cumulant(4)), C_b + (y**2).sum()
    p, u = density(law, y, C_b), np.sqrt(v) * U
    assert abs(mean(np.ones_like(U), p) - 1) < 1e-10
    assert abs(mean(u**2, p) - v) < 1e-8
    assert abs(mean(u**4, p) - 3 * v**2 - kappa * (y**4).sum()) < 1e-5
    found = correlations(law, y, C_b, lambda u: u**4 / 4)
    assert np.allclose(found, 3 * v * y + kappa * y**3, atol=1e-5)
    assert abs(mean(U**4, NORMAL) - 3) < 1e-12


@pytest.mark.parametrize(
    ("weights", "layer"),
    [
        ("uniform", "dense"),
        ("sparse(1/2)", "dense"),
        ("regular-sparse(1/4)", "dense"),
        ("orthogonal", "dropout(4/5)"),
        ("orthogonal", "skip(1/2, norm=layer)"),
        ("gaussian", "skip(1/2)"),
    ],
)
@pytest.mark.slow
def test_controls_have_the_mean_zero(weights, layer):
    """Up to 1000 of them, each beside its error over 400 sets of matrices, at 16 neurons."""
    net = Network("gelu", as_weights("weights", weights), Gaussian(1), C_b=0.5, layer=layer)
    norm = "layer" if "norm" in layer else None
    made = Laws(net, X, 16, 4, gamma=0.5 if "skip" in layer else 0.0, norm=norm)
    c = np.array([list(made.drawn(k))[-1][1].mean(0) for k in range(400)])
    error = c.std(0) / np.sqrt(len(c))
    assert (np.abs(c.mean(0)) <= 5.5 * error + 1e-12).all()
