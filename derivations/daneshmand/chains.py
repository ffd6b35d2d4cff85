"""One ensemble of networks with batch normalization: its kernels, and its draws.

Each layer normalises the rows of W σ(Q) over the batch, Q_1 = BN(W X), so that entries have mean
square 1 (source 003, appendix G). The rows of W H are independent N(0, HᵀH/d), so no weight matrix
is built: factor the Gram matrix, C = RᵀR, draw d rows Rᵀz of n numbers, normalise each over the
batch, apply σ, and take the next Gram matrix. That is exact in law at every width, and O(d n²)
instead of O(d² n). Source 003, eqs. (1), (9) and appendix G; derived here.
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

from derive import activations
from derive.activations.functions import Activation
from derive.errors import InputError, Words, as_integer, flag
from derive.work.caches import cache
from derive.work.resources import check_memory, check_time, number
from numeric import checks
from numeric.arrays import Array
from numeric.checks import checked_inputs
from numeric.emit import fastmath, printer
from numeric.emit.jit import driver
from numeric.emit.kernels import load_kernels
from numeric.random import philox
from numeric.random.lazy import add_multiple, combine, gram, put_multiple
from numeric.random.philox import fill_normals, padded
from numeric.runs import chunks
from numeric.runs.directory import digest
from numeric.runs.work import RowsWork, Sharing

TOLERANCE = 1e-14
"""A pivot of a Cholesky factorization below this part of the trace is rounding."""
_RATE = 1e9
"""Multiplications in a second."""
_BREATH = 0.2
"""Seconds of compiled work between two looks at what Python has to tell, such as Ctrl-C."""
_HELD = 1 << 19
"""Numbers of Gram matrices in a chunk."""


@driver
def factor(C: Array, R: Array) -> int:
    """C = RᵀR by pivots, C destroyed: the rank, and so many rows of R.

    A direction whose square is below 1e-14 of the trace is left out: it is rounding.
    """
    n = C.shape[0]
    floor = 0.0
    for a in range(n):
        floor += TOLERANCE * C[a, a]
    for k in range(n):
        pivot = 0
        for a in range(1, n):
            if C[a, a] > C[pivot, pivot]:
                pivot = a
        if not C[pivot, pivot] > floor:
            return k
        put_multiple(R[k], 1.0 / math.sqrt(C[pivot, pivot]), C[pivot])
        for a in range(n):
            add_multiple(C[a], -R[k, a], R[k])
        C[pivot] = 0.0
        C[:, pivot] = 0.0
    return int(n)


@driver
def normalise(U: Array, norms: Array, centered: bool) -> None:
    """Give every column mean square 1, after taking away its mean if `centered`."""
    n = U.shape[0]
    if centered:
        norms.fill(0.0)
        for a in range(n):
            add_multiple(norms, 1.0 / n, U[a])
        for a in range(n):
            add_multiple(U[a], -1.0, norms)
    norms.fill(0.0)
    for a in range(n):
        for j in range(norms.size):
            norms[j] += U[a, j] * U[a, j]
    for j in range(norms.size):
        norms[j] = math.sqrt(n / norms[j])
    for a in range(n):
        for j in range(norms.size):
            U[a, j] *= norms[j]


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
    numba.float64[:, :, ::1], numba.int64[::1], numba.float64[:, :, :, ::1], numba.uint64[::1],
    numba.types.UniTuple(numba.int64, 3), numba.types.UniTuple(numba.boolean, 3),
    numba.float64[::1], _rows, _rows, numba.types.FunctionType(numba.void(_rows)),
)


@numba.njit(numba.void(*_arguments), **_own, nogil=True, cache=True)
def advance(R, ranks, grams, key, span, options, Z, U, C, activate):
    """Q Qᵀ/d of some layers of each draw in `grams`, behind the Gram matrices RᵀR, which move on.

    span: (number of the first draw, first layer, last layer + 1); options: (linear, normalised,
    centered). Z, U and C are room for normal numbers, rows and a Gram matrix.
    """
    draw, first, stop = span
    linear, normalised, centered = options
    n, width = U.shape
    for s in range(grams.shape[0]):
        rank = ranks[s]
        for layer in range(first, stop):
            fill_normals(Z[: padded(rank * width)], key, draw + s, layer + 1, 0)
            combine(R[s], rank, Z[: rank * width].reshape(rank, width), U)
            if normalised:
                normalise(U, Z[:width], centered)
            gram(U, grams[s, layer])
            if linear:
                for a in range(n):
                    put_multiple(C[a], 1.0, grams[s, layer, a])
            else:
                activate(U)
                gram(U, C)
            rank = factor(C, R[s])
        ranks[s] = rank
'''


def gap_squared(C: Array) -> Array:
    """V² (source 003, eq. 2) of Gram matrices (…, n, n) of any trace but 0.

    >>> gap_squared(np.diag([3.0, 1.0])).item()
    0.125
    """
    n = C.shape[-1]
    shares = C / np.trace(C, axis1=-2, axis2=-1)[..., None, None]
    return np.asarray(((shares - np.eye(n) / n) ** 2).sum(axis=(-2, -1)))


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
        held = _HELD // (self.depth * self.batch**2)
        affordable = min(1024, max(1, min(held, int(1 / self.draw_seconds))))
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
            "sampler": "batchnorm chain",
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
        found = np.empty((stop - start, self.depth, self.batch, self.batch))
        R0, shared = self._first_factor(), shared or Sharing()
        key = philox.stream_key(self.seed, self.width, self.batch)  # another for other sizes
        linear = self.activation.expr == activations.z
        options = linear, self.normalised, self.centered
        advance, activate = _chain().advance, kernels(self.activation).activate
        together = max(1, int(_BREATH / self.draw_seconds))
        layers = max(1, int(_BREATH / self._layer_seconds / together))

        def part(rows: NDArray[np.int64]) -> None:
            room = [np.empty(shape) for shape in self._rooms]
            for at in range(0, rows.size, together):
                draws = rows[at : at + together]
                grams = found[draws[0] : draws[-1] + 1]
                R, ranks = np.empty((draws.size, *room[2].shape)), np.full(draws.size, len(R0))
                R[:, : len(R0)] = R0
                for first in range(0, self.depth, layers):
                    if shared.given_up.is_set():
                        return
                    span = start + draws[0], first, min(first + layers, self.depth)
                    advance(R, ranks, grams, key, span, options, *room, activate)

        rows = np.arange(stop - start)
        try:
            if shared.pool is None:
                part(rows)
            else:
                list(shared.pool.map(part, np.array_split(rows, shared.threads)))
        except BaseException:
            shared.given_up.set()  # Ctrl-C, which else would wait for all of them
            raise
        if shared.given_up.is_set():
            raise CancelledError
        with np.errstate(invalid="ignore"):
            gaps = gap_squared(found)
        if not np.isfinite(gaps).all():
            raise InputError("activation", self.activation.name, "rows that do not vanish or grow")
        return found if self.grams else gaps

    @property
    def _rooms(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the room that a thread takes: for normal numbers, rows and a Gram matrix."""
        n, d = self.batch, self.width
        return (philox.whole_blocks(n * d),), (n, d), (n, n)

    @property
    def _layer_seconds(self) -> float:
        """About how long a layer of one network takes."""
        return (self.width * self.batch * (self.batch + 20) + self.batch**3 + 1000) / _RATE

    @property
    def draw_seconds(self) -> Fraction:
        """How long a draw will take, on one thread."""
        return self.depth * Fraction(self._layer_seconds)

    @property
    def seconds(self) -> int:
        """How long all draws will take, on one thread."""
        return int(self.draws * self.draw_seconds)

    def _first_factor(self) -> Array:
        """R with XXᵀ/n_0 = RᵀR, from X itself: its condition number is not squared."""
        if not self.inputs.any():
            raise InputError("inputs", Words("only zeros"), "at least one input other than zero")
        R = np.asarray(np.linalg.qr(self.inputs.T, mode="r"))
        return R / math.sqrt(self.inputs.shape[1])


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
    held = 8 * 10 * batch**2 + 16 * batch * width
    check_memory("width, batch", f"{width}, {batch}", held, f"rows of {number(batch)} samples")
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
    called = fill_normals, padded, combine, normalise, gram, put_multiple, factor
    return load_kernels("batchnorm", "The batch-norm chain.", (), _ADVANCE, called=called)
