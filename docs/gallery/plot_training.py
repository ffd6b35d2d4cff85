"""
A network in training
=====================

The mean of the output at a test input, and its spread over networks of width 100, from the
tensors at initialization.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Network
from numeric import training

net = Network("tanh", "orthogonal", C_b=0.1)
X, y, test = [[1.0, 0.5], [-0.5, 1.0]], [0.7, -0.2], [0.3, 0.3]
steps = range(0, 101, 5)
table = training.flow(net, X, y, test, 4, 0.1, steps=steps)
mean = (table["prediction"] + table["prediction1"] / 100).values[:, -1]
spread = np.sqrt([c[-1, -1] for c in (table["covariance"] + table["covariance1"] / 100).values])
figure, axes = plt.subplots()
axes.plot(steps, mean)
axes.fill_between(steps, mean - spread, mean + spread, alpha=0.3)
axes.set(xlabel="step", ylabel="output at the test input")
