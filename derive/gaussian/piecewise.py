"""Where a real expression is analytic: its pieces on the line, and the strip around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import sympy
from flint import acb, arb, ctx, fmpq

from ..arithmetic.balls import Ball, compile_arb, vanishes
from ..errors import InputError
from ..symbols import z

Interval = tuple[sympy.Expr, sympy.Expr, sympy.Expr]
MAX_GROWTH = 1.95
MAX_HALVINGS = 16
MAX_PARTS = 20_000
"""Of one interval, in the search for where an expression is not real or finite."""
_SWITCHES = (sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.Heaviside, sympy.Piecewise)


def split_pieces(expr: sympy.Expr) -> list[Interval]:
    """(lower, upper, expression) between the points where a switch of `expr` changes its mind.

    Switches are Abs, Max, Min, sign, Heaviside and Piecewise; a point where both sides carry the
    same expression is none. Raises InputError where the points cannot be found or never end.
    """
    merged: list[Interval] = []
    for lower, upper, part in _split(expr, -sympy.oo, sympy.oo):
        if merged and vanishes(merged[-1][2] - part, z, between(lower, upper)):
            merged[-1] = (merged[-1][0], upper, merged[-1][2])
        else:
            merged.append((lower, upper, part))
    return merged


def _split(expr: sympy.Expr, lower: sympy.Expr, upper: sympy.Expr) -> Iterator[Interval]:
    switch = next(
        (
            node
            for node in sympy.postorder_traversal(expr)
            if isinstance(node, _SWITCHES) and node.has(z)
        ),
        None,
    )
    if switch is None:
        yield lower, upper, expr
        return
    cuts = sorted({root for u in _arguments(switch) for root in _real_roots(u)})
    ends = [lower, *(cut for cut in cuts if lower < cut < upper), upper]
    for left, right in pairwise(ends):
        resolved = _resolve(switch, between(left, right))
        yield from _split(expr.xreplace({switch: resolved}), left, right)


def _arguments(switch: sympy.Expr) -> Iterator[sympy.Expr]:
    """The expressions at whose zeros the innermost switch may change."""
    if isinstance(switch, (sympy.Max, sympy.Min)):
        args = switch.args
        yield from (a - b for k, a in enumerate(args) for b in args[k + 1 :])
    elif isinstance(switch, sympy.Piecewise):
        for _, condition in switch.args:
            yield from (relation.lhs - relation.rhs for relation in condition.atoms(sympy.Rel))
    else:
        yield switch.args[0]


def _resolve(switch: sympy.Expr, inside: sympy.Expr) -> sympy.Expr:
    """The branch of the switch on an interval, decided at one point inside."""
    if isinstance(switch, (sympy.Max, sympy.Min)):
        choose = max if isinstance(switch, sympy.Max) else min
        return choose(switch.args, key=lambda arg: arg.subs(z, inside).evalf(30))
    if isinstance(switch, sympy.Piecewise):
        for value, condition in switch.args:
            if condition.subs(z, inside) == sympy.true:
                return value
        raise InputError("expr", switch, "a Piecewise with a value everywhere on the real line")
    positive = switch.args[0].subs(z, inside).evalf(30) > 0
    if isinstance(switch, sympy.Abs):
        return switch.args[0] if positive else -switch.args[0]
    if isinstance(switch, sympy.sign):
        return sympy.Integer(1 if positive else -1)
    return sympy.Integer(1 if positive else 0)


def _real_roots(u: sympy.Expr) -> Iterable[sympy.Expr]:
    if not u.has(z):
        return ()
    try:
        roots = sympy.solveset(u, z, sympy.Reals)
    except (NotImplementedError, ValueError):
        roots = None
    if not isinstance(roots, sympy.FiniteSet) and roots is not sympy.S.EmptySet:
        raise InputError("expr", u, "finitely many kinks, where this can be solved for zero")
    return tuple(roots)


def between(lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr:
    """A point inside the interval, where little is zero by chance."""
    if lower == -sympy.oo:
        return sympy.Rational(7, 8) if upper == sympy.oo else upper - 1
    return lower + 1 if upper == sympy.oo else (lower + upper) / 2


def logistic_to_tanh(expr: sympy.Expr) -> sympy.Expr:
    """A rational function of e^{cz} that stays bounded, as a polynomial in tanh(cz/2).

    e^{cz} = (1 + t)/(1 − t): the same function, without an exponential that could overflow. In a
    sum that is none every term by itself. Anything else is returned as it came.
    """
    shielded = {
        node: sympy.Dummy(real=True)
        for node in expr.atoms(sympy.Function)
        if not isinstance(node, sympy.exp)
    }
    bare = expr.xreplace(shielded)
    rates = [node.args[0] / z for node in bare.atoms(sympy.exp) if node.has(z)]
    if not rates or not all(rate.is_Rational for rate in rates):
        return expr
    rate = abs(sympy.gcd_list(rates))
    t = sympy.Dummy("t")
    ratio = {sympy.exp(r * z): ((1 + t) / (1 - t)) ** (r / rate) for r in rates}
    candidate = sympy.cancel(bare.xreplace(ratio))
    if not candidate.is_polynomial(t):
        return sympy.Add(*map(logistic_to_tanh, expr.args)) if expr.is_Add else expr
    back = {dummy: node for node, dummy in shielded.items()}
    return sympy.factor(candidate).xreplace({t: sympy.tanh(rate * z / 2)}).xreplace(back)


def analytic_strip(
    expr: sympy.Expr, lower: sympy.Expr = -sympy.oo, upper: sympy.Expr = sympy.oo
) -> sympy.Expr:
    """The distance of the nearest singularity of the analytic `expr` from the points lower … upper.

    For the whole line it is half the width of the widest strip |Im z| < a without a singularity.

    Exact where every singularity solves a polynomial equation in z or in e^{cz}; else a lower bound
    2^{-j}, certified in ball arithmetic on |Re z| ≤ 32. Branch points count as singularities, and
    so do removable ones.
    """
    nearest = sympy.oo
    for denominator in _denominators(expr):
        distance = _distance(denominator, lower, upper)
        if distance is None:
            return _certified(expr, lower, upper)
        nearest = min(nearest, distance)
    return nearest


def _denominators(expr: sympy.Expr) -> Iterator[sympy.Expr]:
    """Functions at whose zeros a node of `expr` is singular."""
    for node in sympy.preorder_traversal(expr):
        if not node.has(z):
            continue
        if isinstance(node, sympy.Pow) and not (
            (node.exp.is_integer and node.exp.is_nonnegative) or not node.base.has(z)
        ):
            yield node.base
        elif isinstance(node, sympy.log):
            yield node.args[0]
        elif isinstance(node, sympy.atan):
            yield 1 + node.args[0] ** 2
        elif isinstance(node, sympy.tanh | sympy.sech):
            yield sympy.cosh(node.args[0])
        elif isinstance(node, sympy.tan):
            yield sympy.cos(node.args[0])


def _distance(h: sympy.Expr, lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr | None:
    """The distance of the zeros of h from the interval; None if no polynomial has them as roots."""

    def away(re: sympy.Expr, im: sympy.Expr) -> sympy.Expr:
        beyond = sympy.Max(0, lower - re, re - upper)
        distance = sympy.sqrt(beyond**2 + im**2) if beyond != 0 else sympy.Abs(im)
        return sympy.simplify(distance) if distance.atoms(sympy.Pow, sympy.Function) else distance

    if h.is_polynomial(z):
        return min((away(*root.as_real_imag()) for root in _roots(h, z)), default=sympy.oo)
    exponential = sympy.expand(h.rewrite(sympy.exp))
    exponents = [node.args[0] for node in exponential.atoms(sympy.exp) if node.has(z)]
    if exponents and all(u.diff(z).is_Rational for u in exponents):
        rate = sympy.gcd_list([u.diff(z) for u in exponents])
        y = sympy.Dummy("y")
        powers = {
            sympy.exp(u): y ** (u.diff(z) / rate) * sympy.exp(u.subs(z, 0)) for u in exponents
        }
        numerator = sympy.fraction(sympy.together(exponential.xreplace(powers)))[0]
        if numerator.is_polynomial(y) and not numerator.has(z):
            roots = [root for root in _roots(numerator, y) if root != 0]
            places = ((sympy.log(sympy.Abs(y)) / rate, sympy.arg(y) / rate) for y in roots)
            return min((away(*place) for place in places), default=sympy.oo)
    return None


def _roots(polynomial: sympy.Expr, variable: sympy.Symbol) -> list[sympy.Expr]:
    exact = sympy.roots(polynomial, variable)
    if sum(exact.values()) == sympy.degree(polynomial, variable):
        return list(exact)
    return list(sympy.Poly(polynomial, variable).nroots(n=30))


def _certified(expr: sympy.Expr, lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr:
    """The largest a of 2, 1, 1/2, … such that expr is analytic on |Re z| ≤ 32 within a of the
    interval."""
    function = compile_arb(expr, z)

    def analytic(centre: arb, radius: arb, height: arb, depth: int = 12) -> bool:
        if function(acb(arb(centre, radius), arb(0, height)), True).is_finite():
            return True
        half = radius / 2
        return depth > 0 and all(
            analytic(centre + shift, half, height, depth - 1) for shift in (-half, half)
        )

    for halvings in range(-1, 12):
        width = sympy.Integer(2) ** -halvings
        height = arb(fmpq(int(width.p), int(width.q)))
        inside = (k for k in range(-32, 32) if k + 1 > lower - width and k < upper + width)
        if all(analytic(arb(k) + 0.5, arb(0.5), height) for k in inside):
            return width
    raise InputError("expr", expr, "a function analytic in a strip of half-width 1/2048 or more")


def check_usable(pieces: Sequence[Interval], given: object) -> None:
    """Raise InputError unless a Gaussian of any variance can average σ² and σ'².

    That is, unless on every closed piece within |z| ≤ 1024 both σ and σ' are real and finite, in
    ball arithmetic, and beyond it log|σ| grows slower than z².
    """
    for lower, upper, part in pieces:
        for end, sign in ((lower, -1), (upper, 1)):
            if not end.is_finite and _growth(compile_arb(part, z), sign) > MAX_GROWTH:
                raise InputError("expr", given, "growth slower than e^{c z²}, to have averages")
        cover = list(_cover(lower, upper))
        for function in (compile_arb(part, z), compile_arb(part.diff(z), z)):
            for left, right in cover:
                _check_real(function, left, right, given)


def _cover(lower: sympy.Expr, upper: sympy.Expr) -> Iterator[tuple[arb, arb]]:
    """Intervals that cover the piece up to |z| = 1024, short ones near 0 and long ones far out."""
    marks = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    ends = sorted({-mark for mark in marks} | set(marks))
    inside = [end for end in ends if lower < end < upper]
    outer = [end for end in (lower, upper) if end.is_finite]
    points = sorted({sympy.sympify(end) for end in (*inside, *outer)})
    balls = [compile_arb(point, sympy.Dummy())(acb(0), False).real for point in points]
    return pairwise(balls)


def _check_real(function: Ball, left: arb, right: arb, given: object) -> None:
    """Halve the interval until the ball over every part is real and finite, or InputError."""
    pending = [(left, right, MAX_HALVINGS)]
    for _ in range(MAX_PARTS):
        if not pending:
            return
        left, right, halvings = pending.pop()
        value = function(acb(left.union(right)), False)
        if value.is_finite() and value.imag.contains(0):
            continue
        middle = (left + right) / 2
        if halvings == 0 or (value.is_finite() and not value.imag.contains(0)):
            raise InputError(
                "expr",
                given,
                "a function that is real, finite and of finite slope on the whole line (it is not "
                f"near z = {float(middle.mid()):.6g})",
            )
        pending += [(middle, right, halvings - 1), (left, middle, halvings - 1)]
    raise InputError("expr", given, "a function that ball arithmetic shows real and finite sooner")


def _growth(function: Ball, sign: int) -> float:
    """The power p in log|σ| ~ |z|^p between |z| = 2^20 and 2^40, or 0 for powers of z."""
    with ctx.workprec(256):
        near, far = (function(acb(sign * arb(2) ** k), False).abs_upper() for k in (20, 40))
        if not far.is_finite():
            return float("inf")
        if not far.log() > 2**20 or not near > 2:
            return 0.0
        return float((far.log() / near.log()).log() / arb(2**20).log())
