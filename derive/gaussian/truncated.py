"""Averages over distinct samples of σ with kinks, its pieces polynomials times exponentials.

A product of derivatives of σ at a sample is Σ c z^n e^{rz}, cut off at kinks by θ(±(z − κ)), plus
Σ c δ^{(m)}(z − κ). e^{r·z} moves the mean of z ~ N(μ, K) to μ + Kr, times e^{r·μ + rᵀKr/2}; then,
with P = K^{−1},

    ⟨z_a G⟩ = μ_a ⟨G⟩ + Σ_b K_ab ⟨∂_b G⟩,      ⟨∂_b G⟩ = Σ_a P_ba ⟨(z_a − μ_a) G⟩

take the powers away and the derivatives of δ; δ(z_b − κ) fixes z_b, and what is left are
probabilities Φ_d(h; ρ) = P(x > 0) of x ~ N(h, ρ), in units of standard deviations, with d ≤ 4. They
are erfc for d = 1; with h = 0 they are 1/4 + asin(ρ)/2π, and 1/8 + Σ asin(ρ_ab)/4π. Elsewhere the
correlations of the first component grow from 0 with t (Plackett, Biometrika 41 (1954)),

    dΦ_d/dt = Σ_b ρ_1b φ_2(h_1, h_b; tρ_1b) Φ_{d−2}(the others, given that these two are 0),

which Arb integrates with a proof. All of it is in balls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import sympy
from flint import acb, arb, arb_mat, ctx

from ..arithmetic import balls
from ..arithmetic.balls import Matrix, ball, power
from ..errors import InputError, Words
from ..symbols import z
from ..work.caches import cache
from .distributions import Group, of_group
from .pieces import Pieces

Cut: TypeAlias = "tuple[int, int]"
"""A kink, and 1 where z is above it, −1 where below."""

WANTED = "without a precision, a σ with pieces that are no polynomials times exponentials"


_MOST = 4
_FEWER = "without a precision, four or more distinct inputs where kinks are not at 0"


class Term(NamedTuple):
    """c z^power e^{rate z}, where cut off, or with δ^{(order)} at a kink: (kink, order)."""

    coefficient: arb
    rate: sympy.Expr
    power: int
    cut: Cut | None
    delta: tuple[int, int] | None


class Factor(NamedTuple):
    """The function at a sample, without coefficient and exponential."""

    power: int
    cut: Cut | None
    delta: tuple[int, int] | None


Factors: TypeAlias = "tuple[tuple[int, Factor], ...]"
"""At each sample that is left, ascending."""

State: TypeAlias = "tuple[tuple[sympy.Expr, ...], tuple[tuple[int, int], ...]]"
"""The rates of exponentials at all samples, and the samples that are fixed, each at a kink."""


class _Normal(NamedTuple):
    """Means and covariances of all samples; those that are fixed have none left."""

    mean: list[arb]
    K: Matrix


def average(activation: Pieces, groups: Sequence[Group], K: Matrix, goal: float) -> arb:
    """⟨Π F_s(z_s)⟩ of what stands at distinct samples, at a kernel that is not singular."""
    terms, kinks = [], []
    for group in groups:
        own, marks = _balls(activation, group, ctx.prec)
        terms.append(own)
        kinks.append(marks)
    integral = _Integral(K, kinks, goal)
    total = arb(0)
    for each in product(*terms):
        value = integral.tilted(
            tuple(term.rate for term in each),
            tuple((s, Factor(t.power, t.cut, t.delta)) for s, t in enumerate(each)),
        )
        for term in each:
            value *= term.coefficient
        total += value
    return total


@cache(entries=4096)
def _balls(activation: Pieces, group: Group, precision: int) -> tuple[list[Term], list[arb]]:
    """The terms of a sample's function, and its kinks, in balls of so many bits."""
    found = of_group(activation, group)
    with ctx.workprec(precision):
        terms = [
            Term(ball(c), rate, n, cut, None)
            for cut, piece in _cut(found.kinks, found.pieces)
            for (rate, n), c in monomials(piece).items()
        ]
        terms += [
            Term(ball(c), sympy.Integer(0), 0, None, (found.kinks.index(kink), m))
            for (kink, m), c in found.deltas.items()
        ]
        return terms, [ball(kink) for kink in found.kinks]


