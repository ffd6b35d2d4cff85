"""Kernels of the package that several tests call, as emitted modules: compiled once, and kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest

from derive import activations
from derive.gaussian import SingleShape
from numeric.brackets import one_input
from numeric.emit import modules


def brackets_source(activation: activations.Activation, shapes: Sequence[SingleShape]) -> str:
    """A module with the brackets of these shapes, as one that is written has them."""
    return "\n\n".join([modules.PRELUDE, one_input.source(activation, shapes)])


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
