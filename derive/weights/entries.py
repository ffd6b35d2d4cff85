"""Weights that permutations keep: independent entries of any law, by the cumulants of one entry.

Signed permutations of the rows and of the columns keep the law, so that

    E[W_{i1 j1} … W_{i2k j2k}] = C_W^k Σ_{p,q} δ_p(i) C(p,q) δ_q(j)

over set partitions p, q of the 2k factors into even blocks, of which the pairings are the part that
rotations keep. Of independent entries a joint cumulant is 0 unless all of its factors are one
entry, so with κ_r the cumulants of an entry of variance 1,

    C(p,q) = δ_pq Π_{B ∈ p} κ_{|B|} n_in^{−|B|/2} .

A block of four brings Σ_j n_in^{-2} κ_4 σ_j⁴, of order 1/n as two pairs and their sums are after
subtraction: a cumulant with 2m neural indices is n^{1−m} Σ_p δ_p(i) T_p(α), p now any even set
partition. Odd cumulants of a skewed law bring half powers of n, but for odd σ; `moment` has
them, recursions refuse them. Derived here.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, isfinite, nan, prod
from typing import Any, ClassVar, NamedTuple

import sympy

from ..arithmetic.parameters import R_IN
from ..arithmetic.polynomials import UNIT, Expansion, multiply, power
from ..errors import InputError, as_integer, as_sequence
from ..expressions import as_expression
from ..groups.pairings import Blocks, Partition, even_partitions
from ..work.caches import cache
from .rotations import NO_C_W, WeightEnsemble, in_atoms

MOST_CUMULANT = 12
"""Orders of cumulants that a given distribution is asked for."""
_MOST_ATOMS = 1e6
"""Atoms that are compared with their mirror's; of more, odd moments are computed."""


