# %% [markdown]
# # Activations
#
# Odd activations leave orthogonality a fixed point of the large-width map, with two rates in
# place of one; ReLU and sigmoid move it. The recursion of V gives the size of the fluctuations,
# which the paper conjectures to be $O(1/\sqrt d)$: right for $Q^\top Q/d$, and then
# with a constant that is derived here for each activation. Where the smallest singular value stays
# up, as assumption $\mathcal A_1$ wants, follows from the size of the same fluctuations.

# %%
"""Batch norm with activations, with mean correction, and what 𝒜_1 needs (source 003, appendix G,
Figures 3, 6, 7)."""

from __future__ import annotations

import numpy as np
import sympy

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import (
    Verdict,
    both,
    close,
    equal,
    misprint,
    observed,
    sampled,
)
from derivations.daneshmand import ensembles, large_width, moments
from derivations.daneshmand.large_width import odd_law
from derivations.pictures.panels import one_panel
from derivations.training.data import digits
from derive import activations, batchnorm
from derive.activations.functions import Activation
from numeric import compare
from numeric.tables import layout
from numeric.tables.drawing import beside, points

CASES = (
    ("linear", False),
    ("tanh", False),
    ("sin", False),
    ("relu", True),
    ("tanh", True),
    ("sigmoid", True),
)


@claim("003", "G.2", "odd activations orthogonalize without mean correction")
def odd_activations() -> Verdict:
    """At C = 1/n the signs of the components are independent, so
    $\\mathbb E\\,\\sigma(u_i)\\sigma(u_j)=0$ for odd σ: a fixed point. Its rates
    $\\mathbb E[\\sigma_1u_1\\sigma_2u_2]/\\mathbb E\\sigma^2$ and
    $\\frac12\\mathbb E[\\sigma_1^2(u_1^2-u_2^2)]/\\mathbb E\\sigma^2$ are below 1 for tanh, sin and
    $\\mathrm{erf}(\\sqrt\\pi u/2)$ at n = 2 … 32; for σ = z both are the derived $n/(n+2)$."""
    sizes = (2, 4, 8, 32)
    linear = [odd_law(activations.linear, size) for size in sizes]
    exact = [batchnorm.contraction_rate().subs(batchnorm.n, size) for size in sizes]
    rates = [
        rate
        for name in ("tanh", "sin", "erf_unit_slope")
        for size in sizes
        for law in [odd_law(activations.by_name(name), size)]
        for rate in (law.off_rate, law.diagonal_rate)
    ]
    gaps = [batchnorm.stationary_gap(2, 1).subs({batchnorm.n: s, batchnorm.d: 1}) for s in sizes]
    stable = sympy.Integer(int(max(np.abs(rates)) < 1))
    return both(
        close([law.off_rate for law in linear], exact, 12, "σ = z: off-diagonal rate"),
        close([law.diagonal_rate for law in linear], exact, 12, "and diagonal rate"),
        close([law.gap_sq for law in linear], gaps, 12, "and stationary gap"),
        close([stable], [1], 12, f"largest rate of tanh, sin, erf: {max(np.abs(rates)):.4f}"),
    )


# %% [markdown]
# ## The conjecture (27)–(28)


# %%
@claim("003", "28", "the conjecture's scale: L grows as √d unless Q is divided by it")
def scale_of_conjecture() -> Verdict:
    """Rows of Q with unit variance make $\\operatorname{tr}Q^\\top Q=nd$, and L of (27) is
    $nd\\,|C-\\mathbb EC|$ with C of trace 1. For σ = z without mean correction, where L is
    $nd\\,V$ (G.2), one layer from orthogonality gives $\\mathbb EL^2=n^2d(1-1/n)$ exactly, and the
    stationary state $n(n-1)(n+2)^2d/(4(n+1))$ at leading order: (28) is true of
    $Q^\\top Q/d$, not of $Q^\\top Q$."""
    n, d = batchnorm.n, batchnorm.d
    a, b = moments.noise_covariance()
    first = sympy.factor((n * d) ** 2 * (a * (n**2 + n) + n * b))
    stationary = sympy.factor((n * d) ** 2 * batchnorm.stationary_gap(2, terms=1))
    row = sympy.Matrix(1, 3, sympy.symbols("q_1:4", real=True))
    unit = row * sympy.sqrt(3) / sympy.sqrt(row.dot(row))
    stands = both(
        equal(sympy.simplify((unit.T * unit).trace()), 3, "a row of unit variance: tr = n, n = 3"),
        equal(first, n * (n - 1) * d, "one layer from orthogonality"),
        equal(stationary, n * (n - 1) * (n + 2) ** 2 * d / (4 * (n + 1)), "stationary"),
    )
    power = sympy.limit(d * sympy.diff(stationary, d) / stationary / 2, d, sympy.oo)
    return misprint(
        d**power,
        1 / sympy.sqrt(d),
        f"order of L of (27): E L² = {stationary}, stationary, σ = z; divided by d it is 1/√d",
        provided=stands,
    )


