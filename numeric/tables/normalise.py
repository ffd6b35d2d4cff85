"""The literature's dimensionless tensors, from a table of `flow` or `simulate`, and how large a
tensor is by its dimension."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import xarray

from derive.engine.fields import Field
from derive.engine.orbits import orbits
from derive.engine.tensors import named
from derive.errors import InputError
from derive.work.caches import cache

from ..arrays import Array
from . import digits
from .layout import TWINS

_STANDARDS: dict[str, tuple[str, ...]] = {
    "G1": ("K",),
    "V": ("K", "K"),
    "V2": ("K", "K"),
    "U6": ("K", "K", "K"),
    "Theta1": ("Theta",),
    "D": ("K", "Theta"),
    "F": ("K", "Theta"),
    "A": ("Theta", "Theta"),
    "B": ("Theta", "Theta"),
    "P": ("Theta", "Theta"),
    "Q": ("Theta", "Theta"),
    **dict.fromkeys("RSTU", ("Theta", "Theta", "Theta")),
}
"""By which two-point functions each tensor is divided: as many powers of z and of the NTK."""

_TIMES_KERNEL = tuple("RSTU")
"""Tensors that are multiplied by K besides (6.16): of one input only."""


def normalise(table: xarray.Dataset) -> xarray.Dataset:
    """Divide each tensor by two-point functions of its dimension: V becomes V_tilde.

    One input: Ṽ = V/K², D̃ = D/(KΘ), Ã = A/Θ², … (source 000, eqs. 3.9, 6.9, 6.10), R̃ = RK/Θ³
    (6.16). Several: by the average over the distinct ways to give the samples to the two-point
    functions (A.1)–(A.5), which R, S, T and U do not have.

    Arguments:
        table: from `flow` or `simulate`, with K (and Theta) beside what they divide.

    Returns the table of the `<name>_tilde`, with their twins `_se` and `_floor` where the table has
    them; the two-point function itself is taken as exact.

    Raises:
        InputError: where a tensor's two-point functions are missing or vanish, or nothing is to do;
            for R, S, T and U of several inputs.

    >>> from derive import Network, activations
    >>> from numeric import flow
    >>> table = flow(Network(activations.relu), [1.0, 1.0], depth=3, tensors=["K", "V"])
    >>> normalise(table)["V_tilde"].to_numpy().round(12)  # 5 (ℓ − 1), at every K
    array([ 0.,  5., 10.])
    """
    if not isinstance(table, xarray.Dataset):
        raise InputError("table", type(table).__name__, "a table from flow or simulate")
    with digits.arithmetic(table):
        return _normalised(table)


def natural_size(name: str, table: xarray.Dataset) -> Array | None:
    """How large a tensor is by dimension alone, for each of its entries: K^{s/2−e} Θ^e.

    s counts the neural indices of its fields and e the edges of their trees, each a pair of
    derivatives by the parameters: z has the dimension of √K, an edge that of Θ/K. With several
    inputs an index whose sample is a has K_aa and Θ_aa to the power that falls to each index, so
    that V_{αβγδ} has √(K_αα K_ββ K_γγ K_δδ): the size by which an entry that vanishes is judged.
    Derived here; with one input it is what `normalise` divides by.

    Arguments:
        name: the tensor's, as in the table.
        table: it and the two-point functions.

    Returns an array of the tensor's shape; None where its fields are not trees of derivatives, or
    their two-point functions are not in the table.
    """
    try:
        fields = named(name).fields
    except InputError:
        return None
    edges = [len(field.edges) for field in fields if isinstance(field, Field)]
    if len(edges) < len(fields):
        return None
    slots = sum(field.nodes for field in fields)
    powers = {"K": slots / 2 - sum(edges), "Theta": float(sum(edges))}
    powers = {kind: power for kind, power in powers.items() if power}
    tensor = table[name]
    rank = tensor.ndim - 1
    if rank not in {0, slots} or not all(kind in table for kind in powers):
        return None
    size = np.ones(tensor.shape)
    for kind, power in powers.items():
        own = abs(np.asarray(table[kind].to_numpy(), float))
        if not rank:
            size = size * own**power if own.shape == size.shape else size * np.nan
            continue
        each = np.einsum("laa->la", own) ** (power / slots)
        for axis in range(1, slots + 1):
            shape = [1] * tensor.ndim
            shape[0], shape[axis] = each.shape
            size = size * each.reshape(shape)
    return size if np.isfinite(size).all() else None


def _normalised(table: xarray.Dataset) -> xarray.Dataset:
    found: dict[str, xarray.Variable] = {}
    for name in (name for name in table.data_vars if name in _STANDARDS):
        standards = (*_STANDARDS[name], *("K" for _ in range(name in _TIMES_KERNEL)))
        lacking = [standard for standard in standards if standard not in table]
        if lacking:
            raise InputError("table", list(table.data_vars), f"one with {lacking[0]} beside {name}")
        scale = _scale(table, name)
        if not scale.all():
            told = f"kernels that are not 0: an entry of {name} is divided by those of its samples"
            raise InputError("table", "one with a kernel of 0", told)
        over = f"{name} {'K ' * (name in _TIMES_KERNEL)}over {' '.join(_STANDARDS[name])}"
        dims = table[name].dims
        found[f"{name}_tilde"] = xarray.Variable(
            dims, table[name].to_numpy() / scale, {"long_name": over}
        )
        size = xarray.Variable(dims, np.abs(scale).astype(float))
        for ending, meaning in TWINS.items():
            if name + ending in table:
                twin = (table[name + ending].variable / size).transpose(*dims)
                twin.attrs = {"long_name": f"{meaning} {name}_tilde"}
                found[f"{name}_tilde{ending}"] = twin
    if not found:
        raise InputError("table", list(table.data_vars), f"one of {', '.join(_STANDARDS)} in it")
    return xarray.Dataset(found, table.coords, table.attrs)


def _scale(table: xarray.Dataset, name: str) -> Array:
    """The average of the distinct products of two-point functions, for every tuple of samples."""
    kinds = _STANDARDS[name]
    standards = {kind: table[kind].to_numpy() for kind in kinds}
    if "orbit" in table[name].dims:
        return _scale_of_orbits(table, name, kinds)
    if table[name].ndim == 1:
        scale = np.prod([standards[kind] for kind in kinds], axis=0)
        return np.asarray(scale / table["K"].to_numpy() if name in _TIMES_KERNEL else scale)
    if name in _TIMES_KERNEL:
        raise InputError("table", f"{name} of several inputs", "one input, as in (6.16)")
    shape = table[name].shape
    samples = np.indices(shape[1:]).reshape(len(shape) - 1, -1)
    first = (samples[:, None] == samples).argmax(axis=0)  # the first place of the same sample
    patterns, which = np.unique(first, axis=1, return_inverse=True)
    result = np.empty((shape[0], samples.shape[1]), table[name].dtype)
    for number, pattern in enumerate(patterns.T.tolist()):
        here = which.ravel() == number
        at = samples[:, here]
        terms = [
            np.prod([standards[kind][:, at[a], at[b]] for kind, a, b in chosen], axis=0)
            for chosen in _products(tuple(pattern), kinds)
        ]
        result[:, here] = np.sum(terms, axis=0) / len(terms)
    return result.reshape(shape)


def _scale_of_orbits(table: xarray.Dataset, name: str, kinds: tuple[str, ...]) -> Array:
    """The same for every orbit; NaN where the tensor has no such orbit."""
    if name in _TIMES_KERNEL:
        raise InputError("table", f"{name} of several inputs", "one input, as in (6.16)")
    labels, result = table["orbit"].to_numpy().tolist(), table[name].to_numpy().copy()
    every = orbits(named(name), len(named(name).subscripts))
    for label in set(labels) & set(every):
        pattern = every[label][0]
        first = tuple(pattern.index(sample) for sample in pattern)
        terms = [
            np.prod([_entry(table, kind, apart=a != b) for kind, a, b in chosen], axis=0)
            for chosen in _products(first, kinds)
        ]
        result[:, labels.index(label)] = np.sum(terms, axis=0) / len(terms)
    return result


def _entry(table: xarray.Dataset, kind: str, *, apart: bool) -> Array:
    """A two-point function of one sample, or of two."""
    return table[kind].sel(orbit="(12)" if apart else "(11)").to_numpy()


@cache
def _products(
    pattern: tuple[int, ...], kinds: tuple[str, ...]
) -> list[tuple[tuple[str, int, int], ...]]:
    """The distinct ways to give samples to the two-point functions, each by its place, and those
    that are the same by the first place that has it."""
    places = permutations(range(len(pattern)))
    return sorted({_product(each, pattern, kinds) for each in places})


def _product(
    places: tuple[int, ...], samples: tuple[int, ...], kinds: Sequence[str]
) -> tuple[tuple[str, int, int], ...]:
    """One way to give the samples, in this order, to the two-point functions."""
    pairs = [
        sorted(samples[place] for place in places[2 * k : 2 * k + 2]) for k in range(len(kinds))
    ]
    return tuple(sorted((kind, a, b) for kind, (a, b) in zip(kinds, pairs, strict=True)))
