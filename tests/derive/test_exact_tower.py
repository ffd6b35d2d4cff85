"""Every recursion of the engine, run from the inputs, against the exact finite width.

For a polynomial activation the coefficients of 1/n are rational numbers on both roads, and they are
equal: no tolerance anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import prod

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import (
    BiInvariant,
    Equation,
    Gaussian,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    activations,
    exact,
    recursion,
)
from derive.arithmetic import Parameter
from derive.engine import NAMES, Tensor, tensor
from derive.exact import cumulants
from derive.gaussian import Bracket
from derive.groups import Pairing, ordered

Kernel = dict[tuple[int, int], Fraction]


@pytest.fixture(scope="module", autouse=True)
def shared():
    """Moments of the layers below are those of the last test, where the network is."""
    last = {}

    def moments(network, layer, labels, width, inputs, kernel):
        given = tuple(kernel.items()) if kernel else len(set(labels)) == 1
        key = network, layer, width, inputs, given
        if key not in last:
            last.clear()
            last[key] = make(network, layer, labels, width, inputs, kernel)
        return last[key]

    make = cumulants._moments
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cumulants, "_moments", moments)
        yield


@dataclass
class Engine:
    """The values of tensors at a layer, by the engine's recursions alone."""

    network: Network
    kernel: Kernel
    inputs_ratio: Fraction = Fraction(1)
    square: bool = True
    known: dict[tuple[Tensor, int], Fraction] = field(default_factory=dict)
    brackets: dict[tuple[Bracket, int], Fraction] = field(default_factory=dict)

    def value(self, atom: Tensor, layer: int) -> Fraction:
        if layer == 0:
            return self.kernel[ordered(*atom.samples)]
        if (atom, layer) not in self.known:
            made = recursion(
                list(atom.fields),
                self.network.weights_at(layer),
                pairing=atom.pairing,
                order=atom.order,
                first_layer=layer == 1,
                equal_widths=self.square,
            )
            made = replace(made, samples=tuple(atom.samples[s] for s in made.target.subscripts))
            self.known[atom, layer] = sum(
                (
                    number * prod(self.atom(each, layer) ** exponent for each, exponent in mono)
                    for (mono, _), number in made.terms.items()
                ),
                start=Fraction(0),
            )
        return self.known[atom, layer]

    def atom(self, atom: object, layer: int) -> Fraction:
        if isinstance(atom, Parameter):
            return self.parameter(atom.name, layer)
        if isinstance(atom, Bracket):
            if (atom, layer - 1) not in self.brackets:
                self.brackets[atom, layer - 1] = self.bracket(atom, layer - 1)
            return self.brackets[atom, layer - 1]
        assert isinstance(atom, Tensor)
        return self.value(atom, layer - 1)

    def ratio(self, layer: int) -> Fraction:
        return fraction(self.network.width_ratio_at(layer)) if layer else self.inputs_ratio

    def parameter(self, name: str, layer: int) -> Fraction:
        r_in, r_out = self.ratio(layer - 1), self.ratio(layer)
        values = {
            "C_W": self.network.weights_at(layer).C_W,
            "C_b": self.network.C_b_at(layer),
            "lambda_W": self.network.lambda_W_at(layer),
            "lambda_b": self.network.lambda_b_at(layer),
            "r_in": r_in,
            "r_out": r_out,
            "r_big": max(r_in, r_out),
        }
        return fraction(values[name])

    def bracket(self, bracket: Bracket, layer: int) -> Fraction:
        """⟨∂ … ∂ Π σ^{(order)}⟩ at this layer's kernel, by Wick's theorem."""
        z = activations.z
        polynomial = {(): Fraction(1)}
        for sample in {sample for sample, _ in bracket.factors}:
            orders = [order for other, order in bracket.factors if other == sample]
            expr = sympy.prod([self.network.activation.expr.diff(z, order) for order in orders])
            expr = sympy.diff(expr, z, bracket.outer.count(sample))
            terms = sympy.Poly(expr, z).terms()
            polynomial = {
                (*labels, *([sample] * degree)): value * fraction(coefficient)
                for labels, value in polynomial.items()
                for (degree,), coefficient in terms
            }
        return sum(
            (value * self.wick(labels, layer) for labels, value in polynomial.items()),
            start=Fraction(0),
        )

    def wick(self, labels: tuple[int, ...], layer: int) -> Fraction:
        if not labels:
            return Fraction(1)
        if len(labels) % 2:
            return Fraction(0)
        first, rest = labels[0], labels[1:]
        total = Fraction(0)
        for partner, count in Counter(rest).items():
            at = rest.index(partner)
            metric = self.value(tensor(*METRIC, (first, partner)), layer)
            total += count * metric * self.wick(rest[:at] + rest[at + 1 :], layer)
        return total


