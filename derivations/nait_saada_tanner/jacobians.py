# %% [markdown]
# # Jacobians of low rank
#
# The mean of the eigenvalues of $JJ^T$ is $\chi^L$; their variance is what no scaling of the
# weights removes. The laws of $W^TW$ and the transforms of Table 1 are `derive.spectra`'s; here are
# the moments, and the figures.

# %%
"""Moments and singular values of low-rank Jacobians (source 001, §3, eq. 11, Figures 2–5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, claim, equal, misprint, sampled
from derivations.nait_saada_tanner.maps import alpha, gamma
from derivations.pennington import finite_width, quantiles
from derivations.pictures.panels import one_panel, panel_grid
from derive import (
    Activation,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    activations,
    propagation,
    spectra,
    symbols,
)
from numeric import compare
from numeric import spectra as compiled
from numeric.tables.drawing import beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENSEMBLES: dict[str, type[LowRankGaussian] | type[LowRankOrthogonal]] = {
    "Gaussian": LowRankGaussian,
    "orthogonal": LowRankOrthogonal,
}
L = symbols.L


@claim("001", "Table 1", "s_1 of low-rank weights")
def first_coefficients() -> Verdict:
    r"""$S_{W^TW} = (1 + s_1z + \dots)/(\gamma\sigma_\alpha^2)$ with $s_1 = 1 - 1/\gamma$ for
    orthogonal and $-1/\gamma$ for Gaussian weights, from the laws of $W^TW$."""
    derived = []
    for ensemble in (LowRankOrthogonal, LowRankGaussian):
        law = spectra.weight_law(ensemble(gamma * alpha, gamma=gamma))
        zeroth, first = law.S_series(1)
        derived += [zeroth * gamma * alpha, first * gamma * alpha]
    return equal(derived, [1, 1 - 1 / gamma, 1, -1 / gamma])


@claim("001", "11", "variance of the eigenvalues of JJᵀ")
def variance() -> Verdict:
    r"""$m_1 = \chi_\gamma^L$ and $m_2$ as printed, by Lagrange's inversion of the product of
    $S$-transforms; at $\chi_\gamma = 1$ the variance is $L\,(\mu_2/\mu_1^2 - 1 - s_1)$."""
    mu_1, mu_2 = sympy.symbols("mu_1 mu_2", positive=True)
    s_1 = sympy.Symbol("s_1", real=True)
    chi = gamma * alpha * mu_1
    first, second = spectra.jacobian_moments(
        2, depth=L, weight_variance=gamma * alpha, slopes=[mu_1, mu_2], weights=[s_1]
    )
    printed = chi ** (2 * L) * L * (mu_2 / mu_1**2 + 1 / L - 1 - s_1)
    critical = (second - first**2).subs(alpha, 1 / (gamma * mu_1))
    return equal(
        [first, second, sympy.simplify(critical)],
        [chi**L, printed, L * (mu_2 / mu_1**2 - 1 - s_1)],
        "symbolic in L, μ_k and s_1",
    )


@claim("001", "11 (rank)", "the variance grows as the rank falls")
def variance_by_rank() -> Verdict:
    r"""At fixed $\phi$ and $q^*$, $-s_1 = 1/\gamma$ for Gaussian and $1/\gamma - 1$ for orthogonal
    weights fall with $\gamma$, and only $\gamma = 1$ with orthogonal weights gives $-s_1 = 0$."""
    derived = [
        -spectra.weight_law(ensemble(1, gamma=gamma)).S_series(1)[1]
        for ensemble in ENSEMBLES.values()
    ]
    return equal(
        [*(sympy.diff(each, gamma) * gamma**2 for each in derived), derived[1].subs(gamma, 1)],
        [-1, -1, 0],
    )


@claim("001", "§3.2 ([U, 0])", "the matrix of §3.2 is not free from D")
def zero_columns() -> Verdict:
    r"""$W = \sigma_\alpha[U, 0]$ sees of $D$ only $\gamma N$ entries, always the same: its $m_2$ at
    $\chi = 1$ has $\mu_2/\mu_1^2$ with the weight $1/\gamma$ in every layer but the last. (11),
    which takes $D$ and $W$ to be free, holds for $\sigma_\alpha UV^T$; the two agree for linear
    $\phi$, as in Figure 3, and differ for tanh."""
    q, depth = sympy.Rational(1, 2), 4
    free = spectra.jacobian(activations.hard_tanh, LowRankOrthogonal(gamma=gamma), depth, q)
    padded = spectra.zero_padded(activations.hard_tanh, gamma, depth, q)
    mu = sympy.erf(1 / (sympy.sqrt(2 * q)))  # μ_1 = μ_2 = P(|z| < 1)
    variances = [sympy.simplify(law.moment(2) - law.moment(1) ** 2) for law in (free, padded)]
    printed = depth * (1 / mu - 1 - (1 - 1 / gamma))
    first = equal(variances[0], printed)
    at = {gamma: sympy.Rational(1, 4)}
    return misprint(
        sympy.N(variances[1].subs(at), 12),
        sympy.N(printed.subs(at), 12),
        "hard tanh, γ = 1/4, L = 4, q* = 1/2: variance of JJᵀ for [U, 0] and by (11)",
        provided=first,
    )


# %% [markdown]
# ## Simulated
#
# The source's linear networks: no bias, $q^* = 1/2$, $\chi = \gamma\sigma_\alpha^2 = 1$.

# %%
RATIOS = ("1/4", "1/2", "1")
LAYERS = (1, 2, 4, 6)
WIDTH = 64
DRAWS = {"Gaussian": (420, 200, 96), "orthogonal": (240, 96, 48)}
"""Linear networks by rank: the fewer directions, the heavier the tail of tr (JJᵀ)²."""
SIZES = {
    "1/4": ((96, 72), (192, 60)),
    "1/2": ((64, 60), (128, 44)),
    "1": ((64, 52), (128, 36)),
}
"""Widths, and networks of each, for the quantiles by rank."""
PRINTED = 1000
"""The figures' width, where tr (JJᵀ)² differs the less from one network to the next."""
PRINTED_DRAWS = {"Gaussian": (48, 24, 12), "orthogonal": (24, 12, 6)}
PRINTED_SIZES = ((128, 32), (PRINTED, 20))
"""Of the limit's error 128 neurons have a seventh of a part; 20 networks of the printed width keep
the bound below 10 standard errors, which 6 took to 75."""


