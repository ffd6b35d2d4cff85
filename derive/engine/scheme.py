"""What the recursions of one network have in common: under what all of them are derived."""

from __future__ import annotations

from dataclasses import dataclass

from ..weights import WeightEnsemble


@dataclass(frozen=True)
class Scheme:
    """Under what the recursions of a network's tensors are derived; `Network.scheme` makes it.

    Arguments:
        weights: the ensemble of the hidden layers.
        square: whether all widths are n; else they are r_in n and, for the Haar matrix, r_big n.
        corrections: how many 1/n parts C_W and C_b have: C_W + C_W1/n + C_W2/n² + …
        single: whether there is one input, of which recursions take far less to derive.
    """

    weights: WeightEnsemble
    square: bool = True
    corrections: int = 0
    single: bool = False
