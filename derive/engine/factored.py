"""Sums of terms as sympy expressions, with what they have in common in front.

`sympy.factor_terms` goes through all that is within an expression, again whenever it stands in a
larger one; of stages put into each other that was most of the work. Here a sum is factored once,
when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm

import sympy

from ..arithmetic.polynomials import Expansion
from ..work.caches import cache

Powers = dict[sympy.Expr, sympy.Expr]
"""A product: the exponent of each of its bases."""
Key = frozenset[tuple[sympy.Expr, sympy.Expr]]


def polynomial(terms: Expansion, symbol: Callable[[object], sympy.Expr]) -> sympy.Expr:
    """Terms in sympy, `symbol` of each atom, with what they have in common in front.

    What `symbol` returns is factored already.
    """
    images: dict[object, tuple[Fraction, Powers]] = {}
    merged: dict[Key, Fraction] = {}
    for (mono, _), coefficient in terms.items():
        powers: Powers = {}
        value = coefficient
        for atom, exponent in mono:
            if atom not in images:
                images[atom] = _product(symbol(atom))
            number, own = images[atom]
            value *= number**exponent
            for base, power in own.items():
                powers[base] = powers.get(base, sympy.S.Zero) + power * exponent
        for key, part in _opened(powers, value):
            merged[key] = merged.get(key, Fraction(0)) + part
    return _factored({key: value for key, value in merged.items() if value})


@cache(entries=4096)
def _product(expr: sympy.Expr) -> tuple[Fraction, Powers]:
    """A number, and bases with exponents."""
    number, rest = expr.as_coeff_Mul(rational=True)
    powers: Powers = {}
    for factor in sympy.Mul.make_args(rest):
        base, power = factor.as_base_exp()
        powers[base] = powers.get(base, sympy.S.Zero) + power
    powers.pop(sympy.S.One, None)
    return Fraction(int(number.p), int(number.q)), powers


def _opened(powers: Powers, value: Fraction) -> Iterator[tuple[Key, Fraction]]:
    """A product as a term; term by term where it is a number times a sum."""
    powers = {base: power for base, power in powers.items() if power != 0}
    if len(powers) == 1:
        ((base, power),) = powers.items()
        if base.is_Add and power == 1:
            for term in base.args:
                number, own = _product(term)
                yield from _opened(own, value * number)
            return
    yield frozenset(powers.items()), value


def _factored(terms: Mapping[Key, Fraction]) -> sympy.Expr:
    """The greatest common divisor of the terms, times what is left of them."""
    if len(terms) < 2:
        return _total(terms)
    numbers, products = zip(*map(_primitive, terms.items()), strict=True)
    common, content = _common(products), _content(numbers)
    rest: dict[Key, Fraction] = {}
    for powers, value in zip(products, numbers, strict=True):
        left = ((base, power - common.get(base, sympy.S.Zero)) for base, power in powers.items())
        key = frozenset((base, power) for base, power in left if power != 0)
        # (2a + 2b)² and (a + b)² are alike by now
        rest[key] = rest.get(key, Fraction(0)) + value / content
    number = sympy.Rational(content.numerator, content.denominator)
    front = sympy.Mul(*(base**power for base, power in common.items()))
    total = _total(rest)
    if front == 1 and number != 1:  # sympy multiplies a number into a sum that stands alone
        return sympy.Mul(number, total, evaluate=False)
    return sympy.Mul(number, front, total)


def _primitive(term: tuple[Key, Fraction]) -> tuple[Fraction, Powers]:
    """A term whose sums have no number in common."""
    key, number = term
    powers: Powers = {}
    for base, power in key:
        one = base
        if base.is_Add and power.is_Integer:
            content, one = base.primitive()
            number *= Fraction(int(content.p), int(content.q)) ** int(power)
        powers[one] = powers.get(one, sympy.S.Zero) + power
    return number, powers


def _common(products: Sequence[Powers]) -> Powers:
    """The common divisor: of a base's exponents of one sign the one next to 0."""
    common: Powers = {}
    for base, power in products[0].items():
        powers = [each.get(base, sympy.S.Zero) for each in products]
        if all(each.is_positive for each in powers):
            common[base] = min(powers) if power.is_number else power
        elif all(each.is_negative for each in powers):
            common[base] = max(powers)
    return common


def _content(values: Sequence[Fraction]) -> Fraction:
    """The common factor of numbers, with their sign if they share it: a fraction if all are."""
    content = Fraction(gcd(*(value.numerator for value in values)))
    if not any((value / content).denominator == 1 for value in values):
        content /= lcm(*(value.denominator for value in values))
    return -content if all(value < 0 for value in values) else content


def _total(terms: Mapping[Key, Fraction]) -> sympy.Expr:
    """Σ value Π base^power."""
    return sympy.Add(
        *(
            sympy.Mul(
                sympy.Rational(value.numerator, value.denominator),
                *(base**power for base, power in key),
            )
            for key, value in terms.items()
        )
    )
