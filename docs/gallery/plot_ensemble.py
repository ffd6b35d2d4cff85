"""
Theory and an ensemble
======================

Lines are derived recursions. Points are samples of random networks, extrapolated in 1/n from
three widths.
"""

import numpy as np

from derive import Network
from numeric import compare, flow, simulate

net, x, tensors = Network("tanh", C_W=1), np.linspace(0.1, 1, 10), ["K", "V"]
theory = flow(net, x, 5, tensors)
samples = [simulate(net, x, n, 5, 20000, tensors=tensors) for n in (20, 40, 80)]
found = compare(theory, samples)
print(found.summary)
figure = found.plot()
