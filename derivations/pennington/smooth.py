# %% [markdown]
# # The smooth class
#
# Where $\phi$ is smooth at 0, $D^2$ is close to 1 for small $q^*$, and only its variance is left in
# the limit: $S_{JJ^T} = e^{-z\sigma_0^2}$, the law of Biane's free multiplicative Brownian motion.

# %%
"""The smooth class (source 002, eqs. 36, 37, S37–S56)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.pennington import universality
from derive import Orthogonal, activations, spectra, symbols
from derive.spectra.laws import w
from derive.symbols import q
from derive.symbols import sigma_0 as sigma0

L = symbols.L
v = sigma0**2
f1, f2, f3, f4, f5 = sympy.symbols("phi_1:6", real=True)
"""φ_k = φ^{(k)}(0)."""

# %% [markdown]
# ## The scaled erf


# %%
@claim("002", "S37, S38", "moments and variance of the scaled erf")
def scaled_erf() -> Verdict:
    r"""$\phi = \sqrt{\pi/2}\,\mathrm{erf}(x/\sqrt2)$ has $\phi'(0) = 1$ and $\phi^{(3)}(0) = -1$;
    $\mu_k = 1/\sqrt{1 + 2kq^*}$, and the variance of $JJ^T$ is
    $L\big((1 + 2q^*)/\sqrt{1 + 4q^*} - 1\big)$."""
    phi = activations.erf_unit_cubic
    law, jacobian = spectra.slope_law(phi), spectra.jacobian(phi, Orthogonal(), L, q)
    return equal(
        [
            phi.derivative(1).subs(activations.z, 0),
            phi.derivative(3).subs(activations.z, 0),
            *(law.moment(k) for k in (1, 2, 3, 4)),
            jacobian.moment(2) - jacobian.moment(1) ** 2,
        ],
        [
            1,
            -1,
            *(1 / sympy.sqrt(1 + 2 * k * q) for k in (1, 2, 3, 4)),
            L * ((1 + 2 * q) / sympy.sqrt(1 + 4 * q) - 1),
        ],
    )


@claim("002", "S39", "q*(L) of the scaled erf")
def erf_scaling() -> Verdict:
    r"""The $q^*$ that gives $L$ layers the variance $\sigma_0^2$ is the bracket itself. Its power
    $1/4$, as printed, is neither the variance nor its root."""
    bracket = v / L + v**2 / (2 * L**2)
    bracket += (sigma0 / (2 * L) + sigma0**3 / (2 * L**2)) * sympy.sqrt(2 * L + v)
    numbers = {L: sympy.Integer(128), sigma0: sympy.Rational(1, 2)}
    solved = universality.double_scaling(activations.erf_unit_cubic, sympy.Rational(1, 2), 128, 30)
    holds = close(solved, sympy.N(bracket.subs(numbers), 35), 25)
    wrong = misprint(
        sympy.Float(solved, 12),
        sympy.N(bracket.subs(numbers) ** sympy.Rational(1, 4), 12),
        "L = 128, σ_0 = 1/2; without the power they agree to 25 digits",
    )
    return wrong if holds.holds else holds


@claim("002", "S40", "critical weights of the scaled erf")
def erf_weights() -> Verdict:
    r"""$\sigma_w^2 = 1/\mu_1 = \sqrt{1 + 2q^*}$; the printed power $1/4$ is that of $\sigma_w$."""
    mean = spectra.slope_law(activations.erf_unit_cubic).mean
    return misprint(1 / mean, (1 + 2 * q) ** sympy.Rational(1, 4), "σ_w² μ_1 = 1")


# %% [markdown]
# ## Any smooth activation
#
# Let $\phi_k = \phi^{(k)}(0)$, so that $\phi'(h) = \phi_1 + \phi_2h + \phi_3h^2/2 + \dots$, and
# expand in the variance $q$ of $h$: first the moments of $D^2$, then $M_{D^2}$ to order $q^2$, its
# inverse, and $S$.


# %%
def _average(polynomial: sympy.Expr, h: sympy.Symbol) -> sympy.Expr:
    """⟨polynomial⟩ for h ~ N(0, q)."""
    terms = sympy.Poly(sympy.expand(polynomial), h).terms()
    return sympy.expand(
        sum(c * q ** (k // 2) * sympy.factorial2(k - 1) for (k,), c in terms if k % 2 == 0)
    )


def _truncated(expression: sympy.Expr, variable: sympy.Symbol, order: int) -> sympy.Expr:
    """Without powers beyond `order`."""
    expanded = sympy.expand(expression)
    return sum(expanded.coeff(variable, k) * variable**k for k in range(order + 1))


def _moment(k: sympy.Expr, taylor: tuple[sympy.Expr, sympy.Expr]) -> sympy.Expr:
    """μ_k/φ_1^{2k} to first order in q, for φ' = φ_1 + taylor_1 h + taylor_2 h²."""
    h = sympy.Symbol("h", real=True)
    slope = 1 + taylor[0] / f1 * h + taylor[1] / f1 * h**2
    power = sum(
        (slope ** (2 * k)).diff(h, j).subs(h, 0) / sympy.factorial(j) * h**j for j in (0, 1, 2)
    )
    return _average(sympy.expand(power), h)


