# %% [markdown]
# # Gradients, and the same batch norm with any activation
#
# The source asks what its results become with activations, and what gradients do. With the mean
# taken off and without an ε, a row of $z$ behind batch norm is a direction, even on a sphere in
# $m-1$ dimensions. That gives the fixed point and the growth of gradients of Yang, Pennington, Rao,
# Sohl-Dickstein and Schoenholz (2019) as integrals over directions. `numeric.propagation` has them
# from the recursions of any layer. The growth's variance over initializations is new.

# %%
"""Fixed points and gradients of batch norm with any activation, beside source 003: Yang et al.
(1902.08129) and Meterez et al. (2310.02012), derived; variances derived here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy
import xarray
from numpy.typing import NDArray

from derivations.claims import Sampling, Verdict, both, claim, close, equal, observed, sampled
from derivations.daneshmand import ensembles, moments
from derivations.daneshmand.large_width import deviation, deviation_of, over_sphere
from derivations.moments.blocks import Blocks
from derive import Exchangeable, Gaussian, Network, activations, batchnorm, recursion
from derive.activations.functions import Activation, as_activation
from derive.work.caches import cache
from numeric import compare, flow, propagation
from numeric.arrays import Array
from numeric.random.matrices import frames
from numeric.runs import chunks
from numeric.tables import layout

R = sympy.Rational
BATCHES = (4, 5, 8, 16, 64, 256)
SMOOTH = ("tanh", "sin", "erf_unit_slope", "gelu")
NODES = 300
"""Of a quadrature over directions, along each of two."""
m = sympy.Symbol("m", integer=True, positive=True)


REST = 40
"""Layers behind which K is at rest, to the last digit."""


@cache
def fixed(name: str, size: int, C_W: float = 1) -> xarray.Dataset:
    """The fixed point of a batch behind batch norm, with all that is linear around it."""
    net = Network(name, Gaussian(C_W), layer="batchnorm")
    return propagation.fixed_points(net, Exchangeable(size, 1, R(1, 2)))


@cache
def kernels(name: str, size: int, C_W: float = 1) -> tuple[Array, Array]:
    """(q, p) of each layer behind batch norm, and by how much a gradient grows in each: without the
    parameters of later layers, Θ has their gradients' squares alone, and its part along 1 is 0."""
    net = Network(
        name, Gaussian(C_W), layer="batchnorm", lambda_W=lambda layer: int(layer == 1), lambda_b=0
    )
    table = flow(net, Exchangeable(size, 1, R(1, 2)), REST, ["K", "Theta"])
    Theta = table["Theta"].to_numpy()
    part = Theta[:, 0] - Theta[:, 1]
    return table["K"].to_numpy(), part[1:] / part[:-1]


def at_rest(name: str, size: int, C_W: float = 1) -> list[float]:
    """q*, p* and χ from the recursions."""
    K, growths = kernels(name, size, C_W)
    return [*K[-1].tolist(), float(growths[-1])]


# %% [markdown]
# ## One factor per layer
#
# With $P=1-\frac1m11^\top$, $v$ the variance over the batch and $y=Pz/\sqrt v$,
# $$\frac{\partial y_a}{\partial z_c}=\frac1{\sqrt v}\Big(P_{ac}-\frac{y_ay_c}m\Big),\qquad
# \sum_c\frac{\partial\sigma(y_a)}{\partial z_c}\frac{\partial\sigma(y_b)}{\partial z_c}
# =\frac{\sigma'_a\sigma'_b}v\Big(P_{ab}-\frac{y_ay_b}m\Big),$$
# as $Py=y$ and $y\cdot y=m$. The direction $y$ and $v$ are independent, and $mv/(q-p)$ is a
# $\chi^2$ of $m-1$ dimensions, so that $\langle1/v\rangle=m/((m-3)(q-p))$. A gradient has no part
# along $1$, so that its covariance over the batch is a multiple of $P$, and grows by
# $$\chi=\frac{C_W}{(m-3)(q-p)}\left(\langle\sigma_1'^2(m-1-y_1^2)\rangle
# +\langle\sigma_1'\sigma_2'\,(1+y_1y_2)\rangle\right),\qquad
# q-p=C_W\langle\sigma_1^2-\sigma_1\sigma_2\rangle .$$


