"""Where a real expression is analytic: its pieces on the line, and the strip around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import sympy
from flint import acb, arb

from .arb import compile_arb
from .errors import InputError

Interval = tuple[sympy.Expr, sympy.Expr, sympy.Expr]
_SWITCHES = (sympy.Abs, sympy.Max, sympy.Min, sympy.sign, sympy.Heaviside, sympy.Piecewise)


def split_pieces(expr: sympy.Expr, z: sympy.Symbol) -> list[Interval]:
    """(lower, upper, expression) between the points where a switch of `expr` changes its mind.

    Switches are Abs, Max, Min, sign, Heaviside and Piecewise; a point where both sides carry the
    same expression is none. Raises InputError where the points cannot be found or never end.
    """
    merged: list[Interval] = []
    for lower, upper, part in _split(expr, z, -sympy.oo, sympy.oo):
        if merged and sympy.simplify(merged[-1][2] - part) == 0:
            merged[-1] = (merged[-1][0], upper, merged[-1][2])
        else:
            merged.append((lower, upper, part))
    return merged


def _split(
    expr: sympy.Expr, z: sympy.Symbol, lower: sympy.Expr, upper: sympy.Expr
) -> Iterator[Interval]:
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
    cuts = sorted({root for u in _arguments(switch) for root in _real_roots(u, z)})
    ends = [lower, *(cut for cut in cuts if lower < cut < upper), upper]
    for left, right in zip(ends, ends[1:], strict=False):
        resolved = _resolve(switch, z, _between(left, right))
        yield from _split(expr.xreplace({switch: resolved}), z, left, right)


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


def _resolve(switch: sympy.Expr, z: sympy.Symbol, inside: sympy.Expr) -> sympy.Expr:
    """What the switch is on an interval, decided at one point inside."""
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


def _real_roots(u: sympy.Expr, z: sympy.Symbol) -> Iterable[sympy.Expr]:
    if not u.has(z):
        return ()
    try:
        roots = sympy.solveset(u, z, sympy.Reals)
    except (NotImplementedError, ValueError):
        roots = None
    if not isinstance(roots, sympy.FiniteSet) and roots is not sympy.S.EmptySet:
        raise InputError("expr", u, "finitely many kinks, where this can be solved for zero")
    return tuple(roots)


def _between(lower: sympy.Expr, upper: sympy.Expr) -> sympy.Expr:
    """A point inside the interval."""
    if lower == -sympy.oo:
        return sympy.Integer(0) if upper == sympy.oo else upper - 1
    return lower + 1 if upper == sympy.oo else (lower + upper) / 2


def logistic_to_tanh(expr: sympy.Expr, z: sympy.Symbol) -> sympy.Expr:
    """A rational function of e^{cz} that stays bounded, as a polynomial in tanh(cz/2).

    e^{cz} = (1 + t)/(1 − t): the same function, without an exponential that could overflow.
    Anything else is returned as it came.
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
        return expr
    back = {dummy: node for node, dummy in shielded.items()}
    return candidate.xreplace({t: sympy.tanh(rate * z / 2)}).xreplace(back)


def analytic_strip(expr: sympy.Expr, z: sympy.Symbol) -> sympy.Expr:
    """Half the width of the widest strip |Im z| < a where the analytic `expr` has no singularity.

    Exact where every singularity solves a polynomial equation in z or in e^{cz}; else a lower bound
    2^{-j}, certified in ball arithmetic on |Re z| ≤ 32. Branch points count as singularities, and
    so do removable ones.
    """
    return min((_distance(h, z) for h in _denominators(expr, z)), default=sympy.oo)


def _denominators(expr: sympy.Expr, z: sympy.Symbol) -> Iterator[sympy.Expr]:
    """Functions at whose zeros a node of `expr` is singular."""
    for node in sympy.preorder_traversal(expr):
        if not node.has(z):
            continue
        if isinstance(node, sympy.Pow) and not (
            node.exp.is_integer and node.exp.is_nonnegative or not node.base.has(z)
        ):
            yield node.base
        elif isinstance(node, sympy.log):
            yield node.args[0]
        elif isinstance(node, sympy.atan):
            yield 1 + node.args[0] ** 2
        elif isinstance(node, sympy.tanh):
            yield sympy.cosh(node.args[0])


def _distance(h: sympy.Expr, z: sympy.Symbol) -> sympy.Expr:
    """min |Im z| over the zeros of h, or a certified lower bound."""
    exponential = sympy.expand(h.rewrite(sympy.exp), power_exp=True)
    rates = {node.args[0].coeff(z) for node in exponential.atoms(sympy.exp)}
    y = sympy.Dummy("y")
    if h.is_polynomial(z):
        return _nearest([sympy.im(root) for root in _roots(h, z)])
    if rates and all(rate.is_Rational for rate in rates):
        rate = sympy.gcd_list(list(rates))
        inner = exponential.replace(
            sympy.exp, lambda u: y ** (u.coeff(z) / rate) * sympy.exp(u - u.coeff(z) * z)
        )
        numerator = sympy.fraction(sympy.together(inner))[0]
        if numerator.is_polynomial(y) and not numerator.has(z):
            roots = [root for root in _roots(numerator, y) if root != 0]
            return _nearest([sympy.arg(root) / rate for root in roots])
    return _certified(h, z)


def _roots(polynomial: sympy.Expr, variable: sympy.Symbol) -> list[sympy.Expr]:
    exact = sympy.roots(polynomial, variable)
    if sum(exact.values()) == sympy.degree(polynomial, variable):
        return list(exact)
    return list(sympy.Poly(polynomial, variable).nroots(n=30))


def _nearest(heights: list[sympy.Expr]) -> sympy.Expr:
    return min((sympy.simplify(sympy.Abs(height)) for height in heights), default=sympy.oo)


def _certified(h: sympy.Expr, z: sympy.Symbol) -> sympy.Expr:
    """The largest 2^{-j}, 2 ≥ 2^{-j} ≥ 2^{-7}, with no zero of h in |Re z| ≤ 32, |Im z| ≤ 2^{-j}."""
    function = compile_arb(h, z)
    for halvings in range(-1, 8):
        height = arb(2) ** -halvings
        if all(_no_zero(function, arb(k) + arb(0.5), arb(0.5), height) for k in range(-32, 32)):
            return sympy.Integer(2) ** -halvings
    return sympy.Integer(0)


def _no_zero(function: object, centre: arb, radius: arb, height: arb, depth: int = 8) -> bool:
    box = acb(arb(centre, radius), arb(0, height))
    value = function(box)  # type: ignore[operator]
    if not value.contains(0) and value.is_finite():
        return True
    if depth == 0:
        return False
    half = radius / 2
    return all(
        _no_zero(function, centre + shift, half, height, depth - 1) for shift in (-half, half)
    )


def check_usable(pieces: Sequence[Interval], z: sympy.Symbol, given: object) -> None:
    """Raise InputError unless the pieces are real, finite and of sub-Gaussian growth."""
