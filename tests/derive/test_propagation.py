"""Length and correlation maps, fixed points, depth scales, the edge of chaos and gradients."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    layers,
    propagation,
    symbols,
)
from derive import activations as a
from derive.activations import from_expr
from derive.gaussian import Average, Shape, SingleShape, gaussian_average, oracle, quadrature
from derive.propagation.estimates import followed
from derive.spectra import jacobian_moments

CHAOTIC = propagation.network(a.tanh, 8, "0.2", "1/4")
ORDERED = propagation.network(a.tanh, 4, "0.2", "1/4")


def on_grid(activation: a.Activation, order: int, kernel: tuple[float, float, float]) -> float:
    """⟨σ^{(k)}(z_1) σ^{(k)}(z_2)⟩ by a dense trapezoid in two dimensions."""
    q11, q12, q22 = kernel
    x = np.linspace(-9, 9, 721)
    weight = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    function = sympy.lambdify(a.z, activation.derivative(order), ["scipy", "numpy"])
    rest = math.sqrt(q22 - q12**2 / q11)
    second = function(q12 / math.sqrt(q11) * x[:, None] + rest * x)
    return float(weight * function(math.sqrt(q11) * x) @ second @ weight)


def test_maps_are_derived_and_alike_for_all_ensembles() -> None:
    sigma, slope = ((1, 0), (1, 0)), ((1, 1), (1, 1))
    C_W, C_b = symbols.C_W, symbols.C_b
    maps = propagation.equations()
    assert maps.length == C_b + C_W * Average(sigma)
    assert maps.covariance == C_b + C_W * Average(((1, 0), (2, 0)))
    assert maps.chi == C_W * Average(slope)
    assert maps.chi_parallel == C_W * Average(sigma, (1, 1)) / 2
    assert maps.slope == C_W * Average(((1, 0), (2, 0)), (1, 2))
    g = sympy.Symbol("gamma", positive=True)
    for weights in (Orthogonal(), LowRankGaussian(gamma=g), LowRankOrthogonal(gamma=g)):
        assert propagation.equations(weights) == maps


def test_source_parameters_scale_by_the_rank() -> None:
    assert CHAOTIC.weights == LowRankGaussian(2, gamma=sympy.Rational(1, 4))
    assert CHAOTIC.C_b == sympy.Rational(1, 20)


@pytest.mark.parametrize("activation", [a.tanh, a.gelu, a.sin, a.softplus, a.hard_tanh, a.relu])
@pytest.mark.parametrize("q", ["1e-6", "0.7", "30"])
def test_line_averages_agree_with_rigorous_ones(activation: a.Activation, q: str) -> None:
    with mpmath.workdps(40):
        variance = mpmath.mpf(q)
        wanted = [SingleShape((0, 0)), SingleShape((1, 1)), SingleShape((0, 0), 2)]
        found = quadrature.single(activation, wanted, variance, 20)
        for value, (orders, outer) in zip(found, wanted, strict=True):
            exact = oracle.bracket(activation, Shape(orders, (outer, 0)), variance, 25).value
            scale = max(abs(exact), mpmath.mpf(10) ** -7)  # ⟨(sin²)''⟩ cancels to e^{−60}
            assert abs(value - exact) < scale * mpmath.mpf(10) ** -19


@pytest.mark.parametrize("activation", [a.tanh, a.gelu, a.erf_unit_slope, a.sin])
@pytest.mark.parametrize("kernel", [(0.7, 0.3, 0.5), (0.5, -0.2, 1.3), (1.0, 0.999, 1.0)])
def test_plane_averages_of_smooth_activations(
    activation: a.Activation, kernel: tuple[float, float, float]
) -> None:
    for order in (0, 1):
        found = quadrature.double(activation, (order, order), tuple(map(mpmath.mpf, kernel)), 15)
        assert float(found) == pytest.approx(on_grid(activation, order, kernel), rel=1e-12)


def test_plane_averages_of_relu_are_the_arc_cosine_kernels() -> None:
    c, scale = 0.3 / math.sqrt(0.7 * 0.5), math.sqrt(0.7 * 0.5)
    kernel = tuple(map(mpmath.mpf, (0.7, 0.3, 0.5)))
    angle = math.pi - math.acos(c)
    first = scale * (math.sqrt(1 - c**2) + angle * c) / (2 * math.pi)
    assert float(quadrature.double(a.relu, (0, 0), kernel, 18)) == pytest.approx(first, rel=1e-14)
    assert float(quadrature.double(a.relu, (1, 1), kernel, 18)) == pytest.approx(
        angle / (2 * math.pi), rel=1e-14
    )


def test_plane_averages_between_kinks_obey_prices_theorem() -> None:
    """∂/∂K_12 of ⟨σσ⟩ is ⟨σ'σ'⟩, and ⟨σσ⟩ at correlation 1 is the average on the line."""
    with mpmath.workdps(40):
        at = [mpmath.mpf(value) for value in ("0.7", "0.3", "0.5")]
        step = mpmath.mpf(10) ** -8
        up, down = (
            quadrature.double(a.hard_tanh, (0, 0), (at[0], at[1] + sign * step, at[2]), 30)
            for sign in (1, -1)
        )
        slope = quadrature.double(a.hard_tanh, (1, 1), tuple(at), 20)
        assert abs((up - down) / (2 * step) - slope) < mpmath.mpf(10) ** -14
        near = at[0] * (1 - mpmath.mpf(10) ** -24)
        (line,) = quadrature.single(a.hard_tanh, [SingleShape((0, 0))], at[0], 22)
        assert abs(quadrature.double(a.hard_tanh, (0, 0), (at[0], near, at[0]), 22) - line) < 1e-20


def test_maps_meet_high_precision_quadrature() -> None:
    with mpmath.workdps(40):
        square = gaussian_average(sympy.tanh(a.z) ** 2, mpmath.mpf("0.6"), 30).value
        slope = gaussian_average(sympy.sech(a.z) ** 4, mpmath.mpf("0.6"), 30).value
    assert propagation.length_map(CHAOTIC, sympy.Rational(3, 5)) == float(0.05 + 2 * square)
    assert propagation.chi(CHAOTIC, sympy.Rational(3, 5)) == float(2 * slope)
    q11, q12, q22 = propagation.covariance_map(CHAOTIC, (0.7, 0.3, 0.5))
    assert q12 == pytest.approx(0.05 + 2 * on_grid(a.tanh, 0, (0.7, 0.3, 0.5)), rel=1e-12)
    assert (q11, q22) == tuple(propagation.length_map(CHAOTIC, q) for q in (0.7, 0.5))


@pytest.mark.parametrize("q", [0.01, 0.72, 5.0])
def test_slope_of_the_correlation_map_is_chi_at_one(q: float) -> None:
    """The two identities (9): χ is the slope at c = 1, and the slope is ∂q_12'/∂q_12."""
    assert propagation.correlation_slope(CHAOTIC, 1, q) == pytest.approx(
        propagation.chi(CHAOTIC, q), rel=1e-14
    )
    step, c = 1e-5, 0.4
    up, down = (
        propagation.covariance_map(CHAOTIC, (q, (c + sign * step) * q, q))[1] for sign in (1, -1)
    )
    slope = propagation.correlation_slope(CHAOTIC, c, q)
    assert (up - down) / (2 * step * q) == pytest.approx(slope, rel=1e-8)


