"""A pre-activation ResNet of torch: read, derived, and measured with fresh draws of itself.

    python docs/examples/resnet.py resnet.svg
    wickgarten model docs/examples/resnet.py:net

The network has eight blocks on an image of 16 × 16 positions, then global pooling and a matrix. It
has no batch norm. A block is x + conv(relu(conv(relu(norm(x))))), where the norm is RMSNorm over
the channels.

K is the variance of an output. V/n is the covariance of the squares of two outputs, with n
channels. Given the pooled features u, outputs are Gaussian of variance q = C_W mean u². So
K = E q and V = n Var q. Draws of the model give q at three widths, and lines in 1/n their limits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from numeric import flow, models

BLOCKS, SIZE = 8, 16
WIDEST = 64
DRAWS = {16: 2400, 32: 1200, WIDEST: 600}
"""The number of models for each number of channels."""


def convolution(fan_in: int, channels: int, nonlinearity: str = "relu") -> nn.Conv2d:
    """3 × 3, with a boundary of zeros and He's weights."""
    made = nn.Conv2d(fan_in, channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(made.weight, nonlinearity=nonlinearity)
    return made


class Block(nn.Module):
    """x + conv(relu(conv(relu(norm(x)))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(channels)
        self.conv1 = convolution(channels, channels)
        self.conv2 = convolution(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of images (m, channels, height, width)."""
        y = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x + self.conv2(torch.relu(self.conv1(torch.relu(y))))


def body(channels: int) -> nn.Sequential:
    """All but the head."""
    return nn.Sequential(
        convolution(3, channels, "linear"), *(Block(channels) for _ in range(BLOCKS))
    )


def resnet(channels: int = WIDEST) -> nn.Sequential:
    """An image of three colours to ten outputs."""
    head = nn.Linear(channels, 10, bias=False)
    nn.init.kaiming_normal_(head.weight)
    return nn.Sequential(*body(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


def net() -> nn.Sequential:
    """For a report: 16 channels, and an image."""
    made = resnet(16)
    made.example_input_array = torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator())
    return made


class Value(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


def measured(image: torch.Tensor, channels: int, draws: int) -> np.ndarray:
    """Mean squares behind the first convolution and each block, then q: (draws, BLOCKS + 2)."""
    found = np.zeros((draws, BLOCKS + 2))
    with torch.no_grad():
        for row in found:
            x, net = image, resnet(channels)
            for k, layer in enumerate(net[:-1]):
                x = layer(x)
                if k <= BLOCKS:
                    row[k] = (x**2).mean()
            row[-1] = 2 * (x**2).mean()
    return found


def cumulants(q: np.ndarray, channels: int) -> tuple[Value, Value]:
    """E q and n Var q of the draws."""
    squares = channels * (q - q.mean()) ** 2
    count = len(q)
    K = Value(float(q.mean()), float(q.std() / count**0.5))
    V = Value(float(squares.sum() / (count - 1)), float(squares.std() / count**0.5))
    return K, V


def limit(values: Sequence[Value]) -> tuple[Value, float]:
    """A line in 1/n through the values of all widths: at 1/n = 0, and its slope."""
    inverse = np.array([1 / n for n in DRAWS])
    design = np.stack([np.ones_like(inverse), inverse], axis=1)
    errors = np.array([each.error for each in values])
    covariance = np.linalg.inv(design.T @ (design / errors[:, None] ** 2))
    at, slope = covariance @ design.T @ (np.array([each.value for each in values]) / errors**2)
    return Value(float(at), float(covariance[0, 0] ** 0.5)), float(slope)


def draw(
    path: str, depths: np.ndarray, means: np.ndarray, V: Value, found: Sequence[Value]
) -> None:
    """Draw K behind each block, and V by width."""
    import matplotlib as mpl  # noqa: PLC0415  (a second to import, which a report does without)
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.use("svg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    left.plot(depths, label="theory")
    left.plot(means, "o", label=f"torch, n = {WIDEST}")
    left.set(xlabel="blocks", ylabel="K, mean of all positions")
    line, slope = limit(found)
    ends = np.array([0, 1 / min(DRAWS)])
    right.plot(ends, line.value + slope * ends, "--", color="gray", label="line through torch")
    errors = [each.error for each in found]
    right.errorbar([1 / n for n in DRAWS], [e.value for e in found], errors, fmt="o", label="torch")
    right.errorbar([0], [V.value], [V.error], fmt="s", label="theory")
    right.set(xlabel="1/n", ylabel="V behind pooling", ylim=(0, None))
    left.legend()
    right.legend()
    figure.savefig(path)


def shown(name: str, theory: Value, found: Value) -> str:
    """Theory beside what was measured."""
    z = (found.value - theory.value) / np.hypot(found.error, theory.error)
    return (
        f"{name}: theory {theory.value:.3f} ± {theory.error:.3f}, "
        f"torch {found.value:.3f} ± {found.error:.3f}, z = {z:.1f}"
    )


def derived(images: np.ndarray) -> tuple[np.ndarray, Value, Value]:
    """K behind the first convolution and each block, then K and V of an output."""
    inner, whole = models.read(lambda: body(WIDEST), images), models.read(resnet, images)
    K = flow(inner.network, inner.samples(images), inner.depth, "K")["K"].to_numpy()
    table = flow(whole.network, whole.samples(images), whole.depth, ["K", "V"], draws=10_000)
    last = {str(name): values.to_numpy()[-1].item() for name, values in table.items()}
    block = whole.network.layer_at(2, whole.depth)
    print(f"read: {whole.depth} layers, of which {BLOCKS} are {'; '.join(block.lines)}")
    means = np.trace(K, axis1=1, axis2=2) / K.shape[-1]
    return means, Value(last["K"], 0.0), Value(last["V"], last["V_error"] / 3)


def main() -> None:
    """Print K and V of an output, from theory and from torch, and draw a picture."""
    parser = argparse.ArgumentParser(description="A ResNet of torch, beside theory.")
    parser.add_argument("picture", nargs="?", help="the SVG file to write")
    picture = parser.parse_args().picture
    torch.manual_seed(0)
    torch.set_num_threads(1)  # on a busy machine several threads wait for one another
    images = np.random.default_rng(0).standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
    depths, K, V = derived(images)
    draws = {n: measured(torch.tensor(images), n, count) for n, count in DRAWS.items()}
    Ks, Vs = zip(*(cumulants(each[:, -1], n) for n, each in draws.items()), strict=True)
    print(shown("K of an output", K, limit(Ks)[0]))
    print(shown("V of an output", V, limit(Vs)[0]))
    print(f"K grows by {depths[-1] - depths[-2]:.3f} per block: the norm keeps growth linear")
    spread = (V.value / WIDEST) ** 0.5 / K.value
    print(f"with {WIDEST} channels the variance of outputs differs by {spread:.0%} between draws")
    if picture is not None:
        draw(picture, depths, draws[WIDEST][:, :-1].mean(axis=0), V, Vs)


if __name__ == "__main__":
    main()
