"""A section of the book by itself, as a script or as a notebook.

    python -m derivations.pdlt.limits         # its verdicts, and nothing else's
    jupytext --to notebook derivations/pdlt/limits.py

The last cell of every section calls `show`, in which the claims are those of the cells above.
"""

from __future__ import annotations

from derivations.claims.proving import check
from derivations.claims.registry import in_module


def show(seed: int = 0) -> None:
    """Prove the claims that the running script or notebook has made, a line each."""
    from derivations.report import line  # noqa: PLC0415
    from derivations.report.terminal import TOLD  # noqa: PLC0415

    for outcome in check(in_module("__main__"), seed):
        print(line(outcome), flush=True)
        if outcome.verdict.kind in TOLD:
            print(f"    {outcome.verdict.detail}")
