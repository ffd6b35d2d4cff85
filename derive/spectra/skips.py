"""The law of |γ + A₁ + A₂ + …|², γ a number, the A's free and R-diagonal: a skip and branches.

A matrix whose law rotations of its rows and of its columns keep is R-diagonal as it grows. With
f(t) = Σ κ_{2n} t^n, κ_{2n} the free cumulants of the symmetrized singular values,

    f⁻¹(w) = w (1 + w) S(w),        f of a sum of free R-diagonal ones is the sum of theirs,

S the S-transform of the squared singular values (Nica and Speicher, *Fields Inst. Commun.* 12
(1997); Haagerup and Schultz, *J. Funct. Anal.* 252 (2007)). γ + A has the singular values of
γU + A, U Haar and free, whose f is (√(1 + 4γ²t) − 1)/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Any

import sympy

from ..arithmetic import powerseries
from ..arithmetic.powerseries import Series
from ..errors import InputError
from ..work.caches import cache
from .laws import Law, Product, Rational, Scaled, larger

DIGITS = 30
"""Of moments that are not rational numbers."""


@dataclass(frozen=True, repr=False)
class Around(Law):
    """The law of the eigenvalues of JJᵀ, J = γ + Σ A, derived as above.

    Attributes:
        skip: γ; 0 for none, around two branches or more.
        branches: the laws of the A's squared singular values, one or more.

    Raises InputError for no branches, and for a γ of 0 around one, which is no sum.

    >>> from derive.spectra.ensembles import gaussian
    >>> around = Around(sympy.Integer(1), (gaussian(sympy.Integer(1)),))
    >>> [around.moment(k) for k in (1, 2, 3)]
    [2, 7, 30]
    """

    skip: sympy.Expr
    branches: tuple[Law, ...]

    def __post_init__(self) -> None:
        if len(self.branches) < (2 if self.skip == 0 else 1):
            wanted = "a skip other than 0 around one branch or more, or two branches or more"
            raise InputError("skip", self.skip, wanted)

    def moment(self, k: int) -> sympy.Expr:
        """By Lagrange's theorem."""
        ratio = powerseries.ratios_from_log_s(self.log_s(k - 1))[k - 1]
        return sympy.factor(_tidy(self._first**k * ratio))

    def log_s(self, order: int) -> list[sympy.Expr]:
        """Of S = f⁻¹(w)/(w (1 + w)), f the sum of the parts'."""
        return list(_log_s(self, order))

    @property
    def _first(self) -> sympy.Expr:
        """m_1 = γ² + Σ m_1."""
        return _tidy(self.skip**2 + sum((_mean(each) for each in self.branches), sympy.S.Zero))

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """γ², where A is 0 on more than half of the space: what 0 has over ½, on both sides; 0
        where there is no skip, with all that 0 has.

        An atom a + b of a sum has mass μ({a}) + ν({b}) − 1 (Bercovici and Voiculescu, 1998); the
        symmetrized law of γU has masses of ½.
        """
        zero = sympy.S.One
        for each in self.branches:
            zero = larger(sympy.S.Zero, zero + each.atoms.get(sympy.S.Zero, sympy.S.Zero) - 1)
        if self.skip == 0:
            return {sympy.S.Zero: zero} if zero.is_positive else {}
        mass = sympy.simplify(2 * zero - 1)
        return {self.skip**2: mass} if mass.is_positive else {}

    @property
    def is_number(self) -> bool:
        """True if no symbol is left in it."""
        return bool(self._first.is_number)

    def __str__(self) -> str:
        skip = [] if self.skip == 0 else [str(self.skip)]
        return f"|{' + '.join([*skip, *(f'√({each})·O' for each in self.branches)])}|²"

    def latex(self) -> str:
        """The sum in LaTeX, O Haar matrices that are free from all else."""
        parts = [rf"\sqrt{{{each.latex()}}}\,O" for each in self.branches]
        skip = [] if self.skip == 0 else [sympy.latex(self.skip)]
        return rf"\left|{' + '.join([*skip, *parts])}\right|^2"


@cache(entries=2**8)
def _log_s(law: Around, order: int) -> tuple[sympy.Expr, ...]:
    """In units of m_1: t = m_1 τ makes f(t) = τ + …, its coefficients ratios."""
    first = law._first
    total: Series = [sympy.S.Zero] * (order + 1)
    for place, c in enumerate(_of_skip(law.skip**2, order)):
        total[place] += c / first ** (place + 1)
    for each in law.branches:
        for place, c in enumerate(_of_branch(each, order)):
            total[place] += c / first ** (place + 1)
    total = [_tidy(c) for c in total]
    inverse = [_tidy(c) for c in _inverted(total)]  # τ/w
    logarithm = powerseries.logarithm(inverse)
    one_plus = [0, *(sympy.Rational((-1) ** k, k) for k in range(1, order + 1))]  # −log(1 + w)
    return tuple(_tidy(a + b) for a, b in zip(logarithm, one_plus, strict=True))


def _of_skip(square: sympy.Expr, order: int) -> Series:
    """(√(1 + 4γ²t) − 1)/2t: Catalan's numbers."""
    return [
        sympy.Integer((-1) ** k * comb(2 * k, k) // (k + 1)) * square ** (k + 1)
        for k in range(order + 1)
    ]


def _of_branch(law: Law, order: int) -> Series:
    """f(t)/t, the inverse of w (1 + w) S(w)."""
    one_plus = [sympy.S.One, sympy.S.One, *[sympy.S.Zero] * order][: order + 1]
    s = powerseries.exponential(_of_factors(law, order))
    inverse = _inverted(powerseries.multiply(one_plus, s))
    mean = _mean(law)
    return [_tidy(c) * mean ** (k + 1) for k, c in enumerate(inverse)]


def _of_factors(law: Law, order: int) -> Series:
    """`log_s`, each average evaluated once."""
    if isinstance(law, Product):
        each = [_of_factors(factor, order) for factor in law.laws]
        return [_tidy(sum(terms, sympy.S.Zero)) for terms in zip(*each, strict=True)]
    if isinstance(law, Scaled):
        return _of_factors(law.law, order)
    if isinstance(law, Around):
        return law.log_s(order)
    if isinstance(law, Rational):
        return [_tidy(c) for c in law.log_s(order)]
    moments = [_tidy(law.moment(k)) for k in range(1, order + 2)]
    return [
        _tidy(c)
        for c in powerseries.log_s_from_ratios(
            [sympy.S.One, *(m / moments[0] ** k for k, m in enumerate(moments[1:], 2))]
        )
    ]


def _mean(law: Law) -> sympy.Expr:
    if isinstance(law, Product):
        return _tidy(sympy.prod(_mean(factor) for factor in law.laws))
    return _tidy(law.mean)


def _inverted(a: Series) -> Series:
    """Of x a(x), a_0 = 1, the inverse by Lagrange's theorem, over its variable."""
    return [powerseries.power(a[: n + 1], -(n + 1))[n] / (n + 1) for n in range(len(a))]


def _tidy(value: Any) -> sympy.Expr:
    """Rational numbers stay exact, others are decimals, and expressions expanded."""
    exact = sympy.sympify(value)
    if exact.free_symbols:
        return sympy.expand(exact)
    return exact if exact.is_Rational else sympy.N(exact, DIGITS)
