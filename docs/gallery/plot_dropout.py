"""
Dropout
=======

Dropout adds noise in each layer, so that two passes of one input differ. Here is the correlation
of two different inputs, with and without it.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Network
from numeric import flow

inputs = np.array([[1.0, 0.0], [0.8, 0.6]])
figure, axes = plt.subplots()
for layer in ("dense", "dropout(keep=0.9)", "dropout(keep=0.5)"):
    K = flow(Network("tanh", C_W=1, layer=layer), inputs, 30, "K")["K"].values
    axes.plot(range(1, 31), K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1]), label=layer)
axes.set(xlabel="layer", ylabel="correlation of two inputs")
axes.legend()
