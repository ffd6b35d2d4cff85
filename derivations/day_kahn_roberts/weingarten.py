# %% [markdown]
# # Weingarten's functions, and linear orthogonal networks
#
# A Haar-random matrix averages to pairings joined by Weingarten's function,
#
# $$ E[W_{i_1 j_1} \cdots W_{i_{2k} j_{2k}}]
#    = C_W^k \sum_{p,q} \delta_p(i)\, \mathcal W(p,q)\, \delta_q(j), $$
#
# the inverse of the Gram matrix $n^{\mathrm{loops}(p,q)}$. In a deep linear network the sum over
# the columns meets $\sum_j \delta_q(j)\delta_r(j) = n^{\mathrm{loops}(q,r)}$ of the layer below and
# undoes it: that is why orthogonal correlators do not depend on depth (source 000, §4).

# %%
"""Row sums of Weingarten's function and the correlators of linear networks (000, eqs. 4.6–4.17)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod

import sympy

from derivations.claims import Verdict, both, claim, equal, misprint
from derivations.moments.gram import gram_matrix
from derivations.moments.isotropic import (
    ANY,
    direction_moment,
    length_moment,
    pairings,
    same,
)
from derive import symbols
from derive.arithmetic.rational import RationalFunction, Term
from derive.groups.moments import haar_moment
from derive.groups.pairings import coset_type, pair_partitions
from derive.groups.weingarten import class_size, table, weingarten
from derive.groups.zonal import partitions
from derive.symbols import C_W, K0, n
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

norm = symbols.Symbol("|x|", positive=True)
depth = sympy.Symbol("ell", positive=True, integer=True)
Indices = tuple[int, ...]
LARGEST = 8
"""Row sums are counted out for up to this many pairs of factors, and integrals for any number."""


def row_sum(k: int) -> sympy.Expr:
    """Σ_q W(p,q), by the sizes of the classes."""
    functions = table(k)
    return RationalFunction.total(
        Term(class_size(mu), functions.function(mu)) for mu in partitions(k)
    ).expr(n)


def wick_sum(k: int) -> sympy.Expr:
    """Σ_q n^{loops(p,q)}: the sum over neurons of all Wick contractions of 2k indices."""
    return sum(class_size(mu) * n ** len(mu) for mu in partitions(k))


def layer_factor(weights: WeightEnsemble, k: int) -> sympy.Expr:
    """G_2k^(ℓ+1)/(C_W^k G_2k^(ℓ)) of a linear network, from the layer's pairing matrix."""
    columns = sum(class_size(mu) * weights.coefficient(mu, n, n) for mu in partitions(k))
    return sympy.cancel(columns * wick_sum(k))


def rising(m: sympy.Expr = ANY) -> sympy.Expr:
    """n(n+2)⋯(n+2m−2), m factors, for any m."""
    return 2**m * sympy.rf(n / 2, m)


def any_row_sum(m: sympy.Expr = ANY) -> sympy.Expr:
    """Σ_q W(p,q) for any m: Q_11^{2m} has the average Σ_pq W(p,q), over (2m − 1)!! rows p, and is
    the power of a component of a uniform direction, an integral over its angle."""
    return direction_moment(n, m) / pairings(m)


def first_layer(k: int) -> sympy.Expr:
    """G_2k^(1)/C_W^k = Σ_q W(p,q) |x|^{2k} with |x|² = n K0 (4.5)."""
    return row_sum(k) * (n * K0) ** k


# %% [markdown]
# ## Rows that sum to one over n(n+2)…
#
# The vector with all entries 1 is an eigenvector of the Gram matrix: adding a pair to a pairing
# either closes a loop ($n$ ways) or lengthens one ($2(k-1)$ ways), so the row sums obey
# $s_k = (n + 2(k-1))\, s_{k-1}$. The inverse has the inverse row sums.


