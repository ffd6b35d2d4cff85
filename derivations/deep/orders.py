# %% [markdown]
# # The open question of source 000
#
# "It may be possible to prove or at least motivate depth-independence to all orders in $1/n$." For
# one input and activations of the class $K^* = 0$ it is true, and at every width. A Haar matrix
# turns $\sigma(z)$ into a uniform direction of the same length, so that $q = |z|^2/n$ is a Markov
# chain: $q' = |\sigma(z)|^2/n$ with $z$ uniform on the sphere. With $\sigma = z + \sigma_3z^3/6 +
# \ldots$, $\sigma_3 < 0$, it is $1/q' = 1/q - \frac13\sigma_3m + O(q)$ with $m = \sum_iu_i^4/n$ of
# a uniform $|u|^2 = n$: a sum of independent numbers in $[1, n]$. By the law of large numbers
#
# $$\ell q_\ell \to \frac{-3}{\sigma_3\,\mathbb E\,m} = \frac{n + 2}{-\sigma_3n}$$
#
# in every single network. So each correlator over its power of $q$ becomes that of the uniform
# sphere, whatever the depth. Two things make it so: the Haar law keeps the length of its argument,
# and $K \to 0$ makes $\sigma$ linear, so that what a layer adds to $V/K^2$ falls as $1/\ell^2$.

# %%
"""Orthogonal networks at criticality: all orders in 1/n, and what else keeps V/K² bounded."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import sympy

from derivations.claims.registry import Sampling, claim
from derivations.claims.verdicts import Verdict, both, close, equal, observed, scored
from derive import BiInvariant, LowRankOrthogonal, activations, exact, recursion
from derive.activations import polynomial
from derive.deep import growth, walk
from derive.linear.correlators import cumulants
from derive.network import Network
from derive.symbols import ell, n
from numeric import deep

R = sympy.Rational
ORDERS = 3  # V, V2 and V3, and as many orders of K


def on_sphere(powers: int) -> sympy.Expr:
    """E z_1² … z_m² over q^m, z uniform with |z|² = nq."""
    return sympy.prod(n / (n + 2 * k) for k in range(powers))


def spread_of_fourths() -> sympy.Expr:
    """Var m/(E m)², m = Σ u_i⁴/n: u_i⁴, u_i⁸ and u_i⁴u_j⁴ have 3, 105 and 9 times `on_sphere`."""
    square = (105 + 9 * (n - 1)) * on_sphere(4) / n
    return square / (3 * on_sphere(2)) ** 2 - 1


def connected(pairs: int, third: sympy.Expr) -> sympy.Expr:
    """The joint cumulant of z_1², …, z_m² at ℓq = (n + 2)/(−σ_3 n), times ℓ^m."""
    value = cumulants([on_sphere(k) for k in range(1, pairs + 1)])[-1]
    return sympy.simplify(value * ((n + 2) / (-third * n)) ** pairs)


def orders(value: sympy.Expr, first: int, count: int) -> list[sympy.Expr]:
    """The coefficients of n^{−first}, n^{−first−1}, …"""
    x = sympy.Symbol("x", positive=True)
    series = sympy.series(value.subs(n, 1 / x), x, 0, first + count).removeO()
    return [sympy.expand(series).coeff(x, first + k) for k in range(count)]


def leading(pairs: int, order: int, sigma: str) -> sympy.Expr:
    """The coefficient of ℓ^{−m} in the engine's tensor of m pairs at this relative order."""
    pairing = tuple((2 * k, 2 * k + 1) for k in range(pairs)) if pairs > 1 else None
    made = recursion(["z"] * 2 * pairs, "orthogonal", pairing=pairing, order=order)
    (term,) = made.single_input().asymptotics(sigma, 1).terms
    return term.coefficient if (term.exponent, term.log) == (pairs, 0) else sympy.S.Zero


@claim("deep", "10", "000's question: the next two orders of V, of K, and six and eight points")
def next_orders() -> Verdict:
    r"""At large depth $K + G^{\{1\}}/n + …$ is $(n+2)/(-\sigma_3n\ell)$, so that $G^{\{2\}}$ and
    $G^{\{3\}}$ have no term $1/\ell$, and $V$, $V_2$, $V_3$, the six-point function with its next
    order and the eight-point function are those of a uniform sphere of this radius: from the
    engine's recursions, order by order in $1/n$."""
    found, expected = [], []
    for pairs, count in ((1, 4), (2, ORDERS), (3, 2), (4, 1)):
        values = orders(connected(pairs, R(-2)), pairs - 1, count)
        found += [leading(pairs, order, "tanh") for order in range(count)]
        expected += values
    for sigma, third in (("sin", -1), ("erf_unit_cubic", -1), ("arctan", -2)):
        values = orders(connected(2, R(third)), 1, 2)
        found += [leading(2, order, sigma) for order in range(2)]
        expected += values
    return equal(found, expected)


