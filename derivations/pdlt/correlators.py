# %% [markdown]
# # Correlators of deep linear networks
#
# Each layer contracts its weights in pairs, $\sum_p\delta_p(i)\,\delta_p(j)\,C_W^m/n^m$, and each
# contraction of the previous layer's pairs closes loops: $\sum_r n^{\mathrm{loops}(p,r)}$. With one
# input all pairings are alike, so one number $G_{2m}$ a layer is left, multiplied at each step by
# $C_W^m c_{2m}(n)$: exact at any widths and depth, with symbols for both.

# %%
"""All 2m-point functions by summing pairings (source 004, §§3.2–3.4, eqs. 3.10–3.47)."""

from __future__ import annotations

from itertools import pairwise, product

import sympy

from derivations.claims import Verdict, both, claim, equal, misprint
from derivations.moments import deep_linear, linear_laws
from derivations.moments.isotropic import (
    ANY,
    direction_moment,
    length_moment,
    normal_moment,
    pairings,
    same,
)
from derivations.pdlt.networks import Written, deltas
from derive import linear
from derive.gaussian.brackets import Component
from derive.groups.pairings import (
    Pairing,
    coset_type,
    double_factorial_pairings,
    loops,
    pair_partitions,
)
from derive.symbols import C_W, K0, n, rho
from derive.weights import Gaussian

WIDTHS = sympy.symbols("n_1:6", positive=True)
L = len(WIDTHS)
K = Component("K0", (1, 1))
MOST = 8


depth_ = sympy.Symbol("l", positive=True, integer=True)
"""A layer ℓ, any."""


def closed_factor(m: sympy.Expr = ANY) -> sympy.Expr:
    """c_{2m}(n) for symbolic m, (3.46): (2/n)^m Γ(n/2 + m)/Γ(n/2)."""
    return (2 / n) ** m * sympy.gamma(n / 2 + m) / sympy.gamma(n / 2)


def step() -> sympy.Expr:
    """G_{2m}^(ℓ+1)/G_{2m}^(ℓ) for any m. At given z in layer ℓ, u·z of the next is normal, of
    variance C_W |z|²/n; in layer ℓ it is |z| times a component of a uniform direction. Either has
    the moment (2m − 1)!! G_{2m}."""
    return (C_W / n) ** ANY * normal_moment(ANY) / direction_moment(n, ANY)


def every_layer(factor: sympy.Expr) -> sympy.Expr:
    """The product that begins with 1 at the first layer and gains a factor at each step."""
    values = sympy.Function("g")
    this, above = values(depth_), values(depth_ + 1)
    return sympy.rsolve(above - factor * this, this, {values(1): 1})


def kernel(a: int, b: int) -> Component:
    """$G^{(0)}_{ab}=x_a\\cdot x_b/n_0$, eq. (3.9)."""
    return Component("K0", (min(a, b), max(a, b)))


# %% [markdown]
# ## Two points (3.10)–(3.15)


# %%
@claim("004", "3.10", "two-point correlator of the first layer")
def first_two_points() -> Verdict:
    """$C_WG^{(0)}_{\\alpha_1\\alpha_2}$, for one input and for two."""
    found = [deep_linear.coefficient(pair, WIDTHS[:1], Gaussian(C_W)) for pair in ((1, 1), (1, 2))]
    return equal(found, [C_W * kernel(1, 1), C_W * kernel(1, 2)])


@claim("004", "3.15", "two-point correlator of every layer, (3.14)–(3.15)")
def two_points() -> Verdict:
    """$G^{(\\ell+1)}=C_WG^{(\\ell)}$, so $G^{(\\ell)}=C_W^\\ell G^{(0)}$, whatever the widths; only
    $C_W=1$ keeps it."""
    depths = range(1, L + 1)
    found = [deep_linear.coefficient((1, 2), WIDTHS[:depth], Gaussian(C_W)) for depth in depths]
    steps = [after / before for before, after in pairwise(found)]
    return both(
        equal(found, [C_W**depth * kernel(1, 2) for depth in depths], f"(3.15), layers 1 to {L}"),
        equal(steps, [C_W] * (L - 1), "(3.14)"),
        equal(sympy.solve(steps[0] - 1, C_W), [1], "critical C_W"),
    )


