# %% [markdown]
# # Low-rank maps
#
# A weight matrix $W = C A$ of rank $r = \gamma N$, with orthonormal columns $C$ and Gaussian
# coefficients $A$ of variance $\sigma_\alpha^2/N$, is one more ensemble that is invariant under
# rotations of its rows and columns. So the engine's recursions hold for it as they stand, with
# $C_W = \gamma\sigma_\alpha^2$; and $C_b = \gamma\sigma_b^2$ for biases along the columns of $C$.

# %%
"""Low-rank weights, and the maps of lengths and correlations (source 001, eqs. 2–9, 12,
A.1–A.5)."""

from __future__ import annotations

import numpy as np
import sympy
from scipy.special import gammainc

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.moments.gaussian import evaluate, on_grid, variables, wick
from derivations.pennington.propagation import gradient_growth
from derive import (
    LowRankGaussian,
    LowRankOrthogonal,
    activations,
    haar_moment,
    propagation,
    symbols,
)
from derive.gaussian.brackets import Average
from derive.recursions import recursion
from derive.symbols import C_W, C_b
from derive.work.caches import cache

n = symbols.n
gamma = symbols.gamma
alpha, bias = sympy.symbols("sigma_alpha^2 sigma_b^2", positive=True)
IN_SOURCE = {C_W: gamma * alpha, C_b: gamma * bias}
"""The engine's variances in those of the source."""


def cubic() -> activations.Activation:
    """σ(z) = c_0 + c_1 z + c_2 z² + c_3 z³ with symbols for coefficients."""
    c = sympy.symbols("c_0:4", real=True)
    return activations.Activation("cubic", sum(x * activations.z**k for k, x in enumerate(c)))


def one(expr: sympy.Expr, q: sympy.Expr) -> sympy.Expr:
    """A map of one input for the cubic σ, at the length q."""
    return evaluate(expr, cubic(), sympy.Matrix([[q]]), wick(sympy.Matrix([[q]])))


# %% [markdown]
# ## The matrix


# %%
@claim("001", "2", "variance of the entries of low-rank weights")
def entry_variance() -> Verdict:
    r"""$\mathbb{E}W_{ij}^2 = \sum_k \mathbb{E}\alpha_{kj}^2\,\mathbb{E}C_{ik}^2 =
    \gamma\sigma_\alpha^2/N$, with $\mathbb{E}C_{ik}^2 = 1/N$ from Weingarten's calculus. The
    engine's ensembles have $C_W/N$, so $C_W = \gamma\sigma_\alpha^2$."""
    square = haar_moment([1, 1], [1, 1], n)
    derived = gamma * n * (alpha / n) * square
    engine = [
        weights.coefficient((1,), n, n) * weights.C_W
        for weights in (
            LowRankGaussian(gamma * alpha, gamma=gamma),
            LowRankOrthogonal(gamma * alpha, gamma=gamma),
        )
    ]
    return equal([derived, *engine], [gamma * alpha / n] * 3)


@claim("001", "A.1", "squares of a row of C add up to γ")
def row_of_a_frame() -> Verdict:
    r"""$\sum_kC_{ik}^2$ over $r = \gamma N$ of the $N$ columns of a Haar matrix has mean $\gamma$
    and variance $2\gamma(1 - \gamma)/(N + 2)$; for the independent normals of the lemma the
    variance is $2\gamma/N$. Both vanish with $1/N$, so the sum tends to $\gamma$ in probability, by
    Chebyshev."""
    fourth = haar_moment([1] * 4, [1] * 4, n)
    mixed = haar_moment([1] * 4, [1, 1, 2, 2], n)
    rank = gamma * n
    variance = rank * fourth + rank * (rank - 1) * mixed - gamma**2
    average = wick(sympy.Matrix([[1 / n]]))
    (z,) = variables(1)
    normal = rank * (average(z**4) - average(z**2) ** 2)
    return equal(
        [
            rank * haar_moment([1, 1], [1, 1], n),
            rank * average(z**2),
            variance,
            normal,
            *(sympy.limit(each, n, sympy.oo) for each in (variance, normal)),
        ],
        [gamma, gamma, 2 * gamma * (1 - gamma) / (n + 2), 2 * gamma / n, 0, 0],
        "exact in N",
    )


