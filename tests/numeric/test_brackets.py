"""Brackets: against rigorous integrals, exact Gaussian identities, and their own symmetries.

Those of one input have two roads: `in_numpy`, which flows take, and `emitted`, the kernels of
written modules. Every check of theirs runs on both. Emitted kernels run in the interpreter here, as
a module compiles for 2 seconds or more, for a few milliseconds of work; compiled ones are held to
the interpreter's numbers. Modules of several inputs have copies of the rules in NumPy.
"""

import ast
import itertools
import math
from functools import cache, partial

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_kernels import brackets_source, interpreted
from scipy.integrate import quad
from scipy.stats import norm

from derive import Network, activations
from derive.activations import Activation, by_name, z
from derive.arithmetic import hermite
from derive.errors import InputError
from derive.gaussian import Shape, SingleShape, leibniz, oracle
from numeric import flow
from numeric.brackets import quadrature
from numeric.emit import modules
from numeric.layers import one_sample, positions

VARIANCES = (0.0, 1e-8, 0.3, 4.0, 100.0)
SINGLE = [
    SingleShape((0,)),
    SingleShape((0, 0)),
    SingleShape((1, 1)),
    SingleShape((0, 0), 2),
    SingleShape((0, 0), 4),
    SingleShape((0, 0, 1, 1), 2),
    SingleShape((0, 0, 0, 0)),
]
SMOOTH = [
    "tanh",
    "gelu",
    "softplus",
    "monomial(6)",
    "expr: tanh(z-3)",
    "expr: exp(-z**2/2)",
    "erf_unit_slope",
    "arctan",
    "silu",
    "sigmoid",
    "polynomial(0,1,-1/3)",
    "expr: z/(1+z**2)",
]
KINKED = ["relu", "leaky_relu(1/10)", "hard_tanh", "shifted_relu"]


@cache
def exact(activation, shape, K):
    """A `SingleShape` by the oracle: every derivative at the one z."""
    outer = (shape.outer,) + (0,) * (len(shape.orders) - 1)
    return float(oracle.bracket(activation, Shape(shape.orders, outer), K, 25).value)


def in_numpy(name, *shapes):
    """The average of each shape as a function of K: a variance, or the positions' covariance."""
    sigma = name if isinstance(name, Activation) else by_name(name)
    silent = np.errstate(all="ignore")  # as flows are
    return {shape: silent(_rule(sigma, shape)) for shape in shapes}


@cache
def _rule(sigma, shape):
    if isinstance(shape, SingleShape):
        averages = one_sample.averages(sigma, [shape])
        return lambda K: averages(np.array([K]))[0][0, 0]
    return lambda K: positions.averages(sigma, [shape], K[None])[0, 0]


@cache
def emitted_module(name, *shapes):
    """With all of the shapes."""
    sigma = name if isinstance(name, Activation) else by_name(name)
    return interpreted(brackets_source(sigma, shapes), "bracket_test")


def emitted(name, *shapes):
    """The same from a written module."""
    module = emitted_module(name, *shapes)
    return {shape: partial(_part, module, place) for place, shape in enumerate(shapes)}


def _part(module, place, K):
    with np.errstate(all="ignore"):  # numbers divide as compiled ones do
        return module.brackets(np.float64(K))[place]


ROADS = pytest.mark.parametrize("road", [in_numpy, emitted], ids=lambda road: road.__name__)


def roads(names):
    """Each road with each activation."""
    pairs = itertools.product((in_numpy, emitted), names)
    return [pytest.param(road, name, id=f"{road.__name__}-{name}") for road, name in pairs]


def covariance(seed, d, rank=None):
    X = np.random.default_rng(seed).normal(size=(d, rank or d + 1))
    return X @ X.T / X.shape[1]


@pytest.mark.parametrize(("road", "name"), roads(SMOOTH))
def test_smooth_brackets_of_one_input(road, name):
    activation = by_name(name)
    for shape, average in road(name, *SINGLE).items():
        for K in VARIANCES:
            rel = 5e-14 if K <= 4 else 2e-11
            assert average(K) == pytest.approx(exact(activation, shape, K), rel=rel, abs=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "hard_tanh"])
def test_compiled_brackets_are_those_of_the_interpreter(name):
    """To some roundings, as the compiler may contract products and sums; and at no variance."""
    own = modules.load(brackets_source(by_name(name), SINGLE), "bracket_test")
    known = emitted_module(name, *SINGLE)
    for variance in VARIANCES[1:]:
        assert own.brackets(variance) == pytest.approx(known.brackets(variance), rel=1e-13)
    if name == "tanh":
        limits = [exact(by_name(name), shape, 0.0) for shape in SINGLE]
        assert own.brackets(0.0) == pytest.approx(limits, rel=5e-14, abs=1e-15)


