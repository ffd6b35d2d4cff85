"""The kernels of `pairs`: products of two tangent kernels, carried along forward paths.

A matrix of two labels is `SQUARE` numbers, whatever the number of inputs is: sums and coefficients
with labels beyond it are zero. What is known of a network is a lane of arrays (groups, …, LANES),
whose steps are those of `vectors`: each kernel below `sum_products` sees one group of networks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver
from ..emit.vectors import LANES, Vector, all_lanes, load_row, store_row
from ..random.lazy import dot, four_dots, sum_of

LABELS = 4
SQUARE = 16
"""Numbers in a matrix of two labels."""

STATE = 3 + 6 * SQUARE + SQUARE * SQUARE
"""Numbers in the average of a product: c_p, c_{kl;ab} and c_abcd."""

NEURONS = 128
"""Neurons whose products are held at a time."""

Table = NDArray[np.int64]


@driver
def sum_products(
    columns: Array, first: tuple[int, int, int], products: tuple[Table, Table, Table], out: Array
) -> None:
    """Sums over neurons of Π σ' of 1 … 4 samples, alone, with ŝ ŝ, f f or ŝ f.

    Arguments:
        columns: (draws, columns, n), as in `path_kernels`.
        first: the columns of the first input's σ', and of its next input's less this; of f.
        products: of σ': product k is product parent[k], or 1 for −1, times input[k]; its sums begin
            at row[k]: (1, ŝ ŝ, f f) of two and four samples, ŝ f of one and three.
        out: (groups, rows, LANES), zeros.
    """
    parent, sample, row = products
    slopes, step, at = first
    m = (columns.shape[1] - at) // 2
    squares = m * (m + 1)
    n = columns.shape[2]
    blocks = -(-n // NEURONS)
    width = -(-n // blocks)
    A, B = np.empty((parent.size, width)), np.empty((squares + m * m, width))
    even, place = np.empty(parent.size, np.int64), np.empty((2, squares + m * m), np.int64)
    for k in range(parent.size):
        even[k] = 1 - even[parent[k]] if parent[k] >= 0 else 0
    b = 0
    for kind in range(2):
        for p in range(m):
            for q in range(p + 1):
                place[0, b] = 1 + SQUARE * kind + LABELS * p + q
                place[1, b] = 1 + SQUARE * kind + LABELS * q + p
                b += 1
    for p in range(m):
        for q in range(m):
            place[0, b] = place[1, b] = LABELS * p + q
            b += 1
    for s in range(columns.shape[0]):
        to = out[s // LANES, :, s % LANES]
        for start in range(0, n, width):
            stop = min(start + width, n)
            size = stop - start
            A[:, size:], B[:, size:] = 0.0, 0.0
            b = 0
            for kind in range(2):
                base = at + m * (1 - kind)
                for p in range(m):
                    for q in range(p + 1):
                        left, right = columns[s, base + p, start:stop], columns[s, base + q]
                        _product(left, right[start:stop], B[b])
                        b += 1
            for p in range(m):
                for q in range(m):
                    left, right = columns[s, at + m + p, start:stop], columns[s, at + q]
                    _product(left, right[start:stop], B[b])
                    b += 1
            for k in range(parent.size):
                slope = columns[s, slopes + step * sample[k], start:stop]
                left = A[parent[k], :size] if parent[k] >= 0 else columns[s, 0, start:stop]
                _product(slope, left, A[k])
                low, high = (0, squares) if even[k] else (squares, squares + m * m)
                if even[k]:
                    to[row[k]] += sum_of(A[k])
                whole = high - (high - low) % 4
                for b in range(low, whole, 4):
                    sums = four_dots(A[k], B[b : b + 4])
                    for i in range(4):
                        to[row[k] + place[0, b + i]] += sums[i]
                for b in range(whole, high):
                    to[row[k] + place[0, b]] += dot(A[k], B[b])
        for k in range(parent.size):
            if even[k]:
                for b in range(squares):
                    to[row[k] + place[1, b]] = to[row[k] + place[0, b]]


@driver
def _product(x: Array, y: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] * y[i]


@driver
def _at_slot(M: Array, stride: int, x: Array, out: Array) -> None:
    """out_…a… ← Σ_b M_ab x_…b…, at the slot with this stride."""
    for a in range(0, LABELS, 2):
        m0, m1, m2, m3 = (
            load_row(M, 4 * a),
            load_row(M, 4 * a + 1),
            load_row(M, 4 * a + 2),
            load_row(M, 4 * a + 3),
        )
        n0, n1, n2, n3 = (
            load_row(M, 4 * a + 4),
            load_row(M, 4 * a + 5),
            load_row(M, 4 * a + 6),
            load_row(M, 4 * a + 7),
        )
        for high in range(0, SQUARE * SQUARE, LABELS * stride):
            for k in range(high, high + stride):
                x0, x1 = load_row(x, k), load_row(x, k + stride)
                x2, x3 = load_row(x, k + 2 * stride), load_row(x, k + 3 * stride)
                store_row(out, k + a * stride, m0 * x0 + m1 * x1 + m2 * x2 + m3 * x3)
                store_row(out, k + (a + 1) * stride, n0 * x0 + n1 * x1 + n2 * x2 + n3 * x3)


@driver
def _paired(G: Array, x: Array, strides: Table, out: Array) -> None:
    """out_ef ← Σ_ab G_ab x, with a, b at two slots and e, f at the others."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for e in range(LABELS):
        y0 = y1 = y2 = y3 = all_lanes(0.0)
        for a in range(LABELS):
            for b in range(LABELS):
                m, k = load_row(G, 4 * a + b), a * i + b * j + e * one
                y0 = y0 + m * load_row(x, k)
                y1 = y1 + m * load_row(x, k + other)
                y2 = y2 + m * load_row(x, k + 2 * other)
                y3 = y3 + m * load_row(x, k + 3 * other)
        store_row(out, 4 * e, y0)
        store_row(out, 4 * e + 1, y1)
        store_row(out, 4 * e + 2, y2)
        store_row(out, 4 * e + 3, y3)


