# %% [markdown]
# # Linear networks at finite width
#
# With $D = 1$ the moments of $JJ^T$ need no limit. A layer takes $Q = JJ^T$ to $WQW^T$, and for $W$
# that is invariant on both sides the averages of $\mathrm{tr}\,Q^2$ and $(\mathrm{tr}\,Q)^2$ are
# linear in those of the layer before. So theory and ensemble are compared at one width, without an
# extrapolation, and the limit of the two by two matrix is the printed variance.

# %%
"""m_1 and m_2 of linear networks of any rank, width and depth, exact (source 001, eq. 11)."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import xarray

from derivations.claims import Verdict, claim, equal
from derive import LowRankGaussian, LowRankOrthogonal, symbols, trace_moment
from numeric.tables import layout

n, L, gamma = symbols.n, symbols.L, symbols.gamma


def transfer(weights: LowRankGaussian | LowRankOrthogonal, width: sympy.Expr | int) -> sympy.Matrix:
    """The map of a layer for (E tr Q²/n, E (tr Q)²/n²), for square W = C A of rank γ n.

    C is a frame, CᵀC = 1, and A has independent entries of variance C_W/(γ n), or is a frame times
    √(C_W/γ): averages over A, or over the projection of rank γ n that AᵀA is a multiple of.
    """
    r, square, trace = sympy.symbols("r square trace", positive=True)  # rank, tr Q², tr Q
    Q = sympy.MatrixSymbol("Q", n, n)
    if isinstance(weights, LowRankGaussian):
        A = sympy.MatrixSymbol("A", r, n)
        word, law, random, scale = A * Q * A.T, "Ginibre", A, weights.C_W / r
    else:
        Haar, P = (sympy.MatrixSymbol(name, n, n) for name in "OP")
        word, law, random, scale = Haar * P * Haar.T * Q, "O", Haar, weights.C_W * n / r
    of_Q, of_P = {1: trace, 2: square}, {1: r, 2: r}
    rows = []
    for words in ([word * word], [word, word]):
        average = trace_moment(words, random, law)
        values = {
            each: (of_Q if each.has(Q) else of_P)[_degree(each.arg)]
            for each in average.atoms(sympy.Trace)
        }
        polynomial = sympy.Poly(average.xreplace(values), square, trace)
        rows.append([polynomial.coeff_monomial(each) * scale**2 for each in (square, trace**2)])
    (a, b), (c, d) = rows
    step = sympy.Matrix([[a, n * b], [c / n, d]]).subs(r, weights.gamma * n).subs(n, width)
    return sympy.simplify(step)


def _degree(word: sympy.MatrixExpr) -> int:
    """How many factors a product of symmetric matrices has."""
    return int(word.exp) if isinstance(word, sympy.MatPow) else len(sympy.MatMul.make_args(word))


def moments(
    weights: LowRankGaussian | LowRankOrthogonal, width: int, layers: Sequence[int]
) -> xarray.Dataset:
    """m_1 and m_2 of JJᵀ at these depths, exact at this width."""
    step = transfer(weights, width)
    second = [(step**depth * sympy.ones(2, 1))[0] for depth in layers]
    first = [weights.C_W**depth for depth in layers]
    return layout.table(layers, m1=list(map(float, first)), m2=list(map(float, second)))


@claim("001", "11 (linear)", "the variance of linear networks, with freeness not assumed")
def linear_variance() -> Verdict:
    r"""$\mathrm{E}\,\mathrm{tr}(JJ^T)^2/n$ of linear networks from the exact fourth moments of the
    weights. For $n \to \infty$ a layer adds $-s_1$ to it at $\chi = 1$: $1/\gamma$ for Gaussian,
    $1/\gamma - 1$ for orthogonal weights, and $L$ layers have the variance $-s_1L$ of (11)."""
    derived, printed = [], []
    for kind, s_1 in ((LowRankGaussian, -1 / gamma), (LowRankOrthogonal, 1 - 1 / gamma)):
        step = transfer(kind(1, gamma=gamma), n).applyfunc(lambda x: sympy.limit(x, n, sympy.oo))
        derived += [*step, sympy.simplify((step**L * sympy.ones(2, 1))[0] - 1)]
        printed += [1, -s_1, 0, 1, -s_1 * L]
    return equal(derived, printed, "symbolic in γ and L; the exact matrices at every n")
