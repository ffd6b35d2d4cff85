"""Iterative orthogonalization: weights that keep a batch's representations nearly orthogonal.

    W_ℓ = V'_ℓ Σ_ℓ^{−1/2} U_ℓᵀ / |Σ_ℓ^{1/2}|,      H_ℓ = U_ℓ Σ_ℓ V_ℓᵀ   (source 003, eq. 6)

takes singular values σ_i to √(σ_i/Σσ), so the orthogonality gap falls unless they are all equal
(eq. 25). The paper calls a slice of V_ℓ orthogonal, which it is not; here V' is the orthogonal
matrix nearest to the slice, its polar factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from derive import activations
from derive.activations import Activation
from derive.citations import rests_on
from derive.errors import InputError, whole

from .batchnorm import kernels
from .ensemble import checked_inputs
from .weights import Array

SMALLEST = 1e-12
"""σ_n/σ_1 below which a batch does not fix the weights."""


@dataclass(frozen=True, eq=False)
class Initialization:
    """Weights layer by layer, each n_out × n_in, and V before and after each of them."""

    weights: tuple[Array, ...]
    before: Array
    after: Array


@rests_on("daneshmand2021")
def orthogonalize(
    inputs: ArrayLike,
    widths: Sequence[int],
    activation: Activation = activations.linear,
    gain: float = 1.0,
) -> Initialization:
    """Weights of a network without batch normalization, by eq. (6), for a given batch.

    Arguments:
        inputs: (n, n_0), one row for each sample.
        widths: n_1, …, n_L.
        activation: applied after every layer's weights.
        gain: multiplies eq. (6), which by itself gives |W H| = 1.

    Raises InputError where a layer's representations do not have full rank min(n, n_ℓ), and for
    other arguments that can't be used.
    """
    H = checked_inputs(inputs).T
    sizes = [whole("widths", width, 1) for width in widths]
    if not sizes:
        raise InputError("widths", widths, "at least one width")
    if not (np.isfinite(gain) and gain > 0):
        raise InputError("gain", gain, "a positive number")
    activate = kernels(activations.as_activation(activation)).activate
    found, before, after = [], [], []
    for layer, width in enumerate(sizes, start=1):
        W = gain * orthogonalizing_weights(H, width, layer)
        before.append(orthogonality_gap(H))
        H = W @ H
        after.append(orthogonality_gap(H))
        found.append(W)
        activate(H)
    return Initialization(tuple(found), np.array(before), np.array(after))


def orthogonalizing_weights(H: Array, width: int, layer: int = 1) -> Array:
    """W of eq. (6), width × n_in, for representations H (n_in × n)."""
    U, sigma, Vt = np.linalg.svd(H, full_matrices=False)
    if not sigma[-1] > SMALLEST * sigma[0]:
        wanted = f"representations of full rank {sigma.size} at layer {layer}"
        raise InputError("inputs", f"singular values from {sigma[0]:g} to {sigma[-1]:g}", wanted)
    frame = _nearest_frame(Vt.T, width)
    return np.asarray((frame / np.sqrt(sigma)) @ U.T / np.sqrt(sigma.sum()))


def orthogonality_gap(H: Array) -> float:
    """V of eq. (2), for H (features × samples).

    From the smaller of HᵀH and HHᵀ: the other has n − n_in more eigenvalues, all 0.
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


def orthogonalize_torch(
    layers: Iterable[Any], inputs: Any, activation: Callable[[Any], Any]
) -> list[tuple[float, float]]:
    """The same for PyTorch: sets each layer's weight in place, its bias to 0.

    Arguments:
        layers: torch.nn.Linear modules, first to last.
        inputs: a tensor (n, n_0).
        activation: the function between them, such as torch.relu.

    Returns V before and after each layer. Needs PyTorch, which the package itself does not.
    """
    import torch  # noqa: PLC0415

    H = inputs.detach()
    gaps = []
    with torch.no_grad():
        for number, layer in enumerate(layers, start=1):
            representations = H.double().cpu().numpy().T
            W = orthogonalizing_weights(representations, layer.weight.shape[0], number)
            gaps.append(
                (orthogonality_gap(representations), orthogonality_gap(W @ representations))
            )
            layer.weight.copy_(torch.from_numpy(W).to(layer.weight))
            if layer.bias is not None:
                layer.bias.zero_()
            H = activation(layer(H))
    return gaps
