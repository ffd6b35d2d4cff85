# %% [markdown]
# # Activations
#
# Odd activations leave orthogonality a fixed point of the large-width map, with two rates in
# place of one; ReLU and sigmoid move it. Linearised there, the map gives the size of the
# fluctuations, which the paper conjectures to be $O(1/\sqrt d)$: right for $Q^\top Q/d$, and then
# with a constant that is derived here for each activation. Where the smallest singular value stays
# up, as assumption $\mathcal A_1$ wants, follows from the size of the same fluctuations.

# %%
"""Batch norm with activations, with mean correction, and what 𝒜_1 needs (source 003, appendix G,
Figures 3, 6, 7)."""

from __future__ import annotations

import numpy as np
import sympy
from sklearn.datasets import load_digits

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, close, equal, misprint, sampled
from derivations.pictures.panels import one_panel
from derivations.section import show
from derive import activations, batchnorm
from numeric import batchnorm as ensembles
from numeric import compare
from numeric.batchnorm import theory as batchnorm_theory
from numeric.batchnorm.theory import odd_law
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
    erf at n = 2 … 32; for σ = z both are the derived $n/(n+2)$."""
    sizes = (2, 4, 8, 32)
    linear = [odd_law(activations.linear, size) for size in sizes]
    exact = [batchnorm.contraction_rate().subs(batchnorm.n, size) for size in sizes]
    rates = [
        rate
        for name in ("tanh", "sin", "erf")
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
    a, b = batchnorm.noise_covariance()
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


@claim("003", "Figure 7", "fluctuations are of order 1/√d, with what constant", sampled=True)
def fluctuations(sampling: Sampling) -> Verdict:
    """L of (27) with $Q^\\top Q/(nd)$ for $Q^\\top Q$, from 400 networks a case at d = 128 to 512,
    n = 6: $d\\,\\mathbb EL^2$ beside the linearised map, for linear, tanh, sin, and with mean
    correction ReLU, tanh and sigmoid; extrapolated in 1/d."""
    size, widths = 6, (128, 256, 512)
    made, panel = one_panel(xlabel="d", ylabel="√(E L²)", xscale="log", yscale="log", title="n = 6")
    comparisons, labels = [], []
    for number, (name, centered) in enumerate(CASES):
        activation = activations.by_name(name)
        theory = batchnorm_theory.linearise(activation, size, centered, samples=60_000)
        tables, shown = [], []
        for width in widths:
            C = ensembles.grams(
                width, size, 40, 400, sampling.seed, activation, centered, inputs=np.eye(size)
            )
            C = C[:, 20::4] / size
            mean = C.mean(axis=(0, 1))
            deviation = width * ((C - mean) ** 2).sum(axis=(2, 3)).mean(axis=1)
            value, se = layout.averaged(deviation)
            # the derivative's own sampling error, a per cent of it, is counted in
            error = np.hypot(se, 0.01 * theory.deviation_sq)
            tables.append(
                layout.table(
                    [40], {"width": width, "blocks": 400, "network": name}, L2=(value, error)
                )
            )
            shown.append((value, se))
        flowed = layout.table([40], L2=theory.deviation_sq)
        comparisons.append(compare(flowed, tables, sampling.false_alarms / len(CASES), degree=1))
        labels.append(f"{name}{', centered' if centered else ''}")
        values, errors = np.array(shown).T
        beside(
            panel,
            (widths, np.sqrt(theory.deviation_sq / np.array(widths))),
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
    comes to rest at $\\sqrt{1/(n-1)-1/n}$ and fluctuations, by the linearised map; vanilla networks
    align."""
    batch, width, depth = 8, 100, 30
    inputs = load_digits().data[:batch] / 16
    theory = batchnorm_theory.linearise(activations.relu, batch, True, samples=60_000)
    made, panel = one_panel(xlabel="layer", ylabel="V", title="ReLU, d = 100, n = 8, digits")
    layers = np.arange(1, depth + 1)
    for label, normalised in (("batch norm", True), ("vanilla", False)):
        found = ensembles.simulate(
            width, batch, depth, 50, sampling.seed, activations.relu, normalised,
            normalised=normalised, inputs=inputs,
        )  # fmt: skip
        points(panel, layers, found["gap"], found["gap_se"], label=label, marker=".")
    fixed = theory.gap**2
    rest = np.sqrt(fixed + theory.deviation_sq / width)
    panel.axhline(rest, color="black", linewidth=1, label="linearised map")
    aligned = np.sqrt((batch - 1) / batch)
    panel.axhline(aligned, color="black", linewidth=1, linestyle="--", label="√((n−1)/n)")
    panel.legend()
    tables = []
    for wide in (200, 400, 800):
        gaps = ensembles.gaps(
            wide, batch, depth, 600, sampling.seed, activations.relu, True, inputs=inputs
        )
        late, se = layout.averaged(wide * (gaps[:, 20::3].mean(axis=1) - fixed))
        error = np.hypot(se, 0.01 * theory.deviation_sq)
        tables.append(
            layout.table(
                [depth], {"width": wide, "blocks": 600, "network": "relu"}, V2=(late, error)
            )
        )
    # centered rows: V² = L² + V_fixed², because tr C = 1 and C 1 = 0 leave no room for a cross term
    flowed = layout.table([depth], V2=theory.deviation_sq)
    return sampled(
        compare(flowed, tables, sampling.false_alarms, degree=1),
        "d (E V² − V_fixed²) with mean correction, extrapolated in 1/d",
        {"batchnorm6": made},
    )


