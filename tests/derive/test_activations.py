"""Activations: what is derived from the expression, closed forms against the oracle, and text."""

from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import Network
from derive import activations as a
from derive.activations import by_name, from_expr, z
from derive.errors import InputError
from derive.gaussian import Shape, oracle
from derive.symbols import K
from numeric import flow

R = sympy.Rational
NAMED = [by_name(name) for name in a.names() if "(" not in name and ":" not in name]
ELU = a.elu()
CLOSED = [
    a.linear, a.relu, a.leaky_relu(R(1, 10)), a.hard_tanh, a.shifted_relu, a.erf, a.sin, a.gelu,
    a.polynomial([1, 2, 0, R(-1, 3)]), ELU, from_expr("z*abs(z)"), from_expr("z*exp(-z**2)*cos(z)"),
    a.cos, a.selu, a.relu6, a.hard_swish,
]  # fmt: skip


def close(left, right, digits=17):
    return abs(left - right) <= mpmath.mpf(10) ** -digits * max(1, abs(right))


@pytest.mark.parametrize(
    ("activation", "strip", "odd"),
    [
        (a.tanh, sympy.pi / 2, True),
        (a.arctan, 1, True),
        (a.silu, sympy.pi, False),
        (a.softplus, sympy.pi, False),
        (a.sigmoid, sympy.pi, False),
        (a.erf_unit_slope, sympy.oo, True),
        (a.sin, sympy.oo, True),
        (a.gelu, sympy.oo, False),
        (a.mish, 3 * sympy.pi / 4, False),
        (a.softsign, 0, True),
        (a.relu, 0, False),
        (a.hard_tanh, 0, True),
        (from_expr("1/(4+(z-1)**2)"), 2, False),
        (from_expr("tanh(3*z)"), sympy.pi / 6, True),
        (from_expr("log(1+exp(2*z))"), sympy.pi / 2, False),
        (from_expr("z+z**2"), sympy.oo, False),
        (from_expr(sympy.sech(2 * a.z)), sympy.pi / 4, False),
    ],
    ids=str,
)
def test_strip_and_parity(activation, strip, odd):
    assert activation.strip == strip
    assert activation.is_odd is odd


@pytest.mark.parametrize("text", ["tanh(z**3)", "1/(2+sin(z))", "tanh(sinh(z))"])
def test_certified_strips_bound_the_true_one_from_below(text):
    true = {
        "tanh(z**3)": (sympy.pi / 2) ** R(1, 3) / 2,
        "1/(2+sin(z))": sympy.acosh(2),
        "tanh(sinh(z))": sympy.pi / 2,
    }[text]
    assert 0 < from_expr(text).strip <= true < 8 * from_expr(text).strip


def test_the_poles_of_a_tangent_bound_the_strip():
    strip = from_expr(sympy.tan(sympy.sin(a.z))).strip
    assert 0 < strip <= sympy.acosh(sympy.pi / 2) < 8 * strip


def test_properties_are_derived():
    assert [x.name for x in NAMED if x.is_scale_invariant] == ["linear", "relu"]
    assert [x.name for x in NAMED if x.is_polynomial] == ["linear"]
    assert a.linear.is_linear
    assert not a.relu.is_linear
    disguised = from_expr("(z + abs(z))/2")
    assert disguised.is_scale_invariant
    assert disguised.slopes == (0, 1) == a.relu.slopes
    assert a.leaky_relu(-2).slopes == (-2, 1)
    assert a.leaky_relu(1).is_smooth
    with pytest.raises(InputError, match="slopes"):
        _ = a.hard_tanh.slopes


def test_source_002_scalings():
    assert a.erf_unit_slope.taylor(1) == (0, 1)
    assert a.erf_unit_cubic.derivative(1).subs(z, 0) == 1
    assert a.erf_unit_cubic.derivative(3).subs(z, 0) == -1
    half = R(1, 2)
    assert a.shifted_relu.pieces == ((-sympy.oo, -half, -half), (-half, sympy.oo, z))
    assert [piece.expr for piece in a.hard_tanh.pieces] == [-1, z, 1]


