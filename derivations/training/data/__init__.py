"""Labelled images to train on: bundled with a package, from original files, or fetched."""

from .bundled import digits, mnist5k, openml
from .images import Images, Split
from .originals import cifar10, mnist
from .sources import Source, source

__all__ = ["Images", "Source", "Split", "cifar10", "digits", "mnist", "mnist5k", "openml", "source"]


def __dir__() -> list[str]:
    return sorted(__all__)
