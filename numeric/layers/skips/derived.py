"""Terms of a layer that is a skip around one matrix, which `tangents` adds up.

Where samples meet, labels become equal. Derivatives outside of a bracket go inside before that,
each onto the factors of its own label: ⟨∂₁∂₂(σ'₁σ'₂)⟩ + ⟨∂₁∂₁(σ'₁σ'₂)⟩ becomes ⟨σ''σ'' + σ'''σ'⟩ =
½⟨∂∂(σ'σ')⟩, a number for σ with kinks, where neither of the two is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from derive.activations.functions import Activation
from derive.arithmetic.polynomials import UNIT, Expansion, add, multiply_all, of_kind, power
from derive.engine.atoms import read
from derive.engine.exchangeable import Local, Moment, Pair, two
from derive.engine.norms import norm_of
from derive.engine.scheme import Scheme
from derive.engine.skip_closure import (
    BRANCHES,
    MEMBERS,
    RANKS,
    SKIP_TENSORS,
    SKIP_TENSORS_WITH_DDH,
    closes,
    functional_in,
    functional_of,
    recursion_of,
)
from derive.engine.skips import is_skip
from derive.engine.taps import MOVED, Taps
from derive.engine.tensors import FIRST_ORDER, Name, Tensor, identify, named, tensor
from derive.engine.through import Response
from derive.engine.trees import STREAM, H
from derive.engine.variances import unbound
from derive.errors import InputError
from derive.gaussian.brackets import Bracket, inside, normal_form

from .hermite import Orders

MEETING: dict[Name | str, tuple[tuple[Pair, ...], ...]] = {
    named("G1"): (((1, 2),),),
    named("Theta1"): (((1, 2),),),
    named("D"): (((3, 4),),),
    named("A"): (((1, 2),), ((3, 4),), ((1, 2), (3, 4))),
    "Own": (((1, 2),),),
    "Apart": (((1, 2),),),
}
"""The pairs of labels that must be equal before there are numbers, where their samples are and σ
has kinks, behind a norm: derivatives of ⟨σσ⟩ and ⟨σ'σ'⟩ do not exist apart. Later ones are of more
of them."""


class Term(NamedTuple):
    """A coefficient, atoms with their powers, the factor with the function on the left, and the
    numbers of the taps that move samples."""

    value: Fraction
    atoms: tuple[tuple[Any, int], ...]
    test: Any | None
    taps: tuple[int, ...] = ()

    @property
    def of(self) -> tuple[str, Local]:
        """The functional that is taken of the function on the left, and what stands there."""
        found = functional_in(self.test)
        assert found is not None
        return found


class Derived(NamedTuple):
    """Derived recursions of one layer: the terms of tensors and functionals, also with labels of
    `MEETING` equal; γ; f of a norm; and σ."""

    tensors: dict[Name, list[Term]]
    merged: dict[Name | str, dict[tuple[Pair, ...], list[Term]]]
    functionals: dict[str, list[Term]]
    gamma: list[Term]
    scale: Response | None
    sigma: Activation
    reading: Taps

    @property
    def every(self) -> list[Term]:
        """All terms but γ."""
        met = [terms for each in self.merged.values() for terms in each.values()]
        return list(chain(*self.tensors.values(), *met, *self.functionals.values()))


def closed(
    names: Sequence[Name], schemes: Sequence[Scheme], *, several: bool
) -> tuple[list[Derived], tuple[Name, ...], tuple[str, ...]]:
    """The recursions of several layers for these tensors, all tensors and kinds of functionals;
    with one label for all samples, unless there are several."""
    own = [name for name in names if name in SKIP_TENSORS]
    larger = ", ".join(str(name) for name in own if name in SKIP_TENSORS_WITH_DDH)
    kinked = any(s.kinks for e in schemes for g in e.stages for s in g.sigmas(e.sigma))
    normed = any(is_skip(each.stages) and norm_of(each.stages) for each in schemes)
    if larger and (normed or kinked):  # with kinks X(σσ'') has no Hermite series
        there = ", ".join(each for each in FIRST_ORDER if named(each) not in SKIP_TENSORS_WITH_DDH)
        wanted = f"among {there} behind a skip around one matrix with "
        raise InputError("tensors", larger, wanted + ("a norm" if normed else "a σ with kinks"))
    layers = [derived(own, scheme, several=several) for scheme in schemes]
    tensors = (each for each in SKIP_TENSORS if any(each in d.tensors for d in layers))
    kinds = (kind for kind in RANKS if any(kind in d.functionals for d in layers))
    return layers, tuple(tensors), tuple(kinds)


def others(names: Sequence[Name]) -> list[Name]:
    """The needed tensors with recursions of their own: K, and Θ if more than G1 and V close."""
    found = [named("K"), *(name for name in names if name not in SKIP_TENSORS)]
    return [*found, named("Theta")] if set(names) & set(SKIP_TENSORS[2:]) else found


def _needs(terms: Sequence[Term]) -> tuple[set[Name], set[str]]:
    """The tensors and functionals in terms."""
    names, kinds = set(), set()
    for term in terms:
        atoms = [*(atom for atom, _ in term.atoms), term.test]
        found = map(functional_in, atoms)
        kinds |= {each[0] for each in found if each and each[0] != "Mean"}
        names |= {identify(each)[0] for each in of_kind(atoms, Tensor)}
    return names & set(SKIP_TENSORS), kinds


def derived(names: Sequence[Name], scheme: Scheme, *, several: bool) -> Derived:
    """Of a layer; InputError for one that is neither dense nor a skip around one matrix."""
    scheme.check_numbers()
    *before, bound = scheme.stages
    last, weights = unbound(bound, scheme.weights)
    stages, sigma = (*before, last), bound.sigma(0, scheme.sigma)
    norm = norm_of(stages) if is_skip(stages) else None
    if not closes(stages):
        wanted = "skips around one matrix, or dense layers, for what is not K or Θ"
        if any(stage.batch for stage in stages):
            wanted += " where a network has a skip past the samples of a batch normalization"
        raise InputError("layer", str(scheme.layer), wanted)
    if not scheme.equal_widths or scheme.corrections:
        wanted = "equal widths and variances without corrections, beyond K and Θ, under such a skip"
        raise InputError("layer", str(scheme.layer), wanted)
    meet = norm is not None and several and bool(sigma.kinks)
    merged: dict[Name | str, dict[tuple[Pair, ...], list[Term]]] = {}
    taps = range(0, MOVED * MOVED, MOVED)

    def with_merged(key: Name | str, terms: Expansion) -> list[Term]:
        """The terms, and beside them those where labels are equal."""
        if meet and key in MEETING:
            if not last.taps.is_one_to_one:
                wanted = (
                    "K, Theta and V alone, of a σ with kinks behind a norm, where a skip past one "
                )
                wanted += "matrix adds up positions or gives them weights"
                raise InputError("tensors", ", ".join(map(str, names)), wanted)
            merged[key] = {
                pairs: listed(met(terms, {b + tap: a + tap for a, b in pairs for tap in taps}))
                for pairs in MEETING[key]
            }
        return listed(terms)

    tensors: dict[Name, list[Term]] = {}
    functionals: dict[str, list[Term]] = {}
    wanted_names, wanted_kinds = set(names), set[str]()
    while wanted_names - tensors.keys() or wanted_kinds - functionals.keys():
        for name in sorted(wanted_names - tensors.keys()):
            count = len(name.subscripts)
            samples = tuple(range(1, count + 1)) if several else (1,) * count
            tensors[name] = with_merged(name, recursion_of(name, stages, weights, samples))
        for kind in sorted(wanted_kinds - functionals.keys()):
            found = functional_of(kind, stages, weights, several=several)
            functionals[kind] = with_merged(kind, found)
            if kind in MEMBERS:
                wanted_names.add(MEMBERS[kind][0])
        for terms in (*tensors.values(), *functionals.values()):
            own, kinds = _needs(terms)
            wanted_names |= own
            wanted_kinds |= kinds
    right = stages[-1].equation(STREAM).right
    gamma = {(each.parameters, 0): each.coefficient for each in right if each.weight is None}
    scale = None if norm is None else norm.scale(1)
    return Derived(tensors, merged, functionals, listed(gamma), scale, sigma, last.taps)


def listed(terms: Expansion) -> list[Term]:
    """In an order that is the same in every process: sums are rounded."""
    every = {atom for mono, _ in terms for atom, _ in mono}
    text = {atom: repr(atom) for atom in every}  # a few atoms are in thousands of terms
    own = {atom: set(_taps(atom)) for atom in every}
    found = []
    for (mono, _), value in terms.items():
        atoms, test = [], None
        for atom, exponent in sorted(mono, key=lambda item: text[item[0]]):
            functional = functional_in(atom)
            if functional is not None and functional[1].tested is not None:
                assert test is None
                test = atom
            else:
                atoms.append((atom, exponent))
        taps = set().union(*(own[atom] for atom, _ in mono))
        found.append(Term(value, tuple(atoms), test, tuple(sorted(taps))))

    def place(term: Term) -> tuple[float, list[tuple[str, int]], str]:
        atoms = [(text[atom], exponent) for atom, exponent in term.atoms]
        return float(term.value), atoms, "" if term.test is None else text[term.test]

    return sorted(found, key=place)


def _taps(part: object) -> Iterator[int]:
    """The numbers of the taps in labels of samples."""
    if isinstance(part, int) and part >= MOVED:
        yield part // MOVED
    inside = part if isinstance(part, tuple | list) else getattr(part, "__dict__", {}).values()
    for each in inside:
        yield from _taps(each)


def product_of(of: Local, *, several: bool) -> tuple[Orders, tuple[int, ...]]:
    """The orders of what stands at each sample, and those samples: of two σ's each has its own,
    whether or not they are of one sample."""
    if not several:
        orders = tuple(sorted(order for _, order in of.factors))
        return ((orders,), (1,)) if orders else ((), ())
    if len(of.factors) == 2 and all(order >= 0 for _, order in of.factors):
        own = [(sample, [order]) for sample, order in of.factors]
    else:
        samples = sorted({sample for sample, _ in of.factors})
        own = [(at, [order for each, order in of.factors if each == at]) for at in samples]
    ordered = sorted((tuple(sorted(orders)), sample) for sample, orders in own)
    assert len(ordered) < 3, "a product of three samples"
    return tuple(orders for orders, _ in ordered), tuple(sample for _, sample in ordered)


class Bent(NamedTuple):
    """z_a ∂_a of a product of σ's: `place` is that of z_a among its samples, `share` what of it."""

    orders: Orders
    place: int
    share: float


