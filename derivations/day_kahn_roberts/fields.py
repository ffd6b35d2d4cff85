# %% [markdown]
# # The NTK and its descendants: definitions
#
# $\widehat H$, the dNTK and the two ddNTKs are trees: each node a preactivation, each edge a pair
# of derivatives by the parameters, contracted with the learning-rate tensor. What follows from
# differentiating $z = b + W\sigma(z)$ is held against the definitions themselves.

# %%
"""The NTK, dNTK and ddNTKs by definition (source 000, eqs. 6.1–6.4, 6.11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import sympy

from derivations.claims import Verdict, both, claim, equal, misprint
from derivations.day_kahn_roberts.by_definition import Index, SmallNetwork
from derive import activations
from derive.arithmetic.parameters import LAMBDA_B, LAMBDA_W
from derive.arithmetic.polynomials import Atom
from derive.engine.fields import DDH_I, DDH_II, DH, Field, H, Placed, forward
from derive.engine.through import Summand

HALF, THIRD = sympy.Rational(1, 2), sympy.Rational(1, 3)

# %% [markdown]
# ## Forward equations
#
# A network of two layers and two neurons with rational parameters is small enough to sum over all
# parameters, as the definitions say. The forward equations that the engine derives must then hold
# number by number, for every neural index.


# %%
def small_network(sigma: Sequence[sympy.Expr]) -> SmallNetwork:
    """Two layers of two neurons, four one-dimensional inputs, σ = Σ sigma_k z^k."""
    matrix = sympy.ImmutableMatrix
    return SmallNetwork(
        activations.polynomial(sigma),
        (matrix([[2], [-1]]), matrix([[1, HALF], [3, -2]])),
        ((sympy.S.One, HALF), (sympy.S.Zero, sympy.S.One)),
        tuple((value,) for value in (HALF, sympy.S.One, -sympy.S.One, THIRD)),
        lambda_W=sympy.Integer(3),
        lambda_b=HALF,
    )


CUBIC = (sympy.S.Zero, sympy.S.One, HALF, -THIRD)
QUADRATIC = CUBIC[:3]


def evaluate_forward(
    terms: Sequence[Summand], network: SmallNetwork, neurons: Sequence[int]
) -> sympy.Expr:
    """A forward equation's right-hand side at layer 2, with the fields of layer 1 by definition."""
    W, b = network.weights[1], network.biases[1]
    rates: dict[Atom, sympy.Rational] = {
        LAMBDA_W: network.lambda_W,
        LAMBDA_B: network.lambda_b,
    }

    def below_by_definition(placed: Placed, below: Sequence[int]) -> sympy.Rational:
        assert isinstance(placed.field, Field)
        at = [(below[j], sample) for j, sample in zip(placed.neurons, placed.samples, strict=True)]
        return network.field(placed.field, 1, at)

    def value(term: Summand, below: Sequence[int]) -> sympy.Expr:
        parts = [sympy.Integer(W.cols) ** -len(term.means)]
        parts += [rates[atom] ** power for atom, power in term.parameters]
        parts += [sympy.Integer(neurons[a] == neurons[c]) for a, c in term.deltas]
        parts += [b[neurons[slot]] for slot, _ in term.biases]
        parts += [W[neurons[slot], below[j]] for _, slot, j in term.weights]
        parts += [
            network.activation.derivative(order).subs(
                activations.z, network.derivative(1, (below[j], sample), ())
            )
            for j, sample, order, _ in term.factors
        ]
        parts += [below_by_definition(placed, below) for placed in term.fields]
        return prod(parts, start=sympy.S.One)

    return sympy.Add(
        *(
            value(term, below)
            for term in terms
            for below in product(range(W.cols), repeat=len(term.neurons))
        )
    )


def by_definition(field: Field) -> Verdict:
    """The field at layer 2 by its definition and by the derived forward equation."""
    network = small_network(CUBIC)
    nodes = tuple(range(field.nodes))
    choices = list(product(range(2), repeat=field.nodes))
    return equal(
        [evaluate_forward(forward(field, nodes, nodes), network, i) for i in choices],
        [network.field(field, 2, list(zip(i, nodes, strict=True))) for i in choices],
        f"{field} of a network of width 2 by summing over its parameters, cubic σ, exact",
    )


