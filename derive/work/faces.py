"""Faces of packages: public names, imported on demand, which refuse unknown keyword arguments."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from functools import wraps
from importlib import import_module
from types import FunctionType
from typing import Any

from ..errors import InputError, check_names

_MARK = "__names_checked__"


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
        home = import_module(f"{package}.{homes[name]}")
        for each in (each for each, where in homes.items() if where == homes[name]):
            setattr(sys.modules[package], each, _checked(getattr(home, each), package))
        return getattr(sys.modules[package], name)

    return found


def public(package: str) -> None:
    """Let `dir` show the names in a package's `__all__`, and let them refuse unknown arguments.

    Python's own TypeError does not say which arguments there are. The arguments are looked at only
    if a call fails. Classes are changed in place, functions in the package and where they are.
    """
    module: Any = sys.modules[package]
    module.__dir__ = lambda: sorted(module.__all__)
    for name in module.__all__:
        setattr(module, name, _checked(getattr(module, name), package))


def _checked(value: Any, package: str) -> Any:
    if isinstance(value, type):
        room = package.partition(".")[0]
        for kind in (each for each in value.__mro__ if each.__module__.startswith(f"{room}.")):
            for name, method in list(vars(kind).items()):
                named = name == "__init__" or not name.startswith("_")
                if named and isinstance(method, FunctionType):
                    setattr(kind, name, _checked(method, method.__module__))
        return value
    if not isinstance(value, FunctionType) or hasattr(value, _MARK):
        return value
    home: Any = sys.modules[value.__module__]
    before: Any = getattr(home, value.__name__, None)
    if hasattr(before, _MARK) and inspect.unwrap(before) is inspect.unwrap(value):
        return before

    @wraps(value)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return value(*args, **given)
        except (TypeError, InputError) as error:
            refused = error
        if isinstance(refused, TypeError) or refused.argument in given:
            check_names(given, _arguments(value, given))  # outside, so that it alone is shown
        raise refused

    setattr(call, _MARK, True)
    if before is value:  # so that it can be pickled
        setattr(home, value.__name__, call)
    return call


def _arguments(function: Callable[..., Any], given: Iterable[str]) -> list[str]:
    """The names of its keyword arguments, with those of a group; the given ones if it takes any."""
    found: list[str] = []
    for name, each in inspect.signature(function).parameters.items():
        if each.kind is each.VAR_KEYWORD:
            group = re.fullmatch(r"Unpack\[(?:(\w+)\.)?(\w+)\]", str(each.annotation))
            if group is None:
                return list(given)
            names = inspect.unwrap(function).__globals__
            names = vars(names[group[1]]) if group[1] else names
            found += names[group[2]].__annotations__
        elif each.kind not in (each.VAR_POSITIONAL, each.POSITIONAL_ONLY) and name != "self":
            found.append(name)
    return found
