"""The theory tried on random networks: derive, flow, sample, compare; what fails is made small,
and what agrees but would have agreed with too much is called weak.

    verify(25, seed=1)                      # networks drawn from all that the engine knows
    verify(5, of=net)                       # inputs and depths for a network of yours
    verify(Example(net, x, 4, (recursion(["z", "z", my_field]),)))

One example is a network's leading tensors, flowed, against ensembles of several widths,
extrapolated in 1/n. The false alarms are those of all examples together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

import numba

from derive.engine.tensors import Name
from derive.errors import InputError, listed, whole
from derive.network import Network
from derive.recursions import Recursion, Wanted
from derive.work.processes import together
from derive.work.progress import quiet

from . import examples as drawing
from .checks import probability as checked_probability
from .checks import seed as checked_seed
from .examples import Example
from .flows import flow
from .simulations import simulate
from .tables.compare import FALSE_ALARMS, WEAK, Comparison, compare, percent

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

WIDTHS = (24, 48, 96)
DRAWS = 30_000
MOST_STEPS = 100
"""How many simpler examples are tried in all to shrink one that fails."""


@dataclass(frozen=True, repr=False)
class Check:
    """An example with its z-scores.

    Attributes:
        example: a network, its inputs, a depth and tensors.
        comparison: of its flow with its ensembles.
    """

    example: Example
    comparison: Comparison

    @property
    def agrees(self) -> bool:
        """Whether nothing in the ensembles contradicts the theory."""
        return self.comparison.agrees

    @property
    def weak(self) -> bool:
        """Whether it agrees, but a number resolves worse than `numeric.tables.compare.WEAK`."""
        return self.comparison.weak

    @property
    def resolution(self) -> float:
        """The relative change of the theory that any number of it would have shown."""
        return self.comparison.resolution

    @property
    def severity(self) -> float:
        """The largest |z| over its bound: above 1 in a failure."""
        return abs(self.comparison.worst.z) / self.comparison.bound

    def __str__(self) -> str:
        worst, coarsest = self.comparison.worst, self.comparison.coarsest
        word = "weak" if self.weak else "agrees" if self.agrees else "FAILS"
        return (
            f"{word:6}  largest |z| {abs(worst.z):5.2f} of {self.comparison.bound:.2f} "
            f"({worst.name} at layer {worst.layer}), resolves {percent(self.resolution)} "
            f"({coarsest.name} at layer {coarsest.layer})  {self.example}"
        )

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Verification:
    """What came of all examples.

    Attributes:
        checks: example by example.
        smallest: for each failure the simplest example found that still fails.
        false_alarms: the chance that any of them fails by accident.
        widths, draws: of the ensembles.
    """

    checks: tuple[Check, ...]
    smallest: tuple[Check, ...]
    false_alarms: float
    widths: tuple[int, ...]
    draws: int

    @property
    def agrees(self) -> bool:
        """Whether no example fails."""
        return all(check.agrees for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The examples that do."""
        return tuple(check for check in self.checks if not check.agrees)

    @property
    def weak(self) -> tuple[Check, ...]:
        """The examples that agree, but would have agreed with too much."""
        return tuple(check for check in self.checks if check.weak)

    @property
    def summary(self) -> str:
        """Networks, comparisons and the worst score in a line."""
        worst = max(self.checks, key=lambda check: check.severity)
        count = sum(len(check.comparison.rows) for check in self.checks)
        failed, weak = len(self.failures), len(self.weak)
        rest = "the others agree" if weak < len(self.checks) else "none agrees"
        told = f"{weak} weak (resolving worse than {percent(WEAK)}), {rest}"
        told = told if weak else "all agree"
        return (
            f"{len(self.checks)} networks, {count} comparisons at n = "
            f"{', '.join(map(str, self.widths))} with {self.draws} draws: "
            f"{f'{failed} FAIL' if failed else told}; largest |z| "
            f"{abs(worst.comparison.worst.z):.2f} of {worst.comparison.bound:.2f} "
            f"(family-wise false-alarm rate {self.false_alarms:.1e})"
        )

    def __str__(self) -> str:
        shrunk = [f"the smallest network that shows it:\n{check}" for check in self.smallest]
        return "\n".join([*map(str, self.checks), *shrunk, self.summary])

    def __repr__(self) -> str:
        return str(self)


