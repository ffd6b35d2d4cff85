"""The printer: what it prints runs, is right far from the origin, and else is refused."""

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import activations
from derive.errors import InputError
from numeric.emit import Sigmoid, modules, printer, stable

z, K = sympy.symbols("z K", real=True)
FAR = (-1000.0, -300.0, -40.0, -3.3, -0.5, 0.2, 1.0, 7.0, 50.0, 300.0, 1000.0)

ANALYTIC = {
    "silu": z / (1 + sympy.exp(-z)),
    "softplus": sympy.log(1 + sympy.exp(z)),
    "softplus_scaled": sympy.log(3 + 2 * sympy.exp(-z / 2)),
    "sigmoid": 1 / (1 + sympy.exp(-z)),
    "mish": z * sympy.tanh(sympy.log(1 + sympy.exp(z))),
    "ratio": (sympy.exp(z) - sympy.exp(-z)) / (sympy.exp(z) + sympy.exp(-z)),
    "gelu": z / 2 * (1 + sympy.erf(z / sympy.sqrt(2))),
    "arctan": sympy.atan(z) + sympy.sin(3 * z) * sympy.cos(z),
    "root": z / sympy.sqrt(1 + z**2) + (1 + z**2) ** sympy.Rational(-3, 2),
    "powers": sympy.Rational(1, 3) / (1 + z**4) - z**7 / (2 + z**8),
    "bell": z * sympy.exp(-(z**2) / 2),
    "soliton": z * sympy.sech(z / 3) ** 2,
}
SWITCHES = {
    "max": sympy.Max(z, 0, -z / 10),
    "clip": sympy.Min(1, sympy.Max(-1, z)),
    "abs": abs(z) - sympy.sign(z - 1),
    "step": sympy.Heaviside(z - 1),
    "pieces": sympy.Piecewise((0, z < 0), (z**2, z <= 1), (2 * z - 1, True)),
    "covered": sympy.Piecewise((-1, z < 1), (z, z >= 1)),
    "both": sympy.Piecewise((1, (z > 0) & (z < 2)), (2, sympy.Or(z > 5, z < -5)), (3, True)),
}


@pytest.fixture(scope="module")
def compiled():
    parts = [modules.PRELUDE]
    for name, expr in ANALYTIC.items():
        results = [expr, expr.diff(z), expr.diff(z, 2)]
        parts.append(printer.function(name, [z], results, decorator="@scalar", doc=name))
    for name, expr in SWITCHES.items():
        parts.append(printer.function(f"{name}_", [z], expr, decorator="@scalar"))
    return modules.load("\n\n".join(parts), "printed")


@pytest.mark.parametrize("name", ANALYTIC)
def test_analytic_functions_and_derivatives_far_from_the_origin(compiled, name):
    expr = ANALYTIC[name]
    with mpmath.workdps(950):
        exact = [sympy.lambdify(z, expr.diff(z, k), "mpmath") for k in range(3)]
        for x in FAR:
            got = getattr(compiled, name)(x)
            for value, function in zip(got, exact, strict=True):
                assert value == pytest.approx(float(function(mpmath.mpf(x))), rel=1e-13, abs=1e-14)


def test_tails_keep_their_relative_accuracy(compiled):
    with mpmath.workdps(50):
        for x in (-30.0, -100.0, -700.0):
            exact = float(mpmath.mpf(x) / (1 + mpmath.exp(-mpmath.mpf(x))))
            assert compiled.silu(x)[0] == pytest.approx(exact, rel=1e-13)
        exact = float(mpmath.mpf(-10) / 2 * mpmath.erfc(10 / mpmath.sqrt(2)))
        assert compiled.gelu(-10.0)[0] == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize("name", SWITCHES)
def test_switches(compiled, name):
    for x in (*FAR, 0.0, 1.5, 2.0, -5.0):
        exact = float(SWITCHES[name].subs(z, sympy.Rational(x)))
        assert getattr(compiled, f"{name}_")(x) == pytest.approx(exact, rel=1e-15, abs=0)


def test_the_same_source_runs_on_arrays_of_random_points(compiled):
    rng = np.random.default_rng(0)
    for x in rng.normal(size=200) * 5:
        assert compiled.ratio(x)[0] == pytest.approx(np.tanh(x), rel=1e-14)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.integers(0, 2),
    st.sampled_from([1, 2, sympy.Rational(1, 2), -1]),
)
def test_stable_forms_are_equal_to_what_they_replace(above, below, m, rate):
    E = sympy.exp(rate * z)
    denominator = (1 + sum(c * E**k for k, c in enumerate(below))) * (1 + E) ** m
    expr = z + sum(c * z * E**k for k, c in enumerate(above)) / denominator
    shown = stable(expr)
    shown = shown.replace(Sigmoid, lambda u: 1 / (1 + sympy.exp(-u)))
    for x in (sympy.Rational(-7, 3), sympy.Rational(1, 5), 2):
        assert abs(sympy.N((shown - expr).subs(z, x), 30)) < 1e-20


