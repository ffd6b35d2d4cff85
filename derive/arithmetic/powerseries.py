"""Truncated power series Σ_k a_k w^k as lists [a_0, a_1, …], over any field.

The coefficients may be sympy expressions, elements of a polynomial ring, mpmath or Python numbers:
only sums, products and division by whole numbers are used. sympy's `ring_series` asks for the
elements of one polynomial ring, and truncates in its generators; it is used where coefficients are
such series themselves. Other series have terms that a list has no place for: `LogSeries` powers of
log ℓ and any real exponents, `polynomials.Expansion` monomials of the engine's atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Series: TypeAlias = "list[Any]"


def multiply(a: Sequence[Any], b: Sequence[Any]) -> Series:
    """a·b through the shorter one's order."""
    order = min(len(a), len(b))
    return [sum((a[j] * b[k - j] for j in range(1, k + 1)), a[0] * b[k]) for k in range(order)]


def quotient(
    a: Sequence[Any], b: Sequence[Any], terms: int, tidy: Callable[[Any], Any] = lambda value: value
) -> Series:
    """So many terms of a/b, b_0 ≠ 0, by long division; what a and b do not have is 0.

    Arguments:
        tidy: brings each coefficient to a normal form.
    """
    out: Series = []
    for k in range(terms):
        known = sum(b[j] * out[k - j] for j in range(1, min(k, len(b) - 1) + 1))
        out.append(tidy(((a[k] if k < len(a) else 0) - known) / b[0]))
    return out


def power(a: Sequence[Any], exponent: Any) -> Series:
    """a^exponent for a_0 = 1: b' a = exponent·b a', coefficient by coefficient."""
    b = [a[0]]
    for k in range(1, len(a)):
        terms = (a[j] * b[k - j] * (exponent * j - (k - j)) for j in range(1, k + 1))
        b.append(sum(terms, 0 * a[0]) / k)
    return b


def logarithm(a: Sequence[Any]) -> Series:
    """log a for a_0 = 1."""
    out = [0 * a[0]]
    for k in range(1, len(a)):
        rest = sum((out[j] * a[k - j] * j for j in range(1, k)), 0 * a[0])
        out.append(a[k] - rest / k)
    return out


def exponential(a: Sequence[Any]) -> Series:
    """e^a for a_0 = 0."""
    out = [a[0] + 1]
    for k in range(1, len(a)):
        out.append(sum((a[j] * out[k - j] * j for j in range(1, k + 1)), 0 * a[0]) / k)
    return out


def log_s_from_ratios(ratios: Sequence[Any]) -> Series:
    """c_k in log(m_1 S(w)) = Σ_k c_k w^k, from a_k = m_k/m_1^k, k = 1, 2, … (so a_1 = 1).

    M(z) = Σ m_k z^{−k} = u A(u) with u = m_1/z and A = Σ_k a_{k+1} u^k, so m_1 S = (1 + w) u(w)/w
    and Lagrange's theorem gives [w^k] log(u/w) = [u^k] A^{−k} / k.
    """
    one = ratios[0]
    out = [0 * one]
    for k in range(1, len(ratios)):
        inverse = power(ratios[: k + 1], -k)[k]
        out.append((inverse - (-1) ** k * one) / k)
    return out


def ratios_from_log_s(log_s: Sequence[Any]) -> Series:
    """The inverse of `log_s_from_ratios`: a_n = [w^{n−1}] (1 + w)^n e^{−n Σ c_k w^k} / n.

    Lagrange's theorem for M(z), whose inverse is (1 + w)/(w S(w)).
    """
    out = []
    for n in range(1, len(log_s) + 1):
        one_plus = [0 * log_s[0], *((-1) ** (k + 1) * (log_s[0] + 1) / k for k in range(1, n))]
        exponent = [n * (a - b) for a, b in zip(one_plus, log_s[:n], strict=True)]
        out.append(exponential(exponent)[n - 1] / n)
    return out
