"""Averages of z and H behind a skip around one matrix, by those of exchangeable neurons below.

`moment` takes the layer's equation, differentiated by `through.lines`, and does the engine's steps
with it: the weights are averaged, by Wick's theorem and with what C(p, q) of four has beyond it at
order 1/n; sums over neurons are split into distinct ones, of which some are those outside; what is
left are the averages of `exchangeable`. Behind a norm (`norms`) what stands at summed neurons is
expanded in the norm's fluctuations, and H' has a derivative through each norm.

On the left stand fields H', and at neurons Wick-ordered products :z'_S:, or a function f(z') of one
or two samples of which nothing is said. Of those :z'_S: is Σ γ^k :z_A: :ξ_B: with ξ = b + W σ(z),
and pairs of B are contracted with each other, which leaves δQ = Q − lim Q for Q = C_b +
C_W (1/n) Σ σσ, or with the weights in H'. Of f(z') the contractions take derivatives, and what is
left is averaged over ξ at lim Q: P ∂…∂f(z), P f(z) = E f(γz + ξ). Derived here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import factorial, prod
from typing import NamedTuple

from ..arithmetic.polynomials import (
    UNIT,
    Expansion,
    add,
    constant,
    monomial,
    multiply,
    multiply_all,
    power,
)
from ..groups.pairings import Blocks, pair_partitions, pairings
from ..weights import WeightEnsemble
from ..work.caches import cache
from .atoms import with_labels
from .exchangeable import (
    Contraction,
    Element,
    Labels,
    Local,
    Pair,
    Sum,
    Sums,
    Tangent,
    averaged,
    mean,
)
from .norms import Norm
from .skips import gamma_of
from .stages import Stage, linear
from .taps import MOVED
from .through import Summand, lines
from .trees import STREAM


def moment(
    stage: Stage,
    weights: WeightEnsemble,
    neurons: tuple[Local, ...],
    tangents: tuple[Tangent, ...] = (),
    norm: Norm | None = None,
    arguments: Labels = (1,),
) -> Expansion:
    """E of what stands at distinct neurons behind a stage, and of H' at some of these, through 1/n.

    Arguments:
        stage: z' = γ z + b + s W σ(y), or the dense layer's.
        weights: the ensemble of its matrix.
        neurons: of each, :z'_S: or f(z').
        tangents: H', at neurons by their place among these.
        norm: of what σ is taken.
        arguments: the samples that f is a function of.
    """
    scales: dict[Sum, Expansion] = {}
    mark = stage.taps.mark
    plain = stage if norm is None else replace(stage, arguments=((linear(STREAM),),), means=())
    equations = (
        tuple(
            found
            for line in lines(plain, tangent.tree, tangent.neurons, tangent.samples)
            for each in line.degree(0)
            for found in _through(norm, _read(each, mark))
        )
        for tangent in tangents
    )
    for parts in product(*equations):
        term = prod(parts, start=_Term(Summand(), constant(1)))
        if all(a == b for a, b in term.whole.deltas):
            made = _Average(stage, weights, term, neurons, norm, arguments)
            for each, scale in made.all():
                add(scales.setdefault(each, {}), scale)
    total: Expansion = {}
    for each, scale in scales.items():
        if scale:
            add(total, multiply(scale, averaged(each), 1))
    return total


def _read(whole: Summand, mark: int) -> Summand:
    """A term of H' whose samples at summed neurons are those that taps read. Until a weight is
    contracted, its sample numbers its tap; both samples number the tap of two derivatives."""
    own: dict[int, set[int]] = {}
    for j, sample, *_ in whole.factors:
        own.setdefault(j, set()).add(sample)
    taps = {j: mark * _number(*sorted(samples)) for j, samples in own.items()}
    return _relabelled(whole, lambda j, sample: sample + taps.get(j, 0))


def _number(first: int, second: int = 0) -> int:
    """The number of the tap at these samples."""
    return 10 * first + second


def _relabelled(whole: Summand, label: Callable[[int, int], int]) -> Summand:
    """The same term with other labels of the samples at neurons."""
    return whole._replace(
        factors=tuple((j, label(j, sample), order, of) for j, sample, order, of in whole.factors),
        fields=tuple(
            each._replace(samples=tuple(map(label, each.neurons, each.samples)))
            for each in whole.fields
        ),
    )


class _Term(NamedTuple):
    """A term of H', and the rest of its derivative through a norm.

    Arguments:
        scale: the rest at the limits.
        slopes: the samples of the f in it, that fluctuate.
        far: whether there is a z of another neuron, which is of order 1/n.
    """

    whole: Summand
    scale: Expansion
    slopes: Labels = ()
    far: bool = False

    def __mul__(self, other: _Term) -> _Term:  # type: ignore[override]
        return _Term(
            self.whole * other.whole,
            multiply(self.scale, other.scale, 0),
            self.slopes + other.slopes,
            self.far or other.far,
        )


def _through(norm: Norm | None, whole: Summand) -> Iterator[_Term]:
    """A term of H' with every σ' that an end of H stands behind as ∂σ(y)/∂z."""
    found = [_Term(whole, constant(1))]
    for f, placed in enumerate(whole.fields if norm else ()):
        for end, j in enumerate(placed.neurons):
            if norm and j >= 0:
                found = [made for each in found for made in _with_end(norm, each, f, end)]
    yield from found


def _with_end(norm: Norm, term: _Term, f: int, end: int) -> Iterator[_Term]:
    """With the terms of `Norm.chain` at one end of a field."""
    whole = term.whole
    placed = whole.fields[f]
    j, sample = placed.neurons[end], placed.samples[end]
    (own,) = (each for each in whole.factors if each[:2] == (j, sample) and each[2] > 0)
    for kind, orders, value in norm.chain(own[2]):
        factors = list(whole.factors)
        factors.remove(own)
        factors += [(j, sample, order, STREAM) for order in orders]
        made, new = whole, len(whole.neurons)
        if kind:
            neurons = (*placed.neurons[:end], new, *placed.neurons[end + 1 :])
            fields = list(whole.fields)
            fields[f] = placed._replace(neurons=neurons)
            made = whole._replace(
                fields=tuple(fields),
                neurons=(*whole.neurons, STREAM.space),
                means=(*whole.means, STREAM.space),
            )
        if kind == 1:
            factors.append((new, sample, -1, STREAM))
        scale = multiply(term.scale, norm.placed(value, sample), 0)
        if scale:
            slopes = term.slopes if kind else (*term.slopes, sample)
            far = term.far or kind > 0
            yield _Term(made._replace(factors=tuple(factors)), scale, slopes, far)


def first_order(found: Expansion) -> Expansion:
    """The coefficient of 1/n."""
    return {(mono, 0): value for (mono, at), value in found.items() if at == 1}


def leading(found: Expansion) -> Expansion:
    """The expansion in the limit."""
    return {(mono, at): value for (mono, at), value in found.items() if at == 0}


class _Row(NamedTuple):
    """How the weights of a row, explicit and in ξ, are contracted; and what is left of the test."""

    pairs: tuple[Contraction, ...]
    left: Local
    ways: Fraction


class _Average:
    """One product of equations."""

    def __init__(
        self,
        stage: Stage,
        weights: WeightEnsemble,
        term: _Term,
        neurons: tuple[Local, ...],
        norm: Norm | None,
        arguments: Labels,
    ) -> None:
        whole = term.whole
        self._whole, self._weights, self._norm = whole, weights, norm
        self._fluctuations, self._slopes = 0 if term.far else 2, term.slopes
        self._rows = [
            tuple(_rows([j for _, slot, j in whole.weights if slot == place], test, arguments))
            for place, test in enumerate(neurons)
        ]
        self._variance = {(power(stage.matrices[0].variance, 1), 0): Fraction(1)}
        right = stage.equation(STREAM).right
        self._own = {
            (term.parameters, 0): term.coefficient for term in right if term.weight is not None
        }
        self._carried = gamma_of(stage)
        own = {(whole.parameters, 0): whole.coefficient}
        self._prefactor = multiply(own, term.scale, 0)
        self._mark, self._share = stage.taps.mark, Fraction(1, stage.taps.count)
        self._again = stage.taps.again

    def _tapped(
        self, given: Sequence[Contraction], alike: Sequence[int] = ()
    ) -> tuple[_Average, list[Contraction]]:
        """A copy in which both weights of a contraction share a tap, and the contractions; those
        whose places are alike share one."""
        if not self._mark:
            return self, list(given)
        samples = {j: sample % MOVED for j, sample, *_ in self._whole.factors}
        taps: dict[int, int] = {}
        pairs, seen, own = list[Contraction](), Counter[int](), list[int]()
        reads = Counter[int]()

        def end(of_xi: bool, at: int, tap: int) -> Element:
            """A ξ by the sample that it reads, other than those that are read before."""
            if not of_xi:
                return of_xi, at
            reads[at + tap] += 1
            return of_xi, at + tap + self._again * (reads[at + tap] - 1)

        for place, pair in enumerate(given):
            ends = [at if of_xi else samples[at] for of_xi, at in pair]
            number = _number(*sorted(ends))
            own.append(self._mark * (number + 100 * seen[number]))
            tap = own[alike[0]] if place in alike else own[place]
            seen[number] += 1
            weights = (end for (of_xi, _), end in zip(pair, ends, strict=True) if not of_xi)
            taps |= {self._mark * _number(end): tap for end in weights}
            one, other = pair
            pairs.append((end(*one, tap), end(*other, tap)))

        def label(sample: int) -> int:
            tap = sample - sample % MOVED
            return sample - tap + taps.get(tap, tap)

        made = copy(self)
        made._whole = _relabelled(self._whole, lambda _, sample: label(sample))
        made._slopes = tuple(map(label, self._slopes))
        made._prefactor = {
            (with_labels(mono, label), at): value for (mono, at), value in self._prefactor.items()
        }
        return made, pairs

    def all(self) -> Iterator[tuple[Sum, Expansion]]:
        """The sums of every way to contract the weights, with what is before each."""
        for rows in product(*self._rows):
            given = [pair for row in rows for pair in row.pairs]
            homes = [place for place, row in enumerate(rows) for _ in row.pairs]
            loose = [k for k, pair in enumerate(given) if all(of_xi for of_xi, _ in pair)]
            if len(loose) > self._fluctuations:
                continue
            factors: list[Expansion] = [{(UNIT, 0): row.ways} for row in rows]
            factors += [self._variance] * len(given)
            factors += [self._own] * sum(of_xi for pair in given for of_xi, _ in pair)
            factors += [self._carried] * sum(len(row.left.labels) for row in rows)
            scale = multiply_all(factors, 0)
            if not scale:
                continue
            left = [row.left for row in rows]
            made, pairs = self._tapped(given)
            found = [(made, *each) for each in made._wick(left, pairs, loose)]
            for kept in combinations(range(len(given)), 2) if _beyond_pairs(self._weights) else ():
                if set(loose) <= set(kept):
                    made, pairs = self._tapped(given, kept)
                    rest = [pair for k, pair in enumerate(pairs) if k not in kept]
                    one_row = len({homes[k] for k in kept}) == 1
                    fourth = made._fourth(left, [pairs[k] for k in kept], rest, one_row)
                    found += [(made, *each) for each in fourth]
            for made, each, value in found:
                yield each, multiply_all([scale, made._prefactor, value], 1)

    def _wick(
        self, left: Sequence[Local], given: Sequence[Contraction], places: Sequence[int]
    ) -> Iterator[tuple[Sum, Expansion]]:
        """Pairs of equal weights, 1/n each, and those of ξ less what they are in the limit.

        What fluctuates is of order 1/n already, where the rest is not.
        """
        base, loose = Sums(self._whole, left), [given[k] for k in places]
        for k, pair in enumerate(given):
            if k not in places:
                base.contract(pair)
        if base.order > (0 if loose else 1):
            return
        for kept in product((True, False), repeat=len(loose)):
            limits = [
                {(monomial([mean(Local(factors=_squared(pair)))]), 0): Fraction(-1)}
                for pair, whole in zip(loose, kept, strict=True)
                if not whole
            ]
            sums = base.copy()
            groups = [-1] * len(sums.factors)
            for number, (pair, whole) in enumerate(zip(loose, kept, strict=True)):
                if whole:
                    sums.contract(pair)
                    groups += [number] * (len(sums.factors) - len(groups))
            most = self._fluctuations if base.order == 0 else 0
            for scale, each in self._fluctuating(sums, groups, len(loose), most):
                yield each.canonical(), multiply_all([*limits, scale], 1)

    def _fluctuating(
        self, sums: Sums, groups: Sequence[int], loose: int, most: int
    ) -> Iterator[tuple[Expansion, Sums]]:
        """The terms of the Taylor series of all factors in what the norm fluctuates, to so high an
        order together with the differences in whose product one of these factors stands."""
        if self._norm is None:
            yield constant(1), sums
            return
        places = [k for k, (_, (_, order)) in enumerate(sums.factors) if order >= 0]
        count = len(places) + len(self._slopes)
        for orders in _orders(count, most):
            degrees = Counter(dict.fromkeys(range(loose), 0))
            for k, each in zip(places, orders, strict=False):
                degrees[groups[k]] += sum(each)
            spent = degrees.pop(-1, 0) + sum(map(sum, orders[len(places) :]))
            if spent + sum(max(1, degree) for degree in degrees.values()) <= most:
                changes = zip(places, orders, strict=False)
                slopes = zip(self._slopes, orders[len(places) :], strict=True)
                yield from sums.changed(self._norm, tuple(changes), tuple(slopes))

    def _fourth(
        self,
        left: Sequence[Local],
        pairs: Sequence[Contraction],
        rest: Sequence[Contraction],
        one_row: bool,
    ) -> Iterator[tuple[Sum, Expansion]]:
        """Four weights of one tap, by what C(p, q) has beyond pairs; a block is in one row."""
        for is_block, q, order, value in _beyond_pairs(self._weights):
            if is_block and not one_row:
                continue
            sums = Sums(self._whole, left)
            ends = [sums.column(element) for pair in pairs for element in pair]
            for first, *others in q:
                for other in others:
                    sums.identify(ends[first], ends[other])
            for pair in rest:
                sums.contract(pair)
            yield sums.canonical(order), multiply(value, {(UNIT, 0): self._share}, 0)


@cache
def _beyond_pairs(weights: WeightEnsemble) -> tuple[tuple[bool, Blocks, int, Expansion], ...]:
    """C(p, q) − n^{-2}δ_pq of four weights, through n^{-3}: whether p is (0123) or (01)(23); q; a
    power of 1/n; and what is before it. A third of that of (0123), which three pairings contain."""
    found = []
    for p, share in ((pair_partitions(4)[0], Fraction(1)), (((0, 1, 2, 3),), Fraction(1, 3))):
        for q in weights.columns(p):
            series = dict(weights.pairing_matrix(p, q, 3, True))
            if len(p) == 2 and p == q:
                add(series, constant(1, 2), -1)
            for order in (2, 3):
                value = {(m, 0): share * v for (m, at), v in series.items() if at == order and v}
                if value:
                    found.append((len(p) == 1, q, order, value))
    return tuple(found)


@cache
def _orders(count: int, most: int) -> tuple[tuple[Pair, ...], ...]:
    """The orders in δq and m of so many factors, at most so many altogether."""
    if not count:
        return ((),)
    own = [(a, b) for a in range(most + 1) for b in range(most + 1 - a)]
    return tuple(((a, b), *rest) for a, b in own for rest in _orders(count - 1, most - a - b))


def _squared(pair: Contraction) -> tuple[Pair, ...]:
    return tuple(sorted((sample, 0) for _, sample in pair))


def _rows(weights: Sequence[int], test: Local, arguments: Labels) -> Iterator[_Row]:
    """Every explicit weight is contracted, with another or a ξ; of the ξ that are left two pairs
    at most."""
    for inner in range(len(weights) % 2, len(weights) + 1, 2):
        for alone in combinations(range(len(weights)), inner):
            others = [weights[k] for k in range(len(weights)) if k not in alone]
            for matching in pairings(len(others)):
                made = tuple(((False, others[a]), (False, others[b])) for a, b in matching)
                for row in _with_test([weights[k] for k in alone], test, arguments):
                    yield row._replace(pairs=made + row.pairs)


def _with_test(weights: Sequence[int], test: Local, arguments: Labels) -> Iterator[_Row]:
    """Each of these weights with a ξ of the test; and pairs of ξ."""
    if weights:
        first, rest = (False, weights[0]), weights[1:]
        for sample, left in _one_less(test, arguments):
            for row in _with_test(rest, left, arguments):
                yield row._replace(pairs=((first, (True, sample)), *row.pairs))
        return
    if test.tested is not None:
        for count in range(3):
            ways = Fraction(1, 2**count * factorial(count))
            for by in product(arguments, repeat=2 * count):
                ends = [(True, sample) for sample in by]
                pairs = tuple(zip(ends[::2], ends[1::2], strict=True))
                yield _Row(pairs, test.differentiated(by), ways)
        return
    places = range(len(test.labels))
    for count in range(3):
        for chosen in combinations(combinations(places, 2), count):
            flat = [place for pair in chosen for place in pair]
            if len(set(flat)) == len(flat):
                made = tuple(((True, test.labels[a]), (True, test.labels[b])) for a, b in chosen)
                labels = tuple(each for k, each in enumerate(test.labels) if k not in flat)
                yield _Row(made, test._replace(labels=labels), Fraction(1))


def _one_less(test: Local, arguments: Labels) -> Iterator[tuple[int, Local]]:
    """A sample of the test that is contracted, and what is left."""
    for sample in arguments if test.tested is not None else ():
        yield sample, test.differentiated((sample,))
    for k, sample in enumerate(test.labels):
        yield sample, test._replace(labels=test.labels[:k] + test.labels[k + 1 :])
