# %% [markdown]
# # Moments
#
# Lagrange's theorem gives every moment of $JJ^T$, exact in $L$. The papers stop at the second. Its
# variance grows like $L$, unless the weights have equal singular values and $D^2$ is close to 1.

# %%
"""Moments and variance (source 002, eqs. 21, 22, Table 1, S17, S18, S57; 001, §3.1)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, equal
from derive import Gaussian, Orthogonal, activations, spectra
from derive.spectra import moments
from derive.symbols import C_W, L, q
from derive.symbols import slope_moment as mu
from derive.symbols import weight_coefficient as s

# %% [markdown]
# ## The second moment


# %%
@claim("002", "21, S18", "first two moments at any depth")
def first_two() -> Verdict:
    r"""$m_1 = (\sigma_w^2\mu_1)^L$ and
    $m_2 = (\sigma_w^2\mu_1)^{2L} L\,(\mu_2/\mu_1^2 + 1/L - 1 - s_1)$, with symbols throughout."""
    chi = C_W * mu(1)
    printed = chi ** (2 * L) * L * (mu(2) / mu(1) ** 2 + 1 / L - 1 - s(1))
    return equal(moments.jacobian_moments(2), [chi**L, printed])


@claim("002", "S17", "the equations for m_1 and m_2")
def second_order_equations() -> Verdict:
    r"""$m_1 = \sigma_w^2\mu_1 m_1^{1-1/L}$, and the equation for $m_2$: both sides with the derived
    moments in them, for every $L$. $m_1 = \chi^L$ has the power $m_1^{1-1/L} = \chi^{L-1}$."""
    m_1, m_2 = moments.jacobian_moments(2)
    C, mu_1, mu_2, s_1 = C_W, mu(1), mu(2), s(1)
    chi = C * mu_1
    power = chi ** (L - 1)
    second = (m_2 / m_1**2 - 1) * (1 - 1 / L) - s_1
    return equal(
        [sympy.powsimp(each) for each in (m_1 / chi**L, m_1 / chi**L, m_2 / chi ** (2 * L))],
        [
            1,
            sympy.powsimp(chi * power / chi**L),
            sympy.expand(
                sympy.powsimp(
                    (C**2 * mu_2 * power**2 + chi * power * m_1 * second) / chi ** (2 * L)
                )
            ),
        ],
        "symbolic in L; each over χ^L or χ^2L",
    )


@claim("002", "22, S57", "mean and variance of the spectrum at criticality")
def variance() -> Verdict:
    r"""$\mu_{JJ^T} = 1$ and $\sigma_{JJ^T}^2 = m_2 - m_1^2 = L\,(\mu_2/\mu_1^2 - 1 - s_1)$ where
    $\chi = \sigma_w^2\mu_1 = 1$; elsewhere the variance is $\chi^{2L}$ times that."""
    expected = L * (mu(2) / mu(1) ** 2 - 1 - s(1))
    chi = C_W * mu(1)
    critical = {C_W: 1 / mu(1)}
    first, second = (each.subs(critical) for each in moments.jacobian_moments(2))
    return equal(
        [moments.jacobian_variance(), first, second - first**2],
        [chi ** (2 * L) * expected, 1, expected],
    )


# %% [markdown]
# ## Table 1


# %%
@claim("002", "Table 1 (variance)", "σ_w² and variance of four nonlinearities, two ensembles")
def table_of_variances() -> Verdict:
    r"""Critical $\sigma_w^2 = 1/\mu_1$, and $L\,(\mu_2/\mu_1^2 - 1 - s_1)$ with $s_1 = 0$ for
    orthogonal and $-1$ for Gaussian weights; linear, ReLU, hard tanh and erf."""
    names = ("linear", "relu", "hard_tanh", "erf_unit_slope")
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


# %% [markdown]
# ## Higher moments


# %%
@claim("002", "beyond 21", "six moments of linear Gaussian networks are Fuss–Catalan numbers")
def fuss_catalan() -> Verdict:
    r"""$\binom{(L + 1)k}{k}/(Lk + 1)$, the known moments of a product of $L$ square Gaussian
    matrices."""
    found = moments.jacobian_moments(
        6, weight_variance=1, slopes=[1] * 6, weights=[(-1) ** j for j in range(1, 6)]
    )
    known = [
        sympy.expand_func(sympy.ff((L + 1) * k, k)) / sympy.factorial(k) / (L * k + 1)
        for k in range(1, 7)
    ]
    return equal([sympy.cancel(each) for each in found], [sympy.cancel(each) for each in known])
