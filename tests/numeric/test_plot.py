"""Pictures of tables: one line for each component, and no table that cannot be drawn."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from derivations.daneshmand import ensembles
from derivations.nait_saada_tanner import sampling
from derivations.training.curves import curves
from derivations.training.data import digits
from derive import Gaussian, Network
from derive.errors import InputError
from numeric import (
    compare,
    flow,
    normalise,
    plot,
    propagation,
    simulate,
    spectra,
    training,
)
from numeric.tables import layout

NET = Network("tanh")
X = np.array([[1.0, 0.5, 0.2], [0.3, -1.0, 0.4]])
Y, TEST, STEPS = [0.7, -0.2], [0.3, 0.3, 0.1], [0, 5, 20]
SIX = ["V_1111", "V_1112", "V_1122", "V_1212", "V_1222", "V_2222"]


def labels(panel):
    return [text.get_text() for text in panel.get_legend().get_texts()]


def told(panel):
    return panel.get_legend().get_title().get_text()


@pytest.mark.parametrize("noise", [0.0, 9e-16, 1e-3])
def test_components_are_grouped_by_the_tensor_s_symmetries(noise):
    """Not by equal bits, which rounding changes; and V_1122 is no V_1212."""
    table = flow(NET, X, 3, ["K", "V"])
    noisy = noise * np.random.default_rng(0).standard_normal(table["V"].shape)
    for drawn in (table, normalise(table)):
        name = "V" if "V" in drawn else "V_tilde"
        (panel,) = plot(drawn.assign({name: drawn[name] + noisy}), name).axes
        assert labels(panel) == [each.replace("V", name) for each in SIX]
        assert told(panel) == ""
    equal = flow(NET, [X[0], X[0]], 2, "K")
    assert labels(plot(equal).axes[0]) == ["K_11", "K_12", "K_22"]  # equal, and not by symmetry


def test_what_is_left_out_is_said_and_can_be_chosen():
    table = flow(NET, np.random.default_rng(0).standard_normal((4, 3)), 2, ["K", "V"])
    K, V = plot(table).axes
    assert told(K) == '6 of 10 components;\nothers: tensors="K_44"'
    assert len(labels(V)) == 6
    classes = len(list(combinations_with_replacement(range(10), 2)))  # two pairs of two of four
    assert told(V).startswith(f"6 of {classes} components")
    names = ["K_44", "V_4444", "V_1234", *(f"V_{k}{k}{k}{k}" for k in (1, 2, 3))]
    K, V = plot(table, [*names, "K_13", "V_3311"]).axes
    assert (labels(K), labels(V)) == (["K_44", "K_13"], [*names[1:], "V_3311"])
    assert (told(K), told(V)) == ("", "")
    np.testing.assert_array_equal(V.lines[1].get_ydata(), table["V"][:, 0, 1, 2, 3])


@pytest.mark.parametrize("wrong", ["Q", "V_", "V_12", "V_1113", "V_0111", 3, [], ["K", "Q"]])
def test_names_that_are_not_in_the_table_are_refused(wrong):
    table = flow(NET, X, 2, ["K", "V"])
    with pytest.raises(InputError, match=r"^tensors: got"):
        plot(table, wrong)


def _descent(**given):
    return training.flow(NET, X, Y, TEST, 2, 0.1, STEPS, **given)


def _trained():
    return training.simulate(NET, X, Y, TEST, 8, 2, 0.1, STEPS, 10)


def _curves():
    split = digits().standardised().split(training=20, validation=10, test=10)
    return curves(NET, split, width=8, depth=2, eta=1, epochs=[0, 5], draws=2)


TABLES = {
    "theory of training": (_descent, "step"),
    "theory of training to the end": (
        lambda: training.flow(NET, X, [Y, Y[::-1]], None, 2, 0.1, [0, 5, np.inf]),
        "step (finite ones)",
    ),
    "training": (_trained, "step"),
    "learning curves": (_curves, "epoch"),
    "learning rates": (lambda: training.learning_rate(NET, X, 3), "layer"),
    "a posterior": (lambda: training.posterior(NET, X, Y, TEST, 2), "sample_1"),
    "batch normalization": (lambda: ensembles.simulate(12, 3, 2, 10), "layer"),
    "kernels": (lambda: propagation.kernels(NET, [1.0, 0.5, 1.0], 2), "layer"),
    "fixed points": (lambda: propagation.fixed_points(Network("tanh", C_b=0.1)), "point"),
    "biases": (lambda: sampling.simulate(NET, X, 4, 2, 5, biases="layer"), "layer"),
    "Jacobians": (lambda: spectra.simulate(NET, 1.0, 6, 3, 4, layers=[1, 3]), "layer"),
    "a spectrum": (
        lambda: spectra.jacobian("linear", Gaussian(), 1).table([0.5, 1.0], 2),
        "eigenvalue",
    ),
    "digits": (lambda: flow(NET, X, 2, "K", precision=20), "layer"),
    "a table of one's own": (lambda: layout.table([3, 4], gap=([0.5, 0.4], [0.1, 0.1])), "layer"),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_table_can_be_drawn(name):
    made, axis = TABLES[name]
    figure = plot(made())
    assert figure.axes[0].get_xlabel() == axis
    assert all(panel.lines or panel.containers for panel in figure.axes)
    width, height = figure.get_size_inches()
    assert width <= 3 * 4.5
    assert width / height < 4


def test_comparisons_of_descents_speak_of_steps():
    found = compare(_descent(), _trained())
    assert found.table.splitlines()[0].split()[:2] == ["tensor", "step"]
    assert " at step " in found.summary
    assert "layer" not in str(found)
    assert "<th>step</th>" in found._repr_html_()
    figure = found.plot()
    assert {panel.get_xlabel() for panel in figure.axes} == {"step"}
    width, height = figure.get_size_inches()
    assert width / height < 2  # eight panels are no strip
    assert labels(found.plot("ntk_22").axes[0]) == ["ntk_22"]


def test_a_comparison_says_what_its_picture_leaves_out():
    inputs = np.random.default_rng(0).standard_normal((4, 3))
    found = compare(flow(NET, inputs, 2, "K"), simulate(NET, inputs, 8, 2, 50, tensors="K"))
    (panel,) = found.plot().axes
    assert told(panel) == '6 of 10 components;\nothers: tensors="K_44"'
    (panel,) = found.plot(["K_44", "K_11"]).axes
    assert labels(panel) == ["K_44", "K_11"]
    for wrong in ("V", "K_55"):
        with pytest.raises(InputError, match=r"^tensors: got"):
            found.plot(wrong)
