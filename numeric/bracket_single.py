"""Brackets with every position at one z ~ N(0, K), as source: `brackets(K)`, one loop for all.

Analytic σ: Leibniz's rule puts the derivatives inside and the trapezoid rule sums. Piecewise
analytic σ: the integrand is a distribution, a piecewise function plus terms c δ^{(m)}(z − κ),

    ⟨δ^{(m)}(z − κ)⟩_K = He_m(κ/√K) K^{−m/2} e^{−κ²/2K} / √(2πK),

so that no derivative of a kink is ever sampled, and nothing cancels as K → 0. Products at a kink
are limits of smooth ones: `closed_forms.deltas`. Derived here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import sympy

from derive import closed_forms
from derive.activations import Activation, z

from . import printer, quadrature
from .bracket_shapes import SingleShape, describe, hermite, is_even, leibniz

_NEXT = "\n        "


def smooth_source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)` for an analytic activation; what is odd in z is zero and not summed."""
    kept = [not activation.is_odd or is_even(*shape) for shape in shapes]
    terms = [leibniz(*shape) for shape, keep in zip(shapes, kept, strict=True) if keep]
    t, d, f, g = (_names(letter, len(terms)) for letter in "tdfg")
    totals = iter(t)
    values = [next(totals) if keep else "0.0" for keep in kept]
    scaled = ["0.0" if value == "0.0" else f"c * {value}" for value in values]
    head = f'''@quadrature
def brackets(K):
    """{_doc(activation, shapes)}
    """
    if not 0.0 <= K < math.inf:
        return {printer.listing(["math.nan"] * len(shapes))}
'''
    if not terms:
        return head + f"    return {printer.listing(values)}\n"
    if activation.is_odd:
        step = [f"{a} = 2.0 * w * {b}" for a, b in zip(d, f, strict=True)]
    else:
        step = [f"{printer.listing(g)} = integrands(-scale * x)"]
        step += [f"{a} = w * ({b} + {c})" for a, b, c in zip(d, f, g, strict=True)]
    step += [f"{a} += {b}" for a, b in zip(t, d, strict=True)]
    small = " and ".join(f"abs({a}) <= 1e-17 * abs({b})" for a, b in zip(d, t, strict=True))
    accuracy = quadrature.ACCURACY[0]
    return f"""{printer.constant("GROWTH", quadrature.growth(activation, terms))}

{_integrands(activation, terms)}

{head}    scale = math.sqrt(K)
    {printer.listing(t)} = integrands(0.0)
    if K == 0.0:
        return {printer.listing(values)}
    h = step(scale, STRIPS, GROWTH, {accuracy!r}, 0.5)
    if math.isnan(h):
        return {printer.listing(["math.nan"] * len(values))}
    for k in range(1, int(38.0 / h)):
        x = h * k
        w = math.exp(-0.5 * x * x)
        {printer.listing(f)} = integrands(scale * x)
        {_NEXT.join(step)}
        if x > {math.sqrt(2.0 * accuracy)!r} and {small}:
            break
    c = h / math.sqrt(2.0 * math.pi)
    return {printer.listing(scaled)}
"""


Terms = Counter[tuple[int, ...]]


def leibniz_integrands(
    activation: Activation, terms: Sequence[Terms]
) -> tuple[list[sympy.Expr], list[tuple[sympy.Symbol, sympy.Expr]]]:
    """The averaged functions in symbols s0, s1, … for σ, σ', …, and what these are."""
    s = sympy.symbols(f"s:{1 + max(max(f, default=0) for term in terms for f in term)}", real=True)
    results = [
        sympy.Add(*(c * sympy.Mul(*(s[m] for m in factors)) for factors, c in term.items()))
        for term in terms
    ]
    used = sorted({m for term in terms for factors in term for m in factors})
    return results, [(s[m], activation.derivative(m)) for m in used]


def _integrands(activation: Activation, terms: Sequence[Terms]) -> str:
    results, derivatives = leibniz_integrands(activation, terms)
    doc = "The averaged functions of z, from s0 = σ(z), s1 = σ'(z), …"
    return printer.function("integrands", [z], results, derivatives, decorator="@scalar", doc=doc)


class _Distribution(NamedTuple):
    """A piecewise function plus Σ c δ^{(m)}(z − κ), deltas = {(κ, m): c}."""

    pieces: tuple[sympy.Expr, ...]
    deltas: dict[tuple[sympy.Expr, int], sympy.Expr]


def _distribution(activation: Activation, shape: SingleShape) -> _Distribution:
    """(d/dz)^outer Π σ^{(order)} as a distribution."""
    pieces = [_product(piece.expr, shape.orders) for piece in activation.pieces]
    deltas = Counter(closed_forms.deltas(activation, shape.orders))
    for _ in range(shape.outer):
        deltas = Counter({(kink, order + 1): c for (kink, order), c in deltas.items()})
        for kink, left, right in zip(activation.kinks, pieces, pieces[1:], strict=False):
            deltas[kink, 0] += (right - left).subs(z, kink)
        pieces = [piece.diff(z) for piece in pieces]
    simple = {at: sympy.simplify(c) for at, c in deltas.items()}
    return _Distribution(
        tuple(sympy.simplify(piece) for piece in pieces),
        {at: c for at, c in simple.items() if c != 0},
    )


