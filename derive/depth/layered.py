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

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import mpmath
import sympy

from ..activations.functions import Activation, as_activation
from ..citations import rests_on
from ..display.objects import Shown, lines_latex
from ..engine.step import Step, step
from ..errors import InputError, whole
from ..expressions import as_expression
from ..gaussian.brackets import Average, Bracket, unspecified
from ..gaussian.small_kernel import around_zero, average_at
from ..layers import Layer, as_layer
from ..symbols import C_W, C_b, K, tensor
from ..weights import WeightEnsemble, as_weights
from . import criticality as dense
from .criticality import Criticality
from .gains import Gain
from .kernel_functions import number
from .points import CriticalPoint

THETA = tensor("Theta")
_AT_ZERO_ALONE = "none is found at K* = 0; K* > 0 is looked for where χ_∥ − χ_⊥ ∝ ⟨σσ''⟩"
_POWERS = 4  # of K, among which K' − K at K* = 0 has its first


@dataclass(frozen=True, repr=False)
class LayerFunction(Shown):
    """A function of K, C_W and C_b with brackets: K', a χ, or what is made of them.

    Attributes:
        name: what it is.
        activation: σ.
        expr: the function, with brackets of the unspecified σ.
        kernels: of the brackets other than at K, by their labels.
    """

    name: str
    activation: Activation
    expr: sympy.Expr
    kernels: tuple[tuple[str, sympy.Expr], ...] = ()

    def kernel(self, average: Average) -> sympy.Expr:
        """At which K a bracket is taken."""
        return dict(self.kernels).get(average.bracket.kernel, K)

    @property
    def averages(self) -> tuple[Average, ...]:
        """Its brackets, those in kernels not included."""
        return tuple(sorted(self.expr.atoms(Average), key=str))

    def derivative(self, name: str) -> LayerFunction:
        """By K, with Price's theorem: d⟨f⟩/dK = ½⟨f''⟩ at the bracket's own kernel."""
        return LayerFunction(name, self.activation, self._diff(self.expr), self.kernels)

    def _diff(self, expr: sympy.Expr) -> sympy.Expr:
        plain = {each: sympy.Dummy() for each in expr.atoms(Average)}
        bare = expr.xreplace(plain)
        total = bare.diff(K)
        for each, symbol in plain.items():
            factors, outer, label = each.bracket
            sample = factors[0][0]
            curved = unspecified(Bracket(factors, tuple(sorted((*outer, sample, sample))), label))
            total += bare.diff(symbol) * curved / 2 * self._diff(self.kernel(each))
        return sympy.expand(total.xreplace({symbol: each for each, symbol in plain.items()}))

    @property
    def closed(self) -> sympy.Expr | None:
        """The function with every bracket in closed form; None where one has none."""
        value = self._closed(self.expr)
        return None if value is None else sympy.simplify(value)

    def _closed(self, expr: sympy.Expr) -> sympy.Expr | None:
        known = {}
        for each in expr.atoms(Average):
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            value = self.activation.average_outer(orders, len(outer), K)
            at = self._closed(self.kernel(each))
            if value is None or at is None:
                return None
            known[each] = value.subs(K, at)
        return expr.xreplace(known)

    def __call__(
        self, at: sympy.Expr | float, C_W: object = 1, C_b: object = 0, digits: int = 20
    ) -> mpmath.mpf:
        """The value at K = `at` and these variances, to this many digits."""
        with mpmath.workdps(digits + 10):
            known = {"K": number(at), "C_W": number(C_W), "C_b": number(C_b)}
            return self._value(self.expr, known, digits)

    def _value(self, expr: sympy.Expr, known: dict[str, mpmath.mpf], digits: int) -> mpmath.mpf:
        averages = sorted(expr.atoms(Average), key=str)
        values = []
        for each in averages:
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            here = self._value(self.kernel(each), known, digits)
            values.append(average_at(self.activation, orders, len(outer), here, digits + 5))
        plain = [sympy.Dummy() for _ in averages]
        bare = expr.xreplace(dict(zip(averages, plain, strict=True)))
        free = bare.free_symbols - set(plain) - {K, C_W, C_b}
        if free:
            raise InputError("layer", ", ".join(sorted(map(str, free))), "numbers, for a value")
        compiled = sympy.lambdify([K, C_W, C_b, *plain], bare, "mpmath")
        return mpmath.mpf(compiled(known["K"], known["C_W"], known["C_b"], *values))

    def _text(self, printed: Callable[[Any], str], at: str) -> str:
        used = {each.bracket.kernel for each in self.averages}
        return "".join(
            at.format(printed(sympy.Symbol(label)), printed(kernel))
            for label, kernel in self.kernels
            if label in used
        )

    def latex(self) -> str:
        """The function in LaTeX, with the kernels of its brackets."""
        names = {"χ_∥": r"\chi_\parallel", "χ_⊥": r"\chi_\perp", "ζ": r"\zeta", "C_b": "C_b"}
        left = names.get(self.name, "K'")
        return rf"{left} = {sympy.latex(self.expr)}" + self._text(sympy.latex, r",\quad {} = {}")

    def __str__(self) -> str:
        return f"{self.name} = {self.expr}" + self._text(str, ", {} = {}")


