"""Print sympy expressions as the source of numba kernels: all of it runs, or an error says why not.

The output calls `math` and builtins alone, so that the same text compiles under `numba.njit` and
`numba.cuda.jit(device=True)`. Integer powers are products, negative ones quotients, rational
coefficients constants that the compiler folds. Before printing, forms that overflow or cancel far
from the origin are replaced by equal ones that do neither (`stable`).
"""

from __future__ import annotations

import keyword
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import ClassVar

import sympy
from sympy.core.function import AppliedUndef
from sympy.core.numbers import Infinity, NegativeInfinity
from sympy.core.relational import Relational
from sympy.printing.precedence import PRECEDENCE, precedence
from sympy.printing.pycode import PythonCodePrinter

from derive.errors import InputError

from .stable import ErrorTail, SechSquared, Sigmoid, Softplus, stable

_CALLED = {"math", "fastmath", "abs", "max", "min"}
# How tightly printed text binds: conditions and conditionals are always put in parentheses.
_SUM, _PRODUCT, _ATOM = (int(PRECEDENCE[kind]) for kind in ("Add", "Mul", "Func"))


def expression(expr: sympy.Expr, names: Mapping[sympy.Symbol, str]) -> str:
    """The Python source of a real expression, with each symbol printed as `names` says.

    Raises:
        InputError: at a symbol that `names` lacks and at whatever a kernel can't compute.
    """
    return str(_Source(names).doprint(_stable(expr)))


def function(
    name: str,
    arguments: Sequence[sympy.Symbol],
    results: sympy.Expr | Sequence[sympy.Expr],
    locals: Sequence[tuple[sympy.Symbol, sympy.Expr]] = (),
    *,
    decorator: str = "",
    doc: str = "",
    fast: bool = False,
) -> str:
    """The source of a function, its common subexpressions computed once.

    Arguments:
        name: the function's name.
        arguments: symbols, each printed under its own name.
        results: one expression, returned as a number, or a sequence, returned as a tuple.
        locals: definitions (symbol, expression), each made once, under its name.
        decorator: a line such as `@scalar` to put on top.
        doc: the function's docstring.
        fast: with calls of `fastmath` for what `math` lacks.

    Raises:
        InputError: as `expression`; also for a symbol whose name is no Python identifier.
    """
    single = isinstance(results, sympy.Basic)
    wanted = [results] if single else list(results)
    named = [*arguments, *(symbol for symbol, _ in locals)]
    names = {symbol: identifier(symbol) for symbol in named}
    if len(set(names.values())) < len(named):
        raise InputError("arguments, locals", named, "symbols with distinct names")

    fresh = _fresh_symbols(names)
    bodies = [_stable(body, fast=fast) for body in (*(body for _, body in locals), *wanted)]
    shared, bodies = sympy.cse(bodies, symbols=fresh)
    bases: dict[sympy.Expr, sympy.Symbol] = {}
    bodies = [_name_bases(body, bases, fresh) for body in bodies]
    definitions = {symbol: _name_bases(body, bases, fresh) for symbol, body in shared}
    definitions |= {symbol: body for (symbol, _), body in zip(locals, bodies, strict=False)}
    definitions |= {symbol: base for base, symbol in bases.items()}

    names |= {symbol: str(symbol) for symbol in definitions}
    source = _FastSource(names) if fast else _Source(names)
    lines = [f'"""{doc}"""'] if doc else []
    lines += [
        f"{symbol} = {source.doprint(definitions[symbol])}" for symbol in _ordered(definitions)
    ]
    returned = [source.doprint(body) for body in bodies[len(locals) :]]
    comma = "," if len(returned) == 1 and not single else ""
    lines.append(f"return {', '.join(returned)}{comma}")
    signature = f"def {identifier(name)}({', '.join(names[symbol] for symbol in arguments)}):"
    return "\n".join([*([decorator] if decorator else []), signature, *indented(lines)]) + "\n"


