# %% [markdown]
# # Statements without a number
#
# The introduction restates the theorems as orders of magnitude, §3.3 and §4.1 draw consequences,
# and appendix C goes through lines that carry no number. Each says something that can be held
# against the derived chain.

# %%
"""Displays, asides and lines of proofs without a number (source 003, §§1, 3.3, 4.1, 5.1, C)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.daneshmand import ensembles, moments
from derivations.daneshmand.chain import SPECTRUM, normalised
from derivations.daneshmand.untrained import kernels
from derive import batchnorm
from derive.batchnorm import d, n

R = sympy.Rational
alpha = sympy.Symbol("alpha", positive=True)

# %% [markdown]
# ## Orders of magnitude (§1, §4.1)


# %%
@claim("003", "§1 (displays)", "the bounds of the introduction are not those of the theorems")
def introduction() -> Verdict:
    r"""Both displays have $(1-\alpha)^{\mathrm{depth}}$ where Theorem 1 and Corollary 3 prove
    $(1-\frac23\alpha)^\ell$, which no constant bounds by the former: their ratio grows by
    $(1-\frac23\alpha)/(1-\alpha)>1$ a layer. The rest of both displays is the theorems'. The rate
    $1-\alpha$ itself is no slip of the truth: near orthogonality $\frac n{n+2}\le1-\frac1n$ for
    $n\ge2$, with equality at n = 2."""
    theorem, display = 1 - R(2, 3) * alpha, 1 - alpha
    k = sympy.Symbol("k", nonnegative=True)
    slower = sympy.factor(((1 - 1 / n) - batchnorm.contraction_rate()).subs(n, k + 2))
    return misprint(
        theorem,
        display,
        "what is raised to the depth; the witness is at α = 1/2, n = 2 at orthogonality",
        provided=both(
            equal(sympy.simplify(theorem - display - alpha / 3), 0, "the theorem's is larger"),
            equal(slower, k / ((k + 2) * (k + 4)), "1 − 1/n less the derived rate, ≥ 0"),
        ),
        witness=(display.subs(alpha, R(1, 2)), theorem.subs(alpha, R(1, 2))),
    )


@claim("003", "§4.1 (radius)", "the Wasserstein radius is O(1/√width)")
def radius() -> Verdict:
    r"""Corollary 3 bounds the square of the distance by $6n^2/(\alpha\sqrt d)$, the radius by
    $d^{-1/4}$. The statement is true all the same: the square is at most
    $\mathbb E\sum_i(\sigma_i-n^{-1/2})^2$ (Lemma 2's proof), which is $\frac n4V^2$ at small V, and
    in the stationary state $\mathbb EV^2=O(1/d)$ with the derived constant."""
    small = sympy.Symbol("epsilon", positive=True)
    shifts = sympy.symbols("delta_1:4", real=True)
    size = len(shifts)
    sigma = [sympy.sqrt(R(1, size) + small * shift) for shift in shifts]
    distance = sum((each - 1 / sympy.sqrt(size)) ** 2 for each in sigma)
    leading = sympy.series(distance, small, 0, 3).removeO().coeff(small, 2)
    square = n / 4 * batchnorm.stationary_gap(2, terms=1)
    powers = [sympy.limit(d * square, d, sympy.oo), (n - 1) * (n + 2) ** 2 / (16 * (n + 1))]
    return both(
        equal(sympy.expand(leading), R(size, 4) * sum(shift**2 for shift in shifts), "n = 3"),
        equal(sympy.simplify(powers[0]), powers[1], "d times the square, stationary, d → ∞"),
    )


# %% [markdown]
# ## The smallest singular value of the inputs (§3.3)


# %%
@claim("003", "§3.3 (inputs)", "is the smallest singular value above √d − √n?")
def smallest_singular_value() -> Verdict:
    r"""For i.i.d. elements of mean 0 and variance 1 it is at $\sqrt d-\sqrt n$ when both are large;
    a given matrix may be on either side. With one Gaussian sample it is $\chi_d$, whose mean lies
    above $\sqrt d-1$ and which lies below with a probability that stays near 8 %; with signs ±1,
    $d=n=2$, the matrix is singular every other time."""
    width = 4
    x = sympy.Symbol("x", positive=True)
    density = x ** (width - 1) * sympy.exp(-(x**2) / 2) / (2 ** R(width - 2, 2))
    density /= sympy.gamma(R(width, 2))
    edge = sympy.sqrt(width) - 1
    below = sympy.integrate(density, (x, 0, edge))
    mean = sympy.integrate(x * density, (x, 0, sympy.oo))
    signs = [
        sympy.Matrix(2, 2, [(-1) ** (k >> bit & 1) for bit in range(4)]).det() for k in range(16)
    ]
    return misprint(
        "in the mean, and at large d and n",
        "the minimum singular value of H_0 is greater than √d − √n",
        f"one Gaussian sample, d = 4: below with probability {float(below):.4f}, mean "
        f"{float(mean):.4f} > {float(edge):.4g}; the witness is the probability that it holds",
        provided=both(
            equal(sympy.simplify(below), 1 - R(3, 2) * sympy.exp(-R(1, 2)), "P(χ_4 < 1)"),
            observed(bool(mean > edge), "E χ_4 > 1"),
            equal(R(signs.count(0), len(signs)), R(1, 2), "P(σ_min = 0), signs, d = n = 2"),
        ),
        witness=(1, 1 - below),
    )


# %% [markdown]
# ## Networks of which widths (§5.1)


# %%
@claim("003", "§5.1 (widths)", "15, 30, 45, 60 and 75 are depths")
def depths() -> Verdict:
    r"""§5.1 trains "networks with 15, 30, 45, 60, and 75 widths" and draws Figure 4a from them "as
    a function of depth", where the gap before training rises. By depth it does: V² of ReLU
    networks at infinite width, four orthogonal inputs, rises at each of the five. By width it
    could not: the leading order has no width."""
    chosen = [15, 30, 45, 60, 75]
    K = kernels(np.eye(4), chosen[-1])[np.array(chosen) - 1]
    gaps = [float(each) for each in ensembles.gap_squared(K)]
    return misprint(
        "depths of 15, 30, 45, 60 and 75",
        "widths of 15, 30, 45, 60 and 75",
        f"V² at these depths: {', '.join(f'{each:.3f}' for each in gaps)}; the witness is by how "
        "much V² rises from the first to the last",
        provided=observed([a < b for a, b in pairwise(gaps)], "V² rises from each to the next"),
        witness=(0, gaps[-1] - gaps[0], 1e-9),
    )


# %% [markdown]
# ## Lines of appendix C


# %%
@claim("003", "C.2", "the next Gram matrix in the basis of the last one")
def rotated_gram() -> Verdict:
    r"""$C_{\ell+1}=\frac1d\sum_i(w_i\odot\sigma/|w_i\odot\sigma|)^{\otimes2}$ is
    $V^\top C_{\ell+1}V$ with the V of (13): the same eigenvalues, another matrix. And
    $\sigma_1^2,\dots,\sigma_n^2$, said to be its eigenvalues, are those of $C_\ell$. For a rational
    W of three rows, $\sigma^2=(\frac{16}{25},\frac9{25})$ and a rotation V."""
    sigma = sympy.diag(R(4, 5), R(3, 5))
    V = sympy.Matrix([[3, -4], [4, 3]]) / 5
    W = sympy.Matrix([[1, 2], [-1, 1], [2, 1]])
    layer, alone = normalised(W * sigma * V.T), normalised(W * sigma)
    after, printed = (each.T * each / W.rows for each in (layer, alone))
    traces = sympy.simplify((after**2).trace()), (sigma**4).trace()
    return misprint(
        sympy.nsimplify(sympy.simplify(after[0, 0])),
        sympy.nsimplify(sympy.simplify(printed[0, 0])),
        f"element 11; tr C_{{ℓ+1}}² = {traces[0]}, Σσ_i⁴ = {traces[1]}",
        provided=both(
            equal(list((V * printed * V.T - after).applyfunc(sympy.simplify)), [0] * 4, "V M Vᵀ"),
            equal(int(traces[0] == traces[1]), 0, "tr C_{ℓ+1}² is not Σσ_i⁴"),
        ),
    )


@claim("003", "C.4 (cross terms)", "what has mean zero in the square of an element")
def cross_terms() -> Verdict:
    r"""$\mathbb E[C_{\ell+1}]_{ij}^2$ has the cross terms $\mathbb E[A_{ki}A_{kj}A_{k'i}A_{k'j}]$,
    zero since either row has mean zero. Printed are the squares,
    $\mathbb E[A_{ki}^2A_{kj}^2A_{k'i}^2A_{k'j}^2]=q_{ij}^2$, which are not. The sum over
    $i\ne j$ is of $\mathbb E[C]_{ij}^2$, where the left side prints $\mathbb E[C]_{ij}=0$: it is
    $\frac1d(1-\sum_iq_{ii})$. At σ² = (5, 3, 2)/10."""
    q = moments.fourth_moments(SPECTRUM)
    p = moments.mean_spectrum(SPECTRUM)
    off = sum(q[i, j] for i in range(3) for j in range(3) if i != j)
    return misprint(
        "E[A_ki A_kj A_k'i A_k'j] = 0",
        "E[A_ki² A_kj² A_k'i² A_k'j²] = 0",
        f"q_12 = {float(q[0, 1]):.6f}; Σ_{{i≠j}} E[C_ij²] = {float(off):.6f}/d, where the left "
        "side of the sum is 0 as printed; the witness is the mean of the printed product",
        provided=both(
            close([off], [1 - sum(q[i, i] for i in range(3))], 13, "Σ_{i≠j} q_ij = 1 − Σ q_ii"),
            close([sum(p)], [1], 13, "Σ p_i = 1"),
        ),
        witness=(0, q[0, 1] ** 2, 1e-12),
    )


@claim("003", "C.4 (sum)", "the last line lacks a sum over rows")
def sum_over_rows() -> Verdict:
    r"""$\sum_{ij}\mathrm{var}\,[C_{\ell+1}]_{ij}\le\frac1{d^2}\sum_k(\sum_iA_{ki}^2)^2=\frac1d$,
    each row of A having length 1. Printed without the sum over the d rows, it is $1/d^2$, not
    $1/d$; the sum of the variances themselves, derived, lies between."""
    q, p = moments.fourth_moments(SPECTRUM), moments.mean_spectrum(SPECTRUM)
    variances = sum(q[i, j] for i in range(3) for j in range(3)) - sum(each**2 for each in p)
    return misprint(
        d * (1 / d**2),
        1 / d**2,
        f"d variances at σ² = (5, 3, 2)/10: {float(variances):.6f}",
        provided=observed(0 < float(variances) <= 1, "Lemma 6, d times its two sides"),
        lost="the sum over k may have been lost",
    )


@claim("003", "C.5", "an equality that is a bound")
def smallest_eigenvalue() -> Verdict:
    r"""$\mathbb E(\lambda_n(C)-\lambda_n(\mathbb EC))^2=\mathbb E|C-\mathbb EC|^2$ is printed with
    the sign of equality; it is ≤ (Hoffman and Wielandt). At n = 2 from an orthogonal layer, where
    $\mathbb EC=\frac12$, the left side is half of the right one, for every C of trace 1."""
    a, b = sympy.symbols("a b", real=True)
    C = sympy.Matrix([[R(1, 2) + a, b], [b, R(1, 2) - a]])
    least = min(C.eigenvals(), key=lambda each: each.subs({a: 1, b: 1}))
    left = sympy.expand((least - R(1, 2)) ** 2)
    right = sympy.expand(((C - sympy.eye(2) / 2) ** 2).trace())
    return misprint(
        sympy.expand(left),
        right,
        "(λ_n(C) − λ_n(EC))², and |C − EC|²",
        provided=equal(2 * left, right, "twice the left side"),
    )
