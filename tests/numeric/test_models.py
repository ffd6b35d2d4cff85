"""Models of other frameworks: what is told of them without any framework."""

from __future__ import annotations

import dataclasses
import math
import pickle
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import sympy
from sample_models import Perceptron, described, gaussian, norm_by_hand, traced

from derivations import cli
from derive import (
    Gaussian,
    InputError,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Uniform,
    activations,
    layers,
)
from derive.symbols import z
from numeric import compare, flow, models
from numeric.models import description, functions, laws, measurement, networks, theory
from numeric.models.graph import Applied, Linear, Norm, Product, Sum
from numeric.models.outputs import chosen
from numeric.models.resolution import limits
from numeric.models.tracing import Parameter, UnreadableError
from numeric.tables import layout


def haar(random, n):
    return scipy.stats.ortho_group.rvs(n, random_state=random)


def sparse(random):
    return (random.random((24, 32)) < 0.25) * random.standard_normal((24, 32))


def product(random):
    return haar(random, 24)[:, :6] @ haar(random, 32)[:6]


SAMPLERS = {
    "gaussian": (lambda r: r.standard_normal((24, 32)) * math.sqrt(2 / 32), 2),
    "uniform": (lambda r: r.uniform(-1, 1, (24, 32)) / math.sqrt(32), "1/3"),
    "orthogonal": (lambda r: math.sqrt(2) * haar(r, 32)[:, :24], "3/2"),
    "truncated normal": (
        lambda r: scipy.stats.truncnorm(-2, 2).rvs((24, 32), random_state=r) * 0.02 / 0.87962566,
        "8/625",
    ),
    "sparse": (sparse, None),
    "signs": (lambda r: np.sign(r.standard_normal((24, 32))) / math.sqrt(32), 1),
    "zero": (lambda r: np.zeros((24, 32)), 0),
    "low-rank orthogonal": (product, None),
    "unknown": (lambda r: r.laplace(size=(24, 32)), None),
}


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_law_is_told_from_samples(kind):
    random, (draw, C) = np.random.default_rng(0), SAMPLERS[kind]
    samples = [draw(random) for _ in range(30)]
    law = laws.of_matrix(samples)
    assert law.kind == kind
    if C is not None:
        assert sympy.Rational(C) == law.C
    assert f"{law}".startswith(kind)


def test_a_cut_normal_law_is_named_by_what_is_cut():
    random = np.random.default_rng(1)
    cut = scipy.stats.truncnorm(-2, 2)
    law = laws.of_matrix([0.1 * cut.rvs((24, 96), random_state=random) for _ in range(30)])
    assert law.why == "standard deviation 0.1 before the cut at two of it"
    assert abs(float(law.C) - 96 * 0.01 * cut.var()) < 1e-5


def test_the_gain_of_a_leaky_relu_is_known():
    """2/(1 + 0.2²) whatever the shape, so that such layers have one ensemble."""
    random = np.random.default_rng(1)
    for shape in ((24, 96), (96, 96)):
        bound = math.sqrt(6 / 1.04 / shape[1])
        law = laws.of_matrix([*random.uniform(-bound, bound, (30, *shape))])
        assert (law.C, law.error) == (sympy.Rational(25, 13), 0)


def test_matrices_that_differ_by_chance_have_one_law():
    random = np.random.default_rng(2)

    def samples(scale):
        return [scale * random.standard_normal((16, 32)) for _ in range(30)]

    matrices = [Linear(0, path, None, 32, 16) for path in "abc"]
    drawn = dict(zip("abc", map(samples, (0.123, 0.123, 0.14)), strict=True))
    alone = laws.of_matrix(drawn["a"])
    found = description._of_samples(matrices[:2], drawn)
    assert found["a"] == found["b"]
    assert 0 < found["a"].error < 0.8 * alone.error
    assert abs(float(found["a"].C) - 32 * 0.123**2) < 5 * found["a"].error
    apart = description._of_samples(matrices, drawn)
    assert apart["a"] == alone
    assert apart["a"].C != apart["c"].C


@pytest.mark.parametrize(
    ("scales", "why"),
    [((0.05, 0.0518), "standard deviation 0.05"), ((0.123, 0.1295), "")],  # by 5 and 9 errors
)
def test_what_is_known_and_what_differs_stay_as_they_are(scales, why):
    random = np.random.default_rng(2)
    shape = (30, 16, 32)
    samples = {p: [*(s * random.standard_normal(shape))] for p, s in zip("ab", scales, strict=True)}
    found = description._of_samples([Linear(0, path, None, 32, 16) for path in "ab"], samples)
    assert found == {path: laws.of_matrix(samples[path]) for path in "ab"}
    assert (found["a"].why, found["b"].why) == (why, "")


def test_uniform_matrices_that_differ_by_chance_have_one_law():
    random = np.random.default_rng(2)
    samples = {path: [*random.uniform(-0.3, 0.3, (30, 16, 32))] for path in "ab"}
    own = [laws.of_matrix(each) for each in samples.values()]
    found = description._of_samples([Linear(0, path, None, 32, 16) for path in "ab"], samples)
    assert own[0].C != own[1].C
    assert found["a"] == found["b"]