@claim("002", "S42", "moments of D² at small q*")
def small_moments() -> Verdict:
    r"""$\mu_k = \phi_1^{2k}\big(1 + k\,((2k - 1)\phi_2^2/\phi_1^2 + \phi_3/\phi_1)\,q +
    O(q^2)\big)$ for any $k$, where $q = q_*^2$, with $\phi = \sum_k\phi_kx^k/k!$."""
    k = sympy.Symbol("k", positive=True)
    printed = 1 + k * ((2 * k - 1) * f2**2 / f1**2 + f3 / f1) * q
    return equal(_moment(k, (f2, f3 / 2)), sympy.expand(printed))


@claim("002", "S47", "moments of D² at small q* where φ_2 = 0")
def small_moments_odd() -> Verdict:
    r"""$\mu_k = \phi_1^{2k}\big(1 + k\,\phi_3/\phi_1\,q + O(q^2)\big)$."""
    k = sympy.Symbol("k", positive=True)
    return equal(_moment(k, (sympy.S.Zero, f3 / 2)), 1 + k * f3 / f1 * q)


@claim("002", "S41", "Taylor coefficients of φ")
def taylor_convention() -> Verdict:
    r"""(S42)–(S51) hold for $\phi = \sum\phi_kx^k/k!$. With (S41), $\phi = \sum\phi_kx^k$ as
    printed, $\mu_1$ to first order would have $4\phi_2^2/\phi_1^2 + 6\phi_3/\phi_1$."""
    right = _moment(sympy.S.One, (f2, f3 / 2)).coeff(q, 1)
    plain = _moment(sympy.S.One, (2 * f2, 3 * f3)).coeff(q, 1)
    silu = activations.silu.taylor(3)
    factorials = [silu[k] * sympy.factorial(k) for k in (1, 2, 3)]
    exact = spectra.slope_law(activations.silu, sympy.Rational(1, 10**12)).mean
    measured = (sympy.N(exact, 50) / factorials[0] ** 2 - 1) * 10**12
    agrees = close(measured, right.subs(dict(zip((f1, f2, f3), factorials, strict=True))), 9)
    wrong = misprint(right, plain, f"SiLU: {float(measured):.6f}, as with factorials")
    return wrong if agrees.holds else agrees


