"""Published architectures of torch at small widths, written here: `MODELS` has each by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

F = nn.functional


class Published(NamedTuple):
    """A model, the shapes of one example's arguments, and the output that is read."""

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    output: str | int | None = None
    tokens: int = 0


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    parts: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        parts += [nn.Linear(fan_in, fan_out), act()]
    return nn.Sequential(*parts[:-1])


def orthogonal(layer: nn.Linear, gain: float) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class ActorCritic(nn.Module):
    """PPO: orthogonal layers of gain √2, a policy of gain 0.01, a value of gain 1, and log σ."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        gain = math.sqrt(2)
        self.actor = nn.Sequential(
            orthogonal(nn.Linear(11, n), gain), nn.Tanh(),
            orthogonal(nn.Linear(n, n), gain), nn.Tanh(), orthogonal(nn.Linear(n, 3), 0.01),
        )  # fmt: skip
        self.critic = nn.Sequential(
            orthogonal(nn.Linear(11, n), gain), nn.Tanh(),
            orthogonal(nn.Linear(n, n), gain), nn.Tanh(), orthogonal(nn.Linear(n, 1), 1.0),
        )  # fmt: skip
        self.log_std = nn.Parameter(torch.zeros(1, 3))

    def forward(self, x: torch.Tensor) -> Any:
        mean = self.actor(x)
        std = torch.exp(self.log_std.expand_as(mean))
        return {"mean": mean, "std": std, "value": self.critic(x)}


class SoftCritic(nn.Module):
    """SAC: Q(s, a) of a state and an action side by side."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.q1, self.q2 = mlp(9 + 3, n, n, 1), mlp(9 + 3, n, n, 1)

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> Any:
        both = torch.cat([state, action], dim=-1)
        return self.q1(both), self.q2(both)


class Deterministic(nn.Module):
    """TD3: a policy bounded by the largest action."""

    def __init__(self, n: int = 48, most: float = 2.0) -> None:
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(9, n), nn.Linear(n, n), nn.Linear(n, 3)
        self.most = most

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.l1(state))
        a = F.relu(self.l2(a))
        return self.most * torch.tanh(self.l3(a))


class Sine(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, first: bool, omega: float = 30.0) -> None:
        super().__init__()
        self.omega, self.linear = omega, nn.Linear(fan_in, fan_out)
        bound = 1 / fan_in if first else math.sqrt(6 / fan_in) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.omega * self.linear(x))


def siren(n: int = 48) -> nn.Module:
    last = nn.Linear(n, 3)
    nn.init.uniform_(last.weight, -math.sqrt(6 / n) / 30, math.sqrt(6 / n) / 30)
    return nn.Sequential(Sine(12, n, True), Sine(n, n, False), Sine(n, n, False), last)


