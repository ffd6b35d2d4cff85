"""`coordinate_check(model, widths, inputs)`: do sizes of layers change with width, step by step?

The size of a layer is the root mean square of its values, over neurons, inputs and initializations.
A model that is well parametrised has sizes, and changes of these in training, that do not depend on
the width (Yang et al. 2022, section 4 of "Tensor Programs V"). The exponents of variances and
learning rates that name a parametrisation are those of table 3 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from derive.errors import InputError, as_integer, as_sequence, check_installed

from .. import checks
from ..arrays import Array
from ..tables.scores import aligned
from .advice import short
from .description import Description, framework_of, read
from .networks import law_of_weights
from .sequential import FALSE_ALARMS, one_in
from .theory import MOST_INPUTS, Theory, rates, theory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .frameworks.jax import JaxReading

TOLERANCE = 0.15
"""The |slope| in log width that a well parametrised model may have at finite width."""
_DRAWS, _STEPS, _SHARE, _ADAM = 16, 3, 0.2, 1e-3
"""Initializations of each width, steps, the share of the stable rate for SGD, and Adam's rate."""

_OF = "size", "change"
PARAMETRISATIONS: dict[str, dict[str, tuple[float, float, float]]] = {
    "standard": {"weights": (0, -0.5, -0.5), "SGD": (0, 0, 0), "Adam": (0, 0, 0)},
    "NTK": {"weights": (0, -0.5, -0.5), "SGD": (0, -1, -1), "Adam": (0, -0.5, -0.5)},
    "muP": {"weights": (0, -0.5, -1), "SGD": (1, 0, -1), "Adam": (0, -1, -1)},
}
"""Exponents in the width, of the first matrix, the hidden ones and the last: of the weights'
standard deviation and of their learning rate, both with the constant factors of the matrices."""


class Row(NamedTuple):
    """The size of a layer after some steps, by width.

    Attributes:
        optimizer, step, layer: which.
        of: "size", or "change" since initialization.
        values, errors: at each width, with standard errors.
        theory, spread: by theory, and its standard deviation among single initializations; NaN
            where there is none.
        slope, error: of log size in log width; NaN where the layer does not move, infinite where
            training overflows.
        wanted: the slopes that are right, from and to.
    """

    optimizer: str
    step: int
    layer: str
    of: str
    values: Array
    errors: Array
    theory: Array
    spread: Array
    slope: float
    error: float
    wanted: tuple[float, float]

    def passes(self, bound: float) -> bool:
        """True if the slope is not outside of what is wanted by more than `bound` errors."""
        least, most = self.wanted
        return not (
            self.slope < least - bound * self.error or self.slope > most + bound * self.error
        )


