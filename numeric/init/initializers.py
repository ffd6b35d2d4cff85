"""`jax_initializer(σ)`: an initializer with the signature of `jax.nn.initializers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy

from derive.activations.functions import Activation
from derive.citations import rests_on
from derive.depth.gains import Gain
from derive.errors import InputError, as_integer, as_sequence, check_installed
from derive.layers import Layer
from derive.weights import Orthogonal, WeightEnsemble

from .gains import ensemble, gain, shown

if TYPE_CHECKING:
    import jax

FILTERS = ("delta", "all")


@dataclass(frozen=True, repr=False)
class JaxInitializer:
    """(key, shape, dtype) → a kernel, as an initializer of `jax.nn.initializers`.

    Attributes:
        gain: √C_W, C_b and why.
        weights: the law of the matrices, with that C_W.
        filters: "delta" or "all", of kernels with more than two axes.
        in_axis, out_axis: of the kernel.
        batch_axis: axes along which kernels are independent.

    `bias` is the initializer of the biases. Both may be traced: jit and vmap take them.
    """

    gain: Gain
    weights: WeightEnsemble
    filters: str
    in_axis: int = -2
    out_axis: int = -1
    batch_axis: tuple[int, ...] = ()

    def __call__(self, key: Any, shape: Any, dtype: Any = None) -> jax.Array:
        """A kernel of this shape, drawn with JAX's key."""
        from .for_jax import kernel  # noqa: PLC0415  (JAX takes a second to import)

        axes = (self.in_axis, self.out_axis, self.batch_axis)
        return kernel(self.weights, self.filters, axes, key, shape, dtype)

    @property
    def bias(self) -> JaxBias:
        """N(0, C_b): (key, shape, dtype) → biases, zeros where C_b is 0."""
        return JaxBias(self.gain)

    def __str__(self) -> str:
        return f"{shown(self.weights)}, kernels with more axes: {self.filters}\ngain {self.gain}"

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class JaxBias:
    """(key, shape, dtype) → biases N(0, C_b)."""

    gain: Gain

    def __call__(self, key: Any, shape: Any, dtype: Any = None) -> jax.Array:
        """Biases of this shape, drawn with JAX's key."""
        from .for_jax import biases  # noqa: PLC0415  (JAX takes a second to import)

        return biases(self.gain.std_b, key, shape, dtype)

    def __repr__(self) -> str:
        return f"biases of standard deviation {self.gain.std_b:.6g}"


@rests_on("day2025", "xiao2018")
def jax_initializer(
    activation: Activation | str,
    weights: WeightEnsemble | str = "orthogonal",
    *,
    layer: Layer | str | None = None,
    C_W: sympy.Expr | float | None = None,
    K: sympy.Expr | float | None = None,
    filters: str | None = None,
    in_axis: int = -2,
    out_axis: int = -1,
    batch_axis: tuple[int, ...] = (),
) -> JaxInitializer:
    """An initializer for the kernels behind σ: E[W_ij²] = C_W/n_in with the critical C_W.

    Arguments:
        activation: σ, or its name; "linear" for a kernel with no σ before it, as the first has.
        weights: the law, "orthogonal", "gaussian", …, or an ensemble without a C_W.
        layer, C_W, K: those of `gain`.
        filters: of kernels with more axes than two, convolutions: "delta", the middle of the filter
            has a matrix and the rest is 0; "all", every tap has an independent matrix of variance
            C_W/(s n_in), s being their number. By default "delta" for orthogonal weights.
        in_axis, out_axis: of the kernel; those of JAX and Flax by default, (…, in, out). Equinox
            has in_axis=-1, out_axis=-2.
        batch_axis: axes along which kernels are independent.

    Haar matrices are Q of a Gaussian matrix by QR with R's diagonal made positive, drawn in float32
    at least and rounded to the kernel's dtype. A rectangular one is a block of the larger Haar
    matrix: W Wᵀ = C_W 1 where it narrows, WᵀW = C_W (n_out/n_in) 1 where it widens, where
    `jax.nn.initializers.orthogonal` leaves n_out/n_in out. Delta-orthogonal kernels are those of
    Xiao et al., ICML 2018.

    Raises InputError as `gain` does, for an unknown law or `filters`, and without JAX, naming the
    extra; the initializer for a shape without the axes, and for a dtype that is not real.

    >>> import jax
    >>> made = jax_initializer("gelu")
    >>> W = made(jax.random.key(0), (64, 64))
    >>> round(float(W[0] @ W[0]), 4), round(float(made.gain) ** 2, 4)
    (1.9831, 1.9831)
    >>> made.bias
    biases of standard deviation 0.415839
    """
    check_installed("jax_initializer", "jax", "jax")
    found = gain(activation, layer, C_W=C_W, K=K)
    law = ensemble(weights, found.C_W)
    return JaxInitializer(
        found,
        law,
        chosen_filters(filters, law),
        as_integer("in_axis", in_axis),
        as_integer("out_axis", out_axis),
        tuple(
            as_integer("batch_axis", each) for each in as_sequence("batch_axis", batch_axis, "axes")
        ),
    )


def chosen_filters(filters: str | None, weights: WeightEnsemble) -> str:
    """ "delta" or "all"; by default delta-orthogonal for Haar matrices."""
    if filters is None:
        return "delta" if isinstance(weights, Orthogonal) else "all"
    if not isinstance(filters, str) or filters not in FILTERS:
        raise InputError("filters", filters, '"delta", "all" or None')
    return filters
