"""Networks of any layer: its stages, taken as data, with jets going through them.

A stage is a list of equations between variables (`derive.engine.stages`). Evaluated on jets,
numbers with their derivatives along random probes, they give z and all that the tower needs, at
every finite width: collective variables are what they are in the network at hand. Each matrix meets
all vectors that its equations give it at once, so that it can be lazy (`random.lazy`); the biases
are a matrix of one column. Of a layer's last stage the matrices are averaged exactly
(`estimators.sums`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import pairwise
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derive.arithmetic.parameters import Value
from derive.engine.fields import Field
from derive.engine.stages import (
    HERE,
    LEFT,
    Attended,
    Collective,
    Equation,
    Function,
    Product,
    Stage,
    Variable,
)
from derive.engine.taps import everywhere
from derive.engine.trees import STREAM, Kind
from derive.errors import InputError
from derive.weights import Gaussian, WeightEnsemble
from derive.work.caches import cache

from ..arrays import Array
from ..estimators.observables import Plan
from ..estimators.polynomials import Structure
from ..estimators.probes import Probes, needed
from ..estimators.sums import compiled, larger
from ..random import lazy
from ..random.matrices import weight_matrix
from . import forward, probing, staged_forward, tapped_forward
from .arithmetic import Arithmetic
from .base import Sampler
from .ensemble import BATCHES, MASKS, PERMUTATIONS, STAGES, Ensemble, Layers, number_at
from .forward import whole_groups
from .probing import polynomials_of, probes_of
from .stage_source import check_indices
from .stage_tables import Place

State = Mapping[Kind, Array]
"""The variables as jets, (draws, jets, m, neurons)."""


class _Vectors:
    """A source of an equation: a jet, and its Gram matrix once."""

    def __init__(self, jet: Array, arithmetic: Arithmetic) -> None:
        self.jet, self._arithmetic = jet, arithmetic

    @cached_property
    def gram(self) -> Array:
        """Inner products over n of all jets and samples, (draws, rows, rows)."""
        return self._arithmetic.gram(self.rows)

    @cached_property
    def rows(self) -> Array:
        """The vectors, (draws, rows, n)."""
        return self._arithmetic.rows(self.jet)


class Parts(NamedTuple):
    """The right side of an equation: the carried part, the vectors that each matrix meets, and the
    variance and the learning rate of biases."""

    carried: _Vectors | None
    bodies: dict[int, _Vectors]
    biases: tuple[float, float] | None

    @property
    def sources(self) -> list[_Vectors]:
        """The bodies, then what is carried."""
        return [*self.bodies.values(), *([] if self.carried is None else [self.carried])]


@dataclass(frozen=True, eq=False)
class ProbeSampler(Sampler):
    """Networks of any layers, followed along random probes.

    Arguments:
        probes: the jets that are followed.
        whole: build every matrix, and every direction in it, as laws need that permutations alone
            keep. Nothing is shared with lazy weights: other random numbers, other networks.
        side_by_side: follow `LANES` networks at a time (`forward`, `staged_forward`; for several
            inputs, `tapped_forward`): the same networks to rounding, for z alone.
    """

    probes: Probes
    whole: bool = False
    side_by_side: bool = False
    supports: ClassVar[frozenset[str]] = frozenset({STAGES, MASKS, PERMUTATIONS, BATCHES})
    name: ClassVar[str] = "probes"

    @property
    def label(self) -> str:
        """See `Sampler`."""
        return "explicit" if self.whole else self.name

    @property
    def identity(self) -> str:
        """See `Sampler`."""
        lanes = self.side_by_side * " side by side"
        return super().identity + self.whole * " of whole matrices" + lanes

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> Sampler:
        """See `Sampler`; a batch of more vectors than neurons is faster with whole matrices, and
        what networks differ by is far more than what probes do."""
        crowded = BATCHES in ensemble.layers.needs
        probes = needed(plan.trees()) if crowded else probes_of(plan)
        crowded &= len(probes.jets) * len(ensemble.inputs) >= max(ensemble.widths)
        made = cls(ensemble, plan, probes, ensemble.net.group != "O" or crowded)
        return replace(made, side_by_side=_side_by_side(ensemble, plan) is not None)

    @classmethod
    def why_not(cls, layers: Layers, plan: Plan) -> str:
        """See `Sampler`; a user's field is no tree of derivatives of z."""
        own = ", ".join(str(field) for field in plan.fields if not isinstance(field, Field))
        return f'"lazy" or "explicit", for {own}' if own else super().why_not(layers, plan)

    @property
    def is_dense(self) -> bool:
        """True for one lazy matrix between two activations, layer by layer."""
        return not self.whole and not self.ensemble.layers.needs

    @property
    def polynomials(self) -> tuple[Structure, Array]:
        """The statistics of dense layers as polynomials in inner products of vectors."""
        return polynomials_of(self.ensemble.layers, self.plan, self.probes)

    @cached_property
    def numbers(self) -> int:
        """One for each neuron of every variable, jet and sample."""
        ensemble, stages = self.ensemble, self.ensemble.layers.stages
        spaces = {(stage, matrix.out) for stage in stages for matrix in stage.matrices}
        widest = max(*ensemble.widths, *(ensemble.neurons(1, *each) for each in spaces))
        kinds = max(len(each.equations) for each in stages)
        taps = max(each.taps.count for each in stages)
        return len(self.probes.jets) * max(ensemble.data.samples) * widest * kinds * taps

    @property
    def batch(self) -> int:
        """Whole groups of networks, if they go side by side."""
        return whole_groups(super().batch) if self.side_by_side else super().batch

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """Take networks down the layers; their statistics, (draws, statistics), at each: zeros at
        layers before those of a table, whose samples are others."""
        if self.side_by_side:
            for _, block in self.blocks(draws):
                yield from block
        elif self.is_dense:
            yield from probing.layers(self.ensemble, self.plan, self.probes, draws)
        else:
            yield from self.passed(Arithmetic(self.ensemble, self.probes, draws))

    def blocks(self, draws: NDArray[np.int64]) -> Iterator[tuple[int, Array]]:
        """See `Sampler`."""
        lanes = _side_by_side(self.ensemble, self.plan) if self.side_by_side else None
        given = self.ensemble, self.plan, draws
        if lanes is None:
            return super().blocks(draws)
        if lanes is tapped_forward:
            return tapped_forward.blocks(*given, replace(self, side_by_side=False).layers)
        found: Iterator[tuple[int, Array]] = lanes.blocks(*given)
        return found

    def passed(self, arithmetic: Arithmetic) -> Iterator[Array]:
        """The same by stages, wherever the arrays are."""
        ensemble = self.ensemble
        state: State = {STREAM: arithmetic.constant(ensemble.inputs)}
        for layer in range(1, ensemble.depth + 1):
            stages, read = ensemble.stages_at(layer), ensemble.read_at(layer)
            place, parts = self._down(stages, layer, state, arithmetic)
            if layer < ensemble.data.first:
                yield arithmetic.zeros(len(self.plan.statistics))
                state = self._after(stages[-1], place, parts, arithmetic)
                continue
            seen = parts if read == stages else self._down(read, layer, state, arithmetic)[1]
            z = seen[STREAM]
            n_in = {k: body.jet.shape[3] for k, body in z.bodies.items()}
            carried = z.carried is not None
            given = ensemble.sum_of(layer, read[-1], n_in, carried=carried, biases=z.biases)
            grams = [each.gram for each in z.sources]
            asked = self.plan, given, self.probes
            for source, rows in larger(*asked):
                grams.append(z.sources[source].rows[:, rows].prod(axis=1).mean(axis=1))
            yield arithmetic.evaluated(compiled(*asked), grams)
            if layer < ensemble.depth:
                state = self._after(stages[-1], place, parts, arithmetic)

    def _down(
        self, stages: Sequence[Stage], layer: int, state: State, arithmetic: Arithmetic
    ) -> tuple[Place, dict[Kind, Parts]]:
        """The place of a layer's last stage, and the parts of each of its equations."""
        place, parts = Place(layer), self._parts(stages[0], Place(layer), state, arithmetic)
        for stage, following in pairwise(stages):
            state = self._after(stage, place, parts, arithmetic)
            place = place.after(stage)
            parts = self._parts(following, place, state, arithmetic)
        return place, parts

    def _parts(
        self, stage: Stage, place: Place, state: State, arithmetic: Arithmetic
    ) -> dict[Kind, Parts]:
        """The terms that each equation of a stage adds up."""

        def masked(body: Array, keep: Value) -> Array:
            return arithmetic.masked(body, keep, place.masks)

        at = Evaluated(self.ensemble, place.layer, stage, state, arithmetic, masked)
        return {kind: at.parts(equation) for kind, equation in stage.equations}

    def _after(
        self,
        stage: Stage,
        place: Place,
        parts: Mapping[Kind, Parts],
        arithmetic: Arithmetic,
    ) -> State:
        """The variables after a stage."""
        met = self._matrices(stage, place, parts, arithmetic)
        after: dict[Kind, Array] = {}
        for number, (kind, each) in enumerate(parts.items()):
            terms = [met[kind, k] for k in each.bodies]
            if each.carried is not None:
                terms.append(each.carried.jet)
            variance, rate = each.biases or (0.0, 0.0)
            if variance or (rate and self.probes.order):
                n, stream = terms[0].shape[3], place.biases(number)
                one = _Vectors(arithmetic.constant(np.ones((1, 1))), arithmetic)
                law = _gaussian(variance)  # b and its jets, the same for all samples, are b · 1
                terms.append(self._applied(law, rate, one, n, stream, arithmetic))
            after[kind] = arithmetic.added(terms)
        return after

    def _matrices(
        self,
        stage: Stage,
        place: Place,
        parts: Mapping[Kind, Parts],
        arithmetic: Arithmetic,
    ) -> dict[tuple[Kind, int], Array]:
        """Each matrix on all that the equations give it, at once."""
        found = {}
        for k in sorted({k for each in parts.values() for k in each.bodies}):
            matrix = stage.matrix(k)
            kinds = [kind for kind, each in parts.items() if k in each.bodies]
            own = [parts[kind].bodies[k] for kind in kinds]
            joined = arithmetic.joined([each.jet for each in own])
            bodies = own[0] if len(own) == 1 else _Vectors(joined, arithmetic)
            out = self.ensemble.neurons(place.layer, stage, matrix.out)
            weights = self.ensemble.ensemble_of(place.layer, matrix)
            rate = float(self.ensemble.lambda_W[place.layer - 1])
            applied = self._applied(weights, rate, bodies, out, place.weights(k), arithmetic)
            for kind, each in zip(kinds, arithmetic.parted(applied, len(kinds)), strict=True):
                found[kind, k] = each
        return found

    def _applied(
        self,
        weights: WeightEnsemble,
        rate: float,
        met: _Vectors,
        n: int,
        stream: int,
        arithmetic: Arithmetic,
    ) -> Array:
        """W s and its jets, (draws, jets, vectors, n), for a matrix with this learning rate."""
        if self.whole:
            return self._built(weights, rate, met.jet, n, arithmetic.draws, stream)
        steps = lazy.steps(weights, met.jet.shape[3], n)
        Z = arithmetic.applied(steps, met.gram, met.rows, n, stream)
        samples = met.jet.shape[2]
        if self.probes.order and rate:
            arithmetic.vary(met.gram, met.rows, Z, (rate, 0.0), samples, stream)
        return Z.reshape(*met.jet.shape[:3], n)

    def _built(
        self,
        weights: WeightEnsemble,
        rate: float,
        bodies: Array,
        n: int,
        draws: NDArray[np.int64],
        stream: int,
    ) -> Array:
        """The same of a matrix that is built."""
        n_in = bodies.shape[3]
        Z = np.empty((*bodies.shape[:3], n))
        start, lower, upper = self.probes.raising
        for s, rng in enumerate(self.ensemble.generators(draws, stream)):
            W = weight_matrix(weights, (n, n_in), rng)
            Z[s] = bodies[s] @ W.T
            for probe in range(start.size - 1):
                theta = math.sqrt(rate / n_in) * rng.choice((-1.0, 1.0), (n, n_in))
                for t in range(start[probe], start[probe + 1]):
                    Z[s, upper[t]] += bodies[s, lower[t]] @ theta.T
        return Z


