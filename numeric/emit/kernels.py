"""Emitted modules out of this package's kernels: their source, copied with all that they call.

Numba's on-disk cache does not see a callee change, so the kernels of the package are not kept by
themselves. A module that holds copies of them is: its name is the hash of their text. Only its
entries can be called from Python and are kept, and each is compiled when it is first called; what
they call is compiled into them, once, without what a call from Python takes (`pipelines`). What
many modules call is a module of its own, kept too, whose name is in the text of those, as is a hash
of what all import.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.core.dispatcher import Dispatcher

from derive.work.caches import cache

from . import fastmath, jit, modules, pipelines, tiles, vectors
from .copies import PARSING, literal, read

HEADER = '''\
"""{doc}"""

from __future__ import annotations

import math

import numba
import numpy as np

from numeric.emit.jit import wide_vectors
from numeric.emit.pipelines import Entry, Inner, for_types
from numeric.emit.tiles import add_pairs, add_pairs_of_two, few_rows, many_rows, one_row, turn
from numeric.emit.vectors import all_lanes, load_eight, load_row, root
from numeric.emit.vectors import store_eight, store_row, sum_of_lanes

# with jit, pipelines, tiles and vectors {under}

_all = {{"error_model": "numpy", "fastmath": {{"contract"}}, "no_cfunc_wrapper": True}}
_own = _all | {{"pipeline_class": Entry}}
_inner = _all | {{"no_cpython_wrapper": True, "pipeline_class": Inner}}
_any_order = _inner | {{"fastmath": {{"contract", "reassoc"}}}}
scalar = numba.njit(**_inner, forceinline=True)  # called in loops
driver = for_types(**_inner)  # loops, sums in order
reduction = numba.njit(**_any_order, forceinline=True)  # sums in any order
part = for_types(**_own, no_cpython_wrapper=True, cache=True)  # called in other modules
entry = numba.njit(**_own, nogil=True, cache=True)  # called from Python threads
'''

Kernel: TypeAlias = Callable[..., Any]
"""A function of this package that is decorated by one of `numeric.emit.jit`."""


class _Source(NamedTuple):
    """A kernel as it is copied.

    Arguments:
        decorator: "scalar", "driver" or "reduction".
        text: its source, without the decorator.
        taken: the names of the kernels and numbers that it takes from its module.
    """

    decorator: str
    text: str
    taken: tuple[str, ...]


def load_kernels(
    stem: str,
    doc: str,
    entries: Iterable[Kernel] = (),
    source: str = "",
    called: Iterable[Kernel] = (),
    parts: Iterable[Kernel] = (),
) -> ModuleType:
    """The module of these kernels, to be called from Python by their names.

    Arguments:
        stem: how the module's name begins.
        doc: what it is, in a line.
        entries: kernels of this package.
        source: functions besides, which call `called` and `parts` by their names, and `fastmath`.
        parts: kernels that are compiled once for all modules with the same ones, none before those
            that it calls.

    Raises:
        ValueError: where two kernels need different things of one name.
    """
    parts = tuple(parts)
    text = _text(doc, tuple(entries), source, tuple(called))
    if not parts:
        return modules.load(text, stem)
    shared = modules.load(_text("What several modules call.", parts, "", (), "part"), "parts")
    module = modules.load(f"{text}\n# with {shared.__name__}\n", stem)
    for name in map(_name, parts):
        setattr(module, name, getattr(shared, name))
    return module


@cache
def _text(
    doc: str,
    entries: tuple[Kernel, ...],
    source: str,
    called: tuple[Kernel, ...],
    decorator: str = "entry",
) -> str:
    copied: dict[str, tuple[object, str]] = {}
    by_name = re.compile(r"\bfastmath\.(\w+)\(")
    for name in sorted(set(by_name.findall(source))):
        _copy(getattr(fastmath, name), copied)
    for function in called:
        _copy(function, copied)
    for function in entries:
        _copy(function, copied, decorator)
    numbers = [text for value, text in copied.values() if not isinstance(value, Dispatcher)]
    kernels = [text for value, text in copied.values() if isinstance(value, Dispatcher)]
    under = jit.fingerprint(jit, pipelines, tiles, vectors)
    head = "\n".join([HEADER.format(doc=doc, under=under), *numbers])
    return "\n\n\n".join([head, *kernels, by_name.sub(r"\1(", source)])


def _name(kernel: Any) -> str:
    return str(kernel.py_func.__name__)


def _copy(function: Any, copied: dict[str, tuple[object, str]], decorator: str = "") -> None:
    """Add the text of a kernel, after that of all that it needs."""
    name, scope = _name(function), function.py_func.__globals__
    if _is_there(name, function, copied):
        return
    source = _sources(sys.modules[function.py_func.__module__])[name]
    for needed in source.taken:
        value = scope[needed]
        if isinstance(value, Dispatcher):
            _copy(value, copied)
        elif not _is_there(needed, value, copied):
            copied[needed] = value, f"{needed} = {literal(value)}"
    copied[name] = function, f"@{decorator or source.decorator}\n{source.text}"


def _is_there(name: str, value: object, copied: dict[str, tuple[object, str]]) -> bool:
    if name in copied and copied[name][0] != value:
        raise ValueError(f"two kernels in one module, and both need something called {name}")
    return name in copied


@cache
def _sources(module: ModuleType) -> dict[str, _Source]:
    """The kernels of a module."""
    text = inspect.getsource(module)
    lines, found = text.splitlines(), {}
    with PARSING:
        body = ast.parse(text).body
    for node in body:
        if isinstance(node, ast.FunctionDef) and len(node.decorator_list) == 1:
            (decorator,) = node.decorator_list
            if isinstance(decorator, ast.Name):
                written = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                taken = tuple(name for name in read(node) if _is_taken(vars(module).get(name)))
                found[node.name] = _Source(decorator.id, written, taken)
    return found


def _is_taken(value: object) -> bool:
    """True if a global is a kernel or a number, and not a module or a function of Python's."""
    return isinstance(value, Dispatcher | int | float | np.generic)
