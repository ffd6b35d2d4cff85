"""Claims proven in several processes: each keeps to a module, whose claims share what they compile,
until there is nothing left but another's."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from derivations.claims.registry import Claim, Outcome, Sampling
from derivations.claims.verdicts import Verdict
from derivations.pictures.drawn import drawn
from derive.errors import InputError
from derive.work.progress import quiet

GUESS = {False: 1.0, True: 20.0}
"""Seconds of a claim that was never timed, by whether it samples."""

MOST_JOBS = 16
"""Processes by default, at most: each takes some hundred megabytes."""

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": 1,
    "MKL_NUM_THREADS": 1,
    "VECLIB_MAXIMUM_THREADS": 1,
}
"""For BLAS, whose threads wait for each other busily: more of them than cores is slower by far."""

PATIENCE = 1.0
"""Seconds that processes have to end by themselves."""

TICK = 0.5
"""Seconds between two looks at what is running."""


@dataclass(frozen=True)
class Progress:
    """How far a run is: claims done, of how many, and what is being proven."""

    done: int
    total: int
    running: tuple[Claim, ...]


Watch = Callable[[Progress], None]


def cores() -> int:
    """The processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prove(claim: Claim, sampling: Sampling) -> Outcome:
    """The claim's outcome with its figures drawn; whatever it raises makes it fail."""
    start = time.perf_counter()
    try:
        verdict = claim.prove(*([sampling] if claim.sampled else []))
        if not isinstance(verdict, Verdict):
            raise TypeError(f"a claim returns a Verdict, and this one {type(verdict).__name__}")
        seconds = time.perf_counter() - start
        figures = {stem: drawn(figure) for stem, figure in verdict.figures.items()}
        return Outcome(claim, replace(verdict, figures=figures), seconds)
    except Exception as error:
        seconds = time.perf_counter() - start
        return Outcome(claim, Verdict("fails", "", detail=_reason(error)), seconds)


def _reason(error: Exception) -> str:
    """What was raised and where; a refusal says it all itself."""
    if isinstance(error, InputError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    at = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}"
    return f"{type(error).__name__}: {error} ({at})"


def alone(chosen: Sequence[Claim], sampling: Sampling, watch: Watch) -> Generator[Outcome]:
    """The outcomes one after the other, in this process."""
    for number, claim in enumerate(chosen):
        watch(Progress(number, len(chosen), (claim,)))
        yield prove(claim, sampling)


def together(
    chosen: Sequence[Claim],
    sampling: Sampling,
    jobs: int,
    watch: Watch,
    seconds: Mapping[str, float],
) -> Generator[Outcome]:
    """The outcomes as they come, from so many processes.

    A process that dies makes the claim it was at fail, and another takes its place. All are ended
    when the iteration is.
    """
    queue = _Queue(chosen, seconds)
    workers = [_Worker(sampling, jobs) for _ in range(min(jobs, len(chosen)))]
    done = 0
    try:
        while done < len(chosen):
            for worker in workers:
                if worker.claim is None:
                    worker.take(queue.next(worker.module))
            busy = {worker.pipe: worker for worker in workers if worker.claim is not None}
            watch(Progress(done, len(chosen), tuple(w.claim for w in busy.values() if w.claim)))
            for pipe in wait(list(busy), TICK):
                assert isinstance(pipe, Connection)
                worker = busy[pipe]
                outcome = worker.outcome()
                done += 1
                if worker.dead:
                    worker.end()
                    workers[workers.index(worker)] = _Worker(sampling, jobs)
                yield outcome
    finally:
        for worker in workers:
            worker.end()
        until = time.monotonic() + PATIENCE
        for worker in workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            worker.process.kill()  # compiled code hears no other signal
            worker.process.join()


class _Queue:
    """What is left to prove, module by module."""

    def __init__(self, chosen: Sequence[Claim], seconds: Mapping[str, float]) -> None:
        self.left: dict[str, list[Claim]] = {}
        for claim in chosen:
            self.left.setdefault(claim.prove.__module__, []).append(claim)
        self.taken: set[str] = set()
        self.seconds = seconds

    def next(self, module: str) -> Claim | None:
        """Of the process's own module; else the first of the longest one that nobody is at; else
        the last of the longest that somebody is."""
        if self.left.get(module):
            return self.left[module].pop(0)
        fresh = [name for name in self.left if name not in self.taken and self.left[name]]
        if fresh:
            longest = max(fresh, key=self._length)
            self.taken.add(longest)
            return self.left[longest].pop(0)
        started = [name for name in self.left if self.left[name]]
        return self.left[max(started, key=self._length)].pop() if started else None

    def _length(self, module: str) -> float:
        return sum(
            self.seconds.get(f"{claim.source} {claim.name}", GUESS[claim.sampled])
            for claim in self.left[module]
        )


@dataclass
class _Worker:
    """A process that proves what it is sent."""

    sampling: Sampling
    jobs: int
    claim: Claim | None = None
    module: str = ""
    started: float = 0.0
    dead: bool = False
    pipe: Connection = field(init=False)
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.sampling), daemon=True)
        with _environment({"NUMBA_NUM_THREADS": max(1, cores() // self.jobs), **ONE_THREAD}):
            self.process.start()
        theirs.close()

    def take(self, claim: Claim | None) -> None:
        self.claim, self.started = claim, time.perf_counter()
        if claim is not None:
            self.module = claim.prove.__module__
            with suppress(BrokenPipeError):  # it is dead, as `outcome` will find
                self.pipe.send(claim)

    def outcome(self) -> Outcome:
        """What it sent back, or a failure if it is dead."""
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
            seconds = time.perf_counter() - self.started
            return Outcome(claim, Verdict("fails", "", detail=detail), seconds)

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


def _work(pipe: Connection, sampling: Sampling) -> None:
    """Prove claims until the other end is closed; Ctrl-C is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with quiet(), suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(prove(pipe.recv(), sampling))


def _end_with_parent() -> None:
    """Nobody waits for what is being proven once the parent is gone."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
