"""Measures the English of the manual: `python docs/measure.py [--long] [--docstrings]`.

Counts the words of each sentence, the sentences above 30 words, the pages without an example, and
the docstrings of modules, functions and classes that open with "What", or with "Whether" although
they return no truth value.

Prose is counted: paragraphs and items of lists. Headings, tables, code and displayed formulas are
not. A piece of code or a formula inside a sentence is one word.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = "derive", "numeric", "derivations"
NO_PROSE = "paper", "_build"
"""Folders of `docs` that are no pages of the manual."""
MOST = 30
"""Words that a sentence may have."""

FENCE = re.compile(r"^ *(```|\$\$)")
ITEM = re.compile(r"^ *([*+-]|\d+\.) +")
OTHER = re.compile(r"^(#|\||!\[|\{download\})")
"""Lines of headings, tables and pictures."""
ONE_WORD = re.compile(r"`[^`]+`|\$[^$]+\$|!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<!\beq)(?<!\beqs)(?<!\bal)(?<!\be\.g)(?<!\bi\.e)[.!?][)*”\"]*\s+(?=\S)")

EXAMPLE = re.compile(r"^```(pycon|console|python|text|c|\{eval-rst\})$|\n\n {4}\w", re.MULTILINE)


class Sentence(NamedTuple):
    """A sentence, and where it begins."""

    page: str
    line: int
    text: str

    @property
    def words(self) -> int:
        """The number of its words."""
        plain = ONE_WORD.sub(lambda found: found[1] or "word", self.text)
        return sum(any(map(str.isalnum, word)) for word in plain.split())


def pages() -> list[Path]:
    """The pages of the manual."""
    docs = ROOT / "docs"
    found = docs.rglob("*.md")
    return sorted(path for path in found if path.relative_to(docs).parts[0] not in NO_PROSE)


def named(page: Path) -> str:
    """The page's path from the root."""
    return page.relative_to(ROOT).as_posix()


def paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """The paragraphs and items of lists of a page, each with the number of its first line."""
    start, lines, fence, in_list = 0, [], "", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        opened = FENCE.match(line)
        if fence or opened:
            closes = bool(opened and fence == opened[1])
            closes |= not fence and line.strip() != opened[1] and line.rstrip().endswith("$$")
            fence = "" if closes else fence or opened[1]
            ends = True
        else:
            item = ITEM.match(line)
            is_code = line.startswith("    ") and not in_list and not lines
            ends = bool(item) or not line.strip() or bool(OTHER.match(line)) or is_code
            in_list = bool(item) or (in_list and (line.startswith(" ") or not line.strip()))
        if ends and lines:
            yield start, lines
            lines = []
        if opened or fence or not line.strip() or OTHER.match(line) or (ends and not item):
            continue
        start = start if lines else number
        lines.append(ITEM.sub("", line).strip())


def sentences(page: Path) -> Iterator[Sentence]:
    """The sentences of a page."""
    for start, lines in paragraphs(page.read_text(encoding="utf-8")):
        text = " ".join(lines)
        ends = [found.end() for found in END.finditer(text)]
        for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
            before, line = 0, start
            for each in lines:
                before += len(each) + 1
                if before > begin:
                    break
                line += 1
            yield Sentence(named(page), line, text[begin:end].strip())


def has_example(page: Path) -> bool:
    """True if a page shows code, a command, their output, or docstrings, which have examples."""
    return bool(EXAMPLE.search(page.read_text(encoding="utf-8")))


def openings() -> Iterator[str]:
    """Modules, functions and classes whose docstrings open with "What" or "Whether"."""
    for path in sorted(each for room in ROOMS for each in (ROOT / room).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if re.search('"""Wh(at|ether) ', source) else ():
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                continue
            opening = (ast.get_docstring(node) or " ").split()[:1]
            returned = getattr(node, "returns", None)
            is_truth = returned is not None and re.search("bool|Type", ast.unparse(returned))
            if opening == ["What"] or (opening == ["Whether"] and not is_truth):
                yield f"{named(path)}:{getattr(node, 'lineno', 1)}: {getattr(node, 'name', '')}"


def main() -> None:
    """Prints the figures, and the places if asked."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--long", action="store_true", help=f"sentences above {MOST} words")
    parser.add_argument("--docstrings", action="store_true", help="docstrings with What, Whether")
    asked = parser.parse_args()
    print("sentences  median  above 30  page")
    whole = []
    for page in pages():
        found = list(sentences(page))
        whole += found
        _print(found, named(page))
    _print(whole, "the manual")
    without = [named(page) for page in pages() if not has_example(page)]
    opened = list(openings())
    print(f"\npages without an example: {len(without)} ({', '.join(without)})")
    print(f'docstrings that open with "What" or "Whether": {len(opened)}')
    if asked.long:
        for each in whole:
            if each.words > MOST:
                print(f"{each.page}:{each.line}: {each.words} words: {each.text}")
    if asked.docstrings:
        print("\n".join(opened))


def _print(found: list[Sentence], name: str) -> None:
    words = [each.words for each in found] or [0]
    above = sum(each > MOST for each in words)
    print(f"{len(found):9}  {statistics.median(words):6.0f}  {above:8}  {name}")


if __name__ == "__main__":
    main()