@claim("002", "S43, S48", "S at criticality with orthogonal weights")
def critical_transform() -> Verdict:
    r"""$S_{JJ^T} = \big(\mu_1\frac{1 + z}{zM_{D^2}^{-1}}\big)^L$, since $S_{W^TW} = \sigma_w^{-2} =
    \mu_1$: for $D^2$ with the values 1 and 0 and with 1 and 1/4, at $L = 3$."""
    p = sympy.Symbol("p", positive=True)
    derived, printed = [], []
    for law in (
        spectra.Atomic({1: p, 0: 1 - p}),
        spectra.Atomic({1: sympy.Rational(1, 3), sympy.Rational(1, 4): sympy.Rational(2, 3)}),
    ):
        x = sympy.Symbol("x")
        (inverse,) = (
            root
            for root in sympy.solve(sympy.numer(sympy.together(law.M(x) - w)), x)
            if sympy.limit(w * root, w, 0) == law.mean
        )
        derived.append(spectra.jacobian(law, Orthogonal(), 3).S(w))
        printed.append((law.mean * (1 + w) / (w * inverse)) ** 3)
    return equal(derived, printed)


def _expanded_transform(odd: bool) -> tuple[sympy.Expr, sympy.Expr]:
    """μ_1 (1 + w)/(w M_D²⁻¹), and μ_2/μ_1² − 1, to order q²; with φ_2 = 0 if `odd`.

    φ_1 = 1 here. M = ⟨(1 + δ)/(z − 1 − δ)⟩ = 1/(z − 1) + Σ_j z⟨δ^j⟩/(z − 1)^{j+1} with D² = 1 + δ,
    inverted by two Newton steps from (1 + w)/w.
    """
    h = sympy.Symbol("h", real=True)
    second = sympy.S.Zero if odd else f2
    slope = 1 + second * h + f3 * h**2 / 2 + f4 * h**3 / 6 + f5 * h**4 / 24
    delta = _truncated(slope**2 - 1, h, 4)
    powers = [_truncated(_average(_truncated(delta**j, h, 4), h), q, 2) for j in range(1, 5)]
    first, shift = sympy.symbols("z_1 z_2")
    point = (1 + w) / w + q * first + q**2 * shift
    M = 1 / (point - 1) + sum(
        point * each / (point - 1) ** (j + 1) for j, each in enumerate(powers, start=1)
    )
    known: dict[sympy.Symbol, sympy.Expr] = {}
    for order, unknown in ((1, first), (2, shift)):
        equation = M.diff(q, order).subs(q, 0).subs(known)
        (root,) = sympy.solve(sympy.together(equation), unknown)
        known[unknown] = sympy.factor(root)
    mean = 1 + powers[0]
    S = mean * (1 + w) / (w * point.subs(known))
    fourth = 1 + 2 * powers[0] + powers[1]
    spread = fourth / mean**2 - 1

    def to_second(each: sympy.Expr) -> sympy.Expr:
        orders = (sympy.factor(each.diff(q, k).subs(q, 0)) / sympy.factorial(k) for k in range(3))
        return sum(value * q**k for k, value in enumerate(orders))

    return to_second(S), to_second(spread)


@claim("002", "S44–S46", "the limit where φ_2 ≠ 0")
def smooth_limit() -> Verdict:
    r"""$\mu_1(1 + z)/(zM_{D^2}^{-1}) = 1 - 4(\phi_2/\phi_1)^2zq + O(q^2)$ (S44); the variance
    $\sigma_0^2$ needs $L = \sigma_0^2\phi_1^2/(4\phi_2^2q)$ (S45); so $S_{JJ^T} = (1 -
    \sigma_0^2z/L)^L \to e^{-\sigma_0^2z}$ (S46). For any $\phi$ with these derivatives at 0."""
    S, spread = _expanded_transform(odd=False)
    layers = sympy.limit(v / spread * q, q, 0) / q
    to_first = 1 + S.coeff(q, 1) * sympy.solve(layers - L, q)[0]
    return equal(
        [_truncated(S, q, 1), layers, to_first, sympy.limit(to_first**L, L, sympy.oo)],
        [
            1 - 4 * f2**2 * w * q,
            v / (4 * f2**2 * q),
            1 - v * w / L,
            sympy.exp(-v * w),
        ],
        "symbolic in φ_k and z, φ_1 = 1",
    )


