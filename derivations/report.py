"""The verdicts as a table, as JSON, and as a directory with figures and an index."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from derive.errors import InputError

from .claims import FALSE_ALARMS, Outcome, Verdict
from .files import write_text

INDEX = "index.md"
_MARK = "<!-- a report of wickgarten check -->"


def line(outcome: Outcome) -> str:
    """One row of the table on the terminal."""
    claim, verdict = outcome.claim, outcome.verdict
    return (
        f"{claim.source}  {claim.equation:15} {claim.title:48.48} {verdict.kind:11} "
        f"{measure(verdict):26} {outcome.seconds:6.1f} s"
    )


def measure(verdict: Verdict) -> str:
    """How sure: "exact", the digits reached, or the largest z and its bound."""
    if verdict.z is not None:
        return f"|z| {verdict.z:.2f} < {verdict.bound:.2f} of {verdict.comparisons}".replace(
            "<", "<" if verdict.holds else ">"
        )
    if verdict.digits is not None:
        return f"{verdict.digits:.0f} digits"
    return {"exact": "proven", "misprint": "proven", "fails": "differs"}.get(verdict.kind, "")


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many of each kind, every misprint and failure, and the rate of false alarms."""
    kinds = Counter(outcome.verdict.kind for outcome in outcomes)
    compared = sum(outcome.verdict.comparisons for outcome in outcomes)
    lines = [
        f"{len(outcomes)} claims: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    ]
    if compared:
        lines.append(
            f"{compared} sampled numbers compared; all together raise a false alarm in "
            f"{FALSE_ALARMS:.1e} of runs"
        )
    for outcome in outcomes:
        verdict = outcome.verdict
        if verdict.kind in {"misprint", "fails"}:
            lines += [
                f"{verdict.kind} ({outcome.claim.source}, {outcome.claim.equation}): "
                f"{outcome.claim.title}",
                f"    printed: {verdict.printed}",
                f"    derived: {verdict.derived}",
                f"    {verdict.detail}",
            ]
    return "\n".join(lines)


def as_json(outcomes: Sequence[Outcome]) -> str:
    """Every claim: source, equation, verdict, z or exact, detail, seconds."""
    return (
        json.dumps(
            {
                "holds": all(outcome.verdict.holds for outcome in outcomes),
                "false_alarms": FALSE_ALARMS,
                "claims": [_record(outcome) for outcome in outcomes],
            },
            indent=1,
            ensure_ascii=False,
        )
        + "\n"
    )


def _record(outcome: Outcome) -> Mapping[str, object]:
    claim, verdict = outcome.claim, outcome.verdict
    record = {
        "source": claim.source,
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


def write_json(outcomes: Sequence[Outcome], path: str | os.PathLike[str]) -> None:
    """The JSON file, written aside and renamed."""
    write_text(as_json(outcomes), path)


def check_directory(directory: str | os.PathLike[str]) -> None:
    """InputError unless a report can go there: it is new, empty, or holds an earlier report."""
    target = Path(directory)
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    index = target / INDEX
    if not (target.is_dir() and index.is_file() and _MARK in index.read_text(encoding="utf-8")):
        raise InputError("report", str(directory), "a new directory, or one with an earlier report")


def write_directory(outcomes: Sequence[Outcome], directory: str | os.PathLike[str]) -> Path:
    """Index, figures and JSON, written aside; the directory of an earlier report is replaced."""
    check_directory(directory)
    target = Path(directory).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    former = aside.with_name(aside.name + ".old")
    try:
        for outcome in outcomes:
            for stem, figure in outcome.verdict.figures.items():
                figure.savefig(aside / f"{stem}.svg", metadata={"Date": None})
        write_json(outcomes, aside / "claims.json")
        write_text(index(outcomes), aside / INDEX)
        aside.chmod(0o755)
        if target.exists():
            target.rename(former)
        aside.rename(target)
    finally:
        for leftover in (aside, former):
            shutil.rmtree(leftover, ignore_errors=True)
    return target


def index(outcomes: Sequence[Outcome]) -> str:
    """The report's first page, in Markdown."""
    rows = [
        f"| {outcome.claim.source} | ({outcome.claim.equation}) | {outcome.claim.title} "
        f"| **{outcome.verdict.kind}** | {_cell(measure(outcome.verdict))} |"
        for outcome in outcomes
    ]
    parts = [
        _MARK,
        "# What was checked",
        "```\n" + summary(outcomes) + "\n```",
        "\n".join(["| source | equation | claim | verdict | how sure |", "|-" * 5 + "|", *rows]),
    ]
    for outcome in outcomes:
        parts.append(_section(outcome))
    return "\n\n".join(parts) + "\n"


def _section(outcome: Outcome) -> str:
    claim, verdict = outcome.claim, outcome.verdict
    parts = [
        f"## {claim.source} ({claim.equation}) {claim.title}: {verdict.kind}",
        " ".join(claim.prose.split()),
        f"Derived: `{verdict.derived}`" if verdict.derived else "",
        f"Printed: `{verdict.printed}`" if verdict.printed and verdict.z is None else "",
        f"Sampled: `{verdict.printed}`" if verdict.z is not None else "",
        verdict.detail,
        *(f"![{stem}]({stem}.svg)" for stem in verdict.figures),
        f"```\n{verdict.table}\n```" if verdict.table else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
