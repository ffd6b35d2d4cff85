"""`report(model, inputs)`: theory beside what was measured on the model, and what follows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.errors import InputError, as_integer
from derive.work.progress import telling

from .. import checks
from ..arrays import Array
from ..spectra import layered
from ..tables import layout
from ..tables.compare import FALSE_ALARMS, Comparison, compare
from . import truncation
from .description import Description, joined, read
from .drawn import Drawn
from .html import Jacobian, Report
from .measurement import Plan, Sample, enough, fewer, measure, plan
from .networks import law_of_weights
from .theory import Theory, by_readings, deeper, is_plain, rates, theory, with_reading

_INPUTS = 2
_MOST_INPUTS = 8
_JACOBIANS = 20


def report(
    model: Any,
    inputs: ArrayLike | None = None,
    *,
    draws: int | None = None,
    seed: int = 0,
    output: str | int | None = None,
) -> Report:
    """Judge a model of another framework at initialization, layer by layer.

    Arguments:
        model: as that of `read`, or what it gave.
        inputs: (n_0,) or (m, n_0), m = 8 at most; two normal ones by default. Learning rates are
            for these as the training set.
        draws: initializations of the model in its own framework that are measured, 4 or more, and
            some more where groups of equal size need them; as many as take some seconds by default.
        seed: of the first of them.
        output: of several outputs, as that of `read`.

    Returns:
        A `Report`: by layer K, V/(nK²), χ_∥, χ_⊥, Θ and its spread by theory and as measured, with
        z-scores; singular values of the Jacobian; depths at which fluctuations are 0.1 and 1; what
        other weights, another C_W, a norm or a skip would change; the largest stable learning rate.
        Θ is the tangent kernel of descent on the model's own matrices and biases.

    Theory is as far as it is known in 1/n at the model's width, and z-scores count in what the next
    term may be (`numeric.compare`); where that is coarse, by how much an ensemble of the network
    as it was read differs from it. Derived here.

    Raises InputError for what `read` refuses, and for inputs that cannot be used.
    """
    draws, seed = None if draws is None else as_integer("draws", draws, 4), checks.seed(seed)
    given = None if inputs is None else inputs
    if isinstance(model, Description) and output is not None:
        raise InputError("output", output, "None for a model that was read, to one output")
    description = model if isinstance(model, Description) else read(model, given, output=output)
    X = _inputs(description, None if given is None else joined(given)[0])
    derived = theory(description, X)
    planned = plan(description, enough(description) if draws is None else draws)
    what = f"initializing the model {planned.total} times"
    with telling(what, total=planned.total) as progress:
        sampled = measure(description, X, planned, seed + 1000, progress.advance)
    bounded = _bounded(description, derived, X, planned, seed)
    told = tuple(truncation.omitted(derived, bounded))
    derived = with_reading(description, bounded)
    comparisons = tuple(_compared(derived, sampled))
    return Report(
        description,
        X,
        derived,
        sampled,
        comparisons,
        _by_layer(description, derived, sampled),
        _jacobian(description, derived, X[0], seed),
        tuple(deeper(description, X[0])),
        rates(description, X, derived),
        told,
    )


def _bounded(
    description: Description, derived: Theory, X: Array, planned: Plan, seed: int
) -> Theory:
    """With what theory leaves out by an ensemble of the network as it was read, where the estimate
    of it is coarse."""
    drawn = Drawn(description.structure.graph, description.laws)
    if not truncation.is_coarse(derived) or not drawn.is_known:
        return derived
    own = fewer(description, planned, len(X))
    with telling("drawing the network as it was read", total=own.total) as progress:
        own = own._replace(tangents=own.per_group)
        networks = truncation.is_coarse(derived, ("K", "V"))
        given = description.by_positions(X)
        ensemble = measure(description, given, own, seed, progress.advance, drawn, networks)
    return truncation.bounded(derived, ensemble)


def _compared(derived: Theory, sampled: Sample) -> Iterator[Comparison]:
    """A verdict for each group: each resolves what its theory and its samples let it."""
    share = FALSE_ALARMS / (3 if derived.below is None else 4)
    if derived.below is not None:
        assert sampled.below is not None
        yield compare(derived.below, sampled.below, share)
    fluctuations = [str(name) for name in derived.first if str(name).startswith("spread")]
    yield compare(derived.first.drop_vars(fluctuations), sampled.first, share)
    if sampled.second is not None and "V" in derived.second:
        yield compare(derived.second, sampled.second, share)
    if "spread" in derived.first:
        yield compare(derived.first[fluctuations], sampled.first, share)


def _inputs(description: Description, given: ArrayLike | None) -> Array:
    """Those that were given, or normal ones, in the shape that the model takes."""
    axes = description.reading.axes if description.positions else (description.widths[0],)
    if description.reading.graph.shapes[description.structure.blocks[-1].node]:
        wanted = "one that ends in means over all positions, or in a matrix of all of them"
        raise InputError("model", "outputs at several positions", wanted)
    if any(law.kept for law in description.laws.values()):
        wanted = (
            "filters without taps that are 0 at the start: these learn, so that Θ has a part of "
            "theirs, at other positions than the live taps read; `read` and `flow` have K and V"
        )
        raise InputError("model", "delta-orthogonal filters", wanted)
    if description.reading.takes is not None:
        if given is None:
            wanted = "examples, as the model changes its inputs before the first matrix"
            raise InputError("inputs", None, wanted)
        axes = description.reading.takes
        return _checked(np.reshape(given, (-1, *axes))).reshape(-1, *axes)
    if given is None:
        return np.random.default_rng(0).standard_normal((_INPUTS, *axes))
    if description.positions:
        description.samples(given)
        return _checked(np.reshape(given, (-1, *axes))).reshape(-1, *axes)
    X = _checked(given)
    if X.shape[1] != axes[0]:
        raise InputError("inputs", f"{X.shape[1]} numbers each", f"{axes[0]}, as the model takes")
    return X


def _checked(inputs: ArrayLike) -> Array:
    wanted = f"(n_0,) or (m, n_0) finite numbers, m = {_MOST_INPUTS} at most"
    try:
        X = np.atleast_2d(np.asarray(inputs, float))
    except (TypeError, ValueError):
        raise InputError("inputs", inputs, wanted) from None
    X = X.reshape(len(X), -1) if X.ndim > 2 else X
    if not X.size or not np.isfinite(X).all() or len(X) > _MOST_INPUTS:
        raise InputError("inputs", f"shape {np.shape(inputs)}", wanted)
    if not X.any(axis=1).all():
        raise InputError("inputs", "an input of zeros", wanted)
    return X


def _by_layer(description: Description, derived: Theory, sampled: Sample) -> xarray.Dataset:
    """At the first input: what the page's table has."""
    n, first, depth = description.widths[1], description.first, description.depth
    layers = range(1, depth + 1)

    def at(table: xarray.Dataset | None, name: str) -> Array:
        """By layer, NaN where the table has none."""
        column = np.full(depth, np.nan)
        if table is not None and name in table:
            values = table[name].to_numpy()
            column[table["layer"].to_numpy() - 1] = values.reshape(len(values), -1)[:, 0]
        return column

    with np.errstate(all="ignore"):
        K = derived.variances
        columns: dict[str, Any] = {"K": K, "ratio": at(derived.second, "V") / (n * K**2)}
        columns |= {"chi_parallel": derived.parallel, "chi_perp": derived.perpendicular}
        columns["Theta"] = at(derived.first, "Theta")
        if "spread" in derived.first:
            columns["spread"] = at(derived.first, "spread")
        for name in ("K", "Theta", "spread"):
            for ending in ("", "_se"):
                columns[f"{name}_measured{ending}"] = at(sampled.first, f"{name}{ending}")
        for ending in ("", "_se"):
            of_below = at(sampled.below, f"K{ending}")[: first - 1]
            columns[f"K_measured{ending}"][: first - 1] = of_below
        exact = columns["spread_measured"] <= layout.ACCURACY * abs(columns["Theta_measured"])
        for name in ("spread_measured", "spread_measured_se"):  # rounding of what is the same
            columns[name] = np.where(exact, 0.0, columns[name])
        if sampled.second is not None:
            for ending in ("", "_se"):
                columns[f"ratio_measured{ending}"] = at(sampled.second, f"V{ending}") / (n * K**2)
        for name in [each for each in columns if "measured" not in each]:
            columns[f"{name}_error"] = by_readings(derived.uncertain, name) * abs(columns[name])
    return layout.table(layers, {"width": n}, **columns)


