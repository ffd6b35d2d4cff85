"""A whole study in one call: theory with its next order, ensembles, a verdict and a figure.

study(net, inputs, depth=8, widths=(32, 64, 128))
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.arithmetic.parameters import R_BIG, R_IN, Parameter
from derive.citations import rests_on
from derive.engine.orbits import Exchangeable
from derive.engine.scheme import Scheme
from derive.engine.step import closure, through
from derive.engine.tensors import Name
from derive.errors import InputError, as_integer, as_sequence, check_installed, instance
from derive.network import Network
from derive.recursions import Wanted, wanted
from derive.work.defaults import DRAWS

from . import checks
from .arrays import Array
from .checks import checked_inputs, positive
from .emit import outputs
from .flows import batch_of, flow
from .runs.chunks import Running, options
from .simulations import simulate
from .tables.compare import SERIES, Comparison, compare
from .tables.draws import enough
from .tables.layout import orbits_apart, tensors
from .tables.scores import aligned, component_name, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Study:
    """Theory, ensembles of several widths, and how they compare.

    Attributes:
        theory: the table of `flow`, with the next order of each tensor where it is derived.
        samples: the tables of `simulate`, one for each width.
        comparison: of both (`compare`).
    """

    theory: xarray.Dataset
    samples: tuple[xarray.Dataset, ...]
    comparison: Comparison

    @property
    def verdict(self) -> str:
        """One sentence: theory agrees or not, and which error would have been seen."""
        found = self.comparison
        ensembles = f"networks of width {', '.join(map(str, found.widths))}"
        if not found.agrees:
            return (
                f"Theory disagrees with {ensembles}: {found.worst.place} is off by "
                f"{abs(found.worst.z):.1f} standard errors (bound {found.bound:.1f})."
            )
        seen = f"{percent(found.resolution)} of {found.coarsest.place}"
        if found.weak and not math.isfinite(found.resolution):
            place = found.coarsest.place
            return (
                f"Theory agrees with {ensembles}, but nothing tests {place}, which is 0 in theory."
            )
        if found.weak:
            return (
                f"Theory agrees with {ensembles}, but only weakly: an error of theory below {seen} "
                "could have gone unnoticed."
            )
        return f"Theory agrees with {ensembles}: an error of theory above {seen} would have shown."

    def at_width(self, name: str, width: float) -> Array:
        """A tensor at this width, to the last order that was derived.

        >>> from derive import Network
        >>> found = study(Network("relu", C_W=2), [1.0, 0.5], 3, (8, 16), 50, tensors="V")
        >>> found.at_width("V", 8)  # V + V2/8
        array([ 0.       ,  7.8125   , 20.5078125])

        Raises InputError for a tensor that was not derived, and for no positive width.
        """
        positive("width", width)
        if name not in self.theory.data_vars:
            derived = ", ".join(map(str, tensors(self.theory)))
            raise InputError("name", name, f"a tensor of the theory: {derived}")
        terms = (self.theory[term].to_numpy() for term in _series(name) if term in self.theory)
        return np.asarray(sum(term / width**order for order, term in enumerate(terms)), float)

    def figure(self) -> Figure:
        """Draw a panel for each tensor: infinite width in black, each finite width in a colour.

        Lines are theory, those of finite widths to the next order. Points are samples. Of several
        inputs the first component is drawn; `comparison.plot` draws others.
        """
        check_installed("figure", "plot", "matplotlib")
        from .tables.drawing import grid, points  # noqa: PLC0415  (matplotlib takes a second)

        places = {name: self._first(name) for name in tensors(self.samples[0])}
        figure, panels = grid([label for label, _ in places.values()], ["layer"] * len(places))
        figure.suptitle(self.verdict, fontsize="medium", wrap=True)
        for (name, (_, at)), panel in zip(places.items(), panels, strict=True):
            layers = self.theory["layer"].to_numpy()
            leading = self.theory[name].to_numpy()[at]
            panel.plot(layers, leading, "--k", label="n → ∞", zorder=3)
            for number, table in enumerate(self.samples):
                n, color = table.attrs["width"], f"C{number}"
                if self._has_next(name):
                    panel.plot(layers, self.at_width(name, n)[at], color=color)
                sample, error = (table[key].to_numpy()[at] for key in (name, f"{name}_se"))
                points(panel, table["layer"], sample, error, color=color, label=f"n = {n}")
            panel.legend(fontsize="small")
        return figure

    def plot(self, path: str | os.PathLike[str]) -> Path:
        """Write the figure to a file that ends in .svg, .pdf or .png; return its path."""
        outputs.check_figure(path)
        return outputs.write_figure(self.figure(), path)

    def __repr__(self) -> str:
        last = int(self.theory["layer"].to_numpy()[-1])
        head = "tensor", "n", "theory", "to order 1/n", "sample", "±"
        lines = [row for name in tensors(self.samples[0]) for row in self._rows(name)]
        about = f"{self.theory.attrs['network']}, layer {last}:"
        return "\n".join([self.verdict, "", about, *aligned([head, *lines])])

    def _rows(self, name: str) -> list[tuple[str, ...]]:
        label, at = self._first(name)
        found: list[tuple[str, ...]] = []
        for table in self.samples:
            n = table.attrs["width"]
            ahead = f"{self.at_width(name, n)[at][-1]:.5g}" if self._has_next(name) else ""
            sample, error = (table[key].to_numpy()[at][-1] for key in (name, f"{name}_se"))
            leading = f"{self.theory[name].to_numpy()[at][-1]:.5g}"
            found.append((label, str(n), leading, ahead, f"{sample:.5g}", f"{error:.2g}"))
        return found

    def _has_next(self, name: str) -> bool:
        return any(term in self.theory for term in _series(name)[1:])

    def _first(self, name: str) -> tuple[str, tuple[slice | int, ...]]:
        """The first component: its name, and where it is in the table."""
        array = self.theory[name]
        place: tuple[int | str, ...] = (0,) * (array.ndim - 1)
        at: tuple[slice | int, ...] = (slice(None), *(0 for _ in place))
        if f"orbit_{name}" in array.dims:
            place = (str(array[f"orbit_{name}"].to_numpy()[0]),)
        return component_name(name, place), at


@rests_on("day2025")
def study(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    depth: int | None = None,
    widths: Sequence[int] = (32, 64, 128),
    draws: int | None = None,
    *,
    tensors: Wanted | Iterable[Wanted] = ("K", "V"),
    seed: int = 0,
    **running: Unpack[Running],
) -> Study:
    """Derive, sample and compare: theory with its next order beside ensembles of several widths.

    Arguments:
        net, inputs, depth, tensors: as those of `simulate`.
        widths: of the ensembles, which are extrapolated in 1/n.
        draws: networks of each width. By default 1000, or up to 64000 as far as these let the
            comparison see errors of 20 %.
        seed: of the ensembles.
        executor, window, progress: those of `simulate`.
        run: a folder that keeps what is finished, with one inside for each width.

    Returns a `Study`, whose `verdict` is one sentence; `figure()` draws it and `plot(path)` writes
    the figure. The next orders are G1 of K, V2 of V and Theta1 of Theta, in networks that have
    them.

    Layer 1 of some weights depends on n_0/n. Inputs of several widths are then repeated, so that
    n_0/n is the same and the series in 1/n exists.

    Raises InputError as `flow`, `simulate` and `compare` do. The method is this library's own.

    >>> from derive import Network
    >>> print(study(Network("linear"), [1.0, 0.5], 2, (8, 16), tensors="K").verdict)
    Theory agrees with networks of width 8, 16: an error of theory above ... would have shown.
    """
    options(running, ["widths", "draws", "tensors", "seed"])
    wanted_widths = "a sequence of widths, such as (32, 64, 128)"
    sizes = [as_integer("widths", n, 2) for n in as_sequence("widths", widths, wanted_widths)]
    if not sizes:
        raise InputError("widths", widths, wanted_widths)
    instance("net", net, Network, "a derive.Network")
    depth = checks.depth(net, depth)
    names = wanted(tensors, net, depth)
    if not isinstance(inputs, Exchangeable):
        inputs = checked_inputs(inputs, net.layer, depth).given
    given = in_proportion(net, inputs, depth, sizes, names)

    def sampled(count: int) -> list[xarray.Dataset]:
        run = running.get("run")
        own = (running if run is None else running | {"run": f"{run}/width-{n}"} for n in sizes)
        return [
            simulate(net, x, n, depth, count, tensors=names, seed=seed, **each)
            for x, n, each in zip(given, sizes, own, strict=True)
        ]

    if running.get("run") is not None:
        outputs.make_directory(running["run"], "run")
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    theory = _with_next(net, given[largest], depth, names, sizes[largest])
    samples = sampled(DRAWS if draws is None else draws)
    found = compare(theory, samples)
    batch = batch_of(inputs, net, depth) if isinstance(inputs, Exchangeable) else 0
    if draws is None and (count := enough(found, DRAWS, batch or 1)) > DRAWS:
        samples = sampled(count)
        found = compare(theory, samples)
    return Study(orbits_apart(theory), tuple(map(orbits_apart, samples)), found)


def _with_next(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    depth: int,
    names: Sequence[Name],
    width: int,
) -> xarray.Dataset:
    """The theory, with the next orders that are derived for this network."""
    series = (_series(name.label)[1:] for name in names)
    terms = sorted({*chain.from_iterable(series)}.difference(name.label for name in names))
    for count in range(len(terms), 0, -1):  # V2, the last, is the first to be refused
        with suppress(InputError):
            return flow(net, inputs, depth, [*names, *terms[:count]], width=width)
    return flow(net, inputs, depth, names, width=width)


def _series(name: str) -> tuple[str, ...]:
    """A tensor and, where it has a name, that of its coefficient of 1/n."""
    return SERIES.get(name, (name,))[:2]


def in_proportion(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    depth: int,
    widths: Sequence[int],
    tensors: Wanted | Iterable[Wanted],
    argument: str = "widths",
) -> list[ArrayLike | Exchangeable]:
    """The inputs for each width; repeated, where layer 1 depends on n_0/n, so that this is the
    same: x·x'/n_0 and means are, too.

    Arguments:
        argument: the name of the widths in an error.
    """
    least = min(widths)
    if isinstance(inputs, Exchangeable) or not _depends_on_size(
        net, np.shape(inputs)[-1], depth, widths, tensors
    ):
        return [inputs] * len(widths)
    if any(width % least for width in widths):
        several = (
            f"multiples of {least}, as inputs are repeated in proportion, or Gaussian weights in "
            "layer 1: that of these weights depends on the inputs' size over the width"
        )
        raise InputError(argument, widths, several)
    return [np.concatenate([inputs] * (width // least), axis=-1) for width in widths]


def _depends_on_size(
    net: Network,
    n_0: int,
    depth: int,
    widths: Sequence[int],
    tensors: Wanted | Iterable[Wanted],
) -> bool:
    """True if layer 1 depends on n_0/n, so that equal inputs give no series in 1/n."""
    scheme = Scheme(net.weights_at(2, depth=depth), group=net.tabulated(depth).group)
    first = scheme.first(net.weights_at(1, depth=depth))
    found = {
        atom
        for name in closure(wanted(tensors), scheme)
        for atom in through(name, first).atoms(Parameter)
    }
    return len(set(widths)) > 1 and (R_IN in found or (R_BIG in found and min(widths) < n_0))
