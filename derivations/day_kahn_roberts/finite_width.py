# %% [markdown]
# # The tensors of a network of finite width
#
# $K$, $V$, $\Theta$, $A$, … are leading orders in $1/n$ of correlators that are not truncated. With
# a polynomial activation those can be had exactly, as rational functions of $n$: every layer is a
# polynomial in the weights of the last one and in the fields of the one below. So the printed
# decompositions over pairs of neural indices are proven here at any width, for networks that are
# neither linear nor odd and have biases, and the derived recursions are held to what the exact
# correlators tend to. (The paper takes the decompositions from the theory of Gaussian weights, and
# has checked them numerically for orthogonal ones: its footnote 10.)

# %%
"""Decompositions over neurons, exact in n (000, eqs. 3.7, 3.8, 5.14, 5.25, 6.5, 6.7–6.14, §6.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import cast

import sympy

from derivations.claims import Verdict, both, claim, equal
from derivations.day_kahn_roberts.expansions import follow
from derivations.moments.gaussian import variables, wick
from derive import activations, exact
from derive.activations.functions import Activation
from derive.arithmetic.polynomials import UNIT, Expansion, add, multiply_all
from derive.engine.fields import Field, Placed, Z, canonical_tree
from derive.engine.tensors import Tensor, identify, tensor
from derive.exact.matrices import Spectrum
from derive.exact.moments import Moments
from derive.gaussian.brackets import Component
from derive.groups.pairings import pair_partitions
from derive.groups.zonal import partitions
from derive.network import Network
from derive.recursions import recursion
from derive.symbols import C_W, K0, C_b, lambda_b, lambda_W
from derive.weights import Gaussian, Orthogonal, WeightEnsemble
from derive.work.caches import cache

R = sympy.Rational
n = exact.n
VALUES = {C_W: R(2, 3), C_b: R(1, 10), lambda_W: R(2), lambda_b: R(1, 3)}
QUADRATIC = activations.polynomial([0, 1, R(1, 2)])
CUBIC = activations.polynomial([0, 1, R(1, 4), R(-1, 3)])
ENSEMBLES = (Gaussian(VALUES[C_W]), Orthogonal(VALUES[C_W]))
KERNEL = {(1, 1): R(1, 2), (1, 2): R(1, 5), (2, 2): R(2, 5)}
"""x_α·x_β/n of two inputs."""
TOWER = ("K", "G1", "V", "Theta", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U")


def network(activation: Activation, weights: WeightEnsemble) -> Network:
    """A nonlinear network with biases, the same at every layer."""
    return Network(
        activation,
        weights,
        C_b=VALUES[C_b],
        lambda_W=VALUES[lambda_W],
        lambda_b=VALUES[lambda_b],
    )


@cache
def followed(
    activation: Activation,
    weights: WeightEnsemble,
    layer: int,
    names: tuple[str, ...] = TOWER,
) -> Mapping[str, sympy.Expr]:
    """Tensors of one input by their derived recursions from the first layer on, in its K0."""
    return follow(activation, weights, layer, names, VALUES)[-1]


# %% [markdown]
# ## Preactivations (3.7), (3.8), (5.25)


# %%
@claim("000", "3.7", "two-point function: a δ times K + O(1/n)")
def two_point_function() -> Verdict:
    r"""The exact two-point function of layer 2 with two inputs: none between different neurons,
    and at $n \to \infty$ the kernel of the derived recursion (5.3)."""
    step = recursion("K")
    across, limits, expected = [], [], []
    for activation, weights in product((QUADRATIC, CUBIC), ENSEMBLES):
        net = network(activation, weights)
        first = {
            Component("K", pair): VALUES[C_b] + VALUES[C_W] * value
            for pair, value in KERNEL.items()
        }
        kernel = step.specialise(activation).expr.subs(VALUES).xreplace(first)
        across.append(exact.component(["z", "z"], (1, 2), net, 2, (1, 2), kernel=KERNEL))
        limits.append(exact.series("K", net, 2, 0, (1, 2), kernel=KERNEL)[0])
        expected.append(kernel)
    return both(
        equal(limits, expected, "limits of the exact two-point functions, quadratic and cubic σ"),
        equal(across, [0] * len(across), "different neurons, at any width"),
    )


@claim("000", "5.25", "the 1/n part of the two-point function")
def next_order() -> Verdict:
    r"""$E[zz] = K + G^{\{1\}}/n + \dots$: from the exact two-point functions of layers 2 and 3, and
    by the derived recursions of $K$, $V$ and $G^{\{1\}}$."""
    found: list[sympy.Expr] = []
    expected: list[sympy.Expr] = []
    for weights in ENSEMBLES:
        for activation, layer in ((QUADRATIC, 2), (QUADRATIC, 3), (CUBIC, 2)):
            found += exact.series("K", network(activation, weights), layer, 1)
            known = followed(activation, weights, layer, ("K", "V", "G1"))
            expected += [known["K"], known["G1"]]
    return equal(found, expected, "orders 1 and 1/n, in the symbol K0")


PAIRS = ((0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0))
"""Neurons that tell the pairings (12)(34), (13)(24), (14)(23) apart."""


def decomposed(fields: Sequence[str], names: str) -> Verdict:
    """True if the cumulant of these fields, of layer 2 with one input, is a sum of three δδ/n times
    these tensors, exactly in its neural indices and at large width in its coefficients."""
    structure, found, expected = [], [], []
    for weights in ENSEMBLES:
        net, known = network(QUADRATIC, weights), followed(QUADRATIC, weights, 2)
        parts = [exact.component(fields, neurons, net, 2) for neurons in PAIRS]
        alone, odd, apart = (
            exact.component(fields, neurons, net, 2)
            for neurons in ((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2))
        )
        structure += [sympy.cancel(alone - sum(parts)), odd, apart]
        found += [sympy.expand(sympy.limit(n * part, n, sympy.oo)) for part in parts]
        expected += [known[name] for name in names]
    return both(
        equal(found, expected, f"n times the exact cumulants as n → ∞: {', '.join(names)}"),
        equal(structure, [0] * len(structure), "a sum of three δδ at any width"),
        detail="σ = z + z²/2 with biases, Gaussian and orthogonal weights",
    )


@claim("000", "3.8", "connected four-point function: V")
def four_point_function() -> Verdict:
    """(12)(34) + (13)(24) + (14)(23) at every width, with coefficients $V/n$ at leading order."""
    return decomposed(["z"] * 4, "VVV")


# %% [markdown]
# ## Neurons (5.14)


# %%
@cache
def kernels(layer: int) -> sympy.Matrix:
    """K of the two inputs for σ = z + z²/2, by (5.3) with Wick's theorem."""
    if layer == 1:
        return sympy.Matrix(
            2, 2, lambda a, b: VALUES[C_b] + VALUES[C_W] * KERNEL[min(a, b) + 1, max(a, b) + 1]
        )
    average = wick(kernels(layer - 1))
    sigma = [QUADRATIC.expr.subs(activations.z, name) for name in variables(2)]
    return sympy.Matrix(2, 2, lambda a, b: VALUES[C_b] + VALUES[C_W] * average(sigma[a] * sigma[b]))


