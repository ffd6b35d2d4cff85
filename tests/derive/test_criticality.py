"""Criticality: classes found by solving, against source 000 (5.3)–(5.8), (5.20)–(5.22) and PDLT."""

from __future__ import annotations

from functools import cache

import mpmath
import pytest
import sympy

from derive import Orthogonal, criticality, symbols
from derive import activations as a
from derive.activations import from_expr
from derive.depth import fixed_points as rest
from derive.depth.fixed_points import fixed_points
from derive.depth.zeros import profile
from derive.errors import InputError
from derive.gaussian import Average, gaussian_average, small_kernel_average
from derive.symbols import C_W, C_b, K

R = sympy.Rational
ELU = from_expr("Max(0,z) + Min(0,exp(z)-1)")
CUBIC = a.polynomial([0, 1, 0, -1])


@pytest.mark.parametrize(
    ("activation", "found"),
    [
        (a.linear, "scale-invariant"),
        (a.relu, "scale-invariant"),
        (a.leaky_relu(R(-1, 3)), "scale-invariant"),
        (a.tanh, "K* = 0"),
        (a.erf_unit_slope, "K* = 0"),
        (a.sin, "K* = 0"),
        (a.hard_tanh, "K* = 0"),
        (a.shifted_relu, "K* = 0"),
        (ELU, "K* = 0"),
        (a.gelu, "half-stable"),
        (a.silu, "half-stable"),
        (a.sigmoid, "none"),
        (a.softplus, "none"),
        (a.monomial(2), "none"),
        (a.monomial(3), "none"),
        (from_expr("sinh(z)"), "none"),
        (from_expr("sign(z)"), "none"),
        (from_expr("cos(z)"), "none"),
        (from_expr("z+1"), "none"),
        (from_expr("0*z"), "none"),
    ],
    ids=str,
)
def test_classes(activation, found):
    assert criticality(activation).universality_class == found


def test_scale_invariant_5_7():
    """(C_b, C_W) = (0, 1/A), A = 1 for linear and 1/2 for ReLU; χ_∥ = χ_⊥ identically."""
    for activation, A in ((a.linear, R(1)), (a.relu, R(1, 2)), (a.leaky_relu(R(1, 2)), R(5, 8))):
        found = criticality(activation)
        assert found.critical == (0, 1 / A)
        assert found.K_star is None
        assert sympy.simplify(found.chi_parallel.expr - found.chi_perp.expr) == 0
        assert found.kernel_map.expr.subs({C_b: 0, C_W: 1 / A}) == K


def test_tanh_5_8_and_5_20_to_5_22():
    found = criticality(a.tanh)
    assert found.critical == (0, 1)
    assert found.K_star == 0
    assert small_kernel_average(a.tanh, (0, 0, 0, 0), 3) == 3 * K**2 - 20 * K**3
    squared = sympy.expand(small_kernel_average(a.tanh, (0, 0), 3) ** 2)
    assert sympy.series(squared, K, 0, 4).removeO() == K**2 - 4 * K**3
    assert found.chi_parallel.series(2).subs(C_W, 1) == 1 - 4 * K + 17 * K**2
    layer = symbols.ell
    assert found.points[0].decay(layer) == 1 / (2 * layer)


def test_critical_weights_undo_the_slope():
    """(5.8): C_W = 1/σ'(0)²."""
    for activation in (a.erf_scaled(3), a.tanh, from_expr("sin(z/2)*exp(-z**2)")):
        slope = activation.taylor(1)[1]
        assert sympy.simplify(criticality(activation).critical[1] * slope**2) == 1


def test_half_stable_points_of_pdlt():
    gelu, silu = criticality(a.gelu), criticality(a.silu)
    assert gelu.K_star == (3 + sympy.sqrt(17)) / 2
    assert [round(float(v), 8) for v in gelu.critical] == [0.17292239, 1.98305826]
    assert [round(float(v), 8) for v in silu.critical] == [0.55514317, 1.98800468]
    assert round(float(silu.K_star), 6) == 14.320174
    assert [point.stability for point in gelu.points[1:]] == ["unstable"]
    assert gelu.points[1].C_W == 4


