"""The inputs below layer 1, which are fixed: Σ_j x_j x_j = n_0 K0, without fluctuations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...arithmetic.polynomials import Monomial, monomial
from ...errors import InputError
from ..tensors import Tensor, tensor
from ..through import Summand
from ..trees import Z, input_terms


def sums_over_inputs(whole: Summand, most: int) -> Iterator[tuple[Monomial, int]]:
    """Σ_j Π fields over the inputs, term by term: (Π K, r), to be multiplied by n_0^r.

    K is the mean xᵀx/n_0, or that of more factors, at most `most`: Σ_j x_j x_j x_j x_j/n_0 enters
    where rotations do not keep the law of the weights. Raises InputError for others.
    """
    for terms in product(*(input_terms(placed.field) for placed in whole.fields)):
        name = list(range(len(whole.neurons)))
        for placed, term in zip(whole.fields, terms, strict=True):
            for a, b in term.joined:
                i, j = (name[placed.neurons[node]] for node in (a, b))
                name = [i if other == j else other for other in name]
        samples: dict[int, list[int]] = {j: [] for j in name}
        for placed, term in zip(whole.fields, terms, strict=True):
            for node in term.entries:
                samples[name[placed.neurons[node]]].append(placed.samples[node])
        if any(len(found) % 2 or len(found) > most for found in samples.values()):
            wanted = "cumulants that at layer 1 depend on the inputs through xᵀx only"
            raise InputError("fields", whole.fields, wanted)
        means = [_mean(tuple(found)) for found in samples.values() if found]
        yield monomial(means), len(samples)


def _mean(samples: tuple[int, ...]) -> Tensor:
    """The mean over the inputs' entries of a product of them, as the tensor of one block."""
    block = tuple(range(len(samples)))
    return tensor((Z,) * len(samples), 0, (block,), samples)
