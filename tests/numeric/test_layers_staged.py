"""Layers of several stages: run stage by stage, as the dense layer is run in one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from derivations.nait_saada_tanner import sampling
from derive import (
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    exact,
    layers,
    propagation,
)
from derive.activations import as_activation
from derive.engine import closure
from numeric import flow
from numeric import propagation as precise
from numeric import spectra as sampled_spectra
from numeric.layers import Layers, StagedLayers, accuracy

ONE = np.array([[0.7]])
NODES = np.linspace(-12.0, 12.0, 2001)
WEIGHTS = np.exp(-NODES * NODES / 2) / np.exp(-NODES * NODES / 2).sum()


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_blocks_of_layers_are_layer_after_layer(activation: str) -> None:
    wanted = ["K", "G1", "V", "Theta", "D", "F", "A", "B"]
    net = Network(activation, Orthogonal(C_W=1.5), C_b=0.1)
    depth, sigma = 5, as_activation(activation)
    scheme = replace(net.scheme(5, 1), activation=sigma)
    names = closure(wanted, scheme)
    parameters = {name: np.full(depth, 1.0) for name in ("r_in", "r_out", "r_big")}
    parameters |= {"C_W": np.full(depth, 1.5), "C_b": np.full(depth, 0.1)}
    parameters |= {"lambda_b": np.full(depth, 1.0), "lambda_W": np.full(depth, 1.0)}
    whole = accuracy.run(Layers(names, scheme, net.weights), ONE, parameters)
    staged = StagedLayers(((names,),), (scheme,), net.weights, ((1,), 1))
    staged = accuracy.run(staged, ONE, parameters)
    for one, other in zip(whole.values, staged.values, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-13, atol=1e-13 * np.abs(one).max())


@pytest.mark.parametrize("activation", ["tanh", "gelu", "sigmoid", "relu"])
@pytest.mark.parametrize("weights", [Gaussian, Orthogonal])
def test_a_norm_puts_one_input_on_a_sphere(activation: str, weights) -> None:
    """z/√q is uniform on the sphere of radius √n, on which Var (1/n) Σ f(y) is known to order 1/n:

    n Var → ⟨f²⟩ − ⟨f⟩² − ½ ⟨f (y² − 1)⟩²; a Haar matrix takes 2 ⟨σ²⟩² off V.
    """
    net = Network(activation, weights(C_W=1.3), C_b=0.2, layer="normalized(rms)")
    found = flow(net, [3.0, -1.0, 0.5], 6, ["K", "V"])
    nodes = (NODES, WEIGHTS) if activation != "relu" else _halves()
    f = activations_at(activation, nodes[0]) ** 2

    def mean(values):
        return nodes[1] @ values

    variance = mean(f * f) - mean(f) ** 2 - 0.5 * mean(f * (nodes[0] ** 2 - 1)) ** 2
    V = 1.3**2 * (variance - 2 * (weights is Orthogonal) * mean(f) ** 2)
    np.testing.assert_allclose(found.K.values[1:], 1.3 * mean(f) + 0.2, rtol=1e-10)
    np.testing.assert_allclose(found.V.values[1:], V, rtol=1e-10)


def activations_at(name: str, z):
    functions = {
        "tanh": np.tanh,
        "relu": lambda z: np.maximum(z, 0.0),
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    }
    if name in functions:
        return functions[name](z)

    return z * np.array([0.5 * (1 + math.erf(x / math.sqrt(2))) for x in z])


def _halves():
    """Nodes of each sign with half of all weight: those of ∫_0^∞ by Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z = 7.0 * (nodes + 1)
    density = np.exp(-z * z / 2) * weights * 7.0 / np.sqrt(2 * np.pi)
    return np.concatenate([z, -z]), np.concatenate([density, density])


@pytest.mark.parametrize(
    "layer",
    [
        "normalized(rms, eps=0.1)",
        "normalized(layer)",
        "residual(skip=1/2, norm=layer)",
        "gated(norm=rms)",
    ],
)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_an_input_given_twice_is_one_input(layer: str, activation: str) -> None:
    net = Network(activation, Orthogonal(C_W=1.2), C_b=0.1, layer=layer)
    wanted = ["K", "G1", "V", "Theta", "D", "F", "A", "B"]
    one = flow(net, [1.0, -0.4, 0.3], 4, wanted)
    two = flow(net, [[1.0, -0.4, 0.3]] * 2, 4, wanted)
    for name in wanted:
        values = two[name].values.reshape(4, -1)
        expected = np.broadcast_to(one[name].values[:, None], values.shape)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-11)


