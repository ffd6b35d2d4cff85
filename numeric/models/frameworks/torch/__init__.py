"""Models of torch, by the graphs that torch.fx traces."""

from .reading import TorchReading

__all__ = ["TorchReading"]
