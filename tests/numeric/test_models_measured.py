"""How models are measured, and what their theory leaves out: ensembles whose answers are known."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import sympy
from sample_models import Perceptron, described, gaussian, norm_by_hand, traced

from numeric import compare
from numeric.models import (
    Description,
    functions,
    independence,
    laws,
    measurement,
    networks,
    skips,
    theory,
    truncation,
)
from numeric.models.drawn import Drawn
from numeric.models.resolution import absolute, limits, of_fluctuations
from numeric.models.tracing import Parameter
from numeric.tables import layout


def linear_network(kind, n=8, outputs=2):
    """Two matrices of one law and C_W = 1, 3 → n → outputs, without a function between them."""

    def build(t, W, x):
        return t.linear(t.linear(x, W("a", n, 3), None), W("b", outputs, n), None)

    graph = traced(build)
    return described_by(graph, {"a": (kind, (n, 3)), "b": (kind, (outputs, n))})


def described_by(graph, kinds):
    """As it is read, but drawn by these laws alone."""
    told = {
        path: laws.Law(kind, shape, sympy.Integer(int(kind != "zero")))
        for path, (kind, shape) in kinds.items()
    }
    made = networks.structure(graph)
    net, remarks = networks.network(made, told)
    own = Drawn(graph, told)
    return Description("numpy", "x", net, told, remarks, made, own)


@pytest.mark.parametrize("kind", ["gaussian", "uniform", "signs"])
def test_V_of_a_linear_head_is_that_of_the_length_below(kind):
    """V/n = Var(Σ_j h_j²/n) = (E h⁴ − K²)/n whatever W_b, K = |x|²/3: with i ≠ j of other heads,
    too. Three comparisons at 5 standard errors."""
    x = np.array([[1.0, -0.5, 2.0]])
    made = linear_network(kind)
    K = float(x[0] @ x[0]) / 3
    excess = {"gaussian": 0.0, "uniform": -1.2, "signs": -2.0}[kind]
    fourth = 3 * K**2 + excess * float((x**4).sum()) / 9
    planned = measurement.Plan(40, 10, 2)
    sampled = measurement.measure(made, x, planned, 3)
    V, se = (sampled.second[name].to_numpy() for name in ("V", "V_se"))
    assert V[0] == se[0] == 0
    assert abs(V[1] - (fourth - K**2)) < 5 * se[1]
    assert se[1] < 0.35 * K**2
    assert sampled.networks[1] > 100 * planned.total


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "excess"), [("gaussian", 0.0), ("uniform", -1.2)])
def test_V_of_a_hidden_layer_is_that_of_the_length_below(kind, excess):
    """3 → n → n → 2 without functions, K = |x|²/3, n = 8. The means m of S² = (|h|²/n)² are K² at
    the inputs, and m' = m + (2m + κ f)/n behind a matrix, f the mean of Σ h⁴/N² over what is below:
    V/n of a layer is m − K² of the layer below it. Four comparisons at 5 standard errors."""
    x, n = np.array([[1.0, -0.5, 2.0]]), 8
    K, fourth = float(x[0] @ x[0]) / 3, float((x**4).sum()) / 9
    first = K**2 + (2 * K**2 + excess * fourth) / n
    own = (3 * K**2 + excess * fourth) / n  # the mean of Σ h⁴/n² at layer 1
    second = first + (2 * first + excess * own) / n
    sizes = {"a": (n, 3), "b": (n, n), "c": (2, n)}

    def build(t, W, x):
        for path, shape in sizes.items():
            x = t.linear(x, W(path, *shape), None)
        return x

    made = described_by(traced(build), {path: (kind, shape) for path, shape in sizes.items()})
    planned = measurement.Plan(40, 10, 2)
    assert [step.is_apart for step in measurement._steps(made, planned, 1)] == [False, True, True]
    sampled = measurement.measure(made, x, planned, 3)
    V, se = (sampled.second[name].to_numpy() for name in ("V", "V_se"))
    assert V[0] == 0
    for at, expected in ((1, n * (first - K**2)), (2, n * (second - K**2))):
        assert abs(V[at] - expected) < 5 * se[at]
        assert se[at] < 0.1 * n * K**2


def test_V_of_a_head_of_zeros_is_0():
    """Its outputs are the biases alone, which are independent, so that V is known exactly."""
    bias = Parameter("d", np.ones(2))
    graph = traced(lambda t, W, x: t.linear(t.linear(x, W("a", 8, 3), None), W("c", 2, 8), bias))
    made = described_by(
        graph, {"a": ("gaussian", (8, 3)), "c": ("zero", (2, 8)), "d": ("uniform", (2,))}
    )
    sampled = measurement.measure(made, np.ones((1, 3)), measurement.Plan(20, 4, 2), 3)
    assert abs(sampled.second["V"].to_numpy()[-1]) < 1e-12
    assert sampled.second["V_se"].to_numpy()[-1] < 1e-12


def test_a_small_V_is_resolved_as_a_share_of_what_matters():
    """K = 1 and n = 10: V = 0.1 counts as 0.25, V = 1 as itself."""
    table = layout.table([2, 3], V=np.array([0.1, 1.0]), K=np.ones(2))
    about = {"width": 10, "draws": 10}
    sampled = layout.table([2, 3], about, V=(np.array([0.1, 1.0]), np.full(2, 0.005)))
    found = compare(table[["V"]], sampled)
    rows = absolute(found, table, 10).rows
    noticed = found.bound * 0.005
    assert [row.share for row in rows] == pytest.approx([noticed / 0.25, noticed])
    assert found.weak
    assert not absolute(found, table, 10).weak


def test_a_layers_own_matrix_is_averaged_over():
    """The means of q and of q q, one network at a time; q is what matrices of ±1 give, all 2³."""
    u = np.random.default_rng(0).standard_normal((5, 2, 3))
    given = measurement._Given(linear_network("gaussian").drawn(), 0, 0.5, 0.25)
    mean, product = given.moments(u)
    signs = np.array([*itertools.product([-1, 1], repeat=3)]) * math.sqrt(0.5)
    z = np.einsum("wi,kai->kwa", signs, u)
    q = 0.25 + np.einsum("kwa,kwb->kab", z, z) / len(signs)
    np.testing.assert_allclose(mean, q.mean(axis=0))
    np.testing.assert_allclose(product, np.einsum("kab,kcd->abcd", q, q) / len(q))


def test_neurons_are_recombined_one_by_one():
    z = np.arange(3 * 2 * 1 * 4).reshape(3, 2, 1, 4)
    made = measurement._recombined(z, 200, np.random.default_rng(0))
    assert made.shape == (200, 1, 4)
    for i in range(4):
        assert set(made[:, 0, i]) == set(z[:, :, 0, i].ravel())
    below = (made // 4) % 2
    assert (below == below[..., :1]).all()  # over one network below


def test_orthogonal_rows_are_not_recombined():
    made = linear_network("orthogonal")
    steps = measurement._steps(made, measurement.Plan(5, 4, 2), 1)
    assert [step.is_free for step in steps] == [False, False]
    assert not any(step.is_apart for step in steps)
    steps = measurement._steps(linear_network("uniform"), measurement.Plan(5, 4, 2), 1)
    assert [step.is_one for step in steps] == [True, True]
    assert [step.is_apart for step in steps] == [False, True]


def haar(random, out, fan_in):
    """√2 times a Haar matrix."""
    return laws.Law("orthogonal", (out, fan_in), sympy.Integer(2)).draw((out, fan_in), random)


def test_orthogonal_rows_of_a_models_own_are_not_recombined():
    """By a framework that says nothing of rows, beside a head of Gaussian ones, which are tested:
    |z^{(1)}|² is the same in every initialization, so that V/(nK²) of layer 1 is −2/(n + 2). One
    comparison, at 5 standard errors."""

    def draw(random, out, fan_in):
        return (haar if fan_in == 6 else gaussian)(random, out, fan_in)

    made = described(Perceptron((6, 24, 3), draw=draw))
    assert [made.laws[path].kind for path in ("W1", "W2")] == ["orthogonal", "gaussian"]
    sampled = measurement.measure(made, X, measurement.Plan(20, 10, 2), 1000)
    assert [each.layer for each in sampled.rows] == [2]
    n, K = 24, float(sampled.first["K"][0])
    V, se = (float(sampled.second[name][0]) / (n * K**2) for name in ("V", "V_se"))
    assert abs(V + 2 / (n + 2)) < 5 * se
    assert 5 * se < 1 / n


X = np.array([[1.0, -0.5, 0.3, 0.8, -1.2, 0.4]])


def alike(random, shape, rho):
    """Gaussian numbers, correlated along the first axis."""
    common = random.standard_normal((1, *shape[1:]))
    return math.sqrt(1 - rho) * random.standard_normal(shape) + math.sqrt(rho) * common


def with_biases(rho):
    """As it is read of independent ones: whose entries are told apart by no law."""
    plain, own = (
        Perceptron((6, 24, 3), bias=lambda random, out, rho=each: alike(random, (out,), rho))
        for each in (0.0, rho)
    )
    return replace(described(plain), reading=own)


def with_rows(rho, scale=0.0):
    """Layer 1 with correlated rows, or with lengths that all its rows share."""

    def draw(random, out, fan_in):
        W = alike(random, (out, fan_in), rho if fan_in == 6 else 0.0) / math.sqrt(fan_in)
        return W * math.sqrt(1 + scale * random.choice([-1, 1])) if fan_in == 6 else W

    return replace(described(Perceptron((6, 32, 3))), reading=Perceptron((6, 32, 3), draw=draw))


@pytest.mark.parametrize(
    ("model", "rho", "expected"),
    [
        (with_biases, 0.6, 0.6 * 1 / (1 + float((X**2).mean()))),
        (with_rows, 0.12, 0.12),
    ],
)
def test_neurons_that_are_not_independent_stay_together(model, rho, expected):
    """V/(nK²) of layer 1 is 2 Corr(z_i, z_j)². One comparison each, at 5 standard errors."""
    made = model(rho)
    sampled = measurement.measure(made, X, measurement.Plan(20, 30, 2), 1000)
    first, n = sampled.rows[0], made.widths[1]
    assert first.layer == 1
    assert first.z > first.bound
    assert not first.are_free
    assert "not independent" in str(first)
    K = float(sampled.first["K"][0])
    V, se = (float(sampled.second[name][0]) / (n * K**2) for name in ("V", "V_se"))
    assert abs(V - 2 * expected**2) < 5 * se
    assert 5 * se < V


def test_lengths_that_rows_share_are_seen():
    """|W_i|² of all rows 1 ± 0.1 times itself: V/(nK²) is 0.01, though no row is correlated."""
    made = with_rows(0.0, scale=0.1)
    K = np.full((2, 1), float((X**2).mean()))
    tests = independence.Tests(made, [0], 0)
    tests.add(made.reading.values(made.reading.initialize(range(600))))
    (found,) = tests.rows(K)
    assert found.z > found.bound
    assert not found.are_free


@pytest.mark.parametrize("model", [with_biases, with_rows])
def test_independent_neurons_are_recombined_with_the_test_in_the_error(model):
    """The false alarm is one of 5.7e-7."""
    made = model(0.0)
    sampled = measurement.measure(made, X, measurement.Plan(5, 20, 2), 1000)
    first, n = sampled.rows[0], made.widths[1]
    assert first.are_free
    assert first.z < first.bound
    assert "assumption" in str(first)
    K = float(sampled.first["K"][0])
    V, se = (float(sampled.second[name][0]) / (n * K**2) for name in ("V", "V_se"))
    assert V == 0
    assert se == pytest.approx(first.error)
    assert first.error < first.direct


def skipped(kind="gaussian", n=8, f=16):
    """z' = 2 z + W_c W_b z on 3 inputs, C_W = 1 for all."""

    def build(t, W, x):
        z = t.linear(x, W("a", n, 3), None)
        u = t.linear(t.linear(z, W("b", f, n), None), W("c", n, f), None)
        return t.add(t.multiply(z, sympy.Integer(2)), u)

    kinds = {"a": (kind, (n, 3)), "b": ("gaussian", (f, n)), "c": (kind, (n, f))}
    return described_by(traced(build), kinds)


