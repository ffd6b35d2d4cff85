"""Quantiles of sampled Jacobians: what is extrapolated in 1/n has no term in n^{-1/2}."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from derivations.pennington import figures, quantiles
from derive import Orthogonal, activations
from numeric import spectra


def median_between_projectors(p):
    """Of log s below the atom: λ p² = r sin² t has the density r cos² t/(π (1 − r sin² t)) in t,
    r = 4p(1 − p), by Wachter's law."""
    r = 4 * p * (1 - p)

    def mass(t):
        return quad(lambda a: r * np.cos(a) ** 2 / (1 - r * np.sin(a) ** 2), 0, t)[0]

    t = brentq(lambda t: 2 * mass(t) - mass(np.pi / 2), 0, np.pi / 2)
    return np.log(r * np.sin(t) ** 2 / p**2) / 2


def test_zeros_are_counted_below_an_atom():
    """Two layers of hard tanh: products of two projectors of trace p = 8/9, whose ranks differ by
    some √n. Quantiles of what lies between the atom and 0 are nine standard errors too large."""
    q, n, draws = 0.393957293599903787, 128, 200
    law = spectra.jacobian("hard_tanh", Orthogonal(), 2, q)
    (theory,) = quantiles.quantiles(law, [0.5])
    assert theory == pytest.approx(median_between_projectors(8 / 9), abs=1e-5)
    net = figures.critical_network(activations.hard_tanh, Orthogonal(), q)
    (table,) = quantiles.sampled(net, q, {2: law}, [(n, draws)], 5, (0.5,))
    found, error = float(table["log_s_50"][0]), float(table["log_s_50_se"][0])
    assert error < 0.01
    assert abs(found - theory) < 4 * error