def test_chi_parallel_is_the_slope_of_the_length_map() -> None:
    q, step = 0.7, 1e-5
    up, down = (propagation.length_map(CHAOTIC, q + sign * step) for sign in (1, -1))
    assert (up - down) / (2 * step) == pytest.approx(propagation.chi_parallel(CHAOTIC, q), rel=1e-8)


def test_correlation_map_has_one_as_a_fixed_point_only_at_a_fixed_length() -> None:
    (point,) = propagation.fixed_points(CHAOTIC)
    assert propagation.correlation_map(CHAOTIC, 1, point.q) == 1
    assert propagation.correlation_map(CHAOTIC, point.c, point.q) == pytest.approx(
        point.c, rel=1e-14
    )


@settings(max_examples=4, deadline=None)
@given(
    C_W=st.floats(0.2, 5.0),
    C_b=st.floats(0.01, 1.0),
    activation=st.sampled_from([a.tanh, a.erf_unit_slope, a.sin]),
)
def test_fixed_lengths_are_fixed_and_attract(
    C_W: float, C_b: float, activation: a.Activation
) -> None:
    net = Network(activation, LowRankOrthogonal(C_W, gamma=0.5), C_b=C_b)
    for point in propagation.fixed_points(net):
        assert propagation.length_map(net, point.q) == pytest.approx(point.q, rel=1e-14)
        near = point.q * (1 + 1e-6)
        moved = (propagation.length_map(net, near) - point.q) / (near - point.q)
        assert moved == pytest.approx(point.chi_parallel, rel=1e-4, abs=1e-5)
        assert point.is_stable == (abs(moved) < 1)