def test_kinks_and_jumps():
    assert a.hard_tanh.kinks == (-1, 1)
    assert a.hard_tanh.jumps(0) == {}
    assert a.hard_tanh.jumps(1) == {-1: 1, 1: -1}
    assert from_expr("z*abs(z)").jumps(2) == {0: 4}
    assert from_expr("Max(z, Max(-z, 2*z))").kinks == (0,)
    assert from_expr("Max(z, 2*z) + Min(z, 2*z)").is_smooth
    assert from_expr("sign(z**2-2)").kinks == (-sympy.sqrt(2), sympy.sqrt(2))
    assert ELU.jumps(1) == {}
    assert ELU.jumps(2) == {0: -1}


@pytest.mark.parametrize("activation", NAMED, ids=str)
def test_derivatives_match_differences_and_never_overflow(activation):
    function = sympy.lambdify(z, activation.derivative(1), "mpmath")
    value = sympy.lambdify(z, activation.expr, "mpmath")
    for point in (-3.3, -0.4, 0.3, 2.7):
        with mpmath.workdps(40):
            step = mpmath.mpf(10) ** -12
            slope = (value(point + step) - value(point - step)) / (2 * step)
            assert close(function(mpmath.mpf(point)), slope, 20)
    for point in (-1000, 1000):
        assert activation.derivative(2).subs(z, point).evalf().is_finite


def test_taylor():
    assert a.tanh.taylor(5) == (0, 1, 0, R(-1, 3), 0, R(2, 15))
    assert a.hard_tanh.taylor(3) == (0, 1, 0, 0)
    with pytest.raises(InputError, match="kink at 0"):
        a.relu.taylor(2)


@pytest.mark.parametrize("activation", CLOSED, ids=str)
def test_closed_forms_equal_the_oracle(activation):
    few, more = [((0,), 0), ((0, 0), 2), ((0, 1), 1)], [((0, 0), 0), ((1, 1), 0), ((0, 0), 4)]
    for variance, cases in ((R(3, 10), few), (R(7, 2), more)):
        for orders, outer in cases:
            closed = activation.average_outer(orders, outer, variance)
            assert closed is not None
            shape = Shape(orders, (outer,) + (0,) * (len(orders) - 1))
            exact = oracle.bracket(activation, shape, variance, 20)
            with mpmath.workdps(25):
                assert close(mpmath.mpf(closed.evalf(25)), exact.value)


def test_delta_functions_of_kinks():
    assert a.relu.average((2,), K) == 1 / sympy.sqrt(2 * sympy.pi * K)
    assert a.relu.average((0, 2), K) == 0
    for activation in (a.hard_tanh, a.shifted_relu, ELU):
        by_parts = activation.average((1, 1), K) + activation.average((0, 2), K)
        assert sympy.simplify(activation.average((0, 0), K).diff(K) - by_parts) == 0
    for orders in ((2, 2), (1, 3)):
        with pytest.raises(InputError, match="limit at the kink 0 of relu"):
            a.relu.average(orders, K)
    for activation in (a.relu, a.hard_tanh, ELU):
        products = 3 * activation.average((1, 1, 2), K)
        assert sympy.simplify(products - activation.average_outer((1, 1, 1), 1, K)) == 0


def test_known_averages():
    assert a.relu.average((0, 0, 0, 0), K) == R(3, 2) * K**2
    assert a.monomial(3).average((0, 0), K) == 15 * K**3
    mu = a.erf_unit_slope.average((1, 1, 1, 1), K) - 1 / sympy.sqrt(1 + 2 * sympy.pi * K)
    assert sympy.simplify(mu) == 0
    assert a.tanh.average((0, 0, 0), K) == 0
    assert a.erf.average((0, 0), R(1, 2)) == R(1, 3)
    assert abs(a.selu.average((0,), 1).evalf(30)) < 1e-19
    assert abs(a.selu.average((0, 0), 1).evalf(30) - 1) < 1e-18


def test_erf_is_erf():
    """The arcsine law, ⟨erf erf⟩ = (2/π) asin(2K12/√((1 + 2K11)(1 + 2K22))), and √π/2 of 002."""
    K11, K12, K22 = R(1, 2), R(1, 5), R(3, 4)
    law = 2 / sympy.pi * sympy.asin(2 * K12 / sympy.sqrt((1 + 2 * K11) * (1 + 2 * K22)))
    assert abs((a.erf.average_two(0, 0, K11, K12, K22) - law).evalf(30)) < 1e-28
    assert by_name("erf").expr == sympy.erf(z)
    assert a.erf_unit_slope.expr == a.erf_scaled("sqrt(pi)/2").expr


