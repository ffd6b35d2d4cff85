# %% [markdown]
# # Several inputs: the normalised vertices
#
# With several inputs there is more than one product of two kernels to divide $V$ by. The paper's
# choices average over the distinct ways to share out the sample indices.

# %%
"""The normalised multi-input vertices (source 000, appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy

from derivations.claims.registry import claim
from derivations.claims.verdicts import Verdict, both, close, equal, misprint
from derivations.section import show
from derive import symbols
from derive.gaussian.brackets import Component
from derive.recursions import recursion
from derive.weights import Orthogonal
from numeric import normalise
from numeric.tables import layout

Kernel = Callable[[int, int], sympy.Expr]
Scale = Callable[[Kernel], sympy.Expr]
Pattern = tuple[int, int, int, int]
a, b, c, d = range(4)


def two_pairs(K: Kernel) -> sympy.Expr:
    """(A.1), the scale of V_(αα)(ββ), as printed."""
    return (K(a, a) * K(b, b) + K(a, b) ** 2) / 2


def three_and_one(K: Kernel) -> sympy.Expr:
    """(A.1), the scale of V_(αα)(αβ), as printed."""
    return K(a, a) * K(a, b)


def three_inputs(K: Kernel) -> sympy.Expr:
    """(A.2), the scale of V_(αβ)(γα), as printed."""
    return (K(a, b) * K(a, c) + K(a, a) * K(b, c)) / 2


def four_inputs(K: Kernel) -> sympy.Expr:
    """(A.3), the scale of V_(αβ)(γδ), as printed."""
    return (K(a, b) * K(c, d) + K(a, c) * K(b, d) + K(a, d) * K(b, c)) / 3


def as_normalise(
    pattern: tuple[int, int, int, int], printed: Callable[[Kernel], object]
) -> Verdict:
    """Whether `normalise` divides this component of V by the printed scale, at a generic kernel."""
    generic = np.array(
        [[1.3, 0.4, -0.2, 0.5], [0, 0.9, 0.3, 0.1], [0, 0, 1.7, -0.6], [0, 0, 0, 0.8]]
    )
    K = generic + np.triu(generic, 1).T
    table = layout.table([1], K=K[None], V=np.ones((1, *(4,) * 4)))
    tilde = normalise(table)["V_tilde"].to_numpy()
    scale = printed(lambda i, j: K[i, j])
    return close([1 / tilde[(0, *pattern)]], [scale], 13, "normalise() at a generic kernel")


def linear(pattern: Pattern, printed: Scale) -> sympy.Expr:
    """Ṽ of a component for linear orthogonal networks, at every layer (5.17), C_W = 1."""
    first = recursion("V", Orthogonal(), first_layer=True).expr.subs(symbols.C_W, 1)

    def kernel(i: int, j: int) -> sympy.Expr:
        return sympy.Symbol("K_{}{}".format(*sorted(("αβγδ"[i], "αβγδ"[j]))), real=True)

    names = {
        Component("K0", (i + 1, j + 1)): kernel(pattern[i], pattern[j])
        for i in range(4)
        for j in range(i, 4)
    }
    return sympy.factor(first.xreplace(names) / printed(kernel))


@claim("000", "A.1", "normalised V of two inputs")
def two_input_vertex() -> Verdict:
    r"""The printed scales are those of `normalise`. Linear orthogonal networks have
    $\tilde V_{(\alpha\alpha)(\alpha\beta)} = -2$, while $\tilde V_{(\alpha\alpha)(\beta\beta)} =
    -4K_{\alpha\beta}^2/(K_{\alpha\alpha}K_{\beta\beta} + K_{\alpha\beta}^2)$ depends on the inputs,
    though not on depth."""
    K = {pair: sympy.Symbol(f"K_{pair}", real=True) for pair in ("αα", "αβ", "ββ")}
    return both(
        equal(
            [linear((a, a, a, b), three_and_one), linear((a, a, b, b), two_pairs)],
            [-2, -4 * K["αβ"] ** 2 / (K["αα"] * K["ββ"] + K["αβ"] ** 2)],
            "linear orthogonal networks",
        ),
        as_normalise((a, a, b, b), two_pairs),
        as_normalise((a, a, a, b), three_and_one),
    )


@claim("000", "A.2", "normalised V of three inputs")
def three_input_vertex() -> Verdict:
    r"""The printed scale is that of `normalise`; linear orthogonal networks have $\tilde V = -2$
    exactly."""
    return both(
        equal(linear((a, b, c, a), three_inputs), -2, "linear orthogonal networks"),
        as_normalise((a, b, c, a), three_inputs),
    )


@claim("000", "A.3", "normalised V of four inputs")
def four_input_vertex() -> Verdict:
    r"""The printed scale is that of `normalise`; with four equal inputs $\tilde V = -2$, as with
    one."""
    linear_value = linear((a, b, c, d), four_inputs)
    equal_inputs = linear_value.subs(dict.fromkeys(linear_value.free_symbols, sympy.Symbol("K")))
    return both(
        equal(equal_inputs, -2, "linear orthogonal networks, equal inputs"),
        as_normalise((a, b, c, d), four_inputs),
    )


# %% [markdown]
# ## Are random inputs nearly orthogonal?
#
# The paper lays the scatter of its figures 10–12 to $K_{\alpha\beta}$ being "typically quite small
# since random high-dimensional vectors are approximately orthogonal". Its inputs are uniform on
# $[0, 1]$, and so not centred.


# %%
@claim("000", "§A.1 (inputs)", "random inputs on [0, 1] are not nearly orthogonal")
def not_orthogonal() -> Verdict:
    r"""$E[xy] = \frac14$ against $E[x^2] = \frac13$ for entries uniform on $[0, 1]$, so that
    $K_{\alpha\beta}/K_{\alpha\alpha} \to \frac34$."""
    x, y = sympy.symbols("x y")
    across = sympy.integrate(x * y, (x, 0, 1), (y, 0, 1))
    along = sympy.integrate(x**2, (x, 0, 1))
    X = np.random.default_rng(0).random((2, 100))
    cosine = X[0] @ X[1] / np.sqrt((X[0] @ X[0]) * (X[1] @ X[1]))
    return misprint(
        across / along,
        sympy.Integer(0),
        'K_αβ/K_αα at large n_0, which the paper takes for "typically quite small"; '
        f"E[xy] = {across}, E[x²] = {along} for entries uniform on [0, 1]; two inputs of size 100 "
        f"have K_αβ/√(K_αα K_ββ) = {cosine:.3f}",
    )


# %%
if __name__ == "__main__":
    show()
