"""Critical initialization: fixed points of the kernel and the susceptibilities around them.

With one input the kernel moves by K' = C_b + C_W g(K), g(K) = ⟨σσ⟩_K (source 000, eq. 5.3), and two
nearby inputs by (5.4)–(5.5)

    χ_∥(K) = C_W/(2K²) ⟨σσ(z² − K)⟩_K = C_W g'(K),        χ_⊥(K) = C_W ⟨σ'σ'⟩_K .

Criticality is χ_∥ = χ_⊥ = 1 at a fixed point K*. As g' = ⟨σ'σ'⟩ + ⟨σσ''⟩, it needs
⟨σσ''⟩_{K*} = 0, an equation in K* alone; then C_W = 1/⟨σ'σ'⟩_{K*} and C_b = K* − C_W g(K*) ≥ 0.
Its solutions are all K (scale-invariant σ), K* → 0, and isolated K* > 0 (half-stable, since at
χ_∥ = 1 the quadratic term attracts from one side and repels to the other).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import mpmath
import sympy

from ..activations.functions import Activation, as_activation
from ..citations import rests_on
from ..display.objects import Shown, lines_latex
from ..errors import InputError, whole
from ..expressions import as_expression
from ..gaussian.brackets import Average, Bracket
from ..gaussian.oracle import Enclosure
from ..gaussian.small_kernel import around_point, average_at, small_kernel_average
from ..symbols import C_W, C_b, K, layer, z
from ..weights import WeightEnsemble, as_weights
from .gains import LONGEST, Gain, rounded
from .zeros import Function, Profile, between, even_part, extended, profile, same_power, zeros

_MAX_ORDER = 40
_ROUNDING = 10 ** mpmath.mpf(-13)  # of K' − K, beside K
_LINE_DIGITS = 150  # of σ(0)² and g'(0)
_LINE = mpmath.mpf(10) ** -120  # where σ(0)² is 0
_SAME = 10 ** mpmath.mpf(-18)  # of C_W, where every K is fixed


class Errors(NamedTuple):
    """How far the numbers of a critical point can be from the truth; 0 where they are exact."""

    K: sympy.Expr = sympy.Integer(0)
    C_b: sympy.Expr = sympy.Integer(0)
    C_W: sympy.Expr = sympy.Integer(0)
    coefficient: sympy.Expr = sympy.Integer(0)


EXACTLY = Errors()


@dataclass(frozen=True, repr=False)
class KernelFunction(Shown):
    """offset·C_b + factor·C_W ⟨∂^outer Π σ^{(orders)}⟩_K as a function of K: (5.3) or a χ."""

    name: str
    activation: Activation
    orders: tuple[int, ...]
    outer: int
    factor: sympy.Expr
    offset: int

    @property
    def expr(self) -> sympy.Expr | None:
        """The closed form in `K`, `C_W` and `C_b`, or None where none is found."""
        average = self.activation.average_outer(self.orders, self.outer, K)
        return None if average is None else self.offset * C_b + C_W * self.factor * average

    def series(self, power: int) -> sympy.Expr:
        """The expansion for small K, through K^power, with C_W and C_b."""
        average = small_kernel_average(self.activation, self.orders, power + self.outer // 2)
        average = 2 ** (self.outer // 2) * average.diff(K, self.outer // 2)
        return sympy.expand(self.offset * C_b + C_W * self.factor * average)

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` ≥ 0 to this many digits: the closed form, or quadrature."""
        with mpmath.workdps(digits + 10):
            average = average_at(self.activation, self.orders, self.outer, _number(at), digits + 5)
            return self.offset * _number(C_b) + _number(C_W) * _number(self.factor) * average

    def at_weight(self, weight: sympy.Expr) -> sympy.Expr:
        """The function of K at this C_W and C_b = 0, its bracket in closed form if there is one."""
        closed = self.expr
        general = self._definition if closed is None else closed
        return sympy.simplify(general.subs({C_W: weight, C_b: 0}))

    @property
    def _definition(self) -> sympy.Expr:
        """The function with its bracket for an unspecified σ."""
        average = Average(tuple((1, order) for order in self.orders), (1,) * self.outer)
        return self.offset * C_b + C_W * self.factor * average

    def latex(self) -> str:
        """The function in LaTeX, its bracket in closed form where there is one."""
        closed = self.expr
        value = "" if closed is None else f" = {sympy.latex(closed)}"
        head = {"χ_∥": r"\chi_\parallel", "χ_⊥": r"\chi_\perp", "kernel map": "K'"}.get(self.name)
        left = "" if head is None else f"{head}(K) = "
        return f"{left}{sympy.latex(self._definition)}{value}"

    def __str__(self) -> str:
        closed = self.expr
        value = "" if closed is None else f" = {closed}"
        return f"{self.name} of {self.activation}: {self._definition}{value}"


