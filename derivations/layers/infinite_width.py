# %% [markdown]
# # Infinite width
#
# What is known of norms and skips in the limit, derived from the same recursions: $\chi_\perp$ is
# the coefficient of $\Theta$ in $\Theta'$, the mean square of the Jacobian of a layer.

# %%
"""Doshi, He and Gromov (2111.12143), Yang and Schoenholz (2017), derived."""

from __future__ import annotations

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, observed
from derivations.layers.recursions import GAMMA, average
from derive import criticality, layers
from derive.depth.criticality import Criticality
from derive.depth.layer_functions import LayerFunction
from derive.symbols import C_W, C_b, K, ell
from derive.work.caches import cache

R = sympy.Rational
PRE = "residual(skip=1, norm=rms)"


@cache
def solved(activation: str, layer: str | layers.Layer) -> Criticality:
    """The criticality of a layer."""
    return criticality(activation, layer=layer)


def closed(function: LayerFunction) -> sympy.Expr:
    """The closed form of a function that has one."""
    value = function.closed
    assert value is not None
    return value


# %%
@claim("layers", "4", "LayerNorm on preactivations: a line of critical C_b, and ReLU at every C_W")
def layer_norm() -> Verdict:
    r"""Doshi, He and Gromov: with $y = $ LayerNorm $z$, $K^* = C_W\langle\sigma^2\rangle_1 + C_b$
    attracts with $\chi_\parallel = 0$, and $\chi_\perp = C_W\langle\sigma'^2\rangle_1/K^* = 1$ on
    the line $C_b = C_W(\langle\sigma'^2\rangle_1 - \langle\sigma^2\rangle_1)$. For ReLU that is
    $C_b = 0$ with every $C_W$."""
    found = solved("tanh", "normalized(layer)")
    line = found.line
    assert line is not None
    squares, slopes = average("00", "K_y"), average("11", "K_y")
    relu = solved("relu", "normalized(layer)").line
    assert relu is not None
    return both(
        equal(
            [found.chi_parallel.bare, found.chi_perp.bare, line.bare, relu.closed],
            [0, C_W * slopes / K, C_W * (slopes - squares), 0],
        ),
        observed(
            [found.bias(w) > 0 for w in (R(1, 2), 1, 4)], "tanh: C_b > 0 at C_W = 1/2, 1 and 4"
        ),
    )


@claim("layers", "5", "pre-norm residual blocks: the same line for every skip below 1")
def any_skip() -> Verdict:
    r"""$K^* = (C_W\langle\sigma^2\rangle_{C_W} + C_b)/(1 - \gamma^2)$, $\chi_\parallel = \gamma^2$
    and $\chi_\perp = \gamma^2 + C_W^2\langle\sigma'^2\rangle_{C_W}/K^*$: the line $C_b(C_W)$ on
    which the last is 1 does not know $\gamma$."""
    squares, slopes = average("00", "K_h"), average("11", "K_h")
    found = [solved("tanh", layers.residual(skip, norm="rms")) for skip in (GAMMA, R(1, 3), 0)]
    lines = [each.line.bare for each in found if each.line is not None]
    star = (C_W * squares + lines[0]) / (1 - GAMMA**2)
    perp = found[0].chi_perp.bare.xreplace({K: star})
    return equal(
        [*lines, found[0].chi_parallel.bare, perp],
        [*[C_W**2 * slopes - C_W * squares] * 3, GAMMA**2, 1],
    )


