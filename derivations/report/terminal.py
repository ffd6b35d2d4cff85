"""The verdicts as lines on a terminal."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from derivations.claims import FALSE_ALARMS, Outcome, Verdict
from derivations.claims.kept import Tally
from numeric.tables.compare import WEAK, percent

from .book import FINE, Book, count

COUNTED = {"not a statement": "by definition"}
"""The word after a number, where that is not the verdict itself."""

TOLD = ("fails", "weak", "misprint", "doubtful", "not reproduced", "reduced size", "reproduced")
"""Verdicts that say what they found."""


def line(outcome: Outcome) -> str:
    """One row of the table."""
    claim, verdict = outcome.claim, outcome.verdict
    return (
        f"{claim.source}  {claim.equation:15} {claim.title:48.48} {verdict.kind:14} "
        f"{measure(verdict):43} {outcome.seconds:6.1f} s"
    )


def measure(verdict: Verdict) -> str:
    """How sure: "proven", at how many points, the digits reached, or the largest z, its bound, and
    what would have been noticed."""
    if verdict.z is not None:
        sign = "<" if verdict.holds else ">"
        told = f"|z| {verdict.z:.2f} {sign} {verdict.bound:.2f} of {verdict.comparisons}"
        resolution = verdict.resolution
        return told if resolution is None else f"{told}, resolves {percent(resolution)}"
    if verdict.size:
        return verdict.size
    if verdict.digits is not None:
        return f"{verdict.digits:.0f} digits"
    if verdict.kind == "enclosed":
        return f"at {verdict.points} points"
    proven = dict.fromkeys(("exact", "misprint", "doubtful"), "proven")
    return {**proven, "fails": "differs", "numeric": "in floats"}.get(verdict.kind, "")


def summary(book: Book) -> str:
    """How many of each kind, the rate of false alarms, what would have been noticed, and every
    misprint, failure and weak claim."""
    kinds = Counter(outcome.verdict.kind for outcome in book.outcomes)
    lines = [
        f"{len(book.outcomes)} claims: "
        + ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    ]
    if book.compared:
        lines.append(
            f"{book.compared} sampled numbers compared; all together raise a false alarm in "
            f"{FALSE_ALARMS:.1e} of runs"
        )
    lines += [told for told in (ensembles(book), spent(book)) if told]
    if book.resolutions:
        lines.append(resolved(book))
    for outcome in book.outcomes:
        verdict = outcome.verdict
        if verdict.kind in TOLD:
            lines += [
                f"{verdict.kind} ({outcome.claim.source}, {outcome.claim.equation}): "
                f"{outcome.claim.title}",
                f"    printed: {verdict.printed}",
                f"    derived: {verdict.derived}",
                f"    {verdict.detail}",
            ]
            if verdict.witness is not None:
                lines.append(f"    witness: {verdict.witness}")
    return "\n".join(lines)


def ensembles(book: Book) -> str:
    """How many ensembles were drawn, and how many read back from an earlier check; "" if none."""
    tally = book.ensembles
    if not tally.read:
        return f"{tally.drawn} ensembles drawn" if tally.drawn else ""
    return (
        f"{tally.drawn} ensembles drawn, {tally.read} read back that were drawn by the same code "
        f"since {day(tally)} (--fresh draws them again)"
    )


def spent(book: Book) -> str:
    """Processor seconds of the claims, also in reference loops; "" if these were not measured."""
    if not book.reference:
        return ""
    return (
        f"{book.processor:.0f} processor seconds, {book.processor / book.reference:,.0f} times "
        f"the {1e3 * book.reference:.1f} ms of the reference loop"
    )


def day(tally: Tally) -> str:
    """When the oldest ensemble that was read back was drawn; "" if none was."""
    if tally.oldest is None:
        return ""
    return f"{datetime.fromtimestamp(tally.oldest, UTC):%Y-%m-%d %H:%M} UTC"


def resolved(book: Book) -> str:
    """The resolution of the sampled numbers; there has to be one."""
    return (
        "half of the sampled numbers resolve "
        f"{percent(book.median_resolution)} or better, {100 * book.fine:.0f} % of them "
        f"resolve {percent(FINE)}"
    )


def last(book: Book) -> str:
    """How many claims stand, and how many of them would have agreed with too much."""
    failed = sum(not outcome.verdict.holds for outcome in book.outcomes)
    told = f"{failed} FAIL" if failed else "none fails"
    return (
        f"{len(book.outcomes)} claims: {told}, {len(book.weak)} weak "
        f"(resolving worse than {percent(WEAK)})"
    )


def ledger_lines(book: Book) -> list[str]:
    """The verdicts of the statements of each chapter, the numbered and the others."""
    lines = []
    for source, entries in book.ledger.items():
        counted = count(book.verdict(entry) for entry in entries)
        words = ", ".join(f"{number} {COUNTED.get(word, word)}" for word, number in counted.items())
        numbered = sum(entry.numbered for entry in entries)
        others = f" and {len(entries) - numbered} others" if numbered < len(entries) else ""
        lines.append(f"{source}: {numbered} numbered statements{others}: {words}")
    return lines
