"""Where each term of a recursion comes from: pairing diagrams, drawn from the derivation itself.

The engine averages a layer through a function of the layer below; given one that marks what it was
asked for, the same derivation carries the marks to the end. A term's mark tells which forward terms
it came from and how the columns were paired; its brackets tell which neurons coincide, its tensors
where their legs end. From top to bottom a diagram shows

    arcs           p, the rows' pairing: which neural indices of layer ℓ+1 are equal,
    numbered dots  the nodes of the fields, their derivatives by θ as lines between them, dashed
                   where the parameter is the new layer's own,
    forks          q, the columns' pairing: W W → δ_jk, or the neuron of a new weight,
    full dots      distinct neurons of layer ℓ, each with its bracket,
    blobs          the tensors of layer ℓ, a leg for each sample index.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from html import escape
from itertools import product

import sympy

from derivations.files import write_text
from derive.arithmetic.polynomials import Expansion, Monomial, add, monomial, multiply
from derive.engine import cumulants
from derive.engine.fields import Field
from derive.engine.tensors import Tensor, spell, tensor
from derive.engine.through import Summand
from derive.errors import InputError
from derive.gaussian.brackets import Average, Bracket
from derive.groups.pairings import as_pairing
from derive.recursions import Recursion

Slots = tuple[int, ...]
"""Nodes of the fields at layer ℓ+1, numbered through."""
Legs = tuple[tuple[str, Slots], ...]
"""The tensors of layer ℓ, by name, with the first slot of the neuron at which each leg ends."""


@dataclass(frozen=True)
class Diagram:
    """One way in which a recursion's terms arise, with these terms.

    Attributes:
        recursion: the recursion, each slot with a sample of its own.
        parts: the forward terms, columns joined, of each moment that is multiplied: one, or
            several where the cumulant subtracts a product.
        neurons: the slots at each distinct neuron of layer ℓ.
        tensors: the tensors of layer ℓ, and where their legs end.
        terms: the part of the recursion's right-hand side that arises so.
    """

    recursion: Recursion
    parts: tuple[Summand, ...]
    neurons: tuple[Slots, ...]
    tensors: Legs
    terms: Expansion

    @property
    def rows(self) -> tuple[tuple[int, int], ...]:
        """p, of slots."""
        return as_pairing(self.recursion.target.pairing)

    @property
    def columns(self) -> tuple[Slots, ...]:
        """The slots at each summed neuron before any two are told to coincide."""
        return tuple(
            sorted(
                tuple(sorted(slot for j, slot, *_ in part.factors if j == neuron))
                for part in self.parts
                for neuron in range(len(part.neurons))
            )
        )

    @property
    def new(self) -> frozenset[tuple[int, int]]:
        """The edges of the fields that are a parameter of layer ℓ+1, as pairs of slots."""
        return frozenset((min(pair), max(pair)) for part in self.parts for pair in part.deltas)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """The edges of the fields' trees, as pairs of slots."""
        found: list[tuple[int, int]] = []
        start = 0
        for field in self.recursion.target.fields:
            assert isinstance(field, Field)
            found += [(start + a, start + b) for a, b in field.edges]
            start += field.nodes
        return tuple(found)

    @property
    def labels(self) -> dict[int, int]:
        """The subscript that each slot has in the recursion as it is printed: 1, 2, …"""
        return {slot: place for place, slot in enumerate(self.recursion.target.subscripts, start=1)}

    @property
    def brackets(self) -> tuple[str, ...]:
        """σ's at each of `neurons`, before any derivative by z."""
        orders = {slot: order for part in self.parts for _, slot, order, _ in part.factors}
        return tuple(
            str(Average(sorted((self.labels[slot], orders[slot]) for slot in slots)))
            for slots in self.neurons
        )

    @cached_property
    def single_input(self) -> sympy.Expr:
        """The terms with all inputs equal.

        Σ_a ∂_a over the samples of a neuron is then the derivative of its product of σ's, and
        each such sum over one of m samples has m terms in `terms`.
        """
        one = self.recursion.single_input()
        total = sympy.S.Zero
        for (mono, _), value in self.terms.items():
            part = sympy.Rational(value.numerator, value.denominator)
            for atom, power in mono:
                if isinstance(atom, Bracket):
                    samples, times = len(atom.factors), len(atom.outer)
                    factors = tuple(sorted((1, order) for _, order in atom.factors))
                    part /= samples ** (times * power)
                    same: object = Bracket(factors, (1,) * times)
                elif isinstance(atom, Tensor):
                    same = tensor(atom.fields, atom.order, atom.pairing, (1,) * len(atom.samples))
                else:
                    same = atom
                part *= one.symbol(same) ** power
            total += part
        return total

    @property
    def formula(self) -> str:
        """`single_input`, as text."""
        return _plain(str(self.single_input))

    @property
    def words(self) -> str:
        """The diagram in words."""
        neurons = ", ".join(
            f"{bracket} at the neuron of {self._pairs([slots])}"
            for bracket, slots in zip(self.brackets, self.neurons, strict=True)
        )
        home = {slots[0]: self._pairs([slots]) for slots in self.neurons}
        tensors = "".join(
            f"; {_plain(name)} with "
            + ", ".join(f"{legs} legs at {home[slot]}" for slot, legs in Counter(ends).items())
            for name, ends in self.tensors
        )
        new = f" new parameters {self._pairs(sorted(self.new))};" if self.new else ""
        product = " a subtracted product;" if len(self.parts) > 1 else ""
        columns = f"columns {self._pairs(self.columns)}; " if self.columns else ""
        return (
            f"{self.formula}: rows {self._pairs(self.rows)};{new}{product} {columns}"
            f"{neurons or 'the biases'}{tensors}"
        )

    def _pairs(self, groups: Sequence[Slots]) -> str:
        return "".join(f"({' '.join(str(self.labels[k]) for k in slots)})" for slots in groups)


