"""Models of torch, by the graphs that torch.fx traces."""

from .reading import read

__all__ = ["read"]
