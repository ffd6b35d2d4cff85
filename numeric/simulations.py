"""Ensembles of random networks: sample them, record moments, read the tensors off.

    simulate(net, inputs, width=100, depth=10, draws=1000)["V"]

`sampler` makes what samples an ensemble; `moments` says how its chunks of draws are put together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias, Unpack

import numpy as np
import sympy
import xarray
from numpy.typing import ArrayLike

from derive.arithmetic.parameters import Value
from derive.citations import rests_on
from derive.engine.fields import AnyField, Field
from derive.engine.orbits import Exchangeable, orbits
from derive.engine.tensors import Name, named
from derive.errors import InputError, Words
from derive.layers.per_layer import Tabulated
from derive.network import Network
from derive.recursions import Wanted, wanted
from derive.weights import Gaussian
from derive.work.caches import cache
from derive.work.defaults import DRAWS, WIDTH
from derive.work.progress import telling
from derive.work.resources import check_memory, check_time, number

from . import checks, hyperparameters
from .arrays import Array, at_samples
from .checks import Inputs, chosen_samples, representatives
from .estimators import moments, observables, unbiased
from .estimators.observables import SAMPLED, Plan, plan_of
from .flows import batch_of, flow
from .hyperparameters import Given
from .layers import limits
from .layers.limits import NoValueError
from .runs import chunks
from .samplers.base import Sampler
from .samplers.ensemble import Ensemble, Layers, checked_ensemble
from .samplers.explicit import ExplicitSampler
from .samplers.innovations import InnovationSampler
from .samplers.kernels import KernelSampler
from .samplers.paths import PathSampler
from .samplers.products import ProductSampler
from .samplers.staged import ProbeSampler
from .tables import layout

_SAMPLERS: dict[str, tuple[type[Sampler], ...]] = {
    "lazy": (KernelSampler, PathSampler, ProbeSampler, ExplicitSampler),
    "kernels": (KernelSampler,),
    "paths": (PathSampler,),
    "probes": (ProbeSampler,),
    "products": (ProductSampler,),
    "innovations": (InnovationSampler,),
    "explicit": (ExplicitSampler,),
}
"""Which classes have each name, in the order in which they are asked."""

DEVICES = {"cpu": "f8", "cuda": "f8", "cuda:float32": "f4"}
"""Where networks are sampled, and the precision of neurons there."""
_DEVICES = '"cpu", "cuda" or "cuda:float32"'

_SUBTRACTED = 1e-6
"""The largest error of a leading order that is subtracted, relative to it: no standard error of a
sample has it."""

_ENTRY_BYTES, _ENTRY_SECONDS = 1000, 5e-4
_RATE = 10**8
"""Numbers that a thread samples in a second: no sampler is faster."""


@rests_on("salmon2011", "bolthausen2014")
def simulate(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    width: int | None = None,
    depth: int | None = None,
    draws: int = DRAWS,
    *,
    tensors: Wanted | Iterable[Wanted] = ("K", "G1", "V"),
    seed: int = 0,
    device: str = "cpu",
    sampler: str = "lazy",
    parameters: Given = None,
    positions: Sequence[int | Sequence[int]] | None = None,
    **running: Unpack[chunks.Running],
) -> xarray.Dataset:
    """Sample an ensemble of networks and estimate its tensors, layer by layer.

    Arguments:
        net: the network; its ensembles, variances and learning rates are numbers.
        inputs: (n_0,) for one sample or (m, n_0) for m; (positions, n_0) or (m, positions, n_0) of
            a network of convolutions, as in `flow`. What has no value where z = 0, as σ'(0) of
            ReLU, is refused as in `flow`.
            Or `derive.Exchangeable(m, q, p)`: some of the samples are drawn, six at most, and the
            entries of an orbit are averaged. With a function of all samples all m are drawn, and
            entries that begin with each of them are averaged.
        width: n; layer ℓ has n_ℓ = width_ratio(ℓ)·n neurons. By default that of the network's
            widths, or 100; another one scales its widths.
        depth: layers of preactivations, counted from 1; by default those of the network's widths,
            or 10.
        draws: networks.
        tensors: names that `recursion` knows, "V", "A", "P", …, or recursions such as
            `recursion(["z"] * 4 + ["H"], pairing=…)`, for the cumulant on their left, as in
            `flow`; its fields may be a user's own (`derive.Equation`).
        seed: 0 … 2^64 − 1; the same seed gives the same bits, whatever the threads, the executor
            and the interruptions.
        device: "cpu", or "cuda", a GPU: the same networks, to rounding (`numeric.cuda`), but probes
            where several inputs or low-rank weights would have paths. "cuda:float32" has neurons in
            single precision there, and inner products and sums in double.
        sampler: "lazy", which builds no matrix; "explicit", which builds every matrix and tensor:
            slow, the check of the first. Lazy is "paths" under Gaussian, Haar or low-rank weights,
            which are averaged exactly given the forward pass: for the tower of one input, without
            ddH of two, Theta, A, B, D and F of three or four. Elsewhere it is "probes", derivatives
            along random directions. A user's field has paths alone, and without them lazy is
            "explicit". For laws that only permutations keep, lazy is "explicit", too: it builds
            each layer's matrices and averages the next layer exactly.
            "products" averages each layer apart and multiplies: without heavy tails at any depth,
            where it applies: z of one input, no biases, σ(cz) = c σ(z) as of ReLU, widths up to
            2048.
            "innovations" takes out of V, by control variates, what different neurons do beside one
            another: a fraction of the draws where n is large beside the depth. It applies to z of
            any inputs behind Gaussian or orthogonal weights, where `average_two` of σ has a closed
            form of ⟨σσ⟩ of two, as ReLU's, erf's, GELU's, sin's and polynomials'.
            "kernels" draws attention, norms and skips by the kernels of the samples alone, from
            Wishart matrices: exact in law, at a cost that does not grow with n. It is lazy where
            it applies: Gaussian weights, and no activations.
            Networks of other layers than the dense one have "probes" and
            "explicit": the other estimators rest on one matrix per
            layer. The attribute `sampler` says which it was.
        executor: any `concurrent.futures.Executor`, of this machine or of a cluster, on which
            chunks of networks are sampled (`numeric.runs`); without it, as many threads as numba
            is told to use.
        window: how many chunks the executor has under way; by default 64 or more
            (`numeric.runs.chunks.Options`), which is few for more than 16 workers.
        run: a directory that keeps what is finished, made if its parent is there. The same call
            goes on from there, however it ended, and a call with more draws extends it. Whole
            chunks are kept, of 1024 draws or fewer: the rest of the draws is sampled anew in each
            call, with the same bits. A call with fewer draws than are kept is refused.
        progress: show a bar with the rate and the time left.
        parameters: the symbols of a user's equations, {"a": 0.5}: numbers, or functions of the
            layer.
        positions: of signals: those of the last layer that are estimated, as in `flow`; by default
            all. The networks are the same, and so are the numbers.

    Returns:
        A variable per tensor with axes `layer` (1 … depth) and, unless inputs is one vector,
        `sample_1`, `sample_2`, …, its standard error as `<name>_se`, and what repeats it beside
        them. K, Theta, V, … are measured at this width, without bias; a tensor of relative
        order 1/n is n times what remains without the leading one at infinite width: G1 is
        n(metric − K). `V_floor`, by layer, is what rounding may change in V, from the size of the
        terms that cancel in it. `tables.layout` has the layout, the coordinates and the attributes.

    Raises:
        InputError: for an argument that can't be used, a directory of another run among them, and
            for activations that overflow, and numbers below 1e-300 that are not exactly 0.

    The coefficients are those of source 000, eqs. (3.7), (3.8), (5.25), the estimators derived
    here: unbiased at every width.

    >>> from derive import activations
    >>> table = simulate(Network(activations.relu), [1.0, 1.0], 20, 2, 500, tensors="K", seed=1)
    >>> table["K"].dims, bool(abs(table["K"][1] - 0.5) < 5 * table["K_se"][1])  # K/2 from layer 1
    (('layer',), True)
    """
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    width = (net.width or WIDTH) if width is None else width
    depth = checks.depth(net, depth)
    names = wanted(tensors, net, depth)
    exchangeable = isinstance(inputs, Exchangeable)
    data: ArrayLike | Inputs = (
        _some(inputs, names, net, width, depth) if isinstance(inputs, Exchangeable) else inputs
    )
    ensemble = checked_ensemble(net, data, width, depth, seed)
    chosen = () if positions is None else chosen_samples(positions, net, ensemble.data, depth)
    plan = plan_of(names, ensemble.data.measured, chosen, exchangeable=exchangeable)
    with telling(*_check_entries(plan)):
        ensemble = _with_parameters(ensemble, plan, parameters)
        draws = checks.draws(draws, plan.most_means + 1)
    options = chunks.options(running)
    if not isinstance(device, str) or device not in DEVICES:
        raise InputError("device", device, _DEVICES)
    used = make_sampler(ensemble, plan, sampler)
    if device != "cpu":
        from . import cuda  # noqa: PLC0415

        used = cuda.on_device(used, DEVICES[device])
    seconds = check_size(used, draws, kept=options.kept)
    what = f"simulating {number(draws)} networks of {depth} layers, {width} neurons each"
    found = record(used, draws, options, what, seconds)
    arrays: dict[str, xarray.Variable] = {}
    with np.errstate(over="ignore"):  # `_check_range` refuses what overflows
        estimates = unbiased.cumulants(found, plan.targets)
        for target, estimate in zip(plan.targets, estimates, strict=True):
            arrays |= _tensor(target, ensemble, estimate, () if exchangeable else chosen)
    labels: list[str] = []
    if exchangeable:
        own = {target.label: orbits(target, plan.samples) for target in plan.targets}
        of_errors = {f"{name}_se": each for name, each in own.items()}
        arrays, labels = layout.by_orbit(arrays, own | of_errors)
    _check_range(ensemble, plan, arrays)
    about: dict[str, int | float | str] = {
        "width": ensemble.width,
        "draws": int(draws),
        "blocks": min(int(draws), moments.BLOCKS),
        "seed": ensemble.seed,
        "sampler": used.label,
        "device": device,
    }
    if ensemble.data.exchangeable is not None:
        batch = batch_of(ensemble.data.exchangeable, net, depth)
        about |= layout.about_inputs(ensemble.data.exchangeable, batch)
    table = layout.dataset(
        arrays,
        range(ensemble.data.first, ensemble.depth + 1),
        about,
        net=net,
        inputs=None if exchangeable else ensemble.data.given,
        symbols=ensemble.symbols,
        own=[name for name, _ in ensemble.own],
    )
    if exchangeable:
        return table.assign_coords(orbit=labels)
    return layout.numbered(table, chosen) if chosen else table


def _some(
    inputs: Exchangeable, names: Sequence[Name], net: Network, width: int, depth: int
) -> Inputs:
    """As many of exchangeable inputs as are sampled; all of a batch with functions of it."""
    n_0 = inputs.n_0 or (net.widths[0] if net.widths else int(net.width_ratio_at(1) * width))
    if batch_of(inputs, net, depth):
        free = inputs.n_0 is None and net.widths is None
        if free and isinstance(net.weights_at(1, depth=depth), Gaussian):
            n_0 = max(n_0, inputs.m)  # z has one law for all inputs of these products
        return representatives(inputs, inputs.m, net, depth, n_0)
    least = inputs.representatives(names)
    most = inputs.m if isinstance(inputs.m, int) else SAMPLED
    return representatives(inputs, max(least, min(most, n_0, SAMPLED)), net, depth, n_0)


def record(
    sampler: Sampler,
    draws: int,
    options: chunks.Options,
    what: str = "simulating networks",
    seconds: float = 0.0,
) -> moments.Record:
    """The sums over draws 0 … `draws` − 1.

    Arguments:
        sampler: from `make_sampler`.
        draws: networks.
        options: where they are computed and kept.
        what, seconds: said of what takes long.

    Raises InputError as `chunks.total` does, and for activations that overflow.
    """
    total, reference = chunks.total(sampler, draws, options, what, seconds)
    sums = total.arrays()["sums"]
    if not np.isfinite(sums).all() or not np.isfinite(reference).all():
        bad = ~np.isfinite(sums).all(axis=(0, 2)) | ~np.isfinite(reference).all(axis=1)
        got = Words(f"activations or products that overflow by layer {np.argmax(bad) + 1}")
        raise InputError("net", got, "smaller inputs or variances, or fewer layers")
    plan, sizes = sampler.plan, sampler.sizes()
    return moments.Record(plan, reference, sums, draws, sizes, sampler.multiplied)


def _check_entries(plan: Plan) -> tuple[str, float]:
    """The listing of entries and its seconds; refuses more than there is room or time for."""
    samples = 1 if plan.exchangeable else len(plan.measured)
    entries = sum(samples ** len(target.subscripts) for target in plan.targets)
    got, what = f"{samples} samples", f"{number(entries)} entries of tensors"
    check_memory("inputs", got, entries * _ENTRY_BYTES, what)
    check_time("inputs", got, entries * _ENTRY_SECONDS, what)
    return f"listing {what}", entries * _ENTRY_SECONDS


def check_size(sampler: Sampler, draws: int, *, kept: bool) -> int:
    """The seconds it takes, about; refuses more memory than there is, and a day in one sitting."""
    ensemble, products = sampler.ensemble, len(sampler.plan.products)
    depth, n = ensemble.depth, max(ensemble.widths)
    got = f"{n}, {depth}, {draws}"
    network = f"networks of {depth} layers, {n} neurons each"
    held = 8 * (4 * moments.BLOCKS * depth * products + 4 * sampler.numbers)
    check_memory("width, depth, draws", got, held, network)
    seconds = int(sampler.numbers * depth * int(draws) // (_RATE * sampler.threads))
    if not kept:
        check_time("width, depth, draws", got, seconds, f"{number(int(draws))} {network}")
    return seconds


def make_sampler(ensemble: Ensemble, plan: Plan, name: str = "lazy") -> Sampler:
    """The sampler of a plan's statistics in an ensemble, chunk by chunk.

    Raises:
        InputError: for a name that isn't one, or doesn't apply; for widths that cannot tell
            pairings apart, weights that cannot be sampled, second derivatives of an activation
            with kinks or first ones on a kink, and layers too wide to build their tensors.
    """
    if not isinstance(name, str) or name not in _SAMPLERS:
        raise InputError("sampler", name, "one of " + ", ".join(map(json.dumps, _SAMPLERS)))
    _check_kinks(ensemble, plan)
    _check_rest(ensemble, plan)
    _check_layers(ensemble)
    return _kind(ensemble.layers, plan, name).of(ensemble, plan)


@cache(entries=64)
def _kind(layers: Layers, plan: Plan, name: str) -> type[Sampler]:
    """The first sampler of this name that applies."""
    for n in layers.widths[1:]:
        unbiased.check_width(n, plan.most_pairs)
    wanted = ""
    for kind in _SAMPLERS[name]:
        wanted = kind.why_not(layers, plan)
        if not wanted:
            return kind
    raise InputError("sampler", name, wanted)


def multiplies(layers: Layers, plan: Plan) -> bool:
    """True if `sampler="products"` applies."""
    return not ProductSampler.why_not(layers, plan)


def _check_layers(ensemble: Ensemble) -> None:
    """Raise InputError for layers with symbols."""
    if symbols := ensemble.net.layer.free_symbols:
        names = ", ".join(sorted(map(str, symbols)))
        raise InputError("layer", str(ensemble.net.layer), f"numbers for {names}, to be sampled")


def _check_kinks(ensemble: Ensemble, plan: Plan) -> None:
    """Refuse derivatives that do not exist: σ'' of a kink."""
    if observables.derivatives(plan.fields) < 2:
        return
    used = ensemble.net.activations_to(ensemble.depth)
    if bent := [each for each in used if not each.is_smooth]:
        names = ", ".join(target.label for target in plan.targets)
        raise InputError("tensors", names, f"no derivatives beyond σ', as {bent[0]} has kinks")


def _check_rest(ensemble: Ensemble, plan: Plan) -> None:
    """Raise InputError, as `flow` does, for σ'(0) on a kink and for the norm of zeros."""
    data = ensemble.data
    silent = not data.X.any(axis=1).all() or 0.0 in ensemble.symbols["C_W"]
    if not silent and not _has_no_variance(ensemble.layers, len(data.X)):
        return
    names = tuple(plan.targets)
    if all(isinstance(field, Field) for field in plan.fields):
        names = (named("Theta" if observables.derivatives(plan.fields) else "K"),)
    _theory(ensemble, names, plan.fields)


