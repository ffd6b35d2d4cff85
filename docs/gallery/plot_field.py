"""
A quantity of your own
======================

Write a forward equation, and its recursion is derived. The example is the Gram matrix of the
input-output Jacobian: its mean, and its variance over initializations.
"""

import matplotlib.pyplot as plt
import numpy as np

from derive import Equation, Network, recursion
from numeric import flow

J = Equation("J[i,k] = W[i,a] W[k,b] s'[a] s'[b] J[a,b]", at_inputs="identity")
mean, spread = recursion([J], pairing="01"), recursion([J, J], pairing="01 23")
print(mean.single_input())

table = flow(Network("tanh", C_W=1), np.linspace(0.1, 1, 20), 15, [mean, spread])
figure, axes = plt.subplots()
for name in table.wickgarten.tensors:
    axes.plot(table["layer"], table[name], label=name)
axes.set(xlabel="layer")
axes.legend()
