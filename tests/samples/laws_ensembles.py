"""Networks of laws that permutations keep, many for each matrix, with innovations of mean zero.

A matrix W is as good with its columns permuted and their signs flipped, so that each of B networks
meets its own such W: their vectors, of random signs and places, are nearly orthogonal, the networks
nearly independent, and the B of one set of matrices count as one number of the average.

Of independent entries the neurons of a layer are independent, given what is below. Beside
z = b + W x stands u = b + W y, y the vector of quantiles of |σ| with the signs of x in the order of
|x|: it does not depend on what is below but by its order, so that the u_i are independent of that
and of each other. E f(u) is had from the product of the entries' characteristic functions. Where a
law is normal given something else, u = b + √q g with its normal g. Then

    c = (1/n) Σ_i (f(u_i) − E f)    and    c c' − (1/n²) Σ_i (f − E f)(f' − E f')(u_i)

are 0 on average at every width, for f = σ², u (σ²)' and their kin at all layers below: networks
apart from the others tell by least squares what of K and V they explain. Derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy
import xarray
from innovated import Part
from scipy import special

from derive import (
    Network,
    Orthogonal,
    Permuted,
    Rademacher,
    RegularSparse,
    Sparse,
    StudentT,
    TruncatedNormal,
    Uniform,
)
from derive.weights import FourMoments
from numeric import flow
from numeric.random import weight_matrix
from numeric.tables import layout

CHUNK = 8192
PILOT = 8192
"""Networks that tell the slopes."""
_OFFSET = 1 << 40
TOGETHER = {True: 128, False: 64}
"""Networks of one set of matrices, of 128 neurons and more and of fewer."""
U = np.linspace(-14.0, 14.0, 5601)
"""Where a law of variance 1 is integrated, by the trapezoidal rule."""
NORMAL = np.exp(-(U**2) / 2) / np.sqrt(2 * np.pi)


def _gelu(z: Any) -> tuple[Any, Any]:
    below = special.ndtr(z)
    return z * below, below + z * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def _tanh(z: Any) -> tuple[Any, Any]:
    t = np.tanh(z)
    return t, 1 - t**2


SIGMAS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "tanh": _tanh,
    "gelu": _gelu,
    "relu": lambda z: (np.maximum(z, 0.0), (z > 0) * 1.0),
}
"""σ and σ'."""


def characteristic(law: Any, t: np.ndarray) -> np.ndarray:
    """E cos(t x) of an entry x of variance 1."""
    if isinstance(law, Uniform):
        return np.sinc(np.sqrt(3) * t / np.pi)
    if isinstance(law, Rademacher):
        return np.cos(t)
    if isinstance(law, Sparse) and law.of is None:
        p = float(law.p)
        return 1 - p + p * np.exp(-(t**2) / (2 * p))
    if isinstance(law, StudentT):
        nu = float(law.nu)
        s = np.maximum(np.sqrt(nu - 2) * np.abs(t), 1e-12)
        return special.kv(nu / 2, s) * s ** (nu / 2) / special.gamma(nu / 2) * 2 ** (1 - nu / 2)
    if isinstance(law, TruncatedNormal):
        nodes, weights = np.polynomial.legendre.leggauss(80)
        x = float(law.cut) * nodes
        weights = weights * np.exp(-(x**2) / 2)
        return np.cos(t[..., None] * x / float(law.scale)) @ (weights / weights.sum())
    raise TypeError(law)


def density(law: Any, y: np.ndarray, C_b: float) -> np.ndarray:
    """Of b + Σ_j x_j y_j at √v U, times √v, v its variance: x independent of this law."""
    v = C_b + (y**2).sum()
    top = np.sqrt(2 * 37 * v / C_b)  # beyond, the biases leave nothing of it
    t = np.arange(0.0, top, np.pi / (1.5 * U[-1]))
    phi = np.exp(-C_b * t**2 / (2 * v))
    for each in y:
        phi = phi * characteristic(law, t * each / np.sqrt(v))
    phi[0] /= 2
    return np.cos(np.outer(U, t)) @ phi / (1.5 * U[-1])


