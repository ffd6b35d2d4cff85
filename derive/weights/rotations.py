"""Weight ensembles, each given by its pairing matrix C(p, q).

Every ensemble here is invariant under rotations of its rows and of its columns, so that

    E[W_{i1 j1} … W_{i2k j2k}] = C_W^k Σ_{p,q} δ_p(i) C(p,q) δ_q(j),        E[W_ij²] = C_W / n_in,

with p, q pairings of the 2k factors and C a function of the coset type of (p, q) alone. Such a
function is known by its eigenvalues, one for each λ ⊢ k (`groups.zonal`), and for these ensembles

    c_λ = n_in^{-k} s_λ Π_{(i,j)∈λ} Π_{above} (1 + c/a) / Π_{below} (1 + c/b),  c = 2(j−1) − (i−1),

with matrix sizes a, b: a frame of b rows brings a factor (1 + c/b)^{-1}, a summed index of a values
the inverse of that, given singular values their zonal polynomial s_λ (derived here).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import Any, ClassVar, Self, TypeAlias

import sympy

from ..arithmetic.parameters import R_BIG, R_IN, Parameter
from ..arithmetic.polynomials import (
    UNIT,
    Expansion,
    Monomial,
    add,
    constant,
    multiply,
    multiply_all,
    power,
    times,
)
from ..arithmetic.rational import as_sympy
from ..citations import note
from ..errors import InputError
from ..expressions import as_expression, as_text, parse_number
from ..groups.pairings import Blocks, Partition, coset_type, pair_partitions
from ..groups.weingarten import as_partition, series, weingarten
from ..groups.zonal import Spherical, spherical_functions, type_class_size
from ..symbols import r_big, r_in, r_out, trace_moment
from ..work.caches import cache

_MISSING: Any = None

Sizes: TypeAlias = tuple[tuple[sympy.Expr, ...], tuple[sympy.Expr, ...]]
"""Of matrices, above and below in c_λ."""


class _LeftOut(int):
    """The value 1 of a C_W that was not given."""


NO_C_W = _LeftOut(1)
"""The default of C_W. An ensemble with any other C_W `is_scaled`."""

_LATEX = {"gamma": r"\gamma", "moments": r"(p_1, p_2, \ldots)"}


@dataclass(frozen=True)
class WeightEnsemble(ABC):
    """A bi-invariant law of weight matrices with E[W_ij²] = C_W/n_in (source 000, eq. 3.2).

    An average of 2k weights is Σ_{p,q} δ_p(i) C(p,q) δ_q(j), over pairings of rows and of columns;
    a subclass gives C(p,q), exact (`coefficient`) and as a series in 1/n (`expansion`).

    C_W is a number, its text, or a sympy expression; InputError where it is negative, not finite
    or not real. Left out it is 1, and functions that look for a critical C_W (`Network.critical`,
    `spectra.jacobian`) choose their own. Those functions never replace a C_W that is given.
    """

    C_W: sympy.Expr | float = NO_C_W

    is_scaled: ClassVar[bool] = True
    """True if C_W was given. Equality ignores it: Gaussian() == Gaussian(C_W=1)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_scaled", not isinstance(self.C_W, _LeftOut))
        wanted = "a finite weight variance, 0 or more, or a symbol"
        value = as_expression("C_W", self.C_W, wanted)
        if value.is_negative:
            raise InputError("C_W", self.C_W, wanted)
        object.__setattr__(self, "C_W", value)

    def read_number(self, name: str, wanted: str, holds: Callable[[sympy.Expr], bool]) -> None:
        """Read a parameter of the law; InputError where it is missing, or a number that is not as
        wanted."""
        given = getattr(self, name)
        value = None if given is _MISSING else parse_number(name, given)
        if value is None or (value.is_number and not holds(value)):
            raise InputError(name, given, wanted)
        object.__setattr__(self, name, value)

    @abstractmethod
    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """C(p,q)/C_W^k for a pair of pairings of this coset type, exact in the widths.

        The widths are positive integers or sympy expressions in one reference width.
        """

    @abstractmethod
    def expansion(self, coset: Partition, order: int, equal_widths: bool) -> Expansion:
        """`coefficient` as a truncated series in 1/n, up to n^{-order}.

        With `equal_widths` both widths are n; otherwise n_in = r_in·n, and the size of the Haar
        matrix that a rectangular layer is cut from is r_big·n.
        """

    has_rows_of_square: ClassVar[bool] = False
    """True if a matrix with fewer rows than columns has the law of as many rows of a square one."""

    group: ClassVar[str] = "O"
    """The group that keeps the law, of rows and of columns: rotations, or "B", signed permutations,
    of which pairings are set partitions into even blocks."""

    def columns(self, rows: Blocks) -> Iterable[Blocks]:
        """The q with C(p, q) ≠ 0 for a p: pairings of as many points."""
        return pair_partitions(sum(map(len, rows)))

    def pairing_matrix(
        self, rows: Blocks, columns: Blocks, order: int, equal_widths: bool
    ) -> Expansion:
        """C(p, q)/C_W^k as `expansion` gives it, for p of the rows and q of the columns."""
        if any(len(block) > 2 for block in rows):
            return {}
        return self.expansion(coset_type(rows, columns), order, equal_widths)  # type: ignore[arg-type]

    @cached_property
    def unit_variance(self) -> Self:
        """The same law with C_W = 1. Recursions hold the symbol C_W, so that those derived for it
        are those of every C_W."""
        return self if self.C_W == 1 else replace(self, C_W=1)

    def scaled_to(self, C_W: sympy.Expr, argument: str = "weights") -> Self:
        """The same law with this C_W; InputError if it was built with another C_W.

        >>> Orthogonal().scaled_to(sympy.Integer(2))
        Orthogonal(C_W=2)
        """
        away = sympy.N(self.C_W - C_W)
        if self.is_scaled and away.is_number and abs(away) > 1e-12:
            wanted = f"weights without C_W, which is {sympy.N(C_W, 8)} here"
            raise InputError(argument, str(self), wanted)
        return replace(self, C_W=C_W)

    @property
    def name(self) -> str:
        """The name the command line uses: low-rank-orthogonal."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(self).__name__).lower()

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols among the ensemble's parameters, those of another law among them too."""
        values = (getattr(self, each.name) for each in fields(self))
        parts = (part for value in values for part in (value if type(value) is tuple else [value]))
        return set().union(*(getattr(part, "free_symbols", ()) for part in parts))

    def latex(self) -> str:
        """The law's name, E[W_ij²] and the other parameters in LaTeX."""
        parts = [
            rf"\text{{{type(self).__name__}}}",
            rf"\mathbb{{E}}[W_{{ij}}^2] = {sympy.latex(self.C_W)}/n_{{\mathrm{{in}}}}",
        ]
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            if value not in ((), None):
                parts.append(f"{_LATEX.get(each.name, each.name)} = {sympy.latex(value)}")
        return r",\; ".join(parts)

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle {self.latex()}$"

    def __str__(self) -> str:
        values = (f"{each.name}={as_text(getattr(self, each.name))}" for each in fields(self))
        return f"{type(self).__name__}({', '.join(values)})"


