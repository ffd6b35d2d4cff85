# %% [markdown]
# # Simulated Jacobians
#
# Explicit networks, every matrix built, against the derived moments; their singular values under
# the derived densities. Last, the layer that is not free: source 001's $W = [U, 0]$.

# %%
"""Theory against sampled Jacobians (source 002, Figures 2–4; source 001, §3.2, Figures 2, 3)."""

from __future__ import annotations

from dataclasses import replace

import sympy
import xarray

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, close, equal, observed, sampled
from derivations.pictures.panels import panel_grid
from derivations.section import show
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    activations,
    spectra,
)
from numeric import compare
from numeric import spectra as compiled
from numeric.tables import layout

from . import figures

WIDTHS = ((32, 400), (64, 200), (128, 100))
"""Widths and draws of an ensemble whose moments are extrapolated in 1/n."""


@claim("002", "Figure 3", "distributions of φ'")
def slope_distributions() -> Verdict:
    r"""The distribution of $\phi'(h)$, $h \sim N(0, q^*)$, drawn from 4001 quantiles of $h$ for
    each of four $q^*$: the means of $\phi'^2$ and $\phi'^4$ over what is drawn are $\mu_1$ and
    $\mu_2$ of the derived law. Of ReLU alone it does not depend on $q^*$."""
    drawn, derived, spread = [], [], {}
    for name in figures.NONLINEARITIES:
        activation = activations.by_name(name)
        means = []
        for variance in figures.VARIANCES[1::2]:
            slopes = figures.slope_quantiles(activation, variance)
            law = spectra.slope_law(activation, sympy.nsimplify(variance))
            drawn += [float((slopes**k).mean()) for k in (2, 4)]
            derived += [sympy.N(law.moment(k), 15) for k in (1, 2)]
            means.append(drawn[-1])
        spread[name] = max(means) - min(means)
    constant = [name for name, width in spread.items() if width < 1e-3]
    verdict = both(
        close(drawn, derived, 3, "μ_1 and μ_2 of five activations at q* = 0.3 and 3"),
        observed(constant == ["relu"], "μ_1 is the same at every q* for ReLU alone"),
    )
    return replace(verdict, figures={"pennington3": figures.slopes()})


