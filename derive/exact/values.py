"""Numbers and expressions as polynomials in 1/n that are not truncated."""

from __future__ import annotations

import sys
from fractions import Fraction
from functools import reduce

import sympy

from ..arithmetic.polynomials import Expansion, constant, power
from ..arithmetic.polynomials import multiply as truncated_product


def multiply(a: Expansion, b: Expansion) -> Expansion:
    """a·b, all of it."""
    return truncated_product(a, b, sys.maxsize)


def raised(value: Expansion, exponent: int) -> Expansion:
    """value^exponent, a negative one for a value of one term; 0^0 = 1."""
    if exponent and len(value) > 1:
        return reduce(multiply, [value] * exponent)
    if not exponent:
        return constant(1)
    return {
        (frozenset((atom, e * exponent) for atom, e in mono), at * exponent): number**exponent
        for (mono, at), number in value.items()
    }


def exact_value(value: sympy.Expr) -> Expansion:
    """A rational number as it is; anything else as an atom of its own."""
    if value.is_Rational:
        return constant(Fraction(int(value.p), int(value.q))) if value else {}
    return {(power(value, 1), 0): Fraction(1)}
