# %% [markdown]
# # Deep linear networks, weight by weight
#
# A deep linear network is a product of its weight matrices, so each preactivation is a polynomial
# in the weights $W^{(\ell)}_{ij}\sim N(0,C_W/n_{\ell-1})$, and every correlator an average that
# can be taken monomial by monomial. On small networks with symbols for the inputs that shows what
# the pairings rest on: odd correlators vanish, and the neural indices of even ones come in Wick's
# Kronecker deltas in every layer, although the preactivations are Gaussian only in the first.

# %%
"""Correlators of linear networks from their weights (source 004, §§3.1–3.4, eqs. 3.2–3.44)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import sympy

from derivations.claims import Verdict, both, claim, equal
from derivations.moments import deep_linear, linear_laws
from derivations.moments.isotropic import normal_moment, pairings, same
from derive import activations, exact, linear, symbols
from derive.gaussian.brackets import Component
from derive.groups.pairings import Pairing, double_factorial_pairings, pair_partitions
from derive.network import Network
from derive.symbols import C_W
from derive.weights import Gaussian


@dataclass(frozen=True)
class Written:
    """A linear network with a generator of a polynomial ring for every weight.

    Attributes:
        widths: n_0, n_1, …, n_L, integers.
        samples: how many inputs x_1, x_2, … it is evaluated on.
    """

    widths: tuple[int, ...]
    samples: int = 1

    @cached_property
    def inputs(self) -> list[list[sympy.Symbol]]:
        """x_{j;α} by sample and component."""
        return [
            [sympy.Symbol(f"x_{j + 1};{alpha + 1}", real=True) for j in range(self.widths[0])]
            for alpha in range(self.samples)
        ]

    @cached_property
    def _ring(self) -> Any:
        shapes = list(zip(self.widths[1:], self.widths[:-1], strict=True))
        names = [
            f"W{layer}_{i}{j}"
            for layer, (rows, columns) in enumerate(shapes, start=1)
            for i, j in product(range(rows), range(columns))
        ]
        constants = [C_W, *(each for x in self.inputs for each in x)]
        return sympy.ring(names, sympy.QQ[constants])[0]

    @cached_property
    def weights(self) -> list[list[list[Any]]]:
        """W^{(ℓ)}_{ij} by layer, row and column."""
        generators = iter(self._ring.gens)
        return [
            [[next(generators) for _ in range(columns)] for _ in range(rows)]
            for rows, columns in zip(self.widths[1:], self.widths[:-1], strict=True)
        ]

    @cached_property
    def variances(self) -> list[sympy.Expr]:
        """C_W/n_{ℓ−1} of each weight, in the generators' order (eq. 3.4)."""
        return [
            C_W / columns
            for rows, columns in zip(self.widths[1:], self.widths[:-1], strict=True)
            for _ in range(rows * columns)
        ]

    @cached_property
    def preactivations(self) -> list[list[list[Any]]]:
        """z by layer from 0, sample and neuron: (3.1) without biases, layer after layer."""
        layers = [[[self._ring(x) for x in sample] for sample in self.inputs]]
        for W in self.weights:
            layers.append(
                [
                    [sum(w * z for w, z in zip(row, sample, strict=True)) for row in W]
                    for sample in layers[-1]
                ]
            )
        return layers

    def average(self, polynomial: Any) -> sympy.Expr:
        """E over the weights, monomial by monomial: E w^{2k} = (2k−1)!! (C_W/n_in)^k."""
        total = sympy.Integer(0)
        for powers, coefficient in polynomial.terms():
            if any(power % 2 for power in powers):
                continue
            moments = (
                sympy.factorial2(power - 1) * variance ** (power // 2)
                for power, variance in zip(powers, self.variances, strict=True)
                if power
            )
            total += self._ring.domain.to_sympy(coefficient) * sympy.prod(moments)
        return sympy.expand(total)

    def correlator(
        self, layer: int, neurons: Sequence[int], samples: Sequence[int] | None = None
    ) -> sympy.Expr:
        """E[z_{i_1;α_1} z_{i_2;α_2} …] of a layer; indices from 0, one input if none is named."""
        labels = [0] * len(neurons) if samples is None else samples
        z = self.preactivations[layer]
        factors = (z[alpha][i] for i, alpha in zip(neurons, labels, strict=True))
        return self.average(prod(factors, start=self._ring.one))

    def kernel(self, a: int = 0, b: int = 0) -> sympy.Expr:
        """x_a·x_b/n_0, eq. (3.9)."""
        x = self.inputs
        return sum(p * q for p, q in zip(x[a], x[b], strict=True)) / sympy.Integer(self.widths[0])

    def derived(self, layer: int, pairs: int, samples: Sequence[int] | None = None) -> sympy.Expr:
        """The coefficient of δ_{12} δ_{34} … from the engine's sums over pairings."""
        labels = [0] * (2 * pairs) if samples is None else samples
        found = deep_linear.coefficient(
            [label + 1 for label in labels],
            self.widths[1 : layer + 1],
            Gaussian(C_W),
            self.widths[0],
        )
        values = {
            Component("K0", (a + 1, b + 1)): self.kernel(a, b)
            for a, b in product(range(self.samples), repeat=2)
        }
        return sympy.expand(found.subs(values))


def deltas(neurons: Sequence[int], pairings: Sequence[Pairing] | None = None) -> int:
    """Σ_p Π_{(a,b)∈p} δ_{i_a i_b}, over all pairings of the indices or over those given."""
    chosen = pair_partitions(len(neurons)) if pairings is None else pairings
    return sum(all(neurons[a] == neurons[b] for a, b in p) for p in chosen)


# %% [markdown]
# ## A product of matrices (3.2)–(3.6)


# %%
@claim("004", "3.2", "the network is one matrix, the product of its weights, (3.2)–(3.3)")
def matrix_product() -> Verdict:
    """Layer after layer by (3.1) with $b=0$ against the sum over all paths
    $j_0,\\dots,j_{\\ell-1}$: for widths 2, 3, 2, 2 and two inputs, at every layer; and the
    $n_\\ell\\times n_0$ matrix $\\mathcal W^{(\\ell)}$ of (3.3) is what acts on the input."""
    network = Written((2, 3, 2, 2), samples=2)
    stepped, paths, through = [], [], []
    for layer in range(1, 4):
        middle = [range(width) for width in network.widths[:layer]]
        for i, alpha in product(range(network.widths[layer]), range(2)):
            z, x = network.preactivations[layer][alpha][i], network.inputs[alpha]
            product_matrix: list[Any] = [0] * network.widths[0]  # of elements of the ring
            total: Any = 0
            for path in product(*middle):
                rows = (*path[1:], i)
                W = prod(network.weights[k][rows[k]][path[k]] for k in range(layer))
                product_matrix[path[0]] += W
                total += W * x[path[0]]
            stepped.append(z.as_expr())
            paths.append(total.as_expr())
            through.append(sum(w.as_expr() * xj for w, xj in zip(product_matrix, x, strict=True)))
    return both(
        equal(stepped, paths, "(3.2), every neuron of layers 1 to 3 on two inputs"),
        equal(stepped, through, "(3.3)"),
    )


@claim("004", "3.6", "odd correlators vanish, the mean among them")
def odd_correlators() -> Verdict:
    """$z$ is odd in the weights of each layer, $z(-W^{(\\ell)})=-z$, and $-W$ has the law of $W$:
    one, three and five points have no average at layers 1, 2 and 3, in the weights one by one
    and as joint cumulants of the engine."""
    network = Written((2, 2, 2, 2))
    net = Network(activations.linear, Gaussian(C_W))
    indices = ((0,), (0, 0, 1), (0, 0, 0), (0, 0, 1, 1, 1))
    averages = [network.correlator(layer, each) for layer in (1, 2, 3) for each in indices]
    cumulants = [
        exact.component(["z"] * len(each), each, net, layer, width=2)
        for layer in (1, 2, 3)
        for each in indices
    ]
    z = network.preactivations[3][0][0]
    flipped = [
        z.compose([(w, -w) for row in network.weights[layer] for w in row]) for layer in range(3)
    ]
    return both(
        equal([*averages, *cumulants], [0] * (len(averages) + len(cumulants))),
        equal([each.as_expr() for each in flipped], [-z.as_expr()] * 3, "z is odd in every W"),
    )


# %% [markdown]
# ## Two points (3.8)–(3.16)


# %%
@claim("004", "3.8", "the first layer's two-point correlator, contraction by contraction")
def first_layer_two_points() -> Verdict:
    """$\\delta_{i_1i_2}C_W\\frac1{n_0}\\sum_jx_{j;\\alpha_1}x_{j;\\alpha_2}$ for all $i_1,i_2$ and
    pairs of two inputs in three dimensions."""
    network = Written((3, 2), samples=2)
    cases = list(product(range(2), repeat=4))
    found = [network.correlator(1, (i, j), (a, b)) for i, j, a, b in cases]
    derived = [int(i == j) * network.derived(1, 1, (a, b)) for i, j, a, b in cases]
    printed = [
        int(i == j)
        * C_W
        * sum(p * q for p, q in zip(network.inputs[a], network.inputs[b], strict=True))
        / 3
        for i, j, a, b in cases
    ]
    return both(equal(derived, printed, "by pairings"), equal(found, printed, "weight by weight"))


@claim("004", "3.11", "one step of the two-point correlator, (3.11)–(3.13)")
def two_point_step() -> Verdict:
    """$\\mathbb E[z^{(\\ell+1)}_{i_1}z^{(\\ell+1)}_{i_2}]
    =\\delta_{i_1i_2}\\frac{C_W}{n_\\ell}\\sum_j\\mathbb E[z^{(\\ell)}_jz^{(\\ell)}_j]$, weight by
    weight, widths 2, 3, 2, 2, two inputs. So it is $\\delta_{i_1i_2}G_{\\alpha_1\\alpha_2}$ at any
    layer, (3.12), with the mean over neurons for $G$, (3.13), which the engine derives."""
    network = Written((2, 3, 2, 2), samples=2)
    left, right, means, derived = [], [], [], []
    for layer, (a, b) in product((1, 2, 3), ((0, 0), (0, 1))):
        width = network.widths[layer]
        for i, j in product(range(width), repeat=2):
            left.append(network.correlator(layer, (i, j), (a, b)))
            below = range(network.widths[layer - 1])
            inner = sum(network.correlator(layer - 1, (k, k), (a, b)) for k in below)
            right.append(int(i == j) * C_W * inner / len(below))
        means.append(sum(network.correlator(layer, (k, k), (a, b)) for k in range(width)) / width)
        derived.append(network.derived(layer, 1, (a, b)))
    return both(
        equal(left, right, "(3.11) and (3.12), layers 1 to 3"),
        equal(derived, means, "(3.13)"),
    )


@claim("004", "3.16", "the typical size of the output, and of any layer, (3.16) and (3.32)")
def mean_square() -> Verdict:
    """$\\mathbb E\\frac1n\\sum_jz_j^2=G_2$ at layers 1 to 3 of widths 2, 3, 2, 2, weight by weight;
    and for any widths as the first moment of $|z|^2/n_L$."""
    network = Written((2, 3, 2, 2))
    squares = [
        sum(network.correlator(layer, (j, j)) for j in range(width)) / sympy.Integer(width)
        for layer, width in enumerate(network.widths[1:], start=1)
    ]
    widths = sympy.symbols("n_1:5", positive=True)
    laws_ = [linear_laws.law(widths[:depth]) for depth in range(1, 5)]
    moments = [each.moment(1) / (each.dimension * symbols.K0) for each in laws_]
    return both(
        equal(squares, [network.derived(layer, 1) for layer in (1, 2, 3)], "widths 2, 3, 2, 2"),
        equal(moments, [1] * 4, "E|z|²/(n G_2) by the law of |z|², symbolic widths, layers 1 to 4"),
    )


# %% [markdown]
# ## Four points (3.18)–(3.29)

# %%
FOUR = tuple(product(range(2), repeat=4))
"""All indices of four points in two neurons of a layer."""


@claim("004", "3.20", "neural indices of four points, and one step of them, (3.18)–(3.21)")
def four_point_indices() -> Verdict:
    """All sixteen components of two neurons at layers 1, 2 and 3 of widths 2, 3, 2, 2: weight by
    weight
    $C_W^2(\\delta\\delta+\\delta\\delta+\\delta\\delta)\\frac1{n^2}\\sum_{jk}
    \\mathbb E[z_jz_jz_kz_k]$ of the layer below, (3.20); the engine's $G_4$ in front of the same
    deltas, (3.21); at the first layer $C_W^2(G_2^{(0)})^2$, (3.18)."""
    network = Written((2, 3, 2, 2))
    found, stepped, decomposed = [], [], []
    for layer in (1, 2, 3):
        size = network.widths[layer - 1]
        inner = sum(
            network.correlator(layer - 1, (j, j, k, k)) for j, k in product(range(size), repeat=2)
        )
        G_4 = network.derived(layer, 2)
        for neurons in FOUR:
            found.append(network.correlator(layer, neurons))
            stepped.append(C_W**2 * deltas(neurons) * inner / size**2)
            decomposed.append(deltas(neurons) * G_4)
    first = [C_W**2 * deltas(neurons) * network.kernel() ** 2 for neurons in FOUR]
    return both(
        equal(found, stepped, "(3.20)"),
        equal(decomposed, found, "(3.21)"),
        equal(found[: len(FOUR)], first, "(3.18)"),
    )


@claim("004", "3.29", "the connected four-point correlator and its neural indices")
def connected_indices() -> Verdict:
    """The joint cumulant of four preactivations, derived for each choice of neurons apart, is
    $(\\delta\\delta+\\delta\\delta+\\delta\\delta)[G_4-G_2^2]$: layers 1 to 4, width symbolic; and
    weight by weight, subtracting $\\mathbb E[zz]\\mathbb E[zz]$ for the three pairings."""
    n = sympy.Symbol("n", positive=True, integer=True)
    net, K0 = Network(activations.linear, Gaussian(C_W)), sympy.Symbol("K0")
    patterns = ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 1), (0, 1, 2, 3))
    derived, printed = [], []
    for layer, neurons in product((1, 2, 3, 4), patterns):
        value = exact.component(["z"] * 4, neurons, net, layer, width=n)
        derived.append(value.subs({each: K0 for each in value.free_symbols if each.name == "K0"}))
        G_4, G_2 = linear.correlator(2, [n] * layer), 1
        printed.append(deltas(neurons) * (G_4 - G_2**2) * (C_W**layer * K0) ** 2)
    network = Written((2, 2, 2))
    written = []
    for four in FOUR:
        pairs = (
            prod(network.correlator(2, (four[a], four[b])) for a, b in p)
            for p in pair_partitions(4)
        )
        written.append(network.correlator(2, four) - sum(pairs))
    G_2, G_4 = network.derived(2, 1), network.derived(2, 2)
    return both(
        equal(derived, printed, "24 components"),
        equal(written, [deltas(neurons) * (G_4 - G_2**2) for neurons in FOUR], "by the weights"),
    )


