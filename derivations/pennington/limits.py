# %% [markdown]
# # Universal limits
#
# With orthogonal weights and $q^*(L)$ solving $L(\mu_2/\mu_1^2 - 1) = \sigma_0^2$ the law of
# $JJ^T$ has a limit. Its $S$-transform is derived by a first-order perturbation of $D^2$ around 1.
# Where $D^2$ is 1 or, rarely, 0, as for hard tanh and a shifted ReLU, it is Lambert's function that
# solves for $G$.

# %%
"""The Bernoulli class (source 002, eqs. 24–36, S29–S36)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derivations.pennington import universality
from derive import Orthogonal, activations, spectra, symbols
from derive.spectra.laws import w, z
from derive.symbols import q
from derive.symbols import sigma_0 as sigma0

L, p = symbols.L, sympy.Symbol("p", positive=True)
v = sigma0**2


# %% [markdown]
# ## At finite depth


# %%
@claim("002", "24", "activations whose D² is 1 or 0")
def bernoulli_slopes() -> Verdict:
    r"""$M_{D^2} = p(q^*)/(z - 1)$ for hard tanh, with $p = \mathrm{erf}(1/\sqrt{2q^*})$, and for
    $[x + \frac12]_+ - \frac12$, with $p = \frac12 + \frac12\mathrm{erf}(1/\sqrt{8q^*})$; both tend
    to 1 as $q^* \to 0$."""
    laws = [spectra.slope_law(activations.by_name(name)) for name in ("hard_tanh", "shifted_relu")]
    printed = [
        sympy.erf(1 / sympy.sqrt(2 * q)),
        (1 + sympy.erf(1 / sympy.sqrt(8 * q))) / 2,
    ]
    return equal(
        [*(law.M(z) for law in laws), *(sympy.limit(law.mean, q, 0) for law in laws)],
        [*(each / (z - 1) for each in printed), 1, 1],
    )


@claim("002", "25", "moments of a Bernoulli D²")
def bernoulli_moments() -> Verdict:
    r"""$\mu_2/\mu_1^2 = 1/\mu_1 = \sigma_w^2 = 1/p$."""
    law = spectra.Atomic({1: p, 0: 1 - p})
    return equal([law.moment(2) / law.mean**2, 1 / law.mean], [1 / p, 1 / p])


@claim("002", "26", "p(q*) at fixed variance")
def bernoulli_probability() -> Verdict:
    r"""$\sigma_0^2 = L(1/p - 1)$, with the derived variance of $JJ^T$, has $p = 1/(1 +
    \sigma_0^2/L)$; printed is $1 + \sigma_0^2/L$, a probability beyond 1."""
    law = spectra.jacobian(spectra.Atomic({1: p, 0: 1 - p}), Orthogonal(), L)
    (solution,) = sympy.solve(law.moment(2) - law.moment(1) ** 2 - v, p)
    return misprint(sympy.factor(solution), 1 + v / L, "solved; (27) has the right one")


@claim("002", "27, S31", "M of D² at fixed variance")
def bernoulli_at_fixed_variance() -> Verdict:
    r"""$M_{D^2} = \frac{L}{L + \sigma_0^2}\frac1{z - 1}$ and $\mu_1 = L/(L + \sigma_0^2)$, with the
    $p$ that gives $L$ layers of orthogonal weights the variance $\sigma_0^2$."""
    law = spectra.Atomic({1: p, 0: 1 - p})
    jacobian = spectra.jacobian(law, Orthogonal(), L)
    (solution,) = sympy.solve(jacobian.moment(2) - jacobian.moment(1) ** 2 - v, p)
    return equal(
        [law.M(z).subs(p, solution), law.mean.subs(p, solution)],
        [L / (L + v) / (z - 1), L / (L + v)],
    )


@claim("002", "28", "S at finite depth in the Bernoulli class")
def bernoulli_at_depth() -> Verdict:
    r"""$S_{JJ^T} = \big(\mu_1\frac{1 + z}{zM_{D^2}^{-1}}\big)^L = \big(1 + \frac{z\sigma_0^2}{L(1 +
    z)}\big)^{-L}$: the $L$-th root of it, symbolic in $L$, and the whole of it at $L = 5$ from the
    product over layers with $\sigma_w^2 = 1/\mu_1$."""
    law = _at_depth()
    root = law.mean * law.S(w)
    whole = spectra.jacobian(law, Orthogonal(), 5).S(w).subs(L, 5)
    printed = 1 / (1 + w * v / (L * (1 + w)))
    return equal([root, whole], [printed, printed.subs(L, 5) ** 5])


@claim("002", "S32", "a power that is missing")
def bernoulli_power() -> Verdict:
    r"""(S32) begins $S_{JJ^T} = S_{D^2}$, and goes on with the right $(\mu_1 S_{D^2})^L$. At $L =
    4$, $\sigma_0^2 = 1$ and $z = 1$."""
    numbers = {L: 4, sigma0: 1}
    law = _at_depth()
    derived = spectra.jacobian(law, Orthogonal(), 4).S(sympy.Integer(1)).subs(numbers)
    right = ((law.mean * law.S(sympy.Integer(1))).subs(numbers)) ** 4
    holds = equal(derived, right)
    wrong = misprint(derived, law.S(sympy.Integer(1)).subs(numbers), "S_JJ(1) and S_D²(1)")
    return wrong if holds.holds else holds


def _at_depth() -> spectra.Atomic:
    """D² in the Bernoulli class at depth L and variance σ_0²."""
    return spectra.Atomic({1: L / (L + v), 0: v / (L + v)})


# %% [markdown]
# ## Infinitely many layers


# %%
@claim("002", "29, S33", "S in the Bernoulli class")
def bernoulli_limit() -> Verdict:
    r"""$S_{JJ^T} = e^{-z\sigma_0^2/(1 + z)}$, the limit of (28)."""
    law = _at_depth()
    logarithm = sympy.limit(L * sympy.log(sympy.factor(law.mean * law.S(w))), L, sympy.oo)
    printed = sympy.exp(-w * v / (1 + w))
    return equal(
        [sympy.exp(sympy.factor(logarithm)), spectra.limit("bernoulli").S(w)], [printed] * 2
    )


@claim("002", "beyond 29 and 36", "a family between the two limits")
def limiting_transforms() -> Verdict:
    r"""$D^2 = a$ with a small probability and 1 otherwise has $-\log S_{JJ^T} = \sigma_0^2w/(1 + (1
    - a)w)$: $a = 0$ is (29), $a \to 1$ is (36), and in between are limits of leaky kinks, which the
    paper does not have."""
    a, epsilon = sympy.symbols("a epsilon", positive=True)
    exponent = universality.perturbed(a, epsilon).subs(epsilon, v / (1 - a) ** 2)
    return equal(
        [exponent.subs(a, 0), sympy.limit(sympy.cancel(exponent), a, 1), sympy.cancel(exponent)],
        [-w * v / (1 + w), -v * w, sympy.cancel(-v * w / (1 + (1 - a) * w))],
    )


@claim("002", "30", "G of the Bernoulli class")
def bernoulli_resolvent() -> Verdict:
    r"""$G(z) = \frac1z\frac{\sigma_0^2}{\sigma_0^2 + W(-\sigma_0^2/z)}$ solves $M^{-1}(zG - 1) =
    z$: exactly, with $We^W = -\sigma_0^2/z$, and to 25 digits at three points."""
    W = sympy.Symbol("W")
    M = v / (v + W) - 1
    inverse = spectra.limit("bernoulli").M_inverse(M)
    argument = -v / (W * sympy.exp(W))  # z, by W's equation
    law = spectra.limit("bernoulli", sympy.Rational(1, 2))
    points = [sympy.Integer(3), 5 + sympy.I, sympy.Rational(1, 2) + sympy.I]
    back = [law.M_inverse(at * law.G(at) - 1) - at for at in points]
    size = [abs(sympy.N(each, 40)) for each in back]
    return both(
        equal(sympy.simplify(inverse), argument),
        close([1 + each for each in size], [1, 1, 1], 25),
    )


@claim("002", "S34", "the argument of Lambert's W in the supplement")
def supplement_resolvent() -> Verdict:
    r"""(S34) has $W(-z\sigma_0/z)$, which does not depend on $z$, for $W(-\sigma_0^2/z)$: its $G$
    would be a multiple of $1/z$. At $z = 4$, $\sigma_0 = 1/2$."""
    deviation, at = sympy.Rational(1, 2), sympy.Integer(4)
    derived = spectra.limit("bernoulli", deviation).G(at)
    printed = 1 / (at * (1 + sympy.LambertW(-deviation) / deviation**2))
    return misprint(
        sympy.N(derived, 12),
        sympy.N(printed, 12),
        "G(4), whose imaginary part is the witness; (30) is right",
        witness=[sympy.im(sympy.N(each, 30)) for each in (printed, derived)],
        lost="an exponent 2 of σ_0, with a z that strayed from the denominator",
    )


@claim("002", "32", "derivative of Lambert's W")
def lambert_derivative() -> Verdict:
    """$W'(x) = 1/(x + e^W)$, the inverse function's rule at $x = We^W$ (31)."""
    W = sympy.Symbol("W")
    x = W * sympy.exp(W)
    return equal(1 / x.diff(W), 1 / (x + sympy.exp(W)))


W = sympy.Symbol("W")
"""W(−σ_0²/z), so that z = −σ_0² e^{−W}/W."""
AT = -v * sympy.exp(-W) / W


def _slope() -> sympy.Expr:
    """G'(z) in z and W: by (30), and (32) for the derivative of W(−σ_0²/z)."""
    G = v / (z * (v + W))
    return sympy.factor(G.diff(z) - W / (z * (1 + W)) * G.diff(W))


