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


@pytest.mark.parametrize(("law", "k"), [("U", 5), ("U", 6), ("O", 4), ("O", 5)])
def test_the_identity_in_place_of_a_matrix(law: str, k: int) -> None:
    """tr(R A Rᵀ B)^k is tr B^k at A = 1: all other products of traces of B must cancel."""
    found = trace_moment((R * A * (R.T if law == "O" else R.adjoint()) * B) ** k, R, law)
    values = {
        trace: sympy.Integer(11) if trace.has(A) else sympy.Symbol(str(trace.arg))
        for trace in found.atoms(Trace)
    }
    assert sympy.expand(found.xreplace(values).subs(n, 11)) == sympy.Symbol(f"B**{k}")


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
    H = sympy.Adjoint
    for law in ("SU", ["O", "U"], "Spin"):
        with pytest.raises(InputError, match="law"):
            trace_moment(R, R, law)
    for random in ([], [R, "A"], n):
        with pytest.raises(InputError, match="random"):
            trace_moment(R, random)
    for words in (sympy.sin(Trace(R)), [R, n], [G], 1 / Trace(R), H(R)):
        with pytest.raises(InputError, match="words"):
            trace_moment(words, R)
    with pytest.raises(InputError, match='did you mean "U"'):
        trace_moment(R * A * H(R), R, "unitary")
    with pytest.raises(InputError, match='did you mean "law"'):
        trace_moment(R * A * H(R), R, group="U")
    with pytest.raises(InputError, match=r'the transpose, .* with O; or law="U"'):
        trace_moment(R * A * H(R), R)
    with pytest.raises(InputError, match="terms"):
        trace_moment(R**12, R)
    with pytest.raises(InputError, match="no other laws"):
        trace_moment(R * A, [R, A], ["Sp", "U"])
    for words in (R.T, R * H(A)):
        with pytest.raises(InputError, match="words"):
            trace_moment(words, R, "Sp")
    odd = MatrixSymbol("R", 3, 3)
    with pytest.raises(InputError, match="even size"):
        trace_moment(odd, odd, "Sp")


def test_polynomials_in_traces() -> None:
    """Sums, powers and numbers of words: by hand, and with the inverse for the adjoint."""
    found = trace_moment(m * Trace((R + 2 * A) ** 3) - Trace(R) ** 2 * Trace(B) + 5, R)
    expected = m * (8 * Trace(A**3) + 6 * Trace(A) / n) - Trace(B) + 5
    assert same(found, expected)
    assert trace_moment(Trace(R * R.T) + Trace(sympy.Identity(n)), R) == 2 * n
    for law, adjoint in (("O", R.T), ("U", R.adjoint())):
        word = (R * A * R.inverse() * B) ** 2
        assert same(trace_moment(word, R, law), trace_moment((R * A * adjoint * B) ** 2, R, law))


@pytest.mark.parametrize("law", ["O", "U"])
def test_a_product_of_haar_matrices_is_one(law: str) -> None:
    def word(X: sympy.MatrixExpr) -> sympy.MatrixExpr:
        return X * A * (X.T if law == "O" else X.adjoint()) * B

    for power in (1, 2):
        two = trace_moment([word(R * C)] * power, [R, C], law)
        assert same(two, trace_moment([word(R)] * power, R, law))


def test_two_laws_together() -> None:
    """A Gaussian matrix between Haar ones: E tr(U G V Gᵀ U† V†), and the order is of no weight."""
    U, V, X = (MatrixSymbol(name, n, n) for name in "UVX")
    word = [U * X * V * X.T * U.adjoint() * A, V.adjoint() * B]
    for order in ([U, V, X], [X, V, U]):
        laws = ["Ginibre" if each == X else "U" for each in order]
        assert same(trace_moment(word, order, laws), Trace(A) * Trace(B) / n)


@pytest.mark.parametrize("size", [2, 4])
def test_symplectic_against_sums_over_entries(size: int) -> None:
    """E tr(S A S B) tr(S C), and at n = 2 with a fourth factor, entry by entry."""
    rng = np.random.default_rng(5)
    S, P, Q, T, J = (MatrixSymbol(name, size, size) for name in "SPQTJ")
    p, q, t = rng.integers(-2, 3, (3, size, size))
    half = size // 2
    form = np.kron([[0, 1], [-1, 0]], np.eye(half, dtype=int))
    values = dict(zip((P, Q, T, J), map(sympy.Matrix, (p, q, t, form)), strict=True))
    total = sympy.Integer(0)
    for i, j, k, l in product(range(size), repeat=4):  # noqa: E741
        if weight := p[j, k] * q[l, i]:
            total += int(weight) * haar_moment([i + 1, k + 1], [j + 1, l + 1], size, "Sp")
    assert trace_moment(S * P * S * Q, S, "Sp").subs(values).doit() == total
    if size > 2:
        return
    total = sympy.Integer(0)
    for i, j, k, l, a, b, c, d in product((0, 1), repeat=8):  # noqa: E741
        if weight := p[j, k] * q[l, i] * t[b, c] * p[d, a]:
            rows, cols = [[x + 1 for x in each] for each in ((i, k, a, c), (j, l, b, d))]
            total += int(weight) * haar_moment(rows, cols, size, "Sp")
    mean = trace_moment([S * P * S * Q, S * T * S * P], S, "Sp")
    assert mean.subs(values).doit() == total != 0


