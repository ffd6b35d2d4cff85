"""Ensembles of networks with batch normalization: the orthogonality gap, layer by layer.

    simulate(width=1000, batch=10, depth=200, draws=200, seed=0)["gap"]

The networks are those of `chains`; with the linear activation Q_ℓ = √(nd) H_ℓ of source 003's
eq. (1). V is scale-free, so it is the gap of both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

import numba
import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike

from derivations.daneshmand.chains import (
    Chain,
    checked_chain,
    explicit_grams,
    gap_squared,
    smallest_eigenvalues,
)
from derive import activations
from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.errors import InputError, as_integer, flag
from derive.work.resources import check_memory
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.runs.directory import digest
from numeric.runs.totals import Means, Rows
from numeric.runs.work import Sharing, Work
from numeric.tables import layout

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


@dataclass(frozen=True, eq=False)
class _Observed(Work):
    """The observables of each draw of a chain.

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

    def sums(self, start: int, stop: int, reference: Array, shared: Sharing | None = None) -> Array:
        """The observables of these draws, one below the other."""
        chain = self.chain
        if self.sampler == "gram":
            gaps, kept = chain.run(start, stop, self._keep, shared)
        else:
            kept = np.array([explicit_grams(chain, draw) for draw in range(start, stop)])
            gaps = np.array([[gap_squared(C) for C in layers] for layers in kept])
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
    **running: Unpack[chunks.Running],
) -> xarray.Dataset:
    """Sample networks with batch normalization and measure how orthogonal a batch becomes.

    Arguments:
        width: d.
        batch: n, 2 or more.
        depth: layers of preactivations, counted from 1; W^1 meets the inputs.
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
    options = chunks.options(running)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, options.kept
    )
    draws = as_integer("draws", draws, 2)
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
    """The means or rows of all draws of the chain."""
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
    **running: Unpack[chunks.Running],
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
    options = chunks.options(running)
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
    **running: Unpack[chunks.Running],
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
    options = chunks.options(running)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, options.kept
    )
    _check_memory(chain, 2 * chain.draws * chain.depth)
    return _each(_Observed(chain, "gaps"), options)


def _each(work: _Observed, options: chunks.Options) -> Array:
    """The rows of all draws."""
    return _total(work, options).arrays()["rows"]


def _check_memory(chain: Chain, numbers: int) -> None:
    got = f"{chain.depth}, {chain.draws}"
    check_memory("depth, draws", got, 8 * numbers, str(chain))
