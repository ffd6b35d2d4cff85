"""Attention, convolutions, reports and traces beside what users would write or install instead.

Layer 1 of a convolutional network is one matrix at every position. Of ensembles it is K of the
first sample at the last layer; compare `time_variance`, the seconds times the variance of the mean,
which does not depend on the number of networks. One thread each.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, layers, trace_moment
from numeric import flow, models, simulate

pytestmark = pytest.mark.usefixtures("one_processor")

DRAWS, EXPLICIT = 1000, 40
"""Networks here, and of the peers, which build every matrix."""

TOKENS, HEADS, WIDTH, DEPTH = 8, 8, 128, 5
X = np.random.default_rng(0).standard_normal((TOKENS, WIDTH))
ATTENTION = f"K behind attention, {HEADS} heads, {TOKENS} tokens, n = {WIDTH}, {DEPTH} layers"

POSITIONS, TAPS, CHANNELS, LAYERS = 8, 3, 64, 6
SIGNAL = np.random.default_rng(1).standard_normal((POSITIONS, 16))
CONVOLUTION = f"K of convolutions, {POSITIONS} positions, n = {CHANNELS}, {LAYERS} layers"


def attention():
    layer = layers.attention(HEADS, TOKENS, scores="1/sqrt(d)", norm="rms")
    return simulate(Network("linear", Gaussian(), layer=layer), X, WIDTH, DEPTH, DRAWS, tensors="K")


def convolutions():
    net = Network("relu", Gaussian(2), layer=layers.convolution(TAPS, POSITIONS))
    return simulate(net, SIGNAL, CHANNELS, LAYERS, DRAWS, tensors="K")


@cache
def expected(sampled) -> tuple[float, float]:
    """K and its standard error."""
    table = sampled()
    return tuple(float(table[name][-1, 0, 0]) for name in ("K", "K_se"))


def timed_ensemble(benchmark, sampled):
    benchmark.pedantic(sampled, rounds=5, warmup_rounds=1)
    benchmark.extra_info["time_variance"] = benchmark.stats["median"] * expected(sampled)[1] ** 2


def timed_peer(benchmark, drawn, sampled):
    """Seconds and variance of a peer, whose mean must be that of `sampled`: |z| < 5."""
    found = benchmark.pedantic(drawn, rounds=2, warmup_rounds=1)
    variance = np.var(found, ddof=1) / len(found)
    benchmark.extra_info["time_variance"] = benchmark.stats["median"] * variance
    mean, error = expected(sampled)
    assert abs(np.mean(found) - mean) < 5 * np.hypot(error, np.sqrt(variance))


@pytest.mark.benchmark(group=ATTENTION)
def test_attention(benchmark):
    timed_ensemble(benchmark, attention)


@pytest.mark.benchmark(group=ATTENTION)
@pytest.mark.peer("NumPy, every matrix")
def test_attention_numpy(benchmark):
    rng = np.random.default_rng(1)

    def matrix():
        return rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)

    def network():
        x = X @ matrix()
        for _ in range(DEPTH - 1):
            y = x / np.sqrt(np.mean(x * x, axis=1, keepdims=True))
            q, k, v = ((y @ matrix()).reshape(TOKENS, HEADS, -1).swapaxes(0, 1) for _ in range(3))
            scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(WIDTH / HEADS))
            mixed = scores / scores.sum(axis=2, keepdims=True) @ v
            x = x + mixed.swapaxes(0, 1).reshape(TOKENS, WIDTH) @ matrix()
        return np.mean(x[0] ** 2)

    timed_peer(benchmark, lambda: [network() for _ in range(EXPLICIT)], attention)


@pytest.mark.benchmark(group=ATTENTION)
@pytest.mark.peer("PyTorch, every matrix", "torch")
def test_attention_torch(benchmark):
    torch = import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x0 = torch.tensor(X, dtype=torch.float32)

    def matrix():
        return torch.randn(WIDTH, WIDTH) / WIDTH**0.5

    def network():
        x = x0 @ matrix()
        for _ in range(DEPTH - 1):
            y = x / x.square().mean(1, keepdim=True).sqrt()
            q, k, v = ((y @ matrix()).view(TOKENS, HEADS, -1).transpose(0, 1) for _ in range(3))
            o = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + o.transpose(0, 1).reshape(TOKENS, WIDTH) @ matrix()
        return float(x[0].square().mean())

    timed_peer(benchmark, lambda: [network() for _ in range(EXPLICIT)], attention)


@pytest.mark.benchmark(group=ATTENTION)
@pytest.mark.peer("JAX, vmap, jitted", "jax")
def test_attention_jax(benchmark):
    jax = import_module("jax")
    jnp = jax.numpy

    def network(key):
        keys = iter(jax.random.split(key, 4 * DEPTH))

        def times_a_matrix(x):
            return x @ jax.random.normal(next(keys), (WIDTH, WIDTH)) / WIDTH**0.5

        x = times_a_matrix(jnp.asarray(X))
        for _ in range(DEPTH - 1):
            y = x / jnp.sqrt(jnp.mean(x * x, axis=1, keepdims=True))
            q, k, v = (times_a_matrix(y).reshape(TOKENS, HEADS, -1) for _ in range(3))
            scores = jnp.einsum("thd,shd->hts", q, k) / np.sqrt(WIDTH / HEADS)
            o = jnp.einsum("hts,shd->thd", jax.nn.softmax(scores), v)
            x = x + times_a_matrix(o.reshape(TOKENS, WIDTH))
        return jnp.mean(x[0] ** 2)

    run, keys = jax.jit(jax.vmap(network)), jax.random.split(jax.random.PRNGKey(1), EXPLICIT)
    timed_peer(benchmark, lambda: np.asarray(run(keys), float), attention)


@pytest.mark.benchmark(group=CONVOLUTION)
def test_convolutions(benchmark):
    timed_ensemble(benchmark, convolutions)


@pytest.mark.benchmark(group=CONVOLUTION)
@pytest.mark.peer("NumPy, every matrix")
def test_convolutions_numpy(benchmark):
    rng = np.random.default_rng(1)

    def network():
        z = SIGNAL @ rng.standard_normal((SIGNAL.shape[1], CHANNELS)) * np.sqrt(2 / SIGNAL.shape[1])
        for _ in range(LAYERS - 1):
            x = np.maximum(z, 0)
            around = np.concatenate([np.roll(x, s, axis=0) for s in (-1, 0, 1)], axis=1)
            W = rng.standard_normal((around.shape[1], CHANNELS))
            z = around @ W * np.sqrt(2 / around.shape[1])
        return np.mean(z[0] ** 2)

    timed_peer(benchmark, lambda: [network() for _ in range(EXPLICIT)], convolutions)


@pytest.mark.benchmark(group=CONVOLUTION)
@pytest.mark.peer("PyTorch, conv1d", "torch")
def test_convolutions_torch(benchmark):
    torch = import_module("torch")
    torch.set_num_threads(1)
    torch.manual_seed(1)
    first = torch.tensor(SIGNAL.T, dtype=torch.float32)

    def network():
        z = torch.randn(CHANNELS, len(first)) @ first * (2 / len(first)) ** 0.5
        for _ in range(LAYERS - 1):
            W = torch.randn(CHANNELS, CHANNELS, TAPS) * (2 / (TAPS * CHANNELS)) ** 0.5
            padded = torch.nn.functional.pad(torch.relu(z)[None], (1, 1), mode="circular")
            z = torch.conv1d(padded, W)[0]
        return float(z[:, 0].square().mean())

    timed_peer(benchmark, lambda: [network() for _ in range(EXPLICIT)], convolutions)


KERNEL = f"K at infinite width, convolutions, ReLU, 8 signals of {POSITIONS} positions, 6 layers"
SIGNALS = np.random.default_rng(2).standard_normal((8, POSITIONS, 3))


@cache
def kernel():
    """Of all positions, (signals · positions)²."""
    net = Network("relu", Gaussian(2), layer=layers.convolution(TAPS, POSITIONS))
    return flow(net, SIGNALS, LAYERS, ["K"])["K"].to_numpy()[-1]


@pytest.mark.benchmark(group=KERNEL)
def test_kernel(benchmark):
    benchmark.pedantic(kernel.__wrapped__, rounds=5, warmup_rounds=1)


@pytest.mark.benchmark(group=KERNEL)
@pytest.mark.peer("NumPy, Cho and Saul's kernel by hand")
def test_kernel_numpy(benchmark):
    def linear(means):
        parts = means.reshape(len(SIGNALS), POSITIONS, len(SIGNALS), POSITIONS)
        moved = [np.roll(parts, (s, s), axis=(1, 3)) for s in (-1, 0, 1)]
        return (2 / TAPS) * sum(moved).reshape(means.shape)

    def by_hand():
        flat = SIGNALS.reshape(-1, 3)
        K = 2 * flat @ flat.T / 3
        for _ in range(LAYERS - 1):
            size = np.sqrt(np.diag(K))
            norm = np.outer(size, size)
            angle = np.arccos(np.clip(K / norm, -1, 1))
            K = linear(norm * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi))
        return K

    found = benchmark.pedantic(by_hand, rounds=5, warmup_rounds=1)
    assert np.allclose(found, kernel(), rtol=1e-7)


@pytest.mark.benchmark(group=KERNEL)
@pytest.mark.peer("neural-tangents", "neural_tangents")
@pytest.mark.filterwarnings("ignore")
def test_kernel_neural_tangents(benchmark):
    """The kernel of each position with itself is what it keeps before a readout."""
    stax = import_module("neural_tangents.stax")
    jax = import_module("jax")
    jax.config.update("jax_enable_x64", True)

    def convolution(taps):
        return stax.Conv(1, (taps,), padding="CIRCULAR", W_std=2**0.5, b_std=None)

    later = [each for _ in range(LAYERS - 1) for each in (stax.Relu(), convolution(TAPS))]
    _, _, of = stax.serial(convolution(1), *later)
    of = jax.jit(lambda x: of(x, None, "nngp"))
    found = benchmark.pedantic(
        lambda: np.asarray(of(SIGNALS)), rounds=5, warmup_rounds=1
    )  # (signals, signals, positions[, positions])
    ours = kernel().reshape(8, POSITIONS, 8, POSITIONS)
    ours = np.moveaxis(ours, 1, 2) if found.ndim == 4 else np.einsum("apbp->abp", ours)
    assert np.allclose(found, ours, rtol=1e-7)


REPORT = "what a policy 11-256-256-3 is at initialization"


def policy(torch):
    sizes = [(11, 256), (256, 256), (256, 3)]
    parts = [each for pair in sizes for each in (torch.nn.Linear(*pair), torch.nn.Tanh())]
    return torch.nn.Sequential(*parts[:-1])


@pytest.mark.benchmark(group=REPORT)
def test_report(benchmark):
    """Theory, draws and verdicts of `models.report`, warm."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    x = np.random.default_rng(0).standard_normal((2, 11))
    found = benchmark.pedantic(
        lambda: models.report(policy(torch), x), rounds=1, warmup_rounds=1, iterations=1
    )
    assert found.findings


