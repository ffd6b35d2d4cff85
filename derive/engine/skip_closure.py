"""The tensors of z and H behind a skip around one matrix, and the sequences that close them.

Of what `neurons` leaves, Two(f, g) has no entries but those of degree 2 in one of its places, as
at layer 1 it is that of V alone and no recursion makes others; so Across(f, g) has none but of
degree 1 in one place, Square(f, g) none but of degree 0. All that remains are functionals of one
function,

    κ(f) = Two(:zz:, f),     One(f),     Own(f),     Apart(f),     Across(z, f),     Square(1, f),

of which V, G1, Θ1, D, F and B are the members at :zz:, :zz:, 1, :zz:, z and 1; A is a number. Each
moves by a recursion that is linear in them, for f(z') of whatever kind, as it is for :z'^b:, the
members of a sequence. A tree φ = dH or ddH of which two neurons have two nodes each, z counted as
one, is of order 1/n at once, and has no entries but those of the degree that signs ask for, 0 or 1,
at one of the neurons: f stands at the other (`BRANCHES`). U has dH_{j;ii} H_ij below it, two of
order n^{-1/2}, where rotations do not keep the law: W_ji σ''_i Θ² γ² and W_ji σ'_i Θ γ are in them,

    X(f) = n E dH_{j;ii} H_ij f(z_i),    X'(f) = γ³ C_W Θ³ ⟨σ'σ'' Pf⟩ + γ³ (γ² + C_W ⟨σ'²⟩) X(Pf),

P f(z) = E f(γz + ξ): all of it comes from that one weight, and none of X is a tensor with a name.
Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import factorial
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
from ..errors import InputError
from ..gaussian.brackets import Bracket, normal_form
from ..groups.pairings import joined
from ..weights import WeightEnsemble
from ..work.caches import cache
from .exchangeable import TEST, Labels, Local, Moment, Pair, Samples, Tangent, mean
from .neurons import first_order, leading, moment
from .norms import norm_of
from .skips import gamma_of, is_skip
from .stages import DENSE, LEFT, Collective, Product, Stage, Variable
from .taps import AGAIN
from .tensors import Name, Tensor, kernel_label, named, tensor
from .trees import DH, STREAM, Z, automorphisms

SKIP_TENSORS = tuple(map(named, ("G1", "V", "Theta1", "D", "F", "A", "B", *"PQRSTU")))
"""The tensors that have an exact recursion under a skip around one matrix."""
SKIP_TENSORS_WITH_DDH = SKIP_TENSORS[7:]
"""Those of dH and ddH, which are derived where there is no norm."""


class Left(NamedTuple):
    """The left side of a recursion: fields at neurons, those that share one in a group.

    Arguments:
        neurons: what stands at each.
        tangents: the H.
    """

    neurons: tuple[Local, ...]
    tangents: tuple[Tangent, ...] = ()


BRANCHES: dict[str, tuple[Name, int]] = {
    f"{label}{block}": (named(label), block)
    for label, blocks in (("P", 2), ("Q", 2), ("R", 2), ("S", 2), ("T", 1), ("U", 1))
    for block in range(blocks)
}
"""Functionals of dH and ddH: a tensor, and at which pair of its slots f stands; of T and U
both pairs are alike."""
_HOMES: dict[str, tuple[Name, int]] = {
    kind: (named(label), block)
    for kind, label, block in (
        ("kappa", "V", 1),
        ("One", "G1", 0),
        ("Own", "Theta1", 0),
        ("Apart", "D", 0),
        ("Across", "F", 1),
        ("Square", "B", 1),
    )
} | BRANCHES
"""The same for all functionals except `Together`."""


def _at_test(kind: str) -> list[int]:
    """The slots of the z's that f replaces."""
    name, block = _HOMES[kind]
    return [slot for slot in name.pairing[block] if slot < name.fields.count(Z)]


def _by_slot(kind: str, samples: Labels, of: Labels) -> Labels:
    """A sample for each slot: `of` for the z's that f replaces, `samples` for the others."""
    given, rest = dict(zip(_at_test(kind), of, strict=True)), iter(samples)
    name, _ = _HOMES[kind]
    return tuple(given[k] if k in given else next(rest) for k in range(len(name.subscripts)))