# %%
def growth(
    slopes: sympy.Expr,
    bent: sympy.Expr,
    both_slopes: sympy.Expr,
    mixed: sympy.Expr,
    gap: sympy.Expr,
) -> sympy.Expr:
    """χ from ⟨σ'²⟩, ⟨σ'² y²⟩, ⟨σ'₁σ'₂⟩, ⟨σ'₁σ'₂ y₁y₂⟩ and ⟨σ₁² − σ₁σ₂⟩."""
    inside = ((m - 1) * slopes - bent + both_slopes + mixed) / m
    return m / (m - 3) * inside / gap


RHO = -1 / (m - 1)
"""⟨y_1y_2⟩ of an even direction with ⟨y²⟩ = 1."""


def linear_growth() -> sympy.Expr:
    """χ of σ = z."""
    return sympy.factor(growth(sympy.S.One, sympy.S.One, sympy.S.One, RHO, 1 - RHO))


def arc_cosine() -> tuple[sympy.Expr, sympy.Expr]:
    """⟨σ'₁σ'₂⟩ and ⟨σ₁σ₂⟩ of ReLU: y is as a normal vector of correlations ρ but for its length."""
    below = sympy.pi - sympy.acos(RHO)
    return below / (2 * sympy.pi), (sympy.sqrt(1 - RHO**2) + RHO * below) / (2 * sympy.pi)


def relu_growth() -> sympy.Expr:
    """χ of ReLU."""
    both_slopes, mixed = arc_cosine()
    half = R(1, 2)
    return growth(half, half, both_slopes, mixed, half - mixed)


@claim("003", "Gradients (linear)", "σ = z: gradients grow by (m − 2)/(m − 3)")
def linear() -> Verdict:
    r"""Yang et al.: $K^*=C_W\frac m{m-1}P$, and $\chi=\frac{m-2}{m-3}$, at every $m$ by symbols.
    The recursions have both at m = 4 to 256, and their kernel forgets q and p in one layer."""
    found, expected = [], []
    for size in BATCHES:
        for C_W in (1, 3) if size == 8 else (1,):
            found += at_rest("linear", size, C_W)
            chi = float(linear_growth().subs(m, size))
            expected += [C_W, -C_W / (size - 1), chi]
    layers = [kernels("linear", size)[0] for size in BATCHES]
    rests = [np.abs(K[1:] - K[-1]).max() < 1e-10 for K in layers]
    rests.append(abs(fixed("linear", 5)["kernel_rate"]).max() < 1e-10)
    return both(
        equal(linear_growth(), (m - 2) / (m - 3), "from the moments of a direction"),
        close(found, expected, 9, "q*, p* and χ from the recursions, m = 4 to 256"),
        observed(list(map(bool, rests)), "at rest in layer 2; eigenvalues of (q, p) below 1e-10"),
    )


@claim("003", "Gradients (ReLU)", "ReLU: the fixed point, and π/(π − 1) for large batches")
def relu() -> Verdict:
    r"""Yang et al.: $q^*=\frac12C_W$, $p^*$ that of the arc-cosine kernel at the correlation
    $-\frac1{m-1}$, and $\chi\to\frac\pi{\pi-1}=1.467$ for $m\to\infty$, by symbols; at m = 4 to 256
    from the recursions."""
    chi, p = relu_growth(), 2 * arc_cosine()[1]
    t = sympy.Symbol("t", positive=True)
    found, expected = [], []
    for size in BATCHES:
        found += at_rest("relu", size, 2)
        expected += [1, *(float(each.subs(m, size).evalf()) for each in (p, chi))]
    return both(
        equal(sympy.limit(chi.subs(m, 1 / t), t, 0), sympy.pi / (sympy.pi - 1), "m → ∞"),
        close(found, expected, 9, "q*, p* and χ from the recursions, m = 4 to 256"),
    )


def by_directions(activation: Activation, size: int) -> list[float]:
    """q*, p* and χ for C_W = 1, by quadrature over directions."""
    sigma, slope = _functions(activation)
    # without a mean y is even on a sphere in m − 1 dimensions; two of its components have ⟨yy⟩ = ρ
    one, across, weights = over_sphere(size - 1, NODES)
    rho = -1 / (size - 1)
    two = rho * one + math.sqrt(1 - rho**2) * across

    def mean(each: Array) -> float:
        return float((weights * each).sum())

    q, p = mean(sigma(one) ** 2), mean(sigma(one) * sigma(two))
    a, b = slope(one), slope(two)
    inside = (size - 1) * mean(a**2) - mean((a * one) ** 2) + mean(a * b * (1 + one * two))
    return [q, p, inside / (size - 3) / (q - p)]


