"""Weingarten functions: orthogonality, series, pseudo-inverses; spherical functions."""

from __future__ import annotations

import inspect
from math import comb, factorial, prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.moments.gram import gram_matrix
from derive import weingarten as public
from derive.arithmetic import RationalFunction, Term
from derive.errors import InputError
from derive.groups import (
    Partition,
    class_size,
    coset_type,
    elements_of,
    laurent,
    partitions,
    series,
    spherical_functions,
    table,
    weingarten,
)
from derive.groups.zonal import invertible_functions
from derive.work import resources

n = sympy.Symbol("n")
GROUPS = ("O", "U", "Sp")
ALPHA = {"O": 2, "U": 1}


def is_zero(expression: sympy.Expr) -> bool:
    return sympy.cancel(sympy.together(expression)) == 0


@st.composite
def types(draw: st.DrawFn, largest: int = 7) -> Partition:
    return draw(st.sampled_from(partitions(draw(st.integers(1, largest)))))


def weingarten_row(k: int, size: sympy.Expr | int, group: str) -> sympy.Matrix:
    """The first row, which determines a class function, as a product of class functions is one."""
    elements = elements_of(k, group)
    values = {mu: weingarten(mu, size, group) for mu in partitions(k)}
    return sympy.Matrix([[values[coset_type(elements[0], q)] for q in elements]])


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_is_the_inverse_of_the_gram_matrix(group: str, k: int) -> None:
    product = weingarten_row(k, n, group) * gram_matrix(k, n, group)
    assert product.applyfunc(sympy.cancel) == sympy.eye(len(elements_of(k, group)))[0, :]


@pytest.mark.parametrize("group", GROUPS)
def test_four_pairs_by_brute_force(group: str) -> None:
    # At five integers more than its degree allows it would take a polynomial identity to hold by
    # accident.
    elements = elements_of(4, group)
    for size in range(8, 24, 2):
        row = weingarten_row(4, size, group)
        assert row * gram_matrix(4, size, group) == sympy.eye(len(elements))[0, :]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("k", "size"), [(2, 2), (3, 2), (3, 4), (4, 2)])
def test_pseudo_inverse_where_the_gram_matrix_is_singular(group: str, k: int, size: int) -> None:
    """With P = W G, whose first row tells it from other class functions: P G = G, P W = W and
    P = Pᵀ. Class functions commute, and W's columns are its rows."""
    elements, gram = elements_of(k, group), gram_matrix(k, size, group)
    row = weingarten_row(k, size, group)
    values = {coset_type(elements[0], q): row[j] for j, q in enumerate(elements)}
    projection = row * gram
    assert projection * gram == gram[0, :]
    of = dict(zip(elements, projection, strict=True))
    for mu in partitions(k):
        (at,) = [q for q in elements if coset_type(elements[0], q) == mu][:1]
        column = sympy.Matrix([values[coset_type(at, q)] for q in elements])
        assert (projection * column)[0] == values[mu]
        assert {of[q] for q in elements if coset_type(elements[0], q) == mu} == {of[at]}


@pytest.mark.parametrize("group", ["O", "U"])
def test_one_dimension(group: str) -> None:
    """O(1) and U(1): each entry has modulus 1, so every δ is 1 and Σ_{pq} W = 1."""
    for k in range(1, 6):
        count = sum(class_size(mu, group) for mu in partitions(k))
        total = sum(class_size(mu, group) * weingarten(mu, 1, group) for mu in partitions(k))
        assert total * count == 1


@pytest.mark.parametrize("group", ["O", "U"])
@pytest.mark.parametrize("k", range(1, 10))
def test_row_sums(group: str, k: int) -> None:
    whole = table(k, group)
    total = RationalFunction.total(
        Term(class_size(mu, group), whole.function(mu)) for mu in partitions(k)
    ).reduced()
    assert total.numerator == 1
    assert total.poles == {ALPHA[group] * j: 1 for j in range(k)}


@given(types(9), st.sampled_from(["O", "U"]))
def test_every_relation_and_not_only_the_ones_solved(mu: Partition, group: str) -> None:
    """The orthogonality relation holds at each part ≥ 2; the solver uses the smallest one."""
    alpha = ALPHA[group]
    whole = table(sum(mu), group)
    for m in set(mu) - {1}:
        rest = list(mu)
        rest.remove(m)
        terms = [Term(1, whole.function(mu), 1), Term((alpha - 1) * (m - 1), whole.function(mu))]
        terms += [Term(1, whole.function((*rest, s, m - s))) for s in range(1, m)]
        for i, other in enumerate(rest):
            joined = (*rest[:i], *rest[i + 1 :], m + other)
            terms.append(Term(alpha * other, whole.function(joined)))
        assert RationalFunction.total(terms).numerator == 0


@given(types(), st.sampled_from(GROUPS), st.integers(0, 6))
def test_series_is_that_of_the_exact_function(mu: Partition, group: str, terms: int) -> None:
    power, coefficients = laurent(mu, terms, group)
    exact = table(sum(mu), group).function(mu)
    # n^-power W − Σ c_j n^-j must be O(n^-terms): compare degrees of numerator and denominator.
    truncated = sum(c * n ** (terms - j) for j, c in enumerate(coefficients))
    numerator, denominator = sympy.fraction(sympy.together(exact.expr(n) * n ** (terms - power)))
    rest = sympy.Poly(sympy.expand(numerator - truncated * denominator), n)
    assert rest.is_zero or rest.degree() <= sympy.Poly(denominator, n).degree()
    assert series(mu, terms - power - 1, group) == (0,) * -power + coefficients