@claim("deep", "11", "000's question: how the limit is approached")
def approach() -> Verdict:
    r"""$1/q$ is a sum of $\ell$ independent numbers, so that $q$ has the relative variance
    $\operatorname{Var} m/(\ell\,(\mathbb Em)^2)$, and $n$ times it at large $n$ is $8/3\ell$:
    $V/K^2 = -2 + 8/(3\ell) + …$ for every $\sigma$ of the class, as the recursion has it."""
    found = [sympy.limit(n * spread_of_fourths(), n, sympy.oo)]
    for sigma in ("tanh", "sin", "erf_unit_cubic"):
        terms = recursion("V", "orthogonal").asymptotics(sigma, 2).normalised.terms
        found += [each.expr for each in terms]
    return equal(found, [R(8, 3), *[-2, 8 / (3 * ell)] * 3])


@claim("deep", "12", "000's question: networks of 4 and 8 neurons, a thousand layers", sampled=True)
def at_every_width(sampling: Sampling) -> Verdict:
    r"""Orthogonal tanh networks far from any expansion in $1/n$: the mean of $1/(\ell q)$ is
    $2n/(n+2)$, less $O(\log\ell/\ell)$, and its relative variance at $\ell = 250$ and $1000$ is
    $\operatorname{Var}m/(\ell(\mathbb Em)^2)$."""
    scores: list[float] = []
    errors: list[float] = []
    for width in (4, 8):
        spread = float(spread_of_fourths().subs(n, width))
        for depth in (250, 1000):
            net = Network("tanh", "orthogonal")
            made = deep.simulate(net, [1.0, 0.5], 1, width, 1000, depth=depth, seed=sampling.seed)
            inverse = 1 / (depth * made.values)
            mean = inverse.mean() * (width + 2) / (2 * width)
            error = inverse.std() / len(inverse) ** 0.5 + np.log(depth) / depth
            variance = inverse.var() / inverse.mean() ** 2 * depth / spread
            off = (2 / len(inverse)) ** 0.5 + 5 * np.log(depth) / depth
            scores += [(mean - 1) / error, (variance - 1) / off]
            errors.append(error)
    detail = "1000 networks for each width and depth"
    return scored(scores, errors, sampling.false_alarms, detail)


def angles(law: str, depth: int, seed: int) -> tuple[float, float]:
    """The mean and the standard deviation of the correlation of two inputs."""
    inputs = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]]
    net = Network("tanh", law)
    K = deep.simulate(net, inputs, 1, 32, PAIRS, depth=depth, seed=seed).values
    rho = K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1])
    return float(rho.mean()), float(rho.std())


PAIRS = 3000
GROWN = 1.2
"""By which the spread of Gaussian networks grows from 50 layers to 200, at least."""


@claim("deep", "16", "000's question: two inputs, whose angle settles", sampled=True)
def two_inputs(sampling: Sampling) -> Verdict:
    r"""At leading order $K_{ab}' = K_{ab}(1 - K_{aa} - K_{bb})$ keeps the correlation of two inputs
    of equal length, and what a layer adds to its variance falls as $1/\ell^2$. So its distribution
    settles, within $O(1/\ell)$: the mean and the spread at 50 and 200 layers of 32 neurons, of
    different networks. With Gaussian weights the spread grows with $\ell/n$."""
    near, far = (
        angles("orthogonal", depth, (sampling.seed + depth) % 2**32) for depth in (50, 200)
    )
    errors = near[1] * PAIRS**-0.5, near[1] * (2 * PAIRS) ** -0.5
    scores = [(a - b) / (e + abs(a) / 50) for a, b, e in zip(near, far, errors, strict=True)]
    grown = angles("gaussian", 200, sampling.seed)[1] / angles("gaussian", 50, sampling.seed)[1]
    relative = [e / abs(a) + 1 / 50 for a, e in zip(near, errors, strict=True)]
    detail = f"the spread is {far[1]:.4f}"
    return both(
        scored(scores, relative, sampling.false_alarms, detail),
        observed(grown > GROWN, f"of Gaussian networks it grows {grown:.2f}-fold"),
    )


