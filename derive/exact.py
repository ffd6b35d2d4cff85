"""Finite width without truncation: what the 1/n expansion must reproduce, where it can be had.

* Polynomial activations at the first two layers: layer 1 is a sum over pairings of the inputs,
  layer 2 a finite polynomial in it, so joint cumulants are rational functions of n (`cumulant`).
* Scale-invariant activations with one input and no biases, at every layer: rotation invariance and
  homogeneity give, for the 2m-point coefficient G_{2m} (source 000, eq. 4.14),

      G_{2m}^{(ℓ+1)} = C_W^m Σ_q C(p,q) [Σ_{set partitions} n(n−1)… Π ⟨σ^{2|block|}⟩_1] G_{2m}^{(ℓ)}

  (`moment_factor`, `vertex`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, pairwise, product
from math import factorial

import sympy

from .activations import Activation, z
from .brackets import Component
from .errors import InputError
from .fields import Z
from .network import Network
from .pairings import (
    Partition,
    coset_type,
    double_factorial_pairings,
    ordered,
    pair_partitions,
    refining_pairings,
    set_partitions,
)
from .tensors import named
from .weights import WeightEnsemble
from .weingarten import class_size
from .zonal import partitions

n = sympy.Symbol("n", positive=True, integer=True)
"""The width of every layer, where it stays a symbol."""

MAX_POINTS = 12
"""Several inputs: products of more preactivations than this would need over (2k−1)!!² pairings."""

Labels = tuple[tuple[int, int], ...]


def row_sum(weights: WeightEnsemble, k: int, n_in: sympy.Expr, n_out: sympy.Expr) -> sympy.Expr:
    """Σ_q C(p,q)/C_W^k, the same for every p: 1/[n(n+2)…(n+2k−2)] for square Haar matrices."""
    return sympy.factor(
        sum(class_size(mu) * weights.coefficient(mu, n_in, n_out) for mu in partitions(k))
    )


def moment_factor(
    m: int, activation: Activation, weights: WeightEnsemble, width: sympy.Expr = n
) -> sympy.Expr:
    """G_{2m}^{(ℓ+1)}/(C_W^m G_{2m}^{(ℓ)}), scale-invariant with one input and no biases.

    Exact in the width. For the linear network: 1 with Haar weights (source 000, eq. 4.16),
    c_{2m}(n) with Gaussian ones (4.24). Raises InputError for an activation that is not
    scale-invariant.
    """
    if not activation.is_scale_invariant:
        raise InputError("activation", activation.name, "a scale-invariant one, such as relu")
    if not isinstance(m, int) or m < 1:
        raise InputError("m", m, "half the number of points, 1 or more")
    total = sum(
        sympy.ff(width, len(partition))
        * sympy.prod([activation.average((0,) * (2 * len(block)), 1) for block in partition])
        for partition in set_partitions(tuple(range(m)))
    )
    return sympy.factor(row_sum(weights, m, width, width) * sympy.expand_func(total))


def scale_invariant_moment(
    m: int, network: Network, layer: int, width: sympy.Expr = n, inputs: sympy.Expr | None = None
) -> sympy.Expr:
    """G_{2m}^{(ℓ)}/K0^m with K0 = |x|²/n_0, exact in the width.

    Arguments:
        inputs: n_0, equal to the width where it is left out.

    Raises InputError for biases, or an activation that is not scale-invariant.
    """
    if not isinstance(layer, int) or layer < 1:
        raise InputError("layer", layer, "a layer, 1 or more")
    if any(network.C_b_at(at) != 0 for at in range(1, layer + 1)):
        raise InputError("C_b", network.C_b, "0: biases break scale invariance")
    n_0 = width if inputs is None else sympy.sympify(inputs)
    first = network.weights_at(1)
    start = (first.C_W * n_0) ** m * row_sum(first, m, n_0, width)
    hidden = network.weights_at(2)
    factor = hidden.C_W**m * moment_factor(m, network.activation, hidden, width)
    return start * factor ** (layer - 1)


def vertex(
    network: Network, layer: int, width: sympy.Expr = n, inputs: sympy.Expr | None = None
) -> sympy.Expr:
    """V^{(ℓ)}/G_2² = width·(G_4/G_2² − 1) of a scale-invariant network, exact in the width.

    Its limit at large width is Ṽ of source 000, eqs. (3.9), (5.19).
    """
    four, two = (scale_invariant_moment(m, network, layer, width, inputs) for m in (2, 1))
    return width * (four / two**2 - 1)


def cumulant(
    name: str,
    network: Network,
    layer: int,
    samples: Sequence[int] | None = None,
    width: sympy.Expr = n,
    inputs: sympy.Expr | None = None,
) -> sympy.Expr:
    """n^{m−1} × the coefficient of δ_p(i) in a cumulant of preactivations, exact in the width.

    Arguments:
        name: a tensor of preactivations: "K" (the whole two-point function), "V", "U6".
        network: with a polynomial activation.
        layer: 1 or 2.
        samples: the subscripts; one input where they are left out.
        inputs: n_0, equal to the width where it is left out.

    Returns a rational function of the width in C_b, C_W and K0 = xᵀx/n_0: the symbol `K0`, or
    Component("K0", (a, b)) with several samples.
    """
    target = named(name)
    if any(field != Z for field in target.fields) or target.order:
        raise InputError("name", name, "a cumulant of preactivations: K, V or U6")
    if layer not in {1, 2}:
        raise InputError("layer", layer, "1 or 2, where polynomial networks are exactly known")
    if layer == 2 and not network.activation.is_polynomial:
        raise InputError("activation", network.activation.name, "a polynomial")
    labels = tuple(samples) if samples is not None else (1,) * len(target.subscripts)
    if len(labels) != len(target.subscripts):
        raise InputError("samples", samples, f"{len(target.subscripts)} sample labels")
    n_0 = width if inputs is None else sympy.sympify(inputs)
    moment = _Moment(network, layer, sympy.sympify(width), n_0, len(set(labels)) == 1)
    total = sympy.Integer(0)
    for partition in set_partitions(tuple(range(len(labels)))):
        sign = (-1) ** (len(partition) - 1) * factorial(len(partition) - 1)
        inside = [[pair for pair in target.pairing if set(pair) <= set(b)] for b in partition]
        if sum(map(len, inside)) == len(target.pairing):
            moments = [moment((labels[a], labels[b]) for a, b in pairs) for pairs in inside]
            total += sign * sympy.prod(moments)
    return sympy.factor(width ** (len(target.pairing) - 1) * total)


class _Moment:
    """T_p(α) of E[z … z] = Σ_p δ_p(i) T_p(α) at layer 1 or 2, from the labels of p's pairs."""

    def __init__(
        self, network: Network, layer: int, width: sympy.Expr, inputs: sympy.Expr, single: bool
    ) -> None:
        self.weights, self.C_b = network.weights_at(layer), network.C_b_at(layer)
        self.n_in, self.n_out = (inputs if layer == 1 else width), width
        self.activation, self.single = network.activation, single
        self.below = _Moment(network, 1, width, inputs, single) if layer == 2 else None
        self._known: dict[Labels, sympy.Expr] = {}

    def __call__(self, pairs: Iterable[tuple[int, int]]) -> sympy.Expr:
        """Each pair is a pair of biases, or belongs to the weights."""
        labels = tuple(sorted(ordered(a, b) for a, b in pairs))
        if labels not in self._known:
            total = sympy.Integer(0)
            for subset in product((True, False), repeat=len(labels)):
                weighed = tuple(compress(labels, subset))
                biases = self.C_b ** (len(labels) - len(weighed))
                if biases != 0:
                    total += biases * self._weights(weighed)
            self._known[labels] = sympy.factor(total)
        return self._known[labels]

    def _weights(self, labels: Labels) -> sympy.Expr:
        """C_W^k Σ_q C(p,q) Σ_j δ_q(j) E[Π_a σ_{j_a; α_a}]."""
        k = len(labels)
        if self.single:
            sums = row_sum(self.weights, k, self.n_in, self.n_out) * self._pairs(labels)
            return self.weights.C_W**k * sums
        points = [label for pair in labels for label in pair]
        p = tuple((2 * a, 2 * a + 1) for a in range(k))
        sums = Counter[tuple[Partition, Labels]]()
        for q in pair_partitions(2 * k):
            ends = tuple(sorted(ordered(points[a], points[b]) for a, b in q))
            sums[coset_type(p, q), ends] += 1
        total = sympy.Integer(0)
        for (coset, pairs), count in sums.items():
            spectrum = self.weights.coefficient(coset, self.n_in, self.n_out)
            if spectrum != 0:
                total += count * spectrum * self._pairs(pairs)
        return self.weights.C_W**k * total

    def _pairs(self, labels: Labels) -> sympy.Expr:
        """Σ_j over one neuron for each pair."""
        if self.below is None:
            return sympy.prod([self.n_in * self._input_kernel(a, b) for a, b in labels])
        total = sympy.Integer(0)
        for partition in set_partitions(labels):
            content = [[label for pair in block for label in pair] for block in partition]
            total += sympy.expand_func(sympy.ff(self.n_in, len(content))) * self._neurons(content)
        return total

    def _neurons(self, content: list[list[int]]) -> sympy.Expr:
        """E[Π_j Π_{α in content[j]} σ(z_{j;α})] over distinct neurons of the layer below."""
        coefficients = self.activation.pieces[0].expr.as_poly(z).all_coeffs()[::-1]
        degrees = [degree for degree, value in enumerate(coefficients) if value != 0]
        slots = [(j, label) for j, labels in enumerate(content) for label in labels]
        monomials: dict[tuple[tuple[int, ...], ...], sympy.Expr] = {}
        for powers in product(degrees, repeat=len(slots)):
            fields: list[list[int]] = [[] for _ in content]
            for (j, label), degree in zip(slots, powers, strict=True):
                fields[j].extend([label] * degree)
            key = tuple(sorted(tuple(sorted(labels)) for labels in fields))
            weight = sympy.prod([coefficients[degree] for degree in powers])
            monomials[key] = monomials.get(key, sympy.Integer(0)) + weight
        return sum(weight * self._monomial(key) for key, weight in monomials.items())

    def _monomial(self, content: tuple[tuple[int, ...], ...]) -> sympy.Expr:
        """E[Π_j Π_{α in content[j]} z_{j;α}] at layer 1."""
        assert self.below is not None
        if any(len(labels) % 2 for labels in content):
            return sympy.Integer(0)
        points = [label for labels in content for label in labels]
        if self.single:
            count = sympy.prod([double_factorial_pairings(len(labels)) for labels in content])
            return count * self.below([(1, 1)] * (len(points) // 2))
        if len(points) > MAX_POINTS:
            wanted = f"a degree that needs at most {MAX_POINTS} preactivations of several inputs"
            raise InputError("activation", self.activation.name, wanted)
        ends = [sum(map(len, content[:j])) for j in range(len(content) + 1)]
        blocks = [range(a, b) for a, b in pairwise(ends)]
        counts = Counter(
            tuple(sorted((points[a], points[b]) for a, b in pairing))
            for pairing in refining_pairings(blocks)
        )
        return sum(count * self.below(labels) for labels, count in counts.items())

    def _input_kernel(self, a: int, b: int) -> sympy.Expr:
        return sympy.Symbol("K0", positive=True) if self.single else Component("K0", (a, b))
