"""Models of flax and equinox, by their jaxpr."""

from .reading import keyed, read

__all__ = ["keyed", "read"]
