# %% [markdown]
# # Signal propagation
#
# A wide network's preactivations are Gaussian, with a variance $q^\ell$ that moves from layer to
# layer. The Jacobian $J = \prod_\ell D^\ell W^\ell$ multiplies the slopes $\phi'(h)$ that these
# Gaussians give; $\chi$, the mean of the eigenvalues of $DW(DW)^T$, says whether gradients explode
# or vanish.

# %%
"""The Jacobian, lengths and χ (source 002, §2.1 and §2.2: eqs. 1–5, Figure 1; 001, eqs. 1, 10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import NamedTuple

import mpmath
import sympy

from derivations.claims import Verdict, both, claim, close, equal, misprint, observed
from derive import (
    Equation,
    Gaussian,
    Network,
    Orthogonal,
    WeightEnsemble,
    activations,
    criticality,
    propagation,
    spectra,
    symbols,
)
from derive.gaussian.brackets import Average
from derive.gaussian.oracle import gaussian_average
from derive.recursions import recursion
from derive.symbols import C_W, C_b

from . import figures

q = symbols.q

GRAM = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
"""Σ_x ∂h_i/∂x ∂h_k/∂x: the Jacobian of the preactivations times its transpose."""


def gradient_growth(weights: WeightEnsemble, *, equal_widths: bool = True) -> sympy.Expr:
    """The factor by which the derived recursion of `GRAM` moves it in a layer."""
    step = recursion([GRAM], weights, equal_widths=equal_widths).single_input().expr
    (below,) = step.free_symbols - {C_W}
    return sympy.expand(step).coeff(below)


# %% [markdown]
# ## The Jacobian


# %%
class Explicit(NamedTuple):
    """A small network with rational weights, each layer's outputs polynomials in the inputs.

    Attributes:
        inputs, point: the inputs' symbols, and the numbers at which slopes are taken.
        outputs: x^1 … x^L.
        slopes, weights: D^ℓ at the point, and W^ℓ.
    """

    inputs: tuple[sympy.Symbol, ...]
    point: dict[sympy.Symbol, sympy.Rational]
    outputs: list[sympy.Matrix]
    slopes: list[sympy.Matrix]
    weights: list[sympy.Matrix]

    def differentiated(self, layer: int) -> sympy.Matrix:
        """∂x^ℓ/∂x^0 at the point, by differentiating the polynomials."""
        return self.outputs[layer - 1].jacobian(self.inputs).subs(self.point)

    def product(self, layer: int) -> sympy.Matrix:
        """D^ℓ W^ℓ … D^1 W^1."""
        total = sympy.eye(len(self.inputs))
        for D, W in zip(self.slopes[:layer], self.weights[:layer], strict=True):
            total = D * W * total
        return total


def explicit(widths: Sequence[int], rank: int | None = None) -> Explicit:
    """x^ℓ = φ(W^ℓ x^{ℓ−1} + b^ℓ) with φ(h) = h + h²/2 through these widths, the inputs' first; with
    a `rank`, W = CA with so many columns in C."""
    inputs = sympy.symbols(f"x_1:{widths[0] + 1}")
    numbers = (sympy.Rational((7 * k) % 11 - 5, 3) for k in count(1))

    def matrix(rows: int, cols: int) -> sympy.Matrix:
        return sympy.Matrix(rows, cols, lambda *_: next(numbers))

    network = Explicit(inputs, {each: next(numbers) for each in inputs}, [], [], [])
    active = sympy.Matrix(inputs)
    for before, width in pairwise(widths):
        W = matrix(width, before) if rank is None else matrix(width, rank) * matrix(rank, before)
        h = (W * active + matrix(width, 1)).applyfunc(sympy.expand)
        active = h.applyfunc(lambda each: sympy.expand(each + each**2 / 2))
        network.outputs.append(active)
        network.slopes.append(sympy.diag(*(1 + each for each in h.subs(network.point))))
        network.weights.append(W)
    return network


@claim("002", "2", "the Jacobian is a product over the layers")
def chain_rule() -> Verdict:
    r"""$\partial x^L/\partial x^0 = D^L W^L \cdots D^1 W^1$: the polynomials $x^3(x^0)$ of a
    network of widths 2, 3, 3, 2 with rational weights, differentiated, against the product."""
    network = explicit((2, 3, 3, 2))
    return equal(
        network.differentiated(3).flat(), network.product(3).flat(), "every entry, rational"
    )


@claim("001", "10", "the Jacobian is a product over the layers")
def low_rank_chain_rule() -> Verdict:
    r"""$\partial z^L/\partial z^0 = D^L W^L \cdots D^1 W^1$ for $z^{(l)} = \phi(h^{(l)})$ and
    weights $W = C\alpha$ of rank 2 in two layers of width 3; its rank is 2."""
    network = explicit((3, 3, 3), rank=2)
    product = network.product(2)
    return both(
        equal(network.differentiated(2).flat(), product.flat(), "every entry, rational"),
        equal(product.rank(), 2),
    )


@claim("001", "1", "the index of the layer in z = φ(h)")
def layer_index() -> Verdict:
    r"""(1) prints $z^{(l)} = \phi(h^{(l-1)})$, so that $z^{(L)}$ has passed $L - 1$ matrices, while
    (10) has $D^L W^L$ in $\partial z^L/\partial z^0$ and A.2 has $h^{(l)} =
    W^{(l)}\phi(h^{(l-1)})$, both of which need $z^{(l)} = \phi(h^{(l)})$. The entry (1, 1) of the
    derivative of $z^{(3)}$ for weights of 2 × 2: with the three factors of (10), and with the two
    that (1) leaves."""
    network = explicit((2, 2, 2, 2))
    needed, printed = network.product(3), network.differentiated(2)
    holds = equal(network.differentiated(3).flat(), needed.flat())
    wrong = misprint(needed[0, 0], printed[0, 0], "∂z^(3)_1/∂z_1 in a network of rational weights")
    return wrong if holds.holds else holds


# %% [markdown]
# ## Lengths


# %%
@claim("002", "3", "length map")
def length_map() -> Verdict:
    r"""$q^\ell = \sigma_w^2\int \mathcal{D}h\,\phi(\sqrt{q^{\ell-1}}h)^2 + \sigma_b^2$, the
    engine's recursion of the kernel, for Gaussian and for orthogonal weights; at the inputs $q^1 =
    \sigma_w^2 |x^0|^2/N + \sigma_b^2$."""
    inputs = symbols.K0
    hidden, first = C_W * Average(((1, 0), (1, 0))) + C_b, C_W * inputs + C_b
    derived = []
    for weights in (Gaussian(), Orthogonal()):
        derived.append(recursion("K", weights).single_input().expr)
        derived.append(recursion("K", weights, first_layer=True).single_input().expr)
    return equal(derived, [hidden, first] * 2)


@claim("002", "4", "fixed lengths")
def fixed_length() -> Verdict:
    r"""The derived map of (3) has $q' = \sigma_w^2 q + \sigma_b^2$ for linear and
    $q' = \sigma_w^2 q/2 + \sigma_b^2$ for ReLU networks, as §4.3 says. For tanh the fixed length
    that the engine finds solves (4) by rigorous quadrature, and lengths 100 times too large or too
    small come to it."""
    step = propagation.equations().length
    moved = [
        step.subs(Average(((1, 0), (1, 0))), activation.average((0, 0), q))
        for activation in (activations.linear, activations.relu)
    ]
    net = Network(activations.tanh, Gaussian(sympy.Rational(3, 2)), C_b=sympy.Rational(1, 10))
    (point,) = (each for each in propagation.fixed_points(net) if each.is_stable)
    square = gaussian_average(activations.tanh.expr**2, mpmath.mpf(point.q), 25).value
    far = []
    for factor in (0.01, 100):
        length = point.q * factor
        for _ in range(50):
            length = float(criticality(activations.tanh).kernel_map(length, 1.5, 0.1))
        far.append(length)
    return both(
        equal(moved, [C_W * q + C_b, C_W * q / 2 + C_b]),
        close([point.q, *far], [mpmath.mpf(3) / 2 * square + mpmath.mpf(1) / 10] * 3, 12),
        detail=f"tanh, σ_w² = 3/2, σ_b² = 1/10: q* = {point.q:.12f}",
    )


# %% [markdown]
# ## Order and chaos


# %%
@claim("002", "5", "χ is the mean squared singular value of D W")
def mean_square() -> Verdict:
    r"""$\frac1N\langle\mathrm{tr}(DW)^T DW\rangle =
    \sigma_w^2\int\mathcal{D}h\,\phi'(\sqrt{q^*}h)^2$: what the engine's recursion of $JJ^T$ makes
    of its mean in a layer, for both ensembles; so $L$ layers have $\chi^L$."""
    derived = []
    for weights in (Gaussian(), Orthogonal()):
        step, growth = recursion([GRAM], weights).single_input().expr, gradient_growth(weights)
        (below,) = step.free_symbols - {C_W}
        derived += [growth, step.subs(below, 0)]
    chi = C_W * Average(((1, 1), (1, 1)))
    return equal(derived, [chi, 0] * 2)


@claim("002", "5 (in words)", "χ is not a second moment")
def not_a_second_moment() -> Verdict:
    r"""Below (5) $\chi$ is called the second moment of the distribution of *squared* singular
    values; it is their first, $m_1$ of $DW(DW)^T$. The second is $\chi^2(\mu_2/\mu_1^2 - s_1)$."""
    first, second = spectra.jacobian_moments(2, depth=1)
    return misprint(first, second, "L = 1: m_1 = χ, and m_2 is another number")


@claim("002", "Figure 1", "the critical line of tanh")
def critical_line() -> Verdict:
    r"""Forty points from $q^* = 10^{-3}$ to 12. At eight of them rigorous averages confirm
    $\chi = 1$ and (4) to 12 digits; beside the line, at two of them with $\sigma_w^2$ one hundredth
    larger or smaller, $\chi$ at the fixed length is above or below 1."""
    line = figures.critical_points(activations.tanh)
    derived, sides = [], []
    with mpmath.workdps(25):
        for length, weight, bias in line[::5]:
            square, slope = (
                gaussian_average(each**2, mpmath.mpf(length), 20).value
                for each in (activations.tanh.expr, activations.tanh.derivative())
            )
            derived += [weight * slope, (weight * square + bias) / length]
    step = criticality(activations.tanh)
    for length, weight, bias in line[10::20]:
        for factor in (1.01, 0.99):
            moved = length
            for _ in range(40):
                moved = float(step.kernel_map(moved, weight * factor, bias))
            sides.append(step.chi_perp(moved, weight * factor) > 1)
    verdict = both(
        close(derived, [1] * len(derived), 12, "χ and q'/q at eight points of the line"),
        observed(
            sides == [True, False] * (len(sides) // 2), "χ > 1 on one side of it alone, at 2 points"
        ),
    )
    return replace(verdict, figures={"pennington1": figures.critical_line(line)})
