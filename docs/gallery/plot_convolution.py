"""
Zero padding in a deep convolutional network
============================================

K at each of sixteen positions. A constant signal enters. Near the ends the padding takes its
share in every layer.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Network
from numeric import flow

layer = "convolution(positions=16, size=3, padding=zero)"
table = flow(Network("relu", C_W=2, layer=layer), np.ones((16, 4)), 12, "K")
K = np.einsum("lpp->lp", table["K"].values.reshape(12, 16, 16))
figure, axes = plt.subplots()
for depth in (1, 3, 6, 12):
    axes.plot(range(1, 17), K[depth - 1], "o-", label=f"layer {depth}")
axes.set(xlabel="position", ylabel="K")
axes.legend()
