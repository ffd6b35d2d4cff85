"""Averages of z and H behind a skip around one matrix, by those of exchangeable neurons below.

To order 1/n all that is needed of the layer below, whose neurons are exchangeable, is

    E f(z_i) = ⟨f⟩ + One(f)/n,                    Cov(f(z_i), g(z_j)) = Two(f, g)/n,
    E ΔH_ii f(z_i) = Own(f)/n,                    Cov(H_ii, g(z_j)) = Apart(g)/n,
    E H_ij f(z_i) g(z_j) = Across(f, g)/n,        E H_ij H_ij f(z_i) g(z_j) = Square(f, g)/n,

and Cov(H_ii, H_jj), with ΔH = H − Θ and i ≠ j. `moment` takes the layer's equation, differentiated
by `through.lines`, and does the engine's steps with it: the weights are averaged, by Wick's theorem
and with the ensemble's fourth cumulant of order 1/n; sums over neurons are split into distinct
ones, of which some are those outside; what is left are the averages above.

On the left stand fields H', and at neurons Wick-ordered products :z'_S:, or a function f(z') of one
or two samples of which nothing is said. Of those :z'_S: is Σ γ^k :z_A: :ξ_B: with ξ = b + W σ(z),
and pairs of B are contracted with each other, which leaves δQ = Q − lim Q for Q = C_b +
C_W (1/n) Σ σσ, or with the weights in H'. Of f(z') the contractions take derivatives, and what is
left is averaged over ξ at lim Q: P ∂…∂f(z), P f(z) = E f(γz + ξ). Derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb, factorial, prod
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
from ..groups.pairings import coset_type, pair_partitions, pairings
from ..weights import WeightEnsemble
from .cumulants import coincidences, ways_of
from .stages import Stage
from .tensors import Tensor, tensor
from .through import Response, Summand, lines
from .trees import STREAM, H, Placed

Labels = tuple[int, ...]
Pair = tuple[int, int]
Samples = tuple[int, ...]


class Local(NamedTuple):
    """What stands at one neuron: :z_S: Π σ^{(order)} f^{(k)}.

    Arguments:
        labels: S, samples.
        factors: (sample, order) of each σ, sorted; y itself is of order −1.
        tested: the samples by which f is differentiated, behind a layer P ∂…∂f; None without f.
    """

    labels: Labels = ()
    factors: tuple[Pair, ...] = ()
    tested: Labels | None = None

    def with_factor(self, factor: Pair) -> Local:
        """Times σ^{(order)} of a sample."""
        return self._replace(factors=tuple(sorted((*self.factors, factor))))

    def differentiated(self, samples: Labels) -> Local:
        """f by these samples, once more each."""
        assert self.tested is not None
        return self._replace(tested=tuple(sorted((*self.tested, *samples))))

    @property
    def is_one(self) -> bool:
        """Whether nothing stands there."""
        return self == Local()


TEST = Local(tested=())
"""f(z)."""


@dataclass(frozen=True)
class Mean:
    """⟨f⟩."""

    of: Local


@dataclass(frozen=True)
class One:
    """One(f)."""

    of: Local


@dataclass(frozen=True)
class Two:
    """Two(f, g)."""

    one: Local
    other: Local


@dataclass(frozen=True)
class Own:
    """n E (H_ii − Θ) f(z_i), of H at two samples."""

    samples: Samples
    of: Local


@dataclass(frozen=True)
class Apart:
    """n Cov(H_ii, f(z_j))."""

    samples: Samples
    of: Local


@dataclass(frozen=True)
class Across:
    """n E H_ij f(z_i) g(z_j)."""

    samples: Samples
    one: Local
    other: Local


@dataclass(frozen=True)
class Square:
    """n E H_ij H_ij f(z_i) g(z_j), of two H each at two samples."""

    samples: Samples
    one: Local
    other: Local


Atom = Mean | One | Two | Own | Apart | Across | Square


class Norm(NamedTuple):
    """σ of y = (z − m) f in the place of σ(z), with f of q = (1/n) Σ z_a z_a and of m² for
    m = (1/n) Σ z_a; of one input.

    Arguments:
        scale: f at the limits of q and m.
        ratios: f'/f and f''/f there, by q.
        bent: ∂_m∂_m f/f there.
        centred: whether m is taken off z.
    """

    scale: Response
    ratios: tuple[Response, Response]
    bent: Response
    centred: bool


class Tangent(NamedTuple):
    """H of two neurons, each with a sample."""

    neurons: Pair
    samples: Pair


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
        stage: z' = γ z + b + s W σ(z), or the dense layer's.
        weights: the ensemble of its matrix.
        neurons: of each, :z'_S: or f(z').
        tangents: H', at neurons by their place among these; none with a norm.
        norm: of what σ is taken.
        arguments: the samples that f is a function of.
    """
    total: Expansion = {}
    equations = (
        tuple(each for line in lines(stage, H, *tangent) for each in line.degree(0))
        for tangent in tangents
    )
    for parts in product(*equations):
        whole = prod(parts, start=Summand())
        if all(a == b for a, b in whole.deltas):
            for averaged in _Average(stage, weights, whole, neurons, norm, arguments).all():
                add(total, averaged)
    return total