# %% [markdown]
# ## Six points and more (3.36)–(3.44)

# %%
FIFTEEN = """
12 34 56  13 24 56  14 23 56  12 35 46  13 25 46  15 23 46  12 54 36  15 24 36  14 25 36
15 34 26  13 54 26  14 53 26  52 34 16  53 24 16  54 23 16
"""
"""The products of Kronecker deltas of (3.36) as printed, by their indices."""


def printed_pairings() -> list[Pairing]:
    """(3.36)'s fifteen, counted from 0."""
    pairs = [(int(text[0]) - 1, int(text[1]) - 1) for text in FIFTEEN.split()]
    return [tuple(pairs[at : at + 3]) for at in range(0, len(pairs), 3)]


@claim("004", "3.36", "neural indices of six points, and one step of them, (3.36)–(3.38)")
def six_point_indices() -> Verdict:
    """Among the fifteen printed products of deltas each pairing of six indices stands once. With
    them six points at layers 1 and 2 of widths 2, 3, 2, weight by
    weight, are $C_W^3(\\dots)\\frac1{n^3}\\sum_{ijk}\\mathbb E[z_iz_iz_jz_jz_kz_k]$ of the layer
    below, (3.36), and $(\\dots)G_6$, (3.37); the sum left over is (3.38)."""
    fifteen = printed_pairings()
    as_sets = [frozenset(frozenset(pair) for pair in p) for p in fifteen]
    wanted = [frozenset(frozenset(pair) for pair in p) for p in pair_partitions(6)]
    network = Written((2, 3, 2))
    patterns = (
        (0,) * 6,
        (0, 0, 0, 0, 1, 1),
        (0, 1, 0, 1, 0, 0),
        (0, 0, 1, 1, 1, 1),
        (0,) * 5 + (1,),
    )
    found, stepped, decomposed, sums = [], [], [], []
    for layer in (1, 2):
        size = network.widths[layer - 1]
        inner = sum(
            network.correlator(layer - 1, (i, i, j, j, k, k))
            for i, j, k in product(range(size), repeat=3)
        )
        G_6 = network.derived(layer, 3)
        sums.append(sympy.cancel(inner / size**3 * C_W**3 / G_6))
        for neurons in patterns:
            found.append(network.correlator(layer, neurons))
            stepped.append(C_W**3 * deltas(neurons, fifteen) * inner / size**3)
            decomposed.append(deltas(neurons, fifteen) * G_6)
    return both(
        equal(found, stepped, "(3.36) with (3.38)"),
        equal([as_sets.count(p) for p in wanted], [1] * 15, "each of the fifteen pairings once"),
        equal(decomposed, found, "(3.37)"),
        equal(sums, [1, 1], "C_W³ times (3.38) is G_6 of the next layer"),
    )


