"""Run derived recursions down the layers of a network.

flow(net, inputs, depth=30, tensors=["K", "V"])["V"]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import xarray
from numpy.typing import ArrayLike, NDArray

from derive.activations import Activation
from derive.engine import skip_closure
from derive.engine.fields import Field
from derive.engine.orbits import Exchangeable, orbits
from derive.engine.scheme import Layered, Scheme
from derive.engine.step import closures, read_through
from derive.engine.tensors import Name, canonical, identified, named
from derive.errors import InputError, Words, as_integer
from derive.layers.chain import Laws
from derive.network import Network
from derive.recursions import Wanted, wanted
from derive.weights import FourMoments, IndependentEntries, WeightEnsemble
from derive.work.caches import cache
from derive.work.progress import telling
from derive.work.resources import DAY, check_memory, check_time, number

from .arrays import Array, at_samples, by_orbit
from .brackets import pieces
from .checks import Inputs, checked_inputs, chosen_samples, representatives
from .hyperparameters import Given, exactly, hyperparameters, own_parameters
from .layers import accuracy, adjoint, limits, quadruples
from .layers.alike_batches import NAMED
from .layers.precise import tables as precise
from .layers.resting import UndefinedError
from .layers.run import Layers
from .layers.several_samples import FEW
from .layers.skips.derived import others
from .layers.skips.tangents import TangentLayers
from .layers.staged import StagedLayers
from .layers.steps import input_means, means_at
from .random.permuted import check_limit
from .tables import layout

_OF_SET = 5e-4
"""Seconds in a layer of the tensors of four samples."""

_RATE = 5000
"""Layers in a second: to look the hyperparameters up, most of the time of one input."""

_OF_MANY, _OF_FEW, _OF_PANELS = 1e-4, 3e-3, 1e-2
"""Seconds per average of several inputs: for σ made of straight lines, or analytic σ and many
inputs; for analytic σ and few inputs; and on panels between kinks."""

_REGAINED, _FEW, _SECONDS = 17, 3, 20
"""The digits with which balls replace floats that have lost theirs, of how many inputs, and for how
long by default."""

_K, _V, _THETA = named("K"), named("V"), named("Theta")

_Runnable: TypeAlias = StagedLayers | TangentLayers


def flow(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    depth: int | None = None,
    tensors: Wanted | Iterable[Wanted] = ("K", "V"),
    *,
    width: int | None = None,
    parameters: Given = None,
    precision: int | None = None,
    seconds: int = _SECONDS,
    positions: Sequence[int | Sequence[int]] | None = None,
    draws: int | None = None,
) -> xarray.Dataset:
    """Evaluate the recursions of these tensors, layer by layer, at leading order each.

    Arguments:
        net: the network; its ensembles and variances are numbers.
        inputs: (n_0,) for one sample or (m, n_0) for m; they may repeat, be collinear or zero.
            Of a network of convolutions (positions, n_0) or (m, positions, n_0): a sample is then a
            signal at a position, or, with a readout, a signal.
            An input of zeros without biases has z = 0. If that is a kink of σ, or if a norm divides
            by it, tensors that need a value there (Theta needs σ'(0) of ReLU) raise an error; the
            others are exact.
            Or `derive.Exchangeable(m, q, p)`: the flow is then that of the few samples that an
            entry names, at any m.
        depth: layers of preactivations, counted from 1; all of the network's widths by default.
        tensors: names that `recursion` knows, "K", "G1", "V", "kappa(z,z,H|01 23)", …; "all" of the
            literature's at order 1/n; or `derive.engine.tensors.Name`s or recursions, such as
            recursion(["z", "z", my_field]), for the tensor on their left. A recursion that was
            derived for other weights, activation, widths or corrections is refused.
        width: n, needed where layer 1 depends on n_0/n: with an orthogonal first layer that has
            more inputs than neurons, with low-rank, truncated or bi-invariant ones, and for fields
            that are the identity at the inputs. By default the network's own, or else n = n_0
            (r_1 n, with unequal widths).
        parameters: the symbols of a user's equations, {"a": 0.5}: numbers, or functions of the
            layer.
        precision: how many decimal digits every number has, 16 … 1000, in place of a float's:
            computed in balls, again with more digits until those are there. Floats among the
            arguments stand for what they are in binary; "1/10" is a tenth.
        seconds: time budget (estimated operations, not wall clock) for recomputing a tensor in ball
            arithmetic when its relative error exceeds 1e-8. This is done for at most three inputs,
            or exchangeable ones, of networks that support a precision. A tensor that would take
            longer keeps its error.
        positions: of signals: those of the last layer that are returned, [0, 3] or of images
            [(0, 0), (4, 4)]; by default all. The samples of the table have their numbers in the
            whole table as coordinates.
        draws: for many positions, of which V has too many entries: V of the outputs alone, from
            weights that go down the layers (`numeric.layers.adjoint`). It is a mean over so many
            draws of a neuron's variables in all layers; V_error is three standard errors. K, V and
            Theta can be asked for. Use it with pooling or with `positions`.

    Returns:
        A variable per tensor with axes `layer` (1 … depth) and, unless inputs is one vector,
        `sample_1`, `sample_2`, …: the coefficients of source 000, eqs. (3.7), (3.8), (5.25), so V
        is n times the connected four-point function. `V_error` estimates the numerical error of
        each entry of V, from rounding and quadrature (`numeric.layers.accuracy`); it does not
        include fluctuations between networks. With a precision the numbers are `decimal.Decimal`s
        of so many digits, and `V_error` bounds how far each is from the truth
        (`numeric.tables.digits` brings them to files). `numeric.tables.layout` has the layout, the
        coordinates and the attributes.

    Raises:
        InputError: for an argument that can't be used, where a tensor is not finite, and where
            rounding leaves none of its digits (`numeric.layers.accuracy`) and balls take longer.

    >>> from derive import activations
    >>> table = flow(Network(activations.relu, C_b=1), [2.0], depth=3, tensors="K")
    >>> table["K"].to_numpy()
    array([5.  , 3.5 , 2.75])
    """
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    given_depth = net.depth if depth is None else depth
    if given_depth is None:
        raise InputError("depth", None, "a depth, or a network with widths")
    depth = as_integer("depth", given_depth, 1)
    names = wanted(tensors, net, depth)
    if isinstance(inputs, Exchangeable):
        least = _least_samples(inputs, net, depth, names)
        data = representatives(inputs, max(least, inputs.representatives(names)), net, depth)
        n_0 = inputs.n_0 or (net.widths[0] if net.widths else 0)
        if positions is not None or draws is not None:
            raise InputError("positions, draws", (positions, draws), "none, of exchangeable inputs")
    else:
        data = checked_inputs(inputs, net.layer, depth)
        n_0 = data.X.shape[1]
    net.check_inputs(n_0)
    chosen, direct = chosen_samples(positions, net, data, depth), names
    if draws is not None:
        draws = _check_draws(draws, names, precision, max(data.samples), len(chosen), depth)
        direct = tuple(name for name in names if name != _V) or (_K,)
    way = "" if draws or not net.layer.input_axes else _WAY
    _check_size(max(data.samples), depth, direct, way)
    if any(name.pairs + name.order > 1 for name in names):
        _check_weights(net, depth)
    seconds = as_integer("seconds", seconds, 0)
    if precision is not None:
        precision = as_integer("precision", precision, precise.LEAST, precise.MOST)
        if reason := _no_balls(net, depth, max(data.samples), names):
            raise InputError("precision", precision, reason)
    width = net.width if width is None else as_integer("width", width, 1)
    what = f"running {number(depth)} layers of {', '.join(map(str, names))}"
    with telling(what, depth / _RATE):
        symbols = hyperparameters(net, depth, n_0, width if n_0 else None)
        fields = {field for name in names for field in name.fields}
        own = own_parameters(parameters, fields, symbols, depth)
        asked = _Asked(net, data, n_0, depth, direct, width, symbols, own)
        if precision is not None:
            found = _in_balls(asked, precision)
            about = {"precision": precision}
        else:
            found = _in_floats(asked, seconds=seconds)
            about = {} if draws is None else {"average_draws": draws}
        if positions is not None:
            found = {
                name: (at_samples(values, chosen), at_samples(errors, chosen))
                for name, (values, errors) in found.items()
            }
        if draws is not None and _V in names:
            found[_V] = _sampled(asked, chosen, draws)
        if isinstance(inputs, Exchangeable):
            return _orbit_table(asked, inputs, found, about)
        table = _table(asked, {name: found[name] for name in names}, about)
        return table if positions is None else layout.numbered(table, chosen)


def _is_batched(schemes: Iterable[Scheme]) -> bool:
    """True if a layer has a function of all samples."""
    return any(stage.batch for scheme in schemes for stage in scheme.stages)


def batch_of(inputs: Exchangeable, net: Network, depth: int) -> int:
    """The samples of a batch of which a layer has a function; 0 if none has.

    Raises InputError for a batch of a symbolic size.
    """
    if not _is_batched(net.schemes(depth, 2).distinct):
        return 0
    if not isinstance(inputs.m, int):
        wanted = "a number of samples, in a layer with a function of all samples"
        raise InputError("inputs", str(inputs), wanted)
    return int(inputs.m)


def _least_samples(inputs: Exchangeable, net: Network, depth: int, names: Sequence[Name]) -> int:
    """The samples that represent a batch of which a layer has a function; 0 if none has.

    Raises InputError for tensors made from others that name more samples, as V2 is from U6.
    """
    batch = batch_of(inputs, net, depth)
    beyond = [str(name) for name in names if name.order and name.pairs + name.order > 2]
    if beyond and batch > NAMED:
        told = f"at most {NAMED} exchangeable samples for it, or tensors of order 1/n"
        raise InputError("tensors", beyond[0], f"{told}, in a layer with a function of all samples")
    return min(NAMED, batch)


def _check_draws(
    given: int,
    names: Sequence[Name],
    precision: int | None,
    samples: int,
    outputs: int,
    depth: int,
) -> int:
    """The number of draws, or an InputError: along a skip weights of all layers are held."""
    draws = as_integer("draws", given, 2)
    if other := [name.label for name in names if name.label not in ("K", "V", "Theta")]:
        raise InputError("draws", draws, f"none, for {', '.join(other)}: K, V and Theta have them")
    if precision is not None:
        raise InputError("draws", draws, "none, with a precision")
    pairs = outputs * (outputs + 1) // 2
    what = f"weights of {number(pairs)} pairs of outputs"
    held = 8 * 4 * pairs * samples**2 * depth + 8 * pairs**2
    check_memory("positions", f"{outputs} outputs", held, f"{what}; choose fewer with positions")
    return draws


def _sampled(asked: _Asked, chosen: Sequence[int], draws: int) -> _Entries:
    """V of the chosen samples, and three standard errors."""
    net, data, depth = _without_skew(asked.net, asked), asked.data, asked.depth
    schemes, order, samples = _schemes(net, data, depth)
    for scheme in schemes:
        scheme.check_positions("draws")
        scheme.check_without_batch("no draws, which functions of one sample alone have")
    first = net.weights_at(1, depth=depth).unit_variance
    made = adjoint.Outputs(schemes, order, first, (samples, len(data.X)))
    rows = range(data.first, depth + 1)
    pairs = len(chosen) * (len(chosen) + 1) // 2
    stages = sum(len(schemes[number].stages) for number in order) * len(rows)
    seconds = 4e-10 * stages * pairs * draws * max(data.samples) ** 2
    what = f"V of {len(chosen)} outputs with {number(draws)} draws"
    check_time("draws", draws, seconds, what)
    with telling(f"running {what} down {number(depth)} layers", seconds, total=depth) as progress:
        kernel = input_means(data.X, (2,))
        outputs = data.measured, chosen
        with np.errstate(all="ignore"):
            found = made(kernel, asked.symbols, rows, outputs, draws, progress.advance)
    if not np.isfinite(found).all():
        wanted = (
            "inputs for which every average is finite: an input of zeros may lie on a kink of σ"
        )
        raise InputError("net", Words(f"{net}, whose V is not finite"), wanted)
    return found


def _check_weights(net: Network, depth: int) -> None:
    """Refuse drawn weights of which moments of four do not tell what enters at order 1/n."""
    if isinstance(net.weights, WeightEnsemble) and not isinstance(net.weights, FourMoments):
        return
    checked: set[tuple[FourMoments, float, float]] = set()
    for layer in range(2, depth + 1):
        law = net.weights_at(layer, depth=depth)
        if isinstance(law, FourMoments):
            r_in, r_out = (float(net.width_ratio_at(at)) for at in (layer - 1, layer))
            checked.add((law, r_in, r_out))
    for each in checked:
        check_limit(*each)


def flow_of_all(
    net: Network,
    inputs: ArrayLike,
    depth: int,
    tensors: Wanted | Iterable[Wanted],
    *,
    width: int | None = None,
    seconds: int = _SECONDS,
    is_checked: bool = True,
) -> tuple[xarray.Dataset, list[dict[str, Array]]]:
    """`flow` of signals, and the same tensors of each layer before the table's first, by labels:
    (samples, samples, …), of the positions that these layers have.

    Without `is_checked` rounding errors are not estimated, which takes a third of the time: for
    inputs beside others that were checked.

    Raises InputError as `flow` does.
    """
    asked = _asked(net, inputs, depth, tensors, width)
    below: list[dict[Name, Array]] = []
    runs = accuracy.RUNS if is_checked else 0
    entries = _in_floats(asked, seconds=seconds, below=below.append, runs=runs)
    table = _table(asked, entries, {})
    used = below[: asked.data.first - 1]
    return table, [{str(name): each[canonical(name)] for name in asked.names} for each in used]


def _asked(
    net: Network,
    inputs: ArrayLike,
    depth: int,
    tensors: Wanted | Iterable[Wanted],
    width: int | None,
) -> _Asked:
    data, names = checked_inputs(inputs, net.layer, depth), wanted(tensors, net, depth)
    _check_size(max(data.samples), depth, names)
    n_0 = data.X.shape[1]
    symbols = hyperparameters(net, depth, n_0, width)
    return _Asked(net, data, n_0, depth, names, width, symbols, {})


def behind_last(
    net: Network,
    inputs: ArrayLike,
    depth: int,
    tensors: Wanted | Iterable[Wanted],
    width: int | None = None,
) -> dict[Name, tuple[Array, Array]]:
    """The tensors behind the last layer and their errors, as `flow` has them.

    The other layers are not held, so that this takes a fraction of `flow`'s memory.

    Raises InputError as `flow` does.
    """
    data = checked_inputs(inputs, net.layer, depth)
    net.check_inputs(data.X.shape[1])
    names = wanted(tensors, net, depth)
    several = max(data.samples) > 1 and not _closed(net, depth, max(data.samples))
    data = replace(data, first=depth) if several else data
    _check_weights(net, depth)
    n_0, width = data.X.shape[1], net.width if width is None else as_integer("width", width, 1)
    symbols = hyperparameters(net, depth, n_0, width)
    asked = _Asked(net, data, n_0, depth, names, width, symbols, {})
    if found := _set_by_set(asked):
        return found
    _check_size(max(data.samples), depth - data.first + 1, names)
    with telling(f"running {number(depth)} layers of {', '.join(map(str, names))}", depth / _RATE):
        found = _in_floats(asked, seconds=_SECONDS)
    shapes = {name: (data.measured,) * len(name.subscripts) for name in names}
    return {
        name: (values[-1].reshape(shapes[name]), errors[-1].reshape(shapes[name]))
        for name, (values, errors) in found.items()
    }


def _set_by_set(asked: _Asked) -> dict[Name, tuple[Array, Array]]:
    """`behind_last` by sets of four of many samples; nothing where a number needs `_in_floats`.

    That is where the recursions are not those of dense layers of a smooth σ, where digits are lost
    or numbers are close to the least double.
    """
    net, X, depth = asked.net, asked.data.X, asked.depth
    names, m = asked.names, len(X)
    if m <= FEW or depth < 2 or len(set(asked.data.samples)) > 1 or _closed(net, depth, m):
        return {}
    schemes, order = _without_skew(net, asked).schemes(depth, m)
    if not all(len(each.stages) == 1 and each.sigma.is_smooth for each in schemes):
        return {}
    alike, four = (schemes, net.weights_at(1, depth=depth).unit_variance), quadruples.SAMPLES
    layers, kernel = (
        _layers(each, *alike, ((count,) * len(schemes), count), None, False, 0)
        for each, count in ((names, four), ((_K,), m))
    )
    if not (isinstance(layers, StagedLayers) and isinstance(kernel, StagedLayers)):
        return {}
    if not quadruples.bears(layers, kernel) or not asked.symbols.keys() >= {*layers.parameters}:
        return {}
    layers, kernel = layers.along(order), kernel.along(order)
    own = tuple(dict.fromkeys(map(canonical, names)))
    entries = sum(m ** len(name.subscripts) for name in own)
    what = f"{number(depth)} layers of {m} inputs"
    check_memory("inputs, depth", f"{m} inputs, {depth}", 8 * 2 * entries, what)
    seconds = depth * _OF_SET * math.comb(m, four)
    told = telling(f"running {what} set by set", seconds, total=1)
    with told as progress, np.errstate(all="ignore"):
        given = input_means(X, (2,)), asked.symbols
        found = quadruples.run(layers, kernel, *given, own, progress.advance)
    if not found.is_sure:
        return {}
    values, errors = (
        {name: each[None] for name, each in of.items()} for of in (found.values, found.errors)
    )
    return {name: (_axes(values, name)[0], _axes(errors, name)[0]) for name in names}


class _Asked(NamedTuple):
    """The arguments of `flow`, checked; the hyperparameters by layer, the network's and those of
    the user's equations. n_0 is 0 where inputs are as wide as layer 1."""

    net: Network
    data: Inputs
    n_0: int
    depth: int
    names: tuple[Name, ...]
    width: int | None
    symbols: dict[str, Array]
    own: dict[str, Array]


_Entries: TypeAlias = "tuple[NDArray[Any], Array]"
"""A tensor's values and their errors, (depth, m, …)."""


def _runnable(asked: _Asked) -> tuple[_Runnable, tuple[Scheme, ...], int]:
    """The recursions of the asked tensors, their schemes, and how many first layers are not read.

    Raises InputError where a hyperparameter has no number.
    """
    net, X, values = asked.net, asked.data.X, asked.symbols | asked.own
    schemes, order, samples = _schemes(_without_skew(net, asked), asked.data, asked.depth)
    own = order if _closed(net, asked.depth, max(samples)) else None
    first, unseen = net.weights_at(1, depth=asked.depth).unit_variance, asked.data.first - 1
    represented = asked.data.exchangeable
    batch = represented.m if represented and _is_batched(schemes) else 0
    how = represented is not None, batch
    layers = _layers(asked.names, schemes, first, (samples, len(X)), own, *how)
    if isinstance(layers, StagedLayers):
        layers = layers.along(order, unseen)
    unknown = [name for name in layers.parameters if name not in values]
    if unknown:
        raise InputError("weights", str(schemes[0].weights), f"a number for {', '.join(unknown)}")
    return layers, schemes, unseen


def repeated_layer(
    net: Network, inputs: Exchangeable, tensors: Sequence[str]
) -> tuple[StagedLayers, Array, int]:
    """The recursions of the layer that a network repeats, its hyperparameters, (parameters,), and
    how many samples represent the batch.

    Arguments:
        net: a network whose layers, laws and variances do not depend on depth.
        inputs: the batch: its size counts in layers with a function of all samples.
        tensors: the names of the tensors.

    Raises InputError for other networks.
    """
    names, depth = wanted(tensors, net, 6), 6
    least = _least_samples(inputs, net, depth, names)
    data = representatives(inputs, max(least, inputs.representatives(names)), net, depth)
    symbols = hyperparameters(net, depth, 0, None)
    asked = _Asked(net, data, 0, depth, names, None, symbols, {})
    layers, schemes, _ = _runnable(asked)
    columns = np.array([symbols[name] for name in layers.parameters]).reshape(-1, depth)
    if len(schemes) > 1 or (columns[:, 1:] != columns[:, 1:2]).any():
        raise InputError("net", str(net), "a network that repeats one layer")
    if not isinstance(layers, StagedLayers):
        raise InputError("net", str(net), "layers whose recursions close on these tensors")
    return layers, np.asarray(columns[:, 1]), len(data.X)


def _in_floats(
    asked: _Asked,
    seconds: int = 0,
    below: Callable[[dict[Name, Array]], object] = lambda tensors: None,
    runs: int = accuracy.RUNS,
) -> dict[Name, _Entries]:
    """`flow` without a precision; with the digits that balls have after so many seconds; `below`
    is given the tensors of layers that the table leaves out, from layer 1 on."""
    net, X, values = asked.net, asked.data.X, asked.symbols | asked.own
    layers, schemes, unseen = _runnable(asked)
    exchangeable = asked.data.exchangeable is not None
    slowest = max(_seconds_of_average(scheme.sigma, len(X)) for scheme in schemes)

    def told(tensors: list[Array]) -> None:
        below(dict(zip(layers.names, tensors, strict=False)))

    def run(kernel: Array, symbols: dict[str, Array], depth: int) -> _Run:
        seconds = (depth - 1) * layers.noises * slowest
        what = f"running through {number(depth)} layers of {number(len(X))} inputs"
        check_time("inputs, depth", f"{len(X)} inputs, {depth}", seconds, what)
        with telling(what, seconds, total=depth) as progress:
            try:
                found = accuracy.run(layers, kernel, symbols, progress.advance, told, runs)
            except UndefinedError as error:
                raise limits.no_value(net, asked.data, error) from None
        values, errors, sizes = (dict(zip(layers.names, each, strict=True)) for each in found)
        return _Run(values, errors, sizes, found.values, 1 + unseen)

    with np.errstate(all="ignore"):
        kernel = means_at(asked.data, layers.orders)
        outcome = run(kernel, values, asked.depth)
        limits.check_kernel(net, asked.data, values, outcome.values)
        _check_finite(outcome, asked, layers)
        few = {name: each[: unseen + accuracy.FEW] for name, each in values.items()}
        unit = means_at(asked.data, layers.orders, asked.data.largest)
        at_unit = cache(lambda: run(unit, few, len(few["C_W"])))

        def alike() -> limits.Tensors:
            """The first layers of the network at inputs and rates of order one."""
            most = max(np.abs(few[name]).max() for name in ("lambda_b", "lambda_W")) or 1.0
            rates = {name: few[name] / most for name in ("lambda_b", "lambda_W")}
            if exchangeable:
                return run(unit, few | rates, len(few["C_W"])).values
            lengths = np.sqrt((X * X).mean(axis=1, keepdims=True))
            alone = np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0.0)
            found = run(input_means(alone, layers.orders), few | rates, len(few["C_W"]))
            return found.values

        for name in asked.names:
            limits.check_tensor(
                net, asked.data, values, outcome.values, (name, canonical(name)), alike
            )
        short = tuple(
            name for name in asked.names if _lost_at(name, outcome, at_unit, accuracy.ENOUGH)
        )
        regained, reason = _regained(asked, short, seconds) if seconds and short else ({}, "")
        for name in short:
            if name not in regained:
                _check_digits(name, outcome, at_unit, asked, reason)
    return {
        name: regained.get(name) or (_axes(outcome.values, name), _axes(outcome.errors, name))
        for name in asked.names
    }


