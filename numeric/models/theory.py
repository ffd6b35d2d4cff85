"""Theory of a model that was read: by layer, at its width, deeper, and otherwise made."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import sympy
import xarray

from derive import layers
from derive.activations import linear
from derive.activations.functions import Activation
from derive.depth.criticality import criticality
from derive.depth.information import mutual_information, v
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from derive.layers.by_depth import Layers
from derive.layers.chain import Activations, Laws
from derive.layers.per_layer import PerLayer
from derive.network import Network
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from ..flows import flow, flow_of_all
from ..layers import averages
from ..layers.adjoint import CAUTION
from ..tables import layout
from ..tables.compare import NEXT_TERM
from ..training.rates import learning_rate
from .attention import correlation, heads
from .description import Description
from .laws import Law
from .networks import law_of_biases, law_of_weights

_SERIES = {"K": ("K", "G1"), "V": ("V", "V2"), "Theta": ("Theta", "Theta1")}
_MEANS = ("K", "Theta")
"""The means that theory falls back on where no other tensor is known."""
_ONE_NEURON = "kappa(H,H|0123)"
MOST_INPUTS = 8
"""Inputs of which a report computes theory, at most."""
FLUCTUATES = 0.1
"""The |V|/(nK²) up to which one network is much like another, so that theory describes each."""
_DEEPEST = 1024
"""Layers to which a model's blocks are repeated, …"""
_DEEPEST_SIGNAL, _MOST_POSITIONS = 64, 64
"""Layers of a signal, whose V takes an ensemble of averages at each depth, and its positions."""
_ACCURACY = 1e-4
"""The change of a tensor in a report that rounding may make."""
_FIRST = 8
"""Layers that say first how K grows."""
_LARGEST = 1e5
"""… and K up to which they are, unless σ is scale-invariant: averages over wider z take as many
more nodes as these are wider."""
_STEP = 1e-4
"""Of the inputs' length, to differentiate K by."""
_HIDDEN = 1e-9
"""A relative change of K of which rounding leaves some six digits."""
SAMPLED_FROM = 6
"""Samples of a batch behind a normalization from which on the tangent kernel of networks has a
variance."""
_MOST_TOKENS = 8
"""Positions of attention whose V is computed at each layer."""
_DRAWS = 4000
"""For V of the outputs of signals."""


class Theory(NamedTuple):
    """By layer, at the model's width n.

    Attributes:
        first: K, Theta, and `spread`, the standard deviation of the tangent kernel at an input;
            each with `…_error`, what the terms in 1/n that are left out may be: of a layer's
            largest component, as a small one has no smaller next term.
        second: V, likewise; and K at leading order, whose square V is small against.
        parallel, perpendicular: χ_∥ and χ_⊥ of every layer at the first input.
        missing: the tensors that are not known for such layers, with the reason.
        uncertain: relative, of every layer: what the errors of measured variances of weights and
            biases make of K; at most twice that of V, Θ, its spread, χ and the Jacobian.
        variances: K of every layer at the first input, the mean over the positions of a signal.
        tokens: the mean correlation of two positions of the first input, by layer.
        fluctuations: V/(nK²) of a position of one input, their mean, by layer, where it is known.
        below: K of the layers before these, of signals of other positions: means over these, with
            their errors. None where there are none.
    """

    first: xarray.Dataset
    second: xarray.Dataset
    parallel: Array
    perpendicular: Array
    missing: dict[str, str]
    uncertain: Array
    variances: Array
    below: xarray.Dataset | None = None
    tokens: Array | None = None
    fluctuations: Array | None = None


