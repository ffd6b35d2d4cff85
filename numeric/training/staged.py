"""Networks of any layer side by side: its stages, with their gradients by reverse differentiation.

The networks of `networks`, with a layer's equations (`derive.engine.stages`) evaluated on a
`Tape`. Every matrix has a learning rate λ_W over its own fan-in, and every equation with biases has
its own; a filter of s matrices, shared by all positions of a signal, has s times their fan-in. The
positions of signals (`engine.taps`) are one behind the other in x, z and the targets. Where z
stands for n neurons to the end, as behind a skip, a network's outputs are the first of them.
Dropout has other masks in each step, and none where networks are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from derive.engine.stages import Stage
from derive.engine.trees import STREAM, Kind
from derive.weights import WeightEnsemble

from ..arrays import Array
from ..samplers.ensemble import Ensemble
from ..samplers.staged import Evaluated, Parts, matrix_of
from .losses import per_input, slope
from .networks import Networks, Trained, readout
from .optimizers import stepped
from .tape import Node, Tape

Key = tuple[int, int, int | Kind]
"""A layer, a stage of it, and a matrix's number or the variable that biases are of."""


@dataclass(frozen=True)
class Part:
    """A matrix or biases: what they are drawn from, and how they learn.

    Attributes:
        shape: (n_in, n_out); of biases (1, n_out).
        law: of a matrix, or of one of a filter's times √taps.
        rows: n_out of the whole matrix, of which the first are wanted.
        variance: of the biases, or of a matrix times n_in.
        rate: λ_W over n_in and the taps, or λ_b.
        taps: of the filter that a matrix is of.
    """

    key: Key
    shape: tuple[int, int]
    law: WeightEnsemble | None
    rows: int
    variance: float
    rate: float
    taps: int = 1

    @property
    def size(self) -> int:
        """Numbers in it."""
        return self.shape[0] * self.shape[1]

    def drawn(self, rng: np.random.Generator) -> Array:
        """(n_in, n_out)."""
        n_in, n_out = self.shape
        if self.law is None:
            return np.asarray(np.sqrt(self.variance) * rng.standard_normal(self.shape))
        found = readout(self.law, (n_out, n_in), rng, self.rows).T
        return found if self.taps == 1 else found / np.sqrt(self.taps)


def stages_at(ensemble: Ensemble, layer: int) -> tuple[Stage, ...]:
    """What a layer goes through, and the last is read out by where signals are."""
    read = ensemble.read_at(layer) if layer == ensemble.depth else None
    stages = ensemble.stages_at(layer)
    return stages if read is None else (*stages[:-1], read)


def parts(ensemble: Ensemble, outputs: int) -> list[Part]:
    """Of all layers, in the order in which they are drawn."""
    found = []
    for layer in range(1, ensemble.depth + 1):
        stages = stages_at(ensemble, layer)
        rate_W, rate_b = (
            float(rates[layer - 1]) for rates in (ensemble.lambda_W, ensemble.lambda_b)
        )
        for at, stage in enumerate(stages):
            last = layer == ensemble.depth and at == len(stages) - 1

            def wanted(n: int, last: bool = last) -> int:
                return outputs if last else n

            out: dict[Kind, int] = {}
            for kind, equation in stage.equations:
                for term in equation.right:
                    if term.weight is not None:
                        out[kind] = ensemble.neurons(
                            layer, stage, matrix_of(stage, term.weight[0]).out
                        )
            taps = 1 if stage.taps is None else stage.taps.count
            for number in range(taps * len(stage.matrices)):
                matrix = matrix_of(stage, number)
                n_in, rows = (ensemble.neurons(layer, stage, s) for s in (matrix.into, matrix.out))
                law = ensemble.ensemble_of(layer, matrix)
                shape, key = (n_in, wanted(rows)), (layer, at, number)
                variance, rate = float(law.C_W) / taps, rate_W / (n_in * taps)
                found.append(Part(key, shape, law, rows, variance, rate, taps))
            for kind, equation in stage.equations:
                if equation.bias:
                    n = wanted(out.get(kind, ensemble.neurons(layer, stage, kind.space)))
                    C_b = float(ensemble.C_b[layer - 1])
                    found.append(Part((layer, at, kind), (1, n), None, n, C_b, rate_b))
    return found