def first_order(found: Expansion) -> Expansion:
    """The coefficient of 1/n."""
    return {(mono, 0): value for (mono, at), value in found.items() if at == 1}


def leading(found: Expansion) -> Expansion:
    """What is left in the limit."""
    return {(mono, at): value for (mono, at), value in found.items() if at == 0}


Element = tuple[bool, int]
"""A weight of H', by its neuron, or a ξ, (True, its sample)."""
Contraction = tuple[Element, Element]


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
        whole: Summand,
        neurons: tuple[Local, ...],
        norm: Norm | None,
        arguments: Labels,
    ) -> None:
        self._whole, self._weights, self._norm = whole, weights, norm
        self._rows = [
            tuple(_rows([j for _, slot, j in whole.weights if slot == place], test, arguments))
            for place, test in enumerate(neurons)
        ]
        self._variance = {(power(stage.matrices[0].variance, 1), 0): Fraction(1)}
        right = stage.equation(STREAM).right
        self._own = {
            (term.parameters, 0): term.coefficient for term in right if term.weight is not None
        }
        self._carried = {
            (term.parameters, 0): term.coefficient for term in right if term.weight is None
        }
        self._prefactor = {(whole.parameters, 0): whole.coefficient}

    def all(self) -> Iterator[Expansion]:
        """Of every way to contract the weights."""
        for rows in product(*self._rows):
            pairs = [pair for row in rows for pair in row.pairs]
            loose = [pair for pair in pairs if all(of_xi for of_xi, _ in pair)]
            if len(loose) > 2:
                continue
            factors: list[Expansion] = [self._prefactor]
            factors += [{(UNIT, 0): row.ways} for row in rows]
            factors += [self._variance] * len(pairs)
            factors += [self._own] * sum(of_xi for pair in pairs for of_xi, _ in pair)
            factors += [self._carried] * sum(len(row.left.labels) for row in rows)
            scale = multiply_all(factors, 0)
            if not scale:
                continue
            left = [row.left for row in rows]
            found = self._wick(left, [pair for pair in pairs if pair not in loose], loose)
            for kept in combinations(range(len(pairs)), 2):
                rest = [pair for k, pair in enumerate(pairs) if k not in kept]
                if not any(pair in loose for pair in rest):
                    add(found, self._fourth(left, [pairs[k] for k in kept], rest))
            yield multiply(scale, found, 1)

    def _wick(
        self, left: Sequence[Local], pairs: Sequence[Contraction], loose: Sequence[Contraction]
    ) -> Expansion:
        """Pairs of equal weights, 1/n each, and those of ξ less what they are in the limit."""
        total: Expansion = {}
        for kept in product((True, False), repeat=len(loose)):
            limits = [
                Mean(Local(factors=_squared(pair)))
                for pair, whole in zip(loose, kept, strict=True)
                if not whole
            ]
            fluctuating = [pair for pair, whole in zip(loose, kept, strict=True) if whole]
            for scales in product(*(_scaled(self._norm, pair) for pair in fluctuating)):
                count, odd = sum(each.degree for each in scales), sum(each.odd for each in scales)
                if count + odd > 2:  # δq δq δq is of a higher order
                    continue
                for summed in range(count + 1):
                    sums = _Sums(self._whole, left)
                    for pair in pairs:
                        sums.contract(pair)
                    for each in scales:
                        sums.put(each.factors)
                    for factors in (*[_LENGTH] * summed, *[_LENGTH[:1]] * odd):
                        sums.put(factors)
                    off = len(limits) + count - summed
                    atoms = [*limits, *[Mean(Local(factors=_LENGTH))] * (count - summed)]
                    parts = [{(monomial([atom]), 0): Fraction(1)} for atom in atoms]
                    parts += [each.coefficient for each in scales]
                    parts += [constant((-1) ** off * comb(count, summed)), sums.averaged()]
                    if self._norm:  # z is y/f
                        inverse = power(self._norm.scale, -2 * count - odd)
                        parts.append({(inverse, 0): Fraction(1)})
                    add(total, multiply_all(parts, 1))
        return total

    def _fourth(
        self, left: Sequence[Local], pairs: Sequence[Contraction], rest: Sequence[Contraction]
    ) -> Expansion:
        """Four weights of whose pairing that of the columns is another, or C(p, q) not n^{-2}."""
        total: Expansion = {}
        for q, value in _pairings(self._weights):
            sums = _Sums(self._whole, left)
            ends = [sums.column(element) for pair in pairs for element in pair]
            for a, b in q:
                sums.identify(ends[a], ends[b])
            for pair in rest:
                sums.contract(pair)
            add(total, multiply(value, sums.averaged(3), 1))
        return total


