"""Deep linear networks without biases: every 2m-point function, exact at any widths.

With W^(ℓ) of pairing matrix C_W^m C^(ℓ)(p,q) and Gram matrix n^{loops(p,q)} of the δ's, one step
of the coefficients in E[z_{i_1} … z_{i_2m}] = Σ_p δ_p(i) T_p is

    T_p^{(1)} = C_W^m Σ_q C^{(1)}(p,q) Π_{(a,b)∈q} n_0 K0_{α_a α_b},
    T_p^{(ℓ+1)} = C_W^m Σ_{q,r} C^{(ℓ+1)}(p,q) n_ℓ^{loops(q,r)} T_r^{(ℓ)}.

All these matrices depend on coset types alone, so they commute and are multiplied at once. With one
input every T_p is the same G_{2m} (source 004, eqs. 3.44–3.47; source 000, eqs. 4.13–4.17).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

import sympy

from .. import exact
from ..arithmetic.rational import RationalFunction, Term, as_sympy
from ..citations import rests_on
from ..errors import InputError, flag, instance, listed, whole
from ..expressions import as_expression, as_width
from ..gaussian.brackets import Component
from ..groups.pairings import (
    Partition,
    coset_type,
    mobius,
    ordered,
    pair_partitions,
    set_partitions,
)
from ..groups.weingarten import MOST_PAIRS, class_size, table
from ..groups.zonal import partitions, spherical_functions
from ..weights import Gaussian, Orthogonal, WeightEnsemble, as_weights, larger
from ..work.caches import cache

Ensembles = WeightEnsemble | Sequence[WeightEnsemble]
Layer = tuple[WeightEnsemble, sympy.Expr, sympy.Expr]
"""Weights with the widths n_in and n_out that they join."""

MAX_PAIRS = 5
"""Several inputs: (2m−1)!! pairings are summed over."""


@rests_on("roberts2022", "day2025")
def correlator(
    m: int,
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008  (frozen)
    inputs: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """The 2m-point function G_{2m}/G_2^m of one input after the last layer, exact.

    Arguments:
        m: half the number of points: 2 for the four-point function, 3 for the six-point one.
        widths: n_1, …, n_L, positive integers or symbols.
        weights: the ensemble of every layer, or L of them.
        inputs: n_0, equal to n_1 where it is left out.

    Gaussian weights give Π_{ℓ<L} c_{2m}(n_ℓ) (source 004, eq. 3.47), square orthogonal ones
    1/c_{2m}(n) at every depth (source 000, eq. 4.17). Raises InputError where two symbolic widths
    would have to be compared, as for rectangular orthogonal layers.

    >>> n, N = sympy.symbols("n N", positive=True)
    >>> correlator(3, [n, N, 10])
    (N + 2)*(N + 4)*(n + 2)*(n + 4)/(N**2*n**2)
    >>> correlator(2, [n, n, n], Orthogonal())
    n/(n + 2)
    """
    m = _pairs(m)
    layers = chain(widths, weights, inputs)
    steps = [n_in**m * row_sum(kind, m, n_in, n_out) for kind, n_in, n_out in layers]
    loops = [contraction_factor(m, n_in) for _, n_in, _ in layers[1:]]
    return sympy.Mul(*steps, *loops)


@rests_on("roberts2022", "day2025")
def connected(
    m: int,
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """The connected 2m-point function: δ_p's coefficient in the joint cumulant over G_2^m; exact.

    m = 2: G_4/G_2² − 1; m = 3: G_6/G_2³ − 3 G_4/G_2² + 2 (source 004, eqs. 3.28, 3.57).

    Arguments:
        m: half the number of points: 2 for four points, 3 for six.
        widths, weights, inputs: as in `correlator`.

    Raises InputError as `correlator` does.

    >>> n = sympy.Symbol("n", positive=True)
    >>> connected(2, [n, n, n])
    4*(n + 1)/n**2
    """
    m = _pairs(m)
    moments = [correlator(k, widths, weights, inputs) for k in range(1, m + 1)]
    return sympy.factor(cumulants(moments)[-1])


def cumulants(moments: Sequence[sympy.Expr]) -> list[sympy.Expr]:
    """From g_1, g_2, … the sums over set partitions Σ_π (−1)^{|π|−1} (|π|−1)! Π_{B∈π} g_{|B|}.

    As many as moments are given; by definition, as source 004's (1.61) for three pairs. Raises
    InputError for what is not a list of numbers or expressions.

    >>> [sympy.expand(k) for k in cumulants(sympy.symbols("g1:4"))]
    [g1, -g1**2 + g2, 2*g1**3 - 3*g1*g2 + g3]
    """
    wanted = "a list of numbers or expressions"
    given = [as_expression("moments", each, wanted) for each in listed("moments", moments, wanted)]
    found: list[sympy.Expr] = []
    for m, moment in enumerate(given, start=1):
        earlier = (comb(m - 1, k - 1) * found[k - 1] * given[m - k - 1] for k in range(1, m))
        found.append(moment - sum(earlier))
    return found


def loop_census(m: int) -> dict[int, int]:
    """How many of the (2m−1)!! contractions of m traces close how many loops.

    For m = 3 these are the 1 + 6 + 8 of source 004, eqs. (3.39)–(3.42). Raises InputError for an m
    that is no number of pairs.

    >>> loop_census(3)
    {3: 1, 2: 6, 1: 8}
    """
    m = _pairs(m)
    census: Counter[int] = Counter()
    for mu in partitions(m):
        census[len(mu)] += class_size(mu)
    return dict(census)


def contraction_factor(m: int, n: sympy.Expr | int) -> sympy.Expr:
    """c_{2m}(n) = n^{−m} Σ_r n^{loops(q,r)}, by the census (source 004, eqs. 3.39–3.46).

    Arguments:
        m: half the number of points: 2 for four points, 3 for six.
        n: the width, a positive integer or an expression.

    Raises InputError for other arguments.

    >>> contraction_factor(3, sympy.Symbol("n"))
    (n + 2)*(n + 4)/n**2
    """
    m = _pairs(m)
    size = as_width("n", n)
    return _census_polynomial(m).expr(size) / size**m


@cache
def _census_polynomial(m: int) -> RationalFunction:
    one = table(0).function(())
    return RationalFunction.total(
        Term(count, one, loops) for loops, count in loop_census(m).items()
    )


def row_sum(weights: WeightEnsemble, m: int, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """Σ_q C(p,q)/C_W^m, for Haar weights from Weingarten's table without a detour by symbols.

    It is `exact.row_sum`: what one input's G_{2m} is multiplied by (source 000, eqs. 4.13–4.17).

    Arguments:
        weights: a `WeightEnsemble`.
        m: pairs of factors.
        n_in, n_out: the widths that W joins, positive integers or expressions.

    Raises InputError for other arguments.

    >>> n = sympy.Symbol("n", positive=True)
    >>> row_sum(Orthogonal(), 2, n, n)
    1/(n*(n + 2))
    """
    if isinstance(weights, Orthogonal):
        m, n_in, n_out = _pairs(m), as_width("n_in", n_in), as_width("n_out", n_out)
        size = larger(n_in, n_out)
        return (size / n_in) ** m * _haar_row_sum(m).expr(size)
    return exact.row_sum(weights, m, n_in, n_out)


@cache
def _haar_row_sum(m: int) -> RationalFunction:
    wg = table(m)
    return RationalFunction.total(Term(class_size(mu), wg.function(mu)) for mu in wg.numerators)


def norm_moment(
    m: int,
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """E[(|z|²/n_L)^m]/G_2^m = c_{2m}(n_L) G_{2m}/G_2^m after the last layer.

    Source 004, eqs. (3.31)–(3.33), for m ≤ 2; for any m derived here.

    Arguments:
        m: the power of |z|²/n_L, 1 or more.
        widths, weights, inputs: as in `correlator`.

    Raises InputError as `correlator` does.

    >>> n = sympy.Symbol("n", positive=True)
    >>> norm_moment(2, [n, n]), norm_moment(2, [n, n], Orthogonal())
    ((n + 2)**2/n**2, 1)
    """
    last = chain(widths, weights, inputs)[-1][2]
    return contraction_factor(m, last) * correlator(m, widths, weights, inputs)


def norm_variance(
    widths: Sequence[sympy.Expr | int],
    weights: Ensembles = Gaussian(),  # noqa: B008
    inputs: sympy.Expr | int | None = None,
) -> sympy.Expr:
    """The variance of O = |z|²/n_L over G_2², exact (source 004, eq. 3.33, there to order 1/n).

    Arguments:
        widths, weights, inputs: as in `correlator`.

    Raises InputError as `correlator` does.

    >>> n = sympy.Symbol("n", positive=True)
    >>> norm_variance([n, n])
    4*(n + 1)/n**2
    """
    return sympy.factor(norm_moment(2, widths, weights, inputs) - 1)


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
    wanted = "labels of samples, integers"
    labels = tuple(
        whole("samples", label, wanted=wanted) for label in listed("samples", samples, wanted)
    )
    connected = flag("connected", connected)
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

    Arguments:
        m: half the number of points: 2 for four points, 3 for six.
        layers: (weights, n_in, n_out) of each, as `chain` gives them.

    Raises InputError for other layers.

    >>> n = sympy.Symbol("n", positive=True)
    >>> pairing_matrix(2, chain([n, n], Gaussian(), None))
    {(1, 1): 1, (2,): 1/n}
    """
    m, layers = _pairs(m), _layers(layers)
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


