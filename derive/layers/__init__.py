"""Layers: dense ones, dropout, norms, residual blocks, gates, convolutions, equations of one's own.

>>> from derive import layers, recursion
>>> print(recursion("K", layer=layers.residual(norm="rms")).single_input())
K(ℓ+1) = C_W*⟨σ²⟩_h + C_b + K, with ⟨…⟩_h at K_h = C_W
"""

from ..work.faces import public
from .attention import attention
from .by_depth import as_period, by_depth
from .convolutions import convolution, flattening, mix, pooling
from .layer import Layer
from .shipped import (
    around,
    as_layer,
    batchnorm,
    dense,
    dropout,
    gated,
    normalized,
    read,
    residual,
    sequence,
    skip,
    transformer,
)

__all__ = [
    "Layer",
    "around",
    "as_layer",
    "as_period",
    "attention",
    "batchnorm",
    "by_depth",
    "convolution",
    "dense",
    "dropout",
    "flattening",
    "gated",
    "mix",
    "normalized",
    "pooling",
    "read",
    "residual",
    "sequence",
    "skip",
    "transformer",
]

public(__name__)
