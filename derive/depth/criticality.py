"""Critical initialization: where the kernel rests and nearby inputs keep their distance.

Criticality is χ_∥ = χ_⊥ = 1 at a fixed point K* of the kernel (`layer_functions`). As
g' = ⟨σ'σ'⟩ + ⟨σσ''⟩, it needs ⟨σσ''⟩_{K*} = 0, an equation in K* alone; then C_W = 1/⟨σ'σ'⟩_{K*}
and C_b = K* − C_W g(K*) ≥ 0. Its solutions (`points`) are all K (scale-invariant σ), K* → 0, and
isolated K* > 0 (half-stable, since at χ_∥ = 1 the quadratic term attracts from one side and repels
to the other).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mpmath
import sympy

from ..activations.functions import Activation, as_activation
from ..display.objects import Shown, lines_latex
from ..errors import InputError, whole
from ..expressions import as_expression
from ..layers import Layer, dense
from ..symbols import layer, z
from ..work.caches import cache
from .fixed_points import is_line
from .gains import Gain, short
from .layer_functions import LayerFunction, floating, functions, number
from .points import CriticalPoint, isolated_points, neutral_at_zero, point_at_zero


@dataclass(frozen=True, repr=False)
class Criticality(Shown):
    """The result of `criticality`: the class, and every critical point, the class's own first.

    Attributes:
        universality_class: "scale-invariant", "K* = 0", "half-stable" or "none".
        points: the critical points, also those that are unstable and make no class.
        kernel_map, chi_parallel, chi_perp: eqs. (5.3), (5.4), (5.5).
        reason: why there is no class, where there is none.
        searched: the K between which an isolated K* was looked for: 0 and ∞, save where the
            function solved does not come to follow a power of K.
        layer: the layer.
    """

    activation: Activation
    universality_class: str
    points: tuple[CriticalPoint, ...]
    reason: str = ""
    searched: tuple[sympy.Expr, sympy.Expr] = (sympy.S.Zero, sympy.oo)
    layer: Layer = field(default_factory=dense)

    @property
    def kernel_map(self) -> LayerFunction:
        """K' = F(K) (5.3)."""
        return functions(self.activation, self.layer)[0]

    @property
    def chi_parallel(self) -> LayerFunction:
        """χ_∥ = F'(K) (5.4)."""
        return functions(self.activation, self.layer)[1]

    @property
    def chi_perp(self) -> LayerFunction:
        """χ_⊥ = ∂Θ'/∂Θ (5.5)."""
        return functions(self.activation, self.layer)[2]

    @property
    def critical(self) -> tuple[sympy.Expr, sympy.Expr]:
        """(C_b, C_W) of the universality class; InputError where there is none."""
        point = self._point()
        return point.C_b, point.C_W

    @property
    def K_star(self) -> sympy.Expr | None:
        """K* of the class; None where every K is fixed."""
        return self._point().K

    @property
    def gain(self) -> Gain:
        """√C_W of the class with the sentence why; InputError, with a way out, where there is none.

        Of a class with several critical points it is the first's, and the sentence names the rest.
        """
        point = self._point()
        others = "; ".join(
            f"K* = {short(each.K)} at √C_W = {float(sympy.sqrt(each.C_W)):.6g} is {each.stability}"
            for each in self.points[1:]
        )
        reason = f"χ_∥ = χ_⊥ = 1 at {self._why(point)}"
        reason += f"; also critical: {others}" if others else ""
        return Gain(str(self.activation), point.C_W, point.C_b, reason)

    def at(self, K: sympy.Expr | float, digits: int = 20) -> Gain:
        """The gain with χ_⊥ = 1 at a K* of one's choice, C_b = K* − C_W ⟨σσ⟩ and C_W = 1/⟨σ'σ'⟩.

        There angles neither shrink nor grow, to first order; lengths settle where χ_∥ < 1, at that
        rate. Raises InputError for no positive number, and where C_b would be negative.
        """
        wanted = "a fixed point K*, above 0"
        star = as_expression("K", K, wanted)
        if not star.is_number or not star.is_positive:
            raise InputError("K", K, wanted)
        if any(self.activation.jumps(0).values()):
            raise InputError("activation", str(self.activation), "one that does not jump")
        move, parallel, perp = functions(self.activation, self.layer)
        slope = perp(star, digits=digits + 5)
        if not slope:
            raise InputError("activation", str(self.activation), "one that is not constant")
        with mpmath.workdps(digits + 10):
            weight = 1 / slope
            bias = number(star) - move(star, weight, 0, digits + 5)
            if abs(bias) < number(star) * mpmath.mpf(10) ** -digits:
                bias = mpmath.mpf(0)
        if bias < 0:
            needs = f"a K* with C_b ≥ 0; here χ_⊥ = 1 needs C_b = {mpmath.nstr(bias, 6)}"
            raise InputError("K", K, needs)
        along = parallel(star, weight, digits=15)
        reason = f"χ_⊥ = 1 at the fixed point K* = {short(star)}, where χ_∥ = " + (
            mpmath.nstr(along, 6) + (" attracts" if abs(along) < 1 else " does not attract")
        )
        return Gain(str(self.activation), floating(weight, digits), floating(bias, digits), reason)

    def _why(self, point: CriticalPoint) -> str:
        """Where a critical point is, and which way K moves."""
        if point.K is None:
            left, right = self.activation.slopes
            slopes = f"C_W = 2/(a² + b²) with slopes a = {left} and b = {right}"
            return f"every K, which does not move ({slopes})"
        decay = point.decay(layer)
        going = "" if decay is None else f", |K − K*| ~ {short(decay)}"
        where = f"K* = {short(point.K)}"
        if point.K == 0:
            return f"{where}, where the slope of σ at 0 alone counts ({point.stability}{going})"
        return f"{where}, with C_b = {short(point.C_b)} ({point.stability}{going})"

    def _point(self) -> CriticalPoint:
        if self.universality_class == "none":
            wanted = f"a critical one: {self.reason}"
            raise InputError("activation", str(self.activation), wanted + self._instead())
        return self.points[0]

    def _instead(self) -> str:
        """What can be done where nothing is critical."""
        if any(self.activation.jumps(0).values()) or not any(
            piece.expr.has(z) for piece in self.activation.pieces
        ):
            return ""
        return (
            "; a block with a norm and a skip is critical at every C_W, layer='residual(skip=1,"
            " norm=rms)', and criticality(σ).at(K) is χ_⊥ = 1 alone at a K* of one's choice"
        )

    def _head(self, of: str) -> list[str]:
        """The lines of `str` before the critical points: the class, and the reason for it."""
        lines = [f"{of}: universality class {self.universality_class}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        return lines

    def __str__(self) -> str:
        lines = self._head(str(self.activation))
        for point in self.points:
            lines.append(f"  {point}")
            decay = point.decay(layer)
            if decay is not None:
                lines.append(f"    |K - K*| ~ {short(decay)}")
        return "\n".join(lines)

    def latex(self) -> str:
        """The class and its critical points in LaTeX."""
        head = f"{self.activation}: {self.universality_class}".replace("_", r"\_")
        return lines_latex([rf"\text{{{head}}}", *(point.latex() for point in self.points)])


def criticality(activation: Activation, digits: int = 20) -> Criticality:
    """Of the dense layer: what `derive.criticality` finds, which explains the arguments."""
    activation = as_activation(activation)
    return _criticality(activation, whole("digits", digits, 1, 1000))


@cache
def _criticality(activation: Activation, digits: int) -> Criticality:
    if any(activation.jumps(0).values()):
        return Criticality(activation, "none", (), "σ jumps, so χ_⊥ is infinite")
    if all(piece.expr == 0 for piece in activation.pieces):
        return Criticality(activation, "none", (), "σ = 0 forgets its input")
    if activation.is_scale_invariant:
        left, right = activation.slopes
        zero = sympy.Integer(0)
        neutral = CriticalPoint(
            zero, 2 / (left**2 + right**2), None, zero, zero, "neutral: K does not move"
        )
        return Criticality(activation, "scale-invariant", (neutral,))
    if is_line(activation):
        neutral = neutral_at_zero(activation)
        reason = "every K is fixed at the C_W below, but χ_⊥ = 1 as K → 0 alone"
        return Criticality(activation, "none", (neutral,), reason)
    at_zero = point_at_zero(activation)
    isolated, searched = isolated_points(activation, digits)
    if at_zero is not None and at_zero.stability == "stable":
        return Criticality(activation, "K* = 0", (at_zero, *isolated), searched=searched)
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        found = (*isolated, *unstable)
        return Criticality(activation, "half-stable", found, searched=searched)
    reason = (
        "χ_∥ = χ_⊥ = 1 has no solution with C_b ≥ 0"
        if at_zero is None
        else "the one critical point, K* = 0, repels: K grows away from it"
    )
    return Criticality(activation, "none", unstable, reason, searched)
