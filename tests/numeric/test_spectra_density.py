"""Compiled densities: closed forms, exact moments, an mpmath solve by another road, branches."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from resolvent import generating_function
from scipy.special import lambertw

from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    activations,
)
from derive import spectra as symbolic
from numeric import spectra


def test_gaussian_matrix_is_marchenko_and_pastur() -> None:
    s = spectra.jacobian(activations.linear, Gaussian(), depth=1)
    lam = np.array([1e-12, 1e-6, 0.1, 1.0, 3.0, 3.9, 4 - 1e-3])
    np.testing.assert_allclose(
        s.density(lam), np.sqrt((4 - lam) / lam) / (2 * np.pi), rtol=1e-11, atol=0
    )
    assert s.edges == ((0.0, pytest.approx(4, rel=1e-14)),)
    assert s.density([5.0, 1e6]).tolist() == [0.0, 0.0]


def test_low_rank_gaussian_layer_is_marchenko_and_pastur_with_its_atom() -> None:
    gamma = 0.25
    s = spectra.jacobian(activations.linear, LowRankGaussian(gamma=gamma), depth=1)
    low, high = (1 - gamma**-0.5) ** 2, (1 + gamma**-0.5) ** 2
    assert s.edges == ((pytest.approx(low, rel=1e-12), pytest.approx(high, rel=1e-12)),)
    assert s.atoms == {0.0: 0.75}
    lam = np.linspace(low, high, 9)[1:-1]
    exact = gamma * np.sqrt((high - lam) * (lam - low)) / (2 * np.pi * lam)
    np.testing.assert_allclose(s.density(lam), exact, rtol=1e-11)


def test_two_projections_are_free_jacobi() -> None:
    """hard tanh at two layers: PQP of two free projections of trace p > 1/2, scaled by 1/p²."""
    q = 1 / sympy.Integer(2)
    p = float(sympy.N(symbolic.slope_law(activations.hard_tanh, q).mean))
    s = spectra.jacobian(activations.hard_tanh, Orthogonal(), depth=2, q_star=q)
    assert s.atoms == pytest.approx({0.0: 1 - p, p**-2: 2 * p - 1})
    top = 4 * p * (1 - p)
    t = np.linspace(0, top, 9)[1:-1]
    exact = np.sqrt((top - t) / t) / (2 * np.pi * (1 - t))
    np.testing.assert_allclose(s.density(t / p**2) / p**2, exact, rtol=1e-10)


@pytest.mark.parametrize(("ratio", "depth"), [(0.5, 1), (0.5, 3), (1.0, 2), (2.0, 1), (2.0, 5)])
def test_one_smooth_layer_is_a_change_of_variables(ratio: float, depth: int) -> None:
    """At L = 1 with orthogonal weights: JJᵀ is D² itself, 2 φ(h)/|f'(h)| at f(h) = λ; and deeper,
    the singular values' density is that of the eigenvalues in another variable."""
    s = spectra.jacobian(activations.erf_unit_slope, Orthogonal(), depth=depth, q_star=ratio)
    if depth == 1:
        a, C = np.pi * ratio / 2, np.sqrt(1 + np.pi * ratio)
        h = np.array([0.2, 0.7, 1.5, 3.0])
        lam = C * np.exp(-a * h * h)
        exact = 2 * np.exp(-h * h / 2) / np.sqrt(2 * np.pi) / (2 * a * h * lam)
        np.testing.assert_allclose(s.density(lam), exact, rtol=1e-9)
    values = np.array([0.3, 0.9, 1.1])
    np.testing.assert_allclose(s.singular_density(values), 2 * values * s.density(values**2))


