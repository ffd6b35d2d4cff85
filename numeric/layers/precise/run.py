"""A flow to as many decimal digits as asked: in balls, again with more until the digits are there.

Everything is computed in Arb's balls, whose radius bounds all errors: of rounding, of the rules of
quadrature, and of what a layer inherits from those above. Guard digits are added until every
entry that was asked for has its digits, or is zero to far more than them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np
from flint import arb, ctx

from derive.arithmetic.balls import ball
from derive.engine.tensors import Name, kernel_label
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError
from derive.work.progress import telling
from derive.work.resources import DAY, check_time

from ...arrays import Array
from ..resting import UndefinedError
from . import dependence, geometry
from .averages import Averages
from .geometry import Rows
from .recursions import Entry, Passage, Path, Recursions

GUARD, PER_DECADE, ZERO = 12, 2, 20
"""Digits beyond those at first, and for each power of ten of layers; below the natural size, beyond
those asked, of what is zero."""

_TERM, _LAYER = 2e-6, 0.0006
"""Seconds of a monomial, and of a layer beside its averages, at some 50 digits."""

_FIRST = 100

_ALONE = threading.RLock()
"""Held while a run sets the precision, which is all threads'."""

Layer = list[arb]


def _floats(layers: Sequence[Layer], entries: Sequence[Entry]) -> dict[Name, Array]:
    """The middles of balls by tensor, (depth, entries), to judge sizes by."""
    places: dict[Name, list[int]] = {}
    for place, (name, _) in enumerate(entries):
        places.setdefault(name, []).append(place)
    return {
        name: np.array([[float(layer[k].mid()) for k in at] for layer in layers])
        for name, at in places.items()
    }


class Precise(NamedTuple):
    """A tensor's entries at every layer, by inputs, and bounds of their errors."""

    values: dict[Entry, list[Decimal]]
    errors: dict[Entry, list[float]]


Sizes = Callable[[dict[Name, Array], Name], Array]
"""The natural size of a tensor at each layer."""


