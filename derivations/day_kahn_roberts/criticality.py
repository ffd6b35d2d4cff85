# %% [markdown]
# # The kernel and its critical initialization
#
# At infinite width one number follows each pair of inputs down the layers, the kernel
# $K_{\alpha_1\alpha_2}$. Its recursion is the same for Gaussian and orthogonal weights, so that
# criticality is too.

# %%
"""Kernel recursion, susceptibilities and critical initialization (source 000, eqs. 5.3–5.8)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derive import activations, symbols
from derive.activations.functions import Activation
from derive.depth.criticality import criticality
from derive.depth.fixed_points import fixed_points
from derive.gaussian.brackets import Average, Component
from derive.gaussian.oracle import gaussian_average
from derive.gaussian.small_kernel import small_kernel_average
from derive.recursions import recursion
from derive.symbols import C_W, C_b, K
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

z = activations.z
CUBIC = activations.polynomial([sympy.Rational(1, 3), 1, -2, sympy.Rational(3, 7)])
SMOOTH = (activations.tanh, activations.sin, activations.arctan, activations.erf_unit_slope)


@claim("000", "5.3", "kernel recursion")
def kernel_recursion() -> Verdict:
    """One step of the two-point function at leading order, for either ensemble of weights."""
    printed = C_b + C_W * Average(((1, 0), (2, 0)))
    return equal(
        [recursion("K", weights).expr for weights in (Gaussian(), Orthogonal())], [printed] * 2
    )


# %% [markdown]
# ## Susceptibilities
#
# $\chi_\parallel$ says how the size of one signal answers a small change. It is the derivative
# $dK^{(\ell+1)}/dK^{(\ell)}$; the paper has a factor $z^2 - K$ in place of the derivative.


# %%
@claim("000", "5.4", "parallel susceptibility")
def parallel_susceptibility() -> Verdict:
    r"""$\chi_\parallel = dK'/dK$ equals $\frac{C_W}{2K^2}\langle\sigma\sigma(z^2-K)\rangle$ for
    every σ, since the Gaussian density obeys $\partial\rho/\partial K = \frac{z^2-K}{2K^2}\rho =
    \rho''/2$; the engine's value, to 25 digits, for four activations."""
    density = sympy.exp(-(z**2) / (2 * K)) / sympy.sqrt(2 * sympy.pi * K)
    printed = (z**2 - K) / (2 * K**2) * density
    at = sympy.Rational(7, 10)
    return both(
        equal([density.diff(K), density.diff(z, 2) / 2], [printed, printed], "for every σ"),
        close(
            [criticality(activation).chi_parallel(at, digits=30) for activation in SMOOTH],
            [
                gaussian_average(activation.expr**2 * (z**2 - at) / (2 * at**2), at, 30).value
                for activation in SMOOTH
            ],
            25,
            "tanh, sin, arctan, erf at K = 0.7 to 25 digits",
        ),
    )


@claim("000", "5.5", "perpendicular susceptibility")
def perpendicular_susceptibility() -> Verdict:
    r"""$\chi_\perp = C_W\langle\sigma'\sigma'\rangle$ is by what
    $\langle(z_1-z_2)^2\rangle = 2(K - K_{12})$ of two nearby inputs of equal size grows per layer;
    derived from (5.3) with two inputs."""
    K_12 = sympy.Symbol("K_12", positive=True)
    covariance = {(1, 1): K, (1, 2): K_12, (2, 2): K}
    values = {Component("K", pair): value for pair, value in covariance.items()}
    derived, printed = [], []
    for activation in (CUBIC, activations.relu, activations.sin, activations.erf_unit_slope):
        step = recursion("K").specialise(activation).expr.xreplace(values)
        derived.append(sympy.simplify(step.diff(K_12)).subs(K_12, K))
        printed.append(C_W * activation.average((1, 1), K))
    return equal(derived, printed, "dK'₁₂/dK₁₂ at K₁₂ → K₁₁ = K₂₂")


# %% [markdown]
# ## Fixed points