def test_deviations_fall_off_with_the_depth_scales() -> None:
    chaotic, ordered = (propagation.depth_scales(net) for net in (CHAOTIC, ORDERED))
    assert (chaotic.phase, ordered.phase) == ("chaotic", "ordered")
    assert ordered.c == 1
    assert ordered.xi_c == ordered.xi_grad > 0 > chaotic.xi_grad
    lengths = np.array(propagation.lengths(CHAOTIC, 1.01 * chaotic.q, 20)) - chaotic.q
    assert -1 / math.log(lengths[19] / lengths[18]) == pytest.approx(chaotic.xi_q, rel=1e-4)
    start = (chaotic.q, chaotic.q * (chaotic.c + 1e-6), chaotic.q)
    (_, q12, _) = propagation.kernels(CHAOTIC, start, 2)[1]
    moved = (q12 / chaotic.q - chaotic.c) / 1e-6
    assert -1 / math.log(moved) == pytest.approx(chaotic.xi_c, rel=1e-4)


@pytest.mark.parametrize("excess", [-1e-3, -1e-7, -1e-11, 1e-11, 1e-7, 1e-3])
def test_scales_keep_ten_digits_through_the_edge_of_chaos(excess: float) -> None:
    """χ and q* once more, by rigorous averages and 45 digits; 1/ξ changes its sign at χ = 1."""
    ((C_b, C_W),) = propagation.edge_of_chaos(a.tanh, lengths=[0.5])
    net = Network(a.tanh, Gaussian(C_W * (1 + excess)), C_b=C_b)
    point = propagation.depth_scales(net)
    with mpmath.workdps(45):
        weight, bias = (mpmath.mpf(float(value)) for value in (net.weights.C_W, net.C_b))

        def square(q: mpmath.mpf) -> mpmath.mpf:
            return bias + weight * gaussian_average(sympy.tanh(a.z) ** 2, q, 35).value - q

        q = mpmath.findroot(square, (mpmath.mpf("0.49"), mpmath.mpf("0.51")), tol=1e-60)
        chi = weight * gaussian_average((1 - sympy.tanh(a.z) ** 2) ** 2, q, 35).value
        scale = -1 / mpmath.log(chi)
        assert abs(point.xi_grad / scale - 1) < 1e-10
        assert (point.xi_grad < 0) == (excess > 0)
        if excess > 0:
            # 1 − c* = (χ − 1)/(c''/2), c'' = q C_W ⟨σ''σ''⟩, to leading order; the slope is 2 − χ
            curvature = (
                q * weight * gaussian_average(sympy.diff(sympy.tanh(a.z), a.z, 2) ** 2, q, 20).value
            )
            assert point.xi_c * (chi - 1) == pytest.approx(1, rel=max(1e-10, 50 * excess))
            if excess > 1e-6:  # a float holds 1 − c* to so many digits
                assert (1 - point.c) * curvature / 2 / (chi - 1) == pytest.approx(1, rel=1e-2)
        else:
            assert point.xi_c == point.xi_grad


def test_critical_points_have_infinite_scales() -> None:
    net = Network(a.tanh, Gaussian(1))
    (point,) = propagation.fixed_points(net)
    assert (point.q, point.chi, point.c) == (0, 1, None)
    assert point.phase == "critical"
    assert point.xi_q == point.xi_c == point.xi_grad == math.inf


def test_an_odd_network_without_biases_forgets_correlations() -> None:
    zero, other = propagation.fixed_points(propagation.network(a.tanh, 5.2, 0, 0.25))
    assert (zero.q, zero.chi) == (0, 1.3)
    assert not zero.is_stable
    assert other.c == 0
    assert other.slope < 1


def test_several_fixed_lengths() -> None:
    """GELU has an unstable length beside 0 (source 000, §5.1)."""
    points = propagation.fixed_points(Network(a.gelu, Gaussian(3.9)))
    assert [point.is_stable for point in points] == [True, False]


