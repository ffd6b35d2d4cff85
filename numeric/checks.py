"""What more than one function of this room asks of its arguments."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from derive.errors import InputError, whole

from .arrays import Array


def seed(value: object) -> int:
    """A seed, an integer from 0 to 2^64 − 1; InputError for anything else."""
    return whole("seed", value, 0, 2**64 - 1, "an integer from 0 to 2^64 − 1")


def draws(value: object, least: int) -> int:
    """A number of draws, `least` or more and below 2^32, the streams of a seed; or InputError."""
    count = whole("draws", value, least)
    if count >= 2**32:
        raise InputError("draws", value, "fewer than 2^32, the networks that a seed has")
    return count


def probability(argument: str, value: object) -> float:
    """A number between 0 and 1, neither of them; InputError for anything else."""
    if not isinstance(value, float | int | np.number) or not 0.0 < value < 1.0:
        raise InputError(argument, value, "a probability between 0 and 1")
    return float(value)


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
    """What a network is applied to, as a matrix that remembers whether it was one vector.

    Arguments:
        X: (m, n_0), finite and real.
        single: whether they were given as one vector (n_0,): a table then has no axes of samples.
    """

    X: Array
    single: bool

    @property
    def given(self) -> Array:
        """In the shape in which they were given."""
        return self.X[0] if self.single else self.X


def checked_inputs(inputs: ArrayLike) -> Inputs:
    """The inputs, (n_0,) or (m, n_0), finite and real, or an InputError."""
    wanted = "real numbers of shape (n_0,) or (m, n_0)"
    if np.ma.isMaskedArray(inputs):
        raise InputError("inputs", "a masked array", "numbers that are all there: inputs.filled(…)")
    try:
        X = np.asarray(inputs)
    except (TypeError, ValueError):
        raise InputError("inputs", inputs, wanted) from None
    if X.dtype.kind not in "biuf":
        raise InputError("inputs", f"{X.dtype} values", wanted)
    if X.ndim not in (1, 2) or X.size == 0:
        raise InputError("inputs", f"shape {X.shape}", f"{wanted}, not empty")
    if not np.isfinite(X).all():
        raise InputError("inputs", "NaN or infinity", "finite numbers")
    return Inputs(np.ascontiguousarray(np.atleast_2d(X), dtype=float), single=X.ndim == 1)
