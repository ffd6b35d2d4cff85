"""Compiled sums for all sets of two, three or four samples: the kernels of `many_inputs`.

A level is a loop over the nodes of one latent variable. Of three or four samples the last is
averaged over its own variable beforehand, as a function of its mean: a table, from which the nodes
of the others take it by polynomials. The last but one is in a table too, not averaged. Where a
step is a whole number of a table's points, all nodes of the innermost loop share the polynomials'
weights.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from derive.activations.functions import Activation
from derive.work.caches import cache

from ..emit import printer
from ..emit.kernels import load_kernels
from ..emit.templates import sigma_source
from ..emit.vectors import LANES

POINTS = 16
"""Of the polynomials of tables."""


@cache
def derivatives(activation: Activation, highest: int) -> Any:
    """Compiled: σ's derivatives up to this order at evenly spaced z, as the loops call it."""
    orders = range(highest + 1)
    source = printer.filled(
        _DERIVATIVES,
        sigma=sigma_source(activation, len(orders)),
        derivatives=[f"S[{order}, i] = s[{order}]" for order in orders],
    )
    doc = f"Derivatives of {activation.name} for averages over sets."
    return load_kernels("derivatives", doc, (), source).derivatives


@cache
def kernels() -> ModuleType:
    """The compiled loops, of any activation."""
    source = printer.filled(
        _SUMS,
        points=POINTS,
        lanes=LANES,
        before=POINTS // 2 - 1,
        scales=str([1 / math.prod(k - j for j in range(POINTS) if j != k) for k in range(POINTS)]),
    )
    return load_kernels("crowd", "Averages over sets.", (), source)


_DERIVATIVES = """\
$sigma


@numba.cfunc(
    numba.void(numba.float64, numba.float64, numba.int64, numba.int64, numba.float64[:, ::1]),
    error_model="numpy", fastmath={"contract"}, cache=True,
)
def derivatives(mean, slope, first, count, S):
    for i in range(count):
        s = sigma(mean + slope * (first + i))
        $derivatives
"""


