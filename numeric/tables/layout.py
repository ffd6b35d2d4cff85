"""The layout of the one table, an `xarray.Dataset`, that `flow` and every `simulate` return.

    dimensions    `layer`; `sample_1`, `sample_2`, … of the tensors, none for one vector;
                  `sample` and `input` of the inputs. Of exchangeable inputs `orbit`, with labels
                  such as "(11)(22)", in the place of `sample_1`, …: those of all tensors, with NaN
                  where a tensor has no such orbit
    variables     a tensor V; beside it, in its units, its twins: where it is derived `V_error`, an
                  estimate of its error, and `V_within`, what it is known to leave out, with its
                  sign: a sample is compared with V + V_within; where it is sampled `V_se`, the
                  standard error, and `V_floor` by layer, `ACCURACY` times the terms that cancel
                  in it, below which no difference counts (`compare`). `V_size` is what its
                  differences are small against, where that is not V itself. With a precision V
                  has `Decimal`s (`digits`), and `V_error` bounds their errors
    coordinates   `layer`; with chosen positions the samples' numbers, as `sample_1`, …;
                  `inputs`, of the shape in which they were given; C_W, C_b, lambda_W,
                  lambda_b, r_in, r_out, … layer by layer; a user's symbol a as `parameter_a`
    attributes    what else repeats it: network, activation, weights, width, draws, seed, version, …

A variable's attributes say what it is: `long_name` in words, `cumulant`, and `normalisation`, by
what the cumulant is multiplied. Attributes are numbers and texts alone, so that a table is saved as
netCDF or zarr and opened again as it was; integers of 2³¹ or more, for which netCDF 3 has no type,
are decimal texts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.activations import Activation
from derive.engine.orbits import Exchangeable, orbits
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.network import Network
from derive.work.caches import cache

from ..arrays import Array, over_samples

TWINS = {
    "_se": "standard error of",
    "_error": "estimated error of",
    "_within": "what theory is known to leave out of",
    "_floor": "what rounding may change in",
    "_size": "what differences are small against in",
}
"""The endings of the variables that stand beside a tensor's, and what they are."""

ACCURACY = 1e-11
"""To how many parts of the terms that cancel in it theory and arithmetic are trusted."""


def dataset(
    arrays: Mapping[str, xarray.Variable | xarray.DataArray],
    layers: Iterable[int],
    about: Mapping[str, int | float | str],
    *,
    net: Network | None = None,
    inputs: ArrayLike | None = None,
    symbols: Mapping[str, Array] | None = None,
    own: Iterable[str] = (),
) -> xarray.Dataset:
    """The table of these variables.

    Arguments:
        arrays: the tensors and their twins.
        layers: which, counted from 1.
        about: the attributes beside the network's and the version.
        inputs: (n_0,) or (m, n_0), or (m, positions, n_0).
        symbols: values at each layer by their names, at these and maybe at others before.
        own: those of them that are a user's.
    """
    users, coordinates = set(own), dict[str, tuple[tuple[str, ...], Array]]()
    numbers = tuple(layers)
    for name, values in (symbols or {}).items():
        key = f"parameter_{name}" if name in users else name
        coordinates[key] = ("layer",), np.array(values[-len(numbers) :])  # a copy: the table's own
    if inputs is not None:
        X = np.array(inputs, float)
        coordinates["inputs"] = input_dims(net, X.ndim), X
    texts = {} if net is None else _network(net) if net.has_functions else _kept_network(net)
    attributes = {**texts, **about, "version": _version()}
    variables = {
        name: _Form(each.dims, each.shape, tuple(each.attrs.items()))
        for name, each in arrays.items()
    }
    beside = {name: _Form(dims, each.shape) for name, (dims, each) in coordinates.items()}
    form = _form if len(numbers) <= _KEPT_LAYERS else _form.__wrapped__
    table = form(numbers, tuple(variables.items()), tuple(beside.items()))
    table = table.copy(data={name: each.values for name, each in arrays.items()})
    kept = table.variables
    for name, (_, values) in coordinates.items():
        kept[name].data = values
    table.attrs = {k: _stored(v) for k, v in attributes.items()}
    return table


def input_dims(net: Network | None, rank: int) -> tuple[str, ...]:
    """The names of the axes of inputs: the positions of signals between others."""
    axes = 0 if net is None else len(net.layer.input_axes)
    places = ["position"] if axes == 1 else [f"position_{k}" for k in range(1, axes + 1)]
    return ("signal" if axes else "sample", *places, "input")[-rank:]