@driver
def _add_outer(N: Array, y: Array, z: Array, M: Array, strides: Table, out: Array) -> None:
    """out ← out + N_ab y_ef + z_ab M_ef, with a, b at two slots and e, f at the others."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for a in range(LABELS):
        for b in range(LABELS):
            n, w = load_row(N, 4 * a + b), load_row(z, 4 * a + b)
            for e in range(LABELS):
                for f in range(LABELS):
                    k = a * i + b * j + e * one + f * other
                    added = n * load_row(y, 4 * e + f) + w * load_row(M, 4 * e + f)
                    store_row(out, k, load_row(out, k) + added)


@driver
def _add(factor: Vector, x: Array, out: Array) -> None:
    """out ← out + factor x."""
    for k in range(SQUARE):
        store_row(out, k, load_row(out, k) + factor * load_row(x, k))


@driver
def _inner(x: Array, y: Array) -> Vector:
    """Σ x y."""
    t0 = t1 = t2 = t3 = all_lanes(0.0)
    for k in range(0, SQUARE, 4):
        t0 = t0 + load_row(x, k) * load_row(y, k)
        t1 = t1 + load_row(x, k + 1) * load_row(y, k + 1)
        t2 = t2 + load_row(x, k + 2) * load_row(y, k + 2)
        t3 = t3 + load_row(x, k + 3) * load_row(y, k + 3)
    return (t0 + t1) + (t2 + t3)


@driver
def _add_sandwich(left: Array, x: Array, right: Array, out: Array) -> None:
    """out ← out + left x rightᵀ for matrices of labels."""
    for a in range(LABELS):
        y0 = y1 = y2 = y3 = all_lanes(0.0)
        for k in range(LABELS):
            m = load_row(left, 4 * a + k)
            y0 = y0 + m * load_row(x, 4 * k)
            y1 = y1 + m * load_row(x, 4 * k + 1)
            y2 = y2 + m * load_row(x, 4 * k + 2)
            y3 = y3 + m * load_row(x, 4 * k + 3)
        for b in range(LABELS):
            low = y0 * load_row(right, 4 * b) + y1 * load_row(right, 4 * b + 1)
            high = y2 * load_row(right, 4 * b + 2) + y3 * load_row(right, 4 * b + 3)
            store_row(out, 4 * a + b, load_row(out, 4 * a + b) + (low + high))


@driver
def _clear(out: Array) -> None:
    for k in range(SQUARE):
        store_row(out, k, all_lanes(0.0))


@driver
def first_moments(
    S: Array, pairs: Table, h: Array, g: Array, rules: Array, u: Array, after: Array
) -> None:
    """u = Σ_j (σ' H σ')_jj, and E[H | path] of the next layer.

    Arguments:
        S: sums over neurons, (groups, rows, LANES).
        pairs: for each pair of samples: the rows of S of the pair, of the one, of the other.
        h: (groups, pairs, 1 + SQUARE, LANES), E[H | path] = h_0 δ + Σ h_ab f_a f_b.
        g: λ_b + λ_W σ·σ/n_in, (groups, pairs, LANES).
        rules: of `second_moments`.
        u, after: u (groups, pairs, LANES), and what comes of h.
    """
    for s in range(S.shape[0]):
        for p in range(pairs.shape[0]):
            pair, one, other = pairs[p, 0], pairs[p, 1], pairs[p, 2]
            start, two, T = load_row(h[s, p], 0), h[s, p, 1:], after[s, p, 1:]
            total = load_row(S[s], pair) * start + _inner(S[s, pair + 1 + SQUARE :], two)
            _clear(T)
            _add_sandwich(S[s, one:], two, S[s, other:], T)
            _add(start, S[s, pair + 1 :], T)
            store_row(u[s], p, total)
            for a in range(LABELS):
                total = total - load_row(T, 5 * a)
            store_row(after[s, p], 0, load_row(g[s], p) + load_row(rules[s], 0) * total)
            for a in range(LABELS):
                store_row(T, 5 * a, load_row(T, 5 * a) + load_row(rules[s], 1 + a) * total)


@driver
def second_moments(
    S: Array,
    where: tuple[Table, Table, Table, Table],
    firsts: tuple[Array, Array],
    rules: Array,
    c: Array,
    v: Array,
    last: bool,
) -> None:
    """v = Σ_i δ_q(i) (σ' H σ')(σ' H σ') for the three q, and c of the next layer, in place.

    Arguments:
        S: sums over neurons, (groups, rows, LANES).
        where: for each class, the rows of S: of the four samples, the six pairs, the four triples
            without one, and all; then the numbers of its two pairs. The slots of the six pairs of
            slots, the strides of c_abcd along these and along the two others, and where pairs
            `meet`: of pair, side and one of its two slots, which pair this makes with the slot
            `side` of the two others, doubled; and 1 where the labels of what is left begin with
            the others'.
        firsts: g, (groups, pairs, LANES), and E[H | path] of the next layer, (groups, pairs,
            1 + SQUARE, LANES).
        rules: (groups, rows, LANES): for one pair, and twice for two, where the pairing of the
            other side is the same and where it is another: of δ or δδ, f_a f_a (δ), f_a f_a f_b
            f_b.
        c: (groups, classes, STATE, LANES).
        v: (groups, classes, 3, LANES).
        last: leave c as it is.
    """
    classes, ends, strides, meets = where
    g, h = firsts
    X, T = np.empty((SQUARE * SQUARE, LANES)), np.empty((SQUARE * SQUARE, LANES))
    x, y = np.empty((6, SQUARE, LANES)), np.empty((6, SQUARE, LANES))
    U, room, inner = np.empty((6, SQUARE, LANES)), np.empty((SQUARE, LANES)), np.empty((6, LANES))
    for s in range(S.shape[0]):
        sums = S[s]
        for each in range(classes.shape[0]):
            row, state, quad = classes[each], c[s, each], classes[each, 14]
            four, found = state[3 + 6 * SQUARE :], v[s, each]
            J, across = sums[quad + 1 + SQUARE :], all_lanes(0.0)
            for pair in range(6):
                # the other pair's slots stay: x of a pair has the labels of the one beside it
                _paired(sums[row[4 + pair] + 1 + SQUARE :], four, strides[pair], x[pair])
                met = _inner(J, state[3 + pair * SQUARE :])
                store_row(inner, pair, met)
                across = across + met
            for q in range(3):
                left, right = row[4 + 2 * q], row[5 + 2 * q]
                total = load_row(sums, left) * load_row(sums, right) * load_row(state, q) + across
                total = total + _inner(sums[right + 1 + SQUARE :], x[2 * q])
                for pair, joined, other in ((2 * q, left, right), (2 * q + 1, right, left)):
                    met = _inner(sums[other + 1 + SQUARE :], state[3 + pair * SQUARE :])
                    total = total + (load_row(sums, joined) * met - load_row(inner, pair))
                    store_row(inner, pair, met)  # G·c, of the pair beside this one
                for other in range(3):
                    if other != q:
                        total = total + load_row(sums, quad) * load_row(state, other)
                store_row(found, q, total)
            if last:
                continue
            three = load_row(state, 0) + load_row(state, 1) + load_row(state, 2)
            for pair in range(6):
                joined, others, own = row[4 + pair], row[4 + (pair ^ 1)], load_row(state, pair // 2)
                first, second = ends[pair ^ 1, 0], ends[pair ^ 1, 1]
                one, other, N = sums[row[first] :], sums[row[second] :], sums[others + 1 :]
                _clear(y[pair])
                _clear(U[pair])
                _add_sandwich(one, state[3 + pair * SQUARE :], other, y[pair])
                _add_sandwich(one, x[pair], other, U[pair])
                _add(load_row(sums, joined), y[pair], U[pair])
                _add(load_row(inner, pair ^ 1) + load_row(sums, joined) * own, N, U[pair])
                _add(three - own, sums[quad + 1 :], U[pair])
                _add(all_lanes(0.5) * own, N, y[pair])
                for side in range(2):
                    alone = ends[pair ^ 1, 1 - side]
                    _clear(room)
                    for of in range(2):
                        k = 4 * pair + 2 * side + of
                        turned = meets[k] % 2 != side
                        _add_ends(state[3 + meets[k] // 2 * SQUARE :], turned, room)
                    triple = sums[row[10 + alone] :]
                    if side == 0:
                        _add_sandwich(triple, room, sums[row[alone] :], U[pair])
                    else:
                        _add_sandwich(sums[row[alone] :], room, triple, U[pair])
            _at_slot(sums[row[0] :], 64, four, X)
            _at_slot(sums[row[1] :], 16, X, T)
            _at_slot(sums[row[2] :], 4, T, X)
            _at_slot(sums[row[3] :], 1, X, T)
            for q in range(3):
                N, other = sums[row[4 + 2 * q] + 1 :], sums[row[5 + 2 * q] + 1 :]
                _add_outer(N, y[2 * q], y[2 * q + 1], other, strides[2 * q], T)
            _assemble(T, U, found, rules[s], strides, room, state)
            left, right = row[15], row[16]
            one, other = load_row(g[s], left), load_row(g[s], right)
            added = one * load_row(h[s, right], 0) + other * load_row(h[s, left], 0) - one * other
            store_row(state, 0, load_row(state, 0) + added)
            _add(one, h[s, right, 1:], state[3:])
            _add(other, h[s, left, 1:], state[3 + SQUARE :])


@driver
def _add_ends(two: Array, turned: bool, out: Array) -> None:
    """out ← out + c of δ, or its transpose."""
    for a in range(LABELS):
        for b in range(LABELS):
            k = 4 * b + a if turned else 4 * a + b
            store_row(out, 4 * a + b, load_row(out, 4 * a + b) + load_row(two, k))


@driver
def _trace(T: Array, strides: Table, out: Array) -> None:
    """out ← out − Σ_a T with label a at two slots, by the strides of these and of the others."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for a in range(LABELS):
        for b in range(LABELS):
            k = a * one + b * other
            low = load_row(T, k) + load_row(T, k + i + j)
            high = load_row(T, k + 2 * (i + j)) + load_row(T, k + 3 * (i + j))
            store_row(out, 4 * a + b, load_row(out, 4 * a + b) - (low + high))


