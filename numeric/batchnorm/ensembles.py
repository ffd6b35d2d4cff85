"""Ensembles of networks with batch normalization: the orthogonality gap, layer by layer.

    simulate(width=1000, batch=10, depth=200, draws=200, seed=0)["gap"]

Each layer normalises the rows of W σ(Q) over the batch, Q_1 = BN(W X), so that entries have mean
square 1 (source 003, appendix G); with the linear activation Q_ℓ = √(nd) H_ℓ of its eq. (1). V is
scale-free, so it is the gap of both. No weight matrix is built (`chain_kernels`).
"""

from __future__ import annotations

import os
from concurrent.futures import CancelledError, Executor
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from threading import Event
from types import ModuleType
from typing import Any

import numba
import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike, NDArray

from derive import activations
from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.errors import InputError, flag, instance, whole
from derive.work.resources import check_memory, check_time, number

from .. import checks
from ..arrays import Array
from ..checks import checked_inputs
from ..emit import fastmath, printer
from ..emit.kernels import load_kernels
from ..random import lazy, philox
from ..runs import chunks
from ..runs.directory import digest
from ..runs.totals import Means, Rows
from ..runs.work import Work
from ..tables import layout
from . import chain_kernels

__all__ = [
    "Chain",
    "explicit_grams",
    "gaps",
    "grams",
    "simulate",
    "smallest_eigenvalues",
]

_MEANINGS = {
    "gap": "mean of V, the orthogonality gap",
    "gap_sq": "mean of V², V the orthogonality gap",
    "gap_hat": "mean of 1/n less the smallest eigenvalue of the batch's Gram matrix over its trace",
}

_CHUNK = 1 << 22
"""Numbers of Gram matrices whose smallest eigenvalues are averaged at a time."""

_AVERAGED = 1024
"""Draws that are averaged at a time."""

_HELD = 1 << 19
"""Numbers of Gram matrices in a chunk."""

