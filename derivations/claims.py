"""What the book asserts: a claim ties a printed equation to a derivation and comes to a verdict.

    @claim(source="000", equation="5.18", title="V with one input")
    def single_input_vertex() -> Verdict: ...

A claim that samples takes a `Sampling`: the seed, and its share of the false alarms that the whole
run is allowed, so that the verdicts together are wrong by accident no more often than one number
beyond 5 sigma (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

import mpmath
import sympy

from derivations.latex import Sides, sides
from derive.errors import InputError, whole

if TYPE_CHECKING:
    from derivations.kept import Kept
    from derivations.running import Watch
    from numeric.compare import Comparison

Kind = Literal["exact", "numeric", "statistical", "misprint", "fails"]

WORST_FIRST: Sequence[Kind] = ("fails", "misprint", "statistical", "numeric", "exact")
"""What a statement in several parts comes to: the first of these that one of its parts does."""

FALSE_ALARMS = 5.7e-7
"""The chance that a run in which everything is true reports a failure."""

CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "000": (
        "derivations.day_kahn_roberts.weights",
        "derivations.weingarten",
        "derivations.day_kahn_roberts.linear",
        "derivations.day_kahn_roberts.one_layer",
        "derivations.day_kahn_roberts.criticality",
        "derivations.day_kahn_roberts.vertex",
        "derivations.day_kahn_roberts.depth",
        "derivations.day_kahn_roberts.metric",
        "derivations.day_kahn_roberts.many_inputs",
        "derivations.day_kahn_roberts.fields",
        "derivations.day_kahn_roberts.tower",
        "derivations.day_kahn_roberts.finite_width",
        "derivations.day_kahn_roberts.normalisation",
        "derivations.day_kahn_roberts.asymptotics",
        "derivations.day_kahn_roberts.ensembles",
        "derivations.day_kahn_roberts.measurements",
    ),
    "001": (
        "derivations.nait_saada_tanner.maps",
        "derivations.nait_saada_tanner.biases",
        "derivations.nait_saada_tanner.depth",
        "derivations.nait_saada_tanner.correlations",
        "derivations.nait_saada_tanner.gradients",
        "derivations.nait_saada_tanner.jacobians",
        "derivations.pennington.propagation",
        "derivations.pennington.transforms",
        "derivations.pennington.ensembles",
    ),
    "002": (
        "derivations.pennington.propagation",
        "derivations.pennington.free",
        "derivations.pennington.algorithm",
        "derivations.pennington.transforms",
        "derivations.pennington.moments",
        "derivations.pennington.limits",
        "derivations.pennington.smooth",
        "derivations.pennington.orthogonality",
        "derivations.pennington.ensembles",
    ),
    "003": (
        "derivations.daneshmand.chain",
        "derivations.daneshmand.inequalities",
        "derivations.daneshmand.drift",
        "derivations.daneshmand.vanilla",
        "derivations.daneshmand.activations",
        "derivations.daneshmand.initialization",
        "derivations.daneshmand.convolutions",
    ),
    "004": (
        "derivations.pdlt.networks",
        "derivations.pdlt.correlators",
        "derivations.pdlt.limits",
    ),
}
"""The sources' chapters, each a list of modules that register their claims."""


class Picture(Protocol):
    """What a report draws: a matplotlib Figure, or a `derivations.diagrams.Drawing`."""

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


@dataclass(frozen=True)
class Sampling:
    """What a sampled claim may use: a seed, and its share of the run's false alarms."""

    seed: int
    false_alarms: float


@dataclass(frozen=True)
class Claim:
    """A statement of a source with the function that derives it; its docstring is the prose."""

    source: str
    equation: str
    title: str
    prove: Callable[..., Verdict]
    sampled: bool

    @property
    def name(self) -> str:
        """module.function, as the ledger writes it."""
        return f"{self.prove.__module__.rpartition('.')[2]}.{self.prove.__name__}"

    @property
    def prose(self) -> str:
        """The function's docstring."""
        return (self.prove.__doc__ or "").strip()


@dataclass(frozen=True)
class Outcome:
    """A claim with its verdict, and the seconds it took."""

    claim: Claim
    verdict: Verdict
    seconds: float


_registry: dict[str, list[Claim]] = {}


def claim(
    source: str, equation: str, title: str, *, sampled: bool = False
) -> Callable[[Callable[..., Verdict]], Callable[..., Verdict]]:
    """Register a function as the proof of an equation; with `sampled` it takes a `Sampling`."""

    def register(prove: Callable[..., Verdict]) -> Callable[..., Verdict]:
        _registry.setdefault(prove.__module__, []).append(
            Claim(source, equation, title, prove, sampled)
        )
        return prove

    return register


def claims(chapters: Sequence[str] = ()) -> list[Claim]:
    """The claims of these chapters in the book's order; of all of them, if none is named."""
    for chapter in chapters:
        if chapter not in CHAPTERS:
            raise InputError("chapter", chapter, f"one of {', '.join(CHAPTERS)}")
    found: list[Claim] = []
    for chapter in dict.fromkeys(chapters or CHAPTERS):
        for module in CHAPTERS[chapter]:
            import_module(module)
            found.extend(each for each in _registry[module] if each.source == chapter)
    return found


def in_module(module: str) -> list[Claim]:
    """The claims of an imported module, of every chapter that it has a part in."""
    return list(_registry.get(module, ()))


def check(
    chosen: Sequence[Claim],
    seed: int = 0,
    jobs: int = 1,
    *,
    kept: Kept | None = None,
    seconds: Mapping[str, float] | None = None,
    watch: Watch = lambda progress: None,
) -> Iterator[Outcome]:
    """Prove the claims, in this process or in several; the outcomes come in the claims' order.

    Each result depends on the claim, the seed and the number of sampled claims alone. A claim that
    raises anything but KeyboardInterrupt fails, with the reason.

    Arguments:
        kept: where to look for outcomes of a check that was stopped, and to put those of this one.
        seconds: that claims took before, by "source module.function": the longest start first.
        watch: is told of the progress.
    """
    from derivations.running import Progress, alone, together  # noqa: PLC0415
    from numeric import checks  # noqa: PLC0415

    seed = checks.seed(seed)
    jobs = whole("jobs", jobs, 1, wanted="a number of processes, 1 or more")
    sampling = Sampling(seed, FALSE_ALARMS / max(1, sum(each.sampled for each in chosen)))
    found: list[Outcome | None] = [kept.read(each, sampling) if kept else None for each in chosen]
    left = [place for place, outcome in enumerate(found) if outcome is None]
    done = len(chosen) - len(left)

    def tell(progress: Progress) -> None:
        watch(replace(progress, done=progress.done + done, total=len(chosen)))

    rest = [chosen[place] for place in left]
    proven = (
        alone(rest, sampling, tell)
        if jobs == 1
        else together(rest, sampling, jobs, tell, seconds or {})
    )
    following = 0
    with closing(proven):
        while following < len(chosen):
            outcome = found[following]
            if outcome is not None:
                yield outcome
                following += 1
                continue
            arrived = next(proven)
            if kept:
                kept.write(arrived, sampling)
            place = next(place for place in left if chosen[place] == arrived.claim)
            left.remove(place)
            found[place] = arrived


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


def misprint(derived: Any, printed: Any, proof: str) -> Verdict:
    """A misprint if what is derived and what is printed differ; else it fails: print and proof
    would agree after all. Both are expressions, or statements in words."""
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
