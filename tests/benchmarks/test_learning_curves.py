"""Ten tanh networks of 30 hidden layers, n = 30, trained on 1200 digits by full-batch descent.

The experiment is 3000 epochs long; every epoch costs the same, and 10 are timed, 3000 with
TRAINING_EPOCHS=3000. Compare seconds for the same networks and epochs, of one processor. Every peer
starts from the same weights and must end with the same loss.
"""

from __future__ import annotations

import os
from functools import cache, cached_property

import numpy as np
import pytest

from derivations.training.data import digits
from derive import Network, Orthogonal
from numeric.samplers import checked_ensemble
from numeric.training.networks import CompiledNetworks
from numeric.training.optimizers import Optimizer
from numeric.training.parts import Trained

pytestmark = pytest.mark.usefixtures("one_processor")

NETWORKS, HIDDEN, WIDTH, COUNT = 10, 30, 30, 1200
EPOCHS = int(os.environ.get("TRAINING_EPOCHS", "10"))
RATE = 0.5 / COUNT
GROUP = f"training {NETWORKS} networks, {HIDDEN} hidden layers, {EPOCHS} epochs"


@cache
def data():
    images = digits().standardised().taken(slice(COUNT))
    return images.pixels, images.targets


class Task(Trained):
    rule, loss, batch, ntk = Optimizer("ordinary", RATE), "squared", COUNT, False
    widths = (64, *[WIDTH] * HIDDEN, 10)

    @cached_property
    def ensemble(self):
        net = Network("tanh", Orthogonal())
        return checked_ensemble(net, data()[0], WIDTH, HIDDEN + 1, 0)

    @property
    def targets(self):
        return data()[1]


def start():
    """Networks at initialization: the compiled ones, and their (networks, n_in, n_out) matrices."""
    networks = CompiledNetworks(Task(), np.arange(NETWORKS))
    matrices = [each.key for each in networks.parts if each.law is not None]
    return networks, [networks.of[key].copy() for key in matrices]


def lost(z):
    return float(((z - data()[1]) ** 2).sum(axis=(1, 2)).mean() / 2)


@cache
def reference():
    return lost(with_numpy(*start())) if EPOCHS <= 10 else lost(compiled(*start()))


def compiled(networks, weights):
    networks.descend(EPOCHS)
    return networks.outputs(data()[0])


def with_numpy(networks, weights):
    """One network after another, in place: the matrices of one stay in the cache."""
    x, y = data()
    found = []
    for k in range(NETWORKS):
        own = [W[k].copy() for W in weights]
        biases = [np.zeros(W.shape[1]) for W in own]
        for epoch in range(EPOCHS + 1):
            entering = [x]
            for W, b in zip(own[:-1], biases, strict=False):
                entering.append(np.tanh(entering[-1] @ W + b))
            z = entering[-1] @ own[-1] + biases[-1]
            if epoch == EPOCHS:
                found.append(z)
                break
            back = z - y
            for layer in reversed(range(len(own))):
                slope, below = own[layer].T, entering[layer]
                down = (back @ slope) * (1 - below**2) if layer else None
                own[layer] -= RATE * (below.T @ back)
                biases[layer] -= RATE * back.sum(axis=0)
                back = down
    return np.array(found)


def with_torch(networks, weights):
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)
    x, y = map(torch.tensor, data())
    own = [torch.tensor(W, requires_grad=True) for W in weights]
    biases = [torch.zeros(NETWORKS, 1, W.shape[2], dtype=x.dtype, requires_grad=True) for W in own]

    def outputs():
        h = x.expand(NETWORKS, *x.shape)
        for W, b in zip(own[:-1], biases, strict=False):
            h = torch.tanh(torch.baddbmm(b, h, W))
        return torch.baddbmm(biases[-1], h, own[-1])

    for _ in range(EPOCHS):
        loss = ((outputs() - y) ** 2).sum() / 2
        for parameter, gradient in zip(
            [*own, *biases], torch.autograd.grad(loss, [*own, *biases]), strict=True
        ):
            parameter.data -= RATE * gradient
    return outputs().detach().numpy()


def with_jax(networks, weights):
    import jax  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy
    x, y = data()

    def outputs(parameters):
        h = x
        for W, b in parameters[:-1]:
            h = jnp.tanh(h @ W + b)
        return h @ parameters[-1][0] + parameters[-1][1]

    def step(_, parameters):
        slopes = jax.grad(lambda p: ((outputs(p) - y) ** 2).sum() / 2)(parameters)
        return jax.tree.map(lambda p, g: p - RATE * g, parameters, slopes)

    def run(parameters):
        return outputs(jax.lax.fori_loop(0, EPOCHS, step, parameters))

    parameters = [(jnp.array(W), jnp.zeros((NETWORKS, W.shape[2]))) for W in weights]
    return np.asarray(jax.jit(jax.vmap(run))(parameters))


PEERS = {compiled: None, with_numpy: "NumPy", with_torch: "PyTorch", with_jax: "JAX"}


@pytest.mark.parametrize("descend", PEERS, ids=["wickgarten", "numpy", "torch", "jax"])
def test_training(benchmark, descend):
    benchmark.group = GROUP
    if PEERS[descend] is not None:
        benchmark.extra_info["peer"] = PEERS[descend]
    found = benchmark.pedantic(
        descend, setup=lambda: (start(), {}), rounds=2 if EPOCHS < 100 else 1, warmup_rounds=1
    )
    assert lost(found) == pytest.approx(reference(), rel=1e-6)
