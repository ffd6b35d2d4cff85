"""Haar moments: routes against each other, identities of the groups, symbols, samples, parsing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derivations.moments.haar import check, orthogonal, stiefel, symplectic, unitary
from derive.errors import InputError
from derive.groups import coset_type, elements_of, haar_moment, parse_moment, sums, weingarten
from derive.groups.moments import Moment

n = sympy.Symbol("n")


def moment(text: str, size: sympy.Expr | int = n, group: str = "O") -> sympy.Expr:
    return parse_moment(text).average(size, group)


def naive(rows: list[int], cols: list[int], size: sympy.Expr | int) -> sympy.Expr:
    """The double sum over pairings, without a thought."""
    pairings = elements_of(len(rows) // 2)
    alike = [
        [p for p in pairings if all(side[a] == side[b] for a, b in p)] for side in (rows, cols)
    ]
    return sympy.cancel(sum(weingarten(coset_type(p, q), size) for p, q in product(*alike)))


@st.composite
def indices(draw: st.DrawFn, pairs: int = 3, largest: int = 3) -> tuple[list[int], list[int]]:
    """Rows and columns in which every index occurs evenly, so that not all averages vanish."""
    k = draw(st.integers(1, pairs))
    sides = []
    for _ in range(2):
        half = draw(st.lists(st.integers(1, largest), min_size=k, max_size=k))
        sides.append(draw(st.permutations(half * 2)))
    return sides[0], sides[1]


@given(indices())
def test_against_the_naive_sum(lists: tuple[list[int], list[int]]) -> None:
    rows, cols = lists
    assert sympy.cancel(haar_moment(rows, cols, n) - naive(rows, cols, n)) == 0
    assert haar_moment(rows, cols, 3) == naive(rows, cols, 3)


@pytest.fixture
def column_route(monkeypatch: pytest.MonkeyPatch):
    def average(*args, **kwargs):
        with monkeypatch.context() as patch:
            patch.setattr(sums, "DIRECT_LIMIT", 0)
            return haar_moment(*args, **kwargs)

    return average


def test_both_routes_agree(column_route) -> None:
    random = np.random.default_rng(3)
    nonzero = 0
    for _ in range(150):
        group = str(random.choice(["O", "U", "Sp"]))
        size, k = int(random.choice([2, 4, 6])), int(random.integers(1, 4))
        rows, cols = (random.integers(1, size + 1, k).tolist() for _ in range(2))
        if group == "O":
            lists = {"rows": rows * 2, "cols": [*cols, *random.permutation(cols).tolist()]}
        elif group == "U" or random.random() < 0.5:
            shuffled = (random.permutation(side).tolist() for side in (rows, cols))
            lists = {"rows": rows, "cols": cols}
            lists |= dict(zip(("conj_rows", "conj_cols"), shuffled, strict=True))
        else:
            partner = [[(i + size // 2 - 1) % size + 1 for i in side] for side in (rows, cols)]
            lists = {"rows": rows + partner[0], "cols": cols + partner[1]}
        expected = haar_moment(**lists, n=size, group=group)
        assert column_route(**lists, n=size, group=group) == expected
        nonzero += expected != 0
    assert nonzero > 50


def test_routes_agree_for_symbolic_n(column_route) -> None:
    for text, group in [
        ("O[1,1]^4*O[2,2]^2*O[1,2]^2", "O"),
        ("|U[1,1]|^4*U[1,2]*U[2,1]*conj(U[1,1])*conj(U[2,2])", "U"),
        ("|S[1,1]|^4*|S[2,1]|^2*|S[2,2]|^2", "Sp"),
    ]:
        lists = parse_moment(text)._asdict()
        difference = column_route(**lists, n=n, group=group) - haar_moment(
            **lists, n=n, group=group
        )
        assert sympy.cancel(difference) == 0


@given(indices(), st.permutations([1, 2, 3]), st.permutations([1, 2, 3]))
def test_permuting_rows_and_columns_and_transposing(
    lists: tuple[list[int], list[int]], rows: list[int], cols: list[int]
) -> None:
    expected = haar_moment(*lists, n)
    moved = haar_moment([rows[i - 1] for i in lists[0]], [cols[j - 1] for j in lists[1]], n)
    assert moved == expected
    assert haar_moment(lists[1], lists[0], n) == expected


@settings(max_examples=25)
@given(indices(pairs=2), st.sampled_from([2, 3, 4]))
def test_columns_are_orthonormal(lists: tuple[list[int], list[int]], size: int) -> None:
    """Σ_i E[O_ia O_ib …] = δ_ab E[…], also where n < k."""
    rows, cols = ([min(i, size) for i in side] for side in lists)
    for a, b in ((1, 1), (1, 2)):
        total = sum(haar_moment([i, i, *rows], [a, b, *cols], size) for i in range(1, size + 1))
        assert total == (haar_moment(rows, cols, size) if a == b else 0)


def test_the_symplectic_form_is_kept() -> None:
    """Σ_ab J_ab E[S_a1 S_b3 |S_11|²] = J_13 E|S_11|² at n = 4."""
    form = {(1, 3): 1, (2, 4): 1, (3, 1): -1, (4, 2): -1}
    for c, d in product(range(1, 5), repeat=2):
        total = sum(
            sign * haar_moment([a, b, 1], [c, d, 1], 4, "Sp", conj_rows=[1], conj_cols=[1])
            for (a, b), sign in form.items()
        )
        assert total == form.get((c, d), 0) * sympy.Rational(1, 4)


def test_two_dimensions_by_angles() -> None:
    """O(2): rotations and reflections, E[cos^a sin^b] = the Wallis integral."""
    t = sympy.Symbol("t")
    for a, b in [(2, 0), (2, 2), (4, 2), (6, 4)]:
        integral = sympy.integrate(sympy.cos(t) ** a * sympy.sin(t) ** b, (t, 0, 2 * sympy.pi))
        expected = integral / (2 * sympy.pi)
        assert moment(f"O[1,1]^{a}" + (f"*O[1,2]^{b}" if b else ""), 2) == expected
        assert moment(f"O[1,1]^{a}" + (f"*O[2,1]^{b}" if b else ""), 2) == expected


def test_closed_forms() -> None:
    x = 1
    for j in range(5):
        x = x * (2 * j + 1) / (n + 2 * j)
    assert sympy.cancel(moment("O[1,1]^10") - x) == 0
    y = sympy.factorial(4) / sympy.prod([n + j for j in range(4)])
    assert sympy.cancel(moment("|U[1,1]|^8", group="U") - y) == 0
    assert sympy.cancel(moment("|S[1,1]|^8", group="Sp") - y) == 0
    assert moment("O[1,1]*O[2,2]*O[1,2]*O[2,1]") == weingarten((2,), n)


def test_a_cycle_is_one_weingarten_function() -> None:
    for k in (3, 12):
        text = "*".join(f"O[{i},{i}]*O[{i},{i % k + 1}]" for i in range(1, k + 1))
        assert moment(text) == weingarten((k,), n)


def test_big_integrands_at_the_widths_where_they_are_known() -> None:
    """A square block of O(n) that fills it: Π O_ij² summed over the last column is a row's norm."""
    fourth = "*".join(f"O[{i},{j}]^4" for i in (1, 2, 3) for j in (1, 2, 3))
    assert moment(fourth).subs(n, 3) == moment(fourth, 3) > 0
    squares = [f"O[{i},{j}]^2" for i in range(1, 5) for j in range(1, 5)]
    small = "*".join(squares[:-1])
    # at n = 4: Σ_j O_4j² = 1 over the last row
    last = sum(moment(f"{small}*O[4,{j}]^2", 4) for j in range(1, 5))
    assert last == moment(small, 4)
    assert moment("*".join(squares), 4) == moment("*".join(squares)).subs(n, 4)


