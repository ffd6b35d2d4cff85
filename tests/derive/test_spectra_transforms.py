"""Laws, transforms and moments: identities of free probability, and exact values."""

from __future__ import annotations

from math import comb

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.pennington import universality
from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
    criticality,
    spectra,
)
from derive.arithmetic import powerseries
from derive.spectra import laws
from derive.spectra import moments as formulas
from derive.spectra.laws import g, w, z
from derive.symbols import C_W as C

gamma = sympy.Symbol("gamma", positive=True)
L = formulas.L
ENSEMBLES = (
    Orthogonal(C),
    Gaussian(C),
    LowRankOrthogonal(C, gamma=sympy.Rational(1, 3)),
    LowRankGaussian(C, gamma=sympy.Rational(1, 3)),
    Truncated(C, ratio=sympy.Rational(3, 2)),
)


def fuss_catalan(depth: sympy.Expr, k: int) -> sympy.Expr:
    """m_k of a product of `depth` square Gaussian matrices: binomial((L+1)k, k)/(Lk+1)."""
    return sympy.expand(
        sympy.expand_func(sympy.ff((depth + 1) * k, k)) / sympy.factorial(k) / (depth * k + 1)
    )


@pytest.mark.parametrize("k", range(1, 7))
def test_gaussian_linear_moments_are_fuss_catalan(k: int) -> None:
    found = spectra.jacobian_moments(
        6, weight_variance=1, slopes=[1] * 6, weights=[(-1) ** j for j in range(1, 6)]
    )
    assert sympy.cancel(found[k - 1] - fuss_catalan(L, k)) == 0


def test_moments_are_the_papers_at_second_order() -> None:
    chi = formulas.C_W * formulas.mu(1)
    ratio = formulas.mu(2) / formulas.mu(1) ** 2
    second = chi ** (2 * L) * L * (ratio + 1 / L - 1 - formulas.s(1))
    assert sympy.expand(spectra.jacobian_moments(2)[1] - second) == 0
    variance = chi ** (2 * L) * L * (ratio - 1 - formulas.s(1))
    assert sympy.simplify(spectra.jacobian_variance() - variance) == 0


def test_eight_moments_at_one_layer_are_the_slopes() -> None:
    found = spectra.jacobian_moments(8, depth=1, weight_variance=1, weights=[0] * 7)
    for k, value in enumerate(found, start=1):
        assert sympy.expand(value - formulas.mu(k)) == 0


@given(st.lists(st.fractions(-2, 2, max_denominator=6), min_size=5, max_size=5))
@settings(max_examples=25, deadline=None)
def test_series_of_s_and_moments_are_inverse(coefficients) -> None:
    log_s = [sympy.S.Zero, *map(sympy.Rational, coefficients)]
    ratios = powerseries.ratios_from_log_s(log_s)
    assert powerseries.log_s_from_ratios(ratios) == log_s[:6]


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_s_transform_inverts_m(weights) -> None:
    law = spectra.weight_law(weights)
    back = law.M(law.M_inverse(w)).subs({C: 2})
    values = [sympy.N(back.subs(w, sympy.Rational(1, k))) * k for k in (9, 20)]
    assert values == pytest.approx([1, 1])
    expanded = sympy.series(law.S(w), w, 0, 4).removeO()
    assert sympy.expand(expanded - sum(c * w**k for k, c in enumerate(law.S_series(3)))) == 0


