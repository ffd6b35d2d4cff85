"""Pair partitions, their coset types, and set partitions: the combinatorics under every average.

A *pairing* of 2k points is a tuple of k sorted pairs, sorted: ((0, 1), (2, 3)).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import combinations, product
from math import factorial, prod
from typing import TypeVar

from ..errors import InputError, as_integer
from ..work.caches import cache
from ..work.progress import telling
from ..work.resources import check_memory

Pairing = tuple[tuple[int, int], ...]
Blocks = tuple[tuple[int, ...], ...]
"""A set partition of points, each block sorted; a pairing is one whose blocks are pairs."""
Partition = tuple[int, ...]
T = TypeVar("T", bound=Hashable)

MOST_POINTS = 10
"""Of a cumulant: the orders of 2k alike indices are gone through, (2k)! of them."""
_SECONDS = 3e-6
"""To make a pairing."""
_PAIRS = "pairs of distinct points, each point once"


def pair_partitions(points: int) -> tuple[Pairing, ...]:
    """All (2k−1)!! ways to put 2k points 0 … 2k−1 into pairs, in lexicographic order.

    By definition: p pairs each point with one other.

    Raises InputError for an odd number of points, and for more than memory holds.

    >>> pair_partitions(4)
    (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))
    """
    wanted = "an even number of points, 0 or more"
    count = as_integer("points", points, least=0, wanted=wanted)
    if count % 2:
        raise InputError("points", points, wanted)
    number, held = 1, 64 * (count // 2 + 1)  # bytes, of a tuple of pairs
    for factor in range(count - 1, 0, -2):
        number *= factor
        if number.bit_length() > 1000:
            break
    check_memory("points", points, number * held, f"the pairings of {count} points")
    with telling(f"pairing {count} points", number * _SECONDS):
        return _pair_partitions(count)


@cache
def _pair_partitions(points: int) -> tuple[Pairing, ...]:
    return tuple(pairings(points))


def pairings(points: int, allowed: Container[tuple[int, int]] | None = None) -> Iterator[Pairing]:
    """Those of `pair_partitions`, one after the other; if given, of `allowed` pairs alone."""
    return _pairings(tuple(range(points)), allowed)


def _pairings(
    points: tuple[int, ...], allowed: Container[tuple[int, int]] | None = None
) -> Iterator[Pairing]:
    if not points:
        yield ()
        return
    first, rest = points[0], points[1:]
    for position, partner in enumerate(rest):
        if allowed is None or (first, partner) in allowed:
            for tail in _pairings(rest[:position] + rest[position + 1 :], allowed):
                yield ((first, partner), *tail)


def matchings(points: Sequence[int]) -> Iterator[tuple[Pairing, tuple[int, ...]]]:
    """All ways to pair some of the points: the pairs, and the points that are left single.

    >>> list(matchings(range(2)))
    [((), (0, 1)), (((0, 1),), ())]
    """
    if not points:
        yield (), ()
        return
    first, *rest = points
    for pairs, single in matchings(rest):
        yield pairs, (first, *single)
    for partner in rest:
        for pairs, single in matchings([each for each in rest if each != partner]):
            yield ((first, partner), *pairs), single


def coset_type(p: Pairing, q: Pairing) -> Partition:
    """Half the lengths of the loops of p ∪ q, in descending order: a partition of k.

    Drawing both pairings on the same 2k points gives closed loops of even length; the loop lengths
    halved say which double coset of the hyperoctahedral group (p, q) lies in. By definition;
    Collins and Matsumoto, 2017.

    Arguments:
        p, q: pairings of the same 2k points: k pairs of distinct points, tuples or lists.

    Raises InputError for what is no pairing, and for pairings of different points.

    >>> coset_type(((0, 1), (2, 3)), ((0, 2), (1, 3)))
    (2,)
    """
    try:
        return _coset_type(p, q)
    except TypeError:  # lists are as good as tuples, but for the cache
        return _coset_type(_hashable("p", p), _hashable("q", q))


def loop_type(p: Pairing, q: Pairing) -> Partition:
    """The coset type, not kept: for pairs that are gone through once."""
    partner_p, partner_q = _partners(p, "p"), _partners(q, "q")
    if partner_p.keys() != partner_q.keys():
        raise InputError("q", q, f"a pairing of the points that p pairs, {sorted(partner_p)}")
    unseen, parts = set(partner_p), []
    while unseen:
        point = min(unseen)
        length = 0
        while point in unseen:
            across = partner_p[point]
            unseen -= {point, across}
            point = partner_q[across]
            length += 1
        parts.append(length)
    return tuple(sorted(parts, reverse=True))


_coset_type = cache(loop_type)


def _hashable(name: str, pairing: Pairing) -> Pairing:
    try:
        return tuple((int(a), int(b)) for a, b in pairing)
    except (TypeError, ValueError):
        raise InputError(name, pairing, _PAIRS) from None


def _partners(pairing: Pairing, name: str) -> dict[int, int]:
    try:
        partner = {a: b for pair in pairing for a, b in (pair, pair[::-1])}
        distinct = len(partner) == 2 * len(pairing) and all(a != b for a, b in pairing)
    except (TypeError, ValueError):
        distinct = False
    if not distinct:
        raise InputError(name, pairing, _PAIRS)
    return partner


def loops(p: Pairing, q: Pairing) -> int:
    """The number of closed loops of p ∪ q, so that Σ_i δ_p(i) δ_q(i) = n^loops."""
    return len(coset_type(p, q))


def set_partitions(items: Sequence[T]) -> Iterator[tuple[tuple[T, ...], ...]]:
    """All ways to split items into non-empty blocks (Bell's number of them).

    >>> list(set_partitions("ab"))
    [(('a', 'b'),), (('a',), ('b',))]
    """
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for partition in set_partitions(rest):
        for position, block in enumerate(partition):
            yield (*partition[:position], (first, *block), *partition[position + 1 :])
        yield ((first,), *partition)


def joined(groups: Iterable[Iterable[T]]) -> list[set[T]]:
    """The finest partition of the items in which those of each group are in one block.

    >>> joined(["ab", "cd", "b", "bc"]) == [{"a", "b", "c", "d"}]
    True
    """
    found: list[set[T]] = []
    for group in groups:
        block = set(group)
        touched = [each for each in found if each & block]
        found = [each for each in found if not each & block] + [block.union(*touched)]
    return found


def as_pairing(blocks: Blocks) -> Pairing:
    """The blocks as pairs.

    Raises InputError for larger ones, of what is known for pairings alone.
    """
    if any(len(block) != 2 for block in blocks):
        wanted = "a pairing here: blocks of more are for weights that permutations alone keep"
        raise InputError("pairing", blocks, wanted)
    return tuple((block[0], block[1]) for block in blocks)


def even_partitions(points: Sequence[int]) -> Iterator[Blocks]:
    """The set partitions of the points into blocks of even sizes, pairings among them.

    >>> list(even_partitions(range(4)))[-1]
    ((0, 1, 2, 3),)
    """
    points = tuple(points)
    if not points:
        yield ()
        return
    first, rest = points[0], points[1:]
    for size in range(1, len(points), 2):
        for others in combinations(rest, size):
            left = tuple(point for point in rest if point not in others)
            for tail in even_partitions(left):
                yield ((first, *others), *tail)


def partitions(points: int, group: str) -> Iterator[Blocks]:
    """The terms of an average over a group: pairings, and with "B" larger even blocks too."""
    yield from pair_partitions(points)
    if group != "O":
        yield from (p for p in even_partitions(range(points)) if 2 * len(p) < points)


def mobius(blocks: int) -> int:
    """(−1)^{r−1} (r−1)!: the weight in a joint cumulant of a partition into r blocks."""
    return factorial(blocks - 1) if blocks % 2 else -factorial(blocks - 1)


def refining_pairings(blocks: Sequence[Sequence[int]]) -> Iterator[Pairing]:
    """The pairings that stay inside the given blocks: those whose δ survives when only the points
    of one block carry the same index."""
    for choice in product(*(tuple(_pairings(tuple(sorted(block)))) for block in blocks)):
        yield tuple(sorted(pair for part in choice for pair in part))


def refining_partitions(blocks: Sequence[Sequence[int]]) -> Iterator[Blocks]:
    """`refining_pairings` of laws that only signed permutations keep: blocks of even sizes."""
    return (finer for finer, _ in refinements(blocks))


def refinements(blocks: Sequence[Sequence[int]]) -> Iterator[tuple[Blocks, int]]:
    """`refining_partitions`, each with its Möbius function μ(finer, blocks): of what is constant on
    a partition's blocks, Σ μ is what also differs between them."""
    for choice in product(*(tuple(even_partitions(sorted(block))) for block in blocks)):
        weight = prod(mobius(len(part)) for part in choice)
        yield tuple(sorted(block for part in choice for block in part)), weight


def ordered(a: int, b: int) -> tuple[int, int]:
    """The pair with the smaller point first."""
    return (a, b) if a <= b else (b, a)


def double_factorial_pairings(points: int) -> int:
    """(2k−1)!!, the number of pairings of 2k points."""
    return prod(range(points - 1, 0, -2))


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """The ways to write `total` as a sum of so many numbers, 0 or more, in order."""
    if parts <= 1:
        if parts or not total:
            yield (total,) * parts
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


@cache
def patterns(rank: int) -> tuple[tuple[int, ...], ...]:
    """The ways in which so many labels may coincide: the number of each one's block, from 0 on in
    the order in which they occur."""
    found = []
    for blocks in set_partitions(tuple(range(rank))):
        number = {
            label: k for k, block in enumerate(sorted(map(sorted, blocks))) for label in block
        }
        found.append(tuple(number[label] for label in range(rank)))
    return tuple(found)


@cache
def pattern_of(samples: tuple[int, ...]) -> tuple[int, ...]:
    """How samples coincide, as in `patterns`."""
    number = {sample: k for k, sample in enumerate(dict.fromkeys(samples))}
    return tuple(number[sample] for sample in samples)
