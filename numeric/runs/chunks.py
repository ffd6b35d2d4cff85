"""Runs of an ensemble: chunks computed anywhere, kept in a directory, resumed and extended.

A chunk's sums depend on the ensemble and on the chunk alone, and they are added in the chunks'
order (`estimators.moments`), so a run has the same bits whoever computed which chunk, and however
often it was killed and taken up again. Anywhere is any `concurrent.futures.Executor`:

    with ProcessPoolExecutor() as executor:                     # this machine
    with Client(scheduler).get_executor() as executor:          # dask.distributed: a cluster
    with MPIPoolExecutor() as executor:                         # mpi4py.futures: mpiexec -n …
        simulate(net, inputs, draws=10**6, executor=executor, run="path")

Workers need this package alone, no common disk: each chunk computes on one thread, and its sums
come back to the caller. A worker that Dask loses is made up for; where an executor breaks, its
error is raised, what was finished is kept, and the same call goes on from there.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from pathlib import Path
from threading import Event
from time import monotonic

import numpy as np
from tqdm import tqdm

from derive.errors import InputError

from ..arrays import Array
from ..estimators import moments
from ..samplers.base import Sampler
from .directory import Directory, manifest

_SAVE_EVERY = 5.0  # seconds
_UNDER_WAY = 1 << 30  # bytes of sums that may wait for the chunks before them


def record(
    sampler: Sampler,
    draws: int,
    *,
    run: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    seen: Callable[[int], object] | None = None,
) -> moments.Record:
    """The sums over draws 0 … `draws` − 1.

    Arguments:
        sampler: from `simulate.make_sampler`.
        run: a directory in which finished chunks are kept. Killed at any moment, the same call
            resumes, and ends with the same bits; with more draws it extends.
        executor: where chunks are computed; else here, by as many threads as numba is told to use.
        progress: show a bar with the rate and the time left.
        seen: called with the number of draws that are done, or were kept, as they are.

    Raises:
        InputError: for a directory of another run, in use, damaged, or with more draws; and for an
            ensemble that an executor cannot be sent.
    """
    chunks = Chunks(sampler.chunk, draws)
    if run is None:
        return _record(sampler, chunks, None, executor, progress=progress, seen=seen)
    content = manifest(sampler)
    with Directory(Path(run), content) as directory:
        return _record(sampler, chunks, directory, executor, progress=progress, seen=seen)


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


def _record(
    sampler: Sampler,
    chunks: Chunks,
    directory: Directory | None,
    executor: Executor | None,
    *,
    progress: bool,
    seen: Callable[[int], object] | None,
) -> moments.Record:
    sums, done = _begun(sampler, directory)
    if done > chunks.whole:
        wanted = f"{done * chunks.size} draws, which {directory} has, or more"
        raise InputError("draws", chunks.draws, wanted)
    if directory and done < chunks.whole:
        directory.check_writable()
    at = done * chunks.size
    with tqdm(total=chunks.draws, initial=at, disable=not progress, unit="net") as bar:
        advance = bar.update if seen is None else seen
        advance(at if seen else 0)
        sums = _total(sampler, chunks, (sums, done), directory, executor, advance)
    bad = ~np.isfinite(sums).all(axis=(0, 2)) | ~np.isfinite(sampler.reference).all(axis=1)
    if bad.any():
        got = f"activations that overflow before layer {np.argmax(bad) + 1}"
        raise InputError("net", got, "finite ones")
    return moments.Record(sampler.plan, sampler.reference, sums, chunks.draws)


def _begun(sampler: Sampler, directory: Directory | None) -> tuple[Array, int]:
    """The sums of the chunks that are there, and how many those are.

    A run's sums stay about the X⁰ that it began with, also on a processor that rounds differently.
    """
    shape = _shape(sampler)
    kept = directory.sums(shape) if directory else None
    if kept is None:
        sums, done = np.zeros(shape), 0
        if directory:
            directory.begin(sampler.reference, sums)
        return sums, done
    sums, done, reference = kept
    vars(sampler)["reference"] = reference  # where `cached_property` looks first
    return sums, done


def _total(
    sampler: Sampler,
    chunks: Chunks,
    state: tuple[Array, int],
    directory: Directory | None,
    executor: Executor | None,
    advance: Callable[[int], object],
) -> Array:
    """The sum of all chunks in their order, the first given; kept on the way and at the end."""
    partial, saved = None, monotonic()
    missing = range(state[1], chunks.count)
    source = (
        _computed_here(sampler, chunks, missing, directory)
        if executor is None
        else _computed_elsewhere(sampler, chunks, missing, directory, executor)
    )
    try:
        for number, found in source:
            start, stop = chunks.span(number)
            if number < chunks.whole:
                state = state[0] + found, number + 1  # one assignment: an interrupt sees both
            else:
                partial = found
            advance(stop - start)
            if directory and monotonic() - saved > _SAVE_EVERY:
                directory.save(*state)
                saved = monotonic()
    finally:
        source.close()
        if directory:
            directory.save(*state)
    return state[0] if partial is None else state[0] + partial


def _computed_here(
    sampler: Sampler, chunks: Chunks, missing: Iterable[int], directory: Directory | None
) -> Generator[tuple[int, Array], None, None]:
    """A chunk for each thread while there are enough of them, the last ones shared by all."""
    threads, missing = sampler.threads, list(missing)
    shared = len(missing) % threads if threads > 1 else len(missing)
    apart, last = missing[: len(missing) - shared], missing[len(missing) - shared :]
    given_up, _ = Event(), sampler.reference  # once, before threads ask for it
    with ThreadPoolExecutor(threads) as pool:

        def submit(start: int, stop: int) -> Future[Array]:
            return pool.submit(sampler.sums, start, stop, given_up=given_up)

        try:
            yield from _in_order(sampler, chunks, apart, directory, submit, 2 * threads)
        except BaseException:
            given_up.set()
            raise
        for number in last:
            if directory and number in directory.waiting and number < chunks.whole:
                yield number, directory.kept(number, _shape(sampler))
            else:
                among = pool if threads > 1 else None
                yield number, sampler.sums(*chunks.span(number), among, threads)


def _computed_elsewhere(
    sampler: Sampler,
    chunks: Chunks,
    missing: Iterable[int],
    directory: Directory | None,
    executor: Executor,
) -> Generator[tuple[int, Array], None, None]:
    task = _task(sampler)

    def submit(start: int, stop: int) -> Future[Array]:
        return executor.submit(work, task, start, stop)

    window = _window(executor, sampler)
    yield from _in_order(sampler, chunks, missing, directory, submit, window)


def _in_order(
    sampler: Sampler,
    chunks: Chunks,
    missing: Iterable[int],
    directory: Directory | None,
    submit: Callable[[int, int], Future[Array]],
    window: int,
) -> Generator[tuple[int, Array], None, None]:
    """Chunks as they are wanted, with a window of them under way; what is finished is kept."""
    kept = {number for number in directory.waiting if number < chunks.whole} if directory else set()
    missing = list(missing)
    ahead = (number for number in missing if number not in kept)
    pending: dict[int, Future[Array]] = {}
    try:
        for number in missing:
            for later in islice(ahead, window - len(pending)):
                pending[later] = submit(*chunks.span(later))
            if directory and number in kept:
                yield number, directory.kept(number, _shape(sampler))
                continue
            while not pending[number].done():
                wait([pending[number]], 0.2)  # short, so that Ctrl-C comes in everywhere
            yield number, pending.pop(number).result()
    finally:
        for later, future in pending.items():
            future.cancel()
            finished = future.done() and not future.cancelled() and not future.exception()
            if directory and finished and later < chunks.whole:
                directory.keep(later, future.result())


def _task(sampler: Sampler) -> bytes:
    """The sampler, its X⁰ included: all workers' sums are about the same."""
    _ = sampler.reference
    try:
        return pickle.dumps(sampler)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        got = f"a network that cannot be pickled ({error})"
        raise InputError("executor", got, "None, to sample this network here") from None


def work(task: bytes, start: int, stop: int) -> Array:
    """A chunk's sums, on one thread of the process in which this is called."""
    return _sampler(task).sums(start, stop)


@lru_cache(maxsize=2)
def _sampler(task: bytes) -> Sampler:
    found: Sampler = pickle.loads(task)
    return found


def _window(executor: Executor, sampler: Sampler) -> int:
    """How many chunks to have under way: four for each worker, as far as memory goes."""
    told = (getattr(executor, name, None) for name in ("_max_workers", "num_workers"))
    workers = next((n for n in told if isinstance(n, int) and n > 0), 16)
    return max(2, min(4 * workers, _UNDER_WAY // (8 * prod(_shape(sampler)))))


def _shape(sampler: Sampler) -> tuple[int, int, int]:
    """Of a chunk's sums."""
    return moments.BLOCKS, sampler.ensemble.depth, len(sampler.plan.products)
