# %% [markdown]
# # Limits of attention
#
# Given the kernel $S$ of its tokens, a layer of attention is exact at every size: heads are
# independent, and $z \mid R \sim N(0, R)$ with $R = C_OC_V/H \sum_h A^h V^h A^{hT}$, $V^h$ a
# Wishart matrix of mean $S$. Write $B = ASA^T$. What remains random of $R$ decides which limit
# exists.

# %%
"""Hron et al. (2006.10540), Sakai et al., Cowsik et al. and Bordelon et al. (2024), derived."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import sympy

from derivations.claims import Sampling, Verdict, both, claim, close, equal, observed
from derive import Network, layers, recursion
from derive.activations import linear
from derive.symbols import C_W
from numeric import flow, simulate
from numeric.layers.scores import Moments, Scores, alike_mean, moments

S = np.array([[1.0, 0.5], [0.5, 1.25]])
TOKENS = np.linalg.cholesky(S)[None] * 2**0.5
GAIN = 2.0


def two_tokens(size: int | None) -> Moments:
    """The averages over scores of two tokens, by quadrature."""
    return moments(S, Scores(np.zeros((2, 2)), GAIN, size))


# %%
@claim("attention", "1", "Hron et al.: one head is not Gaussian in the limit")
def one_head() -> Verdict:
    r"""With scores over $\sqrt d$ and $d \to \infty$, $R$ keeps the variance
    $\operatorname{Cov}(B, B)/H$: a single head has the excess kurtosis
    $3\operatorname{Var}R/(\mathbb E R)^2$. For linear scores, $A = s$, it is
    $6\operatorname{tr}S^4/(\operatorname{tr}S^2)^2$."""
    scores = Scores(np.zeros((2, 2)), 1.0, None, linear)
    found = moments(S, scores)
    square = S @ S
    exact = 6 * np.trace(square @ square) / np.trace(square) ** 2
    kurtosis = 3 * found.covariance[0, 0, 0, 0] / found.mean[0, 0] ** 2
    softmax = two_tokens(None)
    remains = softmax.covariance[0, 0, 0, 0] / softmax.mean[0, 0] ** 2
    return both(
        close([float(kurtosis)], [float(exact)], 2),
        observed(remains > 0.01, f"softmax: Var R/(E R)² = {remains:.4f} of one head"),
    )


@claim("attention", "2", "Hron et al.: infinitely many heads are Gaussian, with K' = E A S Aᵀ")
def many_heads() -> Verdict:
    r"""With $H = n/d$ heads $n\operatorname{Cov}(R, R) = d\operatorname{Cov}(B, B) + \dots$ is
    finite, so that $R$ tends to its mean; and $\mathbb E B$ at head size $d$ tends to that of
    Gaussian scores with a correction of order $1/d$: by a quadrature over $\chi^2_d$."""
    means = [two_tokens(size).mean for size in (64, 128, 256)]
    limit = two_tokens(None).mean
    ratios = [(a - limit)[0, 0] / (b - limit)[0, 0] for a, b in pairwise(means)]
    net = Network("linear", layer=layers.attention("n/64", 2, "1/sqrt(d)", skip=0, C=(2, 1, 1, 1)))
    table = flow(net, TOKENS, 2, "K")["K"].sel(layer=2).to_numpy()
    return both(
        close(table.ravel().tolist(), means[0].ravel().tolist(), 8),
        observed(
            all(abs(each - 2) < 0.05 for each in ratios),
            f"E B − its limit falls by {ratios[0]:.3f} and {ratios[1]:.3f} as d doubles",
        ),
    )


@claim(
    "attention",
    "3",
    "Sakai et al.: with few heads K is random at order one",
    sampled=True,
)
def few_heads(sampling: Sampling) -> Verdict:
    r"""At fixed $H = 2$ the variance of $R$ between networks tends to
    $\operatorname{Cov}(B, B)/H$ as $n \to \infty$: given scores the outputs are Gaussian, and
    beyond them a mixture. Networks of widths 64 and 256, extrapolated in $1/n$."""
    net = Network("linear", layer=layers.attention(2, 2, "1/sqrt(d)", skip=0, C=(2, 1, 1, 1)))
    values, errors = [], []
    for n in (64, 256):
        table = simulate(net, TOKENS, n, 2, 20_000, tensors="V", seed=sampling.seed).sel(layer=2)
        values.append(table["V"].to_numpy() / n)
        errors.append(table["V_se"].to_numpy() / n)
    found = (4 * values[1] - values[0]) / 3
    error = np.hypot(4 * errors[1], errors[0]) / 3
    expected = two_tokens(None).covariance / 2
    apart = np.abs(found - expected) / error
    clear = float((expected / error)[0, 0, 0, 0])
    return observed(
        bool(apart.max() < 6.5) and clear > 10,
        f"16 entries within {apart.max():.2f} standard errors; 0 is {clear:.0f} away",
    )


def annealed(tokens: int, q: float, p: float, gain: float) -> np.ndarray:
    """B on and off the diagonal, averages of e^s over averages of their sums."""
    weights = np.exp(gain * (q - p) * np.array([q, p]))
    return np.asarray(p + (q - p) * weights / (weights + tokens - 1))


@claim("attention", "4", "Cowsik et al.: the annealed update is not the average over scores")
def quenched() -> Verdict:
    r"""Of tokens that are alike, $S_{tt} = 1$ and $S_{st} = p$, the mean of $e^{s_{ts} + s_{us'}}$
    over the mean of its sum is $p + (1 - p)e^{\beta^2(1-p)S_{tu}}/(e^{\beta^2(1-p)S_{tu}} + T -
    1)$. The average over scores itself comes from $1/Z = \int e^{-\lambda Z}d\lambda$, exact for
    any $T$; the two differ by percents, and agree at $\beta = 0$."""
    shown, holds = [], []
    for gain in (1.0, 2.0, 4.0):
        for p in (0.0, 0.5):
            exact, errors = alike_mean(8, 1.0, p, gain)
            off = annealed(8, 1.0, p, gain)[0] / exact[0] - 1.0
            shown.append(f"{100 * off:.1f} % at β² = {gain:.0f}, p = {p}")
            holds.append(bool(off > 0.005 and errors.max() < 1e-7))
    still = alike_mean(8, 1.0, 0.5, 0.0)[0] - annealed(8, 1.0, 0.5, 0.0)
    holds.append(bool(np.abs(still).max() < 1e-12))
    return observed(holds, f"T = 8, the diagonal is too large by {', '.join(shown)}")


@claim("attention", "5", "Bordelon et al.: with scores over √d the limits do not commute")
def order_of_limits() -> Verdict:
    r"""$V = d\operatorname{Cov}(B, B) + O(1)$ grows with the size of a head: $V/n = \operatorname{
    Cov}(B, B)/H$ is what remains if $d \to \infty$ comes first, and nothing if $H \to \infty$ does.
    At two tokens, $(V(2d) - V(d))/d$ tends to the covariance at Gaussian scores."""
    limit = two_tokens(None).covariance
    ratios = []
    for size in (256, 512):
        one, other = (two_tokens(d).source(d) for d in (size, 2 * size))
        ratios.append(((other - one) / size)[0, 0, 0, 0] / limit[0, 0, 0, 0])
    apart = [abs(each - 1.0) for each in ratios]
    return observed(
        apart[1] < apart[0] < 0.02, f"{ratios[0]:.5f} and {ratios[1]:.5f} of it at d = 256, 512"
    )


@claim("attention", "6", "Bordelon et al.: with scores over d heads collapse to one")
def heads_collapse() -> Verdict:
    r"""Scores over $d$ vanish as $d \to \infty$, so that every head reads by the softmax of the
    bias: $K' = C_W^2\overline K$ at uniform weights, without $H$. At order $1/n$, $V$ does not
    contain $H$ either, and $G^{1}$ is linear in it."""
    layer = layers.attention("H", 3, skip=0)
    H = sympy.Symbol("H", positive=True)
    K, G1, V = (recursion(name, layer=layer).expr for name in ("K", "G1", "V"))
    free = [K.has(H), V.has(H), sympy.expand(G1).diff(H).has(H)]
    given = Network("linear", layer=layers.attention(2, 2, skip=0))
    table = flow(given, TOKENS, 2, "K")["K"].sel(layer=2).to_numpy()
    return both(
        equal([K.has(C_W), *free], [True, False, False, False]),
        close(table.ravel().tolist(), [float(S.mean())] * 4, 12),
        observed(sympy.expand(G1).has(H), "G1 contains H"),
    )
