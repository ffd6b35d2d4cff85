"""Modules of one input in C99, translated from Python that is scalars, tuples, loops and tables.

A function that returns a tuple writes it to `double *out` instead; one that raises an error writes
NAN. Numbers are doubles, but for conditions, counts and arguments annotated as int.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence

from ..emit import printer

_PYTHON = "means", "layers", "flow"
_CALLED = {"abs": "fabs", "max": "fmax", "min": "fmin", "gamma": "tgamma", "int": "(long)"}
_NUMBERS = {"inf": "INFINITY", "nan": "NAN"}
_JOINED, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _ATOM = range(1, 7)
_BINARY = {
    **{ast.Add: ("+", _SUM), ast.Sub: ("-", _SUM)},
    **{ast.Mult: ("*", _PRODUCT), ast.Div: ("/", _PRODUCT), ast.Mod: ("%", _PRODUCT)},
}
_UNARY = {ast.USub: "-", ast.Not: "!", ast.UAdd: "+"}
_COMPARED = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def translated(source: str, public: Mapping[str, tuple[str, Sequence[str]]]) -> list[str]:
    """The constants and functions of a module of one input, but those that hold whole flows.

    Arguments:
        public: of each function that others call its signature, and the lines that read its
            arguments.
    """
    found = []
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_table(value):
                found.append(_table(name, value))
            case ast.FunctionDef(name=name) if name not in _PYTHON:
                found.append(_function(node, *public.get(name, ("", ()))))
    return found


def _is_table(value: ast.expr) -> bool:
    """True for a number, and for a tuple or an array of them."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) == "np.array"
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(
        isinstance(each, ast.Attribute | ast.UnaryOp)
        or (isinstance(each, ast.Constant) and isinstance(each.value, int | float))
        for each in parts
    )


def _table(name: str, value: ast.expr) -> str:
    """A constant: a number, or an array of a tuple's or NumPy array's numbers."""
    if isinstance(value, ast.Call):
        (value,) = value.args
    if not isinstance(value, ast.Tuple | ast.List):
        return f"static const {_type(value)} {name} = {_expression(value)};\n"
    numbers = ", ".join(map(_expression, value.elts))
    return f"static const {_type(value.elts[0])} {name}[] = {{{numbers}}};\n"


def _function(node: ast.FunctionDef, signature: str, before: Sequence[str]) -> str:
    """A function.

    Arguments:
        signature: the one that it has in C, if others call it.
        before: the lines that read its arguments.
    """
    arguments = [each.arg for each in node.args.args]
    result = next(each.value for each in ast.walk(node) if isinstance(each, ast.Return))
    count = len(result.elts) if isinstance(result, ast.Tuple) else 0
    if not signature:
        given = [f"{'long' if each.annotation else 'double'} {each.arg}" for each in node.args.args]
        given += ["double *out"] * bool(count)
        kind = "void" if count else _type(result)
        signature = f"static {kind} {node.name}({', '.join(given)})"
    local = {name: kind for name, kind in _assigned(node.body) if name not in arguments}
    declared = [
        f"{kind} {', '.join(f'{name} = 0' for name in names)};"
        for kind in dict.fromkeys(local.values())
        if (names := [name for name, own in local.items() if own == kind])
    ]
    read = {
        each.id
        for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    }
    unused = [f"(void){name};" for name in (*arguments, *local) if name not in read]
    lines = [*before, *declared, *unused, *_statements(node.body, count)]
    return "\n".join([f"{signature} {{", *printer.indented(lines), "}"]) + "\n"