def _left(kind: str, samples: Labels) -> Left:
    """The result of `left_of` for a tensor, with f in place of the content of one pair."""
    name, block = _HOMES[kind]
    labels = _by_slot(kind, samples, (1,) * len(_at_test(kind)))
    left = left_of(name, [labels[slot] for slot in name.subscripts])
    neurons = [TEST if k == block else each for k, each in enumerate(left.neurons)]
    return left._replace(neurons=tuple(neurons))


def left_of(name: Name, samples: Sequence[int]) -> Left:
    """A tensor's fields, with these labels of its subscripts."""
    label = dict(zip(name.subscripts, samples, strict=True))
    home = {slot: k for k, pair in enumerate(name.pairing) for slot in pair}
    labels: list[Labels] = [()] * len(name.pairing)
    tangents, slot = [], 0
    for field in name.fields:
        ends = range(slot, slot + field.nodes)
        if field == Z:
            labels[home[slot]] += (label[slot],)
        else:
            places, own = (tuple(map(of.__getitem__, ends)) for of in (home, label))
            tangents.append(Tangent(places, own, field))
        slot += field.nodes
    return Left(tuple(Local(each) for each in labels), tuple(tangents))


def _together(of: Labels) -> Left:
    return Left((TEST, Local()), (Tangent((1, 0, 0), of[:3], DH), Tangent((0, 1), of[3:])))


_KINDS = [*(kind for kind in _HOMES if kind not in BRANCHES), "Together", *BRANCHES]
SEQUENCES: dict[str, Callable[[Labels], Left]] = {
    kind: partial(_left, kind) if kind in _HOMES else _together for kind in _KINDS
}
"""The functionals at given samples, with f behind the layer."""
MEMBERS = {kind: (name, len(_at_test(kind))) for kind, (name, _) in _HOMES.items()}
"""The tensor that a functional gives at :z^b:, and b. `Together` has none."""
RANKS = {
    kind: len(MEMBERS[kind][0].subscripts) - MEMBERS[kind][1] if kind in MEMBERS else 5
    for kind in _KINDS
}
"""The number of samples of each functional."""


@cache
def recursion_of(
    name: Name, stages: tuple[Stage, ...], weights: WeightEnsemble, samples: Labels
) -> Expansion:
    """The terms of a tensor behind the layer of these stages, with these sample labels.

    Raises InputError for those of dH and ddH behind a norm.
    """
    if name in SKIP_TENSORS_WITH_DDH and norm_of(stages) is not None:
        wanted = "no norm before a skip around one matrix, for cumulants of dH and ddH"
        raise InputError("tensors", str(name), wanted)
    return _Reduction(stages).of(_connected(left_of(name, samples), stages, weights))


@cache
def functional_of(
    kind: str, stages: tuple[Stage, ...], weights: WeightEnsemble, *, several: bool = False
) -> Expansion:
    """The terms of one of `SEQUENCES` behind the layer, linear in f.

    Arguments:
        kind: which.
        stages: the layer's.
        weights: the ensemble of its matrix.
        several: whether the functional is at samples 1, 2, …, r = `RANKS[kind]` of them, and f a
            function of the samples r + 1 and r + 2; else all is of one sample.
    """
    count = RANKS[kind]
    arguments = (count + 1, count + 2) if several else (1,)
    left = SEQUENCES[kind](tuple(range(1, count + 1)) if several else (1,) * count)
    found = _connected(left, stages, weights, arguments)
    if kind == "Own":  # E (H − Θ) f
        stage, norm = stages[-1], norm_of(stages)
        mean = leading(moment(stage, weights, (Local(),), left.tangents, norm))
        alone = first_order(moment(stage, weights, left.neurons, (), norm, arguments))
        add(found, multiply(mean, alone, 0), -1)
    return _Reduction(stages, arguments).of(found)


