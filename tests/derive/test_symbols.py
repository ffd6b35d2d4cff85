"""The symbols of the results: one each, found by name, and what sympy does with them."""

import pickle

import pytest
import sympy

from derivations.moments import linear_laws
from derivations.pdlt import ratio_limits as limits
from derive import (
    BiInvariant,
    InputError,
    LowRankGaussian,
    Orthogonal,
    activations,
    batchnorm,
    exact,
    recursion,
    symbols,
)
from derive.depth import ell
from derive.gaussian import Component, GaussianAverage


@pytest.fixture(scope="module")
def vertex():
    """C_W²(3K² + V)/4: a hyperparameter, a kernel and a tensor."""
    return recursion("V", Orthogonal()).single_input().specialise(activations.relu).expr


@pytest.mark.parametrize("name", ["C_W", "K", "V"])
@pytest.mark.parametrize("make", [str, sympy.Symbol, lambda x: sympy.Symbol(x, positive=True)])
def test_subs_does_what_it_says(name, make, vertex):
    own = {"C_W": symbols.C_W, "K": symbols.K, "V": symbols.tensor("V")}[name]
    wanted = vertex.xreplace({own: sympy.Integer(3)})
    assert wanted != vertex
    assert vertex.subs({make(name): 3}) == wanted
    assert vertex.subs(make(name), 3) == wanted
    assert vertex.subs({make(name): 3}, simultaneous=True) == wanted


def test_evalf_lambdify_and_pickle(vertex):
    values = {"C_W": 2, "K": 1, "V": 5}
    assert float(vertex.evalf(subs=values)) == 8
    assert sympy.lambdify(["C_W", "K", "V"], vertex)(2, 1, 5) == 8
    own = (symbols.C_W, symbols.K, symbols.tensor("V"))
    assert sympy.lambdify(own, vertex)(2, 1, 5) == 8
    assert pickle.loads(pickle.dumps(vertex)) == vertex
    assert pickle.loads(pickle.dumps(symbols.batch)) == symbols.batch


def test_they_print_as_symbols(vertex):
    assert (str(symbols.C_W), sympy.latex(symbols.C_W)) == ("C_W", "C_{W}")
    assert str(vertex) == "C_W**2*(3*K**2 + V)/4"
    assert sympy.latex(symbols.lambda_b * symbols.ell) == r"\ell \lambda_{b}"


@pytest.mark.parametrize(
    "result",
    [
        lambda: recursion("V", Orthogonal()).single_input().specialise(activations.relu).expr,
        lambda: recursion("G1", Orthogonal(), corrections=1).single_input().expr,
        lambda: (
            recursion("F", LowRankGaussian(gamma=symbols.gamma), equal_widths=False)
            .single_input()
            .expr
        ),
        lambda: recursion("V", BiInvariant()).single_input().expr,
        lambda: recursion("V", Orthogonal(), first_layer=True).single_input().expr,
        lambda: recursion("V").asymptotics(activations.tanh).expr,
        lambda: linear_laws.law([symbols.n], Orthogonal()).characteristic_function(),
        lambda: limits.log_factor(2)[1],
        batchnorm.stationary_gap,
    ],
)
def test_every_symbol_of_a_result_answers_to_its_name(result):
    expr = result()
    assert expr.free_symbols
    for symbol in expr.free_symbols:
        assert isinstance(symbol, symbols.Symbol)
        assert symbol not in expr.subs({symbol.name: 7}).free_symbols


def test_one_symbol_each():
    assert exact.n is limits.n is symbols.n
    assert ell is symbols.ell
    assert batchnorm.n is symbols.batch
    assert batchnorm.d is symbols.width
    assert activations.linear.expr is symbols.z
    assert recursion("K", Orthogonal(symbols.C_W)).expr == recursion("K", Orthogonal()).expr


def test_width_and_batch_do_not_merge():
    assert str(symbols.n) == str(symbols.batch) == "n"
    assert symbols.n != symbols.batch
    assert (symbols.n / symbols.batch).free_symbols == {symbols.n, symbols.batch}
    mixed = batchnorm.contraction_rate() * symbols.n
    assert mixed.subs(symbols.n, 1) == batchnorm.contraction_rate()
    assert mixed.subs(symbols.batch, 3).free_symbols == {symbols.n}


def test_components_answer_to_their_text_alone():
    expr = recursion("K").expr + Component("V", (1, 2, 1, 2))
    assert expr.subs({"V[1,2,1,2]": 5}) == recursion("K").expr + 5
    with pytest.raises(
        InputError, match=r"subs: got 'V'; wanted a component, such as V\[1,2,1,2\]"
    ):
        expr.subs({"V": 5})
    with pytest.raises(InputError, match="subs: got 'K'; wanted an activation first"):
        recursion("V").single_input().expr.subs({"K": 1})


def test_averages_replace_parameters_and_no_bound_variable():
    a, K, z = symbols.real("a"), symbols.K, symbols.z
    average = GaussianAverage(sympy.tanh(a * z), (z,), (K,))
    assert average.subs({"a": 2, "K": 3}) == GaussianAverage(sympy.tanh(2 * z), (z,), (3,))
    assert average.subs({"z": 2}) == average
    with pytest.raises(InputError, match="without"):
        average.subs(a, z)
