# %% [markdown]
# # Gradients
#
# The squared gradient in a fixed direction has the law of $K$, forwards and backwards, where the
# steps of $\log K$ are independent. Here the networks have explicit matrices, and the gradients are
# those of the chain rule.

# %%
"""The law of gradients, networks that die, and branches of variance 1/L, with explicit matrices."""

from __future__ import annotations

import numpy as np
import sympy
from numpy.typing import NDArray

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, observed, scored
from derive import layers
from derive.deep import walk
from derive.network import Network
from numeric import deep
from numeric.random.matrices import frames

Array = NDArray[np.float64]
Rng = np.random.Generator
R = sympy.Rational
WIDTH, DRAWS = 12, 4400
BLOCK = 20
"""Networks whose layers a processor's cache holds."""
INPUT = [1.0, 0.5, -0.3]


def matrices(law: str, width: int, draws: int, rng: Rng) -> Array:
    """Matrices with entries of variance 1/n: (draws, n, n)."""
    shape = (draws, width, width)
    if law == "uniform":
        return np.asarray(np.sqrt(3 / width) * rng.uniform(-1, 1, shape))
    normal = rng.standard_normal(shape)
    return np.asarray(normal / np.sqrt(width)) if law == "gaussian" else frames(normal)


def applied(W: Array, vectors: Array) -> Array:
    """W v of each network."""
    return np.asarray(np.einsum("dij,dj->di", W, vectors))


def chained(layer: str, law: str, depth: int, rng: Rng, width: int = WIDTH) -> Array:
    """log of |z|², |J t|² and |Jᵀu|² over their first values: (draws, 3); t is orthogonal to z."""
    z, t, u = rng.standard_normal((3, DRAWS, width))
    t -= z * ((t * z).sum(1) / (z * z).sum(1))[:, None]
    first = [(v * v).sum(1) for v in (z, t, u)]
    gamma, count, variance = {"dense": (0, 1, 2), "residual": (0.5, 2, 1.5)}[layer]
    passed = []
    for _ in range(depth - 1):
        Ws = [variance ** (0.5 / count) * matrices(law, width, DRAWS, rng) for _ in range(count)]
        below = applied(Ws[1], z) if count > 1 else z
        mask = below > 0
        z = gamma * z + applied(Ws[0], mask * below)
        t = gamma * t + applied(Ws[0], mask * (applied(Ws[1], t) if count > 1 else t))
        passed.append((Ws, mask))
    for Ws, mask in reversed(passed):
        back = mask * applied(Ws[0].swapaxes(1, 2), u)
        u = gamma * u + (applied(Ws[1].swapaxes(1, 2), back) if count > 1 else back)
    last = [(v * v).sum(1) for v in (z, t, u)]
    ratios = np.stack([b / a for a, b in zip(first, last, strict=True)], axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(ratios))


def alive(logs: Array) -> Array:
    """Without the few networks of which a layer is all 0."""
    return np.asarray(logs[np.isfinite(logs).all(axis=1)])


@claim("deep", "22", "gradients of explicit networks, forwards and backwards", sampled=True)
def gradients(sampling: Sampling) -> Verdict:
    r"""$\log|Jt|^2$ and $\log|J^{\mathsf T}u|^2$ of $L - 1 = n = 12$ layers against $\log K$ of
    other networks of that width: means, variances, and how many are below its lower quartile.
    ReLU; dense layers with Gaussian, orthogonal and uniform weights, and residual orthogonal
    ones."""
    scores: list[float] = []
    errors: list[float] = []
    cases = [("dense", law) for law in ("gaussian", "orthogonal", "uniform")]
    for layer, law in [*cases, ("residual", "orthogonal")]:
        rng = np.random.default_rng(sampling.seed + len(scores))
        logs = alive(chained(layer, law, WIDTH + 1, rng))
        kernel = alive(chained(layer, law, WIDTH + 1, rng))[:, 0]
        quartile = np.quantile(kernel, 0.25)
        for own in logs[:, 1:].T:
            spread = np.hypot(own.std(), kernel.std()) / DRAWS**0.5
            relative = (4 / DRAWS) ** 0.5
            part = (2 * 0.25 * 0.75 / DRAWS) ** 0.5
            scores += [
                (own.mean() - kernel.mean()) / spread,
                np.log(own.var() / kernel.var()) / relative,
                (np.mean(own < quartile) - 0.25) / part,
            ]
            errors.append(relative)
    return scored(scores, errors, sampling.false_alarms, f"{DRAWS} networks of each of 4 kinds")


def behind_skips(width: int, depth: int, draws: int, rng: Rng) -> Array:
    """log of |z|² and |t|² of all layers of z + W relu(z) at γ = 1/2, in single precision: (draws,
    depth, 2).

    Given all layers before, Wσ(z) and Wσ'(z)t are Gaussian with the covariance of σ(z) and σ'(z)t.
    """
    z, t = rng.standard_normal((2, draws, width), np.float32)
    t -= z * ((t * z).sum(1) / (z * z).sum(1))[:, None]
    found = []
    for _ in range(depth):
        a, b = np.maximum(z, 0), np.where(z > 0, t, 0)
        aa, ab, bb = (1.5 / width * (x * y).sum(1)[:, None] for x, y in ((a, a), (a, b), (b, b)))
        g, h = rng.standard_normal((2, draws, width), np.float32)
        z = 0.5 * z + np.sqrt(aa) * g
        t = 0.5 * t + ab / np.sqrt(aa) * g + np.sqrt(bb - ab**2 / aa) * h
        found.append(np.log([(z * z).sum(1), (t * t).sum(1)]).T)
    return np.stack(found, axis=1).astype(float)


