"""Skips around one matrix to many digits: averages over two layers, against sequences."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import factorial, prod

import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, Uniform, activations, layers, recursion, symbols
from derive.engine import functionals
from derive.errors import InputError
from numeric import flow

X = [1.0, 0.5]


def test_digits_are_those_of_a_sequence_that_ends():
    """σ = z + z²/2, for which κ_b enters V up to b = 4: in rationals, by the printed recursion."""
    sigma, C_W, C_b = activations.polynomial([0, 1, "1/2"]), Fraction(4, 5), Fraction(1, 10)
    net = Network(sigma, Gaussian("4/5"), C_b="1/10", layer="skip(2/3)")
    found = flow(net, X, 4, ["K", "V"], precision=50)
    made = recursion("V", layer="skip(2/3)", activation=sigma).single_input()
    square = sympy.Poly(sigma.expr**2, symbols.z)

    def average(order: int) -> sympy.Expr:
        """⟨∂^order σ²⟩ as a polynomial in K."""
        terms = square.diff(*[symbols.z] * order).terms() if order else square.terms()
        return sum(
            c * prod(range(1, k, 2)) * symbols.K ** (k // 2) for (k,), c in terms if k % 2 == 0
        )

    rule = list(made.sequences.values())[-1]
    rules = {
        b: rule.subs(functionals.B, b).replace(functionals.Derivative, lambda at, _: average(at))
        for b in (1, 3, 4)
    }
    V, V_s = (sympy.Symbol(name, real=True) for name in ("V", "V_s"))
    kernel = recursion("K", layer="skip(2/3)", activation=sigma).single_input().expr
    given = {symbols.C_W: sympy.Rational(4, 5), symbols.C_b: sympy.Rational(1, 10)}
    K, kappa = (
        sympy.Rational(C_b + C_W * Fraction(5, 8)),
        dict.fromkeys((1, 2, 3, 4), sympy.Integer(0)),
    )
    for layer in range(4):
        for name, value in (("K", K), ("V", kappa[2])):
            digits = sympy.Float(str(found[name].to_numpy()[layer]), 60)
            assert abs(digits - value) <= abs(value) * sympy.Float(10, 60) ** -49
        total = sum(kappa[b] * average(b) / factorial(b) for b in kappa)
        at = {**given, V: kappa[2], V_s: total.subs(symbols.K, K)}
        at |= {functionals.KAPPA[b]: value for b, value in kappa.items()}
        above = {
            b: each.subs(at).subs(symbols.K, K) for b, each in (rules | {2: made.expr}).items()
        }
        K, kappa = kernel.subs(given).subs(symbols.K, K), above
    assert kappa[2] != 0


CASES = [
    ("tanh", "skip(1/2)", Uniform, ("G1", "V")),
    ("relu", "skip(9/10)", Orthogonal, ("G1", "V", "Theta1", "D", "F", "A", "B")),
    ("erf", "skip(1/2, norm=rms)", Orthogonal, ("V",)),
    ("relu", "skip(1/2, norm=rms)", Gaussian, ("V", "F", "B")),
    pytest.param("gelu", "skip(1/2)*; dense", Orthogonal, ("V", "B"), marks=pytest.mark.slow),
    pytest.param("tanh", "skip(9/10)", Orthogonal, ("P", "U"), marks=pytest.mark.slow),
    pytest.param("gelu", "skip(9/10, norm=layer)", Gaussian, ("V",), marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("sigma", "layer", "weights", "names"), CASES)
def test_two_roads_agree(sigma, layer, weights, names):
    """Hermite coefficients in floats, and averages over two layers in balls."""
    net = Network(sigma, weights("6/5"), C_b="1/10", layer=layer, lambda_b=0.3, lambda_W=0.8)
    floats, balls = (flow(net, X, 3, names, width=2, **given) for given in ({}, {"precision": 17}))
    for name in names:
        one, other = floats[name].to_numpy(), balls[name].to_numpy().astype(float)
        assert (np.abs(one - other) <= floats[f"{name}_error"] + 1e-16 * np.abs(one)).all()
        assert other[-1] != 0.0
        assert isinstance(balls[name].to_numpy()[-1], Decimal)


def test_layers_at_rest_below():
    """Of an input of zeros z is 0 at layer 1, and not at the next."""
    net = Network("tanh", layer="skip(1/2)", C_b=[0, 0.1, 0.1])
    floats, balls = (
        flow(net, [0.0], 3, "V", **given)["V"][-1] for given in ({}, {"precision": 16})
    )
    assert float(floats) == pytest.approx(float(balls.item()), rel=1e-15)
    assert flow(Network("relu", layer="skip(1/2)"), [0.0], 3, "V", precision=16)["V"][-1] == 0


def test_what_is_refused():
    given = {"C_b": "1/10", "layer": layers.skip("1/2")}
    several = Network(["tanh", "relu"], **given)
    with pytest.raises(InputError, match="one activation"):
        flow(several, X, 3, "V", precision=16)
    with pytest.raises(InputError, match="with kinks"):
        flow(Network("relu", **given), X, 3, "P", precision=16)
    fixed = Network("tanh", [Gaussian(1), Gaussian(0)], layer="skip(1/2)")
    with pytest.raises(InputError, match="above 0"):
        flow(fixed, X, 2, "V", precision=16)
