"""A network's tensors to so many digits, as arrays over layers and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from derive.engine.scheme import Scheme
from derive.engine.tensors import Name, canonical, identify, tensor
from derive.errors import InputError
from derive.network import Network
from derive.work.resources import DAY

from ...arrays import Array
from ...checks import Inputs
from ..resting import UndefinedError

LEAST, MOST = 16, 1000
"""Digits that can be asked for."""


def tensors(
    net: Network,
    data: Inputs,
    schemes: tuple[Sequence[Scheme], Sequence[int], Sequence[int]],
    needed: Sequence[Sequence[Sequence[Name]]],
    read: Sequence[Sequence[Sequence[Name]]],
    closed: Sequence[Name],
    parameters: Mapping[str, Sequence[object]],
    names: Sequence[Name],
    digits: int,
    sizes: Callable[[dict[Name, Array], Name], Array],
    limit: float = DAY,
) -> dict[Name, tuple[NDArray[Any], Array]]:
    """These tensors at the layers of a table, (layers, m, …) or (layers,): `Decimal`s, each with
    its digits, and bounds of their errors.

    Arguments:
        data: the inputs; those that are equal are computed once, but for dropout and for
            positions of signals.
        schemes: those of distinct layers, which of them layers 2, 3, … have, and the samples in
            front of each.
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

    depth, m, unseen = len(parameters["C_b"]), max(data.samples), data.first - 1
    (distinct, order, ahead), measured = schemes, data.measured
    exchangeable = data.exchangeable
    rows = [tuple(Fraction(float(each)) for each in row) for row in data.X]
    if exchangeable is not None:
        rows = [tuple(map(Fraction, row)) for row in exchangeable.dependence(m)]
    # equal inputs have masks of their own, and equal positions other neighbours
    apart = any(each.separates_equals for of in distinct for each in of.stages)
    inputs = rows if apart else list(dict.fromkeys(rows))
    place = list(range(m)) if apart else [inputs.index(row) for row in rows]
    for scheme in distinct:
        scheme.check_numbers()
        scheme.check_positions("a precision")
    first = net.weights_at(1, depth=depth)
    if closed:
        recursions: Recursions = Skips(closed, needed, distinct, order, first)
    else:
        samples = ahead if apart else (len(inputs),) * len(distinct), len(inputs)
        given = needed, distinct, order, first, samples, unseen
        several = exchangeable is not None and len(inputs) > 1
        recursions = Recursions(*given, read=read, exchangeable=several)
    if unknown := [name for name in recursions.parameters if name not in parameters]:
        wanted = f"a number for {', '.join(unknown)}"
        raise InputError("weights", str(first), wanted)

    def entry(name: Name, at: Sequence[int]) -> tuple[Name, tuple[int, ...]]:
        if m == 1:
            return recursions.entry(canonical(name), ())
        slots = dict(zip(name.subscripts, at, strict=True))
        labels = tuple(place[slots[slot]] for slot in range(len(slots)))
        found = identify(tensor(name.fields, name.order, name.pairing, labels))
        return found if exchangeable is None else recursions.entry(*found)

    def places(name: Name) -> list[tuple[int, ...]]:
        return list(product(range(measured), repeat=len(name.subscripts) if m > 1 else 0))

    asked = list(dict.fromkeys(entry(name, at) for name in names for at in places(name)))
    try:
        products = None if exchangeable is None else (exchangeable.q, exchangeable.p)
        found = run(recursions, inputs, parameters, asked, digits, sizes, limit, products)
    except UndefinedError as error:
        sample = error.found.sample if apart else place.index(error.found.sample)
        raise UndefinedError(error.found._replace(sample=sample)).at(
            error.layer, error.tensor
        ) from None
    tables = {}
    for name in names:
        shape = (depth - unseen, *(measured,) * (len(name.subscripts) if m > 1 else 0))
        values, errors = np.empty(shape, object), np.empty(shape)
        for at in places(name):
            own = entry(name, at)
            for layer in range(depth - unseen):
                values[(layer, *at)] = found.values[own][layer]
                errors[(layer, *at)] = found.errors[own][layer]
        tables[name] = values, errors
    return tables
