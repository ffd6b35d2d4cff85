"""An ensemble as it is, or by its name: "gaussian", "uniform", "sparse(0.1)", "student(5)"."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..errors import InputError
from ..expressions import parse_number
from .laws import Rademacher, Sparse, StudentT, TruncatedNormal, Uniform
from .permuted import RegularSparse
from .rotations import Gaussian, Orthogonal, WeightEnsemble

PLAIN: dict[str, Callable[[], WeightEnsemble]] = {
    "gaussian": Gaussian,
    "orthogonal": Orthogonal,
    "uniform": Uniform,
    "rademacher": Rademacher,
    "truncated-normal": TruncatedNormal,
}
"""The ensembles that have all they need."""
OF_NUMBER: dict[str, Callable[[object], WeightEnsemble]] = {
    "sparse": Sparse,
    "regular-sparse": RegularSparse,
    "student": StudentT,
    "truncated-normal": TruncatedNormal,
}
"""The ensembles of one number, which stands in parentheses."""

_WANTED = (
    'a weight ensemble such as Orthogonal(C_W=1), or its name: "gaussian", "orthogonal", '
    '"uniform", "rademacher", "truncated-normal", "sparse(0.1)", '
    '"regular-sparse(0.1)" or "student(5)"'
)
_CALL = re.compile(r"\s*([a-z-]+)\s*(?:\(([^()]*)\))?\s*")


def as_weights(argument: str, value: object) -> WeightEnsemble:
    """An ensemble as it is, or by its name with C_W = 1, "uniform", "sparse(0.1)".

    Raises:
        InputError: for anything else, and for the name of an ensemble that has other parameters.
    """
    if isinstance(value, str):
        return _of_text(argument, value)
    if not isinstance(value, WeightEnsemble):
        raise InputError(argument, value, _WANTED)
    return value


def _of_text(argument: str, text: str) -> WeightEnsemble:
    match = _CALL.fullmatch(text) if len(text) <= 100 else None
    if match is not None:
        name, inside = match.groups()
        if inside is None and name in PLAIN:
            return PLAIN[name]()
        if inside is not None and name in OF_NUMBER:
            return OF_NUMBER[name](parse_number(argument, inside))
    raise InputError(argument, text, _WANTED)
