"""Layers of which only permutations keep the law: z' = γ z + b + W σ(y), a skip around one matrix.

Σ σ(z_a)² is no function of inner products, so that z' remembers, neuron by neuron, how large σ(z)
was. `neurons` averages behind such a layer, and `skip_closure` closes its recursions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..arithmetic.polynomials import Expansion
from .stages import LEFT, Function, Stage, Variable
from .trees import STREAM


def is_skip(stages: Sequence[Stage]) -> bool:
    """True if the layer is a skip around one matrix, behind a norm or none: K and Θ close."""
    *before, last = stages
    if any(stage.matrices or stage.arguments for stage in before) or len(last.matrices) != 1:
        return False
    if last.batch or len(last.equations) != 1 or last.equations[0][0] != STREAM:
        return False
    if not all(mean.is_odd for mean in last.means):  # but for one that is taken off in σ(y − m)
        return False
    terms = last.equations[0][1].right
    summed = [term for term in terms if term.weight is not None]
    carried = [term for term in terms if term.weight is None]
    single = all(
        term.factors == (Function(0, 0, term.weight[1]),) for term in summed if term.weight
    )
    return single and [term.factors for term in carried] == [(Variable(STREAM, LEFT),)]


def gamma_of(stage: Stage) -> Expansion:
    """γ, the share of z that a layer carries past its matrices."""
    right = stage.equation(STREAM).right
    return {(term.parameters, 0): term.coefficient for term in right if term.weight is None}