def test_a_skip_around_one_matrix_is_measured_as_a_whole():
    """A symmetric W has rows that look uncorrelated, and E W_ij W_ji."""

    def build(t, W, x):
        z = t.linear(x, W("a", 8, 3), None)
        u = t.linear(t.apply(sympy.tanh, z), W("c", 8, 8), None)
        return t.add(z, u)

    kinds = {"a": ("gaussian", (8, 3)), "c": ("gaussian", (8, 8))}
    assert measurement.skip(described_by(traced(build), kinds), 1) is None
    assert measurement.skip(skipped(), 1) is not None


@pytest.mark.parametrize("kind", ["gaussian", "signs"])
def test_V_behind_a_skip_is_known(kind, monkeypatch):
    """V' = (2γ² + 1) κ + 2 (n K² + κ)/f, κ = E z⁴ − K², as E[z'_i² | z] = γ² z_i² + |W_b z|²/f
    whatever W_c: with what it carries taken from below, and as a whole. Four comparisons at 5
    standard errors."""
    n, f, factor = 8, 16, 2
    x = np.array([[1.0, -0.5, 2.0]])
    K = float(x[0] @ x[0]) / 3
    excess = {"gaussian": 0.0, "signs": -2.0}[kind]
    kappa = 2 * K**2 + excess * float((x**4).sum()) / 9
    expected = (2 * factor**2 + 1) * kappa + 2 * (n * K**2 + kappa) / f
    made, found = skipped(kind), []
    for carried in (True, False):
        if not carried:
            monkeypatch.setattr(measurement, "skip", lambda description, number: None)
        sampled = measurement.measure(made, x, measurement.Plan(40, 10, 2), 3)
        V, se = (float(sampled.second[name][1]) for name in ("V", "V_se"))
        assert abs(V - expected) < 5 * se
        found.append(se)
    assert found[0] < found[1]


