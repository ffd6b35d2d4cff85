"""A policy as libraries of reinforcement learning write it: orthogonal weights, a small head."""

import math

import torch
from torch import nn


def _layer(fan_in: int, fan_out: int, gain: float) -> nn.Linear:
    layer = nn.Linear(fan_in, fan_out)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def net() -> nn.Module:
    """Eight observations to four actions."""
    return nn.Sequential(
        _layer(8, 64, math.sqrt(2)),
        nn.Tanh(),
        _layer(64, 64, math.sqrt(2)),
        nn.Tanh(),
        _layer(64, 4, 0.01),
    )


if __name__ == "__main__":
    print(net()(torch.ones(1, 8)))
