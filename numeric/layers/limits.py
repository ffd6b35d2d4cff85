"""Errors for tensors that `flow` cannot return: undefined at z = 0, or below a float's range.

`silent` decides from inputs, weights and biases whether a variance is exactly 0. A kernel that is 0
by rounding is therefore never mistaken for an exact zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from derive.activations import Activation
from derive.engine.fields import Field
from derive.engine.stages import Stage
from derive.engine.tensors import Name, named
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError, Words
from derive.network import Network
from derive.work.caches import cache

from ..arrays import Array
from ..checks import Inputs
from .resting import UndefinedError

Rows: TypeAlias = "tuple[tuple[Fraction, ...], ...]"
"""The rows of z as in `precise.geometry`; 0 if z is 0."""

Tensors: TypeAlias = "dict[Name, Array]"
"""Tensors at all layers; the first axis is the layer."""

LEAST = 1e-300
"""The smallest value that is accepted; below it floats lose digits or become 0."""

_NATURAL = -280.0
"""log₁₀ of the natural size below which a tensor is checked against `LEAST`."""

_K, _THETA = named("K"), named("Theta")


class NoValueError(InputError):
    """Raised for a tensor that is undefined behind z = 0, or too small for a float."""


def no_value(net: Network, data: Inputs, undefined: UndefinedError) -> NoValueError:
    """The error for a tensor that is undefined behind z = 0."""
    found, layer, order = undefined.found, undefined.layer, undefined.found.order
    samples = data.samples[min(layer, len(data.samples)) - 1]
    which, read = data.named(found.sample, samples), _read(net, data, found.sample, layer)
    if order is None:
        own = net.layer_at(layer + 1, len(data.samples)) if len(data.samples) > layer else net.layer
        reason = f", by whose norm {own} divides: K has no value"
        cure = "an eps above 0"
    else:
        sigma = "σ" + "'" * order + "(0)"
        reason = f", on the kink of {net.activation}: {undefined.tensor.label} needs {sigma}, "
        reason += "which does not exist"
        cure = f"tensors that do not need {sigma}"
    if not data.X[read].any():
        wanted = f"{cure}, biases (C_b > 0), or another input, such as 1e-9 times a vector"
        zero = data.named(read[0])
        if len(read) > 1:
            zero += f" and {len(read) - 1} more, all that a position of layer {layer} reads"
        return NoValueError("inputs", Words(f"zero for {zero}{reason}"), wanted)
    got = f"{net}, with z = 0 between layers {layer} and {layer + 1} for {which}{reason}"
    return NoValueError("net", Words(got), f"{cure}, or variances above 0")


def _read(net: Network, data: Inputs, sample: int, layer: int) -> list[int]:
    """The rows of X that a sample of a layer depends on, where layers change the positions."""
    read, depth = {sample}, len(data.samples)
    if depth == 1:
        return [sample]
    distinct, order = net.schemes(depth, 1)
    for at in range(layer, 1, -1):
        for stage in reversed(distinct[order[at - 2]].stages):
            read = stage.taps.read_at(read)
    return sorted(read)


def silent(net: Network, data: Inputs, symbols: Mapping[str, Array]) -> NDArray[np.bool_]:
    """True where z of a measured sample is exactly 0, (layers, samples): at the layers from
    `data.first` on, as in a table."""
    depth = len(symbols["C_W"])
    biases, weights = ([bool(each) for each in symbols[name]] for name in ("C_b", "C_W"))
    distinct, order = net.schemes(depth, 1)
    now = ~data.X.any(axis=1) | (not weights[0])
    found = [now & (not biases[0])]
    for layer in range(1, depth):
        scheme = distinct[order[layer - 1]]
        stages = scheme.stages
        given = scheme.sigma, stages, biases[layer], weights[layer]
        ahead = np.where(found[-1], _stays(*given, True), _stays(*given, False))
        for stage in stages:
            ahead = _where_all(ahead, stage)
        found.append(ahead)
    seen = [each.reshape(data.measured, -1).all(axis=1) for each in found[data.first - 1 :]]
    return np.array(seen, np.bool_)


def _where_all(zero: NDArray[np.bool_], stage: Stage) -> NDArray[np.bool_]:
    """True at positions of the result where all that the stage reads is zero."""
    taps = stage.taps
    signals = zero.reshape(-1, taps.positions)
    every = taps.reads if taps.past is None else (*taps.reads, *taps.past.reads)
    reads = [{q for tap in every for q, _ in tap[p]} for p in range(taps.results)]
    if stage.carries and taps.past is None:
        reads = [{p, *at} for p, at in enumerate(reads)]
    return np.stack([signals[:, sorted(at)].all(axis=1) for at in reads], axis=1).ravel()


@cache
def _stays(
    sigma: Activation, stages: tuple[Stage, ...], biases: bool, weights: bool, zero: bool
) -> bool:
    """True if z is 0 behind a layer; `zero` says whether z is 0 in front of it."""
    from .precise.dependence import behind  # noqa: PLC0415  (python-flint)

    if any(stage.batch or stage.scores for stage in stages):
        return False
    known: dict[Kind, Rows] = {STREAM: ((Fraction(int(not zero)),),)}
    for stage in stages:
        known = behind(stage.alone, known, sigma, biases=biases, weights=weights)
    return not any(known[STREAM][0])


def check_kernel(net: Network, data: Inputs, symbols: Mapping[str, Array], found: Tensors) -> None:
    """Raise InputError at the first layer where a variance is below a float's range but not 0."""
    variances = _variances(found)
    small = variances < LEAST
    if small.any():
        small &= ~silent(net, data, symbols)
        _refuse(net, data, "K", small)