def r_series(law: laws.Law, order: int) -> list[sympy.Expr]:
    """The free cumulants: with w = g R(g), R = 1/S(w), by Lagrange's theorem for w S(w) = g."""
    s = powerseries.exponential(law.log_s(order))
    return [
        sympy.expand(law.mean**n * powerseries.power(s, -n)[n - 1] / n) for n in range(1, order + 2)
    ]


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_r_transform_closed_and_series(weights) -> None:
    law = spectra.weight_law(weights)
    closed = sympy.series(law.R(g), g, 0, 3).removeO()
    assert sympy.simplify(closed - sum(c * g**k for k, c in enumerate(r_series(law, 2)))) == 0


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_second_moment_of_weights_by_the_pairing_matrix(weights) -> None:
    """tr (WᵀW)²/n from the ensemble's own C(p, q), at n → ∞: independent of free probability."""
    n = sympy.Symbol("n", positive=True)
    law = spectra.weight_law(weights)
    # W_ij W_kj W_kl W_il: rows (1 4)(2 3), columns (1 2)(3 4); sum over n⁴ indices, over n.
    pairings = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    rows, columns = (0, 1, 1, 0), (0, 0, 1, 1)
    total = sympy.S.Zero
    for p in pairings:
        for q in pairings:
            coset = (1, 1) if p == q else (2,)
            total += n ** _free(p, rows) * weights.coefficient(coset, n, n) * n ** _free(q, columns)
    assert sympy.limit(total / n, n, sympy.oo) * C**2 == sympy.simplify(law.moment(2))


def _free(pairing, labels) -> int:
    """How many of two summed indices are left when positions in a pair are equal."""
    return 1 if any(labels[a] != labels[b] for a, b in pairing) else 2


def test_truncated_lies_between_orthogonal_and_gaussian() -> None:
    ratio = sympy.Symbol("rho", positive=True)
    shape = spectra.weight_law(Truncated(1, ratio=ratio)).S(w)
    assert sympy.simplify(sympy.limit(shape, ratio, 1) - 1) == 0
    assert sympy.simplify(sympy.limit(shape, ratio, sympy.oo) - 1 / (1 + w)) == 0


