"""One of the several outputs of a model, as a policy and its value are, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from derive.errors import InputError


def named(returned: Any) -> dict[str, Any]:
    """The outputs of a model by names: keys, fields and places, with a dot between those of parts.

    >>> named({"policy": 1, "value": (2, None)})
    {'policy': 1, 'value.0': 2}
    >>> named(3)
    {'': 3}

    Raises InputError for two of one name, as {"a": (1, 2), "a.0": 3} has them.
    """
    if isinstance(returned, Mapping):
        parts = [(str(key), each) for key, each in returned.items()]
    elif isinstance(returned, tuple | list):
        fields = getattr(returned, "_fields", range(len(returned)))
        parts = [(str(key), each) for key, each in zip(fields, returned, strict=True)]
    else:
        return {} if returned is None else {"": returned}
    found: dict[str, Any] = {}
    for key, part in parts:
        for inner, each in named(part).items():
            name = f"{key}.{inner}" if inner else key
            if name in found:
                wanted = "outputs of different names"
                raise InputError("model", f"two that are called {name}", wanted)
            found[name] = each
    return found


LAST = "[:, -1]"
"""Behind the name of an output: its part at the last position."""


def chosen(returned: Any, output: str | None) -> Any:
    """The output of this name; the only one by default.

    With "[:, -1]" behind its name, or alone, it is the part at the last position.

    Raises InputError for a name that is none of them, and for several without a name.

    >>> chosen({"policy": 1, "value": 2}, "value")
    2
    >>> chosen((1, 2), None)
    Traceback (most recent call last):
    ...
    derive.errors.InputError: output: got None; wanted the one of the model's outputs that is
    meant: 0, 1
    """
    if output and output.endswith(LAST):
        return chosen(returned, output.removesuffix(LAST) or None)[:, -1]
    found = named(returned)
    if output is None and len(found) == 1:
        return next(iter(found.values()))
    if not output or output not in found:
        if list(found) == [""]:
            raise InputError("output", output, "None for a model of one output")
        names = ", ".join(found) or "it has none"
        wanted = f"the one of the model's outputs that is meant: {names}"
        raise InputError("output", output, wanted)
    return found[output]
