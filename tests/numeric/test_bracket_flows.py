"""Brackets at work in flows: exactness down many layers, several inputs, kinks."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
import sympy
from flint import arb, ctx, fmpq

from derive import Gaussian, Network, Orthogonal, activations, recursion
from derive.activations import z
from derive.arithmetic import Parameter
from derive.engine import NAMES, Tensor, spell
from derive.errors import InputError
from derive.gaussian import Bracket
from numeric import flow

FIRST = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
WITH_KINKS = FIRST[:11]
RNG = np.random.default_rng(3)
X = RNG.uniform(size=(4, 40))


class Lines:
    """A recursion's right-hand side, to be evaluated often: its atoms, and products of these."""

    def __init__(self, terms, number):
        self.atoms = list(dict.fromkeys(atom for mono, _ in terms for atom, _ in mono))
        place = {atom: k for k, atom in enumerate(self.atoms)}
        self.products = [
            (number(coefficient), [(place[atom], exponent) for atom, exponent in mono])
            for (mono, _), coefficient in terms.items()
        ]

    def __call__(self, value):
        """The sum, each atom by `value`."""
        values = [value(atom) for atom in self.atoms]
        total = 0
        for coefficient, mono in self.products:
            total = total + coefficient * math.prod(values[k] ** exponent for k, exponent in mono)
        return total


def precise(activation, weights, K0, depth, digits=30):
    """All tensors of one input in flint's numbers: brackets by a trapezoid rule, for tanh.

    Its error is e^{−2π a/h + a²/2} for any a up to 2π/h within the strip where tanh √K x has no
    pole, a < π/(2√K); h is the largest power of ½ where that is below 10^{−digits − 15}, for poles
    of high order cost some digits.
    """
    steps = {name: Lines(recursion(name, weights).single_input().terms, exact) for name in FIRST}
    brackets = sorted({b for each in steps.values() for b in each.atoms if isinstance(b, Bracket)})
    integrands = [
        sympy.diff(
            sympy.prod([activation.derivative(order) for _, order in each.factors]),
            z,
            len(each.outer),
        )
        for each in brackets
    ]
    t = sympy.Symbol("t")
    in_t = [sympy.horner(sympy.expand(f.xreplace({activation.expr: t})), t) for f in integrands]
    polynomials = sympy.lambdify(t, in_t, "math", cse=True)
    parameters = {"C_W": exact(sympy.Rational(weights.C_W)), "C_b": arb(0)}
    lost = (digits + 15) * math.log(10)
    rules = {}

    def rule(K):
        """Nodes and masses; what is left out beyond 13 is below 10⁻³⁶."""
        h = 0.5
        while strip_error(min(2 * math.pi / h, math.pi / (2 * math.sqrt(K))), h) > -lost:
            h /= 2
        if h not in rules:
            nodes = [arb(k) * h for k in range(int(13 / h) + 1)]
            density = [(-(x**2) / 2).exp() * h / (2 * arb.pi()).sqrt() for x in nodes]
            rules[h] = nodes, [m * 2 if k else m for k, m in enumerate(density)]
        return rules[h]

    def averages(K):
        nodes, masses = rule(float(K))
        totals = [arb(0)] * len(brackets)
        for x, mass in zip(nodes, masses, strict=True):
            column = polynomials((K.sqrt() * x).tanh())
            totals = [total + mass * f for total, f in zip(totals, column, strict=True)]
        return dict(zip(brackets, totals, strict=True))

    def at(atom, tensors, found):
        if isinstance(atom, Parameter):
            return parameters.get(atom.name, arb(1))
        return found[atom] if isinstance(atom, Bracket) else tensors[spell(atom)[0]]

    with ctx.workdps(digits + 5):
        rows = [{}]
        for name in FIRST:
            first = recursion(name, weights, first_layer=True, equal_widths=False).single_input()
            value = Lines(first.terms, exact)(
                lambda atom: arb(K0) if isinstance(atom, Tensor) else at(atom, {}, {})
            )
            rows[0][name] = arb(value).mid()
        for _ in range(depth - 1):
            found, below = averages(rows[-1]["K"]), rows[-1]
            above = {
                name: arb(each(lambda atom: at(atom, below, found))).mid()  # noqa: B023
                for name, each in steps.items()
            }
            rows.append(above)
    return rows


