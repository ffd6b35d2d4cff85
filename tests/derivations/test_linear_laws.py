from __future__ import annotations

import doctest

import mpmath
import numpy as np
import pytest
import sympy
from mellin import squared_norm_cdf, squared_norm_density
from scipy import special

from derivations.moments import linear_laws as laws
from derivations.moments.linear_laws import K0, law, lyapunov_exponents, rho, sphere_component, u
from derive import linear
from derive.errors import InputError
from derive.weights import Gaussian, LowRankGaussian, Orthogonal

n = sympy.Symbol("n", positive=True)
MIXED = [Gaussian(2), Orthogonal(), Gaussian(), Orthogonal()]
CHAINS = [
    ([4, 6, 5], Gaussian(), 3),
    ([8, 6, 7, 3], MIXED, 3),
    ([6, 5, 3], Orthogonal(), 7),
    ([4, 4], Orthogonal(), None),
]


def test_doctests() -> None:
    assert doctest.testmod(laws).failed == 0


@pytest.mark.parametrize(("widths", "weights", "inputs"), CHAINS)
def test_moments_are_those_of_the_pairings(widths, weights, inputs) -> None:
    """The law's E|z|^{2m} against G_{2m} summed over contractions, exactly."""
    found = law(widths, weights, inputs)
    variance = sympy.prod([kind.C_W for kind in weights]) if isinstance(weights, list) else 1
    for m in range(1, 6):
        moment = linear.contraction_factor(m, widths[-1])
        moment *= linear.correlator(m, widths, weights, inputs)
        assert found.moment(m) == moment * (widths[-1] * variance * K0) ** m


@pytest.mark.parametrize(
    ("widths", "weights", "inputs"), [*CHAINS[1:], ([4, 6], Gaussian(3), 3), ([5], Gaussian(), 2)]
)
def test_characteristic_function_generates_the_correlators(widths, weights, inputs) -> None:
    """E e^{iu·z} = Σ (−u²/2)^m G_{2m}/m!, its first terms."""
    made = law(widths, weights, inputs)
    kinds = weights if isinstance(weights, list) else [weights] * len(widths)
    variance = sympy.prod([kind.C_W for kind in kinds])
    function = made.characteristic_function()
    x = sympy.Symbol("x", positive=True)
    plain = function.subs({u: sympy.sqrt(x), K0: 1})
    if plain.has(sympy.hyper):
        a, b, argument = plain.args
        slope = argument / x
        terms = [
            sympy.prod([sympy.rf(c, m) for c in a])
            / sympy.prod([sympy.rf(c, m) for c in b])
            * slope**m
            / sympy.factorial(m)
            for m in range(4)
        ]
    else:
        series = sympy.series(plain, x, 0, 4).removeO()
        terms = [series.coeff(x, m) for m in range(4)]
    expected = [
        sympy.Rational(-1, 2) ** m
        * variance**m
        * (linear.correlator(m, widths, weights, inputs) if m else 1)
        / sympy.factorial(m)
        for m in range(4)
    ]
    assert terms == expected


def test_orthogonal_characteristic_function_is_bessel() -> None:
    """(4.20)–(4.21) at n = 6, numerically."""
    made = law([6, 6, 6], Orthogonal(2)).characteristic_function()
    radius = mpmath.sqrt(6 * 8 * 1.7)
    for value in (0.1, 1.0, 3.0):
        x = value * radius
        bessel = (x / 2) ** -2 * mpmath.gamma(3) * mpmath.besselj(2, x)
        assert mpmath.almosteq(mpmath.mpf(made.subs({u: value, K0: 1.7}).evalf()), bessel, 1e-12)


def test_meijer_characteristic_function_of_three_layers() -> None:
    """E e^{iuz_1} for three Gaussian layers, against the density's average of ₀F₁."""
    made = law([4, 5, 4])
    found = mpmath.mpf(
        made.characteristic_function().subs({u: sympy.Rational(1, 2), K0: 1}).evalf()
    )
    step, total = mpmath.mpf("0.2"), mpmath.mpf(0)
    for k in range(-80, 38):
        t = mpmath.exp(step * k)
        total += step * t * squared_norm_density(made, t) * mpmath.hyp0f1(2, -t / 16)
    assert abs(found - total) < 1e-10


@pytest.mark.parametrize(("widths", "weights", "inputs"), CHAINS[:2])
def test_densities_have_the_moments(widths, weights, inputs) -> None:
    """To 1e-10, by the trapezoid rule in log|z|²."""
    made = law(widths, weights, inputs)
    step = 0.4
    points = [mpmath.exp(step * k) for k in range(-40, 28)]
    values = [step * t * squared_norm_density(made, t) for t in points]
    for m in range(5):
        total = mpmath.fsum(v * t**m for v, t in zip(values, points, strict=True))
        expected = made.moment(m).subs(K0, 1)
        assert abs(total / mpmath.mpf(expected.p) * expected.q - 1) < 1e-10


def test_density_in_space_is_the_one_of_the_norm() -> None:
    """p(z) = Γ(n/2) π^{−n/2} |z|^{2−n} f(|z|²)."""
    made = law([4, 3], inputs=2)
    at = sympy.Rational(13, 10)
    found = mpmath.mpf(made.density().subs({rho: at, K0: 1}).evalf())
    square = mpmath.mpf("1.69")
    expected = (
        mpmath.gamma(1.5)
        / mpmath.pi**1.5
        / mpmath.sqrt(square)
        * squared_norm_density(made, square)
    )
    assert mpmath.almosteq(found, expected, 1e-12)


