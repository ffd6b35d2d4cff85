"""
The tangent kernel of a residual network
========================================

The mean of the neural tangent kernel at infinite width, and the relative standard deviation that
one network of width 256 has around it.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Network
from numeric import flow

figure, (above, below) = plt.subplots(2, sharex=True)
for layer in ("dense", "residual(skip=1, norm=rms)"):
    net = Network("gelu", C_W=1, layer=layer)
    table = flow(net, [1.0, 0.5], 30, ["Theta", "A", "B"])
    above.semilogy(table["layer"], table["Theta"], label=layer)
    spread = np.sqrt((table["A"] + 2 * table["B"]) / 256) / table["Theta"]
    below.plot(table["layer"], spread)
above.set(ylabel="Theta")
below.set(xlabel="layer", ylabel="relative spread")
above.legend()
