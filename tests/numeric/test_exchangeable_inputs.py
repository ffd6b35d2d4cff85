"""Exchangeable inputs against ordinary ones with the same products, and what is refused."""

from __future__ import annotations

import math
from itertools import permutations, product

import numpy as np
import pytest
import sympy

from derive import (
    Exchangeable,
    Gaussian,
    InputError,
    Network,
    Orthogonal,
    Uniform,
    activations,
    layers,
    recursion,
    symbols,
)
from numeric import compare, flow, normalise, plot, simulate, training, write_module

NAMES = ["K", "G1", "V", "Theta"]
OF_V = ["(11)(11)", "(11)(12)", "(11)(22)", "(11)(23)", "(12)(12)", "(12)(13)", "(12)(34)"]


def vectors(m, q, p):
    """m inputs of m entries with x·x/n_0 = q and x·x'/n_0 = p."""
    kernel = np.where(np.eye(m, dtype=bool), q, p)
    lengths, axes = np.linalg.eigh(kernel)
    return np.sqrt(m) * (axes * np.sqrt(np.maximum(lengths, 0.0))) @ axes.T


def labelled(label):
    """The samples of a label, from 0."""
    return [int(each) - 1 for each in label if each.isdigit()]


def farthest(net, m, q, p, names=NAMES, depth=3):
    """The largest difference of any entry, in units of its tensor's largest in that layer."""
    short = flow(net, Exchangeable(m, q, p), depth, names)
    whole = flow(net, vectors(m, q, p), depth, names)
    worst = 0.0
    for name in names:
        values = whole[name].to_numpy()
        sizes = np.abs(values).reshape(depth, -1).max(axis=1)
        for label in short[name].dropna("orbit")["orbit"].to_numpy():
            pattern = labelled(label)
            for order in permutations(range(m)):
                entry = values[(slice(None), *(order[k] for k in pattern))]
                off = np.abs(short[name].sel(orbit=label).to_numpy() - entry)
                worst = max(worst, (off / np.where(sizes > 0, sizes, 1.0)).max())
    return worst


@pytest.mark.parametrize(
    ("net", "m", "q", "p"),
    [
        (Network("tanh", Orthogonal(), C_b=0.1), 4, 1.3, 0.4),
        (Network("relu", Gaussian(C_W=2)), 4, 1.3, 0.4),
        (Network("hard_tanh", Orthogonal(), C_b=0.1), 3, 1.3, 0.4),
        (Network("hard_tanh", Gaussian(), layer="residual(norm=rms)"), 2, 2.0, 1.9),
        (Network("leaky_relu", Orthogonal()), 3, 0.1, 0.0),
        (Network("elu", Orthogonal(), C_b=0.1), 2, 1.3, 0.4),
        (Network("gelu", Gaussian(C_W=1.5), first_weights=Orthogonal()), 3, 1.0, -0.3),
        (Network("gelu", Orthogonal()), 3, 0.7, 0.7),
        (Network("relu", layer="normalized(layer)"), 3, 1.0, 0.2),
        (Network("tanh", Orthogonal(), layer="residual(norm=rms)"), 3, 1.0, 0.2),
        (Network("tanh", Uniform(), first_weights=Gaussian()), 2, 1.0, 0.2),
        (Network("tanh", layer="gated(norm=rms)"), 2, 1.0, 0.2),
        (Network("tanh", layer="skip(1/2)"), 2, 1.0, 0.2),
    ],
    ids=str,
)
def test_entries_are_those_of_ordinary_inputs(net, m, q, p):
    assert farthest(net, m, q, p) < 1e-12


@pytest.mark.parametrize("sigma", ["tanh", "hard_tanh"])
def test_the_tower_has_its_orbits(sigma):
    assert farthest(Network(sigma, C_b=0.2), 2, 1.0, 0.5, [*"DFABPQ"]) < 1e-12
    table = flow(Network("tanh"), Exchangeable(4, 1, 0.5), 1, ["D", "P"])
    assert "(12)(33)" in table["orbit"]
    assert "1231" in table["orbit"]