def leading_deviation(activation: Activation, batch: int, centered: bool) -> float:
    """d E L² at leading order: by quadrature for odd σ, else from the recursion of V."""
    if not centered:
        return odd_law(activation, batch).gap_sq
    return large_width.deviation(activation.name, batch, True)


@claim("003", "Figure 7", "fluctuations are of order 1/√d, with what constant", sampled=True)
def fluctuations(sampling: Sampling) -> Verdict:
    """L of (27) with $Q^\\top Q/(nd)$ for $Q^\\top Q$, from 150 networks a case at d = 128 to 512,
    n = 6, layers 21 to 40: $d\\,\\mathbb EL^2$ extrapolated in 1/d beside the derived constant, for
    linear, tanh, sin (quadrature), and with mean correction for ReLU, tanh and sigmoid: from the
    recursion of V. (At full size layers 21 to 1000 of 40 networks.)"""
    size, widths = 6, (128, 256, 512)
    depth, draws = sampling.sizes(40, 1000), sampling.networks(150, 40)
    made, panel = one_panel(xlabel="d", ylabel="√(E L²)", xscale="log", yscale="log", title="n = 6")
    comparisons, labels = [], []
    for number, (name, centered) in enumerate(CASES):
        activation = activations.by_name(name)
        theory = leading_deviation(activation, size, centered)
        tables, shown = [], []
        for width in widths:
            C = ensembles.grams(
                width, size, depth, draws, sampling.seed, activation, centered, inputs=np.eye(size)
            )
            C = C[:, 20:] / size
            mean = C.mean(axis=(0, 1))
            squares = width * ((C - mean) ** 2).sum(axis=(2, 3)).mean(axis=1)
            tables.append(ensembles.means(width, [depth], L2=squares))
            shown.append([tables[-1][each].item() for each in ("L2", "L2_se")])
        flowed = layout.table([depth], L2=theory)
        comparisons.append(compare(flowed, tables, sampling.false_alarms / len(CASES), degree=1))
        labels.append(f"{name}{', centered' if centered else ''}")
        values, errors = np.array(shown).T
        beside(
            panel,
            (widths, np.sqrt(theory / np.array(widths))),
            (widths, np.sqrt(values / widths), errors / (2 * np.sqrt(values * widths))),
            color=f"C{number}",
            label=labels[-1],
        )
    panel.legend(fontsize="small")
    return sampled(
        comparisons, "d E L² at widths 128, 256, 512, extrapolated", {"batchnorm7": made}, labels
    )


# %% [markdown]
# ## Figures 6 and 3


# %%
@claim("003", "Figure 6 (MLP)", "ReLU networks with and without batch norm", sampled=True)
def figure_six(sampling: Sampling) -> Verdict:
    """50 networks of width 100 on a batch of 8 digit images, 30 layers: with mean correction V
    comes to rest at $\\sqrt{1/(n-1)-1/n}$ and fluctuations, from the recursion of V; vanilla
    networks align."""
    batch, width, depth = 8, 100, 30
    inputs = digits().pixels[:batch] / 16
    deviation = leading_deviation(activations.relu, batch, True)
    made, panel = one_panel(xlabel="layer", ylabel="V", title="ReLU, d = 100, n = 8, digits")
    layers = np.arange(1, depth + 1)
    for label, normalised in (("batch norm", True), ("vanilla", False)):
        found = ensembles.simulate(
            width, batch, depth, sampling.networks(50), sampling.seed, activations.relu, normalised,
            normalised=normalised, inputs=inputs,
        )  # fmt: skip
        points(panel, layers, found["gap"], found["gap_se"], label=label, marker=".")
    fixed = 1 / (batch - 1) - 1 / batch
    rest = np.sqrt(fixed + deviation / width)
    panel.axhline(rest, color="black", linewidth=1, label="derived")
    aligned = np.sqrt((batch - 1) / batch)
    panel.axhline(aligned, color="black", linewidth=1, linestyle="--", label="√((n−1)/n)")
    panel.legend()
    tables, draws = [], sampling.networks(200)
    for wide in (200, 400, 800):
        C = ensembles.grams(
            wide, batch, depth, draws, sampling.seed, activations.relu, True, inputs=inputs
        )
        gaps = ensembles.gap_squared(C)
        late = wide * (gaps[:, 20:].mean(axis=1) - fixed)
        tables.append(ensembles.means(wide, [depth], V2=late))
    # centered rows: V² = L² + V_fixed², because tr C = 1 and C 1 = 0 leave no room for a cross term
    flowed = layout.table([depth], V2=deviation)
    return sampled(
        compare(flowed, tables, sampling.false_alarms, degree=1),
        "d (E V² − V_fixed²) with mean correction, extrapolated in 1/d",
        {"batchnorm6": made},
    )


