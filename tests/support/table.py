"""The table of what works together, `table.json`, and the page that shows it, `docs/support.md`.

    python tests/support/table.py              # tries every combination, and says what differs
    python tests/support/table.py --write      # records what it finds, and writes the page
    python tests/support/table.py --page       # writes the page from the table, tries nothing
    … --layer gated --law Orthogonal --function density     # these rows alone; each may repeat

A combination works, or is refused for one of `reasons.REASONS`, or is `SLOW`. Slow ones are tried
with --slow alone. Nothing else may be recorded: --write stops at a traceback, at a number that is
not finite and at a refusal that no reason recognises.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import combinations
import reasons
import seconds
from page import page

from derive import InputError

FILE = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[2] / "docs" / "support.md"
WORKS, SLOW = "works", "slow"
LIMIT = 75
"""Processor seconds that a combination may take."""
MOST = 25
"""Processor seconds beyond which a combination is recorded as slow."""
LONG = (
    "flow: draws",
    "flow: several inputs",
    "flow: Theta1, A … F",
    "flow: P, Q",
    "spectra: density",
    "training.flow",
)
SIGNALS = re.compile("convolution|pooling|mix|attention|transformer")
ALONE = ("Gaussian", "LowRankOrthogonal", "Uniform")
"""With these laws the suite tries the functions that take long."""


@dataclass(frozen=True)
class Cell:
    """A combination by its names."""

    layer: str
    law: str
    function: str

    @property
    def is_costly(self) -> bool:
        """True if this script alone tries it, once a week: the suite leaves it out.

        Functions that take long are tried by the suite with one law of each group. Training theory
        needs all tensors at order 1/n: behind a norm they take 5 to 13 s to derive for each law.
        Densities of gates take 10 s and more, and so do these tensors at several positions behind a
        norm and a skip around one matrix. At several positions digits and what takes long are tried
        with one law.
        """
        signals = SIGNALS.search(self.layer) and self.law != "Gaussian"
        if signals and self.function in (*LONG, "flow: precision"):
            return True
        if self.function in LONG and self.law not in ALONE:
            return True
        if self.function == "spectra: density":
            return self.layer.startswith("gated")
        if self.layer == "around(convolution(2, 3), norm=rms)":
            return self.law != "Gaussian" or self.function == "flow: Theta1, A … F"
        normed = "norm" in self.layer or self.layer in ("transformer(2, 2, ratio=1)", "Layer(…)")
        tested = self.layer == "normalized(rms)" and self.law == "Gaussian"
        return self.function == "training.flow" and normed and not tested


@dataclass(frozen=True)
class Outcome:
    """What trying a combination came to: `WORKS`, `SLOW`, or a reason's name and the message."""

    kind: str
    message: str = ""


class UnknownRefusalError(Exception):
    """A refusal that no reason of `reasons.REASONS` recognises."""


class TooLongError(Exception):
    """A combination has taken more processor time than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLongError once the process has computed for so long."""

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def cells() -> list[Cell]:
    """Every combination, in an order in which derivations are used again."""
    names = product(combinations.LAYERS, combinations.FUNCTIONS, combinations.LAWS)
    return [Cell(layer, law, function) for layer, function, law in names]


def tried(cell: Cell, limit: float = LIMIT) -> Outcome:
    """Try one combination.

    Raises:
        AssertionError: for numbers that are not finite.
        UnknownRefusalError: for a refusal without a reason.
        Exception: whatever else the call raises.
    """
    try:
        with at_most(limit):
            combinations.try_one(cell.layer, cell.law, cell.function)
    except TooLongError:
        return Outcome(SLOW)
    except InputError as error:
        reason = reasons.reason_of(error)
        if reason is None:
            raise UnknownRefusalError(str(error)) from error
        return Outcome(reason.name, str(error))
    return Outcome(WORKS)