def _jacobian(description: Description, derived: Theory, x: Array, seed: int) -> Jacobian:
    reading, blocks = description.reading, description.structure.blocks
    if description.positions:
        return Jacobian()
    last, hidden = blocks[-1].node, len(blocks) - 1
    made = reading.initialize(range(seed + 1000, seed + 1000 + _JACOBIANS))
    extremes = Jacobian()
    if description.structure.ending is None:
        found = reading.jacobian(made, x, last, 0)
        sizes = (found**2).sum(axis=(1, 2)) / found.shape[1]
        values = np.linalg.svd(found, compute_uv=False)
        first = float(description.network.weights_at(1).C_W)
        size = first * float(np.prod(derived.perpendicular[1:]))
        extremes = Jacobian(
            size,
            float(sizes.mean()),
            float(sizes.std(ddof=1) / math.sqrt(len(sizes))),
            float(values[:, 0].mean()),
            float(values[:, -1].mean()),
            size_error=2 * float(derived.uncertain[-1]) * size,
        )
    if hidden < 2:
        return extremes
    inner = reading.jacobian(made, x, blocks[hidden - 1].node, blocks[0].node)
    between = np.linalg.svd(inner, compute_uv=False)
    return extremes._replace(
        hidden_largest=float(between[:, 0].mean()),
        hidden_least=float(between[:, -1].mean()),
        edges=_edges(description, derived, hidden),
    )


def _edges(description: Description, derived: Theory, hidden: int) -> tuple[float, float] | None:
    """The ends of the spectrum between hidden layers of one width, by free probability."""
    net, blocks = description.network, description.structure.blocks[:hidden]
    plain = all(is_plain(description, number) for number in range(2, hidden + 1))
    if len({block.width for block in blocks}) > 1 or not plain:
        return None
    K = derived.first["K"].to_numpy().reshape(description.depth, -1)[:, 0]
    parts: list[tuple[Any, Any, Any]] = []
    for number in range(2, hidden + 1):
        (at,) = blocks[number - 1].matrices
        node: Any = description.structure.graph.nodes[at]
        C_W = law_of_weights(node, description.laws).C
        ensemble = net.weights_at(number)
        own = type(ensemble)(C_W) if ensemble.group == "O" else None
        sigma = net.activation_at(number - 1)
        parts.append((sigma, own or "gaussian", float(K[number - 2])))
    try:
        spectrum = layered(parts)
        edges = [*np.asarray(spectrum.edges, float).ravel(), *map(float, spectrum.atoms)]
    except InputError:
        return None
    return math.sqrt(max(min(edges), 0.0)), math.sqrt(max(edges))
