"""What a sampler needs to know of an ensemble of networks, all of it checked.

The activation is compiled here, once for each: the one kernel that differs between ensembles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from derive import activations
from derive.errors import InputError
from derive.network import Network
from derive.weights import Gaussian, Orthogonal, WeightEnsemble

from . import fastmath, jit, modules, printer, random, weights
from .weights import Array

_KINDS: dict[type[WeightEnsemble], int] = {Gaussian: weights.GAUSSIAN, Orthogonal: weights.HAAR}
_ACTIVATION = '''\
"""The activation {sigma}, applied to all neurons of an ensemble.

{fingerprint}
"""

{prelude}
from numeric import fastmath

{entry}

@scalar
def sigma(z):
    """The activation."""
    return {sigma}


@entry
def activate(Z):
    """Z ← σ(Z), in place, for Z (draws, m, n)."""
    for s in range(Z.shape[0]):
        flat = Z[s].reshape(-1)
        for i in range(flat.size):
            flat[i] = sigma(flat[i])
'''


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Networks of given widths on given inputs: what a sampler needs, all of it checked.

    Arguments:
        net: the network.
        inputs: (m, n_0).
        width: n, the reference width.
        widths: n_0, n_1, …, n_depth.
        seed: the seed of all streams.
    """

    net: Network
    inputs: Array
    width: int
    widths: tuple[int, ...]
    seed: int

    @property
    def depth(self) -> int:
        """The number of layers of preactivations."""
        return len(self.widths) - 1

    @cached_property
    def key(self) -> NDArray[np.uint64]:
        """The key of the random numbers: ensembles of different width are independent."""
        return random.stream_key(self.seed, self.width)

    @cached_property
    def C_W(self) -> Array:
        """The weight variance of layers 1 … depth."""
        return self._numbers("C_W", lambda layer: self.net.weights_at(layer).C_W)

    @cached_property
    def C_b(self) -> Array:
        """The bias variance of layers 1 … depth."""
        return self._numbers("C_b", self.net.C_b_at)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """How the kernels are told the weight ensembles of layers 1 … depth."""
        ensembles = [self.net.weights_at(layer) for layer in range(1, self.depth + 1)]
        for ensemble in ensembles:
            if type(ensemble) not in _KINDS:
                wanted = " or ".join(kind.__name__ for kind in _KINDS)
                raise InputError("weights", str(ensemble), f"{wanted}, which can be sampled")
        return np.array([_KINDS[type(ensemble)] for ensemble in ensembles])

    @cached_property
    def activate(self) -> Callable[[Array], None]:
        """Z ← σ(Z) in place, compiled for this activation."""
        printed = printer.expression(self.net.activation.expr, {activations.z: "z"})
        sigma = fastmath.vectorised(printed)
        module = load_template(_ACTIVATION, "activation", (fastmath,), sigma=sigma)
        compiled: Callable[[Array], None] = module.activate
        return compiled

    def _numbers(self, name: str, value: Callable[[int], sympy.Expr]) -> Array:
        try:
            return np.array([float(value(layer)) for layer in range(1, self.depth + 1)])
        except TypeError:
            raise InputError(name, str(value(1)), "a number at every layer, not a symbol") from None


def checked_ensemble(
    net: Network, inputs: ArrayLike, width: int, depth: int, seed: int
) -> Ensemble:
    """What `simulate` samples, or an InputError."""
    if not isinstance(net, Network):
        raise InputError("net", net, "a derive.Network")
    checked_count("width", width, 1)
    checked_count("depth", depth, 1)
    random.stream_key(seed)
    X = checked_inputs(inputs)
    widths = [X.shape[1]]
    for layer in range(1, depth + 1):
        n = net.width_ratio_at(layer) * width
        if not n.is_number or not math.isclose(float(n), round(float(n)), rel_tol=1e-12):
            raise InputError("width", width, f"whole n_ℓ = r_ℓ n; at layer {layer} it is {n}")
        widths.append(round(float(n)))
    return Ensemble(net, X, int(width), tuple(widths), int(seed))


def checked_inputs(inputs: ArrayLike) -> Array:
    """The inputs as (m, n_0), finite and real, or an InputError."""
    wanted = "real numbers of shape (n_0,) or (m, n_0)"
    try:
        X = np.asarray(inputs)
    except ValueError:
        raise InputError("inputs", inputs, wanted) from None
    if X.dtype.kind not in "biuf":
        raise InputError("inputs", f"{X.dtype} values", wanted)
    if X.ndim not in (1, 2) or X.size == 0:
        raise InputError("inputs", f"shape {X.shape}", f"{wanted}, not empty")
    if not np.isfinite(X).all():
        raise InputError("inputs", "NaN or infinity", "finite numbers")
    return np.ascontiguousarray(np.atleast_2d(X), dtype=float)


def checked_count(name: str, value: int, least: int) -> int:
    """The value, or an InputError unless it is an integer, `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(name, value, f"an integer, {least} or more")
    return int(value)


@cache
def load_template(
    template: str, stem: str, kernels: tuple[ModuleType, ...], **fields: str
) -> ModuleType:
    """The module of a template, with the hash of the kernels that it calls."""
    fingerprint = jit.fingerprint(jit, *kernels)
    prelude, entry = modules.PRELUDE, jit.ENTRY
    source = template.format(fingerprint=fingerprint, prelude=prelude, entry=entry, **fields)
    return modules.load(source, stem)
