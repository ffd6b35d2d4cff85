"""Variance 0: what is exactly 0, what has no value, and what only falls below a float's range."""

from decimal import Decimal

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, layers
from numeric import compare, flow, simulate

RELU, TANH = Network("relu"), Network("tanh")
ZERO, PAIR = np.zeros(3), np.array([[1.0, 0, 0], [0, 0, 0]])


def says(call):
    """The message of the InputError that a call raises."""
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


@pytest.mark.parametrize(("inputs", "name"), [(ZERO, "the input"), (PAIR, "input 2")])
def test_a_zero_input_on_a_kink_has_one_rule(inputs, name):
    """K and V are exact; Θ needs σ'(0) and is refused with one sentence, by flow, with and without
    a precision, and by simulate."""
    for table in (flow(RELU, inputs, 3), simulate(RELU, inputs, 6, 3, 20, tensors=["K", "V"])):
        K, V = (table[each].to_numpy().reshape(3, -1) for each in ("K", "V"))
        silent = slice(None) if name == "the input" else slice(1, None)
        assert not K[:, silent].any()
        assert not V[:, silent].any()
    said = {
        says(lambda: flow(RELU, inputs, 3, ["K", "Theta"])),
        says(lambda: flow(RELU, inputs, 3, ["K", "Theta"], precision=20)),
        says(lambda: simulate(RELU, inputs, 6, 3, 20, tensors=["Theta"])),
    }
    (one,) = said
    assert f"got zero for {name}, on the kink of relu: Theta needs σ'(0)" in one


def test_among_others_a_zero_input_leaves_their_kernel_as_it_is():
    alone = flow(RELU, PAIR[0], 3, ["K", "V"], precision=20)
    both = flow(RELU, PAIR, 3, ["K", "V"], precision=20)
    assert (both["K"].to_numpy()[:, 0, 0] == alone["K"].to_numpy()).all()
    assert (both["V"].to_numpy()[:, 0, 0, 0, 0] == alone["V"].to_numpy()).all()


def test_what_does_not_depend_on_the_slope_at_0_is_there():
    """Without trained biases nothing moves a zero input, whatever σ'(0) is; Θ of the other one is
    ℓ K; and a gate's σ'(0) is multiplied by z = 0."""
    net = Network("relu", lambda_b=0)
    for table in (flow(net, PAIR, 3, ["Theta"]), simulate(net, PAIR, 6, 3, 20, tensors=["Theta"])):
        assert not table["Theta"].to_numpy()[:, 1].any()
    theta = flow(net, PAIR, 3, ["Theta"])["Theta"].to_numpy()[:, 0, 0]
    np.testing.assert_allclose(theta, [1 / 3, 1 / 3, 1 / 4], rtol=1e-14)
    gated = Network("relu", layer=layers.gated())
    flow(gated, ZERO, 3, ["Theta"])
    simulate(gated, ZERO, 6, 3, 20, tensors=["Theta"])


def test_an_inner_matrix_of_variance_0_is_on_the_kink_too():
    net = Network("relu", layer=layers.residual(skip=1, C=(0, 1)))
    flowed = says(lambda: flow(net, PAIR[0], 3, ["Theta"]))
    assert flowed == says(lambda: simulate(net, PAIR[0], 6, 3, 20, tensors=["Theta"]))
    assert "z = 0 between layers 1 and 2 for the input, on the kink of relu" in flowed
    K = flow(net, PAIR[0], 3, ["K"])["K"].to_numpy()
    np.testing.assert_allclose(K, np.full(3, 1 / 3), rtol=1e-15)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_the_norm_of_zeros_has_no_value(norm):
    net = Network("tanh", layer=layers.normalized(norm))
    said = {
        says(lambda: flow(net, PAIR, 3, ["K"])),
        says(lambda: flow(net, PAIR, 3, ["K"], precision=20)),
        says(lambda: simulate(net, PAIR, 6, 3, 20, tensors=["K"])),
    }
    (one,) = said
    assert f"zero for input 2, by whose norm normalized({norm}) divides" in one
    with_eps = Network("tanh", layer=layers.normalized(norm, eps=0.25))
    assert not flow(with_eps, ZERO, 3, ["K"])["K"].to_numpy().any()


def test_positions_of_zeros_are_named_where_layers_change_the_positions():
    """Of the input, not of what a layer made of them; and the layer that divides, not all."""
    X = np.random.default_rng(0).standard_normal((2, 4, 3))
    X[1, 2:] = 0.0
    net = Network("tanh", layer="pooling(4, 2); convolution(1, 2, norm=rms)*")
    said = says(lambda: flow(net, X, 3, ["K"]))
    assert said == says(lambda: simulate(net, X, 6, 3, 20, tensors=["K"]))
    assert "inputs: got zero for position 3 of input 2 and 1 more" in said
    assert "by whose norm convolution(1, 2, norm=rms) divides" in said


