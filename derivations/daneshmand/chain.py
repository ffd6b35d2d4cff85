# %% [markdown]
# # The chain of Gram matrices
#
# With linear activations a layer with batch normalization replaces the Gram matrix $C=H^\top H$ by
# an average of $d$ independent projections,
# $C' = \frac1d\sum_k u_ku_k^\top$, $u_k=g_k/|g_k|$, $g_k\sim N(0,C)$. Its mean $P(C)$ and its
# noise are exactly known, and from the two the state in which the chain comes to rest.

# %%
"""The Gram chain, its map, its noise and its stationary state (source 003, §§2–3, appendix C)."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import sympy
import xarray
from sympy.matrices.exceptions import ShapeError

from derivations.claims import Sampling, Verdict, both, claim, close, equal, misprint, sampled
from derivations.daneshmand import ensembles, large_width, moments
from derivations.pictures.panels import panel_grid
from derive import batchnorm
from derive.batchnorm import d, n, series
from derive.batchnorm.chain import norm_moment, stationary
from derive.weights import Gaussian
from numeric import compare
from numeric.tables import layout
from numeric.tables.drawing import points

SPECTRUM = [Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)]


def normalised(M: sympy.Matrix) -> sympy.Matrix:
    """BN(M): every row over its length, eq. (1)."""
    return sympy.Matrix.vstack(
        *(M.row(i) / sympy.sqrt(M.row(i).dot(M.row(i))) for i in range(M.rows))
    )


@claim("003", "9", "the chain with weights of any variance, and of which shape")
def scale_free() -> Verdict:
    """Only the direction of a row of $W_\\ell H_\\ell$ counts: $BN(aM)=BN(M)$ for $a>0$, row by
    row, so (9), with Gaussian weights of any variance, is the chain (1). The text gives
    $W_\\ell\\in\\mathbb R^{d\\times n}$, which cannot act on $H_\\ell\\in\\mathbb R^{d\\times
    n}$."""
    rows = sympy.Matrix(3, 2, sympy.symbols("m_1:7", real=True))
    scales = sympy.diag(*sympy.symbols("a_1:4", positive=True))
    same = equal(
        [sympy.simplify(each) for each in normalised(scales * rows) - normalised(rows)],
        [0] * 6,
        "BN(aM) = BN(M), 3 rows",
    )
    H = sympy.MatrixSymbol("H", 3, 2)  # d = 3, n = 2
    fitting, columns = [], 0
    for name, shape in (("d × d", (3, 3)), ("d × n", (3, 2)), ("n × d", (2, 3))):
        try:
            image = sympy.MatrixSymbol("W", *shape) * H
        except ShapeError:
            continue
        if image.shape == H.shape:
            fitting.append(name)
            columns = shape[1]
    return misprint(
        f"W_ℓ is {', '.join(fitting)}",
        "W_ℓ is d × n",
        "of d × d, d × n and n × d what takes H_ℓ to a matrix of its shape, d = 3, n = 2; (9) "
        "itself is (1), by symbols; the witness is the number of columns that W_ℓ has",
        provided=same,
        witness=(H.shape[1], columns),
    )


@claim("003", "10", "batch normalization keeps tr HᵀH = 1")
def unit_trace() -> Verdict:
    """Both traces of (10) are d, the number of rows: with symbols for d = 3 rows of a batch of 2
    and d = 2 rows of a batch of 3, and where the mean is taken away first."""
    traces, steps, widths = [], [], []
    for width, batch, centered in ((3, 2, False), (2, 3, False), (3, 2, True)):
        M = sympy.Matrix(width, batch, sympy.symbols(f"m_1:{width * batch + 1}", real=True))
        if centered:
            M = M * (sympy.eye(batch) - sympy.ones(batch) / batch)
        lengths = sympy.diag(*(M.row(i).dot(M.row(i)) for i in range(width)))
        H = normalised(M)
        traces.append(sympy.simplify((H * H.T).trace()))
        steps.append(sympy.simplify((lengths.inv() * M * M.T).trace()))
        widths.append(sympy.Integer(width))
    return both(
        equal(traces, widths, "tr BN BNᵀ, (d, n) = (3, 2), (2, 3), and centered"),
        equal(steps, widths, "tr diag(HHᵀ)⁻¹HHᵀ"),
    )


@claim("003", "2 (spectrum)", "the gap is that of the squared singular values")
def gap_of_spectrum() -> Verdict:
    """$V^2=\\operatorname{tr}C^2-1/n$ at $\\operatorname{tr}C=1$, with a symbolic 3 × 3 matrix, and
    $\\operatorname{tr}C^2=\\sum\\sigma_i^4$: by the coefficients of its characteristic polynomial,
    Newton's $e_1^2-2e_2$."""
    a = sympy.symbols("a_1:7", real=True)
    C = sympy.Matrix([[a[0], a[3], a[4]], [a[3], a[1], a[5]], [a[4], a[5], 1 - a[0] - a[1]]])
    gap = ((C - sympy.eye(3) / 3) ** 2).trace()
    _, minus_e1, e2, _ = C.charpoly().all_coeffs()
    squares = sympy.symbols("lambda_1:4", positive=True)
    newton = sum(squares) ** 2 - 2 * sum(
        squares[i] * squares[j] for i, j in ((0, 1), (0, 2), (1, 2))
    )
    return both(
        equal(gap, (C**2).trace() - sympy.Rational(1, 3), "V² = tr C² − 1/n"),
        equal((C**2).trace(), minus_e1**2 - 2 * e2, "tr C² from the eigenvalues' polynomial"),
        equal(newton, sum(value**2 for value in squares), "which is Σλ_i²"),
    )