def activity(
    net: Network, layer: int, points: Sequence[tuple[int, int]], order: int = 1
) -> dict[int, sympy.Expr]:
    """E[Π σ_{j;α}] of a layer over (neuron, sample) points: its coefficients of n^0, n^{-1}, …

    From the exact joint moments of z, whose spectral factors are expanded in 1/n.
    """
    moments = Moments(net, layer, n, n, lambda a, b: KERNEL[min(a, b), max(a, b)])
    powers = sympy.Poly(net.activation_at(1).expr, activations.z).terms()
    exact_moment: Expansion = {}
    for chosen in product(powers, repeat=len(points)):
        repeated = [
            Placed(Z, (neuron,), (sample,))
            for (neuron, sample), ((power,), _) in zip(points, chosen, strict=True)
            for _ in range(power)
        ]
        for key, value in moments(tuple(repeated)).items():
            factor = prod(Fraction(int(each.p), int(each.q)) for _, each in chosen)
            add(exact_moment, {key: value * factor})
    expanded: Expansion = {}
    for (mono, at), value in exact_moment.items():
        spectra = [
            moments.matrices[spectrum.matrix].series(spectrum.cosets, order - at, equal_widths=True)
            for spectrum, exponent in cast("frozenset[tuple[Spectrum, int]]", mono)
            for _ in range(exponent)
        ]
        add(expanded, multiply_all([{(UNIT, at): value}, *spectra], order))
    return {at: R(value.numerator, value.denominator) for (_, at), value in expanded.items()}


