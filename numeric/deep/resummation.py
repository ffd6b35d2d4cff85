"""Series in r = L/n, summed: a tensor's orders in 1/n at L = r n, where each is of order one.

At large depth V + V2/n + V3/n² + … with V ~ a_1 ℓ, V2 ~ a_2 ℓ², … becomes n Σ_k a_k r^k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from scipy import integrate

from derive.arithmetic import powerseries
from derive.errors import InputError, as_sequence
from derive.expressions import parse_number

from .laws import checked_ratio

_R = sympy.Symbol("r")
_FEW = 2
_MOST = 700.0
"""The largest power of e that is a double."""


@dataclass(frozen=True)
class Resummed:
    """A sum with an error from how much its forms disagree.

    Attributes:
        value: the exponential form, which is exact for the moments of a log-normal K.
        error: the largest distance of another form from it.
        forms: "partial sum", "Padé", "Borel" and "exponential".
    """

    value: float
    error: float
    forms: dict[str, float]


def resum(coefficients: Sequence[sympy.Expr | float | str], ratio: float | str) -> Resummed:
    """Σ_k a_k r^k, k = 1, 2, …, from its first terms, by three forms.

    Padé is a quotient of polynomials; Borel is ∫ e^{−t} B(rt) dt with a Padé form of B(x) = Σ a_k
    x^k/k!; exponential is e^{Σ c_k r^k} − 1 with the same series. A form with a pole on the way is
    left out.

    Arguments:
        coefficients: a_1, a_2, …, two or more that are not 0.
        ratio: r.

    By definition of these forms. Raises InputError for fewer than two coefficients that are not 0,
    which most forms cannot tell apart, for what is no number, and for r < 0.

    >>> found = resum([2, 2], "1/2")  # of e^{2r} − 1
    >>> round(found.value, 6), round(found.error, 2)
    (1.718282, 0.28)
    """
    wanted = "two or more numbers other than 0"
    a = [parse_number("coefficients", x) for x in as_sequence("coefficients", coefficients, wanted)]
    if len([x for x in a if x != 0]) < _FEW:
        raise InputError("coefficients", coefficients, wanted)
    r = float(checked_ratio(ratio))
    exponent = _sum(powerseries.logarithm([sympy.S.One, *a])[1:], r)
    if exponent > _MOST:
        raise InputError(
            "ratio", ratio, f"one at which the exponential form, e^{exponent:.3g}, is finite"
        )
    forms = {"partial sum": _sum(a, r), "exponential": math.expm1(exponent)}
    quotient, transform = _pade(a), _pade([c / sympy.factorial(k) for k, c in enumerate(a, 1)])
    if not _poles(quotient, r):
        forms["Padé"] = float(quotient.subs(_R, r))
    if not _poles(transform, math.inf):
        compiled = sympy.lambdify(_R, transform, "math")
        forms["Borel"] = integrate.quad(lambda t: compiled(r * t) * math.exp(-t), 0, 60)[0]
    value = forms["exponential"]
    return Resummed(value, max(abs(each - value) for each in forms.values()), forms)


def _sum(a: Sequence[sympy.Expr], r: float) -> float:
    """Σ a_k r^k."""
    return math.fsum(float(c) * r**k for k, c in enumerate(a, 1))


def _pade(a: Sequence[sympy.Expr]) -> sympy.Expr:
    """Σ a_k r^k as a quotient, the lower degree half of the order, 0 at r = 0."""
    low = len(a) // 2
    high = len(a) - low
    known = [sympy.S.Zero, *a]
    q = sympy.symbols(f"q1:{low + 1}")
    factors = [sympy.S.One, *q]

    def term(k: int) -> sympy.Expr:
        return sympy.Add(*(factors[j] * known[k - j] for j in range(min(k, low) + 1)))

    solved = sympy.solve([term(k) for k in range(high + 1, len(a) + 1)], q, dict=True)
    if not solved:
        return sympy.Add(*(c * _R**k for k, c in enumerate(a, 1)))
    top = sympy.Add(*(term(k) * _R**k for k in range(1, high + 1)))
    bottom = sympy.Add(*(f * _R**k for k, f in enumerate(factors)))
    return (top / bottom).subs(dict.fromkeys(q, 0) | solved[0])


def _poles(form: sympy.Expr, last: float) -> list[sympy.Expr]:
    """The poles between 0 and `last`."""
    bottom = sympy.Poly(sympy.denom(sympy.together(form)), _R)
    roots = bottom.real_roots() if bottom.degree() else []
    return [root for root in roots if 0 < root <= last]
