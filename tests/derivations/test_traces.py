"""Averages of traces: known words, entries summed by hand, samples, series."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Adjoint, MatrixSymbol, Trace

from derivations.moments.haar import orthogonal, unitary
from derivations.pennington.traces import large_n, trace_moment
from derive.errors import InputError
from derive.groups.moments import haar_moment

n, m = sympy.symbols("n m")
R, X, A, B, C = (MatrixSymbol(name, n, n) for name in "RXABC")
G, D = MatrixSymbol("G", n, m), MatrixSymbol("D", m, m)


def same(a: sympy.Expr, b: sympy.Expr) -> bool:
    return sympy.simplify(sympy.expand(a - b)) == 0


def test_one_conjugation() -> None:
    for law, turned in (("O", R.T), ("U", Adjoint(R))):
        assert trace_moment(R * A * turned * B, R, law) == Trace(A) * Trace(B) / n
        assert same(
            trace_moment([R * A * turned * B, C], R, law), Trace(A) * Trace(B) * Trace(C) / n
        )


def test_orthogonality_of_the_random_matrix() -> None:
    assert same(trace_moment(R * R.T * A, R), Trace(A))
    assert same(trace_moment(R * A * R.T * R * B * R.T, R), Trace(A * B))
    assert same(trace_moment(R * Adjoint(R) * R * A * Adjoint(R), R, "U"), Trace(A))


def test_traces_of_powers() -> None:
    """E tr(O)^{2j} = (2j−1)!! and E|tr U|^{2j} = j! for large n (Diaconis and Shahshahani)."""
    for j, expected in ((1, 1), (2, 3), (3, 15)):
        assert trace_moment([R] * (2 * j), R) == expected
        assert trace_moment([R] * j + [Adjoint(R)] * j, R, "U") == sympy.factorial(j)
    assert trace_moment([R**2, R**2], R) == 3
    assert trace_moment([R**2, Adjoint(R) ** 2], R, "U") == 2
    assert trace_moment(R, R) == trace_moment(R * A * R, R, "U") == 0


def test_gaussian_matrices() -> None:
    assert same(trace_moment(X**2, X, "GOE"), n**2 + n)
    assert same(trace_moment(X**4, X, "GOE"), 2 * n**3 + 5 * n**2 + 5 * n)
    assert same(trace_moment(X**6, X, "GOE"), 5 * n**4 + 22 * n**3 + 52 * n**2 + 41 * n)
    assert same(trace_moment(X**2, X, "Wishart", m), n * m * (n + m + 1))
    assert same(trace_moment(G * D * G.T * A, G, "Ginibre"), Trace(D) * Trace(A))
    assert same(
        trace_moment((G * G.T) ** 3, G, "Ginibre"), trace_moment(X**3, X, "Wishart", degrees=m)
    )


def test_words_without_the_random_matrix() -> None:
    assert trace_moment(A * B, R) == Trace(A * B)
    assert trace_moment(A.T, R) == Trace(A)


WORDS = {
    "O": [
        [(R, 0), (A, 0), (R, 1), (B, 0), (R, 0), (B, 1), (R, 1), (A, 0)],
        [(R, 0), (A, 0), (R, 0)],
    ],
    "U": [[(R, 0), (A, 0), (R, 2), (B, 0), (R, 0), (B, 1), (R, 2), (A, 0)]],
}


@pytest.mark.parametrize(("law", "place"), [("O", 0), ("O", 1), ("U", 0)])
def test_against_sums_over_entries(law: str, place: int) -> None:
    """tr(word) = Σ of entries, each averaged by haar_moment, at n = 2 with integer A and B."""
    letters = WORDS[law][place]
    fixed = {A: np.array([[1, 2], [0, -1]]), B: np.array([[3, -1], [1, 2]])}
    word = sympy.MatMul(*((s, s.T, Adjoint(s))[turn] for s, turn in letters))
    total = sympy.Integer(0)
    for path in product((1, 2), repeat=len(letters)):
        weight, plain, bars = 1, [], []
        for (symbol, turn), a, b in zip(letters, path, (*path[1:], path[0]), strict=True):
            i, j = (b, a) if turn else (a, b)
            if symbol == R:
                (bars if turn == 2 else plain).append((i, j))
            else:
                weight *= int(fixed[symbol][i - 1, j - 1])
        rows, cols, conj_rows, conj_cols = (
            [entry[side] for entry in chosen] for chosen in (plain, bars) for side in (0, 1)
        )
        total += weight * haar_moment(rows, cols, 2, law, conj_rows=conj_rows, conj_cols=conj_cols)
    at_two = {s: MatrixSymbol(s.name, 2, 2) for s in (R, A, B)}
    symbolic = trace_moment(word.xreplace(at_two), at_two[R], law)
    values = {at_two[s]: sympy.Matrix(value.tolist()) for s, value in fixed.items()}
    assert sympy.simplify(symbolic.subs(values).doit()) == total


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from("OoAB"), min_size=2, max_size=7), st.integers(0, 6))
def test_a_trace_may_be_rotated_and_transposed(letters: list[str], shift: int) -> None:
    table = {"O": R, "o": R.T, "A": A, "B": B}
    word = [table[letter] for letter in letters]
    shift %= len(word)
    expected = trace_moment(sympy.MatMul(*word), R)
    assert trace_moment(sympy.MatMul(*word[shift:], *word[:shift]), R) == expected
    assert trace_moment(sympy.MatMul(*word).T, R) == expected


@pytest.mark.parametrize("law", ["O", "U"])
def test_against_samples(law: str) -> None:
    """E tr(M A M* B M A M* B) at n = 4, |z| ≤ 5 in two comparisons."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(-3, 4, (2, 4, 4))
    sampled = (orthogonal if law == "O" else unitary)(4, 30_000, 3)
    conjugated = sampled @ a @ sampled.conj().transpose(0, 2, 1)
    draws = np.einsum("sij,jk,skl,li->s", conjugated, b, conjugated, b).real
    S, P, Q = (MatrixSymbol(name, 4, 4) for name in "SPQ")
    word = S * P * Adjoint(S) * Q
    exact = trace_moment(word * word, S, law)
    values = {P: sympy.Matrix(a.tolist()), Q: sympy.Matrix(b.tolist())}
    expected = float(exact.subs(values).doit())
    assert abs(draws.mean() - expected) < 5 * draws.std() / np.sqrt(draws.size)


