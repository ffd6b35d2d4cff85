"""Laws that only permutations of the neurons keep, closed at order 1/n: z' = γ z + b + W σ(z).

Σ σ(z_a)² is no function of inner products, so that z' remembers, neuron by neuron, how large σ(z)
was, and cumulants of z_i² with every power of z_j enter V. Of exchangeable neurons all that
matters at order 1/n are two functionals beside the Gaussian averages ⟨…⟩ of kernel K,

    E f(z_i) = ⟨f⟩ + One(f)/n,        Cov(f(z_i), g(z_j)) = Two(f, g)/n,   i ≠ j .

Given z, the rows of W σ are Gaussian of covariance Q = C_b + C_W (1/n) Σ_a σσ, with a fourth
cumulant of order 1/n by the ensemble's C(p,q). So :z'_S:, the Wick-ordered product of the z' at one
neuron, is averaged over W by removing pairs from S, each for δQ, Q less its limit, and what is left
of it is γ^k :z: of the layer below. The average of such products over z, where δQ is a sum over
neurons and meets the ones outside, gives `moment`; covariances of moments are the recursions.

At layer 1 Two is that of V alone, and the recursion makes no entry Two(:z^a:, :z^b:) but those with
a = 2 or b = 2 from such. So a function of one variable, Two(:zz:, g), is all: a sequence κ_b of
b, or tensor, of which V is κ_2. Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import NamedTuple

from ..arithmetic.parameters import C_W
from ..arithmetic.polynomials import (
    UNIT,
    Expansion,
    Monomial,
    add,
    constant,
    monomial,
    multiply,
    power,
    times,
)
from ..groups.pairings import Pairing, coset_type, ordered, pair_partitions
from ..weights import WeightEnsemble
from .stages import DENSE, LEFT, Function, Stage, Variable
from .trees import STREAM

Labels = tuple[int, ...]
Pair = tuple[int, int]


Factor = tuple[Fraction, Monomial]
"""A number, and symbols."""


class Skip(NamedTuple):
    """z' = γ z + b + s W σ(z).

    Arguments:
        gamma: γ.
        variance: of s W.
    """

    gamma: Factor
    variance: Factor


def skip_of(stages: Sequence[Stage]) -> Skip | None:
    """The layer of these stages: a skip around one matrix, or a dense one with γ = 0; else None."""
    if tuple(stages) == (DENSE,):
        return Skip((Fraction(0), UNIT), (Fraction(1), power(C_W, 1)))
    if len(stages) != 1 or not is_skip(stages) or len(stages[0].equations[0][1].right) != 2:
        return None
    right = stages[0].equations[0][1].right
    carried, summed = sorted(right, key=lambda term: term.weight is not None)
    own = power(stages[0].matrices[0].variance, 1)
    squared = times(summed.parameters, summed.parameters)
    variance = summed.coefficient**2, times(own, squared)
    return Skip((carried.coefficient, carried.parameters), variance)


def is_skip(stages: Sequence[Stage]) -> bool:
    """Whether the layer is a skip around one matrix, behind a norm or none: K and Θ close."""
    *before, last = stages
    if any(stage.matrices or stage.arguments for stage in before) or len(last.matrices) != 1:
        return False
    if len(last.equations) != 1 or last.equations[0][0] != STREAM or last.means or last.taps:
        return False
    terms = last.equations[0][1].right
    summed = [term for term in terms if term.weight is not None]
    carried = [term for term in terms if term.weight is None]
    single = all(
        term.factors == (Function(0, 0, term.weight[1]),) for term in summed if term.weight
    )
    return single and [term.factors for term in carried] == [(Variable(STREAM, LEFT),)]


class Test(NamedTuple):
    """:z_S: at a neuron, S being labels, or b samples of which `removed` are gone.

    b is none of 0, 2 and 4, and from it samples called 1 and 2 are removed, any two.
    """

    labels: Labels = ()
    removed: int | None = None

    @property
    def is_one(self) -> bool:
        """Whether nothing is left."""
        return not self.labels and self.removed is None


class Mean(NamedTuple):
    """⟨:z_S: Π σσ⟩ over one neuron."""

    test: Test
    squares: tuple[Pair, ...]


class One(NamedTuple):
    """One(:z_S:), or of σσ."""

    of: Test | Pair


class Two(NamedTuple):
    """Two(:z_S:, :z_S':), Two(:z_S:, σσ), Two(σσ, σσ)."""

    one: Test | Pair
    other: Test | Pair


class Power(NamedTuple):
    """γ^{b − removed}."""

    removed: int


class Choices(NamedTuple):
    """A sum over the pairs that are removed from b samples."""


def moment(skip: Skip, weights: WeightEnsemble, tests: tuple[Test, ...]) -> Expansion:
    """E Π_r :z'_{S_r}: at as many distinct neurons, through order 1/n, by the layer below.

    >>> from derive import Gaussian, layers
    >>> layer = skip_of(layers.skip("1/2").stages)
    >>> assert layer is not None
    >>> len(moment(layer, Gaussian(), (Test((1, 2)),)))
    2
    """
    total: Expansion = {}
    variance = _expansion(skip.variance)
    for removed, left in _removals(tests):
        scale = constant(1)
        for each in left:
            scale = multiply(scale, _carried(skip, each), 1)
        flat = [pair for pairs in removed for pair in pairs]
        found = _average(left, flat)
        for _ in flat:
            found = multiply(found, variance, 1)
        if len(flat) == 2:
            add(found, multiply(_averaged(left), _fourth(skip, weights, (flat[0], flat[1])), 1))
        add(total, multiply(scale, found, 1))
    return total


def covariance(skip: Skip, weights: WeightEnsemble, one: Test, other: Test) -> Expansion:
    """Two'(:z_S:, :z_S':), n times the covariance behind the layer."""
    total = moment(skip, weights, (one, other))
    product = multiply(moment(skip, weights, (one,)), moment(skip, weights, (other,)), 1)
    add(total, product, -1)
    return _first_order(total)


def correction(skip: Skip, weights: WeightEnsemble, test: Test) -> Expansion:
    """One'(:z_S:), n times what the mean is behind the layer at finite n."""
    return _first_order(moment(skip, weights, (test,)))


def _first_order(found: Expansion) -> Expansion:
    """What is of order 1/n, where nothing is larger."""
    assert all(at for _, at in found), "a Wick-ordered product has no mean in the limit"
    return {(mono, 0): value for (mono, _), value in found.items()}


Removed = tuple[tuple[Pair, ...], ...]


def _removals(tests: Sequence[Test]) -> Iterator[tuple[Removed, tuple[Test, ...]]]:
    """Two pairs at most removed from the tests: those of each, and what is left of it."""
    if not tests:
        yield (), ()
        return
    for pairs, left in _of_one(tests[0]):
        for others, rest in _removals(tests[1:]):
            if len(pairs) + sum(map(len, others)) <= 2:
                yield (pairs, *others), (left, *rest)


def _of_one(test: Test) -> Iterator[tuple[tuple[Pair, ...], Test]]:
    if test.removed is not None:  # two at most: less than b
        yield (), test
        yield ((1, 2),), Test((), test.removed + 2)
        return
    places = range(len(test.labels))
    yield (), test
    for chosen in combinations(places, 2):
        yield (_labels(test, chosen),), _without(test, chosen)
    for one, other in combinations(combinations(places, 2), 2):
        if not set(one) & set(other):
            yield (_labels(test, one), _labels(test, other)), _without(test, (*one, *other))


def _labels(test: Test, places: Sequence[int]) -> Pair:
    a, b = (test.labels[place] for place in places)
    return ordered(a, b)


def _without(test: Test, places: Sequence[int]) -> Test:
    return Test(tuple(each for k, each in enumerate(test.labels) if k not in places))


def _carried(skip: Skip, left: Test) -> Expansion:
    """γ^k of the k z that are left; of samples that are alike, in how many ways they are."""
    if left.removed is not None:
        ways = (Choices(),) if left.removed else ()
        return {(monomial([Power(left.removed), *ways]), 0): Fraction(1)}
    result = constant(1)
    for _ in left.labels:
        result = multiply(result, _expansion(skip.gamma), 1)
    return result


def _expansion(factor: Factor) -> Expansion:
    value, symbols = factor
    return {(symbols, 0): value}


def _averaged(left: Sequence[Test]) -> Expansion:
    """Π ⟨:z_S:⟩ in the limit."""
    return constant(1) if all(each.is_one for each in left) else {}


def _average(left: Sequence[Test], squares: Sequence[Pair]) -> Expansion:
    """E of these at distinct neurons and of a δ(σσ) for each pair, through order 1/n."""
    total: Expansion = {}
    first = {(UNIT, 1): Fraction(1)}
    if not squares:
        add(total, _averaged(left))
        for k, each in enumerate(left):
            if not each.is_one:
                add(total, multiply(_averaged(_others(left, k)), _atom(One(each), 1), 1))
            for j in range(k):
                if not each.is_one and not left[j].is_one:
                    others = [test for i, test in enumerate(left) if i not in (j, k)]
                    add(total, multiply(_averaged(others), _atom(_two(left[j], each), 1), 1))
    elif len(squares) == 1:
        add(total, multiply(_averaged(left), _atom(One(squares[0]), 1), 1))
        for k, each in enumerate(left):
            if not each.is_one:
                rest = _averaged(_others(left, k))
                add(total, multiply(rest, multiply(first, _joint(each, squares[0]), 1), 1))
    else:
        add(total, multiply(_averaged(left), multiply(first, _joint(*squares), 1), 1))
    return total


def _others(left: Sequence[Test], place: int) -> list[Test]:
    return [each for k, each in enumerate(left) if k != place]


def _joint(one: Test | Pair, other: Pair) -> Expansion:
    """n Cov of (1/n) Σ σσ and another, a sum over neurons too or one of them: distinct neurons,
    and where they meet."""
    found = _atom(_two(one, other))
    if isinstance(one, Test):
        add(found, _atom(Mean(one, (other,))))
        return found
    add(found, _atom(Mean(Test(), tuple(sorted((one, other))))))
    add(found, {(monomial([Mean(Test(), (one,)), Mean(Test(), (other,))]), 0): Fraction(-1)})
    return found


def _two(one: Test | Pair, other: Test | Pair) -> Two:
    """Symmetric: tests before σσ, labels before b samples."""
    first, second = sorted((one, other), key=_rank)
    return Two(first, second)


def _rank(each: Test | Pair) -> tuple[bool, bool, tuple[int, ...]]:
    if isinstance(each, Test):
        return False, each.removed is not None, each.labels
    return True, False, each


def _atom(atom: One | Two | Mean, order: int = 0) -> Expansion:
    return {(monomial([atom]), order): Fraction(1)}


def _fourth(skip: Skip, weights: WeightEnsemble, pairs: tuple[Pair, Pair]) -> Expansion:
    """The cumulant of four entries of W σ, two and two at a neuron or all at one, less what its δQ
    have: Σ_q (n² C(p,q) − δ_pq) Π_q ⟨σσ⟩, p being these pairs."""
    labels = [*pairs[0], *pairs[1]]
    total: Expansion = {}
    for pairing, value in _pairings(weights):
        means = [Mean(Test(), (ordered(labels[a], labels[b]),)) for a, b in pairing]
        for (mono, at), coefficient in value.items():
            term = {(monomial(means), at): coefficient}
            add(total, multiply(term, {(mono, 0): Fraction(1)}, 1))
    variance = _expansion(skip.variance)
    return multiply(multiply(total, variance, 1), variance, 1)


@cache
def _pairings(weights: WeightEnsemble) -> tuple[tuple[Pairing, Expansion], ...]:
    """n² C(p,q) − δ_pq at order 1/n, for each q, p being (01)(23)."""
    own = pair_partitions(4)[0]
    found = []
    for pairing in pair_partitions(4):
        series = weights.expansion(coset_type(own, pairing), 3, True)
        found.append((pairing, {(m, 1): v for (m, at), v in series.items() if at == 3}))
    return tuple((pairing, value) for pairing, value in found if value)
