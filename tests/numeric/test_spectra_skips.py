"""Densities around a skip: closed forms, a cubic, exact moments, explicit matrices, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from derive import InputError, LowRankOrthogonal, Network, layers
from derive import spectra as symbolic
from derive.layers import Layer
from numeric import spectra
from numeric.spectra import edges

TWO_BRANCHES = layers.Layer(
    "h[i] = W1[i,a] z[a]", "g[i] = W2[i,a] z[a]", "z[i] = z[i] + W3[i,a] s(h[a]) + W4[i,a] s(g[a])"
)


def around(activation, weights, depth, skip=1.0, C=1.0, q=1):
    """Of blocks γ z + W₂ σ(W₁ z), C the variance of W₁ and 1 that of W₂."""
    layer = layers.residual(skip=str(skip), C=(str(C), 1))
    return spectra.jacobian(activation, weights, depth, q, layer=layer)


def check_moments(s: spectra.Spectrum, order: int = 4, within: float = 1e-9) -> None:
    """Mass 1 and the exact moments of Lagrange's series, by the density and the atoms."""
    integrated = s.integrated_moments(order)
    assert abs(integrated[0] - 1.0) < within
    np.testing.assert_allclose(integrated[1:], s.moments(order), rtol=within)


@pytest.mark.parametrize(("gamma", "c"), [(1.0, 1.0), (0.5, 2.0), (-2.0, 0.5)])
def test_a_number_and_a_haar_matrix_have_the_arcsine_law(gamma, c) -> None:
    """λ = γ² + c² + 2γc cos φ, φ uniform."""
    s = around("linear", "orthogonal", 1, gamma, c**2)
    low, high = (abs(gamma) - c) ** 2, (abs(gamma) + c) ** 2
    assert s.edges == ((pytest.approx(low, rel=1e-14), pytest.approx(high, rel=1e-14)),)
    lam = np.linspace(low, high, 11)[1:-1]
    np.testing.assert_allclose(
        s.density(lam), 1 / (np.pi * np.sqrt((lam - low) * (high - lam))), rtol=1e-12
    )
    below = np.arccos((gamma**2 + c**2 - lam) / (2 * abs(gamma) * c)) / np.pi
    np.testing.assert_allclose(s.cumulative(lam), below, atol=1e-9)
    check_moments(s)


@pytest.mark.parametrize(("gamma", "c"), [(1.0, 0.1), (1.0, 0.05), (0.3, 5.0)])
def test_the_arcsine_law_is_integrated_up_to_its_poles(gamma, c) -> None:
    """Points beside them, where w is some 10⁵, are lost."""
    s = around("linear", "orthogonal", 1, gamma, c**2)
    cosines = np.linspace(-1, 1, 11)[1:-1]
    lam = gamma**2 + c**2 + 2 * gamma * c * cosines
    np.testing.assert_allclose(s.cumulative(lam), 1 - np.arccos(cosines) / np.pi, atol=1e-8)
    check_moments(s)


def test_eigenvalues_above_a_pole_at_an_edge_have_its_whole_bulk_below() -> None:
    """Next to the pole of the lower bulk the mass grows as a root: one rounding has some 1e-8."""
    s = spectra.jacobian("relu", "gaussian", 1, layer="residual()")
    assert s.edges[0][1] == pytest.approx(1.0, rel=1e-14)
    above = 3.0 * np.array([s.edges[1][1]])
    assert abs(s.cumulative(above) - 1.0) <= s.cumulative_error(above)


@pytest.mark.parametrize(("gamma", "variance"), [(1.0, 1.0), (2.0, 0.5), (0.5, 2.0)])
def test_a_number_and_a_gaussian_matrix_obey_a_cubic(gamma, variance) -> None:
    """m = ∫ρ(λ)/(λ − z) dλ has m = 1/(γ²/(1 + c²m) − (1 + c²m) z), c² the variance: Dozier and
    Silverstein, *J. Multivariate Anal.* 98 (2007), eq. 1.1, square matrices and a constant A."""
    one = Layer("z[i] = gamma z[i] + W[i,a] z[a]", gamma=str(gamma), C={"W": str(variance)})
    s = spectra.jacobian("linear", "gaussian", 1, 1, layer=one)
    points = np.array([0.3 + 0.2j, -1 + 1j, 4 + 0.01j])
    m = -(1 + s.generating_function(points)) / points
    inner = 1 + variance * m
    np.testing.assert_allclose(m, 1 / (gamma**2 / inner - inner * points), rtol=1e-11)
    (low, _), *others = s.edges
    assert not others
    assert (low == 0.0) == (variance >= gamma**2)
    check_moments(s)


