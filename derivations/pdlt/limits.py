# %% [markdown]
# # Wide, deep, and both
#
# $G_{2m}/G_2^m = c_{2m}(n)^{L-1}$ goes to 1 with the width and to infinity with the depth. At
# $L/n = r$ fixed it is $e^{m(m-1)r}$: the moments of a log-normal variable, which is what
# $|z|^2/\mathbb E|z|^2$ becomes, a product of $L$ independent factors close to 1. For fixed $n$ and
# $L$ there is always an $m$ from which on this limit is wrong.

# %%
"""Limits of deep linear networks (source 004, eqs. 3.48–3.57), and ensembles beside them."""

from __future__ import annotations

import numpy as np
import sympy
import xarray
from matplotlib.figure import Figure

from derivations.claims import Sampling, Verdict, both, claim, equal, sampled
from derivations.moments import deep_linear
from derivations.moments.isotropic import ANY, length_moment, same
from derivations.pdlt import ratio_limits
from derivations.pdlt.ratio_limits import r
from derivations.pictures.panels import one_panel
from derive import activations, linear
from derive.gaussian.brackets import Component
from derive.network import Network
from derive.symbols import m, n
from derive.weights import Gaussian
from numeric import compare, simulate
from numeric.tables import layout
from numeric.tables.drawing import beside

ORDERS = range(1, 7)


# %% [markdown]
# ## Two limits that do not commute (3.48)–(3.51)


# %%
@claim("004", "3.49", "infinite width, (3.48)–(3.49)")
def wide() -> Verdict:
    """Every $c_{2m}\\to1$, so $G_{2m}\\to G_2^m$, and every connected correlator vanishes: with one
    input, and with 2m different ones."""
    factors = [sympy.limit(linear.contraction_factor(k, n), n, sympy.oo) for k in ORDERS]
    ratios = [sympy.limit(linear.correlator(k, [n] * 4), n, sympy.oo) for k in ORDERS]
    connected = [sympy.limit(linear.connected(k, [n] * 4), n, sympy.oo) for k in ORDERS if k > 1]
    several = [
        deep_linear.coefficient(range(1, 2 * k + 1), [n] * 3, connected=True) for k in (2, 3)
    ]
    return both(
        equal(factors, [1] * 6, "c_{2m}, m = 1 to 6"),
        equal(ratios, [1] * 6, "G_{2m}/G_2^m"),
        equal(connected, [0] * 5, "connected"),
        equal([sympy.limit(each, n, sympy.oo) for each in several], [0, 0], "4 and 6 inputs"),
    )


@claim("004", "3.50", "infinite depth at fixed width")
def deep() -> Verdict:
    """$c_{2m}(n)^{L-1}$ with $c_{2m}>1$ for m > 1: as $\\log c_{2m}$ is a sum of logarithms above
    0, the correlators blow up exponentially with L; any m, as $c_{2m}$ grows with each step of m,
    and any L, by (3.47)."""
    depth = 7
    # by the pairings' matrices, layer after layer, and not as the product that it should be
    found = [deep_linear.coefficient((1,) * (2 * k), [n] * depth) for k in (1, 2, 3)]
    kernel = sympy.Symbol("K")
    found = [
        each.subs(dict.fromkeys(each.atoms(Component), kernel)) / kernel**k
        for k, each in zip((1, 2, 3), found, strict=True)
    ]
    printed = [linear.contraction_factor(k, n) ** (depth - 1) for k in (1, 2, 3)]
    excess = [sympy.expand((linear.contraction_factor(k, n) - 1) * n**k) for k in ORDERS if k > 1]
    positive = all(min(sympy.Poly(each, n).coeffs()) > 0 for each in excess)
    growth = same(length_moment(ANY + 1, n) / length_moment(ANY, n), n + 2 * ANY)
    return both(
        equal(growth, 1, "n c_{2m+2}/c_{2m} = n + 2m > n, any m"),
        equal(found, printed, "L = 7, m = 1 to 3, by pairings"),
        equal(int(positive), 1, "n^m (c_{2m} − 1) has positive coefficients"),
    )