@claim("002", "33", "G' of the Bernoulli class")
def bernoulli_derivative() -> Verdict:
    r"""The numerator is $\sigma_0^2(\sigma_0^2 + \sigma_0^2W + W^2)$, where $\sigma_0^2(\sigma_0^2
    + W)^2$ is printed, which would cancel the pole at $\lambda_2$ that the paper goes on to
    find."""
    printed = -v * (v + W) ** 2 / (z**2 * (1 + W) * (v + W) ** 2)
    return misprint(_slope(), sympy.factor(printed), "chain rule with (32)")


@claim("002", "34", "the pole at λ_2")
def bernoulli_pole() -> Verdict:
    r"""At $\lambda_2 = e^{\sigma_0^2}$, $W(-\sigma_0^2/\lambda_2) = -\sigma_0^2$ for $\sigma_0 <
    1$, and $G' \to -(1 - \sigma_0^2)/(z - \lambda_2)^2$: a double pole, of an atom with the mass $1
    - \sigma_0^2$, at $s = e^{1/8} \approx 1.13$ for $\sigma_0 = 1/2$. For $\sigma_0 > 1$ another
    branch of $W$ has the value $-\sigma_0^2$, and the law has no atom."""
    pole = (_slope() * (z - sympy.exp(v)) ** 2).subs(z, AT)
    law, half = spectra.limit("bernoulli"), spectra.limit("bernoulli", sympy.Rational(1, 2))
    ((position, mass),) = law.atoms.items()
    ((small, _),) = half.atoms.items()
    principal = [
        sympy.N(sympy.LambertW(-x * sympy.exp(-x)), 25)
        for x in (sympy.Rational(1, 4), sympy.Rational(9, 4))
    ]
    return both(
        equal(
            [AT.subs(W, -v), sympy.limit(pole, W, -v), position, mass],
            [sympy.exp(v), -(1 - v), sympy.exp(v), 1 - v],
        ),
        close(principal[0], sympy.Rational(-1, 4), 20),
        observed(bool(principal[1] > -1), "another branch above σ_0 = 1"),
        equal(len(spectra.limit("bernoulli", sympy.Rational(3, 2)).atoms), 0),
        close(round(float(sympy.sqrt(small)), 2), 1.13, 10),
    )


