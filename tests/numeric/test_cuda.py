"""The samplers on a GPU: the CPU's numbers to rounding; here in numba's simulator of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sympy
from numba import cuda
from numba.core import config

from derive import activations
from derive.engine import Equation
from derive.errors import InputError
from derive.layers import Layer
from derive.network import Network
from derive.recursions import recursion, wanted
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
)
from numeric.cuda import on_device
from numeric.estimators import moments, observables
from numeric.random import philox
from numeric.samplers import checked_ensemble
from numeric.simulations import make_sampler, simulate

SIMULATED = bool(config.ENABLE_CUDASIM)
if SIMULATED:  # whose blocks wait for their threads in a loop, 5 ms for each if they are let
    sys.setswitchinterval(1e-5)
on_a_device = pytest.mark.skipif(
    not (SIMULATED or cuda.is_available()),
    reason="no GPU: test_cuda_in_the_simulator runs this one",
)

HALF = sympy.Rational(1, 2)
ONE = [[1.0, 0.5, 0.2]]
TWO = [[1.0, 0.5, 0.2], [0.0, 2.0, 1.0]]
DEGENERATE = [[1.0, 0.5, 0.2], [2.0, 1.0, 0.4], [0.0, 0.0, 0.0]]
TOKENS = np.array([[1.0, 0.5, 0.2], [0.0, 2.0, 1.0]])
TANH, RELU = activations.tanh, activations.relu
JACOBIAN = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")


def sampler(net, inputs, width, tensors, name="lazy", depth=3):
    ensemble = checked_ensemble(net, inputs, width, depth, 1)
    plan = observables.Plan(wanted(tensors), ensemble.data.measured)
    return make_sampler(ensemble, plan, name)


@on_a_device
@pytest.mark.parametrize(
    ("net", "inputs", "width", "tensors", "name"),
    [
        (Network(TANH, Orthogonal(1), C_b=0.1), TWO, 5, ["V"], "lazy"),
        (Network(RELU, Gaussian(2)), TWO, 5, ["V", "U6"], "lazy"),
        (Network(TANH, Orthogonal(1)), DEGENERATE, 5, ["V"], "lazy"),
        (
            Network(activations.erf_unit_slope, Truncated(ratio=2), width_ratio=lambda ell: ell),
            ONE,
            4,
            "V",
            "lazy",
        ),
        (Network(TANH, LowRankGaussian(gamma=HALF), Gaussian(1)), TWO, 6, "V", "lazy"),
        (Network(TANH, LowRankOrthogonal(gamma=HALF), Gaussian(1)), TWO, 6, "V", "lazy"),
        (Network(TANH, BiInvariant(moments=(1, 2)), Gaussian(1)), TWO, 4, "V", "lazy"),
        (Network(TANH, Orthogonal(1), C_b=0.1), TWO, 4, ["Theta", "D", "F"], "probes"),
        (Network(TANH, Gaussian(1), lambda_b=0), DEGENERATE, 4, ["Theta"], "probes"),
        (Network(TANH, Gaussian(1), C_b=0.1), ONE, 4, ["A", "P"], "probes"),
        (Network(TANH, Orthogonal(1), C_b=0.1), ONE, 130, ["Theta"], "probes"),
        (Network(TANH, Orthogonal(1), C_b=0.1), ONE, 6, ["A", "B", "D", "F"], "paths"),
        (Network(TANH, Gaussian(1), lambda_b=lambda ell: 1 / ell), ONE, 5, ["P", "R"], "paths"),
        (Network(TANH, Orthogonal(1)), ONE, 5, [recursion([JACOBIAN])], "paths"),
        (Network(TANH, Gaussian(1)), [[0.0, 0.0, 0.0]], 5, ["A", "D"], "paths"),
    ],
)
def test_cuda_draws_the_networks_of_the_cpu(net, inputs, width, tensors, name):
    here = sampler(net, inputs, width, tensors, name)
    draws = np.array([7, 300])
    expected, found = here.statistics(draws), on_device(here).statistics(draws)
    size = np.abs(expected).max(axis=0)
    assert size[-1].any()
    assert (np.abs(found - expected) <= 1e-11 * size + 1e-15 * size.max()).all()


TWICE = Layer("g[i] = W1[i,a] z[a]", "h[i] = W1[i,a] s(z[a])", "z[i] = W2[i,a] g[a] s(h[a])")


@on_a_device
@pytest.mark.parametrize(
    ("layer", "sigma", "weights", "inputs", "width", "tensors"),
    [
        ("normalized(rms, eps=1/10)", TANH, Orthogonal(1), TWO, 5, ["V"]),
        ("residual(skip=1, norm=layer)", RELU, Gaussian(2), ONE, 4, ["V"]),
        ("gated(norm=rms)", TANH, LowRankGaussian(gamma=HALF), TWO, 4, ["V"]),
        (TWICE, TANH, Orthogonal(1), TWO, 4, ["V"]),
        ("sequence(residual, dropout(1/2))", TANH, Gaussian(2), TWO, 4, ["K"]),
        ("dropout(1/2)", TANH, Gaussian(2), TWO, 4, ["V"]),
        ("normalized(group(2))", TANH, Gaussian(1), TWO, 4, ["V"]),
        ("residual(skip=1/2, ratio=2)", TANH, Orthogonal(1), ONE, 4, ["Theta"]),
        (
            "convolution(3, 4, boundary=zero, readout=mean)",
            TANH,
            Orthogonal(1),
            np.arange(1.0, 13.0).reshape(4, 3) / 7,
            4,
            ["K"],
        ),
        (
            "pooling(4, 2); dense*",
            TANH,
            Gaussian(1),
            np.arange(1.0, 13.0).reshape(4, 3) / 7,
            4,
            ["K"],
        ),
        ("attention(heads=2, positions=2, mask=causal)", TANH, Gaussian(1), TOKENS, 4, ["V"]),
        (
            "attention(heads=2, positions=2, scores=1/sqrt(d), skip=1, norm=rms)",
            TANH,
            Gaussian(1),
            TOKENS,
            14,
            ["Theta"],
        ),
    ],
    ids=str,
)
def test_cuda_draws_the_layers_of_the_cpu(layer, sigma, weights, inputs, width, tensors):
    net = Network(sigma, weights, Gaussian(1), C_b=0.1, layer=layer)
    ensemble = checked_ensemble(net, inputs, width, 3, 1)
    plan = observables.Plan(wanted(tensors), ensemble.data.measured)
    here = make_sampler(ensemble, plan, "probes")
    draws = np.array([7, 300])
    expected, found = here.statistics(draws), on_device(here).statistics(draws)
    size = np.abs(expected).max(axis=0)
    assert size[-1].any()
    assert (np.abs(found - expected) <= 1e-11 * size + 1e-15 * size.max()).all()


@on_a_device
def test_cuda_draws_vectors_for_the_kernels_of_attention():
    net = Network(TANH, Gaussian(1), layer="attention(heads=2, positions=2)")
    here = sampler(net, np.tile(TOKENS, (1, 2)), 4, ["K"])
    assert (here.label, on_device(here).label) == ("kernels", "probes")


@on_a_device
@pytest.mark.parametrize(
    ("layer", "inputs", "tensors", "name"),
    [
        ("dense", TWO, ["V"], "lazy"),
        ("dense", ONE, ["A", "D"], "paths"),
        ("residual(skip=1, norm=rms)", ONE, ["V"], "lazy"),
        ("attention(heads=2, positions=2)", TOKENS, ["V"], "probes"),
    ],
    ids=str,
)
def test_cuda_in_single_precision(layer, inputs, tensors, name):
    """The same networks to single precision, and not to double."""
    net = Network(TANH, Gaussian(1), C_b=0.1, layer=layer)
    here = sampler(net, inputs, 6, tensors, name)
    draws = np.array([7, 300])
    expected, found = here.statistics(draws), on_device(here, "f4").statistics(draws)
    apart = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-12 < apart < 1e-5
    assert on_device(here, "f4").identity != on_device(here).identity


@on_a_device
@pytest.mark.parametrize(
    ("held", "layer"), [(2, "dense"), (100, "dense"), (100, "normalized(rms)")]
)
def test_cuda_adds_up_what_its_networks_estimate(monkeypatch, held, layer):
    """In the order of the draws, however many networks are held; what is constant gives zeros."""
    from numeric.cuda import samplers  # noqa: PLC0415

    net = Network(TANH, Orthogonal(1), layer=layer)
    there = on_device(sampler(net, ONE, 5, ["V"], depth=2))
    monkeypatch.setattr(samplers, "_memory", lambda: 8 * there.held * held)
    draws = np.arange(254, 259)
    values, found = there.statistics(draws), there.sums(254, 259, there.reference)
    expected = np.zeros(found.shape)
    by_layer = np.ascontiguousarray(values.swapaxes(0, 1))
    products, room = (there.reference, *there.plan.chain), np.empty(1 + len(there.plan.products))
    moments.accumulate(by_layer, draws % moments.BLOCKS, products, room, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert not found[:, 0].any()
    assert np.flatnonzero(found[:, 1].any(axis=1)).tolist() == [0, 1, 2, 254, 255]


@on_a_device
def test_cuda_gives_simulate_the_same_tensors():
    net = Network(TANH, Orthogonal(1), C_b=0.1)
    here, there = (
        simulate(net, ONE[0], 6, 2, 6, tensors=["K", "V", "Theta", "D"], device=device)
        for device in ("cpu", "cuda")
    )
    single = simulate(net, ONE[0], 6, 2, 6, tensors=["K", "V"], device="cuda:float32")
    np.testing.assert_allclose(single["K"], here["K"], rtol=1e-5)
    assert single.attrs["device"] == "cuda:float32"
    assert there.attrs == here.attrs | {"device": "cuda"}
    for name in here:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-9, atol=1e-12)


def launched(kernel, *arrays):
    """The arrays as the kernel leaves them."""
    from numeric.cuda import device  # noqa: PLC0415

    sent = [cuda.to_device(array) for array in arrays]
    kernel[device.blocks(1), device.THREADS](*sent)
    return [array.copy_to_host() for array in sent]


@on_a_device
def test_cuda_draws_the_same_random_numbers():
    from numeric.cuda import device, linear  # noqa: PLC0415

    @device.kernel
    def fill(normals, words, key):
        if cuda.blockIdx.x == 0:
            linear.fill_normals(normals, key, 7, 2, 5)
            linear.fill_words(words, key, 7, 2, 5)

    normals, words = launched(fill, np.empty(24), np.empty(8, np.uint64), philox.stream_key(3))[:2]
    np.testing.assert_allclose(normals, philox.normals(3, 7, 2, 5, 24), rtol=1e-13, atol=1e-15)
    signs = np.empty(256)
    philox.fill_signs(signs, philox.stream_key(3), 7, 2, 5)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
    assert np.array_equal(1.0 - 2.0 * bits.ravel(), signs)


@on_a_device
@pytest.mark.parametrize("lean", [1.0, 1e-6])
def test_cuda_frames_are_orthonormal(lean):
    """From the rows' Gram matrix, and from the rows themselves where that has lost its digits."""
    from numeric.cuda import device, linear  # noqa: PLC0415

    @device.kernel
    def frame(G, R, rows, U):
        scratch = cuda.shared.array(device.THREADS, np.float64)
        shared = cuda.shared.array(1, np.int64)
        if cuda.blockIdx.x == 0:
            linear.orthogonal(G, 6, R, rows, U, scratch, shared)

    G = np.zeros((3, 8))
    G[:, :6] = np.random.default_rng(0).standard_normal((3, 6))
    G[1] = G[0] + lean * G[1]
    given, work = G.copy(), np.empty((3, 3))
    G, R, _, _ = launched(frame, G, np.eye(3), work, work)
    F = R.T @ G
    np.testing.assert_allclose(F @ F.T, np.eye(3), atol=1e-14)
    triangle = given @ F.T
    np.testing.assert_allclose(triangle, np.tril(triangle), atol=1e-14)
    assert (np.diag(triangle) > 0).all()


