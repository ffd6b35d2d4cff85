"""Ensembles of random networks: sample, record Gram matrices, read the tensors off.

    simulate(net, inputs, width=100, depth=10, draws=1000)["V"]

No weight matrix is built (`weights`), the last layer's weights are averaged exactly (`estimate`),
and the loop over draws and layers is compiled once for each activation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numba
import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from derive import activations
from derive.errors import InputError
from derive.network import Network
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

from . import estimate, explicit, fastmath, gram, jit, modules, printer, random, weights
from .weights import Array

TENSORS = {"K": 1, "G1": 1, "V": 2, "U6": 3}
"""What can be sampled, by name: the number k of pairs among the 2k neural indices.

K is the metric at this width, E[z z]; G1 is n(metric − K), with K that of infinite width; V and U6
are n^{k−1} times the joint cumulants of 4 and 6 preactivations, at this width likewise.
"""

_KINDS: dict[type[WeightEnsemble], int] = {Gaussian: weights.GAUSSIAN, Orthogonal: weights.HAAR}
_VERSION = version("wickgarten")
_CHUNK_NUMBERS = 1 << 17  # preactivations of one layer that are held at a time

_ACTIVATION = '''\
"""The activation {activation}, applied to all neurons of an ensemble.

{fingerprint}
"""

{prelude}
from numeric import fastmath

{entry}

@scalar
def sigma(z):
    """The activation {activation}."""
    return {sigma}


@entry
def activate(Z):
    """Z ← σ(Z), in place, for Z (draws, m, n)."""
    for s in range(Z.shape[0]):
        flat = Z[s].reshape(-1)
        for i in range(flat.size):
            flat[i] = sigma(flat[i])
'''

_LAYER = '''\
"""The kernels that take an ensemble from layer to layer.

{fingerprint}
"""

{prelude}
from numeric import gram, weights

{entry}

@entry
def advance(X, Z, draws, law, source):
    """Z ← W X + b, sampled anew for each draw (numeric.weights.advance)."""
    weights.advance(X, Z, draws, law, source)


@entry
def record(X, draws, reference, parent, factor, sums):
    """Add the monomials of each draw's Gram matrix to sums (numeric.gram.record)."""
    gram.record(X, draws, reference, parent, factor, sums)
