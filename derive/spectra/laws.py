"""Laws of eigenvalues and their transforms (source 002, eqs. 6–12).

For a probability law ρ on [0, ∞) with moments m_k,

    G(z) = ∫ ρ(t)/(z − t) dt,   M(z) = z G(z) − 1 = Σ_k m_k z^{−k},   S(w) = (1 + w)/(w M⁻¹(w)),

and R(g) = G⁻¹(g) − 1/g. For free X, Y: S_XY = S_X S_Y, so laws multiply; c·law rescales.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import mpmath
import sympy

from ..arithmetic import powerseries
from ..display.objects import Shown, factor_latex, factor_text
from ..errors import InputError, as_integer
from ..expressions import as_expression, parse_number
from ..gaussian.brackets import GaussianAverage
from ..symbols import Symbol
from ..weights import are_moments

z = Symbol("z")
"""The argument of G and M."""
w = Symbol("w")
"""The argument of M⁻¹ and S; a value of M."""
g = Symbol("g")
"""The argument of R; a value of G."""


class Law(Shown, ABC):
    """A law of eigenvalues on [0, ∞), known by its moments and, where they are found, transforms.

    A transform that has no closed form raises InputError; its series and its numerical values
    (`M_at`) remain.
    """

    @abstractmethod
    def moment(self, k: int) -> sympy.Expr:
        """m_k = ∫ t^k ρ(t) dt."""

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """The moment generating function (9), in closed form."""
        raise self._unknown("M(z)")

    def M_inverse(self, at: sympy.Expr = w) -> sympy.Expr:
        """M⁻¹, with M⁻¹(w) ~ m_1/w at w → 0."""
        return _inverse(self, self.M(z)).subs(w, at)

    def G(self, at: sympy.Expr = z) -> sympy.Expr:
        """Stieltjes' transform (7)."""
        return sympy.simplify((1 + self.M(z)) / z).subs(z, at)

    def S(self, at: sympy.Expr = w) -> sympy.Expr:
        """The S-transform (11)."""
        return sympy.factor(sympy.simplify((1 + w) / (w * self.M_inverse(w)))).subs(w, at)

    def R(self, at: sympy.Expr = g) -> sympy.Expr:
        """The R-transform: g = w S(w), R = 1/S(w)."""
        roots = _solutions(sympy.fraction(sympy.together(w * self.S(w) - g))[0], w)
        for root in roots:
            if sympy.limit(_positive(root), g, 0) == 0:
                return sympy.simplify(1 / self.S(root)).subs(g, at)
        raise self._unknown("R(g)")

    @cached_property
    def mean(self) -> sympy.Expr:
        """m_1."""
        return self.moment(1)

    def ratios(self, order: int) -> list[sympy.Expr]:
        """m_k/m_1^k for k = 1 … order."""
        return [sympy.S.One] + [self.moment(k) / self.mean**k for k in range(2, order + 1)]

    def log_s(self, order: int) -> list[sympy.Expr]:
        """The coefficients of w^0 … w^order in log(m_1 S(w)); the first is 0."""
        return powerseries.log_s_from_ratios(self.ratios(order + 1))

    def S_series(self, order: int) -> list[sympy.Expr]:
        """The coefficients of w^0 … w^order in S(w)."""
        return [sympy.expand(c) / self.mean for c in powerseries.exponential(self.log_s(order))]

    def M_at(self, point: mpmath.mpc) -> mpmath.mpc:
        """M at a number off the law's support, in mpmath's working precision."""
        return _evaluate(self.M(z), z, point)

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """Positions with positive mass, and their masses; exact."""
        return {}

    @property
    def is_number(self) -> bool:
        """True if no symbol is left in the law."""
        return bool(self.moment(1).is_number)

    def __mul__(self, other: Law | sympy.Expr | float) -> Law:
        if isinstance(other, Law):
            return Product((self, other))
        return Scaled(self, parse_number("factor", other))

    __rmul__ = __mul__

    def __pow__(self, count: sympy.Expr | int) -> Law:
        return Product([Factor(self, as_expression("count", count, "1 or more, or a symbol"))])

    def _unknown(self, what: str) -> InputError:
        return InputError("law", str(self), f"one whose {what} has a closed form; use its series")


