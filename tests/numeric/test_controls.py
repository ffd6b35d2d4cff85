"""Control variates and importance sampling: unbiased, and of smaller error by what is claimed."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

from derivations.pennington import finite_width
from derive import (
    Gaussian,
    InputError,
    LowRankGaussian,
    LowRankOrthogonal,
    Network,
    Orthogonal,
    Truncated,
    Uniform,
    activations,
)
from derive.work import resources
from numeric import compare, spectra
from numeric.estimators import controlled
from numeric.spectra import innovations

QUARTER = sympy.Rational(1, 4)
LINEAR, ERF, HARD = activations.linear, activations.erf_unit_slope, activations.hard_tanh


def test_a_mean_without_one_draw_at_a_time():
    """The formula by leverages is that of fits without each draw."""
    rng = np.random.default_rng(0)
    c, y = rng.standard_normal((12, 2)), rng.standard_normal((12, 3))
    each = []
    for i in range(12):
        others = np.arange(12) != i
        X = np.column_stack([np.ones(11), c[others]])
        slopes = np.linalg.lstsq(X, y[others], rcond=None)[0][1:]
        each.append(y[i] - c[i] @ slopes)
    mean, error = controlled(y, c)
    np.testing.assert_allclose(mean, np.mean(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(error, np.std(each, axis=0, ddof=1) / np.sqrt(12), rtol=1e-12)


def test_the_mean_is_unbiased_for_a_skewed_response_and_its_error_is_right():
    """y = e^c, which a line does not fit: 1500 means of 20 draws, against √e; one comparison."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(1500):
        c = rng.standard_normal((20, 1))
        found.append(controlled(np.exp(c[:, 0]), c))
    means, errors = np.array(found).T
    spread = means.std(ddof=1)
    assert abs(means.mean() - np.exp(0.5)) < 4 * spread / np.sqrt(1500)
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(spread, rel=0.25)


def test_controls_that_vanish_are_left_out_and_too_many_refused():
    y = np.arange(6.0)
    mean, _ = controlled(y, np.full((6, 1), 1e-17))
    assert mean == pytest.approx(2.5)
    with pytest.raises(InputError, match="controls"):
        controlled(y, np.random.default_rng(0).standard_normal((6, 4)))


def test_controls_that_repeat_others_change_nothing():
    """Nor do they count among the k + 3 draws that a fit needs."""
    rng = np.random.default_rng(2)
    c, y = rng.standard_normal((30, 2)), rng.standard_normal((30, 3))
    alone = controlled(y, c)
    for more in (-3 * c[:, :1], c[:, :1] + 2 * c[:, 1:], c @ [[1, 2], [3, -1]]):
        np.testing.assert_allclose(controlled(y, np.hstack([c, more])), alone, rtol=1e-9)
    assert np.isfinite(controlled(y[:5], np.hstack([c, c])[:5])).all()


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-8])
def test_controls_that_nearly_repeat_others_keep_their_power(apart):
    """c and c + εd are worth c and d, among others that repeat and others that do not."""
    rng = np.random.default_rng(4)
    c, d, e = rng.standard_normal((3, 400, 1))
    y = 3 * d + c**2 / 100
    want = controlled(y, np.hstack([c, d, e]))
    found = controlled(y, np.hstack([c, c + apart * d, e, 2 * c - e, c + e]))
    np.testing.assert_allclose(found, want, rtol=1e-5)
    assert found[1] < 0.01 * y.std() / 20


@pytest.mark.parametrize("others", [0, 1])
def test_a_control_of_one_draw_alone_is_refused(others):
    """Without that draw it has no slope: the formula by leverages is 0/0."""
    c = np.random.default_rng(3).standard_normal((10, 1 + others))
    c[:, 0] = 0
    c[4, 0] = 1.0
    with pytest.raises(InputError, match=r"^controls: got .* draw 4 alone"):
        controlled(np.arange(10.0), c)


