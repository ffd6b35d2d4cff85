"""Spectra to as many digits as asked: the equations of the curve in Arb's balls, each zero proved.

At λ the unknowns are M and, for every factor that is no quotient of products, its subordination
point x_k (source 002, eq. 14):

    F_0 = log(1 + M) − log M − log λ + Σ_k n_k [log x_k + log(s_k M) − log(1 + s_k M)]
          + Σ_j n_j [log m_j − Σ e log(1 + a s_j M)] + Σ_i v_i M/(1 + b_i M),
    F_k = E_k[f/(x_k − f)] − s_k M .

An edge has d log λ/dM = 0 in place of F_0. Newton's method starts from the float solution, which
chose the sheet; then Krawczyk's operator maps a box around the result into itself, and proves that
one zero lies in it (R. E. Moore, *Methods and Applications of Interval Analysis*, 1979, ch. 5). The
averages E_k are finite sums, or integrals by Arb with their tails bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import sympy
from flint import acb, acb_mat, arb, ctx

from derive.activations.functions import z as h
from derive.arithmetic import balls
from derive.arithmetic.balls import Ball, compile_arb, constant
from derive.errors import InputError
from derive.gaussian.brackets import GaussianAverage
from derive.gaussian.piecewise import logistic_to_tanh
from derive.spectra import Atomic, Density, Jacobian, Law, Limit, Masked, Scaled, Slopes
from derive.spectra.skips import Around

from ..layers.precise.averages import Averages
from .contour import exact_powers

Vector: TypeAlias = "list[acb]"
System: TypeAlias = "Callable[[Vector], tuple[Vector, list[Vector]]]"
"""Unknowns → the equations' values and their derivatives, row by row."""

_STEPS = 60
_MOMENTS = 40  # of φ'², that are looked for in an expression
_REACH, _FAR = 1.4, 40


class Curve:
    """The equations of a law at the working precision of `flint.ctx`.

    Arguments:
        law: a `Jacobian` or a `Limit`.

    Raises InputError for a law without numbers, with a skip, or with averages that have no
    enclosure.
    """

    def __init__(self, law: Jacobian | Limit) -> None:
        self.law, self.numbers = law, Numbers(law)
        ball = self.numbers
        self.averages: list[Transform] = []
        self.factors: list[tuple[arb, arb]] = []
        self.powers: list[tuple[arb, arb]] = [(arb(1), arb(1))]
        self.constant = arb(0)
        self.jumps: list[tuple[arb, arb]] = []
        if isinstance(law, Limit):
            self.jumps = [(ball(law.variance * p), ball(b)) for p, b in law.jumps]
            return
        for each in law.factors:
            count, scale = ball(each.count), ball(each.scale)
            powers = exact_powers(each.law)
            if isinstance(each.law, Around):
                wanted = "atoms, a density, or slopes"
                raise InputError("precision", f"a precision with {each.law}", wanted)
            if powers is None:
                self.averages.append(Transform(each.law, ball))
                self.factors.append((count, scale))
            else:
                self.constant += count * ball.mean(each.law).log()
                self.powers += [(ball(a) * scale, -e * count) for a, e in powers]

    def logarithm(self, at: Vector, *, real: bool) -> acb:
        """log λ at M and all x_k; of absolute values where everything is real."""

        def log(value: acb) -> acb:
            return acb(abs(value.real).log()) if real else value.log()

        M = at[0]
        total = self.constant - log(M)
        for x, (n, s) in zip(at[1:], self.factors, strict=True):
            total += n * (log(x) + log(s * M) - log(1 + s * M))
        for a, power in self.powers:
            total += power * log(1 + a * M)
        for v, b in self.jumps:
            total += v * M / (1 + b * M)
        return total

    def slope(self, M: acb) -> tuple[acb, acb]:
        """The part of d log λ/dM from M itself, and its derivative."""
        first, second = -1 / M, 1 / M**2
        for n, s in self.factors:
            first += n * (1 / M - s / (1 + s * M))
            second += n * (s**2 / (1 + s * M) ** 2 - 1 / M**2)
        for a, power in self.powers:
            first += power * a / (1 + a * M)
            second -= power * a**2 / (1 + a * M) ** 2
        for v, b in self.jumps:
            first += v / (1 + b * M) ** 2
            second -= 2 * v * b / (1 + b * M) ** 3
        return first, second

    def point(self, height: arb) -> System:
        """The equations at log λ = height; log λ is known but for whole turns."""

        def system(at: Vector) -> tuple[Vector, list[Vector]]:
            M = at[0]
            first = self.logarithm(at, real=False) - height
            turns = round(float(first.imag.mid()) / (2 * math.pi))
            values, rows = [first - acb(0, 2 * turns * arb.pi())], [[self.slope(M)[0]]]
            for k, (x, (n, s)) in enumerate(zip(at[1:], self.factors, strict=True)):
                E = self.averages[k](x, 2)
                rows[0].append(n / x)
                values.append(E[0] - s * M)
                rows.append(self._row(k, -s, -E[1]))
            return values, rows

        return system

    def edge(self, at: Vector) -> tuple[Vector, list[Vector]]:
        """The equations of a critical point."""
        M = at[0]
        slope, bend = self.slope(M)
        values, rows = [slope], [[bend]]
        for k, (x, (n, s)) in enumerate(zip(at[1:], self.factors, strict=True)):
            E = self.averages[k](x, 3)
            values[0] -= n * s / (x * E[1])
            rows[0].append(n * s * (E[1] - 2 * x * E[2]) / (x * E[1]) ** 2)
            values.append(E[0] - s * M)
            rows.append(self._row(k, -s, -E[1]))
        return values, rows

    def _row(self, k: int, by_M: arb, by_x: acb) -> Vector:
        row = [acb(0)] * (1 + len(self.factors))
        row[0], row[1 + k] = acb(by_M), by_x
        return row