@dataclass(frozen=True, repr=False)
class Atomic(Law):
    """Finitely many eigenvalues: Σ mass δ_position, given as {position: mass}.

    Raises InputError for a negative position or mass, and for masses that do not sum to 1.

    >>> half = Atomic({0: "1/2", 1: "1/2"})
    >>> half.M(), half.S()
    (1/(2*(z - 1)), 2*(w + 1)/(2*w + 1))
    """

    masses: tuple[tuple[sympy.Expr, sympy.Expr], ...]

    def __init__(self, masses: Mapping[sympy.Expr | float, sympy.Expr | float]) -> None:
        merged: dict[sympy.Expr, sympy.Expr] = {}
        for position, mass in masses.items():
            at = parse_number("position", position)
            merged[at] = merged.get(at, sympy.S.Zero) + parse_number("mass", mass)
        kept = {at: mass for at, mass in merged.items() if mass != 0}
        if any(at.is_negative or mass.is_negative for at, mass in kept.items()):
            raise InputError("masses", masses, "positions of 0 or more with positive masses")
        total = sympy.simplify(sum(kept.values()))
        if total.is_number and not abs(sympy.N(total - 1, 30)) < 1e-12:
            raise InputError("masses", masses, f"masses that sum to 1, not {total}")
        object.__setattr__(self, "masses", tuple(kept.items()))

    def moment(self, k: int) -> sympy.Expr:
        """Σ mass · position^k."""
        return sum((mass * at**k for at, mass in self.masses), sympy.S.Zero)

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """Σ mass · a/(z − a)."""
        return sum((mass * a / (at - a) for a, mass in self.masses), sympy.S.Zero)

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """All of it."""
        return dict(self.masses)

    def __str__(self) -> str:
        return " + ".join(f"{factor_text(mass)} δ({at})" for at, mass in self.masses)

    def latex(self) -> str:
        """Σ mass δ_position in LaTeX."""
        return " + ".join(
            rf"{factor_latex(mass)}\,\delta_{{{sympy.latex(at)}}}" for at, mass in self.masses
        )


@dataclass(frozen=True, repr=False)
class Rational(Law):
    """S(w) = (1/mean) Π (1 + a_j w)^{e_j}, whole e_j: products of Gaussian matrices and projectors.

    Attributes:
        mean_value: m_1.
        powers: the pairs (a_j, e_j).

    >>> marchenko_pastur = Rational(sympy.Integer(1), ((sympy.Integer(1), -1),))
    >>> [marchenko_pastur.moment(k) for k in (1, 2, 3, 4)]
    [1, 2, 5, 14]
    """

    mean_value: sympy.Expr
    powers: tuple[tuple[sympy.Expr, int], ...] = ()

    def S(self, at: sympy.Expr = w) -> sympy.Expr:
        """As given."""
        return sympy.prod((1 + a * at) ** e for a, e in self.powers) / self.mean_value

    def M_inverse(self, at: sympy.Expr = w) -> sympy.Expr:
        """(1 + w)/(w S(w))."""
        return sympy.cancel((1 + w) / (w * self.S(w))).subs(w, at)

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """The root of M⁻¹(M) = z that vanishes at infinity, where it has a closed form."""
        return _inverted(self, self.M_inverse(w)).subs(z, at)

    def moment(self, k: int) -> sympy.Expr:
        """By Lagrange's theorem."""
        log_s = [sympy.S.Zero] * k
        for j in range(1, k):
            log_s[j] = sum((e * (-1) ** (j + 1) * a**j for a, e in self.powers), sympy.S.Zero) / j
        return self.mean_value**k * sympy.factor(powerseries.ratios_from_log_s(log_s)[k - 1])

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """At 0, 1 + w_0 with w_0 the zero of M⁻¹ nearest to 0; and at the limit of M⁻¹ at w → ∞,
        where M ~ mass · position/(z − position)."""
        inverse = self.M_inverse(w)
        found = {}
        numerator = sympy.fraction(inverse)[0]
        zeros = [-_rounded(root) for root in sympy.roots(sympy.Poly(numerator, w))]
        at_zero = sympy.simplify(1 - sympy.Min(*zeros)) if zeros else sympy.S.One
        if at_zero != 0:
            found[sympy.S.Zero] = at_zero
        above, below = (sympy.Poly(part, w) for part in sympy.fraction(inverse))
        if above.degree() == below.degree():
            top = sympy.cancel(above.LC() / below.LC())
            beyond = (above - top * below).coeff_monomial(w ** (above.degree() - 1))
            mass = sympy.simplify(beyond / above.LC())
            if not mass.is_number or mass > 0:
                found[top] = mass
        return found

    @property
    def is_number(self) -> bool:
        """True if no symbol is left in the law."""
        return bool(sympy.Tuple(self.mean_value, *(a for a, _ in self.powers)).is_number)

    def __str__(self) -> str:
        return f"S = {self.S()}"

    def latex(self) -> str:
        """S(w) in LaTeX."""
        return f"S(w) = {sympy.latex(self.S())}"