CASES = [
    (activations.linear, Gaussian(), 128, None),
    (activations.relu, Orthogonal(), 2, None),
    (activations.relu, Gaussian(), 8, None),
    (activations.leaky_relu(0.3), Orthogonal(), 2, None),
    (activations.leaky_relu(-0.4), Truncated(ratio=1.5), 5, None),
    (activations.hard_tanh, Orthogonal(), 16, 0.1),
    (activations.hard_tanh, LowRankOrthogonal(gamma=0.9), 100, 0.5),
    (activations.shifted_relu, LowRankGaussian(gamma=0.4), 7, 0.2),
    (activations.erf_unit_slope, Orthogonal(), 4, 0.2),
    (activations.erf_unit_slope, Orthogonal(), 10_000, 0.01),
    (activations.erf_unit_slope, LowRankOrthogonal(gamma=0.5), 4, 0.2),
    (activations.tanh, Orthogonal(), 1000, 0.01),
    (activations.tanh, LowRankGaussian(gamma=0.3), 3, 2),
    (activations.arctan, Gaussian(), 2, 0.5),
    (activations.silu, Gaussian(), 16, 0.3),
    (activations.gelu, Orthogonal(), 8, 0.1),
    (activations.silu, Orthogonal(), 32, 1e-4),  # φ' has its limits where no q* reaches
    (activations.softplus, Gaussian(), 4, 60),
]


@pytest.mark.parametrize(("activation", "weights", "depth", "q"), CASES, ids=str)
def test_mass_and_moments_against_the_exact_ones(activation, weights, depth, q) -> None:
    s = spectra.jacobian(activation, weights, depth, q)
    found, exact = s.integrated_moments(3), s.moments(3)
    assert found[0] == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(found[1:], exact, rtol=1e-9)


@pytest.mark.parametrize(
    ("kind", "ratio"), [("bernoulli", None), ("smooth", None), ("leaky", 0.25), ("leaky", 2)]
)
@pytest.mark.parametrize("sigma0", [0.2, 0.5, 1.3])
def test_mass_and_moments_of_limits(kind: str, ratio: float | None, sigma0: float) -> None:
    s = spectra.limit(kind, sigma0, ratio)
    found = s.integrated_moments(3)
    assert found[0] == pytest.approx(1, abs=1e-10)
    np.testing.assert_allclose(found[1:], s.moments(3), rtol=1e-10)
    symbolic_edges = [float(sympy.N(edge)) for edge in s.law.edges]
    np.testing.assert_allclose(s.edges[0], symbolic_edges, rtol=1e-12)


def test_bernoulli_limit_is_lamberts() -> None:
    s = spectra.limit("bernoulli", 0.5)
    lam = np.array([1e-8, 1e-3, 0.1, 0.5, 0.67])
    W = lambertw(-0.25 / lam + 0j, 0)
    exact = np.abs((0.25 / (lam * (0.25 + W))).imag) / np.pi
    np.testing.assert_allclose(s.density(lam), exact, rtol=1e-11)
    assert s.atoms == pytest.approx({np.exp(0.25): 0.75})


@pytest.mark.parametrize(
    ("activation", "weights", "depth", "q", "tolerance"),
    [
        (activations.hard_tanh, Orthogonal(), 16, "0.1", 1e-11),
        (activations.leaky_relu("0.3"), Gaussian(), 8, None, 1e-11),
        (activations.erf_unit_slope, Orthogonal(), 128, "0.05", 1e-11),
        *(
            pytest.param(*case, 1e-8, marks=pytest.mark.slow)
            for case in ((activations.tanh, LowRankOrthogonal(gamma="1/2"), 3, "0.3"),)
        ),
    ],
    ids=str,
)
def test_against_mpmath_from_another_start(activation, weights, depth, q, tolerance) -> None:
    s = spectra.jacobian(activation, weights, depth, q)
    point = 1.3 + 0.05j
    oracle = complex(generating_function(s.law, mpmath.mpc(point), 15))
    assert complex(s.generating_function(point)) == pytest.approx(oracle, rel=tolerance)


def test_the_oracle_has_the_digits_that_it_is_asked_for() -> None:
    """(1 + M)² = z M of one Gaussian matrix (Marchenko and Pastur)."""
    z = mpmath.mpc(1, 2) / 3
    M = generating_function(symbolic.jacobian("linear", "gaussian", 1), z, 40)
    with mpmath.workdps(50):
        assert abs((1 + M) ** 2 - z * M) < 1e-39