METRIC = NAMES["K"].fields, 0, NAMES["K"].pairing


def fraction(value: object) -> Fraction:
    return Fraction(str(value))


def kernel_of(inputs: dict[int, tuple[int, ...]]) -> Kernel:
    """x_α·x_β/2 for inputs of any length: at large n only their products count."""
    return {
        (a, b): Fraction(sum(u * v for u, v in zip(x, y, strict=True)), 2)
        for a, x in inputs.items()
        for b, y in inputs.items()
        if a <= b
    }


INPUTS = {1: (1, 2, 0), 2: (-1, 1, 1), 3: (2, 0, 1), 4: (0, 1, -2), 5: (1, 1, 1), 6: (0, 2, 1)}


def check(
    network: Network,
    layer: int,
    fields: list[object],
    pairing: Pairing,
    samples: tuple[int, ...],
    order: int = 0,
    **unequal: Fraction,
) -> None:
    """The orders 0 … `order` of n^{m−1} κ, exactly."""
    kernel = kernel_of(INPUTS)
    ratio = unequal.get("inputs_ratio", Fraction(1))
    engine = Engine(network, kernel, ratio, square=not unequal)
    target = recursion(fields, pairing=pairing).target
    slots = dict(zip(target.subscripts, samples, strict=True))
    labels = tuple(slots[slot] for slot in range(len(slots)))
    got = exact.series(
        fields,
        network,
        layer,
        order,
        samples,
        pairing=pairing,
        inputs_ratio=sympy.Rational(str(ratio)),
        kernel={pair: sympy.Rational(str(value)) for pair, value in kernel.items()},
    )
    expected = [
        engine.value(tensor(target.fields, g, target.pairing, labels), layer)
        for g in range(order + 1)
    ]
    assert [fraction(value) for value in got] == expected


def layer_rate(layer: int) -> sympy.Rational:
    return sympy.Rational(1, layer)


half = sympy.Rational(1, 2)
ENSEMBLES = {
    "gaussian": (Gaussian(2), None),
    "orthogonal": (Orthogonal(3 * half), None),
    "mixed": (Orthogonal(2), Gaussian(half)),
    "low-rank gaussian": (LowRankGaussian(2, gamma=half / 2), None),
    "low-rank orthogonal": (LowRankOrthogonal(2, gamma=2 * half / 3), None),
    "truncated": (Truncated(2, ratio=3), Orthogonal(half)),
    "bi-invariant": (BiInvariant(2, moments=(1, 3, 10, 36, 136, 528, 2080, 8256)), None),
}
PATTERNS = {2: (1, 2), 4: (1, 2, 2, 1), 6: (1, 2, 1, 1, 2, 1)}


def build(key: str, coefficients: list[object], **changes: object) -> Network:
    weights, first = ENSEMBLES[key]
    rates = {"C_b": half, "lambda_b": layer_rate, "lambda_W": lambda layer: 2 * layer + 1}
    return Network(activations.polynomial(coefficients), weights, first, **(rates | changes))


LEADING = [key for key, name in NAMES.items() if not name.order and key != "U6"]


def check_name(
    network: Network, layer: int, key: str, samples: tuple[int, ...], order: int
) -> None:
    name = NAMES[key]
    check(network, layer, [str(field) for field in name.fields], name.pairing, samples, order)


@pytest.mark.parametrize("key", LEADING)
@pytest.mark.parametrize("ensemble", ["orthogonal", "mixed"])
def test_second_layer(ensemble, key):
    """K, G1; V, V2; Theta, Theta1; … of two inputs, with biases and rates of each layer."""
    samples = PATTERNS[2 * len(NAMES[key].pairing)]
    check_name(build(ensemble, [1, 2, half]), 2, key, samples, 1)


@pytest.mark.slow
@pytest.mark.parametrize("key", LEADING[::2])
@pytest.mark.parametrize("ensemble", sorted(set(ENSEMBLES) - {"orthogonal", "mixed", "gaussian"}))
def test_second_layer_of_any_ensemble(ensemble, key):
    samples = PATTERNS[2 * len(NAMES[key].pairing)]
    check_name(build(ensemble, [1, 2, half]), 2, key, samples, 1)


@pytest.mark.parametrize("key", ["K", "Theta"])
@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_two_point_functions_to_the_second_order(ensemble, key):
    """G1, G2 and Theta1, Theta2."""
    check_name(build(ensemble, [1, 2, half]), 2, key, (1, 2), 2)