@dataclass(frozen=True, repr=False)
class Density(Law):
    """A law with a density on an interval, given as an expression in `variable`.

    Attributes:
        expr: the density.
        variable: its one symbol.
        lower, upper: the ends of the interval, 0 ≤ lower < upper < ∞.

    Raises InputError unless it is positive inside and integrates to 1.

    >>> t = sympy.Symbol("t")
    >>> round(Density(2 * t, t, 0, 1).moment(2), 12)
    0.500000000000
    """

    expr: sympy.Expr
    variable: sympy.Symbol
    lower: sympy.Expr
    upper: sympy.Expr

    def __post_init__(self) -> None:
        lower, upper = (parse_number(n, getattr(self, n)) for n in ("lower", "upper"))
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        if not (0 <= lower < upper < sympy.oo):
            raise InputError("lower, upper", (lower, upper), "0 ≤ lower < upper, both finite")
        if self.expr.free_symbols - {self.variable}:
            raise InputError("expr", self.expr, f"an expression in {self.variable} alone")
        total = self.average(lambda t: mpmath.mpf(1))
        if abs(total - 1) > 1e-9:
            raise InputError("expr", self.expr, f"a density with total mass 1, not {total}")
        inside = [lower + (upper - lower) * sympy.Rational(k, 64) for k in range(1, 64)]
        if any(not self.expr.subs(self.variable, at).evalf() >= 0 for at in inside):
            raise InputError("expr", self.expr, "a density, 0 or more between its ends")

    def average(self, function: object) -> mpmath.mpc:
        """∫ function(t) ρ(t) dt, by tanh–sinh quadrature."""
        rho = sympy.lambdify(self.variable, self.expr, "mpmath")
        ends = [_mp(self.lower), _mp(self.upper)]
        return mpmath.quad(lambda t: function(t) * rho(t), ends)  # type: ignore[operator]

    def moment(self, k: int) -> sympy.Expr:
        """∫ t^k ρ(t) dt, as a number of the working precision."""
        with mpmath.workdps(max(mpmath.mp.dps, 25)):
            return sympy.Float(self.average(lambda t: t**k).real, mpmath.mp.dps)

    def M_at(self, point: mpmath.mpc) -> mpmath.mpc:
        """∫ t ρ(t)/(z − t) dt."""
        return self.average(lambda t: t / (point - t))

    def __str__(self) -> str:
        return f"density {self.expr} on [{self.lower}, {self.upper}]"

    def latex(self) -> str:
        """The density and its interval in LaTeX."""
        at, lower, upper = map(sympy.latex, (self.variable, self.lower, self.upper))
        body = sympy.latex(self.expr)
        return rf"\rho({at}) = {body},\quad {lower} \le {at} \le {upper}"