# %%
@claim("000", "5.6", "fixed point of the kernel")
def fixed_point() -> Verdict:
    r"""Every fixed point that was solved for satisfies
    $K^* = C_b + C_W\langle\sigma\sigma\rangle_{K^*}$, by another quadrature."""
    found = [
        (activation, point.K, point.C_b, point.C_W)
        for activation in (activations.silu, activations.gelu)
        for point in criticality(activation).points
        if point.K
    ]
    bias, weight = sympy.Rational(1, 10), sympy.Rational(3, 2)
    found += [
        (activations.sin, K_star, bias, weight)
        for K_star, _, _ in fixed_points(activations.sin, bias, weight)
    ]
    right = [
        C_b + C_W * gaussian_average(activation.expr**2, K_star, 25).value
        for activation, K_star, C_b, C_W in found
    ]
    return close([K_star for _, K_star, _, _ in found], right, 15, f"{len(found)} fixed points")


@claim("000", "5.7", "critical initialization, scale-invariant activations")
def scale_invariant() -> Verdict:
    r"""$C_b = 0$ and $C_W = 1/A$ with $A = \langle\sigma\sigma\rangle_K/K$; then $K^*$ is the first
    layer's kernel $|x|^2/(n_0 A)$."""
    K_0 = symbols.K0  # |x|²/n_0
    first = recursion("K", first_layer=True).single_input().expr
    activity = {
        activation: sympy.simplify(activation.average((0, 0), K) / K)
        for activation in (
            activations.linear,
            activations.relu,
            activations.leaky_relu("1/10"),
        )
    }
    derived, printed = [], []
    for activation, A in activity.items():
        bias, weight = criticality(activation).critical
        derived += [weight, bias, first.subs({C_b: bias, C_W: weight})]
        printed += [1 / A, 0, K_0 / A]
    return both(
        equal(derived, printed),
        equal(
            [activity[activations.linear], activity[activations.relu]], [1, sympy.Rational(1, 2)]
        ),
    )


@claim("000", "5.8", "critical initialization, K* = 0 class")
def vanishing_kernel() -> Verdict:
    r"""$C_b = 0$, $C_W = 1/\sigma'(0)^2$, $K^* = 0$ with $K \propto 1/\ell$, solved for with five
    activations."""
    derived, printed = [], []
    for activation in (*SMOOTH, activations.from_expr("3*sin(2*z)")):
        found = criticality(activation)
        bias, weight = found.critical
        derived += [weight, bias, found.K_star, found.points[0].exponent]
        printed += [1 / activation.derivative().subs(z, 0) ** 2, 0, 0, 1]
    return equal(derived, printed, "tanh, sin, arctan, erf, 3 sin 2z")


@claim("000", "5.8 (domain)", "which smooth activations have K* = 0")
def vanishing_kernel_domain() -> Verdict:
    r"""The paper names all smooth σ with $\sigma(0) = 0$, "and the kernel decays to zero like
    $1/\ell$".

    At $C_W = 1/\sigma'(0)^2$ a general Taylor series gives $K' = K + a_1K^2 + O(K^3)$ with $a_1 =
    \sigma^{(3)}/\sigma' + \frac34(\sigma''/\sigma')^2$ at 0; the kernel decays only where
    $a_1 < 0$. The proof is the general series, and SiLU as the counterexample.
    """
    slopes = sympy.symbols("sigma_1:4", real=True)
    general = sum(c * z**k / sympy.factorial(k) for k, c in enumerate(slopes, 1))
    rate = small_kernel_average(Activation("general", general), (0, 0), 2).coeff(K, 2)
    rule = equal(
        rate / slopes[0] ** 2,
        slopes[2] / slopes[0] + sympy.Rational(3, 4) * (slopes[1] / slopes[0]) ** 2,
    )
    taylor = [activations.silu.taylor(3)[k] * sympy.factorial(k) for k in (1, 2, 3)]
    growth = (rate / slopes[0] ** 2).subs(dict(zip(slopes, taylor, strict=True)))
    found = criticality(activations.silu).universality_class
    if not rule.holds or growth <= 0 or found == "K* = 0":
        return replace(rule, kind="fails", detail=f"SiLU: K' = K + {growth} K², class {found}")
    return misprint(
        f"a₁ = {growth} > 0 for SiLU",
        "σ(0) = 0 and smooth suffice",
        f"K' = K + (σ'''/σ' + ¾(σ''/σ')²)K² + …: SiLU is smooth with σ(0) = 0, but "
        "its kernel grows, "
        f"K' = K + ({growth})K², and criticality finds it {found}; the "
        "witness is the sign of a₁: a kernel that decays like −1/(a₁ℓ) needs the first, SiLU has "
        "the second",
        witness=(-1, sympy.sign(growth)),
    )