@settings(max_examples=15, deadline=None)
@given(
    key=st.sampled_from(LEADING),
    ensemble=st.sampled_from(sorted(ENSEMBLES)),
    coefficients=st.lists(
        st.fractions(min_value=-2, max_value=2, max_denominator=3), min_size=2, max_size=3
    ),
    rates=st.tuples(*[st.sampled_from([0, 1, half])] * 3),
    data=st.data(),
)
def test_any_polynomial_any_samples(key, ensemble, coefficients, rates, data):
    C_b, lambda_b, lambda_W = rates
    network = build(ensemble, coefficients, C_b=C_b, lambda_b=lambda_b, lambda_W=lambda_W)
    slots = 2 * len(NAMES[key].pairing)
    samples = data.draw(st.lists(st.integers(1, 4), min_size=slots, max_size=slots))
    check_name(network, 2, key, tuple(samples), 0)


@pytest.mark.parametrize(
    ("ensemble", "key"),
    [*product(["gaussian", "orthogonal"], ["K", "V", "Theta"]), *product(["gaussian"], "DFAB")],
)
def test_third_layer(ensemble, key):
    """Where V, D, F, A, B, … of the layer below are not 0 themselves."""
    samples = (1,) * (2 * len(NAMES[key].pairing))
    order = 1 if key in {"K", "Theta"} else 0
    check_name(build(ensemble, [0, 1, half], C_b=0), 3, key, samples, order)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ensemble", "key"),
    [
        *product(["orthogonal"], sorted(set(LEADING) - set("ARST"))),  # the longest
        *product(["gaussian"], "DFAB"),
        ("mixed", "D"),
    ],
)
def test_tower_of_the_third_layer(ensemble, key):
    samples = (1,) * (2 * len(NAMES[key].pairing))
    order = 1 if key in {"K", "Theta"} else 0
    check_name(build(ensemble, [0, 1, half]), 3, key, samples, order)


MIXED = [
    (["z", "z", "z", "z", "H"], ((0, 1), (2, 3), (4, 5))),
    (["z", "z", "z", "z", "H"], ((0, 1), (2, 4), (3, 5))),
    (["H", "z", "z", "H"], ((0, 2), (1, 4), (3, 5))),
    (["z", "dH", "H"], ((0, 1), (2, 4), (3, 5))),
    (["ddII", "z", "z"], ((0, 4), (1, 2), (3, 5))),
]


@pytest.mark.parametrize("ensemble", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(("fields", "pairing"), MIXED, ids=str)
def test_tensors_without_a_name(fields, pairing, ensemble):
    check(build(ensemble, [0, 1, 2]), 2, fields, pairing, PATTERNS[6])


@pytest.mark.parametrize("ensemble", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("layer", [2, 3])
def test_a_field_by_its_equation(layer, ensemble):
    """The Jacobian's J Jᵀ: its fluctuations, and how they go with those of z and H."""
    jacobian = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
    network = build(ensemble, [0, 1, half], C_b=0)
    for fields, pairing in (
        ([jacobian], ((0, 1),)),
        ([jacobian, "z", "z"], ((0, 1), (2, 3))),
        (["H", jacobian], ((0, 2), (1, 3))),
    )[: 1 if layer == 3 else 3]:
        check(network, layer, fields, pairing, (1,) * (2 * len(pairing)), 1)


@pytest.mark.parametrize("ensemble", ["gaussian", "orthogonal"])
def test_six_points(ensemble):
    name = NAMES["U6"]
    check_name(build(ensemble, [0, 1, half], C_b=0), 2, "U6", (1,) * 6, 0)
    check(build(ensemble, [0, 1]), 2, ["z"] * 6, name.pairing, PATTERNS[6], 0)


@pytest.mark.parametrize("key", ["V", "Theta", "A", "Q", "T"])
@pytest.mark.parametrize("ensemble", ["gaussian", "orthogonal", "low-rank gaussian"])
def test_unequal_widths(ensemble, key):
    name = NAMES[key]
    network = build(ensemble, [0, 1, half], width_ratio=lambda layer: sympy.Rational(3, layer + 1))
    fields = [str(field) for field in name.fields]
    samples = PATTERNS[2 * len(name.pairing)]
    check(network, 2, fields, name.pairing, samples, inputs_ratio=Fraction(5, 2))


def test_the_expected_side_is_not_empty():
    engine = Engine(build("orthogonal", [1, 2, half]), kernel_of(INPUTS))
    for key in LEADING:
        name = NAMES[key]
        samples = PATTERNS[2 * len(name.pairing)]
        assert engine.value(tensor(name.fields, 0, name.pairing, samples), 2) != 0
