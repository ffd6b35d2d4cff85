"""Averages of z and H at distinct neurons whose law permutations keep, through order 1/n.

All that is needed of exchangeable neurons is

    E f(z_i) = ⟨f⟩ + One(f)/n,                    Cov(f(z_i), g(z_j)) = Two(f, g)/n,
    E ΔH_ii f(z_i) = Own(f)/n,                    Cov(H_ii, g(z_j)) = Apart(g)/n,
    E H_ij f(z_i) g(z_j) = Across(f, g)/n,        E H_ij H_ij f(z_i) g(z_j) = Square(f, g)/n,

and Cov(H_ii, H_jj), with ΔH = H − Θ and i ≠ j; of larger trees `Grown`, of one alone, and

    E dH_{j;ii} H_ij f(z_i) g(z_j) = Together(f, g)/n.

Sums over such neurons are `Sums` while the weights are averaged, a column and a contraction at a
time; their `canonical` form, a `Sum`, is the same for all that differ by the names of neurons
alone, so that each is averaged once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

from ..arithmetic.polynomials import Expansion, add, constant, monomial, multiply, multiply_all
from ..work.caches import cache
from .cumulants import coincidences, ways_of
from .norms import Norm, terms_of
from .tensors import Tensor, tensor
from .through import Summand
from .trees import DH, STREAM, AnyField, H, Placed

Labels = tuple[int, ...]
Pair = tuple[int, int]
Samples = tuple[int, ...]


class Local(NamedTuple):
    """The factor at one neuron: :z_S: Π σ^{(order)} f^{(k)}.

    Arguments:
        labels: S, samples.
        factors: (sample, order) of each σ, sorted; y itself is of order −1.
        tested: the samples by which f is differentiated, behind a layer P ∂…∂f; None without f.
    """

    labels: Labels = ()
    factors: tuple[Pair, ...] = ()
    tested: Labels | None = None

    def differentiated(self, samples: Labels) -> Local:
        """f by these samples, once more each."""
        assert self.tested is not None
        return self._replace(tested=tuple(sorted((*self.tested, *samples))))

    @property
    def is_linear(self) -> bool:
        """True if it is y, alone but for f."""
        return not self.labels and [order for _, order in self.factors] == [-1]

    @property
    def is_one(self) -> bool:
        """True if nothing stands there."""
        return self == Local()


TEST = Local(tested=())
"""f(z)."""


class Moment(NamedTuple):
    """n times one of these averages; kind "Mean" is ⟨f⟩ itself. Kind "Grown" is n E φ f(z_i) g(z_j)
    of a tree φ that has nodes at both neurons.

    Arguments:
        kind: its name, "kappa" of Two(f, g).
        content: f; or f and g; for "Together" g and f.
        samples: of the nodes of H; for "Together" first those of dH, beginning with that at j.
        tree: φ.
        places: of each node of φ, 0 at i and 1 at j.
    """

    kind: str
    content: tuple[Local, ...]
    samples: Samples = ()
    tree: AnyField = H
    places: Labels = ()


def mean(of: Local) -> Moment:
    """⟨f⟩."""
    return Moment("Mean", (of,))


class Tangent(NamedTuple):
    """H, or a larger tree: the neuron of each node, and its sample."""

    neurons: Labels
    samples: Labels
    tree: AnyField = H

    @property
    def is_apart(self) -> bool:
        """True if it is of order n^{-1/2}: all but H at one neuron."""
        return self.tree != H or self.neurons[0] != self.neurons[1]


def distinct(content: Sequence[Local], fields: Sequence[Tangent], order: int) -> Expansion:
    """E of these at distinct neurons and of H at some, through n^{-order}."""
    assert order < 2, "order 1/n is all that is known of the layer below"
    total: Expansion = {}
    means = [_mean(each) for each in content]
    if not any(each.is_apart for each in fields):
        add(total, multiply_all([*means, *map(_theta, fields)], 1))
    for atom, places, moved in _fluctuations(content, fields) if order > 0 else ():
        factors = [{(monomial([atom]), 1): Fraction(1)}]
        factors += [each for k, each in enumerate(means) if k not in places]
        factors += [_theta(each) for k, each in enumerate(fields) if k not in moved]
        add(total, multiply_all(factors, 1))
    return {key: value for key, value in total.items() if key[1] <= order}


def _fluctuations(
    content: Sequence[Local], fields: Sequence[Tangent]
) -> Iterator[tuple[Moment | Tensor, Sequence[int], Sequence[int]]]:
    """The averages that are of order 1/n: each with the places of its neurons and of its fields."""
    apart = [k for k, each in enumerate(fields) if each.is_apart]
    if apart:
        for atom, places in _between(content, [fields[k] for k in apart]):
            yield atom, places, apart
        return
    live = [k for k, each in enumerate(content) if not each.is_one]
    for k in live:
        yield Moment("One", (content[k],)), [k], []
    for j, k in combinations(live, 2):
        yield two(content[j], content[k]), [j, k], []
    for f, each in enumerate(fields):
        (i, _), samples = each.neurons, tuple(sorted(each.samples))
        yield Moment("Own", (content[i],), samples), [i], [f]
        for k in live:
            if k != i:
                yield Moment("Apart", (content[k],), samples), [k], [f]
    for f, g in combinations(range(len(fields)), 2):
        one, other = fields[f], fields[g]
        assert one.neurons != other.neurons, "a variance of H at one neuron"
        yield _paired(one.samples + other.samples), [], [f, g]


def _between(
    content: Sequence[Local], trees: Sequence[Tangent]
) -> Iterator[tuple[Moment, Sequence[int]]]:
    """The average of trees at two neurons, with these; of others, of higher order, none.

    dH_{j;ii} H_ij are of order n^{-1/2} each, as one weight W_ji stands in both; of dH and H at
    other neurons one weight is alone, so that they are of order n^{-2}.
    """
    if len(trees) > 2:
        return
    large, small = sorted((trees[0], trees[-1]), key=lambda each: -each.tree.nodes)
    neurons = sorted(set(large.neurons), key=large.neurons.index)
    assert len(trees) > 1 or len(neurons) > 1, "a tree at one neuron"
    if len(neurons) == 1:
        return
    i, j = neurons[:2]
    both = content[i], content[j]
    if len(trees) == 1 and large.tree == H:
        yield Moment("Across", both, large.samples), neurons
    elif len(trees) == 1:
        if len(neurons) == 2 and 2 in map(large.neurons.count, neurons):
            places = tuple(map(neurons.index, large.neurons))
            yield Moment("Grown", both, large.samples, large.tree, places), neurons
    elif large.tree == H:
        if set(small.neurons) == set(neurons):
            turned = small.samples[:: 1 if small.neurons == large.neurons else -1]
            yield Moment("Square", both, large.samples + turned), neurons
    else:
        assert (small.tree, large.tree) == (H, DH), "two trees, or ddH and H"
        if large.neurons == (i, j, j) and set(small.neurons) == {i, j}:
            at_i, *ends = large.samples
            of_h = small.samples[:: 1 if small.neurons[0] == j else -1]
            yield Moment("Together", both, (at_i, *sorted(ends), *of_h)), neurons


def _mean(of: Local) -> Expansion:
    """⟨…⟩ in the limit."""
    if of.is_one:
        return constant(1)
    if (of.labels and not of.factors) or (of.tested is None and of.is_linear):
        return {}
    return {(monomial([mean(of)]), 0): Fraction(1)}


def _theta(each: Tangent) -> Expansion:
    return {(monomial([tensor((H,), 0, ((0, 1),), each.samples)]), 0): Fraction(1)}


def _paired(samples: Samples) -> Tensor:
    """A, n Cov(H_ii, H_jj)."""
    return tensor((H, H), 0, ((0, 1), (2, 3)), samples)


def two(one: Local, other: Local) -> Moment:
    """Two(f, g), which is symmetric."""
    return Moment("kappa", tuple(sorted((one, other), key=_rank)))


def _rank(of: Local) -> tuple[bool, Labels, Labels, tuple[Pair, ...]]:
    tested = (-1,) if of.tested is None else (len(of.tested), *of.tested)
    return bool(of.factors), tested, of.labels, of.factors


Element = tuple[bool, int]
"""A weight of H', by its neuron, or a ξ, (True, its sample)."""
Contraction = tuple[Element, Element]


