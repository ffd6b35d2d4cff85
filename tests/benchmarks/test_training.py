"""Networks trained side by side, beside NumPy, PyTorch and JAX in the same run, one thread each.

Each network of four layers is taken down ½ Σ (z − y)² by full-batch descent from a start of its
own: in NumPy by batched products, in PyTorch by `torch.func.vmap` over `grad` and by the same
products written by hand, in JAX by `vmap` of `grad` in a jitted loop over the steps. All in double
precision, as here; the outputs must agree to ten digits. Drawing the networks and compiling are not
timed.
"""

from importlib import import_module

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from derive.activations import as_activation
from numeric.training import optimizers

NETWORKS, WIDTH, DEPTH, POINTS, STEPS, ETA = 1000, 64, 4, 8, 200, 0.01
GROUP = f"training {NETWORKS} networks, n = {WIDTH}, {DEPTH} layers, {POINTS} points, {STEPS} steps"
pytestmark = [pytest.mark.usefixtures("one_processor"), pytest.mark.benchmark(group=GROUP)]

SHAPES = [(WIDTH if layer else POINTS, WIDTH if layer < DEPTH - 1 else 1) for layer in range(DEPTH)]
RATES = [1 / n_in for n_in, _ in SHAPES]
RNG = np.random.default_rng(0)
INPUTS, TARGETS = RNG.standard_normal((POINTS, POINTS)), RNG.standard_normal((POINTS, 1))


def drawn() -> list[tuple[np.ndarray, np.ndarray]]:
    """Matrices (networks, n_in, n_out) and biases (networks, n_out), the same for all."""
    rng = np.random.default_rng(1)
    return [
        (
            rng.standard_normal((NETWORKS, n_in, n_out)) / np.sqrt(n_in),
            0.1 * rng.standard_normal((NETWORKS, n_out)),
        )
        for n_in, n_out in SHAPES
    ]


def here(layers):
    flat = [part.reshape(NETWORKS, -1) for layer in layers for part in layer]
    parameters = np.concatenate(flat, axis=1)
    rates = np.array([RATES, [1.0] * DEPTH])
    widths = [SHAPES[0][0], *(n_out for _, n_out in SHAPES)]
    order = np.tile(np.arange(POINTS), (NETWORKS, STEPS, 1))
    rule, moments = optimizers.Optimizer("tensorial", ETA), np.empty((0, *parameters.shape))
    data = widths, INPUTS, TARGETS, order, "squared", as_activation("tanh")
    optimizers.take_steps(rule, parameters, moments, rates, 0, *data)
    found, start = [], 0
    for n_in, n_out in SHAPES:
        end = start + n_in * n_out
        W, b = parameters[:, start:end], parameters[:, end : end + n_out]
        found.append((W.reshape(-1, n_in, n_out), b))
        start = end + n_out
    return found


def by_products(layers, tanh, transposed):
    """Batched products, by hand, in place: of NumPy's or of PyTorch's arrays."""
    x0, y, layers = layers[0], layers[1], layers[2:]
    for _ in range(STEPS):
        entering = [x0]
        for W, b in layers:
            z = entering[-1] @ W + b[:, None]
            entering.append(tanh(z) if len(entering) < DEPTH else z)
        back = entering[-1] - y
        for layer in reversed(range(DEPTH)):
            (W, b), x = layers[layer], entering[layer]
            below = (back @ transposed(W)) * (1 - x * x) if layer else None
            W -= ETA * RATES[layer] * (transposed(x) @ back)
            b -= ETA * back.sum(1)
            back = below
    return layers


def outputs(layers) -> np.ndarray:
    """Of all inputs, (networks, points, 1)."""
    x = np.broadcast_to(INPUTS, (NETWORKS, *INPUTS.shape))
    for k, (W, b) in enumerate(layers):
        z = x @ np.asarray(W) + np.asarray(b)[:, None]
        x = np.tanh(z) if k < DEPTH - 1 else z
    return x


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return outputs(here(drawn()))


@pytest.fixture(scope="module")
def torch():
    found = import_module("torch")
    threads = found.get_num_threads()
    found.set_num_threads(1)
    yield found
    found.set_num_threads(threads)


@pytest.fixture(scope="module")
def jax():
    found = import_module("jax")
    found.config.update("jax_enable_x64", True)
    return found


def timed(benchmark, descend, start, expected):
    with threadpool_limits(1):
        rounds = 1 if "peer" in benchmark.extra_info else 2
        found = benchmark.pedantic(descend, setup=lambda: ((start(),), {}), rounds=rounds)
    assert outputs(found) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_here(benchmark, expected):
    timed(benchmark, here, drawn, expected)


@pytest.mark.peer("NumPy")
def test_numpy(benchmark, expected):
    timed(
        benchmark,
        lambda given: by_products(given, np.tanh, lambda x: np.swapaxes(x, 1, 2)),
        lambda: [np.broadcast_to(INPUTS, (NETWORKS, *INPUTS.shape)), TARGETS, *drawn()],
        expected,
    )


@pytest.mark.peer("PyTorch, products by hand", "torch")
def test_torch_by_products(benchmark, torch, expected):
    def start():
        layers = [tuple(map(torch.from_numpy, layer)) for layer in drawn()]
        x = torch.from_numpy(INPUTS).expand(NETWORKS, POINTS, POINTS)
        return [x, torch.from_numpy(TARGETS), *layers]

    def descend(given):
        with torch.no_grad():
            return by_products(given, torch.tanh, lambda x: x.transpose(1, 2))

    timed(benchmark, descend, start, expected)


@pytest.mark.peer("PyTorch, vmap of grad", "torch")
def test_torch_vmap(benchmark, torch, expected):
    x, y = torch.from_numpy(INPUTS), torch.from_numpy(TARGETS)

    def loss(layers):
        z = x
        for k, (W, b) in enumerate(layers):
            z = z @ W + b
            z = torch.tanh(z) if k < DEPTH - 1 else z
        return ((z - y) ** 2).sum() / 2

    gradient = torch.func.vmap(torch.func.grad(loss))

    def descend(layers):
        for _ in range(STEPS):
            down = gradient(layers)
            for (W, b), (to_W, to_b), rate in zip(layers, down, RATES, strict=True):
                W.sub_(to_W, alpha=ETA * rate)
                b.sub_(to_b, alpha=ETA)
        return layers

    def start():
        return [tuple(map(torch.from_numpy, layer)) for layer in drawn()]

    timed(benchmark, descend, start, expected)


@pytest.mark.peer("JAX, vmap, jitted", "jax")
def test_jax_vmap(benchmark, jax, expected):
    jnp = jax.numpy
    x, y = jnp.asarray(INPUTS), jnp.asarray(TARGETS)

    def loss(layers):
        z = x
        for k, (W, b) in enumerate(layers):
            z = z @ W + b
            z = jnp.tanh(z) if k < DEPTH - 1 else z
        return ((z - y) ** 2).sum() / 2

    def step(_, layers):
        down = jax.grad(loss)(layers)
        return [
            (W - ETA * rate * to_W, b - ETA * to_b)
            for (W, b), (to_W, to_b), rate in zip(layers, down, RATES, strict=True)
        ]

    run = jax.jit(jax.vmap(lambda layers: jax.lax.fori_loop(0, STEPS, step, layers)))

    def start():
        return [tuple(map(jnp.asarray, layer)) for layer in drawn()]

    jax.block_until_ready(run(start()))  # compiles
    timed(
        benchmark,
        lambda given: jax.block_until_ready(run(given)),
        start,
        expected,
    )
