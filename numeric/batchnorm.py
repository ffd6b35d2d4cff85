"""Deprecated: the chain of source 003 is part of the book, `derivations.daneshmand.ensembles`.

Batch normalization in any network is `layers.batchnorm`, with `numeric.simulate` and `flow`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

_NAMES = ("Chain", "explicit_grams", "gaps", "grams", "simulate", "smallest_eigenvalues")
_HOME = "derivations.daneshmand.ensembles"


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is part of {_HOME}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(_HOME), name)


def __dir__() -> list[str]:
    return sorted(_NAMES)
