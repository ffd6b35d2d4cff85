"""A report: what was found, as text and as a page of HTML."""

from __future__ import annotations

import base64
import html as escaping
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import xarray

from derive.errors import InputError

from ..arrays import Array
from ..tables.compare import Comparison, percent
from .description import Description
from .drawn import Drawn
from .measurement import Sample
from .resolution import Limits, limits, of_fluctuations
from .theory import SAMPLED_FROM, Depth, Rates, Theory, best_fluctuation
from .truncation import Omission

_COLUMNS = (
    ("K", "K", "K_measured"),
    ("V/(nK²)", "ratio", "ratio_measured"),
    ("χ∥", "chi_parallel", None),
    ("χ⊥", "chi_perp", None),
    ("Θ", "Theta", "Theta_measured"),
    ("spread of Θ", "spread", "spread_measured"),
)


_OF_THE_OUTPUT = (
    "Jacobian of the output",
    "stable learning rate",
    "fastest learning rate",
)


_OF_ONE_INPUT = ("χ∥", "χ⊥", "singular values", "other depths, weights, norms and skips")
_BATCHED = "batch normalization leaves no input a function by itself"
_FEW = f"behind batch normalization it has no variance below {SAMPLED_FROM} inputs, so no error"


class Jacobian(NamedTuple):
    """Singular values of ∂z^{(L)}/∂x, and of ∂z^{(L−1)}/∂z^{(1)} between hidden layers.

    Attributes:
        size: the mean of Σ_k (∂z_i/∂x_k)² by theory, C_W of layer 1 times all χ_⊥; like all of
            ∂z^{(L)}/∂x NaN where something behind layer L was not read.
        size_error: by the errors of measured variances.
        measured, error: the same over initializations, with its standard error.
        largest, least: means of the extreme singular values of ∂z^{(L)}/∂x.
        hidden_largest, hidden_least: those between hidden layers; NaN where there are none.
        edges: the ends of their spectrum by theory, for hidden layers of one width.
    """

    size: float = math.nan
    measured: float = math.nan
    error: float = math.nan
    largest: float = math.nan
    least: float = math.nan
    hidden_largest: float = math.nan
    hidden_least: float = math.nan
    edges: tuple[float, float] | None = None
    size_error: float = 0.0


@dataclass(frozen=True, repr=False)
class Report:
    """The result of `report`.

    Attributes:
        description: the model, as `read` gives it.
        theory, sample: the tables of both.
        comparisons: of K and Theta; of V; and of the spread of Theta; `limits` has for each how far
            draws and theory let it resolve.
        table: a row for each layer, an xarray.Dataset.
        jacobian, depths, rates: as they are named.
        omissions: of tensors whose theory is bounded by an ensemble, what that says.
    """

    description: Description
    inputs: Array
    theory: Theory
    sample: Sample
    comparisons: tuple[Comparison, ...]
    table: xarray.Dataset
    jacobian: Jacobian
    depths: tuple[Depth, ...]
    rates: Rates
    omissions: tuple[Omission, ...] = ()

    @property
    def limits(self) -> tuple[Limits, ...]:
        """Of each comparison, what its resolution is limited by."""
        found = []
        falls = Drawn(self.description.structure.graph, self.description.laws).is_known
        for each in self.comparisons:
            of_V = any(row.tensor == "V" for row in each.rows)
            table = self.sample.second if of_V else self.sample.first
            if each.rows and each.rows[0].layer < self.description.first:
                table = self.sample.below
            assert table is not None
            told = limits(each, table, falls)
            if of_V:
                n = self.description.widths[1]
                told = of_fluctuations(told, each, self.theory.second, n)
            found.append(told)
        return tuple(found)

    @property
    def withheld(self) -> dict[str, str]:
        """The numbers that the report does not give, with the reason.

        These are tensors without a theory for such layers, and numbers that depend on a part of the
        model that was not read.
        """
        found = dict(self.theory.missing)
        if self.description.batch:
            found |= dict.fromkeys(_OF_ONE_INPUT, _BATCHED)
            if "Theta" not in self.theory.first:
                found["Theta"] = _FEW
        ending = self.description.structure.ending
        if ending is not None:
            why = f"behind layer {self.description.depth} follows {ending}, which was not read"
            found |= dict.fromkeys(_OF_THE_OUTPUT, why)
        return found

    @property
    def agrees(self) -> bool:
        """Whether no z-score contradicts theory."""
        return all(each.agrees for each in self.comparisons)

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return str(self)

    def html(self) -> str:
        """A page that stands alone."""
        return html(self)

    def _repr_html_(self) -> str:
        return body(self)