def correlations(law: Any, y: np.ndarray, C_b: float, f: Callable[[Any], Any]) -> np.ndarray:
    """E[x_j f'(u)], u = b + Σ_j x_j y_j, of each j: the derivative of E f(u) by y_j."""
    v = C_b + (y**2).sum()
    t = np.arange(0.0, np.sqrt(2 * 37 * v / C_b), np.pi / (1.5 * U[-1]))
    each = t[:, None] * y / np.sqrt(v)
    values, step = characteristic(law, each), 1e-2
    near, far = (
        characteristic(law, each + k * step) - characteristic(law, each - k * step) for k in (1, 2)
    )
    slopes = (8 * near - far) / (12 * step)
    ones = np.ones((len(t), 1))
    before = np.cumprod(np.hstack([ones, values[:, :-1]]), axis=1)
    after = np.cumprod(np.hstack([ones, values[:, :0:-1]]), axis=1)[:, ::-1]
    phi = (t * np.exp(-C_b * t**2 / (2 * v)) / np.sqrt(v))[:, None] * slopes * before * after
    moved = np.cos(np.outer(U, t)) @ phi / (1.5 * U[-1])
    return f(np.sqrt(v) * U) @ moved * (U[1] - U[0])


def mean(values: np.ndarray, weights: np.ndarray) -> float:
    """∫ f p of a law on `U`."""
    return float(values @ weights) * (U[1] - U[0])


class Layer(NamedTuple):
    """What one layer's networks come to: E z_i² and E z_i² z_k² over its weights, (B,), and
    centred functions of neurons, (functions, n, B), and what else has the mean 0, (others, B)."""

    square: np.ndarray
    four: np.ndarray
    functions: np.ndarray
    others: np.ndarray