@cache(entries=64)
def _has_no_variance(layers: Layers, samples: int) -> bool:
    """True if a matrix of a layer is zero."""
    schemes = layers.net.schemes(layers.depth, samples).distinct
    stages = [stage for scheme in schemes for stage in scheme.stages]
    variances = [matrix.variance for stage in stages for matrix in stage.matrices]
    return Value(sympy.Integer(0)) in variances


def _check_range(ensemble: Ensemble, plan: Plan, arrays: dict[str, xarray.Variable]) -> None:
    """Raise InputError, as `flow` does, for tensors or errors beyond a float's range."""
    if any(np.isinf(each.values).any() for each in arrays.values()):
        raise InputError("net", Words("errors beyond doubles"), "smaller inputs or variances")
    behind = int(ensemble.data.first == 1)  # layer 1 is exact
    values = [np.abs(arrays[target.label].values[behind:]) for target in plan.targets]
    if not any((each < limits.LEAST).any() for each in values):
        return
    rest = limits.silent(ensemble.net, ensemble.data, ensemble.symbols)
    if rest[behind:].all():
        return
    for names in ((named("K"),), tuple(plan.targets)):
        found = _theory(ensemble, names, plan.fields)
        least = min((each[each > 0].min(initial=1.0) for each in map(np.abs, found)), default=1.0)
        if least > limits.LEAST ** (1.0 / max(1, *(target.pairs for target in plan.targets))):
            return


