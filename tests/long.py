"""The tests too long for `make test`: `python tests/long.py FILE`, FILE of `pytest --seconds`.

Those of more than `MOST` processor seconds go to `long.txt`, and are run by `make test-all`; what
was listed and was not run this time stays.
"""

import json
import sys
from pathlib import Path

MOST = 0.8
LONG = Path(__file__).with_name("long.txt")


def main(file: str) -> None:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    seconds = dict(map(json.loads, lines))
    listed = set(LONG.read_text(encoding="utf-8").splitlines() if LONG.exists() else [])
    kept = {name for name in listed if name not in seconds}
    found = kept | {name for name, each in seconds.items() if each > MOST}
    LONG.write_text("".join(f"{name}\n" for name in sorted(found)), encoding="utf-8")
    print(f"{len(found)} tests of more than {MOST} s, {len(found - listed)} of them new")


if __name__ == "__main__":
    main(sys.argv[1])
