"""
Deep linear networks, exactly
=============================

The fourth moment of the output over the square of the second, at width 50 and every depth.
"""

import matplotlib.pyplot as plt

from derive import Gaussian, Orthogonal, linear

depths = range(1, 31)
figure, axes = plt.subplots()
for weights in (Gaussian(), Orthogonal()):
    exact = [float(linear.correlator(2, [50] * depth, weights)) for depth in depths]
    axes.plot(depths, exact, ".-", label=type(weights).__name__)
axes.set(xlabel="depth", ylabel="$G_4/G_2^2$")
axes.legend()
