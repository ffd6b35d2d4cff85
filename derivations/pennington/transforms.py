# %% [markdown]
# # Transforms
#
# Into the master equation go $M_{D^2}$ of the nonlinearity, an average over the Gaussian
# preactivations, and $S_{W^TW}$ of the weights. Both are derived here, and set beside what the two
# papers print. In the supplement $q_*$ is a standard deviation, in the paper $q^*$ is a variance.

# %%
"""Transforms of slopes and of weights (source 002, eq. 23, Tables 1 and 2, S15–S28; 001, A.10,
A.11)."""

from __future__ import annotations

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Orthogonal,
    activations,
    spectra,
    symbols,
)
from derive.gaussian.oracle import gaussian_average
from derive.spectra.laws import w, z
from derive.symbols import q

sigma_w, gamma = sympy.symbols("sigma_w gamma", positive=True)
n = symbols.n


# %% [markdown]
# ## Nonlinearities


# %%
@claim("002", "19, 20, 23, S15, S16", "M of D² is an average over Gaussian preactivations")
def slopes_of_tanh() -> Verdict:
    r"""$M_{D^2}(z) = \int\mathcal{D}h\,\phi'^2/(z - \phi'^2) = \sum_k \mu_k z^{-k}$ with $\mu_k =
    \int\mathcal{D}h\,\phi'(\sqrt{q^*}h)^{2k}$, for tanh, where neither has a closed form: the
    integral at $z = 40$ by adaptive ball arithmetic, against twelve moments averaged one by one."""
    law = spectra.slope_law(activations.tanh, sympy.Rational(1, 2))
    with mpmath.workdps(25):
        whole = law.M_at(mpmath.mpc(40)).real
        slope = activations.tanh.derivative()
        terms = [
            gaussian_average(slope ** (2 * k), mpmath.mpf(1) / 2, 22).value / mpmath.mpf(40) ** k
            for k in range(1, 13)
        ]
        return close(whole, sum(terms), 17)


@claim("002", "Table 1, S19, S20, S22, S28", "M of D² for piecewise linear φ")
def piecewise_linear() -> Verdict:
    r"""$M_{D^2}$, $\mu_1$, $\mu_2$ and $\mu_3$ from the Gaussian's weights of the pieces, with
    $\mathrm{erf}(1/\sqrt{2q^*})$ for hard tanh, also (S28). (S22)'s slopes are 1 and $-\alpha$."""
    alpha = sympy.Rational(3, 10)
    laws = [
        spectra.slope_law(activations.by_name(name))
        for name in ("linear", "relu", "hard_tanh", "leaky_relu(3/10)")
    ]
    p = sympy.erf(1 / sympy.sqrt(2 * q))
    printed = [
        1 / (z - 1),
        1 / (2 * (z - 1)),
        p / (z - 1),
        1 / (2 * (z - 1)) + 1 / (2 * (z / alpha**2 - 1)),
    ]
    powers = [(1, 1, 1), (sympy.Rational(1, 2),) * 3, (p, p, p)]
    moments = [law.moment(k) for law in laws[:3] for k in (1, 2, 3)]
    return equal(
        [*(law.M(z) for law in laws), *moments], [*printed, *(m for each in powers for m in each)]
    )


@claim("002", "Table 1, S23", "M of D² for erf: Lerch's transcendent")
def erf_slopes() -> Verdict:
    r"""$\sum_k z^{-k}/\sqrt{1 + \pi k q^*}$, summed to Lerch's transcendent $\Phi\big(1/z,
    \tfrac12, (1 + \pi q^*)/\pi q^*\big)/(\sqrt{\pi q^*}z)$; and at $z = 3$ against the integral
    (23)."""
    law = spectra.slope_law(activations.erf_unit_slope)
    printed = sympy.lerchphi(1 / z, sympy.Rational(1, 2), (1 + sympy.pi * q) / (sympy.pi * q))
    moments = [law.moment(k) for k in (1, 2, 3)]
    slope = activations.erf_unit_slope.derivative() ** 2
    integral = gaussian_average(slope / (3 - slope), mpmath.mpf(1) / 2, 20).value
    at = sympy.N(law.M(sympy.Integer(3)).subs(q, sympy.Rational(1, 2)), 25)
    return both(
        equal(
            [sympy.expand_func(law.M(z)).replace(sympy.lerchphi, _tidy), *moments],
            [
                (printed / (sympy.sqrt(sympy.pi * q) * z)).replace(sympy.lerchphi, _tidy),
                *(1 / sympy.sqrt(1 + sympy.pi * k * q) for k in (1, 2, 3)),
            ],
        ),
        close(at, integral, 18, "M(3) at q* = 1/2"),
    )


