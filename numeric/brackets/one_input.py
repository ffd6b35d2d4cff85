"""Brackets with every position at one z ~ N(0, K), as source: `brackets(K)`, one loop for all.

Analytic σ: Leibniz's rule puts the derivatives inside and the trapezoid rule sums. At large K the
nodes' terms, each of the size of F^{(k)}, then cancel to an average that shrinks as K^{−k/2}, so a
second form of every outer derivative is summed beside the first,

    ⟨F^{(k)}⟩_K = K^{−m/2} ⟨F^{(k−m)} He_m(z/√K)⟩_K ,      m = k − `quadrature.settled`,

by parts, and the one of which the sum of absolute values is the smaller is returned: its rounding
error, machine epsilon times that sum, is the smaller too.

Piecewise analytic σ: the integrand is a distribution, a piecewise function plus terms
c δ^{(m)}(z − κ),

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

from derive.activations.functions import Activation, z
from derive.arithmetic import hermite
from derive.gaussian.distributions import Distribution, distribution
from derive.gaussian.shapes import SingleShape, is_even, leibniz
from derive.work.caches import cache

from ..emit import printer
from . import quadrature
from .shapes import check, describe


def source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)`: a tuple of the brackets of these shapes, summed in one loop.

    K = 0 gives the limit, ±inf where there is none; K outside [0, ∞) gives nan. It goes after
    `modules.PRELUDE`. For analytic σ the error is 2e^{−36} ≈ 5e-16 of the integrand's size, for
    piecewise linear σ near 1e-15, and for other σ near 1e-14. Cancellation within the integrand
    comes on top. It is Python that `codegen.c` translates, too: scalars, tuples, loops, tables.
    """
    for shape in shapes:
        check(shape)
    emit = _smooth_source if activation.is_smooth else _kinked_source
    return emit(activation, shapes)


