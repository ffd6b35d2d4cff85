"""Products of a matrix with `LANES` vectors side by side, a tile of the result in registers.

`x` and what comes out are arrays (numbers, LANES), a row of which is one register; the matrix is
any contiguous array, read a number at a time from a first place on, with any distance between its
rows and its columns. Every number that comes out is a sum in order, whatever tile it is in, so that
no bit depends on their sizes: those are what the processor has registers for. Places are not
checked, as anywhere in a kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.core import cgutils, codegen, config
from numba.core.cgutils import ir
from numba.extending import intrinsic

from ..arrays import Array
from .vectors import LANES, WIDE, in_all_lanes, indices, is_wanted, pointer

_features = codegen.get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
MANY, FEW = (16, 8) if "+avx512f" in _features else (4, 4)
"""Rows of a tile: with 32 registers of 512 bits, and with 16 of half of that or less."""


def _number(k: int) -> Any:
    return ir.Constant(ir.IntType(64), k)


def _added(builder: Any, total: Any, x: Any, y: Any) -> Any:
    flags = ("contract",)
    return builder.fadd(total, builder.fmul(x, y, flags=flags), flags=flags)


def _loaded(builder: Any, at: Any) -> Any:
    return builder.load(at, align=8)


def _rows(tile: int) -> Any:
    def multiply(
        _: Any, W: Any, place: Any, across: Any, along: Any, count: Any, start: Any, k: Any,
        x: Any, first: Any, out: Any, row: Any,
    ) -> Any:  # fmt: skip

        def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            W, place, across, along, count, start, k, x, first, out, row = arguments
            of = dict(zip((0, 5, 7, 9), (signature.args[at] for at in (0, 5, 7, 9)), strict=True))
            matrix, begins = (
                builder.gep(context.make_array(of[at])(context, builder, array).data, [shift])
                for at, array, shift in ((0, W, place), (5, start, k))
            )
            lanes = _number(LANES)
            totals = [cgutils.alloca_once(builder, WIDE) for _ in range(tile)]
            for j, total in enumerate(totals):
                begin = builder.load(builder.gep(begins, [_number(j)]))
                builder.store(in_all_lanes(builder, begin), total)
            with cgutils.for_range(builder, count) as loop:
                at = builder.mul(builder.add(first, loop.index), lanes)
                factor = _loaded(builder, pointer(context, builder, of[7], x, at))
                entry = builder.gep(matrix, [builder.mul(loop.index, along)])
                for j, total in enumerate(totals):
                    w = builder.load(builder.gep(entry, [builder.mul(across, _number(j))]))
                    product = _added(builder, builder.load(total), in_all_lanes(builder, w), factor)
                    builder.store(product, total)
            for j, total in enumerate(totals):
                at = builder.mul(builder.add(row, _number(j)), lanes)
                to = pointer(context, builder, of[9], out, at)
                builder.store(builder.load(total), to, align=8)
            return context.get_dummy_value()

        whole = types.intp
        wanted = types.none(W, whole, whole, whole, whole, start, whole, x, whole, out, whole)
        return (wanted, lowered) if all(map(is_wanted, (W, start, x, out))) else None

    return multiply


def _pairs(wide: int) -> Any:
    def add(
        _: Any, W: Any, place: Any, along: Any, count: Any, x: Any, first: Any, factor: Any,
        back: Any, column: Any, width: Any,
    ) -> Any:  # fmt: skip

        def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            W, place, along, count, x, first, factor, back, column, width = arguments
            of_W, of_x, of_back = (signature.args[at] for at in (0, 4, 7))
            beside = [_number(LANES * v) for v in range(wide)]
            scale = in_all_lanes(builder, factor)
            held = []
            for a in range(LANES):
                at = builder.add(column, builder.mul(width, _number(a)))
                for v in beside:
                    row = pointer(context, builder, of_back, back, builder.add(at, v))
                    held.append(builder.fmul(scale, _loaded(builder, row)))
            entries = context.make_array(of_x)(context, builder, x).data
            with cgutils.for_range(builder, count) as loop:
                at = builder.add(place, builder.mul(loop.index, along))
                into = [pointer(context, builder, of_W, W, builder.add(at, v)) for v in beside]
                totals = [_loaded(builder, each) for each in into]
                row = builder.gep(
                    entries, [builder.mul(builder.add(first, loop.index), _number(LANES))]
                )
                for a in range(LANES):
                    own = builder.load(builder.gep(row, [_number(a)]))
                    own = in_all_lanes(builder, own)
                    for v in range(wide):
                        totals[v] = _added(builder, totals[v], own, held[a * wide + v])
                for total, to in zip(totals, into, strict=True):
                    builder.store(total, to, align=8)
            return context.get_dummy_value()

        whole = types.intp
        wanted = types.none(W, whole, whole, whole, x, whole, types.float64, back, whole, whole)
        return (wanted, lowered) if all(map(is_wanted, (W, x, back))) else None

    return add


def _turn(_: Any, x: Any, row: Any, skip: Any, out: Any, column: Any, width: Any) -> Any:

    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, row, skip, out, column, width = arguments
        of_x, of_out = signature.args[0], signature.args[3]
        rows, nothing = [], ir.Constant(WIDE, None)
        for j in range(LANES):
            at = builder.mul(builder.add(row, _number(j)), _number(LANES))
            found = _loaded(builder, pointer(context, builder, of_x, x, at))
            is_in = builder.icmp_signed(">=", _number(j), skip)
            rows.append(builder.select(is_in, found, nothing))
        apart = LANES // 2
        while apart:  # blocks off the diagonal change places, halved until they are numbers
            low = [k if not k & apart else k - apart + LANES for k in range(LANES)]
            high = [k + apart if not k & apart else k + LANES for k in range(LANES)]
            for j in range(LANES):
                if not j & apart:
                    upper, lower = rows[j], rows[j + apart]
                    rows[j] = builder.shuffle_vector(upper, lower, indices(low))
                    rows[j + apart] = builder.shuffle_vector(upper, lower, indices(high))
            apart //= 2
        for a in range(LANES):
            at = builder.add(column, builder.mul(width, _number(a)))
            builder.store(rows[a], pointer(context, builder, of_out, out, at), align=8)
        return context.get_dummy_value()

    whole = types.intp
    wanted = types.none(x, whole, whole, out, whole, whole)
    return (wanted, lowered) if is_wanted(x) and is_wanted(out) else None


Rows = Callable[[Array, int, int, int, int, Array, int, Array, int, Array, int], None]
Pairs = Callable[[Array, int, int, int, Array, int, float, Array, int, int], None]

many_rows = cast(Rows, intrinsic(_rows(MANY)))
"""(W, place, across, along, count, start, k, x, first, out, row): for j < MANY,
out[row + j] = start[k + j] + Σ_i W[place + j across + i along] x[first + i], over i < count."""

few_rows = cast(Rows, intrinsic(_rows(FEW)))
"""As `many_rows`, for j < FEW."""

one_row = cast(Rows, intrinsic(_rows(1)))
"""As `many_rows`, for j = 0."""

add_pairs = cast(Pairs, intrinsic(_pairs(1)))
"""(W, place, along, count, x, first, factor, back, column, width): for i < count and k < LANES,
W[place + i along + k] += Σ_a x[first + i, a] (factor back[column + a width + k]), over lanes a."""

add_pairs_of_two = cast(Pairs, intrinsic(_pairs(2)))
"""As `add_pairs`, for k < 2 LANES."""

turn = cast(Callable[[Array, int, int, Array, int, int], None], intrinsic(_turn))
"""(x, row, skip, out, column, width): out[column + a width + j] = x[row + j, a] for `LANES` rows
j, of which the first `skip` are taken as 0."""
