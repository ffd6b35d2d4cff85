"""Ensembles from text: "gaussian", "orthogonal(C_W=2)", "sparse(0.1)"."""

from __future__ import annotations

import inspect
import re
from numbers import Real

import sympy

from ..errors import InputError, did_you_mean
from ..expressions import parse_number, parts
from .laws import Rademacher, Sparse, StudentT, TruncatedNormal, Uniform
from .permuted import RegularSparse
from .rotations import (
    BiInvariant,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    Truncated,
    WeightEnsemble,
)

_CLASSES: tuple[type[WeightEnsemble], ...] = (
    Gaussian, Orthogonal, Uniform, Rademacher, TruncatedNormal, Sparse, RegularSparse, StudentT,
    LowRankGaussian, LowRankOrthogonal, Truncated, BiInvariant,
)  # fmt: skip
_LONGEST = 200
_NUMBER = (Real, sympy.Expr)


def _plain(name: str) -> str:
    """The common spelling of LowRankGaussian and low-rank-gaussian."""
    return re.sub(r"[\s_-]", "", name).lower()


_NAMED = {_plain(law.__name__): law for law in _CLASSES} | {
    "student": StudentT, "normal": Gaussian, "haar": Orthogonal,
}  # fmt: skip
_AUTHORS = {"he": 2, "kaiming": 2, "xavier": 1, "glorot": 1, "lecun": 1}
"""C_W of the initializations that are called by an author, at equal widths."""
_WANTED = (
    'a weight ensemble such as Orthogonal(C_W=2), or its text: "gaussian", "orthogonal", '
    '"uniform", "rademacher", "truncated-normal", "sparse(0.1)", "regular-sparse(0.1)", '
    '"student(5)", "low-rank-gaussian(gamma=1/2)", "low-rank-orthogonal(gamma=1/2)", '
    '"truncated(ratio=2)" or "bi-invariant(moments=(1, 2))", each also with C_W=…'
)


def as_weights(argument: str, value: object, C_W: object = None) -> WeightEnsemble:
    """The ensemble, read from text if necessary: "uniform", "sparse(0.1)", "orthogonal(C_W=2)".

    The text has the form that `str` of an ensemble gives; the class's name may have any spelling. A
    value without a name is the first parameter other than C_W.

    Arguments:
        argument: the name of the argument, for errors.
        C_W: the variance if the text has none. Without both, C_W is 1 and counts as not given.

    Raises:
        InputError: for any other value; it suggests the nearest name.
    """
    if isinstance(value, WeightEnsemble):
        return value
    if isinstance(value, str):
        return _of_text(argument, value, C_W)
    hint = f"; to set a variance, write C_W={value}" if isinstance(value, _NUMBER) else ""
    raise InputError(argument, value, f"{_WANTED}{hint}")


def _of_text(argument: str, text: str, C_W: object) -> WeightEnsemble:
    name, parenthesis, inside = text.strip().partition("(")
    law = _NAMED.get(_plain(name))
    if law is None or len(text) > _LONGEST or inside.endswith(")") != bool(parenthesis):
        known = re.findall(r'"([a-z-]+)', _WANTED)
        hint = _framework(_plain(name)) or did_you_mean(name.strip().lower(), known)
        raise InputError(argument, text, f"{_WANTED}{hint}")
    own = inspect.signature(law).parameters
    free = (each for each in own if each != "C_W")
    given: dict[str, object] = {}
    for part in parts(inside[:-1]):
        named = re.fullmatch(r"\s*(\w+)\s*=(.*)", part)
        key, value = named.groups() if named else (next(free, ""), part)
        if key not in own or key in given:
            break
        given[key] = _value(argument, value.strip())
    else:
        if C_W is not None:
            given.setdefault("C_W", C_W)
        if all(each.default is not each.empty or key in given for key, each in own.items()):
            return law(**given)
    raise InputError(argument, text, f"{name}({', '.join(f'{key}=…' for key in own)})")


def _framework(name: str) -> str:
    """The law and variance that an initialization of torch, JAX or Keras means, for an error."""
    meant = re.fullmatch(f"({'|'.join(_AUTHORS)})(normal|uniform|)", name)
    if meant is None:
        return ""
    text = f"{meant[2].replace('normal', '') or 'gaussian'}(C_W={_AUTHORS[meant[1]]})"
    return f'; did you mean "{text}"? For other activations numeric.init.gain gives √C_W'


def _value(argument: str, text: str) -> object:
    """A number, numbers in parentheses, an ensemble, or None."""
    if text == "None" or _plain(text.partition("(")[0]) in _NAMED:
        return None if text == "None" else as_weights(argument, text)
    if text.startswith("(") and text.endswith(")") and "," in text:
        return tuple(parse_number(argument, part) for part in parts(text[1:-1]))
    return parse_number(argument, text)