_BENT = {
    ((-1, 2), (1,)): Bent(((1,), (1,)), 0, 1.0),
    ((1,), (-1, 2)): Bent(((1,), (1,)), 1, 1.0),
    ((-1, 1, 2),): Bent(((1, 1),), 0, 0.5),
}


def bent_of(orders: Orders, activation: Activation) -> Bent | None:
    """How a functional of y σ'' σ' is had where kinks leave it no number at each z: y σ'' σ' of two
    samples is y ∂(σ'σ'), of one ½ y ∂(σ'σ'); None where it needs none, as y σ'' is 0 at a kink
    at 0."""
    if all(order < 2 for own in orders for order in own):
        return None
    if all(kink == 0 for kink in activation.kinks) and orders in _BENT:
        return None
    if activation.kinks and orders not in _BENT:
        raise InputError("activation", str(activation), "one without kinks")
    return _BENT[orders] if activation.kinks else None


def met(terms: Expansion, to: Mapping[int, int]) -> Expansion:
    """The terms with labels put in the place of others."""
    total: Expansion = {}
    for (mono, at), value in terms.items():
        term: Expansion = {(UNIT, at): value}
        for atom, exponent in mono:
            brackets = [_bracket(each, to) for each in of_kind([atom], Bracket)] * exponent
            factors = brackets or [{(power(_atom(atom, to), exponent), 0): Fraction(1)}]
            term = multiply_all([term, *factors], at)
        add(total, term)
    return total


