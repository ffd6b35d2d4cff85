"""A law against samples, by quantiles: heavy tails rule the moments of K, and not its quantiles.

Kolmogorov and Smirnov's D is the largest distance of the two distribution functions. Anderson and
Darling's A² weighs the tails more: for u = F(K), sorted, A² = −N − Σ_i (2i − 1)/N [log u_i +
log(1 − u_{N+1−i})], whose limit Σ_j χ²_j/(j(j+1)) gives its p-value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray
from scipy import stats

from derive.errors import InputError, as_sequence, instance

from ..arrays import Array
from .ensembles import Samples
from .laws import Law


@dataclass(frozen=True)
class Agreement:
    """Tests of one law by samples of several widths.

    Attributes:
        table: by `width`: `ratio`, `draws`; the distance `ks` and its `ks_p`; `ad` and its `ad_p`;
            `ks_own`, the mean distance of as many samples of the law itself; the sampled and exact
            mean and variance of log(K_L/K_1).
        alarm: the chance that a comparison of a true law fails.
    """

    table: xarray.Dataset
    alarm: float

    @property
    def comparisons(self) -> int:
        """The number of tests: two for each ensemble."""
        return 2 * self.table.sizes["width"]

    @property
    def bound(self) -> float:
        """The p-value that each test must exceed, the alarm shared by all of them."""
        return self.alarm / self.comparisons

    @property
    def agrees(self) -> bool:
        """True if no test rejects the law. At finite n many draws reject it, as they should."""
        smallest = min(float(self.table[name].min()) for name in ("ks_p", "ad_p"))
        return smallest > self.bound

    def __str__(self) -> str:
        lines = [f"{'n':>6} {'L':>6} {'draws':>7} {'KS':>8} {'own':>8} {'p':>8} {'A²':>8} {'p':>8}"]
        for at in range(self.table.sizes["width"]):
            row = self.table.isel(width=at)
            numbers = (float(row[name]) for name in ("ks", "ks_own", "ks_p", "ad", "ad_p"))
            shown = " ".join(f"{value:8.4f}" for value in numbers)
            lines.append(
                f"{int(row['width']):6} {int(row['depth']):6} {int(row['draws']):7} {shown}"
            )
        verdict = "agree" if self.agrees else "differ"
        lines.append(f"law and samples {verdict}: {self.comparisons} tests at p > {self.bound:.2g}")
        return "\n".join(lines)


def compare(law: Law, samples: Samples | Sequence[Samples], alarm: float = 1e-3) -> Agreement:
    """Test a law by samples of one width or of several.

    Each ensemble is compared with the law at its own ratio (L − 1)/n.

    Arguments:
        law: from `numeric.deep.law`.
        samples: from `numeric.deep.simulate`.
        alarm: the chance that a true law is rejected, over all tests.

    Derived here. Raises InputError for a law without fluctuations, for samples of several inputs,
    and for an alarm outside (0, 1).

    >>> from derive import Network
    >>> from numeric import deep
    >>> net = Network("relu", C_W=2)
    >>> samples = deep.simulate(net, [1.0, 0.5], 1, width=16, draws=100)
    >>> compare(deep.law(net, [1.0, 0.5], 1), samples).agrees
    True
    """
    wanted = "samples of one input, from numeric.deep.simulate"
    given = [samples] if isinstance(samples, Samples) else as_sequence("samples", samples, wanted)
    if not given or not all(isinstance(each, Samples) and each.values.ndim == 1 for each in given):
        raise InputError("samples", samples, wanted)
    instance("law", law, Law, "a law, from numeric.deep.law")
    if law.is_certain:
        raise InputError("law", str(law.walk), "a law with a variance, to have quantiles")
    if not isinstance(alarm, float | int) or not 0 < alarm < 1:
        raise InputError("alarm", alarm, "a chance between 0 and 1")
    if any(abs(each.start - law.start) > _SAME * law.start for each in given):
        raise InputError("samples", samples, "samples of the law's inputs")
    rows = [_row(law.at(each.ratio), each) for each in given]
    columns = {name: ("width", [row[name] for row in rows]) for name in rows[0]}
    widths = [each.width for each in given]
    return Agreement(xarray.Dataset(columns, {"width": widths}), alarm)


def _row(law: Law, samples: Samples) -> dict[str, float]:
    values = samples.values
    count = len(values)
    below = np.sort(law.below(values))
    distance = stats.kstest(below, "uniform")
    with np.errstate(divide="ignore"):
        logs = np.log(values / law.start)
    varies = count > 1 and np.isfinite(logs).all()
    square = anderson_darling(below)
    return {
        "depth": samples.depth,
        "ratio": float(law.ratio),
        "draws": count,
        "ks": float(distance.statistic),
        "ks_p": float(distance.pvalue),
        "ks_own": float(stats.kstwo(count).mean()),
        "ad": square,
        "ad_p": tail(square),
        "log_mean": float(logs.mean()),
        "log_mean_law": float(law.log_mean),
        "log_variance": float(logs.var(ddof=1)) if varies else np.nan,
        "log_variance_law": float(law.log_variance),
    }


def anderson_darling(below: Array) -> float:
    """A² of sorted values of the distribution function; infinite if one is exactly 0 or 1."""
    count = len(below)
    odd = 2 * np.arange(1, count + 1) - 1
    with np.errstate(divide="ignore"):
        logs = np.log(below) + np.log1p(-below[::-1])
    return float(-count - np.sum(odd * logs) / count)


def tail(square: float) -> float:
    """P(A² > square) of many samples of the law, by the characteristic function of its limit.

    With φ(t) = Π_j (1 − x/(j(j+1)))^{−1/2} = (−cos(π√(1+4x)/2)/(πx))^{−1/2} at x = 2it, it is
    1/2 + (1/π) ∫ Im[φ(t) e^{−it·square}]/t dt over t > 0 (J. Gil-Pelaez, 1951).

    >>> round(tail(2.492), 3)
    0.05
    """
    if square > _LARGEST:
        return 0.0
    t = _STEP * (np.arange(_POINTS) + 0.5)
    x = 2j * t
    inverse = -np.cos(np.pi * np.sqrt(1 + 4 * x) / 2) / (np.pi * x)
    phase = -np.unwrap(np.angle(inverse)) / 2 - t * square
    total = np.sum(np.sin(phase) / np.sqrt(np.abs(inverse)) / t) * _STEP
    return float(np.clip(0.5 + total / np.pi, 0, 1))


_SAME = 1e-9
"""Two K of layer 1 this close, relatively, are of the same inputs."""
_STEP, _POINTS = 0.01, 20_000
"""Of the integral: |φ| < 1e-10 beyond, and the sum is exact up to P(A² > 600)."""
_LARGEST = 30.0
"""Beyond it P(A² > square) ~ e^{−square} is rounding."""
