"""What the recursions of a skip around one matrix are in: brackets, tensors, and two sequences.

With one input, K^b ⟨∂^b σσ⟩ being ⟨σσ :z^b:⟩, a function is known by its ⟨∂^b …⟩, and

    Two(:zz:, σσ) = Σ_b κ_b ⟨∂^b σσ⟩/b!,    κ_b = Two(:zz:, :z^b:),    κ_2 = V,
    One(σσ) = Σ_b G_b ⟨∂^b σσ⟩/b!,          G_b = One(:z^b:),         G_2 = G^{1} .
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import sympy

from ..arithmetic.polynomials import UNIT, Expansion, add, monomial, multiply
from ..errors import InputError
from ..gaussian.brackets import Bracket, Component
from ..groups.pairings import ordered
from ..symbols import K, Symbol
from ..symbols import tensor as tensor_symbol
from ..weights import WeightEnsemble
from .exchangeable import (
    Choices,
    Labels,
    Mean,
    One,
    Pair,
    Power,
    Skip,
    Test,
    Two,
    correction,
    covariance,
)
from .fields import Z
from .tensors import Name, Tensor, named, tensor

CLOSED = tuple(map(named, ("G1", "V")))
"""The tensors that have an exact recursion under a skip around one matrix."""


@cache
def recursion_of(name: Name, skip: Skip, weights: WeightEnsemble, samples: Labels) -> Expansion:
    """The terms of G1 or V behind the layer, with these sample labels.

    Atoms are those of the engine, and `Two(:z_S:, σσ)` and `One(σσ)`.
    """
    if name == named("V"):
        slots = [samples[slot] for slot in range(4)]
        return reduced(covariance(skip, weights, Test(tuple(slots[:2])), Test(tuple(slots[2:]))))
    if name == named("G1"):
        return reduced(correction(skip, weights, Test(tuple(samples))))
    wanted = f"one of {', '.join(map(str, CLOSED))}"
    raise InputError("tensors", str(name), wanted)


@cache
def quartic_of(skip: Skip, weights: WeightEnsemble, samples: Labels) -> Expansion:
    """The terms of One(:zzzz:) behind the layer, G_4."""
    return reduced(correction(skip, weights, Test(samples)))


@cache
def sequence_of(name: Name, skip: Skip, weights: WeightEnsemble, samples: Pair) -> Expansion:
    """The terms of κ_b, b ≠ 2, for V, or of G_b, b ≠ 2, 4, for G1 behind the layer.

    The labels of the samples are those of the :zz: in κ_b, or of two that are removed from b.
    """
    alike = Test((), 0)
    one = name == named("V")
    found = (
        covariance(skip, weights, Test((1, 2)), alike) if one else correction(skip, weights, alike)
    )
    return reduced(found, dict(zip((1, 2), samples, strict=True)))


def reduced(found: Expansion, samples: Mapping[int, int] | None = None) -> Expansion:
    """With brackets, tensors and kernels where these are all that stands behind an atom, at other
    samples where they are given."""
    total: Expansion = {}
    for (mono, at), value in found.items():
        term: Expansion = {(UNIT, at): value}
        for atom, exponent in mono:
            for _ in range(exponent) if exponent > 0 else ():
                term = multiply(term, _reduced(_at(atom, samples or {})), 1)
            if exponent < 0:
                term = multiply(term, {(frozenset({(atom, exponent)}), 0): Fraction(1)}, 1)
        add(total, term)
    return total


def _at(atom: object, samples: Mapping[int, int]) -> object:
    """An atom at other samples."""

    def moved(each: Test | Pair) -> Test | Pair:
        labels = each.labels if isinstance(each, Test) else each
        to = tuple(samples.get(label, label) for label in labels)
        return each._replace(labels=to) if isinstance(each, Test) else ordered(*to)

    if isinstance(atom, One):
        return One(moved(atom.of))
    if isinstance(atom, Two):
        return Two(moved(atom.one), moved(atom.other))
    if isinstance(atom, Mean):
        squares = tuple(
            ordered(*(samples.get(label, label) for label in each)) for each in atom.squares
        )
        return Mean(atom.test, squares)
    return atom


def _reduced(atom: object) -> Expansion:
    if isinstance(atom, Mean):
        return _mean(atom)
    if isinstance(atom, One) and isinstance(atom.of, Test) and len(atom.of.labels) == 2:
        return _one_atom(_metric(atom.of.labels))
    if isinstance(atom, Two):
        return _two(atom)
    return _one_atom(atom)


def _one_atom(atom: object) -> Expansion:
    return {(monomial([atom]), 0): Fraction(1)}


def _metric(labels: Labels) -> Tensor:
    return tensor((Z, Z), 1, ((0, 1),), labels)


def kernel(a: int, b: int) -> Tensor:
    """K_ab."""
    return tensor((Z, Z), 0, ((0, 1),), (a, b))


def vertex(one: Pair, other: Pair) -> Tensor:
    """V_(ab)(cd)."""
    return tensor((Z,) * 4, 0, ((0, 1), (2, 3)), (*one, *other))


def _mean(mean: Mean) -> Expansion:
    """⟨:z_S: F⟩ = Π K ⟨∂ … F⟩ by parts, each of S with any sample of F."""
    if mean.test.removed is not None:
        return _one_atom(mean)
    factors = tuple(sorted((label, 0) for pair in mean.squares for label in pair))
    labels = sorted({label for label, _ in factors})
    total: Expansion = {}
    for chosen in product(labels, repeat=len(mean.test.labels)):
        atoms: list[object] = [kernel(a, b) for a, b in zip(mean.test.labels, chosen, strict=True)]
        add(total, {(monomial([*atoms, Bracket(factors, tuple(sorted(chosen)))]), 0): Fraction(1)})
    return total


def curvatures(pair: Pair) -> Iterator[tuple[Pair, Bracket]]:
    """(a, b) and ⟨∂_a ∂_b σσ⟩, for each a and b."""
    factors = tuple(sorted((label, 0) for label in pair))
    for a, b in product(sorted(set(pair)), repeat=2):
        yield (a, b), Bracket(factors, ordered(a, b))


def _two(atom: Two) -> Expansion:
    """Two has no entries but those of degree 2 in one of its places:
    Two(f, g) = ½⟨∂∂f⟩ Two(:zz:, g) + ½⟨∂∂g⟩ Two(f, :zz:) − ¼⟨∂∂f⟩ V ⟨∂∂g⟩."""
    one, other = atom
    half = Fraction(1, 2)
    total: Expansion = {}
    if isinstance(one, Test) and isinstance(other, Test):
        if one.removed is None and other.removed is None:
            ab, cd = ((t.labels[0], t.labels[1]) for t in (one, other))
            return _one_atom(vertex(ab, cd))
        return _one_atom(atom)
    if isinstance(one, Test) and one.removed is None:
        return _one_atom(atom)
    assert not isinstance(other, Test)
    if isinstance(one, Test):  # b samples: ⟨∂∂:z^b:⟩ = 0
        for ab, curved in curvatures(other):
            add(total, {(monomial([curved, Two(Test(ab), one)]), 0): half})
        return total
    for ab, curved in curvatures(one):
        add(total, {(monomial([curved, Two(Test(ordered(*ab)), other)]), 0): half})
    for cd, curved in curvatures(other):
        add(total, {(monomial([curved, Two(Test(ordered(*cd)), one)]), 0): half})
    for ab, curved in curvatures(one):
        for cd, bent in curvatures(other):
            add(total, {(monomial([curved, bent, vertex(ab, cd)]), 0): -half / 2})
    return total


_PRODUCTS = {
    "s": ("σ²", r"\sigma^{2}"),
    "u": ("σσ'", r"\sigma \sigma'"),
    "t": ("σ'²", r"\sigma'^{2}"),
    "e": ("y σσ'", r"y \sigma \sigma'"),
}


class Derivative(sympy.Expr):
    """⟨∂^b σ²⟩_K with b a symbol: one input's bracket as a member of a sequence.

    Of σσ', σ'² and, behind a norm, yσσ' too, by the letters "u", "t", "e" where "s" is σ².
    """

    is_commutative = True
    is_real = True

    def __new__(cls, order: Any, of: Any = "s") -> Derivative:
        """Of this order."""
        letter = sympy.Symbol(str(of))
        made: Derivative = super().__new__(cls, sympy.sympify(order), letter)
        return made

    def _sympystr(self, printer: Any) -> str:
        text, _ = _PRODUCTS[str(self.args[1])]
        return f"⟨({text})^({printer.doprint(self.args[0])})⟩"

    def _latex(self, printer: Any) -> str:
        order, (_, latex) = printer.doprint(self.args[0]), _PRODUCTS[str(self.args[1])]
        return rf"\left\langle \left({latex}\right)^{{({order})}}\right\rangle_{{K}}"


B = Symbol("b", integer=True, positive=True)
"""The place in a sequence."""
KAPPA, SINGLES = sympy.IndexedBase("kappa", real=True), sympy.IndexedBase("G", real=True)
"""κ_b = Two(:zz:, :z^b:) and G_b = One(:z^b:)."""


def of_sequence(atom: object, samples: Labels, gamma: sympy.Expr) -> sympy.Expr | None:
    """What stands in a printed recursion for an atom that is or has a sequence; None for others.

    Arguments:
        atom: of `recursion_of` or `sequence_of`.
        samples: the recursion's labels; those of one input are all alike.
        gamma: γ.
    """
    single = len(set(samples)) == 1

    def component(name: str, labels: Labels) -> sympy.Expr:
        return tensor_symbol(name) if single else Component(name, labels)

    if isinstance(atom, Two) and not isinstance(atom.other, Test):
        assert isinstance(atom.one, Test)
        return component("V_s", (*atom.one.labels, *atom.other))
    if isinstance(atom, Two):
        assert isinstance(atom.other, Test)
        return KAPPA[B - (atom.other.removed or 0)]
    if isinstance(atom, Mean):
        order = B - (atom.test.removed or 0)
        return K**order * Derivative(order)
    if isinstance(atom, One):
        if isinstance(atom.of, Test):
            return SINGLES[4] if atom.of.labels else SINGLES[B]
        return component("G1_s", atom.of)
    if isinstance(atom, Power):
        return gamma ** (B - atom.removed)
    return B * (B - 1) / 2 if isinstance(atom, Choices) else None
