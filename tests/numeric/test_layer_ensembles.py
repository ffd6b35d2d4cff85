"""Ensembles of networks with layers of several stages: norms, skips, gates."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, activations, layers
from derive.errors import InputError
from derive.gaussian import Average
from derive.recursions import recursion, wanted
from numeric import compare, flow
from numeric.estimators import Plan, Probes, needed, unbiased
from numeric.runs import Sharing, chunks
from numeric.samplers import Arithmetic, ProbeSampler, checked_ensemble, jets
from numeric.simulations import make_sampler, record, simulate

ONE, TWO = [[1.0, 0.5, -0.7]], [[1.0, 0.5, -0.7], [0.3, 1.1, 0.4]]
TANH = activations.tanh
PROBES = Probes((3, 2))


def network(layer, weights=None, **others):
    """With Gaussian weights and so a Gaussian law in layer 1."""
    first = Gaussian(1.2)
    return Network(TANH, weights or Gaussian(1.5), first, layer=layer, **{"C_b": 0.1, **others})


def sampler(net, inputs, width, tensors, name="lazy", depth=3, seed=1):
    ensemble = checked_ensemble(net, inputs, width, depth, seed)
    return make_sampler(ensemble, Plan(wanted(tensors), len(inputs)), name)


def random_jet(seed, n, m=1):
    return np.random.default_rng(seed).normal(size=(2, len(PROBES.jets), m, n))


def test_jets_multiply_like_polynomials_in_nilpotents():
    x, y = random_jet(0, 5), random_jet(1, 5)
    place = {jet: number for number, jet in enumerate(PROBES.jets)}
    found = jets.times(PROBES, x, y)
    both = place[(0, 1)]
    expected = (
        x[:, 0] * y[:, both]
        + x[:, place[(0,)]] * y[:, place[(1,)]]
        + x[:, place[(1,)]] * y[:, place[(0,)]]
        + x[:, both] * y[:, 0]
    )
    np.testing.assert_allclose(found[:, both], expected, rtol=1e-14)
    total = found.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(jets.summed(PROBES, x, y), total, rtol=1e-12, atol=1e-12)


def test_a_function_of_jets_is_their_product_where_it_is_a_polynomial():
    x, y = random_jet(2, 1), random_jet(3, 1)
    a, b = sympy.symbols("a b")

    def derivative(orders):
        value = sympy.lambdify((a, b), sympy.diff(a**2 * b, a, orders[0], b, orders[1]))
        return np.broadcast_to(value(x[:, 0], y[:, 0]), x[:, 0].shape)

    expected = jets.times(PROBES, jets.times(PROBES, x, x), y)
    np.testing.assert_allclose(
        jets.composed(PROBES, derivative, (x, y)), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("tensors", ["V", ["V", "A", "D"]])
@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
def test_the_dense_layer_as_stages_has_the_numbers_of_the_dense_sampler(weights, tensors):
    net = network("dense", weights, C_b=0, lambda_b=0)
    ensemble, plan = checked_ensemble(net, TWO, 8, 4, 3), Plan(wanted(tensors), 2)
    probes, draws = needed(plan.trees()), np.arange(5)
    dense = ProbeSampler(ensemble, plan, probes)
    found = np.stack(list(dense.passed(Arithmetic(ensemble, probes, draws))), axis=1)
    expected = dense.statistics(draws)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["lazy", "paths", "probes", "explicit"])
def test_a_sequence_of_dense_layers_is_sampled_as_the_dense_network(name):
    one, sequence = (
        simulate(Network("tanh", layer=layer), TWO, 6, 3, 20, tensors="A", seed=1, sampler=name)
        for layer in ("dense", "dense; dense")
    )
    assert sequence.equals(one)
    assert sequence.attrs["sampler"] == one.attrs["sampler"]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_normalized_linear_layer_is_known_at_every_width(norm):
    # |y|² = n: given y, z is Gaussian; or on a sphere, where E z_i² z_j² = C² n/(n + 2)
    n, net = 7, Network(activations.linear, Gaussian(1.5), layer=f"normalized({norm})")
    made = sampler(net, ONE, n, ["K", "V"])
    values = made.statistics(np.arange(20))[:, 1:]
    K = values[..., made.plan.position[made.plan.statistics[0]]]
    np.testing.assert_allclose(K, 1.5, rtol=1e-13)
    np.testing.assert_allclose(values.prod(axis=-1), 1.5**3, rtol=1e-12)  # E z_i² z_j² = K²
    net = Network(
        activations.linear, Orthogonal(1.5), Gaussian(), layer=f"normalized({norm})", C_b=0
    )
    values = sampler(net, ONE, n, ["K", "V"]).statistics(np.arange(20))[:, 1:]
    np.testing.assert_allclose(values.prod(axis=-1), 1.5**3 * n / (n + 2), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        "residual(skip=0.8, norm=layer, ratio=2)",
        "gated(skip=0.5, norm=rms, C=(1.3, 0.9, 1.1))",
        layers.Layer(
            "h[i] = W1[i,a] z[a]",
            "q = h[a] h[a]/n",
            "k[i] = h[i]/sqrt(q + eps)",
            "z[i] = gamma z[i] + b[i] + W2[i,a] s(k[a])",
            gamma=0.7,
            eps=0.1,
        ),
    ],
)
@pytest.mark.parametrize("weights", [Orthogonal(1.5)])
def test_lazy_and_explicit_networks_agree(layer, weights):
    tensors = ["K", "V", "Theta", "D", "F", "A", "B"]
    net = network(layer, weights)
    lazy, explicit = (
        simulate(net, TWO, 10, 3, 600, tensors=tensors, seed=4, sampler=name)
        for name in ("lazy", "explicit")
    )
    scores = [
        (lazy[name] - explicit[name])[1:] / np.hypot(lazy[f"{name}_se"], explicit[f"{name}_se"])[1:]
        for name in tensors
    ]
    flat = np.concatenate([each.to_numpy().ravel() for each in scores])
    assert flat.size == 2 * (2 * 4 + 5 * 16)
    assert np.abs(flat).max() < 5.5  # 176 scores, a false alarm in 10^5


def gaussian(average, K):
    """A bracket of tanh, by Gauss and Hermite: ⟨∂^k f⟩_K = E[He_k(x) f(√K x)]/K^{k/2}."""
    x, w = np.polynomial.hermite_e.hermegauss(120)
    z = sympy.Symbol("z")
    bracket = average.bracket
    product = sympy.prod([sympy.diff(sympy.tanh(z), z, order) for _, order in bracket.factors])
    k = len(bracket.outer)
    He = np.polynomial.hermite_e.hermeval(x, [0] * k + [1])
    values = sympy.lambdify(z, product, "numpy")(np.sqrt(K) * x)
    return float(w @ (He * values) / np.sqrt(2 * np.pi) / K ** (k / 2))


def predicted(layer, weights, K_inside, depth, change=lambda expr: expr):
    """K, V and G1 of layers 2 … depth by the recursions, from a Gaussian layer 1."""
    C_W = float(weights.C_W)
    numbers = {"C_W": C_W, "C_b": 0.1, "K": 0.1 + 1.2 * np.square(ONE).mean(), "V": 0.0, "G1": 0.0}
    kind = type(weights)()
    expressions = {}
    for name in ("K", "V", "G1"):
        expr = change(recursion(name, weights=kind, layer=layer).single_input().expr)
        values = {each: gaussian(each, K_inside) for each in expr.atoms(Average)}
        expressions[name] = expr.xreplace(values)
    rows = []
    for _ in range(2, depth + 1):
        known = {s: numbers[s.name] for e in expressions.values() for s in e.free_symbols}
        numbers |= {name: float(each.subs(known)) for name, each in expressions.items()}
        rows.append([numbers[name] for name in ("K", "V", "G1")])
    return np.array(rows)


def extrapolated(net, widths, draws, K, depth):
    """K, V and G1 at infinite width, and their errors: lines in 1/n through ensembles."""
    values, errors = [], []
    for n in widths:
        found = record(
            sampler(net, ONE, n, ["K", "V"], depth=depth),
            draws,
            chunks.Options(None, None, None, False),
        )
        own = {name: unbiased.cumulant(found, wanted([name])[0]) for name in ("K", "V")}
        k, v = (own[name].value.reshape(depth, -1)[1:, 0] for name in ("K", "V"))
        dk, dv = (own[name].error.reshape(depth, -1)[1:, 0] for name in ("K", "V"))
        values.append(np.stack([k, n * v, n * (k - K)], axis=1))
        errors.append(np.stack([dk, n * dv, n * dk], axis=1))
    y, s = np.array(values), np.array(errors)
    x = (1 / np.array(widths))[:, None, None]
    weight = 1 / s**2
    total, mean = weight.sum(0), (weight * x).sum(0)
    slope = (weight * x**2).sum(0)
    determinant = total * slope - mean**2
    at_zero = (slope * (weight * y).sum(0) - mean * (weight * x * y).sum(0)) / determinant
    return at_zero, np.sqrt(slope / determinant)


CASES = [
    ("normalized(rms)", 1.0),
    ("normalized(layer)", 1.0),
    ("residual(skip=1/2, norm=rms)", 1.5),
    ("gated(norm=rms)", 1.5),
]


@pytest.mark.parametrize(("layer", "K"), CASES)
@pytest.mark.parametrize("weights", [Gaussian(1.5), Orthogonal(1.5)])
def test_ensembles_meet_the_recursions(layer, K, weights):
    depth, given = 4, layers.read(layer)
    theory = predicted(given, weights, K, depth)
    found, error = extrapolated(network(given, weights), (24, 48, 96), 12000, theory[:, 0], depth)
    assert np.abs((found - theory) / error).max() < 5.5  # 9 scores
    assert (error[:, 1] < 0.03 * np.abs(theory[:, 1]).max() + 0.03).all()


DIFFERING = "dense; residual(norm=rms)*; normalized(layer)"


def test_ensembles_meet_layers_that_differ():
    net = network(DIFFERING, Orthogonal(1.5))
    sampled = [simulate(net, ONE[0], n, 4, 12000, tensors=["K", "V"], seed=5) for n in (24, 48, 96)]
    compared = compare(flow(net, ONE[0], 4, ["K", "V"]), sampled)
    assert compared.agrees  # 8 scores
    assert compared.resolution < 0.15
    for other in ("residual(norm=rms); dense; normalized(layer)", "dense; gated*"):
        theory = flow(replace(net, layer=other), ONE[0], 4, ["K", "V"])
        assert not compare(theory.assign_attrs(sampled[0].attrs), sampled).agrees


def test_ensembles_meet_layers_of_unequal_widths():
    net = network("normalized(layer)", Orthogonal(1.5), width_ratio=[1, 2, "1/2"])
    wanted_ = ["K", "V", "Theta"]
    sampled = [simulate(net, ONE[0], n, 3, 6000, tensors=wanted_, seed=3) for n in (16, 32, 64)]
    compared = compare(flow(net, ONE[0], 3, wanted_), sampled)
    assert compared.agrees  # 9 scores
    assert compared.resolution < 0.12
    wrong = flow(replace(net, width_ratio=1), ONE[0], 3, wanted_)
    assert not compare(wrong.assign_attrs(sampled[0].attrs), sampled).agrees


@pytest.mark.parametrize("name", ["lazy", "explicit"])
def test_each_layer_is_drawn_in_its_place(name):
    """A head that normalizes a linear network: K is known at every width."""
    net = Network(activations.linear, Gaussian(1.5), layer="dense; gated*; normalized(rms)")
    made = sampler(net, ONE, 7, ["K"], name, depth=5)
    values = made.statistics(np.arange(10))[..., 0]
    np.testing.assert_allclose(values[:, 4], 1.5, rtol=1e-12)
    assert values[:, 1:4].std(axis=0).min() > 0.05


def test_a_wrong_recursion_is_noticed():
    # V of a norm without what the norm's own fluctuation takes away, ⟨(σ²)''⟩²/2
    def without(expr):
        return expr.xreplace({each: 0 for each in expr.atoms(Average) if each.bracket.outer})

    layer, weights = layers.read("normalized(rms)"), Gaussian(1.5)
    true = predicted(layer, weights, 1.0, 3)
    wrong = predicted(layer, weights, 1.0, 3, without)
    found, error = extrapolated(network(layer, weights), (24, 48, 96), 12000, true[:, 0], 3)
    assert (np.abs(found - wrong)[:, 1] > 10 * error[:, 1]).all()


@pytest.mark.parametrize("name", ["lazy", "explicit"])
def test_a_network_is_the_same_in_any_batch_and_thread(name):
    net = network("gated(skip=0.5, norm=layer)")
    made = sampler(net, TWO, 12, ["V", "Theta", "D"], name)
    assert made.label == {"lazy": "probes"}.get(name, name)
    together = made.statistics(np.arange(6))
    np.testing.assert_array_equal(made.statistics(np.array([4]))[0], together[4])
    with ThreadPoolExecutor(2) as pool:
        shared = made.sums(0, 40, made.reference, Sharing(pool, 2))
    np.testing.assert_array_equal(shared, made.sums(0, 40, made.reference))


@pytest.mark.slow
def test_equal_norms_of_one_input_are_equal_networks():
    # h = W₁ y: of one input W₁ sees nothing but |y|² = n
    first, second = (
        sampler(network(f"residual(norm={norm})"), ONE, 9, ["V"]).statistics(np.arange(4))
        for norm in ("rms", "layer")
    )
    np.testing.assert_allclose(first, second, rtol=1e-10)


def test_a_run_is_of_one_layer(tmp_path):
    def call(layer):
        net = network(layer)
        simulate(net, ONE, 8, 2, 50, tensors="V", run=tmp_path / "run")

    call("residual(norm=rms)")
    call("residual(norm=rms)")
    with pytest.raises(InputError, match="run"):
        call("residual(norm=rms, ratio=2)")


def test_what_cannot_be_sampled_is_refused():
    with pytest.raises(InputError, match="paths"):
        sampler(network("gated"), ONE, 8, "V", "paths")
    with pytest.raises(InputError, match="gamma"):
        sampler(network("residual(skip=gamma)"), ONE, 8, "V")
    with pytest.raises(InputError, match="whole part"):
        sampler(network("residual(ratio=1/3)"), ONE, 8, "V").statistics(np.arange(1))
    with pytest.raises(InputError, match="around which residual"):
        sampler(network("residual", width_ratio=lambda layer: layer), ONE, 8, "V")
