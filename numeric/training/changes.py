"""What first changes a network as it descends, times its outputs: features of mean 0.

To second order in η outputs move by Δw·Δs_a, where the readout w moves along the s_c that it meets,
and s_a by the tangent kernel Ĥ of the layers below, Δs_a = −η Σ_d Ĥ_ad w ε_d: in

    Ĥ_bd[w, s_c] = Σ_μ λ_μ ∂(w·s_b)/∂θ_μ ∂(s_c·s_d)/∂θ_μ ,

with s_c held fixed, and H changes by such products too. They are linear in w, so that the mean over
w of z_e = w·s_e + b times one is (C_W/n) Ĥ_bd[s_e, s_c], whatever the layers below are. Derived
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays import Array


def changes(
    entering: Sequence[Array],
    slopes: Sequence[Array],
    weights: Sequence[Array],
    rates: tuple[Array, Array],
    variance: float,
    training: int,
) -> Array:
    """z_e,i Ĥ_bd[w_i, s_c] less its mean over w, (networks, outputs, e, b, d, c), e in the training
    set; in units of λ_W/n of the readout.

    Arguments:
        entering, slopes: what enters each layer, and σ' behind all but the last.
        weights: of each layer, (networks, n_out, n_in).
        rates: λ_W/n_in and λ_b by layer.
        variance: E w_j².
    """
    z, s = entering[-1], entering[-2]
    count, m, outputs = z.shape
    vectors = np.concatenate([weights[-1], s], axis=1)
    back = vectors[:, :, None] * slopes[-1][:, None]
    found = np.zeros((count, outputs + m, m, m, m))
    for layer in reversed(range(len(weights) - 1)):
        flat = back.reshape(count, (outputs + m) * m, -1)
        paths = flat @ flat[:, outputs * m :].transpose(0, 2, 1)
        inner = entering[layer] @ entering[layer].transpose(0, 2, 1)
        rate = rates[0][layer] * inner + rates[1][layer]  # (networks, b, d)
        by_sample = paths.reshape(count, outputs + m, m, m, m).transpose(0, 1, 2, 4, 3)
        found += by_sample * rate[:, None, :, :, None]
        if layer:
            flat = flat @ weights[layer]
            back = flat.reshape(count, outputs + m, m, -1) * slopes[layer - 1][:, None]
    own, means = found[:, :outputs], found[:, outputs : outputs + training]
    products = np.einsum("xei,xibdc->xiebdc", z[:, :training], own)
    return np.asarray((products - variance * means[:, None]) * rates[0][-1])