def test_what_a_skip_leaves_out_has_mean_zero():
    """Σ_{i≠j} T_i T_j is α α, α β + β α + β β and what is kept, one by one."""
    random = np.random.default_rng(1)
    factor, (z, behind) = 0.7, random.standard_normal((2, 5, 2, 3))
    K, P = skips.moments(factor, z, behind)
    y = behind - factor * z
    products = np.einsum("kai,kbi->kabi", behind, behind)
    eta = np.einsum("kai,kbi->kabi", y, y)
    rest = products - eta
    np.testing.assert_allclose(K, eta.mean(axis=(0, 3)))
    expected = np.zeros((2,) * 4)
    for i in range(3):
        for j in (at for at in range(3) if at != i):
            expected += np.einsum("kab,kcd->abcd", products[..., i], products[..., j])
            expected -= np.einsum("kab,kcd->abcd", rest[..., i], rest[..., j])
    np.testing.assert_allclose(P, expected / (5 * 6))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda W: W + 0.1 / math.sqrt(W.shape[-1]),
        lambda W: math.sqrt(0.99) * W + 0.1 * W[:, :1],
    ],
)
def test_last_matrices_with_a_mean_or_correlated_rows_are_seen(spoil):
    """The sound one's rate of false alarms is 1.9e-7."""
    made = skipped(n=24, f=32)
    own = measurement.skip(made, 1)
    values = dict(made.reading.values(made.reading.initialize(range(400))))
    for bad in (False, True):
        tests = skips.Centring({1: own})
        tests.add({**values, "c": spoil(values["c"])} if bad else values)
        (found,) = tests.tests()
        assert found.is_used == (not bad)
        assert ("as a whole" in str(found)) == bad


