"""Theory against simulation: z-scores with every comparison counted, and what would have been seen.

One width is compared with the series in 1/n as far as the flow has it (K + G1/n + …). Several
widths are extrapolated: y(n) = c_0 + c_1/n + … by weighted least squares, and c_0 meets the leading
term, with the fit's error in the z-score.

A comparison that agrees says no more than its resolution: bound·se/|theory|, the relative change of
the theory that would have been noticed. Of a tensor of several inputs the size that counts is the
tensor's: a wrong pairing, factor or term changes its largest components, and the smallest ones by
no more. So a row has its own resolution, and the comparison is judged by each row's bound·se over
the largest component of its tensor in its layer.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import xarray
from scipy import special

from derive.errors import InputError, check_installed, listed, whole

from .. import checks
from ..arrays import Array
from .descents import alike
from .layout import ACCURACY, LINES, tensors
from .normalise import natural_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_COLUMNS = ("tensor", "layer", "theory", "sample", "se", "next")

SERIES = {
    "K": ("K", "G1", "G2"),
    "G1": ("G1", "G2"),
    "V": ("V", "V2"),
    "Theta": ("Theta", "Theta1"),
    **{name: (name, f"{name}1") for name in ("prediction", "covariance", "ntk", "loss")},
}
"""What a measured tensor is at finite width: the coefficients of 1, 1/n, 1/n², …"""

NEXT_TERM = 10.0
"""How much larger than the last coefficient of a fit in 1/n the next one may be."""

VANISHES = 0.01
"""Of a number's natural size: what is smaller counts as zero, and is judged by that size."""

WEAK = 0.2
"""The resolution above which what agrees is called weak: it would have agreed with too much."""

FALSE_ALARMS = 5.7e-7
"""The chance that a Comparison that should agree does not: that of one number beyond 5 sigma."""


