# %% [markdown]
# # A skip around one matrix
#
# $z' = \gamma z + b + W\sigma(z)$, the residual layer of source 004's book, leaves a law that only
# permutations of the neurons keep: $\kappa_b = n\,\mathrm{Cov}(z_i^2, {:}z_j^b{:})$ of every $b$
# enters $V$, and the recursion of $V$ is one of that sequence. Does such a skip undo the saturation
# of $V/K^2$ that source 000 found for tanh networks with orthogonal weights? It does:
# $z\cdot W\sigma(z)$, the product of stream and branch, fluctuates where both lengths are kept.

# %%
"""V and the tangent kernel under a skip around one matrix: recursions, and slopes in depth."""

from __future__ import annotations

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, claim, close, equal
from derivations.layers import finite_width
from derivations.layers.recursions import GAMMA, WEIGHTS, V, average
from derive import Gaussian, Network, Orthogonal, WeightEnsemble, layers, recursion
from derive.activations.functions import as_activation
from derive.gaussian.brackets import Average
from derive.gaussian.small_kernel import small_kernel_average
from derive.recursions import SequenceRecursion
from derive.symbols import C_W, C_b, K, tensor
from derive.work.caches import cache
from numeric import flow

R = sympy.Rational
SKIP = layers.skip(GAMMA)
V_S = tensor("V_s")
CURVED = Average(((1, 0), (1, 0)), (1, 1))
SAMPLED = (
    ("relu", Gaussian(1), 0.0, {48: 144_000, 144: 86_000}),
    ("tanh", Gaussian(R(1, 2)), 0.0, {24: 144_000, 72: 86_000}),
    ("gelu", Orthogonal(1), 0.3, {24: 172_000, 72: 115_000}),
)

TOWER_SAMPLED = {40: 29_000, 120: 15_000}


@cache
def derived(weights: WeightEnsemble) -> SequenceRecursion:
    """V's recursion, one input."""
    made = recursion("V", weights, layer=SKIP).single_input()
    assert isinstance(made, SequenceRecursion)
    return made


@claim("layers", "17", "V and the sequence that closes it")
def closed() -> Verdict:
    r"""With $V_s = n\,\mathrm{Cov}(z_i^2, \sigma(z_j)^2) = \sum_b \kappa_b\langle
    \partial^b\sigma^2\rangle/b!$ and $\kappa_2 = V$: $V'$ is a polynomial in $V$, $V_s$ and
    brackets, and $\kappa_b' = \gamma^b[(\gamma^2 + \frac12C_W\langle(\sigma^2)''\rangle)\kappa_b +
    C_WK^b\langle\partial^b\sigma^2\rangle]$. Orthogonal weights take
    $2C_W^2\langle\sigma^2\rangle^2$ off. At $\gamma = 0$, where rotations keep the law and $V_s =
    \frac12V\langle(\sigma^2)''\rangle$, it is the dense layer's recursion."""
    one, two = average("00", "K"), average("0000", "K")
    one, two = (Average(each.args[0]) for each in (one, two))
    expected = (
        GAMMA**4 * V
        + 2 * GAMMA**2 * C_W * (V_S + K**2 * CURVED)
        + C_W**2 * (CURVED * V_S - V * CURVED**2 / 4 + two - one**2)
    )
    found = [derived(weights).expr for weights in WEIGHTS]
    dense = [recursion("V", weights).single_input().expr for weights in WEIGHTS]
    limits = [each.subs({GAMMA: 0, V_S: V * CURVED / 2}) for each in found]
    less = 2 * C_W**2 * one**2
    return equal([*found, *limits], [expected, expected - less, *dense])


