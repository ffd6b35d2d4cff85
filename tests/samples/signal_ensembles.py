"""K, V and Θ of signals beside networks whose matrices are built: strides, images, pooling, graphs.

    python tests/samples/signal_ensembles.py [NETWORKS]

For each network it prints the largest V of the last layer, the largest standard error of its
entries in the limit of three widths as a share of that, the comparisons, and the largest z among
them with the chance that so many comparisons have a larger one. It takes some minutes.
"""

from __future__ import annotations

import sys
from math import erfc, sqrt

import numpy as np

from derive import Gaussian, Network, Orthogonal, layers
from numeric import compare, flow, simulate

WIDTHS = (8, 16, 32)
TENSORS = ["K", "V", "Theta"]
CIRCLE = np.roll(np.eye(4), 1, axis=1)
PATH = np.eye(4, k=1) + np.eye(4, k=-1)
BLOCK = (
    "around(sequence(convolution(2, 4, boundary=zero, stride=2), convolution(2, 2)), "
    "norm=rms, projected=True)"
)
MEANS = "around(pooling(4, 2), norm=rms, projected=True)"
NETWORKS = {
    "stride, zeros": "convolution(2, 4); convolution(3, 4, boundary=zero, stride=2); dense",
    "dilation, valid": "convolution(2, 4, dilation=2); convolution(2, 4, padding=0, stride=2)",
    "image": "convolution(2, (2, 3), boundary=zero, stride=(1, 2)); convolution((2, 1), (2, 2))",
    "pooling inside": f"convolution(2, 4, boundary=zero); {MEANS}",
    "skip, pooling": "around(convolution(2, 3), skip=1/2, norm=rms); pooling(3)",
    "block with a stride": f"{BLOCK}; dense",
    "graph": [layers.mix(PATH, normalization="symmetric")] * 2,
    "mix of two": [layers.mix(np.tri(4), CIRCLE), layers.mix(np.ones((2, 4)) / 2, CIRCLE[:2])],
}


def row(name: str, number: int, draws: int) -> str:
    """A network's row of the table."""
    law = Orthogonal(1.5) if number % 2 else Gaussian(1.5)
    sigma = ("tanh", "relu", "gelu")[number % 3]
    given = {"lambda_b": 0.5, "lambda_W": 1.0, "layer": NETWORKS[name]}
    net = Network(sigma, law, Gaussian(1.2), C_b=0.1, **given)
    x = np.random.default_rng(number).normal(size=(*net.layer.input_axes, 3))
    depth = net.layer.depth
    theory = flow(net, x, depth, TENSORS)
    samples = [
        simulate(net, x, n, depth, draws, tensors=TENSORS, seed=number, sampler="explicit")
        for n in WIDTHS
    ]
    found = compare(theory, samples)
    V = [each for each in found.rows if each.tensor == "V" and each.layer == depth]
    largest = max(abs(each.theory) for each in V)
    share = max(each.se for each in V) / largest
    worst = max(abs(each.z) for each in found.rows)
    chance = 1 - (1 - erfc(worst / sqrt(2))) ** len(found.rows)
    cells = [name, f"{law.name}, {sigma}", f"{largest:.3g}", f"{100 * share:.1f} %"]
    return f"| {' | '.join([*cells, str(len(found.rows)), f'{worst:.1f}', f'{chance:.2f}'])} |"


def main(draws: int) -> None:
    """Print the table."""
    print("| network | law, σ | V | resolved to | comparisons | largest z | chance |")
    print("|---|---|---|---|---|---|---|")
    for number, name in enumerate(NETWORKS):
        print(row(name, number, draws), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 16_000)
