"""Large depth around K* > 0, half-stable and stable: against recursions at 40 digits, and flows."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from derive import Network, criticality
from derive import activations as a
from derive.depth import ell
from derive.engine import FIRST_ORDER
from derive.errors import InputError
from derive.recursions import recursion
from derive.symbols import K, constant
from derive.weights import Gaussian, LowRankOrthogonal, Orthogonal
from numeric import flow

R = sympy.Rational
INPUT = (0.3, -1.1, 0.8, 0.5)
CUBIC = a.polynomial([0, 1, 0, -1])


@pytest.fixture(scope="module")
def third():
    """K* = 1/3, C_W = 1/2 and C_b = 2/9, all rational: what numbers there are is told exactly."""
    return criticality(CUBIC).points[1]


def exactly(names, weights, start, layers):
    """K and other tensors of the cubic at K* = 1/3, layer by layer at 40 digits."""
    made = [recursion(name, weights).single_input().specialise(CUBIC) for name in names]
    expressions = [each.expr for each in made]
    known = {"C_W": R(1, 2), "C_b": R(2, 9), "lambda_b": 1 / ell, "lambda_W": 1}
    for name, value in known.items():
        expressions = [
            each.subs({s: value for s in each.free_symbols if s.name == name})
            for each in expressions
        ]
    tensors = [next(s for s in _symbols(expressions) if str(s) == name) for name in names]
    step = sympy.lambdify((*tensors, ell), expressions, "mpmath")
    values, found = [mpmath.mpf(each) for each in start], {}
    for layer in range(1, max(layers) + 1):
        if layer in layers:
            found[layer] = dict(zip(names, values, strict=True))
        values = step(*values, mpmath.mpf(layer + 1))
    return found


def _symbols(expressions):
    return set().union(*(each.free_symbols for each in expressions))


@pytest.mark.slow
def test_half_stable_tensors_follow_their_recursions(third):
    """The cubic's V and Θ, K from 1/4 on: six terms at layers 1000 and 2000 miss by what `error`
    says to a factor of three, and so do sixteen, which say less than 10^−9."""
    weights, names, layers = Orthogonal(), ["K", "V", "Theta"], [800, 1000, 2000]
    with mpmath.workdps(40):
        found = exactly(names, weights, (R(1, 4).evalf(40), 0, 1)[: len(names)], layers)
        for name in names[1:]:
            made = recursion(name, weights)
            few, many = (made.asymptotics(CUBIC, terms, point=third) for terms in (6, 16))
            constants = few.matched(found[800], 800, extent=9)
            for layer in layers[1:]:
                value = found[layer][name]
                miss = abs(float(few.evaluate(layer, constants) - value))
                assert miss <= 3 * few.error(layer, constants) + 1e-15 * abs(value)
                miss = abs(float(many.evaluate(layer, constants) - value))
                assert miss <= 3 * many.error(layer, constants) + 1e-14 * abs(value)
                assert many.error(layer, constants) < 1e-9 * abs(value)
            assert few.error(1000, constants) > 1e-15


def test_the_first_terms_in_fractions(third):
    """δ' = δ + aδ² + bδ³ with a = 9/2 and b = 15/2: −1/(aℓ), and (a² − b)/a³ log ℓ/ℓ² with it."""
    found = recursion("K").asymptotics(CUBIC, 3, point=third)
    wanted = [R(1, 3), -R(2, 9), R(34, 243)]
    for term, value in zip(found.terms, wanted, strict=True):
        assert abs(term.coefficient - value) <= term.error < 1e-25
    assert [(t.exponent, t.log) for t in found.terms] == [(0, 0), (1, 0), (2, 1)]
    assert found.constants == {} or list(found.constants) == [constant("K")]


