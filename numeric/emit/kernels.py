"""Emitted modules out of this package's kernels: their source, copied with all that they call.

Numba's on-disk cache does not see a callee change, so the kernels of the package are not kept by
themselves. A module that holds copies of them is: its name is the hash of their text. Only its
entries can be called from Python and are kept, and each is compiled when it is first called; what
they call is compiled into them, once, without what a call from Python takes (`pipelines`). What
many modules call is a module of its own, kept too, whose name is in the text of those, as is a hash
of what all import.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeAlias

from derive.work.caches import cache

from . import fastmath, jit, modules, pipelines, tiles, vectors
from .copies import bound, copies

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
    for name in (each.__name__ for each in parts):
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
    by_name = re.compile(r"\bfastmath\.(\w+)\(")
    fast = (getattr(fastmath, name) for name in sorted(set(by_name.findall(source))))
    kernels = copies([*fast, *called, *entries], there=bound(HEADER))
    for kernel in entries:
        kernels = re.sub(rf"@\w+\n(?=def {kernel.__name__}\()", f"@{decorator}\n", kernels)
    under = jit.fingerprint(jit, pipelines, tiles, vectors)
    return "\n".join(
        [HEADER.format(doc=doc, under=under), kernels, "", by_name.sub(r"\1(", source)]
    )