@pytest.mark.parametrize(
    ("draw", "why"),
    [
        (lambda r: abs(r.standard_normal((8, 9))), "a mean of"),
        (lambda r: np.eye(8) + 1, "the same in every initialization"),
        (lambda r: r.standard_normal((30, 1)) * r.standard_normal((30, 30)), "kurtosis"),
        (lambda r: np.full((8, 9), np.nan), "not finite"),
    ],
)
def test_what_is_no_law_is_said(draw, why):
    random = np.random.default_rng(0)
    law = laws.of_matrix([draw(random) for _ in range(20)])
    assert law.kind == "unknown"
    assert why in law.why


@pytest.mark.parametrize(
    ("two", "count", "kind", "why"),
    [
        (False, 100, "low-rank gaussian", "rank 6 of 24"),
        (True, 1500, "unknown", "a product of two Gaussian matrices"),
        (False, 2, "unknown", "too few initializations"),
        (True, 2, "unknown", "too few initializations"),
    ],
)
def test_a_product_of_two_gaussian_matrices_is_no_low_rank_ensemble(two, count, kind, why):
    random = np.random.default_rng(0)

    def draw():
        left = random.standard_normal((24, 6)) if two else haar(random, 24)[:, :6]
        return left @ random.standard_normal((6, 32))

    law = laws.of_matrix([draw() for _ in range(count)])
    assert law.kind == kind
    assert why in law.why


def test_few_uniform_biases_are_torchs_if_their_largest_can_be():
    """Of eight below 1/4 the largest is above 0.044 but for a chance of 10⁻⁶."""
    bound, count = 0.25, 8
    low = bound * 1e-6 ** (1 / count)
    spread = np.linspace(-0.9, 0.9, count)
    for largest, default in ((1.01 * low, True), (0.99 * low, False), (1.01 * bound, False)):
        law = laws.of_biases([spread / 0.9 * largest], 16)
        assert law.kind == "uniform"
        assert (sympy.Rational(1, 48) == law.C) == default
        assert bool(law.error) != default


def test_gaussian_rows_that_know_one_another_are_no_independent_entries():
    """Their entries are Gaussian: the singular values alone tell."""
    random = np.random.default_rng(0)
    mix = np.linalg.cholesky(0.6 + 0.4 * np.eye(20))
    law = laws.of_matrix([mix @ random.standard_normal((20, 20)) for _ in range(40)])
    assert law.kind == "unknown"


@pytest.mark.parametrize("kind", ["gaussian", "uniform", "orthogonal", "truncated normal", "signs"])
@pytest.mark.parametrize("shape", [(20, 30), (30, 20)])
def test_a_law_draws_what_it_is(kind, shape):
    random = np.random.default_rng(0)
    law = laws.Law(kind, shape, sympy.Integer(1))
    again = laws.of_matrix([law.draw(shape, random) for _ in range(40)])
    assert (again.kind, again.C) == (kind, 1)
    assert again.fits(law.draw(shape, random))
    assert not again.fits(1.3 * law.draw(shape, random))


@pytest.mark.parametrize(
    ("given", "kind", "C"),
    [
        (lambda r: r.uniform(-1, 1, 40) / 4, "uniform", "1/48"),
        (lambda r: np.zeros(40), "zero", 0),
        (lambda r: r.standard_normal(40), "gaussian", None),
    ],
)
def test_biases(given, kind, C):
    random = np.random.default_rng(0)
    law = laws.of_biases([given(random) for _ in range(60)], 16)
    assert law.kind == kind
    assert C is None or sympy.Rational(C) == law.C


@pytest.mark.parametrize(
    ("expr", "name"),
    [
        (functions.gelu(z), "gelu"),
        (functions.silu(z), "silu"),
        (functions.hard_tanh(z), "hard_tanh"),
        (functions.relu(z, 0.01), "leaky_relu(1/100)"),
        (
            z / 2 + z * sympy.tanh(sympy.Rational("0.7978846") * (z + 0.044715 * z**3)) / 2,
            "gelu(tanh)",
        ),
        (sympy.Piecewise((z, z > 0), (sympy.exp(z) - 1, True)), "elu"),
    ],
)
def test_functions_have_our_names(expr, name):
    assert functions.activation(expr, "here").name == name


def test_a_function_that_is_no_activation_is_refused_by_its_place():
    with pytest.raises(InputError, match=r"block\.act, σ\(z\) = exp\(z\*\*2\)"):
        functions.activation(sympy.exp(z**2), "block.act")


def test_norms_are_found_in_arithmetic():
    graph = traced(lambda t, W, x: norm_by_hand(t, t.linear(x, W("a", 5, 3), None)))
    assert graph.nodes[-1] == Norm(1, "layer", sympy.Rational("0.001"))

    def rms(t, W, x):
        u = t.linear(x, W("a", 5, 3), None)
        root = t.apply(lambda a: 1 / sympy.sqrt(a), t.mean(t.power(u, 2)))
        return t.apply(sympy.tanh, t.multiply(u, root))

    graph = traced(rms)
    assert [type(each) for each in graph.nodes[2:]] == [Norm, Applied]
    assert graph.nodes[2].kind == "rms"


