"""Sampled claims of 001 and 002 notice a wrong theory: each is run small with one planted."""

import numpy as np
import pytest
import sympy

from derivations.claims import Sampling
from derivations.nait_saada_tanner import gradients, jacobians
from derivations.nait_saada_tanner.backward import CrossEntropy
from derivations.nait_saada_tanner.depth import rescaled
from derivations.pennington import ensembles, finite_width, quantiles
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    activations,
    propagation,
)
from numeric import compare
from numeric import spectra as compiled

HALF = sympy.Rational(1, 2)
ALARMS = 5.7e-7
CASES = {
    "linear": (activations.linear, Gaussian(), HALF, 8, quantiles.SHARES),
    "relu": (activations.relu, Orthogonal(), HALF, 8, ensembles.UPPER),
    "erf_unit_slope": (activations.erf_unit_slope, Orthogonal(), None, 16, quantiles.SHARES),
    "hard_tanh": (activations.hard_tanh, Orthogonal(), None, 4, ensembles.UPPER),
}
"""Activation, weights, q or None for that with the variance 1/4, depth, and what is compared."""


def _spectrum(name):
    """A case of 002's Figures 2 and 4 at one depth, with its theory and its tables."""
    activation, weights, q, depth, shares = CASES[name]
    q = q or ensembles._at_depth(name, depth)
    case = ensembles.Case(activation, weights, q, (depth,), ((64, 96), (128, 32)), shares)
    net = ensembles.figures.critical_network(activation, weights, q)
    tables = quantiles.sampled(net, float(q), case.laws, case.sizes, 3, shares)
    return case, quantiles.theory(case.laws, shares), tables


@pytest.mark.parametrize("name", CASES)
def test_a_spectrum_of_another_depth_or_scale_is_found(name):
    """One layer more in eight or four; all log s moved by a fifth of what is judged by."""
    case, theory, tables = _spectrum(name)
    assert compare(theory, tables, ALARMS, degree=1).agrees
    moved = theory.copy()
    for each in map(quantiles.name, case.shares):
        moved[each] = theory[each] + 0.2 * theory[f"{each}_size"]
    assert not compare(moved, tables, ALARMS, degree=1).agrees
    (depth,) = case.depths
    scaled = compiled.jacobian(case.activation, case.weights, 2 * depth, case.q)
    wrong = quantiles.theory({depth: scaled}, case.shares)
    assert not compare(wrong, tables, ALARMS, degree=1).agrees


@pytest.mark.parametrize("kind", [LowRankGaussian, LowRankOrthogonal])
@pytest.mark.parametrize("factor", [{"m1": 1.05}, {"m2": 1.05}])
def test_five_per_cent_in_a_moment_of_a_linear_network_is_found(kind, factor):
    weights, layers = kind(1, gamma=HALF), (1, 2)
    table = compiled.simulate(
        Network(activations.linear, weights), 0.5, 32, 2, 768,
        layers=layers, singular_values=False, seed=4,
    )  # fmt: skip
    theory = finite_width.moments(weights, 32, layers)
    assert compare(theory, table, ALARMS).agrees
    assert not compare(theory.assign({k: theory[k] * v for k, v in factor.items()}), table).agrees


@pytest.mark.parametrize("kind", [LowRankGaussian, LowRankOrthogonal])
def test_a_layer_of_full_rank_adds_what_wick_and_weingarten_say(kind):
    """γ = 1: E tr (WWᵀ)²/n of Gaussian weights is 2 + 1/n, and 1 of orthogonal ones."""
    table = finite_width.moments(kind(1, gamma=1), 5, (1,))
    assert np.isclose(table["m2"][0], 2.2 if kind is LowRankGaussian else 1)


def test_moments_of_the_limit_law_are_found_at_finite_width():
    """(11) without its correction in 1/n misses the sampled m_2 at n = 64 by far."""
    weights = LowRankGaussian(1, gamma=sympy.Rational(1, 4))
    table = compiled.simulate(
        Network(activations.linear, weights), 0.5, 64, 2, 512,
        layers=(2,), singular_values=False, seed=1,
    )  # fmt: skip
    exact = finite_width.moments(weights, 64, (2,))
    assert compare(exact, table, ALARMS).agrees
    assert not compare(exact.assign(m2=exact["m2"] * 0 + 8.5), table, ALARMS).agrees


def test_gradients_of_a_neighbouring_weight_are_found():
    """The curve of 001's Figure 12 next to the one that is sampled, over 60 layers."""
    depth, layers = 60, [1]
    right, wrong = (
        gradients.derived_table(net, propagation.lengths(net, start, depth), layers, 0)
        for net, start in ((rescaled("1.75", "0.05"), 1.8), (rescaled("1.4", "0.05"), 1.45))
    )
    inputs = np.sqrt(2) * np.array([[1.0, 0.0]])
    tables = gradients.log_gradients(
        rescaled("1.75", "0.05"), inputs, depth, CrossEntropy((1,), 3), ((128, 96), (256, 96)),
        layers, 2,
    )  # fmt: skip
    assert compare(right, tables, ALARMS, degree=1).agrees
    assert not compare(wrong, tables, ALARMS, degree=1).agrees


def test_curves_are_judged_by_the_nearest_other():
    curves = np.array([[0.0, 0.0], [1.0, -3.0], [5.0, 1.0]])
    assert gradients.distances(curves).tolist() == [[1, 1], [1, 3], [4, 1]]


@pytest.mark.parametrize("name", ["hard_tanh", "erf_unit_slope"])
def test_the_distance_to_the_limit_falls(name):
    far, near = ensembles.distances_to_the_limit(name, (4, 64))
    assert near < far / 2


def test_quantiles_are_those_of_the_cumulative():
    """Gaussian weights, one layer: Marchenko and Pastur's law; and ReLU's, half of it at 0."""
    shares = np.array(quantiles.SHARES)
    for activation, weights, zero in (
        (activations.linear, Gaussian(), 0.0),
        (activations.relu, Orthogonal(), 0.5),
    ):
        law = compiled.jacobian(activation, weights, 2, HALF)
        below = law.cumulative(np.exp(2 * quantiles.quantiles(law, shares)))
        assert np.allclose(below, zero + (1 - zero) * shares, atol=1e-4)


@pytest.mark.parametrize("prove", [jacobians.figure_three, ensembles.low_rank])
def test_exact_moments_leave_nothing_weak(prove):
    verdict = prove(Sampling(5, 1e-8))
    assert verdict.kind == "statistical"
    assert verdict.resolution < 0.2
