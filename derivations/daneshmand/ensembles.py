"""Ensembles of networks with batch normalization: the orthogonality gap, layer by layer.

    simulate(width=1000, batch=10, depth=200, draws=200, seed=0)["gap"]

The networks are those of `chains`; with the linear activation Q_ℓ = √(nd) H_ℓ of source 003's
eq. (1). V is scale-free, so it is the gap of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derivations.daneshmand.chains import checked_chain, gap_squared
from derive import activations
from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.errors import as_integer
from numeric.arrays import Array
from numeric.runs import chunks
from numeric.tables import layout

__all__ = ["gap_squared", "grams", "means", "simulate"]

_MEANINGS = {
    "gap": "mean of V, the orthogonality gap",
    "gap_sq": "mean of V², V the orthogonality gap",
}


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
        executor, window, run, progress: those of `numeric.simulate`: where chunks of networks are
            sampled, how many are under way, a directory that keeps what is finished, resumes and
            extends, and a bar.

    Returns:
        `gap` and `gap_sq`, the ensemble's E V and E V² (source 003, eq. 2; 0 ≤ V < 1) at layers
        1 … depth, with `gap_se` and `gap_sq_se`, and what repeats it (`numeric.tables.layout`).

    Raises:
        InputError: for an argument that can't be used, a directory of another run among them, for
            rows that vanish, and where V² of all draws does not fit in memory.

    >>> gap = simulate(width=50, batch=4, depth=30, draws=100)["gap"]
    >>> gap.dims, bool(gap[-1] < gap[0] / 2)
    (('layer',), True)
    """
    options = chunks.options(running)
    chain = checked_chain(
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, False,
        options.kept,
    )  # fmt: skip
    as_integer("draws", draws, 2)
    squares = chain.sampled(options, copies=4)
    arrays = {}
    for name, values in (("gap", np.sqrt(squares)), ("gap_sq", squares)):
        mean, error = layout.averaged(values)
        described = {"long_name": _MEANINGS[name]}
        arrays[name] = layout.variable(mean, 0, single=True, about=described)
        arrays[f"{name}_se"] = layout.variable(error, 0, single=True)
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
    }
    return layout.dataset(arrays, range(1, chain.depth + 1), about, inputs=chain.inputs)


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
        width, batch, depth, draws, seed, activation, centered, normalised, inputs, True,
        options.kept,
    )  # fmt: skip
    return chain.sampled(options, copies=3)


def means(width: int, layers: Sequence[int], **values: Array) -> xarray.Dataset:
    """A table of the means of some numbers over networks, their first axis, with their errors.

    >>> float(means(8, [1], gap=np.array([1.0, 3.0]))["gap"][0])
    2.0
    """
    about = {"width": width, "blocks": len(next(iter(values.values())))}
    return layout.table(layers, about, **{k: layout.averaged(each) for k, each in values.items()})
