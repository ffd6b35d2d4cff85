"""Polynomials in symbols with coefficients in Q[1/n, n], truncated: the arithmetic of the engine.

A term c · n^{-power} · Π atom^exponent is the item ((monomial, power), c) of a dictionary. Generic
computer algebra spends seconds where this spends milliseconds; sympy is met at the end only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeVar

Atom = Hashable
Monomial = frozenset[tuple[Atom, int]]
Expansion = dict[tuple[Monomial, int], Fraction]

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)

UNIT: Monomial = frozenset()


def monomial(atoms: Iterable[Atom]) -> Monomial:
    """The product of the atoms, each to the power of its count."""
    powers: dict[Atom, int] = {}
    for atom in atoms:
        powers[atom] = powers.get(atom, 0) + 1
    return frozenset(powers.items())


def power(atom: Atom, exponent: int) -> Monomial:
    """atom^exponent."""
    return frozenset({(atom, exponent)}) if exponent else UNIT


def times(a: Monomial, b: Monomial) -> Monomial:
    """a·b."""
    if not a or not b:
        return a or b
    powers = dict(a)
    _raise(powers, b)
    return frozenset(powers.items())


def _raise(powers: dict[Atom, int], by: Monomial) -> None:
    """powers *= by, in place, without the atoms that cancel."""
    for atom, exponent in by:
        powers[atom] = powers.get(atom, 0) + exponent
        if not powers[atom]:
            del powers[atom]


def gathered(items: Iterable[tuple[Key, Any]]) -> dict[Key, Any]:
    """The sum of the values of each key."""
    found: dict[Key, Any] = {}
    for key, value in items:
        found[key] = found[key] + value if key in found else value
    return found


def of_kind(atoms: Iterable[object], kind: type[T]) -> Iterator[T]:
    """The atoms of one class."""
    return (atom for atom in atoms if isinstance(atom, kind))


def atoms_in(terms: Iterable[tuple[Monomial, int]]) -> Iterator[Atom]:
    """The atoms of an expansion, as often as they occur."""
    return (atom for mono, _ in terms for atom, _ in mono)


def constant(value: Fraction | int, n_power: int = 0) -> Expansion:
    """value · n^{-n_power}."""
    return {(UNIT, n_power): Fraction(value)}


def add(
    total: Expansion, other: Mapping[tuple[Monomial, int], Fraction], factor: int | Fraction = 1
) -> None:
    """total += factor · other, in place, dropping what cancels."""
    for key, value in other.items():
        more = value if factor == 1 else factor * value
        new = total[key] + more if key in total else more
        if new:
            total[key] = new
        else:
            total.pop(key, None)


def multiply(a: Expansion, b: Expansion, order: int) -> Expansion:
    """a·b without the terms beyond n^{-order}."""
    result: Expansion = {}
    for (left, i), x in a.items():
        for (right, j), y in b.items():
            if i + j <= order:
                key = (times(left, right), i + j)
                result[key] = result[key] + x * y if key in result else x * y
    return {key: value for key, value in result.items() if value}


def multiply_all(factors: Iterable[Expansion], order: int) -> Expansion:
    """The product of all factors without the terms beyond n^{-order}.

    Factors of one term, which most are, are multiplied first and at once.
    """
    powers: dict[Atom, int] = {}
    at, numerator, denominator = 0, 1, 1
    longer = []
    for factor in factors:
        if len(factor) != 1:
            longer.append(factor)
            continue
        (((mono, own), value),) = factor.items()
        _raise(powers, mono)
        at += own
        numerator *= value.numerator
        denominator *= value.denominator
    result = {(frozenset(powers.items()), at): Fraction(numerator, denominator)}
    for factor in longer:
        result = multiply(result, factor, order)
    return {key: value for key, value in result.items() if value and key[1] <= order}
