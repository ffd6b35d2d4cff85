# %% [markdown]
# # Simulated Jacobians
#
# Explicit networks, every matrix built, against the derived moments; their singular values under
# the derived densities. Last, the layer that is not free: source 001's $W = [U, 0]$.

# %%
"""Theory against sampled Jacobians (source 002, Figures 2–4; source 001, §3.2, Figures 2, 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import sympy
import xarray

from derivations.claims import Sampling, Verdict, both, claim, close, equal, observed, sampled
from derivations.pictures.panels import panel_grid
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    WeightEnsemble,
    activations,
    spectra,
)
from derive.activations.functions import Activation
from derive.work.caches import cache
from numeric import compare
from numeric import spectra as compiled
from numeric.tables import layout
from numeric.tables.compare import Comparison

from . import figures, finite_width, quantiles, universality


@claim("002", "Figure 3", "distributions of φ'")
def slope_distributions() -> Verdict:
    r"""The distribution of $\phi'(h)$, $h \sim N(0, q^*)$, drawn from 4001 quantiles of $h$ for
    each of four $q^*$, chosen here: the text does not give those of the figure. The means of
    $\phi'^2$ and $\phi'^4$ over a hundred times as many are $\mu_1$ and $\mu_2$ of the derived law.
    Of ReLU alone it does not depend on $q^*$."""
    drawn, derived, spread = [], [], {}
    for name in figures.NONLINEARITIES:
        activation = activations.by_name(name)
        means = []
        for variance in figures.VARIANCES:
            slopes = figures.slope_quantiles(activation, variance, 400_001)
            law = spectra.slope_law(activation, sympy.nsimplify(variance))
            drawn += [float((slopes**k).mean()) for k in (2, 4)]
            derived += [sympy.N(law.moment(k), 15) for k in (1, 2)]
            means.append(drawn[-1])
        spread[name] = max(means) - min(means)
    constant = [name for name, width in spread.items() if width < 1e-3]
    verdict = both(
        close(drawn, derived, 5, "μ_1 and μ_2 of five activations at all four q*"),
        observed(constant == ["relu"], "μ_1 is the same at every q* for ReLU alone"),
    )
    return replace(verdict, figures={"pennington3": figures.slopes()})


@dataclass(frozen=True)
class Case:
    """A network of a figure: which depths are sampled, at which sizes, and where.

    Attributes:
        activation, weights, q: at criticality with this variance.
        depths: of networks, each of its own.
        sizes: pairs of width and number of networks.
        shares: at which quantiles the law is met; none where only the atom is.
    """

    activation: Activation
    weights: WeightEnsemble
    q: sympy.Expr
    depths: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]
    shares: tuple[float, ...] = quantiles.SHARES

    @property
    def net(self) -> Network:
        """At criticality."""
        return figures.critical_network(self.activation, self.weights, self.q)

    @property
    def laws(self) -> dict[int, compiled.Spectrum]:
        """By depth."""
        return {depth: _law(self.activation, self.weights, depth, self.q) for depth in self.depths}

    def compared(self, sampling: Sampling, share: float) -> Comparison:
        """The quantiles of the law with those of sampled networks, extrapolated in 1/n."""
        laws, sizes, q = self.laws, self.drawn(sampling), float(self.q)
        tables = quantiles.sampled(self.net, q, laws, sizes, sampling.seed, self.shares)
        derived = quantiles.theory(laws, self.shares)
        return compare(derived, tables, sampling.false_alarms * share, degree=1)

    def drawn(self, sampling: Sampling) -> list[tuple[int, int]]:
        """Widths, and networks of each."""
        printed = PRINTED_DEEP if max(self.depths) == SPREAD else PRINTED
        return quantiles.drawn(sampling, self.sizes, printed)

    def pictured(self, depth: int, sampling: Sampling) -> xarray.Dataset:
        """Singular values for a histogram: of two networks of 256 neurons; at full size those of
        the widest networks that are compared."""
        width, draws = self.drawn(sampling)[-1]
        seed = quantiles.seed_of(sampling.seed, width, depth)
        width, draws, seed = sampling.sizes((256, 2, sampling.seed), (width, draws, seed))
        return compiled.simulate(self.net, float(self.q), width, depth, draws, seed=seed)


LEVELS = ((0.6, 0.9), (0.2, 0.8))
"""Of all eigenvalues: between which the spread of log s is told, of broad spectra and of others."""
UPPER = (0.5, 0.625, 0.75, 0.875)
"""Quantiles of D² with zeros: how many there are differs by √n, and moves what is near 0."""
PRINTED, PRINTED_DEEP = ((128, 32), (1000, 20)), ((128, 32), (1000, 12))
"""Widths, and networks of each, where a figure has its printed size, in few layers and in 128. Of
few networks it is the bound that does not resolve: Student's t of 4 is beyond 500."""
SPREAD = 128
"""The depth at which Figure 2 begins to see the spectra of erf and hard tanh spread."""