class Numbers:
    """Numbers of a law as balls: closed forms, and moments of φ'² by enclosed averages."""

    def __init__(self, law: Law) -> None:
        self._slopes = list(dict.fromkeys(_slopes(law)))

    def __call__(self, expr: sympy.Expr) -> arb:
        """A ball that holds it; InputError for symbols, and for averages without an enclosure."""
        expr = sympy.sympify(expr)
        if not expr.has(GaussianAverage):
            return constant(expr)
        if isinstance(expr, GaussianAverage):
            return self._average(expr)
        parts = [self(each) for each in expr.args]
        match expr:
            case sympy.Add():
                return sum(parts, arb(0))
            case sympy.Mul():
                return math.prod(parts, start=arb(1))
            case sympy.Pow() if expr.exp.is_Integer:
                return parts[0] ** int(expr.exp)
            case sympy.Pow():
                return parts[0] ** parts[1]
        raise InputError("precision", f"a precision with {expr}", "sums, products and powers")

    def _average(self, average: GaussianAverage) -> arb:
        for slopes in self._slopes:
            for k in range(1, _MOMENTS):
                if slopes.moment(k) == average:
                    return self._moment(slopes, k)
        raise InputError("precision", f"a precision with {average}", "moments of φ'²")

    def _moment(self, slopes: Slopes, k: int) -> arb:
        """⟨φ'^{2k}⟩, proved."""
        averages = Averages(slopes.activation, [((0, ((1,) * (2 * k), 0)),)])
        goal = ctx.prec * math.log(2.0)
        rows = ((Fraction(1),),)
        (found,) = averages([[constant(slopes.variance)]], rows, goal, lambda seconds: None)
        return found

    def mean(self, law: Law) -> arb:
        """m_1."""
        return self(law.mean)


def _slopes(law: Law) -> list[Slopes]:
    if isinstance(law, Slopes):
        return [law]
    if isinstance(law, Scaled | Masked):
        return _slopes(law.law)
    if isinstance(law, Jacobian):
        return [each for factor in law.factors for each in _slopes(factor.law)]
    return []


