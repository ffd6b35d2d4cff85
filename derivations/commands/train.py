"""The command `wickgarten train`: descent by theory, and networks that are really trained."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from derive.errors import InputError, as_integer
from derive.work.defaults import DRAWS

from ..files import make_directory
from . import options, plots, rows

if TYPE_CHECKING:
    import numpy as np
    import xarray
    from numpy.typing import NDArray

    from derive import Network

_HEADER = ("width", "variable", "step", "indices", "value", "error")
_CLASSES = 10
_SIDE = 4
"""Pixels of a side that digits are averaged to: few numbers, so that orthogonal layers of any
width of 16 or more extrapolate."""


def arguments(command: argparse.ArgumentParser) -> None:
    """The options of `wickgarten train`."""
    options.network_arguments(command)
    command.add_argument("--depth", type=int, default=4, help="layers, the outputs' among them")
    command.add_argument(
        "--data",
        metavar="SOURCE",
        default="digits",
        help="digits, mnist5k, mnist:FOLDER or cifar10:FOLDER, averaged to 4×4 pixels; or a .csv "
        "or .npy file whose last columns are the targets; of convolutions the positions are equal "
        "parts of each, rows of pixels where there are 4",
    )
    command.add_argument("--train", type=int, default=4, metavar="N", help="training inputs")
    command.add_argument("--test", type=int, default=2, metavar="T", help="test inputs")
    command.add_argument(
        "--outputs",
        type=int,
        default=1,
        help="of the network; of images 1 is an even (1) or odd (−1) label, k are the labels below "
        "k",
    )
    command.add_argument("--eta", type=float, help="η; half of the largest stable one by default")
    command.add_argument(
        "--steps",
        type=float,
        nargs="+",
        default=[0, 1, 10, 100],
        help="numbers of steps; inf is the limit, by theory",
    )
    command.add_argument("--width", type=int, nargs="+", help="train networks of these widths too")
    command.add_argument("--draws", type=int, default=DRAWS, help="networks of each width")
    command.add_argument("--seed", type=int, default=0, help="of data and of the ensembles")
    command.add_argument("--run", metavar="DIR", help="keep the networks there, resume, extend")
    command.add_argument("--progress", action="store_true", help="show a bar")
    command.add_argument("--compare", action="store_true", help="z-scores against theory")
    rows.arguments(command)
    plots.argument(command, "theory, with --compare beside the networks,")


def run(given: argparse.Namespace) -> int:
    """Print theory and ensembles; 1 where they disagree."""
    import numpy as np

    from numeric import compare, flow, plot, training

    if given.run is not None:
        make_directory("--run", given.run)
    if given.compare and not given.width:
        raise InputError("--compare", True, "--width, of the networks to be trained")
    net = options.network(given)
    data = _data(given, net)
    depth = as_integer("--depth", given.depth, 1)
    eta = given.eta
    if eta is None:
        theta = flow(net, data[0], depth, "Theta")["Theta"].to_numpy()[-1]
        eta = 1 / float(np.linalg.eigvalsh(np.atleast_2d(theta))[-1])
    theory = training.flow(net, *data, depth, eta, given.steps, given.outputs)
    tables = [theory]
    finite = [t for t in given.steps if math.isfinite(t)]
    for width in given.width or ():
        if not finite:
            raise InputError("--steps", given.steps, "a finite number of steps, to train networks")
        run = None if given.run is None else f"{given.run}/width-{width}"
        tables.append(
            training.simulate(
                net,
                *data,
                width,
                depth,
                eta,
                finite,
                given.draws,
                given.seed,
                given.outputs,
                run=run,
                progress=given.progress,
            )
        )
    written = rows.are_written(given, _HEADER, chain.from_iterable(map(_rows, tables)))
    if not written:
        print(_text(theory, eta))
    if not given.compare:
        if given.plot is not None:
            plots.save(plot(theory), given.plot)
        return 0
    degree = 1 if len(set(given.width)) > 1 else None
    comparison = compare(theory, tables[1:], degree=degree)
    print(comparison if written else f"\n{comparison}")
    if given.plot is not None:
        plots.save(comparison.plot(), given.plot)
    return 0 if comparison.agrees else 1


def _data(
    given: argparse.Namespace, net: Network
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64] | None]:
    """Training inputs, their targets, and test inputs."""
    import numpy as np

    from numeric import checks

    train, test = as_integer("--train", given.train, 1), as_integer("--test", given.test, 0)
    outputs = as_integer("--outputs", given.outputs, 1)
    of_file = given.data.endswith((".csv", ".npy"))
    axes = net.layer.input_axes
    if net.layer.output_axes:
        wanted = "a readout behind convolutions, readout=mean or flatten, as inputs have targets"
        raise InputError("--layer", str(net.layer), wanted)
    inputs, targets = (_file if of_file else _images)(given.data, outputs, axes)
    if train + test > len(inputs):
        raise InputError("--train", f"{train} and {test}", f"{len(inputs)} inputs at most")
    chosen = np.random.default_rng(checks.seed(given.seed)).permutation(len(inputs))[: train + test]
    X = inputs[chosen]
    return X[:train], targets[chosen[:train]], X[train:] if test else None


def _images(
    text: str, outputs: int, axes: tuple[int, ...] = ()
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    from derivations.training.data import source

    if outputs > _CLASSES:
        raise InputError("--outputs", outputs, f"{_CLASSES} at most, of images")
    try:
        of = source(text, "--data")
    except InputError as error:
        wanted = f"a .csv or .npy file of numbers, or images: {error.wanted}"
        raise InputError("--data", text, wanted) from None
    images = options.loaded(of)
    coarse = images.coarser(images.shape[-1] // _SIDE)
    channels = 1 if len(images.shape) == 2 else images.shape[0]
    X, label = coarse.pixels / of.brightest, images.labels
    X = _signals(X, axes, channels) if axes else X
    if outputs == 1:
        return X, np.asarray(1.0 - 2.0 * (label[:, None] % 2), np.float64)
    kept = label < outputs
    return X[kept], np.eye(outputs)[label[kept]]


def _signals(X: NDArray[np.float64], axes: tuple[int, ...], channels: int) -> NDArray[np.float64]:
    """(inputs, positions, n_0), from the numbers of one channel behind those of the other."""
    count, positions = X.shape[1] // channels, math.prod(axes)
    if count % positions:
        wanted = f"as many positions as divide the {count} numbers of an input"
        raise InputError("--layer", f"{positions} positions", wanted)
    if len(axes) > 1 and count != positions:
        raise InputError("--layer", f"{positions} positions", f"{count} positions, one a pixel")
    parts = X.reshape(len(X), channels, positions, -1)
    return parts.swapaxes(1, 2).reshape(len(X), *axes, -1)


def _file(
    source: str, outputs: int, axes: tuple[int, ...] = ()
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    wanted = "a .csv or .npy file of numbers"
    if not os.path.exists(source):
        raise InputError("--data", source, f"{wanted}; there is no such file")
    table = np.atleast_2d(options.numbers("--data", source, wanted))
    if table.ndim != 2 or table.shape[1] <= outputs:
        wanted = f"rows of inputs and then {outputs} targets"
        raise InputError("--data", f"{source} of shape {table.shape}", wanted)
    X = table[:, :-outputs]
    return _signals(X, axes, 1) if axes else X, table[:, -outputs:]


def _text(theory: xarray.Dataset, eta: float) -> str:
    """Mean and variance of the first output at each sample: limits, and coefficients of 1/n."""
    training, outputs = theory.attrs["training"], theory.attrs["outputs"]
    first = {f"output_{k}": 0 for k in (1, 2)} if outputs > 1 else {}
    lines = [
        f"{theory.attrs['network']}, {theory.attrs['depth']} layers, η = {eta:.6g}, "
        f"{training} training inputs" + (f", output 1 of {outputs}" if outputs > 1 else ""),
        "{:>8}  {:>10}  {:>12} {:>14}  {:>12} {:>14}".format(
            "step", "sample", "mean", "+ …/n", "variance", "+ …/n"
        ),
    ]
    for step in theory["step"].to_numpy():
        at = theory.sel(step=step).isel({k: v for k, v in first.items() if k in theory.dims})
        for sample in range(at.sizes["sample_1"]):
            kind = f"train {sample + 1}" if sample < training else f"test {sample - training + 1}"
            values = [
                *(float(at[f"prediction{ending}"][sample]) for ending in ("", "1")),
                *(float(at[f"covariance{ending}"][sample, sample]) for ending in ("", "1")),
            ]
            shown = [0.0 if abs(value) < 1e-12 else value for value in values]
            lines.append(
                f"{step:8g}  {kind:>10}  {shown[0]:12.6g} {shown[1]:14.6g}  "
                f"{shown[2]:12.6g} {shown[3]:14.6g}"
            )
        lines.append(
            f"{step:8g}  {'loss':>10}  {float(at['loss']):12.6g} {float(at['loss1']):14.6g}"
        )
    return "\n".join(lines)


def _rows(table: xarray.Dataset) -> Iterator[tuple[rows.Cell, ...]]:
    """One for each number, with the cells of the header; theory has no width."""
    import numpy as np

    from numeric.tables.layout import tensors

    width = table.attrs.get("width", "")
    steps = [int(t) if t.is_integer() else t for t in map(float, table["step"].to_numpy())]
    for name in tensors(table):
        ending = "_se" if width else "_error"
        values, errors = (table[each].to_numpy() for each in (name, name + ending))
        for place in np.ndindex(values.shape):
            indices = " ".join(str(k + 1) for k in place[1:])
            value, error = float(values[place]), float(errors[place])
            yield width, name, steps[place[0]], indices, value, error
