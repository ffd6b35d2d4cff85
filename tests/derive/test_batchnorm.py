from __future__ import annotations

import doctest
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.daneshmand import bounds, moments
from derive import batchnorm
from derive.batchnorm import chain, d, n
from derive.batchnorm import series as batchnorm_series
from derive.batchnorm.series import FIELD
from derive.errors import InputError
from derive.groups import pair_partitions

GOLD = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]


@pytest.mark.parametrize("module", [batchnorm, chain, batchnorm_series, bounds])
def test_doctests(module) -> None:
    assert doctest.testmod(module).failed == 0


def test_contraction_rate() -> None:
    assert sympy.simplify(batchnorm.contraction_rate() - n / (n + 2)) == 0


def test_mean_spectrum_of_two_samples() -> None:
    """n = 2: p_1 = σ_1/(σ_1 + σ_2)."""
    found = moments.mean_spectrum([Fraction(9, 10), Fraction(1, 10)])
    assert abs(found[0] - mpmath.mpf(3) / 4) < 1e-14
    assert moments.mean_eigenvalue_two(sympy.Integer(9), sympy.Integer(1), 1, 2) == (
        sympy.Rational(3, 4)
    )


def test_mean_spectrum_of_three_samples_is_carlsons() -> None:
    """n = 3: an elliptic integral, p_1 = R_D(1/λ_2, 1/λ_3, 1/λ_1)/(3 √(λ_1λ_2λ_3))."""
    with mpmath.workdps(30):
        found = moments.mean_spectrum(GOLD)
        values = [mpmath.mpf(each.numerator) / each.denominator for each in GOLD]
        root = 3 * mpmath.sqrt(mpmath.fprod(values))
        for i, p in enumerate(found):
            x, y, z = (1 / values[(i + k) % 3] for k in (1, 2, 0))
            assert abs(p - mpmath.elliprd(x, y, z) / root) < mpmath.mpf(10) ** -28


def test_mean_spectrum_with_two_values_is_hypergeometric() -> None:
    found = moments.mean_spectrum([Fraction(7, 10), *[Fraction(1, 10)] * 3])
    large, small = sympy.Rational(7, 10), sympy.Rational(1, 10)
    assert abs(found[0] - moments.mean_eigenvalue_two(large, small, 1, 4).evalf()) < 1e-14
    assert abs(found[3] - moments.mean_eigenvalue_two(small, large, 3, 4).evalf()) < 1e-14


def test_printed_integral_is_the_same_number() -> None:
    integral = moments.mean_eigenvalue([sympy.Rational(v) for v in GOLD], 2)
    value = mpmath.quad(
        sympy.lambdify(batchnorm.theta, integral.function, "mpmath"), [0, 1, mpmath.inf]
    )
    assert abs(value - moments.mean_spectrum(GOLD)[2]) < 1e-12
    enclosed = bounds.mean_spectrum(bounds.spectrum(GOLD))[2]
    assert (
        enclosed.contains(bounds.arb(str(moments.mean_spectrum(GOLD)[2])))
        or abs(float(enclosed) - float(value)) < 1e-14
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.fractions(Fraction(1, 1000), 1), min_size=2, max_size=6))
def test_mean_spectrum_is_a_spectrum(values: list[Fraction]) -> None:
    """Σ p = 1; order is kept; Σ_j q_ij = p_i."""
    total = sum(values)
    eigenvalues = [value / total for value in values]
    found = moments.mean_spectrum(eigenvalues)
    assert abs(mpmath.fsum(found) - 1) < 1e-13
    order = np.argsort([float(value) for value in eigenvalues], kind="stable")
    assert all(found[a] <= found[b] + 1e-13 for a, b in pairwise(order))
    fourth = moments.fourth_moments(eigenvalues)
    for i in range(len(values)):
        assert abs(mpmath.fsum(fourth[i, j] for j in range(len(values))) - found[i]) < 1e-13


def test_fourth_moments_at_orthogonality() -> None:
    found = moments.fourth_moments([Fraction(1, 5)] * 5)
    assert abs(found[0, 0] - mpmath.mpf(3) / 35) < 1e-14
    assert abs(found[0, 1] - mpmath.mpf(1) / 35) < 1e-14