def _tidy(first: sympy.Expr, second: sympy.Expr, third: sympy.Expr) -> sympy.Expr:
    return sympy.Function("Phi")(first, second, sympy.expand(third))


@claim("002", "S21", "hard tanh's q_* is a standard deviation in the supplement")
def hard_tanh_variance() -> Verdict:
    r"""(S21) has $\mathrm{erf}(1/(\sqrt2q_*))$ where Table 1 has $\mathrm{erf}(1/\sqrt{2q^*})$: one
    is a standard deviation, the other a variance, under almost one name."""
    derived = spectra.slope_law(activations.hard_tanh).M(z)
    return misprint(
        derived, sympy.erf(1 / (sympy.sqrt(2) * q)) / (z - 1), "read as a variance, as in Table 1"
    )


@claim("002", "S21 (integrand)", "two step functions that do not multiply")
def hard_tanh_integrand() -> Verdict:
    r"""The first line of (S21) has $\theta(1 - q_*x)^2/(z - \theta(1 + q_*x)^2)$, one step above
    and the other below; where $x < -1/q_*$ that is $1/z$, not 0. At $z = 2$, $q^* = 1/2$: the
    derived $M$, and what is printed by quadrature over its three pieces."""
    law = spectra.slope_law(activations.hard_tanh, sympy.Rational(1, 2))
    at, kink = sympy.Integer(2), sympy.sqrt(2)
    x = sympy.Symbol("x", real=True)
    normal = sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
    below, inside = (
        sympy.integrate(normal, ends) for ends in ((x, -sympy.oo, -kink), (x, -kink, kink))
    )
    printed = below / at + inside / (at - 1)
    return misprint(law.M(at), sympy.simplify(printed), "M(2), and the printed integral at z = 2")


@claim("002", "S24", "M of D² for arctan: a sign under the integral")
def arctan_slopes() -> Verdict:
    r"""$\phi' = 4/(4 + \pi^2h^2)$ for $\phi = \frac2\pi\arctan\frac{\pi h}2$, so that the integrand
    is $16/\big((4 + \pi^2q_*^2x^2)^2z - 16\big)$, not $+ 16$: expanded at large $z$ its second term
    has the other sign."""
    activation = activations.from_expr("2/pi*arctan(pi*z/2)")
    x = sympy.Symbol("x", real=True)
    squared = activation.derivative(1).subs(activations.z, x / sympy.sqrt(5)) ** 2
    derived = sympy.factor(squared / (z - squared))
    printed = sympy.factor(16 / ((4 + sympy.pi**2 * x**2 / 5) ** 2 * z + 16))
    law = spectra.slope_law(activation, sympy.Rational(1, 5))
    return misprint(
        derived,
        printed,
        f"at q* = 1/5, where M(2) = {sympy.N(law.M(2), 8)}",
        lost="the sign + may have been −",
    )


