"""Zeros in K of functions made of Gaussian averages ⟨f⟩_K, looked for on all of K > 0.

Below some z = r_0 and above some z = r_∞ the even part of f follows a power, c z^p, and then ⟨f⟩_K
follows one where K is far below r_0² or far above r_∞²,

    ⟨c|z|^p⟩_K = c M_p K^{p/2},   M_p = 2^{p/2} Γ((p+1)/2)/√π ,

or, where p < −1, ⟨f⟩_K → ∫f dz/√(2πK). So a scan in log K ends at either side where the function
has come to follow its power law: beyond, its sign cannot change any more. r_0, r_∞ and p are read
off samples of f at 10^{−40} ≤ z ≤ 10^{40}, not proved. A zero that is touched and not crossed,
or two of them within one step of the scan, are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import mpmath
import sympy

from ..activations.functions import Activation
from ..errors import InputError
from ..gaussian.shapes import is_even
from ..symbols import z
from ..work.caches import cache

Function = Callable[[mpmath.mpf, int], mpmath.mpf]
"""Of K, to so many digits."""

_STEPS_PER_DECADE = 8
_LONG = 30  # decades, from which on steps are longer
_MOST_DECADES = 60
_SAMPLES_PER_DECADE = 4
_DECADES = 40
_SAMPLE_DIGITS = 150
_MOST_SECANTS = 100
_STEEP = 30  # a local power beyond is taken for an exponential


@dataclass(frozen=True)
class Profile:
    """How the even part of a function of z behaves at either end.

    Attributes:
        near: r_0; ∞ where it is one power throughout, 0 where it is none close to z = 0.
        far: r_∞; 0 where it is one power throughout.
        coefficient, power: c and p for z > r_∞; p is None where it oscillates, and ±∞ where it
            grows or falls faster than every power.
        vanishes: whether the function is zero at every sample.
    """

    near: mpmath.mpf
    far: mpmath.mpf
    coefficient: mpmath.mpf
    power: mpmath.mpf | None
    vanishes: bool = False

    def at_infinity(self, K: mpmath.mpf) -> mpmath.mpf | None:
        """c M_p K^{p/2}; None where p is not a power above −1, which alone decides."""
        p = self.power
        if p is None or not -1 < p < mpmath.inf:
            return None
        moment = 2 ** (p / 2) * mpmath.gamma((p + 1) / 2) / mpmath.sqrt(mpmath.pi)
        return self.coefficient * moment * K ** (p / 2)


@cache
def even_part(
    activation: Activation, orders: tuple[int, ...]
) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """z > 0 ↦ ½(f(z) + f(−z)) for f = Π σ^{(orders)}, away from the kinks."""
    products = [
        sympy.prod([piece.expr.diff(z, order) for order in orders]) for piece in activation.pieces
    ]
    pieces = [
        (_end(piece.lower), _end(piece.upper), sympy.lambdify(z, product, "mpmath", cse=True))
        for piece, product in zip(activation.pieces, products, strict=True)
    ]

    def at(point: mpmath.mpf) -> mpmath.mpf:
        for lower, upper, function in pieces:
            if lower <= point < upper:
                return function(point)
        raise ArithmeticError(f"no piece of {activation} holds {point}")

    if activation.is_odd and is_even(orders):
        return at
    return lambda point: (at(point) + at(-point)) / 2


def _end(kink: sympy.Expr) -> mpmath.mpf:
    with mpmath.workdps(30):
        return (
            (mpmath.inf if kink > 0 else -mpmath.inf)
            if kink.is_infinite
            else mpmath.mpf(kink.evalf(30))
        )


def profile(activation: Activation, function: Callable[[mpmath.mpf], mpmath.mpf]) -> Profile:
    """r_0, r_∞ and the power at infinity of an even function made of σ, from samples of it."""
    with mpmath.workdps(_SAMPLE_DIGITS):
        steps = range(-_DECADES * _SAMPLES_PER_DECADE, _DECADES * _SAMPLES_PER_DECADE + 1)
        points = [mpmath.mpf(10) ** (mpmath.mpf(k) / _SAMPLES_PER_DECADE) for k in steps]
        values = [mpmath.re(mpmath.mpmathify(function(point))) for point in points]
        kinks = sorted(abs(mpmath.mpf(kink.evalf(30))) for kink in activation.kinks if kink != 0)
        zero = mpmath.mpf(0)
        near, far, coefficient, power = mpmath.inf, zero, zero, -mpmath.inf
        vanishes = all(
            abs(value) <= mpmath.mpf(10) ** (30 - _SAMPLE_DIGITS) * max(1, point**2)
            for point, value in zip(points, values, strict=True)
        )
        if not vanishes:
            near, *_ = _settled(points, values)
            far, coefficient, power = _settled(points[::-1], values[::-1])
            if power is None or power >= _STEEP:
                far = near
            elif power <= -_STEEP:
                far = _faded(points, values)
        if power is not None and abs(power) >= _STEEP and not activation.is_polynomial:
            power = mpmath.inf * mpmath.sign(power)
        ends = [2 * kink for kink in kinks]
        return Profile(min([near, *kinks]), max([far, *ends]), coefficient, power, vanishes)


def _settled(
    points: list[mpmath.mpf], values: list[mpmath.mpf]
) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf | None]:
    """How far from the first point on it is one power c z^p, to a quarter; c; and p."""
    if not values[0] and not values[1]:
        end = next((point for point, value in zip(points, values, strict=True) if value), points[0])
        return end, mpmath.mpf(0), -mpmath.inf
    found: list[mpmath.mpf] = []
    for first, second in ((0, 1), (2, 5)):
        if values[first] * values[second] <= 0:
            return points[0], mpmath.mpf(0), None
        ratio = mpmath.log(values[first] / values[second])
        found.append(ratio / mpmath.log(points[first] / points[second]))
    power = found[0]
    if abs(power) >= _STEEP:
        return points[0], mpmath.mpf(0), power
    if abs(found[0] - found[1]) > mpmath.mpf("0.02"):
        return points[0], mpmath.mpf(0), None
    nearest = mpmath.nint(2 * power) / 2  # of analytic pieces, at z → 0 and mostly at ∞
    power = nearest if abs(power - nearest) < mpmath.mpf(10) ** -6 else power
    coefficient = values[0] / points[0] ** power
    last = points[0]
    for point, value in zip(points, values, strict=True):
        if abs(value / (coefficient * point**power) - 1) > mpmath.mpf("0.25"):
            return last, coefficient, power
        last = point
    return (mpmath.inf if points[-1] > points[0] else mpmath.mpf(0)), coefficient, power


def _faded(points: list[mpmath.mpf], values: list[mpmath.mpf]) -> mpmath.mpf:
    """The last sample at which z f(z) is not negligible beside its largest value."""
    weighed = [abs(point * value) for point, value in zip(points, values, strict=True)]
    floor = max(weighed) * mpmath.mpf(10) ** -12
    return max(point for point, weight in zip(points, weighed, strict=True) if weight > floor)


def between(around: Profile) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The K between which ⟨f⟩_K is no power law, with room on either side."""
    near = around.near if mpmath.isfinite(around.near) else around.far
    near = near or mpmath.mpf(1)
    return near**2 / 200, 100 * max(around.far, near) ** 2


