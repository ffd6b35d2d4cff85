"""Kernels of weight ensembles by JAX's own keys; JAX is imported here alone."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from derive.errors import InputError, as_integer, as_sequence
from derive.weights import (
    Independent,
    IndependentEntries,
    Rademacher,
    Sparse,
    StudentT,
    TruncatedNormal,
    Uniform,
    WeightEnsemble,
)

from ..random.matrices import product, weight_factors


class OfJax:
    """A source of random arrays by one key, split at each use; in float32 or float64."""

    def __init__(self, key: jax.Array, dtype: Any) -> None:
        self.key, self.dtype = key, dtype

    def _next(self) -> jax.Array:
        self.key, use = jax.random.split(self.key)
        return use

    def normal(self, shape: tuple[int, ...]) -> jax.Array:
        """Independent standard normal numbers."""
        return jax.random.normal(self._next(), shape, self.dtype)

    def frame(self, n: int, columns: int) -> jax.Array:
        """Q of a Gaussian matrix with R's diagonal positive: uniform, as that Q is unique."""
        Q, R = jnp.linalg.qr(self.normal((n, columns)))
        return Q * jnp.where(jnp.diagonal(R) < 0, -1, 1).astype(self.dtype)

    def block(self, n_out: int, n_in: int) -> jax.Array:
        """The upper left of a Haar matrix as large as the larger of the two."""
        return self.frame(n_out, n_in) if n_out >= n_in else self.frame(n_in, n_out).T

    def entries(self, law: IndependentEntries, count: int) -> jax.Array:
        """Independent numbers of this law, of variance 1."""
        key, shape, dtype = self._next(), (count,), self.dtype
        match law:
            case Uniform():
                end = 3.0**0.5
                return jax.random.uniform(key, shape, dtype, -end, end)
            case Rademacher():
                return jax.random.rademacher(key, shape, dtype)
            case StudentT():
                nu = float(law.nu)
                return jax.random.t(key, nu, shape, dtype) * ((nu - 2.0) / nu) ** 0.5
            case TruncatedNormal():
                cut = float(law.cut)
                drawn = jax.random.truncated_normal(key, -cut, cut, shape, dtype)
                return drawn / float(law.scale)
            case Sparse():
                p = float(law.p)
                values = self.normal(shape) if law.of is None else self.entries(law.of, count)
                return jnp.where(jax.random.bernoulli(key, p, shape), values * p**-0.5, 0)
            case Independent(distribution=IndependentEntries() as given):
                return self.entries(given, count)
        raise InputError("weights", str(law), "an ensemble that JAX can draw")


def kernel(
    weights: WeightEnsemble,
    filters: str,
    axes: tuple[int, int, tuple[int, ...]],
    key: jax.Array,
    shape: Any,
    dtype: Any,
) -> jax.Array:
    """A kernel with its matrices along `axes`: in, out, and batches; what is left is the filter."""
    sizes = tuple(
        as_integer("shape", each, 1) for each in as_sequence("shape", shape, "a kernel's shape")
    )
    into, out, *batch = (_axis(each, len(sizes)) for each in (*axes[:2], *axes[2]))
    if len({into, out, *batch}) < 2 + len(batch):
        raise InputError("in_axis, out_axis, batch_axis", axes, "different axes")
    rest = [each for each in range(len(sizes)) if each not in (into, out, *batch)]
    taps = tuple(sizes[each] for each in rest)
    kind = _kind(dtype)
    work = kind if kind == jnp.float64 else jnp.dtype(jnp.float32)
    n_out, n_in = sizes[out], sizes[into]
    drawn_at_each_tap = filters == "all"

    def matrix(use: jax.Array) -> jax.Array:
        with jax.default_matmul_precision("highest"):
            return product(weight_factors(weights, (n_out, n_in), OfJax(use, work)))

    def filled(use: jax.Array) -> jax.Array:
        if drawn_at_each_tap:
            count = prod(taps)
            each = jax.vmap(matrix)(jax.random.split(use, count)) * count**-0.5
            return each.reshape((*taps, n_out, n_in))
        middle = tuple((size - 1) // 2 for size in taps)
        return jnp.zeros((*taps, n_out, n_in), work).at[middle].set(matrix(use))

    if batch:
        stacked = tuple(sizes[each] for each in batch)
        uses = jax.random.split(key, prod(stacked))
        whole_kernel = jax.vmap(filled)(uses).reshape((*stacked, *taps, n_out, n_in))
    else:
        whole_kernel = filled(key)
    ordered = jnp.moveaxis(whole_kernel, range(len(sizes)), (*batch, *rest, out, into))
    return ordered.astype(kind)


def biases(std: float, key: jax.Array, shape: Any, dtype: Any) -> jax.Array:
    """N(0, std²), zeros where that is 0."""
    sizes = tuple(as_integer("shape", each, 0) for each in as_sequence("shape", shape, "a shape"))
    kind = _kind(dtype)
    if not std:
        return jnp.zeros(sizes, kind)
    work = kind if kind == jnp.float64 else jnp.float32
    return (std * jax.random.normal(key, sizes, work)).astype(kind)


def _axis(axis: int, count: int) -> int:
    if not -count <= axis < count:
        raise InputError("shape", f"{count} axes", f"a kernel's, with an axis {axis}")
    return axis % count


def _kind(dtype: Any) -> Any:
    kind = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    if not jnp.issubdtype(kind, jnp.floating):
        raise InputError("dtype", dtype, "a real one, such as float32 or bfloat16")
    return jnp.dtype(kind)
