"""Floats and digits of one flow, held against each other."""

from __future__ import annotations

import numpy as np

from derive import Network
from numeric import flow


def close(net: Network, inputs: object, depth: int, tensors: list[str], digits: int = 30) -> None:
    """Floats are no farther from the truth than ten times what they say, and what they say is below
    a part in 10⁹ of their largest entry."""
    floats = flow(net, inputs, depth, tensors)
    precise = flow(net, inputs, depth, tensors, precision=digits)
    for name in tensors:
        values, error = precise[name].to_numpy().astype(float), floats[f"{name}_error"].to_numpy()
        assert (np.abs(floats[name].to_numpy() - values) <= 10 * error).all(), name
        largest = np.abs(values).reshape(len(values), -1).max(axis=1)
        told = error.reshape(len(error), -1).max(axis=1)
        assert ((told <= 1e-9 * largest) | (largest <= told)).all(), name
