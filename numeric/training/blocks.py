"""Networks taken down their losses a few at a time, which fit the processor's cache.

Of a block's first step the tape keeps what was done (`tape.Tape`), with parameters copied to places
of the block's own; every further step does it again, then moves the parameters. Networks take no
notice of each other, so that nothing depends on how many are in a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array
from .losses import slope
from .optimizers import stepped
from .parts import Key, Part, Pass, Trained, Use

Masks = Sequence[np.random.Generator]
"""Of each network, what its masks of dropout are drawn from."""
Passed = Callable[[Array, Mapping[Key, Array], Masks], Pass]
"""Forward, of inputs (networks or 1, samples, n_0), parameters and masks."""

_NUMBERS = 1 << 19
"""Parameters of a block, roughly: four megabytes."""
_MOST = 64
"""Networks of a block: of small ones, activations fill the cache."""


def networks_of(size: int) -> int:
    """How many networks of so many parameters are a block."""
    return max(1, min(_MOST, _NUMBERS // size))


class Block:
    """So many networks that take steps together.

    Arguments:
        work: what they are trained on, and how.
        parts: their parameters.
        passed: what takes them forward.
        inputs: the training set's, then others, each (positions, n_0).
        targets: of each input, (places, outputs).
        count: networks.
    """

    def __init__(
        self,
        work: Trained,
        parts: Sequence[Part],
        passed: Passed,
        inputs: Array,
        targets: Array,
        count: int,
    ) -> None:
        self._work, self._parts = work, parts
        self._own = {part.key: np.empty((count, *part.shape)) for part in parts}
        self._passed = passed
        self._pass: Pass | None = None
        self._all, self._targets = inputs, targets
        signals = 1 if work.batch == len(targets) else count, work.batch
        self._inputs = np.empty((*signals, *inputs.shape[1:]))
        self._masks: list[np.random.Generator] = []
        self._rooms = np.empty((2, count * max(part.size for part in parts)))

    def descend(
        self,
        parameters: Mapping[Key, Array],
        moments: Mapping[Key, Array],
        orders: NDArray[np.int64],
        masks: Masks,
        taken: int,
    ) -> None:
        """Steps of these networks, in place, behind so many, with the training inputs that
        `orders`, (networks, steps, batch), has for them; moments (moments, networks, size)."""
        self._masks[:] = masks
        for key, own in self._own.items():
            own[:] = parameters[key]
        for t in range(orders.shape[1]):
            order = orders[: len(self._inputs), t]
            self._inputs[:] = self._all[order]
            self._turn(_by_sample(self._targets[order]))
            self._step(moments, taken + t + 1)
        for key, own in self._own.items():
            parameters[key][:] = own

    def _turn(self, y: Array) -> None:
        """Forward and back."""
        if self._pass is None:
            made = self._passed(_by_sample(self._inputs), self._own, self._masks)
            self._back = np.array(slope(made.outputs.value[:, 0], y, self._work.loss)[:, None])
            made.tape.differentiate(made.outputs, self._back)
            self._pass = made
            return
        made = self._pass
        made.tape.forward()
        self._back[:, 0] = slope(made.outputs.value[:, 0], y, self._work.loss)
        made.tape.reverse()

    def _step(self, moments: Mapping[Key, Array], count: int) -> None:
        """Step number `count`. Of plain descent the learning rate multiplies the fewer numbers,
        those that come back to a layer and not its matrix."""
        assert self._pass is not None
        rule = self._work.rule
        plain = not rule.moments and rule.clip is None
        for part in self._parts:
            own, uses = self._own[part.key], self._pass.uses[part.key]
            gradient, room = (each[: own.size].reshape(own.shape) for each in self._rooms)
            if plain:
                rate = rule.eta * (part.rate if rule.kind == "tensorial" else 1.0)
                _fill_gradient(gradient, uses, rate)
                np.subtract(own, gradient, own)
                continue
            _fill_gradient(gradient, uses)
            rows, slopes, spare = (each.reshape(len(own), -1) for each in (own, gradient, room))
            stepped(
                rule, rows, slopes, moments[part.key], spare, part.rate, count,
                clips=part.law is not None,
            )  # fmt: skip


def _by_sample(signals: Array) -> Array:
    """(networks, inputs, positions, n) with inputs and positions in one axis."""
    return signals.reshape(len(signals), -1, signals.shape[3])


def _fill_gradient(found: Array, uses: Sequence[Use], scale: float | None = None) -> None:
    """∂L/∂W, (networks, n_in, n_out), or of biases; times a number if given."""
    for k, (body, made) in enumerate(uses):
        assert made.back is not None
        own, back = found if k == 0 else np.empty_like(found), made.back[:, 0]
        back = back if scale is None else back * scale
        if body is None:
            np.add.reduce(back, 1, out=own, keepdims=True)
        else:
            x = body.value[:, 0].transpose(0, 2, 1)
            product = np.multiply if x.shape[2] == 1 else np.matmul
            product(x, back, own)
        if k:
            found += own
