"""Figures of ensembles beside theory, at small sizes."""

import numpy as np
import pytest
import xarray

from derivations.claims import Sampling
from derivations.day_kahn_roberts import figures, measurements
from derivations.day_kahn_roberts.ensembles import linear_flow
from derivations.day_kahn_roberts.expansions import normalised_vertex
from derivations.day_kahn_roberts.tower_figures import TOWER, Measured
from derive import activations
from numeric import simulate

SMALL = {20: 200, 40: 200, 80: 200}


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
    inputs, sampling = np.linspace(0.1, 1, 20), Sampling(0, 1e-6)
    figure, curves = figures.figure_one(inputs, sampling, (3, 4), SMALL)
    assert len(figure.axes) == 2
    assert [len(curve.theory) for curve in curves] == [3] * 6 + [4] * 4
    assert all(curve.comparison.agrees for curve in curves)
    assert [curve.finite is None for curve in curves] == [
        curve.label.startswith("tanh") for curve in curves
    ]


@pytest.mark.parametrize("initialisation", ["Gaussian", "orthogonal", "mixed"])
def test_exact_linear_flow_is_that_of_one_input_and_tends_to_the_derived_one(initialisation):
    """On the diagonal at n = 20; and every component at n = 10⁹."""
    net = figures.critical_network(activations.linear, initialisation)
    inputs = np.random.default_rng(0).normal(size=(4, 6))
    found = figures.exact_linear_flow(net, inputs, 3, 20)
    for sample, x in enumerate(inputs):
        one = figures.exact_flow(net, x, 3, 20)
        diagonal = found["V"].to_numpy()[(slice(None), *[sample] * 4)]
        np.testing.assert_allclose(diagonal, one["V"], rtol=1e-12)
        np.testing.assert_allclose(found["K"].to_numpy()[:, sample, sample], one["K"], rtol=1e-12)
    wide = figures.exact_linear_flow(net, inputs, 3, 10**9)
    np.testing.assert_allclose(wide["V"], linear_flow(net, inputs, 3)["V"], atol=1e-7)


def made_up(label, **samples):
    """A correlator of each kind at layer 1 and n = 20, with lines at 1 and errors of 0.01."""
    layer = {"layer": [1]}
    lines = {name: ("layer", [1.0]) for name in ("K", "Theta", *TOWER)}
    points = {name: ("layer", [samples.get(name, samples["rest"])]) for name in TOWER}
    errors = {f"{name}_se": ("layer", [0.01]) for name in TOWER}
    drawn = xarray.Dataset({**points, **errors}, layer)
    return Measured(label, xarray.Dataset(lines, layer), {20: drawn})


def test_what_is_seen_at_the_papers_width_can_fail():
    large, small = made_up("Gaussian", rest=5.0), made_up("orthogonal", rest=0.9, D=2.5)
    assert measurements.contrast([large, small], 1, 4, "AB").holds
    assert not measurements.contrast([large, small], 1, 6, "AB").holds
    assert not measurements.contrast([large, small], 1, 4, "AD").holds
    assert measurements.off_the_lines([large, small], 1).holds
    near = made_up("Gaussian", rest=5.0, U=1.1)
    assert not measurements.off_the_lines([near, small], 1).holds
    far = made_up("orthogonal", rest=0.9, D=2.5, B=1.6)
    assert not measurements.off_the_lines([large, far], 1).holds


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
