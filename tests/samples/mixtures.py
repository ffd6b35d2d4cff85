"""Networks that mix activations, laws and layers, matrix by matrix, and what is derived of them.

Of one input each matrix meets one vector v. Entries that are independent are drawn, all n² of them;
of rotation-invariant laws W v = √(C|v|²/n) R u, with the law's R and u uniform on the unit sphere.
Given v, the even moments of (W v)_i are known at every width: by R, and by the cumulants of entries
that are independent. So

    c = (1/n) Σ_i (Π_a w_ai^{k_a} z_i^j − Π_a E w_ai^{k_a} z_i^j),    w_a = b + W_a v_a,

has mean 0, z being what a skip carries past the matrices. Slopes in all these c that half of the
networks show take out of the other half's means most of what fluctuates by n^{-1/2}. The last
matrix is averaged exactly. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from derive import (
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Rademacher,
    Sparse,
    Uniform,
    layers,
)
from numeric import flow

Array = NDArray[np.float64]
TENSORS = ("K", "G1", "V")
WIDTHS = (16, 32, 64)
C_B = 0.1
MOST, CROSSED = 6, 3
"""The highest power in c of a vector, and of what a skip carries."""
CHUNK = 1 << 15
"""Numbers of one layer that are held at a time."""

SIGMAS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "gelu": lambda z: z * special.ndtr(z),
    "relu": lambda z: np.maximum(z, 0.0),
    "erf": special.erf,
    "sin": np.sin,
    "linear": lambda z: z,
}
ROTATIONS = (Gaussian, Orthogonal, LowRankGaussian, LowRankOrthogonal)
ENTRIES = (Uniform, Rademacher, Sparse)
CUMULANTS = {Uniform: (-6 / 5, 48 / 7), Rademacher: (-2.0, 16.0)}
"""The fourth and the sixth of entries of variance 1."""
VARIANCES = ("3/4", 1, "5/4")


class Block(NamedTuple):
    """A layer of so many matrices, 1 dense, 2 residual, 3 gated, with its activation and laws.

    Its laws are its own if it is `bound`, and the network's otherwise.
    """

    laws: tuple[object, ...]
    sigma: str
    skip: Fraction = Fraction()
    norm: str | None = None
    bound: bool = False

    @property
    def layer(self) -> layers.Layer:
        """What the network has."""
        own = {}
        if self.bound:
            names = ["W"] if len(self.laws) == 1 else [f"W{k + 1}" for k in range(len(self.laws))]
            laws = dict(zip(names, self.laws, strict=True))
            own = {"weights": laws, "activations": self.sigma}
        if len(self.laws) > 1:
            make = layers.residual if len(self.laws) == 2 else layers.gated
            return make(skip=str(self.skip), norm=self.norm, **own)
        return layers.normalized(self.norm, **own) if self.norm else layers.dense(**own)


class Mixture(NamedTuple):
    """The law of layer 1, and the layers behind it."""

    first: object
    blocks: tuple[Block, ...]

    @property
    def depth(self) -> int:
        """Layers of preactivations."""
        return 1 + len(self.blocks)

    @property
    def net(self) -> Network:
        """The network."""
        sigmas = ["linear" if each.bound else each.sigma for each in self.blocks]
        laws = [Gaussian() if each.bound else each.laws[0] for each in self.blocks]
        plain = all(each == Block(each.laws[:1], each.sigma) for each in self.blocks)
        shapes = "dense" if plain else [each.layer for each in self.blocks]
        return Network(sigmas, [self.first, *laws], C_b="1/10", layer=shapes)

    def theory(self) -> Array:
        """K, G1 and V of the last layer, for an input of length √n in n dimensions."""
        n = WIDTHS[-1]
        table = flow(self.net, np.ones(n), self.depth, TENSORS, width=n).isel(layer=-1)
        return np.array([float(table[name]) for name in TENSORS])


def mixtures(count: int, seed: int) -> list[Mixture]:
    """So many, by turns with independent weights between dense layers and with other layers."""
    return [_mixture(np.random.default_rng([seed, k]), k % 2 == 0) for k in range(count)]


def _mixture(rng: np.random.Generator, dense: bool) -> Mixture:
    if dense:
        behind = ROTATIONS + ENTRIES
        blocks = [_dense(rng, behind) for _ in range(rng.integers(3, 6))]
        return Mixture(_law(rng, ROTATIONS[:2] + ENTRIES), tuple(blocks))
    blocks = [_block(rng, above) for above in (False, *[True] * rng.integers(1, 3))]
    return Mixture(_law(rng, ROTATIONS), tuple(blocks))


def _law(rng: np.random.Generator, kinds: Sequence[type]) -> object:
    kind = kinds[rng.integers(len(kinds))]
    C_W = VARIANCES[rng.integers(len(VARIANCES))]
    if kind is Sparse:
        return Sparse("1/2", C_W=C_W)
    return kind(C_W, gamma="1/2") if kind in ROTATIONS[2:] else kind(C_W)


def _sigma(rng: np.random.Generator) -> str:
    return list(SIGMAS)[rng.integers(len(SIGMAS))]


def _dense(rng: np.random.Generator, kinds: Sequence[type]) -> Block:
    return Block((_law(rng, kinds),), _sigma(rng))


def _block(rng: np.random.Generator, above: bool) -> Block:
    """Without a skip a norm forgets what is below: there is none of these above other layers."""
    count, bound = int(rng.integers(1, 4)), bool(rng.integers(2))
    laws = tuple(_law(rng, ROTATIONS) for _ in range(count))
    laws = laws if bound else laws[:1] * count
    norm = ("rms", "layer")[rng.integers(2)] if count > 1 or not above else None
    return Block(laws, _sigma(rng), Fraction(count > 1, 2), norm, bound)


class Known(NamedTuple):
    """Of vectors w given what is below: E w_i², E w_i⁴ and E w_i⁶, and E w_i² w_j², (networks, 1)
    each."""

    even: tuple[Array, Array, Array]
    pairs: Array

    def moment(self, k: int) -> Array | float:
        """E w_i^k: odd ones are 0."""
        return float(k == 0) if k == 0 or k % 2 else self.even[k // 2 - 1]

    @property
    def biased(self) -> Known:
        """Of b + w."""
        c, (two, four, six) = C_B, self.even
        even = (
            c + two,
            3 * c**2 + 6 * c * two + four,
            15 * c**3 + 45 * c**2 * two + 15 * c * four + six,
        )
        return Known(even, c**2 + 2 * c * two + self.pairs)


def cumulants(law: object) -> tuple[float, float]:
    """The fourth and the sixth of entries of variance 1: x = μ g/√p of sparse ones."""
    if isinstance(law, Sparse):
        p = float(law.p)
        return 3 / p - 3, 15 / p**2 - 45 / p + 30
    return CUMULANTS[type(law)]


def known(law: object, v: Array) -> Known:
    """Of W v."""
    kind, n, C = type(law), v.shape[1], float(law.C_W)
    q = C * (v**2).mean(axis=1, keepdims=True)
    if kind in ENTRIES:
        four, six = (
            cumulant * (C / n) ** (k / 2) * (v**k).sum(axis=1, keepdims=True)
            for cumulant, k in zip(cumulants(law), (4, 6), strict=True)
        )
        return Known((q, 3 * q**2 + four, 15 * q**3 + 15 * q * four + six), q**2)
    whole, part = (np.array([_rising(a, k) / a**k for k in (1, 2, 3)]) for a in (n, n // 2))
    radius = {Gaussian: whole, LowRankGaussian: part, LowRankOrthogonal: part / whole}
    one, two, three = radius.get(kind, np.ones(3)) / whole
    return Known((one * q, 3 * two * q**2, 15 * three * q**3), two * q**2)


def _rising(n: int, k: int) -> int:
    """n (n + 2) … of k factors."""
    return math.prod(n + 2 * j for j in range(k))


def applied(law: object, v: Array, rng: np.random.Generator) -> Array:
    """W v with a matrix for each row of v; low ranks are n/2."""
    kind, n, size = type(law), v.shape[1], (len(v), 1)
    if kind in ENTRIES:
        return _entries(law, v * math.sqrt(float(law.C_W) / n), rng)
    g, r = rng.standard_normal(v.shape), n // 2
    if kind is not Gaussian:
        g *= np.sqrt(n / (g**2).sum(axis=1, keepdims=True))
    if kind is LowRankGaussian:
        g *= np.sqrt(rng.chisquare(r, size) / r)
    if kind is LowRankOrthogonal:
        g *= np.sqrt(rng.beta(r / 2, (n - r) / 2, size) * n / r)
    return g * np.sqrt(float(law.C_W) * (v**2).mean(axis=1, keepdims=True))


def _entries(law: object, v: Array, rng: np.random.Generator) -> Array:
    """With entries of variance 1, drawn one by one."""
    shape = len(v), v.shape[1], v.shape[1]
    if isinstance(law, Uniform):
        W = (rng.random(shape, np.float32) - np.float32(0.5)) * np.float32(math.sqrt(12))
    elif isinstance(law, Rademacher):
        W = 2 * _bits(shape, rng) - 1
    else:
        W = rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(law.p))
        for _ in range(round(-math.log2(law.p))):
            W *= _bits(shape, rng)
    return (W @ v.astype(np.float32)[..., None])[..., 0].astype(float)


def _bits(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """0 or 1, each with a chance of a half."""
    bits = np.frombuffer(rng.bytes(math.prod(shape) // 8), np.uint8)
    return np.unpackbits(bits).reshape(shape).astype(np.float32)


Field = tuple[Array, Known]
"""w and its moments."""


def controls(*fields: Field, carried: Array | None = None) -> Iterator[Array]:
    """c of these vectors, (networks,) each, and of what a skip carries past them.

    Of two vectors the first is a gate's factor, which enters what is above by its square.
    """
    w, moments = fields[-1]
    factors = [(1.0, 1.0)] if carried is None else [(z, z) for z in powers(carried, CROSSED)]
    if len(fields) == 2:
        factors = [(fields[0][0] ** 2, fields[0][1].even[0])]
    for j, (beside, mean) in enumerate(factors):
        for k, each in enumerate(powers(w, MOST - j)):
            if k or len(fields) == 2:
                yield (each * beside - moments.moment(k) * mean).mean(axis=1)


def powers(w: Array, most: int) -> list[Array]:
    """w⁰, w¹, …"""
    return list(accumulate(repeat(w, most), np.multiply, initial=np.ones_like(w)))


def normed(z: Array, norm: str | None) -> Array:
    """y."""
    if norm == "layer":
        z = z - z.mean(axis=1, keepdims=True)
    return z if norm is None else z / np.sqrt((z**2).mean(axis=1, keepdims=True))


def networks(
    mixture: Mixture, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Array, Array]:
    """E Σ z²/n and E Σ_{i≠j} z_i² z_j²/(n(n−1)) of the last layer given what is below, and all c:
    (networks, …)."""
    v, c, z = np.ones(shape), [], np.zeros(shape)
    laws = mixture.first, *(each.laws[-1] for each in mixture.blocks)
    skips = 0.0, *(float(each.skip) for each in mixture.blocks)
    for block, law, skip in zip(mixture.blocks, laws, skips, strict=False):
        b = math.sqrt(C_B) * rng.standard_normal(shape)
        moved = b + applied(law, v, rng), known(law, v).biased
        c += controls(moved, carried=z if skip else None)
        z = skip * z + moved[0]
        y, sigma = normed(z, block.norm), SIGMAS[block.sigma]
        fields = [(applied(each, y, rng), known(each, y)) for each in block.laws[:-1]]
        c += controls(*fields) if fields else []
        v = sigma(fields[-1][0] if fields else y)
        if len(fields) == 2:
            v *= fields[0][0]
    moments, gamma, n = known(laws[-1], v).biased, skips[-1], shape[1]
    square, pairs = (each[:, 0] for each in (moments.even[0], moments.pairs))
    own = (z**2).mean(axis=1)
    both = (n * own**2 - (z**4).mean(axis=1)) / (n - 1)
    pairs = gamma**4 * both + 2 * gamma**2 * own * square + pairs
    return np.stack([gamma**2 * own + square, pairs], axis=1), np.stack(c, axis=1)


class Estimates(NamedTuple):
    """E Σ z²/n and V at each width, with their standard errors, (widths,) each."""

    K: Array
    K_se: Array
    V: Array
    V_se: Array


def sampled(mixture: Mixture, draws: int, seed: int) -> Estimates:
    """So many networks of each width."""
    rows = [_sampled(mixture, n, draws, np.random.default_rng([seed, n])) for n in WIDTHS]
    return Estimates(*np.array(rows).T)


def _sampled(
    mixture: Mixture, n: int, draws: int, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    size = CHUNK // n
    parts = [networks(mixture, (size, n), rng) for _ in range(-(-draws // size))]
    y, c = (np.concatenate(each) for each in zip(*parts, strict=True))
    deviations = c.std(axis=0)
    kept = deviations > 1e-9  # of a frame without biases Σ w² is known
    c = c[:, kept] / deviations[kept]
    half = len(y) // 2
    halves = slice(None, half), slice(half, None)
    left = [y[own] - c[own] @ _slopes(c[o], y[o]) for own, o in (halves, halves[::-1])]
    (K, pairs), own = np.concatenate(left).mean(axis=0), np.cov(*np.concatenate(left).T) / len(y)
    slopes = np.array([-2 * K, 1.0])
    return (
        K,
        math.sqrt(own[0, 0]),
        n * (pairs - K**2 + own[0, 0]),
        n * math.sqrt(slopes @ own @ slopes),
    )


def _slopes(c: Array, y: Array) -> Array:
    """Of y in c, by least squares."""
    c = c - c.mean(axis=0)
    return np.linalg.lstsq(c.T @ c, c.T @ (y - y.mean(axis=0)), rcond=1e-10)[0]


class Limits(NamedTuple):
    """K, G1 and V of infinite width with their standard errors."""

    values: Array
    errors: Array


def limits(found: Estimates, K: float) -> Limits:
    """By the parabola in 1/n through three widths, G1 beside this K."""
    widths = np.array(WIDTHS)
    fit = np.linalg.inv(np.vander(1 / widths, 3, increasing=True))[0]
    values = found.K, widths * (found.K - K), found.V
    errors = found.K_se, widths * found.K_se, found.V_se
    return Limits(
        np.array([fit @ each for each in values]),
        np.array([math.sqrt(((fit * each) ** 2).sum()) for each in errors]),
    )
