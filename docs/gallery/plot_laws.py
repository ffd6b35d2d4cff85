"""
Uniform weights
===============

PyTorch draws uniform weights by default. Their fourth cumulant changes the variance of a
preactivation at order 1/n, which is ``G1``.
"""

import matplotlib.pyplot as plt

from derive import Network
from numeric import flow

figure, axes = plt.subplots()
for law in ("gaussian", "uniform", "rademacher", "orthogonal"):
    net = Network("tanh", law, C_W=1.5)
    table = flow(net, [1.0, -0.5, 0.7, 0.2], 12, "G1")
    axes.plot(table["layer"], table["G1"], "o-", label=law)
axes.set(xlabel="layer", ylabel="G1")
axes.legend()
