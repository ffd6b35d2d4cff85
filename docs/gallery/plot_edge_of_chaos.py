"""
The edge of chaos
=================

On this line two close inputs keep their distance. At smaller weights they merge, and at larger
ones they become uncorrelated.
"""

import matplotlib.pyplot as plt

from derive import activations, propagation

figure, axes = plt.subplots()
for name in ("tanh", "erf", "hard_tanh"):
    edge = propagation.edge_of_chaos(getattr(activations, name), points=60)
    axes.plot([point.C_W for point in edge], [point.C_b for point in edge], label=name)
axes.set(xlabel="$C_W$", ylabel="$C_b$", xlim=(0.9, 4), ylim=(0, 1.5))
axes.legend()