OPEN = [a.tanh, a.mish, a.silu, a.softsign, from_expr("tanh(abs(z) + 1)")]


@pytest.mark.parametrize("activation", OPEN, ids=str)
def test_without_a_closed_form_averages_are_numbers_to_the_digits_asked_for(activation):
    """Also of derivatives outside, whose δ-functions at kinks are not lost."""
    for orders, outer in (((0, 0), 0), ((0, 0), 2), ((1, 1), 0), ((0, 2), 0)):
        found = activation.average_outer(orders, outer, R(3, 2), digits=25)
        assert found.is_Float
        exact = oracle.bracket(
            activation, Shape(orders, (outer,) + (0,) * (len(orders) - 1)), R(3, 2), 30
        )
        with mpmath.workdps(35):
            assert close(mpmath.mpf(found), exact.value, 24)
    kept = activation.average((0, 0), K)
    assert abs(kept.subs(K, R(3, 2)).evalf(20) - activation.average((0, 0), R(3, 2))) < 1e-18


@pytest.mark.parametrize("activation", [a.tanh, a.hard_tanh, a.selu, a.softsign], ids=str)
def test_two_points_without_a_closed_form(activation):
    """⟨σσ⟩ of two inputs, against the rules of `flow` at C_W = 1; 12 digits are asked for."""
    X = np.array([[1.2, -0.5, 0.3], [0.4, 0.9, -1.1]])
    kernel = X @ X.T / 3
    found = activation.average_two(0, 0, kernel[0, 0], kernel[0, 1], kernel[1, 1], digits=12)
    assert found == pytest.approx(float(flow(Network(activation), X, 2, "K").K[1, 0, 1]), rel=2e-12)
    with pytest.raises(InputError, match="no closed form"):
        activation.average_two(0, 0, K, 0, 1)
    with pytest.raises(InputError, match="K12"):
        activation.average_two(0, 0, 1, 2, 1)


def test_how_far_pieces_are_analytic():
    assert [piece.strip for piece in a.softsign.pieces] == [1, 1]
    beyond = from_expr("Max(2, z)/(z**2 + 1)").pieces[1]
    assert (beyond.lower, beyond.strip) == (2, sympy.sqrt(5))


@pytest.mark.parametrize(
    "activation", [a.relu, a.leaky_relu(R(-1, 2)), a.erf_unit_slope, a.sin, a.gelu], ids=str
)
def test_two_points_meet_one_point_and_price(activation):
    """K12 → K11 = K22 gives ⟨σσ⟩; ∂/∂K12 raises both orders (Price); K12 = 0 factorises."""
    K11, K12, K22 = sympy.symbols("K11 K12 K22", positive=True)
    two = activation.average_two(0, 0, K11, K12, K22)
    values = {K11: R(3, 2), K12: R(-2, 5), K22: R(4, 5)}
    raised = activation.average_two(1, 1, K11, K12, K22)
    assert abs((two.diff(K12) - raised).subs(values).evalf(30)) < 1e-25
    same = activation.average_two(0, 0, K, K, K) - activation.average((0, 0), K)
    assert abs(same.subs(K, R(7, 5)).evalf(30)) < 1e-25
    apart = two.subs(K12, 0) - activation.average((0,), K11) * activation.average((0,), K22)
    assert abs(apart.subs(values).evalf(30)) < 1e-25


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=5), st.integers(0, 2), st.integers(0, 2))
def test_polynomial_averages_are_wick_sums(coefficients, order1, order2):
    """⟨z1^j z2^k⟩ = Σ_c c! C(j,c) C(k,c) (j−c−1)!! (k−c−1)!! K12^c K11^{(j−c)/2} K22^{(k−c)/2}."""

    def pairs(points):
        return 0 if points % 2 else sympy.factorial2(points - 1)

    sigma = a.polynomial(coefficients)
    first, second = (
        sympy.Poly(sigma.expr.diff(z, k), z).all_coeffs()[::-1] for k in (order1, order2)
    )
    K11, K12, K22 = sympy.symbols("K11 K12 K22", positive=True)
    expected = sum(
        x * y * sympy.factorial(c) * sympy.binomial(j, c) * sympy.binomial(k, c)
        * pairs(j - c) * pairs(k - c) * K12**c * K11 ** R(j - c, 2) * K22 ** R(k - c, 2)
        for j, x in enumerate(first)
        for k, y in enumerate(second)
        for c in range(min(j, k) + 1)
    )  # fmt: skip
    found = sigma.average_two(order1, order2, K11, K12, K22)
    assert sympy.expand(found - expected) == 0


