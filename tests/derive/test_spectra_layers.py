"""Jacobians of layers with skips, norms and gates: free probability, exact values, ensembles."""

from __future__ import annotations

from math import comb

import mpmath
import numpy as np
import pytest
import sympy

from derive import Gaussian, InputError, Network, Orthogonal, layers, spectra
from derive.spectra import Atomic, Product, Rational
from derive.spectra.ensembles import gaussian
from derive.spectra.gates import HaarGates, alternating, complement, words
from derive.spectra.skips import Around

ONE = sympy.Integer(1)
TWO_SKIPS = layers.Layer(
    "h[i] = W1[i,a] z[a]",
    "u[i] = z[i] + W2[i,a] s(h[a])",
    "g[i] = W3[i,a] u[a]",
    "z[i] = u[i]/2 + W4[i,a] s(g[a])",
)


def test_one_plus_a_haar_matrix_has_central_binomials() -> None:
    """|1 + e^{iθ}|² = 2 + 2 cos θ, θ uniform: an arcsine law."""
    law = Around(ONE, (Rational(ONE),))
    assert [law.moment(k) for k in range(1, 7)] == [comb(2 * k, k) for k in range(1, 7)]


def test_the_moments_of_a_skip_by_words() -> None:
    """E tr |γ + A|⁴ = γ⁴ + 4 γ² m_1 + m_2, for words have as many A as Aᵀ; of Gaussian A the
    sixth has γ² (6 m_2 + 3 m_1²), of AAᵀAAᵀ and AAAᵀAᵀ, and γ⁴ 9 m_1."""
    C, g = sympy.symbols("C gamma", positive=True)
    law = Around(g, (gaussian(C),))
    expected = g**6 + 9 * g**4 * C + 15 * g**2 * C**2 + 5 * C**3
    assert sympy.expand(law.moment(2) - (g**4 + 4 * g**2 * C + 2 * C**2)) == 0
    assert sympy.expand(law.moment(3) - expected) == 0
    half = Atomic({0: "1/2", 1: "1/2"})
    found = Around(g, (Product((half, gaussian(C))),))
    first, second = C / 2, sympy.Rational(3, 4) * C**2
    assert sympy.expand(found.moment(2) - (g**4 + 4 * g**2 * first + second)) == 0


def test_branches_add_as_gaussian_matrices_do() -> None:
    one = Around(ONE, (gaussian(3 * ONE),))
    two = Around(ONE, (gaussian(ONE), gaussian(2 * ONE)))
    assert [one.moment(k) for k in range(1, 6)] == [two.moment(k) for k in range(1, 6)]
    assert one.S_series(3) == two.S_series(3)


def test_what_a_branch_does_not_reach_is_an_atom() -> None:
    rare = Atomic({0: "4/5", 1: "1/5"})
    law = Around(sympy.Rational(1, 2), (Product((rare, Rational(ONE))),))
    assert law.atoms == {sympy.Rational(1, 4): sympy.Rational(3, 5)}


def test_a_norm_alone_scales_the_dense_jacobian() -> None:
    """y = z/√K has variance 1, whatever K is."""
    plain = spectra.jacobian("hard_tanh", "orthogonal", 3, 1, critical=False)
    normed = spectra.jacobian("hard_tanh", "orthogonal", 3, 4, layer="normalized(rms)")
    for k in (1, 2, 3):
        assert sympy.N(normed.moment(k) - plain.moment(k) / 4 ** (3 * k)) == pytest.approx(0)


def test_moments_are_exact_in_the_depth() -> None:
    L = sympy.Symbol("L")
    weights = Orthogonal(sympy.Rational(3, 2))
    block = layers.residual(skip="1/2")
    found = spectra.jacobian("relu", weights, L, layer=block)
    assert sympy.simplify(found.moment(1) - sympy.Rational(11, 8) ** L) == 0
    assert found.moment(2).subs(L, 2) == spectra.jacobian("relu", weights, 2, layer=block).moment(2)


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ("residual(ratio=4)", "as many neurons"),
        (
            layers.Layer("h[i] = W1[i,a] z[a]", "z[i] = z[i] + W2[i,a] s(h[a]) + W3[i,a] h[a]"),
            "share a matrix",
        ),
    ],
)
def test_what_is_not_free_is_refused(layer, wanted) -> None:
    with pytest.raises(InputError, match=wanted):
        spectra.jacobian("silu", "orthogonal", 1, 1, layer=layer)


def haar(rng, n):
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


def slope(z):
    return 1.0 - np.tanh(z) ** 2


def normed(z):
    """y = z/√q and its derivative."""
    scale = 1.0 / np.sqrt(z @ z / len(z))
    y = z * scale
    return y, scale * (np.eye(len(z)) - np.outer(y, y) / len(z))


def block(rng, n, z):
    y, P = normed(z)
    W1, W2 = haar(rng, n), haar(rng, n)
    h = W1 @ y
    return z + W2 @ np.maximum(h, 0.0), np.eye(n) + W2 @ ((h > 0)[:, None] * W1) @ P


def gate(rng, n, z):
    y, P = normed(z)
    W1, W2, W3 = rng.normal(size=(3, n, n)) / np.sqrt(n)
    h, g = W1 @ y, W2 @ y
    inside = np.tanh(g)[:, None] * W1 + (h * slope(g))[:, None] * W2
    return z + W3 @ (h * np.tanh(g)), np.eye(n) + W3 @ inside @ P


