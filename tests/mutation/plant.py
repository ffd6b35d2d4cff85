"""Mutation: faults planted in the formulas of `derive`, and which tests find them.

    python tests/mutation/plant.py                    # the faults of the list, in turn
    python tests/mutation/plant.py --count 25         # the first 25 of it
    python tests/mutation/plant.py --only 7 --show    # what fault 7 is
    python tests/mutation/plant.py --only 7           # try it again
    python tests/mutation/plant.py --report           # what has been found so far
    python tests/mutation/plant.py --record           # write into the list which test found each
    python tests/mutation/plant.py --draw             # a new list, from the source as it is
    python tests/mutation/plant.py --draw --more 9    # the next 9 of it, after those listed

A fault is one operator on one expression: + for −, an integer changed by one, a term or a factor
left out, a condition negated, two arguments exchanged. Lines were drawn by a fixed seed from all
that have some, in `derive` without what prints, reports or checks a user's input; then one of the
line's faults was drawn. The list is kept in `faults.jsonl`, each fault with the text of its line,
which it is found by while other lines come and go. Each is planted in a copy of the tracked files,
and the tests that are most likely to find it run first: the one that the list names, if it names
one, the module's own examples, the tests of `derive` that are fewest imports away, the others, all
tests, the book. A fault that all of them pass is a *survivor*: equivalent, where the list gives the
reason under "equivalent", or a gap. For each that is equivalent the list has one more, the next
that was drawn, so that it has 100 others.

Results are one line of JSON a fault, in a file that is written whole after each: the next call goes
on from there. A result holds while its line of the source does.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SEED = 18
COUNT = 100
LIST = Path(__file__).with_name("faults.jsonl")
RESULTS = "mutation.jsonl"
SECONDS = 600.0
"""Of one stage, after which it is given up."""

LEFT_OUT = (
    "derive/work/",
    "derive/display/",
    "derive/errors.py",
    "derive/citations.py",
    "derive/engine/meaning.py",
)
"""What prints, reports or looks for resources."""

_SPARE = re.compile(r"SAFETY|DIGITS|GUARD|_prec\b|digits")
"""What chooses a working precision: more of it, or a little less, changes no result."""

_PRINTING = re.compile(r"__(str|repr)__|latex|_repr_|text|str$|label|meaning|describe")
_CHECKING = re.compile(
    r"^(whole|listed|InputError|telling|say|note|number|check\w*|_check\w*|work)$"
)
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}


@dataclass(frozen=True)
class Fault:
    """One expression of one file, and what stands there instead."""

    path: str
    line: int
    begin: int
    end: int
    operator: str
    before: str
    after: str
    equivalent: str = ""
    """Why no result can show it."""
    test: str = ""
    """What found it when the list was last recorded."""

    def planted(self, source: str) -> str:
        """The file with the fault."""
        data = source.encode()
        if data[self.begin : self.end].decode() != self.before:
            raise ValueError(f"{self}: the source has changed")
        return (data[: self.begin] + self.after.encode() + data[self.end :]).decode()

    def __str__(self) -> str:
        before, after = (" ".join(each.split()) for each in (self.before, self.after))
        return f"{self.path}:{self.line}: {self.operator}: {before}  →  {after}"


@dataclass(frozen=True)
class Result:
    """What came of a fault: whether the last of the stages that ran found it, after how long, and
    which stages were given up, for time: they may have found it."""

    number: int
    fault: Fault
    found: bool
    stages: tuple[str, ...]
    seconds: float
    unfinished: tuple[str, ...] = ()
    said: str = ""

    @property
    def word(self) -> str:
        """ "found", "equivalent", "SURVIVED", or "undecided" where a stage was given up."""
        if self.found or self.fault.equivalent:
            return "found" if self.found else "equivalent"
        return "undecided" if self.unfinished else "SURVIVED"


def faults(path: str, source: str) -> list[Fault]:
    """All faults of a file, in order."""
    starts, data = [0], source.encode()
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))

    def fault(node: ast.expr, operator: str, after: ast.expr) -> Fault:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = data[begin:end].decode()
        return Fault(path, node.lineno, begin, end, operator, before, f"({ast.unparse(after)})")

    found = [
        fault(node, operator, after)
        for node in _expressions(ast.parse(source))
        for operator, after in _variants(node)
        if not _SPARE.search(ast.unparse(node))
    ]
    return sorted(found, key=lambda each: (each.begin, each.end, each.operator, each.after))


def _expressions(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a tree's functions with a meaning: no docstrings, types, messages or
    checks of what a user gives."""
    for node in ast.iter_child_nodes(tree):
        if _is_spared(node):
            continue
        if isinstance(node, ast.FunctionDef):
            for each in node.body:
                yield from () if _is_spared(each) else _inside(each)
        elif isinstance(node, ast.ClassDef):
            yield from _expressions(node)