def test_a_skip_that_is_not_used_is_measured_as_a_whole(monkeypatch):
    """The same numbers as without it."""
    made, planned = skipped(), measurement.Plan(6, 4, 2)
    own = Drawn(made.structure.graph, made.laws)
    own.has_free_rows = False
    x = np.array([[1.0, -0.5, 2.0]])
    refused = skips.Centred(2, 9.0, 5.0)
    monkeypatch.setattr(skips.Centring, "tests", lambda tests: [refused])
    one = measurement.measure(replace(made, reading=own), x, planned, 3)
    assert refused in one.rows
    monkeypatch.setattr(measurement, "skip", lambda description, number: None)
    monkeypatch.setattr(skips.Centring, "tests", lambda tests: [])
    other = measurement.measure(replace(made, reading=own), x, planned, 3)
    np.testing.assert_array_equal(one.second["V"], other.second["V"])


def test_what_tells_less_than_V_itself_does_not_recombine():
    told = independence.Rows(3, 1.0, 5.0, 0.05, 0.04)
    assert not told.are_free
    assert "no better" in str(told)
    assert told._replace(error=0.03).are_free


def many_nodes(t, W, x):
    """A norm of two groups, a gate, a skip with a factor, and a layer norm before the head."""
    u = t.linear(x, W("stem", 4, 3), Parameter("bias", np.zeros(4)))
    y = t.norm(u, "rms", 1e-3, {}, 2)
    gate = t.multiply(
        t.linear(y, W("a", 5, 4), None), t.apply(functions.silu, t.linear(y, W("b", 5, 4), None))
    )
    u = t.add(u, t.multiply(t.linear(gate, W("c", 4, 5), None), sympy.Rational(1, 2)))
    return t.linear(norm_by_hand(t, u), W("head", 2, 4), Parameter("last", np.zeros(2)))


