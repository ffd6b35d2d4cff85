"""Descent as a sum over trees: how many there are, what they are worth, and their closed forms."""

from fractions import Fraction

import numpy as np
import pytest
import sympy

from derive import Network, training
from derive.engine import named
from derive.engine.trees import DDH_I, DDH_II, DH, H, Z
from derive.errors import InputError
from derive.symbols import real, tensor
from derive.training import averages
from derive.training.histories import (
    LEADING,
    Branch,
    Descent,
    descents,
    fields,
    forests,
    residuals,
    symmetry,
)
from derive.training.sequences import closed
from numeric import flow
from numeric.training import flow as trained
from numeric.training.averages import Basis


def test_trees_of_one_field_are_rooted_trees():
    """Those whose ε are all leading: 1, 1, 2, 4, 9 rooted trees of 1 … 5 nodes."""
    counts = [sum(_is_plain(each) for each in forests(edges)) for edges in range(5)]
    assert counts == [1, 1, 2, 4, 9]


def _is_plain(branches):
    return all(each.epsilon == LEADING and _is_plain(each.branches) for each in branches)


def test_weights_of_trees_add_up_to_labelled_trees():
    """Σ n!/|T| over rooted trees with n edges is (n + 1)^{n−1}, by Cayley."""
    for edges, labelled in ((1, 1), (2, 3), (3, 16), (4, 125)):
        plain = [each for each in forests(edges) if _is_plain(each)]
        total = sum(Fraction(1, symmetry(each)) for each in plain)
        assert total == Fraction(labelled, _factorial(edges))


def _factorial(n):
    return n * _factorial(n - 1) if n else 1


def test_a_nested_descent_is_counted_once():
    response = Descent((Branch(LEADING),))
    assert Descent((Branch(response),)) in descents(2)
    assert len(descents(2)) == len(set(descents(2))) == 3


def test_the_fields_that_descent_meets_are_the_literature_s():
    met = {each.field for k in range(4) for h in residuals(k) for each in h.insertions}
    assert met == {H, DH, DDH_I, DDH_II}
    with pytest.raises(ValueError, match="residuals"):
        fields(Z, 1)


@pytest.mark.parametrize("name", averages.OUTPUTS)
def test_an_output_has_an_axis_for_each_node_of_its_fields(name):
    output = averages.OUTPUTS[name]
    for group in "OB":
        average = output.average(group)
        assert average.free == output.indices
        assert all(len(each.free) == output.indices for order in average.orders for each in order)


def test_the_tensors_are_those_of_order_one():
    labels = {name.label for name in averages.tensors()}
    assert labels == {"K", "G1", "Theta", "Theta1", *"ABDFPQRSTU"}


@pytest.mark.parametrize("edges", [1, 2, 3])
def test_closed_forms_solve_the_recursions(edges):
    """Each closed form against its system, run in exact arithmetic, at rates that may be alike."""
    for history in residuals(edges):
        choices = ([0] * history.labels, [k % 2 for k in range(history.labels)])
        for rates in (*choices, [None, *choices[1][1:]]):
            values = [Fraction(2, 3), Fraction(-1, 5)]
            numbers = [Fraction(1) if k is None else values[k] for k in rates]
            names = sympy.symbols("p q")
            expr = closed(history, tuple(rates), 2).expr(names)
            known = dict(zip(names, map(_rational, values), strict=True))
            for t in (0, 1, 2, 5):
                exact = _rational(_run(history.steps, numbers, t))
                assert expr.subs({training.step: t} | known) == exact


def _rational(value):
    return sympy.Rational(value.numerator, value.denominator)


def _run(system, rates, steps):
    s = [Fraction(each) for each in system.start]
    for _ in range(steps):
        after = [Fraction(0)] * len(s)
        for (i, j), entry in system.entries.items():
            for labels, coefficient in entry.items():
                term = Fraction(coefficient)
                for label in labels:
                    term *= rates[label]
                after[i] += term * s[j]
        s = after
    return s[0]


NET = Network("tanh", "orthogonal", C_b=0.2)