@cache
def _law(
    activation: Activation, weights: WeightEnsemble, depth: int, q: sympy.Expr
) -> compiled.Spectrum:
    """The spectrum, with what has been found of it."""
    return compiled.jacobian(activation, weights, depth, q)


@cache
def _at_depth(name: str, depth: int) -> sympy.Expr:
    """q* that gives `depth` layers of this activation the variance 1/4."""
    activation = activations.by_name(name)
    return sympy.Float(universality.double_scaling(activation, sympy.Rational(1, 2), depth), 18)


def cases_of_figure_two() -> list[Case]:
    """The weights are those of one q* at every depth; of erf and hard tanh that with the variance
    1/4 at 128 layers."""
    half = sympy.Rational(1, 2)
    hard, erf = (_at_depth(name, SPREAD) for name in ("hard_tanh", "erf_unit_slope"))
    tanh = activations.hard_tanh
    return [
        Case(activations.linear, Gaussian(), half, (2, 8, 32), ((64, 112), (128, 56))),
        Case(activations.relu, Orthogonal(), half, (2,), ((64, 224), (128, 96)), UPPER),
        Case(activations.relu, Orthogonal(), half, (8, 32), ((64, 160), (128, 64)), UPPER),
        Case(tanh, Orthogonal(), hard, (8, 32), ((64, 48), (128, 24)), ()),
        Case(tanh, Orthogonal(), hard, (SPREAD,), ((64, 64), (128, 32)), UPPER),
        Case(activations.erf_unit_slope, Orthogonal(), erf, (8, 32, SPREAD), ((64, 40), (128, 28))),
    ]