@pytest.mark.parametrize(
    "activation", [a.gelu, pytest.param(a.silu, marks=pytest.mark.slow)], ids=str
)
def test_half_stable_series_solve_their_recursion(activation):
    """K(ℓ+1) = C_b + C_W ⟨σσ⟩ at K(ℓ) and layer 10⁹, to what each of two expansions leaves out, and
    the longer one fifty times better. (SiLU's K − K* is 350903/ℓ, so that ℓ has to be large.)"""
    found = criticality(activation, 45)
    bias, weight = found.critical
    misses = []
    for terms in (3, 8):
        solved = recursion("K").asymptotics(activation, terms)
        expr = solved.expr.subs(constant("K"), 0)
        at = 10**9
        with mpmath.workdps(45):
            here, after = (mpmath.mpf(expr.subs(ell, at + k).evalf(35)) for k in (0, 1))
            moved = found.kernel_map(here, weight, bias, digits=40)
            left_out = solved.error(at, {constant("K"): 0})
            assert abs(moved - after) < 20 * left_out / at + mpmath.mpf(10) ** -27
            misses.append(abs(moved - after))
    assert misses[1] < misses[0] / 50


def test_powers_that_are_no_fractions():
    """Θ of GELU follows ℓ^{−p}, p = (C_W/a) d⟨σ'σ'⟩/dK, by numerical differentiation."""
    point = criticality(a.gelu, 40).points[0]
    chi = criticality(a.gelu).chi_perp
    step = R(1, 10**8)
    with mpmath.workdps(40):
        at = mpmath.mpf(point.K.evalf(40))
        away = mpmath.mpf(step.evalf(40))
        slope = (chi(at + away, point.C_W, digits=35) - chi(at - away, point.C_W, digits=35)) / (
            2 * away
        )
        wanted = slope / mpmath.mpf(point.coefficient)
    (term,) = recursion("Theta").asymptotics(a.gelu, 1).terms
    assert term.coefficient.free_symbols == {constant("Theta")}
    assert abs(term.exponent / wanted - 1) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("activation", "C_b", "C_W", "names"),
    [(a.tanh, 0.1, 1.2, FIRST_ORDER), (a.silu, 0.5, 1.5, ("G1", "Theta1", "B", "Q"))],
    ids=str,
)
def test_stable_limits_of_every_tensor(activation, C_b, C_W, names):
    """First-order tensors at layer 500 of a flow, where nothing exponential is left: all of tanh,
    and of silu with other weights those that need the most of the others."""
    weights = Orthogonal if activation is a.tanh else Gaussian
    net = Network(activation, weights(C_W), C_b=C_b, lambda_b=lambda layer: 1 / layer)
    table = flow(net, INPUT, 500, names)
    for name in names:
        solved = recursion(name, weights()).asymptotics(activation, 12, C_b=C_b, C_W=C_W)
        flowed = table[name].sel(layer=500).item()
        error = solved.error(500)
        assert solved.evaluate(500) == pytest.approx(flowed, rel=2e-13, abs=3 * error)
        assert error < 1e-9 * abs(flowed)


def test_stable_approach_is_at_the_rate():
    """T(ℓ) − T* falls by the largest a of the tensors that T needs, and `error` follows it."""
    net = Network(a.tanh, Gaussian(1.2), C_b=0.1)
    table = flow(net, INPUT, 40, ["K", "V"])
    for name in ("K", "V"):
        solved = recursion(name).asymptotics(a.tanh, C_b=0.1, C_W=1.2)
        rate = float(solved.system.rate)
        assert rate == pytest.approx(float(criticality(a.tanh).chi_parallel(
            solved.system.fixed.value, 1.2)), rel=1e-12)  # fmt: skip
        away = [table[name].sel(layer=n).item() - solved.evaluate(n) for n in (24, 25)]
        assert away[1] / away[0] == pytest.approx(rate, rel=1e-6)
        assert 0.01 < abs(away[1]) / solved.error(25) < 100
        assert not solved.is_exact


