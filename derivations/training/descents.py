"""The networks of source 000's experiments as the book trains them, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import sympy
import xarray
from matplotlib.axes import Axes
from numpy.typing import NDArray

from derivations.claims import registry
from derivations.claims.registry import Sampling
from derivations.training.curves import curves
from derivations.training.data import Split, source
from derive import Gaussian, Network, Orthogonal, activations
from derive.work.caches import cache
from numeric.arrays import Array

claim = partial(registry.claim, "000", sampled=True, images=True)
"""Of an experiment of source 000."""
STARTS = {"Gaussian": Gaussian, "orthogonal": Orthogonal}
CLASS = 6
"""Whose tangent kernel is measured, as in section 7.3."""
LOOKS = 24
GUESS = 0.09
"""The squared loss of outputs that are the mean of one-hot targets of ten classes."""
LEARNT, HALFWAY = 0.05, 0.07
"""Validation losses by which training speeds are told: a guess has 0.09."""
THRESHOLDS = {"learnt": LEARNT, "halfway": HALFWAY}


@dataclass(frozen=True)
class Size:
    """The size of a run.

    Attributes:
        widths: n; the first is the one of all figures but 7.
        depths: L, the readout counted; the first has L/n ≪ 1 and is not compared as deep.
        images: of training, validation and test.
        epochs: of Figures 4 to 9, and of the others.
        draws: networks of each kind, by depth.
        wide: the same of the second width.
        pair: the shallow and the deep L of Figure 5 and of those of the appendix.
        data: which images, as `derivations.training.data.source` reads them.
    """

    widths: tuple[int, int]
    depths: tuple[int, ...]
    images: tuple[int, int, int]
    epochs: tuple[int, int]
    draws: tuple[int, ...]
    wide: tuple[int, ...]
    pair: tuple[int, int]
    data: str = "digits"

    def networks(self, depth: int, width: int | None = None) -> int:
        """Of each kind, of the first width by default."""
        draws = self.wide if width == self.widths[1] else self.draws
        return draws[self.depths.index(depth)]

    def drawn(self, *depths: int) -> str:
        """Depths and networks of the first width, in words."""
        counts = [self.networks(depth) for depth in depths]
        numbers = [str(counts[0])] if len(set(counts)) == 1 else list(map(str, counts))
        return f"L = {', '.join(map(str, depths))}, {', '.join(numbers)} networks each"

    def __str__(self) -> str:
        train, validation, test = self.images
        return (
            f"{train} {source(self.data).words} for 5·10⁴ images, {validation} and {test} to stop "
            f"and to test, "
            f"n = {self.widths[0]} for 30"
        )


BOOK = Size((16, 8), (4, 20, 32), (100, 300, 300), (500, 200), (20, 12, 6), (20, 12, 6), (4, 20))
LARGER = Size(
    (30, 100), (4, 11, 21, 31), (1200, 300, 297), (2000, 1000), (8,) * 4, (8, 4, 4, 3), (4, 31)
)
"""The runs of --full; of other images than digits so many:"""
LARGER_IMAGES = (1200, 500, 500)


def size(sampling: Sampling) -> Size:
    """The book's, or that of --full, with the images that are given."""
    if sampling.full is None:
        return replace(BOOK, data=sampling.data)
    images = LARGER.images if sampling.data == LARGER.data else LARGER_IMAGES
    draws, wide = (tuple(map(sampling.networks, each)) for each in (LARGER.draws, LARGER.wide))
    return replace(LARGER, images=images, draws=draws, wide=wide, data=sampling.data)


@cache
def split(data: str, sizes: tuple[int, int, int], seed: int) -> Split:
    """The parts of a source's images."""
    return source(data, "--data").split(*sizes, seed=seed)


@dataclass(frozen=True)
class Descent:
    """How networks are trained; the rates are λ of (6.3) by layer and depth."""

    activation: str = "tanh"
    C_W: float | str = 1
    eta: float = 10.0
    optimizer: str = "tensorial"
    loss: str = "squared"
    rates: str = "tanh"

    def network(self, start: str, depth: int) -> Network:
        """With (6.17) for tanh; for ReLU λ_b and λ_W are over L and of every layer alike."""
        weights = STARTS[start](self.C_W)
        if self.rates == "tanh":
            bias: Callable[[int], sympy.Rational] = _over_layer
            return Network(activations.by_name(self.activation), weights, lambda_b=bias, lambda_W=1)
        rate = sympy.Rational(1, depth)
        return Network(activations.by_name(self.activation), weights, lambda_b=rate, lambda_W=rate)


