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
from math import exp, log, sqrt

import sympy

from ..activations.functions import Activation, as_activation
from ..display.objects import Shown
from ..errors import InputError, as_integer
from ..symbols import ell, z
from .criticality import criticality


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
    found = criticality(activation)
    point = found.points[0] if found.universality_class == "K* = 0" else None
    if point is None or point.coefficient:
        wanted = "one that is linear around 0 up to a kink, and pulls K to 0"
        raise InputError("activation", str(activation), wanted)
    kinks = [kink for kink in activation.kinks if kink != 0]
    distance = min((abs(kink) for kink in kinks), key=float)
    first, second = sympy.S.Zero, sympy.S.Zero
    for kink in (each for each in kinks if abs(each) == distance):
        side = int(sympy.sign(kink))
        difference = beyond(activation, kink, side) ** 2 - activation.beside_zero(side) ** 2
        first += side * difference.diff(z).subs(z, kink)
        second += difference.diff(z, 2).subs(z, kink)
    if not first < 0:
        raise InputError("activation", str(activation), "one whose slope falls at its nearest kink")
    rate = sympy.simplify(-point.C_W * first / (2 * distance * sympy.sqrt(sympy.pi)))
    correction = sympy.simplify(2 - distance * second / (2 * first))
    return LogarithmicKernel(activation, distance, rate, correction)


def beyond(activation: Activation, kink: sympy.Expr, side: int) -> sympy.Expr:
    """σ's expression on the far side of a kink, seen from 0."""
    for piece in activation.pieces:
        if (piece.lower if side > 0 else piece.upper) == kink:
            return piece.expr
    raise ArithmeticError(f"no piece of {activation} ends at {kink}")
