"""A perceptron whose width may grow: maximal-update parametrisation (muP), beside the standard one.

    python docs/examples/mup.py

In muP the output has a factor 1/√width, and rates are scaled by width for each matrix (Yang et al.
2022, table 3). Here sizes, and what training changes of them, are the same at all widths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from numeric import models

BASE = 64
"""The width at which both parametrisations are the same."""


class Perceptron(nn.Module):
    """8 inputs, two hidden layers of tanh, 4 outputs."""

    def __init__(self, width: int, factor: float) -> None:
        super().__init__()
        self.first = nn.Linear(8, width, bias=False)
        self.hidden = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 4, bias=False)
        for each in (self.first, self.hidden, self.head):
            nn.init.normal_(each.weight, std=each.in_features**-0.5)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of inputs (m, 8)."""
        h = torch.tanh(self.first(x))
        return self.factor * self.head(torch.tanh(self.hidden(h)))


def standard(width: int) -> nn.Module:
    """Without a factor."""
    return Perceptron(width, 1.0)


def mup(width: int) -> nn.Module:
    """With the output's factor."""
    return Perceptron(width, (BASE / width) ** 0.5)


def net() -> nn.Module:
    """In muP at width 256."""
    return mup(256)


def sgd(model: Any) -> torch.optim.Optimizer:
    """SGD: the first matrix learns faster in proportion to the width."""
    ratio = model.hidden.in_features / BASE
    groups = [
        {"params": model.first.parameters(), "lr": 0.02 * ratio},
        {"params": [*model.hidden.parameters(), *model.head.parameters()], "lr": 0.02},
    ]
    return torch.optim.SGD(groups)


def adam(model: Any) -> torch.optim.Optimizer:
    """Adam: hidden matrices learn more slowly as 1/width, the last with its factor likewise."""
    ratio = model.hidden.in_features / BASE
    groups = [
        {"params": model.first.parameters(), "lr": 0.003},
        {"params": model.hidden.parameters(), "lr": 0.003 / ratio},
        {"params": model.head.parameters(), "lr": 0.003 / ratio**0.5},
    ]
    return torch.optim.Adam(groups)


def main() -> None:
    """Check both parametrisations at four widths."""
    inputs = np.random.default_rng(0).standard_normal((4, 8))
    widths = [64, 128, 256, 512]
    print(models.coordinate_check(mup, widths, inputs, optimizers={"SGD": sgd, "Adam": adam}))


if __name__ == "__main__":
    main()