def test_given_moments_have_series_and_refuse_what_is_no_law() -> None:
    catalan = [comb(2 * k, k) // (k + 1) for k in range(1, 5)]
    law = spectra.weight_law(BiInvariant(C, moments=tuple(catalan)))
    expected = spectra.weight_law(Gaussian(C)).S_series(3)
    assert [sympy.simplify(a - b) for a, b in zip(law.S_series(3), expected, strict=True)] == [
        0
    ] * 4
    with pytest.raises(InputError, match="given"):
        spectra.Moments([1, sympy.Rational(1, 2)])
    with pytest.raises(InputError, match="closed form"):
        law.M(z)


@pytest.mark.parametrize("first", [2, sympy.Rational(1, 2), sympy.Rational(1, 10**12)])
def test_given_moments_are_those_of_the_ensemble_whatever_the_first(first) -> None:
    scaled = tuple(p * first**k for k, p in enumerate((1, 2, 5), start=1))
    law = spectra.weight_law(BiInvariant(3, moments=scaled))
    assert [law.moment(k) for k in (1, 2, 3)] == [3, 18, 135]


def test_moments_left_out_are_symbols() -> None:
    law = spectra.weight_law(BiInvariant(2))
    assert str(law.moment(3)) == "8*m_3"


@pytest.mark.parametrize("given", [(1, 1, 2), ("1e-10", "1e-21"), (1, 2, 3, 4)])
def test_what_no_law_has_is_refused_at_any_scale(given) -> None:
    with pytest.raises(InputError, match="moments"):
        BiInvariant(moments=given)


@pytest.mark.parametrize("q", [1e-320, 1e308, float("inf"), float("nan"), -1, 1j, "x"])
def test_variances_that_floats_do_not_hold_are_refused(q) -> None:
    with pytest.raises(InputError, match="q_star"):
        spectra.jacobian(activations.tanh, Orthogonal(), 2, q)


def test_a_missing_variance_says_where_to_get_it() -> None:
    with pytest.raises(InputError, match="criticality"):
        spectra.jacobian(activations.gelu, Gaussian(), 5)


@pytest.mark.parametrize("text", ["Max(z, 0)*cos(z)", "Max(z, z/10)*cos(z)"])
def test_kinked_slopes_are_scaled_to_critical(text: str) -> None:
    activation = activations.from_expr(text)
    free = spectra.jacobian(activation, Orthogonal(), 1, 0.5, critical=False)
    critical = spectra.jacobian(activation, Orthogonal(), 1, 0.5)
    first, second = (float(sympy.N(free.moment(k))) for k in (1, 2))
    assert float(sympy.N(critical.moment(1))) == pytest.approx(1)
    assert float(sympy.N(critical.moment(2))) == pytest.approx(second / first**2)


def test_density_law_is_checked() -> None:
    t = sympy.Symbol("t", positive=True)
    semicircle = sympy.sqrt((4 - t) / t) / (2 * sympy.pi)
    law = spectra.Density(semicircle, t, 0, 4)
    assert [float(law.moment(k)) for k in (1, 2, 3)] == pytest.approx([1, 2, 5], rel=1e-10)
    with pytest.raises(InputError, match="total mass 1"):
        spectra.Density(2 * semicircle, t, 0, 4)
    with pytest.raises(InputError, match="sum to 1"):
        spectra.Atomic({0: 0.5, 1: 0.6})


CLOSED = (
    "linear", "relu", "hard_tanh", "shifted_relu", "leaky_relu(1/10)", "erf_unit_slope", "arctan",
)  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_of_slopes_against_quadrature(name: str) -> None:
    activation = activations.by_name(name)
    law = spectra.slope_law(activation, sympy.Rational(3, 10))
    slope = sympy.lambdify(activations.z, activation.derivative(1), "mpmath")
    point = mpmath.mpc("1.3", "0.4")
    kinks = sorted(float(k) for k in activation.kinks)

    def integrand(h: mpmath.mpf) -> mpmath.mpc:
        f = slope(h) ** 2
        return f / (point - f) * mpmath.npdf(h, 0, mpmath.sqrt(0.3))

    direct = mpmath.quad(integrand, [-8, -2, *kinks, 2, 8] if kinks else [-8, -2, 0, 2, 8])
    closed = complex(sympy.N(law.M(sympy.Float("1.3") + sympy.I * sympy.Float("0.4"))))
    assert closed == pytest.approx(complex(direct), rel=1e-9)
    assert complex(law.M_at(point)) == pytest.approx(complex(direct), rel=1e-9)


def test_quadrature_stands_in_where_there_is_no_closed_form() -> None:
    law = spectra.slope_law(activations.tanh, sympy.Rational(1, 2))
    with pytest.raises(InputError, match="closed form"):
        law.M(z)
    far = law.M_at(mpmath.mpc(40, 1))
    tail = sum(sympy.N(law.moment(k)) / (40 + sympy.I) ** k for k in range(1, 9))
    assert complex(far) == pytest.approx(complex(sympy.N(tail)), rel=1e-10)


def test_atoms_of_products() -> None:
    three_quarters = spectra.Atomic({0: sympy.Rational(1, 4), 1: sympy.Rational(3, 4)})
    assert (three_quarters * three_quarters).atoms == {
        0: sympy.Rational(1, 4),
        1: sympy.Rational(1, 2),
    }
    assert (three_quarters**4).atoms == {0: sympy.Rational(1, 4)}
    assert spectra.weight_law(LowRankGaussian(1, gamma=sympy.Rational(1, 4))).atoms == {
        0: sympy.Rational(3, 4)
    }


def test_layers_that_differ_multiply() -> None:
    net = Network(activations.hard_tanh, Orthogonal(sympy.Rational(13, 10)), C_b=0.05)
    law = spectra.of_network(net, 1, 4)
    step = sympy.S.One
    kernel = criticality(activations.hard_tanh).kernel_map
    means = []
    for _ in range(3):
        means.append(spectra.slope_law(activations.hard_tanh, step).mean)
        step = sympy.Float(kernel(step, sympy.Rational(13, 10), 0.05), 20)
    expected = float(sympy.N(sympy.prod(means))) * 1.3**3
    assert float(sympy.N(law.moment(1))) == pytest.approx(expected, rel=1e-12)
    same = spectra.layered([(activations.relu, Gaussian(2), None)] * 5)
    assert sympy.simplify(same.moment(2) - 11) == 0


def test_zero_padded_differs_from_free_at_second_order() -> None:
    """The variance is v + (L − 1) v/γ + L(1/γ − 1), where free weights have L v + L(1/γ − 1)."""
    half = sympy.Rational(1, 2)
    slopes = spectra.slope_law(activations.erf_unit_slope, sympy.Rational(1, 5))
    v = slopes.moment(2) / slopes.moment(1) ** 2 - 1
    padded = (
        spectra.zero_padded(activations.erf_unit_slope, half, 4, sympy.Rational(1, 5)).moment(2) - 1
    )
    free = spectra.jacobian(
        activations.erf_unit_slope, LowRankOrthogonal(gamma=half), 4, sympy.Rational(1, 5)
    ).moment(2)
    assert sympy.N(padded - (v + 6 * v + 4)) == pytest.approx(0, abs=1e-12)
    assert sympy.N(free - 1 - (4 * v + 4)) == pytest.approx(0, abs=1e-12)
    one = spectra.zero_padded(activations.erf_unit_slope, 1, 4, sympy.Rational(1, 5)).moment(2)
    assert sympy.N(one - 1 - 4 * v) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: spectra.jacobian(activations.erf_unit_slope, Orthogonal(), 4), "q_star"),
        (lambda: spectra.jacobian(activations.erf_unit_slope, Orthogonal(), 0, 1), "depth"),
        (lambda: spectra.jacobian(activations.erf_unit_slope, Orthogonal(), 4, -1), "q_star"),
        (lambda: spectra.zero_padded(activations.erf_unit_slope, 1.5, 4, 1), "gamma"),
        (lambda: spectra.limit("smooth", 0), "sigma0"),
        (lambda: spectra.limit("rough", 1), "limit"),
        (lambda: universality.double_scaling(activations.monomial(3), 1, 8), "activation"),
        (lambda: universality.double_scaling(activations.relu, 1, 8), "activation"),
        (lambda: spectra.jacobian_moments(0), "order"),
        (lambda: spectra.slope_law(activations.monomial(0), 1), "activation"),
    ],
)
def test_bad_input_is_named(call, argument: str) -> None:
    with pytest.raises(InputError, match=argument) as raised:
        call()
    assert raised.value.argument == argument


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: spectra.jacobian("linear", "gaussian", 2, critical=np.ones(2)), "critical"),
        (lambda: spectra.jacobian("linear", "gaussian", 2, critical=1), "critical"),
        (lambda: spectra.jacobian("tanh", "gaussian", 2, 1, C_b=1), "C_b"),
        (
            lambda: spectra.jacobian("tanh", "gaussian", 2, 1, critical=True, layer="gated"),
            "critical",
        ),
        (lambda: spectra.jacobian(LINEAR_LAW, "gaussian", 2, 1), "q_star"),
        (lambda: spectra.layered(3), "layers"),
        (lambda: spectra.layered("abc"), "layers"),
        (lambda: spectra.layered([("linear", "gaussian")]), "layers"),
        (lambda: spectra.layered([]), "layers"),
        (lambda: spectra.of_network("tanh", 1, 2), "net"),
        (lambda: spectra.of_network(Network("tanh", width_ratio=2), 1, 2), "net"),
        (lambda: spectra.of_network(Network("tanh"), 1, sympy.Symbol("L")), "depth"),
    ],
)
def test_odd_arguments_are_refused(call, argument: str) -> None:
    with pytest.raises(InputError) as refusal:
        call()
    assert refusal.value.argument == argument