@on_a_device
@pytest.mark.parametrize(
    ("weights", "inputs"),
    [(Orthogonal(1), TWO), (LowRankOrthogonal(gamma=HALF), ONE)],
    ids=["several inputs", "low rank"],
)
def test_cuda_has_probes_where_these_have_paths(weights, inputs):
    here = sampler(Network(TANH, weights, Gaussian(1)), inputs, 4, ["Theta"])
    assert (here.label, on_device(here).label) == ("paths", "probes")


def test_cuda_has_no_explicit_sampler():
    with pytest.raises(InputError, match=r"""^device: got 'gpu'; wanted "cpu", "cuda" or"""):
        simulate(Network(TANH, Orthogonal(1)), ONE, 4, 2, 10, device="gpu")
    explicit = sampler(Network(TANH, Orthogonal(1)), ONE, 4, "V", "explicit")
    with pytest.raises(InputError, match=r"^device: got 'cuda for the explicit sampler"):
        on_device(explicit)
    products = sampler(Network(RELU, Gaussian(2)), ONE, 4, "V", "products")
    with pytest.raises(InputError, match=r"""^device: got 'cuda for the sampler "products"'"""):
        on_device(products)
    batched = Network(TANH, Gaussian(1), layer="batchnorm(eps=1/10)")
    with pytest.raises(InputError, match=r"^device: got 'cuda for a function of all samples'"):
        on_device(sampler(batched, np.eye(3), 4, "V"))
    residual = Network(TANH, Orthogonal(1), layer="residual")
    with pytest.raises(InputError, match=r"^device: got 'cuda for the explicit sampler"):
        on_device(sampler(residual, ONE, 4, "V", "explicit"))


