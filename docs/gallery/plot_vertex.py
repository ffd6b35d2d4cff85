"""
Gaussian and orthogonal weights
===============================

:math:`V/(nK^2)` is the relative covariance of the squares of two neurons. With Gaussian weights it
grows with depth. With orthogonal weights it stays bounded, and is negative.
"""

import matplotlib.pyplot as plt

from derive import Gaussian, Network, Orthogonal
from numeric import flow, normalise

figure, axes = plt.subplots()
for weights in (Gaussian(C_W=1), Orthogonal(C_W=1)):
    table = flow(Network("tanh", weights), [1.0, 0.5, 0.2], 100, ["K", "V"])
    ratio = normalise(table)["V_tilde"]
    axes.plot(ratio["layer"], ratio, label=type(weights).__name__)
axes.set(xlabel="layer", ylabel="V/K²", title="tanh, critical")
axes.legend()
