"""K, G1, V and Θ of signals beside networks whose matrices are built: images, pooling, graphs.

    python tests/samples/signal_ensembles.py [NAME …]

For each network, or for those of these names, it prints

* the largest V and G1 of the last layer;
* the largest standard error of their entries in the limit of three widths, as a share of the
  largest V, and for G1 of the largest K;
* the comparisons, the largest z among them, and the chance that so many have a larger one.

It takes twenty processor minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import erfc, sqrt

import numpy as np

from derive import Gaussian, Network, Orthogonal, layers
from numeric import compare, flow, simulate
from numeric.tables import Row

WIDTHS = (8, 16, 32)
DRAWS = {
    "stride, zeros": 16_000,
    "graph": 16_000,
    "pooling inside": 96_000,
    "skip around one": 72_000,
}
"""Networks of each width for K, G1 and V, if not 48 000; a sixth of them for Θ."""
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
    "delta-orthogonal image": (
        "orthogonal, tanh",
        "convolution(2, (2, 2), weights=delta); convolution(2, (2, 2), weights=delta)",
    ),
    "image, norm": (
        "gaussian, gelu",
        "convolution((2, 1), (2, 2), norm=layer); pooling((2, 2), (1, 2))",
    ),
    "skip around one": (
        "gaussian, gelu",
        "around(convolution(2, 3), skip=1/2); around(convolution(3, 3, boundary=zero)); pooling(3)",
    ),
    "image, stride, flat": (
        "orthogonal, tanh",
        "convolution(3, (3, 3), boundary=zero, stride=2, norm=rms); flattening((2, 2))",
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
    depth, draws = net.layer.depth, DRAWS.get(name, 48_000)
    rows: list[Row] = []
    for tensors, count in (["K", "G1", "V"], draws), (["Theta"], draws // 6):
        samples = [
            simulate(net, x, n, depth, count, tensors=tensors, seed=seed, sampler="explicit")
            for n in WIDTHS
        ]
        rows += compare(flow(net, x, depth, tensors), samples).rows
    worst = max(abs(each.z) for each in rows)
    chance = 1 - (1 - erfc(worst / sqrt(2))) ** len(rows)
    cells = [name, about, *_resolved(rows, "V", "V", depth), *_resolved(rows, "G1", "K", depth)]
    return f"| {' | '.join([*cells, str(len(rows))])} | {worst:.1f} | {chance:.2f} |"


def _resolved(rows: Sequence[Row], tensor: str, of: str, depth: int) -> tuple[str, str]:
    """The largest component of a tensor in the last layer, and its largest standard error as a
    share of the largest component of another one."""
    own, other = (
        [each for each in rows if each.tensor == name and each.layer == depth]
        for name in (tensor, of)
    )
    largest, unit = (max(abs(each.theory) for each in found) for found in (own, other))
    return f"{largest:.3g}", f"{100 * max(each.se for each in own) / unit:.1f} %"


def main(names: list[str]) -> None:
    """Print the table."""
    print("| network | law, σ | V | to | G1 | to, of K | comparisons | largest z | chance |")
    print(f"|{'---|' * 9}")
    for name in names or NETWORKS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
