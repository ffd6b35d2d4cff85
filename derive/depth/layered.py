r"""Critical initialization of any layer, from the K and Θ that the engine derives for it.

With K' = F(K) for one input, and χ_⊥ the coefficient of Θ in Θ', which is the mean of |∂z'/∂z|² a
neuron and what nearby inputs part by,

    χ_∥ = F'(K),        χ_⊥ = ∂Θ'/∂Θ ,

the dense layer's χ of `criticality`. A layer is critical at a K* = F(K*) with χ_∥ = χ_⊥ = 1. Two
more classes come with norms, behind which the brackets' kernels are the same for every K, so that
F = aK + s and χ_⊥ = a + u/K, with a = γ² of the skip.

Where a < 1, "normalized", s/(1 − a) attracts, χ_∥ = a, and χ_⊥ = 1 where u = s: a line C_b(C_W).

Where a = 1, "linear growth", K = sℓ + …, so that χ_⊥ = 1 + ζ/ℓ + …, ζ = u/s. The squared Jacobian
from layer ℓ_0 to ℓ is (ℓ/ℓ_0)^ζ, a power law for every C_W and C_b, and 1 − ρ of two inputs goes
as ℓ^{ζ−1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mpmath
import sympy

from ..activations.functions import Activation
from ..citations import rests_on
from ..display.objects import lines_latex
from ..errors import InputError, whole
from ..expressions import as_expression
from ..layers import Layer, as_period
from ..layers.by_depth import Given
from ..layers.chain import Activations, GivenActivations
from ..symbols import C_b
from ..weights import WeightEnsemble, as_weights
from ..work.caches import cache
from . import criticality as dense
from . import modes
from .affine import affine, against_one
from .criticality import Criticality
from .gains import Gain
from .layer_functions import LayerFunction, float_to, functions, sigmas
from .layer_points import POWERS, isolated_points, neutral_point, slope_one, zero_point
from .points import CriticalPoint


@dataclass(frozen=True, repr=False)
class LayerCriticality(Criticality):
    """The result of `criticality` for a layer.

    Attributes:
        universality_class: one of the dense layer's, "normalized", or "linear growth".
        line: of a normalized layer the C_b that makes it critical, as a function of C_W; None else.
        exponent: ζ of a layer whose K grows linearly, as a function of C_W and C_b; None else.
        rate: s, what K grows by at each layer, or (1 − a) K* of a normalized one; None else.
        variances: where no signal stays the same everywhere K of each position, of mean 1; () else.
    """

    line: LayerFunction | None = None
    exponent: LayerFunction | None = None
    rate: LayerFunction | None = None
    variances: tuple[float, ...] = ()

    @cached_property
    def every_C_W(self) -> bool:
        """Whether it is critical for every C_W, with no bias, or with any where K grows."""
        if self.line is not None:
            closed = self.line.closed
            return closed is not None and closed == 0
        return self.exponent is not None

    def bias(self, C_W: sympy.Expr | float, digits: int = 20) -> mpmath.mpf:
        """The C_b at which a normalized layer is critical with this C_W.

        Raises InputError for a layer of another class, and where no C_b ≥ 0 does it.
        """
        if self.line is None:
            raise InputError("layer", str(self.layer), "one with a line of critical C_b")
        value = self.line(sympy.S.One, C_W, 0, digits)
        if value < -(mpmath.mpf(10) ** (3 - digits)):
            wanted = f"one at which C_b ≥ 0 is critical, not {mpmath.nstr(value, 6)}"
            raise InputError("C_W", C_W, wanted)
        return max(value, mpmath.mpf(0))

    def chosen(self, C_W: sympy.Expr | float = 1, digits: int = 20) -> Gain:
        """The gain √C_W, and C_b, of a layer that is critical for every C_W, with what it means.

        C_b is `bias(C_W)` of a normalized layer, and 0 where K grows linearly. Raises InputError
        for a layer of another class, for C_W ≤ 0, and where C_b would be negative.
        """
        wanted = "a variance above 0"
        weight = as_expression("C_W", C_W, wanted)
        if not weight.is_number or not weight.is_positive:
            raise InputError("C_W", C_W, wanted)
        if self.line is not None:
            if self.every_C_W:
                bias, every = sympy.S.Zero, "every C_W, with C_b = 0"
            else:
                bias = float_to(self.bias(weight, digits), digits)
                every = "every C_W that has this C_b"
            star = f"K* = {mpmath.nstr(self.kernel_map(sympy.S.One, weight, bias, 15), 6)}"
            reason = f"the norm makes {star} attract and χ_⊥ = 1 at {every}"
        elif self.exponent is not None:
            bias = sympy.S.Zero
            zeta = mpmath.nstr(self.exponent(sympy.S.One, weight, 0, 15), 6)
            reason = f"K grows by a constant a layer and χ_⊥ = 1 + {zeta}/ℓ: critical at every C_W"
        else:
            raise InputError("layer", str(self.layer), "one that is critical for every C_W")
        return Gain(str(self.activation), weight, bias, f"in {self.layer} {reason}")

    def at(self, K: sympy.Expr | float, digits: int = 20) -> Gain:
        """Of the dense layer alone: InputError."""
        raise InputError("layer", str(self.layer), "the dense layer, for χ_⊥ = 1 at a chosen K*")

    def _why(self, point: CriticalPoint) -> str:
        if point.K is None:
            return f"every K in {self.layer}, which does not move"
        return f"{super()._why(point)} in {self.layer}"

    def _instead(self) -> str:
        return ""

    def _point(self) -> CriticalPoint:
        if self.line is not None or self.exponent is not None:
            wanted = "a layer with isolated critical variances; " + (
                "here every C_W and C_b is critical: criticality(…).chosen(C_W) is the gain of one"
                if self.line is None
                else "here every C_W is, with C_b = criticality(…).bias(C_W): .chosen(C_W)"
            )
            raise InputError("layer", str(self.layer), wanted)
        return super()._point()

    def __str__(self) -> str:
        lines = self._head(f"{self.activation}, {self.layer}")
        if self.every_C_W:
            lines.append(f"  critical for every C_W{', with C_b = 0' * (self.line is not None)}")
        if self.variances:
            shown = ", ".join(f"{each:.4g}" for each in self.variances)
            lines.append(
                f"  no signal stays the same everywhere: K of the positions goes as {shown}"
            )
        elif not self.kernel_map.has_C_W:
            lines.append("  C_W does not enter: C of the layer fixes its variances")
        lines += [f"  {each}" for each in self._stated()]
        for point in self.points:
            lines.append(f"  {point}")
            decay = point.decay(sympy.Symbol("l"))
            if decay is not None:
                lines.append(f"    |K - K*| ~ {decay}")
        return "\n".join(lines)

    def _stated(self) -> list[LayerFunction]:
        return [each for each in (self.rate, self.line, self.exponent) if each is not None]

    def latex(self) -> str:
        """The class, and its critical points or its line in LaTeX."""
        head = f"{self.activation}, {self.layer}: {self.universality_class}".replace("_", r"\_")
        rows = [each.latex() for each in (*self._stated(), *self.points)]
        return lines_latex([rf"\text{{{head}}}", *rows])


@rests_on("day2025", "roberts2022")
def criticality(
    activation: GivenActivations,
    digits: int = 20,
    *,
    weights: WeightEnsemble | None = None,
    layer: Given | None = None,
) -> Criticality:
    """The universality class and the critical initialization of an activation, by solving.

    What to initialize a deep network with: `.critical` is (C_b, C_W), as in
    Network(activation, Gaussian(C_W), C_b=C_b). Learning rates are not among it: lambda_b and
    lambda_W are inputs of `Network`, and no rate is derived here.

    Arguments:
        activation: σ, or its name. For "tanh; gelu*", the repeated one, gelu, is used.
        digits: of K*, C_b and C_W where they are not exact.
        weights: the ensemble, without a C_W, because the critical C_W is the result. The result is
            the same for all ensembles: at leading order in 1/n only E[W_ij²] = C_W/n_in enters.
        layer: what the network repeats; the dense layer by default. Classes of others are in
            `LayerCriticality`. For "dense; residual*", the repeated layer, residual, is used. Of
            convolutions it is criticality of a signal that is the same everywhere. Where none stays
            so, as at a boundary of zeros, the mode of K over positions that grows most is critical.

    Of the dense layer, and of others without a norm, ⟨σσ''⟩_K = 0 is solved for all K > 0 where it
    changes sign: on a scan that ends where the average follows its power laws at small and at
    large K, which `.searched` tells. A K* that only touches zero is not found. Source 000, §5.1,
    with the classes of PDLT, ch. 5; of layers with norms and skips derived here.

    Raises InputError for what is no activation or no layer, and for a layer of whose brackets
    several move with K.

    >>> from derive import activations
    >>> criticality(activations.tanh)
    tanh: universality class K* = 0
      K* = 0: C_b = 0, C_W = 1, stable
        |K - K*| ~ 1/(2*l)
    >>> criticality("tanh", layer="residual(skip=1/2)").critical
    (0, sqrt(3)/2)
    >>> criticality("tanh", layer="residual(skip=1, norm=rms)").exponent
    ζ = C_W**2*⟨σ'²⟩_h/(C_W*⟨σ²⟩_h + C_b), K_h = C_W
    """
    if weights is not None and as_weights("weights", weights).is_scaled:
        raise InputError(
            "weights", str(weights), "an ensemble without C_W: the critical C_W is the result"
        )
    repeated = as_period("dense" if layer is None else layer)
    sigma = Activations.repeated(activation)
    if repeated.is_dense:
        return dense.criticality(sigma, digits)
    return _criticality(sigma, repeated, whole("digits", digits, 1, 1000))


@cache
def _criticality(activation: Activation, layer: Layer, digits: int) -> LayerCriticality:
    def found(
        kind: str, points: tuple[CriticalPoint, ...] = (), reason: str = "", **others: Any
    ) -> LayerCriticality:
        return LayerCriticality(activation, kind, points, reason, layer=layer, **others)

    used = sigmas(activation, layer)
    if any(any(each.jumps(0).values()) for each in used):
        return found("none", reason="σ jumps, so χ_⊥ is infinite")
    if any(all(piece.expr == 0 for piece in each.pieces) for each in used):
        return found("none", reason="σ = 0 leaves the skip alone")
    if (taps := modes.taps_of(layer)) is not None:
        point, variances = modes.critical(used[0], layer, taps)
        if point.K is None:
            return found("scale-invariant", (point,), variances=variances)
        if point.stability == "stable":
            return found("K* = 0", (point,), variances=variances)
        repels = "the critical point K* = 0 repels, and no K* > 0 is looked for in such a layer"
        return found("none", (point,), repels, variances=variances)
    law = affine(activation, layer)
    if law is not None:
        gain = against_one(law.gain)
        if gain > 0:
            return found("none", reason=f"K grows as ({law.gain})**l")
        if gain == 0:
            exponent = law.function("ζ", law.spread / law.added)
            return found("linear growth", rate=law.function("K' - K", law.added), exponent=exponent)
        if law.exact:
            line = sympy.expand(law.spread - law.added + C_b)
            return found(
                "normalized",
                rate=law.function(f"({1 - law.gain}) K*", law.added),
                line=law.function("C_b", line),
            )
    fixed = not functions(activation, layer)[0].has_C_W
    always = "which C of the layer fixes" if fixed else "more than 1 for every C_W > 0"
    neutral = neutral_point(activation, layer, digits)
    if neutral is not None:
        return (
            found("scale-invariant", (neutral,))
            if neutral.C_W != 0
            else found(
                "none", reason=f"K is multiplied by the same factor at every layer, {always}"
            )
        )
    at_zero = zero_point(activation, layer, digits)
    isolated, reason = isolated_points(activation, layer, digits)
    if at_zero is not None and at_zero.stability == "stable":
        return found("K* = 0", (at_zero, *isolated))
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        return found("half-stable", (*isolated, *unstable))
    if at_zero is not None:
        reason = "the one critical point, K* = 0, repels: K grows away from it"
    elif flat := slope_one(activation, layer, digits)[0]:
        reason = (
            f"at C_b = 0, C_W = {flat[0]} χ_∥ = χ_⊥ = 1 at K* = 0, but K' - K has no power of K "
            f"through K^{POWERS}, which is solved for the dense layer alone"
        )
    if fixed and not reason:
        reason = "C of the layer fixes χ_∥ and χ_⊥, which are not 1 at K* = 0"
    return found("none", unstable, reason or "χ_∥ = χ_⊥ = 1 has no solution with C_W > 0, C_b ≥ 0")