def test_tangents_are_sums_of_squared_derivatives():
    """Against differences of every parameter."""
    graph = traced(many_nodes)
    told = {
        path: laws.Law("gaussian", np.shape(value), sympy.Integer(1))
        for path, value in graph.parameters.items()
    }
    drawn = Drawn(graph, told)
    assert drawn.is_known
    made = drawn.initialize([4, 5])
    X = np.array([[1.0, -0.5, 2.0], [0.3, 0.7, -1.0]])
    found = drawn.tangents(made, X, [graph.output])[:, 0]
    step, expected = 1e-5, np.zeros_like(found)
    for path, values in made.items():
        for at in np.ndindex(values.shape[1:]):
            moved = []
            for sign in (1, -1):
                changed = {key: each.copy() for key, each in made.items()}
                changed[path][(slice(None), *at)] += sign * step
                moved.append(drawn.propagate(changed, 0, X[None], graph.output)[..., 0])
            slope = (moved[0] - moved[1]) / (2 * step)
            expected += slope[:, :, None] * slope[:, None, :]
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_what_is_drawn_is_the_model():
    """The same matrices give the same values and tangent kernels as the model's own framework."""
    own = Perceptron((3, 6, 5, 2), bias=lambda random, out: random.standard_normal(out))
    made = described(own)
    drawn = Drawn(own.graph, made.laws)
    values = own.draw(3)
    stacked = {path: each[None] for path, each in values.items()}
    X = np.random.default_rng(0).standard_normal((2, 3))
    nodes = [block.node for block in made.structure.blocks]
    for below, node in ((0, nodes[0]), (nodes[0], nodes[2])):
        states = X[None] if below == 0 else drawn.propagate(stacked, 0, X[None], below)
        np.testing.assert_allclose(
            drawn.propagate(stacked, below, states, node),
            own.propagate([values], below, states, node),
        )
    np.testing.assert_allclose(drawn.tangents(stacked, X, nodes), own.tangents([values], X, nodes))


def small_theory(error):
    values = {"K": np.array([1.0, 2.0]), "K_error": np.array([0.0, error])}
    first = layout.table([1, 2], **values)
    second = layout.table(
        [1, 2], V=np.ones(2), V_error=np.zeros(2), K=np.ones(2), K_error=np.zeros(2)
    )
    return theory.Theory(first, second, np.ones(2), np.ones(2), {}, np.zeros(2), np.ones(2))


def small_sample(K, se):
    table = layout.table([1, 2], {"width": 8, "draws": 10}, K=(np.array([1.0, K]), np.full(2, se)))
    return measurement.Sample(table, None, np.zeros(2, np.int64))


def test_an_ensemble_says_what_is_left_out_where_that_is_less():
    coarse = small_theory(0.5)
    assert truncation.is_coarse(coarse)
    assert not truncation.is_coarse(coarse, ("V",))
    assert not truncation.is_coarse(small_theory(0.01))
    found = truncation.bounded(coarse, small_sample(2.1, 0.01)).first
    np.testing.assert_allclose(found["K_within"], [0, 0.1])
    np.testing.assert_allclose(found["K_error"], [0, 0.01])
    same = truncation.bounded(coarse, small_sample(6.0, 0.01)).first  # 4 away: no closer
    np.testing.assert_allclose(same["K_within"], [0, 0])
    np.testing.assert_allclose(same["K_error"], [0, 0.5])


def test_an_estimate_is_the_most_that_a_verdict_allows_for():
    """As a standard error of a sixth, at a bound of some six of these; of the tensors named."""
    found = truncation.tightened(small_theory(0.6), ["K"])
    np.testing.assert_allclose(found.first["K_error"], [0, 0.1])
    same = truncation.tightened(small_theory(0.6), ["Theta", "V"])
    np.testing.assert_allclose(same.first["K_error"], [0, 0.6])


