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
from itertools import pairwise
from math import prod

import mpmath
import sympy

from .activations import Activation
from .brackets import Shape
from .closed_forms import K
from .errors import InputError
from .oracle import bracket

C_b = sympy.Symbol("C_b", nonnegative=True)
C_W = sympy.Symbol("C_W", positive=True)
SCAN = (-4, 6)
"""Isolated fixed points are looked for at K between 10^−4 and 10^6."""
_STEPS_PER_DECADE = 8
_MAX_ORDER = 40


@dataclass(frozen=True)
class KernelFunction:
    """offset·C_b + factor·C_W ⟨∂^outer Π σ^{(orders)}⟩_K as a function of K: the map (5.3) or a χ."""

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
        for _ in range(self.outer // 2):
            average = 2 * average.diff(K)
        return sympy.expand(self.offset * C_b + C_W * self.factor * average)

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` ≥ 0 to this many digits, by rigorous quadrature."""
        shape = Shape(self.orders, (self.outer,) + (0,) * (len(self.orders) - 1))
        with mpmath.workdps(digits + 10):
            value = bracket(self.activation, shape, at, digits + 5).value
            return self.offset * _number(C_b) + _number(C_W) * _number(self.factor) * value


@dataclass(frozen=True)
class CriticalPoint:
    """χ_∥ = χ_⊥ = 1 at K*, and the leading deviation K' − K* = ΔK + coefficient·ΔK^{1+exponent} + ….

    `K` is None where every K is fixed. `coefficient` is 0 where the deviation vanishes identically,
    or faster than every power; then `stability` says which way it goes all the same.
    """

    C_b: sympy.Expr
    C_W: sympy.Expr
    K: sympy.Expr | None
    coefficient: sympy.Expr
    exponent: sympy.Expr
    stability: str

    def decay(self, layer: sympy.Symbol) -> sympy.Expr | None:
        """The leading |K − K*| at large depth, (exponent |coefficient| ℓ)^{−1/exponent}, or None."""
        if self.coefficient == 0 or self.stability == "unstable":
            return None
        return (self.exponent * abs(self.coefficient) * layer) ** (-1 / self.exponent)


@dataclass(frozen=True)
class Criticality:
    """What `criticality` found: the class, and every critical point, the class's own first.

    Attributes:
        universality_class: "scale-invariant", "K* = 0", "half-stable" or "none".
        points: the critical points, also those that are unstable and make no class.
        kernel_map, chi_parallel, chi_perp: eqs. (5.3), (5.4), (5.5).
        reason: why there is no class, where there is none.
    """

    activation: Activation
    universality_class: str
    points: tuple[CriticalPoint, ...]
    reason: str = ""

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

    def _point(self) -> CriticalPoint:
        if self.universality_class == "none":
            raise InputError("activation", str(self.activation), f"a critical one: {self.reason}")
        return self.points[0]

    def __str__(self) -> str:
        lines = [f"{self.activation}: universality class {self.universality_class}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        layer = sympy.Symbol("l", positive=True)
        for point in self.points:
            at = "every K" if point.K is None else f"K* = {_short(point.K)}"
            lines.append(
                f"  {at}: C_b = {_short(point.C_b)}, C_W = {_short(point.C_W)}, {point.stability}"
            )
            decay = point.decay(layer)
            if decay is not None:
                lines.append(f"    |K - K*| ~ {_short(decay)}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        rows = [rf"\text{{{self.activation}: {self.universality_class}}}"]
        for point in self.points:
            at = "K^*" if point.K is None else f"K^* = {sympy.latex(_rounded(point.K))}"
            rows.append(
                rf"{at},\; C_b = {sympy.latex(_rounded(point.C_b))},\; "
                rf"C_W = {sympy.latex(_rounded(point.C_W))}\ \text{{({point.stability})}}"
            )
        return r"$\displaystyle \begin{array}{l}" + r" \\ ".join(rows) + r"\end{array}$"


@cache
def criticality(activation: Activation, digits: int = 20) -> Criticality:
    """The universality class and the critical initialization of an activation, by solving.

    Arguments:
        digits: of K*, C_b and C_W where they are not exact.

    The equation ⟨σσ''⟩_K = 0 is solved on 10^−4 ≤ K ≤ 10^6 where it changes sign; a K* beyond, or
    one that only touches zero, is not found. Source 000, §5.1, with the classes of PDLT, ch. 5.
    """
    if not isinstance(activation, Activation):
        raise InputError("activation", activation, "an activation of derive.activations")
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
    at_zero = _point_at_zero(activation)
    isolated = tuple(_isolated_points(activation, digits))
    if at_zero is not None and at_zero.stability == "stable":
        return Criticality(activation, "K* = 0", (at_zero, *isolated))
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        return Criticality(activation, "half-stable", (*isolated, *unstable))
    reason = (
        "χ_∥ = χ_⊥ = 1 has no solution with C_b ≥ 0"
        if at_zero is None
        else "the one critical point, K* = 0, repels: K grows away from it"
    )
    return Criticality(activation, "none", unstable, reason)


def small_kernel_average(
    activation: Activation, orders: tuple[int, ...], power: int
) -> sympy.Expr:
    """⟨Π σ^{(orders)}⟩_K for small K, through K^power; asymptotic.

    Each side of 0 by its own Taylor series, with ⟨|z|^k 1(z>0)⟩ = K^{k/2} 2^{k/2} Γ((k+1)/2)/(2√π):
    a kink at 0 brings in odd powers of √K, one elsewhere only what is smaller than any power.
    Orders must not ask for a δ at 0.
    """
    if any(0 in activation.jumps(j) for order in orders for j in range(order)):
        raise InputError("orders", orders, f"derivatives of {activation} without a δ at its kink 0")
    x = sympy.Dummy("x")
    total = sympy.Integer(0)
    for side, expr in _sides(activation):
        series = sympy.Integer(1)
        for order in orders:
            series = sympy.expand(series * _taylor(expr, order, 2 * power, x))
        for k in range(2 * power + 1):
            absolute = 2 ** (sympy.Rational(k, 2)) * sympy.gamma(sympy.Rational(k + 1, 2))
            half_moment = absolute / (2 * sympy.sqrt(sympy.pi)) * K ** sympy.Rational(k, 2)
            total += series.coeff(x, k) * side**k * half_moment
    return sympy.expand(total)


def fixed_points(
    activation: Activation,
    C_b: sympy.Expr | float,
    C_W: sympy.Expr | float,
    digits: int = 20,
) -> list[tuple[sympy.Expr, sympy.Expr, sympy.Expr]]:
    """The K* of K = C_b + C_W ⟨σσ⟩_K with 10^−4 ≤ K* ≤ 10^6, each with χ_∥ and χ_⊥ there.

    K* attracts where χ_∥ < 1. Found where K' − K changes sign.
    """
    if not (_number(C_W) >= 0 and _number(C_b) >= 0):
        raise InputError("C_b, C_W", (C_b, C_W), "variances, 0 or more")
    step, parallel, perp = _kernel_functions(activation)

    def excess(at: mpmath.mpf, wanted: int) -> mpmath.mpf:
        return step(at, C_W, C_b, wanted) - at

    return [
        tuple(_float(value, digits) for value in (K_, parallel(K_, C_W), perp(K_, C_W)))  # type: ignore[misc]
        for K_ in _roots(excess, digits)
    ]


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


def _sides(activation: Activation) -> Iterator[tuple[int, sympy.Expr]]:
    """(−1, σ left of 0) and (1, σ right of 0)."""
    for side, inside in ((-1, lambda p: p.lower < 0 <= p.upper), (1, lambda p: p.lower <= 0 < p.upper)):
        (expr,) = (piece.expr for piece in activation.pieces if inside(piece))
        yield side, expr


def _taylor(expr: sympy.Expr, order: int, degree: int, x: sympy.Symbol) -> sympy.Expr:
    """Σ_{k ≤ degree} of the order-th derivative's Taylor series at 0."""
    (variable,) = expr.free_symbols or {x}
    terms, derivative = sympy.Integer(0), expr.diff(variable, order)
    for k in range(degree + 1):
        terms += derivative.subs(variable, 0) * x**k / sympy.factorial(k)
        derivative = derivative.diff(variable)
    return sympy.expand(terms)


def _point_at_zero(activation: Activation) -> CriticalPoint | None:
    """K* = 0 with C_b = 0 and C_W g'(0) = 1, where σ(0) = 0 and g'(0) ≠ 0."""
    slope = small_kernel_average(activation, (0, 0), 1)
    if slope.subs(K, 0) != 0 or slope == 0:
        return None
    C = 1 / slope.coeff(K, 1)
    zero = sympy.Integer(0)
    linear = all(sympy.simplify(expr.diff(*expr.free_symbols, 2)) == 0 for _, expr in _sides(activation))
    if linear:
        return CriticalPoint(zero, C, zero, zero, zero, _beyond_powers(activation, C))
    power = 2
    while True:
        series = sympy.expand(C * small_kernel_average(activation, (0, 0), power)) - K
        if series != 0:
            break
        if power > _MAX_ORDER:
            raise InputError("activation", str(activation), f"a nonlinear term below z^{power}")
        power += 1
    coefficient, monomial = series.as_ordered_terms()[-1].as_independent(K)
    return CriticalPoint(
        zero,
        C,
        zero,
        sympy.nsimplify(coefficient),
        sympy.degree(monomial, K) - 1,
        "stable" if coefficient < 0 else "unstable",
    )
