"""Activation functions: pieces, kinks, derivatives, Taylor series and Gaussian averages.

An activation σ is a real function of one real symbol `z`, analytic between finitely many *kinks*.
Everything else (where the kinks are, what jumps there, how wide the strip of analyticity is,
whether σ is odd, scale-invariant, …) is derived from its expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import factorial
from typing import NamedTuple

import sympy

from . import closed_forms, symbols
from .errors import InputError, listed, whole
from .expressions import (
    MAX_DEGREE,
    REFUSED,
    as_expression,
    degree,
    parse_expression,
    parse_number,
)
from .piecewise import analytic_strip, check_usable, logistic_to_tanh, split_pieces
from .symbols import z

__all__ = [
    "Activation", "Piece", "arctan", "as_activation", "by_name", "erf", "erf_scaled",
    "erf_unit_cubic", "from_expr", "gelu", "hard_tanh", "leaky_relu", "linear", "monomial", "names",
    "polynomial", "relu", "shifted_relu", "sigmoid", "silu", "sin", "softplus", "tanh", "z",
]  # fmt: skip


class Piece(NamedTuple):
    """σ is the analytic `expr` on the interval lower < z < upper.

    Attributes:
        lower, upper: its ends, kinks of σ or ∓∞.
        expr: σ there, in `activations.z`.
    """

    lower: sympy.Expr
    upper: sympy.Expr
    expr: sympy.Expr


@dataclass(frozen=True)
class Activation:
    """An activation function σ(z).

    Attributes:
        name: what `by_name` understands, such as "leaky_relu(1/10)".
        expr: σ as a sympy expression in `z`.

    Raises:
        InputError: where `expr` has no finite number of analytic pieces.

    >>> relu.kinks, relu.is_scale_invariant, relu.average((0, 0), 1)
    ((0,), True, 1/2)
    """

    name: str
    expr: sympy.Expr

    def __post_init__(self) -> None:
        if not isinstance(self.expr, sympy.Expr):
            raise InputError("expr", self.expr, "a sympy expression in activations.z")

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """σ between its kinks, from −∞ to ∞; a single piece where σ is smooth."""
        return tuple(Piece(*piece) for piece in split_pieces(self.expr))

    @cached_property
    def kinks(self) -> tuple[sympy.Expr, ...]:
        """The points, ascending, where σ or one of its derivatives jumps."""
        return tuple(piece.lower for piece in self.pieces[1:])

    @cached_property
    def strip(self) -> sympy.Expr:
        """Half the width of the strip around the real axis where σ is analytic; 0 with kinks.

        Found exactly where the singularities solve a polynomial equation in z or in exp(c z);
        else a lower bound, 2^{-j}, certified by ball arithmetic on |Re z| ≤ 32.
        """
        return sympy.Integer(0) if self.kinks else analytic_strip(self.expr)

    @property
    def is_smooth(self) -> bool:
        """Whether σ is analytic on the whole line."""
        return not self.kinks

    @cached_property
    def is_odd(self) -> bool:
        """Whether σ(−z) = −σ(z)."""
        return self.kinks == tuple(-kink for kink in reversed(self.kinks)) and all(
            sympy.simplify(left.expr.subs(z, -z) + right.expr) == 0
            for left, right in zip(self.pieces, reversed(self.pieces), strict=True)
        )

    @property
    def is_polynomial(self) -> bool:
        """Whether σ is a polynomial."""
        return self.is_smooth and bool(self.pieces[0].expr.is_polynomial(z))

    @property
    def is_linear(self) -> bool:
        """Whether σ(z) = a z."""
        return self.is_scale_invariant and self.is_smooth

    @cached_property
    def is_scale_invariant(self) -> bool:
        """Whether σ(c z) = c σ(z) for every c > 0: no kink but 0, and a slope on either side."""
        return all(kink == 0 for kink in self.kinks) and not any(
            sympy.simplify(z * piece.expr.diff(z) - piece.expr) != 0
            or sympy.simplify(piece.expr.diff(z, 2)) != 0
            for piece in self.pieces
        )

    @property
    def slopes(self) -> tuple[sympy.Expr, sympy.Expr]:
        """(a_−, a_+) of a scale-invariant σ: σ = a_− z for z < 0 and a_+ z for z > 0.

        Raises InputError for any other.
        """
        if not self.is_scale_invariant:
            raise InputError("activation", self.name, "a scale-invariant one, to have two slopes")
        left, right = (sympy.simplify(self.pieces[k].expr.diff(z)) for k in (0, -1))
        return left, right

    def derivative(self, order: int = 1) -> sympy.Expr:
        """σ^{(order)}(z) away from the kinks; what sits on them is told by `jumps`.

        Raises InputError for an order that is not 0, 1, 2, …

        >>> erf_unit_cubic.derivative(1)
        exp(-z**2/2)
        """
        order = _order("order", order)
        if order == 0:
            return self.expr
        return _derivative(self, order)

    def jumps(self, order: int) -> dict[sympy.Expr, sympy.Expr]:
        """At each kink where σ^{(order)} jumps, by how much: right limit minus left limit.

        So, as a distribution, σ^{(m)} is `derivative(m)` plus Σ_kinks Σ_{j<m} jump_j δ^{(m−1−j)}.
        Raises InputError where a one-sided limit is infinite, and for an order below 0.

        >>> hard_tanh.jumps(1)
        {-1: 1, 1: -1}
        """
        order = _order("order", order)
        found = {}
        for left, right in pairwise(self.pieces):
            at = right.lower
            jump = sympy.simplify(
                (right.expr.diff(z, order) - left.expr.diff(z, order)).subs(z, at)
            )
            if not jump.is_finite and jump.is_number:
                raise InputError("order", order, f"an order with finite one-sided limits at {at}")
            if jump != 0:
                found[at] = jump
        return found

    def taylor(self, order: int) -> tuple[sympy.Expr, ...]:
        """The Taylor coefficients σ^{(k)}(0)/k! for k = 0 … order.

        Raises InputError where σ has a kink at 0.
        """
        order = _order("order", order)
        if any(kink == 0 for kink in self.kinks):
            raise InputError("activation", self.name, "one without a kink at 0, to expand there")
        (here,) = (p.expr for p in self.pieces if p.lower < 0 < p.upper)
        return _taylor(here, order)

    def average(self, orders: Sequence[int], K: sympy.Expr | float) -> sympy.Expr | None:
        """⟨Π_p σ^{(orders_p)}(z)⟩_K for z ~ N(0, K), or None without a closed form.

        Arguments:
            orders: of derivatives, one for each factor; (0, 0) is ⟨σσ⟩.
            K: a variance, K > 0; a number or a symbol.

        Raises InputError as `average_outer` does.

        >>> erf_unit_cubic.average((1, 1), 1)
        sqrt(3)/3
        """
        return self.average_outer(orders, 0, K)

    def average_outer(
        self, orders: Sequence[int], outer: int, K: sympy.Expr | float
    ) -> sympy.Expr | None:
        """⟨∂_z^outer Π_p σ^{(orders_p)}(z)⟩_K, or None where no closed form is found.

        Equal to K^{−outer/2} ⟨Π_p σ^{(orders_p)} He_outer(z/√K)⟩_K (integration by parts), which is
        how it is computed: a kink is never differentiated.

        Arguments:
            orders, K: as for `average`.
            outer: of the derivative of the whole product, 0 or more.

        Raises InputError where the orders ask for a product of distributions (ReLU's σ''σ''), and
        for a K that is not positive.
        """
        wanted = "a list of orders of derivatives, such as (0, 0)"
        factors = sorted(_order("orders", order) for order in listed("orders", orders, wanted))
        variance = _variance("K", K)
        found = closed_forms.single(self, tuple(factors), _order("outer", outer))
        return None if found is None else found.subs(symbols.K, variance)

    def average_two(
        self,
        order1: int,
        order2: int,
        K11: sympy.Expr | float,
        K12: sympy.Expr | float,
        K22: sympy.Expr | float,
    ) -> sympy.Expr | None:
        """⟨σ^{(order1)}(z_1) σ^{(order2)}(z_2)⟩_K for z ~ N(0, K), or None without a closed form.

        Arguments:
            order1, order2: of derivatives, 0 or more.
            K11, K12, K22: the covariance, with K11, K22 > 0 and K12² ≤ K11 K22.

        Raises InputError for a negative order, and for a K11 or K22 that is not positive.

        >>> relu.average_two(1, 1, 1, 0, 1)
        1/4
        """
        found = closed_forms.double(self, _order("order1", order1), _order("order2", order2))
        if found is None:
            return None
        covariance = as_expression("K12", K12, "a covariance")
        values = (_variance("K11", K11), covariance, _variance("K22", K22))
        return found.subs(dict(zip(closed_forms.K_PAIR, values, strict=True)), simultaneous=True)

    def __str__(self) -> str:
        return self.name

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle \sigma(z) = {sympy.latex(self.expr)}$"


@cache
def _derivative(activation: Activation, order: int) -> sympy.Expr:
    parts = [logistic_to_tanh(piece.expr.diff(z, order)) for piece in activation.pieces]
    return sympy.Piecewise(
        *((part, z < kink) for part, kink in zip(parts, activation.kinks, strict=False)),
        (parts[-1], True),
    )


@cache
def _taylor(expr: sympy.Expr, order: int) -> tuple[sympy.Expr, ...]:
    """By sympy's series, which does not differentiate over and over, where it has one."""
    try:
        found = sympy.series(expr, z, 0, order + 1).removeO()
        if found.is_polynomial(z):
            return tuple(sympy.simplify(found.coeff(z, k)) for k in range(order + 1))
    except (NotImplementedError, ValueError, TypeError, sympy.PoleError):
        pass
    return tuple(
        sympy.simplify(expr.diff(z, k).subs(z, 0) / factorial(k)) for k in range(order + 1)
    )


def _order(argument: str, order: object) -> int:
    return whole(argument, order, 0, wanted="whole numbers, 0 or more")


def _variance(argument: str, value: sympy.Expr | float) -> sympy.Expr:
    K = as_expression(argument, value, "a positive variance")
    if K.is_positive is False:
        raise InputError(argument, value, "a positive variance")
    return K


def _parameter(argument: str, value: object) -> sympy.Expr:
    """An exact real parameter: a float is taken for the decimal it prints as."""
    parameter = parse_number(argument, value)
    if parameter.is_real is False or (parameter.is_number and not parameter.is_finite):
        raise InputError(argument, value, "a finite real number")
    return parameter


linear = Activation("linear", z)
relu = Activation("relu", sympy.Max(0, z))
hard_tanh = Activation("hard_tanh", sympy.Max(-1, sympy.Min(1, z)))
"""[z+1]_+ − [z−1]_+ − 1 (source 002, Table 1)."""
shifted_relu = Activation("shifted_relu", sympy.Max(-sympy.Rational(1, 2), z))
"""[z+1/2]_+ − 1/2 (source 002, §4.3.4)."""
tanh = Activation("tanh", sympy.tanh(z))
erf = Activation("erf", sympy.erf(sympy.sqrt(sympy.pi) / 2 * z))
"""erf(√π z/2), scaled to slope 1 and range (−1, 1) (source 002, Table 1)."""
erf_unit_cubic = Activation(
    "erf_unit_cubic", sympy.sqrt(sympy.pi / 2) * sympy.erf(z / sympy.sqrt(2))
)
"""√(π/2) erf(z/√2), scaled to σ'(0) = 1, σ'''(0) = −1 (source 002, supplement §8)."""
sin = Activation("sin", sympy.sin(z))
arctan = Activation("arctan", sympy.atan(z))
gelu = Activation("gelu", z * (1 + sympy.erf(z / sympy.sqrt(2))) / 2)
sigmoid = Activation("sigmoid", (1 + sympy.tanh(z / 2)) / 2)
silu = Activation("silu", z * (1 + sympy.tanh(z / 2)) / 2)
"""z/(1 + e^{−z}), written without an exponential that could overflow."""
softplus = Activation("softplus", sympy.log(1 + sympy.exp(z)))


def monomial(power: int) -> Activation:
    """σ(z) = z^power, 0 ≤ power ≤ 64, by definition.

    Raises InputError for another power.

    >>> monomial(3).expr
    z**3
    """
    power = whole("power", power, 0, MAX_DEGREE, f"a whole number, 0 to {MAX_DEGREE}")
    return Activation(f"monomial({power})", z**power)


def polynomial(coefficients: Sequence[sympy.Expr | float]) -> Activation:
    """σ(z) = Σ_k coefficients[k] z^k, by definition: from the constant up, 65 coefficients at most.

    A float is taken for the decimal it prints as, text for the number it says. Raises InputError
    for no coefficients, for more, and for what is not a finite real number.

    >>> polynomial([0, 1, 0, "-1/3"]).expr
    -z**3/3 + z
    """
    wanted = "a list of one or more numbers"
    exact = [
        _parameter("coefficients", value) for value in listed("coefficients", coefficients, wanted)
    ]
    if not exact or len(exact) > MAX_DEGREE + 1:
        raise InputError("coefficients", coefficients, f"{wanted}, {MAX_DEGREE + 1} at most")
    return Activation(
        f"polynomial({','.join(map(str, exact))})", sum((c * z**k for k, c in enumerate(exact)))
    )


def leaky_relu(slope: sympy.Expr | float) -> Activation:
    """σ(z) = z for z > 0 and slope·z for z < 0, by definition; 0 gives relu's function.

    Raises InputError for a slope that is not a finite real number or symbol.

    >>> leaky_relu(0.1).slopes
    (1/10, 1)
    """
    a = _parameter("slope", slope)
    return Activation(f"leaky_relu({a})", sympy.Max(0, z) + a * sympy.Min(0, z))


def erf_scaled(scale: sympy.Expr | float) -> Activation:
    """σ(z) = erf(scale·z), by definition; source 002 has √π/2 for the scale (Table 1).

    Raises InputError for a scale that is not a finite real number or symbol.

    >>> erf_scaled(2).derivative(1)
    4*exp(-4*z**2)/sqrt(pi)
    """
    s = _parameter("scale", scale)
    return Activation(f"erf_scaled({s})", sympy.erf(s * z))


def from_expr(expr: sympy.Expr | str, name: str | None = None) -> Activation:
    """The activation with this expression in one real symbol, or in the text's letter z.

    Arguments:
        expr: a sympy expression, or text, read by a whitelist (numbers, z, pi, + − * / **, and the
            functions the error lists). Kinks may come from Abs, Max, Min, sign, Heaviside and
            Piecewise.
        name: how it is shown; "expr: " and the text where it is left out.

    By definition σ(z) = expr; pieces, kinks and all else are derived from it. Raises InputError for
    an unknown name, for values that are not real and finite on the whole line, for infinitely many
    kinks, and for growth like e^{c z²}, which no Gaussian can average.

    >>> from_expr("z*tanh(z)").is_odd
    False
    """
    text = expr if isinstance(expr, str) else None
    parsed = parse_expression(expr) if isinstance(expr, str) else expr
    if not isinstance(parsed, sympy.Expr):
        raise InputError("expr", expr, "a sympy expression in one symbol, or its text")
    if len(parsed.free_symbols) > 1:
        raise InputError("expr", expr, "an expression in one symbol")
    for symbol in parsed.free_symbols:
        parsed = parsed.xreplace({symbol: z})
    if degree(parsed) > MAX_DEGREE:
        raise InputError("expr", expr, f"powers of z that multiply to {MAX_DEGREE} or less")
    try:
        parsed = logistic_to_tanh(parsed)
        activation = Activation(name or f"expr: {text or parsed}", parsed)
        check_usable(activation.pieces, given=expr)
    except InputError:
        raise
    except REFUSED:
        wanted = "an expression that is real and finite on the whole line"
        raise InputError("expr", expr, wanted) from None
    return activation


_FIXED = {
    activation.name: activation
    for activation in (
        linear, relu, hard_tanh, shifted_relu, tanh, erf, erf_unit_cubic, sin, arctan, gelu, silu,
        sigmoid, softplus,
    )
}  # fmt: skip
_FAMILIES: dict[str, tuple[str, Callable[[list[sympy.Expr]], Activation]]] = {
    "monomial": ("power", lambda given: monomial(*given)),
    "polynomial": ("c0,c1,…", polynomial),
    "leaky_relu": ("slope", lambda given: leaky_relu(*given)),
    "erf_scaled": ("scale", lambda given: erf_scaled(*given)),
}


def names() -> list[str]:
    """What `by_name` understands, with the parameters of families: this library's own names.

    >>> names()[:3]
    ['linear', 'relu', 'hard_tanh']
    """
    families = [f"{name}({parameters})" for name, (parameters, _) in _FAMILIES.items()]
    return [*_FIXED, *families, "expr: an expression in z"]


def by_name(text: str) -> Activation:
    """The activation a user typed: "tanh", "leaky_relu(0.1)", "polynomial(0,1,-1/3)", "expr: z**3".

    The names are this library's own (`names`). Raises InputError, listing what exists, for anything
    else.

    >>> by_name("leaky_relu(0.1)").slopes
    (1/10, 1)
    """
    if not isinstance(text, str):
        raise InputError("activation", text, "a name, one of " + ", ".join(names()))
    head, colon, body = text.strip().partition(":")
    if colon and head.strip() == "expr":
        return from_expr(body.strip())
    if text.strip() in _FIXED:
        return _FIXED[text.strip()]
    family, parenthesis, inside = text.strip().partition("(")
    if parenthesis and inside.endswith(")") and family.strip() in _FAMILIES:
        parameters, build = _FAMILIES[family.strip()]
        given = [parse_number("activation", part) for part in inside[:-1].split(",")]
        if len(given) > 1 and family.strip() != "polynomial":
            raise InputError("activation", text, f"one parameter, {family.strip()}({parameters})")
        return build(given)
    raise InputError("activation", text, "one of " + ", ".join(names()))


_ELSEWHERE = {
    "ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "swish": "silu", "Sigmoid": "sigmoid",
    "logistic": "sigmoid", "expit": "sigmoid", "Tanh": "tanh", "Softplus": "softplus",
    "Hardtanh": "hard_tanh", "hardtanh": "hard_tanh", "Identity": "linear", "atan": "arctan",
    "LeakyReLU": "leaky_relu(0.01)", "leaky_relu": "leaky_relu(0.01)", "Mish": "expr: mish(z)",
    "mish": "expr: mish(z)",
}  # fmt: skip
"""What other libraries call them."""


def as_activation(value: object, argument: str = "activation") -> Activation:
    """An activation as it is, or by its name, as `by_name` reads it: this library's own names.

    Arguments:
        value: an `Activation`, or text.
        argument: what an error calls it.

    Raises InputError for anything else: for a function of another library with what to say here.

    >>> print(as_activation("gelu"))
    gelu
    """
    if isinstance(value, Activation):
        return value
    if isinstance(value, str):
        return by_name(value)
    wanted = 'an activation of derive.activations, or its name, such as "tanh"'
    if isinstance(value, sympy.Expr):
        wanted = f"activations.from_expr({value})"
    elif callable(value):
        name = getattr(value, "__name__", type(value).__name__)
        own = name if name in _FIXED else _ELSEWHERE.get(name)
        wanted = (
            f'"{own}", the formula of such a function'
            if own
            else 'a formula: a name such as "tanh", or "expr: z*tanh(z)"'
        )
    raise InputError(argument, value, wanted)


def __dir__() -> list[str]:
    return sorted(__all__)
