"""From a network to a recursion: average one stage's weights, then the one below, in 1/n.

The five steps, none of which knows a tensor or a layer by name:
1. equations of the fields as polynomials in the weights (`through.lines`), and their `products`;
2. E over the weights: Σ_{p,q} δ_p(i) C(p,q) δ_q(j) (`averages`), each matrix; biases by Wick; p and
   q are pairings, or set partitions where only signed permutations keep the law;
3. sums over neurons split into sums over `distinct` neurons;
4. E over the layer below, expanded around the Gaussian of kernel K by `insertions`,
       E[F] = exp(Σ_r κ_r·∂^r / r!) F    at z ~ N(0, K), H = Θ, …;
5. `joint` cumulants from moments; the coefficient of δ_p(i) n^{-power} is the tensor.

A dense layer is one stage. Where a stage has collective variables c, a product X of equations is
expanded in c − c*; each two of those add 1/n to the order of X (`degrees`), so that most are never
averaged.
"""

from __future__ import annotations

from .averages import Average, coincidences, ways_of
from .joint import layer_cumulant
from .products import splittings
from .size import Work, work

__all__ = [
    "Average",
    "Work",
    "coincidences",
    "layer_cumulant",
    "splittings",
    "ways_of",
    "work",
]