def test_what_is_known_to_be_left_out_is_taken_off_and_counts():
    derived = truncation.bounded(small_theory(0.5), small_sample(2.1, 0.01))
    about = {"width": 8, "draws": 100, "blocks": 50}
    sampled = layout.table([1, 2], about, K=(np.array([1.0, 2.15]), np.array([0.01, 0.02])))
    found = compare(derived.first, sampled)
    (row,) = [each for each in found.rows if each.layer == 2]
    se = math.hypot(0.01, 0.02)
    assert row.z == pytest.approx(0.05 / se)
    assert row.within == pytest.approx(0.1)
    assert "known to leave out, 5 % at most (K at layer 2)" in found.summary
    assert row.share == pytest.approx((found.bound * se + 0.1) / 2)
    limit = limits(found, sampled)
    assert limit.theory == pytest.approx((found.bound * 0.01 + 0.1) / 2)
    beyond = layout.table([1, 2], about, K=(np.array([1.0, 2.4]), np.array([0.01, 0.02])))
    assert not compare(derived.first, beyond).agrees


@pytest.mark.parametrize("gap", [0.1, -0.1])
def test_samples_are_compared_with_the_ensemble_on_both_sides(gap):
    """9 standard errors to either side of it, theory's side too, are a disagreement; 3 are none."""
    derived = truncation.bounded(small_theory(0.5), small_sample(2 + gap, 0.01))
    about, se = {"width": 8, "draws": 100, "blocks": 50}, math.hypot(0.01, 0.02)
    for away, agrees in ((-9, False), (-3, True), (3, True), (9, False)):
        value = np.array([1.0, 2 + gap + away * se])
        sampled = layout.table([1, 2], about, K=(value, np.array([0.01, 0.02])))
        found = compare(derived.first, sampled)
        assert found.agrees == agrees
        assert found.worst.z == pytest.approx(away)


@pytest.mark.parametrize(("K", "times"), [(2.1, 0.0), (2.4, 0.8), (3.5, 3.0)])
def test_what_is_left_out_beyond_its_estimate_is_told(K, times):
    """Estimated as 0.5, with a standard error of 0.1: 0.1 is 1 of these, 1.5 three estimates."""
    coarse = small_theory(0.5)
    after = truncation.bounded(coarse, small_sample(K, 0.1 if K < 2.2 else 0.06))
    (told,) = truncation.omitted(coarse, after)
    assert (told.tensor, told.layer) == ("K", 2)
    assert told.share == pytest.approx((K - 2) / 2)
    assert told.z == pytest.approx((K - 2) / (0.1 if K < 2.2 else 0.06))
    assert told.times == pytest.approx(times)
    assert told.is_beyond == (times > 1)
    assert ("times what was estimated" in str(told)) == (times > 1)
    assert not list(truncation.omitted(coarse, coarse))


def test_what_is_drawn_is_not_what_the_measurement_draws():
    """No stream is that of a group's numbers, (seed, group)."""
    made = Drawn(linear_network("gaussian").structure.graph, linear_network("gaussian").laws)
    entries = made.initialize([0])["a"][0]
    for group in range(60):
        own = np.random.default_rng((0, group)).standard_normal(entries.shape)
        assert abs(own / 3**0.5 - entries).max() > 1e-3


def test_a_small_V_is_told_as_a_fluctuation():
    """V/(nK²), of n = 8 and K = 2: V = 0.32 is 0.01, and a difference of 0.64 is 0.02."""
    table = layout.table([2], V=np.array([0.32]), K=np.array([2.0]))
    sampled = layout.table([2], {"width": 8, "draws": 10}, V=(np.array([0.3]), np.array([0.1])))
    found = compare(table[["V"]], sampled)
    told = of_fluctuations(limits(found, sampled), found, table, 8)
    assert told.at_most == pytest.approx(0.01)
    assert told.off_by == pytest.approx(found.bound * 0.1 / 32)
    assert f"off by {told.off_by:.2g}" in str(told)


def test_laws_that_cannot_be_drawn_have_no_ensemble():
    graph = traced(lambda t, W, x: t.linear(x, W("a", 4, 3), None))
    for kind, known in (("low-rank gaussian", False), ("sparse", True), ("orthogonal", True)):
        assert Drawn(graph, {"a": laws.Law(kind, (4, 3), sympy.Integer(1))}).is_known == known
