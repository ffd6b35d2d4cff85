"""Series in powers of K where K falls like 1/log ℓ: ℓ^p Σ_q c_q K^q, and what is dropped of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import sympy

from ..arithmetic.logseries import EXACT, ONE, ZERO, LogSeries, least, plus, size
from ..symbols import K


class _Shown(NamedTuple):
    """Coefficients that are expressions in K already, exact."""

    def expr(self, value: sympy.Expr) -> sympy.Expr:
        return value

    def radius(self, value: sympy.Expr) -> sympy.Expr:
        return ZERO


class Dropped(NamedTuple):
    """ℓ^{−gap} K^kernel, up to log ℓ and a factor of order one; of what the first layers fix, the
    power of ((1 + s)/(ℓ + s)) that it is smaller by, and the power of K that goes with it."""

    gap: sympy.Expr
    kernel: sympy.Expr
    free: sympy.Expr = EXACT
    start: sympy.Expr = ZERO

    @classmethod
    def largest(cls, parts: Iterable[Dropped]) -> Dropped:
        """Of several; shifts and differences of K are ℓ^{−1} everywhere."""
        every = [cls(ONE, ZERO), *parts]
        found = min(every, key=lambda each: (size(each.gap), size(each.kernel)))
        free = least(*(each.free for each in every))
        return found._replace(free=free, start=min((each.start for each in every), key=size))

    def beside(self, power: sympy.Expr) -> Dropped:
        """Of a part that is K^power of what it is relative to now."""
        kernel, start = plus(self.kernel, power), plus(self.start, power)
        return self._replace(kernel=kernel, start=start)

    def at(self, layer: float, kernel: float, shift: float) -> float:
        """An estimate of it at a layer, s counted in."""
        steady = (1.0 + log(layer)) / layer ** size(self.gap) * kernel ** size(self.kernel)
        start = ((1.0 + max(shift, 0.0)) / layer) ** size(self.free) * kernel ** size(self.start)
        return float(5.0 * (steady + start))


NOTHING = Dropped(EXACT, ZERO)


@dataclass(frozen=True)
class KernelSeries:
    """ℓ^power · series(K), with the series in powers of K: its terms are smaller and smaller.

    Attributes:
        dropped: what is left out, relative to it.
    """

    power: sympy.Expr
    series: LogSeries
    dropped: Dropped

    ring = _Shown()

    @property
    def order(self) -> sympy.Expr:
        """Of ℓ^{−order}: where what is left out begins; `EXACT` of K itself."""
        return EXACT if self.series.order is EXACT else -self.power

    @property
    def terms(self) -> dict[tuple[sympy.Expr, sympy.Expr], sympy.Expr]:
        """By the powers of 1/ℓ and of K."""
        value = self.series.ring.expr
        return {
            (-self.power, q): value(each) * K**q
            for (q, _), each in sorted(self.series.terms.items(), key=lambda item: size(item[0][0]))
        }

    def ordered(self) -> list[tuple[tuple[sympy.Expr, int], sympy.Expr]]:
        """The terms, the largest first, none with a logarithm beside K."""
        return [((power, 0), value) for (power, _), value in self.terms.items()]

    def __mul__(self, other: KernelSeries) -> KernelSeries:
        product = self.series * other.series
        dropped = Dropped.largest([self.dropped, other.dropped])
        return KernelSeries(plus(self.power, other.power), product, dropped)

    def raised(self, power: sympy.Expr, extent: sympy.Expr) -> KernelSeries:
        """A power of it, to this many relative orders of K."""
        return KernelSeries(self.power * power, self.series.power(power, extent), self.dropped)

    def quotient(self, divisor: KernelSeries, power: sympy.Expr) -> KernelSeries:
        """self/divisor^power, as far as both are known."""
        extent = sympy.Integer(1)
        for each in (self.series, divisor.series):
            extent = max(extent, sympy.Integer(len(each.terms)))
        return self * divisor.raised(-power, extent)
