"""Several inputs and preactivations alone: networks of convolutions side by side.

A layer is one matrix for each tap, on the vectors at the positions that it reads. Their Gram matrix
S is one for all taps, and so are the statistics, which are polynomials in S. The same streams and
the same networks as `staged.ProbeSampler` draws, to rounding. That follows networks whose S loses
digits, as where vectors repeat or vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from derive.activations.functions import Activation
from derive.engine.fields import Z
from derive.engine.stages import DENSE, STEM, Stage
from derive.engine.taps import ALONE, Taps
from derive.weights import Gaussian
from derive.work.caches import cache

from ..arrays import Array, aligned
from ..emit.kernels import load_kernels
from ..emit.templates import activate_source, sigma_source
from ..estimators.observables import Plan
from ..estimators.polynomials import Structure
from ..estimators.probes import Probes
from ..estimators.sums import compiled
from ..random import lazy
from ..random.lazy import COLUMN, GAUSSIAN, HAAR
from .base import evaluated_once
from .ensemble import STAGES, Ensemble
from .forward import BIASED, grouped
from .forward_kernels import LANES, room_of_words
from .stage_tables import Place
from .tapped_kernels import PARTS

_FORWARD = '''\
{sigma}

{activate}

@entry
def forward(
    networks, key, first, inputs, widths, bounds, steps, scales, reads, parts, rooms, grams, lost
):
    """S/s of networks (groups, lanes) at some layers of s taps: grams (layers, draws, m m + 1), the
    lower triangle, and a 0 behind it.

    Arguments:
        first: the first of these layers, counted from 0. Those before it have been called for.
        inputs, widths: (m, n_0), and n_0, n_1, …
        bounds: where the steps of each layer but the last begin.
        steps: rows (kind, size, big, stream, tap), and their scales.
        reads: the vector that each is for a tap, (taps, m); −1 where that is 0.
        parts: 1/s of each layer.
        rooms: for the vectors of two layers, by group; for a Gram matrix; and as of `add_applied`.
        lost: (depth, groups, lanes), true afterwards where grams are wrong, for vectors before
            depend on others to some digits.
    """
    wide_vectors()
    m, (vectors, S, matrices) = inputs.shape[0], rooms
    for g in range(networks.shape[0]):
        own = networks[g]
        for layer in range(first, first + grams.shape[0]):
            n, V, out = widths[layer], vectors[g, layer % 2], vectors[g, (layer + 1) % 2]
            wrong = lost[min(layer + 1, lost.shape[0] - 1), g]
            wrong[:] |= lost[layer, g]
            if lost[layer, g].all():
                continue
            if layer:
                activate_0(V.reshape(-1), m * n * {lanes})
            else:
                put_everywhere(inputs, V)
            put_gram(V[: m * n], m, n, S)
            store_gram(S, m, parts[layer], g * {lanes}, grams[layer - first])
            if layer + 1 == lost.shape[0]:
                break
            for t in range(bounds[layer], bounds[layer + 1]):
                kind, size, big = steps[t, 0], steps[t, 1], steps[t, 2]
                source = key, own, steps[t, 3], {column}
                if kind == {BIASED}:
                    add_biases(out, m, (size, scales[t]), source, matrices)
                else:
                    factor, new = (kind, size, big, scales[t]), t > bounds[layer]
                    taken = reads[steps[t, 4]]
                    given = (m, n), taken, factor, source, matrices
                    add_applied(out, S, *given, wrong, new)
'''

_PIECE, _HELD = 1 << 28, 1 << 19
"""Products in one call of compiled code, some 0.1 s, and entries of Gram matrices that it gives:
Ctrl-C comes in between."""

_WIDEST = 1 << 15
"""Neurons of all samples, up to which a group of networks is held side by side."""


def fits(ensemble: Ensemble, plan: Plan) -> bool:
    """True for preactivations alone behind matrices that read one position each, or none."""
    if plan.fields != {Z} or ensemble.layers.needs.keys() != {STAGES}:
        return False
    layers = range(1, ensemble.depth + 1)
    stages = [ensemble.stages_at(layer) for layer in layers]
    if (
        not isinstance(ensemble.net.activation, Activation)
        or {len(ensemble.inputs)} != {*ensemble.data.samples, plan.samples}
        or not all(len(each) == 1 and _is_plain(each[0]) for each in stages)
        or any(ensemble.read_at(layer) != stages[layer - 1] for layer in layers)
        or plan.samples * max(ensemble.widths) > _WIDEST
    ):
        return False
    laws = [_factors(ensemble, layer) for layer in layers]
    return all(len(each) == 1 and each[0].kind in (GAUSSIAN, HAAR) for each in laws)


def blocks(
    ensemble: Ensemble,
    plan: Plan,
    draws: NDArray[np.int64],
    one_by_one: Callable[[NDArray[np.int64]], Iterator[Array]],
) -> Iterator[tuple[int, Array]]:
    """The statistics of each layer; those that lose digits are followed one by one from there."""
    m, most, depth = plan.samples, max(ensemble.widths), ensemble.depth
    program, networks = _program(ensemble, plan), grouped(draws)
    forward = _kernels(ensemble.net.one_activation("probes")).forward
    bounds, steps, *_ = program.arrays
    columns = 4 + int(steps[:, 1:3].max())
    matrices = aligned(3, m * m, LANES), aligned(m * columns, LANES), room_of_words()
    vectors = aligned(len(networks), 2, m * most, LANES)
    rooms = vectors, aligned(m * m, LANES), matrices
    given = ensemble.inputs, np.array(ensemble.widths), *program.arrays
    lost = np.zeros((depth, *networks.shape), np.bool_)
    entries = networks.size * m * m
    work = entries * most * int(np.diff(bounds).max())
    piece = max(1, min(_PIECE // work, _HELD // entries))
    followed: list[tuple[NDArray[np.int64], Iterator[Array]]] = []
    known = np.zeros(draws.size, np.bool_)
    for first in range(0, depth, piece):
        grams = np.empty((min(piece, depth - first), draws.size, m * m + 1))
        forward(networks, ensemble.key, first, *given, rooms, grams, lost)
        wrong = lost.reshape(depth, -1)[first : first + len(grams), : draws.size]
        again = np.flatnonzero(wrong[-1] & ~known)
        known |= wrong[-1]
        if again.size:
            followed.append((again, islice(one_by_one(draws[again]), first, None)))
        for layer, S in enumerate(grams, first):
            values = evaluated_once(program.polynomials[layer], S)
            for these, others in followed:
                own = wrong[layer - first, these]
                values[these[own]] = next(others)[own]
            yield layer, values[None]


def _factors(ensemble: Ensemble, layer: int) -> list[lazy.Step]:
    """Of each matrix of a layer."""
    (stage,) = ensemble.stages_at(layer)
    law = ensemble.ensemble_of(layer, stage.matrix(0))
    return lazy.steps(law, *ensemble.widths[layer - 1 : layer + 1])


@dataclass(frozen=True, eq=False)
class _Program:
    """The arguments of the kernel, and the statistics of each layer as polynomials in S."""

    arrays: tuple[NDArray[np.int64], NDArray[np.int64], Array, NDArray[np.int64], Array]
    polynomials: list[tuple[Structure, Array]]


@cache(entries=16)
def _program(ensemble: Ensemble, plan: Plan) -> _Program:
    m = plan.samples
    steps, scales, bounds = list[tuple[int, ...]](), list[float](), [0]
    reads, polynomials, parts = list[NDArray[np.int64]](), [], []
    for layer in range(1, ensemble.depth + 1):
        (stage,), place, n = ensemble.stages_at(layer), Place(layer), ensemble.widths[layer]
        taps, (step,) = stage.taps, _factors(ensemble, layer)
        biases = ensemble.biases_of(layer, stage.equations[0][1])
        for tap in range(taps.count):
            steps.append((step.kind, n, step.big, place.weights(tap), len(reads) + tap))
            scales.append(step.scale / taps.count**0.5)
        if biases and biases[0]:
            (own,) = lazy.steps(Gaussian(biases[0]), 1, n)
            steps.append((BIASED, n, n, place.biases(0), 0))
            scales.append(own.scale)
        bounds.append(len(steps))
        parts.append(1.0 / taps.count)
        met = [_reads(taps, tap, m) for tap in range(taps.count)]
        n_in = dict.fromkeys(range(taps.count), ensemble.widths[layer - 1])
        given = ensemble.sum_of(layer, stage, n_in, carried=False, biases=biases)
        structure, coefficients = compiled(plan, given, Probes())
        polynomials.append((_of_one(structure, met, m), coefficients))
        reads += met
    arrays = np.array(bounds), np.array(steps), np.array(scales), np.array(reads)
    return _Program((*arrays, np.array(parts)), polynomials)


def _is_plain(stage: Stage) -> bool:
    """True for a dense layer or a stem at the positions that taps read, one each."""
    taps = stage.taps
    alone = replace(stage, taps=ALONE) in (DENSE, STEM)
    return alone and taps.is_one_to_one and not taps.changes


def _reads(taps: Taps, tap: int, samples: int) -> NDArray[np.int64]:
    """The sample that a tap reads for each of so many; −1 for none."""
    own = np.array([row[0][0] if row else -1 for row in taps.reads[tap]])
    signals = np.arange(samples // taps.positions)[:, None] * taps.positions
    return np.where(own < 0, -1, own + signals).ravel()


def _of_one(structure: Structure, reads: list[NDArray[np.int64]], m: int) -> Structure:
    """Polynomials in the Gram matrices of what each tap reads, as polynomials in the lower triangle
    of S and a 0 behind it."""
    parent, factor, start, which = structure
    tap, entry = np.divmod(factor, m * m)
    a, b = (np.array(reads)[tap, k] for k in np.divmod(entry, m))
    nothing = np.minimum(a, b) < 0
    place = np.where(nothing, m * m, np.maximum(a, b) * m + np.minimum(a, b))
    return parent, place, start, which


@cache
def _kernels(activation: Activation) -> ModuleType:
    """`forward`, compiled for this activation."""
    sigma = sigma_source(activation, 1)
    source = _FORWARD.format(
        sigma=sigma, activate=activate_source(), lanes=LANES, column=COLUMN, BIASED=BIASED
    )
    doc = f"Convolutions of networks side by side: {activation.name}."
    return load_kernels("tapped", doc, (), source, parts=PARTS)
