"""Written modules whose layer 1 depends on more than x·x/n_0: on means of four and six entries."""

import inspect
import re
from itertools import product

import numpy as np
import pytest
from sample_kernels import interpreted

from derive import (
    Gaussian,
    Network,
    Orthogonal,
    Rademacher,
    RegularSparse,
    Sparse,
    Uniform,
    activations,
    layers,
    recursion,
)
from numeric import flow, write_module
from numeric.emit import modules

X = np.array([[1.0, 0.5, -0.3, 2.0], [0.2, -0.7, 1.1, 0.4]])
WIDTH, DEPTH = 8, 4
C_W = "6/5"
NUMBERS = {"C_W": 1.2, "C_b": 0.1, "lambda_W": 1.0, "lambda_b": 0.7}
FOURTH, SIXTH = "kappa(z,z,z,z|0123)", "kappa(z,z,z,z,z,z|012345)"
OWN = layers.Layer(
    "h[i] = W1[i,a] s(z[a])",
    "z[i] = b[i] + W2[i,a] tanh(h[a])",
    weights={"W1": "orthogonal", "W2": Uniform(2)},
)


def source(folder, names, weights, first=None, layer="dense", sigma="tanh", *, single=True):
    """The text of a module of these tensors."""
    made = [recursion(name, weights, layer=layer) for name in names]
    made = [each.single_input() for each in made] if single else made
    return write_module(made, sigma, folder / "kernel.py", first).read_text(encoding="utf-8")


def columns(module, inputs=X):
    """The hyperparameters of `flow` with n = WIDTH."""
    found = {name: np.full(DEPTH, NUMBERS.get(name, 1.0)) for name in module.PARAMETERS}
    if "r_in" in found:
        found["r_in"][0] = inputs.shape[-1] / WIDTH
    return list(found.values())


def identifier(name):
    """The tensor as a name in Python."""
    return re.sub(r"\W+", "_", name).strip("_")


def network(weights, first=None, layer="dense", sigma="tanh"):
    return Network(sigma, weights, first, layer=layer, C_b="1/10", lambda_b=0.7)


@pytest.mark.parametrize(
    ("names", "weights", "first", "layer", "sigma"),
    [
        (["G1", "Theta1", "A", "B", "D", "F"], Uniform(C_W), None, "dense", "tanh"),
        (["G1", "Theta1"], RegularSparse("1/2", C_W=C_W), None, "normalized(layer)", "tanh"),
        (["G1", "V"], Rademacher(C_W), None, "dropout(3/4)", "hard_tanh"),
        (["G1", "V"], Gaussian(C_W), Uniform(C_W), OWN, "gelu"),
        (
            ["G1", "Theta1"],
            Orthogonal(C_W),
            Sparse("1/4", C_W=C_W),
            "dense; (residual(norm=rms); gated)*; dense",
            "tanh; gelu*",
        ),
    ],
)
def test_a_module_of_one_input_takes_fourth_means(names, weights, first, layer, sigma, tmp_path):
    """It is the flow, and neither that of other fourth means nor that of a Gaussian layer 1."""
    module = interpreted(source(tmp_path, names, weights, first, layer, sigma), "kernel")
    assert list(inspect.signature(module.flow).parameters)[:2] == ["K0", "M4"]
    expected = flow(network(weights, first, layer, sigma), X[0], DEPTH, names, width=WIDTH)
    other = flow(network(weights, Gaussian(C_W), layer, sigma), X[0], DEPTH, ["G1"], width=WIDTH)
    K0, M4 = module.means(X[0])

    def run(M4):
        found = module.flow(K0, M4, *columns(module))
        return dict(zip(module.TENSORS, found.T, strict=True))

    for name in names:
        np.testing.assert_allclose(run(M4)[name], expected[name], rtol=1e-12, atol=1e-13)
    assert np.abs(run(M4)["G1"] - other["G1"].to_numpy()).max() > 1e-3
    assert np.abs(run(M4)["G1"] - run(2 * M4)["G1"]).max() > 1e-3


@pytest.mark.parametrize(
    ("weights", "first", "layer"),
    [
        (RegularSparse("1/2", C_W=C_W), None, "dense"),
        (Orthogonal(C_W), Uniform(C_W), "dropout(3/4)"),
        (Uniform(C_W), None, "residual(skip=1/2)*; dense"),
    ],
)
def test_a_module_of_several_inputs_takes_fourth_means(weights, first, layer, tmp_path):
    text = source(tmp_path, ["G1"], weights, first, layer, single=False)
    module = interpreted(text, "kernel")
    expected = flow(network(weights, first, layer), X, 3, ["G1"], width=WIDTH)
    K0, M4 = module.means(X)
    given = [each[:3] for each in columns(module)]
    place = module.TENSORS.index("G1")
    found, other = (module.flow(K0, means, *given)[place] for means in (M4, 2 * M4))
    np.testing.assert_allclose(found, expected["G1"], rtol=1e-11, atol=1e-13)
    assert np.abs(found - other).max() > 1e-3


