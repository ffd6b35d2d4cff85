"""LayerNorm before σ with kinks, of several inputs: each way in which inputs coincide by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from derive import Gaussian, InputError, Network, Orthogonal
from derive.groups.pairings import pattern_of, patterns
from numeric import compare, flow, simulate

INPUTS = np.array([[1.0, -0.4, 0.3], [0.2, 0.5, 1.1]])
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"]
KINKED = {
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: 1.0 * (z > 0.0), [0.0]),
    "leaky_relu(1/5)": (
        lambda z: np.where(z > 0.0, z, 0.2 * z),
        lambda z: np.where(z > 0.0, 1.0, 0.2),
        [0.0],
    ),
    "hard_tanh": (
        lambda z: np.clip(z, -1.0, 1.0),
        lambda z: 1.0 * (np.abs(z) < 1.0),
        [-1.0, 1.0],
    ),
}


def nodes_of(r: float, kinks: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """(y_1, y_2) of correlation r and their weights: Legendre's rule between the kinks of both."""
    x, weight = np.polynomial.legendre.leggauss(40)

    def panels(cuts: list[float]) -> tuple[np.ndarray, np.ndarray]:
        ends = np.unique(np.clip([-9.0, *np.linspace(-5.0, 5.0, 6), *cuts, 9.0], -9.0, 9.0))
        half, centre = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
        at = (centre + half * x).ravel()
        density = np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
        return at, (half * weight).ravel() * density

    root = math.sqrt(1 - r * r)
    # along y_1 the inner average changes fast where two kinks cross, so panels end there
    outer = panels([*kinks, *(k / r for k in kinks)])
    parts = []
    for y, w in zip(*outer, strict=True):
        inner, weights = panels([(k - r * y) / root for k in kinks])
        parts.append(([np.full(len(inner), y), r * y + root * inner], w * weights))
    return (
        np.concatenate([np.array(at) for at, _ in parts], axis=1),
        np.concatenate([weights for _, weights in parts]),
    )


@pytest.mark.parametrize("activation", KINKED)
def test_the_vertex_behind_a_layer_norm_is_a_covariance_of_influence_functions(activation) -> None:
    """At layer 2 of Gaussian weights V_{(ab)(cd)} is n Cov of (1/n) Σ σ(y_a) σ(y_b), a smooth
    function of means over independent neurons: the covariance of what one neuron moves it by,

        σ_a σ_b − ⟨σ'_a σ_b⟩ y_a − ½ ⟨y_a σ'_a σ_b⟩ (y_a² − 1), and the same of b, centred."""
    f, derivative, kinks = KINKED[activation]
    K = 0.2 + 1.3 * INPUTS @ INPUTS.T / 3
    y, weights = nodes_of(K[0, 1] / math.sqrt(K[0, 0] * K[1, 1]), kinks)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    s, ds = f(y), derivative(y)

    def moved(a: int, b: int) -> np.ndarray:
        total = s[a] * s[b] - weights @ (s[a] * s[b])
        for one, other in ((a, b), (b, a)):
            total = total - weights @ (ds[one] * s[other]) * y[one]
            total -= 0.5 * (weights @ (y[one] * ds[one] * s[other])) * (y[one] ** 2 - 1)
        return total

    by_one = np.array([[moved(a, b) for b in range(2)] for a in range(2)])
    V = 1.3**2 * np.einsum("abn,cdn,n->abcd", by_one, by_one, weights)
    net = Network(activation, Gaussian(1.3), C_b=0.2, layer="normalized(layer)")
    found = flow(net, INPUTS, 2, ["V"]).V.values[1]
    assert np.abs(V).min() > 1e-3
    np.testing.assert_allclose(found, V, rtol=1e-9)


@pytest.mark.parametrize(
    ("activation", "layer", "wanted"),
    [
        ("relu", "normalized(layer)", ["K", "G1", "V", "D", "F"]),
        ("hard_tanh", "residual(skip=1/2, norm=layer)", ["K", "G1", "V", "Theta1"]),
    ],
)
def test_one_input_is_an_entry_of_two(activation, layer, wanted) -> None:
    net = Network(activation, Orthogonal(1.2), C_b=0.1, layer=layer)
    one, two = flow(net, INPUTS[0], 4, wanted), flow(net, INPUTS, 4, wanted)
    for name in wanted:
        found = two[name].values.reshape(4, -1)[:, 0]
        np.testing.assert_allclose(found, one[name].values, rtol=1e-9, atol=1e-11)


def test_labels_may_be_exchanged_between_tensors_of_two_inputs() -> None:
    net = Network("relu", Orthogonal(1.2), C_b=0.1, layer="normalized(layer)")
    wanted = ["G1", "V", "D"]
    two, turned = flow(net, INPUTS, 3, wanted), flow(net, INPUTS[::-1], 3, wanted)
    for name in wanted:
        values = two[name].values
        swapped = values[(slice(None), *[slice(None, None, -1)] * (values.ndim - 1))]
        np.testing.assert_allclose(turned[name].values, swapped, rtol=1e-9, atol=1e-11)


def test_digits_agree_with_doubles() -> None:
    net = Network("relu", Orthogonal(1.2), C_b=0.1, layer="normalized(layer)")
    wanted = ["G1", "V", "D"]
    rough, sharp = flow(net, INPUTS, 3, wanted), flow(net, INPUTS, 3, wanted, precision=18)
    for name in wanted:
        exact = sharp[name].values.astype(float)
        np.testing.assert_allclose(rough[name].values, exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("digits", [{}, {"precision": 16}])
def test_multiples_are_one_input_or_refused(digits) -> None:
    """Behind a norm x and 2x are the same; derivatives by biases tell them apart, and −x is no
    label's own derivative."""
    net = Network("relu", Orthogonal(), layer="normalized(layer)", lambda_b=0)
    if not digits:
        found = flow(net, [INPUTS[0], 2 * INPUTS[0]], 3, ["V", "D"])
        for name in ("V", "D"):
            last = found[name].values[2]
            np.testing.assert_allclose(last, last[(0,) * 4], rtol=1e-9)
    opposite = flow(net, [INPUTS[0], -INPUTS[0]], 2, ["K"], **digits)
    assert abs(float(opposite.K.values[1, 0, 1])) < 1e-14
    with pytest.raises(InputError, match="multiples"):
        flow(net, [INPUTS[0], -INPUTS[0]], 3, ["V"], **digits)


def test_patterns_are_set_partitions() -> None:
    assert sorted(patterns(3)) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 1, 2)]
    assert [len(patterns(k)) for k in (1, 2, 4)] == [1, 2, 15]
    assert pattern_of((7, 2, 7, 1)) == (0, 1, 0, 2)


@pytest.mark.slow
def test_ensembles_of_two_inputs_agree() -> None:
    net = Network("relu", "orthogonal", layer="normalized(layer)", C_b=0.1)
    sizes = ((12, 10000), (24, 5000), (48, 2500))
    samples = [simulate(net, INPUTS, n, 3, draws, tensors=TOWER, seed=5) for n, draws in sizes]
    assert compare(flow(net, INPUTS, 3, TOWER), samples).agrees
