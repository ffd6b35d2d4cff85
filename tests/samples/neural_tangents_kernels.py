"""Record kernels of convolutional networks that neural-tangents computes.

    pip install "jax[cpu]==0.4.23" "scipy<1.13" "numpy<2" neural-tangents==0.6.5
    python tests/samples/neural_tangents_kernels.py

It writes `tests/numeric/neural_tangents.json`. Each network has its layers in this project's text,
and K and Theta of two inputs at the last layer. In the "ntk" parametrization a weight is
W_std/√fan_in times a parameter, and a bias b_std times one. So λ_W = C_W = W_std² and
λ_b = C_b = b_std². Nothing of this project is used here.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import jax
import numpy as np
from neural_tangents import stax

FILE = Path(__file__).parents[1] / "numeric" / "neural_tangents.json"
CHANNELS = 3
RELU, ERF = stax.Relu(), stax.Erf()


class Layers:
    """Convolutions and dense layers with one W_std and one b_std."""

    def __init__(self, W_std: float, b_std: float | None) -> None:
        self.W_std, self.b_std = W_std, b_std

    def conv(self, size, strides=None, padding="SAME", biased=True):
        b_std = self.b_std if biased else None
        return stax.Conv(1, size, strides, padding, self.W_std, b_std)

    def dense(self):
        return stax.Dense(1, self.W_std, self.b_std)


def around(*block, past=None):
    """A skip around a block."""
    fork = stax.parallel(stax.serial(*block), past or stax.Identity())
    return stax.serial(stax.FanOut(2), fork, stax.FanInSum())


def networks():
    """Of each the shape of its positions, σ, the variances, this project's layers, and its own."""
    a, b = Layers(1.5, 0.5), Layers(1.25, None)
    mean, flat = stax.GlobalAvgPool(), stax.Flatten()
    strided = ERF, a.conv((3, 3), (2, 2)), ERF, a.conv((2, 2))
    return {
        "signal, zeros, mean": (
            (6,), "relu", a, "convolution(3, 6, boundary=zero)*2; pooling(6)",
            [a.conv((1,)), *[RELU, a.conv((3,))] * 2, RELU, mean, a.dense()],
        ),
        "signal, circular, flat": (
            (5,), "erf", a, "convolution(3, 5)*2; flattening(5)",
            [a.conv((1,)), *[ERF, a.conv((3,), padding="CIRCULAR")] * 2, ERF, flat, a.dense()],
        ),
        "image, zeros, mean": (
            (4, 5), "relu", b, "convolution(3, (4, 5), boundary=zero)*2; pooling((4, 5))",
            [b.conv((1, 1)), *[RELU, b.conv((3, 3))] * 2, RELU, mean, b.dense()],
        ),
        "image, valid, flat": (
            (5, 4), "erf", b, "convolution((3, 2), (5, 4), padding=0); flattening((3, 3))",
            [b.conv((1, 1)), ERF, b.conv((3, 2), padding="VALID"), ERF, flat, b.dense()],
        ),
        "signal, stride, zeros": (
            (7,), "relu", a, "convolution(3, 7, boundary=zero, stride=2); pooling(4)",
            [a.conv((1,)), RELU, a.conv((3,), (2,)), RELU, mean, a.dense()],
        ),
        "image, stride, circular": (
            (4, 5), "erf", a, "convolution((2, 3), (4, 5), stride=(2, 1)); flattening((2, 5))",
            [a.conv((1, 1)), ERF, a.conv((2, 3), (2, 1), "CIRCULAR"), ERF, flat, a.dense()],
        ),
        "signal, skips": (
            (6,), "relu", b, "around(convolution(3, 6, boundary=zero))*3; pooling(6)",
            [b.conv((1,)), *[around(RELU, b.conv((3,)))] * 3, RELU, mean, b.dense()],
        ),
        "image, block with a stride": (
            (5, 5), "erf", a,
            "around(sequence(convolution(3, (5, 5), boundary=zero, stride=2), "
            "convolution(2, (3, 3), boundary=zero)), projected=True); flattening((3, 3))",
            [
                a.conv((1, 1)), around(*strided, past=a.conv((1, 1), (2, 2), biased=False)),
                ERF, flat, a.dense(),
            ],
        ),
        "signal, windows": (
            (6,), "relu", a,
            "convolution(3, 6); pooling(6, 2); convolution(2, 3, boundary=zero); flattening(3)",
            [
                a.conv((1,)), RELU, a.conv((3,), padding="CIRCULAR"),
                RELU, stax.AvgPool((2,), (2,)), a.conv((1,)),
                RELU, a.conv((2,)), RELU, flat, a.dense(),
            ],
        ),
    }  # fmt: skip


def main() -> None:
    """Write the file."""
    jax.config.update("jax_enable_x64", True)
    found = {}
    for seed, (name, (shape, sigma, own, layer, parts)) in enumerate(networks().items()):
        x = np.random.default_rng(seed).normal(size=(2, *shape, CHANNELS)).round(1)
        kernel = stax.serial(*parts)[2](x, None, ("nngp", "ntk"))
        found[name] = {
            "activation": sigma,
            "layer": layer,
            "C_W": own.W_std**2,
            "C_b": (own.b_std or 0.0) ** 2,
            "inputs": x.tolist(),
            "K": np.asarray(kernel.nngp).tolist(),
            "Theta": np.asarray(kernel.ntk).tolist(),
        }
    about = {name: version(name) for name in ("neural-tangents", "jax")}
    FILE.write_text(json.dumps({"made_with": about, "networks": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