# %% [markdown]
# ## The spectral decomposition (13)


# %%
@claim("003", "13", "W U is as Gaussian as W")
def rotated_weights() -> Verdict:
    """$W_\\ell H_\\ell=(W_\\ell U)\\operatorname{diag}(\\sigma)V^\\top$. For a frame U, 3 × 2 by
    Cayley's transform of three symbols, the entries of $W_\\ell U$ have the covariance
    $\\delta_{ij}\\delta_{ab}/d$ of the entries of W itself, derived from the ensemble's pairings;
    being linear in W they are Gaussian. And V leaves the eigenvalues of the next C alone."""
    a = sympy.symbols("a_1:4", real=True)
    A = sympy.Matrix([[0, a[0], a[1]], [-a[0], 0, a[2]], [-a[1], -a[2], 0]])
    O = ((sympy.eye(3) - A) * (sympy.eye(3) + A).inv()).applyfunc(sympy.cancel)  # noqa: E741
    U, width = O[:, :2], sympy.Integer(3)
    variance = Gaussian().coefficient((1,), width, width)
    covariance = [
        sympy.cancel(sum(U[k, p] * U[k, q] * variance for k in range(3)))
        for p, q in ((0, 0), (0, 1), (1, 1))
    ]
    angle = sympy.Symbol("phi", real=True)
    V = sympy.Matrix([[sympy.cos(angle), -sympy.sin(angle)], [sympy.sin(angle), sympy.cos(angle)]])
    rows = sympy.Matrix(2, 2, sympy.symbols("w_1:5", real=True))
    sigma = sympy.diag(*sympy.symbols("sigma_1:3", positive=True))
    plain, turned = normalised(rows * sigma), normalised(rows * sigma * V.T)
    grams = [(each.T * each) for each in (plain, turned)]
    invariants = [[sympy.simplify(C.trace()), sympy.simplify(C.det())] for C in grams]
    return both(
        equal(covariance, [variance, 0, variance], "covariance of W U, 1/d on the diagonal"),
        equal(variance, sympy.Rational(1, 3), "E W_ij² = 1/d"),
        equal(invariants[1], invariants[0], "trace and determinant of the next C without V"),
    )


