"""Activations and laws that differ by layer, and layers with laws and activations of their own."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import sympy

from derive import (
    Gaussian,
    InputError,
    Network,
    Orthogonal,
    Rademacher,
    Sparse,
    Uniform,
    activations,
    criticality,
    exact,
    layers,
    recursion,
)
from derive.symbols import lambda_b, n
from numeric import flow, simulate, spectra, training, write_module

X = np.array([[1.0, 0.5, -0.3], [0.2, -0.4, 1.1]])
TENSORS = ["K", "G1", "V", "Theta", "Theta1", "D", "F", "A", "B"]
BENT, CUBIC = "polynomial(0,1,1/2)", "polynomial(0,1,0,1/3)"
OWN = layers.Layer("h[i] = W1[i,a] tanh(z[a])", "z[i] = b[i] + W2[i,a] s(h[a])")
MASKED = layers.Layer(
    "h[i] = W1[i,a] z[a]", "z[i] = 1/2 z[i] + b[i] + W2[i,a] s(h[a])", keep={"W2": "1/2"}
)
PLAIN = layers.Layer("h[i] = W1[i,a] s(z[a])", "z[i] = b[i] + W2[i,a] s(h[a])")


def largest_difference(one, other, tensors=TENSORS):
    """Relative to the largest entry of each tensor."""
    pairs = ((each[name].to_numpy().astype(float) for each in (one, other)) for name in tensors)
    return max(float(np.abs(a - b).max() / max(1.0, np.abs(a).max())) for a, b in pairs)


def test_texts_sequences_and_functions_name_activations_and_laws():
    net = Network("tanh; gelu*2; linear", ["gaussian", Orthogonal(2), "uniform"])
    assert [net.activation_at(at, 5).name for at in range(1, 5)] == [
        "tanh",
        "gelu",
        "gelu",
        "linear",
    ]
    assert [str(net.weights_at(at, depth=3)) for at in (1, 2, 3)] == [
        "Gaussian(C_W=1)",
        "Orthogonal(C_W=2)",
        "Uniform(C_W=1)",
    ]
    last = Network("relu; tanh*; linear")
    assert [last.activation_at(at, 6).name for at in (1, 2, 4, 5)] == [
        "relu",
        "tanh",
        "tanh",
        "linear",
    ]
    assert pickle.loads(pickle.dumps(net)) == net
    turns = Network(lambda layer: "tanh" if layer % 2 else "sin", lambda layer: Gaussian(C_W=layer))
    assert [turns.activation_at(at, 4).name for at in (1, 2, 3)] == ["tanh", "sin", "tanh"]
    assert turns.tabulated(3).weights_at(3, depth=3) == Gaussian(3)
    with pytest.raises(InputError, match="5 at most"):
        net.activation_at(5, 6)
    with pytest.raises(InputError, match="the depth of a network"):
        last.activation_at(3)


def test_the_first_law_alone_is_first_weights():
    net = Network("tanh", "gaussian; orthogonal*")
    assert net == Network("tanh", Orthogonal(), first_weights=Gaussian())
    assert (net.weights, net.first_weights) == (Orthogonal(), Gaussian())
    assert replace(net, weights=Gaussian(2)).first_weights == Gaussian()
    with pytest.raises(InputError, match="first_weights"):
        Network("tanh", "gaussian; orthogonal; uniform", first_weights="gaussian")


@pytest.mark.parametrize("given", ["tanh; nothing", "tanh*; gelu*", "", ["tanh", 3], "tanh**"])
def test_what_are_no_activations(given):
    with pytest.raises(InputError, match="activation"):
        Network(given)


@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_equal_layers_named_one_by_one_are_one_network(law):
    one = flow(Network("tanh", law, C_b=0.1), X, 4, TENSORS)
    named = flow(Network(["tanh"] * 3, [law] * 4, C_b=0.1), X, 4, TENSORS)
    assert largest_difference(one, named) < 1e-14


@pytest.mark.parametrize(
    ("sigmas", "laws"),
    [
        ((BENT, "linear"), (Gaussian(), Orthogonal(), Orthogonal())),
        ((BENT, "linear"), (Orthogonal(), Rademacher(), Gaussian())),
        ((BENT, "linear"), (Gaussian(2), Uniform(), Orthogonal())),
        ((CUBIC, "linear"), (Gaussian(), Orthogonal(2), Uniform())),
        (("linear", BENT), (Gaussian(), Sparse("1/3"), Orthogonal())),
    ],
    ids=str,
)
def test_mixed_networks_are_the_limit_of_exact_ones(sigmas, laws):
    """K + G1/n and V of every layer against exact moments at any width n, in rationals."""
    net, x = Network(sigmas, laws, C_b="1/10"), sympy.Symbol("x")
    for depth in (2, 3):
        table = flow(net, np.ones(4), depth, ["K", "G1", "V"], width=4).isel(layer=-1)
        moments = [exact.cumulant(name, net, depth, kernel={(1, 1): 1}) for name in ("K", "V")]
        K, V = (sympy.series(each.subs(n, 1 / x), x, 0, 2).removeO() for each in moments)
        found = {"K": K.coeff(x, 0), "G1": K.coeff(x, 1), "V": V.coeff(x, 0)}
        for name, value in found.items():
            assert math.isclose(float(table[name]), float(value), rel_tol=1e-12, abs_tol=1e-12)


def test_exact_moments_know_the_head_of_a_network():
    nets = [
        Network(sigmas, laws, C_b="1/10")
        for sigmas, laws in (
            (f"{BENT}*; linear", "gaussian; orthogonal*; uniform"),
            ((BENT, "linear"), ("gaussian", "orthogonal", "uniform")),
        )
    ]
    one, other = (exact.cumulant("V", net, 3, kernel={(1, 1): 1}) for net in nets)
    assert sympy.simplify(one - other) == 0


def test_the_gaussian_answer_is_wrong_behind_an_independent_layer():
    """What exact moments would see if a block of four were dropped."""
    laws = (Orthogonal(), Rademacher(), Gaussian())
    plain = (Orthogonal(), Gaussian(), Gaussian())
    one, other = (
        flow(Network(CUBIC, each), np.ones(4), 3, ["G1"], width=4) for each in (laws, plain)
    )
    assert abs(float(one["G1"][-1] - other["G1"][-1])) > 1.0


def test_an_independent_layer_under_orthogonal_ones():
    """z at layer 1 is a sum of n signs over √n with E z⁴ = 3 − 2/n, and z at layer 2 has a uniform
    direction: K = E σ² = 7/4 − 1/(2n), and V → Var σ² − 2 (E σ²)² = 29 − 2 (7/4)²."""
    net, n_0 = Network(BENT, "rademacher; orthogonal*"), 8
    table = flow(net, np.ones(n_0), 2, ["K", "G1", "V"], width=n_0).isel(layer=-1)
    found = [float(table[name]) for name in ("K", "G1", "V")]
    assert np.allclose(found, [7 / 4, -1 / 2, 29 - 49 / 8], rtol=1e-12, atol=0)
    sampled = simulate(net, np.ones(n_0), n_0, 2, 40_000, tensors=["K"], seed=3).isel(layer=-1)
    error = float(sampled["K_se"])
    assert abs(float(sampled["K"]) - (7 / 4 - 1 / 16)) <= 5 * error < 1 / 16


@pytest.mark.parametrize("precision", [None, 20])
def test_functions_and_laws_of_a_layer_are_its_own(precision):
    given = {"C_b": 0.1} if precision is None else {"C_b": "1/10"}
    pairs = [
        (
            Network("tanh", Orthogonal(), layer=OWN, **given),
            Network("tanh", Orthogonal(), layer=PLAIN, **given),
        ),
        (
            Network("gelu; tanh*", layer=layers.dense(activations="tanh"), **given),
            Network("tanh", **given),
        ),
        (
            Network("tanh", "gaussian", layer=layers.dense(weights="orthogonal"), **given),
            Network("tanh", "orthogonal", first_weights="gaussian", **given),
        ),
        (
            Network("tanh", layer=layers.dense(weights=Orthogonal(2)), **given),
            Network("tanh", Orthogonal(2), first_weights=Gaussian(), **given),
        ),
    ]
    for one, other in pairs:
        tensors = TENSORS[:3] if precision else TENSORS
        tables = (flow(each, X, 3, tensors, precision=precision) for each in (one, other))
        assert largest_difference(*tables, tensors) < 1e-13


def test_a_sequence_is_every_other_layer_of_its_parts():
    block = layers.sequence("residual(norm=rms)", "gated(norm=rms)")
    one = flow(Network("tanh", Orthogonal(), layer=block, C_b=0.1), X[0], 3, TENSORS)
    parts = "(residual(norm=rms); gated(norm=rms))*"
    other = flow(Network("tanh", Orthogonal(), layer=parts, C_b=0.1), X[0], 5, TENSORS)
    every = other.isel(layer=slice(0, None, 2))
    assert largest_difference(one, every) < 1e-13
    assert layers.read(str(block)) == block


def test_shipped_layers_are_blocks_with_a_skip():
    inner = layers.Layer("h[i] = W1[i,a] z[a]", "z[i] = b[i] + W2[i,a] s(h[a])")
    assert layers.around(inner, 1, "rms") == layers.residual(1, "rms")
    assert layers.around("dense", "1/2") == layers.skip("1/2")
    assert layers.around("dense", 0, "layer") == layers.normalized("layer")
    nested = layers.around(layers.sequence("gated", "dense"), "1/2", "rms")
    assert layers.read(str(nested)) == nested
    text = "residual(skip=1, norm=rms, weights=(W1: uniform, W2: orthogonal), activations=gelu)"
    assert str(layers.read(text)) == text


def test_around_a_sequence_is_the_layer_written_out():
    written = layers.Layer(
        "h[i] = W1[i,a] z[a]",
        "u[i] = b[i] + W2[i,a] s(h[a])",
        "z[i] = gamma z[i] + b[i] + W3[i,a] s(u[a])",
        gamma="1/2",
    )
    inner = layers.sequence(layers.residual(skip=0), "dense")
    made = layers.around(inner, "1/2")
    tables = (flow(Network("gelu", layer=each, C_b=0.1), X, 3, TENSORS) for each in (made, written))
    assert largest_difference(*tables) < 1e-14


def test_blocks_do_not_take_each_others_names():
    """What is open in one block, s, tanh or a symbol, is not what another gives that name."""
    gelu = layers.dense(activations="gelu")
    named = layers.Layer("z[i] = b[i] + W[i,a] tanh(z[a])")
    other = layers.Layer("z[i] = b[i] + W[i,a] tanh(z[a])", activations={"tanh": "gelu"})
    short = layers.Layer("z[i] = b[i] + W[i,a] s[a]")
    whole = flow(Network("sin; gelu; tanh", C_b=0.1), X, 4, ["K"])["K"][3].to_numpy()
    for block, sigma in (
        ((gelu, "dense"), "tanh"),
        ((other, named), "sin"),
        ((gelu, short), "tanh"),
    ):
        net = Network(["sin", sigma], C_b=0.1, layer=["dense", layers.sequence(*block)])
        assert np.abs(flow(net, X, 3, ["K"])["K"][2].to_numpy() - whole).max() < 1e-14

    text = "z[i] = b[i] + m W[i,a] s(z[a])"
    for blocks in ({"m": 3}, {}), ({}, {"m": 3}):
        made = layers.sequence(*(layers.Layer(text, **values) for values in blocks))
        assert {symbol.name for symbol in made.free_symbols} == {"m"}
    opened = layers.Layer("z[i] = b[i] + gamma eps W[i,a] s[a]")
    names = {symbol.name for symbol in layers.around(opened, "1/2", "rms").free_symbols}
    assert names == {"eps", "gamma"}
    assert layers.around(short, 0, "rms").lines == layers.normalized("rms").lines


def with_biases(text, **given):
    lines = "h[i] = W1[i,a] z[a]", "z[i] = 1/2 z[i] + b[i] + W2[i,a] s(h[a])"
    return layers.Layer(*text, lines[0] + given.pop("added"), lines[1], **given)


def test_biases_have_variances_of_their_own():
    """b1 of variance 1/3 is 2 b of C_b = 1/12 but for its learning rate, in any block."""
    own = with_biases((), added=" + b1[i]", C={"b1": "1/3"})
    scaled = with_biases(("u[i] = b[i]",), added=" + c u[i]", c=2)
    nets = [Network("gelu", C_b="1/12", lambda_b=0, layer=each) for each in (own, scaled)]
    assert largest_difference(*(flow(net, X, 3, TENSORS) for net in nets)) < 1e-13
    found = [spectra.of_network(net, 0.7, 2).moments(2) for net in nets]
    assert np.abs(found[0] - found[1]).max() < 1e-12
    theta = recursion("Theta", layer=own).single_input().expr
    assert str(theta.expand().coeff(lambda_b)) == "C_W*⟨σ'²⟩_h + 1"
    other = with_biases((), added=" + b1[i]", C={"b1": 2})
    both = Network("tanh", C_b="1/12", layer=layers.sequence(own, other))
    tables = [flow(both, X, 2, TENSORS), flow(replace(both, layer=[own, other]), X, 3, TENSORS)]
    assert largest_difference(*(each.isel(layer=-1) for each in tables)) < 1e-13
    digits = flow(nets[0], X[0], 3, ["K", "V"], precision=20)
    assert largest_difference(digits, flow(nets[0], X[0], 3, ["K", "V"]), ["K", "V"]) < 1e-12


@pytest.mark.parametrize("sampler", ["lazy", "probes", "explicit"])
def test_samplers_draw_biases_of_their_own_variance(sampler):
    """z' = z/2 + W₂ b₁ without b: K' = K/4 + 4 at every width, to 5 of its standard errors."""
    layer = with_biases((), added=" + b1[i]", C={"b1": 4, "W1": 0})
    net = Network("linear", layer=layer)
    made = simulate(net, [1.0], 8, 2, 2000, tensors=["K"], sampler=sampler)
    assert abs(float(made["K"][1]) - 4.25) < 5 * float(made["K_se"][1]) < 0.5


@pytest.mark.parametrize("sampler", ["lazy", "explicit"])
def test_samplers_mask_each_input_anew_in_any_block(sampler):
    """Means of linear networks are exact: K_aa is divided by p at each mask, K_ab is not, and Θ
    likewise. 12 comparisons at 5 standard errors; with p = 1 nothing changes, to the last bit."""
    net = Network("linear", layer=[MASKED, layers.sequence("dropout(3/4)", "dense")])
    drawn = {"draws": 3000, "tensors": ["K", "Theta"], "sampler": sampler}
    made = simulate(net, X, 6, 3, **drawn)
    for name in ("K", "Theta"):
        theory = flow(net, X, 3, [name], width=6)[name]
        assert (abs(made[name] - theory)[1:] < 5 * made[f"{name}_se"][1:]).all()
        assert (5 * made[f"{name}_se"] < 0.3 * abs(theory).max()).all()
    one = replace(net, layer=[layers.Layer(*MASKED.lines, keep={"W2": 1}), "dense"])
    none = replace(net, layer=[layers.Layer(*MASKED.lines), "dense"])
    tables = [simulate(each, X, 6, 3, **(drawn | {"draws": 5})) for each in (one, none)]
    assert tables[0].drop_attrs().equals(tables[1].drop_attrs())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: layers.Layer("b1[i] = z[i]", "z[i] = W[i,a] s(b1[a])"), "biases"),
        (lambda: layers.Layer("z[i] = b[i] + W[i,a] tanh(z[a]) s(z[a])"), "one function"),
        (lambda: layers.dense(weights={"W1": "uniform"}), "matrices of the layer"),
        (lambda: layers.residual(C=(1, 2), weights={"W2": Gaussian(3)}), "C"),
        (layers.sequence, "blocks"),
        (lambda: layers.around("dropout(1/2)"), "carried past"),
        (lambda: layers.dense(activations="nothing"), "activations|activation"),
        (lambda: layers.dense(activations={"phi": "tanh"}), "functions in the layer's equations"),
        (
            lambda: layers.Layer("z[i] = b[i] + W[i,a] tanh(z[a])", activations="gelu"),
            "functions in the layer's equations, tanh",
        ),
        (
            lambda: layers.Layer("z[i] = W[i,a] s(z[a])", C={"W1": 2}),
            "matrices of the layer, .*: W",
        ),
    ],
)
def test_what_no_layer_has(make, named):
    with pytest.raises(InputError, match=named):
        make()


def test_functions_that_need_the_networks_own_say_so(tmp_path):
    with pytest.raises(InputError, match="one that repeats at any depth"):
        write_module(recursion("K"), "tanh; sin", tmp_path / "k.py")
    with pytest.raises(InputError, match="first_weights=None"):
        replace(Network("tanh", first_weights="orthogonal"), weights=["gaussian", "orthogonal"])


def test_a_list_of_dense_layers_is_dense():
    one, other = (Network(CUBIC, "uniform", layer=layer) for layer in ("dense*3", "dense"))
    tables = [flow(net, X, 4, ["K", "G1", "V"]) for net in (one, other)]
    assert largest_difference(*tables, ["K", "G1", "V"]) == 0
    drawn = [simulate(net, X, 8, 3, 32, tensors=["K", "V"]) for net in (one, other)]
    assert largest_difference(*drawn, ["K", "V"]) == 0
    given = (replace(net, weights=Orthogonal()) for net in (one, other))
    values = [exact.cumulant("V", net, 2) for net in given]
    assert sympy.simplify(values[0] - values[1]) == 0


def test_exact_values_are_those_of_each_dense_layers_own_law_and_activation():
    own = layers.dense(activations=BENT, weights=Orthogonal(2))
    for layer, sigmas, laws in (
        (own, [BENT, BENT], [Gaussian(), Orthogonal(2), Orthogonal(2)]),
        (["dense", own], ["linear", BENT], [Gaussian(), Gaussian(), Orthogonal(2)]),
    ):
        one, other = Network("linear", layer=layer), Network(sigmas, laws)
        for name in ("K", "V", "Theta"):
            values = [exact.cumulant(name, net, 2) for net in (one, other)]
            assert sympy.simplify(values[0] - values[1]) == 0


def test_a_layers_law_by_its_name_has_the_networks_variance():
    for plain, own in (
        ("residual(norm=rms)", "residual(norm=rms, weights=orthogonal)"),
        ("gated(skip=1/2)", "gated(skip=1/2, weights=(W1: orthogonal, W3: orthogonal))"),
        ("sequence(dense, gated)", "sequence(dense(weights=orthogonal), gated)"),
    ):
        nets = (Network("gelu", Orthogonal(1.7), layer=layer) for layer in (plain, own))
        tables = [flow(net, X, 3, ["K", "V"]) for net in nets]
        assert largest_difference(*tables, ["K", "V"]) < 1e-14


def test_periods_of_layers_are_critical_where_both_together_are():
    """χ_∥ = χ_⊥ = 1 of the two maps one after the other: C_W (1/4 + C_W²) = 1."""
    found = criticality("tanh", layer="residual(skip=1/2); dense").critical[1]
    assert abs(float(found) * (0.25 + float(found) ** 2) - 1) < 1e-12
    twice = criticality("tanh", layer="dense; dense")
    assert twice.critical == (0, 1)
    assert twice.points[0].coefficient == -4  # K' = K − 2K² twice
    longer = criticality("tanh", layer="residual(skip=1/2); dense; dense").critical[1]
    assert abs((0.25 + float(longer) ** 2) * float(longer) ** 2 - 1) < 1e-12
    bent = criticality("gelu", layer="dense(activations=relu); dense(activations=tanh)")
    assert (bent.critical, bent.points[0].coefficient) == ((0, sympy.sqrt(2)), -sympy.sqrt(2))
    grown = criticality("gelu", layer="residual(norm=rms); residual(norm=rms)")
    alone = criticality("gelu", layer="residual(norm=rms)")
    assert abs(grown.rate(1, 1, 0) - 2 * alone.rate(1, 1, 0)) < 1e-15
    assert abs(grown.exponent(1, 1, 0) - alone.exponent(1, 1, 0)) < 1e-15


def test_critical_networks_repeat_their_period():
    net = Network.critical("tanh", layer="dense; (residual(skip=1/2); dense)*")
    critical = criticality("tanh", layer="residual(skip=1/2); dense").critical
    assert critical == (net.C_b, net.weights.C_W)
    K = flow(net, [1.0, 1.0], 402, ["K"])["K"].to_numpy()[[201, 401]]
    assert abs(100 / (1 / K[1] - 1 / K[0]) - 0.27818408701643604508) < 0.005
    for layer in ("residual(skip=1/2); dense", lambda layer: "dense"):
        with pytest.raises(InputError, match="a layer that is repeated"):
            Network.critical("tanh", layer=layer)


def test_criticality_reads_a_layers_own_activations():
    assert criticality("sin", layer=OWN).points[0].coefficient == -3  # −2 of tanh, −1 of sin
    assert criticality("relu", layer=layers.dense(activations="tanh")).critical == (0, 1)


def test_periods_have_modules_and_spectra(tmp_path):
    made = recursion("V", layer="residual(norm=rms); gated(norm=rms)").single_input()
    assert write_module(made, "gelu", tmp_path / "period.py")
    period = Network("tanh", Orthogonal(), layer="(residual(norm=rms); dense)*")
    one = spectra.of_network(period, 1.0, 3)
    assert np.isfinite(one.moments(2)).all()


def test_the_chain_has_what_each_stage_needs():
    block = layers.residual(norm="rms", weights={"W1": "orthogonal"}, activations="gelu", C=(2, 1))
    net = Network(
        "tanh; sin", "gaussian; orthogonal*", C_b=[0, 1, 1], layer="dense", lambda_W="1/l"
    )
    bound = net.chain(3)
    assert [each.layer for each in bound] == [1, 2, 3]
    assert [each.weights[0] for each in bound] == [Gaussian(), Orthogonal(), Orthogonal()]
    assert [tuple(map(str, each.activations)) for each in bound] == [(), ("tanh",), ("sin",)]
    assert [each.lambda_W for each in bound] == [1, sympy.Rational(1, 2), sympy.Rational(1, 3)]
    first, norm, inner, last = Network("tanh", layer=block).chain(2)
    assert (first.weights, norm.weights, inner.weights) == ((Gaussian(),), (), (Orthogonal(2),))
    assert (last.weights, last.activations) == ((Gaussian(),), (activations.gelu,))
    read = Network("tanh; sin", "gaussian; orthogonal*", layer="convolution(2, 3, readout=mean)")
    stages = [each.stage for each in read.chain(3)]
    (own,), (pooled,) = layers.convolution(2, 3).stages, layers.pooling(3).stages
    assert stages[1:] == [own, pooled]
    assert stages[0] == read.chain(1)[0].stage.alone
    assert [each.stage.taps for each in read.chain(1)] == [pooled.taps]


@pytest.mark.parametrize("layer", ["dense", OWN], ids=["dense", "own"])
def test_training_theory_of_equal_layers_is_that_of_one(layer):
    given = {"targets": np.array([0.5, -0.3]), "depth": 3, "eta": 0.05, "steps": [0, 3]}
    named = Network(["tanh", "tanh"], ["orthogonal"] * 3, C_b=0.1, layer=layer)
    one = training.flow(Network("tanh", "orthogonal", C_b=0.1, layer=layer), X, **given)
    other = training.flow(named, X, **given)
    assert largest_difference(one, other, ["prediction1", "ntk1"]) < 1e-10


def test_signals_are_read_out_by_the_activation_and_law_of_each_layer():
    signals = np.array([[1.0, 0.5, -0.3], [0.2, -0.4, 1.1]])
    sigmas = {"activation": "tanh; relu", "C_b": 0.1}
    read = layers.convolution(2, 2, readout="mean")
    K = flow(Network(**sigmas, layer=read), signals, 3, ["K"])["K"].to_numpy()[2]
    below = flow(Network(**sigmas, layer=layers.convolution(2, 2)), signals, 2, ["K"])["K"]
    roots = np.linalg.cholesky(below.to_numpy()[1]) * math.sqrt(2)
    assert abs(K - 0.1 - flow(Network("relu"), roots, 2, ["K"])["K"].to_numpy()[1].mean()) < 1e-9

    def V(*laws):
        return float(flow(Network("tanh", laws, layer=read), signals, 3, ["V"])["V"][2])

    g, o = "gaussian", "orthogonal"
    assert abs(V(g, g, o) - V(g, g, g)) > 1e-3
    assert abs(V(g, g, o) - V(g, g, g) - V(g, o, o) + V(g, o, g)) < 1e-12


def test_a_run_is_not_that_of_another_layer_of_the_same_name(tmp_path):
    own = [layers.dense(activations=activations.from_expr(f"{k}*tanh(z)", "own")) for k in (1, 2)]
    texts = ("z[i] = b[i] + 2 W[i,a] s(z[a])", "z[i] = b[i] + 3 W[i,a] s(z[a])")
    called = [layers.Layer(text, label="own") for text in texts]
    for number, (one, other) in enumerate((own, called)):
        given = {"width": 4, "depth": 2, "draws": 8, "tensors": "K", "run": tmp_path / str(number)}
        simulate(Network("sin", layer=one), np.ones(2), **given)
        with pytest.raises(InputError, match="a run of the same ensemble"):
            simulate(Network("sin", layer=other), np.ones(2), **given)


def test_functions_of_the_layer_give_laws_wherever_lists_do():
    given = [Gaussian(), Orthogonal(2), Gaussian()]
    nets = [Network("tanh", laws) for laws in (given, lambda layer: given[layer - 1])]
    one, other = (flow(net, X[0], 3, ["K", "V"], precision=20) for net in nets)
    assert (one["V"].to_numpy() == other["V"].to_numpy()).all()
    learnt = {"targets": 0.5, "depth": 2, "eta": 0.05, "steps": [3]}
    one, other = (training.flow(net, X[0], **learnt) for net in nets)
    assert largest_difference(one, other, ["prediction1"]) == 0
    with pytest.raises(InputError, match="is a function"):
        Network("tanh", lambda layer: "gaussian", C_W=2)


def test_a_law_of_a_layer_by_its_text_keeps_its_variance():
    for law in (Orthogonal(2), Gaussian("1/3"), {"W1": Orthogonal(2)}):
        made = layers.residual(weights=law)
        assert layers.read(str(made)) == made
    assert layers.dense(weights="orthogonal(C_W=2)") == layers.dense(weights=Orthogonal(2))


@pytest.mark.parametrize(
    "layer", [layers.dense, lambda weights=None: layers.skip("1/2", weights=weights)]
)
def test_a_layers_own_laws_may_be_those_that_permutations_keep(layer):
    own = Network("tanh", layer=layer(weights="uniform"), C_b="1/10")
    given = Network("tanh", "uniform", "gaussian", layer=layer(), C_b="1/10")
    rotated = Network("tanh", layer=layer(), C_b="1/10")
    one, other, plain = (flow(net, X[0], 3, ["G1", "Theta1"]) for net in (own, given, rotated))
    assert largest_difference(one, other, ["G1", "Theta1"]) < 1e-14
    assert largest_difference(one, plain, ["G1", "Theta1"]) > 1e-3


def test_kinks_are_those_of_the_activations_that_act():
    bent = Network("tanh", layer=layers.dense(activations="relu"))
    smooth = Network("relu", layer=layers.dense(activations="tanh"))
    given = {"width": 4, "depth": 2, "draws": 8, "tensors": ["P"]}
    with pytest.raises(InputError, match="relu has kinks"):
        simulate(bent, X, **given)
    assert np.isfinite(simulate(smooth, X, **given)["P"]).all()
    with pytest.raises(InputError, match="activation: got 'relu'"):
        training.flow(bent, X[0], 1.0, depth=2, eta=0.1, steps=[1])
    assert training.flow(smooth, X[0], 1.0, depth=2, eta=0.1, steps=[1]).sizes["step"] == 1


MIXED = {
    "dense": Network("tanh; gelu; relu", "gaussian; orthogonal*", C_b=0.1),
    "independent first": Network("gelu; tanh", [Uniform(), Gaussian(), Orthogonal()], C_b=0.1),
    "independent between": Network(
        "gelu; tanh", [Gaussian(), Rademacher(2), Orthogonal()], C_b=0.1
    ),
    "own": Network(
        "gelu", layer=layers.residual(norm="rms", weights={"W1": "orthogonal"}, activations="tanh")
    ),
    "masks": Network("tanh", C_b=0.1, layer=MASKED),
    "gate": Network(
        "tanh",
        Orthogonal(),
        layer=layers.Layer(
            "h[i] = W1[i,a] z[a]",
            "g[i] = W2[i,a] z[a]",
            "z[i] = z[i] + b[i] + W3[i,a] tanh(h[a]) sigmoid(g[a])",
            weights={"W3": Gaussian(2)},
        ),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_explicit_networks_agree_with_theory(name):
    """K, G1 and V at layer 3 of widths n = n_0 = 16, 32, 64, extrapolated by a parabola in 1/n.

    False alarms: 15 comparisons at 5 standard errors, below 1e-5.
    """
    net, widths = MIXED[name], np.array([16, 32, 64])
    samples, theory = [], None
    for width in widths:
        x = np.ones(int(width))
        theory = flow(net, x, 3, ["K", "G1", "V"], width=int(width)).isel(layer=-1)
        made = simulate(net, x, int(width), 3, 8000, tensors=["K", "G1", "V"], seed=int(width))
        samples.append(made.isel(layer=-1))
    for tensor in ("K", "G1", "V"):
        y = np.array([float(each[tensor]) for each in samples])
        se = np.array([float(each[f"{tensor}_se"]) for each in samples])
        fit = np.linalg.inv(np.vander(1 / widths, 3, increasing=True))[0]
        error = math.sqrt(((fit * se) ** 2).sum())
        assert abs(fit @ y - float(theory[tensor])) < 5 * error, (tensor, fit @ y, error)


def test_two_norms_in_a_skip_around_one_matrix_are_refused():
    net = Network("tanh", layer=layers.around("normalized(rms)", norm="rms"))
    with pytest.raises(InputError, match=r"^layer: got '2 norms, one behind"):
        flow(net, [1.0, 0.5], 3, ["K", "V"])
    assert np.isfinite(flow(net, [1.0, 0.5], 3, "K")["K"]).all()
