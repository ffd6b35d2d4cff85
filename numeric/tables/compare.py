"""Theory against simulation: z-scores with every comparison counted, and what would have been seen.

One width is compared with the series in 1/n as far as the flow has it (K + G1/n + …); the error
then allows for the first term that the flow lacks, `NEXT_TERM` times the last one over n. Several
widths are extrapolated: y(n) = c_0 + c_1/n + … by weighted least squares, and c_0 meets the leading
term, with the fit's error in the z-score.

A comparison that agrees says no more than its resolution: bound·se/|theory|, the relative change of
the theory that would have been noticed. Of a tensor of several inputs the size that counts is the
tensor's: a wrong pairing, factor or term changes its largest components, and the smallest ones by
no more. So a row has its own resolution, and the comparison is judged by each row's bound·se over
the largest component of its tensor in its layer.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy
import xarray

from derive.errors import InputError, as_integer, as_sequence, check_installed

from .. import checks
from ..arrays import Array
from .alike import alike
from .fits import intercepts, twin, values_of
from .layout import ACCURACY, orbits_apart, tensors
from .normalise import natural_size
from .scores import LEGEND, Row, by_layer, markup, percent, runs, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ACCURACY", "Comparison", "Row", "compare", "percent"]

SERIES = {
    "K": ("K", "G1", "G2"),
    "G1": ("G1", "G2"),
    "V": ("V", "V2"),
    "Theta": ("Theta", "Theta1"),
}
"""The series of a measured tensor: the coefficients of 1, 1/n, 1/n², … After training, `x` and
`x1` are those of every number x."""

NEXT_TERM = 10.0
"""The largest assumed ratio of the next coefficient of a series in 1/n to the last known one."""

VANISHES = 0.01
"""Of a number's natural size: what is smaller counts as zero, and is judged by that size."""

WEAK = 0.2
"""The resolution above which what agrees is called weak: it would have agreed with too much."""

