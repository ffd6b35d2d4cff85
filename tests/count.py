"""What a redesign has to bring down, counted: `python tests/count.py [--json] [--calls]`.

Lines by room, branches on the kind of network, `isinstance` tests on atoms, caches without a bound,
classes of samplers, files of tests that import past a room's face, and the median length of a
function.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
ROOMS = "derive", "numeric", "derivations", "tests"
PRODUCT = "derive", "numeric"
KIND = re.compile(
    r"is_dense|keeps_rotations|is_rotation_invariant|\.positions\b|\.readout\b|has_dropout|\.taps\b|\.keep\b"
    r"|first_weights|at_inputs|first_layer|\.tapped\b|\.readouts\b|\.masks\b"
    r"|\btaps\.moves\b|separates_equals"
)
"""What code asks a network for, to tell of what kind it is."""
ATOMS = {
    "Parameter": "derive.arithmetic.parameters",
    "Value": "derive.arithmetic.parameters",
    "Bracket": "derive.gaussian.brackets",
    "Tensor": "derive.engine.tensors",
    "Response": "derive.engine.through",
}
"""The kinds of atoms, and where they are defined. A parameter of somebody's model is none."""


def files(*rooms: str) -> Iterator[Path]:
    """The Python files of these rooms."""
    for room in rooms:
        yield from sorted((ROOT / room).rglob("*.py"))


def named(path: Path) -> str:
    """The file's path from the root."""
    return path.relative_to(ROOT).as_posix()


def lines(room: str) -> int:
    """All lines of a room's Python files, as `wc -l` counts them."""
    return sum(path.read_bytes().count(b"\n") for path in files(room))


def matches(pattern: re.Pattern[str]) -> dict[str, int]:
    """How often a pattern stands in each file of `derive` and `numeric` that has it."""
    counts = {
        named(path): len(pattern.findall(path.read_text("utf-8"))) for path in files(*PRODUCT)
    }
    return {name: count for name, count in counts.items() if count}


def atom_tests() -> dict[str, int]:
    """How often each file of `derive` and `numeric` asks of what kind an atom is."""
    found = {named(path): atom_tests_in(path.read_text("utf-8")) for path in files(*PRODUCT)}
    return {name: count for name, count in found.items() if count}


def atom_tests_in(source: str) -> int:
    """`isinstance` on atoms, comparisons of their type, and patterns of their class, in a source.

    Only names count that are imported from the module that defines the atom.
    """
    tree = ast.parse(source) if any(name in source for name in ATOMS) else ast.Module([], [])
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    known = {
        alias.asname or alias.name
        for node in imports
        for alias in node.names
        if alias.name in ATOMS
        and ATOMS[alias.name].endswith((node.module or "").removeprefix("derive."))
    }
    return sum(1 for node in ast.walk(tree) if _names(_asked(node)) & known)


def _asked(node: ast.AST) -> list[ast.expr]:
    """The classes that a node compares with."""
    if isinstance(node, ast.Call) and _name(node.func) == "isinstance":
        return node.args[1:]
    if isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
        return node.comparators
    return [node.cls] if isinstance(node, ast.MatchClass) else []


def _names(nodes: list[ast.expr]) -> set[str]:
    return {_name(each) for node in nodes for each in ast.walk(node) if isinstance(each, ast.expr)}


def branches() -> dict[str, int]:
    """How many branches on the kind of network each file of `derive` and `numeric` has."""
    counts = {named(path): branches_in(path.read_text("utf-8")) for path in files(*PRODUCT)}
    return {name: count for name, count in counts.items() if count}


def branches_in(source: str) -> int:
    """Lines of a source in which a condition asks for the kind of network.

    Conditions are those of `if`, `while`, `assert` and comprehensions, and Boolean operations.
    """
    tests = _conditions(ast.parse(source)) if KIND.search(source) else ()
    return len({test.lineno for test in tests if KIND.search(ast.unparse(test))})


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.BoolOp):
            yield node


def unbounded(decorator: ast.expr) -> bool:
    """True for `@constant(…)`, `@functools.cache` and `@lru_cache(maxsize=None)`.

    `@cache` is that of `derive.work.caches`, with a bound; `tests/test_caches.py` checks this.
    """
    if isinstance(decorator, ast.Call):
        sizes = [each.value for each in decorator.keywords if each.arg == "maxsize"]
        sizes += decorator.args
        none = any(isinstance(each, ast.Constant) and each.value is None for each in sizes)
        name = _name(decorator.func)
        return name == "constant" or (name == "lru_cache" and none)
    return isinstance(decorator, ast.Attribute) and decorator.attr == "cache"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def functions() -> Iterator[ast.FunctionDef]:
    """Every function and method of `derive` and `numeric`."""
    for path in files(*PRODUCT):
        tree = ast.parse(path.read_text("utf-8"))
        yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def takes_arguments(function: ast.FunctionDef) -> bool:
    """True if a cache of the function grows with what it is called with."""
    given = function.args
    return bool(given.args or given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg)


