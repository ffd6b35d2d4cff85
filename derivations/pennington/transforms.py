# %% [markdown]
# # Transforms
#
# The Jacobian is a product of free matrices, so its $S$-transform is a product. What enters is
# $M_{D^2}$ of each nonlinearity and $S_{W^TW}$ of each weight ensemble; both are derived, and set
# beside what the two papers print.
"""The master equation, Tables 1 and 2, supplement §§1–6; source 001, A.10 and A.11."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derive import Gaussian, LowRankGaussian, LowRankOrthogonal, Orthogonal, activations, spectra
from derive.spectra import moments, series
from derive.spectra.laws import w, z
from derive.spectra.slopes import q

sigma_w, gamma = sympy.symbols("sigma_w gamma", positive=True)


@claim("002", "7–11", "Stieltjes, moments and S, from atoms and from a density")
def definitions() -> Verdict:
    """G, M and S of p δ_1 + (1 − p) δ_0, each from its definition; M's series has the moments."""
    p = sympy.Symbol("p", positive=True)
    law = spectra.Atomic({1: p, 0: 1 - p})
    inverse = (p + w) / w
    expansion = sympy.series(law.M(1 / w), w, 0, 5).removeO()
    return equal(
        [law.G(z), law.M(z), law.M_inverse(w), law.S(w), expansion],
        [
            p / (z - 1) + (1 - p) / z,
            z * (p / (z - 1) + (1 - p) / z) - 1,
            inverse,
            (1 + w) / (w * inverse),
            sum(law.moment(k) * w**k for k in range(1, 5)),
        ],
    )


@claim("002", "14–16, S11, S12", "master equation for any depth")
def master_equation() -> Verdict:
    """Inserting the derived moments of JJᵀ into (14), both sides agree through z^{−6}, for L = 2, 3
    and 7 at rational μ_k, s_k and σ_w."""
    order = 6
    C = sympy.Rational(6, 5)
    mu = [sympy.Rational(k + 2, k + 4) for k in range(1, order + 1)]
    s = [sympy.Rational(-1, k + 2) for k in range(1, order)]
    found = []
    for layers in (2, 3, 7):
        m = moments.jacobian_moments(order, depth=layers, weight_variance=C, slopes=mu, weights=s)
        M = [sympy.S.Zero, *m]
        powers = [[sympy.S.One] + [sympy.S.Zero] * order]
        for _ in range(order):
            powers.append(series.multiply(powers[-1], M))
        S = [sum(a * p[k] for a, p in zip([1, *s], powers, strict=False)) for k in range(order + 1)]
        one_plus = [1 + M[0], *M[1:]]
        part = sympy.Rational(1, layers)
        # 1/x = z^{−1/L}/F(M), with M = m_1/z (1 + …) and m_1 = χ^L.
        inverse = series.multiply(
            series.power([each / m[0] for each in m], 1 - part),
            series.multiply(series.power(S, -1), series.power(one_plus, part - 1))[:order],
        )
        y = [sympy.S.Zero, *(C * (C * mu[0]) ** (layers - 1) * each for each in inverse)]
        total, power = [sympy.S.Zero] * (order + 1), [sympy.S.One] + [sympy.S.Zero] * order
        for value in mu:
            power = series.multiply(power, y)
            total = [a + value * b for a, b in zip(total, power, strict=True)]
        found += [a - b for a, b in zip(total, M, strict=True)]
    return equal(found, [0] * len(found), "z^-1 … z^-6")


# %% [markdown]
# ## Nonlinearities (23, Table 1, S19–S25)


@claim("002", "Table 1, S19, S20, S22", "M of D² for piecewise linear φ")
def piecewise_linear() -> Verdict:
    """From the Gaussian's weights of the pieces. (S22)'s α² are squared slopes, as it says."""
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
    return equal([law.M(z) for law in laws], printed)


@claim("002", "Table 1, S23", "M of D² for erf: Lerch's transcendent")
def erf_slopes() -> Verdict:
    """Σ z^{−k}/√(1 + πkq), summed to Lerch's transcendent, and the same against quadrature."""
    law = spectra.slope_law(activations.erf)
    printed = sympy.lerchphi(1 / z, sympy.Rational(1, 2), (1 + sympy.pi * q) / (sympy.pi * q))
    moments = [law.moment(k) for k in (1, 2, 3)]
    return both(
        equal(
            [sympy.expand_func(law.M(z)).replace(sympy.lerchphi, _tidy), *moments],
            [
                (printed / (sympy.sqrt(sympy.pi * q) * z)).replace(sympy.lerchphi, _tidy),
                *(1 / sympy.sqrt(1 + sympy.pi * k * q) for k in (1, 2, 3)),
            ],
        )
    )


def _tidy(first: sympy.Expr, second: sympy.Expr, third: sympy.Expr) -> sympy.Expr:
    return sympy.Function("Phi")(first, second, sympy.expand(third))


@claim("002", "S21", "hard tanh's q_* is a standard deviation in the supplement")
def hard_tanh_variance() -> Verdict:
    """(S21) has erf(1/(√2 q_*)) where Table 1 has erf(1/√(2q*)): one is a standard deviation."""
    derived = spectra.slope_law(activations.hard_tanh).M(z)
    return misprint(
        derived, sympy.erf(1 / (sympy.sqrt(2) * q)) / (z - 1), "read as a variance, as in Table 1"
    )


