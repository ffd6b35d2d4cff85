"""Averages of traces: known words, entries summed by hand, samples, series."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import MatrixSymbol, Trace

from derivations.moments.haar import orthogonal
from derive import trace_moment, trace_series
from derive.errors import InputError
from derive.groups import haar_moment

n, m = sympy.symbols("n m")
R, A, B, C = (MatrixSymbol(name, n, n) for name in "RABC")
G, D = MatrixSymbol("G", n, m), MatrixSymbol("D", m, m)


def same(a: sympy.Expr, b: sympy.Expr) -> bool:
    return sympy.simplify(sympy.expand(a - b)) == 0


def test_one_conjugation() -> None:
    assert trace_moment(R * A * R.T * B, R) == Trace(A) * Trace(B) / n
    assert same(trace_moment([R * A * R.T * B, C], R), Trace(A) * Trace(B) * Trace(C) / n)


def test_orthogonality_of_the_random_matrix() -> None:
    assert same(trace_moment(R * R.T * A, R), Trace(A))
    assert same(trace_moment(R * A * R.T * R * B * R.T, R), Trace(A * B))


def test_traces_of_powers() -> None:
    """E tr(O)^{2j} = (2j−1)!! for large n (Diaconis and Shahshahani)."""
    for j, expected in ((1, 1), (2, 3), (3, 15)):
        assert trace_moment([R] * (2 * j), R) == expected
    assert trace_moment([R**2, R**2], R) == 3
    assert trace_moment(R, R) == 0


def test_gaussian_matrices() -> None:
    """Moments of a Wishart matrix G Gᵀ among them."""
    assert same(trace_moment((G * G.T) ** 2, G, "Ginibre"), n * m * (n + m + 1))
    assert same(trace_moment(G * D * G.T * A, G, "Ginibre"), Trace(D) * Trace(A))


def test_words_without_the_random_matrix() -> None:
    assert trace_moment(A * B, R) == Trace(A * B)
    assert trace_moment(A.T, R) == Trace(A)


WORDS = [
    [(R, 0), (A, 0), (R, 1), (B, 0), (R, 0), (B, 1), (R, 1), (A, 0)],
    [(R, 0), (A, 0), (R, 0)],
]


@pytest.mark.parametrize("letters", WORDS)
def test_against_sums_over_entries(letters) -> None:
    """tr(word) = Σ of entries, each averaged by haar_moment, at n = 2 with integer A and B."""
    fixed = {A: np.array([[1, 2], [0, -1]]), B: np.array([[3, -1], [1, 2]])}
    word = sympy.MatMul(*((s, s.T)[turn] for s, turn in letters))
    total = sympy.Integer(0)
    for path in product((1, 2), repeat=len(letters)):
        weight, rows, cols = 1, [], []
        for (symbol, turn), a, b in zip(letters, path, (*path[1:], path[0]), strict=True):
            i, j = (b, a) if turn else (a, b)
            if symbol == R:
                rows.append(i)
                cols.append(j)
            else:
                weight *= int(fixed[symbol][i - 1, j - 1])
        total += weight * haar_moment(rows, cols, 2)
    at_two = {s: MatrixSymbol(s.name, 2, 2) for s in (R, A, B)}
    symbolic = trace_moment(word.xreplace(at_two), at_two[R])
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


def test_against_samples() -> None:
    """E tr(M A Mᵀ B M A Mᵀ B) at n = 4, |z| ≤ 5."""
    rng = np.random.default_rng(11)
    a, b = rng.integers(-3, 4, (2, 4, 4))
    sampled = orthogonal(4, 30_000, 3)
    conjugated = sampled @ a @ sampled.transpose(0, 2, 1)
    draws = np.einsum("sij,jk,skl,li->s", conjugated, b, conjugated, b)
    S, P, Q = (MatrixSymbol(name, 4, 4) for name in "SPQ")
    word = S * P * S.T * Q
    values = {P: sympy.Matrix(a.tolist()), Q: sympy.Matrix(b.tolist())}
    expected = float(trace_moment(word * word, S).subs(values).doit())
    assert abs(draws.mean() - expected) < 5 * draws.std() / np.sqrt(draws.size)


def test_freeness_at_trace_series() -> None:
    """τ(abab) = τ(a²)τ(b)² + τ(a)²τ(b²) − τ(a)²τ(b)² for free a, b."""
    a, a2, b, b2 = (sympy.Symbol(f"τ({x})") for x in ("A", "A**2", "B", "B**2"))
    free = a2 * b**2 + a**2 * b2 - a**2 * b**2
    assert same(trace_series(trace_moment((R * A * R.T * B) ** 2, R) / n, n, 0), free)


def test_series_in_the_size() -> None:
    """Catalan's 5 at the top for a square Wishart matrix: E tr (G Gᵀ)³/n⁴."""
    found = trace_series(trace_moment((G * G.T) ** 3, G, "Ginibre").subs(m, n) / n**4, n, 3)
    assert found == 5 + 6 / n + 4 / n**2


def test_bad_input() -> None:
    with pytest.raises(InputError, match="law"):
        trace_moment(R, R, "SU")
    with pytest.raises(InputError, match="words"):
        trace_moment(R + A, R)
    with pytest.raises(InputError, match="terms"):
        trace_moment(R**12, R)


def test_unitary_matrices() -> None:
    """One conjugation, |tr U|⁴ = 2, and the adjoint of a word."""
    H = sympy.Adjoint
    assert trace_moment(R * A * H(R) * B, R, "U") == Trace(A) * Trace(B) / n
    assert trace_moment([R, R, H(R), H(R)], R, "U") == 2
    assert trace_moment([R * A, R * B], R, "U") == 0
    assert trace_moment(H(R * A) * R, R, "U") == Trace(H(A))


def test_unitary_against_sums_over_entries() -> None:
    """tr(U A U† B)² at n = 2, entry by entry."""
    fixed = {A: np.array([[1, 2], [0, -1]]), B: np.array([[3, -1], [1, 2]])}
    total = sympy.Integer(0)
    for i, j, k, l, p, q, r, s in product((0, 1), repeat=8):  # noqa: E741
        weight = fixed[A][j, k] * fixed[B][l, i] * fixed[A][q, r] * fixed[B][s, p]
        if weight:
            lists = [[index + 1 for index in each] for each in ((i, p), (j, q), (l, s), (k, r))]
            rows, cols, bars, bar_cols = lists
            moment = haar_moment(rows, cols, 2, "U", conj_rows=bars, conj_cols=bar_cols)
            total += int(weight) * moment
    U, P, Q = (MatrixSymbol(name, 2, 2) for name in "UPQ")
    word = U * P * U.adjoint() * Q
    values = {P: sympy.Matrix(fixed[A].tolist()), Q: sympy.Matrix(fixed[B].tolist())}
    assert sympy.simplify(trace_moment([word, word], U, "U").subs(values).doit() - total) == 0