@claim("deep", "13", "what the answer needs: the Haar law, and K* = 0")
def needed() -> Verdict:
    r"""Orthogonal weights do not keep $V/K^2$ bounded at $K^* > 0$ (GELU), where every $K$ is
    critical (ReLU), beside a skip without a norm, or with dropout; nor do low-rank orthogonal or
    Gaussian weights at $K^* = 0$: there the slope in $\ell$ is a third of the source at $K = 0$,
    because $K \sim 1/\ell$ contracts."""
    low = LowRankOrthogonal(gamma=R(1, 2))
    slopes = {
        growth("relu", "orthogonal"): 3 * ell,
        growth("tanh"): R(2, 3) * ell,
        growth("tanh", low): R(2, 3) * ell,
        growth("tanh", "orthogonal", "residual(skip=1/2)"): ell / 4,
        growth("tanh", "orthogonal", "dropout(3/4)"): ell / 3,
    }
    sources = [walk(Network("linear", law)).spread / 3 * ell for law in ("gaussian", low)]
    gelu = growth(activations.gelu, "orthogonal")
    return both(
        equal([*slopes, *sources], [*slopes.values(), R(2, 3) * ell, R(2, 3) * ell]),
        observed(gelu.has(ell) and gelu.coeff(ell, 1) > 0, "GELU grows with the depth"),
    )


@claim("deep", "15", "Gaussian networks at K* = 0: nK has a law of its own at L/n")
def gaussian_falls() -> Verdict:
    r"""$K \to 0$, so that tanh has no log-normal law; but with $K' = K - aK^2$ and the source $s =
    2$ of linear layers, $Y = 1/(nK)$ follows $dY = (a + sY)\,dr - \sqrt s\,Y\,dB$ from $Y = 0$,
    with $\mathbb E\,Y = \frac as(e^{sr} - 1)$ whatever the input. Its first three powers of $r$
    are those of the engine's $K$, $G^{\{1\}}$, $V$, $G^{\{2\}}$, $V_2$ and $U_6$. With orthogonal
    weights $s = 0$, and $nK = 1/(ar)$ in every network."""
    found, expected = [], []
    for sigma, a in (("tanh", 2), ("sin", 1)):
        for law, s in (("gaussian", 2), ("orthogonal", 0)):
            powers = inverse_mean(sigma, law)
            found += powers
            expected += [a * R(s) ** k / sympy.factorial(k + 1) for k in range(3)]
    return equal(found, expected)


def inverse_mean(sigma: str, law: str) -> list[sympy.Expr]:
    """The coefficients of r, r² and r³ in E 1/(nq), from the first terms of six tensors.

    q has the mean K + G1/n + G2/n² and, given z before the last matrix, the cumulants V/n + V2/n²
    and U6/n²; with orthogonal weights, whose length the matrix keeps, V + 2K² and so on, which are
    smaller by powers of ℓ and count for nothing.
    """
    at = {
        name: recursion(name, law).single_input().asymptotics(sigma, 1).terms[0].expr
        for name in ("K", "G1", "V", "G2", "V2", "U6")
    }
    if law == "orthogonal":
        at |= dict.fromkeys(("V", "V2", "U6"), sympy.S.Zero)
    K, G1, V, G2, V2, U6 = at.values()
    first = -G1 / K**2 + V / K**3
    second = -G2 / K**2 + (V2 + G1**2) / K**3 - (U6 + 3 * V * G1) / K**4 + 3 * V**2 / K**5
    series = (1 / K, first, second)
    return [sympy.limit(each / ell**k, ell, sympy.oo) for k, each in enumerate(series, 1)]


LAYERS = (
    "dense",
    "dropout(3/4)",
    "residual(skip=1/2)",
    "normalized(rms)",
    "normalized(layer)",
    "residual(skip=1, norm=rms)",
    "residual(skip=1/2, norm=rms)",
    "gated(skip=1, norm=rms)",
    "gated(skip=1/2, norm=rms)",
)
HAAR = ("dense", "tanh")
"""The layer and the activation that orthogonal weights save."""
GROWING = {"dropout(3/4)", "residual(skip=1/2)"}


