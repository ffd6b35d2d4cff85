"""The decorators of the kernels that live in this package and that emitted modules call.

The options are those of `modules.PRELUDE`, without numba's on-disk cache: that cache does not see
a callee change. Cached instead are emitted modules: copies of kernels (`kernels`), or what calls
them, under a name that holds the hash of what is called (`fingerprint`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ir = cgutils.ir  # llvmlite's
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


def _eight_sums(
    _: object, out: Any, at: Any, line: Any, begins: Any, weights: Any
) -> tuple[object, object]:
    def sums(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to, start, *others = arguments
        arrays = [
            context.make_array(kind)(context, builder, each)
            for kind, each in zip(signature.args[2:], others, strict=True)
        ]
        goal = context.make_array(signature.args[0])(context, builder, to)
        lanes = ir.VectorType(ir.DoubleType(), 8)
        total = cgutils.alloca_once_value(builder, ir.Constant(lanes, [0.0] * 8))
        source, begin, weight = (each.data for each in arrays)
        count = builder.extract_value(arrays[2].shape, 0)
        with cgutils.for_range(builder, count) as loop:
            place = builder.add(builder.load(builder.gep(begin, [loop.index])), start)
            values = builder.bitcast(builder.gep(source, [place]), lanes.as_pointer())
            own = builder.load(builder.gep(weight, [loop.index]))
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), own, ir.IntType(32)(0))
            same = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
            factor = builder.shuffle_vector(one, one, same)
            product = builder.fmul(factor, builder.load(values, align=8), flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        room = builder.bitcast(builder.gep(goal.data, [start]), lanes.as_pointer())
        builder.store(builder.load(total), room, align=8)
        return context.get_dummy_value()

    return types.none(out, at, line, begins, weights), sums


eight_sums = cast("Callable[..., None]", intrinsic(_eight_sums))
"""out[at + l] = Σ_j weights[j] line[begins[j] + at + l] for l = 0 … 7, in vectors: LLVM takes
short loops with several sources one number at a time. Places are not checked. All contiguous,
`begins` and `at` unsigned."""


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