def averages_of_apart(sigma, ranks):
    """⟨σ_1 ⋯ σ_r⟩ of samples with q = 1 and p = 0.4, by a sum over what they share."""
    w = np.linspace(-12.0, 12.0, 481)
    mean, deviation = np.sqrt(0.4) * w, np.sqrt(0.6)

    def below(z):
        return np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in z / deviation])

    given = mean * below(mean)
    given += deviation * np.exp(-0.5 * (mean / deviation) ** 2) / math.sqrt(2 * math.pi)
    if sigma == "elu":
        given += np.exp(mean + 0.3) * below(-mean - 0.6) - below(-mean)
    weights = np.exp(-0.5 * w**2) / np.exp(-0.5 * w**2).sum()
    return [weights @ given**r for r in ranks]


@pytest.mark.parametrize("sigma", ["relu", "elu"])
def test_four_samples_meet_at_kinks(sigma):
    two, four = averages_of_apart(sigma, (2, 4))
    V = flow(Network(sigma), Exchangeable(256, 1, 0.4), 2, "V")["V"].sel(orbit="(12)(34)")
    assert float(V[-1]) == pytest.approx(four - two**2, rel=1e-12)


@pytest.mark.slow
def test_six_samples_meet_at_kinks():
    two, four, six = averages_of_apart("relu", (2, 4, 6))
    U6 = flow(Network("relu"), Exchangeable(6, 1, 0.4), 2, "U6")["U6"].sel(orbit="(12)(34)(56)")
    assert float(U6[-1]) == pytest.approx(six - 3 * four * two + 2 * two**3, rel=1e-13)


def test_any_number_of_samples_has_the_same_entries():
    net = Network("gelu", Orthogonal())
    tables = [
        flow(net, Exchangeable(m, 1, 0.3), 4, NAMES) for m in (4, 256, 10**9, sympy.Symbol("m"))
    ]
    for each in tables:
        assert list(each["V"].dropna("orbit")["orbit"].to_numpy()) == OF_V
        assert list(each["Theta"].dropna("orbit")["orbit"].to_numpy()) == ["(11)", "(12)"]
        assert (each.drop_attrs(deep=False).fillna(0) == tables[0].fillna(0)).all()
    assert [each.attrs["samples"] for each in tables[1:]] == [256, 10**9, "m"]


@pytest.mark.parametrize(("m", "count"), [(1, 1), (2, 4), (3, 6), (4, 7)])
def test_few_samples_have_fewer_orbits(m, count):
    table = flow(Network("relu"), Exchangeable(m, 1, 0), 2, "V")
    assert list(table["orbit"].to_numpy()) == [x for x in OF_V if max(labelled(x)) < m]
    assert table.sizes["orbit"] == count


def test_orbits_are_counted_by_brute_force():
    symmetries = [(0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)]
    left = set(product(range(4), repeat=4))
    count = 0
    while left:
        reached, new = set(), {left.pop()}
        while new:
            at = new.pop()
            reached.add(at)
            images = [tuple(at[k] for k in moved) for moved in symmetries]
            images += [tuple(order[k] for k in at) for order in permutations(range(4))]
            new |= set(images) - reached
        left -= reached
        count += 1
    assert count == len(OF_V)


def test_the_size_of_the_inputs_counts():
    net = Network("tanh", Orthogonal())
    of = {n_0: flow(net, Exchangeable(8, 1, 0.3, n_0), 2, "V", width=10) for n_0 in (10, 40)}
    X = np.zeros((2, 40))
    X[:, :2] = vectors(2, 1, 0.3) * np.sqrt(20)
    ordinary = flow(net, X, 2, "V", width=10)["V"].to_numpy()
    assert np.allclose(of[40]["V"].sel(orbit="(11)(22)"), ordinary[:, 0, 0, 1, 1], rtol=1e-12)
    assert not np.allclose(of[10]["V"], of[40]["V"], rtol=1e-3)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ((0, 1, 0), "m"),
        ((2.5, 1, 0), "m"),
        ((3, -1, 0), "q"),
        ((3, 1, 1.1), "p"),
        ((3, 1, -0.6), "p"),
        ((sympy.Symbol("m"), 1, -0.1), "p"),
        ((3, "one", 0), "q"),
        ((8, 1, 0.1, 7), "n_0"),
    ],
)
def test_no_inputs_have_these_products(given, argument):
    with pytest.raises(InputError) as caught:
        Exchangeable(*given)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("net", "options", "argument"),
    [
        (Network("tanh", layer="convolution(3, 4)"), {}, "inputs"),
        (Network("tanh", Uniform()), {}, "inputs"),
        (Network("tanh"), {"draws": 10}, "positions, draws"),
        (Network("tanh", widths=(5, 6, 6)), {}, None),
    ],
    ids=str,
)
def test_flow_says_what_it_cannot_have(net, options, argument):
    inputs = Exchangeable(5, 1, 0.2)
    if argument is None:
        assert np.isfinite(flow(net, inputs, 2, "K")["K"]).all()
        return
    with pytest.raises(InputError) as caught:
        flow(net, inputs, 2, ["V", "G1"], **options)
    assert caught.value.argument == argument


