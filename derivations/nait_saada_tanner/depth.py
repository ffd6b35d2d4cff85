# %% [markdown]
# # Fixed points and depth scales
#
# Around a fixed length everything is linear. Deviations of a length fall off with $\chi_\parallel$,
# those of a correlation with the slope of its map at $c^*$, gradients with $\chi_\gamma$.
"""Depth scales and the edge of chaos (source 001, §2.1, A.6, A.7, Figures 1, 6, 10)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.gaussian_moments import variables, wick
from derivations.nait_saada_tanner.maps import C_W, IN_SOURCE, cubic, one
from derive import Network, activations, propagation
from derive.brackets import Average
from derive.oracle import gaussian_average

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMMA = sympy.Rational(1, 4)
tanh = activations.tanh


def rescaled(weight: float | sympy.Expr, bias: float | sympy.Expr) -> Network:
    """tanh with γ = 1/4, by γσ_α² and γσ_b²."""
    weight, bias = (sympy.nsimplify(value) for value in (weight, bias))
    return propagation.network(tanh, weight / GAMMA, bias / GAMMA, GAMMA)


# %% [markdown]
# ## Lengths


@claim("001", "A.6", "the length map near its fixed point")
def length_deviation() -> Verdict:
    """ε' = ε (χ + γσ_α²⟨φφ''⟩): the linear response of K that the recursion of G1 holds, and the
    derivative of the length map, for a cubic σ with any coefficients. Two lines of A.6 lack
    σ_α²."""
    q = sympy.Symbol("q", positive=True)
    maps = propagation.equations()
    printed = maps.chi + C_W * Average(((1, 0), (1, 2)))
    return equal(
        [one(maps.chi_parallel, q), sympy.diff(one(maps.length, q), q)],
        [one(printed, q)] * 2,
        "cubic σ, exact",
    )


@claim("001", "§2.1.1", "ξ_q")
def length_scale() -> Verdict:
    """−1/log(χ + γσ_α²⟨φφ''⟩) at q*, against the fall of a small deviation over 12 layers."""
    net = rescaled(2, "0.05")
    point = propagation.depth_scales(net)
    response = gaussian_average(
        tanh.derivative(1) ** 2 + tanh.expr * tanh.derivative(2), mpmath.mpf(point.q), 25
    ).value
    small = 1e-6
    moved = propagation.lengths(net, point.q * (1 + small), 12)
    measured = 11 / math.log(point.q * small / (moved[-1] - point.q))
    return both(
        close(point.xi_q, -1 / mpmath.log(2 * response), 13, f"ξ_q = {point.xi_q:.6f}"),
        close(measured, point.xi_q, 5, "a deviation of 10⁻⁶, layers 1 to 12"),
    )


# %% [markdown]
# ## Correlations


@claim("001", "A.7 (expansion)", "u_2 near a fixed correlation")
def expanded_variables() -> Verdict:
    """u_2 at c* + ε for c* < 1, to first order, and at 1 − ε to order ε. The scan's √2q* ε z_2 must
    be √(2q*ε) z_2, as the lines after it have it."""
    q, root = sympy.symbols("q t", positive=True)  # ε = t²
    c, eps, z1, z2 = sympy.symbols("c epsilon z_1 z_2", real=True)

    def u2(at: sympy.Expr) -> sympy.Expr:
        return sympy.sqrt(q) * (at * z1 + sympy.sqrt(1 - at**2) * z2)

    below = sympy.diff(u2(c + eps), eps).subs(eps, 0)
    # √(1 − (1 − t²)²) = t √(2 − t²)
    near_one = sympy.sqrt(q) * ((1 - root**2) * z1 + root * sympy.sqrt(2 - root**2) * z2)
    series = sympy.series(near_one, root, 0, 3).removeO()
    printed = sympy.sqrt(2 * q) * root * z2 + sympy.sqrt(q) * z1 - root**2 * sympy.sqrt(q) * z1
    return equal(
        [below, sympy.expand(series)],
        [sympy.sqrt(q) * (z1 - c / sympy.sqrt(1 - c**2) * z2), sympy.expand(printed)],
    )


@claim("001", "A.7 (c* = 1)", "the correlation map near 1")
def near_one() -> Verdict:
    """ε' = ε γσ_α²⟨φ'²⟩ for c = 1 − ε: the derived slope at equal inputs."""
    q, c = sympy.symbols("q c", positive=True)
    average, (z1, z2) = wick(sympy.Matrix([[q, c * q], [c * q, q]])), variables(2)
    slope = cubic().derivative()
    product = slope.subs(activations.z, z1) * slope.subs(activations.z, z2)
    maps = propagation.equations()
    derived = C_W * average(sympy.expand(product)).subs(c, 1)
    printed = gamma_alpha_slope()
    return both(
        equal(derived, one(maps.chi, q), "cubic σ"), equal(maps.chi.subs(IN_SOURCE), printed)
    )


def gamma_alpha_slope() -> sympy.Expr:
    """γσ_α²⟨φ'²⟩."""
    return IN_SOURCE[C_W] * Average(((1, 1), (1, 1)))


