"""Ensembles of random networks: sample them, record moments, read the tensors off.

    simulate(net, inputs, width=100, depth=10, draws=1000)["V"]

`sampler` makes what samples an ensemble; `moments` says how its chunks of draws are put together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Executor
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.errors import InputError
from derive.fields import Field
from derive.network import Network

from . import conditional, estimate, moments, observables, runs, table
from .conditional import PathSampler
from .ensemble import Ensemble, checked_count, checked_ensemble
from .explicit import ExplicitSampler
from .flow import flow
from .lazy import ProbeSampler
from .observables import Plan, Target, Wanted
from .probes import degrees, needed
from .sampling import Sampler

_VERSION = version("wickgarten")


def simulate(
    net: Network,
    inputs: ArrayLike,
    width: int = 100,
    depth: int = 10,
    draws: int = 1000,
    *,
    tensors: Wanted | Iterable[Wanted] = ("K", "G1", "V"),
    seed: int = 0,
    device: str = "cpu",
    sampler: str = "lazy",
    executor: Executor | None = None,
    run: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> xarray.Dataset:
    """Sample an ensemble of networks and estimate its tensors, layer by layer.

    Arguments:
        net: the network; its ensembles, variances and learning rates are numbers.
        inputs: (n_0,) for one sample or (m, n_0) for m.
        width: n; layer ℓ has n_ℓ = width_ratio(ℓ)·n neurons.
        depth: layers of preactivations, counted from 1.
        draws: networks.
        tensors: names that `recursion` knows, "V", "A", "P", …, or recursions such as
            `recursion(["z"] * 4 + ["H"], pairing=…)`, for the cumulant on their left.
        seed: 0 … 2^64 − 1; the same seed gives the same bits, whatever the threads, the executor
            and the interruptions.
        device: "cpu" or "cuda", a GPU: the same networks, to rounding (`numeric.cuda`).
        sampler: "lazy", which builds no matrix; "explicit", which builds every matrix and tensor:
            slow, the check of the first. Lazy is "paths" for the tower of one input under Gaussian
            or Haar weights, which are averaged exactly given a forward path, and "probes"
            elsewhere: derivatives along random directions, the last layer averaged exactly.
        executor: any `concurrent.futures.Executor`, of this machine or of a cluster, on which
            chunks of networks are sampled (`numeric.runs`); without it, as many threads as numba
            is told to use.
        run: a directory that keeps what is finished. The same call goes on from there, however it
            ended, and a call with more draws extends it.
        progress: show a bar with the rate and the time left.

    Returns:
        A variable per tensor with axes `layer` (1 … depth) and, unless inputs is one vector,
        `sample_1`, `sample_2`, …, its standard error as `<name>_se`, and what repeats it in the
        attributes. K, Theta, V, … are measured at this width, without bias; a tensor of relative
        order 1/n is n times what remains without the leading one at infinite width: G1 is
        n(metric − K). Each variable's attribute `cancelling` is the size, per layer, of the terms
        that cancel in it.

    Raises:
        InputError: for an argument that can't be used, a directory of another run among them, and
            for activations that overflow.
    """
    ensemble = checked_ensemble(net, inputs, width, depth, seed)
    plan = Plan(observables.targets(tensors), len(ensemble.inputs))
    checked_count("draws", draws, plan.most_means + 1)
    if draws >= 2**32:
        raise InputError("draws", draws, "fewer than 2^32, the networks that a seed has")
    chosen = make_sampler(ensemble, plan, sampler)
    if device == "cuda":
        from . import cuda  # noqa: PLC0415

        chosen = cuda.on_device(chosen)
    elif device != "cpu":
        raise InputError("device", device, '"cpu" or "cuda"')
    record = runs.record(chosen, draws, run=run, executor=executor, progress=progress)
    arrays: dict[str, xarray.DataArray] = {}
    for target in plan.targets:
        arrays |= _tensor(target, ensemble, record, single=np.ndim(inputs) == 1)
    return xarray.Dataset(
        arrays, table.layers(depth), _attributes(ensemble, draws, sampler, device)
    )


def make_sampler(ensemble: Ensemble, plan: Plan, name: str = "lazy") -> Sampler:
    """What samples the statistics of a plan in an ensemble, chunk by chunk.

    Raises:
        InputError: for a name that isn't one, or doesn't apply; for widths that cannot tell
            pairings apart, weights that cannot be sampled, fields that are no trees, and second
            derivatives of an activation with kinks.
    """
    for n in ensemble.widths[1:]:
        estimate.check_width(n, plan.most_pairs)
    _ = ensemble.steps, ensemble.C_b, ensemble.lambda_b, ensemble.lambda_W
    fields = {field for kinds, *_ in plan.statistics for field in kinds}
    order = max((max(degrees([f])) for f in fields if isinstance(f, Field)), default=0)
    activation = ensemble.net.activation
    if order > 1 and not activation.is_smooth:
        names = ", ".join(target.name for target in plan.targets)
        raise InputError("tensors", names, f"no derivatives beyond σ', as {activation} has kinks")
    if name == "explicit":
        return ExplicitSampler(ensemble, plan)
    if name not in ("lazy", "paths", "probes"):
        raise InputError("sampler", name, '"lazy", "paths", "probes" or "explicit"')
    trees = list(plan.trees())
    possible = conditional.applies(ensemble, plan)
    if name == "paths" and not possible:
        raise InputError("sampler", name, '"lazy" for several inputs, these weights or z alone')
    if possible and name != "probes":
        return PathSampler(ensemble, plan)
    return ProbeSampler(ensemble, plan, needed(trees))


def _tensor(
    target: Target, ensemble: Ensemble, record: moments.Record, *, single: bool
) -> dict[str, xarray.DataArray]:
    """The tensor and its standard error."""
    found = estimate.cumulant(record, target)
    n, order = float(ensemble.width), target.definition.order
    power = target.pairs - 1
    value = n**power * found.value
    if target.lower:
        flowed = flow(ensemble.net, ensemble.inputs, ensemble.depth, target.lower)
        for g, name in enumerate(target.lower):
            value = value - flowed[name].to_numpy().reshape(value.shape) / n**g
    dims = table.axes(2 * target.pairs, single=single)
    shape = value.shape[: len(dims)]
    scale = n ** (power + order)
    cancelling = scale * found.terms.reshape(ensemble.depth, -1).max(axis=1)
    return {
        target.name: xarray.DataArray(
            n**order * value.reshape(shape), dims=dims, attrs={"cancelling": cancelling.tolist()}
        ),
        f"{target.name}_se": xarray.DataArray(scale * found.error.reshape(shape), dims=dims),
    }


def _attributes(ensemble: Ensemble, draws: int, sampler: str, device: str) -> dict[str, Any]:
    return {
        "network": str(ensemble.net),
        "C_W": ensemble.C_W.tolist(),
        "C_b": ensemble.C_b.tolist(),
        "lambda_W": ensemble.lambda_W.tolist(),
        "lambda_b": ensemble.lambda_b.tolist(),
        "inputs": ensemble.inputs.tolist(),
        "width": ensemble.width,
        "widths": list(ensemble.widths),
        "draws": draws,
        "blocks": min(draws, moments.BLOCKS),
        "seed": ensemble.seed,
        "sampler": sampler,
        "device": device,
        "version": _VERSION,
    }
