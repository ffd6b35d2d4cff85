"""Models of flax and equinox, by their jaxpr."""

from .reading import JaxReading, keyed, read

__all__ = ["JaxReading", "keyed", "read"]
