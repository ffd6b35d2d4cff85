"""Recursions as data, and brackets in NumPy: equal to what the emitted modules compute."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import sympy
from sample_kernels import brackets_source, interpreted
from scipy import special

from derive import Gaussian, Network, Orthogonal, activations, recursion
from derive.activations import z
from derive.arithmetic import Parameter
from derive.engine import Tensor, identify
from derive.errors import InputError
from derive.gaussian import SingleShape, leibniz
from derive.gaussian.distributions import distribution
from numeric import flow, write_module
from numeric.brackets import quadrature
from numeric.emit import modules, stable
from numeric.layers import one_sample, run, several_samples
from numeric.layers.program import Table

ELU = activations.from_expr("Max(z, 0) + Min(exp(z) - 1, 0)", "elu")
SHAPES = [
    SingleShape((0, 0)),
    SingleShape((0, 0), 2),
    SingleShape((0, 0), 4),
    SingleShape((0, 1), 1),
    SingleShape((0, 0, 0, 0)),
]
SMOOTH_SHAPES = [*SHAPES, SingleShape((1, 1), 4), SingleShape((1, 1, 1, 3))]
KERNELS = np.array([1e-8, 1e-3, 0.5, 3.0, 100.0, 1e4, 1e8])
EPS = np.finfo(float).eps


SLOW = [  # to compile what they compare with
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("gelu", "sin", "erf_unit_slope", "hard_tanh", "elu")
]


def absolute(sigma, shape: SingleShape, K: float, *, folded: bool = True) -> float:
    """What a sum has to add up: ∫|F| of an average's integrand F, at ±z at once (or not, as where
    both are rounded) and by parts where that is less, or with kinks as it is, and |c δ| of what
    sits on them; by the trapezoid rule on z = s sinh(u)."""
    s, scale = min(1.0, np.sqrt(K)), np.sqrt(K)
    u, du = np.linspace(-1.0, 1.0, 20_001, retstep=True)
    reach = np.arcsinh(38.0 * scale / s)
    at, x = s * np.sinh(reach * u), s * np.sinh(reach * u) / scale
    weight = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) * s * np.cosh(reach * u) / scale * reach
    if not sigma.is_smooth:
        whole = distribution(sigma, shape)
        cuts = np.searchsorted([float(kink) for kink in sigma.kinks], at)
        F = np.choose(cuts, [at_nodes(each, at) for each in whole.pieces])
        on_kinks = 0.0
        for (kink, order), c in whole.deltas.items():
            y, he = float(kink) / scale, [0.0] * order + [1.0]
            on = np.polynomial.hermite_e.hermeval(y, he) * np.exp(-0.5 * y * y)
            on_kinks += abs(float(c) * on) / scale ** (order + 1) / np.sqrt(2.0 * np.pi)
        return float((np.abs(F) * weight).sum() * du + on_kinks)
    inside = quadrature.settled(sigma, *shape)
    found = []
    for outer in {shape.outer, inside}:
        he = np.polynomial.hermite_e.hermeval(x, [0.0] * (shape.outer - outer) + [1.0])
        F = sum(
            times * np.prod([at_nodes(sigma.derivative(m), at) for m in orders], axis=0)
            for orders, times in leibniz(shape.orders, outer).items()
        )
        own = F * he
        size = 0.5 * np.abs(own + own[::-1]) if folded else np.abs(own)
        found.append((size * weight).sum() * du / scale ** (shape.outer - outer))
    return float(min(found))


def at_nodes(expr: sympy.Expr, at: np.ndarray) -> np.ndarray:
    """An expression's values at these z."""
    return np.broadcast_to(compiled(expr)(at), at.shape)


@cache
def compiled(expr: sympy.Expr):
    own = {
        "Sigmoid": special.expit,
        "ErrorTail": special.erfc,
        "SechSquared": lambda x: 4 * special.expit(2 * x) * special.expit(-2 * x),
    }
    return sympy.lambdify(z, stable(expr), [own, "scipy", "numpy"])


@pytest.mark.parametrize("name", ["tanh", "relu", *SLOW])
def test_brackets_of_one_sample_are_the_emitted_ones(name) -> None:
    sigma = ELU if name == "elu" else activations.by_name(name)
    shapes = SMOOTH_SHAPES if sigma.is_smooth else SHAPES
    kernels = KERNELS[1:4] if name == "elu" else KERNELS  # e^z − 1 cancels at small z
    values, sizes = one_sample.averages(sigma, shapes)(kernels)
    emitted = interpreted(brackets_source(sigma, shapes), "brackets")
    with np.errstate(all="ignore"):
        expected = np.array([emitted.brackets(K) for K in kernels]).T
    defined = np.isfinite(expected)
    assert defined.sum() >= 0.8 * defined.size
    assert (defined == np.isfinite(values)).all()
    added = np.array([[absolute(sigma, shape, K) for K in kernels] for shape in shapes])
    assert (np.abs(values - expected) <= 64 * EPS * sizes)[defined].all()
    assert (sizes >= 0.9 * added)[defined].all()
    near = defined & (kernels <= 100.0)  # at larger ones the nodes' own rounding is counted too
    rounded = np.array([[absolute(sigma, s, K, folded=False) for K in kernels] for s in shapes])
    assert (sizes <= 16 * rounded + np.finfo(float).tiny)[near].all()