# %% [markdown]
# ## Four points (3.18)–(3.33)


# %%
@claim("004", "3.22", "four-point correlator of the first layer")
def first_four_points() -> Verdict:
    """$G_4^{(1)}=C_W^2(G_2^{(0)})^2$; four different inputs have $G_{12}G_{34}$ beside
    $\\delta_{12}\\delta_{34}$."""
    found = deep_linear.coefficient((1, 1, 1, 1), WIDTHS[:1], Gaussian(C_W))
    several = deep_linear.coefficient((1, 2, 3, 4), WIDTHS[:1], Gaussian(C_W))
    return equal([found, several], [C_W**2 * K**2, C_W**2 * kernel(1, 2) * kernel(3, 4)])


@claim("004", "3.24", "recursion of the four-point correlator, (3.23)–(3.24)")
def four_point_step() -> Verdict:
    """$C_W^2(1+2/n)$: one contraction closes two loops, two close one, which is the sum of deltas
    in (3.23)."""
    total = sum(n ** loops(((0, 1), (2, 3)), q) for q in pair_partitions(4)) / n**2
    found = deep_linear.coefficient((1,) * 4, [n, n, n], Gaussian(C_W)) / deep_linear.coefficient(
        (1,) * 4, [n, n], Gaussian(C_W)
    )
    return equal([total, found], [1 + 2 / n, C_W**2 * (1 + 2 / n)])


@claim("004", "3.25", "four-point correlator of every layer")
def four_points() -> Verdict:
    """$\\prod_{\\ell'<\\ell}(1+2/n_{\\ell'})\\,(G_2^{(\\ell)})^2$, with different widths."""
    found = [
        deep_linear.coefficient((1,) * 4, WIDTHS[:depth], Gaussian(C_W)) for depth in (2, 3, L)
    ]
    printed = [
        sympy.Mul(*(1 + 2 / width for width in WIDTHS[: depth - 1])) * (C_W**depth * K) ** 2
        for depth in (2, 3, L)
    ]
    closed = (1 + 2 / n) ** (depth_ - 1)  # equal widths, any layer, by (3.24)'s step
    return both(
        equal(found, printed, f"layers 2, 3, {L}"),
        equal(
            [closed.subs(depth_, 1), sympy.simplify(closed.subs(depth_, depth_ + 1) / closed)],
            [linear.correlator(2, [n]), linear.correlator(2, [n, n])],
            "and by induction in ℓ",
        ),
    )


@claim("004", "3.26", "four points at infinite width, (3.26)–(3.27)")
def infinite_width() -> Verdict:
    """As all hidden widths go to infinity $G_4\\to G_2^2$, with one input; with four inputs
    $\\mathbb E[z_1z_2z_3z_4]\\to\\delta\\delta\\,G_{12}G_{34}+\\dots$, Wick's theorem again."""
    depths = (2, 3, L)
    one = [deep_linear.coefficient((1,) * 4, [n] * depth, Gaussian(C_W)) for depth in depths]
    four = [deep_linear.coefficient((1, 2, 3, 4), [n] * depth, Gaussian(C_W)) for depth in depths]
    limits = [sympy.limit(each, n, sympy.oo) for each in (*one, *four)]
    squares = [(C_W**depth * K) ** 2 for depth in depths]
    products = [C_W ** (2 * depth) * kernel(1, 2) * kernel(3, 4) for depth in depths]
    return equal(limits, [*squares, *products], f"layers 2, 3, {L}: one input, and four")