def _schemes(
    net: Network, data: Inputs, depth: int
) -> tuple[tuple[Scheme, ...], tuple[int, ...], tuple[int, ...]]:
    """The distinct schemes, which of them layers 2, 3, … have, and the samples in front of each;
    the same scheme is another one in front of which there are other samples."""
    schemes, order = net.schemes(depth, max(data.samples))
    if len(set(data.samples)) == 1:
        return schemes, order, (len(data.X),) * len(schemes)
    pairs = [*zip(order, data.samples, strict=False)]
    distinct = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
    found = tuple(schemes[number] for number, _ in distinct)
    return found, tuple(distinct[pair] for pair in pairs), tuple(m for _, m in distinct)


def _without_skew(net: Network, asked: _Asked) -> Network:
    """The network with weights whose odd cumulants are 0, where those do not enter these tensors.

    With odd σ and symmetric weights and biases in layer 1, z and −z have one law, so that odd
    moments of a neuron vanish; the odd cumulants of two neurons meet in κ(z_i, z_i, z_i, z_k, z_k,
    z_k) at the earliest, of order n^{-2}. Of four neural indices each odd block leaves one alone.
    """
    if isinstance(net.weights, WeightEnsemble) and not isinstance(net.weights, IndependentEntries):
        return net
    depth = asked.depth
    laws = [net.weights_at(layer, depth=depth) for layer in range(1, depth + 1)]
    odd = all(net.activation_at(layer, depth).is_odd for layer in range(1, depth))
    leading = all(name.pairs + name.order <= 2 for name in asked.names)
    symmetric = getattr(laws[0], "is_symmetric", True)
    skewed = any(isinstance(law, IndependentEntries) and not law.is_symmetric for law in laws[1:])
    if skewed and odd and symmetric and leading:
        plain = (
            law.without_skew() if isinstance(law, IndependentEntries) else law for law in laws[1:]
        )
        return replace(net, weights=Laws((laws[0], *plain)), first_weights=None)
    return net


