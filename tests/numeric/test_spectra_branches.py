"""Densities of gates and of several branches: closed forms, both roads, exact moments, matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import qmc

from derive import BiInvariant, InputError
from derive.layers import Layer
from numeric import spectra

TWO = Layer(
    "h[i] = W1[i,a] z[a]",
    "g[i] = W2[i,a] z[a]",
    "z[i] = gamma z[i] + W3[i,a] s(h[a]) + W4[i,a] s(g[a])",
    gamma=1,
)
NESTED = Layer(
    "h[i] = W1[i,a] z[a]",
    "k[i] = z[i] + W2[i,a] s(h[a])",
    "u[i] = W3[i,a] k[a]",
    "z[i] = z[i] + W4[i,a] s(u[a])",
)


def check_moments(s: spectra.Spectrum, order: int, within: float) -> None:
    """Mass 1 and the exact moments, which come from another road: series and partitions."""
    assert type(s) is not spectra.Spectrum
    integrated = s.integrated_moments(order)
    assert abs(integrated[0] - 1.0) < within
    np.testing.assert_allclose(integrated[1:], s.moments(order), rtol=within)


@pytest.mark.parametrize(
    ("activation", "weights", "layer", "depth"),
    [
        ("linear", "gaussian", "dense", 2),
        ("tanh", "gaussian", "residual(skip=1)", 2),
        ("relu", "orthogonal", "residual(skip=1/2)", 3),
    ],
)
def test_both_roads_agree(activation, weights, layer, depth) -> None:
    """Where one coordinate is enough, the system of equations has the same density and edges."""
    one = spectra.jacobian(activation, weights, depth, 1, layer=layer)
    assert type(one) is spectra.Spectrum
    other = type(spectra.jacobian("linear", "gaussian", 1, 1, layer=TWO))(one.law)
    (low, high), *_ = one.edges
    lam = np.geomspace(low + 0.05 * (high - low), 0.97 * high, 5)
    np.testing.assert_allclose(other.density(lam), one.density(lam), rtol=1e-10)
    np.testing.assert_allclose(other.edges, one.edges, rtol=1e-9)
    np.testing.assert_allclose(other.cumulative(lam), one.cumulative(lam), atol=1e-7)
    z = np.array([0.5 + 0.3j, -2 + 0.1j])
    np.testing.assert_allclose(other.generating_function(z), one.generating_function(z), rtol=1e-10)


@pytest.mark.parametrize("gamma", [1, 0])
def test_two_gaussian_branches_are_one_with_the_sum_of_their_variances(gamma) -> None:
    both = Layer(
        "z[i] = gamma z[i] + W1[i,a] z[a] + W2[i,a] z[a]",
        gamma=gamma,
        C={"W1": "3/10", "W2": "1/2"},
    )
    one = Layer("z[i] = gamma z[i] + W[i,a] z[a]", gamma=gamma, C={"W": "4/5"})
    found, known = (spectra.jacobian("linear", "gaussian", 1, 1, layer=x) for x in (both, one))
    lam = np.linspace(0.2, 2.5, 5)
    np.testing.assert_allclose(found.density(lam), known.density(lam), rtol=1e-11)
    np.testing.assert_allclose(found.edges, known.edges, rtol=1e-9, atol=1e-12)


def test_three_haar_matrices_have_the_law_of_kesten_and_mckay() -> None:
    """Of degree 3, on singular values up to 2√2; and with a skip of 1 that of degree 4."""
    sums = {
        3: Layer("z[i] = W1[i,a] z[a] + W2[i,a] z[a] + W3[i,a] z[a]"),
        4: Layer("z[i] = z[i] + W1[i,a] z[a] + W2[i,a] z[a] + W3[i,a] z[a]"),
    }
    for d, layer in sums.items():
        s = spectra.jacobian("linear", "orthogonal", 1, 1, layer=layer)
        values = np.sqrt(4.0 * (d - 1)) * np.linspace(0.1, 0.95, 5)
        expected = d * np.sqrt(4.0 * (d - 1) - values**2) / (np.pi * (d**2 - values**2))
        np.testing.assert_allclose(s.singular_density(values), expected, rtol=1e-11)
        assert s.edges == ((0.0, pytest.approx(4.0 * (d - 1), rel=1e-9)),)


@pytest.mark.parametrize(
    ("activation", "weights", "layer", "depth", "order"),
    [
        ("tanh", "orthogonal", TWO, 1, 4),
        ("linear", "gaussian", NESTED, 1, 4),
        pytest.param("tanh", "gaussian", NESTED, 2, 4, marks=pytest.mark.slow),
    ],
)
def test_densities_have_the_exact_moments(activation, weights, layer, depth, order) -> None:
    check_moments(spectra.jacobian(activation, weights, depth, 1, layer=layer), order, 1e-7)


def test_a_gate_has_no_upper_edge_and_relu_s_zeros_are_an_atom() -> None:
    s = spectra.jacobian("relu", "orthogonal", 1, 1, layer="gated")
    check_moments(s, 3, 1e-7)
    assert s.atoms == {0.0: 0.5}
    assert s.edges[-1][1] == np.inf
    assert s.has_density
    assert s.density([100.0])[0] < s.density([10.0])[0]
    values, density = s.curve(20)
    assert np.isfinite(values).all()
    assert (density > 0.0).all()
    assert (s.density_error([0.5, 2.0]) < 1e-9).all()


def haar(rng, n):
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


def test_explicit_matrices_have_this_law() -> None:
    """γ + W₃ (D₁ W₁ + D₂ W₂) of 512 neurons at the points of a scrambled net, so that the law of D
    does not vary: M(z) is off by some 1/n. With D₂ of other neurons than D₁, the same law but
    independent, it is off by twenty times as much."""
    n, rng = 512, np.random.default_rng(5)
    draws = qmc.Sobol(2, rng=rng).random(n)
    h, g = ndtri(draws).T
    W1, W2, W3 = (haar(rng, n) for _ in range(3))
    law = spectra.jacobian("relu", "orthogonal", 1, 1, layer="gated(skip=1/2)")

    places = np.array([0.3 + 0.2j, 1.0 + 0.3j, 3.0 + 0.5j])
    expected = law.generating_function(places)

    def distance(second) -> float:
        M = np.maximum(g, 0.0)[:, None] * W1 + (h * (second > 0.0))[:, None] * W2
        J = 0.5 * np.eye(n) + W3 @ M
        found = np.linalg.svd(J, compute_uv=False)[:, None] ** 2
        return float(np.abs((found / (places - found)).mean(axis=0) - expected).max())

    assert distance(g) < 0.01
    assert distance(-g) > 0.1


def test_a_density_that_lacks_mass_is_an_error() -> None:
    s = spectra.jacobian("tanh", "orthogonal", 1, 1, layer=TWO)
    (span,) = s._spans
    s.__dict__["_spans"] = (type(span)(span.low, span.high - 0.5, span.off),)
    with pytest.raises(ArithmeticError, match="mass"):
        s.density([0.5])


def test_nodes_that_do_not_resolve_are_an_error_of_every_number() -> None:
    """Those of another law stand for too few: mass and moments are right with any nodes."""
    s = spectra.jacobian("tanh", "orthogonal", 1, 1, layer=TWO)
    s.__dict__["_off"] = 1e-6
    for ask in (
        lambda: s.density([0.5]),
        lambda: s.cumulative([0.5]),
        lambda: s.integrated_moments(1),
    ):
        with pytest.raises(ArithmeticError, match="nodes"):
            ask()
    coarse = spectra.jacobian("tanh", "orthogonal", 1, 1, layer=TWO)
    other = spectra.jacobian("tanh", "gaussian", 1, 1, layer=TWO)
    coarse.__dict__["_paths"] = other._paths
    with pytest.raises(ArithmeticError, match="nodes"):
        coarse.generating_function([0.5 + 0.1j])


def test_errors_next_to_edges_and_of_integrals_bound_what_is_off() -> None:
    """Against one branch with the sum of the variances, by another road."""
    both = Layer("z[i] = z[i] + W1[i,a] z[a] + W2[i,a] z[a]", C={"W1": "3/10", "W2": "1/2"})
    one = Layer("z[i] = z[i] + W[i,a] z[a]", C={"W": "4/5"})
    found, known = (spectra.jacobian("linear", "gaussian", 1, 1, layer=x) for x in (both, one))
    ((low, high),) = known.edges
    away = np.array([1e-8, 1e-6, 1e-4])
    lam = np.concatenate([low * (1.0 + away), high * (1.0 - away)])
    stated = found.density_error(lam)
    assert (np.abs(found.density(lam) - known.density(lam)) <= stated).all()
    assert (stated < 1e-3 * known.density(lam)).all()
    middle = np.array([0.1, 1.0, 3.0])
    stated = found.cumulative_error(middle) + known.cumulative_error(middle)
    assert (np.abs(found.cumulative(middle) - known.cumulative(middle)) <= stated).all()


def test_mass_far_down_is_found() -> None:
    """λρ falls as a small power of λ for two gates: 2·10⁻⁵ of the mass are below e^{−60} of the
    mean."""
    check_moments(spectra.jacobian("silu", "gaussian", 2, 1, layer="gated"), 1, 2e-7)


def test_what_cannot_be_had_is_named() -> None:
    """Digits, edges as points of one curve, and branches that are known by their moments alone."""
    s = spectra.jacobian("tanh", "gaussian", 1, 1, layer=TWO)
    with pytest.raises(InputError, match="one coordinate"):
        s.table([1.0], precision=20)
    with pytest.raises(InputError, match="one coordinate"):
        _ = s.intervals
    with pytest.raises(InputError, match="positive imaginary"):
        s.generating_function([1.0])
    with pytest.raises(InputError, match="finite"):
        s.log_density([np.inf])
    moments = BiInvariant(1, moments=(1, 2, 5, 14, 42))
    unknown = spectra.jacobian("tanh", moments, 1, 1, layer=TWO)
    assert not unknown.has_density
    with pytest.raises(InputError, match="moments have no density"):
        unknown.density([1.0])
    table = s.table([1.0], order=2)
    assert float(table["density_error"][0]) < 1e-9
    assert np.isfinite(table["edges_error"]).all()
