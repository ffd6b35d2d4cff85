# %% [markdown]
# # The answer to a question of source 000
#
# "Studying MLPs with LayerNorm and residual connections would be the next step." Do orthogonal
# weights keep the tower from growing there, and what is left of $L/n$? In blocks without a norm
# they do not: $\gamma z + W_2W_1z$ changes lengths even where both matrices keep them, and $L/n$ is
# back. With a norm and $\gamma < 1$, $V$ is bounded with either weights and the tangent kernel's
# fluctuations grow with $L/n$ with either. At $\gamma = 1$ there is no $L/n$ left, with either:
# each layer is a fraction $1/\ell$ of what it is added to.

# %%
"""Depth under residual blocks and norms, Gaussian and orthogonal weights."""

from __future__ import annotations

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, observed
from derivations.layers.infinite_width import PRE, solved
from derivations.layers.recursions import G1, GAMMA, SHIPPED, WEIGHTS, V, average, derived
from derive import WeightEnsemble, layers, recursion
from derive.depth.asymptotics import Asymptotics
from derive.gaussian.brackets import Average
from derive.symbols import C_W, C_b, K, ell, lambda_b, lambda_W, tensor
from derive.work.caches import cache

R = sympy.Rational
BLOCK = layers.residual(1, norm="rms")
THETA = tensor("Theta")


@cache
def deep(
    name: str, layer: layers.Layer, weights: WeightEnsemble, **given: sympy.Expr
) -> Asymptotics:
    """A dimensionless tensor of tanh networks at large depth."""
    made = recursion(name, weights, layer=layer)
    return made.asymptotics("tanh", 1, **given).normalised


# %% [markdown]
# ## A skip of 1 with a norm


# %%
@claim("layers", "10", "γ = 1 with a norm: K, V and G^{1} are lines in ℓ")
def lines() -> Verdict:
    r"""For every $\sigma$, $C_W$ and $C_b$: $K' - K$, $V' - V$ and $G^{\{1\}\prime} - G^{\{1\}}$
    are constants, those of $V$ being $C_W^2(\langle\sigma^4\rangle - \langle\sigma^2\rangle^2)$
    with Gaussian weights and less with orthogonal ones, by $2C_W^2\langle\sigma^2\rangle^2 +
    \frac12C_W^4\langle (\sigma^2)''\rangle^2$. So $V/K^2$ falls as $1/\ell$ and $V/(nK^2)$ is
    largest in the first layers: nothing of $L/n$ is left in $V$ and $G^{\{1\}}/K$, with either
    weights."""
    one, two = average("00", "K_h"), average("0000", "K_h")
    curved = Average(((1, 0), (1, 0)), (1, 1), "K_h")
    quartic = Average(((1, 0), (1, 0)), (1, 1, 1, 1), "K_h")
    gains = [derived("K", BLOCK, weights) - K for weights in WEIGHTS]
    added = [derived("V", BLOCK, weights) - V for weights in WEIGHTS]
    metric = [derived("G1", BLOCK, weights) - G1 for weights in WEIGHTS]
    spread = C_W**2 * (two - one**2)
    less = 2 * C_W**2 * one**2 + C_W**4 * curved**2 / 2
    return equal(
        [*gains, *added, *metric],
        [*[C_W * one + C_b] * 2, spread, spread - less, 0, -(C_W**3) * quartic / 4],
    )


@claim("layers", "11", "γ = 1 with a norm: what the NTK's fluctuations take from a layer")
def first_power() -> Verdict:
    r"""With $\Theta$ growing as $K^\zeta$, the tensors over their dimensions move by $1/K$ a layer,
    and at that order by the same with Gaussian and orthogonal weights: with $u =
    C_W^2\langle\sigma'^2\rangle$ the sources of $B/\Theta^2$, $D/(K\Theta)$ and $A/\Theta^2$ are
    $2u/K$, $-2u/K$ and $-2uD/(K\cdot K\Theta)$, the products of the stream with the branch, whose
    matrix is drawn afresh whatever its ensemble. What orthogonality changes, $|{\rm branch}|^2$, is
    of order $1/K^2$."""
    u, d, x = sympy.symbols("u d x", positive=True)
    none = {lambda_b: sympy.S.Zero, lambda_W: sympy.S.Zero, V: x * K}
    found = []
    for weights in WEIGHTS:
        for name, scale in (("B", THETA**2), ("D", K * THETA), ("A", THETA**2)):
            other = {} if name == "D" else {tensor("D"): d * K * THETA}
            expr = derived(name, BLOCK, weights).xreplace(
                none | other | {tensor(name): sympy.S.Zero}
            )
            brackets = {each: sympy.Dummy() for each in expr.atoms(Average)}
            brackets[average("11", "K_h")] = u / C_W**2
            source = sympy.expand(expr.xreplace(brackets) / scale * K)
            found.append(sympy.limit(source, K, sympy.oo))
    return equal(found, [2 * u, -2 * u, -2 * u * d] * 2)


