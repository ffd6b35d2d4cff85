"""Every argument that is given is used or refused.

`argument_table` has a second value for each argument of each public function. With it a call has
another result, or is refused by that argument's name. An argument without a second value fails, so
that a new one needs its line.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy
import xarray
from argument_table import SLOW, TABLE, VIEWS, Apart, Own, Same, With, tables
from keyword_groups import parameters

import derive
import numeric
from derivations.daneshmand import ensembles
from derivations.daneshmand.descent import train
from derivations.training.curves import curves
from derive import InputError, WeightEnsemble
from derive.depth import asymptotics
from derive.spectra import Law
from numeric.spectra import Spectrum

MADE = {derive.Activation, derive.Equation, derive.Network, derive.layers.Layer}
"""Classes that a user makes, beside ensembles. Others are what functions return."""
FACES = (derive, numeric)
MOST = 12
"""Arguments of a public function; a group counts as one."""


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions of both rooms and of their public modules, each by its first name."""
    found: dict[Any, str] = {}
    modules = [
        *FACES,
        *(each for face in FACES for each in members(face) if inspect.ismodule(each)),
    ]
    for module in modules:
        for name in module.__all__:
            value = getattr(module, name)
            if is_called(value) and value not in found:
                found[value] = f"{module.__name__}.{name}"
    return {name: value for value, name in found.items()}


def members(module: Any) -> Iterator[Any]:
    return (getattr(module, name) for name in module.__all__)


def is_called(value: Any) -> bool:
    if not inspect.isclass(value):
        return inspect.isroutine(value)
    is_law = issubclass(value, WeightEnsemble) and not inspect.isabstract(value)
    return value in MADE or is_law


METHODS = {
    "Network.critical": derive.Network.critical,
    "Recursion.asymptotics": asymptotics,
    **{
        f"Recursion.{each}": getattr(derive.Recursion, each)
        for each in ("kernel_form", "latex", "specialise")
    },
    **{
        f"Spectrum.{each}": getattr(Spectrum, each)
        for each in ("cumulative", "curve", "density", "moments", "table")
    },
}
"""Those that take more than themselves, of what the functions return."""
TRAINERS = {
    "derivations.batchnorm.train": train,
    **{f"derivations.ensembles.{each}": getattr(ensembles, each) for each in ("grams", "simulate")},
    "derivations.training.curves": curves,
}
"""Those of the book, which are called from scripts too."""
FUNCTIONS = functions() | METHODS | TRAINERS
PLACES = [
    pytest.param(name, argument, marks=pytest.mark.slow if (name, argument) in SLOW else ())
    for name, (_, others) in TABLE.items()
    if not isinstance(others, Apart)
    for argument, value in others.items()
    if not isinstance(value, Apart)
]


def test_the_table_has_every_function_and_nothing_else() -> None:
    assert TABLE.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in TABLE])
def test_the_table_has_every_argument_and_nothing_else(name: str) -> None:
    others = TABLE[name][1]
    if not isinstance(others, Apart):
        assert others.keys() == parameters(FUNCTIONS[name]).keys()


ANY_NAME = {"derive.layers.Layer", "derive.layers.transformer"}
"""Those that hand further names on: to equations, and to `attention`."""