@dataclass(frozen=True)
class Gaussian(WeightEnsemble):
    """Independent entries N(0, C_W/n_in): Wick's theorem, C(p,q) = n_in^{-k} δ_pq (eq. 3.4).

    >>> Gaussian(C_W="1/3")
    Gaussian(C_W=1/3)
    """

    has_rows_of_square: ClassVar[bool] = True

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """n_in^{-k} on the diagonal, nothing off it."""
        if any(part > 1 for part in coset):
            return sympy.Integer(0)
        return sympy.sympify(n_in) ** -len(coset)

    def expansion(self, coset: Partition, order: int, equal_widths: bool) -> Expansion:
        """(r_in n)^{-k} on the diagonal."""
        k = len(coset)
        if any(part > 1 for part in coset) or k > order:
            return {}
        return {(UNIT if equal_widths else power(R_IN, -k), k): Fraction(1)}


@dataclass(frozen=True)
class Orthogonal(WeightEnsemble):
    """Haar-random: a block of √(C_W N/n_in) O with O Haar on O(N) and N = max(n_in, n_out).

    C(p,q) = (N/n_in)^k Wg_N(coset type), Weingarten's function (eq. 3.5). Square matrices have
    WᵀW = C_W·1; rectangular ones have orthogonal rows or columns, whichever fit.

    >>> n = sympy.Symbol("n", positive=True)
    >>> sympy.factor(Orthogonal().coefficient((2,), n, n))
    -1/(n*(n - 1)*(n + 2))
    """

    has_rows_of_square: ClassVar[bool] = True

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """(N/n_in)^k Wg_N(coset)."""
        n_in, n_out = sympy.sympify(n_in), sympy.sympify(n_out)
        size = larger(n_in, n_out)
        return sympy.cancel((size / n_in) ** sum(coset) * weingarten(coset, size))

    def expansion(self, coset: Partition, order: int, equal_widths: bool) -> Expansion:
        """(r_big/r_in)^k Σ_t c_t (r_big n)^{-t}."""
        k = sum(coset)
        result: Expansion = {}
        for t, value in enumerate(series(coset, order)):
            if value:
                widths = times(power(R_IN, -k), power(R_BIG, k - t))
                result[UNIT if equal_widths else widths, t] = Fraction(value)
        return result


