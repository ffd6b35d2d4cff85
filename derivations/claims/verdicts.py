"""What came of a claim: kinds of verdict, and how two sides come to one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import mpmath
import sympy

from derivations.claims.latex import Sides, sides

if TYPE_CHECKING:
    from numeric.tables.compare import Comparison


Kind = Literal["exact", "numeric", "statistical", "misprint", "fails"]


WORST_FIRST: Sequence[Kind] = ("fails", "misprint", "statistical", "numeric", "exact")
"""What a statement in several parts comes to: the first of these that one of its parts does."""


class Picture(Protocol):
    """What a report draws: a matplotlib Figure, or a `derivations.pictures.diagrams.Drawing`."""

    def savefig(self, path: Any, /, *, metadata: Mapping[str, Any]) -> None:
        """Write it as SVG."""


@dataclass(frozen=True)
class Verdict:
    """What came of a claim.

    Attributes:
        kind: "exact" (proven with symbols or rationals), "numeric" (to `digits`), "statistical"
            (all |z| within `bound`), "misprint" (the printed statement is wrong, with a proof), or
            "fails".
        derived, printed: the two sides.
        detail: how it was proven, or what a number was.
        z, bound, comparisons: the largest |z| of an ensemble, what it may be, out of how many.
        figures: by file stem.
        table: longer text for the report.
        sides: what is derived and what is printed, in LaTeX, where they are expressions.
    """

    kind: Kind
    derived: str
    printed: str = ""
    detail: str = ""
    digits: float | None = None
    z: float | None = None
    bound: float | None = None
    comparisons: int = 0
    figures: Mapping[str, Picture] = field(default_factory=dict)
    table: str = ""
    sides: tuple[Sides, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the claim stands; a misprint stands when it is proven to be one."""
        return self.kind != "fails"


def equal(derived: Any, printed: Any, detail: str = "", labels: Sequence[str] = ()) -> Verdict:
    """Exact if the two expressions, or all pairs of two sequences, are one; else it fails.

    `labels` says in LaTeX what each pair is the value of.
    """
    pairs = list(_pairs(derived, printed))
    wrong = [pair for pair in pairs if not _vanishes(pair[0] - pair[1])]
    left, right = (wrong or [pair for pair in pairs if pair[1] != 0] or pairs)[0]
    count = f"{len(pairs)} identities" if len(pairs) > 1 else ""
    notes = "; ".join(note for note in (count, detail) if note)
    rows = zip(pairs, labels or [""] * len(pairs), strict=True)
    # those that differ first, then those that are not 0 = 0
    shown = sorted(rows, key=lambda row: (row[0] not in wrong, row[0][1] == 0))
    spelled = sides([pair for pair, _ in shown], labels=[label for _, label in shown])
    kind: Kind = "fails" if wrong else "exact"
    return Verdict(kind, str(left), str(right), notes, sides=spelled)


def close(derived: Any, printed: Any, digits: int, detail: str = "") -> Verdict:
    """Numeric if the numbers, or all pairs, agree to so many digits; else it fails."""
    given = list(_pairs(derived, printed))
    with mpmath.workdps(digits + 10):
        pairs = [(_number(a), _number(b)) for a, b in given]
        scale = max(max(abs(a), abs(b)) for a, b in pairs)
        left, right = max(pairs, key=lambda pair: abs(pair[0] - pair[1]))
        error = abs(left - right) / scale if scale else mpmath.mpf(0)
        reached = float(-mpmath.log10(error)) if error else float(digits + 10)
    return Verdict(
        "numeric" if reached >= digits else "fails",
        mpmath.nstr(left, min(digits, 15)),
        mpmath.nstr(right, min(digits, 15)),
        detail,
        digits=reached,
        sides=sides(given, digits),
    )


def misprint(derived: Any, printed: Any, proof: str, *, provided: Verdict | None = None) -> Verdict:
    """A misprint if what is derived and what is printed differ; else it fails: print and proof
    would agree after all. Both are expressions, or statements in words.

    `provided` is what the proof rests on, such as the statement put right: where that fails, it is
    the verdict."""
    if provided is not None and not provided.holds:
        return provided
    if isinstance(derived, str):
        differ = derived != printed
    else:
        differ = not _vanishes(sympy.sympify(derived) - sympy.sympify(printed))
    kind: Kind = "misprint" if differ else "fails"
    shown = sides([(derived, printed)])
    return Verdict(kind, str(derived), str(printed), proof, sides=shown)


def sampled(
    comparisons: Comparison | Sequence[Comparison],
    detail: str = "",
    figures: Mapping[str, Picture] | None = None,
    labels: Sequence[str] = ("",),
) -> Verdict:
    """Statistical if every comparison agrees; each must have been given its share of the alarms."""
    given = [comparisons] if not isinstance(comparisons, Sequence) else list(comparisons)
    label, worst = max(
        zip(labels, given, strict=True), key=lambda pair: abs(pair[1].worst.z) / pair[1].bound
    )
    row = worst.worst
    return Verdict(
        "statistical" if all(each.agrees for each in given) else "fails",
        f"{label} {row.name} at layer {row.layer}: {row.theory:.6g}".lstrip(),
        f"{row.sample:.6g} ± {row.se:.2g}",
        detail,
        z=abs(row.z),
        bound=worst.bound,
        comparisons=sum(len(each.rows) for each in given),
        figures=dict(figures or {}),
        table="\n\n".join(
            f"{label}\n{each}".lstrip() for label, each in zip(labels, given, strict=True)
        ),
    )


def both(*verdicts: Verdict, detail: str = "") -> Verdict:
    """The verdict on a claim with several parts: the first of those that come to the worst.

    Details, figures and tables are those of all parts; so are the sides, unless one fails.
    """
    shown = min(verdicts, key=lambda each: WORST_FIRST.index(each.kind))
    notes = dict.fromkeys([detail, *(each.detail for each in verdicts)])
    parts = verdicts if shown.holds else (shown,)
    return replace(
        shown,
        detail="; ".join(note for note in notes if note),
        figures={stem: made for each in verdicts for stem, made in each.figures.items()},
        table="\n\n".join(each.table for each in verdicts if each.table),
        sides=tuple(dict.fromkeys(pair for each in parts for pair in each.sides)),
    )


def _pairs(derived: Any, printed: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(derived, Sequence):
        yield from zip(derived, printed, strict=True)
    else:
        yield derived, printed


def _number(value: Any) -> mpmath.mpf:
    exact = value.evalf(mpmath.mp.dps) if isinstance(value, sympy.Expr) else value
    return mpmath.mpf(exact)


def _vanishes(difference: Any) -> bool:
    """Whether an expression is identically zero."""
    expression = sympy.expand(difference)
    return bool(expression == 0 or sympy.simplify(sympy.factor(expression, deep=True)) == 0)
