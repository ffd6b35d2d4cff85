"""The layer below the first one: sums over the inputs, where σ is the identity."""

from __future__ import annotations

from fractions import Fraction

from ...arithmetic.parameters import R_IN
from ...arithmetic.polynomials import UNIT, Expansion, monomial, power, times
from ...errors import InputError
from ...weights import WeightEnsemble
from ..tensors import Tensor, tensor
from ..trees import Term, Z


def input_layer(term: Term, order: int, square: bool, weights: WeightEnsemble) -> Expansion:
    """Σ_j Π x_j over the inputs: σ is the identity, each sum n_0 K_{αβ}, K = xᵀx/n_0, or n_0.

    Weights of a law that rotations do not keep bring n_0 times Σ_j x_j x_j x_j x_j/n_0 as well.
    """
    if any(derivatives > 1 for _, _, derivatives in term.factors):
        return {}
    name = list(range(term.neurons))
    inputs = [(j, sample) for j, sample, derivatives in term.factors if derivatives == 0]
    for placed in term.fields:
        if placed.field.at_inputs == "zero":
            return {}
        if placed.field.at_inputs == "inputs":
            inputs += zip(placed.neurons, placed.samples, strict=True)
        else:
            i, j = (name[neuron] for neuron in placed.neurons)
            name = [i if other == j else other for other in name]
    samples: dict[int, list[int]] = {j: [] for j in name}
    for j, sample in inputs:
        samples[name[j]].append(sample)
    most = 2 if weights.group == "O" else len(inputs)
    if any(len(found) % 2 or len(found) > most for found in samples.values()):
        raise InputError(
            "fields", term.fields, "cumulants that at layer 1 depend on the inputs through xᵀx only"
        )
    kernels = [_input_mean(tuple(found)) for found in samples.values() if found]
    width = UNIT if square else power(R_IN, len(samples))
    return {(times(monomial(kernels), width), -len(samples)): Fraction(1)}


def _input_mean(samples: tuple[int, ...]) -> Tensor:
    """The mean over the inputs' entries of a product of them, as the tensor of one block."""
    block = tuple(range(len(samples)))
    return tensor((Z,) * len(samples), 0, (block,), samples)
