"""A section of the book by itself, on a terminal or in a notebook.

    python -m derivations.section pdlt.limits         # its verdicts, and nothing else's
    jupytext --to notebook derivations/pdlt/limits.py

In a notebook `show()` in a last cell proves the claims of the cells above.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from derivations.claims.proving import check
from derivations.claims.registry import CHAPTERS, in_module
from derive.errors import InputError


def show(seed: int = 0, module: str = "__main__") -> None:
    """Prove the claims of a module, by default of the running notebook, a line each."""
    from derivations.report import line  # noqa: PLC0415
    from derivations.report.terminal import TOLD  # noqa: PLC0415

    for outcome in check(in_module(module), seed):
        print(line(outcome), flush=True)
        if outcome.verdict.kind in TOLD:
            print(f"    {outcome.verdict.detail}")


def main(argv: Sequence[str]) -> int:
    """Prove the sections of these names; 2, with a line on stderr, for what is none."""
    known = {name.partition(".")[2]: name for names in CHAPTERS.values() for name in names}
    try:
        for name in argv or [""]:
            if name not in known:
                raise InputError("section", name, f"one of {', '.join(sorted(known))}")
            import_module(known[name])
            show(module=known[name])
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
