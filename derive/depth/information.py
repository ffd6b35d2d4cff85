"""Information in a layer at finite width, between its neurons.

With one input the preactivations of a layer are rotation invariant. Around the Gaussian p_0 of
variance K, the density of N of them is a series of Laguerre polynomials in t = |z|²/2K,

    p/p_0 = 1 + v L_2(t) + …,     L_k = L_k^{(N/2−1)},     v = V/(n K²),

the higher ones with coefficients of order v² and more, each of which first enters an entropy at
order v⁴. So the entropy is below the Gaussian's by v² E[L_2²]/2 − v³ E[L_2³]/6 (PDLT, appendix A).
"""

from __future__ import annotations

import sympy

from ..expressions import as_width
from ..symbols import Symbol, v
from ..work.caches import cache

__all__ = ["entropy_deficit", "mutual_information", "v"]

_N = Symbol("N", positive=True)


@cache
def _moment(power: int) -> sympy.Expr:
    """E[L_2^{power}] for t of N Gaussian neurons, a Gamma variable of shape N/2."""
    t = sympy.Symbol("t")
    laguerre = sympy.Poly(sympy.expand(sympy.assoc_laguerre(2, _N / 2 - 1, t) ** power), t)
    return sympy.factor(
        sum(
            coefficient * sympy.expand_func(sympy.rf(_N / 2, degree))
            for (degree,), coefficient in laguerre.terms()
        )
    )


def entropy_deficit(neurons: sympy.Expr | int) -> sympy.Expr:
    """S_Gaussian − S of the joint density of so many neurons, to order v³, in nats."""
    deficit = v**2 * _moment(2) / 2 - v**3 * _moment(3) / 6
    return deficit.subs(_N, as_width("neurons", neurons))


def mutual_information(first: sympy.Expr | int, second: sympy.Expr | int) -> sympy.Expr:
    """Mutual information of two disjoint groups of neurons of a layer, to order v³, in nats.

    (N_1 N_2/8) (v² − (3N + 20) v³/6) with N = N_1 + N_2: neurons share the fluctuation of the
    layer's length, and an infinitely wide layer has none to share.
    """
    one, two = as_width("first", first), as_width("second", second)
    shared = entropy_deficit(one + two) - entropy_deficit(one) - entropy_deficit(two)
    return sympy.factor(sympy.expand(shared))