@claim("001", "A.7 (c* < 1)", "the correlation map near a fixed point below 1")
def below_one() -> Verdict:
    """The slope is γσ_α²⟨φ'(u_1)φ'(u_2)⟩ (A.5). A.7 ends with ⟨φ(u_1)φ'(u_2)⟩, which is 0 for every
    odd φ, as z → −z shows; tanh falls off at the rate of the first."""
    net = rescaled(2, "0.05")
    point = propagation.depth_scales(net)
    assert point.c is not None
    small, layers = 1e-5, 8
    start = (point.q, (point.c + small) * point.q, point.q)
    last = propagation.kernels(net, start, layers + 1)[-1]
    measured = ((last[1] / point.q - point.c) / small) ** (1 / layers)
    agrees = close(measured, point.slope, 4)
    if not agrees.holds:
        return agrees
    return misprint(
        sympy.Float(point.slope, 10),
        0,
        f"tanh, C_W = 2, C_b = 0.05, c* = {point.c:.4f}: a deviation of 10⁻⁵ falls by "
        f"{measured:.5f} per layer over {layers} layers",
    )


@claim("001", "§2.1.2", "ξ_c is not −1/log χ in the chaotic phase")
def correlation_scale() -> Verdict:
    """Where χ > 1, c* < 1 attracts, and −1/log χ is negative: of perturbations that grow away from
    1. Deviations fall off with −1/log of the slope at c*. Both diverge at χ = 1, with slope − 1 =
    −(χ − 1). (The section also names the scale ξ_q in its first formula.)"""
    near = [propagation.depth_scales(rescaled(weight, "0.05")) for weight in ("1.8", "1.78")]
    point = propagation.depth_scales(rescaled(2, "0.05"))
    ((C_b, C_W_critical),) = propagation.edge_of_chaos(tanh, GAMMA, lengths=[0.5])
    edge = propagation.depth_scales(rescaled(C_W_critical * (1 + 1e-6), C_b))
    ratio = edge.xi_c / -edge.xi_grad
    agrees = both(
        close(ratio, 1, 5, "ξ_c/|ξ_∇| at χ = 1 + O(10⁻⁶)"),
        equal(int(near[0].xi_c < near[1].xi_c), 1),
    )
    if not agrees.holds:
        return agrees
    return misprint(
        f"ξ_c = {point.xi_c:.4f} at C_W = 2, C_b = 0.05",
        f"−1/log χ = {point.xi_grad:.4f}",
        f"χ = {point.chi:.6f}, slope {point.slope:.6f} at c* = {point.c:.6f}",
    )


@claim("001", "§2.1 (rank)", "higher rank brings slower convergence in the ordered phase")
def rank_and_convergence() -> Verdict:
    """At fixed σ_α² and σ_b² a larger γ multiplies both C_W and C_b. §2.1 says twice that
    convergence gets faster with γ. With σ_α² = 1 and σ_b² = 0.2 every γ is ordered, and both scales
    grow."""
    points = [
        propagation.depth_scales(propagation.network(tanh, 1, "0.2", ratio))
        for ratio in ("1/8", "1/4", "1/2", "1")
    ]
    lengths, correlations = [p.xi_q for p in points], [p.xi_c for p in points]
    if lengths != sorted(lengths) or correlations != sorted(correlations):
        return equal(0, 1, "the scales do not grow with γ")
    shown = ", ".join(f"{q:.3f}" for q in lengths)
    also = ", ".join(f"{c:.3f}" for c in correlations)
    return misprint(
        "slower with larger γ",
        "faster with larger γ",
        f"γ = 1/8, 1/4, 1/2, 1: ξ_q = {shown}; ξ_c = {also}",
    )


