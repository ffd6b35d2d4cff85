"""The critical kernel of a σ that is linear up to a kink at distance d, such as hard_tanh: 1/log ℓ.

Around 0 such a σ has no nonlinear term, and K' = C_W⟨σσ⟩ differs from K by what lies beyond the
kink alone. With t the distance beyond it, (σ² − its linear part)(t) = j_1 t + j_2 t²/2 + …, summed
over the kinks at ±d,

    K' − K = −(C_W |j_1|/(d²√(2π))) K^{3/2} e^{−d²/2K} (1 + κK + O(K²)),   κ = j_2/(j_1 d) − 3/d² .

In u = d²/(2K) that is du/dℓ = B √u e^{−u} (1 + κd²/(2u) + …), B = C_W |j_1|/(2d√π), up to relative
e^{−u}, the difference between a step and a derivative. Integrated,

    u^{−1/2} e^u (1 + m/u + O(u^{−2})) = B (ℓ + s),   m = 2 − d j_2/(2 j_1),
    K = d²/(2u),   u = log(Bℓ) + ½ log u − m/u + O(u^{−2}) ,

so K ~ d²/(2 log ℓ) whatever the input, which enters through s, at relative order 1/(ℓ log ℓ). No
power of ℓ appears, and no expansion in 1/ℓ and log ℓ holds it: log u is log log ℓ.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, factorial, log, sqrt

import sympy

from ..activations.functions import Activation, as_activation
from ..arithmetic.hermite import by_parts
from ..arithmetic.logseries import ZERO, size
from ..display.objects import Shown
from ..errors import InputError, as_integer
from ..gaussian.brackets import Bracket
from ..gaussian.closed_forms import deltas
from ..gaussian.pieces import product_series, series_at_zero
from ..gaussian.small_kernel import around_zero
from ..symbols import K, ell, z
from .criticality import criticality
from .layer_functions import by_powers
from .points import CriticalPoint
from .systems import SQUARE


@dataclass(frozen=True, repr=False)
class LogarithmicKernel(Shown):
    """K at large depth where it falls as d²/(2 log ℓ).

    Attributes:
        distance: d, of the nearest kink.
        rate: B.
        correction: m.
    """

    activation: Activation
    distance: sympy.Expr
    rate: sympy.Expr
    correction: sympy.Expr

    @property
    def leading(self) -> sympy.Expr:
        """The largest term in `ell`; the next is log log ℓ/log²ℓ."""
        return self.distance**2 / (2 * sympy.log(ell))

    def evaluate(self, layer: int, shift: float = 0.0) -> float:
        """K at this layer, with u's equation solved as it stands through m/u.

        Arguments:
            layer: so large that B(ℓ + s) ≥ 10.
            shift: s, of `matched`; 0 where nothing is known of the input.

        Raises InputError for a smaller one.
        """
        return float(self.distance) ** 2 / (2 * self._u(layer, shift))

    def error(self, layer: int, shift: float = 0.0) -> float:
        """An estimate of what is left out: (1 + m²)/u² of u, and log ℓ/ℓ of it."""
        u = self._u(layer, shift)
        left_out = (1 + float(self.correction) ** 2) / u**2 + log(layer + 1) / layer
        return self.evaluate(layer, shift) * left_out / u

    def matched(self, value: float, layer: int) -> float:
        """s of a network whose kernel has this value at one layer.

        Raises InputError for a value that is not between 0 and d²/2.
        """
        if not 0 < value < float(self.distance) ** 2 / 2:
            raise InputError("value", value, f"a kernel between 0 and {self.distance**2 / 2}")
        u = float(self.distance) ** 2 / (2 * value)
        steps = exp(u + float(self.correction) / u) / sqrt(u) / float(self.rate)
        return steps - as_integer("layer", layer, 1, 10**15)

    def _u(self, layer: int, shift: float) -> float:
        steps = float(self.rate) * (as_integer("layer", layer, 1, 10**15) + shift)
        if not steps >= 10:
            raise InputError("layer", layer, f"a deeper one: B(ℓ + s) = {steps:.3g} is below 10")
        u = log(steps)
        for _ in range(200):
            u = log(steps) + log(u) / 2 - float(self.correction) / u
        return u

    def latex(self) -> str:
        """The equation of u in LaTeX."""
        d, B, m = (sympy.latex(each) for each in (self.distance, self.rate, self.correction))
        return (
            rf"K = \frac{{({d})^2}}{{2u}},\quad "
            rf"u = \log\left({B}\,\ell\right) + \tfrac12\log u - \frac{{{m}}}{{u}} + O(u^{{-2}})"
        )

    def __str__(self) -> str:
        half = self.distance**2 / 2
        return (
            f"{self.activation}: K = {half}/u, u = log({self.rate}*ℓ) + log(u)/2 - "
            f"{self.correction}/u + O(1/u**2)"
        )


def logarithmic_kernel(activation: Activation) -> LogarithmicKernel:
    """How the critical kernel falls where σ is linear on either side of 0 up to a kink.

    Arguments:
        activation: σ, or its name.

    Derived here. Raises InputError for another σ, one whose K grows away from 0, and one whose
    slope does not jump at the kink.

    >>> logarithmic_kernel("hard_tanh")
    hard_tanh: K = 1/2/u, u = log(2/sqrt(pi)*ℓ) + log(u)/2 - 3/2/u + O(1/u**2)
    """
    activation = as_activation(activation)
    point = falling_point(activation)
    if point is None:
        wanted = "one that is linear around 0 up to a kink, and pulls K to 0"
        raise InputError("activation", str(activation), wanted)
    distance = min((abs(kink) for kink in activation.kinks if kink != 0), key=float)
    loss, _ = tail(activation, SQUARE, distance, 3)
    first = loss.get(sympy.Integer(2), ZERO)
    if not first < 0:
        raise InputError("activation", str(activation), "one whose slope falls at its nearest kink")
    rate = sympy.simplify(-point.C_W * first * distance / (2 * sympy.sqrt(sympy.pi)))
    kappa = loss.get(sympy.Integer(3), ZERO) / first
    correction = sympy.simplify((1 - distance**2 * kappa) / 2)
    return LogarithmicKernel(activation, distance, rate, correction)


def falling_point(activation: Activation) -> CriticalPoint | None:
    """The critical point K* = 0 where K falls slower than every power of ℓ; None elsewhere."""
    found = criticality(activation)
    point = found.points[0] if found.universality_class == "K* = 0" else None
    return point if point is not None and not point.coefficient else None


def beyond(activation: Activation, kink: sympy.Expr, side: int) -> sympy.Expr:
    """σ's expression on the far side of a kink, seen from 0."""
    for piece in activation.pieces:
        if (piece.lower if side > 0 else piece.upper) == kink:
            return piece.expr
    raise ArithmeticError(f"no piece of {activation} ends at {kink}")