def block(t, W, z_, name, norm=True):
    y = t.norm(z_, "rms", 1e-6, {}) if norm else z_
    hidden = t.apply(functions.silu, t.linear(y, W(f"{name}.a", 8, 4), None))
    gate = t.multiply(t.linear(y, W(f"{name}.b", 8, 4), None), hidden)
    return t.add(z_, t.linear(gate, W(f"{name}.c", 4, 8), None))


def gated(t, W, x):
    u = t.linear(x, W("stem", 4, 3), None)
    for name in ("one", "two"):
        u = block(t, W, u, name)
    return t.linear(t.norm(u, "rms", 1e-6, {}), W("head", 2, 4), None)


def test_layers_lie_between_the_nodes_on_every_path():
    graph = traced(gated)
    made = networks.structure(graph)
    assert [block.width for block in made.blocks] == [4, 4, 4, 2]
    assert [(each.norm, each.skip, each.gated) for each in made.blocks[1:3]] == [
        ("rms", 1, True)
    ] * 2
    assert made.activation == activations.silu
    kinds = [type(graph.nodes[each.node]) for each in made.blocks]
    assert kinds == [Linear, Sum, Sum, Linear]
    assert any(isinstance(each, Product) for each in graph.nodes)


def test_a_graph_is_the_network_that_one_writes_down():
    """SwiGLU blocks, each matrix with its own C_W."""
    graph = traced(gated)
    C = {"stem": 1, "a": 2, "b": 3, "c": 1, "head": 1}
    told = {
        path: laws.Law("gaussian", (1, 1), sympy.Integer(C[path.rpartition(".")[2]]))
        for path in graph.parameters
    }
    net, remarks = networks.network(networks.structure(graph), told)
    assert not remarks
    assert net.widths == (3, 4, 4, 4, 2)
    own = layers.Layer(
        "q = z[a] z[a]/n",
        "y[i] = z[i]/sqrt(q + eps)",
        "h[i] = W1[i,a] y[a]",
        "g[i] = W2[i,a] y[a]",
        "z[i] = z[i] + W3[i,a] h[a] s(g[a])",
        eps="1e-6",
        C={"W1": 3, "W2": 2, "W3": 1},
        ratio={"h": 2, "g": 2},
    )
    head = layers.Layer(
        "q = z[a] z[a]/n", "z[i] = W[i,a] z[a]/sqrt(q + eps)", eps="1e-6", C={"W": 1}
    )
    plain = Network("silu", Gaussian(1), layer=[own, own, head], widths=(3, 4, 4, 4, 2))
    x = [1.0, -0.5, 2.0]
    tables = [flow(each, x, tensors=["K", "V"]) for each in (net, plain)]
    for name in ("K", "V"):
        np.testing.assert_allclose(tables[0][name], tables[1][name], rtol=1e-9, atol=1e-14)


def test_every_entry_has_the_rate_one():
    """Θ of a linear residual block of two matrices, W₂ (8 → 4) W₁ (4 → 8), added up by hand."""

    def build(t, W, x):
        u = t.linear(x, W("stem", 4, 3), None)
        hidden = t.linear(u, W("a", 8, 4), None)
        return t.add(u, t.linear(hidden, W("b", 4, 8), None))

    graph = traced(build)
    told = {path: laws.Law("gaussian", (1, 1), sympy.Integer(1)) for path in graph.parameters}
    net, _ = networks.network(networks.structure(graph), told)
    x = np.array([1.0, -0.5, 2.0])
    size = float(x @ x) / 3  # K of every field, E z_j² = |x|²/3
    theta = flow(net, x, tensors="Theta")["Theta"].to_numpy()
    # stem: Σ x² (1 + C_b C_a); b: Σ_8 h² = 8 K; a: C_b/8 · 8 · Σ_4 z² = 4 K
    np.testing.assert_allclose(theta, [3 * size, 2 * 3 * size + 8 * size + 4 * size])


def test_biases_within_a_factor_have_its_square_for_their_rate():
    """Θ of z + (1/2)(b₂ + W₂ (b₁ + W₁ z)), added up by hand."""

    def build(t, W, x):
        def biased(u, name, out, fan_in):
            return t.linear(u, W(name, out, fan_in), Parameter(f"{name} bias", np.zeros(out)))

        u = biased(x, "stem", 4, 3)
        branch = biased(biased(u, "a", 4, 4), "b", 4, 4)
        return t.add(u, t.multiply(branch, sympy.Rational(1, 2)))

    graph = traced(build)
    told = {
        path: laws.Law("zero", (1,), sympy.Integer(0))
        if path.endswith("bias")
        else laws.Law("gaussian", (1, 1), sympy.Integer(1))
        for path in graph.parameters
    }
    net, _ = networks.network(networks.structure(graph), told)
    x = np.array([1.0, -0.5, 2.0])
    size = float(x @ x) / 3
    first = 3 * size + 1
    theta = flow(net, x, tensors="Theta")["Theta"].to_numpy()
    # z: 1, b: 1/4 of (Σ_4 h² = 4 K, bias 1), a: 1/4 of (Σ_4 z² = 4 K, bias 1), stem through both
    quarter = (4 * size + 1 + 4 * size + 1 + first) / 4
    np.testing.assert_allclose(theta, [first, first + quarter])