FALSE_ALARMS = 5.7e-7
"""The chance that a Comparison that should agree does not: that of one number beyond 5 sigma."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Every derived number beside its sampled one.

    Attributes:
        rows: all comparisons, tensor by tensor, layer by layer; components that are one number by
            a symmetry of the tensor have one row.
        bound: the |z| that all stay under but for `false_alarms` of cases (Bonferroni, Student's
            t with the blocks of draws as its degrees of freedom).
        false_alarms: the chance of disagreement by accident, all comparisons together.
        widths: of the simulations; more than one are extrapolated in 1/n.
        degree: of the polynomial in 1/n.
        skipped: the layers, or steps, that not every table has; they are not compared.
        leading: with one width, the tensors for which theory has the leading term only. Their
            errors allow for the term of order 1/n.
    """

    rows: tuple[Row, ...]
    bound: float
    false_alarms: float
    widths: tuple[int, ...]
    degree: int
    skipped: tuple[float, ...] = ()
    leading: tuple[str, ...] = ()

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors, each once."""
        return tuple(dict.fromkeys(row.tensor for row in self.rows))

    @property
    def worst(self) -> Row:
        """The row with the largest |z|."""
        return max(self.rows, key=lambda row: abs(row.z))

    @property
    def agrees(self) -> bool:
        """True if no |z| exceeds the bound: nothing contradicts the theory."""
        return abs(self.worst.z) <= self.bound

    @property
    def coarsest(self) -> Row:
        """The row with the worst resolution, as a share of its tensor."""
        return max(self.rows, key=lambda row: row.share)

    @property
    def resolution(self) -> float:
        """The worst of all rows: a theory that differs by more anywhere, as a share of the tensor's
        largest component in that layer, would have been noticed."""
        return self.coarsest.share

    @property
    def unresolved(self) -> tuple[Row, ...]:
        """The rows that resolve worse than `WEAK` of their tensor, the worst first."""
        rows = [row for row in self.rows if not row.share <= WEAK]
        return tuple(sorted(rows, key=lambda row: -row.share))

    @property
    def resolved(self) -> dict[str, tuple[float, ...]]:
        """Of each tensor the layers, or steps, in which no row is `unresolved`."""
        every = {row.tensor: {each.layer for each in self.rows} for row in self.rows}
        weak = {(row.tensor, row.layer) for row in self.unresolved}
        return {
            name: tuple(sorted(at for at in layers if (name, at) not in weak))
            for name, layers in every.items()
        }

    @property
    def _told_resolved(self) -> str:
        """The layers of each tensor that are resolved."""
        axis = self.rows[0].axis
        many = {name: "s" * (len(own) > 1) for name, own in self.resolved.items()}
        resolved = ((name, own) for name, own in self.resolved.items() if own)
        told = [f"{name} at {axis}{many[name]} {runs(own)}" for name, own in resolved]
        return f"resolved to {percent(WEAK)}: {'; '.join(told) or 'nothing'}"

    @property
    def weak(self) -> bool:
        """True if it agrees, but resolves worse than `WEAK`."""
        return self.agrees and bool(self.unresolved)

    @property
    def verdict(self) -> str:
        """In a word: "agrees", "weak" or "DISAGREES"."""
        return "weak" if self.weak else "agrees" if self.agrees else "DISAGREES"

    @property
    def table(self) -> str:
        """All rows as text."""
        return text(self.rows)

    @property
    def by_layer(self) -> str:
        """A line for each tensor and layer: how many numbers, how many weak, the largest |z|."""
        return by_layer(self.rows, WEAK)

    @property
    def summary(self) -> str:
        """The verdict in a line."""
        widths = ", ".join(map(str, self.widths))
        fit = f", extrapolated in 1/n (degree {self.degree})" if self.degree else ""
        count = f"{len(self.rows)} comparison" + "s" * (len(self.rows) > 1)
        return (
            f"{self.verdict}: {count} at n = {widths}{fit}; largest |z| {abs(self.worst.z):.2f}, "
            f"bound {self.bound:.2f} (false alarms {self.false_alarms:.1e}); resolves "
            f"{percent(self.resolution)} ({self.coarsest.place}){self._told_left_out}"
            f"{self._told_leading}{self._told_skipped}"
        )

    @property
    def _told_skipped(self) -> str:
        if not self.skipped:
            return ""
        axis = f"{self.rows[0].axis}s"[: None if len(self.skipped) > 1 else -1]
        return f"; not in every table: {axis} {runs(self.skipped)}"

    @property
    def _told_leading(self) -> str:
        if not self.leading:
            return ""
        names = ", ".join(self.leading)
        return (
            f"; at one width theory of {names} has no term of order 1/n, for which the errors allow"
        )

    @property
    def advice(self) -> str:
        """Advice for a closer test; empty if there are several widths."""
        if not self.leading:
            return ""
        following = [SERIES[name][1] for name in self.leading if len(SERIES.get(name, ())) > 1]
        also = f", or a flow that has {', '.join(following)} too" if following else ""
        return f"For a closer test compare with simulations at several widths{also}."

    @property
    def _told_left_out(self) -> str:
        row = self.left_out
        if row is None:
            return ""
        share = percent(_over(abs(row.within), row.largest))
        return f"; with what theory is known to leave out, {share} at most ({row.place})"

    @property
    def left_out(self) -> Row | None:
        """The row of whose tensor theory is known to leave out the largest share, `Row.within` over
        `Row.largest`; None where nothing is known."""
        known = [row for row in self.rows if row.within]
        return max(known, key=lambda row: _over(abs(row.within), row.largest), default=None)

    def _largest(self, count: int) -> list[Row]:
        return sorted(self.rows, key=lambda row: -abs(row.z))[:count]

    def __str__(self) -> str:
        shown = f"{self.summary}\n{text(self._largest(5))}"
        if self.unresolved:
            count = f"{len(self.unresolved)} of {len(self.rows)} resolve worse than {percent(WEAK)}"
            shown = f"{shown}\n{self._told_resolved}\n{count}\n{text(self.unresolved[:5])}"
        return "\n".join(filter(None, [shown, LEGEND, self.advice]))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The verdict and the largest scores, for a notebook."""
        below = " ".join([LEGEND, self.advice]).rstrip()
        return markup(self._largest(10), self.summary, below)

    def plot(self, tensors: str | Sequence[str] | None = None) -> Figure:
        """Draw theory as lines and samples as points with error bars, one panel for each tensor.

        Arguments:
            tensors: names of tensors, or of single components such as "V_1222". The default is all
                tensors, with their first six components.

        Raises InputError for an unknown name. Components that are equal by symmetry share a line,
        as in `rows`.
        """
        check_installed("plot", "plot", "matplotlib")
        from .plot import compared  # noqa: PLC0415  (the other way round for everybody else)

        return compared(self.rows, tensors)