@claim("004", "3.51", "the two limits do not commute")
def limits_do_not_commute() -> Verdict:
    """$\\lim_L\\lim_nc_{2m}^{L-1}=1$, and $\\lim_Lc_{2m}^{L-1}=\\infty$ for any n, at m = 2; for
    larger m still more, as $c_{2m}-c_4$ has positive coefficients in 1/n."""
    depth, excess = sympy.symbols("L epsilon", positive=True)
    width_first = sympy.limit(linear.contraction_factor(2, n), n, sympy.oo)
    depth_first = sympy.limit((1 + excess) ** (depth - 1), depth, sympy.oo)
    more = [
        sympy.expand((linear.contraction_factor(k, n) - linear.contraction_factor(2, n)) * n**k)
        for k in ORDERS
        if k > 2
    ]
    return both(
        equal(linear.contraction_factor(2, n) - 1, 2 / n, "c_4 = 1 + ε with ε = 2/n > 0"),
        equal(sympy.limit(width_first ** (depth - 1), depth, sympy.oo), 1, "width first: 1"),
        equal(1 / depth_first, 0, "depth first: (1 + ε)^{L−1} → ∞"),
        equal(
            [int(bool(min(sympy.Poly(each, n).coeffs()) > 0)) for each in more],
            [1] * len(more),
            "c_{2m} > c_4, m = 3 to 6",
        ),
    )


# %% [markdown]
# ## At fixed depth-to-width ratio (3.52)–(3.57)


# %%
@claim("004", "3.53", "c_{2m} at large width")
def first_order() -> Verdict:
    """$1+m(m-1)/n+O(1/n^2)$ for every m, from $\\sum_{s<m}2s$ summed with symbolic m."""
    (found,) = ratio_limits.log_factor(1)
    series = [sympy.limit(n * (linear.contraction_factor(k, n) - 1), n, sympy.oo) for k in ORDERS]
    return both(
        equal(found, m * (m - 1), "symbolic m"),
        equal(series, [k * (k - 1) for k in ORDERS], "m = 1 to 6 by the census"),
    )


@claim("004", "3.54", "the exponential as a limit")
def exponential() -> Verdict:
    """$[1+a/L+b/L^2]^L\\to e^a$, whatever b; and with the engine's own $c_{2m}(L/r)^{L-1}$
    for m = 2, 3, 4, where $a=m(m-1)r$."""
    a, b = sympy.symbols("a b", real=True)
    depth, ratio = sympy.symbols("L r", positive=True)
    general = sympy.limit((1 + a / depth + b / depth**2) ** depth, depth, sympy.oo)
    factors = [linear.contraction_factor(k, depth / ratio) for k in (2, 3, 4)]
    limits = [sympy.limit((depth - 1) * sympy.log(each), depth, sympy.oo) for each in factors]
    return both(
        equal(general, sympy.exp(a)),
        equal(limits, [k * (k - 1) * ratio for k in (2, 3, 4)], "(L − 1) log c_{2m}, m = 2, 3, 4"),
    )


@claim("004", "3.55", "large width and depth at L/n = r")
def interpolation() -> Verdict:
    """$e^{m(m-1)r}$, and its next terms in 1/n, for symbolic m and r; derived from
    $\\log c_{2m}$."""
    found = ratio_limits.interpolation(1)
    second = sympy.simplify(ratio_limits.interpolation(2) / found)
    return both(
        equal(found, sympy.exp(m * (m - 1) * r)),
        equal(
            second,
            1 - (m * (m - 1) + r * m * (m - 1) * (2 * m - 1) / 3) / n,
            "next: 1 − m(m−1)[1 + (2m−1)r/3]/n",
        ),
        equal(
            [found.subs(r, 0), sympy.limit(1 / found.subs(m, 2), r, sympy.oo)],
            [1, 0],
            "1 as r → 0, and out of bounds as r → ∞",
        ),
    )