def two_functions(t, W, x):
    first = t.apply(functions.relu, t.linear(x, W("a", 4, 3), None))
    second = t.apply(sympy.tanh, t.linear(first, W("b", 4, 4), None))
    return t.linear(second, W("c", 4, 4), None)


def mixed(t, W, x):
    first = t.apply(functions.relu, t.linear(x, W("a", 4, 3), None))
    gate = t.apply(sympy.tanh, t.linear(first, W("b", 4, 4), None))
    other = t.apply(functions.silu, t.linear(first, W("c", 4, 4), None))
    return t.linear(t.multiply(gate, other), W("d", 4, 4), None)


def test_layers_have_activations_and_laws_of_their_own():
    """K is ⟨relu²⟩, then ⟨tanh²⟩, in dense layers; and of tanh × SiLU of two matrices in one."""
    own = {name: laws.Law("gaussian", (4, 4), sympy.Integer(2)) for name in "abcd"}
    own["b"] = laws.Law("orthogonal", (4, 4), sympy.Integer(1))
    own["c"] = laws.Law("uniform", (4, 4), sympy.Rational(1, 3))
    net, remarks = networks.network(networks.structure(traced(two_functions)), own)
    assert [net.activation_at(at).name for at in (1, 2)] == ["relu", "tanh"]
    assert [net.weights_at(at) for at in (1, 2, 3)] == [Gaussian(2), Orthogonal(1), Uniform("1/3")]
    assert not remarks
    K = flow(net, [1.0, 0.5, 0.2], tensors="K")["K"].to_numpy()
    assert abs(K[1] - K[0] / 2) < 1e-12
    assert abs(K[2] - activations.tanh.average((0, 0), K[1]) / 3) < 1e-12
    net, remarks = networks.network(networks.structure(traced(mixed)), own)
    K = flow(net, [1.0, 0.5, 0.2], tensors="K")["K"].to_numpy()
    inner = [float(own[name].C) * K[0] / 2 for name in "bc"]
    both = activations.tanh.average((0, 0), inner[0]) * activations.silu.average((0, 0), inner[1])
    assert abs(K[1] - 2 * both) < 1e-10
    assert not remarks
    assert Uniform() in {law.unit_variance for bound in net.chain(2) for law in bound.weights}
    own["b"] = laws.Law("low-rank orthogonal", (4, 4), sympy.Integer(1), density=0.5)
    ranks = LowRankOrthogonal(gamma="1/2")
    net, _ = networks.network(networks.structure(traced(two_functions)), own)
    assert net.weights_at(2) == ranks
    net, _ = networks.network(networks.structure(traced(mixed)), own)
    assert ranks in [law for bound in net.chain(2) for law in bound.weights]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda t, W, x: t.linear(t.apply(sympy.tanh, x), W("a", 4, 3), None), "first matrix"),
        (lambda t, W, x: x, "no matrix on every path"),
    ],
)  # fmt: skip
def test_what_is_no_sequence_of_layers_is_refused(build, told):
    with pytest.raises(InputError, match=told):
        networks.structure(traced(build))


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda t, W, x: t.linear(t.linear(x, W("a", 4, 3), None), W("a", 4, 4), None), "twice"),
        (lambda t, W, x: t.linear(t.linear(x, W("a", 4, 3), None), W("b", 4, 5), None), "columns"),
        (lambda t, W, x: t.norm(x, "rms", 0, {"n.weight": np.full(3, 2.0)}), "not 1"),
        (lambda t, W, x: t.scaled(x, Parameter("s", np.array([1.0, 2.0, 3.0]))), "each neuron"),
        (lambda t, W, x: t.divide(x, t.linear(x, W("a", 3, 3), None)), "quotient"),
    ],
)
def test_a_tracer_says_what_it_cannot_read(build, told):
    with pytest.raises(UnreadableError, match=told):
        traced(build)


