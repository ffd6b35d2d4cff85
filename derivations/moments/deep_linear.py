"""Deep linear networks at several inputs, and their norms: exact at any widths.

With W^(ℓ) of pairing matrix C_W^m C^(ℓ)(p,q) and Gram matrix n^{loops(p,q)} of the δ's, one step
of the coefficients in E[z_{i_1} … z_{i_2m}] = Σ_p δ_p(i) T_p is

    T_p^{(1)} = C_W^m Σ_q C^{(1)}(p,q) Π_{(a,b)∈q} n_0 K0_{α_a α_b},
    T_p^{(ℓ+1)} = C_W^m Σ_{q,r} C^{(ℓ+1)}(p,q) n_ℓ^{loops(q,r)} T_r^{(ℓ)}.

All these matrices depend on coset types alone, so they commute and are multiplied at once
(source 004, eqs. 3.44–3.47; source 000, eqs. 4.13–4.17). With one input T_p is the same for all p,
the G_{2m} of `derive.linear`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import sympy

from derive.arithmetic.rational import as_sympy
from derive.citations import rests_on
from derive.errors import InputError
from derive.gaussian.brackets import Component
from derive.groups.pairings import (
    Partition,
    coset_type,
    mobius,
    ordered,
    pair_partitions,
    set_partitions,
)
from derive.groups.weingarten import class_size
from derive.groups.zonal import partitions, spherical_functions
from derive.linear.correlators import (
    Ensembles,
    Layer,
    chain,
    contraction_factor,
    correlator,
)
from derive.weights import Gaussian, WeightEnsemble
from derive.work.caches import cache

MAX_PAIRS = 5
"""Several inputs: (2m−1)!! pairings are summed over."""


def norm_variance(
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """The variance of O = |z|²/n_L over G_2², c_4(n_L) G_4/G_2² − 1, exact.

    Source 004, eq. (3.33), has it to order 1/n.

    Arguments, and what is raised: as in `correlator`.

    >>> n = sympy.Symbol("n", positive=True)
    >>> norm_variance([n, n])
    4*(n + 1)/n**2
    """
    last = chain(widths, weights, inputs)[-1][2]
    return sympy.factor(contraction_factor(2, last) * correlator(2, widths, weights, inputs) - 1)


@rests_on("roberts2022", "day2025")
def coefficient(
    samples: Sequence[int],
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
    connected: bool = False,
) -> sympy.Expr:
    """T_p(α) of E[z_{i_1;α_1} … z_{i_2m;α_2m}] = Σ_p δ_p(i) T_p(α), for any inputs; exact.

    Arguments:
        samples: α, two for each pair of p: the coefficient of δ_{i1 i2} δ_{i3 i4} ….
        widths, weights, inputs: as in `correlator`.
        connected: the joint cumulant's coefficient, Σ_π (−1)^{|π|−1} (|π|−1)! Π_B T_{p|B}.

    Returns an expression in Component("K0", (a, b)) = x_a·x_b/n_0 and the ensembles' C_W. Derived
    here. Raises InputError for an odd number of labels, for more than 10, and as `correlator` does.

    >>> n = sympy.Symbol("n", positive=True)
    >>> coefficient((1, 1, 2, 2), [n, n], connected=True)
    2*K0[1,2]**2/n
    """
    labels = tuple(samples)
    if not labels or len(labels) % 2 or len(labels) > 2 * MAX_PAIRS:
        raise InputError("samples", samples, f"an even number of labels, 2 to {2 * MAX_PAIRS}")
    layers = chain(widths, weights, inputs)
    pairs = tuple(zip(labels[::2], labels[1::2], strict=True))
    if not connected:
        return sympy.factor(_full(pairs, layers))
    total = sympy.Integer(0)
    for partition in set_partitions(tuple(range(len(pairs)))):
        parts = (_full(tuple(pairs[a] for a in block), layers) for block in partition)
        total += mobius(len(partition)) * sympy.prod(parts)
    return sympy.factor(total)


def pairing_matrix(m: int, layers: Sequence[Layer]) -> dict[Partition, sympy.Expr]:
    """M(p,q) by coset type, with T_p = Σ_q M(p,q) Π_{(a,b)∈q} K0_{α_a α_b} after these layers.

    M = n_0^m C^{(L)} Gram(n_{L−1}) C^{(L−1)} … Gram(n_1) C^{(1)}, multiplied in the basis of the
    zonal functions: Gram(n) has the eigenvalues Π_{boxes of λ} (n + content). Derived here.

    Of 2m points; `layers` are (weights, n_in, n_out), as `chain` gives them.

    >>> n = sympy.Symbol("n", positive=True)
    >>> pairing_matrix(2, chain([n, n], Gaussian(), None))
    {(1, 1): 1, (2,): 1/n}
    """
    total = dict.fromkeys(partitions(m), sympy.Integer(0))
    for spherical in spherical_functions(m, 2):
        value = layers[0][1] ** m
        for kind, n_in, n_out in layers:
            value *= kind.C_W**m * _eigenvalue(kind, spherical.shape, n_in, n_out)
        for _, n_in, _ in layers[1:]:
            value *= sympy.prod([n_in + content for content in spherical.contents])
        for mu in total:
            total[mu] += as_sympy(spherical.weight * spherical.values[mu]) * value
    return {mu: sympy.factor(value) for mu, value in total.items()}


def _full(pairs: tuple[tuple[int, int], ...], layers: tuple[Layer, ...]) -> sympy.Expr:
    points = [label for pair in pairs for label in pair]
    matrix = _matrix(len(pairs), layers)
    p = tuple((2 * a, 2 * a + 1) for a in range(len(pairs)))
    sums: Counter[tuple[Partition, tuple[tuple[int, int], ...]]] = Counter()
    for q in pair_partitions(len(points)):
        kernels = tuple(sorted(ordered(points[a], points[b]) for a, b in q))
        sums[coset_type(p, q), kernels] += 1
    return sympy.Add(
        *(
            count * matrix[mu] * sympy.prod([Component("K0", pair) for pair in kernels])
            for (mu, kernels), count in sums.items()
        )
    )


@cache
def _matrix(m: int, layers: tuple[Layer, ...]) -> dict[Partition, sympy.Expr]:
    return pairing_matrix(m, layers)


@cache
def _eigenvalue(
    kind: WeightEnsemble, shape: Partition, n_in: sympy.Expr, n_out: sympy.Expr
) -> sympy.Expr:
    """c_λ = Σ_μ |μ| ω^λ(μ) C(μ)."""
    m = sum(shape)
    values = next(each.values for each in spherical_functions(m, 2) if each.shape == shape)
    return sympy.factor(
        sum(
            as_sympy(class_size(mu) * values[mu]) * kind.coefficient(mu, n_in, n_out)
            for mu in partitions(m)
            if values[mu]
        )
    )
