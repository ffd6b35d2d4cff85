# %% [markdown]
# # Universal limits
#
# With orthogonal weights and $q^*(L)$ solving $L(\mu_2/\mu_1^2 - 1) = \sigma_0^2$ the law of
# $JJ^T$ has a limit. Its $S$-transform is derived by a first-order perturbation of $D^2$ around 1.
"""Universality classes (002, eqs. 24–37, S28–S56)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derive import activations, spectra
from derive.spectra.laws import w, z
from derive.spectra.limits import sigma0
from derive.spectra.slopes import q

L, p = sympy.symbols("L p", positive=True)
v = sigma0**2


@claim("002", "25", "moments of a Bernoulli D²")
def bernoulli_moments() -> Verdict:
    """μ_2/μ_1² = 1/μ_1 = σ_w² = 1/p."""
    law = spectra.Atomic({1: p, 0: 1 - p})
    return equal([law.moment(2) / law.mean**2, 1 / law.mean], [1 / p, 1 / p])


@claim("002", "26", "p(q*) at fixed variance")
def bernoulli_probability() -> Verdict:
    """σ_0² = L(1/p − 1) has p = 1/(1 + σ_0²/L); printed is 1 + σ_0²/L > 1. (27) is right."""
    (solution,) = sympy.solve(L * (1 / p - 1) - v, p)
    return misprint(sympy.factor(solution), 1 + v / L, "solved; (27) has the right one")


@claim("002", "28, S31", "S at finite depth in the Bernoulli class")
def bernoulli_at_depth() -> Verdict:
    """(μ_1 S_{D²})^L with p = L/(L + σ_0²)."""
    law = spectra.Atomic({1: L / (L + v), 0: v / (L + v)})
    base = law.mean * law.S(w)
    return equal(sympy.simplify(base), sympy.simplify(1 / (1 + w * v / (L * (1 + w)))))


@claim("002", "S32", "a power that is missing")
def bernoulli_power() -> Verdict:
    """(S32) begins S_JJᵀ = S_{D²}; it is σ_w^{−2L} S_{D²}^L, as its own right-hand side."""
    return misprint("S_JJ = (mu_1 S_D)^L", "S_JJ = S_D", "the right-hand side has the power L")


@claim("002", "29, 36, S33, S46, S51", "the two limiting S-transforms")
def limiting_transforms() -> Verdict:
    """From D² = a with probability ε to first order: −log S = σ_0² w/(1 + (1 − a)w). a = 0 is (29);
    a → 1 is (36), and in between lies a family for leaky kinks that the paper does not have."""
    a, epsilon = sympy.symbols("a epsilon", positive=True)
    exponent = spectra.perturbed(a, epsilon).subs(epsilon, v / (1 - a) ** 2)
    return equal(
        [exponent.subs(a, 0), sympy.limit(sympy.cancel(exponent), a, 1), sympy.cancel(exponent)],
        [-w * v / (1 + w), -v * w, sympy.cancel(-v * w / (1 + (1 - a) * w))],
    )


# %% [markdown]
# ## The Bernoulli class


@claim("002", "30", "G of the Bernoulli class")
def bernoulli_resolvent() -> Verdict:
    """Solves M⁻¹(zG − 1) = z, exactly after W e^W = −σ_0²/z; and to 25 digits at three points."""
    W = sympy.Symbol("W")
    M = v / (v + W) - 1
    inverse = spectra.limit("bernoulli").M_inverse(M)
    residual = sympy.simplify(inverse + v / (W * sympy.exp(W)))
    law = spectra.limit("bernoulli", sympy.Rational(1, 2))
    points = [sympy.Integer(3), 5 + sympy.I, sympy.Rational(1, 2) + sympy.I]
    back = [law.M_inverse(at * law.G(at) - 1) - at for at in points]
    size = [abs(sympy.N(each, 40)) for each in back]
    return both(equal(residual, 0), close([1 + each for each in size], [1, 1, 1], 25))


@claim("002", "S34", "the argument of Lambert's W in the supplement")
def supplement_resolvent() -> Verdict:
    """W(−zσ_0/z) would not depend on z; it is W(−σ_0²/z)."""
    return misprint(-v / z, -z * sigma0 / z, "(30) is right")


@claim("002", "32", "derivative of Lambert's W")
def lambert_derivative() -> Verdict:
    """1/(x + e^W), the inverse function's rule at x = W e^W."""
    W = sympy.Symbol("W")
    x = W * sympy.exp(W)
    return equal(1 / x.diff(W), 1 / (x + sympy.exp(W)))