def theory(description: Description, X: Array, orders: int = 2) -> Theory:
    """Of a model at these inputs, (m, n_0), or signals.

    Arguments:
        orders: 0 for K, V and Θ alone; 1 with corrections and the spread of Θ; 2 with what takes
            longer, V2, and V of signals.
    """
    net, depth = description.network, description.depth
    n = float(net.width or 1)
    X = description.samples(X)
    given = X[0] if len(X) == 1 else X
    known, missing = dict[str, Array](), dict[str, str]()
    sampled, averages = np.zeros(()), description.averages_scores
    first, parts = description.first, list[Array]()

    def run(names: Sequence[str], **options: Any) -> xarray.Dataset:
        """`flow`, which keeps K of the layers before the first in `parts`."""
        if first == 1 or "K" not in names:
            return flow(net, given, depth, names, width=net.width, **options)
        table, own = flow_of_all(net, given, depth, names, width=net.width, **options)
        parts[:] = _of_all(own, len(X), "K")
        return table

    for names, draws in _wanted(description, X, orders):
        try:
            if draws:
                table = flow(net, given, depth, names, width=net.width, draws=draws)
            else:
                table = run(names) if averages else _evaluated(run, names)
        except InputError as error:
            if names == ("K",):
                raise
            means = [name for name in names if name in _MEANS and len(names) > 1]
            missing |= {name: error.wanted for name in names if name not in means}
            if not means:
                continue
            table = run(means)
        known |= {name: table[name].to_numpy() for name in names if name in table}
        has_error = draws or (averages and "V" in names)
        sampled = table["V_error"].to_numpy() / CAUTION if has_error else sampled
    fan_in = min(n, float(description.widths[0]))
    layers, below = range(first, depth + 1), None
    tokens = np.full(depth, np.nan)
    K = known["K"].reshape(len(layers), len(X), len(X))
    if first > 1:
        tokens[: first - 1] = [correlation(each[:, 0, :, 0]).item() for each in parts]
        K = np.concatenate([_over_positions(parts)[:, 0], K])
    coarse = _coarseness(description)
    doubts = _doubt(description, K) + _of_few(description) * (np.arange(len(K)) > 0)
    doubt, values = doubts[first - 1 :], {}
    for name, (leading, next_one) in _SERIES.items():
        if leading not in known:
            continue
        total, last, power = known[leading], known[leading], 1.0
        if next_one in known:
            total, last, power = known[leading] + known[next_one] / n, known[next_one], 2.0
        part = coarse * NEXT_TERM / n**power + np.zeros(len(total))
        left_out = _by_layer(part, last) + _by_layer(doubt, total)
        if name != "V" and not description.is_exact:
            left_out = left_out + _by_layer(1 / fan_in + np.zeros(len(total)), known[name])
        if name == "V":
            left_out = np.hypot(left_out, sampled)
        values[name] = total, left_out + 0 * total
    arrays = {name: values[name] for name in values if name != "V"}
    if "A" in known:
        own = known.get(_ONE_NEURON, np.zeros(()))
        total = known["A"] + 2 * known["B"] + own
        variance = (total if len(X) == 1 else np.einsum("laaaa->la", total)) / n
        spread = np.sqrt(np.maximum(variance, 0))
        next_term = coarse * NEXT_TERM * spread / n
        arrays["spread"] = spread, next_term + _by_layer(doubt, spread)
    if first > 1:
        of_below = K[: first - 1, 0, 0] if len(X) == 1 else K[: first - 1]
        share = coarse * NEXT_TERM / n + doubts[: first - 1]
        below = _table(
            range(1, first), {"K": (of_below, _by_layer(share, of_below) + 0 * of_below)}
        )
    V = {"V": values["V"]} if "V" in values else {}
    chi = np.full((2, depth), np.nan)
    until = depth if orders > 1 or first == 1 else first - 1  # behind these takes as long again
    if description.has_susceptibilities:
        chi[:, :until] = susceptibilities(_cut(net, until, depth), X[0], until, K[:until, 0, 0])
    return Theory(
        _table(layers, arrays),
        _table(layers, {**V, "K": (known["K"], 0 * known["K"])}),
        chi[0],
        chi[1],
        missing,
        np.zeros(depth),
        K[:, 0, 0],
        below,
        tokens,
        of_positions(net, X, first - 1, depth, n) if averages else None,
    )


def _evaluated(evaluate: Callable[..., xarray.Dataset], *given: Any, **options: Any) -> Any:
    """A table by `flow` or `learning_rate`, in floats where those have enough digits: the digits
    that are lost otherwise take seconds."""
    try:
        table = evaluate(*given, **options, seconds=0)
    except InputError:
        return evaluate(*given, **options)
    known = [name for name in table if f"{name}_error" in table]
    if all(_is_close(table[name], table[f"{name}_error"]) for name in known):
        return table
    return evaluate(*given, **options)


def _is_close(values: xarray.DataArray, errors: xarray.DataArray) -> bool:
    """True if rounding changes no layer by more than `_ACCURACY` of its largest component."""
    return bool((largest(errors) <= _ACCURACY * largest(values)).all())


def of_positions(net: Network, X: Array, end: int, depth: int, width: float) -> Array | None:
    """V/(nK²) at the positions of one input, their mean, by layer; None where it takes long."""
    count = math.prod(X.shape[1:-1])
    if len(X) > 1 or not 1 < count <= _MOST_TOKENS or end < 1:
        return None
    table = flow(_cut(net, end, depth), X[0], end, ["K", "V"], width=int(width))
    K, V = (table[name].to_numpy() for name in ("K", "V"))
    ratios = np.einsum("ltttt->lt", V) / (width * np.einsum("ltt->lt", K) ** 2)
    return np.asarray(ratios.mean(axis=1))


