"""A small GPT of torch: read, derived, and measured with fresh draws of itself.

    wickgarten model docs/examples/gpt.py:net
    python docs/examples/gpt.py

Two pre-norm blocks of width 64 with 4 heads read 8 tokens. Embeddings of tokens and of positions
are the columns of one matrix. The output is that of the last token.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from numeric import models

BLOCKS, TOKENS, WIDTH, HEADS, WORDS = 2, 8, 64, 4, 32


def matrix(fan_in: int, fan_out: int, blocks: int = 1) -> nn.Linear:
    """Normal entries of variance 1/fan-in, or a part of that by the number of blocks."""
    made = nn.Linear(fan_in, fan_out, bias=False)
    nn.init.normal_(made.weight, std=1 / math.sqrt(blocks * fan_in))
    return made


class Attention(nn.Module):
    """Causal self attention; queries, keys and values are packed in one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.packed, self.last = matrix(WIDTH, 3 * WIDTH), matrix(WIDTH, WIDTH, BLOCKS)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """Of normalized tokens (m, T, n)."""
        q, k, v = self.packed(y).chunk(3, dim=-1)
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (q, k, v))
        found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.last(found.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention and then an MLP, each behind a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(
            matrix(WIDTH, 4 * WIDTH), nn.GELU(), matrix(4 * WIDTH, WIDTH, BLOCKS)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of tokens (m, T, n)."""
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Numbers of tokens (m, T) to the logits behind the last."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = matrix(WORDS + TOKENS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), matrix(WIDTH, WORDS)
        self.register_buffer("places", torch.eye(TOKENS), persistent=False)
        self.example_input_array = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Unit vectors of words and places are multiplied by their embeddings."""
        words = functional.one_hot(ids.long(), WORDS)
        places = self.places.expand(ids.shape[0], TOKENS, TOKENS)
        x = self.blocks(self.embedding(torch.cat([words, places], dim=-1)))
        return self.head(self.norm(x)[:, -1])


def net() -> GPT:
    """A fresh one."""
    return GPT()


if __name__ == "__main__":
    print(models.report(net))
