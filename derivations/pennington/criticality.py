# %% [markdown]
# # Where networks are critical
#
# $\chi = \sigma_w^2\mu_1 = 1$ and the fixed point (4) together: one point for linear and ReLU
# networks, whose slopes do not know $q^*$; a curve for hard tanh and erf, which ends at
# $(\sigma_w, \sigma_b) = (1, 0)$. The erf of this source is $\mathrm{erf}(\sqrt\pi z/2)$, here
# `erf_unit_slope`.

# %%
"""Critical points and curves in the (σ_w, σ_b) plane (source 002, §4.3)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, claim, equal
from derive import Activation, Gaussian, activations, spectra
from derive.recursions import recursion
from derive.symbols import C_W, C_b, K


def _square(activation: Activation) -> sympy.Expr:
    """q_{ℓ+1} of (4), from the engine's recursion of K."""
    step = recursion("K", Gaussian()).single_input().specialise(activation).expr
    return sympy.expand(step)


@claim("002", "§4.3.1, §4.3.2", "the only critical points of linear and ReLU networks")
def critical_points() -> Verdict:
    r"""$\chi = \sigma_w^2\mu_1 = 1$ with $\mu_1$ of the derived law of slopes, which does not
    depend on $q^*$, and $q^* = \sigma_w^2\langle\phi^2\rangle + \sigma_b^2$ by the recursion of
    $K$, solved for both variances at any $q^* > 0$: $(\sigma_w, \sigma_b) = (1, 0)$ and
    $(\sqrt2, 0)$, and no other."""
    found, printed = [], []
    for activation, weight in ((activations.linear, 1), (activations.relu, 2)):
        chi = C_W * spectra.slope_law(activation, K).mean
        solutions = sympy.solve([chi - 1, _square(activation) - K], [C_W, C_b], dict=True)
        found += [len(solutions), *(each[symbol] for each in solutions for symbol in (C_W, C_b))]
        printed += [1, weight, 0]
    return equal(found, printed, "one solution for both, at any q*")


@claim("002", "§4.3.3", "hard tanh and erf: a curve that ends at (1, 0), and F → 1")
def critical_curves() -> Verdict:
    r"""$\sigma_w^2 = 1/\mu_1(q^*)$ and $\sigma_b^2 = q^* - \sigma_w^2\langle\phi^2\rangle$ tend to
    1 and 0 as $q^* \to 0$, and $\mathcal F = \mu_2/\mu_1^2 \to 1$: limits of the derived
    expressions."""
    q = sympy.Symbol("q", positive=True)
    found = []
    for name in ("hard_tanh", "erf_unit_slope"):
        activation = activations.by_name(name)
        law = spectra.slope_law(activation, q)
        mean, square = law.moment(1), law.moment(2)
        bias = q - (_square(activation).subs(C_b, 0) / C_W).subs(K, q) / mean
        found += [sympy.limit(each, q, 0, "+") for each in (1 / mean, bias, square / mean**2)]
    return equal(found, [1, 0, 1] * 2, "σ_w², σ_b² and F of both")