@dataclass(frozen=True, repr=False)
class LayerCriticality(Criticality):
    """What `criticality` found for a layer.

    Attributes:
        layer: the layer.
        universality_class: one of the dense layer's, "normalized", or "linear growth".
        line: of a normalized layer the C_b that makes it critical, as a function of C_W; None else.
        exponent: ζ of a layer whose K grows linearly, as a function of C_W and C_b; None else.
        rate: s, what K grows by at each layer, or (1 − a) K* of a normalized one; None else.
    """

    layer: Layer = field(default_factory=lambda: as_layer("dense"))
    line: LayerFunction | None = None
    exponent: LayerFunction | None = None
    rate: LayerFunction | None = None

    @property
    def kernel_map(self) -> LayerFunction:  # type: ignore[override]
        """K' = F(K), derived."""
        return functions(self.activation, self.layer)[0]

    @property
    def chi_parallel(self) -> LayerFunction:  # type: ignore[override]
        """χ_∥ = F'(K)."""
        return functions(self.activation, self.layer)[1]

    @property
    def chi_perp(self) -> LayerFunction:  # type: ignore[override]
        """χ_⊥ = ∂Θ'/∂Θ."""
        return functions(self.activation, self.layer)[2]

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
                bias = _float(self.bias(weight, digits), digits)
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
        lines = [f"{self.activation}, {self.layer}: universality class {self.universality_class}"]
        if self.reason:
            lines.append(f"  {self.reason}")
        if self.every_C_W:
            lines.append(f"  critical for every C_W{', with C_b = 0' * (self.line is not None)}")
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
    activation: Activation | str,
    digits: int = 20,
    *,
    weights: WeightEnsemble | None = None,
    layer: Layer | str | None = None,
) -> Criticality:
    """The universality class and the critical initialization of an activation, by solving.

    What to initialize a deep network with: `.critical` is (C_b, C_W), as in
    Network(activation, Gaussian(C_W), C_b=C_b). Learning rates are not among it: lambda_b and
    lambda_W are inputs of `Network`, and no rate is derived here.

    Arguments:
        activation: σ, or its name.
        digits: of K*, C_b and C_W where they are not exact.
        weights: the ensemble, whose C_W is solved for. The answer is the same for all of them: at
            leading order in 1/n they enter by E[W_ij²] = C_W/n_in alone; ensembles differ from
            order 1/n on.
        layer: what the network repeats; the dense layer by default. Classes of others are in
            `LayerCriticality`.

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
    repeated = as_layer("dense" if layer is None else layer)
    sigma = as_activation(activation)
    if repeated.is_dense:
        return dense.criticality(sigma, digits, weights=weights)
    if weights is not None:
        as_weights("weights", weights)
    return _criticality(sigma, repeated, whole("digits", digits, 1, 1000))


@cache
def functions(
    activation: Activation, layer: Layer
) -> tuple[LayerFunction, LayerFunction, LayerFunction]:
    """K', χ_∥ and χ_⊥ of a layer, from its derived recursions."""
    kernel, tangent = (step(name, layer=layer).single_input() for name in ("K", "Theta"))
    move = LayerFunction("K'", activation, *_composed(kernel))
    expr, kernels = _composed(tangent)
    perp = LayerFunction("χ_⊥", activation, sympy.expand(expr).coeff(THETA, 1), kernels)
    return move, move.derivative("χ_∥"), perp


