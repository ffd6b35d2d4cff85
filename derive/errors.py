"""The one exception for bad input: it names the argument, what came and what was wanted."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

_LONGEST = 200


class Words(str):
    """A description of a value, shown without quotes. A user's own text is shown with quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class InputError(ValueError):
    """An argument that cannot be used: `argument` got `got`, where `wanted` was wanted.

    What is long is shown in part; `got` is all of it.
    """

    def __init__(self, argument: str, got: object, wanted: str) -> None:
        super().__init__(f"{argument}: got {_shown(got)}; wanted {wanted}")
        self.argument, self.got, self.wanted = argument, got, wanted

    def __reduce__(self) -> tuple[type, tuple[str, object, str]]:
        return type(self), (self.argument, self.got, self.wanted)


_MEANT = {
    "bias": "C_b",
    "biases": "C_b",
    "epochs": "steps",
    "gain": "C_W",
    "group": "law",
    "hidden": "widths",
    "L": "depth",
    "law": "group",
    "layers": "depth",
    "learning_rate": "eta",
    "lr": "eta",
    "n": "width",
    "n_jobs": "executor",
    "networks": "draws",
    "norm": "layer",
    "orthogonal": "O",
    "q": "q_star",
    "random_state": "seed",
    "samples": "draws",
    "sigma": "activation",
    "skip": "layer",
    "symplectic": "Sp",
    "unitary": "U",
    "x": "inputs",
    "y": "targets",
}
"""Names of other libraries and papers, and what they are called here."""


def did_you_mean(given: str, names: Iterable[str]) -> str:
    """A suggestion for the end of an error: the name nearest to the given one, if one is near.

    >>> did_you_mean("Tahn", ["relu", "tanh"]), did_you_mean("bias", ["C_b", "widths"])
    ('; did you mean "tanh"?', '; did you mean "C_b"?')
    """
    by_letters = {name.lower(): name for name in names}
    meant = _MEANT.get(given, "").lower()
    near = [each for each in (meant, f"{meant}s") if meant and each in by_letters]
    near = near or get_close_matches(given.lower(), by_letters, n=1)
    return f'; did you mean "{by_letters[near[0]]}"?' if near else ""


def check_names(given: Mapping[str, Any], known: Iterable[str]) -> None:
    """InputError for a keyword argument that is none of the known ones.

    >>> check_names({"progres": True}, ["run", "progress"])
    Traceback (most recent call last):
        ...
    derive.errors.InputError: progres: got True; wanted one of the arguments run, progress; ...
    """
    names = list(known)
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            if name == "C_W" and "weights" in names:
                hint = "; C_W belongs to the weights, as in weights=Orthogonal(C_W=2)"
            if name == "gain" and "C_W" in names:
                hint = '; did you mean "C_W"? It is the gain squared'
            wanted = f"one of the arguments {', '.join(names)}" if names else "no arguments"
            raise InputError(name, given[name], wanted + hint)


def as_sequence(argument: str, value: Iterable[Any], wanted: str) -> list[Any]:
    """The members of a list, tuple, array, …; InputError for text and for what has none."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InputError(argument, value, wanted)
    try:
        return list(value)
    except TypeError:  # an array without axes says that it is iterable
        raise InputError(argument, value, wanted) from None


def instance(argument: str, value: Any, kind: Any, wanted: str) -> Any:
    """The value, or an InputError unless it is of this class."""
    if not isinstance(value, kind):
        raise InputError(argument, value, wanted)
    return value


def flag(argument: str, value: Any) -> bool:
    """True or False, NumPy's included; InputError for anything else."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if not isinstance(value, bool) and (kind != "b" or value.ndim):
        raise InputError(argument, value, "True or False")
    return bool(value)


def as_integer(
    argument: str,
    value: object,
    least: int | None = None,
    most: int | None = None,
    wanted: str | None = None,
) -> int:
    """An integer between `least` and `most`, NumPy's and sympy's integers included, as an `int`.

    Raises:
        InputError: for anything else, True and False among it.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    too_small = number is not None and least is not None and number < least
    too_large = number is not None and most is not None and number > most
    if number is None or too_small or too_large:
        raise InputError(argument, value, wanted or _range(least, most))
    return number


def check_installed(argument: str, extra: str, *modules: str) -> None:
    """InputError where one of an extra's modules is missing: it names them and the extra.

    Arguments:
        argument: what asked for them, such as "--plot".
        extra: the name in `wickgarten[…]` that brings them.
        modules: as they are imported.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        wanted = f"{', '.join(missing)} installed, by pip install 'wickgarten[{extra}]'"
        raise InputError(argument, None, wanted)


def _range(least: int | None, most: int | None) -> str:
    if least is None:
        return "an integer" if most is None else f"an integer, {most} or less"
    return f"an integer, {least} or more" if most is None else f"an integer, {least} to {most}"


def _shown(got: object) -> str:
    try:
        text = repr(got)
    except Exception as error:  # a user's own __repr__, or an int too long for a decimal
        text = f"a {type(got).__name__} that cannot be shown ({error})"
    if "\n" in text:  # an object that shows itself over several lines
        text = " ".join(text.split())
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 4 :]}"