@dataclass(frozen=True, repr=False)
class CriticalPoint(Shown):
    """χ_∥ = χ_⊥ = 1 at K*, where K' − K* = ΔK + coefficient·ΔK^{1+exponent} + ….

    `K` is None where every K is fixed. `coefficient` is 0 where the deviation vanishes identically,
    or faster than every power; then `stability` says which way it goes all the same. `errors` are
    those of K, C_b, C_W and the coefficient: the signs on either side of the zero prove K*'s, and
    the others follow from it, to first order, and from rounding.
    """

    C_b: sympy.Expr
    C_W: sympy.Expr
    K: sympy.Expr | None
    coefficient: sympy.Expr
    exponent: sympy.Expr
    stability: str
    errors: Errors = EXACTLY

    def decay(self, layer: sympy.Symbol) -> sympy.Expr | None:
        """|K − K*| at large depth, (exponent |coefficient| ℓ)^{−1/exponent}, or None."""
        if self.coefficient == 0 or self.stability == "unstable":
            return None
        return (self.exponent * abs(self.coefficient) * layer) ** (-1 / self.exponent)

    def latex(self) -> str:
        """K*, C_b, C_W and the stability in LaTeX."""
        at = r"\text{every } K" if self.K is None else f"K^* = {sympy.latex(rounded(self.K))}"
        return (
            rf"{at},\; C_b = {sympy.latex(rounded(self.C_b))},\; "
            rf"C_W = {sympy.latex(rounded(self.C_W))}\ \text{{({self.stability})}}"
        )

    def __str__(self) -> str:
        at = "every K" if self.K is None else f"K* = {_short(self.K)}"
        return f"{at}: C_b = {_short(self.C_b)}, C_W = {_short(self.C_W)}, {self.stability}"


