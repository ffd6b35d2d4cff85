"""The same ensembles with every weight matrix and every tensor built: slow and obviously right.

The fields of a layer are dense arrays (H with n² numbers, dH with n³, ddH with n⁴, for every tuple
of samples) and follow from those of the layer before by the forward equations of `engine.fields`,
term by term. Moments are read off the fields themselves by the pairing estimator. Nothing is
shared with the lazy sampler but the activation: other random numbers, other weights, no probes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from derive.arithmetic.parameters import Parameter
from derive.engine.fields import AnyField, Z, slots_of
from derive.errors import InputError
from derive.groups.pairings import Blocks

from ..arrays import Array
from ..estimators.observables import Plan, derivatives, followed, terms_of
from ..estimators.sums import ELEMENTS, Elements
from ..random.matrices import weight_matrix
from .base import Sampler
from .ensemble import BATCHES, MASKS, PERMUTATIONS, STAGES, Ensemble, Layers
from .probing import probes_of
from .staged import ProbeSampler

MOST_NUMBERS = 1 << 28
"""Numbers in one array: 2 GB."""

Fields = Mapping[AnyField, Array]
"""Every field as (draws, a sample for each node, a neuron for each node)."""


@dataclass(frozen=True, eq=False)
class ExplicitSampler(Sampler):
    """Networks with all their weights and tensors."""

    supports: ClassVar[frozenset[str]] = frozenset({STAGES, MASKS, PERMUTATIONS, BATCHES})
    name: ClassVar[str] = "explicit"

    @classmethod
    def of(cls, ensemble: Ensemble, plan: Plan) -> Sampler:
        """See `Sampler`: of other layers than dense ones matrices are built, but no tensors.

        Raises InputError where a tensor of one network is larger than memory.
        """
        if STAGES in ensemble.layers.needs:
            return ProbeSampler(ensemble, plan, probes_of(plan), whole=True)
        made = cls(ensemble, plan)
        if made.largest > MOST_NUMBERS:
            wanted = (
                f"layers narrow enough to build every tensor, with {MOST_NUMBERS} numbers at most; "
                'sampler="lazy" builds none for z and the tower'
            )
            raise InputError("width", f"{max(ensemble.widths)}: {made.largest}", wanted)
        return made

    @classmethod
    def why_not(cls, layers: Layers, plan: Plan) -> str:
        """See `Sampler`; other layers than dense ones have what probes give."""
        if STAGES in layers.needs:
            return ProbeSampler.why_not(layers, plan)
        return super().why_not(layers, plan)

    @property
    def largest(self) -> int:
        """How many numbers the largest array has: a field, or the weights."""
        n, most = max(self.ensemble.widths), max(field.nodes for field in self._fields)
        return int(max(n**2, (n * self.plan.samples) ** most))

    @property
    def numbers(self) -> int:
        """The largest field, less what a processor is better at than it is at overheads."""
        return max(1, self.largest >> 4)

    def layers(self, draws: NDArray[np.int64]) -> Iterator[Array]:
        """The estimates of these networks, (draws, statistics), at layers 1, 2, …"""
        for fields in self.fields(draws):
            yield np.stack(
                [
                    _pairing_estimate(fields, kinds, pairing, samples, self._elements)
                    for kinds, _, pairing, samples in self.plan.statistics
                ],
                axis=1,
            )

    def sizes(self) -> Array | None:
        """Where set partitions are told apart, Σ |terms| of the statistics of draw 0."""
        if all(len(block) == 2 for *_, blocks, _ in self.plan.statistics for block in blocks):
            return None
        return np.array(
            [
                [
                    _pairing_estimate(fields, kinds, p, samples, self._elements, sizes=True)[0]
                    for kinds, _, p, samples in self.plan.statistics
                ]
                for fields in self.fields(np.zeros(1, np.int64))
            ]
        )

    def fields(self, draws: NDArray[np.int64]) -> Iterator[Fields]:
        """All fields of layers 1 … depth."""
        ensemble = self.ensemble
        streams = ensemble.generators(draws)
        orders = 1 + derivatives(self._fields)
        m = len(ensemble.inputs)
        sigma = np.tile(ensemble.at_inputs(orders), (draws.size, 1, 1, 1))
        fields: Fields = {
            field: _at_inputs(field, ensemble.inputs, draws.size) for field in self._fields
        }
        for layer in range(1, ensemble.depth + 1):
            shape = (ensemble.widths[layer], ensemble.widths[layer - 1])
            weights = ensemble.weights_at(layer)
            W = np.array([weight_matrix(weights, shape, rng) for rng in streams])
            b = np.sqrt(ensemble.C_b[layer - 1]) * np.array(
                [rng.standard_normal(shape[0]) for rng in streams]
            )
            values = {
                Parameter(name): float(column[layer - 1])
                for name, column in ensemble.symbols.items()
            }
            fields = {
                field: forward_field(field, W, b, sigma, fields, values) for field in self._fields
            }
            yield fields
            if layer < ensemble.depth:
                sigma = np.empty((draws.size, orders, m, shape[0]))
                ensemble.activation(layer, orders).differentiate(fields[Z], sigma)
                ensemble.masked(sigma, layer + 1, streams)

    @cached_property
    def _elements(self) -> Elements:
        """The δ_q of the estimator, and Weingarten's function of the group that keeps the law."""
        return ELEMENTS[self.ensemble.net.group]

    @cached_property
    def _fields(self) -> tuple[AnyField, ...]:
        """The fields that are measured, and all that their forward equations need."""
        return followed(self.plan.fields)


