"""A report: what was found, as text and as a page of HTML."""

from __future__ import annotations

import html as escaping
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import xarray

from ..arrays import Array
from ..tables.compare import Comparison, percent
from ..tables.scores import aligned
from .advice import Finding, short
from .description import Description
from .jacobian import Jacobian, jacobian
from .measurement import Sample
from .networks import readable
from .pictures import pictures
from .resolution import Limits, limits, of_fluctuations
from .theory import SAMPLED_FROM, Depth, Rates, Theory, best_fluctuation, deeper
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
_AVERAGED = "of attention with scores over √d only K and V are known"
_FEW = f"behind batch normalization it has no variance below {SAMPLED_FROM} inputs, so no error"


@dataclass(frozen=True, repr=False)
class Report:
    """The result of `report`.

    Attributes:
        description: the model, as `read` gives it.
        theory, sample: the tables of both.
        comparisons: of K and Theta; of V; and of the spread of Theta; `limits` has for each how far
            draws and theory let it resolve.
        table: a row for each layer, an xarray.Dataset.
        rates: the learning rates.
        findings: what the report says first, question by question.
        omissions: of tensors whose theory is bounded by an ensemble, what that says.
        jacobian, depths: as they are named; computed when asked for.
    """

    description: Description
    inputs: Array
    theory: Theory
    sample: Sample
    comparisons: tuple[Comparison, ...]
    table: xarray.Dataset
    rates: Rates
    findings: tuple[Finding, ...] = ()
    omissions: tuple[Omission, ...] = ()
    seed: int = 0

    @cached_property
    def jacobian(self) -> Jacobian:
        """Singular values at the first input."""
        return jacobian(self.description, self.theory, self.inputs[0], self.seed)

    @cached_property
    def depths(self) -> tuple[Depth, ...]:
        """The model's last hidden layer repeated, as it is and otherwise made."""
        return tuple(deeper(self.description, self.inputs[0]))

    @property
    def limits(self) -> tuple[Limits, ...]:
        """Of each comparison, what its resolution is limited by."""
        found = []
        falls = self.description.drawn().is_known
        for each in self.comparisons:
            told = limits(each, self.sample.table_of(each), falls)
            if "V" in each.tensors:
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
        if self.description.averages_scores:
            found |= dict.fromkeys(("χ∥", "χ⊥", *_OF_ONE_INPUT[-1:]), _AVERAGED)
        ending = self.description.structure.ending
        if ending is not None:
            why = f"behind layer {self.description.depth} follows {ending}, which was not read"
            found |= dict.fromkeys(_OF_THE_OUTPUT, why)
        elif self.rates.why:
            found |= dict.fromkeys(_OF_THE_OUTPUT[1:], self.rates.why)
        return found

    @property
    def agrees(self) -> bool:
        """True if no z-score contradicts theory."""
        return all(each.agrees for each in self.comparisons)

    def __str__(self) -> str:
        lines = [self.description.heading, *map(str, self.findings)]
        return "\n".join([*lines, "", self._table])

    def __repr__(self) -> str:
        return str(self)

    @property
    def rest(self) -> str:
        """The lines that `say` did not receive: the first finding, which takes draws; the table."""
        return f"{self.findings[0]}\n\n{self._table}"

    @property
    def _table(self) -> str:
        """The numbers by layer, and what is not known."""
        heads, rows = _cells(self)
        return "\n".join([*aligned([heads, *rows]), *_withheld(self.withheld)])

    @property
    def details(self) -> str:
        """How the model was read, what follows from theory, and each verdict, as text."""
        lines = [str(self.description), "", *facts(self), ""]
        for each, its in zip(self.comparisons, self.limits, strict=True):
            lines.append(f"{', '.join(each.tensors)}: {each.summary}")
            lines += [f"  {told}" for told in _beside(self, each, its)]
        return "\n".join(lines)

    def json(self) -> str:
        """The findings, the table and the verdicts, as a JSON document."""
        return json.dumps(_document(self), ensure_ascii=False, indent=2, allow_nan=False)

    def html(self) -> str:
        """A page that stands alone."""
        title = escaping.escape(f"{self.description.name} at initialization")
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            '<meta name="viewport" content="width=device-width">'
            f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{self._repr_html_()}</body></html>\n"
        )

    def _repr_html_(self) -> str:
        return _body(self)


def _beside(report: Report, comparison: Comparison, limits: Limits) -> list[str]:
    """The additions that a verdict's words need."""
    found = [str(limits)] if comparison.weak else []
    if "V" in comparison.tensors:
        found += [str(each) for each in report.sample.rows if each.z > each.bound]
    found += [str(each) for each in report.omissions if each.tensor in comparison.tensors]
    return found


