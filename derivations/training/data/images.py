"""Images with their labels, normalised as the sources do, and split for training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from derive.errors import InputError, as_integer
from numeric.arrays import Array
from numeric.runs.directory import digest

CLASSES = 10


@dataclass(frozen=True, eq=False)
class Images:
    """Images as rows of pixels, and what each shows.

    Attributes:
        pixels: (images, n_0), channel by channel, each row by row.
        labels: (images,), 0 … 9.
        shape: of an image, (side, side) or (channels, side, side).
        name: of the data set.
    """

    pixels: Array
    labels: NDArray[np.int64]
    shape: tuple[int, ...]
    name: str

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def targets(self) -> Array:
        """One-hot rows, (images, 10)."""
        return np.asarray(np.eye(CLASSES)[self.labels])

    @property
    def digest(self) -> str:
        """A hash of pixels and labels."""
        return f"{digest(self.pixels)} {digest(self.labels)}"

    def taken(self, chosen: NDArray[np.int64] | slice) -> Self:
        """These images of them."""
        return replace(self, pixels=self.pixels[chosen], labels=self.labels[chosen])

    def of_class(self, label: int) -> Self:
        """Those with this label."""
        return self.taken(np.flatnonzero(self.labels == label))

    @cached_property
    def scale(self) -> tuple[float, float]:
        """The mean and the standard deviation of all pixels."""
        return float(self.pixels.mean()), float(self.pixels.std())

    def standardised(self, whole: Self | None = None) -> Self:
        """Pixels less their mean over the whole set, over their standard deviation, as source 000,
        section 7.1, has MNIST: one mean and one deviation, not one a pixel.

        Arguments:
            whole: the set; these images by default.

        Raises:
            InputError: for images that are all of one colour.
        """
        mean, spread = (self if whole is None else whole).scale
        if not spread:
            raise InputError("images", self.name, "pixels that are not all the same")
        return replace(self, pixels=(self.pixels - mean) / spread)

    def coarser(self, block: int) -> Self:
        """Means of block × block pixels.

        Raises:
            InputError: for a block that does not divide the sides.
        """
        block = as_integer("block", block, 1)
        side = self.shape[-1]
        if side % block:
            raise InputError("block", block, f"a divisor of {side}")
        small = side // block
        cut = self.pixels.reshape(len(self), -1, small, block, small, block)
        shape = (*self.shape[:-2], small, small)
        return replace(self, pixels=cut.mean(axis=(3, 5)).reshape(len(self), -1), shape=shape)

    def split(self, training: int, validation: int, test: int, seed: int = 0) -> Split:
        """Disjoint parts of these sizes, drawn at random.

        Raises:
            InputError: for more images than there are.
        """
        sizes = [
            as_integer(name, size, least)
            for name, size, least in (
                ("training", training, 1), ("validation", validation, 1), ("test", test, 0),
            )
        ]  # fmt: skip
        if sum(sizes) > len(self):
            raise InputError("training, validation, test", tuple(sizes), f"{len(self)} in all")
        order = np.random.default_rng(seed).permutation(len(self))
        ends = np.cumsum([0, *sizes])
        parts = [self.taken(order[a:b]) for a, b in pairwise(ends)]
        return Split(*parts)


@dataclass(frozen=True, eq=False)
class Split:
    """The images to train on, those that say when to stop, and those to test on."""

    training: Images
    validation: Images
    test: Images

    @property
    def inputs(self) -> Array:
        """Of all three, in this order."""
        parts = (self.training, self.validation, self.test)
        return np.concatenate([each.pixels for each in parts])

    @property
    def targets(self) -> Array:
        """Of all three."""
        parts = (self.training, self.validation, self.test)
        return np.concatenate([each.targets for each in parts])

    @property
    def ends(self) -> tuple[int, int]:
        """Where training ends in `inputs`, and where validation does."""
        return len(self.training), len(self.training) + len(self.validation)