@claim("001", "A.1 (at γ)", "the limit of the distribution function at γ")
def distribution_at_the_limit() -> Verdict:
    r"""The proof ends with $F(x) \to 1_{x \ge \gamma}$. At $x = \gamma$, where its right-hand side
    stays 0, the central limit theorem gives $F \to 1/2$; that is no point of continuity of the
    limit, and the lemma holds. $F(\gamma)$ of a $\chi^2$ sum of $m = \gamma n$ terms at its mean is
    the regularised $\Gamma$ function $P(m/2, m/2)$."""
    terms = 1e8
    at = gammainc(terms / 2, terms / 2)
    # P(a, a) = ½ + 1/(3 √(2πa)) + O(a^{−3/2})
    holds = close(at, 0.5 + 1 / (3 * np.sqrt(np.pi * terms)), 10)
    return misprint(sympy.Float(at, 8), sympy.Integer(1), "F(γ) for γn = 10⁸", provided=holds)


@claim("001", "A.1 (variance)", "variance of the square of a normal number")
def variance_of_a_square() -> Verdict:
    r"""$\mathrm{V}(C_1^2) = \mathbb{E}C_1^4 - (\mathbb{E}C_1^2)^2 = 2/n^2$. The proof divides by
    $\sqrt2/n$ as a standard deviation, rightly, and prints it as a variance."""
    average = wick(sympy.Matrix([[1 / n]]))
    (z,) = variables(1)
    derived = average(z**4) - average(z**2) ** 2
    return misprint(derived, sympy.sqrt(2) / n, "V(C_1²) = E C_1⁴ − (E C_1²)², by Wick's theorem")


# %% [markdown]
# ## Lengths and covariances
#
# The source writes (3) and (5) with a factor $\gamma$ in front. They are the recursion of $K$.


# %%
@claim("001", "3, 4, A.3", "length map")
def length_map() -> Verdict:
    r"""$q^l = \gamma\big(\sigma_\alpha^2\int\phi^2(\sqrt{q^{l-1}}z)Dz + \sigma_b^2\big)$, the
    recursion of $K$ with one input, derived for both low-rank ensembles; a bias $\sum_k b_kC_{ik}$
    has the variance $\gamma\sigma_b^2$."""
    square = haar_moment([1, 1], [1, 1], n)
    printed = gamma * (alpha * Average(((1, 0), (1, 0))) + bias)
    derived = [
        recursion("K", weights).single_input().expr.subs(IN_SOURCE)
        for weights in (LowRankGaussian(gamma=gamma), LowRankOrthogonal(gamma=gamma))
    ]
    return equal([*derived, gamma * n * bias * square], [printed, printed, gamma * bias])


@claim("001", "5, 6", "covariance map")
def covariance_map() -> Verdict:
    r"""$q_{12}^l = \gamma\big(\sigma_\alpha^2\int\phi(u_1)\phi(u_2)Dz_1Dz_2 + \sigma_b^2\big)$, the
    recursion of $K$ with two inputs, for both low-rank ensembles."""
    printed = gamma * (alpha * Average(((1, 0), (2, 0))) + bias)
    derived = [
        recursion("K", weights).expr.subs(IN_SOURCE)
        for weights in (LowRankGaussian(gamma=gamma), LowRankOrthogonal(gamma=gamma))
    ]
    return equal(derived, [printed] * 2)


@claim("001", "7", "u_1 and u_2 have the covariance of the two inputs")
def rotated_variables() -> Verdict:
    r"""For independent normal $z_1$, $z_2$ the covariances of $u_1$ and $u_2$ are $q_{11}$,
    $c_{12}\sqrt{q_{11}q_{22}}$ and $q_{22}$, so that $c_{12} = q_{12}(q_{11}q_{22})^{-1/2}$ is
    their correlation."""
    q11, q22 = sympy.symbols("q_11 q_22", positive=True)
    c = sympy.Symbol("c", real=True)
    average, (z1, z2) = wick(sympy.eye(2)), variables(2)
    u1, u2 = sympy.sqrt(q11) * z1, sympy.sqrt(q22) * (c * z1 + sympy.sqrt(1 - c**2) * z2)
    return equal(
        [average(sympy.expand(each)) for each in (u1**2, u1 * u2, u2**2)],
        [q11, c * sympy.sqrt(q11 * q22), q22],
    )


@claim("001", "12", "a length is that of the coefficients")
def length_of_the_coefficients() -> Verdict:
    r"""$q^l = \gamma\frac1{\gamma N}\sum_k z_k^2$ because $|Cz|^2 = |z|^2$: by the Haar moments of
    $C$ the mean of $\sum_i C_{ik}C_{il}$ is $\delta_{kl}$, and its variance is 0."""
    second = n * haar_moment([1, 1], [1, 1], n)
    # Σ_ij E C_i1 C_i2 C_j1 C_j2, over i = j and i ≠ j
    cross = n * haar_moment([1, 1, 1, 1], [1, 1, 2, 2], n) + n * (n - 1) * haar_moment(
        [1, 1, 2, 2], [1, 2, 1, 2], n
    )
    fourth = n * haar_moment([1] * 4, [1] * 4, n) + n * (n - 1) * haar_moment(
        [1, 1, 2, 2], [1, 1, 1, 1], n
    )
    return equal([second, cross, fourth - second**2], [1, 0, 0])