@claim("002", "33", "G' of the Bernoulli class")
def bernoulli_derivative() -> Verdict:
    """The numerator is σ_0² + σ_0²W + W², where (σ_0² + W)² is printed, which would cancel the pole
    at λ_2 that the paper goes on to find."""
    W = sympy.Symbol("W")
    G = v / (z * (v + W))
    slope = -W / (z * (1 + W))  # of W(−σ²/z), by (32)
    derivative = sympy.factor(G.diff(z) + G.diff(W) * slope)
    printed = -v * (v + W) ** 2 / (z**2 * (1 + W) * (v + W) ** 2)
    return misprint(derivative, sympy.factor(printed), "chain rule with (32)")


@claim("002", "34, 35, S35, S36", "edge and atom of the Bernoulli class")
def bernoulli_edges() -> Verdict:
    """Bulk up to λ_1 = eσ_0², an atom at λ_2 = e^{σ_0²} for σ_0 < 1, whose mass is 1 − σ_0²."""
    law = spectra.limit("bernoulli")
    small = spectra.limit("bernoulli", sympy.Rational(1, 2))
    return both(
        equal([law.edges[1], law.edges[0]], [sympy.E * v, 0]),
        equal(next(iter(law.atoms.items())), (sympy.exp(v), 1 - v)),
        equal(list(small.atoms.values()), [sympy.Rational(3, 4)]),
    )


@claim("002", "34 (λ_0)", "there is no delta function at 0")
def no_atom_at_zero() -> Verdict:
    """The mass at 0 is lim zG = σ_0²/(σ_0² + W(−σ_0²/z)) → 0, because W grows like log(1/z): the
    density diverges, but like 1/(λ log²λ). At depth L the mass is σ_0²/(L + σ_0²)."""
    W = sympy.Symbol("W", positive=True)
    mass = sympy.limit(v / (v + W), W, sympy.oo)
    finite = spectra.Atomic({1: L / (L + v), 0: v / (L + v)}).atoms[sympy.S.Zero]
    holds = equal([mass, sympy.limit(finite, L, sympy.oo)], [0, 0])
    wrong = misprint("an integrable divergence at 0", "a delta function at 0", "lim zG = 0")
    return wrong if holds.holds else holds


@claim("002", "S29, S30", "critical σ_w and q*(L) of hard tanh")
def hard_tanh_scaling() -> Verdict:
    """g = 1/√μ_1 = 1/√erf(1/√(2q*)), printed without the root; and q* = 1/(2 erf⁻¹(p)²), p =
    L/(L + σ_0²), printed as 1/√(2 erf⁻¹(p)): neither the variance nor its root 1/(√2 erf⁻¹(p))."""
    inverse = sympy.erfinv(L / (L + v))
    e = sympy.Symbol("e", positive=True)  # erf⁻¹(p)
    law = spectra.slope_law(activations.hard_tanh)
    holds = equal(law.mean.subs(q, 1 / (2 * e**2)), sympy.erf(e))
    number = spectra.double_scaling(activations.hard_tanh, sympy.Rational(1, 2), 128, 25)
    exact = (1 / (2 * inverse**2)).subs({L: 128, sigma0: sympy.Rational(1, 2)})
    wrong = misprint(1 / (2 * inverse**2), 1 / sympy.sqrt(2 * inverse), "solved for q*")
    return both(wrong if holds.holds else holds, close(number, sympy.N(exact, 30), 20))


