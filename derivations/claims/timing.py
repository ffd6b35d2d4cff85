"""The tables of what claims cost, written anew from a check of the whole book, or with figures that
were drawn at their printed size, without an interruption and whole.

wickgarten check --fresh
python -m derivations.claims.timing report/claims.json

wickgarten figure 003:7 --full --run figure
python -m derivations.claims.timing figure/figure.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from derivations.claims.costs import FULL, TABLE, recorded
from derivations.files import write_text
from derive.errors import InputError


def table(seconds: Mapping[str, float]) -> str:
    """The table's text: a line a claim, to two digits."""
    lines = [f"{json.dumps(name)}: {float(f'{seconds[name]:.2g}')}" for name in sorted(seconds)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def full(known: Mapping[str, Sequence[float]], figure: Mapping[str, Any]) -> str:
    """The text of the table of parts with those of one more figure, a line a claim.

    Raises:
        InputError: for a figure of the book's size, or with a share of its networks.
    """
    if figure.get("full") != 1 or "claims" not in figure:
        raise InputError("figure", figure.get("full"), "a whole figure at its printed size")
    parts = {f"{each['source']} {each['name']}": each["ensembles"] for each in figure["claims"]}
    lines = [
        f"{json.dumps(name)}: {json.dumps(own)}" for name, own in sorted({**known, **parts}.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    record = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if "figure" in record:
        write_text(full(json.loads(FULL.read_text(encoding="utf-8")), record), FULL, "figure")
    else:
        write_text(table(recorded(Path(sys.argv[1]))), TABLE, "seconds")
