# %% [markdown]
# # Depth in proportion to width
#
# At $L/n = r$ fixed, each order in $1/n$ of $V/K^2$ is of order one, and $K$ differs from network
# to network. For $\sigma(cz) = c\,\sigma(z)$ the logarithm of $K$ is a walk of independent steps,
# with a mean and a variance that $K$'s, $G^{\{1\}}$'s and $V$'s recursions have.

# %%
"""The log-normal law of K: one input and scale-invariant activations."""

from __future__ import annotations

import numpy as np
import sympy
from scipy import stats

from derivations.claims import Sampling, Verdict, both, claim, close, equal, observed
from derivations.claims.verdicts import scored
from derivations.pdlt.ratio_limits import interpolation, r
from derive import Equation, Gaussian, Orthogonal, activations, layers, linear, recursion, symbols
from derive.deep import walk
from derive.network import Network
from derive.symbols import L, m, n
from numeric import deep

R = sympy.Rational
SLOPE = sympy.Symbol("a", real=True)
LAWS = ("gaussian", "orthogonal")
INPUT = [1.0, 0.5, -0.3]


def kurtosis(slope: sympy.Expr) -> sympy.Expr:
    """⟨σ⁴⟩/⟨σ²⟩² of slopes a and 1."""
    return 6 * (1 + slope**4) / (1 + slope**2) ** 2


@claim("deep", "1", "Hanin and Nica (2020): log-normal, with the variance 5r of ReLU")
def hanin_nica() -> Verdict:
    r"""$\log(K_L/K_1)$ has the mean $-sr/2$ and the variance $sr$, $s = \langle\sigma^4\rangle/
    \langle\sigma^2\rangle^2 - 1$ with Gaussian weights or independent entries, and 2 less with
    orthogonal ones: 5 and 3 for ReLU. The drift of $G^{\{1\}}$ vanishes."""
    found, expected = [], []
    for slope in (sympy.S.Zero, sympy.S.One, R(1, 10), SLOPE):
        sigma = activations.leaky_relu(slope)
        for law, less in (("gaussian", 0), ("uniform", 0), ("orthogonal", 2)):
            steps = walk(Network(sigma, law, C_W=2 / (1 + slope**2)))
            spread = kurtosis(slope) - 1 - less
            found += [steps.factor, steps.spread, steps.log_mean]
            expected += [sympy.S.One, spread, -spread / 2]
    return equal(found, expected)


@claim("deep", "2", "source 004's exact law of deep linear networks at every n and L")
def every_width() -> Verdict:
    r"""$G_{2m}/G_2^m = c_{2m}(n)^{L-1}$ exactly. At $L = rn$ it is $e^{m(m-1)sr/2}$ with the $s$
    that $V$'s recursion has: 2 with Gaussian weights, and 0 with orthogonal ones, whose moments do
    not depend on depth at any $n$."""
    found, expected = [], []
    for law, weights in zip(LAWS, (Gaussian(), Orthogonal()), strict=True):
        spread = walk(Network("linear", law)).spread
        for k in (2, 3, 4):
            three, four = (linear.correlator(k, [n] * depth, weights) for depth in (3, 4))
            rate = sympy.limit(n * sympy.log(sympy.simplify(four / three)), n, sympy.oo)
            found.append(rate)
            expected.append(R(k * (k - 1), 2) * spread)
    exponent = sympy.expand(sympy.log(interpolation(1)).subs({m: 3, r: 1}))
    return equal([*found, exponent], [*expected, 6])


