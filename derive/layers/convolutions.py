r"""Layers of signals: convolutions, sums over a graph, and readouts that pool or flatten.

A sample is a signal at a position, α at p = 0 … P − 1, and the neurons are channels:

    z'_{i,p} = b_i + s^{-1/2} Σ_k W^{(k)}_{ij} Σ_p' A^{(k)}_{pp'} σ(z_{j,p'}) ,
    E[W^{(k)}_{ij}²] = C_W/n ,

with the normalized z in its place behind a norm over the channels. The A^{(k)} say which positions
are read: shifts in a convolution of size s. All positions share the W^{(k)}, so that the law of the
channels is as invariant as that of the dense layer; K' = C_b + C_W mean_k A^{(k)} ⟨σσ⟩ A^{(k)}ᵀ,
and `engine.taps` has what V and the tower become. The weights of a filter have variance C_W/(s n),
as in torch, whose fan-in counts the size; next to a boundary of zeros fewer terms are added up, so
that the variance is smaller there, as it is in torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..activations.functions import Activation
from ..citations import rests_on
from ..engine.taps import Row, Taps, shape_of
from ..errors import InputError, Words, as_integer
from ..weights import WeightEnsemble
from .composed import around
from .layer import Layer
from .norms import Norm, shown_as

_DENSE = "z[i] = b[i] + W[i,a] s(z[a])"

Each: TypeAlias = "int | Sequence[int]"
"""One number for all axes of the positions, or one for each."""

Padding: TypeAlias = "int | tuple[int, int]"
"""As many positions beyond both ends of an axis, or so many before and so many behind."""

Rows: TypeAlias = "tuple[Row, ...]"
"""The positions that each position of a result reads."""


@rests_on("xiao2018")
def convolution(
    size: Each,
    positions: Each,
    weights: str = "gaussian",
    boundary: str | None = None,
    readout: str | None = None,
    norm: str | None = None,
    eps: object = 0,
    law: WeightEnsemble | str | None = None,
    activations: Activation | str | None = None,
    stride: Each = 1,
    padding: Each | Sequence[Padding] | str | None = None,
    dilation: Each = 1,
) -> Layer:
    """z'_p = b + size^{-1/2} Σ_k W^{(k)} σ(y_{p+k}), k = −⌊(size−1)/2⌋ … ⌊size/2⌋.

    In general p+k is stride·p + dilation·k. Of images p and k are pairs.

    Arguments:
        size: s, how many positions a filter has, 1 … positions. Of images this and what is a number
            below may be a pair; there are s_1 s_2 matrices.
        positions: P, of a signal, or (P_1, P_2), of an image; inputs are (m, P, n_0) or (m, P_1,
            P_2, n_0), or one of m. Layer 1 is z_p = b + W x_p, the same at each position.
        weights: the profile of the filter. "gaussian": its matrices are independent ones of the
            network's ensemble, each of variance C_W/(s n) and with the learning rate λ_W/(s n);
            "delta": all but the one in the middle are zero, and that one has C_W/n, so that each
            position has a dense layer (with orthogonal weights this is delta-orthogonal).
        boundary: "circular", p + k modulo P, the default; or "zero", what σ gives outside is 0.
        readout: None: a table has z at all positions, the sample αp having the number αP + p.
            "mean" or "flatten": at layer ℓ it has `pooling` or `flattening` of layer ℓ − 1, so
            that a sample is a signal; at layer 1 that of the inputs.
        norm, eps: as those of `normalized`, over the channels at each position by itself, or, as
            "rms over positions", over all positions of a signal together; "batch" is over all
            positions of all signals, in each channel; y = z without one.
        law, activations: the law of its matrices, and σ; by default the network's.
        stride: the result has ⌈P/stride⌉ positions. A skip past the layer reads z where the filter
            has its middle.
        padding: how many positions beyond both ends are read, as in torch; the result has
            ⌊(P + 2·padding − dilation·(s−1) − 1)/stride⌋ + 1. 0 reads none. Of an axis it may be a
            pair, of those before and behind, ((1, 0),). By default the middle of the first filter
            is at position 0. "valid" is 0; "zero" and "circular" are the default with that
            boundary.
        dilation: how far apart the positions of a filter are.

    K is that of L. Xiao et al., "Dynamical isometry and a mean field theory of CNNs", ICML 2018;
    the other tensors are derived here. Raises InputError for sizes and profiles that are none of
    these.

    >>> from derive import recursion
    >>> recursion("K", layer=convolution(3, 8))
    K[1,2](ℓ+1) = C_W*Σ{k}(⟨σ₁ σ₂⟩)[1+k,2+k]/3 + C_b
    >>> convolution(3, (32, 32), boundary="zero", stride=2).output_axes
    (16, 16)
    """
    shape = shape_of(positions)
    sizes, strides, gaps = (
        _each(name, given, shape)
        for name, given in (("size", size), ("stride", stride), ("dilation", dilation))
    )
    boundary, padding = _by_text(boundary, padding)
    pads = [None] * len(shape) if padding is None else _padding(padding, shape)
    for s, P, gap, pad in zip(sizes, shape, gaps, pads, strict=True):
        most = P if pad is None else 1 + (P + sum(pad) - 1) // gap
        if s > most:
            wanted = f"how many positions a filter has, 1 … {most}, those of a signal"
            raise InputError("size", size, wanted)
    if not isinstance(weights, str) or weights not in ("gaussian", "delta"):
        raise InputError("weights", weights, '"gaussian" or "delta"')
    if readout is not None and (not isinstance(readout, str) or readout not in _READOUTS):
        raise InputError("readout", readout, f"one of {', '.join(_READOUTS)}, or None")
    given = zip(sizes, shape, strides, pads, gaps, strict=True)
    along = [_filters(*each, circular=boundary == "circular") for each in given]
    middle = [rows[(s - 1) // 2] for rows, s in zip(along, sizes, strict=True)]
    taps = _taps(product(*along) if weights == "gaussian" else [middle], shape, middle)
    if readout is not None and taps.into != shape:
        wanted = "none, where the positions change: pooling or flattening as a layer behind it"
        raise InputError("readout", readout, wanted)
    changed = {
        "weights": None if weights == "gaussian" else weights,
        "boundary": None if boundary == "circular" else boundary,
        "stride": None if set(strides) == {1} else stride,
        "padding": padding,
        "dilation": None if set(gaps) == {1} else dilation,
        "readout": readout,
    }
    parts = [_text(size), _text(positions), *shown_as(**changed), *Norm(norm, eps).shown("norm=")]
    parts += shown_as(law=law, activations=activations)
    own: dict[str, Any] = {"weights": law, "activations": activations}
    made = _tapped(taps, **own)
    if readout is not None:
        read = _READOUTS[readout](positions)
        made = made.read_by((_tapped(read.tapped[0][1], label=str(read), **own),))
    return around(made, 0, norm, eps, f"convolution({', '.join(parts)})")


def _tapped(taps: Taps, **others: Any) -> Layer:
    """The dense layer's equation, its matrix with taps."""
    return Layer(_DENSE, taps={"W": taps}, **others)