def run(
    recursions: Recursions,
    inputs: Sequence[Sequence[Fraction]],
    parameters: Mapping[str, Sequence[object]],
    wanted: Sequence[Entry],
    digits: int,
    sizes: Sizes,
    limit: float = DAY,
    products: tuple[object, object] | None = None,
) -> Precise:
    """The wanted entries at every layer of results.

    Arguments:
        inputs: distinct, (m, n_0).
        products: q and p of exchangeable inputs; `inputs` then say which depend on each other.
        parameters: the hyperparameters by name, exact, an entry for each layer.
        digits: how many of each entry are right.
        sizes: of tensors, given the middles of all.
        limit: the seconds that all may take, by a count: of what was done, and of what is left.

    Raises:
        InputError: where an entry is not finite, or does not come to have its digits.
    """
    asked = [(entry, recursions.entries.index(entry)) for entry in wanted]
    with _ALONE:
        descent = _Descent(recursions, inputs, parameters, limit, products)
        guard = GUARD + PER_DECADE * int(math.log10(descent.depth))
        while True:
            working = digits + guard
            layers, missing = descent(working), math.inf
            if layers is not None:
                missing = _most_missing(layers, recursions.entries, asked, digits, sizes)
                if missing <= 0.0:
                    break
            guard += math.ceil(missing) + 2 if math.isfinite(missing) else max(12, guard // 2)
            if guard > 20 * digits + 4000:
                names = ", ".join(dict.fromkeys(str(name) for name, _ in wanted))
                got = f"{digits}, of which {names} lose more than {guard}"
                raise InputError("precision", got, "inputs and variances at which they are finite")
        with ctx.workprec(_bits(working) + 64):
            found = {
                entry: [decimal_of(layer[at], digits) for layer in layers] for entry, at in asked
            }
    return Precise(
        {entry: [value for value, _ in each] for entry, each in found.items()},
        {entry: [error for _, error in each] for entry, each in found.items()},
    )


def _most_missing(
    layers: Sequence[Layer],
    entries: Sequence[Entry],
    asked: Sequence[tuple[Entry, int]],
    digits: int,
    sizes: Sizes,
) -> float:
    """How many digits entries that are not zero lack at most."""
    floats, missing = _floats(layers, entries), 0.0
    for (name, _), at in asked:
        size = sizes(floats, name)
        for layer, values in enumerate(layers):
            if not _is_zero(values[at], float(size[layer]), floats, layer, digits):
                missing = max(missing, _missing(values[at], digits))
    return missing


def _slower(digits: int) -> float:
    """How many times as long as at 50 digits."""
    return max(1.0, digits / 50.0)


def _bits(digits: int) -> int:
    return math.ceil(digits * math.log2(10.0)) + 32


class _Descent:
    """All layers, at any number of working digits."""

    def __init__(
        self,
        recursions: Recursions,
        inputs: Sequence[Sequence[Fraction]],
        parameters: Mapping[str, Sequence[object]],
        limit: float,
        products: tuple[object, object] | None,
    ) -> None:
        self._products = products
        self.recursions, self._inputs, self._parameters = recursions, inputs, parameters
        self._limit, self._counted = limit, 0.0
        self._averages: dict[Passage, dict[str, Averages]] = {}
        self.depth = len(parameters["C_b"])
        for layer in range(2, self.depth + 1):
            for _, each in chain(*recursions.at(layer)):
                if each not in self._averages:
                    self._averages[each] = {
                        label: Averages(
                            each.sigma(label),
                            list(wanted),
                            apart=each.is_merged,
                            exchangeable=each.exchangeable,
                        )
                        for label, wanted in each.averages.items()
                    }
        self._rows = _all_rows(recursions, inputs, parameters, self.depth)

    def __call__(self, working: int) -> list[Layer] | None:
        """The layers; None where a kernel loses all of its digits on the way."""
        what = f"running through the layers with {working} digits"
        with ctx.workprec(_bits(working)), telling(what, total=self.depth) as progress:
            recursions, goal = self.recursions, working * math.log(10.0)
            layer_one = [
                each(self._hyperparameters(0), self._means(each), {}) for each in recursions.first
            ]
            below, layers = layer_one[0], layer_one[-1:]
            each = recursions.monomials * _TERM + _LAYER
            self._check(working, each, 0)
            for layer in range(1, self.depth):
                progress.advance()
                self._counted += each * _slower(working)

                def check(seconds: float, layer: int = layer) -> None:
                    self._check(working, seconds + each, layer)
                    self._counted += seconds * _slower(working)

                ends = [
                    self._through(path, rows, below, layer, goal, check)
                    for path, rows in zip(
                        recursions.at(layer + 1), self._rows[layer - 1], strict=True
                    )
                ]
                if ends[0] is None or ends[-1] is None:
                    return None
                below, seen = ends[0], layers if layer > recursions.unseen else []
                layers = [*seen, ends[-1]]

            def told(seconds: float, left: int) -> None:
                longest = self._counted + left * seconds * _slower(working)
                check_time("precision", working, longest, what, self._limit)
                self._counted += seconds * _slower(working)

            return list(recursions.completed(layers, self._parameters, goal, told))

    def _through(
        self,
        path: Path,
        rows: Sequence[Mapping[str, Rows]],
        values: list[arb],
        layer: int,
        goal: float,
        check: Callable[[float], None],
    ) -> list[arb] | None:
        """The entries behind a layer or a readout; None where a kernel loses all of its digits."""
        for (_, passage), known in zip(path, rows, strict=True):
            averages = {}
            for label, own in self._averages[passage].items():
                K = passage.kernel(label, values)
                if any(_is_lost(K[a][a]) for a in range(passage.m)):
                    return None
                averages[label] = own(K, known[label], goal, check)
            below = values
            values = passage(self._hyperparameters(layer), below, averages)
            bad = next((k for k, value in enumerate(values) if value.is_nan()), None)
            if bad is not None and (found := passage.degenerate(below)):
                raise UndefinedError(found).at(layer, passage.entries[bad][0])
        return values

    def _check(self, working: int, seconds: float, layer: int) -> None:
        """Refuse what takes too long, if all layers from this one on take so long, with what all
        layers took before, at fewer digits too. K falls most in the first layers: of many, the
        first hundredth does not speak for the others."""
        first = self.depth // _FIRST
        layers = (first if layer < first else self.depth) - layer
        left = layers * seconds * _slower(working)
        what = f"{layers} layers with {working} digits"
        check_time("precision", working, self._counted + left, what, self._limit)

    def _hyperparameters(self, layer: int) -> list[object]:
        return [self._parameters[name][layer] for name in self.recursions.parameters]

    def _means(self, first: Passage) -> list[arb]:
        """Means of products of the inputs, (1/n_0) Σ_k Π_a x_ak, entry by entry."""
        if self._products is not None:
            q, p = map(ball, self._products)
            return [p if len(set(at)) > 1 else q for _, at in first.below]
        columns = list(zip(*self._inputs, strict=True))

        def mean(at: Sequence[int]) -> Fraction:
            products = (prod((column[a] for a in at), start=Fraction(1)) for column in columns)
            return sum(products, Fraction(0)) / len(columns)

        return [ball(mean(at or (0,) * len(name.subscripts))) for name, at in first.below]


def _all_rows(
    recursions: Recursions,
    inputs: Sequence[Sequence[Fraction]],
    parameters: Mapping[str, Sequence[object]],
    depth: int,
) -> list[list[list[dict[str, Rows]]]]:
    """How the inputs' variables depend on each other, before each stage of layers 2, 3, … and of
    their readouts, by the labels of their kernels."""
    biases = [bool(each != 0) for each in parameters["C_b"]]
    weights = [bool(each != 0) for each in parameters["C_W"]]
    none = [[Fraction(0)] for _ in inputs]
    rows = geometry.first_rows(inputs if weights[0] else none, biases=biases[0])
    stream: dict[Kind, Rows] = {STREAM: rows}
    found = []
    for layer in range(1, depth):
        ends, paths = [], []
        for path in recursions.at(layer + 1):
            known, stages = stream, []
            for stage, passage in path:
                stages.append({kernel_label(kind): each for kind, each in known.items()})
                known = dependence.behind(
                    stage, known, passage.activation, biases=biases[layer], weights=weights[layer]
                )
            ends.append(known)
            paths.append(stages)
        stream = ends[0]
        found.append(paths)
    return found


def _is_lost(variance: arb) -> bool:
    """True if a ball that is not exactly zero holds zero, or is not finite."""
    return not variance.is_zero() and not (variance.is_finite() and variance.lower() > 0)


def _missing(value: arb, digits: int) -> float:
    """How many digits of a ball are not there; ∞ where it holds 0."""
    if not value.is_finite():
        return math.inf
    radius = value.rad()
    if radius.is_zero():
        return 0.0
    lowest = value.abs_lower()
    if lowest.is_zero():
        return math.inf
    return float(((radius / lowest).log() / arb(10).log()).upper()) + digits + 1


def _is_zero(
    value: arb, size: float, floats: Mapping[Name, Array], layer: int, digits: int
) -> bool:
    """True if it vanishes to far more than the digits, in units of its natural size.

    At small kernels, where σ is nearly linear, what is not zero may be as small as K^8 times that.
    """
    if not value.contains(0) or not value.is_finite():
        return False
    kernel = min(
        (
            float(np.abs(each[max(layer - 1, 0)]).max())
            for name, each in floats.items()
            if name.label == "K"
        ),
        default=1.0,
    )
    if kernel == 0.0:  # or below a float's range, where nothing says what is small
        return value.rad().is_zero()
    small = -8.0 * math.log10(kernel) if kernel < 1.0 else 0.0
    scale = arb(size) if math.isfinite(size) and size > 0.0 else arb(1)
    return bool(value.rad() <= scale * arb(10) ** -(digits + ZERO + math.ceil(small)))


def decimal_of(value: arb, digits: int) -> tuple[Decimal, float]:
    """The digits of a ball, and a bound of how far they are from all in it."""
    text = "0" if value.contains(0) else value.mid().str(digits, radius=False)
    rounded = Decimal(text)
    distance = abs(value - arb(text)).upper()
    if distance.is_zero():
        return rounded, 0.0
    return rounded, math.nextafter(float(distance), math.inf)
