"""Learning rates of an ensemble: where descent is stable, and where it is fastest, to order 1/n.

learning_rate(net, inputs, depth=10)["stable1"]
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
import xarray
from numpy.typing import ArrayLike

from derive.citations import rests_on
from derive.engine.orbits import Exchangeable
from derive.engine.tensors import named
from derive.errors import InputError, Words
from derive.network import Network
from derive.training.averages import fluctuations

from ..arrays import Array
from ..flows import flow as tensors_of
from ..tables import layout
from .arguments import checked_network, inputs_of, skips
from .averages import SINGULAR
from .layout import tensors_at
from .rounding import with_errors

_SIMPLE = 1e-9
"""The least distance of an eigenvalue from the others, relative to the largest."""


@rests_on("day2025")
def learning_rate(
    net: Network,
    inputs: ArrayLike | Exchangeable,
    depth: int | None = None,
    *,
    width: int | None = None,
    seconds: int = 20,
) -> xarray.Dataset:
    """The largest stable and the fastest η of full-batch descent at initialization, by depth.

    In one network descent on ½ Σ (z − y)² starts as z − y → (1 − ηH)(z − y), H its tangent kernel
    on the training set: it is stable where η < 2/λ_max, and contracts fastest in its slowest
    direction where η = 2/(λ_max + λ_min). Over initializations H = Θ + Θ1/n + δ, and n⟨δδ⟩ is made
    of A and B, so that by perturbation theory the eigenvalues have

        n (E λ_a − Θ_a) → Θ1_aa + Σ_{b≠a} n⟨δ_ab²⟩/(Θ_a − Θ_b),    n Cov[λ_a, λ_b] → n⟨δ_aa δ_bb⟩,

    and functions of them follow. Where Θ is singular on the training set, of inputs that are alike
    or collinear, no η contracts what has the eigenvalue 0 (below 10⁻¹⁰ of the largest): λ_min is
    then the least that is not 0. The levels repel: δ raises the largest and lowers the least. Of
    one output; derived here.

    Arguments:
        net: the network; λ_b and λ_W are its learning rates (source 000, eq. 6.3).
        inputs: (N, n_0), the training set, or (n_0,) for one; of a network of convolutions as those
            of `numeric.flow`.
        depth: layers of preactivations, counted from 1, each taken as the last; all of the
            network's widths by default.
        width, seconds: as those of `numeric.flow`.

    Returns:
        On the axis `layer`, for networks of so many layers, but those whose last one is a skip
        around one matrix: `stable` and `fastest`, the limits; stable1, fastest1, the coefficients
        of 1/n of their means; `stable_variance`, `fastest_variance`, those of their variances; and
        with an axis `level`, from the largest, `eigenvalue`, `eigenvalue1` and
        `eigenvalue_variance`. Beside each stands `…_error`, what the errors of the tensors and
        rounding change.

    Raises:
        InputError: for arguments that cannot be used, exchangeable inputs among them, and as
            `numeric.flow` does; for dropout; for a skip around one matrix as the last layer; where
            eigenvalues of Θ meet, of inputs related by a symmetry for one, and fluctuations part
            them; where Θ is 0.

    >>> from derive import Network
    >>> table = learning_rate(Network("tanh"), [1.0, 0.5], depth=2)
    >>> table["stable"].to_numpy().round(4), table["stable_variance"].to_numpy().round(4)
    (array([1.2308, 0.9067]), array([0.    , 0.3858]))
    """
    _, group = checked_network(net, depth)
    if isinstance(inputs, Exchangeable):
        wanted = (
            "ordinary inputs: of exchangeable ones all eigenvalues of Θ but one are equal, and "
        )
        raise InputError("inputs", str(inputs), wanted + "fluctuations part them")
    X = inputs_of(net, inputs)
    samples = len(X) * math.prod(net.layer.output_axes)
    names = {name.label: name for name in (named("Theta"), named("Theta1"))}
    names |= {factor.name.label: factor.name for factor in fluctuations(group)}
    asked = list(names.values())
    table = tensors_of(net, X, depth, asked, width=width, seconds=seconds)
    every = list(map(int, table["layer"].to_numpy()))
    layers = sorted(set(every).difference(skips(net, every[-1])))
    rows = []
    for layer in layers:
        values, errors = tensors_at(table, layer, names, samples)
        _check_moves(values["Theta"], X, layer)
        rows.append(with_errors(values, errors, partial(_rates, layer=layer, group=group)))
    arrays = {}
    for name in rows[0]:
        dims = ("layer", "level")[: 1 + rows[0][name][0].ndim]
        about = {"long_name": _MEANINGS[name]}
        arrays[name] = xarray.Variable(dims, np.array([row[name][0] for row in rows]), about)
        errors_of = np.array([row[name][1] for row in rows])
        arrays[f"{name}_error"] = xarray.Variable(dims, errors_of)
    return layout.dataset(arrays, np.array(layers), {"training": samples}, net=net, inputs=X)


_MEANINGS = {
    "eigenvalue": "eigenvalue of the tangent kernel, at infinite width",
    "eigenvalue1": "coefficient of 1/n in the mean of an eigenvalue",
    "eigenvalue_variance": "coefficient of 1/n in the variance of an eigenvalue",
    "stable": "largest stable learning rate, at infinite width",
    "stable1": "coefficient of 1/n in the mean of the largest stable learning rate",
    "stable_variance": "coefficient of 1/n in its variance",
    "fastest": "fastest learning rate, at infinite width",
    "fastest1": "coefficient of 1/n in the mean of the fastest learning rate",
    "fastest_variance": "coefficient of 1/n in its variance",
}


def _check_moves(theta: Array, X: Array, layer: int) -> None:
    """Raise InputError if Θ is 0, because any rate is stable then."""
    if theta.any():
        return
    wanted = f"that change the outputs of layer {layer}: Θ is 0 on the training set"
    if X.any():
        raise InputError("net", Words("rates λ_b and λ_W without effect"), f"rates {wanted}")
    raise InputError("inputs", Words("0 alone, and λ_b = 0"), f"inputs, or λ_b, {wanted}")


def _rates(tensors: Mapping[str, Array], layer: int, group: str) -> dict[str, Array]:
    values, U = np.linalg.eigh(tensors["Theta"])
    values, U = values[::-1], U[:, ::-1]
    pairs = np.zeros((len(values),) * 4)
    for factor in fluctuations(group):
        own = tensors[factor.name.label]
        for _ in range(4):
            own = np.tensordot(own, U, axes=(0, 0))
        pairs += np.transpose(own, np.argsort(factor.labels))
    along = np.einsum("ab,ai,bi->i", tensors["Theta1"], U, U)
    mixed = np.einsum("abab->ab", pairs)
    gaps = values[:, None] - values
    meets = (np.abs(gaps) <= _SIMPLE * values[0]) & (mixed > _SIMPLE * values[0] ** 2)
    np.fill_diagonal(meets, val=False)
    if meets.any():
        got = f"{len(values)}, for which eigenvalues of Θ meet at layer {layer}"
        raise InputError("inputs", got, "inputs for which Θ on the training set has simple ones")
    away = np.abs(gaps) > _SIMPLE * values[0]
    repelled = np.divide(mixed, gaps, out=np.zeros_like(mixed), where=away).sum(axis=1)
    mean, spread = along + repelled, np.einsum("aabb->ab", pairs)
    found = {
        "eigenvalue": values,
        "eigenvalue1": mean,
        "eigenvalue_variance": spread.diagonal().copy(),
    }
    last = np.flatnonzero(values > SINGULAR * values[0])[-1]
    for name, chosen in (("stable", [0]), ("fastest", [0, last])):
        total = values[chosen].sum()
        first = mean[chosen].sum() / total
        second = spread[np.ix_(chosen, chosen)].sum() / total**2
        found[name] = np.asarray(2.0 / total)
        found[f"{name}1"] = np.asarray(2.0 / total * (second - first))
        found[f"{name}_variance"] = np.asarray((2.0 / total) ** 2 * second)
    return found