@claim("004", "3.28", "how far four points are from Gaussian ones")
def connected_four_points() -> Verdict:
    """$[(1+2/n)^{\\ell-1}-1]\\,G_2^2$, to leading order $2(\\ell-1)/n$; the joint cumulant of four
    preactivations for one input, exact in n."""
    depths = (1, 2, 6)
    found = [linear.connected(2, [n] * depth) for depth in depths]
    leading = [sympy.limit(n * value, n, sympy.oo) for value in found]
    direct = deep_linear.coefficient((1,) * 4, [n] * 6, connected=True)
    # any ℓ: G_4 steps by G_4(layer 2)/G_4(layer 1), whatever the layer (3.24), from 1
    every = every_layer(linear.correlator(2, [n, n]) / linear.correlator(2, [n]))
    any_layer = (1 + 2 / n) ** (depth_ - 1)
    return both(
        equal(sympy.simplify(every / any_layer), 1, "any ℓ, solving (3.24)"),
        equal(sympy.limit(n * (any_layer - 1), n, sympy.oo), 2 * (depth_ - 1), "2(ℓ − 1)/n, any ℓ"),
        equal(found, [(1 + 2 / n) ** (depth - 1) - 1 for depth in depths], "layers 1, 2, 6"),
        equal(leading, [2 * (depth - 1) for depth in depths], "and its leading order"),
        equal(direct, found[-1] * K**2, "also by the pairings' matrix"),
    )


@claim("004", "3.30", "what two neurons know of each other")
def two_neurons() -> Verdict:
    """$\\operatorname{Cov}(z_j^2,z_k^2)=G_4-G_2^2$ for $j\\ne k$, and $3G_4-G_2^2$ for $j=k$: of
    the three pairings one survives, or all, which (3.44) has in any layer. Left: weight by weight,
    layers 1 to 3 of widths 2, 3, 2, 2; right: the engine's pairings."""
    network = Written((2, 3, 2, 2))
    found, printed = [], []
    for layer, (j, k) in product((1, 2, 3), ((0, 1), (0, 0))):
        squares = network.correlator(layer, (j, j)) * network.correlator(layer, (k, k))
        found.append(sympy.expand(network.correlator(layer, (j, j, k, k)) - squares))
        G_4, G_2 = network.derived(layer, 2), network.derived(layer, 1)
        printed.append(sympy.expand((3 if j == k else 1) * G_4 - G_2**2))
    four, two = sympy.symbols("G_4 G_2")
    surviving = [deltas((j, j, k, k)) * four - two**2 for j, k in ((0, 1), (0, 0))]
    return both(
        equal(found, printed, "layers 1 to 3"),
        equal(surviving, [four - two**2, 3 * four - two**2], "count of pairings, times G_4"),
    )


@claim("004", "3.33", "variance of the mean square preactivation, exact")
def norm_variance() -> Verdict:
    """$\\frac2nG_4+G_4-G_2^2$, as printed in its third line: exactly $(1+2/n)^\\ell-1$ over
    $G_2^2$ for any ℓ, of which the last line keeps $2\\ell/n$. Different widths:
    $\\prod_{\\ell'\\le\\ell}(1+2/n_{\\ell'})-1$."""
    depth = 4
    g4 = linear.correlator(2, [n] * depth)
    found = deep_linear.norm_variance([n] * depth)
    several = deep_linear.norm_variance(WIDTHS)
    any_g4 = every_layer(linear.correlator(2, [n, n]) / linear.correlator(2, [n]))
    any_layer = (1 + 2 / n) ** depth_ - 1
    third = 2 * any_g4 / n + any_g4 - 1
    return both(
        equal(sympy.simplify(third - any_layer), 0, "the third line at any ℓ"),
        equal(sympy.limit(n * any_layer, n, sympy.oo), 2 * depth_, "2ℓ/n, any ℓ"),
        equal(found, 2 * g4 / n + g4 - 1, "third line"),
        equal(found, (1 + 2 / n) ** depth - 1, "closed form"),
        equal(several, sympy.Mul(*(1 + 2 / width for width in WIDTHS)) - 1, "any widths"),
        equal(sympy.limit(n * found, n, sympy.oo), 2 * depth, "leading order 2ℓ/n"),
    )


# %% [markdown]
# ## Six points and more (3.34)–(3.47)


