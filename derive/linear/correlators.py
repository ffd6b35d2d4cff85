"""Deep linear networks without biases: every 2m-point function, exact at any widths.

With W^(ℓ) of pairing matrix C_W^m C^(ℓ)(p,q) and Gram matrix n^{loops(p,q)} of the δ's, one input
has E[z_{i_1} … z_{i_2m}] = G_{2m} Σ_p δ_p(i), and one layer multiplies G_{2m} by

    C_W^m n_ℓ^m Σ_q C^{(ℓ+1)}(p,q) · n_ℓ^{−m} Σ_r n_ℓ^{loops(q,r)}

(source 004, eqs. 3.44–3.47; source 000, eqs. 4.13–4.17).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

import sympy

from .. import exact
from ..arithmetic.rational import RationalFunction, Term
from ..citations import rests_on
from ..errors import InputError, as_integer, as_sequence
from ..expressions import as_expression, as_width
from ..groups.weingarten import MOST_PAIRS, class_size, table
from ..groups.zonal import partitions
from ..weights import Gaussian, Orthogonal, WeightEnsemble, as_weights, larger
from ..work.caches import cache

Ensembles = WeightEnsemble | Sequence[WeightEnsemble]
Layer = tuple[WeightEnsemble, sympy.Expr, sympy.Expr]
"""Weights with the widths n_in and n_out that they join."""


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
    m = half_of_points(m)
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
    m = half_of_points(m)
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
    given = [
        as_expression("moments", each, wanted) for each in as_sequence("moments", moments, wanted)
    ]
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
    m = half_of_points(m)
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
    m = half_of_points(m)
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
        m, n_in, n_out = half_of_points(m), as_width("n_in", n_in), as_width("n_out", n_out)
        size = larger(n_in, n_out)
        return (size / n_in) ** m * _haar_row_sum(m).expr(size)
    return exact.row_sum(weights, m, n_in, n_out)


@cache
def _haar_row_sum(m: int) -> RationalFunction:
    wg = table(m)
    return RationalFunction.total(Term(class_size(mu), wg.function(mu)) for mu in wg.numerators)


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
    given = as_sequence("widths", widths, "a list of widths n_1, …, n_L")
    sizes = tuple(as_width("widths", width) for width in given)
    if not sizes:
        raise InputError("widths", widths, "at least one width")
    first = sizes[0] if inputs is None else as_width("inputs", inputs)
    wanted = f"a weight ensemble, or {len(sizes)} of them"
    if isinstance(weights, WeightEnsemble | str):
        weights = [as_weights("weights", weights)] * len(sizes)
    kinds = tuple(as_sequence("weights", weights, wanted))
    if len(kinds) != len(sizes) or not all(isinstance(kind, WeightEnsemble) for kind in kinds):
        raise InputError("weights", weights, wanted)
    return tuple(zip(kinds, (first, *sizes), sizes, strict=False))


def half_of_points(m: int) -> int:
    """m, or an InputError where it is no number of pairs."""
    wanted = f"half the number of points, 1 to {MOST_PAIRS}: m = 3 for the six-point function"
    return as_integer("m", m, 1, MOST_PAIRS, wanted)