def _composed(made: Step) -> tuple[sympy.Expr, tuple[tuple[str, sympy.Expr], ...]]:
    return made.composed.expr, tuple(made.composed.kernels.items())


@cache
def _criticality(activation: Activation, layer: Layer, digits: int) -> LayerCriticality:
    def found(
        kind: str, points: tuple[CriticalPoint, ...] = (), reason: str = "", **others: Any
    ) -> LayerCriticality:
        return LayerCriticality(activation, kind, points, reason, layer=layer, **others)

    if any(activation.jumps(0).values()):
        return found("none", reason="σ jumps, so χ_⊥ is infinite")
    if all(piece.expr == 0 for piece in activation.pieces):
        return found("none", reason="σ = 0 leaves the skip alone")
    law = _affine(activation, layer)
    if law is not None:
        gain = _against_one(law.gain)
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
    neutral = _homogeneous(activation, layer)
    if neutral is not None:
        return (
            found("scale-invariant", (neutral,))
            if neutral.C_W != 0
            else found(
                "none", reason="K grows by the same factor at every layer, for every C_W > 0"
            )
        )
    at_zero = _at_zero(activation, layer)
    isolated, reason = _isolated(activation, layer, digits)
    if at_zero is not None and at_zero.stability == "stable":
        return found("K* = 0", (at_zero, *isolated))
    unstable = () if at_zero is None else (at_zero,)
    if isolated:
        return found("half-stable", (*isolated, *unstable))
    if at_zero is not None:
        reason = "the one critical point, K* = 0, repels: K grows away from it"
    elif flat := _slope_one(activation, layer)[0]:
        reason = (
            f"at C_b = 0, C_W = {flat[0]} χ_∥ = χ_⊥ = 1 at K* = 0, but K' - K has no power of K "
            f"through K^{_POWERS}, which is solved for the dense layer alone"
        )
    return found("none", unstable, reason or "χ_∥ = χ_⊥ = 1 has no solution with C_W > 0, C_b ≥ 0")


@dataclass(frozen=True)
class _Affine:
    """F = gain·K + added and χ_⊥ = gain + spread/K, at every K, or up to what falls at large K."""

    activation: Activation
    gain: sympy.Expr
    added: sympy.Expr
    spread: sympy.Expr
    kernels: tuple[tuple[str, sympy.Expr], ...]
    exact: bool

    def function(self, name: str, expr: sympy.Expr) -> LayerFunction:
        return LayerFunction(name, self.activation, expr, self.kernels)


def _affine(activation: Activation, layer: Layer) -> _Affine | None:
    """The law at large K where all brackets have kernels that stay finite there."""
    move, _, perp = functions(activation, layer)
    if any(kernel.has(Average) and kernel.has(K) for _, kernel in move.kernels):
        return None
    limits = tuple((label, sympy.limit(at, K, sympy.oo)) for label, at in move.kernels)
    at = {each: move.kernel(each) for each in (*move.averages, *perp.averages)}
    ends = {each: sympy.limit(kernel, K, sympy.oo) for each, kernel in at.items()}
    if any(end.has(sympy.oo) for end in ends.values()):
        return None
    plain = {each: sympy.Dummy(positive=True) for each in at}
    back = {symbol: each for each, symbol in plain.items()}
    one, other = (each.expr.xreplace(plain) for each in (move, perp))
    gain = sympy.limit(one / K, K, sympy.oo)
    added = sympy.limit(sympy.expand(one - gain * K), K, sympy.oo)
    spread = sympy.limit(sympy.expand((other - gain) * K), K, sympy.oo)
    if not all(each.is_finite is not False for each in (gain, added, spread)):
        return None
    exact = not any(kernel.has(K) for kernel in at.values())
    exact = exact and all(
        sympy.simplify(each) == 0 for each in (one - gain * K - added, (other - gain) * K - spread)
    )
    gain, added, spread = (sympy.factor_terms(e.xreplace(back)) for e in (gain, added, spread))
    return _Affine(activation, gain, added, spread, limits, exact)


def _against_one(gain: sympy.Expr) -> int:
    """The sign of gain − 1; a symbol stands for a skip below 1."""
    if not gain.is_number:
        return -1
    return int(sympy.sign(sympy.nsimplify(gain) - 1))


