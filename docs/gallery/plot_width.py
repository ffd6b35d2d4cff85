"""
The next order in 1/n
=====================

ReLU networks have an exact result at every width. Here it is compared with one and with two
orders of the expansion, in ten layers.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Network, exact
from numeric import flow

net = Network("relu", C_W=2)
last = flow(net, [1.0, 0.5], 10, ["K", "V", "V2"]).sel(layer=10)
K, V, V2 = (last[name].item() for name in ("K", "V", "V2"))

widths = [int(n) for n in np.geomspace(20, 500, 15)]
true = [float(exact.vertex(net, layer=10, width=n)) / n for n in widths]
n = np.array(widths)
figure, axes = plt.subplots()
axes.loglog(n, V / n / K**2, "--", label="V/n")
axes.loglog(n, (V / n + V2 / n**2) / K**2, label="V/n + V2/n²")
axes.loglog(n, true, "k.", label="exact")
axes.set(xlabel="width", ylabel="connected four-point function over K²")
axes.legend()
axes.xaxis.set_minor_formatter("")
