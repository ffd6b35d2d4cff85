"""`derive.exact` against networks written out weight by weight, differentiated one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from written_networks import BI_INVARIANT, EDGES, Explicit, parts

from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Rademacher,
    Sparse,
    Truncated,
    Uniform,
    activations,
    exact,
)
from derive.weights import WeightEnsemble


def check(
    network: Network,
    widths: tuple[int, ...],
    inputs: Sequence[Sequence[int]],
    fields: Sequence[str],
    neurons: Sequence[int],
    samples: Sequence[int],
) -> None:
    """Both roads give the same rational number."""
    explicit = Explicit(network, widths, tuple(tuple(map(Fraction, x)) for x in inputs))
    expected = explicit.cumulant(fields, neurons, samples)
    got = exact.component(
        fields,
        neurons,
        replace(network, width_ratio=lambda layer: widths[layer]),
        len(widths) - 1,
        samples,
        width=1,
        inputs=widths[0],
        kernel=explicit.kernel,
    )
    assert got == sympy.Rational(expected.numerator, expected.denominator)


half = sympy.Rational(1, 2)
SQUARE = {
    "gaussian": Gaussian(2),
    "orthogonal": Orthogonal(2),
    "low-rank gaussian": LowRankGaussian(2, gamma=half),
    "low-rank orthogonal": LowRankOrthogonal(half, gamma=half),
    "truncated": Truncated(half, ratio=2),
    "bi-invariant": BI_INVARIANT,
}
TWO_INPUTS = ((1, 2), (-1, 1))
COMPONENTS = {
    "H": (["H"], (0, 0), (0, 1)),
    "z z H": (["z", "z", "H"], (0, 1, 0, 1), (0, 0, 0, 1)),
    "H H": (["H", "H"], (0, 1, 0, 1), (0, 0, 1, 1)),
    "dH z": (["dH", "z"], (0, 0, 1, 1), (0, 0, 0, 1)),
    "z dH": (["z", "dH"], (0, 0, 1, 1), (0, 0, 0, 1)),
    "ddI": (["ddI"], (0, 1, 1, 0), (0, 1, 0, 1)),
    "ddII": (["ddII"], (0, 1, 1, 0), (0, 1, 0, 1)),
    "ddII at one neuron": (["ddII"], (1, 1, 1, 1), (0, 1, 1, 0)),
}


def network(weights: WeightEnsemble, coefficients: Sequence[object], **changes: object) -> Network:
    rates = {
        "C_b": half,
        "lambda_b": lambda layer: sympy.Rational(1, layer),
        "lambda_W": lambda layer: 2 * layer + 1,
    }
    return Network(activations.polynomial(coefficients), weights, **(rates | changes))


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_two_neurons(weights, component):
    check(network(SQUARE[weights], [1, 2, half]), (2, 2, 2), TWO_INPUTS, *COMPONENTS[component])


@pytest.mark.parametrize("component", ["H H", "ddII"])
@pytest.mark.parametrize("weights", sorted(set(SQUARE) - {"gaussian", "orthogonal"}))
def test_two_neurons_of_any_ensemble(weights, component):
    check(network(SQUARE[weights], [0, 2, half]), (2, 2, 2), TWO_INPUTS, *COMPONENTS[component])


@pytest.mark.parametrize(
    ("weights", "first", "widths"),
    [
        (Gaussian(2), Orthogonal(half), (1, 3, 2)),
        (Orthogonal(2), Gaussian(half), (2, 3, 2)),
        (Orthogonal(2), None, (3, 2, 3)),
        (LowRankGaussian(1, gamma=half), Gaussian(2), (1, 3, 2)),
        (Truncated(1, ratio=2), None, (2, 2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "fields",
    [["z", "z"], ["H"], ["ddI"], pytest.param(["H", "H"], marks=pytest.mark.slow)],
    ids=str,
)
def test_unequal_widths_and_mixed_layers(weights, first, widths, fields):
    inputs = [(1, 2, -1)[: widths[0]], (2, -1, 1)[: widths[0]]]
    net = network(weights, [0, 1, 2], first_weights=first)
    nodes = sum(part.stop - part.start for part in parts(fields))
    check(net, widths, inputs, fields, (0,) * nodes, (0, 1, 0, 1)[:nodes])


@pytest.mark.parametrize("first", [Gaussian(half), Orthogonal(half)], ids=str)
@pytest.mark.parametrize("weights", [Uniform(2), Rademacher(half), Sparse(half, C_W=2)], ids=str)
@pytest.mark.parametrize(
    ("fields", "neurons"),
    [
        (["z"] * 4, (0, 0, 0, 0)),
        (["z"] * 4, (0, 1, 0, 1)),
        (["z", "z", "H"], (0, 0, 0, 0)),
        (["H"], (1, 1)),
    ],
    ids=str,
)
def test_independent_entries(weights, first, fields, neurons):
    """Of one neuron four times the fourth cumulant counts; so it does in what is summed below."""
    net = network(weights, [half, 1, 1], first_weights=first)
    samples = (0, 1, 0, 1)[: len(neurons)]
    check(net, (1, 2, 2), [(1,), (-2,)], fields, neurons, samples)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [["z"] * 2, ["H"]], ids=str)
def test_independent_entries_of_two_layers(fields):
    net = network(Uniform(2), [0, 1, half], first_weights=Gaussian(half))
    check(net, (1, 2, 2, 1), [(1,), (2,)], fields, (0, 0), (0, 1))


@settings(max_examples=12, deadline=None)
@given(
    weights=st.sampled_from(["gaussian", "orthogonal"]),
    coefficients=st.lists(
        st.fractions(min_value=-2, max_value=2, max_denominator=3), min_size=2, max_size=3
    ),
    fields=st.sampled_from([["z", "z"], ["H"], ["H", "H"], ["dH", "z"], ["ddI"], ["ddII"]]),
    data=st.data(),
)
def test_any_polynomial_and_any_indices(weights, coefficients, fields, data):
    nodes = sum(len(EDGES[field]) + 1 for field in fields)
    index = st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes)
    rate = st.sampled_from([0, 1, half])
    net = network(
        SQUARE[weights],
        coefficients,
        C_b=data.draw(rate),
        lambda_b=data.draw(rate),
        lambda_W=data.draw(rate),
    )
    check(net, (2, 2, 2), TWO_INPUTS, fields, data.draw(index), data.draw(index))


FOUR_Z = (["z"] * 4, (0, 0, 1, 1), (0, 1, 0, 0))
ONE_H = (["z", "z", "H"], (0, 0, 1, 1), (0, 1, 0, 1))
TWO_H = (["z", "z", "H", "H"], (0, 1, 0, 1, 0, 0), (0, 0, 0, 0, 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "fields", "neurons", "samples"),
    [
        ("orthogonal", *FOUR_Z),
        ("truncated", *FOUR_Z),
        ("gaussian", *ONE_H),
        ("low-rank gaussian", *ONE_H),
    ],
    ids=str,
)
def test_more_fields(weights, fields, neurons, samples):
    check(network(SQUARE[weights], [1, 1, 2]), (2, 2, 2), TWO_INPUTS, fields, neurons, samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "component"),
    [(Gaussian(2), "H"), (Orthogonal(2), "dH z"), (Gaussian(2), "ddI"), (Orthogonal(2), "ddII")],
    ids=str,
)
def test_three_neurons(weights, component):
    inputs = ((1, 2, 0), (-1, 1, 1))
    check(network(weights, [0, 1, 2]), (3, 3, 3), inputs, *COMPONENTS[component])


@pytest.mark.parametrize("weights", [Gaussian(2), Orthogonal(2)], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        ["z", "z"],
        ["H"],
        ["dH", "z"],
    ],
    ids=str,
)
def test_three_layers(weights, fields):
    """Through layers whose own NTK fluctuates; one input, one output."""
    check_three_layers(weights, fields)


@pytest.mark.slow
def test_second_changes_through_three_layers():
    check_three_layers(Orthogonal(2), ["ddII"])


def check_three_layers(weights, fields):
    nodes = sum(len(EDGES[field]) + 1 for field in fields)
    net = network(weights, [0, 1, 1], C_b=0)
    check(net, (1, 2, 2, 1), ((1,),), fields, (0,) * nodes, (0,) * nodes)


def test_the_oracle_knows_the_ntk():
    """σ = z, x = 1, a chain of single neurons: H = 1 + W_1² + 2 W_2² at unit rates, by hand."""
    net = network(Gaussian(1), [0, 1], C_b=0, lambda_b=1, lambda_W=1)
    explicit = Explicit(net, (1, 1, 1), ((Fraction(1),),))
    w1, _, w2, _ = explicit.ring.gens()
    assert explicit.field("H", (0, 0), (0, 0)) == 1 + w1**2 + 2 * w2**2
    assert explicit.average(w1**4 * w2**2) == 3


def test_an_index_that_is_not_there():
    net = network(Gaussian(1), [0, 1])
    with pytest.raises(InputError, match="neurons"):
        exact.component(["z", "z", "z"], (0, 1, 2), net, 1, width=2)
    with pytest.raises(InputError, match="neurons"):
        exact.component(["H"], (0,), net, 1)
    with pytest.raises(InputError, match="fields"):
        exact.component(["h"], (0,), net, 1)
