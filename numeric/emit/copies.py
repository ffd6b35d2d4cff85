"""Definitions of this package in emitted modules, copied with all that they need.

A written module needs numpy and numba alone, so it cannot import the rules of quadrature that
`flow` runs. It holds copies of them instead: functions, classes and kernels as they stand in this
package, the numbers that they read, and imports of what is not of this package.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from derive.work.caches import cache

_COPIED = "derive", "numeric"
"""The packages whose definitions are copied; others are imported."""

_NONE: Mapping[str, str] = {}


def copies(
    wanted: Iterable[Any], instead: Mapping[str, str] = _NONE, there: Iterable[str] = ()
) -> str:
    """The source of these functions and classes, after that of all that they need.

    Arguments:
        wanted: functions and classes of this package, and kernels of numba.
        instead: what defines a name in the module, where it is not what this package has.
        there: names that the module has from elsewhere.

    Raises:
        ValueError: where two of them need different things of one name.
    """
    copied: dict[str, tuple[object, str]] = {}
    known = frozenset(there)
    for each in wanted:
        _copy(each.__name__, each, copied, instead, known)
    texts = [text for _, text in copied.values()]
    imports = sorted(text for text in texts if _IMPORT.match(text))
    rest = (text for text in texts if not _IMPORT.match(text))
    return "\n\n\n".join(["\n".join(imports), *rest])


_IMPORT = re.compile(r"(import|from) ")


def _copy(
    name: str,
    value: Any,
    copied: dict[str, tuple[object, str]],
    instead: Mapping[str, str],
    there: frozenset[str],
) -> None:
    """Add what this name stands for, after all that it needs."""
    if name in there:
        return
    if name in copied:
        if not _is_same(copied[name][0], value):
            raise ValueError(f"two definitions in one module need something called {name}")
        return
    copied[name] = value, ""  # it may name itself
    text = instead.get(name) or _imported(name, value)
    if not text and not callable(value):
        text = f"{name} = {literal(value)}"
    if not text:
        module = sys.modules[value.__module__]
        text, needed = _definitions(module)[value.__name__]
        for each in needed:
            if each in vars(module) and (_is_taken(vars(module)[each]) or not _is_kernel(value)):
                _copy(each, vars(module)[each], copied, instead, there)
    del copied[name]  # behind what it needs
    copied[name] = value, text


def _is_kernel(value: object) -> bool:
    return hasattr(value, "py_func")


def _is_taken(value: object) -> bool:
    """True for what a kernel takes from its module; its other names are its own."""
    return _is_kernel(value) or isinstance(value, int | float | np.generic)


def _imported(name: str, value: Any) -> str:
    """The import of what is not of this package, else ""."""
    if isinstance(value, ModuleType):
        known = value.__name__
        return f"import {known}" if known == name else f"import {known} as {name}"
    if not callable(value) or value.__module__.split(".")[0] in _COPIED:
        return ""
    return f"from {value.__module__} import {value.__name__}"


def _is_same(one: object, other: object) -> bool:
    return one is other or bool(isinstance(one, int | float | np.generic) and one == other)


def literal(value: object) -> str:
    """Numbers, alone or in arrays and containers, as Python reads them, to the last bit."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(each)}' for key, each in value.items())}}}"
    if isinstance(value, np.ndarray):
        return f"np.array({literal(value.tolist())})"
    if isinstance(value, np.generic):
        return f"np.{type(value).__name__}({literal(value.item())})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else type(value).__name__
        own = "".join(f"{literal(each)}, " for each in value)
        return f"{name}({own.rstrip() if len(value) == 1 else own.rstrip(', ')})"
    return repr(value).replace("inf", "math.inf") if isinstance(value, float) else repr(value)


class _Definition(NamedTuple):
    text: str
    needed: tuple[str, ...]


_PARSING = Lock()
"""`ast.parse` of CPython 3.11 counts its depth for all threads together: SystemError."""


@cache
def _definitions(module: ModuleType) -> dict[str, _Definition]:
    """The functions and classes of a module, and the names that each reads."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    with _PARSING:
        body = ast.parse(source).body
    found = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            text = "\n".join(lines[start - 1 : node.end_lineno])
            found[node.name] = _Definition(text, tuple(dict.fromkeys(_names(node))))
    return found


def bound(source: str) -> frozenset[str]:
    """The names that the imports and assignments of a module bind, but for private ones: a copy
    may take those again, as only what stands before it reads them."""
    with _PARSING:
        body = ast.parse(source).body
    found: list[str] = []
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found += [each.asname or each.name for each in node.names]
        elif isinstance(node, ast.Assign):
            found += [each.id for each in node.targets if isinstance(each, ast.Name)]
    return frozenset(name for name in found if not name.startswith("_"))


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a definition reads when it runs: not those of annotations."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _names(each)