# %%
@claim("000", "4.13", "combinatorial factor of the Wick contractions")
def combinatorial_factor() -> Verdict:
    r"""$n^m c_{2m}(n)$ is the sum of $n^{\mathrm{loops}}$ over all pairings, for any m as
    $\mathbb E|g|^{2m}$ of n normal numbers, by Wick's theorem; counted for $2m$ up to 16
    indices."""
    counted = [wick_sum(k) / n**k for k in range(1, LARGEST + 1)]
    printed = [prod(n + 2 * j for j in range(k)) / n**k for k in range(1, LARGEST + 1)]
    return both(
        equal(same(length_moment(ANY, n), rising()), 1, "any m"),
        equal(counted, printed, f"2m = 2, …, {2 * LARGEST}"),
    )


@claim("000", "§4 (rows)", "row sums of Weingarten's function")
def row_sums() -> Verdict:
    r"""Each row of $\mathcal W$ sums to $[n(n+2)\cdots(n+2m-2)]^{-1}$, for any m by the moments of
    a uniform direction; by the table of $\mathcal W$ for $2m$ up to 16 indices."""
    printed = [
        1 / prod((n + 2 * j for j in range(k)), start=sympy.Integer(1))
        for k in range(1, LARGEST + 1)
    ]
    table_ = [row_sum(k) for k in range(1, LARGEST + 1)]
    return both(
        equal(same(any_row_sum(), 1 / rising()), 1, "any m"),
        equal(table_, printed, f"m = 1, …, {LARGEST}"),
    )


@claim("000", "§4 (Gram)", "Weingarten's function is the inverse of the Gram matrix")
def inverse_of_the_gram_matrix() -> Verdict:
    r"""$\mathcal W G = 1$ with symbols for up to six factors; at $n = 1$ and 2, where $G$ is
    singular, both $\mathcal W G \mathcal W = \mathcal W$ and $G \mathcal W G = G$."""
    parts = []
    for k in (1, 2, 3):
        pairings = pair_partitions(2 * k)
        for size in (n, 1, 2):
            values = {mu: weingarten(mu, size) for mu in partitions(k)}
            inverse = sympy.Matrix([[values[coset_type(p, q)] for q in pairings] for p in pairings])
            gram = gram_matrix(k, size)
            if size is n:
                left, right = inverse.to_DM().unify(gram.to_DM())
                found = (left * right).to_Matrix()
                parts.append(equal(list(found), list(sympy.eye(len(pairings)))))
            else:
                parts.append(equal(list(inverse * gram * inverse), list(inverse)))
                parts.append(equal(list(gram * inverse * gram), list(gram)))
    return both(*parts, detail="m = 1, 2, 3; the pseudo-inverse where n < m")


# %% [markdown]
# ## Four-point functions (4.6)–(4.12)


# %%
@claim("000", "4.6", "four-point function of the first layer")
def first_layer_fourth_moment() -> Verdict:
    """$E[z_{i_1} z_{i_2} z_{i_3} z_{i_4}]$ of layer 1 for every pattern of neurons, with symbols
    for the input."""
    derived, printed = [], []
    for size in (2, 3):
        x = sympy.symbols(f"x1:{size + 1}")
        square = sum(value**2 for value in x)
        for i in product(range(1, size + 1), repeat=4):
            derived.append(
                sum(
                    haar_moment(i, j, size) * prod(x[a - 1] for a in j)
                    for j in product(range(1, size + 1), repeat=4)
                )
            )
            pairs = sum(all(i[a] == i[b] for a, b in pairing) for pairing in pair_partitions(4))
            printed.append(pairs * square**2 / (size**2 + 2 * size))
    symbolic = equal(row_sum(2), 1 / (n**2 + 2 * n))
    return both(
        symbolic, equal(derived, printed), detail="brute force at n = 2, 3; row sum for all n"
    )


