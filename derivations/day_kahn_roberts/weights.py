# %% [markdown]
# # Moments of the weights
#
# Every average of this chapter starts from one layer's weights. For an ensemble that rotations of
# rows and of columns leave alone,
#
# $$ E[W_{i_1 j_1} \cdots W_{i_{2k} j_{2k}}] = C_W^k \sum_{p,q} \delta_p(i) C(p,q) \delta_q(j), $$
#
# with $p, q$ pairings of the $2k$ factors. Gaussian weights have $C = n^{-k}$ on the diagonal;
# for Haar-random ones $C$ is the inverse of the Gram matrix $n^{\mathrm{loops}(p,q)}$.

# %%
"""Second and fourth moments of the weights (source 000, eqs. 3.2–3.6 and 5.10–5.11)."""

from __future__ import annotations

from itertools import product

import sympy

from derivations.claims import Verdict, both, claim, equal
from derivations.moments.gram import gram_matrix
from derive import symbols
from derive.groups.moments import haar_moment
from derive.groups.pairings import coset_type, pair_partitions
from derive.groups.weingarten import series, weingarten
from derive.weights import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)

n = symbols.n
g, ratio = sympy.symbols("gamma rho", positive=True)
p_1, p_2, p_3, p_4 = sympy.symbols("p_1:5", positive=True)
ENSEMBLES: tuple[WeightEnsemble, ...] = (
    Gaussian(),
    Orthogonal(),
    LowRankGaussian(gamma=g),
    LowRankOrthogonal(gamma=g),
    Truncated(ratio=ratio),
    BiInvariant(moments=(p_1, p_2, p_3, p_4)),
)

PATTERNS = [(1, 1, 1, 1), (1, 1, 2, 2), (1, 2, 1, 2), (1, 2, 2, 1), (1, 1, 1, 2), (1, 2, 3, 4)]
"""Four indices up to renaming, but for three more ways to single one out."""


def pairs_up(indices: tuple[int, ...]) -> list[int]:
    """δ_p for p = (12)(34), (13)(24), (14)(23): the paper's (ab)(cd)_i."""
    return [
        int(all(indices[a] == indices[b] for a, b in pairing)) for pairing in pair_partitions(4)
    ]


def derived_moment(
    weights: WeightEnsemble, rows: tuple[int, ...], cols: tuple[int, ...]
) -> sympy.Expr:
    """E[W_{i1 j1} … W_{i4 j4}]/C_W² from the ensemble's pairing matrix."""
    pairings = pair_partitions(4)
    total = sum(
        weights.coefficient(coset_type(p, q), n, n)
        for p, row in zip(pairings, pairs_up(rows), strict=True)
        for q, col in zip(pairings, pairs_up(cols), strict=True)
        if row and col
    )
    return sympy.factor(total)


def moment_latex(rows: tuple[int, ...], cols: tuple[int, ...], C_W: str = "/C_W^2") -> str:
    """E[W_{i1 j1} …] in LaTeX, over what stands before the sum."""
    entries = " ".join(f"W_{{{i}{j}}}" for i, j in zip(rows, cols, strict=True))
    return f"E[{entries}]{C_W}"


# %% [markdown]
# ## Two weights (3.2)


# %%
@claim("000", "3.2", "second moment of the weights")
def second_moment() -> Verdict:
    """Every ensemble has $C_W/n$ in this place, at any width. For orthogonal weights it says that
    $O^TO = C_W 1$: the trace of the Haar average of $O^TO$ is $n C_W$."""
    found = [each.coefficient((1,), n, n) for each in ENSEMBLES]
    i, j, k, m = names = sympy.symbols("i j k m", integer=True)
    haar = haar_moment([i, k], [j, m], n)
    patterns = [dict(zip(names, each, strict=True)) for each in product((1, 2), repeat=4)]
    printed = [int(each[i] == each[k] and each[j] == each[m]) / n for each in patterns]
    written = [moment_latex((p[i], p[k]), (p[j], p[m]), "/C_W") for p in patterns]
    return both(
        equal([haar.subs(each) for each in patterns], printed, "every pattern of indices", written),
        equal(found, [1 / n] * len(ENSEMBLES), "six ensembles", ["E[W_{ij}^2]/C_W"] * 6),
        equal([n**2 * haar_moment([1, 1], [1, 1], n)], [n], "tr OᵀO", [r"E[\mathrm{tr}\, O^TO]"]),
    )


# %% [markdown]
# ## Gaussian weights: Wick's theorem (3.4)


# %%
@claim("000", "3.4", "fourth moment of Gaussian weights")
def gaussian_fourth_moment() -> Verdict:
    """The pairing matrix of Gaussian weights gives the printed sum for every pattern of indices."""
    patterns = list(product(PATTERNS, repeat=2))
    printed = [
        sum(a * b for a, b in zip(pairs_up(i), pairs_up(j), strict=True)) / n**2
        for i, j in patterns
    ]
    written = [moment_latex(i, j) for i, j in patterns]
    return equal([derived_moment(Gaussian(), i, j) for i, j in patterns], printed, labels=written)


