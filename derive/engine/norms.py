"""A norm before a skip around one matrix: σ of y = (z − m) f(q, m²) in the place of σ(z).

With q = (1/n) Σ z_a z_a and m = (1/n) Σ z_a of a sample, functions of y at one neuron are Taylor
series in δq = q − lim q and m, whose coefficients are products y^p σ^{(k)} at the limits, where
y = z f. A derivative by the z of another neuron acts through q and m,

    ∂/∂z_k  G(z_j, q, m)  =  δ_jk ∂_z G + (1/n) (2 z_k ∂_q + ∂_m) G .

With u = f'/f, by q, and v = f'/f by m, which is 0 at m = 0,

    ∂_q σ = u y σ',     ∂_m σ = (v y − [m is taken off] f) σ',     ∂_q u = f''/f − u²,

and ∂_m v = f''/f there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import factorial
from typing import NamedTuple

import sympy

from ..arithmetic.polynomials import (
    UNIT,
    Expansion,
    Monomial,
    add,
    constant,
    multiply,
    multiply_all,
    power,
    times,
)
from ..errors import InputError
from ..work.caches import cache
from .stages import Stage
from .tensors import tensor
from .through import Response
from .trees import Z

Orders = tuple[int, ...]
"""A y for each −1, and then k of σ^{(k)}(y)."""
Terms = dict[Orders, Expansion]
"""Such products, with polynomials in f and `Ratio`s before them."""


class Ratio(NamedTuple):
    """f differentiated so often by q and by m, over f; f itself for (0, 0)."""

    of_q: int
    of_m: int


_F, _U, _V = Ratio(0, 0), Ratio(1, 0), Ratio(0, 1)
_MOVES: dict[bool, dict[Ratio, Expansion]] = {
    False: {
        _F: {(times(power(_U, 1), power(_F, 1)), 0): Fraction(1)},
        _U: {(power(Ratio(2, 0), 1), 0): Fraction(1), (power(_U, 2), 0): Fraction(-1)},
    },
    True: {
        _F: {(times(power(_V, 1), power(_F, 1)), 0): Fraction(1)},
        _V: {(power(Ratio(0, 2), 1), 0): Fraction(1), (power(_V, 2), 0): Fraction(-1)},
    },
}
"""∂_q and ∂_m of f and ratios; of others to second order at m = 0 it is 0."""


class Norm(NamedTuple):
    """The norm: y as a function of z.

    Arguments:
        value: f.
        q: the symbol of (1/n) Σ z z.
        m: that of (1/n) Σ z; None where f has none.
        centred: whether m is taken off z.
    """

    value: sympy.Expr
    q: sympy.Symbol
    m: sympy.Symbol | None
    centred: bool

    def scale(self, sample: int) -> Response:
        """f at the limits, of a sample."""
        return self._response(_F, sample)

    def _response(self, ratio: Ratio, sample: int) -> Response:
        limit = tensor((Z, Z), 0, ((0, 1),), (sample, sample))
        return Response(_at_limits(self, ratio), ((self.q, limit),))

    def placed(self, polynomial: Expansion, sample: int) -> Expansion:
        """A polynomial in f and its ratios, at the limits of a sample."""
        total: Expansion = {}
        for (mono, _), value in polynomial.items():
            made: Monomial = UNIT
            for ratio, exponent in mono:
                assert isinstance(ratio, Ratio)
                made = times(made, power(self._response(ratio, sample), exponent))
            if not any(ratio != _F and _at_limits(self, ratio) == 0 for ratio, _ in mono):
                add(total, {(made, 0): value})
        return total

    def scale_term(self, of_q: int, of_m: int) -> Expansion:
        """The same of f over its limit."""
        if of_q == of_m == 0:
            return constant(1)
        if of_m % 2:
            return {}
        own = times(power(Ratio(of_q, of_m), 1), power(_F, -2 * of_q - of_m))
        return {(own, 0): Fraction(1, factorial(of_q) * factorial(of_m))}

    def chain(self, order: int) -> Iterator[tuple[int, Orders, Expansion]]:
        """Of ∂σ^{(order−1)}(y)/∂z: 0 and that at its own neuron, f at its limit; and by another's
        z, of order 1/n, 1 and what is before its y, 2 and what has none, to leading order."""
        yield 0, (order,), {(power(_F, 1), 0): Fraction(1)}
        over = {(power(_F, -1), 0): Fraction(2)}
        for orders, value in _differentiated(order - 1, 1, 0, self.centred).items():
            yield 1, orders, multiply(over, value, 0)
        for orders, value in _differentiated(order - 1, 0, 1, self.centred).items():
            yield 2, orders, value


@cache
def terms_of(
    norm: Norm, factor: tuple[int, int], of_q: int, of_m: int
) -> tuple[tuple[Orders, Expansion], ...]:
    """The coefficient of δq^of_q m^of_m in σ^{(order)} of a sample, the factor (sample, order):
    products with what is before each, and with f² for each δq, f for each m, as their z are y/f."""
    sample, order = factor
    ways = {(power(_F, -2 * of_q - of_m), 0): Fraction(1, factorial(of_q) * factorial(of_m))}
    found = _differentiated(order, of_q, of_m, norm.centred).items()
    return tuple((orders, norm.placed(multiply(ways, value, 0), sample)) for orders, value in found)


@cache
def _at_limits(norm: Norm, ratio: Ratio) -> sympy.Expr:
    """A ratio at m = 0."""
    found = sympy.diff(norm.value, norm.q, ratio.of_q) if ratio.of_q else norm.value
    if ratio.of_m:
        found = sympy.Integer(0) if norm.m is None else sympy.diff(found, norm.m, ratio.of_m)
    found = found if ratio == _F else found / norm.value
    return sympy.simplify(found if norm.m is None else found.subs(norm.m, 0))


@cache
def _differentiated(order: int, of_q: int, of_m: int, centred: bool) -> Terms:
    """∂_q … ∂_m … σ^{(order)}(y) at m = 0."""
    terms: Terms = {(order,): constant(1)}
    for by_m in [False] * of_q + [True] * of_m:
        total: Terms = {}
        for orders, value in terms.items():
            for made, found in _once(orders, value, by_m, centred):
                add(total.setdefault(made, {}), found)
        terms = total
    limits = {
        orders: {key: c for key, c in value.items() if not dict(key[0]).get(_V)}
        for orders, value in terms.items()
    }
    return {orders: value for orders, value in limits.items() if value}


def _once(
    orders: Orders, value: Expansion, by_m: bool, centred: bool
) -> Iterator[tuple[Orders, Expansion]]:
    """∂_q or ∂_m of c y^p σ^{(k)}(y)."""
    *ys, k = orders
    ratio = {(power(_V if by_m else _U, 1), 0): Fraction(1)}
    for (mono, _), coefficient in value.items():
        for atom, exponent in mono:
            assert isinstance(atom, Ratio)
            rest = {(times(mono, power(atom, -1)), 0): coefficient * exponent}
            yield orders, multiply(rest, _MOVES[by_m].get(atom, {}), 0)
    yield (-1, *ys, k + 1), multiply(value, ratio, 0)
    if ys:
        yield orders, multiply_all([value, ratio, constant(len(ys))], 0)
    if by_m and centred:
        off = multiply(value, {(power(_F, 1), 0): Fraction(-1)}, 0)
        yield (*ys, k + 1), off
        if ys:
            yield (*ys[1:], k), multiply(off, constant(len(ys)), 0)


def norm_of(stages: Sequence[Stage]) -> Norm | None:
    """The action of the norm before the last of these stages; None if there is none.

    Raises InputError for several norms, one behind the other.
    """
    if len(stages) == 1:
        return None
    if len(stages) > 2:
        got = f"{len(stages) - 1} norms, one behind the other"
        raise InputError("layer", got, "one norm, in a skip around one matrix")
    before, last = stages
    m = before.means[0].symbol if len(before.means) > 1 else None
    return Norm(before.functions[0], before.means[-1].symbol, m, bool(last.means))
