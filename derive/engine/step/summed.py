"""Samples and positions that are summed over, numbered alike in products that are equal.

A label p of a sum over the batch, or over positions of a signal, has no meaning of its own:
V[p,q,r,u] ⟨∂_p∂_q∂_r∂_u(…)⟩ is V[p,r,q,u] times the same. Labels are told apart by where they
stand, and then by where those beside them stand (colour refinement). Of labels that remain alike,
each is tried as the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ...arithmetic.polynomials import UNIT, Atom, Expansion, Monomial, add, power, times
from ...display.labels import POOLED, SLOPES, SUMMED
from ...gaussian.brackets import Bracket, slopes_of
from ...work.caches import cache
from ..atoms import read
from ..tensors import Tensor, tensor
from ..through import Weighting

_Colours = dict[int, int]
"""Of each summed label a number that does not depend on labels."""


def numbered_alike(expansion: Expansion) -> Expansion:
    """With equal products added up."""
    found: Expansion = {}
    for (mono, at), value in expansion.items():
        add(found, {(_numbered(mono), at): value})
    return found


def _numbered(mono: Monomial) -> Monomial:
    labels = sorted({label for atom, _ in mono for label in _labels(atom)})
    if not labels:
        return mono
    families = {label: _family(label)[0] for label in labels}
    made = (_renamed(mono, order) for order in _orders(mono, families))
    return min(made, key=lambda each: sorted(map(repr, each)))


@cache(entries=1 << 14)
def _labels(atom: Atom) -> tuple[int, ...]:
    """The summed labels in an atom."""
    samples: tuple[int, ...] = read(
        atom,
        tensor=lambda own: own.samples,
        bracket=lambda own: own.samples,
        weighting=lambda own: own.samples,
        other=lambda _: (),
    )
    return tuple(each for each in samples if each >= SUMMED)


def _family(label: int) -> tuple[int, int]:
    """The first label of those that are numbered together, and how far the next one is."""
    if label >= POOLED:
        return label % POOLED + POOLED, POOLED
    return (SLOPES if label >= SLOPES else SUMMED), 1


def _renamed(mono: Monomial, order: list[int]) -> Monomial:
    """With the labels of each family numbered in this order."""
    taken: Counter[int] = Counter()
    to: dict[int, int] = {}
    for label in order:
        first, step = _family(label)
        to[label] = first + step * taken[first]
        taken[first] += 1
    return _moved(mono, to)


def _moved(mono: Monomial, to: Mapping[int, int]) -> Monomial:
    """With other labels, each atom brought to its representative."""

    def at(own: Tensor | Weighting) -> tuple[int, ...]:
        return tuple(to.get(each, each) for each in own.samples)

    made = UNIT
    for atom, exponent in mono:
        own = read(
            atom,
            tensor=lambda own: tensor(own.fields, own.order, own.pairing, at(own)),
            bracket=lambda own: _in_order(own.relabelled(lambda label: to.get(label, label))),
            weighting=lambda own: own.at(at(own)),
            other=lambda own: own,
        )
        made = times(made, power(own, exponent))
    return made


def _in_order(own: Bracket) -> Atom:
    return own._replace(factors=tuple(sorted(own.factors)), outer=tuple(sorted(own.outer)))


def _orders(mono: Monomial, colours: _Colours) -> Iterator[list[int]]:
    """The labels by colour, with each choice among those that are alike."""
    colours = _refined(mono, colours)
    by_colour: dict[int, list[int]] = {}
    for label, colour in colours.items():
        by_colour.setdefault(colour, []).append(label)
    alike = next((own for _, own in sorted(by_colour.items()) if len(own) > 1), None)
    if alike is None:
        yield sorted(colours, key=colours.__getitem__)
        return
    first, *others = alike
    for label in (first, *(each for each in others if not _exchanged(mono, first, each))):
        apart = {each: 2 * colour + 1 for each, colour in colours.items()}
        yield from _orders(mono, apart | {label: apart[label] - 1})


def _exchanged(mono: Monomial, one: int, other: int) -> bool:
    """True if an exchange of two labels keeps the product: then one stands for both."""
    to = {one: other, other: one}
    own = frozenset(each for each in mono if {one, other} & {*_labels(each[0])})
    return _moved(own, to) == _moved(own, {})


def _refined(mono: Monomial, colours: _Colours) -> _Colours:
    """The coarsest colours that also tell apart labels beside which others stand."""
    at: dict[int, Monomial] = {
        label: frozenset(each for each in mono if label in _labels(each[0])) for label in colours
    }
    while True:
        seen = {label: (own, *_beside(at[label], label, colours)) for label, own in colours.items()}
        ranks = {each: k for k, each in enumerate(sorted(set(seen.values())))}
        finer = {label: ranks[each] for label, each in seen.items()}
        if len(ranks) == len(set(colours.values())):
            return finer
        colours = finer


def _beside(mono: Monomial, label: int, colours: Mapping[int, int]) -> list[str]:
    """Where a label stands in each of these atoms, and the colours of the labels beside it."""

    def shown(sample: int) -> str:
        return f"#{colours[sample]}" if sample in colours else f"{sample}"

    def of_tensor(own: Tensor) -> str:
        slots = [slot for slot, sample in enumerate(own.samples) if sample == label]
        pairs = [
            sorted(shown(own.samples[s]) for s in pair)
            for pair in own.pairing
            if {*pair} & {*slots}
        ]
        return f"T{own.fields}{own.order}{sorted(map(shown, own.samples))}{sorted(pairs)}"

    def of_bracket(own: Bracket) -> str:
        own_factors = [(s, n) for s, n in own.factors if label in slopes_of(n)]
        beside = sorted(f"{shown(s)}:{sorted(map(shown, slopes_of(n)))}" for s, n in own_factors)
        every = sorted(f"{shown(s)}:{sorted(map(shown, slopes_of(n)))}" for s, n in own.factors)
        return f"B{every}{sorted(map(shown, own.outer))}{beside}{own.outer.count(label)}"

    def of_weighting(own: Weighting) -> str:
        t, s, *others = map(shown, own.samples)
        slots = {min(slot, 2) for slot, sample in enumerate(own.samples) if sample == label}
        return f"A{own.label}{t}{s}{sorted(others)}{sorted(slots)}"

    texts = (
        read(atom, tensor=of_tensor, bracket=of_bracket, weighting=of_weighting, other=str)
        for atom, _ in mono
    )
    return sorted(f"{text}^{exponent}" for text, (_, exponent) in zip(texts, mono, strict=True))