def _filters(
    size: int, P: int, stride: int, padding: tuple[int, int] | None, gap: int, *, circular: bool
) -> list[Rows]:
    """The positions that each of the taps reads along one axis."""
    first, count = -gap * ((size - 1) // 2), -(-P // stride)
    if padding is not None:
        first, count = -padding[0], (P + sum(padding) - gap * (size - 1) - 1) // stride + 1
    at = [[first + stride * t + gap * k for t in range(count)] for k in range(size)]
    return [
        tuple(((p % P, 1.0),) if circular or 0 <= p < P else () for p in places) for places in at
    ]


def _windows(size: int, P: int, stride: int) -> Rows:
    """Means over windows along one axis."""
    starts = range(0, P - size + 1, stride)
    return tuple(tuple((start + k, 1.0 / size) for k in range(size)) for start in starts)


def _taps(taps: Iterable[Sequence[Rows]], shape: tuple[int, ...], past: Sequence[Rows]) -> Taps:
    """Taps from what each reads along each axis, and so what a skip past them reads."""
    into = tuple(map(len, past))
    carried = Taps((_crossed(past, shape),), shape, into)
    known = None if carried.is_identity or not all(carried.reads[0]) else carried
    return Taps(tuple(_crossed(each, shape) for each in taps), shape, into, known)


def _crossed(along: Sequence[Rows], shape: tuple[int, ...]) -> Rows:
    """The positions that each position reads, from those along each axis."""

    def cell(cells: Sequence[tuple[int, float]]) -> tuple[int, float]:
        place = 0
        for P, (p, _) in zip(shape, cells, strict=True):
            place = place * P + p
        return place, prod(weight for _, weight in cells)

    return tuple(tuple(map(cell, product(*rows))) for rows in product(*along))


def _each(name: str, given: Each, shape: tuple[int, ...], least: int = 1) -> tuple[int, ...]:
    """A number for each axis."""
    values = list(given) if isinstance(given, list | tuple) else [given] * len(shape)
    if len(values) != len(shape):
        raise InputError(name, given, f"a number, or one for each of the axes of {shape}")
    return tuple(as_integer(name, each, least) for each in values)


_BOUNDARIES = ("circular", "zero")


def _by_text(boundary: Any, padding: Any) -> tuple[str, Any]:
    """The boundary, and the padding as numbers or None, where either may be given as text."""
    if boundary is not None and boundary not in _BOUNDARIES:
        raise InputError("boundary", boundary, '"circular" or "zero"')
    if not isinstance(padding, str):
        return boundary or _BOUNDARIES[0], padding
    if padding not in ("valid", *_BOUNDARIES):
        raise InputError("padding", padding, 'numbers, "valid", "zero" or "circular"')
    if boundary not in (None, padding):
        got = f"{padding} with the boundary {boundary}"
        raise InputError("padding", Words(got), "a text alone, which says what the boundary is")
    return (_BOUNDARIES[0], 0) if padding == "valid" else (padding, None)


def _padding(given: Any, shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """How many positions are read before and behind each axis."""
    values = list(given) if isinstance(given, list | tuple) else [given] * len(shape)
    pairs = [tuple(each) if isinstance(each, list | tuple) else (each, each) for each in values]
    if len(pairs) != len(shape) or any(len(pair) != 2 for pair in pairs):
        wanted = f"a number, or one or a pair for each of the axes of {shape}"
        raise InputError("padding", given, wanted)
    return [(as_integer("padding", a, 0), as_integer("padding", b, 0)) for a, b in pairs]


def _text(given: Each) -> str:
    return f"({', '.join(map(str, given))})" if isinstance(given, list | tuple) else str(given)


def pooling(positions: Each, size: Each | None = None, stride: Each | None = None) -> Layer:
    """z' = b + W mean_p σ(z_p): the mean over the positions, or over windows, then one matrix.

    Arguments:
        positions: P, of a signal, or (P_1, P_2), of an image.
        size: of the windows; by default all positions, so that one is behind it.
        stride: from window to window; by default the size.

    The matrix is the same for all windows, so that this is average pooling before a convolution of
    size 1, or behind one. A skip past the layer reads the same means of z. Derived here. Raises
    InputError for positions that are no number of 1 or more, and for windows that do not fit.

    >>> from derive import recursion
    >>> recursion("K", layer=pooling(8))
    K[1,2](ℓ+1) = C_W*Σ{p,p'}(⟨σ₁ σ₂⟩)[1:p,2:p']/64 + C_b
    >>> pooling((8, 8), 2).output_axes
    (4, 4)
    """
    shape = shape_of(positions)
    sizes = shape if size is None else _each("size", size, shape)
    if any(s > P for s, P in zip(sizes, shape, strict=True)):
        raise InputError("size", size, f"windows within the positions {_text(positions)}")
    if size is None and stride is not None:
        raise InputError("stride", stride, "none without a size of windows")
    strides = sizes if stride is None else _each("stride", stride, shape)
    along = [_windows(*each) for each in zip(sizes, shape, strides, strict=True)]
    taps = _taps([along], shape, along)
    if size is None:
        mean = Taps(taps.reads, shape, ())
        taps = Taps(taps.reads, shape, (), mean)
    parts = [_text(positions), *([] if size is None else [_text(size)])]
    parts += [] if stride is None else [f"stride={_text(stride)}"]
    return _tapped(taps, label=f"pooling({', '.join(parts)})")


def flattening(positions: Each) -> Layer:
    """z' = b + P^{-1/2} Σ_p W^{(p)} σ(z_p): all positions side by side, each with its own matrix.

    Arguments:
        positions: P, of a signal, or (P_1, P_2), of an image; behind it there is one.

    The matrices are independent ones of the network's ensemble. Derived here. Raises InputError for
    positions that are no number of 1 or more.

    >>> from derive import recursion
    >>> recursion("K", layer=flattening(8))
    K[1,2](ℓ+1) = C_W*Σ{p}(⟨σ₁ σ₂⟩)[1:p,2:p]/8 + C_b
    """
    shape = shape_of(positions)
    reads = tuple((((p, 1.0),),) for p in range(prod(shape)))
    return _tapped(Taps(reads, shape, ()), label=f"flattening({_text(positions)})")


_NORMALIZATIONS = ("symmetric", "mean")


def mix(
    *A: ArrayLike,
    normalization: str | None = None,
    law: WeightEnsemble | str | None = None,
    activations: Activation | str | None = None,
) -> Layer:
    """z'_t = b + s^{-1/2} Σ_k W^{(k)} Σ_u A^{(k)}_tu σ(z_u): sums over positions, as of a graph.

    Arguments:
        A: s matrices (positions of the result, positions), arrays or sparse ones, each with its own
            W^{(k)}. Shifts make a convolution, the adjacency of a graph a graph convolution, and
            elements of a group a group convolution.
        normalization: None; "symmetric", of a graph's adjacency A, D^{-1/2} (A + 1) D^{-1/2} with
            the degrees D of A + 1 (T. Kipf and M. Welling, "Semi-supervised classification with
            graph convolutional networks", ICLR 2017, eq. (2)); or "mean", D^{-1} (A + 1).
        law, activations: the law of its matrices, and σ; by default the network's.

    Each W^{(k)} has the variance C_W/(s n). Inputs are (m, positions, n_0). A skip past the layer
    needs square matrices. Derived here. Raises InputError for what are no matrices of one shape,
    and for a degree that is not above 0.

    >>> from derive import recursion
    >>> recursion("K", layer=mix([[1, 1], [0, 1]]))
    K[1,2](ℓ+1) = C_W*Σ{p,p'}A[1,p]*A[2,p']*(⟨σ₁ σ₂⟩)[1:p,2:p'] + C_b
    """
    found = [_matrix(each, normalization) for each in A]
    shapes = {each.shape for each in found}
    if len(shapes) != 1:
        raise InputError("A", Words(f"shapes {sorted(shapes)}"), "matrices of one shape")
    ((into, positions),) = shapes
    reads = tuple(
        tuple(tuple((int(u), float(row[u])) for u in np.flatnonzero(row)) for row in matrix)
        for matrix in found
    )
    taps = Taps(reads, (positions,), (into,))
    shown = [f"{len(A)} of {into} x {positions}", taps.digest]
    shown += shown_as(normalization=normalization, law=law, activations=activations)
    own: dict[str, Any] = {"weights": law, "activations": activations}
    return _tapped(taps, label=f"mix({', '.join(shown)})", **own)


def _matrix(given: Any, normalization: str | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A matrix over positions, normalized."""
    wanted = "matrices (positions of the result, positions) of finite real numbers"
    try:
        found = np.asarray(given.toarray() if hasattr(given, "toarray") else given, float)
    except (TypeError, ValueError):
        raise InputError("A", given, wanted) from None
    if found.ndim != 2 or not found.size or not np.isfinite(found).all():
        raise InputError("A", Words(f"an array of shape {found.shape}"), wanted)
    if normalization is None:
        return found
    if normalization not in _NORMALIZATIONS:
        raise InputError("normalization", normalization, '"symmetric", "mean" or None')
    if found.shape[0] != found.shape[1]:
        raise InputError("A", Words(f"an array of shape {found.shape}"), "the adjacency of a graph")
    found = found + np.eye(len(found))
    degrees = found.sum(axis=1)
    if not (degrees > 0).all():
        raise InputError("A", Words(f"a degree {degrees.min():g} of A + 1"), "degrees above 0")
    if normalization == "mean":
        return np.asarray(found / degrees[:, None])
    return np.asarray(found / np.sqrt(np.outer(degrees, degrees)))


_READOUTS = {"mean": pooling, "flatten": flattening}