def test_lengths_at_unstable_and_other_points_are_refused():
    made = recursion("Theta")
    refused = [
        ({"C_b": 0.1}, "both"),
        ({"C_b": -1, "C_W": 1}, "0 or more"),
        ({"C_b": 0, "C_W": R(1, 2)}, "no K"),
        ({"C_b": R(1, 100), "C_W": 3}, "Theta settles: it grows"),
        ({"point": "K"}, "point"),
        ({"point": criticality(a.gelu).points[0]}, r"criticality\(tanh\)"),
        ({"point": criticality(a.tanh).points[0], "C_b": 1, "C_W": 1}, "beside"),
    ]
    for given, text in refused:
        with pytest.raises(InputError, match=text):
            made.asymptotics(a.tanh, **given).expr  # noqa: B018
    with pytest.raises(InputError, match="every K is fixed"):
        made.asymptotics(a.relu, C_b=0, C_W=2).expr  # noqa: B018
    with pytest.raises(InputError, match="attracts"):
        made.asymptotics(a.gelu, point=criticality(a.gelu).points[1]).expr  # noqa: B018


def test_symbols_of_the_ensemble_stay():
    gamma = sympy.Symbol("gamma", positive=True)
    solved = recursion("V", LowRankOrthogonal(gamma=gamma)).asymptotics(a.tanh, C_b=0.1, C_W=1.2)
    known = recursion("V", Orthogonal()).asymptotics(a.tanh, C_b=0.1, C_W=1.2)
    assert solved.expr.free_symbols == {gamma}
    assert float(solved.expr.subs(gamma, 1)) == pytest.approx(known.evaluate(1), rel=1e-12)


def test_errors_at_a_layer():
    """Of a power series the first omitted power, which shrinks with ℓ; of an exact one, none."""
    solved = recursion("V", Orthogonal()).asymptotics(a.tanh, 3)
    c = {constant("K"): 0.3, constant("V"): 2.0}
    near, far = (solved.error(layer, c) for layer in (100, 10_000))
    assert near > far > 0
    assert solved.error(100, c) >= abs(solved.remainder(100, c))
    many = recursion("V", Orthogonal()).asymptotics(a.tanh, 20)
    for layer in (1000, 10_000):
        miss = abs(many.evaluate(layer, c) - solved.evaluate(layer, c))
        assert solved.error(layer, c) / 3 < miss <= solved.error(layer, c)
    exact = recursion("V", Orthogonal()).asymptotics(a.relu)
    assert exact.error(7, {constant("V"): 1, K: 1}) == 0
    with pytest.raises(InputError, match="constants"):
        solved.error(100)
    with pytest.raises(InputError, match="layer"):
        solved.error(0, c)


def test_texts_say_where():
    text = str(recursion("K").asymptotics(a.tanh, C_b=0.1, C_W=1.2))
    assert text.startswith(
        "K = 0.37450355 + O(0.47456542**ℓ)\n  tanh at K* = 0.37450355 (C_W = 1.2"
    )
    text = str(recursion("K").asymptotics(a.gelu))
    assert "K = 3.5615528 + 6962.5074/ℓ + O(log(ℓ)/ℓ**2)" in text
    assert "K* = 3/2 + sqrt(17)/2, C_W = 1.9830583" in text
    assert "6962.5074" in recursion("K").asymptotics(a.gelu).latex()


@pytest.mark.slow
@pytest.mark.parametrize("tensor", ["B", "P", "R", "S"])
def test_exponents_meet_where_they_are_decimals(tensor):
    """At GELU's half-stable point B, P, R, S follow powers of Θ: a resonance, so a logarithm.

    T's second term is then that of ℓ Θ^n, for the same expansion of K, and small changes of that.
    """
    n = {"B": 2, "P": 2, "R": 3, "S": 3}[tensor]
    theta = recursion("Theta", Orthogonal()).asymptotics(a.gelu).terms
    solved = first, second = recursion(tensor, Orthogonal()).asymptotics(a.gelu).terms
    slope = theta[1].coefficient / theta[0].coefficient
    assert all(
        float(one[1].exponent - one[0].exponent) == pytest.approx(1) for one in (theta, solved)
    )
    assert theta[1].log == second.log == 1
    assert second.coefficient.free_symbols == first.coefficient.free_symbols
    assert float(second.coefficient / first.coefficient / slope) == pytest.approx(n, rel=0.05)