@dataclass(frozen=True, repr=False)
class Moments(Law):
    """A law known by its first moments m_1, m_2, … only: series, but no values.

    Raises InputError for numbers that no law on [0, ∞) has for moments.

    >>> Moments([1, 2, 5]).S_series(2)
    [1, -1, 1]
    """

    given: tuple[sympy.Expr, ...]

    def __init__(self, given: Sequence[sympy.Expr | float]) -> None:
        moments = tuple(parse_number("given", value) for value in given)
        if not moments or any(m.is_negative for m in moments):
            raise InputError("given", given, "moments m_1, m_2, … of a law on [0, ∞)")
        if not are_moments(moments):
            raise InputError("given", given, "moments of a law on [0, ∞)")
        object.__setattr__(self, "given", moments)

    def moment(self, k: int) -> sympy.Expr:
        """As given; InputError for a k beyond them."""
        if k > len(self.given):
            raise InputError("given", self.given, f"at least {k} moments")
        return self.given[k - 1]

    def __str__(self) -> str:
        return f"moments {self.given}"

    def latex(self) -> str:
        """The moments in LaTeX."""
        return r",\; ".join(f"m_{{{k}}} = {sympy.latex(m)}" for k, m in enumerate(self.given, 1))


@dataclass(frozen=True)
class Factor:
    """S(scale · w)^count: `count` equal free factors on a corner of trace 1/scale.

    Attributes:
        law: that of each factor.
        count: how many, 1 or more, a number or a symbol.
        scale: 1 but for what is not free from the other factors (`jacobians.zero_padded`).
    """

    law: Law
    count: sympy.Expr = sympy.S.One
    scale: sympy.Expr = sympy.S.One

    def __post_init__(self) -> None:
        if self.count.is_number and not self.count >= 1:
            raise InputError("count", self.count, "1 or more")

    def __str__(self) -> str:
        power = "" if self.count == 1 else f"^⊠{factor_text(self.count)}"
        return f"({self.law}){power}"

    def latex(self) -> str:
        """The law and its power in LaTeX."""
        power = "" if self.count == 1 else rf"^{{\boxtimes {sympy.latex(self.count)}}}"
        return rf"\left({self.law.latex()}\right){power}"


@dataclass(frozen=True, repr=False)
class Product(Law):
    """The free multiplicative convolution of laws: S is the product (source 002, eq. 12).

    Attributes:
        factors: each a `Factor`, or a law, which stands for one.

    >>> half = Atomic({0: "1/2", 1: "1/2"})
    >>> (half * half).moment(2), (half * half).atoms
    (3/16, {0: 1/2})
    >>> (half ** sympy.Symbol("L")).S()
    (2*(w + 1)/(2*w + 1))**L
    """

    factors: tuple[Factor, ...]

    def __init__(self, factors: Iterable[Factor | Law]) -> None:
        """See the class."""
        made = (each if isinstance(each, Factor) else Factor(each) for each in factors)
        object.__setattr__(self, "factors", tuple(made))

    @property
    def laws(self) -> tuple[Law, ...]:
        """The law of each factor; InputError where they are not to be counted, or not free."""
        if any(each.scale != 1 for each in self.factors):
            raise InputError("law", str(self), "free factors")
        counts = (as_integer("count", each.count, 1) for each in self.factors)
        pairs = zip(self.factors, counts, strict=True)
        return tuple(each.law for each, count in pairs for _ in range(count))

    def S(self, at: sympy.Expr = w) -> sympy.Expr:
        """Π S_k(s_k w)^{n_k} (13)."""
        return sympy.prod(each.law.S(each.scale * at) ** each.count for each in self.factors)

    def M_inverse(self, at: sympy.Expr = w) -> sympy.Expr:
        """(1 + w)/(w S(w))."""
        return (1 + at) / (at * self.S(at))

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """The root of M⁻¹(M) = z that vanishes at infinity, where it has a closed form."""
        inverse = self.M_inverse(w)
        if inverse.is_rational_function(w):
            inverse = sympy.cancel(inverse)
        return _inverted(self, inverse).subs(z, at)

    def log_s(self, order: int) -> list[sympy.Expr]:
        """Σ_k n_k s_k^j c_j of the factors."""
        total = [sympy.S.Zero] * (order + 1)
        for each in self.factors:
            for j, c in enumerate(each.law.log_s(order)):
                total[j] += each.count * each.scale**j * c
        return total

    @property
    def first_moment(self) -> sympy.Expr:
        """m_1 = Π of the factors' means."""
        return sympy.prod(each.law.mean**each.count for each in self.factors)

    def moment(self, k: int) -> sympy.Expr:
        """By Lagrange's theorem; exact in the numbers of factors."""
        return self.first_moment**k * powerseries.ratios_from_log_s(self.log_s(k - 1))[k - 1]

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """See `product_atoms`."""
        return product_atoms((each.law, each.count, each.scale) for each in self.factors)

    def __str__(self) -> str:
        return " ⊠ ".join(map(str, self.factors))

    def latex(self) -> str:
        """The free factors in LaTeX."""
        return r" \boxtimes ".join(each.latex() for each in self.factors)