def _theory(
    ensemble: Ensemble, names: tuple[Name, ...], fields: Iterable[AnyField]
) -> tuple[Array, ...]:
    """The leading-order tensors of `flow`; none for networks and tensors that it does not support.

    Raises NoValueError if a tensor is undefined or too small for a float.
    """
    data, own = ensemble.data, _own(fields, ensemble)
    try:
        return _leading(ensemble.layers, _hashed(data), names, own)
    except NoValueError:
        raise
    except InputError:
        return ()


def _with_parameters(ensemble: Ensemble, plan: Plan, given: Given) -> Ensemble:
    """The ensemble with the numbers of the equations' symbols."""
    fields: frozenset[AnyField] = plan.fields
    if given is None and not hyperparameters.symbols_of(fields):
        return ensemble
    own = hyperparameters.own_parameters(given, fields, ensemble.symbols, ensemble.depth)
    return replace(ensemble, own=tuple((name, tuple(own[name].tolist())) for name in sorted(own)))


def _tensor(
    target: Name, ensemble: Ensemble, found: unbiased.Estimate, chosen: tuple[int, ...]
) -> dict[str, xarray.Variable]:
    """The tensor, its standard error and its floor."""
    n, order = float(ensemble.width), target.order
    power = target.pairs - 1
    rows = slice(ensemble.data.first - 1, None)
    value = n**power * found.value[rows]
    series = observables.lower(target)
    if series:
        own = _own(target.fields, ensemble)
        data = ensemble.data
        flowed = _leading(ensemble.layers, _hashed(data), series, own)
        for g, values in enumerate(flowed):
            here = at_samples(values, chosen) if chosen else values
            value = value - here.reshape(value.shape) / n**g
    dims = layout.axes(2 * target.pairs, single=ensemble.data.single)
    if ensemble.data.exchangeable is not None:
        dims = ["layer", "orbit"]
    shape = value.shape[: len(dims)]
    scale = n ** (power + order)
    cancelling = scale * found.terms[rows].reshape(len(value), -1).max(axis=1)
    about = layout.described(target)
    return {
        target.label: xarray.Variable(dims, n**order * value.reshape(shape), about),
        f"{target}_se": xarray.Variable(dims, scale * found.error[rows].reshape(shape)),
        f"{target}_floor": layout.floor(cancelling),
    }