@dataclass(frozen=True)
class Row:
    """One number, derived and sampled.

    Attributes:
        tensor: its name, as in the tables.
        layer: from 1; of trained networks the step.
        indices: of the samples, from 0; none where the inputs are one vector.
        theory: what was derived.
        sample: what was sampled, extrapolated where there are several widths.
        se: its standard error, with the next term and what is known of the theory's error.
        z: (sample − theory − within)/se.
        next_term: of se, what is allowed for the first term in 1/n that the fit leaves out.
        scale: what a difference is small against: |theory|, or where that vanishes (`VANISHES`)
            its natural size; or what the flow says.
        largest: |theory| of the tensor's largest component in the layer, or `scale`, if more.
        resolution: (bound·se + |within|)/scale, the relative difference that would have been
            noticed.
        share: (bound·se + |within|)/largest, by which a comparison is judged: the difference that
            would have been noticed, as a share of the tensor.
        within: what theory is known to leave out, with its sign: theory + within is what the
            sample is compared with, and its standard error is part of se.
    """

    tensor: str
    layer: float
    indices: tuple[int, ...]
    theory: float
    sample: float
    se: float
    z: float
    next_term: float = 0.0
    scale: float = math.nan
    largest: float = math.nan
    resolution: float = math.nan
    share: float = math.nan
    within: float = 0.0

    @property
    def name(self) -> str:
        """The tensor with its sample indices, counted from 1."""
        return f"{self.tensor}_{''.join(str(a + 1) for a in self.indices)}".rstrip("_")


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
        skipped: of trained networks the steps that not every table has.
    """

    rows: tuple[Row, ...]
    bound: float
    false_alarms: float
    widths: tuple[int, ...]
    degree: int
    skipped: tuple[float, ...] = ()

    @property
    def worst(self) -> Row:
        """The row with the largest |z|."""
        return max(self.rows, key=lambda row: abs(row.z))

    @property
    def agrees(self) -> bool:
        """Whether no |z| exceeds the bound: nothing contradicts the theory."""
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
    def weak(self) -> bool:
        """Whether it agrees, but resolves worse than `WEAK`."""
        return self.agrees and bool(self.unresolved)

    @property
    def verdict(self) -> str:
        """In a word: "agrees", "weak" or "DISAGREES"."""
        return "weak" if self.weak else "agrees" if self.agrees else "DISAGREES"

    @property
    def table(self) -> str:
        """All rows as text."""
        return _table(self.rows)

    @property
    def summary(self) -> str:
        """The verdict in a line."""
        widths = ", ".join(map(str, self.widths))
        fit = f", extrapolated in 1/n (degree {self.degree})" if self.degree else ""
        count = f"{len(self.rows)} comparison" + "s" * (len(self.rows) > 1)
        return (
            f"{self.verdict}: {count} at n = {widths}{fit}; largest |z| {abs(self.worst.z):.2f}, "
            f"bound {self.bound:.2f} (false alarms {self.false_alarms:.1e}); resolves "
            f"{percent(self.resolution)} ({self.coarsest.name} at layer {self.coarsest.layer:g})"
            f"{self._told_left_out}{self._told_skipped}"
        )

    @property
    def _told_skipped(self) -> str:
        steps = ", ".join(f"{step:g}" for step in self.skipped)
        return f"; not in every table: steps {steps}" if steps else ""

    @property
    def _told_left_out(self) -> str:
        row = self.left_out
        if row is None:
            return ""
        share = percent(_over(abs(row.within), row.largest))
        return (
            f"; with what theory is known to leave out, {share} at most ({row.name} at layer "
            f"{row.layer:g})"
        )

    @property
    def left_out(self) -> Row | None:
        """The row of whose tensor theory is known to leave out the largest share, `Row.within` over
        `Row.largest`; None where nothing is known."""
        known = [row for row in self.rows if row.within]
        return max(known, key=lambda row: _over(abs(row.within), row.largest), default=None)

    def _largest(self, count: int) -> list[Row]:
        return sorted(self.rows, key=lambda row: -abs(row.z))[:count]

    def __str__(self) -> str:
        shown = f"{self.summary}\n{_table(self._largest(5))}"
        if not self.unresolved:
            return shown
        count = f"{len(self.unresolved)} of {len(self.rows)} resolve worse than {percent(WEAK)}"
        return f"{shown}\n{count}\n{_table(self.unresolved[:5])}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """The verdict and the largest scores, for a notebook."""
        heads = "".join(f"<th>{name}</th>" for name in (*_COLUMNS, "z", "resolves", "of tensor"))
        rows = "".join(
            f"<tr><td>{row.name}</td><td>{row.layer}</td><td>{row.theory:.6g}</td>"
            f"<td>{row.sample:.6g}</td><td>{row.se:.3g}</td><td>{row.next_term:.3g}</td>"
            f"<td>{row.z:.2f}</td><td>{percent(row.resolution)}</td>"
            f"<td>{percent(row.share)}</td></tr>"
            for row in self._largest(10)
        )
        caption = f"<caption>{html.escape(self.summary)}</caption>"
        return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"

    def plot(self) -> Figure:
        """Lines for theory and points with error bars for samples, a panel for each tensor.

        Components whose theory coincides at every layer share a line; at most six are drawn.
        """
        check_installed("plot", "plot", "matplotlib")
        return _figure(self)


def compare(
    flowed: xarray.Dataset,
    simulated: xarray.Dataset | Sequence[xarray.Dataset],
    false_alarms: float = FALSE_ALARMS,
    degree: int | None = None,
) -> Comparison:
    """Compare what was derived with what was sampled, in every tensor and layer that both have.

    Arguments:
        flowed: from `flow`.
        simulated: from `simulate`; or several of the same network and inputs at different widths.
        false_alarms: the chance of disagreement by accident, all comparisons together.
        degree: of the polynomial in 1/n fitted to several widths; one less than their number, at
            most 2, if not given. The error counts in the first term left out, by `NEXT_TERM`.

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

    Tables of trained networks must say the same of what was trained, and how: network, σ, depth, η,
    loss, optimizer, batch, clip, patience, inputs and targets, as far as both say it; theory is of
    tensorial descent of all inputs on the squared loss, without clip or patience. Of a network's
    widths their ratios count, n_ℓ/n, without that of a dense network's outputs, and numbers are
    compared by value, 0.1 with 1/10; but expressions, such as σ or those in ℓ, by their text. To
    compare others knowingly say so: `table.assign_attrs(optimizer="tensorial")`, or leave out what
    is not to be compared, `table.attrs.pop("clip")`, of both tables. The test inputs of a table
    are the first ones of another that has more: these are left out.

    Raises:
        InputError: if the tables have nothing in common, differ in shape, in what was trained, or
            are not finite, or if there are fewer widths than the fit needs.

    >>> from derive import Network, activations
    >>> from numeric import flow, simulate
    >>> net, x = Network(activations.linear), [1.0, 0.5]
    >>> sampled = simulate(net, x, width=10, depth=2, draws=100, tensors="K")
    >>> scores = compare(flow(net, x, depth=2, tensors="K"), sampled)
    >>> scores.agrees, len(scores.rows)
    (True, 2)
    """
    _check_table("flowed", flowed, "a table from flow")
    if isinstance(simulated, xarray.Dataset):
        simulated = [simulated]
    tables = listed("simulated", simulated, "a table from simulate, or several")
    false_alarms = checks.probability("false_alarms", false_alarms)
    widths = _widths(tables)
    distinct = len(set(widths))
    degree = min(distinct - 1, 2) if degree is None else degree
    degree = whole("degree", degree, 0, distinct - 1, f"0 to {distinct - 1} with widths {widths}")
    axis = _axis(flowed)
    if axis == "step" and all(_axis(table) == axis for table in tables):
        flowed, *tables = alike(flowed, tables)
    tables = [_with_coefficients(flowed, table) for table in tables]
    names = [name for name in tensors(flowed) if all(name in table for table in tables)]
    layers = sorted(set(flowed[axis].values).intersection(*(t[axis].values for t in tables)))
    if not names or not layers:
        have = [tensors(table) for table in (flowed, *tables)]
        raise InputError("simulated", have, "a tensor and a layer that every table has")
    steps = np.concatenate([t[axis].to_numpy() for t in (flowed, *tables)]).tolist()
    skipped = tuple(sorted(set(steps) - set(layers))) if axis == "step" else ()
    flowed, tables = flowed.sel({axis: layers}), [table.sel({axis: layers}) for table in tables]
    rows = tuple(row for name in names for row in _rows(name, flowed, tables, widths, degree))
    freedom = min(float(table.attrs.get("blocks", np.inf)) for table in tables) - 1
    tail = false_alarms / (2 * len(rows))
    known = math.isfinite(freedom)
    bound = -float(special.stdtrit(freedom, tail) if known else special.ndtri(tail))
    rows = tuple(_resolved(row, bound * row.se + abs(row.within)) for row in rows)
    return Comparison(rows, bound, false_alarms, widths, degree, skipped)


def percent(resolution: float) -> str:
    """A resolution to two digits, such as "3.1 %"; "nothing" where it is infinite."""
    if not math.isfinite(resolution):
        return "nothing"
    return f"{100 * resolution:.0f} %" if resolution > 0.0995 else f"{100 * resolution:.2g} %"


def _check_table(argument: str, table: object, wanted: str) -> None:
    """Whether it has tensors, by layer: an empty or a foreign Dataset has not."""
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
    for name, (_, *corrections) in SERIES.items():
        if name in table and name in flowed and corrections[0] in flowed:
            coefficient, floor = corrections[0], ACCURACY * abs(flowed[name]).max()
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
        if "width" not in table.attrs:
            raise InputError("simulated", "a table without the attribute `width`", wanted)
    networks = {str(table.attrs.get("network")) for table in tables}
    if len(networks) > 1:
        raise InputError("simulated", sorted(networks), "simulations of one network")
    return tuple(int(table.attrs["width"]) for table in tables)


def _rows(
    name: str,
    flowed: xarray.Dataset,
    tables: Sequence[xarray.Dataset],
    widths: tuple[int, ...],
    degree: int,
) -> Iterator[Row]:
    samples = np.array([_values(table, name, "simulated", flowed) for table in tables])
    errors = np.array([_values(table, f"{name}_se", "simulated", flowed, name) for table in tables])
    floors = np.array([_twin(table, name, "_floor", "simulated") for table in tables])
    width = widths[0] if degree == 0 and len(set(widths)) == 1 else None
    theory, doubt = _theory(name, flowed, width)
    known = _twin(flowed, name, "_within", "flowed", signed=True)
    scales = _scales(name, flowed, tables, theory)
    largest = scales if f"{name}_size" in flowed else np.maximum(scales, _largest(theory))
    powers = np.vander(1.0 / np.array(widths), degree + 1, increasing=True)
    distinct = tuple(_distinct(theory, np.concatenate([samples, errors, floors])))
    floors = np.maximum(floors, ACCURACY * abs(theory))
    found, error, left_out = _intercepts(powers, samples, np.hypot(errors, floors))
    ses, differences = np.hypot(error, doubt), found - theory - known
    layers = flowed[_axis(flowed)].to_numpy().tolist()
    for place in distinct:
        difference, se, within = (float(each[place]) for each in (differences, ses, known))
        z = difference / se if se else (math.copysign(math.inf, difference) if difference else 0.0)
        numbers = (float(each[place]) for each in (left_out, scales, largest))
        derived, sample, layer = float(theory[place]), float(found[place]), layers[place[0]]
        row = Row(name, layer, place[1:], derived, sample, se, z, *numbers)
        yield replace(row, within=within)


def _distinct(theory: Array, measured: Array) -> Iterator[tuple[int, ...]]:
    """The places (layer, samples …), one for those that a symmetry of the tensor makes one number:
    their indices are a permutation of each other and all that was measured there is the same."""
    seen: dict[tuple[tuple[int, ...], bytes], list[float]] = {}
    for place in np.ndindex(theory.shape):
        value, key = float(theory[place]), (place[0], *sorted(place[1:]))
        at: tuple[slice | int, ...] = (slice(None), *place)
        same = seen.setdefault((key, measured[at].tobytes()), [])
        if not any(abs(value - other) <= ACCURACY * abs(other) for other in same):
            same.append(value)
            yield place


def _largest(theory: Array) -> Array:
    """The size of the tensor's largest component in each layer, at all of them."""
    most = abs(theory).max(axis=tuple(range(1, theory.ndim)), keepdims=True)
    return np.broadcast_to(most, theory.shape)