def extended(
    start: mpmath.mpf, by: mpmath.mpf, settled: Callable[[mpmath.mpf], bool]
) -> tuple[mpmath.mpf, bool]:
    """The first of start, start·by, start·by², … where the function is settled; whether one is.

    Where none is, or the function cannot be computed any more, the last that could.
    """
    at, last = start, start
    for _ in range(_MOST_DECADES):
        try:
            if settled(at):
                return at, True
        except InputError:
            break
        last, at = at, at * by
    return last, False


def same_power(function: Function) -> Callable[[mpmath.mpf], bool]:
    """True if the function falls or grows by the same power over the two decades below K."""

    def settled(at: mpmath.mpf) -> bool:
        values = [function(at * mpmath.mpf(10) ** k, 15) for k in (-2, -1, 0)]
        if any(value * values[0] <= 0 for value in values):
            return False
        first, second = (mpmath.log10(b / a) for a, b in pairwise(values))
        exponential = min(first, second) > _STEEP
        return bool(exponential or abs(first - second) < mpmath.mpf("0.05") * (1 + abs(first)))

    return settled


def follows(
    function: Function, law: Callable[[mpmath.mpf], mpmath.mpf | None]
) -> Callable[[mpmath.mpf], bool]:
    """True where the function is its law, to a quarter; as `same_power` where that is none or 0."""
    alike = same_power(function)

    def settled(at: mpmath.mpf) -> bool:
        expected = law(at)
        return bool(abs(function(at, 15) / expected - 1) < 0.25) if expected else alike(at)

    return settled


def zeros(
    function: Function,
    low: mpmath.mpf,
    high: mpmath.mpf,
    digits: int,
    sign_from: Callable[[mpmath.mpf], mpmath.mpf] = lambda at: mpmath.mpf(0),
) -> Iterator[mpmath.mpf]:
    """The zeros at sign changes between two K, each to a relative 10^{−digits}.

    A value at or below sign_from(K), or one that the quadrature does not reach, has no sign that
    could be trusted, and is skipped.
    """
    decades = mpmath.log10(high / low)
    count = int(mpmath.ceil(decades * (_STEPS_PER_DECADE if decades < _LONG else 3)))
    certain = []
    for k in range(count + 1):
        at = low * (high / low) ** (mpmath.mpf(k) / count)
        with suppress(InputError):
            value = function(at, 15)
            if abs(value) > sign_from(at):
                certain.append((at, value))
    for (left, below), (right, above) in pairwise(certain):
        if below * above < 0:
            yield refined(lambda at: function(at, digits + 12), left, right, digits)


def refined(
    function: Callable[[mpmath.mpf], mpmath.mpf], left: mpmath.mpf, right: mpmath.mpf, digits: int
) -> mpmath.mpf:
    """The zero in the bracket, to a relative 10^{−digits}, proven by the signs on either side."""
    with mpmath.workdps(digits + 15):
        step, last = mpmath.mpf(10) ** -digits, left

        def holds(root: mpmath.mpf) -> bool:
            return bool(function(root * (1 - step)) * function(root * (1 + step)) < 0)

        for root in regula_falsi(function, left, right):
            if abs(root - last) < step * root and holds(root):
                return root
            last = root
        if holds(last):
            return last
    raise InputError("digits", digits, f"fewer, for the zero near K = {float(last):.6g}")


def regula_falsi(
    function: Callable[[mpmath.mpf], mpmath.mpf], left: mpmath.mpf, right: mpmath.mpf
) -> Iterator[mpmath.mpf]:
    """Where secants of a shrinking bracket cross zero, by Anderson and Björck's rule; it ends with
    an exact zero, or where it takes too many."""
    below, above = function(left), function(right)
    for _ in range(_MOST_SECANTS):
        at = right - above * (right - left) / (above - below)
        value = function(at)
        yield at
        if not value:
            return
        if value * above < 0:
            left, below = right, above
        else:
            shrink = 1 - value / above
            below *= shrink if shrink > 0 else mpmath.mpf("0.5")
        right, above = at, value