def _regained(
    asked: _Asked, names: tuple[Name, ...], seconds: int
) -> tuple[dict[Name, _Entries], str]:
    """These tensors from balls, as floats and how far those can be off; or none of them, and why:
    balls have none, or take longer."""
    samples = max(asked.data.samples)
    if samples > _FEW and asked.data.exchangeable is None:
        return {}, ""
    if reason := _no_balls(asked.net, asked.depth, samples, names):
        return {}, reason
    try:
        found = _in_balls(asked._replace(names=names), _REGAINED, seconds)
    except InputError as refused:
        return {}, refused.wanted
    tensors = {}
    for name, (digits, errors) in found.items():
        values = digits.astype(float)
        tensors[name] = values, errors + accuracy.EPS / 2.0 * np.abs(values)
    return tensors, ""


def _no_balls(net: Network, depth: int, samples: int, names: Sequence[Name]) -> str:
    """The reason why there can be no precision; empty if there can be one."""
    schemes = net.schemes(depth, samples).distinct
    if _is_batched(schemes):
        return "none, for a function of all samples"
    if samples > 1 and _closed_among(net, depth, samples, names):
        return "none, for what closes on sequences of several inputs"
    if any(stage.scores for scheme in schemes for stage in scheme.stages):
        return "none, for attention"
    taps = [stage.taps for scheme in schemes for stage in scheme.stages]
    if _closed_among(net, depth, samples, names) and not all(each.is_one_to_one for each in taps):
        return "none, for what closes on sequences of weighted positions"
    return ""


