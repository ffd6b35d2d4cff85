"""Haar averages of symbolic indices whose sums are held or gathered, against those of integers."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.errors import InputError
from derive.groups import class_size, double_factorial_pairings, haar_moment, sums
from derive.groups.sums import PairingSum, count_pairings

n, i, j, k = sympy.symbols("n i j k")
GROUPS = ("O", "U", "Sp")


def lists_of(group: str, size: int, rows: str = "a", cols: str = "b") -> dict[str, list]:
    """2·size symbols for rows and as many for columns, half of them conjugated for U and Sp."""
    left, right = (list(sympy.symbols(f"{name}:{2 * size}")) for name in (rows, cols))
    if group == "O":
        return {"rows": left, "cols": right}
    return {
        "rows": left[:size],
        "cols": right[:size],
        "conj_rows": left[size:],
        "conj_cols": right[size:],
    }


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch):
    """haar_moment with every symbolic sum held."""

    def average(*args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(sums, "SYMBOLIC_LIMIT", 0)
            patch.setattr(sums, "COINCIDENCES", 0)
            found = haar_moment(*args, **kwargs)
        assert isinstance(found, PairingSum)
        return found

    return average


@pytest.mark.parametrize("group", GROUPS)
def test_its_terms_are_the_sum(held, group: str) -> None:
    lists = lists_of(group, 2)
    found = held(**lists, n=n, group=group)
    total = sympy.Add(*(deltas * found.function(mu) for deltas, mu in found.terms()))
    written = haar_moment(**lists, n=n, group=group)
    assert found.doit() == written
    assert found.number == len(list(found.terms()))
    nonzero = 0
    for values in product((1, 3), repeat=8):
        at = dict(zip(sorted(found.free_symbols - {n}, key=str), values, strict=True))
        concrete = found.subs({**at, n: 4})
        assert concrete.is_number
        assert concrete == total.subs({**at, n: 4})
        assert concrete == written.subs({**at, n: 4})
        nonzero += concrete != 0
    assert nonzero > 10


@pytest.mark.parametrize("side", ["a", "b"])
def test_its_terms_hold_the_deltas_of_both_sides(held, side: str) -> None:
    """Where one row, or one column, is unlike the others no pairing is left."""
    found = held(**lists_of("O", 2), n=n, group="O")
    odd = dict.fromkeys(found.free_symbols - {n}, 1) | {sympy.Symbol(f"{side}0"): 2}
    weights = [weight.subs(odd) for weight, _ in found.terms()]
    assert len(weights) == 9
    assert not any(weights)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_types_are_counted(held, group: str, size: int) -> None:
    found = held(**lists_of(group, size), n=n, group=group)
    types = [mu for _, mu in found.terms()]
    assert len(types) == found.number
    assert found.by_type() == {mu: types.count(mu) for mu in found.by_type()}
    some = found.subs({"a0": 1, f"a{2 * size - 1}": 2, "b0": 1})
    if isinstance(some, PairingSum):
        types = [mu for _, mu in some.terms()]
        assert len(types) == some.number
        assert some.by_type() == {mu: types.count(mu) for mu in set(types)}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("size", [5, 6, 8])
def test_many_symbols_are_held(group: str, size: int) -> None:
    found = haar_moment(**lists_of(group, size), n=n, group=group)
    assert isinstance(found, PairingSum)
    side = sympy.factorial(size) if group == "U" else double_factorial_pairings(2 * size)
    assert found.number == side**2
    assert sum(found.by_type().values()) == found.number
    assert found.by_type()[(size,)] == side * class_size((size,), group)
    assert f"{found.number - sums.SHOWN} terms more" in str(found)
    assert f"{found.number - sums.SHOWN} terms more" in sympy.latex(1 + found)
    ones = dict.fromkeys(found.free_symbols - {n}, 1)
    step = 2 if group == "O" else 1
    top = prod(range(1, 2 * size, 2)) if group == "O" else sympy.factorial(size)
    value = top / prod(n + step * t for t in range(size))
    assert sympy.cancel(found.subs(ones) - value) == 0
    assert sympy.cancel((1 + found / 2).subs(ones) - 1 - value / 2) == 0


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([("O", 3), ("U", 2), ("U", 3), ("Sp", 2), ("Sp", 4)]),
    st.data(),
)
def test_contracting_two_columns_of_a_held_sum(case: tuple[str, int], data: st.DataObject) -> None:
    """Σ_j E[M_{aj} M̄_{bj} …] = δ_ab E[…], of five pairs at integer dimensions."""
    group, size = case
    found = haar_moment(**lists_of(group, 5), n=size, group=group)
    last = 1 if group == "O" else 5
    indices = st.integers(1, min(size, 2))
    half = data.draw(st.lists(indices, min_size=8, max_size=8))
    names = [each for each in range(10) if each not in (0, last)]
    rows, cols = half[:4], half[4:]
    paired = dict(zip(names, rows * 2 if group != "O" else sorted(rows * 2), strict=True))
    beside = dict(zip(names, data.draw(st.permutations(cols)) + cols, strict=True))
    a, b = data.draw(indices), data.draw(indices)
    fixed = {f"a{x}": v for x, v in paired.items()} | {f"b{x}": v for x, v in beside.items()}
    rest = found(**fixed, a0=a)
    assert isinstance(rest, PairingSum)
    total = sum(rest.subs({f"a{last}": b, "b0": c, f"b{last}": c}) for c in range(1, size + 1))
    lower = {
        name: [fixed[str(symbol)] for symbol in side if str(symbol) in fixed]
        for name, side in lists_of(group, 5).items()
    }
    assert total == (haar_moment(**lower, n=size, group=group) if a == b else 0)


@st.composite
def repeated(draw: st.DrawFn) -> tuple[str, dict[str, list]]:
    """Few labels, symbols and integers, each many times: k = 3 or 4."""
    group = draw(st.sampled_from(["O", "U"]))
    size = draw(st.integers(3, 4))
    sides = []
    for labels in ([i, j, 1], [k, 1, 2]):
        half = draw(st.lists(st.sampled_from(labels), min_size=size, max_size=size))
        sides.append(half + draw(st.permutations(half)))
    names = ("rows", "cols") if group == "O" else ("rows", "cols", "conj_rows", "conj_cols")
    if group == "O":
        return group, dict(zip(names, sides, strict=True))
    parts = (sides[0][:size], sides[1][:size], sides[0][size:], sides[1][size:])
    return group, dict(zip(names, parts, strict=True))


@settings(max_examples=10, deadline=None)
@given(repeated(), st.sampled_from([n, 7]))
def test_symbols_gathered_by_coincidence(
    case: tuple[str, dict[str, list]], size: sympy.Expr | int
) -> None:
    group, lists = case
    factors = PairingSum(
        lists["rows"],
        lists["cols"],
        lists.get("conj_rows", ()),
        lists.get("conj_cols", ()),
        size,
        group,
    )
    if not isinstance(factors, PairingSum):
        return
    gathered = sums._by_coincidence(factors.factors, factors.n, group)
    assert gathered is not None
    for values in product((1, 2, 3), repeat=3):
        at = dict(zip((i, j, k), values, strict=True))
        assert sympy.cancel(gathered.subs(at) - factors.subs(at)) == 0


def test_few_symbols_many_times_are_gathered() -> None:
    fourth = [i] * 4 + [j] * 4 + [k] * 4
    found = haar_moment(fourth, fourth, n)
    assert not found.has(PairingSum)
    assert found.has(sympy.KroneckerDelta)
    one = haar_moment([1] * 12, [1] * 12, n)
    assert sympy.cancel(found.subs({i: 1, j: 1, k: 1}) - one) == 0
    diagonal = haar_moment([1] * 4 + [2] * 4 + [3] * 4, [1] * 4 + [2] * 4 + [3] * 4, n)
    assert sympy.cancel(found.subs({i: 1, j: 2, k: 3}) - diagonal) == 0
    assert isinstance(haar_moment(fourth, fourth, 4), PairingSum), "W is singular at n < k"


@given(st.sampled_from(GROUPS), st.data())
def test_pairings_are_counted_without_going_through_them(group: str, data: st.DataObject) -> None:
    labels = st.sampled_from([1, 2, i, j, n / 2 + 1, n / 2 + i] if group == "Sp" else [1, 2, i, j])
    half = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(labels, min_size=2 * half, max_size=2 * half))
    bars = 0 if group == "O" else data.draw(st.integers(0, half))
    ones = [sympy.Symbol("c")] * (2 * half)
    split = 2 * half - bars
    factors = sums.read_all(rows[:split], ones[:split], rows[split:], ones[split:], n, group)
    form = sums._forms(factors, n, group, symbolic=True)
    assert count_pairings(factors, n, group) == len(list(sums.pairings(2 * half, form)))


def test_a_held_sum_refuses_what_is_no_index() -> None:
    found = haar_moment(**lists_of("O", 5), n=n)
    with pytest.raises(InputError, match="indices"):
        found(c0=1)
    with pytest.raises(InputError, match="rows"):
        found(a0=0)
    with pytest.raises(InputError, match="rows"):
        found(n=3, a0=4)
    with pytest.raises(InputError, match="partition"):
        found.function((2, 1))
    with pytest.raises(InputError, match="60 factors"):
        haar_moment(sympy.symbols("a:62"), sympy.symbols("b:62"), n)


def test_it_is_an_expression_like_any_other() -> None:
    found = haar_moment(**lists_of("O", 5), n=n)
    assert found.func(*found.args) == found
    assert (2 * found - found - found) == 0
    assert found.diff(i) == 0
    assert found.diff(n).has(PairingSum)
    assert found.subs(n, 7).n == 7


def test_a_dense_symplectic_block_is_unitary() -> None:
    """Σ_r E[|S_r3|² Π |S_ij|²] = E[Π |S_ij|²] over the rows r of both halves, n = 6."""
    rows, cols = zip(*product((1, 2, 3), repeat=2), strict=True)
    total = sum(
        haar_moment([*rows, r], [*cols, 3], 6, "Sp", conj_rows=[*rows, r], conj_cols=[*cols, 3])
        for r in range(1, 7)
    )
    assert total == haar_moment(rows, cols, 6, "Sp", conj_rows=rows, conj_cols=cols) > 0
