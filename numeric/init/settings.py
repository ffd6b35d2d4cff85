"""The settings of an initialization, parameter by parameter, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """The initialization of one parameter.

    Attributes:
        name: of the parameter, as `named_parameters` has it.
        shape: its shape.
        law: what it was drawn from, "0", "1", or "left as it was".
        reason: why.
    """

    name: str
    shape: tuple[int, ...]
    law: str
    reason: str


@dataclass(frozen=True, repr=False)
class Initialized:
    """The result of `torch_`: its `str` has a line for each parameter, then the reasons.

    Attributes:
        settings: a `Setting` for each parameter, in their order.
    """

    settings: tuple[Setting, ...]

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)

    def __getitem__(self, name: str) -> Setting:
        """That of a parameter, by its name; KeyError where there is none."""
        return {each.name: each for each in self.settings}[name]

    @property
    def left(self) -> tuple[str, ...]:
        """The parameters that are as they were."""
        return tuple(each.name for each in self.settings if each.law == LEFT)

    def __str__(self) -> str:
        reasons = list(dict.fromkeys(each.reason for each in self.settings))
        rows = [
            (each.name, str(each.shape), each.law, f"[{1 + reasons.index(each.reason)}]")
            for each in self.settings
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([*lines, *(f"[{k}] {each}" for k, each in enumerate(reasons, 1))])

    __repr__ = __str__


LEFT = "left as it was"