def _inside(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "args"} and not isinstance(
            node, ast.Call
        ):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not _is_spared(each):
                yield from _inside(each)


def _is_spared(node: ast.AST) -> bool:
    """Whether nothing in it is a formula."""
    if isinstance(node, ast.FunctionDef):
        return bool(_PRINTING.search(node.name) or _CHECKING.match(node.name))
    if isinstance(node, ast.If):  # a check of what was given
        return any(isinstance(each, ast.Raise) for each in node.body)
    if isinstance(node, ast.Expr):  # a docstring, or a call for what it does
        return not isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Call)
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return bool(_CHECKING.match(name))
    return isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom)


def _variants(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """What may stand in place of an expression, and what kind of fault that is."""
    if isinstance(node, ast.BinOp) and not _is_text(node):
        if type(node.op) in _SIGNS:
            other = copy.copy(node)
            other.op = _SIGNS[type(node.op)]()
            yield "sign", other
            yield "term left out", node.left
            yield "term left out", node.right
        elif isinstance(node.op, ast.Mult | ast.Div):
            yield "factor left out", node.left
            if isinstance(node.op, ast.Mult):
                yield "factor left out", node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        for step in (1, -1):
            yield "number", ast.Constant(node.value + step)
    elif isinstance(node, ast.Compare | ast.BoolOp):
        yield "condition", ast.UnaryOp(ast.Not(), node)
    elif isinstance(node, ast.IfExp) and not (_is_word(node.body) or _is_word(node.orelse)):
        yield "condition", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Call) and len(node.args) > 1 and not _is_fixed(node):
        first, second, *rest = node.args
        if ast.dump(first) == ast.dump(second):
            return
        yield "arguments", ast.Call(node.func, [second, first, *rest], node.keywords)


def _is_fixed(call: ast.Call) -> bool:
    """Whether its first two arguments cannot be exchanged, or never are by mistake."""
    name = getattr(call.func, "id", "")
    if name in {"isinstance", "getattr", "hasattr", "cast", "replace", "range"}:
        return True
    return any(isinstance(each, ast.Starred) or _is_word(each) for each in call.args[:2])


def _is_text(node: ast.BinOp) -> bool:
    return any(_is_word(each) for each in (node.left, node.right))


def _is_word(node: ast.expr) -> bool:
    plain = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return plain or isinstance(node, ast.JoinedStr)


def listed(root: Path = ROOT, path: Path = LIST) -> dict[int, Fault]:
    """The faults of the list by number, where they are now; without those whose line is gone."""
    entries = map(json.loads, path.read_text().splitlines())
    placed = {k: _placed(entry, root) for k, entry in enumerate(entries, 1)}
    return {k: fault for k, fault in placed.items() if fault}


def _placed(entry: dict[str, Any], root: Path) -> Fault | None:
    """An entry of the list in the source, by its line's text; None where that is gone."""
    source = root / entry["path"]
    lines = source.read_bytes().splitlines(keepends=True) if source.exists() else []
    text, before = entry["text"].encode(), entry["before"].encode()
    alike = [k for k, line in enumerate(lines) if line.rstrip(b"\n") == text]
    if len(alike) <= (which := entry.get("which", 0)):
        return None
    begin = sum(map(len, lines[: alike[which]])) + entry["column"]
    end = begin + len(before)
    if b"".join(lines)[begin:end] != before:
        return None
    given = {name: entry[name] for name in ("path", "operator", "before", "after")}
    given |= {name: entry.get(name, "") for name in ("equivalent", "test")}
    return Fault(line=alike[which] + 1, begin=begin, end=end, **given)


def entry_of(fault: Fault, root: Path = ROOT) -> dict[str, Any]:
    """A fault as the list keeps it."""
    lines = (root / fault.path).read_bytes().splitlines(keepends=True)
    above, line = lines[: fault.line - 1], lines[fault.line - 1]
    values: dict[str, Any] = {"path": fault.path, "text": line.decode().rstrip("\n")}
    values |= {"which": alike} if (alike := above.count(line)) else {}
    values["column"] = fault.begin - sum(map(len, above))
    return values | {name: getattr(fault, name) for name in ("operator", "before", "after")}


def drawn(count: int, root: Path = ROOT) -> list[Fault]:
    """So many faults for a list: each of another line, all lines alike likely."""
    by_line = _by_line(root)
    lines = sorted(by_line)
    random.Random(SEED).shuffle(lines)
    return [random.Random(f"{SEED} {line}").choice(by_line[line]) for line in lines[:count]]


