from __future__ import annotations

import doctest

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.moments import deep_linear
from derive import activations, exact, linear
from derive.errors import InputError
from derive.gaussian import Component
from derive.groups import coset_type, pair_partitions, set_partitions
from derive.network import Network
from derive.weights import BiInvariant, Gaussian, LowRankGaussian, Orthogonal, Truncated

n = sympy.Symbol("n", positive=True)
WIDTHS = sympy.symbols("n_1:7", positive=True, integer=True)


def test_doctests() -> None:
    assert doctest.testmod(linear).failed == 0


@pytest.mark.parametrize("m", range(1, 7))
def test_census_counts_contractions(m: int) -> None:
    """Every pairing's loops with one of them, counted one by one."""
    pairings = pair_partitions(2 * m)
    counted: dict[int, int] = {}
    for q in pairings:
        loops = len(coset_type(pairings[0], q))
        counted[loops] = counted.get(loops, 0) + 1
    assert linear.loop_census(m) == counted


@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_gaussian_correlator_of_symbolic_widths(m: int) -> None:
    expected = sympy.Mul(
        *(sympy.Mul(*(1 + sympy.Rational(2 * s) / width for s in range(m))) for width in WIDTHS[:5])
    )
    assert sympy.simplify(linear.correlator(m, WIDTHS) / expected) == 1


def test_one_layer_is_gaussian() -> None:
    assert [linear.correlator(m, [n]) for m in range(1, 6)] == [1] * 5
    assert [linear.connected(m, [n]) for m in range(2, 5)] == [0] * 3


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_orthogonal_correlator_does_not_depend_on_depth(m: int, depth: int) -> None:
    inverse = sympy.Mul(*(1 + 2 * s / n for s in range(m)))
    found = linear.correlator(m, [n] * depth, Orthogonal())
    assert sympy.simplify(found * inverse) == 1


def test_mixed_and_rectangular_layers_in_one_chain() -> None:
    """Numbers beside the brute-force moments of |z|² over products of frames and Gaussians."""
    kinds = [Gaussian(), Orthogonal(), Orthogonal(), Gaussian()]
    found = linear.correlator(2, [6, 4, 8, 3], kinds, inputs=5)
    rng = np.random.default_rng(3)
    x, squares = np.ones(5), []
    for _ in range(4000):
        z = x
        for kind, (fan_in, fan_out) in zip(kinds, [(5, 6), (6, 4), (4, 8), (8, 3)], strict=True):
            G = rng.standard_normal((max(fan_in, fan_out),) * 2)
            if isinstance(kind, Orthogonal):
                Q, R = np.linalg.qr(G)
                G = Q * np.sign(np.diag(R)) * np.sqrt(len(G))
            z = G[:fan_out, :fan_in] @ z / np.sqrt(fan_in)
        squares.append(z @ z / 3)
    squares = np.array(squares)
    theory = float(found * linear.contraction_factor(2, 3))
    values = squares**2
    z_score = (values.mean() - theory) / (values.std() / np.sqrt(values.size))
    assert abs(z_score) < 5
    variance = deep_linear.norm_variance([6, 4, 8, 3], kinds, inputs=5)
    assert variance + 1 == sympy.nsimplify(theory)


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()])
@pytest.mark.parametrize("samples", [(1, 2, 3, 4), (1, 1, 2, 2), (1, 2, 1, 2), (1, 2, 3, 1, 2, 3)])
def test_connected_coefficients_are_those_of_the_exact_module(weights, samples) -> None:
    net = Network(activations.linear, weights)
    name = {4: "V", 6: "U6"}[len(samples)]
    expected = exact.cumulant(name, net, 2, samples, width=n)
    found = deep_linear.coefficient(samples, [n, n], weights, connected=True)
    assert sympy.simplify(expected - n ** (len(samples) // 2 - 1) * found) == 0


@pytest.mark.parametrize(
    "weights",
    [
        Gaussian(3),
        Orthogonal(),
        Truncated(ratio=2),
        LowRankGaussian(gamma=sympy.Rational(1, 2)),
        BiInvariant(moments=(1, 2, 5)),
    ],
)
def test_one_input_is_every_coefficient_summed(weights) -> None:
    """With equal inputs every T_p is G_{2m}, by the matrix of pairings and by row sums."""
    K = Component("K0", (1, 1))
    for m in (1, 2, 3):
        whole = deep_linear.coefficient((1,) * (2 * m), [6, 6, 6], weights)
        step = deep_linear.coefficient((1, 1), [6, 6, 6], weights)
        assert step == weights.C_W**3 * K
        assert sympy.simplify(whole / step**m - linear.correlator(m, [6, 6, 6], weights)) == 0


def test_coefficients_are_invariant_under_relabelling_pairs() -> None:
    a = deep_linear.coefficient((1, 2, 3, 4, 5, 6), WIDTHS[:3], connected=True)
    b = deep_linear.coefficient((4, 3, 6, 5, 2, 1), WIDTHS[:3], connected=True)
    assert sympy.expand(a - b) == 0


def test_four_point_coefficient_by_hand() -> None:
    """Two Gaussian layers: V/n = (1/n)[K_13 K_24 + K_14 K_23]."""
    K = {(a, b): Component("K0", (a, b)) for a in range(1, 5) for b in range(a, 5)}
    found = deep_linear.coefficient((1, 2, 3, 4), [n, n], connected=True)
    assert sympy.expand(found * n - K[1, 3] * K[2, 4] - K[1, 4] * K[2, 3]) == 0


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(2, 30), min_size=1, max_size=5), st.integers(1, 5))
def test_connected_from_moments(widths: list[int], m: int) -> None:
    """Σ over set partitions of the cumulants is the moment again."""
    moments = [linear.correlator(k, widths) for k in range(1, m + 1)]
    found = linear.cumulants(moments)
    rebuilt = sum(
        sympy.prod([found[len(block) - 1] for block in blocks])
        for blocks in set_partitions(tuple(range(m)))
    )
    assert rebuilt == moments[-1]


def test_variance_of_the_norm() -> None:
    """(3.33): 2ℓ/n to leading order, exact beyond."""
    found = deep_linear.norm_variance([n] * 5)
    assert sympy.limit(n * found, n, sympy.oo) == 10
    assert sympy.expand(found - ((1 + 2 / n) ** 5 - 1)) == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, [n]), "m"),
        ((True, [n]), "m"),
        ((2, []), "widths"),
        ((2, [0]), "widths"),
        ((2, [2.5]), "widths"),
        ((2, [4, 4], [Gaussian()]), "weights"),
        ((2, [4], "gauss"), "weights"),
        ((2, [4], Gaussian(), -1), "inputs"),
        ((2, WIDTHS[:2], Orthogonal()), "n_in, n_out"),
    ],
)
def test_errors_name_the_argument(arguments, name: str) -> None:
    with pytest.raises(InputError) as caught:
        linear.correlator(*arguments)
    assert caught.value.argument == name


def test_odd_labels_are_refused() -> None:
    with pytest.raises(InputError, match="samples"):
        deep_linear.coefficient((1, 2, 3), [n])


@pytest.mark.parametrize("function", [linear.correlator, linear.connected])
def test_points_are_told_from_pairs(function):
    """Six points are m = 3: the first line of the help says so, and the error does."""
    assert "2m-point function" in function.__doc__.splitlines()[0]
    for wrong in (0, 31, 2.5):
        with pytest.raises(InputError, match="m = 3 for the six-point function"):
            function(wrong, [n])
