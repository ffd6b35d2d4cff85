"""The docstrings of the public names: what is missing is counted, by `inspect` and `ast`.

A function of a face says four things. Its arguments, from two on, are named in an `Arguments:`
section; where it, or what checks for it, raises InputError, it says so ("Raises"); an example shows
it (`>>>`, run by `tests/test_docs.py`); and it names its source: one of the five by its number, a
year, "Derived here", "By definition", "this library's own", or the mark `rests_on`. A class has a
docstring that names its fields, from two on. Exceptions are let off.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap

import pytest
from keyword_groups import parameters

from derive.citations import rests_on
from derive.errors import InputError, as_integer

FACES = (
    "derive",
    "derive.activations",
    "derive.batchnorm",
    "derive.deep",
    "derive.exact",
    "derive.layers",
    "derive.linear",
    "derive.propagation",
    "derive.spectra",
    "derive.symbols",
    "derive.training",
    "numeric",
    "numeric.deep",
    "numeric.init",
    "numeric.propagation",
    "numeric.spectra",
    "numeric.testing",
    "numeric.training",
)
CHECKS = ("derive.errors", "derive.expressions", "derive.work.resources", "numeric.checks")
"""Where arguments are checked for others."""

SOURCE = re.compile(
    r"\b00[0-4]\b|\b(19|20)\d\d\b|[Dd]erived here|[Bb]y definition|this library's own"
)


def public(face):
    """The functions and classes of a face, by their names."""
    module = importlib.import_module(face)
    if hasattr(module, "__all__"):
        found = {name: getattr(module, name) for name in module.__all__}
    else:
        found = {
            name: value
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == face
        }
    return {
        f"{face}.{name}": value
        for name, value in found.items()
        if inspect.isroutine(inspect.unwrap(value)) or _is_a_class(value)
    }


def _is_a_class(value):
    return inspect.isclass(value) and not issubclass(value, Exception)


def arguments(value):
    """The names of a function's arguments, the fields that make a class."""
    if inspect.isclass(value):
        if dataclasses.is_dataclass(value):
            return [each.name for each in dataclasses.fields(value) if each.init]
        return list(getattr(value, "_fields", ()))
    return list(parameters(value))


def section(text, *titles):
    """The lines below one of the titles, as one text."""
    found = re.search(rf"^({'|'.join(titles)}):\n((?:[ ]+.*\n?|\n)+)", text, re.MULTILINE)
    return found[2] if found else ""


def unnamed(value):
    """Arguments, where there are two or more, that the docstring's section does not name."""
    wanted = arguments(value)
    if len(wanted) < 2:
        return []
    titles = ("Attributes", "Arguments") if inspect.isclass(value) else ("Arguments",)
    heads = re.findall(r"^ {4}((?:\*?\w+, )*\*{0,2}\w+):", section(_doc(value), *titles), re.M)
    named = {name.strip(" *") for head in heads for name in head.split(",")}
    return [name for name in wanted if name not in named]


def raises(function, seen=()):
    """Whether a function raises InputError: itself, or by what it calls to check."""
    function = inspect.unwrap(function)
    tree = _tree(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and "InputError(" in ast.unparse(node):
            return True
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        called = inspect.unwrap(function.__globals__.get(node.func.id))
        checks = inspect.isfunction(called) and called.__module__ in (function.__module__, *CHECKS)
        if checks and called not in seen and raises(called, (*seen, function)):
            return True
    return False


def is_marked(function):
    """Whether `rests_on` marks a function."""
    definition = _tree(inspect.unwrap(function)).body[0]
    return any("rests_on(" in ast.unparse(each) for each in definition.decorator_list)


def _tree(function):
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _doc(value):
    return inspect.getdoc(value) if value.__doc__ else ""


def missing(value):
    """What a docstring does not say."""
    text = _doc(value)
    found = [] if text else ["a docstring"]
    found += [f"`{name}` among its arguments" for name in unnamed(value)]
    if inspect.isclass(value):
        return found
    found += ["what it raises"] if raises(value) and "Raises" not in text else []
    found += [] if ">>> " in text else ["an example"]
    return found + ([] if SOURCE.search(text) or is_marked(value) else ["its source"])


@pytest.mark.parametrize("face", FACES)
def test_nothing_is_missing(face):
    names = public(face)
    assert names
    lacks = {name: each for name, value in names.items() if (each := missing(value))}
    told = "\n".join(f"{name}: {', '.join(each)}" for name, each in lacks.items())
    assert not lacks, f"{len(lacks)} of {len(names)} docstrings lack something\n{told}"


def _checked(number):
    return as_integer("number", number, 0)


def bare(number, other):
    """A number."""
    return _checked(number) + other


@rests_on("day2025")
def full(number, other):
    """The sum of two numbers.

    Arguments:
        number, other: whole numbers.

    Raises InputError for a negative number.

    >>> full(1, 2)
    3
    """
    if other < 0:
        raise InputError("other", other, "0 or more")
    return _checked(number) + other


def test_what_is_missing_is_found():
    assert missing(full) == []
    assert missing(bare) == [
        "`number` among its arguments",
        "`other` among its arguments",
        "what it raises",
        "an example",
        "its source",
    ]
    assert not raises(missing)
