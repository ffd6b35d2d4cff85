"""The outcome of a claim: kinds of verdict, and how two sides come to one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import mpmath
import sympy

from derivations.claims.latex import Sides, sides
from derivations.claims.witness import Witness, generic, given
from derive.errors import InputError

if TYPE_CHECKING:
    from numeric.tables.compare import Comparison


Kind = Literal[
    "exact",
    "enclosed",
    "numeric",
    "statistical",
    "reproduced",
    "reduced size",
    "not reproduced",
    "weak",
    "misprint",
    "doubtful",
    "fails",
]


WORST_FIRST: Sequence[Kind] = (
    "fails",
    "weak",
    "misprint",
    "doubtful",
    "not reproduced",
    "reduced size",
    "reproduced",
    "statistical",
    "numeric",
    "enclosed",
    "exact",
)
"""The verdict on a statement in several parts: the first of these that one of its parts has."""


class Picture(Protocol):
    """A picture of a report: a matplotlib Figure, or a `derivations.pictures.diagrams.Drawing`."""

    def savefig(self, path: Any, /, *, metadata: Mapping[str, Any]) -> None:
        """Write it as SVG."""


@dataclass(frozen=True)
class Verdict:
    """The result of a claim.

    Attributes:
        kind: "exact" (proven with symbols or rationals), "enclosed" (proven by interval arithmetic
            at `points`), "numeric" (floats, to `digits` where two numbers are compared),
            "statistical" (all |z| within `bound`, and `resolution` fine enough), "weak" (the same,
            but it would have agreed with too much), "reproduced" (an experiment, run at the printed
            size, bears out what is said of it), "reduced size" (the same, run at another `size`),
            "not reproduced" (at this size it does not), "misprint" (the printed statement is wrong,
            with a proof and a `witness`), "doubtful" (the same, but a character lost from the text
            at hand would explain it), or "fails".
        derived, printed: the two sides.
        detail: how it was proven, or what a number was.
        z, bound, comparisons: the largest |z| of an ensemble, what it may be, out of how many.
        figures: by file stem.
        table: longer text for the report.
        sides: what is derived and what is printed, in LaTeX, where they are expressions.
        resolutions: of each sampled number, the difference that would have been noticed, as a share
            of its tensor's largest component in its layer.
        witness: of a misprint, a number that print and derivation give differently.
        points: at how many an enclosed statement was proven.
        size: at which an experiment was run, in words.
        noticed: of each test of an experiment the relative difference that it would have noticed
            nine times in ten.
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
    resolutions: tuple[float, ...] = ()
    witness: Witness | None = None
    points: int = 0
    size: str = ""
    noticed: tuple[float, ...] = ()

    @property
    def holds(self) -> bool:
        """True if nothing contradicts the claim; a misprint stands when it is proven to be one."""
        return self.kind != "fails"

    @property
    def resolution(self) -> float | None:
        """The worst of all numbers that were sampled; None where none was."""
        return max(self.resolutions, default=None)


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


def enclosed(proven: Iterable[bool], statement: str, where: str) -> Verdict:
    """Enclosed if interval arithmetic proves a statement at every point; else it fails.

    Arguments:
        proven: point by point.
        statement: what holds, in words.
        where: what the points are, such as "spectra".
    """
    points = list(proven)
    missed = [at for at, holds in enumerate(points, 1) if not holds]
    if missed or not points:
        told = f"not at {where} number {missed[0]}" if missed else f"no {where}"
        return Verdict("fails", told, statement)
    detail = f"{statement}: enclosed at {len(points)} {where}"
    return Verdict("enclosed", "holds", "holds", detail, points=len(points))


def observed(holds: bool | Sequence[bool], detail: str) -> Verdict:
    """Numeric if floats bear a statement out, or several; else it fails. `detail` says which."""
    parts = holds if isinstance(holds, Sequence) else [holds]
    met = sum(map(bool, parts))
    kind: Kind = "numeric" if parts and met == len(parts) else "fails"
    return Verdict(kind, f"{met} of {len(parts)} hold", f"{len(parts)} hold", detail)


def close(derived: Any, printed: Any, digits: int, detail: str = "") -> Verdict:
    """Numeric if the numbers, or each pair of them, agree to so many digits; else it fails.

    A pair is measured by its own size; one of which a side is exactly 0, by the largest of all."""
    given = list(_pairs(derived, printed))
    with mpmath.workdps(digits + 10):
        pairs = [(_number(a), _number(b)) for a, b in given]
        largest = max(max(abs(a), abs(b)) for a, b in pairs)
        left, right = max(pairs, key=lambda pair: _relative(pair[0], pair[1], largest))
        error = _relative(left, right, largest)
        reached = float(-mpmath.log10(error)) if error else float(digits + 10)
    return Verdict(
        "numeric" if reached >= digits else "fails",
        mpmath.nstr(left, min(digits, 15)),
        mpmath.nstr(right, min(digits, 15)),
        detail,
        digits=reached,
        sides=sides(given, digits),
    )


