"""
Singular values of deep networks
================================

The density of the eigenvalues of :math:`JJ^T`, where J is the Jacobian of L critical tanh layers
with Gaussian weights. The mean is 1 at each depth, and the distribution becomes wider.
"""

import matplotlib.pyplot as plt
import numpy as np

from numeric import spectra

figure, axes = plt.subplots()
for depth in (1, 2, 4, 8):
    spectrum = spectra.jacobian("tanh", "gaussian", depth, q_star=0.1)
    x = np.geomspace(1e-2, 0.999 * spectrum.edges[-1][1], 200)
    axes.loglog(x, spectrum.density(x), label=f"L = {depth}")
axes.set(xlabel="eigenvalue", ylabel="density", ylim=(1e-3, None))
axes.legend()
