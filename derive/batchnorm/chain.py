"""Batch normalization orthogonalizes: the chain of Gram matrices, its noise, its stationary gap.

With H_{ℓ+1} = BN(W_ℓ H_ℓ)/√d, W Gaussian, batch n and width d, the Gram matrix C = HᵀH (trace 1) is

    C_{ℓ+1} = (1/d) Σ_{k=1}^d u_k u_kᵀ,        u_k = g_k/|g_k|,   g_k ~ N(0, C_ℓ) independent,

a deterministic map P(C) = E uuᵀ and independent noise. P has C's eigenvectors, and takes 1/n + Δ to
1/n + n/(n+2) Δ + O(Δ²). The orthogonality gap is V = |C − 1/n| (Frobenius). Source 003, eqs.
(1)–(2), (14)–(16); the contraction rate and the stationary law are derived here.
"""

from __future__ import annotations

import sympy

from ..citations import rests_on
from ..errors import as_integer
from ..symbols import batch as n
from ..symbols import width as d
from . import series, stationary
from .series import FIELD

MAX_MOMENT = 1000
"""The highest power of V whose stationary mean is worked out, in a second or so."""


@rests_on("daneshmand2021")
def contraction_rate() -> sympy.Expr:
    """By how much one layer multiplies a small traceless Δ = C − 1/n, at large width.

    >>> contraction_rate()
    n/(n + 2)
    """
    form = series.mean_form(1)
    slope = form.coeff(series.RING.gens[-series.DEGREE])
    return sympy.factor(n * FIELD.to_sympy(slope))


@rests_on("daneshmand2021")
def stationary_gap(moment: int = 2, terms: int = 2) -> sympy.Expr:
    """E V^moment in the stationary state, through `terms` orders in 1/d.

    Arguments:
        moment: 2 for E V², 1 for E V, or any other power.
        terms: 1, the leading order, or 2, with its relative correction of order 1/d.

    Returns a function of the batch n and the width d. Holds for n ≥ 2 at d large against n. Raises
    InputError for other arguments.

    >>> stationary_gap(terms=1)
    (n - 1)*(n + 2)**2/(4*d*n*(n + 1))
    """
    terms = as_integer("terms", terms, 1, 2, "1 or 2 orders in 1/d")
    moment = as_integer("moment", moment, 1, MAX_MOMENT, f"a power of V, 1 to {MAX_MOMENT}")
    leading, correction = stationary.norm_moment(moment)
    scale = sympy.factor(FIELD.to_sympy(stationary.variance()) / n**2)
    value = leading * (scale / d) ** sympy.Rational(moment, 2)
    return value if terms == 1 else value * (1 + correction / d)