@cache
def _by_line(root: Path) -> dict[tuple[str, int], list[Fault]]:
    """The faults of each line."""
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in tracked(root):
        if path.startswith("derive/") and path.endswith(".py") and not path.startswith(LEFT_OUT):
            for each in faults(path, (root / path).read_text()):
                by_line.setdefault((path, each.line), []).append(each)
    return by_line


def tracked(root: Path) -> list[str]:
    """The files that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    )
    return sorted(each for each in listed.stdout.split("\0") if each and (root / each).exists())


def stages(fault: Fault, root: Path) -> Iterator[tuple[str, list[str]]]:
    """What is run, the fastest and likeliest first: names, and arguments of `python -m`."""
    pytest = ["pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header"]
    if fault.test:
        modules = ["--doctest-modules"] if fault.test.startswith("derive/") else []
        yield "its test", [*pytest, *modules, fault.test]
    yield "its examples", [*pytest, "--doctest-modules", fault.path]
    groups = by_distance(fault.path, root)
    for name, group in (("nearest tests", groups[:1]), ("tests of derive", groups[1:])):
        if found := [test for each in group for test in each]:
            yield name, [*pytest, *found]
    yield "all tests", [*pytest, "-n", "auto", "tests"]
    yield "the book", ["derivations.cli", "check"]


def by_distance(path: str, root: Path) -> list[list[str]]:
    """The tests of `derive`, by how many imports they are from a module; of those that are as far,
    the one named like it and the shortest first."""
    sources = {each: (root / each).read_text() for each in tracked_python(root)}
    above: dict[str, set[str]] = {each: set() for each in sources}
    for each, source in sources.items():
        for other in imported(each, source, set(sources)):
            above[other].add(each)
    distance, edge = {path: 0}, [path]
    while edge:
        far = distance[edge[0]] + 1
        edge = sorted({up for each in edge for up in above.get(each, ())} - distance.keys())
        distance |= dict.fromkeys(edge, far)
    stem = Path(path).stem
    groups: dict[int, list[str]] = {}
    for test in (each for each in sources if each.startswith("tests/derive/test_")):
        if test in distance:
            groups.setdefault(distance[test], []).append(test)
    return [
        sorted(groups[far], key=lambda test: (stem not in test, len(sources[test])))
        for far in sorted(groups)
    ]


def tracked_python(root: Path) -> list[str]:
    """The modules of `derive` and its tests, in a copy that git may not know."""
    paths = [*(root / "derive").rglob("*.py"), *(root / "tests" / "derive").glob("test_*.py")]
    return sorted(each.relative_to(root).as_posix() for each in paths)


def imported(path: str, source: str, known: set[str]) -> set[str]:
    """The files among the known that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            above = path.split("/")[: -node.level] if node.level else []
            base = "/".join([*above, *(node.module or "").replace(".", "/").split("/")]).strip("/")
            names = [f"{base}/{each.name}" for each in node.names]
            modules = [name if _file(name, known) else base for name in names]
        elif isinstance(node, ast.Import):
            modules = [each.name.replace(".", "/") for each in node.names]
        else:
            continue
        found |= {file for each in modules if (file := _file(each, known))}
    return found - {path}


def _file(module: str, known: set[str]) -> str | None:
    return next((each for each in (f"{module}.py", f"{module}/__init__.py") if each in known), None)


def run(arguments: list[str], root: Path, seconds: float) -> tuple[bool | None, str]:
    """Whether `python -m` with these fails, None if it does not end in time; and the line that
    says so."""
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=root,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # to end what it has started, too
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None, f"not done in {seconds:.0f} s"
        said.seek(0)
        lines = said.read().splitlines()
    if code == 0 or (arguments[0] == "pytest" and code == 5):  # 5: there were no tests
        return False, ""
    told = [line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))]
    return True, (told or lines or [f"exit {code}"])[-1][:300]


def tried(number: int, fault: Fault, copy_of: Path, seconds: float, most: int) -> Result:
    """Plant the fault, and run the stages until one finds it."""
    place = copy_of / fault.path
    right = place.read_text()
    began, done, unfinished, said = time.monotonic(), [], [], ""
    found: bool | None = False
    place.write_text(fault.planted(right))
    try:
        for name, arguments in list(stages(fault, copy_of))[:most]:
            done.append(name)
            found, said = run(arguments, copy_of, seconds)
            if found:
                break
            if found is None:
                unfinished.append(name)
    finally:
        place.write_text(right)
    taken = round(time.monotonic() - began, 1)
    return Result(number, fault, bool(found), tuple(done), taken, tuple(unfinished), said)