@pytest.mark.parametrize("activation", [a.gelu, a.silu], ids=str)
def test_half_stable_points_are_critical_fixed_points(activation):
    found = criticality(activation)
    bias, weight = found.critical
    point = found.points[0]
    at = found.K_star
    assert abs(found.kernel_map(at, weight, bias) - mpmath.mpf(at.evalf(20))) < 1e-15
    assert abs(found.chi_parallel(at, weight) - 1) < 1e-15
    assert abs(found.chi_perp(at, weight) - 1) < 1e-15
    for side in (-1, 1):
        away = at + side * R(1, 100)
        moved = found.kernel_map(away, weight, bias, digits=25) - found.kernel_map(
            at, weight, bias, digits=25
        )
        curvature = (moved - side * mpmath.mpf("0.01")) * 10**4
        assert abs(curvature / mpmath.mpf(point.coefficient) - 1) < 0.05


def test_exact_root_and_second_critical_point():
    """z − z³: ⟨σσ''⟩ = 6K(3K − 1), so a half-stable point sits at K* = 1/3 beside K* = 0."""
    found = criticality(CUBIC)
    assert [point.K for point in found.points] == [0, R(1, 3)]
    assert abs(found.points[1].C_b - R(2, 9)) < 1e-18


@pytest.mark.parametrize("activation", [a.tanh, a.arctan, CUBIC, ELU], ids=str)
def test_predicted_decay_is_the_flow_s(activation):
    """K(ℓ)·decay(ℓ)^{-1} → 1, and closer at the deeper layer."""
    step = criticality(activation).kernel_map
    layer = symbols.ell
    decay = criticality(activation).points[0].decay(layer)
    with mpmath.workdps(15):
        series = sympy.lambdify(K, step.series(4).subs({C_b: 0, C_W: 1}), "mpmath")
        value, misses = mpmath.mpf("0.01"), []
        exponent = criticality(activation).points[0].exponent
        start = mpmath.mpf(sympy.solve(decay - R(1, 100), layer)[0].evalf(15))
        assert exponent in (1, R(1, 2))
        for moved in range(1, 4001):
            value = series(value)
            if moved in (400, 4000):
                predicted = mpmath.mpf(decay.subs(layer, start + moved).evalf(15))
                misses.append(abs(value / predicted - 1))
    assert misses[1] < 0.05
    assert misses[1] < max(misses[0], 0.02)


def test_susceptibilities_are_the_printed_ones():
    """χ_∥ of (5.4) with the weight z² − K, by an independent integral, and χ_∥ = C_W dg/dK."""
    found = criticality(a.sin)
    g = a.sin.average((0, 0), K)
    assert sympy.simplify(found.chi_parallel.expr - C_W * g.diff(K)) == 0
    x = sympy.Symbol("x", real=True)
    for activation in (a.tanh, a.hard_tanh):
        value = criticality(activation).chi_parallel(2, R(3, 2))
        function = sympy.lambdify(x, activation.expr.subs(a.z, x), "mpmath")
        integral = mpmath.quad(
            lambda t, f=function: f(t) ** 2 * (t * t - 2) * mpmath.npdf(t, 0, mpmath.sqrt(2)),
            [-20, -1, 0, 1, 20],
        )
        assert abs(value - mpmath.mpf(3) / 16 * integral) < 1e-12


def test_fixed_points_of_given_hyperparameters():
    ((at, parallel, _),) = fixed_points(a.tanh, R(1, 20), R(3, 2))
    step = criticality(a.tanh).kernel_map
    assert abs(step(at, R(3, 2), R(1, 20)) - mpmath.mpf(at)) < 1e-16
    assert parallel < 1
    assert fixed_points(a.relu, 1, 3) == []
    ((at, parallel, _),) = fixed_points(a.relu, 1, 1)
    assert abs(at - 2) < 1e-18
    assert abs(parallel - R(1, 2)) < 1e-18


