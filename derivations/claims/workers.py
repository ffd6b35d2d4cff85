"""Claims proven in several processes: each keeps to a module, whose claims share what they derive,
until there is nothing left but another's. Half of them are at what takes long, half at what is
soon done, so that verdicts come from the start and nothing long is left for the end."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, parent_process, set_forkserver_preload
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from numba.core import config

from derivations.claims.costs import Costs
from derivations.claims.kept import Runs, Shelf, keeping
from derivations.claims.processes import METHOD, deaf, end, leave
from derivations.claims.registry import CHAPTERS, Claim, Outcome, Sampling
from derivations.claims.verdicts import Verdict
from derivations.pictures.drawn import drawn
from derive.errors import InputError
from derive.work.progress import quiet

MOST_JOBS = 16
"""Processes by default, at most: each takes some hundred megabytes."""

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "VECLIB_MAXIMUM_THREADS": 1,
}
"""For BLAS, whose threads wait for each other busily: more of them than cores is slower by far."""

GARBAGE = (50_000, 20, 10)
"""Thresholds of the search for garbage. Deriving and compiling leave little of it among millions of
objects: by Python's own thresholds the search takes a twentieth of the time."""

TICK = 0.5
"""Seconds between two looks at what is running."""


@dataclass(frozen=True)
class Progress:
    """How far a run is: claims done, of how many, what is being proven, and the seconds left."""

    done: int
    total: int
    running: tuple[Claim, ...]
    left: float


Watch = Callable[[Progress], None]


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prove(claim: Claim, sampling: Sampling, shelf: Shelf | Runs | None = None) -> Outcome:
    """The claim's outcome with its figures drawn; whatever it raises makes it fail.

    Ensembles that are on the shelf, or among the runs, are read back, and those that are not are
    put there.

    Raises:
        InputError: for a run that is in use, damaged or cannot be written, which is no failure of
            the claim.
    """
    start, busy = time.perf_counter(), time.process_time()
    try:
        with keeping(shelf) as ensembles:
            verdict = claim.prove(*([sampling] if claim.sampled else []))
        if not isinstance(verdict, Verdict):
            raise TypeError(f"a claim returns a Verdict, and this one {type(verdict).__name__}")
        figures = {stem: drawn(figure) for stem, figure in verdict.figures.items()}
        verdict = replace(verdict, figures=figures)
    except Exception as error:
        if isinstance(shelf, Runs) and isinstance(error, InputError) and error.argument == "run":
            raise
        verdict = Verdict("fails", "", detail=_reason(error))
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    return Outcome(claim, verdict, seconds, ensembles, processor)