@claim("001", "A.4 (covariance)", "variance of the coefficients")
def coefficient_covariance() -> Verdict:
    r"""$q_{12} = \gamma\,\mathrm{Cov}(z_1(x^{0,1}), z_1(x^{0,2}))$ with $N$ times the covariance of
    the coefficients for the weight of $\langle\phi_1\phi_2\rangle$. The derived (5) has $\gamma
    \sigma_\alpha^2$ there, so that $\mathrm{Cov}(\alpha_{1i}, \alpha_{1j}) =
    \sigma_\alpha^2\delta_{ij}/N$, as (2) has it; A.4 prints $\sigma_\alpha\delta_{ij}/N$. (It also
    takes the input $x^{0,2}$ twice in one covariance.)"""
    step = recursion("K", LowRankGaussian(gamma=gamma)).expr.subs(IN_SOURCE)
    weight = sympy.expand(step).coeff(Average(((1, 0), (2, 0))))
    return misprint(weight / (gamma * n), sympy.sqrt(alpha) / n, "from the derived covariance map")


@claim("001", "A.4", "correlation 1 is fixed")
def one_is_fixed() -> Verdict:
    r"""At equal inputs (5) is (3), so $c' = \mathcal{V}(q^*)/q^* = 1$; for a cubic $\phi$ with any
    coefficients."""
    q = sympy.Symbol("q", positive=True)
    equal_inputs = sympy.Matrix([[q, q], [q, q]])
    maps = propagation.equations()
    return equal(
        evaluate(maps.covariance, cubic(), equal_inputs, wick(equal_inputs)), one(maps.length, q)
    )


# %% [markdown]
# ## $\chi_\gamma$ and its two identities


# %%
@claim("001", "8", "χ_γ")
def chi() -> Verdict:
    r"""$\chi_\gamma = \gamma\sigma_\alpha^2\int\phi'(\sqrt{q^*}z)^2Dz$: what the recursion of
    tangents makes of a tangent, the coefficient of $\Theta$ in that of $\Theta$."""
    weights = LowRankGaussian(gamma=gamma)
    printed = gamma * alpha * Average(((1, 1), (1, 1)))
    return equal(propagation.equations(weights).chi.subs(IN_SOURCE), printed)


@cache
def _cubic_slope() -> tuple[sympy.Expr, sympy.Expr, sympy.Expr]:
    """∂c'/∂c of the cubic σ at equal lengths, by differentiation; the derived slope; χ."""
    q, c = sympy.symbols("q c", positive=True)
    kernel = sympy.Matrix([[q, c * q], [c * q, q]])
    maps, average = propagation.equations(), wick(kernel)
    moved = evaluate(maps.covariance, cubic(), kernel, average) / q
    slope = evaluate(maps.slope, cubic(), kernel, average)
    return sympy.diff(moved, c), slope, one(maps.chi, q)


@claim("001", "9", "χ_γ is the slope of the correlation map at 1")
def slope_at_one() -> Verdict:
    r"""$\partial c'/\partial c$ at $c = 1$ is $\chi_\gamma$: by differentiating the derived map for
    a cubic $\phi$ with any coefficients at any length, and for tanh by quadrature."""
    differentiated, _, chi_cubic = _cubic_slope()
    c = sympy.Symbol("c", positive=True)
    net = propagation.network(activations.tanh, 8, "0.2", "1/4")
    q = propagation.depth_scales(net).q
    return both(
        equal(differentiated.subs(c, 1), chi_cubic, "cubic σ, exact"),
        close(propagation.correlation_slope(net, 1, q), propagation.chi(net, q), 14, "tanh at q*"),
    )