def test_freeness_at_large_n() -> None:
    """τ(abab) = τ(a²)τ(b)² + τ(a)²τ(b²) − τ(a)²τ(b)² for free a, b; U corrects it from 1/n² on."""
    a, a2, b, b2 = (sympy.Symbol(f"τ({x})") for x in ("A", "A**2", "B", "B**2"))
    free = a2 * b**2 + a**2 * b2 - a**2 * b**2
    word = R * A * Adjoint(R) * B
    exact = trace_moment(word * word, R, "U") / n
    assert same(large_n(exact, n, 1), free)
    second = (large_n(exact, n, 2) - free) * n**2
    assert same(second, free - a2 * b2)
    real = large_n(trace_moment((R * A * R.T * B) ** 2, R) / n, n, 0)
    assert same(real, free)


def test_genus_series_of_the_goe() -> None:
    """Catalan numbers at the top: τ(X⁴) = 2 + 5/n + 5/n² for X/√n."""
    assert large_n(trace_moment(X**4, X, "GOE") / n**3, n, 4) == 2 + 5 / n + 5 / n**2


def test_bad_input() -> None:
    with pytest.raises(InputError, match="law"):
        trace_moment(R, R, "SU")
    with pytest.raises(InputError, match="square"):
        trace_moment(G * G.T, G, "O")
    with pytest.raises(InputError, match="degrees"):
        trace_moment(X, X, "Wishart")
    with pytest.raises(InputError, match="degrees"):
        trace_moment(X, X, "GOE", 3)
    with pytest.raises(InputError, match="words"):
        trace_moment(R + A, R)
    with pytest.raises(InputError, match="words"):
        trace_moment(sympy.Identity(n), R)
    with pytest.raises(InputError, match="terms"):
        trace_moment(R**12, R)
    with pytest.raises(InputError, match="random"):
        trace_moment(A, n)
    with pytest.raises(InputError, match="order"):
        large_n(Trace(A), n, 0.5)  # type: ignore[arg-type]
