# %% [markdown]
# # The four-point vertex
#
# $V$ is $n$ times the connected four-point function of the preactivations. To the Gaussian
# recursion orthogonal weights add what the off-diagonal entries $\mathcal W[2] \sim -1/n^3$ of
# Weingarten's matrix bring in, and nothing else.

# %%
"""The recursion of the four-point vertex, and its solutions (source 000, eqs. 5.15–5.19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import sympy

from derivations.claims import Verdict, both, claim, close, equal
from derivations.day_kahn_roberts.expansions import normalised_vertex
from derivations.moments.gaussian import Integral, evaluate, on_grid, variables, wick
from derive import activations, exact, symbols
from derive.activations.functions import Activation
from derive.gaussian.brackets import Average, Component
from derive.network import Network
from derive.recursions import recursion
from derive.symbols import C_W, K
from derive.weights import Gaussian, Orthogonal

V = symbols.tensor("V")


def bracket(*samples: int) -> Average:
    """The paper's ⟨12…⟩: σ of each sample, averaged."""
    return Average(tuple((sample, 0) for sample in sorted(samples)))


def vertex(*samples: int) -> Component:
    """V_{(ab)(cd)} of the layer below, symmetric within its pairs and between them."""
    first, second = sorted((tuple(sorted(samples[:2])), tuple(sorted(samples[2:]))))
    return Component("V", (*first, *second))


@claim("000", "5.15", "what orthogonal weights add to V")
def orthogonal_minus_gaussian() -> Verdict:
    r"""$\Delta V_{(12)(34)} = -C_W^2[\langle13\rangle\langle24\rangle +
    \langle14\rangle\langle23\rangle]$ is the difference of the two derived recursions, for four
    inputs and any σ."""
    derived = recursion("V", Orthogonal()).expr - recursion("V", Gaussian()).expr
    printed = -(C_W**2) * (bracket(1, 3) * bracket(2, 4) + bracket(1, 4) * bracket(2, 3))
    return equal(sympy.expand(derived), printed)


# %% [markdown]
# ## The recursion for four inputs (5.16)
#
# The engine keeps derivatives where the paper has $\langle\sigma\sigma(zz-K)\rangle$ and inverse
# kernels; integrating by parts twice turns one into the other. The scan has lost which of the
# printed definition's indices are raised; dimensions leave only the inverse kernel.


# %%
def printed_recursion(
    samples: Sequence[int], activation: Activation, covariance: sympy.Matrix, integral: Integral
) -> sympy.Expr:
    """(5.16) as printed, at a given covariance, with V of the layer below left as symbols."""
    z, inverse = variables(covariance.rows), covariance.inv()
    sigma = [activation.expr.subs(activations.z, name) for name in z]
    data = range(covariance.rows)

    def average(*among: int) -> sympy.Expr:
        return integral(sympy.prod(sigma[a - 1] for a in among))

    def insertion(a: int, b: int) -> sympy.Matrix:
        inner = sympy.Matrix(
            covariance.rows,
            covariance.rows,
            lambda j, k: integral(sigma[a - 1] * sigma[b - 1] * (z[j] * z[k] - covariance[j, k])),
        )
        return inverse * inner * inverse

    a, b, c, d = samples
    first, second = insertion(a, b), insertion(c, d)
    homogeneous = sympy.Add(
        *(
            vertex(i + 1, j + 1, k + 1, m + 1) * first[i, j] * second[k, m]
            for i, j, k, m in product(data, repeat=4)
        )
    )
    inhomogeneous = average(a, b, c, d) - sum(
        average(*left) * average(*right)
        for left, right in (((a, b), (c, d)), ((a, c), (b, d)), ((a, d), (b, c)))
    )
    return C_W**2 * (inhomogeneous + homogeneous / 4)


def coefficients(expression: sympy.Expr) -> dict[sympy.Expr, sympy.Expr]:
    """The coefficient of each component of V, and of 1."""
    collected = sympy.expand(expression / C_W**2)
    parts = {name: collected.coeff(name) for name in collected.atoms(Component)}
    return parts | {sympy.S.One: collected - sum(k * v for k, v in parts.items())}


@claim("000", "5.16", "recursion of V with four inputs")
def four_input_recursion() -> Verdict:
    """The derived recursion equals the printed one: exactly for a cubic σ at a rational kernel of
    four inputs, every component of V kept; and for tanh with two inputs by quadrature."""
    r = recursion("V", Orthogonal())
    cubic = activations.polynomial([0, 1, sympy.Rational(1, 2), sympy.Rational(-1, 3)])
    four = sympy.Matrix([[4, 1, -1, 2], [1, 3, 1, 0], [-1, 1, 5, 1], [2, 0, 1, 4]]) / 3
    derived = coefficients(evaluate(r.expr, cubic, four, wick(four)))
    printed = coefficients(printed_recursion((1, 2, 3, 4), cubic, four, wick(four)))
    names = sorted(derived.keys() | printed.keys(), key=str)
    two = sympy.Matrix([[0.8, 0.3], [0.3, 0.6]])
    pair = replace(r, samples=(1, 1, 1, 2))
    tanh = coefficients(evaluate(pair.expr, activations.tanh, two, on_grid(two)))
    tanh_printed = coefficients(
        printed_recursion((1, 1, 1, 2), activations.tanh, two, on_grid(two))
    )
    tanh_names = sorted(tanh.keys() | tanh_printed.keys(), key=str)
    return both(
        equal(
            [derived.get(name, 0) for name in names],
            [printed.get(name, 0) for name in names],
            "cubic σ, four inputs, exact",
        ),
        close(
            [tanh.get(name, 0) for name in tanh_names],
            [tanh_printed.get(name, 0) for name in tanh_names],
            12,
            "tanh, V_(αα)(αβ), to 12 digits; the scan's indices read as inverse kernels",
        ),
    )


