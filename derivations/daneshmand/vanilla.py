# %% [markdown]
# # Without normalization
#
# A product of Gaussian matrices stretches its largest direction faster than the next one, by
# digamma differences, so the batch collapses on one direction and $V\to\sqrt{(n-1)/n}$, the
# largest value it can have: the opposite of what batch normalization does.

# %%
"""Vanilla linear networks: limit and rate of the gap (source 003, appendix D, Figure 1)."""

from __future__ import annotations

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, both, claim, equal, misprint, sampled
from derivations.daneshmand import ensembles
from derivations.daneshmand.inequalities import excess, positive_coefficients
from derivations.moments.linear_laws import law, lyapunov_exponents
from derivations.pictures.panels import one_panel
from derive import batchnorm, symbols
from numeric import compare
from numeric.tables import layout
from numeric.tables.drawing import points

d, n = symbols.width, symbols.batch


def growth(i: sympy.Expr | int) -> sympy.Expr:
    """lim (1/ℓ) log σ_i², weights of variance 1/d, by QR: R_ii² is the squared length of a Gaussian
    column in the d − i + 1 dimensions that the first i − 1 leave, a layer from d to d − i + 1."""
    return sympy.expand_log(
        law([d, d - i + 1]).log_cumulant(1) - law([d]).log_cumulant(1), force=True
    )


@claim("003", "19", "Lyapunov exponents of Gaussian products")
def exponents() -> Verdict:
    """Columns of $WQ$, Q orthonormal, are independent (their covariance is
    $\\delta_{ij}1/d$), so $R_{ii}^2$ in $WQ=Q'R$ is the squared length of the i-th in the $d-i+1$
    dimensions orthogonal to those before: a Gaussian layer from d to $d-i+1$ neurons, in whose law
    $\\log R_{ii}^2$ has the mean $\\log(2/d)+\\psi(\\frac{d-i+1}2)$, for every i. Each layer adds
    one. Unit variance: $\\frac1\\ell\\log\\sigma_i\\to\\frac12(\\log2+\\psi(\\frac{d-i+1}2))$; the
    printed line has $\\log\\sigma_i^2$ on the left."""
    i = sympy.Symbol("i", positive=True, integer=True)
    unit = sympy.expand(growth(i) + sympy.log(d))
    printed = (sympy.log(2) + sympy.digamma((d - i + 1) / 2)) / 2
    angle = sympy.Symbol("phi", real=True)
    first, second = (sympy.cos(angle), sympy.sin(angle)), (-sympy.sin(angle), sympy.cos(angle))
    covariance = [
        sympy.simplify(sum(a * b for a, b in zip(*pair, strict=True)))
        for pair in ((first, first), (first, second), (second, second))
    ]
    engine = [sympy.expand_log(2 * each, force=True) for each in lyapunov_exponents(d, 6)]
    same = both(
        equal([sympy.expand(growth(k)) for k in range(1, 7)], engine, "the engine's, i = 1 … 6"),
        equal(sympy.expand(unit / 2 - printed), 0, "½ of it at unit variance, every i"),
        equal(covariance, [1, 0, 1], "covariance of entries of WQ in units of 1/d"),
    )
    return misprint(
        unit,
        printed,
        "lim (1/ℓ) log σ_i(ℓ)² at unit variance, by the exact law of one layer, and as printed: "
        "the right side is that of log σ_i(ℓ)",
        provided=same,
        witness=[(each.subs({d: 9, i: 2})).evalf(15) for each in (printed, unit)],
    )


# %% [markdown]
# ## From the exponents to the gap, (18)–(24)
#
# Let $x=\sigma_2^2/\sigma_1^2$. The third exponent lies lower by more than twice the distance
# $\delta$ of the first two, so that all others together are $\sum_{j>2}\sigma_j^2=tx^2\sigma_1^2$
# with $t\le n-2$, and $\sum_{j>2}\sigma_j^4=sx^4\sigma_1^4$ with $s\le t^2$. Then
# $\log x\sim-\delta\ell$, and the rate of anything is $-\delta$ times the power of $x$ with which
# it vanishes.

# %%
x, t, s = sympy.symbols("x t s", positive=True)
SHARES = [each / (1 + x + t * x**2) for each in (sympy.Integer(1), x, t * x**2)]
"""σ_1²/Σσ², σ_2²/Σσ², and all others together, any number of samples."""
SQUARES = (1 + x**2 + s * x**4) / (1 + x + t * x**2) ** 2
"""Σ(σ_i²/Σσ²)²."""


def power(expression: sympy.Expr) -> sympy.Expr:
    """The a with expression ~ x^a as x → 0: its logarithm grows as −aδℓ."""
    return sympy.limit(x * sympy.diff(expression, x) / expression, x, 0)


