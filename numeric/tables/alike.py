"""Check that tables have the same network, inputs and training before they are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import xarray

from derive.errors import InputError

from .layout import numbered, sample_axes

_SAME = (
    *("network", "activation_expr", "training", "outputs", "eta", "loss", "optimizer"),
    *("batch", "clip", "patience", "centered", "normalised", "q_first", "biases"),
    *("q", "p", "batch_size"),
)
"""The attributes that must be equal."""

_ROUNDING = 1e-12
"""The relative difference up to which two kernels count as equal."""

_WIDTHS = re.compile(r", widths=\(([0-9, ]+)\)")
_NUMBER = re.compile(r"(?<=[=(, '])\d+(?:/\d+|(?:\.\d*)?(?:e[-+]?\d+)?)(?=[,)']|$)")
"""A number that stands alone in a network's text."""


def alike(flowed: xarray.Dataset, tables: Sequence[xarray.Dataset]) -> list[xarray.Dataset]:
    """The tables, restricted to the inputs that all of them have, the training set first.

    Dense networks and convolutions depend on their inputs only through the kernel x·x'/n_0. Tables
    by layer therefore have the same inputs if the kernels are equal. For trained networks the
    inputs themselves must be equal.

    Raises:
        InputError: if a table states another network, input or setting than theory or the first
            sample; the error names it. Also if two samples have the same networks. Settings that a
            table does not state are not compared.
    """
    _check_seeds(tables)
    every = [flowed, *tables]
    pairs = [
        *((flowed, table, "of theory") for table in tables),
        *((tables[0], table, "of the first sample") for table in tables[1:]),
    ]
    for own, other, whose in pairs:
        _check(own, other, whose)
    if "step" not in flowed.coords:
        for own, other, whose in pairs:
            _check_kernels(own, other, whose)
        return _joined(every)
    least = min((t["inputs"] for t in every if "inputs" in t.coords), key=len, default=None)
    if least is None:
        return every
    for table in tables:
        _check_inputs(flowed, table, least.to_numpy())
    return [_at_first(table, len(least)) for table in every]


def _check(first: xarray.Dataset, table: xarray.Dataset, whose: str) -> None:
    """Raise InputError if attributes, parameters or targets differ."""
    theory, sample = _told(first), _told(table)
    names = [*_SAME, *(["depth"] if "step" in table.coords else [])]
    for name in names:
        if name not in theory or name not in sample:
            continue
        own, other = sample[name], theory[name]
        if name == "network":
            own, other = _plain(str(own)), _plain(str(other))
        if own != other:
            wanted = f"tables with the {name} {whose}, {theory[name]!r}"
            raise InputError("simulated", f"{name} {sample[name]!r}", wanted)
    for name in map(str, first.coords):
        if name.startswith("parameter_") and name in table.coords:
            own, other = xarray.align(table[name], first[name], join="inner")
            if not np.array_equal(own, other):
                wanted = f"tables with the {name} {whose}, {other.to_numpy().tolist()}"
                raise InputError("simulated", f"{name} {own.to_numpy().tolist()}", wanted)
    if "targets" in first.coords and "targets" in table.coords:
        own, other = (each["targets"].to_numpy() for each in (table, first))
        if not np.array_equal(own, other):
            wanted = f"tables with the targets {whose}, {other.tolist()}"
            raise InputError("simulated", f"targets {own.tolist()}", wanted)


def _check_kernels(first: xarray.Dataset, table: xarray.Dataset, whose: str) -> None:
    """Raise InputError unless the inputs of both tables have the same kernel."""
    if "inputs" not in first.coords or "inputs" not in table.coords:
        return
    wanted, got = (each["inputs"].to_numpy() for each in (first, table))
    kernels = [np.tensordot(x, x, (-1, -1)) / x.shape[-1] for x in (wanted, got)]
    same = kernels[0].shape == kernels[1].shape
    if not same or abs(kernels[0] - kernels[1]).max() > _ROUNDING * abs(kernels[0]).max():
        told = (np.array2string(x, threshold=20, separator=", ") for x in (got, wanted))
        got_, wanted_ = (" ".join(each.split()) for each in told)
        raise InputError(
            "simulated", f"inputs {got_}", f"tables with the inputs {whose}, {wanted_}"
        )


