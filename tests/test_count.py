"""`tests/count.py` counts what it says it counts."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def count():
    path = Path(__file__).with_name("count.py")
    spec = importlib.util.spec_from_file_location("count", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """
def kinds(net, first_weights=None):
    if net.layer.is_dense and not net.keeps_rotations:
        return [each for each in net if each.positions]
    names = net.layer.positions
    return 1 if (
        first_weights
    ) else names
"""


def test_branches_are_conditions_alone(count):
    assert count.branches_in(SOURCE) == 3
    assert count.branches_in("positions = net.positions\nfirst_layer(net)") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@cache", False),
        ("@cache(entries=8)", False),
        ('@constant("one symbol")', True),
        ("@functools.cache", True),
        ("@lru_cache(maxsize=None)", True),
        ("@lru_cache(None)", True),
        ("@lru_cache(maxsize=8)", False),
        ("@lru_cache", False),
        ("@cached_property", False),
    ],
)
def test_caches_without_a_bound(count, text, expected):
    (function,) = ast.parse(f"{text}\ndef f(x): return x").body
    assert any(map(count.unbounded, function.decorator_list)) is expected
    assert count.takes_arguments(function)


def test_a_body_is_counted_without_its_docstring(count):
    (function,) = ast.parse('def f():\n    """One.\n\n    Two."""\n    x = 1\n    return x').body
    assert count.body_length(function) == 2
    assert not count.takes_arguments(function)


def test_tests_on_atoms_are_those_of_the_engine(count):
    text = """
from derive.engine.tensors import Tensor
from ...gaussian.brackets import Bracket
from .tracing import Parameter
if isinstance(x, Tensor | int) or type(x) is Bracket or isinstance(x, Parameter):
    tensors = x.atoms(Tensor)
match x:
    case Tensor():
        pass
"""
    assert count.atom_tests_in(text) == 3


@pytest.mark.slow
def test_one_file_tells_atoms_apart(count):
    """`derive.engine.atoms.read` does; a bracket may also be given by a user (`kernel_form`), and
    sums over positions have tensors between averages over scores (`pooled`)."""
    allowed = {"derive/gaussian/kernel_form.py", "numeric/layers/pooled.py"}
    assert count.atom_tests().keys() <= allowed


@pytest.mark.slow
def test_the_numbers_of_the_source_add_up(count, capsys):
    count.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    for name in ("branches", "mentions"):
        total = found[f"kind of network, {name}"]
        assert total == sum(found[f"kind of network, {name} by file"].values()) > 0
    assert found["unbounded caches"] >= found["unbounded caches with arguments"]


IMPORTS = (
    "import derive.groups.sums",
    "from derive import Network, groups",
    "from derive.errors import InputError",
    "from derive.groups import Partition, sums",
    "from derive.groups.pairings import (\n    Blocks,\n    loops,\n)",
    "    from numeric.flows import _layers, flow",
)


def test_imports_past_a_face_are_internal(count):
    assert count.internal_in("\n".join(IMPORTS)) == [
        "derive.groups.pairings.Blocks",
        "derive.groups.pairings.loops",
        "derive.groups.sums",
        "derive.groups.sums",
        "numeric.flows._layers",
    ]


def test_few_files_of_tests_import_internals(count):
    """A change inside a room should break few tests: import from its face (CONTRIBUTING)."""
    assert len(count.internal_imports()) <= 60
