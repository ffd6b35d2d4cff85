"""Tensors of layers with norms and skips at large depth, beside their flow."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy
from mpmath import mpf

from derive import Gaussian, Network, Orthogonal, activations, criticality, recursion
from derive.errors import InputError
from derive.gaussian import Bracket, around_infinity, average_at
from derive.symbols import ell
from numeric import flow

NAMES = ("K", "Theta", "V", "G1", "F")
PRE = "residual(skip=1, norm=rms)"


def solved(name, sigma, layer, terms=2, weights=None, **given):
    return recursion(name, weights or Orthogonal(), layer=layer).asymptotics(sigma, terms, **given)


@pytest.mark.parametrize(
    ("sigma", "layer", "C_b", "C_W", "accuracy"),
    [
        ("tanh", PRE, 0.2, 1.3, 2e-4),
        ("relu", "gated(skip=1, norm=layer)", 0, 1, 2e-6),
        ("tanh", "residual(skip=1/2)", None, None, 1e-2),
    ],
)
def test_series_with_constants_of_one_layer_meet_the_flow_far_deeper(
    sigma, layer, C_b, C_W, accuracy
):
    given = {} if C_W is None else {"C_b": C_b, "C_W": C_W}
    critical = criticality(sigma, layer=layer).critical if C_W is None else (C_b, C_W)
    net = Network(
        sigma, Orthogonal(critical[1]), C_b=critical[0], layer=layer, lambda_b=lambda at: 1 / at
    )
    table = flow(net, [1.0, 0.3], 900, NAMES)
    for name in NAMES:
        found = solved(name, sigma, layer, 3, **given)
        values = {each.name: float(table[each.name][299]) for each in found.system.recursions}
        constants = {c: float(v) for c, v in found.matched(values, 300, 3).items()}
        at_depth = float(table[name][899])
        assert found.evaluate(900, constants) == pytest.approx(at_depth, rel=accuracy, abs=1e-12)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()])
def test_limits_at_a_kernel_that_attracts_are_those_of_the_flow(weights):
    layer, given = "residual(skip=1/2, norm=rms, eps=1/10)", {"C_b": 0.5, "C_W": 0.5}
    net = Network("tanh", type(weights)(0.5), C_b=0.5, layer=layer, lambda_b=lambda at: 1 / at)
    table = flow(net, [1.0, 0.3], 200, ("K", "V", "G1"))
    for name in ("K", "V", "G1"):
        limit = solved(name, "tanh", layer, 1, weights, **given)
        assert float(limit.expr) == pytest.approx(float(table[name][-1]), rel=1e-12, abs=1e-13)
        assert 0 < limit.system.rate < 1


@pytest.mark.parametrize(
    ("layer", "given"),
    [
        ("residual(skip=1/2{})", {}),
        ("residual(skip=1/2, norm=rms{})", {"C_b": 0.1, "C_W": 0.9}),
        ("gated(skip=1, norm=rms{})", {"C_b": 0.2, "C_W": 1.3}),
        ("residual(skip=1/2{}); dense({})", {}),
    ],
)
def test_a_layer_of_its_own_sigma_and_laws_is_one_of_the_networks(layer, given):
    plain = layer.format("", "")
    own = layer.format(*(f"{c}weights=orthogonal, activations=tanh" for c in (", ", "")))
    for name in NAMES:
        one = solved(name, "tanh", plain, 2, **given)
        other = solved(name, "relu", own, 2, Gaussian(), **given)
        assert one.expr == other.expr


PERIODS = {
    "K* = 0": ("sin", "dense(activations=tanh); residual(skip=1/2, weights=gaussian)", {}),
    "any K": ("linear", "dense(activations=relu); residual(skip=1/3)", {}),
    "kinks between": ("tanh", "dense(activations=relu); dense", {}),
    "growth": (
        "gelu",
        "residual(norm=rms, weights=gaussian); gated(skip=1, norm=rms, activations=sigmoid)",
        {"C_b": 0.2, "C_W": 1.3},
    ),
}


@pytest.mark.parametrize("name", PERIODS)
def test_a_period_of_layers_is_followed_to_large_depth_by_the_flow_of_its_layers(name):
    """The constants are matched at one depth, and the flow is that of the layers one by one."""
    sigma, layer, given = PERIODS[name]
    C_b, C_W = (given["C_b"], given["C_W"]) if given else criticality(sigma, layer=layer).critical
    net = Network(sigma, Orthogonal(C_W), C_b=C_b, layer=f"({layer})*")
    table = flow(net, [1.0, 0.3], 1 + 2 * 600, ("K", "V", "G1")).isel(layer=slice(0, None, 2))
    for tensor in ("K", "V", "G1"):
        found = solved(tensor, sigma, layer, 3, **given)
        values = {each.name: float(table[each.name][199]) for each in found.system.recursions}
        constants = {c: float(v) for c, v in found.matched(values, 200, 3).items()}
        far = float(table[tensor][599])
        assert found.evaluate(600, constants) == pytest.approx(far, rel=2e-3, abs=1e-12)


def test_limits_of_a_period_are_those_of_the_flow_of_its_layers():
    layer = "dense(activations=gelu, weights=gaussian); residual(skip=1/2)"
    net = Network("tanh", Orthogonal(0.9), C_b=0.1, layer=f"({layer})*")
    table = flow(net, [1.0, 0.3], 201, ("K", "V", "G1"))
    for name in ("K", "V", "G1"):
        limit = solved(name, "tanh", layer, 1, C_b=0.1, C_W=0.9)
        assert float(limit.expr) == pytest.approx(float(table[name][-1]), rel=1e-12)


def test_on_the_critical_line_the_tangent_kernel_grows_linearly():
    found = solved("Theta", "tanh", "residual(skip=1/2, norm=rms)", 1, C_W=1)
    assert (found.terms[0].exponent, found.terms[0].log) == (-1, 0)
    flat = solved("Theta", "relu", "normalized(rms)", 1, C_W=1)
    assert float(flat.terms[0].coefficient) == pytest.approx(0.5, abs=1e-14)


def test_the_tangent_kernel_follows_the_power_of_the_jacobian():
    zeta = criticality("tanh", layer=PRE).exponent(1, 1.3, 0)
    found = solved("Theta", "tanh", PRE, 1, C_b=0, C_W=1.3)
    assert float(-found.terms[0].exponent) == pytest.approx(float(zeta), rel=1e-12)


def test_a_skip_undoes_what_orthogonal_weights_do():
    # V/K² of orthogonal tanh layers tends to −2 in a dense network, and grows with a skip
    found = solved("V", "tanh", "residual(skip=1/2)", 1).normalised
    assert sympy.simplify(found.expr - ell / 4) == 0
    grows = solved("V", "relu", "residual(skip=1/2)", 1).normalised
    assert sympy.simplify(grows.terms[0].expr - sympy.Rational(39, 16) * ell) == 0


def test_what_is_not_given_or_not_solved_is_said():
    with pytest.raises(InputError, match="grows linearly at all"):
        solved("K", "tanh", PRE).expr  # noqa: B018
    with pytest.raises(InputError, match="critical on a line"):
        solved("K", "tanh", "normalized(rms)").expr  # noqa: B018
    with pytest.raises(InputError, match="settles"):
        solved("K", "tanh", "residual(skip=3/2)", C_b=0, C_W=1).expr  # noqa: B018


def test_layers_whose_own_variances_are_fixed():
    """K' = K/4 + ⟨tanh²⟩ at 3K/4: critical at K* = 0 with no C_W, and K* > 0 with biases."""
    given = "residual(skip=1/2, C=(3/4, 1))"
    assert criticality("tanh", layer=given).universality_class == "K* = 0"
    made = recursion("K", layer=given)
    net = Network("tanh", layer=given, first_weights="gaussian")
    found = made.asymptotics("tanh", 2)
    left = float(flow(net, [1.0, 0.3], 500, ["K"]).K[-1]) * 500 * 9 / 8 - 1
    assert 0 < left < 0.04  # 8/(9ℓ), and a term in log ℓ/ℓ²
    assert found.terms[0].expr == sympy.Rational(8, 9) / ell
    limit = made.asymptotics("tanh", 1, C_b="1/10").expr
    with_biases = replace(net, C_b=sympy.Rational(1, 10))
    deep = flow(with_biases, [1.0, 0.3], 200, ["K"]).K[-1]
    assert float(limit) == pytest.approx(float(deep), rel=1e-12)
    with pytest.raises(InputError, match="C_W: got 1; wanted None: C of"):
        made.asymptotics("tanh", C_b=0, C_W=1)