@cache(entries=16)
def _side_by_side(ensemble: Ensemble, plan: Plan) -> ModuleType | None:
    """The module that follows these networks side by side, if any: fused for one matrix, 1.4 to 2.3
    times faster."""
    every = forward, staged_forward, tapped_forward
    return next((each for each in every if each.fits(ensemble, plan)), None)


@cache(entries=64)  # asked for at every layer of every draw
def _gaussian(variance: float) -> Gaussian:
    return Gaussian(variance)


class Evaluated:
    """A stage's products at given variables; each argument and collective variable once.

    `masked` multiplies the vectors that a matrix meets by μ/p, given dropout's p.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        layer: int,
        stage: Stage,
        state: State,
        arithmetic: Arithmetic,
        masked: Callable[[Any, Value], Any],
    ) -> None:
        self._stage, self._state, self._arithmetic = stage, state, arithmetic
        self._masked = masked
        self._biases_of = partial(ensemble.biases_of, layer)
        self._sigma_of = partial(ensemble.sigma_of, layer, stage)
        self._values = ensemble.symbols_at(layer)
        self._kept: dict[Any, Array] = {}

    def parts(self, equation: Equation) -> Parts:
        """The terms that the equation adds up."""
        carried: list[Array] = []
        terms: dict[int, list[Array]] = {}
        for term in equation.right:
            if term.weight is None:
                carried.append(self._product(term, LEFT))
            else:
                matrix, neuron = term.weight
                check_indices(term)
                terms.setdefault(matrix, []).append(self._product(term, neuron))
        a, taps = self._arithmetic, self._stage.taps
        whole = {matrix: a.added(each) for matrix, each in terms.items()}
        for keep in self._stage.masks:
            whole = {matrix: self._masked(each, keep) for matrix, each in whole.items()}
        bodies = {matrix: taps.read(each, a.read) for matrix, each in whole.items()}
        met = {
            matrix * taps.count + tap: _Vectors(body, a)
            for matrix, read in bodies.items()
            for tap, body in enumerate(read)
        }
        own = a.added(carried) if carried else None
        if own is not None and taps.past is not None:
            (own,) = a.read(taps.past, own)
        past = None if own is None else _Vectors(own, a)
        return Parts(past, met, self._biases_of(equation))

    def _product(self, term: Product, at: int) -> Array:
        """The factors at this neuron, times all that has no neural index or is summed over."""
        if any(isinstance(each, Attended) for each in term.factors):
            return self._attended(term)
        groups: dict[int | None, list[Array]] = {at: []}
        for factor in term.factors:
            place, value = self._factor(factor)
            groups.setdefault(place, []).append(value)
        own = groups.pop(at)
        scalars = groups.pop(None, [])
        spaces = list(term.means)
        for values in groups.values():
            scalars.append(self._summed(values))
        n = {kind.space: jet.shape[3] for kind, jet in self._state.items()}
        scale = self._scale(term) / math.prod(n[space] for space in spaces)
        result = None
        for value in sorted(scalars + own, key=lambda each: each.shape[3]):
            result = value if result is None else self._arithmetic.times(result, value)
        assert result is not None
        if not own and at in dict(term.neurons):
            result = self._arithmetic.spread(result, n[dict(term.neurons)[at]])
        return self._arithmetic.scaled(result, scale)

    def _attended(self, term: Product) -> Array:
        """Σ_s A[t,s] v[s], times the term's numbers."""
        scores = next(
            self._stage.scores[each.scores] for each in term.factors if isinstance(each, Attended)
        )
        value = next(each.kind for each in term.factors if isinstance(each, Variable))
        own = [self._state[kind] for kind in (scores.query, scores.key, value)]
        found = self._arithmetic.attended(own, scores, self._stage.positions)
        return self._arithmetic.scaled(found, self._scale(term))

    def _scale(self, term: Product) -> float:
        """The term's coefficient and parameters."""
        scale = float(term.coefficient)
        for atom, power in term.parameters:
            scale *= number_at(self._values, atom) ** power
        return scale

    def _summed(self, values: Sequence[Array]) -> Array:
        first, *others = values
        if not others:
            return self._arithmetic.total(first)
        for each in others[:-1]:
            first = self._arithmetic.times(first, each)
        return self._arithmetic.summed(first, others[-1])

    def _factor(self, factor: object) -> tuple[int | None, Array]:
        """Its neuron, and its value."""
        match factor:
            case Variable(kind, at, ()):
                return at, self._state[kind]
            case Function(argument, order, at):
                return at, self._once(factor._replace(at=0), self._sigma, argument, order)
            case Collective(function, orders):
                return None, self._once(factor, self._function, function, orders)
        raise InputError("layer", factor, "variables, σ's and functions of collective variables")

    def _once(self, key: object, make: Any, *arguments: object) -> Array:
        if key not in self._kept:
            self._kept[key] = make(*arguments)
        return self._kept[key]

    def _sigma(self, argument: int, order: int) -> Array:
        """σ^{(order)} of an argument."""
        terms = [self._product(term, HERE) for term in self._stage.arguments[argument]]
        Z = self._arithmetic.added(terms)
        if self._stage.batch is not None:
            return self._arithmetic.batched(Z, self._stage.batch, self._sigma_of(argument))
        return self._arithmetic.activated(Z, order, self._sigma_of(argument), kept=Z is terms[0])

    def _function(self, function: int, orders: tuple[int, ...]) -> Array:
        """A derivative of a function of the collective variables."""
        means = [self._once(number, self._mean, number) for number in range(len(self._stage.means))]
        return self._arithmetic.function(self._stage, function, orders, means)

    def _mean(self, number: int) -> Array:
        mean = self._stage.means[number]
        values = [self._state[factor.kind] for factor in mean.factors]
        a = self._arithmetic
        if mean.sets > 1:
            found = a.in_sets(reduce(a.times, values), mean.sets)
        else:
            found = a.divided(self._summed(values), values[0].shape[3])
        (over_positions,) = everywhere(mean.positions).read(found, a.read)
        return over_positions
