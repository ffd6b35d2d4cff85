"""Moments at any order, against sums over pairings at each."""

import pytest
import sympy

from derivations.day_kahn_roberts import weingarten
from derivations.moments import isotropic
from derive.groups import double_factorial_pairings, haar_moment
from derive.symbols import n


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 1), (2, 1), (1, 1, 1)])
def test_a_direction_is_a_column_of_a_haar_matrix(orders):
    symbols = sympy.symbols("a:3", positive=True, integer=True)[: len(orders)]
    any_order = isotropic.direction_moment(n, *symbols)
    rows = [row for row, order in enumerate(orders, 1) for _ in range(2 * order)]
    found = any_order.subs(dict(zip(symbols, orders, strict=True)))
    assert sympy.simplify(sympy.gammasimp(found) - haar_moment(rows, [1] * len(rows), n)) == 0


def test_a_normal_vector_is_its_length_times_a_direction():
    """The integrals over numbers, angles and the radius are three: a fault in one shows."""
    a, b = sympy.symbols("a b", positive=True, integer=True)
    normal = isotropic.normal_moment(a) * isotropic.normal_moment(b)
    direction, length = isotropic.direction_moment(n, a, b), isotropic.length_moment(a + b, n)
    assert isotropic.same(direction * length, normal) == 1
    assert isotropic.same(direction * isotropic.length_moment(a + b, n + 1), normal) != 1


@pytest.mark.parametrize("m", range(1, 6))
def test_a_normal_moment_counts_pairings(m):
    counted = double_factorial_pairings(2 * m)
    assert isotropic.pairings(isotropic.ANY).subs(isotropic.ANY, m) == counted
    assert isotropic.normal_moment(isotropic.ANY).subs(isotropic.ANY, m) == counted


def test_a_wrong_radial_integral_is_found(monkeypatch):
    """The row sums that (4.16) holds contractions against are not made of it."""
    true = isotropic.length_moment

    def wrong(m, size):
        return true(m, size if size == 1 else size + 1)

    monkeypatch.setattr(isotropic, "length_moment", wrong)
    monkeypatch.setattr(weingarten, "length_moment", wrong)
    assert not weingarten.depth_independence().holds


def test_what_differs_at_some_order_is_not_the_same():
    m = isotropic.ANY
    length = isotropic.length_moment(m, n)
    assert isotropic.same(length, 2**m * sympy.rf(n / 2, m)) == 1
    assert isotropic.same(length, 2**m * sympy.rf(n / 2 + 1, m)) != 1
    assert isotropic.same(length, n**m) != 1
