"""Ensembles kept from one process to the next: what their draws came to, a file for each.

    with keeping(Shelf(directory)) as tally:
        simulate(…)                 # drawn, or read back from the cache
    tally.drawn, tally.read

    with keeping(Runs(directory)):
        simulate(…)                 # chunk by chunk, as with a run= of its own: killed, it goes on

A file's name holds a hash of what is drawn, and of all that its bits may depend on: the source of
`derive`, of `numeric` and of the room that draws, Python, the packages and the processor. So what
is read back is what drawing again would give. Nothing is kept outside such a block.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np

from derive.work.caches import cache
from numeric.arrays import Array
from numeric.emit import modules, outputs
from numeric.runs.chunks import keeper
from numeric.runs.directory import manifest, pack, unpack
from numeric.runs.totals import Total
from numeric.runs.work import Work

FORMAT = 1
PACKAGES = ("llvmlite", "mpmath", "numba", "numpy", "python-flint", "scipy", "sympy")
"""Settings that the bits of an ensemble depend on, besides the source."""
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables by which BLAS shares out its sums, which rounding tells."""

MOST = 1 << 30
"""Bytes that a shelf keeps; what has not been read for longest goes first."""
UNREAD = 30 * 86400.0
"""Seconds after which what nobody has read goes."""

_ABOVE = Path(__file__).resolve().parents[2]
"""The folder of the rooms."""
_SUFFIX = ".npz"
_log = logging.getLogger(__name__)


@dataclass
class Tally:
    """How many ensembles were drawn, how many read back, and when the oldest of these was drawn, in
    seconds since 1970."""

    drawn: int = 0
    read: int = 0
    oldest: float | None = None

    def __add__(self, other: Tally) -> Tally:
        known = [each.oldest for each in (self, other) if each.oldest is not None]
        return Tally(self.drawn + other.drawn, self.read + other.read, min(known, default=None))


@dataclass(frozen=True)
class Shelf:
    """A directory of ensembles.

    Arguments:
        directory: made when something is put there.
        since: a time in seconds since 1970; what was drawn before is drawn again.
    """

    directory: Path
    since: float = 0.0

    def read(self, work: Work, draws: int) -> tuple[Total, Array, float] | None:
        """The total of so many draws, their reference, and when they were drawn; None unless that
        is here, whole."""
        key = _key(work, draws)
        path = self._path(key)
        try:
            arrays = unpack(path.read_bytes())
        except OSError:
            return None
        if arrays is None or str(arrays.pop("key", "")) != key:
            return None
        drawn, reference = float(arrays.pop("drawn")), arrays.pop("reference")
        total = work.total().restored(arrays, draws) if drawn >= self.since else None
        if total is None:
            return None
        with suppress(OSError):  # a cache that can be read alone
            os.utime(path)
        return total, reference, drawn

    def write(self, work: Work, draws: int, total: Total, reference: Array) -> None:
        """Keep it, whole or not at all; where that cannot be, a warning says so."""
        key = _key(work, draws)
        about = {"key": np.array(key), "drawn": np.array(time.time()), "reference": reference}
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            modules.write(pack({**total.arrays(), **about}), self._path(key))
        except OSError as problem:
            _log.warning("the cache can't be used (%s); ensembles will not be kept", problem)

    def trim(self) -> None:
        """Remove what has not been read for a month, and what goes beyond `MOST` bytes."""
        left, files = MOST, []
        with suppress(OSError):
            files = sorted(
                ((each.stat(), each) for each in self.directory.glob(f"*{_SUFFIX}*")),
                key=lambda file: -file[0].st_mtime,
            )
        for status, path in files:
            left -= status.st_size
            if left < 0 or status.st_mtime < time.time() - UNREAD:
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


def shelf(*, fresh: bool = False) -> Shelf:
    """The shelf in the cache folder; if fresh, one that has nothing yet that is drawn already."""
    return Shelf(modules.cache_directory() / "ensembles", time.time() if fresh else 0.0)


@dataclass(frozen=True)
class Runs:
    """A directory with a run for each ensemble that a computation draws: what was killed goes on,
    with the same bits.

    Arguments:
        directory: made when there is an ensemble to keep.
        began: is told when the next ensemble is drawn, gone on with or read back.
    """

    directory: Path
    began: Callable[[], None] = lambda: None

    def run(self, work: Work, draws: int) -> Path:
        """Where these draws are: a run's directory (`directory.Directory`), named by a hash of what
        is drawn. Unlike a shelf's key it has nothing of the machine: as any run, one that was begun
        elsewhere goes on, to rounding."""
        key = json.dumps([manifest(work), int(draws)], sort_keys=True)
        outputs.make_directory(self.directory, "run")
        self.began()
        return self.directory / hashlib.sha256(key.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Kept:
    """The records that a block keeps, and how many: a `numeric.runs.chunks.Keeper`."""

    where: Shelf | Runs | None
    tally: Tally

    def read(self, work: Work, draws: int) -> tuple[Total, Array] | None:
        """The total of the draws, and their reference, if that is kept."""
        where = self.where if isinstance(self.where, Shelf) and _is_told(work) else None
        found = where.read(work, draws) if where else None
        if found is None:
            return None
        total, reference, drawn = found
        self.tally.read += 1
        self.tally.oldest = min(drawn, self.tally.oldest or drawn)
        return total, reference

    def run(self, work: Work, draws: int) -> Path | None:
        """The directory of the run that these draws are, where runs are kept."""
        if not isinstance(self.where, Runs):
            return None
        self.tally.drawn += 1
        return self.where.run(work, draws)

    def write(self, work: Work, draws: int, total: Total, reference: Array) -> None:
        """Keep what has been drawn, where ensembles are kept."""
        self.tally.drawn += 1
        if isinstance(self.where, Shelf) and _is_told(work):
            self.where.write(work, draws, total, reference)


@contextmanager
def keeping(where: Shelf | Runs | None) -> Iterator[Tally]:
    """Read back what this block draws, and keep what is not there yet; without a place for it,
    count it alone."""
    tally = Tally()
    token = keeper.set(_Kept(where, tally))
    try:
        yield tally
    finally:
        keeper.reset(token)


def _is_told(work: Work) -> bool:
    """True if a key tells all that its draws depend on: the source of what draws is hashed, and its
    manifest tells the rest."""
    return work.told and (_ABOVE / _room(work)).is_dir()


def _room(work: Work) -> str:
    return type(work).__module__.partition(".")[0]


def source_hash(*rooms: str) -> str:
    """Of every module of these rooms."""
    return _source_hash(rooms)


@cache
def _source_hash(rooms: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for room in rooms:
        for path in sorted((_ABOVE / room).rglob("*.py")):
            digest.update(f"{path.relative_to(_ABOVE)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _setting() -> tuple[str, ...]:
    """Settings that bits depend on, whatever is drawn."""
    binding = import_module("llvmlite.binding")  # numba's; slow to import

    return (
        str(FORMAT),
        sys.version,
        *(f"{name} {version(name)}" for name in PACKAGES),
        platform.machine(),
        binding.get_host_cpu_name(),
        str(os.cpu_count()),
        *(f"{name} {os.environ.get(name)}" for name in THREADS),
    )


def _key(work: Work, draws: int) -> str:
    """The key that tells these draws from all others, as text."""
    rooms = dict.fromkeys(("derive", "numeric", _room(work)))
    source, kind = source_hash(*rooms), f"{type(work).__module__}.{type(work).__qualname__}"
    return json.dumps([source, _setting(), kind, work.manifest(), int(draws)], sort_keys=True)
