"""The latent variables of several positions, z = B y, as source for written modules."""

from __future__ import annotations

FACTORISE_SOURCE = '''\
@driver
def factorise(K):
    """Positions z = B y for independent normal y, by Cholesky's method with pivots.

    Returns order (row k of B belongs to position order[k]), B with its columns from `rank` on zero,
    and rank, which is -1 where K is not finite or a variance is negative.
    """
    d = K.shape[0]
    order = np.arange(d)
    B = np.zeros((d, d))
    scale = np.empty(d)
    for k in range(d):
        if not 0.0 <= K[k, k] < math.inf:
            return order, B, -1
        scale[k] = math.sqrt(K[k, k])
    left = np.zeros((d, d))
    for k in range(d):
        for j in range(d):
            if not math.isfinite(K[k, j]):
                return order, B, -1
            if scale[k] > 0.0 and scale[j] > 0.0:
                left[k, j] = K[k, j] / scale[k] / scale[j]
    rank = 0
    for level in range(d):
        best = level
        for k in range(level + 1, d):
            if left[order[k], order[k]] > left[order[best], order[best]] + 1e-9:
                best = k
        pivot = order[best]
        if left[pivot, pivot] <= 1e-13:
            break
        order[best] = order[level]
        order[level] = pivot
        for j in range(level):
            swapped = B[best, j]
            B[best, j] = B[level, j]
            B[level, j] = swapped
        root = math.sqrt(left[pivot, pivot])
        for k in range(level, d):
            B[k, level] = left[order[k], pivot] / root
        B[level, level] = root
        for k in range(level + 1, d):
            for j in range(level + 1, d):
                left[order[k], order[j]] -= B[k, level] * B[j, level]
        rank += 1
    for k in range(d):
        for j in range(rank):
            B[k, j] *= scale[order[k]]
    return order, B, rank
'''
"""The latent variables of several positions."""

INVERSE_SOURCE = '''\
@driver
def inverse(order, B, rank):
    """M with M M^T the pseudo-inverse of K = B B^T: the basis of B's range dual to its columns."""
    d = B.shape[0]
    Q = B.copy()
    R = np.zeros((d, d))
    for c in range(rank):
        for b in range(c):
            for k in range(d):
                R[b, c] += Q[k, b] * Q[k, c]
            for k in range(d):
                Q[k, c] -= R[b, c] * Q[k, b]
        R[c, c] = math.sqrt((Q[:, c] ** 2).sum())
        for k in range(d):
            Q[k, c] /= R[c, c]
    M = np.zeros((d, d))
    for c in range(rank - 1, -1, -1):
        for k in range(d):
            value = Q[k, c]
            for b in range(c + 1, rank):
                value -= R[c, b] * M[order[k], b]
            M[order[k], c] = value / R[c, c]
    return M
'''
"""The pseudo-inverse behind Hermite's polynomials of several positions."""