class Transform:
    """E[f/(x − f)^j] of a law, as balls; x off its support."""

    def __init__(self, law: Law, ball: Numbers) -> None:
        self.law, self.ball = law, ball

    def __call__(self, x: acb, count: int) -> Vector:
        """For j = 1 … count."""
        law = self.law
        if isinstance(law, Scaled):
            c = self.ball(law.factor)
            inner = Transform(law.law, self.ball)(x / c, count)
            return [value / c**j for j, value in enumerate(inner)]
        if isinstance(law, Masked):  # p E[t/p² / (x − t/p²)^j]
            p = self.ball(law.keep)
            inner = Transform(law.law, self.ball)(p * p * x, count)
            return [p ** (2 * j + 1) * value for j, value in enumerate(inner)]
        if isinstance(law, Atomic):
            pairs = self._masses
            return [
                sum((m * f / (x - f) ** j for f, m in pairs), acb(0)) for j in range(1, count + 1)
            ]
        if isinstance(law, Density):
            return self._density(law, x, count)
        if isinstance(law, Slopes):
            return self._of_slopes(law, x, count)
        raise InputError("precision", f"a precision with {law}", "atoms, a density, or slopes")

    @cached_property
    def _masses(self) -> list[tuple[arb, arb]]:
        assert isinstance(self.law, Atomic)
        return [(self.ball(at), self.ball(mass)) for at, mass in self.law.masses if at != 0]

    def _density(self, law: Density, x: acb, count: int) -> Vector:
        rho = compile_arb(law.expr.subs(law.variable, h), h)
        ends = acb(constant(law.lower)), acb(constant(law.upper))

        def weighted(j: int) -> Ball:
            return lambda t, analytic: t * rho(t, analytic) / (x - t) ** j

        return [balls.integral(weighted(j), *ends) for j in range(1, count + 1)]

    def _of_slopes(self, law: Slopes, x: acb, count: int) -> Vector:
        """Between the kinks by Arb's integration; beyond R = reach √q, where the density of h has
        the mass erfc(R/√(2q)), |f/(x − f)^j| is bounded by what it is far from x."""
        q = constant(law.variance)
        root = (2 * arb.pi() * q).sqrt()
        reach = (_REACH * ctx.prec * q).sqrt().mid()
        totals = [acb(0)] * count
        for piece in law.activation.pieces:
            slope = compile_arb(logistic_to_tanh(piece.expr.diff(h)), h)
            low = constant(piece.lower) if piece.lower.is_finite else -reach
            high = constant(piece.upper) if piece.upper.is_finite else reach
            low, high = low.max(-reach), high.min(reach)
            if not low.mid() < high.mid():
                continue
            if not piece.expr.diff(h).has(h):
                f = slope(acb(0), False) ** 2
                mass = ((high / (2 * q).sqrt()).erf() - (low / (2 * q).sqrt()).erf()) / 2
                for j in range(count):
                    totals[j] += mass * f / (x - f) ** (j + 1)
                continue
            for j in range(count):
                function = _weighted(slope, x, q, j + 1)
                marks = [low, arb(0), high] if low < 0 < high else [low, high]
                for left, right in pairwise(marks):
                    totals[j] += balls.integral(function, acb(left), acb(right)) / root
        beyond = (reach / (2 * q).sqrt()).erfc()
        near = self._distance(law, x)
        for j in range(count):
            bound = (1 + abs(x) / near) / near**j * beyond
            totals[j] += acb(arb(0, bound.upper()), arb(0, bound.upper()))
        return totals

    @staticmethod
    def _distance(law: Slopes, x: acb) -> arb:
        """How far x is from φ'(h)² beyond the reach, at least; as far as h = 2^40 of it, from where
        on φ' is taken to go on so."""
        reach = (_REACH * ctx.prec * constant(law.variance)).sqrt()
        near = arb("inf")
        for side, piece in ((-1, law.activation.pieces[0]), (1, law.activation.pieces[-1])):
            slope = compile_arb(logistic_to_tanh(piece.expr.diff(h)), h)
            for k in range(2 * _FAR):
                part = (reach * arb(2) ** (arb(k) / 2)).union(reach * arb(2) ** (arb(k + 1) / 2))
                near = near.min(abs(x - slope(acb(side * part), False) ** 2).lower())
        away = abs(x.imag).lower().max((-x.real).lower())
        return away.max(near) if near.is_finite() else away