def core(activation: Activation, bracket: Bracket) -> dict[sympy.Expr, sympy.Expr]:
    """The bracket as if σ went on beyond ±d as it is around 0: exact, for it is linear there."""
    bare = sum(order == 0 for _, order in bracket.factors)
    return dict(around_zero(activation, bracket, sympy.Rational(bare, 2)))


def tail(
    activation: Activation, bracket: Bracket, distance: sympy.Expr, extent: int
) -> tuple[dict[sympy.Expr, sympy.Expr], sympy.Expr]:
    """The contribution of the kinks at ±d, over ρ = e^{−d²/2K}/√(2πK), and the power of its cut.

    With f the product, g what it has beyond d against its continuation and w the polynomial that
    differentiates a Gaussian average,

        ∫_0^∞ g(d + t) w(d + t) e^{−dt/K} e^{−t²/2K} dt = Σ g_k w_i (−1/2K)^j/j! n! (K/d)^{n+1},

    n = k + i + 2j, where g_k, w_i are Taylor's coefficients; and δ-functions on the kink.
    """
    orders, outer = bracket.line
    weight = by_parts(outer, z, K)
    many = extent + outer + 1
    cut = sympy.Integer(extent + 1)
    total = sympy.S.Zero
    for kink in (each for each in activation.kinks if abs(each) == distance):
        side = int(sympy.sign(kink))
        ends = beyond(activation, kink, side), activation.beside_zero(side)
        far, near = (_at_kink(each, orders, kink, side, many) for each in ends)
        jump = [a - b for a, b in zip(far, near, strict=True)]
        at = sympy.Poly(sympy.expand(weight.subs(z, kink + side * z)), z)
        for k, value in enumerate(jump):
            for (i,), factor in at.terms() if value != 0 else ():
                for j in range(many - k + 1):
                    n = k + i + 2 * j
                    part = value * factor * sympy.Rational(factorial(n), (-2) ** j * factorial(j))
                    total += part * K ** (n + 1 - j) / distance ** (n + 1)
        for (place, m), value in deltas(activation, orders).items():
            if place == kink:
                density = sympy.exp((distance**2 - z**2) / (2 * K))
                part = (weight * density).diff(z, m).subs(z, kink)
                total += value * (-1) ** m * part
    found = by_powers(total)
    return {q: value for q, value in found.items() if value != 0 and size(q) < cut}, cut


def _at_kink(
    piece: sympy.Expr, orders: tuple[int, ...], kink: sympy.Expr, side: int, degree: int
) -> tuple[sympy.Expr, ...]:
    """The Taylor coefficients of Π σ^{(o)}(kink + side·t) in t of σ's analytic piece."""
    taylor = series_at_zero(piece.subs(z, kink + side * z), degree + max(orders, default=0))
    sign = side ** sum(orders)
    return tuple(sign * each for each in product_series(taylor, orders, degree))