def _cut(
    kinks: Sequence[sympy.Expr], pieces: Sequence[sympy.Expr]
) -> list[tuple[Cut | None, sympy.Expr]]:
    """The pieces as one of them, everywhere, and differences beyond kinks: away from the one that
    is a polynomial, so that exponentials stay where they are."""
    whole = [k for k, piece in enumerate(pieces) if sympy.sympify(piece).is_polynomial(z)]
    base = min(whole, key=lambda k: (pieces[k] != 0, k), default=0)
    found: list[tuple[Cut | None, sympy.Expr]] = [(None, pieces[base])]
    for k in range(len(kinks)):
        step = (pieces[k] - pieces[k + 1]) * (1 if k < base else -1)
        found.append(((k, -1 if k < base else 1), step))
    return found


def monomials(piece: sympy.Expr) -> dict[tuple[sympy.Expr, int], sympy.Expr]:
    """{(r, n): c} with piece = Σ c z^n e^{rz}.

    Raises InputError where it is no such sum.
    """
    found: dict[tuple[sympy.Expr, int], sympy.Expr] = {}
    expanded = sympy.expand(piece.rewrite([sympy.sinh, sympy.cosh], sympy.exp), power_exp=False)
    for term in sympy.Add.make_args(expanded) if expanded != 0 else ():
        fixed, moving = term.as_independent(z, as_Add=False)
        rate, power = sympy.Integer(0), 0
        for factor in sympy.Mul.make_args(moving):
            base, exponent = factor.as_base_exp()
            if isinstance(factor, sympy.exp):
                straight = sympy.Poly(factor.args[0], z) if _is_straight(factor.args[0]) else None
                if straight is None:
                    raise InputError("precision", Words(f"a precision with {piece}"), WANTED)
                rate += straight.coeff_monomial(z)
                fixed *= sympy.exp(straight.coeff_monomial(1))
            elif base == z and exponent.is_Integer and exponent > 0:
                power += int(exponent)
            elif factor != 1:
                raise InputError("precision", Words(f"a precision with {piece}"), WANTED)
        if fixed != 0:
            found[rate, power] = found.get((rate, power), sympy.Integer(0)) + fixed
    return found


def _is_straight(expr: sympy.Expr) -> bool:
    return bool(expr.is_polynomial(z)) and sympy.degree(expr, z) <= 1


@cache
def is_made_of_these(activation: Pieces) -> bool:
    """True if all pieces are polynomials times exponentials."""
    try:
        for piece in activation.pieces:
            monomials(piece.expr)
    except InputError:
        return False
    return True


