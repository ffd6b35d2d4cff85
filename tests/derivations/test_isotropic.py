"""Moments at any order, against sums over pairings at each."""

import pytest
import sympy

from derivations.moments import isotropic
from derive.groups.moments import haar_moment
from derive.groups.pairings import double_factorial_pairings
from derive.symbols import n


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 1), (2, 1), (1, 1, 1)])
def test_a_direction_is_a_column_of_a_haar_matrix(orders):
    symbols = sympy.symbols("a:3", positive=True, integer=True)[: len(orders)]
    any_order = isotropic.direction_moment(n, *symbols)
    rows = [row for row, order in enumerate(orders, 1) for _ in range(2 * order)]
    found = any_order.subs(dict(zip(symbols, orders, strict=True)))
    assert sympy.simplify(sympy.gammasimp(found) - haar_moment(rows, [1] * len(rows), n)) == 0


@pytest.mark.parametrize("m", range(1, 6))
def test_a_normal_moment_counts_pairings(m):
    counted = double_factorial_pairings(2 * m)
    assert isotropic.pairings(isotropic.ANY).subs(isotropic.ANY, m) == counted
    assert isotropic.normal_moment(isotropic.ANY).subs(isotropic.ANY, m) == counted


def test_what_differs_at_some_order_is_not_the_same():
    m = isotropic.ANY
    length = isotropic.length_moment(m, n)
    assert isotropic.same(length, 2**m * sympy.rf(n / 2, m)) == 1
    assert isotropic.same(length, 2**m * sympy.rf(n / 2 + 1, m)) != 1
    assert isotropic.same(length, n**m) != 1