@pytest.mark.parametrize(("road", "name"), roads(KINKED))
def test_kinked_brackets_of_one_input(road, name):
    activation = by_name(name)
    for shape, average in road(name, *SINGLE).items():
        for K in VARIANCES[1:]:
            assert average(K) == pytest.approx(exact(activation, shape, K), rel=2e-12, abs=1e-15)


@ROADS
def test_tanh_to_1e_12_for_K_up_to_4(road):
    averages = road("tanh", *SINGLE)
    for K in np.linspace(0.05, 4, 20):
        for shape in (SingleShape((0, 0)), SingleShape((1, 1)), SingleShape((0, 0), 2)):
            assert averages[shape](K) == pytest.approx(exact(activations.tanh, shape, K), rel=1e-14)


@ROADS
def test_oscillation_is_resolved_at_any_variance(road):
    shapes = SingleShape((0, 0)), SingleShape((0, 0), 4)
    averages = road("sin", *shapes)
    for K in (0.3, 30.0, math.pi**2, 4 * math.pi**2, 1e3):
        squares, fourth = (averages[shape](K) for shape in shapes)
        assert squares == pytest.approx((1 - math.exp(-2 * K)) / 2, rel=1e-14)
        assert fourth == pytest.approx(-8 * math.exp(-2 * K), abs=1e-13)


def test_the_step_keeps_its_bound():
    growth = np.array(quadrature.growth(activations.tanh, [{(0, 0): 1}]))
    strips = np.array(quadrature.strips(activations.tanh))
    for K, accuracy in itertools.product((1.0, 4.0, 40.0), (6.0, 9.0, 14.0, 20.0)):
        h = float(quadrature.steps(np.sqrt(K), strips, growth, accuracy, math.inf))
        x = h * np.arange(-int(12 / h), int(12 / h) + 1)
        total = h * np.sum(np.tanh(math.sqrt(K) * x) ** 2 * np.exp(-(x**2) / 2))
        error = abs(
            total / math.sqrt(2 * math.pi) - exact(activations.tanh, SingleShape((0, 0)), K)
        )
        assert error < 2 * math.exp(-accuracy)


def test_a_written_module_takes_that_step():
    module = emitted_module("tanh", SingleShape((0, 0)), SingleShape((1, 1)))
    tables = np.array(module.STRIPS), np.array(module.GROWTH)
    for K in (1e-4, 1.0, 40.0, 1e4, 1e12):
        h = quadrature.steps(np.sqrt(K), *tables, quadrature.ACCURACY[0], 0.5)
        np.testing.assert_allclose(module.step(math.sqrt(K)), h, rtol=1e-14)


@ROADS
def test_at_zero_variance_limits_are_given(road):
    slopes, curved, jump = SingleShape((1, 1)), SingleShape((0, 0), 2), SingleShape((1,), 1)
    relu = road("relu", slopes, curved, jump)
    found = [relu[shape](0.0) for shape in (slopes, curved, jump)]
    limits = [0.5, 1.0, math.inf]  # from above, in modules
    undefined = [math.nan, 0.0, 0.0]  # flows refuse the first, and 0 is a factor of the others
    assert np.array_equal(found, undefined if road is in_numpy else limits, equal_nan=True)
    assert relu[jump](1e-6) == pytest.approx(1 / math.sqrt(2e-6 * math.pi), rel=1e-13)
    assert road("hard_tanh", curved)[curved](0.0) == 2.0
    assert road("tanh", slopes)[slopes](0.0) == pytest.approx(1.0, rel=1e-15)


LEIBNIZ = [(1, 1), (1, 1, 1), (0, 1, 1, 1), (0, 2), (0, 0, 2)]


@ROADS
@pytest.mark.parametrize(
    "activation", [activations.hard_tanh, activations.from_expr("Max(z - 1/2, -z)")], ids=str
)
def test_products_at_a_kink_obey_leibniz(road, activation):
    """⟨(Π σ^{(order)})'⟩ is the sum of its terms, each a product of jumps with δ."""
    sums = [leibniz(orders, 1) for orders in LEIBNIZ]
    shapes = [SingleShape(factors) for terms in sums for factors in terms]
    shapes += [SingleShape(orders, 1) for orders in LEIBNIZ]
    found = {shape: average(0.7) for shape, average in road(activation, *shapes).items()}
    for orders, terms in zip(LEIBNIZ, sums, strict=True):
        total = sum(c * found[SingleShape(factors)] for factors, c in terms.items())
        assert total == pytest.approx(found[SingleShape(orders, 1)], rel=1e-13, abs=1e-15)