# %% [markdown]
# ## All correlators at once (footnote 9)


# %%
@claim("000", "§5.1 (footnote 9)", "χ_∥ = χ_⊥ = 1 suffices for higher correlators")
def higher_correlators() -> Verdict:
    r"""The step of a small $V$ of nearby inputs, for every σ: at coincident kernels the
    derived recursion is linear in $V_{(ab)(cd)}$, a, b, c, d two inputs, with eigenvalues
    $\chi_\parallel^2$, $\chi_\parallel\chi_\perp$ and $\chi_\perp^2$ alone; and in $U_6$ of one
    input, with $\chi_\parallel^3$. Where both are 1 all are, and sources that do not grow
    exponentially add no exponential growth. The footnote says so for Gaussian weights; it holds
    for orthogonal ones alike."""
    own, slope, curved = symbols.tensor("U6"), sympy.Symbol("s"), sympy.Symbol("h")
    parallel, across = C_W * (slope + curved), C_W * slope
    growth = sympy.diag(parallel, parallel, across)  # of t_11, t_22 and t_12 of one pair
    expected = sympy.kronecker_product(growth, growth).charpoly().as_expr()
    kernel = recursion("K").single_input().expr
    polynomials, six, powers = [], [], []
    for weights in (Gaussian(), Orthogonal()):
        polynomials.append(coincident(weights, slope, curved).charpoly().as_expr())
        six.append(recursion("U6", weights).single_input().expr.diff(own))
        powers.append(_derivative(kernel) ** 3)
    return both(
        equal([sympy.expand(each - expected) for each in polynomials], [0, 0], "V, two inputs"),
        equal(six, powers, "U6's own coefficient, (dK'/dK)³"),
    )


def _derivative(kernel: sympy.Expr) -> sympy.Expr:
    """dK'/dK, as d⟨f⟩/dK = ⟨f''⟩/2."""
    half = sympy.Rational(1, 2)
    averages = {
        each: half * Average(each.bracket.factors, (1, 1)) for each in kernel.atoms(Average)
    }
    return kernel.subs(C_b, 0).xreplace(averages)


def coincident(weights: WeightEnsemble, slope: sympy.Symbol, curved: sympy.Symbol) -> sympy.Matrix:
    """Of V_{(ab)(cd)}, (ab) and (cd) each 11, 22 or 12 of two inputs with equal kernels, where
    `slope` is ⟨σ'σ'⟩ and `curved` ⟨σσ''⟩."""
    step = recursion("V", weights).expr
    vertices = [each for each in step.atoms(Component) if str(each.args[0]) == "V"]
    pairs = list(product(((1, 1), (2, 2), (1, 2)), repeat=2))
    matrix = sympy.zeros(len(pairs))
    averages = {each: _at_one_input(each, slope, curved) for each in step.atoms(Average)}
    alone = dict.fromkeys(vertices, sympy.S.Zero) | averages
    source = step.xreplace(alone)
    for vertex in vertices:
        share = sympy.expand(step.xreplace(alone | {vertex: sympy.S.One}) - source)
        for row, (left, right) in enumerate(pairs):
            inputs = dict(enumerate((*left, *right), 1))
            a, b, c, d = (inputs[int(label)] for label in vertex.args[1].args)
            column = pairs.index(((min(a, b), max(a, b)), (min(c, d), max(c, d))))
            matrix[row, column] += share
    return matrix


def _at_one_input(average: Average, slope: sympy.Symbol, curved: sympy.Symbol) -> sympy.Expr:
    """⟨∂_a∂_b(σ_1σ_2)⟩ where the two inputs are one; a bracket of the source is any symbol."""
    orders = dict(average.bracket.factors)
    for sample in average.bracket.outer:
        orders[sample] += 1
    known: dict[tuple[int, ...], sympy.Symbol] = {(1, 1): slope, (0, 2): curved}
    found = tuple(sorted(orders.values()))
    return known.get(found, sympy.Symbol("m_" + "_".join(map(str, found))))