def test_reports_and_refusals():
    report = str(criticality(a.tanh))
    assert "K* = 0" in report
    assert "1/(2*l)" in report
    assert "repels" in str(criticality(from_expr("sinh(z)")))
    assert criticality(a.gelu)._repr_latex_().startswith("$")
    with pytest.raises(InputError, match="no solution"):
        _ = criticality(a.sigmoid).critical
    with pytest.raises(InputError):
        criticality("tan")
    with pytest.raises(InputError):
        fixed_points(a.tanh, -1, 1)


def test_the_ensemble_does_not_matter():
    for name in (Orthogonal(), "orthogonal"):
        assert criticality(a.tanh, weights=name) == criticality(a.tanh)
    for wrong in ("orthogonally", Orthogonal(C_W=3)):
        with pytest.raises(InputError, match="weights"):
            criticality(a.tanh, weights=wrong)


@pytest.mark.parametrize("scale", [R(1, 1000), R(1000)], ids=str)
@pytest.mark.parametrize("name", ["silu", "z-z**3"])
def test_isolated_points_scale_with_the_activation(name, scale):
    """σ_s(z) = s σ(z/s) has ⟨σ_sσ_s⟩_{s²K} = s²⟨σσ⟩_K: K* and C_b take s², C_W does not move."""
    base = a.as_activation(name if name == "silu" else f"expr: {name}")
    scaled = from_expr(scale * base.expr.subs(a.z, a.z / scale))
    first, second = (
        next(point for point in criticality(each).points if point.K) for each in (base, scaled)
    )
    for got, wanted in (
        (second.K, first.K * scale**2),
        (second.C_b, first.C_b * scale**2),
        (second.C_W, first.C_W),
        (second.coefficient, first.coefficient / scale**2),
    ):
        assert abs(sympy.N(got, 30) / sympy.N(wanted, 30) - 1) < 1e-17
    assert criticality(scaled).searched == (0, sympy.oo)


@cache
def resting(bias):
    """The fixed points of tanh at C_W = 3/2."""
    return fixed_points(a.tanh, bias, R(3, 2))


@pytest.mark.parametrize("scale", [R(1, 1000), R(1000)], ids=str)
def test_fixed_points_scale_with_the_activation(scale):
    scaled = from_expr(scale * sympy.tanh(a.z / scale))
    for bias in (R(1, 20), 0, R(1, 10**12), 50):
        (one,) = resting(bias)
        (other,) = fixed_points(scaled, bias * scale**2, R(3, 2))
        assert abs(other[0] / (one[0] * scale**2) - 1) < 1e-17
        assert abs(other[1] - one[1]) < 1e-15


def test_fixed_points_far_out_and_close_to_zero():
    """⟨σσ⟩ = K/2 for ReLU: K* = C_b/(1 − C_W/2), to where the slope of K' − K is 10^−12."""
    for bias, weight in ((R(1, 10**9), R(1)), (R(10**9), R(1)), (R(1), 2 - R(1, 10**6))):
        ((at, parallel, _),) = fixed_points(a.relu, bias, weight)
        assert abs(at / (bias / (1 - weight / 2)) - 1) < 1e-18
        assert abs(parallel / (weight / 2) - 1) < 1e-18
    small = R(1, 10**8)  # tanh: K* = (C_W − 1)/2 + …, just above its critical C_W
    ((at, _, _),) = fixed_points(a.tanh, 0, 1 + small)
    assert abs(at / (small / 2) - 1) < 1e-7


def test_a_fixed_point_where_the_first_power_cancels():
    """σ = z − εz³ + z⁵ at C_W = 1: ⟨σσ⟩ − K = −6εK² + (30 + 15ε²)K³ − 210εK⁴ + 945K⁵, which
    vanishes near ε/5: below that, and not up to where K itself is small, a search must begin."""
    part = mpmath.mpf(1) / 1000
    sigma = a.by_name("polynomial(0,1,0,-1/1000,0,1)")
    ((at, *_),) = fixed_points(sigma, 0, 1)

    def excess(K):
        return -6 * part + (30 + 15 * part**2) * K - 210 * part * K**2 + 945 * K**3

    assert abs(at / mpmath.findroot(excess, part / 5) - 1) < 1e-12


