r"""Networks of any layer with their innovations: what chance adds at each stage, of mean 0.

Behind a matrix on the vectors x stand n neurons √C_W R w_i, RRᵀ the vectors' Gram matrix, with w_i
standard normal and independent of all that is below, or, of a Haar matrix, w's frame
(wwᵀ/n)^{−1/2} w. With the *mean* Gram matrix R₀R₀ᵀ in the place of the network's own, the neurons
are u_i = √C_W R₀ w_i and b_i, alike and independent in every network: for any f

    c = (1/n) Σ_i (f(u_i) − E f)    and    c c' − (1/n²) Σ_i (f − E f)(f' − E f')(u_i)

are 0 on average. f are the products of two vectors' neurons, and of the σ's and gates that the next
matrix meets. What is carried past a matrix, s_i, gives s_i u_i, of mean 0 given what is below. To
leading order a network's Gram matrices are sums of such c, by slopes that a fit tells.

To second order three kinds of products come in, of mean 0 at every width again: those of two Gram
matrices that are off; what a Gram matrix is off times c of how f responds to it,

    c[f_{R₀ + δR} − f_{R₀ − δR}],    RRᵀ off by 2 (R₀ δRᵀ + δR R₀ᵀ);

and, as frames, norms and a layer's inner matrices depend on what their own neurons come to, c c' of
one group. Where a mean m of neurons is taken off, m = c[u] times c of how f responds to a number
that is added, c[f'_a f_b − ⟨f'_a f_b⟩], is such a c c'; of a variable that is carried the products
of two layers' m come beside it. What is left of a Gram matrix is of order n^{−3/2}, and of n times
it, as of G1, the wider the less: where every σ that a matrix meets is taken of what matrices alone
make, and not of what is carried past one. Derived here.
"""

from __future__ import annotations

from .controls import Group, own_squares, reduced, spread
from .noted import Fresh, Means, Noted, Piece
from .sampler import InnovatingSampler

__all__ = [
    "Fresh",
    "Group",
    "InnovatingSampler",
    "Means",
    "Noted",
    "Piece",
    "own_squares",
    "reduced",
    "spread",
]
