"""Worker processes: how they are started, and who hears Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

METHOD = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
"""Forks of a process that has no threads yet, else processes that begin anew."""


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started here never hear Ctrl-C, not even while they import: it is for the
    one that starts them."""
    if threading.current_thread() is not threading.main_thread():  # where no signal can be set
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def together(
    function: Callable[[Item], Found], items: Sequence[Item], jobs: int
) -> Generator[Found]:
    """function(item) of every item in order, by so many processes, which are ended with the
    iteration. What it raises is raised here; RuntimeError, if a process dies."""
    context: Any = get_context(METHOD)
    processes, idle = [], []
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
        for process in processes:
            process.kill()  # compiled code hears nothing else
        for process in processes:
            process.join()


def _received(pipe: Connection) -> Any:
    """What a process found, or raised."""
    try:
        fine, found = pipe.recv()
    except EOFError:
        raise RuntimeError("a process ended before it was done") from None
    if not fine:
        raise found
    return found


def _serve(pipe: Connection, function: Callable[[Item], Found]) -> None:
    """What a process does until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):
        while True:
            item = pipe.recv()
            try:
                pipe.send((True, function(item)))
            except Exception as error:
                pipe.send((False, error))
