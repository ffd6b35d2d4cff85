"""Batches of five samples and more, whose averages are sampled: against exchangeable ones."""

import numpy as np
import pytest

from derive import Exchangeable, Gaussian, InputError, Network, layers
from numeric import flow

CASES = [("relu", "batchnorm", 5), ("tanh", "batchnorm(eps=1/10)", 6)]


def exchangeable(m, q, p):
    """Inputs with these products."""
    lengths, axes = np.linalg.eigh(np.where(np.eye(m, dtype=bool), q, p))
    return (axes * np.sqrt(m * lengths)) @ axes.T


def scores(activation, layer, m, names):
    """How far entries of layer 3 are from those of exchangeable samples, in units of the errors."""
    net = Network(activation, Gaussian(1.5), C_b=0.1, layer=layer)
    known = flow(net, Exchangeable(m, "1.3", "0.4"), 3, names)
    found = flow(net, exchangeable(m, 1.3, 0.4), 3, names)
    for name in names:
        table = known[name].dropna("orbit").sel(layer=3)
        for orbit in table["orbit"].to_numpy():
            at = (-1, *(int(digit) - 1 for digit in orbit if digit.isdigit()))
            error = found[f"{name}_error"].to_numpy()[at]
            assert error < 0.1 * float(abs(table).max())
            yield (found[name].to_numpy()[at] - float(table.sel(orbit=orbit))) / error


@pytest.mark.parametrize(("activation", "layer", "m"), CASES)
def test_a_sampled_kernel_is_within_its_error(activation, layer, m):
    assert max(map(abs, scores(activation, layer, m, ["K"]))) < 1


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "layer", "m"), CASES)
def test_sampled_tensors_are_within_their_errors(activation, layer, m):
    """An error is some six standard errors, of two directions: one entry in fifty is beyond."""
    found = np.array([*scores(activation, layer, m, ["K", "V", "Theta"])])
    assert np.abs(found).max() < 3
    assert 0.02 < np.sqrt((found**2).mean()) < 0.7


def test_the_same_numbers_each_time():
    net = Network("tanh", layer=layers.batchnorm("1/10"))
    first, second = (flow(net, exchangeable(5, 1, 0.3), 2, ["K"]).K for _ in range(2))
    assert (first == second).all()


def test_what_takes_too_many_entries_is_refused():
    with pytest.raises(InputError, match="fewer for tensors such as G1"):
        flow(Network("tanh", layer=layers.batchnorm()), exchangeable(8, 1, 0.3), 3, ["G1"])
