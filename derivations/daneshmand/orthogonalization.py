"""Iterative orthogonalization: weights that keep a batch's representations nearly orthogonal.

    W_ℓ = V'_ℓ Σ_ℓ^{−1/2} U_ℓᵀ / |Σ_ℓ^{1/2}|,      H_ℓ = U_ℓ Σ_ℓ V_ℓᵀ   (source 003, eq. 6)

takes singular values σ_i to √(σ_i/Σσ), so the orthogonality gap falls unless they are all equal
(eq. 25). The paper calls a slice of V_ℓ orthogonal, which it is not; here V' is the orthogonal
matrix nearest to the slice, its polar factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from derivations.daneshmand.chains import kernels
from derive import activations
from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.errors import InputError
from numeric.arrays import Array
from numeric.checks import checked_inputs

SMALLEST = 1e-12
"""σ_n/σ_1 below which a batch does not fix the weights."""


@dataclass(frozen=True, eq=False)
class Initialization:
    """Weights layer by layer, and what they do to the orthogonality gap.

    Attributes:
        weights: of each layer, n_out × n_in.
        before: V before each layer's weights, (layers,).
        after: V after them, (layers,).
    """

    weights: tuple[Array, ...]
    before: Array
    after: Array


@rests_on("daneshmand2021")
def orthogonalize(
    inputs: ArrayLike,
    widths: Sequence[int],
    activation: Activation = activations.linear,
) -> Initialization:
    """Weights of a network without batch normalization, by source 003, eq. (6), for a given batch.

    `inputs` is (n, n_0), a row for each sample; `widths` are n_1, …, n_L; the activation follows
    each layer's weights. Raises InputError where a layer's representations do not have full rank
    min(n, n_ℓ).

    >>> made = orthogonalize(np.eye(4) + 0.9, widths=[8, 8])
    >>> [W.shape for W in made.weights], bool((made.after < made.before).all())
    ([(8, 4), (8, 8)], True)
    """
    H = checked_inputs(inputs).X.T
    activate = kernels(activation).activate
    found, before, after = [], [], []
    for layer, width in enumerate(widths, start=1):
        W = orthogonalizing_weights(H, width, layer)
        before.append(orthogonality_gap(H))
        H = W @ H
        after.append(orthogonality_gap(H))
        found.append(W)
        activate(H)
    return Initialization(tuple(found), np.array(before), np.array(after))


def orthogonalizing_weights(H: Array, width: int, layer: int = 1) -> Array:
    """W of source 003, eq. (6), of width × n_in, with |W H| = 1.

    H is n_in × n, and an error tells the layer. Raises InputError without full rank.

    >>> W = orthogonalizing_weights(np.diag([4.0, 1.0]), width=2)
    >>> (W @ np.diag([4.0, 1.0])).round(4)  # singular values √(σ_i/Σσ)
    array([[0.8944, 0.    ],
           [0.    , 0.4472]])
    """
    U, sigma, Vt = np.linalg.svd(H, full_matrices=False)
    if not sigma[-1] > SMALLEST * sigma[0]:
        wanted = f"representations of full rank {sigma.size} at layer {layer}"
        raise InputError("inputs", f"singular values from {sigma[0]:g} to {sigma[-1]:g}", wanted)
    frame = _nearest_frame(Vt.T, width)
    return np.asarray((frame / np.sqrt(sigma)) @ U.T / np.sqrt(sigma.sum()))


def orthogonality_gap(H: Array) -> float:
    """V of source 003, eq. (2), for H (features × samples): |HᵀH/tr HᵀH − 1/n|, 0 ≤ V < 1.

    From the smaller of HᵀH and HHᵀ: the other has n − n_in more eigenvalues, all 0.

    >>> orthogonality_gap(np.eye(3)), round(orthogonality_gap(np.ones((3, 2))), 9)
    (0.0, 0.707106781)
    """
    features, n = H.shape
    gram = H.T @ H if n <= features else H @ H.T
    size = len(gram)
    near = np.linalg.norm(gram / np.trace(gram) - np.eye(size) / n) ** 2
    return float(np.sqrt(near + (n - size) / n**2))


def _nearest_frame(V: Array, width: int) -> Array:
    """The width × r matrix with orthonormal columns (rows, if width < r) nearest to V's first
    `width` rows, continued by unit rows where V has fewer."""
    count, rank = V.shape
    slice_ = V[:width]
    if count < width:
        slice_ = np.vstack([slice_, np.eye(width - count, rank)])
    left, _, right = np.linalg.svd(slice_, full_matrices=False)
    return np.asarray(left @ right)
