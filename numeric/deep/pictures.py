"""The law of log K and ensembles beside it, drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from derive.errors import InputError

from ..tables.drawing import Drawing, grid
from .ensembles import Samples
from .laws import Law

_POINTS = 200
_SPREADS = 4
"""Standard deviations of log K to each side that are drawn."""


def picture(law: Law, samples: Sequence[Samples] = ()) -> Drawing:
    """The density of log(K_L/K_1) through histograms of the samples that are not 0.

    Raises InputError for a law without fluctuations.
    """
    if law.is_certain:
        raise InputError("law", str(law.walk), "a law with a variance, to have a density")
    figure, (panel,) = grid([f"L/n = {law.ratio}"], ["log(K_L/K_1)"])
    center, spread = float(law.log_mean), float(law.log_variance) ** 0.5
    at = np.linspace(center - _SPREADS * spread, center + _SPREADS * spread, _POINTS)
    values = law.start * np.exp(at)
    for each in samples:
        alive = each.values[each.values > 0]
        if not len(alive):
            continue
        logs = np.log(alive / each.start)
        label = f"n = {each.width}, L = {each.depth}"
        label += f", {len(each.values) - len(alive)} are 0" if len(alive) < len(each.values) else ""
        panel.hist(logs, bins="fd", density=True, histtype="step", label=label)
    panel.plot(at, values * law.density(values), color="black", label="law")
    panel.legend()
    return figure
