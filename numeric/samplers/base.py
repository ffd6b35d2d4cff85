"""The base of all samplers: networks in, sums of products of their statistics out.

A sampler takes some draws of an ensemble down the layers (`layers`). The rest is here: what a chunk
is, and how its draws are shared among threads without leaving a trace in the sums (`moments`). A
sampler can be pickled, sent to where a chunk is wanted, and asked for `sums` there.
"""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from threading import Event
from types import ModuleType
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from derive.engine.equations import Equation
from derive.work.caches import cache, constant

from ..arrays import Array
from ..emit.kernels import load_kernels
from ..estimators import moments, polynomials
from ..estimators.observables import Plan
from ..estimators.polynomials import Structure
from ..runs.totals import Sums
from ..runs.work import Sharing, Work
from .ensemble import Ensemble, Layers

_HELD = 1 << 17  # numbers of one layer that a thread holds at a time
_CHUNK = 1 << 26  # numbers that are computed in a chunk, about a second's work


@dataclass(frozen=True, eq=False)
class Sampler(Work):
    """Networks of an ensemble, and the statistics that they estimate.

    Arguments:
        ensemble: the networks.
        plan: what is measured.
    """

    ensemble: Ensemble
    plan: Plan
    supports: ClassVar[frozenset[str]] = frozenset()
    """The needs of networks (`ensemble.Layers.needs`) that it supports."""
    wanted: ClassVar[str] = '"lazy" or "explicit"'
    """The advice where this sampler does not give a plan's statistics."""
    because: ClassVar[str] = ""
    """Why it does not support the other needs."""
    name: ClassVar[str]
    """The name in `simulate`; `label` names one with its options."""
    multiplied: ClassVar[bool] = False
    """True if statistics are what layers multiply those before by (`moments.Record`)."""

    @property
    def label(self) -> str:
        """The name that `simulate` gives it."""
        return self.name

    @property
    def identity(self) -> str:
        """Its name in a stored run."""
        return type(self).__name__

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> Sampler:
        """The sampler of a plan in an ensemble; `why_not` must be empty."""
        return cls(ensemble, plan)

    @classmethod
    def why_not(cls, layers: Layers, plan: Plan) -> str:
        """The alternative to this sampler if it does not apply; empty if it does."""
        other = [where for need, where in layers.needs.items() if need not in cls.supports]
        if other:
            wanted = f'"lazy" or "explicit", for {" and ".join(other)}'
            return f"{wanted}: {cls.because}" if cls.because else wanted
        return "" if cls.gives(layers, plan) else cls.wanted

    @classmethod
    def gives(cls, layers: Layers, plan: Plan) -> bool:
        """True if it gives these statistics, in networks whose needs it supports."""
        return True

    @property
    @abstractmethod
    def numbers(self) -> int:
        """How many numbers a network holds at its widest layer."""

    @abstractmethod
    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """The estimates of these networks, (draws, statistics), at layers 1, 2, …"""

    def blocks(self, draws: NDArray[np.int64]) -> Iterator[tuple[int, Array]]:
        """The same of some layers at a time, (layers, draws, statistics), and which is the first:
        one by one, if a sampler has no better way."""
        for layer, values in enumerate(self.layers(draws)):
            yield layer, values[None]

    def sizes(self) -> Array | None:
        """The size of the terms of each statistic, (depth, statistics), where they cancel; None
        where they do not."""
        return None

    @property
    def threads(self) -> int:
        """How many threads share the work on this machine."""
        return int(numba.get_num_threads())

    @property
    def batch(self) -> int:
        """The number of draws that a thread takes down the layers together."""
        return max(1, _HELD // self.numbers)

    @property
    def chunk(self) -> int:
        """The number of draws in a chunk: a power of two up to 1024, fewer for large networks."""
        affordable = max(1, _CHUNK // (self.numbers * self.ensemble.depth))
        return min(1024, 1 << (affordable.bit_length() - 1))

    @cached_property
    def reference(self) -> Array:
        """X⁰: the statistics of draw 0, (depth, statistics)."""
        with uncollected():  # what is not compiled yet is compiled now
            first: Array = self.statistics(np.zeros(1, np.int64))[0]
        return first

    def shape(self, draws: int) -> tuple[int, int, int]:
        """(BLOCKS, depth, products), of any draws."""
        return moments.BLOCKS, self.ensemble.depth, len(self.plan.products)

    def total(self) -> Sums:
        """Sums are added."""
        return Sums(np.zeros(self.shape(0)))

    def manifest(self) -> dict[str, Any]:
        """The ensemble, and what is measured in what way."""
        fields, chosen = self.plan.fields, self.plan.chosen
        return {
            **self.ensemble.manifest(),
            **({"samples": list(chosen)} if chosen else {}),
            "tensors": [target.label for target in self.plan.targets],
            "equations": sorted(repr(field) for field in fields if isinstance(field, Equation)),
            "sampler": self.identity,
            "chunk": self.chunk,
            "blocks": moments.BLOCKS,
        }

    def statistics(self, draws: NDArray[np.int64]) -> Array:
        """The estimates of each of these networks, (draws, depth, statistics)."""
        found = np.empty((draws.size, self.ensemble.depth, len(self.plan.statistics)))
        for layer, values in self.blocks(draws):
            found[:, layer : layer + len(values)] = values.swapaxes(0, 1)
        return found

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The sums over the draws of one chunk about X⁰, (BLOCKS, depth, products).

        `reference` is X⁰, (depth, statistics); who is to leave does so at the next batch.
        """
        shared = shared or Sharing()
        keep_memory()
        sums = np.zeros(self.shape(stop - start))
        chunk = np.arange(start, stop)
        stripe = (
            chunk % moments.BLOCKS % shared.threads
        )  # a block's draws stay in one thread, in order
        parts = [chunk[stripe == part] for part in range(shared.threads)]
        others: list[Future[None]] = []
        try:
            if shared.pool is not None:
                parts, beside = parts[:1], parts[1:]
                given = reference, sums, shared.given_up
                others = [shared.pool.submit(self._add, part, *given) for part in beside]
            for part in parts:
                self._add(part, reference, sums, shared.given_up)
            for other in others:
                other.result()
        except BaseException:
            shared.given_up.set()
            wait(others)
            raise
        if shared.given_up.is_set():
            raise CancelledError
        return sums

    def _add(
        self, draws: NDArray[np.int64], reference: Array, sums: Array, given_up: Event
    ) -> None:
        accumulate, step = _kernels().accumulate, self.batch
        room = np.empty(1 + len(self.plan.products))
        for first in range(0, draws.size, step):
            if given_up.is_set():
                return
            part = draws[first : first + step]
            for layer, values in self.blocks(part):
                if given_up.is_set():
                    return
                these = slice(layer, layer + len(values))
                products = (reference[these], *self.plan.chain)
                accumulate(values, part % moments.BLOCKS, products, room, sums[:, these])


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage here: a seventh of compiling goes into it, and there is little."""
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


@constant("it sets an option of the process")
def keep_memory() -> None:
    """Have glibc reuse freed arrays, which else it hands back and faults in anew, page by page.

    It does so with blocks up to the size of the largest that it has mapped and freed, if below its
    bound of 32 MB; the array here is never touched.
    """
    np.empty((1 << 25) - (1 << 14), np.uint8)


def evaluated(polynomials: tuple[Structure, Array], factors: Array) -> Array:
    """Polynomials with coefficients (layers, terms) at factors (layers, draws, factors): their
    values, (layers, draws, polynomials)."""
    structure, coefficients = polynomials
    parent, _, start, _ = structure
    values = np.empty((*factors.shape[:2], start.size - 1))
    _kernels().evaluate(factors, structure, coefficients, np.empty((1 + parent.size, 4)), values)
    return values


def evaluated_once(polynomials: tuple[Structure, Array], factors: Array) -> Array:
    """`evaluated` of one layer: coefficients (terms,) at (draws, factors)."""
    structure, coefficients = polynomials
    values: Array = evaluated((structure, coefficients[None]), factors[None])[0]
    return values


@cache
def _kernels() -> ModuleType:
    """`evaluate` and `accumulate`, compiled."""
    doc = "What turns what is known of networks into sums of products of their statistics."
    return load_kernels("sums", doc, (polynomials.evaluate, moments.accumulate))