def test_the_tensor_of_an_infinite_bracket_is_named():
    assert np.isfinite(flow(Network("tanh"), [1, 0.5], 2, "S")["S"]).all()
    with pytest.raises(InputError, match=r"relu, S is not, for its ⟨σ''²⟩"):
        flow(Network("relu"), [1, 0.5], 2, "S")


@ROADS
def test_single_deltas_are_densities_and_products_of_them_refused(road):
    value, third, second = SingleShape((0, 2)), SingleShape((3,)), SingleShape((1,), 2)
    averages = road("hard_tanh", value, third, second)
    for K in (0.5, 3.0):
        density = math.exp(-1 / (2 * K)) / math.sqrt(2 * math.pi * K)
        assert averages[value](K) == pytest.approx(-2 * density, rel=1e-14)
        assert averages[third](K) == pytest.approx(averages[second](K), rel=1e-14)
    for product in (SingleShape((1, 3)), SingleShape((2, 2))):
        with pytest.raises(InputError, match="limit"):
            road("hard_tanh", product)


SHAPES_TWO = [Shape((0, 0), (0, 0)), Shape((0, 0), (1, 1)), Shape((0, 1), (2, 1))]


SHAPES_PAIR = [Shape((0, 0), outer) for outer in ((0, 0), (1, 1), (2, 0), (0, 2))]
SHAPES_RELU = [Shape((1, 1), (0, 0)), *SHAPES_PAIR]
SHAPES_MORE = [Shape((1,) * 3, (0,) * 3), Shape((1,) * 4, (0,) * 4), Shape((0,) * 4, (0,) * 4)]


def _shapes(name):
    """Of relu all: what orthants take is compiled once a module."""
    return [*SHAPES_RELU, *SHAPES_MORE] if name == "relu" else SHAPES_PAIR


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_two_inputs_against_a_dense_sum(name):
    grid = np.arange(-10, 10.01, 1 / 32)
    weights = np.exp(-(grid**2) / 2) / math.sqrt(2 * math.pi) / 32
    shapes = SHAPES_PAIR if name == "tanh" else SHAPES_TWO
    sigma = [sympy.lambdify(z, by_name(name).derivative(m), ["scipy", "numpy"]) for m in range(3)]
    for K in (np.array([[1.3, 0.4], [0.4, 0.7]]), np.array([[0.5, -0.9], [-0.9, 3.0]])):
        L = np.linalg.cholesky(K)
        first, second = L[0, 0] * grid, L[1, 0] * grid[:, None] + L[1, 1] * grid
        for shape, average in in_numpy(name, *shapes).items():
            m1, m2 = (o + k for o, k in zip(*shape, strict=True))
            inner = np.broadcast_to(sigma[m2](second), second.shape) @ weights
            want = np.sum(weights * sigma[m1](first) * inner)
            assert average(K) == pytest.approx(want, abs=2e-14)


def test_two_kinked_inputs_against_their_conditional_mean():
    """⟨σ(z_1) σ(z_2)⟩ for hard tanh; the mean over z_2, given z_1, is in closed form."""
    K = np.array([[1.3, 0.4], [0.4, 0.7]])
    spread = math.sqrt(K[1, 1] - K[0, 1] ** 2 / K[0, 0])

    def given(first):
        """⟨(|y + 1| − |y − 1|)/2⟩ over y ~ N(K_12 z_1/K_11, spread²)."""
        ends = (first * K[0, 1] / K[0, 0] + np.array([1.0, -1.0])) / spread
        return spread / 2 * (ends * (2 * norm.cdf(ends) - 1) + 2 * norm.pdf(ends)) @ [1, -1]

    def whole(first):
        density = norm.pdf(first, scale=math.sqrt(K[0, 0]))
        return np.clip(first, -1, 1) * given(first) * density

    want, _ = quad(whole, -12, 12, points=[-1, 1], epsabs=1e-14, limit=200)
    average = in_numpy("hard_tanh", *SHAPES_PAIR)[SHAPES_PAIR[0]]
    assert average(K) == pytest.approx(want, abs=1e-11)