def test_zero_padded_and_layered_against_mpmath() -> None:
    q = sympy.Rational(1, 5)
    laws = (
        spectra.zero_padded(activations.erf_unit_slope, 0.5, 4, q),
        spectra.layered(
            [
                (activations.hard_tanh, Orthogonal(1.2), q),
                (activations.leaky_relu(0.5), Gaussian(), 1),
            ]
        ),
        spectra.jacobian(symbolic.Atomic({0.5: 0.5, 1: 0.3, 2: 0.2}), Gaussian(), 3),
    )
    for s in laws:
        oracle = complex(generating_function(s.law, mpmath.mpc("0.8", "0.2"), 12))
        assert complex(s.generating_function(0.8 + 0.2j)) == pytest.approx(oracle, rel=1e-10)
        assert s.integrated_moments(0)[0] == pytest.approx(1, abs=1e-10)


def test_a_weight_law_by_its_density() -> None:
    """A Gaussian matrix, told by its density instead of its name."""
    t = sympy.Symbol("t", positive=True)
    told = symbolic.Density(sympy.sqrt((4 - t) / t) / (2 * sympy.pi), t, 0, 4)
    given = spectra.jacobian(activations.hard_tanh, told, 3, 0.5, critical=True)
    named = spectra.jacobian(activations.hard_tanh, Gaussian(), 3, 0.5)
    lam = np.array([0.05, 1.0, 4.0])
    np.testing.assert_allclose(given.density(lam), named.density(lam), rtol=1e-7)


def test_density_close_to_an_edge() -> None:
    """ρ ~ √(λ_+ − λ) down to 1e-9 of the edge."""
    s = spectra.jacobian(activations.erf_unit_slope, Orthogonal(), 128, 0.05)
    edge = s.edges[0][1]
    gaps = np.array([1e-6, 1e-7, 1e-8, 1e-9])
    scaled = s.density(edge * (1 - gaps)) / np.sqrt(gaps)
    np.testing.assert_allclose(scaled, scaled[0], rtol=1e-3)


def test_every_value_has_its_certificate() -> None:
    s = spectra.jacobian(activations.hard_tanh, Orthogonal(), 128, 0.5)
    solved = s.solve(np.linspace(-30, 4, 50))
    assert (solved.status == 0).all()
    assert solved.residual.max() < 1e-11
    assert (solved.M.imag < 0).all()


def test_values_do_not_depend_on_their_company() -> None:
    s = spectra.jacobian(activations.erf_unit_slope, Gaussian(), 12, 0.3)
    lam = np.geomspace(1e-3, s.edges[0][1] * 0.99, 25)
    together = s.density(lam)
    np.testing.assert_allclose([float(s.density(each)) for each in lam], together, rtol=1e-11)
    np.testing.assert_array_equal(s.density(lam[::-1]), together[::-1])


def _configuration(rng: np.random.Generator) -> tuple[object, ...]:
    gamma = round(rng.uniform(0.05, 1), 2)
    activation = (
        activations.linear, activations.relu, activations.leaky_relu(round(rng.uniform(-1, 2), 2)),
        activations.hard_tanh, activations.shifted_relu, activations.erf_unit_slope,
    )[rng.integers(6)]  # fmt: skip
    weights = (
        Orthogonal(), Gaussian(), LowRankOrthogonal(gamma=gamma), LowRankGaussian(gamma=gamma),
        Truncated(ratio=round(1 + rng.exponential(), 2)),
    )[rng.integers(5)]  # fmt: skip
    depth, q = int(10 ** rng.uniform(0, 4)), str(round(10 ** rng.uniform(-2, 1), 4))
    return activation, weights, depth, q


def _heights(s: spectra.Spectrum, rng: np.random.Generator, points: int) -> np.ndarray:
    """log λ in every bulk, a tenth of them within 1e-6 of an edge."""
    found = []
    for bulk in s._bulks:  # whose edges may be beyond floats
        top = bulk.upper.height
        bottom = bulk.lower.height if bulk.lower else top - 10 ** rng.uniform(0, 2)
        near = 1e-6 * rng.uniform(size=points // 20) * (top - bottom)
        inside = rng.uniform(bottom, top, points - 2 * near.size)
        found.extend([inside, top - near, bottom + near if bulk.lower else inside[: near.size]])
    return np.concatenate(found)


def _check_branches(seed: int, numbers: range) -> None:
    """The exact moments against the integrated density, and every point's certificate."""
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        case = _configuration(rng)
        s = spectra.jacobian(*case)
        exact, found = s.moments(2), s.integrated_moments(2)
        told = f"{seed}/{number}: {[str(each) for each in case]}"
        assert found[0] == pytest.approx(1, abs=1e-10), told
        np.testing.assert_allclose(found[1:], exact, rtol=1e-9, err_msg=told)
        if s._bulks:
            assert (s.log_density(_heights(s, rng, 100)) >= 0).all(), told


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        pytest.param(12, 93, id="real to rounding from log λ = −0.7 down to 0"),
        pytest.param(12, 1685, id="an upper edge with x < 0"),
        pytest.param(13, 991, id="two lumps joined by a density of 1e-14"),
        pytest.param(13, 1424, id="x that passes by 0"),
    ],
)
def test_no_wrong_branch_where_it_was_lost_once(seed: int, number: int) -> None:
    _check_branches(seed, range(number, number + 1))