@dataclass(frozen=True)
class Frames(WeightEnsemble):
    """A product of uniform frames, Gaussian matrices and given singular values, by `sizes`."""

    @abstractmethod
    def sizes(self, n_in: sympy.Expr, n_out: sympy.Expr) -> Sizes:
        """The sizes above and below in c_λ, each linear in the widths."""

    def trace_factor(self, spherical: Spherical) -> dict[int, sympy.Expr]:
        """s_λ by its powers of 1/n_in: 1, unless singular values are given."""
        return {0: sympy.Integer(1)}

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """Σ_λ (d_λ/|X|) ω^λ(coset) c_λ, without the λ on which a frame vanishes.

        Raises InputError where a frame would have more columns than rows.
        """
        coset = as_partition(coset)
        n_in, n_out = sympy.sympify(n_in), sympy.sympify(n_out)
        k, (above, below) = sum(coset), self.sizes(n_in, n_out)
        total = sympy.Integer(0)
        for spherical in spherical_functions(k, 2):
            bottom = prod(1 + c / b for b in below for c in spherical.contents)
            if bottom != 0:
                top = prod(1 + c / a for a in above for c in spherical.contents)
                traces = sum(s * n_in**-j for j, s in self.trace_factor(spherical).items())
                weight = as_sympy(spherical.weight * spherical.values[coset])
                total += weight * top * traces / bottom
        return _factored(total * n_in**-k)

    def expansion(self, coset: Partition, order: int, equal_widths: bool) -> Expansion:
        """c_λ's series in 1/n, factor by factor; γ and moments are numbers or symbols."""
        return _series(self, as_partition(coset), order, equal_widths)