@pytest.mark.parametrize("name", ["tanh", "gelu", "relu"])
def test_a_kernel_has_the_same_bits_in_any_company(name) -> None:
    sigma = activations.by_name(name)
    average = one_sample.averages(sigma, SHAPES)
    together, _ = average(np.concatenate([KERNELS, KERNELS[::-1]]))
    alone = [average(np.array([K]))[0][:, 0] for K in KERNELS]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(together[:, : len(KERNELS)].T, alone)


def covariances(d: int) -> dict[str, np.ndarray]:
    """Regular, singular and nearly singular ones, and one with a variance of 0."""
    rng = np.random.default_rng(d)
    found = {}
    for kind in ("regular", "singular", "near", "zero"):
        X = rng.normal(size=(d, d + 1))
        if kind == "singular":
            X[-1] = -X[0]
        if kind == "near":
            X[-1] = X[0] + 1e-5 * rng.normal(size=d + 1)
        if kind == "zero":
            X[-1] = 0.0
        found[kind] = X @ X.T / (d + 1)
    return found


def moment(exponents: tuple[int, ...], K: np.ndarray) -> float:
    """⟨Π z_s^{e_s}⟩ by Wick's pairings."""
    first = next((s for s, e in enumerate(exponents) if e), None)
    if first is None:
        return 1.0
    left = list(exponents)
    left[first] -= 1
    total = 0.0
    for s, e in enumerate(left):
        if e:
            left[s] -= 1
            total += e * K[first, s] * moment(tuple(left), K)
            left[s] += 1
    return total


@pytest.mark.parametrize("d", [2, 3, 4])
def test_sums_of_powers_are_wick_s(d) -> None:
    """σ = z³ and its derivatives 3z², 6z: sums over d samples, with several factors at one."""
    cubic, degree, size = activations.monomial(3), {0: 3, 1: 2, 2: 1}, {0: 1.0, 1: 3.0, 2: 6.0}
    products = [((0,),) * d, ((0, 1), *((2,),) * (d - 1)), ((1,), *((0,),) * (d - 2), (0, 2))]
    sums = several_samples.Sums(cubic, products)
    for K in covariances(d).values():
        values, sizes = sums(K)
        for each, value, scale in zip(products, values, sizes, strict=True):
            exponents = tuple(sum(degree[order] for order in orders) for orders in each)
            factor = np.prod([size[order] for orders in each for order in orders])
            assert abs(value - factor * moment(exponents, K)) <= 16 * EPS * scale


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_collinear_samples_are_one(name) -> None:
    sigma, q = activations.by_name(name), 0.7
    sums = several_samples.Sums(sigma, [((0,), (0,)), ((1,), (1, 2))])
    alone = one_sample.averages(sigma, [SingleShape((0, 0)), SingleShape((1, 1, 2))])
    (found, size), (expected, _) = sums(np.full((2, 2), q)), alone(np.array([q]))
    assert (np.abs(found - expected[:, 0]) <= 8 * EPS * size).all()


def test_sums_share_nodes_and_do_not_depend_on_it() -> None:
    K = covariances(3)["regular"]
    products = [((0,), (0, 1), (1,)), ((0, 0), (1,), (1,)), ((2,), (), (0,))]
    together = several_samples.Sums(activations.gelu, products)(K)
    for place, each in enumerate(products):
        alone = several_samples.Sums(activations.gelu, [each])(K)[:, 0]
        assert abs(alone[0] - together[0, place]) <= 8 * EPS * alone[1]


