"""What is given is what is used: names for objects, and no recursion of another network."""

import math

import numpy as np
import pytest
import sympy

from derivations.pennington import universality
from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    Network,
    Orthogonal,
    activations,
    criticality,
    linear,
    propagation,
    recursion,
    spectra,
    symbols,
)
from derive.engine import NAMES
from numeric import flow, simulate, write_module

NET = Network("tanh", Orthogonal(C_W=2))
X = [1.0, 2.0, 0.5, 1.0, 3.0]


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (recursion("V", Gaussian()), "weights Gaussian"),
        (recursion("V", LowRankGaussian(gamma="1/2")), "weights LowRankGaussian"),
        (recursion("V", Orthogonal(), activation="relu"), "activation relu"),
        (recursion("V").specialise("relu"), "activation relu"),
        (recursion("V", Orthogonal(), corrections=1), "corrections=1"),
        (recursion("V", Orthogonal(), first_layer=True), "at layer 1"),
    ],
)
def test_a_recursion_of_another_network_is_refused(made, named):
    for run in (flow, simulate):
        with pytest.raises(InputError, match=f"tensors: got .*{named}"):
            run(NET, X, depth=2, tensors=["K", made])


def test_equal_and_unspecified_ones_are_run():
    same = [
        "V",
        NAMES["V"],
        recursion("V"),
        recursion("V", Orthogonal()),
        recursion("V", "orthogonal", activation="tanh"),
        recursion("V", Orthogonal(), equal_widths=False, corrections=0).single_input(),
    ]
    values = [flow(NET, X, 3, made)["V"].to_numpy() for made in same]
    assert all(np.array_equal(each, values[0]) for each in values)
    symbolic = recursion("V", LowRankGaussian(gamma=symbols.gamma))
    net = Network("tanh", LowRankGaussian(gamma="1/2"), first_weights="gaussian")
    assert flow(net, X, 2, symbolic).equals(flow(net, X, 2, "V"))


def test_square_and_corrections_are_the_networks():
    net = Network("tanh", Gaussian(), width_ratio=lambda layer: layer, C_W_corrections=(1,))
    with pytest.raises(InputError, match="equal_widths=True"):
        flow(net, X, 2, recursion("V", equal_widths=True))
    with pytest.raises(InputError, match="corrections=0"):
        flow(net, X, 2, recursion("V", corrections=0))
    made = recursion("V", equal_widths=False, corrections=1)
    assert flow(net, X, 2, made).equals(flow(net, X, 2, recursion("V")))


def test_simulate_takes_a_tensor_by_its_name_object():
    names = [NAMES["K"], NAMES["G1"]]
    one = simulate(NET, X, width=6, depth=2, draws=32, tensors=names)
    assert one.equals(simulate(NET, X, width=6, depth=2, draws=32, tensors=["K", "G1"]))


def test_names_stand_for_objects_everywhere(tmp_path):
    assert Network("gelu") == Network(activations.gelu)
    assert Network("gelu", "orthogonal", "gaussian") == Network(
        activations.gelu, Orthogonal(), Gaussian()
    )
    assert Network("leaky_relu(0.1)").activation == activations.leaky_relu(0.1)
    mine = Network("expr: z*sigmoid(z)")
    assert flow(mine, X, 2, recursion("V", activation="silu"))["V"].size == 2
    assert recursion("V", activation="relu") == recursion("V").specialise(activations.relu)
    assert criticality("relu").critical == (0, 2)
    relu = recursion("V", "orthogonal")
    assert relu.asymptotics("relu").expr == relu.asymptotics(activations.relu).expr
    assert propagation.edge_of_chaos("relu", lengths=[1]) == propagation.edge_of_chaos(
        activations.relu, lengths=[1]
    )
    jacobian = spectra.jacobian("hard_tanh", "orthogonal", 2, q_star="1/10")
    assert jacobian.moment(2) == spectra.jacobian(
        activations.hard_tanh, Orthogonal(), 2, q_star="1/10"
    ).moment(2)
    assert universality.classify("tanh").kind == "smooth"
    assert linear.correlator(2, [5], "orthogonal") == linear.correlator(2, [5], Orthogonal())
    write_module(recursion("K").single_input(), "relu", tmp_path / "k.py")
    assert (tmp_path / "k.py").exists()


class ReLU:
    """As torch.nn has it."""

    def __call__(self, x):
        return max(x, 0)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.tanh, 'the name "tanh"'),
        (ReLU(), 'the name "relu"'),
        (ReLU, 'the name "relu"'),
        (math.gamma, '"expr: z'),
        (lambda x: x, '"expr: z'),
        (sympy.tanh(activations.z), r"activations.from_expr\(tanh\(z\)\)"),
        (3, "an activation of derive.activations, or its name"),
        ("geglu", "one of linear, relu"),
    ],
)
@pytest.mark.parametrize(
    "use", [Network, criticality, recursion("K").specialise, universality.classify]
)
def test_what_is_no_activation_is_told_what_would_be(use, given, told):
    with pytest.raises(InputError, match=f"activation: got .*wanted .*{told}"):
        use(given)


def test_what_is_no_ensemble_is_told_what_would_be():
    for use in (lambda w: Network("tanh", w), lambda w: recursion("K", w)):
        with pytest.raises(InputError, match=r'weights: got .*"gaussian", "orthogonal", "uniform"'):
            use("low-rank")
        with pytest.raises(InputError, match="gamma: got None"):
            use("low-rank-gaussian")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("z*sigmoid(z)", lambda z: z / (1 + math.exp(-z))),
        ("silu(z)", lambda z: z / (1 + math.exp(-z))),
        ("relu(z - 1)", lambda z: max(z - 1, 0)),
        ("softplus(2*z)", lambda z: math.log1p(math.exp(2 * z))),
        ("gelu(z)", lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2),
        ("z*tanh(softplus(z))", lambda z: z * math.tanh(math.log1p(math.exp(z)))),
        ("mish(z)", lambda z: z * math.tanh(math.log1p(math.exp(z)))),
    ],
)
def test_functions_of_networks_are_known_to_expressions(text, value):
    made = activations.from_expr(text)
    for at in (-2.5, -0.3, 0.7, 1.9):
        assert float(made.expr.subs(symbols.z, at)) == pytest.approx(value(at), rel=1e-13)
    table = flow(Network(made), X, 2, "K")
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    root = math.sqrt(float(table["K"][0]))
    second = weights @ np.array([value(root * node) ** 2 for node in nodes])
    rtol = 1e-3 if made.kinks else 1e-10
    assert float(table["K"][1]) == pytest.approx(second / math.sqrt(2 * math.pi), rel=rtol)