@pytest.mark.parametrize("rho", [0.5, 0.0, 0.99, 1 - 1e-8])
def test_quadrants(rho):
    average = in_numpy("relu", *_shapes("relu"))[SHAPES_RELU[0]]
    want = 1 / 4 + math.asin(rho) / (2 * math.pi)
    assert average(_equal(2, rho)) == pytest.approx(want, abs=1e-13)


@pytest.mark.parametrize("rho", [0.5, 0.0, 0.99, 1 - 1e-8])
def test_orthants(rho):
    averages = in_numpy("relu", *_shapes("relu"))
    three, four = (averages[shape] for shape in SHAPES_MORE[:2])
    want = 1 / 8 + 3 * math.asin(rho) / (4 * math.pi)
    assert three(_equal(3, rho)) == pytest.approx(want, abs=2e-12)
    if rho == 0.5:
        assert four(_equal(4, rho)) == pytest.approx(1 / 5, abs=1e-9)


def _equal(d, rho):
    return (1 - rho) * np.eye(d) + rho


def test_arc_cosine_kernel_near_coincident_inputs():
    average = in_numpy("relu", *_shapes("relu"))[SHAPES_PAIR[0]]
    for epsilon in (1.0, 1e-2, 1e-5, 1e-8, 1e-11, 0.0):
        sine = math.sqrt(epsilon * (2 - epsilon))
        theta = math.atan2(sine, 1 - epsilon)
        want = (sine + (math.pi - theta) * (1 - epsilon)) / (2 * math.pi)
        assert average(_equal(2, 1 - epsilon)) == pytest.approx(want, rel=3e-14)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), exponent=st.floats(-8, 8))
def test_relu_scales(seed, exponent):
    averages = in_numpy("relu", *_shapes("relu"))
    K, factor = covariance(seed, 2), math.exp(exponent)
    for shape in SHAPES_PAIR:
        power = (2 - sum(shape.outer)) / 2
        assert averages[shape](factor * K) == pytest.approx(
            factor**power * averages[shape](K), rel=1e-10, abs=1e-13
        )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["relu", "tanh", "hard_tanh"])
