"""Moments of JJᵀ at any depth, exact in L (source 002, eqs. 17–22).

With S_JJᵀ = Π_l S_{D²} S_{WᵀW} and M⁻¹(w) = (1 + w)/(w S(w)), Lagrange's theorem gives

    m_n = χ^{nL} (1/n) [w^{n−1}] (1 + w)^n exp(−n L Σ_k e_k w^k),        χ = C_W μ_1,

e_k the coefficients of log(μ_1 S_{D²}) + log(C_W S_{WᵀW}), polynomials in μ_{k+1}/μ_1^{k+1} and
s_k. The paper's (21) are n = 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy

from ..arithmetic import powerseries
from ..citations import rests_on
from ..errors import InputError, as_integer, as_sequence
from ..expressions import as_expression
from ..symbols import C_W, L
from ..symbols import slope_moment as mu
from ..symbols import weight_coefficient as s
from ..work.caches import cache

MAX_DEPTH = 10**6
"""Layers, as a number: moments grow like their exponential."""

MAX_ORDER = 16


@rests_on("pennington2018")
def jacobian_moments(
    order: int,
    *,
    depth: sympy.Expr | int = L,
    weight_variance: sympy.Expr | float = C_W,
    slopes: Sequence[sympy.Expr | float] | None = None,
    weights: Sequence[sympy.Expr | float] | None = None,
) -> tuple[sympy.Expr, ...]:
    """m_1, …, m_order of the eigenvalues of JJᵀ, for L identical layers (source 002, eqs. 17–21).

    Arguments:
        order: how many, 1 to 16.
        depth: L, a number or an expression: the factors D W of J, as in `jacobian`.
        weight_variance: C_W.
        slopes: μ_1, …, μ_order; symbols if not given.
        weights: s_1, …, s_{order−1}; symbols if not given.

    Each is χ^{nL} times a polynomial in L, collected in its powers. Raises InputError for another
    order, or lists of other lengths.

    >>> print(jacobian_moments(2)[1])
    (C_W*mu_1)**(2*L)*(L*(-s_1 - 1 + mu_2/mu_1**2) + 1)
    """
    order = check_order(order)
    given_mu = _given("slopes", slopes, order, mu)
    given_s = _given("weights", weights, order - 1, s)
    wanted = f"a number of layers, {MAX_DEPTH} at most, or a symbol"
    first, n_layers = given_mu[0], as_expression("depth", depth, wanted)
    if n_layers.is_number and not 0 <= n_layers <= MAX_DEPTH:
        raise InputError("depth", depth, wanted)
    variance = as_expression("weight_variance", weight_variance, "a variance or a symbol")
    values = [given_mu[k] / first ** (k + 1) for k in range(1, order)] + given_s
    found = []
    for n, by_power in enumerate(_universal(order), start=1):
        polynomial = sympy.Add(
            *(
                n_layers**power * sympy.Add(*_terms(coefficient, values))
                for power, coefficient in sorted(by_power.items())
            )
        )
        found.append((variance * first) ** (n * n_layers) * polynomial)
    return tuple(found)


@rests_on("pennington2018")
def jacobian_variance(
    *, depth: sympy.Expr | int = L, weight_variance: sympy.Expr | float = C_W
) -> sympy.Expr:
    """m_2 − m_1² = χ^{2L} L (μ_2/μ_1² − 1 − s_1) (source 002, eq. 22), critical or not.

    Arguments:
        depth: L, a number or an expression: the factors D W of J, as in `jacobian`.
        weight_variance: C_W.

    Raises InputError for what is neither number nor expression.

    >>> jacobian_variance(depth=1, weight_variance=1)
    -mu_1**2*s_1 - mu_1**2 + mu_2
    """
    first, second = jacobian_moments(2, depth=depth, weight_variance=weight_variance)
    return sympy.factor_terms(sympy.factor(second - first**2))


def check_order(order: object) -> int:
    """How many moments are asked for; InputError unless 1 to 16."""
    return as_integer("order", order, 1, MAX_ORDER)


def _given(name: str, values: Sequence[Any] | None, count: int, symbol: Any) -> list[sympy.Expr]:
    if values is None:
        return [symbol(k) for k in range(1, count + 1)]
    wanted = f"{count} numbers or expressions"
    given = as_sequence(name, values, wanted)
    if len(given) != count:
        raise InputError(name, values, wanted)
    return [as_expression(name, value, wanted) for value in given]


@cache
def _universal(order: int) -> tuple[dict[int, dict[tuple[int, ...], Any]], ...]:
    """m_n/χ^{nL} for n = 1 … order: {power of L: {exponents of a_2 … a_order, s_1 …: coefficient}},
    a_k = μ_k/μ_1^k."""
    names = ["L", *(f"a{k}" for k in range(2, order + 1)), *(f"s{k}" for k in range(1, order))]
    ring, *generators = sympy.ring(names, sympy.QQ)
    layers, ratios, steps = generators[0], generators[1:order], generators[order:]
    slopes = powerseries.log_s_from_ratios([ring.one, *ratios])
    weights = powerseries.logarithm([ring.one, *steps])
    log_s = [layers * (a + b) for a, b in zip(slopes, weights, strict=True)]
    found = []
    for element in powerseries.ratios_from_log_s(log_s):
        by_power: dict[int, dict[tuple[int, ...], Any]] = {}
        for (power, *rest), coefficient in element.terms():
            by_power.setdefault(power, {})[tuple(rest)] = coefficient
        found.append(by_power)
    return tuple(found)


def _terms(coefficients: dict[tuple[int, ...], Any], values: Sequence[sympy.Expr]) -> Any:
    for exponents, coefficient in coefficients.items():
        number = sympy.Rational(int(coefficient.numerator), int(coefficient.denominator))
        yield sympy.Mul(
            number, *(value**e for value, e in zip(values, exponents, strict=True) if e)
        )