'''


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of given widths on given inputs: what a sampler needs, all of it checked.

    Arguments:
        net: the network.
        inputs: (m, n_0).
        width: n, the reference width.
        widths: n_0, n_1, …, n_depth.
        seed: the seed of all streams.
    """

    net: Network
    inputs: Array
    width: int
    widths: tuple[int, ...]
    seed: int

    @property
    def depth(self) -> int:
        """The number of layers of preactivations."""
        return len(self.widths) - 1

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """The key of the random numbers: ensembles of different width are independent."""
        return random.stream_key(self.seed, self.width)

    @cached_property
    def C_W(self) -> Array:
        """The weight variance of layers 1 … depth."""
        return self._numbers("C_W", lambda layer: self.net.weights_at(layer).C_W)

    @cached_property
    def C_b(self) -> Array:
        """The bias variance of layers 1 … depth."""
        return self._numbers("C_b", self.net.C_b_at)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """How the kernels are told the weight ensembles of layers 1 … depth."""
        ensembles = [self.net.weights_at(layer) for layer in range(1, self.depth + 1)]
        for ensemble in ensembles:
            if type(ensemble) not in _KINDS:
                wanted = " or ".join(kind.__name__ for kind in _KINDS)
                raise InputError("weights", str(ensemble), f"{wanted}, which can be sampled")
        return np.array([_KINDS[type(ensemble)] for ensemble in ensembles])

    @cached_property
    def activate(self) -> Callable[[Array], None]:
        """Z ← σ(Z) in place, compiled for this activation."""
        activation = self.net.activation
        printed = printer.expression(activation.expr, {activations.z: "z"})
        sigma = fastmath.vectorised(printed)
        module = _load(_ACTIVATION, "activation", fastmath, activation=activation, sigma=sigma)
        compiled: Callable[[Array], None] = module.activate
        return compiled

    def _numbers(self, name: str, value: Callable[[int], sympy.Expr]) -> Array:
        try:
            return np.array([float(value(layer)) for layer in range(1, self.depth + 1)])
        except TypeError:
            raise InputError(name, str(value(1)), "a number at every layer, not a symbol") from None


def simulate(
    net: Network,
    inputs: ArrayLike,
    width: int = 100,
    depth: int = 10,
    draws: int = 1000,
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
    ensemble = _checked_ensemble(net, inputs, width, depth, seed)
    pairs = max(TENSORS[name] for name in names)
    _checked_count("draws", draws, pairs + 1)
    for n in ensemble.widths[1:]:
        estimate.check_width(n, pairs)
    if sampler == "lazy":
        sample, readings = lazy_record, _weights_averaged(ensemble)
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
    return xarray.Dataset(
        arrays, {"layer": np.arange(1, depth + 1)}, _attributes(ensemble, draws, sampler)
    )


def lazy_record(
    ensemble: Ensemble, degree: int, draws: int, done: Callable[[int], object]
) -> gram.PowerSums:
    """Gram matrices of σ^(ℓ−1), ℓ = 1 … depth, from weights sampled on the vectors they meet.

    Runs in as many threads as numba is told to use (NUMBA_NUM_THREADS); calls `done` with the
    number of draws finished since the last call.
    """
    m = len(ensemble.inputs)
    first = gram.monomials(m, 1)
    reference = np.zeros((1, ensemble.depth, len(first)))
    no_reference = np.zeros(reference.shape[1:])
    _add_draws(ensemble, np.zeros(1, np.int64), first, no_reference, reference)
    kept = gram.monomials(m, degree)
    sums = np.zeros((gram.BLOCKS, ensemble.depth, len(kept)))
    threads = numba.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        for start, stop in _chunks(ensemble, draws):
            chunk = np.arange(start, stop)
            stripe = chunk % gram.BLOCKS % threads  # a block's draws stay in one thread, in order
            parts = [chunk[stripe == part] for part in range(threads)]
            list(pool.map(lambda part: _add_draws(ensemble, part, kept, reference[0], sums), parts))
            done(stop - start)
    return gram.PowerSums(kept, reference[0], sums, draws)


def _add_draws(
    ensemble: Ensemble,
    draws: NDArray[np.int64],
    kept: gram.Monomials,
    reference: Array,
    sums: Array,
) -> None:
    """Add these draws to sums (blocks, depth, monomials)."""
    kernels = _load(_LAYER, "layer", gram, random, weights)
    X = np.repeat(ensemble.inputs[None], draws.size, axis=0)
    for layer in range(ensemble.depth):
        kernels.record(X, draws, reference[layer], kept.parent, kept.factor, sums[:, layer])
        if layer + 1 < ensemble.depth:
            Z = np.empty((draws.size, X.shape[1], ensemble.widths[layer + 1]))
            law = (ensemble.kinds[layer], ensemble.C_W[layer], ensemble.C_b[layer])
            kernels.advance(X, Z, draws, law, (ensemble.key, layer + 1))
            ensemble.activate(Z)
            X = Z


def _chunks(ensemble: Ensemble, draws: int) -> Iterator[tuple[int, int]]:
    """Stretches of draws that fit the processor's cache and end soon after an interrupt."""
    step = max(16, _CHUNK_NUMBERS // (ensemble.inputs.shape[0] * max(ensemble.widths)))
    for start in range(0, draws, step):
        yield start, min(start + step, draws)


def _load(template: str, stem: str, *kernels: ModuleType, **fields: object) -> ModuleType:
    """The module of a template, with the hash of the kernels that it calls."""
    fingerprint = jit.fingerprint(jit, *kernels)
    prelude, entry = modules.PRELUDE, jit.ENTRY
    source = template.format(fingerprint=fingerprint, prelude=prelude, entry=entry, **fields)
    return modules.load(source, stem)


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
    dims = ["layer"] + [f"sample_{axis}" for axis in range(1, 2 * pairs + 1)]
    if single:
        dims = dims[:1]
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
    from .flow import flow

    return flow(ensemble.net, ensemble.inputs, ensemble.depth, ["K"])["K"].to_numpy()


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


def _checked_count(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(name, value, f"an integer, {least} or more")
    return int(value)


def _checked_ensemble(
    net: Network, inputs: ArrayLike, width: int, depth: int, seed: int
) -> Ensemble:
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    _checked_count("width", width, 1)
    _checked_count("depth", depth, 1)
    random.stream_key(seed)
    X = checked_inputs(inputs)
    widths = [X.shape[1]]
    for layer in range(1, depth + 1):
        n = net.width_ratio_at(layer) * width
        if not (
            n.is_Integer or math.isclose(float(n), round(float(n)), abs_tol=0.0, rel_tol=1e-12)
        ):
            raise InputError("width", width, f"whole n_ℓ = r_ℓ n; at layer {layer} it is {n}")
        widths.append(round(float(n)))
    return Ensemble(net, X, int(width), tuple(widths), int(seed))


def checked_inputs(inputs: ArrayLike) -> Array:
    """The inputs as (m, n_0), finite and real, or an InputError."""
    try:
        X = np.asarray(inputs, dtype=float)
    except (TypeError, ValueError):
        raise InputError("inputs", inputs, "real numbers of shape (n_0,) or (m, n_0)") from None
    if X.ndim not in (1, 2) or X.size == 0:
        raise InputError("inputs", f"shape {X.shape}", "shape (n_0,) or (m, n_0), not empty")
    if not np.isfinite(X).all():
        raise InputError("inputs", "NaN or infinity", "finite numbers")
    return np.ascontiguousarray(np.atleast_2d(X))
