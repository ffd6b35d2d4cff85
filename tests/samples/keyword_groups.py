"""The arguments of a function, with those of a group such as `**running: Unpack[Running]`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

SWITCHES = {"half", "ntk", "antithetic"}
"""Members of a group that are True by default."""


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that a caller may use, and their defaults."""
    found: dict[str, Any] = {}
    for name, each in inspect.signature(function).parameters.items():
        found |= group(function, each) or {name: each.default}
    return found


def group(function: Callable[..., Any], parameter: inspect.Parameter) -> Mapping[str, Any]:
    """The members of a keyword group and their defaults; none of another parameter."""
    text = re.fullmatch(r"Unpack\[([\w.]+)\]", str(parameter.annotation))
    if text is None:
        return {}
    kind = eval(text[1], inspect.unwrap(function).__globals__)
    flags = {name for name, each in kind.__annotations__.items() if "bool" in str(each)}
    return {name: name in SWITCHES if name in flags else None for name in kind.__annotations__}