def _functions(activation: Activation) -> list[Callable[[Array], Array]]:
    """σ and σ' of arrays."""
    pair = activation.expr, activation.expr.diff(activations.z)
    return [sympy.lambdify(activations.z, each, ["scipy", "numpy"]) for each in pair]


@claim("003", "Gradients (others)", "other activations: fixed points and growth by integrals")
def others() -> Verdict:
    r"""tanh, sin, $\mathrm{erf}(\sqrt\pi z/2)$ and GELU at m = 4, 16, 256: $q^*$, $p^*$,
    $\chi$ by recursions and by quadrature over directions. None has a $\chi$ below
    $\frac{m-2}{m-3}$, so gradients grow at every batch, least for $\sigma=z$."""
    found: list[float] = []
    expected: list[float] = []
    least: list[bool] = []
    for name in SMOOTH:
        for size in (4, 16, 256):
            found += at_rest(name, size)
            expected += by_directions(as_activation(name), size)
            least.append(found[-1] > (size - 2) / (size - 3))
    return both(
        close(found, expected, 8, f"{len(found)} numbers, m = 4, 16 and 256"),
        observed(least, "χ > (m − 2)/(m − 3)"),
    )


# %% [markdown]
# ## The orthogonality gap, from the recursions
#
# With Gaussian weights the kernel of a layer fluctuates as the Gram matrix behind the layer before,
# $\operatorname{Cov}(\hat K_{ab},\hat K_{cd})=V_{(ab)(cd)}/d$. A last layer with σ = z has
# $\hat K=\frac1dQ^\top Q$ of the rows $Q$ that are normalized, so that L of (27), over $nd$, is
# $$d\,\mathbb EL^2=\frac1{n^2}\sum_{ab}V_{(ab)(ab)}=\frac{V_{(11)(11)}+(n-1)V_{(12)(12)}}n .$$


# %%
SPECTRA = ((0.5, 0.3, 0.2), (0.7, 0.2, 0.06, 0.04))


@claim("003", "Gap (recursions)", "σ = z: the recursions have the map and the stationary gap")
def gap() -> Verdict:
    r"""`flow` without centring, from C with the spectra (5, 3, 2)/10 and (70, 20, 6, 4)/100 in
    turned axes: P(C) has the axes of C and the spectrum (16). The eigenvalue of the map of V is the
    square of the derived rate $\frac n{n+2}$, and the limit of V gives the stationary
    $\mathbb EV^2$ of `derive.batchnorm` at n = 3 and 5."""
    net = Network("linear", layer="batchnorm(center=False)")
    found: list[float] = []
    expected: list[float] = []
    for spectrum in SPECTRA:
        n, rng = len(spectrum), np.random.default_rng(3)
        axes = np.linalg.qr(rng.standard_normal((n, n)))[0]
        C = (axes * spectrum) @ axes.T
        inputs = np.sqrt(n) * np.linalg.cholesky(C)
        P = flow(net, inputs, 2, ["K"])["K"].to_numpy()[1] / n
        exact = (axes * [float(p) for p in moments.mean_spectrum(spectrum)]) @ axes.T
        found += P.ravel().tolist()
        expected += exact.ravel().tolist()
    rates: list[float] = []
    known: list[sympy.Expr] = []
    for size in (3, 5):
        table = propagation.fixed_points(net, Exchangeable(size, 1, 0))
        at = {batchnorm.n: size, batchnorm.d: 1}
        rates += [float(table["V_rate"]), deviation_of(table["V"], size)]
        known += [
            batchnorm.contraction_rate().subs(at) ** 2,
            batchnorm.stationary_gap(2, 1).subs(at),
        ]
    return both(
        close(found, expected, 10, "P(C), 25 numbers"),
        close(rates, known, 8, "rates and stationary gaps"),
    )


