"""Seconds of whole chunks of networks, on a GPU and on the CPU: forward passes and towers.

`benchmarks/gpu.sh` runs these where there is a GPU and writes the table.
"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda
from numba.core import config

from derive import Network
from derive.recursions import wanted
from numeric.cuda import on_device
from numeric.estimators import observables
from numeric.samplers import checked_ensemble
from numeric.simulations import DEVICES, make_sampler

DRAWS = 1 << 12

pytestmark = pytest.mark.skipif(
    bool(config.ENABLE_CUDASIM) or not cuda.is_available(), reason="no GPU to be timed"
)

CASES = {
    "V, dense, n = 100": ("dense", 100, ["V"]),
    "V, dense, n = 10,000": ("dense", 10_000, ["V"]),
    "the tower of H, dense, n = 50": ("dense", 50, ["A", "B", "D", "F"]),
    "the towers of H and dH, dense, n = 50": (
        "dense",
        50,
        ["A", "B", "D", "F", "P", "Q", "R", "S", "T", "U"],
    ),
    "V, RMS norms, n = 100": ("normalized(rms)", 100, ["V"]),
    "Θ, residual blocks, n = 100": ("residual(skip=1, norm=rms)", 100, ["Theta"]),
    "K, gates, n = 100": ("gated(skip=1, norm=rms)", 100, ["K"]),
    "K, convolutions, n = 100": ("convolution(3, 4)", 100, ["K"]),
    "V, attention, n = 96": ("attention(heads=4, positions=4)", 96, ["V"]),
    "Θ, attention, n = 48": ("attention(heads=4, positions=4)", 48, ["Theta"]),
}


def sums_of(name, device):
    """A chunk's sums, as a call; each takes the same networks."""
    layer, width, tensors = CASES[name]
    tokens = 4 if "conv" in layer or "attention" in layer else 1
    inputs = np.random.default_rng(0).standard_normal((tokens, width))
    net = Network("tanh", layer=layer)
    ensemble = checked_ensemble(net, inputs, width, 10, 0)
    plan = observables.Plan(wanted(tensors), ensemble.data.measured)
    sampler = make_sampler(ensemble, plan, "probes" if "attention" in layer else "lazy")
    there = device.startswith("cuda")
    made = on_device(sampler, DEVICES[device]) if there else sampler
    draws = min(made.chunk, DRAWS if there else max(1, DRAWS // 256))
    return made, draws


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_networks_on_a_gpu(benchmark, name, device):
    sampler, draws = sums_of(name, device)
    benchmark.group = f"{name}: a network"
    benchmark.extra_info["draws"] = draws
    if device == "cpu":
        benchmark.extra_info["peer"] = f"the CPU, {sampler.threads} threads"
    elif device != "cuda":
        benchmark.extra_info["peer"] = "the GPU, float32"
    sums = benchmark(sampler.sums, 0, draws, sampler.reference)
    benchmark.extra_info["time_variance"] = benchmark.stats.stats.median / draws
    assert np.isfinite(sums).all()
