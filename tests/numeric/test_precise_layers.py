"""Digits of layers: balls against floats, against exact values, and inputs that are multiples."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy
from agreement import close
from flint import arb

from derive import Gaussian, InputError, Network, Orthogonal, activations, layers
from derive.engine import STREAM
from numeric import flow
from numeric.layers.precise import dependence, functions, geometry

ONE, TWO = [1.0, 0.5], [[1.0, 0.5], [0.25, -0.75]]
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"]
SHIPPED = [
    "normalized(rms)",
    "normalized(layer, eps=1/10)",
    "residual(skip=1/2, norm=rms)",
    "residual(skip=1, norm=layer, ratio=2, C=(2, 1/2))",
    "residual(norm=None)",
    "gated(norm=rms)",
    "gated(skip=1, norm=layer)",
    "dense; (residual(norm=rms); gated(norm=layer))*; normalized(rms)",
]


@pytest.mark.parametrize("sigma", ["tanh", "gelu", "relu"])
@pytest.mark.parametrize("layer", SHIPPED)
def test_floats_agree_with_digits(layer: str, sigma: str) -> None:
    tensors = TOWER if sigma != "relu" else [name for name in TOWER if name != "Theta1"]
    net = Network(sigma, Orthogonal(C_W="9/10"), C_b="1/10", lambda_b="1/l", layer=layer)
    close(net, ONE, 4, tensors)


@pytest.mark.parametrize("sigma", ["tanh", "relu"])
@pytest.mark.parametrize("layer", [SHIPPED[0], SHIPPED[2], SHIPPED[5]])
def test_floats_agree_with_digits_of_two_inputs(layer: str, sigma: str) -> None:
    close(Network(sigma, Gaussian(C_W="3/2"), layer=layer), TWO, 3, ["K", "G1", "V"], 20)


def test_unequal_widths_have_digits() -> None:
    own = layers.Layer("h[i] = W1[i,a] s(z[a])", "z[i] = W2[i,a] h[a]", ratio={"h": 3})
    net = Network("tanh", Orthogonal(), Gaussian(), layer=own, width_ratio=[1, 4, "1/2"])
    close(net, ONE, 3, ["K", "G1", "V", "Theta"], 30)


def test_a_polynomial_layer_is_exact() -> None:
    """z' = W₃[(W₁ z) ∘ (W₂ z)]: K' = C³ K², and 30 digits of its square root's powers."""
    net = Network(activations.linear, Gaussian(C_W="1/3"), layer="gated")
    K = flow(net, [0.5, 1.5], 4, "K", precision=30).K.to_numpy()
    exact = [Fraction(1, 3) * Fraction(5, 4)]
    for _ in range(3):
        exact.append(Fraction(1, 27) * exact[-1] ** 2)
    assert all(
        abs(Fraction(value) / each - 1) < Fraction(1, 10**29)
        for value, each in zip(K, exact, strict=True)
    )


def test_more_digits_begin_with_fewer() -> None:
    net = Network("gelu", layer="residual(norm=layer)", C_b="1/10")
    few, many = (flow(net, ONE, 3, ["V", "G1"], precision=n) for n in (20, 45))
    for name in ("V", "G1"):
        for one, other in zip(few[name].values, many[name].values, strict=True):
            assert abs(Fraction(one) - Fraction(other)) <= Fraction(abs(other)) / 10**19


@pytest.mark.parametrize("layer", ["normalized(rms)", "residual(norm=rms)", "gated(norm=rms)"])
@pytest.mark.parametrize("times", [1, -3])
def test_inputs_that_are_multiples_are_seen_to_be(layer: str, times: int) -> None:
    """z ↦ c z leaves a norm but for the sign: of tanh the brackets are those of one input."""
    inputs = [[1.0, 0.5], [times * 1.0, times * 0.5], [0.25, -0.75]]
    close(Network("tanh", layer=layer), inputs, 3, ["K", "V"], 16)


def test_a_norm_with_eps_of_multiples_is_refused() -> None:
    net = Network("tanh", layer="normalized(rms, eps=1/10)")
    with pytest.raises(InputError, match="no multiples of each other"):
        flow(net, [[1.0, 0.5], [2.0, 1.0]], 3, "K", precision=20)


def test_what_floats_refuse_digits_refuse() -> None:
    relu = Network("relu", layer="normalized(layer)")
    for precision in (None, 20):
        with pytest.raises(InputError, match="mean is subtracted"):
            flow(relu, [[1, 2], [-1, -2]], 3, "V", precision=precision)
        with pytest.raises(InputError, match="numbers for gamma"):
            flow(Network("tanh", layer="residual(skip=gamma)"), ONE, 3, precision=precision)


def rows(layer: str, inputs: list[list[int]], *, biases: bool = False) -> geometry.Rows:
    """Of z behind a layer."""
    given = [[Fraction(x) for x in row] for row in inputs]
    known = {STREAM: geometry.first_rows(given, biases=False)}
    for stage in layers.read(layer).stages:
        known = dependence.behind(stage, known, activations.tanh, biases=biases, weights=True)
    return known[STREAM]


def test_what_is_carried_keeps_all_dependences_and_what_sigma_is_taken_of_few() -> None:
    sum_of_two = [[1, 0], [0, 1], [1, 1]]
    assert geometry.rank(rows("residual", sum_of_two)) == 3
    assert geometry.rank(rows("residual", [[1, 0], [0, 1], [0, -1]])) == 2
    assert geometry.rank(rows("residual", [[1, 0], [0, 1], [0, -1]], biases=True)) == 3
    assert geometry.rank(rows("normalized(rms)", [[1, 0], [0, 1], [0, -2]])) == 2
    assert geometry.rank(rows("dense", [[1, 0], [0, 1], [0, -2]])) == 3
    assert geometry.rank(rows("gated", [[1, 0], [-1, 0]])) == 1  # tanh is odd
    assert geometry.proportional(rows("gated", [[1, 0], [-1, 0]]), 0, 1) == 1
    assert geometry.rank(rows("residual", [[0, 0], [1, 0]])) == 1


def test_functions_of_collective_variables_are_balls_that_hold_them() -> None:
    q = sympy.Symbol("q")
    (value,) = functions.compiled((1 / sympy.sqrt(q + 1),), 100, (q,))(arb(3))
    assert value.contains(arb(1) / 2)
    np.testing.assert_allclose(float(value.rad()), 0, atol=1e-28)
