# %% [markdown]
# # One layer of weights
#
# Everything in this chapter is one step, taken again and again: fix the neurons of layer $\ell$,
# average over the weights and biases of layer $\ell + 1$, and then over layer $\ell$. The first
# average is exact at any width,
#
# $$ E[z_{i_1;\alpha_1} \cdots z_{i_{2k};\alpha_{2k}}] = C_W^k \sum_{p,q} \delta_p(i)\, C(p,q)
#    \sum_j \delta_q(j)\, E[\sigma_{j_1;\alpha_1} \cdots \sigma_{j_{2k};\alpha_{2k}}], $$
#
# and fixes how correlators depend on the neural indices. The second is Gaussian at leading order in
# $1/n$.

# %%
"""Averages over one layer's weights (000, eqs. 3.10, 5.1, 5.2, 5.9, 5.12, 5.13)."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint
from derivations.day_kahn_roberts.weights import PATTERNS, n, pairs_up, printed_weingarten
from derivations.day_kahn_roberts.weingarten import pushed
from derive import activations
from derive.gaussian.brackets import Component
from derive.groups.moments import haar_moment
from derive.groups.pairings import coset_type, pair_partitions
from derive.groups.weingarten import series
from derive.recursions import recursion
from derive.symbols import C_W, C_b
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

# %% [markdown]
# ## Gaussian averages (3.10)


# %%
@claim("000", "3.10", "the bracket is a normalised Gaussian average")
def bracket() -> Verdict:
    """The printed integral over two preactivations, as a sum over a fine grid in $z$: normalised,
    with covariance $g$, and for erf the engine's closed form."""
    g = np.array([[1.3, -0.4], [-0.4, 0.8]])
    axis = np.arange(-12, 12, 0.1)
    z = np.stack(np.meshgrid(axis, axis, indexing="ij"))
    exponent = np.einsum("aij,ab,bij->ij", z, np.linalg.inv(g), z) / 2
    density = np.exp(-exponent) / np.sqrt(np.linalg.det(2 * np.pi * g)) * 0.1**2
    sigma = sympy.lambdify(activations.z, activations.erf.expr, "scipy")
    names = {Component("K", (a + 1, b + 1)): g[a, b] for a, b in ((0, 0), (0, 1), (1, 1))}
    kernel = recursion("K").specialise(activations.erf).expr.subs({C_W: 1, C_b: 0})
    first, second = z
    printed = [1.0 + 0 * first, first * first, first * second, sigma(first) * sigma(second)]
    return close(
        [1, g[0, 0], g[0, 1], kernel.xreplace(names)],
        [float((density * each).sum()) for each in printed],
        12,
        "⟨1⟩, ⟨z z⟩ and ⟨erf erf⟩, two inputs",
    )


# %% [markdown]
# ## The average over the weights, exactly (5.1), (5.2), (5.9)
#
# The neurons $\sigma_{j;\alpha}$ of the layer below are symbols here, and each neural index of the
# new layer takes every value.


# %%
def below(size: int) -> dict[tuple[int, int], sympy.Symbol]:
    """σ_{j;α} of the layer below, for each neuron and each of four samples."""
    return {(j, a): sympy.Symbol(f"sigma_{j}_{a}") for j in range(1, size + 1) for a in range(1, 5)}


def averaged(rows: tuple[int, ...], size: int) -> sympy.Expr:
    """E[Π_a Σ_j W_{i_a j} σ_{j;a}] over Haar-random W, the σ fixed, C_W = 1."""
    sigma = below(size)
    return pushed(rows, size, lambda j: prod(sigma[each, a] for a, each in enumerate(j, start=1)))