# %% [markdown]
# ## The mean of the next Gram matrix (14)–(16)


# %%
@claim("003", "14", "the mean Gram matrix is diagonal where C is, with entries p_i")
def mean_matrix() -> Verdict:
    """$w_i\\to-w_i$ leaves the law of $w$ alone and turns $u_iu_j$ into $-u_iu_j$ for $i\\ne j$: no
    mean off the diagonal. The printed $p_i$ has $\\sigma_n^2w_n^2$ above for every i: then
    $\\sum p_i$ would be $np_n$, not 1; derived with $\\sigma_i^2w_i^2$, as (16) has it."""
    w, sigma = sympy.symbols("w_1:4", real=True), sympy.symbols("sigma_1:4", positive=True)
    g = [s * x for s, x in zip(sigma, w, strict=True)]
    outer = [g[0] * g[1], g[0] * g[2], g[0] ** 2]
    length = sum(each**2 for each in g)
    flipped = [(each / length).subs(w[0], -w[0]) for each in outer]
    signs = [sympy.simplify(each * length / was) for each, was in zip(flipped, outer, strict=True)]
    p = moments.mean_spectrum(SPECTRUM)
    total = both(
        close([mpmath.fsum(p)], [1], 13), equal(signs, [-1, -1, 1], "u_1u_2, u_1u_3, u_1²")
    )
    return misprint(
        "p_i = E[σ_i² w_i²/Σ_k σ_k² w_k²]",
        "p_i = E[σ_n² w_n²/Σ_k σ_k² w_k²]",
        f"Σ p_i = 1 for σ² = (5, 3, 2)/10; n p_n = {mpmath.nstr(3 * p[-1], 6)}",
        provided=total,
        witness=(3 * p[-1], mpmath.fsum(p)),
    )


@claim("003", "16", "p_i as an integral, and where it closes")
def mean_integral() -> Verdict:
    """The integral over $\\theta$ against closed forms:
    $\\sqrt{\\lambda_1}/(\\sqrt{\\lambda_1}+\\sqrt{\\lambda_2})$ for n = 2 (symbols), Carlson's
    $R_D$ for n = 3, ${}_2F_1$ where two values occur, $1/n$ where all are equal."""
    values = sympy.symbols("sigma_1:4", positive=True)
    integral = moments.mean_eigenvalue([value**2 for value in values], 2)
    at = -batchnorm.theta
    factors = [1 - 2 * at * value**2 for value in values]
    f_n = 1 / (factors[2] ** sympy.Rational(3, 2) * sympy.sqrt(factors[0] * factors[1]))
    printed = sympy.simplify(integral.function / (values[2] ** 2 * f_n))
    a, b = sympy.symbols("a b", positive=True)
    two = moments.mean_eigenvalue([a**2, b**2], 0)
    primitive = sympy.sqrt((1 + 2 * batchnorm.theta * b**2) / (1 + 2 * batchnorm.theta * a**2))
    primitive = -primitive * a**2 / (a**2 - b**2)
    derivative = sympy.simplify(primitive.diff(batchnorm.theta) / two.function)
    ends = sympy.limit(primitive, batchnorm.theta, sympy.oo) - primitive.subs(batchnorm.theta, 0)
    with mpmath.workdps(30):
        found = moments.mean_spectrum(SPECTRUM)
        eigenvalues = [mpmath.mpf(each.numerator) / each.denominator for each in SPECTRUM]
        carlson = [
            mpmath.elliprd(*(1 / eigenvalues[(i + k) % 3] for k in (1, 2, 0)))
            / (3 * mpmath.sqrt(mpmath.fprod(eigenvalues)))
            for i in range(3)
        ]
        mixed = moments.mean_spectrum([Fraction(7, 10), *[Fraction(1, 10)] * 3])
        closed = moments.mean_eigenvalue_two(sympy.Rational(7, 10), sympy.Rational(1, 10), 1, 4)
        return both(
            equal([sympy.simplify(ends), derivative], [a / (a + b), 1], "n = 2, by a primitive"),
            equal(printed, 1, "p_n over σ_n² times the printed integrand, n = 3, −θ for θ"),
            close(found, carlson, 25, "n = 3: R_D"),
            close([mixed[0]], [closed.evalf(30)], 25, "n = 4, two values: ₂F₁"),
            equal(moments.mean_eigenvalue_two(a, a, 2, 7), sympy.Rational(1, 7), "equal: 1/n"),
        )