def tanh_slope(weights: WeightEnsemble) -> sympy.Expr:
    r"""Of $v = V/K^2$ at criticality, $C_W = 1 - \gamma^2$, $C_b = 0$, where $K \to 0$: $v' = v(1 +
    \alpha K) + \beta$ and $K' = K - \kappa K^2$ up to higher powers of $K$. The κ_b beyond V are of
    order K^b, b even, and no part of this."""
    tanh = as_activation("tanh")
    one, two = (small_kernel_average(tanh, (0,) * k, 3) for k in (2, 4))
    curved = 2 * sympy.diff(one, K)
    known = {Average(((1, 0),) * 2): one, Average(((1, 0),) * 4): two, CURVED: curved}
    above = derived(weights).expr.subs(V_S, V * curved / 2).xreplace(known)
    kernel = recursion("K", layer=SKIP).single_input().expr.xreplace(known)
    critical = {C_W: 1 - GAMMA**2, C_b: 0}
    above, kernel = (sympy.expand(each.subs(critical)) for each in (above, kernel))
    moved = sympy.series(sympy.expand(above.subs(V, tensor("x") * K**2)) / kernel**2, K, 0, 2)
    moved = sympy.expand(moved.removeO())
    alpha = moved.coeff(tensor("x"), 1).coeff(K, 1)
    beta = moved.coeff(tensor("x"), 0).coeff(K, 0)
    kappa = -kernel.coeff(K, 2)
    return sympy.factor(beta / (1 - alpha / kappa))


@claim("layers", "18", "tanh: a skip around one matrix undoes the saturation of V")
def undone() -> Verdict:
    r"""At criticality, $C_W = 1 - \gamma^2$: $V/K^2 \to \frac23(1 - \gamma^4)\ell$ with Gaussian
    weights and $\frac43\gamma^2(1 - \gamma^2)\ell$ with orthogonal ones, largest at $\gamma^2 =
    \frac12$. Where dense layers have $\frac23\ell$ and a constant, $V/(nK^2)$ grows as $\ell/n$
    with either."""
    slopes = [tanh_slope(weights) for weights in WEIGHTS]
    expected = [R(2, 3) * (1 - GAMMA**4), R(4, 3) * GAMMA**2 * (1 - GAMMA**2)]
    return equal(slopes, expected)


def relu_slope(gamma: float, haar: bool) -> float:
    r"""Of $V/K^2$ at criticality, with the arc-cosine kernel of order 2 (Cho and Saul, 2009):
    κ_b tends to $C_WK^b\langle\partial^b\sigma^2\rangle\gamma^b/(1 - \gamma^b)$, and with
    $1/(1 - \gamma^b)$ as a geometric series the sum over b is one of
    $\langle\sigma^2(x)\sigma^2(y)\rangle$ at correlations $\gamma, \gamma^2, …$, less what b = 0
    and b = 2 have."""
    weight = 2 * (1 - gamma**2)
    rho = gamma ** np.arange(1, 400)
    angle = np.arccos(rho)
    pair = (3 * np.sin(angle) * rho + (np.pi - angle) * (1 + 2 * rho**2)) / (2 * np.pi)
    total = float(np.sum(pair - 1 / 4 - rho**2 / 2))
    mean = 2 * gamma**2 * weight + weight**2 * (3 / 4 if haar else 5 / 4)
    return mean + (2 * gamma**2 * weight + weight**2) * weight * total


@claim("layers", "19", "ReLU: the slope of V under a skip around one matrix")
def kinked() -> Verdict:
    r"""At criticality, $C_W = 2(1 - \gamma^2)$, $K$ rests and $V/K^2$ becomes a line in $\ell$,
    whose slope has all of the $\kappa_b$: with orthogonal weights less than with Gaussian ones by
    $2(1 - \gamma^2)^2$ alone. `flow` deep down, for $\gamma^2 = \frac14$ and $\frac12$."""
    found, expected = [], []
    for square, depth in ((R(1, 4), 36), (R(1, 2), 64)):
        for haar in (False, True):
            weights = (Orthogonal if haar else Gaussian)(C_W=2 * (1 - square))
            skip = layers.skip(sympy.sqrt(square))
            net = Network(as_activation("relu"), weights, layer=skip)
            table = flow(net, [1.0], depth, ["K", "V"], width=1)
            above, below = (float(table["V"].sel(layer=at)) for at in (depth, depth - 1))
            found.append((above - below) / float(table["K"].sel(layer=depth)) ** 2)
            expected.append(relu_slope(float(square) ** 0.5, haar))
    return close(found, expected, 8)