i, j, k, m = sympy.symbols("i j k m")


@pytest.mark.parametrize("group", ["O", "U"])
def test_symbols_at_every_coincidence(group: str) -> None:
    rows, cols = [i, j, 1, k], [1, i, j, 2]
    if group == "O":
        lists = {"rows": rows, "cols": cols}
    else:
        lists = {"rows": rows[:2], "cols": cols[:2], "conj_rows": rows[2:], "conj_cols": cols[2:]}
    symbolic = haar_moment(**lists, n=n, group=group)
    assert symbolic.has(sympy.KroneckerDelta)
    for values in product((1, 2, 3), repeat=3):
        at = dict(zip((i, j, k), values, strict=True))
        concrete = {
            name: [int(sympy.sympify(x).subs(at)) for x in side] for name, side in lists.items()
        }
        expected = haar_moment(**concrete, n=n, group=group)
        assert sympy.cancel(symbolic.subs(at) - expected) == 0


def test_symplectic_symbols_at_every_coincidence() -> None:
    lists = {"rows": [i, j, 1], "cols": [1, 2, k], "conj_rows": [k], "conj_cols": [2]}
    symbolic = haar_moment(**lists, n=4, group="Sp")
    nonzero = 0
    for values in product((1, 2, 3, 4), repeat=3):
        at = dict(zip((i, j, k), values, strict=True))
        concrete = {
            name: [int(sympy.sympify(x).subs(at)) for x in side] for name, side in lists.items()
        }
        expected = haar_moment(**concrete, n=4, group="Sp")
        assert symbolic.subs(at) == expected
        nonzero += expected != 0
    assert nonzero


