"""The one exception for bad input: it names the argument, what came and what was wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_LONGEST = 200


class InputError(ValueError):
    """An argument that cannot be used: `argument` got `got`, where `wanted` was wanted.

    What is long is shown in part; `got` is all of it.
    """

    def __init__(self, argument: str, got: object, wanted: str) -> None:
        super().__init__(f"{argument}: got {_shown(got)}; wanted {wanted}")
        self.argument, self.got, self.wanted = argument, got, wanted

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        return type(self), (self.argument, self.got, self.wanted)


def listed(argument: str, value: Iterable[Any], wanted: str) -> list[Any]:
    """The members of a list, tuple, array, …; InputError for text and for what has none."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InputError(argument, value, wanted)
    return list(value)


def _shown(got: object) -> str:
    text = repr(got)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 4 :]}"