LINEAR_LAW = spectra.jacobian("linear", "gaussian", 2)


@pytest.mark.parametrize("depth", [10**400, 1e308, -3])
def test_moments_of_a_depth_beyond_reach_are_refused_at_once(depth):
    with pytest.raises(InputError, match="depth"):
        spectra.jacobian_moments(2, depth=depth)


def test_a_factor_is_any_positive_number() -> None:
    law = spectra.Atomic({0: "1/2", 1: "1/2"})
    assert laws.Scaled(law, 2) == 2 * law == laws.Scaled(law, sympy.Integer(2))
    for bad in (-1, 0, "two", None, True):
        with pytest.raises(InputError, match=r"^factor: got"):
            laws.Scaled(law, bad)


def test_atoms_of_a_scaled_projector():
    """(3/2)P, P of rank 1/2: the limit of M⁻¹ is a quotient of two leading coefficients."""
    half = sympy.Rational(1, 2)
    law = laws.Rational(sympy.Rational(3, 4), ((sympy.Integer(1), 1), (sympy.Integer(2), -1)))
    assert law.atoms == {0: half, 3 * half: half}


@pytest.mark.parametrize("weights", ["orthogonal", Orthogonal(), LowRankGaussian(gamma="1/3")])
def test_weights_without_a_variance_are_scaled_to_the_critical_one(weights) -> None:
    law = spectra.jacobian("hard_tanh", weights, 3, 0.5)
    assert float(law.moment(1)) == pytest.approx(1, rel=1e-14)
    assert law.moment(2) == spectra.jacobian("hard_tanh", weights, 3, 0.5, critical=True).moment(2)


