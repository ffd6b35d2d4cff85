"""How many collective variables c − c* matter beside those of a product of equations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from ...arithmetic.polynomials import Expansion
from ...groups.pairings import Blocks
from ..stages import Stage
from ..through import Summand
from .products import carried_past


def degrees(
    stage: Stage,
    terms: Callable[[int], Iterable[Summand]],
    plain: Sequence[Summand],
    pairs: Blocks,
    found: Expansion,
    order: int,
) -> range:
    """The degrees in c − c*, beyond 0, that matter to this order in 1/n.

    Arguments:
        stage: whose collective variables they are.
        terms: those of a product of equations, of a degree in c − c*.
        plain: those of degree 0.
        pairs: of the neural indices.
        found: the average of `plain`.
        order: the highest power of 1/n kept.
    """
    first = 0
    while stage.has_centres and not plain and first < 2 * order:
        first += 1  # what a mean multiplies is 0 in the limit
        plain = tuple(terms(first))
    carried = [each for whole in plain for _, each in carried_past(whole, pairs)]
    last = first + _more(stage, carried, found, order, first)
    return range(max(1, first), last + 1)


def _more(stage: Stage, plain: Sequence[Summand], found: Expansion, order: int, first: int) -> int:
    """How many c − c* matter beside those of X, a product of equations to the degree `first`.

    E[X δc] and E[X δc δc] are of order 1/n relative to E[X], and so on. E[X] may also vanish for
    its parity, which means, odd themselves, make up for; −1 where nothing matters, X included.
    """
    if not (stage.means or stage.scores) or not plain:
        return -1
    if found:
        return 2 * (order - min(at for _, at in found))
    if not stage.has_centres:
        return -1
    return max(_repairs(whole, order, first > 0) for whole in plain)


def _repairs(whole: Summand, order: int, even: bool) -> int:
    """How many c − c* matter where E[X] vanishes, or, if `even`, where it may not; −1 for none.

    A sum over a neuron brings n, and 1/n or a weight makes up for it; two neurons where a variable
    stands alone bring one n between them, or none where one of them is carried. A mean Σ_a z_a/n
    is such a neuron more: at a carried one it costs 1/n, at a summed one n^{-1/2}.
    """
    ends = Counter(j for placed in whole.fields for j in placed.neurons)
    live = {j for j, *_ in whole.factors}
    weighted = {j for *_, j in whole.weights}
    free = set(range(len(whole.neurons))) - weighted
    alone = [j for j, count in ends.items() if count % 2 and j not in live | weighted]
    summed = sum(j >= 0 for j in alone)
    carried = len(alone) - summed
    missing = max(0, carried - summed)
    power = Fraction(len(whole.means) - len(free) + missing)
    power += Fraction(summed + min(summed, carried), 2)
    if power > order:
        return -1
    if live or weighted:  # σ has no parity, nor has a neuron before it is paired
        return int(2 * (order - power))
    if len(alone) % 2 and not missing:
        missing, power = 1, power + Fraction(1, 2)
    return missing + 2 * int(order - power) if power <= order and (missing or even) else -1
