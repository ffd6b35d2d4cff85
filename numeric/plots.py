"""`plot(table)`: what `flow` and `simulate` return, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import xarray

from derive.errors import check_installed

from .table import tensors as tensors_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot(table: xarray.Dataset, tensors: str | Sequence[str] | None = None) -> Figure:
    """Draw a table by layer, a panel for each tensor.

    Arguments:
        table: from `flow`, `simulate`, `normalise` or `batchnorm.simulate`.
        tensors: which, all by default.

    Lines for what was computed, points with error bars for what was sampled, that is, has a
    `<name>_se` beside it. Components that are equal at every layer share a line, and at most six
    are drawn. Also `table.wickgarten.plot()`.

    The numbers are the table's, coefficients as in source 000, eqs. (3.7) and (3.8).

    Returns a matplotlib `Figure`, which a notebook shows and `.savefig("V.svg")` writes. Raises
    InputError for what is no such table, and for a name that is not in it.

    >>> from derive import Network, activations
    >>> from numeric import flow
    >>> figure = plot(flow(Network(activations.tanh), [1.0, 0.5], depth=3, tensors="K"))
    >>> [axes.get_title() for axes in figure.axes]
    ['K']
    """
    check_installed("plot", "plot", "matplotlib")
    from .figure import of_table  # noqa: PLC0415  (matplotlib takes a second to import)

    return of_table(table, tensors)


@xarray.register_dataset_accessor("wickgarten")  # type: ignore[no-untyped-call]
class Accessor:
    """`table.wickgarten`: what this library does with a table."""

    def __init__(self, table: xarray.Dataset) -> None:
        self._table = table

    @property
    def tensors(self) -> list[str]:
        """The names of the tensors: of the variables without their twins `_se` and `_floor`."""
        return tensors_of(self._table)

    def plot(self, tensors: str | Sequence[str] | None = None) -> Figure:
        """See `numeric.plot`."""
        return plot(self._table, tensors)

    def normalise(self) -> xarray.Dataset:
        """See `numeric.normalise`."""
        from .normalise import normalise  # noqa: PLC0415

        return normalise(self._table)