def test_a_variance_that_is_given_is_used() -> None:
    """C_W^L times what C_W = 1 gives, which is not the critical one; a law has its own mean."""
    slope = spectra.slope_law("tanh", 0.1).mean
    for C_W in (1, sympy.Rational(1, 2), 2):
        for weights in (Orthogonal(C_W), spectra.weight_law(Orthogonal(C_W))):
            mean = spectra.jacobian("tanh", weights, 4, 0.1).moment(1)
            assert float(mean) == pytest.approx(float(C_W * slope) ** 4, rel=1e-14)
    with pytest.raises(InputError, match="critical=False, or weights without C_W: Orthogonal"):
        spectra.jacobian("tanh", Orthogonal(C_W=1), 4, 0.1, critical=True)
    exact = spectra.jacobian("relu", Orthogonal(C_W=2), 4, critical=True)
    assert exact.moment(1) == 1


def test_depth_of_a_network_counts_its_layers() -> None:
    """∂z^4/∂z^1: the last layer is the fourth, whatever the layers are."""
    parts = {"layer": "residual(skip=1/2)*; normalized(layer)", "C_b": sympy.Rational(1, 5)}
    net = Network("relu", Gaussian(C_W=1), **parts)
    q, laws = sympy.S.One, []
    for layer in ("residual(skip=1/2)", "residual(skip=1/2)", "normalized(layer)"):
        laws.append(spectra.jacobian("relu", Gaussian(C_W=1), 1, q, layer=layer, C_b="1/5"))
        q = sympy.Float(criticality("relu", layer=layer).kernel_map(q, 1, parts["C_b"]), 20)
    mean = spectra.of_network(net, 1, 4).moment(1)
    assert sympy.N(mean - sympy.prod(law.moment(1) for law in laws)) == pytest.approx(0, abs=1e-15)
    dense = Network("relu", Orthogonal(C_W=2))
    assert spectra.of_network(dense, 1, 4) == spectra.jacobian("relu", Orthogonal(C_W=2), 3, 1)
    with pytest.raises(InputError, match="depth"):
        spectra.of_network(dense, 1, 1)


def test_a_power_is_the_product_of_as_many_factors() -> None:
    half = spectra.Atomic({0: "1/2", 1: "1/2"})
    square, pair = half**2, half * half
    assert [square.moment(k) for k in (1, 2, 3)] == [pair.moment(k) for k in (1, 2, 3)]
    assert square.atoms == pair.atoms
    assert sympy.simplify(square.M() - pair.M()) == 0
    assert square.laws == pair.laws == (half, half)
    assert (str(pair).count("⊠"), str(square)[-2:]) == (1, "⊠2")


def test_factors_that_cannot_be_counted_are_refused() -> None:
    half = spectra.Atomic({0: "1/2", 1: "1/2"})
    for power in (half**L, half ** sympy.Rational(3, 2)):
        with pytest.raises(InputError, match="count"):
            assert power.laws
    with pytest.raises(InputError, match="free factors"):
        assert spectra.zero_padded("relu", "1/2", 2).laws
    with pytest.raises(InputError, match="1 or more"):
        half**0


def test_one_layers_generating_function_has_a_closed_form() -> None:
    """M of a Gaussian matrix behind ReLU's slopes at χ = 1, by its moments 1, 3, …"""
    law = spectra.jacobian("relu", "gaussian", 1)
    x = sympy.Symbol("x", positive=True)
    series = sympy.series(law.M().subs(z, 1 / x), x, 0, 4).removeO()
    assert [series.coeff(x, k) for k in (1, 2, 3)] == [law.moment(k) for k in (1, 2, 3)]