def compare(
    flowed: xarray.Dataset,
    simulated: xarray.Dataset | Sequence[xarray.Dataset],
    false_alarms: float = FALSE_ALARMS,
    degree: int | None = None,
) -> Comparison:
    """Compare what was derived with what was sampled, in every tensor and layer that both have.

    Arguments:
        flowed: from `flow`.
        simulated: from `simulate`; or several of the same network and inputs, at different widths
            or from different seeds.
        false_alarms: the chance of disagreement by accident, all comparisons together.
        degree: of the polynomial in 1/n fitted to several widths; one less than their number, at
            most 2, if not given. The error counts in the first term left out, by `NEXT_TERM`. Give
            0 at one width where theory is exact there, so that no term is left out.

    What rounding may change in a sample, its `<name>_floor`, or `ACCURACY` times the number where
    the table has none, joins the standard error, and so does the theory's `<name>_error`: an entry
    that does not fluctuate is compared to rounding. The theory's `<name>_within`, what
    it is known to leave out, with its sign, is added to it before the difference is taken; its size
    counts in what is resolved.

    The bound and the error of the extrapolation are derived here: Bonferroni's, with Student's t,
    and weighted least squares. So is the resolution: each row says which relative difference would
    have been noticed, the bound times its error over |theory|. Where theory vanishes it is over
    the natural size: by dimension, from the K and Theta of either table (`natural_size`), else the
    largest entry of the tensor in that layer, or in any. Where the flow has `<name>_size`, such as
    1 for a logarithm, it is over that. All together are judged by the largest component of each
    tensor in each layer (`Row.share`).

    Components whose indices are a permutation of each other, with equal samples and errors at every
    width and equal theory, to `ACCURACY`, are one number: they are compared, and counted, once.

    At one width the sample is compared with all terms of the series that `flow` returned, such as
    K + G1/n. The error allows for the next term: 10 G1/n², or 10 K/n without G1. There is no
    allowance for numbers that do not fluctuate and agree to rounding. Without its 1/n term a theory
    is tested only loosely, and `leading` lists the tensor. A table without the attribute `network`
    counts as exact at that width.

    All tables must have the same network, σ, inputs and user's parameters. Trained networks must
    also have the same depth, η, loss, optimizer, batch, clip, patience and targets. `compare`
    ignores what a table does not state. Theory assumes tensorial descent of all inputs on the
    squared loss, without clip or patience.

    Behind a function of m exchangeable samples the series is one in m/n: the terms left out may be
    those of a series whose coefficients grow by m, from that of 1/n on.

    | what | counts as the same |
    |---|---|
    | widths of a network | equal ratios n_ℓ/n; the outputs of a dense network do not count |
    | numbers in a network | equal values, 0.1 and 1/10 |
    | expressions, such as σ or those in ℓ | equal text |
    | inputs | one kernel x·x'/n_0; of trained networks equal numbers |
    | test inputs | the first ones of a table that has more, which are left out |
    | layers and steps | those of all tables; `skipped` lists the others |
    | positions that were chosen | those of all tables, by their numbers |
    | exchangeable inputs | equal q and p, and equal m behind a function of all samples |

    To compare different tables on purpose, change the attribute,
    `table.assign_attrs(optimizer="tensorial")`, or remove it from both tables,
    `table.attrs.pop("clip")`.

    Raises:
        InputError: if the tables have nothing in common, differ in shape, network, inputs or
            training, or are not finite; if theory and sample are swapped; if two samples have the
            same width and seed; if there are fewer widths than the fit needs.

    >>> from derive import Network, activations
    >>> from numeric import flow, simulate
    >>> net, x = Network(activations.linear), [1.0, 0.5]
    >>> sampled = simulate(net, x, width=10, depth=2, draws=100, tensors="K")
    >>> scores = compare(flow(net, x, depth=2, tensors="K"), sampled)
    >>> scores.agrees, len(scores.rows)
    (True, 2)
    """
    _check_table("flowed", flowed, "a table from flow")
    sampled = [f"{name}_se" for name in tensors(flowed) if f"{name}_se" in flowed]
    if sampled:
        wanted = "theory, such as a table from flow; samples are the second argument"
        raise InputError("flowed", f"a sample, which has {sampled[0]}", wanted)
    if isinstance(simulated, xarray.Dataset):
        simulated = [simulated]
    tables = as_sequence("simulated", simulated, "a table from simulate, or several")
    false_alarms = checks.probability("false_alarms", false_alarms)
    widths = _widths(tables)
    distinct = len(set(widths))
    truncated = degree is None and distinct == 1 and "network" in flowed.attrs
    degree = min(distinct - 1, 2) if degree is None else degree
    degree = as_integer(
        "degree", degree, 0, distinct - 1, f"0 to {distinct - 1} with widths {widths}"
    )
    axis = _axis(flowed)
    if all(_axis(table) == axis for table in tables):
        flowed, *tables = map(orbits_apart, alike(flowed, tables))
    tables = [_with_coefficients(flowed, table) for table in tables]
    names = [name for name in tensors(flowed) if all(name in table for table in tables)]
    axes = [set(table[axis].to_numpy().tolist()) for table in (flowed, *tables) if axis in table]
    layers = sorted(set.intersection(*axes)) if len(axes) == 1 + len(tables) else []
    if not names or not layers:
        have = [tensors(table) for table in (flowed, *tables)]
        raise InputError("simulated", have, f"a tensor and a {axis} that every table has")
    skipped = tuple(sorted(set.union(*axes) - set(layers)))
    flowed, tables = flowed.sel({axis: layers}), [table.sel({axis: layers}) for table in tables]
    rows = tuple(
        row for name in names for row in _rows(name, flowed, tables, widths, degree, truncated)
    )
    freedom = min(float(table.attrs.get("blocks", np.inf)) for table in tables) - 1
    tail = false_alarms / (2 * len(rows))
    known = math.isfinite(freedom)
    bound = -float(scipy.special.stdtrit(freedom, tail) if known else scipy.special.ndtri(tail))
    rows = tuple(_resolved(row, bound * row.se + abs(row.within)) for row in rows)
    allowed = {row.tensor for row in rows if row.next_term} if truncated else set()
    leading = tuple(name for name in names if name in allowed and not _corrections(name, flowed))
    return Comparison(rows, bound, false_alarms, widths, degree, skipped, leading)


