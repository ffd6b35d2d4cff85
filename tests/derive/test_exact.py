"""The 1/n expansion against what is exactly known at finite width."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import activations, exact, symbols
from derive.errors import InputError
from derive.network import Network
from derive.recursions import recursion
from derive.symbols import K0
from derive.weights import Gaussian, Orthogonal

n = exact.n
COMPONENTS = {name: symbols.tensor(name) for name in ("K0", "V", "G1")}
ENSEMBLES = [Gaussian(), Orthogonal()]


def leading(expr: sympy.Expr) -> sympy.Expr:
    return sympy.limit(expr, n, sympy.oo)


def second_layer(network: Network, name: str) -> sympy.Expr:
    """What the recursions say of layer 2, at leading order."""
    weights, C_b = network.weights, network.C_b_at(1)
    hyper = {symbols.C_W: weights.C_W}
    hyper[symbols.C_b] = C_b
    below = {}
    for tensor in ("K", "V", "G1"):
        first = recursion(tensor, network.weights_at(1), first_layer=True).single_input()
        below[tensor] = first.expr.subs(hyper).subs(COMPONENTS["K0"], K0)
    made = recursion(name, weights).single_input().specialise(network.activation)
    return made.expr.subs(hyper).subs(
        {
            COMPONENTS["V"]: below["V"],
            COMPONENTS["G1"]: below["G1"],
            symbols.K: below["K"],
        }
    )


small = st.fractions(min_value=-2, max_value=2, max_denominator=3)


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
@settings(max_examples=8, deadline=None)
@given(coefficients=st.lists(small, min_size=2, max_size=3), C_b=st.sampled_from([0, 1]))
def test_expansion_is_the_limit_of_the_exact_second_layer(weights, coefficients, C_b):
    network = Network(activations.polynomial(coefficients), weights, C_b=C_b)
    vertex = exact.cumulant("V", network, 2)
    assert sympy.expand(leading(vertex) - second_layer(network, "V")) == 0
    metric = exact.cumulant("K", network, 2)
    assert sympy.expand(leading(metric) - second_layer(network, "K")) == 0
    correction = leading(n * (metric - leading(metric)))
    assert sympy.expand(correction - second_layer(network, "G1")) == 0


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_cubic_network(weights):
    network = Network(activations.polynomial([0, 1, 0, -sympy.Rational(1, 3)]), weights)
    vertex = exact.cumulant("V", network, 2)
    assert sympy.expand(leading(vertex) - second_layer(network, "V")) == 0


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_several_inputs_reduce_to_one(weights):
    network = Network(activations.polynomial([0, 1, 1]), weights)
    several = exact.cumulant("V", network, 2, (1, 1, 2, 2))
    merged = several.replace(lambda e: type(e).__name__ == "Component", lambda e: K0)
    assert sympy.simplify(merged - exact.cumulant("V", network, 2)) == 0


def test_linear_networks_of_source_000():
    # (4.11): V = -2 K²/(n+2) in the paper's normalisation, without the factor n
    network = Network(activations.linear, Orthogonal())
    assert sympy.simplify(exact.vertex(network, 7) / n + 2 / (n + 2)) == 0
    # (4.12)
    network = Network(activations.linear, Gaussian())
    assert leading(exact.vertex(network, 7)) == 2 * (7 - 1)


@pytest.mark.parametrize(
    ("weights", "slope", "offset"), [(Orthogonal(2), 3, -5), (Gaussian(2), 5, -5)]
)
def test_relu_of_source_000(weights, slope, offset):
    # (5.19), and the slope 5 of Gaussian weights, as the limits of the exact curve
    network = Network(activations.relu, weights)
    for layer in (1, 2, 5):
        assert leading(exact.vertex(network, layer)) == slope * layer + offset


@settings(max_examples=10, deadline=None)
@given(slope=st.fractions(min_value=-1, max_value=1, max_denominator=4), layer=st.integers(1, 5))
def test_scale_invariant_recursion_is_the_limit(slope, layer):
    activation = activations.leaky_relu(slope)
    C_W = 2 / (1 + slope**2)
    V, K_symbol = COMPONENTS["V"], symbols.K
    made = recursion("V", Orthogonal()).single_input().specialise(activation).expr
    step = made.subs({symbols.C_W: C_W, K_symbol: 1})
    value = sympy.Integer(-2)
    for _ in range(layer - 1):
        value = step.subs(V, value)
    network = Network(activation, Orthogonal(C_W), first_weights=Orthogonal(1))
    assert value.is_Rational
    assert leading(exact.vertex(network, layer)) == value


def test_bad_input():
    network = Network(activations.tanh, Orthogonal())
    with pytest.raises(InputError, match="polynomial"):
        exact.cumulant("V", network, 2)
    with pytest.raises(InputError, match="layer"):
        exact.cumulant("V", network, 0)
    with pytest.raises(InputError, match="scale-invariant"):
        exact.moment_factor(2, activations.tanh, Gaussian())
    with pytest.raises(InputError, match="name"):
        exact.cumulant("G1", network, 2)
    with pytest.raises(InputError, match="layer"):
        exact.vertex(Network(activations.relu, Gaussian(2)), n)
    with pytest.raises(InputError, match="C_b"):
        exact.scale_invariant_moment(2, Network(activations.relu, Gaussian(2), C_b=1), 2)


def test_bad_requests_for_a_cumulant():
    network = Network(activations.polynomial([0, 1, 1]), Orthogonal())
    with pytest.raises(InputError, match="width"):
        exact.cumulant("V", network, 1, width=1)
    with pytest.raises(InputError, match="kernel"):
        exact.cumulant("K", network, 1, (1, 2), kernel={(1, 1): 1})
    with pytest.raises(InputError, match="samples"):
        exact.cumulant("K", network, 1, (1, 2, 3))
    with pytest.raises(InputError, match="pairing"):
        exact.cumulant(["z", "z", "H"], network, 2)
    with pytest.raises(InputError, match="at most 12 preactivations of several inputs"):
        exact.cumulant("V", network, 3, (1, 2, 1, 2))
    with pytest.raises(InputError, match="order"):
        exact.series("K", network, 2, -1)
    with pytest.raises(InputError, match="inputs_ratio"):
        exact.series("K", network, 2, 1, inputs_ratio=sympy.sqrt(2))


@pytest.mark.parametrize("weights", ENSEMBLES, ids=str)
def test_series_expands_the_cumulant(weights):
    network = Network(activations.polynomial([1, 1]), weights, C_b=1, lambda_W=K0)
    for name in ("Theta", "A", "Q"):
        whole = exact.cumulant(name, network, 2)
        for coefficient in exact.series(name, network, 2, 2):
            assert sympy.expand(leading(whole) - coefficient) == 0
            whole = sympy.factor(n * (whole - coefficient))


def test_exact_in_the_width_of_each_layer():
    """Theta of a linear network by hand: λ_b + λ_W G_1 + C_W Θ_1, whatever the widths."""
    network = Network(activations.linear, Gaussian(2), C_b=1, width_ratio=lambda layer: 2 * layer)
    assert exact.cumulant("Theta", network, 2, inputs=3) == sympy.factor(
        1 + (1 + 2 * K0) + 2 * (1 + K0)
    )


def test_numbers_of_pairs_beyond_the_tables_are_refused():
    for k in (31, 2**63, 10**400):
        for weights in ENSEMBLES:
            with pytest.raises(InputError, match="0 to 30"):
                exact.row_sum(weights, k, n, n)
            with pytest.raises(InputError, match="1 to 30"):
                exact.moment_factor(k, activations.relu, weights)


@pytest.mark.parametrize("layer", [2**64, 10**400])
def test_a_layer_beyond_reach_is_refused_at_once(layer):
    with pytest.raises(InputError, match="layer"):
        exact.vertex(Network("relu", Gaussian()), layer, inputs=5)