def body_length(function: ast.FunctionDef) -> int:
    """Lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def samplers() -> list[str]:
    """The classes of `numeric` whose name ends in `Sampler`."""
    return sorted(
        node.name
        for path in files("numeric")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Sampler")
    )


IMPORT = re.compile(
    r"^ *((?:from (?:derive|numeric)[\w.]* import (?:\([^)]*\)|.*)|import (?:derive|numeric).*))",
    re.M,
)
"""A statement that imports from the product. To parse the whole of each file takes seconds."""


def test_files() -> list[Path]:
    """The files of tests."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def internal_imports() -> dict[str, list[str]]:
    """The names that each file of tests imports from `derive` and `numeric` past their faces."""
    found = {named(path): internal_in(path.read_text("utf-8")) for path in test_files()}
    return {name: names for name, names in found.items() if names}


def internal_in(source: str) -> list[str]:
    """What a source imports that no face offers.

    A face is the `__init__` of a package right below `derive` or `numeric`, with its `__all__`.
    Modules that stand alone in a room offer all names without a leading underscore.
    """
    found = []
    for node in (ast.parse(match[1]).body[0] for match in IMPORT.finditer(source)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if _is_below(each.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and _is_product(node.module):
            found += [
                f"{node.module}.{each.name}"
                for each in node.names
                if _is_below(node.module) or not _is_offered(node.module, each.name)
            ]
    return sorted(found)


def _is_product(module: str) -> bool:
    return module.partition(".")[0] in PRODUCT


def _is_below(module: str) -> bool:
    return _is_product(module) and module.count(".") > 1


def _is_offered(module: str, name: str) -> bool:
    face = ROOT / module.replace(".", "/") / "__init__.py"
    if module in PRODUCT or not face.exists():
        return not name.startswith("_")
    return name in offered(face)


@cache
def offered(face: Path) -> frozenset[str]:
    """The names in the `__all__` of a package's face."""
    for node in ast.parse(face.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and _name(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset()


def passed(call: Callable[[], object]) -> list[str]:
    """The files of the product whose functions a call enters, as Python's profiler sees them.

    Code that is compiled, and code that runs while modules are imported, is not seen.
    """
    seen = set[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    product = {named(each) for each in files(*PRODUCT)}
    inside = (Path(each) for each in seen if each.startswith(f"{ROOT}/"))
    return sorted(product & {named(each) for each in inside})


def traced() -> dict[str, int]:
    """How many files a tanh network passes in `flow` and `simulate`: the first time, and again.

    All modules are imported before: what their classes and decorators do is none of a network's.
    """
    sys.path.insert(0, str(ROOT))
    for each in files(*PRODUCT):
        with suppress(ImportError):  # the frameworks of models
            import_module(".".join(each.relative_to(ROOT).with_suffix("").parts))
    from derive import Network  # noqa: PLC0415
    from numeric import flow, simulate  # noqa: PLC0415

    net, found = Network("tanh"), {}
    calls: dict[str, Callable[[], object]] = {
        "flow": lambda: flow(net, [1.0, 0.5], 5, "V"),
        "simulate": lambda: simulate(net, [1.0, 0.5], 20, 5, 100, tensors="V"),
    }
    for name, call in calls.items():
        for when in ("first", "again"):
            found[f"files passed in {name}, {when}"] = len(passed(call))
    return found


def counted() -> dict[str, object]:
    """All of the numbers."""
    every = list(functions())
    caches = [each for each in every if any(map(unbounded, each.decorator_list))]
    mentions, tests, asked = matches(KIND), atom_tests(), branches()
    internal = internal_imports()
    return {
        "lines": {room: lines(room) for room in ROOMS},
        "kind of network, mentions": sum(mentions.values()),
        "kind of network, files": len(mentions),
        "kind of network, branches": sum(asked.values()),
        "kind of network, files with branches": len(asked),
        "kind of network, mentions by file": mentions,
        "kind of network, branches by file": asked,
        "isinstance tests on atoms": sum(tests.values()),
        "isinstance tests on atoms by file": tests,
        "unbounded caches": len(caches),
        "unbounded caches with arguments": sum(map(takes_arguments, caches)),
        "classes of samplers": len(samplers()),
        "test files": len(test_files()),
        "test files that import internals": len(internal),
        "internals imported by file": {name: len(each) for name, each in internal.items()},
        "functions": len(every),
        "median lines of a function's body": statistics.median(map(body_length, every)),
    }


def main(arguments: list[str] | None = None) -> None:
    """Print the numbers; what is counted by file only with --json or --files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="all numbers, as JSON")
    parser.add_argument("--files", action="store_true", help="the counts of each file too")
    parser.add_argument("--calls", action="store_true", help="files that a network passes")
    given = parser.parse_args(arguments)
    found = counted() | (traced() if given.calls else {})
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            if name == "lines" or given.files:
                print(f"{name}:")
                print(*(f"  {each:<44} {count:>7}" for each, count in value.items()), sep="\n")
        else:
            print(f"{name:<46} {value:>7}")


if __name__ == "__main__":
    main()