def _coarseness(description: Description) -> float:
    """By how much each order in 1/n is larger where layer 1 is a sum over few inputs of what is not
    Gaussian, n/n_0; and where heads of d neurons fluctuate by themselves, d."""
    own = heads(description.structure, description.laws)
    sizes = [each.size for each in own if each.node.over != "n"]
    (node, *_) = description.structure.matrices(description.structure.blocks)
    n = float(description.network.width or 1)
    is_free = description.laws[node.weight].keeps_rotations
    return max(1.0 if is_free else n / node.fan_in, 1.0, *sizes)


def _of_few(description: Description) -> float:
    """Relative, behind layer 1: what a sum over n_0 inputs may change by at order (κ/n_0)², which
    no series in 1/n sees where σ oscillates within z."""
    (node, *_) = description.structure.matrices(description.structure.blocks)
    return float((description.laws[node.weight].kurtosis / node.fan_in) ** 2 / 24)


def _doubt(description: Description, K: Array) -> Array:
    """Relative, by layer: what biases that are not Gaussian may change, as they stand for Gaussian
    ones. At a neuron they have the cumulant κ C_b², which the next layer's averages see: through σ,
    and where that layer is no W σ(z), as they are, too."""
    found = np.zeros(len(K))
    for at, (block, behind) in enumerate(pairwise(description.structure.blocks)):
        nodes = description.structure.matrices([block])
        laws = [law for each in nodes if (law := law_of_biases(each, description.laws))]
        excess = max((abs(law.kurtosis) * float(law.C) ** 2 for law in laws), default=0.0)
        found[at + 1] = found[at]
        if excess:
            seen = [behind.function] if behind.function else []
            seen += [] if is_plain(description, at + 2) else [linear]
            variances = np.diagonal(np.atleast_2d(K[at]))
            found[at + 1] += excess * max(_sensitivity(each, variances) for each in seen)
    return found


def with_reading(description: Description, derived: Theory) -> Theory:
    """With what the errors of measured C_W and C_b make of K, V ∝ K², Θ and its spread.

    K = C_b + C_W S changes by δC_b + δC_W S, and as much, relative, is carried on to the layers
    behind, or more by d log K'/d log K = χ_∥ K/K'. Θ and its spread have a factor C_W from every
    layer, and what K's change makes of it. Matrices of one shape may have one measured law, whose
    error they share: it adds up from layer to layer; errors of several laws are independent. If
    the sizes of matrices differ by a share s between initializations, K does by 2s, and V has
    n (2s)² K² that theory leaves out. Derived here.
    """
    K = derived.variances
    changes, found = dict[Law, float](), np.zeros(len(K))
    of_sizes = np.zeros(len(K))
    for at, block in enumerate(description.structure.blocks):
        carried = float(derived.parallel[at] * K[at - 1] / K[at]) if at and K[at] else 1.0
        changes = {law: max(1.0, carried) * change for law, change in changes.items()}
        of_sizes[at] = max(1.0, carried) ** 2 * of_sizes[at - 1] if at else 0.0
        for node in description.structure.matrices([block]):
            of_sizes[at] += (2 * description.laws[node.weight].spread) ** 2
            law, added = description.laws[node.weight], law_of_biases(node, description.laws)
            if law.error and node.scale:
                changes[law] = changes.get(law, 0.0) + law.error / float(law.C)
            if added is not None and added.error and node.bias is not None and K[at]:
                law = description.laws[node.bias]
                changes[law] = changes.get(law, 0.0) + added.error / float(K[at])
        found[at] = math.hypot(*changes.values())
    if not found.any():
        return derived
    n = float(description.network.width or 1)

    def wider(table: xarray.Dataset, names: Sequence[str]) -> xarray.Dataset:
        rows = table["layer"].to_numpy() - 1
        errors = {
            name: _by_layer(by_readings(found, name)[rows], table[name].to_numpy())
            for name in names
            if name in table
        }
        return table.assign(
            {f"{name}_error": np.hypot(table[f"{name}_error"], e) for name, e in errors.items()}
        )

    first, second = wider(derived.first, ("K", "Theta", "spread")), wider(derived.second, ("V",))
    if "V" in second:
        rows, others = second["layer"].to_numpy() - 1, [1] * (second["V"].ndim - 1)
        sizes = np.reshape((n * of_sizes * K**2)[rows], (-1, *others))
        second = second.assign({"V_error": np.hypot(second["V_error"], sizes)})
    below = None if derived.below is None else wider(derived.below, ("K",))
    return derived._replace(first=first, second=second, below=below, uncertain=found)