@claim("000", "6.1", "the NTK's forward equation follows from its definition")
def ntk_by_definition() -> Verdict:
    r"""$\sum_\mu \lambda_\mu \partial_\mu z_{i_1} \partial_\mu z_{i_2}$ over all parameters, with
    the learning rates (6.3), against the forward equation that the engine derives."""
    return by_definition(H)


@claim("000", "6.2", "what a step of gradient descent moves")
def descent() -> Verdict:
    r"""A step $\theta \to \theta - \eta\lambda\nabla\mathcal L$ with
    $\epsilon = \partial\mathcal L/\partial z$ moves $z$ by $-\eta\hat H\epsilon + \frac{\eta^2}2
    \widehat{dH}\epsilon\epsilon - \frac{\eta^3}6 \widehat{dd_I H}\epsilon\epsilon\epsilon$, which
    is all for a quadratic σ and two layers; and $\hat H$ by $-\eta\,(\widehat{dH} +
    \widehat{dH})\epsilon + \eta^2 (\frac12\widehat{dd_I H} + \frac12\widehat{dd_I H} +
    \widehat{dd_{II} H})\epsilon\epsilon + O(\eta^3)$."""
    network = small_network(QUADRATIC)
    error: Mapping[Index, sympy.Rational] = {(0, 2): HALF, (1, 3): -THIRD}
    step = [
        -rate * sum(e * network.derivative(2, at, [mu]) for at, e in error.items())
        for mu, rate in enumerate(network.rates)
    ]

    def contracted(field: Field, *first: Index) -> sympy.Expr:
        return sympy.Add(
            *(
                prod((error[at] for at in rest), start=network.field(field, 2, [*first, *rest]))
                for rest in product(error, repeat=field.nodes - len(first))
            )
        )

    eta = sympy.Symbol("eta")
    x, y = (0, 0), (1, 1)
    moved_z = (
        network.derivative(2, x, ())
        - eta * contracted(H, x)
        + eta**2 * contracted(DH, x) / 2
        - eta**3 * contracted(DDH_I, x) / 6
    )
    moved = {h: network.moved([h * each for each in step]) for h in range(-2, 3)}
    kernel = sympy.interpolate([(h, each.field(H, 2, [x, y])) for h, each in moved.items()], eta)
    # a center's tree has its own node first; ddII's two inner nodes are its first two
    first_order = contracted(DH, x, y) + contracted(DH, y, x)
    second_order = (contracted(DDH_I, x, y) + contracted(DDH_I, y, x)) / 2 + contracted(
        DDH_II, x, y
    )
    return equal(
        [
            *(each.derivative(2, x, ()) for each in moved.values()),
            sympy.expand(kernel).coeff(eta, 1),
            sympy.expand(kernel).coeff(eta, 2),
        ],
        [*(moved_z.subs(eta, h) for h in moved), -first_order, second_order],
        "exact at η = −2 … 2, and in powers of η for H",
    )


@claim("000", "6.4", "the slopes in the NTK's forward equation")
def slopes() -> Verdict:
    r"""The chain rule brings $\sigma'\sigma'$ before $\hat H$ of the layer below, where
    $\sigma\sigma$ stands."""
    network = small_network(CUBIC)
    derived = forward(H, (0, 1), (0, 1))
    printed = [
        term._replace(factors=tuple((j, sample, 0, of) for j, sample, _, of in term.factors))
        for term in derived
    ]
    right, wrong = (evaluate_forward(terms, network, (0, 1)) for terms in (derived, printed))
    by_sum = network.field(H, 2, [(0, 0), (1, 1)])
    if right != by_sum:
        return equal(right, by_sum)
    return misprint(
        right,
        wrong,
        "H_12 of a network of width 2 by summing over its parameters is the first number; with σσ "
        "in the chain term it would be the second",
        lost="the primes of both σ, which are printed elsewhere",
    )


@claim("000", "6.11", "forward equations of the dNTK and both ddNTKs")
def descendants_by_definition() -> Verdict:
    """Sums over two and three parameters, for every choice of neural indices."""
    return both(by_definition(DH), by_definition(DDH_I), by_definition(DDH_II))