_Hashed: TypeAlias = "tuple[tuple[int, ...], bytes] | Exchangeable"
"""The shape of inputs, and themselves."""


def _hashed(data: Inputs) -> _Hashed:
    """Inputs as a key."""
    if data.exchangeable is None:
        return data.shape, data.X.tobytes()
    m, n_0 = data.X.shape
    return replace(data.exchangeable, m=m, n_0=n_0)


@cache(entries=16)
def _leading(
    layers: Layers,
    inputs: _Hashed,
    series: tuple[Name, ...],
    own: tuple[tuple[str, tuple[float, ...]], ...],
) -> tuple[Array, ...]:
    """The orders before a tensor's by `flow`, the same for all seeds and draws.

    Arguments:
        own: the numbers of the equations' symbols.
    """
    given: ArrayLike | Exchangeable = inputs
    if not isinstance(inputs, Exchangeable):
        shape, numbers = inputs
        given = np.frombuffer(numbers).reshape(shape)
    parameters: Given = {name: Tabulated(values) for name, values in own}
    table = flow(layers.net, given, layers.depth, series, width=layers.width, parameters=parameters)
    for name in series:
        value, error = (float(abs(table[name.label + end]).max()) for end in ("", "_error"))
        if error > _SUBTRACTED * value:
            wanted = (
                f"tensors of leading order, as theory has {name.label} with an error of its own"
            )
            raise InputError("tensors", Words(f"what is left of {name.label}"), wanted)
    if isinstance(inputs, Exchangeable):
        table = layout.orbits_apart(table)
    return tuple(table[name.label].to_numpy() for name in series)


def _own(
    fields: Iterable[AnyField], ensemble: Ensemble
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """The numbers of these equations' symbols."""
    wanted = hyperparameters.symbols_of(fields)
    return tuple((name, values) for name, values in ensemble.own if name in wanted)
