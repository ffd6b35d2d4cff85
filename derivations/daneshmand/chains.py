"""One ensemble of networks with batch normalization: its kernels, its draws, and their slow check.

Each layer normalises the rows of W σ(Q) over the batch, Q_1 = BN(W X), so that entries have mean
square 1 (source 003, appendix G). No weight matrix is built (`chain_kernels`).
"""

from __future__ import annotations

import math
from concurrent.futures import CancelledError
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any

import numba
import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from derivations.daneshmand import chain_kernels
from derive import activations
from derive.activations.functions import Activation
from derive.errors import InputError, Words, as_integer, flag
from derive.work.caches import cache
from derive.work.resources import check_memory, check_time, number
from numeric import checks
from numeric.arrays import Array
from numeric.checks import checked_inputs
from numeric.emit import fastmath, printer
from numeric.emit.kernels import load_kernels
from numeric.random import lazy, philox
from numeric.runs import chunks
from numeric.runs.directory import digest
from numeric.runs.work import RowsWork, Sharing

_RATE = 1e9
"""Multiplications in a second."""
_BREATH = 0.2
"""Seconds of compiled work between two looks at what Python has to tell, such as Ctrl-C."""
_HELD = 1 << 19
"""Numbers of Gram matrices in a chunk."""

_ACTIVATE = '''\
@scalar
def sigma(z):
    """The activation."""
    return {sigma}


@numba.njit(**(_own | {{"no_cfunc_wrapper": False}}), nogil=True, cache=True)
def activate(Q):
    """Q ← σ(Q), in place."""
    for i in range(Q.shape[0]):
        for j in range(Q.shape[1]):
            Q[i, j] = sigma(Q[i, j])
'''

_ADVANCE = '''\
_rows = numba.float64[:, ::1]
_arguments = (
    _rows, numba.int64[::1], numba.types.UniTuple(numba.int64, 2),
    numba.types.Tuple((numba.boolean, numba.boolean, numba.boolean, numba.float64)),
    numba.uint64[::1], _rows, numba.float64[:, :, :, ::1], numba.float64[:, :, ::1],
    numba.int64[::1], numba.int64, numba.types.FunctionType(numba.void(_rows)),
)


@numba.njit(numba.void(*_arguments), **_own, nogil=True, cache=True)
def advance(R0, draws, sizes, options, key, gaps, grams, state, position, budget, activate):
    """For each draw, V² of layers 1 … depth, and the Gram matrices if there is room for them.

    sizes: (depth, width); options: (linear, normalised, centered, row scale). Leaves after
    `budget` batches of rows, to be called again: position is (place among the draws, layer, batch
    of rows, rank of R), all 0 at first and layer 0 between two draws; state has R, C and Q.
    """
    depth, width = sizes
    linear, normalised, centered, scale = options
    n = R0.shape[1]
    rows = min(ROWS, width)
    Z, room, norms = np.empty(n * rows + 4), np.empty(n * rows), np.empty(rows)
    R, C, Q = state[0], state[1], state[2]
    uses = (width + rows - 1) // rows
    s, layer, first, rank = position[0], position[1], position[2], position[3]
    while s < draws.size and budget > 0:
        if layer == 0:
            rank = R0.shape[0]
            copy(R0, R)
            layer = 1
        if first == 0:
            C.fill(0.0)
            Q.fill(0.0)
        last = min(uses, first + budget)
        for use in range(first, last):
            count = min(rows, width - use * rows)
            U = room[: n * count].reshape(n, count)  # contiguous: its loops vectorise
            draw_rows(R, rank, (key, draws[s], layer, use), Z, U)
            if normalised:
                normalise(U, norms[:count], centered)
            else:
                for a in range(n):
                    for j in range(count):
                        U[a, j] *= scale
            add_gram(U, Q)
            if not linear:
                activate(U)
                add_gram(U, C)
        budget -= last - first
        first = last
        if last < uses:
            break
        mirror(Q)
        gaps[s, layer - 1] = gap_squared(Q)
        if grams.shape[0]:
            copy(Q, grams[s, layer - 1])
        if linear:
            copy(Q, C)
        else:
            mirror(C)
        rank = factor(C, R)
        first = 0
        layer += 1
        if layer > depth:
            layer = 0
            s += 1
    position[0], position[1], position[2], position[3] = s, layer, first, rank
'''


