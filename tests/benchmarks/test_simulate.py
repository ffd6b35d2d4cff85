"""Ensembles against explicit matrices: V, then the tower, of orthogonal tanh networks, one input.

V: width 100, 10 layers, 1000 networks. Compare `time_variance`, the seconds times the variance of V
at the last layer, which does not depend on the number of networks. The peers build every matrix by
batched QR with the sign fix and record the same Gram matrices. Set OMP_NUM_THREADS and
NUMBA_NUM_THREADS to the number of threads that all may use.
"""

from __future__ import annotations

import time

import numba
import numpy as np
import pytest

from derive import activations, layers
from derive.network import Network
from derive.weights import Gaussian, Orthogonal
from numeric.random import fill_normals, stream_key
from numeric.simulations import simulate

WIDTH, DEPTH, DRAWS, BATCH = 100, 10, 1000, 50
X = np.random.default_rng(0).standard_normal(WIDTH)


def variance(squares):
    """The variance of V at the last layer, from |σ|²/n of each network."""
    M4 = WIDTH / (WIDTH + 2)
    blocks = squares - squares.mean()
    influence = M4 * (blocks**2 - np.mean(blocks**2)) + 2 * (M4 - 1) * squares.mean() * blocks
    return WIDTH**2 * influence.var() / squares.size


VERTEX = "V of an orthogonal ensemble, seconds × variance"


@pytest.mark.parametrize("weights", [Orthogonal(1), Gaussian(1)], ids=["orthogonal", "gaussian"])
def test_simulate(benchmark, weights):
    benchmark.group = VERTEX if isinstance(weights, Orthogonal) else None
    net = Network(activations.tanh, weights)
    options = {"width": WIDTH, "depth": DEPTH, "draws": DRAWS, "tensors": ["V"]}
    table = benchmark.pedantic(
        simulate, (net, X), options, rounds=20, iterations=1, warmup_rounds=1
    )
    found = float(table["V_se"][-1]) ** 2
    benchmark.extra_info["time_variance"] = benchmark.stats["mean"] * found