@claim("000", "4.8", "W[1,1] + 2 W[2] against the Wick contractions")
def cancellation() -> Verdict:
    """The row sum $1/(n^2+2n)$ cancels the $n^2+2n$ of the contractions, so that the ansatz (4.7)
    goes on; Gaussian weights leave $(n+2)/n$."""
    return both(
        equal(weingarten((1, 1), n) + 2 * weingarten((2,), n), 1 / (n**2 + 2 * n)),
        equal(wick_sum(2), n**2 + 2 * n),
        equal(layer_factor(Orthogonal(), 2), 1),
        equal(layer_factor(Gaussian(), 2), (n + 2) / n, "Gaussian: (n+2)/n remains, as printed"),
    )


@claim("000", "4.10", "initial condition of G_4")
def initial_condition() -> Verdict:
    r"""$G_4^{(0)} = |x|^4/(n(n+2)) = \frac{n}{n+2} K_0^2$, so that the first layer is $C_W^2$ times
    it."""
    return equal(first_layer(2), n / (n + 2) * K0**2)


@claim("000", "4.11", "four-point vertex of the linear orthogonal network")
def orthogonal_vertex() -> Verdict:
    r"""$G_4 - K^2 = -\frac{2}{n+2} K^2$ at every layer: (4.9) multiplies $G_4$ by what (4.4) does
    $K^2$."""
    K = C_W**depth * K0
    G4 = (C_W**2 * layer_factor(Orthogonal(), 2)) ** depth * first_layer(2)
    return equal(
        G4 - K**2,
        -2 / (n + 2) * K**2,
        "exact in n; this V, and (4.12)'s, is the V/n of (3.8)",
    )


@claim("000", "4.12", "four-point vertex of the linear Gaussian network")
def gaussian_vertex() -> Verdict:
    r"""$G_4 - K^2 = [(1 + 2/n)^{\ell-1} - 1] K^2 = \frac{2(\ell-1)}{n} K^2 + O(1/n^2)$, exactly
    layer by layer."""
    factor = layer_factor(Gaussian(), 2)
    first = sum(class_size(mu) * Gaussian().coefficient(mu, n, n) for mu in partitions(2))
    exact = first * n**2 * factor ** (depth - 1) - 1
    epsilon = sympy.Symbol("epsilon", positive=True)
    slope = sympy.diff(exact.subs(n, 1 / epsilon), epsilon)
    return both(
        equal(sympy.limit(slope, epsilon, 0), 2 * (depth - 1)),
        equal(sympy.limit(exact, n, sympy.oo), 0),
        detail="for all layers at once",
    )


# %% [markdown]
# ## Any number of points (4.14)–(4.17)


# %%
def paired(i: Indices) -> int:
    """Σ_p δ_p(i) over all pairings p of the indices."""
    if len(i) % 2:
        return 0
    return sum(all(i[a] == i[b] for a, b in pairing) for pairing in pair_partitions(len(i)))


def _monomial(x: Sequence[sympy.Symbol], j: Indices) -> sympy.Expr:
    """x_{j1} x_{j2} …"""
    return sympy.Mul(*(x[each - 1] for each in j))


def pushed(i: Indices, size: int, below: Callable[[Indices], sympy.Expr | int]) -> sympy.Expr:
    """Σ_j E[W_{i1 j1} W_{i2 j2} …] below(j) over Haar-random W, C_W = 1."""
    columns = product(range(1, size + 1), repeat=len(i))
    return sympy.Add(*(haar_moment(i, j, size) * below(j) for j in columns))