def _critical(activation: Activation, ensemble: type, ratio: str, q: sympy.Rational) -> Network:
    """Weights at χ = 1, with the C_b that keeps the length q."""
    ((C_b, C_W),) = propagation.edge_of_chaos(activation, ratio, lengths=[q])
    weights = ensemble(C_W, gamma=sympy.Rational(ratio))
    return Network(activation, weights, C_b=C_b)


def _variances(kind: str, sampling: Sampling) -> Verdict:
    """m_1 and m_2 of linear networks for three ranks, exact at the width that is sampled."""
    width = sampling.sizes(WIDTH, PRINTED)
    figure, panel = one_panel(
        (5, 3.6), xlabel="L", ylabel="variance of JJᵀ", title=f"linear, {kind}, n = {width}"
    )
    comparisons = []
    sizes = zip(RATIOS, DRAWS[kind], PRINTED_DRAWS[kind], strict=True)
    for number, (ratio, draws, printed) in enumerate(sizes):
        weights = ENSEMBLES[kind](1, gamma=sympy.Rational(ratio))
        net = Network(activations.linear, weights)
        table = compiled.simulate(
            net, 0.5, width, max(LAYERS), sampling.networks(draws, printed),
            layers=LAYERS, singular_values=False, importance=True, seed=sampling.seed + width,
        )  # fmt: skip
        theory = finite_width.moments(weights, width, LAYERS)
        comparisons.append(compare(theory, table, sampling.false_alarms / len(RATIOS)))
        beside(
            panel,
            (LAYERS, (theory["m2"] - theory["m1"] ** 2).to_numpy()),
            (LAYERS, table["m2"] - table["m1"] ** 2, table["m2_se"]),
            color=f"C{number}",
            label=f"γ = {ratio}",
        )
        free = -spectra.weight_law(weights).S_series(1)[1] * np.array(LAYERS, float)
        panel.plot(LAYERS, free.astype(float), ":", color=f"C{number}")
    panel.legend()
    name = f"jacobian_variance_{kind.lower()}"
    labels = [f"γ = {ratio}" for ratio in RATIOS]
    detail = f"m_1, m_2 at L = 1, 2, 4, 6, exact at n = {width}; dotted: (11), their limit"
    return sampled(comparisons, detail, {name: figure}, labels)


