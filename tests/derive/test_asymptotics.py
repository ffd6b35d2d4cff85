"""Large depth: the solved recursions against their own flow, known limits, and exact networks."""

from __future__ import annotations

from functools import cache

import pytest
import sympy
from sympy import log

from derivations.day_kahn_roberts.breakdown import aspect_ratio, breakdown
from derive import activations as a
from derive import exact, symbols
from derive.depth import asymptotics, counterterm, ell, together
from derive.engine import FIRST_ORDER
from derive.errors import InputError
from derive.network import Network
from derive.recursions import recursion
from derive.weights import BiInvariant, Gaussian, LowRankOrthogonal, Orthogonal
from numeric import flow

R = sympy.Rational
INPUT = (0.3, -1.1, 0.8, 0.5)
ENSEMBLES = [Orthogonal(), Gaussian()]
c_K = symbols.constant("K")


def inverse(layer):
    return 1 / layer


def deep(name, weights, activation=a.tanh, terms=2, **rates):
    return asymptotics(recursion(name, weights), activation, terms, **rates)


@cache
def expanded(names, activation, weights, terms, rates):
    """Three terms of each, alone; and this many, of all of them together."""
    asked = {name: deep(name, weights, activation, 3, **dict(rates)) for name in names}
    made = [recursion(name, weights) for name in names]
    return asked, together(made, activation, terms, **dict(rates))


def confront(names, activation, weights, *, layers, terms, tolerance, first=None, **rates):
    """Predicted against flowed values: what three terms leave out is the next power of ℓ, to a part
    that falls like logs over ℓ, and many more terms agree to `tolerance`, as far as the flow does:
    in differences such as ⟨σ'⁴⟩ − ⟨σ'²⟩² ~ K² it loses digits like ℓ²."""
    net = Network(activation, weights, first_weights=first, **rates)
    asked, whole = expanded(tuple(names), activation, weights, terms, tuple(rates.items()))
    system = {made.name for each in asked.values() for made in each.system.recursions}
    table = flow(net, INPUT, max(layers), [*system], seconds=0)  # floats, whose digits suffice
    at_match = {name: table[name].sel(layer=500).item() for name in system}
    constants = whole[names[0]].matched(at_match, 500)
    for name, solved in asked.items():
        for layer in layers:
            flowed = table[name].sel(layer=layer).item()
            left_out = flowed - solved.evaluate(layer, constants)
            predicted = solved.remainder(layer, constants)
            next_power = 60 * float(log(layer)) ** 2 / layer
            assert abs(left_out - predicted) < next_power * abs(predicted) + 1e-9 * abs(flowed)
            relative = tolerance + 1e-16 * layer**2
            assert whole[name].evaluate(layer, constants) == pytest.approx(flowed, rel=relative)


def test_the_papers_first_terms():
    """Source 000, (5.24), (5.27) and what follows them; Gaussian V and G1 are PDLT's."""
    assert deep("K", Orthogonal()).expr == 1 / (2 * ell) + R(5, 24) * log(ell) / ell**2
    assert deep("V", Orthogonal()).normalised.expr == -2 + R(8, 3) / ell
    assert deep("G1", Orthogonal(), terms=1).expr == 1 / ell
    assert deep("V", Gaussian(), terms=1).expr == 1 / (6 * ell)
    assert deep("G1", Gaussian(), terms=1).expr == -R(1, 6)
    assert deep("U", Gaussian(), terms=1).normalised.expr == 1 / (2 * ell)


def test_universal_terms_are_told_from_the_others():
    solved = deep("V", Orthogonal(), terms=3)
    assert [term.universal for term in solved.terms] == [True, True, False]
    assert solved.universal == -1 / (2 * ell**2) - R(5, 12) * log(ell) / ell**3
    assert list(solved.constants) == [c_K]
    assert solved.omitted.expr == solved.omitted.coefficient * log(ell) ** 2 / ell**4
    assert c_K in solved.expr.free_symbols


def test_text_and_latex_explain_themselves():
    text = str(deep("F", Orthogonal(), terms=3))
    assert text.startswith("F = -1/(2*ℓ) + 5*log(ℓ)**2/(48*ℓ**2)")
    assert "O(ℓ**(-2))" in text
    assert "universal: -1/(2*ℓ), 5*log(ℓ)**2/(48*ℓ**2)" in text
    assert "c_K, the coefficient of ℓ**(-2) in K" in text
    assert deep("F", Orthogonal()).normalised.latex().startswith(r"\frac{F}{K \Theta} = - \frac{2}")
    assert str(deep("V", Orthogonal(), a.relu)).startswith("V = 3*K**2*ℓ + c_V\n")