@claim("004", "3.44", "neural indices of 2m points")
def many_point_indices() -> Verdict:
    """Any m and layer: given the layer below, different neurons are independent and normal, with
    one variance s, so where 2a, 2b, … of the points are of one neuron each, the average is
    $\\mathbb E[s^m]$ times $(2a-1)!!(2b-1)!!\\cdots$, the number of pairings that join equal
    neurons; an odd number of points averages to 0. Weight by weight: eight points at layer 2 of two
    neurons are $(\\sum\\delta\\cdots\\delta)\\,G_8$ with the engine's $G_8$, and ten points
    likewise; $(2m-1)!!=105$ and $945$ pairings where all neurons are one."""
    network = Written((1, 2, 2))
    patterns = ((0,) * 8, (0,) * 6 + (1,) * 2, (0,) * 4 + (1,) * 4, (0,) * 7 + (1,), (0,) * 10)
    found = [network.correlator(2, neurons) for neurons in patterns]
    derived = [deltas(neurons) * network.derived(2, len(neurons) // 2) for neurons in patterns]
    counts = [deltas((0,) * (2 * m)) for m in range(1, 6)]
    a = sympy.Symbol("a", positive=True, integer=True)
    one = same(normal_moment(a), pairings(a))
    z = sympy.Symbol("z", real=True)
    odd = z ** (2 * a + 1) * sympy.exp(-(z**2) / 2)
    return both(
        equal(one, 1, "E g^{2a} = (2a − 1)!!, any a"),
        equal(odd.subs(z, -z), -odd, "and 2a + 1 points of one"),
        equal(derived, found, "five components"),
        equal(counts, [double_factorial_pairings(2 * m) for m in range(1, 6)], "(2m − 1)!!"),
    )


# %% [markdown]
# ## What the text says without a number


# %%
@claim("004", "§3.1 (bottleneck)", "one neuron makes a matrix of rank one")
def bottleneck() -> Verdict:
    """With $n_1=1$ all 2 × 2 minors of $\\mathcal W^{(2)}$ vanish, in the weights; with $n_1=2$
    none does. $n_0+n_2-1$ parameters are left of $n_0n_2$."""
    minors = {}
    for middle in (1, 2):
        network = Written((3, middle, 2))
        first, second = network.weights
        W = [
            [sum(second[i][k] * first[k][j] for k in range(middle)) for j in range(3)]
            for i in range(2)
        ]
        pairs = ((0, 1), (0, 2), (1, 2))
        minors[middle] = [W[0][a] * W[1][b] - W[0][b] * W[1][a] for a, b in pairs]
    return both(
        equal([each.as_expr() for each in minors[1]], [0] * 3, "minors, n_1 = 1"),
        equal([int(each == 0) for each in minors[2]], [0] * 3, "minors, n_1 = 2"),
    )


@claim("004", "§3.4 (one layer)", "infinitely wide networks are one layer")
def one_layer() -> Verdict:
    """As hidden widths go to infinity two, four and six points of several inputs after four layers
    are those of one layer whose weights have the variance $C_W^4$."""
    width = sympy.Symbol("n", positive=True)
    found, printed = [], []
    for points in ((1, 2), (1, 2, 3, 4), (1, 1, 2, 3), (1, 2, 3, 4, 5, 6)):
        deep = deep_linear.coefficient(points, [width] * 4, Gaussian(C_W))
        found.append(sympy.limit(deep, width, sympy.oo))
        printed.append(deep_linear.coefficient(points, [width], Gaussian(C_W**4)))
    return equal(found, printed, "four choices of inputs")