_KEPT_LAYERS = 1000
"""Of so many layers and fewer the forms of tables are kept."""


class _Form(NamedTuple):
    """A variable without its values: dimensions, shape and attributes."""

    dims: tuple[Hashable, ...]
    shape: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def filled(self) -> xarray.Variable:
        """With zeros, that take no memory."""
        zeros = np.broadcast_to(np.zeros(()), self.shape)
        return xarray.Variable(self.dims, zeros, dict(self.attributes))


@cache(entries=64)
def _form(
    layers: tuple[int, ...],
    variables: tuple[tuple[str, _Form], ...],
    coordinates: tuple[tuple[str, _Form], ...],
) -> xarray.Dataset:
    """A table of zeros, to be copied: xarray takes half a millisecond to put one together."""
    table = xarray.Dataset(
        {name: form.filled() for name, form in variables},
        {"layer": np.array(layers)} | {name: form.filled() for name, form in coordinates},
    )
    names = set(table.variables)
    for name in tensors(table):
        for ending, meaning in TWINS.items():
            if name + ending in names:
                twin = table.variables[name + ending]
                twin.attrs.setdefault("long_name", f"{meaning} {name}")
    return table


def table(
    layers: Iterable[int],
    about: Mapping[str, int | float | str] | None = None,
    /,
    **values: ArrayLike | tuple[ArrayLike, ArrayLike],
) -> xarray.Dataset:
    """The table of values that no recursion nor ensemble here gave, as `compare` reads it.

    Arguments:
        layers: which, counted from 1.
        about: the attributes; of a sample `width` and `blocks` at least.
        values: by the tensors' names, each (depth,) or, with r sample indices, (depth, m, …, m);
            or a number, the same at all layers. Of a sample the pair (values, standard errors).

    Raises:
        InputError: values whose first axis is not the layers'.

    >>> flowed = table([3, 4], gap=0.5)
    >>> sampled = table([3, 4], {"width": 8, "blocks": 20}, gap=([0.51, 0.48], [0.01, 0.01]))
    >>> list(sampled), flowed["gap"].to_numpy()
    (['gap', 'gap_se'], array([0.5, 0.5]))
    """
    numbers = list(layers)
    arrays: dict[str, xarray.Variable] = {}
    for name, given in values.items():
        value, error = given if isinstance(given, tuple) else (given, None)
        arrays[name] = _by_layer(name, value, len(numbers))
        if error is not None:
            arrays[f"{name}_se"] = _by_layer(f"{name}_se", error, len(numbers))
    return dataset(arrays, numbers, about or {})


def _by_layer(name: str, values: ArrayLike, depth: int) -> xarray.Variable:
    array = np.asarray(values, float)
    if not array.ndim:
        array = np.full(depth, array)
    if len(array) != depth:
        raise InputError(name, f"shape {array.shape}", f"a number or {depth} layers")
    return xarray.Variable(axes(array.ndim - 1, single=False), array)


def averaged(draws: Array) -> tuple[Array, Array]:
    """The mean over the first axis, that of independent draws, and its standard error: arrays of
    the other axes' shape."""
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return np.asarray(draws.mean(axis=0)), np.asarray(error)


@cache
def _version() -> str:
    return version("wickgarten")  # reads files


@cache(entries=64)
def _kept_network(net: Network) -> dict[str, str]:
    return _network(net)


def _network(net: Network) -> dict[str, str]:
    sigma = net.activation
    about = {
        "network": net,
        "activation": sigma.name,
        "activation_expr": sigma.expr if isinstance(sigma, Activation) else None,
        "weights": net.weights,
        "first_weights": net.first_weights,
    }
    return {name: str(each) for name, each in about.items() if each is not None}


def _stored(value: int | float | str) -> int | float | str:
    return str(value) if isinstance(value, int) and abs(value) >= 2**31 else value


def tensors(table: xarray.Dataset) -> list[str]:
    """The names of a table's variables without their twins."""
    names = [str(name) for name in table.data_vars]
    known = set(names)
    return [name for name in names if not any(_is_twin(name, ending, known) for ending in TWINS)]


