"""The vectorisable functions against mpmath, over their whole range."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest

from derive import activations
from numeric.emit import fastmath, interpolated, sigma_source

TINY = np.finfo(float).tiny


def grid(largest):
    near = np.linspace(-3, 3, 1201)
    wide = np.geomspace(1e-300, largest, 1500)
    return np.concatenate([near, wide, -wide])


def relative_error(function, exact, points):
    with mpmath.workdps(40):
        errors = []
        for point in points.tolist():
            expected = exact(mpmath.mpf(point))
            if abs(expected) > TINY:
                errors.append(abs((mpmath.mpf(float(function(point))) - expected) / expected))
    return float(max(errors))


@pytest.mark.parametrize(
    ("function", "exact", "largest", "bound"),
    [
        (fastmath.tanh, mpmath.tanh, 1e300, 6e-16),
        (fastmath.exp, mpmath.exp, 708.0, 4e-16),
        (fastmath.sech_squared, lambda z: mpmath.sech(z) ** 2, 353.0, 1e-15),
        (fastmath.sigmoid, lambda u: 1 / (1 + mpmath.exp(-u)), 707.0, 1e-15),
        (fastmath.softplus, lambda u: mpmath.log1p(mpmath.exp(u)), 707.0, 1e-15),
        (fastmath.atan, mpmath.atan, 1e300, 6e-16),
        (fastmath.erf, mpmath.erf, 1e10, 6e-16),
        (fastmath.erfc, mpmath.erfc, 26.5, 1.5e-15),
    ],
)
def test_everywhere(function, exact, largest, bound):
    """With as much as 2.2e-16 in a last digit: five of them far out, three for tanh, exp, erf."""
    assert relative_error(function, exact, grid(largest)) < bound


def test_exp_near_the_largest():
    assert relative_error(fastmath.exp, mpmath.exp, np.linspace(709.0, 709.78, 20)) < 1e-15


@pytest.mark.parametrize(
    ("exact", "low", "high", "degree", "bound"),
    [
        (mpmath.exp, -0.5, 0.5, 9, 2 * 0.25**10 * math.e / math.factorial(10)),
        (mpmath.sin, 0.0, 1.0, 7, 2 * 0.25**8 / math.factorial(8)),
    ],
)
def test_polynomials_are_as_near_as_they_say(exact, low, high, degree, bound):
    """2 (b/4)^{d+1} max|f^{(d+1)}|/(d+1)!, and rounding of the coefficients."""
    coefficients = interpolated(exact, low, high, degree)
    with mpmath.workdps(30):
        points = [mpmath.mpf(low) + (high - low) * mpmath.mpf(k) / 500 for k in range(501)]
        off = [abs(mpmath.polyval(coefficients[::-1], x) - exact(x)) for x in points]
    assert bound / 100 < max(off) < bound + 3e-16


def test_exp_is_subnormal_before_it_is_zero():
    for x in (-709.0, -720.0, -740.0, -745.1):
        assert fastmath.exp(x) == pytest.approx(math.exp(x), abs=2 * 5e-324, rel=1e-15)
    assert fastmath.exp(-746.0) == 0.0


@pytest.mark.parametrize(
    ("function", "point", "expected"),
    [
        (fastmath.exp, 0.0, 1.0),
        (fastmath.exp, 710.0, math.inf),
        (fastmath.exp, math.inf, math.inf),
        (fastmath.exp, -math.inf, 0.0),
        (fastmath.tanh, math.inf, 1.0),
        (fastmath.tanh, -math.inf, -1.0),
        (fastmath.tanh, 25.0, 1.0),
        (fastmath.tanh, 5e-324, 5e-324),
        (fastmath.tanh, -1e-310, -1e-310),
        (fastmath.sech_squared, math.inf, 0.0),
        (fastmath.sech_squared, 0.0, 1.0),
        (fastmath.sigmoid, math.inf, 1.0),
        (fastmath.sigmoid, -math.inf, 0.0),
        (fastmath.sigmoid, 0.0, 0.5),
        (fastmath.softplus, math.inf, math.inf),
        (fastmath.softplus, -math.inf, 0.0),
        (fastmath.atan, math.inf, math.pi / 2),
        (fastmath.atan, -5e-324, -5e-324),
        (fastmath.erf, math.inf, 1.0),
        (fastmath.erf, -math.inf, -1.0),
        (fastmath.erfc, math.inf, 0.0),
        (fastmath.erfc, -math.inf, 2.0),
        (fastmath.erfc, 0.0, 1.0),
    ],
)
def test_limits(function, point, expected):
    assert function(point) == expected


ODD = [fastmath.tanh, fastmath.erf, fastmath.atan]


@pytest.mark.parametrize("function", ODD)
def test_the_sign_of_zero_stays(function):
    assert math.copysign(1.0, function(-0.0)) == -1.0
    assert math.copysign(1.0, function(0.0)) == 1.0


@pytest.mark.parametrize(
    "function",
    [*ODD, fastmath.exp, fastmath.erfc, fastmath.sech_squared, fastmath.sigmoid, fastmath.softplus],
)
def test_nan_stays(function):
    assert math.isnan(function(math.nan))


def test_printed_source_is_redirected():
    printed = "math.tanh(z)*math.exp(-z) + math.expm1(z) + math.sqrt(z) + math.erfc(z)"
    expected = "fastmath.tanh(z)*fastmath.exp(-z) + math.expm1(z) + math.sqrt(z) + fastmath.erfc(z)"
    assert fastmath.vectorised(printed) == expected


VECTORISED = [
    *("linear", "relu", "hard_tanh", "shifted_relu", "tanh", "erf", "erf_unit_cubic", "arctan"),
    *("gelu", "sigmoid", "silu", "softplus", "leaky_relu(0.1)", "polynomial(0,1,-1/3)"),
]


@pytest.mark.parametrize("name", VECTORISED)
def test_shipped_activations_have_no_branch_and_call_nothing(name):
    """What LLVM can vectorise: `math` has square roots of constants alone."""
    source = sigma_source(activations.by_name(name), 3 if name in ("tanh", "silu") else 1)
    assert set(re.findall(r"math\.\w+", source.replace("fastmath.", ""))) <= {
        "math.sqrt",
        "math.pi",
    }
