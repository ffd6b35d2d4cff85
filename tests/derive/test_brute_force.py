"""`derive.exact` against networks written out weight by weight, differentiated one by one.

The oracle shares nothing with the engine but `haar_moment`: no forward equation, no pairing of
neural indices, no 1/n. A network of a few neurons is a polynomial in each W_ij and b_i; the NTK and
its kin are sums over all parameters of derivatives of it (source 000, eqs. 6.1, 6.3, 6.11; the
ddNTKs of Roberts, Yaida and Hanin, ch. ∞); averages are taken monomial by monomial. All in rational
numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from math import factorial, prod

import pytest
import sympy
from flint import Ordering, fmpq, fmpq_mpoly, fmpq_mpoly_ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import (
    BiInvariant,
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Rademacher,
    Sparse,
    Truncated,
    Uniform,
    activations,
    exact,
    haar_moment,
)
from derive.groups.pairings import set_partitions
from derive.weights import IndependentEntries, WeightEnsemble

Entries = tuple[tuple[int, int], ...]
EDGES = {
    "z": (),
    "H": ((0, 1),),
    "dH": ((0, 1), (0, 2)),
    "ddI": ((0, 1), (0, 2), (0, 3)),
    "ddII": ((0, 1), (0, 2), (1, 3)),
}
"""Which two preactivations each pair of derivatives by the parameters acts on."""


def rational(value: object) -> Fraction:
    return Fraction(str(sympy.nsimplify(value)))


def gaussian_entries(entries: Entries, variance: Fraction) -> Fraction:
    powers = Counter(entries).values()
    if any(power % 2 for power in powers):
        return Fraction(0)
    wick = prod(factorial(p) // (2 ** (p // 2) * factorial(p // 2)) for p in powers)
    return wick * variance ** (len(entries) // 2)


def haar_entries(rows: Sequence[int], cols: Sequence[int], size: int) -> Fraction:
    return haar_sorted(tuple(sorted(zip(rows, cols, strict=True))), size)


@cache
def haar_sorted(entries: Entries, size: int) -> Fraction:
    return rational(haar_moment([i + 1 for i, _ in entries], [j + 1 for _, j in entries], size))


def entries_moment(weights: WeightEnsemble, entries: Entries, n_in: int, n_out: int) -> Fraction:
    """E[Π W_ij] from what each ensemble is made of."""
    C_W, half = rational(weights.C_W), len(entries) // 2
    rows, cols = [i for i, _ in entries], [j for _, j in entries]
    if len(entries) % 2:
        return Fraction(0)
    if isinstance(weights, Gaussian):
        return gaussian_entries(entries, C_W / n_in)
    if isinstance(weights, IndependentEntries):
        moments = (rational(weights.standard_moment(m)) for m in Counter(entries).values())
        return prod(moments, start=(C_W / n_in) ** half)
    if isinstance(weights, Orthogonal | Truncated):
        ratio = rational(getattr(weights, "ratio", 1))
        size = ratio * max(n_in, n_out)
        return (C_W * size / n_in) ** half * haar_entries(rows, cols, int(size))
    if isinstance(weights, LowRankGaussian | LowRankOrthogonal):
        gamma = rational(weights.gamma)
        total = Fraction(0)
        for inner in product(range(int(gamma * n_out)), repeat=len(entries)):
            frame = haar_entries(rows, inner, n_out)
            if frame and isinstance(weights, LowRankGaussian):
                pairs = tuple(zip(inner, cols, strict=True))
                total += frame * gaussian_entries(pairs, C_W / (gamma * n_in))
            elif frame:
                total += frame * (C_W / gamma) ** half * haar_entries(cols, inner, n_in)
        return total
    assert isinstance(weights, BiInvariant)
    assert n_in == n_out == len(SINGULAR_VALUES)
    scale = C_W * n_in / sum(s**2 for s in SINGULAR_VALUES)
    total = Fraction(0)
    for inner in product(range(n_in), repeat=len(entries)):
        left = haar_entries(rows, inner, n_out)
        if left:
            right = haar_entries(inner, cols, n_in)
            total += left * right * prod(SINGULAR_VALUES[a] for a in inner)
    return scale**half * total


SINGULAR_VALUES = (Fraction(1), Fraction(3))
BI_INVARIANT = BiInvariant(
    sympy.Rational(3, 2),
    moments=tuple(sympy.Rational(1 + 9**j, 2) for j in range(1, 9)),
)
"""The trace moments of these singular values, at width 2."""


@dataclass(frozen=True)
class Explicit:
    """A network of given widths (n_0, n_1, …) on given inputs, as polynomials in its parameters."""

    network: Network
    widths: tuple[int, ...]
    inputs: tuple[tuple[Fraction, ...], ...]

    @property
    def depth(self) -> int:
        return len(self.widths) - 1

    @cached_property
    def parameters(self) -> list[tuple[int, int, int | None]]:
        """(layer, i, j) for W_ij and (layer, i, None) for b_i."""
        return [
            (layer, i, j)
            for layer in range(1, self.depth + 1)
            for i in range(self.widths[layer])
            for j in (*range(self.widths[layer - 1]), None)
        ]

    @cached_property
    def ring(self) -> fmpq_mpoly_ctx:
        names = [f"t{k}" for k in range(len(self.parameters))]
        return fmpq_mpoly_ctx.get(names, Ordering.lex)

    @cached_property
    def rates(self) -> list[fmpq]:
        """λ_b^{(ℓ)} and λ_W^{(ℓ)}/n_{ℓ−1}."""
        values = [
            rational(self.network.lambda_b_at(layer))
            if j is None
            else rational(self.network.lambda_W_at(layer)) / self.widths[layer - 1]
            for layer, _, j in self.parameters
        ]
        return [fmpq(value.numerator, value.denominator) for value in values]

    @cached_property
    def preactivations(self) -> dict[tuple[int, int], fmpq_mpoly]:
        """z_{i;α} of the last layer."""
        variable = dict(zip(self.parameters, self.ring.gens(), strict=True))
        coefficients = [
            fmpq(int(c.p), int(c.q))
            for c in sympy.Poly(self.network.activation.expr, activations.z).all_coeffs()
        ]
        found = {}
        for alpha, x in enumerate(self.inputs):
            signal = [self.ring.constant(fmpq(v.numerator, v.denominator)) for v in x]
            for layer in range(1, self.depth + 1):
                if layer > 1:
                    signal = [self.horner(coefficients, value) for value in signal]
                signal = [
                    variable[layer, i, None]
                    + sum(variable[layer, i, j] * value for j, value in enumerate(signal))
                    for i in range(self.widths[layer])
                ]
            found |= {(i, alpha): value for i, value in enumerate(signal)}
        return found

    def horner(self, coefficients: list[fmpq], value: fmpq_mpoly) -> fmpq_mpoly:
        total = self.ring.constant(0)
        for coefficient in coefficients:
            total = total * value + coefficient
        return total

    @cached_property
    def known_derivatives(self) -> dict[tuple[int, int, tuple[int, ...]], fmpq_mpoly]:
        return {}

    def derivative(self, i: int, alpha: int, by: tuple[int, ...]) -> fmpq_mpoly:
        """∂_{θ_μ} ∂_{θ_ν} … z_{i;α}, with biases of variance 0 put to 0 at the end."""
        key = (i, alpha, tuple(sorted(by)))
        if key not in self.known_derivatives:
            value = self.preactivations[i, alpha]
            for mu in by:
                value = value.derivative(mu)
            at_zero = {
                f"t{mu}": 0
                for mu, (layer, _, j) in enumerate(self.parameters)
                if j is None and self.network.C_b_at(layer) == 0
            }
            self.known_derivatives[key] = value.subs(at_zero)
        return self.known_derivatives[key]

    def field(self, name: str, neurons: Sequence[int], samples: Sequence[int]) -> fmpq_mpoly:
        """Σ over one parameter for each edge of Π λ Π_nodes ∂ … ∂ z."""
        edges, total = EDGES[name], self.ring.constant(0)
        for chosen in product(range(len(self.parameters)), repeat=len(edges)):
            summand = self.ring.constant(prod((self.rates[mu] for mu in chosen), start=fmpq(1)))
            for node, (i, alpha) in enumerate(zip(neurons, samples, strict=True)):
                by = tuple(mu for mu, edge in zip(chosen, edges, strict=True) if node in edge)
                factor = self.derivative(i, alpha, by)
                if not factor:
                    break
                summand *= factor
            else:
                total += summand
        return total

    def average(self, polynomial: fmpq_mpoly) -> Fraction:
        """E, monomial by monomial, over the last layer first."""
        totals: dict[tuple[int, ...], Fraction] = {
            powers: Fraction(int(c.p), int(c.q)) for powers, c in polynomial.to_dict().items()
        }
        for layer in range(self.depth, 0, -1):
            count = sum(at == layer for at, _, _ in self.parameters)
            averaged: dict[tuple[int, ...], Fraction] = {}
            for powers, value in totals.items():
                rest, own = powers[:-count], powers[-count:]
                if (layer, own) not in self.known_moments:
                    self.known_moments[layer, own] = self.layer_moment(layer, own)
                moment = self.known_moments[layer, own]
                if moment:
                    averaged[rest] = averaged.get(rest, Fraction(0)) + moment * value
            totals = averaged
        return totals.get((), Fraction(0))

    @cached_property
    def known_moments(self) -> dict[tuple[int, tuple[int, ...]], Fraction]:
        return {}

    def layer_moment(self, layer: int, powers: tuple[int, ...]) -> Fraction:
        """E[Π W Π b] of one layer."""
        entries: list[tuple[int, int]] = []
        biases: list[tuple[int, int]] = []
        own = [(i, j) for at, i, j in self.parameters if at == layer]
        for (i, j), power in zip(own, powers, strict=True):
            if j is None:
                biases += [(i, 0)] * power
            else:
                entries += [(i, j)] * power
        C_b = rational(self.network.C_b_at(layer))
        bias = gaussian_entries(tuple(biases), C_b)
        if not bias:
            return bias
        weights, n_in, n_out = self.network.weights_at(layer), *self.widths[layer - 1 : layer + 1]
        return bias * entries_moment(weights, tuple(entries), n_in, n_out)

    def cumulant(
        self, fields: Sequence[str], neurons: Sequence[int], samples: Sequence[int]
    ) -> Fraction:
        """κ(φ_1, φ_2, …) at these neural indices."""
        polynomials = []
        for part in parts(fields):
            places = neurons[part.start : part.stop], samples[part.start : part.stop]
            polynomials.append(self.field(fields[part.number], *places))
        total = Fraction(0)
        for partition in set_partitions(tuple(range(len(fields)))):
            sign = (-1) ** (len(partition) - 1) * factorial(len(partition) - 1)
            averages = []
            for block in partition:
                whole = prod((polynomials[f] for f in block), start=self.ring.constant(1))
                averages.append(self.average(whole))
            total += sign * prod(averages)
        return total

    @property
    def kernel(self) -> dict[tuple[int, int], sympy.Rational]:
        """K0_{αβ} = x_α·x_β/n_0."""
        return {
            (a, b): sympy.Rational(str(sum(u * v for u, v in zip(x, y, strict=True))))
            / self.widths[0]
            for a, x in enumerate(self.inputs)
            for b, y in enumerate(self.inputs)
        }


@dataclass(frozen=True)
class Part:
    number: int
    start: int
    stop: int


def parts(fields: Sequence[str]) -> Iterator[Part]:
    start = 0
    for number, field in enumerate(fields):
        stop = start + len(EDGES[field]) + 1
        yield Part(number, start, stop)
        start = stop


def check(
    network: Network,
    widths: tuple[int, ...],
    inputs: Sequence[Sequence[int]],
    fields: Sequence[str],
    neurons: Sequence[int],
    samples: Sequence[int],
) -> None:
    """Both roads give the same rational number."""
    explicit = Explicit(network, widths, tuple(tuple(map(Fraction, x)) for x in inputs))
    expected = explicit.cumulant(fields, neurons, samples)
    got = exact.component(
        fields,
        neurons,
        replace(network, width_ratio=lambda layer: widths[layer]),
        len(widths) - 1,
        samples,
        width=1,
        inputs=widths[0],
        kernel=explicit.kernel,
    )
    assert got == sympy.Rational(expected.numerator, expected.denominator)


half = sympy.Rational(1, 2)
SQUARE = {
    "gaussian": Gaussian(2),
    "orthogonal": Orthogonal(2),
    "low-rank gaussian": LowRankGaussian(2, gamma=half),
    "low-rank orthogonal": LowRankOrthogonal(half, gamma=half),
    "truncated": Truncated(half, ratio=2),
    "bi-invariant": BI_INVARIANT,
}
TWO_INPUTS = ((1, 2), (-1, 1))
COMPONENTS = {
    "H": (["H"], (0, 0), (0, 1)),
    "z z H": (["z", "z", "H"], (0, 1, 0, 1), (0, 0, 0, 1)),
    "H H": (["H", "H"], (0, 1, 0, 1), (0, 0, 1, 1)),
    "dH z": (["dH", "z"], (0, 0, 1, 1), (0, 0, 0, 1)),
    "z dH": (["z", "dH"], (0, 0, 1, 1), (0, 0, 0, 1)),
    "ddI": (["ddI"], (0, 1, 1, 0), (0, 1, 0, 1)),
    "ddII": (["ddII"], (0, 1, 1, 0), (0, 1, 0, 1)),
    "ddII at one neuron": (["ddII"], (1, 1, 1, 1), (0, 1, 1, 0)),
}


def network(weights: WeightEnsemble, coefficients: Sequence[object], **changes: object) -> Network:
    rates = {
        "C_b": half,
        "lambda_b": lambda layer: sympy.Rational(1, layer),
        "lambda_W": lambda layer: 2 * layer + 1,
    }
    return Network(activations.polynomial(coefficients), weights, **(rates | changes))


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_two_neurons(weights, component):
    check(network(SQUARE[weights], [1, 2, half]), (2, 2, 2), TWO_INPUTS, *COMPONENTS[component])


@pytest.mark.parametrize("component", ["H H", "ddII"])
@pytest.mark.parametrize("weights", sorted(set(SQUARE) - {"gaussian", "orthogonal"}))
def test_two_neurons_of_any_ensemble(weights, component):
    check(network(SQUARE[weights], [0, 2, half]), (2, 2, 2), TWO_INPUTS, *COMPONENTS[component])


@pytest.mark.parametrize(
    ("weights", "first", "widths"),
    [
        (Gaussian(2), Orthogonal(half), (1, 3, 2)),
        (Orthogonal(2), Gaussian(half), (2, 3, 2)),
        (Orthogonal(2), None, (3, 2, 3)),
        (LowRankGaussian(1, gamma=half), Gaussian(2), (1, 3, 2)),
        (Truncated(1, ratio=2), None, (2, 2, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "fields",
    [["z", "z"], ["H"], ["ddI"], pytest.param(["H", "H"], marks=pytest.mark.slow)],
    ids=str,
)
def test_unequal_widths_and_mixed_layers(weights, first, widths, fields):
    inputs = [(1, 2, -1)[: widths[0]], (2, -1, 1)[: widths[0]]]
    net = network(weights, [0, 1, 2], first_weights=first)
    nodes = sum(part.stop - part.start for part in parts(fields))
    check(net, widths, inputs, fields, (0,) * nodes, (0, 1, 0, 1)[:nodes])


@pytest.mark.parametrize("first", [Gaussian(half), Orthogonal(half)], ids=str)
@pytest.mark.parametrize("weights", [Uniform(2), Rademacher(half), Sparse(half, C_W=2)], ids=str)
@pytest.mark.parametrize(
    ("fields", "neurons"),
    [
        (["z"] * 4, (0, 0, 0, 0)),
        (["z"] * 4, (0, 1, 0, 1)),
        (["z", "z", "H"], (0, 0, 0, 0)),
        (["H"], (1, 1)),
    ],
    ids=str,
)
def test_independent_entries(weights, first, fields, neurons):
    """Of one neuron four times the fourth cumulant counts; so it does in what is summed below."""
    net = network(weights, [half, 1, 1], first_weights=first)
    samples = (0, 1, 0, 1)[: len(neurons)]
    check(net, (1, 2, 2), [(1,), (-2,)], fields, neurons, samples)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [["z"] * 2, ["H"]], ids=str)
def test_independent_entries_of_two_layers(fields):
    net = network(Uniform(2), [0, 1, half], first_weights=Gaussian(half))
    check(net, (1, 2, 2, 1), [(1,), (2,)], fields, (0, 0), (0, 1))


@settings(max_examples=12, deadline=None)
@given(
    weights=st.sampled_from(["gaussian", "orthogonal"]),
    coefficients=st.lists(
        st.fractions(min_value=-2, max_value=2, max_denominator=3), min_size=2, max_size=3
    ),
    fields=st.sampled_from([["z", "z"], ["H"], ["H", "H"], ["dH", "z"], ["ddI"], ["ddII"]]),
    data=st.data(),
)
def test_any_polynomial_and_any_indices(weights, coefficients, fields, data):
    nodes = sum(len(EDGES[field]) + 1 for field in fields)
    index = st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes)
    rate = st.sampled_from([0, 1, half])
    net = network(
        SQUARE[weights],
        coefficients,
        C_b=data.draw(rate),
        lambda_b=data.draw(rate),
        lambda_W=data.draw(rate),
    )
    check(net, (2, 2, 2), TWO_INPUTS, fields, data.draw(index), data.draw(index))


FOUR_Z = (["z"] * 4, (0, 0, 1, 1), (0, 1, 0, 0))
ONE_H = (["z", "z", "H"], (0, 0, 1, 1), (0, 1, 0, 1))
TWO_H = (["z", "z", "H", "H"], (0, 1, 0, 1, 0, 0), (0, 0, 0, 0, 0, 0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "fields", "neurons", "samples"),
    [
        ("orthogonal", *FOUR_Z),
        ("truncated", *FOUR_Z),
        ("gaussian", *ONE_H),
        ("low-rank gaussian", *ONE_H),
    ],
    ids=str,
)
def test_more_fields(weights, fields, neurons, samples):
    check(network(SQUARE[weights], [1, 1, 2]), (2, 2, 2), TWO_INPUTS, fields, neurons, samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weights", "component"),
    [(Gaussian(2), "H"), (Orthogonal(2), "dH z"), (Gaussian(2), "ddI"), (Orthogonal(2), "ddII")],
    ids=str,
)
def test_three_neurons(weights, component):
    inputs = ((1, 2, 0), (-1, 1, 1))
    check(network(weights, [0, 1, 2]), (3, 3, 3), inputs, *COMPONENTS[component])


@pytest.mark.parametrize("weights", [Gaussian(2), Orthogonal(2)], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        ["z", "z"],
        ["H"],
        ["dH", "z"],
    ],
    ids=str,
)
def test_three_layers(weights, fields):
    """Through layers whose own NTK fluctuates; one input, one output."""
    check_three_layers(weights, fields)


@pytest.mark.slow
def test_second_changes_through_three_layers():
    check_three_layers(Orthogonal(2), ["ddII"])


def check_three_layers(weights, fields):
    nodes = sum(len(EDGES[field]) + 1 for field in fields)
    net = network(weights, [0, 1, 1], C_b=0)
    check(net, (1, 2, 2, 1), ((1,),), fields, (0,) * nodes, (0,) * nodes)


def test_the_oracle_knows_the_ntk():
    """σ = z, x = 1, a chain of single neurons: H = 1 + W_1² + 2 W_2² at unit rates, by hand."""
    net = network(Gaussian(1), [0, 1], C_b=0, lambda_b=1, lambda_W=1)
    explicit = Explicit(net, (1, 1, 1), ((Fraction(1),),))
    w1, _, w2, _ = explicit.ring.gens()
    assert explicit.field("H", (0, 0), (0, 0)) == 1 + w1**2 + 2 * w2**2
    assert explicit.average(w1**4 * w2**2) == 3


def test_an_index_that_is_not_there():
    net = network(Gaussian(1), [0, 1])
    with pytest.raises(InputError, match="neurons"):
        exact.component(["z", "z", "z"], (0, 1, 2), net, 1, width=2)
    with pytest.raises(InputError, match="neurons"):
        exact.component(["H"], (0,), net, 1)
    with pytest.raises(InputError, match="fields"):
        exact.component(["h"], (0,), net, 1)
