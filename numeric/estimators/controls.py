"""Control variates: numbers of mean zero take out of an average what they explain of it.

    ȳ = (1/N) Σ_i (y_i − β_{−i}·c_i) ,    E[c_i] = 0 ,

β_{−i} being the least-squares slopes of the other draws, so that c_i is independent of them and the
mean is unbiased at every N, whatever the slopes are. Both are had from one fit, by the residuals
r_i and leverages h_i: β_{−i} = β − (XᵀX)⁻¹ x_i r_i/(1 − h_i). Derived here; leaving out one draw is
Avramidis and Wilson's splitting (*Oper. Res.* 41, 1993) carried to its end.
"""

from __future__ import annotations

import numpy as np

from derive.errors import InputError

from ..arrays import Array

_VANISHES = 1e-9
_SQUARED = 1e-8
"""Of a column's square: what the Gram matrix, of squares, tells to half the digits or more."""
_REPEATS = 1e-10
"""Of a column's length: what is left of it beside those that it is a sum of."""
_DECIDES = 1 - 1e-9
"""The leverage of a draw without which the slopes cannot be had."""


def controlled(values: Array, controls: Array) -> tuple[Array, Array]:
    """The mean over independent draws and its standard error, with what controls explain taken out.

    Arguments, errors: as of `adjusted`.

    Returns arrays of the shape of one draw.

    >>> c = np.arange(5.0)[:, None] - 2
    >>> mean, error = controlled(3 + 2 * c[:, 0], c)
    >>> round(float(mean), 12), round(float(error), 12)
    (3.0, 0.0)
    """
    each = adjusted(values, controls)
    return each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(len(each))


def adjusted(values: Array, controls: Array) -> Array:
    """y_i − β_{−i}·c_i of each draw: of the mean's expectation, and nearly uncorrelated.

    Arguments:
        values: (draws, …), one draw beside the other.
        controls: (draws, k), each of mean zero, in units of 1; columns that vanish are left out,
            and those that are linear in the others.

    Returns an array of the values' shape. Derived here.

    Raises:
        InputError: for controls of another number of draws, or too many of them: the fit needs
            k + 3 draws, and without any one of them a slope for each control: none may differ from
            a constant in one draw alone.
    """
    draws = len(values)
    c = controls[:, controls.std(axis=0) > _VANISHES]
    Q, first = _basis(c)
    if len(c) != draws or Q.shape[1] + 2 > draws:
        wanted = f"({draws}, {draws - 3} or fewer) numbers"
        raise InputError("controls", f"shape {controls.shape}", wanted)
    y = values.reshape(draws, -1)
    leverage = np.einsum("ij,ij->i", Q, Q)
    if leverage.max() > _DECIDES:
        got = f"controls that draw {leverage.argmax()} alone tells a slope of"
        raise InputError("controls", got, "slopes from every draws − 1 of the draws")
    parts = Q.T @ y
    left_out = (y - Q @ parts) / (1 - leverage)[:, None]
    # x_i·β − x_i·(0, β) is the intercept: both are taken without draw i
    intercept = first @ parts - (Q @ first)[:, None] * left_out
    each: Array = left_out + intercept
    return each.reshape(values.shape)


def _basis(controls: Array) -> tuple[Array, Array]:
    """An orthonormal basis Q of what constants and controls span, (draws, k), and the row that
    controls of 0 would have in it.

    By the controls' Gram matrix, most of them being orthogonal; where its eigenvalues have lost
    their digits, by what is left of the controls there, and pivoted QR.
    """
    draws, mean = len(controls), controls.mean(axis=0)
    scale = controls.std(axis=0)
    scaled = (controls - mean) / scale
    sizes, turns = np.linalg.eigh(scaled.T @ scaled)
    sure = sizes > _SQUARED * draws
    turns, rest = turns[:, sure] / np.sqrt(sizes[sure]), turns[:, ~sure]
    Q = scaled @ turns
    if rest.size:
        from scipy import linalg  # noqa: PLC0415  (a fifth of a second to import)

        rest = rest - turns @ (Q.T @ (scaled @ rest))
        left, R, order = linalg.qr(scaled @ rest, mode="economic", pivoting=True)
        kept = np.count_nonzero(abs(np.diag(R)) > _REPEATS * np.sqrt(draws))
        own = linalg.solve_triangular(R[:kept, :kept], rest[:, order[:kept]].T, trans="T").T
        turns, Q = np.column_stack([turns, own]), np.column_stack([Q, left[:, :kept]])
    one = 1 / np.sqrt(draws)
    first = np.concatenate([[one], -(mean / scale) @ turns])
    return np.column_stack([np.full(draws, one), Q]), first
