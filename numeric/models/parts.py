"""Parts of a layer that a model takes by an index: some positions, or some neurons."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from derive.engine.taps import Taps

from .signals import selected
from .tracing import Beside, Neurons, Tracer, UnreadableError, Value, parts_of


def part(tracer: Tracer, u: Neurons | Beside, at: Any) -> Value:
    """Some positions of a signal, or some neurons of a layer."""
    first = u.parts[0] if isinstance(u, Beside) else u
    axes = len(tracer.graph.shapes[first.node])
    given = list(at) if isinstance(at, tuple) else [at]
    if Ellipsis in given:
        place, missing = given.index(Ellipsis), 3 + axes - len(given)
        given[place : place + 1] = [slice(None)] * missing
    given += [slice(None)] * (2 + axes - len(given))
    neurons = given.pop(-1 if first.form == tracer.behind else 1)
    if given[0] != slice(None) or first.form == "flat" or not isinstance(neurons, slice):
        raise UnreadableError("an index, but of positions or of a slice of neurons")
    if neurons != slice(None):
        count = width(tracer, u)
        low, high, step = neurons.indices(count)
        if step != 1 or given[1:] != [slice(None)] * axes:
            raise UnreadableError("neurons with a step, or of some positions")
        return tracer.rows(u, low, high)
    if given[1:] == [slice(None)] * axes:
        return u
    if isinstance(u, Beside):
        raise UnreadableError("some positions of values side by side")

    def taps(shape: tuple[int, ...]) -> Taps:
        single = [isinstance(each, int) for each in given[1:]]
        at = [
            [range(P)[e]] if isinstance(e, int) else range(P)[e]
            for P, e in zip(shape, given[1:], strict=True)
        ]
        found = selected(shape, at)
        into = tuple(P for P, is_one in zip(found.into, single, strict=True) if not is_one)
        return replace(found, into=into)

    made = tracer.pooled(replace(u, form=""), taps, axes)
    return replace(made, form=u.form if tracer.graph.shapes[made.node] else "")


def width(tracer: Tracer, u: Value) -> int:
    """The neurons of values, of all that lie side by side."""
    parts = parts_of(u)
    if not all(isinstance(each, Neurons) for each in parts):
        raise UnreadableError("a part of what is no layer")
    return sum(tracer.graph.widths[each.node] for each in parts if isinstance(each, Neurons))


def merged(tracer: Tracer, u: Neurons) -> Value:
    """A signal with its positions along one axis."""
    axes = len(tracer.graph.shapes[u.node])

    def taps(shape: tuple[int, ...]) -> Taps:
        return replace(selected(shape, [range(P) for P in shape]), into=(math.prod(shape),))

    return u if axes == 1 else tracer.pooled(u, taps, axes)
