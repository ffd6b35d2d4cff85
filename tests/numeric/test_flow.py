"""Recursions run down the layers: against mpmath, against closed solutions, on odd inputs."""

from __future__ import annotations

import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import sympy

from derive import Equation, Gaussian, Network, Orthogonal, activations, exact, recursion, symbols
from derive.engine import FIRST_ORDER
from derive.errors import InputError
from derive.gaussian import gaussian_average
from derive.weights import LowRankGaussian, Truncated
from numeric import compare, flow, normalise, simulate
from numeric.hyperparameters import hyperparameters
from numeric.tables import tensors as tensors_of

X = np.random.default_rng(3).uniform(size=(3, 40))


def precise_flow(activation, weights, K0, depth, C_b=0):
    """K, G1, V through mpmath: the recursions as sympy says them, brackets by mpmath.quad."""
    C_W = weights.C_W
    own = [symbols.tensor(name) for name in ("G1", "V")]
    makes = {name: recursion(name, weights).single_input() for name in ("K", "G1", "V")}
    z = activations.z

    def average(bracket, K):
        body = sympy.prod([activation.derivative(order) for _, order in bracket.factors])
        f = sympy.lambdify(z, sympy.diff(body, z, len(bracket.outer)), "mpmath")
        return mpmath.quad(
            lambda x: f(mpmath.sqrt(K) * x) * mpmath.npdf(x), mpmath.linspace(-12, 12, 13)
        )

    hyper = {symbols.C_W: C_W, symbols.C_b: C_b}
    K, G1, V = mpmath.mpf(K0) * mpmath.mpf(C_W) + C_b, mpmath.mpf(0), mpmath.mpf(0)
    if isinstance(weights, Orthogonal):
        V = -2 * (mpmath.mpf(K0) * C_W) ** 2
    rows = [(K, G1, V)]
    for _ in range(depth - 1):
        values = {}
        for name, made in makes.items():
            expr = made.expr.subs(hyper)
            rule = {
                a: sympy.Float(average(a.bracket, K), 25)
                for a in expr.atoms(sympy.Expr)
                if type(a).__name__ == "Average"
            }
            values[name] = mpmath.mpf(
                expr.xreplace(rule).subs(dict(zip(own, (G1, V), strict=True)))
            )
        K, G1, V = values["K"], values["G1"], values["V"]
        rows.append((K, G1, V))
    return rows


@pytest.mark.parametrize(
    ("activation", "weights", "C_b"),
    [
        (activations.tanh, Orthogonal(), 0),
        (activations.gelu, Gaussian(sympy.Rational(3, 2)), sympy.Rational(1, 10)),
        (activations.sin, Orthogonal(2), 0),
    ],
    ids=str,
)
def test_flow_meets_mpmath(activation, weights, C_b):
    net = Network(activation, weights, C_b=C_b)
    table = flow(net, X[0], 6, ["K", "G1", "V"])
    expected = precise_flow(activation, weights, float(X[0] @ X[0] / X[0].size), 6, C_b)
    for layer, row in enumerate(expected, start=1):
        for name, value in zip(("K", "G1", "V"), row, strict=True):
            got = table[name].sel(layer=layer).item()
            assert got == pytest.approx(float(value), rel=1e-10, abs=1e-13)


@pytest.mark.parametrize("weights", [Gaussian(2), Orthogonal(2)], ids=str)
def test_relu_flow_is_the_limit_of_the_exact_curve(weights):
    net = Network(activations.relu, weights)
    table = normalise(flow(net, X[0], 8, ["K", "V"]))["V_tilde"]
    for layer in (1, 2, 8):
        limit = sympy.limit(exact.vertex(net, layer), exact.n, sympy.oo)
        assert table.sel(layer=layer).item() == pytest.approx(float(limit), rel=1e-11)


@pytest.mark.parametrize("activation", [activations.tanh, activations.relu], ids=str)
def test_one_of_several_inputs_is_the_single_one(activation):
    net = Network(activation, Orthogonal(sympy.Rational(3, 2)), C_b=sympy.Rational(1, 10))
    several = flow(net, X[:2], 5, ["K", "G1", "V"])
    alone = flow(net, X[0], 5, ["K", "G1", "V"])
    for name in ("K", "G1", "V"):
        first = several[name].isel(dict.fromkeys(several[name].dims[1:], 0))
        np.testing.assert_allclose(first, alone[name], rtol=1e-9, atol=1e-11)