@pytest.mark.slow
def test_no_wrong_branch_in_thirty_configurations() -> None:
    _check_branches(12, range(30))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: spectra.limit("smooth", 0.5).density([-1.0]), "eigenvalues"),
        (lambda: spectra.limit("smooth", 0.5).density(float("nan")), "eigenvalues"),
        (lambda: spectra.limit("smooth", 0.5).generating_function(1.0), "points"),
        (lambda: spectra.jacobian("tanh", BiInvariant(moments=(1, 2)), 2, 1).edges, "law"),
        (lambda: spectra.jacobian(activations.monomial(3), Orthogonal(), 2, 1).edges, "activation"),
        (lambda: spectra.jacobian("expr: sinh(z/9)", Orthogonal(), 2, 1e-6).edges, "activation"),
        (lambda: spectra.jacobian("expr: z*log(1+z**2)", Orthogonal(), 2, 1).edges, "activation"),
        (lambda: spectra.jacobian(activations.silu, Orthogonal(), 32, 1e5).edges, "q_star"),
        (lambda: spectra.jacobian(activations.relu, Orthogonal(), 10**7), "depth"),
    ],
)
def test_bad_input_is_named(call, argument: str) -> None:
    with pytest.raises(InputError, match=argument):
        call()


@pytest.mark.parametrize(
    ("spectrum", "shown"),
    [
        (spectra.jacobian("linear", BiInvariant(moments=(1, 2, 5)), 3), "moments 1, 4, 22, …"),
        (spectra.jacobian("linear", BiInvariant(), 3), "moments 1, …"),
        (spectra.jacobian("tanh", Orthogonal(), 3, sympy.Symbol("q")), "numbers throughout"),
        (spectra.jacobian("linear", Orthogonal(), 3), "atom at 1, mass 1"),
    ],
)
def test_what_has_no_density_shows_itself(spectrum, shown: str) -> None:
    assert shown in repr(spectrum)


@pytest.mark.parametrize("sigma", ["relu", "tanh"])
def test_dropout_has_a_density(sigma: str) -> None:
    """Its atom and its density have the moments of the law."""
    s = spectra.jacobian(sigma, Orthogonal(), 3, 1, layer="dropout(1/2)")
    exact = np.concatenate([[1.0], s.moments(4)])
    np.testing.assert_allclose(s.integrated_moments(4), exact, rtol=1e-10)
    assert s.atoms == {0.0: 0.75 if sigma == "relu" else 0.5}


def test_dropout_with_a_symbol_has_no_numbers() -> None:
    s = spectra.jacobian("tanh", Orthogonal(), 2, 1, layer="dropout(p)")
    with pytest.raises(InputError, match=r"^law: .* wanted numbers throughout, no symbols"):
        s.atoms  # noqa: B018


def test_dropout_with_digits() -> None:
    s = spectra.jacobian("tanh", Gaussian(), 1, 1, layer="dropout(4/5)")
    digits, floats = (s.table([0.5], 1, precision=each) for each in (20, None))
    np.testing.assert_allclose(digits["density"].astype(float), floats["density"], rtol=1e-10)


def test_a_density_that_quadrature_does_not_see_is_drawn_all_the_same() -> None:
    """Softplus' slopes reach so far down that the mass cannot be added up: nothing is refused."""
    s = spectra.jacobian("softplus", Orthogonal(), 3, 0.3)
    found, error = s.density([0.1, 1.0]), s.density_error([0.1, 1.0])
    assert (found > 0.1).all()
    assert (error < 1e-9).all()