def test_singular_kernels_contract_to_one_input(name, sign):
    """Σ_ab v_a v_b ⟨∂_a ∂_b F⟩ with v in the range of K is the second derivative along v."""
    averages = in_numpy(name, *_shapes(name))
    v = np.array([1.0, sign * 0.8])
    K = 1.7 * np.outer(v, v)
    outer = {(0, 0): (2, 0), (0, 1): (1, 1), (1, 0): (1, 1), (1, 1): (0, 2)}
    got = sum(
        v[a] * v[b] * averages[Shape((0, 0), outer[a, b])](K)
        for a, b in itertools.product(range(2), repeat=2)
    )
    product = by_name(name).expr * by_name(name).expr.subs(z, sign * sympy.Rational(4, 5) * z)
    F = activations.from_expr(product)
    assert got == pytest.approx(exact(F, SingleShape((0,), 2), 1.7), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_nearly_singular_kernels_join_the_singular_ones(name):
    average = in_numpy(name, *_shapes(name))[SHAPES_PAIR[0]]
    for a, b in ((1.0, 1.0), (1.0, -1.0), (2.0, 0.5)):
        K = np.outer((a, b), (a, b))
        assert average(K + 1e-12 * np.eye(2)) == pytest.approx(average(K), abs=1e-11)


SHAPES_4 = [Shape((0,) * 4, outer) for outer in ((0, 0, 0, 0), (1, 1, 2, 0), (2, 1, 0, 1))]


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_four_inputs_of_any_rank_against_characteristic_functions(rank):
    K = covariance(rank, 4, rank)
    signs = [np.array(s) for s in itertools.product((1, -1), repeat=4)]
    for shape, average in in_numpy("sin", *SHAPES_4).items():
        # sin and its derivatives are Im and Re of i^m e^{iz}: average over the signs of z.
        want = 0.0
        for s in signs:
            phases = [s_p * (1j * s_p) ** m / 2j for s_p, m in zip(s, shape.outer, strict=True)]
            want += (np.prod(phases) * math.exp(-s @ K @ s / 2)).real
        assert average(K) == pytest.approx(want, abs=1e-10)


def test_four_kinked_inputs_that_are_two_pairs_or_one():
    averages = in_numpy("relu", *_shapes("relu"))
    half, whole = averages[SHAPES_PAIR[0]], averages[SHAPES_MORE[-1]]
    for seed in range(5):
        K = np.zeros((4, 4))
        K[:2, :2], K[2:, 2:] = covariance(seed, 2), covariance(seed + 10, 2)
        assert whole(K) == pytest.approx(half(K[:2, :2]) * half(K[2:, 2:]), rel=1e-8)
    assert whole(np.full((4, 4), 1.3)) == pytest.approx(3 * 1.3**2 / 2, rel=1e-13)


@pytest.mark.parametrize(
    ("name", "shapes", "order"),
    [("sin", SHAPES_4, [2, 0, 3, 1]), ("relu", SHAPES_PAIR, [1, 0])],
    ids=["sin", "relu"],
)
def test_positions_may_be_permuted(name, shapes, order):
    shape, swapped = shapes[-2:]
    K = covariance(8, len(order))
    assert swapped.outer == tuple(shape.outer[p] for p in order)
    averages = in_numpy(name, *(shapes if name == "sin" else _shapes(name)))
    value, other = averages[shape](K), averages[swapped](K[np.ix_(order, order)])
    assert value == pytest.approx(other, abs=1e-10)


@ROADS
def test_exponential_growth_is_followed(road):
    """⟨e^{z1 + z2}⟩ = e^{(K11 + 2 K12 + K22)/2}, far beyond the Gaussian's own reach."""
    pair, square = Shape((0, 0), (0, 0)), SingleShape((0, 0))
    alone = road("expr: exp(z)", square)
    several = in_numpy("expr: exp(z)", pair)
    for K in (0.5, 9.0, 30.0):
        assert alone[square](K) == pytest.approx(math.exp(2 * K), rel=1e-12)
        covariance = K * np.array([[1.0, 0.3], [0.3, 0.8]])
        want = math.exp(K * (1 + 0.6 + 0.8) / 2)
        assert several[pair](covariance) == pytest.approx(want, rel=1e-11)


def test_a_silent_input_gives_its_value_or_an_error():
    K = np.diag([1.0, 0.0])
    assert in_numpy("gelu", *SHAPES_TWO)[SHAPES_TWO[1]](K) == pytest.approx(0.25, rel=1e-14)
    relu = in_numpy("relu", *_shapes("relu"))
    assert relu[SHAPES_PAIR[0]](K) == 0.0
    assert math.isnan(relu[SHAPES_RELU[0]](K))


def test_leibniz_is_the_derivative_of_a_product():
    f = sympy.exp(2 * z) * sympy.sin(z)
    for orders, outer in (((0, 1, 1), 3), ((0,), 2), ((2, 0), 0)):
        product = sympy.prod([f.diff(z, m) for m in orders])
        terms = sum(
            c * sympy.prod([f.diff(z, m) for m in factors])
            for factors, c in leibniz(orders, outer).items()
        )
        assert sympy.simplify(terms - product.diff(z, outer)) == 0


@pytest.mark.parametrize("outer", [(3,), (1, 1), (2, 0, 1), (1, 1, 1, 1), (2, 2)])
def test_hermite_is_generated_by_its_exponential(outer):
    polynomial, u, Q = hermite.polynomial(outer)
    active = [p for p, count in enumerate(outer) if count]
    t = sympy.symbols(f"t:{len(outer)}")
    exponent = sum(a * t[p] for p, a in zip(active, u, strict=True))
    exponent -= sum(symbol * t[p] * t[q] / (2 if p == q else 1) for (p, q), symbol in Q.items())
    derived = sympy.exp(exponent)
    for p in active:
        derived = derived.diff(t[p], outer[p])
    assert sympy.expand(derived.subs(dict.fromkeys(t, 0)) - polynomial) == 0


def test_modules_stand_alone_and_do_not_change():
    for name in ("tanh", "relu"):
        source = brackets_source(by_name(name), SINGLE)
        tree = ast.parse(source)
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert imported == {"math", "numba", "numpy"}
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        undocumented = [f.name for f in functions if ast.get_docstring(f) is None]
        assert undocumented == []
        assert source == brackets_source(by_name(name), SINGLE)


@ROADS
def test_outside_its_domain_a_kernel_gives_nan_not_a_number(road):
    average = road("tanh", *SINGLE)[SingleShape((0, 0))]
    for K in (-1.0, math.nan, math.inf):
        assert math.isnan(average(K))


@pytest.mark.parametrize("shape", [SingleShape((0, -1)), SingleShape((0,), 1.5)])
def test_bad_input_is_named(shape):
    with pytest.raises(InputError, match="shape"):
        brackets_source(activations.tanh, [shape])
