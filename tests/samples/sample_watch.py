"""A guard for calls that should end soon: time of the processor, and of the clock."""

from __future__ import annotations

import contextlib
import resource
import signal

SECONDS = 20
WAITING = 120
MEMORY = 12 * 2**30


class HangError(BaseException):
    """Nothing that a command catches."""


def _hang(number, frame):
    raise HangError(f"more than {SECONDS} s, or {WAITING} s of waiting")


@contextlib.contextmanager
def watched():
    """HangError where the block takes too long; a MemoryError where it takes too much."""
    timers = (signal.ITIMER_VIRTUAL, SECONDS), (signal.ITIMER_REAL, WAITING)
    former = [signal.signal(each, _hang) for each in (signal.SIGVTALRM, signal.SIGALRM)]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if hard < 0 else min(MEMORY, hard), hard))
    try:
        for timer, seconds in timers:
            signal.setitimer(timer, seconds)
        yield
    finally:
        for timer, _ in timers:
            signal.setitimer(timer, 0)
        for each, handler in zip((signal.SIGVTALRM, signal.SIGALRM), former, strict=True):
            signal.signal(each, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