# %% [markdown]
# ## The smooth class


@claim("002", "S37, S38", "moments and variance of the scaled erf")
def scaled_erf() -> Verdict:
    """μ_k = 1/√(1 + 2kq*), variance L((1 + 2q*)/√(1 + 4q*) − 1)."""
    law = spectra.slope_law(activations.erf_unit_cubic)
    variance = law.moment(2) / law.mean**2 - 1
    return equal(
        [law.moment(3), variance],
        [1 / sympy.sqrt(1 + 6 * q), (1 + 2 * q) / sympy.sqrt(1 + 4 * q) - 1],
    )


@claim("002", "S39", "q*(L) of the scaled erf")
def erf_scaling() -> Verdict:
    """The bracket is q* itself, a variance; its power 1/4 is wrong for q* and for its root."""
    bracket = v / L + v**2 / (2 * L**2)
    bracket += (sigma0 / (2 * L) + sigma0**3 / (2 * L**2)) * sympy.sqrt(2 * L + v)
    numbers = {L: sympy.Integer(128), sigma0: sympy.Rational(1, 2)}
    solved = spectra.double_scaling(activations.erf_unit_cubic, sympy.Rational(1, 2), 128, 30)
    holds = close(solved, sympy.N(bracket.subs(numbers), 35), 25)
    wrong = misprint(
        sympy.N(bracket.subs(numbers), 12),
        sympy.N(bracket.subs(numbers) ** sympy.Rational(1, 4), 12),
        "L = 128, σ_0 = 1/2; without the power it agrees to 25 digits",
    )
    return wrong if holds.holds else holds


@claim("002", "S40", "critical weights of the scaled erf")
def erf_weights() -> Verdict:
    """σ_w² = 1/μ_1 = √(1 + 2q*); the printed power 1/4 is that of σ_w."""
    mean = spectra.slope_law(activations.erf_unit_cubic).mean
    return misprint(1 / mean, (1 + 2 * q) ** sympy.Rational(1, 4), "σ_w² μ_1 = 1")


@claim("002", "S41, S42", "Taylor coefficients of φ")
def taylor_convention() -> Verdict:
    """(S42) holds for φ = Σ φ_k x^k/k!, not for (S41)'s Σ φ_k x^k: μ_1/φ_1² − 1 to first order in q
    has φ_2²/φ_1² + φ_3/φ_1 with the factorials, 4φ_2²/φ_1² + 6φ_3/φ_1 without."""
    f1, f2, f3 = sympy.symbols("phi_1:4", positive=True)
    slope = f1 + f2 * sympy.sqrt(q) * z + f3 * q * z**2 / 2
    squared = sympy.Poly(sympy.expand(slope**2), z)
    mean = sum(c * sympy.factorial2(k - 1) for (k,), c in squared.terms() if k % 2 == 0)
    first = sympy.expand(mean / f1**2).coeff(q, 1)
    holds = equal(first, f2**2 / f1**2 + f3 / f1)
    plain = 4 * f2**2 / f1**2 + 6 * f3 / f1
    wrong = misprint(first, plain, "derived with factorials; (S42)–(S51) hold with them")
    return wrong if holds.holds else holds


@claim("002", "S44, S49", "first correction to S of D²")
def smooth_expansion() -> Verdict:
    """μ_1 S = 1 − w(μ_2/μ_1² − 1) + …: 4φ_2²/φ_1² q* (SiLU's), or 2φ_3²/φ_1² q*² where φ_2 = 0
    (erf's), φ_k with the factorials."""
    found = []
    for name, power in (("silu", 1), ("erf_unit_cubic", 2)):
        taylor = activations.by_name(name).taylor(3)
        f1, f2, f3 = taylor[1], 2 * taylor[2], 6 * taylor[3]
        small = sympy.Rational(1, 10**9)
        law = spectra.slope_law(activations.by_name(name), small)
        spread = sympy.N(law.moment(2), 50) / sympy.N(law.moment(1), 50) ** 2 - 1
        printed = 4 * f2**2 / f1**2 if power == 1 else 2 * f3**2 / f1**2
        found.append((spread / small**power, printed))
    return close([a for a, _ in found], [b for _, b in found], 7, "at q* = 1e-9")


