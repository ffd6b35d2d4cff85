"""Simulated Jacobians meet the derived laws: freeness, low rank, and W = [U, 0], which is not free.

Moments at widths n, 2n, 4n are extrapolated in 1/n and compared as z-scores (`numeric.compare`).
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import xarray

from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Permuted,
    RegularSparse,
    Sparse,
    Truncated,
    Uniform,
    activations,
    layers,
)
from derive import spectra as symbolic
from numeric import compare, spectra
from numeric.brackets import select
from numeric.random import weight_matrix

HALF = sympy.Rational(1, 2)
RNG = np.random.default_rng(0)


def network(activation, weights_type, q, **parameters) -> Network:
    """Critical at variance q: C_W ⟨φ'²⟩ = 1 and C_b = q − C_W ⟨φ²⟩."""
    mean = symbolic.slope_law(activation, q).mean
    C_W = sympy.nsimplify(1 / mean)
    second = activation.average((0, 0), q)
    return Network(activation, weights_type(C_W, **parameters), C_b=sympy.N(q - C_W * second, 20))


def moments(law: symbolic.Jacobian, layer: int, count: int = 2) -> xarray.Dataset:
    values = {f"m{k}": ("layer", [float(sympy.N(law.moment(k)))]) for k in range(1, count + 1)}
    return xarray.Dataset(values, coords={"layer": [layer]})


def test_layers_have_activations_and_laws_of_their_own() -> None:
    """m₁ = Π C_W E φ'² at every width, φ' of ReLU 1 or 0 with chance 1/2; 5 standard errors."""
    net = Network("linear; relu*", ["gaussian", Gaussian(3), "orthogonal"])
    table = spectra.simulate(net, 1.0, 12, 3, 400, layers=[1, 2, 3], seed=2)
    expected = np.array([1, 3 / 2, 3 / 4])
    assert (abs(table["m1"] - expected) < 5 * table["m1_se"]).all()
    assert (table["m1_se"] < 0.05).all()
    own = Network("tanh", layer=layers.dense(activations="gelu", weights="orthogonal"))
    named = Network("gelu", "orthogonal", "gaussian")
    tables = [spectra.simulate(each, 1.0, 6, 3, 2, seed=1) for each in (own, named)]
    assert (tables[0]["singular_values"] == tables[1]["singular_values"]).all()


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [(Gaussian, {}), (Orthogonal, {}), (LowRankGaussian, {"gamma": HALF}),
     (LowRankOrthogonal, {"gamma": HALF}), (Truncated, {"ratio": sympy.Rational(3, 2)})],
)  # fmt: skip
def test_free_layers(kind, parameters) -> None:
    q, depth = sympy.Rational(2, 5), 3
    net = network(activations.erf_unit_slope, kind, q, **parameters)
    sampled = [
        spectra.simulate(net, float(q), n, depth, draws, seed=n)
        for n, draws in ((16, 600), (32, 300), (64, 150))
    ]
    law = symbolic.jacobian(activations.erf_unit_slope, net.weights_at(1), depth, q)
    assert compare(moments(law, depth), sampled, 1e-5).agrees


def test_bi_invariant_layers_of_any_scale_meet_free_probability() -> None:
    """Squared singular values {1, 16}/4 as they are, and as {1, 16}: the same law."""
    q = sympy.Rational(2, 5)
    laws = []
    for scale in (HALF**2, sympy.Integer(1)):
        given = tuple((1 + sympy.Integer(16) ** k) * scale**k / 2 for k in range(1, 3))
        net = network(activations.erf_unit_slope, BiInvariant, q, moments=given)
        laws.append(symbolic.jacobian(activations.erf_unit_slope, net.weights_at(1), 2, q))
        sampled = [
            spectra.simulate(net, float(q), n, 2, draws, seed=n)
            for n, draws in ((16, 600), (32, 300), (64, 150))
        ]
        assert compare(moments(laws[-1], 2), sampled, 1e-5).agrees
    assert laws[0].moment(2) == laws[1].moment(2)


