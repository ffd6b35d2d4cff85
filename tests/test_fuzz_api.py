"""Whatever a public function is given, it answers with finite numbers or an InputError, and soon.

The functions of `derive`, `numeric` and their faces; the classes that a user makes. Those that are
only returned (`Edge`, `Law`, …) are left out.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import typing
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sympy
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from keyword_groups import group
from sample_fuzz import FUZZING, crash
from sample_watch import HangError, watched

import derive
import numeric
from derive import Gaussian, InputError, Network, Orthogonal, activations, recursion

LINEAR = activations.linear
NET = Network(LINEAR)
RELU = activations.relu
RETURNED = {"InputError", "Recursion", "WeightEnsemble", "Comparison", "Study"}


@cache
def table():
    return numeric.flow(NET, [1.0, 2.0], 2, "K")


FACES = {
    "derive": derive,
    "activations": derive.activations,
    "batchnorm": derive.batchnorm,
    "deep": derive.deep,
    "exact": derive.exact,
    "linear": derive.linear,
    "propagation": derive.propagation,
    "spectra": derive.spectra,
    "numeric": numeric,
    "numeric.deep": numeric.deep,
    "numeric.init": numeric.init,
    "numeric.models": numeric.models,
    "numeric.spectra": numeric.spectra,
}
FUNCTIONS = {
    f"{face}.{name}": value
    for face, module in FACES.items()
    for name in module.__all__
    if callable(value := getattr(module, name))
    and name not in RETURNED
    and not inspect.isabstract(value)
    and not typing.get_origin(value)
    and not isinstance(value, activations.Activation | sympy.Basic)
    and (face in {"derive", "numeric"} or not inspect.isclass(value))
}


@cache
def good():
    """An argument by its name, where a function has no default for it."""
    return {
        "activation": LINEAR,
        "diffusion": derive.recursion(["z", "z"]).diffusion("sqrt(n)*tanh(z/sqrt(n))"),
        "ratio": 1,
        "a": sympy.Symbol("a"),
        **dict.fromkeys(("fourth", "row", "column", "apart"), sympy.Symbol("n") ** -2),
        "around": 0,
        "batch": 3,
        "c": 0.5,
        "C": np.eye(3),
        "coefficients": (0, 1),
        "cols": [1, 1],
        "count": 1,
        "depth": 2,
        "distribution": {4: 1},
        "draw": 0,
        "draws": 40,
        "eigenvalues": (1, 2),
        "epsilon": sympy.Symbol("epsilon"),
        "expr": "z*tanh(z)",
        "fields": ["z", "z"],
        "flowed": table(),
        "gamma": 0.5,
        "expression": sympy.Symbol("n") ** -1,
        "i": 0,
        "images": np.eye(6),
        "inputs": [1.0, 2.0],
        "k": 1,
        "kernel": (1.0, 0.5, 1.0),
        "kind": "smooth",
        "labels": range(6),
        "law": derive.spectra.jacobian(LINEAR, Orthogonal(), 2, 0.1),
        "layer": 2,
        "layers": [(LINEAR, Orthogonal(), 0.1)],
        "lengths": [1.0, 1.0],
        "m": 2,
        "made": recursion("K").single_input(),
        "model": "model",
        "module": None,
        "moment_count": 2,
        "moments": (1, 2),
        "n": 5,
        "n_in": 4,
        "n_out": 4,
        "neurons": (0, 0),
        "name": "K",
        "net": NET,
        "network": NET,
        "order": 1,
        "orders": (0, 0),
        "other": 2,
        "p": ((0, 1), (2, 3)),
        "pairs": 2,
        "partition": (2, 1),
        "point": 1 + 1j,
        "points": 4,
        "power": 2,
        "q": ((0, 2), (1, 3)),
        "q_first": 0.1,
        "q_star": 0.1,
        "random": sympy.MatrixSymbol("O", 2, 2),
        "words": sympy.MatrixSymbol("O", 2, 2),
        "rng": np.random.default_rng(0),
        "rows": [1, 1],
        "samples": (1, 1),
        "scale": 1,
        "sigma": 0.5,
        "sigma_alpha_sq": 1,
        "simulated": numeric.simulate(NET, [1.0, 2.0], 6, 2, 40, tensors="K"),
        "sigma0": 0.5,
        "slope": 0.1,
        "table": table(),
        "tensor_name": "K",
        "text": "tanh",
        "value": 1,
        "weights": Orthogonal(),
        "width": 6,
        "nu": 9,
        "widths": (4, 4),
        "x": (1.0, 2.0),
    }


OWN = {
    numeric.spectra.simulate: {"width": 6, "depth": 2, "draws": 4},
    derive.activations.sine: {"frequency": 2},
    derive.linear.cumulants: {"moments": (sympy.Integer(1), sympy.Integer(3))},
}
"""Arguments of a function that has another meaning for a name."""


class Strange:
    """Nothing that a number, a list or a text is."""

    def __repr__(self):
        return "Strange()"


def fails(*_):
    return 1 / 0


@cache
def odd():
    return [
        *(None, True, False, 0, 1, 2, 3, 7, -1, 2.5, 0.0, -0.5, math.nan, math.inf, -math.inf),
        *(1e308, 1e-320, 10**9, 10**30, 10**400, 2**63, 2**64, 1j, Fraction(1, 3), Decimal("0.1")),
        *(np.int8(3), np.int64(5), np.uint64(2**64 - 1), np.float32(0.5), np.float64("nan")),
        *(
            np.bool(True),
            np.str_("K"),
            np.datetime64("2020"),
            sympy.Symbol("q"),
            sympy.Rational(1, 3),
        ),
        *(sympy.oo, sympy.nan, sympy.zoo, sympy.I, sympy.Integer(4), sympy.pi, sympy.true),
        *("", " ", "nan", "z", "K", "x" * 5000, "a\0b", "é", "\ud800", "tanh", "O", "01 23", b"x"),
        *((), [], {}, set(), {"a": 1}, [1], (1, 2), [math.nan], [[1, 2], [3]], [None], range(3)),
        *(np.array(3.0), np.array([]), np.ones(3), np.ones((2, 2)), np.ones((2, 3, 4))),
        *(np.full(3, math.nan), np.array(["a"]), np.array([None]), np.zeros(2), np.full(2, 1e200)),
        *(
            np.ma.masked_array([1.0, 2.0], [True, False]),
            np.ma.masked,
            bytearray(3),
            memoryview(b"a"),
        ),
        *(Strange(), Strange, int, fails, lambda layer: layer, lambda: 1, lambda layer: "x"),
        *(
            Gaussian,
            Gaussian(),
            Orthogonal(2),
            LINEAR,
            RELU,
            NET,
            table(),
            recursion("V"),
            Path("no/x"),
        ),
    ]


def parameters(function):
    """The parameters that a caller names, and what they are where they are not odd."""
    found = {}
    for name, each in inspect.signature(function).parameters.items():
        found |= group(function, each)
        if each.kind in {each.VAR_KEYWORD, each.VAR_POSITIONAL} or name == "argument":
            continue
        required = each.default is each.empty
        found[name] = good()[name] if required and name in good() else each.default
    return found | OWN.get(function, {})


def plain(name):
    """The arguments of a plain call: those without a default."""
    named = parameters(FUNCTIONS[name])
    return {key: value for key, value in named.items() if value is not inspect.Parameter.empty}


@st.composite
def calls(draw):
    """A function, with one or two odd arguments."""
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    named = sorted(parameters(FUNCTIONS[name]))
    chosen = st.lists(st.sampled_from(named), min_size=1, max_size=2, unique=True)
    place = st.integers(0, len(odd()) - 1)
    return name, {key: draw(place) for key in draw(chosen)} if named else {}


def is_finite(value, depth=0):
    """Whether all numbers in an answer are finite."""
    if isinstance(value, float | complex | np.ndarray | np.number) and not isinstance(value, bool):
        array = np.asarray(value)
        return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
    if isinstance(value, sympy.Basic):
        return not value.has(sympy.nan, sympy.zoo)
    if isinstance(value, xarray.Dataset):
        return all(is_finite(value[each].to_numpy()) for each in value.data_vars)
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list | tuple | set) and depth < 3:
        return all(is_finite(each, depth + 1) for each in value)
    return True


def faults(name, changes):
    """What is wrong with the answer to a call, in words; None if it is right."""
    try:
        with watched():
            answer = FUNCTIONS[name](**(plain(name) | changes))
    except InputError as refusal:
        text = str(refusal)
        return None if refusal.argument and len(text) < 3000 else f"a long refusal: {text[:300]}"
    except (HangError, Exception) as error:
        return crash(error)
    return None if is_finite(answer) else f"not finite: {str(answer)[:300]}"


def check(call):
    name, places = call
    changes = {key: odd()[place] for key, place in places.items()}
    found = faults(name, changes)
    assert not found, f"{name}({str(changes)[:300]}): {found}"


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    with contextlib.chdir(tmp_path_factory.mktemp("fuzz")):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_plain_call_has_every_argument(name):
    """It is answered, or refused for what one of them has to be for this function."""
    given = parameters(FUNCTIONS[name]).values()
    assert not any(value is inspect.Parameter.empty for value in given)
    assert faults(name, {}) is None


@pytest.mark.filterwarnings("ignore:.* is called :DeprecationWarning")
@settings(FUZZING, max_examples=60)
@given(call=calls())
def test_calls(call):
    check(call)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* is called :DeprecationWarning")
@settings(FUZZING, max_examples=1500)
@given(call=calls())
def test_a_thousand_calls_and_more(call):
    check(call)
