"""Faces of packages whose names are imported when they are asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Mapping
from importlib import import_module
from typing import Any


def face(
    package: str, homes: Mapping[str, str], modules: Container[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package: so that a name brings what it rests on, and no more.

    Arguments:
        package: its name.
        homes: the module in it that has each name.
        modules: those of its modules that are names themselves.
    """

    def found(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