def test_one_neuron_has_no_deviation_from_its_mean():
    net = Network("tanh", layer=layers.normalized("layer"))
    said = says(lambda: simulate(net, PAIR[0], 1, 3, 20, tensors=["K"]))
    assert said.startswith("width: got 1; wanted two neurons or more")


LAYERS = """dense; normalized(rms, eps=1/10); residual(skip=0, C=(1, 0)); gated(C=(1, 0, 1));
residual(skip=1, C=(0, 1)); residual(skip=1, norm=rms, C=(1, 0)); skip(1/2); dropout(1/2)"""


@pytest.mark.parametrize("layer", [each.strip() for each in LAYERS.split(";")])
def test_matrices_of_variance_0_leave_what_the_rest_gives(layer):
    """K and V are 0, or those of the first layer that skips carry on; samples say the same."""
    net = Network("tanh", Gaussian(0), Gaussian(1), layer=layer)
    flowed = flow(net, PAIR[0], 3, ["K", "V", "Theta"])
    gamma = {"skip(1/2)": 0.5}.get(layer, float("skip=1" in layer))
    expected = gamma ** (2 * np.arange(3)) / 3
    np.testing.assert_allclose(flowed["K"].to_numpy(), expected, rtol=1e-15)
    sampled = simulate(net, PAIR[0], 8, 3, 40, tensors=["K", "V", "Theta"], seed=1)
    for name in ("K", "V", "Theta"):
        assert np.isfinite(sampled[name]).all()
        assert np.isfinite(sampled[f"{name}_se"]).all()
    if not gamma:
        assert not sampled["V"].to_numpy()[1:].any()
        assert not sampled["V_se"].to_numpy()[1:].any()
    assert "NaN" not in str(compare(flowed, sampled))


def test_a_kernel_below_a_floats_range_is_no_zero():
    """K = 2^{1−ℓ}/2 of ReLU at C_W = 1 leaves doubles at layer 998, and V, ∝ K², at 505."""
    deep = says(lambda: flow(RELU, [1.0, 1.0], 1200, ["K"]))
    assert "whose K falls below 1e-300 at layer 998 for the input" in deep
    assert "whose V falls below 1e-300" in says(lambda: flow(RELU, [1.0, 1.0], 600, ["V"]))
    last = flow(RELU, [1.0, 1.0], 997, ["K"])["K"].to_numpy()[-1]
    assert last == pytest.approx(2.0**-996, rel=1e-12)
    digits = flow(RELU, [1.0, 1.0], 1200, ["K"], precision=20)["K"].to_numpy()[-1]
    assert abs(digits * 2**1199 - 1) < Decimal("1e-19")
    assert not flow(RELU, [0.0, 0.0], 1200, ["K", "V"])["K"].to_numpy().any()


def test_small_inputs_and_variances_are_no_zeros():
    small = [1e-160, 0.0]
    narrow = Network("tanh", Gaussian(1e-310))
    assert "K falls below 1e-300 at layer 1" in says(lambda: flow(TANH, small, 2, ["K"]))
    assert "K falls below 1e-300 at layer 1" in says(lambda: flow(narrow, [1.0, 0.0], 2, ["K"]))
    two = [[1.0, 0.0], [1e-100, 0.0]]
    assert "whose V falls below 1e-300 at layer 2" in says(lambda: flow(RELU, two, 2, ["V"]))
    assert "whose K falls below" in says(lambda: simulate(TANH, small, 6, 2, 20, tensors=["K"]))
    layer = layers.residual(skip=0, C=("1e-200", "1e-200"))
    inner = Network("relu", layer=layer)
    assert "K falls below 1e-300 at layer 2" in says(lambda: flow(inner, [1.0, 0], 3, ["K"]))


def test_rates_too_small_for_a_tensor_are_told_from_rates_of_0():
    small, none = (Network("tanh", lambda_b=0, lambda_W=rate) for rate in (1e-170, 0))
    assert "whose A falls below" in says(lambda: flow(small, [1.0, 0.0], 3, ["A"]))
    assert not flow(none, [1.0, 0.0], 3, ["A"])["A"].to_numpy().any()


def test_equal_inputs_with_masks_of_their_own_behind_a_mean_that_is_taken_off():
    """Their σ differ, while no derivative by both inputs exists at a kink."""
    line = "z[i] = b[i] + W[i,a] s(z[a] - m)"
    layer = layers.Layer("m = z[a]/n", line, keep={"W": "1/2"})
    net, x = Network("relu", layer=layer), [[1.0, 0.5], [1.0, 0.5]]
    with pytest.raises(InputError, match="multiples of each other"):
        flow(net, x, 2, ["K", "V"])
    K = flow(net, x, 2, "K").K.to_numpy()[1]
    assert K[0, 0] == pytest.approx(2 * K[0, 1])
