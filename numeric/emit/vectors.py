"""`LANES` numbers side by side as one value in a kernel, of as many networks or points: + − × / act
lane by lane.

A loop over them inside of loops over few labels, or of few terms, is one that LLVM does not
vectorise well: at each it asks whether arrays overlap. Here vectors are values: all that an
expression reads is read before anything is written. Every lane has the same bits, whatever is
beside it. Arrays are contiguous; places are not checked, as anywhere in a kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from numba import types
from numba.core.cgutils import ir
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

from ..arrays import Array

LANES = 8
"""As many as a register of 512 bits holds."""

Vector: TypeAlias = Any
"""Such a value, in the signature of a kernel."""

WIDE = ir.VectorType(ir.DoubleType(), LANES)


class _Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Vector")


vector = _Vector()


@register_model(_Vector)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, of: Any) -> None:
        super().__init__(manager, of, WIDE)


def pointer(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    """Code for where the `LANES` numbers from this place on are."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), WIDE.as_pointer())


def is_wanted(array: Any) -> bool:
    """True if it is a contiguous array of doubles, which all here work on."""
    return isinstance(array, types.Array) and array.layout == "C" and array.dtype == types.float64


def _load(apart: int) -> Any:
    def load(_: Any, array: Any, k: Any) -> Any:

        def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, k = arguments
            place = builder.mul(k, ir.Constant(k.type, apart))
            return builder.load(pointer(context, builder, signature.args[0], array, place), align=8)

        return (vector(array, types.intp), lowered) if is_wanted(array) else None

    return load


def _store(apart: int) -> Any:
    def store(_: Any, array: Any, k: Any, value: Any) -> Any:

        def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            array, k, value = arguments
            place = builder.mul(k, ir.Constant(k.type, apart))
            at = pointer(context, builder, signature.args[0], array, place)
            builder.store(value, at, align=8)
            return context.get_dummy_value()

        return (types.none(array, types.intp, vector), lowered) if is_wanted(array) else None

    return store


def in_all_lanes(builder: Any, number: Any) -> Any:
    """Code for this number in every lane."""
    one = builder.insert_element(ir.Constant(WIDE, ir.Undefined), number, index(0))
    return builder.shuffle_vector(one, one, indices([0] * LANES))


def _all_lanes(_: Any, number: Any) -> Any:

    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return in_all_lanes(builder, arguments[0])

    return vector(types.float64), lowered


def _sum_of_lanes(_: Any, value: Any) -> Any:

    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (total,), half = arguments, LANES // 2
        while half:
            low, high = indices(range(half)), indices(range(half, 2 * half))
            low, high = (builder.shuffle_vector(total, total, mask) for mask in (low, high))
            total, half = builder.fadd(low, high), half // 2
        return builder.extract_element(total, index(0))

    return types.float64(vector), lowered


def _root(_: Any, value: Any) -> Any:

    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        of = ir.FunctionType(WIDE, [WIDE])
        called = builder.module.declare_intrinsic(f"llvm.sqrt.v{LANES}f64", fnty=of)
        return builder.call(called, arguments)

    return vector(vector), lowered


def index(k: int) -> Any:
    """The number of a lane, in code."""
    return ir.Constant(ir.IntType(32), k)


def indices(lanes: Sequence[int]) -> Any:
    """Those of several, as a shuffle takes them."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))


def _register(operation: Any, method: str) -> None:
    @infer_global(operation)
    class _Typed(ConcreteTemplate):
        cases = (signature(vector, vector, vector),)

    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, method)(*arguments, flags=("contract",))

    lower_builtin(operation, _Vector, _Vector)(lowered)


_register(operator.add, "fadd")
_register(operator.sub, "fsub")
_register(operator.mul, "fmul")
_register(operator.truediv, "fdiv")


load_row = cast(Callable[[Array, int], Vector], intrinsic(_load(LANES)))
"""Row k of an array (numbers, LANES)."""

store_row = cast(Callable[[Array, int, Vector], None], intrinsic(_store(LANES)))
"""Write row k of an array (numbers, LANES)."""

load_eight = cast(Callable[[Array, int], Vector], intrinsic(_load(1)))
"""The `LANES` numbers of an array from the k-th on, counted through all of its axes."""

store_eight = cast(Callable[[Array, int, Vector], None], intrinsic(_store(1)))
"""Write the `LANES` numbers of an array from the k-th on, counted through all of its axes."""

all_lanes = cast(Callable[[float], Vector], intrinsic(_all_lanes))
"""This number in every lane."""

sum_of_lanes = cast(Callable[[Vector], float], intrinsic(_sum_of_lanes))
"""Σ over lanes, halves added until one number is left."""

root = cast(Callable[[Vector], Vector], intrinsic(_root))
"""The square root in every lane."""
