r"""Critical initialization of any layer: where the kernel rests and nearby inputs keep distance.

With K' = F(K) for one input, and χ_⊥ the coefficient of Θ in Θ', which is the mean of |∂z'/∂z|² a
neuron and what nearby inputs part by,

    χ_∥ = F'(K),        χ_⊥ = ∂Θ'/∂Θ ,

a layer is critical at a K* = F(K*) with χ_∥ = χ_⊥ = 1 (`layer_functions`). These points are all K
(scale-invariant σ), K* → 0, and isolated K* > 0 (half-stable, since at χ_∥ = 1 the quadratic term
attracts from one side and repels to the other); `points` finds them.
Two more classes come with norms, behind which the brackets' kernels
are the same for every K, so that F = aK + s and χ_⊥ = a + u/K, with a = γ² of the skip.

Where a < 1, "normalized", s/(1 − a) attracts, χ_∥ = a, and χ_⊥ = 1 where u = s: a line C_b(C_W).

Where a = 1, "linear growth", K = sℓ + …, so that χ_⊥ = 1 + ζ/ℓ + …, ζ = u/s. The squared Jacobian
from layer ℓ_0 to ℓ is (ℓ/ℓ_0)^ζ, a power law for every C_W and C_b, and 1 − ρ of two inputs goes
as ℓ^{ζ−1}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import mpmath
import sympy

from ..activations.functions import Activation
from ..citations import rests_on
from ..display.objects import Shown, lines_latex
from ..errors import InputError, Words, as_integer
from ..expressions import as_expression
from ..layers import Layer, as_period, dense
from ..layers.by_depth import Given
from ..layers.chain import Activations, GivenActivations
from ..symbols import C_b, layer, z
from ..weights import WeightEnsemble, as_weights
from ..work.caches import cache
from . import modes
from .gains import Gain, short
from .layer_functions import (
    LayerFunction,
    affine,
    against_one,
    float_to,
    floating,
    functions,
    number,
    sigmas,
)
from .points import CriticalPoint, neutral_point, of_dense, of_layer


@dataclass(frozen=True, repr=False)
class Criticality(Shown):
    """The result of `criticality`: the class, and every critical point, the class's own first.

    Attributes:
        universality_class: "scale-invariant", "K* = 0", "half-stable" or "none"; of layers with
            norms also "normalized" or "linear growth".
        points: the critical points, also those that are unstable and make no class.
        kernel_map, chi_parallel, chi_perp: eqs. (5.3), (5.4), (5.5).
        reason: why there is no class, where there is none.
        searched: the K between which an isolated K* was looked for: 0 and ∞, save where the
            function solved does not come to follow a power of K.
        layer: the layer.
        line: of a normalized layer the C_b that makes it critical, as a function of C_W; None else.
        exponent: ζ of a layer whose K grows linearly, as a function of C_W and C_b; None else.
        rate: s, what K grows by at each layer, or (1 − a) K* of a normalized one; None else.
        variances: where no signal stays the same everywhere K of each position, of mean 1; () else.
    """

    activation: Activation
    universality_class: str
    points: tuple[CriticalPoint, ...]
    reason: str = ""
    searched: tuple[sympy.Expr, sympy.Expr] = (sympy.S.Zero, sympy.oo)
    layer: Layer = field(default_factory=dense)
    line: LayerFunction | None = None
    exponent: LayerFunction | None = None
    rate: LayerFunction | None = None
    variances: tuple[float, ...] = ()

    @property
    def _name(self) -> str:
        """The layer, unless it is the dense one."""
        return str(self.layer.staged or "")

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

    @cached_property
    def every_C_W(self) -> bool:
        """True if it is critical for every C_W, with no bias, or with any where K grows."""
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
        """The gain with χ_⊥ = 1 at a K* of one's choice, C_b = K* − C_W ⟨σσ⟩ and C_W = 1/⟨σ'σ'⟩.

        There angles neither shrink nor grow, to first order; lengths settle where χ_∥ < 1, at that
        rate. Raises InputError for no positive number, where C_b would be negative, and for layers
        other than the dense one.
        """
        if self._name:
            raise InputError("layer", self._name, "the dense layer, for χ_⊥ = 1 at a chosen K*")
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
        inside = f" in {self._name}" if self._name else ""
        if point.K is None:
            left, right = self.activation.slopes
            slopes = f" (C_W = 2/(a² + b²) with slopes a = {left} and b = {right})"
            return f"every K{inside}, which does not move{slopes if not inside else ''}"
        decay = point.decay(layer)
        going = "" if decay is None else f", |K − K*| ~ {short(decay)}"
        where = f"K* = {short(point.K)}"
        if point.K == 0:
            where = f"{where}, where the slope of σ at 0 alone counts"
        else:
            where = f"{where}, with C_b = {short(point.C_b)}"
        return f"{where} ({point.stability}{going}){inside}"

    def _point(self) -> CriticalPoint:
        if self.line is not None or self.exponent is not None:
            wanted = "a layer with isolated critical variances; " + (
                "here every C_W and C_b is critical: criticality(…).chosen(C_W) is the gain of one"
                if self.line is None
                else "here every C_W is, with C_b = criticality(…).bias(C_W): .chosen(C_W)"
            )
            raise InputError("layer", str(self.layer), wanted)
        if self.universality_class == "none":
            wanted = f"a critical one: {self.reason}"
            raise InputError("activation", str(self.activation), wanted + self._instead())
        return self.points[0]

    def _instead(self) -> str:
        """The advice for an activation where nothing is critical."""
        if (
            self._name
            or any(self.activation.jumps(0).values())
            or not any(piece.expr.has(z) for piece in self.activation.pieces)
        ):
            return ""
        return (
            "; a block with a norm and a skip is critical at every C_W, layer='residual(skip=1,"
            " norm=rms)', and criticality(σ).at(K) is χ_⊥ = 1 alone at a K* of one's choice"
        )

    def __str__(self) -> str:
        of = ", ".join(filter(None, (str(self.activation), self._name)))
        lines = [f"{of}: universality class {self.universality_class}"]
        lines += [f"  {self.reason}"] * bool(self.reason)
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
            decay = point.decay(layer)
            if decay is not None:
                lines.append(f"    |K - K*| ~ {short(decay)}")
        return "\n".join(lines)

    def _stated(self) -> list[LayerFunction]:
        return [each for each in (self.rate, self.line, self.exponent) if each is not None]

    def latex(self) -> str:
        """The class, and its critical points or its line in LaTeX."""
        of = ", ".join(filter(None, (str(self.activation), self._name)))
        head = f"{of}: {self.universality_class}".replace("_", r"\_")
        rows = [each.latex() for each in (*self._stated(), *self.points)]
        return lines_latex([rf"\text{{{head}}}", *rows])


OF_A_BATCH = (
    "functions of one sample: those of a batch have the fixed point and the rates that "
    "`numeric.propagation.fixed_points(net, Exchangeable(m, q, p))` finds at given C_W and C_b"
)


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
        layer: what the network repeats; the dense layer by default. For "dense; residual*", the
            repeated layer, residual, is used. Of convolutions it is criticality of a signal that is
            the same everywhere. Where none stays so, as at a boundary of zeros, the mode of K over
            positions that grows most is critical.

    Of the dense layer, and of others without a norm, ⟨σσ''⟩_K = 0 is solved for all K > 0 where it
    changes sign: on a scan that ends where the average follows its power laws at small and at
    large K, which `.searched` tells. A K* that only touches zero is not found. Source 000, §5.1,
    with the classes of PDLT, ch. 5; of layers with norms and skips derived here.

    Raises InputError for what is no activation or no layer, for a layer of whose brackets several
    move with K, and for a function of all samples, such as batch normalization.

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
    if hasattr(activation, "weights_at"):
        wanted = "an activation: a network has its C_W and C_b, which `criticality` finds; its "
        wanted += "fixed points are `propagation.fixed_points(net)`, in `derive` and in `numeric`"
        raise InputError("activation", Words("a network"), wanted)
    repeated = as_period("dense" if layer is None else layer)
    for stage in repeated.stages:
        stage.constant.check_without_batch(OF_A_BATCH)
    sigma = Activations.repeated(activation)
    return _criticality(sigma, repeated, as_integer("digits", digits, 1, 1000))


@cache
def _criticality(activation: Activation, layer: Layer, digits: int) -> Criticality:
    def found(
        kind: str, points: tuple[CriticalPoint, ...] = (), reason: str = "", **others: Any
    ) -> Criticality:
        return Criticality(activation, kind, points, reason, layer=layer, **others)

    used = sigmas(activation, layer)
    if any(any(each.jumps(0).values()) for each in used):
        return found("none", reason="σ jumps, so χ_⊥ is infinite")
    if any(all(piece.expr == 0 for piece in each.pieces) for each in used):
        return found("none", reason="σ = 0 forgets its input")
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
    neutral = neutral_point(activation, layer, digits)
    if neutral is not None and neutral.C_W != 0:
        return found("scale-invariant", (neutral,))
    if neutral is not None:
        fixed = not functions(activation, layer)[0].has_C_W
        always = "which C of the layer fixes" if fixed else "more than 1 for every C_W > 0"
        return found("none", reason=f"K is multiplied by the same factor at every layer, {always}")
    known = of_dense(activation, digits) if layer.is_dense else of_layer(activation, layer, digits)
    at_zero, isolated, reason, searched = known
    if at_zero is not None and at_zero.stability == "stable":
        return found("K* = 0", (at_zero, *isolated), searched=searched)
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        return found("half-stable", (*isolated, *unstable), searched=searched)
    return found("none", unstable, reason, searched=searched)