@claim("002", "Figure 2", "spectra at criticality, quantiles of four networks", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    r"""Linear Gaussian and ReLU orthogonal networks at depths 2, 8 and 32, hard tanh and erf
    orthogonal ones at 8, 32 and 128: quantiles of $\log s$ at $n = 64$ and 128, extrapolated in
    $1/n$, against the law; for hard tanh also the mass of the largest singular value. Of linear and
    ReLU networks the quartiles of $\log s$ draw apart with depth alike; of the other two they are
    within 0.3 until 32 layers and spread at 128. Singular values at $n = 256$ under the
    densities. (At full size $n = 128$ and 1000, and 1000.)"""
    cases = cases_of_figure_two()
    comparisons = [case.compared(sampling, 1 / len(cases)) for case in cases]
    labels = [f"{case.activation}, {case.weights.name}" for case in cases]
    drawn = list(dict.fromkeys(labels))
    figure, (panels,) = panel_grid(1, len(drawn), (3, 3.2))
    panel_of = dict(zip(drawn, panels, strict=True))
    spread: dict[str, list[float]] = {}
    number = dict.fromkeys(drawn, 0)
    for case, label in zip(cases, labels, strict=True):
        panel = panel_of[label]
        for depth, law in case.laws.items():
            spread.setdefault(label, []).append(quantiles.between(law, *LEVELS[label in drawn[2:]]))
            if depth < SPREAD:
                pictured = case.pictured(depth, sampling)
                figures.histogram(panel, pictured, f"C{number[label]}", 4.0)
            figures.draw(panel, law, f"C{number[label]}", f"L = {depth}")
            number[label] += 1
        panel.set(title=label, xlabel="singular value", ylabel="density", ylim=(0, 2))
        panel.legend(fontsize="x-small")
    broad, narrow = list(spread.values())[:2], list(spread.values())[2:]
    seen = [
        *(after > 2 * before for each in broad for before, after in pairwise(each)),
        *(each[1] < 0.3 < each[2] for each in narrow),
    ]
    told = "; ".join(f"{label}: {_told(each)}" for label, each in spread.items())
    return both(
        sampled(comparisons, "", {"pennington2": figure}, labels),
        observed(seen, f"log s from level 0.6 to 0.9, or 0.2 to 0.8: {told}"),
    )


def _told(numbers: Sequence[float]) -> str:
    return ", ".join(f"{each:.2g}" for each in numbers)


NAMES, DEPTHS = ("hard_tanh", "shifted_relu", "erf_unit_slope", "silu"), (4, 16)


PRINTED_DEPTHS = (2, 4, 16, SPREAD)


def depths_of(name: str, sampling: Sampling) -> tuple[int, ...]:
    """Those of the networks; the density of SiLU is within reach to about 20 layers."""
    reach = [depth for depth in PRINTED_DEPTHS if name != "silu" or depth <= max(DEPTHS)]
    return sampling.sizes(DEPTHS, tuple(reach))


def cases_of_figure_four(sampling: Sampling) -> dict[str, list[Case]]:
    """By activation. Those of the Bernoulli class have few eigenvalues below their atom."""
    cases: dict[str, list[Case]] = {}
    for name in NAMES:
        rare = universality.classify(activations.by_name(name)).kind == "bernoulli"
        sizes = ((64, 144), (128, 56)) if rare else ((64, 48), (128, 32))
        shares = UPPER if rare else quantiles.SHARES
        activation, weights = activations.by_name(name), Orthogonal()
        cases[name] = [
            Case(activation, weights, _at_depth(name, depth), (depth,), sizes, shares)
            for depth in depths_of(name, sampling)
        ]
    return cases


@claim("002", "Figure 4", "spectra at σ_0 = 1/2 in the two classes", sampled=True)
def figure_four(sampling: Sampling) -> Verdict:
    r"""Hard tanh, shifted ReLU, erf and SiLU at depths 4 and 16 with $q^*(L)$: quantiles of $\log
    s$ at $n = 64$ and 128, extrapolated in $1/n$, against the law at that depth, and for the first
    two the mass of the largest singular value. The distance of the law to that of its class, the
    largest difference of $\log s$ at nine levels, falls from 4 to 16 to 128 layers;
    for SiLU, whose density is within reach to about 20, from 2 to 4 to 16. (At full size networks
    of $n = 128$ and 1000, at depths 2, 4, 16 and, but for SiLU, 128.)"""
    by_name = cases_of_figure_four(sampling)
    cases = [case for each in by_name.values() for case in each]
    comparisons = [case.compared(sampling, 1 / len(cases)) for case in cases]
    labels = [f"{case.activation}, L = {case.depths[0]}" for case in cases]
    shown = {
        (name, depth): case.pictured(depth, sampling)
        for name, each in by_name.items()
        for case in each
        for depth in case.depths
    }
    distances = {
        name: distances_to_the_limit(name, (2, *DEPTHS) if name == "silu" else (*DEPTHS, SPREAD))
        for name in NAMES
    }
    told = "; ".join(f"{name}: {_told(each)}" for name, each in distances.items())
    falls = [before > after for each in distances.values() for before, after in pairwise(each)]
    return both(
        sampled(comparisons, "", {"pennington4": figures.limits(shown)}, labels),
        observed(falls, f"distance to the limit at L = 4, 16, 128; SiLU 2, 4, 16: {told}"),
    )


def distances_to_the_limit(name: str, depths: Sequence[int]) -> list[float]:
    """How far the law of L layers with the variance 1/4 is from that of the activation's class."""
    activation = activations.by_name(name)
    limit = compiled.limit(universality.classify(activation).kind, sympy.Rational(1, 2))
    laws = (_law(activation, Orthogonal(), depth, _at_depth(name, depth)) for depth in depths)
    return [quantiles.distance(law, limit) for law in laws]


@claim("001", "§3.3, Figures 2, 3", "variance with low-rank weights", sampled=True)
def low_rank(sampling: Sampling) -> Verdict:
    """$m_1$, $m_2$ of linear networks of rank $n/4$ and $n/2$, Gaussian and orthogonal, depths 1 to
    3, against the exact moments at $n = 64$."""
    layers, n, draws = (1, 2, 3), 64, 512
    comparisons, labels = [], []
    for kind in (LowRankGaussian, LowRankOrthogonal):
        for gamma in (sympy.Rational(1, 4), sympy.Rational(1, 2)):
            weights = kind(1, gamma=gamma)
            net = Network(activations.linear, weights)
            table = compiled.simulate(
                net, 0.5, n, 3, draws, layers=layers, singular_values=False, seed=sampling.seed + n
            )
            derived = finite_width.moments(weights, n, layers)
            comparisons.append(compare(derived, table, sampling.false_alarms / 4))
            labels.append(f"{weights.name}, γ = {gamma}")
    return sampled(comparisons, "m_1, m_2, depths 1, 2, 3, exact at n = 64", labels=labels)


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
    law = spectra.zero_padded(activations.erf_unit_slope, gamma, depth, q)
    net = figures.critical_network(activations.erf_unit_slope, LowRankOrthogonal(gamma=gamma), q)
    simulate = partial(compiled.simulate, zero_padded=True, singular_values=False)
    ensembles = [
        simulate(net, float(q), n, depth, draws, seed=sampling.seed + n)
        for n, draws in ((64, 1600), (128, 600), (256, 100))
    ]
    free = spectra.jacobian(activations.erf_unit_slope, LowRankOrthogonal(gamma=gamma), depth, q)
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
