"""Laws of independent weights: uniform, ±1, Student's t, a truncated normal, and sparse ones.

Each is scaled to E[W_ij²] = C_W/n_in, and given by the moments of an entry of variance 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import sympy

from ..errors import InputError
from ..expressions import parse_number
from ..groups.pairings import double_factorial_pairings
from .entries import IndependentEntries, PermutationInvariant, check_unscaled
from .rotations import NO_C_W


@dataclass(frozen=True)
class Uniform(IndependentEntries):
    """Entries uniform on ±√(3 C_W/n_in), as torch's `Linear` with C_W = 1/3.

    E[x^{2k}] = 3^k/(2k + 1), by definition; κ_4 = −6/5.

    >>> Uniform(C_W="1/3").cumulant(4)
    -6/5
    """

    def standard_moment(self, k: int) -> sympy.Expr:
        """3^{k/2}/(k + 1) of an even order."""
        return sympy.Integer(0) if k % 2 else sympy.Rational(3 ** (k // 2), k + 1)


@dataclass(frozen=True)
class Rademacher(IndependentEntries):
    """Entries ±√(C_W/n_in) with equal chances: κ_4 = −2, the least there is. By definition.

    >>> Rademacher().cumulant(4), Rademacher().cumulant(6)
    (-2, 16)
    """

    def standard_moment(self, k: int) -> sympy.Expr:
        """1 of an even order."""
        return sympy.Integer(1 - k % 2)


@dataclass(frozen=True)
class StudentT(IndependentEntries):
    """Entries of Student's t with ν degrees of freedom, brought to variance C_W/n_in.

    E[x^{2k}] = (ν − 2)^k Π_{i ≤ k} (2i − 1)/(ν − 2i) for 2k < ν, and κ_4 = 6/(ν − 4): the tensors
    of order 1/n need ν > 4. By definition.

    Attributes:
        C_W: n_in E[W_ij²].
        nu: more than 2, or a symbol; InputError otherwise.

    >>> StudentT(5).cumulant(4)
    6
    """

    nu: sympy.Expr | float = field(kw_only=True)

    def __init__(self, nu: sympy.Expr | float | str, C_W: sympy.Expr | float = NO_C_W) -> None:
        object.__setattr__(self, "C_W", C_W)
        object.__setattr__(self, "nu", nu)
        super().__post_init__()
        self.read_number("nu", "more than 2 degrees of freedom, or a symbol", lambda nu: nu > 2)

    def standard_moment(self, k: int) -> sympy.Expr:
        """The moment; InputError for k ≥ ν, where it is infinite."""
        if k % 2:
            return sympy.Integer(0)
        nu = sympy.sympify(self.nu)
        if nu.is_number and k and k >= nu:
            raise InputError("weights", str(self), f"a finite moment of order {k}: ν above {k}")
        ratios = (sympy.Integer(2 * i - 1) / (nu - 2 * i) for i in range(1, k // 2 + 1))
        return sympy.factor((nu - 2) ** (k // 2) * prod(ratios, start=sympy.Integer(1)))


@dataclass(frozen=True)
class TruncatedNormal(IndependentEntries):
    """Entries normal within ±c standard deviations, brought to variance C_W/n_in.

    By m_k = (k − 1) m_{k−2} − 2 c^{k−1} φ(c)/(2Φ(c) − 1), by parts, for the moments before that.

    Attributes:
        C_W: n_in E[W_ij²].
        cut: c, 2 by default, as the initializers of TensorFlow and JAX have it; InputError unless
            it is a positive number.

    >>> round(float(TruncatedNormal().cumulant(4)), 6)
    -0.634463
    """

    cut: sympy.Expr | float = field(kw_only=True)

    def __init__(self, cut: sympy.Expr | float | str = 2, C_W: sympy.Expr | float = NO_C_W) -> None:
        object.__setattr__(self, "C_W", C_W)
        super().__post_init__()
        value = parse_number("cut", cut)
        if not (value.is_number and value > 0):
            raise InputError("cut", cut, "a positive number of standard deviations")
        object.__setattr__(self, "cut", value)

    def standard_moment(self, k: int) -> sympy.Expr:
        """The moment of the truncated law over its standard deviation to the power k."""
        return self._plain(k) / self._plain(2) ** sympy.Rational(k, 2)

    @property
    def scale(self) -> sympy.Expr:
        """The standard deviation of the normal law of variance 1 within ±c."""
        return sympy.sqrt(self._plain(2))

    def _plain(self, k: int) -> sympy.Expr:
        if k % 2:
            return sympy.Integer(0)
        if k == 0:
            return sympy.Integer(1)
        c = self.cut
        edge = sympy.exp(-(c**2) / 2) / sympy.sqrt(2 * sympy.pi) / sympy.erf(c / sympy.sqrt(2))
        return (k - 1) * self._plain(k - 2) - 2 * c ** (k - 1) * edge


@dataclass(frozen=True, init=False)
class Masked(PermutationInvariant):
    """Entries that are 0 but for a part of them.

    Attributes:
        p: the part that is not 0, in (0, 1], or a symbol.
        of: the law of those, normal if None.
    """

    p: sympy.Expr | float = field(kw_only=True)
    of: IndependentEntries | None = field(kw_only=True)

    def __init__(
        self,
        p: sympy.Expr | float | str,
        of: IndependentEntries | None = None,
        C_W: sympy.Expr | float = NO_C_W,
    ) -> None:
        object.__setattr__(self, "C_W", C_W)
        object.__setattr__(self, "p", p)
        super().__post_init__()
        self.read_number("p", "a part in (0, 1], or a symbol", lambda p: 0 < p <= 1)
        if of is not None and not isinstance(of, IndependentEntries):
            raise InputError("of", of, "an ensemble of independent entries, such as Uniform()")
        check_unscaled("of", of)
        object.__setattr__(self, "of", of)

    def own_moment(self, k: int) -> sympy.Expr:
        """E[x^k] of an entry that is not 0, at variance 1."""
        if self.of is None:
            return sympy.Integer(0 if k % 2 else double_factorial_pairings(k))
        return self.of.standard_moment(k)


@dataclass(frozen=True, init=False)
class Sparse(Masked, IndependentEntries):
    """Entries that are 0 but for a part p of them, each chosen by itself.

    E[x^{2k}] = m_{2k}/p^{k−1}, m_{2k} of the law of those.

    Attributes:
        C_W: n_in E[W_ij²].
        p: the part that is not 0, in (0, 1], or a symbol; InputError outside.
        of: the law of those, normal if left out. By definition.

    >>> Sparse("1/10").cumulant(4)
    27
    """

    @property
    def is_symmetric(self) -> bool:
        """True if the law of those that are not 0 is."""
        return self.of is None or self.of.is_symmetric

    def standard_moment(self, k: int) -> sympy.Expr:
        """The moment of an entry: p times that of x/√p."""
        return self.own_moment(k) / self.p ** (sympy.Rational(k, 2) - 1) if k else sympy.Integer(1)