def _in_balls(asked: _Asked, digits: int, limit: float = DAY) -> dict[Name, _Entries]:
    """`flow` with a precision."""
    net, data = _without_skew(asked.net, asked), asked.data
    schemes = _schemes(net, data, asked.depth)
    exact: dict[str, Sequence[object]] = {
        **exactly(net, asked.depth, asked.n_0, asked.width if asked.n_0 else None)
    }
    exact |= {name: list(column) for name, column in asked.own.items()}
    closing = _closed_among(net, asked.depth, max(data.samples), asked.names)
    names = others(list(map(canonical, asked.names))) if closing else asked.names
    given = net, data, schemes, *_needed(names, schemes[0])
    try:
        return precise.tensors(*given, closing, exact, asked.names, digits, _size, limit)
    except UndefinedError as error:
        raise limits.no_value(net, data, error) from None


def _table(
    asked: _Asked, tensors: dict[Name, _Entries], attributes: Mapping[str, int]
) -> xarray.Dataset:
    arrays: dict[str, xarray.Variable] = {}
    single = asked.data.single
    for name, (values, errors) in tensors.items():
        rank, about = len(name.subscripts), layout.described(name)
        arrays[name.label] = layout.variable(values, rank, single=single, about=about)
        arrays[f"{name.label}_error"] = layout.variable(errors, rank, single=single)
    return _dataset(asked, arrays, attributes, asked.data.given)


