r"""Layers of signals: convolutions, and readouts that pool or flatten.

A sample is a signal at a position, α at p = 0 … P − 1, and the neurons are channels:

    z'_{i,p} = b_i + s^{-1/2} Σ_k W^{(k)}_{ij} σ(z_{j,p+k}) ,    E[W^{(k)}_{ij}²] = C_W/n .

with the normalized z in its place behind a norm over the channels. All positions share the W^{(k)},
so that the law of the channels is as invariant as that of the dense layer; K' = C_b + C_W mean_k
⟨σ_{p+k} σ_{q+k}⟩, and `engine.taps` has what V and the tower become.
"""

from __future__ import annotations

from typing import Any

from ..activations.functions import Activation
from ..citations import rests_on
from ..engine.taps import Taps
from ..errors import InputError, whole
from ..weights import WeightEnsemble
from .composed import around
from .layer import Layer
from .norms import Norm, shown_as

_DENSE = "z[i] = b[i] + W[i,a] s(z[a])"


@rests_on("xiao2018")
def convolution(
    size: int,
    positions: int,
    weights: str = "gaussian",
    boundary: str = "circular",
    readout: str | None = None,
    norm: str | None = None,
    eps: object = 0,
    law: WeightEnsemble | str | None = None,
    activations: Activation | str | None = None,
) -> Layer:
    """z'_p = b + size^{-1/2} Σ_k W^{(k)} σ(y_{p+k}), k = −⌊(size−1)/2⌋ … ⌊size/2⌋.

    Arguments:
        size: s, how many positions a filter has, 1 … positions.
        positions: P, of a signal; inputs are (m, P, n_0), or (P, n_0) for one signal. Layer 1 is
            z_p = b + W x_p, the same at each position.
        weights: the profile of the filter. "gaussian": its matrices are independent ones of the
            network's ensemble, each of variance C_W/(s n) and with the learning rate λ_W/(s n);
            "delta": all but the one in the middle are zero, and that one has C_W/n, so that each
            position has a dense layer (with orthogonal weights this is delta-orthogonal).
        boundary: "circular", p + k modulo P; or "zero", what σ gives outside is 0.
        readout: None: a table has z at all positions, the sample αp having the number αP + p.
            "mean" or "flatten": at layer ℓ it has `pooling` or `flattening` of layer ℓ − 1, so
            that a sample is a signal; at layer 1 that of the inputs.
        norm, eps: as those of `normalized`, over the channels at each position by itself; y = z
            without one.
        law, activations: the law of its matrices, and σ; by default the network's.

    K is that of L. Xiao et al., "Dynamical isometry and a mean field theory of CNNs", ICML 2018;
    the other tensors are derived here. Raises InputError for sizes and profiles that are none of
    these.

    >>> from derive import recursion
    >>> recursion("K", layer=convolution(3, 8))
    K[1,2](ℓ+1) = C_W*Σ{k}(⟨σ₁ σ₂⟩)[1+k,2+k]/3 + C_b
    """
    P = whole("positions", positions, 1)
    s = whole("size", size, 1, P, f"how many positions a filter has, 1 … {P}, those of a signal")
    if not isinstance(weights, str) or weights not in ("gaussian", "delta"):
        raise InputError("weights", weights, '"gaussian" or "delta"')
    if not isinstance(boundary, str) or boundary not in ("circular", "zero"):
        raise InputError("boundary", boundary, '"circular" or "zero"')
    if readout is not None and (not isinstance(readout, str) or readout not in _READOUTS):
        raise InputError("readout", readout, f"one of {', '.join(_READOUTS)}, or None")
    offsets = range(-((s - 1) // 2), s // 2 + 1) if weights == "gaussian" else range(1)
    reads = tuple(tuple(_read(p + k, P, boundary) for p in range(P)) for k in offsets)
    parts = [str(s), str(P)]
    parts += [] if weights == "gaussian" else ["weights=delta"]
    parts += [] if boundary == "circular" else ["boundary=zero"]
    parts += [] if readout is None else [f"readout={readout}"]
    parts += [*Norm(norm, eps).shown("norm="), *shown_as(law=law, activations=activations)]
    given: dict[str, Any] = {"weights": law, "activations": activations}
    made = _tapped(Taps(reads, P), **given)
    if readout is not None:
        read = _READOUTS[readout](P)
        made = made.read_by((_tapped(read.tapped[0][1], label=str(read), **given),))
    return around(made, 0, norm, eps, f"convolution({', '.join(parts)})")


def _tapped(taps: Taps, **others: Any) -> Layer:
    """The dense layer's equation, its matrix with taps."""
    return Layer(_DENSE, taps={"W": taps}, **others)


def _read(position: int, positions: int, boundary: str) -> tuple[int, ...]:
    if boundary == "circular":
        return (position % positions,)
    return (position,) if 0 <= position < positions else ()


def pooling(positions: int) -> Layer:
    """z' = b + W mean_p σ(z_p): the mean over the positions, then one matrix.

    Arguments:
        positions: P, of a signal; behind it there is one.

    Derived here. Raises InputError for positions that are no number of 1 or more.

    >>> from derive import recursion
    >>> recursion("K", layer=pooling(8))
    K[1,2](ℓ+1) = C_W*Σ{p,p'}(⟨σ₁ σ₂⟩)[1:p,2:p']/64 + C_b
    """
    P = whole("positions", positions, 1)
    return _tapped(Taps(((tuple(range(P)),),), P), label=f"pooling({P})")


def flattening(positions: int) -> Layer:
    """z' = b + P^{-1/2} Σ_p W^{(p)} σ(z_p): all positions side by side, each with its own matrix.

    Arguments:
        positions: P, of a signal; behind it there is one.

    The matrices are independent ones of the network's ensemble. Derived here. Raises InputError for
    positions that are no number of 1 or more.

    >>> from derive import recursion
    >>> recursion("K", layer=flattening(8))
    K[1,2](ℓ+1) = C_W*Σ{p}(⟨σ₁ σ₂⟩)[1:p,2:p]/8 + C_b
    """
    P = whole("positions", positions, 1)
    return _tapped(Taps(tuple(((p,),) for p in range(P)), P), label=f"flattening({P})")


_READOUTS = {"mean": pooling, "flatten": flattening}
