"""Kernels of the package that several tests call, as emitted modules: compiled once, and kept."""

from __future__ import annotations

import math
from functools import cache
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest

from derive import activations
from numeric.brackets import kinks
from numeric.emit import modules


@cache
def compiled_kinks() -> ModuleType:
    """`average` of `numeric.brackets.kinks`, and `moment` and the rest of `orthants`."""
    return modules.load(f"{modules.PRELUDE}\n\n{kinks.source(activations.relu)}", "kinks")


def interpreted(source: str, name: str) -> ModuleType:
    """An emitted module that runs in the interpreter: compiling takes seconds, its work little.

    Its functions overflow and divide by 0 as compiled ones do, with NumPy's warnings.
    """
    module = ModuleType(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba.config, "DISABLE_JIT", 1)
        exec(compile(source, f"<{name}>", "exec"), vars(module))
    numbers = {each: getattr(np, each) for each in ("exp", "expm1", "sqrt", "sinh", "cosh")}
    module.math = SimpleNamespace(**(vars(math) | numbers))
    return module


ROADS = ["in_numpy", pytest.param("compiled", marks=pytest.mark.slow)]
"""Where kernels have a twin in NumPy, which flows run: theirs take 20 s to compile."""
