# %% [markdown]
# # Correlators of deep linear networks
#
# Each layer contracts its weights in pairs, $\sum_p\delta_p(i)\,\delta_p(j)\,C_W^m/n^m$, and each
# contraction of the previous layer's pairs closes loops: $\sum_r n^{\mathrm{loops}(p,r)}$.
"""All 2m-point functions by summing pairings (source 004, §§3.2–3.4, eqs. 3.4–3.47)."""

from __future__ import annotations

import sympy

from derivations.claims import Verdict, both, claim, equal, misprint
from derive import linear
from derive.brackets import Component
from derive.pairings import coset_type, double_factorial_pairings, loops, pair_partitions
from derive.weights import Gaussian

n = sympy.Symbol("n", positive=True)
C_W = sympy.Symbol("C_W", positive=True)
WIDTHS = sympy.symbols("n_1:6", positive=True)
L = len(WIDTHS)
K = Component("K0", (1, 1))
MOST = 8


def kernel(a: int, b: int) -> Component:
    """G^(0)_{ab} = x_a·x_b/n_0, eq. (3.9)."""
    return Component("K0", (min(a, b), max(a, b)))


@claim("004", "3.10", "two-point correlator of the first layer, (3.8)–(3.10)")
def first_two_points() -> Verdict:
    """C_W G^(0)_{ab}, for any pair of inputs."""
    found = [linear.coefficient(pair, WIDTHS[:1], Gaussian(C_W)) for pair in ((1, 1), (1, 2))]
    return equal(found, [C_W * kernel(1, 1), C_W * kernel(1, 2)])


@claim("004", "3.15", "two-point correlator of every layer, (3.11)–(3.15)")
def two_points() -> Verdict:
    """G^(ℓ) = C_W^ℓ G^(0), whatever the widths."""
    depths = range(1, L + 1)
    found = [linear.coefficient((1, 2), WIDTHS[:depth], Gaussian(C_W)) for depth in depths]
    return equal(found, [C_W**depth * kernel(1, 2) for depth in depths], f"layers 1 to {L}")


@claim("004", "3.22", "four-point correlator of the first layer, (3.18)–(3.22)")
def first_four_points() -> Verdict:
    """G_4^(1) = C_W² (G_2^(0))²; four different inputs have G_12 G_34 beside δ_12 δ_34."""
    found = linear.coefficient((1, 1, 1, 1), WIDTHS[:1], Gaussian(C_W))
    several = linear.coefficient((1, 2, 3, 4), WIDTHS[:1], Gaussian(C_W))
    return equal([found, several], [C_W**2 * K**2, C_W**2 * kernel(1, 2) * kernel(3, 4)])


@claim("004", "3.24", "recursion of the four-point correlator, (3.20)–(3.24)")
def four_point_step() -> Verdict:
    """C_W² (1 + 2/n): one contraction closes two loops, two close one."""
    total = sum(n ** loops(((0, 1), (2, 3)), q) for q in pair_partitions(4)) / n**2
    step = linear.coefficient((1,) * 4, [n, n, n], Gaussian(C_W)) / linear.coefficient(
        (1,) * 4, [n, n], Gaussian(C_W)
    )
    return equal([total, step], [1 + 2 / n, C_W**2 * (1 + 2 / n)])


@claim("004", "3.25", "four-point correlator of every layer")
def four_points() -> Verdict:
    """Π_{ℓ'<ℓ}(1 + 2/n_ℓ') (G_2^(ℓ))², with different widths."""
    found = [linear.coefficient((1,) * 4, WIDTHS[:depth], Gaussian(C_W)) for depth in (1, 3, L)]
    printed = [
        sympy.Mul(*(1 + 2 / width for width in WIDTHS[: depth - 1])) * (C_W**depth * K) ** 2
        for depth in (1, 3, L)
    ]
    return equal(found, printed, f"layers 1, 3, {L}")


@claim("004", "3.28", "connected four-point correlator, (3.28)–(3.29)")
def connected_four_points() -> Verdict:
    """[(1 + 2/n)^{ℓ−1} − 1] (G_2)², to leading order 2(ℓ−1)/n; the joint cumulant of 4
    preactivations for one input, exact in n."""
    depths = (1, 2, 6)
    found = [linear.connected(2, [n] * depth) for depth in depths]
    leading = [sympy.limit(n * value, n, sympy.oo) for value in found]
    direct = linear.coefficient((1,) * 4, [n] * 6, connected=True)
    return both(
        equal(found, [(1 + 2 / n) ** (depth - 1) - 1 for depth in depths], "layers 1, 2, 6"),
        equal(leading, [2 * (depth - 1) for depth in depths], "and its leading order"),
        equal(direct, found[-1] * K**2, "also by the pairings' matrix"),
    )


@claim("004", "3.30", "what two neurons know of each other")
def two_neurons() -> Verdict:
    """Cov(z_j², z_k²) = G_4 − G_2² for j ≠ k, and 3 G_4 − G_2² for j = k: of the three pairings
    one survives, or all."""
    depth = 4
    g4 = linear.correlator(2, [n] * depth)
    apart, same = (
        g4 * sum(all(index[a] == index[b] for a, b in p) for p in pair_partitions(4)) - 1
        for index in ((1, 1, 2, 2), (1, 1, 1, 1))
    )
    return equal([apart, same], [linear.connected(2, [n] * depth), 3 * g4 - 1], "layer 4")


