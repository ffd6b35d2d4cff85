"""Functionals of one function in print: what stands in a recursion, and how their members move.

With one input a functional X(F) of a product F is Σ_b X_b ⟨∂^b F⟩/b!, X_b = X(:z^b:), of which one
member is a tensor: V = κ_2, G1 = G_2, Θ1 = θ_0, D = d_2, F = f_1, B = β_0 (`skip_closure.MEMBERS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import factorial
from typing import Any

import sympy

from ..arithmetic.polynomials import Expansion
from ..gaussian.brackets import Component
from ..symbols import K, Symbol
from ..symbols import tensor as tensor_symbol
from .exchangeable import Labels, Local, Pair
from .skip_closure import BRANCHES, MEMBERS, functional_in, subscripts

_PRODUCTS = {
    (0, 0): ("s", "σ²", r"\sigma^{2}"),
    (0, 1): ("u", "σσ'", r"\sigma \sigma'"),
    (1, 1): ("t", "σ'²", r"\sigma'^{2}"),
    (-1, 0, 1): ("e", "y σσ'", r"y \sigma \sigma'"),
    (-1, 1, 1): ("v", "y σ'²", r"y \sigma'^{2}"),
    (-1, 1, 2): ("w", "y σ'σ''", r"y \sigma' \sigma''"),
    (0, 2): ("c", "σσ''", r"\sigma \sigma''"),
    (1, 2): ("h", "σ'σ''", r"\sigma' \sigma''"),
    (2, 2): ("k", "σ''²", r"\sigma''^{2}"),
    (1, 3): ("m", "σ'σ'''", r"\sigma' \sigma'''"),
}
"""By the orders of the factors, −1 for y: a letter, text and LaTeX."""
_SHOWN = {letter: (text, latex) for letter, text, latex in _PRODUCTS.values()}


class Derivative(sympy.Expr):
    """⟨∂^b σ²⟩_K with b a symbol: one input's bracket as a member of a sequence.

    Of σσ', σ'² and, behind a norm, yσσ', yσ'² and yσ'σ'', by the letters "u", "t", "e", "v" and
    "w" where "s" is σ²; of σσ'', σ'σ'', σ''² and σ'σ''' by "c", "h", "k" and "m".
    """

    is_commutative = True
    is_real = True

    def __new__(cls, order: Any, of: Any = "s") -> Derivative:
        """Of this order."""
        letter = sympy.Symbol(str(of))
        made: Derivative = super().__new__(cls, sympy.sympify(order), letter)
        return made

    def _sympystr(self, printer: Any) -> str:
        text, _ = _SHOWN[str(self.args[1])]
        return f"⟨({text}){self._order(printer, '^(', ')')}⟩"

    def _latex(self, printer: Any) -> str:
        _, latex = _SHOWN[str(self.args[1])]
        order = self._order(printer, "^{(", ")}")
        return rf"\left\langle \left({latex}\right){order}\right\rangle_{{K}}"

    def _order(self, printer: Any, before: str, after: str) -> str:
        """Primes, or the order between these."""
        order = self.args[0]
        few = order.is_Integer and 0 < int(order) < 4
        return "'" * int(order) if few else before + printer.doprint(order) + after


B = Symbol("b", integer=True, positive=True)
"""The place in a sequence."""
KAPPA, SINGLES = sympy.IndexedBase("kappa", real=True), sympy.IndexedBase("G", real=True)
"""κ_b = Two(:zz:, :z^b:) and G_b = One(:z^b:)."""
SEQUENCE: dict[str, sympy.IndexedBase] = {
    "kappa": KAPPA,
    "One": SINGLES,
    "Own": sympy.IndexedBase("theta", real=True),
    "Apart": sympy.IndexedBase("d", real=True),
    "Across": sympy.IndexedBase("f", real=True),
    "Square": sympy.IndexedBase("beta", real=True),
    "Together": sympy.IndexedBase("chi", real=True),
    **{kind: sympy.IndexedBase(kind, real=True) for kind in BRANCHES},
}
"""X_b of each functional."""


def symbol_of(atom: object, samples: Sequence[int]) -> sympy.Expr | None:
    """V_s, D_t, … for the value of a functional at σσ (s), σσ' (u) or σ'σ' (t), and behind a norm
    yσσ' (e), yσ'σ' (v) or yσ'σ'' (w); κ_1, … at z, with several samples V_1; None for others.

    Several samples are those of the tensor, as its subscripts, and then those of the product, y of
    the last.
    """
    found = functional_in(atom)
    if found is None or found[0] == "Mean" or found[1].tested is not None:
        return None
    kind, of = found
    if not of.factors and len(set(samples)) == 1:
        return SEQUENCE[kind][len(of.labels)]
    if not of.factors:
        return Component(f"{_letter(kind)}_{len(of.labels)}", (*subscripts(atom), *of.labels))
    name = value_name(kind, of.factors)
    if len(set(samples)) == 1:
        return tensor_symbol(name)
    return Component(name, (*subscripts(atom), *_in_order(of.factors)))


def value_name(kind: str, factors: tuple[Pair, ...]) -> str:
    """D_t of "Apart" at σ'σ': of dH and ddH with the block at which the function stands, P1_t."""
    return f"{kind if kind in BRANCHES else _letter(kind)}_{suffix_of(factors)}"


def _letter(kind: str) -> str:
    """The tensor among its members, or the sequence where there is none."""
    return str(MEMBERS[kind][0] if kind in MEMBERS else SEQUENCE[kind])


def suffix_of(factors: tuple[Pair, ...]) -> str:
    """s, u or t, and e, v or w behind a norm."""
    return _PRODUCTS[tuple(sorted(order for _, order in factors))][0]


def _in_order(factors: tuple[Pair, ...]) -> Labels:
    """The samples, that of σ before that of σ', and that which y is of last."""
    own = [sample for sample, order in factors if order < 0]
    ordered = sorted((order, sample in own, sample) for sample, order in factors if order >= 0)
    return tuple(sample for _, _, sample in ordered)


def value_of(kind: str, factors: tuple[Pair, ...], scale: sympy.Expr) -> sympy.Expr:
    """Σ_b X_b ⟨∂^b F⟩/b!; of those that are 0 at b = 0 from b = 1 on; `scale` is ∂/∂z of y."""
    first = 1 if kind in ("kappa", "One", "Apart") else 0
    term = SEQUENCE[kind][B] * scale**B * Derivative(B, suffix_of(factors)) / sympy.factorial(B)
    return sympy.Sum(term, (B, first, sympy.oo))


def member(
    terms: Expansion,
    gamma: sympy.Expr,
    symbol: Any,
    scale: sympy.Expr,
    degree: int | None = None,
) -> sympy.Expr:
    """X_b behind the layer, from the terms of X(f): of this b, or of one that has no member's name.

    Arguments:
        terms: of `skip_closure.functional_of`.
        gamma: γ.
        symbol: of each atom that has nothing of f.
        scale: of y = scale · z, the argument of σ.
        degree: b.
    """
    b = B if degree is None else sympy.Integer(degree)
    common = gamma ** (b - 2)
    total = sympy.Integer(0)
    for (mono, _), value in terms.items():
        parts: list[sympy.Expr] = [sympy.Rational(value.numerator, value.denominator)]
        for atom, exponent in mono:
            functional = functional_in(atom)
            if functional is None or functional[1].tested is None:
                parts.append(symbol(atom) ** exponent)
            else:
                parts.append(_of_test(*functional, gamma, scale, b, degree))
        term = sympy.prod(parts)
        total += term if degree is not None else sympy.powsimp(term / common)
    if degree is not None:
        return sympy.factor_terms(total)
    return sympy.powsimp(common * sympy.factor_terms(total))


def special(of_kind: str, terms: Expansion) -> list[int]:
    """The members beside the tensor whose recursions have terms that others do not have: those of
    means of Wick-ordered products alone, or times one y or two."""
    found = set()
    for mono, _ in terms:
        for atom, _ in mono:
            kind, of = functional_in(atom) or ("", Local())
            if kind == "Mean" and of.tested is not None:
                k, factors = len(of.tested), of.factors
                if all(order < 0 for _, order in factors):
                    found |= {k + len(factors), k + len(factors) % 2}
    return sorted(found - {0, *(MEMBERS[of_kind][1:] if of_kind in MEMBERS else ())})


def _of_test(
    kind: str,
    of: Local,
    gamma: sympy.Expr,
    scale: sympy.Expr,
    b: sympy.Expr,
    degree: int | None,
) -> sympy.Expr:
    """X(P f^{(k)}) for f = :z'^b:."""
    assert of.tested is not None
    k = len(of.tested)
    if kind == "Mean" and not of.factors:
        return sympy.Integer(factorial(k) if degree == k else 0)
    if degree is not None and degree < k:
        return sympy.Integer(0)
    ways = sympy.prod([b - step for step in range(k)]) * gamma ** (b - k)
    if kind == "Mean" and all(order < 0 for _, order in of.factors):  # y y, or y
        whole = {0: K * scale**2, 2: 2 * (K * scale) ** 2}
        moments = whole if len(of.factors) == 2 else {1: K * scale}
        return ways * moments.get(b - k, sympy.Integer(0))
    if kind == "Mean":
        bracket = Derivative(b - k, suffix_of(of.factors))
        return ways * (K * scale) ** (b - k) * bracket
    return ways * _named(kind, b - k)


def _named(kind: str, b: sympy.Expr) -> sympy.Expr:
    """X_b, a tensor where it has a name, and 0 where it is 0."""
    name, degree = MEMBERS.get(kind, (None, None))
    if b == degree:
        return tensor_symbol(str(name))
    return sympy.Integer(0) if b == 0 and kind in ("kappa", "One", "Apart") else SEQUENCE[kind][b]


def kinds_in(terms: Iterable[Expansion]) -> dict[str, set[tuple[Pair, ...]]]:
    """The functionals in terms, each with the products that it is taken of."""
    found: dict[str, set[tuple[Pair, ...]]] = {}
    for each in terms:
        for mono, _ in each:
            for atom, _ in mono:
                functional = functional_in(atom)
                if functional is not None and functional[0] != "Mean":
                    places = found.setdefault(functional[0], set())
                    if functional[1].factors:
                        places.add(functional[1].factors)
    return found