def _assigned(body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Names that are assigned, with their types."""
    for node in (each for part in body for each in ast.walk(part)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple):
                    yield from (
                        (each.id, "double") for each in target.elts if isinstance(each, ast.Name)
                    )
                elif isinstance(target, ast.Name):
                    yield target.id, _type(node.value)


def _type(value: ast.expr | None) -> str:
    """long or double."""
    match value:
        case ast.Constant(value=int()) | ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return "long"
        case (
            ast.Call(func=ast.Name(id="int" | "kind_of"))
            | ast.Subscript(value=ast.Name(id="ORDER"))
        ):
            return "long"
    return "double"


def _statements(body: Sequence[ast.stmt], count: int) -> Iterator[str]:
    """Lines; what is raised becomes so many NAN."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as call):
                read = (f"{_expression(name)} = found[{k}];" for k, name in enumerate(names))
                inside = [f"double found[{len(names)}];", f"{_call(call, 'found')};", *read]
                yield from ["{", *printer.indented(inside), "}"]
            case ast.Assign(targets=targets, value=value):
                yield f"{' = '.join(map(_expression, targets))} = {_expression(value)};"
            case ast.AugAssign(target=target, op=op, value=value):
                yield f"{_expression(target)} {_BINARY[type(op)][0]}= {_expression(value)};"
            case ast.If(test=test, body=inside, orelse=other):
                yield f"if ({_expression(test)}) {{"
                yield from printer.indented([*_statements(inside, count)])
                if other:
                    yield "} else {"
                    yield from printer.indented([*_statements(other, count)])
                yield "}"
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=[last]), body=inside):
                yield f"for (long {name} = 0; {name} < {_expression(last)}; {name}++) {{"
                yield from printer.indented([*_statements(inside, count)])
                yield "}"
            case ast.Return(value=ast.Tuple(elts=values)):
                yield from (f"out[{k}] = {_expression(each)};" for k, each in enumerate(values))
                yield "return;"
            case ast.Return(value=ast.expr() as value):
                yield f"return {_expression(value)};"
            case ast.Raise():
                yield f"for (long k = 0; k < {count}; k++) out[k] = NAN;"
                yield "return;"
            case ast.Break():
                yield "break;"
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise ValueError(f"no C for {ast.unparse(node)}")


def _call(node: ast.Call, *more: str) -> str:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return f"{_CALLED.get(name, name)}({', '.join([*map(_expression, node.args), *more])})"


def _expression(node: ast.expr, least: int = 0) -> str:
    """In parentheses where it binds less tightly than `least`."""
    text, binds = _printed(node)
    return text if binds >= least else f"({text})"


def _printed(node: ast.expr) -> tuple[str, int]:
    """The text of an expression, and how tightly it binds."""
    match node:
        case ast.Name(id=name):
            return name, _ATOM
        case ast.Constant(value=value):
            return repr(int(value) if isinstance(value, bool) else value), _ATOM
        case ast.Attribute(attr=name):
            return _NUMBERS.get(name) or repr(getattr(math, name)), _ATOM
        case ast.Call():
            return _call(node), _ATOM
        case ast.Subscript(value=array, slice=place):
            return f"{_expression(array)}[{_expression(place)}]", _ATOM
        case ast.UnaryOp(op=op, operand=operand):
            return f"{_UNARY[type(op)]}{_expression(operand, _ATOM)}", _SIGNED
        case ast.BinOp(left=left, op=op, right=right):
            sign, binds = _BINARY[type(op)]
            return f"{_expression(left, binds)} {sign} {_expression(right, binds + 1)}", binds
        case ast.BoolOp(op=op, values=values):
            sign = " && " if isinstance(op, ast.And) else " || "
            return sign.join(_expression(each, _COMPARISON) for each in values), _JOINED
        case ast.IfExp(test=test, body=one, orelse=other):
            parts = (_expression(each, _JOINED) for each in (test, one, other))
            return "{} ? {} : {}".format(*parts), 0
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_expression(each, _COMPARISON + 1) for each in (left, *others)]
            signs = (_COMPARED[type(op)] for op in ops)
            pairs = zip(sides, signs, sides[1:], strict=False)
            text = " && ".join(f"{a} {sign} {b}" for a, sign, b in pairs)
            return text, _COMPARISON if len(ops) == 1 else _JOINED
    raise ValueError(f"no C for {ast.unparse(node)}")