@claim("003", "Gap (any σ)", "what (28) becomes for other activations: a constant for each")
def any_activation() -> Verdict:
    r"""With the mean taken off, $\mathbb EQ^\top Q/(nd)=\frac P{n-1}$ for every $\sigma$, by
    permutations, so that V stays at $\sqrt{1/(n-1)-1/n}$ and L of (27), over $d$, goes as
    $1/\sqrt d$ where the map of V contracts: for linear, ReLU, tanh, sigmoid, GELU and sin, n = 5,
    with these constants $d\,\mathbb EL^2$. For $\sigma=z$ it is the stationary law in $n-1$
    dimensions. Around the fixed point, q*, p* and $\chi$ are those behind many layers."""
    names = ("linear", "relu", "tanh", "sigmoid", "gelu", "sin")
    sizes = (4, 5)
    exact = [
        batchnorm.stationary_gap(2, 1).subs({batchnorm.n: k - 1, batchnorm.d: 1}) for k in sizes
    ]
    around = [fixed(name, 5) for name in names]
    rates = {name: float(table["V_rate"]) for name, table in zip(names, around, strict=True)}
    constants = ", ".join(f"{name} {deviation(name, 5, True):.4f}" for name in names)
    found: list[float] = []
    behind: list[float] = []
    for name, table in zip(names, around, strict=True):
        found += [*table["K"].dropna("orbit").to_numpy(), float(table["gradient_rate"][0])]
        behind += at_rest(name, 5)
    shrinks = ", ".join(f"{name} {rate:.3f}" for name, rate in rates.items())
    return both(
        close([deviation("linear", k, True) for k in sizes], exact, 9, "σ = z, n = 4 and 5"),
        close(found, behind, 9, "q*, p* and χ, n = 5"),
        observed([rate < 1 for rate in rates.values()], f"eigenvalues of the map of V: {shrinks}"),
        detail=f"n = 5, d E L²: {constants}",
    )


# %% [markdown]
# ## Orthogonal weights (Meterez et al. 2023)
#
# They prove that gradients do not explode for σ = z and Haar weights, without taking the mean off,
# where the batch is as large as the width. There H becomes orthogonal. Its rows then have equal
# lengths, batch norm changes nothing, and with $A=\delta H^\top$ a step back is $A\mapsto
# W^\top AW$ without its diagonal.


# %%
@claim("003", "Gradients (Haar)", "Haar weights: no explosion at d = n, and the same one at d → ∞")
def haar() -> Verdict:
    r"""$|A|$ never grows, and the antisymmetric part of A is kept: its diagonal is 0 in every
    basis. So gradients neither explode nor vanish, by symbols for 3 × 3 matrices A and a rational
    rotation; networks of 8 neurons and samples reach that state. At a fixed batch and $d\to\infty$
    the recursion of $\Theta$ is the same with both weights, and $\chi=\frac{m-2}{m-3}$ is."""
    a = sympy.symbols("a_1:4", real=True)
    A = sympy.Matrix([[0, a[0], a[1]], [-a[0], 0, a[2]], [-a[1], -a[2], 0]])
    turn = sympy.Matrix([[0, R(1, 2), 0], [-R(1, 2), 0, R(1, 3)], [0, -R(1, 3), 0]])
    W = (sympy.eye(3) - turn) * (sympy.eye(3) + turn).inv()
    back = (W.T * A * W).applyfunc(sympy.expand)
    kinds = [recursion("Theta", law, layer="batchnorm").expr for law in ("gaussian", "orthogonal")]
    gap_, most, least = square_networks()
    return both(
        equal([*(W.T * W), *back.diagonal()], [*sympy.eye(3), 0, 0, 0], "diagonal of W⊤AW"),
        equal(sympy.expand((back.T * back).trace()), (A.T * A).trace(), "its square"),
        equal(sympy.expand(kinds[0] - kinds[1]), 0, "Θ' with both weights"),
        observed(
            [gap_ < 1e-6, most <= 1 + 1e-9, abs(least - 1) < 1e-6], _SQUARE.format(gap_, least)
        ),
    )


_SQUARE = "8 neurons, 8 samples: V = {:.0e}, and {:.7f} of the antisymmetric part behind 300 layers"


def square_networks(
    size: int = 8, settle: int = 3000, depth: int = 300
) -> tuple[float, float, float]:
    """The gap behind many layers; the largest growth of a gradient in one layer from there on; and
    the share of its antisymmetric part that is left."""
    rng = np.random.default_rng(1)
    H = rng.standard_normal((size, size))
    weights: list[Array] = []
    for _ in range(settle + depth):
        weights.append(frames(rng.standard_normal((size, size))))
        H = weights[-1] @ H
        H /= np.linalg.norm(H, axis=1, keepdims=True)
    gap_ = float(np.linalg.norm(H.T @ H / size - np.eye(size) / size))
    delta = rng.standard_normal((size, size))
    start, most = delta @ H.T, 0.0
    for W in weights[: -depth - 1 : -1]:
        before = np.linalg.norm(delta)
        delta = delta - H * (delta * H).sum(axis=1, keepdims=True)
        most = max(most, float(np.linalg.norm(delta) / before))
        delta, H = W.T @ delta, W.T @ H
    end = delta @ H.T
    return gap_, most, float(np.linalg.norm(end - end.T) / np.linalg.norm(start - start.T))


