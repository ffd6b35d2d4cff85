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

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, equal, misprint, sampled
from derivations.daneshmand.inequalities import positive_coefficients
from derivations.pictures.panels import one_panel
from derivations.section import show
from derive import batchnorm, symbols
from derive.linear.laws import law, lyapunov_exponents
from numeric import batchnorm as ensembles
from numeric import compare
from numeric.tables import layout
from numeric.tables.drawing import points

d, n = symbols.width, symbols.batch


@claim("003", "19", "Lyapunov exponents of Gaussian products")
def exponents() -> Verdict:
    """$\\log|z|^2$ of one input grows by $\\log(2/d)+\\psi(d/2)$ a layer, by the exact law of
    $|z|^2$ (weights of variance 1/d), and $\\log\\sigma_1$ by half of that. Unit variance:
    $\\frac1\\ell\\log\\sigma_i\\to\\frac12(\\log2+\\psi(\\frac{d-i+1}2))$. The printed line has
    $\\log\\sigma_i^2$ on the left."""
    one = law([d, d, d]).log_cumulant(1) - law([d, d]).log_cumulant(1)
    first = lyapunov_exponents(d, 1)[0]
    unit = first + sympy.log(d) / 2
    printed = (sympy.log(2) + sympy.digamma(d / 2)) / 2
    same = equal(
        [sympy.expand_log(one, force=True), sympy.expand_log(unit, force=True)],
        [sympy.expand_log(2 * first, force=True), sympy.expand_log(printed, force=True)],
    )
    squared = sympy.expand_log(one + sympy.log(d), force=True)
    return misprint(
        squared,
        printed,
        "lim (1/ℓ) log σ_1(ℓ)² at unit variance, by the exact law of one layer, and as printed: "
        "the right side is that of log σ_i(ℓ), for i = 1 … n",
        provided=same,
    )


# %% [markdown]
# ## From the exponents to the gap, (18)–(24)
#
# Let $x=\sigma_2^2/\sigma_1^2$ and $\sigma_3^2/\sigma_1^2=tx^2$, $t\le1$: the third exponent lies
# lower by more than twice the distance $\delta$ of the first two. Then $\log x\sim-\delta\ell$, and
# the rate of anything is $-\delta$ times the power of $x$ with which it vanishes.

# %%
x, t = sympy.symbols("x t", positive=True)
SHARES = [each / (1 + x + t * x**2) for each in (sympy.Integer(1), x, t * x**2)]
"""σ_i²/Σσ² for three samples."""


def power(expression: sympy.Expr) -> sympy.Expr:
    """The a with expression ~ x^a as x → 0: its logarithm grows as −aδℓ."""
    return sympy.limit(x * sympy.diff(expression, x) / expression, x, 0)


