"""How many blocks a model with attention may have, if its last one is repeated.

Attention makes tokens alike: their correlation rises from block to block, and at 1 their rank has
collapsed. V/(nK²) has to stay small, too. Both come from the model's own recursions, run further.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derive.errors import InputError

from ..arrays import Array
from ..flows import flow
from .attention import correlation, heads
from .description import Description
from .theory import FLUCTUATES, first_beyond, of_positions, repeated

ALIKE = 0.8
"""The mean correlation from which on tokens count as alike: a fifth of their variance is their
own, or less."""
_DEEPEST, _TOKENS = 32, 8
"""Layers at most of so many tokens, fewer of more."""


class Blocks(NamedTuple):
    """The depth at which the first of two limits is reached.

    Attributes:
        start, end: the layers of the model's last block, which is repeated.
        reached: the layers that were looked at.
        alike: the first layer at which tokens' correlation is `ALIKE`; None if none is.
        fluctuates: the first at which V/(nK²) of a token is `FLUCTUATES`, if that comes before.
        correlation, ratio: tokens' correlation and V/(nK²) at the limit, or where none was
            reached; NaN where V is not known.
    """

    start: int
    end: int
    reached: int
    alike: int | None
    fluctuates: int | None
    correlation: float
    ratio: float

    def before(self, layer: int) -> int:
        """The whole blocks of this length before a layer, without the layers before the first."""
        size = self.end - self.start + 1
        return max(0, (layer - 2 - (self.end - 1) % size) // size)

    @property
    def most(self) -> int:
        """The blocks to the limit, or to where none was reached."""
        return self.before(self.fluctuates or self.alike or self.reached + 1)

    @property
    def now(self) -> int:
        """The blocks of the model."""
        return self.before(self.end + 1)


def repeated_blocks(description: Description, X: Array) -> Blocks | None:
    """The limits at the first input; None without attention, or where K is not known further."""
    own, end = [*heads(description.structure, description.laws)], description.first - 1
    if not own or end != description.depth - 1 or own[-1].layer > end:
        return None
    start, x = own[-1].layer, description.samples(X[:1])
    net, width = repeated(description, end - start + 1), description.network.width
    most = max(2 * end, _DEEPEST * _TOKENS // max(_TOKENS, int(np.prod(x.shape[1:-1]))))
    tokens = np.full(1, np.nan)
    for depth in (2 * end, most):
        if depth <= len(tokens) or first_beyond(tokens, ALIKE):
            continue
        try:
            K = flow(net, x[0], depth, "K", width=width)["K"].to_numpy()
        except InputError:
            break
        tokens = correlation(K)
    if not np.isfinite(tokens).any():
        return None
    alike = first_beyond(tokens, ALIKE)
    reached = alike or len(tokens)
    ratios = of_positions(net, x, reached, reached, float(width or 1))
    ratios = np.full(reached, np.nan) if ratios is None else ratios
    fluctuates = first_beyond(ratios, FLUCTUATES)
    at = (fluctuates or reached) - 1
    return Blocks(start, end, reached, alike, fluctuates, float(tokens[at]), float(ratios[at]))