@claim("deep", "3", "the Jacobian in a fixed direction has the same law")
def tangents() -> Verdict:
    r"""$t' = W\sigma'(z)\,t$ for a direction $t$ with $t\cdot z = 0$: its second moment moves by
    $\langle\sigma'^2\rangle$ and the source of its fourth is that of $V$, so that $|Jt|^2$ is
    log-normal with the same $s$. Along the input, $Jx = z$."""
    carried = Equation("t[i] = W[i,a] s'[a] t[a]")
    found, expected = [], []
    for slope in (sympy.S.Zero, R(1, 2)):
        sigma, weight = activations.leaky_relu(slope), 2 / (1 + slope**2)
        for law in LAWS:
            expr = recursion([carried] * 4, law).single_input().specialise(sigma).expr
            square = symbols.tensor("kappa(t,t|01)")
            source = sympy.expand(expr.subs("C_W", weight)).coeff(square, 2)
            found.append(source)
            expected.append(walk(Network(sigma, law, C_W=weight)).spread)
    return equal(found, expected)


@claim("deep", "4", "residual branches: width and depth commute at the weight L^{−1/2} alone")
def commuting() -> Verdict:
    r"""$z' = \gamma z + W_2\,{\rm relu}(W_1 z)$ with variances $C$ and 1, and $\gamma^2 = 1 - C/2$:
    $s = 2\gamma^2C + \frac54C^2 + \frac12C^2$, less by $C^2$ with orthogonal matrices, so that
    fixed branches have $L/n$. With $C = c/L$ and $\gamma = 1$, $s \to 2c/L$: the variance of
    $\log K$ is $2c/n$ at every depth, and $K_L/K_1 \to e^{c/2}$ in either order of the limits.
    With $C = L^{-2a}$, $a < \frac12$, it is $2L^{1-2a}/n$: 0 for $n$ first and infinite for $L$
    first. It vanishes at fixed $r$, and is of order one at $L\sim n^{1/(1-2a)}$."""
    C, c, a = sympy.symbols("C c a", positive=True)
    found, expected = [], []
    for law, less in (("gaussian", 0), ("orthogonal", 1)):
        fixed = layers.residual(skip=sympy.sqrt(1 - C / 2), C=(C, 1))
        steps = walk(Network("relu", law, layer=fixed))
        spread = 2 * (1 - C / 2) * C + (R(7, 4) - less) * C**2
        found += [steps.factor, steps.spread]
        expected += [sympy.S.One, spread]
        small = walk(Network("relu", law, layer=layers.residual(C=(c / L, 1))))
        found += [small.growth, sympy.limit(L * small.spread, L, sympy.oo), small.deep.spread]
        expected += [c / 2, 2 * c, 0]
        between = steps.spread.subs(C, L ** (-2 * a))
        found.append(sympy.expand(L ** (2 * a) * between))
        expected.append(2 + (R(3, 4) - less) * L ** (-2 * a))
    return equal(found, expected)


@claim("deep", "20", "a skip around one matrix: the walk has a memory")
def one_matrix() -> Verdict:
    r"""$z' = \gamma z + W\sigma(z)$ with $C_W\langle\sigma^2\rangle = (1 - \gamma^2)K$. With
    $\sigma^2 = \sum_k c_k\,{\rm he}_k$ at $K = 1$, the mean of ${\rm he}_k(z_i)$ over the neurons
    fluctuates with the variance $k!/n$ and decays as $\gamma^{k\ell}$. $k = 2$ is $K$ itself. So
    $s = 2(1 - \gamma^4) + C_W^2\sum_{k\ne0,2}c_k^2k!\,\frac{1+\gamma^k}{1-\gamma^k}$, less by
    $2(1-\gamma^2)^2$ with an orthogonal matrix, and $g = C_W^2\sum_{k\ne0,2}c_k^2k!\,(1 - \frac
    k2)\frac{\gamma^k}{1 - \gamma^k}$. The engine's $V$ and $G^{\{1\}}$ have these slopes."""
    found, expected = [], []
    for slope, gamma in ((R(0), R(1, 2)), (R(1, 4), R(4, 5)), (R(1), R(1, 3))):
        weight = 2 * (1 - gamma**2) / (1 + slope**2)
        every = 6 * (1 + slope**4) / (1 + slope**2) ** 2 - 3  # Σ c_k² k!/⟨σ²⟩², k ≠ 0, 2
        spread, drift = 2 * (1 - gamma**4) + every * (1 - gamma**2) ** 2, sympy.S.Zero
        for k in range(1, 100, 2):
            odd = (1 - slope**2) ** 2 * sympy.factorial2(max(k - 4, -1)) ** 2
            part = weight**2 * 2 * odd / sympy.pi / sympy.factorial(k)
            kept = gamma**k / (1 - gamma**k)
            spread, drift = spread + 2 * part * kept, drift + (1 - R(k, 2)) * part * kept
        for law, less in (("gaussian", 0), ("orthogonal", 2 * (1 - gamma**2) ** 2)):
            sigma, made = activations.leaky_relu(slope), f"{law}(C_W={weight})"
            steps = walk(Network(sigma, made, layer=layers.skip(gamma)))
            found += [steps.factor, steps.spread, steps.drift]
            expected += [1, spread - less, drift]
    return close(found, expected, 12)


