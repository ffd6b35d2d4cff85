"""Moments of one step of the batch-norm chain at any Gram matrix: P's eigenvalues, and the noise.

C' = (1/d) Σ_k u_k u_kᵀ, u = g/|g|, g ~ N(0, C), has the mean P(C) = E uuᵀ with C's eigenvectors
and the eigenvalues p_i (source 003, eq. 16), and independent noise ξ = C' − P(C).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import mpmath
import sympy

from derive.batchnorm import series
from derive.batchnorm.series import FIELD
from derive.citations import rests_on
from derive.errors import InputError, as_sequence
from derive.expressions import parse_number
from derive.symbols import batch as n
from derive.symbols import theta
from derive.symbols import width as d

Number: TypeAlias = "float | Fraction | str | sympy.Expr"
"""An eigenvalue: decimals and text stay exact."""


@rests_on("daneshmand2021")
def noise_covariance(width: sympy.Expr = d) -> tuple[sympy.Expr, sympy.Expr]:
    """(a, b) with E ξ_ij ξ_kl = a (δ_ik δ_jl + δ_il δ_jk) + b δ_ij δ_kl, ξ = C' − P(C) at C = 1/n.

    Exact in the width: (1/d)[E u_i u_j u_k u_l − δ_ij δ_kl/n²]. Its trace vanishes, 2a + nb = 0.
    Derived here.

    >>> noise_covariance()
    (1/(d*n*(n + 2)), -2/(d*n**2*(n + 2)))
    """
    fourth = 1 / FIELD.to_sympy(series.census(2))
    return sympy.factor(fourth / width), sympy.factor((fourth - 1 / n**2) / width)


def mean_eigenvalue(eigenvalues: Sequence[sympy.Expr], i: int) -> sympy.Integral:
    """p_i = E[λ_i w_i²/Σ_j λ_j w_j²] as the integral over θ (source 003, eq. 16, for any i).

    1/x = ∫_0^∞ e^{−xθ} dθ, and each Gaussian factor averages to (1 + 2θλ_j)^{−1/2}.

    The integral is not evaluated. Eigenvalues are positive numbers or symbols of any scale.

    >>> mean_eigenvalue([1, 2], 0)
    Integral(1/((2*theta + 1)**(3/2)*sqrt(4*theta + 1)), (theta, 0, oo))
    """
    values = [sympy.sympify(value) for value in eigenvalues]
    factors = [(1 + 2 * theta * value) ** sympy.Rational(-1, 2) for value in values]
    integrand = values[i] / (1 + 2 * theta * values[i]) * sympy.Mul(*factors)
    return sympy.Integral(integrand, (theta, 0, sympy.oo))


def mean_eigenvalue_two(value: sympy.Expr, other: sympy.Expr, count: int, batch: int) -> sympy.Expr:
    """p at an eigenvalue that occurs `count` times, where the other n − count are `other`; closed.

    With t = 1/(1 + 2θλ) the integral is Euler's: (1/n) ₂F₁(1, (n−count)/2; n/2 + 1; 1 − μ/λ).
    Derived here from source 003, eq. 16. `batch` is n, an integer.

    >>> a, b = sympy.symbols("a b", positive=True)
    >>> mean_eigenvalue_two(a, a, 2, 5), mean_eigenvalue_two(a, b, 1, 2)
    (1/5, sqrt(a)/(sqrt(a) + sqrt(b)))
    """
    size, value, other = sympy.Integer(batch), sympy.sympify(value), sympy.sympify(other)
    argument = 1 - other / value
    if argument == 0:
        return 1 / size
    if batch == 2 and count == 1:
        root, other_root = sympy.sqrt(value), sympy.sqrt(other)
        return root / (root + other_root)
    return sympy.hyper((1, (size - count) / 2), (size / 2 + 1,), argument) / size


@rests_on("daneshmand2021")
def mean_spectrum(eigenvalues: Sequence[Number]) -> list[mpmath.mpf]:
    """p_1 … p_n at positive eigenvalues, to mpmath's working precision (source 003, eq. 16).

    The trapezoid rule in log θ: the integrand is analytic for |Im log θ| < π and falls off at both
    ends, so that a step h leaves an error e^{−2π²/h}. The eigenvalues may have any scale; the p_i
    sum to 1. Raises InputError for eigenvalues that are not positive numbers.

    >>> [mpmath.nstr(p, 12) for p in mean_spectrum([1, 4])]
    ['0.333333333333', '0.666666666667']
    """
    values = _checked_spectrum(eigenvalues)
    return [mpmath.fsum(row) for row in _trapezoid(values, 1)]


@rests_on("daneshmand2021")
def fourth_moments(eigenvalues: Sequence[Number]) -> mpmath.matrix:
    """q_ij = E u_i² u_j², so that E ξ_ij ξ_kl = (1/d)(E u_i u_j u_k u_l − p_i p_k δ_ij δ_kl).

    1/x² = ∫ θ e^{−xθ} dθ gives q_ij = c_ij λ_i λ_j ∫ θ Π_k (1+2θλ_k)^{−1/2}/((1+2θλ_i)(1+2θλ_j)),
    c_ii = 3 and 1 else. An n × n matrix for n eigenvalues of any scale, its rows summing to p_i.
    Derived here. Raises InputError for eigenvalues that are not positive numbers.

    >>> print(mpmath.nstr(fourth_moments([1, 1]), 6))
    [0.375  0.125]
    [0.125  0.375]
    """
    values = _checked_spectrum(eigenvalues)
    size = len(values)
    rows = _trapezoid(values, 2)
    found = mpmath.matrix(size)
    for i in range(size):
        for j in range(size):
            found[i, j] = mpmath.fsum(rows[i * size + j]) * (3 if i == j else 1)
    return found


def _trapezoid(values: list[mpmath.mpf], power: int) -> list[list[mpmath.mpf]]:
    """Terms of ∫ θ^{power−1} Π_k (1+2θλ_k)^{−1/2} Π_{a} λ_a/(1+2θλ_a) dθ, for each a or (a, b)."""
    digits = mpmath.mp.dps + 5
    h = 2 * mpmath.pi**2 / (digits * mpmath.log(10))
    low = -digits * mpmath.log(10) / power - 5
    high = 2 * digits * mpmath.log(10) / len(values) + 5 - mpmath.log(min(values))
    rows: list[list[mpmath.mpf]] = [[] for _ in range(len(values) ** power)]
    x = mpmath.floor(low / h) * h
    while x < high:
        point = mpmath.exp(x)
        common = h * point**power / mpmath.sqrt(mpmath.fprod(1 + 2 * point * v for v in values))
        single = [v / (1 + 2 * point * v) for v in values]
        products = single if power == 1 else [a * b for a in single for b in single]
        for row, value in zip(rows, products, strict=True):
            row.append(common * value)
        x += h
    return rows


def _checked_spectrum(eigenvalues: Sequence[Number]) -> list[mpmath.mpf]:
    given = as_sequence("eigenvalues", eigenvalues, "a list of positive numbers")
    values = [parse_number("eigenvalues", value) for value in given]
    if not values or not all(value.is_number and value > 0 for value in values):
        raise InputError("eigenvalues", eigenvalues, "positive numbers")
    return [mpmath.mpf(value.evalf(mpmath.mp.dps + 5)) for value in values]