def _at_inputs(field: AnyField, inputs: Array, draws: int) -> Array:
    m, n = inputs.shape
    shape = (draws, *(m,) * field.nodes, *(n,) * field.nodes)
    values = {"identity": np.eye(n), "inputs": inputs, "zero": np.zeros(n)}
    return np.broadcast_to(values[field.at_inputs], shape)


def forward_field(
    field: AnyField,
    W: Array,
    b: Array,
    sigma: Array,
    fields: Fields,
    values: Mapping[Any, float],
) -> Array:
    """A field of layer ℓ+1 from all fields of layer ℓ, by its forward equation.

    Arguments:
        W, b: weights (draws, n_out, n_in) and biases (draws, n_out).
        sigma: σ and its derivatives, (draws, orders, m, n_in).
        values: the learning rates and other symbols, by their `Parameter`.
    """
    draws, n_out, n_in = W.shape
    m, nodes = sigma.shape[2], field.nodes
    sample, slot = (range(1 + k * nodes, 1 + (k + 1) * nodes) for k in range(2))
    output = [0, *sample, *slot]
    total = np.zeros((draws, *(m,) * nodes, *(n_out,) * nodes))
    every_sample, identity = np.ones(m), np.eye(n_out)
    for term in terms_of(field):
        neuron = range(1 + 2 * nodes, 1 + 2 * nodes + len(term.neurons))
        operands: list[Any] = [np.ones(draws), [0]]
        for k in range(nodes):
            operands += [every_sample, [sample[k]]]
        for a, c in term.deltas:
            operands += [identity, [slot[a], slot[c]]]
        for a, _ in term.biases:
            operands += [b, [0, slot[a]]]
        for _, a, j in term.weights:
            operands += [W, [0, slot[a], neuron[j]]]
        for j, k, order, _ in term.factors:
            operands += [sigma[:, order], [0, sample[k], neuron[j]]]
        for placed in term.fields:
            labels = [sample[k] for k in placed.samples] + [neuron[j] for j in placed.neurons]
            operands += [fields[placed.field], [0, *labels]]
        rate = np.prod([values[atom] ** power for atom, power in term.parameters])
        scale = float(term.coefficient) * rate * float(n_in) ** -len(term.means)
        total += scale * np.einsum(*operands, output, optimize="greedy")
    return total


def _pairing_estimate(
    fields: Fields,
    kinds: tuple[AnyField, ...],
    pairing: Blocks,
    samples: tuple[int, ...],
    elements: Elements,
    *,
    sizes: bool = False,
) -> Array:
    """M_p of one product of fields, from each draw: Σ_q Wg(p, q) Σ_i δ_q(i) Π φ; or with the
    absolute values of the terms."""
    n = fields[Z].shape[-1]
    total = np.zeros(len(fields[Z]))
    for coefficient, q in elements(n, pairing):
        index = {slot: 1 + k for k, block in enumerate(q) for slot in block}
        operands: list[Any] = []
        for field, slots in zip(kinds, slots_of(kinds), strict=True):
            chosen = fields[field]
            for slot in slots:
                chosen = chosen[:, samples[slot]]
            operands += [chosen, [0, *(index[slot] for slot in slots)]]
        contracted = np.einsum(*operands, [0], optimize="greedy")
        term = coefficient * contracted
        total += np.abs(term) if sizes else term
    return total