def test_symplectic_traces() -> None:
    """E tr(S)² = 1 and E tr(S²) = −1; tr(S)⁴ has mean 3, but 2 in Sp(2) = SU(2)."""
    H, S = sympy.Adjoint, MatrixSymbol("S", 2, 2)
    assert trace_moment([R, R], R, "Sp") == 1 == -trace_moment(R**2, R, "Sp")
    assert trace_moment([R] * 4, R, "Sp") == 3
    assert trace_moment([S] * 4, S, "Sp") == 2
    assert trace_moment(R * A * H(R) * B, R, "Sp") == Trace(A) * Trace(B) / n
    assert trace_moment(R * A * R.inverse() * B, R, "Sp") == Trace(A) * Trace(B) / n
    word = [R * C * A * H(C) * H(R) * B] * 2
    assert same(trace_moment(word, [R, C], "Sp"), trace_moment([R * A * H(R) * B] * 2, R, "Sp"))


@pytest.mark.parametrize(
    ("law", "size", "own", "from_two_k"),
    [("Sp", 2, 2, 3), ("U", 1, 1, 2), ("O", 1, 1, 3)],
)
def test_sizes_below_the_number_of_pairs_have_their_own_average(
    law: str, size: int, own: int, from_two_k: int
) -> None:
    """E[tr(S²)²] of SU(2), where tr S² = χ_3 − 1, and E|tr U|⁴ and E(tr O)⁴ at n = 1."""

    def average(n: sympy.Expr | int) -> sympy.Expr:
        P = sympy.MatrixSymbol("P", n, n)
        words = [P * P, P * P] if law == "Sp" else [P, P, *[P.adjoint() if law == "U" else P] * 2]
        return trace_moment(words, P, law)

    assert average(size) == own
    assert average(4) == average(sympy.Symbol("n")) == from_two_k


def test_circular_ensembles() -> None:
    """|tr S|², entries of variance 1/(n + 1) off the diagonal, and S = det(U) 1 of CSE at n = 2."""
    H, S = sympy.Adjoint, MatrixSymbol("S", 2, 2)
    assert trace_moment([R, H(R)], R, "COE") == 2 * n / (n + 1)
    assert trace_moment([R, H(R)], R, "CSE") == 2 * n / (n - 1)
    assert trace_moment([S, H(S)] * 2, S, "CSE") == 16
    assert trace_moment([R, R], R, "COE") == 0
    mean = trace_moment([R * A, H(R) * B], R, "COE")
    assert same(mean, (Trace(A * B) + Trace(A * B.T)) / (n + 1))


def test_series_of_other_groups() -> None:
    """2n/(n ± 1), and tr U A U† V B V† tr of the same: leading as the product of the means."""
    H = sympy.Adjoint
    coe, cse = (trace_moment([R, H(R)], R, law) for law in ("COE", "CSE"))
    assert trace_series(coe, n, 2) == 2 - 2 / n + 2 / n**2
    assert trace_series(cse, n, 2) == 2 + 2 / n + 2 / n**2
    U, V = (MatrixSymbol(name, n, n) for name in "UV")
    word = U * A * H(U) * V * B * H(V)
    a, a2, b, b2 = (sympy.Symbol(f"τ({x})") for x in ("A", "A**2", "B", "B**2"))
    series = trace_series(trace_moment([word, word], [U, V], "U"), n, 0)
    assert same(series, n**2 * a**2 * b**2 + (a2 - a**2) * (b2 - b**2))


def test_circular_symplectic_ensemble_against_samples() -> None:
    """E tr(S A S† B) and E |tr(S A)|² at n = 4, |z| ≤ 5."""
    rng = np.random.default_rng(7)
    a, b = rng.integers(-3, 4, (2, 4, 4))
    form = np.kron([[0, 1], [-1, 0]], np.eye(2))
    normals = rng.standard_normal((2, 20_000, 4, 4))
    Q, T = np.linalg.qr(normals[0] + 1j * normals[1])
    phases = np.diagonal(T, axis1=1, axis2=2)
    U = Q * (phases / abs(phases))[:, None]
    drawn = U @ form @ U.swapaxes(1, 2) @ form.T
    S, P, Q, J = (MatrixSymbol(name, 4, 4) for name in "SPQJ")
    conjugated = np.einsum("sij,jk,slk,li->s", drawn, a, drawn.conj(), b).real
    squares = abs(np.einsum("sij,ji->s", drawn, a)) ** 2
    for sampled, words, q in (
        (conjugated, S * P * S.adjoint() * Q, b),
        (squares, [S * P, S.adjoint() * Q], a.T),
    ):
        values = {P: sympy.Matrix(a), Q: sympy.Matrix(q), J: sympy.Matrix(form.astype(int))}
        expected = float(trace_moment(words, S, "CSE").subs(values).doit())
        assert abs(sampled.mean() - expected) < 5 * sampled.std() / np.sqrt(sampled.size)


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