@dataclass(frozen=True)
class Truncated(Frames):
    """A block of √(C_W N/n_in) O with O Haar on O(N), N = ratio · max(n_in, n_out).

    Attributes:
        C_W: n_in E[W_ij²].
        ratio: 1 or more, or a symbol that stands for it in derivations; InputError below 1.

    >>> Truncated(ratio=2)
    Truncated(C_W=1, ratio=2)
    """

    has_rows_of_square: ClassVar[bool] = True

    ratio: sympy.Expr | float = field(default=_MISSING, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = "1 or more, or a symbol, as in Truncated(ratio=2)"
        self.read_number("ratio", wanted, lambda ratio: ratio >= 1)

    def sizes(self, n_in: sympy.Expr, n_out: sympy.Expr) -> Sizes:
        """c_λ = n_in^{-k} / Π(1 + c/N)."""
        big = r_big if {n_in, n_out} == {r_in, r_out} else larger(n_in, n_out)
        return (), (_whole("ratio", self.ratio * big, n_in, n_out),)


@dataclass(frozen=True)
class _LowRank(Frames):
    gamma: sympy.Expr | float = field(default=_MISSING, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = "a ratio of rank to width in (0, 1], or a symbol, as in gamma=0.5"
        self.read_number("gamma", wanted, lambda gamma: 0 < gamma <= 1)
        note("naitsaada2023")

    def _rank(self, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        return _whole("gamma", self.gamma * n_out, n_in, n_out)


@dataclass(frozen=True)
class LowRankGaussian(_LowRank):
    """W = C A of rank r = γ n_out (source 001, eqs. 1–2): C a uniform frame of r orthonormal
    columns, A r × n_in with entries N(0, C_W/(γ n_in)); C_W = γ σ_α² there.

    Attributes:
        C_W: n_in E[W_ij²].
        gamma: γ in (0, 1], or a symbol that stands for it in derivations; InputError outside.

    >>> LowRankGaussian(gamma=0.25)
    LowRankGaussian(C_W=1, gamma=1/4)
    """

    def sizes(self, n_in: sympy.Expr, n_out: sympy.Expr) -> Sizes:
        """c_λ = n_in^{-k} Π (1 + c/r)/(1 + c/n_out)."""
        return (self._rank(n_in, n_out),), (n_out,)


@dataclass(frozen=True)
class LowRankOrthogonal(_LowRank):
    """W = √(C_W/γ) C Bᵀ of rank r = γ n_out, with C and B uniform frames of r orthonormal columns:
    WᵀW is C_W/γ times a projector (source 001, §3.2).

    Attributes:
        C_W: n_in E[W_ij²].
        gamma: γ in (0, 1], or a symbol that stands for it in derivations; InputError outside.

    >>> LowRankOrthogonal(C_W=2, gamma=0.5)
    LowRankOrthogonal(C_W=2, gamma=1/2)
    """

    def sizes(self, n_in: sympy.Expr, n_out: sympy.Expr) -> Sizes:
        """c_λ = n_in^{-k} Π (1 + c/r)/((1 + c/n_out)(1 + c/n_in))."""
        rank = self._rank(n_in, n_out)
        if (rank - n_in).is_positive:
            raise InputError("gamma", self.gamma, f"a rank of at most the width {n_in}")
        return (rank,), (n_out, n_in)


@dataclass(frozen=True)
class BiInvariant(Frames):
    """W = s O_1 S O_2 with independent Haar O_1, O_2 and given singular values S.

    Attributes:
        C_W: n_in E[W_ij²]; s² = C_W n_out/(n_in p_1) sets it, whatever p_1 is.
        moments: p_j = tr (SᵀS)^j / n_in for j = 1, 2, …, numbers or symbols, as many as an average
            has pairs of factors; left out, they are the symbols 1, m_2, m_3, ….

    The singular values are deterministic, so that averages of products of traces are products.
    Raises InputError for moments that no law on [0, ∞) has.

    >>> BiInvariant(moments=(1, 2, 5)).name
    'bi-invariant'
    """

    moments: tuple[sympy.Expr | float, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.moments, tuple | list):
            raise InputError("moments", self.moments, "a sequence (p_1, p_2, …) of trace moments")
        moments = tuple(parse_number("moments", value) for value in self.moments)
        if any(value.is_number and not value > 0 for value in moments):
            raise InputError("moments", self.moments, "positive numbers or symbols")
        if not are_moments(moments):
            wanted = "moments that squared singular values can have, p_2 ≥ p_1² among them"
            raise InputError("moments", self.moments, wanted)
        object.__setattr__(self, "moments", moments)

    def sizes(self, n_in: sympy.Expr, n_out: sympy.Expr) -> Sizes:
        """c_λ = n_in^{-k} s_λ / Π (1 + c/n_out)(1 + c/n_in)."""
        return (), (n_out, n_in)

    def ratios(self, count: int) -> tuple[sympy.Expr, ...]:
        """p_j/p_1^j for j = 1 … count, all of an average that depends on S: 1, m_2, m_3, … where no
        moments are given.

        InputError where fewer are given.
        """
        if not self.moments:
            return _symbolic_moments(count)
        if count > len(self.moments):
            raise InputError("moments", self.moments, f"at least {count} trace moments")
        first = self.moments[0]
        return tuple(p / first**j for j, p in enumerate(self.moments[:count], start=1))

    def trace_factor(self, spherical: Spherical) -> dict[int, sympy.Expr]:
        """s_λ = Σ_μ |μ| ω^λ(μ) Π_i (p_{μ_i}/p_1^{μ_i}) n_in^{ℓ(μ)−k}, S's zonal polynomial."""
        k = sum(spherical.shape)
        ratios = self.ratios(k)
        powers: dict[int, sympy.Expr] = {}
        for mu, value in spherical.values.items():
            traces = prod((ratios[part - 1] for part in mu), start=sympy.Integer(1))
            weight = as_sympy(type_class_size(mu, 2) * value)
            powers[k - len(mu)] = powers.get(k - len(mu), 0) + weight * traces
        return powers

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The moments' symbols too where none are given."""
        own = super().free_symbols
        return own if self.moments else own | set(_symbolic_moments(16)[1:])


@cache
def _symbolic_moments(count: int) -> tuple[sympy.Expr, ...]:
    """p_j/p_1^j = 1, m_2, m_3, …"""
    symbols = (trace_moment(j) for j in range(2, count + 1))
    return (sympy.Integer(1), *symbols)


def are_moments(moments: Sequence[sympy.Expr]) -> bool:
    """True if a law on [0, ∞) can have these m_1, m_2, …, so far as they begin with numbers.

    They are those of Stieltjes' fraction Σ_k m_k x^k = 1/(1 − α_1 x/(1 − α_2 x/(1 − …))), m_0 = 1.
    A law has α_k ≥ 0; where one is 0 the fraction ends, and with it what m_k is free to be. What
    is 0 to a relative 1e-9 counts as 0, as the moments may be rounded decimals.
    """
    rest = [Fraction(1), *map(fraction, takewhile(lambda value: value.is_number, moments))]
    largest = Fraction(0)
    while len(rest) > 1:
        inverse = [Fraction(1)]
        for k in range(1, len(rest)):
            terms = (rest[j] * inverse[k - j] for j in range(1, k + 1))
            inverse.append(-sum(terms, start=Fraction(0)))
        below = [-value for value in inverse[1:]]
        largest = max(largest, below[0])
        if below[0] <= largest / 10**9:
            bounds = (largest * (4 * largest) ** k / 10**9 for k in range(len(below)))
            return all(abs(value) <= bound for value, bound in zip(below, bounds, strict=True))
        rest = [value / below[0] for value in below]
    return True


def fraction(number: sympy.Expr) -> Fraction:
    """A number as a fraction, an irrational one to more digits than `flow` has with a precision."""
    exact = number if number.is_Rational else sympy.Rational(sympy.N(number, 1100))
    return Fraction(int(exact.p), int(exact.q))


_ONE = sympy.Integer(1)


@cache
def _series(weights: Frames, coset: Partition, order: int, equal_widths: bool) -> Expansion:
    k = sum(coset)
    fan_in, fan_out = (_ONE, _ONE) if equal_widths else (r_in, r_out)
    above, below = weights.sizes(fan_in, fan_out)
    total: Expansion = {}
    for spherical in spherical_functions(k, 2):
        traces: Expansion = {}
        for j, value in weights.trace_factor(spherical).items():
            for term in sympy.Add.make_args(sympy.expand(value * fan_in ** (-j - k))):
                scale, mono = atoms_of(term)
                add(traces, {(mono, j + k): scale})
        factors = [_shifted(a, c, order - k, 1) for a in above for c in spherical.contents]
        factors += [_shifted(b, c, order - k, -1) for b in below for c in spherical.contents]
        weight = spherical.weight * spherical.values[coset]
        scaled = constant(Fraction(int(weight.p), int(weight.q)))
        eigenvalue = multiply(traces, multiply_all([scaled, *factors], order - k), order)
        add(total, eigenvalue)
    return total


def _whole(name: str, size: sympy.Expr, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """A matrix size that must be whole wherever the widths are numbers larger than 1."""
    if size.is_number and not size.is_integer and (n_in, n_out) != (_ONE, _ONE):
        raise InputError(name, size, f"a whole number at widths {n_in}, {n_out}")
    return size


def _factored(total: sympy.Expr) -> sympy.Expr:
    """`sympy.factor`, of one fraction: of a sum it expands the product of all denominators."""
    symbols = sorted(total.free_symbols, key=str)
    if symbols and not total.has(sympy.Float):
        fractions = sympy.QQ.frac_field(*symbols)
        with suppress(sympy.CoercionFailed):
            total = fractions.to_sympy(fractions.from_sympy(total))
    return sympy.factor(total)


@cache
def _shifted(size: sympy.Expr, content: int, order: int, sign: int) -> Expansion:
    """(1 + content/(size · n))^{±1} up to n^{-order}."""
    scale, mono = atoms_of(content / size) if content else (Fraction(0), UNIT)
    result = constant(1)
    term = constant(1)
    for _ in range(order if sign < 0 else min(order, 1)):
        term = multiply(term, {(mono, 1): sign * scale}, order) if scale else {}
        add(result, term)
    return result


def atoms_of(term: sympy.Expr) -> tuple[Fraction, Monomial]:
    """A product of a rational number and powers of symbols, in the engine's form.

    Raises InputError for other parameters.
    """
    number, rest = sympy.sympify(term).as_coeff_Mul()
    mono = UNIT
    for base, exponent in rest.as_powers_dict().items():
        if base == 1:
            continue
        if not (base.is_Symbol and exponent.is_Integer):
            raise InputError("weights", term, "parameters that are rational numbers or symbols")
        mono = times(mono, power(Parameter(base.name), int(exponent)))
    return Fraction(int(number.p), int(number.q)), mono


def in_atoms(value: sympy.Expr, at: int = 0) -> Expansion:
    """value · n^{−at} by `atoms_of` its terms; an irrational number is rounded (`fraction`)."""
    found: Expansion = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        number = term.is_number and not term.is_Rational
        scale, mono = (fraction(term), UNIT) if number else atoms_of(term)
        add(found, {(mono, at): scale})
    return found


def larger(n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """The larger of two widths; an error where the two symbols cannot be compared."""
    excess = sympy.simplify(n_in - n_out)
    if excess.is_nonnegative:
        return n_in
    if excess.is_nonpositive:
        return n_out
    raise InputError("n_in, n_out", (n_in, n_out), "two widths that can be compared")
