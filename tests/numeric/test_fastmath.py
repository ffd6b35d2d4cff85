"""The vectorisable functions against mpmath, over their whole range."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from numeric.emit import fastmath

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


def test_tanh_everywhere():
    assert relative_error(fastmath.tanh, mpmath.tanh, grid(1e300)) < 1e-15


def test_exp_everywhere():
    assert relative_error(fastmath.exp, mpmath.exp, grid(708.0)) < 1e-15
    assert relative_error(fastmath.exp, mpmath.exp, np.linspace(709.0, 709.78, 20)) < 1e-15


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
    ],
)
def test_limits(function, point, expected):
    assert function(point) == expected


def test_tanh_keeps_the_sign_of_zero():
    assert math.copysign(1.0, fastmath.tanh(-0.0)) == -1.0
    assert math.copysign(1.0, fastmath.tanh(0.0)) == 1.0


def test_nan_stays():
    assert math.isnan(fastmath.exp(math.nan))
    assert math.isnan(fastmath.tanh(math.nan))


def test_printed_source_is_redirected():
    printed = "math.tanh(z)*math.exp(-z) + math.expm1(z) + math.sqrt(z)"
    expected = "fastmath.tanh(z)*fastmath.exp(-z) + math.expm1(z) + math.sqrt(z)"
    assert fastmath.vectorised(printed) == expected