@pytest.mark.parametrize("single", [True, False])
def test_all_signs_of_the_weights_give_the_module(single, tmp_path):
    """z_a² z_b² averaged over all 2⁴ weights of a neuron, less its Gaussian average: n C_W times it
    is G1 of σ = z² at layer 2, to all orders. Derived here."""
    law = Rademacher(C_W)
    module = interpreted(
        source(tmp_path, ["G1"], law, sigma=activations.polynomial([0, 0, 1]), single=single),
        "kernel",
    )
    n_0 = X.shape[1]
    z = np.sqrt(1.2 / n_0) * np.array([*product([1.0, -1.0], repeat=n_0)]) @ X.T
    K = z.T @ z / len(z)
    gaussian = np.outer(np.diag(K), np.diag(K)) + 2 * K**2
    expected = WIDTH * 1.2 * ((z**2).T @ z**2 / len(z) - gaussian)
    numbers = {"C_W": 1.2, "C_b": 0.0, "r_in": n_0 / WIDTH}
    given = (np.full(2, numbers[name]) for name in module.PARAMETERS)
    found = module.flow(*module.means(X[0] if single else X), *given)
    place = module.TENSORS.index("G1")
    values, wanted = (found[1, place], expected[0, 0]) if single else (found[place][1], expected)
    np.testing.assert_allclose(values, wanted, rtol=1e-12)


def test_sixth_means_are_the_next_argument(tmp_path):
    """Layer 1 has κ_4 M4 C_W²/r_in and κ_6 M6 C_W³/r_in², with −6/5 and 48/7 of a uniform law."""
    made = [recursion(["z"] * k, Uniform(C_W), pairing="012345"[:k]) for k in (4, 6)]
    assert [each.target.label for each in made] == [FOURTH, SIXTH]
    for single in (True, False):
        x = X[0] if single else X
        given = [each.single_input() for each in made] if single else made
        path = write_module(given, "linear", tmp_path / "kernel.py")
        module = interpreted(path.read_text(encoding="utf-8"), "kernel")
        assert list(inspect.signature(module.flow).parameters)[:3] == ["K0", "M4", "M6"]
        _, M4, M6 = means = module.means(x)
        at_first = module.first_layer(*means, *(each[0] for each in columns(module)))
        found = dict(zip(module.TENSORS, at_first, strict=True))
        by_name = {FOURTH: -6 / 5 * 1.2**2 * 2 * M4, SIXTH: 48 / 7 * 1.2**3 * 4 * M6}
        for name, expected in by_name.items():
            np.testing.assert_allclose(found[identifier(name)], expected, rtol=1e-14)
    np.testing.assert_allclose(M6[0, 1, 1, 0, 1, 1], np.mean(X[0] ** 2 * X[1] ** 4), rtol=1e-14)


def test_an_input_of_zeros_is_exact(tmp_path):
    module = interpreted(source(tmp_path, ["G1"], Uniform(C_W)), "kernel")
    expected = flow(network(Uniform(C_W)), np.zeros(4), DEPTH, ["K", "G1"], width=WIDTH)
    found = module.flow(*module.means(np.zeros(4)), *columns(module))
    for name in ("K", "G1"):
        values = found[:, module.TENSORS.index(name)]
        np.testing.assert_allclose(values, expected[name], rtol=1e-13)


def test_means_that_no_input_has(tmp_path):
    """E x⁴ is E² x² at least: of ±0.1, where it is that apart from rounding, there is a flow."""
    module = interpreted(source(tmp_path, ["G1"], Uniform(C_W)), "kernel")
    module.flow(*module.means([0.1, -0.1, 0.1, 0.1]), *columns(module))
    with pytest.raises(ValueError, match="M4"):
        module.flow(1.0, 0.9, *columns(module))


def test_means_that_no_inputs_have(tmp_path):
    text = source(tmp_path, ["G1"], Uniform(C_W), sigma="linear", single=False)
    module = interpreted(text, "kernel")
    K0, M4 = module.means(X)
    turned = M4.copy()
    turned[0, 0, 0, 1] += 0.1
    low = 0.1 * M4  # the diagonal is below K0²
    mixed = M4 + 0.0
    for at in {(a, b, c, d) for a, b, c, d in np.ndindex(2, 2, 2, 2) if a + b + c + d == 2}:
        mixed[at] = -0.1  # E x_0² x_1² is negative
    for means, says in [
        (M4[0, 0], "shape"),
        (turned, "not symmetric"),
        (np.nan * M4, "not finite"),
        (low, "no inputs"),
        (mixed, "no inputs"),
    ]:
        with pytest.raises(ValueError, match=says):
            module.flow(K0, means, *columns(module))
    signs = np.array([[1.0, -1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])  # singular: M4 = K0 K0 in part
    module.flow(*module.means(0.1 * signs), *columns(module))


@pytest.mark.parametrize("single", [True, False])
def test_what_depends_on_the_kernel_alone_takes_it_alone(single, tmp_path):
    """V of independent weights, and every tensor of rotation-invariant ones."""
    for name, weights in (("V", Uniform(C_W)), ("G1", Orthogonal(C_W))):
        module = interpreted(source(tmp_path, [name], weights, single=single), "kernel")
        assert list(inspect.signature(module.flow).parameters)[:2] == ["K0", "C_W"]
        np.testing.assert_allclose(module.means(X[:1])[0], np.mean(X[0] ** 2), rtol=1e-15)


def test_a_compiled_module_takes_fourth_means(tmp_path):
    text = source(tmp_path, [FOURTH], Uniform(C_W), sigma="linear")
    assert "M4 = sum_k x_k x_k x_k x_k/n_0" in text
    assert "kappa(z,z,z,z|0123)(1) = -6*C_W**2*M4/(5*r_in)" in text
    module = modules.load(text, "fourth_means")
    found = module.flow(*module.means(X[0]), *columns(module))
    expected = flow(network(Uniform(C_W), sigma="linear"), X[0], DEPTH, FOURTH, width=WIDTH)
    np.testing.assert_allclose(found[:, -1], expected[FOURTH], rtol=1e-13)
    with pytest.raises(ValueError, match="M4"):
        module.flow(1.0, 0.9, *columns(module))
