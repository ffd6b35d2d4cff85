"""The walk of log K at depth in proportion to width, against moments by hand and exact networks."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy

from derive import InputError, Network, activations, layers, linear
from derive.deep import walk
from derive.symbols import C_W, L, n

A = sympy.Symbol("a", real=True)
R = sympy.Rational


def slopes(a: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """E σ² and E σ⁴ at K = 1 of slopes a and 1."""
    return (1 + a**2) / 2, R(3, 2) * (1 + a**4)


@pytest.mark.parametrize("a", [sympy.S.Zero, sympy.S.One, R(1, 2), A])
def test_one_matrix_by_moments_on_the_sphere(a):
    """|σ(z)|² of n neurons: independent for Gaussian weights, on a sphere for orthogonal ones."""
    square, fourth = slopes(a)
    sigma = activations.leaky_relu(a)
    independent = fourth / square**2 - 1
    sphere = independent - 2  # E z_1⁴ = 3n/(n + 2), E z_1² z_2² = n/(n + 2)
    for law, expected in (
        ("gaussian", independent),
        ("orthogonal", sphere),
        ("uniform", independent),
    ):
        found = walk(Network(sigma, law, C_W=1 / square))
        assert sympy.simplify(found.spread - expected) == 0
        assert sympy.simplify(found.log_mean + expected / 2) == 0
        assert found.factor == 1


def test_deep_linear_networks_are_exact_at_every_width():
    """E K^m of L − 1 layers from the exact correlators, against e^{m(m−1) s r/2}."""
    for law in ("gaussian", "orthogonal"):
        steps = walk(Network("linear", law))
        for m in (2, 3, 4):
            weights = Network("linear", law).weights
            one, two = (linear.correlator(m, [n] * k, weights) for k in (3, 4))
            factor = sympy.simplify(two / one)
            slope = sympy.limit(n * sympy.log(factor), n, sympy.oo)
            assert slope == m * (m - 1) * steps.spread / 2


@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_a_linear_branch_by_hand(law):
    """|γz + W_2 W_1 z|² given |z|: the cross term, and the lengths behind both matrices."""
    gamma, b = R(1, 2), R(3, 4)
    layer = layers.residual(skip=gamma, C=(b, 1))
    found = walk(Network("linear", law, layer=layer))
    lengths = 4 if law == "gaussian" else 0
    assert found.spread == 4 * gamma**2 * b + lengths * b**2


def test_depth_and_width_commute_for_branches_of_variance_one_over_depth():
    """s = O(1/L): the variance s L/n of log K is O(1/n) at any depth, and its mean is c/2."""
    c = sympy.Symbol("c", positive=True)
    steps = walk(Network("relu", layer=layers.residual(C=(c / L, 1))))
    assert steps.growth == c / 2
    assert steps.deep.spread == 0
    assert sympy.limit(L * steps.spread, L, sympy.oo) == 2 * c
    # in between, with lengths kept by the skip: s ~ L^{−1/2}
    between = layers.residual(
        skip=sympy.sqrt(1 - 1 / (2 * sympy.sqrt(L))), C=(1 / sympy.sqrt(L), 1)
    )
    steps = walk(Network("relu", layer=between))
    assert (steps.factor, steps.deep.spread) == (1, 0)
    assert sympy.limit(sympy.sqrt(L) * steps.spread, L, sympy.oo) == 2


def test_layers_that_alternate_are_averaged():
    net = Network("linear", "gaussian; (orthogonal; gaussian)*")
    assert (walk(net).spread, walk(net).period) == (1, 2)
    block = Network.critical("relu", layer="(residual(skip=1/2); dense)*")
    assert walk(block).growth == 0


@pytest.mark.parametrize(("law", "lengths"), [("gaussian", 2), ("orthogonal", 0), ("uniform", 2)])
def test_a_skip_around_one_matrix(law, lengths):
    """|γz + Wσ(z)|² given |z|: the cross term, the length behind W, and what neurons remember.

    σ² = Σ_k c_k he_k, and the mean of he_k over the neurons decays as γ^{kℓ}: with the steps before
    and behind it, it adds c_k² k! (1 + γ^k)/(1 − γ^k) to s, and its part of the step's mean is
    c_k² k! (1 − k/2) γ^k/(1 − γ^k). k = 2 is K itself. Linear networks have no other k."""
    linear = walk(Network("linear", f"{law}(C_W=3/4)", layer="skip(1/2)"))
    assert linear.spread == 4 * R(1, 4) * R(3, 4) + lengths * R(9, 16)
    assert (linear.drift, linear.factor) == (0, 1)
    found = walk(Network("relu", f"{law}(C_W=3/2)", layer="skip(1/2)"))
    parts = {}  # C_W² c_k² k!, c_k k! = √(2/π) he_{k−3}(0) by parts
    for k in range(1, 32, 2):
        parts[k] = R(9, 2) * sympy.factorial2(max(k - 4, -1)) ** 2 / sympy.factorial(k) / sympy.pi
    decay = {k: R(1, 2**k - 1) for k in parts}
    memory = sum(2 * parts[k] * decay[k] for k in parts)
    together = R(9, 4) * (R(5, 4) - R(1, 2))  # Σ_k c_k² k! is Var σ²
    drift = sum(parts[k] * (1 - R(k, 2)) * decay[k] for k in parts)
    assert float(found.spread) == pytest.approx(float(linear.spread + together + memory), rel=1e-12)
    assert float(found.drift) == pytest.approx(float(drift), rel=1e-12)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Network("tanh"), "power of 1/ℓ"),
        (Network("relu", C_b=1), "no biases"),
        (Network("relu", layer="(skip(1/2); dense)*"), "repeats alone"),
        (Network("relu", layer="skip(1/2, norm=rms)"), "rests at"),
        (Network("relu", layer="skip(1, norm=rms)"), "grows linearly"),
        (Network("relu", "gaussian(C_W=1/10000)", layer="skip(1)"), "remembers"),
        (Network("relu", layer=layers.skip(sympy.Symbol("gamma", positive=True))), "numbers"),
        (Network("relu", layer="normalized(rms)"), "norm"),
        (Network("relu", layer="residual(norm=rms)"), "grows linearly"),
        (Network("relu", layer="gated"), "doubly exponentially"),
        (Network("relu", C_W=2, width_ratio=2), "every layer"),
        (Network("relu", C_W=2, widths=[3, 8, 16, 8]), "every layer"),
    ],
    ids=str,
)
def test_what_has_no_such_law_says_what_happens_instead(net, reason):
    with pytest.raises(InputError, match=reason):
        walk(net)


def test_moments_of_a_step_are_those_of_exact_fractions():
    """ReLU, n = 7: Var(K'/K) = s/n exactly for Gaussian weights, s/(n + 2) for orthogonal ones."""
    width = 7
    half, fourth = Fraction(1, 2), Fraction(3, 2)
    gaussian = 4 * (fourth + (width - 1) * half**2) / width - 1
    on_sphere = 4 * (fourth + (width - 1) * half**2) / (width + 2) - 1
    assert gaussian == Fraction(5, width)
    assert on_sphere == Fraction(3, width + 2)
    relu = [walk(Network("relu", law, C_W=2)).spread for law in ("gaussian", "orthogonal")]
    assert relu == [5, 3]
    assert C_W not in relu[0].free_symbols
