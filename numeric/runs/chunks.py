"""Runs of an ensemble: chunks computed anywhere, kept in a directory, resumed and extended.

What a chunk comes to depends on the ensemble and on the chunk alone, and chunks are put together in
their order (`totals`), so a run has the same bits whoever computed which chunk, and however often
it was killed and taken up again. Anywhere is any `concurrent.futures.Executor`:

    with ProcessPoolExecutor() as executor:                     # this machine
    with Client(scheduler).get_executor() as executor:          # dask.distributed: a cluster
    with MPIPoolExecutor() as executor:                         # mpi4py.futures: mpiexec -n …
        simulate(net, inputs, draws=10**6, executor=executor, run="path")

Workers need this package alone, no common disk: each chunk computes on one thread, and what it
comes to is sent back. A worker that Dask loses is made up for; where an executor breaks, its error
is raised, what was finished is kept, and the same call goes on from there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypedDict

from tqdm import tqdm

from derive.errors import InputError, as_integer, check_names, flag
from derive.work.caches import cache, constant
from derive.work.progress import quiet, telling

from ..arrays import Array
from . import directory as directories
from .directory import Directory, manifest
from .totals import Total
from .work import RowsWork, Sharing, Work

_SAVE_EVERY = 5.0  # seconds
_SAVE_SHARE = 20  # and so many times what it took to save
_UNDER_WAY = 1 << 30  # bytes of chunks that may wait for those before them


@dataclass(frozen=True)
class Options:
    """Where chunks are computed, where they are kept, and who is told: of every `simulate`.

    Arguments:
        executor: where chunks are computed; else here, by as many threads as numba is told to use.
        window: how many chunks an executor has under way; four for each processor of this machine,
            and 64 at least, as far as memory goes. More of them for more than 16 workers elsewhere.
        run: a directory in which finished chunks are kept. Killed at any moment, the same call
            resumes, and ends with the same bits; with more draws it extends.
        progress: show a bar with the rate and the time left.

    Raises InputError for anything else, and for a window without an executor.
    """

    executor: Executor | None = None
    window: int | None = None
    run: str | os.PathLike[str] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "progress", flag("progress", self.progress))
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise InputError("executor", self.executor, "a concurrent.futures.Executor")
        if self.window is not None:
            object.__setattr__(self, "window", as_integer("window", self.window, 1))
            if self.executor is None:
                raise InputError("window", self.window, "None, without an executor")
        if self.run is not None:
            directories.check_path(self.run)

    @property
    def kept(self) -> bool:
        """True if the work may be more than one sitting's, or more than one machine's."""
        return self.run is not None or self.executor is not None


class Running(TypedDict, total=False):
    """The keyword arguments that every `simulate` takes: those of `Options`."""

    executor: Executor | None
    window: int | None
    run: str | os.PathLike[str] | None
    progress: bool


def options(given: Mapping[str, Any], others: Iterable[str] = ()) -> Options:
    """The options among keyword arguments.

    Arguments:
        given: as a caller named them.
        others: the names of arguments that are no options.

    Raises InputError for any other name.
    """
    check_names(given, [*Running.__annotations__, *others])
    return Options(**{name: given[name] for name in Running.__annotations__ if name in given})


class Keeper(Protocol):
    """Who keeps what ensembles come to beyond the calls that draw them."""

    def read(self, work: Work, draws: int) -> tuple[Total, Array] | None:
        """The total of so many draws, and their reference, if that is kept."""

    def run(self, work: Work, draws: int) -> Path | None:
        """The directory in which the draws' chunks are to be kept, if any."""

    def write(self, work: Work, draws: int, total: Total, reference: Array) -> None:
        """Told of what has been drawn."""


keeper: ContextVar[Keeper | None] = ContextVar("keeper", default=None)
"""Of calls without a `run` of their own; by default nobody keeps them."""