def _resolved(row: Row, noticed: float) -> Row:
    """With what would have been noticed is of its own scale and of its tensor."""
    own, share = (_over(noticed, size) for size in (row.scale, row.largest))
    return replace(row, resolution=own, share=share)


def _scales(
    name: str, flowed: xarray.Dataset, tables: Sequence[xarray.Dataset], theory: Array
) -> Array:
    """What a difference of each entry is small against."""
    if f"{name}_size" in flowed:
        return _twin(flowed, name, "_size", "flowed")
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


def _values(
    table: xarray.Dataset, name: str, argument: str, like: xarray.Dataset, as_in: str | None = None
) -> Array:
    if name not in table:
        raise InputError(argument, sorted(map(str, table.data_vars)), f"a table with {name}")
    array, model = table[name], like[as_in or name]
    if array.dims != model.dims or array.shape != model.shape:
        raise InputError(
            argument, f"{name} {dict(array.sizes)}", f"axes as in the flow, {dict(model.sizes)}"
        )
    values = array.to_numpy().astype(float)
    if not np.isfinite(values).all():
        raise InputError(argument, f"{name} with NaN or infinity", "finite values")
    return values


def _twin(
    table: xarray.Dataset, name: str, ending: str, argument: str, *, signed: bool = False
) -> Array:
    """What stands beside a tensor, in its shape; 0 where the table does not say."""
    tensor, twin = table[name].variable.astype(float), name + ending
    if twin not in table:
        return np.zeros(tensor.shape)
    beside = table[twin].variable if signed else abs(table[twin].variable)
    values = np.asarray((0.0 * tensor + beside).transpose(*tensor.dims))
    if not np.isfinite(values).all():
        raise InputError(argument, f"{twin} with NaN or infinity", "finite values")
    return values


