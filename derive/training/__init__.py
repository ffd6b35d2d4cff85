"""Training: descent as a sum over trees of derivatives, and what it makes of a network's outputs.

>>> from derive import training
>>> print(training.covariance(order=0))
Cov[z_i, z_j]_ab = δ_ij K_ab m_a^t m_b^t
"""

from ..work.faces import public
from .expressions import Trained, covariance, eta, ntk, prediction, rate, target, time
from .inference import Posterior, posterior
from .sequences import step

__all__ = [
    "Posterior",
    "Trained",
    "covariance",
    "eta",
    "ntk",
    "posterior",
    "prediction",
    "rate",
    "step",
    "target",
    "time",
]

public(__name__)