@claim("deep", "23", "a skip around one matrix: gradients differ less than K", sampled=True)
def remembered(sampling: Sampling) -> Verdict:
    r"""There $\sigma'(z)$ of a neuron is remembered for some layers, and so is $t$: with the
    Hermite coefficients $d_k$ of $\sigma'^2$ a direction $t\perp z$ has $s = 2(1-\gamma^4) +
    C_W^2\sum_k d_k^2k!\,\bigl(\frac{1+\gamma^k}{1-\gamma^k} +
    2\frac{1+\gamma^{k+2}}{1-\gamma^{k+2}}\bigr)$, less than that of $K$, which is that of $t = z$.
    The angle of $t$ and $z$ moves at $\ell\sim n$, so that $|t|^2$ is not log-normal there. Here $L
    = n/40$."""
    rng = np.random.default_rng(sampling.seed)
    blocks = [behind_skips(1600, 40, BLOCK, rng) for _ in range(DRAWS // 2 // BLOCK)]
    logs = np.concatenate(blocks)
    moved = (logs[:, -1] - logs[:, 9]).var(axis=0) * 1600 / 30  # the memory is at rest
    spread = walk(Network("relu", "gaussian(C_W=3/2)", layer="skip(1/2)")).spread
    expected = np.array([float(spread), directions(R(1, 2))])
    error = (4 / DRAWS) ** 0.5
    detail = f"{DRAWS // 2} networks, {moved[0]:.2f} and {moved[1]:.2f}"
    return scored((moved / expected - 1) / error, [error] * 2, sampling.false_alarms, detail)


def directions(gamma: sympy.Rational) -> float:
    """s of a direction t behind ReLU: d_k k! = φ(0) he_{k−1}(0) for odd k, Σ d_k² k! = 1/4."""
    weight = float(2 * (1 - gamma**2))
    total, left = 2 * (1 - float(gamma) ** 4), 0.25
    for k in range(1, 40, 2):
        own = float(sympy.factorial2(max(k - 2, -1)) ** 2 / sympy.factorial(k) / (2 * sympy.pi))
        a, b = float(gamma**k), float(gamma ** (k + 2))
        total += weight**2 * own * ((1 + a) / (1 - a) + 2 * (1 + b) / (1 - b))
        left -= own
    return total + weight**2 * 3 * left


@claim("deep", "24", "half of the networks are dead at this depth", sampled=True)
def dead(sampling: Sampling) -> Verdict:
    r"""A layer dies with the chance $2^{-n}$, given that those before live: at the depth of
    `half_dead` half of the gradients are exactly 0, with Gaussian and orthogonal weights."""
    scores = []
    for width in (4, 6):
        depth = round(deep.half_dead(Network("relu"), width))
        chance = 1 - (1 - 0.5**width) ** (depth - 1)
        for law in ("gaussian", "orthogonal"):
            rng = np.random.default_rng(sampling.seed + width)
            gone = np.isneginf(chained("dense", law, depth, rng, width)[:, 2])
            scores.append((gone.mean() - chance) / (chance * (1 - chance) / DRAWS) ** 0.5)
    return scored(scores, [DRAWS**-0.5], sampling.false_alarms, f"{DRAWS} networks of each kind")


@claim("deep", "21", "branches of variance 1/L: the same spread at every depth", sampled=True)
def commuting(sampling: Sampling) -> Verdict:
    r"""$n\operatorname{Var}\log K$ of $\gamma = 1$ and $C = 1/(L-1)$ is 2 from layer 1 and 2 from
    all branches, at $L/n$ from $\frac18$ to 8. With $C = (L-1)^{-1/2}$ and lengths kept it is $2 +
    2\sqrt L$. Both up to $O(C)$: sampled is $2 + s(L-2)$ at the derived $s$, up to $3/n$ of it,
    because $K$ of layer $L$ is averaged over the last matrix."""
    scores, errors, held = [], [], []
    for depth in (9, 33, 129, 513):
        small, between = R(1, depth - 1), 1 / sympy.sqrt(depth - 1)
        kept = layers.residual(skip=sympy.sqrt(1 - between / 2), C=(between, 1))
        for layer, grown in ((layers.residual(C=(small, 1)), 2), (kept, 2 * (depth - 1) ** 0.5)):
            net = Network("relu", layer=layer)
            made = deep.simulate(net, INPUT, 1, 64, 5000, depth=depth, seed=sampling.seed)
            found = 64 * np.log(made.values / made.start).var()
            away = abs(found / (2 + (depth - 2) * float(walk(net).spread)) - 1)
            error, off = (2 / 5000) ** 0.5, 3 / 64
            scores.append(max(away - off, 0) / error)
            errors.append(error + off / 5)  # a bound is 5 errors or more
            held.append(found < 5 if grown == 2 else found > grown)
    detail = "5000 networks of 64 neurons at each depth"
    return both(
        scored(scores, errors, sampling.false_alarms, detail),
        observed(held, "bounded at 1/L alone"),
    )
