"""Layers of attention with every matrix built: NumPy alone, one head after another.

Arguments of all functions: `x` (tokens, n), float; `S` its Gram matrix over n, (tokens, tokens).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


ELEMENTWISE: dict[str, Callable[[Array], Array]] = {
    "sigmoid": lambda s: 1.0 / (1.0 + np.exp(-s)),
    "relu": lambda s: np.maximum(s, 0.0),
    "linear": lambda s: s,
}


def attended(scores: Array, bias: Array, function: str = "softmax") -> Array:
    """A of scores and a bias, −∞ where a token is not seen."""
    if function == "softmax":
        return softmax(scores + bias)
    seen = np.isfinite(bias)
    return np.where(seen, ELEMENTWISE[function](scores + np.where(seen, bias, 0.0)), 0.0)


@dataclass(frozen=True)
class Attention:
    """x' = γ x + W_O o, with heads of size n/H and scores q·k/d^power."""

    heads: int
    bias: Array
    power: float = 0.5
    function: str = "softmax"
    skip: float = 0.0
    norm: bool = False
    C: dict[str, float] = field(default_factory=lambda: dict.fromkeys("QKVO", 1.0))

    def kernel(self, x: Array) -> Array:
        y = x / np.sqrt((x**2).mean(axis=-1, keepdims=True)) if self.norm else x
        return np.asarray(y @ y.swapaxes(-1, -2) / x.shape[-1])

    def with_matrices(self, x: Array, rng: np.random.Generator) -> Array:
        """Every matrix is drawn and applied."""
        tokens, n = x.shape
        y = x / np.sqrt((x**2).mean(axis=-1, keepdims=True)) if self.norm else x
        q, k, v = (y @ rng.normal(0.0, np.sqrt(self.C[c] / n), (n, n)) for c in "QKV")
        parts = [each.reshape(tokens, self.heads, -1).swapaxes(0, 1) for each in (q, k, v)]
        scores = parts[0] @ parts[1].swapaxes(1, 2) / (n // self.heads) ** self.power
        o = (attended(scores, self.bias, self.function) @ parts[2]).swapaxes(0, 1)
        W = rng.normal(0.0, np.sqrt(self.C["O"] / n), (n, n))
        return np.asarray(self.skip * x + o.reshape(tokens, n) @ W)

    def kernels(
        self, S: Array, n: int, draws: int, rng: np.random.Generator, *, fixed: str = ""
    ) -> Array:
        """R of networks given S, (draws, tokens, tokens): z | R ~ N(0, R).

        Arguments:
            fixed: "scores" takes A at its mean over scores, "values" v vᵀ at its mean.
        """
        tokens, d = len(S), n // self.heads
        L = np.linalg.cholesky(S + 1e-13 * np.trace(S) * np.eye(tokens))
        R = np.zeros((draws, tokens, tokens))
        for _ in range(self.heads):
            q, k, v = (np.sqrt(self.C[c]) * L @ rng.normal(size=(draws, tokens, d)) for c in "QKV")
            A = attended(q @ k.swapaxes(1, 2) / d**self.power, self.bias, self.function)
            if fixed == "scores":
                A = np.broadcast_to(A.mean(axis=0), A.shape)
            V = v @ v.swapaxes(1, 2) / d if fixed != "values" else self.C["V"] * S
            R += self.C["O"] / self.heads * A @ V @ A.swapaxes(1, 2)
        return R


def causal(tokens: int) -> Array:
    """The bias of a causal mask."""
    return np.where(np.tri(tokens, dtype=bool), 0.0, -np.inf)


def covariance(R: Array) -> Array:
    """Cov(R_tu, R_vw), (tokens, tokens, tokens, tokens), of R (draws, tokens, tokens)."""
    flat = R.reshape(len(R), -1)
    return np.asarray(np.cov(flat.T).reshape(R.shape[1:] * 2))