@pytest.mark.parametrize(
    ("activation", "weights", "depth", "skip", "C"),
    [
        ("relu", "orthogonal", 1, 1, 1),
        ("relu", "gaussian", 100, 0.9, 0.1),
        ("hard_tanh", "orthogonal", 3, 0.5, 2),
        ("tanh", "gaussian", 4, 1, 1),
        pytest.param("gelu", "orthogonal", 2, 1.5, 0.5, marks=pytest.mark.slow),
        ("linear", "gaussian", 5, 1, 1),
        ("tanh", LowRankOrthogonal(gamma="3/4"), 2, 1, 1),
    ],
)
def test_densities_have_the_exact_moments(activation, weights, depth, skip, C) -> None:
    check_moments(around(activation, weights, depth, skip, C))


def test_what_the_branch_does_not_reach_is_an_atom_in_a_bulk_or_beside_it() -> None:
    """Half of the values of A are 0: of mass 2·3/4 − 1 behind hard tanh's and a projector's."""
    s = around("linear", LowRankOrthogonal(gamma="1/4"), 1, "1.5", 4)
    assert s.atoms == {2.25: 0.5}
    (low, high), *others = s.edges
    assert low < 2.25 < high or others
    check_moments(s)


def test_a_branch_with_as_many_zeros_as_values_leaves_a_gap_above_the_skip() -> None:
    """ReLU's one block: the atom at γ² has mass 2·½ − 1 = 0, and the density ends there as
    (γ² − λ)^{−1/2}."""
    s = around("relu", "orthogonal", 1)
    (_, top), (bottom, _) = s.edges
    assert top == pytest.approx(1.0, rel=1e-14)
    assert bottom > 1.04
    near, nearer = s.density([1 - 1e-6, 1 - 1e-8])
    assert nearer / near == pytest.approx(10.0, rel=1e-2)


def test_an_atom_that_is_about_to_be_born_within_a_bulk_parts_it() -> None:
    """Two blocks, each with half of its mass at γ²: at γ⁴ a mass of ½ + ½ − 1."""
    s = around("linear", LowRankOrthogonal(gamma="1/4"), 2, "1.5", 4)
    assert not s.atoms
    (_, first), (second, _) = s.edges
    assert first == second == pytest.approx(1.5**4, rel=1e-14)
    check_moments(s)


@pytest.mark.parametrize(
    ("gamma", "skip", "C"), [("9/10", "0.3", 25), ("9/10", "0.03", "0.55"), ("19/20", "1.05", "29")]
)
def test_a_bulk_between_the_atom_that_vanishes_and_another_gap(gamma, skip, C) -> None:
    """Two gaps on one branch of the curve, whose M is infinite at γ²: the first alone begins
    there."""
    s = around("relu", LowRankOrthogonal(gamma=gamma), 1, skip, C)
    _, (low, high), (last, _) = s.edges
    assert float(skip) ** 2 < low < high < last
    assert s.density([0.5 * (low + high)])[0] > 0.0
    check_moments(s)


def test_gaps_that_overlap_are_an_error(monkeypatch) -> None:
    """The gap that began at γ² over another one, as it once did."""
    s = around("linear", "orthogonal", 1)
    (arc, *_) = edges._arcs(s.problem)
    first, second = (-2.4, 1.38, None, None), (-2.4, 3.36, None, None)
    monkeypatch.setattr(arc, "gaps", lambda: iter([first, second]))
    monkeypatch.setattr(edges, "_arcs", lambda problem: [arc])
    with pytest.raises(ArithmeticError, match="overlap"):
        edges.bulks(s.problem)
    monkeypatch.setattr(arc, "gaps", lambda: iter([first, first]))
    assert edges.bulks(s.problem) == ()


def test_a_density_that_lacks_mass_is_an_error() -> None:
    """A bulk left out: nothing is returned, not even where the others are."""
    whole, s = (around("relu", "orthogonal", 1) for _ in range(2))
    s.__dict__["_bulks"] = whole.intervals[:1]
    assert whole.density([0.5])[0] > 0.0
    with pytest.raises(ArithmeticError, match="mass"):
        s.density([0.5])


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    gamma=st.floats(0.1, 3.0).map(lambda x: round(x, 2)),
    C=st.floats(0.05, 8.0).map(lambda x: round(x, 2)),
    depth=st.integers(1, 100),
    activation=st.sampled_from(["linear", "relu", "hard_tanh"]),
    weights=st.sampled_from(["gaussian", "orthogonal"])
    | st.integers(5, 19).map(lambda k: LowRankOrthogonal(gamma=f"{k}/20")),
)
@example(gamma=0.3, C=25, depth=1, activation="relu", weights=LowRankOrthogonal(gamma="9/10"))
def test_any_skip_variance_and_depth_have_mass_one(gamma, C, depth, activation, weights) -> None:
    s = around(activation, weights, depth, gamma, C)
    try:
        check_moments(s, order=2)
    except ArithmeticError:  # a refusal, where M has a pole; a wrong mass is none
        return
    low, high = s.edges[0][0], s.edges[-1][1]
    assert not s.density([high * 1.001]).any()
    if low > 0.0:
        assert not s.density([low * 0.999]).any()