def _check_table(argument: str, table: object, wanted: str) -> None:
    """Raise InputError unless the table has tensors by layer or step."""
    if not isinstance(table, xarray.Dataset):
        raise InputError(argument, type(table).__name__, wanted)
    if not {"layer", "step"} & set(table.coords) or not tensors(table):
        names = ", ".join(map(str, table.data_vars)) or "nothing"
        axes = ", ".join(map(str, table.dims)) or "no axis"
        raise InputError(argument, f"a Dataset of {names} by {axes}", wanted)


def _axis(table: xarray.Dataset) -> str:
    """The first axis: of trained networks the steps."""
    return "step" if "step" in table.coords else "layer"


def _with_coefficients(flowed: xarray.Dataset, table: xarray.Dataset) -> xarray.Dataset:
    """Of trained networks: n times what is beyond the limit, beside the coefficients of 1/n."""
    if _axis(table) != "step":
        return table
    n, found = float(table.attrs["width"]), {}
    for name in map(str, flowed):
        coefficient, floor = f"{name}1", ACCURACY * abs(flowed[name]).max()
        if name in table and coefficient in flowed:
            found[f"{name}_floor"] = floor
            found[coefficient] = n * (table[name] - flowed[name])
            found[f"{coefficient}_se"] = n * table[f"{name}_se"]
            found[f"{coefficient}_floor"] = n * floor
    return table.assign(found)


