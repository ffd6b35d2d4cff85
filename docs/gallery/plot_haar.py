"""
Entries of a random rotation
============================

The kurtosis of one entry of a Haar-distributed matrix, for every size. It is 3 for a Gaussian
variable.
"""

import matplotlib.pyplot as plt
import sympy

from derive import haar_moment

n = sympy.Symbol("n")
sizes = range(2, 41)
figure, axes = plt.subplots()
fourth, second = (haar_moment([1] * k, [1] * k, n) for k in (4, 2))
ratio = sympy.factor(fourth / second**2)
print(ratio)
axes.plot(sizes, [ratio.subs(n, size) for size in sizes], ".-")
axes.axhline(3, color="gray", linestyle=":")
axes.set(xlabel="n", ylabel="kurtosis of an entry")
