"""Terms of a layer where samples meet: those of labels apart, with some of the labels equal.

Derivatives outside of a bracket go inside, each onto the factors of its own label, before labels
are equal: ⟨∂₁∂₂(σ'₁σ'₂)⟩ + ⟨∂₁∂₁(σ'₁σ'₂)⟩ becomes ⟨σ''σ'' + σ'''σ'⟩ = ½⟨∂∂(σ'σ')⟩, a number for σ
with kinks, where neither of the two is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from derive.arithmetic.polynomials import (
    UNIT,
    Expansion,
    add,
    multiply_all,
    of_kind,
    power,
)
from derive.engine.atoms import read
from derive.engine.exchangeable import Local, Moment, two
from derive.engine.skip_closure import BRANCHES
from derive.engine.tensors import Tensor, tensor
from derive.engine.through import Response
from derive.engine.trees import H
from derive.gaussian.brackets import Bracket, inside, normal_form


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