def test_distinct_symbols() -> None:
    assert haar_moment([i, i, j, j], [k, k, m, m], n, distinct=True) == moment("O[1,1]^2*O[2,2]^2")
    assert haar_moment([i, 1], [k, k], n, distinct=True) == 0
    assert haar_moment([i, 1], [k, k], n) == sympy.KroneckerDelta(1, i) / n
    with pytest.raises(InputError, match="distinct"):
        haar_moment([i, j, 1], [1, 1, 1], 2, distinct=True)


def test_partners_by_name() -> None:
    """Sp(n) with symbolic n: n/2 + 1 is the partner of 1, S_{11} S_{1̄1̄} = |S_11|²."""
    bar = n / 2 + 1
    assert haar_moment([1, bar], [1, bar], n, "Sp") == 1 / n
    assert haar_moment([1, bar], [bar, 1], n, "Sp") == -1 / n


@pytest.mark.parametrize(
    ("rows", "cols", "size"),
    [([0, 0], [1, 1], n), ([3, 3], [1, 1], 2), ([1, 1], [1, -2], n), ([1.5, 1.5], [1, 1], n)],
)
def test_indices_out_of_range(rows: list[object], cols: list[object], size: object) -> None:
    with pytest.raises(InputError, match="integers from 1 to"):
        haar_moment(rows, cols, size)  # type: ignore[arg-type]


def test_bad_arguments() -> None:
    with pytest.raises(InputError, match="equal length"):
        haar_moment([1], [1, 1], n)
    with pytest.raises(InputError, match="60 factors"):
        haar_moment(sympy.symbols("a:62"), sympy.symbols("b:62"), n)
    with pytest.raises(InputError, match="group"):
        haar_moment([1], [1], n, "SU")
    with pytest.raises(InputError, match="rows"):
        haar_moment(["1+1"], [1], n)


def test_odd_and_empty_products() -> None:
    assert haar_moment([], [], n) == 1
    assert haar_moment([1, 1, 1], [1, 1, 1], n) == 0
    assert haar_moment([1, 1], [1, 1], n, "U") == 0


Z_BOUND = 5
CHECKS = [
    ("O[1,1]^2*O[2,2]^2", 2, "O"),
    ("O[1,1]*O[1,2]*O[2,1]*O[2,2]", 3, "O"),
    ("O[1,1]^4*O[2,1]^2*O[2,2]^2", 3, "O"),
    ("|U[1,1]|^4*|U[2,2]|^2", 2, "U"),
    ("U[1,1]*U[2,2]*conj(U[1,2])*conj(U[2,1])", 3, "U"),
    ("|S[1,1]|^2*|S[2,2]|^2", 4, "Sp"),
    ("S[1,1]*S[2,2]*S[3,3]*S[4,4]", 4, "Sp"),
    ("S[1,1]*S[2,3]*S[3,2]*S[4,4]", 4, "Sp"),
]