@claim("001", "Figure 2", "variance of JJᵀ by rank, Gaussian weights", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    r"""$m_1$ and $m_2$ of linear networks with $\gamma = 1/4$, $1/2$, 1 at $n = 64$ (1000 at full
    size), against the exact moments at that width, whose limit is (11). Networks are drawn as often
    as their moments count (`numeric.spectra.tilting`)."""
    return _variances("Gaussian", sampling)


@claim("001", "Figure 3", "variance of JJᵀ by rank, orthogonal weights", sampled=True)
def figure_three(sampling: Sampling) -> Verdict:
    """As Figure 2, for orthogonal weights of the same ranks."""
    return _variances("orthogonal", sampling)


def _singular_values(activation: Activation, sampling: Sampling) -> Verdict:
    """Quantiles of log s of Jacobians at q* = 1/2 and χ = 1, Gaussian weights; the singular values
    drawn with the edges of their law."""
    q = sympy.Rational(1, 2)
    figure, (panels,) = panel_grid(1, len(RATIOS), (3, 3.2), sharey=True)
    comparisons = []
    for panel, ratio in zip(panels, RATIOS, strict=True):
        net = _critical(activation, LowRankGaussian, ratio, q)
        laws = {
            depth: compiled.jacobian(
                net.activation_at(1), net.weights_at(2), depth, q, critical=False
            )
            for depth in LAYERS
        }
        sizes = quantiles.drawn(sampling, SIZES[ratio], PRINTED_SIZES)
        tables = quantiles.sampled(net, 0.5, laws, sizes, sampling.seed)
        share = sampling.false_alarms / len(RATIOS)
        comparisons.append(compare(quantiles.theory(laws), tables, share, degree=1))
        _draw(panel, net, laws, sampling.sizes(256, PRINTED), sampling.seed)
        panel.set(xlabel="L", title=f"γ = {ratio}")
    panels[0].set(ylabel=f"singular values of J, {activation}", yscale="log", ylim=(1e-2, 10))
    labels = [f"γ = {ratio}" for ratio in RATIOS]
    name = f"singular_values_{activation}"
    return sampled(comparisons, "quantiles at L = 1, 2, 4, 6", {name: figure}, labels)


def _draw(
    panel: Axes, net: Network, laws: dict[int, compiled.Spectrum], width: int, seed: int
) -> None:
    """Singular values of one network at each depth, and the edges of their law."""
    for depth, law in laws.items():
        values = compiled.simulate(net, 0.5, width, depth, 1, seed=seed)["singular_values"]
        values = values.to_numpy()[0]
        seen = values[values > 1e-6 * values[0]][:: max(1, len(values) // 64)]
        panel.plot([depth] * len(seen), seen, "_", color="C0", markersize=8)
        for edge in law.edges:
            panel.plot([depth] * 2, np.sqrt(np.maximum(edge, 1e-9)), "k_", markersize=14)


@claim("001", "Figure 4", "singular values of J by depth and rank, erf", sampled=True)
def figure_four(sampling: Sampling) -> Verdict:
    r"""Gaussian weights of rank $n/4$, $n/2$, $n$ with $\mathrm{erf}(\sqrt\pi z/2)$ at $q^* = 1/2$
    on the edge of chaos; quantiles of $\log s$ at $n = 64$ and 128, with $\gamma = \frac14$ at 96
    and 192 (128 and 1000 at full size), extrapolated in $1/n$, against the law. Black: its
    edges."""
    return _singular_values(activations.erf_unit_slope, sampling)


@claim("001", "Figure 5", "singular values of J by depth and rank, tanh", sampled=True)
def figure_five(sampling: Sampling) -> Verdict:
    """As Figure 4, for tanh."""
    return _singular_values(activations.tanh, sampling)