class PhysicsInformed(nn.Module):
    """A PINN: inputs between bounds that are buffers, Xavier weights, tanh."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.register_buffer("low", torch.linspace(-1.0, -2.0, 8))
        self.register_buffer("high", torch.linspace(1.0, 3.0, 8))
        self.layers = nn.ModuleList(
            [nn.Linear(8, n), nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, 1)]
        )
        for each in self.layers:
            nn.init.xavier_normal_(each.weight)
            nn.init.zeros_(each.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = 2.0 * (x - self.low) / (self.high - self.low) - 1.0
        for layer in self.layers[:-1]:
            h = torch.tanh(layer(h))
        return self.layers[-1](h)


class DeepONet(nn.Module):
    """A branch net of a function's values times a trunk net of a place."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.branch, self.trunk = mlp(12, n, n, n, act=nn.Tanh), mlp(12, n, n, n, act=nn.Tanh)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (self.branch(u) * self.trunk(y)).sum(-1, keepdim=True) + self.bias


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, n: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.tokens, self.channels = (
            mlp(tokens, 16, tokens, act=nn.GELU),
            mlp(n, 2 * n, n, act=nn.GELU),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    """MLP-Mixer: a matrix over the tokens, and one over the channels, by turns."""

    def __init__(self, n: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, n, 4, stride=4)
        self.blocks = nn.Sequential(MixerBlock(4, n), MixerBlock(4, n))
        self.norm, self.head = nn.LayerNorm(n), nn.Linear(n, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


class CausalAttention(nn.Module):
    def __init__(self, n: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(n, 3 * n), nn.Linear(n, n)
        self.register_buffer("mask", torch.tril(torch.ones(length, length))[None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (e.view(B, T, self.heads, C // self.heads).transpose(1, 2) for e in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(C // self.heads)
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.out(y.transpose(1, 2).contiguous().view(B, T, C))


class GptBlock(nn.Module):
    def __init__(self, n: int, length: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attention, self.mlp = CausalAttention(n, 2, length), mlp(n, 4 * n, n, act=nn.GELU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class NanoGpt(nn.Module):
    """Token and position embeddings, pre-norm blocks of causal attention and an MLP."""

    def __init__(self, n: int = 32, length: int = 4, tokens: int = 11) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, n), nn.Embedding(length, n)
        self.blocks = nn.ModuleList([GptBlock(n, length) for _ in range(2)])
        self.ln, self.head = nn.LayerNorm(n), nn.Linear(n, tokens, bias=False)
        self.length = length

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(self.length))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class VisionTransformer(nn.Module):
    """Patches, a class token, positions, encoder layers of torch, and a head on the token.

    Initialized as torchvision's: a token of zeros, positions of deviation 0.02, separate layers.
    """

    def __init__(self, n: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, n, 4, stride=4)
        self.token, self.places = (
            nn.Parameter(torch.zeros(1, 1, n)),
            nn.Parameter(0.02 * torch.randn(1, 5, n)),
        )
        layers = (
            nn.TransformerEncoderLayer(n, 2, 2 * n, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.encoder = nn.Sequential(*layers)
        self.ln, self.head = nn.LayerNorm(n), nn.Linear(n, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return self.head(self.ln(self.encoder(x))[:, 0])


class BasicBlock(nn.Module):
    def __init__(self, n: int, out: int, stride: int, norm: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = (nn.BatchNorm2d(out) if norm else nn.Identity() for _ in range(2))
        self.side = nn.Conv2d(n, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.side(x))


def resnet(n: int = 24, *, norm: bool = False) -> nn.Module:
    """A stem, two stages of basic blocks, global pooling and a head."""
    return nn.Sequential(
        nn.Conv2d(3, n, 3, padding=1, bias=False), nn.BatchNorm2d(n) if norm else nn.Identity(),
        nn.ReLU(), BasicBlock(n, n, 1, norm), BasicBlock(n, 2 * n, 2, norm),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * n, 10),
    )  # fmt: skip


class PreActivation(nn.Module):
    """A block of the second ResNet: functions before the filters, and nothing behind the sum."""

    def __init__(self, n: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.side = nn.Conv2d(n, out, 1, stride, bias=False) if stride > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv2(F.relu(self.conv1(F.relu(x))))
        return y + (x if self.side is None else self.side(x))


def resnet_v2(n: int = 24) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, n, 3, padding=1, bias=False), PreActivation(n, n, 1),
        PreActivation(n, 2 * n, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(2 * n, 10),
    )  # fmt: skip


class TemporalBlock(nn.Module):
    """Of a TCN: two dilated causal convolutions, cut behind, and a skip."""

    def __init__(self, fan_in: int, n: int, dilation: int) -> None:
        super().__init__()
        self.cut, normed = 2 * dilation, nn.utils.parametrizations.weight_norm
        self.conv1 = normed(nn.Conv1d(fan_in, n, 3, padding=self.cut, dilation=dilation))
        self.conv2 = normed(nn.Conv1d(n, n, 3, padding=self.cut, dilation=dilation))
        self.side = nn.Conv1d(fan_in, n, 1) if fan_in != n else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.conv1(x)[:, :, : -self.cut].contiguous())
        y = F.relu(self.conv2(y)[:, :, : -self.cut].contiguous())
        return F.relu(y + (x if self.side is None else self.side(x)))


class Temporal(nn.Module):
    def __init__(self, n: int = 24) -> None:
        super().__init__()
        self.stem = nn.Conv1d(8, n, 1)
        self.blocks, self.head = (
            nn.Sequential(TemporalBlock(n, n, 1), TemporalBlock(n, n, 2)),
            nn.Linear(n, 3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean(dim=2))


class GraphConvolution(nn.Module):
    """A GCN on a fixed graph: A σ(A X W) W, A normalized, a buffer."""

    def __init__(self, n: int = 48, nodes: int = 5) -> None:
        super().__init__()
        ring = torch.eye(nodes) + torch.eye(nodes).roll(1, 0) + torch.eye(nodes).roll(-1, 0)
        self.register_buffer("A", ring / 3)
        self.w1, self.w2 = nn.Linear(12, n, bias=False), nn.Linear(n, n, bias=False)
        self.head = nn.Linear(n, 4)
        for each in (self.w1, self.w2, self.head):
            nn.init.xavier_uniform_(each.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.A @ self.w1(x))
        h = F.relu(self.A @ self.w2(h))
        return self.head(h.mean(dim=1))


class LowRank(nn.Module):
    """LoRA: W x + (α/r) B A x, B = 0 at the start."""

    def __init__(self, fan_in: int, fan_out: int, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.base = nn.Linear(fan_in, fan_out)
        self.A, self.B = (
            nn.Parameter(torch.empty(rank, fan_in)),
            nn.Parameter(torch.zeros(fan_out, rank)),
        )
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        self.scaling = alpha / rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + (x @ self.A.T @ self.B.T) * self.scaling


def lora(n: int = 48) -> nn.Module:
    return nn.Sequential(LowRank(12, n), nn.GELU(), LowRank(n, n), nn.GELU(), LowRank(n, 3))


class ReZeroBlock(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.inner, self.alpha = mlp(n, n, n), nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.alpha * self.inner(x)


def rezero(n: int = 48) -> nn.Module:
    return nn.Sequential(nn.Linear(12, n), ReZeroBlock(n), ReZeroBlock(n), nn.Linear(n, 3))


class FixupBlock(nn.Module):
    """Scalar biases and a multiplier; the last matrix is 0, the first times L^{-1/2}."""

    def __init__(self, n: int, blocks: int) -> None:
        super().__init__()
        self.b1, self.b2, self.b3, self.b4 = (nn.Parameter(torch.zeros(1)) for _ in range(4))
        self.scale = nn.Parameter(torch.ones(1))
        self.l1, self.l2 = nn.Linear(n, n, bias=False), nn.Linear(n, n, bias=False)
        nn.init.normal_(self.l1.weight, std=math.sqrt(2 / n) * blocks**-0.5)
        nn.init.zeros_(self.l2.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.l1(x + self.b1) + self.b2)
        return F.relu(x + self.l2(h + self.b3) * self.scale + self.b4)


class Fixup(nn.Module):
    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.stem, self.bias = nn.Linear(12, n), nn.Parameter(torch.zeros(1))
        self.blocks, self.head = nn.Sequential(FixupBlock(n, 2), FixupBlock(n, 2)), nn.Linear(n, 3)
        nn.init.zeros_(self.head.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(F.relu(self.stem(x))) + self.bias)


class MuP(nn.Module):
    """μP for SGD and Adam: inputs and outputs with multipliers, hidden matrices of 1/n."""

    def __init__(self, n: int = 48, base: int = 16) -> None:
        super().__init__()
        self.n, self.base, self.input_mult, self.output_mult = n, base, 2.0, 0.5
        self.first, self.hidden = nn.Linear(12, n, bias=False), nn.Linear(n, n, bias=False)
        self.readout = nn.Linear(n, 3, bias=False)
        nn.init.normal_(self.first.weight, std=12**-0.5)
        nn.init.normal_(self.hidden.weight, std=n**-0.5)
        nn.init.normal_(self.readout.weight, std=base**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.input_mult * self.first(x) / self.n**0.5 * self.n**0.5)
        h = F.relu(self.hidden(h))
        return self.readout(h) * (self.output_mult * self.base / self.n)


class Ntk(nn.Module):
    """NTK parametrization: unit normal weights, σ_w/√n and σ_b in the forward."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        sizes = (12, n, n, 1)
        pairs = [*pairwise(sizes)]
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(o, i)) for i, o in pairs])
        self.biases = nn.ParameterList([nn.Parameter(torch.randn(o)) for _, o in pairs])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x
        for k, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = F.linear(h, math.sqrt(2) * W / math.sqrt(W.shape[1])) + 0.1 * b
            h = F.relu(h) if k < 2 else h
        return h


class SwiGlu(nn.Module):
    """A pre-norm block of a fused gate: one matrix for both branches."""

    def __init__(self, n: int, hidden: int) -> None:
        super().__init__()
        self.norm, self.w12, self.w3 = nn.RMSNorm(n), nn.Linear(n, 2 * hidden), nn.Linear(hidden, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.w12(self.norm(x)).chunk(2, dim=-1)
        return x + self.w3(F.silu(gate) * up)


def swiglu(n: int = 32) -> nn.Module:
    return nn.Sequential(nn.Linear(12, n), SwiGlu(n, 2 * n), SwiGlu(n, 2 * n), nn.Linear(n, 4))


class HighwayLayer(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.plain, self.gate = nn.Linear(n, n), nn.Linear(n, n)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t = torch.sigmoid(self.gate(x))
        return t * torch.tanh(self.plain(x)) + (1 - t) * x


def highway(n: int = 48) -> nn.Module:
    return nn.Sequential(nn.Linear(12, n), HighwayLayer(n), HighwayLayer(n), nn.Linear(n, 3))


class Dense(nn.Module):
    """DenseNet of matrices: each layer takes all before it, side by side."""

    def __init__(self, n: int = 32) -> None:
        super().__init__()
        self.stem, self.l1, self.l2 = nn.Linear(12, n), nn.Linear(n, n), nn.Linear(2 * n, n)
        self.head = nn.Linear(3 * n, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        f0 = self.stem(x)
        f1 = self.l1(F.relu(f0))
        f2 = self.l2(F.relu(torch.cat([f0, f1], dim=1)))
        return self.head(F.relu(torch.cat([f0, f1, f2], dim=1)))


class Encoder(nn.Module):
    """Of a VAE: a mean and a log variance, and a sample of these."""

    def __init__(self, n: int = 48, latent: int = 6) -> None:
        super().__init__()
        self.body, self.both = (
            nn.Sequential(nn.Linear(20, n), nn.ELU(), nn.Linear(n, n), nn.ELU()),
            nn.Linear(n, 2 * latent),
        )

    def forward(self, x: torch.Tensor) -> Any:
        mean, log_var = torch.split(self.both(self.body(x)), 6, dim=-1)
        return mean, log_var, mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)


class AutoEncoder(nn.Module):
    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.encoder, self.decoder = mlp(20, n, 24, act=nn.SiLU), mlp(24, n, 20, act=nn.SiLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x))


class Coupling(nn.Module):
    """RealNVP: one half scaled and shifted by a function of the other."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.net = mlp(6, n, n, 12, act=nn.LeakyReLU)

    def forward(self, x: torch.Tensor) -> Any:
        kept, moved = x.chunk(2, dim=-1)
        scale, shift = self.net(kept).chunk(2, dim=-1)
        scale = torch.tanh(scale)
        return torch.cat([kept, moved * torch.exp(scale) + shift], dim=-1), scale.sum(dim=-1)


class WaveBlock(nn.Module):
    """Of a WaveNet: tanh times sigmoid of dilated causal convolutions, a 1×1 one, a skip."""

    def __init__(self, n: int, dilation: int) -> None:
        super().__init__()
        self.pad = dilation
        self.filter, self.gate = (nn.Conv1d(n, n, 2, dilation=dilation) for _ in range(2))
        self.mix = nn.Conv1d(n, n, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.pad(x, (self.pad, 0))
        return x + self.mix(torch.tanh(self.filter(y)) * torch.sigmoid(self.gate(y)))


class Wave(nn.Module):
    def __init__(self, n: int = 24) -> None:
        super().__init__()
        self.stem, self.blocks = nn.Conv1d(8, n, 1), nn.Sequential(WaveBlock(n, 1), WaveBlock(n, 2))
        self.head = nn.Conv1d(n, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.relu(self.blocks(self.stem(x)))).mean(-1)


class Radiance(nn.Module):
    """NeRF: places as sines and cosines, an MLP that takes them again halfway."""

    def __init__(self, n: int = 48, octaves: int = 4) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(octaves))
        size = 3 + 6 * octaves
        self.l1, self.l2 = nn.Linear(size, n), nn.Linear(n, n)
        self.l3, self.l4 = nn.Linear(n + size, n), nn.Linear(n, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        angles = (x[..., None] * self.bands).flatten(-2)
        e = torch.cat([x, torch.sin(angles), torch.cos(angles)], dim=-1)
        h = F.relu(self.l2(F.relu(self.l1(e))))
        return self.l4(F.relu(self.l3(torch.cat([h, e], dim=-1))))


class FourierFeatures(nn.Module):
    """Sines and cosines of the inputs times a fixed Gaussian matrix, then an MLP."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        fixed = torch.Generator().manual_seed(0)
        self.register_buffer("B", torch.randn(3, 16, generator=fixed))
        self.net = mlp(32, n, n, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = 2 * math.pi * x @ self.B
        return self.net(torch.cat([p.sin(), p.cos()], dim=-1))


class DeepQ(nn.Module):
    """DQN: bytes over 255, three strided convolutions, two matrices."""

    def __init__(self, n: int = 24) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(4, n, 4, stride=2), nn.ReLU(), nn.Conv2d(n, n, 2, stride=1), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(n * 4, 48), nn.ReLU(), nn.Linear(48, 6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.convs(x / 255.0))


class UNet(nn.Module):
    """A U-Net without pooling: wider filters inside, and the outer level's values beside."""

    def __init__(self, n: int = 24) -> None:
        super().__init__()
        self.stem, self.inner = (nn.Conv1d(m, n, 3, padding="same") for m in (8, n))
        self.deep = nn.Conv1d(n, n, 3, padding="same", dilation=2)
        self.up, self.head = nn.Conv1d(2 * n, n, 3, padding="same"), nn.Conv1d(n, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.relu(self.stem(x))
        b = F.relu(self.deep(F.relu(self.inner(a))))
        return self.head(F.relu(self.up(torch.cat([b, a], dim=1)))).mean(-1)


class LlamaBlock(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(n), nn.RMSNorm(n)
        self.q, self.k, self.v, self.o = (nn.Linear(n, n, bias=False) for _ in range(4))
        self.w1, self.w3, self.w2 = (
            nn.Linear(n, 2 * n, bias=False),
            nn.Linear(n, 2 * n, bias=False),
            nn.Linear(2 * n, n, bias=False),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.n1(x)
        h = F.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y), is_causal=True)
        x = x + self.o(h)
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class SharedKeys(nn.Module):
    """Attention whose heads share keys and values, as Llama 3 has them in its published code."""

    def __init__(self, n: int, heads: int, keys: int) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, n // heads
        self.q, self.o = nn.Linear(n, n, bias=False), nn.Linear(n, n, bias=False)
        self.k, self.v = (nn.Linear(n, keys * self.size, bias=False) for _ in range(2))

    def shared(self, u: torch.Tensor) -> torch.Tensor:
        B, T, G, d = u.shape
        share = self.heads // self.keys
        return u[:, :, :, None, :].expand(B, T, G, share, d).reshape(B, T, G * share, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.size).transpose(1, 2)
        k, v = (
            self.shared(e(x).view(B, T, self.keys, self.size)).transpose(1, 2)
            for e in (self.k, self.v)
        )
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.size)
        y = torch.matmul(F.softmax(scores.float(), dim=-1).type_as(q), v)
        return self.o(y.transpose(1, 2).contiguous().view(B, T, C))


class GroupedBlock(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.n1, self.n2, self.attention = nn.RMSNorm(n), nn.RMSNorm(n), SharedKeys(n, 8, 2)
        self.w1, self.w3 = (nn.Linear(n, 2 * n, bias=False) for _ in range(2))
        self.w2 = nn.Linear(2 * n, n, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.n1(x))
        y = self.n2(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


def grouped_llama(n: int = 32, tokens: int = 11) -> nn.Module:
    return nn.Sequential(
        nn.Embedding(tokens, n), GroupedBlock(n), GroupedBlock(n), nn.RMSNorm(n),
        nn.Linear(n, tokens, bias=False),
    )  # fmt: skip


class Llama(nn.Module):
    def __init__(self, n: int = 32, tokens: int = 11) -> None:
        super().__init__()
        self.embed, self.blocks = (
            nn.Embedding(tokens, n),
            nn.Sequential(LlamaBlock(n), LlamaBlock(n)),
        )
        self.norm, self.out = nn.RMSNorm(n), nn.Linear(n, tokens, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(self.blocks(self.embed(ids))))


class DeepSets(nn.Module):
    """ρ(mean φ(x_i)) of the members of a set."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.phi, self.rho = mlp(12, n, n), mlp(n, n, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rho(self.phi(x).mean(dim=1))


class Siamese(nn.Module):
    """One network for two inputs, and both its values."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.net = mlp(12, n, n, 8)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> Any:
        return self.net(one), self.net(other)


class Tied(nn.Module):
    """An autoencoder of one matrix, as a Hopfield network has it: W^T σ(W x)."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(n, 12) / 12**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ self.W.T) @ self.W


def dropout_mlp(n: int = 48) -> nn.Module:
    return nn.Sequential(
        nn.Dropout(0.2), nn.Linear(20, n), nn.ReLU(), nn.Dropout(0.5), nn.Linear(n, n), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(n, 10),
    )  # fmt: skip


def discriminator(n: int = 48) -> nn.Module:
    """SN-GAN: each matrix over its largest singular value."""
    normed = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(
        normed(nn.Linear(20, n)), nn.LeakyReLU(0.1), normed(nn.Linear(n, n)), nn.LeakyReLU(0.1),
        normed(nn.Linear(n, 1)),
    )  # fmt: skip


class PostNorm(nn.Module):
    """Feedforward blocks with the norm behind the sum, as the first transformers have them."""

    def __init__(self, n: int = 32) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(12, n), nn.Linear(n, 3)
        self.inner = nn.ModuleList([mlp(n, 2 * n, n, act=nn.GELU) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(n) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for inner, norm in zip(self.inner, self.norms, strict=True):
            x = norm(x + inner(x))
        return self.head(x)


class WordBag(nn.Module):
    """The mean of the embeddings of some tokens, through an MLP."""

    def __init__(self, n: int = 48) -> None:
        super().__init__()
        self.embed, self.net = nn.Embedding(11, n), mlp(n, n, 5)

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        return self.net(F.relu(self.embed(token).mean(dim=1)))


def inputs(name: str, count: int = 2) -> Any:
    """Some examples for a model: one array, or one for each argument."""
    random, own = np.random.default_rng(0), MODELS[name]
    if own.tokens:
        return random.integers(0, own.tokens, (count, *own.shapes[0]))
    arrays = tuple(random.standard_normal((count, *shape)) for shape in own.shapes)
    return arrays if len(arrays) > 1 else arrays[0]


MODELS: dict[str, Published] = {
    "PPO actor-critic": Published(ActorCritic, ((11,),), "mean"),
    "SAC critic": Published(SoftCritic, ((9,), (3,)), 0),
    "TD3 policy": Published(Deterministic, ((9,),)),
    "SIREN": Published(siren, ((12,),)),
    "PINN": Published(PhysicsInformed, ((8,),)),
    "DeepONet": Published(DeepONet, ((12,), (12,))),
    "MLP-Mixer": Published(Mixer, ((3, 8, 8),)),
    "NanoGPT": Published(NanoGpt, ((4,),), tokens=11),
    "ViT": Published(VisionTransformer, ((3, 8, 8),)),
    "ResNet v2 without norms": Published(resnet_v2, ((3, 6, 6),)),
    "ResNet without norms": Published(resnet, ((3, 6, 6),)),
    "ResNet with batch norm": Published(lambda: resnet(norm=True), ((3, 6, 6),)),
    "TCN": Published(Temporal, ((8, 6),)),
    "GCN": Published(GraphConvolution, ((5, 12),)),
    "LoRA MLP": Published(lora, ((12,),)),
    "ReZero": Published(rezero, ((12,),)),
    "Fixup": Published(Fixup, ((12,),)),
    "μP MLP": Published(MuP, ((12,),)),
    "NTK-parametrized MLP": Published(Ntk, ((12,),)),
    "SwiGLU blocks": Published(swiglu, ((12,),)),
    "highway network": Published(highway, ((12,),)),
    "DenseNet MLP": Published(Dense, ((12,),)),
    "VAE encoder": Published(Encoder, ((20,),), 0),
    "autoencoder": Published(AutoEncoder, ((20,),)),
    "RealNVP coupling": Published(Coupling, ((12,),), 0),
    "WaveNet": Published(Wave, ((8, 6),)),
    "NeRF": Published(Radiance, ((3,),)),
    "Fourier features": Published(FourierFeatures, ((3,),)),
    "DQN": Published(DeepQ, ((4, 8, 8),)),
    "U-Net without pooling": Published(UNet, ((8, 4),)),
    "Llama": Published(Llama, ((4,),), tokens=11),
    "Llama with shared keys": Published(grouped_llama, ((4,),), tokens=11),
    "DeepSets": Published(DeepSets, ((4, 12),)),
    "siamese": Published(Siamese, ((12,), (12,)), 0),
    "tied autoencoder": Published(Tied, ((12,),)),
    "dropout MLP": Published(dropout_mlp, ((20,),)),
    "SN-GAN discriminator": Published(discriminator, ((20,),)),
    "post-norm blocks": Published(PostNorm, ((12,),)),
    "embedding classifier": Published(WordBag, ((4,),), tokens=11),
}
