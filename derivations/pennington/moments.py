# %% [markdown]
# # Moments
#
# Lagrange's theorem gives every moment of $JJ^T$, exact in $L$. The papers stop at the second.
"""Moments and variance (002, eqs. 5, 17–22, Table 1, S13–S18, S57–S64; 001, §3.1)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, equal, misprint
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    activations,
    spectra,
)
from derive.spectra import moments
from derive.spectra.slopes import q

L = moments.L


@claim("002", "21, S18", "first two moments at any depth")
def first_two() -> Verdict:
    """m_1 = χ^L, m_2 = χ^{2L} L (μ_2/μ_1² + 1/L − 1 − s_1); 001, §3.1 has the same with γσ_α²."""
    chi = moments.C_W * moments.mu(1)
    printed = chi ** (2 * L) * L * (moments.mu(2) / moments.mu(1) ** 2 + 1 / L - 1 - moments.s(1))
    return equal(moments.jacobian_moments(2), [chi**L, printed])


@claim("002", "S17", "the equations for m_1 and m_2")
def second_order_equations() -> Verdict:
    """Both are satisfied by the derived moments; whole L, so that powers combine."""
    found = []
    for layers in (1, 2, 5):
        m_1, m_2 = moments.jacobian_moments(2, depth=layers)
        C, mu_1, mu_2, s_1 = moments.C_W, moments.mu(1), moments.mu(2), moments.s(1)
        part = sympy.Rational(1, layers)
        power = sympy.powdenest(m_1 ** (1 - part), force=True)
        found.append(m_1 - C * mu_1 * power)
        right = C**2 * mu_2 * power**2 + C * mu_1 * power * m_1 * (
            (m_2 / m_1**2 - 1) * (1 - part) - s_1
        )
        found.append(sympy.expand(m_2 - right))
    return equal(found, [0] * len(found), "L = 1, 2, 5")


@claim("002", "5", "what χ is")
def chi_is_the_mean() -> Verdict:
    """χ is called the second moment of the distribution of *squared* singular values; it is the
    first: m_1 of DW(DW)ᵀ. The second is χ²(μ_2/μ_1² − s_1)."""
    first, second = moments.jacobian_moments(2, depth=1)
    return misprint(first, second, "L = 1: m_1 = χ, and m_2 is another number")


@claim("002", "22, 001 (11)", "variance of the spectrum")
def variance() -> Verdict:
    """L(μ_2/μ_1² − 1 − s_1) at criticality, χ^{2L} times that elsewhere; the same with low rank,
    where s_1 = −1/γ or 1 − 1/γ."""
    expected = L * (moments.mu(2) / moments.mu(1) ** 2 - 1 - moments.s(1))
    chi = moments.C_W * moments.mu(1)
    return equal(moments.jacobian_variance(), chi ** (2 * L) * expected)


@claim("002", "Table 1 (variance)", "σ_w² and variance of four nonlinearities, two ensembles")
def table_of_variances() -> Verdict:
    """Critical σ_w² = 1/μ_1, and L(μ_2/μ_1² − 1 − s_1) with s_1 = 0 and −1."""
    names = ("linear", "relu", "hard_tanh", "erf")
    p, pi = sympy.erf(1 / sympy.sqrt(2 * q)), sympy.pi
    spread = [1, 2, 1 / p, (1 + pi * q) / sympy.sqrt(1 + 2 * pi * q)]
    derived, printed = [], []
    for name, value in zip(names, spread, strict=True):
        for weights, s_1 in ((Orthogonal(), 0), (Gaussian(), -1)):
            law = spectra.jacobian(activations.by_name(name), weights, L, q)
            derived.append(law.moment(2) - 1)
            printed.append(L * (value - 1 - s_1))
    slopes = [spectra.slope_law(activations.by_name(name)).mean for name in names]
    return both(
        equal(derived, printed),
        equal([1 / mean for mean in slopes], [1, 2, 1 / p, sympy.sqrt(1 + pi * q)]),
    )


@claim("002", "S57–S64, §5", "orthogonality is needed")
def orthogonality() -> Verdict:
    """s_1 = 1 − m_2/m_1² of WᵀW (S62, S63), so s_1 ≤ 0, and a bounded variance needs s_1 = 0: one
    point. For every shipped ensemble; γ, N/n symbols."""
    gamma, ratio = sympy.symbols("gamma rho", positive=True)
    ensembles = (
        Orthogonal(),
        Gaussian(),
        LowRankOrthogonal(gamma=gamma),
        LowRankGaussian(gamma=gamma),
        Truncated(ratio=ratio),
    )
    laws = [spectra.weight_law(each) for each in ensembles]
    s_1 = [law.S_series(1)[1] for law in laws]
    return both(
        equal(s_1, [1 - law.moment(2) / law.mean**2 for law in laws]),
        equal(s_1, [0, -1, 1 - 1 / gamma, -1 / gamma, 1 / ratio - 1]),
    )


@claim("002", "beyond 21", "six moments of linear Gaussian networks are Fuss–Catalan numbers")
def fuss_catalan() -> Verdict:
    """binomial((L+1)k, k)/(Lk+1), the known moments of a product of L square Gaussian matrices."""
    found = moments.jacobian_moments(
        6, weight_variance=1, slopes=[1] * 6, weights=[(-1) ** j for j in range(1, 6)]
    )
    known = [
        sympy.expand_func(sympy.ff((L + 1) * k, k)) / sympy.factorial(k) / (L * k + 1)
        for k in range(1, 7)
    ]
    return equal([sympy.cancel(a - b) for a, b in zip(found, known, strict=True)], [0] * 6)