@pytest.mark.parametrize(
    ("layer", "given", "why"),
    [
        ("residual(skip=1, C=(1/2, 1))", {"C_b": 0}, "grows without end"),
        ("residual(skip=1/2, C=(3/4, 1))", {"C_b": 0}, "falls to 0"),
        ("residual(skip=1/2, C=(1/2, 1))", {}, "fixes χ_∥ and χ_⊥, which are not 1"),
        ("residual(skip=1)", {"C_b": 0, "C_W": 1}, "grows without end"),
    ],
)
def test_what_has_no_limit_is_refused_at_the_call(layer, given, why):
    with pytest.raises(InputError, match=why):
        recursion("V", layer=layer).asymptotics("tanh", **given)


ENDS = {
    "K* = 0": ("dense; dense*; residual(skip=1/2)", "tanh", {}),
    "another last activation": ("dense", "tanh*; sin", {}),
    "K* > 0": ("residual(skip=1/2, norm=rms, eps=1/10)*; gated", "tanh", {"C_b": 0.5, "C_W": 0.5}),
    "growth": ("gated; residual(norm=rms)*; dense", "tanh", {"C_b": 0.1, "C_W": 1.2}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_first_and_last_layers_are_followed_by_the_flow_to_what_is_left_out(name):
    """Constants matched before the last layer, and four times deeper an error that is far less."""
    layer, sigma, given = ENDS[name]
    C_b, C_W = given.values() if given else criticality("tanh", layer=layer).critical
    net = Network(sigma, Gaussian(C_W), C_b=C_b, layer=layer)
    found = recursion("V", layer=layer).asymptotics(sigma, 3, **given)
    misses = []
    for depth in (100, 400):
        table = flow(net, [1.0, 0.3], depth, ("K", "V"), seconds=0)
        values = {each.name: float(table[each.name][-2]) for each in found.system.recursions}
        constants = {c: float(v) for c, v in found.matched(values, depth - 1, 5).items()}
        flowed = float(table["V"][-1])
        misses.append(abs(found.evaluate(depth, constants) - flowed))
        assert misses[-1] < 5 * found.error(depth, constants) + 1e-13 * abs(flowed)
    assert misses[1] < misses[0] / 8 + 1e-14
    assert misses[1] < 1e-3 * abs(flowed)


def test_first_and_last_layers_that_are_those_that_repeat_change_nothing():
    one = recursion("V").asymptotics("tanh", 3)
    for layer, sigma in (("dense; dense*; dense", "tanh"), ("dense", "gelu; tanh*; tanh")):
        other = recursion("V", layer=layer).asymptotics(sigma, 3)
        assert other.expr == one.expr
        assert other.normalised.expr == one.normalised.expr
    block, head = "dense(activations=sin)", "; dense(activations=tanh)"
    own = recursion("K", layer=f"{block}*{head}").asymptotics("relu", 3)
    assert own.expr == recursion("K").asymptotics("sin*; tanh", 3).expr
    with pytest.raises(InputError, match="no other first or last layers"):
        recursion("V", layer="gated; dense*").asymptotics("relu").at_inputs()
    with pytest.raises(InputError, match="layers of scale-invariant activations"):
        recursion("V").asymptotics("relu*; tanh")
    with pytest.raises(InputError, match="K falls like 1/log"):
        recursion("V").asymptotics("hard_tanh*; tanh")


def test_averages_at_large_kernels_are_their_power_series():
    bracket = Bracket(((1, 0), (1, 1)), (1,))
    terms, end = around_infinity(activations.tanh, bracket, 5)
    misses = []
    for at in (100, 400):
        total = sum(float(each.value) * at ** float(power) for power, each in terms.items())
        misses.append(abs(total - float(average_at(activations.tanh, (0, 1), 1, mpf(at), 25))))
    assert misses[0] < 1e-10
    assert misses[1] / misses[0] == pytest.approx(4 ** float(end), rel=0.2)
    with pytest.raises(InputError, match="tends to a line"):
        around_infinity(activations.sin, bracket, 2)
