"""Which widths and how many draws show a given relative change of every tensor.

What n·cumulant is estimated with has an error that grows with n, so narrow layers cost least; but a
fit in 1/n leaves out a term, the more of it the narrower they are. With as many orders as widths,
x_i = 1/n_i, the fit is the polynomial through all points, and of the extrapolated c_0

    se² = Σ_i s_i (L_i² + (10 M_i Π x)²)/D + (10 c_d Π x)²,   L_i = Π_{j≠i} x_j/(x_j − x_i),

s_i being the variance of one draw at n_i, D the draws at each width, c_d = Σ M_i y_i the last
coefficient, by which `tables.compare` bounds the next one. Pilot draws tell s_i and c_d. Of several
sets of widths the one is chosen that reaches most numbers for least work. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xarray

from derive.engine.fields import Field
from derive.engine.tensors import Name
from derive.errors import InputError
from derive.recursions import wanted
from derive.weights import Gaussian
from derive.work.resources import duration, number
from numeric.arrays import Array
from numeric.estimators.observables import plan_of
from numeric.examples import Example
from numeric.samplers.ensemble import checked_ensemble
from numeric.simulations import multiplies, simulate
from numeric.tables.compare import NEXT_TERM, WEAK, Comparison, Row, compare, percent
from numeric.tables.normalise import natural_size

from . import exactly
from .exactly import Evidence

PILOT = 4096
"""Draws at each width to begin with."""
WIDTHS = (6, 12, 18, 24, 36, 48, 96)
"""The unit of designs: divisible by 6, for ranks that are whole numbers."""
DESIGNS = (
    (24, 48, 96),
    (12, 24, 48),
    (12, 24, 48, 96),
    (12, 18, 24, 48),
    (6, 12, 24, 48),
    (12, 18, 24, 36, 48),
    (6, 12, 18, 24, 48),
)
WIDER = (192, 384)
"""And these, where narrow layers leave out too much of 1/n."""
WIDE_DESIGNS = ((48, 96, 192), (96, 192, 384), (24, 48, 96, 192), (48, 96, 192, 384))
INFINITE = 10**6
"""The width of the theory: what layer 1 has of n_0/n is in the fit as well."""
ROUNDS = 3
"""How often it is planned anew, with what the last plan has sampled."""

PATIENCE = 8
"""How many times the seconds may be taken where that leaves fewer numbers weak."""

SMALL = 0.1
"""Of its natural size: below, a number is told to be small."""

_MARGIN = 0.85
"""The part of the asked resolution that is planned for."""
_NUMBER = 1.2e-8
"""Seconds that one number of one layer of a network takes a processor, more or less."""
_OVERHEAD = 20
"""Neurons' worth of work that a layer takes besides its own."""
_DEEP, _STAGED = 5.0, 3.0
"""How much more estimates take whose fields have three edges or more; and of a field with edges in
layers of several stages."""


@dataclass(frozen=True)
class Beyond:
    """A number that was not resolved as asked.

    Arguments:
        row: its tensor, layer and resolution.
        why: what it would take, or why more draws are no help.
    """

    row: Row
    why: str

    def __str__(self) -> str:
        reached = percent(self.row.resolution)
        return f"{self.row.name} at layer {self.row.layer} resolves {reached}: {self.why}"


@dataclass(frozen=True)
class Plan:
    """Widths, draws at each, and how many numbers they are expected to leave weak (`WEAK`), and
    unresolved as asked."""

    widths: tuple[int, ...]
    draws: int
    weak: int
    unresolved: int
    seconds: float