def test_one_layer_density_is_normal() -> None:
    density = law([3], Gaussian(2)).density()
    expected = (4 * sympy.pi * K0) ** sympy.Rational(-3, 2) * sympy.exp(-(rho**2) / (4 * K0))
    point = {rho: sympy.Rational(7, 10), K0: 1}
    assert abs(density.subs(point).evalf() - expected.subs(point).evalf()) < 1e-14


def test_beta_layer_is_bounded() -> None:
    made = law([3], Orthogonal(), inputs=6)
    assert squared_norm_cdf(made, 6.5) == 1
    expected = special.betainc(1.5, 1.5, 2.0 / 6.0)
    assert float(squared_norm_cdf(made, 2.0)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("value", [0.05, 0.7, 2.0, 8.0, 40.0])
def test_two_layers_by_bessel_k(value: float) -> None:
    """A product of two χ² variables has a density in K_ν, known apart."""
    a, b = 2.0, 3.0  # half the widths 4 and 6
    made = law([4, 6])
    t = value / (4.0 * (2.0 / 4.0) * (2.0 / 4.0))
    known = 2 * t ** ((a + b) / 2 - 1) * special.kv(b - a, 2 * np.sqrt(t))
    known /= special.gamma(a) * special.gamma(b)
    assert float(squared_norm_density(made, value)) == pytest.approx(known, rel=1e-11)


def test_sampled_norms_follow_the_distribution() -> None:
    """Kolmogorov's statistic of 40 000 networks at 40 points, at the 5σ level."""
    rng, draws = np.random.default_rng(5), 40_000
    z = np.ones((draws, 3))
    for fan_in, fan_out in ((3, 4), (4, 6), (6, 5)):
        W = rng.standard_normal((draws, fan_out, fan_in)) / np.sqrt(fan_in)
        z = np.einsum("dij,dj->di", W, z)
    squares = np.sort((z**2).sum(axis=1))
    made = law([4, 6, 5], inputs=3)
    places = np.linspace(200, draws - 200, 40).astype(int)
    theory = np.array([float(squared_norm_cdf(made, squares[place])) for place in places])
    largest = np.abs(theory - (places + 0.5) / draws).max()
    assert largest < special.kolmogi(5.7e-7) / np.sqrt(draws)


@pytest.mark.slow
def test_a_million_sampled_norms_to_a_thousandth() -> None:
    rng, draws = np.random.default_rng(6), 4_000_000
    squares = np.full(draws, 3.0)
    for fan_in, fan_out in ((3, 4), (4, 6), (6, 5)):
        squares *= rng.chisquare(fan_out, draws) / fan_in
    squares.sort()
    made = law([4, 6, 5], inputs=3)
    places = np.linspace(2000, draws - 2000, 100).astype(int)
    theory = np.array([float(squared_norm_cdf(made, squares[place])) for place in places])
    assert np.abs(theory - (places + 0.5) / draws).max() < 1e-3


def test_log_cumulants_of_sampled_norms() -> None:
    rng, draws = np.random.default_rng(7), 200_000
    logs = np.log(3.0) + sum(
        np.log(rng.chisquare(fan_out, draws) / fan_in)
        for fan_in, fan_out in ((3, 4), (4, 6), (6, 5))
    )
    made = law([4, 6, 5], inputs=3)
    mean, variance = (float(made.log_cumulant(k).subs(K0, 1).evalf()) for k in (1, 2))
    assert abs(logs.mean() - mean) < 5 * np.sqrt(variance / draws)
    fourth = float(made.log_cumulant(4).evalf())
    assert abs(logs.var() - variance) < 5 * np.sqrt((fourth + 2 * variance**2) / draws)


def test_fixed_length_has_no_density() -> None:
    made = law([n, n], Orthogonal())
    assert made.gammas == ()
    assert made.scale == n * K0
    with pytest.raises(InputError, match="fixed"):
        made.density()


def test_sphere_component_is_normalised() -> None:
    z = sympy.Symbol("z", real=True)
    for size in (3, 4, 7):
        density = sympy.lambdify(z, sphere_component(size, sympy.Integer(2)), "mpmath")
        assert abs(mpmath.quad(density, [-2, 0, 2]) - 1) < 1e-13
        second = mpmath.quad(lambda x, density=density: x**2 * density(x), [-2, 0, 2])
        assert abs(second - mpmath.mpf(4) / size) < 1e-13


def test_lyapunov_exponents_of_sampled_products() -> None:
    """QR, layer after layer: 4000 layers of width 6, the mean of log R_ii."""
    rng, size, depth = np.random.default_rng(8), 6, 4000
    Q, logs = np.eye(size), []
    for _ in range(depth):
        Q, R = np.linalg.qr(rng.standard_normal((size, size)) @ Q / np.sqrt(size))
        logs.append(np.log(np.abs(np.diag(R))))
    logs = np.array(logs)
    expected = np.array([float(value.evalf()) for value in lyapunov_exponents(size, size)])
    z_scores = (logs.mean(axis=0) - expected) / (logs.std(axis=0) / np.sqrt(depth))
    assert np.abs(z_scores).max() < 5.4  # 5 sigma, six times


def test_only_gaussian_and_orthogonal_weights_have_a_law() -> None:
    with pytest.raises(InputError, match="weights"):
        law([4], LowRankGaussian(gamma=sympy.Rational(1, 2)))
