"""Layers averaged apart: exact moments of deep linear and ReLU networks, and what a tail costs."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derive import InputError, activations
from derive.network import Network
from derive.weights import Gaussian, LowRankGaussian, Orthogonal
from numeric import flow, simulate

HALF = sympy.Rational(1, 2)
X = np.array([1.0, -0.5, 2.0, 0.25])
RELU, LINEAR = activations.relu, activations.linear


def vertex(first: float, fourth: float, n: int, depth: int) -> np.ndarray:
    """V of critical Gaussian networks, n(E q² − K²): Var X of a layer is `fourth`/n, and the last
    is averaged exactly, so that layer ℓ has ℓ − 1 of them."""
    return n * first**2 * ((1 + fourth / n) ** np.arange(depth) - 1)


@pytest.mark.parametrize(("sigma", "C_W", "fourth"), [(LINEAR, 1, 2), (RELU, 2, 5)])
def test_deep_networks_meet_products_of_chi_squares(sigma, C_W, fourth):
    """Var |g|²/n = 2/n, and of 2 relu(g)², whose second moment is 4·3/2: 5/n. At depth 60 and
    n = 20 a multiplied-up E|z|⁴ is a few networks of ten thousand."""
    n, depth = 20, 60
    net = Network(sigma, Gaussian(C_W), first_weights=Gaussian(1))
    table = simulate(net, X, n, depth, 2000, tensors=["K", "V"], sampler="products", seed=1)
    first = X @ X / 4
    for name, exact in (("K", np.full(depth, first)), ("V", vertex(first, fourth, n, depth))):
        z = (table[name] - exact)[1:] / table[f"{name}_se"][1:]
        assert abs(z).max() < 4.5  # 59 correlated numbers
    assert table["V_se"][-1] < 0.2 * table["V"][-1]
    assert table["V"][0] == pytest.approx(0, abs=1e-12 * n * first**2)


def test_the_error_is_that_of_repeated_ensembles():
    net = Network(RELU, Gaussian(2))
    tables = [
        simulate(net, X, 12, 8, 512, tensors="V", sampler="products", seed=s) for s in range(60)
    ]
    values, errors = (np.array([t[name][-1] for t in tables]) for name in ("V", "V_se"))
    assert 0.7 < values.std(ddof=1) / np.sqrt(np.mean(errors**2)) < 1.4  # ± 10 %


@pytest.mark.parametrize(
    "net",
    [
        Network(activations.leaky_relu(HALF), Orthogonal(1)),
        Network(RELU, LowRankGaussian(2, gamma=HALF), first_weights=Gaussian(1)),
        Network(RELU, Gaussian(2), width_ratio=lambda ell: 1 + ell % 2),
    ],
    ids=["haar", "low rank", "unequal widths"],
)
def test_layers_apart_are_the_same_ensemble_as_networks_whole(net):
    """To the error of both, K, V and the sixth moment, 18 comparisons in each of three networks of
    ensembles that share no draw; with a quarter of the draws, V at the last layer is sharper."""
    tensors = ["K", "V", "U6"]
    whole, apart = (
        simulate(net, X, 8, 6, draws, tensors=tensors, sampler=sampler, seed=seed)
        for sampler, draws, seed in (("lazy", 16_000, 3), ("products", 4000, 5))
    )
    for name in ("K", "V", "U6"):
        error = np.hypot(whole[f"{name}_se"], apart[f"{name}_se"]) + 1e-12
        assert abs((whole[name] - apart[name]) / error).max() < 5
    assert apart["V_se"][-1] < whole["V_se"][-1]


def test_corrections_come_out_of_products_too():
    """G1 is 0 for a metric that is exact: n(E q − K) is within its error; one comparison."""
    net = Network(RELU, Gaussian(2))
    table = simulate(net, X, 20, 10, 4000, tensors=["G1"], sampler="products", seed=2)
    assert abs(table["G1"][-1]) < 5 * table["G1_se"][-1]
    assert flow(net, X, 10, "G1")["G1"][-1] == 0


def test_a_dead_layer_leaves_the_others_alive():
    """Two neurons are both off in a quarter of the draws: of such layers X is 0, and no NaN. Four
    comparisons."""
    net = Network(RELU, Gaussian(2))
    table = simulate(net, X, 2, 5, 20_000, tensors=["K", "V"], sampler="products", seed=4)
    exact = vertex(2 * X @ X / 4, 5, 2, 5)
    assert abs((table["V"] - exact)[1:] / table["V_se"][1:]).max() < 4.5


@pytest.mark.parametrize(
    ("net", "inputs", "tensors"),
    [
        (Network(activations.tanh), X, "V"),
        (Network(RELU, C_b=0.1), X, "V"),
        (Network(RELU), [X, -X], "V"),
        (Network(RELU), X, "Theta"),
        (Network(RELU, Gaussian(0)), X, "K"),
    ],
    ids=["scale", "biases", "two inputs", "derivatives", "no weights"],
)
def test_what_has_no_such_layers_is_refused(net, inputs, tensors):
    with pytest.raises(InputError, match="sampler"):
        simulate(net, inputs, 8, 3, 10, tensors=tensors, sampler="products")


def test_what_is_too_wide_or_no_name_says_so():
    with pytest.raises(InputError, match="up to 2048 wide"):
        simulate(Network(RELU), X, 2049, 3, 10, tensors="V", sampler="products")
    with pytest.raises(InputError, match=r'one of "lazy", .*"paths", .*"explicit"$'):
        simulate(Network(RELU), X, 8, 3, 10, tensors="V", sampler="product")
