"""The law of log K and ensembles beside it, drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..tables.drawing import Drawing, grid
from .ensembles import Samples
from .laws import Law

_POINTS = 200
_SPREADS = 4
"""Standard deviations of log K to each side that are drawn."""


def picture(law: Law, samples: Sequence[Samples] = ()) -> Drawing:
    """The density of log(K_L/K_1) through histograms of samples."""
    figure, (panel,) = grid([f"L/n = {law.ratio}"], ["log(K_L/K_1)"])
    center, spread = float(law.log_mean), float(law.log_variance) ** 0.5
    at = np.linspace(center - _SPREADS * spread, center + _SPREADS * spread, _POINTS)
    values = law.start * np.exp(at)
    for each in samples:
        logs = np.log(each.values / each.start)
        label = f"n = {each.width}, L = {each.depth}"
        panel.hist(logs, bins="fd", density=True, histtype="step", label=label)
    panel.plot(at, values * law.density(values), color="black", label="law")
    panel.legend()
    return figure