def test_symbols_are_no_numbers():
    with pytest.raises(InputError, match="a number"):
        flow(Network("tanh"), Exchangeable(3, sympy.Symbol("q"), 0), 2)


def test_samples_of_an_orbit_are_averaged():
    net, n = Network("relu", Gaussian(C_W=2)), 4
    how = {"draws": 40, "tensors": ["K", "V"], "seed": 3, "sampler": "explicit"}
    short = simulate(net, Exchangeable(40, 1, 0.3), n, 3, **how)
    whole = simulate(net, vectors(n, 1, 0.3), n, 3, **how)
    V, V_se = whole["V"].to_numpy(), whole["V_se"].to_numpy()
    for label in OF_V:
        pattern = labelled(label)
        places = [[order[k] for k in pattern] for order in permutations(range(n), 4)]
        entries, errors = ([each[(slice(None), *at)] for at in places] for each in (V, V_se))
        own, own_se = (short[name].sel(orbit=label) for name in ("V", "V_se"))
        assert np.allclose(own, np.mean(entries, axis=0), rtol=1e-10, atol=1e-12)
        assert (own_se <= np.mean(errors, axis=0) + 1e-12).all()
    K = whole["K"].to_numpy()
    assert np.allclose(short["K"].sel(orbit="(11)"), K.diagonal(axis1=1, axis2=2).mean(axis=1))


def test_theory_agrees_with_sampled_orbits():
    net, inputs = Network("gelu", Orthogonal(C_W=2)), Exchangeable(256, 1, 0.3)
    flowed = flow(net, inputs, 3, NAMES)
    sampled = [simulate(net, inputs, n, 3, 1500, tensors=NAMES, seed=5) for n in (16, 32)]
    found = compare(flowed, sampled)
    assert found.agrees
    assert {row.name for row in found.rows if row.tensor == "V"} == {f"V_{each}" for each in OF_V}
    resolved = [row.share for row in found.rows if row.tensor == "V" and row.layer == 3]
    assert max(resolved) < 0.4
    other = flow(net, Exchangeable(256, 1, 0.5), 3, NAMES)
    with pytest.raises(InputError, match="the p of theory"):
        compare(other, sampled)
    wrong = flow(net, Exchangeable(256, 1, 0.7), 3, NAMES).assign_attrs(p=0.3)
    assert not compare(wrong, sampled).agrees


def test_samples_need_room():
    with pytest.raises(InputError, match="n_0 of 4 or more"):
        simulate(Network("tanh"), Exchangeable(8, 1, 0), 3, 2, 10, tensors="V")


def test_orbits_are_normalised_and_drawn():
    net = Network("tanh")
    table = flow(net, Exchangeable(9, 1, 0.5), 3, ["K", "V"])
    own, whole = normalise(table)["V_tilde"], normalise(flow(net, vectors(4, 1, 0.5), 3))["V_tilde"]
    for label in OF_V:
        entry = whole[(slice(None), *labelled(label))]
        assert np.allclose(own.sel(orbit=label), entry, rtol=1e-11)
    assert len(plot(table).axes) == 2
    (panel,) = plot(table, "V_(11)(22)").axes
    assert np.allclose(panel.lines[0].get_ydata(), table["V"].sel(orbit="(11)(22)"))
    with pytest.raises(InputError):
        plot(table, "V_(11)(33)")