def _theory(name: str, flowed: xarray.Dataset, width: int | None) -> tuple[Array, Array]:
    """The leading term, or the series at one width as far as the flow has it, and its error."""
    total = _values(flowed, name, "flowed", flowed)
    error = _twin(flowed, name, "_error", "flowed")
    if width is not None:
        for order, correction in enumerate(SERIES.get(name, (name,))[1:], 1):
            if correction not in flowed:
                break
            part = float(width) ** -order
            total = total + part * _values(flowed, correction, "flowed", flowed)
            error = error + part * _twin(flowed, correction, "_error", "flowed")
    return total, error


def _intercepts(inverse: Array, samples: Array, errors: Array) -> tuple[Array, Array, Array]:
    """c_0 of each weighted least-squares polynomial in 1/n, its error, and the next term's
    part in it.

    The error joins the samples' with that of the first term left out, c_{d+1}/n^{d+1}, where
    |c_{d+1}| ≤ NEXT_TERM |c_d| is supposed; a fit of degree 0 leaves out nothing that is known.

    Arguments:
        inverse: the powers of 1/n, (widths, degree + 1).
        samples, errors: (widths, …).
    """
    degree = inverse.shape[1] - 1
    samples, errors = np.moveaxis(samples, 0, -1), np.moveaxis(errors, 0, -1)
    known = errors.all(axis=-1, keepdims=True)
    weights = 1.0 / np.where(known, errors, 1.0)
    fits = np.linalg.pinv(inverse * weights[..., None]) * weights[..., None, :]
    coefficients = (fits @ samples[..., None])[..., 0]
    first = fits[..., 0, :]
    beyond = inverse[:, -1] ** ((degree + 1) / degree) if degree else 0.0 * inverse[:, 0]
    left_out = (first[..., None, :] @ beyond[:, None])[..., 0, 0]
    neglected = NEXT_TERM * abs(coefficients[..., -1] * left_out)
    parts = first * errors
    spread = np.sqrt((parts[..., None, :] @ parts[..., None])[..., 0, 0])
    return coefficients[..., 0], np.hypot(spread, neglected), neglected