@pytest.mark.benchmark(group=REPORT)
@pytest.mark.peer("PyTorch, hooks and gradients of 200 initializations", "torch")
def test_report_torch(benchmark):
    """K of each layer, its spread, and the tangent kernel; no theory and no verdict."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    x = torch.tensor(np.random.default_rng(0).standard_normal((2, 11)), dtype=torch.float32)

    def gradient(z, model):
        parts = torch.autograd.grad(z, list(model.parameters()), retain_graph=True)
        return torch.cat([each.ravel() for each in parts])

    def network():
        model, squares = policy(torch), []
        for part in model[::2]:
            part.register_forward_hook(
                lambda *given: squares.append(float(given[2].detach().norm()) ** 2)
            )
        rows = torch.stack([gradient(z[0], model) for z in model(x)])
        return [*squares, *(rows @ rows.T).ravel().tolist()]

    def measured():
        found = [network() for _ in range(200)]
        return np.mean(found, axis=0), np.std(found, axis=0)

    mean, spread = benchmark.pedantic(measured, rounds=1, warmup_rounds=1)
    assert (mean > 0).all()
    assert (spread > 0).all()


SIZE = 8
ROOTS = list(range(1, SIZE + 1)), [k * k for k in range(SIZE)]
TRACES = f"mean of (tr² M − tr M²)/2 for M = A O B Oᵀ, n = {SIZE}"


def second_coefficient() -> sympy.Rational:
    haar, A, B = (sympy.MatrixSymbol(name, SIZE, SIZE) for name in "OAB")
    M = A * haar * B * haar.T
    found = (trace_moment([M, M], haar) - trace_moment(M * M, haar)) / 2
    return found.subs({A: sympy.diag(*ROOTS[0]), B: sympy.diag(*ROOTS[1])}).doit()


@pytest.mark.benchmark(group=TRACES)
def test_traces(benchmark):
    assert benchmark.pedantic(second_coefficient, rounds=5, warmup_rounds=1) > 0


@pytest.mark.benchmark(group=TRACES)
@pytest.mark.peer("finitefree", "finitefree")
def test_traces_finitefree(benchmark):
    """All coefficients of the mean characteristic polynomial at once, by its convolution."""
    finitefree = import_module("finitefree")
    convolved = import_module("finitefree.convolutions").multiplicative

    def found():
        A, B = map(finitefree.RealRootedPolynomial.from_roots, ROOTS)
        return convolved(A, B, SIZE).coeffs[2]

    assert sympy.Rational(str(benchmark(found))) == second_coefficient()
