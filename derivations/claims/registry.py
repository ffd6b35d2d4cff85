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


CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "000": (
        "derivations.day_kahn_roberts.weights",
        "derivations.day_kahn_roberts.weingarten",
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
        "derivations.day_kahn_roberts.untrained",
        "derivations.training.tanh",
        "derivations.training.theory",
        "derivations.training.tangent",
        "derivations.training.variations",
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
        "derivations.pennington.finite_width",
        "derivations.pennington.ensembles",
    ),
    "002": (
        "derivations.pennington.propagation",
        "derivations.pennington.criticality",
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
        "derivations.daneshmand.untrained",
        "derivations.daneshmand.trained",
        "derivations.daneshmand.unnumbered",
        "derivations.daneshmand.gradients",
    ),
    "004": (
        "derivations.pdlt.networks",
        "derivations.pdlt.correlators",
        "derivations.pdlt.limits",
    ),
    "layers": (
        "derivations.layers.recursions",
        "derivations.layers.infinite_width",
        "derivations.layers.depth",
        "derivations.layers.one_matrix",
        "derivations.layers.finite_width",
    ),
    "attention": ("derivations.attention.limits",),
    "deep": (
        "derivations.deep.laws",
        "derivations.deep.covariance",
        "derivations.deep.attention",
        "derivations.deep.orders",
        "derivations.deep.gradients",
    ),
    "training": ("derivations.training.deep", "derivations.training.rates"),
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