def test_one_point_in_closed_form_is_what_flow_gives():
    x, y, eta, t = [1.0, -0.4], 0.7, 0.2, 6
    table = trained(NET, x, y, depth=3, eta=eta, steps=t).isel(step=0)
    start = flow(NET, x, 3, averages.tensors()).isel(layer=-1)
    known = {tensor(name.label): start[name.label].item() for name in averages.tensors()}
    known |= {training.eta: eta, training.step: t, training.target: y}
    known[training.rate] = 1 - eta * start["Theta"].item()
    for name in ("prediction", "covariance", "ntk"):
        for order, ending in ((0, ""), (1, "1")):
            formula = getattr(training, name)(order=order).single_input()
            assert float(formula.subs(known)) == pytest.approx(
                table[name + ending].item(), rel=1e-9
            )


@pytest.mark.parametrize("name", ["prediction", "covariance", "ntk"])
@pytest.mark.parametrize("tau", [0.0, 0.3, 2.0])
def test_gradient_flow_of_one_point_is_what_flow_gives(name, tau):
    x, y = [1.0, 0.5], 0.7
    table = trained(NET, x, y, depth=3, eta=0, steps=tau)
    initial = flow(NET, x, 3, averages.tensors()).isel(layer=-1)
    known = {tensor(each.label): float(initial[each.label]) for each in averages.tensors()}
    known |= {training.target: y, training.time: tau}
    for order, ending in enumerate(("", "1")):
        found = getattr(training, name)(order).gradient_flow().subs(known)
        expected = table[f"{name}{ending}"].item()
        assert float(found) == pytest.approx(expected, rel=1e-10, abs=1e-13)


def test_two_points_in_closed_form_are_what_flow_gives():
    x, y, eta, t = np.array([[1.0, -0.4], [0.2, 0.9]]), np.array([0.7, -0.3]), 0.2, 4
    table = trained(NET, x, y, depth=2, eta=eta, steps=t).isel(step=0)
    start = flow(NET, x, 2, averages.tensors()).isel(layer=-1)
    basis = Basis.of(start["Theta"].to_numpy(), 2)
    known = {training.eta: eta, training.step: t}
    known |= {real(f"m_{k}"): 1 - eta * basis.theta[k - 1] for k in (1, 2)}
    known |= {real(f"y_{k}"): (basis.into @ y)[k - 1] for k in (1, 2)}
    for tensor_name in averages.tensors():
        values = start[tensor_name.label].to_numpy()
        for _ in range(values.ndim):
            values = np.tensordot(values, basis.into, axes=(0, 1))
        for at in np.ndindex(values.shape):
            label = f"{tensor_name.label}[{','.join(str(k + 1) for k in at)}]"
            known[real(label)] = values[at]
    parts = training.ntk().two_inputs()
    labelled = table["ntk1"].to_numpy()
    for axis in range(labelled.ndim):
        labelled = np.moveaxis(np.tensordot(labelled, basis.into, axes=(axis, 1)), -1, axis)
    assert len(parts) == labelled.size
    for at, formula in parts.items():
        value = float(formula.xreplace({each: sympy.Float(known[each], 30) for each in known}))
        assert value == pytest.approx(labelled[tuple(k - 1 for k in at)], rel=1e-8, abs=1e-11)


def test_the_formula_as_text_and_in_latex():
    text = str(training.ntk())
    assert text.startswith("E[H_ij]_ab{1} = δ_ij Theta1_ab - η n_out δ_ij Q_abcc Σ_{s<t} m_c^s")
    for made in (training.prediction(), training.covariance(), training.ntk()):
        latex = made.latex()
        assert latex.count("{") == latex.count("}")
        assert latex.count(r"\left") == latex.count(r"\right")
        assert (
            latex.count(r"\\")
            == len(str(made).split("=", 1)[1].replace("- ", "+ ").split(" + ")) - 1
        )


def test_another_order_is_refused():
    with pytest.raises(InputError, match=r"^order: "):
        training.prediction(order=2)


def test_names_of_tensors_are_known():
    assert all(named(name.label) == name for name in averages.tensors())
