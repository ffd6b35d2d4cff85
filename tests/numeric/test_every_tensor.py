"""Every tensor that one input has flows with three and with four inputs, and at equal inputs is
what one input has."""

from __future__ import annotations

import numpy as np
import pytest

from derive import InputError, Network
from numeric import flow

INPUTS = [
    [1.0, 0.5, 0.2, 0.3],
    [0.3, -0.7, 1.0, 0.2],
    [0.5, 0.8, -0.4, 0.9],
    [-0.2, 0.9, 0.6, 1.0],
]
TENSORS = [
    *("K", "G1", "V", "Theta", "A", "B", "D", "F"),
    *("P", "Q", "R", "S", "T", "U", "G2", "V2", "U6"),
]
INFINITE = {"R", "S", "T", "U"}
"""With a kink, for its ⟨σ' σ'''⟩ or ⟨σ'² σ''²⟩."""


@pytest.mark.parametrize("m", [3, 4])
@pytest.mark.parametrize("sigma", ["tanh", "relu"])
def test_several_inputs_hold_one(sigma: str, m: int) -> None:
    net, first = Network(sigma), 1
    names = [name for name in TENSORS if sigma == "tanh" or name not in INFINITE]
    several, alone = (flow(net, x, 2, names) for x in (INPUTS[:m], INPUTS[first]))
    for name in names:
        values, errors = (several[each].to_numpy() for each in (name, f"{name}_error"))
        at = (slice(None), *(first,) * (values.ndim - 1))
        bound = 20 * (errors[at] + alone[f"{name}_error"].to_numpy()) + 1e-14
        assert np.isfinite(values).all(), name
        assert (np.abs(values[at] - alone[name].to_numpy()) <= bound).all(), name
        largest = np.abs(values).max()
        assert errors.max() <= 1e-9 * largest or largest <= 1e-12, name


@pytest.mark.parametrize("name", sorted(INFINITE))
@pytest.mark.parametrize("m", [1, 3])
def test_what_is_infinite_is_refused(name: str, m: int) -> None:
    with pytest.raises(InputError, match="not, for its"):
        flow(Network("relu"), INPUTS[:m], 2, [name])


def test_entries_of_fewer_inputs() -> None:
    """What four inputs have at the first three is what those have alone."""
    names = ["V", "D", "U6"]
    four, three = (flow(Network("tanh"), INPUTS[:m], 2, names) for m in (4, 3))
    for name in names:
        whole, part = four[name].to_numpy(), three[name].to_numpy()
        shared = whole[(slice(None), *(slice(3),) * (whole.ndim - 1))]
        np.testing.assert_allclose(shared, part, rtol=1e-10, atol=1e-13)