def diagrams(recursion: Recursion) -> tuple[Diagram, ...]:
    """The diagrams of a recursion, whose terms add up to its right-hand side.

    What cancels altogether between the moment and the products that a cumulant subtracts is left
    out. Raises InputError for layer 1, which has no layer ℓ to draw, and for fields that are not
    trees of derivatives.
    """
    target = recursion.target
    if recursion.first_layer:
        raise InputError("recursion", recursion.name, "a step from a hidden layer")
    if not all(isinstance(field, Field) for field in target.fields):
        raise InputError("recursion", recursion.name, "fields that are z or its derivatives by θ")
    count = len(target.subscripts)
    labelled = replace(recursion, activation=None, samples=target.subscripts)
    power = target.pairs - 1 + target.order
    marked = cumulants.layer_cumulant(
        target.fields,
        tuple(range(count)),
        recursion.weights,
        power,
        recursion.equal_widths,
        _marking,
        pairing=target.pairing,
        corrections=recursion.corrections,
    )[target.pairing]
    found: dict[tuple[tuple[Summand, ...], tuple[Slots, ...], Legs], Expansion] = {}
    for (mono, at), value in marked.items():
        parts = tuple(atom for atom, _ in mono if isinstance(atom, Summand))
        terms: Monomial = frozenset(item for item in mono if not isinstance(item[0], Summand))
        if at == power and (terms, 0) in labelled.terms:
            key = (_sorted(parts), _neurons(terms), _tensors(terms))
            add(found.setdefault(key, {}), {(terms, 0): value})
    made = [
        Diagram(labelled, parts, neurons, tensors, terms)
        for (parts, neurons, tensors), terms in found.items()
        if terms
    ]
    return tuple(
        sorted(
            made, key=lambda each: (each.columns, sorted(each.new), len(each.neurons), each.words)
        )
    )


def _marking(average: cumulants.Average, whole: Summand, order: int) -> Expansion:
    """The average over the layer below, times the term itself as one more atom."""
    averaged = average.neurons(whole, order)
    return multiply(averaged, {(monomial([whole]), 0): Fraction(1)}, order)


def _sorted(parts: Sequence[Summand]) -> tuple[Summand, ...]:
    return tuple(sorted(parts, key=lambda part: (part.factors, part.deltas, part.biases)))


def _neurons(mono: Monomial) -> tuple[Slots, ...]:
    brackets = [atom for atom, exponent in mono if isinstance(atom, Bracket)]
    return tuple(sorted(tuple(slot for slot, _ in bracket.factors) for bracket in brackets))


def _tensors(mono: Monomial) -> Legs:
    """A tensor's legs by neuron alone: which of a bracket's samples is differentiated is summed."""
    home = {slot: slots[0] for slots in _neurons(mono) for slot in slots}
    found = []
    for atom, exponent in mono:
        if isinstance(atom, Tensor):
            name, samples = spell(atom)
            found += [(name, tuple(sorted(home.get(slot, slot) for slot in samples)))] * exponent
    return tuple(sorted(found))


_LETTERS = {"lambda": "λ", "Theta": "Θ", "gamma": "γ"}


def _plain(formula: str) -> str:
    for name, letter in _LETTERS.items():
        formula = formula.replace(name, letter)
    formula = re.sub(
        r"\*\*(\d+)", lambda m: m[1].translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")), formula
    )
    return formula.replace("*", " ").replace("'", "′").replace("-", "−")


WIDTH, HEIGHT, STEP = 250, 236, 44
TOP, FORK, NEURON, BLOB = 82, 122, 156, 204