def read(path: Path) -> dict[int, Result]:
    """The results so far, by number."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        values: dict[str, Any] = json.loads(line)
        fault, done = Fault(**values.pop("fault")), tuple(values.pop("stages"))
        given_up = tuple(values.pop("unfinished"))
        result = Result(fault=fault, stages=done, unfinished=given_up, **values)
        found[result.number] = result
    return found


def write(results: dict[int, Result], path: Path) -> None:
    """One line a result, whole."""
    aside = path.with_name(path.name + ".part")
    lines = [json.dumps(asdict(results[k]), ensure_ascii=False) for k in sorted(results)]
    aside.write_text("".join(line + "\n" for line in lines))
    aside.replace(path)


def report(results: dict[int, Result]) -> str:
    """How many were found, by what, and each that was not."""
    left = [each for each in results.values() if not each.found]
    by_stage: dict[str, int] = {}
    for each in results.values():
        if each.found:
            by_stage[each.stages[-1]] = by_stage.get(each.stages[-1], 0) + 1
    told = ", ".join(f"{count} by {name}" for name, count in by_stage.items())
    same = sum(each.word == "equivalent" for each in left)
    lines = [
        f"{len(results)} faults, {len(results) - len(left)} found ({told}), {same} equivalent, "
        f"{len(left) - same} left"
    ]
    for each in left:
        why = each.fault.equivalent or f"passed: {', '.join(each.stages)}"
        lines.append(f"  {each.word} {each.number}: {each.fault} ({why})")
    return "\n".join(lines)


def record(results: dict[int, Result], path: Path = LIST) -> None:
    """Write into the list which test found each fault."""
    lines = path.read_text().splitlines()
    for number, each in results.items():
        if each.found and (told := re.match(r"(?:FAILED|ERROR) (\S.*?)(?: - |$)", each.said)):
            entry = json.loads(lines[number - 1]) | {"test": told[1]}
            lines[number - 1] = json.dumps(entry, ensure_ascii=False)
    path.write_text("".join(line + "\n" for line in lines))


def draw(count: int, more: int) -> None:
    """Write a new list of so many faults; or, of those of its draw that the list does not have, the
    next so many after it."""
    kept, chosen = [], drawn(count)
    if more:
        kept = LIST.read_text().splitlines()
        places = {(each.path, each.line) for each in listed().values()}
        every = drawn(len(_by_line(ROOT)))
        chosen = [each for each in every if (each.path, each.line) not in places][:more]
    new = [json.dumps(entry_of(fault), ensure_ascii=False) for fault in chosen]
    LIST.write_text("".join(line + "\n" for line in [*kept, *new]))


def _same(fault: Fault, other: Fault) -> bool:
    """Whether two are one fault, wherever its line has moved to."""
    return (fault.path, fault.before, fault.after) == (other.path, other.before, other.after)


def main(given: list[str] | None = None) -> int:
    """Plant what has no result yet; 1 if any survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, help="so many of the list, which has 100 and more")
    parser.add_argument("--only", type=int, nargs="+", metavar="K", help="these, again")
    parser.add_argument("--results", type=Path, default=Path(RESULTS), help="JSON lines")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each stage")
    parser.add_argument("--stages", type=int, default=6, help="the first so many alone")
    parser.add_argument("--show", action="store_true", help="what they are, planting none")
    parser.add_argument("--report", action="store_true", help="what has been found so far")
    parser.add_argument("--record", action="store_true", help="into the list, planting none")
    parser.add_argument("--draw", action="store_true", help="write a new list, planting none")
    parser.add_argument("--more", type=int, default=0, help="with --draw: keep it, and go on")
    options = parser.parse_args(given)
    if options.draw:
        draw(options.count or COUNT, options.more)
        return 0
    every = listed()
    most = options.count or max(every)
    chosen = {k: fault for k, fault in every.items() if k in (options.only or ()) or k <= most}
    if options.show:
        shown = options.only or chosen
        print("\n".join(f"{k:3d}  {chosen[k]}" for k in shown))
        return 0
    results = {
        k: replace(each, fault=chosen[k])
        for k, each in read(options.results).items()
        if k in chosen and _same(each.fault, chosen[k])
    }
    if options.record:
        record(results)
    elif not options.report:
        waiting = options.only or [k for k in chosen if k not in results]
        with tempfile.TemporaryDirectory() as place:
            for path in tracked(ROOT):
                (Path(place) / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, Path(place) / path)
            for k in waiting:
                results[k] = tried(k, chosen[k], Path(place), options.seconds, options.stages)
                write(results, options.results)
                print(
                    f"{k:3d}  {results[k].word}, {results[k].stages[-1]}: {chosen[k]}", flush=True
                )
    print(report(results))
    return 0 if all(each.word in {"found", "equivalent"} for each in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