@pytest.mark.parametrize(
    ("activation", "layer", "depth"),
    [
        ("hard_tanh", "residual(skip=1)", 3),
        ("hard_tanh", "dense; residual(skip=1); normalized(rms)", 2),
        ("linear", "residual(skip=1, norm=layer)", 2),
        pytest.param("tanh", "residual(skip=1)", 3, marks=pytest.mark.slow),
    ],
)
def test_blocks_that_differ_by_depth(activation, layer, depth) -> None:
    """Variances that grow with depth: as many laws as layers, beside other layers too."""
    net = Network(activation, "gaussian", layer=layer)
    check_moments(spectra.of_network(net, 1, depth + 1))


def test_zeros_of_other_layers_and_a_skip() -> None:
    """The zeros of a dense layer are an atom, beside a gap that ends where a block's x is below
    0; with weak branches of weights of rank n/2 the edges of branch and sum are close."""
    net = Network("relu", "orthogonal", layer="dense; residual(skip=1)")
    s = spectra.of_network(net, 1, 3)
    assert s.atoms == {0.0: 0.5}
    assert s.edges[0][0] > 0.28
    check_moments(s)
    check_moments(around("tanh", LowRankOrthogonal(gamma="1/2"), 1, "0.01", 20, 0.3))


@pytest.mark.parametrize(
    "layer", [None, layers.residual(skip="1/2", C=(1, 1))], ids=["dense", "skip"]
)
def test_masses_that_differ_from_one_after_110_digits_are_compared(layer) -> None:
    """Zeros of hard tanh at a variance of 1/500, 1 − erf(√250): e^(−250)/√(250π) to 1/500."""
    found = spectra.jacobian("hard_tanh", "orthogonal", 3, 0.002, layer=layer).atoms
    expected = np.exp(-250) / np.sqrt(250 * np.pi)
    assert found == {} if layer else found[0.0] == pytest.approx(expected, rel=1 / 400)


def test_equal_blocks_one_by_one_are_a_power() -> None:
    """The same two factors as one block of count 2 and as two blocks."""
    whole = around("hard_tanh", "gaussian", 2)
    (factor,) = whole.law.factors
    single = symbolic.Factor(factor.law, sympy.Integer(1))
    apart = spectra.Spectrum(symbolic.Jacobian((single, single)))
    np.testing.assert_allclose(apart.edges, whole.edges, rtol=1e-10)
    lam = np.geomspace(whole.edges[0][0] + 1e-3, whole.edges[-1][1] * 0.999, 7)
    np.testing.assert_allclose(apart.density(lam), whole.density(lam), rtol=1e-9)


def haar(rng, n):
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_explicit_matrices_have_this_law(weights) -> None:
    """Two blocks γ + W₂ D W₁ of 300 neurons, D of tanh at its variance: Kolmogorov and Smirnov's
    distance, of rigid eigenvalues some log(n)/n, is below 0.015; of γ a tenth off it is above."""
    n, rng, gamma = 300, np.random.default_rng(3), 0.8
    J = np.eye(n)
    for _ in range(2):
        W1, W2 = (
            rng.normal(size=(n, n)) / np.sqrt(n) if weights == "gaussian" else haar(rng, n)
            for _ in range(2)
        )
        slopes = 1 / np.cosh(rng.normal(size=n)) ** 2
        J = (gamma * np.eye(n) + W2 @ (slopes[:, None] * W1)) @ J
    found = np.sort(np.linalg.svd(J, compute_uv=False) ** 2)
    steps = (np.arange(n) + 0.5) / n

    def distance(skip: float) -> float:
        law = around("tanh", weights, 2, skip)
        return float(np.abs(law.cumulative(found, points=600) - steps).max())

    assert distance(gamma) < 0.015
    assert distance(1.1 * gamma) > 0.03


def test_the_error_bounds_what_is_off() -> None:
    s = around("linear", "orthogonal", 1, 1.0, 1.0)
    lam = np.array([0.5, 2.0, 3.9])
    off = np.abs(s.density(lam) - 1 / (np.pi * np.sqrt(lam * (4 - lam))))
    assert (off <= s.density_error(lam)).all()
    assert (s.density_error(lam) < 1e-11).all()
    assert np.isfinite(s.edges_error).all()


def test_what_has_no_density_is_named() -> None:
    """Gates and several branches by one coordinate, and digits."""
    gates = symbolic.jacobian("tanh", "gaussian", 1, 1, layer="gated(skip=1)")
    several = symbolic.jacobian("tanh", "gaussian", 1, 1, layer=TWO_BRANCHES)
    for law in (gates, several):
        s = spectra.Spectrum(law)
        assert not s.has_density
        with pytest.raises(InputError, match="skips around one branch"):
            s.density(1.0)
    s = around("relu", "gaussian", 2)
    assert s.has_density
    with pytest.raises(InputError, match="precision"):
        s.table([1.0], precision=20)
