"""Weight ensembles: pairing matrices against matrix products, limits, samples, series."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy

from derivations.moments.haar import orthogonal, stiefel
from derive.arithmetic import Expansion
from derive.errors import InputError
from derive.groups import class_size, coset_type, pair_partitions, partitions, weingarten
from derive.recursions import recursion
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)

n, g, r_in, r_out = sympy.symbols("n gamma r_in r_out", positive=True)
p1, p2, p3 = sympy.symbols("p1 p2 p3", positive=True)

ALL: list[WeightEnsemble] = [
    Gaussian(),
    Orthogonal(),
    Truncated(ratio=2),
    LowRankGaussian(gamma=g),
    LowRankOrthogonal(gamma=g),
    LowRankOrthogonal(gamma=sympy.Rational(1, 4)),
    BiInvariant(moments=(p1, p2, p3)),
    BiInvariant(moments=(1, 2.5, 7)),
]


def is_zero(expression: sympy.Expr) -> bool:
    return sympy.cancel(sympy.together(expression)) == 0


def of_order(expression: sympy.Expr, order: int) -> bool:
    """Whether a rational function of n is O(n^{-order})."""
    numerator, denominator = sympy.fraction(sympy.together(expression))
    top = sympy.Poly(sympy.expand(numerator), n)
    return top.is_zero or top.degree() <= sympy.Poly(sympy.expand(denominator), n).degree() - order


def as_sympy(expansion: Expansion) -> sympy.Expr:
    return sum(
        sympy.Rational(value.numerator, value.denominator)
        * sympy.prod([sympy.Symbol(atom.name, positive=True) ** e for atom, e in mono])
        * n**-power
        for (mono, power), value in expansion.items()
    )


@pytest.mark.parametrize("weights", ALL, ids=str)
def test_the_variance_is_C_W_over_n_in(weights: WeightEnsemble) -> None:
    assert is_zero(weights.coefficient((1,), n, n) - 1 / n)


@pytest.mark.parametrize("weights", ALL, ids=str)
def test_expansion_is_that_of_the_coefficient(weights: WeightEnsemble) -> None:
    for k in (1, 2, 3):
        for mu in partitions(k):
            series = as_sympy(weights.expansion(mu, k + 3, True))
            assert of_order(weights.coefficient(mu, n, n) - series, k + 4)


@pytest.mark.parametrize("weights", ALL, ids=str)
def test_rectangular_expansion(weights: WeightEnsemble) -> None:
    big = sympy.Symbol("r_big", positive=True)
    wide = isinstance(weights, Orthogonal | Truncated)
    for mu in partitions(2):
        series = as_sympy(weights.expansion(mu, 5, False))
        if wide:
            series = series.subs({big: 3, r_in: 2})
            exact = weights.coefficient(mu, 2 * n, 3 * n)
        else:
            exact = weights.coefficient(mu, r_in * n, r_out * n)
        assert of_order(exact - series, 6)


def by_matrices(k: int, size_out: sympy.Expr, middle, size_in: sympy.Expr) -> sympy.Expr:
    """Wg_{n_out} · M · Wg_{n_in} with (2k−1)!!² matrices, by type."""
    pairings = pair_partitions(2 * k)
    left = sympy.Matrix(
        [[weingarten(coset_type(p, q), size_out) for q in pairings] for p in pairings]
    )
    right = sympy.Matrix(
        [[weingarten(coset_type(p, q), size_in) for q in pairings] for p in pairings]
    )
    core = sympy.Matrix([[middle(coset_type(p, q)) for q in pairings] for p in pairings])
    found = left * core * right
    return {coset_type(pairings[0], q): found[0, b] for b, q in enumerate(pairings)}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_bi_invariant_is_the_matrix_product(k: int) -> None:
    """C = Wg · (loop traces of S) · Wg, here at widths 7 → 5."""
    moments = (sympy.Integer(2), sympy.Integer(7), sympy.Integer(30))
    expected = by_matrices(
        k, sympy.Integer(5), lambda mu: sympy.prod([7 * moments[part - 1] for part in mu]), 7
    )
    scale = sympy.Rational(5, 7 * 2) ** k
    for mu in partitions(k):
        found = BiInvariant(moments=moments).coefficient(mu, sympy.Integer(7), sympy.Integer(5))
        assert found == scale * expected[mu]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_low_rank_is_the_matrix_product(k: int) -> None:
    """C = Wg · n^{loops}-Gram of rank 3 · Wg at widths 7 → 6."""
    gram = by_matrices(k, sympy.Integer(6), lambda mu: 3 ** len(mu), 7)
    for mu in partitions(k):
        found = LowRankOrthogonal(gamma=0.5).coefficient(mu, sympy.Integer(7), sympy.Integer(6))
        assert found == 2**k * gram[mu]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_limits(k: int) -> None:
    for mu in partitions(k):
        orthogonal_case = Orthogonal().coefficient(mu, n, n)
        for weights in (
            LowRankOrthogonal(gamma=1),
            Truncated(ratio=1),
            BiInvariant(moments=(3, 9, 27)),
        ):
            assert is_zero(weights.coefficient(mu, n, n) - orthogonal_case)
        full_rank = LowRankGaussian(gamma=1).coefficient(mu, n, n)
        assert is_zero(full_rank - Gaussian().coefficient(mu, n, n))
        far = Truncated(ratio=g).coefficient(mu, n, n)
        assert sympy.limit(far, g, sympy.oo) == Gaussian().coefficient(mu, n, n)


def moment(
    weights: WeightEnsemble, rows: list[int], cols: list[int], n_in: int, n_out: int
) -> float:
    pairings = pair_partitions(len(rows))
    alike = [
        [p for p in pairings if all(side[a] == side[b] for a, b in p)] for side in (rows, cols)
    ]
    sizes = sympy.Integer(n_in), sympy.Integer(n_out)
    return float(sum(weights.coefficient(coset_type(p, q), *sizes) for p, q in product(*alike)))


def draw(weights: WeightEnsemble, n_in: int, n_out: int, draws: int) -> np.ndarray:
    """The ensembles spelt out with explicit matrices, C_W = 1."""
    if isinstance(weights, LowRankGaussian | LowRankOrthogonal):
        rank = int(weights.gamma * n_out)
        frames = stiefel(n_out, rank, draws, 1)
        if isinstance(weights, LowRankOrthogonal):
            other = stiefel(n_in, rank, draws, 2)
            return frames @ other.transpose(0, 2, 1) / np.sqrt(float(weights.gamma))
        scale = np.sqrt(float(weights.gamma) * n_in)
        return frames @ np.random.default_rng(3).standard_normal((draws, rank, n_in)) / scale
    if isinstance(weights, Truncated):
        big = int(weights.ratio * max(n_in, n_out))
        return orthogonal(big, draws, 4)[:, :n_out, :n_in] * np.sqrt(big / n_in)
    assert isinstance(weights, BiInvariant)
    values = np.array([2.0, 1.0, 1.0])
    middle = np.zeros((n_out, n_in))
    np.fill_diagonal(middle, values)
    product = orthogonal(n_out, draws, 5) @ middle @ orthogonal(n_in, draws, 6)
    return product * np.sqrt(n_out / (n_in * float(weights.moments[0])))


@pytest.mark.parametrize(
    ("weights", "n_in", "n_out"),
    [
        (LowRankGaussian(gamma=0.5), 3, 4),
        (LowRankOrthogonal(gamma=0.5), 3, 4),
        (LowRankOrthogonal(gamma=0.5), 2, 2),
        (Truncated(ratio=2), 3, 2),
        (BiInvariant(moments=(2, 6, 22)), 3, 3),
        (BiInvariant(moments=(sympy.Rational(3, 2), sympy.Rational(9, 2))), 4, 3),
    ],
    ids=str,
)
def test_against_samples(weights: WeightEnsemble, n_in: int, n_out: int) -> None:
    """Fourth moments of spelt-out matrices, |z| ≤ 5 in 24 comparisons (1 false alarm in 70 000)."""
    samples = draw(weights, n_in, n_out, 40_000)
    patterns = [
        ([1, 1, 1, 1], [1, 1, 1, 1]),
        ([1, 1, 2, 2], [1, 1, 2, 2]),
        ([1, 1, 2, 2], [1, 2, 1, 2]),
        ([1, 1, 1, 1], [1, 1, 2, 2]),
    ]
    for rows, cols in patterns:
        values = samples[:, np.array(rows) - 1, np.array(cols) - 1].prod(axis=1)
        error = values.std(ddof=1) / np.sqrt(values.size)
        assert abs(values.mean() - moment(weights, rows, cols, n_in, n_out)) < 5 * error


def test_row_sum_of_the_projector_law() -> None:
    """|W x|² of a rank-r projector is Beta(r/2, (n−r)/2): its moments are row sums of C."""
    r = g * n
    for k in (1, 2, 3):
        total = sum(
            class_size(mu) * LowRankOrthogonal(gamma=g).coefficient(mu, n, n)
            for mu in partitions(k)
        )
        beta = sympy.prod([(r + 2 * j) / (n + 2 * j) for j in range(k)])
        # E (W_11)^{2k} = (2k−1)!! · row sum, and |W x|² = Σ of n such rows: E|W x|^{2k}
        assert is_zero(total * sympy.prod([n + 2 * j for j in range(k)]) - beta / g**k)


def test_names_and_text() -> None:
    assert str(LowRankOrthogonal(gamma=0.25, C_W=2)) == "LowRankOrthogonal(C_W=2, gamma=1/4)"
    assert LowRankGaussian(gamma=0.25).name == "low-rank-gaussian"
    assert hash(BiInvariant(moments=(1, 2))) == hash(BiInvariant(moments=(1, 2)))


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: LowRankGaussian(gamma=0), "gamma"),
        (lambda: LowRankOrthogonal(gamma=1.5), "gamma"),
        (lambda: LowRankOrthogonal(gamma="a"), "gamma"),
        (lambda: Truncated(ratio=0.5), "ratio"),
        (lambda: BiInvariant(moments=3), "moments"),
        (lambda: BiInvariant(moments=(-1, 2)), "moments"),
        (lambda: BiInvariant(moments=(1,)).coefficient((2,), n, n), "moments"),
        (lambda: LowRankGaussian(gamma=0.3).coefficient((1,), sympy.S(4), sympy.S(4)), "gamma"),
        (lambda: LowRankOrthogonal(gamma=1).coefficient((1,), sympy.S(2), sympy.S(4)), "gamma"),
        (lambda: Gaussian(C_W=-1), "C_W"),
        (lambda: Gaussian(C_W=sympy.oo), "C_W"),
        (lambda: Orthogonal().coefficient((1,), n, g), "n_in"),
    ],
)
def test_bad_input(make, argument: str) -> None:
    with pytest.raises(InputError, match=argument):
        make()


@pytest.mark.parametrize("name", ["K", "G1", "V"])
def test_symbols_of_an_ensemble_reach_the_recursion(name):
    """κ(z⁴) of low-rank weights, γ a symbol: at γ = 1 it is that of the full ensemble."""
    gamma = sympy.Symbol("g", positive=True)
    for low, full in ((LowRankGaussian, Gaussian), (LowRankOrthogonal, Orthogonal)):
        made = recursion(name, weights=low(gamma=gamma)).single_input().expr
        expected = recursion(name, weights=low(gamma=sympy.Rational(1, 3))).single_input().expr
        assert sympy.expand(made.subs(gamma, sympy.Rational(1, 3)) - expected) == 0
        if low is LowRankOrthogonal:
            whole = recursion(name, weights=full()).single_input().expr
            assert sympy.expand(made.subs(gamma, 1) - whole) == 0


def test_an_ensemble_without_moments_has_symbols_for_them():
    found = BiInvariant(2).free_symbols
    assert {str(each) for each in found} == {f"m_{j}" for j in range(2, 17)}