def exact(number):
    """A fraction among flint's numbers."""
    return fmpq(int(number.numerator), int(number.denominator))


def strip_error(a, h):
    """The logarithm of the trapezoid rule's error bound."""
    return a**2 / 2 - 2 * math.pi * a / h


@pytest.mark.parametrize(
    ("weights", "depth"),
    [
        (Orthogonal(), 20),
        pytest.param(Gaussian(), 20, marks=pytest.mark.slow),
        pytest.param(Gaussian(), 1000, marks=pytest.mark.slow),
        pytest.param(Orthogonal(), 1000, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_all_tensors_of_one_input_meet_30_digits(weights, depth):
    table = flow(Network(activations.tanh, weights), X[0], depth, FIRST)
    rows = precise(activations.tanh, weights, float(X[0] @ X[0] / X[0].size), depth)
    for name in FIRST:
        want = np.array([float(row[name]) for row in rows])
        np.testing.assert_allclose(table[name], want, rtol=1e-10, atol=1e-15, err_msg=name)


class Dense:
    """Brackets of tanh by one dense sum in four dimensions, in plain numpy.

    A trapezoid rule in z = L y; h = 1/3 leaves e^{−2π a/h + a²/2} < 1e-13 for K < 0.7.
    """

    def __init__(self, K):
        self.K = K
        self.known = {}
        self._last, self._tanh = cache(self._sum_over_last), cache(self._tanh_of)
        self.y = np.arange(-7.5, 7.6, 1 / 3)
        self.w = np.exp(-(self.y**2) / 2) / np.sqrt(2 * np.pi) / 3
        t = sympy.Symbol("t")
        self.sigma = [
            sympy.lambdify(t, activations.tanh.derivative(m).xreplace({sympy.tanh(z): t}))
            for m in range(7)
        ]

    def product(self, samples, orders):
        """⟨Π σ^{(order)}(z_sample)⟩."""
        pairs = tuple(sorted(zip(samples, orders, strict=True)))
        if pairs not in self.known:
            distinct = tuple(sorted(set(samples)))
            by_sample = [[order for s, order in pairs if s == each] for each in distinct]
            total = self._last(distinct, tuple(by_sample[-1]))
            for row in reversed(range(len(distinct) - 1)):
                tanh = self._tanh(distinct, row)
                for order in by_sample[row]:
                    total = total * self.sigma[order](tanh)
                total = total @ self.w
            self.known[pairs] = float(total)
        return self.known[pairs]

    def _sum_over_last(self, distinct, orders):
        """The sum over the last of the y, as a function of those before it."""
        row = len(distinct) - 1
        tanh = self._tanh(distinct, row)
        return math.prod(self.sigma[order](tanh) for order in orders) @ self.w

    def _tanh_of(self, distinct, row):
        """tanh z of one sample on the nodes y_0 … y_row."""
        L = np.linalg.cholesky(self.K[np.ix_(distinct, distinct)])
        axes = np.meshgrid(*[self.y] * (row + 1), indexing="ij", sparse=True)
        return np.tanh(sum(L[row, p] * axes[p] for p in range(row + 1)))

    def bracket(self, bracket, sample):
        """A bracket of the engine, its labels renamed by `sample`: Leibniz's rule."""
        samples = [sample[label] for label, _ in bracket.factors]
        labels = [label for label, _ in bracket.factors]
        places = [[p for p, label in enumerate(labels) if label == each] for each in bracket.outer]
        total = 0.0
        for chosen in itertools.product(*places):
            orders = [order for _, order in bracket.factors]
            for p in chosen:
                orders[p] += 1
            total += self.product(samples, orders)
        return total


@pytest.mark.parametrize("depth", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_four_inputs_meet_a_dense_sum(depth):
    """V, D, F, A, B and what they need, relative error 1e-8 of each tensor's largest component."""
    names = ["K", "V", "Theta", "D", "F", "A", "B"]
    inputs = X if depth == 10 else X[:2]
    table = flow(Network(activations.tanh, Orthogonal()), inputs, depth, names)
    recursions = {name: recursion(name, Orthogonal()) for name in names}
    steps = {name: (made.samples, Lines(made.terms, float)) for name, made in recursions.items()}
    spelled = {
        atom: spell(atom)
        for _, lines in steps.values()
        for atom in lines.atoms
        if isinstance(atom, Tensor)
    }
    tensors = {name: table[name].sel(layer=1).to_numpy() for name in names}
    for layer in range(2, depth + 1):
        dense = Dense(tensors["K"])
        above = {}
        for name, (samples, lines) in steps.items():
            above[name] = np.empty_like(tensors[name])
            for index in np.ndindex(above[name].shape):
                sample = dict(zip(samples, index, strict=True))

                def at(atom, sample=sample):
                    if isinstance(atom, Bracket):
                        return dense.bracket(atom, sample)  # noqa: B023
                    if isinstance(atom, Parameter):
                        return 0.0 if atom.name == "C_b" else 1.0
                    label, labels = spelled[atom]
                    return tensors[label][tuple(sample[each] for each in labels)]  # noqa: B023

                above[name][index] = lines(at)
            got = table[name].sel(layer=layer).to_numpy()
            size = np.abs(above[name]).max()
            np.testing.assert_allclose(got, above[name], rtol=0, atol=1e-8 * size, err_msg=name)
        tensors = above


@pytest.mark.parametrize(
    "weights", [Gaussian(2), pytest.param(Orthogonal(2), marks=pytest.mark.slow)], ids=str
)
def test_kinks_leave_P_and_Q_finite_but_not_R_to_U(weights):
    """σ''σ'' and σ'σ''' at one z have no average."""
    net = Network(activations.relu, weights)
    table = flow(net, X[0], 6, WITH_KINKS)
    assert all(np.isfinite(table[name]).all() for name in WITH_KINKS)
    for name in "RSTU":
        with pytest.raises(InputError):
            flow(net, X[0], 3, [name])


@pytest.mark.slow
def test_kinks_are_limits_of_smooth_functions():
    """hard_tanh is the limit of ((z + 1) erf((z + 1)/ε) − (z − 1) erf((z − 1)/ε))/2, up to O(ε)."""
    kinked = flow(Network(activations.hard_tanh, Gaussian(2)), X[0], 3, WITH_KINKS)
    errors = []
    for inverse in (32, 64):
        smooth = activations.from_expr(
            f"((z+1)*erf({inverse}*(z+1)) - (z-1)*erf({inverse}*(z-1)))/2"
        )
        table = flow(Network(smooth, Gaussian(2)), X[0], 3, WITH_KINKS)
        errors.append([float(table[n][-1] / kinked[n][-1] - 1) for n in WITH_KINKS])
    for coarse, fine in zip(*errors, strict=True):
        assert abs(fine) < 0.02
        assert abs(2 * fine - coarse) < 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("activation", [activations.relu, activations.hard_tanh], ids=str)
def test_repeated_inputs_of_kinked_activations(activation):
    net = Network(activation, Orthogonal(sympy.Rational(3, 2)))
    alone = flow(net, X[0], 4, WITH_KINKS)
    twice = flow(net, np.stack([X[0], X[0], X[0]]), 4, WITH_KINKS)
    for name in WITH_KINKS:
        values = twice[name].to_numpy().reshape(4, -1)
        want = alone[name].to_numpy()[:, None]
        np.testing.assert_allclose(values, want * np.ones_like(values), rtol=1e-12, err_msg=name)


@pytest.mark.slow
def test_collinear_inputs_of_relu_scale():
    """σ(c z) = c σ(z), c > 0: an index of z in D_{abcd} brings c, one of H none."""
    net = Network(activations.relu, Gaussian(2))
    table = flow(net, np.stack([X[0], 3 * X[0]]), 4, ["K", "V", "G1", "Theta", "D", "F", "P"])
    for name, labels in (("K", 2), ("V", 4), ("G1", 2)):
        values = table[name].to_numpy()
        for index in itertools.product(range(2), repeat=labels):
            want = values[(slice(None), *(0,) * labels)] * 3.0 ** sum(index)
            np.testing.assert_allclose(values[(slice(None), *index)], want, rtol=1e-11)
    assert {str(name).removesuffix("_error") for name in table} <= set(NAMES)