def check_tensor(
    net: Network,
    data: Inputs,
    symbols: Mapping[str, Array],
    found: Tensors,
    names: tuple[Name, Name],
    alike: Callable[[], Tensors],
) -> None:
    """Raise InputError at the first layer where an entry is below a float's range.

    Entries that also vanish in the same network at inputs of order one are exact zeros and pass.

    Arguments:
        names: the tensor's name, and its key in `found`.
        alike: the first layers of the network at inputs of order one.
    """
    name, own = names
    if own == _K or not (natural_size(found, name) < _NATURAL).any():
        return
    rest = silent(net, data, symbols)
    values, unit = found[own], alike()[own]
    layers = np.minimum(np.arange(len(values)), len(unit) - 1)
    size = np.abs(unit).reshape(len(unit), -1).max(axis=1).reshape(-1, *(1,) * (unit.ndim - 1))
    small = (np.abs(values) < LEAST) & (np.abs(unit) > 1e-10 * size)[layers]
    for axis in range(1, small.ndim):
        small &= ~rest.reshape(*(n if k in (0, axis) else 1 for k, n in enumerate(small.shape)))
    samples = small if small.ndim > 1 else small[:, None] & ~rest
    _refuse(net, data, name.label, samples.reshape(len(samples), samples.shape[1], -1).any(axis=2))


def natural_size(found: Tensors, name: Name) -> Array:
    """log₁₀ of the smallest K^{nodes/2} (Θ/K)^{edges} at each layer, over inputs other than 0."""
    trees = [each for each in name.fields if isinstance(each, Field)]
    edges, nodes = sum(len(tree.edges) for tree in trees), sum(tree.nodes for tree in trees)

    def least(each: Name) -> Array:
        variances = _variances(found, each)
        return np.asarray(np.log10(np.where(variances > 0.0, variances, math.inf)).min(axis=1))

    with np.errstate(all="ignore"):
        kernel = least(_K)
        tangent = least(_THETA) if edges and _THETA in found else kernel
        size = 0.5 * nodes * kernel + edges * (tangent - kernel)
    return np.where(np.isfinite(size), size, 0.0)


def _variances(found: Tensors, name: Name = _K) -> Array:
    """The diagonal of a kernel, (depth, samples)."""
    K = found[name]
    return K[:, None] if K.ndim == 1 else K.diagonal(axis1=1, axis2=2)


def _refuse(net: Network, data: Inputs, label: str, small: NDArray[np.bool_]) -> None:
    """Raise InputError for the first layer and sample at which `small` is True."""
    if not small.any():
        return
    row = int(np.argmax(small.any(axis=1)))
    which = data.named(int(np.argmax(small[row])), data.measured)
    got = f"{net}, whose {label} falls below {LEAST:g} at layer {data.first + row} for {which}"
    wanted = (
        "larger variances or inputs, or fewer layers; `flow` with a precision has no such limit"
    )
    raise NoValueError("net", Words(got), wanted)
