"""
An activation of your own
=========================

Any expression of z can be an activation. Its critical gain is found by ``criticality``.
"""

import matplotlib.pyplot as plt

from derive import Gaussian, Network, activations, criticality
from numeric import flow

mine = activations.from_expr("z*tanh(z) + z/2")
point = criticality(mine)
print(point)

figure, axes = plt.subplots()
for C_W in (1, 2, 3, 4):
    table = flow(Network(mine, Gaussian(C_W)), [1.0, 0.5], 20, "K")
    axes.semilogy(table["layer"], table["K"], label=f"$C_W = {C_W}$")
axes.set(xlabel="layer", ylabel="K", title="Only one gain keeps the signal")
axes.legend()
