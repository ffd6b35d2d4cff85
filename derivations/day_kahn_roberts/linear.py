# %% [markdown]
# # Linear networks, exactly
#
# With linear activations everything is known: all $2m$-point functions by summing pairings, and
# from them the law of $z$. Orthogonal weights leave it uniform on a sphere; Gaussian weights
# make it a Meijer $G$ whose order is the depth.

# %%
"""The law of linear networks' preactivations (source 000, §4, eqs. 4.1–4.9 and 4.18–4.24)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.day_kahn_roberts.weingarten import paired
from derivations.moments import deep_linear
from derivations.moments import linear_laws as laws
from derivations.moments.isotropic import ANY, direction_moment, normal_moment, same
from derive import linear
from derive.gaussian.brackets import Component
from derive.symbols import C_W, K0, n, rho, u
from derive.weights import Gaussian, Orthogonal

DEPTHS = (1, 2, 5)
POINTS = 5


@claim("000", "4.1", "two-point function of the first layer")
def first_layer() -> Verdict:
    r"""$E[zz] = \delta\, C_W |x|^2/n$; for any two inputs $C_W\, x_a\cdot x_b/n$."""
    found = [
        deep_linear.coefficient((1, 2), [n], weights)
        for weights in (Orthogonal(C_W), Gaussian(C_W))
    ]
    return equal(found, [C_W * Component("K0", (1, 2))] * 2)


@claim("000", "4.4", "kernel of every layer, (4.3)–(4.5)")
def kernel() -> Verdict:
    r"""$K^{(\ell)} = C_W^\ell K^{(0)}$ at any widths, and for square orthogonal layers."""
    widths = sympy.symbols("n_1:6", positive=True, integer=True)
    found = [deep_linear.coefficient((1, 1), widths[:depth], Gaussian(C_W)) for depth in DEPTHS]
    square = [deep_linear.coefficient((1, 1), [n] * depth, Orthogonal(C_W)) for depth in DEPTHS]
    printed = [C_W**depth * Component("K0", (1, 1)) for depth in DEPTHS]
    return equal([*found, *square], printed * 2, "layers 1, 2, 5")


@claim("000", "4.9", "four-point function of every layer, (4.7)–(4.9)")
def four_points() -> Verdict:
    r"""$G_4^{(\ell)} = C_W^{2\ell} \frac{n}{n+2} K_0^2$: nothing but $C_W$ changes from layer to
    layer."""
    found = [
        deep_linear.coefficient((1, 1, 1, 1), [n] * depth, Orthogonal(C_W)) for depth in DEPTHS
    ]
    K = Component("K0", (1, 1))
    printed = [C_W ** (2 * depth) * n / (n + 2) * K**2 for depth in DEPTHS]
    return equal(found, printed, "layers 1, 2, 5")


# %% [markdown]
# ## The characteristic function (4.18)–(4.21)
#
# $\mathbb E[(\mathbf u\cdot\mathbf z)^{2m}] = (2m-1)!!\,G_{2m}u^{2m}$, because every pairing of
# $2m$ equal vectors gives $u^{2m}$.


# %%
@claim("000", "4.18", "the characteristic function by its moments")
def moment_series() -> Verdict:
    r"""The printed sums over neurons at $n = 3$, with the correlators of (4.14), against the
    Fourier transform of the uniform law on the sphere, through $|\mathbf u|^6$."""
    size, depth, points = 3, 2, 3
    vector, small = sympy.symbols("u_1:4", real=True), sympy.Symbol("epsilon", positive=True)
    radius = sympy.sqrt(size * C_W**depth * K0)
    z = sympy.Symbol("z", real=True)
    density = laws.sphere_component(size, radius)
    wave = sympy.integrate(sympy.cos(u * z) * density, (z, -radius, radius))
    series = sympy.series(wave.subs(u, small * u), small, 0, 2 * points + 1).removeO()
    square = sum(value**2 for value in vector)
    derived, transformed = [], []
    for m in range(points + 1):
        G = deep_linear.coefficient((1, 1) * m, [size] * depth, Orthogonal(C_W)) if m else 1
        neurons = product(range(size), repeat=2 * m)
        contracted = sum(paired(i) * prod(vector[each] for each in i) for i in neurons)
        term = sympy.Integer(-1) ** m * contracted * G / sympy.factorial(2 * m)
        derived.append(sympy.factor(term.subs(Component("K0", (1, 1)), K0)))
        transformed.append(series.coeff(small, 2 * m).subs(u, sympy.sqrt(square)))
    return equal(derived[::-1], transformed[::-1], "layer 2 at n = 3, orders 6, 4, 2 and 0")


def series_term(m: int, depth: int) -> sympy.Expr:
    """(−1)^m E[(u·z)^{2m}]/(2m)! from the pairings."""
    K = C_W**depth * K0
    ratio = linear.correlator(m, [n] * depth, Orthogonal()) if m else 1
    pairings = sympy.factorial2(2 * m - 1)
    return (-1) ** m * pairings * ratio * K**m * u ** (2 * m) / sympy.factorial(2 * m)


@claim("000", "4.19", "power series of the characteristic function")
def characteristic_series() -> Verdict:
    r"""Term by term, at layers 1, 2 and 5, and any term by (4.16) and (4.17): the factors
    rearranged are $[(n/2)(n/2+1)\cdots]^{-1}$."""
    found = [series_term(m, depth) for depth in DEPTHS for m in range(POINTS + 1)]
    printed = [
        (-n * C_W**depth * K0 * u**2 / 4) ** m
        / (sympy.Mul(*(n / 2 + s for s in range(m))) * sympy.factorial(m))
        for depth in DEPTHS
        for m in range(POINTS + 1)
    ]
    # without (−1)^m, with K of the layer: (2m − 1)!! times the row sum is a direction's moment
    K = sympy.Symbol("K", positive=True)
    size = sympy.Symbol("u", positive=True)
    term = direction_moment(n, ANY) * (n * K * size**2) ** ANY / sympy.gamma(2 * ANY + 1)
    rearranged = (n * K * size**2 / 4) ** ANY / (sympy.rf(n / 2, ANY) * sympy.gamma(ANY + 1))
    return both(
        equal(same(term, rearranged), 1, "any term"),
        equal(found, printed, f"terms 0 to {POINTS} of (4.18) at three depths"),
    )


@claim("000", "4.20", "characteristic function as ₀F₁")
def confluent() -> Verdict:
    r"""${}_0F_1(n/2;-n C_W^\ell K^{(0)}u^2/4)$: its terms, at layers 1, 2 and 5, are those that the
    pairings give, and the law of the engine has it as its characteristic function."""
    found = [laws.law([n] * depth, Orthogonal(C_W)).characteristic_function() for depth in DEPTHS]
    arguments = [each.args[2] for each in found]
    shapes = [(tuple(each.ap), tuple(each.bq)) == ((), (n / 2,)) for each in found]
    printed = [-(u**2) * n * C_W**depth * K0 / 4 for depth in DEPTHS]
    orders = range(POINTS + 1)
    terms = [x**m / (sympy.rf(n / 2, m) * sympy.factorial(m)) for x in printed for m in orders]
    paired = [series_term(m, depth) for depth in DEPTHS for m in orders]
    return both(
        equal(paired, terms, f"terms 0 to {POINTS}, from the pairings"),
        equal([*arguments, *map(int, shapes)], [*printed, 1, 1, 1], "the law's ₀F₁(n/2; ·)"),
    )


@claim("000", "4.21", "characteristic function as a Bessel function")
def bessel() -> Verdict:
    """${}_0F_1$ and the printed $J_{(n-2)/2}$ have the same terms; to 20 digits also as numbers."""
    m = sympy.Symbol("m", integer=True, nonnegative=True)
    x = u * sympy.sqrt(n * C_W * K0)
    order = (n - 2) / 2
    bessel_term = (
        (-1) ** m / (sympy.factorial(m) * sympy.gamma(m + order + 1)) * (x / 2) ** (2 * m + order)
    )
    printed = (x / 2) ** -order * sympy.gamma(n / 2) * bessel_term
    term = (-(x**2) / 4) ** m / (sympy.rf(n / 2, m) * sympy.factorial(m))
    same = sympy.gammasimp(sympy.powsimp(sympy.simplify(printed / term), force=True))
    with mpmath.workdps(30):
        derived, numbers = [], []
        for size, value in ((3, "0.7"), (6, "2.5"), (11, "4")):
            radius = mpmath.mpf(value) * mpmath.sqrt(size)
            derived.append(mpmath.hyp0f1(mpmath.mpf(size) / 2, -(radius**2) / 4))
            j = mpmath.besselj(mpmath.mpf(size - 2) / 2, radius)
            scale = (radius / 2) ** (-mpmath.mpf(size - 2) / 2) * mpmath.gamma(mpmath.mpf(size) / 2)
            numbers.append(scale * j)
        return both(
            equal(same, 1, "every term of the series"),
            close(derived, numbers, 20, "n = 3, 6, 11"),
        )


# %% [markdown]
# ## The density (4.22)


# %%
def radial_inverse(size: int, length: mpmath.mpf, wave: Callable[[mpmath.mpf], Any]) -> mpmath.mpf:
    """The first line of (4.22): the Fourier inverse of a function of |u| alone, at |z| = length."""
    order = mpmath.mpf(size - 2) / 2
    whole = mpmath.quad(
        lambda k: k ** (order + 1) * mpmath.besselj(order, length * k) * wave(k), [0, 4, 12]
    )
    return (2 * mpmath.pi) ** (-mpmath.mpf(size) / 2) * length**-order * whole


@claim("000", "4.22", "uniform on the sphere of radius |x| C_W^{ℓ/2}")
def sphere() -> Verdict:
    r"""The first line inverts the transform, as the normal law shows. In it
    $\int du\,u J_\nu(zu)J_\nu(Ru) = \delta(z - R)/R$ makes of (4.21) the second, whose prefactor
    gives the sphere $z = R$ mass 1, and whose transform there is (4.20)."""
    R = sympy.sqrt(n * C_W * K0)
    printed = (
        sympy.pi ** (-n / 2)
        * (C_W * K0) ** (-(n - 2) / 4)
        * n ** (-(n + 2) / 4)
        * sympy.gamma(1 + n / 2)
        * R ** (-n / 2)
    )
    surface = 2 * sympy.pi ** (n / 2) / sympy.gamma(n / 2)
    mass = sympy.gammasimp(sympy.powsimp(sympy.expand_power_base(printed * surface * R ** (n - 1))))
    mass = sympy.simplify(sympy.powsimp(sympy.powdenest(mass, force=True), force=True))
    order = (n - 2) / 2
    hankel = (2 * sympy.pi) ** (-n / 2) * R**-order * (R / 2) ** -order * sympy.gamma(n / 2) / R
    ratio = sympy.simplify(
        sympy.gammasimp(sympy.powsimp(sympy.expand_power_base(hankel / printed)))
    )
    normal = [
        (radial_inverse(size, mpmath.mpf("0.8"), lambda k: mpmath.exp(-(k**2) / 2)), size)
        for size in (3, 4, 7)
    ]
    law = laws.law([n, n], Orthogonal(C_W))
    z = sympy.Symbol("z", real=True)
    derived, transformed = [], []
    for size in (3, 4, 7):
        component = sympy.lambdify(z, laws.sphere_component(size, sympy.sqrt(size)), "mpmath")
        root = mpmath.sqrt(size)
        derived.append(mpmath.hyp0f1(mpmath.mpf(size) / 2, -mpmath.mpf(size) / 4))
        transformed.append(
            mpmath.quad(lambda s, f=component: mpmath.cos(s) * f(s), [-root, 0, root])
        )
    return both(
        equal([mass, law.scale], [1, n * C_W**2 * K0], "mass 1; |z|² = n C_W^ℓ K_0 without spread"),
        equal(ratio, 1, "(4.21) in the first line gives the second"),
        close(
            [found for found, _ in normal],
            [mpmath.exp(-0.32) * (2 * mpmath.pi) ** (-mpmath.mpf(size) / 2) for _, size in normal],
            12,
            "the first line inverts a normal law's transform, n = 3, 4, 7",
        ),
        close(derived, transformed, 12, "its Fourier transform is (4.20), n = 3, 4, 7, u² K = 1"),
    )


# %% [markdown]
# ## Gaussian weights (4.23)–(4.24)


# %%
@claim("000", "4.23", "density with Gaussian weights: the scale 2^ℓ n")
def meijer() -> Verdict:
    r"""$|z|^2$ is $(2/n)^\ell n C_W^\ell K_0$ times a product of $\ell$ independent $\Gamma(n/2)$
    variables. The printed argument and prefactor lack $n^{-\ell}$: at $\ell = 1$ they are not those
    of $N(0, C_W K_0)$."""
    size, depth = 4, 3
    law = laws.law([size] * depth)
    scale = 2**depth * sympy.Rational(size) ** (1 - depth) * K0
    repaired = (
        sympy.gamma(sympy.Rational(size, 2)) ** (1 - depth)
        * (sympy.pi * scale) ** sympy.Rational(-size, 2)
        * sympy.meijerg(([], []), ([0] * depth, []), rho**2 / scale)
    )
    points = [{rho: value, K0: sympy.Rational(3, 2)} for value in (sympy.Rational(1, 2), 1, 2)]
    agrees = close(
        [law.density().subs(point).evalf(20) for point in points],
        [repaired.subs(point).evalf(20) for point in points],
        12,
    )
    one_layer = laws.law([n]).scale
    return misprint(
        one_layer,
        2 * n * K0,
        "scale of |z|² at ℓ = 1, C_W = 1 (a normal density has exp(−z²/2K_0)); with "
        "2^ℓ n^{1−ℓ} for 2^ℓ n in both places (4.23) is right: n = 4, ℓ = 3, to 12 digits",
        provided=agrees,
    )


@claim("000", "4.24", "2m-point functions with Gaussian weights")
def gaussian_points() -> Verdict:
    r"""At $C_W = 1$, of which the sentence before speaks, as printed; in general
    $c_{2m}(n)^{\ell-1} (C_W^\ell K_0)^m$. For any m and layer: the first is Gaussian, and each step
    multiplies by a normal number's moment over that of a component of a uniform direction, each an
    integral of its own: $C_W^mc_{2m}$."""
    K = Component("K0", (1, 1))
    cases = [(m, depth) for m in (1, 2, 3) for depth in (1, 2, 4)]
    found = [deep_linear.coefficient((1, 1) * m, [n] * depth, Gaussian(C_W)) for m, depth in cases]
    printed = [linear.contraction_factor(m, n) ** (depth - 1) * K**m for m, depth in cases]
    step = normal_moment(ANY) / direction_moment(n, ANY) / n**ANY
    return both(
        equal(same(step, 2**ANY * sympy.rf(n / 2, ANY) / n**ANY), 1, "a step is c_{2m}, any m"),
        equal([each.subs(C_W, 1) for each in found], printed, "C_W = 1, m = 1, 2, 3, ℓ = 1, 2, 4"),
        equal(
            found,
            [each * C_W ** (m * depth) for each, (m, depth) in zip(printed, cases, strict=True)],
            "and K^(ℓ) for K^(0) at any C_W",
        ),
    )
