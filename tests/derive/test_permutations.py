"""Averages over permutation matrices and signed ones: by counting all of them, and as sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import factorial, prod

import pytest
import sympy

from derivations.moments.gram import gram_matrix
from derive import InputError, groups, haar_moment, weingarten
from derive.groups import (
    elements_of,
    even_partitions,
    laurent,
    refining_partitions,
    series,
    set_partitions,
)

GROUPS = ("S", "B")
n = sympy.Symbol("n")


def counted(rows, cols, size, group):
    """The average over every matrix of the group."""
    total = 0
    for image in permutations(range(size)):
        for signs in product((1, -1), repeat=size) if group == "B" else [(1,) * size]:
            total += prod(
                signs[j - 1] if image[j - 1] == i - 1 else 0
                for i, j in zip(rows, cols, strict=True)
            )
    return Fraction(total, factorial(size) * (2**size if group == "B" else 1))


CASES = [
    ([1, 1], [1, 1]),
    ([1, 2], [2, 1]),
    ([1, 1, 2], [1, 1, 3]),
    ([1, 1, 2, 2], [3, 3, 1, 1]),
    ([1, 1, 2, 2], [3, 3, 3, 3]),
    ([1, 1, 1, 1], [2, 2, 2, 2]),
    ([1, 2, 1, 2], [2, 3, 2, 3]),
    ([1, 2, 3, 3], [1, 2, 3, 3]),
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [3, 4, 5])
def test_moments_are_counted(group, size):
    for rows, cols in CASES:
        expected = counted(rows, cols, size, group)
        assert haar_moment(rows, cols, size, group) == expected, (rows, cols)
        assert haar_moment(rows, cols, n, group).subs(n, size) == expected


def delta(blocks, indices):
    return all(len({indices[point] for point in block}) == 1 for block in blocks)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [2, 3, 5])
def test_the_sum_of_weingarten_functions_is_the_moment(group, size):
    """Also where n has no room for as many indices as there are factors."""
    elements = elements_of(4, group)
    W = {(p, q): weingarten((p, q), size, group) for p in elements for q in elements}
    for rows, cols in CASES:
        if len(rows) != 4 or max(*rows, *cols) > size:
            continue
        total = sum(
            W[p, q] for p in elements for q in elements if delta(p, rows) and delta(q, cols)
        )
        assert total == counted(rows, cols, size, group), (rows, cols)


@pytest.mark.parametrize(("group", "k"), [("S", 2), ("S", 3), ("B", 4)])
def test_weingarten_inverts_the_gram_matrix(group, k):
    elements = elements_of(k, group)
    W = sympy.Matrix([[weingarten((p, q), n, group) for q in elements] for p in elements])
    gram = gram_matrix(k, n, group)
    assert (W * gram).applyfunc(sympy.cancel) == sympy.eye(len(elements))


@pytest.mark.parametrize("group", GROUPS)
def test_block_sizes_are_the_diagonal(group):
    pi = ((0, 1), (2, 3)) if group == "B" else ((0, 2), (1,))
    sizes = [len(block) for block in pi]
    assert weingarten(sizes, n, group) == weingarten((pi, pi), n, group)
    assert weingarten(sizes[::-1], n, group) == weingarten(sizes, n, group)


def test_the_issue_s_command():
    assert weingarten((2, 1), n, group="S") == 1 / (n * (n - 2))


@pytest.mark.parametrize(
    ("partition", "group"),
    [
        ((2, 1), "S"),
        ((3,), "S"),
        ((4,), "B"),
        ((2, 2), "B"),
        ((((0, 1), (2, 3)), ((0, 1, 2, 3),)), "B"),
        ((((0, 1), (2,)), ((0,), (1, 2))), "S"),
    ],
)
def test_series_in_one_over_n(partition, group):
    order = 6
    x = sympy.Symbol("x")
    exact = weingarten(partition, n, group).subs(n, 1 / x)
    expanded = sympy.series(sympy.cancel(exact), x, 0, order + 1).removeO()
    found = series(partition, order, group)
    assert sum(c * x**j for j, c in enumerate(found)) == sympy.expand(expanded)
    power, terms = laurent(partition, 3, group)
    assert found[-power : 3 - power] == terms[: len(found) + power]


def test_symbolic_indices_are_right_for_every_coincidence():
    i, j, k = sympy.symbols("i j k")
    for group in GROUPS:
        symbolic = haar_moment([i, j, 1, 1], [k, k, 2, 2], n, group)
        for a, b, c in product((1, 2, 3), repeat=3):
            exact = haar_moment([a, b, 1, 1], [c, c, 2, 2], n, group)
            assert sympy.cancel(symbolic.subs({i: a, j: b, k: c}) - exact) == 0
        distinct = haar_moment([i, i, j, j], [k, k, 1, 1], n, group, distinct=True)
        assert distinct == 1 / (n * (n - 1))


def test_joins_and_refinements():
    assert groups.permutations.join(((0, 1), (2, 3)), ((0, 2), (1, 3))) == ((0, 1, 2, 3),)
    evens = [len(list(even_partitions(range(k)))) for k in (0, 2, 4, 6, 8)]
    assert evens == [1, 1, 4, 31, 379]  # A005046
    inside = set(refining_partitions([(0, 1, 2, 5), (3, 4)]))
    assert inside == {
        p
        for p in (tuple(sorted(map(tuple, each))) for each in even_partitions(range(6)))
        if all(set(b) <= {0, 1, 2, 5} or set(b) <= {3, 4} for b in p)
    }
    assert len(list(set_partitions(range(5)))) == 52


@pytest.mark.parametrize(
    ("partition", "group"),
    [
        ((2, 1), "B"),
        ((2, 0), "S"),
        ("21", "S"),
        ((((0, 1),), ((0, 2),)), "S"),
        ((((0, 1),),), "S"),
        ((((0, 0),), ((0, 0),)), "S"),
        ((((0,), ()), ((0,), ())), "S"),
        ((31,), "S"),
        (3, "S"),
    ],
)
def test_what_is_no_partition(partition, group):
    with pytest.raises(InputError, match="partition"):
        weingarten(partition, n, group)


def test_what_is_no_moment():
    with pytest.raises(InputError, match="rows, cols"):
        haar_moment(sympy.symbols("a:7"), sympy.symbols("b:7"), n, "S")
    with pytest.raises(InputError, match="group"):
        haar_moment([1], [1], n, "P")
    with pytest.raises(InputError, match="cols"):
        haar_moment([1, 1], [1, 4], 3, "S")
    with pytest.raises(InputError, match="rows"):
        haar_moment([1, 2, "i"], [1, 2, 2], 2, "B", distinct=True)