def by_readings(uncertain: Array, name: str) -> Array:
    """The largest relative change of a column, by layer, if K changes by `uncertain`.

    At layer 1 Θ depends on the inputs alone.
    """
    power = np.full(len(uncertain), 1.0 if name == "K" else 2.0)
    if name in {"Theta", "spread"}:
        power[0] = 0.0
    return power * uncertain


def _sensitivity(sigma: Activation, K: Array) -> float:
    """By how much, relative, a cumulant κ_4 at a neuron changes what K, V and Θ are made of, per
    κ_4, the most of inputs with the variances K, (m,).

    ⟨f⟩ changes by κ_4 ⟨∂⁴f⟩/24, where f is σ² (K), σ⁴, of which V has ⟨σ⁴⟩ − ⟨σ²⟩², and σ'² (Θ).
    Derived here.
    """
    average, places = _averages(sigma)
    values = average(K)[0]
    square, fourth, slope = (values[each].sum(axis=1) for each in places)
    V, change = fourth[0] - square[0] ** 2, fourth[1] - 2 * square[0] * square[1]
    shares = [square[1] / square[0], change / V, slope[1] / slope[0]]
    return float(np.max(np.abs(shares)) / 24)


@cache
def _averages(sigma: Activation) -> tuple[averages.Averages, list[Array]]:
    """⟨f⟩ and ⟨∂⁴f⟩ of f = σ², σ⁴ and σ'², and where they are, (2, parts) each."""
    factors = [((0, 0),) * 2, ((0, 0),) * 4, ((0, 1),) * 2]
    wanted = [[Bracket(each, (0,) * outer) for outer in (0, 4)] for each in factors]
    found = averages.of_one(sigma, [each for pair in wanted for each in pair])
    return found, [np.array([found.places[each] for each in pair]) for pair in wanted]


def _by_layer(relative: Array, values: Array) -> Array:
    """So much of the largest component in each layer."""
    return np.asarray((relative * largest(values)).reshape(-1, *[1] * (values.ndim - 1)))


def largest(values: Array | xarray.DataArray) -> Array:
    """The largest component in each layer."""
    return np.asarray(abs(np.asarray(values)).reshape(len(values), -1).max(axis=1))


def _wanted(
    description: Description, X: Array, orders: int
) -> Iterator[tuple[tuple[str, ...], int | None]]:
    """The tensors to compute, those of one tuple together, and the draws for V.

    Independent entries have a part of κ(H, H) at one neuron, which a stand-in for them lacks.
    """
    if description.batch:
        yield from (((each,), None) for each in ("K", "V", *["G1"] * (orders > 0)))
        if len(X) >= SAMPLED_FROM:
            yield ("Theta",), None
        return
    if description.averages_scores:
        yield from (((each,), None) for each in (*_MEANS, *["V"] * (orders > 1)))
        return
    if not description.is_of_vectors:
        yield _MEANS, None
        if orders > 1:
            yield ("V",), _DRAWS
        return
    yield ("K", "V", "Theta"), None
    if not orders:
        return
    yield from ((each, None) for each in (("G1",), ("Theta1",)))
    if description.is_exact:
        own = () if description.network.keeps_rotations else (_ONE_NEURON,)
        yield ("A", "B", *own), None
        if orders > 1 and (len(X) == 1 or (len(X) == 2 and _is_quick(description))):
            yield ("V2",), None


def _is_quick(description: Description) -> bool:
    """True if V2 of two inputs takes seconds: dense layers, and no kinks between curved pieces."""
    plain = all(is_plain(description, at) for at in range(2, description.depth + 1))
    used = _sigmas(description.network, description.depth)
    return plain and all(not sigma.kinks or sigma.is_scale_invariant for sigma in used)


def _sigmas(net: Network, depth: int) -> list[Activation]:
    """σ of layers 1 … depth − 1."""
    return [net.activation_at(at, depth) for at in range(1, depth)]


def _table(layers: range, arrays: dict[str, tuple[Array, Array]]) -> xarray.Dataset:
    values: dict[str, Any] = {name: value for name, (value, _) in arrays.items()}
    values |= {f"{name}_error": error for name, (_, error) in arrays.items()}
    return layout.table(layers, **values)