def test_names_round_trip():
    families = ["leaky_relu(0.1)", "polynomial(0,1,-1/3)", "monomial(3)", "erf_scaled(1/2)"]
    expressions = ["expr: z/(1+z**2)", "expr: Max(0,z)+atan(z)*exp(-abs(z))"]
    for text in ("tanh", *families, *expressions):
        activation = by_name(text)
        again = by_name(str(activation))
        assert again == activation
        assert hash(again) == hash(activation)
    for activation in (a.elu(), a.elu(2), a.selu, a.sine(30), a.hard_swish):
        assert by_name(str(activation)) == activation
    assert by_name("leaky_relu(0.1)") == a.leaky_relu(0.1) == a.leaky_relu(R(1, 10))
    x = sympy.Symbol("x")
    assert from_expr(x / (1 + x**2)).expr == z / (1 + z**2)
    assert pickle.loads(pickle.dumps(a.gelu)) == a.gelu


@pytest.mark.parametrize(
    "text",
    [
        "foo(z)", "9**9**9", "__import__('os')", "z.real", "z if z else 1", "(((((", "", "1/0",
        "z^2", "x", "z" * 600, "log(z)", "sqrt(z)", "1/z", "z**z", "exp(z**2)", "exp(0.001*z**2)",
        "exp(exp(z))", "1/(z-100)", "Max(0,sin(z))", "sqrt(abs(z))", "z+1j", "exp(z,z)", "1e999",
        "lambda z: z", "[z]", "z<1",
    ],
)  # fmt: skip
def test_unusable_expressions_are_refused(text):
    with pytest.raises(InputError):
        from_expr(text)


@pytest.mark.parametrize(
    "text", ["tanhh", "leaky_relu(z)", "leaky_relu(1,2)", "monomial(1.5)", "monomial(-1)", "sine",
             "polynomial()", "leaky_relu(nan)", "relu()", "elu(beta=1)", "elu(1", 7],
)  # fmt: skip
def test_unknown_names_are_refused(text):
    with pytest.raises(InputError):
        by_name(text)


def test_names_in_any_spelling():
    same = {
        "Tanh": a.tanh, "SiLU": a.silu, "swish": a.silu, "ReLU6": a.relu6, "HardTanh": a.hard_tanh,
        "Hardswish": a.hard_swish, "LeakyReLU": a.leaky_relu(0.01), "ELU(alpha=0.5)": a.elu(0.5),
        "Identity": a.linear, "sine(frequency=3)": a.sine(3), "elu()": a.elu(1),
    }  # fmt: skip
    assert {text: by_name(text) for text in same} == same
    assert a.swish is a.silu
    near = {"tahn": "tanh", "Gelo": "gelu", "leaky": "leaky_relu", "swsh": "swish"}
    near["z*tanh(z)"] = r"expr: z\*tanh\(z\)"
    for text, name in near.items():
        with pytest.raises(InputError, match=f'did you mean "{name}"'):
            by_name(text)


def test_bad_arguments_are_refused():
    for call in (
        lambda: a.tanh.derivative(-1),
        lambda: a.relu.average((0, 0), -1),
        lambda: a.relu.average((0.5,), 1),
        lambda: a.relu.average((0,), "one"),
        lambda: a.polynomial([]),
        lambda: a.leaky_relu(float("inf")),
        lambda: from_expr(sympy.Symbol("x") * sympy.Symbol("y")),
        lambda: from_expr(sympy.besselj(0, z)),
    ):
        with pytest.raises(InputError):
            call()