def test_weighted_moments_are_exact_and_their_tail_is_gone():
    """m_1 = 1 and m_2 of linear networks of rank r = n/4, six layers, exact at n = 32: E tr (AQAᵀ)²
    = (1 + 1/r) tr Q² + (tr Q)²/r and E (tr AQAᵀ)² = (tr Q)² + 2 tr Q²/r for entries of variance
    1/r. The variance of m_2 falls to a quarter or less, and weights have the mean 1. Twelve
    comparisons."""
    n, r, layers = 32, 8, (1, 2, 4, 6)
    step = np.array([[1 + 1 / r, n / r], [2 / (r * n), 1]])  # of tr Q²/n and (tr Q)²/n²
    exact = [(np.linalg.matrix_power(step, depth) @ [1, 1])[0] for depth in layers]
    net = Network(LINEAR, LowRankGaussian(1, gamma=QUARTER))
    how = {"layers": layers, "singular_values": False, "seed": 5}
    plain = spectra.simulate(net, 0.5, n, 6, 300, **how)
    tilted = spectra.simulate(net, 0.5, n, 6, 300, importance=True, **how)
    assert abs((tilted["m1"] - 1) / tilted["m1_se"]).max() < 4.5
    assert abs((tilted["m2"] - exact) / tilted["m2_se"]).max() < 4.5
    assert 4 * tilted["m2_se"][-1] ** 2 < plain["m2_se"][-1] ** 2
    weight = tilted["weight"].to_numpy()
    error = weight.std(axis=0, ddof=1) / np.sqrt(300)
    assert abs((weight.mean(axis=0) - 1) / error).max() < 4.5


@pytest.mark.slow
def test_frames_too():
    ensemble, layers = LowRankOrthogonal(1, gamma=QUARTER), (1, 2, 4, 6)
    how = {"layers": layers, "singular_values": False, "seed": 5}
    net = Network(LINEAR, ensemble)
    plain = spectra.simulate(net, 0.5, 32, 6, 400, **how)
    tilted = spectra.simulate(net, 0.5, 32, 6, 400, importance=True, **how)
    assert compare(finite_width.moments(ensemble, 32, layers), tilted, 1e-5).agrees
    assert 4 * tilted["m2_se"][-1] ** 2 < plain["m2_se"][-1] ** 2


def test_of_full_rank_too_and_where_a_layer_is_not_linear():
    """Six comparisons, of ensembles that share no draw. The variance of m_2 falls to a quarter or
    less in linear networks; behind erf, where it falls to a third, 300 plain draws are too few to
    tell their own error."""
    for sigma, ensemble in (
        (LINEAR, Gaussian(1)),
        (ERF, LowRankGaussian(2, gamma=QUARTER)),
        (LINEAR, LowRankOrthogonal(1, gamma=QUARTER)),
    ):
        net = Network(sigma, ensemble)
        plain, tilted = (
            spectra.simulate(
                net, 2.0, 16, 3, 300, singular_values=False, importance=on, seed=7 + on
            )
            for on in (False, True)
        )
        for name in ("m1", "m2"):
            error = np.hypot(plain[f"{name}_se"], tilted[f"{name}_se"])
            assert abs(plain[name] - tilted[name]) < 4.5 * error
        assert sigma is ERF or 4 * tilted["m2_se"] ** 2 < plain["m2_se"] ** 2


def test_weights_of_haar_matrices_are_one():
    net = Network(LINEAR, Orthogonal(1))
    table = spectra.simulate(net, 0.5, 8, 3, 4, importance=True)
    np.testing.assert_array_equal(table["weight"], 1)


@pytest.mark.parametrize("sigma", [ERF, HARD, activations.relu], ids=str)
@pytest.mark.parametrize(
    "weights",
    [Gaussian(1), Orthogonal(1), Truncated(1, ratio=2), LowRankGaussian(1, gamma=QUARTER)],
    ids=lambda each: each.name,
)
def test_innovations_have_the_mean_zero(sigma, weights):
    """At n = 8, where Gaussian averages in place of those over a sphere would be off by 1/n. Nine
    comparisons or fewer in each of twelve networks."""
    net = Network(sigma, weights, C_b=sympy.Rational(1, 10))
    table = spectra.simulate(net, 0.6, 8, 3, 600, singular_values=False, innovations=True, seed=2)
    found = table["innovations"].to_numpy()
    deviation = found.std(axis=0)
    moving = deviation > 1e-9
    assert moving.sum() >= 5
    assert abs(found.mean(axis=0) / deviation)[moving].max() * np.sqrt(600) < 5
    assert abs(found[:, ~moving]).max(initial=0) < 1e-9


def test_averages_over_a_sphere():
    """u_1 of the sphere in three dimensions is uniform: P(|5 u_1| < 1) = 1/5."""
    h = np.array([3.0, 4.0, 0.0])
    slope = lambda z: np.where(abs(z) < 1, 1.0, 0.0)  # noqa: E731
    assert innovations.of_slopes(HARD, slope, h) == pytest.approx(1 / 3 - 1 / 5, abs=1e-13)