def test_a_table_evaluates_its_recursions_term_by_term() -> None:
    steps = [recursion("V", Orthogonal(), first_layer=True), recursion("V", first_layer=True)]
    rng, m = np.random.default_rng(1), 3
    kernel = rng.integers(-3, 4, (m, m)).astype(float)
    kernel += kernel.T
    names = sorted({atom.name for step in steps for atom in step.atoms(Parameter)})
    numbers = {name: float(k + 2) for k, name in enumerate(names)}

    def find(atom, inverse):
        if isinstance(atom, Parameter):
            return 1 + names.index(atom.name) + inverse * len(names), ()
        return 1 + 2 * len(names), atom.samples

    column = np.array(list(numbers.values()))
    vector = np.concatenate([[1.0], column, 1.0 / column, kernel.ravel()])
    found, sizes = Table(steps, m, find)(np.array([vector, np.abs(vector)]))
    values = found[0].reshape(2, m, m, m, m)
    assert (np.abs(found[0]) <= sizes).all()
    for step, found in zip(steps, values, strict=True):
        for index in np.ndindex(found.shape):
            sample = dict(zip(step.samples, index, strict=True))
            total = Fraction(0)
            for (mono, _), coefficient in step.terms.items():
                term = coefficient
                for atom, exponent in mono:
                    if isinstance(atom, Tensor):
                        factor = kernel[tuple(sample[label] for label in identify(atom)[1])]
                    else:
                        factor = numbers[atom.name]
                    term *= Fraction(factor) ** exponent
                total += term
            assert found[index] == pytest.approx(float(total), rel=1e-14, abs=1e-13)


@pytest.mark.parametrize("sigma", [activations.tanh, activations.relu, ELU], ids=str)
@pytest.mark.parametrize("count", [1, 2])
def test_flow_compiles_nothing(sigma, count, monkeypatch) -> None:
    def refused(*args: object) -> None:
        raise AssertionError("a module was to be compiled")

    monkeypatch.setattr(modules, "load", refused)
    X = np.array([[1.0, 0.3, -0.2], [0.1, 0.9, 0.4]])[:count]
    net = Network(sigma, Gaussian(C_W=1.25), C_b=0.125)
    table = flow(net, X, 3, ["K", "G1", "V", "Theta", "A"])
    assert np.isfinite(table["V"]).all()


@pytest.mark.parametrize("sigma", [activations.tanh, activations.relu, ELU], ids=str)
def test_more_inputs_in_one_average_than_there_are_rules_for(sigma) -> None:
    X = np.random.default_rng(3).standard_normal((5, 6))
    with pytest.raises(InputError, match=r"inputs: got 5 of them in one average.*at most 4"):
        flow(Network(sigma), X, 2, ["U6"])


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("name", ["tanh", "relu", "elu", "tanh; relu; elu*"])
def test_a_written_module_gives_what_flow_does(name, samples, tmp_path) -> None:
    """Two roads from one recursion: kernels that are written, and a table that is evaluated."""
    X = np.array([[1.0, 0.3, -0.2], [0.1, 0.9, 0.4]])[:samples]
    net = Network(name, Orthogonal(C_W=1.5), C_b=0.25)
    table = flow(net, X, 4, ["K", "G1", "V"])
    made = [recursion(each, Orthogonal()) for each in ("K", "G1", "V")]
    made = [each.single_input() for each in made] if samples == 1 else made
    path = write_module(made, name, tmp_path / "kernel.py")
    kernel = interpreted(path.read_text(encoding="utf-8"), "kernel")
    given = {"C_W": 1.5, "C_b": 0.25, "r_big": 1.0, "r_in": 1.0}
    columns = [np.full(4, given[each]) for each in kernel.PARAMETERS]
    K0 = X @ X.T / 3
    found = kernel.flow(K0 if samples > 1 else float(K0[0, 0]), *columns)
    found = found.T if samples == 1 else found
    for each, values in zip(kernel.TENSORS, found, strict=True):
        expected = table[each].to_numpy().reshape(values.shape)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("activation", "C_W", "C_b", "at_once"),
    [
        ("tanh", 1, 0, True),
        ("gelu", 2, 0.1, True),
        ("relu", 2.1, 0.1, True),
        ("erf_unit_slope", 0.1, 0, False),
    ],
)
def test_kernels_of_many_layers_are_found_at_once(monkeypatch, activation, C_W, C_b, at_once):
    """As one after the other, far below the stated errors; where they fall to nothing, so."""
    net, names, went_well = Network(activation, Gaussian(C_W), C_b=C_b), ["K", "V"], []
    kernels = run.Layers._kernels

    def told(*arguments):
        went_well.append(kernels(*arguments))
        return went_well[-1]

    monkeypatch.setattr(run.Layers, "_kernels", told)
    table = flow(net, [1.0, 0.5], 150, names)
    assert went_well
    assert all(went_well) == at_once
    monkeypatch.setattr(run, "_ALONE", 150)
    alone = flow(net, [1.0, 0.5], 150, names)
    assert len(went_well) < 5
    for name in names:
        off = abs(table[name] - alone[name])
        assert (off <= 0.2 * alone[f"{name}_error"] + 1e-300).all(), name
