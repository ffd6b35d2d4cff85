"""The house: no circle of files, no arrow up between folders, rooms that a newcomer can read.

    python tests/test_architecture.py       # draws docs/figures/architecture.svg anew

Imports are read from the syntax tree: at module level, inside functions, under TYPE_CHECKING, and
in the templates of kernels, which are strings.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from html import escape
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = {"derive": 24, "numeric": 25, "derivations": 21}
"""Each room, from the ground up, with the entries that it may show."""
PICTURE = ROOT / "docs" / "figures" / "architecture.svg"
WIDEST = 7
"""Entries on a floor of the picture."""

Graph = Mapping[str, set[str]]


def files() -> list[Path]:
    return sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


MODULES = {
    name_of(path).removesuffix(".py").replace("/", ".").removesuffix(".__init__"): name_of(path)
    for path in files()
}


def imported(name: str, source: str) -> Iterator[str]:
    """The files that a file imports, by name."""
    nodes = list(ast.walk(ast.parse(source)))
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            pattern = r"^from (?:derive|numeric|derivations)[\w.]* import \w+(?:, \w+)*$"
            nodes += [ast.parse(line).body[0] for line in re.findall(pattern, node.value, re.M)]
        elif isinstance(node, ast.Import):
            yield from (MODULES[each.name] for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = name.removesuffix(".py").split("/")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for each in node.names:
                target = MODULES.get(f"{base}.{each.name}") or MODULES.get(base)
                if target and target != name:
                    yield target


@cache
def graph_of_files() -> Graph:
    return {name_of(path): set(imported(name_of(path), path.read_text())) for path in files()}


def entry(name: str) -> str:
    """The folder of a room that a file is in, or the file itself where it stands alone."""
    return "/".join(name.split("/")[:2])


def is_face(name: str) -> bool:
    """A room's own `__init__`, which hands names on and stands above all of the room."""
    return name.count("/") == 1 and name.endswith("__init__.py")


def entries() -> Graph:
    """Who stands on whom among the folders, and the files that stand alone."""
    edges: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph_of_files().items():
        if not is_face(name):
            edges[entry(name)] |= {entry(each) for each in targets} - {entry(name)}
    return edges


def circle(graph: Graph) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_a_circle_would_be_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) != []
    source = 'T = """\nfrom numeric.emit import jit\n"""\nfrom . import errors'
    assert set(imported("derive/network.py", source)) == {"numeric/emit/jit.py", "derive/errors.py"}


def test_no_files_import_each_other_in_a_circle():
    assert circle(graph_of_files()) == []


def test_no_folders_import_each_other_in_a_circle():
    assert circle(entries()) == []


def test_no_arrow_leads_up_from_a_room():
    order = list(ROOMS)
    up = [
        (name, each)
        for name, targets in graph_of_files().items()
        for each in targets
        if order.index(each.split("/")[0]) > order.index(name.split("/")[0])
    ]
    assert up == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_shows_few_entries(room):
    shown = {path.relative_to(ROOT / room).parts[0] for path in (ROOT / room).rglob("*.py")}
    assert len(shown) <= ROOMS[room], sorted(shown)


def test_a_folder_says_in_a_sentence_what_lives_there():
    for path in files():
        if path.name == "__init__.py" and path.parent.parent != ROOT:
            says = ast.get_docstring(ast.parse(path.read_text()))
            assert says, name_of(path)
            assert says.split("\n\n")[0].count("\n") < 3, name_of(path)


def floors(graph: Graph) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        found[name] = 1 + max((found[each] for each in graph.get(name, ())), default=-1)
    return found


def drawn() -> str:
    """The folders of each room on their floors, from the ground up, with what they stand on."""
    graph, parts, top = entries(), [], 0
    for room in reversed(ROOMS):
        own = {
            name: {each for each in graph.get(name, ()) if each.startswith(f"{room}/")}
            for name in {*graph, *(each for targets in graph.values() for each in targets)}
            if name.startswith(f"{room}/") and not is_face(name)
        }
        level = floors(own)
        rows: dict[int, list[str]] = defaultdict(list)
        for name in sorted(own):
            rows[level[name]].append(name)
        parts.append(f'<text x="12" y="{top + 22}" class="room">{room}/</text>')
        place = {}
        for row, number in enumerate(sorted(rows, reverse=True)):
            left = 12 + 66 * (WIDEST - len(rows[number]))
            for column, name in enumerate(rows[number]):
                place[name] = left + 132 * column, top + 32 + 42 * row
        for name, (x, y) in place.items():
            parts += [
                f'<path d="M{x + 62} {y + 24}L{place[each][0] + 62} {place[each][1]}"/>'
                for each in sorted(own[name])
            ]
        for name, (x, y) in place.items():
            label = name.removeprefix(f"{room}/").removesuffix(".py")
            label += "" if name.endswith(".py") else "/"
            parts.append(
                f"<g><title>{escape(name)}: {escape(', '.join(sorted(own[name])) or 'the ground')}"
                f'</title><rect x="{x}" y="{y}" width="124" height="24" rx="3"/>'
                f'<text x="{x + 62}" y="{y + 16}">{escape(label)}</text></g>'
            )
        top += 48 + 42 * len(rows)
    width = 24 + 132 * WIDEST
    style = (
        "text{font:12px sans-serif;text-anchor:middle;fill:#222}"
        ".room{font-weight:bold;text-anchor:start;fill:#777}"
        "rect{fill:#fff;stroke:#555}path{stroke:#999;stroke-opacity:.45;fill:none}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}">'
        f"<style>{style}</style>" + "\n".join(parts) + "</svg>\n"
    )


def test_the_picture_in_the_docs_is_of_this_house():
    assert PICTURE.read_text() == drawn(), "run: python tests/test_architecture.py"


if __name__ == "__main__":
    PICTURE.write_text(drawn())