def numpy_ensemble():
    rng, squares = np.random.default_rng(1), []
    for _ in range(DRAWS // BATCH):
        sigma = np.broadcast_to(X, (BATCH, WIDTH))
        for _ in range(DEPTH - 1):
            Q, R = np.linalg.qr(rng.standard_normal((BATCH, WIDTH, WIDTH)))
            Q *= np.sign(np.einsum("dii->di", R))[:, None]
            sigma = np.tanh(np.einsum("dij,dj->di", Q, sigma))
        squares.append(np.mean(sigma**2, axis=1))
    return np.concatenate(squares)


def torch_ensemble():
    import torch  # noqa: PLC0415

    torch.manual_seed(1)
    squares, options = [], {"dtype": torch.float64}
    for _ in range(DRAWS // BATCH):
        sigma = torch.tensor(X).expand(BATCH, WIDTH)
        for _ in range(DEPTH - 1):
            Q, R = torch.linalg.qr(torch.randn(BATCH, WIDTH, WIDTH, **options))
            Q = Q * torch.sign(torch.diagonal(R, dim1=1, dim2=2))[:, None]
            sigma = torch.tanh(torch.einsum("dij,dj->di", Q, sigma))
        squares.append(torch.mean(sigma**2, dim=1).numpy())
    return np.concatenate(squares)


def jax_ensemble():
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    @jax.jit
    def batch(key):
        def step(sigma, layer):
            normal = jax.random.normal(jax.random.fold_in(key, layer), (BATCH, WIDTH, WIDTH))
            Q, R = jnp.linalg.qr(normal)
            Q = Q * jnp.sign(jnp.diagonal(R, axis1=1, axis2=2))[:, None]
            return jnp.tanh(jnp.einsum("dij,dj->di", Q, sigma)), None

        first = jnp.broadcast_to(jnp.asarray(X), (BATCH, WIDTH))
        sigma, _ = jax.lax.scan(step, first, jnp.arange(DEPTH - 1))
        return jnp.mean(sigma**2, axis=1)

    keys = jax.random.split(jax.random.PRNGKey(1), DRAWS // BATCH)
    return np.concatenate([np.asarray(batch(key)) for key in keys])


PEERS = {"numpy": numpy_ensemble, "torch": torch_ensemble, "jax": jax_ensemble}


@pytest.mark.parametrize("peer", PEERS)
def test_explicit_matrices(benchmark, peer):
    pytest.importorskip(peer)
    benchmark.group, benchmark.extra_info["peer"] = VERTEX, peer
    squares = benchmark.pedantic(PEERS[peer], rounds=2, iterations=1, warmup_rounds=1)
    benchmark.extra_info["time_variance"] = benchmark.stats["mean"] * variance(squares)


@pytest.mark.parametrize("source", ["ours", "numpy"])
def test_normals(benchmark, source):
    """A million normals: Philox4x32-10 with Box and Muller, and NumPy's Philox Generator."""
    benchmark.group, out = "a million normals", np.empty(1_000_000)
    if source == "ours":
        benchmark(fill_normals, out, stream_key(1), 2, 3, 4)
    else:
        benchmark.extra_info["peer"] = "numpy"
        benchmark(np.random.Generator(np.random.Philox(1)).standard_normal, out=out)
    assert abs(out.mean()) < 5e-3


def seconds(work, rounds=20):
    """The least time of one thread."""
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return min(found)


def two_threads(work, rounds=20):
    """By how much two threads are faster than one: least wall times, taken in turn."""
    found = {1: [], 2: []}
    for _ in range(rounds):
        for threads, times in found.items():
            numba.set_num_threads(threads)
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    return min(found[1]) / min(found[2])


def times_the_normals(work, numbers, rounds=10):
    """The time of a simulation over that of drawing so many normals in one go, one thread."""
    out, ratios = np.empty(1_000_000), []

    def drawn():
        fill_normals(out, stream_key(1), 2, 3, 4)

    for _ in range(rounds):  # in turn, for what else the machine does
        normals = numbers * seconds(drawn) / out.size
        ratios.append(seconds(work, 1 + rounds // 5) / normals)
    return float(np.median(ratios))


POSITIONS = np.random.default_rng(0).standard_normal((8, WIDTH))
TOKENS = np.random.default_rng(0).standard_normal((8, 512))
LAYERS = {
    "dense": 1,
    "normalized(rms)": 1,
    "normalized(layer)": 1,
    "residual(skip=1)": 2,
    "residual(skip=1, norm=rms)": 2,
    "gated(norm=rms)": 3,
}
"""Layers, and how many matrices they have."""


def attention():
    return layers.attention(8, 8, scores="1/sqrt(d)", norm="rms")


def ensemble(name):
    """A network, its inputs and options, and how many normals it takes: layers 1 … 9 are drawn,
    of which the first is a matrix on all inputs."""
    options = {"width": WIDTH, "depth": DEPTH, "tensors": ["K", "G1", "V"]}
    if name in LAYERS:
        net = Network(activations.tanh, Orthogonal(1), layer=name)
        return net, X, options, WIDTH * (1 + (DEPTH - 2) * LAYERS[name])
    options["tensors"] = "K"
    if name == "convolution":  # three matrices, on the eight positions that they read
        net = Network(activations.tanh, Gaussian(1), layer=layers.convolution(3, 8))
        return net, POSITIONS, options, 8 * WIDTH * (1 + (DEPTH - 2) * 3)
    # of each head 8 × 8 normals and two Wishart matrices, in the last layer too, whose kernel alone
    # is averaged; of the stream 8 × 8 along what it was, and one of what is new
    net, wishart = Network("linear", Gaussian(), layer=attention()), 8 * 9 // 2
    numbers = wishart + (DEPTH - 2) * (64 + wishart) + (DEPTH - 1) * 8 * (64 + 2 * wishart)
    return net, TOKENS, options | {"width": 512}, numbers


@pytest.mark.parametrize("draws", [1000, 8192])
@pytest.mark.parametrize("name", [*LAYERS, "convolution", "attention"])
def test_layers_against_their_normals(benchmark, name, draws):
    """`times_the_normals`, and `two_threads`: by how much they are faster than one, if two are."""
    net, inputs, options, numbers = ensemble(name)

    def work():
        simulate(net, inputs, draws=draws, **options)

    rounds = 20 if name in LAYERS else 3
    numba.set_num_threads(1)
    benchmark.pedantic(work, rounds=rounds, warmup_rounds=1)
    benchmark.extra_info["times_the_normals"] = times_the_normals(work, draws * numbers, rounds)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    if numba.config.NUMBA_NUM_THREADS > 1:
        benchmark.extra_info["two_threads"] = two_threads(work, rounds)


SHIPPED = ["relu", "hard_tanh", "erf", "sin", "arctan", "gelu", "sigmoid", "silu", "softplus"]


@pytest.mark.parametrize("name", SHIPPED)
def test_activations_against_their_normals(benchmark, name):
    """V of 8192 networks: `times_the_normals` of those activations that are not tanh."""
    net = Network(activations.by_name(name), Orthogonal(1))

    def work():
        simulate(net, X, WIDTH, DEPTH, 8192, tensors="V")

    numba.set_num_threads(1)
    benchmark.pedantic(work, rounds=3, warmup_rounds=1)
    benchmark.extra_info["times_the_normals"] = times_the_normals(
        work, 8192 * (DEPTH - 1) * WIDTH, rounds=3
    )
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


@pytest.mark.parametrize("inputs", [X, np.stack([X, X[::-1]])], ids=["one input", "two inputs"])
@pytest.mark.parametrize("layer", list(LAYERS)[1:])
def test_layers_against_the_dense_one(benchmark, layer, inputs):
    """K, G1 and V: `of_a_matrix` is the time over a dense layer's, for each matrix."""
    net, dense = (Network(activations.tanh, Orthogonal(1), layer=each) for each in (layer, "dense"))

    def work(net=net):
        simulate(net, inputs, WIDTH, DEPTH, 8192, tensors=["K", "G1", "V"])

    numba.set_num_threads(1)
    benchmark.pedantic(work, rounds=5, warmup_rounds=1)
    work(dense)
    ratios = [seconds(work, 1) / seconds(lambda: work(dense), 1) for _ in range(10)]
    benchmark.extra_info["of_a_matrix"] = float(np.median(ratios)) / LAYERS[layer]
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)


TOWER = {
    "ABDF, n=50": (50, 10, "ABDF"),
    "ABDF, n=500": (500, 10, "ABDF"),
    "ten, n=20": (20, 30, "ABDFPQRSTU"),
    "ten, n=50": (50, 10, "ABDFPQRSTU"),
}


@pytest.mark.parametrize("case", TOWER)
def test_tower(benchmark, case):
    """100 orthogonal tanh networks, every layer; `error` is the last layer's."""
    width, depth, tensors = TOWER[case]
    x = np.random.default_rng(0).standard_normal(width)
    net, options = Network(activations.tanh, Orthogonal(1)), {"width": width, "depth": depth}
    options |= {"draws": 100, "tensors": list(tensors)}
    table = benchmark.pedantic(simulate, (net, x), options, rounds=5, warmup_rounds=1)
    benchmark.extra_info["error"] = {name: float(table[f"{name}_se"][-1]) for name in tensors}


@pytest.mark.parametrize("width", [50, 500])
def test_explicit_tangent_kernel(benchmark, width):
    """The peer of ABDF: matrices by batched QR, H by its forward equation in NumPy.

    `error` is that of the same tensors by the pairing estimator on H itself.
    """
    draws = 100 if width < 100 else 4
    x = np.random.default_rng(0).standard_normal(width)

    def ensemble():
        rng, found = np.random.default_rng(1), []
        sigma = np.broadcast_to(x, (draws, width))
        H = np.zeros((draws, width, width))
        slope = np.zeros((draws, width))
        for _ in range(10):
            W, R = np.linalg.qr(rng.standard_normal((draws, width, width)))
            W *= np.sign(np.einsum("dii->di", R))[:, None]
            J = W * slope[:, None]
            H = J @ H @ J.transpose(0, 2, 1)
            H += (1 + np.mean(sigma**2, axis=1))[:, None, None] * np.eye(width)
            z = np.einsum("dij,dj->di", W, sigma)
            found.append(
                (
                    np.einsum("dii->d", H),
                    np.einsum("dij,dij->d", H, H),
                    np.einsum("di,dij,dj->d", z, H, z),
                )
            )
            sigma = np.tanh(z)
            slope = 1 - sigma**2
        return found

    found = benchmark.pedantic(ensemble, rounds=2, warmup_rounds=0)
    trace, square, _ = found[-1]
    B = ((width + 1) * square - trace**2 - square) / ((width - 1) * (width + 2))
    benchmark.extra_info["networks"] = draws
    benchmark.extra_info["error"] = {"B": float(B.std() / np.sqrt(draws))}


def our_attention(networks):
    net = Network("linear", Gaussian(), layer=attention())
    simulate(net, TOKENS, 512, 11, networks, tensors="K")


def torch_attention(networks):
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    for _ in range(networks):
        x = torch.tensor(TOKENS, dtype=torch.float32) @ torch.randn(512, 512) / 512**0.5
        for _ in range(10):
            y = x / x.square().mean(1, keepdim=True).sqrt()
            parts = (y @ torch.randn(512, 512) / 512**0.5 for _ in range(3))
            q, k, v = (each.view(8, 8, 64).transpose(0, 1) for each in parts)
            o = torch.softmax(q @ k.transpose(1, 2) / 8, -1) @ v
            x = x + o.transpose(0, 1).reshape(8, 512) @ torch.randn(512, 512) / 512**0.5


@pytest.mark.parametrize(("source", "networks"), [("ours", 1000), ("torch", 3)])
def test_attention(benchmark, source, networks):
    """K behind ten layers of eight heads, one thread: seconds of a network's layer."""
    if source == "torch":
        pytest.importorskip("torch")
    numba.set_num_threads(1)
    work = our_attention if source == "ours" else torch_attention
    benchmark.pedantic(work, (networks,), rounds=5, warmup_rounds=1)
    benchmark.extra_info["layer"] = benchmark.stats["min"] / (10 * networks)
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