def test_noise_has_no_trace() -> None:
    a, b = moments.noise_covariance()
    assert sympy.simplify(2 * a + n * b) == 0
    total = a * (n**2 + n) + b * n  # E|ξ|², exactly (1 − 1/n)/d
    assert sympy.simplify(total - (1 - 1 / n) / d) == 0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_mean_series_is_the_expansion_of_the_integral(order: int) -> None:
    """The remainder falls as the next power of the distance from orthogonality."""
    direction = [mpmath.mpf(v) for v in (3, -1, 1, -2, -1)]
    delta = sympy.Symbol("delta")  # P's eigenvalue at C's eigenvalue (1 + δ)/n, t_k = Σ_j δ_j^k
    terms = batchnorm_series.by_forms(batchnorm_series.mean_form(order)).items()
    series = n * sum(value.as_expr() * delta**k for (k,), value in terms)
    remainders = []
    with mpmath.workdps(40):
        for scale in (mpmath.mpf("1e-2"), mpmath.mpf("5e-3")):
            deltas = [scale * v for v in direction]
            exact = moments.mean_spectrum([sympy.Rational(str(1 + v)) / 5 for v in deltas])[0]
            values = {n: 5, sympy.Symbol("delta"): sympy.Float(str(deltas[0]), 40)}
            for k in range(2, 5):
                power = mpmath.fsum(v**k for v in deltas)
                values[sympy.Symbol(f"t{k}")] = sympy.Float(str(power), 40)
            remainders.append(abs(5 * exact - mpmath.mpf(str(series.subs(values).evalf(40)))))
    ratio = float(mpmath.log(remainders[0] / remainders[1], 2))
    assert abs(ratio - (order + 1)) < 0.1


@pytest.mark.parametrize(
    ("forms", "legs"),
    [((), 1), ((1,), 1), ((1, 1), 1), ((1, 2), 1), ((1, 1, 2), 1), ((1,), 2), ((1, 2), 2)],
)
def test_uniform_averages_are_sums_over_pairings(forms: tuple[int, ...], legs: int) -> None:
    """E (x·u)^{2 legs} Π uᵀD^k u by brute force: every pairing, with explicit matrices."""
    D = np.array([[1, 2, 0], [2, -3, 1], [0, 1, 2]])
    x = np.array([1, -2, 3])
    matrices = [*[np.outer(x, x)] * legs, *(np.linalg.matrix_power(D, k) for k in forms)]
    size, total = len(matrices), 0
    for pairing in pair_partitions(2 * size):
        for index in product(range(3), repeat=size):
            points = [0] * (2 * size)
            for value, (a, b) in zip(index, pairing, strict=True):
                points[a] = points[b] = value
            total += np.prod([m[points[2 * k], points[2 * k + 1]] for k, m in enumerate(matrices)])
    norm = np.prod([3 + 2 * k for k in range(size)])
    found = batchnorm_series._uniform(tuple(sorted(forms)), legs).as_expr()
    values = {n: 3}
    for k in range(batchnorm_series.DEGREE + 1):
        power = np.linalg.matrix_power(D, k)
        values[sympy.Symbol(f"x{k}")] = int(x @ power @ x)
        values[sympy.Symbol(f"t{k}")] = int(np.trace(power))
    assert found.subs(values) == sympy.Rational(int(total), int(norm))


def test_a_row_has_length_one() -> None:
    """E uᵀu Π … = E Π …: the weight is normalised at every order."""
    assert batchnorm_series.mean((), 4) == batchnorm_series.RING.one
    P = batchnorm_series.mean_form(4)
    traces = sum(
        (value * batchnorm_series.trace(k) for (k,), value in batchnorm_series.by_forms(P).items()),
        start=batchnorm_series.RING.zero,
    )
    assert batchnorm_series.truncated(traces, 4) == batchnorm_series.RING.one


def test_gaussian_moments_of_traceless_matrices() -> None:
    """By brute force with explicit covariance at n = 3."""
    size = 3
    delta = np.eye(size)

    def covariance(i, j, k, m):
        pair = (delta[i, k] * delta[j, m] + delta[i, m] * delta[j, k]) / 2
        return pair - delta[i, j] * delta[k, m] / size

    cases = {(2,): [(0, 1), (1, 0)], (4,): [(0, 1), (1, 2), (2, 3), (3, 0)]}
    cases[2, 2] = [(0, 1), (1, 0), (2, 3), (3, 2)]
    for powers, entries in cases.items():
        points = 1 + max(max(entry) for entry in entries)
        total = 0.0
        for index in product(range(size), repeat=points):
            factors = [(index[a], index[b]) for a, b in entries]
            for pairing in pair_partitions(len(factors)):
                total += np.prod([covariance(*factors[a], *factors[b]) for a, b in pairing])
        found = FIELD.to_sympy(chain.wick(powers)).subs(n, size)
        assert float(found) == pytest.approx(total)


