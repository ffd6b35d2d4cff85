"""Kernels of the package that several tests call, as emitted modules: compiled once, and kept."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from derive import activations
from numeric.brackets import kinks
from numeric.emit import modules


@cache
def compiled_kinks() -> ModuleType:
    """`average` of `numeric.brackets.kinks`, and `moment` and the rest of `orthants`."""
    return modules.load(f"{modules.PRELUDE}\n\n{kinks.source(activations.relu)}", "kinks")
