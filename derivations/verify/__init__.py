"""The theory tried on random networks: derive, flow, sample, compare; what fails is made small,
and what agrees but would have agreed with too much is called weak.

    verify(25, seed=1)                      # networks drawn from all that the engine knows
    verify(5, of=net)                       # inputs and depths for a network of yours
    verify(Example(net, x, 4, (recursion(["z", "z", my_field]),)))

One example is a network's leading tensors, flowed, against ensembles of several widths,
extrapolated in 1/n. The false alarms are those of all examples together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, SupportsIndex

import numba
import xarray

from derivations.claims.processes import together
from derive.engine.tensors import Name
from derive.errors import InputError, as_integer, as_sequence
from derive.network import Network
from derive.recursions import Recursion, Wanted, wanted
from derive.work.faces import public
from derive.work.progress import quiet
from numeric import examples as drawing
from numeric.checks import probability as checked_probability
from numeric.checks import seed as checked_seed
from numeric.estimators.observables import plan_of
from numeric.examples import Example
from numeric.flows import flow
from numeric.samplers.ensemble import checked_ensemble
from numeric.simulations import multiplies, simulate
from numeric.tables.compare import FALSE_ALARMS, WEAK, Comparison, compare, percent

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Check", "Verification", "check", "shrink", "verify"]

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
        draws: networks at each of the comparison's widths.
    """

    example: Example
    comparison: Comparison
    draws: int = DRAWS

    @property
    def agrees(self) -> bool:
        """True if nothing in the ensembles contradicts the theory."""
        return self.comparison.agrees

    @property
    def weak(self) -> bool:
        """True if it agrees, but a number resolves worse than `numeric.tables.compare.WEAK`."""
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

    def as_json(self) -> dict[str, object]:
        """The verdict, what it could have seen, and every number."""
        return {
            "example": str(self.example),
            "seed": self.example.seed,
            "verdict": self.comparison.verdict,
            "resolution": _finite(self.resolution),
            "bound": self.comparison.bound,
            "widths": list(self.comparison.widths),
            "draws": self.draws,
            "rows": [
                {
                    "tensor": row.name,
                    "layer": row.layer,
                    "theory": row.theory,
                    "sample": row.sample,
                    "se": row.se,
                    "z": row.z,
                    "resolution": _finite(row.resolution),
                }
                for row in self.comparison.rows
            ],
        }

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Verification:
    """The results of all examples.

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
        """True if no example fails."""
        return all(check.agrees for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The examples that do."""
        return tuple(check for check in self.checks if not check.agrees)

    @property
    def weak(self) -> tuple[Check, ...]:
        """The examples that agree, but would have agreed with too much."""
        return tuple(check for check in self.checks if check.weak)

    def as_json(self) -> dict[str, object]:
        """Everything that was found, check by check."""
        return {
            "summary": self.summary,
            "agrees": self.agrees,
            "resolution": _finite(max(check.resolution for check in self.checks)),
            "examples": [check.as_json() for check in self.checks],
            "smallest": [check.as_json() for check in self.smallest],
        }

    @property
    def summary(self) -> str:
        """Networks, comparisons and the worst score in a line."""
        worst = max(self.checks, key=lambda check: check.severity)
        count = sum(len(check.comparison.rows) for check in self.checks)
        failed, weak = len(self.failures), len(self.weak)
        rest = "the others agree" if weak < len(self.checks) else "none agrees"
        told = f"{weak} weak (resolving worse than {percent(WEAK)}), {rest}"
        told = told if weak else "all agree"
        widths = ", ".join(map(str, self.widths))
        return (
            f"{len(self.checks)} networks, {count} comparisons at n = {widths} with "
            f"{self.draws} draws: "
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
    widths = tuple(
        as_integer("widths", n, 1) for n in as_sequence("widths", widths, "several widths")
    )
    draws = as_integer("draws", draws, 1)
    if len(set(widths)) < 2:
        raise InputError("widths", widths, "two or more, to extrapolate in 1/n")
    false_alarms = checked_probability("false_alarms", false_alarms)
    share = false_alarms / len(chosen)
    run = partial(check, widths=widths, draws=draws, false_alarms=share)
    jobs = min(as_integer("jobs", jobs, 1, wanted="a number of processes, 1 or more"), len(chosen))
    threads = max(1, int(numba.get_num_threads()) // jobs)
    with closing(
        together(partial(_quietly, run, threads), chosen, jobs)
        if jobs > 1
        else (run(each) for each in chosen)
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
    tables = tuple(sampled(example, n, draws) for n in widths)
    comparison = compare(flowed(example, max(widths)), tables, false_alarms)
    return Check(example, comparison, draws)


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
        count = as_integer("examples", examples, 1)
        names = None if tensors is None else _names(tensors)
        nets = _networks(of, count, seed)
        return [drawing.drawn(k, seed, net, names) for k, net in enumerate(nets, 1)]
    wanted = "a number of examples, or one or more `Example`s"
    given = (
        [examples] if isinstance(examples, Example) else as_sequence("examples", examples, wanted)
    )
    if not given or not all(isinstance(each, Example) for each in given):
        raise InputError("examples", examples, wanted)
    if of is not None or tensors is not None:
        raise InputError("examples", given, "a number, if networks or tensors are given apart")
    return given


def _quietly(run: Callable[[Example], Check], threads: int, example: Example) -> Check:
    """`run` in one of several processes: the one that began them tells the progress."""
    numba.set_num_threads(threads)
    with quiet():
        return run(example)


def flowed(example: Example, width: int) -> xarray.Dataset:
    """The theory of an example, with K and Theta, whose sizes judge tensors that vanish."""
    return flow(example.net, example.inputs, example.depth, beside(example), width=width)


def beside(example: Example) -> list[Name]:
    """The example's tensors, and K and Theta."""
    asked = {name.label: name for name in wanted(example.tensors)}
    return list(({name.label: name for name in wanted(("K", "Theta"))} | asked).values())


def sampled(example: Example, width: int, draws: int) -> xarray.Dataset:
    """The ensemble of an example at one width; layer by layer, where σ has no scale of its own."""
    net, inputs, depth = example.net, example.inputs, example.depth
    ensemble = checked_ensemble(net, inputs, width, depth, example.seed)
    plan = plan_of(wanted(example.tensors, net, depth), ensemble.data.measured)
    sampler = "products" if multiplies(ensemble.layers, plan) else "lazy"
    return simulate(
        net,
        inputs,
        width,
        depth,
        draws,
        tensors=example.tensors,
        seed=example.seed,
        sampler=sampler,
    )


def _finite(resolution: float) -> float | None:
    """The number as JSON has it: null where nothing is resolved."""
    return resolution if math.isfinite(resolution) else None


def _names(tensors: Wanted | Iterable[Wanted]) -> tuple[Wanted, ...]:
    if isinstance(tensors, str | Name | Recursion):
        return (tensors,)
    return tuple(as_sequence("tensors", tensors, "names of tensors, or recursions"))


def _networks(
    of: Network | SearchStrategy[Network] | None, count: int, seed: int
) -> Iterator[Network | None]:
    if of is None or isinstance(of, Network):
        yield from (of for _ in range(count))
        return
    from numeric.testing import sample  # noqa: PLC0415  (hypothesis is imported only when used)

    yield from sample(of, count, seed)


public(__name__)
