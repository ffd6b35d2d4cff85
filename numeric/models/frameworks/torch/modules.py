"""Modules of torch with attention, written in operations that the reader knows.

Torch computes them by other functions in evaluation mode, which torch.fx does not enter. These have
the same parameters, by the same paths.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from ...tracing import UnreadableError


def spelled_out(model: nn.Module) -> nn.Module:
    """The model with modules of this page in place of those of torch."""
    for module in [*model.modules()]:
        if type(module) in _SPELLED:
            module.__class__ = _SPELLED[type(module)]
            if isinstance(module, SelfAttention):
                module.out_proj.__class__ = _Output
    return model


class _Output(nn.Linear):
    """The last matrix of `SelfAttention`, which initializes it."""

    def reset_parameters(self) -> None:
        """Nothing."""


class SelfAttention(nn.MultiheadAttention):
    """softmax(q kᵀ/√d) v in each head, and a matrix."""

    def reset_parameters(self) -> None:
        """As torch initializes it when it is made."""
        nn.Linear.reset_parameters(self.out_proj)
        self._reset_parameters()

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, None]:
        """Of tokens (m, T, n)."""
        del need_weights, average_attn_weights, is_causal
        if query is not key or key is not value or not self._qkv_same_embed_dim:
            raise UnreadableError("attention between two values: self attention is read")
        if not self.batch_first:
            raise UnreadableError("MultiheadAttention of tokens first: give it batch_first=True")
        if key_padding_mask is not None or self.bias_k is not None or self.add_zero_attn:
            raise UnreadableError("MultiheadAttention with a padding mask or added keys")
        packed = functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        sizes = self.num_heads, self.head_dim
        q, k, v = (packed[at].unflatten(-1, sizes).transpose(1, 2) for at in range(3))
        mask = None if attn_mask is None else _added(attn_mask)
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(found.transpose(1, 2).flatten(2)), None


def _added(mask: torch.Tensor) -> torch.Tensor:
    """A mask of MultiheadAttention, which is true where nothing is read, as what scores add."""
    if mask.dtype is not torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=torch.double).masked_fill(mask, float("-inf"))


fx.wrap("_added")


class EncoderLayer(nn.TransformerEncoderLayer):
    """Attention and then an MLP, each behind a norm or before one."""

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """Of tokens (m, T, n)."""
        given = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            inner = src + self._sa_block(self.norm1(src), *given)
            return inner + self._ff_block(self.norm2(inner))
        inner = self.norm1(src + self._sa_block(src, *given))
        return self.norm2(inner + self._ff_block(inner))


class Encoder(nn.TransformerEncoder):
    """Layers, one after another."""

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        """Of tokens (m, T, n)."""
        del is_causal
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


_SPELLED: dict[type[nn.Module], type[nn.Module]] = {
    nn.MultiheadAttention: SelfAttention,
    nn.TransformerEncoderLayer: EncoderLayer,
    nn.TransformerEncoder: Encoder,
}