class Sums:
    """A product over summed neurons of the layer below, and neurons outside of the sums."""

    def __init__(self, whole: Summand, left: Sequence[Local]) -> None:
        self._left, self._fields = left, whole.fields
        self.factors = [(j, (sample, order)) for j, sample, order, _ in whole.factors]
        self._name = list(range(len(whole.neurons)))
        self._power = len(whole.means)

    def column(self, element: Element) -> int:
        """The neuron of a weight's column; of ξ = Σ_j W_ij σ_j a new one."""
        of_xi, at = element
        if not of_xi:
            return at
        self._name.append(len(self._name))
        self.factors.append((len(self._name) - 1, (at, 0)))
        return len(self._name) - 1

    def identify(self, a: int, b: int) -> None:
        """Two summed neurons are one."""
        i, j = self._name[a], self._name[b]
        self._name = [i if other == j else other for other in self._name]

    def contract(self, pair: Contraction) -> None:
        """Two weights are equal, of variance 1/n."""
        one, other = pair
        self.identify(self.column(one), self.column(other))
        self._power += 1

    def changed(
        self, norm: Norm, changes: Sequence[tuple[int, Pair]], slopes: Sequence[tuple[int, Pair]]
    ) -> Iterator[tuple[Expansion, Sums]]:
        """With these factors, and f of these samples, as the terms of their Taylor series of these
        orders in δq and m, each with what is before it."""
        of_slopes = [norm.placed(norm.scale_term(*orders), at) for at, orders in slopes]
        moved = [(at, *orders) for at, orders in slopes]
        moved += [(self.factors[k][1][0], *orders) for k, orders in changes]
        squares = [sample for sample, of_q, _ in moved for _ in range(of_q)]
        centres = [sample for sample, _, of_m in moved for _ in range(of_m)]
        own = (terms_of(norm, self.factors[k][1], *orders) for k, orders in changes)
        for terms in product(*own):
            made, scales = self.copy(), [*of_slopes]
            for (k, _), (orders, value) in zip(changes, terms, strict=True):
                at, (sample, _) = self.factors[k]
                *more, last = orders
                made.factors[k] = at, (sample, last)
                made.factors += [(at, (sample, order)) for order in more]
                scales.append(value)
            for sample in centres:
                made._put([(sample, -1)])
            scale = multiply_all(scales, 0)
            for kept in product((True, False), repeat=len(squares)) if scale else ():
                each, limits = made.copy(), [scale]
                for sample, whole in zip(squares, kept, strict=True):
                    length = ((sample, -1), (sample, -1))
                    if whole:
                        each._put(length)
                    else:
                        limits.append({(monomial([mean(Local(factors=length))]), 0): Fraction(-1)})
                yield multiply_all(limits, 0), each

    def copy(self) -> Sums:
        """One to go on with."""
        found = copy(self)
        found.factors, found._name = [*self.factors], [*self._name]
        return found

    def _put(self, factors: Sequence[Pair]) -> None:
        """1/n times these at a new neuron."""
        self._name.append(len(self._name))
        self.factors += [(len(self._name) - 1, factor) for factor in factors]
        self._power += 1

    @property
    def order(self) -> int:
        """That of 1/n of its largest part."""
        apart = any(self._named(each).is_apart for each in self._fields)
        return self._power - len(set(self._name)) + apart

    def _named(self, each: Placed) -> Tangent:
        """H with the names of its neurons; of one that is carried past the weights, j < 0."""
        ends = tuple(j if j < 0 else self._name[j] for j in each.neurons)
        return Tangent(ends, each.samples, each.field)

    def canonical(self, more: int = 0) -> Sum:
        """The sum with its neurons in an order of its own; with so many 1/n more."""
        content: dict[int, list[Pair]] = {j: [] for j in set(self._name)}
        for j, factor in self.factors:
            content[self._name[j]].append(factor)
        fields = [self._named(each) for each in self._fields]
        first = dict.fromkeys(j for each in fields for j in each.neurons if j >= 0)
        places = {j: tuple(sorted(factors)) for j, factors in content.items()}
        ordered = [*first, *sorted(places.keys() - first, key=places.__getitem__)]
        number = {j: at for at, j in enumerate(ordered)}
        tangents = tuple(
            each._replace(neurons=tuple(number.get(j, j) for j in each.neurons)) for each in fields
        )
        neurons = tuple(places[j] for j in ordered)
        return Sum(tuple(self._left), neurons, tangents, self._power + more)