@dataclass(frozen=True)
class Sampled:
    """The samples of an example: a table for each width, of so many draws; and the
    tensors that need not be, as their exact moments are at hand."""

    example: Example
    flowed: xarray.Dataset
    tables: dict[int, xarray.Dataset]
    draws: dict[int, int]
    false_alarms: float
    exact: Mapping[str, xarray.Dataset] = field(default_factory=dict)

    def at(self, widths: Sequence[int], draws: int) -> Sampled:
        """The same, with so many draws at these widths."""
        tables, have = dict(self.tables), dict(self.draws)
        for n in widths:
            if have.get(n, 0) < draws:
                tables[n], have[n] = sampled(self.example, n, draws), draws
        return replace(self, tables=tables, draws=have)

    def exactly(self, layers: Mapping[str, int]) -> Sampled:
        """The same, with the exact moments of these tensors down to these layers, if they can be
        had."""
        found = exactly.tables(self.example, self.flowed, layers)
        return replace(self, exact={**self.exact, **found})

    def evidence(self, widths: Sequence[int]) -> Evidence:
        """The polynomial through these widths, and what is exact."""
        tables = tuple(self.tables[n] for n in widths)
        return Evidence(tables, self.false_alarms, len(widths) - 1, self.exact)

    def compared(self, widths: Sequence[int]) -> Comparison:
        """The comparison with that."""
        return self.evidence(widths).compared(self.flowed)

    def met(self, row: Row) -> bool:
        """True if a number is met by exact moments."""
        table = self.exact.get(row.tensor)
        return table is not None and row.layer in table["layer"]


def beside(example: Example) -> list[Name]:
    """The example's tensors, and K and Theta, whose sizes judge tensors that vanish."""
    asked = wanted(example.tensors)
    labels = {name.label for name in asked}
    others = [name for name in wanted(("K", "Theta")) if name.label not in labels]
    return [*asked, *others]


def sampled(example: Example, width: int, draws: int) -> xarray.Dataset:
    """The ensemble of an example at one width; layer by layer, where σ has no scale of its own."""
    net, inputs, depth = example.net, example.inputs, example.depth
    ensemble = checked_ensemble(net, inputs, width, depth, example.seed)
    plan = plan_of(wanted(example.tensors, net, depth), ensemble.data.measured)
    sampler = "products" if multiplies(ensemble.layers, plan) else "lazy"
    return simulate(
        net,
        inputs,
        width,
        depth,
        draws,
        tensors=example.tensors,
        seed=example.seed,
        sampler=sampler,
    )


def resolved(
    example: Example,
    flowed: xarray.Dataset,
    resolution: float,
    seconds: float,
    false_alarms: float,
) -> tuple[Comparison, Evidence, int, tuple[Beyond, ...]]:
    """Sample an example until every number resolves a relative change of `resolution`; what samples
    do not resolve is taken from exact moments, where these are within reach (`exactly`).

    Arguments:
        example: its networks can be sampled at widths that are divisible by 6.
        flowed: its theory, with K and Theta for natural sizes.
        resolution: what is asked.
        seconds: of a processor, about, as long as all draws may take; `PATIENCE` times as long
            where that leaves fewer numbers weak.
        false_alarms: of the comparison.

    Returns the comparison, what the theory was held against, the draws of each ensemble, and what
    was not reached.

    Raises InputError as `simulate` and `compare` do, and for inputs that no widths here are of the
    same theory with.
    """
    found = Sampled(example, flowed, {}, {}, false_alarms)
    for n in WIDTHS:
        if _fits(example, n):
            try:
                found = found.at([n], PILOT)
            except InputError:
                if n > 2 * min(WIDTHS):  # too narrow for its cumulants' pairings otherwise
                    raise
    designs = _sampled_of(found, DESIGNS)
    if not designs:
        found = found.at([n for n in WIDER if _fits(example, n)], PILOT)
        designs = _sampled_of(found, WIDE_DESIGNS)
    if not designs:
        got = f"{example.inputs.shape[-1]} numbers each, and {example.net.weights_at(1)}"
        most = max(each[0] for each in WIDE_DESIGNS)
        raise InputError("inputs", got, f"{most} at most, or independent weights at layer 1")
    plan = best(found, designs, resolution, seconds)
    rows, needed = found.compared(plan.widths).rows, _needed(found, plan.widths, resolution)
    coarse = [row for row, draws in zip(rows, needed, strict=True) if draws > plan.draws]
    if coarse:
        found = found.exactly({row.tensor: int(row.layer) for row in coarse})  # the last, deepest
        plan = best(found, designs, resolution, seconds)
    found, plan, comparison = _followed(found, designs, plan, resolution, seconds)
    narrow = comparison.weak and not np.isfinite(_needed(found, plan.widths, WEAK)).all()
    if narrow and PILOT * cost(example, WIDER) <= PATIENCE * seconds:
        found = found.at([n for n in WIDER if _fits(example, n)], PILOT)
        designs = _sampled_of(found, (*DESIGNS, *WIDE_DESIGNS))
        plan = best(found, designs, resolution, seconds)
        found, plan, comparison = _followed(found, designs, plan, resolution, seconds)
    draws = min(found.draws[n] for n in plan.widths)
    missed = _beyond(found, plan, comparison, resolution, seconds)
    return comparison, found.evidence(plan.widths), draws, missed


