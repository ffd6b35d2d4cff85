"""`report(model, inputs)`: theory beside what was measured on the model, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.errors import InputError, as_integer
from derive.work.progress import telling

from .. import checks
from ..arrays import Array
from ..tables import layout
from ..tables.compare import WEAK, Comparison, compare
from . import truncation
from .advice import (
    ZERO,
    is_learning,
    is_read_right,
    is_stable,
    is_wide,
    on_tokens,
    ratios_of,
    scaled,
    to_change,
)
from .description import Description, check_shape, joined, read
from .html import Report
from .measurement import Ensemble, Plan, Sample, enough, fewer, measure, plan
from .outputs import LAST
from .resolution import absolute, limits
from .sequential import FALSE_ALARMS, in_looks, looks
from .theory import MOST_INPUTS, Theory, by_readings, deeper, rates, theory, with_reading

_INPUTS = 2
_LARGE = 1e6
"""Parameters from which on one input is measured by default."""
_QUICK, _THOROUGH = 0.25, 6.0
"""Initializations at most, in units of what takes some seconds: by default, and with `more`."""


def report(
    model: Any,
    inputs: ArrayLike | None = None,
    *,
    draws: int | None = None,
    more: bool = False,
    seed: int = 0,
    output: str | int | None = None,
    say: Callable[[str], object] | None = None,
) -> Report:
    """Judge a model of another framework at initialization, layer by layer.

    Arguments:
        model: as that of `read`, or what it gave.
        inputs: (n_0,) or (m, n_0), m = 8 at most; by default the model's `example_input_array` if
            it has one, else two normal ones, or one if the model
            has more than a million parameters. Learning rates are for these as the training set.
        draws: initializations of the model in its own framework that are measured, 4 or more, and
            some more where groups of equal size need them. By default the model is drawn until the
            verdict is known, for some seconds at most.
        more: also resolve V and the spread of Θ, which takes up to a minute.
        seed: of the first of them.
        output: of several outputs, as that of `read`. Of outputs at several tokens, as those of a
            language model, the last one is taken.
        say: called with the first lines, as soon as they are known: what was read, then what
            theory has.

    Returns:
        A `Report`: `findings` first, with what to change; by layer K, V/(nK²), χ_∥, χ_⊥, Θ and its
        spread by theory and as measured, with z-scores; the largest stable learning rate. On
        request singular values of the Jacobian; depths at which fluctuations are 0.1 and 1; what
        other weights, another C_W, a norm or a skip would change.
        Θ is the tangent kernel of descent on the model's own matrices and biases.

    The chance of a false alarm is `sequential.FALSE_ALARMS`, whenever drawing stops. Theory is as
    far as it is known in 1/n at the model's width, and z-scores count in what the next term may be
    (`numeric.compare`); where that is coarse, by how much an ensemble of the network as it was read
    differs from it. Derived here.

    Raises InputError for what `read` refuses, and for inputs that cannot be used.
    """
    draws, seed = None if draws is None else as_integer("draws", draws, 4), checks.seed(seed)
    if isinstance(model, Description) and output is not None:
        raise InputError("output", output, "None for a model that was read, to one output")
    description = model if isinstance(model, Description) else _read(model, inputs, output)
    given = description.example if inputs is None else inputs
    X = _inputs(description, None if given is None else joined(given)[0])
    if description.batch not in (0, len(X)):
        batch = f"{description.batch}, the batch that the model was read with"
        raise InputError("inputs", f"{len(X)} inputs", batch)
    thorough = more or draws is not None
    if say is not None:
        say(description.heading)
    if say is not None and description.is_of_vectors:
        at_once = theory(description, X, 0)
        for finding in (is_stable(description, at_once), is_wide(description, at_once)):
            say(str(finding))
    derived = theory(description, X, 2 if thorough else 1)
    estimated = truncation.TENSORS if description.is_of_vectors else truncation.TENSORS[:-1]
    close = truncation.tightened(derived, estimated)  # V of signals is sampled
    known = with_reading(description, close)
    learning = rates(description, X, known)
    deep = next(deeper(description, X[0]), None) if description.is_of_vectors else None
    scales = scaled(description, X, known)
    graph = description.structure.graph
    held = list(dict.fromkeys([*graph.gains, *graph.frozen]))
    findings = [
        is_stable(description, known),
        is_wide(description, known),
        is_learning(learning, held),
        to_change(description, known, scales, deep),
    ]
    if (on := on_tokens(description, known)) is not None:
        findings.append(on)
    if say is not None:
        for finding in findings[2:] if description.is_of_vectors else findings:
            say(str(finding))
    planned = plan(description, draws or enough(description, _THOROUGH if more else _QUICK))
    planned = planned if thorough else planned._replace(work=_QUICK)
    at = looks(planned.groups) if draws is None else (planned.groups,)
    with telling("initializing the model", total=planned.total) as progress:
        ensemble = Ensemble(description, X, planned, seed + 1000)

        def look(groups: int, alarms: float) -> tuple[Sample, list[Comparison]]:
            sampled = ensemble.extend(groups, progress.advance).sample()
            return sampled, list(_compared(known, sampled, alarms))

        sampled, comparisons = in_looks(at, look, lambda found: _is_decided(*found, thorough))
    wanted = [each for each in comparisons if thorough or is_of_means(each)]
    tensors = truncation.TENSORS if thorough else ("K", "Theta")
    agrees = all(each.agrees for each in comparisons)
    if (draws is not None or not agrees) or any(
        each.weak and limits(each, sampled.table_of(each)).is_of_theory for each in wanted
    ):
        own = planned._replace(groups=ensemble.groups)
        before = close if agrees else derived
        bounded = _bounded(description, before, X, own, seed, tensors)
        told = tuple(truncation.omitted(before, bounded))
        known = with_reading(description, bounded)
        comparisons = list(_compared(known, sampled, FALSE_ALARMS / len(at)))
    else:
        told = ()
    right = is_read_right(comparisons, known, ensemble.draws, FALSE_ALARMS)
    if "V" not in known.second:
        findings[1] = is_wide(description, known, sampled)
        findings[3] = to_change(description, known, scales, deep, sampled)
    return Report(
        description,
        X,
        known,
        sampled,
        tuple(comparisons),
        _by_layer(description, known, sampled),
        learning,
        (right, *findings),
        told,
        seed,
    )


def _read(model: Any, inputs: ArrayLike | None, output: str | int | None) -> Description:
    """`read`; of outputs at several tokens those of the last one."""
    found = read(model, inputs, output=output)
    if len(found.outputs) != 1 or found.framework != "torch":
        return found
    try:
        return read(model, inputs, output=f"{'' if output is None else output}{LAST}")
    except InputError:
        return found


def is_of_means(comparison: Comparison) -> bool:
    """True if it is of K and Θ, which are what a short report decides on."""
    return {"K", "Theta"}.issuperset(comparison.tensors)


def _is_decided(sampled: Sample, comparisons: Sequence[Comparison], thorough: bool) -> bool:
    """True if draws can say no more: something disagrees, or all that is asked is resolved as far
    as draws go."""
    if any(not each.agrees for each in comparisons):
        return True
    asked = [each for each in comparisons if each.weak and (thorough or is_of_means(each))]
    most = WEAK / 2 if thorough else WEAK  # as much again is left to what bounds theory
    return all(limits(each, sampled.table_of(each)).draws <= most for each in asked)


def _bounded(
    description: Description,
    derived: Theory,
    X: Array,
    planned: Plan,
    seed: int,
    tensors: Sequence[str],
) -> Theory:
    """With what theory leaves out by an ensemble of the network as it was read, where the estimate
    of it is coarse."""
    drawn = description.drawn()
    if not truncation.is_coarse(derived, tensors) or not drawn.is_known:
        return derived
    own = fewer(description, planned, len(X))
    with telling("drawing the network as it was read", total=own.total) as progress:
        own = own._replace(tangents=own.per_group)
        networks = truncation.is_coarse(derived, [each for each in ("K", "V") if each in tensors])
        given = description.by_positions(X)
        ensemble = measure(description, given, own, seed, progress.advance, drawn, networks)
    return truncation.bounded(derived, ensemble)


def _compared(derived: Theory, sampled: Sample, alarms: float) -> Iterator[Comparison]:
    """A verdict for each group: each resolves what its theory and its samples let it."""
    share = alarms / (3 if derived.below is None else 4)
    if derived.below is not None:
        assert sampled.below is not None
        yield compare(derived.below, sampled.below, share)
    fluctuations = [str(name) for name in derived.first if str(name).startswith("spread")]
    yield compare(derived.first.drop_vars(fluctuations), sampled.first, share)
    if sampled.second is not None and "V" in derived.second:
        found, n = compare(derived.second, sampled.second, share), sampled.second.attrs["width"]
        yield absolute(found, derived.second, n)
    if "spread" in derived.first:
        yield compare(derived.first[fluctuations], sampled.first, share)


def _inputs(description: Description, given: Array | None) -> Array:
    """Those that were given, or normal ones, in the shape that the model takes."""
    axes = description.reading.axes
    if description.outputs:
        wanted = (
            "one that ends in one position, or in means or a matrix of all: give a module whose "
            "forward returns model(x)[:, -1], or model(x).mean(1)"
        )
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
    if given is None:
        size = sum(map(np.size, description.reading.graph.parameters.values()))
        count = _INPUTS if size <= _LARGE else 1
        return np.random.default_rng(0).standard_normal((count, *axes))
    check_shape(given, axes)
    X = np.reshape(given, (-1, *axes))
    if not 0 < len(X) <= MOST_INPUTS:
        wanted = f"(n_0,) or (m, n_0) finite numbers, m = {MOST_INPUTS} at most"
        raise InputError("inputs", f"shape {X.shape}", wanted)
    if not X.reshape(len(X), -1).any(axis=1).all():
        raise InputError("inputs", "an input of zeros", "inputs none of which is all zeros")
    return X


def _by_layer(description: Description, derived: Theory, sampled: Sample) -> xarray.Dataset:
    """At the first input: what the page's table has."""
    n, first, depth = description.widths[1], description.first, description.depth
    layers, spread = range(1, depth + 1), ["spread"] * ("spread" in derived.first)

    def at(table: xarray.Dataset | None, name: str) -> Array:
        """By layer, NaN where the table has none."""
        column = np.full(depth, np.nan)
        if table is not None and name in table:
            values = table[name].to_numpy()
            column[table["layer"].to_numpy() - 1] = values.reshape(len(values), -1)[:, 0]
        return column

    with np.errstate(all="ignore"):
        K = derived.variances
        ratios, _ = ratios_of(description, derived)
        columns: dict[str, Any] = {"K": K, "ratio": np.where(abs(ratios) < ZERO, 0, ratios)}
        columns |= {"chi_parallel": derived.parallel, "chi_perp": derived.perpendicular}
        columns |= {name: at(derived.first, name) for name in ("Theta", *spread)}
        for ending in ("", "_se"):
            own = {name: at(sampled.first, f"{name}{ending}") for name in ("K", "Theta", "spread")}
            own["K"][: first - 1] = at(sampled.below, f"K{ending}")[: first - 1]
            if sampled.second is not None:
                own["ratio"] = at(sampled.second, f"V{ending}") / (n * K**2)
            columns |= {f"{name}_measured{ending}": each for name, each in own.items()}
        exact = columns["spread_measured"] <= layout.ACCURACY * abs(columns["Theta_measured"])
        for name in ("spread_measured", "spread_measured_se"):  # rounding of what is the same
            columns[name] = np.where(exact, 0.0, columns[name])
        for name in [each for each in columns if "measured" not in each]:
            columns[f"{name}_error"] = by_readings(derived.uncertain, name) * abs(columns[name])
    return layout.table(layers, {"width": n}, **columns)