def _stable(expr: sympy.Expr, *, fast: bool = False) -> sympy.Expr:
    """`stable`, with 1/cosh² where 1 − tanh² has no function of its own."""
    found = stable(sympy.sympify(expr))
    return found if fast else found.replace(SechSquared, lambda u: sympy.cosh(u) ** -2)


def identifier(symbol: sympy.Symbol | str) -> str:
    """The symbol's name, where Python can use it for a variable.

    Raises:
        InputError: for a name such as `lambda` or `C^{1}`, or one that printed source calls.
    """
    name = str(symbol)
    if not name.isidentifier() or keyword.iskeyword(name) or name in _CALLED:
        raise InputError("symbol", name, "a name that Python can use for a variable")
    return name


def indented(lines: Sequence[str]) -> list[str]:
    """Lines moved in by four spaces for each level, those inside multi-line strings as well."""
    return [f"    {part}" if part else "" for line in lines for part in line.split("\n")]


def filled(template: str, **fields: object) -> str:
    """A template with the field `name` for each $name in it.

    A $name alone on its line stands for lines, given as text or in a list; each is moved in as far
    as the name is, and where there are none, the name's own line goes.
    """

    def field(hole: re.Match[str]) -> str:
        value = fields[hole["lines"] or hole["name"]]
        if not hole["lines"]:
            return str(value)
        lines = value if isinstance(value, list) else [value]
        text = "".join(str(line).removesuffix("\n") + "\n" for line in lines)
        return textwrap.indent(text, hole["margin"])

    return _HOLE.sub(field, template)


_HOLE = re.compile(r"^(?P<margin> *)\$(?P<lines>\w+)\n|\$(?P<name>\w+)", re.MULTILINE)


def literal(value: float) -> str:
    """A double as source; infinities as math.inf."""
    return repr(value) if math.isfinite(value) else f"{'-' if value < 0 else ''}math.inf"


def listing(items: Iterable[str]) -> str:
    """Items as a tuple's source: (a, b), or (a,) for a single one."""
    listed = list(items)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"


def constant(name: str, values: Iterable[float], array: bool = False) -> str:
    """`name = (…)`, or an array, one number to a line."""
    items = [f"    {literal(float(value))}," for value in values]
    if not array:
        return "\n".join([f"{name} = (", *items, ")"]) + "\n"
    return "\n".join([f"{name} = np.array(", "    [", *indented(items), "    ]", ")"]) + "\n"


def _fresh_symbols(names: Mapping[sympy.Symbol, str]) -> Iterator[sympy.Symbol]:
    taken = set(names.values())
    return (s for s in sympy.numbered_symbols("x", real=True) if str(s) not in taken)


def _name_bases(
    expr: sympy.Expr, bases: dict[sympy.Expr, sympy.Symbol], fresh: Iterator[sympy.Symbol]
) -> sympy.Expr:
    """The expression with a name for whatever its printed form would write out more than once."""

    def named(part: sympy.Expr) -> sympy.Expr:
        first, *rest = part.args
        if first not in bases:
            bases[first] = next(fresh)
        return part.func(bases[first], *rest)

    def repeats(part: sympy.Expr) -> bool:
        if part.is_Pow:
            return bool((2 * part.exp).is_Integer and abs(part.exp) > 1 and not part.base.is_Atom)
        return isinstance(part, sympy.sign | sympy.Heaviside) and not part.args[0].is_Atom

    return expr.replace(repeats, named)


def _ordered(definitions: Mapping[sympy.Symbol, sympy.Expr]) -> list[sympy.Symbol]:
    """The defined symbols, each after those that its definition needs."""
    needs = {
        symbol: [other for other in definitions if other in body.free_symbols]
        for symbol, body in definitions.items()
    }
    try:
        return list(TopologicalSorter(needs).static_order())
    except CycleError as cycle:
        raise InputError("locals", cycle.args[1], "definitions without a circle") from None


