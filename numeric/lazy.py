"""The lazy sampler: networks whose weights are sampled only on the vectors they meet.

A layer of one network costs O(n m²), and m samples of a layer are all that is ever held of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
from numpy.typing import NDArray

from . import gram, random, weights
from .ensemble import Ensemble, load_template
from .weights import Array

_CHUNK_NUMBERS = 1 << 17  # preactivations of one layer that are held at a time

_LAYER = '''\
"""The kernels that take an ensemble from layer to layer.

{fingerprint}
"""

{prelude}
from numeric import gram, weights

{entry}

@entry
def advance(X, Z, draws, law, source):
    """Z ← W X + b, sampled anew for each draw (numeric.weights.advance)."""
    weights.advance(X, Z, draws, law, source)


@entry
def record(X, draws, products, sums):
    """Add the monomials of each draw's Gram matrix to sums (numeric.gram.record)."""
    gram.record(X, draws, products, sums)
'''


def record(
    ensemble: Ensemble, degree: int, draws: int, done: Callable[[int], object]
) -> gram.PowerSums:
    """Gram matrices of σ^(ℓ−1), ℓ = 1 … depth, from weights sampled on the vectors they meet.

    Runs in as many threads as numba is told to use (NUMBA_NUM_THREADS); calls `done` with the
    number of draws finished since the last call.
    """
    m = len(ensemble.inputs)
    first = gram.monomials(m, 1)
    reference = np.zeros((1, ensemble.depth, len(first)))
    no_reference = np.zeros(reference.shape[1:])
    add_draws(ensemble, np.zeros(1, np.int64), first, no_reference, reference)
    kept = gram.monomials(m, degree)
    sums = np.zeros((gram.BLOCKS, ensemble.depth, len(kept)))
    threads = numba.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        for start, stop in _chunks(ensemble, draws):
            chunk = np.arange(start, stop)
            stripe = chunk % gram.BLOCKS % threads  # a block's draws stay in one thread, in order
            parts = [chunk[stripe == part] for part in range(threads)]
            list(pool.map(lambda part: add_draws(ensemble, part, kept, reference[0], sums), parts))
            done(stop - start)
    return gram.PowerSums(kept, reference[0], sums, draws)


def add_draws(
    ensemble: Ensemble,
    draws: NDArray[np.int64],
    kept: gram.Monomials,
    reference: Array,
    sums: Array,
) -> None:
    """Add these draws to sums (blocks, depth, monomials)."""
    kernels = load_template(_LAYER, "layer", (gram, random, weights))
    X = np.repeat(ensemble.inputs[None], draws.size, axis=0)
    for layer in range(ensemble.depth):
        products = (reference[layer], kept.parent, kept.factor)
        kernels.record(X, draws, products, sums[:, layer])
        if layer + 1 < ensemble.depth:
            Z = np.empty((draws.size, X.shape[1], ensemble.widths[layer + 1]))
            law = (ensemble.kinds[layer], ensemble.C_W[layer], ensemble.C_b[layer])
            kernels.advance(X, Z, draws, law, (ensemble.key, layer + 1))
            ensemble.activate(Z)
            X = Z


def _chunks(ensemble: Ensemble, draws: int) -> Iterator[tuple[int, int]]:
    """Stretches of draws that fit the processor's cache and end soon after an interrupt."""
    step = max(16, _CHUNK_NUMBERS // (ensemble.inputs.shape[0] * max(ensemble.widths)))
    for start in range(0, draws, step):
        yield start, min(start + step, draws)