class _Integral:
    """Averages at one kernel, each once."""

    def __init__(self, K: Matrix, kinks: Sequence[Sequence[arb]], goal: float) -> None:
        self._K, self._kinks, self._goal = K, kinks, goal
        self._normals: dict[State, _Normal] = {}
        self._values: dict[tuple[State, Factors], arb] = {}

    def tilted(self, rates: tuple[sympy.Expr, ...], factors: Factors) -> arb:
        """With e^{Σ rate z}."""
        state: State = rates, ()
        value = self(state, factors)
        if any(rates):
            r = [ball(rate) for rate in rates]
            exponent = arb(0)
            for a, b in product(range(len(r)), repeat=2):
                exponent += r[a] * self._K[a][b] * r[b] / 2
            value *= exponent.exp()
        return value

    def __call__(self, state: State, factors: Factors) -> arb:
        """⟨Π factors⟩ in this state."""
        kept = tuple(each for each in factors if each[1] != Factor(0, None, None))
        key = state, kept
        if key not in self._values:
            self._values[key] = self._found(state, kept)
        return self._values[key]

    def _found(self, state: State, factors: Factors) -> arb:
        given = dict(factors)
        singular = [s for s, each in given.items() if each.delta is not None]
        if singular:
            s = max(singular, key=lambda k: (given[k].delta or (0, 0))[1])
            kink, order = given[s].delta or (0, 0)
            return self._raised(state, given, s) if order else self._fixed(state, given, s, kink)
        powers = [s for s, each in given.items() if each.power]
        if powers:
            return self._lowered(state, given, min(powers))
        normal = self.normal(state)
        cuts = [(s, each.cut) for s, each in given.items() if each.cut is not None]
        heights, signs, places = [], [], []
        for s, (kink, sign) in cuts:
            heights.append(sign * (normal.mean[s] - self._kinks[s][kink]))
            signs.append(sign)
            places.append(s)
        K = [
            [normal.K[a][b] * x * y for b, y in zip(places, signs, strict=True)]
            for a, x in zip(places, signs, strict=True)
        ]
        return probability(heights, K, self._goal)

    def _lowered(self, state: State, given: Mapping[int, Factor], a: int) -> arb:
        """One power of z_a less."""
        normal = self.normal(state)
        less = dict(given)
        less[a] = less[a]._replace(power=less[a].power - 1)
        total = normal.mean[a] * self(state, tuple(less.items()))
        for b, factor in list(less.items()):
            if factor.power:
                lower = less | {b: factor._replace(power=factor.power - 1)}
                total += factor.power * normal.K[a][b] * self(state, tuple(lower.items()))
            if factor.cut is not None:
                kink, sign = factor.cut
                fixed = less | {b: Factor(factor.power, None, (kink, 0))}
                total += sign * normal.K[a][b] * self(state, tuple(fixed.items()))
        return total

    def _fixed(self, state: State, given: Mapping[int, Factor], s: int, kink: int) -> arb:
        """With δ(z_s − κ)."""
        normal, rest = self.normal(state), dict(given)
        exponent = rest.pop(s).power
        at = self._kinks[s][kink]
        weight = _density(at - normal.mean[s], normal.K[s][s]) * power(at, exponent)
        rates, fixed = state
        return weight * self((rates, tuple(sorted((*fixed, (s, kink))))), tuple(rest.items()))

    def _raised(self, state: State, given: Mapping[int, Factor], s: int) -> arb:
        """z^n δ^{(m)} = ∂ (z^n δ^{(m−1)}) − n z^{n−1} δ^{(m−1)}."""
        normal = self.normal(state)
        kink, order = given[s].delta or (0, 0)
        lower = dict(given)
        lower[s] = lower[s]._replace(delta=(kink, order - 1))
        total = arb(0)
        if lower[s].power:
            less = lower | {s: lower[s]._replace(power=lower[s].power - 1)}
            total -= lower[s].power * self(state, tuple(less.items()))
        active = list(lower)
        P = arb_mat([[normal.K[a][b] for b in active] for a in active]).inv()
        at = active.index(s)
        for k, a in enumerate(active):
            more = lower | {a: lower[a]._replace(power=lower[a].power + 1)}
            moment = self(state, tuple(more.items()))
            if not normal.mean[a].is_zero():
                moment -= normal.mean[a] * self(state, tuple(lower.items()))
            total += P[at, k] * moment
        return total

    def normal(self, state: State) -> _Normal:
        """Means and covariances in a state."""
        if state not in self._normals:
            rates, fixed = state
            if fixed:
                s, kink = fixed[-1]
                self._normals[state] = self._given(self.normal((rates, fixed[:-1])), s, kink)
            else:
                r = [ball(rate) for rate in rates]
                mean = [
                    sum((x * y for x, y in zip(row, r, strict=True)), arb(0)) for row in self._K
                ]
                self._normals[state] = _Normal(mean, self._K)
        return self._normals[state]

    def _given(self, normal: _Normal, s: int, kink: int) -> _Normal:
        """Given z_s = κ."""
        mean, K = normal
        moved = (self._kinks[s][kink] - mean[s]) / K[s][s]
        n = range(len(K))
        return _Normal(
            [mean[a] + K[a][s] * moved for a in n],
            [[K[a][b] - K[a][s] * K[s][b] / K[s][s] for b in n] for a in n],
        )