def test_missing_fixed_points_are_said() -> None:
    growing = Network(a.relu, Gaussian(2.5), C_b=0.1)
    assert propagation.fixed_points(growing) == ()
    with pytest.raises(InputError, match="attracting lengths are: none"):
        propagation.depth_scales(growing)
    with pytest.raises(InputError, match="every q fixed"):
        propagation.depth_scales(Network(a.relu, Gaussian(2)))
    with pytest.raises(InputError, match="alike at every layer"):
        propagation.fixed_points(Network(a.tanh, C_b=lambda layer: 1 / layer))


def test_edge_of_chaos_is_critical_and_meets_rigorous_quadrature() -> None:
    edge = propagation.edge_of_chaos(a.tanh, gamma=0.25)
    assert len(edge) == 200
    assert edge[0] == (0, 1)
    for k in (1, 50, 199):
        (C_b, C_W), q = edge[k], edge.lengths[k]
        net = Network(a.tanh, LowRankGaussian(C_W, gamma=0.25), C_b=C_b)
        assert propagation.chi(net, q) == pytest.approx(1, rel=1e-14)
        assert propagation.length_map(net, q) == pytest.approx(q, rel=1e-14)
        with mpmath.workdps(30):
            at = mpmath.mpf(q)
            square, slope = (
                oracle.bracket(a.tanh, Shape((order, order), (0, 0)), at, 25).value
                for order in (0, 1)
            )
            assert pytest.approx(float(1 / slope), rel=1e-14) == C_W
            assert C_b == pytest.approx(float(at - square / slope), rel=1e-10)
    assert all(0 < each <= 1 for each in edge.chi_parallel)


def test_rank_scales_the_axes_and_nothing_else() -> None:
    quarter = propagation.edge_of_chaos(a.erf_unit_slope, gamma=sympy.Rational(1, 4), points=5)
    full = propagation.edge_of_chaos(a.erf_unit_slope, points=5)
    assert tuple(quarter) == tuple(full)
    assert quarter.source_variances[3] == tuple(4 * value for value in full[3])


@pytest.mark.parametrize("activation", [a.hard_tanh, a.gelu, a.sin, a.arctan, from_expr("z**3+z")])
def test_edges_of_other_activations(activation: a.Activation) -> None:
    edge = propagation.edge_of_chaos(activation, lengths=[0.05, 0.3])
    for (C_b, C_W), q in zip(edge, edge.lengths, strict=True):
        net = Network(activation, Gaussian(C_W), C_b=C_b)
        assert propagation.chi(net, q) == pytest.approx(1, rel=1e-13)
        assert propagation.length_map(net, q) == pytest.approx(q, rel=1e-13)


def test_the_edge_of_relu_is_a_point() -> None:
    assert set(propagation.edge_of_chaos(a.relu, points=6)) == {(0, 2)}


def test_no_edge_where_biases_would_be_negative() -> None:
    with pytest.raises(InputError, match="C_b ≥ 0"):
        propagation.edge_of_chaos(a.softplus, lengths=[1.0])
    with pytest.raises(InputError, match="without jumps"):
        propagation.edge_of_chaos(from_expr("sign(z)"))


@pytest.mark.parametrize("gamma", [0, -0.25, 1.5, math.nan, math.inf, "g", None])
def test_gamma_outside_its_range_is_refused(gamma: object) -> None:
    with pytest.raises(InputError, match="gamma"):
        propagation.edge_of_chaos(a.tanh, gamma=gamma)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: propagation.edge_of_chaos("tan"), "activation"),
        (lambda: propagation.edge_of_chaos(a.tanh, points=1), "points"),
        (lambda: propagation.edge_of_chaos(a.tanh, lengths=[]), "lengths"),
        (lambda: propagation.edge_of_chaos(a.tanh, lengths=[-1]), "lengths"),
        (
            lambda: propagation.edge_of_chaos(a.tanh, gamma=sympy.Symbol("g", positive=True)),
            "gamma",
        ),
        (lambda: propagation.length_map(CHAOTIC, -1), "q"),
        (lambda: propagation.length_map(CHAOTIC, 1, layer=1), "layer"),
        (lambda: propagation.length_map("net", 1), "net"),
        (lambda: propagation.length_map(Network(a.tanh, Gaussian(sympy.Symbol("C"))), 1), "C_W"),
        (lambda: propagation.correlation_map(CHAOTIC, 1.5, 1), "c"),
        (lambda: propagation.correlation_map(CHAOTIC, 0.5, 0), "q"),
        (lambda: propagation.covariance_map(CHAOTIC, (1, 2, 1)), "kernel"),
        (lambda: propagation.lengths(CHAOTIC, 1, 3, gamma=[0.5]), "gamma"),
        (lambda: propagation.lengths(CHAOTIC, 1, 2, gamma=[0.5, 2]), "gamma"),
        (lambda: propagation.lengths(CHAOTIC, 1, 0), "depth"),
        (lambda: propagation.gradients(CHAOTIC, []), "lengths"),
        (lambda: propagation.gradients("net", [1, 1]), "net"),
        (lambda: propagation.gradients(CHAOTIC, [1, 1], overlap=2), "overlap"),
        (lambda: propagation.gradients(CHAOTIC, [1, 1], biases="layer"), "biases"),
    ],
)
def test_errors_name_the_argument(call, argument) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert error.value.argument == argument