def _orbit_table(
    asked: _Asked,
    inputs: Exchangeable,
    tensors: dict[Name, _Entries],
    attributes: Mapping[str, int],
) -> xarray.Dataset:
    """The table by orbits: of each the entry that represents it."""
    samples, batch = len(asked.data.X), batch_of(inputs, asked.net, asked.depth)
    arrays: dict[str, xarray.Variable] = {}
    labels: dict[str, Iterable[str]] = {}
    for name, both in tensors.items():
        for ending, values in zip(("", "_error"), both, strict=True):
            own = by_orbit(values, name, samples) if samples > 1 else values[:, None]
            about = {} if ending else layout.described(name)
            arrays[name.label + ending] = xarray.Variable(("layer", "orbit"), own, about)
            labels[name.label + ending] = orbits(name, samples)
    variables, orbit = layout.by_orbit(arrays, labels)
    table = _dataset(asked, variables, {**attributes, **layout.about_inputs(inputs, batch)})
    return table.assign_coords(orbit=orbit)


def _dataset(
    asked: _Asked,
    arrays: dict[str, xarray.Variable],
    attributes: Mapping[str, int | float | str],
    inputs: Array | None = None,
) -> xarray.Dataset:
    return layout.dataset(
        arrays,
        range(asked.data.first, asked.depth + 1),
        {**attributes, **({} if asked.width is None else {"width": int(asked.width)})},
        net=asked.net,
        inputs=inputs,
        symbols=asked.symbols | asked.own,
        own=asked.own,
    )


