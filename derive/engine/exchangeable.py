"""Averages of z and H at distinct neurons whose law permutations keep, through order 1/n.

All that is needed of exchangeable neurons is

    E f(z_i) = ⟨f⟩ + One(f)/n,                    Cov(f(z_i), g(z_j)) = Two(f, g)/n,
    E ΔH_ii f(z_i) = Own(f)/n,                    Cov(H_ii, g(z_j)) = Apart(g)/n,
    E H_ij f(z_i) g(z_j) = Across(f, g)/n,        E H_ij H_ij f(z_i) g(z_j) = Square(f, g)/n,

and Cov(H_ii, H_jj), with ΔH = H − Θ and i ≠ j; of larger trees `Grown`, of one alone, and

    E dH_{j;ii} H_ij f(z_i) g(z_j) = Together(f, g)/n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple

from ..arithmetic.polynomials import Expansion, add, constant, monomial, multiply_all
from .tensors import Tensor, tensor
from .trees import DH, AnyField, H

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
    apart = [k for k, each in enumerate(fields) if each.is_apart]
    together = [k for k in range(len(fields)) if k not in apart]

    def put(atom: Moment | Tensor, places: Sequence[int], moved: Sequence[int]) -> None:
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
            put(Moment("One", (content[k],)), [k], [])
        for j, k in combinations(live, 2):
            put(two(content[j], content[k]), [j, k], [])
        for f in together:
            (i, _), samples = fields[f].neurons, tuple(sorted(fields[f].samples))
            put(Moment("Own", (content[i],), samples), [i], [f])
            for k in live:
                if k != i:
                    put(Moment("Apart", (content[k],), samples), [k], [f])
        for f, g in combinations(together, 2):
            one, other = fields[f], fields[g]
            assert one.neurons != other.neurons, "a variance of H at one neuron"
            put(_paired(one.samples + other.samples), [], [f, g])
    elif any(fields[k].tree != H for k in apart):
        if len(apart) == 1:
            _put_grown(fields[apart[0]], content, apart, put)
        else:
            _put_together([fields[k] for k in apart], content, apart, put)
    elif len(apart) == 1:
        (i, j), samples, _ = fields[apart[0]]
        put(Moment("Across", (content[i], content[j]), samples), [i, j], apart)
    else:
        one, other = (fields[k] for k in apart)
        if other.neurons == one.neurons[::-1]:
            other = Tangent(one.neurons, other.samples[::-1])
        if one.neurons == other.neurons:
            i, j = one.neurons
            both = one.samples + other.samples
            put(Moment("Square", (content[i], content[j]), both), [i, j], apart)
    return total


def _put_grown(
    each: Tangent,
    content: Sequence[Local],
    apart: Sequence[int],
    put: Callable[[Moment, Sequence[int], Sequence[int]], None],
) -> None:
    """A tree at two neurons, of which one has two nodes; others are of higher order."""
    neurons = sorted(set(each.neurons), key=each.neurons.index)
    assert len(neurons) > 1, "a tree at one neuron"
    if len(neurons) == 2 and 2 in map(each.neurons.count, neurons):
        i, j = neurons
        places = tuple(map(neurons.index, each.neurons))
        both = content[i], content[j]
        put(Moment("Grown", both, each.samples, each.tree, places), neurons, apart)


def _put_together(
    trees: Sequence[Tangent],
    content: Sequence[Local],
    apart: Sequence[int],
    put: Callable[[Moment, Sequence[int], Sequence[int]], None],
) -> None:
    """dH_{j;ii} H_ij, which are of order n^{-1/2} each, as one weight W_ji stands in both; of dH
    and H at other neurons one weight is alone, so that they are of order n^{-2}."""
    small, large = sorted(trees, key=lambda each: each.tree.nodes)
    assert (small.tree, large.tree) == (H, DH), "two trees, or ddH and H"
    (j, i, end), (a, b) = large.neurons, small.neurons
    if i == end and {i, j} == {a, b}:
        (at_j, *ends), of_h = large.samples, small.samples[:: 1 if a == i else -1]
        samples = (at_j, *sorted(ends), *of_h)
        put(Moment("Together", (content[j], content[i]), samples), [i, j], apart)


def _mean(of: Local) -> Expansion:
    """⟨…⟩ in the limit."""
    if of.is_one:
        return constant(1)
    if (of.labels and not of.factors) or (of.tested is None and of.is_linear):
        return {}
    return {(monomial([mean(of)]), 0): Fraction(1)}


def _theta(each: Tangent) -> Expansion:
    """Θ."""
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