def test_integer_powers_are_products():
    assert printer.expression(z**3, {z: "z"}) == "z * z * z"
    assert printer.expression(1 / z**2, {z: "q"}) == "1.0 / (q * q)"
    assert printer.expression(-2 * z / 3, {z: "z"}) == "-(2.0 / 3.0) * z"
    assert "pow" not in printer.expression(z**40, {z: "z"})


@pytest.mark.parametrize("name", ["sec", "csc", "cot", "sech", "csch", "coth", "Abs", "log"])
def test_functions_that_math_lacks_are_printed_by_those_that_it_has(name):
    function = getattr(sympy, name)
    value = eval(printer.expression(2 * function(z), {z: "z"}), {"math": math, "z": 0.7})
    assert value == pytest.approx(float(2 * function(sympy.Rational(7, 10))), rel=1e-15)


def test_common_subexpressions_and_bases_are_computed_once():
    source = printer.function("f", [z], [sympy.tanh(z) ** 4, 1 - sympy.tanh(z) ** 2])
    assert source.count("math.tanh") == 1
    assert printer.function("f", [z], sympy.tanh(z) ** 2).count("math.tanh") == 1


def test_locals_are_defined_in_the_order_they_need():
    s, t = sympy.symbols("s t", real=True)
    source = printer.function("f", [z], s + t, [(s, t**2), (t, sympy.sin(z))])
    assert source.index("t = ") < source.index("s = ")
    with pytest.raises(InputError, match="circle"):
        printer.function("f", [z], s, [(s, t), (t, s + z)])


@pytest.mark.parametrize(
    ("expr", "named"),
    [
        (K * z, "K"),
        (sympy.DiracDelta(z), "DiracDelta"),
        (sympy.besselj(0, z), "besselj"),
        (sympy.I * z, "I"),
        (sympy.zoo, "zoo"),
        (sympy.Piecewise((z, z > 0)), "Piecewise"),
        (sympy.Function("g")(z), "g"),
        (sympy.Function("tanh")(z), "tanh"),
        (sympy.floor(z), "floor"),
        (sympy.factorial(z), "factorial"),
        (sympy.Mod(z, 2), "Mod"),
        (sympy.nan, "NaN"),
        (sympy.Sum(z, (z, 0, 3)), "Sum"),
        (sympy.Integer(10) ** 400 * z, "doubles"),
    ],
)
def test_what_a_kernel_cannot_compute_is_refused_by_name(expr, named):
    with pytest.raises(InputError, match=named):
        printer.expression(expr, {z: "z"})


def test_names_must_be_identifiers_and_distinct():
    with pytest.raises(InputError, match="lambda"):
        printer.function("f", [sympy.Symbol("lambda")], sympy.Integer(1))
    with pytest.raises(InputError, match="abs"):
        printer.function("abs", [z], abs(z))
    with pytest.raises(InputError, match="distinct"):
        printer.function("f", [z, sympy.Symbol("z", positive=True)], z)


def test_templates_take_names_and_lines():
    template = "def f($x):\n    if $x:\n        $body\n    $none\n    return $x, '{x}'\n"
    text = printer.filled(template, x="a", body=["b = 1\n", "for $x in a:\n\n    c"], none=[])
    wanted = "def f(a):\n    if a:\n        b = 1\n        for $x in a:\n\n            c\n"
    assert text == f"{wanted}    return a, '{{x}}'\n"
    with pytest.raises(KeyError, match="x"):
        printer.filled(template, body="", none="")


def test_constants_and_tuples():
    assert printer.literal(float("-inf")) == "-math.inf"
    assert printer.listing(["a"]) == "(a,)"
    assert printer.constant("C", [0.5, 2]) == "C = (\n    0.5,\n    2.0,\n)\n"


def test_output_does_not_depend_on_the_hash_seed():
    program = (
        "import sympy; from numeric.emit import printer; z, K = sympy.symbols('z K', real=True);"
        "e = sympy.tanh(K*z)/(1+sympy.exp(-z)) + sympy.sin(z)*K;"
        "print(printer.function('f', [z, K], [e.diff(z, k) for k in range(3)]))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


@pytest.mark.parametrize("name", ["tanh", "silu", "sigmoid", "softplus"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_printed_derivatives_keep_their_digits_far_out(name, order):
    """As those of `flow` do (`test_accuracy`): 1 − tanh² has none left at z = 40."""
    activation = activations.by_name(name)
    derivative = activation.derivative(order)
    text = printer.expression(derivative, {activations.z: "z"})
    for at in (-40.0, -9.0, 3.0, 40.0):
        exact = float(derivative.subs(activations.z, sympy.Integer(int(at))).evalf(30, maxn=300))
        assert eval(text, {"math": math, "z": at}) == pytest.approx(exact, rel=1e-13, abs=0.0)
