"""Trains networks with attention in torch: `python tests/samples/attention_training.py`.

Prints the mean prediction of the first sequence after three steps, with its standard error, and
its variance over networks, for three widths. Theory is `training.flow` with `lambda_b=0`.
"""

from __future__ import annotations

import math

import numpy as np
import torch

HEADS, ETA, STEPS = 2, 0.1, 3
TOKENS = torch.tensor(np.random.default_rng(0).normal(size=(2, 2, 3)))
TARGETS = torch.tensor([1.0, -0.5], dtype=torch.float64)


def drawn(n: int, networks: int, seed: int) -> dict[str, torch.Tensor]:
    """Standard normal parameters: layer 1, attention and the readout."""
    generator = torch.Generator().manual_seed(seed)
    shapes = dict.fromkeys("QKVO", (n, n)) | {"first": (n, 3), "last": (1, n)}
    return {
        name: torch.randn(
            networks, *shape, generator=generator, dtype=torch.float64, requires_grad=True
        )
        for name, shape in shapes.items()
    }


def outputs(weights: dict[str, torch.Tensor]) -> torch.Tensor:
    """The prediction of each network for each sequence: (networks, 2)."""

    def times(name: str, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("rnm,r...m->r...n", weights[name], x) / math.sqrt(x.shape[-1])

    z = times("first", TOKENS.expand(len(weights["first"]), -1, -1, -1))
    y = z / (z * z).mean(-1, keepdim=True).sqrt()
    q, k, v = (times(name, y).unflatten(-1, (HEADS, -1)) for name in "QKV")
    attention = torch.softmax(torch.einsum("rsthd,rsuhd->rshtu", q, k) / q.shape[-1], -1)
    z = times("O", torch.einsum("rshtu,rsuhd->rsthd", attention, v).flatten(-2))
    return times("last", torch.tanh(z).mean(2)).squeeze(-1)


def trained(n: int, networks: int, seed: int) -> np.ndarray:
    """Predictions after full-batch descent: (networks, 2)."""
    weights = drawn(n, networks, seed)
    for _ in range(STEPS):
        loss = 0.5 * ((outputs(weights) - TARGETS) ** 2).sum()
        gradients = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for weight, gradient in zip(weights.values(), gradients, strict=True):
                weight.sub_(ETA * gradient)
    return np.asarray(outputs(weights).detach())


def main() -> None:
    """Print a line for each width."""
    for n, networks, runs in ((16, 500, 160), (32, 250, 160), (64, 100, 100)):
        found = np.concatenate([trained(n, networks, 1000 * n + run) for run in range(runs)])[:, 0]
        error = found.std() / math.sqrt(len(found))
        print(f"n = {n}: {found.mean():.4f} ± {error:.4f}, variance {found.var():.4f}")


if __name__ == "__main__":
    main()
