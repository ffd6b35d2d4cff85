"""How the tangent kernel of one output fluctuates: the joint cumulant of its entries."""

from __future__ import annotations

from ..engine.tensors import identify, tensor
from ..engine.trees import H
from ..groups.pairings import partitions
from ..work.caches import cache
from .diagrams import Factor


@cache
def fluctuations(group: str = "O") -> tuple[Factor, ...]:
    """The tensors that add up to n Cov[H_ab, H_cd], all neural indices alike; labels are 0 … 3.

    A sum over the pairings of four neural indices (source 000, eq. 6.9), and with the group "B" the
    block of all four.
    """
    return tuple(
        Factor(*identify(tensor((H, H), 0, pairing, (0, 1, 2, 3))))
        for pairing in partitions(4, group)
    )