@claim("layers", "20", "V under a skip around one matrix, sampled", sampled=True)
def in_ensembles(sampling: Sampling) -> Verdict:
    r"""$\gamma^2 = \frac12$: ReLU, where a recursion that closes on $V$ is 40 % off at layer 5,
    tanh, and GELU with biases, layers 2 to 5; two widths extrapolated in $1/n$."""
    layer = layers.skip(sympy.sqrt(2) / 2)
    cases = [
        (Network(name, weights, Gaussian(weights.C_W), C_b=bias, layer=layer), ["V"], draws)
        for name, weights, bias, draws in SAMPLED
    ]
    return finite_width.in_ensembles(cases, 5, sampling, "two widths each, n = 24 to 144")


@claim("layers", "21", "The tangent kernel under a skip around one matrix")
def tangent() -> Verdict:
    r"""$F = n\,\mathbb E H_{ij}z_iz_j$ and $B = n\,\mathbb E H_{ij}^2$ of two neurons, with
    $J = \gamma + W\sigma'$ in $H' = \lambda + JHJ^T$: beside $\gamma^4$ times themselves they have
    from one $W$ in each $J$ twice what they have at one neuron, $\gamma^2C_W\Theta\langle
    z\sigma\sigma'\rangle$ and $\gamma^2C_W\Theta^2\langle\sigma'^2\rangle$, and the functionals
    $F_u = n\,\mathbb E H_{ij}z_i(\sigma\sigma')_j$ and $B_t = n\,\mathbb E H_{ij}^2\sigma_j'^2$,
    of which a part of degree 1, or 0, in both places is counted once. Orthogonal weights take
    $C_W^2\Theta\langle\sigma^2\rangle\langle\sigma'^2\rangle$ and
    $C_W^2\Theta^2\langle\sigma'^2\rangle^2$ off. At $\gamma = 0$ they are those of the dense
    layer."""
    F, B, Theta, F_u, B_t = map(tensor, ("F", "B", "Theta", "F_u", "B_t"))
    both = Average(((1, 0), (1, 0), (1, 1), (1, 1)))
    square, slope = Average(((1, 0), (1, 0))), Average(((1, 1), (1, 1)))
    bent, fourth = Average(((1, 0), (1, 1)), (1,)), Average(((1, 1),) * 4)
    one = GAMMA**4 * F + 2 * C_W * GAMMA**2 * (F_u + Theta * K * bent)
    one += C_W**2 * (2 * F_u * bent - F * bent**2 + Theta * both)
    two = GAMMA**4 * B + 2 * C_W * GAMMA**2 * (B_t + Theta**2 * slope)
    two += C_W**2 * (2 * B_t * slope - B * slope**2 + Theta**2 * fourth)
    less = C_W**2 * Theta * square * slope, C_W**2 * Theta**2 * slope**2
    found = [
        recursion(name, weights, layer=SKIP).single_input().expr
        for weights in WEIGHTS
        for name in ("F", "B")
    ]
    limit = {GAMMA: 0, F_u: F * bent, B_t: B * slope}
    dense = [
        recursion(name, weights).single_input().expr for weights in WEIGHTS for name in ("F", "B")
    ]
    limits = [each.subs(limit) for each in found]
    return equal([*found, *limits], [one, two, one - less[0], two - less[1], *dense])


@claim("layers", "22", "The tangent kernel under a skip around one matrix, sampled", sampled=True)
def tangent_in_ensembles(sampling: Sampling) -> Verdict:
    r"""$\gamma = \frac35$, layers 2 to 4: $D$, $F$, $A$ and $B$ of ReLU with Gaussian weights, $F$
    and $B$ of tanh with orthogonal ones; two widths extrapolated in $1/n$."""
    layer, variance = layers.skip(R(3, 5)), R(4, 5)
    cases = [
        (
            Network(name, law(variance), Gaussian(variance), layer=layer),
            list(tensors),
            TOWER_SAMPLED,
        )
        for name, law, tensors in (("relu", Gaussian, "DFAB"), ("tanh", Orthogonal, "FB"))
    ]
    return finite_width.in_ensembles(cases, 4, sampling, "two widths each, n = 40 and 120")
