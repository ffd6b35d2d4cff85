"""Worker processes: how they are started, and who hears Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context, resource_tracker, util
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

METHOD = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
"""Forks of a process that has no threads yet, else processes that begin anew."""


PATIENCE = 1.0
"""Seconds that processes have to end by themselves."""


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C, not even while they import: the one that
    starts them does, when it is done with that."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # which would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def together(
    function: Callable[[Item], Found], items: Sequence[Item], jobs: int
) -> Generator[Found]:
    """function(item) of every item in order, by so many processes, which are ended with the
    iteration. What it raises is raised here; RuntimeError, if a process dies."""
    context: Any = get_context(METHOD)
    processes, pipes, idle = [], [], []
    busy: dict[Connection, int] = {}
    found: dict[int, Found] = {}
    waiting = list(enumerate(items))[::-1]
    try:
        for _ in range(min(jobs, len(items))):
            pipe, theirs = context.Pipe()
            processes.append(context.Process(target=_serve, args=(theirs, function), daemon=True))
            with deaf():
                processes[-1].start()
            theirs.close()
            idle.append(pipe)
            pipes.append(pipe)
        for number in range(len(items)):
            while number not in found:
                while idle and waiting:
                    pipe = idle.pop()
                    busy[pipe], item = waiting.pop()
                    pipe.send(item)
                for pipe in wait(list(busy)):
                    assert isinstance(pipe, Connection)
                    found[busy.pop(pipe)] = _received(pipe)
                    idle.append(pipe)
            yield found.pop(number)
    finally:
        for pipe, process in zip(pipes, processes, strict=False):
            if pipe in busy:
                process.terminate()
            else:
                pipe.close()
        end(processes)


def end(processes: Sequence[Any]) -> None:
    """See the end of processes that were told to: by themselves in a moment, else at once."""
    until = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
        process.kill()  # compiled code hears no other signal
        process.join()


def leave(*_: object) -> None:
    """End this process at once, as a handler of SIGTERM, but for the semaphores that numba and
    tqdm have made: those are given back."""
    util._run_finalizers(0)  # type: ignore[attr-defined]
    os._exit(1)


def _received(pipe: Connection) -> Any:
    """The result of a process, or its exception."""
    try:
        fine, found = pipe.recv()
    except EOFError:
        raise RuntimeError("a process ended before it was done") from None
    if not fine:
        raise found
    return found


def _serve(pipe: Connection, function: Callable[[Item], Found]) -> None:
    """Serves a process until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    with suppress(EOFError, BrokenPipeError):
        while True:
            item = pipe.recv()
            try:
                pipe.send((True, function(item)))
            except Exception as error:
                pipe.send((False, error))
