# %% [markdown]
# # Orthogonal weights are needed
#
# At criticality the variance of $JJ^T$ is $L\,(\mu_2/\mu_1^2 - 1 - s_1)$. It stays bounded only if
# the bracket vanishes as $L \to \infty$: the spread of $D^2$ can be made small, but it cannot be
# negative, and $s_1$ cannot be positive. So $s_1 \to 0$, and $W^TW$ is a multiple of 1.

# %%
"""Why only orthogonal weights have a stable limit (source 002, supplement §9: S58–S64)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, claim, equal
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    spectra,
)
from derive.spectra import moments
from derive.spectra.laws import w
from derive.symbols import C_W, L
from derive.symbols import slope_moment as mu
from derive.symbols import weight_coefficient as s


@claim("002", "S58", "a bounded variance needs s_1 ≥ 0")
def jensen() -> Verdict:
    r"""The variance over $L$ tends to $\mu_2/\mu_1^2 - 1 - s_1$, which must vanish:
    $s_1 = (\mu_2 - \mu_1^2)/\mu_1^2$. For $D^2$ with the values $a$, $b$, $c$ of any masses,
    $\mu_2 - \mu_1^2 = \sum_{i<j} p_ip_j(a_i - a_j)^2$, a sum of squares (Jensen's inequality)."""
    p, r, a, b, c = sympy.symbols("p r a b c", positive=True)
    law = spectra.Atomic({a: p, b: r, c: 1 - p - r})
    squares = p * r * (a - b) ** 2 + (1 - p - r) * (p * (a - c) ** 2 + r * (b - c) ** 2)
    per_layer = sympy.limit(moments.jacobian_variance().subs(C_W, 1 / mu(1)) / L, L, sympy.oo)
    (needed,) = sympy.solve(per_layer, s(1))
    return equal(
        [needed * mu(1) ** 2, law.moment(2) - law.moment(1) ** 2],
        [mu(2) - mu(1) ** 2, squares],
    )


@claim("002", "S60, S61", "M⁻¹ of the weights by their S-transform")
def inverse_of_the_weights() -> Verdict:
    r"""$M^{-1}(z) = (1 + z)/(zS(z))$, and $x = (1 + M(x))/\big(M(x)S(M(x))\big)$, in closed form
    for Gaussian and for low-rank orthogonal weights, each $M$ found by itself: as Catalan's series,
    and from two atoms."""
    x, gamma = sympy.Symbol("x", positive=True), sympy.Symbol("gamma", positive=True)
    catalan = (x - sympy.sqrt(x * (x - 4)) - 2) / 2
    series = sympy.series(catalan.subs(x, 1 / w), w, 0, 5).removeO()
    laws = [
        spectra.weight_law(each) for each in (Gaussian(), LowRankOrthogonal(gamma, gamma=gamma))
    ]
    found = [catalan, gamma / (x - 1)]
    derived = [(1 + M) / (M * law.S(w).subs(w, M)) for law, M in zip(laws, found, strict=True)]
    inverses = [law.M_inverse(w) for law in laws]
    return equal(
        [sympy.expand(series), *(sympy.simplify(each) for each in derived), *inverses],
        [
            sum(laws[0].moment(k) * w**k for k in range(1, 5)),
            x,
            x,
            *((1 + w) / (w * law.S(w)) for law in laws),
        ],
    )


@claim("002", "S62, S63", "s_1 is minus the relative variance of WWᵀ")
def variance_of_the_weights() -> Verdict:
    r"""Expanding (S61) with $M = \mathbf{m}_1/x + \mathbf{m}_2/x^2$ and
    $S = (1 + s_1M + s_2M^2)/g^2$ in $1/x$ gives $\mathbf{m}_1 = g^2$,
    $\mathbf{m}_2 = g^2\mathbf{m}_1(1 - s_1)$ and
    $\mathbf{m}_2 - \mathbf{m}_1^2 = -g^4s_1$; and so it is for every ensemble of the engine."""
    g, small, gamma, ratio = sympy.symbols("g epsilon gamma rho", positive=True)
    m_1, m_2, s_1, s_2 = sympy.symbols("m_1 m_2 s_1 s_2", real=True)
    M = m_1 * small + m_2 * small**2
    # 1/ε = (1 + M)/(M S): the orders ε and ε² of M S = ε (1 + M)
    residual = sympy.expand(M * (1 + s_1 * M + s_2 * M**2) / g**2 - small * (1 + M))
    (solution,) = sympy.solve([residual.coeff(small, k) for k in (1, 2)], [m_1, m_2], dict=True)
    first, second = solution[m_1], solution[m_2]
    ensembles = (
        Orthogonal(),
        Gaussian(),
        LowRankOrthogonal(gamma=gamma),
        LowRankGaussian(gamma=gamma),
        Truncated(ratio=ratio),
    )
    laws = [spectra.weight_law(each) for each in ensembles]
    return equal(
        [first, second, second - first**2] + [law.moment(2) - law.moment(1) ** 2 for law in laws],
        [g**2, g**2 * first * (1 - s_1), -(g**4) * s_1]
        + [-(law.mean**2) * law.S_series(1)[1] * law.mean for law in laws],
    )


@claim("002", "S64", "only equal singular values are stable")
def only_orthogonal() -> Verdict:
    r"""(S58) and (S63) leave $s_1 = 0$. Of the engine's ensembles orthogonal weights have it, and
    low-rank orthogonal ones at $\gamma = 1$; $s_1$ is $-1$ for Gaussian, $1 - 1/\gamma$ and
    $-1/\gamma$ for low-rank, $1/\rho - 1$ for truncated orthogonal weights. Even linear networks,
    where $D^2 = 1$, then have a variance of $-s_1L$. Of any law $s_1 = 1 -
    m_2/m_1^2$, which vanishes only where all eigenvalues of $W^TW$ are equal."""
    gamma, ratio = sympy.symbols("gamma rho", positive=True)
    given = {
        Orthogonal(): 0,
        Gaussian(): -1,
        LowRankOrthogonal(gamma=gamma): 1 - 1 / gamma,
        LowRankGaussian(gamma=gamma): -1 / gamma,
        Truncated(ratio=ratio): 1 / ratio - 1,
    }
    derived = [spectra.weight_law(each).S_series(1)[1] for each in given]
    s_1 = sympy.Symbol("s_1", real=True)
    first, second = sympy.symbols("m_1 m_2", positive=True)
    any_law = spectra.Moments((first, second))
    linear = spectra.jacobian_moments(2, weight_variance=1, slopes=[1, 1], weights=[s_1])
    return equal(
        [
            *derived,
            linear[1] - linear[0] ** 2,
            derived[2].subs(gamma, 1),
            first * any_law.S_series(1)[1],
        ],
        [*given.values(), -L * s_1, 0, 1 - second / first**2],
    )