def _smooth_source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)` for an analytic activation; what is odd in z is zero and not summed."""
    kept = [not activation.is_odd or is_even(*shape) for shape in shapes]
    sums = smooth_sums(
        activation, [shape for shape, keep in zip(shapes, kept, strict=True) if keep]
    )
    given = {
        "outside": printer.listing(["math.nan"] * len(shapes)),
        "about": _about(activation, shapes),
    }
    if not sums.near:
        return printer.filled(_ODD, zeros=printer.listing(["0.0"] * len(shapes)), **given)
    f, g = (_names(letter, len(sums.integrands)) for letter in "fg")
    parts = [*sums.near_parts(), *sums.far_parts()]
    t, r, d = (_names(letter, len(parts)) for letter in "trd")
    at = {part: place for place, part in enumerate(parts)}
    step = [] if activation.is_odd else [f"{printer.listing(g)} = integrands(-z)"]
    step += sums.hermite_lines()
    values, choices = [], []
    for place, far in enumerate(sums.far):
        near = at[place, 0]
        value = t[near]
        if far is not None:
            k, value = at[far], f"v{place}"
            choices += [f"p = powers({far[1]}, 1.0 / scale)"]
            choices += [f"{value} = {t[k]} * p if {r[k]} * p < {r[near]} else {t[near]}"]
        values.append(f"c * {value}")
    for k, fold in enumerate(_folds(parts, odd=activation.is_odd)):
        step += [f"{d[k]} = w * {fold}", f"{t[k]} += {d[k]}", f"{r[k]} += abs({d[k]})"]
    found = iter(values)
    functions = [_integrands(activation, sums.integrands), *([_POWERS] if any(sums.far) else [])]
    accuracy = quadrature.ACCURACY[0]
    strips = quadrature.strips(activation)
    return printer.filled(
        _SMOOTH,
        tables=printer.constant("STRIPS", strips) + printer.constant("GROWTH", sums.growth),
        strips=len(strips),
        finest=repr(quadrature.FINEST),
        stretch=repr(sums.stretch),
        stretched_step=repr(sums.stretched_step),
        functions="\n\n".join(functions),
        accuracy=repr(accuracy),
        degree=sums.degree,
        stretched=repr(quadrature.STRETCHED),
        near=repr(quadrature.NEAR_REACH),
        sums=" = ".join([*t, *r]),
        f=printer.listing(f),
        step=step,
        least=repr(math.sqrt(2.0 * accuracy)),
        small=" and ".join(f"abs({a}) <= 1e-17 * {b}" for a, b in zip(d, r, strict=True)),
        choices=choices,
        returned=printer.listing(next(found) if keep else "0.0" for keep in kept),
        **given,
    )


_HEAD = '''\
@quadrature
def brackets(K):
    """$about
    """
    if not 0.0 <= K < math.inf:
        return $outside'''

_ODD = f"""\
{_HEAD}
    return $zeros
"""

_SMOOTH = f'''\
$tables
STRETCH = $stretch
STRETCHED_STEP = $stretched_step


$functions


@driver
def step(scale):
    """The largest step h in x that keeps the trapezoid rule for F(scale x) within 2e^-$accuracy.

    2 pi a/h = $accuracy + a^2/2 + GROWTH[j] bounds the error for every a <= STRIPS[j]/scale, with
    $degree/2 log(1 + a^2) added for a Hermite polynomial of that degree in x beside F. The step 0.5
    is for small scales, where GROWTH overrates what F contributes. A scale that would need a step
    below $finest gives nan, and so does its bracket.
    """
    largest = 0.0
    for j in range($strips):
        needed = $accuracy + GROWTH[j]
        a = min(STRIPS[j] / scale, math.sqrt(2.0 * needed))
        needed += 0.5 * $degree * math.log(1.0 + a * a)
        largest = max(largest, 2.0 * math.pi * a / (needed + 0.5 * a * a))
    return min(largest, 0.5) if largest > $finest else math.nan


{_HEAD}
    scale = math.sqrt(K)
    h = 1.0
    count = 1
    stretched = False
    c = 1.0
    if K > 0.0:
        h = step(scale)
        if STRETCHED_STEP > 0.0 and scale >= $stretched:
            reach = math.asinh($near * scale / STRETCH) / STRETCHED_STEP
            stretched = not reach >= $near / h
        if stretched:
            h = STRETCHED_STEP
            count = int(math.asinh(38.0 * scale / STRETCH) / h)
        elif math.isnan(h):
            return $outside
        else:
            count = int(38.0 / h)
        c = h / math.sqrt(2.0 * math.pi)
    $sums = 0.0
    for k in range(count):
        x = h * k
        w = 1.0 if k > 0 else 0.5
        if stretched:
            x = math.sinh(x) * STRETCH / scale
            w *= math.sqrt(x * x + STRETCH / scale * (STRETCH / scale))  # cosh, bounded
        w *= math.exp(-0.5 * x * x)
        z = scale * x
        $f = integrands(z)
        $step
        if x > $least and $small:
            break
    $choices
    return $returned
'''

_POWERS = '''\
@scalar
def powers(degree: int, base):
    """base^degree; beyond doubles it is infinite, and what it multiplies is not chosen."""
    result = 1.0
    for _ in range(degree):
        result *= base
    return result
'''

Terms = Counter[tuple[int, ...]]

Part = tuple[int, int]
"""(index of an integrand, degree of Hermite's polynomial of x beside it)."""


def _times(value: str, degree: int) -> str:
    return f"h{degree} * {value}" if degree else value


def _folds(parts: Sequence[Part], *, odd: bool) -> list[str]:
    """The integrands at z and at −z, added."""
    if odd:
        return [f"2.0 * {_times(f'f{index}', degree)}" for index, degree in parts]
    signs = ["-" if degree % 2 else "+" for _, degree in parts]
    return [
        _times(f"(f{index} {sign} g{index})", degree)
        for (index, degree), sign in zip(parts, signs, strict=True)
    ]


class SmoothSums(NamedTuple):
    """Sums in `brackets` of an analytic activation: `integrands` of z, of which the first `near`
    are the brackets' own; for bracket k, far[k] = (index, m) says that it is also the average of
    that integrand times He_m(z/√K) K^{−m/2}."""

    integrands: list[Terms]
    near: int
    far: list[Part | None]
    growth: tuple[float, ...]
    stretch: float
    stretched_step: float

    @property
    def degree(self) -> int:
        """The highest degree of a Hermite polynomial."""
        return max((part[1] for part in self.far if part), default=0)

    def near_parts(self) -> list[Part]:
        """The brackets as they are."""
        return [(place, 0) for place in range(self.near)]

    def far_parts(self) -> list[Part]:
        """Their other forms, each once."""
        return list(dict.fromkeys(part for part in self.far if part))

    def hermite_lines(self) -> list[str]:
        """h1 = He_1(x), h2 = He_2(x), …"""
        lines = ["h1 = x"] if self.degree else []
        for m in range(1, self.degree):
            lines.append(f"h{m + 1} = x * h{m} - {float(m)!r}" + (f" * h{m - 1}" if m > 1 else ""))
        return lines


def smooth_sums(activation: Activation, shapes: Sequence[SingleShape]) -> SmoothSums:
    """The sums for these shapes, and the steps that all of them allow."""
    return _smooth_sums(activation, tuple(shapes))


@cache(entries=256)
def _smooth_sums(activation: Activation, shapes: tuple[SingleShape, ...]) -> SmoothSums:
    near = [leibniz(*shape) for shape in shapes]
    integrands, far = list(near), list[Part | None]()
    places: dict[tuple[tuple[int, ...], int], int] = {}
    for shape in shapes:
        inside = quadrature.settled(activation, shape.orders, shape.outer)
        if inside == shape.outer:
            far.append(None)
            continue
        key = tuple(sorted(shape.orders)), inside
        if key not in places:
            places[key] = len(integrands)
            integrands.append(leibniz(shape.orders, inside))
        far.append((places[key], shape.outer - inside))
    summed = [(terms, 0) for terms in near]
    summed += [(integrands[part[0]], part[1]) for part in dict.fromkeys(far) if part]
    return SmoothSums(
        integrands,
        len(near),
        far,
        quadrature.growth(activation, integrands),
        quadrature.stretch(activation),
        quadrature.stretched_step(activation, summed),
    )


def _integrands(activation: Activation, terms: Sequence[Terms]) -> str:
    """The averaged functions in symbols s0, s1, … for σ, σ', …"""
    s = sympy.symbols(f"s:{1 + max(max(f, default=0) for term in terms for f in term)}", real=True)
    results = [
        sympy.Add(*(c * sympy.Mul(*(s[m] for m in factors)) for factors, c in term.items()))
        for term in terms
    ]
    used = sorted({m for term in terms for factors in term for m in factors})
    derivatives = [(s[m], activation.derivative(m)) for m in used]
    doc = "The averaged functions of z, from s0 = σ(z), s1 = σ'(z), …"
    return printer.function("integrands", [z], results, derivatives, decorator="@scalar", doc=doc)


def limit(activation: Activation, distribution: Distribution) -> sympy.Expr:
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


def _kinked_source(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    """`brackets(K)` for a piecewise analytic activation."""
    scale = sympy.Symbol("scale", positive=True)
    found = [distribution(activation, shape) for shape in shapes]
    e, f = (_names(letter, len(shapes)) for letter in "ef")
    regular = [k for k, one in enumerate(found) if any(one.pieces)]
    panels, smooth = quadrature.PANELS[0], quadrature.smooth_width(activation)
    reach, rate = repr(panels.reach), quadrature.rate(activation)
    if rate:
        factors = max(len(shape.orders) for shape in shapes)
        reach = f"min({reach} + {factors * rate!r} * scale, 38.0)"
    nodes, weights = quadrature.legendre(panels.nodes)
    kinks = [float(kink) for kink in activation.kinks]
    tables = [
        printer.constant("KINKS", kinks),
        printer.constant("NODES", nodes, array=True),
        printer.constant("WEIGHTS", weights, array=True),
    ]
    bounded = math.isfinite(smooth)
    integrands = printer.function(
        "integrands",
        [z],
        [_piecewise(activation, found[k].pieces) for k in regular],
        decorator="@scalar",
        doc="The averaged functions of z, away from kinks.",
    )
    at_kinks = printer.function(
        "at_kinks",
        [scale],
        [_at_kinks(one, scale) for one in found],
        decorator="@scalar",
        doc="What the kinks add, for scale = √K.",
    )
    loop = printer.filled(
        _PANELS,
        reach=reach,
        width=f"min({panels.width!r}, {smooth!r} / scale)" if bounded else repr(panels.width),
        kinks=len(kinks),
        nodes=panels.nodes,
        f=printer.listing(f[k] for k in regular),
        sums=[f"{e[k]} += w * {f[k]}" for k in regular],
    )
    outside = printer.listing(["math.nan"] * len(shapes))
    fine = [f"if {smooth!r} / scale < {quadrature.FINEST!r}:", f"    return {outside}"]
    return printer.filled(
        _KINKED,
        tables=tables if regular else [],
        functions="\n\n".join([*([integrands] if regular else []), at_kinks]),
        outside=outside,
        limits=printer.listing(printer.literal(float(limit(activation, one))) for one in found),
        refused=fine if bounded else [],
        totals=printer.listing(e),
        loop=loop if regular else [],
        about=_about(activation, shapes),
    )


_KINKED = f"""\
$tables


$functions


{_HEAD}
    if K == 0.0:
        return $limits
    scale = math.sqrt(K)
    $refused
    $totals = at_kinks(scale)
    $loop
    return $totals
"""

_PANELS = """\
reach = $reach
width = $width
left = -reach
for panel in range($kinks + 1):
    right = min(KINKS[panel] / scale, reach) if panel < $kinks else reach
    if right > left:
        parts = int(math.ceil((right - left) / width))
        half = 0.5 * (right - left) / parts
        for part in range(parts):
            for node in range($nodes):
                x = left + half * (2 * part + 1 + NODES[node])
                w = half * WEIGHTS[node] * math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
                $f = integrands(scale * x)
                $sums
        left = right
"""


def _piecewise(activation: Activation, parts: Sequence[sympy.Expr]) -> sympy.Expr:
    *branches, last = parts
    cuts = [(part, z < kink) for part, kink in zip(branches, activation.kinks, strict=True)]
    return sympy.Piecewise(*cuts, (last, True))


def _at_kinks(distribution: Distribution, scale: sympy.Symbol) -> sympy.Expr:
    """The sum of c ⟨δ^{(m)}(z − κ)⟩, scale = √K; for |κ| > 38 √K it is zero to the last bit."""
    terms = []
    for (kink, order), coefficient in sorted(distribution.deltas.items(), key=str):
        x = kink / scale
        polynomial, u, Q = hermite.polynomial((order,))
        he = polynomial.subs(dict(zip((*u, *Q.values()), (x, 1), strict=False)))
        term = coefficient * he * sympy.exp(-(x**2) / 2) / scale ** (order + 1)
        if kink != 0:
            term = sympy.Piecewise((term, abs(kink) < 38 * scale), (0, True))
        terms.append(term / sympy.sqrt(2 * sympy.pi))
    return sympy.Add(*terms)


def _about(activation: Activation, shapes: Sequence[SingleShape]) -> str:
    first = f"Averages over z ~ N(0, K) with the activation {activation.name}:"
    return "\n    ".join([first, "", *map(describe, shapes)])


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{k}" for k in range(count)]