@claim("001", "A.5", "derivative of the correlation map")
def correlation_derivative() -> Verdict:
    r"""$\partial c'/\partial c = \gamma\sigma_\alpha^2\langle\phi'(u_1)\phi'(u_2)\rangle$ at any
    $c$: the differentiated map, the linear response of $K$ that the recursion of $G_1$ holds, and
    the printed integral before its integration by parts."""
    differentiated, slope, _ = _cubic_slope()
    q, c = sympy.symbols("q c", positive=True)
    average, (z1, z2) = wick(sympy.eye(2)), variables(2)
    u1, u2 = sympy.sqrt(q) * z1, sympy.sqrt(q) * (c * z1 + sympy.sqrt(1 - c**2) * z2)
    sigma = cubic()
    inner = sympy.sqrt(q) * (z1 - c / sympy.sqrt(1 - c**2) * z2)
    product = sigma.expr.subs(activations.z, u1) * sigma.derivative().subs(activations.z, u2)
    before = C_W / q * average(sympy.expand(product * inner))
    return equal([slope, sympy.simplify(before)], [differentiated] * 2, "cubic σ, exact")


# %% [markdown]
# $\chi$ is a *mean square*. The source also calls it the median singular value of $DW$, and
# $\chi^L$ the average singular value of $J$.


# %%
@claim("001", "§1 (singular values)", "χ is the mean squared singular value")
def singular_values() -> Verdict:
    r"""$\chi$ is a mean *square*. For one linear layer of square Gaussian weights at $\chi = 1$ the
    singular values follow the quarter circle law $\sqrt{4 - s^2}/\pi$: their mean square is 1,
    their mean $8/(3\pi)$, and half lie below 0.81; the source calls $\chi$ their median, and
    $\chi^L$ the average singular value of $J$."""
    t = sympy.Symbol("t", positive=True)  # s = 2 sin t
    law = 4 / sympy.pi * sympy.cos(t) ** 2
    mean_square, mean = (
        sympy.integrate((2 * sympy.sin(t)) ** k * law, (t, 0, sympy.pi / 2)) for k in (2, 1)
    )
    below = sympy.integrate(law, t)
    median = 2 * sympy.sin(sympy.nsolve(below - below.subs(t, 0) - sympy.Rational(1, 2), t, 0.4))
    detail = f"E s where χ = E s² = 1; the median is {float(median):.4f}"
    return misprint(mean, sympy.S.One, detail, provided=equal(mean_square, 1))


@claim("001", "A.9", "mean squared singular value of D W")
def mean_square() -> Verdict:
    r"""$\frac1N\mathbb{E}\,\mathrm{tr}\,DW(DW)^T \to \chi$. With $D$ of the layer below $W$ it is
    the engine's recursion of $JJ^T$. With $D$ of the layer that $W$ feeds, as printed, $D$ and $W$
    depend on each other: for a Gaussian entry of variance $w = C_W/N$, $\mathbb{E}W_{ij}^2f(h_i) =
    w\langle f\rangle + w^2\phi_j^2\langle f''\rangle$ with $f = \phi'^2$ (Stein), so that A.9's
    factorization costs order $1/N$. (A.9 lets the rows of $W$ run to $N_{l-1}$, which is right at
    equal widths.)"""
    engine = gradient_growth(LowRankGaussian(gamma=gamma))
    K, w, phi = sympy.symbols("K w phi", positive=True)
    average = wick(sympy.diag(w, K - w * phi**2))
    entry, others = variables(2)  # h = φ_j W_ij + the other terms, of variance K together
    slope_squared = cubic().derivative() ** 2
    h = phi * entry + others
    exact = average(sympy.expand(entry**2 * slope_squared.subs(activations.z, h)))
    total = wick(sympy.Matrix([[K]]))
    (z,) = variables(1)
    mean = total(slope_squared.subs(activations.z, z))
    bent = total(sympy.diff(slope_squared, activations.z, 2).subs(activations.z, z))
    return both(
        equal(engine.subs(IN_SOURCE), gamma * alpha * Average(((1, 1), (1, 1)))),
        equal(exact, w * mean + (w * phi) ** 2 * bent, "E W² φ'(h)², cubic σ, exact at any width"),
    )


@claim("001", "3, 5 (tanh)", "the maps against two-dimensional quadrature")
def maps_of_tanh() -> Verdict:
    """(3) and (5) for tanh, γ = 1/4, at unequal lengths: ball arithmetic against a grid."""
    net = propagation.network(activations.tanh, 8, "0.2", "1/4")
    kernel = sympy.Matrix([[0.8, 0.3], [0.3, 0.6]])
    maps, grid = propagation.equations(), on_grid(kernel)
    printed = [
        evaluate(expr, activations.tanh, each, on_grid(each) if each.rows == 1 else grid).subs(
            {C_W: 2, C_b: 0.05}
        )
        for expr, each in (
            (maps.length, sympy.Matrix([[0.8]])),
            (maps.covariance, kernel),
            (maps.length, sympy.Matrix([[0.6]])),
        )
    ]
    return close(list(propagation.covariance_map(net, (0.8, 0.3, 0.6))), printed, 13)
