"""Means of networks at initialization, with what their layers' chance explains taken out."""

import numpy as np
import pytest

from derive import Network, activations
from numeric.samplers.ensemble import checked_ensemble
from numeric.training import means

RNG = np.random.default_rng(31)
INPUTS = RNG.standard_normal((6, 5))


def ensemble_of(net, inputs, width=7, depth=3):
    return checked_ensemble(net, inputs, width, depth, 11)


def scores(one, other):
    """How far these estimates' means are apart, in units of their errors."""
    errors = [each.std(axis=0, ddof=1) / np.sqrt(len(each)) for each in (one, other)]
    return (one.mean(axis=0) - other.mean(axis=0)) / np.hypot(*errors)


@pytest.mark.parametrize("activation", ["tanh", "own", "relu"])
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_innovations_have_mean_zero(activation, weights):
    """Within 5 of their errors, some 30 numbers; σ' of ReLU jumps, and widths 5 and 7 differ."""
    sigma = activations.from_expr("z/sqrt(1 + z**2)") if activation == "own" else activation
    ensemble = ensemble_of(Network(sigma, weights, C_b=0.3), INPUTS[:2])
    sampler, references = means._sampler(ensemble), means._references(ensemble)
    controls = means.innovations(sampler, np.arange(8000), references)
    errors = controls.std(axis=0) / np.sqrt(len(controls))
    assert controls.shape[1] == (18 if weights == "orthogonal" else 12)
    assert np.abs(controls.mean(axis=0) / errors).max() < 5


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_means_are_those_of_simulate(weights):
    """Six inputs go down the layers in three groups; 72 numbers with 15 degrees of freedom each."""
    ensemble = ensemble_of(Network("tanh", weights, C_b=0.1), INPUTS)
    found, plain = means.known(ensemble, 4000), means._sampled(ensemble, 20000)
    for one, other in zip(found, plain, strict=True):
        assert np.abs(scores(one, other)).max() < 6
    assert np.array_equal(found.kernel, found.kernel.swapaxes(1, 2))


def test_two_layers_leave_no_noise():
    """Behind Gaussian weights H(0) and K are averages over the neurons themselves."""
    ensemble = ensemble_of(Network("gelu", C_b=0.1), INPUTS[:3], depth=2)
    for one, other in zip(means.known(ensemble, 2), means._sampled(ensemble, 9000), strict=True):
        assert one == pytest.approx(np.broadcast_to(one[0], one.shape), rel=1e-8)
        error = other.std(axis=0, ddof=1) / 4
        assert np.abs((one[0] - other.mean(axis=0)) / error).max() < 6


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_what_is_left_is_of_order_one_over_n(weights):
    """Without controls n times the deviation grows by 2 from 16 neurons to 64, and is larger."""
    left = []
    for width in (16, 64):
        ensemble = ensemble_of(Network("tanh", weights, C_b=0.1), INPUTS[:2], width)
        left.append(width * means.known(ensemble, 4000).tangent.std(axis=0).mean())
    assert left[1] < 1.4 * left[0]
    plain = width * means._sampled(ensemble, 4000).tangent.std(axis=0).mean()
    assert left[1] < plain / 2


def test_weights_without_paths_are_sampled_as_they_are():
    net = Network("tanh", "uniform", C_b=0.1)
    ensemble = ensemble_of(net, INPUTS[:2], depth=2)
    assert means._sampler(ensemble) is None
    assert means.known(ensemble, 40).tangent.shape == (means.BATCHES, 2, 2)


def test_inputs_that_are_alike_have_means_too():
    alike = INPUTS[[0, 0]]
    tangent = means.known(ensemble_of(Network("tanh", C_b=0.1), alike), 200).tangent
    assert tangent[:, 0, 1] == pytest.approx(tangent[:, 0, 0], rel=1e-8)
