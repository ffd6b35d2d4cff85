"""Progress: word of what takes long, on stderr, before it starts and while it goes on.

    with telling("deriving V", seconds=40, total=105) as progress:
        …
        progress.advance()

Says at once what is estimated at 2 s or more, and of anything, with or without an estimate, that it
is running, once 2 s have passed: what is at work innermost, the time since the outermost began,
and the time left where steps are counted. On a terminal that is one line, gone at the end;
elsewhere a line now and then. What is fast says nothing. `quiet()`, or the environment variable
WICKGARTEN_QUIET, silences it.

tqdm draws when it is advanced, and would be silent through one long step, or one that counts none;
a thread that looks at the clock is needed all the same, and `derive` does without tqdm.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

from .resources import duration

SLOW = 2.0
"""Seconds: what takes less goes without saying."""
QUIET = "WICKGARTEN_QUIET"
"""The environment variable that silences all, if it is set to anything."""


class telling:  # noqa: N801  (a context manager, read as a verb)
    """Says what is being done while it is being done, if that takes long.

    Arguments:
        what: "compiling the brackets of tanh".
        seconds: how long it will take, if that can be told.
        total: of the steps that `advance` counts, if it will be called.
    """

    def __init__(self, what: str, seconds: float = 0.0, total: int = 0) -> None:
        self.what, self.seconds, self.total, self.done = what, seconds, total, 0.0
        self.began = monotonic()
        self._speaker: _Speaker | None = None

    def __enter__(self) -> telling:
        self.began = monotonic()
        works = _works()
        works.append(self)
        if self.seconds >= SLOW:
            _say(works, f"{self.what}, about {duration(self.seconds)}")
        if len(works) == 1 and not _silent(works):
            self._speaker = _Speaker(works)
            self._speaker.start()
        return self

    def advance(self, steps: float = 1) -> None:
        """So many steps more."""
        self.done += steps

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        works = _works()
        works.remove(self)
        if self._speaker:
            self._speaker.ended.set()
            self._speaker.join()
        if not works and works.said and sys.stderr.isatty():
            _clear()
            works.said = False

    def left(self) -> float | None:
        """Seconds that remain: by the steps done so far, else by the estimate."""
        elapsed = monotonic() - self.began
        if self.total and self.done:
            return elapsed * max(0, self.total - self.done) / self.done
        return self.seconds - elapsed if self.seconds > elapsed else None

    def line(self, elapsed: float) -> str:
        """What is said after so many seconds."""
        steps = f", {self.done:.0f} of {self.total}" if self.total else ""
        left = self.left()
        remains = f", about {duration(left)} left" if left is not None else ""
        return f"{self.what}{steps}, {duration(elapsed)} so far{remains}"


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing is said inside, in this thread: for what shows a progress bar of its own."""
    works = _works()
    works.append(None)
    try:
        yield
    finally:
        works.remove(None)


def say(text: str) -> None:
    """A line on stderr, unless it is to be quiet."""
    if not _silent(_works()):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class _Works(list["telling | None"]):
    """What a thread is at, innermost last; None where it is to be quiet."""

    said = False
    """Whether there is a line on the terminal."""


class _Speaker(threading.Thread):
    """Looks after the works of one thread, and says which is going on."""

    def __init__(self, works: _Works) -> None:
        super().__init__(name="progress", daemon=True)
        self.works, self.ended, self.began = works, threading.Event(), monotonic()

    def run(self) -> None:
        wait = SLOW
        while not self.ended.wait(wait):
            inner = self.works[-1] if self.works else None
            if inner is not None:
                _say(self.works, inner.line(monotonic() - self.began))
            wait = 1.0 if sys.stderr.isatty() else 2 * wait


_local = threading.local()


def _works() -> _Works:
    """Of this thread."""
    if not hasattr(_local, "works"):
        _local.works = _Works()
    works: _Works = _local.works
    return works


def _silent(works: _Works) -> bool:
    return QUIET in os.environ or None in works or sys.stderr is None


def _say(works: _Works, text: str) -> None:
    if _silent(works):
        return
    if sys.stderr.isatty():
        columns = max(20, _columns() - 1)
        sys.stderr.write(f"\r\033[K{text[:columns]}")
    else:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
    works.said = True


def _clear() -> None:
    sys.stderr.write("\r\033[K")
    sys.stderr.flush()


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 80