@pytest.mark.parametrize("sigma", ["tanh", "relu"])
def test_digits_are_those_of_ordinary_inputs(sigma):
    net, X = Network(sigma, Orthogonal(), C_b="1/10"), [[2, 0, 0, 0], [1, 1, 1, 1]]
    short = flow(net, Exchangeable(2, 1, "1/2"), 3, ["K", "V"], precision=25)
    whole = flow(net, X, 3, ["K", "V"], precision=25)
    for name in ("K", "V"):
        for label in short[name].dropna("orbit")["orbit"].to_numpy():
            entry = whole[name].to_numpy()[(slice(None), *labelled(label))]
            assert short[name].sel(orbit=label).to_numpy().tolist() == entry.tolist()


def test_floats_are_as_near_to_digits_as_they_say():
    inputs = Exchangeable(64, 1, "1/3")
    net = Network("tanh", Orthogonal(), C_b="1/10")
    floats, digits = (flow(net, inputs, 3, ["K", "V"], precision=each) for each in (None, 20))
    for name in ("K", "V"):
        off = np.abs(digits[name].to_numpy().astype(float) - floats[name].to_numpy())
        here = np.isfinite(off)
        assert here.sum() == 3 * (2 if name == "K" else 7)
        assert (off <= floats[f"{name}_error"].to_numpy() + 1e-300)[here].all()


def test_digits_of_the_least_correlation():
    inputs = Exchangeable(2, 1, -1)
    table = flow(Network("tanh"), inputs, 3, ["K", "V"], precision=16)
    K = table["K"].to_numpy()
    assert (K[:, 0] == -K[:, 1]).all()


def gaussian_mean(bracket, sigma, q, p):
    """A bracket of a polynomial σ, by Gauss and Hermite's rule of enough nodes."""
    samples = sorted({sample for sample, _ in bracket.factors})
    z = sympy.symbols(f"z:{len(samples)}")
    at = dict(zip(samples, z, strict=True))
    integrand = sympy.Integer(1)
    for sample, order in bracket.factors:
        integrand *= sympy.diff(sigma, symbols.z, order).subs(symbols.z, at[sample])
    for sample in bracket.outer:
        integrand = sympy.diff(integrand, at[sample])
    nodes, weights = np.polynomial.hermite_e.hermegauss(6)
    grid = np.array(np.meshgrid(*[nodes] * len(z), indexing="ij")).reshape(len(z), -1)
    weight = np.prod(np.meshgrid(*[weights / np.sqrt(2 * np.pi)] * len(z)), axis=0).ravel()
    kernel = np.where(np.eye(len(z), dtype=bool), q, p)
    values = sympy.lambdify(z, integrand, "numpy")(*(np.linalg.cholesky(kernel) @ grid))
    return float((values * weight).sum())


@pytest.mark.parametrize("weights", [Gaussian(), Orthogonal()], ids=str)
def test_recursions_of_orbits_lead_from_layer_to_layer(weights):
    sigma = symbols.z + symbols.z**2 / 3
    net = Network(activations.from_expr(sigma), weights, C_b=0.1)
    table = flow(net, Exchangeable(50, 1, 0.25), 4, ["K", "G1", "V"])
    below, above = table.sel(layer=3), table.sel(layer=4)

    def number(component):
        name, samples = str(component.args[0]), "".join(map(str, component.args[1]))
        pairs = (samples[k : k + 2] for k in range(0, len(samples), 2))
        return float(below[name].sel(orbit="".join(f"({pair})" for pair in pairs)))

    q, p = (float(below["K"].sel(orbit=label)) for label in ("(11)", "(12)"))
    for name, count in (("K", 2), ("G1", 2), ("V", 7)):
        made = recursion(name, weights).exchangeable()
        assert len(made) == count
        for label, each in made.items():
            parts = each.expr.atoms(sympy.Expr)
            known = {part: number(part) for part in parts if type(part).__name__ == "Component"}
            brackets = {part for part in parts if type(part).__name__ == "Average"}
            known |= {part: gaussian_mean(part.bracket, sigma, q, p) for part in brackets}
            found = float(each.expr.xreplace(known).subs({symbols.C_W: 1, symbols.C_b: 0.1}))
            assert found == pytest.approx(float(above[name].sel(orbit=label)), rel=1e-12)