@claim("003", "Figure 3", "where the smallest singular value stays up", sampled=True)
def figure_three(sampling: Sampling) -> Verdict:
    """$\\mathcal A_1(0.1\\,\\alpha_0,300)$ from orthogonal $H_0$: which (n, d) keep all of ten
    networks above. Why $d\\sim n^2$ (the paper's $d=\\Omega(n^2)$): at leading order $C-1/n$ is a
    Gaussian matrix, $\\mathbb EV^2\\to n/(4d)$, whose eigenvalues fill a semicircle of half-width
    $2\\sqrt{\\mathbb EV^2/n}=1/\\sqrt d$, and $1/n-1/\\sqrt d$ falls to 0 at $d=n^2$."""
    batches, powers, depth = (3, 5, 8, 12), (1.0, 1.25, 1.5, 1.75, 2.0, 2.25), 300
    made, panel = one_panel(
        xlabel="n", ylabel="d", yscale="log", title="squares: A₁ held in ten networks"
    )
    for batch in batches:
        for power in powers:
            size = round(batch**power)
            C = ensembles.grams(size, batch, depth, 10, sampling.seed, inputs=np.eye(batch))
            least = ensembles.smallest_eigenvalues(C).min()
            held = least > 0.01 / batch
            panel.plot(
                batch, size, marker="s" if held else "x", color="C0" if held else "black",
                markersize=9,
            )  # fmt: skip
    shown = np.linspace(2.5, 13, 50)
    panel.plot(shown, shown**2, color="black", linewidth=1, label="d = n²")
    panel.legend()
    batch, width = 30, 3000
    C = ensembles.grams(width, batch, 120, 20, sampling.seed, inputs=np.eye(batch))[:, 80::8]
    spread = ((np.linalg.eigvalsh(C / batch) - 1 / batch) ** 2).sum(axis=-1).mean(axis=1)
    law = float(batchnorm.stationary_gap().subs({batchnorm.n: batch, batchnorm.d: width}))
    about = {"width": width, "blocks": 20}
    found = layout.table([120], about, gap_sq=layout.averaged(spread))
    flowed = layout.table([120], gap_sq=law)
    return sampled(
        compare(flowed, found, sampling.false_alarms),
        "spectrum's second moment at n = 30, d = 3000; the figure shows where 𝒜_1 held",
        {"batchnorm3": made},
    )


# %%
if __name__ == "__main__":
    show()
