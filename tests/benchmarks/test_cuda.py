"""Draws per second on a GPU: the forward ensemble and the tower, whole chunks of networks."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from numba.core import config

from derive import activations
from derive.network import Network
from derive.recursions import wanted
from derive.weights import Orthogonal
from numeric.cuda import on_device
from numeric.estimators import observables
from numeric.samplers import checked_ensemble
from numeric.simulations import make_sampler

pytestmark = pytest.mark.skipif(
    bool(config.ENABLE_CUDASIM) or not cuda.is_available(), reason="no GPU to be timed"
)


@pytest.mark.parametrize(
    ("width", "depth", "tensors"),
    [
        (100, 10, ["V"]),
        (10_000, 10, ["V"]),
        (50, 10, ["A", "B", "D", "F"]),
        (50, 10, ["A", "B", "D", "F", "P", "Q", "R", "S", "T", "U"]),
    ],
)
def test_draws_on_a_gpu(benchmark, width, depth, tensors):
    inputs = np.random.default_rng(0).standard_normal((1, width))
    net = Network(activations.tanh, Orthogonal(1))
    ensemble = checked_ensemble(net, inputs, width, depth, 0)
    plan = observables.Plan(wanted(tensors), 1)
    sampler = on_device(make_sampler(ensemble, plan))
    draws = min(sampler.chunk, 1 << 14)
    benchmark.extra_info["draws"] = draws
    sums = benchmark(sampler.sums, 0, draws)
    assert np.isfinite(sums).all()
