"""K of wide networks of source 001, given the one bias of each layer that does not average out."""

from __future__ import annotations

import numpy as np
import sympy
from numpy.typing import ArrayLike

from derivations.nait_saada_tanner import drawing
from derivations.nait_saada_tanner.pair_averages import averages
from derive.errors import InputError
from derive.network import Network
from derive.work.progress import telling
from numeric.arrays import Array
from numeric.checks import checked_inputs
from numeric.hyperparameters import hyperparameters


def given_biases(net: Network, inputs: ArrayLike, b: ArrayLike) -> Array:
    """K of every layer at infinite width, given the one bias b_ℓ of each: (draws, depth, m, m).

        q_ab' = γ (σ_α² ⟨σ_a σ_b⟩ + b_ℓ²),

    source 001, (3) and (5), with b_ℓ² for σ_b². Derived here: C z is isotropic for any z, so its
    entries are Gaussian with the covariance z·z/n, in which b² of the sum over directions stays.

    Arguments:
        net: the network, of full or low rank, Gaussian or orthogonal; γ σ_α² is its C_W.
        inputs: (n_0,) or (m, n_0).
        b: (draws, depth), as `sample` returns it.

    Raises InputError for other networks, for symbols in them, and for other arrays.

    >>> from derive import activations
    >>> given_biases(Network(activations.linear), [2.0, 2.0], b=[[1.0, 3.0]]).ravel()
    array([ 5., 14.])
    """
    wanted = "finite numbers of shape (draws, depth)"
    try:
        drawn = np.atleast_2d(np.asarray(b, float))
    except (TypeError, ValueError):
        raise InputError("b", b, wanted) from None
    if np.ma.isMaskedArray(b) or drawn.ndim != 2 or not drawn.size or not np.isfinite(drawn).all():
        raise InputError("b", b, wanted)
    draws, depth = drawn.shape
    written, X = drawing.written(net), checked_inputs(inputs).X
    written.check_inputs(X.shape[1])
    C_W = hyperparameters(written, depth, X.shape[1], None)["C_W"]
    laws = (
        drawing.low_rank(written.weights_at(layer, depth=depth)) for layer in range(1, depth + 1)
    )
    gammas = [sympy.sympify(law.gamma) for law in laws]
    if not all(gamma.is_number for gamma in gammas):
        raise InputError("net", str(net), "a network whose γ is a number")
    activation = net.one_activation("propagation")
    K = np.empty((draws, depth, len(X), len(X)))
    below = np.broadcast_to(X @ X.T / X.shape[1], (draws, len(X), len(X)))
    with telling("averages at every draw", total=depth) as told, drawing.silent():
        for layer in range(depth):
            second = below if layer == 0 else averages(activation, below)
            own = float(gammas[layer]) * drawn[:, layer, None, None] ** 2
            K[:, layer] = below = C_W[layer] * second + own
            told.advance()
    if not np.isfinite(K).all():
        raise InputError("b", b, drawing.FINITE)
    return K
