"""Batch normalization orthogonalizes: the chain of Gram matrices, its noise, its stationary gap.

With H_{ℓ+1} = BN(W_ℓ H_ℓ)/√d, W Gaussian, batch n and width d, the Gram matrix C = HᵀH (trace 1) is

    C_{ℓ+1} = (1/d) Σ_{k=1}^d u_k u_kᵀ,        u_k = g_k/|g_k|,   g_k ~ N(0, C_ℓ) independent,

a deterministic map P(C) = E uuᵀ and independent noise. P has C's eigenvectors, and takes 1/n + Δ to
1/n + n/(n+2) Δ + O(Δ²). The orthogonality gap is V = |C − 1/n| (Frobenius). Source 003, eqs.
(1)–(2), (14)–(16); the contraction rate and the stationary law are derived here.

With D = nC − 1 of order d^{−1/2}, its law is Gaussian at leading order: rotations of the batch
leave one covariance on the traceless symmetric matrices, ⟨D_ij D_kl⟩ = s[(δδ + δδ)/2 − δδ/n].
That E t_2, E t_3 and E t_2² (t_k = tr D^k) do not change in a step fixes s, its correction, the
third cumulant and the part of the fourth that a function of |D| sees. Derived here.
"""

from __future__ import annotations

import sympy
from sympy.polys.fields import FracElement
from sympy.polys.rings import PolyElement

from ..citations import rests_on
from ..errors import as_integer
from ..symbols import batch as n
from ..symbols import width as d
from ..work.caches import cache
from . import series
from .series import FIELD, GRADES, N, Powers, gram_moment

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
    leading, correction = norm_moment(moment)
    scale = sympy.factor(FIELD.to_sympy(variance()) / n**2)
    value = leading * (scale / d) ** sympy.Rational(moment, 2)
    return value if terms == 1 else value * (1 + correction / d)


DIMENSION = (N - 1) * (N + 2) / 2
"""Of the traceless symmetric n × n matrices."""


@cache
def wick(powers: Powers) -> FracElement:
    """E Π_k tr D^k over the Gaussian with s = 1, by contracting one D with every other.

    Within a trace, tr(D X D Y) → ½[tr X tr Y + tr XY] − (1/n) tr XY; between two,
    tr(D X) tr(D Y) → tr XY − (1/n) tr X tr Y.
    """
    if 1 in powers:
        return FIELD.zero
    if not powers:
        return FIELD.one
    k, rest = powers[0], powers[1:]
    if k == 0:
        return N * wick(rest)
    total = FIELD.zero
    for a in range(k - 1):
        b = k - 2 - a
        total += (wick(_sorted(a, b, *rest)) + wick(_sorted(a + b, *rest))) / 2
        total -= wick(_sorted(a + b, *rest)) / N
    for place, other in enumerate(rest):
        if other:
            left = rest[:place] + rest[place + 1 :]
            joined = wick(_sorted(k + other - 2, *left))
            total += other * (joined - wick(_sorted(k - 1, other - 1, *left)) / N)
    return total


def _sorted(*powers: int) -> Powers:
    return tuple(sorted(powers, reverse=True))


Moments = dict[Powers, dict[int, FracElement]]
"""Stationary averages E Π_k t_k: their coefficients by powers of ε = 1/d."""

Step = tuple[PolyElement, ...]
"""E[f(D')|D] for some f, a polynomial in the t_k at each power of ε."""


@cache
def stationary() -> Moments:
    """The averages that E V² and E V need, solved one after another from E f(D') = E f(D)."""
    two, three, four = _steps()
    found: Moments = {(): {0: FIELD.one}}
    _solve(found, (2,), two, 1)
    s = found[2,][1] / DIMENSION
    for powers in ((2, 2), (4,), (2, 2, 2), (4, 2), (3, 3)):
        half = sum(powers) // 2
        found[powers] = {half: s**half * wick(powers)}
    _solve(found, (3,), three, 2)
    # Gaussian but for one third cumulant, which is a multiple of t_3's own tensor
    found[3, 2] = {3: found[3,][2] * found[2,][1] * (1 + 6 / DIMENSION)}
    _solve(found, (2,), two, 2)
    _solve(found, (2, 2), four, 3)
    return found


