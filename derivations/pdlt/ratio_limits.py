"""Deep linear networks of Gaussian weights at large width, large depth, and L/n = r fixed.

    G_{2m}/G_2^m = c_{2m}(n)^{L−1},     log c_{2m}(n) = Σ_{k≥1} (−1)^{k+1} (2^k/k) P_k(m) n^{−k},

with P_k(m) = Σ_{s<m} s^k, a polynomial in m. Source 004, §3.4 and eqs. (3.48)–(3.57); the
corrections, and where the interpolation breaks down, are derived here.
"""

from __future__ import annotations

import sympy

from derive.linear.correlators import cumulants
from derive.symbols import Symbol, m, n
from derive.work.caches import cache

r = Symbol("r", nonnegative=True)


def log_factor(terms: int) -> tuple[sympy.Expr, ...]:
    """The coefficients of 1/n, …, n^{−terms} in log c_{2m}(n), polynomials in m.

    >>> log_factor(2)
    (m*(m - 1), -m*(m - 1)*(2*m - 1)/3)
    """
    return tuple(
        sympy.factor((-1) ** (k + 1) * sympy.Rational(2**k, k) * _power_sum(k))
        for k in range(1, terms + 1)
    )


@cache
def _power_sum(k: int) -> sympy.Expr:
    s = sympy.Symbol("s", integer=True)
    return sympy.summation(s**k, (s, 0, m - 1))


def interpolation(terms: int = 1) -> sympy.Expr:
    """G_{2m}/G_2^m at L = r n layers through n^{−terms+1}: e^{m(m−1)r} and its corrections.

    Source 004, eq. (3.55), for the first term. The exponent is (r n − 1) log c_{2m}(n).

    >>> interpolation(1)
    exp(m*r*(m - 1))
    """
    x = sympy.Symbol("x")
    orders = log_factor(terms)
    exponent = sum((r / x - 1) * value * x**k for k, value in enumerate(orders, start=1))
    leading = sympy.factor(sympy.expand(exponent).coeff(x, 0))
    rest = sympy.expand(exponent - r * orders[0])
    corrections = sympy.series(sympy.exp(rest), x, 0, terms).removeO()
    collected = sum(sympy.factor(corrections.coeff(x, k)) * n**-k for k in range(terms))
    return sympy.exp(leading) * collected


def connected_interpolation(pairs: int) -> sympy.Expr:
    """The connected 2m-point coefficient over G_2^m at L/n = r: a cumulant of e^{k(k−1)r}.

    These are the cumulants of a log-normal variable of mean 1 and log-variance 2r, which is what
    |z|²/E|z|² becomes. Source 004, eqs. (3.56)–(3.57), for m = 2, 3.

    >>> connected_interpolation(3)
    exp(6*r) - 3*exp(2*r) + 2
    """
    moments = [sympy.exp(k * (k - 1) * r) for k in range(1, pairs + 1)]
    return sympy.expand(cumulants(moments)[-1])


def breakdown(width: int, depth: int, tolerance: float = 0.1) -> int:
    """The smallest m at which e^{m(m−1)L/n} is off G_{2m}/G_2^m by a factor beyond 1 + tolerance.

    The exponents differ by m(m−1)/n + r m(m−1)(2m−1)/(3n) + …, r = L/n, so that this m grows as
    (3 n log(1 + tolerance)/(2 r))^{1/3}, or as the square root of n where depth is small: the limit
    holds for fixed m, and not for all m at once.
    """
    allowed = float(sympy.log(1 + tolerance))
    pairs, excess = 1, 0.0
    while abs(excess) <= allowed:
        exact = (depth - 1) * float(sympy.log(1 + sympy.Rational(2 * pairs, width)))
        excess += 2 * pairs * depth / width - exact
        pairs += 1
    return pairs
