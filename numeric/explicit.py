"""The same ensembles with every weight matrix built: plain NumPy, slow and obviously right.

It shares nothing with the lazy sampler but the activation: other random numbers, other weights, and
the tensors are read off z itself by the pairing estimator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import gram, weights
from .ensemble import Ensemble
from .weights import Array


def haar(size: int, rng: np.random.Generator) -> Array:
    """A Haar-random orthogonal matrix: QR of a Gaussian one, with R's diagonal made positive."""
    Q, R = np.linalg.qr(rng.standard_normal((size, size)))
    return np.asarray(Q * np.sign(np.diag(R)))


def weight_matrix(kind: int, C_W: float, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """W of shape (n_out, n_in) with E[W_ij²] = C_W/n_in."""
    n_out, n_in = shape
    if kind == weights.GAUSSIAN:
        return float(np.sqrt(C_W / n_in)) * rng.standard_normal(shape)
    size = max(shape)
    return float(np.sqrt(C_W * size / n_in)) * haar(size, rng)[:n_out, :n_in]


def preactivations(ensemble: Ensemble, draw: int) -> list[Array]:
    """z^(1), …, z^(depth) of one network, each of shape (m, n_ℓ)."""
    k0, k1 = (int(word) for word in ensemble.key)
    rng = np.random.Generator(np.random.Philox(key=k0 + (k1 << 32), counter=draw << 128))
    X, out = ensemble.inputs, []
    for layer, shape in enumerate(zip(ensemble.widths[1:], ensemble.widths, strict=False)):
        W = weight_matrix(ensemble.kinds[layer], ensemble.C_W[layer], shape, rng)
        b = np.sqrt(ensemble.C_b[layer]) * rng.standard_normal(shape[0])
        out.append(X @ W.T + b)
        X = out[-1].copy()
        ensemble.activate(X)
    return out


def record(
    ensemble: Ensemble, degree: int, draws: int, done: Callable[[int], object]
) -> gram.PowerSums:
    """Gram matrices of z^(ℓ), ℓ = 1 … depth, from explicit weights."""
    m, depth = len(ensemble.inputs), ensemble.depth
    kept = gram.monomials(m, degree)
    reference = np.zeros((depth, m * (m + 1) // 2))
    sums = np.zeros((gram.BLOCKS, depth, len(kept)))
    for draw in range(draws):
        for layer, z in enumerate(preactivations(ensemble, draw)):
            entry = (z @ z.T / z.shape[1])[np.triu_indices(m)]
            if draw == 0:
                reference[layer] = entry
            value: dict[gram.Monomial, float] = {(): 1.0}
            for monomial, place in kept.position.items():
                value[monomial] = value[monomial[:-1]] * (entry - reference[layer])[monomial[-1]]
                sums[draw % gram.BLOCKS, layer, place] += value[monomial]
        done(1)
    return gram.PowerSums(kept, reference, sums, draws)