# %% [markdown]
# ## How much the growth varies between initializations
#
# At order $1/n$ the logarithm of a gradient's square changes, in a layer, by the mean over neurons
# of $h/\langle h\rangle$, and, through the scale $q-p$ in the next layer, by that of
# $-t/\langle t\rangle$, with
# $$h=\frac1v\,\xi^\top\sigma'\Big(P-\frac{yy^\top}m\Big)\sigma'\xi,\qquad t=\sigma^\top P\sigma,
# \qquad\xi\sim N(0,P).$$
# All else that fluctuates has no part that permutations leave alone. So the variance over
# initializations is $\frac1n\operatorname{Var}(h/\langle h\rangle-t/\langle t\rangle)$ a layer.
# Haar weights keep $\sum_iz_iz_i^\top$ and $\sum_i\xi_i\xi_i^\top$, and take off what $h$ has along
# $z^\top Pz$ and $\xi^\top P\xi$, which is $\frac2{m-1}$ for each.


# %%
def linear_spread() -> sympy.Expr:
    """Var(h/⟨h⟩) of σ = z: h is a χ² of m − 2 dimensions over one of m − 1."""
    k = m - 1
    inverse, inverse_squared = 1 / (k - 2), 1 / ((k - 2) * (k - 4))
    return sympy.factor((m - 2) * m * inverse_squared / ((m - 2) * inverse) ** 2 - 1)


