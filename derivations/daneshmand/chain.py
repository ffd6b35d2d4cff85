# %% [markdown]
# # The chain of Gram matrices
#
# With linear activations a layer with batch normalization replaces the Gram matrix $C=H^\top H$ by
# an average of $d$ independent projections,
# $C' = \frac1d\sum_k u_ku_k^\top$, $u_k=g_k/|g_k|$, $g_k\sim N(0,C)$. Its mean $P(C)$ and its
# noise are exactly known, and from the two the state in which the chain comes to rest.
"""The Gram chain, its map, its noise and its stationary state (source 003, §§2–3, appendix C)."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import sympy
import xarray

from derivations.claims import Sampling, Verdict, both, claim, close, equal, misprint, sampled
from derive import batchnorm, batchnorm_gap, batchnorm_series
from derive.batchnorm import d, n

SPECTRUM = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]


@claim("003", "10", "batch normalization keeps tr HᵀH = 1")
def unit_trace() -> Verdict:
    """Every row of H has squared length 1/d: with symbols for d = 3 rows of a batch of 2,
    without the mean taken away and with it."""
    rows = sympy.Matrix(3, 2, sympy.symbols("m_1:7", real=True))
    traces = []
    for centered in (False, True):
        M = rows
        if centered:
            M = sympy.Matrix(3, 2, lambda i, j: rows[i, j] - (rows[i, 0] + rows[i, 1]) / 2)
        squares = [M.row(i).dot(M.row(i)) for i in range(3)]
        H = sympy.Matrix(3, 2, lambda i, j, M=M, s=squares: M[i, j] / sympy.sqrt(s[i]))
        traces.append(sympy.simplify((H.T * H).trace() / 3))
    return equal(traces, [1, 1])


@claim("003", "2", "the gap is that of the squared singular values")
def gap_of_spectrum() -> Verdict:
    """V² = tr C² − 1/n = Σ(λ_i − 1/n)² at tr C = 1, with a symbolic 3 × 3 matrix."""
    a = sympy.symbols("a_1:7", real=True)
    C = sympy.Matrix([[a[0], a[3], a[4]], [a[3], a[1], a[5]], [a[4], a[5], 1 - a[0] - a[1]]])
    gap = ((C - sympy.eye(3) / 3) ** 2).trace()
    return equal(gap, (C**2).trace() - sympy.Rational(1, 3))


# %% [markdown]
# ## The mean of the next Gram matrix (14)–(16)


@claim("003", "14", "the mean Gram matrix is diagonal where C is, with entries p_i")
def mean_matrix() -> Verdict:
    """w_i → −w_i leaves the law alone, so E u_i u_j = 0. The printed p_i has σ_n² w_n² above for
    every i: then Σ p_i would be n p_n, not 1; derived with σ_i² w_i², as (16) has it."""
    p = batchnorm.mean_spectrum(SPECTRUM)
    total = close([mpmath.fsum(p)], [1], 13)
    if not total.holds:
        return total
    return misprint(
        "p_i = E[σ_i² w_i²/Σ_k σ_k² w_k²]",
        "p_i = E[σ_n² w_n²/Σ_k σ_k² w_k²]",
        f"Σ p_i = 1 for σ² = (5, 3, 2)/10; n p_n = {mpmath.nstr(3 * p[-1], 6)}",
    )


@claim("003", "16", "p_i as an integral, and where it closes")
def mean_integral() -> Verdict:
    """The integral over θ against: √λ_1/(√λ_1 + √λ_2) for n = 2 (symbols), Carlson's R_D for n =
    3, ₂F₁ for two different values, 1/n for equal ones."""
    a, b = sympy.symbols("a b", positive=True)
    two = batchnorm.mean_eigenvalue([a**2, b**2], 0)
    primitive = sympy.sqrt((1 + 2 * batchnorm.theta * b**2) / (1 + 2 * batchnorm.theta * a**2))
    primitive = -primitive * a**2 / (a**2 - b**2)
    derivative = sympy.simplify(primitive.diff(batchnorm.theta) / two.function)
    ends = sympy.limit(primitive, batchnorm.theta, sympy.oo) - primitive.subs(batchnorm.theta, 0)
    with mpmath.workdps(30):
        found = batchnorm.mean_spectrum(SPECTRUM)
        values = [mpmath.mpf(each.numerator) / each.denominator for each in SPECTRUM]
        carlson = [
            mpmath.elliprd(*(1 / values[(i + k) % 3] for k in (1, 2, 0)))
            / (3 * mpmath.sqrt(mpmath.fprod(values)))
            for i in range(3)
        ]
        mixed = batchnorm.mean_spectrum([Fraction(7, 10), *[Fraction(1, 10)] * 3])
        closed = batchnorm.mean_eigenvalue_two(sympy.Rational(7, 10), sympy.Rational(1, 10), 1, 4)
        return both(
            equal([derivative, sympy.simplify(ends)], [1, a / (a + b)], "n = 2, by a primitive"),
            close(found, carlson, 25, "n = 3: R_D"),
            close([mixed[0]], [closed.evalf(30)], 25, "n = 4, two values: ₂F₁"),
            equal(batchnorm.mean_eigenvalue_two(a, a, 2, 7), sympy.Rational(1, 7), "equal: 1/n"),
        )


# %% [markdown]
# ## Rate and noise
#
# Derived from moments of a direction on the sphere, sums over pairings; the paper bounds them.


@claim("003", "§3 (rate)", "how fast the chain contracts near orthogonality")
def contraction() -> Verdict:
    """p(1/n + δ) = 1/n + n/(n+2) δ: by pairings, and as the slope of (16) at n = 2, 3, 6. The
    printed rate is 1 − 2α/3 with α = λ_n ≤ 1/n, which is slower for every n ≥ 2."""
    rate = batchnorm.contraction_rate()
    slopes = []
    with mpmath.workdps(30):
        for size in (2, 3, 6):
            step = Fraction(1, 10**9)
            spectrum = [Fraction(1, size)] * size
            spectrum[0] += step
            spectrum[1] -= step
            p = batchnorm.mean_spectrum(spectrum)
            slopes.append((p[0] - p[1]) / (2 * mpmath.mpf(10) ** -9))
        printed = 1 - sympy.Rational(2, 3) / n
        k = sympy.Symbol("k", nonnegative=True)
        excess = sympy.factor((printed - rate).subs(n, k + 2))
        return both(
            equal(rate, n / (n + 2)),
            close(slopes, [rate.subs(n, size) for size in (2, 3, 6)], 12, "slope of (16)"),
            equal(excess, 4 * (k + 1) / (3 * (k + 2) * (k + 4)), "1 − 2/(3n) − n/(n+2) > 0"),
        )


@claim("003", "§3 (noise)", "covariance of one layer's noise")
def noise() -> Verdict:
    """(1/d)[E u_iu_ju_ku_l − p_ip_k δδ]: at orthogonality from pairings, exact in d; away from
    it q_ij = E u_i²u_j² obeys Σ_j q_ij = p_i, and q is 3 : 1 at equal eigenvalues."""
    a, b = batchnorm.noise_covariance()
    q = batchnorm.fourth_moments(SPECTRUM)
    p = batchnorm.mean_spectrum(SPECTRUM)
    rows = [mpmath.fsum(q[i, j] for j in range(3)) for i in range(3)]
    return both(
        equal([a, b], [1 / (d * n * (n + 2)), -2 / (d * n**2 * (n + 2))]),
        equal(a * (n**2 + n) + n * b, (1 - 1 / n) / d, "E|C' − EC'|² = (1 − 1/n)/d"),
        close(rows, p, 13, "Σ_j q_ij = p_i at σ² = (5, 3, 2)/10"),
    )


# %% [markdown]
# ## The stationary gap
#
# $\mathbb E\,V'^2 = \frac{1-1/n}{d} + \left(1-\frac1d\right)\mathbb E|P-\frac1n|^2$ holds
# exactly. In the stationary state $V'$ and $V$ have one law, which gives $\mathbb E V^2$ order
# by order in $1/d$.


@claim("003", "§3 (stationary)", "stationary gap: leading order, from rate and noise")
def leading_gap() -> Verdict:
    """E V² = (n−1)(n+2)²/(4n(n+1)d) is the noise's geometric series (1 − 1/n)/d/(1 − rate²); E V
    follows with a χ of (n−1)(n+2)/2 components. O(1/√d), as Theorem 1 has it; its bound has
    3n/(α√d)."""
    rate = batchnorm.contraction_rate()
    square = batchnorm.stationary_gap(2, terms=1)
    mean = batchnorm.stationary_gap(1, terms=1)
    size = (n - 1) * (n + 2) / 2
    chi = sympy.sqrt(2) * sympy.gamma((size + 1) / 2) / sympy.gamma(size / 2)
    return both(
        equal(square, (n - 1) * (n + 2) ** 2 / (4 * n * (n + 1) * d)),
        equal(square, (1 - 1 / n) / d / (1 - rate**2), "geometric series"),
        equal(
            [sympy.expand_func(mean.subs(n, k) ** 2) for k in (2, 3, 6)],
            [sympy.expand_func((chi**2 * square / size).subs(n, k)) for k in (2, 3, 6)],
            "E V from χ, n = 2, 3, 6",
        ),
    )


@claim("003", "§3 (next order)", "stationary gap: next order in 1/d")
def next_gap() -> Verdict:
    """The relative correction n²(7n³+14n²−12n−32)/(4d(n+1)(n+4)(3n²+6n+4)) of E V². Checked
    where the chain is a single number, n = 2, by its own power series; and E V⁴ two ways, for
    all n."""
    _, correction = batchnorm_gap.norm_moment(2)
    y, e = sympy.symbols("y e", positive=True)
    upper, lower = sympy.sqrt((1 + y) / 2), sympy.sqrt((1 - y) / 2)
    square = sympy.series(((upper - lower) / (upper + lower)) ** 2, y, 0, 6).removeO()
    second, fourth = (
        2 ** (k // 2) * batchnorm.stationary_gap(k).subs({n: 2, d: 1 / e}) for k in (2, 4)
    )
    mean = square.coeff(y, 2) * second + square.coeff(y, 4) * fourth
    balance = sympy.series(sympy.simplify(second - e - (1 - e) * mean), e, 0, 3).removeO()
    found = batchnorm_gap.stationary()
    direct = batchnorm_series.FIELD.to_sympy(found[2, 2][3] / found[2, 2][2])
    top = n**2 * (7 * n**3 + 14 * n**2 - 12 * n - 32)
    return both(
        equal(correction, top / (4 * (n + 1) * (n + 4) * (3 * n**2 + 6 * n + 4))),
        equal(balance, 0, "n = 2: V = y/√2, y' stationary through 1/d²"),
        equal(batchnorm_gap.norm_moment(4)[1], direct, "E V⁴: Edgeworth, and as it was solved for"),
    )


# %% [markdown]
# ## Ensembles (Figure 2)

SIZES = ((2, 100, 2000), (5, 250, 2000), (10, 500, 1000), (20, 1000, 300))
"""n, d = 50 n, and networks."""


@claim("003", "Figure 2 (law)", "stationary gap of sampled networks", sampled=True)
def stationary_ensembles(sampling: Sampling) -> Verdict:
    """Ensembles at d = 50 n, n = 2, 5, 10, 20: E V² and E V at late layers beside the law through
    next order."""
    from numeric import batchnorm as ensembles  # noqa: PLC0415
    from numeric import compare  # noqa: PLC0415

    comparisons = []
    for size, width, draws in SIZES:
        depth = 80  # rate^{2·60} < 1e-4 at n = 20
        found = ensembles.simulate(width, size, depth, draws, sampling.seed, inputs=np.eye(size))
        late = [60, 80]
        comparisons.append(
            compare(stationary_table(size, width, late), found, sampling.false_alarms / len(SIZES))
        )
    labels = [f"n = {size}, d = {width}" for size, width, _ in SIZES]
    return sampled(comparisons, "E V² and E V, leading order and next", labels=labels)


def stationary_table(size: int, width: int, late: list[int]) -> xarray.Dataset:
    """The derived law as a table, the same at all these layers."""
    values = {
        name: float(batchnorm.stationary_gap(moment).subs({n: size, d: width}).evalf())
        for name, moment in (("gap_sq", 2), ("gap", 1))
    }
    return xarray.Dataset(
        {name: ("layer", np.full(len(late), value)) for name, value in values.items()},
        {"layer": late},
    )


@claim("003", "Figure 2", "gap by depth and by width", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    """20 networks of width 1000, batch 10, from a diagonal H_0 with one large entry: the derived
    deterministic map with its noise; and the mean over layers 100 to 600 of 20 networks at six
    widths on the derived law, which replaces the paper's slope by eye."""
    from matplotlib.figure import Figure  # noqa: PLC0415

    from numeric import batchnorm as ensembles  # noqa: PLC0415
    from numeric import batchnorm_theory, compare  # noqa: PLC0415

    batch = 10
    inputs = np.diag([10.0] + [1.0] * (batch - 1))
    made = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = made.subplots(1, 2)
    found = ensembles.simulate(1000, batch, 60, 20, sampling.seed, inputs=inputs)
    layers = found["layer"].to_numpy()
    left.plot(layers, np.sqrt(batchnorm_theory.transient(inputs, 1000, 60)), color="black")
    left.errorbar(layers, found["gap"], 1.96 * found["gap_se"], fmt=".", markersize=3)
    left.set(xlabel="layer", ylabel="V", yscale="log", title="d = 1000, n = 10, 20 networks")
    widths = (100, 200, 400, 800, 1600, 3200)
    means, rows = [], []
    for width in widths:
        gaps = np.sqrt(ensembles.gaps(width, batch, 600, 20, sampling.seed, inputs=inputs))
        late = gaps[:, 100:].mean(axis=1)
        means.append((late.mean(), late.std(ddof=1) / np.sqrt(late.size)))
        theory = float(batchnorm.stationary_gap(1).subs({n: batch, d: width}).evalf())
        table = xarray.Dataset(
            {"gap": ("layer", [means[-1][0]]), "gap_se": ("layer", [means[-1][1]])},
            {"layer": [600]},
            {"width": width, "blocks": 20},
        )
        flowed = xarray.Dataset({"gap": ("layer", [theory])}, {"layer": [600]})
        rows.append(compare(flowed, table, sampling.false_alarms / len(widths)))
    values, errors = np.array(means).T
    law = [
        float(batchnorm.stationary_gap(1).subs({n: batch, d: width}).evalf()) for width in widths
    ]
    right.plot(widths, law, color="black")
    right.errorbar(widths, values, 1.96 * errors, fmt="o", markersize=4)
    right.set(xlabel="d", ylabel="mean V, layers 100–600", xscale="log", yscale="log")
    return sampled(
        rows,
        "mean of V over 500 layers at six widths",
        {"batchnorm2": made},
        [f"d = {width}" for width in widths],
    )