def _homogeneous(activation: Activation, layer: Layer) -> CriticalPoint | None:
    """The critical point where every K is fixed; C_W = 0 where K' = fK with f > 1 always."""
    if not activation.is_scale_invariant:
        return None
    move, _, perp = functions(activation, layer)
    closed, other = (each.closed for each in (move, perp))
    if closed is None or other is None:
        return None
    factor = sympy.simplify(closed.subs(C_b, 0) / K)
    if factor.has(K) or sympy.simplify(factor - other) != 0:
        return None
    zero = sympy.Integer(0)
    roots = _positive_roots(factor - 1)
    stability = "neutral: K does not move"
    return CriticalPoint(zero, roots[0] if roots else zero, None, zero, zero, stability)


def _at_zero(activation: Activation, layer: Layer) -> CriticalPoint | None:
    """K* = 0 with C_b = 0 and F'(0) = χ_⊥(0) = 1, where K' − K has a power of K."""
    weights, powers = _slope_one(activation, layer)
    zero = sympy.Integer(0)
    for weight in weights:
        for power in sorted(each for each in powers if each > 1):
            coefficient = sympy.simplify(powers[power].subs(C_W, weight))
            if coefficient != 0:
                stability = "stable" if _sign(coefficient) < 0 else "unstable"
                return CriticalPoint(zero, weight, zero, coefficient, power - 1, stability)
    return None


def _slope_one(
    activation: Activation, layer: Layer
) -> tuple[list[sympy.Expr], dict[sympy.Rational, sympy.Expr]]:
    """The C_W of F'(0) = χ_⊥(0) = 1 at C_b = 0, and F by powers of K."""
    move, _, perp = functions(activation, layer)
    series, tangent = _small(move, _POWERS), _small(perp, 1)
    if series is None or tangent is None:
        return [], {}
    powers = _by_powers(series.subs(C_b, 0))
    if any(power < 1 and sympy.simplify(value) != 0 for power, value in powers.items()):
        return [], {}
    slope = powers.get(sympy.S.One, sympy.S.Zero)
    if sympy.simplify(slope - tangent.subs(K, 0)) != 0:
        return [], {}
    return list(_positive_roots(slope - 1)), powers


def _small(function: LayerFunction, power: int) -> sympy.Expr | None:
    """The function for small K, through K^power; None where a kernel does not vanish with K."""

    def expanded(expr: sympy.Expr) -> sympy.Expr | None:
        known = {}
        for each in sorted(expr.atoms(Average), key=str):
            at = expanded(function.kernel(each))
            if at is None or at.subs(K, 0) != 0:
                return None
            small = around_zero(function.activation, each.bracket, sympy.Integer(power))
            parts = (_raised(at, exponent, power).items() for exponent in small)
            terms = zip(small.values(), parts, strict=True)
            known[each] = sympy.Add(*(v * c * K**e for v, part in terms for e, c in part))
        value = expr.xreplace(known)
        rational = {each for each in value.atoms(sympy.Pow) if each.exp.is_negative and each.has(K)}
        value = value.xreplace({each: _taylor(each, power) for each in rational})
        cut = {e: c for e, c in _by_powers(value).items() if e <= power}
        return sympy.Add(*(c * K**e for e, c in cut.items()))

    return expanded(function.expr)


def _by_powers(value: sympy.Expr) -> dict[sympy.Rational, sympy.Expr]:
    """{e: coefficient of K^e}."""
    found: dict[sympy.Rational, sympy.Expr] = {}
    for term in sympy.Add.make_args(sympy.expand(value)):
        rest, exponent = term.as_coeff_exponent(K)
        found[exponent] = found.get(exponent, sympy.S.Zero) + rest
    return found


def _taylor(value: sympy.Expr, power: int) -> sympy.Expr:
    """A function that is regular at K = 0, through K^power."""
    total = sympy.S.Zero
    for k in range(power + 1):
        total += sympy.simplify(value.subs(K, 0)) * K**k / sympy.factorial(k)
        value = value.diff(K)
    return total