# %% [markdown]
# ## Orthogonal weights: Weingarten's function (3.5)–(3.6)


# %%
@claim("000", "3.5", "fourth moment of orthogonal weights")
def orthogonal_fourth_moment() -> Verdict:
    r"""The Haar integral of four entries is the printed $3\times3$ form, in every pattern of
    indices."""
    diagonal, off = printed_weingarten()
    matrix = sympy.Matrix(3, 3, lambda a, b: diagonal if a == b else off)
    patterns = list(product(PATTERNS, repeat=2))
    printed = [
        (sympy.Matrix([pairs_up(i)]) * matrix * sympy.Matrix(pairs_up(j)))[0] for i, j in patterns
    ]
    written = [moment_latex(i, j) for i, j in patterns]
    return both(
        equal([derived_moment(Orthogonal(), i, j) for i, j in patterns], printed, labels=written),
        equal([haar_moment(i, j, n) for i, j in patterns], printed, labels=written),
        detail="by the ensemble's pairing matrix and by haar_moment",
    )


def printed_weingarten() -> tuple[sympy.Expr, sympy.Expr]:
    """(3.6) as printed: W[1,1] and W[2]."""
    common = (n - 1) * n * (n + 2)
    return (n + 1) / common, -1 / common


@claim("000", "3.6", "Weingarten's function of O(n) at k = 2")
def weingarten_function() -> Verdict:
    r"""$\mathcal W[1,1]$ and $\mathcal W[2]$ are the entries of the inverse Gram matrix of the
    three pairings.

    The paper asks for $n > 2$; the Gram determinant $n^3(n-1)^2(n+2)$ shows that $n = 2$ will do.
    """
    inverse = gram_matrix(2, n).inv()
    printed = printed_weingarten()
    at_two = [value.subs(n, 2) for value in printed]
    written = [r"\mathcal W[1,1]", r"\mathcal W[2]"]
    limits = [f"{each}_{{n=2}}" for each in written]
    return both(
        equal([weingarten((1, 1), n), weingarten((2,), n)], printed, labels=written),
        equal([inverse[0, 0].factor(), inverse[0, 1].factor()], printed, labels=written),
        equal([weingarten((1, 1), 2), weingarten((2,), 2)], at_two, labels=limits),
        detail="also the inverse of the Gram matrix; holds at n = 2 too (printed: n > 2)",
    )


# %% [markdown]
# ## At large width (5.10)–(5.11)
#
# Entry by entry the two ensembles differ by $1/n$ only. But a sum over a row has $n$ terms, so that
# the limit $n \to \infty$ must not be taken inside of it (the paper's footnote 6).


# %%
@claim("000", "§3 (footnote 6)", "orthogonality is a matter of order 1/n")
def orders_of_limits() -> Verdict:
    r"""For two rows, $E[(\sum_k W_{1k}W_{2k})^2]$ is 0 with orthogonal weights and $C_W^2/n$ with
    Gaussian ones: $n$ terms of order $1/n^2$, which $n^2$ terms of order $1/n^3$ cancel."""

    def overlap(weights: WeightEnsemble) -> list[sympy.Expr]:
        alike = derived_moment(weights, (1, 2, 1, 2), (1, 1, 1, 1))
        apart = derived_moment(weights, (1, 2, 1, 2), (1, 1, 2, 2))
        return [sympy.cancel(n * alike + n * (n - 1) * apart), alike, apart]

    whole, alike, apart = overlap(Orthogonal())
    return both(
        equal([whole, overlap(Gaussian())[0]], [0, 1 / n], "orthogonal and Gaussian, any n"),
        equal(
            [sympy.limit(n**2 * alike, n, sympy.oo), sympy.limit(n**3 * apart, n, sympy.oo)],
            [1, -1],
            "E[W₁₁²W₂₁²] ~ 1/n² and E[W₁₁W₂₁W₁₂W₂₂] ~ −1/n³",
        ),
    )


def expansion(partition: tuple[int, ...], order: int) -> sympy.Expr:
    """Weingarten's function through n^{-order}, from the integer recursion for its series."""
    return sum(c * n**-power for power, c in enumerate(series(partition, order)))


@claim("000", "5.10", "W[2] at large width")
def off_diagonal_expansion() -> Verdict:
    r"""$\mathcal W[2] = -1/n^3 + O(1/n^4)$."""
    return equal(expansion((2,), 3), -1 / n**3)


@claim("000", "5.11", "W[1,1] at large width")
def diagonal_expansion() -> Verdict:
    r"""$\mathcal W[1,1] = 1/n^2 + 2/n^4 + O(1/n^5)$: no term at $1/n^3$, so that only
    $\mathcal W[2]$ enters at order $1/n$."""
    return equal(expansion((1, 1), 4), 1 / n**2 + 2 / n**4)
