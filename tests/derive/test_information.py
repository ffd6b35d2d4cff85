"""Information between neurons, against integrals of a density that is known."""

from __future__ import annotations

import mpmath
import pytest
import sympy

from derivations.day_kahn_roberts.breakdown import optimal_aspect_ratio
from derive import Gaussian, Orthogonal, activations
from derive.depth import entropy_deficit, mutual_information, v
from derive.errors import InputError


def mixture_deficit(neurons, spread):
    """S_Gaussian − S of z = √s g with s = 1 ± spread: mean 1 and variance spread²."""

    def density(r):
        def gaussian(s):
            return mpmath.exp(-(r**2) / (2 * s)) * (2 * mpmath.pi * s) ** -mpmath.mpf(neurons / 2)

        return (gaussian(1 + spread) + gaussian(1 - spread)) / 2

    half = mpmath.mpf(neurons) / 2
    sphere = 2 * mpmath.pi**half / mpmath.gamma(half)
    entropy = -mpmath.quad(
        lambda r: sphere * r ** (neurons - 1) * density(r) * mpmath.log(density(r)),
        [0, 1, 2, 4, 12],
    )
    return half * mpmath.log(2 * mpmath.pi * mpmath.e) - entropy


@pytest.mark.parametrize("neurons", [1, 2, 5])
def test_the_series_is_that_of_a_density(neurons):
    """The cubic term is what the square leaves, to the quartic."""
    with mpmath.workdps(25):
        spread = mpmath.mpf(1) / 16
        found = mixture_deficit(neurons, spread)
        series = sympy.Poly(entropy_deficit(neurons), v)
        square, cubic = (
            mpmath.mpf(series.coeff_monomial(v**k).p) / series.coeff_monomial(v**k).q
            for k in (2, 3)
        )
        rest = found - square * spread**4
        assert abs(rest / (cubic * spread**6) - 1) < 60 * spread**2


def test_mutual_information_and_its_largest_value():
    one, two = sympy.symbols("a b", positive=True)
    expected = one * two / 8 * (v**2 - (3 * (one + two) + 20) * v**3 / 6)
    assert sympy.expand(mutual_information(one, two) - expected) == 0
    assert mutual_information(1, 1).subs(v, 0) == 0


@pytest.mark.parametrize(("width", "printed"), [(30, 3.6), (100, 12)])
def test_optimal_depth_of_ten_outputs(width, printed):
    """Source 000, §7.2, after PDLT."""
    ratio = optimal_aspect_ratio(activations.tanh, Gaussian(), outputs=10)
    assert ratio == sympy.Rational(3, 25)
    assert float(width * ratio) == pytest.approx(printed)


def test_other_networks():
    assert optimal_aspect_ratio(activations.tanh, Orthogonal(), outputs=10) is None
    assert optimal_aspect_ratio(activations.sin, Gaussian(), 10) == sympy.Rational(3, 25)
    linear = optimal_aspect_ratio(activations.linear, Gaussian(), 4)
    assert linear == sympy.Rational(1, 16)
    for bad in (0, -1, 1.5, "x y"):
        with pytest.raises((InputError, sympy.SympifyError)):
            mutual_information(bad, 1)