@claim("003", "§3.3 (edge)", "the spectrum at d ~ n²: Marchenko and Pastur's law")
def spectrum_at_depth() -> Verdict:
    """With $x=n\\lambda$, $d=cn^2$ and n → ∞ a layer moves x by
    $\\frac2nx(m_2-x)$, $m_2=\\frac1n\\sum x^2$ (the slope of (16) around any spectrum), and by
    noise of variance $x_ix_j/d$, whose second order pushes eigenvalues apart by
    $\\frac1{cn}\\mathrm{PV}\\int\\frac{xy\\,\\rho(y)}{x-y}dy$. At rest
    $\\mathrm{PV}\\int\\frac{\\rho(y)dy}{x-y}=2c+\\frac{1-2cm_2}x$: that of Marchenko and Pastur's
    law with ratio $\\gamma=\\frac1{4c}=\\frac{n^2}{4d}$, whose mean is 1 and whose
    $m_2=1+\\gamma$ solves it. So $\\mathbb EV^2\\to\\gamma/n=\\frac n{4d}$ as in the stationary
    law, and $\\sqrt n\\,\\sigma_n\\to1-\\frac n{2\\sqrt d}$: it is above the 0.1 of Figure 3 from
    $d=n^2/3.24$ on, and 0 from $n^2/4$ down."""
    x, c, gamma = sympy.symbols("x c gamma", positive=True)
    # PV∫ρ/(x − y) of Marchenko and Pastur: the mean of both branches of its Stieltjes transform
    G = sympy.Symbol("G")
    branches = sympy.solve(sympy.Poly(gamma * x * G**2 - (x + gamma - 1) * G + 1, G), G)
    principal = sympy.simplify(sum(branches) / 2)
    second = 1 + gamma
    balance = 2 * c + (1 - 2 * c * second) / x
    # G = 1/x + m_1/x² + m_2/x³ + …: the moments that the quadratic gives it
    m = sympy.symbols("m_1:4")
    series = 1 / x + sum(each / x ** (k + 2) for k, each in enumerate(m))
    whole = sympy.expand((gamma * x * series**2 - (x + gamma - 1) * series + 1) * x**2)
    (moments,) = sympy.solve([whole.coeff(x, k) for k in (1, 0, -1)], m)
    edge = (1 - sympy.sqrt(gamma)) ** 2
    discriminant = (x + gamma - 1) ** 2 - 4 * gamma * x
    size, width = batchnorm.n, batchnorm.d
    ratio = size**2 / (4 * width)
    (threshold,) = sympy.solve(1 - sympy.sqrt(ratio) - sympy.Rational(1, 10), width)
    leading = sympy.limit(batchnorm.stationary_gap(2, terms=1) * width / size, size, sympy.oo)
    return both(
        equal(
            principal.subs(gamma, 1 / (4 * c)), balance.subs(gamma, 1 / (4 * c)), "PV ∫ρ/(x − y)"
        ),
        equal(moments, [1, second, 1 + 3 * gamma + gamma**2], "its moments"),
        equal(sympy.expand(discriminant.subs(x, edge)), 0, "its lower edge (1 − √γ)²"),
        equal(leading, gamma.subs(gamma, ratio) * width / size**2, "E V² d/n at large n"),
        equal(threshold, size**2 / sympy.Rational(81, 25), "√n σ_n = 0.1"),
        close([drift_of_mean(400)], [1], 3, "p − λ over its limit, n → ∞ from n = 200 and 400"),
    )


