"""The tests too long for `make test`, and the order of the others: `python tests/long.py FILE`,
FILE of `pytest --seconds`, of whole modules.

Those of more than `MOST` processor seconds go to `long.txt`, and are run by `make test-all`; the
sums of modules go to `seconds.txt`, by which `samples/longest_first.py` orders them. What was
listed and was not run this time stays.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

MOST = 0.5
LEAST = 0.5
"""Processor seconds from which a module is listed."""
LONG = Path(__file__).with_name("long.txt")
sys.path.append(str(Path(__file__).with_name("samples")))

from longest_first import SECONDS, measured, unit  # noqa: E402


def main(file: str) -> None:
    rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
    seconds = {name: each for name, each, _ in rows}
    listed = set(LONG.read_text(encoding="utf-8").splitlines() if LONG.exists() else [])
    kept = {name for name in listed if name not in seconds}
    found = kept | {name for name, each in seconds.items() if each > MOST}
    LONG.write_text("".join(f"{name}\n" for name in sorted(found)), encoding="utf-8")
    print(f"{len(found)} tests of more than {MOST} s, {len(found - listed)} of them new")
    order(rows)


def order(rows: list[tuple[str, float, bool]]) -> None:
    """Write the sums of the modules; those of slow tests, or of others, stay where none ran."""
    sums = {False: defaultdict[str, float](float), True: defaultdict[str, float](float)}
    for name, each, slow in rows:
        sums[slow][unit(name)] += each
    known = measured() if SECONDS.exists() else {}
    merged = {
        name: [sums[slow].get(name, known.get(name, (0.0, 0.0))[slow]) for slow in (False, True)]
        for name in sorted({*known, *sums[False], *sums[True]})
    }
    lines = [f"{a:.1f} {b:.1f} {name}\n" for name, (a, b) in merged.items() if a + b > LEAST]
    SECONDS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