def digamma_gap(i: int) -> sympy.Expr:
    """2(λ_1 − λ_{1+i}) of the derived exponents: δ at i = 1."""
    exponents_ = lyapunov_exponents(d, i + 1)
    return sympy.expand(2 * (exponents_[0] - exponents_[i]))


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
    between = [sympy.expand(rates[j] + digamma_gap(1) + sympy.digamma((d - 1) / 2)) for j in (1, 2)]
    orders = [power(SHARES[1]), power(SHARES[2])]
    return both(
        equal(-rates[0], delta, "δ"),
        equal(between, [sympy.digamma((d - j) / 2) for j in (2, 3)], "rates at j = 3, 4, plus δ"),
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
    three = sympy.sqrt(sum(share**2 for share in SHARES) - sympy.Rational(1, 3))
    order = power(three - three.subs(x, 0))
    return both(
        equal(sympy.simplify(gap.subs(x, 0) - sympy.sqrt((n - 1) / n)), 0, "limit √((n−1)/n)"),
        equal(sympy.simplify(slope), -n / (n - 1), "first order in x"),
        equal(order, 1, "with a third singular value: still the first power of x"),
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
    above = sympy.cancel((3 * x - missing).subs(t, 1 / (1 + sympy.Symbol("u", positive=True))))
    stands = both(
        equal(power(missing), 1, "power of x"),
        equal(power(3 * x), 1, "and of n σ_2²/σ_1², n = 3"),
        equal(positive_coefficients(above, *above.free_symbols), 1, "which is larger, any t < 1"),
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
    third = sympy.Rational(1, 3)
    near = sympy.sqrt(sum((share - third) ** 2 for share in SHARES))
    corner = sympy.sqrt((1 - third) ** 2 + 2 * third**2)
    apart = sympy.sqrt((SHARES[0] - 1) ** 2 + SHARES[1] ** 2 + SHARES[2] ** 2)
    squares = sympy.factor(corner**2 - near**2)
    below = positive_coefficients(squares, x, t)
    pair = [sympy.cancel(each.subs(t, 0)) for each in SHARES[:2]]
    two = sympy.sqrt(sum((each - sympy.Rational(1, 2)) ** 2 for each in pair))
    two_apart = sympy.sqrt((pair[0] - 1) ** 2 + pair[1] ** 2)
    below_one = 1 / (1 + sympy.Symbol("u", positive=True))
    gap = sympy.sqrt(sympy.Rational(1, 2)) - two
    equality = sympy.simplify((gap - two_apart).subs(x, below_one))
    first = [sympy.limit(each / x, x, 0) for each in (corner - near, apart)]
    stands = both(
        equal(below, 1, "‖e_1 − 1/n‖² − ‖σ/|σ| − 1/n‖² has positive coefficients, n = 3"),
        equal(equality, 0, "equality at n = 2"),
        equal(first, [sympy.sqrt(6) / 2, sympy.sqrt(2)], "at n = 3: √(3/2) x ≤ √2 x"),
    )
    middle = sympy.series(near - corner, x, 0, 2).removeO()
    return misprint(
        -middle,
        middle,
        "|V − √((n−1)/n)| and the printed middle member to first order in x, n = 3; put in "
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
    apart = (SHARES[0] - 1) ** 2 + SHARES[1] ** 2 + SHARES[2] ** 2
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
    means = zip(*layout.averaged(observed), strict=True)
    about = {"width": width, "blocks": len(rates)}
    found = layout.table([depth], about, **dict(zip(names, means, strict=True)))
    flowed = layout.table([depth], **theory)
    return sampled(compare(flowed, found, sampling.false_alarms), "d = 4, four exponents and δ")


@claim("003", "Figure 1", "cosine of two samples, normalised and vanilla", sampled=True)
def figure_one(sampling: Sampling) -> Verdict:
    """20 networks of width 32, two samples: from nearly aligned ones batch norm makes them
    orthogonal, to $\\mathbb E\\cos^2=\\mathbb EV^2$ of the stationary law at n = 2; from orthogonal
    ones a vanilla network aligns: $1-\\cos^2$ is the squared area over both squared lengths, so
    $\\mathbb E\\log(1-\\cos^2)=2\\ell(\\lambda_1+\\lambda_2)-4\\ell\\lambda_1=-\\delta\\ell$ in
    every layer. Both checked with 16 000 networks."""
    width, depth, draws = 32, 60, 16_000
    starts = {
        "batch norm, from cos 0.99": (True, [[1.0, 0.0], [0.99, np.sqrt(1 - 0.99**2)]]),
        "vanilla, from cos 0": (False, [[1.0, 0.0], [0.0, 1.0]]),
    }
    made, panel = one_panel(xlabel="layer", ylabel="|cosine|", title="d = 32, 20 networks")
    about = {"width": width, "blocks": draws}
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
            squared = ((C[:, -1] / 2 - np.eye(2) / 2) ** 2).sum(axis=(1, 2))
            flowed = layout.table([depth], gap_sq=law_)
            found = layout.table([depth], about, gap_sq=layout.averaged(squared))
        else:
            logs = np.log1p(-(cosine[:, np.array(late) - 1] ** 2))
            flowed = layout.table(late, log_sin_sq=-delta * np.array(late))
            found = layout.table(late, about, log_sin_sq=layout.averaged(logs))
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


# %%
if __name__ == "__main__":
    show()