@given(types(10))
def test_leading_term_is_a_product_of_catalan_numbers(mu: Partition) -> None:
    catalan = prod((-1) ** (m - 1) * comb(2 * m - 2, m - 1) // m for m in mu)
    k = sum(mu)
    for group in ("O", "U"):
        assert laurent(mu, 1, group) == (len(mu) - 2 * k, (catalan,))


@given(types(6))
def test_duality_of_sp_and_o(mu: Partition) -> None:
    """Sp(n) is O(−n), up to the sign of k form matrices J."""
    dual = (-1) ** sum(mu) * weingarten(mu, n, "O").subs(n, -n)
    assert is_zero(weingarten(mu, n, "Sp") - dual)


@given(types(7))
def test_unitary_duality(mu: Partition) -> None:
    """W(μ; −n) = (−1)^k (−1)^{k−ℓ} W(μ; n) for U: only every other order of 1/n occurs."""
    flipped = weingarten(mu, n, "U").subs(n, -n)
    assert is_zero(flipped - (-1) ** len(mu) * weingarten(mu, n, "U"))


@pytest.mark.parametrize("k", range(1, 8))
def test_class_sizes_count_everything(k: int) -> None:
    sizes = [class_size(mu) for mu in partitions(k)]
    assert sum(sizes) == prod(range(1, 2 * k, 2))
    assert sum(class_size(mu, "U") for mu in partitions(k)) == factorial(k)
    if k <= 4:
        elements = elements_of(k)
        found = [coset_type(elements[0], q) for q in elements]
        assert sizes == [found.count(mu) for mu in partitions(k)]


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("k", [3, 6, 7])
def test_spherical_functions_are_orthogonal(alpha: int, k: int) -> None:
    functions = spherical_functions(k, alpha)
    sizes = {mu: class_size(mu, "U" if alpha == 1 else "O") for mu in partitions(k)}
    for a in functions:
        for b in functions:
            inner = sum(sizes[mu] * a.values[mu] * b.values[mu] for mu in sizes)
            assert inner == (1 / a.weight if a is b else 0)
    assert sum(f.multiplicity for f in functions) == sum(sizes.values())


def test_spherical_functions_of_s_3() -> None:
    values = {f.shape: f.values for f in spherical_functions(3, 1)}
    assert values[3,] == {(1, 1, 1): 1, (2, 1): 1, (3,): 1}
    assert values[1, 1, 1] == {(1, 1, 1): 1, (2, 1): -1, (3,): 1}
    assert [2 * v for v in values[2, 1].values()] == [2, 0, -1]


def test_results_are_reduced_and_factored() -> None:
    assert str(weingarten((1, 1), n)) == "(n + 1)/(n*(n - 1)*(n + 2))"
    assert inspect.unwrap(public) is inspect.unwrap(weingarten)


@given(types(7), st.sampled_from(GROUPS))
def test_written_as_sympy_would(mu: Partition, group: str) -> None:
    """What is put together without sympy's simplification has its order, so that == holds."""
    found = weingarten(mu, n, group)
    remade = found.func(*found.args)
    assert found == remade
    assert str(found) == str(remade)
    assert all(arg.func(*arg.args) == arg for arg in sympy.preorder_traversal(found) if arg.args)


@settings(max_examples=20)
@given(types(5), st.sampled_from(GROUPS))
def test_symbols_expressions_and_numbers_agree(mu: Partition, group: str) -> None:
    m = sympy.Symbol("m", positive=True)
    at_expression = weingarten(mu, 2 * m, group)
    assert (
        at_expression.subs(m, 8)
        == weingarten(mu, 16, group)
        == weingarten(mu, n, group).subs(n, 16)
    )


@pytest.mark.parametrize("bad", [(0, 1), (-1,), (1.5,), "21x", None, 3])
def test_bad_partitions(bad: object) -> None:
    with pytest.raises(InputError, match="partition"):
        weingarten(bad, n)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("size", "group"),
    [(0, "O"), (-3, "O"), (2.5, "U"), (3, "Sp"), (sympy.nan, "O"), ("n", "O"), (True, "U")],
)
def test_bad_dimensions(size: object, group: str) -> None:
    with pytest.raises(InputError, match="n: got"):
        weingarten((1,), size, group)  # type: ignore[arg-type]


def test_bad_groups_and_orders() -> None:
    with pytest.raises(InputError, match="group"):
        weingarten((1,), n, "SO")
    with pytest.raises(InputError, match="order"):
        series((1,), -1)
    with pytest.raises(InputError, match="terms"):
        laurent((1,), -1)
    with pytest.raises(InputError, match="partition"):
        table(3).function((2,))
    with pytest.raises(InputError, match="k"):
        table(-1)


@pytest.mark.parametrize(("group", "n"), [("O", 3), ("U", 3), ("Sp", 4)])
def test_a_singular_gram_matrix_needs_only_what_does_not_vanish(group, n, monkeypatch):
    alpha, size = ALPHA.get(group, 2), -n if group == "Sp" else n
    kept = invertible_functions(7, alpha, size)
    assert 0 < len(kept) < len(partitions(7))
    others = {each.shape: each for each in spherical_functions(7, alpha)}
    for each in kept:
        assert each == others.pop(each.shape)
        assert 0 not in {size + content for content in each.contents}
    for each in others.values():
        assert -size in each.contents
    monkeypatch.setattr(resources, "memory", lambda: 2**30)
    with pytest.raises(InputError, match="zonal functions of up to 30 pairs would take"):
        weingarten((30,), 28, group)
