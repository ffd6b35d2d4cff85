"""Processor seconds of the calls in the table of what works together: `seconds.json`.

    python tests/support/seconds.py                # measures what is not recorded yet
    python tests/support/seconds.py --again        # and what is
    … --layer gated --law Orthogonal --function "spectra: density"   # these alone; may repeat

Each call has depth 3, width 24 and two inputs, or one where the function takes one. It runs in a
new process: *cold*, with an empty cache of compiled code. If it compiled anything and took longer
than a warm call may, it runs in a second one: *warm*, with what the first one compiled. Elsewhere
the cold seconds stand for both. The imports are made before and are not counted. Results are
written after every call, so that a measurement may be stopped and goes on.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import combinations
from reasons import BY_NAME

from derive import InputError

FILE = Path(__file__).with_suffix(".json")
WIDTH, INPUTS = 24, 2
LIMIT = 30
"""Processor seconds at which a call is ended; it is recorded as so long."""
COLD, WARM = 10, 5
"""Processor seconds that a call may take."""


class Seconds(NamedTuple):
    """Of one call, in a new process with an empty cache, and at most in another one after it."""

    cold: float
    warm: float


Key = tuple[str, str, str]
"""A layer, a law and a function."""


def recorded() -> dict[Key, Seconds]:
    """What was measured."""
    if not FILE.exists():
        return {}
    return {
        (layer, law, function): Seconds(*pair)
        for layer, laws in json.loads(FILE.read_text(encoding="utf-8")).items()
        for law, functions in laws.items()
        for function, pair in functions.items()
    }


def written(found: dict[Key, Seconds]) -> str:
    """The file: a line for each layer and law."""
    blocks = []
    for layer in combinations.LAYERS:
        lines = []
        for law in combinations.LAWS:
            keys = [(layer, law, function) for function in combinations.FUNCTIONS]
            row = {key[2]: found[key] for key in keys if key in found}
            if row:
                lines.append(f"  {_json(law)}: {_json(row)}")
        if lines:
            blocks.append(f" {_json(layer)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def over(found: dict[Key, Seconds]) -> list[Key]:
    """The calls that take longer than they may, the longest first."""
    slow = [key for key, each in found.items() if each.cold > COLD or each.warm > WARM]
    return sorted(slow, key=lambda key: found[key], reverse=True)


def largest(found: dict[Key, Seconds], keys: Iterable[Key]) -> tuple[Seconds, Key] | None:
    """The call among these that took longest, if one was measured."""
    return max(((found[key], key) for key in keys if key in found), default=None)


def measured(key: Key) -> Seconds:
    """Cold and warm."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _forked(key, folder)
        again = WARM < cold < LIMIT and any(Path(folder).iterdir())
        return Seconds(cold, _forked(key, folder) if again else cold)


def _forked(key: Key, folder: str) -> float:
    """The seconds of the call in a process that has imported everything and computed nothing."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(key, folder, theirs))
    process.start()
    theirs.close()
    try:
        spent = ours.recv()
    except EOFError:  # ended by its limit
        spent = LIMIT
    process.join()
    if isinstance(spent, str):
        raise RuntimeError(f"{' × '.join(key)}: {spent}")
    return round(float(spent), 2)


def _call(key: Key, folder: str, told: Connection) -> None:
    os.environ |= {"WICKGARTEN_CACHE": folder, "WICKGARTEN_QUIET": "1"}
    before = _spent()
    resource.setrlimit(resource.RLIMIT_CPU, (int(before) + LIMIT, int(before) + LIMIT))
    try:
        try:
            combinations.try_one(*key, WIDTH, INPUTS)
        except InputError:  # such as a precision behind a skip, which takes one input
            before = _spent()
            combinations.try_one(*key, WIDTH)
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")
    else:
        told.send(_spent() - before)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Measure; 1 where a call failed or takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--again", action="store_true", help="measure what is recorded too")
    for name in ("layer", "law", "function"):
        parser.add_argument(f"--{name}", action="append", help=f"this {name} alone")
    given = parser.parse_args(arguments)
    from table import recorded as kinds  # noqa: PLC0415  (its page shows the seconds)

    chosen = [
        (cell.layer, cell.law, cell.function)
        for cell, kind in kinds().items()
        if kind not in BY_NAME
        and (given.layer is None or cell.layer in given.layer)
        and (given.law is None or cell.law in given.law)
        and (given.function is None or cell.function in given.function)
    ]
    gc.freeze()  # what is imported is not collected anew in every process
    found, failed = recorded(), 0
    for key in chosen:
        if key in found and not given.again:
            continue
        try:
            seconds = measured(key)
        except RuntimeError as error:
            failed += 1
            print(error, flush=True)
            continue
        found = recorded() | {key: seconds}  # another process may measure other rows
        aside = FILE.with_suffix(f".{os.getpid()}")
        aside.write_text(written(found), encoding="utf-8")
        aside.replace(FILE)
        print(f"{seconds.cold:6.2f} {seconds.warm:6.2f}  {' × '.join(key)}", flush=True)
    slow = [key for key in over(found) if key in set(chosen)]
    print(f"{len(slow)} of {len(chosen)} calls take over {COLD} s cold or {WARM} s warm")
    for key in slow:
        print(f"{found[key].cold:6.2f} {found[key].warm:6.2f}  {' × '.join(key)}")
    return int(bool(failed or slow))


if __name__ == "__main__":
    sys.exit(main())