def _product(piece: sympy.Expr, orders: Sequence[int]) -> sympy.Expr:
    return sympy.Mul(*(piece.diff(z, order) for order in orders))


def _limit(activation: Activation, distribution: _Distribution) -> sympy.Expr:
    """The average as K → 0: of even deltas at 0 the strongest wins, of odd ones nothing is left."""
    at_zero = {order: c for (kink, order), c in distribution.deltas.items() if kink == 0}
    if even := [order for order in at_zero if order % 2 == 0]:
        strongest = max(even)
        return sympy.sign(at_zero[strongest]) * (-1) ** (strongest // 2) * sympy.oo
    near = [
        part.subs(z, 0)
        for part, piece in zip(distribution.pieces, activation.pieces, strict=True)
        if piece.lower <= 0 <= piece.upper
    ]
    return sympy.Add(*near) / len(near)


def kinked_source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)` for a piecewise analytic activation."""
    scale = sympy.Symbol("scale", positive=True)
    found = kinked_pieces(activation, shapes, scale)
    e, f = (_names(letter, len(shapes)) for letter in "ef")
    regular = [k for k, one in enumerate(found.integrands) if one != 0]
    panels = quadrature.PANELS[0]
    reach, rate = repr(panels.reach), quadrature.rate(activation)
    if rate:
        factors = max(len(shape.orders) for shape in shapes)
        reach = f"min({reach} + {factors * rate!r} * scale, 38.0)"
    sums = [f"{e[k]} += w[i] * {f[k]}" for k in regular]
    loop = f"""    points = np.empty(len(KINKS))
    for j in range(len(KINKS)):
        points[j] = KINKS[j] / scale
    edges = split(points, len(KINKS), {reach}, min({panels.width!r}, SMOOTH / scale))
    x, w = legendre(edges, NODES_{panels.nodes}, WEIGHTS_{panels.nodes})
    for i in range(len(x)):
        {printer.listing(f[k] for k in regular)} = integrands(scale * x[i])
        {_NEXT.join(sums)}
"""
    integrands = printer.function(
        "integrands",
        [z],
        [found.integrands[k] for k in regular],
        decorator="@scalar",
        doc="The averaged functions of z, away from kinks.",
    )
    at_kinks = printer.function(
        "at_kinks",
        [scale],
        found.at_kinks,
        decorator="@scalar",
        doc="What the kinks add, for scale = √K.",
    )
    limits = printer.listing(map(printer.literal, found.limits))
    brackets = f'''@quadrature
def brackets(K):
    """{_doc(activation, shapes)}
    """
    if not 0.0 <= K < math.inf:
        return {printer.listing(["math.nan"] * len(shapes))}
    if K == 0.0:
        return {limits}
    scale = math.sqrt(K)
    {printer.listing(e)} = at_kinks(scale)
{loop if regular else ""}    return {printer.listing(e)}
'''
    return "\n\n".join([*([integrands] if regular else []), at_kinks, brackets])


class KinkedPieces(NamedTuple):
    """What `brackets` is made of: functions of z away from kinks, what the kinks add, by
    scale = √K, and the values at K = 0."""

    integrands: list[sympy.Expr]
    at_kinks: list[sympy.Expr]
    limits: list[float]


def kinked_pieces(
    activation: Activation, shapes: Sequence[SingleShape], scale: sympy.Symbol
) -> KinkedPieces:
    """The pieces for these shapes."""
    found = [_distribution(activation, shape) for shape in shapes]
    return KinkedPieces(
        [
            _piecewise(activation, one.pieces) if any(one.pieces) else sympy.Integer(0)
            for one in found
        ],
        [_at_kinks(one, scale) for one in found],
        [float(_limit(activation, one)) for one in found],
    )


def _piecewise(activation: Activation, parts: Sequence[sympy.Expr]) -> sympy.Expr:
    *branches, last = parts
    cuts = [(part, z < kink) for part, kink in zip(branches, activation.kinks, strict=True)]
    return sympy.Piecewise(*cuts, (last, True))


def _at_kinks(distribution: _Distribution, scale: sympy.Symbol) -> sympy.Expr:
    """Σ c ⟨δ^{(m)}(z − κ)⟩, scale = √K; for |κ| > 38 √K it is zero to the last bit."""
    total = sympy.Integer(0)
    for (kink, order), coefficient in sorted(distribution.deltas.items(), key=str):
        x = kink / scale
        polynomial, u, Q = hermite((order,))
        he = polynomial.subs(dict(zip((*u, *Q.values()), (x, 1), strict=False)))
        term = coefficient * he * sympy.exp(-(x**2) / 2) / scale ** (order + 1)
        if kink != 0:
            term = sympy.Piecewise((term, abs(kink) < 38 * scale), (0, True))
        total += term / sympy.sqrt(2 * sympy.pi)
    return total


def _doc(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    first = f"Averages over z ~ N(0, K) with the activation {activation.name}:"
    return "\n    ".join([first, "", *map(describe, shapes)])


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k}" for k in range(count)]