class Sum(NamedTuple):
    """n^{-power} Σ_j of what stands at summed neurons, and at those outside of the sums.

    Arguments:
        left: at those outside.
        neurons: σ^{(order)} of samples, at each summed one.
        fields: H, at summed neurons, or at the one outside of the place −1 − j.
        power: that of 1/n.
    """

    left: tuple[Local, ...]
    neurons: tuple[tuple[Pair, ...], ...]
    fields: tuple[Tangent, ...]
    power: int


@cache(entries=8192)
def averaged(of: Sum) -> Expansion:
    """E of it, through order 1/n."""
    outside, spent = len(of.left), of.power
    own = [range(outside)] * len(of.neurons)
    by_free: dict[int, Expansion] = {}
    spaces = [STREAM.space] * len(of.neurons)
    for homes, free in coincidences(spaces, own, outside, spent - 1):
        content = [*of.left, *(Local() for _ in free)]
        for at, factors in zip(homes, of.neurons, strict=True):
            merged = tuple(sorted((*content[at].factors, *factors)))
            content[at] = content[at]._replace(factors=merged)
        fields = [_moved(each, homes) for each in of.fields]
        found = distinct(content, fields, 1 - spent + len(free))
        add(by_free.setdefault(len(free), {}), found)
    total: Expansion = {}
    for count, found in by_free.items():
        ways = multiply(ways_of(None, count, outside), constant(1, spent), 1)
        add(total, multiply(found, ways, 1))
    return total


def _moved(each: Tangent, homes: Sequence[int]) -> Tangent:
    """H where its neurons are these; of one that is carried past the weights, −1 − j."""
    return each._replace(neurons=tuple(-1 - j if j < 0 else homes[j] for j in each.neurons))
