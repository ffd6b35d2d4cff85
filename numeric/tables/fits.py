"""The numbers of a comparison: tensors with their errors as arrays, and fits in 1/n."""

from __future__ import annotations

import numpy as np
import xarray

from derive.errors import InputError

from ..arrays import Array


def values_of(
    table: xarray.Dataset, name: str, argument: str, like: xarray.Dataset, as_in: str | None = None
) -> Array:
    """The values of a variable, whose axes must be those of `as_in`, or of itself, in `like`.

    Raises InputError, which names the argument, if it is missing, has other axes or is not finite.
    """
    if name not in table:
        raise InputError(argument, sorted(map(str, table.data_vars)), f"a table with {name}")
    array, model = table[name], like[as_in or name]
    if array.dims != model.dims or array.shape != model.shape:
        raise InputError(
            argument, f"{name} {dict(array.sizes)}", f"axes as in the flow, {dict(model.sizes)}"
        )
    values = array.to_numpy().astype(float)
    if not np.isfinite(values).all():
        raise InputError(argument, f"{name} with NaN or infinity", "finite values")
    return values


def twin(
    table: xarray.Dataset,
    name: str,
    ending: str,
    argument: str = "simulated",
    *,
    signed: bool = False,
) -> Array:
    """The variable `name + ending`, such as an error, in the tensor's shape; 0 if missing."""
    tensor, beside = table[name].variable.astype(float), name + ending
    if beside not in table:
        return np.zeros(tensor.shape)
    variable = table[beside].variable if signed else abs(table[beside].variable)
    values = np.asarray((0.0 * tensor + variable).transpose(*tensor.dims))
    if not np.isfinite(values).all():
        raise InputError(argument, f"{beside} with NaN or infinity", "finite values")
    return values


def intercepts(
    inverse: Array, samples: Array, errors: Array, next_term: float, batch: float = 0.0
) -> tuple[Array, Array, Array]:
    """Fit polynomials in 1/n by weighted least squares: c_0, its error, and the next term's part.

    The error is that of the samples. The part is that of the first neglected term, c_{d+1}/n^{d+1}.
    We assume |c_{d+1}| ≤ next_term |c_d|, or of a series in m/n ≤ m^d |c_1|, if that is more. A fit
    of degree 0 has no such estimate.

    Arguments:
        inverse: the powers of 1/n, (widths, degree + 1).
        samples, errors: (widths, …).
        batch: m; 0 for a series in 1/n.
    """
    degree = inverse.shape[1] - 1
    samples, errors = np.moveaxis(samples, 0, -1), np.moveaxis(errors, 0, -1)
    known = errors.all(axis=-1, keepdims=True)
    weights = 1.0 / np.where(known, errors, 1.0)
    fits = np.linalg.pinv(inverse * weights[..., None]) * weights[..., None, :]
    coefficients = (fits @ samples[..., None])[..., 0]
    first = fits[..., 0, :]
    beyond = inverse[:, -1] ** ((degree + 1) / degree) if degree else 0.0 * inverse[:, 0]
    left_out = (first[..., None, :] @ beyond[:, None])[..., 0, 0]
    following = np.maximum(
        next_term * abs(coefficients[..., -1]),
        batch**degree * abs(coefficients[..., min(degree, 1)]),
    )
    neglected = abs(following * left_out)
    parts = first * errors
    spread = np.sqrt((parts[..., None, :] @ parts[..., None])[..., 0, 0])
    return coefficients[..., 0], spread, neglected
