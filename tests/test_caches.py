"""Caches: one decorator, a bound, none on a method; and what is dropped comes back the same."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import derive
from derive import Network, Orthogonal, recursion
from derive.work import cache
from numeric import flow

ROOT = Path(__file__).parents[1]
DECORATORS = ROOT / "derive" / "work" / "caches.py"


def trees():
    """The modules that speak of caches."""
    for room in ("derive", "numeric", "derivations"):
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if path != DECORATORS and ("cache" in text or "@constant" in text):
                yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def uses_of_functools(tree):
    """The lines at which a module takes a cache from functools."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "functools":
            if {each.name for each in node.names} & {"cache", "lru_cache", "*"}:
                yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr in {"cache", "lru_cache"}:
            yield node.lineno


def cached_methods(tree):
    """The lines of methods with a cache."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                names = {
                    ast.unparse(decorator).split("(")[0].split(".")[-1]
                    for decorator in getattr(each, "decorator_list", [])
                }
                if names & {"cache", "lru_cache", "constant"}:
                    yield each.lineno


def reasons(tree):
    """The reason of each cache without a bound."""
    for node in ast.walk(tree):
        for each in getattr(node, "decorator_list", []):
            if isinstance(each, ast.Call) and ast.unparse(each.func) == "constant":
                yield ast.literal_eval(each.args[0])


def test_uses_of_functools_and_cached_methods_would_be_found():
    source = (
        "import functools\nfrom functools import lru_cache, partial\n"
        "class A:\n    @functools.lru_cache(maxsize=2)\n    def at(self): ...\n"
    )
    assert list(uses_of_functools(ast.parse(source))) == [2, 4]
    assert list(cached_methods(ast.parse(source))) == [5]


def test_caches_are_of_the_one_decorator_on_functions_with_a_bound_or_a_reason():
    given = []
    for name, tree in trees():
        assert not list(uses_of_functools(tree)), name
        assert not list(cached_methods(tree)), name
        given += reasons(tree)
    assert given
    assert all(len(each.split()) > 2 for each in given)


def test_a_dropped_value_is_computed_again():
    calls = []

    @cache(entries=2)
    def square(x):
        calls.append(x)
        return x * x

    assert [square(x) for x in (1, 2, 3, 3, 1)] == [1, 4, 9, 9, 1]
    assert calls == [1, 2, 3, 1]
    derive.clear_caches()
    assert square(1) == 1
    assert calls == [1, 2, 3, 1, 1]


def test_arrays_are_bounded_by_their_bytes():
    @cache(most_bytes=1000)
    def zeros(n):
        return {"values": [np.zeros(n)], "name": str(n)}

    for n in (50, 60, 70, 200, 10):
        assert zeros(n)["values"][0].size == n
    assert zeros.cache_info().currsize == 1  # 200 numbers alone are above the bound
    zeros(20)
    assert zeros.cache_info().currsize == 2
    for n, count in ((90, 3), (4, 4), (2, 1)):  # 960 bytes, 992, and 8 above the bound
        zeros(n)
        assert zeros.cache_info().currsize == count


@pytest.mark.parametrize("precision", [None, 20])
def test_results_are_the_same_after_the_caches_were_cleared(precision):
    net = Network("tanh", Orthogonal(C_W=1), C_b="1/8")

    def found():
        options = {} if precision is None else {"precision": precision}
        return recursion("V", weights=Orthogonal()), flow(net, [1.0, 0.5], 3, ["K", "V"], **options)

    equation, table = found()
    derive.clear_caches()
    again, other = found()
    assert again == equation
    assert again.single_input() == equation.single_input()
    assert other.identical(table)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of the process from /proc")
def test_a_long_session_levels_off():
    """A process that compiles kernels holds some 350 MB for them: those of the first session may,
    of the second all are there."""
    script = ROOT / "tests" / "samples" / "sample_session.py"
    words = [sys.executable, script, "2000"]
    for _ in range(2):
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
        refused, middle, end, most = map(float, done.stdout.split())
        if most < 600:
            break
    assert refused < 300
    assert end - middle < 50
    assert most < 600
