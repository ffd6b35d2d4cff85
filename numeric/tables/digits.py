"""Tables with more digits than a float: `flow(…, precision=30)`, whose numbers are `Decimal`s.

A file has no type for them: `as_text` brings them to decimal texts, which netCDF and zarr keep, and
`from_text` back. Arithmetic on them rounds to the digits of decimal's context, 28 unless it is told
otherwise (`decimal.localcontext`).

    as_text(table).to_netcdf("V.nc");  from_text(xarray.open_dataset("V.nc"))
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import xarray

from derive.errors import InputError

PRECISION = "precision"
"""The attribute of a table that says how many digits its numbers have."""


def as_text(table: xarray.Dataset) -> xarray.Dataset:
    """The table with every `Decimal` as its text, to save it.

    Arguments:
        table: from `flow` with a precision; any other comes back as it is.

    Texts are what `str` says of a `Decimal`, all of its digits. Raises InputError for what is no
    table.

    >>> from derive import Network
    >>> from numeric import flow
    >>> table = flow(Network("relu"), [1.0], depth=2, tensors="K", precision=20)
    >>> as_text(table)["K"].to_numpy()
    array(['1.0000000000000000000', '0.50000000000000000000'], dtype='<U22')
    """
    return _each(table, Decimal, str)


def from_text(table: xarray.Dataset) -> xarray.Dataset:
    """The table that `as_text` made a text of, its numbers `Decimal`s again.

    Arguments:
        table: as it was opened; one without the attribute `precision` comes back as it is.

    Raises InputError for what is no table, and for a variable of texts that are no numbers. The
    inverse of `as_text`, by definition.

    >>> from derive import Network
    >>> from numeric import flow
    >>> table = flow(Network("relu"), [1.0], depth=2, tensors="K", precision=20)
    >>> from_text(as_text(table)).identical(table)
    True
    """
    return _each(table, str, Decimal)


def _each(table: xarray.Dataset, kind: type, convert: Callable[[Any], object]) -> xarray.Dataset:
    """The variables whose entries are all of this kind, converted."""
    if not isinstance(table, xarray.Dataset):
        raise InputError("table", type(table).__name__, "a table from flow")
    if PRECISION not in table.attrs:
        return table
    found = {}
    for name, array in table.data_vars.items():
        values = array.to_numpy()
        if values.dtype.kind in "OUT" and all(isinstance(each, kind) for each in values.flat):
            try:
                entries = [convert(str(each) if kind is str else each) for each in values.flat]
            except InvalidOperation:
                raise InputError("table", f"{name} with texts", "texts of numbers") from None
            made: Any = np.array(entries, dtype=object if convert is Decimal else str)
            found[name] = array.copy(data=made.reshape(values.shape))
    return table.assign(found)


def arithmetic(table: xarray.Dataset) -> AbstractContextManager[object]:
    """A context in which nothing of the table's digits is lost."""
    return localcontext(prec=int(table.attrs.get(PRECISION, 28)) + 10)