def drift_of_mean(size: int) -> float:
    """p_1 − λ_1 over 2λ_1(Σλ² − λ_1), half of the λ three times the others; n and n/2 to n = ∞."""
    ratios = []
    for n in (size // 2, size):
        spectrum = np.repeat([1.5, 0.5], n // 2) / n
        moved = large_width.mean_spectrum(spectrum)[0] - spectrum[0]
        ratios.append(moved / (2 * spectrum[0] * ((spectrum**2).sum() - spectrum[0])))
    return float(2 * ratios[1] - ratios[0])


@claim("003", "Figure 3", "where the smallest singular value stays up", sampled=True)
def figure_three(sampling: Sampling) -> Verdict:
    """$\\mathcal A_1(0.1\\,\\alpha_0,1000)$ from orthogonal $H_0$, ten runs a point: at
    $d=n^2/2$ it holds in all of them, n = 30 and 40, at $d=0.15n^2$ it fails in each, n = 30, 40,
    50, 60 (in 100 layers already). In between lies $n^2/3.24$, from the edge
    $(1-\\frac n{2\\sqrt d})^2$ of Marchenko and Pastur's law, whose second and third moment the
    spectra have at $d=n^2/2$. (At full size six d for each n, all in 1000 layers.) The printed
    $d=(n-28)^{1.8}$ lies below n until n = 35, where C has not full rank, and at
    $0.14n^2$ at n = 60."""
    made, panel = one_panel(
        xlabel="n", ylabel="d", yscale="log", title="squares: A₁ held in ten networks"
    )
    least, told = {}, []
    for batch, share, depth in sampling.sizes(GRID, PRINTED_GRID):
        size = round(share * batch**2)
        C = ensembles.grams(size, batch, depth, 10, sampling.seed, inputs=np.eye(batch))
        least[batch, share] = np.linalg.eigvalsh(C)[..., 0]  # n σ_n², as tr C = n
        runs = (least[batch, share].min(axis=1) > 0.01).sum()
        told.append((share > EDGE, runs))
        panel.plot(
            batch, size, marker="s" if runs == 10 else "x",
            color="C0" if runs == 10 else "black", markersize=9,
        )  # fmt: skip
    shown = np.linspace(29, 62, 100)
    panel.plot(shown, EDGE * shown**2, color="black", linewidth=1, label="d = n²/3.24, derived")
    panel.plot(shown, np.maximum(shown - 28, 0) ** 1.8, linestyle="--", label="d = (n − 28)^1.8")
    panel.plot(shown, shown, color="black", linewidth=1, linestyle=":", label="d = n")
    panel.legend()
    figure = observed(
        [runs == 10 if above else runs == 0 for above, runs in told],
        f"𝒜_1 holds in all ten runs or fails in each of them, by the side of n²/3.24 on which "
        f"they lie: {len(told)} points",
    )
    tables = []
    draws = sampling.networks(64)
    for batch in (8, 12, 18, 27):
        C = ensembles.grams(batch**2 // 2, batch, 100, draws, sampling.seed, inputs=np.eye(batch))
        x = np.linalg.eigvalsh(C[:, 50::2])
        second, third = ((x**k).mean(axis=(1, 2)) for k in (2, 3))
        tables.append(ensembles.means(batch, [100], m2=second, m3=third))
    gamma = 0.5
    flowed = layout.table([100], m2=1 + gamma, m3=1 + 3 * gamma + gamma**2)
    law = sampled(
        compare(flowed, tables, sampling.false_alarms, degree=2),
        "moments of the spectrum at d = n²/2, n = 8 to 27, extrapolated in 1/n",
        {"batchnorm3": made},
    )
    return both(law, figure)


EDGE = 1 / 3.24
GRID = (
    *((batch, 0.15, 100) for batch in (30, 40, 50, 60)),
    (30, 0.5, 1000),
    (40, 0.5, 1000),
)
"""n, d/n², layers."""
PRINTED_GRID = tuple(
    (batch, share, 1000) for share in (0.1, 0.15, 0.2, 0.45, 0.5, 0.6) for batch in (30, 40, 50, 60)
)
"""The same to the printed depth, on both sides of the derived edge; next to it, whether all ten
runs hold is a matter of the seed."""