@pytest.mark.slow
def test_another_activation_and_other_rates():
    """Not odd, so that p = 12/13 of Θ is no whole number, and with λ_b = 3/ℓ, λ_W = 2."""
    activation = a.from_expr("sin(z)+z**2/4")
    solved = deep("Theta", Orthogonal(), activation, 1, lambda_b=lambda layer: 3 / layer)
    assert solved.omitted.expr == symbols.constant("Theta") * ell ** -R(12, 13)
    confront(["V", "B"], activation, Orthogonal(), layers=[20_000], terms=28, tolerance=1e-7,
             lambda_b=lambda layer: 3 / layer, lambda_W=2)  # fmt: skip


@pytest.mark.slow
def test_every_tensor_of_orthogonal_tanh_at_depth_20000():
    confront(FIRST_ORDER, a.tanh, Orthogonal(), first=Gaussian(), layers=[5_000, 20_000],
             terms=18, tolerance=1e-8, lambda_b=inverse)  # fmt: skip


def test_a_flatter_activation_falls_by_square_roots():
    """σ = z − z⁵: K = 1/√(60ℓ), and V/K² → −2 as for tanh."""
    flat = a.polynomial([0, 1, 0, 0, 0, -1])
    leading = deep("K", Orthogonal(), flat, 1).terms[0]
    assert (leading.coefficient**2, leading.exponent) == (R(1, 60), R(1, 2))
    assert deep("V", Orthogonal(), flat, 1).normalised.expr == -2


def test_symbols_of_the_rates_and_the_ensemble_stay():
    b, w, gamma = sympy.symbols("b w gamma", positive=True)
    rates = {"lambda_b": lambda layer: b / layer, "lambda_W": w}
    assert sympy.simplify(deep("B", Orthogonal(), terms=1, **rates).normalised.expr - 2 / ell) == 0
    solved = deep("F", LowRankOrthogonal(gamma=gamma), terms=1, **rates).normalised
    assert sympy.simplify(solved.expr - ell * (1 - gamma) / (4 * gamma)) == 0
    full = LowRankOrthogonal(gamma=1)
    assert deep("F", full, terms=3).expr == deep("F", Orthogonal(), terms=3).expr


def test_ensembles_by_their_moments():
    """All p_j = 1 is orthogonal; Catalan numbers, the quarter circle's, are square Gaussian."""
    for moments, same in (((1, 1, 1, 1), Orthogonal()), ((1, 2, 5, 14), Gaussian())):
        for name in ("V", "F", "B"):
            assert deep(name, BiInvariant(moments=moments)).expr == deep(name, same).expr


@pytest.mark.parametrize("weights", ENSEMBLES, ids=lambda each: each.name)
@pytest.mark.parametrize("activation", [a.relu, a.linear, a.leaky_relu(R(1, 3))], ids=str)
def test_scale_invariant_solutions_are_exact_at_every_layer(weights, activation):
    """V, V2 and U6, at layers 1, 2 and 5, against the expansion in 1/n of the exact moments."""
    solved = {name: deep(name, weights, activation).at_inputs() for name in ("V", "V2", "U6")}
    kernel = symbols.K
    critical = type(weights)(1 / activation.average((0, 0), 1))
    net = Network(activation, critical)
    x = sympy.Symbol("x")
    for layer in (1, 2, 5):
        two, four, six = (
            exact.scale_invariant_moment(m, net, layer)
            / exact.scale_invariant_moment(1, net, layer) ** m
            for m in (1, 2, 3)
        )
        assert two == 1
        V = sympy.series(((four - 1) * exact.n).subs(exact.n, 1 / x), x, 0, 2).removeO()
        U6 = sympy.limit((six - 3 * four + 2) * exact.n**2, exact.n, sympy.oo)
        assert [solved[name].subs({ell: layer, kernel: 1}) for name in ("V", "V2", "U6")] == [
            V.coeff(x, 0), V.coeff(x, 1), U6,
        ]  # fmt: skip


