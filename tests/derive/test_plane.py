"""Averages of two preactivations by the trapezoid rule on the plane."""

from __future__ import annotations

import mpmath
import pytest

from derive import activations
from derive.gaussian import plane, quadrature

SIN, TANH, GELU = activations.sin, activations.tanh, activations.gelu
KERNELS = [("1", "0.5", "1"), ("2", "-1.2", "0.8"), ("0.01", "0.001", "0.02"), ("4", "3.9", "4")]


def kernel(values):
    return tuple(map(mpmath.mpf, values))


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(70):
        yield


@pytest.mark.parametrize("digits", [15, 30])
@pytest.mark.parametrize("values", KERNELS)
def test_sines_have_closed_averages(values, digits):
    """⟨sin sin⟩ = e^{−(K_11 + K_22)/2} sinh K_12, and cosh for the derivatives."""
    K11, K12, K22 = kernel(values)
    damped = mpmath.exp(-(K11 + K22) / 2)
    for orders, expected in (((0, 0), mpmath.sinh(K12)), ((1, 1), mpmath.cosh(K12))):
        found = quadrature.double(SIN, orders, (K11, K12, K22), digits)
        assert abs(found - damped * expected) < mpmath.mpf(10) ** -digits * damped * (1 + abs(K12))


@pytest.mark.parametrize("values", KERNELS[1:3])
@pytest.mark.parametrize(("activation", "orders"), [(TANH, (0, 0)), (TANH, (1, 1)), (GELU, (0, 1))])
def test_the_plane_and_nested_lines_agree(activation, orders, values, monkeypatch):
    found = quadrature.double(activation, orders, kernel(values), 18)
    asked = []

    def declined(*arguments, **options):
        asked.append(arguments)

    monkeypatch.setattr(plane, "average", declined)
    nested = quadrature.double(activation, orders, kernel(values), 18)
    assert asked
    assert abs(found - nested) < mpmath.mpf(10) ** -17 * abs(nested)


def test_what_is_odd_vanishes():
    assert quadrature.double(TANH, (0, 1), kernel(KERNELS[0]), 20) == 0


def test_vectors_that_are_almost_the_same_are_left_to_nested_lines(monkeypatch):
    """Where the variable given the other is narrow, the plane's rule would need too many nodes."""
    results = []
    average = plane.average

    def told(*arguments, **options):
        results.append(average(*arguments, **options))
        return results[-1]

    monkeypatch.setattr(plane, "average", told)
    K11, away = mpmath.mpf(1), mpmath.mpf("1e-4")
    found = quadrature.double(SIN, (0, 0), (K11, K11 - away, K11), 18)
    assert results == [None]
    expected = mpmath.exp(-K11) * mpmath.sinh(K11 - away)
    assert abs(found - expected) < mpmath.mpf(10) ** -18
