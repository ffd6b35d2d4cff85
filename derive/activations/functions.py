"""Activation functions: pieces, kinks, derivatives, Taylor series and Gaussian averages.

An activation σ is a real function of one real symbol `z`, analytic between finitely many *kinks*.
Everything else (where the kinks are, what jumps there, how wide the strip of analyticity is,
whether σ is odd, scale-invariant, …) is derived from its expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import mpmath
import sympy

from ..errors import InputError, as_integer, as_sequence, did_you_mean
from ..expressions import MAX_DEGREE, REFUSED, as_expression, degree, parse_expression, parse_number
from ..gaussian import brackets, closed_forms, oracle, quadrature
from ..gaussian.pieces import Piece, Pieces, checked_order
from ..gaussian.piecewise import check_usable, logistic_to_tanh
from ..symbols import z

__all__ = [
    "Activation", "Piece", "arctan", "as_activation", "by_name", "cos", "elu", "erf", "erf_scaled",
    "erf_unit_cubic", "erf_unit_slope", "from_expr", "gelu", "hard_sigmoid", "hard_swish",
    "hard_tanh", "leaky_relu", "linear", "mish", "monomial", "names", "polynomial", "relu", "relu6",
    "selu", "shifted_relu", "sigmoid", "silu", "sin", "sine", "softplus", "softsign", "swish",
    "tanh", "z",
]  # fmt: skip


_SLACK = sympy.Rational(1, 2**48)
"""The relative excess of K12² over K11 K22 that counts as rounding."""


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

    def average(self, orders: Sequence[int], K: sympy.Expr | float, digits: int = 20) -> sympy.Expr:
        """⟨Π_p σ^{(orders_p)}(z)⟩_K for z ~ N(0, K).

        Arguments:
            orders: of derivatives, one for each factor; (0, 0) is ⟨σσ⟩.
            K: a variance, K > 0; a number or a symbol.
            digits: the digits of the result if there is no closed form.

        Returns the closed form if one is known. Otherwise the average is integrated numerically and
        the result is a Float. Its error is below 10^{−digits}, relative to the average or to 1,
        whichever is larger. For a symbol K the result is an expression that prints as ⟨…⟩_K;
        `evalf` evaluates it once K is a number.

        Raises InputError as `average_outer` does.

        >>> erf_unit_cubic.average((1, 1), 1)
        sqrt(3)/3
        >>> silu.average((0, 0), 1)
        0.35577551981735215623
        """
        return self.average_outer(orders, 0, K, digits)

    def average_outer(
        self, orders: Sequence[int], outer: int, K: sympy.Expr | float, digits: int = 20
    ) -> sympy.Expr:
        """⟨∂_z^outer Π_p σ^{(orders_p)}(z)⟩_K.

        Equal to K^{−outer/2} ⟨Π_p σ^{(orders_p)} He_outer(z/√K)⟩_K (integration by parts), which is
        how it is computed: a kink is never differentiated.

        Arguments:
            orders, K, digits: as for `average`.
            outer: of the derivative of the whole product, 0 or more.

        Returns a value as `average` does. Raises InputError if the product has products of
        distributions (ReLU's σ''σ''), if K is not positive, and if the integral does not reach the
        digits.
        """
        wanted = "a list of orders of derivatives, such as (0, 0)"
        factors = [
            checked_order("orders", order) for order in as_sequence("orders", orders, wanted)
        ]
        number = as_integer("digits", digits, 1, oracle.MAX_DIGITS)
        variance = _variance("K", K)
        found = brackets.average(self, factors, checked_order("outer", outer), variance)
        return found.evalf(number) if found.has(brackets.GaussianAverage) else found

    def average_two(
        self,
        order1: int,
        order2: int,
        K11: sympy.Expr | float,
        K12: sympy.Expr | float,
        K22: sympy.Expr | float,
        digits: int = 20,
    ) -> sympy.Expr:
        """⟨σ^{(order1)}(z_1) σ^{(order2)}(z_2)⟩_K for z ~ N(0, K).

        Arguments:
            order1, order2: of derivatives, 0 or more.
            K11, K12, K22: the covariance, with K11, K22 > 0 and K12² ≤ K11 K22.
            digits: the digits of the result if there is no closed form.

        Returns the closed form if one is known, else a Float as `average` does. Raises InputError
        for a negative order, for numbers that are no covariance, and for symbols without a closed
        form.

        >>> relu.average_two(1, 1, 1, 0, 1)
        1/4
        >>> tanh.average_two(0, 0, 1, "1/2", 1, digits=8)
        0.18632441
        """
        orders = checked_order("order1", order1), checked_order("order2", order2)
        number = as_integer("digits", digits, 1, oracle.MAX_DIGITS)
        cross = as_expression("K12", K12, "a covariance")
        kernel = _variance("K11", K11), cross, _variance("K22", K22)
        if (cross**2 - (1 + _SLACK) * kernel[0] * kernel[2]).is_positive:
            raise InputError("K12", K12, "a covariance, with K12² ≤ K11 K22")
        closed = closed_forms.average_two(self, *orders, *kernel)
        if closed is not None:
            return closed
        if not all(each.is_number for each in kernel):
            wanted = f"numbers, because {self} has no closed form of this average"
            raise InputError("K11, K12, K22", ", ".join(map(str, kernel)), wanted)
        with mpmath.workdps(2 * number + 20):
            exact = [mpmath.mpf(each.evalf(2 * number + 20)) for each in kernel]
        value = quadrature.double(self, orders, (exact[0], exact[1], exact[2]), number)
        return sympy.Float(value, number)

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
erf = Activation("erf", sympy.erf(z))
erf_unit_slope = Activation("erf_unit_slope", sympy.erf(sympy.sqrt(sympy.pi) / 2 * z))
"""erf(√π z/2), scaled to slope 1 and range (−1, 1): the erf of source 002 (Table 1)."""
erf_unit_cubic = Activation(
    "erf_unit_cubic", sympy.sqrt(sympy.pi / 2) * sympy.erf(z / sympy.sqrt(2))
)
"""√(π/2) erf(z/√2), scaled to σ'(0) = 1, σ'''(0) = −1 (source 002, supplement §8)."""
sin = Activation("sin", sympy.sin(z))
cos = Activation("cos", sympy.cos(z))
arctan = Activation("arctan", sympy.atan(z))
gelu = Activation("gelu", z * (1 + sympy.erf(z / sympy.sqrt(2))) / 2)
sigmoid = Activation("sigmoid", (1 + sympy.tanh(z / 2)) / 2)
silu = Activation("silu", z * (1 + sympy.tanh(z / 2)) / 2)
"""z/(1 + e^{−z}), written without an exponential that could overflow."""
swish = silu
softplus = Activation("softplus", sympy.log(1 + sympy.exp(z)))
mish = Activation("mish", z * sympy.tanh(sympy.log(1 + sympy.exp(z))))
softsign = Activation("softsign", z / (1 + sympy.Abs(z)))
relu6 = Activation("relu6", sympy.Max(0, sympy.Min(6, z)))
hard_sigmoid = Activation("hard_sigmoid", sympy.Max(0, sympy.Min(1, z / 6 + sympy.Rational(1, 2))))
"""z/6 + 1/2, cut off at 0 and 1, as in PyTorch, JAX and Keras 3."""
hard_swish = Activation("hard_swish", z * hard_sigmoid.expr)


def monomial(power: int) -> Activation:
    """σ(z) = z^power, 0 ≤ power ≤ 64, by definition.

    Raises InputError for another power.

    >>> monomial(3).expr
    z**3
    """
    power = as_integer("power", power, 0, MAX_DEGREE, f"a whole number, 0 to {MAX_DEGREE}")
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
        _parameter("coefficients", value)
        for value in as_sequence("coefficients", coefficients, wanted)
    ]
    if not exact or len(exact) > MAX_DEGREE + 1:
        raise InputError("coefficients", coefficients, f"{wanted}, {MAX_DEGREE + 1} at most")
    return Activation(
        f"polynomial({','.join(map(str, exact))})", sum((c * z**k for k, c in enumerate(exact)))
    )


def leaky_relu(slope: sympy.Expr | float = 0.01) -> Activation:
    """σ(z) = z for z > 0 and slope·z for z < 0, by definition; 0 gives relu's function.

    Raises InputError for a slope that is not a finite real number or symbol.

    >>> leaky_relu(0.1).slopes
    (1/10, 1)
    """
    a = _parameter("slope", slope)
    return Activation(f"leaky_relu({a})", sympy.Max(0, z) + a * sympy.Min(0, z))


def elu(alpha: sympy.Expr | float = 1) -> Activation:
    """σ(z) = z for z > 0 and α (e^z − 1) for z < 0, by definition; "elu" has α = 1.

    Raises InputError for an alpha that is not a finite real number or symbol.

    >>> elu(2).jumps(1)
    {0: -1}
    """
    a = _parameter("alpha", alpha)
    return Activation("elu" if a == 1 else f"elu({a})", _elu(a))


def _elu(alpha: sympy.Expr) -> sympy.Expr:
    return sympy.Max(0, z) + alpha * (sympy.exp(sympy.Min(0, z)) - 1)


selu = Activation(
    "selu",
    sympy.Rational("1.0507009873554804934") * _elu(sympy.Rational("1.6732632423543772848")),
)
"""λ elu(α) with ⟨σ⟩ = 0 and ⟨σσ⟩ = 1 at K = 1, to 19 digits (G. Klambauer et al., 2017, eq. 14)."""


def sine(frequency: sympy.Expr | float) -> Activation:
    """σ(z) = sin(frequency·z), by definition; frequency 1 is `sin`.

    Raises InputError for a frequency that is not a finite real number or symbol.

    >>> sine(30).taylor(1)
    (0, 30)
    """
    w = _parameter("frequency", frequency)
    return Activation(f"sine({w})", sympy.sin(w * z))


def erf_scaled(scale: sympy.Expr | float) -> Activation:
    """σ(z) = erf(scale·z), by definition; √π/2 gives `erf_unit_slope`, the erf of source 002.

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
        linear, relu, hard_tanh, shifted_relu, tanh, erf, erf_unit_slope, erf_unit_cubic, sin, cos,
        arctan, gelu, silu, sigmoid, softplus, mish, softsign, selu, relu6, hard_sigmoid,
        hard_swish,
    )
}  # fmt: skip
_FAMILIES: dict[str, tuple[str, Callable[..., Activation]]] = {
    "monomial": ("power", monomial),
    "polynomial": ("c0,c1,…", lambda *coefficients: polynomial(coefficients)),
    "leaky_relu": ("slope=0.01", leaky_relu),
    "elu": ("alpha=1", elu),
    "sine": ("frequency", sine),
    "erf_scaled": ("scale", erf_scaled),
}
"""The parameters of each family, with defaults, and the function that builds a member."""
_ALIASES = {
    "swish": "silu", "hard_silu": "hard_swish", "identity": "linear", "logistic": "sigmoid",
    "expit": "sigmoid", "atan": "arctan",
}  # fmt: skip