def test_relu_blocks_grow_by_a_power_of_two_matrices() -> None:
    """⟨σσ⟩ = K_h/2 is linear, so K' = (γ² + C_1 C_2/2) K + C_b."""
    net = Network("relu", Orthogonal(C_W=1.6), C_b=0.25, layer="residual(skip=1/2)")
    K = flow(net, [1.0, 2.0], 5, ["K"]).K.values
    np.testing.assert_allclose(K[1:], (0.25 + 1.6**2 / 2) * K[:-1] + 0.25, rtol=1e-13)


BLOCKS = Network("relu", Orthogonal(C_W=1.0), layer="residual(skip=1, norm=rms)")


@pytest.mark.parametrize(
    "asked",
    [
        lambda: propagation.fixed_points(BLOCKS),
        lambda: propagation.length_map(BLOCKS, 1.0),
        lambda: propagation.chi(BLOCKS, 1.0),
        lambda: propagation.gradients(BLOCKS, [1, 1]),
        lambda: exact.vertex(BLOCKS, 2),
        lambda: sampled_spectra.simulate(BLOCKS, 1.0, 8, 2, 2),
        lambda: precise.kernels(BLOCKS, [1.0, 0.5, 1.0], 3),
        lambda: sampling.sample(BLOCKS, [[1.0, 0.0]], 8, 2, 2),
    ],
)
def test_what_knows_the_dense_layer_alone_refuses_others(asked) -> None:
    with pytest.raises(InputError, match="dense layers"):
        asked()


TOWER = ["K", "G1", "V", "Theta", "D", "F", "A", "B"]


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("inputs", [[1.0, -0.4, 0.3], [[1.0, -0.4, 0.2], [0.3, 0.8, 1.0]]])
def test_two_layers_are_one_layer_of_both_their_equations(activation, inputs) -> None:
    block = ("h[i] = W1[i,a] z[a]", "z[i] = gamma z[i] + b[i] + W2[i,a] s(h[a])")
    last = "z[i] = b[i] + W3[i,a] s(z[a])"
    both, first = layers.Layer(*block, last, gamma=0.8), layers.Layer(*block, gamma=0.8)
    at = {"C_b": 0.1, "lambda_b": 0.7}
    one = flow(Network(activation, Orthogonal(1.3), layer=both, **at), inputs, 2, TOWER)
    two = flow(Network(activation, Orthogonal(1.3), layer=[first, "dense"], **at), inputs, 3, TOWER)
    assert np.abs(two.V.values[2]).min() > 0
    for name in TOWER:
        np.testing.assert_allclose(two[name].values[2], one[name].values[1], rtol=1e-11)


@pytest.mark.parametrize("weights", [Gaussian(1.3), LowRankOrthogonal(1.3, gamma=0.5)])
@pytest.mark.parametrize("inputs", [[1.0, -0.4, 0.3], [[1.0, -0.4, 0.2], [0.3, 0.8, 1.0]]])
def test_two_dense_layers_of_unequal_widths_are_one_layer(weights, inputs) -> None:
    both = layers.Layer(
        "h[i] = b[i] + W1[i,a] s(z[a])", "z[i] = b[i] + W2[i,a] s(h[a])", ratio={"h": 2}
    )
    first = {"first_weights": "gaussian", "C_b": 0.1, "lambda_b": 0.7}
    net = Network("tanh", weights, **first, width_ratio=[1, 2, 3])
    two = flow(net, inputs, 3, TOWER, width=2)
    one = flow(replace(net, layer=both, width_ratio=[1, 3]), inputs, 2, TOWER, width=2)
    for name in TOWER:
        np.testing.assert_allclose(one[name][1], two[name][2], rtol=1e-10, atol=1e-12)


def test_each_layer_is_run_in_its_place() -> None:
    """The head comes last at any depth, and what is before it does not know it."""
    text = "gated; residual(norm=rms)*; normalized(layer)"
    net = Network("gelu", "orthogonal", "gaussian", C_b=0.1, layer=text)
    deep, short = (flow(net, [1.0, 0.5], depth, ["K", "V"]) for depth in (6, 4))
    for name in ("K", "V"):
        np.testing.assert_array_equal(deep[name][:3], short[name][:3])
        assert abs(deep[name][3] - short[name][3]) > 0.01
    np.testing.assert_allclose(deep.K[5], short.K[3], rtol=1e-13)  # behind a norm
    growing = flow(replace(net, layer=lambda layer: FUNCTION[layer]), [1.0, 0.5], 6, ["K", "V"])
    for name in ("K", "V"):
        np.testing.assert_array_equal(growing[name], deep[name])


FUNCTION = {2: "gated", 6: "normalized(layer)"} | dict.fromkeys((3, 4, 5), "residual(norm=rms)")
