"""Brackets at work in flows: exactness down many layers, several inputs, kinks."""

from __future__ import annotations

import itertools
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, activations, recursion
from derive.activations.functions import z
from derive.arithmetic.parameters import Parameter
from derive.engine.tensors import NAMES, Tensor, spell
from derive.errors import InputError
from derive.gaussian.brackets import Bracket
from numeric import flow

FIRST = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B", "P", "Q", "R", "S", "T", "U"]
WITH_KINKS = FIRST[:11]
RNG = np.random.default_rng(3)
X = RNG.uniform(size=(4, 40))


def value_of(terms, value):
    """A recursion's right-hand side, each atom by `value`."""
    total = 0
    for (mono, _), coefficient in terms.items():
        product = mpmath.mpf(coefficient.numerator) / coefficient.denominator
        for atom, exponent in mono:
            product = product * value(atom) ** exponent
        total = total + product
    return total


def precise(activation, weights, K0, depth, digits=30):
    """All tensors of one input in mpmath: brackets by one trapezoid rule, exact for tanh, K < 2.

    Its error is e^{−2π a/h + a²/2} with a = π/(2√K) > 1.1 and h = 1/16.
    """
    steps = {name: recursion(name, weights).single_input() for name in FIRST}
    brackets = sorted({b for each in steps.values() for b in each.atoms(Bracket)})
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
    polynomials = sympy.lambdify(t, in_t, "mpmath", cse=True)
    parameters = {"C_W": weights.C_W}
    with mpmath.workdps(digits + 5):
        h = mpmath.mpf(1) / 16
        nodes = [k * h for k in range(int(13 / h) + 1)]
        masses = [mpmath.npdf(x) * h * (2 if x else 1) for x in nodes]

        def averages(K):
            columns = [polynomials(mpmath.tanh(mpmath.sqrt(K) * x)) for x in nodes]
            return {
                each: mpmath.fdot(masses, [column[k] for column in columns])
                for k, each in enumerate(brackets)
            }

        def at(atom, tensors, found):
            if isinstance(atom, Parameter):
                return mpmath.mpf(parameters.get(atom.name, 0 if atom.name == "C_b" else 1))
            return found[atom] if isinstance(atom, Bracket) else tensors[spell(atom)[0]]

        tensors = {
            name: value_of(
                recursion(name, weights, first_layer=True, square=False).single_input().terms,
                lambda atom: mpmath.mpf(K0) if isinstance(atom, Tensor) else at(atom, {}, {}),
            )
            for name in FIRST
        }
        rows = [tensors]
        for _ in range(depth - 1):
            found, below = averages(rows[-1]["K"]), rows[-1]
            rows.append(
                {
                    name: value_of(each.terms, lambda atom: at(atom, below, found))  # noqa: B023
                    for name, each in steps.items()
                }
            )
    return rows


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
            self.known[pairs] = self._sum(pairs)
        return self.known[pairs]

    def _sum(self, pairs):
        distinct = sorted({sample for sample, _ in pairs})
        L = np.linalg.cholesky(self.K[np.ix_(distinct, distinct)])
        total = np.ones((1,) * len(distinct))
        for row, sample in enumerate(distinct):
            y = [
                self.y.reshape([-1 if k == p else 1 for k in range(row + 1)])
                for p in range(row + 1)
            ]
            tanh = np.tanh(sum(L[row, p] * y[p] for p in range(row + 1)))
            factor = self.w.reshape([1] * row + [-1])
            for other, order in pairs:
                if other == sample:
                    factor = factor * self.sigma[order](tanh)
            total = total.reshape(total.shape[:row] + (1,) * (total.ndim - row))
            total = total[(...,) + (0,) * (total.ndim - row)][..., None] * factor
        return total.sum()

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


@pytest.mark.parametrize("depth", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_four_inputs_meet_a_dense_sum(depth):
    """V, D, F, A, B and what they need, relative error 1e-8 of each tensor's largest component."""
    names = ["K", "V", "Theta", "D", "F", "A", "B"]
    inputs = X if depth == 30 else X[:2]
    table = flow(Network(activations.tanh, Orthogonal()), inputs, depth, names)
    steps = {name: recursion(name, Orthogonal()) for name in names}
    tensors = {name: table[name].sel(layer=1).to_numpy() for name in names}
    for layer in range(2, depth + 1):
        dense = Dense(tensors["K"])
        above = {}
        for name, step in steps.items():
            above[name] = np.empty_like(tensors[name])
            for index in np.ndindex(above[name].shape):
                sample = dict(zip(step.samples, index, strict=True))

                @cache
                def at(atom, sample=sample):
                    if isinstance(atom, Bracket):
                        return dense.bracket(atom, sample)  # noqa: B023
                    if isinstance(atom, Parameter):
                        return 0.0 if atom.name == "C_b" else 1.0
                    label, labels = spell(atom)
                    return tensors[label][tuple(sample[each] for each in labels)]  # noqa: B023

                above[name][index] = value_of(step.terms, at)
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
    assert set(table) <= set(NAMES)