def total(
    work: Work, draws: int, options: Options, what: str, seconds: float = 0.0
) -> tuple[Total, Array]:
    """The total of the draws 0 … `draws` − 1, and the run's reference.

    Arguments:
        work: what is sampled.
        draws: networks.
        options: where.
        what: "sampling J", said of what takes long.
        seconds: how long it will take here, if that can be told.

    Raises:
        InputError: for a directory of another run, in use, damaged, or with more draws; and for an
            ensemble that an executor cannot be sent.
    """
    kept = keeper.get() if options.run is None else None
    if kept is not None:
        if found := kept.read(work, draws):
            return found
        options = replace(options, run=kept.run(work, draws))
    chunks = Chunks(work.chunk, draws)
    with quiet() if options.progress else telling(what, seconds, draws) as told:
        seen = told.advance if told else None
        if options.run is None:
            found = _gathered(work, chunks, None, options, seen)
            if kept is not None:
                kept.write(work, draws, *found)
            return found
        with Directory(Path(options.run), manifest(work)) as directory:
            return _gathered(work, chunks, directory, options, seen)


def rows(work: RowsWork, options: Options, what: str, seconds: float = 0.0) -> Array:
    """The row of each draw, (draws, …); the arguments are those of `total`."""
    return total(work, work.draws, options, what, seconds)[0].arrays()["rows"]


@dataclass(frozen=True)
class Chunks:
    """The chunks of a run: all but the last are of `size` draws."""

    size: int
    draws: int

    @property
    def whole(self) -> int:
        """How many are whole: only those are kept, so that a run can be extended."""
        return self.draws // self.size

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.draws // self.size)

    def span(self, number: int) -> tuple[int, int]:
        """The draws start … stop − 1."""
        return number * self.size, min((number + 1) * self.size, self.draws)


@dataclass(frozen=True)
class _Sitting:
    """One call: the work, its reference and chunks, and the directory that keeps them."""

    work: Work
    reference: Array
    chunks: Chunks
    directory: Directory | None

    def waits(self, number: int) -> bool:
        """True if a chunk is there already, whole, out of its turn."""
        kept = self.directory is not None and number in self.directory.waiting
        return kept and number < self.chunks.whole

    def waited(self, number: int) -> Array:
        """A chunk that is there."""
        assert self.directory is not None
        return self.directory.chunk(number, self.work.shape(self.chunks.size))


def _gathered(
    work: Work,
    chunks: Chunks,
    directory: Directory | None,
    options: Options,
    seen: Callable[[int], object] | None,
) -> tuple[Total, Array]:
    begun, done, reference = _begun(work, chunks, directory)
    if directory and done < chunks.whole:
        directory.check_writable()
    sitting = _Sitting(work, reference, chunks, directory)
    at = done * chunks.size
    if seen is not None:
        seen(at)
        return _total(sitting, (begun, done), options, seen), reference
    with tqdm(total=chunks.draws, initial=at, unit="net") as bar:
        return _total(sitting, (begun, done), options, bar.update), reference


def _begun(work: Work, chunks: Chunks, directory: Directory | None) -> tuple[Total, int, Array]:
    """The total of the chunks that are there, their number, and the reference.

    A run stays about the reference that it began with, also on a processor that rounds differently.
    """
    none = work.total()
    kept = directory.kept() if directory else None
    if directory is None or kept is None:
        reference = work.reference
        if directory:
            directory.begin(reference, none)
        return none, 0, reference
    arrays, done, reference = kept
    if done > chunks.whole:
        wanted = f"{done * chunks.size} draws, which {directory} has, or more"
        raise InputError("draws", chunks.draws, wanted)
    restored = none.restored(arrays, done * chunks.size)
    if restored is None:
        raise directory.damaged()
    return restored, done, reference


def _total(
    sitting: _Sitting,
    state: tuple[Total, int],
    options: Options,
    advance: Callable[[int], object],
) -> Total:
    """The total of all chunks, the first given; kept on the way and at the end."""
    chunks, directory = sitting.chunks, sitting.directory
    partial, saved, pause = None, monotonic(), _SAVE_EVERY
    missing = range(state[1], chunks.count)
    source = (
        _computed_here(sitting, missing)
        if options.executor is None
        else _computed_elsewhere(sitting, missing, options.executor, options.window)
    )
    try:
        for number, found in source:
            start, stop = chunks.span(number)
            if number < chunks.whole:
                state = state[0].plus(found), number + 1  # one assignment: an interrupt sees both
            else:
                partial = found
            advance(stop - start)
            if directory and monotonic() - saved > pause:
                began = monotonic()
                directory.save(*state)
                saved = monotonic()
                pause = max(_SAVE_EVERY, _SAVE_SHARE * (saved - began))
    finally:
        source.close()
        if directory:
            directory.save(*state)
    return state[0] if partial is None else state[0].plus(partial)