@claim("002", "S24, S25", "M of D² for arctan in closed form")
def arctan_closed_form() -> Verdict:
    r"""The printed difference of two error functions of $z_\pm = 4(\sqrt z \pm 1)/(\pi^2q_*^2\sqrt
    z)$, $q_*$ a standard deviation, against the derived partial fractions; at $z = 2$ and $z =
    7$."""
    variance = sympy.Rational(1, 5)
    law = spectra.slope_law(activations.from_expr("2/pi*arctan(pi*z/2)"), variance)

    def term(value: sympy.Expr) -> sympy.Expr:
        return sympy.exp(value / 2) / sympy.sqrt(value) * sympy.erfc(sympy.sqrt(value / 2))

    printed = []
    for at in (sympy.Integer(2), sympy.Integer(7)):
        root = sympy.sqrt(at)
        plus, minus = (4 * (root + sign) / (sympy.pi**2 * variance * root) for sign in (1, -1))
        front = sympy.sqrt(2) / (sympy.pi ** sympy.Rational(3, 2) * variance * root)
        printed.append(-front * (term(plus) - term(minus)))
    return close([law.M(sympy.Integer(at)) for at in (2, 7)], printed, 25)


# %% [markdown]
# ## Weights (Table 2, S26, S27; source 001, Table 1)


# %%
@claim("002", "Table 2, Table S1, S26", "S of orthogonal and Gaussian weights")
def weights() -> Verdict:
    r"""$S_{W^TW} = \sigma_w^{-2}$ with $s_1 = 0$ and $\sigma_w^{-2}/(1 + z)$ with $s_1 = -1$; and
    for $W^TW = 1$ the chain $G$, $M$, $M^{-1}$, $S$ of (S26)."""
    laws = [spectra.weight_law(kind(sigma_w**2)) for kind in (Orthogonal, Gaussian)]
    one = spectra.weight_law(Orthogonal())
    first = (law.S_series(1)[1] * sigma_w**2 for law in laws)
    chain = one.G(z), one.M(z), one.M_inverse(w), one.S(w)
    return equal(
        [*(law.S(w) for law in laws), *first, *chain],
        [sigma_w**-2, sigma_w**-2 / (1 + w), 0, -1, 1 / (z - 1), 1 / (z - 1), (1 + w) / w, 1],
    )


@claim("002", "S27", "transforms of a Gaussian matrix")
def gaussian_transforms() -> Verdict:
    r"""$M$, $M^{-1}$ and $S$ as printed. The density, from the imaginary part of $M$ on the axis,
    is $\sqrt{(4 - \lambda)/\lambda}/2\pi$; as printed it lacks $1/\sqrt\lambda$, and has the mass
    $8/(3\pi)$. In $G$, $\sqrt{(z - 4)/2}$ is printed for $\sqrt{(z - 4)/z}$."""
    law = spectra.weight_law(Gaussian())
    lam = sympy.Symbol("lambda", positive=True)
    square = sympy.expand((2 * law.M(lam) - lam + 2) ** 2)  # λ² − 4λ, negative in the bulk
    density = sympy.sqrt(sympy.factor(-square) / lam**2) / (2 * sympy.pi)
    printed = sympy.sqrt(4 - lam) / (2 * sympy.pi)
    at = sympy.Integer(8)
    holds = equal(
        [law.M(z), law.M_inverse(w), law.S(w), law.G(at)],
        [
            (z - sympy.sqrt(z * (z - 4)) - 2) / 2,
            (1 + w) ** 2 / w,
            1 / (1 + w),
            (1 - sympy.sqrt((at - 4) / at)) / 2,
        ],
    )
    mass = sympy.integrate(printed, (lam, 0, 4))
    wrong = both(
        misprint(density, printed, f"as printed the density's mass is {mass}"),
        misprint(law.G(at), (1 - sympy.sqrt((at - 4) / 2)) / 2, "G at z = 8 differs too"),
    )
    return wrong if holds.holds else holds


@claim("001", "A.10, Table 1", "S of low-rank Gaussian weights")
def low_rank_gaussian() -> Verdict:
    r"""$S_{W^TW} = 1/\big(\gamma\sigma_\alpha^2(1 + z/\gamma)\big)$, to which the printed quotient
    simplifies."""
    law = spectra.weight_law(LowRankGaussian(gamma * sigma_w**2, gamma=gamma))
    printed = (1 + w) / (1 + w * (1 + 1 / gamma) + w**2 / gamma) / (gamma * sigma_w**2)
    return equal([law.S(w), law.S_series(1)[1] * gamma * sigma_w**2], [printed, -1 / gamma])