_SUMS = '''\
@driver
def evaluate(sigma, mean, slope, first, count, heads, S, F):
    """σ's derivatives at some z of one sample, and what the products have there."""
    sigma(mean, slope, first, count, S)
    for k in range(heads.shape[0]):
        for i in range(count):
            F[k, i] = S[heads[k, 0], i] if heads[k, 0] >= 0 else 1.0
        for j in range(1, heads.shape[1]):
            if heads[k, j] >= 0:
                for i in range(count):
                    F[k, i] *= S[heads[k, j], i]


@reduction
def weighted(F, weights, first, count):
    """A sum, and that of absolute values."""
    value, size = 0.0, 0.0
    for i in range(count):
        part = weights[first + i] * F[i]
        value += part
        size += abs(part)
    return value, size


@driver
def put(value, row):
    """All of a row's entries."""
    for k in range(len(row)):
        row[k] = value


@driver
def copied(row, out):
    """A row's entries, elsewhere."""
    for k in range(len(row)):
        out[k] = row[k]


@driver
def place(B, rank, h, half, begin, steps, slopes, weights, centre):
    """The steps of each level, those of z with them, and the weights of the nodes."""
    levels = len(steps)
    for j in range(levels):
        live = begin <= j < begin + rank
        steps[j] = h[j - begin] if live else 1.0
        for k in range(levels):
            slopes[k, j] = B[k - begin, j - begin] * steps[j] if live and k >= begin else 0.0
        for i in range(-centre, centre + 1):
            y = steps[j] * i
            weight = steps[j] / math.sqrt(2.0 * math.pi) * math.exp(-0.5 * y * y) if live else 1.0
            weights[j, centre + i] = weight * (2.0 if half and j == begin and i > 0 else 1.0)


@reduction
def joined(weights, F, G, A):
    """A sum of products of two samples, the last of which is averaged, and of absolute values."""
    value, size = 0.0, 0.0
    for i in range(len(weights)):
        part = weights[i] * F[i]
        value += part * G[i]
        size += abs(part) * A[i]
    return value, size


@reduction
def dotted(weights, line, first):
    """Σ_j weights[j] line[first + j], of $points."""
    total = 0.0
    for j in range($points):
        total += weights[j] * line[first + j]
    return total


@driver
def weighed(line, begins, weights, count, out):
    """out[n] = Σ_j weights[j] line[begins[j] + n], j by fours; no n is from the end."""
    for n in range(np.uint64(count)):
        out[n] = 0.0
    for j in range(0, len(weights), 4):
        a, b, c, d = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        k, l, m, o = begins[j], begins[j + 1], begins[j + 2], begins[j + 3]
        for n in range(np.uint64(count)):
            out[n] += (a * line[k + n] + b * line[l + n]) + (c * line[m + n] + d * line[o + n])


@driver
def blended(line, begins, weights, count, out):
    """`weighed` in vectors: for a few n, and some behind them."""
    for n in range(0, count, $lanes):
        total = all_lanes(0.0)
        for j in range(len(weights)):
            total = total + all_lanes(weights[j]) * load_eight(line, begins[j] + np.uint64(n))
        store_eight(out, n, total)


_SCALES = np.array($scales)


@driver
def lagrange(u, weights):
    """Of the polynomial through $points points, at u from 0 to 1 behind number $before."""
    below = above = 1.0
    for k in range($points):
        weights[k] = _SCALES[k]
    for k in range($points):
        weights[k] *= below
        weights[$points - 1 - k] *= above
        below *= u + ($before - k)
        above *= u + ($before - $points + 1 + k)


@driver
def stepped(slope, spacing):
    """How far apart the points of a table are, and how many of them a step is: 0 where that is no
    whole number, of steps that are small."""
    stride = math.ceil(abs(slope) / spacing) if abs(slope) > 0.25 * spacing else 0
    return (slope / stride if stride else spacing), stride


@driver
def laid(row, count, stride, out):
    """A table's points a step apart, side by side."""
    apart = max(stride, 1)
    length = count // apart + 1
    for n in range(count):
        out[n % apart * length + n // apart] = row[n]


@driver
def along(table, size, stride, at, slope, count, weights, begins, out):
    """A table's values at `at` and steps from there, by lines, of four weights, or polynomials."""
    before = len(weights) // 2 - 1
    length = size // max(stride, 1) + 1
    for i in range(1 if stride else count):
        place = at + slope * i
        first = math.floor(place)
        if len(weights) == 4:
            weights[0] = weights[3] = 0.0
            weights[1], weights[2] = 1.0 - (place - first), place - first
        else:
            lagrange(place - first, weights)
        if stride:
            row, column = (first - before) % stride, (first - before) // stride
            for j in range(len(weights)):
                begins[j] = row * length + column
                row += 1
                if row == stride:
                    row, column = 0, column + 1
            for k in range(len(table)):
                blended(table[k], begins, weights, count, out[k])
            continue
        for k in range(len(table)):
            if len(weights) == 4:
                out[k, i] = weights[1] * table[k, first] + weights[2] * table[k, first + 1]
            else:
                out[k, i] = dotted(weights, table[k], np.uint64(first - before))


@entry
def on_grid(sigma, orders, distance, half, heads, F):
    """The products at points so far apart, `half` of them on each side of 0."""
    S = np.empty((orders, 2 * half + 1))
    evaluate(sigma, 0.0, distance, -half, 2 * half + 1, heads, S, F)


@driver
def climb(level, count, weight, F, below, totals):
    """Add what is below one node of a level; the last row of F is 1."""
    for k in range(count):
        part = weight * F[level[k, 0], 0]
        totals[0, k] += part * below[0, level[k, 1]]
        totals[1, k] += abs(part) * below[1, level[k, 1]]


@driver
def norm(row, count):
    """The length of a row's first entries."""
    total = 0.0
    for k in range(count):
        total += row[k] * row[k]
    return math.sqrt(total)


@entry
def pairs(
    sigma, orders, B, ranks, h, reach, centre, which, heads, trees, all_counts, half, spacing, out,
):
    """The sums of each set of two samples, those of its tree on top, and of absolute values.

    A latent variable has fewer than `centre` nodes on either side of 0.
    """
    levels, single = trees.shape[1], heads.shape[1] == 1
    begin = levels - B.shape[1]
    for k in range(len(heads)):
        single = single and heads[k, 0] >= 0
    weights = np.empty((levels, 2 * centre + 1))
    S, F = np.empty((orders, 2 * centre + 1)), np.empty((len(heads), 2 * centre + 1))
    at_node, of_node = np.empty((orders, 1)), np.ones((len(heads) + 1, 1))
    steps, slopes = np.empty(levels), np.empty((levels, levels))
    totals = np.zeros((levels, 2, trees.shape[2]))
    for t in range(len(B)):
        if ranks[t] < 0:
            put(math.nan, out[0, t])
            put(math.nan, out[1, t])
            continue
        tree, counts = trees[which[t]], all_counts[which[t]]
        place(B[t], ranks[t], h[t], half, begin, steps, slopes, weights, centre)
        most = int(reach[t] / steps[2]) if ranks[t] > 0 else 0
        put(0.0, totals[2, 0])
        put(0.0, totals[2, 1])
        for i in range(0 if half else -most, most + 1):
            left = max(reach[t] * reach[t] - (steps[2] * i) ** 2, 0.0)
            last = int(math.sqrt(left) / steps[3]) if ranks[t] > 1 else 0
            count = 2 * last + 1
            if single:
                sigma(slopes[3, 2] * i, slopes[3, 3], -last, count, S)
            else:
                evaluate(sigma, slopes[3, 2] * i, slopes[3, 3], -last, count, heads, S, F)
            for k in range(counts[3]):
                head = tree[3, k, 0]
                row = S[heads[head, 0]] if single else F[head]
                found = weighted(row, weights[3], centre - last, count)
                totals[3, 0, k], totals[3, 1, k] = found
            evaluate(sigma, 0.0, slopes[2, 2], i, at_node.shape[1], heads, at_node, of_node)
            climb(tree[2], counts[2], weights[2, centre + i], of_node, totals[3], totals[2])
        copied(totals[2, 0], out[0, t])
        copied(totals[2, 1], out[1, t])


@entry
def sums(
    sigma, orders, B, ranks, h, reach, centre, which, heads, trees, all_counts, half, spacing, out,
):
    """The sums of each set of three or four samples, as `pairs`.

    The samples have the last levels; the first of four has one node where they are three. The last
    is averaged over its own latent variable in a table, and the last but one has a table too.
    """
    levels, products = trees.shape[1], len(heads)
    begin = levels - B.shape[1]
    weights, of_row = np.empty((levels, 2 * centre + 1)), np.empty(2 * centre + 1)
    S, F = np.empty((orders, 1)), np.ones((products + 1, 1))
    room = products, 2 * centre + $lanes
    C, G, A = np.empty(room), np.empty(room), np.empty(room)
    steps, slopes = np.empty(levels), np.empty((levels, levels))
    of_points, of_line, begins = np.empty($points), np.empty(4), np.empty($points, np.uint64)
    totals = np.zeros((levels, 2, trees.shape[2]))
    for t in range(len(B)):
        if ranks[t] < 0:
            put(math.nan, out[0, t])
            put(math.nan, out[1, t])
            continue
        end, tree, counts = begin + ranks[t], trees[which[t]], all_counts[which[t]]
        place(B[t], ranks[t], h[t], half, begin, steps, slopes, weights, centre)
        most = int(reach[t] / steps[3]) if end == levels else 0
        own, own_stride = stepped(slopes[2, 2], spacing)
        own_half = int(reach[t] * norm(B[t, 2 - begin], 3 - begin) / abs(own)) + $points
        own_size = 2 * own_half + 1
        last, last_stride = stepped(slopes[3, 2], spacing)
        last_half = int(reach[t] * norm(B[t, 3 - begin], 3 - begin) / abs(last)) + $points
        last_size = 2 * last_half + 1
        wider = 2 * int(0.5 * most * abs(slopes[3, 3] / last)) + 2 * $points  # even: by fours
        smooth, rough = np.zeros(2 * wider + 4), np.zeros(2 * wider + 4)
        for i in range(-most, most + 1):
            weight = weights[3, centre + i] if most else 1.0
            at = slopes[3, 3] / last * i
            first = math.floor(at)
            lagrange(at - first, of_points)
            for j in range($points):
                smooth[wider + first - $before + j] += weight * of_points[j]
            rough[wider + first] += weight * (1.0 - (at - first))
            rough[wider + first + 1] += weight * (at - first)
        whole = last_half + wider
        of_orders = np.empty((orders, 2 * max(own_half, whole) + 1))
        values = np.zeros((products, 2 * max(own_half, whole) + 4))
        row, in_order = np.empty(last_size), np.empty(2 * wider + 4, np.uint64)
        for n in range(2 * wider + 4):
            in_order[n] = n
        own_table = np.zeros((products, own_size + $lanes + 2 * max(own_stride, 1)))
        last_table = np.zeros((products, last_size + $lanes + 2 * max(last_stride, 1)))
        last_sizes = np.zeros(last_table.shape)
        evaluate(sigma, 0.0, own, -own_half, own_size, heads, of_orders, values)
        for k in range(products):
            laid(values[k], own_size, own_stride, own_table[k])
        evaluate(sigma, 0.0, last, -whole, 2 * whole + 1, heads, of_orders, values)
        for k in range(products):
            weighed(values[k], in_order, smooth, last_size, row)
            laid(row, last_size, last_stride, last_table[k])
            for n in range(2 * whole + 1):
                values[k, n] = abs(values[k, n])
            weighed(values[k], in_order, rough, last_size, row)
            laid(row, last_size, last_stride, last_sizes[k])
        n0 = int(reach[t] / steps[0]) if begin == 0 and end > 0 else 0
        put(0.0, totals[0, 0])
        put(0.0, totals[0, 1])
        for i0 in range(0 if half and begin == 0 else -n0, n0 + 1):
            left1 = max(reach[t] * reach[t] - (steps[0] * i0) ** 2, 0.0)
            n1 = int(math.sqrt(left1) / steps[1]) if end > 1 else 0
            put(0.0, totals[1, 0])
            put(0.0, totals[1, 1])
            for i1 in range(0 if half and begin == 1 else -n1, n1 + 1):
                left2 = max(left1 - (steps[1] * i1) ** 2, 0.0)
                n2 = int(math.sqrt(left2) / steps[2]) if end > 2 else 0
                count = 2 * n2 + 1
                mean = slopes[2, 0] * i0 + slopes[2, 1] * i1 - slopes[2, 2] * n2
                at, slope = mean / own + own_half, slopes[2, 2] / own
                size = own_size
                along(own_table, size, own_stride, at, slope, count, of_points, begins, C)
                mean = slopes[3, 0] * i0 + slopes[3, 1] * i1 - slopes[3, 2] * n2
                at, slope, size = mean / last + last_half, slopes[3, 2] / last, last_size
                by = last_stride
                along(last_table, size, by, at, slope, count, of_points, begins, G)
                along(last_sizes, size, by, at, slope, count, of_line, begins, A)
                for n in range(count):
                    of_row[n] = weights[2, centre - n2 + n]
                for k in range(counts[2]):
                    one, other = tree[2, k, 0], tree[3, tree[2, k, 1], 0]
                    found = joined(of_row[:count], C[one], G[other], A[other])
                    totals[2, 0, k], totals[2, 1, k] = found
                evaluate(sigma, slopes[1, 0] * i0, slopes[1, 1], i1, S.shape[1], heads, S, F)
                climb(tree[1], counts[1], weights[1, centre + i1], F, totals[2], totals[1])
            if begin == 0:
                evaluate(sigma, 0.0, slopes[0, 0], i0, S.shape[1], heads, S, F)
            climb(tree[0], counts[0], weights[0, centre + i0], F, totals[1], totals[0])
        copied(totals[0, 0], out[0, t])
        copied(totals[0, 1], out[1, t])
'''
