"""Equal expressions that neither overflow nor cancel where their value is moderate."""

from __future__ import annotations

import math

import sympy


class Sigmoid(sympy.Function):
    """s(u) = 1/(1 + e^{-u}), so that s(u) + s(-u) = 1 and e^u = s(u)/s(-u)."""


class ErrorTail(sympy.Function):
    """erfc(x), but left alone where sympy makes erfc(-x) the cancelling 2 - erfc(x)."""


class Softplus(sympy.Function):
    """log(1 + e^u)."""


class SechSquared(sympy.Function):
    """1/cosh² u = 1 − tanh² u."""


def stable(expr: sympy.Expr) -> sympy.Expr:
    """An equal expression that neither overflows nor cancels where its value is moderate.

    log(1 + e^u) becomes `Softplus`; 1 + erf(x) becomes erfc(-x); 1 + tanh(x) becomes 2 s(2x),
    `Sigmoid`, and 1 − tanh²(x) `SechSquared`; and a quotient R(e^u), whose numerator and
    denominator would both overflow, becomes its form in s(u) and s(-u):
    N(E)/((1+E)^m D(E)) = N̂(s, t)/D̂(s, t) · t^{m + deg D - deg N}, the hats for homogeneous forms.
    """
    if expr.has(sympy.log):
        expr = expr.replace(sympy.log, _stable_log)
    if expr.has(sympy.erf):
        expr = expr.replace(lambda e: e.is_Add, _stable_erf)
    if expr.has(sympy.exp):
        expr = _stable_quotients(expr)
    return expr.replace(lambda e: e.is_Add, _stable_tanh) if expr.has(sympy.tanh) else expr


def _stable_log(argument: sympy.Expr) -> sympy.Expr:
    """log(a + b e^u) = log a + log(1 + e^{u + log(b/a)}) for positive a and b."""
    constant, rest = argument.as_independent(*argument.free_symbols, as_Add=True)
    factor, power = rest.as_independent(*rest.free_symbols, as_Add=False)
    if isinstance(power, sympy.exp) and constant.is_positive and factor.is_positive:
        return sympy.log(constant) + Softplus(power.args[0] + sympy.log(factor / constant))
    return sympy.log(argument)


def _stable_erf(total: sympy.Add) -> sympy.Expr:
    """c + c erf(x) = c erfc(-x), within a sum."""
    constant, rest = total.as_coeff_Add()
    for term in rest.args if rest.is_Add else (rest,):
        coefficient, factor = term.as_coeff_Mul()
        if isinstance(factor, sympy.erf) and constant and abs(coefficient) == abs(constant):
            side = -sympy.sign(coefficient * constant)
            return rest - term + constant * ErrorTail(side * factor.args[0])
    return total


def _stable_tanh(total: sympy.Add) -> sympy.Expr:
    """c − c tanh² x and c ± c tanh x by what falls off as e^{−2|x|}, within a sum."""
    constant, rest = total.as_coeff_Add()
    for term in rest.args if rest.is_Add else (rest,):
        coefficient, factor = term.as_coeff_Mul()
        base, power = factor.as_base_exp()
        if not constant or not isinstance(base, sympy.tanh):
            continue
        (x,) = base.args
        if power == 2 and coefficient == -constant:
            return rest - term + constant * SechSquared(x)
        if power == 1 and abs(coefficient) == abs(constant):
            return rest - term + 2 * constant * Sigmoid(2 * x * coefficient / constant)
    return total


def _stable_quotients(expr: sympy.Expr) -> sympy.Expr:
    """Each quotient with an exponential below its line, rewritten in s and t; inner ones first."""
    if expr.is_Atom:
        return expr
    if not (expr.is_Add or expr.is_Mul or expr.is_Pow):
        return expr.func(*(_stable_quotients(argument) for argument in expr.args))
    opaque: dict[sympy.Expr, sympy.Dummy] = {}

    def hide(part: sympy.Expr) -> sympy.Expr:
        if part.is_Atom or isinstance(part, sympy.exp):
            return part
        if part.is_Add or part.is_Mul or (part.is_Pow and part.exp.is_Integer):
            return part.func(*(hide(argument) for argument in part.args))
        return opaque.setdefault(part, sympy.Dummy(f"D{len(opaque):04d}", real=True))

    skeleton = hide(expr)
    below = {
        power.args[0]
        for quotient in skeleton.atoms(sympy.Pow)
        if quotient.exp.is_negative
        for power in quotient.base.atoms(sympy.exp)
    }
    for argument in sorted(below, key=sympy.default_sort_key):
        skeleton = _in_sigmoids(skeleton, argument)
    shown = {dummy: part.func(*map(_stable_quotients, part.args)) for part, dummy in opaque.items()}
    return skeleton.xreplace(shown)


def _in_sigmoids(expr: sympy.Expr, argument: sympy.Expr) -> sympy.Expr:
    """A rational function of E = e^{argument/c}, c the least integer that makes it one."""
    powers = {power: power.args[0] / argument for power in expr.atoms(sympy.exp)}
    powers = {power: ratio for power, ratio in powers.items() if ratio.is_Rational}
    if not powers:
        return expr
    parts = math.lcm(*(int(ratio.q) for ratio in powers.values()))
    E = sympy.Dummy("E", positive=True)
    rational = sympy.cancel(
        expr.xreplace({power: E ** (ratio * parts) for power, ratio in powers.items()})
    )
    numerator, denominator = (sympy.Poly(part, E) for part in sympy.fraction(rational))
    surplus = -numerator.degree()
    while True:
        quotient, remainder = denominator.div(sympy.Poly(E + 1, E))
        if not remainder.is_zero:
            break
        denominator, surplus = quotient, surplus + 1
    surplus += denominator.degree()
    s, t = Sigmoid(argument / parts), Sigmoid(-argument / parts)

    def homogeneous(polynomial: sympy.Poly) -> sympy.Expr:
        degree = polynomial.degree()
        return sympy.Add(*(c * s**k * t ** (degree - k) for (k,), c in polynomial.terms()))

    return homogeneous(numerator) * t**surplus / homogeneous(denominator)