def _check_seeds(tables: Sequence[xarray.Dataset]) -> None:
    """Raise InputError if two samples have the same seed and width, hence the same networks."""
    seen = set()
    for table in tables:
        if "seed" in table.attrs:
            key = table.attrs["width"], str(table.attrs["seed"])
            if key in seen:
                got = f"two samples of width {key[0]} and seed {key[1]}, which share networks"
                raise InputError("simulated", got, "samples of different widths or seeds")
            seen.add(key)


def _plain(network: str) -> str:
    """The text of a network without its widths, where all its layers have n neurons, or else with
    n_ℓ/n for them; and its numbers as decimals."""
    without = _WIDTHS.sub(_ratios, network)
    return _NUMBER.sub(lambda found: f"{float(Fraction(found[0])):.14g}", without)


def _ratios(found: re.Match[str]) -> str:
    """Of the layers of these widths. The last width of a dense network is that of its outputs, of
    which each has the same law, unless they are more than the neurons before them."""
    _, *widths = (int(each) for each in found[1].split(",") if each.strip())
    dense = ", layer=" not in found.string
    own = widths[:-1] if dense and len(widths) > 1 and widths[-1] <= widths[-2] else widths
    ratios = [Fraction(each, widths[0]) for each in own]
    return "" if set(ratios) == {1} else f", n_l/n=({', '.join(map(str, ratios))})"


def _told(table: xarray.Dataset) -> dict[str, object]:
    """The attributes of a table, with the defaults that theory and most ensembles leave out."""
    about = {str(name): value for name, value in table.attrs.items()}
    if "training" in about:
        about = {"optimizer": "tensorial", "clip": None, "patience": None} | about
    if about.get("loss") in ("½Σ", "Σ"):
        about["loss"] = f"squared {about['loss']}"
    return about


def _check_inputs(flowed: xarray.Dataset, table: xarray.Dataset, least: np.ndarray) -> None:
    """InputError unless the inputs of both begin with these."""
    for each in (flowed, table):
        if "inputs" in each.coords:
            own = each["inputs"].to_numpy()
            if own.shape[1:] != least.shape[1:] or not np.array_equal(own[: len(least)], least):
                got = table["inputs"].to_numpy() if "inputs" in table.coords else own
                wanted = "tables with the inputs of theory, or with the first of its test inputs"
                raise InputError("simulated", f"inputs {got.tolist()}", wanted)


def _at_first(table: xarray.Dataset, count: int) -> xarray.Dataset:
    """At so many of its first inputs: of signals that are not read out, at all their positions."""
    if "inputs" not in table.coords:
        return table
    inputs, samples = table["inputs"], count
    if "sample_1" in table.dims:
        places, left = divmod(table.sizes["sample_1"], len(inputs))
        if left or not places:
            got = f"{table.sizes['sample_1']} samples of {len(inputs)} inputs"
            raise InputError("simulated", got, "tables with as many samples of each input")
        samples *= places
    axes = sample_axes(table)
    return table.isel({**dict.fromkeys(axes, slice(samples)), inputs.dims[0]: slice(count)})


def _joined(tables: Sequence[xarray.Dataset]) -> list[xarray.Dataset]:
    """The tables at the samples that all of them have, by number, where one has chosen some."""
    if not any("sample_1" in table.coords for table in tables):
        return [*tables]
    numbers = [
        table["sample_1"].to_numpy().tolist() for table in tables if "sample_1" in table.dims
    ]
    common = sorted(set(numbers[0]).intersection(*numbers[1:]))
    if not common:
        got = "the samples " + " and ".join(map(str, numbers))
        raise InputError("simulated", got, "tables with a position in common")
    places = ([own.index(each) for each in common] for own in numbers)
    return [
        numbered(table.isel(dict.fromkeys(sample_axes(table), at)), common)
        for table, at in zip(tables, places, strict=True)
    ]
