"""Claims of the book: each ties a printed equation to a derivation and comes to a verdict.

    @claim(source="000", equation="5.18", title="V with one input")
    def single_input_vertex() -> Verdict: ...

A claim that samples takes a `Sampling`: the seed, and its share of the false alarms that the whole
run is allowed, so that the verdicts together are wrong by accident no more often than one number
beyond 5 sigma (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from derivations.claims.costs import Costs
from derivations.claims.kept import Shelf
from derivations.claims.store import Kept
from derivations.claims.workers import Progress, Watch, alone, together
from derive.errors import as_integer

from .registry import FALSE_ALARMS, Claim, Outcome, Sampling


def check(
    chosen: Sequence[Claim],
    seed: int = 0,
    jobs: int = 1,
    *,
    kept: Kept | None = None,
    shelf: Shelf | None = None,
    seconds: Mapping[str, float] | None = None,
    watch: Watch = lambda progress: None,
) -> Iterator[Outcome]:
    """Prove the claims, in this process or in several; the outcomes come as they are found, those
    that are kept first.

    Each result depends on the claim, the seed and the number of sampled claims alone. A claim that
    raises anything but KeyboardInterrupt fails, with the reason.

    Arguments:
        kept: where to look for outcomes of a check that was stopped, and to put those of this one.
        shelf: where to look for ensembles that claims drew before, and to put those of this check.
        seconds: of processors that claims took before, by "source module.function"; the time left
            is told by it.
        watch: is told of the progress.
    """
    from numeric import checks  # noqa: PLC0415

    seed = checks.seed(seed)
    jobs = as_integer("jobs", jobs, 1, wanted="a number of processes, 1 or more")
    sampling = Sampling(seed, FALSE_ALARMS / max(1, sum(each.sampled for each in chosen)))
    found = [(each, kept.read(each, sampling) if kept else None) for each in chosen]
    ready = [outcome for _, outcome in found if outcome]
    left = [each for each, outcome in found if not outcome]
    yield from ready

    def tell(progress: Progress) -> None:
        watch(replace(progress, done=progress.done + len(ready), total=len(chosen)))

    costs = Costs(seconds)
    with closing(
        alone(left, sampling, tell, costs, shelf)
        if jobs == 1
        else together(left, sampling, jobs, tell, costs, shelf)
    ) as proven:
        for outcome in proven:
            if kept:
                kept.write(outcome, sampling)
            yield outcome


def in_order(outcomes: Iterable[Outcome], chosen: Sequence[Claim]) -> list[Outcome]:
    """The outcomes in the order of their claims."""
    place = {each: at for at, each in reversed(list(enumerate(chosen)))}
    return sorted(outcomes, key=lambda outcome: place[outcome.claim])