def test_matrices_drawn_with_one_key_are_told():
    """One generator's first numbers in every layer: each law is right, and theory is not."""
    reading = Perceptron((8, 8, 8, 2))
    reading.draw = lambda seed: {
        f"W{k}": gaussian(np.random.default_rng(seed), out, 8)
        for k, out in ((1, 8), (2, 8), (3, 2))
    }
    with pytest.raises(InputError, match="W1 and W2, correlated"):
        description._laws(reading, None)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (np.eye(8), "orthogonal with entries 0"),
        (np.full((8, 8), 0.5), "a mean of"),
        (np.eye(8)[np.random.default_rng(0).permutation(8)], "orthogonal with entries 0"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_matrices_that_are_alike_are_refused_by_their_law(value, why, alone):
    """Not as correlated ones: in a given model, and in one that is made again."""
    reading = Perceptron((8, 8, 8), lambda r, out, fan_in: value)
    if alone:
        given = reading.draw(0)
        reading.own = lambda: given
        reading.settle = lambda laws: None
        reading.__class__ = type("Given", (Perceptron,), {"again": False})
    told = description._laws(reading, None)
    assert why in told["W1"].why if alone else told["W1"].why == "the same in every initialization"
    with pytest.raises(InputError, match="W1: unknown"):
        networks.network(networks.structure(reading.graph), told)


def test_permutations_are_no_haar_matrices():
    random = np.random.default_rng(0)
    law = laws.of_matrix([np.eye(8)[random.permutation(8)] for _ in range(20)])
    assert law.kind == "unknown"
    assert laws.of_matrix([np.eye(8)[[at]] for at in (3, 5)]).kind == "orthogonal"  # a row


def test_laws_that_no_network_has_are_refused_by_path():
    reading = Perceptron((6, 8, 8, 2), lambda r, out, fan_in: abs(gaussian(r, out, fan_in)))
    made = networks.structure(reading.graph)
    told = {
        path: laws.of_matrix([reading.draw(k)[path] for k in range(20)]) for path in reading.draw(0)
    }
    with pytest.raises(InputError, match=r"W1: unknown, C_W = .* \(a mean of .*W2"):
        networks.network(made, told)


@pytest.fixture(scope="module")
def judged():
    return models.report(described(Perceptron((6, 24, 24, 3))), draws=150)


@pytest.mark.slow
def test_a_model_agrees_with_theory(judged):
    assert judged.agrees
    assert judged.description.network == Network(
        "tanh", Gaussian(1), lambda_b=[0, 0, 0], lambda_W=[6, 24, 24], widths=(6, 24, 24, 3)
    )
    assert {row.tensor for each in judged.comparisons for row in each.rows} == {
        "K",
        "Theta",
        "V",
        "spread",
    }
    assert all(row.scale > 0 for each in judged.comparisons for row in each.rows)
    jacobian = judged.jacobian
    assert abs(jacobian.size - jacobian.measured) < 5 * jacobian.error
    assert jacobian.edges[1] > jacobian.hidden_largest * 0.8


def test_a_model_of_one_hidden_layer():
    found = models.report(described(Perceptron((6, 12, 2))), np.ones(6), draws=40)
    assert found.agrees
    assert found.depths == ()
    assert {row.tensor for each in found.comparisons for row in each.rows} >= {"K", "Theta", "V"}
    K = found.table["K"].to_numpy()
    se = found.table["K_measured_se"].to_numpy()
    assert (abs(found.table["K_measured"].to_numpy() - K) < 5 * se + 0.1 * K).all()
    assert "nothing to repeat" in found.details


@pytest.mark.parametrize("draws", [4, 5, 6, 7])
def test_the_fewest_draws_have_standard_errors(draws):
    made = described(Perceptron((6, 8, 8, 2)))
    planned = measurement.plan(made, draws)
    assert planned.groups >= 3
    assert planned.total >= draws
    counts = []
    X = np.random.default_rng(0).standard_normal((2, 6))
    sampled = measurement.measure(made, X, planned, 0, counts.append)
    assert sum(counts) == planned.total
    for table in (sampled.first, sampled.second):
        for name, values in table.data_vars.items():
            assert np.isfinite(values).all(), name
    errors = sampled.second["V_se"].to_numpy()
    assert (errors > 0).all()


@pytest.mark.parametrize("sigma", [activations.tanh, activations.gelu, activations.linear])
def test_what_uniform_biases_change(sigma):
    """Averages over a Gaussian field with uniform biases beside those of a Gaussian one, K = 1."""
    C_b = 0.02
    bias, weight = np.polynomial.legendre.leggauss(20)
    nodes, heavy = np.polynomial.hermite_e.hermegauss(100)
    field = math.sqrt(1 - C_b) * nodes[:, None] + math.sqrt(3 * C_b) * bias
    formulas = [
        sympy.lambdify(z, each, ["scipy", "numpy"]) for each in (sigma.expr, sigma.expr.diff(z))
    ]
    made = []
    for u, weights in ((field, heavy[:, None] * weight), (nodes, heavy)):
        s, slope = (f(u) + 0 * u for f in formulas)
        square, fourth, slopes = (
            (weights * f).sum() / weights.sum() for f in (s**2, s**4, slope**2)
        )
        made.append(np.array([square, fourth - square**2, slopes]))
    change = abs(made[0] / made[1] - 1).max() / (1.2 * C_b**2)
    assert theory._sensitivity(sigma, np.ones(1)) == pytest.approx(change, rel=0.05)
    several = theory._sensitivity(sigma, np.array([1.0, 0.5]))
    assert several == theory._sensitivity(sigma, np.array([0.5]))


def test_a_small_component_has_no_smaller_next_term():
    """V_1122 of two inputs that are nearly orthogonal is small; what the next order adds is not."""
    made = described(Perceptron((6, 12, 12, 2)))
    X = np.array([[1.0, 1, 1, 0, 0, 0], [0, 0, 0.1, 1, 1, 1]])
    found = theory.theory(made, X).second
    V, errors = (np.abs(found[name].sel(layer=3)) for name in ("V", "V_error"))
    assert float(V[0, 0, 1, 1]) < 0.2 * float(V.max())
    assert float(errors.min()) == float(errors.max()) > 0


def test_uniform_biases_are_part_of_the_error():
    """κ_4 = −6/5 C_b². Of a linear layer V alone changes: ⟨z⁴⟩ − ⟨z²⟩² = 2K² + κ_4."""

    def made(bias):
        return described(Perceptron((6, 8, 8, 2), bias=bias))

    uniform = made(lambda r, out: r.uniform(-1, 1, out))
    K = np.array([2.0, 3.0, 4.0])
    found = theory._doubt(uniform, K)
    each = [theory._sensitivity(activations.tanh, K[[at]]) * 1.2 / 9 for at in (0, 1)]
    np.testing.assert_allclose(found, [0, each[0], sum(each)], rtol=0.01)
    assert theory._sensitivity(activations.linear, K[:1]) == pytest.approx(1 / (2 * K[0] ** 2))
    assert not theory._doubt(made(gaussian_biases), K).any()


def gaussian_biases(random, out):
    return random.standard_normal(out)


def test_progress_is_told_of_all_that_is_drawn(monkeypatch):
    told, advanced = [], []

    @contextmanager
    def telling(what, total):
        told.append((what, total))
        yield SimpleNamespace(advance=advanced.append)

    monkeypatch.setattr(sys.modules["numeric.models.report"], "telling", telling)
    models.report(described(Perceptron((6, 8, 2))), np.ones(6), draws=5)
    total = sum(advanced) // 2
    assert told == [
        ("initializing the model", total),
        ("drawing the network as it was read", total),
    ]


@pytest.mark.slow
def test_a_wrong_reading_is_noticed():
    """The same theory beside a model whose weights are larger by 20 %."""
    true = described(Perceptron((6, 24, 24, 3)))
    other = Perceptron((6, 24, 24, 3), lambda r, o, i: 1.2 * gaussian(r, o, i))
    wrong = models.Description("numpy", "x", true.network, true.laws, (), true.structure, other)
    assert not models.report(wrong, draws=200).agrees


@pytest.mark.slow
def test_susceptibilities_are_those_of_the_dense_layer(judged):
    """χ_⊥ = C_W⟨σ'²⟩ and χ_∥ = C_W g'(K), by quadrature."""
    K = judged.theory.first["K"].to_numpy()[:, 0, 0]
    nodes, weight = np.polynomial.hermite_e.hermegauss(80)

    def average(f, at):
        return (weight * f(math.sqrt(at) * nodes)).sum() / math.sqrt(2 * math.pi)

    chi = [average(lambda u: np.cosh(u) ** -4.0, at) for at in K[:-1]]
    np.testing.assert_allclose(judged.theory.perpendicular[1:], chi, rtol=1e-8)
    step = 1e-5
    slopes = [
        (
            average(lambda u: np.tanh(u) ** 2, at + step)
            - average(lambda u: np.tanh(u) ** 2, at - step)
        )
        / (2 * step)
        for at in K[:-1]
    ]
    np.testing.assert_allclose(judged.theory.parallel[1:], slopes, rtol=1e-6)


def test_a_resolution_is_of_draws_and_of_theory():
    """se² = s² + d²: with 100 times the draws the first term is a hundredth."""
    values = {"K": [1.0, 4.0], "K_error": [0.001, 0.0]}
    table = layout.table([1, 2], **{name: np.array(each) for name, each in values.items()})

    def judged(scale):
        errors = np.array([0.03, 0.2]) * scale
        about = {"width": 10, "draws": 100, "blocks": 50}
        sampled = layout.table([1, 2], about, K=(np.array([1.0, 4.0]), errors))
        found = compare(table, sampled)
        return found, limits(found, sampled)

    found, limit = judged(1)
    assert found.weak
    assert limit.draws == pytest.approx(found.bound * 0.05)
    assert limit.theory == pytest.approx(found.bound * 0.001)
    assert "times the draws" in str(limit)
    again, resolved = judged(limit.needed**-0.5)
    assert again.resolution == pytest.approx(0.2)
    assert resolved.needed == pytest.approx(1)
    table["K_error"][:] = 0.5
    assert judged(0.001)[1].needed == math.inf
    assert "more draws do not" in str(judged(0.001)[1])


def test_depths_end_where_averages_would_take_minutes(monkeypatch):
    """K = 2^ℓ is below 10⁵ to layer 16; behind a skip K grows for ever, and so do the nodes that
    averages of ELU need, but not those of ReLU."""
    assert theory._within(2.0 ** np.arange(1, 11)) == 16
    assert theory._within(np.full(10, 3.0)) == theory._DEEPEST
    monkeypatch.setattr(theory, "_DEEPEST", 128)
    x, reached = np.array([1.0, -0.5]), {}
    for sigma in (activations.from_expr(functions.elu(z)), "relu"):
        net = Network(sigma, Gaussian(3), layer=layers.residual(skip=1))
        made = theory._judged("", lambda net=net: net, x, 2, 10_000)
        reached[str(sigma)] = made.reached
        assert made.tenth is None or made.tenth <= made.reached
    elu, relu = reached.values()
    assert elu < 64 < relu


def test_errors_of_measured_variances_are_in_theorys():
    """1 % of C_W of layer 2 is 1 % of K there without biases, and of K behind by the derivative of
    log K, or all of it, if less; twice that of V. Of C_b it is its part of K."""
    made = described(Perceptron((6, 24, 24, 3)))
    exact = {path: dataclasses.replace(law, error=0.0) for path, law in made.laws.items()}
    made = dataclasses.replace(made, laws=exact)
    plain = theory.theory(made, np.ones((1, 6)))
    assert theory.with_reading(made, plain) is plain
    changed = dataclasses.replace(exact["W2"], error=0.01 * float(exact["W2"].C))
    own = dataclasses.replace(made, laws=exact | {"W2": changed})
    found = theory.with_reading(own, plain)

    def added(name, table):
        before, after = (getattr(each, table) for each in (plain, found))
        error = after[f"{name}_error"] ** 2 - before[f"{name}_error"] ** 2
        return np.sqrt(np.maximum(error, 0)) / abs(before[name])

    K = plain.first["K"].to_numpy()
    behind = 0.01 * max(1.0, plain.parallel[2] * K[1] / K[2])
    np.testing.assert_allclose(added("K", "first"), [0, 0.01, behind], rtol=1e-6)
    np.testing.assert_allclose(added("V", "second")[1:], [0.02, 2 * behind], rtol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_an_error_that_matrices_share_adds_up(shared):
    """1 % of the C_W of layers 2 and 3 is 2 % of K behind them, or √2 % where they are not one."""
    made = described(Perceptron((6, 24, 24, 24, 3)))
    exact = {path: dataclasses.replace(law, error=0.0) for path, law in made.laws.items()}
    changed = dataclasses.replace(exact["W2"], error=0.01 * float(exact["W2"].C))
    other = changed if shared else dataclasses.replace(changed, why="measured by itself")
    own = dataclasses.replace(made, laws=exact | {"W2": changed, "W3": other})
    ones = np.ones((1, 6))
    plain = theory.theory(dataclasses.replace(made, laws=exact), ones)
    K, errors = (plain.first[name].to_numpy() for name in ("K", "K_error"))
    found = theory.with_reading(own, plain).first["K_error"].to_numpy()
    carried = max(1.0, plain.parallel[2] * K[1] / K[2])
    expected = 0.01 * (carried + 1 if shared else np.hypot(carried, 1))
    np.testing.assert_allclose(np.sqrt(found**2 - errors**2)[2] / K[2], expected, rtol=1e-6)


def test_measured_variances_of_biases_have_an_error():
    """σ² √(2/count) of Gaussian ones."""
    samples = [np.random.default_rng(seed).normal(0, 0.3, 4) for seed in range(50)]
    law = laws.of_biases(samples, 7)
    assert law.kind == "gaussian"
    assert law.error == pytest.approx(float(law.C) * math.sqrt(2 / 200), rel=0.3)


def test_draws_that_would_resolve_are_told():
    """An ensemble's own errors fall as those of the samples do; a difference that it has beyond
    them does not."""

    def judged(within, scale, falls=False):
        size, se = np.array([1.0]), np.array([0.1 * scale])
        parts = {"K_error": np.array([0.3]) if falls else se} | (
            {} if falls else {"K_within": np.array([within])}
        )
        table = layout.table([1], K=size, **parts)
        sampled = layout.table([1], {"width": 10, "draws": 100, "blocks": 50}, K=(size, se))
        found = compare(table, sampled)
        return found, limits(found, sampled, falls)

    _, limit = judged(0.3, 1)
    again, _ = judged(0.3 * limit.needed**-0.5, limit.needed**-0.5)
    assert again.resolution == pytest.approx(0.2)
    wanted = float(f"{100 * limit.needed:.2g}")
    assert f"draws={wanted:.0f} (--draws {wanted:.0f})" in str(limit)
    assert judged(0.3, 0.01)[1].needed == math.inf
    bound = judged(0, 1, falls=True)[0].bound
    assert judged(0, 1, falls=True)[1].needed == pytest.approx(2 * (bound * 0.1 / 0.2) ** 2)


@pytest.mark.slow
def test_depths_and_rates(judged):
    names = {each.name: each for each in judged.depths}
    assert set(names) >= {"as it is", "orthogonal weights", "skip around two matrices"}
    as_it_is = names["as it is"]
    assert as_it_is.tenth < as_it_is.one
    net = Network("tanh", Gaussian(1))
    ratio = flow(net, judged.inputs[0], as_it_is.one, ["K", "V"])
    values = (ratio["V"] / (24 * ratio["K"] ** 2)).to_numpy()
    assert values[-2] < 1 <= values[-1]
    assert (
        names["orthogonal weights"].tenth is None
        or names["orthogonal weights"].tenth > as_it_is.tenth
    )
    theta = judged.theory.first["Theta"].to_numpy()[-1]
    assert 0.5 < judged.rates.stable * np.linalg.eigvalsh(theta)[-1] / 2 < 2
    assert theory.best_fluctuation() == pytest.approx(4 / 26)  # of (N₁N₂/8)(v² − (3N + 20)v³/6)


@pytest.mark.slow
def test_the_page(judged):
    weak = [each.weak for each in judged.comparisons]
    assert any(weak)
    assert judged.details.count("by the draws alone") == sum(weak)
    text, page = f"{judged}\n{judged.details}", judged.html()
    assert "V/(nK²) measured" in text
    assert "orthogonal weights" in text
    assert page.startswith("<!doctype html>")
    assert page.count("<tr>") > 10
    assert page.count("<svg") == 4
    assert "nan" not in text


@pytest.mark.slow
def test_one_output_and_one_input():
    """V of a layer of one neuron is not measured; all else is."""
    found = models.report(described(Perceptron((6, 16, 16, 1))), np.ones(6), draws=200)
    assert found.agrees
    assert {row.layer for row in found.comparisons[1].rows} == {1, 2}


@pytest.mark.slow
def test_biases_and_uniform_entries_are_exact():
    reading = Perceptron(
        (16, 32, 32, 2),
        lambda r, out, i: r.uniform(-1, 1, (out, i)) / math.sqrt(i),
        lambda r, out: r.uniform(-1, 1, out) / math.sqrt(32),
    )
    made = described(reading)
    assert sympy.Rational(1, 3) == made.network.weights.C_W
    assert made.is_exact
    assert not made.network.keeps_rotations
    assert "V" in str(models.report(made, draws=40))


def test_orthogonal_weights_of_unequal_widths():
    def draw(random, out, fan_in):
        return math.sqrt(2) * haar(random, max(out, fan_in))[:out, :fan_in]

    made = described(Perceptron((6, 16, 16, 2), draw))
    assert made.network.first_weights == Orthogonal(sympy.Rational(3, 4))
    assert [made.laws[f"W{k}"].C for k in (2, 3)] == [2, 2]


@pytest.mark.parametrize("given", ["model", None, 3, int, lambda: 1 / 0, lambda width: width])
def test_what_is_no_model_is_refused(given):
    with pytest.raises(InputError, match="model of torch"):
        models.read(given)


@pytest.mark.parametrize(
    "inputs", [np.zeros(6), np.ones(5), np.ones((9, 6)), [math.nan] * 6, "x", np.ones((0, 6))]
)
def test_inputs_that_cannot_be_used(inputs):
    with pytest.raises(InputError, match="inputs"):
        models.report(described(Perceptron((6, 8, 2))), inputs, draws=4)


@pytest.mark.slow
def test_a_description_is_printed(judged):
    text = str(judged.description)
    assert "layer 2: tanh, 24 → 24" in text
    assert "gaussian, C_W = 1" in text
    assert pickle.loads(pickle.dumps(judged.description.laws)) == judged.description.laws


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_keras_on_another_backend_is_refused_without_tensorflow(backend, monkeypatch):
    """Its models are torch's modules, too, on torch."""
    for name in ("keras", "torch"):
        own = SimpleNamespace(backend=SimpleNamespace(backend=lambda: backend))
        monkeypatch.setitem(sys.modules, name, own)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    module = type("Module", (), {"__module__": "torch.nn"})
    model = type("Model", (module,), {"__module__": "keras.src"})
    with pytest.raises(InputError, match=f"Keras on {backend}'; wanted Keras on tensorflow"):
        models.read(model())


@pytest.mark.parametrize(
    ("missing", "extra"), [("flax.nnx", "jax"), ("tensorflow", "keras"), ("another", None)]
)
def test_a_framework_that_is_missing_names_its_extra(missing, extra, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(f"raise ModuleNotFoundError('no {missing}', name='{missing}')\n")
    assert cli.main(["model", f"{file}:net"]) == 2
    told = capsys.readouterr().err
    assert f"no {missing}" in told
    assert (f"pip install 'wickgarten[{extra}]'" in told) == (extra is not None)


@pytest.mark.parametrize("returned", [{"a": {"b": 1}, "a.b": 2}, {0: 1, "0": 2}])
def test_outputs_of_one_name_are_refused(returned):
    for output in (None, "a.b", "0"):
        with pytest.raises(InputError, match=r"two that are called .* of different names"):
            chosen(returned, output)


@pytest.mark.parametrize("output", ["", "0"])
def test_one_output_has_no_name(output):
    assert chosen(3, None) == 3
    with pytest.raises(InputError, match="None for a model of one output"):
        chosen(3, output)