_WAY = " (for K, V and Theta of few outputs, pooled or with positions, give draws)"


def _check_size(samples: int, depth: int, names: Sequence[Name], way: str = "") -> None:
    """Refuse what takes more time or memory than there is: 2 kB and 0.2 ms, or more, a layer.

    Each tensor is there six times at every layer, with its copies, sizes and errors, and some 16
    times in what one layer is made from. A term of the next order, as G1, is made from tensors of
    as many more pairs, as V.
    """
    what = f"{number(depth)} layers of {number(samples)} inputs"
    ranks = [max(len(name.subscripts), 2 * (name.pairs + name.order)) for name in names]
    entries = sum(samples**rank for rank in ranks if samples > 1)
    brackets = 4 * max(ranks) * samples ** max(2, *ranks)  # the tuples of their samples
    held = depth * 2000 + 8 * (entries * (6 * depth + 16) + (brackets if samples > 1 else 0))
    what += way if max(ranks) > 2 else ""
    check_memory("inputs, depth", f"{samples} inputs, {depth}", held, what)
    check_time("depth", depth, depth // _RATE, what)


def _seconds_of_average(activation: Activation, samples: int) -> float:
    """The estimated seconds of one average in one layer."""
    if samples == 1:
        return 0.0  # `_RATE` has all of them
    if activation.is_smooth:
        return _OF_MANY if samples > FEW else _OF_FEW
    return _OF_MANY if pieces.table(activation) is not None else _OF_PANELS


def _axes(computed: dict[Name, Array], name: Name) -> Array:
    """The tensor with its axes in the order of this name's subscripts."""
    own, samples = identified(name)
    values = computed[own]
    if values.ndim == 1:
        return values
    place = {slot: axis for axis, slot in enumerate(samples)}
    ordered = np.transpose(values, (0, *(1 + place[slot] for slot in name.subscripts)))
    return np.ascontiguousarray(ordered)


def _size(computed: dict[Name, Array], name: Name) -> Array:
    """K^{nodes/2} (Θ/K)^{edges} at each layer, the dimension of its fields: how large the terms are
    that may cancel in the tensor. A user's field has its mean's size, 0 if it has none."""

    def largest(each: Name) -> Array:
        """Of a tensor's entries at each layer."""
        layers = len(computed[_K])
        entries = computed.get(each, np.zeros(layers))
        return np.asarray(np.abs(entries).reshape(layers, -1).max(axis=1))

    kernel, tangent = largest(_K), largest(_THETA)
    trees = [each for each in name.fields if isinstance(each, Field)]
    edges, nodes = sum(len(tree.edges) for tree in trees), sum(tree.nodes for tree in trees)
    live = kernel > 0
    size = np.zeros_like(kernel)
    size[live] = kernel[live] ** (nodes / 2) * (tangent[live] / kernel[live]) ** edges
    for own in name.fields:
        if not isinstance(own, Field):
            means = [each for each in computed if each.fields == (own,) and each.order == 0]
            size = size * sum((largest(each) for each in means), np.zeros_like(size))
    return size


@cache(entries=64)
def _layers(
    names: tuple[Name, ...],
    schemes: tuple[Scheme, ...],
    first: WeightEnsemble,
    samples: tuple[tuple[int, ...], int],
    order: tuple[int, ...] | None,
    exchangeable: bool,
    batch: int,
) -> _Runnable:
    """The recursions of these tensors and of all that they need; of laws that only permutations
    keep, along layers in this order."""
    used = tuple(dict.fromkeys(each.sigma for each in schemes))
    brackets = ", ".join(map(str, used))
    with telling(f"preparing {', '.join(map(str, names))} and the brackets of {brackets}"):
        own = tuple(dict.fromkeys(map(canonical, names)))
        readouts = [readout for scheme in schemes for readout in scheme.readouts]
        if order is not None and set(own) & set(skip_closure.SKIP_TENSORS):
            asked = ", ".join(map(str, own))
            if readouts:
                wanted = "K and Theta alone, with a readout and a skip past one matrix"
                raise InputError("tensors", asked, wanted)
            return TangentLayers(own, schemes, first, samples, order)
        needed, read = _needed(names, schemes)
        if samples[1] == 1 and [scheme.layer for scheme in schemes] == [None]:
            return Layers(needed[0][-1], schemes[0], first)
        how = {"exchangeable": exchangeable}
        return StagedLayers(needed, schemes, first, samples, read, **how, batch=batch)


_Names: TypeAlias = "tuple[tuple[tuple[Name, ...], ...], ...]"
"""Of each distinct layer those behind each of its stages."""


def _needed(names: Sequence[Name], schemes: Sequence[Scheme]) -> tuple[_Names, _Names]:
    """The tensors that these need behind each stage of the layers, and of their readouts."""
    read = tuple(dict.fromkeys([_K, *map(canonical, names)]))
    readouts = (readout for scheme in schemes for readout in scheme.readouts)
    behind = [read_through(read, each) for each in readouts]
    needs = sorted({need for needs, _ in behind for need in needs}) if behind else names
    return closures([_K, *needs], schemes), tuple(names for _, names in behind)


def _closed(net: Network, depth: int, samples: int) -> bool:
    """True if only permutations keep the law behind one of the layers."""
    return bool(around_matrices(net.schemes(depth, samples).distinct))


def _closed_among(net: Network, depth: int, samples: int, names: Sequence[Name]) -> list[Name]:
    """The tensors among these that close on functionals, if only permutations keep the law."""
    own = dict.fromkeys(map(canonical, names)) if _closed(net, depth, samples) else ()
    return [name for name in own if name in skip_closure.SKIP_TENSORS]


def around_matrices(schemes: Iterable[Scheme]) -> list[Layered]:
    """The layers that are a skip around one matrix: the law behind one only permutations keep."""
    layers = [scheme.layer for scheme in schemes if scheme.layer]
    return [layer for layer in layers if not layer.is_rotation_invariant]


class _Run(NamedTuple):
    """The tensors at every layer, layer first, their errors of rounding, and the sizes of what was
    added up; the values as the layers list them; and which layer is the first."""

    values: dict[Name, Array]
    errors: dict[Name, Array]
    sizes: dict[Name, Array]
    rows: list[Array]
    first: int

    def judged(self, name: Name) -> accuracy.Judged:
        own = canonical(name)
        return accuracy.judged(self.values[own], self.errors[own], self.sizes[own], self.first)

    @property
    def largest_kernel(self) -> Array:
        """The largest variance at each layer."""
        K = np.abs(self.values[_K])
        return np.asarray(K.reshape(len(K), -1).max(axis=1))


def _check_finite(outcome: _Run, asked: _Asked, layers: _Runnable) -> None:
    """Raise InputError for the first layer at which a tensor is not finite; K is looked at first,
    for the others follow from it."""
    tensors, net = outcome.values, asked.net
    finite = {
        name: np.isfinite(each.reshape(len(each), -1)).all(axis=1) for name, each in tensors.items()
    }
    bad = {name: int(np.argmin(each)) for name, each in finite.items() if not each.all()}
    if not bad:
        return
    name = min(bad, key=lambda each: (bad[each], each != _K))
    place = bad[name]
    below = max(place - 1, 0)
    at = asked.data.first + place
    if place:
        values = asked.symbols | asked.own
        columns = np.array([[values[each][at - 1] for each in layers.parameters]])
        found = layers.degenerate([each[below] for each in outcome.rows], columns, at)
        if found is not None:
            raise limits.no_value(net, asked.data, UndefinedError(found).at(at - 1, name))
    K = float(np.abs(tensors[_K][below]).max())
    reason = _why_not_finite(layers, tensors[_K][below]) if place else _START[at > 1]
    got = f"{net}, whose {name.label} is not finite at layer {at}: {reason}"
    got += f" (K = {K:.3g} at layer {at - 1})" if place else ""
    raise InputError("net", Words(got), "inputs and variances for which every tensor is finite")


_START = "in the inputs' layer", "in a layer before"


def _why_not_finite(layers: _Runnable, K: Array) -> str:
    """The quantity that went beyond doubles above a layer of this kernel."""
    if not np.isfinite(K).all():
        return "so is K in the layer below"
    known = None if isinstance(layers, TangentLayers) else layers.averages
    if known is None:
        return "an average, or a product of tensors and averages, is beyond doubles"
    averages, _ = known(K.reshape(-1) if K.size == 1 else K)
    if (K > 0).all() and np.isnan(averages).all():
        return "σ varies too fast over the range of z for a quadrature with steps of 1e-5"
    if not np.isfinite(averages).all():
        return "an average over z is beyond doubles"
    return "a product of tensors and averages is beyond doubles"


def _lost_at(name: Name, outcome: _Run, at_unit: Callable[[], _Run], share: float) -> int | None:
    """The first row at which the tensor's error exceeds this share of it."""
    largest = outcome.largest_kernel
    return accuracy.lost_at(outcome.judged(name), largest, lambda: at_unit().judged(name), share)


def _check_digits(
    name: Name, outcome: _Run, at_unit: Callable[[], _Run], asked: _Asked, balls: str
) -> None:
    """Raise InputError where rounding leaves too few digits of this tensor: `accuracy`.

    Arguments:
        balls: why they do not have it either, if they were asked.
    """
    row = _lost_at(name, outcome, at_unit, accuracy.LOST)
    if row is not None:
        K = f"K = {outcome.largest_kernel[max(row - 2, 0)]:.3g}"
        left, layer = accuracy.digits(outcome.judged(name), row), asked.data.first - 1 + row
        got = f"{asked.net}, of whose {name.label} at layer {layer} rounding leaves {left} digits"
        got += f", at {K}"
        wanted = "a kernel at which some are left"
        raise InputError("net", got, f"{wanted} (balls: {balls})" if balls else wanted)