@dataclass(frozen=True, repr=False)
class CoordinateCheck:
    """The result of `coordinate_check`.

    Attributes:
        widths: of the models.
        rows: the layers, step by step.
        names: by optimizer, the parametrisation, or its exponents where it has no name.
        exponents: by optimizer and kind, of the first, hidden and last matrices.
        remarks: what theory does not have, and what a residual branch is multiplied by.
        draws: initializations of each width.
    """

    widths: tuple[int, ...]
    rows: tuple[Row, ...]
    names: dict[str, str]
    exponents: dict[str, dict[str, tuple[float, ...]]]
    remarks: tuple[str, ...]
    draws: int

    @property
    def bound(self) -> float:
        """Standard errors that all slopes stay within, but for `FALSE_ALARMS` of cases."""
        tail = FALSE_ALARMS / (2 * max(1, len(self.rows)))
        return -float(special.stdtrit(self.draws - 1, tail))

    def failures(self, optimizer: str) -> list[Row]:
        """The rows that fail, the worst first."""
        own = [row for row in self.rows if row.optimizer == optimizer]
        bad = [row for row in own if not row.passes(self.bound)]
        return sorted(bad, key=lambda row: -abs(row.slope))

    def resolution(self, optimizer: str) -> float:
        """The |slope| from which on every layer would have failed."""
        own = [row for row in self.rows if row.optimizer == optimizer and row.error > 0]
        return TOLERANCE + self.bound * max((row.error for row in own), default=0.0)

    @property
    def passed(self) -> bool:
        """True if no layer of any optimizer fails."""
        return not any(map(self.failures, self.names))

    def verdict(self, optimizer: str) -> str:
        """PASS or FAIL, with what it is known to."""
        failures = self.failures(optimizer)
        known = f"any slope beyond ±{self.resolution(optimizer):.2f} would have been seen"
        if not failures:
            return f"PASS: sizes do not depend on the width; {known} ({one_in(FALSE_ALARMS)})."
        row = failures[0]
        told = "grows" if row.slope > 0 else "shrinks"
        told += f" with the width to the power {short(row.slope, row.error)}"
        told = "overflows" if math.isinf(row.slope) else told
        count = sum(other.optimizer == optimizer for other in self.rows)
        return (
            f"FAIL: the {row.of} of {row.layer} at step {row.step} {told} ({len(failures)} of "
            f"{count} rows fail)."
        )

    def __str__(self) -> str:
        lines = []
        for name, told in self.names.items():
            lines += [f"{name}, {told}", f"  {self.verdict(name)}"]
        lines += [*self.remarks, "", *_table(self)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def plot(self) -> Figure:
        """Sizes against width, a panel for each optimizer and step, with lines and bars of theory.

        The thin bars are one standard deviation among single initializations.
        """
        check_installed("plot", "plot", "matplotlib")
        return _drawn(self)


def coordinate_check(
    model: Callable[[int], Any],
    widths: Sequence[int],
    inputs: ArrayLike,
    *,
    targets: ArrayLike | None = None,
    optimizers: Mapping[str, Callable[[Any], Any]] | None = None,
    steps: int = _STEPS,
    draws: int = _DRAWS,
    seed: int = 0,
) -> CoordinateCheck:
    """Check how the sizes of a model's layers, and their changes in training, scale.

    Arguments:
        model: a function of the width that makes a `torch.nn.Module`; or what `read` takes of flax
            and equinox: a module of linen, or a function of a key or `rngs` that makes a model.
        widths: two or more.
        inputs: (m, n_0), or signals as the model takes them.
        targets: (m, outputs); fixed normal numbers by default.
        optimizers: by name, functions of a model that make its optimizer; of flax and equinox
            functions of its parameters, by their paths, that make one of optax. By default SGD
            with a fifth of the rate that is stable at the first width, or 0.1 over the number of
            inputs where that is not known, and Adam with 0.001.
        steps: of each optimizer, on ½ Σ (z − y)² over all inputs.
        draws: initializations of each width.
        seed: of the first of them.

    Returns:
        A `CoordinateCheck`: for each layer and step the size by width, its slope in log width, and
        PASS or FAIL for each optimizer. A slope passes up to `TOLERANCE`, plus standard errors with
        every comparison counted. Sizes at step 0 should not change, but outputs may shrink; changes
        since step 0 should neither grow nor shrink.

    Theory is beside what is measured at step 0, from K and V, and at the outputs after steps of
    SGD with one rate, from Θ at infinite width: z − y → (1 − ηΘ)(z − y); after the first step only
    where the rate is stable. Derived here.

    Raises InputError for inputs, widths or targets that do not fit the model; for a model of Keras;
    and for one of flax or equinox that `read` refuses.
    """
    steps, draws = as_integer("steps", steps, 1), as_integer("draws", draws, 3)
    sizes = _widths(widths)
    X = np.atleast_2d(np.asarray(inputs, float))
    found = [_Width(model, width, X, targets, optimizers, checks.seed(seed)) for width in sizes]
    rate = found[0].stable
    measured = [each.measured(steps, draws, rate) for each in found]
    names = list(measured[0])
    rows = [
        row
        for name in names
        for row in _rows(name, sizes, found, [each[name] for each in measured])
    ]
    exponents = {name: _exponents(sizes, found, name) for name in names}
    told = {name: _named(found[0].kinds[name], exponents[name]) for name in names}
    remarks = tuple(dict.fromkeys(remark for each in found for remark in each.remarks))
    remarks += _of_depth(found[0].description)
    return CoordinateCheck(tuple(sizes), tuple(rows), told, exponents, remarks, draws)


def _widths(widths: Sequence[int]) -> list[int]:
    given = as_sequence("widths", widths, "two or more widths")
    found = sorted({as_integer("widths", each, 1) for each in given})
    if len(found) < 2:
        raise InputError("widths", widths, "two or more different widths")
    return found


class _Width:
    """A model of one width: what is measured, and what theory says."""

    def __init__(
        self,
        model: Callable[[int], Any],
        width: int,
        X: Array,
        targets: ArrayLike | None,
        optimizers: Mapping[str, Callable[[Any], Any]] | None,
        seed: int,
    ) -> None:
        self._make, self.width, self._seed = model, width, seed
        self.X, self._optimizers, self.remarks = X, optimizers, list[str]()
        self._framework = framework_of(model(width))
        if self._framework == "keras":
            wanted = "a model of torch, flax or equinox: write the same layers in one of these"
            raise InputError("model", "one of Keras, whose steps are not taken here", wanted)
        self.description, self.theory = self._read()
        steps = self._steps = self._of_framework()
        one = steps.made(model, width, seed)
        self.Y = _targets(targets, len(X), steps.outputs(one, steps.tensor(X)))
        self.kinds: dict[str, str] = {}
        self.rates: dict[str, dict[str, float]] = {}
        if self.description is None:
            values = steps.of_modules(one, steps.tensor(self.X))
            self.layers = [*steps.names_of_modules(one), "outputs"][: len(values)]
        else:
            self.layers = [f"layer {k + 1}" for k in range(self.description.depth)]

    def _read(self) -> tuple[Description | None, Theory | None]:
        try:
            is_torch = self._framework == "torch"
            found = read(
                (lambda: self._make(self.width)) if is_torch else self._make(self.width), self.X
            )
            if not found.is_of_vectors or found.structure.ending:
                told = "no theory of signals or batches, or of outputs that were not read"
                self.remarks.append(told)
                return (None if is_torch else found), None
            if len(self.X) > MOST_INPUTS:
                self.remarks.append(f"no theory of more than {MOST_INPUTS} inputs")
                return found, None
            return found, theory(found, self.X, 1)
        except InputError as error:
            if self._framework != "torch":
                raise
            self.remarks.append(f"no theory, as the model is not read: {error.wanted}")
            return None, None

    def _of_framework(self) -> Any:
        """How the framework takes a step of descent."""
        if self._framework == "torch":
            from .frameworks.torch import steps  # noqa: PLC0415  (an extra)

            return steps
        from .frameworks.jax.steps import Steps  # noqa: PLC0415  (an extra)

        assert self.description is not None
        return Steps(cast("JaxReading", self.description.reading))

    @property
    def stable(self) -> float:
        """The rate of SGD by default: a share of what is stable, if that is known."""
        known = math.nan
        if self.description is not None and self.theory is not None:
            known = rates(self.description, self.X, self.theory).stable
        return 0.1 / len(self.X) if math.isnan(known) else _SHARE * known

    def _record(self) -> Any:
        if self.description is None:
            return self._steps.of_modules
        nodes = [block.node for block in self.description.structure.blocks]
        reading: Any = self.description.reading
        return self._steps.of_nodes(reading, nodes)

    def measured(self, steps: int, draws: int, rate: float) -> dict[str, Array]:
        """By optimizer, mean squares of sizes and changes: (draws, steps + 1, layers, 2)."""
        found: dict[str, list[Any]] = {}
        makers = self._optimizers or self._steps.optimizers({"SGD": rate, "Adam": _ADAM})
        for draw in range(draws):
            for name, maker in makers.items():
                one = self._steps.made(self._make, self.width, self._seed + draw)
                optimizer = maker(one)
                self.kinds[name] = self._steps.kind_of(optimizer, one)
                self.rates[name] = self._steps.rates_of(one, optimizer)
                run = self._steps.descend(one, optimizer, self.X, self.Y, steps, self._record())
                found.setdefault(name, []).append(_squares(list(run)))
        return {name: np.array(each) for name, each in found.items()}

    def by_theory(self, name: str, steps: int) -> Array:
        """Mean squares as those that are measured, and standard deviations of these among
        initializations: (2, steps + 1, layers, 2), NaN where there is no theory."""
        found = np.full((2, steps + 1, len(self.layers), 2), np.nan)
        if self.description is None or self.theory is None:
            return found
        m, n = len(self.X), float(self.description.widths[1])
        K = self.theory.first["K"].to_numpy().reshape(-1, m, m)
        V = (
            self.theory.second["V"].to_numpy().reshape(-1, m, m, m, m)
            if "V" in self.theory.second
            else None
        )
        for at, own in enumerate(K):
            found[0, 0, at, 0] = np.trace(own) / m
            if V is not None:
                N = self.description.widths[at + 1]
                between = np.einsum("aabb->", V[at]) / n + 2 * (own**2).sum() / N
                found[1, 0, at, 0] = math.sqrt(max(float(between), 0.0)) / m
        eta = set(self.rates[name].values())
        thawed = self.description.structure.graph.thawed
        if self.kinds[name] == "SGD" and len(eta) == 1 and not thawed:
            Theta = self.theory.first["Theta"].to_numpy().reshape(-1, m, m)[-1]
            N, Y = self.Y.shape[1], self.Y @ self.Y.T / self.Y.shape[1]
            A = np.eye(m) - eta.pop() * Theta
            stable = float(np.linalg.eigvalsh(A)[0]) > -1
            for step in range(1, steps + 1 if stable else 2):
                power = np.linalg.matrix_power(A, step)
                moved = power - np.eye(m)
                size = power @ K[-1] @ power.T + moved @ Y @ moved.T
                change = moved @ (K[-1] + Y) @ moved.T
                for k, each in enumerate((size, change)):
                    found[0, step, -1, k] = np.trace(each) / m
                    found[1, step, -1, k] = math.sqrt(2 * float((each**2).sum()) / N) / m
        return found


def _targets(targets: ArrayLike | None, m: int, outputs: int) -> Array:
    if targets is None:
        return np.random.default_rng(0).standard_normal((m, outputs))
    Y = np.asarray(targets, float).reshape(m, -1)
    if Y.shape[1] != outputs or not np.isfinite(Y).all():
        raise InputError("targets", f"shape {np.shape(targets)}", f"({m}, {outputs}) numbers")
    return Y


@np.errstate(all="ignore")  # of training that diverges
def _squares(values: Sequence[Sequence[Array]]) -> Array:
    """Mean squares of values and of their changes, (steps + 1, layers, 2)."""
    first = values[0]
    return np.array(
        [
            [((z**2).mean(), ((z - z0) ** 2).mean()) for z, z0 in zip(each, first, strict=True)]
            for each in values
        ]
    )


@np.errstate(all="ignore")  # of training that diverges
def _rows(
    name: str, widths: Sequence[int], found: Sequence[_Width], measured: Sequence[Array]
) -> list[Row]:
    squares = np.array([each.mean(axis=0) for each in measured])
    errors = np.array([each.std(axis=0, ddof=1) / math.sqrt(len(each)) for each in measured])
    steps, layers = squares.shape[1] - 1, found[0].layers
    derived = np.array([each.by_theory(name, steps) for each in found])
    rows = []
    for step, (at, layer) in product(range(steps + 1), enumerate(layers)):
        k = int(step > 0)  # sizes before the first step, changes behind it
        own, se = (each[:, step, at, k] for each in (squares, errors))
        known, spread = derived[:, 0, step, at, k], derived[:, 1, step, at, k]
        is_output = step == 0 and at == len(layers) - 1
        wanted = (-math.inf if is_output else -TOLERANCE, TOLERANCE)
        sizes = *_root(own, se), *_root(known, spread)
        rows.append(Row(name, step, layer, _OF[k], *sizes, *_slope(widths, own, se), wanted))
    return rows


def _root(squares: Array, errors: Array) -> tuple[Array, Array]:
    """Roots of mean squares, with their errors."""
    sizes = np.sqrt(squares)
    with np.errstate(all="ignore"):
        return sizes, np.where(sizes > 0, errors / (2 * sizes), 0.0)


def _slope(widths: Sequence[int], squares: Array, errors: Array) -> tuple[float, float]:
    """Of the log of a root mean square in log width, by least squares with these errors."""
    if not np.isfinite(squares).all():
        return math.inf, 0.0
    if not (squares > 0).all():
        return math.nan, math.nan
    x, y = np.log(np.array(widths, float)), np.log(squares) / 2
    se = np.maximum(errors / (2 * squares), 1e-12)
    weight = 1 / se**2
    x = x - (weight * x).sum() / weight.sum()
    size = float((weight * x**2).sum())
    return float((weight * x * y).sum()) / size, size**-0.5


# the parametrisation


def _exponents(
    widths: Sequence[int], found: Sequence[_Width], name: str
) -> dict[str, tuple[float, ...]]:
    """Of the weights and of their learning rates, of the first, hidden and last matrices."""
    ends = found[0], found[-1]
    if any(each.description is None or each.description.depth < 2 for each in ends):
        return {}
    values = np.array([_scales(each, name) for each in ends])
    with np.errstate(all="ignore"):
        slopes = np.diff(np.log(values), axis=0)[0] / math.log(widths[-1] / widths[0])
    return {
        key: tuple(float(round(each, 3)) for each in own)
        for key, own in zip(("weights", "rates"), slopes, strict=True)
    }


def _of_depth(description: Description | None) -> tuple[str, ...]:
    """How residual branches scale with the number of blocks L: the factor of their last matrix."""
    if description is None:
        return ()
    made = description.structure
    blocks = [block for block in made.blocks if block.skip]
    scales = {abs(float(made.matrices([block])[-1].scale)) for block in blocks}
    count = len(blocks)
    if count < 2 or len(scales) > 1:
        return ()
    (scale,) = scales
    named = {1.0: "1", count**-0.5: "1/√L, as in depth-muP", 1 / count: "1/L, as in CompleteP"}
    near = [told for value, told in named.items() if abs(scale - value) < 1e-6 * value]
    return tuple(f"residual branches of {count} blocks are multiplied by {each}" for each in near)


def _scales(one: _Width, name: str) -> Array:
    """The standard deviation of weights, and their learning rate, with the factors of the matrices:
    (2, 3), means over hidden matrices; NaN without hidden ones."""
    description = one.description
    assert description is not None
    blocks = description.structure.blocks
    groups = [blocks[:1], blocks[1:-1], blocks[-1:]]
    found = np.full((2, 3), np.nan)
    power = 2 if one.kinds[name].startswith("SGD") else 1
    for at, group in enumerate(groups):
        if not group:
            continue
        own = description.structure.matrices(group)
        stds = [
            math.sqrt(float(law_of_weights(node, description.laws).C) / node.fan_in) for node in own
        ]
        eta = [
            one.rates[name].get(node.weight, 0.0) * abs(float(node.scale)) ** power for node in own
        ]
        found[:, at] = np.exp(np.log(np.maximum([stds, eta], 1e-300)).mean(axis=1))
    return found


def _named(kind: str, exponents: Mapping[str, tuple[float, ...]]) -> str:
    """The parametrisation with these exponents."""
    if not exponents:
        return "unknown parametrisation"
    rule = "SGD" if kind.startswith("SGD") else kind
    for name, own in PARAMETRISATIONS.items():
        if rule in own and all(
            _is_near(exponents[key], own[of])
            for key, of in (("weights", "weights"), ("rates", rule))
        ):
            return f"{name} parametrisation ({_told(exponents)})"
    return f"a parametrisation without a name ({_told(exponents)})"


def _is_near(found: Sequence[float], wanted: Sequence[float]) -> bool:
    """To 0.1; what is not there, as hidden matrices of a model without, and weights that are all 0
    are like any."""
    pairs = zip(found, wanted, strict=True)
    return all(not math.isfinite(one) or abs(one - other) < 0.1 for one, other in pairs)


def _told(exponents: Mapping[str, tuple[float, ...]]) -> str:
    def row(values: Sequence[float]) -> str:
        return ", ".join("–" if not math.isfinite(each) else f"{each + 0:.2g}" for each in values)

    weights, own = (row(exponents[key]) for key in ("weights", "rates"))
    return f"width exponents of first, hidden and last matrices: weights {weights}; rates {own}"


# as text and as a picture


def _table(check: CoordinateCheck) -> list[str]:
    heads = ["optimizer", "step", "layer", "of"]
    heads += [f"n={width}" for width in check.widths] + ["theory", "slope", ""]
    rows = [heads]
    for row in check.rows:
        known = row.theory[-1]
        cells = [row.optimizer, str(row.step), row.layer, row.of]
        cells += [short(float(v), float(e)) for v, e in zip(row.values, row.errors, strict=True)]
        mark = "" if row.passes(check.bound) else "FAIL"
        rows.append([*cells, short(float(known)), short(row.slope, row.error), mark])
    return aligned(rows)


def _drawn(check: CoordinateCheck) -> Figure:
    from matplotlib import pyplot as plt  # noqa: PLC0415  (an extra)

    steps = sorted({row.step for row in check.rows})
    shape = len(check.names), len(steps)
    size = 3 * len(steps), 2.6 * len(check.names)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, layout="constrained")
    layers = list(dict.fromkeys(row.layer for row in check.rows))
    for row in check.rows:
        panel = axes[list(check.names).index(row.optimizer), steps.index(row.step)]
        color = f"C{layers.index(row.layer) % 10}"
        panel.errorbar(check.widths, row.values, row.errors, fmt="o", color=color, label=row.layer)
        if np.isfinite(row.theory).all():
            panel.errorbar(check.widths, row.theory, row.spread, color=color, elinewidth=0.5)
        panel.set(xscale="log", yscale="log", title=f"{row.optimizer}, step {row.step}: {row.of}")
        panel.set(xlabel="width")
    axes[0, 0].legend(fontsize="small")
    return figure