@claim("004", "3.55 (breakdown)", "no depth and width serve every m")
def breakdown() -> Verdict:
    """The exponents part by $\\frac{2r}{3n}m^3$ at large m: with r = 1 and 10 % tolerance at m = 3,
    6, 12 for n = 100, 1000, 10000, growing as $n^{1/3}$."""
    tolerance = sympy.Rational(1, 10)
    leading = sympy.limit((ratio_limits.log_factor(2)[1] * r / m**3), m, sympy.oo)
    found, checked = [], []
    for width in (100, 1000, 10_000):
        first = ratio_limits.breakdown(width, width, 0.1)
        off = [
            sympy.exp(k * (k - 1)) / linear.contraction_factor(k, width).evalf(30) ** (width - 1)
            for k in (first - 1, first)
        ]
        found.append(first)
        checked.append(int(bool(off[0].evalf() <= 1 + tolerance < off[1].evalf())))
    return both(
        equal([leading, *checked], [-2 * r / 3, 1, 1, 1]),
        equal(found, [3, 6, 12], "the first m that is off by 10 %"),
    )


@claim("004", "3.56", "connected four-point correlator at fixed L/n")
def four_points() -> Verdict:
    """$e^{2r}-1=2r+O(r^2)$."""
    found = ratio_limits.connected_interpolation(2)
    return equal([found, sympy.series(found, r, 0, 2).removeO()], [sympy.exp(2 * r) - 1, 2 * r])


@claim("004", "3.57", "connected six-point correlator at fixed L/n, and 2m points")
def six_points() -> Verdict:
    """$e^{6r}-3e^{2r}+2=12r^2+O(r^3)$. For 2m points the leading order is $m^{m-2}(2r)^{m-1}$, one
    2r for each line of each labelled tree on m pairs (Cayley); m = 1 to 6."""
    found = ratio_limits.connected_interpolation(3)
    leading = [
        sympy.series(ratio_limits.connected_interpolation(k), r, 0, k).removeO() for k in ORDERS
    ]
    trees = [(2 * r) ** (k - 1) * sympy.Integer(k) ** (k - 2) for k in ORDERS]
    limit = linear.cumulants([ratio_limits.interpolation(1).subs(m, k) for k in (1, 2, 3)])[-1]
    return both(
        equal(
            [found, sympy.series(found, r, 0, 3).removeO(), limit],
            [sympy.exp(6 * r) - 3 * sympy.exp(2 * r) + 2, 12 * r**2, found],
        ),
        equal(leading, trees, "m^{m−2}(2r)^{m−1}, m = 1 to 6"),
    )


@claim("004", "§3.4, footnote 8", "which terms the double-scaling limit neglects")
def neglected() -> Verdict:
    """$G_{2m}/G_2^m=c_{2m}^{L-1}$ expanded in 1/n at free L: every term $L^a/n^b$ has $a\\le b$,
    those with $a=b$ are $e^{m(m-1)L/n}$, and the others vanish at L = rn, the printed $L/n^2$ and
    $L^3/n^5$ among them, which do occur: m = 2 and 3, to $n^{-5}$."""
    depth, x, ratio = sympy.symbols("L x r", positive=True)
    kept, powers, named = [], [], []
    for k in (2, 3):
        orders = ratio_limits.log_factor(5)
        logarithm = sum(each.subs(m, k) * x**j for j, each in enumerate(orders, 1))
        power, series = sympy.Integer(1), sympy.Integer(1)
        for j in range(1, 6):  # of the exponential, through x⁵
            expanded = sympy.Poly(sympy.expand(power * (depth - 1) * logarithm / j), x)
            power = sum(c * x**i for (i,), c in expanded.terms() if i <= 5)
            series += power
        terms = sympy.Poly(series, depth, x).terms()
        powers += [int(a <= b) for (a, b), _ in terms]
        leading = sum(c * ratio**a for (a, b), c in terms if a == b)
        exponential = sum((k * (k - 1) * ratio) ** j / sympy.factorial(j) for j in range(6))
        kept.append(sympy.expand(leading - exponential))
        present = {power for power, _ in terms}
        named += [int(power in present) for power in ((1, 2), (3, 5))]
    return both(
        equal(powers, [1] * len(powers), "a ≤ b"),
        equal(kept, [0, 0], "a = b is the exponential"),
        equal(named, [1] * 4, "L/n² and L³/n⁵ occur"),
    )


