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
a thread that looks at the clock is needed all the same, and `derive` does without tqdm. There is
one for all works, started by the first: a call of a millisecond has no time to start its own.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import TracebackType

from .resources import duration, give_back

SLOW = 2.0
"""Seconds: what takes less goes without saying."""
LONG = 0.25
"""Seconds: what took longer gives freed memory back at its end, which takes milliseconds."""
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
        self._watched = False

    def __enter__(self) -> telling:
        self.began = monotonic()
        works = _works()
        works.append(self)
        if self.seconds >= SLOW:
            _say(works, f"{self.what}, about {duration(self.seconds)}")
        if len(works) == 1 and not _silent(works):
            self._watched = True
            _watch.begin(works)
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
        if self._watched:
            _watch.end(works)
        if not works and works.said and sys.stderr.isatty():
            _clear()
            works.said = False
        if not works and monotonic() - self.began > LONG:
            give_back()

    def left(self) -> float | None:
        """Seconds that remain: by the steps done so far, else by the estimate."""
        elapsed = monotonic() - self.began
        if self.total and self.done:
            return elapsed * max(0, self.total - self.done) / self.done
        return self.seconds - elapsed if self.seconds > elapsed else None

    def line(self, elapsed: float) -> str:
        """The line that is shown after so many seconds."""
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
    """The works of a thread, innermost last; None where it is to be quiet.

    Attributes:
        said: True if there is a line on the terminal.
        began, due, wait: since when they are watched, when word of them is due, and how long after
            the last; by `monotonic`, in seconds.
    """

    said, began, due, wait = False, 0.0, 0.0, SLOW


class _Watch:
    """Looks after the works of all threads, and says which is going on.

    Its thread sleeps until the first word is due, and for good when it wakes and there is no work.
    Work that begins wakes it only where it would sleep too long: fast calls one after the other
    leave it alone. What it says is said before the work ends, or not at all: both hold the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition(threading.Lock())
        self._watched: dict[int, _Works] = {}
        self._wakes = math.inf
        self._started = False

    def begin(self, works: _Works) -> None:
        """Look after these."""
        now = monotonic()
        with self._lock:
            works.began, works.due, works.wait = now, now + SLOW, SLOW
            self._watched[id(works)] = works
            if not self._started:
                threading.Thread(target=self._run, name="progress", daemon=True).start()
                self._started = True
            elif now + SLOW < self._wakes:
                self._lock.notify()

    def end(self, works: _Works) -> None:
        """No longer."""
        with self._lock:
            del self._watched[id(works)]

    def _run(self) -> None:
        with self._lock:
            while True:
                now = monotonic()
                for each in self._watched.values():
                    if each.due <= now:
                        self._tell(each, now)
                self._wakes = min((each.due for each in self._watched.values()), default=math.inf)
                left = self._wakes - monotonic()
                self._lock.wait(
                    min(max(0.0, left), threading.TIMEOUT_MAX) if self._watched else None
                )

    def _tell(self, works: _Works, now: float) -> None:
        inner = works[-1] if works else None
        if inner is not None:
            _say(works, inner.line(now - works.began))
        works.wait = 1.0 if sys.stderr.isatty() else 2 * works.wait
        works.due = now + works.wait


_watch = _Watch()
if hasattr(os, "register_at_fork"):  # POSIX's; the thread stays with the parent
    os.register_at_fork(after_in_child=_watch.__init__)  # type: ignore[misc]

_local = threading.local()


def _works() -> _Works:
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
