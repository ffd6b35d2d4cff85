"""Networks of any layer side by side: drawn, taken down their losses, looked at on the way.

A layer's equations (`derive.engine.stages`) are evaluated on a `Tape`, with their gradients by
reverse differentiation. Every matrix has a learning rate λ_W over its own fan-in, and every
equation with biases has its own. Where z stands for n neurons to the end, as behind a skip, a
network's outputs are the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from derive.activations import Activation
from derive.arithmetic.parameters import Value
from derive.engine.trees import STREAM, Kind

from ..arrays import Array
from ..samplers.ensemble import MASKS, PERMUTATIONS, Ensemble, masked
from ..samplers.staged import Evaluated, Parts
from . import kernels
from .arguments import carries
from .blocks import Block, Masks, networks_of
from .losses import per_input
from .optimizers import take_steps
from .parts import Key, Part, Pass, Trained, Use, parts, stages_at
from .tape import Node, Tape

_HELD = 1 << 22
"""Numbers that are held together of the kernels of uses of a matrix."""


def reads_alone(ensemble: Ensemble) -> bool:
    """True if the outputs are odd in the last stage's parameters, and so mirrored by them: nothing
    is carried past its matrices."""
    return not carries(ensemble.net, ensemble.depth)


class Networks:
    """Networks side by side: all parameters in one row for each, in the order of `parts`."""

    def __init__(self, work: Trained, draws: NDArray[np.int64]) -> None:
        self.work = work
        layer = work.ensemble.net.layer
        self.positions = math.prod(layer.input_axes)  # of an input, and of what comes out
        self.places = math.prod(layer.output_axes)
        self.streams = work.ensemble.generators(draws)
        with_masks = MASKS in work.ensemble.layers.needs
        self.masks = work.ensemble.generators(draws, 1) if with_masks else []
        self.parts = parts(work.ensemble, work.targets.shape[1])
        ends = np.cumsum([0, *(part.size for part in self.parts)])
        self.slices = {
            part.key: slice(start, end)
            for part, start, end in zip(self.parts, ends, ends[1:], strict=False)
        }
        self.parameters = np.empty((len(draws), ends[-1]))
        self.of = {
            part.key: self.parameters[:, self.slices[part.key]].reshape(-1, *part.shape)
            for part in self.parts
        }
        self._at_once, self._blocks = networks_of(int(ends[-1])), dict[int, Block]()
        self._all: Pass | None = None
        self._redraw(self.parts)
        self.begin(self.parameters)

    def begin(self, parameters: Array) -> None:
        """At these parameters, before the first step."""
        self.parameters[:] = parameters
        self.count, held = 0, self.work.rule.moments
        self.moments = np.zeros((held, *self.parameters.shape))
        self.waiting = np.empty((len(self.parameters), 0), np.int64)

    def _redraw(self, own: Sequence[Part]) -> None:
        for part in own:
            for k, rng in enumerate(self.streams):
                self.of[part.key][k] = part.drawn(rng)

    @cached_property
    def _last(self) -> list[Part]:
        """The last stage's parameters."""
        ensemble = self.work.ensemble
        at = ensemble.depth, len(stages_at(ensemble, ensemble.depth)) - 1
        return [part for part in self.parts if part.key[:2] == at]

    def mirror(self) -> None:
        """The outputs change their signs, where `reads_alone`: the last stage's parameters do."""
        for part in self._last:
            self.of[part.key] *= -1

    def passed(self, x: Array, of: Mapping[Key, Array] | None = None, masks: Masks = ()) -> Pass:
        """Forward, of inputs (networks or 1, samples, n_0), with these parameters or its own, and
        with the next masks of dropout if any."""
        of = self.of if of is None else of
        ensemble, tape = self.work.ensemble, Tape(self.work.ensemble)
        state: dict[Kind, Node] = {STREAM: tape.constant(x)}
        uses: dict[Key, list[Use]] = {}
        masked_by = partial(self._masked, tape, masks)
        for layer in range(1, ensemble.depth + 1):
            stages = stages_at(ensemble, layer)
            for at, stage in enumerate(stages):
                last, below = layer == ensemble.depth and at == len(stages) - 1, tape.length
                before, on = cast(Any, state), cast(Any, tape)
                evaluated = Evaluated(ensemble, layer, stage, before, on, masked_by)
                made = {
                    kind: evaluated.parts(equation)
                    for kind, equation in stage.equations
                    if kind == STREAM or not last
                }
                state = {
                    kind: self._added((layer, at), kind, each, tape, uses, of, last=last)
                    for kind, each in made.items()
                }
        return Pass(tape, state[STREAM], uses, made[STREAM], below)

    @staticmethod
    def _masked(tape: Tape, masks: Masks, body: Node, keep: Value) -> Node:
        """μσ/p, with μ = 1 or 0 for each network, input and neuron, drawn whenever the tape goes
        forward; σ itself without masks."""
        if not masks:
            return body
        mask = np.empty((len(masks), *body.shape[2:]))
        tape.do(mask.fill, 1.0)
        tape.do(masked, mask, keep, masks)
        return tape.times(body, tape.constant(mask))

    def _added(
        self,
        at: tuple[int, int],
        kind: Kind,
        given: Parts,
        tape: Tape,
        uses: dict[Key, list[Use]],
        of: Mapping[Key, Array],
        *,
        last: bool,
    ) -> Node:
        """A variable after a stage."""
        terms: list[Node] = []
        for k, each in given.bodies.items():
            body = cast(Node, each.jet)
            terms.append(tape.applied(of[*at, k], body))
            uses.setdefault((*at, k), []).append(Use(body, terms[-1]))
        if given.carried is not None:
            carried = cast(Node, given.carried.jet)
            n = self.work.targets.shape[1]
            terms.append(tape.first(carried, n) if last and carried.shape[3] != n else carried)
        if given.biases is not None:
            terms.append(tape.put(of[*at, kind][:, None], moves=True))
            uses[*at, kind] = [Use(None, terms[-1])]
        return tape.added(terms)

    def outputs(self, x: Array) -> Array:
        """The outputs for these inputs, (networks, samples, outputs)."""
        return self.passed(x[None]).outputs.value[:, 0]

    def descend(self, steps: int) -> None:
        """So many steps of the optimizer, a few networks at a time."""
        orders = self._batches(steps)
        for start in range(0, len(orders), self._at_once):
            rows = slice(start, start + self._at_once)
            own = {key: each[rows] for key, each in self.of.items()}
            held = {key: self.moments[:, rows, place] for key, place in self.slices.items()}
            block = self._block(len(orders[rows]))
            block.descend(own, held, orders[rows], self.masks[rows], self.count)
        self.count += steps

    def _batches(self, steps: int) -> NDArray[np.int64]:
        """The training inputs of each step, (networks, steps, batch): each set is gone through in
        turn."""
        count, size = self.training, self.work.batch
        if size == count:
            return np.tile(np.arange(count), (len(self.streams), steps, 1))
        chosen = []
        for _ in range(steps):
            if self.waiting.shape[1] < size:
                orders = np.array([rng.permutation(count) for rng in self.streams])
                self.waiting = np.concatenate([self.waiting, orders], axis=1)
            chosen.append(self.waiting[:, :size])
            self.waiting = self.waiting[:, size:]
        return np.stack(chosen, axis=1)

    def _block(self, count: int) -> Block:
        """The descent of so many networks."""
        if count not in self._blocks:
            inputs = self._by_input(self.work.ensemble.inputs, self.positions)
            targets = self._by_input(self.work.targets, self.places)
            given = self.work, self.parts, self.passed, inputs, targets
            self._blocks[count] = Block(*given, count)
        return self._blocks[count]

    @property
    def training(self) -> int:
        """Training inputs."""
        return len(self.work.targets) // self.places

    @property
    def tests(self) -> Array:
        """The inputs behind them, position by position."""
        return self.work.ensemble.inputs[self.training * self.positions :]

    @staticmethod
    def _by_input(rows: Array, each: int) -> Array:
        return rows.reshape(-1, each, rows.shape[1])

    def started(self, readouts: int = 1) -> Array:
        """The numbers of `Start`, (networks, numbers), with so many last stages in turn."""
        found = []
        for k in range(readouts):
            if k:
                self._redraw(self._last)
            made = self._looked(only_last=k > 0)
            found += [made.outputs.value.copy(), self._tangent(made), self._covariance(made.last)]
        return self._joined(found)

    def observed(self) -> Array:
        """Outputs, tangent kernel and loss, (networks, numbers)."""
        work = self.work
        made = self._looked()
        z = made.outputs.value[:, 0]
        loss = per_input(z[:, : len(work.targets)], work.targets, work.loss).sum(axis=1)
        return self._joined([z, *([self._tangent(made)] if work.ntk else []), loss])

    def _joined(self, parts: Sequence[Array]) -> Array:
        return np.concatenate([part.reshape(len(self.streams), -1) for part in parts], axis=1)

    def _looked(self, *, only_last: bool = False) -> Pass:
        """Forward with all inputs, where only the last stage's parameters may have changed since
        the last time."""
        if self._all is None:
            self._all = self.passed(self.work.ensemble.inputs[None])
        else:
            self._all.tape.forward(self._all.below if only_last else 0)
        return self._all

    def _covariance(self, last: Parts) -> Array:
        """An output's over the last stage's parameters, given all below; and its square there, of
        what is carried past them."""
        ensemble = self.work.ensemble
        found = np.zeros((len(self.parameters), *(ensemble.data.measured,) * 2))
        at = self._last[0].key[:2] if self._last else (0, 0)
        variances = {part.key: part.variance for part in self._last}
        for k, each in last.bodies.items():
            body = cast(Node, each.jet).value[:, 0]
            gram = body @ body.transpose(0, 2, 1) / body.shape[2]
            found += variances[*at, k] * gram
        if last.biases is not None:
            found += variances[*at, STREAM]
        if last.carried is not None:
            n = self.work.targets.shape[1]
            carried = cast(Node, last.carried.jet).value[:, 0, :, :n]
            found += carried @ carried.transpose(0, 2, 1) / n
        return found

    def kernel(self, x: Array) -> Array:
        """The tangent kernel of these inputs, (networks, samples, samples, outputs, outputs)."""
        return self._tangent(self.passed(x[None]))

    def _tangent(self, made: Pass) -> Array:
        """The tangent kernel H, (networks, samples, samples, outputs, outputs)."""
        networks, _, m, outputs = made.outputs.shape
        p = self.places
        if made.outputs.back is None:
            # inputs do not meet on their way, positions do: of all inputs at once each output at
            # each position is differentiated
            unit = np.einsum("ij,pq->ipqj", np.eye(outputs), np.eye(p)).reshape(-1, 1, p, outputs)
            unit = np.broadcast_to(unit, (networks, outputs * p, m // p, p, outputs))
            made.tape.differentiate(made.outputs, unit.reshape(networks, -1, m, outputs))
        else:
            made.tape.reverse()
        found = np.zeros((networks, outputs * p, m // p, outputs * p, m // p))
        for first, second, weight in _paths(self.parts, made):
            _add_paths(found, first, second, weight)
        split = found.reshape(networks, outputs, p, m // p, outputs, p, m // p)
        return split.transpose(0, 3, 2, 6, 5, 1, 4).reshape(networks, m, m, outputs, outputs)


class CompiledNetworks(Networks):
    """Dense layers with one σ: one network after another, in compiled code (`kernels`).

    Of each layer the matrix (n_in, n_out), then the biases: as `parts` has them.
    """

    supports: ClassVar[frozenset[str]] = frozenset({PERMUTATIONS})
    """The needs of networks that it serves (`samplers.ensemble.Layers.needs`)."""

    @property
    def _rates(self) -> tuple[Array, Array]:
        """λ_W/n_in and λ_b by layer."""
        ensemble = self.work.ensemble
        return ensemble.lambda_W / np.array(self.work.widths[:-1]), ensemble.lambda_b

    @property
    def _sigma(self) -> Activation:
        return self.work.ensemble.net.one_activation("compiled training")

    def outputs(self, x: Array) -> Array:
        """See `Networks.outputs`."""
        work = self.work
        found = np.empty((len(self.parameters), len(x), work.targets.shape[1]))
        sigma = kernels.sigma_and_slope(self._sigma)
        kernels.descent().outputs(
            self.parameters, np.array(work.widths), np.ascontiguousarray(x), sigma, found
        )
        return found

    def descend(self, steps: int) -> None:
        """See `Networks.descend`."""
        work = self.work
        take_steps(
            work.rule, self.parameters, self.moments, np.array(self._rates), self.count,
            work.widths, work.ensemble.inputs, work.targets, self._batches(steps), work.loss,
            self._sigma,
        )  # fmt: skip
        self.count += steps


def _paths(parts: Sequence[Part], made: Pass) -> Iterator[tuple[Array, Array, Array | float]]:
    """The summands of H: the derivatives of outputs by two uses of the same parameters,
    (networks, outputs, samples, n) each, and the inner products of what these multiply there,
    (networks or 1, samples, samples); those of a matrix and of biases that are added to it at
    once."""
    found: dict[tuple[int, int], list[Any]] = {}
    for part in parts:
        uses = made.uses[part.key]
        for u, v in product(uses, uses):
            weight: Array | float = part.rate
            if u.body is not None and v.body is not None:
                one, other = (each.value[:, 0] for each in (u.body, v.body))
                weight = part.rate * (one @ other.transpose(0, 2, 1))
            at = id(u.made.back), id(v.made.back)
            pair = found.setdefault(at, [u.made.back, v.made.back, 0.0])
            pair[2] = pair[2] + weight
    for first, second, weight in found.values():
        yield first, second, weight


def _add_paths(found: Array, first: Array, second: Array, weight: Array | float) -> None:
    """Add one of `_paths` to H, (networks, outputs, inputs, outputs, inputs): the sum over the
    positions of each. A few networks at a time."""
    inputs = found.shape[2]
    networks, outputs, m, n = first.shape
    at_once = max(1, _HELD // (outputs * m) ** 2)
    for start in range(0, networks, at_once):
        rows = slice(start, start + at_once)
        u, v = (
            np.ascontiguousarray(each[rows]).reshape(-1, outputs * m, n) for each in (first, second)
        )
        paths = (u @ v.transpose(0, 2, 1)).reshape(-1, outputs, m, outputs, m)
        if isinstance(weight, float):
            paths *= weight
        else:
            paths *= (weight[rows] if len(weight) == networks else weight)[:, None, :, None, :]
        if m > inputs:
            each = outputs, inputs, m // inputs
            paths = paths.reshape(-1, *each, *each).sum(axis=(3, 6))
        found[rows] += paths