def test_fourth_cumulant_vanishes_at_leading_order() -> None:
    """E t_2² that a step leaves unchanged is the Gaussian one: two derivations of one number."""
    moments = chain.stationary()
    again = {powers: dict(orders) for powers, orders in moments.items()}
    chain._solve(again, (2, 2), chain._steps()[2], 2)
    assert again[2, 2][2] == moments[2, 2][2]


def test_fourth_moment_by_edgeworth_is_the_direct_one() -> None:
    moments = chain.stationary()
    _, correction = chain.norm_moment(4)
    direct = FIELD.to_sympy(moments[2, 2][3] / moments[2, 2][2])
    assert sympy.simplify(correction - direct) == 0


def test_leading_gap_from_rate_and_noise() -> None:
    """E V² = E|ξ|²/(1 − rate²): the geometric series of contracted noise."""
    rate = batchnorm.contraction_rate()
    series = (1 - 1 / n) / d / (1 - rate**2)
    assert sympy.simplify(batchnorm.stationary_gap(terms=1) - series) == 0


def test_two_samples_exactly() -> None:
    """n = 2: C is one angle, and the chain can be integrated: C_12 by quadrature over its law.

    With x = 2C_12, x' is the mean of d cosines with E = tan(½ asin x)-like p: here only the
    exactly known one-step identity E V'² = 1/(2d) + (1 − 1/d)(p_1 − p_2)²/2 is used, averaged over
    a long chain of the derived leading law, to order 1/d³.
    """
    # p_1 − p_2 = (σ_1 − σ_2)/(σ_1 + σ_2) with σ² = (1 ± y)/2, V² = y²/2
    y, e = sympy.symbols("y e", positive=True)
    a, b = sympy.sqrt((1 + y) / 2), sympy.sqrt((1 - y) / 2)
    square = sympy.series(((a - b) / (a + b)) ** 2, y, 0, 6).removeO()
    q2, q4 = square.coeff(y, 2), square.coeff(y, 4)
    second, fourth = (
        batchnorm.stationary_gap(moment).subs(n, 2).subs(d, 1 / e) for moment in (2, 4)
    )
    m2, m4 = 2 * second, 4 * fourth  # E y², E y⁴
    balance = m2 / 2 - e / 2 - (1 - e) * (q2 * m2 + q4 * m4) / 2
    assert sympy.series(sympy.simplify(balance), e, 0, 3).removeO() == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: batchnorm.stationary_gap(0),
        lambda: batchnorm.stationary_gap(2, 3),
        lambda: moments.mean_spectrum([1, 0]),
        lambda: moments.mean_spectrum([]),
        lambda: bounds.spectrum([1]),
        lambda: bounds.spectrum([1, -1]),
    ],
)
def test_bad_input(call) -> None:
    with pytest.raises(InputError):
        call()


SPECTRA = st.lists(st.fractions(Fraction(1, 200), 1, max_denominator=200), min_size=2, max_size=5)


@pytest.mark.parametrize("name", bounds.INEQUALITIES)
@settings(max_examples=15, deadline=None)
@given(values=SPECTRA)
def test_inequalities_in_interval_arithmetic(name: str, values: list[Fraction]) -> None:
    """Proven where the two sides are apart; never refuted."""
    eigenvalues = bounds.spectrum(values)
    bound = bounds.INEQUALITIES[name](eigenvalues)
    assert not bound.refuted
    assert bound.proven or bound.left.overlaps(bound.right)
    if len(set(eigenvalues)) > 1:
        assert bound.proven


def test_sharp_constants_are_sharp() -> None:
    """A constant one per cent smaller is refuted somewhere."""
    fmpq = bounds.fmpq
    size = 6
    near = bounds.spectrum([Fraction(10_001), *[Fraction(10_000)] * (size - 1)])
    far = bounds.spectrum([Fraction(1000), *[Fraction(1)] * (size - 1)])
    squared = sum((value**2 for value in far), fmpq(0)) - fmpq(1, size)
    assert fmpq(99, 100) ** 2 * size * (size - 1) * bounds.gap_hat(far) ** 2 < squared
    deviation = bounds.lemma_6(near).left
    assert deviation > bounds.arb(fmpq(99, 100) * fmpq(size - 1, size))
    low = bounds.spectrum([Fraction(10_000)] * (size - 1) + [Fraction(9_999)])
    left = bounds.lemma_8(low).left
    steeper = fmpq(101, 100) * fmpq(2 * size, size + 2) * low[-1]
    assert left > bounds.arb((1 - steeper) * bounds.gap_hat(low))
