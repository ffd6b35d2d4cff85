"""Pictures of a report: theory as lines and measured points with error bars, as SVG.

They stand in the page itself and take its colours, so that it needs no other file and no other
package.
"""

from __future__ import annotations

import html as escaping
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import xarray

from ..arrays import Array

_WIDTH, _HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 26, 30
_COLOURS = ("#1f77b4", "#d62728")
_TICKS = 8
"""Layers that are numbered, at most."""
_DECADES = 1.5
"""Powers of ten from which on an axis of positive numbers is logarithmic."""
_BARS = 2.0
"""Standard errors that a bar reaches to either side."""


class Curve(NamedTuple):
    """One quantity by layer.

    Attributes:
        name: for the legend.
        theory: by layer, NaN where it is not known.
        measured, error: likewise, and their standard errors.
    """

    name: str
    theory: Array
    measured: Array
    error: Array

    @property
    def numbers(self) -> Array:
        """All that has to have room."""
        bars = [self.measured + sign * _BARS * self.error for sign in (-1, 1)]
        every = np.concatenate([self.theory, self.measured, *bars])
        return np.asarray(every[np.isfinite(every)])


_PANELS = (
    ("K: variance of signals", (("K", "K"),)),
    ("χ: factors of a layer", (("χ∥", "chi_parallel"), ("χ⊥", "chi_perp"))),
    ("V/(nK²): fluctuations", (("V/(nK²)", "ratio"),)),
    ("Θ: tangent kernel", (("Θ", "Theta"),)),
)


def pictures(table: xarray.Dataset) -> str:
    """The panels of a report's table that have numbers, as SVG."""
    layers = table["layer"].to_numpy()
    panels = ((title, [_curve(table, *each) for each in names]) for title, names in _PANELS)
    return "\n".join(
        panel(title, layers, curves)
        for title, curves in panels
        if any(len(each.numbers) for each in curves)
    )


def _curve(table: xarray.Dataset, label: str, name: str) -> Curve:
    unknown = np.full(len(table["layer"]), np.nan)
    columns = (name, f"{name}_measured", f"{name}_measured_se")
    return Curve(label, *(table[each].to_numpy() if each in table else unknown for each in columns))


def panel(title: str, layers: Array, curves: Sequence[Curve]) -> str:
    """A picture with an axis of layers; logarithmic where positive numbers span decades."""
    numbers = np.concatenate([each.numbers for each in curves])
    theory = np.concatenate([each.theory for each in curves])
    values = np.abs(theory[np.isfinite(theory)]) if np.isfinite(theory).any() else numbers
    is_log = bool((values > 0).all() and values.max() > 10**_DECADES * values.min())
    is_log = is_log and bool((theory[np.isfinite(theory)] > 0).all())
    axis = _Axis.of(numbers[numbers > 0] if is_log else numbers, is_log)
    inside = [_frame(title), *_ticks(layers, axis)]
    for curve, colour in zip(curves, _COLOURS, strict=False):
        inside += _drawn(layers, curve, axis, colour)
    inside += _legend(curves)
    return (
        f'<svg role="img" aria-label="{escaping.escape(title)} by layer" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-size="11" fill="currentColor" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(inside)}</svg>"
    )


class _Axis(NamedTuple):
    """From numbers to heights."""

    low: float
    high: float
    is_log: bool

    @staticmethod
    def of(numbers: Array, is_log: bool) -> _Axis:
        """An axis on which all numbers have room."""
        own = np.log10(numbers) if is_log else numbers
        low, high = float(own.min()), float(own.max())
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        return _Axis(low - room, high + room, is_log)

    def at(self, value: float) -> float:
        """The height of a number; NaN where the axis has none."""
        if self.is_log:
            value = math.log10(value) if value > 0 else self.low
        share = (value - self.low) / (self.high - self.low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    @property
    def ticks(self) -> list[float]:
        """Round numbers on the axis."""
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 2))
        step = next(step * by for by in (1, 2, 5, 10) if span / (step * by) <= 5)
        step = max(step, 1.0) if self.is_log else step
        found = np.arange(math.ceil(self.low / step), math.floor(self.high / step) + 1) * step
        if self.is_log and len(found) < 2:
            found = np.array([self.low, self.high])
        return [10.0**each if self.is_log else float(each) for each in found]


def _across(layers: Array, layer: float) -> float:
    span = max(1.0, float(layers[-1] - layers[0]))
    margin = 10
    room = _WIDTH - _LEFT - _RIGHT - 2 * margin
    return _LEFT + margin + (layer - float(layers[0])) / span * room


def _frame(title: str) -> str:
    return (
        f'<text x="{_LEFT}" y="14" font-weight="bold">{escaping.escape(title)}</text>'
        f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}" fill="none" '
        'stroke="currentColor"/>'
    )


def _ticks(layers: Array, axis: _Axis) -> Iterator[str]:
    for value in axis.ticks:
        y = axis.at(value)
        yield f'<path d="M{_LEFT - 4} {y:.1f}h4" stroke="currentColor"/>'
        yield f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{value:.3g}</text>'
    for layer in layers[:: math.ceil(len(layers) / _TICKS)]:
        x = _across(layers, layer)
        yield f'<text x="{x:.1f}" y="{_HEIGHT - 14}" text-anchor="middle">{int(layer)}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">layer</text>'


def _drawn(layers: Array, curve: Curve, axis: _Axis, colour: str) -> Iterator[str]:
    """The line, broken where theory is not known, and the points with their bars."""
    steps, pen = list[str](), "M"
    for layer, value in zip(layers, curve.theory, strict=True):
        if math.isfinite(value):
            steps.append(f"{pen}{_across(layers, layer):.1f} {axis.at(value):.1f}")
        pen = "L" if math.isfinite(value) else "M"
    if steps:
        shown = "".join(steps) + ("h0.1" if len(steps) == 1 else "")
        yield f'<path d="{shown}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    for layer, value, error in zip(layers, curve.measured, curve.error, strict=True):
        if not math.isfinite(value) or (axis.is_log and value <= 0):
            continue
        x, ends = _across(layers, layer), [value + sign * _BARS * error for sign in (-1, 1)]
        low, high = (axis.at(each) for each in ends)
        yield f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}"/>'
        yield f'<circle cx="{x:.1f}" cy="{axis.at(value):.1f}" r="2.5" fill="{colour}"/>'


def _legend(curves: Sequence[Curve]) -> Iterator[str]:
    if len(curves) < 2:
        return
    for at, (curve, colour) in enumerate(zip(curves, _COLOURS, strict=False)):
        x = _WIDTH - _RIGHT - 40 * (len(curves) - at)
        name = escaping.escape(curve.name)
        yield f'<text x="{x}" y="{_TOP + 10}" fill="{colour}">— {name}</text>'