@driver
def _put_labels(U: Array, rules: Array, both: Array, strides: Table, out: Array) -> None:
    """out ← out + Σ_a δ_a U at a pair of slots, and `both` where the others have one label too."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for a in range(LABELS):
        factor = load_row(rules, 1 + a)
        for e in range(LABELS):
            for f in range(LABELS):
                k = a * (i + j) + e * one + f * other
                store_row(out, k, load_row(out, k) + factor * load_row(U, 4 * e + f))
        for b in range(LABELS):
            k = a * (i + j) + b * (one + other)
            store_row(out, k, load_row(out, k) + load_row(both, 4 * a + b))


@driver
def _assemble(
    T: Array, U: Array, v: Array, rules: Array, strides: Table, room: Array, state: Array
) -> None:
    """c of the next layer: Σ ŝ ŝ taken out of every δ of U and v, and the weights averaged."""
    w0, w1, w2 = load_row(v, 0), load_row(v, 1), load_row(v, 2)
    for a in range(LABELS):
        w0 = w0 - (load_row(U[0], 5 * a) + load_row(U[1], 5 * a))
        w1 = w1 - (load_row(U[2], 5 * a) + load_row(U[3], 5 * a))
        w2 = w2 - (load_row(U[4], 5 * a) + load_row(U[5], 5 * a))
        for b in range(LABELS):
            w0 = w0 + load_row(T, 80 * a + 5 * b)
            w1 = w1 + load_row(T, 68 * a + 17 * b)
            w2 = w2 + load_row(T, 65 * a + 20 * b)
    for pair in range(6):
        _trace(T, strides[pair], U[pair])
    four, same, other = state[3 + 6 * SQUARE :], rules[5:], rules[26:]
    for k in range(SQUARE * SQUARE):
        store_row(four, k, load_row(T, k))
    all_three = w0 + w1 + w2
    for q in range(3):
        w = w0 if q == 0 else w1 if q == 1 else w2
        rest = all_three - w
        store_row(state, q, load_row(same, 0) * w + load_row(other, 0) * rest)
        for k in range(SQUARE):
            two = load_row(same, 5 + k) * w + load_row(other, 5 + k) * rest
            store_row(room, k, all_lanes(0.5) * two)
        for pair in (2 * q, 2 * q + 1):
            to = state[3 + pair * SQUARE :]
            for e in range(SQUARE):
                store_row(to, e, load_row(rules, 0) * load_row(U[pair], e))
            for a in range(LABELS):
                one = load_row(same, 1 + a) * w + load_row(other, 1 + a) * rest
                store_row(to, 5 * a, load_row(to, 5 * a) + one)
            _put_labels(U[pair], rules, room, strides[pair], four)
