"""Text to sympy by whitelist: numbers, one variable, arithmetic and named real functions."""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import sympy

from .errors import InputError
from .symbols import layer, z

_CONSTANTS = {"true", "false", "none", "nan", "inf", "infinity", "oo", "zoo", "pi"}
_NUMBER = "a finite number such as 2, 0.1, -1/3 or sqrt(pi)/2"

MAX_LENGTH = 500
MAX_EXPONENT = 64
MAX_BITS = 4096
MAX_DEGREE = 64
"""Of an activation: what is multiplied out of its powers stays small."""

FUNCTIONS: dict[str, Callable[..., sympy.Expr]] = {
    "Abs": sympy.Abs,
    "Heaviside": lambda u: sympy.Heaviside(u, sympy.Rational(1, 2)),
    "Max": sympy.Max,
    "Min": sympy.Min,
    "abs": sympy.Abs,
    "arctan": sympy.atan,
    "atan": sympy.atan,
    "cos": sympy.cos,
    "cosh": sympy.cosh,
    "erf": sympy.erf,
    "erfc": lambda u: 1 - sympy.erf(u),
    "exp": sympy.exp,
    "gelu": lambda u: u * (1 + sympy.erf(u / sympy.sqrt(2))) / 2,
    "log": sympy.log,
    "max": sympy.Max,
    "min": sympy.Min,
    "mish": lambda u: u * sympy.tanh(sympy.log(1 + sympy.exp(u))),
    "relu": lambda u: sympy.Max(0, u),
    "sigmoid": lambda u: (1 + sympy.tanh(u / 2)) / 2,
    "sign": sympy.sign,
    "silu": lambda u: u * (1 + sympy.tanh(u / 2)) / 2,
    "sin": sympy.sin,
    "sinh": sympy.sinh,
    "softplus": lambda u: sympy.log(1 + sympy.exp(u)),
    "sqrt": sympy.sqrt,
    "tanh": sympy.tanh,
}
_VARIADIC = {"Max", "Min", "max", "min"}
_SWITCHES = (sympy.Abs, sympy.Heaviside, sympy.Max, sympy.Min, sympy.sign)
_OPERATORS: dict[type[ast.operator], Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
WANTED = (
    f"an expression of at most {MAX_LENGTH} characters in z, numbers, pi, + - * / ** and the "
    f"functions {', '.join(FUNCTIONS)}"
)


def parse_expression(text: str) -> sympy.Expr:
    """The expression in `z` that a user typed; decimals stay exact.

    Raises InputError, with what is allowed, for anything outside the whitelist, for exponents
    above 64 in size and for numbers of more than 4096 bits.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_LENGTH:
        raise InputError("expr", text, WANTED)
    return _Reader(text.strip(), {"z": z, "pi": sympy.pi}).read()


def parse_with(
    text: str,
    names: Mapping[str, sympy.Expr],
    functions: Mapping[str, Callable[[sympy.Expr], sympy.Expr]],
    wanted: str,
    argument: str = "layer",
) -> sympy.Expr:
    """An expression in these names, numbers, arithmetic and these functions.

    Raises InputError of this argument, with what is wanted, for anything else.
    """
    try:
        return _Reader(text.strip(), {"pi": sympy.pi, **names}, functions).read()
    except InputError:
        raise InputError(argument, text, wanted) from None


def is_name(text: str) -> bool:
    """True if a symbol can be called so: an identifier that no constant has for a name."""
    return text.isidentifier() and text.lower() not in _CONSTANTS and text not in {"E", "I"}


def parse_number(argument: str, value: object) -> sympy.Expr:
    """An exact number from text, a number or a sympy expression; 0.1 is taken for 1/10."""
    if isinstance(value, sympy.Expr) and not value.has(sympy.Float):
        return as_expression(argument, value, _NUMBER)
    if isinstance(value, str | Real | sympy.Expr) and not isinstance(value, bool):
        try:
            return _Reader(str(value).strip(), {"pi": sympy.pi}).read()
        except InputError:
            pass
    raise InputError(argument, value, _NUMBER)


def as_expression(argument: str, value: object, wanted: str) -> sympy.Expr:
    """A number or a sympy expression as it is, a number's text by the whitelist.

    Raises InputError for anything else, and for what is not finite or not real.
    """
    if type(value) is int:
        return sympy.Integer(value)
    if isinstance(value, sympy.Rational):  # without asking it what it is, which takes longest
        return value
    if isinstance(value, str):
        return parse_number(argument, value)
    try:
        found = None if isinstance(value, bool) else sympy.sympify(value, strict=True)
    except (sympy.SympifyError, TypeError, ValueError):
        found = None
    if (
        not isinstance(found, sympy.Expr)
        or found.has(sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
        or found.is_real is False
    ):
        raise InputError(argument, value, wanted)
    return found


def as_width(argument: str, value: object) -> sympy.Expr:
    """A width: a positive integer, or an expression with symbols; InputError for anything else."""
    wanted = "a positive integer, or an expression with symbols"
    width = as_expression(argument, value, wanted)
    if width.is_number and not (width.is_Integer and width > 0):
        raise InputError(argument, value, wanted)
    return width


def parse_layer_expression(argument: str, text: str) -> sympy.Expr:
    """An expression in `layer`, typed as l: "1", "1/l", "2/(l + 1)"."""
    if isinstance(text, str) and text.strip() and len(text) <= MAX_LENGTH:
        try:
            return _Reader(text.strip(), {"l": layer, "pi": sympy.pi}).read()
        except InputError:
            pass
    raise InputError(argument, text, "an expression in the layer l, such as 1, 1/l or 2/(l + 1)")


def parts(text: str, mark: str = ",") -> list[str]:
    """Split text at commas, or at `mark`, outside of brackets; omit blank parts."""
    return [part for part in split(text, mark) if part.strip()]


def degree(expression: sympy.Expr) -> sympy.Expr:
    """The highest power of a variable, through nesting; a function counts as its argument does."""
    if expression.is_Symbol:
        return sympy.Integer(1)
    below = [degree(each) for each in expression.args if isinstance(each, sympy.Basic)]
    if expression.is_Pow and expression.exp.is_number:
        return below[0] * sympy.ceiling(abs(expression.exp))
    if expression.is_Mul:
        return sympy.Add(*below)
    return sympy.Max(0, *below)


REFUSED = (
    SyntaxError,
    ValueError,
    TypeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    NotImplementedError,
)
"""The exceptions of parsing, and of sympy where an expression is not real everywhere."""


class _Reader:
    """Walks the syntax tree of `text`, one method per kind of node."""

    def __init__(
        self,
        text: str,
        names: dict[str, sympy.Expr],
        functions: Mapping[str, Callable[[sympy.Expr], sympy.Expr]] | None = None,
    ) -> None:
        self.text, self.names, self.functions = text, names, functions or {}

    def read(self) -> sympy.Expr:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", SyntaxWarning)  # "9z", "2or z"
                tree = ast.parse(self.text, mode="eval")
            value = self.visit(tree.body)
        except InputError:
            raise
        except REFUSED:
            raise InputError("expr", self.text, WANTED) from None
        if value.has(sympy.nan, sympy.zoo, sympy.oo, sympy.I):
            raise InputError("expr", self.text, "an expression that is finite and real")
        return value

    def visit(self, node: ast.expr) -> sympy.Expr:
        match node:
            case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
                return self.number(node)
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.visit(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.visit(operand)
            case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
                return self.power(self.visit(base), self.visit(exponent))
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
                return self.bounded(_OPERATORS[type(op)](self.visit(left), self.visit(right)))
            case ast.Call(func=ast.Name(id=name), args=[arg], keywords=[]) if (
                name in self.functions
            ):
                return self.functions[name](self.visit(arg))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self.call(name, args)
            case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
                raise InputError("expr", self.text, f"no name {name!r}, but {WANTED}")
        raise InputError("expr", self.text, WANTED)

    def number(self, node: ast.Constant) -> sympy.Expr:
        literal = ast.get_source_segment(self.text, node) or str(node.value)
        mantissa, _, exponent = literal.lower().partition("e")
        if isinstance(node.value, float) and abs(int(exponent or 0)) > 400:
            raise InputError("expr", self.text, "decimals whose exponent is at most 400")
        if isinstance(node.value, float) and mantissa:
            return sympy.Rational(literal.replace("_", ""))
        return self.bounded(sympy.Integer(node.value))

    def call(self, name: str, args: list[ast.expr]) -> sympy.Expr:
        if not args or (len(args) > 1 and name not in _VARIADIC):
            raise InputError("expr", self.text, f"one argument for {name}")
        value = self.bounded(FUNCTIONS[name](*(self.visit(arg) for arg in args)))
        if value.is_number and value.has(*_SWITCHES):
            raise InputError("expr", self.text, "constants whose signs sympy can tell")
        return value

    def power(self, base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if exponent.is_number and abs(exponent) > MAX_EXPONENT:
            raise InputError("expr", self.text, f"exponents of at most {MAX_EXPONENT}")
        return self.bounded(base**exponent)

    def bounded(self, value: sympy.Expr) -> sympy.Expr:
        if value.is_Rational and max(value.p.bit_length(), value.q.bit_length()) > MAX_BITS:
            raise InputError("expr", self.text, f"numbers of at most {MAX_BITS} bits")
        if value.is_number and not value.is_Rational:
            sympy.N(value)  # an OverflowError for e^{e^{e^9}}
        return value


def split(text: str, mark: str) -> list[str]:
    """Split text at a mark; marks inside brackets do not count."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == mark and not depth:
            found.append("")
        else:
            found[-1] += letter
    return found


def as_text(value: Any) -> str:
    """A value as it is shown: a double in as few digits as tell it from others.

    >>> as_text(sympy.Float(0.1)), as_text(sympy.Rational(1, 3))
    ('0.1', '1/3')
    """
    is_double = isinstance(value, sympy.Float) and value._prec == sympy.Float(1.0)._prec
    return str(float(value)) if is_double else str(value)