def _sampled_of(found: Sampled, designs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Those of these designs of which every width has been sampled."""
    return [each for each in designs if all(n in found.tables for n in each)]


def _followed(
    found: Sampled,
    designs: Sequence[tuple[int, ...]],
    plan: Plan,
    resolution: float,
    seconds: float,
) -> tuple[Sampled, Plan, Comparison]:
    """The samples of a plan, planned anew with them up to `ROUNDS` times; the last plan, and the
    comparison."""
    for again in range(ROUNDS):
        found = found.at(plan.widths, plan.draws)
        comparison = found.compared(plan.widths)
        next_plan = best(found, designs, resolution, seconds)
        same = next_plan.widths == plan.widths and next_plan.draws <= 1.05 * plan.draws
        if comparison.resolution <= resolution or same or again == ROUNDS - 1:
            break
        plan = next_plan
    return found, plan, comparison


def best(
    found: Sampled, designs: Sequence[tuple[int, ...]], resolution: float, seconds: float
) -> Plan:
    """The design that leaves the fewest numbers weak, of those the one that leaves the fewest
    unresolved, and of those the cheapest."""
    plans = [plan(found, widths, resolution, seconds) for widths in designs]
    return min(plans, key=lambda each: (each.weak, each.unresolved, each.seconds))


def plan(found: Sampled, widths: tuple[int, ...], resolution: float, seconds: float) -> Plan:
    """Draws at these widths that resolve what can be resolved in the time, and take what would be
    weak out of that in `PATIENCE` times as much."""
    needed, loosely = (_needed(found, widths, each) for each in (resolution, WEAK))
    each = cost(found.example, widths)
    most = max(PILOT, int(seconds / each))
    reached = needed[needed <= most]
    draws = max(PILOT, math.ceil(reached.max(initial=1.0)))
    draws = most if len(reached) < len(needed) and np.isfinite(needed).any() else draws
    draws = max(draws, math.ceil(loosely[loosely <= PATIENCE * most].max(initial=1.0)))
    weak, unresolved = (int((every > draws).sum()) for every in (loosely, needed))
    return Plan(widths, _rounded(draws), weak, unresolved, draws * each)


def cost(example: Example, widths: Sequence[int]) -> float:
    """Seconds that one draw at each of these widths takes, about: by a fixed rule, so that a plan
    does not depend on the machine's load."""
    trees = [
        [each for each in name.fields if isinstance(each, Field)]
        for name in wanted(example.tensors)
    ]
    edges = max((sum(len(tree.edges) for tree in part) for part in trees), default=0)
    numbers = example.samples * (5 if edges else 1) * (_DEEP if edges > 2 else 1)
    numbers *= _STAGED if edges and not example.net.layer.is_dense else 1
    return _NUMBER * example.depth * numbers * sum(n + _OVERHEAD for n in widths)


def through(widths: Sequence[int]) -> tuple[Array, Array, float]:
    """Of the polynomial in x = 1/n through these points: the weights L_i of its value at 0, the
    weights M_i of its highest coefficient, and Π x.

    >>> value, highest, _ = through((1, 2))
    >>> value, highest  # y_1 + (y_2 − y_1)·(0 − 1)/(1/2 − 1) = 2 y_2 − y_1
    (array([-1.,  2.]), array([ 2., -2.]))
    """
    x = 1.0 / np.array(widths)
    gaps = x[:, None] - x
    np.fill_diagonal(gaps, 1.0)
    highest = 1.0 / gaps.prod(axis=1)
    others = np.where(np.eye(len(x), dtype=bool), 1.0, -x[None, :])
    return np.asarray(others.prod(axis=1) * highest), np.asarray(highest), float(x.prod())


def _needed(found: Sampled, widths: tuple[int, ...], resolution: float) -> Array:
    """The draws at each width that every number needs: infinite where no draws suffice, and none
    where it neither fluctuates nor has to be sampled."""
    noise, still, target = _errors(found, widths, resolution)
    room = target**2 - still**2
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.where(room > 0, noise / room, math.inf)
    met = np.array([found.met(row) for row in found.compared(widths).rows])
    return np.where(met | (noise + still**2 == 0), 0.0, draws)


def _errors(
    found: Sampled, widths: tuple[int, ...], resolution: float
) -> tuple[Array, Array, Array]:
    """Of each number: D se² by the draws, what se is left with by the next term and the theory's
    own error, and the se that is asked for."""
    comparison = found.compared(widths)
    value, highest, product = through(widths)
    alone = [_apart(found, n) for n in widths]
    y = np.array([[row.sample for row in rows] for rows in alone])
    errors = np.array([[row.se for row in rows] for rows in alone])
    one = errors**2 * np.array([found.draws[n] for n in widths])[:, None]
    of_next = NEXT_TERM * product
    noise = ((value**2 + (of_next * highest) ** 2)[:, None] * one).sum(axis=0)
    last = np.maximum((highest @ y) ** 2 - highest**2 @ errors**2, 0.0)
    scale = np.array([row.scale for row in comparison.rows])
    target = _MARGIN * resolution * scale / comparison.bound
    return noise, of_next * np.sqrt(last), target


def _apart(found: Sampled, width: int) -> tuple[Row, ...]:
    """The numbers at one width, as they were sampled."""
    return compare(found.flowed, found.tables[width], found.false_alarms, 0).rows


def _beyond(
    found: Sampled, plan: Plan, comparison: Comparison, resolution: float, seconds: float
) -> tuple[Beyond, ...]:
    """The numbers that are not resolved as asked, with the reasons."""
    needed = _needed(found, plan.widths, resolution)
    noise, still, _ = _errors(found, plan.widths, resolution)
    each = cost(found.example, plan.widths)
    missed = []
    rows = zip(comparison.rows, needed, np.sqrt(noise), still, strict=True)
    for row, draws, one, left in rows:
        if row.resolution <= resolution:
            continue
        if not row.scale:
            why = "it vanishes, and nothing says what would be small"
        elif not math.isfinite(draws):
            share = percent(comparison.bound * left / row.scale)
            why = (
                f"more draws are no help, as the term in 1/n that a fit through n = "
                f"{', '.join(map(str, plan.widths))} leaves out may be {share} of it"
            )
        elif draws * each > seconds:
            count = _rounded(math.ceil(draws))
            why = (
                f"{_small(found.flowed, row)}one network of each width tells it to "
                f"± {one / row.scale:,.0f} times its size, so that takes {number(count)} of them, "
                f"about {duration(draws * each)}, where {seconds:g} s are allowed"
            )
        else:
            why = "its error was underestimated by the draws before"
        missed.append(Beyond(row, why))
    return tuple(missed)


def _small(flowed: xarray.Dataset, row: Row) -> str:
    """Said of a number of one input that is small by cancellation: its share of what its dimension
    lets expect."""
    size = natural_size(row.tensor, flowed)
    if size is None or size.ndim != 1:
        return ""
    share = abs(row.theory) / float(size[flowed["layer"].to_numpy().tolist().index(row.layer)])
    return f"it is {percent(share)} of its natural size, and " if share < SMALL else ""


def _fits(example: Example, width: int) -> bool:
    """True if layers so narrow are of the same theory: a first layer whose matrix has more columns
    than rows is another, unless its entries are independent."""
    size = example.inputs.shape[-1]
    return width >= size or isinstance(example.net.weights_at(1), Gaussian)


def _rounded(draws: int) -> int:
    """Up to two digits."""
    step = int(10 ** max(0, len(str(draws)) - 2))
    return -(-draws // step) * step