@claim("002", "S49–S51", "the limit where φ_2 = 0")
def smooth_limit_odd() -> Verdict:
    r"""$\mu_1(1 + z)/(zM_{D^2}^{-1}) = 1 - 2(\phi_3/\phi_1)^2zq^2 + O(q^3)$ (S49), $L =
    \sigma_0^2\phi_1^2/(2\phi_3^2q^2)$ (S50), and the same limit $e^{-\sigma_0^2z}$ (S51):
    $\phi_4$ and $\phi_5$ drop out."""
    S, spread = _expanded_transform(odd=True)
    layers = sympy.limit(v / spread * q**2, q, 0) / q**2
    step = sympy.Symbol("q_2", positive=True)  # q²
    (squared,) = sympy.solve(layers.subs(q, sympy.sqrt(step)) - L, step)
    to_first = 1 + S.coeff(q, 2) * squared
    return equal(
        [S, layers, to_first, sympy.limit(to_first**L, L, sympy.oo)],
        [
            1 - 2 * f3**2 * w * q**2,
            v / (2 * f3**2 * q**2),
            1 - v * w / L,
            sympy.exp(-v * w),
        ],
        "symbolic in φ_k and z, φ_1 = 1",
    )


@claim("002", "36", "S in the smooth class")
def smooth_transform() -> Verdict:
    r"""$S_{JJ^T} = e^{-z\sigma_0^2}$ for the scaled erf: with $L = \sigma_0^2/(\mu_2/\mu_1^2 - 1)$,
    the coefficients of $z$, $z^2$, $z^3$ in $L\log(\mu_1S_{D^2})$ tend to $-\sigma_0^2$, 0, 0 as
    $q^* \to 0$; and it is the engine's limit law."""
    law = spectra.slope_law(activations.erf_unit_cubic)
    layers = v / (law.moment(2) / law.mean**2 - 1)
    coefficients = [sympy.limit(layers * each, q, 0) for each in law.log_s(3)[1:]]
    return equal([*coefficients, spectra.limit("smooth").S(w)], [-v, 0, 0, sympy.exp(-v * w)])


# %% [markdown]
# ## The law


# %%
@claim("002", "S53", "G of the smooth class through the r-Lambert function")
def smooth_resolvent() -> Verdict:
    r"""With $W_r(x)$ the root of $We^W + rW = x$ (S52), $G(z) = W_r(x)/(z\sigma_0^2)$ for $r =
    -ze^{\sigma_0^2}$, $x = -\sigma_0^2ze^{\sigma_0^2}$: with $zG - 1 = W/\sigma_0^2 - 1$, $M^{-1}$
    of (36) gives the $z$ at which the equation holds; and the engine's $W_r$ is on the right
    branch, $M^{-1}(zG - 1) = z$ to 25 digits at two points."""
    W = sympy.Symbol("W")
    inverse = spectra.limit("smooth").M_inverse(W / v - 1)
    scaled = sympy.exp(v) * inverse
    law = spectra.limit("smooth", sympy.Rational(1, 2))
    points = (sympy.Integer(3), 1 + sympy.I)
    back = [sympy.N(law.M_inverse(sympy.N(at * law.G(at) - 1, 40)), 40) for at in points]
    return both(
        equal(W * sympy.exp(W) - scaled * W, sympy.simplify(-v * scaled)),
        close(
            [part for each in back for part in each.as_real_imag()],
            [part for each in points for part in each.as_real_imag()],
            25,
        ),
    )


y = sympy.Symbol("y", positive=True)
"""W(e^{1 + σ_0²} z), so that z = y e^{y − 1 − σ_0²}."""
BRANCH = y * sympy.exp(y - 1 - v)