def test_repeated_inputs_repeat_their_tensors():
    net = Network(activations.tanh, Orthogonal())
    table = flow(net, np.stack([X[0], X[0]]), 5, ["K", "G1", "V"])
    alone = flow(net, X[0], 5, ["K", "G1", "V"])
    for name in ("K", "G1", "V"):
        values = table[name].to_numpy().reshape(5, -1)
        np.testing.assert_allclose(
            values, alone[name].to_numpy()[:, None] * np.ones_like(values), rtol=1e-9, atol=1e-12
        )


def test_odd_activations_flip_sign_with_their_input():
    net = Network(activations.tanh, Orthogonal())
    table = flow(net, np.stack([X[0], -X[0]]), 4, ["K", "V"])
    K, V = table["K"].to_numpy(), table["V"].to_numpy()
    np.testing.assert_allclose(K[:, 0, 1], -K[:, 0, 0], rtol=1e-10)
    np.testing.assert_allclose(V[:, 0, 0, 0, 1], -V[:, 0, 0, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(V[:, 0, 1, 0, 1], V[:, 0, 0, 0, 0], rtol=1e-9)


def test_symmetries_of_V():
    V = flow(Network(activations.gelu, Orthogonal()), X, 3, ["V"])["V"].to_numpy()
    np.testing.assert_allclose(V, V.transpose(0, 2, 1, 3, 4), rtol=1e-12)
    np.testing.assert_allclose(V, V.transpose(0, 3, 4, 1, 2), rtol=1e-12)


@pytest.mark.parametrize("activation", [activations.tanh, activations.relu], ids=str)
def test_a_zero_input_stays_zero_without_biases(activation):
    table = flow(Network(activation, Orthogonal()), np.zeros(7), 3, ["K", "V"])
    assert not table["K"].to_numpy().any()
    assert not table["V"].to_numpy().any()


def test_unequal_widths_meet_the_ensemble():
    """Gaussian layers of widths n, 2n, n, …: each V is n × the connected function, n the reference.

    8 comparisons at a family-wise false-alarm rate of 5.7e-7."""
    net = Network(activations.tanh, Gaussian(), width_ratio=lambda layer: 1 + layer % 2)
    table = flow(net, X[0], 4, ["K", "V"])
    samples = [
        simulate(net, X[0], width=w, depth=4, draws=20_000, tensors=["K", "V"], seed=5)
        for w in (40, 80, 160)
    ]
    found = compare(table, samples)
    assert found.agrees, str(found)


def test_wide_inputs_of_an_orthogonal_first_layer():
    """n_0 = 4n: the first layer is a quarter of the rows of a larger Haar matrix, so V is V/4."""
    net = Network(activations.linear, Orthogonal())
    table = flow(net, X[0], 1, ["K", "V"], width=10)
    assert table["V"].item() == pytest.approx(-2 * table["K"].item() ** 2 / 4)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"depth": 0}, "depth"),
        ({"tensors": ["W"]}, "tensor"),
        ({"tensors": []}, "tensors"),
        ({"inputs": np.array([1.0, np.nan])}, "inputs"),
        ({"inputs": np.ones((2, 2, 2))}, "inputs"),
        ({"net": "tanh"}, "net"),
        ({"net": Network(activations.tanh, Gaussian(sympy.Symbol("c")))}, "C_W"),
    ],
)
def test_bad_input(change, match):
    arguments = {
        "net": Network(activations.tanh),
        "inputs": X[0],
        "depth": 3,
        "tensors": ["K"],
        **change,
    }
    with pytest.raises(InputError, match=match):
        flow(**arguments)


def test_overflow_is_an_error():
    net = Network(activations.polynomial([0, 0, 0, 1]), Gaussian(10))
    with pytest.raises(InputError, match="not finite at layer"):
        flow(net, 10 * X[0], 12, ["K", "V"])


def test_normalise_by_distinct_pairs():
    """Source 000, (A.1) and (A.3)."""
    table = flow(Network(activations.tanh, Orthogonal()), X, 3, ["K", "V"])
    K, V = table["K"].to_numpy()[2], table["V"].to_numpy()[2]
    got = normalise(table)["V_tilde"].to_numpy()[2]
    assert got[0, 0, 1, 1] == pytest.approx(
        V[0, 0, 1, 1] / ((K[0, 0] * K[1, 1] + K[0, 1] ** 2) / 2)
    )
    assert got[0, 0, 0, 1] == pytest.approx(V[0, 0, 0, 1] / (K[0, 0] * K[0, 1]))
    assert got[0, 1, 2, 0] == pytest.approx(
        V[0, 1, 2, 0] / ((K[0, 1] * K[0, 2] + K[0, 0] * K[1, 2]) / 2)
    )
    with pytest.raises(InputError, match="a kernel of 0"):
        normalise(flow(Network(activations.tanh), np.zeros(3), 2, ["K", "V"]))
    with pytest.raises(InputError, match="one with K"):
        normalise(table[["V"]])