def _widths(tables: Sequence[xarray.Dataset]) -> tuple[int, ...]:
    wanted = "one or more tables from simulate"
    if not tables:
        raise InputError("simulated", tables, wanted)
    for table in tables:
        _check_table("simulated", table, wanted)
        if not any(f"{name}_se" in table for name in tensors(table)):
            raise InputError("simulated", "a table without standard errors, as of theory", wanted)
        if "width" not in table.attrs:
            raise InputError("simulated", "a table without the attribute `width`", wanted)
    return tuple(int(table.attrs["width"]) for table in tables)


def _rows(
    name: str,
    flowed: xarray.Dataset,
    tables: Sequence[xarray.Dataset],
    widths: tuple[int, ...],
    degree: int,
    truncated: bool,
) -> Iterator[Row]:
    samples = np.array([values_of(table, name, "simulated", flowed) for table in tables])
    errors = np.array([values_of(t, f"{name}_se", "simulated", flowed, name) for t in tables])
    floors = np.array([twin(table, name, "_floor") for table in tables])
    width = widths[0] if degree == 0 and len(set(widths)) == 1 else None
    theory, doubt = _theory(name, flowed, width)
    known = twin(flowed, name, "_within", "flowed", signed=True)
    scales = _scales(name, flowed, tables, theory)
    largest = scales if f"{name}_size" in flowed else np.maximum(scales, _largest(theory))
    powers = np.vander(1.0 / np.array(widths), degree + 1, increasing=True)
    measured = np.concatenate([samples, errors])
    sizes = np.concatenate([theory[None], measured]).reshape(1 + len(measured), len(theory), -1)
    rounding = ACCURACY * abs(sizes).max(axis=2)
    of_floors = floors.reshape(len(floors), len(theory), -1).max(axis=2)
    rounding[1 : 1 + len(floors)] = np.maximum(rounding[1 : 1 + len(floors)], of_floors)
    distinct = tuple(_distinct(theory, measured, rounding))
    floors = np.maximum(floors, ACCURACY * abs(theory))
    noise = np.hypot(errors, floors)
    found, error, left_out = intercepts(powers, samples, noise, NEXT_TERM, _batch(flowed))
    if _batch(flowed):
        left_out = _growing(left_out, largest)
    ses, differences = np.hypot(np.hypot(error, left_out), doubt), found - theory - known
    if truncated:
        exact = ~errors.any(axis=0) & (abs(differences) <= floors.max(axis=0) + doubt)
        left_out = np.where(exact, 0.0, _next_term(name, flowed, widths[0], largest))
        ses = np.hypot(ses, left_out)
    axis = _axis(flowed)
    layers, *numbers = (flowed[each].to_numpy().tolist() for each in flowed[name].dims)
    for place in distinct:
        difference, se, within = (float(each[place]) for each in (differences, ses, known))
        z = difference / se if se else (math.copysign(math.inf, difference) if difference else 0.0)
        derived, sample, layer = float(theory[place]), float(found[place]), layers[place[0]]
        samples_at = tuple(own[at] for own, at in zip(numbers, place[1:], strict=True))
        yield Row(
            *(name, layer, samples_at, derived, sample, se, z),
            next_term=float(left_out[place]),
            scale=float(scales[place]),
            largest=float(largest[place]),
            within=within,
            axis=axis,
        )


def _corrections(name: str, flowed: xarray.Dataset) -> list[str]:
    """The coefficients of 1/n, 1/n², … that the theory has, without a gap."""
    trained = _axis(flowed) == "step"
    following = (f"{name}1",) if trained else SERIES.get(name, (name,))[1:]
    return list(itertools.takewhile(lambda each: each in flowed, following))


