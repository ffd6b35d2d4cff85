# %% [markdown]
# # The inequalities
#
# One layer takes the eigenvalues $\lambda_i=\sigma_i^2$ of $H^\top H$ to $p_i$ and noise. The
# lemmas bound both: how $V$ follows from $\hat V=1/n-\lambda_n$, how large the noise is, and how
# much nearer $p_n$ is to $1/n$ than $\lambda_n$. Each with the constant as printed and the sharp
# one. What holds spectrum by spectrum is proven with symbols where that is possible, and enclosed
# by interval arithmetic on a grid of spectra.

# %%
"""The lemmas of one layer, proven or tried, with sharp constants (source 003, Lemmas 4 and 6–10,
eq. 17)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

import sympy
from flint import arb

from derivations.claims import Verdict, both, claim, close, enclosed, equal, misprint
from derivations.daneshmand import bounds as batchnorm_bounds
from derivations.daneshmand import moments
from derive import batchnorm
from derive.batchnorm import n, theta

delta = sympy.Symbol("delta", positive=True)
excess = sympy.Symbol("k", nonnegative=True)
"""n = 2 + k."""


def grid() -> Iterator[batchnorm_bounds.Spectrum]:
    """Spectra of 2 to 4 samples over four decades, and two- and three-valued ones of 8."""
    levels = (1, 3, 30, 1000)
    for size in (2, 3, 4):
        for values in product(levels, repeat=size):
            if list(values) == sorted(values, reverse=True) and len(set(values)) > 1:
                yield batchnorm_bounds.spectrum(values)
    for count in (1, 4, 7):
        for ratio in (Fraction(11, 10), 3, 100):
            yield batchnorm_bounds.spectrum([ratio] * count + [1] * (8 - count))


def on_grid(*names: str) -> Verdict:
    """Enclosed if interval arithmetic proves these inequalities at every spectrum of the grid."""
    proven = [
        all(batchnorm_bounds.INEQUALITIES[name](spectrum).proven for name in names)
        for spectrum in grid()
    ]
    return enclosed(proven, ", ".join(names), "spectra")


def positive_coefficients(expression: sympy.Expr, *variables: sympy.Symbol) -> sympy.Integer:
    """1 if a rational function's numerator and denominator have no negative coefficient."""
    parts = sympy.fraction(sympy.together(expression))
    coefficients = [c for part in parts for c in sympy.Poly(part, *variables).coeffs()]
    return sympy.Integer(int(bool(min(coefficients) >= 0)))


# %% [markdown]
# ## Lemma 4: $V \le 2n\hat V$


# %%
@claim("003", "Lemma 4", "V ≤ 2n V̂; sharp: √(n(n−1)) V̂")
def lemma_4() -> Verdict:
    """At given $\\lambda_n$ write $\\mu_i=\\lambda_i-\\lambda_n\\ge0$, whose sum is $n\\hat V$:
    then $n(n-1)\\hat V^2-V^2=2\\sum_{i<j}\\mu_i\\mu_j\\ge0$, with equality where one eigenvalue
    takes what the others leave. The proof's $2(n-1)^2\\hat V^2$ is right for n ≥ 2, and its
    constraint sum runs to n, not to 2."""
    total, squares = sympy.symbols("s_1 s_2", nonnegative=True)  # Σμ_i, Σμ_i²
    smallest = (1 - total) / n
    square = n * smallest**2 + 2 * smallest * total + squares - 1 / n  # Σ(λ_n + μ_i)² − 1/n
    difference = n * (n - 1) * (1 / n - smallest) ** 2 - square
    v = sympy.Symbol("v", positive=True)
    least = 1 / n - v
    corner = (1 - (n - 1) * least - 1 / n) ** 2 + (n - 1) * (least - 1 / n) ** 2
    slack = sympy.sympify(2 * (n - 1) ** 2 - n * (n - 1)).subs(n, excess + 2)
    printed = sympy.sympify(4 * n**2 - n * (n - 1)).subs(n, excess + 2)
    return both(
        equal(
            sympy.expand(difference),
            total**2 - squares,
            "n(n−1)V̂² − V² = (Σμ)² − Σμ² = 2Σ_{i<j} μ_iμ_j, any n",
        ),
        equal(corner, n * (n - 1) * v**2, "equality at the corner, any n"),
        equal(
            [positive_coefficients(sympy.expand(each), excess) for each in (slack, printed)],
            [1, 1],
            "n(n−1) ≤ 2(n−1)² and ≤ (2n)² for n ≥ 2",
        ),
        on_grid("Lemma 4", "Lemma 4, sharp"),
    )