def closes(stages: tuple[Stage, ...]) -> bool:
    """True if the layer is one of which sequences are derived: a skip around one matrix, alone or
    behind a norm by q = (1/n) Σ z z and the square of m = (1/n) Σ z, or a dense layer; at each
    position the same."""
    if len(stages) == 1:
        (only,) = stages
        return only.alone.has_dense_equation or (
            is_skip(stages) and len(only.equations[0][1].right) == 2
        )
    if (
        len(stages) > 2
        or not is_skip(stages)
        or max(max(stage.sets, stage.pools) for stage in stages) > 1
    ):
        return False
    before, last = stages
    means = [[each.kind for each in mean.factors] for mean in before.means]
    if means not in ([[STREAM] * 2], [[STREAM], [STREAM] * 2]) or len(before.functions) != 1:
        return False
    normed = Product((Variable(STREAM, LEFT), Collective(0, (0,) * len(means))))
    if any(kind != STREAM and each.right != (normed,) for kind, each in before.equations):
        return False
    if any(mean.factors[0].kind != last.argument_kinds[0] for mean in last.means):
        return False
    mixed = [(1,), (1, 1)] if len(means) > 1 else []
    return all(before.derivative(0, (*each, 0)[:2]) == 0 for each in mixed)


def _connected(
    left: Left, stages: tuple[Stage, ...], weights: WeightEnsemble, arguments: Labels = (1,)
) -> Expansion:
    """n times a joint cumulant: two groups at neurons of their own are taken apart."""
    stage, norm = stages[-1], norm_of(stages)
    whole = moment(stage, weights, *left, norm, arguments)
    groups = _groups(left)
    if len(groups) > 1:
        parts = [_restricted(left, group) for group in groups]
        found = [moment(stage, weights, *part, norm, arguments) for part in parts]
        add(whole, multiply_all(found, 1), -1)
        assert not leading({key: value for key, value in whole.items() if value})
    return first_order({key: value for key, value in whole.items() if value})


def _groups(left: Left) -> list[set[int]]:
    alone = ({k} for k in range(len(left.neurons)))
    return joined([*alone, *(set(each.neurons) for each in left.tangents)])


def _restricted(left: Left, group: set[int]) -> Left:
    place = {old: new for new, old in enumerate(sorted(group))}
    return Left(
        tuple(left.neurons[k] for k in sorted(group)),
        tuple(
            each._replace(neurons=tuple(place[k] for k in each.neurons))
            for each in left.tangents
            if each.neurons[0] in group
        ),
    )


def over_gaussians(factors: tuple[Pair, ...], outer: Labels) -> Expansion:
    """⟨∂^outer y … y Π σ^{(order)}⟩ of any Gaussian y, in terms of its kernel K and brackets."""
    return _Reduction((DENSE,))._average(factors, outer)


