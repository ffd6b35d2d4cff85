"""A paper's statements on trained networks, as tests over seeds, and the verdict on a figure.

A statement "a is smaller than b" is a rank test: how many pairs of networks, one of each kind and
both of one depth, have the smaller number on the side where the paper has it. Its distribution,
where the two kinds do not differ, is counted exactly. "A does not depend on it" is an equivalence
test: the interval of the ratio lies within a margin. Each says what it would have noticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from derivations.claims.verdicts import Kind, Picture, Verdict
from derive.work.caches import cache
from numeric.arrays import Array

LEVEL = 0.01
"""The chance of a statement to be borne out where the two kinds of networks do not differ."""
POWER = 0.9
"""With what chance a difference that is called noticeable would have been noticed."""
RARE = 1e-4
"""The chance of networks to differ from a theory that is right."""
_TRIALS = 2000
Strata = Sequence[tuple[Array, Array]]


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper as a test.

    Attributes:
        text: what is said.
        holds: whether the test bears it out.
        told: the numbers.
        noticed: the relative difference that would have been noticed; None where it is a count.
        decided: whether networks say so or the contrary; of those that do not, there are too few.
    """

    text: str
    holds: bool
    told: str
    noticed: float | None = None
    decided: bool = True

    def __str__(self) -> str:
        seen = "" if self.noticed is None else f", would notice {_ratio(self.noticed)}"
        sign = "" if self.holds else "NOT: " if self.decided else "NOT SHOWN: "
        return f"{sign}{self.text} ({self.told}{seen})"


def _ratio(noticed: float) -> str:
    if noticed > 99:
        return "no factor below 100"
    return f"{100 * noticed:.0f} %" if noticed < 1 else f"a factor of {1 + noticed:.1f}"


def smaller(text: str, strata: Strata) -> Statement:
    """The first of each pair of samples is the smaller one, at `LEVEL`.

    Arguments:
        strata: of each depth, (first, second), each (networks,); infinite what was never reached.

    Pairs that are equal count for neither side.
    """
    won = sum(int((a[:, None] < b[None, :]).sum()) for a, b in strata)
    sizes = tuple((len(a), len(b)) for a, b in strata)
    tail = _tail(sizes)
    chance = float(tail[won])
    lost = sum(int((a[:, None] > b[None, :]).sum()) for a, b in strata)
    told = f"{won} of {sum(a * b for a, b in sizes)} pairs, p {chance:.1e}"
    decided = min(chance, float(tail[lost])) <= LEVEL
    return Statement(text, chance <= LEVEL, told, _noticed(strata, sizes), decided)


def rising(text: str, groups: Sequence[Array]) -> Statement:
    """Numbers rise from group to group: Jonckheere's test, which adds up Mann and Whitney's
    of each group and all those before it; where no group differs these are independent."""
    before = [np.concatenate(groups[:k]) for k in range(1, len(groups))]
    return smaller(text, list(zip(before, groups[1:], strict=True)))


def alike(text: str, strata: Strata, margin: float) -> Statement:
    """The ratio of the two means lies within 1 ± margin, whatever the depth: both sides of
    the interval of its logarithm, each at `LEVEL`, by Welch's t."""
    ends = []
    never = sum(int((~np.isfinite(each)).sum()) for pair in strata for each in pair)
    if never:
        return Statement(text, False, f"{never} networks never reach it")
    for a, b in strata:
        welch = stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
        ends.append(tuple(map(float, welch.confidence_interval(1 - 2 * LEVEL))))
    widest, most = max((b - a) / 2 for a, b in ends), math.log1p(margin)
    inside = all(abs(end) <= most for pair in ends for end in pair)
    outside = any(a > most or b < -most for a, b in ends)
    low, high = min(a for a, _ in ends), max(b for _, b in ends)
    told = f"ratio {math.exp(low):.2f} to {math.exp(high):.2f}, margin {margin:.0%}"
    return Statement(text, inside, told, math.expm1(widest), inside or outside)


def expected(text: str, sample: Array, theory: float) -> Statement:
    """Networks have the mean that theory gives: within Student's t of so many networks, a
    deviation of theirs alone being as rare as `RARE`."""
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    bound = float(stats.t.ppf(1 - RARE / 2, len(sample) - 1))
    z = (float(sample.mean()) - theory) / error
    told = f"{sample.mean():.4g} ± {error:.1g}, theory {theory:.4g}"
    noticed = (bound + float(stats.norm.ppf(POWER))) * error / abs(theory)
    return Statement(text, abs(z) <= bound, told, noticed)


@cache
def _tail(sizes: tuple[tuple[int, int], ...]) -> Array:
    """P(pairs won ≥ u), u = 0, 1, …, where the order of all networks of a depth is random."""
    chances = np.ones(1)
    for m, n in sizes:
        chances = np.convolve(chances, _wins(m, n) / math.comb(m + n, m))
    return np.asarray(np.cumsum(chances[::-1])[::-1])


@cache
def _wins(m: int, n: int) -> Array:
    """In how many orders of m and n the first kind wins u pairs, u = 0 … mn (Mann, Whitney)."""
    if not m or not n:
        return np.ones(1)
    counts = np.zeros(m * n + 1)
    last_first, last_second = _wins(m - 1, n), _wins(m, n - 1)
    counts[: len(last_first)] += last_first  # the largest is of the first kind: it wins no pair
    counts[m : m + len(last_second)] += last_second  # of the second: all m win against it
    return counts


def _noticed(strata: Strata, sizes: tuple[tuple[int, int], ...]) -> float | None:
    """The relative difference that is found with the chance `POWER`, networks spreading as these
    do; None where a kind has too few that reach what is measured."""
    spreads = []
    for pair in strata:
        for each in pair:
            finite = each[np.isfinite(each) & (each > 0)]
            if len(finite) < len(each) or len(finite) < 2:
                return None
            spreads.append(np.log(finite).var(ddof=1))
    return math.expm1(_shift(sizes) * math.sqrt(float(np.mean(spreads))))


@cache
def _shift(sizes: tuple[tuple[int, int], ...]) -> float:
    """The difference of means, in standard deviations, that is found with the chance `POWER`."""
    rng, tail = np.random.default_rng(0), _tail(sizes)
    first = [rng.standard_normal((_TRIALS, m)) for m, _ in sizes]
    second = [rng.standard_normal((_TRIALS, n)) for _, n in sizes]

    def power(shift: float) -> float:
        won = sum(
            (a[:, :, None] < b[:, None, :] + shift).sum(axis=(1, 2))
            for a, b in zip(first, second, strict=True)
        )
        return float(np.mean(tail[won] <= LEVEL))

    low, high = 0.0, 16.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high


def reproduced(
    statements: Sequence[Statement],
    size: str,
    *,
    printed: bool = False,
    figures: Mapping[str, Picture] | None = None,
) -> Verdict:
    """The verdict on a figure, of the size that was run.

    Arguments:
        statements: what the paper says of it.
        size: what was run, in words.
        printed: whether that is the size of the paper.
    """
    held = [each for each in statements if each.holds]
    whole = len(held) == len(statements)
    kind: Kind = "not reproduced" if not whole else "reproduced" if printed else "reduced size"
    noticed = tuple(each.noticed for each in statements if each.noticed is not None)
    return Verdict(
        kind,
        f"{len(held)} of {len(statements)} statements",
        f"{len(statements)} statements",
        "; ".join(map(str, statements)),
        figures=dict(figures or {}),
        noticed=noticed,
        size=size,
    )
