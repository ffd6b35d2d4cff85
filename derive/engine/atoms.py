"""The atoms of recursions, told apart in one place.

The monomials of a recursion multiply hyperparameters, numbers, tensors, Gaussian brackets and
functions of collective variables. Code that turns a recursion into something else states with
`read` what becomes of each kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..arithmetic.parameters import Parameter, Value
from ..arithmetic.polynomials import Monomial
from ..gaussian.brackets import Bracket
from .score_averages import ScoreAverage
from .tensors import Tensor
from .through import Response, Weighting

T = TypeVar("T")

_KINDS = Parameter, Value, Tensor, Bracket, Response, Weighting
_PLACES = {kind: place for place, kind in enumerate(_KINDS)} | {ScoreAverage: len(_KINDS) - 1}
"""Of the kinds among the functions that `read` is given, which it is called with very often."""


def read(
    atom: object,
    *,
    parameter: Callable[[Parameter], T] | None = None,
    value: Callable[[Value], T] | None = None,
    tensor: Callable[[Tensor], T] | None = None,
    bracket: Callable[[Bracket], T] | None = None,
    response: Callable[[Response], T] | None = None,
    weighting: Callable[[Any], T] | None = None,
    other: Callable[[Any], T] | None = None,
) -> T:
    """The function for this atom's kind at the atom; `other` for a kind without a function.

    Raises TypeError if there is none.
    """
    functions = parameter, value, tensor, bracket, response, weighting, None
    function: Callable[[Any], T] | None = functions[_PLACES.get(type(atom), -1)] or other
    if function is None:
        raise TypeError(f"an atom of another kind: {atom!r}")
    return function(atom)


def parameter_name(atom: object) -> str:
    """The name of a hyperparameter; "" of an atom of another kind."""
    return read(atom, parameter=lambda own: own.name, other=lambda _: "")


def relabelled(atom: object, label: Callable[[int], int]) -> Any:
    """The atom with these labels of its samples; representatives stay what they are if the labels
    keep their order."""

    def moved(own: Any) -> Any:
        return own.relabelled(label)

    return read(
        atom,
        tensor=moved,
        bracket=moved,
        response=moved,
        weighting=moved,
        other=lambda own: own,
    )


def with_labels(mono: Monomial, label: Callable[[int], int]) -> Monomial:
    """The monomial with its atoms `relabelled`."""
    return frozenset((relabelled(atom, label), exponent) for atom, exponent in mono)