def verify(
    examples: int | Example | Iterable[Example] = 25,
    seed: int = 0,
    *,
    of: Network | SearchStrategy[Network] | None = None,
    tensors: Wanted | Iterable[Wanted] | None = None,
    widths: Sequence[int] = WIDTHS,
    draws: int = DRAWS,
    false_alarms: float = FALSE_ALARMS,
    seen: Callable[[Check], None] | None = None,
    jobs: int = 1,
) -> Verification:
    """Compare theory and ensembles for random networks, or for given ones.

    Arguments:
        examples: how many to draw; or the examples themselves.
        seed: of what is drawn; example k of a seed does not depend on how many there are.
        of: a network, whose inputs, depths and tensors are drawn; or a hypothesis strategy of
            networks, such as `testing.networks(…)`.
        tensors: what to look at in what is drawn.
        widths: three or so, at which the examples' ranks are whole numbers.
        draws: networks at each width.
        false_alarms: the chance that one or more examples fail by accident, all together.
        seen: called with each check as it is finished, in the examples' order.
        jobs: processes; more than one need examples that can be pickled. What comes out does not
            depend on it.

    Raises:
        InputError: for an argument that can't be used, or an example whose network can't be.

    The false alarms are shared out evenly (Bonferroni), derived here as in `compare`.

    >>> import numpy as np
    >>> from derive import activations
    >>> example = Example(Network(activations.linear), np.ones(2), 2, ("K",))
    >>> verify(example, widths=(4, 8), draws=100).agrees
    True
    """
    chosen = _chosen(examples, seed, of, tensors)
    widths = tuple(whole("widths", n, 1) for n in listed("widths", widths, "several widths"))
    draws = whole("draws", draws, 1)
    if len(set(widths)) < 2:
        raise InputError("widths", widths, "two or more, to extrapolate in 1/n")
    false_alarms = checked_probability("false_alarms", false_alarms)
    share = false_alarms / len(chosen)
    jobs = min(whole("jobs", jobs, 1, wanted="a number of processes, 1 or more"), len(chosen))
    threads = max(1, int(numba.get_num_threads()) // jobs)
    with closing(
        together(_Quiet(widths, draws, share, threads), chosen, jobs)
        if jobs > 1
        else (check(each, widths, draws, share) for each in chosen)
    ) as found:
        checks = []
        for each in found:
            checks.append(each)
            if seen is not None:
                seen(each)
    smallest = tuple(shrink(each, widths, draws, share) for each in checks if not each.agrees)
    return Verification(tuple(checks), smallest, false_alarms, widths, draws)


def check(
    example: Example,
    widths: Sequence[int] = WIDTHS,
    draws: int = DRAWS,
    false_alarms: float = FALSE_ALARMS,
) -> Check:
    """One example: its tensors flowed, sampled at each width, and compared.

    Arguments:
        example: its network has numbers for all parameters.
        widths: two or more, extrapolated in 1/n.
        draws: networks at each width.
        false_alarms: the chance that it fails by accident.

    Raises InputError as `flow`, `simulate` and `compare` do. The theory is derived here.

    >>> import numpy as np
    >>> from derive import activations
    >>> example = Example(Network(activations.linear), np.ones(2), 2, ("K",))
    >>> check(example, widths=(4, 8), draws=100).agrees
    True
    """
    net, inputs, depth = example.net, example.inputs, example.depth
    flowed = flow(net, inputs, depth, example.tensors, width=max(widths))
    sampled = [
        simulate(net, inputs, n, depth, draws, tensors=example.tensors, seed=example.seed)
        for n in widths
    ]
    return Check(example, compare(flowed, sampled, false_alarms))


def shrink(
    failure: Check,
    widths: Sequence[int] = WIDTHS,
    draws: int = DRAWS,
    false_alarms: float = FALSE_ALARMS,
) -> Check:
    """The simplest example found that fails too: step by step, `MOST_STEPS` tried in all.

    Deterministic, and bounded as each example is by `false_alarms`, so that what is left is no
    accident of a search among many: each has `false_alarms`/`MOST_STEPS`. Derived here.

    Arguments:
        failure: a check; where nothing simpler fails, it is what comes back.
        widths, draws, false_alarms: those of `check`.

    Raises InputError for widths or draws that can't be used; a simpler network that can't be is
    passed over.

    >>> import numpy as np
    >>> from derive import activations
    >>> example = Example(Network(activations.linear), np.ones(2), 2, ("K",))
    >>> agreeing = check(example, widths=(4, 8), draws=100)
    >>> shrink(agreeing, widths=(4, 8), draws=100) is agreeing
    True
    """
    tried = 0
    candidates = drawing.simpler(failure.example)
    while tried < MOST_STEPS and (candidate := next(candidates, None)) is not None:
        tried += 1
        try:
            found = check(candidate, widths, draws, false_alarms / MOST_STEPS)
        except InputError:  # the simpler network is none that can be flowed or sampled
            continue
        if not found.agrees:
            failure, candidates = found, drawing.simpler(found.example)
    return failure


def _chosen(
    examples: int | Example | Iterable[Example],
    seed: int,
    of: Network | SearchStrategy[Network] | None,
    tensors: Wanted | Iterable[Wanted] | None,
) -> list[Example]:
    seed = checked_seed(seed)
    if isinstance(examples, SupportsIndex):
        count = whole("examples", examples, 1)
        names = None if tensors is None else _names(tensors)
        nets = _networks(of, count, seed)
        return [drawing.drawn(k, seed, net, names) for k, net in enumerate(nets, 1)]
    wanted = "a number of examples, or one or more `Example`s"
    given = [examples] if isinstance(examples, Example) else listed("examples", examples, wanted)
    if not given or not all(isinstance(each, Example) for each in given):
        raise InputError("examples", examples, wanted)
    if of is not None or tensors is not None:
        raise InputError("examples", given, "a number, if networks or tensors are given apart")
    return given


@dataclass(frozen=True)
class _Quiet:
    """`check` in one of several processes: the one that began them tells the progress."""

    widths: tuple[int, ...]
    draws: int
    false_alarms: float
    threads: int

    def __call__(self, example: Example) -> Check:
        numba.set_num_threads(self.threads)
        with quiet():
            return check(example, self.widths, self.draws, self.false_alarms)


def _names(tensors: Wanted | Iterable[Wanted]) -> tuple[Wanted, ...]:
    if isinstance(tensors, str | Name | Recursion):
        return (tensors,)
    return tuple(listed("tensors", tensors, "names of tensors, or recursions"))


def _networks(
    of: Network | SearchStrategy[Network] | None, count: int, seed: int
) -> Iterator[Network | None]:
    if of is None or isinstance(of, Network):
        yield from (of for _ in range(count))
        return
    from .testing import sample  # noqa: PLC0415  (hypothesis is imported only when used)

    yield from sample(of, count, seed)