def digamma_gap(i: int) -> sympy.Expr:
    """2(λ_1 − λ_{1+i}) of the derived exponents: δ at i = 1."""
    return sympy.expand(growth(1) - growth(i + 1))


@claim("003", "20", "the distance δ of the first two exponents, (20)–(21)")
def ratios() -> Verdict:
    """$\\frac1\\ell\\log(\\sigma_2^2/\\sigma_1^2)\\to-\\delta$,
    $\\delta=\\psi(d/2)-\\psi((d-1)/2)>0$: a sum of positive terms, because ψ rises (the paper has
    it decrease). For $j\\ne1$ the share $\\sigma_j^2/\\sum\\sigma^2$ has the rate
    $\\psi((d-j+1)/2)-\\psi(d/2)$, at most −δ by the same terms, with equality at j = 2; the third
    exponent lies lower by more than 2δ."""
    delta = sympy.digamma(d / 2) - sympy.digamma((d - 1) / 2)
    y, half = sympy.Symbol("y", positive=True), sympy.Rational(1, 2)
    # D(y) = ψ(y + ½) − ψ(y) vanishes at infinity, and D(y) − D(y + 1) = 1/y − 1/(y + ½)
    step = sympy.expand_func(sympy.digamma(y + 1) - sympy.digamma(y))
    term = sympy.factor(step - step.subs(y, y + half))
    rest = sympy.limit(sympy.digamma(y + half) - sympy.digamma(y), y, sympy.oo)
    rates = [-digamma_gap(j) for j in (1, 2, 3)]
    j = sympy.Symbol("j", positive=True, integer=True)
    any_rate = sympy.expand(growth(j) - growth(1))
    between = [sympy.expand(rates[j] + digamma_gap(1) + sympy.digamma((d - 1) / 2)) for j in (1, 2)]
    orders = [power(SHARES[1]), power(SHARES[2])]
    return both(
        equal(-rates[0], delta, "δ"),
        equal(between, [sympy.digamma((d - j) / 2) for j in (2, 3)], "rates at j = 3, 4, plus δ"),
        equal(
            any_rate, sympy.digamma((d - j + 1) / 2) - sympy.digamma(d / 2), "the rate of any share"
        ),
        equal([term, rest], [1 / (2 * y * (y + half)), 0], "δ is a sum of positive terms"),
        equal(
            sympy.factor(term - term.subs(y, y + half)),
            1 / (2 * y * (y + half) * (y + 1)),
            "each larger than half a step up: the third exponent lies more than 2δ lower",
        ),
        equal(orders, [1, 2], "powers of x in the shares, j = 2, 3"),
    )


@claim("003", "Lemma 11", "limit and rate of the vanilla gap, (18)")
def limit() -> Verdict:
    """$V=\\sqrt{(n-1)/n}\\,(1-nx/(n-1)+\\dots)$ with $x=\\sigma_2^2/\\sigma_1^2\\to0$, so that
    $\\frac1\\ell\\log|V-\\sqrt{(n-1)/n}|\\to-\\delta$ with the δ of (20), and (18) holds with half
    of it, for it divides by $2\\ell$: the gap closes as $e^{-\\delta\\ell}$."""
    gap = sympy.sqrt((1 + x**2) / (1 + x) ** 2 - 1 / n)
    slope = sympy.simplify(sympy.diff(gap, x).subs(x, 0) / gap.subs(x, 0))
    order = power(1 - SQUARES)
    return both(
        equal(sympy.simplify(gap.subs(x, 0) - sympy.sqrt((n - 1) / n)), 0, "limit √((n−1)/n)"),
        equal(sympy.simplify(slope), -n / (n - 1), "first order in x"),
        equal(order, 1, "with all singular values: 1 − Σ(σ²/Σσ²)² has the same power"),
        equal(
            -digamma_gap(1) * order / 2,
            (sympy.digamma((d - 1) / 2) - sympy.digamma(d / 2)) / 2,
            "so (1/2ℓ) log|V − …| → −δ/2",
        ),
    )


@claim("003", "22", "rate of the largest singular value's share")
def largest_share() -> Verdict:
    """$|\\sigma_1^2/\\sum\\sigma^2-1|$ vanishes as the first power of x, at most n − 1 of them: so
    $\\frac1\\ell\\log|\\cdot|\\to-\\delta$, and with the printed $\\frac1{2\\ell}$ it is −δ/2,
    above the bound −δ. The other members of (22) have the factor $\\frac1\\ell$."""
    missing = sympy.cancel(1 - SHARES[0])
    # the others are at most n − 2 times x: t x² = (n − 2) x/(1 + u), u ≥ 0, and n = 2 + k
    below_x = excess / (x * (1 + sympy.Symbol("u", nonnegative=True)))
    above = sympy.together((n * x - missing).subs({n: excess + 2, t: below_x}))
    stands = both(
        equal(power(missing), 1, "power of x"),
        equal(positive_coefficients(above, *above.free_symbols), 1, "n σ_2²/σ_1² is larger, any n"),
    )
    delta = sympy.Symbol("delta", positive=True)
    return misprint(
        -delta * power(missing) / 2,
        -delta,
        "lim (1/2ℓ) log|σ_1²/Σσ² − 1|, derived, and its printed upper bound; with 1/ℓ on the left "
        "as in the other members (22) holds",
        provided=stands,
    )


