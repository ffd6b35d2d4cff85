"""The verdicts as JSON."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from derivations.claims import costs
from derivations.claims.registry import FALSE_ALARMS, Outcome
from derivations.files import write_text

from .book import FINE, Book
from .terminal import day

NAME = "claims.json"
"""The file in a report's directory."""


def as_json(book: Book) -> str:
    """Every claim: source, equation, verdict, z or exact, resolution, witness, detail, seconds;
    and the ledgers.

    A resolution is null where nothing would have been noticed."""
    record = {
        "holds": book.holds,
        "weak": len(book.weak),
        "false_alarms": FALSE_ALARMS,
        "seed": book.seed,
        "ensembles": {
            "drawn": book.ensembles.drawn,
            "read_back": book.ensembles.read,
            "oldest": day(book.ensembles),
        },
        "processor": {"seconds": round(book.processor, 1), "reference": book.reference},
        "resolution": _resolutions(book),
        "claims": [recorded(outcome) for outcome in book.outcomes],
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


def _resolutions(book: Book) -> Mapping[str, object] | None:
    """Half of the sampled numbers resolve the median or better; `share` of them resolve `fine`."""
    if not book.resolutions:
        return None
    return {
        "numbers": len(book.resolutions),
        "median": _finite(book.median_resolution),
        "fine": FINE,
        "share": round(book.fine, 4),
    }


def _finite(resolution: float) -> float | None:
    """To three digits; None where it is infinite, for which JSON has no word."""
    return float(f"{resolution:.3g}") if math.isfinite(resolution) else None


def recorded(outcome: Outcome) -> Mapping[str, object]:
    """A claim's entry."""
    claim, verdict = outcome.claim, outcome.verdict
    record: dict[str, object] = {
        "source": claim.source,
        "name": claim.name,
        "equation": claim.equation,
        "title": claim.title,
        "verdict": verdict.kind,
        "exact": verdict.kind in {"exact", "misprint", "doubtful"},
        "derived": verdict.derived,
        "printed": verdict.printed,
        "detail": verdict.detail,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.processor is not None:
        record["processor"] = round(outcome.processor, 3)
    if verdict.digits is not None:
        record["digits"] = round(verdict.digits, 1)
    if verdict.z is not None and verdict.bound is not None:
        record |= {
            "z": round(verdict.z, 4),
            "bound": round(verdict.bound, 4),
            "comparisons": verdict.comparisons,
        }
    if verdict.resolution is not None:
        record["resolution"] = _finite(verdict.resolution)
    if verdict.size:
        record["size"] = verdict.size
    if verdict.noticed:
        record["noticed"] = [_finite(each) for each in verdict.noticed]
    if verdict.witness is not None:
        record["witness"] = asdict(verdict.witness)
    if verdict.points:
        record["points"] = verdict.points
    return record


def write_json(book: Book, path: str | os.PathLike[str]) -> None:
    """The JSON file, whole or not at all."""
    write_text(as_json(book), path, "--json")


def seconds_before(directory: str | os.PathLike[str]) -> dict[str, float]:
    """Seconds of each claim, "source module.function", by the report that is there; else empty."""
    return costs.recorded(Path(directory) / NAME)
