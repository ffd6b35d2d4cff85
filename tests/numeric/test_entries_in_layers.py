"""Independent weights in layers of several stages, sampled: they fit their theory and no other."""

import importlib.util

import numpy as np
import pytest

from derive import Gaussian, Network, Orthogonal, Sparse, layers, recursion
from numeric import compare, flow, simulate, write_module

X = np.linspace(-1.0, 1.5, 16)
SPARSE = Sparse("1/4", C_W="6/5")
OWN = layers.Layer(
    "h[i] = W1[i,a] z[a]",
    "z[i] = z[i] + W2[i,a] s(h[a])",
    weights={"W1": SPARSE, "W2": Orthogonal("6/5")},
)
FOURTH = ["kappa(z,z,z,z|0123)", "kappa(z,z,H|0123)"]


def seen(net, other, tensor, correction, **given):
    """z-scores of the coefficients of 1/n of two theories, by a line through two widths."""
    limit, found = flow(net, X, 3, [tensor, correction]), []
    wrong = flow(other, X, 3, [correction])[correction][-1]
    for n in (16, 32):
        table = simulate(net, X, n, 3, tensors=[tensor], **given)
        scaled = n * float(table[tensor][-1] - limit[tensor][-1])
        found.append((scaled, n * float(table[f"{tensor}_se"][-1])))
    (small, first), (large, second) = found
    value, se = 2 * large - small, np.hypot(2 * second, first)
    return [abs(value - float(each)) / se for each in (limit[correction][-1], wrong)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "draws"),
    [("normalized(rms)", 2500), ("residual(skip=1/2)", 1500), (OWN, 6000), ("dropout(3/4)", 8000)],
)
def test_samples_see_the_fourth_cumulant_in_blocks(layer, draws):
    """G1 within 4 standard errors, and that of Gaussian weights beyond 5: 3 layers."""
    given = {"layer": layer, "C_b": "1/10"}
    net = Network("tanh", SPARSE, "gaussian", **given)
    text = layers.Layer(*OWN.lines) if layer is OWN else layer
    other = Network("tanh", Gaussian("6/5"), layer=text, C_b="1/10")
    right, wrong = seen(net, other, "K", "G1", draws=draws, seed=2)
    assert right < 4
    assert wrong > 5


@pytest.mark.slow
def test_samples_see_the_fourth_cumulant_in_the_tangent_kernel():
    nets = [
        Network("tanh", law, Gaussian("6/5"), layer="residual(skip=1/2)", C_b="1/10")
        for law in (Sparse("1/8", C_W="6/5"), Gaussian("6/5"))
    ]
    right, wrong = seen(*nets, "Theta", "Theta1", draws=1500, seed=4)
    assert right < 4
    assert wrong > 5


@pytest.mark.slow
def test_what_is_carried_has_the_dense_layer_s_tensors():
    """The dense layer and a stage behind it that carries, by two samplers at n = 4."""
    carried = layers.Layer("h[i] = b[i] + W[i,a] s(z[a])", "z[i] = h[i]")
    names = ["K", "V", "Theta", "D", *FOURTH]
    one, other = (
        simulate(net, X[:4], 4, 2, 1500, tensors=names, seed=seed, sampler="explicit")
        for seed, net in enumerate(
            Network("tanh", SPARSE, "gaussian", C_b=0.3, layer=layer)
            for layer in (carried, layers.dense())
        )
    )
    for name in names:
        values, errors = (
            [float(each[key][-1]) for each in (one, other)] for key in (name, f"{name}_se")
        )
        assert abs(values[0] - values[1]) < 4.5 * np.hypot(*errors), name
    assert values[0] > 4 * errors[0]


@pytest.mark.slow
def test_all_tensors_of_a_gated_block_agree():
    net = Network("tanh", SPARSE, "gaussian", layer="gated(skip=1/2, norm=rms)", C_b="1/10")
    names = ["K", "G1", "V", "Theta", "D", "F"]
    theory = flow(net, X, 2, names)
    sampled = [simulate(net, X, n, 2, 600, tensors=names, seed=5) for n in (16, 32)]
    found = compare(theory, sampled)
    assert found.agrees, str(found)


@pytest.mark.parametrize("layer", ["dense", "normalized(rms)"])
def test_a_written_module_has_the_fourth_cumulant(layer, tmp_path, monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    net = Network("tanh", SPARSE, "gaussian", layer=layer, C_b="1/10")
    names = ["K", "G1", "V", FOURTH[0]]
    made = [recursion(name, SPARSE, layer=layer).single_input() for name in names]
    path = write_module(made, "tanh", tmp_path / "kernel.py", Gaussian("6/5"))
    spec = importlib.util.spec_from_file_location("kernel", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    columns = (np.full(3, {"C_W": 1.2, "C_b": 0.1}[name]) for name in module.PARAMETERS)
    found = module.flow(float(X @ X / 16), *columns)
    expected = flow(net, X, 3, names)
    assert np.allclose(found.T, [expected[name] for name in names], rtol=1e-10)


def test_several_inputs_have_blocks():
    net = Network("tanh", SPARSE, "gaussian", layer="residual(skip=1/2, norm=rms)")
    names = ["G1", "Theta1", FOURTH[0]]
    one = flow(net, X, 3, names)
    two = flow(net, np.stack([X, np.cos(X)]), 3, names)
    for name in names:
        first = two[name].to_numpy()[(slice(None), *[0] * (two[name].ndim - 1))]
        assert np.allclose(first, one[name], rtol=1e-10), name


@pytest.mark.slow
def test_all_tensors_of_a_signal_agree():
    net = Network("tanh", SPARSE, "gaussian", layer="convolution(2, 3)", C_b="1/10")
    signal = np.random.default_rng(0).standard_normal((3, 16))
    names = ["K", "V", FOURTH[0]]
    theory = flow(net, signal, 3, ["G1", *names])
    sampled = [simulate(net, signal, n, 3, 2500, tensors=names, seed=5) for n in (16, 32)]
    found = compare(theory, sampled)
    assert found.agrees, str(found)
    away = np.abs(sampled[1][FOURTH[0]][-1]) / sampled[1][f"{FOURTH[0]}_se"][-1]
    assert float(away.max()) > 8
