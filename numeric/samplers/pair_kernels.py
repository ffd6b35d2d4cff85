"""The kernels of `pairs`: products of two tangent kernels, carried along forward paths.

A matrix of two labels is a row of `SQUARE` numbers, whatever the number of inputs is: sums and
coefficients with labels beyond it are zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from ..emit.jit import driver, reduction
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
        out: (draws, rows), zeros.
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
                    out[s, row[k]] += sum_of(A[k])
                whole = high - (high - low) % 4
                for b in range(low, whole, 4):
                    sums = four_dots(A[k], B[b : b + 4])
                    for i in range(4):
                        out[s, row[k] + place[0, b + i]] += sums[i]
                for b in range(whole, high):
                    out[s, row[k] + place[0, b]] += dot(A[k], B[b])
        for k in range(parent.size):
            if even[k]:
                for b in range(squares):
                    out[s, row[k] + place[1, b]] = out[s, row[k] + place[0, b]]


@driver
def _product(x: Array, y: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] * y[i]


@driver
def _left_64(M: Array, x: Array, out: Array) -> None:
    """out[a, k] ← Σ_b M[a, b] x[b, k], 64 of k."""
    for a in range(LABELS):
        m0, m1, m2, m3 = M[4 * a], M[4 * a + 1], M[4 * a + 2], M[4 * a + 3]
        to = out[64 * a : 64 * a + 64]
        for k in range(64):
            to[k] = m0 * x[k] + m1 * x[64 + k] + m2 * x[128 + k] + m3 * x[192 + k]


@driver
def _left_16(M: Array, x: Array, out: Array) -> None:
    """out[i, a, k] ← Σ_b M[a, b] x[i, b, k], 4 of i, 16 of k."""
    for i in range(LABELS):
        y = x[64 * i : 64 * i + 64]
        for a in range(LABELS):
            m0, m1, m2, m3 = M[4 * a], M[4 * a + 1], M[4 * a + 2], M[4 * a + 3]
            to = out[64 * i + 16 * a : 64 * i + 16 * a + 16]
            for k in range(16):
                to[k] = m0 * y[k] + m1 * y[16 + k] + m2 * y[32 + k] + m3 * y[48 + k]


@driver
def _transpose(x: Array, out: Array) -> None:
    for k in range(SQUARE):
        for other in range(SQUARE):
            out[SQUARE * other + k] = x[SQUARE * k + other]


@driver
def _exchange(x: Array, last: bool, out: Array) -> None:
    """out[a, c, b, d] ← x[a, b, c, d], or out[a, d, b, c] if `last`."""
    for a in range(LABELS):
        for b in range(LABELS):
            for c in range(LABELS):
                for d in range(LABELS):
                    e, f = (d, c) if last else (c, d)
                    out[64 * a + 16 * e + 4 * b + f] = x[64 * a + 16 * b + 4 * c + d]


@driver
def _exchange_back(x: Array, last: bool, out: Array) -> None:
    """out[a, b, c, d] += x[a, c, b, d], or x[a, d, b, c] if `last`."""
    for a in range(LABELS):
        for b in range(LABELS):
            for c in range(LABELS):
                for d in range(LABELS):
                    e, f = (d, c) if last else (c, d)
                    out[64 * a + 16 * b + 4 * c + d] += x[64 * a + 16 * e + 4 * b + f]


@driver
def _add(factor: float, x: Array, out: Array) -> None:
    """out ← out + factor x."""
    for k in range(SQUARE):
        out[k] += factor * x[k]


@reduction
def _inner(x: Array, y: Array) -> float:
    """Σ x y."""
    total = 0.0
    for k in range(SQUARE):
        total += x[k] * y[k]
    return total


@driver
def _first_paired(G: Array, x: Array, out: Array) -> None:
    """out_l ← Σ_k G_k x_kl."""
    for k in range(SQUARE):
        out[k] = 0.0
    for k in range(SQUARE):
        _add(G[k], x[SQUARE * k : SQUARE * k + SQUARE], out)


@driver
def _last_paired(G: Array, x: Array, out: Array) -> None:
    """out_k ← Σ_l x_kl G_l."""
    for k in range(SQUARE):
        out[k] = _inner(x[SQUARE * k : SQUARE * k + SQUARE], G)


@driver
def _put_outer(N: Array, y: Array, z: Array, M: Array, out: Array) -> None:
    """out_kl ← N_k y_l + z_k M_l."""
    for k in range(SQUARE):
        n, w, to = N[k], z[k], out[SQUARE * k : SQUARE * k + SQUARE]
        for other in range(SQUARE):
            to[other] = n * y[other] + w * M[other]


@driver
def _sandwich(left: Array, x: Array, right: Array, out: Array) -> None:
    """out ← left x rightᵀ for matrices of labels."""
    for a in range(LABELS):
        m0, m1, m2, m3 = left[4 * a], left[4 * a + 1], left[4 * a + 2], left[4 * a + 3]
        y0 = m0 * x[0] + m1 * x[4] + m2 * x[8] + m3 * x[12]
        y1 = m0 * x[1] + m1 * x[5] + m2 * x[9] + m3 * x[13]
        y2 = m0 * x[2] + m1 * x[6] + m2 * x[10] + m3 * x[14]
        y3 = m0 * x[3] + m1 * x[7] + m2 * x[11] + m3 * x[15]
        for b in range(LABELS):
            n0, n1, n2, n3 = right[4 * b], right[4 * b + 1], right[4 * b + 2], right[4 * b + 3]
            out[4 * a + b] = y0 * n0 + y1 * n1 + y2 * n2 + y3 * n3


@driver
def first_moments(
    S: Array, pairs: Table, h: Array, g: Array, rules: Array, u: Array, after: Array
) -> None:
    """u = Σ_j (σ' H σ')_jj, and E[H | path] of the next layer.

    Arguments:
        S: sums over neurons, (draws, rows).
        pairs: for each pair of samples: the rows of S of the pair, of the one, of the other.
        h: (draws, pairs, 1 + SQUARE), E[H | path] = h_0 δ + Σ h_ab f_a f_b.
        g: λ_b + λ_W σ·σ/n_in, (draws, pairs).
        rules: of `second_moments`.
        u, after: u (draws, pairs), and what comes of h.
    """
    T = np.empty(SQUARE)
    for s in range(S.shape[0]):
        for p in range(pairs.shape[0]):
            pair, one, other = pairs[p, 0], pairs[p, 1], pairs[p, 2]
            start, two = h[s, p, 0], h[s, p, 1:]
            total = S[s, pair] * start + _inner(S[s, pair + 1 + SQUARE :], two)
            _sandwich(S[s, one:], two, S[s, other:], T)
            _add(start, S[s, pair + 1 :], T)
            u[s, p] = total
            for a in range(LABELS):
                total -= T[5 * a]
            after[s, p, 0] = g[s, p] + rules[s, 0] * total
            for k in range(SQUARE):
                after[s, p, 1 + k] = T[k]
            for a in range(LABELS):
                after[s, p, 1 + 5 * a] += rules[s, 1 + a] * total


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
        S: sums over neurons, (draws, rows).
        where: for each class, the rows of S: of the four samples, the six pairs, the four triples
            without one, and all; then the numbers of its two pairs. The slots of the six pairs of
            slots, the strides of c_abcd along these and along the two others, and where pairs
            `meet`: of pair, side and one of its two slots, which pair this makes with the slot
            `side` of the two others, doubled; and 1 where the labels of what is left begin with
            the others'.
        firsts: g, (draws, pairs), and E[H | path] of the next layer, (draws, pairs, 1 + SQUARE).
        rules: (draws, rows): for one pair, and twice for two, where the pairing of the other side
            is the same and where it is another: of δ or δδ, f_a f_a (δ), f_a f_a f_b f_b.
        c: (draws, classes, STATE).
        v: (draws, classes, 3).
        last: leave c as it is.
    """
    classes, ends, strides, meets = where
    g, h = firsts
    X, Y, T = np.empty((3, SQUARE * SQUARE)), np.empty((3, SQUARE * SQUARE)), np.empty(SQUARE**2)
    x, y, U = np.empty((6, SQUARE)), np.empty((6, SQUARE)), np.empty((6, SQUARE))
    room, inner = np.empty(SQUARE), np.empty(6)
    for s in range(S.shape[0]):
        sums = S[s]
        for each in range(classes.shape[0]):
            row, state, quad = classes[each], c[s, each], classes[each, 14]
            four = state[3 + 6 * SQUARE :]
            for q in range(1, 3):
                _exchange(four, q == 2, X[q])
            for k in range(SQUARE * SQUARE):
                X[0, k] = four[k]
            J, across = sums[quad + 1 + SQUARE :], 0.0
            for pair in range(6):
                G = sums[row[4 + pair] + 1 + SQUARE :]
                if pair % 2:
                    _last_paired(G, X[pair // 2], x[pair])
                else:
                    _first_paired(G, X[pair // 2], x[pair])
                inner[pair] = _inner(J, state[3 + pair * SQUARE :])
                across += inner[pair]
            for q in range(3):
                left, right = row[4 + 2 * q], row[5 + 2 * q]
                total = sums[left] * sums[right] * state[q] + across
                total += _inner(sums[right + 1 + SQUARE :], x[2 * q])
                for pair, joined, other in ((2 * q, left, right), (2 * q + 1, right, left)):
                    met = _inner(sums[other + 1 + SQUARE :], state[3 + pair * SQUARE :])
                    total += sums[joined] * met - inner[pair]
                    inner[pair] = met  # G·c, of the pair beside this one
                for other in range(3):
                    if other != q:
                        total += sums[quad] * state[other]
                v[s, each, q] = total
            if last:
                continue
            for pair in range(6):
                joined, others, q = row[4 + pair], row[4 + (pair ^ 1)], pair // 2
                first, second = ends[pair ^ 1, 0], ends[pair ^ 1, 1]
                one, other, N = sums[row[first] :], sums[row[second] :], sums[others + 1 :]
                _sandwich(one, state[3 + pair * SQUARE :], other, y[pair])
                _sandwich(one, x[pair], other, U[pair])
                _add(sums[joined], y[pair], U[pair])
                _add(inner[pair ^ 1] + sums[joined] * state[q], N, U[pair])
                _add(state[0] + state[1] + state[2] - state[q], sums[quad + 1 :], U[pair])
                _add(0.5 * state[q], N, y[pair])
                for side in range(2):
                    alone = ends[pair ^ 1, 1 - side]
                    for k in range(SQUARE):
                        room[k] = 0.0
                    for of in range(2):
                        k = 4 * pair + 2 * side + of
                        _add_ends(state[3 + meets[k] // 2 * SQUARE :], meets[k] % 2, room)
                    triple = sums[row[10 + alone] :]
                    if side == 0:
                        _sandwich(triple, room, sums[row[alone] :], T)
                        _add(1.0, T, U[pair])
                    else:
                        _sandwich(sums[row[alone] :], _turned(room, T), triple, T[SQUARE:])
                        _add(1.0, T[SQUARE:], U[pair])
            for q in range(3):
                N, other = sums[row[4 + 2 * q] + 1 :], sums[row[5 + 2 * q] + 1 :]
                _put_outer(N, y[2 * q], y[2 * q + 1], other, Y[q])
            _left_64(sums[row[0] :], X[0], T)
            _left_16(sums[row[1] :], T, X[0])
            _transpose(X[0], T)
            _left_64(sums[row[2] :], T, X[0])
            _left_16(sums[row[3] :], X[0], T)
            _transpose(T, X[0])
            for k in range(SQUARE * SQUARE):
                T[k] = X[0, k] + Y[0, k]
            for q in range(1, 3):
                _exchange_back(Y[q], q == 2, T)
            _assemble(T, U, v[s, each], rules[s], strides, Y[0], state)
            left, right = row[15], row[16]
            state[0] += g[s, left] * h[s, right, 0] + g[s, right] * h[s, left, 0]
            state[0] -= g[s, left] * g[s, right]
            _add(g[s, left], h[s, right, 1:], state[3:])
            _add(g[s, right], h[s, left, 1:], state[3 + SQUARE :])


@driver
def _turned(x: Array, out: Array) -> Array:
    for a in range(LABELS):
        for b in range(LABELS):
            out[4 * b + a] = x[4 * a + b]
    return out


@driver
def _add_ends(two: Array, turned: int, out: Array) -> None:
    """out ← out + c of δ, or its transpose."""
    if turned:
        for a in range(LABELS):
            for b in range(LABELS):
                out[4 * a + b] += two[4 * b + a]
    else:
        _add(1.0, two, out)


@driver
def _trace(T: Array, strides: Table, out: Array) -> None:
    """out ← out − Σ_a T with label a at two slots, by the strides of these and of the others."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for a in range(LABELS):
        for b in range(LABELS):
            total = 0.0
            for e in range(LABELS):
                total += T[e * (i + j) + a * one + b * other]
            out[4 * a + b] -= total


@driver
def _put_labels(U: Array, rules: Array, both: Array, strides: Table, out: Array) -> None:
    """out ← out + Σ_a δ_a U at a pair of slots, and `both` where the others have one label too."""
    i, j, one, other = strides[0], strides[1], strides[2], strides[3]
    for a in range(LABELS):
        factor = rules[1 + a]
        for e in range(LABELS):
            for f in range(LABELS):
                out[a * (i + j) + e * one + f * other] += factor * U[4 * e + f]
        for b in range(LABELS):
            out[a * (i + j) + b * (one + other)] += both[4 * a + b]


@driver
def _assemble(
    T: Array, U: Array, v: Array, rules: Array, strides: Table, room: Array, state: Array
) -> None:
    """c of the next layer: Σ ŝ ŝ taken out of every δ of U and v, and the weights averaged."""
    w0, w1, w2 = v[0], v[1], v[2]
    for a in range(LABELS):
        w0 -= U[0, 5 * a] + U[1, 5 * a]
        w1 -= U[2, 5 * a] + U[3, 5 * a]
        w2 -= U[4, 5 * a] + U[5, 5 * a]
        for b in range(LABELS):
            w0 += T[80 * a + 5 * b]
            w1 += T[68 * a + 17 * b]
            w2 += T[65 * a + 20 * b]
    for pair in range(6):
        _trace(T, strides[pair], U[pair])
    four, same, other = state[3 + 6 * SQUARE :], rules[5:], rules[26:]
    for k in range(SQUARE * SQUARE):
        four[k] = T[k]
    for q in range(3):
        w = w0 if q == 0 else w1 if q == 1 else w2
        rest = w0 + w1 + w2 - w
        state[q] = same[0] * w + other[0] * rest
        for k in range(SQUARE):
            room[SQUARE * q + k] = 0.5 * (same[5 + k] * w + other[5 + k] * rest)
        for pair in (2 * q, 2 * q + 1):
            two = state[3 + pair * SQUARE :]
            for e in range(SQUARE):
                two[e] = rules[0] * U[pair, e]
            for a in range(LABELS):
                two[5 * a] += same[1 + a] * w + other[1 + a] * rest
    for pair in range(6):
        _put_labels(U[pair], rules, room[pair // 2 * SQUARE :], strides[pair], four)