@claim("002", "S54", "where the r-Lambert function branches")
def smooth_branch_points() -> Verdict:
    r"""$W$ is singular in $z$ where the derivative of $We^W + rW - x$ by $W$ vanishes, with $r =
    -ze^{\sigma_0^2}$: $e^W(1 + W) = ze^{\sigma_0^2}$. Printed are $ze^{z^2}$, and above it $r =
    -\sigma_0^2ze^{\sigma_0^2}$, which is $x$."""
    W, r = sympy.symbols("W r")
    derivative = (W * sympy.exp(W) + r * W).diff(W)
    (needed,) = sympy.solve(derivative, r)
    at = BRANCH.subs({sigma0: 1, y: 2})
    solved = equal(
        sympy.simplify(-needed.subs(W, y - 1)), sympy.simplify(BRANCH * sympy.exp(v)), "with (S55)"
    )
    wrong = misprint(
        sympy.N(at * sympy.E, 12),
        sympy.N(at * sympy.exp(at**2), 12),
        "σ_0 = 1, z = 2: e^W (1 + W)",
        lost="the exponent z² may have been σ_0²",
    )
    return wrong if solved.holds else solved


@claim("002", "S55", "W at the branch points")
def smooth_branch_values() -> Verdict:
    r"""$W_r = W(e^{1 + \sigma_0^2}z) - 1$ solves $e^{W_r}(1 + W_r) = ze^{\sigma_0^2}$: with $y$ for
    the Lambert function, both sides in $y$."""
    return equal(
        sympy.simplify(sympy.exp(y - 1) * y),
        sympy.simplify(sympy.exp(v) * BRANCH),
    )


def _edges() -> tuple[sympy.Expr, sympy.Expr]:
    """λ_−, λ_+: (S55) in (S52), in y: (y − 1) e^{y−1} − z e^{σ_0²}(y − 1) + σ_0² z e^{σ_0²} = 0."""
    scaled = BRANCH * sympy.exp(v)
    equation = (y - 1) * sympy.exp(y - 1) - scaled * (y - 1) + v * scaled
    polynomial = sympy.expand(sympy.simplify(equation * sympy.exp(1 - y)))
    low, high = sorted(sympy.solve(polynomial, y), key=lambda root: float(root.subs(sigma0, 1)))
    return BRANCH.subs(y, low), BRANCH.subs(y, high)


def _printed_squares() -> tuple[sympy.Expr, sympy.Expr]:
    """σ_−², σ_+² (37)."""
    minus, plus = (sigma0 * (sigma0 + sign * sympy.sqrt(v + 4)) for sign in (-1, 1))
    return minus, plus


HALF = {sigma0: sympy.Rational(1, 2)}


def _right_edges() -> Verdict:
    """The branch points are the edges of the engine's law, and λ_± = (1 + σ_±²/2) e^{−σ_∓²/2}."""
    minus, plus = _printed_squares()
    right = ((1 + minus / 2) * sympy.exp(-plus / 2), (1 + plus / 2) * sympy.exp(-minus / 2))
    found, law = _edges(), spectra.limit("smooth").edges
    return both(
        equal([sympy.simplify(a / b) for a, b in zip(found, right, strict=True)], [1, 1]),
        close([each.subs(HALF) for each in law], [each.subs(HALF) for each in right], 30),
        close([round(float(sympy.sqrt(each.subs(HALF))), 2) for each in found], [0.57, 1.56], 10),
    )


@claim("002", "37", "edges of the smooth class")
def smooth_edges() -> Verdict:
    r"""$s_\pm = e^{-\sigma_\mp^2/4}\sqrt{1 + \sigma_\pm^2/2}$ with $\sigma_\pm^2 =
    \sigma_0(\sigma_0 \pm \sqrt{\sigma_0^2 + 4})$: substituting (S55) into (S52). The text prints
    one sign throughout; its own $s_- \approx 0.57$, $s_+ = 1.56$ at $\sigma_0 = 1/2$ are of the
    right formula."""
    _, plus = _printed_squares()
    printed = sympy.sqrt(1 + plus / 2) * sympy.exp(-plus / 4)
    holds = _right_edges()
    derived = sympy.N(sympy.sqrt(_edges()[1].subs(HALF)), 8)
    wrong = misprint(
        derived,
        sympy.N(printed.subs(HALF), 8),
        "s_+ at σ_0 = 1/2",
        lost="one of the signs ± may have been ∓",
    )
    return wrong if holds.holds else holds