def test_zero_padded_weights_are_not_free() -> None:
    """The law of `zero_padded` agrees; that of free layers with the same WᵀW does not."""
    q, depth = sympy.Integer(2), 3
    net = network(activations.erf_unit_slope, LowRankOrthogonal, q, gamma=HALF)
    sampled = [
        spectra.simulate(net, float(q), n, depth, draws, zero_padded=True, seed=n)
        for n, draws in ((32, 2000), (64, 1000), (128, 300))
    ]
    padded = symbolic.zero_padded(activations.erf_unit_slope, HALF, depth, q)
    free = symbolic.jacobian(activations.erf_unit_slope, net.weights_at(1), depth, q)
    assert compare(moments(padded, depth), sampled, 1e-5).agrees
    largest = sampled[-1]
    excess = float(largest["m2"][0]) - float(sympy.N(free.moment(2)))
    assert excess > 10 * float(largest["m2_se"][0])


def test_singular_values_follow_the_density() -> None:
    """Rigidity: the largest deviation of the counting function at n = 400 is of order log(n)/n."""
    q, depth, n = sympy.Rational(2, 5), 4, 400
    net = network(activations.hard_tanh, Orthogonal, q)
    found = spectra.simulate(net, float(q), n, depth, 2, seed=3)["singular_values"].to_numpy()
    s = spectra.jacobian(activations.hard_tanh, Orthogonal(), depth, q)
    values = np.geomspace(0.05, 1.6, 40)
    top = max(s.atoms)
    values = values[abs(values**2 / top - 1) > 0.2]
    theory = s.cumulative(values**2)
    counted = np.mean(found[:, :, None] <= values, axis=(0, 1))
    assert abs(counted - theory).max() < 0.03


def test_draws_are_repeatable() -> None:
    net = network(activations.erf_unit_slope, Gaussian, HALF)
    three = spectra.simulate(net, 0.5, 16, 3, 3, seed=9, layers=[1, 3])
    five = spectra.simulate(net, 0.5, 16, 3, 5, seed=9, layers=[1, 3])
    np.testing.assert_array_equal(five["singular_values"][:3], three["singular_values"])
    assert list(three["m2"].dims) == ["layer"]
    assert three["layer"].to_numpy().tolist() == [1, 3]


def test_one_draw_has_no_standard_errors() -> None:
    net = network(activations.erf_unit_slope, Gaussian, HALF)
    one, two = (spectra.simulate(net, 0.5, 8, 2, draws) for draws in (1, 2))
    assert set(two.data_vars) - set(one.data_vars) == {"m1_se", "m2_se"}
    assert all(np.isfinite(one[name]).all() for name in one.data_vars)


def test_the_first_piece_that_holds_is_taken_as_by_numpy() -> None:
    h = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan])
    pieces = [h <= -1, h >= 1, np.abs(h) < 0.5], [-1.0, 1.0, h]
    np.testing.assert_array_equal(select(*pieces), np.select(*pieces, default=np.nan))
    overlapping = [h < 1, h < 2], [0.0, h * h]
    np.testing.assert_array_equal(select(*overlapping, 7.0), np.select(*overlapping, default=7.0))


