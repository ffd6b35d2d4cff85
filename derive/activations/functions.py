"""Activation functions: pieces, kinks, derivatives, Taylor series and Gaussian averages.

An activation σ is a real function of one real symbol `z`, analytic between finitely many *kinks*.
Everything else (where the kinks are, what jumps there, how wide the strip of analyticity is,
whether σ is odd, scale-invariant, …) is derived from its expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy

from .. import symbols
from ..errors import InputError, listed, whole
from ..expressions import MAX_DEGREE, REFUSED, as_expression, degree, parse_expression, parse_number
from ..symbols import z
from . import closed_forms
from .pieces import Piece, Pieces, checked_order
from .piecewise import check_usable, logistic_to_tanh

__all__ = [
    "Activation", "Piece", "arctan", "as_activation", "by_name", "erf", "erf_scaled",
    "erf_unit_cubic", "from_expr", "gelu", "hard_tanh", "leaky_relu", "linear", "monomial", "names",
    "polynomial", "relu", "shifted_relu", "sigmoid", "silu", "sin", "softplus", "tanh", "z",
]  # fmt: skip


@dataclass(frozen=True)
class Activation(Pieces):
    """An activation function σ(z).

    Attributes:
        name: what `by_name` understands, such as "leaky_relu(1/10)".
        expr: σ as a sympy expression in `z`.

    Raises:
        InputError: where `expr` has no finite number of analytic pieces.

    >>> relu.kinks, relu.is_scale_invariant, relu.average((0, 0), 1)
    ((0,), True, 1/2)
    """

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
        factors = sorted(
            checked_order("orders", order) for order in listed("orders", orders, wanted)
        )
        variance = _variance("K", K)
        found = closed_forms.single(self, tuple(factors), checked_order("outer", outer))
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
        found = closed_forms.double(
            self, checked_order("order1", order1), checked_order("order2", order2)
        )
        if found is None:
            return None
        covariance = as_expression("K12", K12, "a covariance")
        values = (_variance("K11", K11), covariance, _variance("K22", K22))
        return found.subs(dict(zip(closed_forms.K_PAIR, values, strict=True)), simultaneous=True)

    def __str__(self) -> str:
        return self.name

    def _repr_latex_(self) -> str:
        return rf"$\displaystyle \sigma(z) = {sympy.latex(self.expr)}$"


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
