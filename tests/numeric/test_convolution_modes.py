"""Convolutions at infinite width, as the literature has them, here from the derived recursions.

L. Xiao et al., ICML 2018: near a fixed point the Fourier modes of the covariance over positions
evolve by themselves, each by χ·λ(k), λ the Fourier transform of the filter's variances. R. Novak
et al., ICLR 2019: without pooling the kernel knows nothing of the sharing of weights.
"""

from __future__ import annotations

import numpy as np
import pytest

from derive import Gaussian, Network, Orthogonal
from numeric import flow

P, SIZE, C_W, C_B = 6, 3, 1.5, 0.3
FREQUENCIES = 2 * np.pi * np.arange(P) / P
LAMBDA = (1 + 2 * np.cos(FREQUENCIES)) / 3
NODES = np.linspace(-9, 9, 361)
NORMAL = np.exp(-NODES * NODES / 2) / np.exp(-NODES * NODES / 2).sum()


def network(C: float, layer=f"convolution({SIZE}, {P})", C_b=C_B, weights=Gaussian) -> Network:
    return Network("tanh", weights(C_W=C), Gaussian(1), C_b=C_b, layer=layer)


def run(net: Network, kernel, depth: int):
    """K by layer, from this one at layer 1."""
    root = np.linalg.cholesky(kernel - float(net.C_b))
    return flow(net, root * len(root) ** 0.5, depth, ["K"]).K.values


def fixed_point(C: float) -> tuple[float, float]:
    """q and qc: of two inputs of dense layers, as of two positions."""
    K = run(network(C, "dense"), np.array([[2.0, 0.5], [0.5, 2.0]]), 250)[-1]
    return K[0, 0], K[0, 1]


def responses(net: Network, fixed, S, depth: int):
    """How K at each layer changes with ε in fixed + εS at layer 1."""
    epsilon = 1e-5
    return (run(net, fixed + epsilon * S, depth) - run(net, fixed - epsilon * S, depth)) / (
        2 * epsilon
    )


def averages(q: float, c: float, f):
    """⟨f(u) f(v)⟩ of variances q and correlation c."""
    u = q**0.5 * NODES
    v = q**0.5 * (c * NODES[:, None] + (1 - c * c) ** 0.5 * NODES)
    return float(NORMAL @ ((f(u)[:, None] * f(v)) @ NORMAL))


def slope(z):
    return 1 / np.cosh(z) ** 2


def displaced(K, r: int):
    """K_{p,p+r} by p."""
    return K[np.arange(P), (np.arange(P) + r) % P]


@pytest.mark.parametrize("weights", [Gaussian, Orthogonal])
@pytest.mark.parametrize(
    "layer", [f"convolution({SIZE}, {P})", f"convolution(3, {P}, weights=delta)"]
)
def test_modes_of_the_covariance_in_the_chaotic_phase(weights, layer) -> None:
    """K* = q(1 − c)δ + qc with c < 1: δK_{p,p+r} by p evolves by χ_c λ, χ_c = C_W ⟨σ'σ'⟩_{q,c}."""
    net = network(4.0, layer, weights=weights)
    q, off = fixed_point(4.0)
    fixed = off + (q - off) * np.eye(P)
    np.testing.assert_allclose(run(net, fixed, 2)[1], fixed, rtol=1e-8)
    assert off < 0.9 * q
    chi = 4.0 * averages(q, off / q, slope)
    S = np.random.default_rng(1).normal(size=(P, P))
    S = (S + S.T) * (1 - np.eye(P))
    found = responses(net, fixed, S, 4)
    factor = np.ones(P) if "delta" in layer else LAMBDA
    for r in (1, 2, 3):
        before = np.fft.fft(displaced(S, r))
        for steps in (1, 3):
            after = np.fft.fft(displaced(found[steps], r))
            np.testing.assert_allclose(after, (chi * factor) ** steps * before, atol=1e-6)


def test_modes_in_the_ordered_phase() -> None:
    """K* = q: K_pp goes by C_W ⟨(σ²)''⟩/2 λ, and ½(K_pp + K_qq) − K_pq by C_W ⟨σ'²⟩ λ."""
    net = network(C_W)
    q, off = fixed_point(C_W)
    assert abs(off / q - 1) < 1e-9
    across = C_W * averages(q, 1.0, slope)
    z = q**0.5 * NODES
    second = -2 * np.tanh(z) * slope(z)
    along = across + C_W * float(NORMAL @ (np.tanh(z) * second))
    root = np.random.default_rng(2).normal(size=(P, P))
    S, epsilon = root @ root.T, 1e-6
    found = (run(net, q + epsilon * S, 4) - q) / epsilon
    for steps in (1, 3):
        variance = np.fft.fft(found[steps].diagonal())
        expected = (along * LAMBDA) ** steps * np.fft.fft(S.diagonal())
        np.testing.assert_allclose(variance, expected, atol=1e-3)
        for r in (1, 2, 3):
            distance = [
                0.5 * (K.diagonal() + np.roll(K.diagonal(), -r)) - displaced(K, r)
                for K in (found[steps], S)
            ]
            before, after = np.fft.fft(distance[1]), np.fft.fft(distance[0])
            np.testing.assert_allclose(after, (across * LAMBDA) ** steps * before, atol=1e-3)


def arc_cosine(K, L, M):
    """⟨σσ⟩ of ReLU at variances K, L and covariance M."""
    c = np.clip(M / np.sqrt(K * L), -1, 1)
    return np.sqrt(K * L) * (np.sqrt(1 - c * c) + c * (np.pi - np.arccos(c))) / (2 * np.pi)


def test_without_pooling_the_kernel_knows_no_sharing() -> None:
    """K of a flattened network needs only the covariances of two signals at one position, as where
    every position has weights of its own; V, at order 1/n, and a pooled K know better."""
    X = np.random.default_rng(3).normal(size=(2, 4, 5))
    nets = {
        readout: Network(
            "relu", Gaussian(1.4), C_b=0.2, layer=f"convolution(3, 4, readout={readout})"
        )
        for readout in ("flatten", "mean")
    }
    tables = {name: flow(net, X, 4, ["K", "V"]) for name, net in nets.items()}
    local = 0.2 + 1.4 * np.einsum("api,bpi->pab", X, X) / 5
    for layer in (2, 3, 4):
        diagonal = local.diagonal(axis1=1, axis2=2)
        sigma = arc_cosine(diagonal[:, :, None], diagonal[:, None, :], local)
        K = 0.2 + 1.4 * sigma.mean(axis=0)
        np.testing.assert_allclose(tables["flatten"].K.values[layer - 1], K, rtol=1e-10)
        assert abs(tables["mean"].K.values[layer - 1] / K - 1).max() > 0.05
        local = 0.2 + 1.4 * sum(np.roll(sigma, k, axis=0) for k in (-1, 0, 1)) / 3
    turned = X.copy()
    turned[:, 1] = -X[:, 1][:, ::-1]  # other covariances between positions, the same at each
    other = flow(nets["flatten"], turned, 4, ["K", "V"])
    np.testing.assert_allclose(other.K.values, tables["flatten"].K.values, rtol=1e-10)
    assert abs(other.V.values[2:] / tables["flatten"].V.values[2:] - 1).max() > 0.01