_RATE = 1e9
"""Multiplications in a second."""
_BREATH = 0.2
"""Seconds of compiled work between two looks at what Python has to tell, such as Ctrl-C."""

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
class Chain:
    """An ensemble of normalised networks: what the samplers need, all of it checked.

    Attributes:
        width: d.
        batch: n.
        depth: layers.
        draws: networks.
        seed: 0 … 2^64 − 1.
        activation: σ.
        centered: whether rows lose their mean over the batch.
        normalised: whether they have mean square 1.
        inputs: (batch, n_0).
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

    def __str__(self) -> str:
        sizes = f"{number(self.width)} neurons, {number(self.batch)} samples"
        return f"{number(self.draws)} networks of {number(self.depth)} layers, {sizes}"

    @property
    def module(self) -> ModuleType:
        """The activation, compiled."""
        return kernels(self.activation)

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """Of the random numbers: other widths and batches are independent."""
        return philox.stream_key(self.seed, self.width, self.batch)

    def run(
        self,
        start: int,
        stop: int,
        keep: bool,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> tuple[Array, Array]:
        """V² (draws, depth) of these draws; if kept, Gram matrices (draws, depth, n, n).

        Arguments:
            start, stop: the draws start … stop − 1.
            keep: whether Gram matrices are.
            pool: of this many threads, to share the draws among.
            given_up: set to have this leave soon, with a CancelledError.
        """
        gaps = np.empty((stop - start, self.depth))
        shape = (stop - start if keep else 0, self.depth, self.batch, self.batch)
        grams = np.empty(shape)
        R0 = self._first_factor()
        linear = self.activation.expr == activations.z
        scale = float(1.0 / np.sqrt(self.width))
        options = (linear, self.normalised, self.centered, scale)

        budget = max(1, int(_BREATH / self._use_seconds))
        advance, activate = _chain().advance, self.module.activate
        given_up = given_up or Event()

        def part(rows: NDArray[np.int64]) -> None:
            found = gaps[rows], grams[rows] if keep else grams
            sizes, state = (self.depth, self.width), np.empty((3, self.batch, self.batch))
            position = np.zeros(4, np.int64)
            fixed = (R0, rows + start, sizes, options, self.key, *found, state, position)
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
                list(pool.map(part, np.array_split(rows, threads)))
        except BaseException:
            given_up.set()  # Ctrl-C, which else would wait for all of them
            raise
        if given_up.is_set():
            raise CancelledError
        if not np.isfinite(gaps).all():
            raise InputError("activation", self.activation.name, "rows that do not vanish or grow")
        return gaps, grams

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
            raise InputError("inputs", "only zeros", "inputs that do not vanish")
        scale = np.sqrt(self.width / X.shape[1])  # later layers have E W_ij² = 1/width
        return np.asarray(scale * R[:rank])


@dataclass(frozen=True, eq=False)
class _Observed(Work):
    """What is observed of each draw of a chain.

    Arguments:
        chain: the ensemble.
        what: "means", those of `simulate`, over all draws; or "gaps" or "grams", of every draw.
        smallest: whether the means are those of V̂ too.
        sampler: "gram" or "explicit".
    """

    chain: Chain
    what: str
    smallest: bool = False
    sampler: str = "gram"

    @property
    def names(self) -> list[str]:
        """Of the means."""
        return ["gap", "gap_sq", *(["gap_hat"] if self.smallest else [])]

    @property
    def step(self) -> int:
        """How many draws are averaged at a time."""
        chain = self.chain
        return max(1, _CHUNK // (chain.depth * chain.batch**2)) if self.smallest else _AVERAGED

    @property
    def chunk(self) -> int:
        """A power of two, of about a second's work and no more Gram matrices than can be held."""
        chain = self.chain
        seconds = chain.draw_seconds
        if self.sampler == "explicit":
            seconds *= Fraction(max(1, chain.width), chain.batch)
        affordable = min(1024, max(1, int(1 / seconds)))
        if self._keep or self.sampler == "explicit":
            affordable = min(affordable, max(1, _HELD // (chain.depth * chain.batch**2)))
        return 1 << (affordable.bit_length() - 1)

    @property
    def threads(self) -> int:
        """Those of numba; the explicit sampler is NumPy's."""
        return int(numba.get_num_threads()) if self.sampler == "gram" else 1

    @property
    def _keep(self) -> bool:
        return self.smallest or self.what == "grams"

    def shape(self, draws: int) -> tuple[int, ...]:
        """(draws, observables, depth), (draws, depth) or (draws, depth, n, n)."""
        chain = self.chain
        if self.what == "means":
            return draws, len(self.names), chain.depth
        matrix = (chain.batch, chain.batch) if self.what == "grams" else ()
        return (draws, chain.depth, *matrix)

    def total(self) -> Means | Rows:
        """Means, or all draws."""
        if self.what == "means":
            return Means.none(self.step, self.shape(0)[1:])
        return Rows(np.empty(self.shape(self.chain.draws)))

    def manifest(self) -> dict[str, Any]:
        """The chain but for how many draws, and what is observed."""
        chain = self.chain
        return {
            "sampler": f"batchnorm {self.sampler}",
            "observed": self.names if self.what == "means" else self.what,
            "activation": sympy.srepr(chain.activation.expr),
            "width": chain.width,
            "batch": chain.batch,
            "depth": chain.depth,
            "seed": chain.seed,
            "centered": chain.centered,
            "normalised": chain.normalised,
            "inputs": f"{chain.inputs.shape} {digest(chain.inputs)}",
            "chunk": self.chunk,
            "step": self.step,
        }

    def sums(
        self,
        start: int,
        stop: int,
        reference: Array,
        pool: Executor | None = None,
        threads: int = 1,
        given_up: Event | None = None,
    ) -> Array:
        """What is observed of these draws, one below the other."""
        chain = self.chain
        if self.sampler == "gram":
            gaps, kept = chain.run(start, stop, self._keep, pool, threads, given_up)
        else:
            kept = np.array([explicit_grams(chain, draw) for draw in range(start, stop)])
            gaps = np.array([[_gap_squared(C) for C in layers] for layers in kept])
        if self.what != "means":
            return gaps if self.what == "gaps" else kept
        observed = [np.sqrt(gaps), gaps]
        if self.smallest:
            observed.append(1.0 / chain.batch - smallest_eigenvalues(kept))
        return np.stack(observed, axis=1)


@rests_on("daneshmand2021", "salmon2011")
def simulate(
    width: int,
    batch: int,
    depth: int,
    draws: int,
    seed: int = 0,
    activation: Activation = activations.linear,
    centered: bool = False,
    *,
    normalised: bool = True,
    inputs: ArrayLike | None = None,
    smallest: bool = False,
    sampler: str = "gram",
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Sample networks with batch normalization and measure how orthogonal a batch becomes.

    Arguments:
        width: d.
        batch: n, 2 or more.
        depth: layers.
        draws: networks, 2 or more.
        seed: 0 … 2^64 − 1; the same seed gives the same bits, whatever the threads, the executor
            and the interruptions. Like all that follows, it is best given by name, as in every
            `simulate`.
        activation: σ, applied to normalised rows of mean square 1.
        centered: take each row's mean over the batch away first.
        normalised: False for a vanilla network, z = W σ(z) with E W_ij² = 1/n_in.
        inputs: (batch, n_0); left out, they are orthogonal, the first of them ten times as long as
            the others (source 003, Figure 2).
        smallest: also measure V̂ = 1/n − σ_n² (source 003, eq. 11), from the smallest eigenvalues.
        sampler: "gram", or "explicit", which builds every matrix: slow, the check of the first.
        executor, window, run, progress: those of `numeric.simulate`: where chunks of networks are
            sampled, how many are under way, a directory that keeps what is finished, resumes and
            extends, and a bar.

    Returns:
        `gap` and `gap_sq`, the ensemble's E V and E V² (source 003, eq. 2; 0 ≤ V < 1) at layers
        1 … depth, with `gap_se` and `gap_sq_se`; with `smallest` also `gap_hat` and `gap_hat_se`;
        what repeats it beside them (`numeric.tables.layout`).

    Raises:
        InputError: for an argument that can't be used, a directory of another run among them, and
            rows that vanish.

    >>> gap = simulate(width=50, batch=4, depth=30, draws=100)["gap"]
    >>> gap.dims, bool(gap[-1] < gap[0] / 2)
    (('layer',), True)
    """
    options = chunks.Options(executor, window, run, progress)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, options.kept
    )
    draws = whole("draws", draws, 2)
    smallest = flag("smallest", smallest)
    if not isinstance(sampler, str) or sampler not in {"gram", "explicit"}:
        raise InputError("sampler", sampler, '"gram" or "explicit"')
    work = _Observed(chain, "means", smallest, sampler)
    each = chain.batch**2 if smallest else 1
    waiting = min(work.step, chain.draws) * len(work.names)
    _check_memory(chain, 4 * chain.depth * (waiting + work.threads * work.chunk * each))
    found = _total(work, options)
    assert isinstance(found, Means)
    mean, error = found.result()
    arrays = {}
    for name, value, se in zip(work.names, mean, error, strict=True):
        described = {"long_name": _MEANINGS[name]}
        arrays[name] = layout.variable(value, 0, single=True, about=described)
        arrays[f"{name}_se"] = layout.variable(se, 0, single=True)
    about: dict[str, int | str] = {
        "width": chain.width,
        "batch": chain.batch,
        "draws": chain.draws,
        "blocks": chain.draws,
        "seed": chain.seed,
        "activation": chain.activation.name,
        "activation_expr": str(chain.activation.expr),
        "centered": int(centered),
        "normalised": int(normalised),
        "sampler": sampler,
    }
    return layout.dataset(arrays, range(1, chain.depth + 1), about, inputs=chain.inputs)


def _total(work: _Observed, options: chunks.Options) -> Means | Rows:
    """What all draws of the chain come to."""
    chain = work.chain
    seconds = chain.seconds / numba.get_num_threads()
    found, _ = chunks.total(work, chain.draws, options, f"sampling {chain}", seconds)
    assert isinstance(found, Means | Rows)
    return found


def grams(
    width: int,
    batch: int,
    depth: int,
    draws: int,
    seed: int = 0,
    activation: Activation = activations.linear,
    centered: bool = False,
    *,
    normalised: bool = True,
    inputs: ArrayLike | None = None,
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Array:
    """Q Qᵀ over samples, over d, of every draw and layer: (draws, depth, batch, batch).

    Arguments:
        width, batch, depth, draws, seed, activation, centered, normalised, inputs: those of
            `simulate`, whose networks these are.
        executor, window, run, progress: those of `simulate`, too.

    Raises InputError as `simulate` does, and where all draws do not fit in memory.

    Of trace n where rows are normalised (source 003, eq. 1).

    >>> C = grams(width=50, batch=4, depth=3, draws=5)
    >>> C.shape, bool(np.allclose(np.trace(C, axis1=-2, axis2=-1), 4))
    ((5, 3, 4, 4), True)
    """
    options = chunks.Options(executor, window, run, progress)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, options.kept
    )
    _check_memory(chain, 3 * chain.draws * chain.depth * chain.batch**2)
    return _each(_Observed(chain, "grams"), options) / chain.width


def gaps(
    width: int,
    batch: int,
    depth: int,
    draws: int,
    seed: int = 0,
    activation: Activation = activations.linear,
    centered: bool = False,
    *,
    normalised: bool = True,
    inputs: ArrayLike | None = None,
    executor: Executor | None = None,
    window: int | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Array:
    """V² of every draw and layer (source 003, eq. 2): (draws, depth).

    Arguments:
        width, batch, depth, draws, seed, activation, centered, normalised, inputs: those of
            `simulate`, whose networks these are.
        executor, window, run, progress: those of `simulate`, too.

    Raises InputError as `simulate` does, and where all draws do not fit in memory.

    >>> each = gaps(width=50, batch=4, depth=3, draws=100)
    >>> table = simulate(width=50, batch=4, depth=3, draws=100)
    >>> each.shape, bool(np.allclose(each.mean(axis=0), table["gap_sq"]))
    ((100, 3), True)
    """
    options = chunks.Options(executor, window, run, progress)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, options.kept
    )
    _check_memory(chain, 2 * chain.draws * chain.depth)
    return _each(_Observed(chain, "gaps"), options)


def _each(work: _Observed, options: chunks.Options) -> Array:
    """What every draw comes to."""
    return _total(work, options).arrays()["rows"]


def smallest_eigenvalues(C: Array) -> Array:
    """σ_n² of H in V̂ = 1/n − σ_n² (source 003, eq. 11): the smallest eigenvalue of C/tr C.

    Arguments:
        C: Gram matrices (…, n, n), finite, of any trace but 0.

    Raises InputError for other arrays.

    >>> smallest_eigenvalues([[3.0, 0.0], [0.0, 1.0]]).item()
    0.25
    """
    C = checked_matrices("C", C)
    traces = np.trace(C, axis1=-2, axis2=-1)
    return np.asarray(np.linalg.eigvalsh(C)[..., 0] / traces)


def checked_matrices(argument: str, given: ArrayLike) -> Array:
    """Square matrices on the last two axes, finite, or an InputError."""
    wanted = "finite square matrices, on the last two axes"
    try:
        C = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise InputError(argument, given, wanted) from None
    square = C.ndim >= 2 and C.size > 0 and C.shape[-1] == C.shape[-2]
    if np.ma.isMaskedArray(given) or not square or not np.isfinite(C).all():
        raise InputError(argument, given, wanted)
    if (np.trace(C, axis1=-2, axis2=-1) == 0).any():
        raise InputError(argument, given, "matrices whose trace is not 0")
    return C


def explicit_grams(chain: Chain, draw: int) -> Array:
    """The networks of `grams`, every weight matrix built: QᵀQ of one draw, (depth, n, n).

    NumPy, with random numbers of its own: the slow check of the sampler. Source 003, eq. (1),
    written out; of trace n·d where rows are normalised.

    Arguments:
        chain: the ensemble, checked.
        draw: which network of it, from 0.

    Raises InputError for anything else.

    >>> chain = checked_chain(20, 3, 2, 1, 0, activations.linear, False, True, None)
    >>> explicit_grams(chain, 0).trace(axis1=1, axis2=2).round(9)
    array([60., 60.])
    """
    instance("chain", chain, Chain, "a chain from `checked_chain`")
    draw = whole("draw", draw, 0)
    k0, k1 = (int(word) for word in chain.key)
    rng = np.random.Generator(np.random.Philox(key=k0 + (k1 << 32), counter=draw << 128))
    X, found = chain.inputs.T, []
    for _ in range(chain.depth):
        Q = rng.standard_normal((chain.width, len(X))) @ X / np.sqrt(len(X))
        if chain.normalised:
            if chain.centered:
                Q -= Q.mean(axis=1, keepdims=True)
            Q /= np.sqrt((Q**2).mean(axis=1, keepdims=True))
        found.append(Q.T @ Q)
        X = Q.copy()
        chain.module.activate(X)
    return np.array(found)


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
    kept: bool = False,
) -> Chain:
    """What `simulate` samples, or an InputError.

    Arguments:
        width, batch, depth, draws, seed, activation, centered, normalised, inputs: those of
            `simulate`.
        kept: whether it may take more than a day.
    """
    width, depth = whole("width", width, 1), whole("depth", depth, 1)
    batch = whole("batch", batch, 2)
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
            raise InputError("inputs", f"shape {X.shape}", f"{batch} rows, one for each sample")
    chain = Chain(width, batch, depth, draws, seed, activation, centered, normalised, X)
    got = f"{width}, {batch}, {depth}, {draws}"
    if not kept:
        seconds = chain.seconds // numba.get_num_threads()
        check_time("width, batch, depth, draws", got, seconds, str(chain))
    return chain


def _check_memory(chain: Chain, numbers: int) -> None:
    got = f"{chain.depth}, {chain.draws}"
    check_memory("depth, draws", got, 8 * numbers, str(chain))


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


def _gap_squared(C: Array) -> float:
    return float(((C / np.trace(C) - np.eye(len(C)) / len(C)) ** 2).sum())


def __dir__() -> list[str]:
    return sorted(__all__)