def _bracket(bracket: Bracket, to: Mapping[int, int]) -> Expansion:
    labels = bracket.samples
    places = Counter(to.get(label, label) for label in labels)
    apart = {label for label in labels if places[to.get(label, label)] == 1}
    outer = tuple(sorted(to.get(label, label) for label in bracket.outer if label in apart))
    total: Expansion = {}
    for factors, count in inside(bracket, apart).items():
        merged = tuple(sorted((to.get(label, label), order) for label, order in factors))
        found = bracket._replace(factors=merged, outer=outer)
        raised_once = max(order for _, order in merged) > 1
        for each, value in (normal_form(found) if raised_once else {found: Fraction(1)}).items():
            add(total, {(power(each, 1), 0): value * count})
    return total


def _atom(atom: Any, to: Mapping[int, int]) -> Any:
    def merged(own: Tensor) -> Tensor:
        return tensor(*own.relabelled(lambda each: to.get(each, each)))

    def function(own: Response) -> Response:
        return own._replace(limits=tuple((symbol, merged(each)) for symbol, each in own.limits))

    return read(atom, tensor=merged, response=function, other=lambda own: _functional(own, to))


def _functional(atom: Any, to: Mapping[int, int]) -> Any:
    if not isinstance(atom, Moment):
        return atom
    if atom.tree != H or atom.kind in BRANCHES:
        raise TypeError(f"{atom.kind} where samples meet: cumulants of dH are of others")
    content = tuple(_local(each, to) for each in atom.content)
    if atom.kind == "kappa":
        return two(*content)
    samples = tuple(to.get(each, each) for each in atom.samples)
    ordered = tuple(sorted(samples)) if atom.kind in ("Own", "Apart") else samples
    return atom._replace(content=content, samples=ordered)


def _local(of: Local, to: Mapping[int, int]) -> Local:
    tested = None if of.tested is None else tuple(sorted(to.get(each, each) for each in of.tested))
    factors = tuple(sorted((to.get(sample, sample), order) for sample, order in of.factors))
    return Local(tuple(sorted(to.get(each, each) for each in of.labels)), factors, tested)
