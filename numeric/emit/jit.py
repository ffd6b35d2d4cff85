"""The decorators of the kernels that live in this package and that emitted modules call.

The options are those of `modules.PRELUDE`, without numba's on-disk cache: that cache does not see
a callee change. The emitted module on top is cached instead, under a name that holds the hash of
the kernels it calls (`fingerprint`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def scalar(function: F) -> F:
    """A function of numbers that is inlined into the loop around it."""
    return cast(
        F, numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)(function)
    )


def driver(function: F) -> F:
    """A loop over arrays, its sums in order."""
    return cast(F, numba.njit(error_model="numpy", fastmath={"contract"})(function))


def reduction(function: F) -> F:
    """A sum in whatever order the vector unit likes: the same on one machine, at any time."""
    return cast(
        F,
        numba.njit(error_model="numpy", fastmath={"contract", "reassoc"}, forceinline=True)(
            function
        ),
    )


ENTRY = """\
entry = numba.njit(
    error_model="numpy", fastmath={"contract"}, nogil=True, cache=True
)  # called from Python threads
"""
"""The decorator, in an emitted module, of functions that run beside one another in threads."""


def fingerprint(*modules: ModuleType) -> str:
    """A hash of the source of modules, for the text of an emitted module that calls them."""
    text = "".join(inspect.getsource(module) for module in modules)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