def test_relu_5_19():
    kernel = symbols.K
    assert sympy.expand(deep("V", Orthogonal(), a.relu).at_inputs() / kernel**2) == 3 * ell - 5
    mixed = deep("V", Orthogonal(), a.relu).at_inputs(Gaussian())
    assert sympy.expand(mixed / kernel**2) == 3 * ell - 3


def test_counterterms_5_28():
    assert counterterm(a.tanh, Gaussian(), 1).expr == R(2, 3)
    assert counterterm(a.tanh, Orthogonal(), 1).expr == -2 / ell
    assert counterterm(a.relu, Orthogonal()).expr == 0


def test_breakdown():
    """Gaussian fluctuations grow with L/n, orthogonal V does not; ReLU's do with both."""
    assert aspect_ratio(breakdown("K", a.tanh, Gaussian())) == 3
    assert aspect_ratio(breakdown("V", a.tanh, Gaussian())) == R(15, 7)
    assert breakdown("V", a.tanh, Orthogonal()) == 2
    assert aspect_ratio(breakdown("V", a.tanh, Orthogonal())) == sympy.oo
    assert aspect_ratio(breakdown("V", a.relu, Orthogonal())) == R(2, 3)
    assert aspect_ratio(ell**2 / 3) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((recursion("V"), a.sigmoid), "one that is critical"),
        ((recursion("U"), a.relu), "orders"),
        ((recursion("V", equal_widths=False), a.tanh), "equal width"),
        ((recursion("V", first_layer=True), a.tanh), "between hidden layers"),
        ((recursion("V"), a.tanh, 0), "terms"),
        ((recursion("V"), "tan"), "activation"),
        (("V", a.tanh), "recursion"),
    ],
)
def test_what_cannot_be_solved_is_refused(arguments, named):
    with pytest.raises(InputError, match=named):
        asymptotics(*arguments).expr  # noqa: B018


def test_learning_rates_that_are_no_powers_are_refused():
    with pytest.raises(InputError, match="lambda_b"):
        deep("Theta", Gaussian(), lambda_b=lambda layer: sympy.exp(-layer)).expr  # noqa: B018
    with pytest.raises(InputError, match="lambda_W"):
        deep("Theta", Gaussian(), lambda_W="two").expr  # noqa: B018
    for quotient in (deep("K", Gaussian()), deep("V", Gaussian()).normalised):
        with pytest.raises(InputError, match="normalised"):
            quotient.normalised  # noqa: B018
    with pytest.raises(InputError, match="scale"):
        deep("V", Gaussian()).over({"Theta": 1})
    with pytest.raises(InputError, match="constants"):
        deep("G1", Orthogonal(), terms=3).evaluate(100)


@pytest.mark.parametrize("terms", [0, 10**9, 2.0, True])
def test_a_counterterm_of_no_number_of_terms_is_refused(terms):
    with pytest.raises(InputError, match=r"terms: .* a number of terms, 1 to"):
        counterterm(a.tanh, terms=terms)


def test_tensors_solved_together_are_those_solved_alone():
    """Their constants are the same in all of them, and other weights are no part of the system."""
    made = [recursion(name, Orthogonal()) for name in ("V", "D")]
    tower = together(made, a.tanh, 3)
    for each in made:
        alone = asymptotics(each, a.tanh, 3)
        assert [term.expr for term in tower[each.name].terms] == [t.expr for t in alone.terms]
    assert tower["V"].system is tower["D"].system
    with pytest.raises(InputError, match="recursions"):
        together([made[0], recursion("V")], a.tanh)


def test_rates_with_logarithms_are_series():
    """Θ' = λ_b + (1 − 1/ℓ) Θ at large ℓ: ℓ Θ is the sum of 1 + 3 log ℓ."""
    rates = {"lambda_b": lambda layer: (1 + 3 * log(layer)) / layer, "lambda_W": 0}
    assert deep("Theta", Gaussian(), **rates).expr == 3 * log(ell) - 2


def test_denominators_with_several_numbers():
    """C_W = (2/√π + 1/5)^{−2}: one over a sum is exact as well."""
    solved = deep("K", Gaussian(), a.from_expr("erf(z)+z/5"), terms=1)
    root = sympy.sqrt(sympy.pi)
    assert sympy.simplify(solved.expr * ell - (2 / root + R(1, 5)) * root / 4) == 0