def test_the_whole_tower_flows():
    """Every tensor of order 1/n, by name, by its fields and by its label."""
    net = Network(activations.tanh, Orthogonal(), lambda_b=lambda layer: 1 / layer)
    inputs = np.linspace(0.1, 1.2, 6)
    single = flow(net, inputs, 4, "all")
    assert tensors_of(single) == list(FIRST_ORDER)
    made = recursion(["H", "z", "z"], pairing=((0, 2), (1, 3)))
    for tensor in (made, "kappa(z,z,H|02 13)"):
        np.testing.assert_allclose(flow(net, inputs, 4, tensor)["F"], single["F"])


def test_axes_follow_the_fields_as_they_are_given():
    net = Network(activations.sin, Gaussian(), C_b=0.1)
    inputs = np.array([[1.0, 0.2, -0.3], [0.1, -1.0, 0.5]])
    own = recursion(["H", "z", "z"], pairing=((0, 1), (2, 3)))
    table = flow(net, inputs, 3, ["D"])["D"].to_numpy()
    moved = flow(net, inputs, 3, [own])["D"].to_numpy()
    np.testing.assert_allclose(moved, np.transpose(table, (0, 3, 4, 1, 2)))


def test_a_field_of_ones_own_flows():
    """The Jacobian's Gram matrix: κ(J) = C_W^ℓ Π ⟨σ'²⟩ over the layers."""
    jacobian = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
    net = Network(activations.tanh, Orthogonal(1.3))
    table = flow(net, [1.0, 0.5], 5, [recursion([jacobian]), "K"])
    slope = activations.tanh.derivative(1) ** 2
    slopes = [float(gaussian_average(slope, K, 20).value) for K in table["K"].to_numpy()[:-1]]
    expected = 1.3 ** np.arange(1, 6) * np.cumprod([1.0, *slopes])
    np.testing.assert_allclose(table["kappa(J|01)"], expected, rtol=1e-12)


def test_corrections_of_the_variances_reach_the_metric():
    """A network with C_W + c/n has G1 shifted by the derivative of K by C_W, times c."""
    inputs, c, step = [1.0, 0.5, -0.2], 0.7, 1e-5
    plain, above, below = (
        flow(Network(activations.tanh, Orthogonal(C)), inputs, 6, ["K", "G1"])
        for C in (1, 1 + step, 1 - step)
    )
    corrected = flow(
        Network(activations.tanh, Orthogonal(), C_W_corrections=(c,)), inputs, 6, ["G1"]
    )
    slope = (above["K"] - below["K"]) / (2 * step)
    np.testing.assert_allclose(corrected["G1"], plain["G1"] + c * slope, rtol=1e-8)
    with pytest.raises(InputError, match="C_b_corrections"):
        Network(activations.tanh, C_b_corrections=("x y",))


def test_normalisation_of_the_second_differentials():
    """P̃ = P/Θ² and R̃ = RK/Θ³ (6.15), (6.16), of one input alone."""
    net = Network(activations.tanh, Gaussian(1))
    table = flow(net, [0.5, -1.0], 3, ["K", "Theta", "P", "R"])
    found = normalise(table)
    K, Theta = table["K"], table["Theta"]
    np.testing.assert_allclose(found["P_tilde"], table["P"] / Theta**2, rtol=1e-14)
    np.testing.assert_allclose(found["R_tilde"], table["R"] * K / Theta**3, rtol=1e-14)
    with pytest.raises(InputError, match="K"):
        normalise(table[["Theta", "R"]])
    several = table.expand_dims({f"sample_{k}": 1 for k in range(1, 5)}, axis=(1, 2, 3, 4))
    with pytest.raises(InputError, match="several inputs"):
        normalise(several[["K", "Theta", "R"]])