@claim("000", "5.14", "different neurons are independent at leading order")
def factorised() -> Verdict:
    r"""$E[\sigma_j\sigma_j\sigma_k\sigma_k]$ of a quadratic network for $j \neq k$, exact in $n$:
    a series in $1/n$ that starts with the product of two brackets."""
    found, expected, rest = [], [], []
    for weights, (layer, samples) in product(ENSEMBLES, ((1, (1, 2, 1, 1)), (2, (1, 1, 1, 1)))):
        average, z = wick(kernels(layer)), variables(2)
        sigma = [QUADRATIC.expr.subs(activations.z, z[sample - 1]) for sample in samples]
        points = list(zip((1, 1, 2, 2), samples, strict=True))
        moment = activity(network(QUADRATIC, weights), layer, points)
        rest.append(moment.pop(1, 0))
        found += [moment.pop(0), *moment.values()]
        brackets = average(sigma[0] * sigma[1]) * average(sigma[2] * sigma[3])
        expected += [brackets, *[0] * len(moment)]
    terms = ", ".join(f"{float(value):.4g}/n" for value in rest)
    return equal(found, expected, f"Gaussian and orthogonal, layers 1 and 2; next come {terms}")


# %% [markdown]
# ## The NTK and its descendants (6.5), (6.7), (6.8), (6.12)–(6.14)


# %%
@claim("000", "6.5 (finite width)", "mean of the NTK: a δ times Θ + O(1/n)")
def tangent_kernel() -> Verdict:
    r"""The exact mean is diagonal at any width and tends to $\Theta$; the variance vanishes at
    $n \to \infty$, so that the NTK is frozen."""
    across, spread, found, expected = [], [], [], []
    for weights in ENSEMBLES:
        net = network(QUADRATIC, weights)
        across.append(exact.component(["H"], (0, 1), net, 2))
        variance = exact.component(["H", "H"], (0, 0, 0, 0), net, 2)
        spread.append(sympy.limit(variance, n, sympy.oo))
        for layer in (2, 3):
            found.append(exact.series("Theta", net, layer, 0)[0])
            expected.append(followed(QUADRATIC, weights, layer, ("K", "Theta"))["Theta"])
    return both(
        equal(found, expected, "layers 2 and 3, in the symbol K0"),
        equal(across + spread, [0] * 4, "different neurons at any width; variance at n → ∞"),
    )


@claim("000", "6.7 (finite width)", "variance of the NTK: A and B; one input, layer 2")
def ntk_variance() -> Verdict:
    """(12)(34) with $A$, (13)(24) and (14)(23) with $B$."""
    return decomposed(["H", "H"], "ABB")


@claim(
    "000", "6.8 (finite width)", "covariance of preactivations and NTK: D and F; one input, layer 2"
)
def mixed_variance() -> Verdict:
    """(12)(34) with $D$, (13)(24) and (14)(23) with $F$."""
    return decomposed(["z", "z", "H"], "DFF")


@claim(
    "000",
    "6.12 (finite width)",
    "covariance of the dNTK with preactivations: P and Q; one input, layer 2",
)
def differential() -> Verdict:
    """(01)(23) with $Q$, (02)(13) with $Q$, (03)(12) with $P$."""
    return decomposed(["dH", "z"], "QQP")


@claim("000", "6.13 (finite width)", "mean of the first ddNTK: R; one input, layer 2")
def first_second_differential() -> Verdict:
    """All three pairings with $R$."""
    return decomposed(["ddI"], "RRR")


@claim("000", "6.14 (finite width)", "mean of the second ddNTK: S, T and U; one input, layer 2")
def second_second_differential() -> Verdict:
    """(12)(34) with $S$, (13)(24) with $T$, (14)(23) with $U$."""
    return decomposed(["ddII"], "STU")