@pytest.mark.skipif(SIMULATED or cuda.is_available(), reason="there is a device")
def test_cuda_without_a_gpu_is_refused():
    with pytest.raises(InputError, match=r"^device: got 'cuda, but no GPU is found'; .*\[cuda\]"):
        on_device(sampler(Network(TANH, Orthogonal(1)), ONE, 4, "V"))


def test_cuda_with_a_broken_driver_is_refused(monkeypatch):
    def broken():
        raise OSError("a driver of another version")

    monkeypatch.setattr(cuda, "is_available", broken)
    with pytest.raises(InputError, match=r"^device: got 'cuda \(a driver of another version\)'"):
        on_device(sampler(Network(TANH, Orthogonal(1)), ONE, 4, "V"))


@pytest.mark.skipif(SIMULATED or cuda.is_available(), reason="it would time the device")
def test_the_script_for_a_gpu_says_that_there_is_none():
    script = Path(__file__).parents[2] / "benchmarks" / "gpu.sh"
    env = os.environ | {"PYTHON": sys.executable}
    run = ["bash", str(script)]
    found = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.startswith("There is no CUDA device")


@pytest.mark.slow
@pytest.mark.skipif(SIMULATED or cuda.is_available(), reason="the tests above ran on a device")
def test_cuda_in_the_simulator():
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--benchmark-disable", __file__],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert re.search(r"\b43 passed, 2 skipped, 1 deselected\b", found.stdout), found.stdout