# %% [markdown]
# ## Lemmas 6 and 7: the noise


# %%
@claim("003", "Lemma 6", "E|C' − EC'|² ≤ 1/d; sharp: (1 − 1/n)/d")
def lemma_6() -> Verdict:
    """$|uu^\\top|=1$, so $d\\,\\mathbb E|C'-\\mathbb EC'|^2=1-\\sum p_i^2$ exactly, at most $1-1/n$
    as $\\sum p_i=1$, with equality at orthogonality. Symbols: the sum over i, j of the noise's
    covariance; and by intervals."""
    a, b = moments.noise_covariance(sympy.S.One)
    q = moments.fourth_moments([Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)])
    total = sum(q[i, j] for i, j in product(range(3), repeat=2))
    return both(
        equal(a * (n**2 + n) + n * b, 1 - 1 / n, "at orthogonality"),
        close([total], [1], 13, "E|uuᵀ|² = Σ q_ij = 1 away from it"),
        on_grid("Lemma 6", "Lemma 6, sharp"),
    )


@claim("003", "Lemma 7", "E(V̂' − (1/n − p_n))² ≤ 1/d")
def lemma_7() -> Verdict:
    """Eigenvalues move by no more than C does (Weyl), and $p_n$ is the smallest of the $p_i$, which
    keep the order of the $\\lambda_i$: symbols, and on the grid. So the bound is Lemma 6's,
    $(1-\\sum p_i^2)/d$; the third line's equality sign in the proof is an inequality. Two samples
    at orthogonality: $\\mathbb E\\hat V'^2=1/(4d)$, exactly."""
    spectra = list(grid())
    ordered = [
        all(
            bool(p <= q) or (a == b and p.overlaps(q))
            for (q, p), (a, b) in zip(
                pairwise(batchnorm_bounds.mean_spectrum(spectrum)), pairwise(spectrum), strict=True
            )
        )
        for spectrum in spectra
    ]
    x, y, rest = sympy.symbols("x y r", positive=True)
    # integrands of p_i − p_j share every factor but λ/(1 + 2θλ), which rises with λ
    difference = sympy.factor(x / (1 + rest * x) - y / (1 + rest * y))
    # n = 2: V̂' is the distance of the eigenvalues from ½, whose square is (ξ_11 − ξ_22)²/4 + ξ_12²
    a, b = (each.subs(n, 2) for each in moments.noise_covariance())
    pair = (2 * (2 * a + b) - 2 * b) / 4 + a
    return both(
        equal(difference, (x - y) / ((1 + rest * x) * (1 + rest * y)), "p keeps the order of λ"),
        equal(pair, 1 / (4 * batchnorm.d), "E V̂'² of two samples at orthogonality"),
        enclosed(ordered, "p keeps the order of λ", "spectra"),
        on_grid("Lemma 6, sharp"),
    )


# %% [markdown]
# ## Lemma 9 and (17): the integral and its lower bound


