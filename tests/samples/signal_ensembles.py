"""K, V and Θ of signals beside networks whose matrices are built: strides, images, pooling, graphs.

    python tests/samples/signal_ensembles.py [NAME …]

For each network, or for those of these names, it prints the largest V of the last layer, the
largest standard error of its entries in the limit of three widths as a share of that, the
comparisons, and the largest z among them with the chance that so many comparisons have a larger
one. It takes half an hour.
"""

from __future__ import annotations

import sys
from math import erfc, sqrt

import numpy as np

from derive import Gaussian, Network, Orthogonal, layers
from numeric import compare, flow, simulate

WIDTHS = (8, 16, 32)
DRAWS, FEWER = 40_000, {"stride, zeros": 16_000, "graph": 16_000}
"""Networks of each width."""
TENSORS = ["K", "V", "Theta"]
CIRCLE = np.roll(np.eye(4), 1, axis=1)
PATH = np.eye(4, k=1) + np.eye(4, k=-1)
BLOCK = (
    "around(sequence(convolution(2, 4, boundary=zero, stride=2), convolution(2, 2)), "
    "norm=rms, projected=True)"
)
MEANS = "around(pooling(4, 2), norm=rms, projected=True)"
NETWORKS = {
    "stride, zeros": (
        "gaussian, tanh",
        "convolution(2, 4); convolution(3, 4, boundary=zero, stride=2); dense",
    ),
    "dilation, valid": (
        "orthogonal, relu",
        "convolution(2, 4, dilation=2); convolution(2, 4, padding=0, stride=2)",
    ),
    "image": (
        "gaussian, gelu",
        "convolution(2, (2, 3), boundary=zero, stride=(1, 2)); convolution((2, 1), (2, 2))",
    ),
    "pooling inside": (
        "gaussian, relu",
        f"convolution(2, 4, boundary=zero); {MEANS}",
    ),
    "skip, pooling": (
        "gaussian, relu",
        "around(convolution(3, 3), skip=1/2, norm=rms); pooling(3)",
    ),
    "block with a stride": ("orthogonal, gelu", f"{BLOCK}; dense"),
    "graph": ("gaussian, tanh", [layers.mix(PATH, normalization="symmetric")] * 2),
    "mix of two": (
        "orthogonal, relu",
        [layers.mix(np.tri(4), CIRCLE), layers.mix(np.ones((2, 4)) / 2, CIRCLE[:2])],
    ),
}
"""Of each the law and σ, and the layers."""


def row(name: str) -> str:
    """A network's row of the table."""
    about, made = NETWORKS[name]
    law, sigma = about.split(", ")
    seed = list(NETWORKS).index(name)
    weights = {"gaussian": Gaussian(1.5), "orthogonal": Orthogonal(1.5)}[law]
    rates = {"lambda_b": 0.5, "lambda_W": 1.0}
    net = Network(sigma, weights, Gaussian(1.2), C_b=0.1, layer=made, **rates)
    x = np.random.default_rng(seed).normal(size=(*net.layer.input_axes, 3))
    depth, draws = net.layer.depth, FEWER.get(name, DRAWS)
    theory = flow(net, x, depth, TENSORS)
    samples = [
        simulate(net, x, n, depth, draws, tensors=TENSORS, seed=seed, sampler="explicit")
        for n in WIDTHS
    ]
    found = compare(theory, samples)
    V = [each for each in found.rows if each.tensor == "V" and each.layer == depth]
    largest = max(abs(each.theory) for each in V)
    share = max(each.se for each in V) / largest
    worst = max(abs(each.z) for each in found.rows)
    chance = 1 - (1 - erfc(worst / sqrt(2))) ** len(found.rows)
    cells = [name, about, f"{largest:.3g}", f"{100 * share:.1f} %", str(len(found.rows))]
    return f"| {' | '.join([*cells, f'{worst:.1f}', f'{chance:.2f}'])} |"


def main(names: list[str]) -> None:
    """Print the table."""
    print("| network | law, σ | V | resolved to | comparisons | largest z | chance |")
    print("|---|---|---|---|---|---|---|")
    for name in names or NETWORKS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