NETWORKS = (
    (Network("relu", C_W=2), 128),
    (Network("relu", "orthogonal", C_W=2), 128),
    (Network.critical("leaky_relu(1/2)"), 128),
    (Network.critical("relu", layer="residual(skip=1/2)"), 64),
    (Network("relu", "uniform", C_W=2), 32),
)
DRAWS = 2400


@claim("deep", "5", "networks as deep as they are wide, by quantiles", sampled=True)
def in_ensembles(sampling: Sampling) -> Verdict:
    r"""$L - 1 = n$ layers: distances of Kolmogorov and Smirnov and of Anderson and Darling. The
    variance of $\log K$ is larger by $O(1/n)$ at finite $n$, some 4 % at $n = 128$."""
    tests = []
    alarm = sampling.false_alarms / len(NETWORKS)
    for net, width in NETWORKS:
        samples = deep.simulate(net, INPUT, 1, width, DRAWS, seed=sampling.seed)
        tests.append(deep.compare(deep.law(net, INPUT, 1), samples, alarm))
    p_values = [float(p) for each in tests for name in ("ks_p", "ad_p") for p in each.table[name]]
    error = (2 / DRAWS) ** 0.5  # of a variance, relative
    told = (
        f"{DRAWS} networks of each of {len(tests)} kinds, p-values of {min(p_values):.2g} or more"
    )
    scores = stats.norm.isf(np.array(p_values) / 2)
    return scored(scores, [error] * len(tests), sampling.false_alarms, told)


@claim("deep", "6", "resummed: V + V2/n of scale-invariant networks is e^{sr} − 1")
def resummed() -> Verdict:
    r"""$V \to s\ell K^2$, $V_2 \to \frac12s^2\ell^2K^2$ and $U_6 \to 3s^2\ell^2K^3$, the first
    terms of $e^{sr} - 1$ and $e^{3sr} - 3e^{sr} + 2$: the cumulants of the log-normal law.
    The error that the Padé and Borel forms state is not exceeded."""
    found, expected = [], []
    for law in LAWS:
        spread = walk(Network("relu", law, C_W=2)).spread
        for name, value in (("V", spread), ("V2", spread**2 / 2), ("U6", 3 * spread**2)):
            made = recursion(name, law).asymptotics("relu", 1).normalised
            found.append(made.terms[0].expr)
            expected.append(value * symbols.ell ** (1 if name == "V" else 2))
    held = []
    for ratio in (R(1, 20), R(1, 10), R(1, 5), R(2, 5)):
        for a, exact in (
            ([5, R(25, 2)], sympy.exp(5 * ratio) - 1),
            ([5, R(25, 2), R(125, 6)], sympy.exp(5 * ratio) - 1),
            ([0, 75, 500], sympy.exp(15 * ratio) - 3 * sympy.exp(5 * ratio) + 2),
        ):
            made_of = deep.resum(a, ratio)
            held.append(abs(made_of.value - float(exact)) <= made_of.error + 1e-12)
    return both(equal(found, expected), observed(held, "sums within their stated errors"))