@claim("003", "23", "the triangle inequality, and a sign")
def triangle() -> Verdict:
    """$V<\\sqrt{(n-1)/n}$ as long as x > 0, because $\\sum\\lambda^2$ is largest at $e_1$: the
    middle member of (23), $\\|\\sigma/|\\sigma|_1-1/n\\|-\\|e_1-1/n\\|$, is negative, and the first
    is its absolute value. The inequality itself holds, with equality for two samples."""
    squares = 1 - SQUARES  # ‖e_1 − 1/n‖² − ‖σ/|σ| − 1/n‖²
    crossed = sympy.Symbol("c", nonnegative=True)  # Σ_{i≠j>2} of products: t² − s
    below = positive_coefficients(
        sympy.together(squares.subs(s, t**2 - crossed / x**4)), x, t, crossed
    )
    apart = sympy.sqrt((SHARES[0] - 1) ** 2 + SQUARES - SHARES[0] ** 2)
    pair = [sympy.cancel(each.subs(t, 0)) for each in SHARES[:2]]
    two = sympy.sqrt(sum((each - sympy.Rational(1, 2)) ** 2 for each in pair))
    two_apart = sympy.sqrt((pair[0] - 1) ** 2 + pair[1] ** 2)
    below_one = 1 / (1 + sympy.Symbol("u", positive=True))
    gap = sympy.sqrt(sympy.Rational(1, 2)) - two
    equality = sympy.simplify((gap - two_apart).subs(x, below_one))
    corner = sympy.sqrt(1 - 1 / n)
    slope = sympy.limit(squares / x, x, 0) / (2 * corner)  # of √(1 − 1/n) − √(1 − 1/n − squares)
    other = sympy.sqrt(sympy.limit(apart**2 / x**2, x, 0))
    left = sympy.simplify(other**2 - slope**2)
    stands = both(
        equal(below, 1, "‖e_1 − 1/n‖² − ‖σ/|σ| − 1/n‖² has positive coefficients, any n"),
        equal(equality, 0, "equality at n = 2"),
        equal([slope**2, other], [n / (n - 1), sympy.sqrt(2)], "first order: √(n/(n−1)) x ≤ √2 x"),
        equal(left, (n - 2) / (n - 1), "2 − n/(n−1) ≥ 0 for n ≥ 2"),
    )
    return misprint(
        slope * x,
        -slope * x,
        "|V − √((n−1)/n)| and the printed middle member to first order in x; put in "
        "absolute value the chain holds",
        provided=stands,
    )


@claim("003", "24", "the last step of Lemma 11")
def last_step() -> Verdict:
    """$\\frac12\\log(a+b)\\ge\\frac14\\log2a+\\frac14\\log2b$, as the mean of logarithms is below
    the logarithm of the mean: the step runs the wrong way. And with $\\sigma_2^2/\\sum\\sigma^2$ to
    the first power the printed right side has the rate $-\\frac14\\delta-\\frac24\\delta$, which −δ
    does not bound. The distance in (23) itself has the rate −δ, which is all that is needed."""
    a, b = sympy.symbols("a b", positive=True)
    jensen = sympy.expand((a + b) ** 2 - 4 * a * b)
    apart = (SHARES[0] - 1) ** 2 + SQUARES - SHARES[0] ** 2
    stands = both(
        equal(jensen, sympy.expand((a - b) ** 2), "(a + b)² ≥ √(2a·2b)²"),
        equal(power(sympy.sqrt(apart)), 1, "rate of the distance in (23): −δ"),
        equal((power(SHARES[1] ** 2) + power((SHARES[0] - 1) ** 2)) / 4, 1, "with the square: −δ"),
    )
    delta = sympy.Symbol("delta", positive=True)
    derived = -delta * (power(SHARES[1]) + power((SHARES[0] - 1) ** 2)) / 4
    return misprint(
        derived,
        -delta,
        "rate of the printed right side of (24), and what is said to bound it; with "
        "(σ_2²/Σσ²)² in the first logarithm it is −δ",
        provided=stands,
    )


# %% [markdown]
# ## Ensembles