# %% [markdown]
# ## Ensembles

# %%
DEPTH, DRAWS = 16, 160_000
REACH = {8: {"V": 4, "U6": 2}, 16: {"V": 7, "U6": 3}, 32: {"V": 9, "U6": 4}}
"""By width, the last layer that is compared: squares of what is averaged grow as e^{12L/n} and
e^{30L/n}, so that further on no sample of this size knows its own spread; and while L/n is small
U6, of order (L/n)², is a small difference of large moments. Narrow widths resolve it better."""


def exact_table(width: int, n_0: int, K: float) -> xarray.Dataset:
    """V and U6 of a Gaussian linear network of one width, exact at it."""
    layers = range(1, DEPTH + 1)
    values = {
        name: np.array(
            [
                float(width ** (k - 1) * linear.connected(k, [width] * layer, inputs=n_0)) * K**k
                for layer in layers
            ]
        )
        for name, k in (("V", 2), ("U6", 3))
    }
    return layout.table(layers, **values)


@claim("004", "3.28, 3.57 (ensembles)", "connected correlators of sampled networks", sampled=True)
def ensembles(sampling: Sampling) -> Verdict:
    """160 000 networks of widths 8, 16, 32: connected four- and six-point correlators beside the
    exact ones, not their expansions."""
    inputs = np.random.default_rng(sampling.seed).standard_normal(10)
    K = float(inputs @ inputs) / inputs.size
    net = Network(activations.linear, Gaussian(1))
    share = sampling.false_alarms / sum(map(len, REACH.values()))
    comparisons, labels, drawn = [], [], []
    for width, reach in REACH.items():
        found = simulate(net, inputs, width, DEPTH, DRAWS, tensors=["V", "U6"], seed=sampling.seed)
        exact = exact_table(width, inputs.size, K)
        for name, last in reach.items():
            shown = exact[[name]].sel(layer=list(range(2, last + 1)))
            comparisons.append(compare(shown, found, share))
            labels.append(f"n = {width}")
        drawn.append((width, found, K))
    return sampled(comparisons, "exact in n, no expansion", {"linear": figure(drawn)}, labels)


def figure(drawn: list[tuple[int, xarray.Dataset, float]]) -> Figure:
    """V/n by L/n: sampled points on the exact curves and the limit e^{2r} − 1."""
    made, panel = one_panel(xlabel="L/n", ylabel="G₄/G₂² − 1", xlim=(0, 1.02), ylim=(0, 7))
    for number, (width, found, K) in enumerate(drawn):
        layers = found["layer"].to_numpy()
        exact = [float(linear.connected(2, [width] * int(layer))) for layer in layers]
        scale = width * K**2
        ratio = layers / width
        beside(
            panel,
            (ratio, exact),
            (ratio, found["V"].to_numpy() / scale, found["V_se"].to_numpy() / scale),
            color=f"C{number}",
            label=f"n = {width}",
            linewidth=1,
        )
    ratio = np.linspace(0.01, 1.0, 100)
    panel.plot(ratio, np.exp(2 * ratio) - 1, color="black", linestyle="--", label="e^{2r} − 1")
    panel.legend()
    return made
