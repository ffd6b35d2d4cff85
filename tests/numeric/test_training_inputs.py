"""Trained networks of many inputs, by theory: their numbers, and the memory that they take."""

import tracemalloc

import numpy as np
import pytest

from derive import Network, Rademacher
from derive.errors import InputError
from numeric import flow
from numeric.training import flow as trained

NET = Network("tanh", C_b=0.1)
RNG = np.random.default_rng(16)
X, Y = RNG.normal(size=(16, 6)) / 1.5, RNG.normal(size=16)
RATE, STEPS = 0.02, [0, 3, 20]


CASES = {
    "dense": (NET, 3),
    "of one layer": (NET, 2),
    "orthogonal, C by layer": (Network("sin", "orthogonal", C_b=lambda layer: 0.1 * layer), 4),
    "entries": (Network("tanh", Rademacher(), C_b=0.1), 3),
    "σ by layer": (Network(["tanh", "sin", "erf"], C_b=0.1), 4),
}


@pytest.mark.parametrize(("net", "depth"), CASES.values(), ids=CASES)
def test_inputs_that_nothing_is_trained_on_change_no_other(net, depth):
    """Many inputs go down the layers set by set, few all at once."""
    few = trained(net, X[:3], Y[:3], X[3], depth, RATE, STEPS)
    many = trained(net, X[:3], Y[:3], X[3:9], depth, RATE, STEPS)
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


def test_averages_that_are_asked_for_alone_are_those_of_the_whole_table():
    given = NET, X[:7], Y[:7], X[7:9], 3, RATE, STEPS
    whole = trained(*given)
    for only in ("prediction", ("ntk",), ["ntk", "prediction"], ("covariance", "prediction")):
        table = trained(*given, only=only)
        asked = {only} if isinstance(only, str) else set(only)
        loss = {"loss"} if asked == {"covariance", "prediction"} else set()
        names = {f"{name}{end}" for name in asked | loss for end in ("", "1")}
        assert {name for name in table.data_vars if "_" not in name} == names
        for name in names:
            error = whole[f"{name}_error"] + table[f"{name}_error"]
            assert (abs(table[name] - whole[name]) <= error + 1e-14).all()


@pytest.mark.parametrize("only", [["loss"], ["ntk", []], [], 3])
def test_names_of_no_averages_are_refused(only):
    with pytest.raises(InputError, match=r"only: got .*; wanted some of prediction,"):
        trained(NET, X[:2], Y[:2], None, 3, RATE, STEPS, only=only)


def test_what_no_machine_holds_is_refused():
    many = np.random.default_rng(5).normal(size=(400, 6))
    with pytest.raises(InputError, match=r"inputs: .*400 inputs would take"):
        trained(NET, many, many[:, 0], None, 3, RATE, STEPS)


@pytest.mark.parametrize(
    ("m", "arrays"), [(12, 400), pytest.param(16, 130, marks=pytest.mark.slow)]
)
def test_sixteen_inputs_take_a_hundred_arrays_of_four_of_them(m, arrays):
    """525 when all layers and all brackets were held at a time, 250 with those of one layer; beside
    them some 40 MB, which are 250 arrays of 12 inputs."""
    trained(NET, X[:9], Y[:9], None, 3, RATE, STEPS)  # what is kept for any inputs
    tracemalloc.start()
    try:
        trained(NET, X[: m - 2], Y[: m - 2], X[m - 2 : m], 3, RATE, STEPS)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < arrays * 8 * m**4