@cache
def _pairings(weights: WeightEnsemble) -> tuple[tuple[tuple[Pair, ...], Expansion], ...]:
    """C(p,q) − n^{-2}δ_pq at order n^{-3}, for each q, p being (01)(23), without its n^{-3}."""
    own = pair_partitions(4)[0]
    found = []
    for pairing in pair_partitions(4):
        series = weights.expansion(coset_type(own, pairing), 3, True)
        found.append((pairing, {(m, 0): v for (m, at), v in series.items() if at == 3}))
    return tuple((pairing, value) for pairing, value in found if value)


_LENGTH: tuple[Pair, ...] = ((1, -1), (1, -1))
"""y y."""


class _Scaled(NamedTuple):
    """σσ with so many δq and m: the factors at its neuron, and what stands before them."""

    degree: int
    odd: int
    factors: tuple[Pair, ...]
    coefficient: Expansion


@cache
def _scaled(norm: Norm | None, pair: Contraction) -> tuple[_Scaled, ...]:
    """σσ(y), y = (z − m) f, to second order in δq = q − lim q and m. With F = σσ and y = z f,

    F + (f'/f) y F' δq + ½ ((f''/f) y F' + (f'/f)² y² F'') δq² + ½ (∂_m∂_m f/f) y F' m²

    and, where m is taken off,

    − f F' m + ½ f² F'' m² − f' (F' + y F'') m δq .
    """
    plain = _Scaled(0, 0, _squared(pair), constant(1))
    if norm is None:
        return (plain,)
    assert {sample for sample, _ in plain.factors} == {1}, "a norm has one input"
    one, two, bent, scale = (
        {(power(each, 1), 0): Fraction(1)} for each in (*norm.ratios, norm.bent, norm.scale)
    )
    found = [plain]

    def put(degree: int, odd: int, coefficient: Expansion, *terms: tuple[int, ...]) -> None:
        for orders in terms:
            factors = tuple(sorted((1, order) for order in orders))
            found.append(_Scaled(degree, odd, factors, coefficient))

    put(1, 0, multiply(one, constant(2), 0), (-1, 0, 1))
    put(2, 0, two, (-1, 0, 1))
    put(2, 0, multiply(one, one, 0), (-1, -1, 1, 1), (-1, -1, 0, 2))
    put(0, 2, bent, (-1, 0, 1))
    if norm.centred:
        put(0, 1, multiply(scale, constant(-2), 0), (0, 1))
        put(0, 2, multiply(scale, scale, 0), (1, 1), (0, 2))
        both = multiply_all([one, scale, constant(-2)], 0)
        put(1, 1, both, (0, 1), (-1, 1, 1), (-1, 0, 2))
    return tuple(found)


def _squared(pair: Contraction) -> tuple[Pair, ...]:
    """σσ of the samples of two ξ."""
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


