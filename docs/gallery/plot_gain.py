"""
Why a gain of 5/3 fails in deep tanh networks
=============================================

Two inputs start with the correlation 0.9. At the critical gain, 1, the correlation settles at 0.88.
At larger gains it is lost: at 5/3 within some 20 layers, at √2 within some 40.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Gaussian, Network
from numeric import flow

inputs = np.array([[1.0, 0.0], [0.9, np.sqrt(1 - 0.81)]])
figure, axes = plt.subplots()
for gain, label in ((1, "1"), (np.sqrt(2), "√2"), (5 / 3, "5/3")):
    K = flow(Network("tanh", Gaussian(gain**2)), inputs, 60, "K")["K"].values
    axes.plot(range(1, 61), K[:, 0, 1] / np.sqrt(K[:, 0, 0] * K[:, 1, 1]), label=f"gain {label}")
axes.set(xlabel="layer", ylabel="correlation of two inputs")
axes.legend()