def _weighted(slope: Ball, x: acb, q: arb, j: int) -> Ball:
    """f/(x − f)^j e^{−h²/2q}, f = φ'(h)²."""

    def at(t: acb, analytic: bool) -> acb:
        f = slope(t, analytic) ** 2
        return f * (-t * t / (2 * q)).exp() / (x - f) ** j

    return at


def solve(system: System, start: Vector, *, real: bool = False) -> Vector | None:
    """The zero next to `start`, each unknown in a ball that is proved to hold it; None where the
    iteration does not come to rest, or where the proof fails."""
    at = [acb(value.real.mid(), 0 if real else value.imag.mid()) for value in start]
    goal = arb(2) ** (-ctx.prec // 2)
    for _ in range(_STEPS):
        values, rows = system(at)
        step = _solved(rows, values)
        if step is None:
            return None
        shrink = min(
            [arb(1)]
            + [
                arb("0.5") * abs(v).mid() / abs(d).mid()
                for v, d in zip(at, step, strict=True)
                if abs(d).mid() > 0
            ],
            key=float,
        )
        at = [_middle(v - shrink.mid() * d, real) for v, d in zip(at, step, strict=True)]
        if all(abs(d) < goal * abs(v) for v, d in zip(at, step, strict=True)):
            break
    else:
        return None
    values, rows = system(at)
    step = _solved(rows, values)
    if step is not None:
        at = [_middle(v - d, real) for v, d in zip(at, step, strict=True)]
    return _proved(system, at, real)


def _middle(value: acb, real: bool) -> acb:
    return acb(value.real.mid(), arb(0) if real else value.imag.mid())


def _solved(rows: Sequence[Vector], values: Vector) -> Vector | None:
    try:
        found = acb_mat([[_middle(e, False) for e in row] for row in rows]).solve(
            acb_mat([[_middle(value, False)] for value in values])
        )
    except ZeroDivisionError:
        return None
    step = [found[k, 0] for k in range(len(values))]
    return step if all(each.is_finite() for each in step) else None


def _proved(system: System, at: Vector, real: bool) -> Vector | None:
    """Krawczyk's operator on a box around `at`: y − A F(y) + (1 − A J(Y)) (Y − y) ⊂ Y."""
    size = len(at)
    values, rows = system(at)
    try:
        A = acb_mat([[_middle(e, real) for e in row] for row in rows]).inv()
    except ZeroDivisionError:
        return None
    A = acb_mat([[_middle(A[i, j], real) for j in range(size)] for i in range(size)])
    shift = A * acb_mat([[value] for value in values])
    for widen in (4, 64, 4096):
        radii = [
            (widen * (abs(shift[i, 0]).upper() + abs(at[i]) * arb(2) ** (8 - ctx.prec))).upper()
            for i in range(size)
        ]
        box = [
            acb(v.real + arb(0, r), arb(0) if real else v.imag + arb(0, r))
            for v, r in zip(at, radii, strict=True)
        ]
        _, inside = system(box)
        rest = acb_mat([[acb(int(i == j)) for j in range(size)] for i in range(size)]) - (
            A * acb_mat(inside)
        )
        moved = rest * acb_mat([[b - v] for b, v in zip(box, at, strict=True)])
        image = [at[i] - shift[i, 0] + moved[i, 0] for i in range(size)]
        if real:
            image = [acb(each.real) for each in image]
        if all(
            b.real.contains_interior(k.real) and (real or b.imag.contains_interior(k.imag))
            for b, k in zip(box, image, strict=True)
        ):
            return image
    return None
