"""The table of trained networks: an axis `step`, then samples, then outputs where they are many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray

from derive.engine.tensors import Name
from derive.network import Network
from derive.training.averages import OUTPUTS

from ..arrays import Array
from ..tables import layout

_MEANINGS = {name: output.meaning for name, output in OUTPUTS.items()} | {
    "loss": "mean over initializations of the training loss",
    "stopped": "share of the networks that have stopped",
}
"""The variables, in words."""

_INDICES = {name: output.indices for name, output in OUTPUTS.items()}
"""The samples of each; of others none."""


def dataset(
    net: Network,
    X: Array,
    targets: Array,
    steps: Sequence[float] | None,
    found: Mapping[str, Array],
    about: Mapping[str, int | float | str],
) -> xarray.Dataset:
    """The table of these values, ([steps,] samples …, outputs …), twins among them.

    Arguments:
        X: (samples, n_0), the training set first; or (signals, positions, n_0).
        steps: None of a table that has no such axis.
        targets: (training samples, outputs).
    """
    training, outputs = targets.shape
    arrays = {}
    for name, values in found.items():
        plain = name.partition("_")[0]
        kind = plain.rstrip("1")
        indices = _INDICES.get(kind, 0)
        first = [] if steps is None else ["step"]
        dims = [*first, *(f"sample_{k}" for k in range(1, indices + 1))]
        if outputs > 1:
            dims += [f"output_{k}" for k in range(1, indices + 1)]
        shape = values.shape[: len(first) + indices] + ((outputs,) * indices if outputs > 1 else ())
        text = {} if plain != name else {"long_name": _meaning(plain, kind)}
        arrays[name] = xarray.Variable(dims, values.reshape(shape), text)
    attributes = {"training": training, "outputs": outputs, **about}
    table = layout.dataset(arrays, (), attributes, net=net).drop_vars("layer")
    if steps is not None:
        table = table.assign_coords(step=np.asarray(steps, float))
    return table.assign_coords(
        inputs=(layout.input_dims(net, X.ndim), np.array(X)),
        targets=(("training", "output"), np.array(targets)),
    )


def tensors_at(
    table: xarray.Dataset, layer: int, names: Mapping[str, Name], samples: int
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The tensors of a layer, an axis a subscript, and their errors, from a table of `flow`."""

    def of(ending: str) -> dict[str, Array]:
        here = {label: table[f"{label}{ending}"].sel(layer=layer).to_numpy() for label in names}
        return {
            label: each.reshape((samples,) * len(names[label].subscripts))
            for label, each in here.items()
        }

    return of(""), of("_error")


def _meaning(name: str, kind: str) -> str:
    return _MEANINGS[kind] if name == kind else f"coefficient of 1/n in the {_MEANINGS[kind]}"