@dataclass(frozen=True, repr=False)
class Scaled(Law):
    """The law of factor·X, factor > 0.

    Attributes:
        law: that of X.
        factor: a positive number or sympy expression.

    >>> (2 * Atomic({0: "1/2", 1: "1/2"})).atoms
    {0: 1/2, 2: 1/2}
    """

    law: Law
    factor: sympy.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.factor, sympy.Expr):
            object.__setattr__(self, "factor", parse_number("factor", self.factor))
        if self.factor.is_positive is False:
            raise InputError("factor", self.factor, "a positive factor")

    def M(self, at: sympy.Expr = z) -> sympy.Expr:
        """M(z/factor)."""
        return self.law.M(at / self.factor)

    def M_inverse(self, at: sympy.Expr = w) -> sympy.Expr:
        """factor · M⁻¹."""
        return self.factor * self.law.M_inverse(at)

    def S(self, at: sympy.Expr = w) -> sympy.Expr:
        """S/factor."""
        return self.law.S(at) / self.factor

    def log_s(self, order: int) -> list[sympy.Expr]:
        """Unchanged: the mean is divided out."""
        return self.law.log_s(order)

    def moment(self, k: int) -> sympy.Expr:
        """factor^k m_k."""
        return self.factor**k * self.law.moment(k)

    def M_at(self, point: mpmath.mpc) -> mpmath.mpc:
        """M(z/factor)."""
        return self.law.M_at(point / _mp(self.factor))

    @property
    def atoms(self) -> dict[sympy.Expr, sympy.Expr]:
        """Moved by the factor."""
        return {self.factor * at: mass for at, mass in self.law.atoms.items()}

    def __str__(self) -> str:
        return f"{factor_text(self.factor)} · ({self.law})"

    def latex(self) -> str:
        """The factor and the law in LaTeX."""
        return rf"{factor_latex(self.factor)} \cdot \left({self.law.latex()}\right)"


def rescaled(law: Law, factor: sympy.Expr) -> Law:
    """The law of factor·X, in as few steps as it takes."""
    if factor == 1:
        return law
    if isinstance(law, Rational):
        return replace(law, mean_value=simplified(law.mean_value * factor))
    if isinstance(law, Scaled):
        return rescaled(law.law, law.factor * factor)
    return Scaled(law, factor)


def simplified(expr: sympy.Expr) -> sympy.Expr:
    """`sympy.simplify`, averages kept whole: it would take the pieces of φ' out of them."""
    averages = {each: sympy.Dummy(positive=True) for each in expr.atoms(GaussianAverage)}
    back = {dummy: average for average, dummy in averages.items()}
    return sympy.simplify(expr.xreplace(averages)).xreplace(back)


def _rounded(root: sympy.Expr) -> sympy.Expr:
    """A root without the imaginary part that rounding gave it, where its numbers are decimals."""
    if not root.has(sympy.Float):
        return root
    real, imaginary = root.evalf().as_real_imag()
    return real if abs(imaginary) < 1e-9 * (1 + abs(real)) else root