@cache
def _steps() -> tuple[Step, Step, Step]:
    """E[t_2'|D], E[t_3'|D] and E[t_2'²|D], from the traces of C'² and C'³."""
    square, cube = gram_moment((2,), (4, 4)), gram_moment((3,), (4, 2, 0))
    pair = gram_moment((2, 2), (-1, 4, 2, 0))
    two = (square[0] * N**2 - N, square[1] * N**2)
    three = (
        cube[0] * N**3 - 3 * two[0] - N,
        cube[1] * N**3 - 3 * two[1],
        cube[2] * N**3,
    )
    variance = (pair[1] - 2 * square[0] * square[1], pair[2] - square[1] ** 2, pair[3])
    four = (
        two[0] ** 2,
        2 * two[0] * two[1] + N**4 * variance[0],
        two[1] ** 2 + N**4 * variance[1],
        N**4 * variance[2],
    )
    return two, three, four


def _solve(found: Moments, powers: Powers, step: Step, order: int) -> None:
    """Add the coefficient of ε^order in E Π t_k: what a step keeps of it is on both sides."""
    known = found.setdefault(powers, {})
    known[order] = FIELD.zero
    kept = _terms(step[0]).get(powers, FIELD.zero)
    total = FIELD.zero
    for j, polynomial in enumerate(step[: order + 1]):
        for other, value in _terms(polynomial).items():
            if sum(other) <= 2 * (order - j):
                total += value * found.get(other, {}).get(order - j, FIELD.zero)
    known[order] = total / (1 - kept)


def _terms(polynomial: PolyElement) -> dict[Powers, FracElement]:
    return {
        _sorted(*(k for k, e in zip(GRADES, exponents, strict=True) for _ in range(e))): value
        for exponents, value in polynomial.terms()
    }


def variance() -> FracElement:
    """s, the leading variance of D's components, over ε."""
    return stationary()[2,][1] / DIMENSION


def norm_moment(power: int) -> tuple[sympy.Expr, sympy.Expr]:
    """(E|D|^p at leading order over (ε s)^{p/2}, a χ moment; its relative correction over ε).

    With N the dimension, κ_2 = ε s δ (1 + …), and f = |D|^p, Edgeworth's series is

        E f = E_G[f + ½ δκ_2 ∇²f/N + κ_4 ∇⁴f/(8 N(N+2)) + κ_3² ∇⁶f/(12 N(N+2)(N+4))],

    κ_4 = κ_{aabb}, κ_3² = κ_{abc}κ_{abc} (κ_{aab}, an invariant vector, is 0). Over a Gaussian ∇²
    acts as 2 d/ds on a mean that goes as s^{p/2}.
    """
    moments = stationary()
    (mean, mean_next), cubic = (moments[2,][1], moments[2,][2]), moments[3,][2]
    s, size = variance(), DIMENSION
    # κ_aabb = E|D|⁴ − (E|D|²)² − 2 κ_ab κ_ab at order ε³
    fourth = moments[2, 2][3] - 2 * mean * mean_next * (1 + 2 / size)
    # t_3 = t_abc D_a D_b D_c and κ_abc is a multiple of t_abc, so κ·κ = (E t_3)²/(t·t)
    third = 6 * cubic**2 / wick((3, 3))
    p = FIELD(sympy.QQ(power, 2))
    correction = (
        p * mean_next / mean
        + p * (p - 1) * fourth / (2 * size * (size + 2) * s**2)
        + p * (p - 1) * (p - 2) * 2 * third / (3 * size * (size + 2) * (size + 4) * s**3)
    )
    return _chi_moment(power), sympy.factor(FIELD.to_sympy(correction))


def _chi_moment(power: int) -> sympy.Expr:
    """E χ^p with N degrees of freedom, 2^{p/2} Γ((N+p)/2)/Γ(N/2)."""
    size, start = FIELD.to_sympy(DIMENSION), sympy.Integer(1)
    if power % 2:
        start = sympy.sqrt(2) * sympy.gamma((size + 1) / 2) / sympy.gamma(size / 2)
    steps = [size + power - 2 * j for j in range(1, power // 2 + 1)]
    return start * sympy.factor(sympy.Mul(*steps))
