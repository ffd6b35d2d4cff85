"""Criticality of layers with norms, skips and gates, from their derived K and Θ."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, criticality
from derive.errors import InputError
from derive.symbols import C_W, C_b
from numeric import flow

GAMMA = sympy.Symbol("gamma", positive=True)
LAYERS = [
    "residual(skip=1/2)",
    "residual(skip=1, norm=rms, C=(2, 3/2))",
    "residual(skip=2/3, norm=layer, eps=1/5)",
    "normalized(rms, eps=1/10)",
    "gated(skip=1/3)",
    "gated(norm=rms)",
]


@pytest.mark.parametrize("layer", LAYERS)
def test_chi_perp_is_what_nearby_inputs_part_by(layer):
    # K'(11) − K'(12) over K(11) − K(12), at equal lengths and a small angle
    angle, length = 1e-3, 1.3
    inputs = length * np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    table = flow(Network("tanh", "orthogonal", C_b=0.3, layer=layer), inputs, 2, ["K"])["K"]
    below, behind = (table.sel(layer=at).to_numpy() for at in (1, 2))
    ratio = (behind[0, 0] - behind[0, 1]) / (below[0, 0] - below[0, 1])
    found = criticality("tanh", layer=layer)
    assert float(found.chi_perp(below[0, 0], 1, 0.3)) == pytest.approx(ratio, rel=2e-6)
    assert float(found.kernel_map(below[0, 0], 1, 0.3)) == pytest.approx(behind[0, 0], rel=1e-12)


@pytest.mark.parametrize("layer", LAYERS)
def test_chi_parallel_is_the_slope_of_the_kernel(layer):
    found = criticality("tanh", layer=layer)
    with mpmath.workdps(40):
        at, step = mpmath.mpf("0.7"), mpmath.mpf("1e-8")
        ends = [found.kernel_map(at + s * step, 1.2, 0.1, 30) for s in (1, -1)]
        slope = float((ends[0] - ends[1]) / (2 * step))
    assert float(found.chi_parallel(0.7, 1.2, 0.1)) == pytest.approx(slope, abs=1e-12)


@pytest.mark.parametrize(
    ("sigma", "layer", "kind", "C_W_star"),
    [
        ("tanh", "residual(skip=gamma)", "K* = 0", sympy.sqrt(1 - GAMMA**2)),
        ("relu", "residual(skip=gamma)", "scale-invariant", sympy.sqrt(2 - 2 * GAMMA**2)),
        ("tanh", "normalized(rms, eps=1/10)", "K* = 0", sympy.Rational(1, 10)),
        ("sin", "residual(skip=1/2, ratio=4)", "K* = 0", sympy.sqrt(3) / 2),
    ],
)
def test_critical_weights_in_closed_form(sigma, layer, kind, C_W_star):
    found = criticality(sigma, layer=layer)
    assert found.universality_class == kind
    assert found.critical[0] == 0
    assert sympy.simplify(found.critical[1] - C_W_star) == 0


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["residual(skip=1/2)", "gated(skip=1/2)"])
def test_half_stable_layers_have_both_slopes_one(layer):
    found = criticality("gelu", layer=layer)
    assert found.universality_class == "half-stable"
    point = found.points[0]
    at = (point.K, point.C_W, point.C_b)
    for value in (found.chi_parallel(*at), found.chi_perp(*at), found.kernel_map(*at) / point.K):
        assert abs(value - 1) < 1e-15
    # beside K*, K' − K* = ΔK + coefficient ΔK²
    step = sympy.Rational(1, 10**4)
    bent = found.kernel_map(point.K + step, *at[1:], 30) - found.kernel_map(*at, 30)
    curvature = (bent - mpmath.mpf(float(step))) * 10**8
    assert float(curvature) == pytest.approx(float(point.coefficient), rel=1e-2)


def test_kernels_fall_to_zero_as_the_coefficient_says():
    net = Network.critical("tanh", layer="residual(skip=1/2)")
    (point,) = criticality("tanh", layer="residual(skip=1/2)").points
    kernel = float(flow(net, [1.0], 4000, ["K"])["K"][-1])
    ell = sympy.Symbol("l")
    assert float(point.decay(ell).subs(ell, 4000)) == pytest.approx(kernel, rel=0.01)


@pytest.mark.parametrize("sigma", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("layer", ["normalized(rms)", "residual(skip=1/2, norm=layer)"])
def test_a_normalized_layer_has_a_line_of_critical_biases(sigma, layer):
    found = criticality(sigma, layer=layer)
    assert found.universality_class == "normalized"
    assert found.every_C_W == (sigma == "relu")
    if sigma == "sigmoid":  # its mean is not 0, and ⟨σ'σ'⟩ is far below ⟨σσ⟩
        with pytest.raises(InputError, match="C_b ≥ 0"):
            found.bias(1.7)
        return
    bias = found.bias(1.7)
    assert bias == 0 if sigma == "relu" else bias > 0
    skip = found.chi_parallel(1, 1.7, bias)
    kernel = found.rate(1, 1.7, bias) / (1 - skip)
    assert float(found.kernel_map(kernel, 1.7, bias) / kernel) == pytest.approx(1, abs=1e-14)
    assert float(found.chi_perp(kernel, 1.7, bias)) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    "layer", ["residual(skip=1, norm=rms)", "gated(skip=1, norm=layer, eps=1/100)"]
)
def test_at_a_skip_of_one_the_jacobian_is_a_power_law_at_every_C_W(layer):
    found = criticality("tanh", layer=layer)
    assert found.universality_class == "linear growth"
    assert found.every_C_W
    assert found.points == ()
    C_W_, C_b_ = 1.7, 0.4
    zeta, rate = (float(each(1, C_W_, C_b_)) for each in (found.exponent, found.rate))
    far = 10**6 * rate
    assert float(found.kernel_map(far, C_W_, C_b_)) - far == pytest.approx(rate, rel=1e-4)
    assert (float(found.chi_perp(far, C_W_, C_b_)) - 1) * 10**6 == pytest.approx(zeta, rel=1e-4)
    with pytest.raises(InputError, match="every C_W and C_b"):
        Network.critical("tanh", layer=layer)


def test_what_is_critical_nowhere_says_why():
    assert criticality("tanh", layer="residual").universality_class == "none"
    grows = criticality("relu", layer="residual(skip=1)")
    assert "same factor" in grows.reason
    assert criticality("relu", layer="residual(skip=2, norm=rms)").reason == "K grows as (4)**l"


def test_zeta_of_relu_does_not_depend_on_the_weights():
    found = criticality("relu", layer="residual(skip=1, norm=rms)").exponent
    assert sympy.simplify(found.closed - C_W**2 / (C_W**2 + 2 * C_b)) == 0


def test_biases_inside_a_block_enter_the_kernel_that_moves():
    """The inner kernel C_W K + C_b is at GELU's point; K* and χ stay there, layer by layer."""
    layer = "around(sequence(dense(activations=linear), dense), skip=1/2)"
    point = next(each for each in criticality("gelu", layer=layer).points if each.K)
    net = Network("gelu", Gaussian(point.C_W), C_b=point.C_b, layer=layer)
    x = sympy.sqrt((point.K - point.C_b) / point.C_W)
    table = flow(net, [float(x)], 6, ["K"])
    assert np.allclose(table["K"], float(point.K), rtol=1e-9)
