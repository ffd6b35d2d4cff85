"""A SIREN, which maps a place to a colour by sines: weights are uniform, and frequencies 30.

    wickgarten model docs/examples/siren.py:net

The first matrix has entries up to 1/fan-in, others up to √(6/fan-in)/30 (Sitzmann et al. 2020,
section 3.2). So the argument of each sine but the first has variance 1.
"""

import torch
from torch import nn

FREQUENCY = 30.0


class Sine(nn.Module):
    """sin(30 W u + 30 b)."""

    def __init__(self, fan_in: int, fan_out: int, bound: float) -> None:
        super().__init__()
        self.linear = nn.Linear(fan_in, fan_out)
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        """Of values (m, fan_in)."""
        return torch.sin(FREQUENCY * self.linear(u))


def net(width: int = 128) -> nn.Module:
    """Two coordinates to three colours."""
    bound = (6 / width) ** 0.5 / FREQUENCY
    hidden = [Sine(width, width, bound) for _ in range(3)]
    last = nn.Linear(width, 3)
    nn.init.uniform_(last.weight, -bound, bound)
    return nn.Sequential(Sine(2, width, 1 / 2), *hidden, last)


if __name__ == "__main__":
    print(net()(torch.ones(1, 2)))
