"""Checks of arguments that several functions of this room share."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from derive.engine.orbits import Exchangeable
from derive.errors import InputError, Words, as_integer
from derive.layers import dense
from derive.layers.by_depth import Layers
from derive.network import Network
from derive.weights import PermutationInvariant
from derive.work.defaults import DEPTH

from .arrays import Array

_DENSE = dense()
LARGEST = 1e150
"""The largest size of an input, whose square is far from the end of doubles."""


def seed(value: object) -> int:
    """A seed, an integer from 0 to 2^64 − 1; InputError for anything else."""
    return as_integer("seed", value, 0, 2**64 - 1, "an integer from 0 to 2^64 − 1")


def depth(net: Network, given: int | None) -> int:
    """The number of layers: by default all that the network names, or 10; or InputError."""
    return as_integer("depth", (net.depth or DEPTH) if given is None else given, 1)


def draws(value: object, least: int) -> int:
    """A number of draws, `least` or more and below 2^32, the streams of a seed; or InputError."""
    count = as_integer("draws", value, least)
    if count >= 2**32:
        raise InputError("draws", value, "fewer than 2^32, the networks that a seed has")
    return count


def real(argument: str, value: object, wanted: str) -> float:
    """A finite real number, of any type but the Boolean ones; InputError for anything else."""
    found = math.nan
    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            found = float(value)
    if not math.isfinite(found):
        raise InputError(argument, value, wanted)
    return found


def positive(argument: str, value: object, wanted: str = "a number above 0") -> float:
    """A finite number above 0; InputError for anything else."""
    found = real(argument, value, wanted)
    if found <= 0:
        raise InputError(argument, value, wanted)
    return found


def probability(argument: str, value: object) -> float:
    """A number between 0 and 1, neither of them; InputError for anything else."""
    wanted = "a probability between 0 and 1"
    found = real(argument, value, wanted)
    if not 0.0 < found < 1.0:
        raise InputError(argument, value, wanted)
    return found


_KINDS = {"U": "text", "S": "bytes", "c": "complex numbers", "O": "objects", "V": "records"}
"""Descriptions of arrays that do not hold real numbers, by NumPy's letter."""


def numbers(argument: str, given: ArrayLike, wanted: str) -> NDArray[Any]:
    """An array of real numbers; InputError for anything else.

    Tensors of other frameworks are detached from their gradients and brought to the processor.
    """
    if np.ma.isMaskedArray(given):
        got = Words("a masked array")
        raise InputError(argument, got, f"an array without a mask, such as {argument}.filled(…)")
    for name in ("detach", "cpu"):
        method = getattr(given, name, None)
        given = method() if callable(method) else given
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal lengths, lists of tensors
        raise InputError(argument, given, wanted) from None
    if found.dtype.kind not in "biuf":
        kind = _KINDS.get(found.dtype.kind, f"{found.dtype} values")
        raise InputError(argument, Words(kind), wanted)
    return found