@claim("002", "S24", "M of D² for arctan: a sign under the integral")
def arctan_slopes() -> Verdict:
    """φ' = 4/(4 + π²x²), so the integrand is 16/((4 + π²q x²)² z − 16), not + 16: expanded at
    large z its first term is the same, its second has the other sign."""
    law = spectra.slope_law(activations.from_expr("2/pi*arctan(pi*z/2)"), sympy.Rational(1, 5))
    x = sympy.Symbol("x", real=True)
    slope = 4 / (4 + sympy.pi**2 * x**2 / 5)
    derived = slope**2 / (z - slope**2)
    printed = 16 / ((4 + sympy.pi**2 * x**2 / 5) ** 2 * z + 16)
    return misprint(
        sympy.factor(derived), sympy.factor(printed), f"derived M(2) = {sympy.N(law.M(2), 8)}"
    )


@claim("002", "S24, S25", "M of D² for arctan in closed form")
def arctan_closed_form() -> Verdict:
    """The printed difference of two error functions, q_* a standard deviation, against the derived
    partial fractions; at z = 2 and z = 7."""
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


@claim("002", "Table 2, S26", "S of orthogonal and Gaussian weights")
def weights() -> Verdict:
    """Both with σ_w² in them, and s_1 = 0, −1."""
    laws = [spectra.weight_law(kind(sigma_w**2)) for kind in (Orthogonal, Gaussian)]
    return equal(
        [*(law.S(w) for law in laws), *(law.S_series(1)[1] * sigma_w**2 for law in laws)],
        [sigma_w**-2, sigma_w**-2 / (1 + w), 0, -1],
    )


@claim("002", "S27", "transforms of a Gaussian matrix")
def gaussian_transforms() -> Verdict:
    """M, M⁻¹ and S as printed; the density lacks 1/√λ (as it stands its mass is 8/(3π)), and G has
    √((z − 4)/2) for √((z − 4)/z)."""
    law = spectra.weight_law(Gaussian())
    lam = sympy.Symbol("lambda", positive=True)
    printed_mass = sympy.integrate(sympy.sqrt(4 - lam) / (2 * sympy.pi), (lam, 0, 4))
    right_mass = sympy.integrate(sympy.sqrt((4 - lam) / lam) / (2 * sympy.pi), (lam, 0, 4))
    holds = equal(
        [law.M(z), law.M_inverse(w), law.S(w), right_mass],
        [(z - sympy.sqrt(z * (z - 4)) - 2) / 2, (1 + w) ** 2 / w, 1 / (1 + w), 1],
    )
    proof = f"as printed the density's mass is {printed_mass}; M, M⁻¹ and S are right"
    wrong = misprint(
        sympy.sqrt((4 - lam) / lam) / (2 * sympy.pi), sympy.sqrt(4 - lam) / (2 * sympy.pi), proof
    )
    at = sympy.Integer(8)
    G = misprint(law.G(at), (1 - sympy.sqrt((at - 4) / 2)) / 2, "G at z = 8")
    return both(wrong if holds.holds else holds, G)


@claim("001", "A.10, Table 1", "S of low-rank Gaussian weights")
def low_rank_gaussian() -> Verdict:
    """1/(γσ_α²(1 + w/γ)), which the printed quotient simplifies to."""
    law = spectra.weight_law(LowRankGaussian(gamma * sigma_w**2, gamma=gamma))
    printed = (1 + w) / (1 + w * (1 + 1 / gamma) + w**2 / gamma) / (gamma * sigma_w**2)
    return equal([law.S(w), law.S_series(1)[1] * gamma * sigma_w**2], [printed, -1 / gamma])


@claim("001", "A.10 (series)", "second coefficient of the low-rank Gaussian S")
def low_rank_gaussian_series() -> Verdict:
    """1/γ², where the appendix prints (1 − 4γ)/γ²."""
    law = spectra.weight_law(LowRankGaussian(1, gamma=gamma))
    return misprint(law.S_series(2)[2], (1 - 4 * gamma) / gamma**2, "series of 1/(1 + w/γ)")


@claim("001", "A.10 (edges)", "Marčenko and Pastur's edges for rank γN")
def low_rank_edges() -> Verdict:
    """With E[A_ij²] = 1/(γN), for which its M⁻¹ holds, the nonzero eigenvalues of AᵀA end at
    (1 ± 1/√γ)²; the paper has (1 ± 1/γ)², and says the variance is 1/N."""
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
    """(1 + w)/(γσ_α²(1 + w/γ)) with its first two coefficients."""
    law = spectra.weight_law(LowRankOrthogonal(gamma * sigma_w**2, gamma=gamma))
    series = [c * gamma * sigma_w**2 for c in law.S_series(2)[1:]]
    return equal(
        [law.S(w), *series],
        [(1 + w) / (1 + w / gamma) / (gamma * sigma_w**2), 1 - 1 / gamma, gamma**-2 - 1 / gamma],
    )


@claim("001", "§3.1 (G)", "the sign of the Stieltjes transform")
def stieltjes_sign() -> Verdict:
    """G = ∫ρ/(t − z) contradicts M = zG − 1 = Σ m_k z^{−k} and the inversion formula below it, both
    of which need ∫ρ/(z − t)."""
    t = sympy.Symbol("t", positive=True)
    return misprint(1 / (z - t), 1 / (t - z), "zG − 1 → −2 instead of 0 at infinity")
