"""Convolutions of flax, equinox and Keras: K and Θ by theory, beside draws of the models.

Filters are Gaussian with one layer of functions, so that theory is exact at any width, or the
correction of order 1/n is below the standard error. A comparison has at most 6 numbers, at 5
standard errors.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

from derive import InputError
from numeric import flow, models

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.slow,
]

DRAWS, BOUND = 120, 5.0
SIGNALS = np.random.default_rng(0).standard_normal((2, 6, 2))
IMAGES = np.random.default_rng(1).standard_normal((2, 4, 4, 2))


def of_linen(padding):
    linen = pytest.importorskip("flax.linen", reason="needs flax: wickgarten[jax]")
    normal = linen.initializers.variance_scaling(2.0, "fan_in", "normal")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.Conv(24, (3,), strides=2, padding=padding, kernel_init=normal)(x)
            x = linen.relu(x).reshape((len(x), -1))
            return linen.Dense(4, kernel_init=normal)(x)

    return Net()


def of_nnx(padding):
    nnx = pytest.importorskip("flax.nnx", reason="needs flax: wickgarten[jax]")
    normal = nnx.initializers.variance_scaling(2.0, "fan_in", "normal")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(2, 24, (3, 3), padding=padding, kernel_init=normal, rngs=rngs)
            self.head = nnx.Linear(24, 4, kernel_init=normal, rngs=rngs)

        def __call__(self, x):
            x = nnx.avg_pool(nnx.relu(self.conv(x)), (2, 2), (2, 2))
            return self.head(x.mean((1, 2)))

    return Net


def of_equinox(padding):
    eqx = pytest.importorskip("equinox", reason="needs equinox: wickgarten[jax]")
    jax = pytest.importorskip("jax")

    class Net(eqx.Module):
        conv: eqx.nn.Conv1d
        pool: eqx.nn.AvgPool1d
        head: eqx.nn.Linear

        def __init__(self, key):
            one, two = jax.random.split(key)
            self.conv = eqx.nn.Conv1d(2, 24, 3, padding=1, padding_mode=padding, key=one)
            self.pool, self.head = eqx.nn.AvgPool1d(2, 2), eqx.nn.Linear(72, 4, key=two)

        def __call__(self, x):
            return self.head(self.pool(jax.nn.relu(self.conv(x))).ravel())

    return Net


def of_keras(padding):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    pytest.importorskip("tensorflow", reason="needs keras: wickgarten[keras]")
    keras = pytest.importorskip("keras")
    layers = keras.layers

    def make():
        kind = {"scale": 2.0, "distribution": "untruncated_normal"}
        one, two = (
            {"kernel_initializer": keras.initializers.VarianceScaling(**kind)} for _ in range(2)
        )
        return keras.Sequential([
            keras.Input((4, 4, 2)),
            layers.Conv2D(24, 3, padding=padding, activation="relu", **one),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4, **two),
        ])  # fmt: skip

    return make


MODELS = {
    "linen": (of_linen, SIGNALS, "CIRCULAR", "SAME"),
    "nnx": (of_nnx, IMAGES, "CIRCULAR", "SAME"),
    "equinox": (of_equinox, SIGNALS.swapaxes(1, 2), "CIRCULAR", "ZEROS"),
    "keras": (of_keras, IMAGES, "same", "valid"),
}


def theory(found, X):
    table = flow(found.network, found.samples(X), found.depth, ["K", "Theta"])
    return np.stack([table[name].to_numpy()[-1] for name in ("K", "Theta")])


@pytest.mark.parametrize("framework", MODELS)
def test_k_and_theta_are_those_of_draws_of_the_model(framework):
    """Of another padding they are others, which is seen."""
    make, X, padding, other = MODELS[framework]
    found = models.read(make(padding), X, draws=20)
    made, node = found.reading.initialize(range(DRAWS)), found.structure.blocks[-1].node
    z = found.reading.propagate(made, 0, X[None], node)
    K = np.einsum("dai,dbi->dab", z, z) / z.shape[-1]
    draws = np.stack([K, found.reading.tangents(made, X, [node])[:, 0]], axis=1)
    mean, se = draws.mean(axis=0), draws.std(axis=0) / DRAWS**0.5
    own, wrong = (
        (abs(mean - theory(each, X)) / se).max(axis=(1, 2))
        for each in (found, models.read(make(other), X, draws=20))
    )
    assert (own < BOUND).all(), own
    assert (wrong > BOUND).any(), wrong


@pytest.mark.parametrize("framework", ["linen", "keras"])
def test_max_pooling_is_refused_with_its_reason(framework):
    if framework == "linen":
        linen = pytest.importorskip("flax.linen", reason="needs flax: wickgarten[jax]")

        class Net(linen.Module):
            @linen.compact
            def __call__(self, x):
                x = linen.max_pool(linen.Conv(4, (3,))(x), (2,))
                return linen.Dense(2)(x.reshape((len(x), -1)))

        model, X = Net(), SIGNALS
    else:
        pytest.importorskip("tensorflow", reason="needs keras: wickgarten[keras]")
        layers = pytest.importorskip("keras").layers
        parts = [layers.Conv2D(4, 3), layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(2)]
        model, X = (
            pytest.importorskip("keras").Sequential([layers.Input((4, 4, 2)), *parts]),
            IMAGES,
        )
    with pytest.raises(InputError, match="largest of several positions"):
        models.read(model, X)