@claim("layers", "6", "a skip of 1 with a norm is critical everywhere")
def everywhere() -> Verdict:
    r"""Doshi, He and Gromov: at $\gamma = 1$ the kernel grows by $s =
    C_W\langle\sigma^2\rangle_{C_W} + C_b$ a layer, and the Jacobian's mean square from layer
    $\ell_0$ to $\ell$ is a power $(\ell/\ell_0)^\zeta$ for every $C_W$ and $C_b$, $\zeta =
    C_W^2\langle\sigma'^2\rangle_{C_W}/s$: with $K = s(\ell + c)$ exactly, $\Gamma(\ell + c +
    \zeta)/\Gamma(\ell + c)$ is the product of the $\chi_\perp$. For ReLU $\zeta = C_W^2/(C_W^2 +
    2C_b)$."""
    found, relu = solved("tanh", PRE), solved("relu", PRE)
    assert found.exponent is not None
    assert found.rate is not None
    assert relu.exponent is not None
    squares, slopes = average("00", "K_h"), average("11", "K_h")
    rate, c = found.rate.bare, sympy.Symbol("c", positive=True)
    zeta = sympy.Symbol("zeta", positive=True)
    product = [sympy.gamma(at + c + zeta) / sympy.gamma(at + c) for at in (ell, ell + 1)]
    ratio = sympy.gammasimp(product[1] / product[0]).subs(zeta, found.exponent.bare)
    step = found.chi_perp.bare.xreplace({K: rate * (ell + c)})
    return equal(
        [rate, found.kernel_map.bare - K, found.exponent.bare, ratio, relu.exponent.closed],
        [
            C_W * squares + C_b,
            rate,
            C_W**2 * slopes / (C_W * squares + C_b),
            step,
            C_W**2 / (C_W**2 + 2 * C_b),
        ],
    )


@claim("layers", "7", "how correlations decay, and ζ ≥ 1 without biases")
def correlations() -> Verdict:
    r"""$K_{11} - K_{12}$ of nearby inputs grows as $\ell^\zeta$ and $K$ as $\ell$, so $1 - \rho$
    goes as $\ell^{\zeta - 1}$. For odd $\sigma$ without biases $\zeta \ge 1$, as
    $C_W\langle\sigma'^2\rangle \ge \langle\sigma^2\rangle$ by Poincaré's inequality, with equality
    where $\sigma$ is linear alone: nearby inputs part, by a power. Biases with $\zeta < 1$ bring
    all inputs together."""
    names, weights = ("tanh", "sin", "erf_unit_slope", "arctan"), (R(1, 4), 1, 4)
    free = [
        exponent(1, weight, 0) > 1
        for name in names
        if (exponent := solved(name, PRE).exponent) is not None
        for weight in weights
    ]
    tanh, linear = (solved(name, PRE).exponent for name in ("tanh", "linear"))
    assert tanh is not None
    assert linear is not None
    bias = solved("tanh", "residual(skip=1/2, norm=rms)").bias(1)
    return both(
        observed(free, "ζ > 1 at C_b = 0 and C_W = 1/4, 1, 4"),
        equal(closed(linear).subs(C_b, 0), 1, "linear"),
        close(tanh(1, 1, bias), 1, 15, "ζ = 1 on the line that is critical for γ < 1"),
    )


# %% [markdown]
# ## Without a norm


# %%
@claim("layers", "8", "tanh blocks without a norm: K grows linearly, gradients as exp √ℓ")
def stretched() -> Verdict:
    r"""Yang and Schoenholz: with $\gamma = 1$ and bounded $\sigma$, $K \to C_W\ell$, and as
    $\sqrt{2\pi K}\langle\sigma'^2\rangle_K \to \int\sigma'^2 = \frac43$ for tanh, $\chi_\perp - 1
    \to \frac43\frac{C_W}{\sqrt{2\pi\ell}}$: gradients grow as $\exp(\frac83C_W\sqrt{\ell/2\pi})$,
    polynomial in no power, exponential neither."""
    found = solved("tanh", "residual(skip=1)")
    far, weight = mpmath.mpf(10) ** 8, R(3, 2)
    grown = found.kernel_map(far, weight, 0, 30) - far
    spread = (found.chi_perp(far, weight, 0, 30) - 1) * mpmath.sqrt(far / weight)
    return close(
        [grown, spread],
        [weight, sympy.sqrt(2 / sympy.pi) * R(2, 3) * weight],
        3,
        "K' − K and (χ_⊥ − 1)√ℓ at K = 10⁸",
    )


@claim("layers", "9", "ReLU blocks without a norm: exponential")
def exponential() -> Verdict:
    r"""Yang and Schoenholz: $K' = (1 + \frac12C_W^2)K$, and gradients grow by the same factor."""
    found = solved("relu", "residual(skip=1)")
    factor = 1 + C_W**2 / 2
    return equal(
        [closed(found.kernel_map).subs(C_b, 0), closed(found.chi_perp)], [factor * K, factor]
    )
