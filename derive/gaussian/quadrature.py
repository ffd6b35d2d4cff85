"""Averages of one and of two preactivations, to any number of digits, in milliseconds.

    ⟨∂^outer Π σ^{(order)}(z)⟩_q           and           ⟨σ^{(a)}(z_1) σ^{(b)}(z_2)⟩_K

Analytic σ: the trapezoid rule in ball arithmetic, on the line and, for two preactivations, on the
plane (`plane`) or, where they are almost the same, on the line of z_1 and that of z_2 given z_1.
Its error squares when the step is halved, so the difference between the sums over even and over odd
nodes, squared, is that of their mean. Its step is as fine as σ varies; where √q is far more than
that, closed forms and Arb's adaptive integration take its place on the line, which needs some steps
for every power of 2 in between. Piecewise σ: closed forms on the line; on the plane `truncated`,
or where the pieces are no polynomials times exponentials panels. What none does goes to `oracle`,
at leisure.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

import mpmath
from flint import acb, arb, ctx

from ..arithmetic.balls import Ball, compile_arb, to_mpf
from ..errors import InputError
from ..symbols import K, z
from ..work.caches import cache
from . import oracle, plane, truncated
from .pieces import Pieces
from .shapes import Shape, SingleShape, is_even, leibniz
from .small_kernel import average_at, small_kernel_average

Values = tuple[arb, ...]
Integrand = Callable[[arb], Values]

_WIDEST = 0.5
_SAFETY = 4  # digits
_NODES = 2**15  # of a trapezoid rule on the line, about a second
_PLANE_NODES = 2**20  # of nested trapezoid rules, some 20 seconds
_DOUBLINGS = 4  # of the precision, where the integrand loses digits
_WIDE = 8.0  # where √q is so many strips, the trapezoid rule gives way


def single(
    activation: Pieces, wanted: Sequence[SingleShape], q: mpmath.mpf, digits: int
) -> list[mpmath.mpf]:
    """These averages at the variance q ≥ 0, to 10^{−digits} of the integrand's size.

    What is less than that is 0. InputError at variances where the work would be without bounds.
    """
    if not activation.is_smooth:
        return [_piecewise_line(activation, each, q, digits) for each in wanted]
    expanded = [leibniz(*each) for each in wanted]
    orders = sorted({order for terms in expanded for factors in terms for order in factors})
    if q > 0 and _deviations(activation, q) > _WIDE:
        with suppress(InputError), mpmath.workdps(digits + 10):
            return [average_at(activation, *each, q, digits) for each in wanted]
    even = activation.is_odd and all(is_even(*each) for each in wanted)
    sigma = [(order, _derivative(activation, order)) for order in orders]
    for doublings in range(_DOUBLINGS):
        with ctx.workprec(_bits(digits) << doublings):
            scale = arb(q).sqrt()

            def integrand(x: arb, scale: arb = scale) -> Values:
                at = acb(scale * x)
                value = {order: function(at, False).real for order, function in sigma}
                return tuple(_combine(terms, value) for terms in expanded)

            if q == 0:
                values = integrand(arb(0))
            else:
                work = _Work(_NODES, activation, q)
                step = work.first_step(q)
                values = _normal_average(integrand, step, digits, even, work)
            if all(value.rad() <= arb(10) ** -digits * abs(value) for value in values):
                return [to_mpf(value) for value in values]
    raise InputError("activation", str(activation), f"one whose averages reach {digits} digits")


def double(
    activation: Pieces,
    orders: tuple[int, int],
    kernel: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    digits: int,
) -> mpmath.mpf:
    """⟨σ^{(a)}(z_1) σ^{(b)}(z_2)⟩ for z ~ N(0, K), K given as (K_11, K_12, K_22).

    Given z_1, z_2 is N(K_12 z_1/K_11, K_22 − K_12²/K_11), K_11 > 0 the larger variance.
    """
    K11, K12, K22 = kernel
    if K11 < K22:
        return double(activation, (orders[1], orders[0]), (K22, K12, K11), digits)
    if K11 == 0:
        return single(activation, [SingleShape(orders)], K11, digits)[0]
    if K12 == 0:
        pair = zip(orders, (K11, K22), strict=True)
        (first,), (second,) = (single(activation, [SingleShape((n,))], q, digits) for n, q in pair)
        return first * second
    if K11 == K12 == K22:
        return single(activation, [SingleShape(orders)], K11, digits)[0]
    if K11 == -K12 == K22 and activation.is_odd:
        sign = 1 if orders[1] % 2 else -1
        return sign * single(activation, [SingleShape(orders)], K11, digits)[0]
    if activation.is_odd and sum(orders) % 2:
        return mpmath.mpf(0)
    with mpmath.workdps(2 * digits + 20):
        rate, rest = K12 / K11, max(K22 - K12**2 / K11, mpmath.mpf(0))
    if activation.is_smooth and not activation.is_polynomial:
        return _smooth_plane(activation, orders, (K11, rate, rest), digits)
    if rest > 0 and truncated.is_made_of_these(activation):
        return _truncated_plane(activation, orders, kernel, digits)
    singular = any(activation.jumps(j) for order in orders for j in range(order))
    if not singular and rest > 0:
        found = plane.on_panels(activation, orders, (K11, rate, rest), digits)
        if found is not None:
            return found
    shape = Shape(orders, (0, 0))
    return oracle.bracket(activation, shape, [[K11, K12], [K12, K22]], digits).value


def _bits(digits: int) -> int:
    return int(3.33 * digits) + 40


@cache
def _derivative(activation: Pieces, order: int) -> Ball:
    return compile_arb(activation.derivative(order), z)


def _combine(terms: Counter[tuple[int, ...]], value: dict[int, arb]) -> arb:
    products = (
        math.prod((value[order] for order in factors[1:]), start=count * value[factors[0]])
        for factors, count in terms.items()
    )
    return sum(products, start=next(products))


def _deviations(activation: Pieces, variance: mpmath.mpf) -> float:
    """√variance over half the width of the strip; over 1 where there are no singularities."""
    strip = activation.strip
    width = mpmath.mpf(strip.evalf(17)) if strip.is_finite else mpmath.mpf(1)
    return float(mpmath.sqrt(variance) / width)


class _Work:
    """How many nodes the rules for an average at the variance q may take together."""

    def __init__(self, nodes: int, activation: Pieces, q: mpmath.mpf) -> None:
        self.nodes = self.left = nodes
        self.activation, self.q = activation, q

    def first_step(self, variance: mpmath.mpf) -> float:
        """One with e^{−2πa/h} ≤ 10^{−3}, a the strip's half-width in units of √variance.

        A power of 2, so that the nodes are exact. InputError where it would take too many.
        """
        deviations = _deviations(self.activation, variance)
        if deviations > self.nodes:
            raise self.too_wide()
        wanted = min(_WIDEST, 2 * math.pi / (3 * math.log(10) * max(deviations, 1.0)))
        return float(2.0 ** math.floor(math.log2(wanted)))

    def spend(self) -> None:
        """One node; InputError where none is left."""
        self.left -= 1
        if self.left < 0:
            raise self.too_wide()

    def too_wide(self) -> InputError:
        """The variance is too large."""
        wanted = f"a smaller variance: {self.activation} varies too fast there for quadrature"
        return InputError("q", mpmath.nstr(self.q, 6), wanted)


def _normal_average(
    integrand: Integrand, step: float, digits: int, even: bool, work: _Work
) -> Values:
    """⟨integrand(x)⟩ for standard normal x, by halving the step until the error is small.

    `even` tells that integrand(−x) = integrand(x). Where the balls of the two sums overlap, the
    difference is rounding, and halving on would not help. What is below the error is 0. Unlike
    `trapezoid.halved`, which stops where the last change is small, it stops where its square is.
    """
    goal = 10.0 ** (-(digits + _SAFETY) / 2)
    total, size = _sum(integrand, 0.0, step, digits, even, work)
    while True:
        between, its_size = _sum(integrand, step / 2, step, digits, even, work)
        size = [max(pair) for pair in zip(size, its_size, strict=True)]
        differences = [abs(a - b) for a, b in zip(total, between, strict=True)]
        settled = all(
            a.overlaps(b) or float(apart.mid()) <= goal * most
            for a, b, apart, most in zip(total, between, differences, size, strict=True)
        )
        total = tuple(a + b for a, b in zip(total, between, strict=True))
        step /= 2
        size = [2 * most for most in size]
        if settled:
            norm = arb(step) / (2 * arb.pi()).sqrt()
            errors = [
                value.rad() + apart * apart / arb(most) if most else arb(0)
                for value, apart, most in zip(total, differences, size, strict=True)
            ]
            return tuple(
                value * norm if abs(value) > error else arb(0)
                for value, error in zip(total, errors, strict=True)
            )


def _sum(
    integrand: Integrand, first: float, step: float, digits: int, even: bool, work: _Work
) -> tuple[Values, list[float]]:
    """Σ integrand(x) e^{−x²/2} over x = ±(first + k·step), k = 0, 1, …, and Σ |…|.

    It ends beyond the normal's reach where the terms no longer count.
    """
    reach = math.sqrt(2 * math.log(10) * (digits + 3))
    negligible = 10.0 ** -(digits + 6)
    total: list[arb] = []
    size: list[float] = []
    rows: list[list[arb]] = []  # that are to be added up
    k = 0
    while True:
        work.spend()
        place = first + k * step
        k += 1
        x, opposite, weight = _node(place, ctx.prec)
        values = integrand(x)
        if opposite is not None:
            mirrored = values if even else integrand(opposite)
            values = tuple(map(operator.add, values, mirrored))
        rows.append([value * weight for value in values])
        if place > reach:
            last = [abs(float(term.mid())) for term in rows[-1]]
            columns = [*zip(*rows, strict=True)]
            total = list(map(sum, columns, total or [arb(0)] * len(columns)))
            added = [float(sum(map(abs, column), arb(0)).mid()) for column in columns]
            size = list(map(operator.add, added, size or [0.0] * len(columns)))
            rows = []
            if all(a <= negligible * b for a, b in zip(last, size, strict=True)):
                return tuple(total), size


@cache(entries=2**12)
def _node(x: float, precision: int) -> tuple[arb, arb | None, arb]:
    """x, −x unless that is the same, and e^{−x²/2}, in so many bits: of ctx, which says so too."""
    at = arb(x)
    return at, arb(-x) if x else None, (-(at**2) / 2).exp()


def _smooth_plane(
    activation: Pieces,
    orders: tuple[int, int],
    conditional: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    digits: int,
) -> mpmath.mpf:
    """The average over z_1 ~ N(0, K_11) of σ^{(a)}(z_1) ⟨σ^{(b)}(rate·z_1 + √rest·y)⟩_y."""
    K11, rate, rest = conditional
    first, second = (_derivative(activation, order) for order in orders)
    work = _Work(_PLANE_NODES, activation, K11)
    outer_step, inner_step = work.first_step(K11), work.first_step(rest)
    even = activation.is_odd
    with mpmath.workdps(2 * digits + 20):
        K22 = rest + rate**2 * K11
    found = plane.average(
        (first, second), (K11, rate * K11, K22), outer_step, digits, _bits(digits), even=even
    )
    if found is not None:
        return to_mpf(found)
    with ctx.workprec(_bits(digits)):
        root, slope, spread = arb(K11).sqrt(), arb(rate), arb(rest).sqrt()

        def given(mean: arb) -> arb:
            def at(y: arb) -> Values:
                return (second(acb(mean + spread * y), False).real,)

            return (
                _normal_average(at, inner_step, digits, False, work)[0] if rest else at(arb(0))[0]
            )

        def integrand(x: arb) -> Values:
            at = root * x
            return (first(acb(at), False).real * given(slope * at),)

        return to_mpf(_normal_average(integrand, outer_step, digits, even, work)[0])


def _piecewise_line(
    activation: Pieces, line: SingleShape, q: mpmath.mpf, digits: int
) -> mpmath.mpf:
    """The closed form where there is one and it keeps its digits, else the oracle."""
    orders, outer = line
    if q == 0:
        half = outer // 2
        limit = 2**half * small_kernel_average(activation, orders, half).diff(K, half).subs(K, 0)
        if not limit.is_finite:
            raise InputError("q", 0, f"a variance at which averages of {activation} are finite")
        with mpmath.workdps(digits + 10):
            return mpmath.mpf(limit.evalf(digits + 5))
    with mpmath.workdps(digits + 10):
        return average_at(activation, orders, outer, q, digits)


def _truncated_plane(
    activation: Pieces,
    orders: tuple[int, int],
    kernel: tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf],
    digits: int,
) -> mpmath.mpf:
    """In closed form but for probabilities that are integrated, to 10^{−digits}."""
    groups = [((order,), 0) for order in orders]
    for doublings in range(_DOUBLINGS):
        with ctx.workprec(_bits(digits) + 20 << doublings):
            K11, K12, K22 = map(arb, kernel)
            goal = 0.6 * ctx.prec
            value = truncated.average(activation, groups, [[K11, K12], [K12, K22]], goal)
            if value.rad() < arb(10) ** -digits:
                return to_mpf(value)
    raise InputError("digits", digits, f"fewer, for an average of {activation}")
