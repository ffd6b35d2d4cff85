"""Norms of groups of neurons: against moments of one group, groups as positions, and networks.

With lambda_b = 0 and C_b = 0, n neurons in G groups are G positions of n/G neurons each. Each pair
of groups then has a matrix of its own, and nothing else is shared. Tensors of these positions are
coefficients of powers of G/n.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy

from derive import InputError, Network, exact, layers, recursion
from numeric import compare, flow, simulate, training

INPUTS = np.array([[1.0, 0.5], [0.3, -0.8]])


def test_a_square_has_the_moments_of_one_group() -> None:
    """y = q z: the mean of q² z² in a group of m neurons is E[q³] = (1 + 2/m)(1 + 4/m)."""
    G, n = 5, sympy.Symbol("n", positive=True)
    lines = f"q = z[a:{G}] z[a:{G}]/n", "y[i] = q z[i]", "z[i] = W[i,a] y[a]"
    power = [sympy.prod(1 + 2 * j * G / n for j in range(k)) for k in range(7)]
    net = Network("tanh", layer=layers.Layer(*lines))
    found = flow(net, [1.0, 1.0], 2, ["G1", "V"])
    exactly = n * (power[3] - 1), n * (power[6] - power[3] ** 2) / G
    limits = [float(sympy.limit(each, n, sympy.oo)) for each in exactly]
    assert np.allclose([found[name].values[1] for name in ("G1", "V")], limits, rtol=1e-12)


@pytest.mark.parametrize("name", ["G1", "Theta1"])
def test_groups_of_as_many_neurons(name) -> None:
    """4 groups among 2n neurons are as large as 2 among n."""

    def divided(G: int, r_in: int) -> sympy.Expr:
        made = recursion(name, layer=f"normalized(group({G}))", equal_widths=False).single_input()
        return made.expr.subs({"r_in": r_in, "r_out": 1})

    assert (divided(4, 2) - divided(2, 1)).expand() == 0


@pytest.mark.slow
def test_networks_of_unequal_widths_have_groups() -> None:
    net = Network("tanh", "gaussian", layer="normalized(group(2))", C_b=0.1, widths=(2, 8, 16, 4))
    theory = flow(net, INPUTS, 3, ["K", "G1", "V"])
    tables = [simulate(net, INPUTS, n, draws=20_000, seed=3) for n in (64, 128, 256)]
    assert max(abs(row.z) for row in compare(theory, tables).rows) < 4
    assert float(tables[-1].G1_se[-1][0, 0]) < 0.02 < abs(theory.G1[-1][0, 0]) / 5


def as_positions(G: int, norm: str, skip: int, x: np.ndarray) -> tuple[layers.Layer, np.ndarray]:
    """The layer with groups as positions, and inputs."""
    pairs = np.sqrt(G) * np.eye(G * G).reshape(-1, G, G)
    block = layers.mix(*pairs)
    if skip:
        block = layers.sequence(layers.mix(*pairs, activations="linear"), block)
    signal = np.stack([np.sqrt(G) * np.kron(np.eye(G), each) for each in x])
    return layers.around(block, skip, norm=norm, eps="1/10"), signal


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("G", "norm", "skip", "law", "inputs", "tensors"),
    [
        pytest.param(3, "rms", 0, "gaussian", 1, ["G1", "V"], marks=SLOW),
        pytest.param(2, "layer", 0, "gaussian", 1, ["Theta1", "A"], marks=SLOW),
        (2, "layer", 1, "gaussian", 2, ["G1"]),
        (3, "layer", 0, "uniform", 1, ["G1"]),
    ],
)
def test_groups_are_positions(G, norm, skip, law, inputs, tensors) -> None:
    x = INPUTS[:inputs]
    signals, signal = as_positions(G, norm, skip, x)
    plain = layers.residual if skip else layers.normalized
    given = {"norm": f"{norm}({G})", "eps": "1/10"}
    common = {"lambda_b": 0, "first_weights": "gaussian"}
    found = flow(Network("tanh", law, layer=plain(**given), **common), x, 3, tensors)
    wanted = flow(Network("tanh", law, layer=signals, **common), signal, 3, tensors)
    for name in tensors:
        own = wanted[name].isel({axis: slice(None, None, G) for axis in wanted[name].dims[1:]})
        scale = 1 if name in ("K", "Theta") else G
        assert np.allclose(found[name], scale * own.to_numpy(), rtol=1e-9, atol=1e-12), name


@pytest.mark.slow
def test_networks_have_groups() -> None:
    """200 000 networks of each width: the theory of one group has another G1, which is refuted."""
    x, tensors = [1.0, 0.5, -0.3], ["K", "G1", "V"]
    net, one = (
        Network("tanh", "orthogonal", layer=f"normalized({norm})", C_b=0.2, C_W=1.5)
        for norm in ("group(4)", "layer")
    )
    theory, plain = (flow(each, x, 2, tensors) for each in (net, one))
    assert np.allclose(theory["V"], plain["V"], rtol=1e-12)
    samples = [simulate(net, x, n, 2, 200_000, tensors=tensors) for n in (16, 32, 64)]
    assert compare(theory, samples).agrees
    wrong = compare(plain.assign_attrs(network=theory.attrs["network"]), samples)
    assert {row.name for row in wrong.rows if abs(row.z) > wrong.bound} == {"G1"}


def test_built_networks_and_lazy_ones_agree() -> None:
    """In a residual block of convolutions, whose matrices are built or not."""
    block = "sequence(convolution(2, 2, activations=linear), convolution(2, 2))"
    net = Network("gelu", layer=f"around({block}, norm=group(2), eps=1/10)", C_b=0.1)
    given = net, INPUTS, 8, 2, 4000, ["K", "V"]
    lazy, explicit = (
        simulate(*given[:5], tensors=given[5], sampler=each, seed=5)
        for each in ("lazy", "explicit")
    )
    for name in given[5]:
        errors = np.hypot(lazy[f"{name}_se"], explicit[f"{name}_se"])
        assert (abs(lazy[name] - explicit[name]) <= 5 * errors).all()


@pytest.mark.slow
def test_gradients_of_groups() -> None:
    """The tangent kernel of networks that are trained, which have reverse derivatives."""
    net = Network("tanh", layer="normalized(group(2), eps=1/10)")
    trained = training.simulate(net, INPUTS, [1.0, -1.0], None, 8, 3, 0.1, [0, 1], 4000)
    sampled = simulate(net, INPUTS, 8, 3, 8000, tensors=["Theta"])
    ntk, ntk_se = (trained[name].to_numpy()[0] for name in ("ntk", "ntk_se"))
    theta, theta_se = (sampled[name].to_numpy()[-1] for name in ("Theta", "Theta_se"))
    assert (abs(ntk - theta) <= 5 * np.hypot(ntk_se, theta_se)).all()


def test_texts() -> None:
    block = layers.residual(norm="group(4)", eps="1/8")
    assert layers.read(str(block)) == block
    assert layers.normalized("rms(1)") == layers.normalized("rms")
    assert layers.normalized("group(3)") == layers.normalized("layer(3)")
    (line,) = {each for each in block.lines if each.startswith("m")}
    assert line == "m = z[a:4]/n"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: layers.normalized("group"), r"group\(G\)"),
        (lambda: layers.normalized("group(0)"), r"group\(G\)"),
        (lambda: layers.Layer("z[i] = W[i,a] z[a:2]"), "in a mean over each"),
        (lambda: layers.Layer("q = z[a:2] z[a:2]/n", "z[i] = q z[i]"), "does not know the groups"),
        (
            lambda: layers.Layer(
                "q = z[a:2] z[a:2]/n", "y[i] = q z[i]", "p = y[a] y[a]/n", "z[i] = p W[i,a] y[a]"
            ),
            "one number of groups",
        ),
        (lambda: recursion("V", layer="skip(1/2, norm=group(2))"), "only permutations keep"),
        (lambda: str(recursion("V2", layer="normalized(rms(2))")), "of order 1/n"),
        (
            lambda: exact.cumulant("K", Network("linear", layer="normalized(group(2))"), 2),
            "groups",
        ),
        (
            lambda: simulate(
                Network("tanh", layer="normalized(group(3))"), [1.0], 8, 2, 4, tensors=["K"]
            ),
            "a multiple of 3",
        ),
    ],
)
def test_refusals(make, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        make()