def test_recursions_of_orbits_name_the_first_of_each(tmp_path):
    made = recursion("V").exchangeable()
    assert list(made) == OF_V
    assert [*recursion("V").exchangeable(2)] == [x for x in OF_V if max(labelled(x)) < 2]
    assert [*recursion("V").exchangeable(symbols.m)] == OF_V
    names = {str(each) for each in made["(12)(34)"].expr.atoms(sympy.Expr) if "V[" in str(each)}
    assert {"V[1,1,2,2]", "V[1,1,2,3]", "V[1,2,3,4]"} <= names
    assert not any("V[3" in each or "V[2" in each for each in names)
    specialised = recursion("K", activation="relu").exchangeable()["(11)"]
    assert str(specialised.expr) == "C_W*K[1,1]/2 + C_b"
    residual = recursion("K", layer=layers.residual(norm="rms")).exchangeable()["(12)"]
    assert "K[2,2]" not in str(residual)
    with pytest.raises(InputError, match="skip around one matrix"):
        recursion("V", layer="skip(1/2)").exchangeable()
    with pytest.raises(InputError, match="one input"):
        made["(12)(34)"].asymptotics("relu")
    with pytest.raises(InputError, match="the recursion itself"):
        write_module(made["(12)(34)"], "tanh", tmp_path / "kernel.py")
    with pytest.raises(InputError, match="the recursion itself"):
        flow(Network("tanh"), [1.0, 2.0], 2, made["(12)(34)"])


def test_training_is_that_of_ordinary_inputs():
    net, X, y = Network("tanh", C_b=0.1), vectors(3, 1, 0.3), [1.0, -0.5]
    how = {"depth": 3, "eta": 0.1, "steps": [0, 5, np.inf]}
    short = training.flow(net, Exchangeable(3, 1, 0.3), y, **how)
    whole = training.flow(net, X[:2], y, X[2:], **how)
    for name in whole.data_vars:
        if not str(name).endswith("_error"):
            assert np.allclose(short[name], whole[name], rtol=1e-11, atol=1e-12), name
    assert short.attrs["batch"] == 2


def test_two_classes_are_learned_at_any_size():
    net, y = Network("tanh", C_b=0.1), [1.0, 1.0, -1.0, -1.0]
    table = training.flow(net, Exchangeable(6, 1, 0.3), y, depth=2, steps=[1.0, np.inf])
    mean = table["prediction"].to_numpy()
    assert np.allclose(mean[0, :2], mean[0, 0], rtol=1e-12)
    assert np.allclose(mean[0, :2], -mean[0, 2:4], rtol=1e-12)
    assert np.allclose(mean[:, 4:], 0.0, atol=1e-12)  # a test sample is as near to either class
    assert np.allclose(table["loss"][-1], 0.0, atol=1e-10)


@pytest.mark.parametrize(
    ("inputs", "targets", "test", "argument"),
    [
        (Exchangeable(symbols.m, 1, 0), [1.0], None, "m"),
        (Exchangeable(3, 1, 0), [1.0], [1.0, 2.0], "test"),
        (Exchangeable(2, 1, 0), [1.0, 2.0, 3.0], None, "targets"),
        (Exchangeable(10**4, 1, 0), [1.0], None, "m"),
    ],
)
def test_training_says_what_it_cannot_have(inputs, targets, test, argument):
    with pytest.raises(InputError) as caught:
        training.flow(Network("tanh"), inputs, targets, test, depth=2)
    assert caught.value.argument == argument


def test_gelu_far_out_is_relu():
    inputs = Exchangeable(256, 10000, 2000)
    smooth, bent = (flow(Network(each), inputs, 2, ["K", "V"]) for each in ("gelu", "relu"))
    for name in ("K", "V"):
        own, other = (table[name][1].dropna("orbit") for table in (smooth, bent))
        assert np.allclose(own, other, rtol=3e-4), name