def path(argument: str, value: object) -> str:
    """The path of a file or directory, as text that the system takes; InputError otherwise."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    try:
        usable = isinstance(text, str) and text != "" and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not isinstance(text, str) or not usable:
        raise InputError(argument, value, "the path of a file or directory")
    return text


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a network, as a matrix that remembers its given shape.

    Arguments:
        X: (samples, n_0), finite and real; a sample is an input, or a signal α at a position p,
            αP + p in their order.
        shape: in which it was given.
        samples: how many there are at layers 1, 2, …: those of X alone, unless layers change the
            positions of signals.
        measured: the samples of a table: those of the last layer, or signals that are read out.
        first: the first layer of a table: from there on samples are those of the last layer.
        single: whether there is one that is no axis: one vector (n_0,), or one signal read out.
        axes: of an input before its numbers, (positions,) of a signal.
        exchangeable: what X represents, if not itself.
    """

    X: Array
    shape: tuple[int, ...]
    samples: tuple[int, ...]
    measured: int
    first: int
    single: bool
    axes: tuple[int, ...]
    exchangeable: Exchangeable | None = None

    def named(self, sample: int, samples: int | None = None) -> str:
        """A sample of so many, by default a row of X, in words: "input 2", or "position 3 of input
        1" of signals of positions. Where the positions are others, the input alone."""
        if samples not in (None, len(self.X)):
            each = max(1, samples // (len(self.X) // math.prod(self.axes)))
            return f"input {sample // each + 1}"
        index = np.unravel_index(sample, self.shape[:-1])
        kinds = ["input"] * (len(index) - len(self.axes)) + ["position"] * len(self.axes)
        words = [f"{kind} {at + 1}" for kind, at in zip(kinds, index, strict=True)]
        return " of ".join(reversed(words)) or "the input"

    @property
    def by_input(self) -> Array:
        """(inputs, n_0), or of signals (inputs, positions, n_0)."""
        return self.X.reshape(-1, *self.axes, self.X.shape[1])

    @property
    def largest(self) -> float:
        """The largest mean square of an input's entries; 1 if all are zero."""
        if self.exchangeable is not None:
            return float(self.exchangeable.numbers[0]) or 1.0
        return float((self.X * self.X).sum(axis=1).max() / self.X.shape[1]) or 1.0

    @property
    def given(self) -> Array:
        """In the shape in which they were given."""
        return self.X.reshape(self.shape)


def checked_inputs(inputs: ArrayLike, layer: Layers = _DENSE, depth: int = 1) -> Inputs:
    """The inputs, (n_0,) or (m, n_0), finite and real, or an InputError.

    Arguments:
        layer: what the network's layers are; where they have positions, inputs are
            (positions, n_0) or (m, positions, n_0).
        depth: how many layers there are.
    """
    axes, behind = layer.input_axes, layer.axes(depth)
    measured = layer.measured_axes(depth)
    of_one = ", ".join([*map(str, axes), "n_0"])
    wanted = f"real numbers of shape ({of_one}{'' if axes else ','}) or (m, {of_one})"
    X = numbers("inputs", inputs, wanted)
    several = X.ndim - len(axes) - 1
    if several not in (0, 1) or X.size == 0 or X.shape[several:-1] != axes:
        raise InputError("inputs", Words(f"shape {X.shape}"), f"{wanted}, not empty")
    if not np.isfinite(X).all():
        raise InputError("inputs", Words("NaN or infinity"), "finite numbers")
    if (largest := float(abs(X).max())) > LARGEST:
        raise InputError("inputs", Words(f"{largest:.3g}"), f"numbers of size {LARGEST:g} or less")
    rows = np.ascontiguousarray(X.reshape(-1, X.shape[-1]), dtype=float)
    signals = len(rows) // math.prod(axes)
    samples = tuple(signals * math.prod(each) for each in behind)
    count, single = signals * math.prod(measured), several + len(measured) == 0
    tail = takewhile(lambda each: each == behind[-1], reversed(behind))
    first = 1 + len(behind) - sum(1 for _ in tail)
    return Inputs(rows, X.shape, samples, count, first, single, axes)


def representatives(
    inputs: Exchangeable, samples: int, net: Network, depth: int, n_0: int | None = None
) -> Inputs:
    """So many of exchangeable inputs, with entries along as many axes; or an InputError.

    Arguments:
        n_0: their size; by default as small as can be.
    """
    if net.layer.input_axes:
        samples = _tokens(inputs, net, depth)
    if isinstance(net.weights_at(1, depth=depth), PermutationInvariant):
        wanted = "vectors: behind independent weights layer 1 depends on more than q and p"
        raise InputError("inputs", Words(inputs), wanted)
    q, p = map(float, inputs.numbers)
    kernel = np.where(np.eye(samples, dtype=bool), q, p)
    lengths, axes = np.linalg.eigh(kernel)
    n_0 = samples if n_0 is None else n_0
    if n_0 < samples:
        raise InputError("inputs", Words(inputs), f"n_0 of {samples} or more, here it is {n_0}")
    X = np.zeros((samples, n_0))
    X[:, :samples] = (axes * np.sqrt(np.maximum(n_0 * lengths, 0.0))) @ axes.T
    return replace(checked_inputs(X, net.layer, depth), exchangeable=inputs)


def _tokens(inputs: Exchangeable, net: Network, depth: int) -> int:
    """The positions of one signal, all of them; InputError unless a layer treats them alike."""
    stages = [stage for each in net.schemes(depth, 2).distinct for stage in each.stages]
    tables = any(scores.table for stage in stages for scores in stage.scores)
    if tables or any(stage.relates_positions for stage in stages):
        wanted = "inputs of layers without positions: signals at positions are not exchangeable, "
        wanted += "but for tokens of attention without a mask and a bias"
        raise InputError("inputs", Words(inputs), wanted)
    positions = math.prod(net.layer.input_axes)
    if inputs.m != positions:
        wanted = f"{positions} inputs, the tokens of one sequence"
        raise InputError("inputs", Words(inputs), wanted)
    return positions


def chosen_samples(
    positions: Sequence[int | Sequence[int]] | None, net: Network, data: Inputs, depth: int
) -> tuple[int, ...]:
    """The samples at these positions of all signals, or all samples; or an InputError."""
    if positions is None:
        return tuple(range(data.measured))
    shape = net.layer.measured_axes(depth)
    wanted = f"positions of the last layer, of shape {shape}" if shape else "none, of one position"
    try:
        at = np.array(positions).reshape(len(positions), -1)
        places = np.ravel_multi_index(tuple(at.T), shape)
    except (TypeError, ValueError):
        raise InputError("positions", positions, wanted) from None
    if at.dtype.kind != "i" or not places.size or len(set(places.tolist())) < len(places):
        raise InputError("positions", positions, f"{wanted}, each once")
    count = math.prod(shape)
    signals = range(data.measured // count)
    return tuple(alpha * count + int(p) for alpha in signals for p in places)


def check_rotations(net: Network, depth: int, reason: str) -> None:
    """Raise InputError, with this reason, for weights whose law rotations do not keep."""
    if not net.tabulated(depth).keeps_rotations:
        wanted = f"weights whose law rotations keep: {reason}"
        raise InputError("weights", str(net.weights), wanted)