def _density(x: arb, variance: arb) -> arb:
    return (-x * x / (2 * variance)).exp() / (2 * arb.pi() * variance).sqrt()


def probability(h: Sequence[arb], K: Matrix, goal: float) -> arb:
    """P(x > 0), to about e^{−goal}.

    Raises InputError for four components of which the means are not zero, and for more.
    """
    roots = [K[a][a].sqrt() for a in range(len(h))]
    heights = [x / root for x, root in zip(h, roots, strict=True)]
    rho = [
        [_correlation(K[a][b] / (roots[a] * roots[b])) if a != b else arb(1) for b in range(len(h))]
        for a in range(len(h))
    ]
    return _probability(heights, rho, goal)


def _correlation(value: arb) -> arb:
    """No farther than 1 from 0."""
    if abs(value) < 1:
        return value
    return value.max(arb(-1)).min(arb(1))


def _probability(h: Sequence[arb], rho: Matrix, goal: float) -> arb:
    d, centred = len(h), all(each.is_zero() for each in h)
    if d == 0:
        return arb(1)
    if d == 1:
        return _above(acb(h[0])).real
    if centred and d <= 3:
        angles = sum((rho[a][b].asin() for a in range(d) for b in range(a)), start=arb(0))
        value: arb = angles / (2 ** (d - 1) * arb.pi()) + 0.5**d
        return value
    if d > _MOST or (d == _MOST and not centred):
        raise InputError("precision", Words(f"a precision and {d} distinct inputs"), _FEWER)
    apart = _above(acb(h[0])).real * _probability(h[1:], [row[1:] for row in rho[1:]], goal)

    def slope(t: acb, analytic: bool) -> acb:
        total = acb(0)
        for b in range(1, d):
            others = [c for c in range(1, d) if c != b]
            total += _with_two_at_zero(h, rho, t, b, others, analytic)
        return total

    tolerance = arb(-goal).exp()
    grown = balls.integral(
        slope, 0, 1, rel_tol=tolerance, abs_tol=tolerance,
        eval_limit=4000 * ctx.prec, depth_limit=8 * ctx.prec,
    )  # fmt: skip
    return apart + grown.real


def _with_two_at_zero(
    h: Sequence[arb], rho: Matrix, t: acb, b: int, others: Sequence[int], analytic: bool
) -> acb:
    """ρ_1b φ_2 Φ of the others, of which those that are there are as at x_1 = x_b = 0."""
    r = t * rho[0][b]
    left = 1 - r * r
    exponent = (h[0] * h[0] - 2 * r * h[0] * h[b] + h[b] * h[b]) / (2 * left)
    value = rho[0][b] * (-exponent).exp() / (2 * arb.pi() * left.sqrt(analytic=analytic))
    rows = []
    for c in others:  # x_c = h_c + α (x_1 − h_1) + β (x_b − h_b) + rest
        one, two = t * rho[0][c], acb(rho[b][c])
        rows.append(((one - r * two) / left, (two - r * one) / left, one, two))
    if not others:
        return value
    means = [
        h[c] - alpha * h[0] - beta * h[b]
        for c, (alpha, beta, _, _) in zip(others, rows, strict=True)
    ]
    variances = [1 - alpha * one - beta * two for alpha, beta, one, two in rows]
    roots = [each.sqrt(analytic=analytic) for each in variances]
    if len(others) == 1:
        return value * _above(means[0] / roots[0])
    alpha, beta, _, _ = rows[0]
    _, _, one, two = rows[1]
    cosine = (rho[others[0]][others[1]] - alpha * one - beta * two) / (roots[0] * roots[1])
    return value * (acb(0.25) + _asin(cosine, analytic) / (2 * arb.pi()))


def _asin(x: acb, analytic: bool) -> acb:
    """Not finite where it has to be analytic and a ball meets the cuts beyond ±1."""
    if analytic and x.imag.contains(0) and not abs(x.real) < 1:
        return acb("nan")
    return x.asin()


def _above(x: acb) -> acb:
    """P(y > −x) for a normal y."""
    return (-x / arb(2).sqrt()).erfc() / 2
