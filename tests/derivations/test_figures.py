"""Figures of ensembles beside theory, at small sizes."""

import numpy as np
import pytest

from derivations.day_kahn_roberts import figures
from derivations.day_kahn_roberts.ensembles import linear_flow
from derivations.day_kahn_roberts.expansions import normalised_vertex
from derive import activations
from numeric import simulate

SMALL = figures.Ensembles(
    width=20, draws=200, more_widths=(40, 80), more_draws=200, false_alarms=1e-6
)


@pytest.mark.parametrize(
    ("initialisation", "first", "slope"),
    [("Gaussian", 0, 5), ("orthogonal", -2, 3), ("mixed", 0, 3)],
)
def test_leading_vertex_of_relu(initialisation, first, slope):
    net = figures.critical_network(activations.relu, initialisation)
    assert normalised_vertex(net, 4) == [first + slope * layer for layer in range(4)]


def test_exact_flow_tends_to_the_leading_order():
    net = figures.critical_network(activations.relu, "orthogonal")
    inputs = np.ones(10)
    wide = figures.exact_flow(net, inputs, 3, 10**7)
    np.testing.assert_allclose(wide["K"], 2.0)
    np.testing.assert_allclose(wide["V"] / wide["K"] ** 2, [-2, 1, 4], atol=1e-5)


def test_curves_carry_theory_sample_and_comparison():
    figure, curves = figures.figure_one(np.linspace(0.1, 1, 20), SMALL, depths=(3, 4))
    assert len(figure.axes) == 2
    assert [len(curve.theory) for curve in curves] == [3] * 6 + [4] * 4
    assert all(curve.comparison.agrees for curve in curves)
    assert [curve.finite is None for curve in curves] == [
        curve.label.startswith("tanh") for curve in curves
    ]


@pytest.mark.parametrize("initialisation", ["Gaussian", "orthogonal", "mixed"])
def test_linear_vertex_is_that_of_one_input_on_the_diagonal(initialisation):
    net = figures.critical_network(activations.linear, initialisation)
    inputs = np.random.default_rng(0).normal(size=(4, 6))
    found = linear_flow(net, inputs, 3)["V"].to_numpy()
    for sample, x in enumerate(inputs):
        leading = np.array(normalised_vertex(net, 3), float) * (x @ x / 6) ** 2
        np.testing.assert_allclose(found[(slice(None), *[sample] * 4)], leading, atol=1e-12)
    np.testing.assert_allclose(found, found.transpose(0, 3, 4, 1, 2))
    np.testing.assert_allclose(found, found.transpose(0, 2, 1, 3, 4))


def test_several_inputs_are_drawn_in_every_pattern():
    net = figures.critical_network(activations.linear, "orthogonal")
    inputs = np.random.default_rng(0).random((4, 10))
    flowed = linear_flow(net, inputs, 2)
    sampled = [simulate(net, inputs, n, 2, 50, tensors=["V"]) for n in (10, 20)]
    figure = figures.many_inputs("linear", flowed, sampled)
    assert [panel.get_title() for panel in figure.axes] == list(figures.PATTERNS)