def test_ranks_by_layer_scale_each_layers_variances() -> None:
    ratios = [1, sympy.Rational(1, 2), sympy.Rational(1, 8)]
    found = propagation.lengths(CHAOTIC, 0.5, 3, gamma=ratios)
    half = propagation.network(a.tanh, 8, "0.2", "1/2")
    eighth = propagation.network(a.tanh, 8, "0.2", "1/8")
    second = propagation.length_map(half, 0.5)
    assert found == pytest.approx([0.5, second, propagation.length_map(eighth, second)], rel=1e-14)
    kernels = propagation.kernels(CHAOTIC, (0.5, 0.2, 0.5), 3, gamma=ratios)
    assert [kernel[0] for kernel in kernels] == pytest.approx(found, rel=1e-14)
    same = propagation.lengths(CHAOTIC, 0.5, 3, gamma=[0.25] * 3)
    assert same == propagation.lengths(CHAOTIC, 0.5, 3)


def test_gradients_are_products_of_chi() -> None:
    lengths = propagation.lengths(CHAOTIC, 0.4, 4)
    chis = [propagation.chi(CHAOTIC, q) for q in lengths[:3]]
    found = propagation.gradients(CHAOTIC, lengths)
    assert found == pytest.approx([*(math.prod(chis[k:]) for k in range(3)), 1], rel=1e-14)
    narrowing = Network(
        a.tanh, CHAOTIC.weights, C_b=CHAOTIC.C_b, width_ratio=lambda layer: 2 if layer < 3 else 1
    )
    halved = propagation.gradients(narrowing, lengths)
    assert halved == pytest.approx([found[0] / 2, found[1] / 2, *found[2:]], rel=1e-14)


@pytest.mark.parametrize(
    "weights",
    [
        Gaussian(),
        Orthogonal(),
        LowRankGaussian(gamma=sympy.Rational(1, 4)),
        LowRankOrthogonal(gamma=sympy.Rational(1, 4)),
    ],
    ids=str,
)
def test_a_sum_of_squares_in_linear_networks_meets_free_probability(weights) -> None:
    """δ_L = z_L makes q̃ at layer L − m the second moment of JᵀJ over m layers."""
    depth = 6
    s_1 = {Gaussian: -1, Orthogonal: 0, LowRankGaussian: -4, LowRankOrthogonal: -3}[type(weights)]
    net = Network(a.linear, weights)
    found = propagation.gradients(net, [1.0] * depth, overlap=1)
    for m in range(depth):
        moments = jacobian_moments(2, depth=m, weight_variance=1, slopes=[1, 1], weights=[s_1])
        assert found[depth - 1 - m] == pytest.approx(float(moments[1]), rel=1e-14)
    assert propagation.gradients(net, [1.0] * depth) == [1.0] * depth


@pytest.mark.parametrize("q", [1e-30, 1e10, 1e30])
@pytest.mark.parametrize(
    "activation", [a.tanh, a.relu, a.gelu, a.erf_unit_slope, a.softplus, a.sin]
)
def test_lengths_far_from_one_are_their_limits(activation: a.Activation, q: float) -> None:
    """σ ~ σ(0) + σ'(0) z at small q; at large q what σ is far out, up to order q^{-1/2}."""
    net = Network(activation, Gaussian(1))
    if q < 1:
        taylor = {"relu": (0, math.sqrt(0.5))}.get(activation.name)
        value, slope = taylor or (float(each) for each in activation.taylor(1))
        assert propagation.length_map(net, q) == pytest.approx(value**2 + slope**2 * q, rel=1e-13)
        return
    bounded = {
        "tanh": 2 / math.sqrt(2 * math.pi * q),
        "erf_unit_slope": 4 / math.pi / math.sqrt(2 * q),
        "sin": 0,
    }
    found = propagation.length_map(net, q)
    if activation is a.sin:
        assert found == pytest.approx(0.5, rel=1e-15)
    elif activation.name in bounded:
        assert (1 - found) == pytest.approx(bounded[activation.name], rel=0.3, abs=3e-16)
    else:
        assert found == pytest.approx(q / 2, rel=1e-9)


