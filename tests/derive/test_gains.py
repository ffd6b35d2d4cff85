"""Gains: √C_W of the critical point with the sentence why, or the refusal that says what to do."""

from __future__ import annotations

import math
import re

import mpmath
import pytest
import sympy

from derive import InputError, Network, criticality, recursion
from derive import activations as a
from derive.gaussian import gaussian_average
from derive.symbols import C_W, C_b, K, z

R = sympy.Rational


def mean(sigma, orders, star):
    """⟨Π σ^{(orders)}⟩_K at K = star, by the oracle."""
    product = sympy.Mul(*(sigma.expr.diff(z, order) for order in orders))
    return float(gaussian_average(product, mpmath.mpf(sympy.N(star, 20)), 20).value)


@pytest.mark.parametrize("slope", [R(0), R(1, 100), R(1, 4), R(-1, 2), R(1)])
def test_of_two_slopes(slope):
    """√(2/(1 + a²)): what `torch.nn.init.calculate_gain` has for ReLU, leaky ReLU and no σ."""
    found = criticality(a.leaky_relu(slope)).gain
    assert sympy.simplify(found.value - sympy.sqrt(2 / (1 + slope**2))) == 0
    assert found.C_b == 0
    assert "every K" in str(found)


@pytest.mark.parametrize("slope", [R(1), R(3), R(1, 2)])
def test_at_zero_it_is_one_over_the_slope(slope):
    found = criticality(a.from_expr(sympy.tanh(slope * z))).gain
    assert found.value == 1 / slope
    assert "K* = 0" in found.reason


MISH = a.from_expr("mish(z)")


@pytest.mark.parametrize(
    ("sigma", "at_zero"), [(a.gelu, "2"), (a.silu, "2"), (MISH, "1.66667")], ids=str
)
def test_of_half_stable_ones(sigma, at_zero):
    """C_W ⟨σ'σ'⟩ = 1, K* = C_b + C_W ⟨σσ⟩ and ⟨σσ''⟩ = 0, by enclosures of the integrals."""
    found = criticality(sigma)
    gain, star = found.gain, found.K_star
    C_W, C_b = (float(value) for value in (gain.C_W, gain.C_b))
    means = {orders: mean(sigma, orders, star) for orders in ((0, 0), (1, 1), (0, 2))}
    assert C_W * means[1, 1] == pytest.approx(1, abs=1e-14)
    assert C_b + C_W * means[0, 0] == pytest.approx(float(star), rel=1e-13)
    assert means[0, 2] == pytest.approx(0, abs=1e-14)
    assert float(gain) == pytest.approx(math.sqrt(C_W), rel=1e-15)
    assert gain.std_b == pytest.approx(math.sqrt(C_b), rel=1e-15)
    for said in ("half-stable", f"also critical: K* = 0 at √C_W = {at_zero} is unstable"):
        assert said in str(gain)


@pytest.mark.parametrize(
    ("sigma", "why"),
    [
        ("sigmoid", "no solution with C_b ≥ 0; a block with a norm and a skip"),
        ("expr: sinh(z)", "repels.*at\\(K\\)"),
        ("expr: sign(z)", "jumps, so χ_⊥ is infinite$"),
        ("expr: 0*z", "forgets its input$"),
    ],
)
def test_where_there_is_none(sigma, why):
    with pytest.raises(InputError, match=why):
        _ = criticality(a.by_name(sigma)).gain


@pytest.mark.parametrize("star", [0.5, 1, R(7, 2)])
def test_at_a_chosen_fixed_point(star):
    """K* = C_b + C_W ⟨σσ⟩ and C_W ⟨σ'σ'⟩ = 1, by enclosures of the integrals."""
    found = criticality("tanh").at(star)
    square, slope = (mean(a.tanh, orders, star) for orders in ((0, 0), (1, 1)))
    assert float(found.C_W) == pytest.approx(1 / slope, rel=1e-14)
    assert float(found.C_b) == pytest.approx(float(star) - square / slope, rel=1e-13)
    assert "attracts" in found.reason


def test_a_chosen_fixed_point_of_relu_is_the_critical_line():
    found = criticality("relu").at(3)
    assert (float(found.C_W), found.C_b) == (2, 0)
    assert found.reason.endswith("does not attract")


@pytest.mark.parametrize("star", [0, -1, sympy.Symbol("q"), "z", math.nan])
def test_no_fixed_point(star):
    with pytest.raises(InputError, match="K"):
        criticality("tanh").at(star)


def test_no_biases_below_zero():
    with pytest.raises(InputError, match=r"K: got 1; wanted .* needs C_b = -5\.54"):
        criticality("sigmoid").at(1)


def test_of_layers():
    half = criticality("tanh", layer="residual(skip=1/2)")
    assert half.critical[1] == half.gain.C_W
    assert "residual(skip=1/2)" in half.gain.reason
    grows = criticality("relu", layer="residual(skip=1, norm=rms)")
    assert grows.chosen(3).reason.startswith("in residual(skip=1, norm=rms) K grows")
    assert (grows.chosen(3).C_W, grows.chosen(3).C_b) == (3, 0)
    assert "1 + 1.0/ℓ" in grows.chosen(3).reason  # ζ = C_W² ⟨σ'σ'⟩/(C_W ⟨σσ⟩) = C_W/K_h = 1
    with pytest.raises(InputError, match="chosen"):
        _ = grows.gain
    line = criticality("tanh", layer="normalized(rms)")
    assert float(line.chosen(2).C_b) == pytest.approx(float(line.bias(2)), rel=1e-15)
    assert float(line.chosen(2).C_b) == pytest.approx(2 * float(line.chosen(1).C_b), rel=1e-15)
    for odd in (0, -1, "q"):
        with pytest.raises(InputError, match="C_W"):
            line.chosen(odd)
    with pytest.raises(InputError, match="critical for every C_W"):
        half.chosen(1)
    with pytest.raises(InputError, match="dense"):
        half.at(1)


def test_shows_what_is_exact():
    assert str(criticality("relu").gain).startswith("1.41421 = sqrt(2) (C_b = 0): χ_∥ = χ_⊥ = 1")
    assert criticality("relu").gain.latex() == (r"\sqrt{C_W} = \sqrt{2} \approx 1.41421,\; C_b = 0")
    assert criticality("gelu").gain.latex() == r"\sqrt{C_W} = 1.40821,\; C_b = 0.17292239"


def test_long_numbers_are_decimals():
    """SELU's constants have 20 digits, and what is made of them 75."""
    found = criticality(a.selu)
    net, kernel = Network(a.selu), recursion("K", activation=a.selu).single_input()
    shown = [found, found.latex(), found.gain, found.gain.latex(), repr(net), net.latex(), kernel]
    for text in map(str, shown):
        assert max(map(len, re.findall("[0-9]+", text))) <= 9
    rate = found.points[0].decay(sympy.Integer(1))
    assert f"{float(rate):.7f}/l**2" in str(found.gain)


@pytest.mark.parametrize("activation", [a.silu, a.softsign, a.relu], ids=str)
def test_susceptibilities_are_expressions_that_evaluate(activation):
    """In closed form or not: `expr` at K = 2 and C_W = 3/2 is what the function gives there."""
    found = criticality(activation)
    for function in (found.chi_parallel, found.chi_perp, found.kernel_map):
        value = function.expr.subs({K: 2, C_W: R(3, 2), C_b: 0}).evalf(20)
        assert abs(float(value) - float(function(2, R(3, 2)))) < 1e-15