def _table(rows: Sequence[Row]) -> str:
    names = [row.name for row in rows]
    width = max(map(len, [*names, "tensor"]))
    head = f"{'tensor':{width}}  layer        theory        sample          se        next       z"
    lines = [f"{head}  resolves  of tensor"]
    for row, name in zip(rows, names, strict=True):
        lines.append(
            f"{name:{width}}  {row.layer:5g}  {row.theory:12.6g}  {row.sample:12.6g}  "
            f"{row.se:10.3g}  {row.next_term:10.3g}  {row.z:6.2f}  {percent(row.resolution):>8}  "
            f"{percent(row.share):>9}"
        )
    return "\n".join(lines)


def _figure(comparison: Comparison) -> Figure:
    """See `Comparison.plot`."""
    from .drawing import beside, side_by_side  # noqa: PLC0415  (matplotlib takes a second to import)

    tensors = list(dict.fromkeys(row.tensor for row in comparison.rows))
    figure, panels = side_by_side(tensors)
    for tensor, panel in zip(tensors, panels, strict=True):
        for number, rows in enumerate(_lines(comparison, tensor)):
            layers = [row.layer for row in rows]
            beside(
                panel,
                (layers, [row.theory for row in rows]),
                (layers, [row.sample for row in rows], [row.se for row in rows]),
                color=f"C{number}",
                label=rows[0].name,
            )
        panel.legend()
    return figure


def _lines(comparison: Comparison, tensor: str) -> list[list[Row]]:
    components: dict[tuple[int, ...], list[Row]] = {}
    for row in comparison.rows:
        if row.tensor == tensor:
            components.setdefault(row.indices, []).append(row)
    distinct: dict[tuple[float, ...], list[Row]] = {}
    for rows in components.values():
        distinct.setdefault(tuple(row.theory for row in rows), rows)
    return list(distinct.values())[:LINES]
