"""A physics-informed network: u(x, t) of an equation on a domain, which is scaled to [-1, 1]².

    wickgarten model docs/examples/pinn.py:net

Xavier weights, biases of 0 and tanh, as in Raissi et al. 2019.
"""

from itertools import pairwise

import torch
from torch import nn


class Solution(nn.Module):
    """u(x, t)."""

    low: torch.Tensor
    high: torch.Tensor

    def __init__(self, width: int = 64, depth: int = 5) -> None:
        super().__init__()
        self.register_buffer("low", torch.tensor([-1.0, 0.0]))
        self.register_buffer("high", torch.tensor([1.0, 0.99]))
        sizes = [2, *[width] * depth, 1]
        parts: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            layer = nn.Linear(fan_in, fan_out)
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
            parts += [layer, nn.Tanh()]
        self.layers = nn.Sequential(*parts[:-1])
        self.example_input_array = torch.tensor([[0.5, 0.3], [-0.4, 0.8]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of points (m, 2)."""
        values: torch.Tensor = self.layers(2 * (x - self.low) / (self.high - self.low) - 1)
        return values


def net() -> nn.Module:
    """Five hidden layers of 64."""
    return Solution()


if __name__ == "__main__":
    print(net()(torch.ones(1, 2)))