def _reason(error: Exception) -> str:
    """The exception and its place; a refusal says it all itself."""
    if isinstance(error, InputError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"
    return f"{type(error).__name__}: {error} ({at})"


def alone(
    chosen: Sequence[Claim],
    sampling: Sampling,
    watch: Watch,
    costs: Costs,
    shelf: Shelf | None = None,
) -> Generator[Outcome]:
    """The outcomes one after the other, in this process."""
    for number, claim in enumerate(chosen):
        watch(Progress(number, len(chosen), (claim,), costs.left(chosen[number:])))
        outcome = prove(claim, sampling, shelf)
        costs.learn(outcome)
        yield outcome


def warm_up() -> None:
    """Begin to import the book, where processes can be forks of one that has: it goes on beside
    what this process does, and they start with all of it loaded."""
    if METHOD == "forkserver":
        from multiprocessing.forkserver import ensure_running  # noqa: PLC0415 (POSIX's alone)

        modules = dict.fromkeys(module for chapter in CHAPTERS.values() for module in chapter)
        set_forkserver_preload([__name__, *modules])
        with _environment(ONE_THREAD), deaf():
            ensure_running()


def together(
    chosen: Sequence[Claim],
    sampling: Sampling,
    jobs: int,
    watch: Watch,
    costs: Costs,
    shelf: Shelf | None = None,
) -> Generator[Outcome]:
    """The outcomes as they come, from so many processes.

    A process that dies makes the claim it was at fail, and another takes its place. All are ended
    when the iteration is.
    """
    queue = _Queue(chosen, costs)
    warm_up()
    workers = [_Worker(sampling, jobs, shelf, bool(at % 2)) for at in range(min(jobs, len(chosen)))]
    done = 0
    try:
        while done < len(chosen):
            for worker in workers:
                if worker.claim is None:
                    worker.take(queue.next(worker.module, worker.quick))
            busy = {worker.pipe: worker for worker in workers if worker.claim is not None}
            now = {each.claim: each.elapsed for each in busy.values() if each.claim is not None}
            left = costs.left(queue.claims, now, jobs)
            watch(Progress(done, len(chosen), tuple(now), left))
            for pipe in wait(list(busy), TICK):
                assert isinstance(pipe, Connection)
                worker = busy[pipe]
                outcome = worker.outcome()
                costs.learn(outcome)
                done += 1
                if worker.dead:
                    worker.end()
                    workers[workers.index(worker)] = _Worker(sampling, jobs, shelf, worker.quick)
                yield outcome
    finally:
        for worker in workers:
            worker.end()
        end([worker.process for worker in workers])


class _Queue:
    """The claims left to prove, module by module."""

    def __init__(self, chosen: Sequence[Claim], costs: Costs) -> None:
        self.left: dict[str, list[Claim]] = {}
        for claim in chosen:
            self.left.setdefault(claim.prove.__module__, []).append(claim)
        for module in self.left.values():
            module.sort(key=costs.of)
        self.taken: set[str] = set()
        self.costs = costs

    @property
    def claims(self) -> list[Claim]:
        """The claims that no worker has taken."""
        return [claim for module in self.left.values() for claim in module]

    def next(self, module: str, quick: bool) -> Claim | None:
        """The longest claim of the process's own module, else of the longest that nobody is at;
        the shortest of the shortest for one that is to be quick. Where somebody is at all that is
        left, the longest claim of the longest."""
        if not self.left.get(module):
            started = [name for name in self.left if self.left[name]]
            fresh = [name for name in started if name not in self.taken]
            if not started:
                return None
            module = (min if fresh and quick else max)(fresh or started, key=self._length)
            quick = quick and bool(fresh)
            self.taken.add(module)
        return self.left[module].pop(0 if quick else -1)

    def _length(self, module: str) -> float:
        return sum(map(self.costs.of, self.left[module]))


@dataclass
class _Worker:
    """A process that proves what it is sent."""

    sampling: Sampling
    jobs: int
    shelf: Shelf | None = None
    quick: bool = False
    claim: Claim | None = None
    module: str = ""
    started: float = 0.0
    dead: bool = False
    pipe: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        context: Any = get_context(METHOD)
        self.pipe, theirs = context.Pipe()
        with _environment({"NUMBA_NUM_THREADS": max(1, cores() // self.jobs), **ONE_THREAD}):
            arguments = theirs, self.sampling, self.shelf, dict(os.environ)
            self.process = context.Process(target=_work, args=arguments, daemon=True)
            with deaf():
                self.process.start()
        theirs.close()

    @property
    def elapsed(self) -> float:
        """Seconds that it has been at its claim."""
        return time.perf_counter() - self.started

    def take(self, claim: Claim | None) -> None:
        self.claim, self.started = claim, time.perf_counter()
        if claim is not None:
            self.module = claim.prove.__module__
            with suppress(BrokenPipeError):  # it is dead, as `outcome` will find
                self.pipe.send(claim)

    def outcome(self) -> Outcome:
        """The outcome that it sent back, or a failure if it is dead."""
        assert self.claim is not None
        claim, self.claim = self.claim, None
        try:
            found = self.pipe.recv()
            assert isinstance(found, Outcome)
            return found
        except (EOFError, OSError):
            self.dead = True
            self.process.join()
            detail = f"its process ended (exit code {self.process.exitcode})"
            return Outcome(claim, Verdict("fails", "", detail=detail), self.elapsed)

    def end(self) -> None:
        """Let it end, and give back what it holds: it waits for a claim, or is at one."""
        if self.claim is None:
            self.pipe.close()
        else:
            self.process.terminate()


@contextmanager
def _environment(added: Mapping[str, int]) -> Iterator[None]:
    """These variables where the user has not set them; libraries read them as they are loaded."""
    new = {name: str(value) for name, value in added.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            del os.environ[name]


def _work(
    pipe: Connection, sampling: Sampling, shelf: Shelf | None, environment: Mapping[str, str]
) -> None:
    """Prove claims until the other end is closed; Ctrl-C is the parent's to handle.

    A fork has the environment, and the numba, of when its server began.
    """
    os.environ.clear()
    os.environ.update(environment)
    config.reload_config()
    gc.freeze()  # what was imported stays
    gc.set_threshold(*GARBAGE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with quiet(), suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(prove(pipe.recv(), sampling, shelf))


def _end_with_parent() -> None:
    """Nobody waits for what is being proven once the parent is gone."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