@claim("001", "A.10 (G)", "Stieltjes' transform of low-rank Gaussian weights")
def low_rank_resolvent() -> Verdict:
    r"""$G$ and $M$ of $A^TA/\sigma_\alpha^2$ as A.10 has them, once the edges are $(1 \pm
    1/\sqrt\gamma)^2$ and the root is $\sqrt{(z - \lambda^+)(z - \lambda^-)}$, which is real beyond
    $\lambda^+$; as printed, $\sqrt{(\lambda^+ - z)(z - \lambda^-)}$ is not. $M^{-1}$ is right. At
    $\gamma = 1/4$, $z = 20$."""
    quarter, at = sympy.Rational(1, 4), sympy.Integer(20)
    law = spectra.weight_law(LowRankGaussian(1, gamma=gamma))
    derived = spectra.weight_law(LowRankGaussian(1, gamma=quarter)).G(at)
    small, large = ((1 + sign / sympy.sqrt(gamma)) ** 2 for sign in (-1, 1))
    root = sympy.sqrt((at - large) * (at - small))
    G = gamma * (at + 1 / gamma - 1 - root) / (2 * at)
    M = (-1 - gamma + gamma * at - gamma * root) / 2
    holds = equal(
        [derived, at * derived - 1, law.M_inverse(w)],
        [
            G.subs(gamma, quarter),
            M.subs(gamma, quarter),
            (gamma + w * (1 + gamma) + w**2) / (gamma * w),
        ],
    )
    printed = sympy.sqrt(((1 + 1 / gamma) ** 2 - at) * (at - (1 - 1 / gamma) ** 2))
    wrong = misprint(
        sympy.N(derived, 12),
        sympy.N((gamma * (at + 1 / gamma - 1 - printed) / (2 * at)).subs(gamma, quarter), 12),
        "G(20) at γ = 1/4; with the right edges and root G, M and M⁻¹ hold",
    )
    return wrong if holds.holds else holds


@claim("001", "A.10 (series)", "second coefficient of the low-rank Gaussian S")
def low_rank_gaussian_series() -> Verdict:
    r"""$s_2 = 1/\gamma^2$, where the appendix prints $(1 - 4\gamma)/\gamma^2$."""
    law = spectra.weight_law(LowRankGaussian(1, gamma=gamma))
    return misprint(law.S_series(2)[2], (1 - 4 * gamma) / gamma**2, "series of 1/(1 + w/γ)")


@claim("001", "§3.3 (density)", "the mass of the low-rank Gaussian density")
def low_rank_density() -> Verdict:
    r"""§3.3 divides the density of $A^TA$ by $\sigma_\alpha^2$ but leaves the edges where
    $\sigma_\alpha = 1$ has them, so that the total mass is $1 - \gamma + \gamma/\sigma_\alpha^2$.
    By quadrature at $\gamma = 1/4$, $\sigma_\alpha^2 = 4$; the engine's law has the mass $\gamma$
    off its atom at 0."""
    quarter, variance = sympy.Rational(1, 4), 4
    law = spectra.weight_law(LowRankGaussian(variance * quarter, gamma=quarter))
    low, high = ((1 + sign / quarter) ** 2 for sign in (-1, 1))
    with mpmath.workdps(20):
        integral = mpmath.quad(
            lambda x: mpmath.sqrt((high - x) * (x - low)) / (2 * mpmath.pi * x),
            [int(low), int(high)],
        )
    printed = 1 - quarter + quarter * sympy.Float(integral, 15) / variance
    zero = law.atoms[sympy.S.Zero]
    holds = equal([zero, law.moment(1)], [1 - quarter, variance * quarter])
    wrong = misprint(sympy.S.One, sympy.N(printed, 10), "total mass at γ = 1/4, σ_α² = 4")
    return wrong if holds.holds else holds


