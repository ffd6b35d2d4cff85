"""The law of WᵀW for every weight ensemble, W square (002, Table 2; 001, Table 1, A.10, A.11).

Derived from two facts: the S-transform of a free product is the product, and compressing X by a
free projector of trace τ, seen in the projector's own corner, turns S(w) into S(τw) (because
S_{PX} = S_X · (1 + w)/(τ + w) and M_corner = M/τ).

Independent entries of any law have the limit of normal ones: of centred entries of variance C/n
only the variance enters, and W is free from D as a Gaussian matrix is. `RegularSparse` has entries
that are independent given their places, p n in each row and column, so that it has this limit too.
"""

from __future__ import annotations

import sympy

from .. import symbols
from ..errors import InputError
from ..weights import (
    BiInvariant,
    Gaussian,
    IndependentEntries,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    RegularSparse,
    Truncated,
    WeightEnsemble,
    as_weights,
)
from ..work.caches import cache
from .laws import Atomic, Law, Moments, Rational, Scaled, simplified, w
from .moments import MAX_ORDER


def weight_law(weights: WeightEnsemble | str | Law) -> Law:
    """The limiting law of the eigenvalues of WᵀW, W square and as wide as can be; its mean is C_W.

    Arguments:
        weights: an ensemble of `derive.weights`, or the law itself (then W is bi-invariant with
            these squared singular values, C_W being the law's mean).

    A law given by its moments alone (`BiInvariant`) has series, but no density; its m_k is
    C_W^k p_k/p_1^k, since C_W sets the mean whatever p_1 is. Independent, sparse and regularly
    sparse entries have the law of normal ones (`universal`). Derived here; source 002, Table 2, and
    001, Table 1, A.10 and A.11, state most of them. Raises InputError for what is no ensemble, and
    for `Permuted` weights, whose five moments do not tell it.

    >>> weight_law("gaussian").S()
    1/(w + 1)
    >>> weight_law(LowRankOrthogonal(gamma="1/2")).atoms
    {0: 1/2, 2: 1/2}
    """
    if isinstance(weights, Law):
        return weights
    weights = universal(as_weights("weights", weights))
    C = sympy.sympify(weights.C_W)
    match weights:
        case Orthogonal():
            return Rational(C)
        case Gaussian():
            return gaussian(C)
        case LowRankOrthogonal():
            return projected(Rational(C / weights.gamma), weights.gamma)
        case LowRankGaussian():
            # W = CA and CᵀC = 1, so WᵀW = AᵀA: a Gaussian square matrix of which γ N rows are kept.
            return projected(gaussian(C / weights.gamma), weights.gamma)
        case Truncated():
            trace = 1 / weights.ratio
            return corner(projected(Rational(C / trace), trace), trace)
        case BiInvariant():
            return Scaled(Moments(weights.ratios(len(weights.moments) or MAX_ORDER)), C)
    wanted = "weights with a known law of WᵀW, or this Law; averages of four weights do not tell it"
    raise InputError("weights", str(weights), wanted)


def universal(weights: WeightEnsemble) -> WeightEnsemble:
    """The ensemble whose spectra and freeness these weights share at infinite width.

    >>> universal(as_weights("weights", "uniform(C_W=2)"))
    Gaussian(C_W=2)
    """
    known = isinstance(weights, IndependentEntries | RegularSparse)
    return Gaussian(weights.C_W) if known else weights


def gaussian(variance: sympy.Expr) -> Rational:
    """WᵀW for square W with E[W_ij²] = C/n: S = 1/(C (1 + w)), Marčenko and Pastur's law.

    By Wick's theorem the moments of WᵀW/C are Catalan's numbers, M = Σ Cat_k z^{−k}, which solves
    (1 + M)² = z M: Segner's recursion. So M⁻¹ = (1 + w)²/w.
    """
    catalan = (1 + w) ** 2 / w
    return rational((1 + w) / (w * catalan), variance)


def rational(shape: sympy.Expr, mean: sympy.Expr) -> Rational:
    """The law with S = shape(w)/mean, from a quotient of products of factors 1 + a w."""
    powers = []
    numerator, denominator = sympy.fraction(sympy.factor(shape))
    for expression, sign in ((numerator, 1), (denominator, -1)):
        for factor in sympy.Mul.make_args(expression):
            base, exponent = factor.as_base_exp()
            if not base.has(w):
                continue
            polynomial = sympy.Poly(base, w)
            slope = sympy.cancel(polynomial.coeff_monomial(w) / polynomial.coeff_monomial(1))
            powers.append((slope, sign * int(exponent)))
    law = Rational(mean, tuple(powers))
    if simplified(law.S() * mean - shape) != 0:
        raise InputError("shape", shape, "a product of factors (1 + a w)^e")
    return law


@cache(entries=2**10)
def projected(law: Rational, gamma: sympy.Expr) -> Rational:
    """PX with a free projector P of trace γ, in the whole space: S_X (1 + w)/(γ + w)."""
    projector = sympy.S.One if gamma == 1 else _projector().subs(symbols.gamma, gamma)
    mean = simplified(law.mean_value * gamma)
    shape = law.S() * law.mean_value * projector * gamma
    return rational(sympy.cancel(shape), mean)


@cache
def _projector() -> sympy.Expr:
    """S of a projector of trace γ."""
    return Atomic({1: symbols.gamma, 0: 1 - symbols.gamma}).S()


@cache(entries=2**10)
def corner(law: Rational, trace: sympy.Expr) -> Rational:
    """PXP on the range of a free projector P of trace τ: S(τw), with the mean unchanged."""
    mean = law.mean_value
    return rational(sympy.cancel(law.S(trace * w) * mean), mean)
