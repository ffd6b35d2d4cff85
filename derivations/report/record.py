"""The verdicts as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from derivations.claims.costs import recorded
from derivations.claims.registry import FALSE_ALARMS, Outcome
from derivations.files import write_text

from .book import Book
from .terminal import day

NAME = "claims.json"
"""The file in a report's directory."""


def as_json(book: Book) -> str:
    """Every claim: source, equation, verdict, z or exact, detail, seconds; and the ledgers."""
    record = {
        "holds": book.holds,
        "false_alarms": FALSE_ALARMS,
        "seed": book.seed,
        "ensembles": {
            "drawn": book.ensembles.drawn,
            "read_back": book.ensembles.read,
            "oldest": day(book.ensembles),
        },
        "claims": [_record(outcome) for outcome in book.outcomes],
        "ledger": [
            {
                "source": source,
                "item": entry.item,
                "verdict": book.verdict(entry),
                "claims": [claim.name for claim in entry.claims],
            }
            for source, entries in book.ledger.items()
            for entry in entries
        ],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def _record(outcome: Outcome) -> Mapping[str, object]:
    claim, verdict = outcome.claim, outcome.verdict
    record = {
        "source": claim.source,
        "name": claim.name,
        "equation": claim.equation,
        "title": claim.title,
        "verdict": verdict.kind,
        "exact": verdict.kind in {"exact", "misprint"},
        "derived": verdict.derived,
        "printed": verdict.printed,
        "detail": verdict.detail,
        "seconds": round(outcome.seconds, 3),
    }
    if verdict.digits is not None:
        record["digits"] = round(verdict.digits, 1)
    if verdict.z is not None and verdict.bound is not None:
        record |= {
            "z": round(verdict.z, 4),
            "bound": round(verdict.bound, 4),
            "comparisons": verdict.comparisons,
        }
    return record


def write_json(book: Book, path: str | os.PathLike[str]) -> None:
    """The JSON file, whole or not at all."""
    write_text(as_json(book), path, "--json")


def seconds_before(directory: str | os.PathLike[str]) -> dict[str, float]:
    """What each claim took, "source module.function", by the report that is there; else nothing."""
    return recorded(Path(directory) / NAME)
