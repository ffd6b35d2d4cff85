"""The edge of chaos in 200 points, fixed points, and networks of 1000 neurons, back and forth."""

import pytest

from derivations.nait_saada_tanner.backward import backward, squares
from derivations.nait_saada_tanner.sampling import sample
from derive import activations, propagation


@pytest.mark.parametrize("name", ["tanh", "erf_unit_slope", "hard_tanh"])
def test_edge_of_chaos(benchmark, name):
    edge = benchmark(propagation.edge_of_chaos, activations.by_name(name), 0.25)
    assert len(edge) == 200


@pytest.mark.parametrize("weight", [4, 8], ids=["ordered", "chaotic"])
def test_depth_scales(benchmark, weight):
    net = propagation.network(activations.tanh, weight, "0.2", "1/4")
    assert benchmark(propagation.depth_scales, net).is_stable


@pytest.mark.parametrize("run", [sample, backward])
def test_thirty_two_networks_of_fifty_layers(benchmark, run):
    net = propagation.network(activations.tanh, 8, "0.2", "1/4")
    loss = () if run is sample else (squares,)
    benchmark(run, net, [1.0, -1.0], 1000, 50, 32, *loss)