@dataclass(frozen=True, eq=False)
class Chain(RowsWork):
    """An ensemble of normalised networks, all of it checked: V² of each layer, or Gram matrices.

    Attributes:
        width, batch, depth: d, n, and layers of preactivations, counted from 1.
        draws, seed: networks.
        activation: σ.
        centered: whether rows lose their mean over the batch.
        normalised: whether they have mean square 1.
        inputs: (batch, n_0).
        grams: whether the Gram matrices are observed.
    """

    width: int
    batch: int
    depth: int
    draws: int
    seed: int
    activation: Activation
    centered: bool
    normalised: bool
    inputs: Array
    grams: bool

    def __str__(self) -> str:
        sizes = f"{number(self.width)} neurons, {number(self.batch)} samples"
        return f"{number(self.draws)} networks of {number(self.depth)} layers, {sizes}"

    @property
    def chunk(self) -> int:
        """A power of two, of about a second's work and no more Gram matrices than can be held."""
        affordable = min(1024, max(1, int(1 / self.draw_seconds)))
        if self.grams:
            affordable = min(affordable, max(1, _HELD // (self.depth * self.batch**2)))
        return 1 << (affordable.bit_length() - 1)

    @property
    def threads(self) -> int:
        """Those of numba."""
        return int(numba.get_num_threads())

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, depth), or (draws, depth, n, n)."""
        return (draws, self.depth, *((self.batch,) * 2 if self.grams else ()))

    def manifest(self) -> dict[str, Any]:
        """The chain but for how many draws, and what is observed."""
        return {
            "sampler": "batchnorm gram",
            "observed": "grams" if self.grams else "gaps",
            "activation": sympy.srepr(self.activation.expr),
            "width": self.width,
            "batch": self.batch,
            "depth": self.depth,
            "seed": self.seed,
            "centered": self.centered,
            "normalised": self.normalised,
            "inputs": f"{self.inputs.shape} {digest(self.inputs)}",
            "chunk": self.chunk,
        }

    def sampled(self, options: chunks.Options, copies: int) -> Array:
        """All draws, one below the other; InputError where so many copies do not fit in memory."""
        numbers = copies * math.prod(self.shape(self.draws))
        check_memory("depth, draws", f"{self.depth}, {self.draws}", 8 * numbers, str(self))
        return chunks.rows(self, options, f"sampling {self}", self.seconds / self.threads)

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The observables of these draws, one below the other."""
        keep = self.grams
        gaps = np.empty((stop - start, self.depth))
        grams = np.empty((stop - start if keep else 0, self.depth, self.batch, self.batch))
        R0 = self._first_factor()
        linear = self.activation.expr == activations.z
        scale = float(1.0 / np.sqrt(self.width))
        options = (linear, self.normalised, self.centered, scale)

        budget = max(1, int(_BREATH / self._use_seconds))
        advance, activate = _chain().advance, kernels(self.activation).activate
        key = philox.stream_key(self.seed, self.width, self.batch)  # another for other sizes
        shared = shared or Sharing()
        pool, given_up = shared.pool, shared.given_up

        def part(rows: NDArray[np.int64]) -> None:
            found = gaps[rows], grams[rows] if keep else grams
            sizes, state = (self.depth, self.width), np.empty((3, self.batch, self.batch))
            position = np.zeros(4, np.int64)
            fixed = (R0, rows + start, sizes, options, key, *found, state, position)
            while position[0] < rows.size and not given_up.is_set():
                advance(*fixed, budget, activate)
            gaps[rows] = found[0]
            if keep:
                grams[rows] = found[1]

        rows = np.arange(stop - start)
        try:
            if pool is None:
                part(rows)
            else:
                list(pool.map(part, np.array_split(rows, shared.threads)))
        except BaseException:
            given_up.set()  # Ctrl-C, which else would wait for all of them
            raise
        if given_up.is_set():
            raise CancelledError
        if not np.isfinite(gaps).all():
            raise InputError("activation", self.activation.name, "rows that do not vanish or grow")
        return grams if keep else gaps

    @property
    def _use_seconds(self) -> float:
        """About how long a batch of rows takes, with its share of a layer's factorization."""
        rows = min(chain_kernels.ROWS, self.width)
        share = self.batch**3 * rows // self.width
        return (rows * self.batch * (self.batch + 20) + share + 1000) / _RATE

    @property
    def draw_seconds(self) -> Fraction:
        """How long a draw will take, on one thread."""
        uses = -(-self.width // chain_kernels.ROWS) * self.depth
        return uses * Fraction(self._use_seconds)

    @property
    def seconds(self) -> int:
        """How long all draws will take, on one thread."""
        return int(self.draws * self.draw_seconds)

    def _first_factor(self) -> Array:
        """R with XXᵀ = RᵀR, from X itself: its condition number is not squared."""
        X = self.inputs
        Q, R, squares = np.empty(X.shape), np.empty((len(X), len(X))), np.empty((2, len(X)))
        rank = _frames().triangle(X.copy(), Q, R, squares)
        if rank == 0:
            raise InputError("inputs", Words("only zeros"), "at least one input other than zero")
        scale = np.sqrt(self.width / X.shape[1])  # later layers have E W_ij² = 1/width
        return np.asarray(scale * R[:rank])


def checked_chain(
    width: int,
    batch: int,
    depth: int,
    draws: int,
    seed: int,
    activation: Activation,
    centered: bool,
    normalised: bool,
    inputs: ArrayLike | None,
    grams: bool,
    kept: bool = False,
) -> Chain:
    """The chain of `ensembles.simulate`'s arguments; InputError, also unless `kept` for a day's
    work."""
    width, depth = as_integer("width", width, 1), as_integer("depth", depth, 1)
    batch = as_integer("batch", batch, 2)
    check_memory("batch", batch, 8 * 10 * batch**2, f"Gram matrices of {number(batch)} samples")
    draws, seed = checks.draws(draws, 1), checks.seed(seed)
    activation = activations.as_activation(activation)
    centered = flag("centered", centered)
    normalised = flag("normalised", normalised)
    if centered and not normalised:
        raise InputError("centered", centered, "False where rows are not normalised")
    if inputs is None:
        X = np.diag([10.0] + [1.0] * (batch - 1))
    else:
        X = checked_inputs(inputs).X
        if len(X) != batch:
            raise InputError(
                "inputs", Words(f"shape {X.shape}"), f"{batch} rows, one for each sample"
            )
    chain = Chain(width, batch, depth, draws, seed, activation, centered, normalised, X, grams)
    got = f"{width}, {batch}, {depth}, {draws}"
    if not kept:
        seconds = chain.seconds // chain.threads
        check_time("width, batch, depth, draws", got, seconds, str(chain))
    return chain


@cache
def kernels(activation: Activation) -> ModuleType:
    """The module with `activate`, compiled for an activation."""
    printed = printer.expression(activation.expr, {activations.z: "z"})
    source = _ACTIVATE.format(sigma=fastmath.vectorised(printed))
    return load_kernels("activate", f"The activation {activation.name}.", (), source)


@cache
def _chain() -> ModuleType:
    """The module with `advance`, compiled once for all activations."""
    source = _ADVANCE.replace("ROWS", str(chain_kernels.ROWS))
    return load_kernels(
        "batchnorm", "The batch-norm chain.", (), source, called=chain_kernels.PARTS
    )


@cache
def _frames() -> ModuleType:
    """`triangle`, compiled."""
    return load_kernels("triangle", "The frame of some vectors.", (lazy.triangle,))