@claim("002", "Figure 2", "spectra at criticality, moments of four networks", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    """Linear Gaussian, ReLU, hard tanh and erf orthogonal networks at depths 2, 4 and 8: $m_1$,
    $m_2$ at three widths extrapolated in $1/n$; singular values at $n = 256$ under the
    densities."""
    layers, q = (2, 4, 8), sympy.Rational(1, 2)
    cases = (
        (activations.linear, Gaussian()),
        (activations.relu, Orthogonal()),
        (activations.hard_tanh, Orthogonal()),
        (activations.erf, Orthogonal()),
    )
    figure, (panels,) = panel_grid(1, len(cases), (3, 3.2))
    comparisons, labels = [], []
    for panel, (activation, weights) in zip(panels, cases, strict=True):
        net = figures.critical_network(activation, weights, q)
        ensembles = [
            figures.moments(net, q, n, 8, draws, sampling.seed, layers) for n, draws in WIDTHS
        ]
        derived = figures.theory(activation, weights, q, layers)
        comparisons.append(compare(derived, ensembles, sampling.false_alarms / len(cases)))
        labels.append(f"{activation}, {weights.name}")
        for number, depth in enumerate(layers):
            one = compiled.simulate(net, float(q), 256, depth, 2, seed=sampling.seed)
            figures.histogram(panel, one, f"C{number}", 4.0)
            spectrum = compiled.jacobian(activation, weights, depth, q)
            figures.draw(panel, spectrum, f"C{number}", f"L = {depth}")
        panel.set(title=labels[-1], xlabel="singular value", ylabel="density", ylim=(0, 2))
        panel.legend(fontsize="x-small")
    return sampled(comparisons, "m_1, m_2, depths 2, 4, 8", {"pennington2": figure}, labels)


@claim("002", "Figure 4", "spectra at σ_0 = 1/2 in the two classes", sampled=True)
def figure_four(sampling: Sampling) -> Verdict:
    r"""Hard tanh, shifted ReLU, erf and SiLU at depths 4 and 16 with $q^*(L)$: $m_1$, and $m_2$,
    which is $1 + \sigma_0^2$ by construction, at three widths extrapolated in $1/n$."""
    names, depths = ("hard_tanh", "shifted_relu", "erf", "silu"), (4, 16)
    comparisons, labels, shown = [], [], {}
    for name in names:
        activation = activations.by_name(name)
        for depth in depths:
            q = sympy.Float(spectra.double_scaling(activation, sympy.Rational(1, 2), depth), 18)
            net = figures.critical_network(activation, Orthogonal(), q)
            ensembles = [
                figures.moments(net, q, n, depth, draws // 2, sampling.seed) for n, draws in WIDTHS
            ]
            derived = figures.theory(activation, Orthogonal(), q, [depth])
            share = sampling.false_alarms / (len(names) * len(depths))
            comparisons.append(compare(derived, ensembles, share))
            labels.append(f"{name}, L = {depth}")
            shown[name, depth] = compiled.simulate(net, float(q), 256, depth, 2, seed=sampling.seed)
    drawn = {"pennington4": figures.limits(shown)}
    return sampled(comparisons, "m_1, m_2 at finite depth", drawn, labels)


@claim("001", "§3.3, Figures 2, 3", "variance with low-rank weights", sampled=True)
def low_rank(sampling: Sampling) -> Verdict:
    """$m_1$, $m_2$ of linear networks of rank $n/4$ and $n/2$, Gaussian and orthogonal, depths 1 to
    3."""
    layers, q = (1, 2, 3), sympy.Rational(1, 2)
    comparisons, labels = [], []
    for kind in (LowRankGaussian, LowRankOrthogonal):
        for gamma in (sympy.Rational(1, 4), sympy.Rational(1, 2)):
            weights = kind(gamma=gamma)
            net = figures.critical_network(activations.linear, weights, q)
            ensembles = [
                figures.moments(net, q, n, 3, draws, sampling.seed, layers) for n, draws in WIDTHS
            ]
            derived = figures.theory(activations.linear, weights, q, layers)
            comparisons.append(compare(derived, ensembles, sampling.false_alarms / 4))
            labels.append(f"{weights.name}, γ = {gamma}")
    return sampled(comparisons, "m_1, m_2, depths 1, 2, 3", labels=labels)


@claim("001", "§3.2 (freeness)", "W = [U, 0] is not free from D", sampled=True)
def zero_padded(sampling: Sampling) -> Verdict:
    r"""The zero columns of $W$ always cut the same entries of each $D$, so $S_{D^2}(z/\gamma)$
    stands where free layers have $S_{D^2}(z)$, in all factors but one: the variance is $v + (L -
    1)v/\gamma + L(1/\gamma - 1)$, $v = \mu_2/\mu_1^2 - 1$, where (11) has $Lv + L(1/\gamma - 1)$.
    Sampled with erf at $q^* = 2$, $\gamma = 1/2$, $L = 3$."""
    gamma, q, depth = sympy.Rational(1, 2), sympy.Integer(2), 3
    mu_2, L, g = sympy.symbols("mu_2 L gamma", positive=True)
    slopes = spectra.Moments((sympy.S.One, mu_2))
    derived = spectra.zero_padded(slopes, g, L).moment(2) - 1
    v = mu_2 - 1
    exact = equal(sympy.simplify(derived), sympy.simplify(v + (L - 1) * v / g + L * (1 / g - 1)))
    law = spectra.zero_padded(activations.erf, gamma, depth, q)
    net = figures.critical_network(activations.erf, LowRankOrthogonal(gamma=gamma), q)
    ensembles = [
        figures.moments(net, q, n, depth, draws, sampling.seed, zero_padded=True)
        for n, draws in ((64, 1600), (128, 600), (256, 100))
    ]
    free = spectra.jacobian(activations.erf, LowRankOrthogonal(gamma=gamma), depth, q)
    right, wrong = (
        compare(_second_moment(each, depth), ensembles, sampling.false_alarms, degree=1)
        for each in (law, free)
    )
    detail = (
        f"free layers would have m_2 = {wrong.worst.theory:.6g}, |z| = {abs(wrong.worst.z):.1f}"
    )
    return both(sampled(right, detail), observed(not wrong.agrees, ""), exact)


def _second_moment(law: spectra.Jacobian, depth: int) -> xarray.Dataset:
    return layout.table([depth], m2=float(sympy.N(law.moment(2))))


# %%
if __name__ == "__main__":
    show()
