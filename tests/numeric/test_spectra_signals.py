"""Spectra of the Jacobians of signals, against explicit matrices and the dense layer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal, spectra
from numeric import spectra as densities

PLACES, N, DRAWS = 3, 64, 64
LAWS = {
    "gaussian": lambda rng: rng.normal(size=(N, N)) / N**0.5,
    "orthogonal": lambda rng: np.linalg.qr(rng.normal(size=(N, N)))[0],
}


def network(layer, weights):
    return Network("relu", weights, layer=layer, C_b="1/10")


def moments(rng: np.random.Generator, law: str, gamma: float) -> list[float]:
    """(1/Pn) tr (JJᵀ)^k of two layers of two circular taps at a constant signal, of relu."""
    z, J = rng.normal(size=N), np.eye(N * PLACES)
    taps = [np.roll(np.eye(PLACES), k, axis=1) for k in (0, 1)]
    for _ in range(2):
        W = [LAWS[law](rng) for _ in taps]
        M = gamma * np.eye(N * PLACES)
        M += sum(np.kron(A, own * (z > 0)) for A, own in zip(taps, W, strict=True))
        J = M @ J
        z = gamma * z + sum(W) @ np.maximum(z, 0) + rng.normal(size=N) * 0.1**0.5
    values = np.linalg.svd(J, compute_uv=False) ** 2
    return [float(np.mean(values**k)) for k in (1, 2)]


@pytest.mark.parametrize(
    ("layer", "gamma"),
    [("convolution(2, 3)", 0.0), ("around(convolution(2, 3), skip=1/2)", 0.5)],
    ids=["plain", "skip"],
)
@pytest.mark.parametrize("law", LAWS)
def test_explicit_matrices(layer: str, gamma: float, law: str) -> None:
    """Eight means, 4 standard errors and 1/n: a chance of 5·10⁻⁴ of a false alarm."""
    weights = {"gaussian": Gaussian(2), "orthogonal": Orthogonal(2)}[law]
    theory = spectra.of_network(network(layer, weights), 1, 3)
    rng = np.random.default_rng(11)
    found = np.array([moments(rng, law, gamma) for _ in range(DRAWS)])
    error = found.std(axis=0, ddof=1) / DRAWS**0.5
    for k, (mean, own) in enumerate(zip(found.mean(axis=0), error, strict=True), 1):
        value = float(theory.moment(k))
        assert abs(mean - value) < 4 * own + value / N
        assert own < 0.05 * value


@pytest.mark.parametrize(
    ("layer", "weights", "plain"),
    [
        ("convolution(2, 3)", Gaussian(2), "dense"),
        ("around(convolution(2, 3), skip=1/2)", Gaussian(2), "skip(1/2)"),
        ("convolution(3, 3, weights=delta)", Orthogonal(2), "dense"),
    ],
)
def test_the_law_is_the_dense_one(layer: str, weights, plain: str) -> None:
    """A sum of Gaussian taps is one matrix at each frequency; of a delta one is left."""
    one, other = (spectra.of_network(network(each, weights), 1, 3) for each in (layer, plain))
    assert [one.moment(k) for k in (1, 2, 3, 4)] == [other.moment(k) for k in (1, 2, 3, 4)]


def test_independent_orthogonal_taps_have_a_density() -> None:
    """Three Haar matrices over √3: Kesten and McKay's law of walks on a tree of degree 3."""
    net = Network("linear", Orthogonal(1), layer="convolution(3, 3)")
    assert [spectra.of_network(net, 1, 2).moment(k) for k in (1, 2)] == [1, Fraction(5, 3)]
    x = np.linspace(0.1, 2.6, 40)
    walks = 3.0 * np.sqrt(8.0 - 3.0 * x) / (2.0 * np.pi * (9.0 - 3.0 * x))
    density = densities.of_network(net, 1, 2).density(x)
    np.testing.assert_allclose(density, walks * np.sqrt(3.0 / x), rtol=1e-8)


@pytest.mark.parametrize(
    "layer",
    [
        "convolution(3, 4, boundary=zero)",
        "convolution(2, 4, stride=2)",
        "convolution(2, 3, readout=mean)",
        "pooling(4)",
    ],
)
def test_what_does_not_permute_positions_is_refused(layer: str) -> None:
    with pytest.raises(InputError, match=r"^layer: .*taps permute the positions"):
        spectra.of_network(network(layer, Gaussian(2)), 1, 2)