def names() -> list[str]:
    """The names that `by_name` understands, with the parameters of families: this library's own.

    >>> names()[:3]
    ['linear', 'relu', 'hard_tanh']
    """
    families = [f"{name}({parameters})" for name, (parameters, _) in _FAMILIES.items()]
    return [*_FIXED, *families, "expr: an expression in z"]


def _plain(name: str) -> str:
    """The common spelling of LeakyReLU, leaky_relu and "leaky relu"."""
    return re.sub(r"[\s_-]", "", name).lower()


_PLAIN = {_plain(name): name for name in (*_FIXED, *_FAMILIES)} | {
    _plain(other): name for other, name in _ALIASES.items()
}


def by_name(text: str) -> Activation:
    """The activation a user typed: "tanh", "leaky_relu(0.1)", "polynomial(0,1,-1/3)", "expr: z**3".

    The names are this library's own (`names`), in any spelling: "LeakyReLU" is "leaky_relu", and
    "swish" is "silu". Raises InputError, with the nearest name and a list of all, for anything
    else.

    >>> by_name("leaky_relu(0.1)").slopes
    (1/10, 1)
    """
    if not isinstance(text, str):
        raise InputError("activation", text, "a name, one of " + ", ".join(names()))
    head, colon, body = text.strip().partition(":")
    if colon and head.strip() == "expr":
        return from_expr(body.strip())
    typed, parenthesis, inside = text.strip().partition("(")
    name = _PLAIN.get(_plain(typed), "")
    if not parenthesis and name in _FIXED:
        return _FIXED[name]
    if name in _FAMILIES and inside.endswith(")") == bool(parenthesis):
        return _of_family(text, name, inside[:-1].split(",") if inside.strip(" )") else [])
    hint = did_you_mean(typed.lower(), [*_FIXED, *_FAMILIES, *_ALIASES])
    if re.search(r"\bz\b", text):
        hint = f'; did you mean "expr: {text.strip()}"?'
    raise InputError("activation", text, f"one of {', '.join(names())}{hint}")


def _of_family(text: str, name: str, given: Sequence[str]) -> Activation:
    parameters, build = _FAMILIES[name]
    own, default, _ = parameters.partition("=")
    values = [re.sub(rf"^\s*{re.escape(own)}\s*=", "", value) for value in given]
    if (values or default) and (len(values) < 2 or "," in parameters):
        with suppress(InputError):
            return build(*(parse_number("activation", value) for value in values))
    raise InputError("activation", text, f"{name}({parameters}), with finite numbers")


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
        if ";" in value:
            raise InputError(argument, value, "one activation for all layers, here")
        return by_name(value)
    wanted = 'an activation of derive.activations, or its name, such as "tanh"'
    if isinstance(value, sympy.Expr):
        wanted = f"activations.from_expr({value})"
    elif callable(value):
        wanted = 'a name such as "tanh", or a formula such as "expr: z*tanh(z)"'
        with suppress(InputError):
            own = by_name(getattr(value, "__name__", type(value).__name__))
            wanted = f'the name "{own}" instead of the function'
    raise InputError(argument, value, wanted)


def __dir__() -> list[str]:
    return sorted(__all__)