PLAIN = Descent()
"""As in Figure 4."""


def _over_layer(layer: int) -> sympy.Rational:
    return sympy.Rational(1, layer)


def looked_at(last: int, also: int = 0) -> list[int]:
    """Epochs at which networks are looked at: 0, some that grow by a fifth or more, and `also`."""
    grown = {round(each) for each in np.geomspace(2, last, LOOKS)} if last else set()
    return sorted({0, *grown, *({also} if 0 < also < last else ())})


@cache
def trained(
    how: Descent,
    start: str,
    width: int,
    depth: int,
    sampling: Sampling,
    epochs: int,
    part: int = 0,
    draws: int | None = None,
) -> xarray.Dataset:
    """Learning curves of the networks of this kind; plain ones with the kernels of the class.

    Arguments:
        part: which of several ways to split the images.
        draws: networks; those of the size by default.
    """
    of = size(sampling)
    return curves(
        how.network(start, depth), split(of.data, of.images, part), width, depth, how.eta,
        looked_at(epochs, of.epochs[1]), draws or of.networks(depth, width), sampling.seed,
        optimizer=how.optimizer, loss=how.loss,
        probe=CLASS if how == PLAIN and epochs and not part else None,
    )  # fmt: skip


Runs = Mapping[str, Mapping[int, xarray.Dataset]]
"""Learning curves by weights and depth."""


def runs(
    sampling: Sampling,
    depths: Sequence[int],
    how: Descent = PLAIN,
    width: int | None = None,
    epochs: int | None = None,
    part: int = 0,
) -> Runs:
    """The networks of these depths; of the first width and as long as those of Figure 4 by
    default."""
    of = size(sampling)
    given = width or of.widths[0], epochs or of.epochs[0]
    return {
        start: {
            depth: trained(how, start, given[0], depth, sampling, given[1], part)
            for depth in depths
        }
        for start in STARTS
    }


def pairs(found: Runs, depths: Sequence[int], kind: str = "best") -> list[tuple[Array, Array]]:
    """(orthogonal, Gaussian) best test losses of each depth, or epochs until `HALFWAY` or
    `LEARNT`."""

    def told(table: xarray.Dataset) -> Array:
        return best(table) if kind == "best" else until(table, THRESHOLDS[kind])

    return [(told(found["orthogonal"][L]), told(found["Gaussian"][L])) for L in depths]


def best(table: xarray.Dataset) -> Array:
    """Each network's test loss at the epoch of its best validation loss: early stopping."""
    at = table["validation"].argmin("epoch")
    return np.asarray(table["test"].isel(epoch=at).to_numpy())


def until(table: xarray.Dataset, threshold: float) -> Array:
    """The first epoch at which each network's validation loss is below; infinite if none is.

    Between two epochs that were looked at it is interpolated, in logarithms.
    """
    found = np.full(table.sizes["network"], np.inf)
    epochs = table["epoch"].to_numpy().astype(float)
    for network, losses in enumerate(table["validation"].to_numpy()):
        below = np.flatnonzero(losses <= threshold)
        if not len(below):
            continue
        at = below[0]
        if at == 0:
            found[network] = 0.0
            continue
        share = np.log(losses[at - 1] / threshold) / np.log(losses[at - 1] / losses[at])
        found[network] = epochs[at - 1] + share * (epochs[at] - epochs[at - 1])
    return found


def diverged(table: xarray.Dataset) -> NDArray[np.bool_]:
    """Which networks lose more at the end than at the beginning."""
    losses = table["training"].to_numpy()
    return np.asarray(losses[:, -1] > losses[:, 0])


def draw(
    panel: Axes, tables: Sequence[tuple[str, xarray.Dataset]], name: str, log: bool = True
) -> None:
    """A variable by epoch: means of the networks and their standard errors."""
    for number, (label, table) in enumerate(tables):
        values = table[name].to_numpy()
        shown = np.isfinite(values).all(axis=0) & (abs(values) < 1e6).all(axis=0)
        epochs = table["epoch"].to_numpy()[shown] + 1
        middle = values[:, shown].mean(axis=0)
        error = values[:, shown].std(axis=0, ddof=1) / np.sqrt(len(values))
        panel.plot(epochs, middle, color=f"C{number}", label=label, linewidth=1)
        panel.fill_between(epochs, middle - error, middle + error, color=f"C{number}", alpha=0.2)
    panel.set(xscale="log", xlabel="epoch + 1")
    if log:
        panel.set_yscale("log")
    panel.legend(fontsize="x-small")