def product_atoms(
    factors: Iterable[tuple[Law, sympy.Expr, sympy.Expr]],
) -> dict[sympy.Expr, sympy.Expr]:
    """The atoms of a free product, from (law, number of factors, inverse trace of its corner).

    A law that lives on a corner of trace 1/s has S(s w). At 0 the largest mass that one factor puts
    there. Elsewhere Π a_i is an atom where the defects (1 − mass_i)/s_i add up to less than 1, with
    what is left as its mass (Belinschi, *Integral Equations Operator Theory* 46 (2003)). An atom
    that is not its law's largest has a defect of 1/2 or more, and with another copy of the law 1:
    so at most one factor takes such an atom, one that has no copy. Masses must be numbers.
    """
    at_zero, position, excess = sympy.S.Zero, sympy.S.One, sympy.S.One
    others: list[tuple[sympy.Expr, sympy.Expr]] = []
    for law, count, scale in factors:
        masses = law.atoms
        at_zero = larger(at_zero, 1 - (1 - masses.get(sympy.S.Zero, sympy.S.Zero)) / scale)
        ranked = sorted(
            ((mass, at) for at, mass in masses.items() if at != 0),
            key=lambda pair: -sympy.N(pair[0]),
        )
        mass, at = ranked[0] if ranked else (sympy.S.Zero, sympy.S.One)
        excess -= count * (1 - mass) / scale
        position *= at**count
        if count == 1:
            others += [(next_at / at, (mass - less) / scale) for less, next_at in ranked[1:]]
    found = {sympy.S.Zero: at_zero} if at_zero != 0 else {}
    for ratio, lost in [(sympy.S.One, sympy.S.Zero), *others]:
        if sympy.N(excess - lost) > 0:
            found[position * ratio] = sympy.simplify(excess - lost)
    return found


def larger(one: sympy.Expr, other: sympy.Expr) -> sympy.Expr:
    """The larger of two masses, as 1 − erf(22) is larger than 0; the first where they agree to 1000
    digits. `sympy.Max` of symbols."""
    difference = sympy.sympify(other - one)
    if not difference.is_number:
        return sympy.Max(one, other)
    resolved = sympy.N(difference, 15, maxn=1000)
    return other if resolved > 0 and resolved.is_comparable else one


def _inverse(law: Law, generating: sympy.Expr) -> sympy.Expr:
    """Solve M(z) = w for the z ~ m_1/w."""
    numerator = sympy.fraction(sympy.together(generating - w))[0]
    for root in _solutions(numerator, z):
        if sympy.limit(_positive(root * w / law.mean), w, 0) == 1:
            return sympy.simplify(root)
    raise InputError("law", str(law), "one whose M(z) = w can be solved for z; use its series")


def _inverted(law: Law, inverse: sympy.Expr) -> sympy.Expr:
    numerator = sympy.fraction(sympy.together(inverse - z))[0]
    for root in _solutions(numerator, w):
        if sympy.limit(_positive(root), z, sympy.oo) == 0:
            return sympy.simplify(root)
    raise InputError("law", str(law), "one whose M has a closed form; use its series")


def _solutions(equation: sympy.Expr, variable: sympy.Symbol) -> list[sympy.Expr]:
    """The roots of a polynomial equation of degree 1 or 2; none for anything else."""
    if not equation.is_polynomial(variable):
        return []
    polynomial = sympy.Poly(equation, variable)
    if not 1 <= polynomial.degree() <= 2:
        return []
    return list(sympy.roots(polynomial, variable))


def _positive(expr: sympy.Expr) -> sympy.Expr:
    """The expression with every other symbol made a positive number."""
    others = expr.free_symbols - {z, w, g}
    return expr.xreplace({each: sympy.Rational(k + 2, 2 * k + 5) for k, each in enumerate(others)})


def _evaluate(expr: sympy.Expr, variable: sympy.Symbol, point: mpmath.mpc) -> mpmath.mpc:
    return sympy.lambdify(variable, expr, "mpmath")(mpmath.mpmathify(point))


def _mp(value: sympy.Expr) -> mpmath.mpf:
    """A sympy number in the working precision."""
    return mpmath.mpf(sympy.N(value, mpmath.mp.dps + 5))
