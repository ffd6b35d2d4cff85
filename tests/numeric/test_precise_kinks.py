"""Averages of σ with kinks in balls: several inputs, and pieces with exponentials."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from flint import arb, ctx

from derive import InputError, Network, activations
from derive.gaussian import truncated
from numeric import flow

FOUR = [[1.0, 0.5, 0.2, 0.3], [0.3, -0.7, 1.0, 0.2], [0.5, 0.8, -0.4, 0.9], [-0.2, 0.9, 0.6, 1.0]]
ELU = "expr: max(z, 0) + exp(min(z, 0)) - 1"


@pytest.mark.parametrize(
    ("sigma", "m", "names"),
    [
        ("relu", 3, ["K", "G1", "V", "Theta", "A"]),
        ("relu", 4, ["K", "V"]),
        ("leaky_relu(1/10)", 3, ["K", "V"]),
        ("hard_tanh", 3, ["K", "V"]),
        (ELU, 1, ["K", "G1", "V", "Theta", "A"]),
        (ELU, 2, ["K", "V"]),
        ("expr: exp(z/4) - 1", 1, ["K", "G1", "V"]),
        ("expr: z*exp(z/4)", 3, ["K", "V"]),
    ],
)
def test_floats_agree(sigma: str, m: int, names: list[str]) -> None:
    inputs = [row[:3] if m < 4 else row for row in FOUR[:m]]
    net = Network(sigma, C_b="1/10")
    precise = flow(net, inputs if m > 1 else inputs[0], 2, names, precision=20)
    floats = flow(net, inputs if m > 1 else inputs[0], 2, names)
    for name in names:
        values = precise[name].to_numpy().astype(float)
        largest = float(np.abs(values).max())
        np.testing.assert_allclose(
            floats[name].to_numpy(), values, rtol=1e-11, atol=1e-13 * largest
        )


def test_orthants_of_three_off_centre() -> None:
    """Against mpmath's nested quadrature."""
    h, rho = [0.5, -0.25, 1.0], [[1.0, 0.5, -0.25], [0.5, 1.0, 0.25], [-0.25, 0.25, 1.0]]
    with ctx.workprec(120):
        found = truncated.probability(
            [arb(x) for x in h], [[arb(x) for x in row] for row in rho], 60.0
        )
        assert found.rad() < 1e-20
        value = float(found)
    K = mpmath.matrix(rho)
    P, scale = K**-1, 1 / mpmath.sqrt((2 * mpmath.pi) ** 3 * mpmath.det(K))

    def inner(x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
        """∫_0^∞ over the third, which is an error function."""
        u, w = x - h[0], y - h[1]
        mean = h[2] - (P[0, 2] * u + P[1, 2] * w) / P[2, 2]
        rest = P[0, 0] * u * u + 2 * P[0, 1] * u * w + P[1, 1] * w * w
        rest -= (P[0, 2] * u + P[1, 2] * w) ** 2 / P[2, 2]
        root = mpmath.sqrt(P[2, 2] / 2)
        half = mpmath.sqrt(mpmath.pi) / (2 * root) * mpmath.erfc(-mean * root)
        return scale * mpmath.exp(-rest / 2) * half

    with mpmath.workdps(15):
        exact = mpmath.quad(inner, [0, 2, 8], [0, 2, 8])
    assert abs(value - float(exact)) < 1e-9


@pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(-1, 4), Fraction(9, 10)])
def test_orthants_of_four_centred(rho: Fraction) -> None:
    """Two pairs that know nothing of each other; four equal correlations of 1/2 give 1/5."""
    with ctx.workprec(160):
        r = arb(rho.numerator) / rho.denominator
        pairs = [[arb(1), r, 0, 0], [r, arb(1), 0, 0], [0, 0, arb(1), r], [0, 0, r, arb(1)]]
        K = [[arb(x) for x in row] for row in pairs]
        found = truncated.probability([arb(0)] * 4, K, 80.0)
        exact = (arb(1) / 4 + r.asin() / (2 * arb.pi())) ** 2
        assert found.overlaps(exact)
        assert found.rad() < 1e-30
        alike = [[arb(1) if a == b else arb(0.5) for b in range(4)] for a in range(4)]
        found = truncated.probability([arb(0)] * 4, alike, 80.0)
        assert found.contains(arb(1) / 5)
        assert found.rad() < 1e-30


def test_exponentials_are_exact() -> None:
    """⟨z_1 e^{z_1} e^{z_2}⟩ = (K_11 + K_12) e^{(K_11 + 2K_12 + K_22)/2}."""
    with ctx.workprec(120):
        K = [[arb(0.5), arb(0.25)], [arb(0.25), arb(1)]]
        sigma = activations.by_name("expr: z*exp(z)")
        other = ((0,), 0)
        found = truncated.average(sigma, [other, other], K, 60.0)
        # ∂_a ∂_b of e^{½ tᵀKt} at t = (1, 1)
        exact = (K[0][0] + K[0][1]) * (K[1][1] + K[0][1]) + K[0][1]
        exact *= ((K[0][0] + 2 * K[0][1] + K[1][1]) / 2).exp()
        assert found.overlaps(exact)
        assert found.rad() < 1e-25


def test_monomials() -> None:
    z = activations.z
    found = truncated.monomials(z**2 * sympy.exp(2 * z + 1) - 3 * z + 1)
    assert found == {(2, 2): sympy.E, (0, 1): -3, (0, 0): 1}
    with pytest.raises(InputError, match="exponentials"):
        truncated.monomials(sympy.tanh(z))


def test_combinations_are_refused() -> None:
    inputs = [[1.0, 0.5], [0.3, -0.7], [0.5, 0.8]]
    with pytest.raises(InputError, match="combination"):
        flow(Network("relu"), inputs, 2, ["V"], precision=16)


def test_combinations_have_digits_without_kinks() -> None:
    inputs, net = [[1.0, 0.5], [0.3, -0.7], [0.5, 0.8]], Network("expr: exp(z/4) - 1")
    precise = flow(net, inputs, 2, ["V"], precision=16)["V"].to_numpy().astype(float)
    np.testing.assert_allclose(flow(net, inputs, 2, ["V"])["V"], precise, rtol=1e-12)


def test_hyperbolic_functions_at_inputs_that_depend_on_each_other() -> None:
    """σ = sinh, ⟨σ(z) σ(2z)⟩ = e^{5K/2} sinh(2K)."""
    table = flow(Network("expr: sinh(z)"), [[1.0, 0.0], [2.0, 0.0]], 2, ["K"], precision=30)
    K = table["K"].to_numpy()
    exact = sympy.exp(sympy.Rational(5, 4)) * sympy.sinh(1)
    assert abs(sympy.Rational(str(K[1, 0, 1])) - exact).evalf(10) < 1e-28


def test_four_off_centre_are_refused() -> None:
    with pytest.raises(InputError, match="not at 0"):
        flow(Network("hard_tanh"), FOUR, 2, ["V"], precision=16)