@dataclass(frozen=True, repr=False)
class Criticality(Shown):
    """What `criticality` found: the class, and every critical point, the class's own first.

    Attributes:
        universality_class: "scale-invariant", "K* = 0", "half-stable" or "none".
        points: the critical points, also those that are unstable and make no class.
        kernel_map, chi_parallel, chi_perp: eqs. (5.3), (5.4), (5.5).
        reason: why there is no class, where there is none.
        searched: the K between which an isolated K* was looked for: 0 and ∞, save where the
            function solved does not come to follow a power of K.
    """

    activation: Activation
    universality_class: str
    points: tuple[CriticalPoint, ...]
    reason: str = ""
    searched: tuple[sympy.Expr, sympy.Expr] = (sympy.S.Zero, sympy.oo)

    @property
    def kernel_map(self) -> KernelFunction:
        """K' = C_b + C_W ⟨σσ⟩_K (5.3)."""
        return _kernel_functions(self.activation)[0]

    @property
    def chi_parallel(self) -> KernelFunction:
        """C_W/(2K²) ⟨σσ(z²−K)⟩_K (5.4)."""
        return _kernel_functions(self.activation)[1]

    @property
    def chi_perp(self) -> KernelFunction:
        """C_W ⟨σ'σ'⟩_K (5.5)."""
        return _kernel_functions(self.activation)[2]

    @property
    def critical(self) -> tuple[sympy.Expr, sympy.Expr]:
        """(C_b, C_W) of the universality class; InputError where there is none."""
        point = self._point()
        return point.C_b, point.C_W

    @property
    def K_star(self) -> sympy.Expr | None:
        """K* of the class; None where every K is fixed."""
        return self._point().K

    @property
    def gain(self) -> Gain:
        """√C_W of the class with the sentence why; InputError, with a way out, where there is none.

        Of a class with several critical points it is the first's, and the sentence names the rest.
        """
        point = self._point()
        others = "; ".join(
            f"K* = {_short(each.K)} at √C_W = {float(sympy.sqrt(each.C_W)):.6g} is {each.stability}"
            for each in self.points[1:]
        )
        reason = f"χ_∥ = χ_⊥ = 1 at {self._why(point)}"
        reason += f"; also critical: {others}" if others else ""
        return Gain(str(self.activation), point.C_W, point.C_b, reason)

    def at(self, K: sympy.Expr | float, digits: int = 20) -> Gain:
        """The gain with χ_⊥ = 1 at a K* of one's choice, C_b = K* − C_W ⟨σσ⟩ and C_W = 1/⟨σ'σ'⟩.

        There angles neither shrink nor grow, to first order; lengths settle where χ_∥ < 1, at that
        rate. Raises InputError for no positive number, and where C_b would be negative.
        """
        wanted = "a fixed point K*, above 0"
        star = as_expression("K", K, wanted)
        if not star.is_number or not star.is_positive:
            raise InputError("K", K, wanted)
        if any(self.activation.jumps(0).values()):
            raise InputError("activation", str(self.activation), "one that does not jump")
        move, parallel, perp = _kernel_functions(self.activation)
        slope = perp(star, digits=digits + 5)
        if not slope:
            raise InputError("activation", str(self.activation), "one that is not constant")
        with mpmath.workdps(digits + 10):
            weight = 1 / slope
            bias = _number(star) - move(star, weight, 0, digits + 5)
            if abs(bias) < _number(star) * mpmath.mpf(10) ** -digits:
                bias = mpmath.mpf(0)
        if bias < 0:
            needs = f"a K* with C_b ≥ 0; here χ_⊥ = 1 needs C_b = {mpmath.nstr(bias, 6)}"
            raise InputError("K", K, needs)
        along = parallel(star, weight, digits=15)
        reason = f"χ_⊥ = 1 at the fixed point K* = {_short(star)}, where χ_∥ = " + (
            mpmath.nstr(along, 6) + (" attracts" if abs(along) < 1 else " does not attract")
        )
        return Gain(str(self.activation), _float(weight, digits), _float(bias, digits), reason)

    def _why(self, point: CriticalPoint) -> str:
        """Where a critical point is, and which way K moves."""
        if point.K is None:
            left, right = self.activation.slopes
            slopes = f"C_W = 2/(a² + b²) with slopes a = {left} and b = {right}"
            return f"every K, which does not move ({slopes})"
        decay = point.decay(layer)
        if decay is not None and len(str(decay)) > LONGEST:
            decay = decay.evalf(6)
        going = "" if decay is None else f", |K − K*| ~ {_short(decay)}"
        where = f"K* = {_short(point.K)}"
        if point.K == 0:
            return f"{where}, where the slope of σ at 0 alone counts ({point.stability}{going})"
        return f"{where}, with C_b = {_short(point.C_b)} ({point.stability}{going})"

    def _point(self) -> CriticalPoint:
        if self.universality_class == "none":
            wanted = f"a critical one: {self.reason}"
            raise InputError("activation", str(self.activation), wanted + self._instead())
        return self.points[0]

    def _instead(self) -> str:
        """What can be done where nothing is critical."""
        if any(self.activation.jumps(0).values()) or not any(
            piece.expr.has(z) for piece in self.activation.pieces
        ):
            return ""
        return (
            "; a block with a norm and a skip is critical at every C_W, layer='residual(skip=1,"
            " norm=rms)', and criticality(σ).at(K) is χ_⊥ = 1 alone at a K* of one's choice"
        )

    def __str__(self) -> str:
        lines = [f"{self.activation}: universality class {self.universality_class}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        for point in self.points:
            lines.append(f"  {point}")
            decay = point.decay(layer)
            if decay is not None:
                lines.append(f"    |K - K*| ~ {_short(decay)}")
        return "\n".join(lines)

    def latex(self) -> str:
        """The class and its critical points in LaTeX."""
        head = f"{self.activation}: {self.universality_class}".replace("_", r"\_")
        return lines_latex([rf"\text{{{head}}}", *(point.latex() for point in self.points)])


def criticality(
    activation: Activation, digits: int = 20, *, weights: WeightEnsemble | None = None
) -> Criticality:
    """Of the dense layer: what `derive.criticality` finds, which explains the arguments."""
    activation = as_activation(activation)
    if weights is not None:
        as_weights("weights", weights)
    return _criticality(activation, whole("digits", digits, 1, 1000))


@cache
def _criticality(activation: Activation, digits: int) -> Criticality:
    if any(activation.jumps(0).values()):
        return Criticality(activation, "none", (), "σ jumps, so χ_⊥ is infinite")
    if all(piece.expr == 0 for piece in activation.pieces):
        return Criticality(activation, "none", (), "σ = 0 forgets its input")
    if activation.is_scale_invariant:
        left, right = activation.slopes
        zero = sympy.Integer(0)
        neutral = CriticalPoint(
            zero, 2 / (left**2 + right**2), None, zero, zero, "neutral: K does not move"
        )
        return Criticality(activation, "scale-invariant", (neutral,))
    if _is_line(activation):
        neutral = _neutral_at_zero(activation)
        reason = "every K is fixed at the C_W below, but χ_⊥ = 1 as K → 0 alone"
        return Criticality(activation, "none", (neutral,), reason)
    at_zero = _point_at_zero(activation)
    isolated, searched = _isolated_points(activation, digits)
    if at_zero is not None and at_zero.stability == "stable":
        return Criticality(activation, "K* = 0", (at_zero, *isolated), searched=searched)
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        found = (*isolated, *unstable)
        return Criticality(activation, "half-stable", found, searched=searched)
    reason = (
        "χ_∥ = χ_⊥ = 1 has no solution with C_b ≥ 0"
        if at_zero is None
        else "the one critical point, K* = 0, repels: K grows away from it"
    )
    return Criticality(activation, "none", unstable, reason, searched)


@rests_on("roberts2022")
def fixed_points(
    activation: Activation,
    C_b: sympy.Expr | float,
    C_W: sympy.Expr | float,
    digits: int = 20,
) -> list[tuple[sympy.Expr, sympy.Expr, sympy.Expr]]:
    """The K* > 0 of K = C_b + C_W ⟨σσ⟩_K, ascending, each with χ_∥ and χ_⊥ there.

    K* attracts where χ_∥ < 1. Where every K is fixed, so that σ² is even up to C_W^{−1} z², there
    is one entry: the symbol `K`, 1, and χ_⊥ as a function of it.

    Arguments:
        activation: σ.
        C_b, C_W: variances, 0 or more.
        digits: of K*, proven by the signs of K' − K at K*(1 ± 10^{−digits}).

    Found where K' − K changes sign on a scan in log K that ends where K' − K follows its laws at
    small and at large K. Raises InputError for what is no variance.

    >>> from derive import activations
    >>> fixed_points(activations.relu, 1, 1, digits=5)
    [(2.0000, 0.50000, 0.50000)]
    >>> fixed_points(activations.relu, 0, 2)
    [(K, 1, 1)]
    """
    if not (_number(C_W) >= 0 and _number(C_b) >= 0):
        raise InputError("C_b, C_W", (C_b, C_W), "variances, 0 or more")
    step, parallel, perp = _kernel_functions(activation)
    if every_rests(activation, C_b, C_W):
        weight = as_expression("C_W", C_W, "a variance")
        return [(K, sympy.Integer(1), perp.at_weight(weight))]

    def excess(at: mpmath.mpf, wanted: int) -> mpmath.mpf:
        return step(at, C_W, C_b, wanted) - at

    return [
        (
            _float(root, digits),
            _float(parallel(root, C_W, digits=digits), digits),
            _float(perp(root, C_W, digits=digits), digits),
        )
        for root in at_rest(activation, C_b, C_W, excess, digits)
    ]


def every_rests(activation: Activation, C_b: sympy.Expr | float, C_W: sympy.Expr | float) -> bool:
    """Whether K' = K for every K, to 18 digits of C_W."""
    if _number(C_b) != 0 or not _is_line(activation):
        return False
    with mpmath.workdps(40):
        return bool(abs(_number(C_W) * _number(_slope(activation)) - 1) < _SAME)


def at_rest(
    activation: Activation,
    C_b: sympy.Expr | float,
    C_W: sympy.Expr | float,
    excess: Function,
    digits: int,
) -> Iterator[mpmath.mpf]:
    """The K > 0 at which K' − K, given as a function, changes sign, each to 10^{−digits}."""
    low, high = _excess_range(activation, _number(C_b), _number(C_W), excess)
    return zeros(excess, low, high, digits, sign_from=lambda at: _ROUNDING * at)


def _excess_range(
    activation: Activation,
    bias: mpmath.mpf,
    weight: mpmath.mpf,
    excess: Callable[[mpmath.mpf, int], mpmath.mpf],
) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The K beyond which K' − K follows its law at either end.

    K' − K → C_b + C_W σ(0)² for small K; where that is 0, (χ − 1)K with χ = C_W g'(0), and where
    that is 0 too, what the next power of K makes it. For large K it is C_W ⟨σσ⟩ − K, ⟨σσ⟩ a power.
    """
    floor = bias + weight * even_part(activation, (0, 0))(mpmath.mpf(0))
    slope = _number(_slope(activation))
    low, high = between(_bend(activation))
    limit, order = (floor, 0) if floor else (weight * slope - 1, 1)
    if limit:
        low = min(low, abs(limit) * low, floor or mpmath.inf)
        low, _ = extended(
            low, mpmath.mpf("0.1"), lambda at: abs(excess(at, 15) / at**order / limit - 1) < 0.25
        )
    at_infinity = _squares(activation)
    high = max(high, between(at_infinity)[1], 100 * floor, 100 * _crossing(at_infinity, weight))

    def settled(at: mpmath.mpf) -> bool:
        law = at_infinity.at_infinity(at)
        if law is None:
            return same_power(excess)(at)
        predicted = weight * law - at
        if abs(predicted) < at * mpmath.mpf(10) ** -12:
            return same_power(excess)(at)
        return bool(abs(excess(at, 15) / predicted - 1) < 0.25)

    high, _ = extended(high, mpmath.mpf(10), settled)
    return low, high


@cache
def _squares(activation: Activation) -> Profile:
    """Of σ²."""
    return profile(activation, even_part(activation, (0, 0)))


@cache
def _bend(activation: Activation) -> Profile:
    """Of σ² − σ(0)² − g'(0) z², as far as it is even."""
    squares = even_part(activation, (0, 0))
    with mpmath.workdps(_LINE_DIGITS):
        floor = squares(mpmath.mpf(0))
        slope = mpmath.mpf(_slope(activation).evalf(_LINE_DIGITS))
    return profile(activation, lambda at: squares(at) - floor - slope * at**2)


def _crossing(at_infinity: Profile, weight: mpmath.mpf) -> mpmath.mpf:
    """The K at which the law C_W ⟨σσ⟩ = C K^{p/2} of large K crosses K; 0 where it does not."""
    coefficient, power = at_infinity.at_infinity(mpmath.mpf(1)), at_infinity.power
    if not weight or not coefficient or power is None or abs(power - 2) < mpmath.mpf("1e-6"):
        return mpmath.mpf(0)
    return (weight * coefficient) ** (1 / (1 - power / 2))


@cache
def _kernel_functions(
    activation: Activation,
) -> tuple[KernelFunction, KernelFunction, KernelFunction]:
    half, one = sympy.Rational(1, 2), sympy.Integer(1)
    return (
        KernelFunction("kernel map", activation, (0, 0), 0, one, 1),
        KernelFunction("χ_∥", activation, (0, 0), 2, half, 0),
        KernelFunction("χ_⊥", activation, (1, 1), 0, one, 0),
    )


def _point_at_zero(activation: Activation) -> CriticalPoint | None:
    """K* = 0 with C_b = 0 and C_W g'(0) = 1, where σ(0) = 0 and g'(0) ≠ 0."""
    slope = small_kernel_average(activation, (0, 0), 1)
    if slope == 0 or slope.subs(K, 0) != 0:
        return None
    zero, C = sympy.Integer(0), 1 / slope.coeff(K, 1)
    if all(activation.beside_zero(side).diff(z, 2) == 0 for side in (-1, 1)):
        return CriticalPoint(zero, C, zero, zero, zero, _beyond_powers(activation, C))
    for power in range(2, _MAX_ORDER):
        beyond = small_kernel_average(activation, (0, 0), power) - slope
        powers: dict[sympy.Expr, sympy.Expr] = {}
        for term in sympy.Add.make_args(sympy.expand(beyond)):
            coefficient, exponent = term.as_coeff_exponent(K)
            powers[exponent] = powers.get(exponent, zero) + C * coefficient
        for exponent, total in sorted(powers.items()):
            if (coefficient := sympy.simplify(total)) != 0:
                stability = "stable" if coefficient < 0 else "unstable"
                return CriticalPoint(zero, C, zero, coefficient, exponent - 1, stability)
    raise InputError("activation", str(activation), f"nonlinear terms below z^{2 * _MAX_ORDER}")


def _beyond_powers(activation: Activation, weight_variance: sympy.Expr) -> str:
    """Which way K moves where σ is linear on either side of 0, up to a kink at distance d.

    Decided at K = d²/16, where what is beyond the kink weighs e^{−8}.
    """
    distance = min(abs(kink) for kink in activation.kinks if kink != 0)
    at = distance**2 / 16
    step = _kernel_functions(activation)[0]
    return "stable" if step(at, weight_variance) < _number(at) else "unstable"


def _is_line(activation: Activation) -> bool:
    """Whether ⟨σσ⟩ = g'(0) K for every K: the even part of σ² is g'(0) z², and nothing more.

    The heat equation takes no other function to one linear in K. Decided by 100 digits of 300 z.
    """
    if _slope(activation) == 0 or any(kink != 0 for kink in activation.kinks):
        return False
    with mpmath.workdps(_LINE_DIGITS):
        starts_at_zero = abs(even_part(activation, (0, 0))(mpmath.mpf(0))) < _LINE
    return starts_at_zero and _bend(activation).vanishes


@cache
def _slope(activation: Activation) -> sympy.Expr:
    """g'(0) = ½(σ'(0−)² + σ'(0+)²) where σ(0) = 0."""
    left, right = (activation.beside_zero(side).diff(z).subs(z, 0) for side in (-1, 1))
    return sympy.simplify((left**2 + right**2) / 2)


def _neutral_at_zero(activation: Activation) -> CriticalPoint:
    zero = sympy.Integer(0)
    return CriticalPoint(zero, 1 / _slope(activation), zero, zero, zero, "neutral: K does not move")


def _isolated_points(
    activation: Activation, digits: int
) -> tuple[tuple[CriticalPoint, ...], tuple[sympy.Expr, sympy.Expr]]:
    """K* > 0 with ⟨σσ''⟩ = 0 there and C_b ≥ 0, and the K that were searched.

    K* is exact where the equation is solved by radicals.
    """
    balance = KernelFunction("⟨σσ''⟩", activation, (0, 2), 0, sympy.Integer(1), 0)

    def value(at: mpmath.mpf, wanted: int) -> mpmath.mpf:
        return balance(at, digits=wanted)

    around = profile(activation, even_part(activation, (0, 2)))
    if around.vanishes and not activation.kinks:
        return (), (sympy.S.Zero, sympy.oo)
    low, high = between(around)

    def settled(at: mpmath.mpf) -> bool:
        law = around.at_infinity(at)
        if law is None or not law:
            return same_power(value)(at)
        return bool(abs(value(at, 15) / law - 1) < 0.25)

    low, below = extended(low, mpmath.mpf("0.1"), lambda at: same_power(value)(10 * at))
    high, above = extended(high, mpmath.mpf(10), settled)
    low_end = sympy.S.Zero if below or around.power is None else _float(low, 3)
    searched = (low_end, sympy.oo if above else _float(high, 3))
    equation = activation.average((0, 2), K)
    points = []
    for root in zeros(value, low, high, digits):
        point = _point_at(activation, root, _exact_root(equation, root, digits), digits)
        if point.C_b >= 0:
            points.append(point)
    return tuple(points), searched


def _point_at(
    activation: Activation, root: mpmath.mpf, K_star: sympy.Expr, digits: int
) -> CriticalPoint:
    """The critical point at K*, with C_W = 1/⟨σ'σ'⟩ and C_b = K* − C_W ⟨σσ⟩."""
    with mpmath.workdps(digits + 10):
        g = [each.value for each in _taylor(activation, (0, 0), root, 4, digits + 5)]
        slopes = [each.value for each in _taylor(activation, (1, 1), root, 2, digits + 5)]
        weight = 1 / slopes[0]
        bias, quadratic = root - weight * g[0], weight * g[2]
        off = 0 if K_star.is_algebraic else root * mpmath.mpf(10) ** -digits
        turn = -(weight**2) * slopes[1]
        moved = (
            off,
            off * abs(1 - turn * g[0] - weight * g[1]),
            off * abs(turn),
            off * abs(turn * g[2] + 3 * weight * g[3]),
        )
        values = (mpmath.mpf(0) if off == 0 else root, bias, weight, quadratic)
        rounding = mpmath.mpf(10) ** -digits
        errors = [
            _float(2 * shift + rounding * abs(value), 3) if shift or value else sympy.S.Zero
            for shift, value in zip(moved, values, strict=True)
        ]
    return CriticalPoint(
        C_b=_float(bias, digits),
        C_W=_float(weight, digits),
        K=K_star,
        coefficient=_float(quadratic, digits),
        exponent=sympy.Integer(1),
        stability=f"half-stable: attracts from {'below' if quadratic > 0 else 'above'}",
        errors=Errors(*errors),
    )


def _taylor(
    activation: Activation, orders: tuple[int, ...], at: mpmath.mpf, count: int, digits: int
) -> tuple[Enclosure, ...]:
    """⟨Π σ^{(orders)}⟩ in powers of K − `at`."""
    bracket = Bracket(tuple((1, order) for order in orders))
    return around_point(activation, bracket, at, count, digits)


def _exact_root(equation: sympy.Expr | None, near: mpmath.mpf, digits: int) -> sympy.Expr:
    """The root by radicals where the equation's numerator has a polynomial factor; else a Float."""
    if equation is not None:
        numerator = sympy.fraction(sympy.factor(equation))[0]
        for factor in sympy.Mul.make_args(numerator):
            if factor.is_polynomial(K) and 0 < sympy.degree(factor, K) <= 2:
                for root in sympy.roots(factor, K):
                    with mpmath.workdps(digits + 10):
                        if abs(_number(root) - near) < near * mpmath.mpf(10) ** (2 - digits):
                            return root
    return _float(near, digits)


def _number(value: object) -> mpmath.mpf:
    exact = as_expression("C_W, C_b", value, "real numbers")
    if not exact.is_number:
        raise InputError("C_W, C_b", value, "real numbers")
    return mpmath.mpf(exact.evalf(mpmath.mp.dps + 5))


def _float(value: mpmath.mpf, digits: int) -> sympy.Expr:
    return sympy.Float(value, digits)


def _short(value: sympy.Expr) -> str:
    return str(rounded(value))
