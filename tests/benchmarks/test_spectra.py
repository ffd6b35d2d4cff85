"""1000 points of a density at L = 128, beside the paper's Algorithm 1; symbolic moments to k = 8.

Algorithm 1 (source 002) follows (15) from G ~ 1/z down a vertical line, always to the nearest root:
for hard tanh a polynomial in G, of which every root is computed. It is measured at one point and at
L = 8: with so many coefficients of so different size it loses its digits at larger depth.

rmtool has the polynomial of the free product by resultants and all of its roots, not the right one.
freealg fits a density to the eigenvalues of one matrix, here the quantiles of the law itself.
"""

from __future__ import annotations

import warnings
from importlib import import_module

import numpy as np
import pytest
import sympy

from derive import Orthogonal, activations, clear_caches
from derive import spectra as symbolic
from numeric import spectra

POINTS = 1000


def grid(s: spectra.Spectrum) -> np.ndarray:
    low, high = s.edges[0]
    return low + (high - low) * (np.arange(POINTS) + 0.5) / POINTS


@pytest.mark.parametrize(
    ("name", "q"), [("hard_tanh", 0.5), ("erf_unit_slope", 0.05), ("tanh", 0.1), ("silu", 0.1)]
)
def test_density(benchmark, name, q):
    s = spectra.jacobian(activations.by_name(name), Orthogonal(), 128, q)
    lam = grid(s)
    s.density(lam)
    assert (benchmark(s.density, lam) > 0).mean() > 0.9


def test_edges(benchmark):
    law = symbolic.jacobian(activations.erf_unit_slope, Orthogonal(), 128, 0.05)
    assert benchmark(lambda: spectra.Spectrum(law).edges)


def test_eight_symbolic_moments(benchmark):
    def derive():
        clear_caches()
        return symbolic.jacobian_moments(8)

    assert len(benchmark.pedantic(derive, rounds=2)) == 8


def algorithm_one(lam: float, p: float, depth: int, steps: int = 60, base: float = 1.3) -> float:
    """The density of critical orthogonal hard tanh by Algorithm 1.

    M_{D²} = p/(x − 1) and S_{WᵀW} = p make (15), to the power L, a polynomial equation in M:
    p^L z M (1 + M)^{L−1} = (M + p)^L.
    """
    plus_p = np.poly1d([1.0, p]) ** depth
    plus_one = np.poly1d([1.0, 1.0]) ** (depth - 1)
    G, z = None, None
    for k in range(2 * steps + 1):
        z = lam + 1j * base ** (steps - k) * 1e-3
        G = 1 / z if G is None else G
        polynomial = plus_p - np.poly1d([1.0, 0.0]) * plus_one * (p**depth * z)
        roots = (polynomial.roots + 1) / z
        G = roots[np.argmin(abs(roots - G))]
    return float(-G.imag / np.pi)


def slope_probability(q: float) -> float:
    return float(symbolic.slope_law(activations.hard_tanh, q).mean.evalf())


def test_algorithm_one(benchmark):
    """A point at L = 8; times a thousand is the whole curve."""
    s = spectra.jacobian(activations.hard_tanh, Orthogonal(), 8, 0.5)
    lam = 0.3 * s.edges[0][1]
    found = benchmark.pedantic(algorithm_one, (lam, slope_probability(0.5), 8), rounds=2)
    assert found == pytest.approx(float(s.density(lam)), rel=1e-3)


CURVES = {"hard_tanh": 0.5, "tanh": 0.1}
"""The variance q of the curves at L = 4 that peers compute too."""
CURVE = "1000 points of a density, {}, L = 4"


@pytest.mark.parametrize("name", CURVES)
def test_curve(benchmark, name):
    """From the law on: its equations, its edges, and the points."""
    benchmark.group = CURVE.format(name)
    lam = grid(spectra.jacobian(activations.by_name(name), Orthogonal(), 4, CURVES[name]))

    def curve():
        s = spectra.jacobian(activations.by_name(name), Orthogonal(), 4, CURVES[name])
        return s.density(lam)

    assert (benchmark.pedantic(curve, rounds=3, warmup_rounds=1) > 0).mean() > 0.9


@pytest.mark.benchmark(group=CURVE.format("hard_tanh"))
@pytest.mark.peer("rmtool, all roots", "rmtool")
def test_rmtool(benchmark):
    """The curve of hard tanh at L = 4, which is as deep as the check of its roots is quick."""
    rmtool = import_module("rmtool")
    s = spectra.jacobian(activations.hard_tanh, Orthogonal(), 4, 0.5)
    p = sympy.Rational(slope_probability(0.5)).limit_denominator(10**6)
    lam = grid(s)

    def derive():
        layer = rmtool.atomLmz([0, 1 / p], [1 - p, p])
        law = layer
        for _ in range(3):
            law = rmtool.AtimesB(law, layer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that it returns every root
            return rmtool.Lmz2pdf(law, lam).rr

    roots = benchmark.pedantic(derive, rounds=2)
    off = np.abs(roots.imag / np.pi - s.density(lam)[:, None]).min(axis=1)
    assert np.median(off) < 1e-3


@pytest.mark.parametrize("method", ["jacobi", "chebyshev"])
def test_freealg(benchmark, monkeypatch, method):
    """The curve of tanh at L = 4 from 1000 eigenvalues; it is good to some 1e-3."""
    benchmark.group = CURVE.format("tanh")
    benchmark.extra_info["peer"] = f"freealg, {method}, from eigenvalues"
    monkeypatch.setattr(np, "trapz", np.trapezoid, raising=False)  # its releases call the old name
    freealg = import_module("freealg")
    s = spectra.jacobian(activations.tanh, Orthogonal(), 4, 0.1)
    lam = grid(s)
    density = s.density(lam)
    mass = density.cumsum() / density.sum()
    eigenvalues = np.interp((np.arange(POINTS) + 0.5) / POINTS, mass, lam)

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it divides by 0 on its way
            form = freealg.FreeForm(eigenvalues, support=s.edges[0])
            form.fit(method=method, K=20)
            return form.density(lam)

    fitted = benchmark.pedantic(fit, rounds=2)
    assert np.median(np.abs(fitted / density - 1)) < 1e-2
