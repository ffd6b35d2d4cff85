"""The decorators of the kernels that live in this package and that emitted modules call.

The options are those of `modules.PRELUDE`, without numba's on-disk cache: that cache does not see
a callee change. Cached instead are emitted modules, copies of kernels (`kernels`), under a name
that holds the hash of their text and of what they import (`fingerprint`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic

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


def _wide_vectors(_: object) -> tuple[object, object]:
    def nothing(target: Any, builder: Any, signature: object, arguments: object) -> Any:
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')  # unknown to llvmlite
        return target.get_dummy_value()

    return types.none(), nothing


wide_vectors = cast(Callable[[], None], intrinsic(_wide_vectors))
"""Called in a kernel: its loops are in vectors of 512 bits, where the processor has them.

LLVM takes half of that by itself on most of these, for wide vectors slowed down the clock of the
first. What is done lane by lane has the same bits either way.
"""


def fingerprint(*modules: ModuleType) -> str:
    """A hash of the source of modules, for the text of an emitted module that calls them."""
    text = "".join(inspect.getsource(module) for module in modules)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