# %% [markdown]
# ## Rate and noise
#
# Derived from moments of a direction on the sphere, sums over pairings; the paper bounds them.


# %%
@claim("003", "§3 (rate)", "how fast the chain contracts near orthogonality")
def contraction() -> Verdict:
    """$p(1/n+\\delta)=1/n+\\frac n{n+2}\\delta$: by pairings, and as the slope of (16) at n = 2, 3,
    6. The printed rate is $1-\\frac23\\alpha$ with $\\alpha=\\lambda_n\\le1/n$, which is slower for
    every n ≥ 2."""
    rate = batchnorm.contraction_rate()
    slopes = []
    with mpmath.workdps(30):
        for size in (2, 3, 6):
            step = Fraction(1, 10**9)
            spectrum = [Fraction(1, size)] * size
            spectrum[0] += step
            spectrum[1] -= step
            p = moments.mean_spectrum(spectrum)
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
    """$\\frac1d[\\mathbb E\\,u_iu_ju_ku_l-p_ip_k\\delta_{ij}\\delta_{kl}]$: at orthogonality from
    pairings, exact in d; away from it $q_{ij}=\\mathbb E\\,u_i^2u_j^2$ obeys $\\sum_jq_{ij}=p_i$,
    and at equal eigenvalues $q_{ii}=3q_{ij}$."""
    a, b = moments.noise_covariance()
    q = moments.fourth_moments(SPECTRUM)
    same = moments.fourth_moments([Fraction(1, 3)] * 3)
    p = moments.mean_spectrum(SPECTRUM)
    rows = [mpmath.fsum(q[i, j] for j in range(3)) for i in range(3)]
    return both(
        equal([a, b], [1 / (d * n * (n + 2)), -2 / (d * n**2 * (n + 2))]),
        equal(a * (n**2 + n) + n * b, (1 - 1 / n) / d, "E|C' − EC'|² = (1 − 1/n)/d"),
        close(rows, p, 13, "Σ_j q_ij = p_i at σ² = (5, 3, 2)/10"),
        close([same[0, 0]], [3 * same[0, 1]], 13, "q_ii = 3 q_ij at equal eigenvalues"),
    )


# %% [markdown]
# ## The stationary gap
#
# $\mathbb E\,V'^2 = \frac{1-1/n}{d} + \left(1-\frac1d\right)\mathbb E|P-\frac1n|^2$ holds
# exactly. In the stationary state $V'$ and $V$ have one law, which gives $\mathbb E V^2$ order
# by order in $1/d$.


