"""Brackets of piecewise linear σ in closed form: no kink is ever sampled.

Positions that are multiples of one normal y, z_p = c_p y, form a factor Π σ^{(n_p)}(c_p y): a
polynomial between breakpoints, and c δ^{(m)} on them. What several positions do at one breakpoint
is the limit of smooth σ_ε → σ. There σ'' = jump · δ, and where σ' jumps from l to r,

    Π σ'_q · δ → ∫₀¹ Π (l_q + τ (r_q − l_q)) dτ · δ,      g δ' → g δ' − ½ (g'₋ + g'₊) δ,

g continuous; σ''σ'' and σ'σ''' have no limit and give nan. A variance of 0 is the limit from above.

A singular K says nothing about derivatives across its range. Positions of one factor share theirs,
∂_p = (c_p/Σc²) d/dy, and those of variance 0 have none: right for tensors in the range of K, which
is all that a recursion asks for.

A product of factors is a sum over truncated powers, whose averages are `orthants`. Derived here.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from derive.activations.functions import Activation
from derive.errors import InputError

from ..arrays import Array
from ..emit import printer
from ..emit.jit import driver, scalar
from . import orthants
from .orthants import Counts, moment
from .pieces import SLACK, table
from .shapes import MAX_INPUTS


@scalar
def same(a: float, b: float) -> bool:
    """Whether two breakpoints are one, to rounding."""
    return abs(a - b) <= 2.0 * SLACK * (1.0 + abs(b))


@driver
def breakpoints(g: int, group: Counts, scale: Array, pieces: Array, at: Array) -> int:
    """Put in `at`, ascending, where a position scale·y of group g meets a kink; return how many."""
    count = 0
    for p in range(len(group)):
        for k in range(1, len(pieces)):
            if group[p] != g:
                continue
            y, place = pieces[k, 0] / scale[p], count
            while place > 0 and at[place - 1] > y:
                place -= 1
            if (place > 0 and same(at[place - 1], y)) or (place < count and same(at[place], y)):
                continue
            for later in range(count, place, -1):
                at[later] = at[later - 1]
            at[place] = y
            count += 1
    return count


@driver
def piece_at(y: float, side: float, scale: float, pieces: Array) -> int:
    """The piece of σ that scale·(y ± 0) is in, side = ±1."""
    piece = 0
    for k in range(1, len(pieces)):
        kink = pieces[k, 0]
        beyond = side * scale > 0.0 if same(kink / scale, y) else scale * y > kink
        piece += 1 if beyond else 0
    return piece


@driver
def around(
    y: float,
    side: float,
    g: int,
    group: Counts,
    orders: Counts,
    scale: Array,
    skipped: int,
    pieces: Array,
    product: Array,
) -> None:
    """Fill `product` with the Taylor coefficients at y ± 0 of Π σ^{(n_p)}(scale_p y) over group g,
    one position skipped."""
    for k in range(len(product)):
        product[k] = 0.0 if k else 1.0
    for p in range(len(orders)):
        if p == skipped or group[p] != g:
            continue
        piece = piece_at(y, side, scale[p], pieces)
        constant, rise = pieces[piece, 1] + pieces[piece, 2] * scale[p] * y, pieces[piece, 2]
        if orders[p] > 0:
            constant, rise = rise if orders[p] == 1 else 0.0, 0.0
        for k in range(len(product) - 1, -1, -1):
            product[k] *= constant
            if k > 0:
                product[k] += rise * scale[p] * product[k - 1]


@driver
def deltas(
    y: float,
    g: int,
    group: Counts,
    orders: Counts,
    scale: Array,
    pieces: Array,
    left: Array,
    right: Array,
    out: Array,
) -> None:
    """Fill `out` with the coefficients of δ^{(m)} at the breakpoint y; nan where there is none.

    Needs two arrays, left and right, for `around`.
    """
    for m in range(len(out)):
        out[m] = 0.0
    carrier, jump = -1, 0.0
    for p in range(len(orders)):
        if group[p] == g and orders[p] >= 2:
            piece, other = piece_at(y, -1.0, scale[p], pieces), piece_at(y, 1.0, scale[p], pieces)
            if piece != other:
                out[0] = math.nan if carrier >= 0 else 0.0
                carrier = p
                jump = 1.0 / abs(scale[p])
                jump *= pieces[max(piece, other), 2] - pieces[min(piece, other), 2]
    if carrier < 0 or math.isnan(out[0]):
        return
    m = orders[carrier] - 2
    early, late = 1.0, 1.0
    for p in range(len(orders)):
        if group[p] != g or p == carrier:
            continue
        piece, other = piece_at(y, -1.0, scale[p], pieces), piece_at(y, 1.0, scale[p], pieces)
        if piece != other and m > 0 and (orders[p] > 0 or m > 1):
            out[0] = math.nan
            return
        before, after = pieces[piece, 2], pieces[other, 2]
        if orders[p] != 1:
            value = pieces[piece, 1] + pieces[piece, 2] * scale[p] * y
            before = value if orders[p] == 0 else 0.0
            after = before
        middle, half = 0.5 * (before + after), 0.5 * (after - before) / math.sqrt(3.0)
        early *= middle - half
        late *= middle + half
    around(y, -1.0, g, group, orders, scale, carrier, pieces, left)
    around(y, 1.0, g, group, orders, scale, carrier, pieces, right)
    for k in range(min(m, len(left) - 1) + 1):
        size = 0.5 * (early + late) if m == 0 else 0.5 * (left[k] + right[k])
        for j in range(k):
            size *= -(m - j)
        out[m - k] = size * jump / scale[carrier] ** m


@driver
def factor(
    g: int,
    group: Counts,
    orders: Counts,
    scale: Array,
    times: int,
    pieces: Array,
    atoms: Array,
    filled: int,
) -> int:
    """Append (d/dy)^times Π σ^{(n_p)}(scale_p y) over group g to `atoms`; return their new number.

    Rows: coefficient, e, threshold and side of a_e(side·(y − threshold)), the side 0 for powers
    that are not truncated. Truncated ones grow away from 0: nothing cancels for y near 0.
    """
    at = np.empty(len(group) * len(pieces))
    left, right = np.empty(len(orders) + 1), np.empty(len(orders) + 1)
    on = np.empty(max(orders) + 1)
    count = breakpoints(g, group, scale, pieces, at)
    around(0.0, -1.0, g, group, orders, scale, -1, pieces, left)
    factorial = 1.0
    for e in range(len(left)):
        factorial *= max(e, 1)
        if left[e] != 0.0 and e >= times:
            atoms[filled, 0], atoms[filled, 1] = left[e] * factorial, e - times
            atoms[filled, 2], atoms[filled, 3] = 0.0, 0.0
            filled += 1
    for k in range(count):
        around(at[k], -1.0, g, group, orders, scale, -1, pieces, left)
        around(at[k], 1.0, g, group, orders, scale, -1, pieces, right)
        side = -1.0 if at[k] < 0.0 else 1.0
        factorial = 1.0
        for e in range(len(left)):
            factorial *= max(e, 1)
            jump = right[e] - left[e]
            if abs(jump) > 1e-15 * (abs(right[e]) + abs(left[e])):
                atoms[filled, 0] = side ** (e + 1 + times) * jump * factorial
                atoms[filled, 1], atoms[filled, 2], atoms[filled, 3] = e - times, at[k], side
                filled += 1
        deltas(at[k], g, group, orders, scale, pieces, left, right, on)
        for m in range(len(on)):
            if on[m] != 0.0:
                atoms[filled, 0], atoms[filled, 1] = on[m], -1 - m - times
                atoms[filled, 2], atoms[filled, 3] = at[k], 1.0
                filled += 1
    return filled


@driver
def grouped(K: Array, group: Counts, scale: Array) -> Counts:
    """Fill group and scale, z_p = scale_p y_group, group −1 and scale 1 for a variance of 0.

    Returns the first position of each group, and last the number of groups: −1 if K is no
    covariance.
    """
    d = len(K)
    leaders = np.zeros(d + 1, np.int64)
    for p in range(d):
        group[p], scale[p] = -1, 1.0
        for q in range(d):
            size = math.sqrt(max(K[p, p], 0.0)) * math.sqrt(max(K[q, q], 0.0))
            if not (K[p, p] >= 0.0 and abs(K[p, q]) <= (1.0 + 1e-9) * size < math.inf):
                leaders[d] = -1
                return leaders
        if K[p, p] == 0.0:
            continue
        scale[p] = math.sqrt(K[p, p])
        for g in range(leaders[d]):
            lead = leaders[g]
            if group[p] < 0 and abs(K[p, lead]) >= (1.0 - SLACK) * (scale[p] * scale[lead]):
                group[p], scale[p] = g, math.copysign(scale[p], K[p, lead])
        if group[p] < 0:
            group[p] = leaders[d]
            leaders[leaders[d]] = p
            leaders[d] += 1
    return leaders


@driver
def at_rest(atoms: Array, count: int, alone: bool) -> float:
    """⟨f(ε y)⟩, ε → 0+, of a factor made with `factor`.

    nan where that depends on how y goes with other positions, unless there are none: alone.
    """
    value = 0.0
    for a in range(count):
        size, e, threshold = atoms[a, 0], atoms[a, 1], atoms[a, 2]
        if threshold == 0.0 and (e < 0.0 or (e == 0.0 and atoms[a, 3] != 0.0 and not alone)):
            return math.nan
        if threshold == 0.0 and e == 0.0:
            value += size if atoms[a, 3] == 0.0 else 0.5 * size
    return value


@driver
def average(K: Array, shape: Counts, pieces: Array) -> float:
    """⟨∂^outer Π_p σ^{(orders_p)}(z_p)⟩ over z ~ N(0, K), with shape = (orders, outer).

    pieces: a row (lower end, constant, slope) for each piece of σ, from left to right.
    nan where more than 4 positions are no multiples of one another.
    """
    orders, outer = shape[0], shape[1]
    d = len(orders)
    group, scale = np.empty(d, np.int64), np.empty(d)
    leaders = grouped(K, group, scale)
    count = leaders[d]
    if not 0 <= count <= MAX_INPUTS:
        return math.nan
    value = 1.0
    atoms = np.empty((d * (d + 1) + d * len(pieces) * (d + 2 + max(orders)), 4))
    starts, chosen = np.zeros(count + 2, np.int64), np.zeros(count, np.int64)
    for g in range(-1, count):
        times, length = 0, 0.0
        for p in range(d):
            if group[p] == g:
                length += scale[p] ** 2
                times += outer[p]
        for p in range(d):
            if group[p] == g:
                value *= (scale[p] / length) ** outer[p]
        if g < 0 and times > 0:
            return 0.0
        filled = factor(g, group, orders, scale, times, pieces, atoms, starts[g + 1])
        if g < 0:
            value *= at_rest(atoms, filled, count == 0)
            filled = 0
        elif filled == starts[g + 1]:
            return 0.0
        else:
            chosen[g] = starts[g + 1]
        starts[g + 2] = filled
    if count == 0 or math.isnan(value):
        return value
    R, gap, slack = np.ones((count, count)), np.zeros((count, count)), np.zeros((count, count))
    e, h, known = np.empty(count, np.int64), np.empty(count), np.empty(1)
    total = 0.0
    while True:
        product, known[0] = value, math.nan
        for g in range(count):
            size, at, side = atoms[chosen[g], 0], atoms[chosen[g], 2], atoms[chosen[g], 3]
            e[g], h[g] = int(atoms[chosen[g], 1]), side * at if side != 0.0 else -math.inf
            product *= size if h[g] < 39.0 else 0.0
            for k in range(g):
                a, b = leaders[g], leaders[k]
                r = K[a, b] / (scale[a] * scale[b])
                gap[g, k] = 1.0 - abs(r)
                r *= -1.0 if side < 0.0 else 1.0
                r *= -1.0 if atoms[chosen[k], 3] < 0.0 else 1.0
                R[g, k], R[k, g], gap[k, g] = r, r, gap[g, k]
                slack[g, k], slack[k, g] = SLACK, SLACK
        if product != 0.0:
            total += product * moment(e, h, R, gap, slack, known)
        g = 0
        while g < count:
            chosen[g] += 1
            if chosen[g] < starts[g + 2]:
                break
            chosen[g] = starts[g + 1]
            g += 1
        if g == count:
            return total


def source(activation: Activation) -> str:
    """`average` and all that it calls, with the activation's PIECES, as source."""
    pieces = table(activation)
    if pieces is None:
        raise InputError("activation", activation.name, "a continuous, piecewise linear one")
    rows = ", ".join(printer.listing(map(printer.literal, row)) for row in pieces.tolist())
    constants = [
        f"GONE, SLACK, MAX_INPUTS = {orthants.GONE!r}, {SLACK!r}, {MAX_INPUTS!r}\n"
        "Array = Counts = np.ndarray\n",
        printer.constant("PATH_NODES", orthants.PATH_NODES, array=True),
        printer.constant("PATH_WEIGHTS", orthants.PATH_WEIGHTS, array=True),
        f"PIECES = np.array([{rows}])  # lower end, constant, slope\n",
    ]
    return "\n\n".join([*constants, *map(inspect.getsource, _FUNCTIONS)])


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(orthants.product_gap, orthants.sine, orthants.partial, orthants.threshold, orthants.tail),
    *(orthants.normal, orthants.normal_pair, orthants.quadrant, orthants.panel_start),
    *(orthants.pair_orthant, orthants.determinant, orthants.plackett, orthants.orthant),
    *(orthants.power, orthants.choose, orthants.at_point, orthants.coincide, orthants.condition),
    *(orthants.shifted, orthants.moment, same, breakpoints, piece_at, around, deltas, factor),
    *(grouped, at_rest, average),
)