# %%
@claim("004", "3.34", "2m points of the first layer are Gaussian")
def first_layer() -> Verdict:
    """$G_{2m}^{(1)}=(G_2^{(1)})^m$ and no connected part, at any $n_1$; $(2m-1)!!$ terms. Any m:
    $u\\cdot z$ is a sum of normal weights, whose moment is that of a normal number, and the
    logarithm of whose characteristic function is quadratic."""
    orders = range(1, MOST + 1)
    found = [linear.correlator(m, [n]) for m in orders]
    connected = [linear.connected(m, [n]) for m in orders if m > 1]
    counts = [sum(linear.loop_census(m).values()) for m in orders]
    G_2, u, z = C_W * K0, sympy.Symbol("u", real=True), sympy.Symbol("z", real=True)
    density = sympy.exp(-(z**2) / (2 * G_2)) / sympy.sqrt(2 * sympy.pi * G_2)
    wave = sympy.integrate(sympy.cos(u * z) * density, (z, -sympy.oo, sympy.oo))
    logarithm = sympy.expand_log(sympy.log(wave), force=True)
    return both(
        equal(same(normal_moment(ANY), pairings(ANY)), 1, "E g^{2m} = P(m) pairings, any m"),
        equal(sympy.simplify(logarithm), -G_2 * u**2 / 2, "no connected part, any m"),
        equal(same(pairings(ANY), sympy.factorial2(2 * ANY - 1)), 1, "P(m) = (2m − 1)!!, any m"),
        equal([*found, *connected], [1] * MOST + [0] * (MOST - 1), f"m = 1 to {MOST}"),
        equal(counts, [double_factorial_pairings(2 * m) for m in orders], "(2m − 1)!! pairings"),
    )


@claim("004", "3.35", "the first layer's quadratic action")
def action() -> Verdict:
    """The density of $z^{(1)}$, derived from the law of $|z|^2$ (a $\\chi^2$ of $n_1$ components in
    a uniform direction), is $e^{-S}/Z$ with $S=|z|^2/(2G_2^{(1)})$ and
    $Z=(2\\pi G_2^{(1)})^{n_1/2}$."""
    size = sympy.Symbol("n_1", positive=True, integer=True)
    law = linear_laws.law([size], Gaussian(C_W), inputs=sympy.Symbol("n_0", positive=True))
    G_2 = C_W * K0
    S = rho**2 / (2 * G_2)
    density = sympy.hyperexpand(law.density())
    ratio = sympy.powsimp(sympy.expand_power_base(density * sympy.exp(S)), force=True)
    same = sympy.simplify(ratio * (2 * sympy.pi * G_2) ** (size / 2))
    action_ = sympy.expand_log(-sympy.log(density / density.subs(rho, 0)), force=True)
    return both(
        equal(sympy.expand(action_), S, "S, as −log of the density"),
        equal(sympy.powdenest(same, force=True), 1, "and its normalisation"),
    )