def _computed_here(
    sitting: _Sitting, missing: Iterable[int]
) -> Generator[tuple[int, Array], None, None]:
    """A chunk for each thread while there are enough of them, the last ones shared by all."""
    work, reference, chunks = sitting.work, sitting.reference, sitting.chunks
    threads, missing = work.threads, list(missing)
    shared = len(missing) % threads if threads > 1 else len(missing)
    apart, last = missing[: len(missing) - shared], missing[len(missing) - shared :]
    alone, pool = Sharing(), _pool(threads) if threads > 1 else None
    if pool is not None and apart:
        under_way: set[Future[Array]] = set()

        def submit(start: int, stop: int) -> Future[Array]:
            chunk = pool.submit(work.sums, start, stop, reference, alone)
            under_way.add(chunk)
            chunk.add_done_callback(under_way.discard)
            return chunk

        try:
            yield from _in_order(sitting, apart, submit, 2 * threads)
        except BaseException:
            alone.given_up.set()
            raise
        finally:
            wait(list(under_way))
    for number in last:
        if sitting.waits(number):
            yield number, sitting.waited(number)
        else:
            yield number, work.sums(*chunks.span(number), reference, Sharing(pool, threads))


@constant("its threads may be at work")
def _pool(threads: int) -> ThreadPoolExecutor:
    """So many threads, for all calls: to start some takes a tenth of a millisecond each."""
    return ThreadPoolExecutor(threads, thread_name_prefix="chunks")


if hasattr(os, "register_at_fork"):  # POSIX's; the threads stay with the parent
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _computed_elsewhere(
    sitting: _Sitting, missing: Iterable[int], executor: Executor, window: int | None
) -> Generator[tuple[int, Array], None, None]:
    task = _task(sitting)

    def submit(start: int, stop: int) -> Future[Array]:
        return executor.submit(computed, task, start, stop)

    yield from _in_order(sitting, missing, submit, window or _window(sitting))


def _in_order(
    sitting: _Sitting,
    missing: Iterable[int],
    submit: Callable[[int, int], Future[Array]],
    window: int,
) -> Generator[tuple[int, Array], None, None]:
    """Chunks as they are wanted, with a window of them under way; what is finished is kept."""
    chunks, directory, missing = sitting.chunks, sitting.directory, list(missing)
    ahead = (number for number in missing if not sitting.waits(number))
    pending: dict[int, Future[Array]] = {}
    try:
        for number in missing:
            for later in islice(ahead, window - len(pending)):
                pending[later] = submit(*chunks.span(later))
            if number not in pending:
                yield number, sitting.waited(number)
                continue
            while not pending[number].done():
                wait([pending[number]], 0.2)  # short, so that Ctrl-C comes in everywhere
            yield number, pending[number].result()
            del pending[number]  # now that it is counted: an interrupt before that keeps it
    finally:
        for later, future in pending.items():
            future.cancel()
            finished = future.done() and not future.cancelled() and not future.exception()
            if directory and finished and later < chunks.whole:
                directory.keep_chunk(later, future.result())


def _task(sitting: _Sitting) -> bytes:
    """The work and its reference: what all workers find is about the same."""
    try:
        return pickle.dumps((sitting.work, sitting.reference))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        got = f"a network that cannot be pickled ({error})"
        raise InputError("executor", got, "None, to sample this network here") from None


def computed(task: bytes, start: int, stop: int) -> Array:
    """The total of a chunk, on one thread of the process in which this is called."""
    asked, reference = _received(task)
    return asked.sums(start, stop, reference)


@cache(entries=2)
def _received(task: bytes) -> tuple[Work, Array]:
    found: tuple[Work, Array] = pickle.loads(task)
    return found


def _window(sitting: _Sitting) -> int:
    """How many chunks to have under way where none is told: enough for 16 workers elsewhere."""
    bytes_of_one = 8 * prod(sitting.work.shape(sitting.chunks.size))
    return max(2, min(max(64, 4 * (os.cpu_count() or 1)), _UNDER_WAY // max(1, bytes_of_one)))