# %%
@claim("003", "Lemma 9", "a mean ratio from the moment generating function")
def lemma_9() -> Verdict:
    """$\\partial_2\\phi(\\theta,0)=\\mathbb E[X_2e^{\\theta X_1}]$ and
    $\\int_{-\\infty}^0e^{\\theta x}d\\theta=1/x$ for x > 0. For $X_2=\\lambda_iw_i^2$ and
    $X_1=\\sum\\lambda_jw_j^2$ the Gaussian integrals give the proof's φ and, by its derivative,
    the integrand that the engine has in (16); and for two Gamma variables, $X_1$ their sum and
    $X_2$ one of them, the mean of a Beta variable."""
    first, second, x = sympy.symbols("theta_1 theta_2 x", real=True)
    positive = sympy.Symbol("x", positive=True)
    whole = sympy.integrate(sympy.exp(first * positive), (first, -sympy.oo, 0))
    slope = sympy.diff(sympy.exp(first * x + second * x**2), second).subs(second, 0)
    t = sympy.Symbol("t", positive=True)  # −θ_1, and −θ_2 within it: where φ exists
    values = sympy.symbols("lambda_1:4", positive=True)
    w = sympy.Symbol("w", real=True)
    a, b = sympy.symbols("a b", positive=True)
    weight = sympy.exp(-(w**2) / 2) / sympy.sqrt(2 * sympy.pi)
    factor = sympy.integrate(sympy.exp(-a * w**2) * weight, (w, -sympy.oo, sympy.oo))
    phi = sympy.Mul(
        *(factor.subs(a, (t - (second if i == 0 else 0)) * value) for i, value in enumerate(values))
    )
    integrand = sympy.diff(phi, second).subs(second, 0)
    engine = moments.mean_eigenvalue(values, 0).function.subs(batchnorm.theta, t)
    # Gamma(a) and Gamma(b): φ = (1 − θ_1 − θ_2)^{−a} (1 − θ_1)^{−b}
    gammas = sympy.diff((1 + t - second) ** -a * (1 + t) ** -b, second).subs(second, 0)
    beta = sympy.integrate(sympy.powsimp(gammas), (t, 0, sympy.oo), conds="none")
    return both(
        equal([whole, slope], [1 / positive, x**2 * sympy.exp(first * x)], "the two steps"),
        equal(sympy.simplify(integrand / engine), 1, "integrand of (16), three eigenvalues"),
        equal(sympy.simplify(beta), a / (a + b), "two Gamma variables"),
    )


@claim("003", "17", "f_n is least where the other eigenvalues are equal")
def lower_bound() -> Verdict:
    """At the mean of two λ the product of their $1+2\\theta\\lambda$ is larger by
    $\\theta^2(\\lambda_i-\\lambda_j)^2$, for every θ: so the integrand of $f_n$ is smallest at
    equal ones, where it is g of (17) with $\\lambda_n=1/n-\\delta$. Enclosed on the grid:
    $f_n=p_n/\\lambda_n\\ge\\int g$, with $\\int g$ by ${}_2F_1$."""
    x, y = sympy.symbols("x y", positive=True)
    mean = (x + y) / 2
    gain = (1 + 2 * theta * mean) ** 2 - (1 + 2 * theta * x) * (1 + 2 * theta * y)
    size = 5
    least = sympy.Rational(1, size) - delta
    flat = [least, *[(1 - least) / (size - 1)] * (size - 1)]
    A, B = one_apart(sympy.Integer(size))
    engine = moments.mean_eigenvalue(flat, 0).function / least
    printed = A ** -sympy.Rational(3, 2) * B ** -sympy.Rational(size - 1, 2)
    bounds = []
    for eigenvalues in grid():
        f = batchnorm_bounds.mean_spectrum(eigenvalues)[-1]
        flattened = batchnorm_bounds.mean_of_smallest(len(eigenvalues), arb(eigenvalues[-1]))
        equal_others = len(set(eigenvalues[:-1])) == 1
        bounds.append(bool(f >= flattened) or (equal_others and f.overlaps(flattened)))
    return both(
        equal(sympy.expand(gain), sympy.expand(theta**2 * (x - y) ** 2), "two at their mean"),
        equal(sympy.simplify(engine / printed), 1, "g, n = 5"),
        enclosed(bounds, "f_n ≥ ∫g", "spectra"),
    )


# %% [markdown]
# ## Lemmas 8 and 10: the contraction


# %%
def one_apart(count: sympy.Expr = n) -> tuple[sympy.Expr, sympy.Expr]:
    """1 + 2θσ² at σ_n² = 1/n − δ and at the others, 1/n + δ/(n−1)."""
    return 1 + 2 * theta * (1 / count - delta), 1 + 2 * theta * (1 / count + delta / (count - 1))


