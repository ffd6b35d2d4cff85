"""Order 1/n past skips around one matrix that weights positions or changes them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derive import Gaussian, InputError, Network, Orthogonal, activations, exact, layers
from numeric import flow

SIGNAL = np.array([[0.5, -1.0, 1.5], [1.0, 0.5, 0.25], [-0.75, 1.25, 0.5], [0.5, 0.5, -1.5]])
BENT = activations.polynomial([0, 1, "1/2"])
WEIGHTED = layers.around(
    layers.mix(np.array([[0.5, -1], [0, 1]]), np.array([[1, 1], [2, 0]])), "1/2"
)
STRIDED = "around(convolution(2, 4, stride=2), skip=1/2)"
POOLED = "around(pooling(4, 2), skip=1/2)"
SAME, SHORT = "around(convolution(2, 4), skip=1/2)", "around(convolution(2, 2), skip=1/3)"
TOWER = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"]


@pytest.mark.parametrize(
    ("layer", "sigma", "name"),
    [
        (WEIGHTED, BENT, "G1"),
        (WEIGHTED, [BENT, "linear"], "V"),
        ([STRIDED, SHORT], BENT, "G1"),
        ([STRIDED, SHORT], [BENT, "linear"], "V"),
        ([POOLED, SHORT], [BENT, "linear"], "V"),
        ([SAME, POOLED], BENT, "G1"),
        ([SAME, POOLED], "linear", "V"),
    ],
)
def test_exact_moments(layer, sigma, name: str) -> None:
    """Two layers past layer 1, by the moments of all weights."""
    x = SIGNAL[:2] if layer is WEIGHTED else SIGNAL
    net = Network(sigma, Orthogonal("3/2"), Gaussian("6/5"), C_b=0, layer=layer)
    found = flow(net, x, 3, name)[name].values[-1]
    K = x @ x.T / x.shape[1]
    kernel = {
        (p, q): sympy.nsimplify(K[p, q], rational=True)
        for p in range(len(x))
        for q in range(p, len(x))
    }
    at = (0, 1) if name == "G1" else (0, 1, 0, 1)
    order, of = (1, "K") if name == "G1" else (0, "V")
    exactly = float(exact.series(of, net, 3, order, at, kernel=kernel)[order])
    assert exactly != 0.0
    assert found[at] == pytest.approx(exactly, rel=1e-11)


FULL = [np.array([[0.25, 0.75], [2, -1]]), np.array([[0.5, 0.5], [1.5, -0.5]])]


@pytest.mark.parametrize(
    ("layer", "plain", "names"),
    [
        (layers.around(layers.mix(*FULL), "1/2"), "skip(1/2)", TOWER),
        (layers.around(layers.mix(*FULL), "1/2", "rms"), "skip(1/2, norm=rms)", ["K", "V"]),
        ([POOLED, "around(pooling(2, 2), skip=1/2)"], "skip(1/2)", ["K", "V", "D"]),
    ],
)
def test_a_constant_signal_is_a_vector(layer, plain: str, names: list[str]) -> None:
    """Where the weights of a position sum to 1, each sum over positions drops out."""
    rates = {"lambda_b": 0.7, "lambda_W": 1.3, "C_b": 0.1, "first_weights": Gaussian(1.2)}
    one, other = (
        flow(Network(BENT, Gaussian(1.5), layer=each, **rates), inputs, 3, names)
        for each, inputs in (
            (layer, [SIGNAL[0]] * (4 if isinstance(layer, list) else 2)),
            (plain, SIGNAL[0]),
        )
    )
    for name in names:
        assert one[name].values[-1] == pytest.approx(other[name].values[-1], rel=1e-10)


def test_kinks_behind_a_norm_are_refused() -> None:
    """Derivatives of ⟨σσ⟩ do not exist where positions meet in a sum."""
    net = Network("relu", Gaussian(2), layer=layers.around(layers.mix(*FULL), "1/2", "rms"))
    assert np.isfinite(flow(net, SIGNAL[:2], 3, "V").V.values).all()
    with pytest.raises(InputError, match=r"^tensors: got 'G1'.*kinks behind a norm"):
        flow(net, SIGNAL[:2], 3, "G1")