# %%
@claim("003", "§3 (stationary)", "stationary gap: leading order, from rate and noise")
def leading_gap() -> Verdict:
    """$\\mathbb EV^2=(n-1)(n+2)^2/(4n(n+1)d)$ is the noise's geometric series
    $\\frac{(1-1/n)/d}{1-\\mathrm{rate}^2}$; $\\mathbb EV$ follows, as V is a χ of $(n-1)(n+2)/2$
    components. It is $O(1/\\sqrt d)$, as in Theorem 1, whose bound has $3n/(\\alpha\\sqrt d)$."""
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
    """The relative correction of $\\mathbb EV^2$ is
    $\\frac{n^2(7n^3+14n^2-12n-32)}{4(n+1)(n+4)(3n^2+6n+4)\\,d}$. Checked where the chain is a
    single number, n = 2, by its own power series; and $\\mathbb EV^4$ two ways, for all n."""
    _, correction = norm_moment(2)
    y, e = sympy.symbols("y e", positive=True)
    upper, lower = sympy.sqrt((1 + y) / 2), sympy.sqrt((1 - y) / 2)
    square = sympy.series(((upper - lower) / (upper + lower)) ** 2, y, 0, 6).removeO()
    second, fourth = (
        2 ** (k // 2) * batchnorm.stationary_gap(k).subs({n: 2, d: 1 / e}) for k in (2, 4)
    )
    mean = square.coeff(y, 2) * second + square.coeff(y, 4) * fourth
    balance = sympy.series(sympy.simplify(second - e - (1 - e) * mean), e, 0, 3).removeO()
    found = stationary()
    direct = series.FIELD.to_sympy(found[2, 2][3] / found[2, 2][2])
    top = n**2 * (7 * n**3 + 14 * n**2 - 12 * n - 32)
    return both(
        equal(correction, top / (4 * (n + 1) * (n + 4) * (3 * n**2 + 6 * n + 4))),
        equal(balance, 0, "n = 2: V = y/√2, y' stationary through 1/d²"),
        equal(norm_moment(4)[1], direct, "E V⁴: Edgeworth, and as it was solved for"),
    )


@claim("003", "§3.2 (mixing)", "no φ keeps its distance from the stationary mean in proportion")
def mixing() -> Verdict:
    """$|\\mathbb E\\varphi(H_\\ell)-\\pi(\\varphi)|\\le\\alpha^\\ell|\\mathbb E\\varphi(H_0)-
    \\pi(\\varphi)|$ cannot hold for every φ: where the right side vanishes the left need not.
    At leading order in 1/d the chain is linear with a rate r in $k=(n-1)(n+2)/2$ normal components,
    V their length. Take $\\varphi=V^4$ and an $H_0$ with $V^4=\\pi(V^4)=k(k+2)$, in units of the
    stationary variance: after one layer the mean is larger by
    $2(k+2)r^2(1-r^2)(\\sqrt{k(k+2)}-k)>0$. Theorem 3.6 of the source's reference has a constant and
    the norm of φ on the right."""
    k, r, square = sympy.symbols("k r v", positive=True)  # square: V_0², in units of the variance
    noise_ = 1 - r**2
    # E|m + √s ξ|⁴ = |m|⁴ + (2k + 4) s |m|² + k(k + 2) s² of k components
    fourth = (r**2 * square) ** 2 + (2 * k + 4) * noise_ * r**2 * square + k * (k + 2) * noise_**2
    stationary_ = sympy.expand(fourth.subs(r, 0))
    start = sympy.sqrt(k * (k + 2))
    excess = sympy.factor(sympy.expand((fourth - stationary_).subs(square, start)))
    derived = 2 * (k + 2) * r**2 * noise_ * (start - k)
    components = sympy.sympify((n - 1) * (n + 2) / 2)
    at = {k: components.subs(n, 2), r: batchnorm.contraction_rate().subs(n, 2)}
    stands = both(
        equal(sympy.simplify(excess - derived), 0, "for every k and r"),
        equal([stationary_, start**2], [k * (k + 2)] * 2, "π(V⁴), and V_0⁴"),
    )
    return misprint(
        "with a constant and a norm of φ on the right",
        "≤ α^ℓ |Eφ(H_0) − π(φ)|",
        "n = 2, ℓ = 1, φ = V⁴; the witness is the right side and the left, in squared units of the "
        "stationary variance",
        provided=stands,
        witness=(0, derived.subs(at)),
    )


# %% [markdown]
# ## Ensembles (Figure 2)

# %%
SIZES = ((2, 100, 1800), (5, 250, 900), (10, 500, 360), (20, 1000, 140))
"""n, d = 50 n, and networks."""
INFINITE = 10**15
"""A width at which the map has no noise."""


@claim("003", "Figure 2 (law)", "stationary gap of sampled networks", sampled=True)
def stationary_ensembles(sampling: Sampling) -> Verdict:
    """Ensembles at d = 50 n, n = 2, 5, 10, 20: $\\mathbb EV^2$ and $\\mathbb EV$ at layers 50 and
    60 beside the law through next order."""
    comparisons = []
    for size, width, count in SIZES:
        depth, draws = 60, sampling.networks(count)  # rate^{2·50} < 1e-4 at n = 20
        found = ensembles.simulate(width, size, depth, draws, sampling.seed, inputs=np.eye(size))
        late = [50, 60]
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
    return layout.table(late, **values)


@claim("003", "Figure 2", "gap by depth and by width", sampled=True)
def figure_two(sampling: Sampling) -> Verdict:
    """20 networks of width 1000, batch 10, from a diagonal $H_0$ with one large entry: the derived
    deterministic map with its noise, and in the verdict the map alone, to which 400 networks at
    three widths are extrapolated in 1/d; and the mean over layers 100 to 600 of 20 networks at five
    widths on the derived law, which replaces the paper's slope by eye."""
    batch = 10
    inputs = np.diag([10.0] + [1.0] * (batch - 1))
    made, ((left, right),) = panel_grid(1, 2, (4.5, 3.6))
    found = ensembles.simulate(1000, batch, 60, 20, sampling.seed, inputs=inputs)
    layers = found["layer"].to_numpy()
    derived = np.sqrt(large_width.transient(inputs, 1000, 60))
    left.plot(layers, derived, color="black", label="derived")
    early = [1, 2, 4, 6]
    at_infinity = large_width.transient(inputs, INFINITE, early[-1])
    falling = layout.table(early, gap_sq=at_infinity[np.array(early) - 1])
    many = [
        ensembles.simulate(
            width, batch, early[-1], sampling.networks(400), sampling.seed, inputs=inputs
        )
        for width in (500, 1000, 2000)
    ]
    points(left, layers, found["gap"], 1.96 * found["gap_se"], label="20 networks", marker=".")
    left.set(xlabel="layer", ylabel="V", yscale="log", title="d = 1000, n = 10, 20 networks")
    widths = (100, 200, 400, 800, 1600)
    share = sampling.false_alarms / (len(widths) + 1)
    tables, rows = [], [compare(falling, many, share, degree=1)]
    for width in widths:
        C = ensembles.grams(width, batch, 600, 20, sampling.seed, inputs=inputs)
        gaps = np.sqrt(ensembles.gap_squared(C))
        tables.append(ensembles.means(width, [600], gap=gaps[:, 100:].mean(axis=1)))
        theory = float(batchnorm.stationary_gap(1).subs({n: batch, d: width}).evalf())
        flowed = layout.table([600], gap=theory)
        rows.append(compare(flowed, tables[-1], share))
    shown = [[each[name].item() for each in tables] for name in ("gap", "gap_se")]
    values, errors = np.array(shown)
    law = [
        float(batchnorm.stationary_gap(1).subs({n: batch, d: width}).evalf()) for width in widths
    ]
    right.plot(widths, law, color="black", label="derived")
    right.errorbar(widths, values, 1.96 * errors, fmt="o", markersize=4, label="20 networks")
    for panel in (left, right):
        panel.legend(fontsize="small")
    right.set(xlabel="d", ylabel="mean V, layers 100–600", xscale="log", yscale="log")
    return sampled(
        rows,
        "E V² as it falls, d → ∞, and the mean of V over 500 layers at five widths",
        {"batchnorm2": made},
        ["d → ∞, by layer", *(f"d = {width}" for width in widths)],
    )