class _Reduction:
    """Averages as brackets, tensors and functionals of one function."""

    def __init__(self, stages: tuple[Stage, ...], arguments: Labels = (1,)) -> None:
        self._arguments = arguments
        self._gamma = gamma_of(stages[-1])
        self._kernel = kernel_label(stages[-1].argument_kinds[0])
        self._norm, reading = norm_of(stages), stages[-1].taps
        self._again = AGAIN if reading.past is not None and reading.mark else 0

    def of(self, found: Expansion) -> Expansion:
        """Terms with each atom reduced."""
        total: Expansion = {}
        for (mono, at), value in found.items():
            term: Expansion = {(UNIT, at): value}
            for atom, exponent in mono:
                if isinstance(atom, Moment):
                    assert exponent > 0
                    for _ in range(exponent):
                        term = multiply(term, self._atom(atom), 1)
                else:
                    term = multiply(term, {(frozenset({(atom, exponent)}), 0): Fraction(1)}, 1)
            add(total, term)
        return {key: value for key, value in total.items() if value}

    def _atom(self, atom: Moment) -> Expansion:
        kind, of, samples = atom.kind, atom.content[-1], atom.samples
        if kind == "Mean":
            return self._mean(of)
        if kind in ("One", "Own", "Apart"):
            scale, of = (constant(1), of) if kind == "Own" else self._as_labels(of)
            if kind == "One" and len(of.labels) == 1:  # E z = 0
                return {}
            return multiply(scale, _value(atom._replace(content=(of,))), 0)
        if kind == "Grown":
            degrees = atom.places.count(0) % 2, atom.places.count(1) % 2  # that signs ask for
            return self._by_parts(atom, degrees, partial(_branch, atom))
        if kind == "Together":  # g's average alone
            together = atom._replace(content=(Local(), of))
            return multiply(self._mean_of(atom.content[0]), _alone(together), 0)
        ends, degrees = (samples, samples), (2, 2)  # without H in "kappa"
        if kind == "Across":  # H_ij is H_ji with its samples exchanged
            ends, degrees = (samples[::-1], samples), (1, 1)
        if kind == "Square":
            a, b, c, d = samples
            ends, degrees = ((b, a, d, c), samples), (0, 0)
        return self._by_parts(atom, degrees, partial(_beside, kind, ends))

    def _mean(self, of: Local) -> Expansion:
        """⟨:z_S: F⟩ = Π K f ⟨∂ … F⟩ by parts, F being a function of y = f z."""
        if of.is_one:
            return constant(1)
        if of.tested is not None:
            return _alone(mean(of))
        total: Expansion = {}
        for chosen in product(sorted({s for s, _ in of.factors}), repeat=len(of.labels)):
            pairs = zip(of.labels, chosen, strict=True)
            kernels = [_kernel(*pair) for pair in pairs]
            scale = multiply_all([{(monomial(kernels), 0): Fraction(1)}, self._scales(chosen)], 0)
            add(total, multiply(scale, self._average(of.factors, chosen), 0))
        return total

    def _scales(self, labels: Labels) -> Expansion:
        """f for each label."""
        if self._norm is None:
            return constant(1)
        return {(monomial([self._norm.scale(label) for label in labels]), 0): Fraction(1)}

    def _average(self, factors: tuple[Pair, ...], outer: Labels = ()) -> Expansion:
        """⟨∂^outer y … y Π σ^{(order)}⟩ by Stein's lemma, ∂ being ∂/∂y."""
        if not factors or (factors[0][1] >= 0 and all(order >= 0 for _, order in factors)):
            return self._bracket(factors, outer)
        first = next(k for k, (_, order) in enumerate(factors) if order < 0)
        (own, _), rest = factors[first], (*factors[:first], *factors[first + 1 :])
        total: Expansion = {}
        for b in sorted({sample for sample, _ in rest}):
            kernel = multiply(self._scales((own, b)), _alone(_kernel(own, b)), 0)
            add(total, multiply(kernel, self._average(rest, (*outer, b)), 0))
        for k, sample in enumerate(outer):
            if sample == own:  # ∂y
                add(total, self._average(rest, (*outer[:k], *outer[k + 1 :])))
        return total

    def _bracket(self, factors: tuple[Pair, ...], outer: Labels) -> Expansion:
        if set(outer) - {sample for sample, _ in factors}:
            return {}
        if not factors:
            return constant(1)
        plain = Bracket(factors, tuple(sorted(outer)), self._kernel)
        if self._norm is None or max(order for _, order in factors) < 2:
            return _alone(plain)
        found = normal_form(plain)
        return {(power(each, 1), 0): value for each, value in found.items()}

    def _parts(self, of: Local, degree: int) -> Iterator[tuple[Labels, Expansion]]:
        """The part of this degree of a function of one neuron: Σ coefficient :z_S:."""
        if not of.factors and of.tested is None:
            if len(of.labels) == degree:
                yield of.labels, constant(1)
            return
        assert not of.labels
        assert of.tested is None or not of.factors
        own = {s for s, _ in of.factors} if of.tested is None else self._arguments
        samples = sorted(own)
        for chosen in product(samples, repeat=degree):
            read = chosen
            if of.tested is None:
                value = multiply(self._scales(chosen), self._average(of.factors, chosen), 0)
            else:
                bent = mean(of.differentiated(chosen))
                value = multiply_all([*[self._gamma] * degree, _alone(bent)], 0)
                again = (chosen[:k].count(each) for k, each in enumerate(chosen))
                read = tuple(a + self._again * k for a, k in zip(chosen, again, strict=True))
            yield read, multiply(value, constant(Fraction(1, factorial(degree))), 0)

    def _as_labels(self, of: Local) -> tuple[Expansion, Local]:
        """y y is f² :z z:, up to a number, of which no cumulant knows; y is f z."""
        if of.factors and of.tested is None and all(order < 0 for _, order in of.factors):
            assert not of.labels
            labels = tuple(sample for sample, _ in of.factors)
            return self._scales(labels), Local(labels)
        return constant(1), of

    def _by_parts(
        self,
        atom: Moment,
        degrees: tuple[int, int],
        value: Callable[[int, Labels, Local], Expansion],
    ) -> Expansion:
        """A functional whose only entries have a given degree at one of its two places. `value` is
        the functional of a function at one place and :z: of labels at the other."""
        (scale, one), (more, other) = (
            self._as_labels(of) if min(degrees) else (constant(1), of) for of in atom.content
        )
        total: Expansion = {}
        for labels, share in self._parts(one, degrees[0]):
            add(total, multiply(share, value(1, labels, other), 0))
        if one.factors or one.tested is not None or len(one.labels) != degrees[0]:
            for labels, share in self._parts(other, degrees[1]):
                add(total, multiply(share, value(0, labels, one), 0))
                for bent_by, bent in self._parts(one, degrees[0]):
                    both = value(0, labels, Local(bent_by))
                    add(total, multiply_all([share, bent, both], 0), -1)
        return multiply_all([scale, more, total], 0)

    def _mean_of(self, of: Local) -> Expansion:
        return {} if of.labels and not of.factors else self._mean(of)


