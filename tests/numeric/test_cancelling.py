"""Functions that cancel near 0 keep their digits there, and errors beside them are no larger."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy

from derive import Gaussian, Network
from derive.activations import from_expr, z
from numeric import flow
from numeric.brackets import quadrature
from numeric.layers import cancelling, sigma

CANCELLING = [
    "log(1+exp(z))-log(2)",
    "tanh(z)-z",
    "tanh(log(1+exp(z))-log(2))",
    "(exp(z)-1)**2",
    "z*(cos(z)-1)",
]


@pytest.mark.parametrize("expr", CANCELLING)
def test_digits_are_kept_near_zero(expr):
    own = sympy.sympify(expr, {"z": z})
    function = sigma.compiled((own,))
    at = np.concatenate([sign * np.geomspace(1e-12, 1.0, 40) for sign in (-1.0, 1.0)])
    with mpmath.workdps(80):
        exact = sympy.lambdify(z, own, "mpmath")
        wanted = np.array([float(exact(mpmath.mpf(each))) for each in at])
    np.testing.assert_allclose(function(at)[0], wanted, rtol=2e-14)


@pytest.mark.parametrize("slope", [8, 32])
def test_a_series_ends_where_its_next_terms_would_be_seen(slope):
    """hard_tanh made smooth cancels near 0, and is e^{4 slope²} on a disc of radius 2."""
    own = sympy.sympify(f"((z+1)*erf({slope}*(z+1)) - (z-1)*erf({slope}*(z-1)))/2", {"z": z})
    at = np.concatenate([sign * np.geomspace(1e-8, 3.0, 60) for sign in (-1.0, 1.0)])
    with mpmath.workdps(60):
        exact = sympy.lambdify(z, own, "mpmath")
        wanted = np.array([float(exact(mpmath.mpf(each))) for each in at])
    np.testing.assert_allclose(sigma.compiled((own,))(at)[0], wanted, rtol=1e-13)


def test_what_keeps_its_digits_has_no_series():
    values = np.tanh(cancelling.NEAR)
    assert cancelling.series(sympy.tanh(z), values) is None
    assert cancelling.series(sympy.tanh(z), values * (1.0 + 1e-13)) is not None
    assert cancelling.series(sympy.sqrt(z) - sympy.sqrt(z + 1), values) is None


def test_errors_of_a_recentred_activation_are_roundings():
    """log(1 + e^z) − log 2 is z/2 + …: of K it keeps all digits, however small K is."""
    sigma = from_expr("log(1+exp(z))-log(2)")
    table = flow(Network(sigma, Gaussian(4)), [1e-6], 5, ["K", "V"])
    assert table["K"].to_numpy() == pytest.approx(5 * [4e-12], rel=1e-9, abs=0.0)
    for name in ("K", "V"):
        assert (table[f"{name}_error"][1:] < 1e-12 * table[name][1:]).all()


def test_weights_of_gauss_and_legendre_are_rounded_once():
    nodes, weights = quadrature.legendre(20)
    powers = np.arange(0, 40, 2)
    sums = np.array([np.sum(weights * nodes**k) for k in powers])
    np.testing.assert_allclose(sums, 2.0 / (powers + 1.0), rtol=1e-15)
