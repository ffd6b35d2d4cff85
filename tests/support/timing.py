"""The table of what claims cost, written anew from a check of the whole book.

wickgarten check --fresh
python tests/support/timing.py report/claims.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from derivations.claims.costs import TABLE, recorded


def table(seconds: Mapping[str, float]) -> str:
    """The table's text: a line a claim, to two digits."""
    lines = [f"{json.dumps(name)}: {float(f'{seconds[name]:.2g}')}" for name in sorted(seconds)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(table(recorded(Path(sys.argv[1]))), encoding="utf-8")