def _is_twin(name: str, ending: str, names: set[str]) -> bool:
    return name.endswith(ending) and name.removesuffix(ending) in names


def described(name: Name) -> dict[str, str]:
    """The attributes that say what a tensor is."""
    return dict(_described(name))


@cache
def _described(name: Name) -> dict[str, str]:
    return {
        "long_name": name.meaning,
        "cumulant": name.cumulant,
        "normalisation": name.normalisation,
    }


def numbered(table: xarray.Dataset, samples: Sequence[int]) -> xarray.Dataset:
    """The table with the numbers of its samples among all as coordinates."""
    return table.assign_coords({axis: list(samples) for axis in sample_axes(table)})


def sample_axes(table: xarray.Dataset) -> list[str]:
    """The axes of the tensors' samples."""
    return [axis for axis in map(str, table.dims) if axis.startswith("sample_")]


def floor(terms: Array) -> xarray.Variable:
    """The twin `_floor` of a tensor, from the size at each layer of the terms that cancel in it."""
    return xarray.Variable("layer", ACCURACY * terms)


def axes(rank: int, *, single: bool) -> list[str]:
    """`layer`, then an axis for each of the `rank` sample indices, none with a single vector."""
    return ["layer"] + ([] if single else [f"sample_{axis}" for axis in range(1, rank + 1)])


def variable(
    values: Array, rank: int, *, single: bool, about: Mapping[str, str] | None = None
) -> xarray.Variable:
    """A tensor with `rank` sample indices, from values (depth, m, …, m) or, for m = 1, (depth,),
    and the attributes about it."""
    dims = axes(rank, single=single)
    shape = values.shape[:1] + ((1,) * rank if values.ndim == 1 else values.shape[1:])
    return xarray.Variable(dims, values.reshape(shape[: len(dims)]), about)


def by_orbit(
    arrays: Mapping[str, xarray.Variable], labels: Mapping[str, Iterable[str]]
) -> tuple[dict[str, xarray.Variable], list[str]]:
    """The variables along one axis `orbit`, and its labels: those of all tensors. A tensor has NaN
    where it has no such orbit.

    Arguments:
        arrays: variables (layers, orbits), with the orbits of their own tensor; or (layers,).
        labels: of these variables.
    """
    every = list(dict.fromkeys(label for name in labels for label in labels[name]))
    found = dict(arrays)
    for name, own in labels.items():
        values = arrays[name].values
        nothing = Decimal("NaN") if values.dtype == object else np.nan
        whole = np.full((len(values), len(every)), nothing, values.dtype)
        whole[:, [every.index(label) for label in own]] = values
        found[name] = xarray.Variable(("layer", "orbit"), whole, arrays[name].attrs)
    return found, every


def orbits_apart(table: xarray.Dataset) -> xarray.Dataset:
    """A table by `orbit` with an axis of its own for each tensor, which has the tensor's orbits."""
    if "orbit" not in table.dims:
        return table
    found = {}
    for name in tensors(table):
        here = np.flatnonzero(table[name][0].notnull().to_numpy())
        for own in [name, *(name + ending for ending in TWINS if name + ending in table)]:
            each = table[own]
            whole = each.isel(orbit=here) if "orbit" in each.dims else each
            found[own] = whole.rename(orbit=f"orbit_{name}") if "orbit" in each.dims else each
    return xarray.Dataset(found, attrs=table.attrs)


def spread(table: xarray.Dataset, name: Name, samples: int, ending: str = "") -> Array:
    """A tensor's entries, or those of a twin, from a table by `orbit`: (layers, m, …, m)."""
    values, labels = table[name.label + ending].to_numpy(), table["orbit"].to_numpy().tolist()
    at = [labels.index(label) for label in orbits(name, samples)]
    return over_samples(np.asarray(values[:, at]), name, samples)


def about_inputs(inputs: Exchangeable, batch: int = 0) -> dict[str, int | float | str]:
    """The attributes that say which inputs these are.

    Arguments:
        batch: the samples that a function of all samples takes; 0 without one.
    """
    q, p = map(float, inputs.numbers)
    about = {"samples": inputs.m if isinstance(inputs.m, int) else str(inputs.m), "q": q, "p": p}
    about |= {"batch_size": batch} if batch else {}
    return about if inputs.n_0 is None else about | {"n_0": inputs.n_0}


LINES = 6
"""How many components of a tensor are drawn at most."""
