"""Claims: a printed equation, the function that proves it, and the book's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeVar

from derivations.claims.kept import Tally
from derive.errors import InputError

from .verdicts import Verdict

T = TypeVar("T")

FALSE_ALARMS = 5.7e-7
"""The chance that a run in which everything is true reports a failure."""


def _of(folder: str, modules: str) -> tuple[str, ...]:
    return tuple(f"derivations.{folder}.{module}" for module in modules.split())


CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "000": (
        *_of("day_kahn_roberts", "weights weingarten linear one_layer criticality vertex depth"),
        *_of("day_kahn_roberts", "metric many_inputs fields tower finite_width normalisation"),
        *_of("day_kahn_roberts", "asymptotics ensembles measurements untrained"),
        *_of("training", "tanh theory tangent variations"),
    ),
    "001": (
        *_of("nait_saada_tanner", "maps biases depth correlations gradients jacobians"),
        *_of("pennington", "propagation transforms finite_width ensembles"),
    ),
    "002": (
        *_of("pennington", "propagation criticality free algorithm transforms moments limits"),
        *_of("pennington", "smooth orthogonality ensembles"),
    ),
    "003": (
        *_of("daneshmand", "chain inequalities drift vanilla activations initialization"),
        *_of("daneshmand", "convolutions untrained trained unnumbered gradients"),
    ),
    "004": _of("pdlt", "networks correlators limits"),
    "layers": _of("layers", "recursions infinite_width depth one_matrix finite_width"),
    "attention": _of("attention", "limits"),
    "deep": _of("deep", "laws covariance attention orders gradients"),
    "training": _of("training", "deep rates"),
}
"""The sources' chapters, and four beyond them, each a list of modules with claims."""


@dataclass(frozen=True)
class Sampling:
    """The means of a sampled claim: a seed, its share of the run's false alarms, and its size.

    Attributes:
        full: None for the book's size; else a figure's printed size, with this share of the
            networks.
        data: the images of an experiment, as `derivations.training.data.source` reads them.
    """

    seed: int
    false_alarms: float
    full: float | None = None
    data: str = "digits"

    def sizes(self, book: T, printed: T) -> T:
        """The book's size, or the printed one."""
        return book if self.full is None else printed

    def networks(self, book: int, printed: int | None = None) -> int:
        """How many the book draws, or how many of a figure of the printed size; 4 at least."""
        if self.full is None:
            return book
        return max(min(4, book), round(self.full * (book if printed is None else printed)))


@dataclass(frozen=True)
class Claim:
    """A statement of a source with the function that derives it; its docstring is the prose."""

    source: str
    equation: str
    title: str
    prove: Callable[..., Verdict]
    sampled: bool
    images: bool = False
    """True if it is of an experiment, with whatever images it is given."""

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
    """A claim with its verdict, the seconds it took, and the ensembles drawn and read back.

    `processor` is the seconds of processors, all threads together, which a busy machine does not
    lengthen; None where nobody counted them.
    """

    claim: Claim
    verdict: Verdict
    seconds: float
    ensembles: Tally = field(default_factory=Tally)
    processor: float | None = None


_registry: dict[str, list[Claim]] = {}


def claim(
    source: str, equation: str, title: str, *, sampled: bool = False, images: bool = False
) -> Callable[[Callable[..., Verdict]], Callable[..., Verdict]]:
    """Register a function as the proof of an equation; with `sampled` it takes a `Sampling`, whose
    `data` it heeds with `images`."""

    def register(prove: Callable[..., Verdict]) -> Callable[..., Verdict]:
        _registry.setdefault(prove.__module__, []).append(
            Claim(source, equation, title, prove, sampled, images)
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