def test_beside_each_number_stands_its_error():
    """In a linear Haar network V is −2K² and D is 0: both to the error that is told."""
    net = Network(activations.linear, Orthogonal(1))
    table = flow(net, [0.5, -1.0], 3, ["K", "Theta", "V", "D"])
    K, Theta = table["K"].to_numpy(), table["Theta"].to_numpy()
    assert (abs(table["V"] + 2 * K**2) <= table["V_error"]).all()
    assert (abs(table["D"]) <= table["D_error"]).all()
    assert (table["V_error"] <= 1e-12 * K**2).all()
    assert (table["D_error"] <= 1e-12 * K * Theta).all()
    assert table["V_error"].attrs["long_name"] == "estimated error of V"


@pytest.mark.parametrize("other", ["kappa(z,H,z|02 13)", "kappa(z,z,H|03 12)"])
def test_one_label_is_not_given_to_two_orders_of_axes(other):
    net, inputs = Network(activations.linear, C_b=1), [[1.0, 2.0], [0.5, -1.0]]
    told = r"axes \(0, 2, 1, 3\).* one order of the axes of F, their label"
    with pytest.raises(InputError, match=told):
        flow(net, inputs, 3, ["F", other])
    with pytest.raises(InputError, match=told):
        simulate(net, inputs, 4, 3, 8, tensors=["F", other])
    twice = flow(net, inputs, 3, ["D", "kappa(z,z,H|01 23)", "kappa(z,z,H|10 23)"])
    assert [name for name in twice if not str(name).endswith("_error")] == ["D"]


def test_what_is_the_same_at_every_layer_is_looked_up_once(monkeypatch):
    """A depth of 10⁵ costs no look-ups; the numbers are those of each layer."""
    net = Network(
        activations.tanh, Gaussian(2), Gaussian(1), C_b=0.5, lambda_b=lambda layer: 1 / layer
    )
    values = hyperparameters(net, 9, 3, None)
    assert values["C_W"].tolist() == [1, *[2] * 8]
    assert values["C_b"].tolist() == [0.5] * 9
    np.testing.assert_allclose(values["lambda_b"], 1 / np.arange(1, 10), rtol=1e-15)
    asked = []
    value = Network._value

    def counted(self, name, layer):
        asked.append(name)
        return value(self, name, layer)

    monkeypatch.setattr(Network, "_value", counted)
    hyperparameters(net, 50, 3, None)
    assert {name: asked.count(name) for name in asked} == {
        "width_ratio": 1,
        "C_b": 1,
        "lambda_W": 1,
        "lambda_b": 50,
    }
    assert net.has_equal_widths(10**9)


@pytest.mark.parametrize("ratio", ["1e400", "1e300", "1e17"])
def test_blocks_of_matrices_beyond_memory_are_refused(ratio):
    net = Network(activations.tanh, Truncated(ratio=sympy.Integer(10) ** int(ratio[2:])))
    with pytest.raises(InputError, match="ratio: "):
        simulate(net, [1.0, 2.0], 5, 2, 10, tensors=["K"])


def test_bits_do_not_depend_on_hashes():
    """The monomials of a recursion are sets, of which two processes share no order."""
    code = (
        "from derive import Network, Orthogonal; from numeric import flow;"
        "net = Network('tanh', Orthogonal(), C_b=0.1);"
        "tables = [flow(net, [1, 0.5], 4, ['D']), flow(net, [[1, 0.5], [0.2, 0.8]], 3, ['V'])];"
        "print([table[name].to_numpy().tobytes() for table in tables for name in table])"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert first == second


@pytest.mark.parametrize(("name", "depth"), [("G1", 3), ("V", 3), ("A", 2), ("Q", 2)])
def test_flow_is_the_limit_of_exact_moments(name, depth):
    """At n = 6·10⁹, where nothing is left of the next order; G1 as the difference of two widths."""
    half, n = sympy.Rational(1, 2), 6 * 10**9
    net = Network(
        activations.polynomial([0, 1, half**2]),
        LowRankGaussian(3 * half, gamma=half),
        first_weights=Gaussian(1),
        C_b=sympy.Rational(1, 10),
    )
    x = [0.6, 0.9, 0.3]
    kernel = {(1, 1): sympy.Rational(126, 300)}
    of = {"name": ["z", "z"], "pairing": ((0, 1),)} if name == "G1" else {"name": name}
    theory = flow(net, x, depth, name)[name]
    for layer in range(1, depth + 1):
        one, two = (
            exact.cumulant(**of, network=net, layer=layer, width=k, inputs=3, kernel=kernel)
            for k in (n, 2 * n)
        )
        value = float(2 * n * (one - two) if name == "G1" else one)
        assert float(theory.sel(layer=layer)) == pytest.approx(value, rel=2e-8, abs=1e-12)