def test_lines_of_fixed_points():
    """ReLU is critical on its line; z√(1 + tanh(z)/2) has the line, and χ_⊥ > 1 on it."""
    assert fixed_points(a.relu, 0, 2) == [(K, 1, 1)]
    assert fixed_points(a.relu, 0, R(3, 2)) == []
    line = from_expr("z*sqrt(1 + tanh(z)/2)")
    ((at, parallel, perp),) = fixed_points(line, 0, 1)
    assert (at, parallel) == (K, 1)
    assert perp.has(Average)
    found = criticality(line)
    assert found.universality_class == "none"
    assert "every K" in found.reason
    assert found.points[0].stability == "neutral: K does not move"
    for value in (R(1, 3), 7):
        assert abs(found.kernel_map(value, 1) - mpmath.mpf(value)) < 1e-16
    assert found.chi_perp(R(1, 3), 1) > 1.001


@pytest.mark.parametrize("activation", [a.silu, a.gelu, CUBIC], ids=str)
@pytest.mark.parametrize("digits", [6, 12])
def test_errors_cover_what_more_digits_change(activation, digits):
    rough, fine = (
        next(p for p in criticality(activation, many).points if p.K) for many in (digits, 30)
    )
    for name in ("K", "C_b", "C_W", "coefficient"):
        error = getattr(rough.errors, name)
        away = abs(sympy.N(getattr(rough, name), 30) - sympy.N(getattr(fine, name), 30))
        assert away <= error
        assert error <= abs(getattr(rough, name)) * R(10) ** (3 - digits)
    assert criticality(a.tanh).points[0].errors == (0, 0, 0, 0)


def test_an_even_function_that_fades_is_followed_to_where_nothing_is_left():
    """z e^{−z²} is below 10⁻¹² of its largest value from z = 5.4 on."""
    found = profile(a.tanh, lambda point: mpmath.exp(-(point**2)))
    assert 2 < found.far < 6
    assert found.power == -mpmath.inf


def test_the_laws_of_an_activation_are_sampled_in_its_first_call_alone(monkeypatch):
    sampled, sample = [], rest.profile
    monkeypatch.setattr(rest, "profile", lambda *given: sampled.append(given[0]) or sample(*given))
    sigma = from_expr("tanh(3*z/2)", name="of this test alone")
    found = [fixed_points(sigma, R(1, 10), weight, digits=6) for weight in (1, 2)]
    assert [len(each) for each in found] == [1, 1]
    assert sampled == [sigma, sigma]  # σ² at infinity, and what bends it


@pytest.mark.parametrize("sigma", [a.tanh, a.arctan, a.gelu])
def test_half_of_an_even_integrand_is_integrated(sigma):
    product = sigma.derivative(0) * sigma.derivative(2)
    even = (product + product.subs(symbols.z, -symbols.z)) / 2
    whole, half = (gaussian_average(each, R(3, 2), 20) for each in (product, even))
    assert abs(whole.value - half.value) <= whole.radius + half.radius + mpmath.mpf(10) ** -19
    assert half.radius < mpmath.mpf(10) ** -19


@pytest.mark.slow
def test_coefficients_that_vanish_when_simplified():
    """With s = σ'(0) = 2/√π + 1/5, and t the third derivative there, K' − K = (t/s) K² + …."""
    point = criticality(from_expr("erf(z)+z/5")).points[0]
    assert (point.exponent, point.stability) == (1, "stable")
    slope = 2 / sympy.sqrt(sympy.pi) + sympy.Rational(1, 5)
    third = -4 / sympy.sqrt(sympy.pi)
    assert sympy.simplify(point.coefficient - third / slope) == 0