def test_small_slopes_at_large_lengths_keep_their_digits() -> None:
    """⟨tanh²⟩ = 1 − 2/√(2πq) + …, so χ_∥ = (2π)^{-1/2} q^{-3/2}."""
    found = propagation.chi_parallel(Network(a.tanh, Gaussian(1)), 1e30)
    assert found == pytest.approx(1e-45 / math.sqrt(2 * math.pi), rel=1e-12)


def test_what_takes_too_long_or_overflows_is_refused() -> None:
    fast = Network(a.from_expr("sin(z)*tanh(z)"), Gaussian(1))
    with pytest.raises(InputError, match="smaller variance"):
        propagation.length_map(fast, 1e30)
    with pytest.raises(InputError, match="1e308"):
        propagation.length_map(Network(a.from_expr("z**3 - z"), Gaussian(1)), 1e200)
    with pytest.raises(InputError, match="depth"):
        propagation.lengths(fast, 1, 10**400)


def test_the_edge_of_tanh_begins_at_exactly_zero_and_rises_as_a_cube() -> None:
    """C_b = 4q³/3 − …: small numbers there are the curve's own."""
    edge = propagation.edge_of_chaos(a.tanh, gamma=0.25)
    assert edge[0] == (0.0, 1.0)
    for point, q in zip(edge[1:3], edge.lengths[1:3], strict=True):
        assert point.C_b == pytest.approx(4 * q**3 / 3, rel=1e-2)


@pytest.mark.parametrize("weights", [np.ma.masked, [], {}, np.ones(2), "gauss", 1])
def test_maps_are_those_of_an_ensemble(weights: object) -> None:
    with pytest.raises(InputError) as refusal:
        propagation.equations(weights)
    assert refusal.value.argument == "weights"


def test_an_ensemble_has_a_name() -> None:
    assert propagation.equations("gaussian") == propagation.equations()


def test_doubts_are_small_beside_what_is_doubted():
    """Numbers of the size 10⁻²⁰ whose copies depart by 10⁸ times their rounding."""
    tiny = mpmath.mpf(10) ** -20

    def run(digits, noise):
        return [(tiny,), (tiny * (1 + mpmath.mpf(10) ** (8 - digits)),)]

    _, doubts = followed(run, lambda row: (tiny,))
    assert doubts[-1][0] <= 1e-17 * tiny


def test_layers_have_activations_and_laws_of_their_own():
    """Lengths and gradients are K = C_b + C_W ⟨σ²⟩ and χ = C_W ⟨σ'²⟩ of each layer's σ and law."""
    own = layers.dense(activations="gelu", weights=Orthogonal(3))
    net = Network("tanh; relu*", "gaussian; orthogonal*", C_b=[0, 1, 2, 3], layer=["dense", own])
    sigmas, C_W = [a.tanh, a.gelu], [1, 3]
    q = [0.7]
    for sigma, C, C_b in zip(sigmas, C_W, (1, 2), strict=True):
        q.append(C * float(sigma.average((0, 0), q[-1])) + C_b)
    np.testing.assert_allclose(propagation.lengths(net, 0.7, 3), q, rtol=1e-12)
    chi = [
        C * float(sigma.average((1, 1), at)) for sigma, C, at in zip(sigmas, C_W, q, strict=False)
    ]
    found = propagation.gradients(net, q)
    np.testing.assert_allclose(found, [chi[0] * chi[1], chi[1], 1], rtol=1e-12)
    tanh = layers.dense(activations="tanh", weights=Gaussian("3/2"))
    bound, named = Network("relu", layer=tanh, C_b=1), Network("tanh", Gaussian("3/2"), C_b=1)
    assert propagation.fixed_points(bound) == propagation.fixed_points(named)
    with pytest.raises(InputError, match="one activation for all layers"):
        propagation.fixed_points(Network("tanh; relu*"))
