"""Weight ensembles, each given by its pairing matrix C(p, q).

Every ensemble here is invariant under rotations of its rows and of its columns, so that

    E[W_{i1 j1} … W_{i2k j2k}] = C_W^k Σ_{p,q} δ_p(i) C(p,q) δ_q(j),        E[W_ij²] = C_W / n_in,

with p, q pairings of the 2k factors and C a function of the coset type of (p, q) alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from fractions import Fraction

import sympy

from .algebra import UNIT, Expansion, power, times
from .errors import InputError
from .pairings import Partition
from .parameters import R_BIG, R_IN
from .weingarten import series, weingarten


@dataclass(frozen=True)
class WeightEnsemble(ABC):
    """A bi-invariant law of weight matrices with E[W_ij²] = C_W/n_in (source 000, eq. 3.2)."""

    C_W: sympy.Expr | float = sympy.Integer(1)

    def __post_init__(self) -> None:
        value = sympy.sympify(self.C_W)
        if not value.is_finite and value.is_number or value.is_negative:
            raise InputError("C_W", self.C_W, "a finite weight variance, 0 or more, or a symbol")
        object.__setattr__(self, "C_W", value)

    @abstractmethod
    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """C(p,q)/C_W^k for a pair of pairings of this coset type, exact in the widths.

        The widths are positive integers or sympy expressions in one reference width.
        """

    @abstractmethod
    def expansion(self, coset: Partition, order: int, square: bool) -> Expansion:
        """`coefficient` as a truncated series in 1/n, up to n^{-order}.

        With `square` both widths are n; otherwise n_in = r_in·n, and the size of the Haar matrix
        that a rectangular layer is cut from is r_big·n.
        """

    @property
    def name(self) -> str:
        """The name the command line uses."""
        return type(self).__name__.lower()

    def __str__(self) -> str:
        return f"{type(self).__name__}(C_W={self.C_W})"


@dataclass(frozen=True)
class Gaussian(WeightEnsemble):
    """Independent entries N(0, C_W/n_in): Wick's theorem, C(p,q) = n_in^{-k} δ_pq (eq. 3.4)."""

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """n_in^{-k} on the diagonal, nothing off it."""
        if any(part > 1 for part in coset):
            return sympy.Integer(0)
        return sympy.sympify(n_in) ** -len(coset)

    def expansion(self, coset: Partition, order: int, square: bool) -> Expansion:
        """(r_in n)^{-k} on the diagonal."""
        k = len(coset)
        if any(part > 1 for part in coset) or k > order:
            return {}
        return {(UNIT if square else power(R_IN, -k), k): Fraction(1)}


@dataclass(frozen=True)
class Orthogonal(WeightEnsemble):
    """Haar-random: a block of √(C_W N/n_in) O with O Haar on O(N) and N = max(n_in, n_out).

    C(p,q) = (N/n_in)^k Wg_N(coset type), Weingarten's function (eq. 3.5). Square matrices have
    WᵀW = C_W·1; rectangular ones have orthogonal rows or columns, whichever fit.
    """

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """(N/n_in)^k Wg_N(coset)."""
        n_in, n_out = sympy.sympify(n_in), sympy.sympify(n_out)
        size = larger(n_in, n_out)
        return sympy.cancel((size / n_in) ** sum(coset) * weingarten(coset, size))

    def expansion(self, coset: Partition, order: int, square: bool) -> Expansion:
        """(r_big/r_in)^k Σ_t c_t (r_big n)^{-t}."""
        k = sum(coset)
        result: Expansion = {}
        for t, value in enumerate(series(coset, order)):
            if value:
                widths = times(power(R_IN, -k), power(R_BIG, k - t))
                result[UNIT if square else widths, t] = Fraction(value)
        return result


def larger(n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """The larger of two widths; an error where the two symbols cannot be compared."""
    excess = sympy.simplify(n_in - n_out)
    if excess.is_nonnegative:
        return n_in
    if excess.is_nonpositive:
        return n_out
    raise InputError("n_in, n_out", (n_in, n_out), "two widths that can be compared")