class _Sums:
    """A product over summed neurons of the layer below, and neurons outside of the sums."""

    def __init__(self, whole: Summand, left: Sequence[Local]) -> None:
        self._left, self._fields = left, whole.fields
        self._factors = [(j, (sample, order)) for j, sample, order, _ in whole.factors]
        self._name = list(range(len(whole.neurons)))
        self._power = len(whole.means)

    def column(self, element: Element) -> int:
        """The neuron of a weight's column; of ξ = Σ_j W_ij σ_j a new one."""
        of_xi, at = element
        if not of_xi:
            return at
        self._name.append(len(self._name))
        self._factors.append((len(self._name) - 1, (at, 0)))
        return len(self._name) - 1

    def identify(self, a: int, b: int) -> None:
        """Two summed neurons are one."""
        i, j = self._name[a], self._name[b]
        self._name = [i if other == j else other for other in self._name]

    def put(self, factors: Sequence[Pair]) -> None:
        """1/n times these at a new neuron."""
        self._name.append(len(self._name))
        self._factors += [(len(self._name) - 1, factor) for factor in factors]
        self._power += 1

    def contract(self, pair: Contraction) -> None:
        """Two weights are equal, of variance 1/n."""
        one, other = pair
        self.identify(self.column(one), self.column(other))
        self._power += 1

    def averaged(self, more: int = 0) -> Expansion:
        """n^{-power} Σ_j E[…], through order 1/n; with so many 1/n more."""
        outside, spent = len(self._left), self._power + more
        summed = sorted(set(self._name))
        own = [range(outside)] * len(summed)
        total: Expansion = {}
        for homes, free in coincidences([STREAM.space] * len(summed), own, outside, spent - 1):
            place = dict(zip(summed, homes, strict=True))
            content = [*self._left, *(Local() for _ in free)]
            for j, factor in self._factors:
                at = place[self._name[j]]
                content[at] = content[at].with_factor(factor)
            fields = [self._placed(each, place) for each in self._fields]
            averaged = _distinct(content, fields, 1 - spent + len(free))
            ways = ways_of(None, len(free), outside)
            found = multiply(multiply(averaged, ways, 1), constant(1, spent), 1)
            add(total, found)
        return total

    def _placed(self, each: Placed, place: Mapping[int, int]) -> Tangent:
        """H at the places of its neurons: of one that is carried past the weights, −1 − j."""
        i, j = (-1 - j if j < 0 else place[self._name[j]] for j in each.neurons)
        return Tangent((i, j), (each.samples[0], each.samples[1]))


def _distinct(content: Sequence[Local], fields: Sequence[Tangent], order: int) -> Expansion:
    """E of these at distinct neurons and of H at some, through n^{-order}."""
    assert order < 2, "order 1/n is all that is known of the layer below"
    total: Expansion = {}
    means = [_mean(each) for each in content]
    apart = [k for k, each in enumerate(fields) if each.neurons[0] != each.neurons[1]]
    together = [k for k in range(len(fields)) if k not in apart]

    def put(atom: Atom | Tensor, places: Sequence[int], moved: Sequence[int]) -> None:
        """The product of an average at places, with these H in it, and of what else there is."""
        factors = [{(monomial([atom]), 1): Fraction(1)}]
        factors += [each for k, each in enumerate(means) if k not in places]
        factors += [_theta(fields[k]) for k in range(len(fields)) if k not in moved]
        add(total, multiply_all(factors, 1))

    if not apart:
        add(total, multiply_all([*means, *(_theta(each) for each in fields)], 1))
    if order < 1 or len(apart) > 2:
        return {key: value for key, value in total.items() if key[1] <= order}
    live = [k for k, each in enumerate(content) if not each.is_one]
    if not apart:
        for k in live:
            put(One(content[k]), [k], [])
        for j, k in combinations(live, 2):
            put(two(content[j], content[k]), [j, k], [])
        for f in together:
            (i, _), ends = fields[f]
            samples = tuple(sorted(ends))
            put(Own(samples, content[i]), [i], [f])
            for k in live:
                if k != i:
                    put(Apart(samples, content[k]), [k], [f])
        for f, g in combinations(together, 2):
            one, other = fields[f], fields[g]
            assert one.neurons != other.neurons, "a variance of H at one neuron"
            put(_paired(one.samples + other.samples), [], [f, g])
    elif len(apart) == 1:
        (i, j), samples = fields[apart[0]]
        put(Across(samples, content[i], content[j]), [i, j], apart)
    else:
        one, other = (fields[k] for k in apart)
        if other.neurons == one.neurons[::-1]:
            other = Tangent(one.neurons, other.samples[::-1])
        if one.neurons == other.neurons:
            i, j = one.neurons
            put(Square(one.samples + other.samples, content[i], content[j]), [i, j], apart)
    return total


def _mean(of: Local) -> Expansion:
    """⟨…⟩ in the limit."""
    if of.is_one:
        return constant(1)
    if (of.labels and not of.factors) or of == Local(factors=_LENGTH[:1]):
        return {}
    return {(monomial([Mean(of)]), 0): Fraction(1)}


def _theta(each: Tangent) -> Expansion:
    """Θ."""
    return {(monomial([tensor((H,), 0, ((0, 1),), each.samples)]), 0): Fraction(1)}


def _paired(samples: Samples) -> Tensor:
    """A, n Cov(H_ii, H_jj)."""
    return tensor((H, H), 0, ((0, 1), (2, 3)), samples)


def two(one: Local, other: Local) -> Two:
    """Two(f, g), which is symmetric."""
    return Two(*sorted((one, other), key=_rank))


def _rank(of: Local) -> tuple[bool, Labels, Labels, tuple[Pair, ...]]:
    tested = (-1,) if of.tested is None else (len(of.tested), *of.tested)
    return bool(of.factors), tested, of.labels, of.factors
