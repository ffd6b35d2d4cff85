"""A network's tensors to so many digits, as arrays over layers and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.engine.tensors import Name, identify, tensor
from derive.errors import InputError
from derive.network import Network
from derive.work.resources import DAY

from ...arrays import Array
from ..resting import UndefinedError

LEAST, MOST = 16, 1000
"""Digits that can be asked for."""


class Table(NamedTuple):
    """A tensor at every layer, (depth, m, …) or (depth,): `Decimal`s, bounds of their errors, and
    the tensor's natural size by layer."""

    values: NDArray[Any]
    errors: Array
    size: Array


def tensors(
    net: Network,
    X: Array,
    measured: int,
    needed: Sequence[Sequence[Sequence[Name]]],
    read: Sequence[Sequence[Sequence[Name]]],
    closed: Sequence[Name],
    parameters: Mapping[str, Sequence[object]],
    names: Sequence[Name],
    digits: int,
    sizes: Callable[[dict[Name, Array], Name], Array],
    limit: float = DAY,
) -> dict[Name, Table]:
    """These tensors, each number with its digits.

    Arguments:
        X: the inputs, (m, n_0); those that are equal are computed once, but for dropout and for
            positions of signals.
        measured: samples of a table: those of X, or its signals where they are read out.
        needed: the tensors behind each stage of each distinct layer, which need no others.
        read: those behind each stage of its readout.
        closed: further tensors of one input, which close on functionals.
        parameters: the hyperparameters by name, exact, an entry for each layer.
        digits: how many.
        sizes: the natural size of a tensor, by layer, given all.
        limit: the seconds, by a count made beforehand, that it may take.

    Raises:
        InputError: where σ, the inputs or the time it takes do not allow it.
    """
    from .recursions import Recursions  # noqa: PLC0415  (python-flint, which only this needs)
    from .run import run  # noqa: PLC0415
    from .skips import Skips  # noqa: PLC0415

    depth, m = len(parameters["C_b"]), len(X)
    rows = [tuple(Fraction(float(each)) for each in row) for row in X]
    # equal inputs have masks of their own, and equal positions other neighbours
    apart = net.has_dropout(depth) or bool(net.layer.input_axes)
    inputs = rows if apart else list(dict.fromkeys(rows))
    place = list(range(m)) if apart else [inputs.index(row) for row in rows]
    schemes, order = net.schemes(depth, m)
    for scheme in schemes:
        scheme.check_numbers()
    first = net.weights_at(1, depth=depth)
    if closed:
        recursions: Recursions = Skips(closed, needed, schemes, order, first)
    else:
        recursions = Recursions(needed, schemes, order, first, len(inputs), read=read)
    if unknown := [name for name in recursions.parameters if name not in parameters]:
        wanted = f"a number for {', '.join(unknown)}"
        raise InputError("weights", str(first), wanted)

    def entry(name: Name, at: Sequence[int]) -> tuple[Name, tuple[int, ...]]:
        if m == 1:
            return recursions.entry(_own(name), ())
        slots = dict(zip(name.subscripts, at, strict=True))
        labels = tuple(place[slots[slot]] for slot in range(len(slots)))
        return identify(tensor(name.fields, name.order, name.pairing, labels))

    def samples(name: Name) -> list[tuple[int, ...]]:
        return list(product(range(measured), repeat=len(name.subscripts) if m > 1 else 0))

    asked = list(dict.fromkeys(entry(name, at) for name in names for at in samples(name)))
    try:
        found = run(recursions, inputs, parameters, asked, digits, sizes, limit)
    except UndefinedError as error:
        undefined = error.found._replace(sample=place.index(error.found.sample))
        raise UndefinedError(undefined).at(error.layer, error.tensor) from None
    tables = {}
    for name in names:
        shape = (depth, *(measured,) * len(name.subscripts)) if m > 1 else (depth,)
        values, errors = np.empty(shape, object), np.empty(shape)
        for at in samples(name):
            own = entry(name, at)
            for layer in range(depth):
                values[(layer, *at)] = found.values[own][layer]
                errors[(layer, *at)] = found.errors[own][layer]
        tables[name] = Table(values, errors, sizes(found.floats, name))
    return tables


def _own(name: Name) -> Name:
    """The name under which the recursions know the tensor."""
    slots = tuple(range(len(name.subscripts)))
    return identify(tensor(name.fields, name.order, name.pairing, slots))[0]