@claim("004", "3.39", "the fifteen six-point contractions, (3.39)–(3.41)")
def census() -> Verdict:
    """Of fifteen pairings one closes three loops with (12)(34)(56), six close two, eight one:
    counted one by one, and as sizes of the classes $(1^3)$, $(2,1)$, $(3)$. A sum of deltas with k
    loops is $n^k$, over $n^3$: 1, $1/n$, $1/n^2$, summed out at n = 1, 2, 3."""
    first = ((0, 1), (2, 3), (4, 5))
    types = [coset_type(first, q) for q in pair_partitions(6)]
    shapes = ((1, 1, 1), (2, 1), (3,))
    by_class = linear.loop_census(3)
    weights = []
    for mu, size in product(shapes, (1, 2, 3)):
        q = next(q for q in pair_partitions(6) if coset_type(first, q) == mu)
        indices = product(range(size), repeat=3)
        terms = [all(ijk[a // 2] == ijk[b // 2] for a, b in q) for ijk in indices]
        weights.append(sympy.Rational(sum(terms), size**3))
    printed = [sympy.Integer(size) ** -k for k in range(3) for size in (1, 2, 3)]
    return both(
        equal([types.count(mu) for mu in shapes], [1, 6, 8], "of the fifteen, one by one"),
        equal([by_class[each] for each in (3, 2, 1)], [1, 6, 8], "by class"),
        equal(weights, printed, "1, 1/n and 1/n², at n = 1, 2, 3"),
    )


@claim("004", "3.42", "recursion of the six-point correlator")
def six_point_step() -> Verdict:
    """$C_W^3(1+6/n+8/n^2)$, from layers 2 and 3."""
    points = (1,) * 6
    found = deep_linear.coefficient(points, [n] * 3, Gaussian(C_W)) / deep_linear.coefficient(
        points, [n] * 2, Gaussian(C_W)
    )
    return equal(found, C_W**3 * (1 + 6 / n + 8 / n**2))


@claim("004", "3.43", "six-point correlator of every layer, and its initial condition")
def six_points() -> Verdict:
    """The solution is as printed; the initial condition named with it, $G_6^{(0)}=(G_2^{(0)})^3$,
    is not (3.34), which is $G_6^{(1)}=(G_2^{(1)})^3$: stepping from layer 0 by (3.42) would bring
    in $n_0$."""
    depth = 4
    found = deep_linear.coefficient((1,) * 6, WIDTHS[:depth], Gaussian(C_W))
    factors = (1 + 6 / width + 8 / width**2 for width in WIDTHS[: depth - 1])
    solution = equal(found, sympy.Mul(*factors) * (C_W**depth * K) ** 3)
    start = deep_linear.coefficient((1,) * 6, WIDTHS[:1], Gaussian(C_W)) / K**3
    return misprint(
        start,
        C_W**3 * linear.contraction_factor(3, sympy.Symbol("n_0", positive=True)),
        "G_6^(1)/(G_2^(0))³: derived, and as (3.42) gives it from the printed G_6^(0); the "
        "solution (3.43) itself starts right, with G_6^(1) = (G_2^(1))³",
        provided=solution,
    )


@claim("004", "3.45", "recursion of the 2m-point correlator")
def all_point_step() -> Verdict:
    """$c_{2m}(n)\\,C_W^m$ for any m, whatever the layer: at given $z^{(\\ell)}$ the next
    $u\\cdot z$ is normal of variance $C_W|z|^2/n$, and in layer ℓ it is $|z|$ times a component of
    a uniform direction, so the ratio of their moments is that of two integrals. By pairings, the
    ratio of neighbouring layers' coefficients for m = 1 to 4, between different widths."""
    orders = (4, 3, 2, 1)
    before, after = (
        [deep_linear.coefficient((1,) * (2 * m), WIDTHS[:depth], Gaussian(C_W)) for m in orders]
        for depth in (2, 3)
    )
    steps = [sympy.cancel(b / a) for a, b in zip(before, after, strict=True)]
    printed = [
        C_W**m * sympy.Mul(*(1 + sympy.Integer(2 * s) / WIDTHS[1] for s in range(m)))
        for m in orders
    ]
    return both(
        equal(same(step(), C_W**ANY * closed_factor()), 1, "E g^{2m} over E ω^{2m}, any m and n"),
        equal(steps, printed, "layer 2 to 3, m = 1 to 4"),
    )


@claim("004", "3.46", "c_{2m}(n), by the loop census at general m")
def combinatorial_factor() -> Verdict:
    """$\\sum_\\mu|\\mu|\\,n^{\\ell(\\mu)}/n^m$ is the product $(1+2/n)\\cdots(1+(2m-2)/n)$, and the
    printed factorials, for m = 1 to 8. For all m by induction: one more pair of points joins each
    other, a new loop (n), or enters one of m lines, two ways, and no loop is new: every pairing of
    2m + 2 points once (counted out at m = 1, 2, 3), so $c_{2m+2}=c_{2m}(n+2m)/n$, which the printed
    factorials obey at symbolic m. And as an integral: by Wick's theorem the sum of $n^{loops}$ is
    $\\mathbb E|g|^{2m}$ of n normal numbers."""
    next_one = sympy.gammasimp(closed_factor(ANY + 1) / closed_factor())
    orders = range(1, MOST + 1)
    found = [linear.contraction_factor(m, n) for m in orders]
    products = [sympy.Mul(*(1 + 2 * s / n for s in range(m))) for m in orders]
    factorials = [
        sympy.gammasimp(sympy.gamma(n / 2 + m) / sympy.gamma(n / 2)) * (2 / n) ** m for m in orders
    ]
    steps = [
        sympy.cancel(linear.contraction_factor(m, n) * n / linear.contraction_factor(m - 1, n))
        for m in orders
        if m > 1
    ]
    return both(
        equal(found, products, f"m = 1 to {MOST}"),
        equal(found, factorials, "and as the ratio of factorials"),
        equal(steps, [n + 2 * m - 2 for m in orders if m > 1], "step in m: n + 2m − 2"),
        equal(sympy.simplify(next_one), (n + 2 * ANY) / n, "step of the factorials, any m"),
        equal(same(length_moment(ANY, n) / n**ANY, closed_factor()), 1, "as E|g|^{2m}, any m"),
        equal(sympy.gammasimp(closed_factor(sympy.S.One)), 1, "from c_2 = 1"),
        *[insertions(m) for m in (1, 2, 3)],
    )


def insertions(m: int) -> Verdict:
    """Every pairing of 2m + 2 points comes from one of 2m points by one insertion, with the loops
    it should have: n once and 1 twice for each of m lines."""
    traces: Pairing = tuple((2 * k, 2 * k + 1) for k in range(m))
    a, b = 2 * m, 2 * m + 1
    more: Pairing = (*traces, (a, b))
    grown, gained = [], []
    for q in pair_partitions(2 * m):
        before = loops(traces, q)
        lines = [(i, j) for pair in q for i, j in (pair, pair[::-1])]
        cut = [[p for p in q if set(p) != {i, j}] + [(i, a), (j, b)] for i, j in lines]
        for r in ([*q, (a, b)], *cut):
            ordered: Pairing = tuple(sorted((min(pair), max(pair)) for pair in r))
            grown.append(ordered)
            gained.append(loops(more, ordered) - before)
    every = {tuple(sorted(tuple(sorted(pair)) for pair in r)) for r in pair_partitions(2 * m + 2)}
    count = double_factorial_pairings(2 * m)
    return equal(
        [len(grown), len(set(grown)), len(every & set(grown)), gained.count(1), gained.count(0)],
        [len(every), len(every), len(every), count, 2 * m * count],
        f"insertions, m = {m}",
    )


@claim("004", "3.47", "2m-point correlators of every layer")
def all_points() -> Verdict:
    """$\\prod_{\\ell'<L}c_{2m}(n_{\\ell'})\\,(G_2^{(L)})^m$ for any m and L by induction, from
    (3.34) by (3.45), at equal widths solved; at m = 1 to 8, L = 5 different widths;
    and for symbolic m as the moments of $|z|^2$, a product of independent $\\chi^2$: L = 3."""
    orders = range(1, MOST + 1)
    found = [linear.correlator(m, WIDTHS) for m in orders]
    printed = [
        sympy.Mul(*((width + 2 * s) / width for width in WIDTHS[:-1] for s in range(m)))
        for m in orders
    ]
    # E|z|^{2m} = n_L^m c_{2m}(n_L) G_{2m}: the law's moments are Pochhammer symbols at any m
    sizes = WIDTHS[:3]
    scale = linear_laws.law(sizes)
    product_of = sympy.Mul(*(closed_factor().subs(n, width) for width in sizes))
    pochhammers = sympy.Mul(*(sympy.rf(a, ANY) for a in scale.gammas))
    moment = scale.scale**ANY * pochhammers
    any_m = same(moment, product_of * (sizes[-1] * K0) ** ANY)
    # (G_2^(ℓ))^m = C_W^{mℓ} K_0^m; G_{2m}^(1) = (C_W K_0)^m by (3.34)
    factor = sympy.Symbol("f", positive=True)
    solved = (C_W * K0) ** ANY * every_layer(factor).subs(factor, C_W**ANY * closed_factor())
    printed_any = closed_factor() ** (depth_ - 1) * (C_W**depth_ * K0) ** ANY
    return both(
        equal(same(solved, printed_any), 1, "any m and layer, equal widths"),
        equal([a / b for a, b in zip(found, printed, strict=True)], [1] * MOST, f"m ≤ {MOST}"),
        equal(any_m, 1, "any m, by the law of |z|², three widths"),
    )
