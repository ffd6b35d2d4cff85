"""The one exception for bad input: it names the argument, what came and what was wanted."""

from __future__ import annotations


class InputError(ValueError):
    """An argument that cannot be used: `argument` got `got`, where `wanted` was wanted."""

    def __init__(self, argument: str, got: object, wanted: str) -> None:
        super().__init__(f"{argument}: got {got!r}; wanted {wanted}")
        self.argument, self.got, self.wanted = argument, got, wanted

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        return type(self), (self.argument, self.got, self.wanted)