def susceptibilities(
    net: Network, x: Array, depth: int, K: Array | None = None
) -> tuple[Array, Array]:
    """χ_∥ and χ_⊥ of the layers 2 … depth, NaN at layer 1.

    χ_⊥ is by what Θ grows where layer 1 alone has a learning rate, or the layer below where nothing
    of layer 1 arrives, and χ_∥ the derivative of K by the K below, from inputs that are a little
    longer and shorter: NaN where K does not depend on them. Where rounding hides what arrives of
    them, the biases of the layer below are a little larger instead. Of a signal K and Θ are means
    over the positions, and inputs are longer alone, beside the K that is given.
    """
    first = _learning_first(net, depth)
    one_sided = bool(net.layer.input_axes) and K is not None
    moved = [
        over_positions(
            first, x[None] * (1 + sign * _STEP), depth, "K", "Theta", is_checked=not one_sided
        )[:, :, 0, 0]
        for sign in ((1,) if one_sided else (1, -1))
    ]
    change, theta = moved[0][0] - (K if one_sided else moved[1][0]), np.sum(moved, axis=0)[1]
    parallel, perpendicular = _growth(change), _growth(theta)
    hidden = np.flatnonzero((abs(change) < _HIDDEN * abs(moved[0][0])) & (change[0] != 0))
    for at in [] if one_sided else hidden:
        parallel[at] = _by_biases(net, x, int(at), moved[0][0][at - 1])
    for at in np.flatnonzero(np.isnan(perpendicular[1:])) + 1:  # behind a matrix that is 0
        own = [int(layer == at) for layer in range(1, depth + 1)]
        start = replace(net, lambda_b=own, lambda_W=own)
        (grown,) = over_positions(start, x[None], int(at) + 1, "Theta")[:, :, 0, 0]
        perpendicular[at] = grown[at] / grown[at - 1]
    return parallel, perpendicular


def _by_biases(net: Network, x: Array, at: int, K: float) -> float:
    """χ_∥ of layer at + 1 from biases of layer `at` whose variance is a little larger.

    NaN if that layer has no biases.
    """
    biases = [net.C_b_at(layer, net.width) for layer in range(1, at + 2)]
    more = [*biases[: at - 1], biases[at - 1] + sympy.Float(_STEP * K), biases[at]]
    given = (replace(net, C_b=each, C_b_corrections=()) for each in (biases, more))
    start, end = (over_positions(each, x[None], at + 1, "K")[0, :, 0, 0] for each in given)
    below = end[at - 1] - start[at - 1]
    return float((end[at] - start[at]) / below) if below else math.nan


def propagation(net: Network, x: Array, depth: int) -> tuple[Array, Array]:
    """K and χ_⊥ of the layers 1 … depth at one input; χ_⊥ is NaN at layer 1."""
    first = _learning_first(net, depth)
    K, theta = over_positions(first, x[None], depth, "K", "Theta")[:, :, 0, 0]
    return K, _growth(theta)


def _learning_first(net: Network, depth: int) -> Network:
    """The network with a learning rate of layer 1 alone: Θ then grows by χ_⊥ at each layer."""
    return replace(net, lambda_b=0, lambda_W=[1] + [0] * (depth - 1))


@np.errstate(all="ignore")
def _growth(values: Array) -> Array:
    """Each layer's over that of the layer below; NaN at layer 1."""
    return np.concatenate([[np.nan], values[1:] / values[:-1]])


def over_positions(
    net: Network, X: Array, depth: int, *names: str, is_checked: bool = True
) -> Array:
    """Tensors of two inputs at layers 1 … depth, (names, depth, m, m): of signals, the means over
    positions p of T_(ap)(bp). `is_checked` is as in `flow_of_all`."""
    table, below = flow_of_all(net, X, depth, names, width=net.width, is_checked=is_checked)
    rows = [{name: table[name].to_numpy()[at] for name in names} for at in range(len(table.layer))]
    return _over_positions(_of_all([*below, *rows], len(X), *names)).swapaxes(0, 1)


def _over_positions(layers: Sequence[Array]) -> Array:
    """Means over positions, (layers, names, m, m)."""
    return np.array([np.einsum("napbp->nab", each) / each.shape[2] for each in layers])


