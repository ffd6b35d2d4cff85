"""Initializations of networks in other frameworks: the gain, and matrices drawn in place."""

from derive.depth.gains import Gain
from derive.work.faces import public

from .gains import gain
from .initializers import JaxInitializer, jax_initializer
from .modules import torch_
from .settings import Initialized, Setting

__all__ = [
    "Gain",
    "Initialized",
    "JaxInitializer",
    "Setting",
    "gain",
    "jax_initializer",
    "torch_",
]

public(__name__)
