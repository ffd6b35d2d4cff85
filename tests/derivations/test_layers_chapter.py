"""The chapter on layers: its moments by hand, and what would be noticed."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.layers.by_moments import PreNorm
from derivations.layers.finite_width import limits


@pytest.mark.parametrize("n", [16, 64, 300])
def test_moments_on_the_sphere_are_exact_for_polynomials(n):
    # E h_1² = C, E h_1⁴ = 3C²n/(n+2), E h_1⁴ h_2⁴ = 9 C⁴ n³/((n+2)(n+4)(n+6))
    C = 1.7
    linear = PreNorm(lambda z: z, haar=True, C_W=C)
    np.testing.assert_allclose(linear.squares(n), [C, C**2], rtol=1e-11)
    square = PreNorm(np.square, haar=True, C_W=C)
    eighth = 105 * n**4 / (n * (n + 2) * (n + 4) * (n + 6))
    fourth = 9 * n**4 / (n * (n + 2) * (n + 4) * (n + 6))
    expected = [3 * C**2 * n / (n + 2), C**4 * (eighth + (n - 1) * fourth) / n]
    np.testing.assert_allclose(square.squares(n), expected, rtol=1e-11)


@pytest.mark.parametrize("haar", [False, True])
def test_moments_are_those_of_sampled_blocks(haar):
    n, C, skip, rng = 6, 1.3, 0.5, np.random.default_rng(4)
    layer = PreNorm(np.tanh, haar, "residual", skip, C)

    def matrix(v):
        g = rng.standard_normal((len(v), n))
        length = np.sqrt(C * (v**2).sum(1, keepdims=True))
        return length * g / (np.linalg.norm(g, axis=1, keepdims=True) if haar else np.sqrt(n))

    z = rng.standard_normal((200_000, n))
    y = z * np.sqrt(n) / np.linalg.norm(z, axis=1, keepdims=True)
    after = skip * z + matrix(np.tanh(matrix(y)))
    q = (after**2).mean(1)
    mean, vertex = layer.run((1.0, 1 + 2 / n), n, 2)[:, 1]
    square = (vertex / n + mean**2) * (1 + 2 / n)
    for sample, exact in ((q, mean), (q**2, square)):
        error = sample.std() / np.sqrt(len(sample))
        assert abs(sample.mean() - exact) < 5 * error  # 4 scores, a false alarm in 4·10⁵
        assert error < 0.01 * exact


def test_orthogonal_and_gaussian_blocks_are_told_apart():
    runs = [limits(PreNorm(np.tanh, haar, "residual", 1.0), 1.0) for haar in (False, True)]
    (V, G1), (other, slope) = runs
    assert np.all(V[1:] - other[1:] > 0.1)
    assert np.abs(G1).max() < 1e-6
    assert slope[-1] > 0.1