def _of_all(layers: Sequence[Mapping[str, Array]], m: int, *names: str) -> list[Array]:
    """Tensors of m · positions samples, layer after layer: (names, m, positions, m, positions)."""
    found = [np.array([each[name] for name in names]) for each in layers]
    sizes = [math.isqrt(each[0].size) // m for each in found]
    shapes = [(len(names), m, positions, m, positions) for positions in sizes]
    return [each.reshape(shape) for each, shape in zip(found, shapes, strict=True)]


def _cut(net: Network, end: int, depth: int) -> Network:
    """The network to layer `end` of depth layers."""
    if end == depth:
        return net
    changed: dict[str, Any] = {
        name: given[:end] if isinstance(given := getattr(net, name), list | tuple) else given
        for name in ("C_b", "lambda_b", "lambda_W")
    }
    own = [net.layer_at(layer, depth) for layer in range(2, max(end, 2) + 1)]
    widths = net.widths[: end + 1] if net.widths else None
    return replace(net, layer=layers.by_depth(stem=own), widths=widths, **changed)


# deeper


class Depth(NamedTuple):
    """How V/(nK²) grows when a model's hidden layer is repeated.

    Attributes:
        name: of the network.
        at_model: V/(nK²) at the model's last hidden layer.
        tenth, one: the depths at which it reaches 0.1 and 1; None where it does not.
        best: the depth at which two neurons share the most information.
        chi: χ_⊥ of the layer that is repeated, at the model's last hidden layer.
        reached: the depth to which this was looked at.
        settled: the V/(nK²) that it comes to rest at; None where it has not.
        why: why it is not known.
    """

    name: str
    at_model: float = np.nan
    tenth: int | None = None
    one: int | None = None
    best: int | None = None
    chi: float = np.nan
    reached: int = 0
    settled: float | None = None
    why: str = ""


@cache
def best_fluctuation() -> float:
    """The V/(nK²) at which `mutual_information` of two neurons is largest."""
    shared = mutual_information(1, 1)
    roots = [float(root) for root in sympy.solve(sympy.diff(shared, v), v) if root != 0]
    return min(root for root in roots if root > 0)


def deeper(description: Description, x: Array) -> Iterator[Depth]:
    """The model's hidden layer repeated, as it is and otherwise made."""
    net, hidden = description.network, description.depth - 1
    if hidden < 2 or not description.has_susceptibilities:
        return
    first = description.structure.blocks[0].node
    has_positions = bool(description.structure.graph.shapes[first])
    n, judged = description.widths[hidden], _judged_signal if has_positions else _judged
    x = description.samples(x[None])[0]
    as_it_is = repeated(description)
    yield judged("as it is", lambda: as_it_is, x, hidden, n)
    if not all(isinstance(net.weights_at(at), Orthogonal) for at in range(2, hidden + 1)):
        yield judged("orthogonal weights", lambda: _orthogonal(as_it_is), x, hidden, n)
    if is_plain(description, hidden):
        C_W = _variance(description, hidden)
        yield judged("critical C_W", lambda: _critical(as_it_is), x, hidden, n)
        if not description.is_of_vectors:
            return
        for name, layer in (
            ("RMS norm before σ", "normalized(rms)"),
            ("skip around two matrices", "residual(skip=1)"),
        ):
            yield _judged(name, _other(as_it_is, layer, C_W), x, hidden, n)


def repeated(description: Description, block: int = 0) -> Network:
    """The model, its last hidden layer repeated, all widths equal; of vectors without its head.
    With a block its last layers, so many, are repeated in turn, without a head."""
    size = block or 1
    net, hidden = description.network, description.depth - 1
    own = [net.layer_at(at, description.depth) for at in range(2, hidden + 1)]
    biases = [net.C_b_at(at) for at in range(1, hidden + 1)]
    own_laws = (net.weights_at(at) for at in range(1, hidden + 1))
    laws = [law if law.group == "O" else Gaussian(law.C_W) for law in own_laws]  # of K and V
    sigmas = _sigmas(net, description.depth)
    is_kept = not description.is_of_vectors and not block  # which lays signals flat
    head = [net.layer_at(hidden + 1, hidden + 1)] if is_kept else []
    end = hidden - (size > 1)  # what a block of several layers applies, it applies inside

    def bias(at: int) -> Any:
        return biases[min(at, hidden - size + (at - hidden - 1) % size + 1) - 1]

    return Network(
        Activations.by_depth(sigmas[: end - size], sigmas[end - size : end]),
        Laws.by_depth(laws[:-size], laws[-size:]),
        C_b=biases[-1] if len(set(biases)) == 1 else bias,
        layer=layers.by_depth(stem=own[:-size], block=own[-size:], head=head),
    )


def is_plain(description: Description, layer: int) -> bool:
    """True if a layer is W σ(z), with biases or without."""
    block = description.structure.blocks[layer - 1]
    return block.function is not None and not (block.norm or block.skip or block.gated)


def _orthogonal(net: Network) -> Network:
    """The same, orthogonal behind layer 1."""
    laws = net.weights.entries if isinstance(net.weights, Laws) else (net.weights,)
    first = net.weights_at(1)
    others = [Orthogonal(law.C_W) for law in laws[isinstance(net.weights, Laws) :]]
    given = Laws.by_depth([first, *others[:-1]], others[-1])
    return replace(net, weights=given, first_weights=None)


def _variance(description: Description, layer: int) -> sympy.Expr:
    node = description.structure.matrices([description.structure.blocks[layer - 1]])[-1]
    return law_of_weights(node, description.laws).C


def _critical(net: Network) -> Network:
    sigma, law = _last(net)
    layer = net.layer if net.layer.input_axes else layers.dense()
    C_b, C_W = criticality(sigma, layer=layer).critical
    return _alike(net, sigma, replace(law, C_W=C_W), layer, C_b)


def _alike(
    net: Network, sigma: Activation, law: WeightEnsemble, layer: Layers, C_b: PerLayer
) -> Network:
    """The network with layers 2, 3, … alike."""
    first = net.weights_at(1)
    return replace(net, activation=sigma, weights=law, first_weights=first, layer=layer, C_b=C_b)


def _last(net: Network) -> tuple[Activation, WeightEnsemble]:
    """σ and the law that are repeated."""
    sigma, law = net.activation, net.weights
    return (
        sigma if isinstance(sigma, Activation) else sigma.entries[-1],
        law if isinstance(law, WeightEnsemble) else law.entries[-1],
    )


def _other(net: Network, layer: str, C_W: sympy.Expr) -> Callable[[], Network]:
    def made() -> Network:
        sigma, law = _last(net)
        own = layers.as_layer(layer)
        return _alike(net, sigma, replace(law, C_W=C_W), own, net.C_b)

    return made


def _judged(name: str, make: Callable[[], Network], x: Array, hidden: int, width: int) -> Depth:
    """Down as many layers as it takes for V/(nK²) to reach 1, `_DEEPEST` at most."""
    try:
        net, ratio = make(), np.zeros(1)
        scaled = all(sigma.is_scale_invariant for sigma in _sigmas(net, hidden + 2))
        K = flow(net, x, max(hidden + 2, _FIRST), "K", width=width)["K"].to_numpy()
        if not K.all():
            return Depth(name, why="K is 0 in its layers")
        for wanted in _depths(hidden):
            depth = wanted if scaled else min(wanted, _within(K))
            if depth <= len(ratio):
                break
            try:
                ratio, K = _ratio(net, x, depth, width)
            except InputError:
                if len(ratio) > 1:
                    break
                raise
            if abs(ratio[-1]) >= 1 or _is_settled(ratio) or depth < wanted:
                break
        _, chi = susceptibilities(net, x, hidden + 1)
    except InputError as error:
        return Depth(name, why=f"{error.got}: {error.wanted}"[:200])
    return Depth(
        name,
        float(ratio[hidden - 1]),
        first_beyond(ratio, FLUCTUATES),
        first_beyond(ratio, 1.0),
        first_beyond(ratio, best_fluctuation()),
        float(chi[-1]),
        len(ratio),
        float(ratio[-1]) if _is_settled(ratio) else None,
    )


def _judged_signal(
    name: str, make: Callable[[], Network], x: Array, hidden: int, width: int
) -> Depth:
    """The same of the outputs of a signal, whose V is sampled at one depth after another."""
    try:
        net = make()
        axes = net.layer.axes(hidden + 2)
        if axes[hidden - 1] != axes[hidden]:
            raise InputError("model", "a last hidden layer that changes the positions", "another")
        if math.prod(axes[hidden]) > _MOST_POSITIONS:
            wanted = f"{_MOST_POSITIONS} at most, where depths are tried one after another"
            raise InputError("model", f"{math.prod(axes[hidden])} positions", wanted)

        @cache
        def ratio(at: int) -> float:
            depth = max(at, hidden) + 1
            own = [net.layer_at(layer, depth) for layer in (*range(2, at + 1), depth)]
            there = replace(net, layer=layers.by_depth(stem=own))
            table = flow(there, x, at + 1, ["K", "V"], width=width, draws=_DRAWS // 4)
            K, V = (float(table[each][-1]) for each in ("K", "V"))
            return V / (width * K**2) if K else math.nan

        reached = hidden
        while abs(ratio(reached)) < 1 and reached < _DEEPEST_SIGNAL:
            reached = min(2 * reached, _DEEPEST_SIGNAL)

        def reaches(value: float) -> int | None:
            if not abs(ratio(reached)) >= value:
                return None
            return 1 + bisect_left(range(1, reached), value, key=lambda at: abs(ratio(at)))

        _, chi = susceptibilities(net, x, hidden + 1)
    except InputError as error:
        return Depth(name, why=f"{error.got}: {error.wanted}"[:200])
    tenth, one, best = (reaches(value) for value in (FLUCTUATES, 1.0, best_fluctuation()))
    return Depth(name, ratio(hidden), tenth, one, best, float(chi[hidden - 1]), reached)


def _depths(hidden: int) -> Iterator[int]:
    depth = max(2 * hidden, 32)
    while depth < _DEEPEST:
        yield depth
        depth *= 4
    yield _DEEPEST


def _within(K: Array) -> int:
    """The depth to which K stays below `_LARGEST`, if it grows on as in the last half."""
    half = len(K) // 2
    growth = math.log(K[-1] / K[half]) / max(1, len(K) - 1 - half)
    if growth * _DEEPEST <= 1:
        return _DEEPEST
    return len(K) + int(min(max(math.log(_LARGEST / K[-1]) / growth, 0), _DEEPEST))


def _is_settled(ratio: Array) -> bool:
    """True if it no longer changes: by a thousandth in the last half, at most."""
    half = ratio[len(ratio) // 2]
    return bool(abs(ratio[-1] - half) <= 1e-3 * abs(half))


def _ratio(net: Network, x: Array, depth: int, width: int) -> tuple[Array, Array]:
    """V/(nK²), and K."""
    table = flow(net, x, depth, ["K", "V"], width=width)
    K, V = (table[name].to_numpy() for name in ("K", "V"))
    with np.errstate(all="ignore"):
        return np.asarray(V / (width * K**2)), K


def first_beyond(ratio: Array, value: float) -> int | None:
    """The first layer at which the size of a number by layer is as large; None if it never is."""
    beyond = np.flatnonzero(abs(ratio) >= value)
    return int(beyond[0]) + 1 if len(beyond) else None


# training


class Rates(NamedTuple):
    """Learning rates of full-batch descent on ½ Σ (z − y)² at the inputs, at the last layer.

    Attributes:
        stable, fastest: the largest stable and the fastest η, with their 1/n term where known.
        spread: the standard deviation of the stable one over initializations, NaN where unknown.
        error: relative, of both, by the errors of measured variances.
        why: the reason, if they are not known.
    """

    stable: float = math.nan
    fastest: float = math.nan
    spread: float = math.nan
    error: float = 0.0
    why: str = ""


_NO_THETA = "theory has no Θ here"
_MOST_CHANGE = 0.5
"""The largest 1/n term of a learning rate, in units of its limit, up to which it is given."""


def rates(description: Description, X: Array, derived: Theory) -> Rates:
    """The learning rates from the last layer's tangent kernel, (m, m), with known fluctuations.

    They are NaN if that layer is not the output, if frozen matrices are taken as trained, and if
    their 1/n term is more than half of the limit.
    """
    ending, thawed = description.structure.ending, description.structure.graph.thawed
    if ending or "Theta" not in derived.first:
        return Rates(why=f"{ending} behind the last layer was not read" if ending else _NO_THETA)
    if thawed:
        return Rates(why=f"{', '.join(thawed)} is frozen beside matrices of its layer")
    net, n = description.network, float(description.network.width or 1)
    X = description.samples(X)
    values = np.linalg.eigvalsh(np.atleast_2d(derived.first["Theta"].to_numpy()[-1]))
    if values[-1] <= 0:
        return Rates(why="Θ is 0, as nothing that is trained changes the outputs")
    stable, fastest = float(2 / values[-1]), float(2 / (values[-1] + values[0]))
    error = 2 * float(derived.uncertain[-1])
    if not description.is_of_vectors:
        return Rates(stable, fastest, error=error)
    try:
        table = _evaluated(learning_rate, net, X, description.depth, width=net.width)
        table = table.isel(layer=-1)
    except InputError:
        return Rates(stable, fastest, error=error)
    found = {name: float(table[name]) for name in ("stable", "fastest")}
    first = {name: float(table[f"{name}1"]) / n for name in found}
    share, name = max((abs(first[name] / found[name]), name) for name in found)
    if share > _MOST_CHANGE:
        return Rates(why=f"at order 1/n the {name} rate changes by {share:.0%} of its limit")
    spread = np.sqrt(max(float(table["stable_variance"]), 0) / n)
    stable, fastest = (found[name] + first[name] for name in ("stable", "fastest"))
    return Rates(stable, fastest, spread, error)