@claim("deep", "14", "which layers keep V/K² bounded at any depth over width")
def table() -> Verdict:
    r"""Of ReLU and tanh, with Gaussian weights or independent entries, and with orthogonal ones:
    layers with a norm, with or without a skip, and dense orthogonal layers at $K^* = 0$. All others
    have $V/K^2 \propto \ell$."""
    held = []
    for layer in LAYERS:
        for sigma in ("relu", "tanh"):
            values = [growth(sigma, law, layer) for law in ("gaussian", "uniform", "orthogonal")]
            held.append(sympy.simplify(values[0] - values[1]) == 0)
            for law, value in zip(("gaussian", "orthogonal"), values[::2], strict=True):
                haar = (layer, sigma) == HAAR and law == "orthogonal"
                grows = layer in GROWING or (layer == "dense" and not haar)
                held.append(bool(sympy.limit(value / ell, ell, sympy.oo) > 0) == grows)
    return observed(held, "54 combinations of a layer, an activation and a law")


LENGTH = sympy.Symbol("q")


def behind(width: int, power: int, cubic: sympy.Rational) -> sympy.Expr:
    """E q'^power given q, of n neurons: σ = z + cz³ and z = √q u with u uniform on the sphere."""
    parts = {1: LENGTH, 2: 2 * cubic * LENGTH**2, 3: cubic**2 * LENGTH**3}  # of σ², by z²'s power
    total = sympy.S.Zero
    for neurons in product(range(width), repeat=power):
        for powers in product(parts, repeat=power):
            degrees: Counter[int] = Counter()
            for own, k in zip(neurons, powers, strict=True):
                degrees[own] += k
            moment = sympy.prod([sympy.factorial2(2 * k - 1) for k in degrees.values()])
            moment *= on_sphere(sum(powers)).subs(n, width)
            total += moment * sympy.prod([parts[k] for k in powers])
    return sympy.expand(total / width**power)


def in_chain(width: int, layers: int, power: int, start: sympy.Rational) -> sympy.Expr:
    """E q^power of the last layer."""
    value = LENGTH**power
    for _ in range(layers - 1):
        terms = sympy.Poly(value, LENGTH).terms()
        value = sympy.expand(sum(c * behind(width, k, CUBIC) for (k,), c in terms))
    return value.subs(LENGTH, start)


CUBIC = R(-1, 3)


@claim("deep", "26", "000's question: exact networks of 2 and 3 neurons are this chain")
def exact_networks() -> Verdict:
    r"""$\sigma = z - z^3/3$: $K$ of layers 2 and 3, $V$ and the six-point function of layer 2, from
    exact sums over pairings of Haar matrices, are the moments of $q$ in the chain, times those of
    the sphere."""
    start, found, expected = R(3, 7), [], []
    net = Network(polynomial([0, 1, 0, CUBIC]), "orthogonal")
    for width, depth, name in ((2, 2, "K"), (2, 3, "K"), (3, 3, "K"), (2, 2, "V"), (3, 2, "U6")):
        kernel = {(1, 1): start}
        found.append(exact.cumulant(name, net, depth, width=width, inputs=width, kernel=kernel))
        pairs = {"K": 1, "V": 2, "U6": 3}[name]
        moments = [
            in_chain(width, depth, k, start) * on_sphere(k).subs(n, width)
            for k in range(1, pairs + 1)
        ]
        expected.append(width ** (pairs - 1) * cumulants(moments)[-1])
    return equal(found, expected)


SECOND = sympy.Symbol("m", positive=True)


@claim("deep", "25", "of a law of the weights one number counts: its second moment")
def laws() -> Verdict:
    r"""The eigenvalues of $WW^{\mathsf T}$ have the mean 1 and the second moment $m\ge1$: 1 with
    orthogonal weights alone, 2 with Gaussian ones or independent entries, $1/\gamma$ at the
    relative rank $\gamma$. $V/K^2$ grows as $(a + bm)\ell$ with $b > 0$, so that orthogonal weights
    are the best for every layer; $a + b = 0$ for dense layers at $K^* = 0$ alone."""
    found, expected, held = [], [], []
    low = LowRankOrthogonal(gamma=R(1, 3))
    for layer in ("dense", *sorted(GROWING), "skip(1/2)"):
        for sigma in ("relu", "tanh"):
            slope = sympy.expand(growth(sigma, BiInvariant(moments=(1, SECOND)), layer) / ell)
            for law, value in (("orthogonal", 1), ("gaussian", 2), ("uniform", 2), (low, 3)):
                known = sympy.limit(growth(sigma, law, layer) / ell, ell, sympy.oo)
                found.append(known)
                expected.append(slope.subs(SECOND, value))
            vanishes = slope.subs(SECOND, 1) == 0
            held.append(slope.coeff(SECOND, 1) > 0 and vanishes == ((layer, sigma) == HAAR))
    return both(close(found, expected, 12), observed(held, "b > 0, and where a + b = 0"))