@claim("001", "A.10 (scale)", "the mean of the low-rank Gaussian law")
def low_rank_scale() -> Verdict:
    r"""With $\mathbb{E}A_{ij}^2 = \sigma_\alpha^2/N$ the mean of $A^TA/\sigma_\alpha^2$ is
    $\gamma$, so its $S(0)$ is $1/\gamma$, where A.10 prints 1. In the end it divides by $\gamma$
    once more, because "$W = \sqrt\gamma A$", although §3.3 has $W^TW = A^TA$: the two slips cancel,
    and Table 1 is right."""
    law = spectra.weight_law(LowRankGaussian(gamma * sigma_w**2, gamma=gamma))
    entries = gamma * n * n * (sigma_w**2 / n) / n  # (1/N) Σ E A_ij², γN rows, N columns
    holds = equal(law.mean, entries)
    printed = (1 + w) / (1 + w * (1 + 1 / gamma) + w**2 / gamma)
    wrong = misprint(
        sympy.simplify(sigma_w**2 * law.S(sympy.S.Zero)), printed.subs(w, 0), "S of AᵀA/σ_α² at 0"
    )
    return wrong if holds.holds else holds


@claim("001", "A.10 (edges)", "Marčenko and Pastur's edges for rank γN")
def low_rank_edges() -> Verdict:
    r"""With $\mathbb{E}A_{ij}^2 = 1/(\gamma N)$, for which its $M^{-1}$ holds, the nonzero
    eigenvalues of $A^TA$ end at $(1 \pm 1/\sqrt\gamma)^2$; the paper has $(1 \pm 1/\gamma)^2$, and
    says that the variance is $1/N$."""
    inverse = spectra.weight_law(LowRankGaussian(1, gamma=gamma)).M_inverse(w)
    roots = sympy.solve(sympy.numer(sympy.together(inverse.diff(w))), w)
    edges = sorted(
        (sympy.simplify(inverse.subs(w, root)) for root in roots),
        key=lambda e: float(e.subs(gamma, 0.25)),
    )
    holds = equal(edges, [(1 - 1 / sympy.sqrt(gamma)) ** 2, (1 + 1 / sympy.sqrt(gamma)) ** 2])
    wrong = misprint(edges[1], (1 + 1 / gamma) ** 2, "critical values of the derived M⁻¹")
    return wrong if holds.holds else holds


@claim("001", "A.11, §3.2", "S of low-rank orthogonal weights")
def low_rank_orthogonal() -> Verdict:
    r"""$G$, $M$ and $M^{-1}$ of $\gamma\delta_1 + (1 - \gamma)\delta_0$, and
    $S_{W^TW} = (1 + z)/\big(\gamma\sigma_\alpha^2(1 + z/\gamma)\big)$ with its first two
    coefficients."""
    law = spectra.weight_law(LowRankOrthogonal(gamma * sigma_w**2, gamma=gamma))
    unit = spectra.weight_law(LowRankOrthogonal(gamma, gamma=gamma))
    series = [c * gamma * sigma_w**2 for c in law.S_series(2)[1:]]
    return equal(
        [law.S(w), *series, unit.G(z), unit.M(z), unit.M_inverse(w)],
        [
            (1 + w) / (1 + w / gamma) / (gamma * sigma_w**2),
            1 - 1 / gamma,
            gamma**-2 - 1 / gamma,
            gamma / (z - 1) + (1 - gamma) / z,
            gamma / (z - 1),
            (gamma + w) / w,
        ],
    )


@claim("001", "§3.1 (G)", "the sign of the Stieltjes transform")
def stieltjes_sign() -> Verdict:
    r"""$G = \int\rho/(t - z)$ contradicts $M = zG - 1 = \sum_km_kz^{-k}$ and the inversion formula
    below it, both of which need $\int\rho/(z - t)$."""
    t = sympy.Symbol("t", positive=True)
    return misprint(1 / (z - t), 1 / (t - z), "zG − 1 → −2 instead of 0 at infinity")