@claim("003", "Lemma 10", "g(δ) is convex")
def lemma_10() -> Verdict:
    """$g=A^{-3/2}B^{-(n-1)/2}$: $A^2B^2g''/g$ is a polynomial in k, θ and δ, n = 2 + k, without a
    negative coefficient. The printed $h_1'$ has $-(n-3)/2$ for $-(n+1)/2$, so $h_4$ has $4n-2$ for
    $4n-6$ and $n+2$ for $n+6$; its sign and the lemma stand."""
    A, B = one_apart()
    logarithm = -sympy.Rational(3, 2) * sympy.log(A) - (n - 1) / 2 * sympy.log(B)
    first = sympy.diff(logarithm, delta)
    second = sympy.simplify((sympy.diff(first, delta) + first**2) * A**2 * B**2 / theta**2)
    polynomial = sympy.expand(sympy.cancel(second * (n - 1)).subs(n, excess + 2))
    numerator = sympy.fraction(sympy.together(polynomial))[0]
    convex = positive_coefficients(sympy.expand(numerator), excess, theta, delta)
    h = sympy.Rational(5, 2) * 2 * theta * B - (n + 1) / 2 * 2 * theta / (n - 1) * A
    derived = sympy.factor(
        sympy.diff(sympy.log(A ** (-sympy.Rational(5, 2)) * B ** (-(n + 1) / 2)), delta) * A * B
    )
    h_4 = (4 * n - 6) / (n - 1) * (1 + 2 * theta / n) + 2 * theta * delta * (n + 6) / (n - 1)
    holds = both(
        equal(convex, 1),
        equal([derived, sympy.expand(h)], [theta * h_4, sympy.expand(theta * h_4)]),
    )
    printed = (4 * n - 2) / (n - 1) * (1 + 2 * theta / n) + 2 * theta * delta * (n + 2) / (n - 1)
    return misprint(
        sympy.factor(h_4),
        sympy.factor(printed),
        "h_4: derived and printed; the exponent of B in h_1 is −(n+1)/2. Both are positive for "
        "n ≥ 2, so g is convex, proven by coefficients",
        provided=holds,
    )


@claim("003", "Lemma 8", "1/n − p_n ≤ (1 − ⅔λ_n) V̂; sharp: 2n/(n+2) for ⅔")
def lemma_8() -> Verdict:
    """$\\int g(0)=1$ and $\\int g'(0)=2n/(n+2)$, so $p_n\\ge\\lambda_n(1+\\frac{2n}{n+2}\\hat V)$.
    The proof ends there; the lemma keeps ⅔, the value at n = 1, though n ≥ 2 gives at least 1.
    Sharp as $\\hat V\\to0$, where $1-2/(n+2)$ is the contraction rate."""
    A, B = one_apart()
    g = A ** -sympy.Rational(3, 2) * B ** (-(n - 1) / 2)
    at_zero = sympy.powsimp(g.subs(delta, 0))
    slope = sympy.powsimp(sympy.simplify(sympy.diff(g, delta).subs(delta, 0)))
    x = sympy.Symbol("x", positive=True)
    moments = []
    for integrand in (at_zero, slope):
        inner = sympy.simplify(integrand.subs(theta, n * x / 2) * n / 2)
        moments.append(inner)
    beta = [n / 2 * (1 + x) ** (-n / 2 - 1), n**2 / 2 * x * (1 + x) ** (-n / 2 - 2)]
    same = [sympy.simplify(a / b) for a, b in zip(moments, beta, strict=True)]
    # ∫_0^∞ x^{a−1}(1+x)^{−a−b} dx = B(a, b)
    values = [
        n / 2 * sympy.gammasimp(sympy.gamma(1) * sympy.gamma(n / 2) / sympy.gamma(n / 2 + 1)),
        n**2 / 2 * sympy.gammasimp(sympy.gamma(2) * sympy.gamma(n / 2) / sympy.gamma(n / 2 + 2)),
    ]
    return both(
        equal(values[::-1], [2 * n / (n + 2), 1], "∫g'(0), ∫g(0)"),
        equal(same, [1, 1], "integrands at δ = 0, x = 2θ/n"),
        equal(1 - 2 * n / (n + 2) / n, batchnorm.contraction_rate(), "sharp as V̂ → 0"),
        on_grid("Lemma 8", "Lemma 8, sharp"),
        detail="printed ⅔; 2n/(n+2) ≥ 1 for n ≥ 2",
    )
