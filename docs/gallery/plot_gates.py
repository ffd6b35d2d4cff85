"""
Gated blocks
============

The vertex over the kernel squared, :math:`V/K^2`, of a residual network with plain blocks and with
gated blocks (as in SwiGLU). A product of two matrices fluctuates more.
"""

import matplotlib.pyplot as plt

from derive import Network
from numeric import flow, normalise

figure, axes = plt.subplots()
for layer in ("residual(skip=1, norm=rms)", "gated(skip=1, norm=rms)"):
    table = flow(Network("silu", C_W=1, layer=layer), [1.0, 0.5], 30, ["K", "V"])
    ratio = normalise(table)["V_tilde"]
    axes.plot(ratio["layer"], ratio, label=layer)
axes.set(xlabel="layer", ylabel="V/K²")
axes.legend()