def misprint(
    derived: Any,
    printed: Any,
    proof: str,
    *,
    provided: Verdict | None = None,
    witness: Sequence[Any] | None = None,
    lost: str = "",
) -> Verdict:
    """A misprint if there is a number that what is derived and what is printed give differently;
    else it fails: print and proof would agree after all.

    Arguments:
        derived, printed: expressions, whose witness is their value at rational values of their
            symbols; or statements in words, which are labels alone.
        proof: how it was derived.
        provided: what the proof rests on, such as the statement put right: where that fails, it is
            the verdict.
        witness: the number (as printed, as derived), with a third that bounds what both may be off
            together, if they are not exact. Words need one.
        lost: the loss of characters from the text at hand that would explain it. The verdict is
            then "doubtful".

    Raises:
        InputError: for words without a witness.
    """
    if provided is not None and not provided.holds:
        return provided
    words = isinstance(derived, str)
    if words and witness is None:
        wanted = "a number as printed and as derived: words that differ prove nothing"
        raise InputError("witness", None, wanted)
    seen = generic(derived, printed) if witness is None else given(witness)
    differ = seen is not None and seen.differ and not (words and derived == printed)
    stands: Kind = "doubtful" if lost else "misprint"
    return Verdict(
        stands if differ else "fails",
        str(derived),
        str(printed),
        "; ".join([proof, *([f"doubtful: {lost}"] if lost else [])]),
        sides=sides([(derived, printed)]),
        witness=seen if differ else None,
    )


def sampled(
    comparisons: Comparison | Sequence[Comparison],
    detail: str = "",
    figures: Mapping[str, Picture] | None = None,
    labels: Sequence[str] = ("",),
) -> Verdict:
    """Statistical if every comparison agrees and resolves, weak if one resolves too little; each
    must have been given its share of the alarms."""
    from numeric.tables.compare import WEAK, percent  # noqa: PLC0415  (for those that sample)

    given = [comparisons] if not isinstance(comparisons, Sequence) else list(comparisons)
    label, worst = max(
        zip(labels, given, strict=True), key=lambda pair: abs(pair[1].worst.z) / pair[1].bound
    )
    row = worst.worst
    at, coarsest = max(zip(labels, given, strict=True), key=lambda pair: pair[1].resolution)
    least = coarsest.coarsest
    kind = resolving([coarsest.resolution])
    if kind == "weak":
        coarse = sum(len(each.unresolved) for each in given)
        every = sum(len(each.rows) for each in given)
        told = f"weak: {coarse} of {every} numbers resolve worse than {percent(WEAK)}; "
        told += f"{at} {least.name} at layer {least.layer} {percent(least.share)}".lstrip()
        detail = "; ".join(filter(None, [detail, told]))
    return Verdict(
        kind if all(each.agrees for each in given) else "fails",
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
        resolutions=tuple(row.share for each in given for row in each.rows),
    )


def scored(
    scores: Iterable[float], errors: Iterable[float], false_alarms: float, detail: str
) -> Verdict:
    """Statistical if no |z| is above what the false alarms allow, weak if an error is too large.

    Arguments:
        scores: z of each number.
        errors: relative, of the numbers whose resolution counts.
        false_alarms: the chance that a true statement fails.
        detail: of what the numbers are.
    """
    from scipy import stats  # noqa: PLC0415  (for those that sample)

    z = [abs(float(each)) for each in scores]
    worst, bound = max(z), float(stats.norm.isf(false_alarms / len(z) / 2))
    resolutions = tuple(bound * float(each) for each in errors)
    return Verdict(
        resolving(resolutions) if worst < bound else "fails",
        f"|z| = {worst:.2f}",
        f"below {bound:.2f}",
        detail,
        z=worst,
        bound=bound,
        comparisons=len(z),
        resolutions=resolutions,
    )


def resolving(resolutions: Iterable[float]) -> Kind:
    """Statistical if all numbers resolve to `numeric.tables.compare.WEAK`, else weak."""
    from numeric.tables.compare import WEAK  # noqa: PLC0415  (for those that sample)

    return "statistical" if all(each <= WEAK for each in resolutions) else "weak"


def both(*verdicts: Verdict, detail: str = "") -> Verdict:
    """The verdict on a claim with several parts: the first of those that come to the worst.

    Details, figures, tables and resolutions are those of all parts; so are the sides, unless one
    fails.
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
        resolutions=tuple(number for each in verdicts for number in each.resolutions),
        witness=next((each.witness for each in (shown, *verdicts) if each.witness), None),
        points=sum(each.points for each in verdicts),
        size="; ".join(dict.fromkeys(each.size for each in verdicts if each.size)),
        noticed=tuple(number for each in verdicts for number in each.noticed),
    )


def _pairs(derived: Any, printed: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(derived, Sequence):
        yield from zip(derived, printed, strict=True)
    else:
        yield derived, printed


def _relative(a: mpmath.mpf, b: mpmath.mpf, largest: mpmath.mpf) -> mpmath.mpf:
    scale = max(abs(a), abs(b)) if a and b else largest
    return abs(a - b) / scale if scale else mpmath.mpf(0)


def _number(value: Any) -> mpmath.mpf:
    exact = value.evalf(mpmath.mp.dps) if isinstance(value, sympy.Expr) else value
    return mpmath.mpf(exact)


def _vanishes(difference: Any) -> bool:
    """True if an expression is identically zero."""
    expression = sympy.expand(difference)
    return bool(expression == 0 or sympy.simplify(sympy.factor(expression, deep=True)) == 0)