@dataclass(frozen=True)
class Laws:
    """Networks of one width, C_b above 0 and the same C_W in all layers, one input of length √n_0.

    Arguments:
        net: with independent or permuted weights, or dropout or skips around one matrix of
            Gaussian or orthogonal ones; its first layer Gaussian of C_W = 1.
        scales: of the columns of `Permuted` weights.
    """

    net: Network
    inputs: np.ndarray
    n: int
    depth: int
    seed: int = 1
    gamma: float = 0.0
    norm: str | None = None
    scales: Callable[[int], np.ndarray] | None = None
    _slopes: dict[int, np.ndarray] = field(default_factory=dict)

    @cached_property
    def C_b(self) -> float:
        """The biases' variance."""
        return float(self.net.C_b)

    @cached_property
    def C_W(self) -> float:
        """The weights'."""
        return float(self.net.weights.C_W)

    @cached_property
    def K(self) -> np.ndarray:
        """Of layers 1 … depth."""
        return flow(self.net, self.inputs, self.depth, ["K"])["K"].to_numpy()

    @property
    def together(self) -> int:
        """B."""
        return TOGETHER[self.n >= 128]

    def sigma(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """σ and (σ²)'."""
        s, slope = SIGMAS[self.net.activation.name](z)
        return s, 2 * s * slope

    def layers(self, number: int) -> Iterator[Layer]:
        """Layers 2 … depth, each with the functions of the layer below it."""
        rng = np.random.default_rng([self.seed, self.n, number])
        is_matrix = self.net.weights.group == "B"
        return self._of_matrices(rng) if is_matrix else self._of_rotations(rng)

    @cached_property
    def _known(self) -> list[tuple[np.ndarray, float, np.ndarray, np.ndarray]]:
        """Of each layer below the last its law of u on `U`, its deviation, |y|'s quantiles and
        E[w_j (σ²)'(u)] one layer later."""
        law, found, weights, spread = self.net.weights, [], NORMAL, np.sqrt(self.K[0])
        for _ in range(1, self.depth):
            s = np.abs(self.sigma(spread * U)[0])
            order = np.argsort(s)
            steps = np.cumsum(weights[order])
            at = (np.arange(self.n) + 0.5) / self.n
            y = np.interp(at, steps / steps[-1], s[order])
            own, spread_below = weights, spread
            spread, size = np.sqrt(self.C_b + self.C_W * (y**2).mean()), np.sqrt(self.C_W / self.n)
            h = np.zeros(self.n)
            if not isinstance(law, FourMoments):
                weights = density(law, y * size, self.C_b)
                h = size * correlations(law, y * size, self.C_b, lambda u: self.sigma(u)[0] ** 2)
            found.append((own, spread_below, y, h))
        return found

    def _of_matrices(self, rng: np.random.Generator) -> Iterator[Layer]:
        n, B, law = self.n, self.together, self.net.weights
        widths = sympy.Integer(n), sympy.Integer(n)
        if isinstance(law, FourMoments):
            column, apart, around = (float(each) for each in law.moments(*widths)[2:])
        else:
            column, apart, around = 1 / n**2, 1 / n**2, 0.0
        z = u = np.sqrt(self.K[0]) * rng.standard_normal((n, B))
        others, wy = np.zeros((0, B)), None
        for weights, spread, y, h in self._known:
            s, _ = self.sigma(z)
            S, S4 = (s**2).sum(0), (s**4).sum(0)
            q = self.C_W * S / n
            pairs = column * S4 + (apart + 2 * around) * (S**2 - S4)
            four = self.C_b**2 + 2 * self.C_b * q + self.C_W**2 * pairs
            yield Layer(self.C_b + q, four, self._functions(u, wy, spread, weights), others)
            rank = rng.permuted(np.tile(np.arange(n)[:, None], (1, B)), axis=0)
            signs = rng.choice([-1.0, 1.0], (n, B))
            x = np.take_along_axis(np.sort(np.abs(s), axis=0), rank, 0)
            b = np.sqrt(self.C_b) * rng.standard_normal((n, B))
            if isinstance(law, Permuted):
                c = np.sqrt(self.C_W) * self.scales(n)[:, None]
                W = np.sqrt(self.C_W) * law.matrix(n, n, rng)
                v = ((c * x) ** 2).sum(0) * np.ones((n, 1))
            else:
                W = weight_matrix(law, (n, n), rng)
                v = None
            if isinstance(law, RegularSparse):
                v = self.C_W / (float(law.p) * n) * ((W != 0) * 1.0) @ x**2
            wx = W @ (signs * x)
            if v is None:
                wy = W @ (signs * y[rank])
            else:
                wy = wx / np.sqrt(v) * np.sqrt(self.C_W * (y**2).mean())
            z, u = b + wx, b + wy
            slope = self.sigma(u)[1]
            if v is None:
                others = (slope * (z - u)).mean(0) - ((x - y[rank]) * h[rank]).sum(0)
            else:
                # v_i is independent of the normal in u_i, and its mean over W that over neurons
                others = ((v - self.C_W * (x**2).mean(0)) * wy * slope).mean(0)
            others = others[None]

    def _functions(
        self, u: np.ndarray, wy: np.ndarray | None, spread: float, weights: np.ndarray
    ) -> np.ndarray:
        s, slope = self.sigma(u)
        of_law, slope_of_law = self.sigma(spread * U)
        response, moving = mean(spread * U * slope_of_law, weights), u
        if wy is not None and isinstance(self.net.weights, FourMoments):
            # of normal u: E[wy f(u)] = E[u wy] E[u f(u)]/E u²
            moving, response = wy, (1 - self.C_b / spread**2) * response
        return np.array([s**2 - mean(of_law**2, weights), moving * slope - response])

    def _of_rotations(self, rng: np.random.Generator) -> Iterator[Layer]:
        n, B, C_b, C_W, gamma = self.n, self.together, self.C_b, self.C_W, self.gamma
        haar = isinstance(self.net.weights, Orthogonal)
        keep = self.net.layer.keep
        p = float(keep[0][1]) if keep else 1.0
        z = u = np.sqrt(self.K[0]) * rng.standard_normal((n, B))
        normals: list[tuple[np.ndarray, float]] = []
        """g of each W so far, and its deviation in u."""
        for at in range(self.depth - 1):
            K, size = self.K[at], 1.0 if self.norm is None else np.sqrt(self.K[at])
            x = z
            if self.norm is not None:
                x = z - z.mean(0) if self.norm == "layer" else z
                x = x / np.sqrt((x**2).mean(0))
            s, _ = self.sigma(x)
            S, S4, A = (s**2).sum(0) / p, (s**4).sum(0), (z**2).sum(0)
            q = C_W * S / n
            both = q**2 + C_W**2 * (1 - p) / (n**2 * p**3) * S4
            y4 = C_b**2 + 2 * C_b * q + both * (n / (n + 2) if haar else 1.0)
            carried = gamma**4 * (A**2 - (z**4).sum(0)) / (n * (n - 1))
            four = carried + 2 * gamma**2 * A / n * (C_b + q) + y4
            masks = (rng.random((n, B)) < p) / p
            yield Layer(
                gamma**2 * A / n + C_b + q,
                four,
                self._of_layer(u, normals, size, K, masks if p < 1 else None),
                np.zeros((0, B)),
            )
            limit = C_W * mean(self.sigma(np.sqrt(K) / size * U)[0] ** 2, NORMAL) / p
            g, b = rng.standard_normal((n, B)), np.sqrt(C_b) * rng.standard_normal((n, B))
            own = g / np.sqrt((g**2).mean(0)) if haar else g
            z = gamma * z + b + np.sqrt(C_W * ((masks * s) ** 2).mean(0)) * own
            u = gamma * u + b + np.sqrt(limit) * g
            normals = [(each, gamma * of_g) for each, of_g in normals if gamma]
            normals.append((g, np.sqrt(limit)))

    def _of_layer(
        self,
        u: np.ndarray,
        normals: Sequence[tuple[np.ndarray, float]],
        size: float,
        K: float,
        masks: np.ndarray | None,
    ) -> np.ndarray:
        s, slope = self.sigma(u / size)
        of_law, slope_of_law = self.sigma(np.sqrt(K) / size * U)
        found = [s**2 - mean(of_law**2, NORMAL)]
        if masks is not None:
            found.append((masks - 1) * s**2)
        response = mean(np.sqrt(K) * U * slope_of_law, NORMAL)
        if self.gamma:
            found += [u**2 - K, u * slope - response]
            if self.norm == "layer":
                found += [u, slope - mean(slope_of_law, NORMAL)]
        for g, of_g in normals:
            # E[g f(u)] = E[u g] E[u f(u)]/K
            found.append(g * slope - of_g * response / K)
        for g, of_g in normals[-1:] if isinstance(self.net.weights, Orthogonal) else ():
            found += [g**2 - 1, u * g - of_g]
        return np.array(found)

    def drawn(self, number: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Of layers 2 … depth targets K_n − K and M − K² − 2K (K_n − K), (B, 2), and controls."""
        layers = list(self.layers(number))
        of = np.repeat(np.arange(len(layers)), [len(each.functions) for each in layers])
        f = np.concatenate([each.functions for each in layers]).transpose(2, 0, 1)
        c = f.mean(2)
        products = c[:, :, None] * c[:, None] - f @ f.transpose(0, 2, 1) / self.n**2
        others: list[np.ndarray] = []
        for at, (K, layer) in enumerate(zip(self.K[1:], layers, strict=True)):
            below = np.count_nonzero(of <= at)
            some = np.triu_indices(below)
            others += list(layer.others)
            off = layer.square - K
            y = np.column_stack([off, layer.four - K**2 - 2 * K * off])
            yield y, np.column_stack([c[:, :below], products[:, some[0], some[1]], *others])

    def slopes(self) -> dict[int, np.ndarray]:
        """β of each layer, from the pilot."""
        if not self._slopes:
            blocks = range(_OFFSET, _OFFSET + PILOT // self.together)
            for at, each in enumerate(zip(*map(self.drawn, blocks), strict=True)):
                y, c = (np.concatenate(some) for some in zip(*each, strict=True))
                scale = np.maximum(c.std(0), 1e-300)
                found = np.linalg.lstsq(c / scale, y - y.mean(0), rcond=1e-8)[0]
                self._slopes[at] = found / scale[:, None]
        return self._slopes

    def part(self, number: int) -> Part:
        """Averages of the networks of this chunk, and their covariances; nothing at layer 1."""
        slopes, count = self.slopes(), CHUNK // self.together
        found = np.zeros((count, self.depth, 2))
        for k in range(count):
            for at, (y, c) in enumerate(self.drawn(number * count + k)):
                found[k, at + 1] = y.mean(0) - c.mean(0) @ slopes[at]
        covariances = [np.cov(found[:, at], rowvar=False) / count for at in range(self.depth)]
        return Part(CHUNK, found.mean(0), np.array(covariances))

    def table(self, parts: Sequence[Part]) -> xarray.Dataset:
        """K, G1 and V, as `simulate` has them."""
        share = 1 / len(parts)
        off, v = sum(share * each.values for each in parts).T
        own = sum(share**2 * each.covariances for each in parts)
        slopes = np.stack([-2 * off, np.ones_like(off)], axis=1)
        errors = np.sqrt(np.einsum("la,lab,lb->l", slopes, own, slopes))
        V, of_K = v - off**2 + own[:, 0, 0], np.sqrt(own[:, 0, 0])
        n = self.n
        arrays = {
            "K": (self.K + off, of_K),
            "G1": (n * off, n * of_K),
            "V": (n * V, n * errors),
        }
        variables = {}
        for name, pair in arrays.items():
            for suffix, each in zip(("", "_se"), pair, strict=True):
                variables[name + suffix] = xarray.Variable(("layer",), each)
        draws = sum(each.draws for each in parts)
        about = {"width": n, "draws": draws, "seed": self.seed, "sampler": "laws"}
        about["blocks"] = draws // self.together
        return layout.dataset(
            variables, range(1, self.depth + 1), about, net=self.net, inputs=self.inputs
        )