@claim("002", "S52, S53", "G of the smooth class through the r-Lambert function")
def smooth_resolvent() -> Verdict:
    """W = σ_0² zG solves W e^W − z e^{σ_0²} W = −σ_0² z e^{σ_0²}."""
    W = sympy.Symbol("W")
    inverse = spectra.limit("smooth").M_inverse(W / v - 1)
    r = -sympy.exp(v) * z
    residual = (W * sympy.exp(W) + r * W - r * v).subs(z, inverse)
    return equal(sympy.simplify(residual), 0)


@claim("002", "S54", "the branch points of the r-Lambert function")
def smooth_branch_points() -> Verdict:
    """e^W (1 + W) = −r = z e^{σ_0²}, where z e^{z²} is printed; and r is −z e^{σ_0²}, not the
    −σ_0² z e^{σ_0²} of the line above it. (S55) solves the right equation."""
    y = sympy.Symbol("y")  # W(e^{1 + σ_0²} z), so that z is
    at = y * sympy.exp(y - 1 - v)
    W = y - 1
    holds = equal(sympy.simplify(sympy.exp(W) * (1 + W)), sympy.simplify(at * sympy.exp(v)))
    wrong = misprint(z * sympy.exp(v), z * sympy.exp(z**2), "with (S55)")
    return wrong if holds.holds else holds


@claim("002", "37, S56", "edges of the smooth class")
def smooth_edges() -> Verdict:
    """λ_± = (1 + σ_±²/2) e^{−σ_∓²/2}: the exponent has the other sign's σ². Printed with one sign
    throughout (main text), s_+ would be 0.93 at σ_0 = 1/2 where the paper itself says 1.56."""
    plus, minus = (sigma0 * (sigma0 + sign * sympy.sqrt(v + 4)) for sign in (1, -1))
    right = [
        (1 + minus / 2) * sympy.exp(-plus / 2),
        (1 + plus / 2) * sympy.exp(-minus / 2),
    ]
    edges = spectra.limit("smooth").edges
    half = {sigma0: sympy.Rational(1, 2)}
    values = [sympy.sqrt(each.subs(half)) for each in edges]
    holds = both(
        close([each.subs(half) for each in edges], [each.subs(half) for each in right], 30),
        close([round(float(each), 2) for each in values], [0.57, 1.56], 10),
    )
    printed = sympy.sqrt(1 + plus / 2) * sympy.exp(-plus / 4)
    wrong = misprint(sympy.N(values[1], 8), sympy.N(printed.subs(half), 8), "s_+ at σ_0 = 1/2")
    return wrong if holds.holds else holds


@claim("002", "§5, footnote 1", "classes of activations, also those the paper did not try")
def classes() -> Verdict:
    """By local behaviour at 0. The footnote's suspicion is right: any first nonlinear power makes
    the smooth law, because all higher cumulants of D² vanish faster than its variance."""
    expected = {
        "hard_tanh": "bernoulli", "shifted_relu": "bernoulli", "erf": "smooth", "silu": "smooth",
        "tanh": "smooth", "gelu": "smooth", "sin": "smooth", "arctan": "smooth", "relu": "none",
        "leaky_relu(1/10)": "none", "linear": "isometric", "polynomial(0,1,0,0,0,1)": "smooth",
        "expr: max(z,-1)+0.5*min(z+1,0)": "leaky",
    }  # fmt: skip
    found = {name: spectra.classify(activations.by_name(name)).kind for name in expected}
    wrong = {name: kind for name, kind in found.items() if kind != expected[name]}
    return equal(len(wrong), 0, ", ".join(f"{name}: {kind}" for name, kind in found.items()))