@claim("002", "S56", "edges of the smooth class, in the supplement")
def supplement_edges() -> Verdict:
    r"""$\lambda_\pm = \frac12e^{-\sigma_\mp^2/2}(2 + \sigma_\pm^2)$, where the supplement prints
    $\sigma_\mp^2$ in both places."""
    minus, _ = _printed_squares()
    printed = sympy.exp(-minus / 2) * (2 + minus) / 2
    holds = _right_edges()
    wrong = misprint(
        sympy.N(_edges()[1].subs(HALF), 8),
        sympy.N(printed.subs(HALF), 8),
        "λ_+ at σ_0 = 1/2",
        lost="the second sign ∓ may have been ±",
    )
    return wrong if holds.holds else holds


# %% [markdown]
# ## Which activations


# %%
@claim("002", "§5, footnote 1", "classes of activations, also those the paper did not try")
def classes() -> Verdict:
    r"""By local behaviour at 0. The footnote's suspicion is right: any first nonlinear power makes
    the smooth law, because the higher cumulants of $D^2$ vanish faster than its variance: shown for
    the third and fourth of $z + cz^m$, $m = 2 \dots 6$."""
    expected = {
        "hard_tanh": "bernoulli", "shifted_relu": "bernoulli", "erf_unit_slope": "smooth",
        "silu": "smooth", "tanh": "smooth", "gelu": "smooth", "sin": "smooth", "arctan": "smooth",
        "relu": "none", "leaky_relu(1/10)": "none", "linear": "isometric",
        "polynomial(0,1,0,0,0,1)": "smooth", "expr: max(z,-1)+0.5*min(z+1,0)": "leaky",
    }  # fmt: skip
    found = {name: universality.classify(activations.by_name(name)).kind for name in expected}
    right = sum(found[name] == kind for name, kind in expected.items())
    listed = ", ".join(f"{name}: {kind}" for name, kind in found.items())
    return both(_higher_cumulants(), equal(right, len(expected), listed))


def _higher_cumulants() -> Verdict:
    """κ_3/κ_2 and κ_4/κ_2 of D² tend to 0 with q for φ = z + c z^m, m = 2 … 6, from the moments of
    the Gaussian: with κ_2 ~ σ_0²/L, L layers keep none of them."""
    c, x = sympy.symbols("c x", positive=True)
    root = sympy.Symbol("s", positive=True)  # √q
    limits = []
    for m in range(2, 7):
        slope = sympy.expand((1 + c * m * (root * x) ** (m - 1)) ** 2)

        def mean(power: int, slope: sympy.Expr = slope) -> sympy.Expr:
            terms = sympy.Poly(slope**power, x).terms()
            return sum(
                value * sympy.factorial2(k - 1) for (k,), value in terms if k % 2 == 0
            )  # E x^k = (k − 1)!!

        m1, m2, m3, m4 = (mean(power) for power in (1, 2, 3, 4))
        second = sympy.expand(m2 - m1**2)
        third = sympy.expand(m3 - 3 * m2 * m1 + 2 * m1**3)
        fourth = sympy.expand(m4 - 4 * m3 * m1 - 3 * m2**2 + 12 * m2 * m1**2 - 6 * m1**4)
        limits += [sympy.cancel(each / second).subs(root, 0) for each in (third, fourth)]
    return equal(limits, [0] * len(limits), "κ_3/κ_2, κ_4/κ_2 → 0 for φ = z + c z^m, m = 2 … 6")