@claim("000", "§6.1 (footnote 11)", "K or G, Θ or Ĥ in the denominators")
def denominators() -> Verdict:
    r"""The exact correlators of layer 2 over the exact means, $\mathbb E\,zz$ and
    $\mathbb E\,\widehat H$, tend to the tensors over $K$ and $\Theta$; what the choice changes is
    $\frac1n(-2\tilde V G^{\{1\}}/K)$ for $\tilde V$, a term of the next order, not 0."""
    limits, expected, changes, next_terms = [], [], [], []
    for weights in ENSEMBLES:
        net, known = network(QUADRATIC, weights), followed(QUADRATIC, weights, 2)
        G, H = (exact.component(each, (0, 0), net, 2) for each in (["z", "z"], ["H"]))
        for name, fields, size, leading in (
            ("V", ["z"] * 4, G**2, known["K"] ** 2),
            ("D", ["z", "z", "H"], G * H, known["K"] * known["Theta"]),
            ("A", ["H", "H"], H**2, known["Theta"] ** 2),
        ):
            part = n * exact.component(fields, PAIRS[0], net, 2).subs(K0, AT)
            ratio = part / size.subs(K0, AT)
            limits.append(sympy.limit(ratio, n, sympy.oo))
            expected.append((known[name] / leading).subs(K0, AT))
            if name == "V":
                changed = n * (ratio - part / leading.subs(K0, AT))
                changes.append(sympy.limit(sympy.cancel(changed), n, sympy.oo))
                next_terms.append((-2 * known["V"] * known["G1"] / known["K"] ** 3).subs(K0, AT))
    return both(
        equal(limits, expected, "Ṽ, D̃ and Ã, Gaussian and orthogonal weights, n → ∞"),
        equal(changes, next_terms, "n times what the choice changes in Ṽ"),
    )


AT = R(3, 4)
"""K0, where rational functions of n are compared."""


# %% [markdown]
# ## The hierarchy ends (section 6.1)
#
# A gradient step moves each field by fields with one more node, trees of derivatives again. Those
# of four nodes are $z^4$, $zz\widehat H$, …, $\widehat{dd_{II}H}$; a fifth node needs a sixth.


# %%
def trees(nodes: int) -> list[Field]:
    """The fields of so many nodes: every shape of a tree once, each a smaller one with a leaf."""
    if nodes == 1:
        return [Z]
    leaves = product(trees(nodes - 1), range(nodes - 1))
    grown = (canonical_tree(nodes, (*field.edges, (at, nodes - 1)))[0] for field, at in leaves)
    return sorted(set(grown), key=lambda each: each.rank)


def with_indices(count: int) -> set[Tensor]:
    """The tensors of all joint cumulants of fields with so many neural indices in all."""
    found = set()
    for sizes in partitions(count):
        for chosen in product(*map(trees, sizes)):
            for pairing in pair_partitions(count):
                found.add(tensor(chosen, 0, pairing, (1,) * count))
    return found


@claim("000", "§6.1 (full set)", "V, A, B, D, F, P … U are all correlators of order 1/n")
def full_set() -> Verdict:
    r"""Order $1/n$ is four neural indices. $z$, $\widehat H$, $\widehat{dH}$ and the two ddNTKs are
    all trees of derivatives with up to four nodes; their products with four indices in all, their
    pairings up to the fields' symmetries, are eleven tensors, those of (3.8), (6.7), (6.8) and
    (6.12)-(6.14). ($G^{\{1\}}$ and $\Theta^{\{1\}}$, of two indices, are corrections.)"""
    names = sorted(identify(each)[0].label for each in with_indices(4))
    counts = [len(trees(nodes)) for nodes in range(1, 5)]
    return both(
        equal([sympy.Symbol(name) for name in names], list(sympy.symbols("A B D F P Q R S T U V"))),
        equal(counts, [1, 1, 1, 2], "trees of 1, 2, 3 and 4 nodes"),
    )


@claim("000", "§6.1 (hierarchy)", "the hierarchy ends: nothing moves the ddNTKs at order 1/n")
def hierarchy() -> Verdict:
    r"""They move by a tree of five nodes times $z-y$. Alone its mean has an odd number of
    indices, and is 0; its exact covariance with $z$, for the path of five nodes in a quadratic
    network, falls like $1/n^2$, where $P$'s and $Q$'s with $\widehat{dH}$ fall like $1/n$."""
    path = Field(5, tuple(pairwise(range(5))))
    net = network(QUADRATIC, Gaussian(VALUES[C_W]))
    dH, fifth = (
        exact.component([field, "z"], (0,) * (nodes + 1), net, 2).subs(K0, AT)
        for field, nodes in (("dH", 3), (path, 5))
    )
    orders = [sympy.limit(power * value, n, sympy.oo) for power, value in ((n, dH), (n, fifth))]
    return both(
        equal(orders[1], 0, "n E[dddH z] as n → ∞"),
        equal(
            [int(bool(each != 0)) for each in (orders[0], sympy.limit(n**2 * fifth, n, sympy.oo))],
            [1, 1],
            "n E[dH z] and n² E[dddH z] have limits that are not 0",
        ),
    )