def facts(report: Report) -> list[str]:
    """The conclusions, a sentence each."""
    jacobian, found = report.jacobian, []
    if not math.isnan(jacobian.size):
        found.append(
            f"Jacobian ∂z/∂x: Σ_k (∂z_i/∂x_k)² is {short(jacobian.size, jacobian.size_error)} by "
            f"theory, {short(jacobian.measured, jacobian.error)} measured; singular values "
            f"{short(jacobian.least)} to {short(jacobian.largest)}"
        )
    if not math.isnan(jacobian.hidden_largest):
        edges = jacobian.edges
        told = "" if edges is None else f", {short(edges[0])} to {short(edges[1])} by theory"
        found.append(
            f"between the first and the last hidden layer {short(jacobian.hidden_least)} to "
            f"{short(jacobian.hidden_largest)} measured{told}"
        )
    rates = report.rates
    if not math.isnan(rates.stable):
        spread = "" if math.isnan(rates.spread) else f" ± {rates.spread:.2g} over initializations"
        by_laws = f" (± {percent(rates.error)} by the measured variances)" if rates.error else ""
        held = ", ".join(dict.fromkeys(report.description.structure.graph.gains))
        found.append(
            f"learning rate of full-batch descent on ½Σ(z − y)² at these inputs: stable below "
            f"{short(rates.stable)}{spread}, fastest at {short(rates.fastest)}{by_laws}"
            + (f", with {held} held" if held else "")
        )
    if not report.depths and report.description.has_susceptibilities:
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
    told = [f"V/(nK²) = {short(each.at_model)} at the last hidden layer"]
    told.append(f"χ⊥ = {short(each.chi)}")
    reached = [("0.1", each.tenth), ("1", each.one)]
    told += [f"{value} at depth {depth}" for value, depth in reached if depth]
    if each.one is None:
        limit = "0.1" if each.tenth is None else "1"
        told.append(
            f"at rest at {short(each.settled)}"
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
            row.append(short(float(table[derived][at]), float(table[f"{derived}_error"][at])))
            if measured and measured in table:
                value, error = (float(table[f"{measured}{end}"][at]) for end in ("", "_se"))
                row.append(short(value, error))
        rows.append(row)
    return heads, rows


# JSON


def _document(report: Report) -> dict[str, Any]:
    """All that is computed without further cost, as JSON has it: what is not known is null."""
    described, table = report.description, report.table
    rows = [
        {"layer": int(layer), "width": described.widths[int(layer)]}
        | {str(name): float(table[name][at]) for name in table}
        for at, layer in enumerate(table["layer"].to_numpy())
    ]
    verdicts = [
        {
            "tensors": list(each.tensors),
            "agrees": each.agrees,
            "resolution": each.resolution,
            "largest_z": abs(each.worst.z),
            "bound": each.bound,
            "false_alarms": each.false_alarms,
        }
        for each in report.comparisons
    ]
    found = {
        "model": described.name,
        "framework": described.framework,
        "network": readable(str(described.network)),
        "widths": list(described.widths),
        "findings": [
            {"question": f.question, "answer": f.answer, "more": list(f.more), **f.values}
            for f in report.findings
        ],
        "layers": rows,
        "verdicts": verdicts,
        "withheld": report.withheld,
        "remarks": list(described.remarks),
    }
    return dict(_finite(found))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# HTML

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0 }
td, th { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884 }
td.text, th.text { text-align: left }
svg { max-width: 100% }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } }
"""


def _body(report: Report) -> str:
    """The body of the page."""
    description = report.description
    told = "agrees with" if report.agrees else "DISAGREES with"
    parts = [
        f"<p>A model of {escaping.escape(description.framework)}, initialized "
        f"{report.sample.first.attrs['draws']} times in it "
        f"({escaping.escape(description.reading.how)}). "
        f"What was measured {told} theory.</p>",
        _answers(report.findings),
        "<h2>By layer</h2>",
        f"<div>{pictures(report.table)}</div>",
        "<p>Lines: theory. Points: measured at the first input, with bars of two standard "
        "errors.</p>",
        _table(*_cells(report)),
        "<h2>How the model was read</h2>",
        _table(["layer", "sizes", "laws"], [list(each) for each in description.rows()], "text"),
        _items(description.remarks),
        f"<p><code>{escaping.escape(readable(str(description.network)))}</code></p>",
        "<h2>What follows</h2>",
        _items(facts(report)),
        "<h2>Theory and measurement</h2>",
    ]
    for each, its in zip(report.comparisons, report.limits, strict=True):
        parts += [each._repr_html_(), _items(_beside(report, each, its))]
    return "\n".join(parts)


def _answers(findings: Sequence[Finding]) -> str:
    """A question, its answer and further lines, one after another."""
    return "".join(
        f"<p><b>{escaping.escape(each.question)}</b> {escaping.escape(each.answer)}</p>"
        f"{_items(each.more)}"
        for each in findings
    )


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
