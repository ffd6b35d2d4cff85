"""The diffusion of the Gram matrix, against what is printed and by hand."""

from __future__ import annotations

import pytest
import sympy

from derive import InputError, activations, recursion, symbols
from derive.deep import walk
from derive.gaussian import Component
from derive.network import Network
from derive.symbols import n, z

K = {(a, b): Component("K", (a, b)) for a in range(1, 5) for b in range(a, 5)}
PLAIN = {K[1, 1]: sympy.Symbol("a", positive=True), K[2, 2]: sympy.Symbol("b", positive=True)}
A, B = PLAIN.values()
RHO = sympy.Symbol("rho", real=True)
R = sympy.Rational
KERNEL = recursion(["z", "z"])
WISHART = K[1, 3] * K[2, 4] + K[1, 4] * Component("K", (2, 3))


def at_angles(drift: sympy.Expr) -> sympy.Expr:
    """With K_12 = ρ √(K_11 K_22)."""
    return drift.xreplace({K[1, 2]: RHO * sympy.sqrt(A * B)} | PLAIN)


@pytest.mark.slow
def test_shaped_relu_is_that_of_li_nica_and_roy():
    c, d = sympy.symbols("c d", real=True)
    shape = z + (c * sympy.Max(0, z) + d * sympy.Min(0, z)) / sympy.sqrt(n)
    found = KERNEL.diffusion(shape)
    printed = (c - d) ** 2 / (2 * sympy.pi)
    printed *= sympy.sqrt(1 - RHO**2) - RHO * (sympy.pi / 2 - sympy.asin(RHO))
    drift = at_angles(found.drift) / sympy.sqrt(A * B)
    for value in (R(1, 3), -R(3, 5)):
        numbers = {RHO: value, A: R(1, 2), B: 3, c: 2, d: R(1, 5)}
        assert abs(sympy.N((drift - printed).subs(numbers), 30)) < 1e-25
    assert sympy.simplify(found.noise - WISHART) == 0
    lengths = dict.fromkeys(found.drift.atoms(Component), sympy.S.One)
    assert sympy.simplify(found.drift.xreplace(lengths)) == 0


@pytest.mark.slow
def test_smooth_shapes_are_those_of_li_nica_and_roy():
    """σ = z + s₂ z²/(2√n) + s₃ z³/(6n), normalised at K = 1."""
    two, three = 1, -R(1, 2)
    shape = z + two * z**2 / (2 * sympy.sqrt(n)) + three * z**3 / (6 * n)
    found = KERNEL.diffusion(shape)
    cross, square = K[1, 2], K[1, 1] * K[2, 2]
    printed = R(two**2, 4) * (square + cross * (2 * cross - 3))
    printed += three / 2 * cross * (K[1, 1] + K[2, 2] - 2)
    assert sympy.expand(found.drift - printed) == 0
    tanh = KERNEL.diffusion("sqrt(n)*tanh(z/sqrt(n))")
    assert sympy.expand(tanh.drift + cross * (K[1, 1] + K[2, 2] - 2)) == 0
    assert tanh.noise == found.noise


def test_orthogonal_layers_have_no_noise_at_this_depth():
    found = recursion(["z", "z"], "orthogonal").diffusion("sqrt(n)*tanh(z/sqrt(n))")
    assert found.noise == 0
    assert found.drift == KERNEL.diffusion("sqrt(n)*tanh(z/sqrt(n))").drift


@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_one_input_has_the_spread_of_the_walk(law):
    found = recursion("K", law).single_input().diffusion("relu")
    spread = walk(Network("relu", law, C_W=2)).spread
    assert (found.drift, found.variance) == (0, 2)
    assert found.noise == spread * symbols.K**2


@pytest.mark.slow
def test_blocks_with_skips():
    """γ² = 1/4 and C_W² = 3/4: both matrices add lengths, and γz · W_2 h the cross term."""
    found = recursion(["z", "z"], layer="residual(skip=1/2)").diffusion("z*(1 + 1/sqrt(n))")
    cross, lengths = 2 * R(1, 4) * R(3, 4), 2 * R(3, 4) ** 2
    assert sympy.simplify(found.noise - (cross + lengths) * WISHART) == 0
    small = recursion(["z", "z"], layer="residual(skip=1)").diffusion("relu", 1 / sympy.sqrt(n))
    assert small.noise == 0
    one = dict.fromkeys(small.drift.atoms(Component), sympy.S.One)
    assert sympy.simplify(small.drift.xreplace(one)) == R(1, 2)  # C_W² ⟨σσ⟩


def test_the_network_keeps_one_length():
    found = KERNEL.diffusion("sqrt(n)*tanh(z/sqrt(n))").network(64)
    sigma = found.one_activation("this test")
    assert float(found.weights.C_W * sigma.average((0, 0), 1)) == pytest.approx(1, rel=1e-12)
    for variance in (1 + 2 / n, "1 + 2/n"):
        given = KERNEL.diffusion("sqrt(n)*tanh(z/sqrt(n))", C_W=variance).network(64)
        assert R(33, 32) == given.weights.C_W
    with pytest.raises(InputError, match="width n"):
        KERNEL.diffusion("sqrt(n)*tanh(z/sqrt(n))", C_W="m")


def test_an_open_activation_is_shown():
    text = str(recursion(["z", "z"], layer="residual(skip=1)").diffusion())
    assert "n*(C_W*⟨σ₁ σ₂⟩_h" in text
    assert "Σ[1,2,3,4] = " in text


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: KERNEL.diffusion("relu"), "order 1/n"),
        (lambda: KERNEL.diffusion(activations.tanh), "closed form"),
        (lambda: recursion("V").diffusion(), "recursion of K"),
        (lambda: KERNEL.diffusion(3), "an activation"),
        (lambda: KERNEL.diffusion(C_W=2), "open"),
        (lambda: KERNEL.diffusion("z + sqrt(n)*abs(z)"), "series"),
        (lambda: KERNEL.diffusion("sqrt(n)*asinh(z/sqrt(n))"), "an expression in z and the width"),
        (lambda: recursion(["z", "z"], layer="residual(skip=1)").diffusion("relu"), "C_W > 0"),
        (lambda: recursion("K", layer="convolution(2, 3)").diffusion(), "positions"),
    ],
)
def test_what_is_refused(call, reason):
    with pytest.raises(InputError, match=reason):
        call()
