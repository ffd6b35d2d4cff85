"""Trained networks: their predictions by theory, to order 1/n."""

from .flows import flow

__all__ = ["flow"]


def __dir__() -> list[str]:
    return sorted(__all__)
