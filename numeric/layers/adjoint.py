r"""V of a few outputs of many positions: weights go down the layers, in place of V going up.

At leading order V is the covariance of means over independent neurons. What K becomes for one
network differs from K by δK, of order n^{-1/2}. A stage takes δK, and such δ of other means of two
variables, to J δK plus a mean over its neurons: of functions of their Gaussian variables. So

    V_ab = Cov(S_a, S_b),    S_a = Σ_stages Σ_tu w_tu φ_t φ_u  of one neuron,

where the weights w of an output a go down by Jᵀ: m² numbers for each output in place of m⁴. Along a
skip, x' = γ x + u, the variables of a neuron are Gaussian together, and S sums over all its stages.
The part of S of second Hermite degree is exact. With K behind a matrix, w the weights of K and w'
those that a skip alone brings down, n the neurons there over the reference width,

    V = Σ_matrices (2/n) [tr(w K w K) − tr(w' K w' K)] + E r_a r_b/n + what laws of weights add.

The mean of r_a r_b, the rest of S, is sampled, and its standard error is returned. A law adds what
V of W x has beyond Gaussian W: −2 tr(w K w K) if W is a square Haar matrix, and nothing if entries
are independent, as a single neuron's cumulants are of a higher order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from derive.engine.scheme import Scheme
from derive.engine.step import Step, through
from derive.engine.taps import ALONE
from derive.engine.tensors import Name, Tensor, named
from derive.engine.trees import STREAM
from derive.weights import WeightEnsemble

from ..arrays import Array
from .accuracy import EPS
from .fluctuations import means_behind, refused
from .lanes import Group, Lanes, Move, put, root
from .passage import Moves, Passage, add_squares
from .staged import StagedLayers
from .steps import parameters_of
from .vectors import Estimate

CAUTION = 3.0
"""The error that is told, in standard errors."""

_ROUNDINGS = 64.0
"""The errors of terms, in roundings of their sizes."""

_K = named("K")


class Outputs:
    """V of chosen outputs, by weights that go down from each layer that is asked for.

    Arguments:
        schemes: under what the recursions of each distinct layer are derived.
        order: which of them layers 2, 3, … have.
        first: the weights of layer 1.
        samples: in front of each scheme's layer, and behind layer 1.

    Raises InputError as `Fluctuations`, and for weights of layer 1 whose V has four inputs.
    """

    def __init__(
        self,
        schemes: tuple[Scheme, ...],
        order: Sequence[int],
        first: WeightEnsemble,
        samples: tuple[tuple[int, ...], int],
    ) -> None:
        schemes = tuple(replace(each, single=False) for each in schemes)
        names, read = (
            tuple(tuple(map(means_behind, each.stages)) for each in of)
            for of in (schemes, [each for scheme in schemes for each in scheme.readouts])
        )
        self._forward = StagedLayers(names, schemes, first, samples, read).along(order)
        self._order, self._m = order, samples[1]
        given = [*zip(schemes, samples[0], strict=True)]
        self._passages = [_passages(*each) for each in given]
        self._readouts = [
            _passages(readout, m) for scheme, m in given for readout in scheme.readouts
        ]
        start = schemes[0].first(first)
        readouts = [each for scheme in schemes[:1] for each in scheme.readouts]
        self._first_taps = next((each.stages[-1].taps for each in readouts), ALONE)
        self._at_first = through(named("V"), start, start.stages[0])
        if any(len(each.samples) > 2 for each in self._at_first.atoms(Tensor)):
            raise refused(schemes[0], "weights of layer 1 whose V is a sum over two inputs")
        passages = [*chain(*self._passages, *self._readouts)]
        masks = (p for scheme in schemes for stage in scheme.stages for p in stage.masks)
        steps: list[Step] = [*chain(*(each.steps for each in passages)), self._at_first]
        self._parameters = sorted({*parameters_of(steps, masks), "r_in", "r_out"})
        for each in passages:
            each.bound(self._parameters)

    def __call__(
        self,
        inputs: Array,
        symbols: Mapping[str, Array],
        rows: Sequence[int],
        outputs: tuple[int, Sequence[int]],
        draws: int,
        advance: Callable[[float], None],
    ) -> tuple[Array, Array]:
        """V and its error at these layers, ascending: (rows, p, p, p, p) of p outputs.

        Arguments:
            inputs: their kernel.
            symbols: the hyperparameters by name, an entry for each layer.
            outputs: how many samples these layers have, and the p that are chosen.
            draws: of a neuron's variables.
            advance: is told of the layers that are done.
        """
        columns, own = (
            np.array([symbols[name] for name in names]).T[:, None]
            for names in (self._forward.parameters, self._parameters)
        )
        m, chosen = outputs
        pairs = [(p, q) for p in range(len(chosen)) for q in range(p + 1)]
        units = _units(pairs, chosen, m)
        start = self._forward.first(inputs, columns[0])[0][0][0]
        at = self._climbed([start], columns)
        groups: list[Group] = []
        lanes: Lanes = {}
        for layer in range(rows[-1], 1, -1):
            number, before = self._order[layer - 2], at[layer - 2]
            down = partial(_down, parameters=own[layer - 1], draws=draws, layer=layer)
            asked = [Group.of(layer, _K, units)] if layer >= rows[0] else []
            if not self._readouts:
                groups += asked
            lanes = down(self._passages[number], groups, lanes, before)
            if self._readouts and asked:
                tensors = [each[0] for each in before[0][0]]
                read = self._forward.within(tensors, columns[layer - 1], layer, read=True)
                apart = down(self._readouts[number], asked, {}, [*read])
                for space, lane in apart.items():
                    put(lanes, space, [lane])
                groups += asked
            advance(1)
        self._end(groups, lanes, start.reshape(self._m, self._m), own[0, 0], draws)
        if rows[0] == 1:
            groups.append(Group.of(1, _K, units))
        for group in groups:
            self._add_first(group, inputs, own[0, 0])
        totals = np.array([group.totals for group in sorted(groups, key=lambda g: g.number)])
        values, variances, sizes = totals.swapaxes(0, 1)
        errors = CAUTION * np.sqrt(variances) + _ROUNDINGS * EPS * sizes
        return _unfolded(values, len(chosen)), _unfolded(errors, len(chosen))

    def _climbed(self, tensors: Sequence[Array], columns: Array) -> list[list[Estimate]]:
        """The means before each stage of layers 2, 3, …, and behind the last."""
        found = []
        for layer in range(2, len(columns) + 1):
            found.append([*self._forward.within(tensors, columns[layer - 1], layer)])
            tensors = [each[0] for each in found[-1][-1][0]]
        return found

    def _end(
        self, groups: Sequence[Group], lanes: Lanes, K: Array, parameters: Array, draws: int
    ) -> None:
        """Add what the neurons of layer 1 have, and those along skips from there."""
        ratio = float(parameters[self._parameters.index("r_out")])
        add_squares(groups, K, [STREAM], ratio)
        for lane in lanes.values():
            lane.events.append(Move({STREAM: []}, root(K)))
            lane.add_to(groups, ratio, draws, (1, 0))

    def _add_first(self, group: Group, inputs: Array, parameters: Array) -> None:
        """Add V of layer 1."""
        terms = [(float(value), mono) for (mono, _), value in self._at_first.terms.items()]
        values = dict(zip(self._parameters, parameters.tolist(), strict=True))
        moves = Moves(self._first_taps if group.number == 1 else ALONE, len(inputs))
        ends = (group.weights[_K],) * 2
        group.add(moves.apart(terms, ends, lambda *_: inputs, values))


def _down(
    passages: Sequence[Passage],
    groups: Sequence[Group],
    lanes: Lanes,
    states: Sequence[Estimate],
    *,
    parameters: Array,
    draws: int,
    layer: int,
) -> Lanes:
    """The lanes before a layer; the groups are taken down."""
    for k in reversed(range(len(passages))):
        at = states[k], states[k + 1]
        lanes = passages[k](groups, lanes, at, parameters, (draws, (layer, k)))
    return lanes


def _passages(scheme: Scheme, m: int) -> list[Passage]:
    """The stages of a layer with so many samples before it."""
    below: tuple[Name, ...] = (_K,)
    found = []
    for stage in scheme.stages:
        ends = stage is scheme.stages[-1]
        found.append(Passage(below, stage, scheme, m, ends=ends))
        m = stage.taps.behind(m)
        below = means_behind(stage)
    return found


def _units(pairs: Sequence[tuple[int, int]], chosen: Sequence[int], m: int) -> Array:
    """The weights that read each pair of the chosen samples."""
    found = np.zeros((len(pairs), m, m))
    for unit, (p, q) in zip(found, pairs, strict=True):
        unit[chosen[p], chosen[q]] = 1.0
    return found


def _unfolded(values: Array, outputs: int) -> Array:
    """(rows, p, p, p, p) from (rows, pairs, pairs), p ≥ q."""
    p, q = np.indices((outputs, outputs))
    high, low = np.maximum(p, q), np.minimum(p, q)
    at = (high * (high + 1) // 2 + low).ravel()
    found = values[:, at[:, None], at]
    return np.asarray(found.reshape(len(values), *(outputs,) * 4))
