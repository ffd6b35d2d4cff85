"""Networks of a layer that are trained here and by JAX."""

import numpy as np
import pytest

from derive import Network, layers
from numeric.samplers import checked_ensemble
from numeric.training import ensembles, optimizers
from numeric.training import networks as descending

jax = pytest.importorskip("jax", reason="needs jax: wickgarten[jax], make test-models")

from jax import numpy as jnp  # noqa: E402

RNG = np.random.default_rng(7)
INPUTS, TARGETS = RNG.standard_normal((3, 5)), RNG.standard_normal((3, 2))


@pytest.fixture
def doubles():
    """JAX in double precision, for one test."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.usefixtures("doubles")
def test_a_residual_network_descends_as_in_jax():
    """Ten steps by JAX's gradients, of the same network written with its operations."""
    net = Network("tanh", C_b=0.1, lambda_b=0.3, lambda_W=1.3, layer=layers.residual(0.5, "rms"))
    rule = optimizers.Optimizer("tensorial", 0.05)
    ensemble = checked_ensemble(net, INPUTS, 6, 3, 1)
    work = ensembles.Training(ensemble, TARGETS, rule, "squared", 3, (), True, 1)
    networks = descending.Networks(work, np.arange(1))
    keys = [part.key for part in networks.parts]
    rates = {part.key: part.rate for part in networks.parts}
    values = {key: jnp.array(networks.of[key][0]) for key in keys}

    def loss(values):
        stem, stem_b, *rest = (values[key] for key in keys)
        z = INPUTS @ stem + stem_b
        for k in range(0, len(rest), 3):
            first, second, b = rest[k : k + 3]
            y = z / jnp.sqrt((z**2).mean(axis=1, keepdims=True))
            z = 0.5 * z[:, : b.shape[1]] + b + jnp.tanh(y @ first) @ second
        return ((z - TARGETS) ** 2).sum() / 2

    for _ in range(10):
        slopes = jax.grad(lambda each: loss(dict(zip(keys, each, strict=True))))(
            [values[key] for key in keys]
        )
        values = {
            key: values[key] - 0.05 * rates[key] * slope
            for key, slope in zip(keys, slopes, strict=True)
        }
    networks.descend(10)
    for key in keys:
        assert networks.of[key][0] == pytest.approx(np.array(values[key]), rel=1e-9, abs=1e-12)
