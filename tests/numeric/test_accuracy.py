"""Digits of a flow at large and small kernels: exact sums in mpmath, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy

from derive import Gaussian, Network, Orthogonal, activations, recursion
from derive.activations import by_name, from_expr, z
from derive.arithmetic import Parameter
from derive.engine import Scheme, Tensor, closure, identify
from derive.errors import InputError
from derive.gaussian import Bracket, SingleShape
from numeric import flow
from numeric.brackets import quadrature
from numeric.layers import Layers, accuracy, averages, one_sample, sigma

DIGITS = 60


@cache
def integrand(name, orders, outer):
    """The function of z under the bracket, less its limit far out, and that limit."""
    activation = by_name(name)
    product = sympy.prod([activation.derivative(order) for order in orders])
    derived = sympy.diff(product, z, outer)
    at_infinity = sympy.limit(product, z, sympy.oo) if not outer else sympy.S.Zero
    return sympy.lambdify(z, derived, "mpmath"), float(at_infinity)


@cache
def average(name, orders, outer, K):
    """⟨∂^outer Π σ^{(order)}⟩_K of a σ that tends to ±1, even as a whole.

    A trapezoid rule for what dies out, with steps of 1/16 in z: for σ analytic in |Im z| < 3/2 it
    leaves e^{−48π}, and for tanh what lies beyond |z| = 80 is e^{−160}.
    """
    function, at_infinity = integrand(name, orders, outer)
    h = mpmath.mpf(1) / 16
    weight = h / mpmath.sqrt(2 * mpmath.pi * K)
    terms = (
        (2 if k else 1) * (function(k * h) - at_infinity) * mpmath.exp(-((k * h) ** 2) / (2 * K))
        for k in range(80 * 16)
    )
    return at_infinity + weight * mpmath.fsum(terms)


def second_layer(name, tensors, K0, weights):
    """These tensors at layer 2 of a network of one input with C_W = 1, C_b = 0."""
    parameters = {"C_b": 0}

    def total(made, value):
        return mpmath.fsum(
            mpmath.mpf(c.numerator)
            / c.denominator
            * mpmath.fprod(mpmath.mpf(value(atom)) ** exponent for atom, exponent in mono)
            for (mono, _), c in made.terms.items()
        )

    def first(atom):
        return mpmath.mpf(K0) if isinstance(atom, Tensor) else parameters.get(atom.name, 1)

    below = {
        each: total(
            recursion(each, weights, first_layer=True, equal_widths=False).single_input(), first
        )
        for each in closure(["K", *tensors], Scheme(weights, single=True))
    }

    def value(atom):
        if isinstance(atom, Parameter):
            return parameters.get(atom.name, 1)
        if isinstance(atom, Bracket):
            orders = tuple(order for _, order in atom.factors)
            if (sum(orders) + len(orders) + len(atom.outer)) % 2:
                return 0
            return average(name, orders, len(atom.outer), mpmath.mpf(K0))
        return below[identify(atom)[0]]

    with mpmath.workdps(DIGITS):
        return [float(total(recursion(each, weights).single_input(), value)) for each in tensors]


def at_second(name, K0, tensors):
    net = Network(by_name(name), Orthogonal())
    table = flow(net, [np.sqrt(K0)], 2, tensors)
    return [float(table[each][-1]) for each in tensors]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "K0"),
    [
        ("tanh", 1e4),
        ("tanh", 1e8),
        *(pytest.param(*case, marks=SLOW) for case in (("tanh", 1e2), ("erf_unit_slope", 1e8))),
    ],
)
def test_digits_stay_at_large_kernels(name, K0):
    names = ["K", "V", "G1", "G2"]
    exact = second_layer(name, names, K0, Orthogonal())
    np.testing.assert_allclose(at_second(name, K0, names), exact, rtol=1e-9)


@pytest.mark.parametrize("K0", [1e2, 1e4])
def test_what_oscillates_away_is_zero(K0):
    """⟨(σ²)^{(k)}⟩ of sin is ± 2^{k−1} e^{−2K}."""
    _, V, G1, G2 = at_second("sin", K0, ["K", "V", "G1", "G2"])
    assert pytest.approx(-3 / 8, rel=1e-11) == V
    assert abs(G1) < 1e-13
    assert abs(G2) < 1e-12


def test_what_oscillates_fast_is_zero_within_its_error():
    table = flow(Network(by_name("sin"), Orthogonal()), [1e3], 2, ["V", "G1", "G2"])
    assert pytest.approx(-3 / 8, rel=1e-11) == float(table["V"][-1])
    for name, most in (("G1", 1e-10), ("G2", 1e-9)):
        assert abs(float(table[name][-1])) <= float(table[f"{name}_error"][-1]) <= most


def test_a_tensor_does_not_depend_on_those_asked_with_it():
    name, K0 = "tanh", 1e8
    alone = at_second(name, K0, ["G1"])[0]
    for others in (["K", "V", "G2"], ["K", "D", "F"]):
        assert at_second(name, K0, ["G1", *others])[0] == pytest.approx(alone, rel=1e-10)


def test_digits_that_cancel_are_refused_or_right():
    """D of tanh at layer 2 is of order K^4, and so is the sum that brackets of order K leave."""
    net = Network(activations.tanh, Orthogonal())
    for K0 in (1e-8, 1e-6):
        with pytest.raises(
            InputError, match=r"of whose D at layer 2 rounding leaves \d digits, at K"
        ):
            flow(net, [np.sqrt(K0)], 2, ["D"], seconds=0)
        flow(net, [np.sqrt(K0)], 2, ["K", "V", "G1"])
    for K0, part in ((1e-4, 1e-1), (1e-3, 1e-5)):
        table, exact = flow(net, [np.sqrt(K0)], 2, ["D"], seconds=0), second_layer_small(K0)
        D, error = float(table["D"][-1]), float(table["D_error"][-1])
        assert abs(D - exact) <= error <= part * abs(exact)


def second_layer_small(K0):
    """D of tanh for first and second Haar layers, by Gaussian moments of its Taylor series."""
    made = recursion("D", Orthogonal()).single_input()
    order = 24
    K = sympy.Float(K0, DIGITS)

    def bracket(atom):
        series = sympy.series(
            sympy.prod([activations.tanh.derivative(m) for _, m in atom.factors]), z, 0, order
        ).removeO()
        polynomial = sympy.Poly(sympy.diff(series, z, len(atom.outer)), z)
        return sum(
            c * K ** (m // 2) * sympy.factorial2(m - 1)
            for (m,), c in polynomial.terms()
            if m % 2 == 0
        )

    def first(each):
        at_first = recursion(
            each, Orthogonal(), first_layer=True, equal_widths=False
        ).single_input()
        return sum(
            sympy.Rational(c.numerator, c.denominator)
            * sympy.prod([(K if isinstance(a, Tensor) else a.name != "C_b") ** e for a, e in mono])
            for (mono, _), c in at_first.terms.items()
        )

    def value(atom):
        if isinstance(atom, Parameter):
            return sympy.Integer(atom.name != "C_b")
        return bracket(atom) if isinstance(atom, Bracket) else first(identify(atom)[0])

    return float(
        sum(
            sympy.Rational(c.numerator, c.denominator)
            * sympy.prod([value(atom) ** exponent for atom, exponent in mono])
            for (mono, _), c in made.terms.items()
        )
    )


@pytest.mark.parametrize("weights", [Orthogonal(), Gaussian()], ids=str)
def test_what_is_exactly_zero_still_flows(weights):
    table = flow(Network(activations.linear, weights), [0.1, 0.2], 1000, "all")
    assert np.abs(table["G1"]).max() == 0.0
    two = Network(activations.relu, weights.__class__(C_W=2))
    assert np.abs(flow(two, [0.1, 0.2], 1000, ["K", "G1", "V"])["G1"]).max() < 1e-12


@pytest.mark.parametrize("tensors", [["K", "V", "G1", "G2"], pytest.param("all", marks=SLOW)])
def test_a_critical_tower_flows_down_to_small_kernels(tensors):
    net = Network(activations.tanh, Orthogonal(), lambda_b=lambda layer: 1 / layer)
    assert float(flow(net, [1.0], 10_000, tensors, seconds=0)["K"][-1]) == pytest.approx(
        5e-5, rel=1e-3
    )


@pytest.mark.parametrize(
    ("name", "kernels"),
    [("tanh", (1e-2, 1e5)), pytest.param("erf_unit_slope", (1.0, 1e8), marks=SLOW)],
)
def test_errors_are_no_smaller_than_what_was_lost(name, kernels):
    scheme = Scheme(Orthogonal(), single=True, activation=by_name(name))
    names = closure(["K", "V", "G1", "G2"], scheme)
    layers = Layers(names, scheme, Orthogonal())
    ones = {each: np.ones(2) * (each != "C_b") for each in layers.parameters}
    for K0 in kernels:
        found, errors, _ = accuracy.run(layers, np.array([[K0]]), ones)
        exact = second_layer(name, [each.label for each in names], K0, Orthogonal())
        for values, error, want in zip(found, errors, exact, strict=True):
            assert abs(values[1] - want) <= error[1] + 1e-16 * abs(want)
            assert error[1] <= 1e-6 * abs(want)


def test_averages_go_as_far_as_doubles():
    def average(name, K):
        """⟨σ²⟩_K."""
        values, _ = one_sample.averages(by_name(name), [SingleShape((0, 0))])(np.array([K]))
        return values[0, 0]

    for K in (1e10, 1e50, 1e150, 1e300):
        assert average("tanh", K) == pytest.approx(1 - np.sqrt(2 / (np.pi * K)), rel=1e-14)
        assert average("softplus", K) == pytest.approx(K / 2, rel=1e-4)
    assert average("linear", 1e300) == pytest.approx(1e300, rel=1e-14)


@pytest.mark.slow
def test_a_growing_kernel_is_followed_and_its_end_is_explained():
    sigma = activations.from_expr("2*log(1+exp(z))-2*log(2)")
    net = Network(sigma, Orthogonal(C_W=1))
    K = flow(net, [1.0], 300, ["K"])["K"].to_numpy()
    assert K[-1] > 1e80
    assert K[-1] / K[-2] == pytest.approx(2, rel=1e-12)
    with pytest.raises(
        InputError, match=r"whose D is not finite at layer [345]\d\d: .* beyond doubles"
    ):
        flow(net, [1.0], 600, ["K", "V", "D"])
    with pytest.raises(InputError, match=r"whose K is not finite at layer 2: σ varies too fast"):
        flow(Network(activations.sin), [1e6], 3, ["K"])


def test_a_kernel_that_underflows_is_refused_and_no_warning_is_heard():
    net = Network(by_name("gelu"), Orthogonal())
    with pytest.raises(InputError, match="falls below 1e-300"):
        flow(net, [1.0], 10_000, ["K", "V"])


@pytest.mark.parametrize(
    ("name", "reach"),
    [("tanh", 0.7), ("expr: 1/(1+(z-20)**2/100)", 0.4), ("sin", 0.0), ("expr: exp(z)", 0.0)],
)
def test_stretched_nodes_stop_at_singularities(name, reach):
    """The poles at 20 ± 10i lie on the ray of angle 0.46; sin grows on every ray."""
    activation = by_name(name)
    step = quadrature.stretched_step(activation, [({(0, 0): 1}, 0)])
    assert step <= 2 * np.pi * reach / quadrature.ACCURACY[0]
    assert (step > 0) == (reach > 0)


@pytest.mark.slow
def test_several_inputs_are_refused_as_one_is():
    inputs = np.array([[1.0, 0.5], [0.2, 0.8]])
    net = Network(activations.tanh, Orthogonal())
    assert np.isfinite(flow(net, inputs, 3, ["K", "D"])["D"]).all()
    with pytest.raises(InputError, match="of whose D at layer 2 rounding leaves"):
        flow(net, 1e-3 * inputs, 3, ["K", "D"], seconds=0)
    zero = flow(Network(activations.linear, Orthogonal()), inputs, 30, ["D"])["D"]
    assert np.abs(zero).max() < 1e-9


def test_what_only_near_alike_inputs_lose_is_no_zero():
    """G1 of each alone keeps its digits; that of both is a sum of terms 10^16 times as large."""
    K0, gap = 1e8, 1e-12
    inputs = np.sqrt(2.0 * K0) * np.array([[1.0, 0.0], [1.0 - gap, np.sqrt(gap * (2.0 - gap))]])
    net = Network(activations.gelu, Orthogonal())
    assert flow(net, inputs[0], 2, ["G1"])["G1_error"][-1] < 1e-8
    with pytest.raises(InputError, match=r"of whose G1 at layer 2 rounding leaves 0 digits"):
        flow(net, inputs, 2, ["G1"], seconds=0)


def near(K0, gap, sign):
    """Two inputs of correlation ±(1 − gap)."""
    other = [sign * (1.0 - gap), np.sqrt(gap * (2.0 - gap))]
    return np.sqrt(2.0 * K0) * np.array([[1.0, 0.0], other])


@pytest.mark.parametrize(
    ("name", "inputs", "tensor"),
    [
        ("tanh", np.array([1e-4]), "D"),
        ("gelu", np.array([3e-4, 1e-4]), "B"),
        pytest.param("tanh", near(1e4, 1e-12, -1.0), "D", marks=SLOW),
        pytest.param("hard_tanh", near(1e2, 1e-9, 1.0), "G1", marks=SLOW),
    ],
)
def test_what_floats_lose_balls_have(name, inputs, tensor):
    net = Network(name, Orthogonal())
    table = flow(net, inputs, 2, ["K", tensor])
    exact = flow(net, inputs, 2, [tensor], precision=20)[tensor].to_numpy()[-1:].ravel()
    value, error = (table[each].to_numpy()[-1] for each in (tensor, f"{tensor}_error"))
    assert (error <= 1e-15 * np.abs(value).max()).all()
    for one, its, truth in zip(np.ravel(value), np.ravel(error), exact, strict=True):
        assert abs(Decimal(float(one)) - truth) <= Decimal(float(its)) * Decimal("1.01")
    try:
        left = flow(net, inputs, 2, [tensor], seconds=0)[f"{tensor}_error"].to_numpy()[-1]
    except InputError:
        left = np.inf
    assert np.max(left) > 1e-8 * np.abs(value).max()


_FOUR = Bracket(((1, 0), (1, 0), (1, 1), (1, 1)), (1, 1))


def test_balls_are_not_asked_beyond_the_seconds_they_may_take():
    table = flow(Network("tanh", Orthogonal()), [1.0], 2000, ["D"], seconds=1)
    assert float(table["D_error"][-1] / abs(table["D"][-1])) > 1e-8
    with pytest.raises(InputError, match="seconds: got -1"):
        flow(Network("tanh"), [1.0], 2, "K", seconds=-1)


@pytest.mark.parametrize(
    ("name", "weights", "size", "tensors"),
    [
        ("hard_tanh", Orthogonal(), 0.3, ["K", "Theta"]),
        ("expr: exp(z)", Gaussian(0.4), 0.2, ["V", "G1"]),
        ("polynomial(0,1,0,-1/6)", Orthogonal(), 0.1, ["V", "D"]),
    ],
)
def test_four_inputs_are_off_by_no_more_than_their_errors(name, weights, size, tensors):
    """Against 25 digits, entry by entry; and no estimate is above 1e-9 of its tensor."""
    X = np.sqrt(5.0 * size) * np.random.default_rng(5).normal(size=(4, 5))
    net = Network(by_name(name), weights, C_b="1/10")
    floats = flow(net, X, 3, tensors, seconds=0)
    digits = flow(net, X, 3, tensors, precision=25)
    for each in tensors:
        exact = digits[each].to_numpy()
        values = np.vectorize(lambda value: Decimal(float(value)))(floats[each].to_numpy())
        miss, errors = np.abs(values - exact).astype(float), floats[f"{each}_error"].to_numpy()
        assert (miss <= 2.0 * errors).all()
        assert errors[-1].max() < 1e-9 * np.abs(exact[-1].astype(float)).max()


@pytest.mark.slow
def test_two_thousand_layers_have_their_digits():
    """D of orthogonal weights falls as K^3, of which floats keep eight digits or less."""
    net = Network("tanh", Orthogonal())
    alone = flow(net, [1.0, 0.5], 2_000, ["D"], seconds=0)
    assert float(alone["D_error"][-1] / abs(alone["D"][-1])) > 1e-8
    table = flow(net, [1.0, 0.5], 2_000, ["D"])
    assert (table["D_error"][1:] < 1e-15 * abs(table["D"][1:])).all()
    miss = abs(table["D"] - alone["D"])
    assert (miss <= alone["D_error"]).all()


@pytest.mark.parametrize("name", ["relu", "hard_tanh", "gelu", "tanh"])
def test_copies_of_one_input_follow_by_a_slope(name):
    """As averages at every copy's kernel, to second order in how far they are apart; from layer to
    layer a slope is kept while K is within a tenth."""
    wanted = [Bracket(((1, 0), (1, 0))), Bracket(((1, 0), (1, 0)), (1, 1)), _FOUR]
    found = averages.of_one(by_name(name), wanted)
    first = np.concatenate([[0.7, 0.5, 0.3], 0.3 * 0.999 ** np.arange(400.0)])
    apart = 1e-7 * np.array([0.0, 1.0, -0.4])
    K = first[:, None] * (1.0 + apart)
    values, sizes = found.along()(K)
    exact, of_exact = (each.reshape(values.shape) for each in found(K.ravel()))
    assert np.array_equal(values[..., 0], exact[..., 0])
    assert np.array_equal(sizes[..., 0], of_exact[..., 0])
    change = exact - exact[..., :1]
    most = np.abs(change).max(axis=2)[..., None]
    assert (np.abs(values - exact) <= 0.35 * most + 4e-15 * of_exact).all()
    assert (np.abs(values - exact)[:, :3] <= 1e-5 * most[:, :3] + 4e-15 * of_exact[:, :3]).all()
    wide = first[:, None] * (1.0 + 1e4 * apart)
    assert np.array_equal(found.along()(wide)[0].ravel(), found(wide.ravel())[0].ravel())
    zero, _ = found.along()(np.zeros((2, 3)))
    assert not np.isnan(zero).any()


def test_copies_without_a_slope_have_their_own_averages():
    """Where ⟨f''⟩ is nan or infinite, as by a quadrature that is given up."""

    def evaluate(K):
        return np.array([K**2, np.sqrt(K)]), np.ones((2, len(K)))

    def raised(K):
        return np.array([np.full(len(K), np.nan), 0.5 * K**-1.5 * np.inf]), np.ones((2, len(K)))

    made = averages.Averages(evaluate, 2, {}, raised=raised)
    K = np.array([[0.3], [0.2]]) * (1.0 + 1e-7 * np.arange(3.0))
    assert np.array_equal(made.along()(K)[0], evaluate(K.ravel())[0].reshape(2, 2, 3))
    K[1, 0] = np.nan
    assert np.array_equal(made.along()(K)[0][:, 0], evaluate(K[0])[0])


def test_what_balls_took_before_counts_when_they_begin_again():
    """Half of these seconds is enough for any one number of digits that is tried."""
    net = Network("gelu", Orthogonal())
    with pytest.raises(InputError, match=r"some are left \(balls: less: .* layers with"):
        flow(net, [1.0, 0.5], 120, ["D"], seconds=1)


def test_no_entry_of_a_zero_is_clearer_than_its_error():
    values = np.array([[1e-6, 1e-3], [1e-12, 1e-3]])
    errors, sizes = np.array([[1e-10, 1e-2], [1e-10, 1e-2]]), np.full((2, 2), 1e12)
    assert accuracy.judged(values, errors, sizes).is_zero.tolist() == [False, True]


@pytest.mark.parametrize("expr", ["Max(0,z)**2/2", "Max(0,z)"])
def test_a_zero_of_opposite_inputs_has_an_error(expr):
    """Their angle is 1e-17, and not 0: ⟨σσ⟩ is a power of it."""
    inputs = np.array([[0.1, 0.7], [-0.3, -2.1]])
    net = Network(from_expr(expr), Gaussian())
    for X in (inputs, 1e6 * inputs):
        table = flow(net, X, 2, ["K", "Theta"])
        K, size = table["K"].to_numpy()[1], np.sqrt(np.prod(table["K"].to_numpy()[1].diagonal()))
        assert K[0, 1] == 0.0
        assert 0.0 < table["K_error"].to_numpy()[1, 0, 1] < 1e-13 * size
        assert table["Theta_error"].to_numpy()[1, 0, 1] > 1e-17


@pytest.mark.parametrize("inputs", [[2e4], [[2e4], [1e4]]])
def test_a_kernel_beyond_doubles_is_refused_with_kinks(inputs):
    net = Network(from_expr("Max(0,z)**3 - Max(0,-z)**2 + z"), Gaussian(), C_b=0.3)
    with pytest.raises(InputError, match="K is not finite at layer 5"):
        flow(net, inputs, 9, ["K"])


@pytest.mark.parametrize("correlation", [0.3, -0.9, 0.9999])
def test_copies_with_kinks_follow_by_a_gradient(correlation):
    """Of kernels that all but agree, the averages differ as with many nodes, to some percent."""
    brackets = [
        Bracket(((0, 0), (1, 0))),
        Bracket(((0, 1), (1, 1))),
        Bracket(((0, 0), (1, 0)), (0,)),
    ]
    made = averages.of_several(from_expr("Max(0,z) + exp(Min(0,z)) - 1"), brackets, 2)
    K = np.array([[1.3, 0.0], [0.0, 0.4]])
    K[0, 1] = K[1, 0] = correlation * np.sqrt(K[0, 0] * K[1, 1])
    near = 1e-5 * (1.0 - abs(correlation)) * np.array([[0.7, 0.2], [0.2, -0.4]])
    (value, other), _ = made.copies()(np.array([K, K + near]))
    wanted = made(K + near)[0] - made(K)[0]
    assert np.abs(other - value - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["tanh", "silu", "sigmoid", "softplus"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_keep_their_digits_far_out(name, order):
    """1 − tanh² has none left at z = 40: times σ, over z as broad as that, it was 1e-9 of G1."""
    derivative, at = by_name(name).derivative(order), np.array([-40.0, -9.0, 3.0, 40.0])
    (found,) = sigma.derivatives(by_name(name), (order,))(at)
    exact = [float(derivative.subs(z, sympy.Integer(int(each))).evalf(30, maxn=300)) for each in at]
    np.testing.assert_allclose(found, exact, rtol=1e-13)


def test_brackets_of_almost_equal_inputs_have_one_correlation():
    """At layer 2 of |z| − 1 both inputs are −1, and 1 − 2·10⁻⁷ correlated: δδ is 10³, and cancels
    in G1 where all brackets have the same 1 − |r|, in whatever order their samples are."""
    inputs = [
        [-5.816241138860575e-05, -0.0001669448726133075, 0.0006360357247737488, -0.0002999021489],
        [-0.00023843938732940595, -0.001746155842601236, 0.0002303983088795619, -0.0008744646269],
    ]
    net = Network(activations.from_expr("Abs(z) - 1"), Orthogonal())
    floats, digits = (flow(net, inputs, 3, "G1", precision=each, seconds=0) for each in (None, 20))
    off = np.abs(floats["G1"] - digits["G1"].astype(float))[2]
    assert (off < 10 * floats["G1_error"][2]).all()


@pytest.mark.parametrize(("activation", "m"), [("erf_unit_slope", 3), ("sin", 2)])
def test_too_many_nodes_are_refused_before_slopes_are_summed(activation, m):
    """Slopes come first, and have fewer nodes than what they are slopes of."""
    inputs = 1e4 * np.random.default_rng(0).normal(size=(m, 5))
    with pytest.raises(InputError, match="nodes: this one has"):
        flow(Network(activation), inputs, 2, ["V"], seconds=0)


@pytest.mark.parametrize("name", ["elu", "softsign"])
@pytest.mark.parametrize("m", [2, 4])
def test_kernels_of_length_one_have_errors_of_roundings_behind_kinks(name, m):
    """A norm makes lengths 1 up to a rounding: no panel of a disturbed kernel may come or go."""
    inputs = np.random.default_rng(5).normal(size=(m, 8))
    table = flow(Network(name, Gaussian(), layer="normalized(rms)"), inputs, 4, ["K"])
    error = table["K_error"].to_numpy()[-1]
    assert (error > 1e-15).all()
    assert (error < 1e-9).all()
