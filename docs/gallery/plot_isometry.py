"""
Orthogonal weights keep gradients alike
=======================================

The largest eigenvalue of :math:`JJ^T` against depth. It is the largest factor by which a squared
gradient can grow.
"""

import matplotlib.pyplot as plt

from numeric import spectra

depths = [1, 2, 4, 8, 16, 32]
figure, axes = plt.subplots()
for weights in ("gaussian", "orthogonal"):
    ends = [spectra.jacobian("tanh", weights, L, q_star=0.01).edges[-1][1] for L in depths]
    axes.loglog(depths, ends, "o-", label=weights)
axes.set(xlabel="depth", ylabel="largest eigenvalue")
axes.legend()