_COMPUTED = (
    *(sympy.Symbol, sympy.Rational, sympy.Float, sympy.NumberSymbol, Infinity, NegativeInfinity),
    *(sympy.Add, sympy.Mul, sympy.Pow, sympy.sign, sympy.Heaviside),
    *(ErrorTail, SechSquared, Sigmoid, Softplus),
    *(sympy.Piecewise, Relational, sympy.And, sympy.Or, sympy.Not),
)
"""Functions of a kernel, beside those that sympy's printer knows how to call."""


class _Source(PythonCodePrinter):
    """sympy's printer to Python, narrowed to doubles and to what numba compiles."""

    _rewriteable_functions: ClassVar[dict[str, tuple[str, list[str]]]] = {
        **{"sec": ("cos", []), "csc": ("sin", []), "cot": ("tan", [])},
        **{"sech": ("cosh", []), "csch": ("sinh", []), "coth": ("tanh", [])},
    }

    def __init__(self, names: Mapping[sympy.Symbol, str]) -> None:
        super().__init__()
        self.names = names
        on_integers = {"ceiling", "factorial", "floor", "isinf", "isnan"}
        self.called = {*self.known_functions, *self._rewriteable_functions} - on_integers

    def _print(self, expr: object, **settings: object) -> str:
        name = type(expr).__name__
        if isinstance(expr, _COMPUTED) or (
            name in self.called and not isinstance(expr, AppliedUndef)
        ):
            return str(super()._print(expr, **settings))
        wanted = f"an expression that a kernel can compute; {name} is none"
        if isinstance(expr, sympy.Function):
            wanted = f"functions that a kernel can call: {', '.join(sorted(self.called))}"
        raise InputError("expr", expr, wanted)

    def parenthesize(self, item: sympy.Expr, level: int, strict: bool = False) -> str:
        """The text of an operand, in parentheses if it binds less tightly than `level`."""
        text = self._print(item)
        return f"({text})" if _binding(item) < level else text

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        if expr not in self.names:
            known = ", ".join(map(str, self.names)) or "none"
            raise InputError("expr", expr, f"only symbols that have a name here: {known}")
        return self.names[expr]

    _print_Dummy = _print_Symbol

    def _print_Rational(self, expr: sympy.Rational) -> str:
        if _is_quotient(expr):
            return f"{float(expr.p)!r} / {float(expr.q)!r}"
        return self._print_Float(expr)

    _print_Integer = _print_Half = _print_Zero = _print_Rational

    def _print_Float(self, expr: sympy.Expr) -> str:
        value = float(expr)
        if math.isinf(value) or (value == 0 and expr != 0):
            raise InputError("expr", expr, "numbers within the range of doubles")
        return repr(value)

    def _print_NegativeInfinity(self, expr: sympy.Expr) -> str:
        return "-math.inf"

    def _print_Mul(self, expr: sympy.Mul) -> str:
        coefficient, rest = expr.as_coeff_Mul()
        above, below = [], []
        for factor in sympy.Mul.make_args(rest):
            if factor.is_Pow and factor.exp.is_Rational and factor.exp.is_negative:
                below.append(factor.base**-factor.exp)
            else:
                above.append(factor)
        if abs(coefficient) != 1 or not above:
            above.insert(0, abs(coefficient))
        product = " * ".join(
            self.parenthesize(factor, _ATOM if factor.is_Rational else _PRODUCT) for factor in above
        )
        if below:
            product += f" / {self.parenthesize(sympy.Mul(*below, evaluate=False), _ATOM)}"
        return f"-{product}" if coefficient.is_negative else product

    def _print_Pow(self, expr: sympy.Pow, rational: bool = False) -> str:
        base, power = expr.args
        if not _by_products(power):
            return f"math.pow({self._print(base)}, {self._print(power)})"
        if power < 0:
            return f"1.0 / {self.parenthesize(base**-power, _ATOM)}"
        factors = self._product(self.parenthesize(base, _ATOM), int(power)) if power > 1 else ""
        root = "" if power.is_Integer else f"math.sqrt({self._print(base)})"
        return " * ".join(part for part in (factors, root) if part)

    def _product(self, base: str, power: int) -> str:
        """base^power by halves, which the compiler computes once each."""
        if power <= 3:
            return " * ".join([base] * power)
        lower = self._product(base, power // 2)
        return f"({lower}) * ({self._product(base, power - power // 2)})"

    def _print_ErrorTail(self, expr: ErrorTail) -> str:
        return f"math.erfc({self._print(expr.args[0])})"

    def _print_Sigmoid(self, expr: Sigmoid) -> str:
        return f"1.0 / (1.0 + math.exp({self._print(-expr.args[0])}))"

    def _print_Softplus(self, expr: Softplus) -> str:
        u = self._print(expr.args[0])
        return f"(max({u}, 0.0) + math.log1p(math.exp(-abs({u}))))"

    def _print_sign(self, expr: sympy.sign) -> str:
        return self._step(self._print(expr.args[0]), "-1.0", "0.0")

    def _print_Heaviside(self, expr: sympy.Heaviside) -> str:
        return self._step(self._print(expr.args[0]), "0.0", self._print(expr.args[1]))

    def _step(self, x: str, below: str, at_zero: str) -> str:
        return f"(1.0 if {x} > 0.0 else ({below} if {x} < 0.0 else {at_zero}))"

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *branches, (last, condition) = expr.args
        if condition != sympy.true and not _covers(expr):
            raise InputError("expr", expr, "a Piecewise that has a value for every argument")
        text = self._print(last)
        for value, condition in reversed(branches):
            text = f"({self._print(value)} if {self._print(condition)} else {text})"
        return text

    def _print_Relational(self, expr: Relational) -> str:
        return f"{self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)}"

    def _print_And(self, expr: sympy.And) -> str:
        return f"({' and '.join(map(self._print, expr.args))})"

    def _print_Or(self, expr: sympy.Or) -> str:
        return f"({' or '.join(map(self._print, expr.args))})"

    def _print_Not(self, expr: sympy.Not) -> str:
        return f"(not {self._print(expr.args[0])})"


class _FastSource(_Source):
    """Calls of `fastmath`."""

    def _print_ErrorTail(self, expr: ErrorTail) -> str:
        return f"fastmath.erfc({self._print(expr.args[0])})"

    def _print_SechSquared(self, expr: SechSquared) -> str:
        return f"fastmath.sech_squared({self._print(expr.args[0])})"

    def _print_Sigmoid(self, expr: Sigmoid) -> str:
        return f"fastmath.sigmoid({self._print(expr.args[0])})"

    def _print_Softplus(self, expr: Softplus) -> str:
        return f"fastmath.softplus({self._print(expr.args[0])})"


def _binding(expr: sympy.Expr) -> int:
    """How tightly the text of an expression binds; a power binds as the product that it is."""
    if expr.is_Pow:
        return _PRODUCT if _by_products(expr.exp) and expr.exp != sympy.S.Half else _ATOM
    if expr.is_Mul or isinstance(expr, Sigmoid):
        return _SUM if expr.as_coeff_Mul()[0].is_negative else _PRODUCT
    if expr.is_Rational and expr >= 0:
        return _PRODUCT if _is_quotient(expr) else _ATOM
    return int(precedence(expr))


def _by_products(power: sympy.Expr) -> bool:
    return bool((2 * power).is_Integer and abs(power) <= 64)


def _is_quotient(number: sympy.Rational) -> bool:
    """True if a rational prints as the quotient of two doubles that are exact."""
    exact = abs(number.p) < 2**53 and number.q < 2**53
    return bool(exact and number.q & (number.q - 1))


def _covers(expr: sympy.Piecewise) -> bool:
    conditions = [condition for _, condition in expr.args]
    if len(expr.free_symbols) != 1:
        return False
    return bool(sympy.Union(*(c.as_set() for c in conditions)) == sympy.S.Reals)
