from __future__ import annotations

import doctest

import pytest
import sympy

from derivations.pdlt import ratio_limits as limits
from derivations.pdlt.ratio_limits import m, n, r
from derive import linear


def test_doctests() -> None:
    assert doctest.testmod(limits).failed == 0


@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_log_factor_is_the_series_of_the_logarithm(pairs: int) -> None:
    x = sympy.Symbol("x", positive=True)
    log = sum(sympy.log(1 + 2 * s * x) for s in range(pairs))
    series = sympy.series(log, x, 0, 5).removeO()
    found = [value.subs(m, pairs) for value in limits.log_factor(4)]
    assert [series.coeff(x, k) for k in range(1, 5)] == found


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_interpolation_misses_by_the_next_order(terms: int) -> None:
    """n^terms × the error stays bounded while n grows: exact correlators at L = n/2."""
    approximation = limits.interpolation(terms).subs({m: 3, r: sympy.Rational(1, 2)})
    scaled = []
    for width in (200, 400, 800):
        exact = sympy.Rational((width + 2) * (width + 4), width**2) ** (width // 2 - 1)
        error = (exact - approximation.subs(n, width)).evalf(40)
        scaled.append(float(abs(error) * width**terms))
    assert scaled[2] == pytest.approx(scaled[1], rel=0.02)
    assert scaled[2] > 0


@pytest.mark.parametrize("pairs", range(1, 7))
def test_connected_correlators_count_trees(pairs: int) -> None:
    """Leading order m^{m−2} (2r)^{m−1}: one for every labelled tree (Cayley)."""
    found = limits.connected_interpolation(pairs)
    expected = (2 * r) ** (pairs - 1) * sympy.Integer(pairs) ** (pairs - 2)
    assert sympy.series(found, r, 0, pairs).removeO() == sympy.expand(expected)


def test_breakdown_is_where_the_factor_leaves_the_tolerance() -> None:
    width, depth = 50, 20
    pairs = limits.breakdown(width, depth, 0.1)
    ratios = []
    for k in (pairs - 1, pairs):
        exact = float(linear.contraction_factor(k, width)) ** (depth - 1)
        ratios.append(float(sympy.exp(sympy.Rational(k * (k - 1) * depth, width))) / exact)
    assert ratios[0] < 1.1 < ratios[1]


def test_breakdown_grows_as_a_cube_root_at_fixed_ratio() -> None:
    small, large = (limits.breakdown(width, width) for width in (1000, 8000))
    assert small < large <= 3 * small