def spreads(activation: Activation, size: int, count: int = 40_000, sets: int = 10) -> Array:
    """Var(h/⟨h⟩) and Var(h/⟨h⟩ − t/⟨t⟩) of one neuron, (sets, 2), each of so many samples."""
    sigma, slope = _functions(activation)
    rng, k = np.random.default_rng(5), size - 1
    found = []
    for _ in range(sets):
        z, xi = rng.standard_normal((2, count, size))
        z -= z.mean(axis=1, keepdims=True)
        xi -= xi.mean(axis=1, keepdims=True)
        y = z / np.sqrt((z**2).mean(axis=1, keepdims=True))
        x = xi * slope(y)
        H = (x**2).sum(axis=1) - x.sum(axis=1) ** 2 / size - (x * y).sum(axis=1) ** 2 / size
        s = np.broadcast_to(sigma(y), y.shape)
        t = ((s - s.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        H, t = H / H.mean(), t / t.mean()
        own = (H**2).mean() * (k - 2) / (k - 4) - 1  # 1/v is independent of the direction
        found.append((own, own - 2 * ((H * t).mean() - 1) + t.var()))
    return np.array(found)


BLOCK = 32
"""Networks whose layers a processor's cache holds, with a stream of random numbers."""


def growth_of(
    name: str, size: int, n: int, depth: int, draws: int, seed: int, orthogonal: bool
) -> Blocks:
    """log of a gradient's square behind so many layers over that above them, of each network.

    Arguments:
        name: of the activation.
        size: m.
        n, depth: neurons and layers.
        draws, seed: networks.
        orthogonal: Haar weights, or Gaussian ones.
    """
    given = {"name": name, "n": n, "size": size, "depth": depth, "orthogonal": orthogonal}
    labels = n, int(orthogonal)
    return Blocks(_grown, given, (), draws, seed, labels, block=BLOCK, together=8)


def _grown(
    numbers: NDArray[np.int64],
    rng: np.random.Generator,
    name: str,
    n: int,
    size: int,
    depth: int,
    orthogonal: bool,
) -> Array:
    """`growth_of` a block of networks, (networks,).

    No matrix is built: behind a layer stands W on what went through it, and a fresh part at right
    angles to that. Only Gram matrices matter, and any of their roots will do, as a frame and normal
    numbers keep their laws when they are rotated. A constant added to σ, which the mean takes off,
    makes all of them invertible but those of what has no mean over the batch.
    """
    sigma, slope = _functions(as_activation(name))
    shape = numbers.size, n, size

    def normal() -> Any:
        """In single precision: what chance adds is far above its rounding."""
        return rng.standard_normal(shape, np.float32)

    def fresh() -> Array:
        return _framed(normal()) if orthogonal else normal() / math.sqrt(n)

    phi = math.sqrt(n) * _framed(normal())
    forward = []
    for _ in range(depth):
        z = fresh() @ np.linalg.cholesky(phi.mT @ phi).mT
        y = _centred(z)
        scale = np.sqrt((y**2).mean(axis=2, keepdims=True))
        y /= scale
        forward.append((phi, z, y, scale))
        phi = sigma(y) + 1.0
    delta = _centred(normal())
    start = (delta**2).sum(axis=(1, 2))
    xi = _centred(fresh() @ _root_of_centred(delta))
    for phi, z, y, scale in reversed(forward):
        x = _centred(xi * slope(y))
        delta = (x - y * (x * y).mean(axis=2, keepdims=True)) / scale
        # W⊤δ: on the span of φ it is known from Wφ = z
        along, new = z.mT @ delta, normal()
        inverse = np.linalg.inv(phi.mT @ phi)
        new -= phi @ (inverse @ (phi.mT @ new))
        if orthogonal:
            across = delta - z @ np.linalg.solve(z.mT @ z, along)
            new = _framed(new) @ _root_of_centred(across)
        else:
            new = new @ (_root_of_centred(delta) / math.sqrt(n))
        xi = phi @ (inverse @ along) + _centred(new)
    return np.asarray(np.log((delta**2).sum(axis=(1, 2)) / start), float)


def _centred(x: Array) -> Array:
    """Less the mean over the batch."""
    return np.asarray(x - x.mean(axis=2, keepdims=True))


def _framed(x: Array) -> Array:
    """Orthonormal columns with the same span."""
    return np.asarray(x @ np.linalg.inv(np.linalg.cholesky(x.mT @ x)).mT)


def _root_of_centred(x: Array) -> Array:
    """R that, when its rows are centred, has R⊤R = x⊤x, for x without means."""
    gram, size = x.mT @ x, x.shape[2]
    ones = np.trace(gram, axis1=1, axis2=2)[:, None, None] / size**2
    return np.asarray(np.linalg.cholesky(gram + ones).mT)


SIZE, LAYERS = 16, 2
SIZES = ((40, 4000), (160, 7000))
"""Widths and networks: n Var is as noisy at every width, so that the limit costs least from two
that are far apart. In single precision, frames need n well above 2m."""
CASES = (("linear", False), ("linear", True), ("tanh", True), ("relu", False))
"""σ, and whether weights are orthogonal."""


@claim("003", "Gradients (variance)", "the growth's variance over initializations", sampled=True)
def variance(sampling: Sampling) -> Verdict:
    r"""For σ = z it is $\frac1n\frac{4m-10}{(m-2)(m-5)}$ a layer with Gaussian weights, by symbols,
    and with Haar weights $\frac4{m-1}$ less, of order $m^{-2}$: batch norm's growth is steady
    where weights are orthogonal. Infinite for $m\le5$. Networks of two layers, m = 16, linear,
    tanh and ReLU, extrapolated in $1/n$; of the last two one neuron's average is sampled."""
    exact = (4 * m - 10) / ((m - 2) * (m - 5))
    steady = sympy.limit((exact - 4 / (m - 1)) * m**2, m, sympy.oo)
    comparisons, labels = [], []
    for name, orthogonal in CASES:
        if name == "linear":
            own = more = float(exact.subs(m, SIZE))
            error = 0.0
        else:
            (own, more), (doubt, doubt_more) = layout.averaged(spreads(as_activation(name), SIZE))
            error = 3 * (doubt + (LAYERS - 1) * doubt_more)
        less = 4 / (SIZE - 1) * LAYERS if orthogonal else 0
        tables = []
        for n, networks in SIZES:
            draws = sampling.networks(networks)
            work = growth_of(name, SIZE, n, LAYERS, draws, sampling.seed, orthogonal)
            grown = chunks.rows(work, chunks.Options(), "growth of gradients")
            spread = n * (grown - grown.mean()) ** 2 * draws / (draws - 1)
            tables.append(ensembles.means(n, [LAYERS], variance=spread))
        theory = own + (LAYERS - 1) * more - less
        flowed = layout.table([LAYERS], variance=theory, variance_error=error)
        comparisons.append(compare(flowed, tables, sampling.false_alarms / len(CASES), degree=1))
        labels.append(f"{name}, {'Haar' if orthogonal else 'Gaussian'}")
    return both(
        equal([sympy.simplify(linear_spread() - exact), steady], [0, 14], "σ = z, and Haar: 14/m²"),
        sampled(comparisons, "n Var over two layers, m = 16", {}, labels),
    )
