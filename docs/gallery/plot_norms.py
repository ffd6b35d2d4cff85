"""
Norms and skips
===============

K of four kinds of layers with GELU. Without a norm the signal dies or grows exponentially. A
norm keeps K constant. A pre-norm skip adds a constant in each layer.
"""

import matplotlib.pyplot as plt

from derive import Network
from numeric import flow

layers = ("dense", "normalized(rms)", "residual(skip=1)", "residual(skip=1, norm=rms)")
figure, axes = plt.subplots()
for layer in layers:
    table = flow(Network("gelu", C_W=1, layer=layer), [1.0, 0.5], 20, "K")
    axes.semilogy(table["layer"], table["K"], label=layer)
axes.set(xlabel="layer", ylabel="K")
axes.legend()
