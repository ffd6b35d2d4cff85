"""
Twelve blocks of attention and the gain of queries and keys
===========================================================

Eight orthogonal tokens pass through blocks of attention. Their correlation behind twelve blocks
depends on the variance of the scores, with scores over the root of d: sharp attention mixes less.
With a skip of 1/2 the tokens become equal at any gain.
"""

import matplotlib.pyplot as plt

from derive import Exchangeable, Network, layers
from numeric import simulate

gains, tokens = (0, 1, 8, 64), Exchangeable(8, 1, 0)
figure, axes = plt.subplots()
for skip in (1, "9/10", "1/2"):
    found = []
    for gain in gains:
        block = layers.attention(8, 8, "1/sqrt(d)", norm="rms", skip=skip, C=(gain, 1, 1, 1))
        table = simulate(Network("linear", layer=block), tokens, 128, 13, 8, tensors="K", seed=0)
        one, two = (table["K"].sel(orbit=orbit)[-1] for orbit in ("(11)", "(12)"))
        found.append(float(two / one))
    axes.plot(gains, found, "o-", label=f"skip {skip}")
axes.set_xscale("symlog", linthresh=1)
axes.set(xlabel=r"$\beta^2 = C_Q C_K$", ylabel="correlation behind 12 blocks", ylim=(0, 1.05))
axes.legend()