def reads_alone(ensemble: Ensemble) -> bool:
    """Whether the outputs are odd in the last stage's parameters, and so mirrored by them: nothing
    is carried past its matrices."""
    *_, last = stages_at(ensemble, ensemble.depth)
    return all(term.weight is not None for term in last.equation(STREAM).right)


class Staged(Trained, Protocol):
    """What is trained, layer by layer."""

    @property
    def parts(self) -> list[Part]:
        """Its parameters."""


class Use(NamedTuple):
    """What a matrix or biases made: a body's product, or with no body the biases themselves."""

    body: Node | None
    made: Node


class Pass(NamedTuple):
    """Networks taken forward."""

    tape: Tape
    outputs: Node
    uses: dict[Key, list[Use]]
    last: Parts


class StagedNetworks(Networks):
    """Networks side by side: all parameters in one row for each."""

    def __init__(self, work: Staged, draws: NDArray[np.int64]) -> None:
        self.work = work
        layer = work.ensemble.net.layer
        self.positions = layer.positions or 1  # of an input, and of what comes out
        self.places = 1 if layer.readout is not None else self.positions
        self.streams, self.masks = (self.generators(draws, stream) for stream in range(2))
        self.parts = work.parts
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

    def passed(self, x: Array, *, masked: bool = False) -> Pass:
        """Forward, of inputs (networks or 1, samples, n_0); with the next masks of dropout."""
        ensemble, tape = self.work.ensemble, Tape(self.work.ensemble)
        state: dict[Kind, Node] = {STREAM: tape.constant(x)}
        uses: dict[Key, list[Use]] = {}
        for layer in range(1, ensemble.depth + 1):
            stages = stages_at(ensemble, layer)
            for at, stage in enumerate(stages):
                last = layer == ensemble.depth and at == len(stages) - 1
                evaluated = Evaluated(ensemble, layer, stage, cast(Any, state), cast(Any, tape))
                made = {
                    kind: evaluated.parts(equation)
                    for kind, equation in stage.equations
                    if kind == STREAM or not last
                }
                if masked and stage.keep is not None:
                    made = {kind: self._masked(layer, each, tape) for kind, each in made.items()}
                state = {
                    kind: self._added((layer, at), kind, each, tape, uses, last=last)
                    for kind, each in made.items()
                }
        return Pass(tape, state[STREAM], uses, made[STREAM])

    def _masked(self, layer: int, given: Parts, tape: Tape) -> Parts:
        """Each body μσ/p, with μ = 1 or 0 for each network, input and neuron."""
        bodies = {}
        for k, each in given.bodies.items():
            body = cast(Node, each.jet)
            mask = np.ones((len(self.masks), *body.shape[2:]))
            self.work.ensemble.masked(mask, layer, self.masks)
            jet = tape.times(body, tape.constant(mask))
            bodies[k] = type(each)(cast(Any, jet), cast(Any, tape))
        return given._replace(bodies=bodies)

    def _added(
        self,
        at: tuple[int, int],
        kind: Kind,
        given: Parts,
        tape: Tape,
        uses: dict[Key, list[Use]],
        *,
        last: bool,
    ) -> Node:
        """A variable after a stage."""
        terms: list[Node] = []
        for k, each in given.bodies.items():
            body = cast(Node, each.jet)
            terms.append(tape.applied(self.of[*at, k], body))
            uses.setdefault((*at, k), []).append(Use(body, terms[-1]))
        if given.carried is not None:
            carried = cast(Node, given.carried.jet)
            n = self.work.targets.shape[1]
            terms.append(tape.first(carried, n) if last and carried.shape[3] != n else carried)
        if given.bias:
            terms.append(tape.put(self.of[*at, kind][:, None], moves=True))
            uses[*at, kind] = [Use(None, terms[-1])]
        return tape.added(terms)

    def outputs(self, x: Array) -> Array:
        """What comes out for these inputs, (networks, samples, outputs)."""
        return self.passed(x[None]).outputs.value[:, 0]

    def at(self, x: Array) -> Array:
        """The same."""
        return self.outputs(x)

    def descend(self, steps: int) -> None:
        """So many steps of the optimizer."""
        work, rule = self.work, self.work.rule
        orders = self._batches(steps)
        inputs = self._by_input(work.ensemble.inputs, self.positions)
        targets = self._by_input(work.targets, self.places)
        for t in range(steps):
            x, y = (
                each[orders[:, t]].reshape(len(orders), -1, each.shape[2])
                for each in (inputs, targets)
            )
            made = self.passed(x, masked=True)
            z = made.outputs
            made.tape.differentiate(z, slope(z.value[:, 0], y, work.loss)[:, None])
            self.count += 1
            for part in self.parts:
                gradient = self._gradient(made.uses[part.key]).reshape(len(x), -1)
                stepped(
                    rule, self.parameters[:, self.slices[part.key]], gradient,
                    self.moments[:, :, self.slices[part.key]], part.rate, self.count,
                    clips=part.law is not None,
                )  # fmt: skip

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

    def _gradient(self, uses: Sequence[Use]) -> Array:
        """∂L/∂W, (networks, n_in, n_out), or of biases."""
        found = []
        for body, made in uses:
            assert made.back is not None
            if body is None:
                found.append(made.back[:, 0].sum(axis=1, keepdims=True))
            else:
                found.append(body.value[:, 0].transpose(0, 2, 1) @ made.back[:, 0])
        return np.asarray(sum(found[1:], start=found[0]))

    def started(self, readouts: int = 1) -> Array:
        """What `Start` is, (networks, numbers), with so many last stages one after the other."""
        found = []
        for k in range(readouts):
            if k:
                self._redraw(self._last)
            made = self.passed(self.work.ensemble.inputs[None])
            found += [made.outputs.value, self._tangent(made), self._covariance(made.last)]
        return self._joined(found)

    def observed(self) -> Array:
        """Outputs, tangent kernel and loss, (networks, numbers)."""
        work = self.work
        made = self.passed(work.ensemble.inputs[None])
        z = made.outputs.value[:, 0]
        loss = per_input(z[:, : len(work.targets)], work.targets, work.loss).sum(axis=1)
        return self._joined([z, *([self._tangent(made)] if work.ntk else []), loss])

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
        if last.bias:
            found += variances[*at, STREAM]
        if last.carried is not None:
            n = self.work.targets.shape[1]
            carried = cast(Node, last.carried.jet).value[:, 0, :, :n]
            found += carried @ carried.transpose(0, 2, 1) / n
        return found

    def _tangent(self, made: Pass) -> Array:
        """The tangent kernel H, (networks, samples, samples, outputs, outputs)."""
        networks, _, m, outputs = made.outputs.shape
        p = self.places
        # inputs do not meet on their way, positions do: of all inputs at once each output at each
        # position is differentiated
        unit = np.einsum("ij,pq->ipqj", np.eye(outputs), np.eye(p)).reshape(-1, 1, p, outputs)
        unit = np.broadcast_to(unit, (networks, outputs * p, m // p, p, outputs))
        made.tape.differentiate(made.outputs, unit.reshape(networks, -1, m, outputs))
        found = np.zeros((networks, outputs * p, m // p, outputs * p, m // p))
        for part in self.parts:
            uses = made.uses[part.key]
            for u in uses:
                for v in uses:
                    found += part.rate * _inner(u, v, m // p)
        split = found.reshape(networks, outputs, p, m // p, outputs, p, m // p)
        return split.transpose(0, 3, 2, 6, 5, 1, 4).reshape(networks, m, m, outputs, outputs)


def _inner(u: Use, v: Use, inputs: int) -> Array:
    """What two uses of a matrix add to H over its rate, (networks, outputs, inputs, outputs,
    inputs): the sum over the positions of each where it was used."""
    assert u.made.back is not None
    assert v.made.back is not None
    networks, outputs, m, n = u.made.back.shape
    flat = (np.ascontiguousarray(each.made.back).reshape(networks, -1, n) for each in (u, v))
    first, second = flat
    paths = (first @ second.transpose(0, 2, 1)).reshape(networks, outputs, m, outputs, m)
    if u.body is not None and v.body is not None:
        inner = u.body.value[:, 0] @ v.body.value[:, 0].transpose(0, 2, 1)
        paths = paths * inner[:, None, :, None, :]
    if m == inputs:
        return np.asarray(paths)
    split = paths.reshape(networks, outputs, inputs, m // inputs, outputs, inputs, m // inputs)
    return np.asarray(split.sum(axis=(3, 6)))