def text(report: Report) -> str:
    """All of it, in lines."""
    heads, rows = _cells(report)
    widths = [max(len(line[k]) for line in [heads, *rows]) for k in range(len(heads))]
    lines = [str(report.description), ""]
    for line in [heads, *rows]:
        lines.append("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)))
    lines += ["", *facts(report), ""]
    for each, its in zip(report.comparisons, report.limits, strict=True):
        names = ", ".join(dict.fromkeys(row.tensor for row in each.rows))
        lines.append(f"{names}: {each.summary}")
        lines += [f"  {told}" for told in _beside(report, each, its)]
    return "\n".join(lines)


def _beside(report: Report, comparison: Comparison, limits: Limits) -> list[str]:
    """What a verdict's words need beside them."""
    names = {row.tensor for row in comparison.rows}
    found = [str(limits)] if comparison.weak else []
    if "V" in names:
        found += [str(each) for each in report.sample.rows if each.z > each.bound]
    found += [str(each) for each in report.omissions if each.tensor in names]
    return found


def facts(report: Report) -> list[str]:
    """The conclusions, a sentence each."""
    jacobian, found = report.jacobian, []
    if not math.isnan(jacobian.size):
        found.append(
            f"Jacobian ∂z/∂x: Σ_k (∂z_i/∂x_k)² is {_known(jacobian.size, jacobian.size_error)} by "
            f"theory, {_short(jacobian.measured)} ± {jacobian.error:.1g} measured; singular values "
            f"{_short(jacobian.least)} to {_short(jacobian.largest)}"
        )
    if not math.isnan(jacobian.hidden_largest):
        edges = jacobian.edges
        told = "" if edges is None else f", {_short(edges[0])} to {_short(edges[1])} by theory"
        found.append(
            f"between the first and the last hidden layer {_short(jacobian.hidden_least)} to "
            f"{_short(jacobian.hidden_largest)} measured{told}"
        )
    rates = report.rates
    if not math.isnan(rates.stable):
        spread = "" if math.isnan(rates.spread) else f" ± {rates.spread:.2g} over initializations"
        by_laws = f" (± {percent(rates.error)} by the measured variances)" if rates.error else ""
        held = ", ".join(dict.fromkeys(report.description.structure.graph.gains))
        found.append(
            f"learning rate of full-batch descent on ½Σ(z − y)² at these inputs: stable below "
            f"{_short(rates.stable)}{spread}, fastest at {_short(rates.fastest)}{by_laws}"
            + (f", with {held} held" if held else "")
        )
    if not report.depths and not report.description.batch:
        found.append("one hidden layer: nothing to repeat")
    for each in report.depths:
        found.append(_depth(each))
    found += [str(each) for each in report.sample.rows]
    found += _withheld(report.withheld)
    return found


def _withheld(numbers: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each reason."""
    for why in dict.fromkeys(numbers.values()):
        names = ", ".join(name for name, own in numbers.items() if own == why)
        yield f"not known: {names} ({why})"


def _depth(each: Depth) -> str:
    if each.why:
        return f"{each.name}: not known ({each.why})"
    told = [f"V/(nK²) = {_short(each.at_model)} at the last hidden layer"]
    told.append(f"χ⊥ = {_short(each.chi)}")
    reached = [("0.1", each.tenth), ("1", each.one)]
    told += [f"{value} at depth {depth}" for value, depth in reached if depth]
    if each.one is None:
        limit = "0.1" if each.tenth is None else "1"
        told.append(
            f"at rest at {_short(each.settled)}"
            if each.settled is not None
            else f"below {limit} to depth {each.reached}"
        )
    if each.best is not None:
        told.append(f"most information between neurons at depth {each.best}")
    elif each.tenth is None:
        told.append(f"never {best_fluctuation():.2g}, where neurons share most")
    return f"{each.name}: {'; '.join(told)}"


def _cells(report: Report) -> tuple[list[str], list[list[str]]]:
    table = report.table
    used = [each for each in _COLUMNS if each[1] in table]
    heads = ["layer", "n"]
    for name, _, measured in used:
        heads += [name] + ([f"{name} measured"] if measured and measured in table else [])
    rows = []
    for at, layer in enumerate(table["layer"].to_numpy()):
        row = [str(int(layer)), str(report.description.widths[int(layer)])]
        for _, derived, measured in used:
            row.append(_known(float(table[derived][at]), float(table[f"{derived}_error"][at])))
            if measured and measured in table:
                value, error = (float(table[f"{measured}{end}"][at]) for end in ("", "_se"))
                row.append(_with_error(value, error))
        rows.append(row)
    return heads, rows


def _short(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g}"


def _known(value: float, error: float) -> str:
    """A number from theory, with its error from measured variances, if there is one."""
    return _with_error(value, error) if error else _short(value)


def _with_error(value: float, error: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4g} ± {error:.1g}"


# HTML

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0 }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884 }
td.text, th.text { text-align: left }
img { max-width: 100% }
@media (prefers-color-scheme: dark) {
  body { background: #181818; color: #ddd }
  img { filter: invert(.9) }
}
"""


def html(report: Report) -> str:
    """A page that needs nothing beside it."""
    title = escaping.escape(f"{report.description.name} at initialization")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{body(report)}</body></html>\n"
    )


def body(report: Report) -> str:
    """The body of the page."""
    description = report.description
    told = "agrees with" if report.agrees else "DISAGREES with"
    parts = [
        f"<p>A model of {escaping.escape(description.framework)}, initialized "
        f"{report.sample.first.attrs['draws']} times in it "
        f"({escaping.escape(description.reading.how)}). "
        f"What was measured {told} theory.</p>",
        "<h2>Layers</h2>",
        _table(["layer", "sizes", "laws"], [list(each) for each in description.rows()], "text"),
        _items(description.remarks),
        f"<p><code>{escaping.escape(str(description.network))}</code></p>",
        "<h2>By layer</h2>",
        _table(*_cells(report)),
        "<h2>What follows</h2>",
        _items(facts(report)),
        "<h2>Theory and measurement</h2>",
    ]
    for each, its in zip(report.comparisons, report.limits, strict=True):
        parts += [_figure(each), each._repr_html_(), _items(_beside(report, each, its))]
    return "\n".join(parts)


def _items(lines: Sequence[str]) -> str:
    inside = "".join(f"<li>{escaping.escape(line)}</li>" for line in lines)
    return f"<ul>{inside}</ul>" if inside else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    mark = f' class="{kind}"' if kind else ""
    top = "".join(f"<th{mark}>{escaping.escape(each)}</th>" for each in heads)
    lines = "".join(
        "<tr>" + "".join(f"<td{mark}>{escaping.escape(each)}</td>" for each in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def _figure(comparison: Comparison) -> str:
    """Lines of theory through the measured points; nothing without matplotlib."""
    try:
        figure = comparison.plot()
    except InputError:
        return ""
    image = io.BytesIO()
    figure.savefig(image, format="svg", metadata={"Date": None})
    data = base64.b64encode(image.getvalue()).decode()
    return f'<img alt="theory and measurement by layer" src="data:image/svg+xml;base64,{data}">'
