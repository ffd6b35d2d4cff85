"""Kernels of the package that several tests call, as emitted modules: compiled once, and kept."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import pytest

from derive import activations
from numeric.brackets import kinks
from numeric.emit import modules


@cache
def compiled_kinks() -> ModuleType:
    """`average` of `numeric.brackets.kinks`, and `moment` and the rest of `orthants`."""
    return modules.load(f"{modules.PRELUDE}\n\n{kinks.source(activations.relu)}", "kinks")


ROADS = ["in_numpy", pytest.param("compiled", marks=pytest.mark.slow)]
"""Where kernels have a twin in NumPy, which flows run: theirs take 20 s to compile."""
