"""
Forty digits
============

With ``precision`` numbers are computed in ball arithmetic, with a proved bound on their error.
Here are the errors of double precision, and the bound that ``flow`` states for them.
"""

from decimal import Decimal

import matplotlib.pyplot as plt

from derive import Network
from numeric import flow

net, x = Network("gelu", C_W=2), [1.0, 0.5]
floats = flow(net, x, 20, "V")
digits = flow(net, x, 20, "V", precision=40)
print(digits["V"].values[-1])

pairs = zip(digits["V"].values, floats["V"].values.tolist(), strict=True)
error = [abs(float(a - Decimal(b))) for a, b in pairs]
figure, axes = plt.subplots()
axes.semilogy(floats["layer"][1:], error[1:], "o", label="error of V")
axes.semilogy(floats["layer"][1:], floats["V_error"][1:], label="V_error")
axes.set(xlabel="layer")
axes.legend()
