"""Networks whose depth is in proportion to their width: the law of K, and ensembles beside it.

found = deep.law(Network("relu", C_W=2), inputs, ratio=0.5)
found.log_mean, found.log_variance, found.quantile(0.5), found.density(1.0)
"""

from __future__ import annotations

from derive.work.faces import public

from .ensembles import Samples, simulate
from .falling import Falling, falling
from .laws import Law, half_dead, law
from .paths import Paths, moments, paths
from .quantiles import Agreement, compare
from .resummation import Resummed, resum

__all__ = [
    "Agreement",
    "Falling",
    "Law",
    "Paths",
    "Resummed",
    "Samples",
    "compare",
    "falling",
    "half_dead",
    "law",
    "moments",
    "paths",
    "resum",
    "simulate",
]

public(__name__)