# %% [markdown]
# ## Linear networks (5.17)


# %%
@claim("000", "5.17", "V of linear networks is its first layer's")
def linear_vertex() -> Verdict:
    r"""The first layer gives $-[(x_1\cdot x_3)(x_2\cdot x_4) + (x_1\cdot x_4)(x_2\cdot x_3)]/n^2$,
    and no later layer changes $V$."""
    kernel = sympy.Matrix(4, 4, lambda a, b: Component("K", (min(a, b) + 1, max(a, b) + 1)))
    step = evaluate(recursion("V", Orthogonal()).expr, activations.linear, kernel, wick(kernel))
    first = recursion("V", Orthogonal(), first_layer=True).expr.subs(C_W, 1)
    n = sympy.Symbol("n", positive=True)
    dot = {pair: sympy.Symbol("x{}x{}".format(*pair)) for pair in ((1, 3), (2, 4), (1, 4), (2, 3))}
    in_products = first.xreplace({Component("K0", pair): dot[pair] / n for pair in dot})
    printed = -(dot[1, 3] * dot[2, 4] + dot[1, 4] * dot[2, 3]) / n**2
    return equal(
        [in_products, step],
        [printed, C_W**2 * vertex(1, 2, 3, 4)],
        "first layer, then each step, at any kernel",
    )


@claim("000", "5.17 (mixed)", "V of mixed linear networks vanishes")
def mixed_linear_vertex() -> Verdict:
    r"""With a Gaussian first layer $V^{(1)} = 0$ for any inputs; with one input $V^{(\ell)} = 0$ at
    every finite width, not to leading order alone."""
    mixed = Network(activations.linear, Orthogonal(), first_weights=Gaussian())
    finite = [exact.vertex(mixed, layer) for layer in (1, 2, 5, 20)]
    several = exact.cumulant("V", mixed, 2, samples=(1, 2, 3, 4))
    first = recursion("V", Gaussian(), first_layer=True).expr
    return equal([first, several, *finite], [0] * 6, "exact in n, layers 1 to 20")


# %% [markdown]
# ## One input (5.18), and ReLU (5.19)


# %%
@claim("000", "5.18", "recursion of V with one input")
def single_input_recursion() -> Verdict:
    r"""$C_W^2[\langle\sigma^4\rangle - 3\langle\sigma^2\rangle^2] + \chi_\parallel^2 V$ with
    $\chi_\parallel = \frac{C_W}2\langle(\sigma^2)''\rangle$ of (5.4); Gaussian weights have 1 for
    3."""
    chi_parallel = C_W * Average(((1, 0), (1, 0)), (1, 1)) / 2

    def printed(factor: int) -> sympy.Expr:
        return C_W**2 * (bracket(1, 1, 1, 1) - factor * bracket(1, 1) ** 2) + chi_parallel**2 * V

    return equal(
        [recursion("V", weights).single_input().expr for weights in (Orthogonal(), Gaussian())],
        [printed(3), printed(1)],
    )


@claim("000", "5.19", "V of critical ReLU networks")
def relu_vertex() -> Verdict:
    r"""$\tilde V = 3\ell - 5$ with every layer orthogonal, by the recursion and as the limit of the
    exact finite-width vertex; Gaussian weights give $5(\ell - 1)$."""
    depth = 8
    layers = range(1, depth + 1)
    orthogonal, gaussian = (
        Network(activations.relu, weights) for weights in (Orthogonal(2), Gaussian(2))
    )
    finite = [sympy.limit(exact.vertex(orthogonal, layer), exact.n, sympy.oo) for layer in layers]
    averages = [activations.relu.average((0,) * power, K) for power in (2, 4)]
    return both(
        equal(
            [*normalised_vertex(orthogonal, depth), *finite],
            [3 * layer - 5 for layer in layers] * 2,
            "layers 1 to 8 by the recursion, and as limits of the exact vertex",
        ),
        equal(normalised_vertex(gaussian, depth), [5 * (layer - 1) for layer in layers]),
        equal(averages, [K / 2, 3 * K**2 / 2], "⟨σ²⟩ = K/2, ⟨σ⁴⟩ = 3K²/2"),
    )