def _next_term(name: str, flowed: xarray.Dataset, width: int, largest: Array) -> Array:
    """The allowance at this width for the first term in 1/n that theory does not include."""
    corrections = _corrections(name, flowed)
    if corrections:
        largest = _largest(values_of(flowed, corrections[-1], "flowed", flowed))
    ratio = max(NEXT_TERM, _batch(flowed))
    return ratio * largest / float(width) ** (1 + len(corrections))


def _growing(left_out: Array, largest: Array) -> Array:
    """The terms that a fit leaves out, as a share of the tensor no less than in the layers before:
    a coefficient that vanishes in one layer says nothing of those behind it."""
    shares = np.divide(left_out, largest, out=np.zeros_like(left_out), where=largest > 0)
    most = np.maximum.accumulate(shares.reshape(len(shares), -1).max(axis=1))
    return np.asarray(most.reshape(-1, *[1] * (left_out.ndim - 1)) * largest)


def _batch(flowed: xarray.Dataset) -> float:
    """m of a batch that is normalized, whose series is one in m/n; else 0."""
    return float(flowed.attrs.get("batch_size", 0))


def _distinct(theory: Array, measured: Array, rounding: Array) -> Iterator[tuple[int, ...]]:
    """The places (layer, samples …), one for those that a symmetry of the tensor makes one number:
    their indices are a permutation of each other, and theory and all that was measured are the
    same to rounding.

    Arguments:
        theory: (layers, samples …).
        measured: (numbers, layers, samples …).
        rounding: of theory and of each number that was measured, (1 + numbers, layers).
    """
    seen: dict[tuple[int, ...], list[Array]] = {}
    numbers = np.concatenate([theory[None], measured])
    for place in np.ndindex(theory.shape):
        at: tuple[slice | int, ...] = (slice(None), *place)
        value, same = numbers[at], seen.setdefault((place[0], *sorted(place[1:])), [])
        if not any((abs(value - other) <= rounding[:, place[0]]).all() for other in same):
            same.append(value)
            yield place


def _largest(theory: Array) -> Array:
    """The size of the tensor's largest component in each layer, in the tensor's shape."""
    most = abs(theory).max(axis=tuple(range(1, theory.ndim)), keepdims=True)
    return np.broadcast_to(most, theory.shape)


def _resolved(row: Row, noticed: float) -> Row:
    """With what would have been noticed is of its own scale and of its tensor."""
    own, share = (_over(noticed, size) for size in (row.scale, row.largest))
    return replace(row, resolution=own, share=share)


def _scales(
    name: str, flowed: xarray.Dataset, tables: Sequence[xarray.Dataset], theory: Array
) -> Array:
    """The scale to which a difference of each entry is compared."""
    if f"{name}_size" in flowed:
        return twin(flowed, name, "_size", "flowed")
    wider = flowed
    for table in tables:
        wider = wider.assign({k: table[k] for k in ("K", "Theta") if k in table and k not in wider})
    size = natural_size(name, wider)
    if size is None or not size.all():
        largest = abs(theory).reshape(len(theory), -1).max(axis=1)
        largest = np.where(largest, largest, largest.max())
        size = np.broadcast_to(largest.reshape(-1, *[1] * (theory.ndim - 1)), theory.shape)
    return np.where(abs(theory) >= VANISHES * size, abs(theory), size)


def _over(noticed: float, scale: float) -> float:
    """Their ratio; infinite where nothing says what is small, and 0 where nothing is in doubt."""
    return noticed / scale if scale else math.inf if noticed else 0.0


def _theory(name: str, flowed: xarray.Dataset, width: int | None) -> tuple[Array, Array]:
    """The leading term, or the series at one width as far as the flow has it, and its error."""
    total = values_of(flowed, name, "flowed", flowed)
    error = twin(flowed, name, "_error", "flowed")
    for order, correction in enumerate(_corrections(name, flowed) if width else (), 1):
        part = float(width or 1) ** -order
        total = total + part * values_of(flowed, correction, "flowed", flowed)
        error = error + part * twin(flowed, correction, "_error", "flowed")
    return total, error