@claim("002", "35, S36", "the right edge of the Bernoulli class")
def bernoulli_edge() -> Verdict:
    r"""$\lambda_1 = \sigma_0^2e$, where $1 + W = 0$ in the denominator of (33); $s = \sqrt e/2
    \approx 0.82$ for $\sigma_0 = 1/2$. The bulk of the limit law ends there."""
    law, half = spectra.limit("bernoulli"), spectra.limit("bernoulli", sympy.Rational(1, 2))
    return both(
        equal([AT.subs(W, -1), *law.edges], [sympy.E * v, 0, sympy.E * v]),
        close(round(float(sympy.sqrt(half.edges[1])), 2), 0.82, 10),
    )


@claim("002", "35 (pole)", "a branch point, not a pole")
def bernoulli_branch_point() -> Verdict:
    r"""At $\lambda_1$, (33) has a factor $1/(1 + W)$, but $z - \lambda_1$ is of second order in $1
    + W$: $G' \sim (z - \lambda_1)^{-1/2}$, no simple pole, and the density falls off like a square
    root."""
    distance = sympy.series(AT - sympy.E * v, W, -1, 4).removeO()
    order = min(k for k in range(4) if sympy.simplify(distance.diff(W, k).subs(W, -1)) != 0)
    growth = sympy.limit(_slope().subs(z, AT) * (1 + W), W, -1)
    exponent = -sympy.Rational(1, order)
    if growth.is_zero or not growth.subs(sigma0, sympy.Rational(1, 2)).is_finite:
        return equal(growth, 1, "G' (1 + W) at λ_1")
    return misprint(exponent, sympy.Integer(-1), "the exponent of z − λ_1 in G'")