@claim("004", "3.33", "variance of the mean square preactivation, exact")
def norm_variance() -> Verdict:
    """(2/n) G_4 + G_4 − G_2², as printed in its third line: exactly (1 + 2/n)^ℓ − 1, of which
    the last line keeps 2ℓ/n. Different widths: Π_{ℓ'≤ℓ}(1 + 2/n_ℓ') − 1."""
    depth = 4
    g4 = linear.correlator(2, [n] * depth)
    found = linear.norm_variance([n] * depth)
    several = linear.norm_variance(WIDTHS)
    return both(
        equal(found, 2 * g4 / n + g4 - 1, "third line"),
        equal(found, (1 + 2 / n) ** depth - 1, "closed form"),
        equal(several, sympy.Mul(*(1 + 2 / width for width in WIDTHS)) - 1, "any widths"),
        equal(sympy.limit(n * found, n, sympy.oo), 2 * depth, "leading order 2ℓ/n"),
    )


# %% [markdown]
# ## Six points and more (3.34)–(3.47)


@claim("004", "3.34", "the first layer is Gaussian, (3.34)–(3.35)")
def first_layer() -> Verdict:
    """G_{2m}^(1) = (G_2^(1))^m and no connected part, at any n_1; (2m−1)!! terms."""
    orders = range(1, MOST + 1)
    found = [linear.correlator(m, [n]) for m in orders]
    connected = [linear.connected(m, [n]) for m in orders if m > 1]
    counts = [sum(linear.loop_census(m).values()) for m in orders]
    return both(
        equal([*found, *connected], [1] * MOST + [0] * (MOST - 1), f"m = 1 to {MOST}"),
        equal(counts, [double_factorial_pairings(2 * m) for m in orders], "(2m − 1)!! pairings"),
    )


@claim("004", "3.39–3.41", "the fifteen six-point contractions")
def census() -> Verdict:
    """Of fifteen pairings one closes three loops with (12)(34)(56), six close two, eight one:
    counted one by one, and as sizes of the classes (1³), (2,1), (3)."""
    first = ((0, 1), (2, 3), (4, 5))
    types = [coset_type(first, q) for q in pair_partitions(6)]
    counted = [types.count(mu) for mu in ((1, 1, 1), (2, 1), (3,))]
    by_class = linear.loop_census(3)
    return equal(
        [*counted, *(by_class[each] for each in (3, 2, 1)), len(types)],
        [1, 6, 8, 1, 6, 8, 15],
        "1, 6 and 8 of the fifteen",
    )


@claim("004", "3.42", "recursion of the six-point correlator")
def six_point_step() -> Verdict:
    """C_W³ (1 + 6/n + 8/n²)."""
    points = (1,) * 6
    step = linear.coefficient(points, [n] * 3, Gaussian(C_W)) / linear.coefficient(
        points, [n] * 2, Gaussian(C_W)
    )
    return equal(step, C_W**3 * (1 + 6 / n + 8 / n**2))


@claim("004", "3.43", "six-point correlator of every layer, and its initial condition")
def six_points() -> Verdict:
    """The solution is as printed; the initial condition named with it, G_6^(0) = (G_2^(0))³, is
    not (3.34), which is G_6^(1) = (G_2^(1))³: stepping from layer 0 by (3.42) would bring in
    n_0."""
    depth = 4
    found = linear.coefficient((1,) * 6, WIDTHS[:depth], Gaussian(C_W))
    factors = (1 + 6 / width + 8 / width**2 for width in WIDTHS[: depth - 1])
    solution = equal(found, sympy.Mul(*factors) * (C_W**depth * K) ** 3)
    if not solution.holds:
        return solution
    start = linear.coefficient((1,) * 6, WIDTHS[:1], Gaussian(C_W)) / K**3
    return misprint(
        start,
        C_W**3 * linear.contraction_factor(3, sympy.Symbol("n_0", positive=True)),
        "G_6^(1)/(G_2^(0))³: derived, and as (3.42) gives it from the printed G_6^(0); the "
        "solution (3.43) itself starts right, with G_6^(1) = (G_2^(1))³",
    )


@claim("004", "3.46", "c_{2m}(n), by the loop census at general m")
def combinatorial_factor() -> Verdict:
    """Σ_μ |μ| n^{ℓ(μ)}/n^m is the product (1 + 2/n)…(1 + (2m−2)/n), and the printed factorials,
    for m = 1 to 8. For all m by induction: point 2m of the next pair joins its own partner, a
    new loop (n), or enters an old loop beside one of the 2m − 2 points, (n + 2m − 2)."""
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
    )


@claim("004", "3.47", "2m-point correlators of every layer, (3.44)–(3.47)")
def all_points() -> Verdict:
    """Π_{ℓ'<L} c_{2m}(n_ℓ') (G_2^(L))^m at m = 1 to 8, L = 5 different widths."""
    orders = range(1, MOST + 1)
    found = [linear.correlator(m, WIDTHS) for m in orders]
    printed = [
        sympy.Mul(*((width + 2 * s) / width for width in WIDTHS[:-1] for s in range(m)))
        for m in orders
    ]
    return equal([a / b for a, b in zip(found, printed, strict=True)], [1] * MOST, f"m ≤ {MOST}")