@claim("000", "4.14", "2m-point functions are pairings of the neurons times G_2m")
def index_structure() -> Verdict:
    r"""The ansätze (4.2), (4.7) and (4.14), for every choice of neurons: layer 1 has the form
    $G_{2m}\sum\delta\cdots\delta$, and whatever layer has it hands it on, as (4.3), (4.8) and
    (4.15) say, multiplied by $C_W^m$. Odd ones vanish. For any m: every layer's z is $|z|$ times a
    uniform direction ω, so where 2a, 2b and 2c points are of one neuron each the average is
    $\mathbb E|z|^{2m}\,\mathbb E\,\omega_1^{2a}\omega_2^{2b}\omega_3^{2c}$, the row sum times the
    number of pairings that join equal neurons."""
    first, initial, step, handed_on = [], [], [], []
    for size, points in ((2, 2), (3, 2), (2, 3), (2, 4), (3, 4), (2, 6)):
        x = sympy.symbols(f"x1:{size + 1}")
        G = sum(value**2 for value in x) ** (points // 2) * row_sum(points // 2).subs(n, size)
        for i in product(range(1, size + 1), repeat=points):
            if i[0] == 1:
                first.append(pushed(i, size, partial(_monomial, x)))
                initial.append(paired(i) * G)
                step.append(pushed(i, size, paired))
                handed_on.append(paired(i))
    a, b, c = orders = sympy.symbols("a b c", positive=True, integer=True)
    joining = sympy.Mul(*map(pairings, orders)) * any_row_sum(a + b + c)
    return both(
        equal(same(direction_moment(n, *orders), joining), 1, "any m, up to three neurons"),
        equal(first, initial, "the first layer of 2 to 6 points, all neurons at n = 2, 3"),
        equal(step, handed_on, "and the step to the next layer"),
    )


@claim("000", "4.15", "which indices are paired")
def pairs_of_all_indices() -> Verdict:
    """The printed product of δ's stops at the m-th index; 2m indices need m pairs. For four points
    it would not vanish where one of the four neurons differs from the others, as it must."""
    G_4 = sympy.Symbol("G_4", positive=True)
    i, m = (1, 1, 1, 2), 2
    stopped = sum(
        all(i[a] == i[b] for a, b in pairing[: m // 2]) for pairing in pair_partitions(2 * m)
    )
    return misprint(
        C_W**m * G_4 * pushed(i, 2, paired),
        C_W**m * G_4 * stopped,
        "E[z_1 z_1 z_1 z_2] summed over the neurons below at n = 2; with δ_{k_{2m−1} k_{2m}} as "
        "the last factor (4.15) is right, see (4.14)",
    )


@claim("000", "4.16", "2m-point functions do not see the depth")
def depth_independence() -> Verdict:
    r"""$G_{2m}^{(\ell+1)} = C_W^m G_{2m}^{(\ell)}$ exactly in $n$, for any m: the row sum, by an
    integral over angles, undoes the contractions of the layer below, by one over the radius; by
    tables for $2m$ up to 16."""
    orthogonal = [sympy.cancel(row_sum(k) * wick_sum(k)) for k in range(1, LARGEST + 1)]
    return both(
        equal(same(any_row_sum() * length_moment(ANY, n), sympy.Integer(1)), 1, "any m"),
        equal(orthogonal, [sympy.Integer(1)] * LARGEST),
        equal([layer_factor(Orthogonal(), k) for k in (1, 2, 3)], [1, 1, 1]),
        detail=f"m = 1, …, {LARGEST}",
    )


@claim("000", "4.17", "initial condition of the 2m-point functions")
def many_point_initial_condition() -> Verdict:
    r"""$G_{2m}^{(0)} = \frac{n^m}{n(n+2)\cdots(n+2m-2)} K_0^m$ for any m, and by tables for $2m$ up
    to 16."""
    printed = [n**k / prod(n + 2 * j for j in range(k)) * K0**k for k in range(1, LARGEST + 1)]
    found = [first_layer(k) for k in range(1, LARGEST + 1)]
    any_m = same(any_row_sum() * (n * K0) ** ANY, (n * K0) ** ANY / rising())
    return both(
        equal(any_m, 1, "any m"),
        equal(found, printed, f"m = 1, …, {LARGEST}"),
    )