@claim("002", "34 (λ_0)", "there is no delta function at 0")
def no_atom_at_zero() -> Verdict:
    r"""A delta function at 0 would be a double pole of $G'$ with its mass. But as $z \to 0$, $|W|$
    grows like $\log(1/z)$, and $zG$ and $z^2G'$ go to 0: the density diverges only like
    $1/(\lambda\log^2\lambda)$. At depth $L$ there is the mass $\sigma_0^2/(L + \sigma_0^2)$."""
    mass = sympy.limit(v / (v + W), W, sympy.oo)
    slope = sympy.limit(_slope() * z**2, W, sympy.oo)
    law, tiny = spectra.limit("bernoulli", sympy.Rational(1, 2)), sympy.Integer(10) ** -60
    at_tiny = abs(sympy.N(tiny * law.G(tiny), 15))
    finite = _at_depth().atoms[sympy.S.Zero]
    holds = both(
        equal([mass, slope, sympy.limit(finite, L, sympy.oo)], [0, 0, 0]),
        observed(bool(at_tiny < 0.01), "zG at 10⁻⁶⁰"),
    )
    wrong = misprint(
        f"lim zG = {mass}: no mass at λ_0",
        "a delta function at λ_0",
        f"|zG| = {float(at_tiny):.5f} at z = 10⁻⁶⁰, σ_0 = 1/2; the witness is "
        "the mass at 0 of one layer, a peak such as is printed, and that of the limit",
        witness=(finite.subs({L: 1, v: sympy.Rational(1, 4)}), mass),
    )
    return wrong if holds.holds else holds


# %% [markdown]
# ## Hard tanh


# %%
@claim("002", "S29", "critical weights of hard tanh")
def hard_tanh_weights() -> Verdict:
    r"""$\mu_2/\mu_1^2 = 1/\mathrm{erf}(1/\sqrt{2q^*})$, as printed; but $g = 1/\sqrt{\mu_1}$ is its
    root, and is printed without."""
    law = spectra.slope_law(activations.hard_tanh)
    probability = sympy.erf(1 / sympy.sqrt(2 * q))
    holds = equal(law.moment(2) / law.mean**2, 1 / probability)
    wrong = misprint(1 / sympy.sqrt(law.mean), 1 / probability, "χ = g² μ_1 = 1")
    return wrong if holds.holds else holds


@claim("002", "S30", "q*(L) of hard tanh")
def hard_tanh_scaling() -> Verdict:
    r"""$\sigma_{JJ^T}^2 = L\,(1/\mathrm{erf}(1/\sqrt{2q^*}) - 1) = \sigma_0^2$ has $q^* =
    1/(2e^2)$ with $e = \mathrm{erf}^{-1}(L/(L + \sigma_0^2))$. Printed is $1/\sqrt{2e}$: neither
    the variance nor its root $1/(\sqrt2e)$. The number is the engine's at $L = 128$, $\sigma_0 =
    1/2$, to 20 digits of the right one."""
    variance = spectra.jacobian(activations.hard_tanh, Orthogonal(), L, q).moment(2) - 1
    inverse = sympy.erfinv(L / (L + v))
    numbers = {L: sympy.Integer(128), sigma0: sympy.Rational(1, 2)}
    solved = universality.double_scaling(activations.hard_tanh, sympy.Rational(1, 2), 128, 25)
    right, printed = 1 / (2 * inverse**2), 1 / sympy.sqrt(2 * inverse)
    holds = both(
        equal(variance, L * (1 / sympy.erf(1 / sympy.sqrt(2 * q)) - 1)),
        close(solved, sympy.N(right.subs(numbers), 30), 20),
    )
    wrong = misprint(
        sympy.Float(solved, 12),
        sympy.N(printed.subs(numbers), 12),
        "L = 128, σ_0 = 1/2",
        lost="the root may have ended behind the 2, and q* have stood for its root",
    )
    return wrong if holds.holds else holds