def chain(
    widths: Sequence[sympy.Expr | int], weights: Ensembles, inputs: sympy.Expr | int | None
) -> tuple[Layer, ...]:
    """Each layer's ensemble with its n_in and n_out: z^(ℓ) = W^(ℓ) z^(ℓ−1) (source 004, ch. 3).

    Arguments:
        widths: n_1, …, n_L, positive integers or symbols.
        weights: the ensemble of every layer, or L of them.
        inputs: n_0, or None for n_1.

    Raises InputError for no widths, and for another number of ensembles.

    >>> n = sympy.Symbol("n", positive=True)
    >>> [(n_in, n_out) for _, n_in, n_out in chain([n, 5], Gaussian(), 3)]
    [(3, n), (n, 5)]
    """
    given = listed("widths", widths, "a list of widths n_1, …, n_L")
    sizes = tuple(as_width("widths", width) for width in given)
    if not sizes:
        raise InputError("widths", widths, "at least one width")
    first = sizes[0] if inputs is None else as_width("inputs", inputs)
    wanted = f"a weight ensemble, or {len(sizes)} of them"
    if isinstance(weights, WeightEnsemble | str):
        weights = [as_weights("weights", weights)] * len(sizes)
    kinds = tuple(listed("weights", weights, wanted))
    if len(kinds) != len(sizes) or not all(isinstance(kind, WeightEnsemble) for kind in kinds):
        raise InputError("weights", weights, wanted)
    return tuple(zip(kinds, (first, *sizes), sizes, strict=False))


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


def _layers(given: Sequence[Layer]) -> list[Layer]:
    wanted = "one or more layers (weights, n_in, n_out), as `chain` gives them"
    layers: list[Layer] = []
    for each in listed("layers", given, wanted):
        if not isinstance(each, tuple | list) or len(each) != 3:
            raise InputError("layers", given, wanted)
        kind = instance("layers", each[0], WeightEnsemble, wanted)
        layers.append((kind, as_width("layers", each[1]), as_width("layers", each[2])))
    if not layers:
        raise InputError("layers", given, wanted)
    return layers


def _pairs(m: int) -> int:
    wanted = f"half the number of points, 1 to {MOST_PAIRS}: m = 3 for the six-point function"
    return whole("m", m, 1, MOST_PAIRS, wanted)
