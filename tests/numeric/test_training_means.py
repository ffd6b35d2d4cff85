"""Means of networks at initialization, with what their layers' chance explains taken out."""

import numpy as np
import pytest

from derive import LowRankOrthogonal, Network, activations, layers
from numeric import simulate
from numeric.samplers import PathSampler, checked_ensemble
from numeric.training import means

RNG = np.random.default_rng(31)
INPUTS = RNG.standard_normal((6, 5))


def ensemble_of(net, inputs, width=7, depth=3):
    return checked_ensemble(net, inputs, width, depth, 11)


def plain(ensemble, draws):
    """Means and their errors by `simulate`, of other networks."""
    given = ensemble.net, ensemble.inputs, ensemble.width, ensemble.depth, draws
    table = simulate(*given, tensors=means._NAMES, seed=5)
    return [[table[name + end].to_numpy()[-1] for end in ("", "_se")] for name in means._NAMES]


def scores(one, other):
    """How far these estimates' mean is from another one, in units of their errors."""
    error = one.std(axis=0, ddof=1) / np.sqrt(len(one))
    return (one.mean(axis=0) - other[0]) / np.hypot(error, other[1])


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
@pytest.mark.parametrize(("inputs", "draws"), [(3, 300), (3, 4000), (6, 300), (6, 4000)])
def test_means_are_those_of_simulate(weights, inputs, draws):
    """Six inputs, 72 numbers, of 255 degrees of freedom or more; and three, whose paths are known:
    of 300 networks the last layer's controls alone are borne."""
    ensemble = ensemble_of(Network("tanh", weights, C_b=0.1), INPUTS[:inputs])
    found = means.known(ensemble, draws)
    assert len(found.kernel) == 256
    for one, other in zip(found, plain(ensemble, 20000), strict=True):
        assert np.abs(scores(one, other)).max() < 5
    assert np.array_equal(found.kernel, found.kernel.swapaxes(1, 2))


def test_two_layers_leave_no_noise():
    """Behind Gaussian weights H(0) and K are averages over the neurons themselves."""
    ensemble = ensemble_of(Network("gelu", C_b=0.1), INPUTS[:3], depth=2)
    pairs = zip(means.known(ensemble, 60), plain(ensemble, 9000), strict=True)
    for one, (other, error) in pairs:
        assert one == pytest.approx(np.broadcast_to(one[0], one.shape), rel=1e-8)
        assert np.abs((one[0] - other) / error).max() < 5
    assert means.known(ensemble, 59).kernel.std(axis=0).min() > 1e-3  # do not bear 12 controls


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_what_is_left_is_of_order_one_over_n(weights):
    """Without controls n times the deviation grows by 2 from 16 neurons to 64, and is larger."""
    left = []
    for width in (16, 64):
        ensemble = ensemble_of(Network("tanh", weights, C_b=0.1), INPUTS[:2], width)
        tangent = means.known(ensemble, 4000).tangent
        left.append(width * tangent.std(axis=0).mean() / np.sqrt(len(tangent)))
    assert left[1] < 1.4 * left[0]
    assert left[1] < width * plain(ensemble, 4000)[0][1].mean() / 2


def test_errors_are_what_replicas_differ_by():
    """Controls are fitted to all networks together, not by parts: the variance of 60 replicas over
    the mean of the squared errors is 1 but for 0.18 of its own, 20 numbers that are correlated."""
    found = []
    for seed in range(60):
        net = Network("tanh", "orthogonal", C_b=0.1)
        ensemble = checked_ensemble(net, INPUTS[:2], 7, 3, seed)
        found.append(means.known(ensemble, 120).tangent)
    values = np.array(found)
    errors = values.var(axis=1, ddof=1) / values.shape[1]
    ratio = values.mean(axis=1).var(axis=0, ddof=1) / errors.mean(axis=0)
    assert 0.5 < ratio.mean() < 1.7


@pytest.mark.parametrize(
    "net",
    [
        Network("tanh", "uniform", C_b=0.1),
        Network("gelu", C_b=0.1, layer=layers.skip("1/2")),
        Network("tanh", LowRankOrthogonal(gamma="1/2"), first_weights="gaussian"),
    ],
)
def test_networks_without_controls_are_measured_as_they_are(net):
    ensemble = ensemble_of(net, INPUTS[:2], width=8)
    assert not means._bears(means._sampler(ensemble))
    for one, other in zip(means.known(ensemble, 2000), plain(ensemble, 2000), strict=True):
        assert np.abs(scores(one, other)).max() < 5


def test_few_networks_are_few(monkeypatch):
    """What is drawn is what was asked for, or a part of `BATCHES` more."""
    drawn, statistics = [], PathSampler.statistics

    def counted(sampler, draws):
        drawn.append(draws.size)
        return statistics(sampler, draws)

    monkeypatch.setattr(PathSampler, "statistics", counted)
    ensemble = ensemble_of(Network("tanh", C_b=0.1), INPUTS[:3])
    for draws, parts, wanted in ((1, 2, 2), (40, 40, 40), (300, 256, 512)):
        drawn.clear()
        assert len(means.known(ensemble, draws).tangent) == parts
        assert sum(drawn) == wanted


def test_signals_whose_positions_do_not_meet_are_known_as_inputs_are():
    """Three inputs of two positions are the six samples of the dense network: within 5 errors."""
    signals = Network("tanh", C_b=0.3, layer=layers.convolution(1, 2))
    by_signal = ensemble_of(signals, INPUTS.reshape(3, 2, 5))
    dense = ensemble_of(Network("tanh", C_b=0.3), INPUTS)
    for one, other in zip(means.known(by_signal, 2000), plain(dense, 2000), strict=True):
        assert np.abs(scores(one, other)).max() < 5


def test_seconds_grow_with_the_pairs_of_samples():
    """Matrices that are built take n² instead of n."""
    net, own = Network("tanh", C_b=0.1), Network("tanh", "uniform", C_b=0.1)
    three, six = (means.seconds(ensemble_of(net, INPUTS[:k], 400)) for k in (3, 6))
    assert six == pytest.approx(4 * three, rel=0.3)
    built = [means.seconds(ensemble_of(own, INPUTS, width)) for width in (200, 400)]
    assert built[1] == pytest.approx(4 * built[0], rel=0.01)


def test_inputs_that_are_alike_have_means_too():
    alike = INPUTS[[0, 0]]
    tangent = means.known(ensemble_of(Network("tanh", C_b=0.1), alike), 200).tangent
    assert tangent[:, 0, 1] == pytest.approx(tangent[:, 0, 0], rel=1e-8)
