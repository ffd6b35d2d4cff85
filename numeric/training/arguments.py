"""Checks of the arguments that theory and ensembles of trained networks share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from derive.engine.norms import norm_of
from derive.engine.orbits import Exchangeable
from derive.engine.trees import STREAM
from derive.errors import InputError, Words, as_integer, as_sequence
from derive.network import Network
from derive.work.resources import check_memory, number

from ..arrays import Array
from ..checks import checked_inputs, numbers, real, representatives
from ..flows import around_matrices


class Data(NamedTuple):
    """Training inputs, then tests; and targets.

    Attributes:
        X: (inputs, n_0), or of signals (inputs, positions, n_0).
        targets: (training samples, outputs); of signals that are not read out a sample is one at a
            position.
        places: samples that an input is.
    """

    X: Array
    targets: Array
    places: int

    @property
    def samples(self) -> int:
        """Of all inputs."""
        return len(self.X) * self.places

    @property
    def training(self) -> int:
        """Inputs of the training set."""
        return len(self.targets) // self.places


def checked_network(net: object, depth: int | None) -> tuple[int, str]:
    """The depth, and the group that keeps the law of the outputs, "O" or "B"; InputError if more
    than averages over this group enters at order 1/n."""
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    deep = depth_of(net, depth)
    if net.has_dropout(deep):
        wanted = "none with dropout, whose masks are random numbers beside the parameters: "
        raise InputError("layer", str(net.layer), wanted + "training.simulate trains it")
    if deep in skips(net, deep):
        last = net.layer_at(deep, deep)
        wanted = f"as the last one a layer such as the dense one, '{last}*; dense': outputs "
        wanted += "behind it are neurons of a law that only permutations keep, and averages "
        wanted += "at one neuron no sums over pairings there"
        raise InputError("layer", str(last), wanted)
    return deep, net.tabulated(deep).group


def depth_of(net: Network, depth: int | None) -> int:
    """How many layers are computed, as `numeric.flow` takes them; or InputError."""
    given_depth = net.depth if depth is None else depth
    if given_depth is None:
        raise InputError("depth", None, "a depth, or a network with widths")
    deep = as_integer("depth", given_depth, 1)
    layer = net.layer
    if layer.measured_axes(deep) != layer.output_axes:
        wanted = f"the depth of {layer}: the positions of its layers are not those of the last one"
        raise InputError("depth", deep, wanted)
    return deep


def check_branches(net: Network, depth: int | None) -> None:
    """InputError where there is no dH or ddH to order 1/n: behind a norm and a skip around one
    matrix."""
    deep = depth_of(net, depth)
    for layer in {net.layer_at(at, deep) for at in skips(net, deep)}:
        if norm_of(layer.stages) is not None:
            wanted = (
                "a skip around one matrix without a norm: behind one dH and ddH are not derived"
            )
            raise InputError("layer", str(layer), wanted)


def skips(net: Network, depth: int) -> list[int]:
    """The layers that are a skip around one matrix: the law behind one only permutations keep."""
    found = around_matrices(net.schemes(depth, 1).distinct)
    return [at for at in range(2, depth + 1) if net.layer_at(at, depth) in found]


def check_readout(net: Network, outputs: int, depth: int | None) -> None:
    """InputError for targets of other outputs than the readout of given widths has; a layer that
    carries z to its end has more neurons than are read."""
    if net.widths is None or (deep := depth_of(net, depth)) >= len(net.widths):
        return
    n = net.widths[deep]
    if outputs > n or (outputs < n and not carries(net, deep)):
        raise InputError(
            "targets", Words(f"{outputs} outputs"), f"{n}, the n_L of the network's widths"
        )


def carries(net: Network, depth: int) -> bool:
    """True if the last layer carries z past its matrices, and outputs are its first neurons."""
    if depth == 1:
        return False
    *_, last = net.layer_at(depth, depth).stages
    return any(term.weight is None for term in last.equation(STREAM).right)


def given(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    targets: ArrayLike,
    test: ArrayLike | None,
    outputs: int | None,
) -> Data:
    """The inputs, training set first, and the targets as (samples, outputs); or InputError."""
    if isinstance(inputs, Exchangeable):
        return _exchangeable(net, inputs, targets, test, outputs)
    X, places = inputs_of(net, inputs), net.layer.output_axes
    y = checked_targets("targets", targets, len(X), places, single=np.ndim(inputs) < X.ndim)
    if outputs is not None and as_integer("outputs", outputs, 1) != y.shape[1]:
        raise InputError("outputs", outputs, f"{y.shape[1]}, as the targets have")
    if test is None:
        return Data(X, y, math.prod(places))
    try:
        T = inputs_of(net, test)
    except InputError as refused:
        raise InputError("test", refused.got, refused.wanted) from None
    if T.shape[-1] != X.shape[-1]:
        raise InputError(
            "test", Words(f"{T.shape[-1]} numbers each"), f"{X.shape[-1]}, as the inputs"
        )
    return Data(np.concatenate([X, T]), y, math.prod(places))


_TENSORS = 60
"""How many arrays of tensors, their errors and what is made of them are held at a time."""


def _exchangeable(
    net: Network,
    inputs: Exchangeable,
    targets: ArrayLike,
    test: ArrayLike | None,
    outputs: int | None,
) -> Data:
    """As many inputs as targets as the training set, and then the others; or InputError."""
    m = as_integer(
        "m", inputs.m, 1, wanted="an integer, of the inputs that are trained on and the others"
    )
    if test is not None:
        raise InputError("test", Words("inputs"), "none: samples without a target are tests")
    check_memory("m", m, 8 * _TENSORS * m**4, f"the tensors of {number(m)} inputs")
    y = checked_targets("targets", targets, min(m, np.shape(targets)[0] if np.ndim(targets) else 1))
    if outputs is not None and as_integer("outputs", outputs, 1) != y.shape[1]:
        raise InputError("outputs", outputs, f"{y.shape[1]}, as the targets have")
    return Data(representatives(inputs, m, net, 1).X, y, 1)


def inputs_of(net: Network, inputs: ArrayLike) -> Array:
    """(inputs, n_0), or of signals (inputs, positions, n_0); or InputError."""
    return checked_inputs(inputs, net.layer).by_input


def checked_targets(
    name: str,
    targets: ArrayLike,
    count: int,
    places: tuple[int, ...] = (),
    single: bool = False,
) -> Array:
    """(samples, outputs), from numbers for so many inputs, or one, at each of these places; or
    InputError."""
    each = f"each of the {places[0]} positions of each input" if places else "each input"
    many = count * math.prod(places)
    wanted = f"{many} finite real numbers, one for {each}, or a row of outputs"
    y = numbers(name, targets, wanted)
    axes = count, *places
    y = y[None] if single and y.shape[: len(axes)] != axes else y
    y = y[..., None] if y.ndim == len(axes) else y
    if y.ndim != len(axes) + 1 or y.shape[:-1] != axes or not y.size:
        raise InputError(name, Words(f"shape {np.shape(targets)}"), wanted)
    if not np.isfinite(y).all():
        raise InputError(name, Words("NaN or infinity"), wanted)
    return y.reshape(-1, y.shape[-1]).astype(float)


def checked_rate(eta: object, *, flows: bool = True) -> float:
    """η, a number; 0 is allowed where it stands for gradient flow."""
    wanted = "a finite learning rate above 0" + (", or 0 for gradient flow" if flows else "")
    rate = real("eta", eta, wanted)
    if rate < 0 or not (rate or flows):
        raise InputError("eta", eta, wanted)
    return rate


def checked_steps(steps: float | Iterable[float], *, continuous: bool) -> tuple[float, ...]:
    """Numbers of steps, or times, as they were given; or InputError."""
    wanted = "numbers of steps, 0 or more, whole unless eta is 0, or math.inf"
    if hasattr(steps, "dtype"):
        steps = np.asarray(steps).tolist()
    given = [steps] if isinstance(steps, float | Real) else as_sequence("steps", steps, wanted)
    if not all(isinstance(t, Real) and not isinstance(t, bool) for t in given):
        raise InputError("steps", given, wanted)
    try:
        found = tuple(map(float, given))
    except OverflowError:
        raise InputError("steps", given, wanted) from None
    for t in found:
        good = t >= 0 and (continuous or math.isinf(t) or t == int(t))
        if not good or (not continuous and math.isfinite(t) and t > 2.0**53):
            raise InputError("steps", given, wanted)
    if not found:
        raise InputError("steps", given, wanted)
    return found
