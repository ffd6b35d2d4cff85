# %% [markdown]
# # Fixed points and depth scales
#
# Around a fixed length everything is linear. Deviations of a length fall off with $\chi_\parallel$,
# those of a correlation with the slope of its map at $c^*$, gradients with $\chi_\gamma$.

# %%
"""Depth scales and the edge of chaos (source 001, §2.1, A.6, A.7, Figures 1, 6, 10)."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import sympy
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.moments.gaussian import variables, wick
from derivations.nait_saada_tanner import pair_averages
from derivations.nait_saada_tanner.maps import IN_SOURCE, cubic, one
from derivations.pictures.panels import one_panel
from derive import Network, activations, propagation
from derive.gaussian.brackets import Average
from derive.gaussian.oracle import gaussian_average
from derive.symbols import C_W
from numeric.arrays import Array

GAMMA = sympy.Rational(1, 4)
tanh = activations.tanh


def rescaled(weight: float | sympy.Expr, bias: float | sympy.Expr) -> Network:
    """tanh with γ = 1/4, by γσ_α² and γσ_b²."""
    weight, bias = (sympy.nsimplify(value) for value in (weight, bias))
    return propagation.network(tanh, weight / GAMMA, bias / GAMMA, GAMMA)


# %% [markdown]
# ## Lengths


# %%
@claim("001", "A.6", "the length map near its fixed point")
def length_deviation() -> Verdict:
    r"""$\epsilon_{l+1} = \epsilon_l\,(\chi_\gamma +
    \gamma\sigma_\alpha^2\langle\phi\phi''\rangle)$: the linear response of $K$ that the recursion
    of $G_1$ holds, and the derivative of the length map, for a cubic $\phi$ with any coefficients
    at any length."""
    q = sympy.Symbol("q", positive=True)
    maps = propagation.equations()
    printed = maps.chi + C_W * Average(((1, 0), (1, 2)))
    return equal(
        [one(maps.chi_parallel, q), sympy.diff(one(maps.length, q), q)],
        [one(printed, q)] * 2,
        "cubic φ, exact",
    )


@claim("001", "A.6 (σ_α²)", "a factor that two lines lack")
def missing_variance() -> Verdict:
    r"""Two lines of A.6 have $\gamma\int Dz\,\phi'\phi\,z\,\epsilon_l/\sqrt{q^*}$ for the
    first-order change, without $\sigma_\alpha^2$; with it they equal the derivative of the length
    map. At $\sigma_\alpha^2 = 4$, $\gamma = 1/4$, $q^* = 1$, $\phi = z - z^3/6$."""
    q = sympy.Symbol("q", positive=True)
    (z,) = variables(1)
    sigma = cubic()
    product = sigma.derivative() * sigma.expr
    average = wick(sympy.Matrix([[q]]))
    line = average(sympy.expand(product.subs(activations.z, z) * z)) / q  # √q z for a normal z
    slope = sympy.diff(one(propagation.equations().length, q), q)
    holds = equal(C_W * line, slope)
    c = sympy.symbols("c_0:4", real=True)
    numbers = dict(zip(c, (0, 1, 0, -sympy.Rational(1, 6)), strict=True)) | {q: 1}
    derived = slope.subs(numbers).subs(C_W, 4 * GAMMA)
    return misprint(derived, (GAMMA * line).subs(numbers), "ε_{l+1}/ε_l", provided=holds)


@claim("001", "§2.1.1", "ξ_q")
def length_scale() -> Verdict:
    r"""$\xi_q^{-1} = -\log(\chi_\gamma + \gamma\sigma_\alpha^2\langle\phi\phi''\rangle)$ at $q^*$,
    by rigorous averages, against the fall of a small deviation over 12 layers."""
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


# %%
@claim("001", "§1 (basin)", "with χ < 1 correlations converge to 1 at an exponential rate")
def basin() -> Verdict:
    r"""The correlation map is $\frac1{q^*}(C_b+C_W\sum_k\frac{(q^*c)^k}{k!}
    \langle\phi^{(k)}\rangle^2)$, as a cubic φ shows with any coefficients: no coefficient is
    negative. So it is convex on [0, 1], and lies above c there if its slope at 1 is $\chi\le1$:
    every $c\ge0$ converges to 1, not the small ones alone, and for odd φ with a bias every
    $c>-1$. tanh at $C_W=1.2$, $C_b=0.2$ from c = −0.99 … 0.9: at layer 100 all are 1, and the last
    step falls by χ. With $\chi>1$ 1 repels: c = 1 − 10⁻⁶ has left by layer 100."""
    q, c = sympy.symbols("q c", positive=True)
    average, (z1, z2) = wick(sympy.Matrix([[q, c * q], [c * q, q]])), variables(2)
    sigma = cubic()
    moved = average(
        sympy.expand(sigma.expr.subs(activations.z, z1) * sigma.expr.subs(activations.z, z2))
    )
    mean = wick(sympy.Matrix([[q]]))
    (z,) = variables(1)
    orders = [mean(sympy.expand(sigma.derivative(k).subs(activations.z, z))) for k in range(4)]
    mehler = sum((q * c) ** k / sympy.factorial(k) * each**2 for k, each in enumerate(orders))
    starts = np.array([-0.99, -0.5, 0, 0.1, 0.9])
    points, ends = [], []
    for weight, bias, first in (("1.2", "0.2", starts), ("3", "0.05", np.array([1 - 1e-6]))):
        net = rescaled(weight, bias)
        points.append(propagation.depth_scales(net))
        rows = [first]
        while len(rows) <= 100:
            rows.append(_moved_covariance(net, points[-1].q, rows[-1]) / points[-1].q)
        ends.append(1 - np.array(rows))
    ordered, chaotic = points
    rates = ends[0][30] / ends[0][29]
    return both(
        equal(sympy.expand(moved - mehler), 0, "Mehler's series of the map, cubic φ"),
        observed(list(abs(ends[0][-1]) < 1e-9), f"c from {starts} on ends at 1"),
        close(list(rates), [ordered.chi] * len(rates), 3, "by what 1 − c falls, and χ"),
        observed(bool(ends[1][-1][0] > 0.1), f"χ = {chaotic.chi:.4f}: 1 repels"),
    )


@claim("001", "A.7 (expansion)", "u_2 near a fixed correlation")
def expanded_variables() -> Verdict:
    r"""$u_2$ at $c^* + \epsilon$ for $c^* < 1$, to first order, and at $1 - \epsilon$ to order
    $\epsilon$, where the text at hand has $\sqrt{2q^*}\epsilon z_2$ for $\sqrt{2q^*\epsilon}\,z_2$,
    which the lines after it have."""
    q, root = sympy.symbols("q t", positive=True)  # ε = t²
    c, eps, z1, z2 = sympy.symbols("c epsilon z_1 z_2", real=True)

    def u2(at: sympy.Expr) -> sympy.Expr:
        return sympy.sqrt(q) * (at * z1 + sympy.sqrt(1 - at**2) * z2)

    below = sympy.diff(u2(c + eps), eps).subs(eps, 0)
    # √(1 − (1 − t²)²) = t √(2 − t²)
    near_one = sympy.sqrt(q) * ((1 - root**2) * z1 + root * sympy.sqrt(2 - root**2) * z2)
    series = sympy.series(near_one, root, 0, 3).removeO()
    printed = sympy.sqrt(2 * q) * root * z2 + sympy.sqrt(q) * z1 - root**2 * sympy.sqrt(q) * z1
    holds = equal(
        [below, sympy.expand(series)],
        [sympy.sqrt(q) * (z1 - c / sympy.sqrt(1 - c**2) * z2), sympy.expand(printed)],
    )
    return misprint(
        sympy.sqrt(2 * q) * root,
        sympy.sqrt(2 * q) * root**2,
        "the coefficient of z_2 at c* = 1, ε = t²",
        provided=holds,
        lost="the root may have ended behind ε",
    )


@claim("001", "A.7 (c* = 1)", "the correlation map near 1")
def near_one() -> Verdict:
    r"""$\epsilon_{l+1} = \epsilon_l\,\gamma\sigma_\alpha^2\langle\phi'^2\rangle$ for $c = 1 -
    \epsilon$: the derived slope at equal inputs."""
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
    r"""The slope is $\gamma\sigma_\alpha^2\langle\phi'(u_1)\phi'(u_2)\rangle$ (A.5). A.7 ends with
    $\langle\phi(u_1)\phi'(u_2)\rangle$, which is 0 for every odd $\phi$, as $z \to -z$ shows; tanh
    falls off at the rate of the first."""
    net = rescaled(2, "0.05")
    point = propagation.depth_scales(net)
    assert point.c is not None
    small, layers = 1e-5, 8
    start = (point.q, (point.c + small) * point.q, point.q)
    last = propagation.kernels(net, start, layers + 1)[-1]
    measured = ((last[1] / point.q - point.c) / small) ** (1 / layers)
    agrees = close(measured, point.slope, 4)
    return misprint(
        sympy.Float(point.slope, 10),
        0,
        f"tanh, C_W = 2, C_b = 0.05, c* = {point.c:.4f}: a deviation of 10⁻⁵ falls by "
        f"{measured:.5f} per layer over {layers} layers",
        provided=agrees,
    )


@claim("001", "A.7 (lines)", "terms of the expansion around a fixed point below 1")
def lines_below_one() -> Verdict:
    r"""Expanding $\phi(u_2)$ the term in $z_2$ comes with $\sigma_\alpha^2\epsilon_l$ like the one
    in $z_1$; A.7 prints it without, three lines long. Then it would not vanish with $\epsilon_l$,
    and $c^*$ be no fixed point. With it the two terms add up to the slope
    $C_W\langle\phi'(u_1)\phi'(u_2)\rangle$, for a cubic φ with any coefficients. (The next line has
    lost a prime: $\phi'(u_1)\phi'(u_2)$, and $\phi\phi''$ in the last term.)"""
    q, c = sympy.symbols("q c", positive=True)
    average, (z1, z2) = wick(sympy.eye(2)), variables(2)
    root = sympy.Symbol("s", positive=True)  # √(1 − c²)
    u1, u2 = sympy.sqrt(q) * z1, sympy.sqrt(q) * (c * z1 + root * z2)
    sigma, slope = cubic().expr, cubic().derivative()

    def at(function: sympy.Expr, place: sympy.Expr) -> sympy.Expr:
        return function.subs(activations.z, place)

    def mean(function: sympy.Expr) -> sympy.Expr:
        return average(sympy.expand(function)).subs(root, sympy.sqrt(1 - c**2))

    product = at(sigma, u1) * at(slope, u2) / sympy.sqrt(q)
    first, second = mean(product * z1), -c / sympy.sqrt(1 - c**2) * mean(product * z2)
    derived = mean(at(slope, u1) * at(slope, u2))
    coefficients = sympy.symbols("c_0:4", real=True)
    numbers = dict(zip(coefficients, (0, 1, 0, -sympy.Rational(1, 6)), strict=True))
    numbers |= {q: 1, c: sympy.Rational(3, 5)}
    return misprint(
        sympy.S.Zero,
        (GAMMA * second).subs(numbers),
        "the term in z_2 as ε → 0, of φ = z − z³/6 at q* = 1, c* = 3/5, γ = 1/4",
        provided=equal(sympy.simplify(first + second - derived), 0, "both terms with σ_α²ε"),
    )


@claim("001", "A.7 (index)", "ε of which layer, and a division by 0")
def index_of_the_deviation() -> Verdict:
    r"""The first line of the case $c^*<1$ has $c_{12}^{l+1}=c^*+\epsilon_l$ for
    $\epsilon_{l+1}$: a deviation would never fall. The second line of the case $c^*=1$ still has
    $c^*/\sqrt{1-c^{*2}}$, infinite there; the lines after it have $\sqrt{2\epsilon_l}$ in its
    place."""
    point = propagation.depth_scales(rescaled(2, "0.05"))
    assert point.slope is not None
    return misprint(
        "c_12^{l+1} = c* + ε_{l+1}",
        "c_12^{l+1} = c* + ε_l",
        f"tanh, C_W = 2, C_b = 0.05: ε_{{l+1}}/ε_l = {point.slope:.6f}, which is the witness",
        provided=observed(0 < point.slope < 1, "c* attracts"),
        witness=(1, point.slope, 1e-9),
        lost="the + 1 of the index may have been lost",
    )


@claim("001", "§2.1.2", "ξ_c is not −1/log χ in the chaotic phase")
def correlation_scale() -> Verdict:
    r"""Where $\chi > 1$, $c^* < 1$ attracts, and $-1/\log\chi$ is negative: of perturbations that
    grow away from 1. Deviations fall off with $-1/\log$ of the slope at $c^*$. Both diverge at
    $\chi = 1$, with slope $- 1 = -(\chi - 1)$. (The section also names the scale $\xi_q$ in its
    first formula.)"""
    near = propagation.depth_scales(rescaled("1.8", "0.05"))
    point = propagation.depth_scales(rescaled(2, "0.05"))
    ((C_b, C_W_critical),) = propagation.edge_of_chaos(tanh, GAMMA, lengths=[0.5])
    edge = propagation.depth_scales(rescaled(C_W_critical * (1 + 1e-6), C_b))
    ratio = edge.xi_c / -edge.xi_grad
    agrees = both(
        close(ratio, 1, 5, "ξ_c/|ξ_∇| at χ = 1 + O(10⁻⁶)"),
        observed(bool(point.xi_c < near.xi_c), "ξ_c falls away from the edge"),
    )
    return misprint(
        f"ξ_c = {point.xi_c:.4f} at C_W = 2, C_b = 0.05",
        f"−1/log χ = {point.xi_grad:.4f}",
        f"χ = {point.chi:.6f}, slope {point.slope:.6f} at c* = {point.c:.6f}",
        provided=agrees,
        witness=(point.xi_grad, point.xi_c),
    )


@claim("001", "§2.1 (rank)", "higher rank brings slower convergence in the ordered phase")
def rank_and_convergence() -> Verdict:
    r"""At fixed $\sigma_\alpha^2$ and $\sigma_b^2$ a larger $\gamma$ multiplies both $C_W$ and
    $C_b$. §2.1 says twice that convergence gets faster with $\gamma$. With $\sigma_\alpha^2 = 1$
    and $\sigma_b^2 = 0.2$ every $\gamma$ is ordered, and both scales grow."""
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
        f"ξ_q = {lengths[0]:.3f} at γ = 1/8, {lengths[-1]:.3f} at γ = 1",
        "ξ_q falls as γ grows",
        f"γ = 1/8, 1/4, 1/2, 1: ξ_q = {shown}; ξ_c = {also}; "
        "the witness is the sign of the change of ξ_q",
        witness=(-1, int(lengths[-1] > lengths[0]) - int(lengths[-1] < lengths[0])),
    )


# %% [markdown]
# ## The edge of chaos
#
# The curve is explicit in its fixed length: $C_W = 1/\langle\phi'^2\rangle_{q^*}$,
# $C_b = q^* - C_W\langle\phi^2\rangle_{q^*}$. In $(C_b, C_W) = \gamma(\sigma_b^2, \sigma_\alpha^2)$
# it is the same for every rank.


# %%
@claim("001", "Figures 1, 10", "the edge of chaos of tanh, γ = 1/4 and γ = 1")
def edge() -> Verdict:
    r"""200 points; at ten of them $\chi = 1$ and $\mathcal{V}(q^*) = q^*$ are solved by rigorous
    averages to 25 digits, whose $C_W$ and $C_b$ agree with the curve's to 10 digits and more. In
    $\gamma\sigma_b^2$ and $\gamma\sigma_\alpha^2$ the curves of $\gamma = 1/4$ and of full rank are
    one."""
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
    shown = both(min(agreement, key=lambda each: each.digits or 0), same)
    return replace(shown, figures={"edge_of_chaos": edge_figure(quarter)})


def edge_figure(curve: propagation.Edge) -> Figure:
    """C_W against C_b, with other activations beside tanh."""
    figure, panel = one_panel(
        (5, 3.8), xlabel="γ σ_b²", ylabel="γ σ_α²", xlim=(0, 1), ylim=(0.8, 3.5)
    )
    panel.plot([p.C_b for p in curve], [p.C_W for p in curve], color="black", label="tanh")
    for number, activation in enumerate((activations.erf_unit_slope, activations.hard_tanh)):
        other = propagation.edge_of_chaos(activation, points=40)
        panel.plot(
            [p.C_b for p in other],
            [p.C_W for p in other],
            color=f"C{number}",
            label=activation.name,
        )
    panel.text(0.55, 1.1, "ordered")
    panel.text(0.05, 3.0, "chaotic")
    panel.legend()
    return figure


@claim("001", "Figure 6", "correlation maps of tanh, γ = 1/4")
def correlation_maps() -> Verdict:
    r"""$c'$ against $c$ at the fixed length for $\sigma_w = 1.3$, 2.5 and 4 and $\gamma\sigma_b^2 =
    0.09$, by averages in doubles; stars are their fixed points. The engine's maps in ball
    arithmetic leave the lengths and the correlations of the stars where they are, to 11 digits."""
    figure, panel = one_panel((4.2, 4), xlabel="c", ylabel="c'")
    panel.plot([0, 1], [0, 1], "--", color="grey", label="c' = c")
    moved, fixed, stars = [], [], []
    for number, root in enumerate(("1.3", "2.5", "4")):
        net = rescaled(sympy.Rational(root) ** 2, "0.09")
        length = _fixed_length(net)
        c = _attracting_correlation(net, length)
        grid = np.arange(51) / 50
        curve = _moved_covariance(net, length, grid) / length
        panel.plot(grid, curve, color=f"C{number}", label=f"σ_w = {root}")
        panel.plot([c, 1], [c, 1], "*", color=f"C{number}")
        moved += [
            propagation.length_map(net, length),
            propagation.correlation_map(net, c, length),
        ]
        fixed += [length, c]
        stars.append(f"{c:.5f}")
    panel.legend()
    verdict = close(moved, fixed, 11, f"c* = {', '.join(stars)}")
    return replace(verdict, figures={"correlation_maps": figure})


def _moved_covariance(net: Network, q: float, c: ArrayLike) -> Array:
    """The covariance one layer on, by quadrature, at each of these correlations."""
    kernels = q * np.where(np.eye(2, dtype=bool), 1.0, np.asarray(c, float)[..., None, None])
    average = pair_averages.averages(tanh, kernels)[..., 0, 1]
    return float(net.C_b_at(1)) + float(net.weights_at(2).C_W) * average


def _fixed_length(net: Network) -> float:
    """q* > 0 with 𝒱(q*) = q*."""

    def excess(q: float) -> float:
        return float(_moved_covariance(net, q, 1.0)) - q

    return float(brentq(excess, 0.01, 100, xtol=1e-14, rtol=1e-14))


def _attracting_correlation(net: Network, q: float) -> float:
    """c* < 1 where χ > 1, else 1."""
    if propagation.chi(net, q) < 1:
        return 1.0

    def excess(c: float) -> float:
        return float(_moved_covariance(net, q, c)) / q - c

    return float(brentq(excess, 0, 0.99, xtol=1e-14, rtol=1e-14))