@dataclass(frozen=True)
class PermutationInvariant(WeightEnsemble):
    """A law that signed permutations of the rows and of the columns keep, by its C(p, q).

    A subclass gives `joint` and `joint_expansion`, and, where most are 0, `columns`.
    """

    group: ClassVar[str] = "B"

    @abstractmethod
    def joint(
        self, rows: Blocks, columns: Blocks, n_in: sympy.Expr, n_out: sympy.Expr
    ) -> sympy.Expr:
        """C(p, q)/C_W^k, exact in the widths, for even set partitions p and q of 2k factors."""

    @abstractmethod
    def joint_expansion(
        self, rows: Blocks, columns: Blocks, order: int, equal_widths: bool
    ) -> Expansion:
        """`joint` as a truncated series in 1/n, up to n^{-order}, as `expansion` has it."""

    def columns(self, rows: Blocks) -> Iterable[Blocks]:
        """The q with C(p, q) ≠ 0 for a p: all even set partitions of its points."""
        return even_partitions(range(sum(map(len, rows))))

    def pairing_matrix(
        self, rows: Blocks, columns: Blocks, order: int, equal_widths: bool
    ) -> Expansion:
        """C(p, q)/C_W^k as a series, for p of the rows and q of the columns."""
        return self.joint_expansion(rows, columns, order, equal_widths)

    def coefficient(self, coset: Partition, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
        """1/n_in of one pair. Raises InputError for more, which pairings do not tell."""
        self._check_one(coset)
        return 1 / sympy.sympify(n_in)

    def expansion(self, coset: Partition, order: int, equal_widths: bool) -> Expansion:
        """1/(r_in n) of one pair. Raises InputError for more."""
        self._check_one(coset)
        return {(UNIT if equal_widths else power(R_IN, -1), 1): Fraction(1)} if order else {}

    def _check_one(self, coset: Partition) -> None:
        if sum(coset) > 1:
            wanted = "weights whose law rotations of rows and columns keep, here: its pairings"
            raise InputError("weights", str(self), wanted)


@dataclass(frozen=True)
class IndependentEntries(PermutationInvariant):
    """Independent entries √(C_W/n_in) x, of a law of x with mean 0 and variance 1."""

    has_rows_of_square: ClassVar[bool] = True

    @abstractmethod
    def standard_moment(self, k: int) -> sympy.Expr:
        """E[x^k]; InputError where it is infinite or not known."""

    def cumulant(self, k: int) -> sympy.Expr:
        """κ_k of x: κ_1 = 0, κ_2 = 1, κ_4 the excess kurtosis.

        By κ_k = m_k − Σ_{j<k} C(k−1, j−1) κ_j m_{k−j}.
        """
        return _cumulant(self, as_integer("k", k, 1))

    @property
    def is_symmetric(self) -> bool:
        """True if x and −x have one law, so far as cumulants that are known tell."""
        return True

    def check_symmetric(self) -> None:
        """Raise InputError for a skewed law, whose tensors have half powers of n.

        κ_3(z) = C_W^{3/2} κ_3 ⟨σ³⟩ n^{-1/2} adds κ_3(z) ⟨∂³f⟩/6 to E f(z). Derived here.
        """
        if not self.is_symmetric:
            wanted = (
                "entries with a symmetric law: κ_3 of a skewed one adds to K itself "
                "C_W^{5/2} κ_3 ⟨σ³⟩ ⟨∂³(σ²)⟩/6 n^{-1/2}, a half power of n; odd cumulants do not "
                "enter K, V and G1 in `flow` where σ is odd and the law of layer 1 is symmetric"
            )
            raise InputError("weights", str(self), wanted)

    def without_skew(self) -> IndependentEntries:
        """A law with the same C_W and κ_4 and no odd cumulants; the law itself where it is so."""
        return self if self.is_symmetric else Independent({4: self.cumulant(4)}, self.C_W)

    def columns(self, rows: Blocks) -> Iterable[Blocks]:
        """p alone."""
        return (rows,)

    def joint(
        self, rows: Blocks, columns: Blocks, n_in: sympy.Expr, n_out: sympy.Expr
    ) -> sympy.Expr:
        """δ_pq Π_B κ_{|B|} n_in^{−|B|/2}, of blocks of odd size too."""
        if sorted(rows) != sorted(columns):
            return sympy.Integer(0)
        n_in, count = sympy.sympify(n_in), sum(map(len, rows))
        return prod((self.cumulant(len(b)) for b in rows), start=sympy.Integer(1)) * n_in ** (
            -sympy.Rational(count, 2)
        )

    def joint_expansion(
        self, rows: Blocks, columns: Blocks, order: int, equal_widths: bool
    ) -> Expansion:
        """Π_B κ_{|B|} (r_in n)^{-k}."""
        self.check_symmetric()
        k = sum(map(len, rows)) // 2
        if sorted(rows) != sorted(columns) or k > order:
            return {}
        return _product(self, tuple(sorted(map(len, rows))), equal_widths)

    def moment(
        self, rows: Sequence[int], cols: Sequence[int], n_in: sympy.Expr | int
    ) -> sympy.Expr:
        """E[Π_a W_{rows_a cols_a}], equal index pairs being one entry: exact, odd orders too.

        Arguments:
            rows, cols: indices, of equal number; those that differ are different neurons.
            n_in: the width that feeds the layer.

        It is Σ_p δ_p(i) C(p,p) δ_p(j) over all set partitions p: by definition, each entry's
        moments. Raises InputError for lists of unequal length.

        >>> from derive import Uniform
        >>> Uniform(C_W=1).moment([1, 1, 1, 1], [2, 2, 2, 2], 10)
        9/500
        """
        given = [
            as_sequence(name, each, "indices") for name, each in (("rows", rows), ("cols", cols))
        ]
        if len(given[0]) != len(given[1]):
            raise InputError("rows, cols", (rows, cols), "lists of equal length")
        scale = self.C_W / sympy.sympify(n_in)
        counts = Counter(zip(*given, strict=True)).values()
        moments = (scale ** sympy.Rational(m, 2) * self.standard_moment(m) for m in counts)
        return sympy.simplify(prod(moments, start=sympy.Integer(1)))


@cache
def _cumulant(entries: IndependentEntries, k: int) -> sympy.Expr:
    known = (
        comb(k - 1, j - 1) * _cumulant(entries, j) * entries.standard_moment(k - j)
        for j in range(1, k)
    )
    return sympy.simplify(entries.standard_moment(k) - sympy.Add(*known))


@cache
def _product(entries: IndependentEntries, sizes: Partition, equal_widths: bool) -> Expansion:
    """Π_B κ_{|B|} (r_in n)^{-k}, its terms in the engine's form."""
    k = sum(sizes) // 2
    widths: Expansion = {(UNIT if equal_widths else power(R_IN, -k), k): Fraction(1)}
    return multiply(widths, in_atoms(sympy.prod(map(entries.cumulant, sizes))), k)


class Moments(NamedTuple):
    """A distribution as it is kept: its name, what makes it again, its moments or cumulants."""

    name: str
    arguments: tuple[Any, ...] = ()
    moments: tuple[sympy.Expr, ...] = ()
    """m_1, m_2, … of the distribution divided by its standard deviation."""
    cumulants: tuple[tuple[int, sympy.Expr], ...] = ()

    @property
    def free_symbols(self) -> set[sympy.Symbol]:
        """The symbols among the moments or cumulants."""
        found: set[sympy.Symbol] = sympy.Tuple(
            *self.moments, *dict(self.cumulants).values()
        ).free_symbols
        return found

    def __str__(self) -> str:
        if self.cumulants:
            return str({k: str(value) for k, value in self.cumulants if k > 2})
        name, *rest = self.arguments
        return f"{self.name}.{name}{rest[0] if rest else ''}"


@dataclass(frozen=True, init=False)
class Independent(IndependentEntries):
    """Independent entries of a given distribution, brought to E[W_ij²] = C_W/n_in.

    Arguments:
        distribution: another ensemble of independent entries, `Uniform()`; a frozen distribution
            of scipy.stats, or a random symbol of sympy.stats, with mean 0; or cumulants by their
            orders, {4: "-6/5"} or {4: Symbol("kappa_4")}, of an entry with variance 1, in which
            those left out are 0: such an ensemble has recursions, but no samples.
        C_W: n_in E[W_ij²].

    Raises InputError for what is no distribution, and for a mean that is not 0. By definition.

    >>> Independent({4: "-6/5"}).cumulant(4)
    -6/5
    """

    distribution: Any = field(kw_only=True, default=None)

    def __init__(self, distribution: Any, C_W: sympy.Expr | float = NO_C_W) -> None:
        object.__setattr__(self, "C_W", C_W)
        object.__setattr__(self, "distribution", _read(distribution))
        super().__post_init__()

    @property
    def is_symmetric(self) -> bool:
        """True if the odd cumulants vanish."""
        law = self.distribution
        if isinstance(law, IndependentEntries):
            return law.is_symmetric
        odd = [value for k, value in law.cumulants if k % 2]
        odd += [m for k, m in enumerate(law.moments, start=1) if k % 2]
        return all(_vanishes(value) for value in odd)

    def standard_moment(self, k: int) -> sympy.Expr:
        """E[x^k]; InputError beyond what the distribution has."""
        law = self.distribution
        if isinstance(law, IndependentEntries):
            return law.standard_moment(k)
        if law.cumulants:
            return _moment_of(law.cumulants, k)
        if k > len(law.moments) or law.moments[k - 1] is sympy.nan:
            raise InputError("distribution", str(law), f"a finite moment of order {k}")
        return law.moments[k - 1] if k else sympy.Integer(1)


def _vanishes(value: sympy.Expr) -> bool:
    return bool(value == 0 or (value.is_number and value.is_finite and abs(value) < 1e-12))


@cache
def _moment_of(cumulants: tuple[tuple[int, sympy.Expr], ...], k: int) -> sympy.Expr:
    """m_k = Σ_j C(k−1, j−1) κ_j m_{k−j}."""
    if k == 0:
        return sympy.Integer(1)
    parts = (
        comb(k - 1, j - 1) * value * _moment_of(cumulants, k - j)
        for j, value in cumulants
        if j <= k
    )
    return sympy.expand(sympy.Add(*parts))


_WANTED = (
    "an ensemble such as Uniform(), a frozen distribution of scipy.stats or a random symbol of "
    "sympy.stats with mean 0, or cumulants by their orders, {4: -1.2}"
)


def _read(given: Any) -> IndependentEntries | Moments:
    """A distribution as it is kept."""
    if isinstance(given, IndependentEntries | Moments):
        check_unscaled("distribution", given)
        return given
    if isinstance(given, Mapping):
        return _of_cumulants(given)
    if type(given).__module__ == "sympy.stats.rv":
        return _of_symbol(given)
    if all(hasattr(given, name) for name in ("dist", "args", "kwds", "moment")):
        return _of_scipy(given)
    raise InputError("distribution", given, _WANTED)


def check_unscaled(argument: str, law: object) -> None:
    """Raise InputError if the inner ensemble has a C_W: the outer ensemble sets the variance."""
    if isinstance(law, IndependentEntries) and law.is_scaled and law.C_W != 1:
        raise InputError(
            argument, str(law), "an ensemble without C_W: the outer ensemble sets the variance"
        )


def _of_cumulants(given: Mapping[Any, Any]) -> Moments:
    found = {2: sympy.Integer(1)}
    for order, value in given.items():
        k = as_integer("distribution", order, 2, MOST_CUMULANT, "orders of cumulants, 2 to 12")
        found[k] = as_expression("distribution", value, "finite cumulants, or symbols")
    if found[2] != 1:
        raise InputError(
            "distribution", given, "cumulants of an entry with variance 1; C_W sets it"
        )
    if 4 in found and found[4].is_number and found[4] < -2:
        raise InputError("distribution", given, "an excess kurtosis of −2 or more")
    third, kurtosis = found.get(3, sympy.S.Zero), found.get(4, sympy.S.Zero)
    if (
        third.is_number
        and kurtosis.is_number
        and kurtosis < third**2 - 2 - sympy.Rational(1, 10**9) * (1 + third**2)
    ):
        wanted = "an excess kurtosis of κ_3² − 2 or more; one that is left out is 0"
        raise InputError("distribution", given, wanted)
    return Moments("cumulants", (), (), tuple(sorted(found.items())))


def _standardised(given: Any, raw: Sequence[sympy.Expr]) -> tuple[sympy.Expr, ...]:
    """Moments of order 1, 2, … of the distribution over its standard deviation."""
    mean, variance = raw[0], raw[1]
    if not _vanishes(mean):
        raise InputError("distribution", given, "a distribution with mean 0")
    if not (variance.is_number and variance > 0 and variance.is_finite):
        raise InputError("distribution", given, "a distribution with a positive, finite variance")
    return tuple(
        sympy.nan if each.is_finite is False else each / variance ** sympy.Rational(k, 2)
        for k, each in enumerate(raw, start=1)
    )


def _of_symbol(given: Any) -> Moments:
    from sympy import stats  # noqa: PLC0415  (a user who has one has paid for the import)

    raw = [sympy.simplify(stats.moment(given, k)) for k in range(1, 9)]
    return Moments("sympy.stats", (str(given.pspace.distribution),), _standardised(given, raw))


def _moment(given: Any, k: int) -> float:
    """E x^k of a distribution of scipy.stats; not finite where there is none.

    Its own `moment` integrates over quantiles, to some ten digits, where it knows no formula.
    """
    from scipy.integrate import IntegrationWarning  # noqa: PLC0415  (as above)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrationWarning)
        rough = float(given.moment(k))
        if k <= 4 or not isfinite(rough) or not hasattr(given.dist, "pdf"):
            return rough
        warnings.simplefilter("error", IntegrationWarning)
        try:
            return float(given.expect(lambda x: x**k))
        except IntegrationWarning:
            return nan


def _of_scipy(given: Any) -> Moments:
    from scipy import stats  # noqa: PLC0415  (as above)

    mean, variance = (float(each) for each in given.stats("mv"))
    own = type(given.dist) is type(getattr(stats, given.dist.name, None))
    discrete = isinstance(given.dist, stats.rv_discrete)
    symmetric = (own or not discrete) and (_mirrored if discrete else _balanced)(given)
    known = [mean, variance + mean**2]
    known += [0.0 if symmetric and k % 2 else _moment(given, k) for k in range(3, 9)]
    exact = [sympy.Rational(str(m)) if isfinite(m) else sympy.nan for m in known]
    name = "scipy.stats" if own else f"{type(given.dist).__name__} of your own"
    arguments = (given.dist.name, tuple(given.args), tuple(sorted(given.kwds.items())))
    return Moments(name, arguments, _standardised(given, exact))


def _balanced(given: Any) -> bool:
    """True if a continuous distribution has equal tails, at three quantiles."""
    quantiles = [float(given.ppf(q)) for q in (0.6, 0.9, 0.99)]
    return all(abs(float(given.sf(x)) - float(given.cdf(-x))) < 1e-9 for x in quantiles)


def _mirrored(given: Any) -> bool:
    """True if the atoms of a discrete distribution of scipy.stats have their mirrors' chances."""
    import numpy as np  # noqa: PLC0415  (scipy has imported it)

    named = {name: value for name, value in given.kwds.items() if name != "loc"}
    plain = given.dist(*given.args[: given.dist.numargs], **named)  # its atoms are integers
    low, high = (float(each) for each in plain.support())
    if isfinite(low) != isfinite(high):
        return False
    if not isfinite(low):
        low, high = float(plain.ppf(1e-13)), float(plain.isf(1e-13))
    twice = 2.0 * float(plain.mean())
    if high - low > _MOST_ATOMS or abs(twice - round(twice)) > 1e-9:
        return False
    atoms = np.arange(low, high + 1.0)
    return bool(np.abs(plain.pmf(atoms) - plain.pmf(round(twice) - atoms)).max() < 1e-10)
