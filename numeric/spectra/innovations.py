"""The random part that each layer of a sampled network adds, with a mean known to be zero.

Given all layers before, x the activations, J the Jacobian so far and h = W x + b, for weights that
rotations of rows and columns keep,

    |h|²/n ÷ (C_W |x|²/n + C_b) − 1        the length,
    tr W J Jᵀ Wᵀ ÷ (C_W tr J Jᵀ) − 1        the trace,
    (1/n) Σ_i φ'(h_i)² − E[φ'(h_1)² | |h|]  the slopes, h being uniform on its sphere,

have the mean zero at every width, so that they are control variates (`estimators.controls`) of
whatever is measured of the network. Together they explain 40 to 90 % of the variance of a quantile
of log s. Derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from derive.activations.functions import Activation
from derive.errors import InputError
from derive.work.caches import cache

from ..arrays import Array
from ..brackets.quadrature import legendre

COUNT = 3
"""Numbers of a layer."""

_DRAWS = 8
"""Draws to a slope of a fit: of the variance it then costs an eighth."""

_REACH, _PANELS, _NODES = 9.0, 8, 16
"""Deviations of u_1 that are integrated over, the panels at first, and the nodes of each."""
_DEGREE, _ROUNDED = 15, 1e-12
"""Of a polynomial in log length, and what its last coefficients may be of the largest."""
_AGREES, _MOST = 1e-11, 1 << 16
"""Of the integral, by how much a panel may differ from its halves; and the most panels."""


def columns(innovations: Array) -> Array:
    """Those that go into one fit, (draws, k): all, where there are enough draws for so many slopes;
    else the sum over layers and that of ℓ/L times them, or the sum alone; none of a few draws.

    Arguments:
        innovations: (draws, COUNT·depth), as `simulate` returns them.
    """
    draws, count = innovations.shape
    by_layer = innovations.reshape(draws, -1, COUNT)
    depth = by_layer.shape[1]
    if draws >= _DRAWS * count:
        return innovations
    sums = [by_layer.mean(axis=1)]
    if draws >= 2 * _DRAWS * COUNT:
        sums.append(np.tensordot(by_layer, np.arange(1, depth + 1), (1, 0)) / depth**2)
    return np.concatenate(sums, axis=1) if draws >= _DRAWS * COUNT else innovations[:, :0]


def of_slopes(activation: Activation, slope: Callable[[Array], Array], h: Array) -> float:
    """(1/n) Σ_i φ'(h_i)² less its mean over directions of h.

    Raises InputError for slopes that vary too much to be averaged so precisely.
    """
    n, square = h.size, float(h @ h)
    seen = float(np.mean(slope(h) ** 2))
    if not 0.0 < square < np.inf:
        return 0.0
    mean = _averages(activation, slope, n)(math.sqrt(square))
    if mean is None:
        got = f"{activation} at preactivations of variance {square / n:.3g}"
        raise InputError("innovations", got, f"slopes that {_MOST} panels average")
    return seen - mean


@cache(entries=16)
def _averages(activation: Activation, slope: Callable[[Array], Array], n: int) -> _Averages:
    return _Averages(slope, n, tuple(float(kink) for kink in activation.kinks))


class _Averages:
    """E φ'(length·u_1)², u uniform on the sphere of R^n, by length.

    A network's lengths are many and much alike: between powers of 2^{1/4} a polynomial in the
    length's logarithm stands for the average, where its coefficients fall to rounding. The panels
    are the same whatever lengths are asked for, and so is what is returned.

    Arguments:
        slope: φ'.
        n: the dimension.
        kinks: of φ.
    """

    def __init__(self, slope: Callable[[Array], Array], n: int, kinks: tuple[float, ...]) -> None:
        self._slope, self._n, self._kinks = slope, n, kinks
        self._panels: dict[int, Array | None] = {}

    def __call__(self, length: float) -> float | None:
        """None where quadrature's panels do not suffice."""
        place = 4.0 * math.log2(length)
        panel = math.floor(place)
        if panel not in self._panels:
            self._panels[panel] = self._polynomial(panel)
        series = self._panels[panel]
        if series is None:
            return self._directly(length)
        return float(chebyshev.chebval(2.0 * (place - panel) - 1.0, series))

    def _directly(self, length: float) -> float | None:
        return _over_sphere(lambda z: self._slope(z) ** 2, self._n, self._kinks, length)

    def _polynomial(self, panel: int) -> Array | None:
        """Chebyshev's coefficients on a panel, where they fall."""
        points = chebyshev.chebpts1(_DEGREE + 1)
        values = [self._directly(2.0 ** ((panel + (1.0 + x) / 2.0) / 4.0)) for x in points]
        if None in values:
            return None
        series = chebyshev.chebfit(points, np.array(values, float), _DEGREE)
        falls = abs(series[-3:]).max() <= _ROUNDED * abs(series).max()
        return series if falls else None


def _over_sphere(
    f: Callable[[Array], Array], n: int, kinks: tuple[float, ...], length: float
) -> float | None:
    """E f(length·u_1), u uniform on the sphere of R^n; None where panels do not suffice.

    Gauss–Legendre in the angle, u_1 = sin θ with the density cos^{n−2} θ, between the kinks of f
    and powers of 2, for f may vary by 1 where its argument does. A panel whose halves say otherwise
    is halved.
    """
    breaks = _breaks(n)
    octaves = 2.0 ** np.arange(np.log2(max(1.0, length * np.sin(breaks[-1]))))
    marks = np.concatenate([kinks, octaves, -octaves]) / length
    inside = np.arcsin(marks[abs(marks) < np.sin(breaks[-1])])
    ends = np.unique(np.concatenate([breaks, inside]))
    low, high = ends[:-1], ends[1:]
    norm = special.beta(0.5, (n - 1) / 2)
    whole, settled = _integrals(f, n, length, low, high), 0.0
    while low.size <= _MOST:
        middle = (low + high) / 2
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        parts = _integrals(f, n, length, low, high)
        halves = parts.reshape(2, -1)
        both = halves.sum(axis=0)
        total = settled + both.sum()
        differ = ~(abs(both - whole) <= _AGREES * abs(total))
        settled += both[~differ].sum()
        if not differ.any():
            return float(settled / norm)
        again = np.concatenate([differ, differ])
        low, high, whole = low[again], high[again], parts[again]
    return None


@cache(entries=64)
def _breaks(n: int) -> Array:
    reach = min(np.pi / 2, _REACH / np.sqrt(n))
    return np.linspace(-reach, reach, _PANELS + 1)


def _integrals(
    f: Callable[[Array], Array], n: int, length: float, low: Array, high: Array
) -> Array:
    """∫ f(length·sin θ) cos^{n−2} θ dθ over each panel."""
    x, w = legendre(_NODES)
    half = (high - low)[:, None] / 2
    nodes = low[:, None] + half * (1 + x)
    values = f(length * np.sin(nodes)) * np.cos(nodes) ** (n - 2)
    return np.asarray((half * w * values).sum(axis=1))