# %%
@claim("003", "20 (ensemble)", "exponents of sampled products", sampled=True)
def sampled_exponents(sampling: Sampling) -> Verdict:
    """QR of 4 columns through 600 Gaussian layers of width 4, 200 products: the mean of
    $\\log R_{ii}^2$ is $2\\lambda_i$ at every depth, as $WQ$ is as Gaussian as W; and
    $\\log R_{11}^2-\\log R_{22}^2$ gives δ of (20)."""
    width, depth, products = 4, 600, 200
    rng = np.random.default_rng(sampling.seed)
    Q, logs = np.tile(np.eye(width), (products, 1, 1)), np.empty((depth, products, width))
    for layer in range(depth):
        Q, R = np.linalg.qr(rng.standard_normal(Q.shape) @ Q / np.sqrt(width))
        logs[layer] = 2 * np.log(np.abs(np.diagonal(R, axis1=1, axis2=2)))
    rates = logs.reshape(-1, width)
    observed = np.column_stack([rates, rates[:, 0] - rates[:, 1]])
    exponents_ = [2 * float(each.evalf()) for each in lyapunov_exponents(width, width)]
    delta = float(digamma_gap(1).subs(d, width).evalf())
    names = [*(f"log R{i}^2" for i in range(1, width + 1)), "delta"]
    theory = dict(zip(names, [*exponents_, delta], strict=True))
    found = ensembles.means(width, [depth], **dict(zip(names, observed.T, strict=True)))
    flowed = layout.table([depth], **theory)
    return sampled(compare(flowed, found, sampling.false_alarms), "d = 4, four exponents and δ")


@claim("003", "Figure 1", "cosine of two samples, normalised and vanilla", sampled=True)
def figure_one(sampling: Sampling) -> Verdict:
    """20 networks of width 32, two samples: from nearly aligned ones batch norm makes them
    orthogonal, to $\\mathbb E\\cos^2=\\mathbb EV^2$ of the stationary law at n = 2; from orthogonal
    ones a vanilla network aligns: $1-\\cos^2$ is the squared area over both squared lengths, so
    $\\mathbb E\\log(1-\\cos^2)=2\\ell(\\lambda_1+\\lambda_2)-4\\ell\\lambda_1=-\\delta\\ell$ in
    every layer. Both checked with 16 000 networks."""
    width, depth, draws = 32, 60, sampling.networks(16_000)
    starts = {
        "batch norm, from cos 0.99": (True, [[1.0, 0.0], [0.99, np.sqrt(1 - 0.99**2)]]),
        "vanilla, from cos 0": (False, [[1.0, 0.0], [0.0, 1.0]]),
    }
    made, panel = one_panel(xlabel="layer", ylabel="|cosine|", title="d = 32, 20 networks")
    delta = float(digamma_gap(1).subs(d, width).evalf())
    layers = np.arange(1, depth + 1)
    late = [30, 60]
    law_ = float(batchnorm.stationary_gap().subs({batchnorm.n: 2, batchnorm.d: width}))
    comparisons = []
    for label, (normalised, inputs) in starts.items():
        C = ensembles.grams(
            width, 2, depth, draws, sampling.seed, normalised=normalised, inputs=inputs
        )
        cosine = np.abs(C[..., 0, 1]) / np.sqrt(C[..., 0, 0] * C[..., 1, 1])
        shown, se = layout.averaged(cosine[:20])
        points(panel, layers, shown, 1.96 * se, label=label, marker=".")
        if normalised:
            flowed = layout.table([depth], gap_sq=law_)
            found = ensembles.means(width, [depth], gap_sq=ensembles.gap_squared(C[:, -1]))
        else:
            logs = np.log1p(-(cosine[:, np.array(late) - 1] ** 2))
            flowed = layout.table(late, log_sin_sq=-delta * np.array(late))
            found = ensembles.means(width, late, log_sin_sq=logs)
        comparisons.append(compare(flowed, found, sampling.false_alarms / 2))
    # V² = 2C_12² + ½(C_11 − C_22)², shared evenly, and cos = 2C_12: E|cos| of a normal number
    panel.axhline(np.sqrt(2 * law_ / np.pi), color="black", linewidth=1, label="stationary law")
    # log(1 − cos²) is a sum of independent layers, close to normal: cos at its median
    aligned = np.sqrt(-np.expm1(-delta * layers))
    panel.plot(layers, aligned, color="black", linewidth=1, linestyle="--", label="e^{−δℓ}")
    panel.legend()
    return sampled(
        comparisons,
        f"{draws} networks, d = 32: E V² of two samples at layer 60, and E log(1 − cos²) = −δℓ, "
        f"δ = {delta:.4g}, at 30 and 60",
        {"batchnorm1": made},
        list(starts),
    )
