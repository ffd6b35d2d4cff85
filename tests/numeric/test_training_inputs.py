"""Trained networks of many inputs, by theory: their numbers, and the memory that they take."""

import tracemalloc

import numpy as np
import pytest

from derive import Network
from numeric import flow
from numeric.training import flow as trained

NET = Network("tanh", C_b=0.1)
RNG = np.random.default_rng(16)
X, Y = RNG.normal(size=(16, 6)) / 1.5, RNG.normal(size=16)
RATE, STEPS = 0.02, [0, 3, 20]


def test_inputs_that_nothing_is_trained_on_change_no_other():
    """Many inputs take another road through the layers than few."""
    few = trained(NET, X[:3], Y[:3], X[3], 3, RATE, STEPS)
    many = trained(NET, X[:3], Y[:3], X[3:9], 3, RATE, STEPS)
    for name in ("prediction1", "covariance1", "ntk1", "loss1"):
        shared = many.isel(dict.fromkeys(set(few[name].dims) - {"step"}, slice(4)))
        error = shared[f"{name}_error"] + few[f"{name}_error"]
        assert (abs(shared[name] - few[name]) <= error + 1e-14).all()
        assert error.max() < 1e-6 * max(1.0, float(abs(few[name]).max()))


def test_at_the_start_the_outputs_are_those_of_the_last_layer():
    """`flow` holds all layers, and has V and G^{1} of them."""
    tensors = flow(NET, X[:9], 3, ["K", "G1", "Theta", "Theta1"]).isel(layer=-1)
    table = trained(NET, X[:8], Y[:8], X[8], 3, RATE, 0).isel(step=0)
    for name, tensor in (
        ("covariance", "K"),
        ("covariance1", "G1"),
        ("ntk", "Theta"),
        ("ntk1", "Theta1"),
    ):
        assert table[name].to_numpy() == pytest.approx(tensors[tensor].to_numpy(), rel=1e-9)


def test_sixteen_inputs_take_a_few_hundred_arrays_of_four_of_them():
    """525 when all layers and all brackets were held at a time."""
    trained(NET, X[:9], Y[:9], None, 3, RATE, STEPS)  # what is kept for any inputs
    tracemalloc.start()
    try:
        trained(NET, X[:14], Y[:14], X[14:], 3, RATE, STEPS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 260 * 8 * 16**4