def _raised(
    at: sympy.Expr, exponent: sympy.Rational, power: int
) -> dict[sympy.Rational, sympy.Expr]:
    """(c K (1 + r))^exponent by the binomial series, through K^power, `at` being c K + …"""
    lead = at.coeff(K, 1)
    rest = sympy.expand((at - lead * K) / (lead * K))
    factor, total = sympy.S.One, sympy.S.One
    for k in range(1, power + 1):
        factor = factor * (exponent - k + 1) / k
        total += factor * rest**k
    terms = _by_powers(lead**exponent * K**exponent * total)
    return {e: c for e, c in terms.items() if e <= power}


def _isolated(
    activation: Activation, layer: Layer, digits: int
) -> tuple[tuple[CriticalPoint, ...], str]:
    """K* > 0 with χ_∥ = χ_⊥ = 1, and why there is none.

    Where χ_∥ − χ_⊥ is a multiple of ⟨σσ''⟩ at the one kernel that moves, that kernel is at a zero
    of the dense layer's equation.
    """
    move, parallel, perp = functions(activation, layer)
    squares = [each for each in parallel.averages if each.bracket.outer]
    labels = {each.bracket.kernel for each in squares}
    if len(labels) != 1 or move.kernel(squares[0]).has(Average):
        return (), _AT_ZERO_ALONE
    (label,) = labels
    slope = unspecified(Bracket(((1, 1), (1, 1)), (), label))
    curved = unspecified(Bracket(((1, 0), (1, 0)), (1, 1), label))
    balance = sympy.Dummy()
    off = sympy.expand((parallel.expr - perp.expr).xreplace({curved: 2 * (balance + slope)}))
    if sympy.simplify(off.subs(balance, 0)) != 0:
        return (), _AT_ZERO_ALONE
    if layer.free_symbols:
        return (), "numbers for the layer's symbols are needed to look for K* > 0"
    points = []
    for point in dense.criticality(activation, digits).points:
        if point.K is None or point.K == 0:
            continue
        points += list(_matched(activation, layer, point.K, squares[0], digits))
    return tuple(points), ""


def _matched(
    activation: Activation, layer: Layer, inner: sympy.Expr, bracket: Average, digits: int
) -> list[CriticalPoint]:
    """The critical points at which the moving kernel is `inner`."""
    move, parallel, perp = functions(activation, layer)
    kernel = move.kernel(bracket)
    with mpmath.workdps(digits + 10):
        known = {}
        for each in {*move.averages, *perp.averages}:
            factors, outer, _ = each.bracket
            orders = tuple(order for _, order in factors)
            value = average_at(activation, orders, len(outer), number(inner), digits + 5)
            known[each] = sympy.Float(value, digits + 5)
        found = []
        for at in sympy.solve(kernel - inner, K):
            for weight in _positive_roots(perp.expr.xreplace(known).subs(K, at) - 1):
                star = at.subs(C_W, weight)
                bias = star - move.expr.xreplace(known).subs({C_b: 0, K: star, C_W: weight})
                if not (star > 0 and bias >= 0):
                    continue
                curvature = parallel.derivative("χ_∥'")(star, weight, bias, digits) / 2
                side = "below" if curvature > 0 else "above"
                found.append(
                    CriticalPoint(
                        C_b=_float(bias, digits),
                        C_W=_float(weight, digits),
                        K=_float(star, digits),
                        coefficient=_float(curvature, digits),
                        exponent=sympy.Integer(1),
                        stability=f"half-stable: attracts from {side}",
                    )
                )
        return found


def _positive_roots(equation: sympy.Expr) -> list[sympy.Expr]:
    """The C_W > 0 that solve it, ascending; symbols stand for skips below 1."""
    cleared = sympy.numer(sympy.together(equation))
    if not cleared.has(C_W):
        return []
    unsigned = sympy.Dummy()
    roots = sympy.solve(cleared.subs(C_W, unsigned), unsigned)
    kept = [root for root in roots if _sign(root) > 0]
    return sorted(kept, key=lambda root: float(_tried(root)))


def _tried(value: sympy.Expr) -> sympy.Expr:
    """With ½ for every symbol."""
    return sympy.N(value.subs(dict.fromkeys(value.free_symbols, sympy.Rational(1, 2))))


def _sign(value: sympy.Expr) -> int:
    tried = _tried(value)
    return int(sympy.sign(tried)) if tried.is_real else 0


def _float(value: object, digits: int) -> sympy.Expr:
    return sympy.Float(sympy.N(value, digits + 5), digits)