@claim("000", "5.2", "two-point function of a layer, averaged over its weights and biases")
def weight_average() -> Verdict:
    r"""(5.1) multiplied out: terms with one bias or one weight average to 0, those with two to
    $C_b\delta$ and to $\frac{C_W}{n}\delta\sum_j\sigma_j\sigma_j$, for given σ and so for their
    mean."""
    derived, printed = [], []
    for size in (1, 2, 3):
        sigma = below(size)
        for i in product(range(1, size + 1), repeat=2):
            same = int(i[0] == i[1])
            cross = sum(haar_moment([i[0]], [j], size) * sigma[j, 1] for j in range(1, size + 1))
            derived.append(C_b * same + C_W * averaged(i, size) + sympy.sqrt(C_W) * cross)
            pairs = sum(sigma[j, 1] * sigma[j, 2] for j in range(1, size + 1))
            printed.append(C_b * same + C_W / size * same * pairs)
    first = [each.coefficient((1,), n, n) for each in (Gaussian(), Orthogonal())]
    return both(
        equal(derived, printed, "Haar weights, n = 1, 2, 3, every pair of neurons"),
        equal(first, [1 / n] * 2, "Gaussian and orthogonal alike, any n"),
    )


@claim("000", "5.9", "four-point function of a layer, averaged over its weights")
def four_weights() -> Verdict:
    """The printed matrix form, with (3.6), for given σ and so for their mean."""
    derived, printed = [], []
    for size in (2, 3):
        sigma, pairings = below(size), pair_partitions(4)
        diagonal, off = (each.subs(n, size) for each in printed_weingarten())
        matrix = sympy.Matrix(3, 3, lambda p, q, d=diagonal, o=off: d if p == q else o)
        sums = [
            prod(
                sum(sigma[j, a + 1] * sigma[j, b + 1] for j in range(1, size + 1))
                for a, b in pairing
            )
            for pairing in pairings
        ]
        for i in (each for each in PATTERNS if max(each) <= size):
            derived.append(averaged(i, size))
            printed.append((sympy.Matrix([pairs_up(i)]) * matrix * sympy.Matrix(sums))[0])
    return equal(derived, printed, "Haar weights, n = 2, 3, every pattern of neurons")


# %% [markdown]
# ## At large width (5.12)–(5.14)
#
# A sum $\sum_{jk} E[\sigma_j\sigma_j\sigma_k\sigma_k]$ has $n^2$ terms; written $n^2 s_q$, with $q$
# the pairing of the samples, $s_q$ is of order one.

# %%
S_1, S_2, S_3 = SUMS = sympy.symbols("s_(12)(34) s_(13)(24) s_(14)(23)", real=True)


def paired_first(weights: WeightEnsemble) -> sympy.Expr:
    """The coefficient of (12)(34)_i in (5.9), over C_W²."""
    first, *_ = pairings = pair_partitions(4)
    return sympy.Add(
        *(
            weights.coefficient(coset_type(first, q), n, n) * n**2 * s
            for q, s in zip(pairings, SUMS, strict=True)
        )
    )


@claim("000", "5.12", "four-point function at leading order: what is left out")
def leading_order() -> Verdict:
    """Next to the printed sums, the rest is smaller by $1/n$. The print has it inside of the
    brackets, where the sums are of order $n^2$ and the rest is of order $n$, not $1/n$."""
    whole = paired_first(Orthogonal())
    leading = equal(sympy.limit(whole, n, sympy.oo), S_1, "as n → ∞ the diagonal alone")
    inside = n**2 * whole - n**2 * S_1
    return misprint(
        sympy.limit(inside / n, n, sympy.oo),
        sympy.Integer(0),
        "the rest inside of the brackets over n, as n → ∞: it comes from W[2] = −1/n³ times n² "
        "pairs of neurons, and is (5.13); outside of the brackets O(1/n) would be right, and "
        "what follows uses it so",
        provided=leading,
    )


@claim("000", "5.13", "what W[2] adds to the connected four-point function")
def off_diagonal_part() -> Verdict:
    r"""The coefficient of $(12)(34)_i$ with orthogonal weights less that with Gaussian ones, at
    order $1/n$: $-(s_{(13)(24)} + s_{(14)(23)})$, by $\mathcal W[2]$ alone;
    $\mathcal W[1,1] - 1/n^2$ comes in at $1/n^2$."""
    difference = paired_first(Orthogonal()) - paired_first(Gaussian())
    diagonal = difference.coeff(S_1)
    return both(
        equal(sympy.limit(n * difference, n, sympy.oo), -(S_2 + S_3)),
        equal([series((2,), 3)[3], *series((1, 1), 3)[2:]], [-1, 1, 0], "W[2] and W[1,1] by 1/n"),
        equal(sympy.limit(n**2 * sympy.cancel(diagonal), n, sympy.oo), 2),
    )
