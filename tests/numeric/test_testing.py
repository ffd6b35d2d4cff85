"""The strategies for users' own tests, used as users would."""

import subprocess
import sys

import hypothesis
import numpy as np
import pytest
import sympy
from hypothesis import HealthCheck, find, given
from hypothesis import strategies as st

from derivations.verify import verify
from derive import (
    Activation,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    activations,
    layers,
)
from derive.errors import InputError
from numeric import flow, simulate, testing
from numeric.examples import Example

HALF = sympy.Rational(1, 2)


def settings_of(examples):
    return testing.settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])


FEW = settings_of(8)


def test_hypothesis_is_imported_only_when_used():
    code = "import sys, numeric.testing, derivations.verify; print('hypothesis' in sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert made.stdout.split() == [b"False"]


@settings_of(4)
@given(net=testing.networks(), width=st.sampled_from((7, 10, 13)))
def test_networks_can_be_sampled(net, width):
    table = simulate(net, [0.3, -0.2], width, 2, 64, tensors="K")
    assert np.isfinite(table["K"]).all()
    assert (table["K"] >= 0).all()


def test_ranks_are_whole_at_the_widths_that_are_given():
    half, thirds = LowRankGaussian, LowRankOrthogonal  # of rank n/2 and 2n/3
    cases = ((None, set()), ((10, 14), {half}), ((9,), {thirds}), ((6,), {half, thirds}))
    for widths, kinds in cases:
        drawn = testing.sample(testing.ensembles(widths), 80, 0)
        low = {type(each) for each in drawn if hasattr(each, "gamma")}
        assert low == kinds
        nets = testing.sample(testing.networks(widths=widths), 30, 0)
        assert {type(net.weights) for net in nets} & {LowRankGaussian, LowRankOrthogonal} <= low


@pytest.fixture
def impatient():
    """A deadline that no test meets, unless it has none."""
    hypothesis.settings.register_profile("impatient", deadline=1e-3)
    before = hypothesis.settings.get_current_profile_name()
    hypothesis.settings.load_profile("impatient")
    yield
    hypothesis.settings.load_profile(before)


def test_networks_are_tested_without_a_deadline(impatient):
    @testing.given(x=testing.inputs())
    def test(x):
        assert x.ndim == 1

    @testing.settings(max_examples=3)
    @given(x=testing.inputs())
    def another(x):
        assert x.ndim == 1

    @given(x=testing.inputs())
    def late(x):
        assert x.ndim == 1

    test()
    another()
    with pytest.raises((hypothesis.errors.DeadlineExceeded, hypothesis.errors.FlakyFailure)):
        late()


@FEW
@given(
    net=testing.networks(st.just(activations.tanh), st.just(Orthogonal(1))),
    x=testing.inputs(size=3),
)
def test_networks_of_ones_own_choice_can_be_flowed(net, x):
    assert (net.activation, net.weights) == (activations.tanh, Orthogonal(1))
    assert x.shape == (3,)
    assert (flow(net, x, 2, "K")["K"] > 0).all()


@given(x=testing.inputs(samples=None))
def test_inputs_are_one_or_two_and_not_zero(x):
    assert x.ndim == 1 or x.shape[0] == 2
    assert (np.linalg.norm(x, axis=-1) > 0).all()


@given(sigma=testing.activations(smooth=True))
def test_smooth_activations_have_no_kinks(sigma):
    assert isinstance(sigma, Activation)
    assert sigma.is_smooth


def test_strategies_shrink_to_the_plainest_network():
    assert find(testing.networks(), lambda _: True) == Network(activations.linear, Gaussian(1))
    kinked = find(testing.activations(), lambda sigma: not sigma.is_smooth)
    assert kinked == activations.relu
    assert find(testing.ensembles(), lambda weights: weights.C_W != 1) == Gaussian(HALF)


def test_layers_shrink_to_the_dense_one():
    assert find(testing.layers(), lambda _: True).is_dense
    assert find(testing.layers(), lambda layer: not layer.is_dense) == layers.normalized("rms")
    skipping = find(testing.networks(), lambda net: len(net.layer.stages) > 2)
    assert skipping == Network(activations.linear, layer=layers.residual(norm="rms"))


def test_networks_have_the_layers_that_are_given():
    nets = testing.networks(layers=st.just(layers.gated(norm="rms")))
    assert {str(net.layer) for net in testing.sample(nets, 5, 0)} == {"gated(norm=rms)"}


def test_kinks_come_without_a_mean_taken_off():
    nets = testing.sample(testing.networks(), 200, 1)
    kinked = [net for net in nets if not net.activation.is_smooth]
    assert any(not net.layer.is_dense for net in kinked)
    assert not any("layer" in str(net.layer) for net in kinked)
    assert any("layer" in str(net.layer) for net in nets)


def test_examples_are_drawn_by_a_seed():
    first, again = (testing.sample(testing.examples(), 5, 1) for _ in range(2))
    assert list(map(str, first)) == list(map(str, again))
    assert all(isinstance(example, Example) for example in first)


def test_verify_takes_a_strategy():
    nets = testing.networks(st.just(activations.linear), st.just(Gaussian(1)))
    found = verify(3, seed=1, of=nets, tensors="K", widths=(12, 24, 48), draws=1000)
    assert found.agrees, str(found)
    assert {check.example.net.weights for check in found.checks} == {Gaussian(1)}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: testing.inputs(samples=0), "samples"),
        (lambda: testing.inputs(size=0), "size"),
        (lambda: testing.ensembles(widths=[0]), "widths"),
        (lambda: testing.networks(widths=7), "widths"),
        (lambda: testing.sample([1, 2], 3, 0), "of"),
    ],
)
def test_errors_name_the_argument(call, name):
    with pytest.raises(InputError, match=name):
        call()
