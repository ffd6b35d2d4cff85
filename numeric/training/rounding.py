"""Errors of trained networks from those of tensors at initialization, and from rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from ..arrays import Array

_PROBES, _SAFETY = 2, 4.0
"""How often the tensors are moved, and what the largest change is multiplied by."""


class _Moved(Mapping[str, Array]):
    """The tensors of a probe, each made when it is asked for."""

    def __init__(
        self, values: Mapping[str, Array], errors: Mapping[str, Array], probe: int
    ) -> None:
        self._values, self._errors, self._probe = values, errors, probe

    def __getitem__(self, name: str) -> Array:
        each = self._values[name]
        size = np.abs(each) / max(np.abs(each).max(), np.finfo(float).tiny)
        sign = np.sign(np.cos(7 * self._probe * size))  # equal entries move alike
        moved = each + sign * (self._errors[name] + np.finfo(float).eps * np.abs(each))
        return np.asarray(moved)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def with_errors(
    values: Mapping[str, Array],
    errors: Mapping[str, Array],
    averages: Callable[[Mapping[str, Array]], dict[str, Array]],
) -> dict[str, tuple[Array, Array]]:
    """Results from the tensors, and how far they move with the tensors.

    Each probe moves every tensor by a smooth multiple of its errors, with the symmetries kept.
    """
    found = averages(values)
    moved = {name: np.zeros_like(each) for name, each in found.items()}
    for probe in range(1, _PROBES + 1):
        for name, each in averages(_Moved(values, errors, probe)).items():
            moved[name] = np.maximum(moved[name], np.abs(each - found[name]))
    return {name: (each, _SAFETY * moved[name]) for name, each in found.items()}