@cache
def recorded() -> dict[Cell, str]:
    """What each combination came to when the table was written."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8"))["combinations"]
    return {
        Cell(layer, law, function): kind
        for layer, laws in rows.items()
        for law, kinds in laws.items()
        for kind, functions in kinds.items()
        for function in functions
    }


@cache
def messages() -> dict[str, str]:
    """For each reason in the table the message of the first combination that has it."""
    return json.loads(FILE.read_text(encoding="utf-8"))["messages"] if FILE.exists() else {}


def first_of(kinds: dict[Cell, str]) -> dict[str, Cell]:
    """The first combination of each kind."""
    return {kinds[cell]: cell for cell in reversed(cells()) if cell in kinds}


def difference(cell: Cell, found: Outcome) -> str:
    """What differs from the table; empty where nothing does."""
    known = recorded().get(cell, "not recorded")
    name = f"{cell.layer} × {cell.law} × {cell.function}"
    if found.kind != known:
        return f"{name}: {found.kind} {found.message}".rstrip() + f"; the table says: {known}"
    is_example = bool(found.message) and first_of(recorded())[known] == cell
    if is_example and messages()[known] != found.message:
        return f"{name}: {found.message}; the table says: {messages()[known]}"
    return ""


def written(kinds: dict[Cell, str], texts: dict[str, str]) -> str:
    """The table's file: a line for each layer and law."""
    lines = []
    for layer in combinations.LAYERS:
        rows = []
        for law in combinations.LAWS:
            groups: dict[str, list[str]] = {}
            for function in combinations.FUNCTIONS:
                groups.setdefault(kinds[Cell(layer, law, function)], []).append(function)
            rows.append(f"   {_json(law)}: {_json(groups)}")
        lines.append(f"  {_json(layer)}: {{\n" + ",\n".join(rows) + "\n  }")
    used = [each.name for each in reasons.REASONS if each.name in set(kinds.values())]
    shown = [f"  {_json(name)}: {_json(texts[name])}" for name in used]
    return (
        '{\n "combinations": {\n'
        + ",\n".join(lines)
        + '\n },\n "messages": {\n'
        + ",\n".join(shown)
        + "\n }\n}\n"
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def shown() -> str:
    """The page, from the table."""
    kinds = {(each.layer, each.law, each.function): kind for each, kind in recorded().items()}
    return page(kinds, messages(), seconds.recorded())


def counts(kinds: dict[Cell, str]) -> dict[str, int]:
    """How many combinations work, are refused for mathematics, not yet there, and slow."""
    found = {WORKS: 0, reasons.NO: 0, reasons.NOT_YET: 0, SLOW: 0}
    for kind in kinds.values():
        found[kind if kind in (WORKS, SLOW) else reasons.BY_NAME[kind].status] += 1
    return found


def _retry(chosen: list[Cell], told: Callable[[str], None]) -> tuple[dict[Cell, Outcome], bool]:
    """What these combinations come to, and whether all could be told."""
    found: dict[Cell, Outcome] = {}
    whole = True
    for cell in chosen:
        before = time.process_time()
        try:
            found[cell] = tried(cell, MOST)
        except Exception as error:
            whole = False
            name = f"{cell.layer} × {cell.law} × {cell.function}"
            told(f"{name}: {type(error).__name__}: {error}")
            continue
        if text := difference(cell, found[cell]):
            told(f"{text} ({time.process_time() - before:.1f} s)")
    return found, whole


def main(arguments: list[str] | None = None) -> int:
    """Try, compare, write; 1 where something differs or cannot be recorded."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record, and write the page")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    parser.add_argument("--slow", action="store_true", help="try what is recorded as slow too")
    for name in ("layer", "law", "function"):
        parser.add_argument(f"--{name}", action="append", help=f"this {name} alone")
    given = parser.parse_args(arguments)
    if not given.page:
        chosen = [
            each
            for each in cells()
            if (given.layer is None or each.layer in given.layer)
            and (given.law is None or each.law in given.law)
            and (given.function is None or each.function in given.function)
            and (given.slow or recorded().get(each) != SLOW)
        ]
        found, whole = _retry(chosen, print)
        differ = [cell for cell, outcome in found.items() if difference(cell, outcome)]
        print(f"{len(chosen)} combinations tried, {len(differ)} other than in the table")
        if not given.write or not whole:
            return int(bool(differ) or not whole)
        kinds = {**recorded(), **{cell: outcome.kind for cell, outcome in found.items()}}
        texts = dict(messages())
        for kind, cell in first_of(kinds).items():
            if cell in found and found[cell].message:
                texts[kind] = found[cell].message
        FILE.write_text(written(kinds, texts), encoding="utf-8")
        recorded.cache_clear()
        messages.cache_clear()
    PAGE.write_text(shown(), encoding="utf-8")
    print(", ".join(f"{count} {name}" for name, count in counts(recorded()).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
