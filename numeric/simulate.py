"""Ensembles of random networks: sample, record Gram matrices, read the tensors off.

    simulate(net, inputs, width=100, depth=10, draws=1000)["V"]

No weight matrix is built (`lazy`), and each layer's own weights are averaged exactly (`estimate`).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike
from tqdm import tqdm

from derive.errors import InputError
from derive.network import Network

from . import estimate, explicit, gram, lazy, table
from .ensemble import Ensemble, checked_count, checked_ensemble
from .flow import flow
from .weights import Array

TENSORS = {"K": 1, "G1": 1, "V": 2, "U6": 3}
"""What can be sampled, by name: the number k of pairs among the 2k neural indices.

K is the metric at this width, E[z z]; G1 is n(metric − K), with K that of infinite width; V and U6
are n^{k−1} times the joint cumulants of 4 and 6 preactivations, at this width likewise.
"""

_VERSION = version("wickgarten")


def simulate(
    net: Network,
    inputs: ArrayLike,
    width: int = 100,
    depth: int = 10,
    draws: int = 1000,
    *,
    tensors: Iterable[str] = ("K", "G1", "V"),
    seed: int = 0,
    sampler: str = "lazy",
    progress: bool = False,
) -> xarray.Dataset:
    """Sample an ensemble of networks and estimate its tensors, layer by layer.

    Arguments:
        net: the network; its ensembles and variances are numbers.
        inputs: (n_0,) for one sample or (m, n_0) for m.
        width: n; layer ℓ has n_ℓ = width_ratio(ℓ)·n neurons.
        depth: layers of preactivations, counted from 1.
        draws: networks.
        tensors: names among `TENSORS`.
        seed: 0 … 2^64 − 1; the same seed gives the same bits, whatever the number of threads.
        sampler: "lazy", which samples weights on the vectors they meet and averages the last
            layer's exactly, or "explicit", which builds every matrix: slow, the check of the first.
        progress: show a bar.

    Returns:
        A variable per tensor with axes `layer` (1 … depth) and, unless inputs is one vector,
        `sample_1`, `sample_2`, …, its standard error as `<name>_se`, and what repeats it in the
        attributes. Estimates are unbiased for the ensemble at this width. Each variable's
        attribute `cancelling` is the size, per layer, of the terms that cancel in it.

    Raises:
        InputError: for an argument that can't be used, and for activations that overflow.
    """
    names = _checked_names(tensors)
    ensemble = checked_ensemble(net, inputs, width, depth, seed)
    pairs = max(TENSORS[name] for name in names)
    checked_count("draws", draws, pairs + 1)
    if draws >= 2**32:
        raise InputError("draws", draws, "fewer than 2^32, the networks that a seed has")
    for n in ensemble.widths[1:]:
        estimate.check_width(n, pairs)
    if sampler == "lazy":
        sample, readings = lazy.record, _weights_averaged(ensemble)
    elif sampler == "explicit":
        sample = explicit.record
        readings = [estimate.pairing_estimator(n) for n in ensemble.widths[1:]]
    else:
        raise InputError("sampler", sampler, '"lazy" or "explicit"')
    with tqdm(total=draws, disable=not progress, unit="net") as bar:
        record = sample(ensemble, pairs, draws, bar.update)
    _check_finite(record)
    arrays: dict[str, xarray.DataArray] = {}
    for name in names:
        arrays |= _tensor(name, ensemble, record, readings, single=np.ndim(inputs) == 1)
    return xarray.Dataset(arrays, table.layers(depth), _attributes(ensemble, draws, sampler))


def _weights_averaged(ensemble: Ensemble) -> list[estimate.Reading]:
    """How each layer's moments follow from the Gram matrix of the layer before."""
    return [
        estimate.weights_averaged(ensemble.net.weights_at(layer), n_in, n_out, C_b)
        for layer, (n_in, n_out, C_b) in enumerate(
            zip(ensemble.widths, ensemble.widths[1:], ensemble.C_b.tolist(), strict=False), 1
        )
    ]


def _tensor(
    name: str,
    ensemble: Ensemble,
    record: gram.PowerSums,
    readings: list[estimate.Reading],
    *,
    single: bool,
) -> dict[str, xarray.DataArray]:
    """The tensor and its standard error."""
    pairs = TENSORS[name]
    found = estimate.cumulants(record, readings, pairs)
    power = 1 if name == "G1" else pairs - 1
    value = found.value - _infinite_width(ensemble) if name == "G1" else found.value
    dims = table.axes(2 * pairs, single=single)
    shape = value.shape[: len(dims)]
    scale = float(ensemble.width) ** power
    cancelling = scale * found.terms.reshape(ensemble.depth, -1).max(axis=1)
    return {
        name: xarray.DataArray(
            scale * value.reshape(shape), dims=dims, attrs={"cancelling": cancelling.tolist()}
        ),
        f"{name}_se": xarray.DataArray(scale * found.error.reshape(shape), dims=dims),
    }


def _infinite_width(ensemble: Ensemble) -> Array:
    flowed = flow(ensemble.net, ensemble.inputs, ensemble.depth, ["K"])["K"]
    return np.asarray(flowed.to_numpy(), float)


def _attributes(ensemble: Ensemble, draws: int, sampler: str) -> dict[str, Any]:
    return {
        "network": str(ensemble.net),
        "C_W": ensemble.C_W.tolist(),
        "C_b": ensemble.C_b.tolist(),
        "inputs": ensemble.inputs.tolist(),
        "width": ensemble.width,
        "widths": list(ensemble.widths),
        "draws": draws,
        "blocks": min(draws, gram.BLOCKS),
        "seed": ensemble.seed,
        "sampler": sampler,
        "version": _VERSION,
    }


def _check_finite(record: gram.PowerSums) -> None:
    bad = ~np.isfinite(record.sums).all(axis=(0, 2)) | ~np.isfinite(record.reference).all(axis=1)
    if bad.any():
        raise InputError(
            "net", f"activations that overflow before layer {np.argmax(bad) + 1}", "finite ones"
        )


def _checked_names(tensors: Iterable[str]) -> list[str]:
    names = [tensors] if isinstance(tensors, str) else list(tensors)
    if not names or any(name not in TENSORS for name in names):
        raise InputError("tensors", names, f"names among {', '.join(TENSORS)}")
    return list(dict.fromkeys(names))