def two_skips(rng, n, z):
    W1, W2, W3, W4 = rng.normal(size=(4, n, n)) / np.sqrt(n)
    h = W1 @ z
    u, J = z + W2 @ np.tanh(h), np.eye(n) + W2 @ (slope(h)[:, None] * W1)
    g = W3 @ u
    return u / 2 + W4 @ np.tanh(g), J / 2 + W4 @ (slope(g)[:, None] * W3) @ J


def haar_gate(rng, n, z):
    y, P = normed(z)
    W1, W2, W3 = (haar(rng, n) for _ in range(3))
    h, g = W1 @ y, W2 @ y
    inside = np.maximum(g, 0.0)[:, None] * W1 + (h * (g > 0))[:, None] * W2
    return z + W3 @ (h * np.maximum(g, 0.0)), np.eye(n) + W3 @ inside @ P


@pytest.mark.parametrize(
    ("activation", "weights", "layer", "move"),
    [
        ("relu", Orthogonal(), "residual(skip=1, norm=rms)", block),
        ("tanh", Gaussian(), "gated(skip=1, norm=rms)", gate),
        ("tanh", Gaussian(), TWO_SKIPS, two_skips),
        ("relu", Orthogonal(), "gated(skip=1, norm=rms)", haar_gate),
    ],
)
def test_explicit_networks_have_these_moments(activation, weights, layer, move) -> None:
    """Two widths, extrapolated in 1/n; bound 5 of 6 comparisons, false alarms 3e-6."""
    law = spectra.of_network(Network(activation, weights, layer=layer), 2, 3)
    expected = np.array([float(sympy.N(law.moment(k))) for k in (1, 2)])
    rng, means, errors = np.random.default_rng(7), [], []
    for n, draws in ((24, 160), (48, 80)):
        rows = []
        for _ in range(draws):
            z, J = rng.normal(size=n), np.eye(n)
            z *= np.sqrt(2 * n) / np.linalg.norm(z)
            for _ in range(2):
                z, step = move(rng, n, z)
                J = step @ J
            eigenvalues = np.linalg.svd(J, compute_uv=False) ** 2
            rows.append([np.mean(eigenvalues**k) for k in (1, 2)])
        means.append(np.mean(rows, axis=0))
        errors.append(np.std(rows, axis=0) / np.sqrt(draws))
    found, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    assert (error < 0.15 * expected).all()
    assert (np.abs(found - expected) < 5 * error).all()


def test_dropout_is_one_law_of_slope_and_mask() -> None:
    """D = μσ'/p, a diagonal: of ReLU 1/p² with chance p/2, so m_2/m_1² is 2/p at each layer, and 1
    more for each Gaussian matrix."""
    p, L = sympy.Symbol("p", positive=True), sympy.Symbol("L", positive=True)
    given = {"q_star": 1, "layer": layers.dropout(p)}
    through = spectra.jacobian("relu", Orthogonal(), L, **given)
    assert sympy.simplify(through.moment(1) - (1 / (2 * p)) ** L) == 0
    assert sympy.simplify(through.moment(2) / through.moment(1) ** 2 - 1 - L * (2 / p - 1)) == 0
    net = Network("relu", Gaussian(C_W=1), layer="dropout(1/2)")
    assert [spectra.of_network(net, 1, 4).moment(k) for k in (1, 2)] == [1, 1 + 3 * (3 + 1)]


@pytest.mark.parametrize("sigma", ["tanh", "gelu"])
def test_masked_slopes(sigma: str) -> None:
    """m_k p^{1−2k}, and 0 with chance 1 − p and more."""
    law, half = spectra.slope_law(sigma, 1), sympy.Rational(1, 2)
    found = spectra.Masked(law, half)
    for k in (1, 2):
        assert abs(sympy.N(found.moment(k) - 2 ** (2 * k - 1) * law.moment(k), 20)) < 1e-18
    assert found.atoms == {0: half}
    at = mpmath.mpc(-1, 2)
    assert abs(found.M_at(at) - law.M_at(at / 4) / 2) < 1e-12


def test_partitions_of_letters_in_turn() -> None:
    """(3k choose k)/(2k + 1) of them; with its complement each has 2k + 1 blocks, and the
    complement's have gaps of one parity, which is what leaves one diagonal behind each."""
    for k in range(1, 5):
        found = list(alternating(tuple(range(2 * k))))
        assert len(found) == len(set(found)) == comb(3 * k, k) // (2 * k + 1)
        for blocks in found:
            gaps = complement(blocks, 2 * k)
            assert len(blocks) + len(gaps) == 2 * k + 1
            assert all(len({gap % 2 for gap in each}) == 1 for each in gaps)


def test_gates_that_are_constants() -> None:
    """With D₁ = 1 and D₂ a random sign M is U₁ + U₂ in law, the arcsine's."""
    for k in range(1, 6):
        assert sum(words(k).values()) == comb(2 * k, k)
        alone = {each: c for each, c in words(k).items() if all(b == 0 for _, b in each) and c}
        assert alone == {((2 * k, 0),): 1}


def test_a_gate_that_is_shut_has_an_atom() -> None:
    """ReLU gates half of the neurons, so that J has rank n/2."""
    for weights in (Gaussian(), Orthogonal()):
        law = spectra.jacobian("relu", weights, 1, 1, layer="gated")
        assert law.atoms == {0: sympy.Rational(1, 2)}
    with pytest.raises(InputError, match="7"):
        HaarGates(Network("relu").activation, ONE, ONE, ONE, ONE).moment(8)