def _kernel(a: int, b: int) -> Tensor:
    return tensor((Z, Z), 0, ((0, 1),), (a, b))


def _alone(atom: object) -> Expansion:
    return {(monomial([atom]), 0): Fraction(1)}


def _value(atom: Moment) -> Expansion:
    """A functional of the last of its content; as a tensor where that is a member's."""
    of = atom.content[-1]
    if of.factors or of.tested is not None or len(of.labels) != MEMBERS[atom.kind][1]:
        return _alone(atom)
    return _alone(member_of(atom.kind, subscripts(atom), of.labels))


def _beside(
    kind: str, ends: tuple[Samples, Samples], at: int, labels: Labels, of: Local
) -> Expansion:
    """A functional of :z: of these labels and f, H's samples by the place where f stands."""
    return _value(Moment(kind, (Local(tuple(sorted(labels))), of), ends[at]))


def _branch(atom: Moment, at: int, labels: Labels, of: Local) -> Expansion:
    """n E φ f(z), f at one of the places, and :z: of these labels at the other."""
    found = []
    for kind, (name, block) in BRANCHES.items():
        tree, before = name.fields[-1], len(name.fields) - 1
        for order in automorphisms(atom.tree) if tree == atom.tree else ():
            inside = [before + k in name.pairing[block] for k in range(tree.nodes)]
            if inside == [atom.places[k] == at for k in order]:
                found.append((kind, (*labels, *(atom.samples[k] for k in order))))
    kind, samples = min(found)
    return _value(Moment(kind, (of,), samples))


def functional_in(atom: object) -> tuple[str, Local] | None:
    """Which of `SEQUENCES` an atom is, "Mean" too, and of what function; None for other atoms."""
    if not isinstance(atom, Moment) or atom.kind == "Grown":
        return None
    return atom.kind, atom.content[-1]


def member_of(kind: str, samples: Labels, of: Labels = ()) -> Tensor:
    """A functional's value at :z_S: with S = `of`, `MEMBERS` of them, as a tensor."""
    name, _ = MEMBERS[kind]
    return tensor(name.fields, name.order, name.pairing, _by_slot(kind, samples, of))


def subscripts(atom: object) -> Labels:
    """The samples of a functional, as `SEQUENCES` has them."""
    assert isinstance(atom, Moment)
    beside = atom.content[:-1]
    return (*(label for each in beside for label in each.labels), *atom.samples)
