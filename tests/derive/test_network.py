"""A network's fields: what may be given for each layer, its widths, and that it can be sent."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import sympy

from derive import (
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    Uniform,
    activations,
    recursion,
    symbols,
)
from derive.engine import Scheme
from derive.recursions import wanted
from derive.symbols import ell
from numeric import flow, simulate

X = np.linspace(-1, 1, 7)
MLP = Network("tanh", Gaussian(), widths=[7, 12, 12, 3])


def at_top(layer):
    return 2 if layer == 2 else 1


def test_a_double_is_shown_in_the_digits_that_tell_it():
    for C_W in (1.0, 0.1, 2 / 3):
        net = Network("tanh", Orthogonal(C_W))
        assert str(net) == f"Network(tanh, Orthogonal(C_W={C_W}), C_b=0)"
        assert f"E[W_ij²] = {C_W}/n_in" in repr(net)
    assert str(Uniform(C_W=1.5)) == "Uniform(C_W=1.5)"


@pytest.mark.parametrize(
    "rate",
    [
        lambda layer: 1 / layer,
        1 / symbols.ell,
        1 / symbols.layer,
        1 / sympy.Symbol("ell"),
        1 / sympy.Symbol("l", positive=True),
        "1/l",
        lambda layer: layer**-1,
        lambda layer: (2 - 1) / (0 + layer),
    ],
)
def test_a_rate_is_an_expression_in_the_layer(rate):
    net = Network("tanh", lambda_b=rate, C_b_corrections=(rate,))
    assert [net.lambda_b_at(layer) for layer in (1, 2, 3)] == [
        1,
        sympy.S.Half,
        sympy.Rational(1, 3),
    ]
    assert net.correction_at("C_b", 1, 4) == sympy.Rational(1, 4)
    assert net == Network("tanh", lambda_b="1/l", C_b_corrections=("1/l",))
    assert pickle.loads(pickle.dumps(net)) == net
    assert hash(pickle.loads(pickle.dumps(net))) == hash(net)
    assert "lambda_b=1/l" in str(net)


@pytest.mark.parametrize(
    "function",
    [
        lambda layer: 1 if layer == 10 else 1 / layer,
        lambda layer: 1 / layer if layer < 10 else 1,
        lambda layer: 1 / layer if layer != 10 else 1,
        lambda layer: {10: 1}.get(layer, 1),
        lambda layer: (1, 0.5, 0.25, 1, 1, 1, 1, 1, 1, 1)[layer - 1],
        lambda layer: 1.0 / int(layer),
    ],
)
def test_a_function_that_is_no_expression_is_kept_and_told_how_to_be_sent(function):
    """Whatever it says at a symbol or at layers 1, 2, 3, layer 10 is its own."""
    net = Network("tanh", lambda_b=function)
    assert net.lambda_b_at(10) == function(10)
    with pytest.raises(InputError, match=r"lambda_b: .*wanted .*symbols\.ell, a list"):
        pickle.dumps(net)
    sent = pickle.loads(pickle.dumps(net.tabulated(10)))
    assert [sent.lambda_b_at(k) for k in (1, 2, 10)] == [function(k) for k in (1, 2, 10)]


def test_functions_with_a_name_and_lists_can_be_sent():
    for given in (at_top, [1, 2, 1]):
        net = Network("tanh", lambda_W=given, C_W_corrections=(given,))
        assert pickle.loads(pickle.dumps(net)) == net
        assert [net.lambda_W_at(layer) for layer in (1, 2, 3)] == [1, 2, 1]
    net = Network("tanh", C_b=np.array([0.5, 1]))
    assert str(net) == str(Network("tanh", C_b=[sympy.Float(0.5), sympy.Float(1)]))
    assert [net.C_b_at(layer) for layer in (1, 2)] == [sympy.Float(0.5), sympy.Float(1)]


def test_it_is_the_same_network_in_another_process(tmp_path):
    path = tmp_path / "net.pickle"
    net = Network("gelu", Orthogonal(), lambda_b=lambda layer: 1 / layer, widths=(7, 5, 2))
    path.write_bytes(pickle.dumps(net))
    code = f"import pickle; print(pickle.loads(open({str(path)!r}, 'rb').read()))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.strip() == str(net)


@pytest.mark.parametrize("name", ["C_b", "lambda_b", "lambda_W", "width_ratio"])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda layer: 1 / 0 if layer == 2 else 1, "ZeroDivisionError.*layer 2"),
        (lambda: 1, "TypeError.*layer 1"),
        (lambda layer: None, "layer 1"),
        (lambda layer: 3 - 2 * layer, "layer 2"),
        ([1], "layer 2"),
        ([1, -1], "layer 2"),
        ([1, "x"], "got"),
        ([], "one for each layer"),
        (1 / (symbols.ell - 2), "layer 1|layer 2"),
        ([[1, 2]], "got"),
    ],
)
def test_errors_name_the_argument_and_the_layer(name, given, told):
    with pytest.raises(InputError, match=f"{name}: .*{told}"):
        flow(Network("tanh", **{name: given}), X, 3, "Theta1")


def test_symbols_that_no_number_stands_for_are_told():
    net = Network("tanh", width_ratio=sympy.Symbol("q"))
    with pytest.raises(InputError, match=r"width_ratio: got q; wanted a number.* layer 1"):
        flow(net, X, 2)
    with pytest.raises(InputError, match="lambda_b: got a; wanted a number"):
        flow(Network("tanh", lambda_b=lambda layer: sympy.Symbol("a") * (layer - 1)), X, 2, "Theta")


def test_ratios_may_be_a_list():
    listed = Network("tanh", width_ratio=[1, 1, 10 / 256])
    function = Network("tanh", width_ratio=lambda layer: 1 if layer < 3 else 10 / 256)
    assert flow(listed, X, 3, ["V", "D"], width=256).equals(
        flow(function, X, 3, ["V", "D"], width=256).assign_attrs(network=str(listed))
    )


def test_widths_are_those_of_the_layers():
    ratio = Network("tanh", width_ratio=[1, 1, sympy.Rational(3, 12)])
    assert [MLP.width_ratio_at(layer) for layer in (1, 2, 3)] == [1, 1, sympy.Rational(1, 4)]
    assert (MLP.widths, MLP.width, MLP.depth) == ((7, 12, 12, 3), 12, 3)
    tensors = ["K", "V", "Theta1", "F"]
    wanted = flow(ratio, X, 3, tensors, width=12).assign_attrs(network=str(MLP))
    assert flow(MLP, X, tensors=tensors).equals(wanted)
    assert Network("tanh").widths is None
    assert "7, 12, 12, 3; n = 12" in repr(MLP)
    assert pickle.loads(pickle.dumps(MLP)) == MLP
    assert replace(MLP, widths=(7, 4, 4)).depth == 2


def layers(table):
    """The widths n_1, n_2, …"""
    return (table["r_out"] * table.attrs["width"]).to_numpy().round().tolist()


def test_simulate_takes_width_and_depth_from_the_widths():
    table = simulate(MLP, X, draws=64, tensors=["K", "V"])
    assert (table.attrs["width"], layers(table)) == (12, [12, 12, 3])
    half = simulate(MLP, X, width=24, depth=2, draws=64, tensors=["K", "V"])
    assert layers(half) == [24, 24]
    with pytest.raises(InputError, match=r"width: got .*whole"):
        simulate(MLP, X, width=10, draws=64, tensors="K")


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: Network("tanh", widths=[784]), "widths"),
        (lambda: Network("tanh", widths=784), "widths"),
        (lambda: Network("tanh", widths=[784, 0]), "widths"),
        (lambda: Network("tanh", widths=[784, 2.5]), "widths"),
        (lambda: Network("tanh", widths="784,10"), "widths"),
        (lambda: Network("tanh", widths=[7, 5], width_ratio=2), "width_ratio"),
        (lambda: flow(MLP, X[:5]), "inputs"),
        (lambda: simulate(MLP, X[:5]), "inputs"),
        (lambda: flow(MLP, X, 4), "widths"),
        (lambda: flow(MLP, X, 0), "depth"),
        (lambda: simulate(MLP, X, depth=4), "widths"),
        (lambda: flow(Network("tanh"), X), "depth"),
        (lambda: recursion("Theta").asymptotics("tanh", lambda_b=lambda: 1), "lambda_b"),
        (lambda: recursion("Theta").asymptotics("tanh", lambda_b=lambda layer: 1 / 0), "lambda_b"),
    ],
)
def test_misfits_are_told(build, argument):
    with pytest.raises(InputError) as told:
        build()
    assert told.value.argument == argument


def test_rates_of_asymptotics_are_those_of_networks():
    made = recursion("Theta")
    wanted = made.asymptotics("tanh", lambda_b=lambda layer: 2 / layer).expr
    for same in (2 / symbols.ell, 2 / symbols.layer, "2/l"):
        assert made.asymptotics("tanh", lambda_b=same).expr == wanted


def test_critical_networks():
    found = Network.critical("relu", Orthogonal(), "gaussian", lambda_b="1/l")
    assert (found.weights, found.first_weights) == (Orthogonal(2), Gaussian(2))
    assert (found.C_b, found.lambda_b) == (0, 1 / symbols.layer)
    assert Network.critical("relu", Orthogonal(2), "gaussian", lambda_b="1/l") == found
    for given in ({"weights": Orthogonal(C_W=1)}, {"first_weights": Gaussian(C_W=7)}):
        with pytest.raises(InputError, match=f"{next(iter(given))}: .* without C_W, which is 2.0"):
            Network.critical("relu", **given)
    with pytest.raises(InputError, match="no solution"):
        Network.critical("sigmoid")


def test_networks_of_one_scheme_share_their_recursions():
    """Rates and biases are no part of it; σ, widths up to the depth, corrections, inputs are."""
    tanh = activations.tanh
    one = Network("tanh", Orthogonal(), "gaussian").scheme(3, 1)
    assert one == Scheme(
        Orthogonal(), equal_widths=True, corrections=0, single=True, activation=tanh
    )
    assert len({one, Network("tanh", Orthogonal(), C_b=1, lambda_b="1/l").scheme(9, 1)}) == 1
    late = Network("tanh", Orthogonal(), width_ratio=lambda layer: 2 if layer > 3 else 1)
    assert [late.scheme(depth, 2) for depth in (3, 4)] == [
        Scheme(Orthogonal(), activation=tanh),
        Scheme(Orthogonal(), equal_widths=False, activation=tanh),
    ]
    assert Network("tanh", Gaussian(), C_b_corrections=(1,)).scheme(3, 1).corrections == 1


@pytest.mark.parametrize(
    "rate",
    [
        1 / (ell - 4) ** 2,
        1 / ell,
        ell / 7 + sympy.Rational(2, 3),
        1 / (ell + 1) ** 2 + 3 * ell / (2 * ell - 1),
        (ell**2 - 9) / (ell - 3) + 1 / (1 + 1 / (ell + 2)),
        (ell + 1) ** 21 / 2,
        sympy.sqrt(ell) / 3,
        sympy.pi / ell,
    ],
)
def test_an_expression_at_a_layer_is_what_sympy_has_there(rate):
    net = Network("tanh", lambda_b=rate)
    for layer in range(1, 12):
        expected = rate.xreplace({ell: sympy.Integer(layer)})
        if expected.is_finite:
            value = net.lambda_b_at(layer)
            assert (value, type(value)) == (expected, type(expected))
        else:
            with pytest.raises(InputError):
                net.lambda_b_at(layer)


def test_the_first_layer_has_its_own_weights():
    net = Network("tanh", Orthogonal(), first_weights=Gaussian(2))
    assert [net.weights_at(layer) for layer in (1, 2, 3)] == [Gaussian(2), *[Orthogonal()] * 2]


def test_corrections_of_the_biases_count_at_a_width_alone():
    net = Network("tanh", Gaussian(), C_b=1, C_b_corrections=[2])
    assert (net.C_b_at(3), net.C_b_at(3, 8)) == (1, sympy.Rational(5, 4))


def test_a_recursion_of_another_activation_is_refused():
    net = Network("tanh", Gaussian())
    with pytest.raises(InputError, match="activation erf_unit_slope"):
        wanted(recursion("K", activation="erf_unit_slope"), net)
    assert [each.label for each in wanted(recursion("K", activation="tanh"), net)] == ["K"]


@pytest.mark.parametrize(
    ("net", "same"),
    [
        (Network("relu", C_W=2), Network("relu", Gaussian(2))),
        (Network("relu", "orthogonal", C_W="1/2"), Network("relu", Orthogonal("1/2"))),
        (Network("relu", Orthogonal(2), C_W=2), Network("relu", Orthogonal(2))),
        (Network("tanh", "orthogonal(C_W=2)"), Network("tanh", Orthogonal(2))),
        (Network("tanh", Orthogonal(2), "gaussian"), Network("tanh", Orthogonal(2), Gaussian(2))),
        (Network("tanh", "uniform", "gaussian", C_W=3), Network("tanh", Uniform(3), Gaussian(3))),
        (
            Network("tanh", Orthogonal(2), "gaussian(C_W=3)", C_W=2),
            Network("tanh", Orthogonal(2), Gaussian(3)),
        ),
    ],
)
def test_the_variance_of_weights_by_name(net, same):
    assert net == same
    assert pickle.loads(pickle.dumps(net)) == replace(net, C_b=0) == same
    assert replace(net, weights="gaussian", C_W=5).weights == Gaussian(5)
    assert Network("tanh", "normal", C_W=2).weights == Gaussian(2)
    assert Network("tanh", "haar(C_W=2)").weights == Orthogonal(2)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: Network("relu", Orthogonal(), C_W=2), "C_W: got 2; wanted 1, .*Orthogonal"),
        (lambda: Network("relu", "orthogonal(C_W=2)", C_W=3), "C_W: got 3; wanted 2"),
        (lambda: replace(Network("relu", C_W=2), C_W=3), "C_W: got 3; wanted 2"),
        (lambda: Network("relu", C_W=-1), "C_W: got -1"),
        (lambda: Network("tanh", "orthogonal", 2), "first_weights: got 2.*write C_W=2"),
        (lambda: Network("tanh", 2), "weights: got 2.*write C_W=2"),
        (lambda: Network("tanh", "gaussain"), 'did you mean "gaussian"'),
        (lambda: Network("tanh", gain=2), 'did you mean "C_W".*the gain squared'),
        (lambda: Network("tanh", skip=1), 'did you mean "layer"'),
        (lambda: flow(MLP, X, layers=2), 'did you mean "depth"'),
        (lambda: simulate(MLP, X, n=12), 'did you mean "width"'),
        (lambda: simulate(MLP, X, random_state=1), 'did you mean "seed"'),
        (lambda: Network("tanh", "he"), r'did you mean "gaussian\(C_W=2\)"\?.*gain'),
        (lambda: Network("tanh", "kaiming_uniform_"), r'did you mean "uniform\(C_W=2\)"'),
        (lambda: Network("tanh", "xavier-normal"), r'did you mean "gaussian\(C_W=1\)"'),
        (lambda: Network("tanh", "glorot"), r'did you mean "gaussian\(C_W=1\)"'),
    ],
)
def test_variances_that_contradict_or_are_misplaced(call, told):
    with pytest.raises(InputError, match=told):
        call()


@pytest.mark.parametrize(
    "law",
    [Gaussian(), Orthogonal(), Uniform(), Truncated(ratio=2), LowRankOrthogonal(gamma="1/2")],
    ids=str,
)
def test_which_laws_have_the_rows_of_square_matrices(law):
    """V behind n neurons by the general recursion, with n/2 neurons, and by that of n and n."""
    given = dict.fromkeys(("r_in", "r_big"), 1) | {"r_out": sympy.Rational(1, 2)}
    general = recursion("V", law, equal_widths=False).single_input().expr
    square = recursion("V", law, equal_widths=True).single_input().expr
    values = {symbol: given.get(symbol.name, symbol) for symbol in general.free_symbols}
    assert (sympy.expand(general.subs(values) - square) == 0) == law.has_rows_of_square