# %% [markdown]
# ## The edge of chaos
#
# The curve is explicit in its fixed length: $C_W = 1/\langle\phi'^2\rangle_{q^*}$,
# $C_b = q^* - C_W\langle\phi^2\rangle_{q^*}$. In $(C_b, C_W) = \gamma(\sigma_b^2, \sigma_\alpha^2)$
# it is the same for every rank.


@claim("001", "Figures 1, 10", "the edge of chaos of tanh, γ = 1/4 and γ = 1")
def edge() -> Verdict:
    """200 points; at each, χ = 1 and 𝒱(q*) = q* are met by rigorous averages to 25 digits, whose
    C_W and C_b agree with the curve's to 10 digits and more."""
    quarter = propagation.edge_of_chaos(tanh, GAMMA)
    full = propagation.edge_of_chaos(tanh)
    derived, expected = [], []
    for k in range(1, 200, 22):
        with mpmath.workdps(30):
            q = mpmath.mpf(quarter.lengths[k])
            square, slope = (
                gaussian_average(function**2, q, 25).value
                for function in (tanh.expr, tanh.derivative())
            )
            expected += [1 / slope, q - square / slope]
        derived += [quarter[k].C_W, quarter[k].C_b]
    agreement = [
        close(a, b, 10, "each of ten points to 10 digits")
        for a, b in zip(derived, expected, strict=True)
    ]
    same = equal(
        [sympy.Float(point.C_b) for point in quarter], [sympy.Float(point.C_b) for point in full]
    )
    figure = edge_figure(quarter)
    shown = both(min(agreement, key=lambda each: each.digits or 0), same)
    return Verdict(
        shown.kind,
        shown.derived,
        shown.printed,
        shown.detail,
        digits=shown.digits,
        figures={"edge_of_chaos": figure},
    )


def edge_figure(curve: propagation.Edge) -> Figure:
    """C_W against C_b, with other activations beside tanh."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(5, 3.8), layout="constrained")
    panel = figure.subplots()
    panel.plot([p.C_b for p in curve], [p.C_W for p in curve], color="black", label="tanh")
    for number, activation in enumerate((activations.erf, activations.hard_tanh)):
        other = propagation.edge_of_chaos(activation, points=40)
        panel.plot(
            [p.C_b for p in other],
            [p.C_W for p in other],
            color=f"C{number}",
            label=activation.name,
        )
    panel.set(xlabel="γ σ_b²", ylabel="γ σ_α²", xlim=(0, 1), ylim=(0.8, 3.5))
    panel.text(0.55, 1.1, "ordered")
    panel.text(0.05, 3.0, "chaotic")
    panel.legend()
    return figure


@claim("001", "Figure 6", "correlation maps of tanh, γ = 1/4")
def correlation_maps() -> Verdict:
    """c' against c at the fixed length for σ_w = 1.3, 2.5, 4 and γσ_b² = 0.09; stars are the fixed
    points, solved for by ball arithmetic; the compiled map leaves them where they are, to 12
    digits."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    from derive.shapes import Shape  # noqa: PLC0415
    from numeric import brackets  # noqa: PLC0415

    figure = Figure(figsize=(4.2, 4), layout="constrained")
    panel = figure.subplots()
    panel.plot([0, 1], [0, 1], "--", color="grey")
    moved, fixed = [], []
    for number, root in enumerate(("1.3", "2.5", "4")):
        net = rescaled(sympy.Rational(root) ** 2, "0.09")
        point = propagation.depth_scales(net)
        assert point.c is not None
        weight, length = float(net.weights.C_W), point.q
        grid = [k / 50 for k in range(51)]

        def compiled(c: float, weight: float = weight, q: float = length) -> float:
            kernel = [[q, c * q], [c * q, q]]
            return (0.09 + weight * brackets.evaluate(tanh, Shape((0, 0), (0, 0)), kernel)) / q

        panel.plot(grid, [compiled(c) for c in grid], color=f"C{number}", label=f"σ_w = {root}")
        panel.plot([point.c, 1], [point.c, 1], "*", color=f"C{number}")
        moved.append(compiled(point.c))
        fixed.append(point.c)
    panel.set(xlabel="c", ylabel="c'")
    panel.legend()
    verdict = close(moved, fixed, 12, f"c* = {', '.join(f'{c:.5f}' for c in fixed)}")
    return Verdict(
        verdict.kind,
        verdict.derived,
        verdict.printed,
        verdict.detail,
        digits=verdict.digits,
        figures={"correlation_maps": figure},
    )