@claim("layers", "12", "γ = 1 with a norm: log L over n, or nothing, in place of L/n")
def logarithms() -> Verdict:
    r"""Solved: for $\zeta > 1$, $B/\Theta^2 \to 2\zeta\log\ell$, $A/\Theta^2 \to 4\zeta^2\log\ell$
    and $D/(K\Theta) \to -2\zeta$; for $\zeta < 1$, where the last layers make $\Theta$, all are
    bounded, $B/\Theta^2 \to \zeta/(1 - \zeta)$, $A/\Theta^2 \to 2\zeta^2/((2 - \zeta)(1 - \zeta))$
    and $D/(K\Theta) \to -2\zeta/(2 - \zeta)$; $F/(K\Theta)$ falls as $1/\ell$. The same with
    Gaussian and orthogonal weights."""
    exponent = solved("tanh", PRE).exponent
    assert exponent is not None
    found: list[sympy.Expr] = []
    expected: list[mpmath.mpf] = []
    powers: list[tuple[sympy.Expr, int]] = []
    for bias in (0, 1):
        zeta = exponent(1, 1, bias, 30)
        limits = {"B": 2 * zeta, "A": 4 * zeta**2, "D": -2 * zeta}
        if bias:
            limits = {
                "B": zeta / (1 - zeta),
                "A": 2 * zeta**2 / (2 - zeta) / (1 - zeta),
                "D": -2 * zeta / (2 - zeta),
            }
        for weights in WEIGHTS:
            given = {"C_b": sympy.Integer(bias), "C_W": sympy.Integer(1)}
            terms = {name: deep(name, BLOCK, weights, **given).terms[0] for name in "BADF"}
            found += [terms[name].coefficient for name in limits]
            expected += limits.values()
            powers += [(terms[name].exponent, terms[name].log) for name in "BADF"]
    logs = [(0, 1), (0, 1), (0, 0), (1, 0)] * 2
    flat = [(0, 0), (0, 0), (0, 0), (1, 0)] * 2
    return both(
        close(found, expected, 12, "tanh, C_W = 1, C_b = 0 (ζ = 1.178) and 1 (ζ = 0.333)"),
        equal([int(a == b) for a, b in zip(powers, logs + flat, strict=True)], [1] * 16, "powers"),
    )


# %% [markdown]
# ## A skip below 1


# %%
@claim("layers", "13", "γ < 1 with a norm: V saturates, and the NTK keeps L/n, with either weights")
def forgetting() -> Verdict:
    r"""Each layer keeps $\gamma^2$ of the stream: $V \to v/(1 - \gamma^4)$, $V/K^2$ bounded. At
    criticality $\Theta$ grows by as much a layer, and $A/\Theta^2$ and $B/\Theta^2$ grow as $\ell$:
    orthogonal weights have a smaller slope, not none."""
    layer = SHIPPED[2]
    limits = [derived("V", layer, weights).coeff(V, 1) for weights in WEIGHTS]
    half = layers.residual(R(1, 2), norm="rms")
    slopes = {
        name: [deep(name, half, w, C_W=sympy.Integer(1)).terms[0] for w in WEIGHTS] for name in "AB"
    }
    bounded = [deep("V", half, w, C_W=sympy.Integer(1)).terms[0].exponent for w in WEIGHTS]
    told = ", ".join(
        f"{name}: {float(one.coefficient):.3f}ℓ and {float(other.coefficient):.3f}ℓ"
        for name, (one, other) in slopes.items()
    )
    flat = [term for pair in slopes.values() for term in pair]
    return both(
        equal([*limits, *bounded], [GAMMA**4, GAMMA**4, 0, 0], "V' = γ⁴V + v, and V/K² bounded"),
        equal([term.exponent for term in flat], [-1] * 4),
        observed(
            [
                *(float(term.coefficient) > 0 for term in flat),
                *(float(a.coefficient) > 1.5 * float(b.coefficient) for a, b in slopes.values()),
            ],
            f"tanh, γ = 1/2, C_W = 1, Gaussian and orthogonal, {told}",
        ),
    )


@claim("layers", "14", "γ < 1 without a norm: orthogonal weights do not undo L/n")
def back_again() -> Verdict:
    r"""Critical tanh blocks, $C_W = \sqrt{1 - \gamma^2}$: $V/K^2 \to \frac43(1 - \gamma^2)\ell$
    with Gaussian weights and $\frac43\gamma^2(1 - \gamma^2)\ell$ with orthogonal ones, where dense
    layers have $\frac23\ell$ and $-2$. What is left is $z\cdot W_2W_1z$, the product of stream and
    branch."""
    found, expected = [], []
    for skip in (R(1, 3), R(1, 2), R(2, 3)):
        block = layers.residual(skip)
        found += [deep("V", block, weights).expr for weights in WEIGHTS]
        slope = R(4, 3) * (1 - skip**2) * ell
        expected += [slope, skip**2 * slope]
    return equal(found, expected, "γ = 1/3, 1/2, 2/3")
