"""Trained networks of convolutions: gradients, tangent kernels, what they are by hand, theory."""

import numpy as np
import pytest

from derive import Network, layers
from derive.errors import InputError
from numeric import compare
from numeric import flow as tensors_of
from numeric import simulate as simulate_start
from numeric.samplers.ensemble import checked_ensemble
from numeric.training import flow, learning_rate, posterior, simulate
from numeric.training.ensembles import Training
from numeric.training.losses import LOSSES, per_input, slope
from numeric.training.optimizers import Optimizer
from numeric.training.staged import StagedNetworks

RNG = np.random.default_rng(11)
SIGNALS, TESTS = RNG.standard_normal((3, 4, 5)), RNG.standard_normal((1, 4, 5))
LAYERS = {
    "circular": layers.convolution(3, 4),
    "zero": layers.convolution(2, 4, boundary="zero"),
    "delta": layers.convolution(3, 4, weights="delta"),
    "normed": layers.convolution(3, 4, norm="rms"),
    "mean": layers.convolution(2, 4, readout="mean"),
    "flatten": layers.convolution(3, 4, boundary="zero", readout="flatten"),
    "mixed": layers.by_depth(layers.convolution(3, 4), "gated"),
}


def network(layer, weights="orthogonal"):
    return Network("tanh", weights, C_b=0.1, lambda_b=0.3, lambda_W=1.3, layer=layer)


def targets_of(layer, outputs=2):
    """For three signals, of two outputs probabilities."""
    places = () if LAYERS[layer].readout is not None else (4,)
    found = np.random.default_rng(3).random((3, *places, outputs))
    return found / found.sum(axis=-1, keepdims=True)


def training(layer, rule="tensorial", loss="squared", width=5, depth=3, batch=3):
    """Work of two networks."""
    X = np.concatenate([SIGNALS, TESTS])
    ensemble = checked_ensemble(network(LAYERS[layer]), X, width, depth, 1)
    y = targets_of(layer).reshape(-1, 2)
    return Training(ensemble, y, Optimizer(rule, 0.05), loss, batch, (), True, 2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_step_is_down_the_gradient(layer, loss):
    """A step of descent over its rate, along a direction, is what the loss changes by."""
    work = training(layer, "ordinary", loss)
    networks = StagedNetworks(work, np.arange(2))
    start = networks.parameters.copy()
    along, small = RNG.standard_normal(start.shape), 1e-6

    def losses(parameters):
        networks.parameters[:] = parameters
        z = networks.outputs(SIGNALS.reshape(12, 5))
        return per_input(z, work.targets, loss).sum(axis=1)

    slopes = (losses(start + small * along) - losses(start - small * along)) / (2 * small)
    networks.begin(start)
    networks.descend(1)
    step = (start - networks.parameters) / 0.05
    assert (step * along).sum(axis=1) == pytest.approx(slopes, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_tangent_kernel_is_that_of_all_parameters(layer):
    """H = Σ_μ λ_μ ∂z ∂z, by differences of every parameter, a network for each."""
    work = training(layer, width=3, depth=3)
    one = StagedNetworks(work, np.arange(1))
    start, size, small = one.parameters[0].copy(), one.parameters.shape[1], 2e-6
    many = StagedNetworks(work, np.arange(size))
    X, moved = work.ensemble.inputs, []
    for sign in (1, -1):
        many.parameters[:] = start + sign * small * np.eye(size)
        moved.append(many.outputs(X))
    jacobian = (moved[0] - moved[1]) / (2 * small)
    layer_taps = {1: 1, 2: _taps(LAYERS[layer], 2), 3: _taps(LAYERS[layer], 3)}
    rates = np.empty(size)
    for part in one.parts:
        fan_in = part.shape[0] * layer_taps[part.key[0]]
        rates[one.slices[part.key]] = 0.3 if part.law is None else 1.3 / fan_in
    H = np.einsum("p,pai,pbj->abij", rates, jacobian, jacobian)
    found = one.observed()[0, work.samples * 2 : -1].reshape(H.shape)
    assert found == pytest.approx(H, rel=1e-6, abs=1e-8)


def _taps(layer, at):
    """Matrices of a filter."""
    own = layer.at(at, 3)
    if at == 3 and own.readout is not None:
        return {"pooling(4)": 1, "flattening(4)": 4}[str(own.readout)]
    return int(str(own)[12]) if own.positions and "delta" not in str(own) else 1
