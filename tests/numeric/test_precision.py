"""Flows to as many digits as asked: against exact values, against floats, against more digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
import xarray
from agreement import close
from flint import ctx

from derivations import cli
from derive import (
    Gaussian,
    Independent,
    InputError,
    Network,
    Orthogonal,
    RegularSparse,
    TruncatedNormal,
    Uniform,
    activations,
)
from derive.arithmetic import balls
from derive.gaussian import Shape, oracle
from numeric import compare, flow, normalise, plot, simulate
from numeric.layers.precise import envelopes, functions
from numeric.tables import as_text, from_text

SMOOTH = ["K", "G1", "V", "Theta", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U"]
KINKED = ["K", "G1", "V", "Theta", "A", "B", "D", "F"]
CUBIC = "polynomial(0,1,0,-1/10)"
TWO = [[1.0, 0.5], [0.3, -0.7]]


@pytest.mark.parametrize("sigma", ["tanh", "gelu", "erf", "sin", CUBIC, "softplus", "silu"])
def test_floats_agree_with_smooth_activations(sigma: str) -> None:
    close(Network(sigma, Orthogonal(C_W="9/10"), C_b="1/10"), [1.0, 0.5], 4, SMOOTH)


@pytest.mark.parametrize("sigma", ["relu", "hard_tanh", "leaky_relu(1/10)"])
def test_floats_agree_with_kinks(sigma: str) -> None:
    close(Network(sigma, Gaussian(C_W="3/2"), C_b="1/10"), [1.0, 0.5], 4, KINKED)


@pytest.mark.parametrize("sigma", ["tanh", "gelu", CUBIC, "relu", "hard_tanh"])
def test_floats_agree_with_two_inputs(sigma: str) -> None:
    close(Network(sigma), TWO, 3, ["K", "G1", "V"], 20)


@pytest.mark.parametrize(
    "inputs", [[[1.0, 0.5], [1.0, 0.5]], [[1.0, 0.5], [2.0, 1.0]], [[1.0, 2.0], [-1.0, -2.0]]]
)
@pytest.mark.parametrize("sigma", ["arctan", CUBIC])
def test_inputs_that_depend_on_each_other(sigma: str, inputs: list[list[float]]) -> None:
    close(Network(sigma), inputs, 3, ["K", "V"], 20)


@pytest.mark.parametrize("sigma", ["tanh", "gelu", "relu"])
@pytest.mark.parametrize("K", [1e-4, 1.0, 1e4])
def test_errors_hold(sigma: str, K: float) -> None:
    net, tensors = Network(sigma, C_W_of(sigma)), SMOOTH if sigma != "relu" else KINKED
    less, more = (flow(net, [K**0.5], 4, tensors, precision=p) for p in (20, 40))
    for name in tensors:
        errors = [table[f"{name}_error"].to_numpy() for table in (less, more)]
        for a, b, *bounds in zip(
            less[name].to_numpy(), more[name].to_numpy(), *errors, strict=True
        ):
            distance = abs(Fraction(a) - Fraction(b))
            assert distance <= sum(map(Fraction, bounds))
            assert distance <= abs(Fraction(b)) * Fraction(10) ** -19
            assert bounds[1] <= abs(float(b)) * 1e-39


KAPPA = "kappa(z,z,z,z|0123)"


@pytest.mark.parametrize("layer", ["dense", "residual(skip=1/2)"])
def test_floats_agree_with_independent_entries(layer: str) -> None:
    for law in (Uniform(C_W="6/5"), RegularSparse("1/2")):
        close(Network("tanh", law, layer=layer), [1.0, 0.5], 3, ["K", "G1", "V", "A", KAPPA], 20)
    mixed = Network("relu", Gaussian(C_W=2), "uniform", layer=layer, C_b="1/10")
    close(mixed, TWO, 3, ["K", "G1", "V", KAPPA], 20)


def test_independent_entries_of_a_square() -> None:
    """σ = z²: E z⁴ = 3K² + (6K G1 + 3V + κ)/n, and n = n_0 = 2."""
    square = Network(activations.polynomial([0, 0, 1]), Uniform(C_W=1))
    table = flow(square, [1.0, 2.0], 3, ["K", "G1", "V", KAPPA], precision=30)
    fourth, K, V = Fraction(-6, 5), [Fraction(5, 2), Fraction(75, 4)], 96 * Fraction(5, 2) ** 4
    kappa = [fourth * Fraction(17, 2), fourth * 105 * K[0] ** 4]
    G1 = [Fraction(0), kappa[0], 6 * K[1] * kappa[0] + 3 * V + kappa[1]]
    assert [Fraction(each) for each in table["G1"].to_numpy()] == G1
    assert [Fraction(each) for each in table[KAPPA].to_numpy()[:2]] == kappa
    assert Fraction(table["V"].to_numpy()[1]) == V


def test_cumulants_of_entries_keep_all_digits() -> None:
    """κ_4 = 0 is the Gaussian law; odd cumulants of an odd σ do not enter; an irrational κ_4."""
    tensors, given = ["K", "G1", "V", "Theta1"], ([1.0, 0.5], 3)
    skewed = Independent({3: "1/2", 4: 0})
    tables = [
        flow(Network("tanh", law, "gaussian"), *given, tensors, precision=25)
        for law in (Gaussian(), Independent({4: 0}), skewed)
    ]
    for name in tensors:
        assert len({tuple(table[name].to_numpy()) for table in tables}) == 1, name
    law = TruncatedNormal()
    found = flow(Network("tanh", law), [1.0, 3.0], 1, KAPPA, precision=120)[KAPPA].item()
    assert abs(sympy.Rational(str(found)) / 41 - law.cumulant(4)).evalf(10) < 1e-119


def C_W_of(sigma: str) -> Gaussian:
    return Gaussian(C_W=2 if sigma == "relu" else 1)


@pytest.mark.parametrize("digits", [16, 50, 120])
def test_relu_is_rational(digits: int) -> None:
    table = flow(Network("relu", Gaussian(C_W=2)), [1.0, 0.5], 6, ["K", "V"], precision=digits)
    K = Fraction(5, 4)
    assert [Fraction(each) for each in table["K"].to_numpy()] == [K] * 6
    assert [Fraction(each) for each in table["V"].to_numpy()] == [
        5 * layer * K**2 for layer in range(6)
    ]
    assert not table["V_error"].to_numpy().any()


def test_kernel_of_relu_at_two_inputs() -> None:
    table = flow(Network("relu", Gaussian(C_W=2)), [[1.0, 0.0], [1.0, 1.0]], 2, "K", precision=60)
    theta = sympy.pi / 4  # (Cho and Saul) C_W √(K11 K22) (sin θ + (π − θ) cos θ)/2π
    exact = sympy.sqrt(2) / sympy.pi * (sympy.sin(theta) + 3 * sympy.pi / 4 * sympy.cos(theta))
    value = table["K"].to_numpy()[1, 0, 1]
    assert abs(sympy.Rational(str(value)) - exact).evalf(10) < 5.1e-60


@pytest.mark.parametrize("inputs", [[1.0], [[1.0], [0.5]]])
def test_kernel_of_erf(inputs: object) -> None:
    table = flow(Network("erf_scaled(1)"), inputs, 2, "K", precision=80)
    K = sympy.Matrix([[1, sympy.Rational(1, 2)], [sympy.Rational(1, 2), sympy.Rational(1, 4)]])
    values = np.ravel(table["K"].to_numpy()[1])
    for value, (a, b) in zip(values, [(0, 0), (0, 1), (1, 0), (1, 1)], strict=False):
        ratio = 2 * K[a, b] / sympy.sqrt((1 + 2 * K[a, a]) * (1 + 2 * K[b, b]))
        exact = 2 / sympy.pi * sympy.asin(ratio)  # Williams
        assert abs(sympy.Rational(str(value)) - exact).evalf(10) < 1e-80


@pytest.mark.parametrize("sigma", ["tanh", "hard_tanh"])
def test_kernel_against_the_oracle(sigma: str) -> None:
    net = Network(sigma)
    table = flow(net, TWO, 2, "K", precision=18)
    below = [[mpmath.mpf(str(each)) for each in row] for row in table["K"].to_numpy()[0]]
    digits = 16 if sigma == "tanh" else 10
    found = oracle.bracket(net.activation, Shape((0, 0), (0, 0)), below, digits)
    value = mpmath.mpf(str(table["K"].to_numpy()[1, 0, 1]))
    assert abs(value - found.value) < mpmath.mpf(10) ** (1 - digits)


@pytest.mark.parametrize("sigma", ["relu", "hard_tanh", "leaky_relu(1/10)"])
@pytest.mark.parametrize("c", [-1.0, 2.0, -0.5])
def test_collinear_inputs_with_kinks(sigma: str, c: float) -> None:
    close(Network(sigma, Gaussian(C_W=2)), [[1.0, 0.5], [c, c / 2]], 3, ["K", "G1", "V"], 20)


def test_what_grows_too_fast_is_refused() -> None:
    with pytest.raises(InputError, match="power of z"):
        flow(Network("expr: exp(z)*tanh(z)"), [1.0], 2, ["K", "V"], precision=20)


def test_nearly_collinear_inputs() -> None:
    inputs = [[1.0, 0.0], [1.0, 1e-6]]
    less, more = (flow(Network("tanh"), inputs, 4, ["K", "G1"], precision=p) for p in (16, 32))
    for name in ("K", "G1"):
        for a, b in zip(less[name].to_numpy().flat, more[name].to_numpy().flat, strict=True):
            assert abs(a - b) <= abs(b) * Decimal("1e-15")


def test_zero_stays_zero() -> None:
    table = flow(Network("linear", Orthogonal()), [1.0, 0.3], 4, ["K", "U", "G1"], precision=20)
    assert not table["U"].to_numpy().any()
    assert not table["G1"].to_numpy().any()
    assert (table["U_error"].to_numpy() < 1e-39).all()


def test_zero_input() -> None:
    table = flow(Network("tanh"), [[0.0, 0.0], [1.0, 1.0]], 3, ["K", "V"], precision=20)
    assert [str(each) for each in table["K"].to_numpy()[:, 0, 1]] == ["0", "0", "0"]


def test_layers_and_width_are_exact() -> None:
    net = Network("linear", Gaussian(C_W="1/3"), C_b="1/7")
    values = flow(net, [1.0], 3, "K", precision=40)["K"].to_numpy()
    with localcontext(prec=40):
        exact = [Fraction(1, 3) + Fraction(1, 7)]
        for _ in range(2):
            exact.append(exact[-1] / 3 + Fraction(1, 7))
        assert list(values) == [Decimal(x.numerator) / x.denominator for x in exact]


@pytest.mark.parametrize("precision", [0, 15, 1001, 20.5, "30", True])
def test_refused_precisions(precision: object) -> None:
    with pytest.raises(InputError, match="precision"):
        flow(Network("tanh"), [1.0], 2, precision=precision)  # type: ignore[arg-type]


def test_refused_time() -> None:
    inputs = [
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ]
    with pytest.raises(InputError, match="would take"):
        flow(Network("gelu"), inputs, 3, "V", precision=1000)


def test_saved_and_opened(tmp_path: object) -> None:
    table = flow(Network("tanh"), TWO, 2, ["K", "V"], precision=25)
    path = f"{tmp_path}/table.nc"
    as_text(table).to_netcdf(path)
    opened = from_text(xarray.open_dataset(path))
    xarray.testing.assert_identical(opened, table)
    assert isinstance(opened["V"].to_numpy().flat[0], Decimal)
    with pytest.raises(InputError, match="texts of numbers"):
        from_text(as_text(table).assign(K=as_text(table)["K"] + "x"))


def test_tables_are_compared_drawn_and_normalised() -> None:
    net = Network("tanh")
    table = flow(net, TWO, 3, ["K", "V"], precision=35)
    sampled = simulate(net, TWO, width=20, depth=3, draws=100, tensors=["K", "V"])
    assert compare(table, sampled).agrees
    assert len(plot(table).axes) == 2
    floats = normalise(flow(net, TWO, 3, ["K", "V"]))["V_tilde"].to_numpy()
    values = normalise(table)["V_tilde"].to_numpy()
    np.testing.assert_allclose(values.astype(float), floats, rtol=1e-9, atol=1e-12)
    assert len(values[2, 0, 0, 0, 0].as_tuple().digits) >= 35


def test_printed(capsys: pytest.CaptureFixture[str]) -> None:
    line = "flow --tensors V --activation gelu --depth 3 --precision 40"
    assert cli.main(line.split()) == 0
    value = capsys.readouterr().out.split()[-1]
    assert len(Decimal(value).as_tuple().digits) == 40


@pytest.mark.parametrize("sigma", ["tanh", "gelu", "sin", "softplus", "erf_unit_slope"])
def test_envelopes_bound_what_is_sampled(sigma: str) -> None:
    """On the strip, at random, in mpmath's complex numbers."""
    activation = activations.by_name(sigma)
    rng = np.random.default_rng(1)
    for order in (0, 1, 3):
        values = sympy.lambdify(activations.z, activation.derivative(order), "mpmath")
        for height in envelopes.heights(activation)[:5]:
            bound = envelopes.of_derivative(activation, order, height)
            assert bound is not None
            for t, b in zip(rng.normal(0, 4, 40), rng.uniform(-height, height, 40), strict=True):
                at = mpmath.mpc(t, b)
                largest = float(bound.size) * (1 + t * t) ** (bound.degree / 2)
                assert abs(values(at)) <= largest


def test_functions_of_balls() -> None:
    """Against mpmath, at 40 digits."""
    for sigma in ("gelu", "softplus", "silu", "arctan"):
        activation = activations.by_name(sigma)
        with ctx.workprec(160):
            found = functions.derivatives(activation, (0, 2), 160)(balls.ball(Fraction(3, 7)))
        for value, order in zip(found, (0, 2), strict=True):
            exact = activation.derivative(order).subs(activations.z, sympy.Rational(3, 7)).evalf(40)
            assert abs(sympy.Float(value.str(40, radius=False), 40) - exact) < 1e-38