def test_corrections_of_the_variances_are_sampled() -> None:
    corrected, plain = (
        Network(activations.linear, Orthogonal(1), C_W_corrections=c) for c in ((4,), ())
    )
    found, wanted = (spectra.simulate(net, 1.0, 4, 3, 1) for net in (corrected, plain))
    np.testing.assert_allclose(found["m1"], 2**3 * wanted["m1"], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda net: spectra.simulate(net, 0.0001, 16, 3), "q_first"),
        (lambda net: spectra.simulate(net, 0.5, 1, 3), "width"),
        (lambda net: spectra.simulate(net, 0.5, 16, 3, layers=[4]), "layers"),
        (lambda net: spectra.simulate(net, 0.5, 16, 3, zero_padded=True), "zero_padded"),
        (
            lambda net: spectra.simulate(Network(net.activation, BiInvariant()), 0.5, 16, 3),
            "moments",
        ),
        (
            lambda net: spectra.simulate(
                Network(net.activation, LowRankGaussian(gamma=HALF)), 0.5, 15, 3
            ),
            "width",
        ),
        (lambda net: spectra.simulate(net, 0.5, 10**9, 3), "width"),
        (lambda net: spectra.simulate(net, 0.5, 6, 10**9), "depth"),
        (lambda net: spectra.simulate(net, 0.5, 6, 3, 2**31), "draws"),
        (lambda net: spectra.simulate(net, 0.5, 6, 3, moments=2.0), "moments"),
        (lambda net: spectra.simulate(net, 0.5, 6, 3, layers="12"), "layers"),
        (lambda net: spectra.simulate(net, 0.5, 6, 3, layers=[]), "layers"),
        (lambda net: spectra.simulate(net, sympy.Symbol("q"), 6, 3), "q_first"),
        (lambda net: spectra.simulate(net, 1e308, 6, 3), "q_first"),
        (lambda net: spectra.simulate(net, 0.5, 6, 3, zero_padded=1), "zero_padded"),
        (lambda net: spectra.simulate(Network("tanh", width_ratio=2), 0.5, 6, 3), "net"),
        (lambda net: spectra.simulate(Network("linear", Gaussian(1e200)), 1, 6, 9), "net"),
        (lambda net: spectra.simulate("net", 0.5, 6, 3), "net"),
        (lambda net: spectra.weight_matrix("gauss", 6, RNG), "weights"),
        (lambda net: spectra.weight_matrix(Gaussian(sympy.Symbol("C")), 6, RNG), "C_W"),
        (lambda net: spectra.weight_matrix(Gaussian(), 10**9, RNG), "n"),
        (lambda net: spectra.weight_matrix(Gaussian(), 6, np.random), "rng"),
        (lambda net: spectra.weight_matrix(Gaussian(), 6, RNG, zero_padded=True), "zero_padded"),
        (lambda net: spectra.weight_matrix(LowRankOrthogonal(gamma="1/9"), 4, RNG), "gamma"),
        (lambda net: spectra.weight_matrix(Truncated(ratio=10**12), 4, RNG), "weights"),
    ],
)
def test_bad_input_is_named(call, argument: str) -> None:
    net = Network(activations.erf_unit_slope, Gaussian(1.5), C_b=0.01)
    with pytest.raises(InputError, match=argument):
        call(net)


@pytest.mark.parametrize("law", [Uniform(2), Sparse("1/4", C_W=2), RegularSparse("1/4", C_W=2)])
def test_independent_entries_have_the_spectra_of_normal_ones(law):
    """Of ReLU, whose D depends on W: m_1, m_2, m_3 extrapolated in 1/n, at 5 standard errors."""
    exact = np.array([float(symbolic.jacobian("relu", law, 2).moment(k)) for k in (1, 2, 3)])
    found = []
    for n, draws in ((48, 600), (192, 60)):
        rng, rows = np.random.default_rng(n), []
        for _ in range(draws):
            h, J = rng.standard_normal(n), np.eye(n)
            for _ in range(2):
                W = weight_matrix(law, (n, n), rng)
                h = W @ np.maximum(h, 0)
                J = (h > 0)[:, None] * (W @ J)
            S = J @ J.T
            rows.append([np.trace(S), (S**2).sum(), ((S @ S) * S).sum()])
        values = np.array(rows) / n
        found.append((values.mean(axis=0), values.std(axis=0) / np.sqrt(draws)))
    (small, small_se), (large, large_se) = found
    limit, se = (4 * large - small) / 3, np.hypot(4 * large_se, small_se) / 3
    assert (abs(limit - exact) < 5 * se).all(), (limit, exact, se)
    assert (se < 0.15 * exact).all()


def test_five_moments_do_not_tell_a_spectrum():
    moments = dict.fromkeys(("fourth", "row", "column", "apart", "around"), 0)
    with pytest.raises(InputError, match="averages of four weights do not tell it"):
        symbolic.weight_law(Permuted(**moments))
