"""What inputs may be, and what is said of those that cannot be used."""

import numpy as np
import pytest

from derive import InputError, Network
from numeric import flow, simulate, training

TANH = Network("tanh")


class Tensor:
    """Numbers with a gradient, as those of other frameworks: an array only once detached."""

    def __init__(self, values, *, tracked=True):
        self.values, self.tracked = np.array(values), tracked
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def detach(self):
        return Tensor(self.values, tracked=False)

    def __array__(self, dtype=None, copy=None):
        if self.tracked:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.values


def test_tensors_with_gradients_are_detached():
    x = [1.0, 2.0]
    assert flow(TANH, Tensor(x), 2, ["K"]).identical(flow(TANH, x, 2, ["K"]))
    given = {"depth": 2, "eta": 0.1, "steps": 1}
    table = training.flow(TANH, Tensor(x), Tensor(1.0), **given)
    assert table.identical(training.flow(TANH, x, 1.0, **given))


@pytest.mark.parametrize(
    ("inputs", "got"),
    [
        (["a", "b"], "text"),
        ([1j, 1], "complex numbers"),
        ([None, 1.0], "objects"),
        (np.zeros((2, 3, 4)), "shape (2, 3, 4)"),
        ([np.nan, 1.0], "NaN or infinity"),
    ],
)
def test_what_cannot_be_used_is_said_without_quotes(inputs, got):
    for call in (lambda: flow(TANH, inputs, 2, ["K"]), lambda: simulate(TANH, inputs, 6, 2, 20)):
        with pytest.raises(InputError) as error:
            call()
        assert str(error.value).startswith(f"inputs: got {got}; wanted ")


def test_a_list_that_ends_before_the_depth_says_so():
    for name in ("lambda_b", "C_b"):
        with pytest.raises(InputError) as error:
            flow(Network("tanh", **{name: [1, 2]}), [1.0], 4, ["Theta"])
        said = "got 2 values, for layers 1 to 2; wanted a value for each layer: there is none for"
        assert str(error.value) == f"{name}: {said} layer 3"


def test_names_in_a_layers_text_may_be_quoted():
    assert Network("tanh", layer="normalized('rms')") == Network("tanh", layer="normalized(rms)")
    with pytest.raises(InputError, match="norm: got 'instance'; wanted"):
        Network("tanh", layer="normalized('instance')")


def test_averages_over_many_inputs_are_counted_before_they_are_made():
    """Of 6 inputs 21 averages a layer between kinks, a hundredth of a second each."""
    elu = Network("expr: Max(z, 0) + exp(Min(z, 0)) - 1")
    with pytest.raises(InputError, match="450 000 layers of 6 inputs would take 26 h"):
        flow(elu, np.eye(6), 450_000, ["K"])
