"""
A batch of 256 samples
======================

If all samples have the same length, and all pairs the same angle, then K has two different
numbers at any size of the batch. Here is the correlation of two samples, from layer to layer.
"""

import matplotlib.pyplot as plt

from derive import Exchangeable, Network
from numeric import flow

figure, axes = plt.subplots()
for p in (0.1, 0.5, 0.9):
    table = flow(Network("relu", C_W=2), Exchangeable(256, 1, p), 30, "K")
    one, two = (table["K"].sel(orbit=orbit) for orbit in ("(11)", "(12)"))
    axes.plot(table["layer"], two / one, label=f"p = {p}")
axes.set(xlabel="layer", ylabel="correlation", title="ReLU")
axes.legend()