@pytest.mark.parametrize("length", [1.05, 1.095, 1.105, 1.18])
def test_averages_over_a_sphere_about_a_kink(length):
    """P(|length·u_1| < 1.1) is 1 or 1.1/length: no polynomial of the length's logarithm."""
    sigma = activations.from_expr("Max(-11, Min(11, 10*z))/10")
    slope = lambda z: np.where(abs(z) < 1.1, 1.0, 0.0)  # noqa: E731
    found = -innovations.of_slopes(sigma, slope, np.array([length, 0.0, 0.0]))
    inside = min(1.0, 1.1 / length)
    assert found == pytest.approx(inside - np.mean(slope(np.array([length, 0, 0]))), abs=1e-13)


@pytest.mark.parametrize("q", [0.5, 100.0, 1000.0])
def test_averages_over_a_sphere_of_slopes_that_are_narrow(q):
    """tanh'² = cosh⁻⁴ at h = √q n^{1/2} u_1, with the density (1 − u²)^{(n−3)/2} of u_1."""
    n = 32
    h = np.full(n, np.sqrt(q))
    slope = lambda z: 1 - np.tanh(z) ** 2  # noqa: E731
    mean = np.mean(slope(h) ** 2) - innovations.of_slopes(activations.tanh, slope, h)
    with mpmath.workdps(30):
        length = mpmath.sqrt(n * q)
        ends = [0, *(2**k for k in range(-1, 6) if 2**k < length), length]
        part = mpmath.quad(
            lambda z: mpmath.sech(z) ** 4 * (1 - (z / length) ** 2) ** ((n - 3) / 2), ends
        )
        exact = 2 * part / length / mpmath.beta(0.5, (n - 1) / 2)
    assert mean == pytest.approx(float(exact), rel=1e-10)


def test_slopes_that_turn_too_fast_are_refused():
    """sin'² turns 10⁸ times over a sphere of variance 10¹⁶."""
    h = np.full(8, 1e8)
    with pytest.raises(InputError, match=r"^innovations: got 'sin at .* variance 1e\+16"):
        innovations.of_slopes(activations.sin, np.cos, h)


def test_quantiles_have_a_smaller_error():
    """The median of log s of six layers of erf: the variance falls to a quarter, and the mean stays
    within the error of both; one comparison."""
    net = Network(ERF, Gaussian(1.6), C_b=0.035)
    table = spectra.simulate(net, 0.5, 32, 6, 300, innovations=True, seed=1)
    medians = np.log(np.median(table["singular_values"], axis=1))
    chosen = innovations.columns(table["innovations"].to_numpy())
    mean, error = controlled(medians, chosen)
    plain = medians.std(ddof=1) / np.sqrt(300)
    assert 4 * error**2 < plain**2
    assert abs(mean - medians.mean()) < 4.5 * np.hypot(plain, error)


def test_as_many_columns_as_draws_afford():
    every = np.random.default_rng(0).standard_normal((200, 12))
    for draws, count in ((200, 12), (90, 6), (30, 3), (20, 0)):
        assert innovations.columns(every[:draws]).shape == (draws, count)


@pytest.mark.parametrize(
    ("net", "given", "argument"),
    [
        (Network(LINEAR, Truncated(1, ratio=2)), {"importance": True}, "importance"),
        (
            Network(LINEAR, LowRankOrthogonal(1, gamma=QUARTER)),
            {"importance": True, "zero_padded": True},
            "zero_padded",
        ),
        (Network(LINEAR, Uniform(1)), {"innovations": True}, "innov"),
        (
            Network(LINEAR, Gaussian(1)),
            {"importance": True, "innovations": True},
            "innovations.*importance",
        ),
    ],
)
def test_what_has_no_such_law_is_refused(net, given, argument):
    with pytest.raises(InputError, match=argument):
        spectra.simulate(net, 0.5, 8, 2, 2, **given)


@pytest.mark.parametrize("given", ["innovations", "importance"])
def test_what_is_recorded_counts_as_memory(monkeypatch, given):
    """Of 64 GiB, 16 bytes to a number: 48 GB for m_1 of a thousand layers, and as much for their
    weights, or three times as much for their innovations."""
    monkeypatch.setattr(resources, "memory", lambda: 64 << 30)
    net, layers = Network(LINEAR), range(1, 1001)
    how = {"layers": layers, "singular_values": False, "moments": 1}
    with pytest.raises(InputError, match=r"^width, depth, draws: .* take .* days"):
        spectra.simulate(net, 0.5, 2, 1000, 3 * 10**6, **how)
    with pytest.raises(InputError, match=r"^width, depth, draws: .* take .* GiB"):
        spectra.simulate(net, 0.5, 2, 1000, 3 * 10**6, **how, **{given: True})