@dataclass(frozen=True)
class Drawing:
    """Diagrams side by side, as an SVG with a title and a description in words."""

    title: str
    panels: tuple[Diagram, ...]
    per_row: int = 4

    def svg(self) -> str:
        """The picture."""
        across = min(self.per_row, len(self.panels))
        down = -(-len(self.panels) // self.per_row)
        size = f'width="{across * WIDTH}" height="{down * HEIGHT}"'
        described = "\n".join(panel.words for panel in self.panels)
        body = "\n".join(
            f'<g transform="translate({WIDTH * column},{HEIGHT * row})">'
            f"<title>{escape(panel.words)}</title>{''.join(_panel(panel))}</g>"
            for (row, column), panel in zip(
                product(range(down), range(self.per_row)), self.panels, strict=False
            )
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="serif" '
            f'viewBox="0 0 {across * WIDTH} {down * HEIGHT}" font-size="12" text-anchor="middle" '
            'fill="none" stroke="#222">\n'
            f"<title>{escape(self.title)}</title>\n<desc>{escape(described)}</desc>\n"
            f'<rect width="100%" height="100%" fill="white" stroke="none"/>\n{body}\n</svg>\n'
        )

    def savefig(
        self, path: str | os.PathLike[str], *, metadata: Mapping[str, object] | None = None
    ) -> None:
        """Write the SVG, whole or not at all; it has no other metadata than its text."""
        write_text(self.svg(), path)


def draw(recursion: Recursion) -> Drawing:
    """All diagrams of a recursion."""
    name = f"{recursion.name} with {recursion.weights.name} weights"
    return Drawing(f"Where the terms of {name} come from", diagrams(recursion))


def _panel(diagram: Diagram) -> Iterator[str]:
    count = 2 * len(diagram.rows)
    top = _spread(range(count), STEP)
    forks = _spread(diagram.columns, STEP * 1.3)
    neurons = _spread(diagram.neurons, STEP * 1.8)
    home = {slot: slots for slots in diagram.neurons for slot in slots}
    for a, b in diagram.rows:
        rise = 16 + 9 * (b - a)
        yield _curve((top[a], TOP - 9), (top[b], TOP - 9), -rise, "#1f5fa8")
    for a, b in diagram.edges:
        dashed = ' stroke-dasharray="4 3"' if (a, b) in diagram.new else ""
        yield _curve(
            (top[a], TOP), (top[b], TOP), 7 * (b - a - 1), "#777", f'stroke-width="3"{dashed}'
        )
    for slots in diagram.columns:
        for slot in slots:
            yield _line((top[slot], TOP), (forks[slots], FORK), "#b4441c")
        yield _line((forks[slots], FORK), (neurons[home[slots[0]]], NEURON), "#b4441c")
    blobs = _spread(range(len(diagram.tensors)), STEP * 1.6)
    for k, (name, legs) in enumerate(diagram.tensors):
        for number, slot in enumerate(legs):
            twin = legs[:number].count(slot)
            bend = 8 * (twin + 1) // 2 * (-1) ** twin if legs.count(slot) > 1 else 0
            x = neurons[home[slot]]
            yield (
                f'<path d="M{blobs[k]:.0f} {BLOB} Q{(blobs[k] + x) / 2 + bend:.0f} '
                f'{(BLOB + NEURON) / 2:.0f} {x:.0f} {NEURON}" stroke="#3b7a3b"/>'
            )
        yield f'<ellipse cx="{blobs[k]:.0f}" cy="{BLOB}" rx="15" ry="11" fill="#dcebd6"/>'
        yield _text(blobs[k], BLOB + 4, _plain(name))
    for slot in range(count):
        yield f'<circle cx="{top[slot]:.0f}" cy="{TOP}" r="9" fill="white"/>'
        yield _text(top[slot], TOP + 4, str(diagram.labels[slot]))
    for slots, bracket in zip(diagram.neurons, diagram.brackets, strict=True):
        yield f'<circle cx="{neurons[slots]:.0f}" cy="{NEURON}" r="4" fill="#222"/>'
        side = -1 if neurons[slots] < WIDTH / 2 else 1
        anchor = "end" if side < 0 else "start"
        yield _text(neurons[slots] + 8 * side, NEURON + 4, bracket.replace("'", "′"), anchor)
    yield _text(WIDTH / 2, HEIGHT - 8, diagram.formula)


def _spread(items: Sequence[Slots] | Sequence[int] | range, step: float) -> dict[object, float]:
    """Equal distances around the middle of the panel, in order."""
    first = WIDTH / 2 - step * (len(items) - 1) / 2
    return {item: first + step * k for k, item in enumerate(items)}


def _curve(
    start: tuple[float, float], end: tuple[float, float], sag: float, colour: str, more: str = ""
) -> str:
    """A quadratic arc that bends by `sag` downwards, as seen on the page."""
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 2 * sag
    return (
        f'<path d="M{start[0]:.0f} {start[1]:.0f} Q{x:.0f} {y:.0f} {end[0]:.0f} {end[1]:.0f}" '
        f'stroke="{colour}" {more}/>'
    )


def _line(start: tuple[float, float], end: tuple[float, float], colour: str) -> str:
    return _curve(start, end, 0, colour)


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    lowered = r'\1<tspan dy="3" font-size="9">\2</tspan><tspan dy="-3">&#8203;</tspan>'
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" fill="#111" stroke="none" text-anchor="{anchor}">'
        f"{re.sub('([Cλ])_([Wb])', lowered, escape(text))}</text>"
    )