@pytest.mark.parametrize("name", sorted(functions().keys() - ANY_NAME))
def test_an_unknown_argument_is_refused_by_name(name: str) -> None:
    function = FUNCTIONS[name]
    with pytest.raises(InputError, match=r"^no_such: got 1; wanted (one of the|no) arguments"):
        function(no_such=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: derive.recursion("V", C_W=2), r"C_W: .*weights=Orthogonal\(C_W=2\)"),
        (lambda: derive.Network("tanh", bias=1), 'bias: .* did you mean "C_b"'),
        (lambda: derive.Orthogonal(c_w=2), 'c_w: .* did you mean "C_W"'),
        (lambda: numeric.simulate(lr=1, width=3), "lr: got 1; wanted .* inputs, .*, progress"),
        (lambda: numeric.training.simulate(lr=1), 'lr: .* did you mean "eta"'),
        (lambda: derive.recursion("V").single_input(x=1), "x: got 1; wanted no arguments"),
        (lambda: derive.layers.dense().read_by(x=1), "x: got 1; wanted .* readouts"),
    ],
)
def test_an_unknown_argument_has_a_suggestion(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        call()
    assert raised.value.__context__ is None


def test_a_type_error_of_known_arguments_is_pythons_own() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'tensor_name'"):
        derive.recursion(order=0)


def test_public_functions_can_be_pickled() -> None:
    for function in functions().values():
        assert pickle.loads(pickle.dumps(function)) is function


def test_no_signature_is_long() -> None:
    """Arguments that go together are a group, such as `**running: Unpack[Running]`."""
    public = FUNCTIONS.keys() - TRAINERS
    sizes = {name: len(inspect.signature(FUNCTIONS[name]).parameters) for name in public}
    assert {name: size for name, size in sizes.items() if size > MOST} == {}


@pytest.mark.filterwarnings("ignore:.* is called :DeprecationWarning")
@pytest.mark.parametrize(("name", "argument"), PLACES)
def test_an_argument_is_used_or_refused(name: str, argument: str, tmp_path: Path) -> None:
    base, others = TABLE[name]
    other = others[argument]
    given = dict(base)
    is_shared = not (
        isinstance(other, With) or any(isinstance(each, Own) for each in base.values())
    )
    if isinstance(other, With):
        given |= other.beside
        other = other.value
    value = other.value if isinstance(other, Same) else other
    first = by_default(name) if is_shared else seen(called(name, given, tmp_path))
    second = seen(called_or_refused(name, given | {argument: value}, tmp_path))
    if isinstance(second, Refusal):
        assert second.argument == argument
        assert not isinstance(other, Same)
    else:
        assert agree(first, second) == isinstance(other, Same)


@cache
def by_default(name: str) -> Any:
    """The result of the table's call as it is, which all arguments are compared with."""
    return seen(called(name, TABLE[name][0], Path()))


class Refusal(NamedTuple):
    """Of which argument."""

    argument: str


def called_or_refused(name: str, given: Mapping[str, Any], place: Path) -> Any:
    try:
        return called(name, given, place)
    except InputError as refusal:
        return Refusal(refusal.argument)


def called(name: str, given: Mapping[str, Any], place: Path) -> Any:
    """The result, as it is looked at."""
    function = FUNCTIONS[name]
    named = {
        key: value.made(place) if isinstance(value, Own) else value for key, value in given.items()
    }
    for key, value in named.items():
        if isinstance(value, str) and value in tables():
            named[key] = tables()[value]
    many = [
        each.name
        for each in inspect.signature(function).parameters.values()
        if each.kind is each.VAR_POSITIONAL
    ]
    loose = [each for key in many for each in named.pop(key, ())]
    result = function(*loose, **named)
    return VIEWS.get(name, lambda found: found)(result)


def seen(value: Any) -> Any:
    """What is compared of a result: numbers, and text of what has none."""
    if isinstance(value, Refusal):
        return value
    if isinstance(value, xarray.Dataset):
        return {str(name): value[name].to_numpy() for name in value.variables}
    if isinstance(value, Spectrum):
        return value.moments(3)
    if isinstance(value, Law):
        return [value.moment(k) for k in (1, 2, 3)]
    if isinstance(value, Mapping):
        return {str(key): seen(each) for key, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [seen(each) for each in value]
    if isinstance(value, np.ndarray | sympy.Basic | float | int):
        return value
    return repr(value)


def agree(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        nans = {one.dtype.kind, other.dtype.kind} <= set("fc")
        return bool(np.array_equal(one, other, equal_nan=nans))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(agree(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(agree, one, other))
    return bool(one == other)
