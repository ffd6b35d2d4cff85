"""Constant factors in a model: as if they were in the weights, and nothing that is not read."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import sympy

from derive import activations
from numeric import flow, models
from numeric.models import functions, laws, networks, theory
from numeric.models.drawn import Drawn
from numeric.models.factors import absorb
from numeric.models.graph import Linear, Sum
from numeric.models.tracing import Neurons, Parameter, Tracer

N = 48
EPS = sympy.Rational("0.01")
X = np.array([[1.0, -0.4, 0.7], [0.2, 1.1, -0.5]])
C = {"a": 2, "b": "3/2", "c": 1, "up": 2, "side": "3/2", "down": 1, "head": "1/2"}
C_B = sympy.Rational(1, 5)


class Built:
    """A model with the factor k at one place, and the graph before factors are moved."""

    def __init__(self, build, place, k, eps=EPS):
        self._tracer, self._place, self._k, self.eps = Tracer(), place, sympy.sympify(k), eps
        t = self._tracer
        t.graph.widths[0] = X.shape[1]
        t.graph.output = t.node(build(self, Neurons(0)))
        self.raw = copy.deepcopy(t.graph)
        self.graph = t.graph
        absorb(self.graph)

    def linear(self, name, u, fan_in, out):
        """b + W u, or b + k W u at the place "NAME biases"."""
        t = self._tracer
        u = t.linear(u, Parameter(f"{name}.W", np.ones((out, fan_in))), None)
        u = self.at(f"{name} biases", u)
        return t.shifted(u, Parameter(f"{name}.b", np.ones(out)))

    def at(self, place, u):
        return self._tracer.multiply(u, self._k) if place == self._place else u

    def apply(self, function, u):
        return self._tracer.apply(function, u)

    def norm(self, u):
        return self._tracer.norm(u, "rms", self.eps, {})

    def add(self, u, v):
        return self._tracer.add(u, v)

    def multiply(self, u, v):
        return self._tracer.multiply(u, v)


def perceptron(t, x):
    z1 = t.linear("a", t.at("input", x), 3, N)
    u = t.at("function", t.apply(sympy.tanh, t.at("argument", z1)))
    z2 = t.linear("b", u, N, N)
    return t.at("output", t.linear("c", t.apply(sympy.tanh, z2), N, 2))


def without_function(t, x):
    u = t.at("between", t.linear("a", x, 3, N))
    return t.linear("c", t.apply(sympy.tanh, t.linear("b", u, N, N)), N, 2)


def residual(t, x):
    u = t.linear("a", x, 3, N)
    y = t.at("normalized", t.norm(t.at("below the norm", u)))
    h = t.apply(functions.silu, t.at("hidden", t.linear("up", y, N, N)))
    u = t.at("sum", t.add(u, t.at("branch", t.linear("down", h, N, N))))
    return t.linear("head", u, N, 2)


def gate(t, x):
    u = t.linear("a", x, 3, N)
    y = t.norm(u)
    side = t.at("side", t.linear("side", y, N, N))
    both = t.multiply(t.apply(functions.silu, t.linear("up", y, N, N)), side)
    u = t.add(u, t.linear("down", t.at("product", both), N, N))
    return t.linear("head", u, N, 2)


MOVED = {
    "input": (perceptron, "a.W"),
    "argument": (perceptron, "a.W a.b"),
    "function": (perceptron, "b.W"),
    "b biases": (perceptron, "b.W"),
    "output": (perceptron, "c.W c.b"),
    "between": (without_function, "a.W a.b"),
    "below the norm": (residual, ""),
    "normalized": (residual, "up.W"),
    "hidden": (residual, "up.W up.b"),
    "branch": (residual, "down.W down.b"),
    "sum": (residual, "head.W"),
    "side": (gate, "side.W side.b"),
    "product": (gate, "down.W"),
}
"""Where the factor is, and the parameters that have it in the same model without it."""


def law(path, shape, scale=1, biases=None):
    name, _, kind = path.partition(".")
    variance = sympy.sympify(C[name]) if kind == "W" else (biases or {}).get(name, C_B)
    return laws.Law("gaussian", shape, variance * scale**2)


def described(built, scaled="", k=1, biases=None):
    shapes = {}
    for node in built.graph.nodes:
        if isinstance(node, Linear):
            shapes[node.weight] = (node.fan_out, node.fan_in)
            if node.bias:
                shapes[node.bias] = (node.fan_out,)
    own = scaled.split()
    told = {
        path: law(path, shape, sympy.sympify(k) if path in own else 1, biases)
        for path, shape in shapes.items()
    }
    made = networks.structure(built.graph)
    net, remarks = networks.network(made, told)
    return models.Description("numpy", "x", net, told, remarks, made, Drawn(built.graph, told))


K_FACTOR = sympy.Rational(3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("place", MOVED)
def test_a_factor_is_as_good_as_in_the_weights(place):
    """K, V, χ and the Jacobian to rounding; behind a sum that is scaled, K is that of the sum."""
    build, scaled = MOVED[place]
    eps = EPS / K_FACTOR**2 if place == "below the norm" else EPS
    made = described(Built(build, place, K_FACTOR))
    moved = described(Built(build, "", K_FACTOR, eps), scaled, K_FACTOR)
    tables, slopes, sizes = [], [], []
    for each in (made, moved):
        tables.append(flow(each.network, X, each.depth, ["K", "V"], width=N))
        slopes.append(theory.susceptibilities(each.network, X[0], each.depth))
        sizes.append(float(each.network.weights_at(1).C_W) * np.prod(slopes[-1][1][1:]))
    last = slice(-1, None) if place == "sum" else slice(None)
    for name in ("K", "V"):
        one, other = (table[name].to_numpy()[last] for table in tables)
        np.testing.assert_allclose(one, other, rtol=1e-9)
    if place != "sum":
        np.testing.assert_allclose(*slopes, rtol=1e-6)
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("place", MOVED)
def test_a_factor_counts_in_the_tangent_kernel_of_its_own_parameters(place):
    """Θ, and for one in each model the stable rate, at one input beside 400 networks that multiply
    where the model does: two comparisons below 4 standard errors, a false alarm of 0.01 %."""
    one = Built(MOVED[place][0], place, K_FACTOR)
    made, x = described(one), X[:1]
    drawn = Drawn(one.raw, made.laws)
    kernels = drawn.tangents(drawn.initialize(range(400)), x, [one.raw.output])[:, 0, 0, 0]
    table = flow(made.network, x[0], made.depth, ["Theta"], width=N)
    change = flow(made.network, x[0], made.depth, ["Theta1"], width=N)["Theta1"]
    pairs = [(kernels, float(table["Theta"][-1] + change[-1] / N))]
    if place in {"output", "between", "branch", "side"}:
        zeros, ones = np.zeros(made.depth), np.ones(made.depth)
        derived = theory.Theory(table, table, ones, ones, {}, zeros, ones)
        pairs.append((2 / kernels, theory.rates(made, x, derived).stable))
    for values, known in pairs:
        error = values.std(ddof=1) / 20
        assert abs(values.mean() - known) < 4 * error
        assert error < 0.02 * known


@pytest.mark.parametrize("place", MOVED)
def test_moving_factors_changes_no_value_and_no_gradient(place):
    """The networks of both graphs with the same parameters."""
    built = Built(MOVED[place][0], place, "7/3")
    told = described(built).laws
    raw, moved = Drawn(built.raw, told), Drawn(built.graph, told)
    made = raw.initialize(range(2))
    at, behind = built.raw.output, built.graph.output
    values = [each.propagate(made, 0, X[None], node) for each, node in ((raw, at), (moved, behind))]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
    kernels = [each.tangents(made, X, [node]) for each, node in ((raw, at), (moved, behind))]
    np.testing.assert_allclose(kernels[0], kernels[1], rtol=1e-12)
    live = [built.graph.nodes[each] for each in built.graph.between(0, behind)]
    assert not any(isinstance(each, Sum) and len(each.terms) == 1 for each in live)


def test_factors_that_layers_do_not_share():
    """One activation for all, though σ(z), σ(2 z) and σ(z)/3 are in the model."""

    def build(t, x):
        u = t.apply(sympy.tanh, t.linear("a", x, 3, 4))
        u = t.at("function", t.apply(sympy.tanh, t.at("argument", t.linear("b", u, 4, 4))))
        return t.linear("c", u, 4, 2)

    for place in ("argument", "function"):
        made = described(Built(build, place, 2))
        assert made.network.activation == activations.tanh
        assert all(made.network.layer_at(each, 3).is_dense for each in (2, 3))


@pytest.mark.parametrize("share", [1, sympy.Rational(1, 4), 0])
def test_biases_of_several_variances_have_them(share):
    """z' = z + b_d + W_d tanh(b_u + W_u z), K small beside which the variances of both biases are
    not: K' = K + C_d + C⟨tanh²⟩, and Θ' = Θ + 1 + n⟨tanh²⟩ + C⟨tanh'²⟩(1 + nK + C_u Θ)."""

    def build(t, x):
        u = t.linear("a", x, 3, N)
        h = t.apply(sympy.tanh, t.linear("up", u, N, N))
        return t.linear("head", t.add(u, t.linear("down", h, N, N)), N, 2)

    small = sympy.Rational(1, 500)
    biases = {"a": 0, "up": small, "down": share * small, "head": 0}
    made = described(Built(build, "", 1), biases=biases)
    x = np.array([[0.1, -0.05, 0.08]])
    table = flow(made.network, x[0], made.depth, ["K", "Theta"], width=N)
    K, start = 2 * float((x**2).mean()), float((x**2).sum()) + 1
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    field = math.sqrt(2 * K + 1 / 500) * node
    square, slope = (
        (weight * f).sum() / weight.sum() for f in (np.tanh(field) ** 2, np.cosh(field) ** -4)
    )
    assert float(table["K"][1]) == pytest.approx(K + float(share) / 500 + square, rel=1e-10)
    theta = start + 1 + N * square + slope * (1 + N * K + 2 * start)
    assert float(table["Theta"][1]) == pytest.approx(theta, rel=1e-10)