@pytest.mark.parametrize(("text", "size", "group"), CHECKS)
def test_against_samples(text: str, size: int, group: str) -> None:
    """|z| ≤ 5 in 8 comparisons: a false alarm in 200 000 runs of the whole list."""
    lists = parse_moment(text)._asdict()
    assert abs(check(**lists, n=size, group=group, draws=40_000, seed=7).z) <= Z_BOUND


def test_samplers_give_group_elements() -> None:
    form = np.block([[np.zeros((2, 2)), np.eye(2)], [-np.eye(2), np.zeros((2, 2))]])
    s = symplectic(4, 5, 1)
    np.testing.assert_allclose(
        s @ form @ s.transpose(0, 2, 1), np.tile(form, (5, 1, 1)), atol=1e-13
    )
    for matrices in (orthogonal(3, 5, 1), unitary(3, 5, 1), stiefel(4, 2, 5, 1), s):
        gram = matrices.conj().transpose(0, 2, 1) @ matrices
        np.testing.assert_allclose(gram, np.tile(np.eye(gram.shape[-1]), (5, 1, 1)), atol=1e-13)
    assert np.array_equal(orthogonal(3, 5, 1), orthogonal(3, 5, 1))
    assert not np.array_equal(orthogonal(3, 5, 1), orthogonal(3, 5, 2))


def test_the_sign_fix_centres_the_entries() -> None:
    first = orthogonal(3, 20_000, 5)[:, 0, 0]
    assert abs(first.mean()) < Z_BOUND * first.std() / np.sqrt(first.size)


def test_bad_sampling() -> None:
    with pytest.raises(InputError, match="even"):
        symplectic(3, 1, 0)
    with pytest.raises(InputError, match="seed"):
        check([1, 1], [1, 1], 2, seed=-1)
    with pytest.raises(InputError, match="draws"):
        check([1, 1], [1, 1], 2, draws=1)


def test_parsing() -> None:
    assert parse_moment(" O[1,1]^2 * O[1,2]**2 ") == Moment((1, 1, 1, 1), (1, 1, 2, 2))
    assert parse_moment("U[1,2]*conj(U[i,2])") == Moment((1,), (2,), ("i",), (2,))
    assert parse_moment("|U[1,1]|^4") == Moment((1, 1), (1, 1), (1, 1), (1, 1))
    assert parse_moment("O[1,1]^2*O[i,2]").latex() == "O_{1,1}^{2} O_{i,2}"
    assert parse_moment("|U[1,1]|^2").latex("U") == r"U_{1,1} \overline{U}_{1,1}"


@given(st.text(alphabet="OUS[]()|*^,1i conj.", max_size=20))
def test_parsing_never_fails_otherwise(text: str) -> None:
    try:
        parsed = parse_moment(text)
    except InputError:
        return
    assert len(parsed.rows) == len(parsed.cols)
    assert len(parsed.conj_rows) == len(parsed.conj_cols)


@pytest.mark.parametrize(
    "text", ["", "O[1]", "O[1,1]+O[1,2]", "O[1,1]*U[1,1]", "|U[1,1]|^3", "X[1,1]", "O[1,1]^9999", 3]
)
def test_bad_text(text: object) -> None:
    with pytest.raises(InputError, match="moment"):
        parse_moment(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argument", "sizes"),
    [("draws", {"draws": 10**400}), ("draws", {"draws": 10**13}), ("n", {"n": 10**7})],
)
def test_a_check_beyond_memory_or_a_day_is_refused(argument, sizes):
    with pytest.raises(InputError, match=f"{argument}: .* would take"):
        check((1, 1), (1, 1), **{"n": 3, "draws": 100} | sizes)
    with pytest.raises(InputError, match=r"draws: .* would take \d+ years"):
        check((1, 1), (1, 1), 3000, draws=10**6)
