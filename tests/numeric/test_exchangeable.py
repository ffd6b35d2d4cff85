"""Exchangeable inputs against ordinary ones with the same products, and what is refused."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
import sympy

from derive import Exchangeable, Gaussian, InputError, Network, Orthogonal, Uniform
from numeric import compare, flow, normalise, plot, simulate

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


def test_the_tower_has_its_orbits():
    assert farthest(Network("tanh", C_b=0.2), 2, 1.0, 0.5, [*"DFABPQ"]) < 1e-12
    table = flow(Network("tanh"), Exchangeable(4, 1, 0.5), 1, ["D", "P"])
    assert "(12)(33)" in table["orbit"]
    assert "1231" in table["orbit"]


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
